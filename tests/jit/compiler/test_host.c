/* SPDX-License-Identifier: Apache-2.0 */
/* The host compiler and the loader: what fails says why, and nothing is left behind. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/file.h"
#include "jit/compiler/compiler.h"
#include "jit/compiler/dump.h"

/* All temporary folders of a test are below one of its own. */
typedef struct place { char folder[64], script[96], path[4096]; } place;

static int set_up(void **state)
{
    place *p = calloc(1, sizeof *p);
    if (p == NULL) return -1;
    snprintf(p->folder, sizeof p->folder, "/tmp/ein-test-XXXXXX");
    if (mkdtemp(p->folder) == NULL) return -1;
    snprintf(p->script, sizeof p->script, "%s/compiler", p->folder);
    snprintf(p->path, sizeof p->path, "%s", getenv("PATH"));
    setenv("XDG_RUNTIME_DIR", p->folder, 1);
    unsetenv("EIN_CC");
    unsetenv("EIN_DUMP");
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    place *p = *state;
    unsetenv("EIN_CC");
    setenv("PATH", p->path, 1);
    unlink(p->script);
    int left = rmdir(p->folder); /* fails if a test left anything there */
    free(p);
    return left;
}

/* A script as the compiler. */
static void use_script(place *p, const char *text_of)
{
    text script = {0};
    ein__text_add(&script, "#!/bin/sh\n%s\n", text_of);
    assert_int_equal(ein__file_publish(p->script, script.bytes, script.n, 0700, NULL), EIN_OK);
    ein__text_free(&script);
    setenv("EIN_CC", p->script, 1);
}

static const char counter[] =
    "static int n;\n"
    "void tick(void **args, long long x, long long y, long long z, void *t)\n"
    "{ (void)x; (void)y; (void)z; (void)t; *(int *)args[0] = ++n; }\n";

static void compile(const char *source, text *object)
{
    error e = {0};
    if (ein__host_compile(source, object, &e) != EIN_OK) fail_msg("%s\n%s", e.line, e.detail);
}

static int tick(const host_module *m)
{
    int n = 0;
    void *args[] = {&n};
    host_entry entry = ein__host_entry(m, "tick");
    assert_non_null(entry);
    entry(args, 1, 1, 1, NULL);
    return n;
}

/* The same bytes twice are two modules, each with its own data. */
static void test_two_modules(void **state)
{
    (void)state;
    text object = {0};
    host_module *a, *b, *c;
    error e = {0};
    compile(counter, &object);
    assert_int_equal(ein__host_load(object.bytes, object.n, &a, &e), EIN_OK);
    assert_int_equal(ein__host_load(object.bytes, object.n, &b, &e), EIN_OK);
    assert_int_equal(tick(a), 1);
    assert_int_equal(tick(a), 2);
    assert_int_equal(tick(b), 1);
    ein__host_unload(a);
    assert_int_equal(ein__host_load(object.bytes, object.n, &c, &e), EIN_OK);
    assert_int_equal(tick(c), 1);
    assert_int_equal(tick(b), 2);
    const long made = ein__alloc_count();
    assert_int_equal(tick(b), 3);
    assert_null(ein__host_entry(b, "tock"));
    assert_int_equal(ein__alloc_count(), made);
    ein__host_unload(b);
    ein__host_unload(c);
    ein__host_unload(NULL);
    ein__text_free(&object);
}

/* No damage to an object reaches the dynamic loader. */
static void test_damage(void **state)
{
    (void)state;
    text object = {0};
    host_module *m;
    error e = {0};
    compile(counter, &object);
    static const size_t lengths[] = {0, 1, 40, 41, 100, 4096};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(ein__host_load(object.bytes, lengths[i], &m, &e), EIN_IO);
        assert_null(m);
    }
    assert_int_equal(ein__host_load(object.bytes, object.n - 1, &m, &e), EIN_IO);
    for (size_t at = 0; at < object.n; at += 97) {
        object.bytes[at] ^= 16;
        assert_int_equal(ein__host_load(object.bytes, object.n, &m, &e), EIN_IO);
        object.bytes[at] ^= 16;
    }
    assert_non_null(strstr(e.line, "damaged"));
    assert_int_equal(ein__host_load(object.bytes, object.n, &m, &e), EIN_OK);
    ein__host_unload(m);
    ein__text_free(&object);
}

/* The prelude is not repeated, but its lines are counted. */
static void test_compile_error(void **state)
{
    (void)state;
    static const char *const wrong[] = {"void f(void) { undeclared(1); }\n", "int f(int *p) { return p; }\n",
                                        "int *f(long *p) { return p; }\n", "void f(void) { x = 1; }\n",
                                        "extern int elsewhere; int f(void) { return elsewhere; }\n"};
    text object = {0}, source = {0};
    error e = {0};
    for (int i = 0; i < 5; i++) {
        source.n = 0;
        ein__text_add(&source, "typedef int first;\n%s%s", EIN__KERNEL_MARK, wrong[i]);
        assert_int_equal(ein__host_compile(source.bytes, &object, &e), EIN_COMPILE_FAILED);
        assert_int_equal(object.n, 0);
        assert_non_null(strstr(e.line, "exit code 1"));
        assert_non_null(strstr(e.detail, "error:"));
        char line[200];
        snprintf(line, sizeof line, "    3  %s", wrong[i]);
        assert_non_null(strstr(e.detail, line));
        assert_null(strstr(e.detail, "typedef int first"));
    }
    assert_int_equal(ein__host_compile("x", &object, NULL), EIN_COMPILE_FAILED);
    ein__text_free(&source);
    ein__error_reset(&e);
}

static void test_no_compiler(void **state)
{
    place *p = *state;
    text object = {0}, key = {0};
    error e = {0};
    setenv("PATH", p->folder, 1);
    assert_int_equal(ein__host_compile(counter, &object, &e), EIN_NO_DEVICE);
    assert_non_null(strstr(e.line, "cc, gcc and clang"));
    assert_int_equal(ein__host_identity(&key, &e), EIN_NO_DEVICE);
    setenv("PATH", p->path, 1);
    setenv("EIN_CC", "no-such-compiler", 1);
    assert_int_equal(ein__host_compile(counter, &object, &e), EIN_NO_DEVICE);
    assert_non_null(strstr(e.line, "no-such-compiler"));
    setenv("EIN_CC", p->folder, 1); /* a folder is no program */
    assert_int_equal(ein__host_compile(counter, &object, &e), EIN_NO_DEVICE);
    setenv("EIN_CC", "", 1); /* as if unset */
    compile(counter, &object);
    ein__text_free(&object);
}

/* Compilers that fail in all ways. */
static void test_bad_compilers(void **state)
{
    place *p = *state;
    static const struct { const char *script; ein_status status; const char *line; } cases[] = {
        {"kill -KILL $$", EIN_COMPILE_FAILED, "killed by signal 9"},
        {"echo 'cc1: internal compiler error' >&2; exit 4", EIN_COMPILE_FAILED, "exit code 4"},
        {"exit 0", EIN_COMPILE_FAILED, "made no object"},
        {"for o; do case $o in *.so) : > $o;; esac; done", EIN_COMPILE_FAILED, "made no object"},
        {"echo 'as: unit.s: No space left on device' >&2; exit 1", EIN_IO, "no space left"},
        {"[ \"$TMPDIR\" != \"$XDG_RUNTIME_DIR\" ] && [ -d \"$TMPDIR\" ] && : > $TMPDIR/litter; exit 7",
         EIN_COMPILE_FAILED, "exit code 7"}};
    text object = {0};
    error e = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        use_script(p, cases[i].script);
        assert_int_equal(ein__host_compile(counter, &object, &e), cases[i].status);
        if (strstr(e.line, cases[i].line) == NULL) fail_msg("%s: %s", cases[i].script, e.line);
        assert_int_equal(object.n, 0);
    }
    /* A file that is executable and no program of this machine. */
    assert_int_equal(ein__file_publish(p->script, "\177ELFgarbage", 11, 0700, NULL), EIN_OK);
    assert_int_not_equal(ein__host_compile(counter, &object, &e), EIN_OK);
    ein__error_reset(&e);
}

/* A host that ignores SIGCHLD never learns exit codes. */
static void test_ignored_children(void **state)
{
    (void)state;
    text object = {0};
    error e = {0};
    signal(SIGCHLD, SIG_IGN);
    compile(counter, &object);
    assert_int_equal(ein__host_compile("wrong", &object, &e), EIN_COMPILE_FAILED);
    signal(SIGCHLD, SIG_DFL);
    ein__text_free(&object);
    ein__error_reset(&e);
}

static void test_identity(void **state)
{
    place *p = *state;
    text a = {0}, b = {0}, c = {0};
    error e = {0};
    assert_int_equal(ein__host_identity(&a, &e), EIN_OK);
    assert_int_equal(ein__host_identity(&b, &e), EIN_OK);
    assert_true(a.n > 100 && a.n == b.n && memcmp(a.bytes, b.bytes, a.n) == 0);
    use_script(p, "exec cc \"$@\"");
    assert_int_equal(ein__host_identity(&c, &e), EIN_OK);
    assert_true(c.n != a.n || memcmp(a.bytes, c.bytes, a.n) != 0);
    b.n = 0;
    use_script(p, "exec  cc \"$@\""); /* another file under the same name */
    assert_int_equal(ein__host_identity(&b, &e), EIN_OK);
    assert_true(c.n != b.n || memcmp(b.bytes, c.bytes, b.n) != 0);
    use_script(p, "exit 0");
    b.n = 0;
    assert_int_equal(ein__host_identity(&b, &e), EIN_NO_DEVICE);
    assert_int_equal(b.n, 0);
    ein__text_free(&a);
    ein__text_free(&b);
    ein__text_free(&c);
}

static void *work(void *out)
{
    text object = {0};
    host_module *m = NULL;
    if (ein__host_compile(counter, &object, NULL) == EIN_OK &&
        ein__host_load(object.bytes, object.n, &m, NULL) == EIN_OK) {
        host_entry entry = ein__host_entry(m, "tick");
        for (int i = 0; i < 5; i++) entry(&out, 1, 1, 1, NULL);
        ein__host_unload(m);
    }
    ein__text_free(&object);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[6];
    int ticks[6] = {0};
    for (int i = 0; i < 6; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, &ticks[i]), 0);
    for (int i = 0; i < 6; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 6; i++) assert_int_equal(ticks[i], 5);
}

static ein_status all_calls(void)
{
    text object = {0}, key = {0};
    host_module *m = NULL;
    ein_status status = ein__host_compile("int x;\n", &object, NULL);
    if (status == EIN_OK) status = ein__host_load(object.bytes, object.n, &m, NULL);
    if (status == EIN_OK) status = ein__host_identity(&key, NULL);
    ein__host_unload(m);
    ein__text_free(&object);
    ein__text_free(&key);
    return status;
}

/* Every allocation in turn fails once. */
static void test_no_memory(void **state)
{
    (void)state;
    const long alive = ein__alloc_live();
    ein_status status = EIN_NO_MEMORY;
    int at = 0;
    while (status != EIN_OK) {
        ein__alloc_fail_at(++at);
        status = all_calls();
        ein__alloc_fail_at(0);
        if (status != EIN_OK) assert_int_equal(status, EIN_NO_MEMORY);
        assert_int_equal(ein__alloc_live(), alive);
    }
    assert_true(at > 20);
}

static void test_dump(void **state)
{
    place *p = *state;
    char folder[80], path[200];
    arena a = {0};
    kernel_text k;
    text got = {0};
    assert_int_equal(ein__kernel_make(&a, "KERNEL(PARAMS)\n{\n}\n", 64, &k), EIN_OK);
    ein__kernel_dump(&k);
    snprintf(folder, sizeof folder, "%s/dump", p->folder);
    snprintf(path, sizeof path, "%s/%s.body", folder, k.name);
    setenv("EIN_DUMP", folder, 1);
    for (int i = 0; i < 2; i++) ein__kernel_dump(&k);
    assert_int_equal(ein__file_read(path, 1000, false, &got, NULL), EIN_OK);
    assert_string_equal(got.bytes, "threads 64\nKERNEL(PARAMS)\n{\n}\n");
    unlink(path);
    rmdir(folder);
    setenv("EIN_DUMP", "/proc/no/such/place", 1);
    ein__kernel_dump(&k);
    unsetenv("EIN_DUMP");
    ein__text_free(&got);
    ein__arena_free(&a);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_two_modules), TEST(test_damage), TEST(test_compile_error), TEST(test_no_compiler),
        TEST(test_bad_compilers), TEST(test_ignored_children), TEST(test_identity), TEST(test_threads),
        TEST(test_no_memory), TEST(test_dump)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
