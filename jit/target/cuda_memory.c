/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory: chunks from the driver, and first fit inside of them. A chunk is made by the virtual memory calls where
 * all GPUs have them: one address that every GPU which may reach it maps, with a handle for other processes where the
 * system gives one. Else cuMemAlloc, and peers were enabled. Small requests share chunks, large ones have their own. */
#include <string.h>

#include "core/base/alloc.h"
#include "jit/target/cuda.h"

enum { ALIGN = 256 };
static const i64 SHARED_BYTES = (i64)32 << 20; /* at most, and at most a sixteenth of the device */

static i64 round_up(i64 bytes, i64 to) { return (bytes + to - 1) / to * to; }

static i64 shared_bytes(const cuda_device *d)
{
    return d->capacity / 16 < SHARED_BYTES ? d->capacity / 16 : SHARED_BYTES;
}

/* Has a chunk of its own. */
static bool is_large(const cuda_device *d, i64 bytes) { return bytes > shared_bytes(d) / 4; }

static CUmemAllocationProp how(const cuda_target *t, int gpu)
{
    CUmemAllocationProp p;
    memset(&p, 0, sizeof p);
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.requestedHandleTypes = t->gpus[gpu].shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
    p.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, t->gpus[gpu].device};
    return p;
}

static CUresult create(cuda_target *t, int gpu, size_t bytes, CUmemGenericAllocationHandle *out)
{
    CUmemAllocationProp p = how(t, gpu);
    CUresult code = t->cu.cuMemCreate(out, bytes, &p, 0);
    if (!t->gpus[gpu].shareable || code == CUDA_SUCCESS || code == CUDA_ERROR_OUT_OF_MEMORY) return code;
    t->gpus[gpu].shareable = false; /* containers may forbid handles */
    p = how(t, gpu);
    return t->cu.cuMemCreate(out, bytes, &p, 0);
}

/* Read and write for every GPU that reaches this one's memory. The first chunks are made to try who does: one that has
 * as many peers as it can have does not. */
static CUresult allow(cuda_target *t, int gpu, CUdeviceptr at, size_t bytes)
{
    CUresult code = CUDA_SUCCESS;
    for (int g = 0; g < t->n_gpus && code == CUDA_SUCCESS; g++) {
        const CUmemAccessDesc who = {{CU_MEM_LOCATION_TYPE_DEVICE, t->gpus[g].device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        if (!t->reach[g][gpu]) continue;
        code = t->cu.cuMemSetAccess(at, bytes, &who, 1);
        if (code != CUDA_ERROR_TOO_MANY_PEERS || g == gpu) continue;
        t->reach[g][gpu] = false;
        code = CUDA_SUCCESS;
    }
    return code;
}

static CUresult map_chunk(cuda_target *t, int gpu, cuda_chunk *c)
{
    const size_t bytes = (size_t)c->taken.capacity;
    CUresult code = create(t, gpu, bytes, &c->handle);
    if (code != CUDA_SUCCESS) return code;
    code = t->cu.cuMemAddressReserve(&c->at, bytes, 0, 0, 0);
    if (code == CUDA_SUCCESS) {
        code = t->cu.cuMemMap(c->at, bytes, 0, c->handle, 0);
        if (code == CUDA_SUCCESS) {
            code = allow(t, gpu, c->at, bytes);
            if (code == CUDA_SUCCESS) return code;
            t->cu.cuMemUnmap(c->at, bytes);
        }
        t->cu.cuMemAddressFree(c->at, bytes);
    }
    t->cu.cuMemRelease(c->handle);
    return code;
}

ein_status ein__cuda_chunk(cuda_target *t, int device, i64 bytes, cuda_chunk **out, error *e)
{
    int gpu = t->devices[device].gpu;
    cuda_chunk *c = ein__calloc(1, sizeof *c);
    if (c == NULL) return ein__fail(e, EIN_NO_MEMORY, "out of memory for the list of device %d's memory", device);
    c->taken.capacity = round_up(bytes, t->mapped ? (i64)t->gpus[gpu].granularity : ALIGN);
    ein_status s = ein__cuda_enter(t, gpu, e);
    if (s == EIN_OK) {
        CUresult code = t->mapped ? map_chunk(t, gpu, c) : t->cu.cuMemAlloc_v2(&c->at, (size_t)c->taken.capacity);
        ein__cuda_leave(t);
        if (code == CUDA_ERROR_OUT_OF_MEMORY)
            s = ein__fail(e, EIN_NO_DEVICE_MEMORY, "device %d: %lld bytes wanted, %lld of %lld are taken, and the GPU has no more",
                          device, (long long)bytes, (long long)t->devices[device].used, (long long)t->devices[device].capacity);
        else if (code != CUDA_SUCCESS) s = ein__cuda_failed(t, code, "memory", device, e);
    }
    if (s == EIN_OK) *out = c;
    else ein__free(c);
    return s;
}

void ein__cuda_chunk_free(cuda_target *t, int device, cuda_chunk *c)
{
    const size_t bytes = (size_t)c->taken.capacity;
    bool entered = ein__cuda_enter(t, t->devices[device].gpu, NULL) == EIN_OK;
    if (t->mapped) {
        t->cu.cuMemUnmap(c->at, bytes);
        t->cu.cuMemAddressFree(c->at, bytes);
        t->cu.cuMemRelease(c->handle);
    } else {
        t->cu.cuMemFree_v2(c->at);
    }
    if (entered) ein__cuda_leave(t);
    ein__ranges_fini(&c->taken);
    ein__free(c);
}

/* ---- requests ----------------------------------------------------------------------------------------- */

static ein_status no_room(const cuda_target *t, int device, i64 bytes, error *e)
{
    return ein__fail(e, EIN_NO_DEVICE_MEMORY, "device %d: %lld bytes wanted, %lld of %lld are taken", device, (long long)bytes,
                     (long long)t->devices[device].used, (long long)t->devices[device].capacity);
}

/* A chunk with room: shared if the request is small, and if a shared one fits. */
static ein_status new_chunk(cuda_target *t, int device, i64 bytes, cuda_chunk **out, error *e)
{
    cuda_device *d = &t->devices[device];
    ein_status s = EIN_NO_DEVICE_MEMORY;
    if (!is_large(d, bytes) && shared_bytes(d) <= d->capacity - d->used)
        s = ein__cuda_chunk(t, device, shared_bytes(d), out, e);
    if (s == EIN_NO_DEVICE_MEMORY) {
        i64 least = t->mapped ? round_up(bytes, (i64)t->gpus[d->gpu].granularity) : bytes;
        if (least > d->capacity - d->used) return no_room(t, device, bytes, e);
        s = ein__cuda_chunk(t, device, bytes, out, e);
    }
    TRY(s);
    d->used += (*out)->taken.capacity;
    (*out)->next = d->chunks;
    d->chunks = *out;
    return EIN_OK;
}

static ein_status alloc_locked(cuda_target *t, int device, i64 bytes, void **out, error *e)
{
    cuda_device *d = &t->devices[device];
    i64 offset = 0;
    ein_status s = EIN_NO_DEVICE_MEMORY;
    cuda_chunk *c = !is_large(d, bytes) ? d->chunks : NULL;
    for (; c != NULL; c = c->next)
        if ((s = ein__ranges_take(&c->taken, bytes, &offset)) != EIN_NO_DEVICE_MEMORY) break;
    if (s == EIN_NO_DEVICE_MEMORY) {
        TRY(new_chunk(t, device, bytes, &c, e));
        s = ein__ranges_take(&c->taken, bytes, &offset);
    }
    if (s != EIN_OK) return ein__fail(e, s, "out of memory for the list of device %d's memory", device);
    *out = (char *)(uintptr_t)c->at + offset;
    return EIN_OK;
}

/* Pinned and mapped: of the process, at the same address on every GPU. */
static ein_status alloc_host(cuda_target *t, i64 bytes, void **out, error *e)
{
    TRY(ein__cuda_enter(t, 0, e));
    CUresult code = t->cu.cuMemHostAlloc(out, (size_t)bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    ein__cuda_leave(t);
    if (code != CUDA_SUCCESS) return ein__cuda_failed(t, code, "cuMemHostAlloc", 0, e);
    memset(*out, 0, (size_t)bytes);
    return EIN_OK;
}

ein_status ein__cuda_alloc(target *base, int device, i64 bytes, void **out, error *e)
{
    cuda_target *t = (cuda_target *)base;
    TRY(ein__cuda_alive(t, e));
    if (device == HOST) return alloc_host(t, bytes, out, e);
    if (bytes > t->devices[device].capacity) return no_room(t, device, bytes, e);
    bytes = bytes <= 0 ? ALIGN : round_up(bytes, ALIGN);
    pthread_mutex_lock(&t->memory_lock);
    ein_status s = alloc_locked(t, device, bytes, out, e);
    pthread_mutex_unlock(&t->memory_lock);
    if (s == EIN_OK && (s = ein__cuda_zero(base, device, *out, bytes, e)) != EIN_OK) {
        ein__cuda_release(base, device, *out);
        *out = NULL;
    }
    return s;
}

void ein__cuda_release(target *base, int device, void *p)
{
    cuda_target *t = (cuda_target *)base;
    if (p == NULL) return;
    if (device == HOST) {
        bool entered = ein__cuda_enter(t, 0, NULL) == EIN_OK;
        t->cu.cuMemFreeHost(p);
        if (entered) ein__cuda_leave(t);
        return;
    }
    pthread_mutex_lock(&t->memory_lock);
    for (cuda_chunk **at = &t->devices[device].chunks; *at != NULL; at = &(*at)->next) {
        cuda_chunk *c = *at;
        i64 offset = (i64)((CUdeviceptr)(uintptr_t)p - c->at);
        if (offset < 0 || offset >= c->taken.capacity) continue;
        ein__ranges_give(&c->taken, offset);
        if (c->taken.n == 0) {
            *at = c->next;
            t->devices[device].used -= c->taken.capacity;
            ein__cuda_chunk_free(t, device, c);
        }
        break;
    }
    pthread_mutex_unlock(&t->memory_lock);
}

void ein__cuda_memory_fini(cuda_target *t)
{
    for (int d = 0; d < t->n_devices; d++)
        for (cuda_chunk *c; (c = t->devices[d].chunks) != NULL;) {
            t->devices[d].chunks = c->next;
            ein__cuda_chunk_free(t, d, c);
        }
}

/* ---- contents ----------------------------------------------------------------------------------------- */

static CUresult copy_rows(cuda_target *t, int device, CUdeviceptr dst, const char *src, i64 rows, i64 bytes, i64 host_stride)
{
    enum { MOST_PITCH = 1 << 30 };
    CUstream stream = t->devices[device].copies;
    if (rows == 1 || host_stride == bytes) return t->cu.cuMemcpyHtoDAsync_v2(dst, src, (size_t)(rows * bytes), stream);
    if (host_stride <= MOST_PITCH) {
        CUDA_MEMCPY2D c;
        memset(&c, 0, sizeof c);
        c.srcMemoryType = CU_MEMORYTYPE_HOST;
        c.srcHost = src;
        c.srcPitch = (size_t)host_stride;
        c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        c.dstDevice = dst;
        c.dstPitch = c.WidthInBytes = (size_t)bytes;
        c.Height = (size_t)rows;
        return t->cu.cuMemcpy2DAsync_v2(&c, stream);
    }
    CUresult code = CUDA_SUCCESS;
    for (i64 i = 0; i < rows && code == CUDA_SUCCESS; i++)
        code = t->cu.cuMemcpyHtoDAsync_v2(dst + (CUdeviceptr)(i * bytes), src + i * host_stride, (size_t)bytes, stream);
    return code;
}

ein_status ein__cuda_upload(target *base, int device, void *dst, const void *src, i64 rows, i64 bytes, i64 host_stride,
                            error *e)
{
    cuda_target *t = (cuda_target *)base;
    TRY(ein__cuda_alive(t, e));
    if (rows == 0 || bytes == 0) return EIN_OK;
    TRY(ein__cuda_enter(t, t->devices[device].gpu, e));
    CUresult code = copy_rows(t, device, (CUdeviceptr)(uintptr_t)dst, src, rows, bytes, host_stride);
    if (code == CUDA_SUCCESS) code = t->cu.cuStreamSynchronize(t->devices[device].copies);
    ein__cuda_leave(t);
    return code == CUDA_SUCCESS ? EIN_OK : ein__cuda_failed(t, code, "copy to the device", device, e);
}

ein_status ein__cuda_zero(target *base, int device, void *p, i64 bytes, error *e)
{
    cuda_target *t = (cuda_target *)base;
    TRY(ein__cuda_alive(t, e));
    if (bytes == 0) return EIN_OK;
    TRY(ein__cuda_enter(t, t->devices[device].gpu, e));
    CUresult code = t->cu.cuMemsetD8Async((CUdeviceptr)(uintptr_t)p, 0, (size_t)bytes, t->devices[device].copies);
    if (code == CUDA_SUCCESS) code = t->cu.cuStreamSynchronize(t->devices[device].copies);
    ein__cuda_leave(t);
    return code == CUDA_SUCCESS ? EIN_OK : ein__cuda_failed(t, code, "fill of zeros", device, e);
}
