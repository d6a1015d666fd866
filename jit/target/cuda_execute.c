/* SPDX-License-Identifier: Apache-2.0 */
/* An execution by streams: all steps of all devices in the program's total order, each onto its device's stream. Whatever
 * a step waits for is before it in this order, so its event is recorded when the wait is enqueued. */
#include <stdio.h>
#include <string.h>

#include "jit/target/cuda_product.h"
#include "jit/target/cuda_walk.h"

/* ---- before a step ------------------------------------------------------------------------------------ */

static ein_status wait_for_others(walker *w, const step *s, int iteration)
{
    for (int k = 0; k < s->n_waits; k++) {
        const wait *x = &s->waits[k];
        const step *from = &w->p->devices[x->device].steps[x->step];
        int at = ein__cuda_awaited(w, s, x, iteration);
        if (at < 0) continue;
        CUevent event = ein__cuda_engine_step(w, from)->events[w->p->devices[0].regions[from->region].loop >= 0 ? at % 2 : 0];
        CU(w->t, cuStreamWaitEvent(w->t->devices[s->device].steps, event, 0), "cuStreamWaitEvent", s->device, w->e);
    }
    return EIN_OK;
}

/* Out of one owner's memory, by its own stream, once the reader has come here: whatever it reads is there then. */
static ein_status fetch_from(walker *w, const step *s, int owner)
{
    const cuda_step *x = ein__cuda_engine_step(w, s);
    cuda_lane *l = &w->g->lanes[s->device];
    CUstream copies = w->t->devices[owner].copies;
    bool any = false;
    for (int k = 0; k < x->n_staged; k++) {
        const cuda_staged *b = &x->staged[k];
        if (b->owner != owner) continue;
        TRY(ein__cuda_use_gpu(w, owner));
        if (!any) CU(w->t, cuStreamWaitEvent(copies, l->ready, 0), "cuStreamWaitEvent", owner, w->e);
        any = true;
        i64 from = ein__place_address(&w->places[s->device], w->g->iteration, &s->args[b->arg].place);
        CU(w->t, cuMemcpyDtoHAsync_v2((char *)l->staging_host + b->offset, (CUdeviceptr)from, (size_t)b->bytes, copies),
           "copy from the device", owner, w->e);
    }
    if (!any) return EIN_OK;
    CU(w->t, cuEventRecord(w->g->lanes[owner].moved, copies), "cuEventRecord", owner, w->e);
    TRY(ein__cuda_use_gpu(w, s->device));
    CU(w->t, cuStreamWaitEvent(w->t->devices[s->device].steps, w->g->lanes[owner].moved, 0), "cuStreamWaitEvent", s->device, w->e);
    return EIN_OK;
}

static ein_status bring(walker *w, const step *s)
{
    const cuda_step *x = ein__cuda_engine_step(w, s);
    cuda_lane *l = &w->g->lanes[s->device];
    CUstream steps = w->t->devices[s->device].steps;
    if (x->n_staged == 0) return EIN_OK;
    CU(w->t, cuEventRecord(l->ready, steps), "cuEventRecord", s->device, w->e);
    for (int d = 0; d < w->p->n_devices; d++) TRY(fetch_from(w, s, d));
    for (int k = 0; k < x->n_staged; k++) {
        const cuda_staged *b = &x->staged[k];
        CU(w->t, cuMemcpyHtoDAsync_v2((CUdeviceptr)(uintptr_t)l->staging + (CUdeviceptr)b->offset,
                                      (char *)l->staging_host + b->offset, (size_t)b->bytes, steps),
           "copy to the device", s->device, w->e);
    }
    return EIN_OK;
}

/* ---- a step ------------------------------------------------------------------------------------------- */

static CUresult launch(walker *w, const step *s)
{
    cuda_target *t = w->t;
    const code *c = w->x->code;
    cuda_lane *l = &w->g->lanes[s->device];
    const cuda_device *d = &t->devices[s->device];
    if (ein__cuda_is_empty(s)) return CUDA_SUCCESS;
    return t->cu.cuLaunchKernel(c->functions[d->gpu * c->n_kernels + s->kernel], (unsigned)s->grid[0], (unsigned)s->grid[1],
                                (unsigned)s->grid[2], (unsigned)w->p->kernels[s->kernel].threads, 1, 1, 0, d->steps, l->args,
                                NULL);
}

static ein_status finish_step(walker *w, const step *s, int iteration)
{
    cuda_target *t = w->t;
    cuda_lane *l = &w->g->lanes[s->device];
    CUstream stream = t->devices[s->device].steps;
    CUevent event = ein__cuda_engine_step(w, s)->events[w->p->devices[0].regions[s->region].loop >= 0 ? iteration % 2 : 0];
    if (event != NULL) CU(t, cuEventRecord(event, stream), s->what, s->device, w->e);
    l->enqueued++;
    if (t->cu.cuStreamWriteValue32_v2 != NULL)
        t->cu.cuStreamWriteValue32_v2(stream, (CUdeviceptr)(uintptr_t)l->progress, l->enqueued, 0);
    return EIN_OK;
}

static ein_status enqueue(walker *w, const step *s, int iteration)
{
    TRY(ein__cuda_use_gpu(w, s->device));
    TRY(wait_for_others(w, s, iteration));
    TRY(bring(w, s));
    ein__cuda_resolve(w, s);
    if (s->kind == STEP_KERNEL) {
        CUresult code = launch(w, s);
        if (code != CUDA_SUCCESS) return ein__cuda_failed(w->t, code, s->what, s->device, w->e);
    } else {
        const i64 *v = w->g->lanes[s->device].values;
        TRY(ein__cuda_product_run(w->x->code->products, s, v[0], v[1], v[2], w->e));
    }
    return finish_step(w, s, iteration);
}

/* ---- the end ------------------------------------------------------------------------------------------ */

/* Of the steps that did not finish, the first in the total order: what failed, or what ran beside it. */
static void name_step(walker *w, CUresult code, int device)
{
    const step *first = NULL;
    i64 at = 0;
    for (int d = 0; d < w->p->n_devices; d++) {
        const cuda_lane *l = &w->g->lanes[d];
        i64 done = *(volatile uint32_t *)l->progress, left = done;
        if (w->t->devices[d].gpu != w->t->devices[device].gpu || done >= l->enqueued) continue;
        for (int r = 0; r < w->p->n_regions; r++) {
            const region *x = &w->p->devices[d].regions[r];
            i64 n = x->hi - x->lo;
            if (left >= n * x->count) {
                left -= n * x->count;
                continue;
            }
            const step *s = &w->p->devices[d].steps[x->lo + left % n];
            if (first == NULL || r < first->region || (r == first->region && (left / n < at || (left / n == at && s->order < first->order)))) {
                first = s;
                at = left / n;
            }
            break;
        }
    }
    if (w->t->cu.cuStreamWriteValue32_v2 == NULL || first == NULL) return;
    ein__fail(w->e, EIN_DEVICE_FAILED, "%s: step %d on device %d: %s", first->what, first->order, first->device,
              ein__cuda_name(&w->t->cu, code).s);
}

/* All of them, whatever has failed: memory is freed behind this. */
static ein_status wait_for_devices(walker *w)
{
    ein_status s = EIN_OK;
    for (int d = 0; d < w->p->n_devices; d++) {
        error other = {0}, *first = w->e;
        if (s != EIN_OK) w->e = &other;
        ein_status here = ein__cuda_use_gpu(w, d);
        CUresult code = w->t->cu.cuStreamSynchronize(w->t->devices[d].steps);
        if (here == EIN_OK && code != CUDA_SUCCESS) {
            here = ein__cuda_failed(w->t, code, "running", d, w->e);
            name_step(w, code, d);
        }
        w->e = first;
        if (s == EIN_OK) s = here;
    }
    return s;
}

static void make_places(walker *w)
{
    const execution *x = w->x;
    for (int d = 0; d < w->p->n_devices; d++) {
        w->places[d] = (places){x->program, x->buffers, x->staging, x->leaves, (const void *const *)w->g->inputs,
                                w->g->outputs, x->code->table[d], x->scalars};
        *w->g->lanes[d].progress = 0;
        w->g->lanes[d].enqueued = 0;
    }
}

static ein_status enqueue_all(walker *w)
{
    bool done;
    TRY(ein__cuda_send_sources(w));
    TRY(ein__cuda_graph_run(w, &done));
    return done ? EIN_OK : ein__cuda_each_step(w, enqueue);
}

static ein_status run(walker *w)
{
    const execution *x = w->x;
    TRY(ein__cuda_alive(w->t, w->e));
    make_places(w);
    for (int i = 0; i < x->n_inputs; i++)
        if (x->input_bytes[i] > 0) memcpy(w->g->inputs[i], x->inputs[i], (size_t)x->input_bytes[i]);
    ein_status s = enqueue_all(w), end;
    error first = *w->e;
    end = wait_for_devices(w);
    if (s != EIN_OK) *w->e = first; /* what went wrong first */
    else s = end;
    for (int i = 0; i < x->n_outputs && s == EIN_OK && atomic_load(&x->stop) == 0; i++)
        if (x->output_bytes[i] > 0) memcpy(x->outputs[i], w->g->outputs[i], (size_t)x->output_bytes[i]);
    return s;
}

void ein__cuda_execute(cuda_target *t, cuda_engine *g)
{
    error e = {0};
    int none = 0;
    walker w = {.t = t, .g = g, .x = g->x, .p = g->x->program, .gpu = -1, .e = &e};
    if (run(&w) == EIN_OK) return;
    if (atomic_compare_exchange_strong(&g->x->stop, &none, 2)) ein__fail(&g->x->error, e.status, "%s", e.line);
}
