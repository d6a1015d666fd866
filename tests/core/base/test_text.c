/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/text.h"

static void appends(void **state)
{
    text t = {0};
    (void)state;
    assert_string_equal(ein__text_get(&t), "");
    assert_int_equal(ein__text_status(&t), EIN_OK);
    ein__text_add(&t, "%s %d", "block", 7);
    ein__text_bytes(&t, "\0x", 2);
    ein__text_bytes(&t, NULL, 0);
    ein__text_add(&t, "%s", "");
    assert_int_equal(t.n, 9);
    assert_memory_equal(t.bytes, "block 7\0x", 10); /* the end's NUL too */
    ein__text_free(&t);
    assert_true(t.bytes == NULL && t.n == 0 && !t.failed);
}

/* Across the sizes at which the room doubles. */
static void grows(void **state)
{
    text t = {0};
    (void)state;
    for (int i = 0; i < 3000; i++) {
        if (i % 2 == 0) ein__text_add(&t, "%c", 'a' + i % 26);
        else ein__text_bytes(&t, &(char){(char)('a' + i % 26)}, 1);
        assert_int_equal(t.bytes[t.n], 0);
    }
    ein__text_add(&t, "%0*d", 100000, 1);
    assert_int_equal(t.n, 103000);
    for (int i = 0; i < 3000; i++) assert_int_equal(t.bytes[i], 'a' + i % 26);
    assert_string_equal(t.bytes + 102998, "01");
    ein__text_free(&t);
}

static void failure_sticks(void **state)
{
    text t = {0};
    char long_text[1000] = {0};
    (void)state;
    memset(long_text, 'y', sizeof long_text - 1);
    ein__text_add(&t, "kept");
    ein__alloc_fail_at(1);
    ein__text_add(&t, "%s", long_text);
    ein__alloc_fail_at(0);
    ein__text_add(&t, "later");
    ein__text_bytes(&t, "later", 5);
    assert_int_equal(ein__text_status(&t), EIN_NO_MEMORY);
    assert_string_equal(ein__text_get(&t), "kept");
    ein__text_free(&t);
    assert_int_equal(ein__text_status(&t), EIN_OK);
}

static void key_bytes_are_fixed(void **state)
{
    static const unsigned char want[] = {
        0x04, 0x03, 0x02, 0x01, 2, 0, 0, 0, 0, 0, 0, 0, 'h', 'i',
        5, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    text t = {0};
    (void)state;
    ein__key_bytes(&t, 0x01020304, "hi", 2);
    ein__key_int(&t, 5, -2);
    assert_int_equal(t.n, sizeof want);
    assert_memory_equal(t.bytes, want, sizeof want);
    ein__text_free(&t);
}

/* Splitting the same letters otherwise gives another key. */
static void keys_are_injective(void **state)
{
    static const char *const fields[][3] = {
        {"ab", "c", ""}, {"a", "bc", ""}, {"abc", "", ""}, {"", "abc", ""}, {"", "", "abc"}, {"a", "b", "c"}};
    enum { N = sizeof fields / sizeof *fields };
    text keys[N] = {{0}};
    (void)state;
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < 3; k++) ein__key_bytes(&keys[i], 1, fields[i][k], strlen(fields[i][k]));
        for (int j = 0; j < i; j++)
            assert_false(keys[i].n == keys[j].n && memcmp(keys[i].bytes, keys[j].bytes, keys[i].n) == 0);
    }
    for (int i = 0; i < N; i++) ein__text_free(&keys[i]);
}

static void excerpts(void **state)
{
    char longest[400];
    (void)state;
    assert_string_equal(ein__excerpt_first("a word", 6).s, "a word");
    assert_string_equal(ein__excerpt_first("a word", 5).s, "a wor...");
    assert_string_equal(ein__excerpt_last("a word", 6).s, "a word");
    assert_string_equal(ein__excerpt_last("a word", 5).s, "... word");
    assert_string_equal(ein__excerpt_first("", 0).s, "");
    assert_string_equal(ein__excerpt_first("x", 0).s, "...");
    assert_string_equal(ein__excerpt_last("x", 0).s, "...");
    assert_string_equal(ein__excerpt_first("a\n\x1b\x7f\xc3\xa9", 9).s, "a???\xc3\xa9");
    /* No half characters. */
    assert_string_equal(ein__excerpt_first("a\xe2\x82\xacz", 3).s, "a...");
    assert_string_equal(ein__excerpt_first("a\xe2\x82\xacz", 4).s, "a\xe2\x82\xac...");
    assert_string_equal(ein__excerpt_last("a\xe2\x82\xacz", 3).s, "...z");
    assert_string_equal(ein__excerpt_last("a\xe2\x82\xacz", 4).s, "...\xe2\x82\xacz");
    memset(longest, 'l', sizeof longest - 1);
    longest[399] = 0;
    assert_int_equal(strlen(ein__excerpt_first(longest, 300).s), 143);
    assert_int_equal(strlen(ein__excerpt_last(longest, 300).s), 143);
    memset(longest, 0x80, sizeof longest - 1);
    assert_int_equal(strlen(ein__excerpt_first(longest, 2).s), 3);
    assert_int_equal(strlen(ein__excerpt_last(longest, 300).s), 140);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends), cmocka_unit_test(grows), cmocka_unit_test(failure_sticks),
        cmocka_unit_test(key_bytes_are_fixed), cmocka_unit_test(keys_are_injective), cmocka_unit_test(excerpts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
