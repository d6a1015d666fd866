/* SPDX-License-Identifier: Apache-2.0 */
/* How partial results of an aggregation are joined. A merge has a tuple of states; `combine` joins two
 * tuples; `finalize` turns the joined tuple into the op's results. Pure data. */
#ifndef CORE_TENSOR_MERGE_H
#define CORE_TENSOR_MERGE_H

#include "core/tensor/expr.h"
#include "ein/op.h"

enum { MAX_STATES = EIN_MAX_STATES, MAX_RESULTS = 4 };

typedef struct merge {
    const char *name;
    int n_states;
    ein_dtype compute[MAX_STATES]; /* what states are combined in: EIN_F32, EIN_F64, EIN_I64 */
    ein_dtype wire[MAX_STATES];    /* what partials are stored and travel in: its compute type is `compute` */
    double identity[MAX_STATES];   /* held by `wire`; an infinity of i64 is its least or greatest number */
    expr combine[MAX_STATES]; /* arguments: states of a, then states of b */
    int n_results;
    expr finalize[MAX_RESULTS]; /* arguments: the states; n = 0: result i is state i */
} merge;

/* The score of a key that is not seen, and the identity of a maximum: finite, so that two empty partials
 * merge without a NaN. */
#define EIN__LOWEST (-3e38)

typedef enum merge_kind {
    MERGE_SUM, MERGE_MAX, MERGE_MIN, MERGE_SOFTMAX, MERGE_SOFTMAX_STATE,
    MERGE_PROD,
    MERGE_ARGMAX, /* states value, index (i64); result index. Ties: the lowest; NaN is the largest, as in PyTorch */
    MERGE_ARGMIN,
    MERGE_LOGSUMEXP, /* states m, s; a point gives (x, 1); result m + log(s) */
    MERGE_WELFORD    /* states count, mean, sum of squared distances from it; a point gives (1, x, 0); results the
                        states (Chan, Golub and LeVeque 1979) */
} merge_kind;

/* Built-in merges. MERGE_SOFTMAX: states m, l, o; result o / l, 0 where l is 0 (flash attention's online
 * softmax, Milakov and Gimelshein 2018). MERGE_SOFTMAX_STATE: the same, results m, l, o. `scale` multiplies the
 * result of MERGE_SUM (mean: 1/n; else 1). States that hold values of `dtype` are combined in its compute type, and a
 * sum, product, maximum or minimum travels as `dtype` itself, all other states in their compute type; an index is
 * i64. */
ein_status ein__merge_make(arena *a, merge_kind kind, double scale, ein_dtype dtype, merge **out);
/* The states (bit set) that `result` needs: those of its finalizer and, if partials are combined, those that
 * their combination reads in turn. 1 for no merge. */
uint32_t ein__merge_used(const merge *m, int result, bool partials);
void ein__merge_key(const merge *m, text *key);

#endif
