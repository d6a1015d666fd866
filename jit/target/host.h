/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the host target: N virtual devices, a worker thread each, in one address range so that the owner of
 * any address is known. Private to jit/target/host_*.c. */
#ifndef JIT_TARGET_HOST_H
#define JIT_TARGET_HOST_H

#include <pthread.h>

#include "jit/compiler/compiler.h"
#include "jit/target/ranges.h"
#include "jit/target/target.h"

/* Device memory: device d's is [base + d * stride, base + (d + 1) * stride), reserved at once, backed on use. */
typedef struct host_memory {
    char *base;
    i64 stride;
    ranges taken[MAX_DEVICES];
    pthread_mutex_t lock;
    int n_devices;
} host_memory;

ein_status ein__host_memory_init(host_memory *m, const machine *machine, error *e);
void ein__host_memory_fini(host_memory *m);
ein_status ein__host_alloc(host_memory *m, int device, i64 bytes, void **out, error *e);
void ein__host_release(host_memory *m, int device, void *p);

/* Matrix products by oneDNN, opened at first use; one thread per caller. `scratch`: as many floats as
 * ein__host_product_scratch says, NULL where that is 0. */
typedef struct host_product host_product;
ein_status ein__host_product_open(host_product **out, error *e);
void ein__host_product_close(host_product *p);
void ein__host_product_thread(const host_product *p); /* once in each worker */
i64 ein__host_product_scratch(const gemm *g);
ein_status ein__host_product_run(const host_product *p, const gemm *g, float *scratch, const void *a, const void *b, void *c);

struct code {
    int n_modules;
    host_module **modules;
    host_entry *entries; /* per kernel of the program */
    host_product *product; /* borrowed; NULL if no step needs it */
};

/* Execute one device's list of an execution. */
typedef struct host_engine {
    _Atomic i64 progress[MAX_DEVICES]; /* completed steps */
    atomic_int waiters;
    int running; /* devices not yet done; under lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct host_scratch { void **args; i64 *values; i64 *sources; int *iteration; float *product; } scratch[MAX_DEVICES];
} host_engine;
void ein__host_execute(execution *x, int device);

#endif
