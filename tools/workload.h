/* SPDX-License-Identifier: Apache-2.0 */
/* A model with numbers: its graph, and data for every leaf. Nothing in it depends on machine or devices. */
#ifndef TOOLS_WORKLOAD_H
#define TOOLS_WORKLOAD_H

#include "core/graph/graph.h"
#include "core/reference/reference.h"
#include "core/weights/checkpoint.h"
#include "tools/model.h"
#include "tools/progress.h"
#include "tools/request.h"

typedef struct workload {
    arena arena;
    error error;
    const char *name; /* the MODEL string */
    model model;
    request request;
    checkpoint stored; /* the weights of the model's folder, if it has any; placed from there, not by `leaves` */
    checkpoint given;  /* of the request's input */
    naming names;
    const char *note; /* what a user should know; NULL: nothing */
    ein_graph *graph;
    ein_graph *prime; /* writes the cached rows of all states; NULL: there are none */
    /* Per leaf of the graph; NULL for constants and for stored weights. A state's data is its content once primed,
     * and `rows` the part that the prime graph writes. */
    void **leaves, **rows;
    i64 *scalars;
    double **f64, **f32; /* per output: the reference evaluator's, once it was asked; NULL until then */
    progress *progress;
} workload;

/* Parse and build; `r` NULL: nothing is asked beside the MODEL. On failure `w->error` says why. Close in any case. */
ein_status workload_open(workload *w, const char *source, const request *r, progress *p);
ein_status workload_fill(workload *w);
void workload_close(workload *w);

/* Bytes of a leaf or an output. */
size_t workload_bytes(const graph *g, value v);
/* Name of the prime graph's input for a state. */
const char *workload_rows_name(arena *a, const char *state);
/* NULL: the folder has no such weight. */
const stored_tensor *workload_stored(const workload *w, const char *name);
/* Which output has the name; -1: none. */
int workload_output(const workload *w, const char *name);

typedef struct verdict {
    double error, worst_row;
    double tolerance; /* of the error */
    bool ok;
} verdict;

/* Compare outputs (per output of the graph) with the reference evaluator. */
ein_status workload_check(workload *w, void *const *outputs, verdict *out);

#endif
