/* SPDX-License-Identifier: Apache-2.0 */
#include "jit/target/cuda_walk.h"

#include <string.h>

ein_status ein__cuda_each_step(walker *w, step_act act)
{
    int lo = 0;
    memset(w->g->iteration, 0, (size_t)(w->p->n_loops + 1) * sizeof *w->g->iteration);
    for (int r = 0; r < w->p->n_regions; r++) {
        const region *x = &w->p->devices[0].regions[r];
        int hi = lo;
        for (int d = 0; d < w->p->n_devices; d++) hi += w->p->devices[d].regions[r].hi - w->p->devices[d].regions[r].lo;
        for (int i = 0; i < x->count; i++) {
            if (x->loop >= 0) w->g->iteration[x->loop] = i;
            for (int k = lo; k < hi && atomic_load(&w->x->stop) == 0; k++) TRY(act(w, w->x->code->order[k], i));
        }
        lo = hi;
    }
    return EIN_OK;
}

cuda_step *ein__cuda_engine_step(const walker *w, const step *s)
{
    return &w->g->lanes[s->device].steps[s - w->p->devices[s->device].steps];
}

ein_status ein__cuda_use_gpu(walker *w, int device)
{
    int gpu = w->t->devices[device].gpu;
    if (gpu == w->gpu) return EIN_OK;
    CU(w->t, cuCtxSetCurrent(w->t->gpus[gpu].context), "cuCtxSetCurrent", device, w->e);
    w->gpu = gpu;
    return EIN_OK;
}

/* ---- arrays of addresses ------------------------------------------------------------------------------ */

/* Where argument i of a step is: in its own place, or where its bytes are brought. */
static i64 reachable_address(const walker *w, const step *s, int i)
{
    const cuda_step *x = ein__cuda_engine_step(w, s);
    const cuda_lane *l = &w->g->lanes[s->device];
    const places *at = &w->places[s->device];
    i64 address = ein__arg_address(at, w->g->iteration, &s->args[i]);
    for (int k = 0; k < x->n_staged; k++)
        if (x->staged[k].arg == i)
            return (i64)(uintptr_t)l->staging + x->staged[k].offset + address -
                   ein__place_address(at, w->g->iteration, &s->args[i].place);
    return address;
}

static ein_status note_sources(walker *w, const step *s, int iteration)
{
    cuda_lane *l = &w->g->lanes[s->device];
    (void)iteration;
    for (int i = 0; i < s->n_args; i++) {
        if (s->args[i].kind != ARG_SOURCES) continue;
        for (i64 n = s->args[i].value; n > 0; n--) l->sources[l->next_source++] = reachable_address(w, s, ++i);
    }
    return EIN_OK;
}

/* They differ from the last run's only where run-time scalars shift them or a state is another. */
ein_status ein__cuda_send_sources(walker *w)
{
    for (int d = 0; d < w->p->n_devices; d++) w->g->lanes[d].next_source = 0;
    TRY(ein__cuda_each_step(w, note_sources));
    for (int d = 0; d < w->p->n_devices; d++) {
        cuda_lane *l = &w->g->lanes[d];
        const size_t bytes = (size_t)l->n_sources * sizeof *l->sources;
        l->next_source = 0;
        if (bytes == 0 || memcmp(l->sources, l->sent, bytes) == 0) continue;
        TRY(ein__cuda_use_gpu(w, d));
        CU(w->t, cuMemcpyHtoDAsync_v2((CUdeviceptr)(uintptr_t)l->sources_there, l->sources, bytes, w->t->devices[d].steps),
           "addresses", d, w->e);
        memcpy(l->sent, l->sources, bytes);
    }
    return EIN_OK;
}

int ein__cuda_resolve(walker *w, const step *s)
{
    cuda_lane *l = &w->g->lanes[s->device];
    int n = 0;
    for (int i = 0; i < s->n_args; i++, n++) {
        const arg *a = &s->args[i];
        l->args[n] = &l->values[n];
        if (a->kind == ARG_SOURCES) {
            l->values[n] = (i64)(uintptr_t)l->sources_there + l->next_source * (i64)sizeof *l->sources;
            l->next_source += a->value;
            i += (int)a->value;
        } else {
            l->values[n] = a->kind == ARG_POINTER ? reachable_address(w, s, i)
                                                  : ein__arg_value(&w->places[s->device], w->g->iteration, a);
        }
    }
    return n;
}


bool ein__cuda_is_empty(const step *s)
{
    return s->kind == STEP_KERNEL && (s->grid[0] == 0 || s->grid[1] == 0 || s->grid[2] == 0);
}

int ein__cuda_awaited(const walker *w, const step *s, const wait *x, int iteration)
{
    const step *from = &w->p->devices[x->device].steps[x->step];
    return from->region == s->region ? iteration - x->lag : w->p->devices[x->device].regions[from->region].count - 1;
}
