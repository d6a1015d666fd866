/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies that use every construct of the dialect: run in the host reading, compiled in the CUDA reading. */
#ifndef TESTS_CORE_KERNEL_BODIES_H
#define TESTS_CORE_KERNEL_BODIES_H

/* Every thread of every block adds 1 at its place; lo + tid < n guards. */
static const char body_guards[] =
    "#define PARAMS(IN, OUT, VAL, SEP) OUT(i32, y) SEP VAL(i64, n) SEP VAL(i64, width)\n"
    "KERNEL(PARAMS)\n"
    "{\n"
    "    const i64 lo = ((bz * 2 + by) * 3 + bx) * width;\n"
    "    STEP_N(n) { ST(y, lo + tid, LD(y, lo + tid) + 1); }\n"
    "    SYNC;\n"
    "    PHASE_N(n - 7) { ST(y, lo + tid, LD(y, lo + tid) + 10); }\n"
    "    if (n > 5) PHASE_N(5) { ST(y, lo + tid, LD(y, lo + tid) + 100); }\n"
    "    else PHASE_N(2) { ST(y, lo + tid, LD(y, lo + tid) + 1000); }\n"
    "    STEP_N(width) { if (tid % 2) continue; ST(y, lo + tid, LD(y, lo + tid) + 10000); }\n"
    "}\n"
    "#undef PARAMS\n";

/* Transposes a 16 x (THREADS / 16) tile through shared memory, and scales it. */
static const char body_tile[] =
    "#define PARAMS(IN, OUT, VAL, SEP) IN(float, x) SEP OUT(float, y) SEP VAL(float, scale) SEP VAL(i64, n)\n"
    "#define WIDE (THREADS / 16)\n"
    "KERNEL(PARAMS)\n"
    "{\n"
    "    SHARED(float, tile, 16 * WIDE);\n"
    "    UNROLL_DEV(2) for (i64 i = 0; i < n; i++) {\n"
    "        const i64 lo = (bx * n + i) * THREADS;\n"
    "        PHASE2(r, 16, c, WIDE) { tile[c * 16 + r] = LD(x, lo + r * WIDE + c); }\n"
    "        STEP2(c, WIDE, r, 16) { ST(y, lo + tid, scale * tile[c * 16 + r]); }\n"
    "        SYNC;\n"
    "    }\n"
    "}\n"
    "#undef WIDE\n"
    "#undef PARAMS\n";

/* Row statistics: y[row] = sum, y[rows + row] = maximum, then x minus the maximum in place of x in z. */
static const char body_rows[] =
    "#define PARAMS(IN, OUT, VAL, SEP) IN(float, x) SEP OUT(float, y) SEP OUT(float, z) SEP VAL(i64, n)"
    " SEP VAL(i64, rows)\n"
    "KERNEL(PARAMS)\n"
    "{\n"
    "    PRIV(float, sum); PRIV(float, top);\n"
    "    PRIVA(float, v, 4);\n"
    "    STEP {\n"
    "        P(sum) = 0.0f;\n"
    "        P(top) = -K_INF;\n"
    "        UNROLL(4) for (int k = 0; k < 4; k++) PA(v, k) = 0.0f;\n"
    "    }\n"
    "    for (i64 i = 0; i < n; i += THREADS)\n"
    "        STEP_N(n - i) {\n"
    "            const float f = LD(x, bx * n + i + tid);\n"
    "            PA(v, 3) = PA(v, 2); PA(v, 2) = PA(v, 1); PA(v, 1) = PA(v, 0); PA(v, 0) = f;\n"
    "            P(sum) = P(sum) + f;\n"
    "            P(top) = k_max(P(top), f);\n"
    "        }\n"
    "    BLOCK_SUM(total, sum);\n"
    "    BLOCK_MAX(most, top);\n"
    "    STEP_N(1) { ST(y, bx, total); ST(y, rows + bx, most); }\n"
    "    STEP_N(n) { ST(z, bx * n + tid, PA(v, 0) - most); }\n"
    "}\n"
    "#undef PARAMS\n";

/* y[f * n + i] = f(x[i]) for all functions of one argument, then those of two and three. */
static const char body_functions[] =
    "#define PARAMS(IN, OUT, VAL, SEP) IN(float, x) SEP IN(float, w) SEP OUT(float, y) SEP VAL(i64, n)\n"
    "#define APPLY(f, k) STEP_N(n - lo) { ST(y, (k) * n + lo + tid, f(LD(x, lo + tid))); }\n"
    "#define APPLY2(f, k)"
    " STEP_N(n - lo) { ST(y, (k) * n + lo + tid, f(LD(x, lo + tid), LD(w, lo + tid))); }\n"
    "KERNEL(PARAMS)\n"
    "{\n"
    "    const i64 lo = bx * THREADS;\n"
    "    APPLY(k_exp, 0) APPLY(k_sigmoid, 1) APPLY(k_tanh, 2) APPLY(k_sin, 3) APPLY(k_cos, 4)\n"
    "    APPLY(k_log, 5) APPLY(k_sqrt, 6) APPLY(k_rsqrt, 7) APPLY(k_erf, 8) APPLY(k_relu, 9)\n"
    "    APPLY(k_abs, 10)\n"
    "    APPLY2(k_pow, 11) APPLY2(k_min, 12) APPLY2(k_max, 13)\n"
    "    STEP_N(n - lo) {\n"
    "        const float a = LD(x, lo + tid), b = LD(w, lo + tid);\n"
    "        ST(y, 14 * n + lo + tid, k_fma(a, b, -(a * b)));\n"
    "        ST(y, 15 * n + lo + tid, as_f32(as_u32(a) ^ 0x80000000u));\n"
    "        ST(y, 16 * n + lo + tid, a > b ? K_INF : K_NAN);\n"
    "    }\n"
    "}\n"
    "#undef APPLY2\n"
    "#undef APPLY\n"
    "#undef PARAMS\n";
enum { N_FUNCTIONS = 17 };

/* y[i] = table[index[i]], with 8-byte indices, and addresses read from memory. */
static const char body_gather[] =
    "#define PARAMS(IN, OUT, VAL, SEP) IN(i64, sources) SEP IN(i64, index) SEP OUT(float, y)"
    " SEP VAL(i64, n)\n"
    "KERNEL(PARAMS)\n"
    "{\n"
    "    const float *const table = (const float *)LD(sources, 0);\n"
    "    const i64 lo = bx * THREADS;\n"
    "    STEP_N(n - lo) { ST(y, lo + tid, LD(table, LD(index, lo + tid))); }\n"
    "}\n"
    "#undef PARAMS\n";

/* The functions of double: of one argument, then of two and three. */
static const char body_doubles[] =
    "#define PARAMS(IN, OUT, VAL, SEP) IN(double, x) SEP IN(double, w) SEP OUT(double, y) SEP VAL(i64, n)\n"
    "#define APPLY(f, k) STEP_N(n - lo) { ST(y, (k) * n + lo + tid, f(LD(x, lo + tid))); }\n"
    "#define APPLY2(f, k)"
    " STEP_N(n - lo) { ST(y, (k) * n + lo + tid, f(LD(x, lo + tid), LD(w, lo + tid))); }\n"
    "KERNEL(PARAMS)\n"
    "{\n"
    "    const i64 lo = bx * THREADS;\n"
    "    APPLY(d_exp, 0) APPLY(d_sigmoid, 1) APPLY(d_tanh, 2) APPLY(d_sin, 3) APPLY(d_cos, 4)\n"
    "    APPLY(d_log, 5) APPLY(d_sqrt, 6) APPLY(d_rsqrt, 7) APPLY(d_erf, 8) APPLY(d_relu, 9)\n"
    "    APPLY(d_abs, 10) APPLY(d_floor, 11) APPLY(d_ceil, 12) APPLY(d_round, 13) APPLY(d_trunc, 14)\n"
    "    APPLY(d_sign, 15)\n"
    "    APPLY2(d_pow, 16) APPLY2(d_min, 17) APPLY2(d_max, 18) APPLY2(d_floordiv, 19) APPLY2(d_mod, 20)\n"
    "    STEP_N(n - lo) {\n"
    "        const double a = LD(x, lo + tid), b = LD(w, lo + tid);\n"
    "        ST(y, 21 * n + lo + tid, d_fma(a, b, -(a * b)));\n"
    "        ST(y, 22 * n + lo + tid, a > b ? D_INF : D_NAN);\n"
    "    }\n"
    "}\n"
    "#undef APPLY2\n"
    "#undef APPLY\n"
    "#undef PARAMS\n";
enum { N_DOUBLES = 23 };

/* The functions of i64, and the roundings of float. */
static const char body_integers[] =
    "#define PARAMS(IN, OUT, VAL, SEP) IN(i64, x) SEP IN(i64, w) SEP OUT(i64, y) SEP IN(float, a) SEP IN(float, b)"
    " SEP OUT(float, c) SEP VAL(i64, n)\n"
    "#define APPLY(f, k) STEP_N(n - lo) { ST(y, (k) * n + lo + tid, f(LD(x, lo + tid))); }\n"
    "#define APPLY2(f, k)"
    " STEP_N(n - lo) { ST(y, (k) * n + lo + tid, f(LD(x, lo + tid), LD(w, lo + tid))); }\n"
    "#define APPLYF(f, k) STEP_N(n - lo) { ST(c, (k) * n + lo + tid, f(LD(a, lo + tid))); }\n"
    "#define APPLYF2(f, k)"
    " STEP_N(n - lo) { ST(c, (k) * n + lo + tid, f(LD(a, lo + tid), LD(b, lo + tid))); }\n"
    "KERNEL(PARAMS)\n"
    "{\n"
    "    const i64 lo = bx * THREADS;\n"
    "    APPLY(i_neg, 0) APPLY(i_abs, 1) APPLY(i_relu, 2) APPLY(i_sign, 3)\n"
    "    APPLY2(i_add, 4) APPLY2(i_sub, 5) APPLY2(i_mul, 6) APPLY2(i_min, 7) APPLY2(i_max, 8)\n"
    "    APPLY2(i_floordiv, 9) APPLY2(i_mod, 10)\n"
    "    APPLYF(k_floor, 0) APPLYF(k_ceil, 1) APPLYF(k_round, 2) APPLYF(k_trunc, 3) APPLYF(k_sign, 4)\n"
    "    APPLYF2(k_floordiv, 5) APPLYF2(k_mod, 6)\n"
    "}\n"
    "#undef APPLYF2\n"
    "#undef APPLYF\n"
    "#undef APPLY2\n"
    "#undef APPLY\n"
    "#undef PARAMS\n";
enum { N_INTEGERS = 11, N_ROUNDINGS = 7 };

/* Every conversion: halves to floats and back, floats to halves, integers and bools. */
static const char body_conversions[] =
    "#define PARAMS(IN, OUT, VAL, SEP) IN(u16, h) SEP OUT(float, wide) SEP IN(float, x) SEP OUT(u16, half)"
    " SEP IN(double, d) SEP OUT(i64, whole) SEP OUT(i8, byte) SEP OUT(int, word) SEP OUT(u8, flag) SEP VAL(i64, n)\n"
    "KERNEL(PARAMS)\n"
    "{\n"
    "    const i64 lo = bx * THREADS;\n"
    "    STEP_N(n - lo) { ST(wide, lo + tid, from_bf16(LD(h, lo + tid))); }\n"
    "    STEP_N(n - lo) { ST(wide, n + lo + tid, from_f16(LD(h, lo + tid))); }\n"
    "    STEP_N(n - lo) { ST(half, lo + tid, to_bf16(LD(x, lo + tid))); }\n"
    "    STEP_N(n - lo) { ST(half, n + lo + tid, to_f16(LD(x, lo + tid))); }\n"
    "    STEP_N(n - lo) { ST(whole, lo + tid, k_to_i64(LD(x, lo + tid))); }\n"
    "    STEP_N(n - lo) { ST(whole, n + lo + tid, d_to_i64(LD(d, lo + tid))); }\n"
    "    STEP_N(n - lo) {\n"
    "        const i64 v = LD(whole, n + lo + tid);\n"
    "        ST(byte, lo + tid, (i8)(v));\n"
    "        ST(word, lo + tid, (int)(v));\n"
    "        ST(flag, lo + tid, to_bool(v));\n"
    "        ST(whole, 2 * n + lo + tid, (i64)LD(byte, lo + tid) + (i64)LD(word, lo + tid) + (i64)LD(flag, lo + tid));\n"
    "    }\n"
    "}\n"
    "#undef PARAMS\n";

/* Sum and maximum of THREADS doubles and integers. */
static const char body_wide_sums[] =
    "#define PARAMS(IN, OUT, VAL, SEP) IN(double, x) SEP IN(i64, w) SEP OUT(double, y) SEP OUT(i64, z)\n"
    "KERNEL(PARAMS)\n"
    "{\n"
    "    PRIV(double, a); PRIV(i64, b);\n"
    "    STEP { P(a) = LD(x, bx * THREADS + tid); P(b) = LD(w, bx * THREADS + tid); }\n"
    "    BLOCK_SUM_D(sum, a);\n"
    "    BLOCK_MAX_D(top, a);\n"
    "    BLOCK_SUM_I(isum, b);\n"
    "    BLOCK_MAX_I(itop, b);\n"
    "    STEP_N(1) { ST(y, 2 * bx, sum); ST(y, 2 * bx + 1, top); ST(z, 2 * bx, isum); ST(z, 2 * bx + 1, itop); }\n"
    "}\n"
    "#undef PARAMS\n";

static const struct { const char *body; int threads; } bodies[] = {
    {body_guards, 96}, {body_tile, 256}, {body_rows, 32}, {body_rows, 256}, {body_rows, 1024},
    {body_functions, 128}, {body_gather, 64}, {body_doubles, 128}, {body_integers, 128}, {body_conversions, 64},
    {body_wide_sums, 32}, {body_wide_sums, 256}};
enum { N_BODIES = sizeof bodies / sizeof *bodies };

#endif
