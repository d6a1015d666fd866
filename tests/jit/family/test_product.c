/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/jit/family/rig.h"

#define N(...) (const i64[]){__VA_ARGS__}

static void begin(rig *r, int n_labels, const i64 *len, const i64 *a, const i64 *b, const i64 *c)
{
    rig_begin(r, OP_MAP, n_labels, len, NULL);
    rig_in(r, a, 3);
    rig_in(r, b, 1);
    rig_out(r, c, 2);
    rig_merge(r, MERGE_SUM, 1);
    r->node.body[0] = rig_expr(r, "x0 * x1", "x", 2);
    r->node.product = true;
}

static void check(rig *r, step_kind kind, int n_batch)
{
    double *want = rig_expected(r, &r->job.out[0]);
    i64 at[MAX_LABELS] = {0};
    const view *a = &r->job.in[0], *b = &r->job.in[1], *c = &r->job.out[0];
    do {
        double *to = &want[rig_index(r, c, at)];
        double x = (double)rig_floats(r, a)[rig_index(r, a, at)];
        x *= (double)rig_floats(r, b)[rig_index(r, b, at)];
        *to = *to == (double)CANARY ? x : *to + x;
    } while (rig_any(r) && rig_next(r, at));
    rig_run(r);
    rig_compare(r, c, want, 3e-6);
    assert_int_equal(r->launch.kind, kind);
    if (kind == STEP_GEMM) assert_int_equal(r->launch.gemm.n_batch, n_batch);
    ein__free(want);
    rig_end(r);
}

/* Labels m, n, k; every storage order of the operands; gaps between rows. */
static void orders(void **state)
{
    const i64 m = 5, n = 7, k = 9;
    (void)state;
    for (int order = 0; order < 8; order++) {
        rig r;
        begin(&r, 3, N(m, n, k), order & 1 ? N(1, 0, m + 2) : N(k + 1, 0, 1),
              order & 2 ? N(0, 1, n) : N(0, k, 1), order & 4 ? N(1, m, 0) : N(n + 4, 1, 0));
        check(&r, STEP_GEMM, 0);
    }
}

/* Extents of 1 need no stride. */
static void thin(void **state)
{
    (void)state;
    for (int which = 0; which < 6; which++) {
        rig r;
        i64 m = which & 1 ? 1 : 4, n = which & 2 ? 1 : 6, k = which == 4 ? 1 : 8;
        begin(&r, 3, N(m, n, k), N(k, 0, 1), N(0, k, 1), N(n, 1, 0));
        check(&r, k == 1 ? STEP_KERNEL : STEP_GEMM, 0);
    }
}

/* Rows of two labels that lie one after the other are one; if there is a gap they are batch. */
static void rows_of_two(void **state)
{
    (void)state;
    for (int gap = 0; gap < 2; gap++) {
        rig r; /* b s n k */
        begin(&r, 4, N(3, 4, 6, 5), N(20 + gap, 5, 0, 1), N(0, 0, 5, 1), N(24, 6, 1, 0));
        check(&r, STEP_GEMM, gap);
    }
}

/* Scores of grouped heads: b h g s t d; the group joins s only where q is [b h g s d]. */
static void scores(void **state)
{
    const i64 b = 2, h = 2, g = 3, s = 4, t = 5, d = 6;
    (void)state;
    for (int order = 0; order < 2; order++) {
        rig r;
        const i64 *q = order == 0 ? N(h * g * s * d, g * s * d, s * d, d, 0, 1)
                                  : N(s * h * g * d, g * d, d, h * g * d, 0, 1);
        begin(&r, 6, N(b, h, g, s, t, d), q, N(h * t * d, t * d, 0, 0, d, 1),
              N(h * g * s * t, g * s * t, s * t, t, 1, 0));
        check(&r, STEP_GEMM, order == 0 ? 1 : 3);
    }
}

/* Not products for a library: k of two separate dimensions, no unit stride, an operand's own sum, a result
 * with gaps, an empty k. */
static void left_to_maps(void **state)
{
    (void)state;
    rig r;
    begin(&r, 4, N(3, 4, 5, 6), N(31, 0, 6, 1), N(0, 1, 4, 20), N(4, 1, 0, 0));
    check(&r, STEP_KERNEL, 0);
    begin(&r, 3, N(3, 4, 5), N(20, 0, 2), N(0, 5, 1), N(4, 1, 0));
    check(&r, STEP_KERNEL, 0);
    begin(&r, 3, N(3, 4, 5), N(5, 0, 1), N(0, 1, 0), N(4, 1, 0));
    check(&r, STEP_KERNEL, 0);
    begin(&r, 3, N(3, 4, 5), N(5, 0, 1), N(0, 5, 1), N(8, 2, 0));
    check(&r, STEP_KERNEL, 0);
    begin(&r, 3, N(3, 4, 0), N(5, 0, 1), N(0, 5, 1), N(4, 1, 0));
    rig_run(&r);
    assert_int_equal(r.launch.kind, STEP_KERNEL);
    for (int i = 0; i < 12; i++) assert_true(rig_floats(&r, &r.job.out[0])[2 + i] == 0);
    rig_end(&r);
}

static void nothing(void **state)
{
    rig r;
    (void)state;
    begin(&r, 3, N(0, 4, 5), N(5, 0, 1), N(0, 5, 1), N(4, 1, 0));
    rig_run(&r);
    assert_int_equal(r.launch.grid[0], 0);
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(orders), cmocka_unit_test(thin),
                                       cmocka_unit_test(rows_of_two), cmocka_unit_test(scores),
                                       cmocka_unit_test(left_to_maps), cmocka_unit_test(nothing)};
    return cmocka_run_group_tests(tests, NULL, rig_unload);
}
