/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of random_graph.c: a graph in the making, and the calls that make it grow. */
#ifndef TESTS_HARNESS_RANDOM_OPS_H
#define TESTS_HARNESS_RANDOM_OPS_H

#include "tests/harness/random.h"
#include "tests/harness/random_graph.h"

enum { MAX_POOL = 160, MAX_SCALARS = 8, MAX_RANDOM_LEAVES = 256, MOST_ELEMENTS = 1600, MOST_POINTS = 60000 };

typedef struct shape {
    int rank;
    i64 at[EIN_MAX_RANK];
} shape;

typedef struct pooled {
    ein_tensor t;
    bool used;
} pooled;

typedef struct maker {
    dice d;
    dice values; /* for leaves' data: like layers differ in nothing else */
    arena *a;
    ein_graph *g;
    bool zeros, large; /* extents may be 0; may reach 40 */
    bool in_layer;     /* leaves are a layer's own */
    int n_pool;
    pooled pool[MAX_POOL];
    int n_scalars;
    struct {
        ein_scalar s;
        i64 most;
    } scalars[MAX_SCALARS];
    const void *data[MAX_RANDOM_LEAVES]; /* by leaf */
    int n_names;
} maker;

/* ---- values (random_graph.c) ---- */
shape shape_of(const maker *m, ein_tensor t);
i64 shape_numel(const shape *s);
int random_extent(maker *m);
shape random_shape(maker *m, int rank);
/* The shape's elements in `rank` other dimensions. */
shape random_factors(maker *m, i64 numel, int rank);
/* A leaf of a random kind. */
ein_tensor make_leaf(maker *m, shape s);
/* Indices below `rows`. */
ein_tensor make_ids(maker *m, shape s, i64 rows);
ein_tensor make_state(maker *m, shape s);
/* A scalar of 0 .. most, or, sometimes, none. */
ein_scalar make_scalar(maker *m, i64 most);
/* Any value; one of rank 1 or more; one of this shape. */
ein_tensor pick(maker *m);
ein_tensor pick_ranked(maker *m);
ein_tensor pick_shaped(maker *m, shape s);
void add_value(maker *m, ein_tensor t);
void mark_used(maker *m, ein_tensor t);
void make_output(maker *m, ein_tensor t);
/* x scaled by 1 / sqrt(terms), mostly: a sum of `terms` products keeps the size of its terms. */
ein_tensor tame(maker *m, ein_tensor x, i64 terms);

/* ---- calls: each takes values of the pool and adds its results (random_ops.c, random_layers.c) ---- */
void random_call(maker *m);
void custom_call(maker *m);
void parts_call(maker *m); /* random_moves.c */
void index_call(maker *m);
void conv_call(maker *m);
void pool_call(maker *m);
void function_call(maker *m); /* random_rows.c */
void norm_call(maker *m);
void choice_call(maker *m);
/* Two to four like layers; returns the calls of one. */
int layers_call(maker *m);

#endif
