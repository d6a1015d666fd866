/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes the outputs need, how long each value is kept, and the threads. Node order is a topological
 * order, so one pass backwards finds both. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/reference/evaluate.h"

double ein__tensor_load(const tensor *t, i64 i)
{
    return ein__dtype_read(t->storage, (const char *)t->data + i * ein__dtype_bytes(t->storage));
}

i64 ein__tensor_whole(const tensor *t, i64 i)
{
    switch (t->storage) {
    case EIN_I64: return ((const i64 *)t->data)[i];
    case EIN_I32: return ((const int32_t *)t->data)[i];
    case EIN_I8: return ((const int8_t *)t->data)[i];
    default: return ((const uint8_t *)t->data)[i];
    }
}

static void find_needed(evaluation *v)
{
    const graph *g = v->g;
    for (int i = 0; i < g->values.n; i++) v->last_use[i] = -1;
    for (int i = 0; i < g->outputs.n; i++) v->last_use[g->outputs.items[i].value] = g->nodes.n;
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const node *n = &g->nodes.items[i];
        for (int r = 0; r < n->spec.n_results; r++) v->needed[i] |= v->last_use[n->results[r]] >= 0;
        if (!v->needed[i]) continue;
        v->n_needed++;
        for (int o = 0; o < n->spec.n_operands; o++) {
            int *last = &v->last_use[n->operands[o]];
            if (*last < 0) *last = i;
        }
    }
}

static ein_status bind_leaf(evaluation *v, int i)
{
    const leaf *l = &v->g->leaves.items[i];
    ein_dtype d = v->g->values.items[l->value].dtype;
    const void *data = v->b->leaves != NULL ? v->b->leaves[i] : NULL;
    if (data == NULL) data = l->data;
    if (v->last_use[l->value] < 0) return EIN_OK;
    if (!ein__dtype_built(d)) {
        return ein__fail(v->e, EIN_DTYPE, "reference: %s has dtype %s", l->name, ein__dtype_name(d));
    }
    if (data == NULL && ein__value_numel(v->g, l->value) > 0) {
        return ein__fail(v->e, EIN_INVALID, "reference: %s is not bound", l->name);
    }
    v->values[l->value] = (tensor){data, NULL, d};
    return EIN_OK;
}

static int count_threads(int asked)
{
    long n = asked > 0 ? asked : sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (int)n;
}

ein_status ein__evaluation_make(evaluation *v, const graph *g, const reference_bindings *b, ein_dtype real, error *e)
{
    memset(v, 0, sizeof *v);
    v->real = real;
    v->g = g;
    v->b = b;
    v->e = e;
    v->threads = count_threads(b->threads);
    if (g->loops.n != 0) return ein__fail(e, EIN_INTERNAL, "reference: the graph is rolled");
    if (g->scalars.n > 0 && b->scalars == NULL) {
        return ein__fail(e, EIN_INVALID, "reference: scalar %s is not bound", g->scalars.items[0]);
    }
    v->needed = ein__calloc((size_t)g->nodes.n, sizeof *v->needed);
    v->last_use = ein__calloc((size_t)g->values.n, sizeof *v->last_use);
    v->values = ein__calloc((size_t)g->values.n, sizeof *v->values);
    if (v->needed == NULL || v->last_use == NULL || v->values == NULL) return EIN_NO_MEMORY;
    find_needed(v);
    for (int i = 0; i < g->leaves.n; i++) TRY(bind_leaf(v, i));
    return EIN_OK;
}

static void drop(evaluation *v, value x)
{
    ein__free(v->values[x].owned);
    v->values[x] = (tensor){0};
}

void ein__evaluation_free(evaluation *v)
{
    for (int i = 0; v->values != NULL && i < v->g->values.n; i++) drop(v, i);
    ein__free(v->values);
    ein__free(v->last_use);
    ein__free(v->needed);
}

void ein__evaluation_release(evaluation *v, int at)
{
    const node *n = &v->g->nodes.items[at];
    for (int i = 0; i < n->spec.n_operands; i++) {
        if (v->last_use[n->operands[i]] == at) drop(v, n->operands[i]);
    }
    for (int i = 0; i < n->spec.n_results; i++) {
        if (v->last_use[n->results[i]] < 0) drop(v, n->results[i]);
    }
}

ein_status ein__evaluation_result(evaluation *v, const node *n, int result)
{
    ein_dtype d = v->g->values.items[n->results[result]].dtype;
    return ein__evaluation_result_as(v, n, result, ein__dtype_is_float(d) ? v->real : d);
}

ein_status ein__evaluation_result_as(evaluation *v, const node *n, int result, ein_dtype storage)
{
    tensor *t = &v->values[n->results[result]];
    i64 numel = ein__value_numel(v->g, n->results[result]);
    t->storage = storage;
    t->data = t->owned = ein__calloc((size_t)numel, (size_t)ein__dtype_bytes(storage));
    if (t->owned != NULL) return EIN_OK;
    return ein__fail(v->e, EIN_NO_MEMORY, "reference: %s: no memory for %lld elements", n->name,
                     (long long)numel);
}

i64 ein__evaluation_scalar(const evaluation *v, int scalar) { return scalar < 0 ? 0 : v->b->scalars[scalar]; }

ein_dtype ein__evaluation_type(const evaluation *v, ein_dtype d) { return ein__dtype_is_float(d) ? v->real : EIN_I64; }

body ein__body_make(const evaluation *v, const expr *x, const ein_dtype *types, ein_dtype to)
{
    body b = {.x = x, .types = types, .want = ein__evaluation_type(v, to), .argument = -1};
    if (x->n == 0) return b;
    const expr_node *root = &x->nodes[x->n - 1];
    ein_dtype type = ein__expr_type(x, types);
    /* A float becomes an integer where it is stored, as it may have to be cut to a narrow one. */
    if (b.want == EIN_I64 && type != 0) b.want = ein__evaluation_type(v, type);
    b.floats = b.want != EIN_I64;
    for (int i = 0; i < x->n; i++) {
        if (x->nodes[i].op == X_ARG && types[x->nodes[i].a] == EIN_I64) b.floats = false;
    }
    if (root->op == X_ARG && types[root->a] == b.want) b.argument = root->a;
    return b;
}

typedef struct pool {
    reference_task task;
    void *job;
    i64 n;
    _Atomic i64 next;
} pool;

typedef struct worker {
    pool *pool;
    int thread;
    pthread_t id;
} worker;

static void *work(void *argument)
{
    worker *w = argument;
    pool *p = w->pool;
    for (i64 i; (i = atomic_fetch_add(&p->next, 1)) < p->n;) p->task(p->job, w->thread, i);
    return NULL;
}

void ein__reference_parallel(int threads, i64 n, reference_task task, void *job)
{
    pool p = {.task = task, .job = job, .n = n};
    worker workers[MAX_THREADS];
    int started = 1;
    if (threads > n) threads = (int)n;
    /* A thread that cannot be had only makes the others do more. */
    for (; started < threads; started++) {
        workers[started] = (worker){.pool = &p, .thread = started};
        if (pthread_create(&workers[started].id, NULL, work, &workers[started]) != 0) break;
    }
    workers[0] = (worker){.pool = &p};
    work(&workers[0]);
    for (int i = 1; i < started; i++) pthread_join(workers[i].id, NULL);
}
