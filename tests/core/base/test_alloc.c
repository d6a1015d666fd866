/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/alloc.h"

#ifdef __SANITIZE_ADDRESS__
/* The sanitizer would end the process where calloc gives NULL. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }
#endif

static bool zeros(const void *p, size_t n)
{
    const unsigned char *b = p;
    for (size_t i = 0; i < n; i++)
        if (b[i] != 0) return false;
    return true;
}

static void gives_zeros(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) { /* also memory that was used before */
        unsigned char *p = ein__calloc(1000, 3), *q = ein__aligned(4096, 3000);
        assert_non_null(p);
        assert_non_null(q);
        assert_true(zeros(p, 3000) && zeros(q, 3000));
        assert_int_equal((uintptr_t)q % 4096, 0);
        memset(p, 255, 3000);
        memset(q, 255, 3000);
        ein__free(p);
        ein__free(q);
    }
}

static void edges(void **state)
{
    long before = ein__alloc_live();
    (void)state;
    assert_null(ein__calloc(SIZE_MAX / 2, 3));
    assert_null(ein__calloc(SIZE_MAX, SIZE_MAX));
    void *p = ein__calloc(0, 8), *q = ein__aligned(64, 0), *r = ein__realloc(NULL, 0);
    assert_true(p != NULL && q != NULL && r != NULL);
    assert_int_equal(ein__alloc_live(), before + 3);
    ein__free(p);
    ein__free(q);
    ein__free(r);
    ein__free(NULL);
    assert_int_equal(ein__alloc_live(), before);
}

static void counts(void **state)
{
    long live = ein__alloc_live(), made = ein__alloc_count();
    (void)state;
    char *p = ein__strdup("seven"), *q = ein__calloc(4, 4);
    assert_string_equal(p, "seven");
    p = ein__realloc(p, 10000); /* one call more, no object more */
    assert_string_equal(p, "seven");
    assert_int_equal(ein__alloc_live(), live + 2);
    assert_int_equal(ein__alloc_count(), made + 3);
    ein__free(p);
    ein__free(q);
    assert_int_equal(ein__alloc_live(), live);
    assert_int_equal(ein__alloc_count(), made + 3);
}

static void fails_once_where_told(void **state)
{
    long live = ein__alloc_live();
    (void)state;
    char *kept = ein__strdup("kept");
    ein__alloc_fail_at(3);
    void *p = ein__calloc(1, 1), *q = ein__aligned(16, 1), *r = ein__strdup("third"), *s = ein__calloc(1, 1);
    assert_true(p != NULL && q != NULL && r == NULL && s != NULL);
    ein__alloc_fail_at(1);
    assert_null(ein__realloc(kept, 100));
    assert_string_equal(kept, "kept"); /* as realloc: the old memory stays */
    ein__alloc_fail_at(1);
    assert_null(ein__aligned(16, 1));
    ein__alloc_fail_at(1);
    ein__alloc_fail_at(0);
    void *t = ein__calloc(1, 1);
    assert_non_null(t);
    assert_int_equal(ein__alloc_live(), live + 5);
    void *all[] = {kept, p, q, s, t};
    for (int i = 0; i < 5; i++) ein__free(all[i]);
    assert_int_equal(ein__alloc_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gives_zeros), cmocka_unit_test(edges),
                                       cmocka_unit_test(counts), cmocka_unit_test(fails_once_where_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
