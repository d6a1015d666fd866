/* SPDX-License-Identifier: Apache-2.0 */
/* Element types: what is read, kept exact, rounded and converted. */
#include "tests/core/reference/fixture.h"

static const evaluator both[2] = {ein__reference_f64, ein__reference_f32};

/* All numbers of a 16-bit type, through an expression. */
static void test_halves_are_read(void **state)
{
    (void)state;
    uint16_t *bits = calloc(65536, sizeof *bits);
    double *got = calloc(65536, sizeof *got);
    for (int i = 0; i < 65536; i++) bits[i] = (uint16_t)i;
    for (int t = 0; t < 4; t++) {
        ein_dtype d = t < 2 ? EIN_BF16 : EIN_F16;
        fixture f = {0};
        value x = leaf_of(&f, d, 65536, bits);
        out(&f, map_of(&f, "i=65536", "x0", -1, 1, VALUES(x), MAPS("i"), "i"));
        ok(evaluate(&f, both[t % 2], &got));
        for (int i = 0; i < 65536; i++) {
            double want = ein__dtype_read(d, &bits[i]);
            assert_true((isnan(want) && isnan(got[i])) || (got[i] == want && signbit(got[i]) == signbit(want)));
        }
        done(&f);
    }
    free(bits);
    free(got);
}

static void test_leaves_of_all_types(void **state)
{
    (void)state;
    const ein_dtype types[] = {EIN_F32, EIN_F64, EIN_BF16, EIN_F16, EIN_I8, EIN_I32, EIN_I64};
    for (int t = 0; t < 7; t++) {
        fixture f = {0};
        value x = NUMBERS(&f, types[t], 1, -2, 100, 0);
        EXPECT(&f, map_of(&f, "i=4", "x0 * 0.5", -1, 1, VALUES(x), MAPS("i"), "i"), 0.5, -1, 50, 0);
        f = (fixture){0};
        x = NUMBERS(&f, types[t], 1, -2, 100, 0); /* an output as it is */
        EXPECT(&f, x, 1, -2, 100, 0);
    }
    fixture f = {0};
    value x = NUMBERS(&f, EIN_BOOL, 1, -2, 0.5, 0);
    EXPECT(&f, map_of(&f, "i=4", "x0 * 0.5", -1, 1, VALUES(x), MAPS("i"), "i"), 0.5, 0.5, 0.5, 0);
}

/* An f64 leaf is exact in f64, and f32 in the plain evaluation. */
static void test_f64(void **state)
{
    (void)state;
    double got[1];
    fixture f = {0};
    value x = NUMBERS(&f, EIN_F64, 1 + 0x1p-40);
    out(&f, typed(&f, EIN_F64, map_of(&f, "i=1", "x0 - 1", -1, 1, VALUES(x), MAPS("i"), "i")));
    ok(evaluate(&f, ein__reference_f64, (double *[]){got}));
    assert_true(got[0] == 0x1p-40);
    ok(evaluate(&f, ein__reference_f32, (double *[]){got}));
    assert_true(got[0] == 0);
    done(&f);
}

/* ---- integers ---- */

static value integer_map(fixture *f, ein_dtype d, const char *body, i64 n, const value *operands)
{
    char labels[16];
    const char *maps[] = {"i", "i", "i", "i", NULL};
    int used = 0;
    while (used < 4 && strstr(body, (const char[]){'x', (char)('0' + used), 0}) != NULL) used++;
    maps[used] = NULL;
    snprintf(labels, sizeof labels, "i=%lld", (long long)n);
    return typed(f, d, map_of(f, labels, body, -1, 1, operands, maps, "i"));
}

/* In both precisions exactly. */
static void expect_exact(fixture *f, value v, int n, const double *want)
{
    double got[64];
    out(f, v);
    for (int p = 0; p < 2; p++) {
        ok(evaluate(f, both[p], (double *[]){got}));
        for (int i = 0; i < n; i++) {
            if (got[i] != want[i]) fail_msg("precision %d, element %d is %.17g, not %.17g", p, i, got[i], want[i]);
        }
    }
    done(f);
}

#define EXACT(f, v, ...) \
    expect_exact((f), (v), (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})

static void test_integers_are_exact(void **state)
{
    (void)state;
    fixture f = {0};
    value x = leaf_of(&f, EIN_I64, 2, (i64[]){16777217, -(1ll << 40) - 1}), y = NUMBERS(&f, EIN_I32, 3, 5);
    EXACT(&f, integer_map(&f, EIN_I64, "x0 * x1 + 0 * x2", 2, VALUES(x, y, y)), 50331651, -5497558138885.0);
    f = (fixture){0};
    x = NUMBERS(&f, EIN_I8, -7, 7, -7), y = NUMBERS(&f, EIN_I8, 2, -2, -2);
    EXACT(&f, integer_map(&f, EIN_I8, "floordiv(x0, x1)", 3, VALUES(x, y)), -4, -4, 3);
    /* 2^53 and 2^53 + 1 differ, whatever the precision. */
    f = (fixture){0};
    x = leaf_of(&f, EIN_I64, 2, (i64[]){1ll << 53, 5}), y = leaf_of(&f, EIN_I64, 2, (i64[]){(1ll << 53) + 1, 5});
    EXACT(&f, integer_map(&f, EIN_BOOL, "x0 < x1", 2, VALUES(x, y)), 1, 0);
    f = (fixture){0};
    x = leaf_of(&f, EIN_I64, 2, (i64[]){1ll << 53, 5}), y = leaf_of(&f, EIN_I64, 2, (i64[]){(1ll << 53) + 1, 5});
    EXACT(&f, integer_map(&f, EIN_F32, "x1 - x0", 2, VALUES(x, y)), 1, 0);
}

static void test_integers_wrap(void **state)
{
    (void)state;
    fixture f = {0};
    value x = NUMBERS(&f, EIN_I8, 100, -128, 3), y = NUMBERS(&f, EIN_I8, 100, -1, 4);
    EXACT(&f, integer_map(&f, EIN_I8, "x0 + x1", 3, VALUES(x, y)), -56, 127, 7);
    f = (fixture){0};
    x = NUMBERS(&f, EIN_I32, 2147483647, -2147483648.0), y = NUMBERS(&f, EIN_I32, 1, -1);
    EXACT(&f, integer_map(&f, EIN_I32, "x0 + x1", 2, VALUES(x, y)), -2147483648.0, 2147483647);
    /* What is computed is not what is stored: the sum is halved before it wraps. */
    f = (fixture){0};
    x = NUMBERS(&f, EIN_I8, 100), y = NUMBERS(&f, EIN_I8, 100);
    EXACT(&f, integer_map(&f, EIN_I8, "floordiv(x0 + x1, 2)", 1, VALUES(x, y)), 100);
}

/* A choice by floats among integers that no f32 holds, and integers among floats. */
static void test_mixed(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 0.25, 0.75), y = leaf_of(&f, EIN_I64, 2, (i64[]){16777217, 33554433});
    EXACT(&f, integer_map(&f, EIN_I64, "where(x0 > 0.5, x1, -x1)", 2, VALUES(x, y)), -16777217, 33554433);
    f = (fixture){0};
    x = FLOATS(&f, 0.25, 0.75), y = NUMBERS(&f, EIN_BOOL, 0, 1);
    EXPECT(&f, integer_map(&f, EIN_F32, "where(x1, x0, -1)", 2, VALUES(x, y)), -1, 0.75);
    f = (fixture){0};
    x = FLOATS(&f, 0.25, 0.75), y = NUMBERS(&f, EIN_I32, 7, -7);
    EXPECT(&f, integer_map(&f, EIN_F32, "floordiv(x1, 2) + x0", 2, VALUES(x, y)), 3.25, -3.25);
    f = (fixture){0};
    x = NUMBERS(&f, EIN_I32, 1, 2);
    EXPECT(&f, integer_map(&f, EIN_F32, "where(x0 > 1, 1e400, x0)", 2, VALUES(x)), 1, INFINITY);
    f = (fixture){0};
    x = NUMBERS(&f, EIN_I32, 7, -7); /* a quotient is a float */
    EXPECT(&f, integer_map(&f, EIN_F32, "x0 / 2", 2, VALUES(x)), 3.5, -3.5);
}

static void test_casts(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 1.75, -1.75, 3e9, -INFINITY, NAN);
    EXACT(&f, integer_map(&f, EIN_I32, "x0", 5, VALUES(x)), 1, -1, 2147483647, -2147483648.0, 0);
    f = (fixture){0};
    x = FLOATS(&f, 1.75, -1.75, 3e9, -INFINITY, NAN);
    EXACT(&f, integer_map(&f, EIN_I8, "x0", 5, VALUES(x)), 1, -1, 127, -128, 0);
    f = (fixture){0};
    x = FLOATS(&f, 0.25, 0, NAN, -3);
    EXACT(&f, integer_map(&f, EIN_BOOL, "x0", 4, VALUES(x)), 1, 0, 1, 1);
    f = (fixture){0};
    x = NUMBERS(&f, EIN_I32, 256, 0, -1); /* to bool by value, to i8 by bits */
    EXACT(&f, integer_map(&f, EIN_BOOL, "x0", 3, VALUES(x)), 1, 0, 1);
    f = (fixture){0};
    x = NUMBERS(&f, EIN_I32, 256, 200, -1);
    EXACT(&f, integer_map(&f, EIN_I8, "x0", 3, VALUES(x)), 0, -56, -1);
    f = (fixture){0};
    x = NUMBERS(&f, EIN_I64, 5, -6);
    EXACT(&f, integer_map(&f, EIN_BF16, "x0", 2, VALUES(x)), 5, -6);
}

/* ---- sums ---- */

static value sum_of(fixture *f, ein_dtype to, merge_kind kind, value x, const char *labels, const char *map)
{
    node n = node_of(f, OP_MAP, labels, VALUES(x), MAPS(map), MAPS(""));
    merge_by(f, &n, kind, to, (const char *[]){"x0"});
    return typed(f, to, add(f, n));
}

static void test_integer_sums(void **state)
{
    (void)state;
    fixture f = {0};
    value x = NUMBERS(&f, EIN_I8, 100, 100, 100, -128);
    EXACT(&f, sum_of(&f, EIN_I64, MERGE_SUM, x, "i=4", "i"), 172);
    f = (fixture){0};
    x = NUMBERS(&f, EIN_I8, 100, 100, 100, -128);
    EXACT(&f, sum_of(&f, EIN_I8, MERGE_SUM, x, "i=4", "i"), -84);
    f = (fixture){0};
    x = NUMBERS(&f, EIN_BOOL, 1, 1, 0, 1);
    EXACT(&f, sum_of(&f, EIN_I64, MERGE_SUM, x, "i=4", "i"), 3);
    f = (fixture){0};
    x = leaf_of(&f, EIN_I64, 3, (i64[]){1ll << 52, 1, -3});
    EXACT(&f, sum_of(&f, EIN_I64, MERGE_SUM, x, "i=3", "i"), 0x1p52 - 2);
    f = (fixture){0};
    x = leaf_of(&f, EIN_I64, 2, (i64[]){INT64_MAX, INT64_MAX});
    EXACT(&f, sum_of(&f, EIN_I64, MERGE_SUM, x, "i=2", "i"), -2);
    f = (fixture){0};
    x = NUMBERS(&f, EIN_I32, 65537, 65537, 2);
    EXACT(&f, sum_of(&f, EIN_I32, MERGE_PROD, x, "i=3", "i"), 262146); /* 2 (2^32 + 2^17 + 1), without its 2^33 */
}

/* The identities of extremes are the type's ends; any and all. */
static void test_integer_extremes(void **state)
{
    (void)state;
    fixture f = {0};
    value x = leaf_of(&f, EIN_I64, 3, (i64[]){-(1ll << 52) - 1, -(1ll << 52) - 3, -(1ll << 53)});
    EXACT(&f, sum_of(&f, EIN_I64, MERGE_MAX, x, "i=3", "i"), -0x1p52 - 1);
    f = (fixture){0};
    x = NUMBERS(&f, EIN_I8, 5, -7, 3);
    EXACT(&f, sum_of(&f, EIN_I8, MERGE_MIN, x, "i=3", "i"), -7);
    for (int all = 0; all < 2; all++) {
        f = (fixture){0};
        x = NUMBERS(&f, EIN_BOOL, 0, 1, 0);
        EXACT(&f, sum_of(&f, EIN_BOOL, all ? MERGE_MIN : MERGE_MAX, x, "i=3", "i"), !all);
    }
}

/* ---- narrow floats ---- */

/* A node adds in f32 and its result is rounded, in the plain evaluation; in f64 nothing is. */
static void test_narrow_results(void **state)
{
    (void)state;
    const ein_dtype types[] = {EIN_BF16, EIN_F16};
    const double units[] = {0x1p-8, 0x1p-11}; /* half a unit in 1's last place */
    double got[2][1];
    for (int t = 0; t < 2; t++) {
        double u = units[t];
        fixture f = {0};
        value x = NUMBERS(&f, types[t], 1, u, u, u / 2);
        value sum = sum_of(&f, types[t], MERGE_SUM, x, "i=4", "i");
        out(&f, sum);
        out(&f, typed(&f, types[t], map_of(&f, "i=1", "x0 + 0.625", -1, 1, VALUES(sum), MAPS("i"), "i")));
        f.g.nodes.items[1].body[0] = parse(&f, t == 0 ? "x0 + 0.001953125" : "x0 + 0.000244140625"); /* half of u */
        ok(evaluate(&f, ein__reference_f64, (double *[]){got[0], got[1]}));
        assert_true(got[0][0] == 1 + 2.5 * u && got[1][0] == 1 + 3 * u);
        ok(evaluate(&f, ein__reference_f32, (double *[]){got[0], got[1]}));
        assert_true(got[0][0] == 1 + 2 * u && got[1][0] == 1 + 2 * u);
        done(&f);
    }
}

static void test_narrow_overflow(void **state)
{
    (void)state;
    double got[2];
    fixture f = {0};
    value x = FLOATS(&f, 70000, 1e-9f);
    value y = typed(&f, EIN_F16, map_of(&f, "i=2", "x0", -1, 1, VALUES(x), MAPS("i"), "i"));
    out(&f, map_of(&f, "i=2", "x0 * 1", -1, 1, VALUES(y), MAPS("i"), "i"));
    ok(evaluate(&f, ein__reference_f64, (double *[]){got}));
    assert_true(got[0] == 70000 && got[1] == (double)1e-9f);
    ok(evaluate(&f, ein__reference_f32, (double *[]){got}));
    assert_true(got[0] == INFINITY && got[1] == 0);
    done(&f);
}

/* Large enough for several threads to round. */
static void test_narrow_large(void **state)
{
    (void)state;
    enum { N = 200000 };
    float *x = calloc(N, sizeof *x);
    double *got = calloc(N, sizeof *got);
    for (int i = 0; i < N; i++) x[i] = (float)i * 0.37f - 1000;
    fixture f = {.threads = 3};
    value v = leaf_of(&f, EIN_F32, N, x);
    out(&f, typed(&f, EIN_BF16, map_of(&f, "i=200000", "x0", -1, 1, VALUES(v), MAPS("i"), "i")));
    ok(evaluate(&f, ein__reference_f32, &got));
    for (int i = 0; i < N; i++) {
        uint16_t bits;
        ein__dtype_write(EIN_BF16, (double)x[i], &bits);
        assert_true(got[i] == ein__dtype_read(EIN_BF16, &bits));
    }
    free(x);
    free(got);
    done(&f);
}

/* ---- moves ---- */

static void test_moves_of_all_types(void **state)
{
    (void)state;
    const ein_dtype types[] = {EIN_F32, EIN_F64, EIN_BF16, EIN_F16, EIN_I8, EIN_I32, EIN_I64, EIN_BOOL};
    for (int t = 0; t < 8; t++) {
        fixture f = {0};
        value x = NUMBERS(&f, types[t], 0, 1, 1, 0, 1, 0), y = NUMBERS(&f, types[t], 1, 1, 0, 0);
        /* Concat, one operand transposed, the other every second element backwards. */
        node n = node_of(&f, OP_MOVE, "i=2 j=5", VALUES(x, y), MAPS("j<3 i", "-1*i+1<2 j-3<2"), MAPS("i j"));
        EXPECT(&f, add(&f, n), 0, 1, 1, 0, 0, 1, 0, 0, 1, 1);
        f = (fixture){0};
        x = NUMBERS(&f, types[t], 0, 1, 1, 0, 1, 0);
        EXPECT(&f, add(&f, node_of(&f, OP_MOVE, "i=3", VALUES(x), MAPS("-2*i+5<6"), MAPS("i"))), 0, 0, 1);
        /* A state of the type; where a row was computed, storages differ. */
        for (int computed = 0; computed < 2; computed++) {
            f = (fixture){0};
            x = NUMBERS(&f, types[t], 0, 0, 1, 1), y = NUMBERS(&f, types[t], 1);
            if (computed) y = typed(&f, types[t], map_of(&f, "i=1", "x0", -1, 1, VALUES(y), MAPS("i"), "i"));
            n = node_of(&f, OP_APPEND, "t=4 s=1", VALUES(x, y), MAPS("t", "s"), MAPS("t"));
            n.append_s = 1;
            n.scalar = 0;
            ok(push_scalar(&f.g, "position"));
            f.scalars[0] = 1;
            EXPECT(&f, add(&f, n), 0, 1, 1, 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halves_are_read), cmocka_unit_test(test_leaves_of_all_types),
        cmocka_unit_test(test_f64), cmocka_unit_test(test_integers_are_exact),
        cmocka_unit_test(test_integers_wrap), cmocka_unit_test(test_mixed), cmocka_unit_test(test_casts),
        cmocka_unit_test(test_integer_sums), cmocka_unit_test(test_integer_extremes),
        cmocka_unit_test(test_narrow_results), cmocka_unit_test(test_narrow_overflow),
        cmocka_unit_test(test_narrow_large), cmocka_unit_test(test_moves_of_all_types)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
