/* SPDX-License-Identifier: Apache-2.0 */
/* The suite for GPUs, over GPUs that are not there: every part has its rows; of a wrong result there is none. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/bench.h"
#include "tests/fake/control.h"
#include "tools/args.h"

/* Calls the suite on these words; what it wrote to stdout is in `said`. */
static int gpu(const char *part, char *said, size_t room)
{
    char quick[] = "--quick", json[] = "--json", word[16], *argv[] = {quick, json, word};
    snprintf(word, sizeof word, "%s", part != NULL ? part : "");
    FILE *f = tmpfile();
    assert_non_null(f);
    fflush(stdout);
    int was = dup(STDOUT_FILENO);
    assert_true(was >= 0 && dup2(fileno(f), STDOUT_FILENO) >= 0);
    int code = suite_gpu(part != NULL ? 3 : 2, argv);
    fflush(stdout);
    assert_true(dup2(was, STDOUT_FILENO) >= 0);
    close(was);
    rewind(f);
    said[fread(said, 1, room - 1, f)] = 0;
    fclose(f);
    return code;
}

static int rows(const char *said)
{
    int n = 0;
    for (const char *s = said; (s = strstr(s, "\"part\":")) != NULL; s++) n++;
    return n;
}

static void all_parts(void **state)
{
    char said[8192];
    (void)state;
    fake_configure("devices=3 memory=256m check=1 arch=80");
    assert_int_equal(gpu(NULL, said, sizeof said), EXIT_DONE);
    assert_non_null(strstr(said, "{\"what\":\"GPU 2\",\"value\":\"Fake GPU sm_80\"}"));
    assert_int_equal(rows(said), 2 + 2 + 1 + 8);
    assert_non_null(strstr(said, "\"devices\":2,\"gpus\":2"));
    assert_string_equal(fake_reports(), "");
    fake_configure("devices=1 memory=256m");
    assert_int_equal(gpu("launches", said, sizeof said), EXIT_DONE);
    assert_non_null(strstr(said, "all on one GPU"));
    assert_non_null(strstr(said, "\"devices\":2,\"gpus\":1"));
    assert_int_equal(rows(said), 2);
}

/* The fourth kernel or product is not done, and nobody says so. */
static void wrong(void **state)
{
    char said[8192];
    (void)state;
    static const struct { const char *part, *call; } cases[] = {
        {"launches", "cuLaunchKernel"}, {"copies", "cuLaunchKernel"}, {"products", "cublasLtMatmul"}, {"blocks", "cuLaunchKernel"}};
    for (int i = 0; i < 4; i++) {
        fake_configure("devices=2 memory=256m");
        assert_int_equal(gpu(cases[i].part, said, sizeof said), EXIT_DONE);
        int all = rows(said);
        fake_configure("devices=2 memory=256m");
        fake_drop(cases[i].call, 4);
        if (gpu(cases[i].part, said, sizeof said) != EXIT_WRONG) fail_msg("%s: nothing was found wrong", cases[i].part);
        assert_true(fake_failed() && rows(said) < all);
    }
}

static void usage(void **state)
{
    char said[1024];
    (void)state;
    fake_configure("devices=0");
    assert_int_equal(gpu("launches", said, sizeof said), EXIT_MISSING);
    assert_int_equal(gpu("lunches", said, sizeof said), EXIT_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_parts), cmocka_unit_test(wrong), cmocka_unit_test(usage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
