/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tensor/dtype.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

typedef struct dtype_row {
    const char *name;
    i64 bytes; /* 0: a name kept free */
    const char *kernel, *load, *store;
    ein_dtype compute;
} dtype_row;

static const dtype_row table[] = {
    [EIN_F32] = {"f32", 4, "float", "", "", EIN_F32},
    [EIN_F64] = {"f64", 8, "double", "", "", EIN_F64},
    [EIN_BF16] = {"bf16", 2, "u16", "from_bf16", "to_bf16", EIN_F32},
    [EIN_F16] = {"f16", 2, "u16", "from_f16", "to_f16", EIN_F32},
    [EIN_I8] = {"i8", 1, "i8", "(i64)", "(i8)", EIN_I64},
    [EIN_I32] = {"i32", 4, "int", "(i64)", "(int)", EIN_I64},
    [EIN_I64] = {"i64", 8, "i64", "", "", EIN_I64},
    [EIN_BOOL] = {"bool", 1, "u8", "(i64)", "to_bool", EIN_I64},
    [EIN_F8E4M3] = {.name = "f8e4m3"},
    [EIN_F8E5M2] = {.name = "f8e5m2"}};

static bool known(ein_dtype d) { return (int)d >= 1 && (size_t)d < sizeof table / sizeof *table; }

bool ein__dtype_built(ein_dtype d) { return known(d) && table[d].bytes > 0; }
const char *ein__dtype_name(ein_dtype d) { return known(d) ? table[d].name : "?"; }
i64 ein__dtype_bytes(ein_dtype d) { return known(d) ? table[d].bytes : 0; }
const char *ein__dtype_kernel(ein_dtype d) { return known(d) ? table[d].kernel : NULL; }
ein_dtype ein__dtype_compute(ein_dtype d) { return known(d) ? table[d].compute : 0; }
const char *ein__dtype_load(ein_dtype d) { return known(d) ? table[d].load : NULL; }
const char *ein__dtype_store(ein_dtype d) { return known(d) ? table[d].store : NULL; }
bool ein__dtype_is_float(ein_dtype d) { return known(d) && table[d].compute != EIN_I64 && table[d].bytes > 0; }

/* ---- conversion --------------------------------------------------------------------------------------- */

static uint64_t bits_of(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* A double rounded once, half to even, to a float of `exponent` and `mantissa` bits (IEEE 754's layout with
 * subnormals): bf16 is 8 and 7, f16 is 5 and 10. */
static uint16_t narrow(double x, int exponent, int mantissa)
{
    uint64_t u = bits_of(x), sign = u >> 63, man = u & ((1ull << 52) - 1);
    int most = (1 << exponent) - 1, e = (int)(u >> 52 & 0x7ff) - 1023 + most / 2;
    uint16_t top = (uint16_t)(sign << (exponent + mantissa));
    if ((u >> 52 & 0x7ff) == 0x7ff) /* infinity, NaN */
        return (uint16_t)(top | most << mantissa | (man != 0 ? 1 << (mantissa - 1) : 0));
    if (e < -mantissa) return top; /* less than half of the smallest */
    int drop = 52 - mantissa + (e < 1 ? 1 - e : 0);
    if (e < 1) man |= 1ull << 52;
    uint64_t kept = man >> drop, rest = man & ((1ull << drop) - 1), half = 1ull << (drop - 1);
    kept += (uint64_t)(e < 1 ? 0 : e) << mantissa;
    kept += rest > half || (rest == half && (kept & 1) != 0); /* a carry goes on into the exponent */
    if (kept >= (uint64_t)most << mantissa) kept = (uint64_t)most << mantissa;
    return (uint16_t)(top | kept);
}

static double widen(uint16_t bits, int exponent, int mantissa)
{
    int most = (1 << exponent) - 1, e = bits >> mantissa & most, man = bits & ((1 << mantissa) - 1);
    double x = e == most ? (man != 0 ? (double)NAN : (double)INFINITY)
                         : ldexp((double)(man + (e > 0 ? 1 << mantissa : 0)), (e > 0 ? e : 1) - most / 2 - mantissa);
    return bits >> (exponent + mantissa) != 0 ? -x : x;
}

static i64 truncate(double x, double least, double most, i64 lo, i64 hi)
{
    if (x != x) return 0;
    return x <= least ? lo : x >= most ? hi : (i64)x;
}

#define WRITE(T, v) do { T v_ = (T)(v); memcpy(out, &v_, sizeof v_); } while (0)

void ein__dtype_write(ein_dtype d, double x, void *out)
{
    switch (d) {
    case EIN_F32: WRITE(float, x); break;
    case EIN_F64: WRITE(double, x); break;
    case EIN_BF16: WRITE(uint16_t, narrow(x, 8, 7)); break;
    case EIN_F16: WRITE(uint16_t, narrow(x, 5, 10)); break;
    case EIN_I8: WRITE(int8_t, truncate(x, -128, 127, -128, 127)); break;
    case EIN_I32: WRITE(int32_t, truncate(x, -0x1p31, 0x1p31, INT32_MIN, INT32_MAX)); break;
    case EIN_I64: WRITE(i64, truncate(x, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX)); break;
    case EIN_BOOL: WRITE(uint8_t, x != 0); break;
    default: break;
    }
}

#define READ(T) do { T v_; memcpy(&v_, at, sizeof v_); return (double)v_; } while (0)

static uint16_t half_bits(const void *at)
{
    uint16_t u;
    memcpy(&u, at, sizeof u);
    return u;
}

double ein__dtype_read(ein_dtype d, const void *at)
{
    switch (d) {
    case EIN_F32: READ(float);
    case EIN_F64: READ(double);
    case EIN_BF16: return widen(half_bits(at), 8, 7);
    case EIN_F16: return widen(half_bits(at), 5, 10);
    case EIN_I8: READ(int8_t);
    case EIN_I32: READ(int32_t);
    case EIN_I64: READ(i64);
    case EIN_BOOL: READ(uint8_t);
    default: return NAN;
    }
}

static i64 read_integer(ein_dtype d, const void *at)
{
    i64 x;
    if (d != EIN_I64) return (i64)ein__dtype_read(d, at);
    memcpy(&x, at, sizeof x);
    return x;
}

static void write_integer(ein_dtype d, i64 x, void *out)
{
    switch (d) {
    case EIN_I8: WRITE(int8_t, (uint8_t)x); break;
    case EIN_I32: WRITE(int32_t, (uint32_t)x); break;
    case EIN_BOOL: WRITE(uint8_t, x != 0); break;
    default: WRITE(i64, x); break;
    }
}

/* ---- f32 to and from bf16 and f16, many at once -------------------------------------------------------- */

static float as_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t as_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* Without a branch, for the compiler's vectors. */
static uint32_t select(bool condition, uint32_t x, uint32_t y)
{
    uint32_t mask = -(uint32_t)condition;
    return (x & mask) | (y & ~mask);
}

static uint32_t f32_of_bf16(uint16_t h) { return (uint32_t)h << 16; }

static uint16_t bf16_of_f32(uint32_t u)
{
    uint32_t nan = (u >> 16 & 0x8000) | 0x7fc0, near = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (uint16_t)select((u & 0x7fffffff) > 0x7f800000, nan, near);
}

/* The bits at their place are 2^-112 times the number, subnormal or not. */
static uint32_t f32_of_f16(uint16_t h)
{
    uint32_t finite = as_bits(as_float((uint32_t)(h & 0x7fff) << 13) * 0x1p112f);
    uint32_t other = 0x7f800000 | select((h & 0x3ff) != 0, 0x400000, 0);
    return select((h & 0x7c00) == 0x7c00, other, finite) | (uint32_t)(h & 0x8000) << 16;
}

/* A number whose last bit is worth as much as a subnormal's, added, rounds it. */
static uint16_t f16_of_f32(uint32_t u)
{
    uint32_t x = u & 0x7fffffff, small = as_bits(as_float(x) + 0.5f) - 0x3f000000;
    uint32_t normal = (x - 0x38000000 + 0xfff + (x >> 13 & 1)) >> 13, large = select(x > 0x7f800000, 0x7e00, 0x7c00);
    return (uint16_t)((u >> 16 & 0x8000) | select(x >= 0x47800000, large, select(x < 0x38800000, small, normal)));
}

enum { RUN = 64 };

/* Runs of a fixed length, which may lie at any address. */
#define CONVERT(TO, FROM, function)                                          \
    static void function##_all(char *out, const char *in, size_t n)          \
    {                                                                        \
        TO y[RUN];                                                           \
        FROM x[RUN] = {0};                                                   \
        for (size_t m; n > 0; n -= m, in += sizeof x, out += sizeof y) {     \
            m = n < RUN ? n : RUN;                                           \
            if (m == RUN) memcpy(x, in, sizeof x);                           \
            else memcpy(x, in, m * sizeof *x);                               \
            for (int k = 0; k < RUN; k++) y[k] = function(x[k]);             \
            if (m == RUN) memcpy(out, y, sizeof y);                          \
            else memcpy(out, y, m * sizeof *y);                              \
        }                                                                    \
    }

CONVERT(uint32_t, uint16_t, f32_of_bf16)
CONVERT(uint32_t, uint16_t, f32_of_f16)
CONVERT(uint16_t, uint32_t, bf16_of_f32)
CONVERT(uint16_t, uint32_t, f16_of_f32)

/* The pairs that weights and matrix products take; false: another one. */
static bool convert_floats(ein_dtype to, void *out, ein_dtype from, const void *in, i64 n)
{
    void (*all)(char *, const char *, size_t) = NULL;
    if (to == EIN_F32) all = from == EIN_BF16 ? f32_of_bf16_all : from == EIN_F16 ? f32_of_f16_all : NULL;
    if (from == EIN_F32) all = to == EIN_BF16 ? bf16_of_f32_all : to == EIN_F16 ? f16_of_f32_all : NULL;
    if (all != NULL && n > 0) all(out, in, (size_t)n);
    return all != NULL;
}

void ein__dtype_convert(ein_dtype to, void *out, ein_dtype from, const void *in, i64 n)
{
    i64 step = ein__dtype_bytes(to), stride = ein__dtype_bytes(from);
    bool integers = !ein__dtype_is_float(to) && !ein__dtype_is_float(from);
    if (to == from && n > 0) memcpy(out, in, (size_t)(n * step));
    if (to == from || convert_floats(to, out, from, in, n)) return;
    for (i64 i = 0; i < n; i++) {
        const char *x = (const char *)in + i * stride;
        char *y = (char *)out + i * step;
        if (integers) write_integer(to, read_integer(from, x), y);
        else ein__dtype_write(to, ein__dtype_read(from, x), y);
    }
}
