/* SPDX-License-Identifier: Apache-2.0 */
/* Random expressions of mixed types: their printed text, compiled, gives the values that the evaluation gives, bit
 * for bit (of operators that all libraries round alike); and it is CUDA C++ too. */
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

#include "core/tensor/expr.h"
#include "tests/core/kernel/unit.h"

enum { POINTS = 96, EXPRESSIONS = 48, ROUNDS = 4 };

static const ein_dtype types[] = {EIN_I64, EIN_F32, EIN_F64};
static const char *const arguments[] = {"u", "v", "w"};

static int pick(uint64_t *seed, int n) { return (int)(draw(seed) % (uint32_t)n); }

static void write_leaf(text *t, uint64_t *seed)
{
    static const char *const leaves[] = {"x0", "x1", "x2", "x0", "x1", "x2", "2", "-1", "0.5", "0", "1e999"};
    ein__text_add(t, "%s", leaves[pick(seed, 11)]);
}

/* floordiv and mod have small operands only: large quotients are rounded, in every type differently. */
static void write_tree(text *t, uint64_t *seed, int depth)
{
    static const char *const one[] = {"neg", "abs", "sqrt", "relu", "not", "floor", "ceil", "round", "trunc",
                                      "sign"};
    static const char *const two[] = {"min", "max", "and", "or"};
    static const char *const infix[] = {"+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!="};
    const int kind = depth == 0 ? 0 : pick(seed, 12);
    const char *between = kind < 8 ? infix[pick(seed, 10)] : ",";
    if (kind == 0) {
        write_leaf(t, seed);
    } else if (kind == 1) {
        ein__text_add(t, "%s(", pick(seed, 2) != 0 ? "floordiv" : "mod");
        write_leaf(t, seed);
        ein__text_add(t, ", ");
        write_leaf(t, seed);
        ein__text_add(t, ")");
    } else if (kind == 2) {
        ein__text_add(t, "where(");
        for (int i = 0; i < 3; i++) {
            if (i > 0) ein__text_add(t, ", ");
            write_tree(t, seed, depth - 1);
        }
        ein__text_add(t, ")");
    } else if (kind > 9) {
        ein__text_add(t, "%s(", one[pick(seed, 10)]);
        write_tree(t, seed, depth - 1);
        ein__text_add(t, ")");
    } else {
        ein__text_add(t, "%s(", kind < 8 ? "" : two[pick(seed, 4)]);
        write_tree(t, seed, depth - 1);
        ein__text_add(t, " %s ", between);
        write_tree(t, seed, depth - 1);
        ein__text_add(t, ")");
    }
}

typedef struct batch {
    arena a;
    expr x[EXPRESSIONS];
    ein_dtype to[EXPRESSIONS];
    text source[EXPRESSIONS], body;
} batch;

/* Results of all types go to 8-byte places, f32 as doubles. */
static void make_batch(batch *b, uint64_t *seed)
{
    memset(b, 0, sizeof *b);
    ein__text_add(&b->body, "#define PARAMS(IN, OUT, VAL, SEP) IN(i64, x) SEP IN(float, y) SEP IN(double, z) SEP "
                            "OUT(double, d) SEP OUT(i64, i) SEP VAL(i64, n)\nKERNEL(PARAMS)\n{\n");
    for (int k = 0; k < EXPRESSIONS; k++) {
        const char *result = k % 3 == 0 ? "i" : "d";
        error e = {0};
        b->to[k] = types[k % 3];
        write_tree(&b->source[k], seed, 4);
        if (ein__expr_parse(&b->a, ein__text_get(&b->source[k]), "x", 3, NULL, 0, &b->x[k], &e) != EIN_OK)
            fail_msg("%s", e.line);
        ein__text_add(&b->body, "    STEP_N(n) {\n        const i64 u = LD(x, tid); const float v = LD(y, tid);\n"
                                "        const double w = LD(z, tid); (void)u; (void)v; (void)w;\n        ST(%s, %d * n + tid, %s",
                      result, k, k % 3 == 1 ? "(double)(" : "(");
        ein__expr_print(&b->x[k], arguments, types, b->to[k], &b->body);
        ein__text_add(&b->body, "));\n    }\n");
    }
    ein__text_add(&b->body, "}\n#undef PARAMS\n");
    assert_int_equal(ein__text_status(&b->body), EIN_OK);
}

static void drop_batch(batch *b)
{
    for (int k = 0; k < EXPRESSIONS; k++) ein__text_free(&b->source[k]);
    ein__text_free(&b->body);
    ein__arena_free(&b->a);
}

static void check(const batch *b, int k, const expr_value *args, double d, i64 i)
{
    const expr_value want = ein__expr_eval_typed(&b->x[k], args, types, b->to[k]);
    const bool same = b->to[k] == EIN_I64 ? want.i == i : want.f == d || (isnan(want.f) && isnan(d));
    if (!same)
        fail_msg("%s at %lld, %a, %a as type %d: %a or %lld, not %a or %lld", b->source[k].bytes, (long long)args[0].i,
                 args[1].f, args[2].f, (int)b->to[k], d, (long long)i, want.f, (long long)want.i);
}

static void test_text_is_evaluation(void **state)
{
    static const i64 whole[] = {0, 1, -1, 2, 7, -7, 100, -1000003};
    static const double real[] = {0.0, 1.0, -1.0, 0.5, -2.5, 3.75, -7.0, 0.1, 1e6, INFINITY, NAN};
    (void)state;
    uint64_t seed = 7;
    i64 x[POINTS], i[POINTS * EXPRESSIONS], n = POINTS, *px = x, *pi = i;
    float y[POINTS], *py = y;
    double z[POINTS], d[POINTS * EXPRESSIONS], *pz = z, *pd = d;
    for (int p = 0; p < POINTS; p++) {
        x[p] = whole[pick(&seed, 8)];
        y[p] = (float)real[pick(&seed, 11)];
        z[p] = real[pick(&seed, 11)];
    }
    for (int round = 0; round < ROUNDS; round++) {
        batch b;
        unit u;
        make_batch(&b, &seed);
        build_one(&u, b.body.bytes, 128, false);
        void *args[] = {&px, &py, &pz, &pd, &pi, &n};
        u.entry[0](args, 1, 1, 1, NULL);
        for (int k = 0; k < EXPRESSIONS; k++)
            for (int p = 0; p < POINTS; p++)
                check(&b, k, (expr_value[]){{.i = x[p]}, {.f = (double)y[p]}, {.f = z[p]}}, d[k * POINTS + p],
                      i[k * POINTS + p]);
        drop(&u);
        drop_batch(&b);
    }
}

static void test_text_is_cuda(void **state)
{
    (void)state;
    uint64_t seed = 8;
    batch b;
    kernel_text kernel;
    const kernel_text *list[] = {&kernel};
    text source = {0};
    error e = {0};
    nvrtc_result r;
    make_batch(&b, &seed);
    assert_int_equal(ein__kernel_make(&b.a, b.body.bytes, 128, &kernel), EIN_OK);
    assert_int_equal(ein__kernel_source(READ_CUDA, false, list, 1, &source), EIN_OK);
    const ein_status status = ein__nvrtc_compile(source.bytes, "sm_90", NULL, &r, &e);
    if (status != EIN_NO_DEVICE && status != EIN_OK) fail_msg("%s\n%s", e.line, e.detail);
    if (status == EIN_OK) assert_true(r.spill_bytes == 0 && r.stack_bytes == 0);
    ein__error_reset(&e);
    ein__text_free(&source);
    drop_batch(&b);
    if (status == EIN_NO_DEVICE) skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_text_is_evaluation), cmocka_unit_test(test_text_is_cuda)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
