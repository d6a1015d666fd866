/* SPDX-License-Identifier: Apache-2.0 */
/* Runs as objects: many at once on one program and on several, cancelled, freed while started, out of memory. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "core/plan/machine.h"
#include "tests/api/fixture.h"

enum { S = 8, D = 24, LAYERS = 5, THREADS = 4, ROUNDS = 12 };

/* ---- a program with a loop, and what it computes ------------------------------------------------------ */

/* x = x + relu(w_i x + b_i) over the layers; then the softmax of its rows. */
static void build_layers(session *s, int layers, int width, const float *weights)
{
    char name[16];
    ein_tensor x = INPUT(s->g, "x", S, width);
    for (int i = 0; i < layers; i++) {
        snprintf(name, sizeof name, "w%d", i);
        const float *w = weights + (size_t)i * (size_t)width * (size_t)width;
        assert_int_equal(ein_weights_add(s->w, name, EIN_F32, SHAPE(width, width), w, EIN_BORROW), EIN_OK);
        ein_tensor parameter = ein_parameter(s->g, name, EIN_F32, SHAPE(width, width));
        x = ein_add(s->g, x, ein_relu(s->g, ein_linear(s->g, x, parameter, NONE)));
    }
    ein_output(s->g, "y", ein_softmax(s->g, x, 1));
}

static float *make_weights(int layers, int width)
{
    int n = layers * width * width;
    float *w = calloc((size_t)n, sizeof *w);
    assert_non_null(w);
    for (int i = 0; i < n; i++) w[i] = (float)((i * 31 + i / 7) % 17 - 8) / (float)(8 * width);
    return w;
}

static void make_input(float *x, int n, int seed)
{
    for (int i = 0; i < n; i++) x[i] = (float)((i * 13 + seed * 5) % 23) / 11 - 1;
}

static void expect_layers(int layers, int width, const float *w, const float *in, double *out)
{
    double y[256];
    for (int r = 0; r < S; r++) {
        double *x = out + r * width, most = -1e300, sum = 0;
        for (int i = 0; i < width; i++) x[i] = in[r * width + i];
        for (int l = 0; l < layers; l++, w += width * width) {
            for (int i = 0; i < width; i++) {
                y[i] = 0;
                for (int k = 0; k < width; k++) y[i] += (double)w[i * width + k] * x[k];
            }
            for (int i = 0; i < width; i++) x[i] += fmax(y[i], 0);
        }
        w -= layers * width * width;
        for (int i = 0; i < width; i++) most = fmax(most, x[i]);
        for (int i = 0; i < width; i++) sum += x[i] = exp(x[i] - most);
        for (int i = 0; i < width; i++) x[i] /= sum;
    }
}

/* ---- many runs at once -------------------------------------------------------------------------------- */

/* cmocka's assertions belong to the main thread: threads count what is wrong. */
typedef struct caller {
    ein_run *r;
    const float *w;
    int layers, seed, wrong;
} caller;

static void *call(void *argument)
{
    caller *c = argument;
    float x[S * D], y[S * D];
    double want[S * D];
    for (int round = 0; round < ROUNDS; round++) {
        make_input(x, S * D, c->seed * ROUNDS + round);
        expect_layers(c->layers, D, c->w, x, want);
        memset(y, 0, sizeof y);
        c->wrong += ein_run_input(c->r, "x", x, sizeof x) != EIN_OK;
        c->wrong += ein_run_output(c->r, "y", y, sizeof y) != EIN_OK;
        c->wrong += ein_run_once(c->r) != EIN_OK;
        for (int i = 0; i < S * D; i++) c->wrong += !(fabs(y[i] - want[i]) < 1e-5);
    }
    return NULL;
}

static void call_together(caller *callers, int n)
{
    pthread_t thread[2 * THREADS];
    for (int i = 0; i < n; i++) assert_int_equal(pthread_create(&thread[i], NULL, call, &callers[i]), 0);
    for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < n; i++) {
        if (callers[i].wrong != 0) fail_msg("caller %d: %d wrong; %s", i, callers[i].wrong, ein_run_error(callers[i].r));
        ein_run_free(callers[i].r);
    }
}

/* Several threads, each with a run of its own, on one program. */
static void one_program(void **state)
{
    static const char *const machines[] = {"host:1", "host:3", "host:4"};
    float *w = make_weights(LAYERS, D);
    (void)state;
    for (int m = 0; m < 3; m++) {
        session s;
        caller callers[THREADS];
        session_open(&s, machines[m]);
        build_layers(&s, LAYERS, D, w);
        session_compile(&s, NULL);
        for (int i = 0; i < THREADS; i++) {
            callers[i] = (caller){.w = w, .layers = LAYERS, .seed = i};
            assert_int_equal(ein_run_create(&callers[i].r, s.p), EIN_OK);
        }
        call_together(callers, THREADS);
        session_close(&s);
    }
    free(w);
}

/* Two programs of one context, over one weight store, mixed. */
static void two_programs(void **state)
{
    float *w = make_weights(LAYERS, D);
    session s, short_one;
    caller callers[2 * THREADS];
    (void)state;
    session_open(&s, "host:3");
    build_layers(&s, LAYERS, D, w);
    session_compile(&s, NULL);
    short_one = s;
    assert_int_equal(ein_weights_create(&short_one.w, s.c), EIN_OK);
    assert_int_equal(ein_graph_create(&short_one.g), EIN_OK);
    build_layers(&short_one, 2, D, w);
    session_compile(&short_one, NULL);
    for (int i = 0; i < 2 * THREADS; i++) {
        callers[i] = (caller){.w = w, .layers = i % 2 == 0 ? LAYERS : 2, .seed = i};
        assert_int_equal(ein_run_create(&callers[i].r, i % 2 == 0 ? s.p : short_one.p), EIN_OK);
    }
    call_together(callers, 2 * THREADS);
    ein_program_free(short_one.p);
    ein_weights_free(short_one.w);
    ein_graph_free(short_one.g);
    session_close(&s);
    free(w);
}

/* The same run again gives the same bits, and so does another. */
static void same_bits(void **state)
{
    float *w = make_weights(LAYERS, D), x[S * D], y[3][S * D];
    session s;
    ein_run *other;
    (void)state;
    session_open(&s, "host:4");
    build_layers(&s, LAYERS, D, w);
    session_start(&s);
    make_input(x, S * D, 1);
    assert_int_equal(ein_run_create(&other, s.p), EIN_OK);
    for (int i = 0; i < 3; i++) {
        ein_run *r = i < 2 ? s.r : other;
        assert_int_equal(ein_run_input(r, "x", x, sizeof x), EIN_OK);
        assert_int_equal(ein_run_output(r, "y", y[i], sizeof y[i]), EIN_OK);
        assert_int_equal(ein_run_once(r), EIN_OK);
        assert_memory_equal(y[i], y[0], sizeof y[0]);
    }
    assert_int_equal(ein_run_tally(s.r, 0), -1); /* not a counting program */
    ein_run_free(other);
    session_close(&s);
    free(w);
}

/* ---- cancel ------------------------------------------------------------------------------------------- */

enum { LONG = 200, WIDE = 128 };

/* Long enough that a cancel finds it at work. */
typedef struct long_run {
    session s;
    float *w, *x, *y;
    double *want;
} long_run;

static void open_long(long_run *l, const char *machine)
{
    l->w = make_weights(LONG, WIDE);
    l->x = calloc(S * WIDE, sizeof *l->x);
    l->y = calloc(S * WIDE, sizeof *l->y);
    l->want = calloc(S * WIDE, sizeof *l->want);
    make_input(l->x, S * WIDE, 3);
    expect_layers(LONG, WIDE, l->w, l->x, l->want);
    session_open(&l->s, machine);
    build_layers(&l->s, LONG, WIDE, l->w);
    session_start(&l->s);
    assert_int_equal(ein_run_input(l->s.r, "x", l->x, S * WIDE * sizeof *l->x), EIN_OK);
    assert_int_equal(ein_run_output(l->s.r, "y", l->y, S * WIDE * sizeof *l->y), EIN_OK);
}

static void close_long(long_run *l)
{
    session_close(&l->s);
    free(l->w);
    free(l->x);
    free(l->y);
    free(l->want);
}

static void nap(long microseconds)
{
    nanosleep(&(struct timespec){microseconds / 1000000, microseconds % 1000000 * 1000}, NULL);
}

static double milliseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Anywhere in the run: it stops before its end, says so, and can be started again. */
static void cancel(void **state)
{
    static const char *const machines[] = {"host:1", "host:3"};
    (void)state;
    for (int m = 0; m < 2; m++) {
        long_run l;
        open_long(&l, machines[m]);
        double start = milliseconds();
        session_once(&l.s);
        long whole = (long)((milliseconds() - start) * 1e3);
        assert_near(l.y, l.want, S * WIDE);
        int cancelled = 0;
        for (int i = 0; i < 8; i++) {
            assert_int_equal(ein_run_start(l.s.r), EIN_OK);
            nap(whole * i / 16);
            ein_run_cancel(l.s.r);
            ein_status status = ein_run_wait(l.s.r);
            if (status == EIN_OK) continue; /* it was faster */
            assert_int_equal(status, EIN_CANCELLED);
            assert_string_equal(ein_run_error(l.s.r), "the run was cancelled");
            cancelled++;
        }
        assert_true(cancelled > 0);
        ein_run_cancel(l.s.r); /* of nothing */
        memset(l.y, 0, S * WIDE * sizeof *l.y);
        session_once(&l.s);
        assert_near(l.y, l.want, S * WIDE);
        close_long(&l);
    }
}

static void *cancel_later(void *run)
{
    nap(300);
    ein_run_cancel(run);
    return NULL;
}

/* By another thread, while this one waits. */
static void cancel_from_elsewhere(void **state)
{
    long_run l;
    pthread_t thread;
    int cancelled = 0;
    (void)state;
    open_long(&l, "host:2");
    for (int i = 0; i < 20 && cancelled == 0; i++) {
        assert_int_equal(ein_run_start(l.s.r), EIN_OK);
        assert_int_equal(pthread_create(&thread, NULL, cancel_later, l.s.r), 0);
        ein_status status = ein_run_wait(l.s.r);
        pthread_join(thread, NULL);
        assert_true(status == EIN_OK || status == EIN_CANCELLED);
        cancelled += status == EIN_CANCELLED;
    }
    assert_int_equal(cancelled, 1);
    close_long(&l);
}

/* A freed run is waited for: nothing writes to its output afterwards. */
static void free_started(void **state)
{
    long_run l;
    (void)state;
    open_long(&l, "host:3");
    assert_int_equal(ein_run_start(l.s.r), EIN_OK);
    ein_run_free(l.s.r);
    assert_near(l.y, l.want, S * WIDE);
    memset(l.y, 0, S * WIDE * sizeof *l.y);
    nap(2000);
    for (int i = 0; i < S * WIDE; i++) assert_float_equal(l.y[i], 0, 0);
    assert_int_equal(ein_run_create(&l.s.r, l.s.p), EIN_OK);
    close_long(&l);
}

/* ---- states ------------------------------------------------------------------------------------------- */

/* One row of the cache per run; the sum of all. Long work in between, so that a cancel finds it at work. */
static void cancelled_state(void **state)
{
    float row[D] = {0}, sum[D], *w = make_weights(LONG, WIDE), x[S * WIDE] = {0}, y[S * WIDE];
    session s;
    ein_state *cache;
    (void)state;
    session_open(&s, "host:2");
    ein_tensor kept = ein_state_append(s.g, ein_state_tensor(s.g, "cache", EIN_F32, SHAPE(4, D)),
                                       INPUT(s.g, "row", 1, D), 0, ein_scalar_input(s.g, "at"));
    ein_output(s.g, "sum", ein_sum(s.g, kept, 1, (int[]){0}, 0));
    build_layers(&s, LONG, WIDE, w);
    session_start(&s);
    assert_int_equal(ein_state_create(&cache, s.p), EIN_OK);
    assert_int_equal(ein_run_state(s.r, cache), EIN_OK);
    assert_int_equal(ein_run_input(s.r, "row", row, sizeof row), EIN_OK);
    assert_int_equal(ein_run_input(s.r, "x", x, sizeof x), EIN_OK);
    assert_int_equal(ein_run_output(s.r, "sum", sum, sizeof sum), EIN_OK);
    assert_int_equal(ein_run_output(s.r, "y", y, sizeof y), EIN_OK);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < D; k++) row[k] = (float)(i + k);
        assert_int_equal(ein_run_scalar(s.r, "at", i), EIN_OK);
        session_once(&s);
    }
    for (int k = 0; k < D; k++) assert_float_equal(sum[k], 2 * k + 1, 0);
    ein_status status = EIN_OK;
    for (int i = 0; i < 20 && status == EIN_OK; i++) {
        assert_int_equal(ein_run_start(s.r), EIN_OK);
        ein_run_cancel(s.r);
        status = ein_run_wait(s.r);
    }
    assert_int_equal(status, EIN_CANCELLED);
    assert_int_equal(ein_run_start(s.r), EIN_INVALID);
    assert_string_equal(ein_run_error(s.r), "the state is undefined after a run that did not end; reset it");
    assert_int_equal(ein_state_reset(cache), EIN_OK);
    assert_int_equal(ein_run_scalar(s.r, "at", 3), EIN_OK);
    session_once(&s);
    for (int k = 0; k < D; k++) assert_float_equal(sum[k], k + 1, 0); /* the old rows are gone */
    ein_state_free(cache);
    session_close(&s);
    free(w);
}

/* ---- device memory ------------------------------------------------------------------------------------ */

/* host:2 with devices of this many bytes. */
static void small_machine(double bytes, text *json)
{
    arena a = {NULL};
    machine m;
    error e = {0};
    assert_int_equal(ein__machine_parse(&a, "host:2", &m, &e), EIN_OK);
    for (int d = 0; d < 2; d++) m.devices[d].memory_bytes = bytes;
    assert_int_equal(ein__machine_print(&m, json), EIN_OK);
    ein__arena_free(&a);
}

/* Weights that do not fit fail the compile, activations the run; what fits still works, and with the big ones
 * gone so does everything. */
static void no_device_memory(void **state)
{
    enum { BIG = 640, ROWS = 256 };
    text json = {0};
    session s;
    ein_run *runs[16];
    int n = 0;
    float *w = calloc(2 * BIG * BIG, sizeof *w);
    (void)state;
    assert_non_null(w);
    small_machine(4 << 20, &json);
    session_open(&s, json.bytes);
    assert_int_equal(ein_weights_add(s.w, "w", EIN_F32, SHAPE(BIG, BIG), w, EIN_BORROW), EIN_OK);
    assert_int_equal(ein_weights_add(s.w, "v", EIN_F32, SHAPE(2 * BIG, BIG), w, EIN_BORROW), EIN_OK);
    ein_tensor x = INPUT(s.g, "x", ROWS, BIG);
    ein_output(s.g, "y", ein_linear(s.g, x, ein_parameter(s.g, "w", EIN_F32, SHAPE(BIG, BIG)), NONE));
    session_compile(&s, NULL);
    while (n < 16 && ein_run_create(&runs[n], s.p) == EIN_OK) n++;
    assert_in_range(n, 1, 15);
    assert_null(runs[n]);
    assert_non_null(strstr(ein_context_error(s.c), "bytes wanted, "));
    assert_non_null(strstr(ein_context_error(s.c), "of 4194304 are taken"));
    assert_int_equal(ein_run_create(&runs[n], s.p), EIN_NO_DEVICE_MEMORY);
    ein_run_free(runs[--n]); /* room for one */
    assert_int_equal(ein_run_create(&runs[n++], s.p), EIN_OK);

    session big = s; /* v does not fit beside them */
    assert_int_equal(ein_graph_create(&big.g), EIN_OK);
    x = INPUT(big.g, "x", 1, BIG);
    ein_output(big.g, "y", ein_linear(big.g, x, ein_parameter(big.g, "v", EIN_F32, SHAPE(2 * BIG, BIG)), NONE));
    ein_compile_options o = {.size = sizeof o, .weights = s.w};
    assert_int_equal(ein_compile(&big.p, s.c, big.g, &o), EIN_NO_DEVICE_MEMORY);
    assert_non_null(strstr(ein_context_error(s.c), "are taken"));
    int64_t before = ein_weights_device_bytes(s.w, 0);
    ein_weights_free(s.w);
    while (n > 0) ein_run_free(runs[--n]);
    ein_program_free(s.p);
    s.p = NULL;
    assert_true(before > 0);
    assert_int_equal(ein_weights_create(&s.w, s.c), EIN_OK);
    assert_int_equal(ein_weights_add(s.w, "v", EIN_F32, SHAPE(2 * BIG, BIG), w, EIN_BORROW), EIN_OK);
    o.weights = s.w;
    if (ein_compile(&big.p, s.c, big.g, &o) != EIN_OK) fail_msg("%s", ein_context_error(s.c));
    ein_program_free(big.p);
    ein_graph_free(big.g);
    session_close(&s);
    ein__text_free(&json);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_program), cmocka_unit_test(two_programs),          cmocka_unit_test(same_bits),
        cmocka_unit_test(cancel),      cmocka_unit_test(cancel_from_elsewhere), cmocka_unit_test(free_started),
        cmocka_unit_test(cancelled_state), cmocka_unit_test(no_device_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
