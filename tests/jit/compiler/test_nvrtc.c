/* SPDX-License-Identifier: Apache-2.0 */
/* The dialect in the CUDA reading: all constructs become machine code without spills. Needs NVRTC, no GPU. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <setjmp.h>
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
#include "tests/core/kernel/bodies.h"

static const char *const architectures[] = {"sm_80", "sm_90", "sm_100"};

/* All bodies in one unit, or the one at `only`. */
static void make_source(int only, text *source)
{
    arena a = {0};
    kernel_text k[N_BODIES];
    const kernel_text *list[N_BODIES];
    int n = 0;
    for (int i = 0; i < N_BODIES; i++) {
        if (only >= 0 && i != only) continue;
        assert_int_equal(ein__kernel_make(&a, bodies[i].body, bodies[i].threads, &k[n]), EIN_OK);
        list[n] = &k[n];
        n++;
    }
    assert_int_equal(ein__kernel_source(READ_CUDA, false, list, n, source), EIN_OK);
    ein__arena_free(&a);
}

static void test_all_bodies(void **state)
{
    (void)state;
    text source = {0}, binary = {0}, again = {0};
    error e = {0};
    nvrtc_result r;
    make_source(-1, &source);
    for (int i = 0; i < 3; i++) {
        binary.n = again.n = 0;
        if (ein__nvrtc_compile(source.bytes, architectures[i], &binary, &r, &e) != EIN_OK)
            fail_msg("%s\n%s", e.line, e.detail);
        assert_int_equal(r.spill_bytes, 0);
        assert_int_equal(r.stack_bytes, 0);
        assert_in_range(r.registers, 8, 64);
        assert_in_range(r.shared_bytes, 1024, 4096); /* a tile of 256 floats, scratch of collectives */
        assert_int_equal(r.binary_bytes, binary.n);
        assert_true(r.compile_ms > 0.0);
        assert_memory_equal(binary.bytes, "\177ELF", 4);
        assert_int_equal(ein__nvrtc_compile(source.bytes, architectures[i], &again, &r, &e), EIN_OK);
        assert_true(again.n == binary.n && memcmp(again.bytes, binary.bytes, binary.n) == 0);
    }
    assert_int_equal(ein__nvrtc_compile(source.bytes, "sm_90", NULL, &r, NULL), EIN_OK);
    ein__text_free(&source);
    ein__text_free(&binary);
    ein__text_free(&again);
}

/* Entries carry the kernels' names, unmangled. */
static void test_names(void **state)
{
    (void)state;
    arena a = {0};
    kernel_text k;
    text source = {0}, binary = {0};
    nvrtc_result r;
    const kernel_text *list[] = {&k};
    assert_int_equal(ein__kernel_make(&a, body_tile, 256, &k), EIN_OK);
    assert_int_equal(ein__kernel_source(READ_CUDA, false, list, 1, &source), EIN_OK);
    assert_int_equal(ein__nvrtc_compile(source.bytes, "sm_90", &binary, &r, NULL), EIN_OK);
    int found = 0;
    for (size_t i = 0; i + 36 < binary.n; i++)
        found += binary.bytes[i] == 0 && strcmp(binary.bytes + i + 1, k.name) == 0;
    assert_true(found > 0);
    ein__text_free(&source);
    ein__text_free(&binary);
    ein__arena_free(&a);
}

/* The measure of spills can fail. */
static void test_stack_is_seen(void **state)
{
    (void)state;
    nvrtc_result r;
    const char *array = "extern \"C\" __global__ void f(int *p, int n)\n"
                        "{ int v[64]; for (int i = 0; i < n; i++) v[p[i] & 63] = i; p[0] = v[n & 63]; }\n";
    assert_int_equal(ein__nvrtc_compile(array, "sm_80", NULL, &r, NULL), EIN_OK);
    assert_in_range(r.stack_bytes, 256, 512);
    const char *spill = "#define ALL _Pragma(\"unroll\") for (int i = 0; i < 64; i++)\n"
                        "extern \"C\" __global__ void __launch_bounds__(1024, 2) f(float *p, int n)\n"
                        "{ float v[64];\n"
                        "ALL v[i] = p[i * 1024 + threadIdx.x];\n"
                        "for (int k = 0; k < n; k++) ALL v[i] = v[i] * v[(i + 7) % 64] + p[k];\n"
                        "ALL p[i * 1024 + threadIdx.x] = v[i]; }\n";
    assert_int_equal(ein__nvrtc_compile(spill, "sm_80", NULL, &r, NULL), EIN_OK);
    assert_true(r.spill_bytes > 0);
}

static void test_errors(void **state)
{
    (void)state;
    error e = {0};
    nvrtc_result r;
    text binary = {0};
    const char *source = "typedef int first;\n" EIN__KERNEL_MARK "void f() { undeclared(1); }\n";
    assert_int_equal(ein__nvrtc_compile(source, "sm_90", &binary, &r, &e), EIN_COMPILE_FAILED);
    assert_non_null(strstr(e.line, "sm_90"));
    assert_non_null(strstr(e.detail, "undeclared"));
    assert_non_null(strstr(e.detail, "    3  void f() { undeclared(1); }"));
    assert_null(strstr(e.detail, "typedef int first"));
    assert_int_equal(ein__nvrtc_compile("", "sm_1", &binary, &r, &e), EIN_COMPILE_FAILED);
    assert_non_null(strstr(e.line, "sm_1\""));
    assert_non_null(strstr(e.line, " 90"));
    assert_int_equal(binary.n, 0);
    setenv("EIN_NVRTC", "/no/such/library", 1);
    assert_int_equal(ein__nvrtc_compile("", "sm_90", &binary, &r, &e), EIN_NO_DEVICE);
    assert_non_null(strstr(e.line, "/no/such/library"));
    setenv("EIN_NVRTC", "libm.so.6", 1);
    assert_int_equal(ein__nvrtc_compile("", "sm_90", &binary, &r, &e), EIN_NO_DEVICE);
    assert_non_null(strstr(e.line, "nvrtcVersion"));
    unsetenv("EIN_NVRTC");
    ein__error_reset(&e);
}

/* For devices that NVRTC does not know: text for the driver, with the zero at its end. */
static void test_ptx(void **state)
{
    (void)state;
    text ptx = {0};
    nvrtc_result r;
    const char *source = "extern \"C\" __global__ void f(int *p) { p[0] = 1; }\n";
    assert_int_equal(ein__nvrtc_compile(source, "compute_90", &ptx, &r, NULL), EIN_OK);
    assert_non_null(strstr(ptx.bytes, ".visible .entry f("));
    assert_non_null(strstr(ptx.bytes, ".target sm_90"));
    assert_int_equal(ptx.bytes[ptx.n - 1], 0);
    assert_int_equal(r.binary_bytes, ptx.n);
    ein__text_free(&ptx);
}

/* The library's own list, and a device that is newer than it. */
static void test_architecture(void **state)
{
    (void)state;
    nvrtc_library l;
    architecture a;
    text path = {0}, key = {0}, again = {0};
    assert_int_equal(ein__nvrtc_open(&l, 0, &path, NULL), EIN_OK);
    assert_int_equal(ein__nvrtc_architecture(&l, 90, &a, NULL), EIN_OK);
    assert_string_equal(a.s, "sm_90");
    assert_int_equal(ein__nvrtc_architecture(&l, 990, &a, NULL), EIN_OK);
    assert_memory_equal(a.s, "compute_1", 9);
    assert_int_equal(ein__nvrtc_identity(&l, path.bytes, &key, NULL), EIN_OK);
    assert_int_equal(ein__nvrtc_identity(&l, path.bytes, &again, NULL), EIN_OK);
    assert_true(key.n > 100 && key.n == again.n && memcmp(key.bytes, again.bytes, key.n) == 0);
    again.n = 0;
    assert_int_equal(ein__nvrtc_identity(&l, "/proc/self/exe", &again, NULL), EIN_OK); /* another file */
    assert_true(key.n != again.n || memcmp(key.bytes, again.bytes, key.n) != 0);
    assert_int_equal(ein__nvrtc_identity(&l, "/no/such/file", &again, NULL), EIN_NO_DEVICE);
    ein__text_free(&path);
    ein__text_free(&key);
    ein__text_free(&again);
}

/* Each kernel's part of the unit's log, with the options. */
static void test_dump(void **state)
{
    (void)state;
    char folder[] = "/tmp/ein-dump-XXXXXX", file[200];
    arena a = {0};
    kernel_text k[2];
    const kernel_text *list[] = {&k[0], &k[1]};
    text source = {0}, log = {0}, options = {0};
    nvrtc_library l;
    nvrtc_result r;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(ein__kernel_make(&a, body_tile, 256, &k[0]), EIN_OK);
    assert_int_equal(ein__kernel_make(&a, body_rows, 128, &k[1]), EIN_OK);
    assert_int_equal(ein__kernel_source(READ_CUDA, false, list, 2, &source), EIN_OK);
    assert_int_equal(ein__nvrtc_open(&l, 0, NULL, NULL), EIN_OK);
    assert_int_equal(ein__nvrtc_unit(&l, source.bytes, "sm_90", NULL, &log, &r, NULL), EIN_OK);
    ein__nvrtc_options("sm_90", &options);
    setenv("EIN_DUMP", folder, 1);
    ein__unit_dump(list, 2, "sm_90", options.bytes, log.bytes);
    unsetenv("EIN_DUMP");
    for (int i = 0; i < 2; i++) {
        text got = {0};
        snprintf(file, sizeof file, "%s/%s.sm_90.txt", folder, k[i].name);
        assert_int_equal(ein__file_read(file, 1 << 16, false, &got, NULL), EIN_OK);
        assert_memory_equal(got.bytes, "--gpu-architecture=sm_90 --std=c++17 ", 37);
        assert_non_null(strstr(got.bytes, k[i].name));
        assert_null(strstr(got.bytes, k[1 - i].name));
        assert_non_null(strstr(got.bytes, " registers"));
        unlink(file);
        ein__text_free(&got);
    }
    assert_int_equal(rmdir(folder), 0);
    ein__text_free(&source);
    ein__text_free(&log);
    ein__text_free(&options);
    ein__arena_free(&a);
}

static void *work(void *out)
{
    text source = {0};
    arena a = {0};
    kernel_text k;
    nvrtc_result r;
    const kernel_text *list[] = {&k};
    if (ein__kernel_make(&a, body_rows, 128, &k) == EIN_OK &&
        ein__kernel_source(READ_CUDA, false, list, 1, &source) == EIN_OK)
        ein__nvrtc_compile(source.bytes, "sm_90", out, &r, NULL);
    ein__text_free(&source);
    ein__arena_free(&a);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[3];
    text binaries[3] = {{0}};
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, &binaries[i]), 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++) {
        assert_true(binaries[i].n > 1000 && binaries[i].n == binaries[0].n);
        assert_memory_equal(binaries[i].bytes, binaries[0].bytes, binaries[0].n);
    }
    for (int i = 0; i < 3; i++) ein__text_free(&binaries[i]);
}

static void test_no_memory(void **state)
{
    (void)state;
    const char *source = "extern \"C\" __global__ void f() {}\n";
    const long alive = ein__alloc_live();
    int failed = 0;
    for (int at = 1; at < 12; at++) { /* some only look for files: what they miss is not missed */
        text binary = {0};
        nvrtc_result r;
        ein__alloc_fail_at(at);
        ein_status status = ein__nvrtc_compile(source, "sm_90", &binary, &r, NULL);
        ein__alloc_fail_at(0);
        if (status == EIN_OK) {
            assert_true(binary.n > 0 && r.registers > 0 && r.stack_bytes == 0);
        } else {
            assert_int_equal(status, EIN_NO_MEMORY);
            failed++;
        }
        ein__text_free(&binary);
        assert_int_equal(ein__alloc_live(), alive);
    }
    assert_in_range(failed, 3, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_bodies), cmocka_unit_test(test_names), cmocka_unit_test(test_stack_is_seen),
        cmocka_unit_test(test_errors), cmocka_unit_test(test_ptx), cmocka_unit_test(test_architecture),
        cmocka_unit_test(test_dump), cmocka_unit_test(test_threads), cmocka_unit_test(test_no_memory)};
    error e = {0};
    nvrtc_result r;
    unsetenv("EIN_NVRTC");
    if (ein__nvrtc_compile("", "sm_90", NULL, &r, &e) == EIN_NO_DEVICE) {
        printf("skipped: %s\n", e.line);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
