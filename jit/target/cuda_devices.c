/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs: found, their primary contexts retained, logical devices laid over them. */
#include "jit/target/cuda_target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "jit/target/cuda_product.h"
#include "jit/target/cuda_target.h"

/* ---- calls -------------------------------------------------------------------------------------------- */

/* After these every call on the context fails. */
static bool is_final(CUresult code)
{
    return code == CUDA_ERROR_DEINITIALIZED || code == CUDA_ERROR_ECC_UNCORRECTABLE || code == CUDA_ERROR_NVLINK_UNCORRECTABLE ||
           code == CUDA_ERROR_CONTAINED || code == CUDA_ERROR_ILLEGAL_ADDRESS || code == CUDA_ERROR_LAUNCH_TIMEOUT ||
           code == CUDA_ERROR_CONTEXT_IS_DESTROYED || code == CUDA_ERROR_ASSERT ||
           (code >= CUDA_ERROR_HARDWARE_STACK_ERROR && code <= CUDA_ERROR_LAUNCH_FAILED) || code == CUDA_ERROR_UNKNOWN;
}

ein_status ein__cuda_failed(cuda_target *t, CUresult code, const char *doing, int device, error *e)
{
    error own;
    ein_status s = code == CUDA_ERROR_OUT_OF_MEMORY ? EIN_NO_DEVICE_MEMORY : EIN_DEVICE_FAILED;
    ein__fail(&own, s, "%s: device %d: %s", doing, device, ein__cuda_name(&t->cu, code).s);
    if (is_final(code)) {
        pthread_mutex_lock(&t->lock);
        if (!atomic_load(&t->lost)) {
            snprintf(t->lost_line, sizeof t->lost_line, "%.199s", own.line);
            atomic_store(&t->lost, true);
        }
        pthread_mutex_unlock(&t->lock);
    }
    return ein__fail(e, s, "%s", own.line);
}

ein_status ein__cuda_alive(cuda_target *t, error *e)
{
    if (!atomic_load(&t->lost)) return EIN_OK;
    return ein__fail(e, EIN_DEVICE_FAILED, "the context lost a device (%s); make a new one", t->lost_line);
}

ein_status ein__cuda_enter(cuda_target *t, int gpu, error *e)
{
    CUresult code = t->cu.cuCtxPushCurrent_v2(t->gpus[gpu].context);
    if (code == CUDA_SUCCESS) return EIN_OK;
    return ein__fail(e, EIN_DEVICE_FAILED, "GPU %d: cuCtxPushCurrent says %s", gpu, ein__cuda_name(&t->cu, code).s);
}

void ein__cuda_leave(cuda_target *t)
{
    CUcontext gone;
    t->cu.cuCtxPopCurrent_v2(&gone);
}

/* ---- open --------------------------------------------------------------------------------------------- */

static int attribute(const cuda_target *t, const cuda_gpu *g, CUdevice_attribute which)
{
    int value = 0;
    return t->cu.cuDeviceGetAttribute(&value, which, g->device) == CUDA_SUCCESS ? value : 0;
}

static ein_status open_gpu(cuda_target *t, int i, error *e)
{
    cuda_gpu *g = &t->gpus[i];
    size_t bytes = 0;
    CU(t, cuDeviceGet(&g->device, i), "cuDeviceGet", i, e);
    CU(t, cuDeviceGetName(g->name, sizeof g->name, g->device), "cuDeviceGetName", i, e);
    CU(t, cuDeviceGetUuid_v2(&g->uuid, g->device), "cuDeviceGetUuid", i, e);
    CU(t, cuDeviceTotalMem_v2(&bytes, g->device), "cuDeviceTotalMem", i, e);
    CU(t, cuDevicePrimaryCtxRetain(&g->context, g->device), "cuDevicePrimaryCtxRetain", i, e);
    g->bytes = (i64)bytes;
    int major = 0, minor = 0;
    CU(t, cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, g->device), "compute capability", i, e);
    CU(t, cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, g->device), "compute capability", i, e);
    g->capability = 10 * major + minor;
    g->shareable = attribute(t, g, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) != 0;
    CUmemAllocationProp p;
    memset(&p, 0, sizeof p);
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, g->device};
    g->mapped = attribute(t, g, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 0 &&
                t->cu.cuMemGetAllocationGranularity(&g->granularity, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS &&
                g->granularity > 0;
    return EIN_OK;
}

/* No more than there are devices wanted, if a number is. */
static ein_status open_gpus(cuda_target *t, int wanted, error *e)
{
    int n = 0;
    CU(t, cuDeviceGetCount(&n), "cuDeviceGetCount", 0, e);
    if (n == 0) return ein__fail(e, EIN_NO_DEVICE, "the CUDA driver sees no GPU");
    t->mapped = true;
    for (int i = 0; i < n && i < (wanted > 0 ? wanted : MAX_DEVICES); i++) {
        t->n_gpus++;
        TRY(open_gpu(t, i, e));
        t->mapped = t->mapped && t->gpus[i].mapped;
    }
    return EIN_OK;
}

/* Device d on GPU d mod their number; a GPU's memory is shared alike, less what its driver and libraries take. What is
 * free is not asked: plans depend on the capacity, and shall be the same tomorrow. */
static ein_status open_devices(cuda_target *t, int n, error *e)
{
    static const i64 GIB = (i64)1 << 30;
    if (n == 0) n = t->n_gpus;
    for (int d = 0; d < n; d++) {
        cuda_device *x = &t->devices[d];
        x->gpu = d % t->n_gpus;
        i64 sharers = (n - x->gpu + t->n_gpus - 1) / t->n_gpus, bytes = t->gpus[x->gpu].bytes;
        bytes = bytes >= 8 * GIB ? (bytes - bytes / 16 - GIB / 2) / GIB * GIB : bytes - bytes / 8;
        x->capacity = bytes / sharers;
        t->n_devices++;
        TRY(ein__cuda_enter(t, x->gpu, e));
        CUresult code = t->cu.cuStreamCreate(&x->steps, CU_STREAM_NON_BLOCKING);
        if (code == CUDA_SUCCESS) code = t->cu.cuStreamCreate(&x->copies, CU_STREAM_NON_BLOCKING);
        ein__cuda_leave(t);
        if (code != CUDA_SUCCESS) return ein__cuda_failed(t, code, "cuStreamCreate", d, e);
    }
    return EIN_OK;
}

static void close_streams(cuda_target *t)
{
    for (int d = 0; d < t->n_devices; d++) {
        bool entered = ein__cuda_enter(t, t->devices[d].gpu, NULL) == EIN_OK;
        if (t->devices[d].steps != NULL) t->cu.cuStreamDestroy_v2(t->devices[d].steps);
        if (t->devices[d].copies != NULL) t->cu.cuStreamDestroy_v2(t->devices[d].copies);
        if (entered) ein__cuda_leave(t);
    }
}

static void cuda_close(target *base)
{
    cuda_target *t = (cuda_target *)base;
    ein__cuda_launcher_stop(t);
    ein__cuda_blas_close(t);
    ein__cuda_memory_fini(t);
    close_streams(t);
    for (int i = 0; i < t->n_gpus; i++)
        if (t->gpus[i].context != NULL) t->cu.cuDevicePrimaryCtxRelease_v2(t->gpus[i].device);
    ein__text_free(&t->nvrtc_path);
    pthread_mutex_destroy(&t->memory_lock);
    pthread_mutex_destroy(&t->compile_lock);
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->changed);
    ein__free(t);
}

static const target_api cuda_api = {
    "cuda", 3, cuda_close, ein__cuda_alloc, ein__cuda_release, ein__cuda_upload, ein__cuda_zero, ein__cuda_identity,
    ein__cuda_compile, ein__cuda_load, ein__cuda_unload, ein__cuda_prepare, ein__cuda_finish, ein__cuda_start, ein__cuda_wait};

/* "cuda" or "cuda:N": 0 or N; -1: neither. */
static int count_wanted(const char *text)
{
    int n = 0, used = 0;
    if (strcmp(text, "cuda") == 0) return 0;
    if (sscanf(text, "cuda:%2d%n", &n, &used) != 1 || text[used] != 0 || n < 1 || n > MAX_DEVICES) return -1;
    return n;
}

static ein_status open_all(arena *a, cuda_target *t, int n, machine *m, error *e)
{
    TRY(ein__cuda_open(&t->cu, NULL, e));
    TRY(open_gpus(t, n, e));
    TRY(open_devices(t, n, e));
    TRY(ein__cuda_peers(t, e));
    TRY(ein__cuda_describe(a, t, m));
    TRY(ein__machine_check(m, e));
    return ein__cuda_launcher_start(t, e);
}

/* Off unless asked for: what a graph gains on GPUs has not been measured. */
static bool wants_graphs(void)
{
    const char *word = getenv("EIN_GRAPHS");
    return word != NULL && word[0] != 0 && strcmp(word, "0") != 0;
}

ein_status ein__cuda_target_open(arena *a, const char *text, cache *cache, machine *m, target **out, error *e)
{
    int n = count_wanted(text);
    if (n < 0) return ein__fail(e, EIN_INVALID, "machine \"%.60s\": wanted cuda, or cuda:1 to cuda:%d", text, MAX_DEVICES);
    cuda_target *t = ein__calloc(1, sizeof *t);
    if (t == NULL) return ein__fail(e, EIN_NO_MEMORY, "out of memory for the CUDA target");
    t->base.api = &cuda_api;
    t->cache = cache;
    t->graphs = wants_graphs();
    pthread_mutex_init(&t->memory_lock, NULL);
    pthread_mutex_init(&t->compile_lock, NULL);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    ein_status s = open_all(a, t, n, m, e);
    if (s == EIN_OK) *out = &t->base;
    else cuda_close(&t->base);
    return s == EIN_NO_MEMORY ? ein__fail(e, s, "out of memory for the CUDA target") : s;
}

bool ein__cuda_target_reads(const target *base, int reader, int owner)
{
    const cuda_target *t = (const cuda_target *)base;
    return t->reach[t->devices[reader].gpu][t->devices[owner].gpu];
}
