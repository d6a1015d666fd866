/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel text: one body, several readings. A body is written once in the dialect (README.md); a prelude of
 * macros makes it CUDA C for NVRTC or C11 for the host compiler. Text only: this folder compiles nothing.
 *
 * A body looks like this; `NAME` and `THREADS` are macros that ein__kernel_source defines around it:
 *
 *   #define PARAMS(IN, OUT, VAL, SEP) IN(float, x0) SEP OUT(float, y0) SEP VAL(i64, n_i)
 *   KERNEL(PARAMS)
 *   {
 *       STEP_N(n_i - bx * THREADS) { ST(y0, bx * THREADS + tid, LD(x0, bx * THREADS + tid) * 2.0f); }
 *   }
 *   #undef PARAMS
 *
 * Arguments are passed as an array of pointers to 8-byte values, in PARAMS order (a float VAL uses the first 4
 * bytes), as the driver API's kernelParams. Block indices are bx, by, bz (i64, uniform). */
#ifndef CORE_KERNEL_DIALECT_H
#define CORE_KERNEL_DIALECT_H

#include "core/base/arena.h"
#include "core/base/hash.h"
#include "core/base/text.h"

typedef enum reading { READ_CUDA, READ_HOST } reading;

typedef struct kernel_text {
    hash128 key;      /* of body and threads */
    char name[40];    /* "k_" and the key: the entry's symbol */
    const char *body;
    int threads;      /* of a block; a multiple of 32, at most 1024 */
} kernel_text;

/* Copies the body on `a`. EIN_INVALID for a count of threads that no block may have. */
ein_status ein__kernel_make(arena *a, const char *body, int threads, kernel_text *out);

/* A whole translation unit for n kernels: prelude, a marker line, bodies. `counting` (host only) makes LD and
 * ST tally. */
#define EIN__KERNEL_MARK "/* kernels */\n"
ein_status ein__kernel_source(reading r, bool counting, const kernel_text *const *kernels, int n, text *out);

/* Entry of a host kernel: runs all blocks of the grid. Same name as the kernel. */
struct tally {
    const char *base; /* first byte of device 0's memory; device d's is [base + d*stride, base + (d+1)*stride) */
    long long stride;
    int self, n;      /* this device, devices */
    long long bytes;  /* touched in other devices' memory: the kernel adds to it */
};
typedef void (*host_entry)(void **args, long long gx, long long gy, long long gz, struct tally *tally);

#endif
