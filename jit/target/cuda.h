/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the CUDA target: logical devices on the GPUs there are, a stream each, and one thread that enqueues executions.
 * Private to jit/target/cuda_*.c. */
#ifndef JIT_TARGET_CUDA_PRIVATE_H
#define JIT_TARGET_CUDA_PRIVATE_H

#include <pthread.h>

#include "jit/cache/cache.h"
#include "jit/compiler/compiler.h"
#include "jit/library/cuda.h"
#include "jit/target/ranges.h"
#include "jit/target/target.h"

typedef struct cuda_gpu {
    CUdevice device;
    CUcontext context; /* the primary one, retained; NULL until then */
    CUuuid uuid;
    char name[96];
    int capability; /* 90: 9.0 */
    i64 bytes;
    size_t granularity; /* of mapped memory */
    bool mapped;     /* has virtual memory calls */
    bool shareable;  /* its memory may get a handle for other processes */
    architecture architecture; /* once NVRTC is open */
} cuda_gpu;

/* A piece of memory from the driver, and what of it is taken. */
typedef struct cuda_chunk {
    CUdeviceptr at;
    CUmemGenericAllocationHandle handle; /* 0: of cuMemAlloc */
    ranges taken;
    struct cuda_chunk *next;
} cuda_chunk;

/* A device of the machine. */
typedef struct cuda_device {
    int gpu;
    CUstream steps;
    CUstream copies; /* what is placed, and bytes for those who cannot reach this device */
    i64 capacity, used;
    cuda_chunk *chunks;
} cuda_device;

typedef struct cuda_products cuda_products; /* cuda_product.h */

typedef struct cuda_target {
    target base;
    cuda_library cu;
    cache *cache; /* borrowed; NULL: none */
    int n_gpus, n_devices;
    cuda_gpu gpus[MAX_DEVICES];
    cuda_device devices[MAX_DEVICES];
    bool mapped;                            /* memory by virtual memory calls */
    bool graphs;                            /* $EIN_GRAPHS: executions as graphs */
    bool reach[MAX_DEVICES][MAX_DEVICES];   /* of GPUs: [reader][owner] */
    pthread_mutex_t memory_lock;
    nvrtc_library nvrtc; /* opened when first needed; under compile_lock */
    text nvrtc_path;
    bool nvrtc_open;
    pthread_mutex_t compile_lock;
    struct cuda_blas *blas; /* under compile_lock */
    pthread_t launcher;
    bool launching, closing;        /* closing: under lock */
    struct cuda_engine *first, *last; /* executions to come; under lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    atomic_bool lost;   /* a device failed for good; lost_line says how */
    char lost_line[200]; /* written once, before `lost` */
} cuda_target;

struct code {
    cuda_target *t;
    int n_kernels, n_libraries, n_modules, n_steps;
    CUlibrary *libraries;
    CUmodule *modules;
    int *library_gpus, *module_gpus;
    CUfunction *functions; /* [gpu * n_kernels + kernel] */
    void *table[MAX_DEVICES];
    const step **order;    /* all steps in the total order */
    cuda_products *products; /* NULL: none */
};

/* Bytes that a step reads in memory which its device cannot reach: brought before it. */
typedef struct cuda_staged { int arg, owner; i64 offset, bytes; } cuda_staged;
typedef struct cuda_step {
    CUevent events[2]; /* recorded after it, by the iteration's parity; NULL: nobody waits */
    int n_staged;
    cuda_staged *staged;
} cuda_step;

/* One device in one execution. */
typedef struct cuda_lane {
    cuda_step *steps;
    void **args;
    i64 *values;
    i64 n_sources, next_source; /* of the whole run; the next to be used */
    i64 *sources, *sent;        /* pinned; what the device has, NULL at first */
    void *sources_there;
    i64 staging_bytes;
    void *staging, *staging_host;
    CUevent ready, moved;       /* of staged reads: what is read is there; it has left its owner */
    uint32_t *progress;         /* pinned: steps that the device has finished */
    uint32_t enqueued;
} cuda_lane;

typedef struct cuda_graph cuda_graph; /* cuda_graph.c */

typedef struct cuda_engine {
    execution *x;
    cuda_graph *graph; /* NULL: not yet, or never */
    bool no_graph;
    int n_runs;        /* of those that a graph may be made for */
    cuda_lane lanes[MAX_DEVICES];
    void **inputs, **outputs; /* pinned */
    int n_inputs, n_outputs;
    int *iteration;
    bool done; /* under the target's lock */
    struct cuda_engine *next;
} cuda_engine;

/* cuda_devices.c. enter: makes the GPU's context current, and puts back what was current. */
ein_status ein__cuda_enter(cuda_target *t, int gpu, error *e);
void ein__cuda_leave(cuda_target *t);
/* A failed call as a status; one that no later call can survive makes the target lost. `doing`: "device 3: copy". */
ein_status ein__cuda_failed(cuda_target *t, CUresult code, const char *doing, int device, error *e);
ein_status ein__cuda_alive(cuda_target *t, error *e);
#define CU(t, call, doing, device, e)                                                               \
    do {                                                                                            \
        CUresult code_ = (t)->cu.call;                                                              \
        if (code_ != CUDA_SUCCESS) return ein__cuda_failed((t), code_, (doing), (device), (e));      \
    } while (0)

/* cuda_machine.c: the machine's description. */
ein_status ein__cuda_describe(arena *a, cuda_target *t, machine *out);

/* cuda_peers.c: which GPUs read each other's memory rightly; makes `reach`. */
ein_status ein__cuda_peers(cuda_target *t, error *e);

/* cuda_memory.c */
ein_status ein__cuda_chunk(cuda_target *t, int device, i64 bytes, cuda_chunk **out, error *e);
void ein__cuda_chunk_free(cuda_target *t, int device, cuda_chunk *c);
ein_status ein__cuda_alloc(target *t, int device, i64 bytes, void **out, error *e);
void ein__cuda_release(target *t, int device, void *p);
ein_status ein__cuda_upload(target *t, int device, void *dst, const void *src, i64 rows, i64 bytes, i64 host_stride, error *e);
ein_status ein__cuda_zero(target *t, int device, void *p, i64 bytes, error *e);
void ein__cuda_memory_fini(cuda_target *t);

/* cuda_code.c */
ein_status ein__cuda_identity(target *t, text *key, error *e);
ein_status ein__cuda_compile(target *t, const kernel_text *const *kernels, int n, bool counting, text *object, error *e);
ein_status ein__cuda_load(target *t, const program *p, const text *objects, int n, code **out, error *e);
void ein__cuda_unload(code *c);

/* cuda_engine.c */
ein_status ein__cuda_prepare(target *t, execution *x, error *e);
void ein__cuda_finish(target *t, execution *x);

/* cuda_launcher.c */
ein_status ein__cuda_launcher_start(cuda_target *t, error *e);
void ein__cuda_launcher_stop(cuda_target *t);
void ein__cuda_start(target *t, execution *x);
void ein__cuda_wait(target *t, execution *x);

/* cuda_execute.c: on the launcher's thread; returns when all devices are done. */
void ein__cuda_execute(cuda_target *t, cuda_engine *g);

#endif
