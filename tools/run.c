/* SPDX-License-Identifier: Apache-2.0 */
/* ein run MODEL: one workload on one machine, in one row. */
#include <stdio.h>

#include "core/base/file.h"
#include "tools/args.h"
#include "tools/commands.h"
#include "tools/measure.h"
#include "tools/report.h"

enum { PLAN_MOST = 64 << 20 };

/* Of a result that was wrong nothing is timed or counted. */
static json_t *row_of(const measure *m)
{
    bool timed = !m->checked || m->verdict.ok;
    const ein_program_stats *cold = &m->cold;
    return json_pack("{s:s, s:s, s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:I,"
                     " s:i, s:i, s:o, s:i, s:I, s:I, s:o, s:o, s:b, s:b}",
                     "model", m->session.work->name, "target", "host", "devices",
                     ein_context_device_count(m->session.context), "cache",
                     cold->searches == 0 && cold->compiles == 0 ? "hit" : "miss", "cold_ms",
                     report_number(m->cold_ms), "warm_ms", timed ? report_number(m->warm_ms) : json_null(),
                     "median_ms", timed ? report_number(m->median_ms) : json_null(), "predicted_ms",
                     report_number(cold->predicted_us * 1e-3), "bytes_moved",
                     timed ? json_integer(m->moved) : json_null(), "predicted_bytes",
                     (json_int_t)cold->predicted_bytes, "searches", cold->searches, "compiles",
                     cold->compiles, "warm_compiles", timed ? json_integer(m->warm.compiles) : json_null(),
                     "kernels", cold->kernels, "weight_bytes", (json_int_t)cold->weight_bytes, "buffer_bytes",
                     (json_int_t)cold->buffer_bytes, "max_rel_error",
                     m->checked ? report_number(m->verdict.error) : json_null(), "worst_row",
                     m->checked ? report_number(m->verdict.worst_row) : json_null(), "repeats",
                     (int)m->repeats, "ok", (int)measure_ok(m));
}

static void say_why(const measure *m)
{
    if (m->checked && !m->verdict.ok) {
        complain(0, "the result is wrong: error %.3g by norm (at most 1e-5), %.3g of the worst row's bound",
                 m->verdict.error, m->verdict.worst_row);
    } else if (m->moved != m->cold.predicted_bytes) {
        complain(0, "%lld bytes were moved, %lld were predicted", (long long)m->moved,
                 (long long)m->cold.predicted_bytes);
    } else if (!m->repeats) {
        complain(0, "two runs gave different bits");
    }
}

static int print_measure(const measure *m, const args *a)
{
    report r;
    report_begin(&r, a->json);
    const char *explain = a->explain ? ein_program_explain(m->program.program) : NULL;
    json_t *row = row_of(m);
    if (explain != NULL && a->json) json_object_set_new(row, "explain", json_string(explain));
    if (explain != NULL && !a->json) printf("%s\n", explain);
    report_row(&r, row);
    bool printed = report_end(&r);
    say_why(m);
    return printed && measure_ok(m) ? EXIT_DONE : EXIT_WRONG;
}

static int run_workload(workload *w, const args *a, const char *machine, const char *plan)
{
    measure m;
    ein_status status = workload_open(w, a->words[0], w->progress);
    if (status == EIN_OK && w->model.note != NULL) fprintf(stderr, "ein: note: %s\n", w->model.note);
    if (status == EIN_OK) status = workload_fill(w);
    progress_end(w->progress);
    if (status != EIN_OK) return complain(exit_of(status), "%s", w->error.line);
    status = measure_workload(w, machine, NULL, plan, a->check, a->repeat, &m);
    progress_end(w->progress);
    int code = status == EIN_OK ? print_measure(&m, a) : measure_complain(&m, status);
    measure_close(&m);
    return code;
}

int command_run(int argc, char **argv)
{
    args a;
    char machine[256];
    progress p;
    text plan = {0};
    error e = {0};
    int code =
        args_parse(argc, argv, "devices machine target check repeat json plan explain progress", 1, 1, &a);
    if (code == EXIT_DONE) code = args_target(&a);
    if (code == EXIT_DONE) code = args_machine(&a, machine, sizeof machine);
    if (code != EXIT_DONE) return code;
    if (a.plan != NULL && ein__file_read(a.plan, PLAN_MOST, true, &plan, &e) != EIN_OK) {
        ein__text_free(&plan);
        return complain(EXIT_USAGE, "%s", e.line);
    }
    progress_begin(&p, a.progress);
    workload w = {.progress = &p};
    code = run_workload(&w, &a, machine, a.plan != NULL ? ein__text_get(&plan) : NULL);
    workload_close(&w);
    ein__text_free(&plan);
    return code;
}
