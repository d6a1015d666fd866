/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/jit/family/rig.h"

#define N(...) (const i64[]){__VA_ARGS__}
enum { ROWS, HEADS, COLS };

/* Labels rows, heads, cols; the row's label is the last. */
static void begin(rig *r, bool softmax, const i64 *len, const i64 *strides)
{
    rig_begin(r, OP_ROW, 3, len, NULL);
    rig_in(r, strides, 3);
    if (!softmax) rig_in(r, N(0, 0, 2), 0);
    r->node.spec.two_step = 1u << COLS;
    int n = r->job.n_in;
    if (softmax) {
        r->node.n_stages = 2;
        r->node.stages[0] = rig_stage(r, MERGE_MAX, rig_expr(r, "x0", "x", n));
        r->node.stages[1] = rig_stage(r, MERGE_SUM, rig_expr(r, "exp(x0 - x1)", "x", n + 1));
        r->node.body[0] = rig_expr(r, "exp(x0 - x1) / x2", "x", n + 2);
    } else {
        r->node.n_stages = 1;
        r->node.stages[0] = rig_stage(r, MERGE_SUM, rig_expr(r, "x0 * x0", "x", n));
        r->node.body[0] = rig_expr(r, "x0 * rsqrt(x2 / 100 + 0.00001) * x1", "x", n + 1);
    }
}

static i64 row_length(const rig *r, int label) { return r->node.spec.two_step >> label & 1 ? r->job.box.len[label] : 1; }

/* Operands, then indices, at a point. */
static int inputs(const rig *r, const i64 *at, double *x)
{
    int n = r->node.spec.n_operands;
    for (int i = 0; i < n; i++) x[i] = rig_get(r, &r->job.in[i], rig_index(r, &r->job.in[i], at));
    for (int i = 0; i < r->node.n_indices; i++)
        x[n + i] = (double)(r->job.box.lo[r->node.indices[i]] + at[r->node.indices[i]]);
    return n + r->node.n_indices;
}

/* The statistics of stage k of the row at `at`, behind those of the earlier stages in `values`, which starts with
 * the inputs' room. */
static void statistics(const rig *r, int k, const i64 *row, double *values)
{
    const row_stage *s = &r->node.stages[k];
    int n = s->merge->n_states, first = r->node.spec.n_operands + r->node.n_indices + ein__node_statistics(&r->node, k);
    double both[2 * MAX_STATES];
    memcpy(values + first, s->merge->identity, (size_t)n * sizeof *values);
    for (i64 i = 0; i < row_length(r, HEADS); i++)
        for (i64 j = 0; j < row_length(r, COLS); j++) {
            inputs(r, (i64[]){row[0], row[1] + i, row[2] + j}, values);
            for (int q = 0; q < n; q++) both[n + q] = ein__expr_eval(&s->body[q], values);
            memcpy(both, values + first, (size_t)n * sizeof *both);
            for (int q = 0; q < n; q++) values[first + q] = ein__expr_eval(&s->merge->combine[q], both);
        }
}

static void expect_row(const rig *r, double *const *want, int stage, const i64 *row)
{
    double values[MAX_OPERANDS + MAX_INDICES + MAX_STATISTICS];
    for (int k = 0; k < r->node.n_stages && (stage < 0 || k <= stage); k++) statistics(r, k, row, values);
    if (stage >= 0) {
        int first = r->node.spec.n_operands + r->node.n_indices + ein__node_statistics(&r->node, stage);
        for (int o = 0; o < r->job.n_out; o++) want[o][rig_index(r, &r->job.out[o], row)] = values[first + o];
        return;
    }
    for (i64 i = 0; i < row_length(r, HEADS); i++)
        for (i64 j = 0; j < row_length(r, COLS); j++) {
            const i64 at[] = {row[0], row[1] + i, row[2] + j};
            inputs(r, at, values);
            want[0][rig_index(r, &r->job.out[0], at)] = ein__expr_eval(&r->node.body[0], values);
        }
}

static void expect(const rig *r, double *const *want, int stage)
{
    i64 heads = r->node.spec.two_step >> HEADS & 1 ? 1 : r->job.box.len[HEADS];
    for (i64 i = 0; i < r->job.box.len[ROWS]; i++)
        for (i64 h = 0; h < heads; h++) expect_row(r, want, stage, (i64[]){i, h, 0});
}

static void check_within(rig *r, int stage, double tolerance)
{
    double *want[MAX_STATES];
    for (int o = 0; o < r->job.n_out; o++) want[o] = rig_expected(r, &r->job.out[o]);
    expect(r, want, stage);
    rig_run(r);
    for (int o = 0; o < r->job.n_out; o++) {
        rig_compare(r, &r->job.out[o], want[o], tolerance);
        ein__free(want[o]);
    }
}

static void check(rig *r, int stage) { check_within(r, stage, 4e-6); }

static void whole(void **state)
{
    static const i64 cols[] = {0, 1, 5, 31, 64, 257, 1500};
    (void)state;
    for (int softmax = 0; softmax < 2; softmax++)
        for (int i = 0; i < 7; i++)
            for (int major = 0; major < 2; major++) {
                rig r;
                i64 n = cols[i], rows = i == 3 ? 100 : 3;
                begin(&r, softmax, N(rows, 2, n), major ? N(2, 1, rows * 2) : N(2 * n + 1, n, 1));
                rig_out(&r, major ? N(2, 1, rows * 2) : N(2 * n, n, 1), 1);
                check(&r, -1);
                rig_end(&r);
            }
}

/* Cut along the row: statistic by statistic, then the application. */
static void in_two_steps(void **state)
{
    (void)state;
    for (int softmax = 0; softmax < 2; softmax++)
        for (i64 n = 0; n < 500; n = n * 20 + 7) {
            rig r;
            begin(&r, softmax, N(4, 2, n), N(2 * n, n, 1));
            r.job.mode = JOB_STAGE;
            for (int k = 0; k < r.node.n_stages; k++) {
                r.job.stage = k;
                r.job.n_out = 0;
                view *s = rig_out(&r, N(3, 1, 0), 1);
                check(&r, k);
                r.job.in[r.job.n_in++] = *s; /* one piece: its statistic is the whole one */
            }
            r.job.mode = JOB_APPLY;
            r.job.n_out = 0;
            rig_out(&r, N(2 * n, n, 1), 1);
            if (n > 0) check(&r, -1);
            rig_end(&r);
        }
}

/* As PyTorch: a row of -inf alone, of a NaN, of +inf is NaN throughout; one -inf among others is 0. */
static void special(void **state)
{
    (void)state;
    for (int major = 0; major < 2; major++) {
        rig r;
        begin(&r, true, N(5, 1, 70), major ? N(1, 0, 5) : N(70, 0, 1));
        view *x = &r.job.in[0];
        i64 row = x->stride[ROWS], col = x->stride[COLS];
        float *f = rig_floats(&r, x) + 3;
        for (int i = 0; i < 70; i++) f[i * col] = -INFINITY;
        f[row + 17 * col] = NAN;
        f[2 * row + 65 * col] = INFINITY;
        f[3 * row + 3 * col] = -INFINITY;
        f[4 * row + 69 * col] = 1e30f;
        rig_out(&r, N(70, 0, 1), 0);
        rig_run(&r);
        const float *y = rig_floats(&r, &r.job.out[0]);
        for (int i = 0; i < 3 * 70; i++) assert_true(isnan(y[i]));
        for (int i = 3 * 70; i < 5 * 70; i++) assert_false(isnan(y[i]));
        assert_true(y[3 * 70 + 3] == 0 && y[4 * 70 + 69] == 1 && y[4 * 70] == 0);
        rig_end(&r);
    }
}

/* Layer norm: one stage of three states. With `group` the row is heads and columns. */
static void begin_norm(rig *r, ein_dtype dtype, bool group, const i64 *len, const i64 *strides)
{
    merge *m;
    ein_dtype compute = ein__dtype_compute(dtype);
    rig_begin(r, OP_ROW, 3, len, NULL);
    rig_in_typed(r, dtype, strides, 3);
    rig_in_typed(r, dtype, group ? N(0, 1, 0) : N(0, 0, 2), 0);
    r->node.spec.two_step = 1u << COLS | (group ? 1u << HEADS : 0);
    assert_int_equal(ein__merge_make(&r->arena, MERGE_WELFORD, 1, compute, &m), EIN_OK);
    r->node.n_stages = 1;
    r->node.stages[0] = (row_stage){m, {rig_expr(r, "1", "x", 2), rig_expr(r, "x0", "x", 2), rig_expr(r, "0", "x", 2)}};
    r->node.body[0] = rig_expr(r, "(x0 - x3) * rsqrt(x4 / x2 + 0.00001) * x1", "x", 5);
}

static void norms(void **state)
{
    static const ein_dtype types[] = {EIN_F32, EIN_BF16, EIN_F64};
    (void)state;
    for (int i = 0; i < 3; i++)
        for (int group = 0; group < 2; group++) {
            rig r;
            i64 n = 100 + 40 * i;
            begin_norm(&r, types[i], group, N(4, 3, n), N(3 * n + 1, n, 1));
            rig_out_typed(&r, types[i], N(3 * n, n, 1), 1);
            check_within(&r, -1, types[i] == EIN_F64 ? 1e-13 : 4e-6);
            rig_end(&r);
        }
}

/* A tree in shared memory for each state: no barrier of it is too many. */
static void barriers(void **state)
{
    rig_start_barriers();
    norms(state);
    assert_int_equal(rig_barriers, 6 * 2);
    rig_barriers = -1;
}

/* Cut: all states of the stage, then the application, which reads them in the merge's types. */
static void norm_in_two_steps(void **state)
{
    (void)state;
    for (i64 n = 0; n < 120; n += 110) {
        rig r;
        begin_norm(&r, EIN_F16, true, N(40, 3, n), N(3 * n, n, 1));
        r.job.mode = JOB_STAGE;
        for (int k = 0; k < 3; k++) rig_out(&r, N(3, 0, 0), k);
        check(&r, 0);
        for (int k = 0; k < 3; k++) r.job.in[r.job.n_in++] = r.job.out[k];
        r.job.mode = JOB_APPLY;
        r.job.n_out = 0;
        rig_out_typed(&r, EIN_F16, N(3 * n, n, 1), 1);
        if (n > 0) check(&r, -1);
        rig_end(&r);
    }
}

/* A softmax over the columns up to the row's own index; indices stand between operands and statistics. */
static void indexed(void **state)
{
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        rig r;
        rig_begin(&r, OP_ROW, 3, N(50, 1, 60), N(10, 0, 0));
        rig_in(&r, N(60, 0, 1), 0);
        rig_index_of(&r, ROWS);
        rig_index_of(&r, COLS);
        r.node.spec.two_step = 1u << COLS;
        r.node.n_stages = 2;
        r.node.stages[0] = rig_stage(&r, MERGE_MAX, rig_expr(&r, "where(x2 <= x1, x0, -1e30)", "x", 3));
        r.node.stages[1] = rig_stage(&r, MERGE_SUM, rig_expr(&r, "where(x2 <= x1, exp(x0 - x3), 0)", "x", 4));
        r.node.body[0] = rig_expr(&r, "where(x2 <= x1, exp(x0 - x3) / x4, 0)", "x", 5);
        for (int k = 0; k < 2 && !whole; k++) {
            r.job.mode = JOB_STAGE;
            r.job.stage = k;
            r.job.n_out = 0;
            view *s = rig_out(&r, N(1, 0, 0), 0);
            check(&r, k);
            r.job.in[r.job.n_in++] = *s;
        }
        r.job.mode = whole ? JOB_FINAL : JOB_APPLY;
        r.job.n_out = 0;
        rig_out(&r, N(60, 0, 1), 1);
        check(&r, -1);
        rig_end(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole), cmocka_unit_test(in_two_steps),
                                       cmocka_unit_test(special), cmocka_unit_test(norms), cmocka_unit_test(barriers),
                                       cmocka_unit_test(norm_in_two_steps), cmocka_unit_test(indexed)};
    return cmocka_run_group_tests(tests, NULL, rig_unload);
}
