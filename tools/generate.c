/* SPDX-License-Identifier: Apache-2.0 */
/* The prompt's program gives the first token. A second program, for one token, has the same weights and states; it is
 * compiled once, and told by scalars where it is. */
#include "tools/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/parallel.h"

typedef struct decoder {
    session *s;
    arena *a;
    model model; /* for one token */
    ein_graph *graph;
    prepared step;
    int32_t id, place;
    i64 next;
    double *ms; /* of each run */
    generation *out;
} decoder;

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool ends(const workload *w, i64 token)
{
    for (int i = 0; w->request.stop_at_end && i < w->model.n_ends; i++) {
        if (w->model.ends[i] == token) return true;
    }
    return false;
}

static bool done(const decoder *d)
{
    const generation *o = d->out;
    return o->tokens.n == d->s->work->request.generate || ends(d->s->work, o->tokens.items[o->tokens.n - 1]);
}

static ein_status bind(decoder *d)
{
    const graph *g = &d->graph->g;
    for (int i = 0; i < g->leaves.n; i++) {
        const leaf *l = &g->leaves.items[i];
        if (l->kind != LEAF_INPUT) continue;
        TRY(ein_run_input(d->step.run, l->name, strcmp(l->name, "positions") == 0 ? &d->place : &d->id, sizeof d->id));
    }
    TRY(ein_run_output(d->step.run, "next", &d->next, sizeof d->next));
    return ein_run_state(d->step.run, d->s->state);
}

static ein_status compile(decoder *d)
{
    workload *w = d->s->work;
    d->model = w->model;
    d->model.use.seq = 1;
    d->model.use.cached = w->model.use.capacity - 1;
    d->model.use.wanted = NEXT;
    if (ein_graph_create(&d->graph) != EIN_OK) return EIN_NO_MEMORY;
    ein_status status = model_build(&d->model, &w->names, d->graph);
    if (status != EIN_OK) return ein__fail(&w->error, status, "%s: %s", w->name, ein_graph_error(d->graph));
    TRY(session_compile(d->s, d->graph, NULL, false, &d->step));
    d->out->stats.size = sizeof d->out->stats;
    ein_program_get_stats(d->step.program, &d->out->stats);
    return bind(d);
}

/* One token more, at the place after all others. */
static ein_status step(decoder *d)
{
    generation *o = d->out;
    i64 place = d->s->work->model.use.seq + o->tokens.n - 1;
    d->id = (int32_t)o->tokens.items[o->tokens.n - 1];
    d->place = (int32_t)place;
    TRY(ein_run_scalar(d->step.run, "position", place));
    TRY(ein_run_scalar(d->step.run, "length", place + 1));
    TRY(session_run(d->s, &d->step));
    PUSH(d->a, &o->tokens, d->next);
    return EIN_OK;
}

static ein_status decode(decoder *d)
{
    generation *o = d->out;
    const workload *w = d->s->work;
    const i64 *first = d->s->outputs[workload_output(w, "next")];
    int n = 0;
    PUSH(d->a, &o->tokens, *first);
    if (done(d)) return EIN_OK;
    NEW(d->a, d->ms, w->request.generate);
    double began = clock_seconds();
    TRY(compile(d));
    while (!done(d)) {
        progress_report(w->progress, "tokens", (double)o->tokens.n / (double)w->request.generate);
        TRY(step(d));
        double now = clock_seconds();
        d->ms[n++] = (now - began) * 1e3;
        began = now;
    }
    o->first_ms = d->ms[0];
    qsort(d->ms + 1, (size_t)n - 1, sizeof *d->ms, rising);
    if (n > 1) o->token_ms = (d->ms[1 + (n - 2) / 2] + d->ms[1 + (n - 1) / 2]) / 2;
    return EIN_OK;
}

ein_status generate(session *s, arena *a, generation *out)
{
    decoder d = {.s = s, .a = a, .out = out};
    *out = (generation){.first_ms = NAN, .token_ms = NAN};
    ein_status status = decode(&d);
    if (status != EIN_OK && d.step.run != NULL && s->message[0] == 0) session_failed(s, status, ein_run_error(d.step.run));
    session_release(&d.step);
    ein_graph_free(d.graph);
    return status;
}
