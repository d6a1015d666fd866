/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluator of a graph on whole tensors, in f64 and in the plain sequential working type. It knows nothing of plans;
 * it is what results are compared with. Products are blocked and threaded. */
#ifndef CORE_REFERENCE_REFERENCE_H
#define CORE_REFERENCE_REFERENCE_H

#include "core/graph/graph.h"

typedef struct reference_bindings {
    /* Row-major data in the leaf's own dtype, per leaf of the graph; constants may be NULL. A state's data is
     * read, and not written. */
    const void *const *leaves;
    const i64 *scalars; /* per run-time scalar */
    int threads;        /* 0: as many as there are cores */
    void (*progress)(void *user, const char *stage, double fraction);
    void *progress_user;
} reference_bindings;

/* `outputs[i]` gets output i of the user's graph (not rolled) as f64, numel elements: floats of all types as they
 * were computed in f64, unrounded; integers up to 2^53 and bools exactly. Integers are computed as such, in i64. */
ein_status ein__reference_f64(const graph *g, const reference_bindings *b, double *const *outputs, error *e);
/* The plain evaluation in the working type: every intermediate rounded to f32, every sum added one by one in f32, and
 * the results of a node that are bf16 or f16 rounded to it. What is f64 is f32 here. */
ein_status ein__reference_f32(const graph *g, const reference_bindings *b, double *const *outputs, error *e);

/* How a result may be compared. */
typedef struct comparable {
    ein_dtype dtype;     /* of the result */
    ein_dtype precision; /* the coarsest float type that it or a value behind it was rounded to; EIN_I64: none */
    i64 rows, width;
} comparable;

ein_status ein__comparable(const graph *g, value v, comparable *out);
/* The error by norm that a result of a precision may have: f64 1e-12, f32 1e-5, bf16 and f16 1e-2; else 0. */
double ein__tolerance(ein_dtype precision);

/* Comparison of a result, elements of its dtype, with the f64 reference: error by norm, and the worst row's error
 * over its bound, which is 8 times the row error of the plain evaluation plus, of the row's norm, 1e-6 (f32) or a
 * unit in the last place (bf16 2^-8, f16 2^-11), as rounding may go to either side. f64 has no such bound: no plain
 * evaluation is that fine. ok: norm error < tolerance, worst_row <= 1, no NaN where the reference has none.
 * Integers and bools: ok if all are equal, whatever the tolerance. */
typedef struct comparison { double norm_error, worst_row; bool ok; } comparison;
comparison ein__compare(const comparable *c, const void *result, const double *f64, const double *f32,
                        double tolerance);

#endif
