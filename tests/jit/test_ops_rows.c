/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax, norms and products from end to end: numbers computed by hand, rows that are cut, every element type. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/harness/op_trial.h"

#define INF ((double)INFINITY)
#define NOT ((double)NAN) /* no number */

static const ein_dtype floats[] = {EIN_F32, EIN_F64, EIN_BF16, EIN_F16};
static const ein_tensor none = {0};

#define EXPECT(call, type, ...) op_expect(t, #call, call, type, NUMBERS(__VA_ARGS__))
#define EINSUM(equation, type, a, b, ...) \
    op_expect(t, equation, ein_einsum(t->g, equation, 2, (ein_tensor[]){a, b}), type, NUMBERS(__VA_ARGS__))

/* ---- softmax ---- */

static void softmax(op_trial *t, ein_dtype d)
{
    ein_graph *g = t->g;
    ein_tensor x = op_given(t, d, DIMS(3, 3), NUMBERS(0, 1, 2, -INF, 0, 0, -INF, -INF, -INF));
    ein_tensor y = op_given(t, d, DIMS(2, 2), NUMBERS(1, NOT, 1, 200)), one = op_given(t, d, DIMS(2, 1), NUMBERS(3, -7));
    double s = 1 + exp(1) + exp(2);
    EXPECT(ein_softmax(g, x, 1), d, 1 / s, exp(1) / s, exp(2) / s, 0, 0.5, 0.5, NOT, NOT, NOT);
    EXPECT(ein_log_softmax(g, x, 1), d, -log(s), 1 - log(s), 2 - log(s), -INF, -log(2), -log(2), NOT, NOT, NOT);
    EXPECT(ein_softmax(g, y, 0), d, 0.5, NOT, 0.5, NOT);
    EXPECT(ein_log_softmax(g, op_given(t, d, DIMS(2), NUMBERS(0, 200)), 0), d, -200, 0);
    EXPECT(ein_softmax(g, one, 1), d, 1, 1);
    op_expect(t, "no elements", ein_softmax(g, op_given(t, d, DIMS(2, 0), 0, NULL), 1), d, 0, NULL);
    op_output(t, "a long softmax", ein_softmax(g, op_seeded(t, d, DIMS(3, 77, 2), 1), 1));
    op_output(t, "a long log_softmax", ein_log_softmax(g, op_seeded(t, d, DIMS(5, 130), 2), -1));
}

/* ---- norms ---- */

static void norms(op_trial *t, ein_dtype d)
{
    ein_graph *g = t->g;
    ein_tensor x = op_given(t, d, DIMS(2, 4), NUMBERS(1, 2, 3, 6, -2, -2, -2, -2));
    ein_tensor w = op_given(t, d, DIMS(4), NUMBERS(1, 2, 0.5, -1)), b = op_given(t, d, DIMS(4), NUMBERS(10, 0, -1, 0.25));
    double r = 1 / sqrt(12.5), u = 1 / sqrt(3.5 + 0.5); /* mean of squares 12.5; mean 3, variance 3.5 */
    EXPECT(ein_rms_norm(g, x, none, 0), d, r, 2 * r, 3 * r, 6 * r, -1, -1, -1, -1);
    EXPECT(ein_rms_norm(g, x, w, 0), d, r, 4 * r, 1.5 * r, -6 * r, -1, -2, -0.5, 1);
    EXPECT(ein_layer_norm(g, x, none, none, 0.5), d, -2 * u, -u, 0, 3 * u, 0, 0, 0, 0);
    EXPECT(ein_layer_norm(g, x, w, b, 0.5), d, 10 - 2 * u, -2 * u, -1, 0.25 - 3 * u, 10, 0, -1, 0.25);
    EXPECT(ein_layer_norm(g, x, none, b, 0.5), d, 10 - 2 * u, -u, -1, 0.25 + 3 * u, 10, 0, -1, 0.25);
    /* Two groups of one channel of two positions: means 1.5 and 4.5, variances 0.25 and 2.25. */
    ein_tensor y = op_given(t, d, DIMS(1, 2, 2), NUMBERS(1, 2, 3, 6)), c = op_given(t, d, DIMS(2), NUMBERS(2, -1));
    EXPECT(ein_group_norm(g, y, 2, none, none, 0), d, -1, 1, -1, 1);
    EXPECT(ein_group_norm(g, y, 2, c, c, 0), d, 0, 4, 0, -2);
    EXPECT(ein_group_norm(g, y, 1, c, none, 0.5), d, -4 * u, -2 * u, 0, -3 * u);
    ein_tensor mean = op_given(t, d, DIMS(2), NUMBERS(1, 3)), variance = op_given(t, d, DIMS(2), NUMBERS(3, 15));
    EXPECT(ein_batch_norm(g, y, mean, variance, none, none, 1), d, 0, 0.5, 0, 0.75);
    EXPECT(ein_batch_norm(g, y, mean, variance, c, c, 1), d, 2, 3, -1, -1.75);
    /* A large mean: the squares of the elements alone would say nothing in f32. */
    if (d == EIN_F32)
        EXPECT(ein_layer_norm(g, op_given(t, d, DIMS(4), NUMBERS(100001, 100002, 100003, 100006)), none, none, 0.5), d,
               -2 * u, -u, 0, 3 * u);
    op_expect(t, "no elements", ein_layer_norm(g, op_given(t, d, DIMS(2, 0), 0, NULL), none, none, 1), d, 0, NULL);
    op_output(t, "a long rms_norm", ein_rms_norm(g, op_seeded(t, d, DIMS(3, 5, 77), 3), op_seeded(t, d, DIMS(77), 4), 1e-5));
    op_output(t, "a long layer_norm",
              ein_layer_norm(g, op_seeded(t, d, DIMS(5, 130), 5), op_seeded(t, d, DIMS(130), 6), op_seeded(t, d, DIMS(130), 7), 1e-5));
    op_output(t, "a long group_norm",
              ein_group_norm(g, op_seeded(t, d, DIMS(2, 6, 5, 7), 8), 3, op_seeded(t, d, DIMS(6), 9), op_seeded(t, d, DIMS(6), 10), 1e-5));
}

/* Tables in f32, as mixed precision has them. */
static void mixed_norms(op_trial *t, ein_dtype d)
{
    ein_tensor x = op_given(t, d, DIMS(1, 2), NUMBERS(1, 3)), w = op_given(t, EIN_F32, DIMS(2), NUMBERS(1.001, 2));
    EXPECT(ein_layer_norm(t->g, x, w, none, 0), d, -1.001, 2);
    EXPECT(ein_rms_norm(t->g, x, w, 0), d, 1.001 / sqrt(5), 6 / sqrt(5));
}

/* ---- products ---- */

static void products(op_trial *t, ein_dtype d)
{
    ein_graph *g = t->g;
    ein_tensor a = op_given(t, d, DIMS(2, 3), NUMBERS(1, 2, 3, 4, 5, 6)), b = op_given(t, d, DIMS(3, 2), NUMBERS(1, 0, -1, 2, 1, 1));
    ein_tensor v = op_given(t, d, DIMS(3), NUMBERS(1, -1, 2)), one = op_given(t, d, DIMS(1, 3), NUMBERS(1, 10, 100));
    EXPECT(ein_matmul(g, a, b), d, 2, 7, 5, 16);
    EXPECT(ein_matmul(g, a, v), d, 5, 11);
    EINSUM("ij,kj->ik", d, a, one, 321, 654);
    EINSUM("ij,ij->i", d, a, one, 321, 654); /* an extent of 1 against 2 */
    EINSUM("...j,j", d, a, v, 5, 11);
    EINSUM("i...,...->...", d, a, v, 5, -7, 18);
    EINSUM("ij,jk->i", d, a, op_given(t, d, DIMS(3, 0), 0, NULL), 0, 0);
    op_expect(t, "diagonal", ein_einsum(g, "ii->i", 1, (ein_tensor[]){ein_matmul(g, a, b)}), d, NUMBERS(2, 16));
    if (!ein__dtype_is_float(d)) return;
    EXPECT(ein_linear(g, a, one, none), d, 321, 654);
    EXPECT(ein_linear(g, a, one, op_given(t, d, DIMS(1), NUMBERS(-21))), d, 300, 633);
    op_output(t, "a larger product", ein_matmul(g, op_seeded(t, d, DIMS(3, 17, 65), 11), op_seeded(t, d, DIMS(65, 9), 12)));
    op_output(t, "a larger linear", ein_linear(g, op_seeded(t, d, DIMS(5, 64), 13), op_seeded(t, d, DIMS(8, 64), 14), op_seeded(t, d, DIMS(8), 15)));
}

static void mixed_products(op_trial *t)
{
    ein_tensor i = op_given(t, EIN_I8, DIMS(2), NUMBERS(100, 100)), j = op_given(t, EIN_I32, DIMS(2), NUMBERS(2, -3));
    ein_tensor b = op_given(t, EIN_BOOL, DIMS(2), NUMBERS(1, 0)), f = op_given(t, EIN_F32, DIMS(2), NUMBERS(0.5, 1000000));
    ein_tensor h = op_given(t, EIN_F16, DIMS(2), NUMBERS(2, -1)), w = op_given(t, EIN_BF16, DIMS(2), NUMBERS(1.5, 2));
    EINSUM("i,i", EIN_I8, i, i, 32); /* 20000 wraps */
    EINSUM("i,i", EIN_I32, i, j, -100);
    EINSUM("i,i", EIN_I32, b, j, 2);
    EINSUM("i,i", EIN_F32, f, h, -999999);
    EINSUM("i,j->ij", EIN_F32, h, w, 3, 4, -1.5, -2);
    EINSUM("i,i", EIN_BF16, w, i, 350);
    EINSUM("...,...", EIN_F64, op_given(t, EIN_F64, DIMS(2, 1), NUMBERS(1e-3, 1e10)), w, 1.5e-3, 2e-3, 1.5e10, 2e10);
}

/* ---- tests ---- */

static void all_rows(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        op_trial t;
        op_trial_open(&t);
        softmax(&t, floats[k]);
        norms(&t, floats[k]);
        if (k >= 2) mixed_norms(&t, floats[k]);
        op_trial_close(&t, (uint64_t)k);
    }
}

static void all_products(void **state)
{
    op_trial t;
    (void)state;
    op_trial_open(&t);
    for (int k = 0; k < 4; k++) products(&t, floats[k]);
    products(&t, EIN_I32);
    products(&t, EIN_I64);
    mixed_products(&t);
    op_trial_close(&t, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_rows), cmocka_unit_test(all_products)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
