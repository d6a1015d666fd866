/* SPDX-License-Identifier: Apache-2.0 */
/* The join-agg spec of one op, with sizes: labels, and for every operand, state and result an index map from
 * the labels to the tensor's row-major index space. It is all that optimizer, exchange and lowering know of
 * an op; what the op computes on a block is its family's business (jit/family).
 *
 * An index map lists terms, major first; the product of their extents is the tensor's number of elements.
 * Terms need not be dimensions: a dimension may be several terms (a compound dimension, "h*d"), and several
 * dimensions one term ("rows" = batch x position). So a reshape moves nothing, and a range of batch x
 * position is an ordinary cut. */
#ifndef CORE_GRAPH_SPEC_H
#define CORE_GRAPH_SPEC_H

#include "core/tensor/merge.h"

enum { MAX_LABELS = EIN_MAX_LABELS, MAX_TERMS = 16 };

typedef struct label {
    char name[8];
    i64 extent;
    i64 granule; /* cut only at multiples of it */
    bool whole;  /* never cut */
} label;

typedef enum term_kind {
    TERM_LABEL, /* index = label */
    TERM_RANGE, /* index = label + offset; label values that fall outside [0, extent) read nothing */
    TERM_FIXED, /* index = offset */
    TERM_ALL,   /* index = label + offset + run-time scalar, known only in the run: all of it is needed */
    TERM_WINDOW /* index = step * label + step2 * label2 + offset, inside [0, extent) for all label values:
                   windows of convolutions and pools (halos fall out), strided and reversed slices */
} term_kind;

typedef struct term {
    term_kind kind;
    int label;  /* TERM_FIXED: -1 */
    i64 extent; /* of this part of the tensor's index space */
    i64 offset;
    int scalar; /* TERM_ALL: index of the run-time scalar in the graph, or -1 */
    int label2; /* TERM_WINDOW: the second label, or -1 */
    i64 step, step2; /* TERM_WINDOW; step may be negative */
} term;

typedef struct index_map {
    int n;
    term terms[MAX_TERMS];
} index_map;

/* Role of a label for one result (or state). */
typedef enum role {
    ROLE_PARALLEL,   /* indexes it: cut pieces are disjoint blocks of it */
    ROLE_AGGREGATED, /* absent and merged: cut pieces are partial states */
    ROLE_WHOLE,      /* cannot be cut */
    ROLE_TWO_STEP    /* indexes it, but its statistic spans it: cut, it runs as statistic, exchange, apply */
} role;

typedef struct spec {
    int n_labels;
    label labels[MAX_LABELS];
    int n_operands; /* 0: an OP_MAP of indices alone */
    index_map *operands;
    int n_states; /* of the merge; equal to n_results where nothing is aggregated */
    index_map states[MAX_STATES];
    int n_results;
    index_map results[MAX_RESULTS];
    const merge *merge; /* NULL: no label is aggregated */
    uint32_t two_step;  /* bit set of labels in ROLE_TWO_STEP */
    double flops;       /* per point of the label space */
} spec;

bool ein__map_has(const index_map *m, int label);
i64 ein__map_numel(const index_map *m);
role ein__spec_role(const spec *s, int label);
/* Bit set of labels that no result has and the merge aggregates. */
uint32_t ein__spec_aggregated(const spec *s);
/* Verifier: maps in range, extents agree, result terms plain labels, each finalizer's states inside the
 * result's labels. Fails with EIN_INTERNAL. */
ein_status ein__spec_check(const spec *s, error *e);
/* "linear: x[rows,k] w[n,k] -> y[rows,n]  rows=128 n=4096 k=4096(sum)" */
void ein__spec_print(const spec *s, text *out);
void ein__spec_key(const spec *s, text *key);

#endif
