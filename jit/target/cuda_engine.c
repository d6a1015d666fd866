/* SPDX-License-Identifier: Apache-2.0 */
/* What an execution needs besides its buffers, made before it starts: pinned memory for inputs and outputs, the arrays of
 * addresses that kernels read, events for the steps that others wait for, and room for bytes that must be brought. */
#include <string.h>

#include "core/base/alloc.h"
#include "jit/target/cuda_walk.h"

static ein_status pinned(cuda_target *t, i64 bytes, void **out, error *e)
{
    CU(t, cuMemHostAlloc(out, (size_t)bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP), "pinned memory", 0, e);
    return EIN_OK;
}

/* Nothing for what has no bytes: leaves that are no inputs, empty tensors. */
static ein_status pin_list(cuda_target *t, const i64 *bytes, int n, void ***out, int *made, error *e)
{
    *out = ein__calloc((size_t)n + 1, sizeof **out);
    if (*out == NULL) return EIN_NO_MEMORY;
    for (int i = 0; i < n; i++) {
        (*made)++;
        if (bytes[i] > 0) TRY(pinned(t, bytes[i], &(*out)[i], e));
    }
    return EIN_OK;
}

/* ---- events ------------------------------------------------------------------------------------------- */

static ein_status make_event(cuda_target *t, int device, CUevent *out, error *e)
{
    if (*out != NULL) return EIN_OK;
    TRY(ein__cuda_enter(t, t->devices[device].gpu, e));
    CUresult code = t->cu.cuEventCreate(out, CU_EVENT_DISABLE_TIMING);
    ein__cuda_leave(t);
    return code == CUDA_SUCCESS ? EIN_OK : ein__cuda_failed(t, code, "cuEventCreate", device, e);
}

/* In a loop two, since a step may wait for the iteration before. */
static ein_status make_events(cuda_target *t, cuda_engine *g, const program *p, const step *s, error *e)
{
    for (int k = 0; k < s->n_waits; k++) {
        const wait *w = &s->waits[k];
        const step *from = &p->devices[w->device].steps[w->step];
        cuda_step *x = &g->lanes[w->device].steps[w->step];
        TRY(make_event(t, w->device, &x->events[0], e));
        if (p->devices[0].regions[from->region].loop >= 0) TRY(make_event(t, w->device, &x->events[1], e));
    }
    return EIN_OK;
}

/* ---- bytes that must be brought ----------------------------------------------------------------------- */

static bool must_bring(const cuda_target *t, const execution *x, const step *s, const arg *a, cuda_staged *out)
{
    if (a->kind != ARG_POINTER || (a->place.space != SPACE_BUFFER && a->place.space != SPACE_LEAF)) return false;
    bool is_buffer = a->place.space == SPACE_BUFFER;
    if (is_buffer && x->program->buffers[a->place.index].host) return false;
    out->owner = is_buffer ? x->program->buffers[a->place.index].device : a->place.device;
    out->bytes = is_buffer ? x->program->buffers[a->place.index].bytes
                           : x->leaves[a->place.index].block_bytes[a->place.block];
    return !t->reach[t->devices[s->device].gpu][t->devices[out->owner].gpu];
}

static ein_status list_staged(cuda_target *t, const execution *x, const step *s, cuda_step *out, i64 *bytes)
{
    cuda_staged found;
    int n = 0;
    for (int i = 0; i < s->n_args; i++) n += must_bring(t, x, s, &s->args[i], &found);
    if (n == 0) return EIN_OK;
    out->staged = ein__calloc((size_t)n, sizeof *out->staged);
    if (out->staged == NULL) return EIN_NO_MEMORY;
    i64 at = 0;
    for (int i = 0; i < s->n_args; i++) {
        if (!must_bring(t, x, s, &s->args[i], &found)) continue;
        out->staged[out->n_staged++] = (cuda_staged){i, found.owner, at, found.bytes};
        at += (found.bytes + 255) / 256 * 256;
    }
    if (at > *bytes) *bytes = at;
    return EIN_OK;
}

/* ---- lanes -------------------------------------------------------------------------------------------- */

static i64 count_sources(const program *p, int device)
{
    i64 n = 0;
    for (int i = 0; i < p->devices[device].n_steps; i++) {
        const step *s = &p->devices[device].steps[i];
        for (int k = 0; k < s->n_args; k++)
            if (s->args[k].kind == ARG_SOURCES) n += s->args[k].value * p->devices[device].regions[s->region].count;
    }
    return n;
}

static ein_status make_arrays(const program *p, int device, cuda_lane *l)
{
    l->steps = ein__calloc((size_t)p->devices[device].n_steps, sizeof *l->steps);
    l->args = ein__calloc((size_t)p->max_args, sizeof *l->args);
    l->values = ein__calloc((size_t)p->max_args, sizeof *l->values);
    l->n_sources = count_sources(p, device);
    l->sent = ein__calloc((size_t)l->n_sources, sizeof *l->sent);
    return l->steps != NULL && l->args != NULL && l->values != NULL && l->sent != NULL ? EIN_OK : EIN_NO_MEMORY;
}

static ein_status make_memory(cuda_target *t, int device, cuda_lane *l, error *e)
{
    const i64 bytes = l->n_sources * (i64)sizeof *l->sources;
    void *memory = NULL;
    TRY(pinned(t, 4, &memory, e));
    l->progress = memory;
    if (bytes > 0) {
        TRY(pinned(t, bytes, &memory, e));
        l->sources = memory;
        TRY(ein__cuda_alloc(&t->base, device, bytes, &l->sources_there, e));
    }
    if (l->staging_bytes == 0) return EIN_OK;
    TRY(pinned(t, l->staging_bytes, &l->staging_host, e));
    TRY(ein__cuda_alloc(&t->base, device, l->staging_bytes, &l->staging, e));
    return EIN_OK;
}

static ein_status make_lane(cuda_target *t, cuda_engine *g, int device, error *e)
{
    const program *p = g->x->program;
    cuda_lane *l = &g->lanes[device];
    for (int i = 0; i < p->devices[device].n_steps; i++) {
        TRY(make_events(t, g, p, &p->devices[device].steps[i], e));
        TRY(list_staged(t, g->x, &p->devices[device].steps[i], &l->steps[i], &l->staging_bytes));
    }
    TRY(make_event(t, device, &l->ready, e));
    TRY(make_event(t, device, &l->moved, e));
    return make_memory(t, device, l, e);
}

static ein_status fill_engine(cuda_target *t, cuda_engine *g, error *e)
{
    const execution *x = g->x;
    g->iteration = ein__calloc((size_t)x->program->n_loops + 1, sizeof *g->iteration);
    if (g->iteration == NULL) return EIN_NO_MEMORY;
    for (int d = 0; d < t->n_devices; d++) TRY(make_arrays(x->program, d, &g->lanes[d]));
    for (int d = 0; d < t->n_devices; d++) TRY(make_lane(t, g, d, e));
    TRY(pin_list(t, x->input_bytes, x->n_inputs, &g->inputs, &g->n_inputs, e));
    return pin_list(t, x->output_bytes, x->n_outputs, &g->outputs, &g->n_outputs, e);
}

ein_status ein__cuda_prepare(target *base, execution *x, error *e)
{
    cuda_target *t = (cuda_target *)base;
    TRY(ein__cuda_alive(t, e));
    cuda_engine *g = ein__calloc(1, sizeof *g);
    if (g == NULL) return ein__fail(e, EIN_NO_MEMORY, "out of memory for a run");
    g->x = x;
    x->engine = g;
    ein_status s = ein__cuda_enter(t, 0, e); /* pinned memory is some context's */
    if (s == EIN_OK) {
        s = fill_engine(t, g, e);
        ein__cuda_leave(t);
    }
    if (s == EIN_OK) return s;
    ein__cuda_finish(base, x);
    return s == EIN_NO_MEMORY ? ein__fail(e, s, "out of memory for a run") : s;
}

/* ---- the end ------------------------------------------------------------------------------------------ */

static void free_event(cuda_target *t, CUevent event)
{
    if (event != NULL) t->cu.cuEventDestroy_v2(event);
}

static void free_pinned(cuda_target *t, void *memory)
{
    if (memory != NULL) t->cu.cuMemFreeHost(memory);
}

static void free_lane(cuda_target *t, const program *p, int device, cuda_lane *l)
{
    for (int i = 0; l->steps != NULL && i < p->devices[device].n_steps; i++) {
        for (int k = 0; k < 2; k++) free_event(t, l->steps[i].events[k]);
        ein__free(l->steps[i].staged);
    }
    free_event(t, l->ready);
    free_event(t, l->moved);
    free_pinned(t, l->progress);
    free_pinned(t, l->sources);
    free_pinned(t, l->staging_host);
    ein__cuda_release(&t->base, device, l->sources_there);
    ein__cuda_release(&t->base, device, l->staging);
    ein__free(l->steps);
    ein__free(l->args);
    ein__free(l->values);
    ein__free(l->sent);
}

void ein__cuda_finish(target *base, execution *x)
{
    cuda_target *t = (cuda_target *)base;
    cuda_engine *g = x->engine;
    if (g == NULL) return;
    bool entered = ein__cuda_enter(t, 0, NULL) == EIN_OK;
    ein__cuda_graph_free(t, g->graph);
    for (int d = 0; d < t->n_devices; d++) free_lane(t, x->program, d, &g->lanes[d]);
    for (int i = 0; i < g->n_inputs; i++) free_pinned(t, g->inputs[i]);
    for (int i = 0; i < g->n_outputs; i++) free_pinned(t, g->outputs[i]);
    if (entered) ein__cuda_leave(t);
    ein__free(g->inputs);
    ein__free(g->outputs);
    ein__free(g->iteration);
    ein__free(g);
    x->engine = NULL;
}
