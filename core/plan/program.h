/* SPDX-License-Identifier: Apache-2.0 */
/* The program: buffers, and for every device an ordered list of steps. Rolled: the steps of a loop body stand
 * once. Read-only after lowering. */
#ifndef CORE_PLAN_PROGRAM_H
#define CORE_PLAN_PROGRAM_H

#include "core/graph/graph.h"
#include "core/kernel/dialect.h"
#include "core/plan/machine.h"

/* A pointer argument's memory. */
typedef enum space {
    SPACE_BUFFER, /* buffer `index` of the program's static buffers */
    SPACE_LEAF,   /* leaf `index`, block `block`, on the step's or the named device; in a loop the member of
                     the iteration */
    SPACE_INPUT,  /* host memory bound to leaf `index` */
    SPACE_OUTPUT, /* host memory bound to output `index` */
    SPACE_TABLE   /* constant words of the program, at `index` */
} space;

typedef struct place {
    space space;
    int index;
    int device; /* whose memory; HOST for inputs and outputs */
    int block;  /* SPACE_LEAF */
} place;

typedef enum arg_kind {
    ARG_POINTER,
    ARG_I64,
    ARG_F32,
    ARG_SCALAR,
    ARG_SOURCES /* pointer to an array of addresses: those of the next `value` arguments, which are pointers and
                   are not passed themselves */
} arg_kind;

typedef struct arg {
    arg_kind kind;
    place place;      /* ARG_POINTER */
    i64 value;        /* ARG_I64: the value; ARG_POINTER: byte offset; ARG_SCALAR: added to the scalar;
                         ARG_SOURCES: how many */
    double f32;       /* ARG_F32 */
    int scalar;       /* ARG_SCALAR: which; ARG_POINTER: run-time scalar added to the offset, or -1 */
    i64 scalar_bytes; /* ARG_POINTER: bytes per unit of the scalar */
    bool written;     /* ARG_POINTER: the step writes there */
    uint64_t pieces;  /* ARG_POINTER to a buffer: bit set of the pieces that are touched; 0: all of it */
} arg;

/* A matrix product for the target's library: C[m,n] = A[m,k] B[k,n], row-major, row strides; ta: A is stored [k,m];
 * tb: B is stored [n,k]. Each is f32, bf16 or f16; sums are f32, rounded once at the end. Up to 3 batch dimensions
 * with strides in elements. Arguments of the step: A, B, C. */
typedef struct gemm {
    i64 m, n, k, lda, ldb, ldc;
    bool ta, tb;
    ein_dtype type_a, type_b, type_c;
    int n_batch;
    i64 batch[3], stride_a[3], stride_b[3], stride_c[3];
} gemm;

typedef enum step_kind { STEP_KERNEL, STEP_GEMM } step_kind;

/* Wait until `device` has finished its step `step` (index in that device's list), of the iteration `lag`
 * iterations before this one if both are in the same loop. */
typedef struct wait { int device, step, lag; } wait;

typedef struct step {
    step_kind kind;
    int region;
    int device;
    int order;        /* number in the program's total order (one legal sequential order) */
    int node;         /* of the canonical graph; -1: moves a leaf or an output */
    const char *what; /* "linear", "exchange q", for printing */
    int kernel;       /* STEP_KERNEL: index into kernels */
    i64 grid[3];
    gemm gemm;        /* STEP_GEMM */
    int n_args;
    arg *args;
    int n_waits;
    wait *waits;
    i64 remote_bytes; /* predicted bytes touched in other devices' memory */
} step;

/* Bytes on one device, or (`host`) in the process's memory, where this device alone writes them. A carried value's buffer alternates between two places by the parity of its loop's
 * iteration (0 before the loop, the last one after it): it is at offset[(iteration + phase) % 2]. */
typedef struct buffer {
    int device;
    bool host;
    i64 bytes;
    i64 offset[2];
    int loop;        /* -1: does not alternate; offset[0] */
    int phase;
    int pair;        /* -1, or the buffer whose two places it shares, with the other phase */
    int first, last; /* orders of the steps between which it is live */
    int pieces;      /* that steps touch apart, at most 64; 0: none. What is in a piece, the exchange's verifier knows */
} buffer;

/* One device's list in order: region r of every device is the same straight part or the same loop. */
typedef struct region {
    int lo, hi; /* steps of the device's list */
    int count;  /* 1 for a straight part */
    int loop;   /* -1: straight */
} region;

typedef struct device_program {
    int n_steps;
    step *steps;
    const region *regions; /* program.n_regions, covering all steps */
    i64 buffer_bytes; /* size of the device's activation memory */
    i64 host_bytes;   /* and of the process's memory that it writes for others to read */
} device_program;

typedef struct program {
    int n_devices;
    device_program devices[MAX_DEVICES];
    int n_regions;
    int n_loops;
    const int *loop_counts;
    const int *leaf_loop; /* per canonical leaf: the loop whose iteration picks its member, or -1 */
    int n_kernels;
    kernel_text *kernels;
    int n_buffers;
    buffer *buffers;
    i64 n_table;
    i64 *table;        /* constant words; a device that cannot read them in place gets a copy */
    i64 remote_bytes;  /* predicted, one run, all iterations */
    int n_steps;       /* of all devices, loop bodies once */
    int max_args, max_sources; /* of one step */
} program;

/* Verifier: no two live buffers overlap, nothing is read before it is written, every read and every reuse of
 * another device's memory is ordered by waits, waits refer to earlier steps (so they have no cycle). */
ein_status ein__program_check(const program *p, error *e);
void ein__program_print(const program *p, text *out);

#endif
