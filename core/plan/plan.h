/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a search over a canonical graph: read-only, without any search data. Everything else (needs,
 * exchanges, buffers, steps) follows from it. */
#ifndef CORE_PLAN_PLAN_H
#define CORE_PLAN_PLAN_H

#include "core/graph/graph.h"
#include "core/plan/relation.h"

typedef struct plan {
    int n_devices;
    int n_nodes;
    choice *nodes;     /* per node of the canonical graph; views have none (n_tuples = 0); an OP_APPEND's result
                          must lie as its state's leaf does */
    int n_leaves;
    relation *leaves;  /* per canonical leaf: parameters, constants and states; inputs lie whole on HOST */
    int n_carries;
    relation *carries; /* all loops' carries in order: the finished layout at the start of each iteration */
    double predicted_us;
    double bound_us;     /* no plan of the search's choices takes less; 0: not known */
    i64 predicted_bytes; /* between devices, one run */
    i64 states_searched;
    bool alike_products; /* the machine's library multiplies operands of one type only; not printed: the machine says it */
} plan;

/* Verifier: every choice and relation legal for its node or leaf. Fails with EIN_NO_PLAN, naming the op. */
ein_status ein__plan_check(const graph *g, const plan *p, error *e);
/* JSON, stable; ein__plan_parse reads it back. Node entries name op, label names, cut points, devices. */
ein_status ein__plan_print(const graph *g, const plan *p, text *out);
/* The same with labels by number and leaves unnamed: it fits every graph of the same identity. */
ein_status ein__plan_print_nameless(const graph *g, const plan *p, text *out);
ein_status ein__plan_parse(arena *a, const graph *g, const char *json, plan *out, error *e);

#endif
