/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's walk through its device's list: wait for other devices, resolve arguments, call the kernel. */
#include <string.h>

#include "core/plan/order.h"
#include "jit/target/address.h"
#include "jit/target/host.h"

typedef struct walker {
    execution *x;
    host_engine *engine;
    const program *p;
    int device;
    struct host_scratch *s;
    places places;
    i64 done;
} walker;

static void resolve(const walker *w, const step *s)
{
    struct host_scratch *t = w->s;
    int n = 0, n_sources = 0;
    for (int i = 0; i < s->n_args; i++, n++) {
        const arg *a = &s->args[i];
        if (a->kind == ARG_SOURCES) {
            t->values[n] = (i64)(uintptr_t)(t->sources + n_sources);
            for (i64 k = 0; k < a->value; k++)
                t->sources[n_sources++] = ein__arg_address(&w->places, t->iteration, &s->args[++i]);
        } else {
            t->values[n] = ein__arg_value(&w->places, t->iteration, a);
        }
        t->args[n] = &t->values[n];
    }
}

/* ---- order between devices ---------------------------------------------------------------------------- */

static void publish(walker *w, i64 count)
{
    host_engine *g = w->engine;
    w->done = count;
    atomic_store(&g->progress[w->device], count);
    if (atomic_load(&g->waiters) == 0) return;
    pthread_mutex_lock(&g->lock);
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static void await(walker *w, int device, i64 count)
{
    host_engine *g = w->engine;
    if (atomic_load(&g->progress[device]) >= count) return;
    pthread_mutex_lock(&g->lock);
    atomic_fetch_add(&g->waiters, 1);
    while (atomic_load(&g->progress[device]) < count) pthread_cond_wait(&g->changed, &g->lock);
    atomic_fetch_sub(&g->waiters, 1);
    pthread_mutex_unlock(&g->lock);
}

static void await_all(walker *w, const step *s, int iteration)
{
    for (int k = 0; k < s->n_waits; k++) {
        const wait *x = &s->waits[k];
        const device_program *d = &w->p->devices[x->device];
        int region = d->steps[x->step].region;
        int at = region == s->region ? iteration - x->lag : d->regions[region].count - 1;
        if (at >= 0) await(w, x->device, ein__program_count(w->p, x->device, x->step, at, false));
    }
}

/* ---- steps -------------------------------------------------------------------------------------------- */

static void fail_step(walker *w, const step *s)
{
    int none = 0;
    if (atomic_compare_exchange_strong(&w->x->stop, &none, 2))
        ein__fail(&w->x->error, EIN_DEVICE_FAILED, "%s: step %d failed on device %d", s->what, s->order, w->device);
}

/* A product touches only its own device's memory; counting runs check that as kernels do. */
static void tally_product(walker *w, const step *s)
{
    const struct tally *t = &w->x->tallies[w->device];
    const gemm *g = &s->gemm;
    const i64 bytes[3] = {g->m * g->k * ein__dtype_bytes(g->type_a), g->k * g->n * ein__dtype_bytes(g->type_b),
                          g->m * g->n * ein__dtype_bytes(g->type_c)};
    for (int i = 0; i < 3; i++) {
        i64 at = w->s->values[i] - (i64)(uintptr_t)t->base;
        if (at < 0 || at >= t->stride * t->n || at / t->stride == w->device) continue;
        w->x->tallies[w->device].bytes += bytes[i];
    }
}

static void run_step(walker *w, const step *s)
{
    resolve(w, s);
    if (s->kind == STEP_KERNEL) {
        w->x->code->entries[s->kernel](w->s->args, s->grid[0], s->grid[1], s->grid[2], &w->x->tallies[w->device]);
        return;
    }
    const void *a = (const void *)(uintptr_t)w->s->values[0], *b = (const void *)(uintptr_t)w->s->values[1];
    void *c = (void *)(uintptr_t)w->s->values[2];
    if (w->x->counting) tally_product(w, s);
    if (ein__host_product_run(w->x->code->product, &s->gemm, w->s->product, a, b, c) != EIN_OK) fail_step(w, s);
}

void ein__host_execute(execution *x, int device)
{
    host_engine *g = x->engine;
    walker w = {.x = x, .engine = g, .p = x->program, .device = device, .s = &g->scratch[device]};
    w.places = (places){x->program, x->buffers, x->staging, x->leaves, x->inputs, x->outputs, x->program->table, x->scalars};
    const device_program *d = &w.p->devices[device];
    memset(w.s->iteration, 0, (size_t)(w.p->n_loops + 1) * sizeof *w.s->iteration);
    for (int r = 0; r < w.p->n_regions; r++)
        for (int i = 0; i < d->regions[r].count; i++) {
            if (d->regions[r].loop >= 0) w.s->iteration[d->regions[r].loop] = i;
            for (int k = d->regions[r].lo; k < d->regions[r].hi && atomic_load(&x->stop) == 0; k++) {
                await_all(&w, &d->steps[k], i);
                if (atomic_load(&x->stop) == 0) run_step(&w, &d->steps[k]);
                publish(&w, w.done + 1);
            }
        }
    publish(&w, INT64_MAX); /* stopped or done: nobody may wait for this device any more */
}
