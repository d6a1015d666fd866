/* SPDX-License-Identifier: Apache-2.0 */
/* The fake's graphs: nodes run in any order that their edges allow; instances are changed; streams are captured, and
 * what must not happen meanwhile is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fake/rig.h"

enum { N = 70, SEEDS = 12 };

static CUgraphNode add_kernel(rig *r, CUgraph g, int device, const CUgraphNode *after, size_t n_after, CUdeviceptr x,
                              CUdeviceptr y, float v)
{
    CUgraphNode node;
    CUkernel k;
    long long n = N;
    OK(r->cu.cuLibraryGetKernel(&k, r->library, r->kernels[ADD].name));
    const CUDA_KERNEL_NODE_PARAMS p = {.kern = k,
                                       .ctx = r->context[device],
                                       .gridDimX = 2,
                                       .gridDimY = 1,
                                       .gridDimZ = 1,
                                       .blockDimX = RIG_THREADS,
                                       .blockDimY = 1,
                                       .blockDimZ = 1,
                                       .kernelParams = (void *[]){&x, &y, &n, &v}};
    OK(r->cu.cuGraphAddKernelNode_v2(&node, g, after, n_after, &p));
    return node;
}

/* A diamond over two devices: x = 1; y = x + 10 on device 1, z = x + 100 on device 0; w = y + z's number by two steps.
 */
typedef struct diamond {
    CUdeviceptr x, y, z;
    CUgraph graph;
    CUgraphNode set, left, right, last;
    CUgraphExec exec;
} diamond;

static void make_diamond(rig *r, diamond *d, bool edge)
{
    memset(d, 0, sizeof *d);
    d->x = rig_alloc(r, 0, N);
    d->y = rig_alloc(r, 1, N);
    d->z = rig_alloc(r, 0, N);
    OK(r->cu.cuCtxSetCurrent(r->context[1]));
    OK(r->cu.cuCtxEnablePeerAccess(r->context[0], 0));
    OK(r->cu.cuGraphCreate(&d->graph, 0));
    const CUDA_MEMSET_NODE_PARAMS set = {.dst = d->x, .value = 0x3f800000, .elementSize = 4, .width = N, .height = 1};
    OK(r->cu.cuGraphAddMemsetNode(&d->set, d->graph, NULL, 0, &set, r->context[0]));
    d->left = add_kernel(r, d->graph, 1, &d->set, edge ? 1 : 0, d->x, d->y, 10.0f);
    d->right = add_kernel(r, d->graph, 0, &d->set, 1, d->x, d->z, 100.0f);
    const CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = d->y,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = d->x,
                                .WidthInBytes = N * sizeof(float),
                                .Height = 1,
                                .Depth = 1};
    OK(r->cu.cuGraphAddMemcpyNode(&d->last, d->graph, (CUgraphNode[]){d->left, d->right}, 2, &copy, r->context[0]));
    OK(r->cu.cuGraphInstantiateWithFlags(&d->exec, d->graph, 0));
}

static void drop_diamond(rig *r, diamond *d)
{
    OK(r->cu.cuGraphExecDestroy(d->exec));
    OK(r->cu.cuGraphDestroy(d->graph));
    rig_free(r, 0, d->x);
    rig_free(r, 1, d->y);
    rig_free(r, 0, d->z);
}

static void open_seeded(rig *r, int seed)
{
    char settings[64];
    snprintf(settings, sizeof settings, "devices=2 check=1 seed=%d", seed);
    rig_open(r, settings);
}

static void test_graph__runs_by_its_edges(void **state)
{
    (void)state;
    for (int seed = 1; seed <= SEEDS; seed++) {
        rig r;
        diamond d;
        open_seeded(&r, seed);
        make_diamond(&r, &d, true);
        for (int run = 0; run < 3; run++) {
            OK(r.cu.cuCtxSetCurrent(r.context[0]));
            OK(r.cu.cuGraphLaunch(d.exec, r.stream[0]));
            OK(rig_add(&r, 0, r.stream[0], d.x, d.x, N, 1.0f)); /* behind all of it */
            assert_true(rig_get(&r, 0, d.x, N - 1) == 12.0f);
            assert_true(rig_get(&r, 0, d.z, N - 1) == 101.0f);
        }
        drop_diamond(&r, &d);
        rig_close(&r);
    }
}

static void test_graph__missing_edge_is_found(void **state)
{
    (void)state;
    for (int seed = 1; seed <= SEEDS; seed++) {
        rig r;
        diamond d;
        open_seeded(&r, seed);
        make_diamond(&r, &d, false);
        rig_fill(&r, 0, d.x, N, 0.0f);
        OK(r.cu.cuGraphLaunch(d.exec, r.stream[0]));
        OK(r.cu.cuStreamSynchronize(r.stream[0]));
        rig_reported("race");
        drop_diamond(&r, &d);
        rig_close(&r);
    }
}

static void test_exec__is_changed(void **state)
{
    rig r;
    diamond d;
    CUgraphExecUpdateResultInfo result;
    (void)state;
    open_seeded(&r, 5);
    make_diamond(&r, &d, true);
    long long n = N;
    float v = 20.0f;
    CUkernel k;
    OK(r.cu.cuLibraryGetKernel(&k, r.library, r.kernels[ADD].name));
    CUDA_KERNEL_NODE_PARAMS p = {.kern = k,
                                 .ctx = r.context[1],
                                 .gridDimX = 2,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = RIG_THREADS,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = (void *[]){&d.x, &d.y, &n, &v}};
    OK(r.cu.cuGraphLaunch(d.exec, r.stream[1]));
    OK(r.cu.cuGraphExecKernelNodeSetParams_v2(d.exec, d.left, &p)); /* for the launches to come */
    OK(r.cu.cuStreamSynchronize(r.stream[1]));
    assert_true(rig_get(&r, 0, d.x, 0) == 11.0f);
    OK(r.cu.cuGraphLaunch(d.exec, r.stream[1]));
    OK(r.cu.cuStreamSynchronize(r.stream[1]));
    assert_true(rig_get(&r, 0, d.x, 0) == 21.0f);
    p.ctx = r.context[0];
    assert_int_equal(r.cu.cuGraphExecKernelNodeSetParams_v2(d.exec, d.left, &p), CUDA_ERROR_INVALID_VALUE);
    OK(r.cu.cuGraphExecUpdate_v2(d.exec, d.graph, &result)); /* back to 10 */
    OK(r.cu.cuGraphLaunch(d.exec, r.stream[1]));
    OK(r.cu.cuStreamSynchronize(r.stream[1]));
    assert_true(rig_get(&r, 0, d.x, 0) == 11.0f);
    CUgraphNode more;
    OK(r.cu.cuGraphAddEmptyNode(&more, d.graph, NULL, 0));
    assert_int_equal(r.cu.cuGraphExecUpdate_v2(d.exec, d.graph, &result), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_int_equal(result.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    drop_diamond(&r, &d);
    rig_close(&r);
}

/* A child is copied where it is added, runs between what stands before and after it, and is changed as a whole. */
static void test_child(void **state)
{
    (void)state;
    for (int seed = 1; seed <= SEEDS; seed++) {
        rig r;
        CUgraph child, graph;
        CUgraphNode node, before, first;
        CUgraphExec exec;
        open_seeded(&r, seed);
        CUdeviceptr x = rig_alloc(&r, 0, N);
        OK(r.cu.cuGraphCreate(&child, 0));
        first = add_kernel(&r, child, 0, NULL, 0, x, x, 1.0f);
        add_kernel(&r, child, 0, &first, 1, x, x, 1.0f);
        OK(r.cu.cuGraphCreate(&graph, 0));
        const CUDA_MEMSET_NODE_PARAMS set = {.dst = x, .value = 0, .elementSize = 4, .width = N, .height = 1};
        OK(r.cu.cuGraphAddMemsetNode(&before, graph, NULL, 0, &set, r.context[0]));
        OK(r.cu.cuGraphAddChildGraphNode(&node, graph, &before, 1, child));
        OK(r.cu.cuGraphDestroy(child));
        add_kernel(&r, graph, 0, &node, 1, x, x, 0.5f);
        OK(r.cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
        OK(r.cu.cuGraphLaunch(exec, r.stream[0]));
        assert_true(rig_get(&r, 0, x, 3) == 2.5f);
        OK(r.cu.cuGraphCreate(&child, 0));
        first = add_kernel(&r, child, 0, NULL, 0, x, x, 4.0f);
        add_kernel(&r, child, 0, &first, 1, x, x, 4.0f);
        OK(r.cu.cuGraphExecChildGraphNodeSetParams(exec, node, child));
        OK(r.cu.cuGraphLaunch(exec, r.stream[0]));
        assert_true(rig_get(&r, 0, x, 3) == 8.5f);
        OK(r.cu.cuGraphDestroy(child));
        OK(r.cu.cuGraphExecDestroy(exec));
        OK(r.cu.cuGraphDestroy(graph));
        rig_free(&r, 0, x);
        rig_close(&r);
    }
}

/* ---- capture ---- */

static void test_capture__makes_the_graph(void **state)
{
    (void)state;
    for (int seed = 1; seed <= SEEDS; seed++) {
        rig r;
        CUevent fork, join;
        CUgraph graph;
        CUgraphExec exec;
        CUstreamCaptureStatus status;
        size_t n = 0;
        open_seeded(&r, seed);
        CUdeviceptr x = rig_alloc(&r, 0, N), y = rig_alloc(&r, 1, N);
        OK(r.cu.cuCtxSetCurrent(r.context[1]));
        OK(r.cu.cuCtxEnablePeerAccess(r.context[0], 0));
        OK(r.cu.cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
        OK(r.cu.cuCtxSetCurrent(r.context[0]));
        OK(r.cu.cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
        OK(r.cu.cuStreamBeginCapture_v2(r.stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
        rig_fill(&r, 0, x, N, 3.0f);
        OK(r.cu.cuEventRecord(fork, r.stream[0]));
        OK(r.cu.cuCtxSetCurrent(r.context[1]));
        OK(r.cu.cuStreamWaitEvent(r.stream[1], fork, 0));
        OK(r.cu.cuStreamIsCapturing(r.stream[1], &status));
        assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
        OK(rig_add(&r, 1, r.stream[1], x, y, N, 1.0f));
        OK(r.cu.cuEventRecord(join, r.stream[1]));
        OK(r.cu.cuCtxSetCurrent(r.context[0]));
        OK(r.cu.cuStreamWaitEvent(r.stream[0], join, 0));
        OK(rig_add(&r, 0, r.stream[0], x, x, N, 1.0f));
        OK(r.cu.cuStreamEndCapture(r.stream[0], &graph));
        OK(r.cu.cuStreamIsCapturing(r.stream[1], &status));
        assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
        OK(r.cu.cuGraphGetNodes(graph, NULL, &n));
        assert_int_equal(n, 3);
        OK(r.cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
        OK(r.cu.cuGraphDestroy(graph));
        assert_true(isnan(rig_get(&r, 0, x, 0))); /* nothing has run yet */
        fake_reset_reports();                     /* that was unwritten */
        OK(r.cu.cuGraphLaunch(exec, r.stream[0]));
        assert_true(rig_get(&r, 0, x, 0) == 4.0f);
        assert_true(rig_get(&r, 1, y, 0) == 4.0f);
        OK(r.cu.cuGraphExecDestroy(exec));
        OK(r.cu.cuEventDestroy_v2(fork));
        OK(r.cu.cuEventDestroy_v2(join));
        rig_free(&r, 0, x);
        rig_free(&r, 1, y);
        rig_close(&r);
    }
}

typedef CUresult (*bad_call)(rig *r, CUevent e);
static CUresult wait_for_stream(rig *r, CUevent e)
{
    (void)e;
    return r->cu.cuStreamSynchronize(r->stream[0]);
}
static CUresult ask_stream(rig *r, CUevent e)
{
    (void)e;
    return r->cu.cuStreamQuery(r->stream[0]);
}
static CUresult wait_for_event(rig *r, CUevent e) { return r->cu.cuEventSynchronize(e); }
static CUresult outside_event(rig *r, CUevent e)
{
    CUevent other;
    (void)e;
    OK(r->cu.cuEventCreate(&other, CU_EVENT_DISABLE_TIMING));
    CUresult code = r->cu.cuStreamWaitEvent(r->stream[0], other, 0);
    OK(r->cu.cuEventDestroy_v2(other));
    return code;
}
static CUresult take_memory(rig *r, CUevent e)
{
    CUdeviceptr p;
    (void)e;
    CUresult code = r->cu.cuMemAlloc_v2(&p, 4);
    rig_reported("cuMemAlloc_v2 while a stream is captured");
    return code;
}

/* Each makes the capture void. */
static void test_capture__forbids(void **state)
{
    static const struct {
        bad_call call;
        CUresult code;
    } cases[] = {{wait_for_stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
                 {ask_stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
                 {wait_for_event, 907},
                 {outside_event, 905},
                 {take_memory, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig r;
        CUevent e;
        CUgraph graph;
        open_seeded(&r, 1);
        OK(r.cu.cuCtxSetCurrent(r.context[0]));
        OK(r.cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
        OK(r.cu.cuStreamBeginCapture_v2(r.stream[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        OK(r.cu.cuEventRecord(e, r.stream[0]));
        assert_int_equal(cases[i].call(&r, e), cases[i].code);
        assert_int_equal(r.cu.cuStreamEndCapture(r.stream[0], &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        assert_null(graph);
        OK(r.cu.cuStreamSynchronize(r.stream[0]));
        OK(r.cu.cuEventDestroy_v2(e));
        rig_close(&r);
    }
}

static void test_capture__ends_where_it_began_with_all_joined(void **state)
{
    rig r;
    CUevent e;
    CUgraph graph;
    (void)state;
    open_seeded(&r, 1);
    CUdeviceptr y = rig_alloc(&r, 1, N);
    OK(r.cu.cuCtxSetCurrent(r.context[0]));
    OK(r.cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (int unjoined = 0; unjoined < 2; unjoined++) {
        OK(r.cu.cuCtxSetCurrent(r.context[0]));
        OK(r.cu.cuStreamBeginCapture_v2(r.stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
        OK(r.cu.cuEventRecord(e, r.stream[0]));
        OK(r.cu.cuCtxSetCurrent(r.context[1]));
        OK(r.cu.cuStreamWaitEvent(r.stream[1], e, 0));
        rig_fill(&r, 1, y, N, 1.0f);
        if (!unjoined) assert_int_equal(r.cu.cuStreamEndCapture(r.stream[1], &graph), 903);
        OK(r.cu.cuCtxSetCurrent(r.context[0]));
        assert_int_equal(r.cu.cuStreamEndCapture(r.stream[0], &graph),
                         unjoined ? 904 : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    OK(r.cu.cuEventDestroy_v2(e));
    rig_free(&r, 1, y);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph__runs_by_its_edges),
        cmocka_unit_test(test_graph__missing_edge_is_found),
        cmocka_unit_test(test_exec__is_changed),
        cmocka_unit_test(test_child),
        cmocka_unit_test(test_capture__makes_the_graph),
        cmocka_unit_test(test_capture__forbids),
        cmocka_unit_test(test_capture__ends_where_it_began_with_all_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
