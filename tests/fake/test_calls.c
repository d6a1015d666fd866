/* SPDX-License-Identifier: Apache-2.0 */
/* The fake's calls: failed on request, counted, with errors that stay; what is left is listed. */
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

enum { N = 10 };

static void test_calls__are_counted(void **state)
{
    rig r;
    (void)state;
    rig_open(&r, "devices=3");
    assert_int_equal(fake_calls("cuDevicePrimaryCtxRetain"), 3);
    assert_int_equal(fake_calls("cuStreamCreate"), 3);
    const long before = fake_calls(NULL);
    CUdeviceptr p = rig_alloc(&r, 0, N);
    assert_int_equal(fake_calls(NULL), before + 2);
    assert_string_equal(fake_call(before + 1), "cuCtxSetCurrent");
    assert_string_equal(fake_call(before + 2), "cuMemAlloc_v2");
    assert_null(fake_call(before + 3));
    rig_free(&r, 0, p);
    rig_close(&r);
}

static void test_calls__fail_on_request(void **state)
{
    rig r;
    CUdeviceptr p, q, unused;
    (void)state;
    rig_open(&r, "devices=1");
    fake_fail("cuMemAlloc", 2, CUDA_ERROR_OUT_OF_MEMORY);
    OK(r.cu.cuMemAlloc_v2(&p, 4));
    assert_false(fake_failed());
    assert_int_equal(r.cu.cuMemAlloc_v2(&unused, 4), CUDA_ERROR_OUT_OF_MEMORY);
    assert_true(fake_failed());
    OK(r.cu.cuMemAlloc_v2(&q, 4));
    fake_fail(NULL, 1, CUDA_ERROR_UNKNOWN);
    assert_int_equal(r.cu.cuMemFree_v2(q), CUDA_ERROR_UNKNOWN); /* and it is free */
    assert_int_equal(fake_used(0), 4);
    fake_fail("nvrtcVersion", 1, NVRTC_ERROR_OUT_OF_MEMORY);
    int major, minor;
    assert_int_equal(r.nv.nvrtcVersion(&major, &minor), NVRTC_ERROR_OUT_OF_MEMORY);
    OK(r.nv.nvrtcVersion(&major, &minor));
    assert_true(major == 13 && minor == 0);
    fake_fail("cuMemFree", 1, 1);
    fake_fail(NULL, 0, 0);
    rig_free(&r, 0, p);
    rig_close(&r);
}

/* A call that is dropped says that all is well; a kernel that is shifted writes elsewhere. */
static void test_calls__are_seeded_with_faults(void **state)
{
    rig r;
    (void)state;
    rig_open(&r, "devices=1 check=1");
    CUdeviceptr p = rig_alloc(&r, 0, N);
    rig_fill(&r, 0, p, N, 1.0f);
    fake_drop("cuLaunchKernel", 2);
    OK(rig_put(&r, 0, r.stream[0], p, 3, 2.0f));
    OK(rig_put(&r, 0, r.stream[0], p, 4, 2.0f));
    assert_true(fake_failed());
    assert_true(rig_get(&r, 0, p, 3) == 2.0f);
    assert_true(rig_get(&r, 0, p, 4) == 1.0f);
    fake_shift(1, 8);
    OK(rig_put(&r, 0, r.stream[0], p, 5, 3.0f));
    assert_true(rig_get(&r, 0, p, 5) == 1.0f);
    assert_true(rig_get(&r, 0, p, 7) == 3.0f);
    fake_shift(2, 4096);
    OK(rig_put(&r, 0, r.stream[0], p, 5, 4.0f));
    OK(rig_put(&r, 0, r.stream[0], p, 5, 5.0f));
    assert_int_equal(r.cu.cuStreamSynchronize(r.stream[0]), CUDA_ERROR_ILLEGAL_ADDRESS);
    rig_reported("no access to");
    assert_int_equal(r.cu.cuMemFree_v2(p), CUDA_ERROR_ILLEGAL_ADDRESS);
    rig_close(&r);
}

/* Without cuInit, a context, or a live device nothing goes. */
static void test_calls__need_what_they_need(void **state)
{
    rig r;
    int n;
    CUdeviceptr p;
    (void)state;
    rig_open(&r, "devices=2");
    OK(r.cu.cuCtxSetCurrent(NULL));
    assert_int_equal(r.cu.cuMemAlloc_v2(&p, 4), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(r.cu.cuDevicePrimaryCtxRetain(&r.context[0], 2), CUDA_ERROR_INVALID_DEVICE);
    OK(r.cu.cuCtxSetCurrent(r.context[1]));
    fake_lose(1, CUDA_ERROR_ECC_UNCORRECTABLE);
    assert_int_equal(r.cu.cuMemAlloc_v2(&p, 4), CUDA_ERROR_ECC_UNCORRECTABLE);
    assert_int_equal(r.cu.cuStreamSynchronize(r.stream[1]), CUDA_ERROR_ECC_UNCORRECTABLE);
    OK(r.cu.cuCtxSetCurrent(r.context[0]));
    OK(r.cu.cuMemAlloc_v2(&p, 4));
    rig_free(&r, 0, p);
    rig_close(&r);
    fake_configure("");
    assert_int_equal(r.cu.cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
    fake_configure("devices=0");
    assert_int_equal(r.cu.cuInit(0), CUDA_ERROR_NO_DEVICE);
}

static void test_leaks__are_listed(void **state)
{
    rig r;
    CUevent e;
    (void)state;
    rig_open(&r, "devices=1");
    CUdeviceptr p = rig_alloc(&r, 0, N);
    OK(r.cu.cuEventCreate(&e, 0));
    assert_non_null(strstr(fake_leaks(), "memory of call"));
    assert_non_null(strstr(fake_leaks(), "event of call"));
    assert_non_null(strstr(fake_leaks(), ", cuEventCreate\n"));
    assert_non_null(strstr(fake_leaks(), "library of call"));
    OK(r.cu.cuEventDestroy_v2(e));
    rig_free(&r, 0, p);
    p = rig_alloc(&r, 0, N);
    OK(r.cu.cuDevicePrimaryCtxRelease_v2(0));
    rig_reported("the context of device 0 ends with the 40 bytes");
    OK(r.cu.cuDevicePrimaryCtxRetain(&r.context[0], 0));
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls__are_counted),
        cmocka_unit_test(test_calls__fail_on_request),
        cmocka_unit_test(test_calls__are_seeded_with_faults),
        cmocka_unit_test(test_calls__need_what_they_need),
        cmocka_unit_test(test_leaks__are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
