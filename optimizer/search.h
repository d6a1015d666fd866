/* SPDX-License-Identifier: Apache-2.0 */
/* What strategies share: the problem, and how an answer becomes a plan. Private to optimizer/. */
#ifndef OPTIMIZER_SEARCH_H
#define OPTIMIZER_SEARCH_H

#include "optimizer/price.h"

/* Weights and states may take this much more than an equal share of each device, and tensors smaller than
 * SMALL bytes do not count. */
#define MEMORY_SLACK 1.3
enum { MEMORY_GRACE = 1 << 20, SMALL = 64 << 10 };

typedef struct problem {
    arena *a; /* scratch */
    const graph *g;
    const fixed_layouts *fixed;
    const choice_list *choices; /* per node; NULL: all there are */
    prices prices;
    int classes[MAX_DEVICES]; /* of devices that may change places */
    option_list *options; /* per node; none for views */
    double capacity;      /* bytes of parameters and states per device */
    i64 states_searched;
    const search_limits *limits;
    error *e;
} problem;

/* An answer: an option per node, a relation (-1: any) per leaf, a relation per carry. */
typedef struct answer {
    int *options, *leaves, *carries;
    double seconds;
    i64 bytes;
    double bound; /* seconds; no plan of these options takes less. 0: not known */
} answer;

/* One way to search. "Not applicable" is an ordinary answer. */
typedef struct strategy {
    const char *name;
    bool (*applicable)(const problem *p);
    ein_status (*search)(problem *p, answer *out);
} strategy;

extern const strategy ein__search_exact, ein__search_frontier;

ein_status ein__answer_make(problem *p, answer *out);
/* The plan that an answer stands for, on `a`. */
ein_status ein__answer_plan(arena *a, problem *p, const answer *x, plan *out);

/* Bytes that count against the capacity, per element of the leaf; 0: it does not count. */
double ein__leaf_weight(const graph *g, const leaf *l);

#endif
