/* SPDX-License-Identifier: Apache-2.0 */
/* The comparison of a result with the reference. */
#include "tests/core/reference/fixture.h"

static comparison compare(ein_dtype d, i64 rows, i64 width, const void *result, const double *f64,
                          const double *f32, double tolerance)
{
    const comparable how = {d, ein__dtype_is_float(d) ? d : EIN_I64, rows, width};
    return ein__compare(&how, result, f64, f32, tolerance);
}

#define F(...) ((float[]){__VA_ARGS__})
#define D(...) ((double[]){__VA_ARGS__})

static void test_compare(void **state)
{
    (void)state;
    const double f64[4] = {1, 2, 3, 4}, f32[4] = {1.000001, 2, 3, 4};
    comparison c = compare(EIN_F32, 2, 2, F(1, 2, 3, 4), f64, f32, 1e-5);
    assert_true(c.ok && c.norm_error == 0 && c.worst_row == 0);
    /* 0.5 off in a norm of sqrt(30); row 1's bound is 1e-6 of its norm, 5. */
    c = compare(EIN_F32, 2, 2, F(1, 2, 3, 4.5f), f64, f32, 1);
    assert_true(!c.ok && fabs(c.norm_error - 0.5 / sqrt(30)) < 1e-12 && fabs(c.worst_row - 1e5) < 1e-3);
    /* Row 0's bound is 8 times 1e-6, and 1e-6 of its norm. */
    c = compare(EIN_F32, 2, 2, F(1.000008f, 2, 3, 4), f64, f32, 1e-5);
    assert_true(c.ok && c.worst_row > 0.7 && c.worst_row < 1);
    c = compare(EIN_F32, 2, 2, F(1.000008f, 2, 3, 4), f64, f32, 1e-6);
    assert_true(!c.ok && c.worst_row < 1);
    c = compare(EIN_F32, 2, 2, F(1, 2, NAN, 4), f64, f32, 1);
    assert_false(c.ok);
    assert_true(compare(EIN_F32, 0, 5, NULL, NULL, NULL, 1e-5).ok);
}

static void test_compare_not_finite(void **state)
{
    (void)state;
    const double f64[3] = {INFINITY, 1, 1e39};
    assert_true(compare(EIN_F32, 1, 3, F(INFINITY, 1, INFINITY), f64, f64, 1e-5).ok);
    assert_false(compare(EIN_F32, 1, 3, F(-INFINITY, 1, INFINITY), f64, f64, 1e-5).ok);
    assert_false(compare(EIN_F32, 1, 3, F(INFINITY, INFINITY, INFINITY), f64, f64, 1e-5).ok);
    assert_true(compare(EIN_F32, 1, 2, F(NAN, 1), D(NAN, 1), D(NAN, 1), 1e-5).ok);
    assert_false(compare(EIN_F32, 1, 2, F(0, 1), D(NAN, 1), D(NAN, 1), 1e-5).ok);
    /* A plain evaluation that overflowed excuses nothing. */
    assert_false(compare(EIN_F32, 1, 2, F(2, 1), D(1, 1), D(NAN, 1), 10).ok);
    /* Against zeros the error is absolute. */
    assert_true(compare(EIN_F32, 1, 2, F(0, 0), D(0, 0), D(0, 0), 1e-5).ok);
    assert_false(compare(EIN_F32, 1, 2, F(1e-7f, 0), D(0, 0), D(0, 0), 1e-5).ok);
    /* 65520 is the first number that rounds to an infinity of f16, and f64 holds 1e39. */
    assert_true(compare(EIN_F16, 1, 1, (uint16_t[]){0x7c00}, D(65520), D(65520), 1e-2).ok);
    assert_false(compare(EIN_F16, 1, 1, (uint16_t[]){0x7c00}, D(65519), D(65519), 1e-2).ok);
    assert_false(compare(EIN_F64, 1, 1, D(INFINITY), D(1e39), D(1e39), 1e-2).ok);
}

/* 1, 2 and 0x3f81 = 1 + 2^-7, the next after 1: the row's norm is sqrt(5), its unit 2^-8. */
static void test_compare_narrow(void **state)
{
    (void)state;
    const double f64[2] = {1, 2};
    comparison c = compare(EIN_BF16, 1, 2, (uint16_t[]){0x3f81, 0x4000}, f64, f64, 1e-2);
    assert_true(c.ok && fabs(c.worst_row - 2 / sqrt(5)) < 1e-12 && fabs(c.norm_error - 0x1p-7 / sqrt(5)) < 1e-12);
    c = compare(EIN_BF16, 1, 2, (uint16_t[]){0x3f82, 0x4000}, f64, f64, 1e-2);
    assert_true(!c.ok && c.norm_error < 1e-2 && fabs(c.worst_row - 4 / sqrt(5)) < 1e-12);
    /* The plain evaluation was as far off as a quarter of that. */
    c = compare(EIN_BF16, 1, 2, (uint16_t[]){0x3f82, 0x4000}, f64, D(1 + 0x1p-8, 2), 1e-2);
    assert_true(c.ok);
    c = compare(EIN_F16, 1, 2, (uint16_t[]){0x3c01, 0x4000}, f64, f64, 1e-2); /* 1 + 2^-10 */
    assert_true(c.ok && fabs(c.worst_row - 2 / sqrt(5)) < 1e-12);
    c = compare(EIN_F16, 1, 2, (uint16_t[]){0x3c02, 0x4000}, f64, f64, 1e-2);
    assert_false(c.ok);
}

/* f64 has its norm only: the plain evaluation knows nothing of 1e-13. */
static void test_compare_f64(void **state)
{
    (void)state;
    assert_true(compare(EIN_F64, 1, 2, D(1 + 1e-12, 2), D(1, 2), D(1, 2), 1e-12).ok);
    assert_false(compare(EIN_F64, 1, 2, D(1 + 3e-12, 2), D(1, 2), D(1.1, 2), 1e-12).ok);
    assert_false(compare(EIN_F64, 1, 2, D(1, NAN), D(1, 2), D(1, 2), 1e-12).ok);
    /* Behind an f64 that was computed from values in f32 is f32's rounding. */
    const comparable how = {EIN_F64, EIN_F32, 1, 2};
    assert_true(ein__compare(&how, D(1 + 1e-6, 2), D(1, 2), D(1, 2), 1e-5).ok);
    assert_false(ein__compare(&how, D(1 + 3e-6, 2), D(1, 2), D(1, 2), 1e-5).ok);
}

static void test_compare_integers(void **state)
{
    (void)state;
    const double f64[3] = {1, -7, 100}, f32[3] = {50, 50, 50};
    assert_true(compare(EIN_I8, 1, 3, (int8_t[]){1, -7, 100}, f64, f32, 1).ok);
    assert_false(compare(EIN_I8, 1, 3, (int8_t[]){1, -7, 101}, f64, f32, 1).ok);
    assert_true(compare(EIN_I32, 3, 1, (int32_t[]){1, -7, 100}, f64, f32, 0).ok);
    assert_false(compare(EIN_I32, 3, 1, (int32_t[]){1, -7, 99}, f64, f32, 1).ok);
    assert_true(compare(EIN_BOOL, 1, 2, (uint8_t[]){1, 0}, D(1, 0), D(1, 0), 0).ok);
    assert_false(compare(EIN_BOOL, 1, 2, (uint8_t[]){1, 1}, D(1, 0), D(1, 1), 1).ok);
    assert_true(compare(EIN_I64, 1, 1, (i64[]){1ll << 53}, D(0x1p53), D(0), 0).ok);
    assert_false(compare(EIN_I64, 1, 1, (i64[]){(1ll << 53) - 1}, D(0x1p53), D(0), 1).ok);
}

static void test_tolerance(void **state)
{
    (void)state;
    assert_true(ein__tolerance(EIN_F64) == 1e-12 && ein__tolerance(EIN_F32) == 1e-5);
    assert_true(ein__tolerance(EIN_BF16) == 1e-2 && ein__tolerance(EIN_F16) == 1e-2 && ein__tolerance(EIN_I64) == 0);
}

/* a (bf16 leaf) -> x (f32) -> y (bf16) -> z (f32); i: x is compared; m: y is moved. */
static void test_comparable(void **state)
{
    (void)state;
    fixture f = {0};
    comparable c;
    value a = leaf_of(&f, EIN_BF16, 6, NULL);
    value x = map_of(&f, "i=6", "x0 * 2", -1, 1, VALUES(a), MAPS("i"), "i");
    value moved = add(&f, node_of(&f, OP_MOVE, "i=6", VALUES(a), MAPS("i"), MAPS("i")));
    value w = map_of(&f, "i=6", "x0 + 1", -1, 1, VALUES(moved), MAPS("i"), "i");
    value y = map_of(&f, "i=6", "x0", -1, 1, VALUES(x), MAPS("i"), "i");
    value z = map_of(&f, "i=6", "x0 + 1", -1, 1, VALUES(y), MAPS("i"), "i");
    value i = map_of(&f, "i=6", "x0 < 1", -1, 1, VALUES(x), MAPS("i"), "i");
    value j = map_of(&f, "i=6", "x0 + 1", -1, 1, VALUES(i), MAPS("i"), "i");
    value whole = leaf_of(&f, EIN_I32, 6, NULL);
    value sum = map_of(&f, "i=6", "x0 + 1", -1, 1, VALUES(whole), MAPS("i"), "i");
    f.g.values.items[y].dtype = EIN_BF16;
    f.g.values.items[i].dtype = EIN_BOOL;
    f.g.values.items[j].dtype = EIN_F64;
    f.g.values.items[sum].dtype = EIN_I32;
    const value of[] = {a, x, w, y, z, i, j, sum};
    const ein_dtype dtypes[] = {EIN_BF16, EIN_F32, EIN_F32, EIN_BF16, EIN_F32, EIN_BOOL, EIN_F64, EIN_I32};
    const ein_dtype precisions[] = {EIN_BF16, EIN_F32, EIN_F32, EIN_BF16, EIN_BF16, EIN_F32, EIN_F32, EIN_I64};
    for (int k = 0; k < 8; k++) {
        ok(ein__comparable(&f.g, of[k], &c));
        assert_int_equal(c.dtype, dtypes[k]);
        assert_int_equal(c.precision, precisions[k]);
        assert_true(c.rows == 1 && c.width == 6);
    }
    /* f64 results: of f64 products, of an f32 as it is, and with a part that is f32. */
    value d = leaf_of(&f, EIN_F64, 6, NULL), s = leaf_of(&f, EIN_F32, 6, NULL);
    const char *const bodies[] = {"x0 * x1", "where(x1 > 0.5, x0, x1)", "x0 / (1 + abs(x1))", "x1 * x1 + x0"};
    for (int k = 0; k < 4; k++) {
        value mixed = map_of(&f, "i=6", bodies[k], -1, 2, VALUES(d, s), MAPS("i", "i"), "i");
        f.g.values.items[mixed].dtype = EIN_F64;
        ok(ein__comparable(&f.g, mixed, &c));
        assert_int_equal(c.precision, k < 2 ? EIN_F64 : EIN_F32);
    }
    value_info *shape = &f.g.values.items[z];
    shape->rank = 3;
    memcpy(shape->shape, (i64[]){2, 1, 3}, 3 * sizeof(i64));
    ok(ein__comparable(&f.g, z, &c));
    assert_true(c.rows == 2 && c.width == 3);
    shape->rank = 0;
    ok(ein__comparable(&f.g, z, &c));
    assert_true(c.rows == 1 && c.width == 1);
    shape->rank = 2;
    memcpy(shape->shape, (i64[]){2, 0}, 2 * sizeof(i64));
    ok(ein__comparable(&f.g, z, &c));
    assert_true(c.rows == 0 && c.width == 0);
    ein__alloc_fail_at(1);
    assert_int_equal(ein__comparable(&f.g, z, &c), EIN_NO_MEMORY);
    ein__alloc_fail_at(0);
    done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compare), cmocka_unit_test(test_compare_not_finite),
        cmocka_unit_test(test_compare_narrow), cmocka_unit_test(test_compare_f64),
        cmocka_unit_test(test_compare_integers), cmocka_unit_test(test_tolerance),
        cmocka_unit_test(test_comparable)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
