/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/hash.h"

static hash128 of(const char *s, uint64_t seed) { return ein__hash(s, strlen(s), seed); }

/* What `xxhsum -H2` prints. */
static void known_values(void **state)
{
    static const struct { const char *text, *want; } cases[] = {
        {"", "99aa06d3014798d86001c324468d497f"}, {"abc", "06b05ab6733a618578af5f94892f3950"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char digits[33];
        ein__hash_print(of(cases[i].text, 0), digits);
        assert_string_equal(digits, cases[i].want);
    }
    char small[33];
    ein__hash_print((hash128){1, 0xabc}, small);
    assert_string_equal(small, "00000000000000010000000000000abc");
}

static void depends_on_every_byte(void **state)
{
    unsigned char bytes[300] = {0};
    hash128 whole = ein__hash(bytes, sizeof bytes, 7);
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = 1;
        assert_false(ein__hash_equal(ein__hash(bytes, sizeof bytes, 7), whole));
        bytes[i] = 0;
        assert_false(ein__hash_equal(ein__hash(bytes, i, 7), whole));
    }
    assert_true(ein__hash_equal(ein__hash(bytes, sizeof bytes, 7), whole));
    assert_false(ein__hash_equal(ein__hash(bytes, sizeof bytes, 8), whole));
    assert_false(ein__hash_equal((hash128){1, 2}, (hash128){1, 3}));
    assert_false(ein__hash_equal((hash128){1, 2}, (hash128){2, 2}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_values),
                                       cmocka_unit_test(depends_on_every_byte)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
