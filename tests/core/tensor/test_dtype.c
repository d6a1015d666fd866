/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions against values that IEEE 754 gives, and against the compiler's own where it has them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/tensor/dtype.h"

static uint16_t half(ein_dtype d, double x)
{
    uint16_t u;
    ein__dtype_write(d, x, &u);
    return u;
}

static void test_halves(void **state)
{
    (void)state;
    assert_int_equal(half(EIN_BF16, 1.0), 0x3f80);
    assert_int_equal(half(EIN_BF16, 1.0 + 0x1p-8), 0x3f80);            /* a tie goes to even */
    assert_int_equal(half(EIN_BF16, 1.0 + 3 * 0x1p-8), 0x3f82);        /* up to even */
    assert_int_equal(half(EIN_BF16, 1.0 + 0x1p-8 + 0x1p-40), 0x3f81);  /* rounded once, not by way of f32 */
    assert_int_equal(half(EIN_BF16, 263), half(EIN_BF16, 264));
    assert_int_equal(half(EIN_BF16, -INFINITY), 0xff80);
    assert_int_equal(half(EIN_BF16, 3.4e38), 0x7f80);
    assert_true(isnan(ein__dtype_read(EIN_BF16, &(uint16_t){half(EIN_BF16, NAN)})));
    assert_int_equal(half(EIN_F16, 65504), 0x7bff);
    assert_int_equal(half(EIN_F16, 65520), 0x7c00);
    assert_int_equal(half(EIN_F16, 0x1p-24), 0x0001);
    assert_int_equal(half(EIN_F16, 0x1p-25), 0x0000);
    assert_int_equal(half(EIN_F16, 1.5 * 0x1p-25), 0x0001);
    assert_int_equal(half(EIN_F16, 0x1p-14 - 0x1p-26), 0x0400); /* a subnormal rounds up to the first normal */
    assert_int_equal(half(EIN_F16, -0.0), 0x8000);
}

static void test_every_half_reads_back(void **state)
{
    (void)state;
    const ein_dtype types[] = {EIN_BF16, EIN_F16};
    for (int t = 0; t < 2; t++)
        for (uint32_t u = 0; u < 0x10000; u++) {
            uint16_t bits = (uint16_t)u;
            double x = ein__dtype_read(types[t], &bits);
            if (!isnan(x)) assert_int_equal(half(types[t], x), bits);
        }
}

static void test_bf16_is_the_upper_half_of_f32(void **state)
{
    (void)state;
    for (uint32_t u = 0; u < 0x10000; u += 7) {
        uint16_t bits = (uint16_t)u;
        uint32_t wide = u << 16;
        float f;
        memcpy(&f, &wide, sizeof f);
        double x = ein__dtype_read(EIN_BF16, &bits);
        assert_true(isnan(f) ? isnan(x) : x == (double)f);
    }
}

/* Many at once are what they are one by one: every half, and f32 of all exponents, at odd addresses and lengths. */
static void test_many_at_once(void **state)
{
    (void)state;
    enum { N = 1000 };
    const ein_dtype types[] = {EIN_BF16, EIN_F16};
    unsigned char in[4 * N + 1], out[4 * N + 1], want[4];
    uint64_t bits = 1;
    for (int t = 0; t < 2; t++) {
        for (uint32_t u = 0; u < 0x10000; u += N) {
            int n = u + N < 0x10000 ? N : (int)(0x10000 - u);
            for (int i = 0; i < n; i++) memcpy(in + 1 + 2 * i, &(uint16_t){(uint16_t)(u + (uint32_t)i)}, 2);
            ein__dtype_convert(EIN_F32, out + 1, types[t], in + 1, n);
            for (int i = 0; i < n; i++) {
                double x = ein__dtype_read(types[t], in + 1 + 2 * i), y = ein__dtype_read(EIN_F32, out + 1 + 4 * i);
                assert_true(isnan(x) ? isnan(y) : x == y && signbit(x) == signbit(y));
            }
        }
        for (int round = 0; round < 500; round++) {
            for (int i = 0; i < N; i++) {
                bits = bits * 6364136223846793005u + 1442695040888963407u;
                uint32_t u = (uint32_t)(bits >> 32), exponent = (uint32_t)(i * 256 / N) << 23;
                if (round % 2 == 0) u = (u & 0x80000000) | exponent | (u & 0x7fffff); /* all as often */
                memcpy(in + 1 + 4 * i, &u, 4);
            }
            ein__dtype_convert(types[t], out + 1, EIN_F32, in + 1, N - round);
            for (int i = 0; i < N - round; i++) {
                ein__dtype_write(types[t], ein__dtype_read(EIN_F32, in + 1 + 4 * i), want);
                assert_memory_equal(out + 1 + 2 * i, want, 2);
            }
        }
    }
}

static void test_integers(void **state)
{
    (void)state;
    const double in[] = {1.9, -1.9, 300, -300, NAN, INFINITY};
    int8_t i8[6];
    i64 i64s[6];
    uint8_t bools[6];
    ein__dtype_convert(EIN_I8, i8, EIN_F64, in, 6);
    ein__dtype_convert(EIN_I64, i64s, EIN_F64, in, 6);
    ein__dtype_convert(EIN_BOOL, bools, EIN_F64, in, 6);
    assert_memory_equal(i8, ((int8_t[]){1, -1, 127, -128, 0, 127}), 6);
    assert_memory_equal(i64s, ((i64[]){1, -1, 300, -300, 0, INT64_MAX}), sizeof i64s);
    assert_memory_equal(bools, ((uint8_t[]){1, 1, 1, 1, 1, 1}), 6);
    const i64 big[] = {INT64_MAX, 0x100000005, -1};
    int32_t i32[3];
    i64 same[3];
    ein__dtype_convert(EIN_I32, i32, EIN_I64, big, 3); /* integers wrap */
    ein__dtype_convert(EIN_I64, same, EIN_I64, big, 3);
    assert_memory_equal(i32, ((int32_t[]){-1, 5, -1}), sizeof i32);
    assert_memory_equal(same, big, sizeof big);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halves), cmocka_unit_test(test_every_half_reads_back),
        cmocka_unit_test(test_bf16_is_the_upper_half_of_f32), cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_integers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
