/* SPDX-License-Identifier: Apache-2.0 */
/* Relations by themselves: canonical form, keys, checks, text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/core/plan/offset.h"
#include "tests/harness/random.h"

static relation random_relation(arena *a, dice *d)
{
    relation r = {.n_axes = dice_range(d, 0, 4), .n_blocks = 1, .n_partials = 1};
    for (int i = 0; i < r.n_axes; i++) {
        int n = dice_chance(d, 50) ? 1 : dice_range(d, 1, 3);
        i64 *at = ein__arena_get(a, (size_t)n + 1, sizeof *at), extent = dice_range(d, 1, 7);
        assert_non_null(at);
        at[n] = extent;
        for (int k = 1; k < n; k++) at[k] = dice_range(d, (int)at[k - 1], (int)extent);
        r.axes[i] = (axis){.extent = extent, .n_parts = n, .lo = at, .hi = at + 1};
        r.n_blocks *= n;
    }
    devset *where = ein__arena_get(a, (size_t)r.n_blocks, sizeof *where);
    assert_non_null(where);
    for (int b = 0; b < r.n_blocks; b++) where[b] = (devset)dice_range(d, 1, 15);
    r.devices = where;
    return r;
}

/* The canonical form stores every element at the same place of the same block, and is canonical. */
static void test_canonical(void **state)
{
    (void)state;
    dice d = dice_make(7, 0);
    for (int round = 0; round < 500; round++) {
        arena a = {NULL};
        relation r = random_relation(&a, &d), c, again;
        assert_int_equal(ein__relation_copy(&a, &r, &c), EIN_OK);
        assert_true(ein__relation_equal(&r, &c));
        assert_int_equal(ein__relation_canonical(&a, &c), EIN_OK);
        assert_int_equal(ein__relation_numel(&c), ein__relation_numel(&r));
        assert_int_equal(ein__relation_check(&c, ein__relation_numel(&r), 4, NULL), EIN_OK);
        assert_int_equal(c.n_blocks, r.n_blocks);
        for (int b = 0; b < r.n_blocks; b++) {
            assert_int_equal(ein__block_numel(&c, b), ein__block_numel(&r, b));
            for (i64 i = 0; i < ein__relation_numel(&r); i++)
                assert_int_equal(offset_in(&c, b, i), offset_in(&r, b, i));
        }
        again = c;
        assert_int_equal(ein__relation_canonical(&a, &again), EIN_OK);
        assert_true(ein__relation_equal(&c, &again));
        ein__arena_free(&a);
    }
}

static void test_key_is_equality(void **state)
{
    (void)state;
    dice d = dice_make(8, 0);
    arena a = {NULL};
    relation r[60];
    text key[60] = {{0}};
    int equal = 0;
    for (int i = 0; i < 60; i++) {
        r[i] = i % 3 == 2 ? r[i - 1] : random_relation(&a, &d);
        ein__relation_key(&r[i], &key[i]);
        assert_int_equal(ein__text_status(&key[i]), EIN_OK);
        for (int k = 0; k < i; k++) {
            bool same = key[i].n == key[k].n && memcmp(key[i].bytes, key[k].bytes, key[i].n) == 0;
            assert_int_equal(same, ein__relation_equal(&r[i], &r[k]));
            equal += same;
        }
    }
    assert_in_range(equal, 20, 60 * 59 / 4);
    for (int i = 0; i < 60; i++) ein__text_free(&key[i]);
    ein__arena_free(&a);
}

static void refuse_relation(relation r, i64 numel, const char *line)
{
    error e = {0};
    assert_int_equal(ein__relation_check(&r, numel, 4, &e), EIN_NO_PLAN);
    if (strstr(e.line, line) == NULL) fail_msg("\"%s\" does not say \"%s\"", e.line, line);
}

static void test_wrong_relations(void **state)
{
    (void)state;
    const i64 lo[] = {0, 3}, hi[] = {3, 8}, gap[] = {0, 4}, past[] = {3, 9};
    const devset on[] = {1, 2}, nowhere[] = {1, 0}, beyond[] = {1, 16};
    relation good = {.n_axes = 1, .n_blocks = 2, .n_partials = 1, .devices = on}, r;
    good.axes[0] = (axis){.extent = 8, .n_parts = 2, .lo = lo, .hi = hi};
    assert_int_equal(ein__relation_check(&good, 8, 4, NULL), EIN_OK);
    refuse_relation(good, 9, "axes hold 8 elements, the tensor 9");
    r = good;
    r.axes[0].lo = gap;
    refuse_relation(r, 8, "part 1 [4, 8) of axis 0 leaves a gap or overlaps");
    r = good;
    r.axes[0].hi = past;
    refuse_relation(r, 8, "part 1 [3, 9)");
    r = good;
    r.axes[0].extent = 9;
    refuse_relation(r, 9, "axis 0 of extent 9 is not covered");
    r = good;
    r.n_blocks = 1;
    refuse_relation(r, 8, "1 blocks, its axes make 2");
    r = good;
    r.devices = nowhere;
    refuse_relation(r, 8, "block 1 lies on devices 0 of 4");
    r.devices = beyond;
    refuse_relation(r, 8, "block 1 lies on devices 0x10 of 4");
}

static void test_printing(void **state)
{
    (void)state;
    const i64 lo[] = {0, 3}, hi[] = {3, 8}, zero = 0, four = 4;
    const devset on[] = {DEV(0) | DEV(2), DEV(1)}, host = DEV(HOST);
    text t = {0};
    relation r = {.n_axes = 2, .n_blocks = 2, .n_partials = 1, .devices = on};
    r.axes[0] = (axis){.extent = 4, .n_parts = 1, .lo = &zero, .hi = &four};
    r.axes[1] = (axis){.extent = 8, .n_parts = 2, .lo = lo, .hi = hi};
    ein__relation_print(&r, &t);
    ein__text_add(&t, "; ");
    ein__relation_print(&(relation){.n_blocks = 1, .n_partials = 1, .devices = &host}, &t);
    assert_string_equal(ein__text_get(&t), "[4 | 8: 0-3 3-8] on 0,2 1; [] on host");
    ein__text_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canonical),       cmocka_unit_test(test_key_is_equality),
        cmocka_unit_test(test_wrong_relations), cmocka_unit_test(test_printing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
