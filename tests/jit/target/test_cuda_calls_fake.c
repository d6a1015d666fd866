/* SPDX-License-Identifier: Apache-2.0 */
/* Two ops on two GPUs that are not there: every call of the driver, of NVRTC and of cuBLASLt fails once, in a first run
 * and in a warm one. Each time there is a status whose line names the code, nothing is left, and the next attempt
 * works. */
#define _POSIX_C_SOURCE 200809L
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
#include "jit/library/cublaslt.h"
#include "jit/library/nvrtc.h"
#include "tests/fake/control.h"
#include "tests/harness/each_plan.h"
#include "tests/harness/trial.h"

enum { ROWS = 4, COLUMNS = 6, TERMS = 8, TOO_LONG = 300 };

typedef struct pair_of_ops {
    ein_graph *graph;
    char *plan;
    trial data;
    float right[ROWS * COLUMNS], y[ROWS * COLUMNS];
    char line[512]; /* of the attempt that failed last */
    bool ran;
    ein_status again; /* of its second run, where the first one failed */
} pair_of_ops;

/* y = silu(x w'), the sum cut in two. */
static void make(pair_of_ops *x)
{
    plan_draft d;
    memset(x, 0, sizeof *x);
    assert_int_equal(ein_graph_create(&x->graph), EIN_OK);
    ein_graph *g = x->graph;
    ein_tensor in = ein_input(g, "x", EIN_F32, SHAPE(ROWS, TERMS)),
               w = ein_parameter(g, "w", EIN_F32, SHAPE(COLUMNS, TERMS));
    ein_output(g, "y", ein_silu(g, ein_linear(g, in, w, NONE)));
    draft_make(&d, g, 2);
    draft_cut(&d, "linear", 0, "k", (int[]){2}, NULL);
    x->plan = draft_text(&d);
    trial_make(&x->data, g);
}

static void drop(pair_of_ops *x)
{
    trial_free(&x->data);
    ein__text_free(&(text){.bytes = x->plan});
    ein_graph_free(x->graph);
}

/* From nothing to one run, and all away again. */
static ein_status attempt(pair_of_ops *x, const char *machine, const char *cache)
{
    ein_context *c = NULL;
    ein_weights *w = NULL;
    ein_program *p = NULL;
    ein_run *r = NULL;
    ein_context_options how = {.size = sizeof how,
                               .machine = machine,
                               .cache_dir = cache,
                               .no_cache = cache == NULL,
                               .message = x->line,
                               .message_bytes = sizeof x->line};
    x->ran = false;
    x->again = EIN_OK;
    memset(x->line, 0, sizeof x->line);
    memset(x->y, 0x7f, sizeof x->y);
    ein_status s = ein_context_create(&c, &how);
    if (s != EIN_OK) {
        ein_context_free(c);
        return s;
    }
    s = ein_weights_create(&w, c);
    if (s == EIN_OK) trial_add_weights(&x->data, w);
    if (s == EIN_OK)
        s = ein_compile(&p, c, x->graph,
                        &(ein_compile_options){.size = sizeof(ein_compile_options), .weights = w, .plan = x->plan});
    if (s == EIN_OK) s = ein_run_create(&r, p);
    if (s != EIN_OK) snprintf(x->line, sizeof x->line, "%s %.200s", ein_context_error(c), ein_context_detail(c));
    if (s == EIN_OK) {
        trial_bind(&x->data, r);
        assert_int_equal(ein_run_output(r, "y", x->y, sizeof x->y), EIN_OK);
        s = ein_run_once(r);
        x->ran = true;
        if (s != EIN_OK) snprintf(x->line, sizeof x->line, "%s", ein_run_error(r));
        x->again = s != EIN_OK ? ein_run_once(r) : EIN_OK;
    }
    ein_run_free(r);
    ein_program_free(p);
    ein_weights_free(w);
    ein_context_free(c);
    return s;
}

/* The name of a code of whichever library the call is of. */
static const char *name_of(const char *call, int code)
{
    static const struct {
        int code;
        const char *name;
    } names[] = {{2, "CUDA_ERROR_OUT_OF_MEMORY"}, {999, "CUDA_ERROR_UNKNOWN"}, {801, "CUDA_ERROR_NOT_SUPPORTED"}};
    if (strncmp(call, "nvrtc", 5) == 0) return "NVRTC";
    if (strncmp(call, "cublasLt", 8) == 0) return "CUBLAS_STATUS";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == code) return names[i].name;
    return "?";
}

static int code_for(const char *call, int wanted)
{
    if (strncmp(call, "nvrtc", 5) == 0) return NVRTC_ERROR_OUT_OF_MEMORY;
    if (strncmp(call, "cublasLt", 8) == 0) return CUBLAS_STATUS_INTERNAL_ERROR;
    return wanted;
}

static void nothing_wrong(const char *call, long k)
{
    if (fake_leaks()[0] != 0) fail_msg("call %ld, %s, failed: left\n%s", k, call, fake_leaks());
    if (fake_reports()[0] != 0) fail_msg("call %ld, %s, failed:\n%s", k, call, fake_reports());
}

static void check_right(const pair_of_ops *x) { assert_memory_equal(x->y, x->right, sizeof x->y); }

/* The k-th call of an attempt fails. True: it came to that. */
static bool fail_call(pair_of_ops *x, const char *cache, const char *call, long k, int code)
{
    const long live = ein__alloc_live();
    alarm(TOO_LONG);
    fake_fail(NULL, k, code);
    const ein_status s = attempt(x, "cuda:2", cache);
    const bool happened = fake_failed() != 0;
    fake_fail(NULL, 0, 0);
    alarm(0);
    if (ein__alloc_live() != live)
        fail_msg("call %ld, %s, failed: %ld allocations are left", k, call, ein__alloc_live() - live);
    nothing_wrong(call, k);
    if (x->ran && x->again == EIN_OK) check_right(x);
    if (s != EIN_OK && s != EIN_NO_DEVICE_MEMORY && s != EIN_NO_MEMORY && strstr(x->line, name_of(call, code)) == NULL)
        fail_msg("call %ld, %s = %d: %s: %s", k, call, code, ein_status_name(s), x->line);
    if (code == CUDA_ERROR_OUT_OF_MEMORY && x->again != EIN_OK)
        fail_msg("call %ld, %s: the run after it says %s", k, call, ein_status_name(x->again));
    return happened;
}

/* Every call of a first attempt, or of one that finds the program in the cache. */
static void fail_each(pair_of_ops *x, bool warm, int wanted)
{
    char *cache = make_directory();
    fake_configure("devices=2 seed=3 memory=64m");
    if (warm) assert_int_equal(attempt(x, "cuda:2", cache), EIN_OK);
    const long before = fake_calls(NULL);
    assert_int_equal(attempt(x, "cuda:2", warm ? cache : NULL), EIN_OK);
    const long n = fake_calls(NULL) - before;
    const char **names = calloc((size_t)n, sizeof *names);
    assert_non_null(names);
    for (long k = 0; k < n; k++) names[k] = fake_call(before + k + 1);
    long happened = 0;
    for (long k = 1; k <= n; k++)
        happened += fail_call(x, warm ? cache : NULL, names[k - 1], k, code_for(names[k - 1], wanted));
    assert_true(happened >= n - 4); /* compilers run side by side: their calls differ a little */
    assert_int_equal(attempt(x, "cuda:2", cache), EIN_OK);
    check_right(x);
    free(names);
    remove_directory(cache);
}

static void each_call_fails(void **state)
{
    pair_of_ops x;
    (void)state;
    make(&x);
    assert_int_equal(attempt(&x, "host:2", NULL), EIN_OK);
    memcpy(x.right, x.y, sizeof x.right);
    for (int warm = 0; warm < 2; warm++)
        for (int i = 0; i < 2; i++) fail_each(&x, warm != 0, i == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN);
    drop(&x);
    assert_int_equal(ein__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_call_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
