/* SPDX-License-Identifier: Apache-2.0 */
/* The one interface to devices. A target opens a machine's devices, keeps memory on them, compiles and loads
 * kernels, and executes programs. Two targets: host (worker threads) and cuda (GPUs). */
#ifndef JIT_TARGET_TARGET_H
#define JIT_TARGET_TARGET_H

#include <stdatomic.h>

#include "core/plan/program.h"

typedef struct target target;
typedef struct code code; /* loaded kernels of one program */

/* Where a canonical leaf's blocks are: address[(member * n_blocks + block) * n_devices + device]; NULL where a
 * device has none. */
typedef struct leaf_pieces {
    int n_blocks;
    const i64 *block_bytes; /* per block */
    void **address;
} leaf_pieces;

/* One execution of a program; made and owned by a run. Everything it needs is here before it starts. */
typedef struct execution {
    const program *program;
    const code *code;
    char *buffers[MAX_DEVICES];   /* activation memory */
    char *staging[MAX_DEVICES];   /* of HOST, that this device writes for others; NULL: none */
    const leaf_pieces *leaves;    /* per canonical leaf */
    int n_inputs, n_outputs;      /* canonical leaves; outputs */
    const void *const *inputs;    /* host memory, per canonical leaf */
    void *const *outputs;         /* host memory, per output */
    const i64 *input_bytes, *output_bytes; /* 0 for leaves that are no inputs */
    const i64 *scalars;
    struct tally tallies[MAX_DEVICES]; /* counting kernels add here */
    bool counting;
    atomic_int stop;              /* cancelled (1) or failed (2) */
    error error;                  /* set once, by the device that failed */
    void *engine;                 /* the target's own, from `prepare` */
} execution;

typedef struct target_api {
    const char *name;
    int units_per_thread; /* into which kernels are dealt out to be compiled */
    void (*close)(target *t);
    /* Zeroed device memory, aligned to 256 bytes; of HOST: the process's, which every device's kernels can address. */
    ein_status (*alloc)(target *t, int device, i64 bytes, void **out, error *e);
    void (*release)(target *t, int device, void *p);
    /* Strided copy from host memory: `rows` runs of `bytes`, host_stride apart, to dense device memory. */
    ein_status (*upload)(target *t, int device, void *dst, const void *src, i64 rows, i64 bytes, i64 host_stride,
                         error *e);
    ein_status (*zero)(target *t, int device, void *p, i64 bytes, error *e);
    /* What compiled objects depend on besides the kernels' text. */
    ein_status (*identity)(target *t, text *key, error *e);
    /* Compile kernels to one object; may be called by several threads. */
    ein_status (*compile)(target *t, const kernel_text *const *kernels, int n, bool counting, text *object,
                          error *e);
    /* Load objects and find every kernel of the program. EIN_COMPILE_FAILED if one is missing. */
    ein_status (*load)(target *t, const program *p, const text *objects, int n, code **out, error *e);
    void (*unload)(code *c);
    /* Everything an execution needs so that start allocates nothing. */
    ein_status (*prepare)(target *t, execution *x, error *e);
    void (*finish)(target *t, execution *x);
    void (*start)(target *t, execution *x);
    void (*wait)(target *t, execution *x); /* blocks until all devices have stopped */
} target_api;

struct target { const target_api *api; };

/* The virtual devices of a machine that is `host`. */
ein_status ein__host_open(const machine *m, target **out, error *e);

#endif
