/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/arena.h"

typedef struct list { int *items; int n, room; } list;

/* Pieces of many sizes, all alive at once, none touching another. */
static void pieces_are_apart(void **state)
{
    enum { N = 400 };
    unsigned char *p[N];
    arena a = {NULL};
    long before = ein__alloc_live();
    (void)state;
    for (int i = 0; i < N; i++) {
        size_t n = (size_t)(i * i % 997);
        p[i] = ein__arena_get(&a, n, 3);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % 16, 0);
        for (size_t k = 0; k < 3 * n; k++) assert_int_equal(p[i][k], 0);
        memset(p[i], i, 3 * n);
    }
    for (int i = 0; i < N; i++)
        for (size_t k = 0; k < 3 * (size_t)(i * i % 997); k++) assert_int_equal(p[i][k], i & 255);
    assert_true(ein__alloc_live() > before);
    ein__arena_free(&a);
    assert_int_equal(ein__alloc_live(), before);
    assert_null(a.last);
    ein__arena_free(&a); /* an empty one again */
}

static void large_and_impossible(void **state)
{
    arena a = {NULL};
    (void)state;
    char *big = ein__arena_get(&a, 3, 1 << 20), *small = ein__arena_get(&a, 1, 1);
    assert_true(big != NULL && small != NULL);
    big[3 * (1 << 20) - 1] = 1;
    *small = 2;
    assert_int_equal(big[3 * (1 << 20) - 1], 1);
    assert_null(ein__arena_get(&a, SIZE_MAX / 2, 3));
    assert_null(ein__arena_get(&a, SIZE_MAX, 1));
    void *p = ein__arena_get(&a, 0, 8), *q = ein__arena_get(&a, 0, 8);
    assert_true(p != NULL && q != NULL && p != q);
    ein__arena_free(&a);
}

static void texts(void **state)
{
    arena a = {NULL};
    char source[] = "abc";
    (void)state;
    char *copy = ein__arena_strdup(&a, source), *printed = ein__arena_printf(&a, "%s:%0*d", source, 500, 7);
    source[0] = 'x';
    assert_string_equal(copy, "abc");
    assert_int_equal(strlen(printed), 504);
    assert_memory_equal(printed, "abc:00", 6);
    assert_string_equal(printed + 502, "07");
    assert_string_equal(ein__arena_printf(&a, "%s", ""), "");
    ein__arena_free(&a);
}

static ein_status push_many(arena *a, list *l, int n)
{
    for (int i = 0; i < n; i++) PUSH(a, l, i * 3);
    return EIN_OK;
}

static void lists_grow(void **state)
{
    arena a = {NULL};
    list l = {0};
    (void)state;
    assert_int_equal(push_many(&a, &l, 1000), EIN_OK);
    assert_int_equal(l.n, 1000);
    assert_true(l.room >= 1000);
    for (int i = 0; i < 1000; i++) assert_int_equal(l.items[i], i * 3);
    ein__arena_free(&a);
}

static ein_status make(arena *a, list *l)
{
    double *d;
    NEW(a, d, 100);
    d[99] = 1.0;
    if (ein__arena_strdup(a, "x") == NULL || ein__arena_printf(a, "%d", 1) == NULL) return EIN_NO_MEMORY;
    return push_many(a, l, 5000);
}

static void out_of_memory(void **state)
{
    long before = ein__alloc_live(), n = 0;
    ein_status s;
    (void)state;
    do {
        arena a = {NULL};
        list l = {0};
        ein__alloc_fail_at(++n);
        s = make(&a, &l);
        ein__alloc_fail_at(0);
        assert_true(s == (l.n == 5000 ? EIN_OK : EIN_NO_MEMORY));
        for (int i = 0; i < l.n; i++) assert_int_equal(l.items[i], i * 3); /* what was there stays */
        ein__arena_free(&a);
        assert_int_equal(ein__alloc_live(), before);
    } while (s != EIN_OK);
    assert_true(n > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_apart), cmocka_unit_test(large_and_impossible), cmocka_unit_test(texts),
        cmocka_unit_test(lists_grow), cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
