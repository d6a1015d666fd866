/* SPDX-License-Identifier: Apache-2.0 */
/* The dialect in the host reading: every construct against plain C, functions against the f64 library. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "jit/compiler/process.h"
#include "tests/core/kernel/unit.h"

static uint32_t bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static float from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static float draw_float(uint64_t *state) { return (float)draw(state) / 1073741824.0f - 1.0f; }

static void check_guards(host_entry run, int threads, int64_t n, int64_t width)
{
    int *y = get(12 * (size_t)width + 1, sizeof *y);
    void *args[] = {&y, &n, &width};
    run(args, 3, 2, 2, NULL);
    for (int64_t i = 0; i < 12 * width; i++) {
        int64_t t = i % width;
        int want = (t < n) + 10 * (t < n - 7) + 10000 * (t % 2 == 0);
        want += n > 5 ? 100 * (t < 5) : 1000 * (t < 2);
        if (t >= threads) want = 0;
        if (y[i] != want) fail_msg("n %d: at %d: %d, not %d", (int)n, (int)i, y[i], want);
    }
    assert_int_equal(y[12 * width], 0);
    ein__free(y);
}

/* Guards of any size, negative and larger than the block; block indices; `else`; `continue`. */
static void test_guards(void **state)
{
    (void)state;
    static const int threads[] = {32, 96, 1024};
    static const int64_t sizes[] = {INT64_MIN / 2, -1, 0,  1,  5,    6,    7,    8,            31, 32,
                                    33,            95, 96, 97, 1023, 1024, 5000, INT64_MAX / 2};
    for (int i = 0; i < 3; i++) {
        unit u;
        build_one(&u, body_guards, threads[i], false);
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            check_guards(u.entry[0], threads[i], sizes[k], 1030);
        check_guards(u.entry[0], threads[i], 9, 17); /* more threads than elements: `width` guards */
        drop(&u);
    }
}

static void test_tile(void **state)
{
    (void)state;
    unit u;
    uint64_t seed = 1;
    enum { THREADS = 256, TILES = 6, N = THREADS * TILES };
    float x[N], y[N], scale = 3.0f, *px = x, *py = y;
    int64_t n = 2;
    void *args[] = {&px, &py, &scale, &n};
    for (int i = 0; i < N; i++) x[i] = draw_float(&seed);
    build_one(&u, body_tile, THREADS, false);
    u.entry[0](args, TILES / 2, 1, 1, NULL);
    for (int i = 0; i < N; i++) {
        int tile = i / THREADS, c = i % THREADS / 16, r = i % 16;
        assert_int_equal(bits(y[i]), bits(3.0f * x[tile * THREADS + r * 16 + c]));
    }
    drop(&u);
}

/* The tree of the dialect, written the slow way: halves of 32, then halves of the list of warps. */
static float tree(float *v, int threads, bool sum)
{
    for (int w = 0; w < threads / 32; w++) {
        float *x = v + 32 * w;
        for (int d = 16; d > 0; d /= 2)
            for (int i = 0; i < d; i++) x[i] = sum ? x[i] + x[i + d] : x[i] > x[i + d] ? x[i] : x[i + d];
        v[w] = x[0];
    }
    for (int d = threads / 64; d > 0; d /= 2)
        for (int i = 0; i < d; i++) v[i] = sum ? v[i] + v[i + d] : v[i] > v[i + d] ? v[i] : v[i + d];
    return v[0];
}

static void check_rows(host_entry run, int threads, int64_t n, int64_t rows)
{
    uint64_t seed = (uint64_t)(n * 1024 + threads);
    float *x = get((size_t)(n * rows), 4), *y = get((size_t)rows * 2, 4), *z = get((size_t)(n * rows), 4);
    void *args[] = {&x, &y, &z, &n, &rows};
    for (int64_t i = 0; i < n * rows; i++) x[i] = ldexpf(draw_float(&seed), (int)(draw(&seed) % 40) - 20);
    run(args, rows, 1, 1, NULL);
    for (int64_t r = 0; r < rows; r++) {
        float sum[1024] = {0}, top[1024], last[1024] = {0};
        for (int t = 0; t < threads; t++) top[t] = -INFINITY;
        for (int64_t i = 0; i < n; i++) {
            int t = (int)(i % threads);
            sum[t] += x[r * n + i];
            if (x[r * n + i] > top[t]) top[t] = x[r * n + i];
            last[t] = x[r * n + i];
        }
        float most = tree(top, threads, false);
        assert_int_equal(bits(y[r]), bits(tree(sum, threads, true)));
        assert_int_equal(bits(y[rows + r]), bits(most));
        for (int t = 0; t < threads && t < n; t++) assert_int_equal(bits(z[r * n + t]), bits(last[t] - most));
        for (int64_t t = threads; t < n; t++) assert_int_equal(bits(z[r * n + t]), 0);
    }
    ein__free(x);
    ein__free(y);
    ein__free(z);
}

/* Privates over phases, uniform loops, block sums and maxima with the bits of their tree. */
static void test_rows(void **state)
{
    (void)state;
    static const int threads[] = {32, 64, 128, 256, 512, 1024};
    const char *texts[6];
    unit u;
    for (int i = 0; i < 6; i++) texts[i] = body_rows;
    build(&u, texts, threads, 6, false);
    for (int i = 0; i < 6; i++) {
        static const int64_t sizes[] = {1, 31, 64, 100, 1000, 1024, 4099};
        for (int k = 0; k < 7; k++) check_rows(u.entry[i], threads[i], sizes[k], 3);
    }
    float x[3] = {1.0f, NAN, 2.0f}, y[2], z[3], *px = x, *py = y, *pz = z;
    int64_t n = 3, rows = 1;
    void *args[] = {&px, &py, &pz, &n, &rows};
    for (int i = 0; i < 6; i++) {
        y[0] = y[1] = 0.0f;
        u.entry[i](args, 1, 1, 1, NULL);
        assert_true(isnan(y[0]) && isnan(y[1]));
    }
    drop(&u);
}

/* A tree needs a power of two. */
static void test_tree_threads(void **state)
{
    (void)state;
    arena a = {0};
    kernel_text k;
    const kernel_text *list[] = {&k};
    text source = {0}, object = {0};
    error e = {0};
    assert_int_equal(ein__kernel_make(&a, body_rows, 96, &k), EIN_OK);
    assert_int_equal(ein__kernel_source(READ_HOST, false, list, 1, &source), EIN_OK);
    assert_int_equal(ein__host_compile(source.bytes, &object, &e), EIN_COMPILE_FAILED);
    assert_non_null(strstr(e.detail, "BLOCK_SUM(total, sum);"));
    ein__text_free(&source);
    ein__text_free(&object);
    ein__error_reset(&e);
    ein__arena_free(&a);
}

typedef double (*exact)(double);
static double exact_sigmoid(double x) { return x < -700.0 ? exp(x) : 1.0 / (1.0 + exp(-x)); }
static double exact_rsqrt(double x) { return 1.0 / sqrt(x); }
static double exact_relu(double x) { return x < 0.0 ? 0.0 : x; }
static const struct { const char *name; exact f; double bound; bool flushes; } functions[] = {
    {"exp", exp, 1.2e-7, true}, {"sigmoid", exact_sigmoid, 2.5e-7, true}, {"tanh", tanh, 2e-7, false},
    {"sin", sin, 2e-7, false}, {"cos", cos, 2e-7, false}, {"log", log, 1.2e-7, false},
    {"sqrt", sqrt, 6e-8, false}, {"rsqrt", exact_rsqrt, 1.2e-7, false}, {"erf", erf, 1.5e-7, false},
    {"relu", exact_relu, 0.0, false}, {"abs", fabs, 0.0, false}};
enum { N_UNARY = sizeof functions / sizeof *functions };

/* Relative error; infinities, NaN and the sign of zero exact; below 2^-126 the absolute error counts. */
static void check_value(int f, float x, float y)
{
    const double want = functions[f].f((double)x), least = 0x1p-126;
    const float near = (float)want;
    if (isnan(want) ? isnan(y) != 0 : isinf(near) || want == 0.0 ? bits(y) == bits(near) : false) return;
    const double off = fabs((double)y - want);
    if (isfinite(y) && off <= functions[f].bound * fabs(want)) return;
    if (fabs(want) < least && off <= (functions[f].flushes ? fabs(want) : 0x1p-149)) return;
    fail_msg("%s(%a): %a, not %a; error %g", functions[f].name, (double)x, (double)y, want, off / fabs(want));
}

static void run_functions(host_entry run, int64_t n, float *x, float *w, float *y)
{
    void *args[] = {&x, &w, &y, &n};
    run(args, (n + 127) / 128, 1, 1, NULL);
}

enum { PART = 1 << 16 };

/* Floats of all exponents and both signs, two million of them, and special ones. */
static void test_functions(void **state)
{
    (void)state;
    static const uint32_t special[] = {
        0x00000000, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7f800001, 0x7fffffff,
        0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x42b17217, 0x42b17218,
        0xc2aeac4f, 0xc2aeac50, 0x42b0c0a5, 0xc2b17218, 0xc2b17219, 0x3f1fffff, 0x3f200000, 0xbf200000,
        0x47ce47ff, 0x47ce4800, 0x47ce4801, 0x3fc90fdb, 0x40490fdb, 0x41490fdb, 0x3f800000, 0xbf800000};
    enum { N_SPECIAL = sizeof special / 4 };
    unit u;
    build_one(&u, body_functions, 128, false);
    float *x = get(PART, 4), *w = get(PART, 4), *y = get((size_t)PART * N_FUNCTIONS, 4);
    uint32_t next = 77;
    for (int part = 0; part < 32; part++) {
        for (int i = 0; i < PART; i++, next += 2053) x[i] = from_bits(next);
        if (part == 0) memcpy(x, special, sizeof special);
        run_functions(u.entry[0], PART, x, w, y);
        for (int f = 0; f < N_UNARY; f++)
            for (int i = 0; i < PART; i++) check_value(f, x[i], y[(size_t)f * PART + (size_t)i]);
    }
    /* Where they are used: between -100 and 100, evenly. */
    for (int part = 0; part < 4; part++) {
        for (int i = 0; i < PART; i++) x[i] = -100.0f + 200.0f * ((float)(part * PART + i) / (4.0f * PART));
        run_functions(u.entry[0], PART, x, w, y);
        for (int f = 0; f < N_UNARY; f++)
            for (int i = 0; i < PART; i++) check_value(f, x[i], y[(size_t)f * PART + (size_t)i]);
    }
    ein__free(x);
    ein__free(w);
    ein__free(y);
    drop(&u);
}

static void test_pairs(void **state)
{
    (void)state;
    static const float some[] = {0.0f,   -0.0f, 1.0f,     -1.0f,     0.5f, 2.0f, -3.0f,
                                 1e-30f, 1e30f, INFINITY, -INFINITY, NAN};
    enum { K = sizeof some / sizeof *some, N = K * K };
    unit u;
    float x[N], w[N], y[N * N_FUNCTIONS];
    for (int i = 0; i < N; i++) {
        x[i] = some[i / K];
        w[i] = some[i % K];
    }
    build_one(&u, body_functions, 128, false);
    run_functions(u.entry[0], N, x, w, y);
    for (int i = 0; i < N; i++) {
        const float a = x[i], b = w[i], low = y[12 * N + i], high = y[13 * N + i], power = y[11 * N + i];
        if (isnan(a) || isnan(b)) assert_true(isnan(low) && isnan(high));
        else assert_true(low == fminf(a, b) && high == fmaxf(a, b));
        const double want = pow((double)a, (double)b);
        if (isnan(want)) assert_true(isnan(power));
        else assert_true(power == (float)want || fabs(((double)power - want) / want) < 2e-7);
        /* The product's rounding error, as only a fused step gives it. */
        const double rest = (double)a * (double)b - (double)(a * b);
        if (isfinite(rest)) assert_true((double)y[14 * N + i] == (double)(float)rest);
        assert_int_equal(bits(y[15 * N + i]), bits(a) ^ 0x80000000u);
        assert_int_equal(bits(y[16 * N + i]), a > b ? 0x7f800000u : 0x7fc00000u);
    }
    drop(&u);
}

static void all_results(float *y, int64_t n)
{
    unit u;
    uint64_t seed = 5;
    float *x = get((size_t)n, 4), *w = get((size_t)n, 4);
    for (int64_t i = 0; i < n; i++) {
        x[i] = from_bits(draw(&seed) << 1 ^ draw(&seed));
        w[i] = draw_float(&seed);
    }
    build_one(&u, body_functions, 128, false);
    run_functions(u.entry[0], n, x, w, y);
    drop(&u);
    float *sums = y + n * N_FUNCTIONS, *z = get((size_t)n, 4);
    int64_t rows = n / 1000, width = 1000;
    void *args[] = {&w, &sums, &z, &width, &rows};
    build_one(&u, body_rows, 256, false);
    u.entry[0](args, rows, 1, 1, NULL);
    drop(&u);
    ein__free(x);
    ein__free(w);
    ein__free(z);
}

/* Vectorized loops and plain scalar code give the same bits, NaN aside; so does another compiler. */
static void test_same_bits(void **state)
{
    (void)state;
    enum { N = 50021 };
    static const char *const compilers[] = {"exec cc \"$@\" -O0", "exec cc \"$@\" -O3 -march=x86-64",
                                            "exec clang \"$@\" -w"};
    const size_t total = (size_t)N * N_FUNCTIONS + 100;
    float *a = get(total, 4), *b = get(total, 4);
    text clang = {0};
    char path[64];
    unsetenv("EIN_CC");
    all_results(a, N);
    for (int i = 0; i < 3; i++) {
        if (i == 2 && !ein__process_find("clang", &clang)) break;
#ifndef __x86_64__
        if (i == 1) continue;
#endif
        use_compiler(compilers[i], path);
        all_results(b, N);
        unlink(path);
        unsetenv("EIN_CC");
        for (size_t k = 0; k < total; k++)
            if (bits(a[k]) != bits(b[k]) && !(isnan(a[k]) && isnan(b[k])))
                fail_msg("%s: function %zu: %a, not %a", compilers[i], k / N, (double)b[k], (double)a[k]);
    }
    ein__text_free(&clang);
    ein__free(a);
    ein__free(b);
}

/* Generated text under all warnings. */
static void test_no_warnings(void **state)
{
    (void)state;
    char path[64];
    const char *texts[N_BODIES];
    int threads[N_BODIES];
    for (int i = 0; i < N_BODIES; i++) {
        texts[i] = bodies[i].body;
        threads[i] = bodies[i].threads;
    }
    use_compiler("exec cc \"$@\" -Wall -Wextra -Wshadow -Werror -Wno-unused-parameter", path);
    for (int counting = 0; counting < 2; counting++) {
        unit u;
        build(&u, texts, threads, N_BODIES, counting != 0);
        drop(&u);
    }
    unlink(path);
    unsetenv("EIN_CC");
}

/* Three devices of 4096 bytes; the kernel runs on the middle one. */
static void test_counting(void **state)
{
    (void)state;
    enum { STRIDE = 4096, N = 70 };
    unit u;
    char *memory = get(3 * STRIDE, 1);
    struct tally tally = {memory, STRIDE, 1, 3, 0};
    float outside[N] = {0};
    float *table[4] = {(float *)memory, (float *)(memory + STRIDE), (float *)(memory + 2 * STRIDE), outside};
    int64_t *near_index = (int64_t *)(memory + STRIDE + 512);
    int64_t *far_index = (int64_t *)(memory + 2 * STRIDE + 512);
    int64_t n = N;
    for (int i = 0; i < N; i++) near_index[i] = far_index[i] = N - 1 - i;
    for (int d = 0; d < 4; d++)
        for (int i = 0; i < N; i++) table[d][i] = (float)(100 * d + i);
    build_one(&u, body_gather, 64, true);
    for (int d = 0; d < 4; d++)
        for (int far = 0; far < 2; far++)
            for (int out = 0; out < 2; out++) {
                int64_t address = (int64_t)(intptr_t)table[d], *sources = &address;
                int64_t *index = far ? far_index : near_index;
                float *y = (float *)(memory + (out ? 2 : 1) * STRIDE + 2048);
                void *args[] = {&sources, &index, &y, &n};
                tally.bytes = 1000;
                u.entry[0](args, 2, 1, 1, &tally);
                const int remote = (d == 0 || d == 2) * 4 + far * 8 + out * 4;
                assert_int_equal(tally.bytes, 1000 + (long long)remote * N);
                for (int i = 0; i < N; i++) assert_int_equal(bits(y[i]), bits((float)(100 * d + N - 1 - i)));
            }
    drop(&u);
    ein__free(memory);
}

static void test_make(void **state)
{
    (void)state;
    static const int wrong[] = {0, -32, 31, 33, 1056};
    arena a = {0};
    kernel_text k, l, m;
    text out = {0};
    const kernel_text *list[] = {&k};
    for (int i = 0; i < 5; i++) assert_int_equal(ein__kernel_make(&a, body_tile, wrong[i], &k), EIN_INVALID);
    assert_int_equal(ein__kernel_make(&a, body_tile, 256, &k), EIN_OK);
    assert_int_equal(ein__kernel_make(&a, body_tile, 128, &l), EIN_OK);
    assert_int_equal(ein__kernel_make(&a, body_rows, 256, &m), EIN_OK);
    assert_int_equal(strlen(k.name), 34);
    assert_true(strncmp(k.name, "k_", 2) == 0);
    assert_true(!ein__hash_equal(k.key, l.key) && !ein__hash_equal(k.key, m.key));
    assert_ptr_not_equal(k.body, body_tile);
    assert_string_equal(k.body, body_tile);
    assert_int_equal(ein__kernel_source(READ_CUDA, true, list, 1, &out), EIN_INVALID);
    ein__text_free(&out);
    ein__arena_free(&a);
}

static void test_no_memory(void **state)
{
    (void)state;
    const long alive = ein__alloc_live();
    for (int at = 1, done = 0; !done; at++) {
        arena a = {0};
        kernel_text k;
        const kernel_text *list[] = {&k};
        text out = {0};
        ein__alloc_fail_at(at);
        ein_status status = ein__kernel_make(&a, body_tile, 256, &k);
        if (status == EIN_OK) status = ein__kernel_source(READ_CUDA, false, list, 1, &out);
        ein__alloc_fail_at(0);
        done = status == EIN_OK;
        if (!done) assert_int_equal(status, EIN_NO_MEMORY);
        assert_true(at > 3 || !done);
        ein__text_free(&out);
        ein__arena_free(&a);
        assert_int_equal(ein__alloc_live(), alive);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guards), cmocka_unit_test(test_tile), cmocka_unit_test(test_rows),
        cmocka_unit_test(test_tree_threads), cmocka_unit_test(test_functions), cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_same_bits), cmocka_unit_test(test_no_warnings), cmocka_unit_test(test_counting),
        cmocka_unit_test(test_make), cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
