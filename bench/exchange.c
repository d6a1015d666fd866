/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges of known patterns on preset machines: how near to the bound, how long by formula, how
 * long the planning takes. Nothing runs: all times but the planning's are simulated. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/bench.h"
#include "exchange/schedule.h"
#include "tools/args.h"
#include "tools/report.h"

enum { CLASSES = 64, SEED = 1, SMALLEST = 13, LARGEST = 30 };

typedef enum pattern {
    ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, ROW_TO_COLUMN, ALL_REDUCE, BROADCAST, REDUCE, RANDOM_REPLICAS, RANDOM_PARTIALS,
    PATTERNS
} pattern;

static const char *const NAMES[] = {"all-gather", "reduce-scatter", "all-to-all", "row-to-column", "all-reduce",
                                    "broadcast", "reduce", "random-replicas", "random-partials"};
static const char *const MACHINES[] = {"dgx-a100", "dgx-1", "4xpcie", "bridge-pairs"};

typedef struct test_case {
    arena a;
    machine machine;
    const routes *routes;
    relation from, to;
    exchange_problem p;
    uint64_t seed;
} test_case;

/* ---- patterns ----------------------------------------------------------------------------------------- */

/* A non-empty subset of the devices, each as likely. */
static devset draw(test_case *c)
{
    c->seed = c->seed * 6364136223846793005u + 1442695040888963407u;
    return (devset)(1 + (c->seed >> 33) % ALL_DEVICES(c->machine.n_devices));
}

static ein_status cut_evenly(arena *a, relation *r, int i, i64 extent, int parts)
{
    i64 *at;
    NEW(a, at, parts + 1);
    for (int k = 0; k <= parts; k++) at[k] = extent * k / parts;
    r->axes[i] = (axis){.extent = extent, .n_parts = parts, .lo = at, .hi = at + 1};
    if (i >= r->n_axes) r->n_axes = i + 1;
    return EIN_OK;
}

/* rows x columns elements in so many parts. */
static ein_status grid(arena *a, i64 rows, i64 columns, int n_rows, int n_columns, int n_partials, relation *r, devset **on)
{
    *r = (relation){.n_blocks = n_rows * n_columns, .n_partials = n_partials};
    TRY(cut_evenly(a, r, 0, rows, n_rows));
    TRY(cut_evenly(a, r, 1, columns, n_columns));
    NEW(a, *on, r->n_blocks * n_partials);
    r->devices = *on;
    return EIN_OK;
}

static int nth_device(devset set, int k)
{
    for (k %= __builtin_popcount(set); k > 0; k--) set &= set - 1;
    return __builtin_ctz(set);
}

static ein_status lay_random(test_case *c, i64 rows, i64 columns, bool partials)
{
    int n = c->machine.n_devices, per = partials ? n : 1;
    devset *from, *to;
    TRY(grid(&c->a, rows, columns, CLASSES, 1, per, &c->from, &from));
    TRY(grid(&c->a, rows, columns, CLASSES, 1, 1, &c->to, &to));
    for (int b = 0; b < CLASSES; b++) {
        devset holders = draw(c);
        to[b] = draw(c);
        for (int j = 0; j < per; j++) from[b * per + j] = partials ? DEV(nth_device(holders, j)) : holders;
    }
    return EIN_OK;
}

/* Rows on the rows of a mesh of 2 x n/2 devices become columns on its columns. */
static ein_status lay_mesh(test_case *c, i64 rows, i64 columns)
{
    int half = c->machine.n_devices / 2;
    devset *from, *to;
    TRY(grid(&c->a, rows, columns, 2, 1, 1, &c->from, &from));
    TRY(grid(&c->a, rows, columns, 1, half, 1, &c->to, &to));
    for (int d = 0; d < 2 * half; d++) {
        from[d / half] |= DEV(d);
        to[d % half] |= DEV(d);
    }
    return EIN_OK;
}

static ein_status lay(test_case *c, pattern what, i64 elements)
{
    int n = c->machine.n_devices;
    i64 rows = 1 << 10, columns = elements >> 10;
    bool merged = what == REDUCE_SCATTER || what == ALL_REDUCE || what == REDUCE, parted = what == ALL_GATHER || what == ALL_TO_ALL;
    devset *from, *to, all = ALL_DEVICES(n);
    if (columns == 0) rows = elements, columns = 1;
    if (what == RANDOM_REPLICAS || what == RANDOM_PARTIALS) return lay_random(c, rows, columns, what == RANDOM_PARTIALS);
    if (what == ROW_TO_COLUMN) return lay_mesh(c, rows, columns);
    TRY(grid(&c->a, rows, columns, parted ? n : 1, 1, merged ? n : 1, &c->from, &from));
    TRY(grid(&c->a, rows, columns, what == REDUCE_SCATTER ? n : 1, what == ALL_TO_ALL ? n : 1, 1, &c->to, &to));
    for (int i = 0; i < c->from.n_blocks * c->from.n_partials; i++) from[i] = DEV(i % n);
    for (int i = 0; i < c->to.n_blocks; i++) to[i] = c->to.n_blocks > 1 ? DEV(i) : what == REDUCE ? DEV(0) : all;
    return EIN_OK;
}

static ein_status open_case(test_case *c, const char *machine_name, pattern what, i64 bytes, error *e)
{
    merge *sum;
    *c = (test_case){.seed = SEED};
    TRY(ein__machine_parse(&c->a, machine_name, &c->machine, e));
    TRY(ein__routes_make(&c->a, &c->machine, &c->routes));
    TRY(lay(c, what, bytes / 4));
    TRY(ein__merge_make(&c->a, MERGE_SUM, 1, EIN_F32, &sum));
    c->p = (exchange_problem){.n_states = 1, .states = {&c->from}, .used = 1, .dtype = EIN_F32,
                              .merge = c->from.n_partials > 1 ? sum : NULL, .n_devices = c->machine.n_devices, .to = &c->to};
    return EIN_OK;
}

/* ---- rows --------------------------------------------------------------------------------------------- */

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* Planned and proved; *plan_us is the processor time of planning alone. */
static ein_status synthesize(test_case *c, const char *family, exchange *x, double *plan_us, error *e)
{
    double start = now_us();
    if (family != NULL) TRY(ein__exchange_family(&c->a, &c->p, c->routes, family, x, e));
    else TRY(ein__exchange_make(&c->a, &c->p, c->routes, x, e));
    *plan_us = now_us() - start;
    return ein__exchange_check(&c->p, x, e);
}

static ein_status bench_case(const char *machine_name, pattern what, i64 bytes, report *r, error *e)
{
    test_case c;
    exchange x, direct;
    double plan_us, other_us;
    ein_status s = open_case(&c, machine_name, what, bytes, e);
    if (s == EIN_OK) s = synthesize(&c, NULL, &x, &plan_us, e);
    if (s == EIN_OK) s = synthesize(&c, "direct", &direct, &other_us, e);
    if (s == EIN_OK)
        report_row(r, json_pack("{s:s, s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:i, s:i}", "pattern", NAMES[what],
                                "machine", machine_name, "family", x.family, "bytes", (json_int_t)bytes, "bound_us",
                                report_number(x.bound * 1e6), "bandwidth_ratio", report_number(x.bandwidth / x.bound),
                                "planned_us", report_number(x.seconds * 1e6), "direct_us", report_number(direct.seconds * 1e6), "plan_us",
                                report_number(plan_us), "steps", x.n_steps, "transfers", x.n_transfers));
    ein__arena_free(&c.a);
    return s;
}

int suite_exchange(int argc, char **argv)
{
    args a;
    report r;
    error e = {0};
    ein_status s = EIN_OK;
    int code = args_parse(argc, argv, "machine json quick", 0, 1, &a);
    if (code != EXIT_DONE) return code;
    report_begin(&r, a.json);
    for (unsigned m = 0; m < sizeof MACHINES / sizeof *MACHINES; m++) {
        if (a.machine != NULL && strcmp(a.machine, MACHINES[m]) != 0) continue;
        for (int what = 0; what < PATTERNS; what++)
            for (int size = a.quick ? LARGEST : SMALLEST; size <= LARGEST && s == EIN_OK; size++)
                s = bench_case(MACHINES[m], (pattern)what, (i64)1 << size, &r, &e);
    }
    if (s != EIN_OK) complain(0, "%s", e.line);
    return report_end(&r) ? exit_of(s) : EXIT_USAGE;
}
