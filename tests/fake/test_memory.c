/* SPDX-License-Identifier: Apache-2.0 */
/* The fake's memory: what is wrong is found, by the pages of a device and, with `check`, by every access. */
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

enum { N = 100 };

/* The kernel's fault: a code for the context, which stays, and a report. The rig is closed with it. */
static void expect_fault(rig *r, int device, const char *what)
{
    OK(r->cu.cuCtxSetCurrent(r->context[device]));
    assert_int_equal(r->cu.cuStreamSynchronize(r->stream[device]), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(r->cu.cuStreamQuery(r->stream[device]), CUDA_ERROR_ILLEGAL_ADDRESS);
    CUdeviceptr p;
    assert_int_equal(r->cu.cuMemAlloc_v2(&p, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
    rig_reported(what);
}

/* Frees in a context that has failed: it has its effect, and the code is told once more. */
static void free_failed(rig *r, int device, CUdeviceptr p)
{
    OK(r->cu.cuCtxSetCurrent(r->context[device]));
    assert_int_equal(r->cu.cuMemFree_v2(p), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static const char *const ways[] = {"devices=2", "devices=2 check=1", "devices=2 fibers=1"};
enum { WAYS = sizeof ways / sizeof *ways };

static void test_fresh_memory__is_poison(void **state)
{
    rig r;
    (void)state;
    rig_open(&r, "devices=1");
    CUdeviceptr p = rig_alloc(&r, 0, N);
    assert_true(p % 512 == 0);
    for (int i = 0; i < N; i += 33) assert_true(isnan(rig_get(&r, 0, p, i)));
    assert_int_equal(fake_used(0), N * sizeof(float));
    rig_free(&r, 0, p);
    assert_int_equal(fake_used(0), 0);
    rig_close(&r);
}

/* Two threads at one place: a race inside of a launch, which only fibers see. */
static void test_races_inside_a_launch__are_found(void **state)
{
    rig r;
    (void)state;
    for (int fibers = 0; fibers < 2; fibers++) {
        rig_open(&r, fibers ? "devices=1 check=1 fibers=1" : "devices=1 check=1");
        CUdeviceptr y = rig_alloc(&r, 0, N);
        OK(rig_put(&r, 0, r.stream[0], y, 3, 1.0f));
        assert_true(rig_get(&r, 0, y, 3) == 1.0f);
        OK(rig_put_by(&r, CROWD, 0, r.stream[0], y, 3, 2.0f));
        if (fibers) expect_fault(&r, 0, "race in line 4");
        else assert_true(rig_get(&r, 0, y, 3) == 2.0f);
        if (fibers) free_failed(&r, 0, y);
        else rig_free(&r, 0, y);
        rig_close(&r);
    }
}

static void test_unwritten_memory__is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r, "devices=1 check=1");
    CUdeviceptr x = rig_alloc(&r, 0, N), y = rig_alloc(&r, 0, N);
    rig_fill(&r, 0, x, N - 1, 1.0f);
    OK(rig_add(&r, 0, r.stream[0], x, y, N - 1, 1.0f));
    assert_true(rig_get(&r, 0, y, N - 2) == 2.0f);
    OK(rig_add(&r, 0, r.stream[0], x, y, N, 1.0f));
    OK(r.cu.cuStreamSynchronize(r.stream[0]));
    rig_reported("reads what nobody wrote, ");
    /* A copy of what nobody wrote is nobody's writing. */
    CUdeviceptr z = rig_alloc(&r, 0, N);
    OK(r.cu.cuMemcpyDtoDAsync_v2(z, x, N * sizeof(float), r.stream[0]));
    OK(rig_add(&r, 0, r.stream[0], z, y, N, 1.0f));
    OK(r.cu.cuStreamSynchronize(r.stream[0]));
    rig_reported("byte 396 of the 400 bytes");
    rig_free(&r, 0, x);
    rig_free(&r, 0, y);
    rig_free(&r, 0, z);
    rig_close(&r);
}

/* A hole behind the rounded end; between, a red zone. */
static void test_store_behind_the_end__is_found(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        rig r;
        rig_open(&r, ways[way]);
        CUdeviceptr p = rig_alloc(&r, 0, N);
        OK(rig_put(&r, 0, r.stream[0], p, 128, 1.0f));
        expect_fault(&r, 0, "112 bytes behind the end of the 400 bytes");
        free_failed(&r, 0, p);
        rig_close(&r);

        rig_open(&r, ways[way]);
        p = rig_alloc(&r, 0, N);
        OK(rig_put(&r, 0, r.stream[0], p, N, 1.0f));
        if (way == 0) {
            OK(r.cu.cuStreamSynchronize(r.stream[0]));
            rig_reported("written 0 bytes behind their end");
            rig_free(&r, 0, p);
            rig_reported("red zone of the 400 bytes");
        } else {
            expect_fault(&r, 0, "0 bytes behind the end of the 400 bytes");
            free_failed(&r, 0, p);
        }
        rig_close(&r);
    }
}

static void test_store_before_the_start__is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r, ways[0]);
    CUdeviceptr p = rig_alloc(&r, 0, N);
    OK(rig_put(&r, 0, r.stream[0], p, -1, 1.0f));
    OK(r.cu.cuStreamSynchronize(r.stream[0]));
    rig_free(&r, 0, p);
    rig_reported("written 4 bytes before them");
    rig_close(&r);
}

static void test_use_after_free__is_found(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        rig r;
        rig_open(&r, ways[way]);
        CUdeviceptr p = rig_alloc(&r, 0, N);
        rig_free(&r, 0, p);
        OK(rig_put(&r, 0, r.stream[0], p, 3, 1.0f));
        expect_fault(&r, 0, "freed by call");
        rig_close(&r);

        rig_open(&r, ways[way]);
        p = rig_alloc(&r, 0, N);
        rig_free(&r, 0, p);
        assert_int_equal(r.cu.cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
        rig_reported("cuMemFree of");
        assert_int_equal(r.cu.cuMemcpyDtoDAsync_v2(p, p, 4, r.stream[0]), CUDA_ERROR_INVALID_VALUE);
        rig_reported("a copy of 4 bytes");
        rig_close(&r);
    }
}

/* cuMemFree waits for the work that is in the streams. */
static void test_free__waits(void **state)
{
    rig r;
    (void)state;
    rig_open(&r, ways[0]);
    CUdeviceptr p = rig_alloc(&r, 0, N);
    rig_fill(&r, 0, p, N, 1.0f);
    OK(rig_put(&r, 0, r.stream[0], p, 3, 1.0f));
    rig_free(&r, 0, p);
    OK(r.cu.cuStreamSynchronize(r.stream[0]));
    rig_close(&r);
}

static void test_memory_of_the_process__is_no_kernels(void **state)
{
    rig r;
    float *plain = malloc(4096), *pinned;
    (void)state;
    rig_open(&r, ways[1]);
    OK(r.cu.cuMemHostAlloc((void **)&pinned, 4096, 0));
    pinned[5] = 0.0f;
    OK(rig_put(&r, 0, r.stream[0], (CUdeviceptr)(uintptr_t)pinned, 5, 2.0f));
    OK(r.cu.cuStreamSynchronize(r.stream[0]));
    assert_true(pinned[5] == 2.0f);
    OK(r.cu.cuMemFreeHost(pinned));
    OK(rig_put(&r, 0, r.stream[0], (CUdeviceptr)(uintptr_t)plain, 5, 2.0f));
    expect_fault(&r, 0, "which is no memory of a device");
    rig_close(&r);
    rig_open(&r, ways[1]);
    OK(r.cu.cuMemHostRegister_v2(plain, 4096, 0));
    assert_int_equal(r.cu.cuMemHostRegister_v2(plain + 1, 8, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK(rig_put(&r, 0, r.stream[0], (CUdeviceptr)(uintptr_t)plain, 5, 2.0f));
    OK(r.cu.cuStreamSynchronize(r.stream[0]));
    assert_true(plain[5] == 2.0f);
    OK(r.cu.cuMemHostUnregister(plain));
    assert_int_equal(r.cu.cuMemHostUnregister(plain), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    rig_close(&r);
    free(plain);
}

static void test_out_of_memory(void **state)
{
    rig r;
    size_t available, total;
    (void)state;
    rig_open(&r, "devices=2 memory=1m,64k");
    CUdeviceptr p, q;
    OK(r.cu.cuCtxSetCurrent(r.context[1]));
    OK(r.cu.cuMemAlloc_v2(&p, 60000));
    assert_int_equal(r.cu.cuMemAlloc_v2(&q, 6000), CUDA_ERROR_OUT_OF_MEMORY);
    OK(r.cu.cuMemGetInfo_v2(&available, &total));
    assert_int_equal(total, 65536);
    assert_int_equal(available, 5536);
    OK(r.cu.cuMemAlloc_v2(&q, 5000));
    rig_free(&r, 1, p);
    rig_free(&r, 1, q);
    rig_close(&r);
}

/* ---- peers ---- */

static void test_peer__needs_access(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        rig r;
        rig_open(&r, ways[way]);
        CUdeviceptr p = rig_alloc(&r, 0, N);
        rig_fill(&r, 0, p, N, 0.0f);
        OK(r.cu.cuStreamSynchronize(r.stream[0]));
        OK(rig_put(&r, 1, r.stream[1], p, 3, 1.0f));
        expect_fault(&r, 1, "no access to");
        rig_free(&r, 0, p);
        rig_close(&r);
    }
}

static void test_peer__access_is_directed(void **state)
{
    rig r;
    int can[2];
    (void)state;
    rig_open(&r, "devices=2 peers=one-way");
    OK(r.cu.cuDeviceCanAccessPeer(&can[0], 0, 1));
    OK(r.cu.cuDeviceCanAccessPeer(&can[1], 1, 0));
    assert_true(can[0] == 1 && can[1] == 0);
    OK(r.cu.cuCtxSetCurrent(r.context[1]));
    assert_int_equal(r.cu.cuCtxEnablePeerAccess(r.context[0], 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    OK(r.cu.cuCtxSetCurrent(r.context[0]));
    OK(r.cu.cuCtxEnablePeerAccess(r.context[1], 0));
    assert_int_equal(r.cu.cuCtxEnablePeerAccess(r.context[1], 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    CUdeviceptr p = rig_alloc(&r, 1, N), q = rig_alloc(&r, 0, N);
    OK(rig_put(&r, 0, r.stream[0], p, 3, 1.0f));
    OK(r.cu.cuStreamSynchronize(r.stream[0]));
    assert_true(rig_get(&r, 1, p, 3) == 1.0f);
    OK(rig_put(&r, 1, r.stream[1], q, 3, 1.0f));
    expect_fault(&r, 1, "no access to");
    free_failed(&r, 1, p);
    rig_free(&r, 0, q);
    rig_close(&r);
}

static void test_peer__limit(void **state)
{
    rig r;
    (void)state;
    rig_open(&r, "devices=4 limit=2");
    OK(r.cu.cuCtxSetCurrent(r.context[0]));
    OK(r.cu.cuCtxEnablePeerAccess(r.context[1], 0));
    OK(r.cu.cuCtxEnablePeerAccess(r.context[2], 0));
    assert_int_equal(r.cu.cuCtxEnablePeerAccess(r.context[3], 0), CUDA_ERROR_TOO_MANY_PEERS);
    rig_close(&r);
}

/* The link says yes to everything, and loses what is written or shows what is old; copies through the process are
 * right where access is not enabled. */
static void test_peer__lies(void **state)
{
    static const char *const settings[] = {"devices=2 peers=0>1w,1>0", "devices=2 peers=0>1r,1>0"};
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        rig r;
        rig_open(&r, settings[kind]);
        CUdeviceptr p = rig_alloc(&r, 1, N), q = rig_alloc(&r, 0, N);
        rig_fill(&r, 1, p, N, 5.0f);
        OK(r.cu.cuStreamSynchronize(r.stream[1]));
        OK(r.cu.cuCtxSetCurrent(r.context[0]));
        OK(r.cu.cuMemcpyPeerAsync(q, r.context[0], p, r.context[1], N * sizeof(float), r.stream[0]));
        assert_true(rig_get(&r, 0, q, 3) == 5.0f);
        OK(r.cu.cuCtxEnablePeerAccess(r.context[1], 0));
        OK(rig_put(&r, 0, r.stream[0], p, 3, 1.0f));
        OK(rig_add(&r, 0, r.stream[0], p, q, N, 0.0f));
        OK(r.cu.cuStreamSynchronize(r.stream[0]));
        assert_true(rig_get(&r, 1, p, 3) == 5.0f);                  /* lost */
        assert_true((rig_get(&r, 0, q, 4) == 5.0f) == (kind == 0)); /* old */
        rig_free(&r, 1, p);
        rig_free(&r, 0, q);
        rig_close(&r);
    }
}

/* ---- virtual memory ---- */

static CUdeviceptr map(rig *r, int device, size_t bytes, CUmemGenericAllocationHandle *handle)
{
    const CUmemAllocationProp how = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                     .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    size_t unit;
    CUdeviceptr at;
    OK(r->cu.cuMemGetAllocationGranularity(&unit, &how, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    assert_int_equal(unit, 65536);
    assert_int_equal(r->cu.cuMemCreate(handle, unit + 1, &how, 0), CUDA_ERROR_INVALID_VALUE);
    OK(r->cu.cuMemCreate(handle, bytes, &how, 0));
    OK(r->cu.cuMemAddressReserve(&at, bytes, 0, 0, 0));
    OK(r->cu.cuMemMap(at, bytes, 0, *handle, 0));
    return at;
}

static void unmap(rig *r, CUdeviceptr at, size_t bytes, CUmemGenericAllocationHandle handle)
{
    OK(r->cu.cuMemUnmap(at, bytes));
    OK(r->cu.cuMemAddressFree(at, bytes));
    OK(r->cu.cuMemRelease(handle));
}

static void give(rig *r, CUdeviceptr at, size_t bytes, int device)
{
    const CUmemAccessDesc who = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(r->cu.cuMemSetAccess(at, bytes, &who, 1));
}

static void test_mapping__needs_access(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        rig r;
        char settings[64];
        CUmemGenericAllocationHandle h;
        snprintf(settings, sizeof settings, "%s granularity=64k", ways[way]);
        rig_open(&r, settings);
        CUdeviceptr p = map(&r, 0, 131072, &h);
        give(&r, p, 131072, 0);
        OK(rig_put(&r, 0, r.stream[0], p, 3, 1.0f));
        assert_true(rig_get(&r, 0, p, 3) == 1.0f);
        give(&r, p, 131072, 1);
        OK(rig_put(&r, 1, r.stream[1], p, 3, 2.0f));
        OK(r.cu.cuStreamSynchronize(r.stream[1]));
        assert_true(rig_get(&r, 0, p, 3) == 2.0f);
        assert_int_equal(fake_used(0), 131072);
        unmap(&r, p, 131072, h);
        assert_int_equal(fake_used(0), 0);
        p = map(&r, 0, 65536, &h);
        give(&r, p, 65536, 0);
        OK(rig_put(&r, 1, r.stream[1], p, 3, 2.0f));
        expect_fault(&r, 1, "no access to");
        unmap(&r, p, 65536, h);
        rig_close(&r);
    }
}

/* An address may get other memory; what is in flight when it goes finds a hole. */
static void test_mapping__may_change(void **state)
{
    rig r;
    CUmemGenericAllocationHandle h;
    (void)state;
    rig_open(&r, "devices=1 granularity=64k check=1");
    CUdeviceptr p = map(&r, 0, 65536, &h);
    OK(r.cu.cuMemUnmap(p, 65536));
    OK(r.cu.cuMemMap(p, 65536, 0, h, 0));
    assert_int_equal(r.cu.cuMemMap(p, 65536, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(r.cu.cuMemAddressFree(p, 65536), CUDA_ERROR_INVALID_VALUE);
    rig_reported("still mapped");
    give(&r, p, 65536, 0);
    OK(rig_put(&r, 0, r.stream[0], p, 3, 2.0f));
    unmap(&r, p, 65536, h);
    expect_fault(&r, 0, "freed by call");
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fresh_memory__is_poison),
        cmocka_unit_test(test_races_inside_a_launch__are_found),
        cmocka_unit_test(test_unwritten_memory__is_found),
        cmocka_unit_test(test_store_behind_the_end__is_found),
        cmocka_unit_test(test_store_before_the_start__is_found),
        cmocka_unit_test(test_use_after_free__is_found),
        cmocka_unit_test(test_free__waits),
        cmocka_unit_test(test_memory_of_the_process__is_no_kernels),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_peer__needs_access),
        cmocka_unit_test(test_peer__access_is_directed),
        cmocka_unit_test(test_peer__limit),
        cmocka_unit_test(test_peer__lies),
        cmocka_unit_test(test_mapping__needs_access),
        cmocka_unit_test(test_mapping__may_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
