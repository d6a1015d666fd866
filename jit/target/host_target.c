/* SPDX-License-Identifier: Apache-2.0 */
/* The host target: worker threads with queues of executions. Every execution joins all queues at once, so all
 * devices take executions in the same order and none waits for a device that is busy with a later one. */
#include <string.h>

#include "core/base/alloc.h"
#include "jit/target/host.h"

typedef struct queued { execution *x; struct queued *next[MAX_DEVICES]; } queued;

typedef struct host_target host_target;
typedef struct worker { host_target *t; int device; pthread_t thread; } worker;

struct host_target {
    target base;
    host_memory memory;
    int n_devices, n_workers;
    worker workers[MAX_DEVICES];
    pthread_mutex_t lock;
    pthread_cond_t work;
    queued *first[MAX_DEVICES], *last[MAX_DEVICES]; /* under lock */
    bool closing;
    host_product *product; /* opened when a program first needs it; under lock */
};

/* An engine with its place in the queues. */
typedef struct engine { host_engine g; queued q; } engine;

/* ---- workers ------------------------------------------------------------------------------------------ */

static execution *next_execution(host_target *t, int d)
{
    pthread_mutex_lock(&t->lock);
    while (t->first[d] == NULL && !t->closing) pthread_cond_wait(&t->work, &t->lock);
    queued *q = t->first[d];
    if (q != NULL) {
        t->first[d] = q->next[d];
        if (t->first[d] == NULL) t->last[d] = NULL;
    }
    pthread_mutex_unlock(&t->lock);
    return q != NULL ? q->x : NULL;
}

static void *worker_main(void *argument)
{
    worker *w = argument;
    bool product_ready = false;
    for (execution *x; (x = next_execution(w->t, w->device)) != NULL;) {
        if (!product_ready && x->code->product != NULL) {
            ein__host_product_thread(x->code->product);
            product_ready = true;
        }
        ein__host_execute(x, w->device);
        host_engine *g = x->engine;
        pthread_mutex_lock(&g->lock);
        g->running--;
        pthread_cond_broadcast(&g->changed);
        pthread_mutex_unlock(&g->lock);
    }
    return NULL;
}

static void stop_workers(host_target *t)
{
    pthread_mutex_lock(&t->lock);
    t->closing = true;
    pthread_cond_broadcast(&t->work);
    pthread_mutex_unlock(&t->lock);
    for (int d = 0; d < t->n_workers; d++) pthread_join(t->workers[d].thread, NULL);
}

/* Kernels keep their private arrays and tiles on the stack. */
enum { STACK_BYTES = 4 << 20 };

static ein_status start_workers(host_target *t, error *e)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (int d = 0; d < t->n_devices; d++) {
        t->workers[d] = (worker){.t = t, .device = d};
        if (pthread_create(&t->workers[d].thread, &attributes, worker_main, &t->workers[d]) != 0) break;
        t->n_workers++;
    }
    pthread_attr_destroy(&attributes);
    if (t->n_workers == t->n_devices) return EIN_OK;
    return ein__fail(e, EIN_NO_MEMORY, "host: only %d of %d worker threads could be started", t->n_workers, t->n_devices);
}

/* ---- open, close, memory ------------------------------------------------------------------------------ */

static void host_close(target *base)
{
    host_target *t = (host_target *)base;
    stop_workers(t);
    ein__host_memory_fini(&t->memory);
    if (t->product != NULL) ein__host_product_close(t->product);
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->work);
    ein__free(t);
}

static const target_api host_api;

ein_status ein__host_open(const machine *m, target **out, error *e)
{
    host_target *t = ein__calloc(1, sizeof *t);
    if (t == NULL) return ein__fail(e, EIN_NO_MEMORY, "out of memory for the host target");
    t->base.api = &host_api;
    t->n_devices = m->n_devices;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->work, NULL);
    ein_status s = ein__host_memory_init(&t->memory, m, e);
    if (s == EIN_OK) s = start_workers(t, e);
    if (s != EIN_OK) {
        host_close(&t->base);
        return s;
    }
    *out = &t->base;
    return EIN_OK;
}

static ein_status host_alloc(target *base, int device, i64 bytes, void **out, error *e)
{
    if (device != HOST) return ein__host_alloc(&((host_target *)base)->memory, device, bytes, out, e);
    *out = ein__aligned(256, (size_t)bytes);
    return *out != NULL ? EIN_OK : ein__fail(e, EIN_NO_MEMORY, "out of memory for %lld bytes that devices exchange", (long long)bytes);
}

static void host_release(target *base, int device, void *p)
{
    if (device != HOST) ein__host_release(&((host_target *)base)->memory, device, p);
    else ein__free(p);
}

static ein_status host_upload(target *base, int device, void *dst, const void *src, i64 rows, i64 bytes, i64 host_stride,
                              error *e)
{
    (void)base, (void)device, (void)e;
    for (i64 i = 0; i < rows; i++)
        memcpy((char *)dst + i * bytes, (const char *)src + i * host_stride, (size_t)bytes);
    return EIN_OK;
}

static ein_status host_zero(target *base, int device, void *p, i64 bytes, error *e)
{
    (void)base, (void)device, (void)e;
    memset(p, 0, (size_t)bytes);
    return EIN_OK;
}

/* ---- code --------------------------------------------------------------------------------------------- */

static ein_status host_identity(target *base, text *key, error *e)
{
    (void)base;
    return ein__host_identity(key, e);
}

static ein_status host_compile(target *base, const kernel_text *const *kernels, int n, bool counting, text *object,
                               error *e)
{
    (void)base;
    text source = {0};
    ein_status s = ein__kernel_source(READ_HOST, counting, kernels, n, &source);
    if (s == EIN_OK) s = ein__host_compile(ein__text_get(&source), object, e);
    ein__text_free(&source);
    return s;
}

static void host_unload(code *c)
{
    if (c == NULL) return;
    for (int i = 0; i < c->n_modules; i++) ein__host_unload(c->modules[i]);
    ein__free(c->modules);
    ein__free(c->entries);
    ein__free(c);
}

static ein_status find_entries(code *c, const program *p, error *e)
{
    for (int k = 0; k < p->n_kernels; k++) {
        for (int i = 0; i < c->n_modules && c->entries[k] == NULL; i++)
            c->entries[k] = ein__host_entry(c->modules[i], p->kernels[k].name);
        if (c->entries[k] == NULL)
            return ein__fail(e, EIN_COMPILE_FAILED, "kernel %s is in none of %d objects", p->kernels[k].name, c->n_modules);
    }
    return EIN_OK;
}

static ein_status need_product(host_target *t, const program *p, code *c, error *e)
{
    bool needed = false;
    for (int d = 0; d < p->n_devices; d++)
        for (int i = 0; i < p->devices[d].n_steps; i++) needed = needed || p->devices[d].steps[i].kind == STEP_GEMM;
    if (!needed) return EIN_OK;
    pthread_mutex_lock(&t->lock);
    ein_status s = t->product != NULL ? EIN_OK : ein__host_product_open(&t->product, e);
    c->product = t->product;
    pthread_mutex_unlock(&t->lock);
    return s;
}

static ein_status fill_code(host_target *t, const program *p, const text *objects, int n, code *c, error *e)
{
    c->modules = ein__calloc((size_t)n, sizeof *c->modules);
    c->entries = ein__calloc((size_t)p->n_kernels, sizeof *c->entries);
    if (c->modules == NULL || c->entries == NULL) return ein__fail(e, EIN_NO_MEMORY, "out of memory for kernel entries");
    for (int i = 0; i < n; i++) {
        TRY(ein__host_load(objects[i].bytes, objects[i].n, &c->modules[i], e));
        c->n_modules++;
    }
    TRY(find_entries(c, p, e));
    return need_product(t, p, c, e);
}

static ein_status host_load(target *base, const program *p, const text *objects, int n, code **out, error *e)
{
    code *c = ein__calloc(1, sizeof *c);
    if (c == NULL) return ein__fail(e, EIN_NO_MEMORY, "out of memory for kernel entries");
    ein_status s = fill_code((host_target *)base, p, objects, n, c, e);
    if (s == EIN_OK) *out = c;
    else host_unload(c);
    return s;
}

/* ---- executions --------------------------------------------------------------------------------------- */

static void host_finish(target *base, execution *x)
{
    (void)base;
    engine *n = x->engine;
    if (n == NULL) return;
    for (int d = 0; d < x->program->n_devices; d++) {
        ein__free(n->g.scratch[d].args);
        ein__free(n->g.scratch[d].values);
        ein__free(n->g.scratch[d].sources);
        ein__free(n->g.scratch[d].iteration);
        ein__free(n->g.scratch[d].product);
    }
    pthread_mutex_destroy(&n->g.lock);
    pthread_cond_destroy(&n->g.changed);
    ein__free(n);
    x->engine = NULL;
}

/* Floats that products of other types need on the device. */
static i64 product_scratch(const program *p, int device)
{
    i64 most = 0;
    for (int i = 0; i < p->devices[device].n_steps; i++) {
        const step *s = &p->devices[device].steps[i];
        i64 n = s->kind == STEP_GEMM ? ein__host_product_scratch(&s->gemm) : 0;
        if (n > most) most = n;
    }
    return most;
}

static bool prepare_device(const program *p, int device, struct host_scratch *s)
{
    i64 floats = product_scratch(p, device);
    s->args = ein__calloc((size_t)p->max_args, sizeof *s->args);
    s->values = ein__calloc((size_t)p->max_args, sizeof *s->values);
    s->sources = ein__calloc((size_t)p->max_sources, sizeof *s->sources);
    s->iteration = ein__calloc((size_t)p->n_loops + 1, sizeof *s->iteration);
    if (floats > 0) s->product = ein__aligned(64, (size_t)floats * sizeof *s->product);
    return s->args != NULL && s->values != NULL && s->sources != NULL && s->iteration != NULL &&
           (floats == 0 || s->product != NULL);
}

static ein_status host_prepare(target *base, execution *x, error *e)
{
    host_target *t = (host_target *)base;
    engine *n = ein__calloc(1, sizeof *n);
    if (n == NULL) return ein__fail(e, EIN_NO_MEMORY, "out of memory for a run");
    pthread_mutex_init(&n->g.lock, NULL);
    pthread_cond_init(&n->g.changed, NULL);
    x->engine = n;
    n->q.x = x;
    for (int d = 0; d < t->n_devices; d++) {
        if (!prepare_device(x->program, d, &n->g.scratch[d])) {
            host_finish(base, x);
            return ein__fail(e, EIN_NO_MEMORY, "out of memory for a run");
        }
        x->tallies[d] = (struct tally){t->memory.base, t->memory.stride, d, t->n_devices, 0};
    }
    return EIN_OK;
}

static void host_start(target *base, execution *x)
{
    host_target *t = (host_target *)base;
    engine *n = x->engine;
    for (int d = 0; d < t->n_devices; d++) {
        atomic_store(&n->g.progress[d], 0);
        x->tallies[d].bytes = 0;
    }
    n->g.running = t->n_devices;
    pthread_mutex_lock(&t->lock);
    for (int d = 0; d < t->n_devices; d++) {
        n->q.next[d] = NULL;
        if (t->last[d] != NULL) t->last[d]->next[d] = &n->q;
        else t->first[d] = &n->q;
        t->last[d] = &n->q;
    }
    pthread_cond_broadcast(&t->work);
    pthread_mutex_unlock(&t->lock);
}

static void host_wait(target *base, execution *x)
{
    (void)base;
    host_engine *g = x->engine;
    pthread_mutex_lock(&g->lock);
    while (g->running > 0) pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

static const target_api host_api = {
    "host", 1, host_close, host_alloc, host_release, host_upload, host_zero, host_identity, host_compile, host_load,
    host_unload, host_prepare, host_finish, host_start, host_wait};
