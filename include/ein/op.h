/* SPDX-License-Identifier: Apache-2.0 */
/* The join-agg spec: what an op publishes, and all that the optimizer knows of it. With it a program adds
 * ops of its own; the library cuts, places, merges and checks them as it does its own.
 *
 * An op has labels. Each dimension of each operand and result names the labels that index it. A label that
 * a result lacks is aggregated: cut along it, each piece yields a partial state, and `merge` joins them.
 *
 * Example, row-wise sum of squares of x [i, j] -> y [i]:
 *   labels "i,j"; operands {"i,j"}; results {"i"}; states {"i"}; merge: identity {0}, combine {"a0 + b0"}.
 *
 * The kernel is a function body in the kernel dialect (core/kernel/README.md). In scope:
 *   x0, x1, ...   const pointers to the operands' blocks;  y0, y1, ... pointers to the states' blocks
 *   n_<label>     extent of this block along the label;  o_<label>  its global offset
 *   s_x0_<label>  stride of an operand (or s_y0_<label>, of a state) along the label, in elements
 *   bx            index of the thread block, 0 .. grid-1;  THREADS  threads in it
 * Elements are read by LD(pointer, index) and written by ST(pointer, index, value). */
#ifndef EIN_OP_H
#define EIN_OP_H

#include "ein/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { EIN_MAX_LABELS = 16, EIN_MAX_STATES = 4 };

typedef struct ein_label {
    const char *name; /* lower-case letters, digits; at most 7 */
    int64_t granule;  /* cuts only at multiples; 0: 1 */
    int whole;        /* 1: never cut */
} ein_label;

/* A whole tensor given to a reference function, row-major, f64. */
typedef struct ein_array {
    int rank;
    const int64_t *shape;
    double *data;
} ein_array;

typedef struct ein_op {
    size_t size;              /* sizeof(ein_op) */
    const char *name;         /* identifies the op; with `version` part of the graph's identity */
    const char *version;
    int n_labels;
    const ein_label *labels;
    int n_operands;
    const char *const *operands; /* labels per dimension: "i,j"; a compound dimension "h*d,i"; f32 */
    int n_results;
    const char *const *results;  /* as operands; f32 */
    /* States of the merge; n_states = 0: one state per result, equal to it (and merge must be absent). */
    int n_states;
    const char *const *states;
    const double *identity;        /* per state */
    const char *const *combine;    /* per state, expression of a0.. and b0.. (the two states) */
    const char *const *finalize;   /* per result, expression of a0..; NULL: result i is state i */
    const char *kernel;            /* body in the dialect; writes the states of its block */
    const char *grid;              /* number of thread blocks, expression of n_<label> names: "n_i" */
    /* Evaluate on whole tensors in f64; for checking. Must not keep the arrays. */
    void (*reference)(const ein_array *operands, ein_array *results, void *user);
    void *user;
    double flops_per_point;        /* work per point of the label space, for the cost model; 0: 1 */
} ein_op;

/* Apply a user-defined op; writes op->n_results tensors to `out` ({0} each on error). `op` is copied. */
EIN_API void ein_custom(ein_graph *g, const ein_op *op, const ein_tensor *operands, ein_tensor *out);

#ifdef __cplusplus
}
#endif
#endif
