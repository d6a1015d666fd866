/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA target on GPUs that are not there: whole programs on several devices, with every access looked up. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/graph/canonical.h"
#include "jit/context.h"
#include "jit/target/cuda.h"
#include "jit/target/cuda_target.h"
#include "tests/fake/control.h"
#include "tests/harness/check_program.h"
#include "tests/harness/random_plan.h"
#include "tests/harness/small_llama.h"
#include "tests/harness/trial.h"

static long from_environment(const char *name, long otherwise)
{
    const char *s = getenv(name);
    return s != NULL && s[0] != 0 ? strtol(s, NULL, 10) : otherwise;
}

/* ---- random programs ---------------------------------------------------------------------------------- */

static const char *const PEERS[] = {"all", "none", "one-way", "0>1,1>2", "lose-writes", "read-stale", "0>1,1>0w,2>0"};
enum { MOST_DEVICES = 5, N_PEERS = sizeof PEERS / sizeof *PEERS };

/* A random graph under a random plan, on up to 5 devices of 1 to 3 GPUs. */
static void check_seed(uint64_t seed, bool fibers)
{
    random_graph r;
    graph g = {.nodes = {0}};
    arena a = {NULL};
    plan p;
    text json = {0}, why = {0};
    char machine[16], settings[100];
    int devices = 1 + (int)(seed % MOST_DEVICES), gpus = 1 + (int)(seed / 2 % 3);
    snprintf(settings, sizeof settings, "devices=%d peers=%s seed=%d check=1 memory=256m fibers=%d", gpus,
             PEERS[seed % N_PEERS], (int)seed, fibers);
    snprintf(machine, sizeof machine, "cuda:%d", devices);
    fake_configure(settings);
    assert_int_equal(random_graph_make(seed, 1 + (int)(seed % 9), &r), EIN_OK);
    assert_int_equal(ein__canonicalize(&r.graph->g, &g, NULL), EIN_OK);
    assert_int_equal(random_plan_make(&a, &g, seed, devices, NULL, &p), EIN_OK);
    assert_int_equal(ein__plan_print(&g, &p, &json), EIN_OK);
    program_case c = {.machine = machine, .graph = &r, .plan = json.bytes};
    setenv("EIN_GRAPHS", seed / 3 % 2 == 0 ? "1" : "0", 1); /* second and later runs as graphs */
    if (!check_program(&c, &why))
        fail_msg("EIN_SEED=%d %s %s: %s\n%s\n%s", (int)seed, machine, settings, why.bytes, fake_reports(), json.bytes);
    if (fake_reports()[0] != 0) fail_msg("EIN_SEED=%d %s %s:\n%s", (int)seed, machine, settings, fake_reports());
    if (fake_leaks()[0] != 0) fail_msg("EIN_SEED=%d %s %s: left:\n%s", (int)seed, machine, settings, fake_leaks());
    ein__text_free(&json);
    ein__text_free(&why);
    ein__arena_free(&a);
    ein__arena_free(&g.arena);
    random_graph_free(&r);
    unsetenv("EIN_GRAPHS");
    assert_int_equal(ein__alloc_live(), 0);
}

static void random_programs(void **state)
{
    (void)state;
    bool one = getenv("EIN_SEED") != NULL;
    long first = from_environment("EIN_SEED", 1), n = from_environment("EIN_CASES", one ? 1 : 18);
    for (long i = 0; i < n; i++) check_seed((uint64_t)(first + i), false);
}

/* The same with a fiber for each thread: no race inside of a launch, either. EIN_CASES_FIBERS of them. */
static void random_programs_by_fibers(void **state)
{
    (void)state;
    long first = from_environment("EIN_SEED", 101), n = from_environment("EIN_CASES_FIBERS", 1);
    for (long i = 0; i < n; i++) check_seed((uint64_t)(first + i), true);
}

/* ---- what the machine is ------------------------------------------------------------------------------ */

static ein_context *open_cuda(const char *machine, const char *cache)
{
    char message[256] = "";
    ein_context *c = NULL;
    ein_context_options o = {.size = sizeof o, .machine = machine, .cache_dir = cache, .no_cache = cache == NULL,
                             .message = message, .message_bytes = sizeof message};
    if (ein_context_create(&c, &o) != EIN_OK) fail_msg("%s: %s", machine, message);
    return c;
}

static void refused(const char *machine, ein_status want, const char *says)
{
    char message[256] = "";
    ein_context *c = NULL;
    ein_context_options o = {.size = sizeof o, .machine = machine, .no_cache = 1, .message = message,
                             .message_bytes = sizeof message};
    assert_int_equal(ein_context_create(&c, &o), want);
    if (strstr(message, says) == NULL) fail_msg("\"%s\" is not in \"%s\"", says, message);
}

static void nothing_left(void)
{
    assert_string_equal(fake_reports(), "");
    assert_string_equal(fake_leaks(), "");
    assert_int_equal(ein__alloc_live(), 0);
}

static void machines(void **state)
{
    (void)state;
    fake_configure("devices=3 arch=80,90 memory=16g,64g,64g");
    ein_context *c = open_cuda(NULL, NULL);
    assert_int_equal(ein_context_device_count(c), 3); /* all GPUs */
    assert_string_equal(c->machine.devices[0].architecture, "sm_80");
    assert_string_equal(c->machine.devices[2].architecture, "sm_90");
    assert_true(c->machine.devices[0].memory_bytes == 14.0 * (1 << 30));
    assert_true(c->machine.devices[1].memory_bytes == 59.0 * (1 << 30));
    assert_true(c->machine.devices[1].flops_f16 > c->machine.devices[0].flops_f16);
    ein_context_free(c);
    c = open_cuda("cuda:5", NULL); /* two on the first two GPUs each */
    assert_int_equal(ein_context_device_count(c), 5);
    assert_true(c->machine.devices[4].memory_bytes == 59.0 / 2 * (1 << 30));
    assert_true(c->machine.devices[2].memory_bytes == 59.0 * (1 << 30));
    ein_context_free(c);
    refused("cuda:0", EIN_INVALID, "cuda:1 to cuda:16");
    refused("cuda:17", EIN_INVALID, "\"cuda:17\"");
    refused("cuda:2x", EIN_INVALID, "\"cuda:2x\"");
    nothing_left();
    fake_configure("devices=0");
    refused("cuda", EIN_NO_DEVICE, "sees no GPU");
    c = open_cuda(NULL, NULL);
    assert_true(c->machine.host && c->machine.n_devices == 1);
    ein_context_free(c);
    fake_configure("driver=11080");
    refused("cuda", EIN_NO_DEVICE, "CUDA 11.8");
}

/* Who reads whose memory, as found with data; found again in the cache. */
static void peers(void **state)
{
    static const struct { const char *setting; bool reads[3][3]; } cases[] = {
        {"all", {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}},
        {"none", {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
        {"one-way", {{1, 1, 1}, {0, 1, 1}, {0, 0, 1}}},
        {"lose-writes", {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
        {"read-stale", {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
        {"0>1,1>0w,2>0r,1>2", {{1, 1, 0}, {0, 1, 1}, {0, 0, 1}}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int plain = 0; plain < 2; plain++) { /* memory by cuMemAlloc, too */
            char settings[64], *cache = make_directory();
            snprintf(settings, sizeof settings, "devices=3 peers=%s", cases[i].setting);
            for (int again = 0; again < 2; again++) {
                if (again == 0) fake_configure(settings);
                if (plain != 0) fake_fail("cuMemGetAllocationGranularity", 1, CUDA_ERROR_NOT_SUPPORTED);
                long before = fake_calls("cuMemcpyDtoDAsync");
                ein_context *c = open_cuda("cuda", cache);
                for (int r = 0; r < 3; r++)
                    for (int o = 0; o < 3; o++) assert_int_equal(ein__cuda_target_reads(c->target, r, o), cases[i].reads[r][o]);
                assert_int_equal(fake_calls("cuMemcpyDtoDAsync") > before, again == 0 && strcmp(cases[i].setting, "none") != 0);
                ein_context_free(c);
                nothing_left();
            }
            remove_directory(cache);
        }
}

/* ---- one program in many situations ------------------------------------------------------------------- */

typedef struct whole {
    ein_graph *g;
    trial t;
    ein_context *c;
    ein_weights *w;
    ein_program *p;
    ein_state *st;
} whole;

static void whole_graph(whole *x)
{
    small_llama m = {.hidden = 16, .heads = 4, .kv_heads = 2, .head_size = 4, .ffn = 24, .layers = 3, .batch = 2, .seq = 3,
                     .cache = 8};
    memset(x, 0, sizeof *x);
    x->g = small_llama_graph(&m);
    trial_make(&x->t, x->g);
}

/* The status of making it; EIN_OK: all is there. */
static ein_status whole_open(whole *x, const char *machine, const char *cache, const char *plan)
{
    ein_context_options o = {.size = sizeof o, .machine = machine, .cache_dir = cache, .no_cache = cache == NULL};
    ein_status s = ein_context_create(&x->c, &o);
    if (s == EIN_OK) s = ein_weights_create(&x->w, x->c);
    if (s == EIN_OK) trial_add_weights(&x->t, x->w);
    ein_compile_options how = {.size = sizeof how, .weights = x->w, .plan = plan};
    if (s == EIN_OK) s = ein_compile(&x->p, x->c, x->g, &how);
    if (s == EIN_OK) s = ein_state_create(&x->st, x->p);
    return s;
}

static void whole_close(whole *x)
{
    ein_state_free(x->st);
    ein_program_free(x->p);
    ein_weights_free(x->w);
    ein_context_free(x->c);
    x->st = NULL;
    x->p = NULL;
    x->w = NULL;
    x->c = NULL;
}

static void whole_free(whole *x)
{
    whole_close(x);
    trial_free(&x->t);
    ein_graph_free(x->g);
    nothing_left();
}

static void whole_right(whole *x, const char *machine, const char *cache, const char *plan)
{
    if (whole_open(x, machine, cache, plan) != EIN_OK)
        fail_msg("%s: %s\n%s", machine, ein_context_error(x->c), ein_context_detail(x->c));
    trial_check(&x->t, x->p, x->st);
}

/* A plan that moves much, forced. */
static char *moving_plan(const whole *x, int devices)
{
    graph g = {.nodes = {0}};
    arena a = {NULL};
    plan p;
    text json = {0};
    assert_int_equal(ein__canonicalize(&x->g->g, &g, NULL), EIN_OK);
    assert_int_equal(random_plan_make(&a, &g, 7, devices, NULL, &p), EIN_OK);
    assert_int_equal(ein__plan_print(&g, &p, &json), EIN_OK);
    ein__arena_free(&a);
    ein__arena_free(&g.arena);
    return json.bytes;
}

/* Without mappings, without handles for other processes, without libraries, without progress words. */
static void older_drivers(void **state)
{
    whole x;
    (void)state;
    for (int i = 0; i < 4; i++) {
        fake_configure("devices=3 peers=one-way check=1 memory=64m");
        whole_graph(&x);
        char *plan = moving_plan(&x, 3);
        if (i == 0) fake_fail("cuMemGetAllocationGranularity", 2, CUDA_ERROR_NOT_SUPPORTED);
        if (i == 1) fake_fail("cuMemCreate", 1, CUDA_ERROR_NOT_PERMITTED);
        x.c = open_cuda("cuda", NULL);
        assert_int_equal(((cuda_target *)x.c->target)->mapped, i != 0);
        assert_int_equal(ein_weights_create(&x.w, x.c), EIN_OK);
        trial_add_weights(&x.t, x.w);
        if (i == 2) ((cuda_target *)x.c->target)->cu.cuLibraryLoadData = NULL;
        if (i == 2) ((cuda_target *)x.c->target)->cu.cuFuncLoad = NULL;
        if (i == 3) ((cuda_target *)x.c->target)->cu.cuStreamWriteValue32_v2 = NULL;
        x.p = compile_program(x.c, x.g, &(ein_compile_options){.size = sizeof(ein_compile_options), .weights = x.w, .plan = plan});
        assert_int_equal(ein_state_create(&x.st, x.p), EIN_OK);
        trial_check(&x.t, x.p, x.st);
        assert_int_equal(fake_calls("cuModuleLoadDataEx") > 0, i == 2);
        ein__text_free(&(text){.bytes = plan});
        whole_free(&x);
    }
}

/* Machine code for what NVRTC knows, PTX for what is newer, and both kinds of GPU in one machine. */
static void architectures(void **state)
{
    whole x;
    (void)state;
    static const char *const settings[] = {"devices=2 memory=64m arch=130", "devices=2 memory=64m arch=80,90", "devices=2 memory=64m arch=86 known=75,80,90"};
    for (int i = 0; i < 3; i++) {
        fake_configure(settings[i]);
        whole_graph(&x);
        whole_right(&x, "cuda", NULL, NULL);
        whole_free(&x);
    }
    fake_configure("arch=70");
    whole_graph(&x);
    assert_int_equal(whole_open(&x, "cuda", NULL, NULL), EIN_NO_DEVICE);
    assert_non_null(strstr(ein_context_error(x.c), "7.0"));
    whole_free(&x);
    fake_configure("driver=12040"); /* NVRTC 13 makes what it cannot load */
    whole_graph(&x);
    assert_int_equal(whole_open(&x, "cuda", NULL, NULL), EIN_NO_DEVICE);
    assert_non_null(strstr(ein_context_error(x.c), "libnvrtc.so.12"));
    whole_free(&x);
}

/* An algorithm that loses a term is not chosen, whichever it is; the choice is kept. */
static void product_choices(void **state)
{
    whole x;
    char settings[32];
    (void)state;
    for (int wrong = 1; wrong <= 2; wrong++) {
        char *cache = make_directory();
        snprintf(settings, sizeof settings, "devices=1 wrong=%d memory=64m", wrong);
        fake_configure(settings);
        whole_graph(&x);
        whole_right(&x, "cuda", cache, NULL);
        long asked = fake_calls("cublasLtMatmulAlgoGetHeuristic");
        assert_true(asked > 0);
        whole_close(&x);
        whole_right(&x, "cuda", cache, NULL);
        assert_int_equal(fake_calls("cublasLtMatmulAlgoGetHeuristic"), asked);
        assert_true(fake_calls("cublasLtMatmulAlgoCheck") > 0);
        whole_free(&x);
        remove_directory(cache);
    }
}

/* ---- graphs ------------------------------------------------------------------------------------------- */

/* One run of `r` at a position, and what a fresh run, which goes by streams, gives. */
static void run_at(whole *x, ein_run *r, ein_state *st, i64 position)
{
    float y[96];
    size_t n;
    trial_set_scalar(&x->t, "position", position);
    trial_set_scalar(&x->t, "length", position + 3);
    assert_int_equal(ein_state_reset(st), EIN_OK);
    trial_bind(&x->t, r);
    assert_int_equal(ein_run_output(r, "y", y, sizeof y), EIN_OK);
    assert_int_equal(ein_run_state(r, st), EIN_OK);
    if (ein_run_once(r) != EIN_OK) fail_msg("position %d: %s", (int)position, ein_run_error(r));
    assert_int_equal(ein_state_reset(st), EIN_OK);
    void *want = trial_outputs(&x->t, x->p, st, &n);
    assert_true(n >= sizeof y && memcmp(want, y, sizeof y) == 0);
    free(want);
}

/* A run's second start makes one graph over all devices; later ones set what differs, and make none. */
static void graphs(void **state)
{
    whole x;
    ein_run *r = NULL;
    ein_state *other = NULL;
    (void)state;
    setenv("EIN_GRAPHS", "1", 1);
    fake_configure("devices=3 peers=one-way check=1 memory=64m");
    whole_graph(&x);
    char *plan = moving_plan(&x, 3);
    if (whole_open(&x, "cuda", NULL, plan) != EIN_OK) fail_msg("%s", ein_context_error(x.c));
    assert_int_equal(ein_state_create(&other, x.p), EIN_OK);
    assert_int_equal(ein_run_create(&r, x.p), EIN_OK);
    run_at(&x, r, x.st, 0);
    assert_int_equal(fake_calls("cuGraphLaunch"), 0);
    static const i64 positions[] = {0, 2, 5, 5, 1};
    for (int i = 0; i < 5; i++) {
        long set = fake_calls("cuGraphExecKernelNodeSetParams");
        run_at(&x, r, x.st, positions[i]);
        assert_int_equal(fake_calls("cuGraphExecKernelNodeSetParams") > set, i != 0 && i != 3);
    }
    long copies = fake_calls("cuGraphExecMemcpyNodeSetParams");
    run_at(&x, r, other, 4); /* other memory */
    assert_int_equal(fake_calls("cuGraphLaunch"), 6);
    assert_int_equal(fake_calls("cuGraphInstantiateWithFlags"), 1);
    assert_true(fake_calls("cuGraphAddChildGraphNode") > 0);
    assert_true(fake_calls("cuGraphExecMemcpyNodeSetParams") >= copies);
    ein_run_free(r);

    /* What a driver cannot make runs by streams. */
    static const char *const calls[] = {"cuGraphInstantiateWithFlags", "cuStreamBeginCapture", "cuGraphAddKernelNode",
                                        "cuGraphLaunch"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ein_run_create(&r, x.p), EIN_OK);
        run_at(&x, r, x.st, 1);
        long launched = fake_calls("cuGraphLaunch");
        fake_fail(calls[i], 1, CUDA_ERROR_NOT_SUPPORTED);
        run_at(&x, r, x.st, 2);
        assert_true(fake_failed());
        run_at(&x, r, x.st, 3);
        assert_int_equal(fake_calls("cuGraphLaunch") - launched, i == 3);
        ein_run_free(r);
    }
    ein_state_free(other);
    unsetenv("EIN_GRAPHS");
    ein__text_free(&(text){.bytes = plan});
    whole_free(&x);
}

/* ---- threads ------------------------------------------------------------------------------------------ */

enum { THREADS = 3, ROUNDS = 4 };

typedef struct runner { const whole *x; pthread_t thread; float y[96]; bool same; } runner;

static void *run_rounds(void *argument)
{
    runner *k = argument;
    ein_run *r = NULL;
    k->same = ein_run_create(&r, k->x->p) == EIN_OK;
    for (int i = 0; i < ROUNDS && k->same; i++) {
        float y[96];
        trial_bind(&k->x->t, r);
        k->same = ein_run_output(r, "y", y, sizeof y) == EIN_OK && ein_run_once(r) == EIN_OK;
        if (i == 0) memcpy(k->y, y, sizeof y);
        k->same = k->same && memcmp(k->y, y, sizeof y) == 0;
    }
    ein_run_free(r);
    return NULL;
}

/* Several threads run one program; a cancelled run can be started again. */
static void threads(void **state)
{
    small_llama m = {.hidden = 16, .heads = 4, .kv_heads = 2, .head_size = 4, .ffn = 24, .layers = 2, .batch = 2, .seq = 3};
    whole x = {.g = small_llama_graph(&m)};
    runner runners[THREADS];
    ein_run *r = NULL;
    float y[96];
    (void)state;
    fake_configure("devices=2 peers=one-way memory=64m check=1");
    trial_make(&x.t, x.g);
    char *plan = moving_plan(&x, 2);
    whole_right(&x, "cuda", NULL, plan);
    for (int i = 0; i < THREADS; i++) {
        runners[i] = (runner){.x = &x};
        assert_int_equal(pthread_create(&runners[i].thread, NULL, run_rounds, &runners[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(runners[i].thread, NULL);
    for (int i = 0; i < THREADS; i++) assert_true(runners[i].same && memcmp(runners[i].y, runners[0].y, sizeof y) == 0);
    assert_int_equal(ein_run_create(&r, x.p), EIN_OK);
    trial_bind(&x.t, r);
    assert_int_equal(ein_run_output(r, "y", y, sizeof y), EIN_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ein_run_start(r), EIN_OK);
        ein_run_cancel(r);
        ein_status s = ein_run_wait(r);
        assert_true(s == EIN_CANCELLED || s == EIN_OK);
    }
    assert_int_equal(ein_run_once(r), EIN_OK);
    assert_memory_equal(y, runners[0].y, sizeof y);
    ein_run_free(r);
    ein__text_free(&(text){.bytes = plan});
    whole_free(&x);
}

/* ---- failures ----------------------------------------------------------------------------------------- */

/* Open, load, two runs by one object, the second as a graph. */
static ein_status attempt(whole *x, const char *cache, const char *plan)
{
    float y[96];
    ein_run *r = NULL;
    ein_status s = whole_open(x, "cuda", cache, plan);
    if (s == EIN_OK) s = ein_run_create(&r, x->p);
    for (int i = 0; i < 2 && s == EIN_OK; i++) {
        trial_bind(&x->t, r);
        assert_int_equal(ein_run_output(r, "y", y, sizeof y), EIN_OK);
        assert_int_equal(ein_run_state(r, x->st), EIN_OK);
        s = ein_run_once(r);
    }
    ein_run_free(r);
    whole_close(x);
    return s;
}

/* With a loop, states and graphs some of all calls fail, one at a time: a status, nothing left, nothing wrong. Survived
 * are those that only report progress, that ask for what the library can do without, that take what was cached for a
 * miss, and most of those that make the graph. */
static void failing_calls(void **state)
{
    whole x;
    char *cache = make_directory();
    long points = from_environment("EIN_POINTS", 24), failed = 0, happened = 0;
    (void)state;
    setenv("EIN_GRAPHS", "1", 1);
    fake_configure("devices=2 peers=one-way memory=64m");
    whole_graph(&x);
    char *plan = moving_plan(&x, 2);
    assert_int_equal(attempt(&x, cache, plan), EIN_OK);
    long before = fake_calls(NULL);
    assert_int_equal(attempt(&x, cache, plan), EIN_OK);
    long calls = fake_calls(NULL) - before;
    for (long i = 0; i < points; i++) {
        long at = 1 + (2 * i + 1) * calls / (2 * points);
        fake_fail(NULL, at, i % 3 == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_NOT_SUPPORTED);
        ein_status s = attempt(&x, cache, plan);
        happened += fake_failed();
        failed += s != EIN_OK;
        fake_fail(NULL, 0, 0);
        if (s != EIN_OK && s != EIN_DEVICE_FAILED && s != EIN_NO_DEVICE_MEMORY && s != EIN_NO_DEVICE && s != EIN_COMPILE_FAILED &&
            s != EIN_NO_MEMORY)
            fail_msg("call %ld of %ld: %s", at, calls, ein_status_name(s));
        if (fake_leaks()[0] != 0) fail_msg("call %ld of %ld: left:\n%s", at, calls, fake_leaks());
        if (fake_reports()[0] != 0) fail_msg("call %ld of %ld:\n%s", at, calls, fake_reports());
    }
    if (happened < points - 2 || failed == 0) fail_msg("%ld of %ld calls failed, %ld attempts", happened, points, failed);
    unsetenv("EIN_GRAPHS");
    whole_right(&x, "cuda", NULL, plan);
    ein__text_free(&(text){.bytes = plan});
    whole_free(&x);
    remove_directory(cache);
}

/* Host memory that runs out, at some allocation of opening, compiling, loading and making a run. */
static void no_host_memory(void **state)
{
    whole x;
    ein_run *r;
    char *cache = make_directory();
    (void)state;
    fake_configure("devices=2 peers=one-way memory=64m");
    whole_graph(&x);
    char *plan = moving_plan(&x, 2);
    assert_int_equal(attempt(&x, cache, plan), EIN_OK);
    for (long n = 1, ok = 0; ok == 0; n++) {
        ein_context_options o = {.size = sizeof o, .machine = "cuda", .cache_dir = cache};
        ein__alloc_fail_at(n);
        ein_status s = ein_context_create(&x.c, &o);
        ein__alloc_fail_at(0);
        assert_true(s == EIN_NO_MEMORY || (s == EIN_OK && n > 3)); /* what only the cache misses is no failure */
        ok = s == EIN_OK && n > 40;
        if (!ok) ein_context_free(x.c);
    }
    assert_int_equal(ein_weights_create(&x.w, x.c), EIN_OK);
    trial_add_weights(&x.t, x.w);
    ein_compile_options how = {.size = sizeof how, .weights = x.w, .plan = plan};
    long made = ein__alloc_count();
    assert_int_equal(ein_compile(&x.p, x.c, x.g, &how), EIN_OK);
    made = ein__alloc_count() - made;
    for (long n = 0; n < 24; n++) {
        ein_program *again = NULL;
        ein__alloc_fail_at(1 + n * made / 24);
        ein_status s = ein_compile(&again, x.c, x.g, &how);
        ein__alloc_fail_at(0);
        assert_true(s == EIN_OK || s == EIN_NO_MEMORY);
        ein_program_free(again);
    }
    for (long n = 1, s = EIN_NO_MEMORY; s != EIN_OK; n++) {
        ein__alloc_fail_at(n);
        s = ein_run_create(&r, x.p);
        ein__alloc_fail_at(0);
        assert_true(s == EIN_OK || s == EIN_NO_MEMORY);
        if (s == EIN_OK) ein_run_free(r);
    }
    ein__text_free(&(text){.bytes = plan});
    whole_free(&x);
    remove_directory(cache);
}

/* A device that goes: the run says in which step, and everything after says that it is gone. */
static void lost_device(void **state)
{
    whole x;
    ein_run *r = NULL;
    float y[96];
    (void)state;
    fake_configure("devices=2 memory=64m");
    whole_graph(&x);
    char *plan = moving_plan(&x, 2);
    whole_right(&x, "cuda", NULL, plan);
    assert_int_equal(ein_run_create(&r, x.p), EIN_OK);
    trial_bind(&x.t, r);
    assert_int_equal(ein_run_output(r, "y", y, sizeof y), EIN_OK);
    assert_int_equal(ein_state_reset(x.st), EIN_OK);
    assert_int_equal(ein_run_state(r, x.st), EIN_OK);
    fake_fail("cuStreamSynchronize", 1, CUDA_ERROR_ILLEGAL_ADDRESS); /* a kernel of the run did it */
    assert_int_equal(ein_run_once(r), EIN_DEVICE_FAILED);
    assert_non_null(strstr(ein_run_error(r), "CUDA_ERROR_ILLEGAL_ADDRESS"));
    assert_non_null(strstr(ein_run_error(r), ": step "));
    assert_non_null(strstr(ein_run_error(r), " on device 0: "));
    long calls = fake_calls("cuLaunchKernel");
    assert_int_equal(ein_state_reset(x.st), EIN_DEVICE_FAILED);
    assert_non_null(strstr(ein_context_error(x.c), "lost a device"));
    assert_int_equal(ein_run_once(r), EIN_INVALID); /* its state is undefined */
    assert_int_equal(fake_calls("cuLaunchKernel"), calls);
    ein_program *other = NULL;
    assert_int_equal(ein_compile(&other, x.c, x.g, &(ein_compile_options){.size = sizeof(ein_compile_options), .weights = x.w,
                                                                         .plan = plan}), EIN_DEVICE_FAILED);
    assert_non_null(strstr(ein_context_error(x.c), "CUDA_ERROR_ILLEGAL_ADDRESS"));
    ein_run_free(r);
    whole_close(&x);
    whole_right(&x, "cuda", NULL, plan); /* a new context is a new chance */
    ein__text_free(&(text){.bytes = plan});
    whole_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machines),      cmocka_unit_test(peers),           cmocka_unit_test(older_drivers),
        cmocka_unit_test(architectures), cmocka_unit_test(product_choices), cmocka_unit_test(graphs),
        cmocka_unit_test(threads),       cmocka_unit_test(failing_calls),
        cmocka_unit_test(no_host_memory), cmocka_unit_test(lost_device),   cmocka_unit_test(random_programs),
        cmocka_unit_test(random_programs_by_fibers)};
    unsetenv("EIN_CUDA"); /* the fakes are in this process */
    unsetenv("EIN_NVRTC");
    unsetenv("EIN_CUBLASLT");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
