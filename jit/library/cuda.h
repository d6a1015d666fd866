/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA driver, opened at run time: its types, constants and calls by hand, under the names and layouts of "CUDA
 * Driver API" of CUDA 13.0, so that nothing of CUDA's is needed to build. Types of enumerations are ints here. */
#ifndef JIT_LIBRARY_CUDA_H
#define JIT_LIBRARY_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "jit/library/library.h"

typedef int CUresult, CUdevice, CUdevice_attribute, CUdevice_P2PAttribute, CUstreamCaptureMode, CUstreamCaptureStatus,
    CUpointer_attribute, CUmemAllocationType, CUmemAllocationHandleType, CUmemLocationType, CUmemAccess_flags,
    CUmemAllocationGranularity_flags, CUjit_option, CUlibraryOption, CUfunction_attribute, CUmemorytype,
    CUgraphExecUpdateResult;
typedef unsigned long long CUdeviceptr, CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUarray_st *CUarray;
typedef void (*CUhostFn)(void *user);

typedef struct CUuuid { char bytes[16]; } CUuuid;
typedef struct CUmemLocation { CUmemLocationType type; int id; } CUmemLocation;
typedef struct CUmemAccessDesc { CUmemLocation location; CUmemAccess_flags flags; } CUmemAccessDesc;
typedef struct CUmemAllocationProp {
    CUmemAllocationType type;
    CUmemAllocationHandleType requestedHandleTypes;
    CUmemLocation location;
    void *win32HandleMetaData;
    struct {
        unsigned char compressionType, gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
} CUmemAllocationProp;

typedef struct CUDA_MEMCPY2D {
    size_t srcXInBytes, srcY;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;

typedef struct CUDA_MEMCPY3D {
    size_t srcXInBytes, srcY, srcZ, srcLOD;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    void *reserved0;
    size_t srcPitch, srcHeight;
    size_t dstXInBytes, dstY, dstZ, dstLOD;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    void *reserved1;
    size_t dstPitch, dstHeight;
    size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;

typedef struct CUDA_MEMSET_NODE_PARAMS {
    CUdeviceptr dst;
    size_t pitch;
    unsigned int value, elementSize;
    size_t width, height;
} CUDA_MEMSET_NODE_PARAMS;

typedef struct CUDA_KERNEL_NODE_PARAMS {
    CUfunction func;
    unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    void **kernelParams;
    void **extra;
    CUkernel kern; /* instead of func, then ctx says where */
    CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;

typedef struct CUgraphExecUpdateResultInfo {
    CUgraphExecUpdateResult result;
    CUgraphNode errorNode, errorFromNode;
} CUgraphExecUpdateResultInfo;

enum {
#define VALUE(name, value) name = (value),
#include "jit/library/cuda_values.def"
#undef VALUE
};

typedef struct cuda_library {
#define CALL(result, name, parameters) result (*name) parameters;
#define OPTIONAL CALL
#include "jit/library/cuda_calls.def"
#undef OPTIONAL
#undef CALL
    int version; /* 13000: the driver supports CUDA 13.0 */
} cuda_library;

/* Opens and initializes the driver. EIN_NO_DEVICE: there is none, it is a stub, too old (below CUDA 12.0), or sees no
 * GPU; the line says which. `path` (may be NULL) gets the file's path. Never closed. */
ein_status ein__cuda_open(cuda_library *out, text *path, error *e);

/* "CUDA_ERROR_OUT_OF_MEMORY", or the number. */
typedef struct cuda_name { char s[64]; } cuda_name;
cuda_name ein__cuda_name(const cuda_library *l, CUresult code);

#endif
