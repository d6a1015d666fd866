/* SPDX-License-Identifier: Apache-2.0 */
/* ein demo: a LLaMA-7B block at full width on 8 virtual devices, checked against the reference and against
 * one device, cold and from the cache. Its cache is a temporary folder, so that the first call is a first
 * call. */
#include <math.h>
#include <stdio.h>

#include "tools/args.h"
#include "tools/commands.h"
#include "tools/measure.h"
#include "tools/parallel.h"
#include "tools/report.h"
#include "tools/temporary.h"

static const char MODEL[] = "llama-7b:layers=1,seq=128";
enum { DEVICES = 8, REPEAT = 3 };

typedef struct demo {
    workload work;
    measure one, many;
    double difference; /* of their results, by norm */
    char cache_dir[256];
    bool json;
} demo;

static double difference(const workload *w, void *const *a, void *const *b)
{
    double d = 0, norm = 0;
    const graph *g = &w->graph->g;
    for (int i = 0; i < g->outputs.n; i++) {
        ein_dtype dtype = g->values.items[g->outputs.items[i].value].dtype;
        i64 bytes = ein__dtype_bytes(dtype), n = ein__value_numel(g, g->outputs.items[i].value) * bytes;
        for (i64 k = 0; k < n; k += bytes) {
            double x = ein__dtype_read(dtype, (char *)a[i] + k), y = ein__dtype_read(dtype, (char *)b[i] + k);
            d += (x - y) * (x - y);
            norm += x * x;
        }
    }
    return sqrt(d / norm);
}

static int on(demo *d, int devices, bool check, measure *out)
{
    char machine[16];
    if (!d->json) printf("On %d device%s:\n", devices, devices > 1 ? "s" : "");
    fflush(stdout);
    snprintf(machine, sizeof machine, "host:%d", devices);
    ein_status status = measure_workload(&d->work, machine, d->cache_dir, NULL, check, REPEAT, out);
    progress_end(d->work.progress);
    return status == EIN_OK ? EXIT_DONE : measure_complain(out, status);
}

/* A whole call: what comes before the run, and the run. */
static json_t *call_row(const char *call, const measure *m, int devices, bool first)
{
    const ein_program_stats *s = first ? &m->cold : &m->warm;
    double whole = first ? m->cold_ms : m->warm_ms + m->median_ms;
    return json_pack("{s:s, s:i, s:i, s:i, s:o, s:o, s:o}", "call", call, "devices", devices, "searches",
                     s->searches, "compiles", s->compiles, "search_ms", report_number(s->search_ms),
                     "compile_ms", report_number(s->compile_ms), "whole_ms", report_number(whole));
}

static bool right(const demo *d)
{
    return measure_ok(&d->one) && measure_ok(&d->many) && d->difference < 1e-5;
}

static int conclude(demo *d)
{
    report r;
    d->difference = difference(&d->work, d->one.session.outputs, d->many.session.outputs);
    if (!d->json) {
        printf("\nThe plan for %d devices, op by op:\n\n%s\n", DEVICES,
               ein_program_explain(d->many.program.program));
    }
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
            "of this computer's %d cores). Numbers are seeded. The plan is searched, its kernels are\n"
            "generated and compiled, and the result is compared with a reference in f64 and with one\n"
            "device.\n",
            ein_version(), DEVICES, parallel_cores());
        fflush(stdout);
    }
    ein_status status = workload_open(&d->work, MODEL, NULL, d->work.progress);
    if (status == EIN_OK) status = workload_fill(&d->work);
    if (status != EIN_OK) return complain(exit_of(status), "%s", d->work.error.line);
    int code = on(d, 1, false, &d->one);
    if (code == EXIT_DONE) code = on(d, DEVICES, true, &d->many);
    return code == EXIT_DONE ? conclude(d) : code;
}

int command_demo(int argc, char **argv)
{
    args a;
    progress p;
    int code = args_parse(argc, argv, "json", 0, 0, &a);
    if (code != EXIT_DONE) return code;
    demo d = {.json = a.json, .work.progress = &p};
    if (!temporary_make(d.cache_dir, sizeof d.cache_dir)) return EXIT_USAGE;
    progress_begin(&p, true);
    code = show(&d);
    progress_end(&p);
    temporary_remove(d.cache_dir);
    measure_close(&d.one);
    measure_close(&d.many);
    workload_close(&d.work);
    return code;
}
