/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/args.h"

static const char TAKES[] = "devices machine target json repeat plan tokens-file generate stop-at-eos";

/* What the last call wrote to stderr. */
static char said[1024];

/* Splits `line` at blanks and parses it. */
static int parse(const char *line, args *out)
{
    char *words[16], copy[256];
    static char kept[8][256]; /* `out` points into the words */
    static int turn;
    int n = 0;
    snprintf(copy, sizeof copy, "%s", line);
    char *bytes = kept[turn++ % 8];
    strcpy(bytes, copy);
    for (char *w = strtok(bytes, " "); w != NULL; w = strtok(NULL, " ")) words[n++] = w;
    FILE *f = tmpfile();
    assert_non_null(f);
    fflush(stderr);
    int was = dup(STDERR_FILENO);
    assert_true(was >= 0 && dup2(fileno(f), STDERR_FILENO) >= 0);
    int code = args_parse(n, words, TAKES, 1, 1, out);
    fflush(stderr);
    assert_true(dup2(was, STDERR_FILENO) >= 0);
    close(was);
    rewind(f);
    said[fread(said, 1, sizeof said - 1, f)] = 0;
    fclose(f);
    return code;
}

static void refuse(const char *line, const char *named)
{
    args a;
    assert_int_equal(parse(line, &a), EXIT_USAGE);
    if (strstr(said, named) == NULL) fail_msg("%s: \"%s\" does not name %s", line, said, named);
}

static void test_accepts(void **state)
{
    (void)state;
    args a;
    assert_int_equal(parse("mlp --devices 4 --json --repeat=7", &a), EXIT_DONE);
    assert_string_equal(said, "");
    assert_string_equal(a.words[0], "mlp");
    assert_true(a.devices == 4 && a.json && a.repeat == 7 && !a.check && a.machine == NULL);
    assert_int_equal(parse("mlp --tokens-file a.txt --generate 32 --stop-at-eos", &a), EXIT_DONE);
    assert_string_equal(a.tokens_file, "a.txt");
    assert_true(a.tokens == NULL && a.generate == 32 && a.stop_at_eos);
    assert_int_equal(parse("--machine dgx-1:0,1 mlp", &a), EXIT_DONE);
    assert_string_equal(a.machine, "dgx-1:0,1");
    assert_true(a.devices == 0 && a.repeat == 0 && a.n_words == 1);
}

static void test_refuses(void **state)
{
    (void)state;
    refuse("", "MODEL is missing");
    refuse("mlp moe", "\"moe\"");
    refuse("mlp --device 4", "--device ");
    refuse("mlp --device 4", "devices machine target");
    refuse("mlp --check", "--check");
    refuse("mlp --devices", "--devices needs a value");
    refuse("mlp --devices 0", "--devices 0");
    refuse("mlp --devices 17", "1 to 16");
    refuse("mlp --devices four", "--devices four");
    refuse("mlp --devices 4x", "--devices 4x");
    refuse("mlp --repeat -1", "--repeat -1");
    refuse("mlp --tokens 1", "--tokens (");
    refuse("mlp --generate 0", "--generate 0");
    refuse("mlp --json=1", "--json takes no value");
    refuse("mlp --", "unknown option --");
}

static void test_machine(void **state)
{
    (void)state;
    char name[16];
    args a = {.devices = 0};
    assert_int_equal(args_machine(&a, name, sizeof name), EXIT_DONE);
    assert_string_equal(name, "host:1");
    a.devices = 8;
    assert_int_equal(args_machine(&a, name, sizeof name), EXIT_DONE);
    assert_string_equal(name, "host:8");
    a.machine = "host:8";
    assert_int_equal(args_machine(&a, name, sizeof name), EXIT_DONE);
    a.machine = "dgx-1";
    assert_int_equal(args_machine(&a, name, sizeof name), EXIT_USAGE);
    a.devices = 0;
    assert_int_equal(args_machine(&a, name, sizeof name), EXIT_DONE);
    assert_string_equal(name, "dgx-1");
    a.machine = "a-name-that-does-not-fit";
    assert_int_equal(args_machine(&a, name, sizeof name), EXIT_USAGE);
}

static void test_target(void **state)
{
    (void)state;
    args a = {.target = "host"};
    char name[20];
    assert_int_equal(args_machine(&a, name, sizeof name), EXIT_DONE);
    assert_string_equal(name, "host:1");
    a.target = "cuda";
    assert_int_equal(args_machine(&a, name, sizeof name), EXIT_DONE);
    assert_string_equal(name, "cuda");
    a.devices = 3;
    assert_int_equal(args_machine(&a, name, sizeof name), EXIT_DONE);
    assert_string_equal(name, "cuda:3");
    a = (args){.target = "cuda", .machine = "cuda:2"};
    assert_int_equal(args_machine(&a, name, sizeof name), EXIT_DONE);
    assert_string_equal(name, "cuda:2");
    a.machine = "dgx-1";
    assert_int_equal(args_machine(&a, name, sizeof name), EXIT_USAGE);
    a = (args){.target = "rocm"};
    assert_int_equal(args_machine(&a, name, sizeof name), EXIT_USAGE);
}

static void test_exit_codes(void **state)
{
    (void)state;
    assert_int_equal(exit_of(EIN_OK), 0);
    assert_int_equal(exit_of(EIN_INTERNAL), 1);
    assert_int_equal(exit_of(EIN_DEVICE_FAILED), 1);
    assert_int_equal(exit_of(EIN_INVALID), 2);
    assert_int_equal(exit_of(EIN_NO_PLAN), 2);
    assert_int_equal(exit_of(EIN_NO_DEVICE), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts), cmocka_unit_test(test_refuses),    cmocka_unit_test(test_machine),
        cmocka_unit_test(test_target),  cmocka_unit_test(test_exit_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
