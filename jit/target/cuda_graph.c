/* SPDX-License-Identifier: Apache-2.0 */
/* An execution as one CUDA graph over all devices: a node per step and iteration, edges for the order of a device's list
 * and for the waits, copies for bytes that must be brought, a captured child graph for each product. It is built when a run
 * is started for the second time; after that only nodes whose arguments differ from the last time's are set anew (run-time
 * scalars, another state). What cannot be built, or is too large, runs by streams for good. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/plan/order.h"
#include "jit/target/cuda_product.h"
#include "jit/target/cuda_walk.h"

enum { MOST_NODES = 1 << 14, FEWEST_STEPS = 3 };

/* A step of an iteration, in the order of the walk. */
typedef struct graph_step { CUgraphNode node; i64 first; } graph_step; /* its arguments: values[first ...] */
typedef struct graph_copy { CUgraphNode out; i64 from; } graph_copy;   /* out of an owner's memory */

struct cuda_graph {
    CUgraph graph;
    CUgraphExec exec;
    int n_steps, n_copies;
    i64 n_values;
    graph_step *steps;
    graph_copy *copies;
    i64 *values;
    CUgraphNode *finished[MAX_DEVICES]; /* per device: the node of each of its steps and iterations */
    i64 n_finished[MAX_DEVICES];
    CUgraphNode *after; /* of the step at hand */
    int next_step, next_copy; /* of a walk */
};

/* ---- size --------------------------------------------------------------------------------------------- */

static ein_status allocate(const walker *w, cuda_graph *g)
{
    i64 steps = 0, copies = 0, values = 0;
    int most = 1;
    for (int d = 0; d < w->p->n_devices; d++) {
        i64 mine = 0;
        for (int i = 0; i < w->p->devices[d].n_steps; i++) {
            const step *s = &w->p->devices[d].steps[i];
            const cuda_step *x = ein__cuda_engine_step(w, s);
            i64 count = w->p->devices[d].regions[s->region].count;
            mine += count;
            copies += count * x->n_staged;
            values += count * s->n_args;
            if (1 + s->n_waits + x->n_staged > most) most = 1 + s->n_waits + x->n_staged;
        }
        steps += mine;
        g->finished[d] = ein__calloc((size_t)mine, sizeof *g->finished[d]);
        if (g->finished[d] == NULL) return EIN_NO_MEMORY;
    }
    if (steps + 2 * copies > MOST_NODES || steps < FEWEST_STEPS) return EIN_UNSUPPORTED;
    g->steps = ein__calloc((size_t)steps, sizeof *g->steps);
    g->copies = ein__calloc((size_t)copies, sizeof *g->copies);
    g->values = ein__calloc((size_t)values, sizeof *g->values);
    g->after = ein__calloc((size_t)most, sizeof *g->after);
    return g->steps != NULL && g->copies != NULL && g->values != NULL && g->after != NULL ? EIN_OK : EIN_NO_MEMORY;
}

/* ---- nodes -------------------------------------------------------------------------------------------- */

static CUDA_KERNEL_NODE_PARAMS kernel_node(const walker *w, const step *s)
{
    CUDA_KERNEL_NODE_PARAMS k;
    const code *c = w->x->code;
    memset(&k, 0, sizeof k);
    k.func = c->functions[w->t->devices[s->device].gpu * c->n_kernels + s->kernel];
    k.gridDimX = (unsigned)s->grid[0];
    k.gridDimY = (unsigned)s->grid[1];
    k.gridDimZ = (unsigned)s->grid[2];
    k.blockDimX = (unsigned)w->p->kernels[s->kernel].threads;
    k.blockDimY = k.blockDimZ = 1;
    k.kernelParams = w->g->lanes[s->device].args;
    return k;
}

static CUDA_MEMCPY3D copy_node(i64 bytes)
{
    CUDA_MEMCPY3D c;
    memset(&c, 0, sizeof c);
    c.WidthInBytes = c.srcPitch = c.dstPitch = (size_t)bytes;
    c.Height = c.Depth = c.srcHeight = c.dstHeight = 1;
    return c;
}

static CUDA_MEMCPY3D copy_out(const cuda_lane *l, const cuda_staged *b, i64 from)
{
    CUDA_MEMCPY3D c = copy_node(b->bytes);
    c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    c.srcDevice = (CUdeviceptr)from;
    c.dstMemoryType = CU_MEMORYTYPE_HOST;
    c.dstHost = (char *)l->staging_host + b->offset;
    return c;
}

static CUDA_MEMCPY3D copy_in(const cuda_lane *l, const cuda_staged *b)
{
    CUDA_MEMCPY3D c = copy_node(b->bytes);
    c.srcMemoryType = CU_MEMORYTYPE_HOST;
    c.srcHost = (char *)l->staging_host + b->offset;
    c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    c.dstDevice = (CUdeviceptr)(uintptr_t)l->staging + (CUdeviceptr)b->offset;
    return c;
}

/* A product's launches, captured on the device's own stream, where nothing runs meanwhile. */
static ein_status capture(walker *w, const step *s, CUgraph *out)
{
    CUstream stream = w->t->devices[s->device].steps;
    const i64 *v = w->g->lanes[s->device].values;
    TRY(ein__cuda_use_gpu(w, s->device));
    CU(w->t, cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), s->what, s->device, w->e);
    ein_status status = ein__cuda_product_run(w->x->code->products, s, v[0], v[1], v[2], w->e);
    CUresult code = w->t->cu.cuStreamEndCapture(stream, out);
    if (status != EIN_OK) {
        if (code == CUDA_SUCCESS) w->t->cu.cuGraphDestroy(*out);
        return status;
    }
    return code == CUDA_SUCCESS ? EIN_OK : ein__cuda_failed(w->t, code, s->what, s->device, w->e);
}

static ein_status add_product(walker *w, cuda_graph *g, const step *s, int n_after, CUgraphNode *out)
{
    CUgraph child = NULL;
    TRY(capture(w, s, &child));
    CUresult code = w->t->cu.cuGraphAddChildGraphNode(out, g->graph, g->after, (size_t)n_after, child);
    w->t->cu.cuGraphDestroy(child);
    return code == CUDA_SUCCESS ? EIN_OK : ein__cuda_failed(w->t, code, s->what, s->device, w->e);
}

/* ---- building ----------------------------------------------------------------------------------------- */

/* What the step comes after: its device's last step, and those that it waits for. */
static int list_after(const walker *w, cuda_graph *g, const step *s, int iteration)
{
    int n = 0;
    i64 mine = g->n_finished[s->device];
    if (mine > 0) g->after[n++] = g->finished[s->device][mine - 1];
    for (int k = 0; k < s->n_waits; k++) {
        const wait *x = &s->waits[k];
        int at = ein__cuda_awaited(w, s, x, iteration);
        if (at >= 0) g->after[n++] = g->finished[x->device][ein__program_count(w->p, x->device, x->step, at, false) - 1];
    }
    return n;
}

/* Out of the owner's memory after all that the step comes after, and in; the step comes after the last. */
static ein_status add_copies(walker *w, cuda_graph *g, const step *s, int *n_after)
{
    const cuda_step *x = ein__cuda_engine_step(w, s);
    const cuda_lane *l = &w->g->lanes[s->device];
    int n = *n_after;
    for (int k = 0; k < x->n_staged; k++) {
        const cuda_staged *b = &x->staged[k];
        graph_copy *c = &g->copies[g->n_copies++];
        c->from = ein__place_address(&w->places[s->device], w->g->iteration, &s->args[b->arg].place);
        CUDA_MEMCPY3D out = copy_out(l, b, c->from), in = copy_in(l, b);
        CU(w->t, cuGraphAddMemcpyNode(&c->out, g->graph, g->after, (size_t)n, &out, w->t->gpus[w->t->devices[b->owner].gpu].context),
           s->what, s->device, w->e);
        CU(w->t, cuGraphAddMemcpyNode(&g->after[(*n_after)++], g->graph, &c->out, 1, &in,
                                      w->t->gpus[w->t->devices[s->device].gpu].context), s->what, s->device, w->e);
    }
    return EIN_OK;
}

static ein_status add_step(walker *w, const step *s, int iteration)
{
    cuda_graph *g = w->g->graph;
    graph_step *x = &g->steps[g->n_steps++];
    int n_after = list_after(w, g, s, iteration), n;
    TRY(add_copies(w, g, s, &n_after));
    n = ein__cuda_resolve(w, s);
    x->first = g->n_values;
    memcpy(g->values + x->first, w->g->lanes[s->device].values, (size_t)n * sizeof *g->values);
    g->n_values += n;
    if (s->kind == STEP_GEMM) {
        TRY(add_product(w, g, s, n_after, &x->node));
    } else if (ein__cuda_is_empty(s)) {
        CU(w->t, cuGraphAddEmptyNode(&x->node, g->graph, g->after, (size_t)n_after), s->what, s->device, w->e);
    } else {
        CUDA_KERNEL_NODE_PARAMS k = kernel_node(w, s);
        CU(w->t, cuGraphAddKernelNode_v2(&x->node, g->graph, g->after, (size_t)n_after, &k), s->what, s->device, w->e);
    }
    g->finished[s->device][g->n_finished[s->device]++] = x->node;
    return EIN_OK;
}

static void rewind_lanes(walker *w)
{
    for (int d = 0; d < w->p->n_devices; d++) w->g->lanes[d].next_source = 0;
}

static ein_status build(walker *w, cuda_graph *g)
{
    TRY(allocate(w, g));
    TRY(ein__cuda_use_gpu(w, 0));
    CU(w->t, cuGraphCreate(&g->graph, 0), "cuGraphCreate", 0, w->e);
    ein_status s = ein__cuda_each_step(w, add_step);
    rewind_lanes(w);
    TRY(s);
    if (atomic_load(&w->x->stop) != 0) return EIN_CANCELLED;
    CU(w->t, cuGraphInstantiateWithFlags(&g->exec, g->graph, 0), "cuGraphInstantiate", 0, w->e);
    return EIN_OK;
}

/* ---- arguments ---------------------------------------------------------------------------------------- */

static ein_status set_product(walker *w, cuda_graph *g, const step *s, const graph_step *x)
{
    CUgraph child = NULL;
    TRY(capture(w, s, &child));
    CUresult code = w->t->cu.cuGraphExecChildGraphNodeSetParams(g->exec, x->node, child);
    w->t->cu.cuGraphDestroy(child);
    return code == CUDA_SUCCESS ? EIN_OK : ein__cuda_failed(w->t, code, s->what, s->device, w->e);
}

static ein_status set_copies(walker *w, cuda_graph *g, const step *s)
{
    const cuda_step *x = ein__cuda_engine_step(w, s);
    for (int k = 0; k < x->n_staged; k++) {
        const cuda_staged *b = &x->staged[k];
        graph_copy *c = &g->copies[g->next_copy++];
        i64 from = ein__place_address(&w->places[s->device], w->g->iteration, &s->args[b->arg].place);
        if (from == c->from) continue;
        CUDA_MEMCPY3D out = copy_out(&w->g->lanes[s->device], b, c->from = from);
        CU(w->t, cuGraphExecMemcpyNodeSetParams(g->exec, c->out, &out, w->t->gpus[w->t->devices[b->owner].gpu].context), s->what,
           s->device, w->e);
    }
    return EIN_OK;
}

static ein_status set_step(walker *w, const step *s, int iteration)
{
    cuda_graph *g = w->g->graph;
    const graph_step *x = &g->steps[g->next_step++];
    (void)iteration;
    TRY(set_copies(w, g, s));
    const size_t bytes = (size_t)ein__cuda_resolve(w, s) * sizeof *g->values;
    if (ein__cuda_is_empty(s) || memcmp(g->values + x->first, w->g->lanes[s->device].values, bytes) == 0) return EIN_OK;
    memcpy(g->values + x->first, w->g->lanes[s->device].values, bytes);
    if (s->kind == STEP_GEMM) return set_product(w, g, s, x);
    CUDA_KERNEL_NODE_PARAMS k = kernel_node(w, s);
    CU(w->t, cuGraphExecKernelNodeSetParams_v2(g->exec, x->node, &k), s->what, s->device, w->e);
    return EIN_OK;
}

/* ---- running ------------------------------------------------------------------------------------------ */

/* A graph, or the knowledge that there is none. */
static ein_status need_graph(walker *w)
{
    cuda_engine *n = w->g;
    if (n->graph != NULL || n->no_graph) return EIN_OK;
    n->graph = ein__calloc(1, sizeof *n->graph);
    error own = {0}, *outer = w->e;
    w->e = &own;
    ein_status s = n->graph != NULL ? build(w, n->graph) : EIN_NO_MEMORY;
    w->e = outer;
    if (s == EIN_OK) return s;
    ein__cuda_graph_free(w->t, n->graph);
    n->graph = NULL;
    n->no_graph = s != EIN_CANCELLED;
    return ein__cuda_alive(w->t, w->e);
}

static bool can_graphs(const cuda_target *t)
{
    return t->cu.cuGraphAddKernelNode_v2 != NULL && t->cu.cuGraphExecKernelNodeSetParams_v2 != NULL;
}

static ein_status launch(walker *w)
{
    cuda_graph *g = w->g->graph;
    g->next_step = g->next_copy = 0;
    ein_status s = ein__cuda_each_step(w, set_step);
    rewind_lanes(w);
    TRY(s);
    if (atomic_load(&w->x->stop) != 0) return EIN_OK;
    for (int d = 0; d < w->p->n_devices; d++) { /* the arrays of addresses are there */
        TRY(ein__cuda_use_gpu(w, d));
        CU(w->t, cuStreamSynchronize(w->t->devices[d].steps), "running", d, w->e);
    }
    TRY(ein__cuda_use_gpu(w, 0));
    CU(w->t, cuGraphLaunch(g->exec, w->t->devices[0].steps), "cuGraphLaunch", 0, w->e);
    return EIN_OK;
}

ein_status ein__cuda_graph_run(walker *w, bool *done)
{
    *done = false;
    if (!w->t->graphs || !can_graphs(w->t) || w->g->n_runs++ == 0) return EIN_OK;
    TRY(need_graph(w));
    if (w->g->graph == NULL) return EIN_OK;
    if (launch(w) == EIN_OK) {
        *done = true;
        return EIN_OK;
    }
    ein__cuda_graph_free(w->t, w->g->graph);
    w->g->graph = NULL;
    w->g->no_graph = true;
    return ein__cuda_alive(w->t, w->e);
}

void ein__cuda_graph_free(cuda_target *t, cuda_graph *g)
{
    if (g == NULL) return;
    if (g->exec != NULL) t->cu.cuGraphExecDestroy(g->exec);
    if (g->graph != NULL) t->cu.cuGraphDestroy(g->graph);
    for (int d = 0; d < t->n_devices; d++) ein__free(g->finished[d]);
    ein__free(g->steps);
    ein__free(g->copies);
    ein__free(g->values);
    ein__free(g->after);
    ein__free(g);
}
