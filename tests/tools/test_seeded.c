/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/parallel.h"
#include "tools/seeded.h"

enum { N = 1000001 };

static void test_moments(void **state)
{
    (void)state;
    float *x = malloc(N * sizeof *x);
    assert_non_null(x);
    seeded_normal("w", 3, 0.5f, N, x);
    double sum = 0, square = 0, fourth = 0, neighbours = 0, last = 0;
    int beyond = 0;
    for (int i = 0; i < N; i++) {
        double v = ((double)x[i] - 3) / 0.5;
        sum += v;
        square += v * v;
        fourth += v * v * v * v;
        neighbours += v * last;
        last = v;
        beyond += fabs(v) > 1.959964;
    }
    assert_true(fabs(sum / N) < 0.005);
    assert_true(fabs(square / N - 1) < 0.01);
    assert_true(fabs(fourth / N - 3) < 0.05);
    assert_true(fabs(neighbours / N) < 0.005);
    assert_true(fabs((double)beyond / N - 0.05) < 0.001);
    free(x);
}

/* A shorter stream is a prefix of a longer one, however many threads made it; names give other numbers. */
static void test_counter_based(void **state)
{
    (void)state;
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    assert_true(x != NULL && y != NULL);
    seeded_normal("w", 0, 1, N, x);
    seeded_normal("w", 0, 1, 101, y);
    assert_memory_equal(x, y, 101 * sizeof *x);
    seeded_normal("w", 0, 1, N, y);
    assert_memory_equal(x, y, N * sizeof *x);
    seeded_normal("v", 0, 1, 101, y);
    int same = 0;
    for (int i = 0; i < 101; i++) same += x[i] == y[i];
    assert_true(same < 2);
    free(x);
    free(y);
}

static void test_integers(void **state)
{
    (void)state;
    int32_t ids[7000];
    int seen[7] = {0};
    seeded_integers("ids", 7, 7000, ids);
    for (int i = 0; i < 7000; i++) {
        assert_true(ids[i] >= 0 && ids[i] < 7);
        seen[ids[i]]++;
    }
    for (int i = 0; i < 7; i++) assert_in_range(seen[i], 850, 1150);
}

static void mark(void *user, int64_t lo, int64_t hi)
{
    unsigned char *seen = user;
    for (int64_t i = lo; i < hi; i++) seen[i]++;
}

static void test_ranges_cover_once(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 4095, 4096, 4097, 100003};
    for (int k = 0; k < 6; k++) {
        unsigned char *seen = calloc((size_t)sizes[k] + 1, 1);
        assert_non_null(seen);
        parallel_ranges(sizes[k], mark, seen);
        for (int64_t i = 0; i < sizes[k]; i++) assert_int_equal(seen[i], 1);
        assert_int_equal(seen[sizes[k]], 0);
        free(seen);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moments),
        cmocka_unit_test(test_counter_based),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_ranges_cover_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
