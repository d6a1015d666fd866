/* SPDX-License-Identifier: Apache-2.0 */
/* Which code a device gets, by what the compiler knows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "jit/compiler/architecture.h"

enum { MOST = 20 };
static const int CUDA12[] = {50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 0};
static const int CUDA12_8[] = {75, 80, 86, 87, 89, 90, 100, 101, 103, 120, 0};
static const int CUDA13[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121, 0};
static const int UNSORTED[] = {120, 90, 75, 80, 0};

static const struct { const int *known; int device; const char *wanted; } CASES[] = {
    {CUDA13, 75, "sm_75"},       {CUDA13, 80, "sm_80"},    {CUDA13, 90, "sm_90"},   {CUDA13, 121, "sm_121"},
    {CUDA13, 122, "sm_121"},     /* a later minor number runs the same machine code */
    {CUDA13, 130, "compute_121"}, {CUDA13, 990, "compute_121"},
    {CUDA12, 100, "compute_90"},  {CUDA12, 120, "compute_90"}, {UNSORTED, 86, "sm_80"}, {UNSORTED, 103, "compute_90"},
    {CUDA13, 110, "sm_110"},      {CUDA12_8, 110, "sm_101"},   {CUDA13, 101, "sm_110"}, /* Thor has two numbers */
    {CUDA12, 110, NULL},          {CUDA13, 72, NULL}, /* integrated: only code of its own */
    {CUDA12, 87, "sm_87"},        {CUDA12, 88, "sm_86"}, /* never an integrated part's code */
    {CUDA13, 70, NULL},           {CUDA13, 61, NULL},   {CUDA12, 61, "sm_61"},
};

static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        architecture a = {""};
        error e = {0};
        int n = 0;
        while (CASES[i].known[n] != 0) n++;
        ein_status s = ein__architecture_choose(CASES[i].known, n, CASES[i].device, &a, &e);
        assert_int_equal(s, CASES[i].wanted != NULL ? EIN_OK : EIN_NO_DEVICE);
        if (CASES[i].wanted != NULL) assert_string_equal(a.s, CASES[i].wanted);
    }
}

static void test_message(void **state)
{
    (void)state;
    architecture a;
    error e = {0};
    assert_int_equal(ein__architecture_choose(CUDA13, 12, 70, &a, &e), EIN_NO_DEVICE);
    assert_string_equal(e.line, "this NVRTC makes no code for a device of compute capability 7.0; the newest it knows is 12.1");
    assert_int_equal(ein__architecture_choose(CUDA13, 0, 90, &a, &e), EIN_NO_DEVICE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_message)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
