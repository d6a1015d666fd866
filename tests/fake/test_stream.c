/* SPDX-License-Identifier: Apache-2.0 */
/* The fake's streams and events: what must be in order is, what need not be is not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fake/rig.h"

enum { N = 200, SEEDS = 12 };

static void open_seeded(rig *r, const char *more, int seed)
{
    char settings[128];
    snprintf(settings, sizeof settings, "devices=2 seed=%d %s", seed, more);
    rig_open(r, settings);
}

static void test_stream__runs_in_order(void **state)
{
    (void)state;
    for (int seed = 1; seed <= SEEDS; seed++) {
        rig r;
        open_seeded(&r, "", seed);
        CUdeviceptr p = rig_alloc(&r, 0, N);
        rig_fill(&r, 0, p, N, 1.0f);
        for (int i = 0; i < 5; i++) OK(rig_add(&r, 0, r.stream[0], p, p, N, 2.0f));
        assert_true(rig_get(&r, 0, p, N - 1) == 11.0f);
        rig_free(&r, 0, p);
        rig_close(&r);
    }
}

/* Device 0 makes x, device 1 reads it; `event`: with the event between. The value that device 1 saw. */
static float hand_over(rig *r, bool event)
{
    CUevent e;
    CUdeviceptr x = rig_alloc(r, 0, N), y = rig_alloc(r, 1, N);
    OK(r->cu.cuCtxEnablePeerAccess(r->context[0], 0));
    OK(r->cu.cuCtxSetCurrent(r->context[0]));
    OK(r->cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    rig_fill(r, 0, x, N, 1.0f);
    OK(r->cu.cuStreamSynchronize(r->stream[0]));
    OK(rig_add(r, 0, r->stream[0], x, x, N, 1.0f));
    OK(r->cu.cuEventRecord(e, r->stream[0]));
    OK(r->cu.cuCtxSetCurrent(r->context[1]));
    if (event) OK(r->cu.cuStreamWaitEvent(r->stream[1], e, 0));
    OK(rig_add(r, 1, r->stream[1], x, y, N, 0.0f));
    const float seen = rig_get(r, 1, y, 7);
    OK(r->cu.cuCtxSetCurrent(r->context[0]));
    OK(r->cu.cuStreamSynchronize(r->stream[0]));
    OK(r->cu.cuEventDestroy_v2(e));
    rig_free(r, 0, x);
    rig_free(r, 1, y);
    return seen;
}

static void test_event__orders_devices(void **state)
{
    (void)state;
    for (int seed = 1; seed <= SEEDS; seed++) {
        rig r;
        open_seeded(&r, "check=1", seed);
        assert_true(hand_over(&r, true) == 2.0f);
        rig_close(&r);
    }
}

/* Without the event some orders give the old value; and the check sees it in every order. */
static void test_event__missing_is_found(void **state)
{
    int wrong = 0;
    (void)state;
    for (int seed = 1; seed <= SEEDS; seed++) {
        rig r;
        open_seeded(&r, "", seed);
        wrong += hand_over(&r, false) != 2.0f;
        rig_close(&r);
        open_seeded(&r, "check=1", seed);
        hand_over(&r, false);
        rig_reported("race");
        rig_close(&r);
    }
    assert_in_range(wrong, 1, SEEDS - 1);
}

static void test_event__query_and_time(void **state)
{
    rig r;
    CUevent from, to;
    float ms = -1;
    (void)state;
    rig_open(&r, "devices=1");
    CUdeviceptr p = rig_alloc(&r, 0, N);
    OK(r.cu.cuEventCreate(&from, CU_EVENT_DEFAULT));
    OK(r.cu.cuEventCreate(&to, CU_EVENT_DEFAULT));
    OK(r.cu.cuEventQuery(to)); /* never recorded: nothing to wait for */
    OK(r.cu.cuEventRecord(from, r.stream[0]));
    rig_fill(&r, 0, p, N, 1.0f);
    OK(r.cu.cuEventRecord(to, r.stream[0]));
    assert_int_equal(r.cu.cuStreamQuery(r.stream[0]), CUDA_ERROR_NOT_READY);
    assert_int_equal(r.cu.cuEventElapsedTime(&ms, from, to), CUDA_ERROR_NOT_READY);
    for (int i = 0; i < 5 && r.cu.cuEventQuery(to) == CUDA_ERROR_NOT_READY; i++) {} /* asking is enough */
    OK(r.cu.cuEventQuery(to));
    OK(r.cu.cuEventSynchronize(to));
    OK(r.cu.cuEventElapsedTime(&ms, from, to));
    assert_true(ms >= 0);
    OK(r.cu.cuEventDestroy_v2(from));
    OK(r.cu.cuEventDestroy_v2(to));
    assert_int_equal(r.cu.cuEventQuery(to), CUDA_ERROR_INVALID_HANDLE);
    rig_reported("used after its end");
    rig_free(&r, 0, p);
    rig_close(&r);
}

static void set_flag(void *user) { atomic_store((atomic_int *)user, 1); }

static void call_driver(void *user)
{
    rig *r = user;
    int version;
    assert_int_equal(r->cu.cuDriverGetVersion(&version), CUDA_ERROR_NOT_PERMITTED);
}

/* A function of the process comes in order, without anybody waiting for the stream. */
static void test_host_function__comes_by_itself(void **state)
{
    rig r;
    atomic_int flag = 0;
    (void)state;
    rig_open(&r, "devices=1");
    CUdeviceptr p = rig_alloc(&r, 0, N);
    rig_fill(&r, 0, p, N, 1.0f);
    OK(r.cu.cuLaunchHostFunc(r.stream[0], set_flag, &flag));
    for (long i = 0; i < 2000000000 && atomic_load(&flag) == 0; i++) {}
    assert_int_equal(atomic_load(&flag), 1);
    OK(r.cu.cuLaunchHostFunc(r.stream[0], call_driver, &r));
    OK(r.cu.cuStreamSynchronize(r.stream[0]));
    rig_reported("in a function of a stream");
    rig_free(&r, 0, p);
    rig_close(&r);
}

/* The context's own stream waits for blocking streams, and not for others. */
static void test_own_stream__is_ordered_with_blocking_ones(void **state)
{
    int early = 0;
    (void)state;
    for (int seed = 1; seed <= SEEDS; seed++) {
        rig r;
        CUstream blocking;
        float x[2];
        open_seeded(&r, "", seed);
        CUdeviceptr p = rig_alloc(&r, 0, N), q = rig_alloc(&r, 0, N);
        OK(r.cu.cuStreamCreate(&blocking, 0));
        rig_fill(&r, 0, p, N, 1.0f);
        rig_fill(&r, 0, q, N, 1.0f);
        OK(r.cu.cuStreamSynchronize(r.stream[0]));
        OK(rig_add(&r, 0, blocking, p, p, N, 1.0f));
        OK(rig_add(&r, 0, r.stream[0], q, q, N, 1.0f));
        OK(r.cu.cuMemcpyDtoHAsync_v2(&x[0], p, sizeof(float), NULL));
        OK(r.cu.cuMemcpyDtoHAsync_v2(&x[1], q, sizeof(float), NULL));
        assert_true(x[0] == 2.0f);
        early += x[1] == 1.0f;
        OK(r.cu.cuCtxSynchronize());
        OK(r.cu.cuStreamDestroy_v2(blocking));
        rig_free(&r, 0, p);
        rig_free(&r, 0, q);
        rig_close(&r);
    }
    assert_true(early > 0);
}

/* Pinned memory is read when the copy runs, other memory when it is asked for. */
static void test_copy__reads_pinned_memory_late(void **state)
{
    rig r;
    float *pinned, plain = 1.0f;
    (void)state;
    rig_open(&r, "devices=1");
    CUdeviceptr p = rig_alloc(&r, 0, 2);
    OK(r.cu.cuMemHostAlloc((void **)&pinned, sizeof(float), 0));
    *pinned = 1.0f;
    OK(r.cu.cuMemcpyHtoDAsync_v2(p, pinned, sizeof(float), r.stream[0]));
    OK(r.cu.cuMemcpyHtoDAsync_v2(p + sizeof(float), &plain, sizeof(float), r.stream[0]));
    *pinned = plain = 2.0f;
    assert_true(rig_get(&r, 0, p, 0) == 2.0f);
    assert_true(rig_get(&r, 0, p, 1) == 1.0f);
    OK(r.cu.cuMemFreeHost(pinned));
    rig_free(&r, 0, p);
    rig_close(&r);
}

/* By way of pinned memory: out of device 0 on its stream, into device 1 on its own. */
static void test_copy__through_the_process_needs_order_too(void **state)
{
    (void)state;
    for (int event = 0; event < 2; event++) {
        rig r;
        CUevent e;
        void *pinned;
        open_seeded(&r, "check=1", 3);
        CUdeviceptr p = rig_alloc(&r, 0, N), q = rig_alloc(&r, 1, N);
        OK(r.cu.cuMemHostAlloc(&pinned, N * sizeof(float), CU_MEMHOSTALLOC_PORTABLE));
        rig_fill(&r, 0, p, N, 1.0f);
        OK(r.cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
        OK(r.cu.cuMemcpyDtoHAsync_v2(pinned, p, N * sizeof(float), r.stream[0]));
        OK(r.cu.cuEventRecord(e, r.stream[0]));
        OK(r.cu.cuCtxSetCurrent(r.context[1]));
        if (event) OK(r.cu.cuStreamWaitEvent(r.stream[1], e, 0));
        OK(r.cu.cuMemcpyHtoDAsync_v2(q, pinned, N * sizeof(float), r.stream[1]));
        OK(r.cu.cuStreamSynchronize(r.stream[1]));
        OK(r.cu.cuCtxSetCurrent(r.context[0]));
        OK(r.cu.cuStreamSynchronize(r.stream[0]));
        if (!event) rig_reported("a copy on device");
        OK(r.cu.cuEventDestroy_v2(e));
        OK(r.cu.cuMemFreeHost(pinned));
        rig_free(&r, 0, p);
        rig_free(&r, 1, q);
        rig_close(&r);
    }
}

static void test_copy__two_dimensions(void **state)
{
    rig r;
    const float host[6] = {1, 2, 3, 4, 5, 6};
    (void)state;
    rig_open(&r, "devices=1");
    CUdeviceptr p = rig_alloc(&r, 0, 8);
    rig_fill(&r, 0, p, 8, 0.0f);
    const CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                             .srcHost = host,
                             .srcXInBytes = 4,
                             .srcPitch = 12,
                             .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                             .dstDevice = p,
                             .dstPitch = 16,
                             .WidthInBytes = 8,
                             .Height = 2};
    OK(r.cu.cuMemcpy2DAsync_v2(&c, r.stream[0]));
    const float right[8] = {2, 3, 0, 0, 5, 6, 0, 0};
    for (int i = 0; i < 8; i++) assert_true(rig_get(&r, 0, p, i) == right[i]);
    rig_free(&r, 0, p);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream__runs_in_order),
        cmocka_unit_test(test_event__orders_devices),
        cmocka_unit_test(test_event__missing_is_found),
        cmocka_unit_test(test_event__query_and_time),
        cmocka_unit_test(test_host_function__comes_by_itself),
        cmocka_unit_test(test_own_stream__is_ordered_with_blocking_ones),
        cmocka_unit_test(test_copy__reads_pinned_memory_late),
        cmocka_unit_test(test_copy__through_the_process_needs_order_too),
        cmocka_unit_test(test_copy__two_dimensions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
