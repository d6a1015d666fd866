/* SPDX-License-Identifier: Apache-2.0 */
/* Elimination against all assignments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "optimizer/eliminate.h"
#include "tests/harness/random.h"

enum { MOST_VARS = 7, MOST_TABLES = 12 };

typedef struct made {
    sum_problem p;
    int sizes[MOST_VARS];
    cost_table tables[MOST_TABLES];
    i64 *entries[MOST_TABLES];
} made;



static void make_table(made *m, dice *rng, int most, int t)
{
    cost_table *x = &m->tables[t];
    i64 size = 1;
    for (int v = 0; v < m->p.n_vars && x->n_vars < most; v++)
        if (dice_below(rng, m->p.n_vars) < most) {
            x->vars[x->n_vars++] = v;
            size *= m->sizes[v];
        }
    m->entries[t] = malloc((size_t)size * sizeof *m->entries[t]);
    for (i64 i = 0; i < size; i++) m->entries[t][i] = dice_below(rng, 6) == 0 ? FAR : dice_below(rng, 30);
    x->at = m->entries[t];
}

static void make_problem(made *m, uint64_t seed, int most)
{
    dice rng = dice_make(seed, 0);
    memset(m, 0, sizeof *m);
    m->p = (sum_problem){.n_vars = 1 + dice_below(&rng, MOST_VARS), .sizes = m->sizes, .tables = m->tables};
    m->p.n_tables = dice_below(&rng, MOST_TABLES + 1);
    for (int v = 0; v < m->p.n_vars; v++) m->sizes[v] = 1 + dice_below(&rng, 5);
    for (int t = 0; t < m->p.n_tables; t++) make_table(m, &rng, most, t);
}

static void free_problem(made *m)
{
    for (int t = 0; t < m->p.n_tables; t++) free(m->entries[t]);
}

/* All assignments, the tables read by their definition. */
static i64 least(const made *m)
{
    int values[MOST_VARS] = {0};
    i64 best = FAR;
    for (int v = 0; v < m->p.n_vars;) {
        i64 sum = 0;
        for (int t = 0; t < m->p.n_tables; t++) {
            const cost_table *x = &m->tables[t];
            i64 at = 0, step = 1;
            for (int i = x->n_vars - 1; i >= 0; step *= m->sizes[x->vars[i--]]) at += values[x->vars[i]] * step;
            sum += x->at[at];
        }
        if (sum < best) best = sum;
        for (v = 0; v < m->p.n_vars && ++values[v] == m->sizes[v]; v++) values[v] = 0;
    }
    return best;
}

static void test_exact(void **state)
{
    (void)state;
    int far = 0;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        arena a = {NULL};
        made m;
        sum_answer x;
        make_problem(&m, seed, 3);
        i64 want = least(&m);
        assert_int_equal(ein__eliminate(&a, &m.p, FAR, NULL, &x), EIN_OK);
        assert_int_equal(x.cost, want);
        assert_int_equal(x.bound, want);
        assert_int_equal(ein__sum_at(&m.p, x.values), want);
        for (int v = 0; v < m.p.n_vars; v++) assert_in_range(x.values[v], 0, m.sizes[v] - 1);
        far += want == FAR;
        ein__arena_free(&a);
        free_problem(&m);
    }
    assert_in_range(far, 20, 1000);
}

/* The least cost with each value: of all assignments that have it. */
static void test_least_costs(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 600; seed++) {
        arena a = {NULL};
        made m;
        sum_answer x;
        i64 *least_of[MOST_VARS] = {NULL};
        make_problem(&m, seed, 3);
        m.p.least = least_of;
        assert_int_equal(ein__eliminate(&a, &m.p, FAR, NULL, &x), EIN_OK);
        for (int v = 0; v < m.p.n_vars; v++)
            for (int k = 0; k < m.sizes[v]; k++) {
                i64 only[5] = {FAR, FAR, FAR, FAR, FAR};
                only[k] = 0;
                made fixed = m;
                fixed.p.sizes = fixed.sizes;
                fixed.p.tables = fixed.tables;
                if (m.p.n_tables == MOST_TABLES) continue;
                fixed.tables[fixed.p.n_tables++] = (cost_table){1, {v}, only};
                assert_int_equal(least_of[v][k], least(&fixed));
            }
        ein__arena_free(&a);
        free_problem(&m);
    }
}

/* Where a variable is large, only such are asked about. */
static void test_least_of_large(void **state)
{
    (void)state;
    enum { LARGE = 300, SMALL = 4 };
    arena a = {NULL};
    dice rng = dice_make(3, 0);
    const int sizes[3] = {SMALL, LARGE, SMALL};
    i64 left[SMALL * LARGE], right[LARGE * SMALL], *least_of[3] = {NULL};
    for (int i = 0; i < SMALL * LARGE; i++) left[i] = dice_below(&rng, 1000);
    for (int i = 0; i < SMALL * LARGE; i++) right[i] = dice_below(&rng, 1000);
    const cost_table tables[2] = {{2, {0, 1}, left}, {2, {1, 2}, right}};
    const sum_problem p = {3, sizes, 2, tables, least_of};
    sum_answer x;
    assert_int_equal(ein__eliminate(&a, &p, FAR, NULL, &x), EIN_OK);
    assert_null(least_of[0]);
    assert_null(least_of[2]);
    for (int y = 0; y < LARGE; y++) {
        i64 before = FAR, after = FAR;
        for (int i = 0; i < SMALL; i++) {
            if (left[i * LARGE + y] < before) before = left[i * LARGE + y];
            if (right[y * SMALL + i] < after) after = right[y * SMALL + i];
        }
        assert_int_equal(least_of[1][y], before + after);
    }
    ein__arena_free(&a);
}

/* Tables that are too large: a bound from below, an assignment from above, and no worse than where it started. */
static void test_split(void **state)
{
    (void)state;
    int loose = 0, missed = 0;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        arena a = {NULL};
        made m;
        sum_answer x;
        int start[MOST_VARS] = {0};
        make_problem(&m, seed, 2);
        i64 want = least(&m);
        assert_int_equal(ein__eliminate(&a, &m.p, 6, start, &x), EIN_OK);
        assert_true(x.bound <= want && want <= x.cost);
        assert_int_equal(ein__sum_at(&m.p, x.values), x.cost);
        assert_true(x.cost <= ein__sum_at(&m.p, start));
        loose += x.bound < want;
        missed += x.cost > want;
        ein__arena_free(&a);
        free_problem(&m);
    }
    assert_in_range(loose, 10, 500);
    assert_in_range(missed, 0, 50);
}

/* Of equal assignments it is always the same one: here the lowest values. */
static void test_ties(void **state)
{
    (void)state;
    arena a = {NULL};
    const int sizes[3] = {3, 3, 3};
    const i64 differ[9] = {9, 1, 1, 1, 9, 1, 1, 1, 9}, none[3] = {0};
    const cost_table tables[3] = {{2, {0, 1}, differ}, {2, {1, 2}, differ}, {1, {1}, none}};
    const sum_problem p = {3, sizes, 3, tables, NULL};
    sum_answer x;
    assert_int_equal(ein__eliminate(&a, &p, FAR, NULL, &x), EIN_OK);
    assert_int_equal(x.cost, 2);
    assert_int_equal(x.values[2], 0);
    assert_int_equal(x.values[1], 1);
    assert_int_equal(x.values[0], 0);
    ein__arena_free(&a);
}

/* A chain of 200 variables: the tables stay small. */
static void test_long_chain(void **state)
{
    (void)state;
    enum { N = 200, SIZE = 5 };
    arena a = {NULL};
    int sizes[N];
    i64 costs[SIZE * SIZE], way[SIZE] = {0};
    cost_table tables[N - 1];
    dice rng = dice_make(7, 0);
    for (int i = 0; i < SIZE * SIZE; i++) costs[i] = dice_below(&rng, 100);
    for (int v = 0; v < N; v++) sizes[v] = SIZE;
    for (int t = 0; t < N - 1; t++) tables[t] = (cost_table){2, {t, t + 1}, costs};
    for (int t = 0; t < N - 1; t++) { /* shortest ways from the first variable */
        i64 next[SIZE];
        for (int y = 0; y < SIZE; y++) {
            next[y] = FAR;
            for (int x = 0; x < SIZE; x++)
                if (way[x] + costs[x * SIZE + y] < next[y]) next[y] = way[x] + costs[x * SIZE + y];
        }
        memcpy(way, next, sizeof way);
    }
    i64 want = FAR;
    for (int y = 0; y < SIZE; y++) want = way[y] < want ? way[y] : want;
    const sum_problem p = {N, sizes, N - 1, tables, NULL};
    sum_answer x;
    assert_int_equal(ein__eliminate(&a, &p, 25, NULL, &x), EIN_OK);
    assert_int_equal(x.cost, want);
    assert_int_equal(x.bound, want);
    assert_in_range(x.entries, 1, N * SIZE);
    ein__arena_free(&a);
}

static void test_no_memory(void **state)
{
    (void)state;
    made m;
    make_problem(&m, 11, 2);
    long live = ein__alloc_live(), failures = 0;
    for (long n = 1, failed = 1; failed; n++) {
        arena a = {NULL};
        sum_answer x;
        ein__alloc_fail_at(n);
        ein_status s = ein__eliminate(&a, &m.p, 6, NULL, &x);
        ein__alloc_fail_at(0);
        failed = s != EIN_OK;
        if (failed) assert_int_equal(s, EIN_NO_MEMORY);
        failures += failed;
        ein__arena_free(&a);
        assert_int_equal(ein__alloc_live(), live);
    }
    assert_true(failures > 0);
    free_problem(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),      cmocka_unit_test(test_least_costs), cmocka_unit_test(test_least_of_large), cmocka_unit_test(test_split),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_long_chain), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
