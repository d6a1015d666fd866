/* SPDX-License-Identifier: Apache-2.0 */
/* Compute-kernel families. A job is one op on one label box of one device; a family turns it into a kernel
 * text (structure) and a launch (numbers). One family a file, the same statics in the same order, one table
 * entry each. */
#ifndef JIT_FAMILY_FAMILY_H
#define JIT_FAMILY_FAMILY_H

#include "core/plan/program.h"
#include "core/plan/relation.h"

typedef enum job_mode {
    JOB_FINAL,  /* write the results, merge finished inside the kernel */
    JOB_STATES, /* write the states of the merge; others hold the other partials */
    JOB_STAGE,  /* OP_ROW cut along its two-step labels: write the statistics of `stage` */
    JOB_APPLY   /* OP_ROW: operands, then all statistics finished -> result */
} job_mode;

/* A block in memory, seen from the job's label box: the first point's address and the stride of every label
 * (0 where the map lacks it), in elements. */
typedef struct view {
    place place;
    i64 offset; /* elements */
    i64 stride[MAX_LABELS];
    ein_dtype dtype;
    i64 range_lo[MAX_LABELS], range_hi[MAX_LABELS]; /* TERM_RANGE operands: label values [lo, hi) inside the
                                box (relative to it) that this operand covers; else the whole box */
    int scalar;         /* run-time scalar that shifts the view, or -1 */
    i64 scalar_stride;  /* elements per unit of it */
    bool index;         /* no memory: the value at a point is offset + the strides' sum (families make these) */
} view;

enum { MAX_OPERANDS = 32 };

typedef struct job {
    const graph *graph;
    const node *node;
    label_box box;
    int n_in, n_out;
    view in[MAX_OPERANDS + MAX_STATISTICS]; /* operands; JOB_STAGE and JOB_APPLY: then the statistics so far */
    view out[MAX_STATES]; /* results (JOB_FINAL, JOB_APPLY), states (JOB_STATES), the stage's statistics (JOB_STAGE) */
    job_mode mode;
    int stage;
    bool alike_products; /* as the plan says */
} job;

typedef struct launch {
    step_kind kind;
    kernel_text kernel; /* STEP_KERNEL */
    i64 grid[3];
    gemm gemm;          /* STEP_GEMM */
    int n_args;
    arg *args;          /* pointers carry place, byte offset and `written` */
} launch;

typedef struct family {
    const char *name;
    bool (*applicable)(const job *j);
    ein_status (*emit)(arena *a, const job *j, launch *out, error *e);
} family;

/* The first applicable family, in table order (product before map). A box with an empty extent along a
 * parallel label gives grid[0] = 0: nothing to launch. One with an empty aggregated label writes identities
 * (or their final values). */
ein_status ein__family_emit(arena *a, const job *j, launch *out, error *e);
const family *ein__family_find(const job *j);

#endif
