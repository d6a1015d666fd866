/* SPDX-License-Identifier: Apache-2.0 */
/* Driver: the calls on memory. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fake/fake.h"

enum { PAGE = 4096 };

/* ---- calls: plain and pinned memory ---- */

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
    ENTER(NEEDS_CONTEXT | UNSAFE);
    return fake_alloc(fake_current()->device, bytes, out);
}

CUresult cuMemFree_v2(CUdeviceptr p)
{
    ENTER(NEEDS_CONTEXT | UNSAFE | HAS_EFFECT);
    CUresult code = fake_free(p);
    LEAVE(code);
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
    ENTER(NEEDS_CONTEXT);
    const int d = fake_current()->device;
    *total = (size_t)fake.settings.memory[d];
    *available = *total;
    for (const object *o = fake.objects; o != NULL; o = o->next)
        if (o->kind == PHYSICAL && o->live && ((const physical *)o)->device == d)
            *available -= ((const physical *)o)->bytes;
    return 0;
}

/* Its order is known as that of a device's memory; what the process does with it is not. */
static block *pin(char *p, size_t page_bytes, size_t bytes)
{
    physical *m = fake_physical_make(HOST, page_bytes, false);
    m->o.owned = m->released = true;
    block *b = fake_block_add(p, page_bytes, m, HOST);
    b->bytes = bytes;
    return b;
}

CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned int flags)
{
    (void)flags;
    ENTER(NEEDS_CONTEXT | UNSAFE);
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    const size_t page_bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    char *p = mmap(NULL, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    pin(p, page_bytes, bytes);
    *out = p;
    return 0;
}

CUresult cuMemFreeHost(void *p)
{
    ENTER(NEEDS_INIT | UNSAFE | HAS_EFFECT);
    block *b = fake_block_at(p);
    if (b == NULL || b->device != HOST || b->registered || b->at != p) return CUDA_ERROR_INVALID_VALUE;
    const size_t bytes = b->page_bytes;
    fake_drain();
    fake_block_remove(b);
    munmap(p, bytes);
    LEAVE(0);
}

CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned int flags)
{
    (void)flags;
    ENTER(NEEDS_CONTEXT | UNSAFE);
    if (p == NULL || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    int i = fake_block_place(p);
    if (i < fake_block_count() && fake_block_number(i)->at < (char *)p + bytes)
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    pin(p, bytes, bytes)->registered = true;
    return 0;
}

CUresult cuMemHostUnregister(void *p)
{
    ENTER(NEEDS_INIT | UNSAFE | HAS_EFFECT);
    block *b = fake_block_at(p);
    if (b == NULL || !b->registered || b->at != p) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    fake_drain();
    fake_block_remove(b);
    LEAVE(0);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *p, unsigned int flags)
{
    ENTER(NEEDS_CONTEXT);
    const block *b = fake_block_at(p);
    if (b == NULL || b->device != HOST || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    *out = (CUdeviceptr)(uintptr_t)p;
    return 0;
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr p)
{
    ENTER(NEEDS_CONTEXT);
    const block *b = fake_block_at((void *)(uintptr_t)p);
    if (b == NULL || b->freed || attribute != CU_POINTER_ATTRIBUTE_MEMORY_TYPE) return CUDA_ERROR_INVALID_VALUE;
    *(unsigned int *)value = b->device == HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    return 0;
}

/* ---- calls: virtual memory ---- */

typedef struct reservation {
    object o;
    char *at;
    size_t bytes;
} reservation;

static reservation *reserved(CUdeviceptr at, size_t bytes)
{
    char *p = (char *)(uintptr_t)at;
    for (object *o = fake.objects; o != NULL; o = o->next) {
        reservation *r = (reservation *)o;
        if (o->kind == RESERVATION && o->live && r->at <= p && p + bytes <= r->at + r->bytes) return r;
    }
    return NULL;
}

static bool whole(size_t bytes) { return bytes > 0 && bytes % (size_t)fake.settings.granularity == 0; }

CUresult cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *how,
                                       CUmemAllocationGranularity_flags which)
{
    (void)which;
    ENTER(NEEDS_INIT);
    if (how->type != CU_MEM_ALLOCATION_TYPE_PINNED || how->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (size_t)fake.settings.granularity;
    return 0;
}

CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t align, CUdeviceptr at, unsigned long long flags)
{
    ENTER(NEEDS_INIT);
    if (!whole(bytes) || flags != 0 || at != 0 || (align & (align - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
    char *p =
        fake_reserve(bytes, align > (size_t)fake.settings.granularity ? align : (size_t)fake.settings.granularity);
    if (p == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    reservation *r = fake_object(RESERVATION, sizeof *r);
    r->at = p;
    r->bytes = bytes;
    *out = (CUdeviceptr)(uintptr_t)p;
    return 0;
}

CUresult cuMemAddressFree(CUdeviceptr at, size_t bytes)
{
    ENTER(NEEDS_INIT | HAS_EFFECT);
    reservation *r = reserved(at, bytes);
    if (r == NULL || r->at != (char *)(uintptr_t)at || r->bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
    int i = fake_block_place(r->at);
    for (; i < fake_block_count() && fake_block_number(i)->at < r->at + bytes; i++)
        if (!fake_block_number(i)->freed) {
            fake_report("cuMemAddressFree of addresses that are still mapped");
            return CUDA_ERROR_INVALID_VALUE;
        }
    r->o.live = false;
    LEAVE(0);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *how,
                     unsigned long long flags)
{
    ENTER(NEEDS_INIT | UNSAFE);
    const int d = how->location.id;
    if (how->type != CU_MEM_ALLOCATION_TYPE_PINNED || how->location.type != CU_MEM_LOCATION_TYPE_DEVICE || flags != 0 ||
        !whole(bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (d < 0 || d >= fake.settings.devices) return CUDA_ERROR_INVALID_DEVICE;
    if (!fake_fits(d, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = (CUmemGenericAllocationHandle)(uintptr_t)fake_physical_make(d, bytes, true);
    return 0;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    ENTER(NEEDS_INIT | HAS_EFFECT);
    physical *m = (physical *)(uintptr_t)handle;
    if (!fake_valid(m, PHYSICAL) || m->released) return CUDA_ERROR_INVALID_VALUE;
    m->released = true;
    fake_physical_drop(m);
    LEAVE(0);
}

CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    ENTER(NEEDS_INIT | UNSAFE);
    physical *m = (physical *)(uintptr_t)handle;
    char *p = (char *)(uintptr_t)at;
    if (!fake_valid(m, PHYSICAL) || m->released || !m->mappable) return CUDA_ERROR_INVALID_VALUE;
    if (!whole(bytes) || offset != 0 || flags != 0 || bytes > m->bytes || m->maps > 0 || reserved(at, bytes) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = fake_block_place(p); i < fake_block_count() && fake_block_number(i)->at < p + bytes; i++)
        if (!fake_block_number(i)->freed) return CUDA_ERROR_INVALID_VALUE;
    fake_fresh_pages(p, bytes);
    fake_block_add(p, bytes, m, m->device)->virtual = true;
    fake_enter_device(-1);
    return 0;
}

CUresult cuMemUnmap(CUdeviceptr at, size_t bytes)
{
    ENTER(NEEDS_INIT | HAS_EFFECT);
    char *p = (char *)(uintptr_t)at;
    int i = fake_block_place(p);
    if (i == fake_block_count() || fake_block_number(i)->at != p || fake_block_number(i)->freed)
        return CUDA_ERROR_INVALID_VALUE;
    for (; i < fake_block_count() && fake_block_number(i)->at < p + bytes; i++)
        if (!fake_block_number(i)->freed)
            fake_block_remove(fake_block_number(i)); /* work that is still to come will meet a hole */
    LEAVE(0);
}

/* Devices that may touch device `of`'s memory through mappings, with `d`: more than the limit? */
static bool too_many(int d, int of)
{
    unsigned seen = 1u << of;
    int n = 0;
    for (int i = 0; i < fake_block_count(); i++)
        if (!fake_block_number(i)->freed && fake_block_number(i)->virtual && (fake_block_number(i)->access >> d & 1))
            seen |= 1u << fake_block_number(i)->device;
    for (int i = 0; i < MAX_DEVICES; i++) n += i != d && (seen >> i & 1) != 0;
    return n > fake.settings.peer_limit;
}

static CUresult give_access(block *b, int d, CUmemAccess_flags flags)
{
    if (d < 0 || d >= fake.settings.devices) return CUDA_ERROR_INVALID_DEVICE;
    if (flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) b->access &= ~(1u << d);
    if (flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) return 0;
    if (d != b->device && fake.settings.peer[d][b->device] == PEER_ABSENT) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    if (d != b->device && too_many(d, b->device)) return CUDA_ERROR_TOO_MANY_PEERS;
    b->access |= 1u << d;
    return 0;
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *who, size_t count)
{
    ENTER(NEEDS_INIT | UNSAFE);
    char *p = (char *)(uintptr_t)at;
    int i = fake_block_place(p);
    if (i == fake_block_count() || fake_block_number(i)->at != p || count == 0) return CUDA_ERROR_INVALID_VALUE;
    for (; i < fake_block_count() && fake_block_number(i)->at < p + bytes; i++) {
        if (fake_block_number(i)->freed || !fake_block_number(i)->virtual) return CUDA_ERROR_INVALID_VALUE;
        for (size_t k = 0; k < count; k++) {
            CUresult code = give_access(fake_block_number(i), who[k].location.id, who[k].flags);
            if (code != 0) return code;
        }
    }
    return 0;
}

CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                      unsigned long long flags)
{
    ENTER(NEEDS_INIT);
    (void)out, (void)type;
    if (!fake_valid((const void *)(uintptr_t)handle, PHYSICAL) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_ERROR_NOT_SUPPORTED; /* as in a container that forbids it */
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *handle, CUmemAllocationHandleType type)
{
    (void)out, (void)handle, (void)type;
    ENTER(NEEDS_INIT);
    return CUDA_ERROR_NOT_SUPPORTED; /* memory of other processes */
}
