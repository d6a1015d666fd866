/* SPDX-License-Identifier: Apache-2.0 */
/* The library as its users call it. The leaves' names are all that ties the graph to the data. */
#include "tools/session.h"

#include <stdio.h>
#include <string.h>

#include "tools/parallel.h"

ein_status session_failed(session *s, ein_status status, const char *line)
{
    snprintf(s->message, sizeof s->message, "%s", line[0] != 0 ? line : ein_status_name(status));
    return status;
}

static ein_status add_weights(session *s)
{
    const graph *g = &s->work->graph->g;
    if (s->work->model.folder != NULL) return ein_weights_open(s->weights, s->work->model.folder);
    for (int i = 0; i < g->leaves.n; i++) {
        const leaf *l = &g->leaves.items[i];
        const value_info *v = &g->values.items[l->value];
        if (l->kind != LEAF_PARAMETER) continue;
        TRY(ein_weights_add(s->weights, l->name, v->dtype, v->rank, v->shape, s->work->leaves[i],
                            EIN_BORROW));
    }
    return EIN_OK;
}

static ein_status make_outputs(session *s)
{
    const graph *g = &s->work->graph->g;
    NEW(&s->arena, s->outputs, g->outputs.n);
    NEW(&s->arena, s->bytes, g->outputs.n);
    for (int i = 0; i < g->outputs.n; i++) {
        s->bytes[i] = workload_bytes(g, g->outputs.items[i].value);
        s->outputs[i] = ein__arena_get(&s->arena, s->bytes[i], 1);
        if (s->outputs[i] == NULL) return EIN_NO_MEMORY;
    }
    return EIN_OK;
}

ein_status session_open(session *s, workload *w, const char *machine, const char *cache_dir)
{
    memset(s, 0, sizeof *s);
    s->work = w;
    ein_context_options options = {.size = sizeof options,
                                   .machine = machine,
                                   .cache_dir = cache_dir,
                                   .progress = progress_report,
                                   .progress_user = w->progress,
                                   .message = s->message,
                                   .message_bytes = sizeof s->message};
    ein_status status = ein_context_create(&s->context, &options);
    if (status != EIN_OK) return status;
    status = make_outputs(s);
    if (status != EIN_OK) return session_failed(s, status, "no memory for the outputs");
    status = ein_weights_create(&s->weights, s->context);
    if (status == EIN_OK) status = add_weights(s);
    return status == EIN_OK ? status : session_failed(s, status, ein_context_error(s->context));
}

void session_close(session *s)
{
    ein_state_free(s->state);
    ein_weights_free(s->weights);
    ein_context_free(s->context);
    ein__arena_free(&s->arena);
    memset(s, 0, sizeof *s);
}

ein_status session_compile(session *s, const ein_graph *g, const char *plan, bool counting, prepared *out)
{
    ein_compile_options options = {
        .size = sizeof options, .weights = s->weights, .state = s->state, .plan = plan, .counting = counting};
    ein_status status = ein_compile(&out->program, s->context, g, &options);
    if (status == EIN_OK) status = ein_run_create(&out->run, out->program);
    return status == EIN_OK ? status : session_failed(s, status, ein_context_error(s->context));
}

/* Run the graph that writes the cached rows. Its outputs only keep the appends alive. */
static ein_status prime(session *s, const prepared *p, arena *a)
{
    const graph *g = &s->work->graph->g, *prime = &s->work->prime->g;
    for (int i = 0; i < g->leaves.n; i++) {
        const leaf *l = &g->leaves.items[i];
        if (l->kind != LEAF_STATE) continue;
        const value_info *v = &g->values.items[l->value];
        const char *name = workload_rows_name(a, l->name);
        if (name == NULL) return EIN_NO_MEMORY;
        i64 rows = v->shape[0] * v->shape[1] * s->work->model.use.cached * v->shape[3];
        TRY(ein_run_input(p->run, name, s->work->rows[i], (size_t)(rows * ein__dtype_bytes(v->dtype))));
    }
    for (int i = 0; i < prime->outputs.n; i++) {
        char *ignored;
        size_t bytes = workload_bytes(prime, prime->outputs.items[i].value);
        NEW(a, ignored, bytes);
        TRY(ein_run_output(p->run, prime->outputs.items[i].name, ignored, bytes));
    }
    TRY(ein_run_state(p->run, s->state));
    return ein_run_once(p->run);
}

static ein_status make_state(session *s, const prepared *p)
{
    ein_status status = ein_state_create(&s->state, p->program);
    if (status != EIN_OK) return session_failed(s, status, ein_context_error(s->context));
    if (s->work->prime == NULL) return EIN_OK;
    prepared filler = {0};
    arena a = {0};
    status = session_compile(s, s->work->prime, NULL, false, &filler);
    if (status == EIN_OK) {
        status = prime(s, &filler, &a);
        if (status != EIN_OK) session_failed(s, status, ein_run_error(filler.run));
    }
    session_release(&filler);
    ein__arena_free(&a);
    return status;
}

static ein_status bind(session *s, ein_run *run)
{
    const graph *g = &s->work->graph->g;
    for (int i = 0; i < g->leaves.n; i++) {
        const leaf *l = &g->leaves.items[i];
        if (l->kind != LEAF_INPUT) continue;
        TRY(ein_run_input(run, l->name, s->work->leaves[i], workload_bytes(g, l->value)));
    }
    for (int i = 0; i < g->outputs.n; i++) {
        TRY(ein_run_output(run, g->outputs.items[i].name, s->outputs[i], s->bytes[i]));
    }
    for (int i = 0; i < g->scalars.n; i++) {
        TRY(ein_run_scalar(run, g->scalars.items[i], s->work->scalars[i]));
    }
    return s->state != NULL ? ein_run_state(run, s->state) : EIN_OK;
}

ein_status session_prepare(session *s, const char *plan, bool counting, prepared *out)
{
    memset(out, 0, sizeof *out);
    TRY(session_compile(s, s->work->graph, plan, counting, out));
    if (s->work->model.use.capacity > 0 && s->state == NULL) {
        double began = clock_seconds();
        TRY(make_state(s, out));
        s->prime_seconds += clock_seconds() - began;
    }
    ein_status status = bind(s, out->run);
    return status == EIN_OK ? status : session_failed(s, status, ein_run_error(out->run));
}

ein_status session_run(session *s, const prepared *p)
{
    ein_status status = ein_run_once(p->run);
    return status == EIN_OK ? status : session_failed(s, status, ein_run_error(p->run));
}

void session_release(prepared *p)
{
    ein_run_free(p->run);
    ein_program_free(p->program);
    memset(p, 0, sizeof *p);
}

ein_status session_plan(const workload *w, const char *machine, ein_context **context, ein_program **program,
                        char message[256])
{
    *context = NULL;
    *program = NULL;
    message[0] = 0;
    ein_context_options options = {
        .size = sizeof options, .machine = machine, .no_cache = 1, .message = message, .message_bytes = 256};
    ein_compile_options plan_only = {.size = sizeof plan_only};
    TRY(ein_context_create(context, &options));
    ein_status status = ein_compile(program, *context, w->graph, &plan_only);
    if (status != EIN_OK) snprintf(message, 256, "%s", ein_context_error(*context));
    return status;
}
