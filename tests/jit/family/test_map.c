/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/jit/family/rig.h"

#define N(...) (const i64[]){__VA_ARGS__}

/* What the job must write, by the definition of a map. */
static void check_map(rig *r)
{
    const merge *m = r->node.spec.merge;
    const view *out = &r->job.out[0];
    double *want = rig_expected(r, out);
    i64 at[MAX_LABELS] = {0}, n = r->sizes[out->place.index];
    uint32_t aggregated = m != NULL ? ein__spec_aggregated(&r->node.spec) : 0;
    bool parallel = true, any = rig_any(r);
    for (int l = 0; l < r->node.spec.n_labels; l++)
        parallel &= r->job.box.len[l] > 0 || (aggregated >> l & 1);
    if (m != NULL && parallel) { /* identities, at the points of the parallel labels */
        label_box whole = r->job.box;
        for (int l = 0; l < r->node.spec.n_labels; l++)
            if (aggregated >> l & 1) r->job.box.len[l] = 1;
        do want[rig_index(r, out, at)] = m->identity[0];
        while (rig_next(r, at));
        r->job.box = whole;
    }
    if (any) {
        do {
            double x[MAX_OPERANDS];
            for (int i = 0; i < r->job.n_in; i++)
                x[i] = (double)rig_floats(r, &r->job.in[i])[rig_index(r, &r->job.in[i], at)];
            double f = ein__expr_eval(&r->node.body[0], x), *to = &want[rig_index(r, out, at)];
            *to = m != NULL ? ein__expr_eval(&m->combine[0], (double[]){*to, f}) : f;
        } while (rig_next(r, at));
    }
    if (m != NULL && r->job.mode == JOB_FINAL && m->finalize[0].n > 0)
        for (i64 i = 0; i < n; i++)
            if (want[i] != (double)CANARY) want[i] = ein__expr_eval(&m->finalize[0], &want[i]);
    rig_run(r);
    rig_compare(r, out, want, 2e-6);
    ein__free(want);
}

static void body(rig *r, const char *source) { r->node.body[0] = rig_expr(r, source, "x", r->job.n_in); }

/* [n] with equal views: one loop, whatever the rank. */
static void flat(void **state)
{
    static const i64 sizes[] = {0, 1, 31, 257, 1023, 5000};
    hash128 keys[6];
    (void)state;
    for (int i = 0; i < 6; i++) {
        rig r;
        rig_begin(&r, OP_MAP, 2, N(sizes[i], 3), NULL);
        rig_in(&r, N(3, 1), 0);
        rig_in(&r, N(3, 1), 5);
        rig_out(&r, N(3, 1), 2);
        body(&r, "x0 * sigmoid(x0) + max(x1, 0.25) - x1 / 3");
        check_map(&r);
        keys[i] = r.launch.kernel.key;
        if (sizes[i] == 0) assert_int_equal(r.launch.grid[0], 0);
        rig_end(&r);
    }
    assert_true(ein__hash_equal(keys[4], keys[5]));
}

/* Bias along the inner and the outer label, a scalar, and views with gaps. */
static void broadcast(void **state)
{
    static const i64 rows[] = {1, 7, 40};
    (void)state;
    for (int i = 0; i < 3; i++)
        for (i64 cols = 5; cols < 2000; cols = cols * 13 + 2) {
            rig r;
            rig_begin(&r, OP_MAP, 3, N(2, rows[i], cols), NULL);
            rig_in(&r, N((cols + 3) * 50, cols + 3, 1), 1);
            rig_in(&r, N(0, 0, 1), 0);
            rig_in(&r, N(rows[i], 1, 0), 0);
            rig_in(&r, N(0, 0, 0), 3);
            rig_out(&r, N(1 + rows[i] * (cols + 1), cols + 1, 1), 4);
            body(&r, "x0 * x1 + where(x2 < 0, x3, x2)");
            check_map(&r);
            rig_end(&r);
        }
}

/* The output's order is not the labels'; inputs are transposed; a view is shifted by a run-time scalar. */
static void permuted(void **state)
{
    (void)state;
    for (i64 n = 3; n < 90; n += 40) {
        rig r;
        rig_begin(&r, OP_MAP, 3, N(n, 5, 70), NULL);
        rig_in(&r, N(350, 70, 1), 0);
        rig_in(&r, N(1, 70 * n, n), 0);
        view *shifted = rig_in(&r, N(1, 0, 0), 0);
        shifted->scalar = 1;
        shifted->scalar_stride = 2;
        r.scalars[1] = 3;
        rig_out(&r, N(5, 1, 5 * n), 0);
        body(&r, "abs(x0) + x1 * x2");
        check_map(&r);
        rig_end(&r);
    }
}

/* Sums, maxima, minima and means over the last, the first and all labels, as states and finished. */
static void reductions(void **state)
{
    static const struct { i64 rows, cols; } sizes[] = {{1, 1},   {3, 700}, {90, 64}, {200, 33},
                                                       {40, 5}, {0, 7},   {5, 0}};
    (void)state;
    for (int i = 0; i < 7; i++)
        for (int kind = 0; kind < 4; kind++)
            for (int axes = 0; axes < 3; axes++) {
                rig r;
                i64 rows = sizes[i].rows, cols = sizes[i].cols;
                rig_begin(&r, OP_MAP, 2, N(rows, cols), NULL);
                rig_in(&r, N(cols + 1, 1), 2);
                rig_in(&r, N(1, 0), 0);
                rig_out(&r, axes == 0 ? N(2, 0) : axes == 1 ? N(0, 1) : N(0, 0), 1);
                rig_merge(&r, kind == 3 ? MERGE_SUM : (merge_kind)kind, kind == 3 ? 0.125 : 1);
                r.job.mode = kind == 3 && i % 2 == 1 ? JOB_STATES : JOB_FINAL;
                body(&r, kind == 0 ? "x0 * x1" : "x0 - x1");
                check_map(&r);
                rig_end(&r);
            }
}

/* NaN reaches maxima and minima. */
static void nan_reaches(void **state)
{
    (void)state;
    for (int kind = MERGE_MAX; kind <= MERGE_MIN; kind++)
        for (int axes = 0; axes < 2; axes++) {
            rig r;
            rig_begin(&r, OP_MAP, 2, N(70, 70), NULL);
            view *x = rig_in(&r, N(70, 1), 0);
            rig_floats(&r, x)[70 * 11 + 57] = NAN;
            rig_floats(&r, x)[70 * 12 + 58] = INFINITY;
            rig_floats(&r, x)[70 * 13 + 59] = -INFINITY;
            rig_out(&r, axes == 0 ? N(1, 0) : N(0, 1), 0);
            rig_merge(&r, (merge_kind)kind, 1);
            body(&r, "x0");
            check_map(&r);
            rig_end(&r);
        }
}

/* A merge that is none of the built-in ones: a product, finished by an expression. */
static void own_merge(void **state)
{
    (void)state;
    for (int axes = 0; axes < 3; axes++) {
        rig r;
        merge m = {.name = "product", .n_states = 1, .compute = {EIN_F32}, .wire = {EIN_F32}, .identity = {1}, .n_results = 1};
        rig_begin(&r, OP_MAP, 2, N(50, 300), NULL);
        rig_in(&r, N(300, 1), 0);
        rig_out(&r, axes == 0 ? N(1, 0) : axes == 1 ? N(0, 1) : N(0, 0), 0);
        assert_int_equal(ein__expr_parse(&r.arena, "a0 * b0", "a", 1, "b", 1, &m.combine[0], NULL), EIN_OK);
        m.finalize[0] = rig_expr(&r, "sqrt(a0) - 1", "a", 1);
        r.node.spec.merge = &m;
        body(&r, "1 + x0 * 0.001");
        check_map(&r);
        rig_end(&r);
    }
}

/* Several aggregated labels, several operands: an einsum that no matrix library takes. */
static void einsum(void **state)
{
    (void)state;
    rig r;
    rig_begin(&r, OP_MAP, 5, N(3, 4, 5, 6, 37), NULL); /* a b i j k */
    rig_in(&r, N(4 * 5 * 37, 5 * 37, 37, 0, 1), 0);
    rig_in(&r, N(0, 6 * 37, 0, 37, 1), 0);
    rig_in(&r, N(4, 1, 0, 0, 0), 0);
    rig_out(&r, N(0, 0, 6, 1, 0), 0);
    rig_merge(&r, MERGE_SUM, 1);
    body(&r, "x0 * x1 * x2");
    check_map(&r);
    rig_end(&r);
}

static void scalar(void **state)
{
    (void)state;
    rig r;
    rig_begin(&r, OP_MAP, 0, NULL, NULL);
    rig_in(&r, N(0), 3);
    rig_out(&r, N(0), 2);
    body(&r, "pow(abs(x0), 1.5) + erf(x0) + tanh(x0) + exp(sin(x0)) + cos(x0) + log(2 + x0) + rsqrt(2 + x0) -"
             " relu(x0)");
    check_map(&r);
    rig_end(&r);
}

/* Extents, strides and offsets are arguments. */
static void one_text(void **state)
{
    hash128 keys[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        rig r;
        i64 n = 2000 + 3 * i;
        rig_begin(&r, OP_MAP, 2, N(4 + i, n), NULL);
        rig_in(&r, N(n + i, 1), i);
        rig_in(&r, N(0, 1), 2 * i);
        rig_out(&r, N(n, 1), 0);
        body(&r, "x0 + x1 * 0.3");
        check_map(&r);
        keys[i] = r.launch.kernel.key;
        rig_end(&r);
    }
    assert_true(ein__hash_equal(keys[1], keys[2]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flat), cmocka_unit_test(broadcast), cmocka_unit_test(permuted),
        cmocka_unit_test(reductions), cmocka_unit_test(nan_reaches), cmocka_unit_test(own_merge),
        cmocka_unit_test(einsum), cmocka_unit_test(scalar), cmocka_unit_test(one_text)};
    return cmocka_run_group_tests(tests, NULL, rig_unload);
}
