/* SPDX-License-Identifier: Apache-2.0 */
/* Driver: graphs and their instances. A node stands behind those it depends on, which were there before it, so the
 * order in which nodes were made is one in which they may run. An instance is flat: a child graph becomes an entry, its
 * nodes and an exit. */
#include <stdlib.h>
#include <string.h>

#include "tests/fake/fake.h"

/* ---- graphs ---- */

void fake_nodes_add(nodes *list, CUgraphNode node)
{
    for (int i = 0; i < list->n; i++)
        if (list->items[i] == node) return;
    if (list->n == list->room) {
        list->room = list->room > 0 ? 2 * list->room : 4;
        list->items = realloc(list->items, (size_t)list->room * sizeof(CUgraphNode));
        if (list->items == NULL) abort();
    }
    list->items[list->n++] = node;
}

void fake_nodes_copy(nodes *to, const nodes *from)
{
    to->n = 0;
    for (int i = 0; i < from->n; i++) fake_nodes_add(to, from->items[i]);
}

static void empty_graph(void *self) { free(((CUgraph)self)->nodes.items); }

CUgraph fake_graph(void)
{
    CUgraph g = fake_object(GRAPH, sizeof *g);
    g->o.empty = empty_graph;
    return g;
}

static void empty_node(void *self)
{
    CUgraphNode n = self;
    fake_operation_free(&n->what);
    free(n->after.items);
    n->after = (nodes){0};
}

CUgraphNode fake_node(CUgraph graph, const operation *what, const CUgraphNode *after, size_t n)
{
    CUgraphNode node = fake_object(NODE, sizeof *node);
    node->o.empty = empty_node;
    node->o.owned = true;
    node->graph = graph;
    node->what = *what;
    for (size_t i = 0; i < n; i++) fake_nodes_add(&node->after, after[i]);
    fake_nodes_add(&graph->nodes, node);
    return node;
}

static CUgraph copy_graph(CUgraph from)
{
    CUgraph to = fake_graph();
    to->o.owned = to->child = true;
    for (int i = 0; i < from->nodes.n; i++) {
        const struct CUgraphNode_st *node = from->nodes.items[i];
        operation what;
        fake_operation_copy(&what, &node->what);
        CUgraphNode copy = fake_node(to, &what, NULL, 0);
        copy->child = node->child != NULL ? copy_graph(node->child) : NULL;
        for (int k = 0; k < node->after.n; k++)
            for (int j = 0; j < i; j++)
                if (from->nodes.items[j] == node->after.items[k]) fake_nodes_add(&copy->after, to->nodes.items[j]);
    }
    return to;
}

void fake_graph_end(CUgraph g)
{
    g->o.live = false;
    for (int i = 0; i < g->nodes.n; i++) {
        g->nodes.items[i]->o.live = false;
        if (g->nodes.items[i]->child != NULL) fake_graph_end(g->nodes.items[i]->child);
        empty_node(g->nodes.items[i]);
    }
}

CUresult cuGraphCreate(CUgraph *out, unsigned int flags)
{
    ENTER(NEEDS_INIT);
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    *out = fake_graph();
    return 0;
}

CUresult cuGraphDestroy(CUgraph g)
{
    ENTER(NEEDS_INIT | HAS_EFFECT);
    if (!fake_valid(g, GRAPH) || g->child) return CUDA_ERROR_INVALID_HANDLE;
    fake_graph_end(g);
    LEAVE(0);
}

CUresult cuGraphGetNodes(CUgraph g, CUgraphNode *out, size_t *n)
{
    ENTER(NEEDS_INIT);
    if (!fake_valid(g, GRAPH)) return CUDA_ERROR_INVALID_HANDLE;
    for (int i = 0; out != NULL && i < g->nodes.n && (size_t)i < *n; i++) out[i] = g->nodes.items[i];
    *n = (size_t)g->nodes.n;
    return 0;
}

/* ---- nodes ---- */

static CUresult add(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t n, operation *what)
{
    bool right = fake_valid(graph, GRAPH) && (n == 0 || after != NULL);
    for (size_t i = 0; right && i < n; i++) right = fake_valid(after[i], NODE) && after[i]->graph == graph;
    if (!right) {
        fake_operation_free(what);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = fake_node(graph, what, after, n);
    return 0;
}

static CUresult kernel_operation(const CUDA_KERNEL_NODE_PARAMS *p, operation *out)
{
    CUfunction f;
    CUcontext c;
    if (p->extra != NULL) return CUDA_ERROR_NOT_SUPPORTED;
    launch l = {p->func,
                p->kern,
                p->ctx != NULL ? p->ctx : fake_current(),
                {p->gridDimX, p->gridDimY, p->gridDimZ},
                {p->blockDimX, p->blockDimY, p->blockDimZ},
                p->sharedMemBytes,
                p->kernelParams};
    CUresult code = fake_launch_check(&l, &f, &c);
    if (code == 0) fake_launch_operation(&l, f, c, out);
    return code;
}

static CUresult copy_operation(const CUDA_MEMCPY3D *p, CUcontext c, operation *out)
{
    *out = (operation){.kind = DO_COPY, .context = c};
    if (c == NULL || p->Depth != 1 || p->srcZ != 0 || p->dstZ != 0 || p->srcLOD != 0 || p->dstLOD != 0)
        return CUDA_ERROR_INVALID_VALUE;
    const char *from = p->srcMemoryType == CU_MEMORYTYPE_HOST ? p->srcHost : (const char *)(uintptr_t)p->srcDevice;
    char *to = p->dstMemoryType == CU_MEMORYTYPE_HOST ? p->dstHost : (char *)(uintptr_t)p->dstDevice;
    out->copy.from = from + p->srcY * p->srcPitch + p->srcXInBytes;
    out->copy.to = to + p->dstY * p->dstPitch + p->dstXInBytes;
    out->copy.width = p->WidthInBytes;
    out->copy.rows = p->Height;
    out->copy.from_pitch = p->srcPitch;
    out->copy.to_pitch = p->dstPitch;
    if (p->Height > 1 && (p->srcPitch < p->WidthInBytes || p->dstPitch < p->WidthInBytes))
        return CUDA_ERROR_INVALID_VALUE;
    if ((p->srcMemoryType == CU_MEMORYTYPE_DEVICE && !fake_of_device(from)) ||
        (p->dstMemoryType == CU_MEMORYTYPE_DEVICE && !fake_of_device(to)))
        return CUDA_ERROR_INVALID_VALUE;
    return fake_copy_check(out);
}

static CUresult set_operation(const CUDA_MEMSET_NODE_PARAMS *p, CUcontext c, operation *out)
{
    *out = (operation){.kind = DO_SET, .context = c};
    if (c == NULL || !fake_of_device((void *)(uintptr_t)p->dst) || p->width == 0 || p->height == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) return CUDA_ERROR_INVALID_VALUE;
    out->set.to = (char *)(uintptr_t)p->dst;
    out->set.value = p->value;
    out->set.element = (int)p->elementSize;
    out->set.width = p->width;
    out->set.rows = p->height;
    out->set.pitch = p->pitch;
    return 0;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                                 const CUDA_KERNEL_NODE_PARAMS *p)
{
    operation what;
    ENTER(NEEDS_INIT);
    CUresult code = kernel_operation(p, &what);
    return code != 0 ? code : add(node, graph, after, n, &what);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                              const CUDA_MEMCPY3D *p, CUcontext c)
{
    operation what;
    ENTER(NEEDS_INIT);
    CUresult code = copy_operation(p, c, &what);
    return code != 0 ? code : add(node, graph, after, n, &what);
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                              const CUDA_MEMSET_NODE_PARAMS *p, CUcontext c)
{
    operation what;
    ENTER(NEEDS_INIT);
    CUresult code = set_operation(p, c, &what);
    return code != 0 ? code : add(node, graph, after, n, &what);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n)
{
    ENTER(NEEDS_INIT);
    operation what = {.kind = DO_NOTHING};
    return add(node, graph, after, n, &what);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n, CUgraph child)
{
    ENTER(NEEDS_INIT);
    operation what = {.kind = DO_NOTHING};
    if (!fake_valid(child, GRAPH)) return CUDA_ERROR_INVALID_VALUE;
    CUresult code = add(node, graph, after, n, &what);
    if (code == 0) (*node)->child = copy_graph(child);
    return code;
}

static CUresult add_event(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n, CUevent e,
                          operation_kind kind)
{
    if (!fake_valid(e, EVENT)) return CUDA_ERROR_INVALID_VALUE;
    operation what = {.kind = kind, .context = e->context};
    what.event = e;
    return add(node, graph, after, n, &what);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n, CUevent e)
{
    ENTER(NEEDS_INIT);
    return add_event(node, graph, after, n, e, DO_RECORD);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n, CUevent e)
{
    ENTER(NEEDS_INIT);
    return add_event(node, graph, after, n, e, DO_WAIT);
}

/* ---- instances ---- */

/* `after`: numbers of other steps. The strand goes on from one of them that no other step goes on from. */
typedef struct exec_step {
    CUgraphNode node;
    operation what;
    int *after, n_after, strand;
    bool continued;
} exec_step;
struct CUgraphExec_st {
    object o;
    exec_step *items;
    int n, room;
    task *last;
};

static void empty_exec(void *self)
{
    CUgraphExec x = self;
    for (int i = 0; i < x->n; i++) {
        fake_operation_free(&x->items[i].what);
        free(x->items[i].after);
    }
    free(x->items);
    fake_task_drop(x->last);
    x->items = NULL;
    x->last = NULL;
    x->n = 0;
}

static int push(CUgraphExec x, CUgraphNode node, const operation *what)
{
    if (x->n == x->room) {
        x->room = x->room > 0 ? 2 * x->room : 64;
        x->items = realloc(x->items, (size_t)x->room * sizeof *x->items);
        if (x->items == NULL) abort();
    }
    x->items[x->n] = (exec_step){.node = node};
    if (what != NULL) fake_operation_copy(&x->items[x->n].what, what);
    return x->n++;
}

static void depend(exec_step *s, int on)
{
    s->after = realloc(s->after, (size_t)(s->n_after + 1) * sizeof *s->after);
    if (s->after == NULL) abort();
    s->after[s->n_after++] = on;
}

/* Adds the graph; its roots come after `entry`, and so does what has no root. Adds the exits' numbers to step `exit`.
 */
static void flatten(CUgraphExec x, CUgraph g, int entry, int *ends, int *n_ends)
{
    int *number = calloc((size_t)g->nodes.n + 1, sizeof *number);
    bool *followed = calloc((size_t)g->nodes.n + 1, sizeof *followed);
    if (number == NULL || followed == NULL) abort();
    for (int i = 0; i < g->nodes.n; i++) {
        const CUgraphNode node = g->nodes.items[i];
        number[i] = push(x, node, &node->what);
        for (int k = 0; k < node->after.n; k++)
            for (int j = 0; j < i; j++)
                if (g->nodes.items[j] == node->after.items[k]) {
                    depend(&x->items[number[i]], number[j]);
                    followed[j] = true;
                }
        if (node->after.n == 0 && entry >= 0) depend(&x->items[number[i]], entry);
        if (node->child == NULL) continue;
        int *inner = calloc((size_t)node->child->nodes.n + 1, sizeof *inner), n_inner = 0;
        if (inner == NULL) abort();
        const int from = number[i];
        flatten(x, node->child, from, inner, &n_inner);
        number[i] = push(x, NULL, NULL);
        for (int k = 0; k < n_inner; k++) depend(&x->items[number[i]], inner[k]);
        if (n_inner == 0) depend(&x->items[number[i]], from);
        free(inner);
    }
    for (int i = 0; i < g->nodes.n; i++)
        if (!followed[i]) ends[(*n_ends)++] = number[i];
    free(number);
    free(followed);
}

static void give_strands(CUgraphExec x)
{
    for (int i = 0; i < x->n; i++) {
        exec_step *s = &x->items[i];
        s->strand = -1;
        for (int k = 0; k < s->n_after && s->strand < 0; k++)
            if (!x->items[s->after[k]].continued) {
                x->items[s->after[k]].continued = true;
                s->strand = x->items[s->after[k]].strand;
            }
        if (s->strand < 0) s->strand = fake_strand();
    }
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long flags)
{
    ENTER(NEEDS_INIT);
    if (!fake_valid(g, GRAPH) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    CUgraphExec x = fake_object(GRAPH_EXEC, sizeof *x);
    x->o.empty = empty_exec;
    int *ends = calloc((size_t)g->nodes.n + 1, sizeof *ends), n_ends = 0;
    if (ends == NULL) abort();
    flatten(x, g, -1, ends, &n_ends);
    free(ends);
    give_strands(x);
    *out = x;
    return 0;
}

CUresult cuGraphExecDestroy(CUgraphExec x)
{
    ENTER(NEEDS_INIT | HAS_EFFECT);
    if (!fake_valid(x, GRAPH_EXEC)) return CUDA_ERROR_INVALID_HANDLE;
    empty_exec(x); /* a launch under way has copies of its own */
    x->o.live = false;
    LEAVE(0);
}

CUresult cuGraphUpload(CUgraphExec x, CUstream stream)
{
    CUresult code;
    ENTER(NEEDS_CONTEXT);
    if (!fake_valid(x, GRAPH_EXEC)) return CUDA_ERROR_INVALID_HANDLE;
    return fake_stream(stream, &code) != NULL ? 0 : code;
}

static void launch_step(exec_step *s, task *const *made, task *const *start, task **out)
{
    operation what;
    task **before = calloc((size_t)s->n_after + 4, sizeof *before);
    int n = 0;
    if (before == NULL) abort();
    for (int k = 0; k < s->n_after; k++) before[n++] = made[s->after[k]];
    for (int k = 0; k < 2; k++) before[n++] = start[k];
    fake_operation_copy(&what, &s->what);
    if (what.kind == DO_WAIT) before[n++] = what.event->task;
    *out = fake_task(&what, s->strand, before, n);
    if (what.kind == DO_RECORD) {
        fake_task_drop(what.event->task);
        what.event->task = fake_task_keep(*out);
        what.event->capture = NULL;
    }
    free(before);
}

/* All steps, behind the stream and behind the launch before; then the stream goes on behind all steps. */
CUresult cuGraphLaunch(CUgraphExec x, CUstream stream)
{
    CUresult code;
    ENTER(NEEDS_CONTEXT);
    CUstream s = fake_stream(stream, &code);
    if (s == NULL) return code;
    if (!fake_valid(x, GRAPH_EXEC)) return CUDA_ERROR_INVALID_HANDLE;
    if (s->capture != NULL) return CUDA_ERROR_NOT_SUPPORTED;
    task **made = calloc((size_t)x->n + 3, sizeof *made);
    if (made == NULL) abort();
    for (int i = 0; i < x->n; i++) {
        if (x->items[i].what.context != NULL && x->items[i].what.context->error != 0)
            code = x->items[i].what.context->error;
        launch_step(&x->items[i], made, (task *[]){s->tail, x->last}, &made[i]);
    }
    operation end = {.kind = DO_NOTHING, .context = s->context};
    made[x->n] = s->tail;
    made[x->n + 1] = x->last;
    task *last = fake_task(&end, s->strand, made, x->n + 2);
    for (int i = 0; i < x->n; i++) fake_task_drop(made[i]);
    free(made);
    fake_task_drop(s->tail);
    fake_task_drop(x->last);
    s->tail = last;
    x->last = fake_task_keep(last);
    return code;
}

/* ---- changes of instances ---- */

static exec_step *find(CUgraphExec x, CUgraphNode node)
{
    for (int i = 0; fake_valid(x, GRAPH_EXEC) && i < x->n; i++)
        if (x->items[i].node == node && node != NULL) return &x->items[i];
    return NULL;
}

static CUresult change(CUgraphExec x, CUgraphNode node, operation *what)
{
    exec_step *s = find(x, node);
    CUresult code = s == NULL || s->what.kind != what->kind ? CUDA_ERROR_INVALID_VALUE : 0;
    if (code == 0 && what->kind == DO_KERNEL && s->what.context != what->context) code = CUDA_ERROR_INVALID_VALUE;
    if (code != 0) {
        fake_operation_free(what);
        return code;
    }
    fake_operation_free(&s->what);
    s->what = *what;
    return 0;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec x, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p)
{
    operation what;
    ENTER(NEEDS_INIT);
    CUresult code = kernel_operation(p, &what);
    return code != 0 ? code : change(x, node, &what);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec x, CUgraphNode node, const CUDA_MEMCPY3D *p, CUcontext c)
{
    operation what;
    ENTER(NEEDS_INIT);
    CUresult code = copy_operation(p, c, &what);
    return code != 0 ? code : change(x, node, &what);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec x, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext c)
{
    operation what;
    ENTER(NEEDS_INIT);
    CUresult code = set_operation(p, c, &what);
    return code != 0 ? code : change(x, node, &what);
}

/* Steps from `at` on take the operations of a graph of the same shape. */
static CUgraphExecUpdateResult update(CUgraphExec x, int at, int n, CUgraph g)
{
    struct CUgraphExec_st y = {.n = 0};
    int *ends = calloc((size_t)g->nodes.n + 1, sizeof *ends), n_ends = 0;
    if (ends == NULL) abort();
    flatten(&y, g, -1, ends, &n_ends);
    free(ends);
    CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    if (n >= 0 ? y.n != n : y.n > x->n - at) result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (int i = 0; result == CU_GRAPH_EXEC_UPDATE_SUCCESS && i < y.n; i++) {
        const exec_step *old = &x->items[at + i], *new = &y.items[i];
        if (old->n_after != new->n_after && at == 0)
            result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        else if (old->what.kind != new->what.kind)
            result = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        else if (old->what.context != new->what.context)
            result = CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    }
    for (int i = 0; result == CU_GRAPH_EXEC_UPDATE_SUCCESS && i < y.n; i++) {
        operation old = x->items[at + i].what;
        x->items[at + i].what = y.items[i].what;
        y.items[i].what = old;
    }
    empty_exec(&y);
    return result;
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec x, CUgraphNode node, CUgraph child)
{
    ENTER(NEEDS_INIT);
    const exec_step *entry = find(x, node);
    if (entry == NULL || !fake_valid(child, GRAPH)) return CUDA_ERROR_INVALID_VALUE;
    return update(x, (int)(entry - x->items) + 1, -1, child) == CU_GRAPH_EXEC_UPDATE_SUCCESS ? 0
                                                                                             : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec x, CUgraph g, CUgraphExecUpdateResultInfo *result)
{
    ENTER(NEEDS_INIT);
    if (!fake_valid(x, GRAPH_EXEC) || !fake_valid(g, GRAPH)) return CUDA_ERROR_INVALID_VALUE;
    memset(result, 0, sizeof *result);
    result->result = update(x, 0, x->n, g);
    return result->result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? 0 : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}
