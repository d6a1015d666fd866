/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/arena.h"
#include "optimizer/pool.h"

static void test_idmap(void **state)
{
    (void)state;
    arena a = {NULL};
    idmap m = {0};
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 5000; i++) {
            int *at;
            /* half of the keys share their low words, so that slots collide */
            hash128 key = {(uint64_t)i, (uint64_t)i / 2};
            assert_int_equal(ein__idmap_at(&a, &m, key, &at), EIN_OK);
            assert_int_equal(*at, round == 0 ? -1 : i);
            *at = i;
        }
    assert_int_equal(m.n, 5000);
    ein__arena_free(&a);
}

static relation whole(arena *a, i64 numel, devset devices)
{
    relation r;
    assert_int_equal(ein__relation_whole(a, numel, devices, &r), EIN_OK);
    return r;
}

static void test_interning(void **state)
{
    (void)state;
    arena a = {NULL};
    pool p = {.a = &a};
    relation x = whole(&a, 8, 1), y = whole(&a, 8, 3), z = whole(&a, 8, 1);
    int ids[3], again;
    assert_int_equal(ein__pool_relation(&p, &x, &ids[0]), EIN_OK);
    assert_int_equal(ein__pool_relation(&p, &y, &ids[1]), EIN_OK);
    assert_int_equal(ein__pool_relation(&p, &z, &ids[2]), EIN_OK);
    assert_int_equal(ids[0], ids[2]);
    assert_int_not_equal(ids[0], ids[1]);
    assert_true(ein__relation_equal(p.relations.items[ids[1]], &y));
    assert_true(p.relations.items[ids[0]] != &x);
    assert_int_equal(ein__pool_finished(&p, &x, &ids[0]), EIN_OK);
    assert_int_equal(ein__pool_finished(&p, &z, &again), EIN_OK);
    assert_int_equal(ids[0], again);
    placed pending = p.placed.items[again];
    pending.complete = false;
    assert_int_equal(ein__merge_make(&a, MERGE_SUM, 1, EIN_F32, (merge **)&pending.merge), EIN_OK);
    assert_int_equal(ein__pool_placed(&p, &pending, &ids[1]), EIN_OK);
    assert_int_not_equal(ids[1], again);
    /* the same merge made again is the same */
    assert_int_equal(ein__merge_make(&a, MERGE_SUM, 1, EIN_F32, (merge **)&pending.merge), EIN_OK);
    assert_int_equal(ein__pool_placed(&p, &pending, &ids[2]), EIN_OK);
    assert_int_equal(ids[1], ids[2]);
    assert_int_equal(ein__merge_make(&a, MERGE_MAX, 1, EIN_F32, (merge **)&pending.merge), EIN_OK);
    assert_int_equal(ein__pool_placed(&p, &pending, &ids[2]), EIN_OK);
    assert_int_not_equal(ids[1], ids[2]);
    ein__pool_free(&p);
    ein__arena_free(&a);
}

/* Exchanges start from the first complete copy, or from where the value was made. */
static void test_lists(void **state)
{
    (void)state;
    arena a = {NULL};
    pool p = {.a = &a};
    const i64 lo = 2, hi = 5;
    const devset on = 1;
    relation part = {.n_axes = 1, .n_blocks = 1, .n_partials = 1, .devices = &on};
    part.axes[0] = (axis){.extent = 8, .n_parts = 1, .lo = &lo, .hi = &hi};
    relation x = whole(&a, 8, 1), y = whole(&a, 8, 3);
    int some, one, both, first, second, third, again;
    assert_int_equal(ein__pool_finished(&p, &part, &some), EIN_OK);
    assert_int_equal(ein__pool_finished(&p, &x, &one), EIN_OK);
    assert_int_equal(ein__pool_finished(&p, &y, &both), EIN_OK);
    assert_false(p.placed.items[some].complete);
    assert_true(p.placed.items[one].complete);
    assert_int_equal(ein__pool_list(&p, -1, some, &first), EIN_OK);
    assert_int_equal(ein__pool_list(&p, first, one, &second), EIN_OK);
    assert_int_equal(ein__pool_list(&p, second, both, &third), EIN_OK);
    assert_int_equal(p.lists.items[first].source, some);
    assert_int_equal(p.lists.items[second].source, one);
    assert_int_equal(p.lists.items[third].source, one);
    assert_int_equal(ein__pool_list(&p, second, both, &again), EIN_OK);
    assert_int_equal(third, again);
    assert_int_equal(ein__pool_list(&p, first, both, &again), EIN_OK);
    assert_int_not_equal(third, again);
    ein__pool_free(&p);
    ein__arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idmap),
        cmocka_unit_test(test_interning),
        cmocka_unit_test(test_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
