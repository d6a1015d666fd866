/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger of plans: the rows that there is time for are what the checked-in file says; a changed number is seen and
 * named; what is written twice is the same file. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/bench.h"
#include "tests/harness/trial.h"
#include "tools/args.h"

/* Calls the suite on the words of `line`; what it wrote to `stream` in `said`. */
static int plans(const char *line, FILE *stream, char *said, size_t room)
{
    char words[512], *argv[16];
    int n = 0, fd = fileno(stream);
    snprintf(words, sizeof words, "%s", line);
    for (char *w = strtok(words, " "); w != NULL; w = strtok(NULL, " ")) argv[n++] = w;
    FILE *f = tmpfile();
    assert_non_null(f);
    fflush(stream);
    int was = dup(fd);
    assert_true(was >= 0 && dup2(fileno(f), fd) >= 0);
    int code = suite_plans(n, argv);
    fflush(stream);
    assert_true(dup2(was, fd) >= 0);
    close(was);
    rewind(f);
    said[fread(said, 1, room - 1, f)] = 0;
    fclose(f);
    return code;
}

static char *read_file(const char *path)
{
    static char bytes[2][1 << 16];
    static int which;
    which = 1 - which;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    bytes[which][fread(bytes[which], 1, sizeof bytes[0] - 1, f)] = 0;
    fclose(f);
    return bytes[which];
}

static void test_checked_in(void **state)
{
    (void)state;
    static char said[1 << 16];
    if (plans("--quick --check", stderr, said, sizeof said) != EXIT_DONE)
        fail_msg("%s(ein-bench plans --quick --write, or without --quick for all, writes what is right now)", said);
}

static void test_a_changed_number(void **state)
{
    (void)state;
    char *folder = make_directory(), path[256], line[400], said[4096], *bytes, *model;
    snprintf(path, sizeof path, "%s/ledger.csv", folder);
    snprintf(line, sizeof line, "--quick --write --json --ledger %s", path);
    static char rows[1 << 18];
    assert_int_equal(plans(line, stdout, rows, sizeof rows), EXIT_DONE);
    assert_non_null(strstr(rows, "\"planner\":\"tensor_parallel_sp\""));
    bytes = read_file(path);
    assert_int_equal(plans(line, stdout, rows, sizeof rows), EXIT_DONE);
    assert_string_equal(bytes, read_file(path));

    snprintf(line, sizeof line, "--quick --check --json --ledger %s", path);
    assert_int_equal(plans(line, stdout, rows, sizeof rows), EXIT_DONE);
    bytes = read_file(path);
    model = strstr(bytes, "\"gpt2:seq=1024,dtype=bf16\",\"dgx-a100:0,1,2\",cap1.3,3,");
    assert_non_null(model);
    model = strstr(model, "cap1.3,3,") + strlen("cap1.3,3,"); /* predicted_us */
    *model = *model == '9' ? '8' : (char)(*model + 1);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(bytes, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(plans(line, stderr, said, sizeof said), EXIT_WRONG);
    assert_non_null(strstr(said, "gpt2:seq=1024,dtype=bf16 on dgx-a100:0,1,2, cap1.3 differs"));
    assert_non_null(strstr(said, " predicted_us: "));
    assert_null(strstr(said, "bytes: "));

    f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(plans(line, stderr, said, sizeof said), EXIT_WRONG); /* no columns */
    remove_directory(folder);
}

static void test_usage(void **state)
{
    (void)state;
    char said[1024];
    assert_int_equal(plans("mlp --check", stderr, said, sizeof said), EXIT_USAGE);
    assert_int_equal(plans("--quick --check --ledger /no/such/file", stderr, said, sizeof said), EXIT_USAGE);
    assert_int_equal(plans("no-such-model", stderr, said, sizeof said), EXIT_USAGE);
    assert_int_equal(plans("mlp:hidden=64 --machine no-such-machine", stderr, said, sizeof said), EXIT_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_checked_in), cmocka_unit_test(test_a_changed_number),
                                       cmocka_unit_test(test_usage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
