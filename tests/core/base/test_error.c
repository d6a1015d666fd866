/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/error.h"

static void records_the_last(void **state)
{
    error e = {0};
    (void)state;
    assert_int_equal(ein__fail(&e, EIN_SHAPE, "%d and %d", 2, 3), EIN_SHAPE);
    assert_int_equal(ein__fail(&e, EIN_IO, "no %s", "file"), EIN_IO);
    assert_int_equal(e.status, EIN_IO);
    assert_string_equal(e.line, "no file");
    assert_int_equal(ein__fail(NULL, EIN_IO, "nobody %s", "asks"), EIN_IO);
}

static void is_one_short_line(void **state)
{
    char name[400];
    error e = {0};
    (void)state;
    ein__fail(&e, EIN_INVALID, "%s", "a\nb\x1b[2J\x7f\xc3\xa9\t");
    assert_string_equal(e.line, "a?b?[2J?\xc3\xa9?");
    memset(name, 'n', sizeof name - 1);
    name[399] = 0;
    ein__fail(&e, EIN_INVALID, "%s", name);
    assert_int_equal(strlen(e.line), sizeof e.line - 1);
}

static void owns_its_detail(void **state)
{
    long live = ein__alloc_live();
    error e = {0};
    (void)state;
    ein__error_set_detail(&e, "first");
    ein__error_set_detail(&e, "two\nlines");
    assert_string_equal(e.detail, "two\nlines");
    ein__error_reset(&e);
    assert_true(e.detail == NULL && e.line[0] == 0 && e.status == EIN_OK);
    assert_int_equal(ein__alloc_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(records_the_last), cmocka_unit_test(is_one_short_line),
                                       cmocka_unit_test(owns_its_detail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
