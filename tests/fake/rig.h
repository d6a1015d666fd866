/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of the fake: its libraries opened as the library under test opens them, contexts, streams, and a few
 * kernels. After cmocka. */
#ifndef TESTS_FAKE_RIG_H
#define TESTS_FAKE_RIG_H

#include "core/kernel/dialect.h"
#include "core/tensor/dtype.h"
#include "jit/library/cublaslt.h"
#include "jit/library/nvrtc.h"
#include "tests/fake/control.h"

enum { RIG_DEVICES = 9, RIG_THREADS = 64 };
typedef enum rig_kernel { ADD, PUT, CROWD, RIG_KERNELS } rig_kernel;

typedef struct rig {
    cuda_library cu;
    nvrtc_library nv;
    cublaslt_library lt;
    int n;
    CUcontext context[RIG_DEVICES];
    CUstream stream[RIG_DEVICES];
    arena a;
    text image;
    kernel_text kernels[RIG_KERNELS];
    CUlibrary library;
} rig;

#define OK(call) assert_int_equal((call), 0)

/* ADD: y[i] = x[i] + v for i < n. PUT: y[at] = v. CROWD: the same, by all threads. */
static const char *const rig_bodies[RIG_KERNELS] = {
    "#define PARAMS(IN, OUT, VAL, SEP) IN(float, x) SEP OUT(float, y) SEP VAL(i64, n) SEP VAL(float, v)\n"
    "KERNEL(PARAMS)\n{\n"
    "    STEP_N(n - bx * THREADS) { ST(y, bx * THREADS + tid, LD(x, bx * THREADS + tid) + v); }\n"
    "}\n",
    "#define PARAMS(IN, OUT, VAL, SEP) OUT(float, y) SEP VAL(i64, at) SEP VAL(float, v)\n"
    "KERNEL(PARAMS)\n{\n"
    "    STEP_N(1) { ST(y, at + tid, v); }\n"
    "}\n",
    "#define PARAMS(IN, OUT, VAL, SEP) OUT(float, y) SEP VAL(i64, at) SEP VAL(float, v)\n"
    "KERNEL(PARAMS)\n{\n"
    "    STEP { ST(y, at, v); }\n"
    "}\n"};

static inline void rig_compile(rig *r)
{
    const kernel_text *list[RIG_KERNELS];
    text source = {0};
    nvrtcProgram p;
    size_t bytes;
    for (int i = 0; i < RIG_KERNELS; i++) {
        OK(ein__kernel_make(&r->a, rig_bodies[i], RIG_THREADS, &r->kernels[i]));
        list[i] = &r->kernels[i];
    }
    OK(ein__kernel_source(READ_CUDA, false, list, RIG_KERNELS, &source));
    OK(r->nv.nvrtcCreateProgram(&p, source.bytes, "unit.cu", 0, NULL, NULL));
    if (r->nv.nvrtcCompileProgram(p, 1, (const char *[]){"-arch=sm_90"}) != NVRTC_SUCCESS) {
        static char log[1 << 16];
        OK(r->nv.nvrtcGetProgramLogSize(p, &bytes));
        if (bytes <= sizeof log) OK(r->nv.nvrtcGetProgramLog(p, log));
        fail_msg("%.2000s", log);
    }
    OK(r->nv.nvrtcGetCUBINSize(p, &bytes));
    char *image = calloc(bytes, 1);
    assert_non_null(image);
    OK(r->nv.nvrtcGetCUBIN(p, image));
    ein__text_bytes(&r->image, image, bytes);
    free(image);
    OK(r->nv.nvrtcDestroyProgram(&p));
    ein__text_free(&source);
}

static inline void rig_open(rig *r, const char *settings)
{
    error e = {0};
    memset(r, 0, sizeof *r);
    fake_configure(settings);
    if (ein__cuda_open(&r->cu, NULL, &e) != EIN_OK || ein__nvrtc_open(&r->nv, 0, NULL, &e) != EIN_OK ||
        ein__cublaslt_open(&r->lt, 0, NULL, &e) != EIN_OK)
        fail_msg("%s", e.line);
    OK(r->cu.cuDeviceGetCount(&r->n));
    for (int d = r->n - 1; d >= 0; d--) {
        OK(r->cu.cuDevicePrimaryCtxRetain(&r->context[d], d));
        OK(r->cu.cuCtxSetCurrent(r->context[d]));
        OK(r->cu.cuStreamCreate(&r->stream[d], CU_STREAM_NON_BLOCKING));
    }
    rig_compile(r);
    OK(r->cu.cuLibraryLoadData(&r->library, r->image.bytes, NULL, NULL, 0, NULL, NULL, 0));
}

/* Nothing is left, and nothing was wrong but what the test has looked at. */
static inline void rig_close(rig *r)
{
    OK(r->cu.cuLibraryUnload(r->library));
    for (int d = 0; d < r->n; d++) {
        OK(r->cu.cuStreamDestroy_v2(r->stream[d]));
        OK(r->cu.cuDevicePrimaryCtxRelease_v2(d));
    }
    assert_string_equal(fake_leaks(), "");
    assert_string_equal(fake_reports(), "");
    ein__text_free(&r->image);
    ein__arena_free(&r->a);
}

/* The text says so; it is forgotten. */
static inline void rig_reported(const char *what)
{
    if (strstr(fake_reports(), what) == NULL) fail_msg("no report of \"%s\" in:\n%s", what, fake_reports());
    fake_reset_reports();
}

static inline CUfunction rig_function(rig *r, int device, rig_kernel which)
{
    CUkernel k;
    CUfunction f;
    OK(r->cu.cuCtxSetCurrent(r->context[device]));
    OK(r->cu.cuLibraryGetKernel(&k, r->library, r->kernels[which].name));
    OK(r->cu.cuKernelGetFunction(&f, k));
    return f;
}

static inline CUdeviceptr rig_alloc(rig *r, int device, size_t floats)
{
    CUdeviceptr p;
    OK(r->cu.cuCtxSetCurrent(r->context[device]));
    OK(r->cu.cuMemAlloc_v2(&p, floats * sizeof(float)));
    return p;
}

static inline void rig_free(rig *r, int device, CUdeviceptr p)
{
    OK(r->cu.cuCtxSetCurrent(r->context[device]));
    OK(r->cu.cuMemFree_v2(p));
}

static inline CUresult rig_add(rig *r, int device, CUstream s, CUdeviceptr x, CUdeviceptr y, long long n, float v)
{
    CUfunction f = rig_function(r, device, ADD);
    return r->cu.cuLaunchKernel(f, (unsigned)((n + RIG_THREADS - 1) / RIG_THREADS), 1, 1, RIG_THREADS, 1, 1, 0, s,
                                (void *[]){&x, &y, &n, &v}, NULL);
}

static inline CUresult rig_put_by(rig *r, rig_kernel which, int device, CUstream s, CUdeviceptr y, long long at, float v)
{
    CUfunction f = rig_function(r, device, which);
    return r->cu.cuLaunchKernel(f, 1, 1, 1, RIG_THREADS, 1, 1, 0, s, (void *[]){&y, &at, &v}, NULL);
}

static inline CUresult rig_put(rig *r, int device, CUstream s, CUdeviceptr y, long long at, float v)
{
    return rig_put_by(r, PUT, device, s, y, at, v);
}

/* n floats of value v, on the device's stream. */
static inline void rig_fill(rig *r, int device, CUdeviceptr p, int n, float v)
{
    unsigned bits;
    memcpy(&bits, &v, sizeof bits);
    OK(r->cu.cuCtxSetCurrent(r->context[device]));
    OK(r->cu.cuMemsetD32Async(p, bits, (size_t)n, r->stream[device]));
}

/* The float there, when the device's stream has come so far. */
static inline float rig_get(rig *r, int device, CUdeviceptr p, int i)
{
    float x = 0;
    OK(r->cu.cuCtxSetCurrent(r->context[device]));
    OK(r->cu.cuMemcpyDtoHAsync_v2(&x, p + (size_t)i * sizeof x, sizeof x, r->stream[device]));
    OK(r->cu.cuStreamSynchronize(r->stream[device]));
    return x;
}

#endif
