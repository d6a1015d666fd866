/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that are one op after the other: what a link of the chain takes is the difference between a long chain's run
 * and a short one's, over their difference in links. So what a run costs but once, inputs and outputs, is not in it. A
 * chain may change between two devices at every link: then each has a hop before it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gpu.h"
#include "core/base/error.h"
#include "core/tensor/dtype.h"
#include "ein.h"
#include "tools/args.h"
#include "tools/parallel.h"
#include "tools/seeded.h"

typedef struct chain {
    const char *part, *link, *hop; /* names of rows; hop NULL: it stays on one device */
    ein_dtype dtype;
    int64_t rows, columns, kept; /* of x; rows of the result that are the output */
    double work;                 /* of a link, in units per second: bytes, operations */
    const char *unit;            /* 1e9 of them */
    /* Two links; w is none or of x's shape. The canonical form rolls a chain of pairs into a loop. */
    ein_tensor (*pair)(ein_graph *g, ein_tensor x, ein_tensor w);
    bool (*right)(const struct chain *c, int pairs, const void *y);
    int short_pairs, long_pairs, runs;
    void *x, *w; /* w NULL: none */
} chain;

static int64_t bytes_of(const chain *c, int64_t rows) { return rows * c->columns * ein__dtype_bytes(c->dtype); }

/* ---- plans -------------------------------------------------------------------------------------------- */

/* Everything uncut; ops on device 0, or by turns on 0 and 1. */
static void place(json_t *entry, int device)
{
    size_t i;
    json_t *axis, *axes = json_object_get(entry, "axes"), *cuts = json_object_get(entry, "cuts");
    json_int_t n = 1;
    json_array_foreach(axes, i, axis) n *= json_integer_value(json_object_get(axis, "extent"));
    if (axes != NULL) json_object_set_new(entry, "axes", json_pack("[{s:I, s:[i], s:[I]}]", "extent", n, "lo", 0, "hi", n));
    if (cuts != NULL) json_array_clear(cuts);
    json_object_set_new(entry, "devices", json_pack("[[i]]", device));
}

/* From any plan of the chain; free it. NULL: no memory. */
static char *plan_of(const char *any, bool turns)
{
    json_t *plan = json_loads(any, 0, NULL), *entry;
    size_t i;
    int ops = 0;
    json_array_foreach(json_object_get(plan, "nodes"), i, entry)
        if (json_object_get(entry, "view") == NULL) place(entry, turns ? ops++ % 2 : 0);
    json_array_foreach(json_object_get(plan, "leaves"), i, entry) place(entry, 0);
    json_array_foreach(json_object_get(plan, "carries"), i, entry) place(entry, turns ? 1 : 0); /* where a pair ends */
    char *text = json_dumps(plan, 0);
    json_decref(plan);
    return text;
}

/* ---- programs ----------------------------------------------------------------------------------------- */

typedef struct linked {
    int pairs;
    ein_program *program;
    ein_run *run;
    void *y, *first; /* output; what the first run gave, if that was right */
    int64_t moved;   /* bytes between devices in a run */
} linked;

static ein_status build(const chain *c, int pairs, ein_graph **out)
{
    TRY(ein_graph_create(out));
    ein_graph *g = *out;
    const int64_t shape[] = {c->rows, c->columns};
    ein_tensor x = ein_parameter(g, "x", c->dtype, 2, shape), w = {0};
    if (c->w != NULL) w = ein_parameter(g, "w", c->dtype, 2, shape);
    for (int i = 0; i < pairs; i++) x = c->pair(g, x, w);
    ein_output(g, "y", ein_slice(g, x, 0, 0, c->kept));
    return ein_graph_status(g);
}

static ein_status compile(ein_context *context, ein_weights *store, const ein_graph *g, bool turns, linked *out)
{
    ein_program *any = NULL;
    ein_compile_options o = {.size = sizeof o, .weights = store};
    TRY(ein_compile(&any, context, g, NULL));
    char *plan = plan_of(ein_program_plan(any), turns);
    ein_program_free(any);
    if (plan == NULL) return EIN_NO_MEMORY;
    o.plan = plan;
    ein_status s = ein_compile(&out->program, context, g, &o);
    free(plan);
    return s;
}

static ein_status prepare(ein_context *context, ein_weights *store, const chain *c, bool turns, linked *out)
{
    ein_graph *g = NULL;
    ein_program_stats stats = {.size = sizeof stats};
    ein_status s = build(c, out->pairs, &g);
    if (s == EIN_OK) s = compile(context, store, g, turns, out);
    ein_graph_free(g);
    TRY(s);
    TRY(ein_run_create(&out->run, out->program));
    ein_program_get_stats(out->program, &stats);
    out->moved = stats.predicted_bytes;
    if ((out->y = malloc((size_t)bytes_of(c, c->kept))) == NULL) return EIN_NO_MEMORY;
    return ein_run_output(out->run, "y", out->y, (size_t)bytes_of(c, c->kept));
}

static void release(linked *l)
{
    ein_run_free(l->run);
    ein_program_free(l->program);
    free(l->y);
    free(l->first);
}

/* ---- measurement -------------------------------------------------------------------------------------- */

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static ein_status run(const chain *c, linked *l, double *seconds, bool *right)
{
    memset(l->y, 0x55, (size_t)bytes_of(c, c->kept));
    double began = clock_seconds();
    TRY(ein_run_once(l->run));
    *seconds = clock_seconds() - began;
    size_t bytes = (size_t)bytes_of(c, c->kept);
    if (l->first != NULL) {
        *right = *right && memcmp(l->first, l->y, bytes) == 0;
        return EIN_OK;
    }
    *right = *right && c->right(c, l->pairs, l->y);
    if ((l->first = malloc(bytes)) == NULL) return EIN_NO_MEMORY;
    memcpy(l->first, l->y, bytes);
    return EIN_OK;
}

/* Seconds of a link: the median over pairs of runs, one of a short chain and one of a long one. */
static ein_status time_link(const chain *c, linked both[2], double *out, bool *right)
{
    double seconds[2], *each = malloc((size_t)c->runs * sizeof *each);
    if (each == NULL) return EIN_NO_MEMORY;
    ein_status s = EIN_OK;
    for (int i = -1; i < c->runs && s == EIN_OK && *right; i++) { /* the first is to warm up */
        for (int k = 0; k < 2 && s == EIN_OK; k++) s = run(c, &both[k], &seconds[k], right);
        if (i >= 0) each[i] = (seconds[1] - seconds[0]) / (2 * (both[1].pairs - both[0].pairs));
    }
    qsort(each, (size_t)c->runs, sizeof *each, rising);
    *out = (each[(c->runs - 1) / 2] + each[c->runs / 2]) / 2;
    free(each);
    return s;
}

/* The chain on device 0, or by turns on 0 and 1. A hop that the plan does not make would be a wrong measurement. */
static ein_status measure_chain(ein_context *context, ein_weights *store, const chain *c, bool turns, double *out, bool *right)
{
    linked both[2] = {{.pairs = c->short_pairs}, {.pairs = c->long_pairs}};
    ein_status s = EIN_OK;
    for (int k = 0; k < 2 && s == EIN_OK; k++) s = prepare(context, store, c, turns, &both[k]);
    int64_t hops = 2 * (c->long_pairs - c->short_pairs);
    if (s == EIN_OK && both[1].moved - both[0].moved != (turns ? hops * bytes_of(c, c->rows) : 0)) *right = false;
    if (s == EIN_OK && *right) s = time_link(c, both, out, right);
    if (s != EIN_OK && both[0].run != NULL && ein_run_error(both[0].run)[0] != 0) complain(0, "%s", ein_run_error(both[0].run));
    if (s != EIN_OK && both[1].run != NULL && ein_run_error(both[1].run)[0] != 0) complain(0, "%s", ein_run_error(both[1].run));
    for (int k = 0; k < 2; k++) release(&both[k]);
    return s;
}

static void add_row(gpu_bench *b, const chain *c, const char *what, int devices, double seconds)
{
    gpu_row row = {.part = c->part, .what = what, .devices = devices, .runs = c->runs, .first_ms = NAN, .warm_ms = NAN,
                   .run_us = seconds * 1e6, .rate = c->work / seconds * 1e-9, .unit = c->unit};
    if (c->work == 0) row.rate = NAN;
    gpu_bench_row(b, &row);
}

static ein_status bench_on(gpu_bench *b, ein_context *context, const chain *c, bool *right)
{
    double link = 0, turn = 0;
    ein_weights *store = NULL;
    ein_status s = ein_weights_create(&store, context);
    const int64_t shape[] = {c->rows, c->columns};
    if (s == EIN_OK) s = ein_weights_add(store, "x", c->dtype, 2, shape, c->x, EIN_BORROW);
    if (s == EIN_OK && c->w != NULL) s = ein_weights_add(store, "w", c->dtype, 2, shape, c->w, EIN_BORROW);
    if (s == EIN_OK) s = measure_chain(context, store, c, false, &link, right);
    if (s == EIN_OK && *right) add_row(b, c, c->link, 1, link);
    if (s == EIN_OK && *right && c->hop != NULL) {
        s = measure_chain(context, store, c, true, &turn, right);
        if (s == EIN_OK && *right) add_row(b, c, c->hop, 2, turn - link);
    }
    ein_weights_free(store);
    return s;
}

static int bench_chain(gpu_bench *b, const chain *c)
{
    char message[256] = "";
    bool right = true;
    ein_context *context = NULL;
    ein_context_options o = {.size = sizeof o, .machine = c->hop != NULL ? "cuda:2" : "cuda:1", .cache_dir = b->cache_dir,
                             .message = message, .message_bytes = sizeof message};
    if (c->x == NULL) return complain(EXIT_USAGE, "%s: no memory", c->link);
    ein_status s = ein_context_create(&context, &o);
    if (s == EIN_OK) s = bench_on(b, context, c, &right);
    else complain(0, "%s", message);
    if (s != EIN_OK && context != NULL) {
        complain(0, "%s: %s: %s", c->link, ein_status_name(s), ein_context_error(context));
        fprintf(stderr, "%s\n", ein_context_detail(context));
    }
    if (!right) complain(0, "%s: a wrong result", c->link);
    ein_context_free(context);
    return s != EIN_OK ? exit_of(s) : right ? EXIT_DONE : EXIT_WRONG;
}

/* ---- chains ------------------------------------------------------------------------------------------- */

static ein_tensor small_pair(ein_graph *g, ein_tensor x, ein_tensor w)
{
    (void)w;
    x = ein_map(g, "x0 + 1", 1, &x);
    return ein_map(g, "x0 * 0.5", 1, &x);
}

static bool small_right(const chain *c, int pairs, const void *y)
{
    const float *got = y, *x = c->x;
    for (int64_t i = 0; i < c->columns; i++) {
        float want = x[i];
        for (int k = 0; k < pairs; k++) {
            want = want + 1;
            want = want * 0.5f;
        }
        if (got[i] != want) return false;
    }
    return true;
}

int gpu_bench_launches(gpu_bench *b)
{
    chain c = {.part = "launch", .link = "a step", .hop = "a hop: event, wait, copy of 128 bytes", .dtype = EIN_F32, .rows = 1,
               .columns = 32, .kept = 1, .unit = "", .pair = small_pair, .right = small_right, .short_pairs = b->quick ? 2 : 50,
               .long_pairs = b->quick ? 4 : 550, .runs = b->quick ? 3 : 30};
    float *x = malloc((size_t)c.columns * sizeof *x);
    for (int64_t i = 0; x != NULL && i < c.columns; i++) x[i] = (float)i;
    c.x = x;
    int code = bench_chain(b, &c);
    free(x);
    return code;
}

/* Rows down by 3, then up by 1: two boxes each. */
static ein_tensor rolled_pair(ein_graph *g, ein_tensor x, ein_tensor w)
{
    (void)w;
    return ein_roll(g, ein_roll(g, x, 3, 0), -1, 0);
}

static bool rolled_right(const chain *c, int pairs, const void *y)
{
    const int32_t *got = y;
    for (int64_t r = 0; r < c->kept; r++) {
        int64_t from = ((r - 2 * pairs) % c->rows + c->rows) % c->rows;
        if (memcmp(got + r * c->columns, (int32_t *)c->x + from * c->columns, (size_t)bytes_of(c, 1)) != 0) return false;
    }
    return true;
}

int gpu_bench_copies(gpu_bench *b)
{
    chain c = {.part = "copy", .link = "boxes within a device, 256 MiB", .hop = "a box to another device, 256 MiB", .dtype = EIN_I32,
               .rows = 65536, .columns = 1024, .kept = 8, .unit = "GB/s", .pair = rolled_pair, .right = rolled_right,
               .short_pairs = 2, .long_pairs = 12, .runs = 10};
    if (b->quick) {
        c.rows = 64;
        c.long_pairs = 4;
        c.runs = 3;
        c.link = "boxes within a device, 256 KiB";
        c.hop = "a box to another device, 256 KiB";
    }
    int32_t *x = malloc((size_t)bytes_of(&c, c.rows));
    for (int64_t i = 0; x != NULL && i < c.rows * c.columns; i++) x[i] = (int32_t)i;
    c.x = x;
    c.work = (double)bytes_of(&c, c.rows);
    int code = bench_chain(b, &c);
    free(x);
    return code;
}

static ein_tensor product_pair(ein_graph *g, ein_tensor x, ein_tensor w)
{
    return ein_matmul(g, ein_matmul(g, x, w), w);
}

/* Row `x` of floats times w, rounded to bf16. */
static void multiply_row(const chain *c, const float *w, const double *x, double *sums)
{
    memset(sums, 0, (size_t)c->columns * sizeof *sums);
    for (int64_t k = 0; k < c->rows; k++)
        for (int64_t n = 0; n < c->columns; n++) sums[n] += x[k] * (double)w[k * c->columns + n];
    for (int64_t n = 0; n < c->columns; n++) {
        uint16_t rounded;
        ein__dtype_write(c->dtype, sums[n], &rounded);
        sums[n] = ein__dtype_read(c->dtype, &rounded);
    }
}

/* The first rows, each by itself: row r of a product is row r of x times w. */
static bool product_right(const chain *c, int pairs, const void *y)
{
    int64_t n = c->rows * c->columns;
    float *w = malloc((size_t)n * sizeof *w);
    double *row = malloc((size_t)c->columns * sizeof *row), *next = malloc((size_t)c->columns * sizeof *next), *swap;
    bool right = w != NULL && row != NULL && next != NULL;
    if (right) ein__dtype_convert(EIN_F32, w, c->dtype, c->w, n);
    for (int64_t r = 0; r < c->kept && right; r++) {
        double error = 0, norm = 0;
        for (int64_t i = 0; i < c->columns; i++) row[i] = ein__dtype_read(c->dtype, (uint16_t *)c->x + r * c->columns + i);
        for (int k = 0; k < 2 * pairs; k++) {
            multiply_row(c, w, row, next);
            swap = row, row = next, next = swap;
        }
        for (int64_t i = 0; i < c->columns; i++) {
            double got = ein__dtype_read(c->dtype, (const uint16_t *)y + r * c->columns + i);
            error += (got - row[i]) * (got - row[i]);
            norm += row[i] * row[i];
        }
        right = sqrt(error) <= 1e-2 * sqrt(norm);
    }
    free(w);
    free(row);
    free(next);
    return right;
}

/* A weight of deviation 1 / sqrt(k) leaves the numbers as large as they are. */
int gpu_bench_products(gpu_bench *b)
{
    int64_t size = b->quick ? 64 : 4096, n = size * size;
    chain c = {.part = "product", .link = b->quick ? "bf16 64^3" : "bf16 4096^3", .dtype = EIN_BF16, .rows = size, .columns = size,
               .kept = 2, .work = 2.0 * (double)size * (double)size * (double)size * 1e-3, .unit = "TFLOP/s", .pair = product_pair,
               .right = product_right, .short_pairs = 1, .long_pairs = b->quick ? 2 : 11, .runs = b->quick ? 3 : 10};
    float *numbers = malloc((size_t)n * sizeof *numbers);
    c.x = malloc((size_t)bytes_of(&c, size));
    c.w = malloc((size_t)bytes_of(&c, size));
    int code = EXIT_USAGE;
    if (numbers == NULL || c.x == NULL || c.w == NULL) {
        complain(0, "%s: no memory", c.link);
    } else {
        seeded_normal("x", 0, 1, n, numbers);
        ein__dtype_convert(EIN_BF16, c.x, EIN_F32, numbers, n);
        seeded_normal("w", 0, 1 / sqrtf((float)size), n, numbers);
        ein__dtype_convert(EIN_BF16, c.w, EIN_F32, numbers, n);
        code = bench_chain(b, &c);
    }
    free(numbers);
    free(c.x);
    free(c.w);
    return code;
}
