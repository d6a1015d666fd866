/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/tensor/expr.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static const double arguments[] = {3.0, -0.5, 0.25};
static const char *const names[] = {"u", "v", "w"};

static void same(double got, double want)
{
    if (isnan(want)) {
        assert_true(isnan(got));
    } else if (got != want && fabs(got - want) > 1e-14 * fabs(want)) {
        fail_msg("got %.17g, want %.17g", got, want);
    }
}

static double value_of(const char *source)
{
    arena a = {NULL};
    error e = {0};
    expr x;
    if (ein__expr_parse(&a, source, "x", 3, NULL, 0, &x, &e) != EIN_OK) fail_msg("%s", e.line);
    double v = ein__expr_eval(&x, arguments);
    ein__arena_free(&a);
    return v;
}

static void evaluates(void **state)
{
    static const struct { const char *source; double want; } cases[] = {
        {"x0", 3.0}, {"x0 + x1 * 2", 2.0}, {"(x0 + x1) * 2", 5.0}, {"x0 - x1 - x2", 3.25},
        {"12 / x0 / 2", 2.0}, {"-x0 * x1", 1.5}, {"- -x0", 3.0}, {"-(x0)", -3.0}, {"x0--1", 4.0},
        {"1 + 2 < x0", 0.0}, {"1 + 2 <= x0", 1.0}, {"x0 > x1", 1.0}, {"x0 >= 3.5", 0.0},
        {"x0 == 3", 1.0}, {"1 < 2 == 1", 1.0}, {"1e2", 100.0}, {".5", 0.5}, {"5.", 5.0},
        {"2.5e-1f", 0.25}, {"1E+1", 10.0}, {"neg(x0)", -3.0}, {"abs(x1)", 0.5},
        {"exp(x1)", 0.60653065971263342}, {"log(x0)", 1.0986122886681098}, {"sqrt(x2)", 0.5},
        {"rsqrt(x2)", 2.0}, {"sin(x0)", 0.14112000805986721}, {"cos(x0)", -0.98999249660044542},
        {"tanh(x1)", -0.46211715726000973}, {"sigmoid(x0)", 0.95257412682243336},
        {"erf(x1)", -0.52049987781304652}, {"relu(x1)", 0.0}, {"relu(x0)", 3.0}, {"min(x0, x1)", -0.5},
        {"max(x1, x2)", 0.25}, {"pow(x0, 2)", 9.0}, {"where(x0 > 1, x1, x2)", -0.5},
        {"where(x0 < 1, x1, x2)", 0.25}, {"where(0, log(0 - 1), 7)", 7.0}, {" x0\t*\nx2 ", 0.75},
        {"max(0/0, 1)", NAN}, {"max(1, 0/0)", NAN}, {"min(0/0, 1)", NAN}, {"min(1, 0/0)", NAN},
        {"relu(0/0)", NAN}, {"1/0", INFINITY}, {"0/0 == 0/0", 0.0}, {"1e999", INFINITY},
        {"x0 != 3", 0.0}, {"x0 != x1", 1.0}, {"x0!=2", 1.0}, {"0/0 != 0/0", 1.0}, {"and(x0, x1)", 1.0},
        {"and(x0, 0)", 0.0}, {"or(0, x1)", 1.0}, {"or(0, 0)", 0.0}, {"or(0, 0/0)", 1.0}, {"not(x0)", 0.0},
        {"not(0)", 1.0}, {"not(0/0)", 0.0}, {"floor(x1)", -1.0}, {"ceil(x1)", 0.0}, {"ceil(x2)", 1.0},
        {"round(x1 * 5)", -2.0}, {"round(3.5)", 4.0}, {"round(0.5)", 0.0}, {"trunc(x1 * 5)", -2.0}, {"trunc(2.9)", 2.0},
        {"sign(x1)", -1.0}, {"sign(x0)", 1.0}, {"sign(0)", 0.0}, {"sign(0/0)", NAN}, {"floordiv(x0, 2)", 1.0},
        {"floordiv(x0, -2)", -2.0}, {"floordiv(x1, x0)", -1.0}, {"mod(x0, 2)", 1.0}, {"mod(x0, -2)", -1.0},
        {"mod(x1, x0)", 2.5}, {"mod(-x0, 2)", 1.0}, {"floordiv(x0, 0)", INFINITY}, {"mod(x0, 0)", NAN},
        {"floordiv(6, 0.1)", 59.0}};
    (void)state;
    for (int i = 0; i < COUNT(cases); i++) same(value_of(cases[i].source), cases[i].want);
}

static void evaluates_in_float(void **state)
{
    static const float args[] = {16777216.0f, 1.0f, 1e30f};
    static const struct { const char *source; float want; } cases[] = {
        {"x0 + x1", 16777216.0f},       /* the sum rounds back */
        {"x0 + x1 + x1", 16777216.0f},  /* at each step */
        {"x0 + (x1 + x1)", 16777218.0f}, {"x2 * x2", INFINITY}, {"x2 * x2 / x2", INFINITY},
        {"0.1", 0.1f}, {"1 / 3", 1.0f / 3.0f}, {"exp(100)", INFINITY}, {"max(x1, x2)", 1e30f}};
    (void)state;
    for (int i = 0; i < COUNT(cases); i++) {
        arena a = {NULL};
        expr x;
        assert_int_equal(ein__expr_parse(&a, cases[i].source, "x", 3, NULL, 0, &x, NULL), EIN_OK);
        assert_true(ein__expr_eval_f32(&x, args) == cases[i].want);
        ein__arena_free(&a);
    }
}

static void prints(void **state)
{
    static const struct { const char *source, *want; } cases[] = {
        {"x0 + x1 * x2", "(u + (v * w))"}, {"(x0 - x1) / -2", "((u - v) / (-2.0f))"},
        {"x0 * sigmoid(x0)", "(u * k_sigmoid(u))"}, {"-x0", "(-(u))"}, {"neg(-x0)", "(-((-(u))))"},
        {"x0 < 1.5", "((u) < (1.5f) ? 1.0f : 0.0f)"}, {"x0 == x1", "((u) == (v) ? 1.0f : 0.0f)"},
        {"where(x0, x1, 0)", "((u) != 0.0f ? (v) : (0.0f))"},
        {"max(min(x0, 1), pow(x1, x2))", "k_max(k_min(u, 1.0f), k_pow(v, w))"},
        {"3e-8", "2.99999989e-08f"}, {"0.1", "0.100000001f"}, {"1e30", "1.00000002e+30f"},
        {"1e39", "K_INF"}, {"-1e39", "(-K_INF)"}, {"-0.0", "(-0.0f)"}, {"100000000", "100000000.0f"},
        {"rsqrt(x0 + 1e-5)", "k_rsqrt((u + 9.99999975e-06f))"}};
    (void)state;
    for (int i = 0; i < COUNT(cases); i++) {
        arena a = {NULL};
        text t = {0};
        expr x;
        assert_int_equal(ein__expr_parse(&a, cases[i].source, "x", 3, NULL, 0, &x, NULL), EIN_OK);
        ein__expr_print(&x, names, NULL, EIN_F32, &t);
        assert_string_equal(ein__text_get(&t), cases[i].want);
        ein__text_free(&t);
        ein__arena_free(&a);
    }
}

/* Types of x0, x1, x2 where not said otherwise. */
static const ein_dtype mixed[] = {EIN_I64, EIN_F32, EIN_F64};

static void types_follow(void **state)
{
    static const struct { const char *source; int want; } cases[] = {
        {"x0", EIN_I64}, {"x1", EIN_F32}, {"x2", EIN_F64}, {"3", 0}, {"0.5", EIN_F32}, {"-3 * 2 + 1", 0},
        {"x0 + 1", EIN_I64}, {"x0 + 1.5", EIN_F32}, {"1.5 * x0", EIN_F32}, {"x2 + 1.5", EIN_F64}, {"x1 * 1.5", EIN_F32},
        {"x0 + x1", EIN_F32}, {"x1 + x2", EIN_F64}, {"x0 * x2", EIN_F64}, {"x0 / 2", EIN_F32}, {"x0 / x0", EIN_F32},
        {"x2 / 2", EIN_F64}, {"x0 + x0 / 2", EIN_F32}, {"1 / 2", EIN_F32}, {"x0 * (1 / 2)", EIN_F32},
        {"x2 * (1 / 3)", EIN_F64}, {"exp(x0)", EIN_F32}, {"exp(x2)", EIN_F64}, {"pow(x0, 2)", EIN_F32},
        {"sqrt(4)", EIN_F32}, {"min(x0, 3)", EIN_I64}, {"max(x0, x1)", EIN_F32}, {"abs(x0)", EIN_I64},
        {"relu(-x0)", EIN_I64}, {"sign(x0)", EIN_I64}, {"floor(x0)", EIN_I64}, {"floor(x0 / 2)", EIN_F32},
        {"round(x2)", EIN_F64}, {"floordiv(x0, 2)", EIN_I64}, {"mod(x0, x2)", EIN_F64}, {"x0 < x2", 0},
        {"x2 != 0.5", 0}, {"and(x1, x2)", 0}, {"not(x2)", 0}, {"(x1 < 0) * x0", EIN_I64}, {"(x1 < 0) + 0.5", EIN_F32},
        {"where(x2 > 0, x0, 1)", EIN_I64}, {"where(x2, x0, x1)", EIN_F32}, {"where(x0, 1, 2)", 0},
        {"where(x0, 1, 0.5)", EIN_F32}, {"where(x2 > 0, 1, 0.5)", EIN_F64}, {"x0 * 1e999", EIN_F32}};
    (void)state;
    for (int i = 0; i < COUNT(cases); i++) {
        arena a = {NULL};
        expr x;
        assert_int_equal(ein__expr_parse(&a, cases[i].source, "x", 3, NULL, 0, &x, NULL), EIN_OK);
        if ((int)ein__expr_type(&x, mixed) != cases[i].want)
            fail_msg("%s: type %d", cases[i].source, (int)ein__expr_type(&x, mixed));
        assert_true(ein__expr_type(&x, NULL) == EIN_F32 || cases[i].want == 0);
        ein__arena_free(&a);
    }
    assert_int_equal(ein__expr_type(&(expr){0}, mixed), 0);
}

static void prints_types(void **state)
{
    static const struct { const char *source; ein_dtype to; const char *want; } cases[] = {
        {"x0", EIN_I64, "u"}, {"x0", EIN_F32, "(float)(u)"}, {"x0", EIN_F64, "(double)(u)"},
        {"x1", EIN_F64, "(double)(v)"}, {"x2", EIN_F32, "(float)(w)"}, {"x1", EIN_I64, "k_to_i64(v)"},
        {"x2", EIN_I64, "d_to_i64(w)"}, {"5", EIN_I64, "5ll"}, {"-5", EIN_I64, "(-5ll)"}, {"5", EIN_F64, "5.0"},
        {"0.1", EIN_F64, "0.10000000000000001"}, {"-0.1", EIN_F64, "(-0.10000000000000001)"},
        {"0.5", EIN_I64, "k_to_i64(0.5f)"}, {"1e999", EIN_F64, "D_INF"}, {"-1e999", EIN_F64, "(-D_INF)"},
        {"1e300", EIN_F64, "1.0000000000000001e+300"}, {"x0 + 1", EIN_I64, "i_add(u, 1ll)"},
        {"-x0 * x0 - 3", EIN_I64, "i_sub(i_mul(i_neg(u), u), 3ll)"}, {"x0 + 1", EIN_F32, "(float)(i_add(u, 1ll))"},
        {"x0 + 0.5", EIN_F32, "((float)(u) + 0.5f)"}, {"x0 + x2", EIN_F64, "((double)(u) + w)"},
        {"x0 * 2 + x2", EIN_F64, "((double)(i_mul(u, 2ll)) + w)"}, {"x1 * x2", EIN_F32, "(float)(((double)(v) * w))"},
        {"x2 + 1 / 3", EIN_F64, "(w + (1.0 / 3.0))"}, {"x0 / 2", EIN_I64, "k_to_i64(((float)(u) / 2.0f))"},
        {"exp(x0)", EIN_F32, "k_exp((float)(u))"}, {"exp(x2)", EIN_F64, "d_exp(w)"}, {"-x2", EIN_F64, "(-(w))"},
        {"max(x0, 0)", EIN_I64, "i_max(u, 0ll)"}, {"min(x0, x1)", EIN_F32, "k_min((float)(u), v)"},
        {"abs(x0)", EIN_I64, "i_abs(u)"}, {"sign(x2)", EIN_F64, "d_sign(w)"}, {"floor(x0)", EIN_I64, "u"},
        {"floor(x1)", EIN_F32, "k_floor(v)"}, {"round(x2)", EIN_F64, "d_round(w)"},
        {"floordiv(x0, -2)", EIN_I64, "i_floordiv(u, (-2ll))"}, {"mod(x1, 2)", EIN_F32, "k_mod(v, 2.0f)"},
        {"x0 < 5", EIN_I64, "((u) < (5ll) ? 1ll : 0ll)"}, {"x0 < 5", EIN_F32, "((u) < (5ll) ? 1.0f : 0.0f)"},
        {"x0 < 0.5", EIN_I64, "(((float)(u)) < (0.5f) ? 1ll : 0ll)"},
        {"x1 != x2", EIN_F64, "(((double)(v)) != (w) ? 1.0 : 0.0)"},
        {"where(x2, x0, 1)", EIN_I64, "((w) != 0.0 ? (u) : (1ll))"},
        {"where(x0 > 1, x1, 0)", EIN_F32, "((((u) > (1ll) ? 1.0f : 0.0f)) != 0.0f ? (v) : (0.0f))"},
        {"where(x0, x1, x2)", EIN_F64, "((u) != 0ll ? ((double)(v)) : (w))"},
        {"and(x0, x2)", EIN_I64, "((((u) != 0ll) & ((w) != 0.0)) ? 1ll : 0ll)"},
        {"or(x1, x1)", EIN_F32, "((((v) != 0.0f) | ((v) != 0.0f)) ? 1.0f : 0.0f)"},
        {"not(x0)", EIN_F64, "(((u) != 0ll) ? 0.0 : 1.0)"}};
    (void)state;
    for (int i = 0; i < COUNT(cases); i++) {
        arena a = {NULL};
        text t = {0};
        expr x;
        assert_int_equal(ein__expr_parse(&a, cases[i].source, "x", 3, NULL, 0, &x, NULL), EIN_OK);
        ein__expr_print(&x, names, mixed, cases[i].to, &t);
        assert_string_equal(ein__text_get(&t), cases[i].want);
        ein__text_free(&t);
        ein__arena_free(&a);
    }
}

static void prints_integers(void **state)
{
    static const struct { double value; const char *want; } cases[] = {
        {0, "0ll"}, {-0.0, "0ll"}, {-1, "(-1ll)"}, {0x1p53, "9007199254740992ll"}, {2.9, "2ll"}, {NAN, "0ll"},
        {0x1p63, "9223372036854775807ll"}, {INFINITY, "9223372036854775807ll"},
        {-INFINITY, "(-9223372036854775807ll - 1)"}, {-3e38, "(-9223372036854775807ll - 1)"}};
    (void)state;
    for (int i = 0; i < COUNT(cases); i++) {
        text t = {0};
        ein__expr_print_number(cases[i].value, EIN_I64, &t);
        assert_string_equal(ein__text_get(&t), cases[i].want);
        ein__text_free(&t);
    }
}

#define MOST INT64_MAX
#define LEAST INT64_MIN
static void evaluates_integers(void **state)
{
    static const struct { const char *source; i64 x0, x1, want; } cases[] = {
        {"x0 + x1", MOST, 1, LEAST}, {"x0 - x1", LEAST, 1, MOST}, {"x0 * x1", 1ll << 62, 4, 0},
        {"x0 * x1", 0x7000000000000001, 3, 0x5000000000000003}, {"-x0", LEAST, 0, LEAST}, {"abs(x0)", LEAST, 0, LEAST},
        {"abs(x0)", -7, 0, 7}, {"relu(x0)", -7, 0, 0}, {"sign(x0)", -7, 0, -1}, {"sign(x0)", 0, 0, 0},
        {"floordiv(x0, x1)", 7, 2, 3}, {"floordiv(x0, x1)", -7, 2, -4}, {"floordiv(x0, x1)", 7, -2, -4},
        {"floordiv(x0, x1)", -7, -2, 3}, {"floordiv(x0, x1)", -6, 2, -3}, {"floordiv(x0, x1)", 5, 0, 0},
        {"floordiv(x0, x1)", LEAST, -1, LEAST}, {"mod(x0, x1)", 7, 2, 1}, {"mod(x0, x1)", -7, 2, 1},
        {"mod(x0, x1)", 7, -2, -1}, {"mod(x0, x1)", -7, -2, -1}, {"mod(x0, x1)", -6, 2, 0}, {"mod(x0, x1)", 5, 0, 0},
        {"mod(x0, x1)", LEAST, -1, 0}, {"min(x0, x1)", MOST, MOST - 1, MOST - 1}, {"max(x0, x1)", MOST, MOST - 1, MOST},
        {"x0 < x1", MOST - 1, MOST, 1}, {"x0 == x1", MOST - 1, MOST, 0}, {"x0 != x1", MOST - 1, MOST, 1},
        {"and(x0, x1)", 2, 4, 1}, {"or(x0, x1)", 0, 0, 0}, {"not(x0)", 0, 0, 1}, {"floor(x0)", MOST, 0, MOST},
        {"where(x0 > x1, x0 + 1, x1)", MOST - 1, 3, MOST}, {"x0 / x1", 7, 2, 3}, {"x0 / x1", -7, 2, -3},
        {"x0 / x1", 7, 0, MOST}, {"x0 / x1", 0, 0, 0}, {"x0 / 1 - x1 / 1", 16777217, 16777216, 0},
        {"x0 * 0.5 + x1 * 0.5", 3, 4, 3}, {"exp(x0)", 3, 0, 20}, {"x0 == 9007199254740993", MOST, 0, 0}};
    const ein_dtype types[] = {EIN_I64, EIN_I64};
    (void)state;
    for (int i = 0; i < COUNT(cases); i++) {
        arena a = {NULL};
        expr x;
        const expr_value args[] = {{.i = cases[i].x0}, {.i = cases[i].x1}};
        assert_int_equal(ein__expr_parse(&a, cases[i].source, "x", 2, NULL, 0, &x, NULL), EIN_OK);
        i64 got = ein__expr_eval_typed(&x, args, types, EIN_I64).i;
        if (got != cases[i].want)
            fail_msg("%s of %lld, %lld: %lld", cases[i].source, (long long)args[0].i, (long long)args[1].i, (long long)got);
        ein__arena_free(&a);
    }
    assert_int_equal(ein__expr_eval_typed(&(expr){0}, NULL, NULL, EIN_I64).i, 0);
}

static void evaluates_mixed(void **state)
{
    static const struct { const char *source; ein_dtype to; expr_value want; } cases[] = {
        {"x0", EIN_I64, {.i = MOST}}, {"x0", EIN_F32, {0x1p63}}, {"x0 - 1", EIN_I64, {.i = MOST - 1}},
        {"x0 + x1", EIN_F32, {0x1p63}}, {"x1", EIN_I64, {.i = 2}}, {"x2", EIN_F64, {0.1}}, {"x2", EIN_F32, {(double)0.1f}},
        {"x2 * 0.1", EIN_F64, {0.1 * 0.1}}, {"x1 * 0.1", EIN_F64, {(double)(2.5f * 0.1f)}}, {"x1 + x2", EIN_F64, {2.6}},
        {"where(x0 > 9, x1, x2)", EIN_F64, {2.5}}, {"where(x2, x0, 0)", EIN_I64, {.i = MOST}},
        {"and(x2, x0)", EIN_F32, {1}}, {"not(x1)", EIN_I64, {.i = 0}}, {"x2 < 0.1", EIN_I64, {.i = 0}},
        {"x1 / 3", EIN_F32, {(double)(2.5f / 3.0f)}}, {"0.1", EIN_F64, {0.1}}, {"1e999", EIN_I64, {.i = MOST}}};
    const expr_value args[] = {{.i = MOST}, {.f = 2.5}, {.f = 0.1}};
    (void)state;
    for (int i = 0; i < COUNT(cases); i++) {
        arena a = {NULL};
        expr x;
        assert_int_equal(ein__expr_parse(&a, cases[i].source, "x", 3, NULL, 0, &x, NULL), EIN_OK);
        const expr_value got = ein__expr_eval_typed(&x, args, mixed, cases[i].to);
        if (cases[i].to == EIN_I64 ? got.i != cases[i].want.i : got.f != cases[i].want.f)
            fail_msg("%s: %a or %lld", cases[i].source, got.f, (long long)got.i);
        ein__arena_free(&a);
    }
}

/* A spread of bit patterns, subnormals too. */
static void constants_read_back(void **state)
{
    uint32_t bits = 1;
    (void)state;
    for (int i = 0; i < 20000; i++, bits = bits * 1664525u + 1013904223u) {
        float f, g;
        text t = {0};
        memcpy(&f, &bits, sizeof f);
        if (!isfinite(f)) continue;
        ein__expr_print_number(f, EIN_F32, &t);
        const char *s = ein__text_get(&t);
        assert_int_equal(s[0] == '(', signbit(f) != 0);
        assert_true(strpbrk(s, ".e") != NULL && strchr(s, 'f') != NULL);
        g = strtof(s[0] == '(' ? s + 1 : s, NULL);
        assert_memory_equal(&f, &g, sizeof f);
        ein__text_free(&t);
    }
    for (int i = 0; i < 20000; i++, bits = bits * 1664525u + 1013904223u) {
        uint64_t wide = (uint64_t)bits << 32 | bits * 2654435761u;
        double f, g;
        text t = {0};
        memcpy(&f, &wide, sizeof f);
        if (!isfinite(f)) continue;
        ein__expr_print_number(f, EIN_F64, &t);
        const char *s = ein__text_get(&t);
        assert_true(strpbrk(s, ".e") != NULL && strchr(s, 'f') == NULL);
        g = strtod(s[0] == '(' ? s + 1 : s, NULL);
        assert_memory_equal(&f, &g, sizeof f);
        ein__text_free(&t);
    }
    text t = {0};
    ein__expr_print_number(NAN, EIN_F32, &t);
    ein__expr_print_number(NAN, EIN_F64, &t);
    assert_string_equal(ein__text_get(&t), "K_NAND_NAN");
    ein__text_free(&t);
}

static void two_prefixes(void **state)
{
    static const double args[] = {1, 2, 10, 20};
    arena a = {NULL};
    error e = {0};
    expr x;
    (void)state;
    assert_int_equal(ein__expr_parse(&a, "a0 + a1 * b0 - b1", "a", 2, "b", 2, &x, &e), EIN_OK);
    same(ein__expr_eval(&x, args), 1.0);
    assert_int_equal(ein__expr_work(&x), 3);
    assert_int_equal(ein__expr_parse(&a, "a2", "a", 2, "b", 2, &x, &e), EIN_INVALID);
    ein__arena_free(&a);
}

static void refuses(void **state)
{
    static const struct { const char *source, *column, *word; } cases[] = {
        {"", "column 1", "at the end"}, {"x0 +", "column 5", "at the end"},
        {"x0 + * x1", "column 6", "\"*\""}, {"x3", "column 1", "unknown name at \"x3\""},
        {"x00", "column 1", "\"x00\""}, {"x", "column 1", "\"x\""}, {"y + foo", "column 1", "\"y\""},
        {"x0 + foo", "column 6", "\"foo\""}, {"foo(x0)", "column 1", "\"foo\""},
        {"exp x0", "column 1", "unknown name at \"exp\""}, {"exp()", "column 5", "\")\""},
        {"exp(x0, x1)", "column 1", "too many operands"}, {"pow(x0)", "column 7", "too few operands"},
        {"(x0", "column 4", "expected \")\" at the end"}, {"x0)", "column 3", "\")\""},
        {"x0 x1", "column 4", "\"x1\""}, {"x0 = x1", "column 4", "\"=\""}, {"x0 ! x1", "column 4", "\"!\""}, {"and(x0)", "column 7", "too few"},
        {"not(x0, x1)", "column 1", "too many"},
        {"2x0", "column 1", "malformed number at \"2x0\""}, {"1.2.3", "column 1", "\"1.2.3\""},
        {"1e", "column 1", "exponent"}, {".", "column 1", "number"}, {"0x10", "column 1", "\"0x10\""},
        {"x0 ; y", "column 4", "\";\""}, {"\xc3\xa9", "column 1", "\"\xc3\xa9\""},
        {"x99999999999999999999", "column 1", "unknown"}, {"x0 ? 1 : 2", "column 4", "\"?\""},
        {"0.00000000000000000000000000000000000000000000000000001", "column 1", "48"}};
    (void)state;
    for (int i = 0; i < COUNT(cases); i++) {
        arena a = {NULL};
        error e = {0};
        expr x = {0};
        assert_int_equal(ein__expr_parse(&a, cases[i].source, "x", 3, NULL, 0, &x, &e), EIN_INVALID);
        if (strstr(e.line, cases[i].column) == NULL || strstr(e.line, cases[i].word) == NULL)
            fail_msg("\"%s\" gave: %s", cases[i].source, e.line);
        ein__arena_free(&a);
    }
    assert_int_equal(ein__expr_parse(NULL, NULL, "x", 3, NULL, 0, NULL, NULL), EIN_INVALID);
}

/* Depth and length are limited, whatever builds them. */
static void limits(void **state)
{
    static const char *const openings[] = {"(", "-", "exp(", "pow(1,", "where(1,2,"};
    (void)state;
    for (int i = 0; i < COUNT(openings) + 1; i++) {
        arena a = {NULL};
        error e = {0};
        text t = {0};
        expr x;
        for (int k = 0; k < 100000; k++) ein__text_add(&t, "%s", i < COUNT(openings) ? openings[i] : "x0+");
        ein__text_add(&t, "x0");
        assert_int_equal(ein__expr_parse(&a, ein__text_get(&t), "x", 1, NULL, 0, &x, &e), EIN_INVALID);
        assert_non_null(strstr(e.line, i < COUNT(openings) ? "64 deep" : "1024 terms"));
        ein__text_free(&t);
        ein__arena_free(&a);
    }
}

/* Every prefix of a text, and every text with one byte changed, is read or refused. */
static void survives_damage(void **state)
{
    static const char good[] = "where(x0 <= 1.5e-3, max(x1, -2), pow(x2, .5) / 3) == -x0 + 1";
    (void)state;
    for (size_t i = 0; i < sizeof good; i++) {
        for (int c = 0; c < 256; c++) {
            char damaged[sizeof good];
            arena a = {NULL};
            error e = {0};
            expr x;
            memcpy(damaged, good, sizeof good);
            damaged[i] = (char)c;
            damaged[sizeof good - 1] = 0;
            ein_status s = ein__expr_parse(&a, damaged, "x", 3, NULL, 0, &x, &e);
            if (s == EIN_OK) (void)ein__expr_eval(&x, arguments);
            else assert_non_null(strstr(e.line, "column"));
            ein__arena_free(&a);
        }
    }
}

static void key_of(const char *source, text *key)
{
    arena a = {NULL};
    expr x;
    assert_int_equal(ein__expr_parse(&a, source, "x", 3, NULL, 0, &x, NULL), EIN_OK);
    ein__expr_key(&x, key);
    ein__arena_free(&a);
}

static void keys_tell_apart(void **state)
{
    static const char *const sources[] = {"x0 + x1", "x1 + x0", "x0 - x1", "x0 + x2", "x0 + 1", "x0 + 2",
                                          "0.0", "-0.0", "x0", "where(x0, x1, x2)", "where(x0, x2, x1)"};
    text keys[COUNT(sources)] = {{0}}, again = {0};
    (void)state;
    for (int i = 0; i < COUNT(sources); i++) key_of(sources[i], &keys[i]);
    for (int i = 0; i < COUNT(sources); i++)
        for (int j = 0; j < i; j++)
            assert_false(keys[i].n == keys[j].n && memcmp(keys[i].bytes, keys[j].bytes, keys[i].n) == 0);
    key_of(" ( x0)+x1", &again);
    assert_int_equal(again.n, keys[0].n);
    assert_memory_equal(again.bytes, keys[0].bytes, again.n);
    for (int i = 0; i < COUNT(sources); i++) ein__text_free(&keys[i]);
    ein__text_free(&again);
}

static void out_of_memory(void **state)
{
    long before = ein__alloc_live(), n = 0;
    ein_status s;
    (void)state;
    do {
        arena a = {NULL};
        error e = {0};
        expr x;
        ein__alloc_fail_at(++n);
        s = ein__expr_parse(&a, "x0+x0+x0+x0+x0+x0+x0+x0+x0", "x", 1, NULL, 0, &x, &e);
        ein__alloc_fail_at(0);
        ein__arena_free(&a);
        assert_true(s == EIN_OK || s == EIN_NO_MEMORY);
        assert_int_equal(ein__alloc_live(), before);
    } while (s != EIN_OK);
    assert_true(n > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluates), cmocka_unit_test(evaluates_in_float), cmocka_unit_test(prints),
        cmocka_unit_test(types_follow),
        cmocka_unit_test(prints_types), cmocka_unit_test(prints_integers), cmocka_unit_test(evaluates_integers),
        cmocka_unit_test(evaluates_mixed), cmocka_unit_test(constants_read_back), cmocka_unit_test(two_prefixes), 
        cmocka_unit_test(refuses), cmocka_unit_test(limits), cmocka_unit_test(survives_damage),
        cmocka_unit_test(keys_tell_apart), cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
