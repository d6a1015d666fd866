/* SPDX-License-Identifier: Apache-2.0 */
/* What rivals draft their plans with. They see specs and the structure of the graph alone: which values come from
 * inputs, which labels an operand has, and where a dimension goes. Private to rival*.c. */
#ifndef OPTIMIZER_RIVAL_DRAFT_H
#define OPTIMIZER_RIVAL_DRAFT_H

#include "optimizer/choices.h"
#include "optimizer/optimizer.h"

/* A factor of a value's row-major index space: its index of element i is i / stride % extent. extent 0: none. */
typedef struct factor { i64 stride, extent; } factor;

/* The labels of an op that run over a factor of one of its tensors, major first. */
typedef struct covering {
    int n, labels[MAX_TERMS];
    i64 units[MAX_TERMS]; /* each is cut at multiples of it */
    i64 under[MAX_TERMS]; /* so many of its values are one of the factor's: 1, but for a label of more than the factor */
} covering;

typedef struct draft {
    arena *a;
    const graph *g;
    const machine *m;
    const cost_model *costs;
    int n_devices;
    double slack; /* as in search_limits */
    label_units *units;
    bool *activation; /* per value: it depends on an input or a state */
    choice *nodes;    /* what was drafted; at first all ops on all devices */
    error *e;
} draft;

ein_status ein__draft_make(draft *d);

/* ---- dimensions ---- */

/* The factor that a label is in a map; `none` if it is no plain term there. */
factor ein__factor_of_label(const index_map *m, int label);
/* Where neighbours would like the op to be cut (ein__choice_units), or anywhere that is legal: at the same points in all
 * ops. */
typedef enum points { LIKED, ANY } points;
/* The labels of map `m` that run over `f`, of those that can be cut. */
void ein__cover(const draft *d, int node, const index_map *m, factor f, points at, covering *out);
/* One label. */
void ein__cover_label(const draft *d, int node, int label, points at, covering *out);
/* The factor that the labels are in another map, as far as they are neighbours there. */
factor ein__factor_of(const index_map *m, const covering *c);
/* Follow the factors in `of` (per value, source of views) through the graph, both ways, until nothing is added. */
ein_status ein__draft_trace(const draft *d, factor *of);

/* ---- ops ---- */

/* Cut the node along these labels over all devices; with fewer units than devices, neighbours do the same. `zigzag`:
 * one label, in twice as many parts, device i has part i from each end. False: it stays as it was. */
ein_status ein__draft_cut(draft *d, int node, const covering *c, bool zigzag, bool *done);
/* The first attention; -1: there is none. */
int ein__draft_attention(const draft *d);
/* The factor of query positions in the queries of each attention, and what follows from it. Without attention: the first
 * dimension of the inputs, which is the tokens'. */
ein_status ein__draft_sequence(const draft *d, factor **of);
/* The factor of heads in what attention reads, and what follows from it: kv heads in keys and values, all in queries. */
ein_status ein__draft_heads(const draft *d, factor **of);

/* ---- the plan ---- */

/* Where a leaf lies by the need of its first reader: so, if that is all of it, else whole where it is needed. */
ein_status ein__draft_leaf(const draft *d, int leaf, relation *out);
/* So all leaves and carries. */
ein_status ein__draft_finish(const draft *d, plan *out);

#endif
