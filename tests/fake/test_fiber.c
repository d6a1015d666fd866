/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of fault, seeded in small kernels, is found in its line; the same kernels without it are clean. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/kernel/dialect.h"
#include "tests/fake/fiber.h"

enum { THREADS = 64, BLOCKS = 3, N = 4 * THREADS * BLOCKS, GAP = 64, SEEDS = 20 };

/* ---- kernels with a fault ---- */

#define PARAMS_ "#define PARAMS(IN, OUT, VAL, SEP) IN(float, x) SEP OUT(float, y) SEP VAL(i64, n)\n"
#define BODY(text) PARAMS_ "KERNEL(PARAMS)\n{\n    const i64 at = bx * THREADS;\n" text "}\n#undef PARAMS\n"

/* Where n is 1 it has the fault, in one of the two lines; where n is 0, none. */
typedef struct fault {
    const char *what;
    fiber_fault kind;
    int line, or_line;
    const char *body;
} fault;

static const fault faults[] = {
    {"missing barrier", FIBER_RACE, 7, 9,
     BODY("    SHARED(float, s, THREADS);\n"
          "    PHASE { s[tid] = 0.0f; }\n"
          "    STEP { s[tid] = LD(x, at + tid); }\n"
          "    if (n == 0) SYNC;\n"
          "    STEP { ST(y, at + tid, s[THREADS - 1 - tid]); }\n")},
    {"a collective is no barrier", FIBER_RACE, 8, 11,
     BODY("    SHARED(float, s, THREADS);\n"
          "    PHASE { s[tid] = 0.0f; }\n"
          "    PRIV(float, v);\n"
          "    STEP { s[tid] = P(v) = LD(x, at + tid); }\n"
          "    if (n == 0) SYNC;\n"
          "    BLOCK_SUM(sum, v);\n"
          "    STEP { ST(y, at + tid, sum * s[THREADS - 1 - tid]); }\n")},
    {"uniform read, overwritten", FIBER_RACE, 7, 9,
     BODY("    SHARED(float, s, THREADS);\n"
          "    PHASE { s[tid] = LD(x, at + tid); }\n"
          "    const float first = s[0];\n"
          "    if (n == 0) SYNC;\n"
          "    STEP { s[tid] = first; ST(y, at + tid, s[tid]); }\n")},
    {"barrier that some threads miss", FIBER_DIVERGENCE, 7, 7,
     BODY("    i64 go = n;\n"
          "    STEP { if (tid == 5) go = 0; }\n"
          "    if (go) SYNC;\n"
          "    STEP { ST(y, at + tid, 1.0f); }\n")},
    {"different barriers", FIBER_DIVERGENCE, 7, 8,
     BODY("    i64 go = n;\n"
          "    STEP { if (tid == 5) go = 0; }\n"
          "    if (go) { PHASE { ST(y, at + tid, 1.0f); } }\n"
          "    else { PHASE { ST(y, at + tid, 1.0f); } }\n")},
    {"collective that some threads miss", FIBER_DIVERGENCE, 9, 9,
     BODY("    i64 go = n;\n"
          "    PRIV(float, v);\n"
          "    STEP { P(v) = 1.0f; if (tid == 40) go = 0; }\n"
          "    if (go) {\n"
          "        BLOCK_MAX(top, v); STEP { ST(y, at + tid, top); } }\n")},
    {"loops of different length", FIBER_DIVERGENCE, 8, 9,
     BODY("    i64 turns = 1;\n"
          "    STEP { if (tid == 5) turns += n; }\n"
          "    for (i64 i = 0; i < turns; i++)\n"
          "        STEP { ST(y, at + tid, (float)i); }\n"
          "    PHASE { ST(y, at + tid, 1.0f); }\n")},
    {"different ways without a barrier", FIBER_DIVERGENCE, 7, 8,
     BODY("    i64 go = n;\n"
          "    STEP { if (tid == 5) go = 0; }\n"
          "    if (go) STEP { ST(y, at + tid, 1.0f); }\n"
          "    STEP { ST(y, at + tid, 2.0f); }\n")},
    {"a thread that leaves", FIBER_DIVERGENCE, 5, 6,
     BODY("    STEP { if (n && tid == 9) return; }\n"
          "    PHASE { ST(y, at + tid, 1.0f); }\n")},
    {"a way out of a phase", FIBER_DIVERGENCE, 5, 6,
     BODY("    PHASE { if (n && tid == 9) break; }\n"
          "    PHASE { ST(y, at + tid, 1.0f); }\n")},
    {"store past the end", FIBER_BOUNDS, 5, 5,
     BODY("    STEP { ST(y, n ? at * 4 + 4 * tid + 4 : at + tid, 1.0f); }\n")},
    {"load before the start", FIBER_BOUNDS, 5, 5,
     BODY("    STEP { ST(y, at + tid, LD(x, at + tid - n)); }\n")},
    {"load without LD", FIBER_BOUNDS, 5, 5,
     BODY("    const float last = x[n ? 4 * 3 * THREADS : 0];\n"
          "    STEP { ST(y, at + tid, last); }\n")},
    {"store to what is only read", FIBER_BOUNDS, 5, 5,
     BODY("    STEP { ST(n ? (float *)x : y, at + tid, 1.0f); }\n")},
    {"shared store past the end", FIBER_BOUNDS, 7, 7,
     BODY("    SHARED(float, s, THREADS);\n"
          "    SHARED(float, t, THREADS);\n"
          "    PHASE { s[tid + n] = LD(x, at + tid); t[tid] = 0.0f; }\n"
          "    STEP { ST(y, at + tid, s[tid] + t[tid]); }\n")},
    {"shared load before the start", FIBER_BOUNDS, 7, 7,
     BODY("    SHARED(float, s, THREADS);\n"
          "    PHASE { s[tid] = LD(x, at + tid); }\n"
          "    STEP { ST(y, at + tid, s[tid - n]); }\n")},
    {"too much shared memory", FIBER_BOUNDS, 5, 6,
     BODY("    STEP { ST(y, at + tid, 1.0f); }\n"
          "    if (n) { SHARED(float, s, 12289); STEP { s[tid] = 1.0f; } }\n")},
    {"misaligned load of 16 bytes", FIBER_MISALIGNED, 6, 6,
     BODY("    typedef struct { float v[4]; } __attribute__((aligned(16))) vec;\n"
          "    STEP_N(16) { const vec v = LD((const vec *)(x + n), tid); ST(y, at + tid, v.v[0]); }\n")},
    {"misaligned store of 16 bytes", FIBER_MISALIGNED, 6, 6,
     BODY("    typedef struct { float v[4]; } __attribute__((aligned(16))) vec;\n"
          "    STEP_N(16) { const vec v = LD((const vec *)x, tid); ST((vec *)(y + at + 2 * n), tid, v); }\n")},
    {"read of unwritten shared memory", FIBER_UNWRITTEN, 7, 7,
     BODY("    SHARED(float, s, THREADS);\n"
          "    PHASE_N(THREADS - n) { s[tid] = LD(x, at + tid); }\n"
          "    STEP { ST(y, at + tid, s[tid]); }\n")},
    {"read of unwritten memory", FIBER_UNWRITTEN, 5, 5,
     BODY("    STEP { ST(y, at + tid, n ? LD(y, 3 * THREADS + at + tid) : 1.0f); }\n")},
    {"overlapping stores of two blocks", FIBER_RACE, 5, 5,
     BODY("    STEP { ST(y, (n ? 0 : at) + tid, 1.0f); }\n")},
    {"a block reads what another writes", FIBER_RACE, 5, 6,
     BODY("    PHASE { ST(y, at + tid, 1.0f); }\n"
          "    STEP { ST(y, at + tid, LD(y, (n ? 0 : at) + tid)); }\n")},
    {"overlapping stores in one phase", FIBER_RACE, 5, 5,
     BODY("    STEP { ST(y, at + (n ? tid / 2 : tid), 1.0f); }\n")},
    {"a thread reads what its neighbour writes", FIBER_RACE, 6, 6,
     BODY("    PHASE { ST(y, at + tid, 1.0f); }\n"
          "    STEP { ST(y, at + tid, LD(y, at + (n ? tid ^ 1 : tid))); }\n")},
};
enum { N_FAULTS = sizeof faults / sizeof *faults };

/* ---- running ---- */

typedef struct rig {
    arena a;
    fiber_module *module;
    kernel_text kernels[N_FAULTS];
    fiber_space *space;
    int line;
    float *x, *y;
} rig;

static void compile(rig *r, const char *const *bodies, int n)
{
    const kernel_text *list[N_FAULTS];
    text source = {0}, object = {0};
    error e = {0};
    for (int i = 0; i < n; i++) {
        assert_int_equal(ein__kernel_make(&r->a, bodies[i], THREADS, &r->kernels[i]), EIN_OK);
        list[i] = &r->kernels[i];
    }
    assert_int_equal(ein__kernel_source(READ_CUDA, false, list, n, &source), EIN_OK);
    ein_status status = fiber_compile(source.bytes, &object, &e);
    if (status == EIN_NO_DEVICE) {
        print_message("skipped: %s\n", e.line);
        exit(77);
    }
    if (status != EIN_OK) fail_msg("%s\n%s", e.line, e.detail);
    if (fiber_load(object.bytes, object.n, &r->module, &e) != EIN_OK) fail_msg("%s", e.line);
    ein__text_free(&source);
    ein__text_free(&object);
}

/* x holds 0, 1, ..; y counts as written or not. */
static void begin(rig *r, bool written)
{
    r->space = fiber_space_create();
    r->x = ein__aligned(64, (2 * N + 3 * GAP) * sizeof *r->x);
    assert_true(r->space != NULL && r->x != NULL);
    r->x += GAP;
    r->y = r->x + N + GAP;
    for (int i = 0; i < N; i++) r->x[i] = (float)i;
    assert_true(fiber_memory_add(r->space, r->x, N * sizeof *r->x, 3, 0, true));
    assert_true(fiber_memory_add(r->space, r->y, N * sizeof *r->y, 3, 3, written));
    r->line = fiber_line_add(r->space);
}

static void end(rig *r)
{
    fiber_space_free(r->space);
    ein__free(r->x - GAP);
}

static fiber_report run_on(rig *r, int kernel, int line, int64_t n, uint64_t seed)
{
    fiber_report report;
    void *args[] = {&r->x, &r->y, &n};
    fiber_launch l = {.line = line, .grid = {BLOCKS, 1, 1}, .args = args, .seed = seed};
    l.entry = fiber_find(r->module, r->kernels[kernel].name, &l.threads);
    assert_non_null(l.entry);
    assert_int_equal(l.threads, THREADS);
    const bool clean = fiber_run(r->space, &l, &report);
    assert_int_equal(clean, report.fault == FIBER_CLEAN);
    return report;
}

/* Whatever the order of threads and blocks. */
static void test_faults(void **state)
{
    (void)state;
    static rig r;
    const char *bodies[N_FAULTS];
    for (int i = 0; i < N_FAULTS; i++) bodies[i] = faults[i].body;
    compile(&r, bodies, N_FAULTS);
    for (int i = 0; i < N_FAULTS; i++)
        for (uint64_t seed = 0; seed < SEEDS; seed++)
            for (int n = 0; n < 2; n++) {
                const fault *f = &faults[i];
                begin(&r, f->kind != FIBER_UNWRITTEN);
                const fiber_report report = run_on(&r, i, r.line, n, seed);
                const fiber_fault want = n ? f->kind : FIBER_CLEAN;
                bool right = report.fault == want;
                if (n) right = right && (report.line == f->line || report.line == f->or_line);
                if (n) right = right && strcmp(report.kernel, r.kernels[i].name) == 0;
                if (!right)
                    fail_msg("%s, n %d, seed %d: %s in line %d of %s: %s", f->what, n, (int)seed,
                             fiber_fault_name(report.fault), report.line, report.kernel, report.message);
                if (getenv("FIBER_VERBOSE") != NULL && n && seed == 0)
                    print_message("%s: %s, line %d: %s\n", f->what, fiber_fault_name(report.fault), report.line,
                                  report.message);
                end(&r);
            }
    fiber_unload(r.module);
    ein__arena_free(&r.a);
}

/* ---- order between launches ---- */

/* Writes y; copies the first half of y to the second. */
static const char write_body[] = BODY("    STEP_N(n - at) { ST(y, at + tid, LD(x, at + tid)); }\n");
static const char copy_body[] = BODY("    STEP_N(n - at) { ST(y, n + at + tid, LD(y, at + tid)); }\n");
enum { WRITE, COPY, HALF = BLOCKS * THREADS };

static void begin_order(rig *r, int *other)
{
    memset(r, 0, sizeof *r);
    compile(r, (const char *const[]){write_body, copy_body}, 2);
    begin(r, false);
    *other = fiber_line_add(r->space);
}

static void end_order(rig *r)
{
    end(r);
    fiber_unload(r->module);
    ein__arena_free(&r->a);
}

/* The second line reads what the first one wrote, and the first one writes that again: each needs the other's clock. */
static void test_lines(void **state)
{
    (void)state;
    for (int missing = -1; missing < 2; missing++) {
        rig r;
        int other;
        fiber_clock written = {{0}}, read = {{0}};
        begin_order(&r, &other);
        assert_int_equal(run_on(&r, WRITE, r.line, HALF, 1).fault, FIBER_CLEAN);
        fiber_release(r.space, r.line, &written);
        if (missing != 0) fiber_acquire(r.space, other, &written);
        fiber_report report = run_on(&r, COPY, other, HALF, 2);
        assert_int_equal(report.fault, missing == 0 ? FIBER_RACE : FIBER_CLEAN);
        if (missing != 0) {
            fiber_release(r.space, other, &read);
            if (missing != 1) fiber_acquire(r.space, r.line, &read);
            report = run_on(&r, WRITE, r.line, HALF, 3);
            assert_int_equal(report.fault, missing == 1 ? FIBER_RACE : FIBER_CLEAN);
            if (missing == 1) assert_non_null(strstr(report.message, r.kernels[COPY].name));
        }
        end_order(&r);
    }
}

/* A clock carries what its line knew of others, and nothing that came after its release. */
static void test_clocks(void **state)
{
    (void)state;
    rig r;
    int other;
    fiber_clock first = {{0}}, second = {{0}};
    fiber_report report;
    begin_order(&r, &other);
    const int third = fiber_line_add(r.space);
    fiber_release(r.space, r.line, &first);
    assert_int_equal(run_on(&r, WRITE, r.line, HALF, 1).fault, FIBER_CLEAN);
    fiber_acquire(r.space, other, &first); /* before the launch */
    assert_false(fiber_access(r.space, other, 0, r.y, 4, false, &report));
    assert_int_equal(report.fault, FIBER_RACE);
    fiber_release(r.space, r.line, &first);
    fiber_acquire(r.space, other, &first);
    assert_true(fiber_access(r.space, other, 0, r.y, 4, false, &report));
    fiber_release(r.space, other, &second); /* by way of the second line */
    fiber_acquire(r.space, third, &second);
    assert_true(fiber_access(r.space, third, 0, r.y, 4 * HALF, true, &report));
    while (fiber_line_add(r.space) >= 0) {}
    end_order(&r);
}

/* Copies of the driver: bounds, devices, and what was never written. */
static void test_accesses(void **state)
{
    (void)state;
    rig r;
    int other;
    fiber_report report;
    begin_order(&r, &other);
    char *y = (char *)r.y;
    assert_true(fiber_access(r.space, r.line, 0, y, 16, true, &report));
    assert_true(fiber_access(r.space, r.line, 1, y, 16, false, &report));
    assert_false(fiber_access(r.space, r.line, 0, y, 17, false, &report));
    assert_int_equal(report.fault, FIBER_UNWRITTEN);
    assert_false(fiber_access(r.space, r.line, 0, y + 16, sizeof(float) * N - 15, true, &report));
    assert_int_equal(report.fault, FIBER_BOUNDS);
    assert_false(fiber_access(r.space, r.line, 2, y, 16, false, &report));
    assert_int_equal(report.fault, FIBER_BOUNDS);
    assert_false(fiber_access(r.space, r.line, 0, r.x, 4, true, &report));
    assert_int_equal(report.fault, FIBER_BOUNDS);
    fiber_memory_remove(r.space, y);
    assert_false(fiber_access(r.space, r.line, 0, y, 16, false, &report));
    assert_int_equal(report.fault, FIBER_BOUNDS);
    assert_true(fiber_memory_add(r.space, y, 16, 1, 1, false)); /* its history is gone */
    assert_false(fiber_access(r.space, r.line, 0, y, 1, false, &report));
    assert_int_equal(report.fault, FIBER_UNWRITTEN);
    end_order(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_faults), cmocka_unit_test(test_lines),
                                       cmocka_unit_test(test_clocks), cmocka_unit_test(test_accesses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
