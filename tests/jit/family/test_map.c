/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/jit/family/rig.h"

#define N(...) (const i64[]){__VA_ARGS__}

/* What a body reads at a point: operands, then indices. */
static void arguments(const rig *r, const i64 *at, double *x)
{
    for (int i = 0; i < r->job.n_in; i++) x[i] = rig_get(r, &r->job.in[i], rig_index(r, &r->job.in[i], at));
    for (int i = 0; i < r->node.n_indices; i++)
        x[r->job.n_in + i] = (double)(r->job.box.lo[r->node.indices[i]] + at[r->node.indices[i]]);
}

/* The states at a point of the parallel labels, one element after the other. */
static void aggregate(const rig *r, uint32_t aggregated, const i64 *point, double *states)
{
    const merge *m = r->node.spec.merge;
    rig inner = *r; /* of the aggregated labels alone */
    i64 at[MAX_LABELS];
    memcpy(at, point, sizeof at);
    memcpy(states, m->identity, sizeof m->identity);
    for (int l = 0; l < r->node.spec.n_labels; l++)
        if (!(aggregated >> l & 1)) inner.job.box.len[l] = 1;
    if (!rig_any(&inner)) return;
    i64 step[MAX_LABELS] = {0};
    do {
        double x[MAX_OPERANDS + MAX_INDICES], both[2 * MAX_STATES];
        for (int l = 0; l < r->node.spec.n_labels; l++) at[l] = point[l] + step[l];
        arguments(r, at, x);
        for (int k = 0; k < m->n_states; k++) {
            both[k] = states[k];
            both[m->n_states + k] = ein__expr_eval(&r->node.body[k], x);
        }
        for (int k = 0; k < m->n_states; k++) states[k] = ein__expr_eval(&m->combine[k], both);
    } while (rig_next(&inner, step));
}

/* What the job must write, by the definition of a map. */
static void expect_map(const rig *r, double *const *want)
{
    const merge *m = r->node.spec.merge;
    uint32_t aggregated = m != NULL ? ein__spec_aggregated(&r->node.spec) : 0;
    rig outer = *r; /* of the parallel labels alone */
    i64 at[MAX_LABELS] = {0};
    for (int l = 0; l < r->node.spec.n_labels; l++)
        if (aggregated >> l & 1) outer.job.box.len[l] = 1;
    if (!rig_any(&outer)) return;
    do {
        double x[MAX_OPERANDS + MAX_INDICES];
        if (m != NULL) aggregate(r, aggregated, at, x);
        else arguments(r, at, x);
        for (int o = 0; o < r->job.n_out; o++) {
            const expr *f = m == NULL ? &r->node.body[0] : &m->finalize[o];
            bool state = m != NULL && (r->job.mode == JOB_STATES || f->n == 0);
            want[o][rig_index(r, &r->job.out[o], at)] = state ? x[o] : ein__expr_eval(f, x);
        }
    } while (rig_next(&outer, at));
}

static void check_map(rig *r)
{
    double *want[MAX_STATES];
    bool wide = false;
    for (int i = 0; i < r->job.n_in; i++) wide |= r->job.in[i].dtype == EIN_F64;
    for (int o = 0; o < r->job.n_out; o++) want[o] = rig_expected(r, &r->job.out[o]);
    expect_map(r, want);
    rig_run(r);
    for (int o = 0; o < r->job.n_out; o++) {
        rig_compare(r, &r->job.out[o], want[o], wide ? 1e-13 : 2e-6);
        ein__free(want[o]);
    }
}

static void body(rig *r, const char *source) { r->node.body[0] = rig_expr(r, source, "x", r->job.n_in + r->node.n_indices); }

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

/* Many operands in many loops that cannot be joined: no text spills (the rig compiles it for the GPUs). */
static void many_loops(void **state)
{
    static const struct { int operands, loops; ein_dtype dtype; } cases[] = {
        {2, 8, EIN_F32}, {4, 8, EIN_F32}, {7, 7, EIN_I64}, {7, 8, EIN_F32}, {12, 9, EIN_F32}, {12, 9, EIN_F64}};
    (void)state;
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        rig r;
        text product = {0};
        int n = cases[i].loops;
        i64 lengths[10] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, out[10] = {0};
        lengths[n] = 35;
        out[n] = 1;
        rig_begin(&r, OP_MAP, n + 1, lengths, NULL);
        for (int x = 0; x < cases[i].operands; x++) {
            i64 stride[10] = {0};
            for (int l = 0; l < n; l++) stride[l] = 1 << (l * (x + 1) + x) % (n | 1); /* an order of its own */
            stride[n] = x % 2 == 0 ? 1 << (n | 1) : 0;
            rig_in_typed(&r, cases[i].dtype, stride, 0);
            ein__text_add(&product, cases[i].dtype == EIN_I64 ? "%sx%d" : "%s(1 + 0.25 * x%d)", x > 0 ? " * " : "", x);
        }
        rig_out_typed(&r, cases[i].dtype, out, 0);
        rig_merge_typed(&r, MERGE_SUM, 1, cases[i].dtype);
        body(&r, ein__text_get(&product));
        check_map(&r);
        ein__text_free(&product);
        rig_end(&r);
    }
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

static const ein_dtype types[] = {EIN_F32, EIN_F64, EIN_BF16, EIN_F16, EIN_I8, EIN_I32, EIN_I64, EIN_BOOL};

/* Every type to itself and, mixed, to the others. */
static void element_types(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++)
        for (int other = 1; other < 8; other += 3) {
            rig r;
            rig_begin(&r, OP_MAP, 2, N(9, 71), NULL);
            rig_in_typed(&r, types[i], N(73, 1), 2);
            rig_in_typed(&r, types[(i + other) % 8], N(0, 1), 1);
            rig_out_typed(&r, types[other == 7 ? EIN_BOOL - 1 : i], N(71, 1), 3);
            body(&r, other == 7 ? "x0 < x1" : types[i] == EIN_BOOL ? "x0 != x1" : "trunc(x0 - x1 * 0.25)");
            if (other != 7 && types[i] == EIN_I8) body(&r, "max(-9, min(x0, x0 + 1))");
            check_map(&r);
            rig_end(&r);
        }
}

static void unconverted(void **state)
{
    static const ein_dtype narrow[] = {EIN_BF16, EIN_I8};
    (void)state;
    for (int i = 0; i < 2; i++) { /* a copy is of bits: a signalling NaN stays */
        rig r;
        rig_begin(&r, OP_MAP, 1, N(40), NULL);
        view *x = rig_in_typed(&r, narrow[i], N(-1), 39);
        if (i == 0) *(uint16_t *)rig_at(&r, x, 7) = 0x7f81;
        view *y = rig_out_typed(&r, narrow[i], N(1), 0);
        body(&r, "x0");
        check_map(&r);
        for (i64 k = 0; k < 40; k++)
            assert_memory_equal(rig_at(&r, x, 39 - k), rig_at(&r, y, k), (size_t)ein__dtype_bytes(narrow[i]));
        rig_end(&r);
    }
}

/* One-state merges of other types: [rows, cols] over cols (the lane across) and over rows (parallel). */
static void typed_reductions(void **state)
{
    static const struct { ein_dtype in, of, out; merge_kind kind; double scale; const char *body; } cases[] = {
        {EIN_I32, EIN_I64, EIN_I64, MERGE_SUM, 1, "x0"},     {EIN_BOOL, EIN_BOOL, EIN_BOOL, MERGE_MAX, 1, "x0"},
        {EIN_BOOL, EIN_BOOL, EIN_BOOL, MERGE_MIN, 1, "x0"},  {EIN_F64, EIN_F64, EIN_F64, MERGE_SUM, 0.5, "x0 * x0"},
        {EIN_F64, EIN_F64, EIN_F64, MERGE_MAX, 1, "x0"},     {EIN_BF16, EIN_BF16, EIN_BF16, MERGE_SUM, 1, "x0 * x0"},
        {EIN_F16, EIN_F16, EIN_F16, MERGE_PROD, 1, "x0 + 1"}, {EIN_I8, EIN_I32, EIN_I32, MERGE_MAX, 1, "x0 * x0"},
        {EIN_I32, EIN_F32, EIN_F32, MERGE_SUM, 0.25, "x0 * x0"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int axis = 0; axis < 2; axis++)
            for (int empty = 0; empty < 2 - axis; empty++) {
                rig r;
                rig_begin(&r, OP_MAP, 2, axis == 0 ? N(empty ? 0 : 9, 70) : N(9, empty ? 0 : 70), NULL);
                rig_in_typed(&r, cases[i].in, N(70, 1), 1);
                rig_out_typed(&r, cases[i].out, axis == 0 ? N(0, 1) : N(1, 0), 0);
                rig_merge_typed(&r, cases[i].kind, cases[i].scale, cases[i].of);
                r.job.mode = empty ? JOB_STATES : JOB_FINAL;
                body(&r, cases[i].body);
                check_map(&r);
                rig_end(&r);
            }
}

/* The index of a label is global, and an argument like others. */
static void indices(void **state)
{
    static const ein_dtype made[] = {EIN_I64, EIN_F32, EIN_BF16};
    (void)state;
    for (int i = 0; i < 3; i++) { /* nothing but an index */
        rig r;
        rig_begin(&r, OP_MAP, 1, N(90), N(37));
        rig_out_typed(&r, made[i], N(1), 2);
        rig_index_of(&r, 0);
        body(&r, "x0 * 2 - 5");
        check_map(&r);
        rig_end(&r);
    }
    for (int axes = 0; axes < 4; axes++) { /* beside an operand, and aggregated */
        rig r;
        rig_begin(&r, OP_MAP, 3, N(3, 40, 50), N(1, 10, 20));
        rig_in(&r, N(2000, 50, 1), 0);
        rig_out(&r, axes == 0 ? N(2000, 50, 1) : axes == 1 ? N(40, 1, 0) : axes == 2 ? N(50, 0, 1) : N(0, 0, 0), 1);
        rig_index_of(&r, 2);
        rig_index_of(&r, 1);
        if (axes > 0) rig_merge(&r, MERGE_SUM, 1);
        body(&r, "where(x1 <= x2 + 5, x0, 0)");
        check_map(&r);
        rig_end(&r);
    }
}

static void constant(void **state)
{
    (void)state;
    for (int sum = 0; sum < 2; sum++) {
        rig r;
        rig_begin(&r, OP_MAP, 2, N(6, 7), NULL);
        rig_out_typed(&r, EIN_F16, sum ? N(1, 0) : N(7, 1), 1);
        if (sum) rig_merge_typed(&r, MERGE_SUM, 1, EIN_F16);
        body(&r, "1.5");
        check_map(&r);
        rig_end(&r);
    }
}

static void set_bodies(rig *r, merge_kind kind)
{
    int n = r->job.n_in;
    if (kind == MERGE_ARGMAX || kind == MERGE_ARGMIN) rig_index_of(r, 1);
    n += r->node.n_indices;
    const char *second = n > r->job.n_in ? "x1" : kind == MERGE_WELFORD ? "x0" : "1";
    r->node.body[0] = rig_expr(r, kind == MERGE_WELFORD ? "1" : "x0", "x", n);
    r->node.body[1] = rig_expr(r, second, "x", n);
    r->node.body[2] = rig_expr(r, "0", "x", n);
}

/* Merges of several states over the second label, which is contiguous (across) or not (parallel). */
static void several_states(void **state)
{
    static const struct { merge_kind kind; ein_dtype dtype; } cases[] = {
        {MERGE_ARGMAX, EIN_F32}, {MERGE_ARGMAX, EIN_I64}, {MERGE_ARGMIN, EIN_BF16}, {MERGE_LOGSUMEXP, EIN_F32},
        {MERGE_WELFORD, EIN_F32}, {MERGE_WELFORD, EIN_F64}};
    static const i64 lengths[] = {300, 40, 0};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int across = 0; across < 2; across++)
            for (int k = 0; k < 2 + across; k++) {
                rig r;
                i64 n = lengths[k];
                rig_begin(&r, OP_MAP, 2, N(45, n), N(0, 100));
                view *x = rig_in_typed(&r, cases[i].dtype, across ? N(n, 1) : N(1, 45), 0);
                for (i64 e = 0; e < r.sizes[0] && cases[i].dtype == EIN_I64; e++) rig_set(&r, x, e, (double)(e * 7 % 5));
                const merge *m = rig_merge_typed(&r, cases[i].kind, 1, cases[i].dtype);
                r.job.mode = k == 1 ? JOB_STATES : JOB_FINAL;
                set_bodies(&r, cases[i].kind);
                for (int o = 0; o < (k == 1 ? m->n_states : m->n_results); o++) {
                    bool index = k != 1 && m->n_results == 1 && m->n_states == 2 && m->compute[1] == EIN_I64;
                    rig_out_typed(&r, index ? EIN_I64 : m->wire[o], o == 1 ? N(2, 0) : N(1, 0), o);
                }
                check_map(&r);
                rig_end(&r);
            }
}

/* An argmax by looking: ties, and NaN. */
static void first_of_equals(void **state)
{
    (void)state;
    for (int across = 0; across < 2; across++) {
        rig r;
        rig_begin(&r, OP_MAP, 2, N(45, 40), N(0, 1000));
        view *x = rig_in(&r, across ? N(40, 1) : N(1, 45), 0);
        for (i64 k = 0; k < 40; k++) rig_set(&r, x, k * x->stride[1], k == 12 || k == 33 ? 7 : 1);
        for (i64 k = 0; k < 40; k++) rig_set(&r, x, x->stride[0] + k * x->stride[1], k == 20 || k == 35 ? NAN : INFINITY);
        for (i64 k = 0; k < 40; k++) rig_set(&r, x, 2 * x->stride[0] + k * x->stride[1], -INFINITY);
        rig_merge(&r, MERGE_ARGMAX, 1);
        set_bodies(&r, MERGE_ARGMAX);
        view *y = rig_out_typed(&r, EIN_I64, N(1, 0), 0);
        rig_run(&r);
        assert_true(rig_get(&r, y, 0) == 1012 && rig_get(&r, y, 1) == 1020 && rig_get(&r, y, 2) == 1000);
        rig_end(&r);
    }
}

/* Steps backwards and windows: two labels step through the same elements. */
static void windows(void **state)
{
    (void)state;
    rig r;
    rig_begin(&r, OP_MAP, 3, N(4, 5, 60), NULL); /* flipped along both */
    rig_in(&r, N(300, -60, -1), 299);
    rig_in(&r, N(-300, 60, 1), 900);
    rig_out(&r, N(300, 60, 1), 1);
    body(&r, "x0 - x1");
    check_map(&r);
    rig_end(&r);
    for (int step = 1; step < 3; step++) { /* a convolution: o, h, w; c, r, s */
        i64 width = 33 * step + 2;
        rig_begin(&r, OP_MAP, 6, N(3, 5, 34, 2, 3, 3), NULL);
        rig_in(&r, N(0, step * width, step, 40 * width, width, 1), 2);
        rig_in(&r, N(18, 0, 0, 9, 3, 1), 0);
        rig_out(&r, N(170, 34, 1, 0, 0, 0), 0);
        rig_merge(&r, MERGE_SUM, 1);
        body(&r, "x0 * x1");
        check_map(&r);
        rig_end(&r);
    }
    rig_begin(&r, OP_MAP, 2, N(50, 40), NULL); /* a running maximum, the last first */
    rig_in_typed(&r, EIN_I32, N(1, -1), 39);
    rig_out_typed(&r, EIN_I32, N(1, 0), 0);
    rig_merge_typed(&r, MERGE_MAX, 1, EIN_I32);
    body(&r, "x0");
    check_map(&r);
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flat), cmocka_unit_test(broadcast), cmocka_unit_test(permuted),
        cmocka_unit_test(reductions), cmocka_unit_test(nan_reaches), cmocka_unit_test(own_merge),
        cmocka_unit_test(einsum), cmocka_unit_test(many_loops), cmocka_unit_test(scalar), cmocka_unit_test(one_text),
        cmocka_unit_test(element_types), cmocka_unit_test(unconverted), cmocka_unit_test(typed_reductions),
        cmocka_unit_test(indices), cmocka_unit_test(constant), cmocka_unit_test(several_states),
        cmocka_unit_test(first_of_equals), cmocka_unit_test(windows)};
    return cmocka_run_group_tests(tests, NULL, rig_unload);
}
