/* SPDX-License-Identifier: Apache-2.0 */
/* Faults seeded into runs on two GPUs that are not there: each wait, record, launch and product is left out once,
 * and each kernel writes beside its place once. Every one must be found: by a report of the fake, by a status, or by
 * wrong numbers. So what the other tests over the fake do not find is not there. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "jit/library/cuda.h"
#include "tests/fake/control.h"
#include "tests/harness/each_plan.h"
#include "tests/harness/trial.h"

enum { ROWS = 4, COLUMNS = 6, FEW_TERMS = 8, MANY_TERMS = 16384, SETS = 2, SEEDS = 4 };

typedef struct subject {
    ein_graph *graph;
    char *plan;
    trial data;
    int terms;
    float *x[SETS], right[SETS][ROWS * COLUMNS], y[ROWS * COLUMNS];
    ein_context *c;
    ein_weights *w;
    ein_program *p;
    ein_run *r;
    int turn;
} subject;

static void close_subject(subject *s)
{
    ein_run_free(s->r);
    ein_program_free(s->p);
    ein_weights_free(s->w);
    ein_context_free(s->c);
    s->r = NULL;
    s->p = NULL;
    s->w = NULL;
    s->c = NULL;
}

/* Numbers of one set after those of the other, so that what is left of the last run is wrong in this one. */
static ein_status run(subject *s)
{
    s->turn = (s->turn + 1) % SETS;
    memset(s->y, 0x7f, sizeof s->y);
    assert_int_equal(ein_run_input(s->r, "x", s->x[s->turn], (size_t)(ROWS * s->terms) * sizeof(float)), EIN_OK);
    assert_int_equal(ein_run_output(s->r, "y", s->y, sizeof s->y), EIN_OK);
    return ein_run_once(s->r);
}

static bool is_right(const subject *s) { return memcmp(s->y, s->right[s->turn], sizeof s->y) == 0; }

static void open_subject(subject *s, const char *machine)
{
    s->c = open_context(machine, NULL);
    assert_int_equal(ein_weights_create(&s->w, s->c), EIN_OK);
    trial_add_weights(&s->data, s->w);
    s->p = compile_program(
        s->c, s->graph, &(ein_compile_options){.size = sizeof(ein_compile_options), .weights = s->w, .plan = s->plan});
    assert_int_equal(ein_run_create(&s->r, s->p), EIN_OK);
}

/* A run before, so that memory, algorithms and (with graphs) the graph are there. */
static void open_warm(subject *s, const char *settings)
{
    fake_configure(settings);
    open_subject(s, "cuda:2");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run(s), EIN_OK);
        assert_true(is_right(s));
    }
    assert_string_equal(fake_reports(), "");
}

/* y = silu(x w') w2', the first sum cut in two, the second product by rows. */
static void make(subject *s, int terms)
{
    plan_draft d;
    memset(s, 0, sizeof *s);
    s->terms = terms;
    assert_int_equal(ein_graph_create(&s->graph), EIN_OK);
    ein_graph *g = s->graph;
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(ROWS, terms)),
               w = ein_parameter(g, "w", EIN_F32, SHAPE(COLUMNS, terms));
    ein_tensor v = ein_parameter(g, "v", EIN_F32, SHAPE(COLUMNS, COLUMNS));
    ein_output(g, "y", ein_linear(g, ein_silu(g, ein_linear(g, x, w, NONE)), v, NONE));
    draft_make(&d, g, 2);
    draft_cut(&d, "linear", 0, "k", (int[]){2}, NULL);
    draft_cut(&d, "linear", 1, "n", (int[]){2}, NULL);
    s->plan = draft_text(&d);
    trial_make(&s->data, g);
    for (int i = 0; i < SETS; i++) {
        s->x[i] = calloc((size_t)(ROWS * terms), sizeof(float));
        assert_non_null(s->x[i]);
        for (int k = 0; k < ROWS * terms; k++) s->x[i][k] = (float)((k * (3 + 2 * i) + i) % 7 - 3) * 0.25f;
    }
    open_subject(s, "host:2");
    for (int i = 0; i < SETS; i++) {
        assert_int_equal(run(s), EIN_OK);
        memcpy(s->right[s->turn], s->y, sizeof s->y);
    }
    close_subject(s);
}

static void drop(subject *s)
{
    close_subject(s);
    trial_free(&s->data);
    ein__text_free(&(text){.bytes = s->plan});
    ein_graph_free(s->graph);
    for (int i = 0; i < SETS; i++) free(s->x[i]);
}

typedef struct found {
    int seeded, reports, statuses, missed;
    char last[160]; /* that was missed */
} found;

/* One run with the fault that is armed, and the end of all, for which what nobody waited for is done too. */
static void run_with_fault(subject *s, const char *settings, const char *what, long k, found *f)
{
    const ein_status status = run(s);
    const bool right = is_right(s);
    if (!fake_failed()) fail_msg("%s %ld was not reached", what, k);
    fake_fail(NULL, 0, 0);
    close_subject(s);
    const bool reported = fake_reports()[0] != 0;
    f->seeded++;
    f->reports += reported;
    f->statuses += status != EIN_OK;
    if (!reported && status == EIN_OK && right) {
        f->missed++;
        snprintf(f->last, sizeof f->last, "%s: %s %ld", settings, what, k);
    }
    open_warm(s, settings);
}

static long count_in_run(subject *s, const char *call)
{
    const long before = fake_calls(call);
    assert_int_equal(run(s), EIN_OK);
    return fake_calls(call) - before;
}

static found leave_out_each(subject *s, const char *settings, const char *call)
{
    found f = {0};
    open_warm(s, settings);
    const long n = count_in_run(s, call);
    for (long k = 1; k <= n; k++) {
        fake_drop(call, k);
        run_with_fault(s, settings, call, k, &f);
    }
    close_subject(s);
    return f;
}

/* With peers that reach each other, and with none. */
static void each_seed(subject *s, const char *call, const char *peers, bool all_reported)
{
    int seeded = 0, missed = 0;
    for (int seed = 1; seed <= SEEDS; seed++) {
        char settings[96];
        snprintf(settings, sizeof settings, "devices=2 memory=64m check=1 peers=%s seed=%d", peers, seed);
        found f = leave_out_each(s, settings, call);
        if (all_reported) assert_int_equal(f.reports, f.seeded);
        /* Where the process does not wait it may read outputs that are there by chance. */
        if (f.missed > 0 && strcmp(call, "cuStreamSynchronize") != 0) fail_msg("nothing is wrong without %s", f.last);
        missed += f.missed;
        seeded += f.seeded;
    }
    assert_true(missed < seeded);
}

static void missing_order(void **state)
{
    for (int i = 0; i < 2; i++) {
        each_seed(*state, "cuStreamWaitEvent", i == 0 ? "all" : "none", true);
        each_seed(*state, "cuEventRecord", i == 0 ? "all" : "none", true);
    }
}

static void missing_work(void **state)
{
    each_seed(*state, "cuLaunchKernel", "all", false);
    each_seed(*state, "cublasLtMatmul", "all", false);
    each_seed(*state, "cuStreamSynchronize", "all", false);
    each_seed(*state, "cuLaunchKernel", "none", false); /* kernels bring sums by way of the process's memory */
}

/* Beside its place, and so far off that there is no memory. */
static void stores_elsewhere(void **state)
{
    static const long long shifts[] = {4, -4, 1 << 20, 1 << 30};
    subject *s = *state;
    const char *settings = "devices=2 memory=64m check=1 seed=3";
    for (size_t i = 0; i < sizeof shifts / sizeof *shifts; i++) {
        found f = {0};
        open_warm(s, settings);
        const long n = count_in_run(s, "cuLaunchKernel");
        for (long k = 1; k <= n; k++) {
            fake_shift(k, shifts[i]);
            run_with_fault(s, settings, "a shift of kernel", k, &f);
        }
        if (f.missed > 0) fail_msg("nothing is wrong with %s", f.last);
        if (shifts[i] == 1 << 30) assert_int_equal(f.statuses, f.seeded);
        close_subject(s);
    }
}

/* The library fills what it takes with zeros. Without that, and without the kernel that writes a buffer, the next one
 * reads what nobody wrote. Buffers are so large that each has memory of its own. */
static void unwritten_buffers(void **state)
{
    static const char *const settings = "devices=2 memory=8m granularity=64k check=1 seed=1";
    subject s;
    int seen = 0;
    (void)state;
    make(&s, MANY_TERMS);
    fake_configure(settings);
    open_subject(&s, "cuda:2");
    ein_run_free(s.r);
    const long before = fake_calls("cuMemsetD8Async");
    assert_int_equal(ein_run_create(&s.r, s.p), EIN_OK);
    const long n = fake_calls("cuMemsetD8Async") - before;
    assert_true(n >= 2);
    for (long j = 1; j <= n; j++) {
        close_subject(&s);
        fake_configure(settings);
        open_subject(&s, "cuda:2");
        ein_run_free(s.r);
        fake_drop("cuMemsetD8Async", j);
        assert_int_equal(ein_run_create(&s.r, s.p), EIN_OK);
        assert_true(fake_failed());
        fake_drop("cuLaunchKernel", 1);
        run(&s);
        seen += strstr(fake_reports(), "reads what nobody wrote") != NULL;
    }
    assert_true(seen > 0);
    drop(&s);
}

static int setup(void **state)
{
    static subject s;
    make(&s, FEW_TERMS);
    *state = &s;
    return 0;
}

static int teardown(void **state)
{
    drop(*state);
    return ein__alloc_live() == 0 ? 0 : 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_order),
        cmocka_unit_test(missing_work),
        cmocka_unit_test(stores_elsewhere),
        cmocka_unit_test(unwritten_buffers),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
