/* SPDX-License-Identifier: Apache-2.0 */
/* Order: first run, check, counting run; then, in a context of its own that finds the cache only, warm start
 * and timed runs. Every run must repeat the first one's bits. */
#include "tools/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit/context.h"
#include "tools/args.h"
#include "tools/parallel.h"

typedef struct protocol {
    workload *work;
    const char *machine, *cache_dir, *plan;
    int repeat;
    void **first; /* outputs of the first run */
    measure *out;
} protocol;

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static ein_status keep_first(protocol *p)
{
    const session *s = &p->out->session;
    int n = p->work->graph->g.outputs.n;
    NEW(&p->out->arena, p->first, n);
    for (int i = 0; i < n; i++) {
        p->first[i] = ein__arena_get(&p->out->arena, s->bytes[i], 1);
        if (p->first[i] == NULL) return EIN_NO_MEMORY;
        memcpy(p->first[i], s->outputs[i], s->bytes[i]);
    }
    return EIN_OK;
}

static void compare_bits(protocol *p)
{
    const session *s = &p->out->session;
    for (int i = 0; i < p->work->graph->g.outputs.n; i++) {
        if (memcmp(p->first[i], s->outputs[i], s->bytes[i]) != 0) p->out->repeats = false;
    }
}

static ein_status first_run(protocol *p)
{
    measure *m = p->out;
    TRY(session_open(&m->session, p->work, p->machine, p->cache_dir));
    double began = clock_seconds();
    TRY(session_prepare(&m->session, p->plan, false, &m->program));
    progress_report(p->work->progress, "first run", 0);
    TRY(session_run(&m->session, &m->program));
    m->cold_ms = (clock_seconds() - began - m->session.prime_seconds) * 1e3;
    ein_program_get_stats(m->program.program, &m->cold);
    return keep_first(p);
}

static ein_status count_bytes(protocol *p)
{
    session *s = &p->out->session;
    prepared counting = {0};
    progress_report(p->work->progress, "counting run", 0);
    /* The first program's plan: a search that finds the weights placed may come to another one. */
    const char *plan = ein_program_plan(p->out->program.program);
    ein_status status = session_prepare(s, plan, true, &counting);
    if (status == EIN_OK) status = session_run(s, &counting);
    for (int d = 0; status == EIN_OK && d < ein_context_device_count(s->context); d++) {
        p->out->moved += ein_run_tally(counting.run, d);
    }
    if (status == EIN_OK) compare_bits(p);
    p->out->counted = true;
    session_release(&counting);
    return status;
}

static ein_status warm_start(protocol *p)
{
    measure *m = p->out;
    session_release(&m->program);
    session_close(&m->session);
    TRY(session_open(&m->session, p->work, p->machine, p->cache_dir));
    double began = clock_seconds();
    TRY(session_prepare(&m->session, p->plan, false, &m->program));
    double seconds = clock_seconds() - began - m->session.prime_seconds;
    ein_program_get_stats(m->program.program, &m->warm);
    m->warm_ms = seconds * 1e3 - m->warm.place_ms;
    return EIN_OK;
}

static ein_status time_runs(protocol *p)
{
    measure *m = p->out;
    double *ms;
    NEW(&m->arena, ms, p->repeat);
    for (int i = 0; i < p->repeat; i++) {
        progress_report(p->work->progress, "run", (double)i / p->repeat);
        double began = clock_seconds();
        TRY(session_run(&m->session, &m->program));
        ms[i] = (clock_seconds() - began) * 1e3;
        compare_bits(p);
    }
    qsort(ms, (size_t)p->repeat, sizeof *ms, rising);
    m->median_ms = (ms[(p->repeat - 1) / 2] + ms[p->repeat / 2]) / 2;
    return EIN_OK;
}

ein_status measure_workload(workload *w, const char *machine, const char *cache_dir, const char *plan,
                            bool check, int repeat, measure *out)
{
    *out = (measure){
        .cold.size = sizeof out->cold, .warm.size = sizeof out->warm, .checked = check, .repeats = true};
    protocol p = {w, machine, cache_dir, plan, repeat, NULL, out};
    TRY(first_run(&p));
    if (check) TRY(workload_check(w, p.first, &out->verdict));
    if (check && !out->verdict.ok) return EIN_OK;
    if ((check || repeat > 0) && out->session.context->machine.host) TRY(count_bytes(&p)); /* GPUs do not count */
    if (repeat == 0) return EIN_OK;
    TRY(warm_start(&p));
    out->timed = true;
    return time_runs(&p);
}

bool measure_ok(const measure *m)
{
    return m->repeats && (!m->checked || m->verdict.ok) && (!m->counted || m->moved == m->cold.predicted_bytes);
}

int measure_complain(const measure *m, ein_status status)
{
    const session *s = &m->session;
    const char *line = s->message[0] != 0 ? s->message : s->work->error.line;
    complain(0, "%s", line[0] != 0 ? line : ein_status_name(status));
    const char *detail = s->context != NULL ? ein_context_detail(s->context) : "";
    if (detail[0] != 0) fprintf(stderr, "%s\n", detail);
    return exit_of(status);
}

void measure_close(measure *m)
{
    session_release(&m->program);
    session_close(&m->session);
    ein__arena_free(&m->arena);
}
