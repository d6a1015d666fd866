/* SPDX-License-Identifier: Apache-2.0 */
/* ein demo: a LLaMA-7B block at full width on 8 virtual devices, checked against the reference and against
 * one device, cold and from the cache. Its cache is a temporary folder, so that the first call is a first
 * call. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jit/cache/cache.h"
#include "tools/args.h"
#include "tools/commands.h"
#include "tools/measure.h"
#include "tools/parallel.h"
#include "tools/report.h"

static const char MODEL[] = "llama-7b:layers=1,seq=128";
enum { DEVICES = 8, REPEAT = 3 };

typedef struct demo {
    workload work;
    measure one, many;
    float **alone; /* outputs of one device, on `arena` */
    arena arena;
    double difference; /* of the two, by norm */
    char cache_dir[256];
    bool json;
} demo;

static int broken(const session *s, ein_status status)
{
    const char *line = s->message[0] != 0 ? s->message : s->work->error.line;
    return complain(exit_of(status), "%s", line[0] != 0 ? line : ein_status_name(status));
}

static double difference(const workload *w, float *const *a, float *const *b)
{
    double d = 0, norm = 0;
    const graph *g = &w->graph->g;
    for (int i = 0; i < g->outputs.n; i++) {
        i64 n = ein__value_numel(g, g->outputs.items[i].value);
        for (i64 k = 0; k < n; k++) {
            double x = a[i][k], y = b[i][k];
            d += (x - y) * (x - y);
            norm += x * x;
        }
    }
    return sqrt(d / norm);
}

static ein_status keep_alone(demo *d, const session *s)
{
    int n = s->work->graph->g.outputs.n;
    NEW(&d->arena, d->alone, n);
    for (int i = 0; i < n; i++) {
        NEW(&d->arena, d->alone[i], s->bytes[i] / sizeof(float));
        memcpy(d->alone[i], s->outputs[i], s->bytes[i]);
    }
    return EIN_OK;
}

/* On one device there is nothing to check but the bits that are compared later. */
static int on_one(demo *d)
{
    session s;
    ein_status status = session_open(&s, &d->work, "host:1", d->cache_dir);
    if (status == EIN_OK) status = measure_session(&s, NULL, false, REPEAT, &d->one);
    if (status == EIN_OK) status = keep_alone(d, &s);
    progress_end(d->work.progress);
    int code = status == EIN_OK ? EXIT_DONE : broken(&s, status);
    session_release(&d->one.program);
    session_close(&s);
    return code;
}

static void print_plan(const demo *d)
{
    printf("\nThe plan for %d devices, op by op:\n\n%s\n", DEVICES,
           ein_program_explain(d->many.program.program));
}

static int on_many(demo *d)
{
    session s;
    char machine[16];
    snprintf(machine, sizeof machine, "host:%d", DEVICES);
    ein_status status = session_open(&s, &d->work, machine, d->cache_dir);
    if (status == EIN_OK) status = measure_session(&s, NULL, true, REPEAT, &d->many);
    progress_end(d->work.progress);
    if (status == EIN_OK) d->difference = difference(&d->work, d->alone, s.outputs);
    if (status == EIN_OK && !d->json) print_plan(d);
    int code = status == EIN_OK ? EXIT_DONE : broken(&s, status);
    session_release(&d->many.program);
    session_close(&s);
    return code;
}

static json_t *call_row(const char *call, const measure *m, int devices, bool first)
{
    const ein_program_stats *s = first ? &m->cold : &m->warm;
    return json_pack("{s:s, s:i, s:o, s:i, s:i, s:i, s:o}", "call", call, "devices", devices, "ms",
                     report_number(first ? m->cold_ms : m->warm_ms + m->median_ms), "searches", s->searches,
                     "compiles", s->compiles, "kernels", s->kernels, "run_ms", report_number(m->median_ms));
}

static bool right(const demo *d)
{
    return measure_ok(&d->one) && measure_ok(&d->many) && d->difference < 1e-5;
}

static int conclude(const demo *d)
{
    report r;
    report_begin(&r, d->json);
    report_row(&r, call_row("first", &d->many, DEVICES, true));
    report_row(&r, call_row("cached", &d->many, DEVICES, false));
    report_row(&r, call_row("first", &d->one, 1, true));
    report_row(&r, call_row("cached", &d->one, 1, false));
    if (!report_end(&r)) return EXIT_USAGE;
    if (!d->json) putchar('\n');
    report_begin(&r, d->json);
    report_row(&r,
               json_pack("{s:s, s:i, s:o, s:o, s:o, s:I, s:I, s:b}", "model", MODEL, "devices", DEVICES,
                         "max_rel_error", report_number(d->many.verdict.error), "worst_row",
                         report_number(d->many.verdict.worst_row), "difference_from_1_device",
                         report_number(d->difference), "bytes_moved", (json_int_t)d->many.moved,
                         "predicted_bytes", (json_int_t)d->many.cold.predicted_bytes, "ok", (int)right(d)));
    if (!report_end(&r)) return EXIT_USAGE;
    return right(d) ? EXIT_DONE : complain(EXIT_WRONG, "the result is wrong");
}

static int show(demo *d)
{
    if (!d->json) {
        printf(
            "libein %s: one block of LLaMA-7B at full width, 128 positions, on %d virtual devices (shares\n"
            "of this computer's %d cores). Numbers are seeded. The plan is searched, its kernels are generated\n"
            "and compiled, and the result is compared with a reference in f64 and with one device.\n\n",
            ein_version(), DEVICES, parallel_cores());
        fflush(stdout);
    }
    ein_status status = workload_open(&d->work, MODEL, d->work.progress);
    if (status == EIN_OK) status = workload_fill(&d->work);
    if (status != EIN_OK) return complain(exit_of(status), "%s", d->work.error.line);
    int code = on_one(d);
    if (code == EXIT_DONE) code = on_many(d);
    return code == EXIT_DONE ? conclude(d) : code;
}

static void remove_cache(const char *dir)
{
    cache c;
    int removed;
    if (ein__cache_init(&c, dir) != EIN_OK) return;
    ein__cache_trim(&c, 0, &removed, NULL);
    ein__cache_fini(&c);
    rmdir(dir);
}

int command_demo(int argc, char **argv)
{
    args a;
    progress p;
    int code = args_parse(argc, argv, "json", 0, 0, &a);
    if (code != EXIT_DONE) return code;
    demo d = {.json = a.json, .work.progress = &p};
    const char *folder = getenv("TMPDIR");
    if (folder == NULL || *folder == 0) folder = "/tmp";
    snprintf(d.cache_dir, sizeof d.cache_dir, "%.200s/ein-demo-XXXXXX", folder);
             folder != NULL && *folder ? folder : "/tmp");
             if (mkdtemp(d.cache_dir) == NULL)
                 return complain(EXIT_USAGE, "%s: %s", d.cache_dir, strerror(errno));
             progress_begin(&p, true);
             code = show(&d);
             progress_end(&p);
             remove_cache(d.cache_dir);
             ein__arena_free(&d.arena);
             workload_close(&d.work);
             return code;
}
