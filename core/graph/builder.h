/* SPDX-License-Identifier: Apache-2.0 */
/* What the op files share: the frame of a public call, and the steps from a call to a node. What builds for the
 * public ein_softmax is ein__op_softmax (ops.h says how the two hang together); its body is
 *
 *     if (!ein__call_begin(g, "softmax", 1, &x)) return (ein_tensor){0};
 *     value out = -1;
 *     return ein__call_end(g, "softmax", add_softmax(&g->g, ..., &out), &out);
 *
 * and add_softmax checks, calls ein__node_start, adds labels and terms, and ends in ein__node_add. */
#ifndef CORE_GRAPH_BUILDER_H
#define CORE_GRAPH_BUILDER_H

#include "core/graph/graph.h"
#include "core/graph/ops.h"

enum { MAX_CALL_OPERANDS = 32 };

typedef struct dims { int rank; i64 at[EIN_MAX_RANK]; } dims;
typedef struct dims_text { char s[192]; } dims_text;

static inline value ein__value(ein_tensor t) { return (value)t.id - 1; }
dims ein__dims(const graph *g, value v);
/* "[2,64,4096]" */
dims_text ein__dims_text(dims d);

/* True if there is something to do. False, and quietly: an error is on record, or an operand is {0}. Records
 * a bad count, pointer or handle. */
bool ein__call_begin(ein_graph *g, const char *call, int n, const ein_tensor *operands);
/* Record a failure that is not on record yet (memory); the tensor of `v`, {0} on failure. */
ein_tensor ein__call_end(ein_graph *g, const char *call, ein_status status, const value *v);

/* In a function that has the graph as `g`: record what is wrong with the call, and return its status. */
#define REFUSE(status, ...) return ein__fail(&g->error, status, __VA_ARGS__)

/* Checks; each records its failure. */
ein_status ein__check_scalar(graph *g, const char *call, ein_scalar s, int *out); /* {0}: -1 */
/* Classes of element types, a bit set. */
enum { TYPE_F32 = 1, TYPE_FLOAT = 3, TYPE_INT = 4, TYPE_BOOL = 8, TYPE_ANY = 15 };
ein_status ein__check_types(graph *g, const char *call, int n, const value *operands, int classes);
ein_status ein__check_same_type(graph *g, const char *call, int n, const value *operands);
/* The operands' common type (include/ein/graph.h says how). */
ein_dtype ein__promote(const graph *g, int n, const value *operands);
ein_status ein__check_rank(graph *g, const char *call, const char *what, value v, int rank);
ein_status ein__check_dims(graph *g, const char *call, const dims *d);
/* An axis of a tensor of `rank`, counted from the end if negative. */
ein_status ein__check_axis(graph *g, const char *call, int rank, int axis, int *out);
/* NumPy's rule. */
ein_status ein__broadcast(graph *g, const char *call, int n, const dims *shapes, dims *out);

/* Parse an expression of x0 .. x<n-1>; x<n>, x<n+1>, ... stand for the constants. */
ein_status ein__expr_make(graph *g, const char *call, const char *source, int n, int n_constants,
                          const double *constants, expr *out);

/* Steps of a node. Callers keep within MAX_LABELS and MAX_TERMS. */
ein_status ein__node_start(graph *g, node *n, op_kind kind, const char *name, int n_operands,
                           const value *operands);
int ein__label_add(spec *s, const char *name, i64 extent);
/* A label for every dimension, called d0, d1, ... for stem 'd'; returns the first. */
int ein__label_dims(spec *s, char stem, const dims *d);
void ein__term_label(const spec *s, index_map *m, int l);
void ein__term_labels(const spec *s, index_map *m, int first, int n);
/* index = label + offset in a dimension of `extent`; a plain label where it is one. */
void ein__term_range(const spec *s, index_map *m, int l, i64 extent, i64 offset);
void ein__term_fixed(index_map *m, i64 extent, i64 offset);
void ein__term_all(index_map *m, int l, i64 extent, int scalar);
/* index = step * l + step2 * l2 + offset (l2 -1: none); a range where it is one. */
void ein__term_window(const spec *s, index_map *m, int l, i64 step, int l2, i64 step2, i64 extent, i64 offset);
/* Terms of an operand that broadcasts to `result`, whose dimensions are labels first, first + 1, ... */
void ein__term_broadcast(const spec *s, index_map *m, const dims *operand, const dims *result, int first);
/* Copy the node into the graph, with results of these shapes and types (NULL: operand 0's, so there must be one);
 * out: a value per result. */
ein_status ein__node_add(graph *g, node *n, const dims *results, const ein_dtype *types, value *out);

/* An elementwise node; arguments of its expression are the operands, the global indices along dimensions of the
 * result, the constants. Its result's type: 0 for ein_map's rule. */
typedef struct map_call {
    const char *name, *expression;
    int n; /* at least 1 */
    const value *operands;
    int n_indices;
    const int *indices;
    int n_constants;
    const double *constants;
    ein_dtype result;
} map_call;
ein_status ein__map_make(graph *g, const map_call *c, value *out);
/* The same without indices and constants. */
ein_status ein__map_add(graph *g, const char *name, const char *expression, int n, const value *operands,
                        ein_dtype result, value *out);
/* x as `dtype`; x itself if it is that already. */
ein_status ein__cast_add(graph *g, value x, ein_dtype dtype, value *out);
/* A graph's constant of one element. */
ein_status ein__number_add(graph *g, ein_dtype dtype, double x, value *out);
/* A constant's leaf; one leaf for equal constants. */
ein_status ein__constant_add(graph *g, ein_dtype dtype, const dims *d, const void *data, value *out);
/* scalar + rows <= extent must hold in every run; scalar -1: nothing to hold. */
ein_status ein__bound_add(graph *g, int scalar, i64 rows, i64 extent, const char *what);

#endif
