/* SPDX-License-Identifier: Apache-2.0 */
/* The comparison of a result with the reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "core/reference/reference.h"

static void test_compare(void **state)
{
    (void)state;
    const double f64[4] = {1, 2, 3, 4}, f32[4] = {1.000001, 2, 3, 4};
    comparison c = ein__compare((float[]){1, 2, 3, 4}, f64, f32, 2, 2, 1e-5);
    assert_true(c.ok && c.norm_error == 0 && c.worst_row == 0);
    /* 0.5 off in a norm of sqrt(30); row 1's bound is 1e-6 of its norm, 5. */
    c = ein__compare((float[]){1, 2, 3, 4.5f}, f64, f32, 2, 2, 1);
    assert_true(!c.ok && fabs(c.norm_error - 0.5 / sqrt(30)) < 1e-12 && fabs(c.worst_row - 1e5) < 1e-3);
    /* Row 0's bound is 8 times 1e-6, and 1e-6 of its norm. */
    c = ein__compare((float[]){1.000008f, 2, 3, 4}, f64, f32, 2, 2, 1e-5);
    assert_true(c.ok && c.worst_row > 0.7 && c.worst_row < 1);
    c = ein__compare((float[]){1.000008f, 2, 3, 4}, f64, f32, 2, 2, 1e-6);
    assert_true(!c.ok && c.worst_row < 1);
    c = ein__compare((float[]){1, 2, NAN, 4}, f64, f32, 2, 2, 1);
    assert_false(c.ok);
    assert_true(ein__compare(NULL, NULL, NULL, 0, 5, 1e-5).ok);
}

static void test_compare_not_finite(void **state)
{
    (void)state;
    const double f64[3] = {INFINITY, 1, 1e39};
    assert_true(ein__compare((float[]){INFINITY, 1, INFINITY}, f64, f64, 1, 3, 1e-5).ok);
    assert_false(ein__compare((float[]){-INFINITY, 1, INFINITY}, f64, f64, 1, 3, 1e-5).ok);
    assert_false(ein__compare((float[]){INFINITY, INFINITY, INFINITY}, f64, f64, 1, 3, 1e-5).ok);
    assert_true(ein__compare((float[]){NAN, 1}, (double[]){NAN, 1}, (double[]){NAN, 1}, 1, 2, 1e-5).ok);
    assert_false(ein__compare((float[]){0, 1}, (double[]){NAN, 1}, (double[]){NAN, 1}, 1, 2, 1e-5).ok);
    /* A plain evaluation that overflowed excuses nothing. */
    assert_false(ein__compare((float[]){2, 1}, (double[]){1, 1}, (double[]){NAN, 1}, 1, 2, 10).ok);
    /* Against zeros the error is absolute. */
    assert_true(ein__compare((float[]){0, 0}, (double[]){0, 0}, (double[]){0, 0}, 1, 2, 1e-5).ok);
    assert_false(ein__compare((float[]){1e-7f, 0}, (double[]){0, 0}, (double[]){0, 0}, 1, 2, 1e-5).ok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compare), cmocka_unit_test(test_compare_not_finite)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
