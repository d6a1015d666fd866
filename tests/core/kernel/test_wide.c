/* SPDX-License-Identifier: Apache-2.0 */
/* The dialect's element types in the host reading: conversions against dtype's, functions of double against the
 * f64 library, functions of i64 against 128-bit arithmetic. */
#define _XOPEN_SOURCE 700
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

#include "core/tensor/dtype.h"
#include "tests/core/kernel/unit.h"

static uint64_t bits_of(double x)
{
    uint64_t u;
    memcpy(&u, &x, 8);
    return u;
}

static double from_bits(uint64_t u)
{
    double x;
    memcpy(&x, &u, 8);
    return x;
}

static uint64_t draw64(uint64_t *state) { return (uint64_t)draw(state) << 33 ^ (uint64_t)draw(state) << 10 ^ draw(state); }

/* ---- conversions -------------------------------------------------------------------------------------- */

enum { N_HALVES = 1 << 16, FLOATS = 1 << 18 };

typedef struct conversions {
    uint16_t *h, *half;
    float *wide, *x;
    double *d;
    i64 *whole, n;
    int8_t *byte;
    int *word;
    uint8_t *flag;
} conversions;

static void convert(host_entry run, conversions *c, i64 n)
{
    void *args[] = {&c->h, &c->wide, &c->x, &c->half, &c->d, &c->whole, &c->byte, &c->word, &c->flag, &c->n};
    c->n = n;
    run(args, (n + 63) / 64, 1, 1, NULL);
}

/* Bit patterns of all kinds: every half as it is, with the halfway point after it, and beside that. */
static uint32_t float_pattern(i64 i, uint64_t *seed)
{
    static const uint32_t f16_steps[] = {0, 0x1000, 0xfff, 0x1001};
    const uint32_t u = (uint32_t)i;
    if (u < N_HALVES) return u << 16 | (draw(seed) % 3 == 0 ? 0x8000u : draw(seed) % 2 == 0 ? 0x7fffu : 0x8001u);
    if (u < 2 * N_HALVES) { /* floats around those of f16, their subnormals too */
        const uint16_t half = (uint16_t)u;
        const float f = (float)ein__dtype_read(EIN_F16, &half);
        uint32_t v;
        memcpy(&v, &f, 4);
        return v + (fabsf(f) < 0x1p-14f ? (draw(seed) % 2) << (draw(seed) % 24) : f16_steps[draw(seed) % 4]);
    }
    return u < 3 * N_HALVES ? (u & 0xffffu) << 16 : draw(seed) ^ draw(seed) << 1;
}

static void check_floats(const conversions *c)
{
    for (i64 i = 0; i < c->n; i++) {
        uint16_t b, f;
        i64 k, d;
        ein__dtype_write(EIN_BF16, (double)c->x[i], &b);
        ein__dtype_write(EIN_F16, (double)c->x[i], &f);
        ein__dtype_write(EIN_I64, (double)c->x[i], &k);
        ein__dtype_write(EIN_I64, c->d[i], &d);
        if (c->half[i] != b || c->half[c->n + i] != f)
            fail_msg("%a: bf16 %x, not %x; f16 %x, not %x", (double)c->x[i], c->half[i], b, c->half[c->n + i], f);
        assert_int_equal(c->whole[i], k);
        assert_int_equal(c->whole[c->n + i], d);
        assert_int_equal(c->byte[i], (int8_t)(uint8_t)d);
        assert_int_equal(c->word[i], (int32_t)(uint32_t)d);
        assert_int_equal(c->flag[i], d != 0);
        assert_int_equal(c->whole[2 * c->n + i], c->byte[i] + (i64)c->word[i] + c->flag[i]);
    }
}

static void test_conversions(void **state)
{
    static const double special[] = {0.0, -0.0, 0.9, -0.9, 1.5, -1.5, 127.0, 128.0, -129.0, 255.0, 256.0, 4294967296.0,
                                     0x1p62, 0x1p63, -0x1p63, -0x1.0000000000001p63, 0x1.fffffffffffffp62, 1e300,
                                     INFINITY, -INFINITY, NAN};
    (void)state;
    enum { K = sizeof special / sizeof *special };
    unit u;
    uint64_t seed = 3;
    conversions c = {get(FLOATS, 2), get(2 * FLOATS, 2), get(2 * FLOATS, 4), get(FLOATS, 4), get(FLOATS, 8),
                     get(3 * FLOATS, 8), 0, get(FLOATS, 1), get(FLOATS, 4), get(FLOATS, 1)};
    build_one(&u, body_conversions, 64, false);
    for (i64 i = 0; i < FLOATS; i++) {
        const uint32_t v = float_pattern(i, &seed);
        c.h[i] = (uint16_t)i;
        memcpy(&c.x[i], &v, 4);
        c.d[i] = i < K ? special[i] : ldexp((double)(int32_t)draw(&seed) - 0x1p30, (int)(draw(&seed) % 80) - 40);
    }
    convert(u.entry[0], &c, FLOATS);
    check_floats(&c);
    for (i64 i = 0; i < N_HALVES; i++) {
        const double b = ein__dtype_read(EIN_BF16, &c.h[i]), f = ein__dtype_read(EIN_F16, &c.h[i]);
        const double got_b = (double)c.wide[i], got_f = (double)c.wide[c.n + i];
        assert_true(isnan(b) ? isnan(got_b) != 0 : bits_of(got_b) == bits_of(b));
        assert_true(isnan(f) ? isnan(got_f) != 0 : bits_of(got_f) == bits_of(f));
    }
    void *all[] = {c.h, c.half, c.wide, c.x, c.d, c.whole, c.byte, c.word, c.flag};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) ein__free(all[i]);
    drop(&u);
}

/* ---- double ------------------------------------------------------------------------------------------- */

typedef double (*function)(double);
static double exact_sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
static double exact_rsqrt(double x) { return 1.0 / sqrt(x); }
static double exact_relu(double x) { return x < 0.0 ? 0.0 : x; }
static double exact_sign(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x; }
static const struct { const char *name; function f; double bound; } functions[] = {
    {"exp", exp, 4e-16}, {"sigmoid", exact_sigmoid, 6e-16}, {"tanh", tanh, 2e-15}, {"sin", sin, 5e-16},
    {"cos", cos, 5e-16}, {"log", log, 3e-16}, {"sqrt", sqrt, 0}, {"rsqrt", exact_rsqrt, 0}, {"erf", erf, 5e-16},
    {"relu", exact_relu, 0}, {"abs", fabs, 0}, {"floor", floor, 0}, {"ceil", ceil, 0}, {"round", rint, 0},
    {"trunc", trunc, 0}, {"sign", exact_sign, 0}};
enum { N_UNARY = sizeof functions / sizeof *functions, PART = 1 << 16 };

/* Relative error; infinities, NaN and the sign of zero exact; below 2^-1022 exp is 0. */
static void check_value(int f, double x, double y)
{
    const double want = functions[f].f(x);
    if (isnan(want) ? isnan(y) != 0 : bits_of(y) == bits_of(want)) return;
    if (isfinite(want) && isfinite(y) && want != 0.0 && fabs(y - want) <= functions[f].bound * fabs(want)) return;
    if (f < 2 && fabs(want) < 0x1.01p-1022 && y >= 0.0 && y < 0x1.01p-1022) return;
    fail_msg("%s(%a): %a, not %a; error %g", functions[f].name, x, y, want, fabs(y - want) / fabs(want));
}

static void run_doubles(host_entry run, i64 n, double *x, double *w, double *y)
{
    void *args[] = {&x, &w, &y, &n};
    run(args, (n + 127) / 128, 1, 1, NULL);
}

static void test_doubles(void **state)
{
    static const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 0x1p-1074, 0x1p-1022, 0x1.fffffffffffffp1023,
        709.782712893384, 709.78271289338397, 709.8, -708.4, -708.39641853226408, -745.2, 0.17, -0.17, 0.16999, 0.5, 1.5,
        2.5, -0.5, -1.5, 0x1p52, 0x1.8p52, 0x1p53, 1073741823.9, 1073741824.0, 1073741825.0, M_PI, M_PI_2, 3 * M_PI_2,
        1e22, 0x1p1023};
    (void)state;
    unit u;
    double *x = get(PART, 8), *w = get(PART, 8), *y = get((size_t)PART * N_DOUBLES, 8);
    uint64_t seed = 11;
    build_one(&u, body_doubles, 128, false);
    for (int part = 0; part < 10; part++) {
        for (int i = 0; i < PART; i++) /* all exponents; then where they are used */
            x[i] = part < 6 ? from_bits(draw64(&seed)) : ((double)draw(&seed) - 0x1p30) * (part < 8 ? 1e-7 : 1e-9);
        if (part == 0) memcpy(x, special, sizeof special);
        for (int i = 0; part == 1 && i < PART; i++) x[i] = (i % 2 ? -M_PI_2 : M_PI_2) * i; /* where they cancel */
        run_doubles(u.entry[0], PART, x, w, y);
        for (int f = 0; f < N_UNARY; f++)
            for (int i = 0; i < PART; i++) check_value(f, x[i], y[(size_t)f * PART + (size_t)i]);
    }
    x[0] = 0x1.6ac5b262ca1ffp849; /* the double nearest to a multiple of pi/2 */
    run_doubles(u.entry[0], 1, x, w, y);
    assert_true(y[3] == 1.0 && fabs(y[4] + 4.68716592425462761112e-19) < 1e-34);
    ein__free(x);
    ein__free(w);
    ein__free(y);
    drop(&u);
}

static void same(double got, double want)
{
    if (isnan(want) ? !isnan(got) : got != want) fail_msg("got %a, want %a", got, want);
}

static void test_pairs(void **state)
{
    static const double some[] = {0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 0.1, 7.25, 1e-300, 1e300, INFINITY, -INFINITY, NAN};
    enum { K = sizeof some / sizeof *some, N = K * K };
    (void)state;
    unit u;
    double x[N], w[N], y[N * N_DOUBLES];
    for (int i = 0; i < N; i++) {
        x[i] = some[i / K];
        w[i] = some[i % K];
    }
    build_one(&u, body_doubles, 128, false);
    run_doubles(u.entry[0], N, x, w, y);
    for (int i = 0; i < N; i++) {
        const double a = x[i], b = w[i], power = pow(a, b), low = y[17 * N + i], high = y[18 * N + i];
        if (isnan(a) || isnan(b)) assert_true(isnan(low) && isnan(high));
        else assert_true(low == fmin(a, b) && high == fmax(a, b));
        if (!isfinite(power) || power == 0) same(y[16 * N + i], power);
        else assert_true(fabs(y[16 * N + i] - power) < 1e-15 * fabs(power));
        if (isfinite(a * b) && fabs(a * b) > 1e-250)
            same(y[21 * N + i], fma(a, b, -(a * b)));
        same(y[22 * N + i], a > b ? INFINITY : NAN);
    }
    drop(&u);
}

/* Quotients and rests as Python gives them, in both float types. */
static const struct { double a, b, quotient, rest; } divisions[] = {
    {7, 2, 3, 1}, {-7, 2, -4, 1}, {7, -2, -4, -1}, {-7, -2, 3, -1}, {6, 2, 3, 0}, {-6, 2, -3, 0}, {7.5, 2, 3, 1.5},
    {-0.25, 1, -1, 0.75}, {5.5, -1.25, -5, -0.75}, {0, 3, 0, 0}, {1, INFINITY, 0, 1}, {-1, INFINITY, -1, INFINITY},
    {1, 0, INFINITY, NAN}, {-1, 0, -INFINITY, NAN}, {0, 0, NAN, NAN}, {INFINITY, 2, NAN, NAN}, {NAN, 1, NAN, NAN},
    {1, NAN, NAN, NAN}, {-0x1p-100, 1, -1, 1}, {1000001, 3, 333333, 2}, {-1000001, 3, -333334, 1},
    {0x1p60, 3, 0x1.5555555555555p58, 1}, {65536, 0.125, 524288, 0}};
enum { N_DIVISIONS = sizeof divisions / sizeof *divisions };

static void test_rounding_down(void **state)
{
    (void)state;
    unit u;
    enum { N = N_DIVISIONS + 1 };
    double x[N], w[N], y[N * N_DOUBLES];
    float a[N], b[N], c[N * N_ROUNDINGS], *pa = a, *pb = b, *pc = c;
    i64 whole[N] = {0}, to[N * N_INTEGERS], n = N, *from = whole, *pto = to;
    for (int i = 0; i < N; i++) {
        x[i] = i < N_DIVISIONS ? divisions[i].a : 6.0;
        w[i] = i < N_DIVISIONS ? divisions[i].b : 0.1; /* a little more than a tenth */
        a[i] = (float)x[i];
        b[i] = (float)w[i];
    }
    build_one(&u, body_doubles, 128, false);
    run_doubles(u.entry[0], N, x, w, y);
    drop(&u);
    build_one(&u, body_integers, 128, false);
    void *args[] = {&from, &from, &pto, &pa, &pb, &pc, &n};
    u.entry[0](args, 1, 1, 1, NULL);
    drop(&u);
    for (int i = 0; i < N_DIVISIONS; i++) {
        same(y[19 * N + i], divisions[i].quotient);
        same(y[20 * N + i], divisions[i].rest);
        same((double)c[5 * N + i], (double)(float)divisions[i].quotient);
        same((double)c[6 * N + i], divisions[i].rest);
    }
    same(y[20 * N - 1], 59.0);
    same((double)c[6 * N - 1], 59.0);
    assert_true(fabs(y[21 * N - 1] - 0.1) < 1e-15 && fabsf(c[7 * N - 1] - 0.1f) < 1e-6f);
}

/* ---- i64 ---------------------------------------------------------------------------------------------- */

__extension__ typedef __int128 i128;

static i128 floored(i128 a, i128 b) { return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static void check_integers(const i64 *x, const i64 *w, const i64 *y, i64 n)
{
    for (i64 i = 0; i < n; i++) {
        const i128 a = x[i], b = w[i], down = floored(a, b);
        const i128 want[N_INTEGERS] = {-a, a < 0 ? -a : a, a < 0 ? 0 : a, (a > 0) - (a < 0), a + b, a - b, a * b,
                                       a < b ? a : b, a > b ? a : b, down, b == 0 ? 0 : a - b * down};
        for (int f = 0; f < N_INTEGERS; f++)
            if (y[f * n + i] != (i64)(uint64_t)want[f])
                fail_msg("function %d of %lld, %lld: %lld", f, (long long)x[i], (long long)w[i],
                         (long long)y[f * n + i]);
    }
}

static void check_roundings(const float *a, const float *c, i64 n)
{
    for (i64 i = 0; i < n; i++) {
        const double x = (double)a[i];
        same((double)c[i], floor(x));
        same((double)c[n + i], ceil(x));
        same((double)c[2 * n + i], rint(x));
        same((double)c[3 * n + i], trunc(x));
        same((double)c[4 * n + i], exact_sign(x));
    }
}

static void test_integers(void **state)
{
    static const i64 some[] = {0, 1, -1, 2, -2, 3, 7, -7, INT64_MAX, INT64_MIN, INT64_MIN + 1, 0x100000000, 1000003};
    enum { K = sizeof some / sizeof *some, N = 4096 };
    (void)state;
    unit u;
    uint64_t seed = 23;
    i64 *x = get(N, 8), *w = get(N, 8), *y = get(N * N_INTEGERS, 8), n = N;
    float *a = get(N, 4), *b = get(N, 4), *c = get(N * N_ROUNDINGS, 4);
    for (int i = 0; i < N; i++) {
        const uint32_t v = draw(&seed) ^ draw(&seed) << 1;
        x[i] = i < K * K ? some[i / K] : (i64)draw64(&seed);
        w[i] = i < K * K ? some[i % K] : (i64)draw64(&seed) >> draw(&seed) % 64;
        memcpy(&a[i], &v, 4);
        if (i % 2) a[i] = (float)((int)(v % 64) - 32) / 2.0f;
    }
    build_one(&u, body_integers, 128, false);
    void *args[] = {&x, &w, &y, &a, &b, &c, &n};
    u.entry[0](args, N / 128, 1, 1, NULL);
    check_integers(x, w, y, N);
    check_roundings(a, c, N);
    void *all[] = {x, w, y, a, b, c};
    for (int i = 0; i < 6; i++) ein__free(all[i]);
    drop(&u);
}

/* ---- blocks ------------------------------------------------------------------------------------------- */

/* The dialect's tree, as in test_dialect. */
static double tree_sum(double *v, int threads)
{
    for (int k = 0; k < threads / 32; k++) {
        for (int d = 16; d > 0; d /= 2)
            for (int i = 0; i < d; i++) v[32 * k + i] += v[32 * k + i + d];
        v[k] = v[32 * k];
    }
    for (int d = threads / 64; d > 0; d /= 2)
        for (int i = 0; i < d; i++) v[i] += v[i + d];
    return v[0];
}

static void test_blocks(void **state)
{
    static const int threads[] = {32, 64, 256, 1024};
    (void)state;
    for (int t = 0; t < 4; t++) {
        unit u;
        uint64_t seed = 31;
        double x[2048], y[4], *px = x, *py = y;
        i64 w[2048], z[4], *pw = w, *pz = z;
        void *args[] = {&px, &pw, &py, &pz};
        for (int i = 0; i < 2048; i++) {
            x[i] = ldexp((double)draw(&seed) - 0x1p30, (int)(draw(&seed) % 60) - 30);
            w[i] = (i64)draw64(&seed);
        }
        build_one(&u, body_wide_sums, threads[t], false);
        u.entry[0](args, 2, 1, 1, NULL);
        for (int block = 0; block < 2; block++) {
            double *own = x + block * threads[t], top = -INFINITY;
            uint64_t sum = 0;
            i64 most = INT64_MIN;
            for (int i = 0; i < threads[t]; i++) {
                sum += (uint64_t)w[block * threads[t] + i];
                if (w[block * threads[t] + i] > most) most = w[block * threads[t] + i];
                if (own[i] > top) top = own[i];
            }
            assert_true(y[2 * block + 1] == top && y[2 * block] == tree_sum(own, threads[t]));
            assert_true(z[2 * block] == (i64)sum && z[2 * block + 1] == most);
        }
        drop(&u);
    }
}

/* ---- compilers ---------------------------------------------------------------------------------------- */

/* Plain scalar code gives the bits of vectorized loops, NaN aside; so does a CPU without its newer instructions. */
static void test_same_bits(void **state)
{
    enum { N = 20011 };
    static const char *const compilers[] = {"exec cc \"$@\" -O0", "exec cc \"$@\" -O3 -march=x86-64"};
    (void)state;
    unit u;
    char path[64];
    uint64_t seed = 41;
    double *x = get(N, 8), *w = get(N, 8), *y = get((size_t)N * N_DOUBLES, 8), *z = get((size_t)N * N_DOUBLES, 8);
    for (int i = 0; i < N; i++) {
        x[i] = i % 2 ? from_bits(draw64(&seed)) : ((double)draw(&seed) - 0x1p30) * 1e-7;
        w[i] = ((double)draw(&seed) - 0x1p30) * 1e-8;
    }
    unsetenv("EIN_CC");
    build_one(&u, body_doubles, 128, false);
    run_doubles(u.entry[0], N, x, w, y);
    drop(&u);
    for (int k = 0; k < 2; k++) {
#ifndef __x86_64__
        if (k == 1) continue;
#endif
        use_compiler(compilers[k], path);
        build_one(&u, body_doubles, 128, false);
        unlink(path);
        unsetenv("EIN_CC");
        run_doubles(u.entry[0], N, x, w, z);
        drop(&u);
        for (size_t i = 0; i < (size_t)N * N_DOUBLES; i++)
            if (bits_of(y[i]) != bits_of(z[i]) && !(isnan(y[i]) && isnan(z[i])))
                fail_msg("%s: function %zu of %a: %a, not %a", compilers[k], i / N, x[i % N], z[i], y[i]);
    }
    void *all[] = {x, w, y, z};
    for (int i = 0; i < 4; i++) ein__free(all[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conversions), cmocka_unit_test(test_doubles), cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_rounding_down), cmocka_unit_test(test_integers), cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
