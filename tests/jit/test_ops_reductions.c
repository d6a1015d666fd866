/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions, topk, cumsum and cross entropy from end to end: numbers computed by hand, NaN and infinities, ties, every
 * element type, axes that are cut where no search would cut them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/harness/op_trial.h"

#define INF ((double)INFINITY)
#define NOT ((double)NAN) /* no number */
#define AXES(...) (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (int[]){__VA_ARGS__}

static const ein_dtype floats[] = {EIN_F32, EIN_F64, EIN_BF16, EIN_F16};
static const ein_dtype integers[] = {EIN_I8, EIN_I32, EIN_I64};

#define EXPECT(call, type, ...) op_expect(t, #call, call, type, NUMBERS(__VA_ARGS__))

/* ---- sums and extremes ---- */

static void of_floats(op_trial *t, ein_dtype d)
{
    ein_graph *g = t->g;
    ein_tensor x = op_given(t, d, DIMS(2, 3, 2), NUMBERS(1, 2, -3, 0.5, 4, -1, 2, 2, -1, -0.5, 0, 8));
    ein_tensor s = op_given(t, d, DIMS(4, 3), NUMBERS(1, NOT, 2, INF, -INF, 1, -INF, -INF, -INF, INF, 0, 1));
    EXPECT(ein_sum(g, x, AXES(1), 0), d, 2, 1.5, 1, 9.5);
    EXPECT(ein_sum(g, x, 0, NULL, 0), d, 14);
    EXPECT(ein_mean(g, x, AXES(0, 2), 1), d, 1.75, -1, 2.75);
    EXPECT(ein_amax(g, x, AXES(-1), 0), d, 2, 0.5, 4, 2, -0.5, 8);
    EXPECT(ein_amin(g, x, AXES(0, 1), 0), d, -3, -1);
    EXPECT(ein_prod(g, x, AXES(1), 0), d, -12, -1, 0, -8);
    EXPECT(ein_logsumexp(g, x, AXES(1), 0), d, log(exp(1) + exp(-3) + exp(4)), log(exp(2) + exp(0.5) + exp(-1)),
           log(exp(2) + exp(-1) + 1), log(exp(2) + exp(-0.5) + exp(8)));
    EXPECT(ein_sum(g, s, AXES(1), 0), d, NOT, NOT, -INF, INF);
    EXPECT(ein_amax(g, s, AXES(1), 0), d, NOT, INF, -INF, INF);
    EXPECT(ein_amin(g, s, AXES(1), 0), d, NOT, -INF, -INF, 0);
    EXPECT(ein_logsumexp(g, s, AXES(1), 0), d, NOT, INF, -INF, INF);
    EXPECT(ein_any(g, s, AXES(1), 0), EIN_BOOL, 1, 1, 1, 1); /* a NaN is not 0 */
    EXPECT(ein_all(g, s, AXES(1), 0), EIN_BOOL, 1, 1, 1, 0);
    EXPECT(ein_argmax(g, s, 1, 0), EIN_I64, 1, 0, 0, 0); /* a NaN is the largest, and the smallest */
    EXPECT(ein_argmin(g, s, 1, 1), EIN_I64, 1, 1, 0, 1);
    EXPECT(ein_argmax(g, x, 0, 0), EIN_I64, 1, 0, 1, 0, 0, 1); /* of equal ones the first */
    EXPECT(ein_argmin(g, x, -2, 0), EIN_I64, 1, 2, 1, 1);
    op_output(t, "a long sum", ein_sum(g, op_seeded(t, d, DIMS(7, 301), 1), AXES(1), 0));
    op_output(t, "a long mean", ein_mean(g, op_seeded(t, d, DIMS(301, 5), 2), AXES(0), 1));
    op_output(t, "a long logsumexp", ein_logsumexp(g, op_seeded(t, d, DIMS(3, 43, 7), 3), AXES(0, 1), 0));
    op_output(t, "a long argmax", ein_argmax(g, op_seeded(t, d, DIMS(5, 77), 4), 1, 0));
}

static void of_integers(op_trial *t, ein_dtype d)
{
    ein_graph *g = t->g;
    ein_tensor x = op_given(t, d, DIMS(2, 4), NUMBERS(100, 100, -28, 100, -100, -100, 0, -3));
    EXPECT(ein_sum(g, x, AXES(1), 0), EIN_I64, 272, -203); /* wider than i8 */
    EXPECT(ein_prod(g, x, AXES(0), 1), EIN_I64, -10000, -10000, 0, -300);
    EXPECT(ein_amax(g, x, AXES(1), 0), d, 100, 0);
    EXPECT(ein_amin(g, x, 0, NULL, 0), d, -100);
    EXPECT(ein_any(g, x, AXES(0), 0), EIN_BOOL, 1, 1, 1, 1);
    EXPECT(ein_all(g, x, AXES(1), 0), EIN_BOOL, 1, 0);
    EXPECT(ein_argmax(g, x, 1, 0), EIN_I64, 0, 2);
    EXPECT(ein_argmin(g, x, 1, 0), EIN_I64, 2, 0);
    op_output(t, "a long sum", ein_sum(g, op_seeded(t, d, DIMS(300), 5), 0, NULL, 0));
    op_output(t, "a long maximum", ein_amax(g, op_seeded(t, d, DIMS(5, 60), 6), AXES(1), 0));
}

static void of_bools(op_trial *t)
{
    ein_graph *g = t->g;
    ein_tensor x = op_given(t, EIN_BOOL, DIMS(3, 3), NUMBERS(0, 0, 0, 0, 1, 0, 1, 1, 1));
    EXPECT(ein_sum(g, x, AXES(1), 0), EIN_I64, 0, 1, 3);
    EXPECT(ein_prod(g, x, AXES(1), 0), EIN_I64, 0, 0, 1);
    EXPECT(ein_any(g, x, AXES(1), 0), EIN_BOOL, 0, 1, 1);
    EXPECT(ein_all(g, x, AXES(1), 1), EIN_BOOL, 0, 0, 1);
    EXPECT(ein_any(g, x, 0, NULL, 0), EIN_BOOL, 1);
    EXPECT(ein_amax(g, x, AXES(0), 0), EIN_BOOL, 1, 1, 1);
    EXPECT(ein_amin(g, x, AXES(0), 0), EIN_BOOL, 0, 0, 0);
    EXPECT(ein_argmax(g, x, 1, 0), EIN_I64, 0, 1, 0);
}

/* Of nothing, and of one element. */
static void of_little(op_trial *t)
{
    ein_graph *g = t->g;
    ein_tensor none = op_given(t, EIN_F16, DIMS(2, 0), 0, NULL), ints = op_given(t, EIN_I8, DIMS(0), 0, NULL);
    ein_tensor one = op_given(t, EIN_BF16, DIMS(2, 1), NUMBERS(3, -2)), s = op_given(t, EIN_I32, 0, NULL, NUMBERS(-5));
    EXPECT(ein_sum(g, none, AXES(1), 0), EIN_F16, 0, 0);
    EXPECT(ein_mean(g, none, AXES(1), 0), EIN_F16, NOT, NOT);
    EXPECT(ein_prod(g, none, AXES(1), 1), EIN_F16, 1, 1);
    EXPECT(ein_logsumexp(g, none, AXES(1), 0), EIN_F16, -INF, -INF);
    EXPECT(ein_any(g, none, AXES(1), 0), EIN_BOOL, 0, 0);
    EXPECT(ein_all(g, none, 0, NULL, 0), EIN_BOOL, 1);
    EXPECT(ein_sum(g, ints, 0, NULL, 0), EIN_I64, 0);
    EXPECT(ein_prod(g, ints, 0, NULL, 0), EIN_I64, 1);
    op_expect(t, "no rows", ein_amax(g, none, AXES(0), 0), EIN_F16, 0, NULL);
    op_expect(t, "no rows", ein_argmin(g, none, 0, 1), EIN_I64, 0, NULL);
    EXPECT(ein_mean(g, one, AXES(1), 0), EIN_BF16, 3, -2);
    EXPECT(ein_logsumexp(g, one, AXES(1), 0), EIN_BF16, 3, -2);
    EXPECT(ein_argmax(g, one, 1, 0), EIN_I64, 0, 0);
    EXPECT(ein_sum(g, s, 0, NULL, 0), EIN_I64, -5);
    EXPECT(ein_any(g, s, 0, NULL, 0), EIN_BOOL, 1);
}

/* ---- topk ---- */

static void topk(op_trial *t, ein_dtype d)
{
    ein_graph *g = t->g;
    ein_tensor out[2], x = op_given(t, d, DIMS(2, 5), NUMBERS(3, 1, 3, -2, 7, 0, 0, -1, 0, -1));
    ein_topk(g, x, 3, 1, 0, out);
    EXPECT(out[0], d, 7, 3, 3, 0, 0, 0);
    EXPECT(out[1], EIN_I64, 4, 0, 2, 0, 1, 3);
    ein_topk(g, x, 2, -1, 1, out);
    EXPECT(out[0], d, -2, 1, -1, -1);
    EXPECT(out[1], EIN_I64, 3, 1, 2, 4);
    ein_topk(g, x, 1, 0, 0, out); /* along the first axis */
    EXPECT(out[0], d, 3, 1, 3, 0, 7);
    EXPECT(out[1], EIN_I64, 0, 0, 0, 1, 0);
    ein_topk(g, x, 0, 1, 0, out);
    op_expect(t, "topk of 0", out[1], EIN_I64, 0, NULL);
    ein_topk(g, op_seeded(t, d, DIMS(3, 2048, 2), 7), 4, 1, 0, out); /* in chunks */
    op_output(t, "long topk", out[0]);
    op_output(t, "long topk's indices", out[1]);
}

static void topk_special(op_trial *t)
{
    ein_graph *g = t->g;
    ein_tensor out[2], x = op_given(t, EIN_F32, DIMS(6), NUMBERS(1, NOT, INF, -INF, NOT, 0));
    ein_topk(g, x, 6, 0, 0, out);
    EXPECT(out[0], EIN_F32, NOT, NOT, INF, 1, 0, -INF);
    EXPECT(out[1], EIN_I64, 1, 4, 2, 0, 5, 3);
    ein_topk(g, x, 5, 0, 1, out);
    EXPECT(out[0], EIN_F32, -INF, 0, 1, INF, NOT);
    EXPECT(out[1], EIN_I64, 3, 5, 0, 2, 1);
    ein_topk(g, op_given(t, EIN_BOOL, DIMS(4), NUMBERS(0, 1, 0, 1)), 3, 0, 0, out);
    EXPECT(out[0], EIN_BOOL, 1, 1, 0);
    EXPECT(out[1], EIN_I64, 1, 3, 0);
}

/* ---- cumsum ---- */

static void cumsum(op_trial *t, ein_dtype d)
{
    ein_graph *g = t->g;
    ein_tensor x = op_given(t, d, DIMS(2, 4), NUMBERS(1, 2, -3, 4, 5, 0, 0, -6));
    EXPECT(ein_cumsum(g, x, 1), d, 1, 3, 0, 4, 5, 5, 5, -1);
    EXPECT(ein_cumsum(g, x, 0), d, 1, 2, -3, 4, 6, 2, -3, -2);
    op_output(t, "cumsum in chunks", ein_cumsum(g, op_seeded(t, d, DIMS(2, 96, 3), 8), 1));
    op_output(t, "cumsum of a prime", ein_cumsum(g, op_seeded(t, d, DIMS(71), 9), 0));
}

/* ---- cross entropy ---- */

static void cross_entropy(op_trial *t, ein_dtype d)
{
    ein_graph *g = t->g;
    ein_tensor x = op_given(t, d, DIMS(4, 3), NUMBERS(0, 1, 2, 5, 5, 5, -INF, 0, -INF, 0, 0, 1));
    ein_tensor i = op_given(t, EIN_I64, DIMS(4), NUMBERS(2, 0, 1, 9));
    EXPECT(ein_cross_entropy(g, x, i), d, log(1 + exp(-1) + exp(-2)), log(3), 0, 1 + log(1 + 2 * exp(-1)));
    ein_tensor wide = op_seeded(t, d, DIMS(2, 3, 130), 10), j = op_given(t, EIN_I32, DIMS(2, 3), NUMBERS(0, 129, 64, 5, 7, 99));
    op_output(t, "cross entropy of 130 classes", ein_cross_entropy(g, wide, j));
}

/* ---- tests ---- */

static void all_floats(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        op_trial t;
        op_trial_open(&t);
        of_floats(&t, floats[k]);
        cross_entropy(&t, floats[k]);
        op_trial_close(&t, (uint64_t)k);
    }
}

static void others(void **state)
{
    op_trial t;
    (void)state;
    op_trial_open(&t);
    for (int k = 0; k < 3; k++) of_integers(&t, integers[k]);
    of_bools(&t);
    of_little(&t);
    op_trial_close(&t, 2);
}

static void all_topk(void **state)
{
    op_trial t;
    (void)state;
    op_trial_open(&t);
    for (int k = 0; k < 4; k++) topk(&t, floats[k]);
    for (int k = 0; k < 3; k++) topk(&t, integers[k]);
    topk_special(&t);
    op_trial_close(&t, 2);
}

static void all_cumsum(void **state)
{
    op_trial t;
    (void)state;
    op_trial_open(&t);
    for (int k = 0; k < 4; k++) cumsum(&t, floats[k]);
    for (int k = 0; k < 3; k++) cumsum(&t, integers[k]);
    ein_tensor x = op_given(&t, EIN_F32, DIMS(5), NUMBERS(1, INF, 2, -INF, 3));
    op_expect(&t, "cumsum of infinities", ein_cumsum(t.g, x, 0), EIN_F32, NUMBERS(1, INF, INF, NOT, NOT));
    op_expect(&t, "cumsum of nothing", ein_cumsum(t.g, op_given(&t, EIN_I8, DIMS(2, 0), 0, NULL), 1), EIN_I8, 0, NULL);
    op_trial_close(&t, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_floats), cmocka_unit_test(others),
                                       cmocka_unit_test(all_topk), cmocka_unit_test(all_cumsum)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
