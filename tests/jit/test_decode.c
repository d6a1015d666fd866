/* SPDX-License-Identifier: Apache-2.0 */
/* A prefill and a decode program over one weight store and one KV cache: a hundred steps, one search and one
 * compilation each, every step's logits those of the whole sequence evaluated at once. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jit/context.h"
#include "tests/harness/small_llama.h"
#include "tests/harness/trial.h"

enum { BATCH = 2, PROMPT = 4, STEPS = 100, ROWS = PROMPT + STEPS, VOCABULARY = 31 };

static small_llama model(int seq, int cache)
{
    return (small_llama){.hidden = 32,
                         .heads = 4,
                         .kv_heads = 2,
                         .head_size = 8,
                         .ffn = 40,
                         .layers = 2,
                         .vocabulary = VOCABULARY,
                         .batch = BATCH,
                         .seq = seq,
                         .cache = cache};
}

/* What a whole sequence gives: logits at every position, and its ids. */
typedef struct whole {
    const int32_t *ids;
    double *logits;
    trial trial;
    ein_graph *graph;
} whole;

static whole evaluate_whole(void)
{
    small_llama m = model(ROWS, 0);
    whole x = {.graph = small_llama_graph(&m)};
    error e = {0};
    trial_make(&x.trial, x.graph);
    x.ids = trial_data(&x.trial, "ids");
    x.logits = calloc((size_t)BATCH * ROWS * VOCABULARY, sizeof *x.logits);
    reference_bindings b = {.leaves = (const void *const *)x.trial.leaves, .threads = 2};
    if (ein__reference_f64(&x.graph->g, &b, &x.logits, &e) != EIN_OK) fail_msg("reference: %s", e.line);
    return x;
}

static void free_whole(whole *x)
{
    trial_free(&x->trial);
    ein_graph_free(x->graph);
    free(x->logits);
}

/* Two programs, the store and the state between them. */
typedef struct session {
    whole whole;
    char *cache;
    ein_context *c;
    ein_weights *w;
    ein_graph *graphs[2];
    ein_program *prefill, *decode;
    ein_state *state;
    ein_run *runs[2];
    int32_t ids[2][BATCH * ROWS]; /* bound to the runs */
} session;

static void open_session(session *s, const char *machine)
{
    s->whole = evaluate_whole();
    s->cache = make_directory();
    s->c = open_context(machine, s->cache);
    assert_int_equal(ein_weights_create(&s->w, s->c), EIN_OK);
    trial_add_weights(&s->whole.trial, s->w);
    small_llama many = model(PROMPT, ROWS), one = model(1, ROWS);
    s->graphs[0] = small_llama_graph(&many);
    s->graphs[1] = small_llama_graph(&one);
    ein_compile_options o = {.size = sizeof o, .weights = s->w};
    s->prefill = compile_program(s->c, s->graphs[0], &o);
    assert_int_equal(ein_state_create(&s->state, s->prefill), EIN_OK);
    o.state = s->state;
    s->decode = compile_program(s->c, s->graphs[1], &o);
    assert_int_equal(ein_run_create(&s->runs[0], s->prefill), EIN_OK);
    assert_int_equal(ein_run_create(&s->runs[1], s->decode), EIN_OK);
    for (int i = 0; i < 2; i++) assert_int_equal(ein_run_state(s->runs[i], s->state), EIN_OK);
}

static void close_session(session *s)
{
    for (int i = 0; i < 2; i++) ein_run_free(s->runs[i]);
    ein_state_free(s->state);
    ein_program_free(s->prefill);
    ein_program_free(s->decode);
    for (int i = 0; i < 2; i++) ein_graph_free(s->graphs[i]);
    ein_weights_free(s->w);
    ein_context_free(s->c);
    remove_directory(s->cache);
    free_whole(&s->whole);
}

/* Rows at .. at + n of every sequence of the batch through one of the runs. */
static ein_status run_rows(session *s, int which, int at, int n, float *logits)
{
    int32_t *ids = s->ids[which];
    ein_run *r = s->runs[which];
    for (int b = 0; b < BATCH; b++)
        for (int i = 0; i < n; i++) ids[b * n + i] = s->whole.ids[b * ROWS + (at + i + ROWS) % ROWS];
    assert_int_equal(ein_run_input(r, "ids", ids, (size_t)(BATCH * n) * sizeof *ids), EIN_OK);
    assert_int_equal(ein_run_output(r, "logits", logits, (size_t)(BATCH * n * VOCABULARY) * sizeof *logits),
                     EIN_OK);
    assert_int_equal(ein_run_scalar(r, "position", at), EIN_OK);
    assert_int_equal(ein_run_scalar(r, "length", at + n), EIN_OK);
    return ein_run_once(r);
}

static void good_rows(session *s, int which, int at, int n, float *logits)
{
    if (run_rows(s, which, at, n, logits) != EIN_OK)
        fail_msg("rows %d: %s", at, ein_run_error(s->runs[which]));
}

static void assert_logits(const session *s, int at, int n, const float *logits)
{
    double error = 0, norm = 0;
    for (int b = 0; b < BATCH; b++)
        for (int i = 0; i < n * VOCABULARY; i++) {
            double want = s->whole.logits[(b * ROWS + at) * VOCABULARY + i],
                   d = (double)logits[b * n * VOCABULARY + i] - want;
            error += d * d;
            norm += want * want;
        }
    if (!(sqrt(error / norm) < 1e-5)) fail_msg("rows %d to %d: error %g", at, at + n, sqrt(error / norm));
}

static void decode_on(const char *machine)
{
    session s;
    float logits[BATCH * PROMPT * VOCABULARY];
    open_session(&s, machine);
    good_rows(&s, 0, 0, PROMPT, logits);
    assert_logits(&s, 0, PROMPT, logits);
    for (int i = PROMPT; i < ROWS; i++) {
        good_rows(&s, 1, i, 1, logits);
        assert_logits(&s, i, 1, logits);
    }
    ein_program_stats stats = program_stats(s.decode);
    assert_int_equal(stats.searches, 1);
    assert_int_equal(stats.compiles, stats.kernels);
    close_session(&s);
}

static void one_device(void **state)
{
    (void)state;
    decode_on("host:1");
}

static void two_devices(void **state)
{
    (void)state;
    decode_on("host:2");
}

static void three_devices(void **state)
{
    (void)state;
    decode_on("host:3");
}

/* The stages that the library reports are counted: no step searches or compiles anything. */
static void count_stage(void *user, const char *stage, double fraction)
{
    (void)fraction;
    int *counts = user;
    counts[0] += strcmp(stage, "search") == 0;
    counts[1] += strcmp(stage, "compile") == 0;
}

static void steps_compile_nothing(void **state)
{
    (void)state;
    session s;
    int counts[2] = {0};
    float logits[BATCH * PROMPT * VOCABULARY];
    open_session(&s, "host:2");
    s.c->progress = count_stage;
    s.c->progress_user = counts;
    good_rows(&s, 0, 0, PROMPT, logits);
    for (int i = PROMPT; i < PROMPT + 5; i++) good_rows(&s, 1, i, 1, logits);
    assert_int_equal(counts[0] + counts[1], 0);
    ein_run_free(s.runs[1]);
    ein_program_free(s.decode);
    s.runs[1] = NULL;
    ein_compile_options o = {.size = sizeof o, .weights = s.w, .state = s.state};
    s.decode = compile_program(s.c, s.graphs[1], &o); /* from the cache */
    assert_int_equal(counts[0] + counts[1], 0);
    close_session(&s);
}

/* A reset state is a fresh one. */
static void reset(void **state)
{
    (void)state;
    session s;
    float first[BATCH * VOCABULARY], used[BATCH * VOCABULARY], again[BATCH * VOCABULARY];
    float prompt[BATCH * PROMPT * VOCABULARY];
    open_session(&s, "host:2");
    good_rows(&s, 1, PROMPT, 1, first); /* over a cache of zeros */
    assert_int_equal(ein_state_reset(s.state), EIN_OK);
    good_rows(&s, 0, 0, PROMPT, prompt);
    good_rows(&s, 1, PROMPT, 1, used);
    assert_logits(&s, PROMPT, 1, used);
    assert_memory_not_equal(first, used, sizeof used);
    assert_int_equal(ein_state_reset(s.state), EIN_OK);
    good_rows(&s, 1, PROMPT, 1, again);
    assert_memory_equal(first, again, sizeof again);
    close_session(&s);
}

/* One run at a time, from its start to its wait. */
static void busy(void **state)
{
    (void)state;
    session s;
    float prompt[BATCH * PROMPT * VOCABULARY], logits[BATCH * VOCABULARY];
    open_session(&s, "host:2");
    good_rows(&s, 0, 0, PROMPT, prompt);
    assert_int_equal(ein_run_start(s.runs[0]), EIN_OK); /* the same rows again */
    assert_int_equal(run_rows(&s, 1, PROMPT, 1, logits), EIN_INVALID);
    assert_string_equal(ein_run_error(s.runs[1]), "the state is in use by another run");
    assert_int_equal(ein_state_reset(s.state), EIN_INVALID);
    assert_string_equal(ein_context_error(s.c), "a state in use by a run cannot be reset");
    assert_int_equal(ein_run_wait(s.runs[0]), EIN_OK);
    good_rows(&s, 1, PROMPT, 1, logits);
    assert_logits(&s, PROMPT, 1, logits);
    close_session(&s);
}

static void assert_refused(session *s, int which, int at, int n, const char *place)
{
    float logits[BATCH * PROMPT * VOCABULARY];
    assert_int_equal(run_rows(s, which, at, n, logits), EIN_INVALID);
    if (strstr(ein_run_error(s->runs[which]), "scalar 'position'") == NULL ||
        strstr(ein_run_error(s->runs[which]), place) == NULL)
        fail_msg("%s", ein_run_error(s->runs[which]));
}

/* Rows past the cache's end are refused before anything runs: the state stays good. */
static void overflow(void **state)
{
    (void)state;
    session s;
    float prompt[BATCH * PROMPT * VOCABULARY], logits[BATCH * VOCABULARY];
    open_session(&s, "host:2");
    good_rows(&s, 0, 0, PROMPT, prompt);
    assert_refused(&s, 1, ROWS, 1, "= 104");
    assert_refused(&s, 0, ROWS - PROMPT + 1, PROMPT, "= 101");
    assert_refused(&s, 1, -1, 1, "= -1");
    good_rows(&s, 1, PROMPT, 1, logits);
    assert_logits(&s, PROMPT, 1, logits);
    close_session(&s);
}

/* A program compiled without the state may lie otherwise; a state of another model has other tensors. */
static void foreign_state(void **state)
{
    (void)state;
    session s;
    ein_run *r = NULL;
    open_session(&s, "host:2");
    small_llama deeper = model(1, ROWS);
    deeper.layers = 3;
    ein_graph *g = small_llama_graph(&deeper);
    trial t;
    trial_make(&t, g);
    trial_add_weights(&t, s.w);
    ein_compile_options o = {.size = sizeof o, .weights = s.w, .state = s.state};
    ein_program *p = compile_program(s.c, g, &o);
    assert_int_equal(ein_run_create(&r, p), EIN_OK);
    assert_int_equal(ein_run_state(r, s.state), EIN_INVALID);
    assert_string_equal(ein_run_error(r), "the state has no tensor 'l2.k'");
    ein_run_free(r);
    ein_program_free(p);
    trial_free(&t);
    ein_graph_free(g);
    close_session(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_device),    cmocka_unit_test(two_devices),
        cmocka_unit_test(three_devices), cmocka_unit_test(steps_compile_nothing),
        cmocka_unit_test(reset),         cmocka_unit_test(busy),
        cmocka_unit_test(overflow),      cmocka_unit_test(foreign_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
