/* SPDX-License-Identifier: Apache-2.0 */
/* A plan under a magnifying glass: prices of its ops, of their alternatives, and of rivals. All times are of the cost
 * model. */
#ifndef TOOLS_EXPLAIN_H
#define TOOLS_EXPLAIN_H

#include "jit/context.h"
#include "optimizer/candidates.h"
#include "tools/report.h"

typedef struct explained {
    arena arena;
    ein_program *program;
    cost_model costs;
    pricer pricer;
    plan_price price;
    const char *best_rival; /* that takes no more memory than the plan or the search may; NULL: none, or not asked */
    double best_ratio;
    error error;
} explained;

/* Prices the program's plan. Close in any case. */
ein_status explained_open(explained *x, ein_program *p);
void explained_close(explained *x);

/* A row per op, then inputs and outputs, then the total with memory and rivals. */
ein_status explained_ops(explained *x, report *r);
/* A row per candidate of a node, the cheapest first. */
ein_status explained_why(explained *x, int node, report *r);
/* For readers of tables, who do not get them with the total: memory of each device; a row per rival. */
ein_status explained_memory(const explained *x, report *r);
ein_status explained_rivals(explained *x, report *r);

/* The node of a number, of an op's name, or of a part of the name of the weight that it reads, which only one has; -1:
 * none or several (said to stderr). */
int explained_node(const explained *x, const char *name);

#endif
