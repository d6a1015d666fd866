/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise calls from end to end: numbers computed by hand, NaN and infinities, every element type. */
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
static const ein_dtype integers[] = {EIN_I8, EIN_I32, EIN_I64};

/* ---- floats ---- */

static void of_floats(op_trial *t, ein_dtype d)
{
    ein_graph *g = t->g;
    ein_tensor a = op_given(t, d, DIMS(2, 4), NUMBERS(1, -2.5, 0.5, -0.0, INF, -INF, NOT, 3));
    ein_tensor b = op_given(t, d, DIMS(2, 4), NUMBERS(2, 0.5, 0.5, 0, 1, INF, 1, NOT));
#define EXPECT(call, ...) op_expect(t, #call, call, d, NUMBERS(__VA_ARGS__))
    EXPECT(ein_add(g, a, b), 3, -2, 1, 0, INF, NOT, NOT, NOT);
    EXPECT(ein_sub(g, a, b), -1, -3, 0, 0, INF, -INF, NOT, NOT);
    EXPECT(ein_mul(g, a, b), 2, -1.25, 0.25, 0, INF, -INF, NOT, NOT);
    EXPECT(ein_div(g, a, b), 0.5, -5, 1, NOT, INF, NOT, NOT, NOT);
    EXPECT(ein_maximum(g, a, b), 2, 0.5, 0.5, 0, INF, INF, NOT, NOT);
    EXPECT(ein_minimum(g, a, b), 1, -2.5, 0.5, 0, 1, -INF, NOT, NOT);
    EXPECT(ein_pow(g, b, b), 4, sqrt(0.5), sqrt(0.5), 1, 1, INF, 1, NOT);
    EXPECT(ein_neg(g, a), -1, 2.5, -0.5, 0, -INF, INF, NOT, -3);
    EXPECT(ein_abs(g, a), 1, 2.5, 0.5, 0, INF, INF, NOT, 3);
    EXPECT(ein_floor(g, a), 1, -3, 0, 0, INF, -INF, NOT, 3);
    EXPECT(ein_ceil(g, a), 1, -2, 1, 0, INF, -INF, NOT, 3);
    EXPECT(ein_round(g, a), 1, -2, 0, 0, INF, -INF, NOT, 3); /* half to even */
    EXPECT(ein_relu(g, a), 1, 0, 0.5, 0, INF, 0, NOT, 3);
    EXPECT(ein_sign(g, a), 1, -1, 1, 0, 1, -1, NOT, 1);
    EXPECT(ein_exp(g, a), exp(1), exp(-2.5), exp(0.5), 1, INF, 0, NOT, exp(3));
    EXPECT(ein_log(g, a), 0, NOT, -log(2), -INF, INF, NOT, NOT, log(3));
    EXPECT(ein_sqrt(g, a), 1, NOT, sqrt(0.5), 0, INF, NOT, NOT, sqrt(3));
    EXPECT(ein_rsqrt(g, b), sqrt(0.5), sqrt(2), sqrt(2), INF, 1, 0, 1, NOT);
    EXPECT(ein_reciprocal(g, b), 0.5, 2, 2, INF, 1, 0, 1, NOT);
    EXPECT(ein_sin(g, a), sin(1), sin(-2.5), sin(0.5), 0, NOT, NOT, NOT, sin(3));
    EXPECT(ein_cos(g, a), cos(1), cos(-2.5), cos(0.5), 1, NOT, NOT, NOT, cos(3));
    EXPECT(ein_tanh(g, a), tanh(1), tanh(-2.5), tanh(0.5), 0, 1, -1, NOT, tanh(3));
    EXPECT(ein_sigmoid(g, a), 1 / (1 + exp(-1)), 1 / (1 + exp(2.5)), 1 / (1 + exp(-0.5)), 0.5, 1, 0, NOT, 1 / (1 + exp(-3)));
    EXPECT(ein_erf(g, a), erf(1), erf(-2.5), erf(0.5), 0, 1, -1, NOT, erf(3));
    EXPECT(ein_silu(g, a), 1 / (1 + exp(-1)), -2.5 / (1 + exp(2.5)), 0.5 / (1 + exp(-0.5)), 0, INF, NOT, NOT, 3 / (1 + exp(-3)));
    EXPECT(ein_gelu(g, a, 0), 0.8413447460685429, -0.015524163314440348, 0.34573123063700656, 0, INF, NOT, NOT, 2.99595030590511);
    EXPECT(ein_gelu(g, a, 1), 0.8411919906082768, -0.015084266089998577, 0.34571400982514394, 0, INF, NOT, NOT, 2.996362607918227);
    EXPECT(ein_clamp(g, a, -1, 2), 1, -1, 0.5, 0, 2, -1, NOT, 2);
    EXPECT(ein_clamp(g, a, 0, INF), 1, 0, 0.5, 0, INF, 0, NOT, 3);
    EXPECT(ein_clamp(g, a, -INF, 0), 0, -2.5, 0, 0, 0, -INF, NOT, 0);
    EXPECT(ein_where(g, a, b, a), 2, 0.5, 0.5, 0, 1, INF, 1, NOT); /* a NaN is not 0, so true */
    EXPECT(ein_map(g, "where(x0 > 0, x1, -x1) + 0.25", 2, (ein_tensor[]){a, b}), 2.25, -0.25, 0.75, 0.25, 1.25, -INF, -0.75, NOT);
#undef EXPECT
#define EXPECT(call, ...) op_expect(t, #call, call, EIN_BOOL, NUMBERS(__VA_ARGS__))
    EXPECT(ein_eq(g, a, b), 0, 0, 1, 1, 0, 0, 0, 0);
    EXPECT(ein_ne(g, a, b), 1, 1, 0, 0, 1, 1, 1, 1);
    EXPECT(ein_lt(g, a, b), 1, 1, 0, 0, 0, 1, 0, 0);
    EXPECT(ein_le(g, a, b), 1, 1, 1, 1, 0, 1, 0, 0);
    EXPECT(ein_gt(g, a, b), 0, 0, 0, 0, 1, 0, 0, 0);
    EXPECT(ein_ge(g, a, b), 0, 0, 1, 1, 1, 0, 0, 0);
    EXPECT(ein_logical_and(g, a, b), 1, 1, 1, 0, 1, 1, 1, 1);
    EXPECT(ein_logical_or(g, a, b), 1, 1, 1, 0, 1, 1, 1, 1);
    EXPECT(ein_logical_not(g, a), 0, 0, 0, 1, 0, 0, 0, 0);
    EXPECT(ein_cast(g, a, EIN_BOOL), 1, 1, 1, 0, 1, 1, 1, 1);
#undef EXPECT
    op_expect(t, "cast to i8", ein_cast(g, a, EIN_I8), EIN_I8, NUMBERS(1, -2, 0, 0, 127, -128, 0, 3));
    op_expect(t, "cast to i32", ein_cast(g, a, EIN_I32), EIN_I32, NUMBERS(1, -2, 0, 0, INT32_MAX, INT32_MIN, 0, 3));
    op_expect(t, "cast to i64", ein_cast(g, a, EIN_I64), EIN_I64, NUMBERS(1, -2, 0, 0, 0x1p63, -0x1p63, 0, 3));
    for (int k = 0; k < 4; k++)
        op_expect(t, "cast to a float", ein_cast(g, a, floats[k]), floats[k], NUMBERS(1, -2.5, 0.5, 0, INF, -INF, NOT, 3));
}

/* ---- integers and bool ---- */

/* What leaves the type wraps: -128 has no positive counterpart in i8. */
static void of_integers(op_trial *t, ein_dtype d)
{
    ein_graph *g = t->g;
    bool small = d == EIN_I8;
    double top = small ? 127 : d == EIN_I32 ? INT32_MAX : 0x1p53 + 2; /* of i64 what a double can say */
    ein_tensor a = op_given(t, d, DIMS(5), NUMBERS(7, -7, 0, 3, top)), b = op_given(t, d, DIMS(5), NUMBERS(2, 2, 5, 3, 1));
#define EXPECT(call, ...) op_expect(t, #call, call, d, NUMBERS(__VA_ARGS__))
    EXPECT(ein_add(g, a, b), 9, -5, 5, 6, d == EIN_I64 ? 0x1p53 + 4 : -top - 1);
    EXPECT(ein_sub(g, a, b), 5, -9, -5, 0, d == EIN_I64 ? 0x1p53 : top - 1); /* 2^53 + 1 as a double */
    EXPECT(ein_mul(g, a, b), 14, -14, 0, 9, top);
    EXPECT(ein_maximum(g, a, b), 7, 2, 5, 3, top);
    EXPECT(ein_minimum(g, a, b), 2, -7, 0, 3, 1);
    EXPECT(ein_neg(g, a), -7, 7, 0, -3, -top);
    EXPECT(ein_abs(g, a), 7, 7, 0, 3, top);
    EXPECT(ein_sign(g, a), 1, -1, 0, 1, 1);
    EXPECT(ein_relu(g, a), 7, 0, 0, 3, top);
    EXPECT(ein_floor(g, a), 7, -7, 0, 3, top);
    EXPECT(ein_clamp(g, a, -1.5, 4.5), 4, -1, 0, 3, 4);
    EXPECT(ein_where(g, a, b, a), 2, 2, 0, 3, 1);
    EXPECT(ein_map(g, "floordiv(x0, x1) * 10 + mod(x0, x1)", 2, (ein_tensor[]){a, b}), 31, -39, 0, 10,
           small ? -10 : d == EIN_I32 ? -10 : 10 * 0x1p53 + 20);
#undef EXPECT
#define EXPECT(call, ...) op_expect(t, #call, call, EIN_BOOL, NUMBERS(__VA_ARGS__))
    EXPECT(ein_eq(g, a, b), 0, 0, 0, 1, 0);
    EXPECT(ein_lt(g, a, b), 0, 1, 1, 0, 0);
    EXPECT(ein_ge(g, a, b), 1, 0, 0, 1, 1);
    EXPECT(ein_logical_and(g, a, b), 1, 1, 0, 1, 1);
    EXPECT(ein_logical_not(g, a), 0, 0, 1, 0, 0);
    EXPECT(ein_cast(g, a, EIN_BOOL), 1, 1, 0, 1, 1);
#undef EXPECT
#define EXPECT(call, ...) op_expect(t, #call, call, EIN_F32, NUMBERS(__VA_ARGS__))
    EXPECT(ein_div(g, a, b), 3.5, -3.5, 0, 1, top);
    EXPECT(ein_pow(g, b, b), 4, 4, 3125, 27, 1);
    EXPECT(ein_reciprocal(g, a), 1 / 7.0, -1 / 7.0, INF, 1 / 3.0, 1 / top);
    EXPECT(ein_exp(g, b), exp(2), exp(2), exp(5), exp(3), exp(1));
    EXPECT(ein_sqrt(g, b), sqrt(2), sqrt(2), sqrt(5), sqrt(3), 1);
    EXPECT(ein_map(g, "x0 + 0.5", 1, &b), 2.5, 2.5, 5.5, 3.5, 1.5);
#undef EXPECT
    op_expect(t, "to i8", ein_cast(g, a, EIN_I8), EIN_I8, NUMBERS(7, -7, 0, 3, small ? 127 : d == EIN_I32 ? -1 : 2));
    op_expect(t, "to i32", ein_cast(g, a, EIN_I32), EIN_I32, NUMBERS(7, -7, 0, 3, d == EIN_I64 ? 2 : top));
    op_expect(t, "to f64", ein_cast(g, a, EIN_F64), EIN_F64, NUMBERS(7, -7, 0, 3, top));
    op_expect(t, "to f16", ein_cast(g, a, EIN_F16), EIN_F16, NUMBERS(7, -7, 0, 3, small ? 127 : INF));
}

static void of_bools(op_trial *t)
{
    ein_graph *g = t->g;
    ein_tensor a = op_given(t, EIN_BOOL, DIMS(4), NUMBERS(0, 0, 1, 1)), b = op_given(t, EIN_BOOL, DIMS(4), NUMBERS(0, 1, 0, 1));
#define EXPECT(call, ...) op_expect(t, #call, call, EIN_BOOL, NUMBERS(__VA_ARGS__))
    EXPECT(ein_add(g, a, b), 0, 1, 1, 1);
    EXPECT(ein_mul(g, a, b), 0, 0, 0, 1);
    EXPECT(ein_maximum(g, a, b), 0, 1, 1, 1);
    EXPECT(ein_minimum(g, a, b), 0, 0, 0, 1);
    EXPECT(ein_ne(g, a, b), 0, 1, 1, 0);
    EXPECT(ein_lt(g, a, b), 0, 1, 0, 0);
    EXPECT(ein_logical_or(g, a, b), 0, 1, 1, 1);
    EXPECT(ein_logical_not(g, a), 1, 1, 0, 0);
    EXPECT(ein_where(g, a, b, ein_logical_not(g, b)), 1, 0, 0, 1);
#undef EXPECT
    op_expect(t, "sum of bools", ein_map(g, "x0 + x1", 2, (ein_tensor[]){a, b}), EIN_I64, NUMBERS(0, 1, 1, 2));
    op_expect(t, "quotient of bools", ein_div(g, a, b), EIN_F32, NUMBERS(NOT, 0, INF, 1));
    op_expect(t, "bool to bf16", ein_cast(g, a, EIN_BF16), EIN_BF16, NUMBERS(0, 0, 1, 1));
    op_expect(t, "bool to i8", ein_cast(g, a, EIN_I8), EIN_I8, NUMBERS(0, 0, 1, 1));
}

/* ---- several types and shapes ---- */

static void of_mixed_types(op_trial *t)
{
    ein_graph *g = t->g;
    ein_tensor f = op_given(t, EIN_F32, DIMS(3), NUMBERS(0.5, -1, 100000)), h = op_given(t, EIN_F16, DIMS(3), NUMBERS(1, 2, 3));
    ein_tensor w = op_given(t, EIN_BF16, DIMS(3), NUMBERS(1.5, 256, -1)), d = op_given(t, EIN_F64, DIMS(3), NUMBERS(1e-9, 1e100, 2));
    ein_tensor i = op_given(t, EIN_I32, DIMS(3), NUMBERS(1, -2, 3)), l = op_given(t, EIN_I64, DIMS(3), NUMBERS(10, 20, 30));
    ein_tensor b = op_given(t, EIN_BOOL, DIMS(3), NUMBERS(1, 0, 1));
    op_expect(t, "f32 + f16", ein_add(g, f, h), EIN_F32, NUMBERS(1.5, 1, 100003));
    op_expect(t, "f16 * bf16", ein_mul(g, h, w), EIN_F32, NUMBERS(1.5, 512, -3));
    op_expect(t, "bf16 + f64", ein_add(g, w, d), EIN_F64, NUMBERS(1.500000001, 1e100, 1));
    op_expect(t, "i32 * i64", ein_mul(g, i, l), EIN_I64, NUMBERS(10, -40, 90));
    op_expect(t, "i32 / f16", ein_div(g, i, h), EIN_F16, NUMBERS(1, -1, 1));
    op_expect(t, "bool + i32", ein_add(g, b, i), EIN_I32, NUMBERS(2, -2, 4));
    op_expect(t, "bool * f64", ein_mul(g, b, d), EIN_F64, NUMBERS(1e-9, 0, 2));
    op_expect(t, "i64 < f32", ein_lt(g, l, f), EIN_BOOL, NUMBERS(0, 0, 1));
    op_expect(t, "where i32, f64, i64", ein_where(g, i, d, l), EIN_F64, NUMBERS(1e-9, 1e100, 2));
    op_expect(t, "where f32, i32, bool", ein_where(g, ein_relu(g, f), i, b), EIN_I32, NUMBERS(1, 0, 3));
    op_expect(t, "f32 to bf16 to f32", ein_cast(g, ein_cast(g, f, EIN_BF16), EIN_F32), EIN_F32, NUMBERS(0.5, -1, 99840));
    op_expect(t, "f64 to f32", ein_cast(g, d, EIN_F32), EIN_F32, NUMBERS(1e-9, INF, 2));
    op_expect(t, "map of three", ein_map(g, "x0 * x1 + x2", 3, (ein_tensor[]){b, i, w}), EIN_BF16, NUMBERS(2.5, 256, 2));
}

static void of_shapes(op_trial *t)
{
    ein_graph *g = t->g;
    ein_tensor x = op_given(t, EIN_F32, DIMS(2, 1, 3), NUMBERS(1, 2, 3, 4, 5, 6));
    ein_tensor y = op_given(t, EIN_I8, DIMS(2, 1), NUMBERS(10, 20)), s = op_given(t, EIN_F64, 0, NULL, NUMBERS(0.5));
    ein_tensor none = op_given(t, EIN_BF16, DIMS(0, 3), 0, NULL);
    op_expect(t, "[2,1,3] + [2,1]", ein_add(g, x, y), EIN_F32, NUMBERS(11, 12, 13, 21, 22, 23, 14, 15, 16, 24, 25, 26));
    op_expect(t, "[2,1] * []", ein_mul(g, y, s), EIN_F64, NUMBERS(5, 10));
    op_expect(t, "-[]", ein_neg(g, s), EIN_F64, NUMBERS(-0.5));
    op_expect(t, "exp [0,3]", ein_exp(g, none), EIN_BF16, 0, NULL);
    op_expect(t, "[0,3] == [2,1,3]", ein_eq(g, none, x), EIN_BOOL, 0, NULL);
    op_expect(t, "where [2,1], [], [2,1,3]", ein_where(g, ein_sub(g, y, op_given(t, EIN_I8, 0, NULL, NUMBERS(10))), s, x),
              EIN_F64, NUMBERS(1, 2, 3, 0.5, 0.5, 0.5, 4, 5, 6, 0.5, 0.5, 0.5));
    op_output(t, "a larger one", ein_silu(g, ein_add(g, op_seeded(t, EIN_F16, DIMS(7, 33), 1), op_seeded(t, EIN_I32, DIMS(7, 1), 2))));
}

/* ---- tests ---- */

static void all_floats(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        op_trial t;
        op_trial_open(&t);
        of_floats(&t, floats[k]);
        op_trial_close(&t, (uint64_t)k);
    }
}

static void all_integers(void **state)
{
    op_trial t;
    (void)state;
    op_trial_open(&t);
    for (int k = 0; k < 3; k++) of_integers(&t, integers[k]);
    op_trial_close(&t, 1);
}

static void others(void **state)
{
    op_trial t;
    (void)state;
    op_trial_open(&t);
    of_bools(&t);
    of_mixed_types(&t);
    of_shapes(&t);
    op_trial_close(&t, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_floats), cmocka_unit_test(all_integers),
                                       cmocka_unit_test(others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
