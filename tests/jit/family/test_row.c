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

/* Stage k of the row at `at`, given the earlier ones in `values`, which starts with the operands' room. */
static double statistic(const rig *r, int k, const i64 *at, double *values)
{
    const row_stage *s = &r->node.stages[k];
    bool sum = strcmp(s->merge->name, "sum") == 0;
    double x = sum ? 0 : -INFINITY;
    i64 p[3] = {at[0], at[1], 0};
    for (; p[2] < r->job.box.len[2]; p[2]++) {
        for (int i = 0; i < r->node.spec.n_operands; i++)
            values[i] = (double)rig_floats(r, &r->job.in[i])[rig_index(r, &r->job.in[i], p)];
        double f = ein__expr_eval(&s->body[0], values);
        if (sum) x += f;
        else if (isnan(f) || f > x) x = f;
    }
    return x;
}

static void expect(const rig *r, const view *v, double *want, int stage)
{
    i64 at[3] = {0};
    int n = r->node.spec.n_operands;
    if (r->job.box.len[0] == 0 || r->job.box.len[1] == 0) return;
    for (at[0] = 0; at[0] < r->job.box.len[0]; at[0]++)
        for (at[1] = 0; at[1] < r->job.box.len[1]; at[1]++) {
            double values[MAX_OPERANDS + MAX_STATISTICS];
            at[2] = 0;
            for (int k = 0; k < r->node.n_stages && (stage < 0 || k <= stage); k++)
                values[n + k] = statistic(r, k, at, values);
            if (stage >= 0) want[rig_index(r, v, at)] = values[n + stage];
            for (; at[2] < r->job.box.len[2] && stage < 0; at[2]++) {
                for (int i = 0; i < n; i++)
                    values[i] = (double)rig_floats(r, &r->job.in[i])[rig_index(r, &r->job.in[i], at)];
                want[rig_index(r, v, at)] = ein__expr_eval(&r->node.body[0], values);
            }
        }
}

static void check(rig *r, int stage)
{
    double *want = rig_expected(r, &r->job.out[0]);
    expect(r, &r->job.out[0], want, stage);
    rig_run(r);
    rig_compare(r, &r->job.out[0], want, 4e-6);
    ein__free(want);
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole), cmocka_unit_test(in_two_steps),
                                       cmocka_unit_test(special)};
    return cmocka_run_group_tests(tests, NULL, rig_unload);
}
