/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluator of a graph on whole tensors, in f64 and in plain sequential f32. It knows nothing of plans; it is
 * what results are compared with. Products are blocked and threaded. */
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

/* `outputs[i]` gets output i of the user's graph (not rolled) as f64, numel elements. */
ein_status ein__reference_f64(const graph *g, const reference_bindings *b, double *const *outputs, error *e);
/* Every intermediate rounded to f32, every sum added one by one in f32. */
ein_status ein__reference_f32(const graph *g, const reference_bindings *b, double *const *outputs, error *e);

/* Comparison of a result [rows, width] with the f64 reference: error by norm, and the worst row's error over
 * its bound (8 times the row error of the plain f32 evaluation plus 1e-6 of the row's norm); ok: norm error
 * < tolerance, worst_row <= 1, no NaN where the reference has none. */
typedef struct comparison { double norm_error, worst_row; bool ok; } comparison;
comparison ein__compare(const float *result, const double *f64, const double *f32, i64 rows, i64 width,
                        double tolerance);

#endif
