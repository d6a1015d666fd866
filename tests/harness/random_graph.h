/* SPDX-License-Identifier: Apache-2.0 */
/* Random computations, made by the public calls alone, with data for their leaves. Values stay in a range
 * where a comparison of results means something. */
#ifndef TESTS_HARNESS_RANDOM_GRAPH_H
#define TESTS_HARNESS_RANDOM_GRAPH_H

#include "core/graph/graph.h"

enum { GRAPH_RUNS = 2 };

typedef struct random_graph {
    arena arena;
    ein_graph *graph;
    const void **leaves;      /* data per leaf of the graph; NULL for states and constants */
    bool *exact;              /* per value: the same bits under every plan; a leaf's elements are not to be moved.
                               * NULL: none */
    i64 *scalars[GRAPH_RUNS]; /* values of the run-time scalars, for runs one after the other */
} random_graph;

/* A graph of up to `ops` calls. The same seed and `ops` give the same graph. Fails with the builder's status:
 * that is a mistake of this generator. */
ein_status random_graph_make(uint64_t seed, int ops, random_graph *out);
void random_graph_free(random_graph *g);

#endif
