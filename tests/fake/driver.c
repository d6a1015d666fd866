/* SPDX-License-Identifier: Apache-2.0 */
/* Driver: start, devices, contexts, peers. */
#include <stdio.h>
#include <string.h>

#include "tests/fake/fake.h"

enum { STACK = 16 };
static _Thread_local struct {
    CUcontext items[STACK];
    int n;
} current;

CUcontext fake_current(void)
{
    CUcontext c = current.n > 0 ? current.items[current.n - 1] : NULL;
    for (int d = 0; c != NULL && d < MAX_DEVICES; d++)
        if (c == fake.contexts[d]) return c->retained > 0 ? c : NULL;
    return NULL;
}

static bool device_is(CUdevice d) { return d >= 0 && d < fake.settings.devices; }

CUresult cuInit(unsigned int flags)
{
    ENTER(NEEDS_NOTHING);
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (fake.settings.devices == 0) return CUDA_ERROR_NO_DEVICE;
    fake.initialized = true;
    return 0;
}

CUresult cuDriverGetVersion(int *version)
{
    ENTER(NEEDS_NOTHING);
    *version = fake.settings.driver;
    return 0;
}

static const struct {
    int code;
    const char *name;
} code_names[] = {
#define VALUE(name, value) {value, #name},
#include "jit/library/cuda_values.def"
#undef VALUE
};

CUresult cuGetErrorName(CUresult code, const char **name)
{
    *name = NULL;
    for (size_t i = 0; i < sizeof code_names / sizeof *code_names && *name == NULL; i++)
        if (code_names[i].code == code && strncmp(code_names[i].name, "CUDA_", 5) == 0) *name = code_names[i].name;
    return *name != NULL ? 0 : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char **text) { return cuGetErrorName(code, text); }

/* ---- devices ---- */

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER(NEEDS_INIT);
    if (!device_is(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return 0;
}

CUresult cuDeviceGetCount(int *count)
{
    ENTER(NEEDS_INIT);
    *count = fake.settings.devices;
    return 0;
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    ENTER(NEEDS_INIT);
    if (!device_is(device)) return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)bytes, "Fake GPU sm_%d", fake.settings.architecture[device]);
    return 0;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    ENTER(NEEDS_INIT);
    if (!device_is(device)) return CUDA_ERROR_INVALID_DEVICE;
    memset(uuid, 0xfa, sizeof *uuid);
    uuid->bytes[15] = (char)device;
    return 0;
}

CUresult cuDeviceGetPCIBusId(char *id, int bytes, CUdevice device)
{
    ENTER(NEEDS_INIT);
    if (!device_is(device)) return CUDA_ERROR_INVALID_DEVICE;
    snprintf(id, (size_t)bytes, "0000:%02X:00.0", 0x10 + device);
    return 0;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    ENTER(NEEDS_INIT);
    if (!device_is(device)) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = (size_t)fake.settings.memory[device];
    return 0;
}

static int attribute_of(CUdevice_attribute attribute, CUdevice d)
{
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return INT32_MAX;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return 48 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return 227 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: return 228 << 10;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: return 1980000;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return 132;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return 0x10 + d;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return 2619000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: return 5120;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return 50 << 20;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: return 3;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return fake.settings.architecture[d] / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return fake.settings.architecture[d] % 10;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: return 1;
    default: return 0;
    }
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    ENTER(NEEDS_INIT);
    if (!device_is(device)) return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute_of(attribute, device);
    return 0;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    ENTER(NEEDS_INIT);
    if (!device_is(device) || !device_is(peer)) return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer && fake.settings.peer[device][peer] != PEER_ABSENT;
    return 0;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to)
{
    ENTER(NEEDS_INIT);
    if (!device_is(from) || !device_is(to) || from == to) return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED && fake.settings.peer[from][to] != PEER_ABSENT;
    return 0;
}

/* ---- contexts ---- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    ENTER(NEEDS_INIT);
    if (!device_is(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (fake.contexts[device] == NULL) {
        fake.contexts[device] = fake_object(CONTEXT, sizeof *fake.contexts[device]);
        fake.contexts[device]->device = device;
    }
    CUcontext c = fake.contexts[device];
    if (c->retained++ == 0) c->o.made = fake.calls;
    *out = c;
    return 0;
}

/* What the last user left behind goes with the context; a real driver does so without a word. */
static void end_context(CUcontext c)
{
    fake_drain();
    c->peers = 0;
    c->error = 0;
    for (int i = fake_block_count() - 1; i >= 0; i--) {
        block *b = fake_block_number(i);
        if (b->freed || b->virtual || b->device != c->device) continue;
        fake_report("the context of device %d ends with the %zu bytes of call %ld (%s)", c->device, b->bytes, b->made,
                    fake_call(b->made));
        fake_block_remove(b);
    }
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    ENTER(NEEDS_INIT | HAS_EFFECT);
    if (!device_is(device)) return CUDA_ERROR_INVALID_DEVICE;
    CUcontext c = fake.contexts[device];
    if (c == NULL || c->retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--c->retained == 0) end_context(c);
    LEAVE(0);
}

static bool context_is(CUcontext c)
{
    for (int d = 0; d < MAX_DEVICES; d++)
        if (c != NULL && c == fake.contexts[d]) return c->retained > 0;
    return false;
}

CUresult cuCtxSetCurrent(CUcontext c)
{
    ENTER(NEEDS_INIT);
    if (c != NULL && !context_is(c)) return CUDA_ERROR_INVALID_CONTEXT;
    if (c == NULL) {
        current.n -= current.n > 0;
        return 0;
    }
    if (current.n == 0) current.n = 1;
    current.items[current.n - 1] = c;
    return 0;
}

CUresult cuCtxGetCurrent(CUcontext *c)
{
    ENTER(NEEDS_INIT);
    *c = fake_current();
    return 0;
}

CUresult cuCtxPushCurrent_v2(CUcontext c)
{
    ENTER(NEEDS_INIT);
    if (!context_is(c) || current.n == STACK) return CUDA_ERROR_INVALID_CONTEXT;
    current.items[current.n++] = c;
    return 0;
}

CUresult cuCtxPopCurrent_v2(CUcontext *c)
{
    ENTER(NEEDS_INIT | HAS_EFFECT);
    if (current.n == 0) return CUDA_ERROR_INVALID_CONTEXT;
    current.n--;
    if (c != NULL) *c = current.items[current.n];
    LEAVE(0);
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    ENTER(NEEDS_CONTEXT);
    CUcontext c = fake_current();
    int n = 0;
    if (!context_is(peer) || peer == c) return CUDA_ERROR_INVALID_CONTEXT;
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (fake.settings.peer[c->device][peer->device] == PEER_ABSENT) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    if (c->peers >> peer->device & 1) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    for (int d = 0; d < MAX_DEVICES; d++) n += (int)(c->peers >> d & 1);
    if (n >= fake.settings.peer_limit) return CUDA_ERROR_TOO_MANY_PEERS;
    c->peers |= 1u << peer->device;
    return 0;
}
