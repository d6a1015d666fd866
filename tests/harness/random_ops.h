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
    bool used, exact;
    double most; /* exact: no element is larger */
} pooled;

/* A value whose elements are the same under every plan: integers, bools, or floats that are multiples of 1/4 and so
 * small that no sum of them is rounded. Comparisons, indices and casts to integers are made of these alone. */
typedef struct exact {
    ein_tensor t;
    double most;
} exact;

typedef struct maker {
    dice d;
    dice values; /* for leaves' data: like layers differ in nothing else */
    arena *a;
    ein_graph *g;
    bool zeros, large; /* extents may be 0; may reach 40 */
    bool in_layer;     /* leaves are a layer's own */
    bool mixed;        /* leaves are of all float types */
    ein_dtype type;    /* of the next leaves, if not 0 */
    int n_pool;
    pooled pool[MAX_POOL];
    int n_scalars;
    struct {
        ein_scalar s;
        i64 most;
    } scalars[MAX_SCALARS];
    const void *data[MAX_RANDOM_LEAVES];   /* by leaf */
    bool exact_leaf[MAX_RANDOM_LEAVES];
    int n_names;
} maker;

/* ---- values (random_graph.c) ---- */
shape shape_of(const maker *m, ein_tensor t);
i64 shape_numel(const shape *s);
int random_extent(maker *m);
shape random_shape(maker *m, int rank);
/* The shape's elements in `rank` other dimensions. */
shape random_factors(maker *m, i64 numel, int rank);
/* A leaf of a random kind, and of a float type. */
ein_tensor make_leaf(maker *m, shape s);
/* One that holds these elements of a type. */
ein_tensor leaf_of(maker *m, ein_dtype dtype, shape s, const void *data);
/* Indices below `rows`. */
ein_tensor make_ids(maker *m, shape s, i64 rows);
ein_tensor make_state(maker *m, ein_dtype dtype, shape s);
/* A scalar of 0 .. most, or, sometimes, none. */
ein_scalar make_scalar(maker *m, i64 most);
/* Any value of floats; one of rank 1 or more; one of this shape; one of this shape and type. */
ein_tensor pick(maker *m);
ein_tensor pick_ranked(maker *m);
ein_tensor pick_shaped(maker *m, shape s);
ein_tensor pick_typed(maker *m, shape s, ein_dtype dtype);
ein_tensor as_type(maker *m, ein_tensor t, ein_dtype dtype);
bool is_float(const maker *m, ein_tensor t);
ein_dtype random_float_type(maker *m);
void add_value(maker *m, ein_tensor t);
void add_exact(maker *m, ein_tensor t, double most);
/* An exact value of any type and of rank `least` or more; one of this shape; a leaf. */
exact pick_exact(maker *m, int least);
exact pick_exact_shaped(maker *m, shape s);
exact exact_leaf(maker *m, ein_dtype dtype, shape s);
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
/* A move of x; what it is joined with is x itself if `alone`. May be x. */
ein_tensor random_part(maker *m, ein_tensor x, bool alone);
void rows_call(maker *m);  /* random_rows.c */
void unary_call(maker *m);
void loss_call(maker *m);
void exact_call(maker *m); /* random_exact.c */
void ids_call(maker *m);   /* computed indices */
void routing_call(maker *m);
void wild_call(maker *m);  /* random_wild.c */
/* A shape that broadcasts to s. */
shape narrower(maker *m, shape s);
int random_axis(maker *m, int rank);
/* Two to four like layers; returns the calls of one. */
int layers_call(maker *m);

#endif
