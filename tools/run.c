/* SPDX-License-Identifier: Apache-2.0 */
/* ein run MODEL: one workload on one machine, in one row. */
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "jit/context.h"
#include "tools/args.h"
#include "tools/commands.h"
#include "tools/generate.h"
#include "tools/measure.h"
#include "tools/report.h"
#include "tools/result.h"

enum { PLAN_MOST = 64 << 20, REPEAT = 5 };

typedef struct command {
    args args;
    const char *machine, *plan;
    workload work;
    measure measure;
    generation tokens;
    bool generated;
} command;

static const char TAKES[] = "devices machine target check repeat json plan explain progress tokens tokens-file generate "
                            "stop-at-eos dtype input output";

/* ---- the row --------------------------------------------------------------------------------------- */

static json_t *ms_if(bool known, double ms) { return known ? report_number(ms) : json_null(); }

/* Of a result that was wrong nothing is timed or counted. */
static json_t *row_of(const command *c)
{
    const measure *m = &c->measure;
    const ein_program_stats *cold = &m->cold;
    int searches = cold->searches + c->tokens.stats.searches, compiles = cold->compiles + c->tokens.stats.compiles;
    json_t *row = json_pack(
        "{s:s, s:s, s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:I, s:i, s:i, s:o, s:i, s:I, s:I, s:o, s:o, s:b, s:b}", "model",
        c->work.name, "target", m->session.context->machine.host ? "host" : "cuda", "devices", ein_context_device_count(m->session.context), "cache",
        searches == 0 && compiles == 0 ? "hit" : "miss", "cold_ms", report_number(m->cold_ms), "warm_ms",
        ms_if(m->timed, m->warm_ms), "median_ms", ms_if(m->timed, m->median_ms), "predicted_ms",
        report_number(cold->predicted_us * 1e-3), "bytes_moved", m->counted ? json_integer(m->moved) : json_null(),
        "predicted_bytes", (json_int_t)cold->predicted_bytes, "searches", searches, "compiles", compiles,
        "warm_compiles", m->timed ? json_integer(m->warm.compiles) : json_null(), "kernels",
        cold->kernels + c->tokens.stats.kernels, "weight_bytes", (json_int_t)cold->weight_bytes, "buffer_bytes",
        (json_int_t)cold->buffer_bytes, "max_rel_error", ms_if(m->checked, m->verdict.error), "worst_row",
        ms_if(m->checked, m->verdict.worst_row), "repeats", (int)m->repeats, "ok", (int)measure_ok(m));
    if (row == NULL) return NULL;
    json_object_set_new(row, "dtype", c->work.model.use.dtype != 0 ? json_string(ein__dtype_name(c->work.model.use.dtype)) : json_null());
    if (!m->checked || m->verdict.ok)
        result_add(row, &c->work, m->session.outputs, c->generated ? &c->tokens : NULL);
    return row;
}

static void say_why(const measure *m)
{
    if (m->checked && !m->verdict.ok) {
        complain(0, "the result is wrong: error %.3g by norm (at most %.3g), %.3g of the worst row's bound",
                 m->verdict.error, m->verdict.tolerance, m->verdict.worst_row);
    } else if (m->counted && m->moved != m->cold.predicted_bytes) {
        complain(0, "%lld bytes were moved, %lld were predicted", (long long)m->moved,
                 (long long)m->cold.predicted_bytes);
    } else if (!m->repeats) {
        complain(0, "two runs gave different bits");
    }
}

static int print_row(const command *c)
{
    report r;
    report_begin(&r, c->args.json);
    const char *explain = c->args.explain ? ein_program_explain(c->measure.program.program) : NULL;
    json_t *row = row_of(c);
    if (explain != NULL && c->args.json) json_object_set_new(row, "explain", json_string(explain));
    if (explain != NULL && !c->args.json) printf("%s\n", explain);
    report_row(&r, row);
    bool printed = report_end(&r);
    say_why(&c->measure);
    return printed && measure_ok(&c->measure) ? EXIT_DONE : EXIT_WRONG;
}

/* ---- the run --------------------------------------------------------------------------------------- */

/* What comes after a right first run. */
static ein_status finish(command *c)
{
    measure *m = &c->measure;
    workload *w = &c->work;
    if (!measure_ok(m)) return EIN_OK;
    if (w->request.output != NULL) TRY(result_write(w, m->session.outputs, w->request.output));
    if (w->request.generate == 0) return EIN_OK;
    c->generated = true;
    return generate(&m->session, &w->arena, &c->tokens);
}

static ein_status open_and_fill(command *c, const request *r)
{
    workload *w = &c->work;
    ein_status status = workload_open(w, c->args.words[0], r, w->progress);
    if (status == EIN_OK && w->note != NULL) fprintf(stderr, "ein: note: %s\n", w->note);
    return status == EIN_OK ? workload_fill(w) : status;
}

static int run_workload(command *c, const request *r)
{
    workload *w = &c->work;
    ein_status status = open_and_fill(c, r);
    progress_end(w->progress);
    if (status != EIN_OK) return complain(exit_of(status), "%s", w->error.line);
    /* Trained weights are there to be used: timing is only for who asks for it. */
    int repeat = c->args.repeat > 0 ? c->args.repeat : w->model.folder != NULL ? 0 : REPEAT;
    status = measure_workload(w, c->machine, NULL, c->plan, c->args.check, repeat, &c->measure);
    if (status == EIN_OK) status = finish(c);
    progress_end(w->progress);
    int code = status == EIN_OK ? print_row(c) : measure_complain(&c->measure, status);
    measure_close(&c->measure);
    return code;
}

static int read_and_run(command *c)
{
    text plan = {0};
    arena a = {0};
    error e = {0};
    progress p;
    request r;
    ein_status status = request_read(&a, &c->args, &r, &e);
    if (status == EIN_OK && c->args.plan != NULL) {
        status = ein__file_read(c->args.plan, PLAN_MOST, true, &plan, &e);
        c->plan = ein__text_get(&plan);
    }
    int code = status == EIN_OK ? EXIT_DONE : complain(EXIT_USAGE, "%s", e.line);
    if (code == EXIT_DONE) {
        progress_begin(&p, c->args.progress);
        c->work = (workload){.progress = &p};
        code = run_workload(c, &r);
        workload_close(&c->work);
    }
    ein__text_free(&plan);
    ein__arena_free(&a);
    return code;
}

int command_run(int argc, char **argv)
{
    command c = {0};
    char machine[256];
    int code = args_parse(argc, argv, TAKES, 1, 1, &c.args);
    if (code == EXIT_DONE) code = args_machine(&c.args, machine, sizeof machine);
    if (code != EXIT_DONE) return code;
    c.machine = machine;
    return read_and_run(&c);
}
