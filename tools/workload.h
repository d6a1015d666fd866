/* SPDX-License-Identifier: Apache-2.0 */
/* A model with numbers: its graph, and data for every leaf. Nothing in it depends on machine or devices. */
#ifndef TOOLS_WORKLOAD_H
#define TOOLS_WORKLOAD_H

#include "core/graph/graph.h"
#include "core/reference/reference.h"
#include "tools/model.h"
#include "tools/progress.h"

typedef struct workload {
    arena arena;
    error error;
    const char *name; /* the MODEL string */
    model model;
    ein_graph *graph;
    ein_graph *prime; /* writes the cached rows of all states; NULL: the graph has no states */
    /* Per leaf of the graph; NULL for constants. A state's data is its content once primed, and `rows` the
     * part that the prime graph writes. */
    void **leaves;
    float **rows;
    i64 *scalars;
    progress *progress;
} workload;

/* Parse and build. On failure `w->error` says why. Close in any case. */
ein_status workload_open(workload *w, const char *source, progress *p);
ein_status workload_fill(workload *w);
void workload_close(workload *w);

/* Bytes of a leaf or an output. */
size_t workload_bytes(const graph *g, value v);
/* Name of the prime graph's input for a state. */
const char *workload_rows_name(arena *a, const char *state);

typedef struct verdict {
    double error, worst_row;
    bool ok;
} verdict;

/* Compare outputs (per output of the graph) with the reference evaluator. */
ein_status workload_check(workload *w, void *const *outputs, verdict *out);

#endif
