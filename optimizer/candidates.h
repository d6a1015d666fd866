/* SPDX-License-Identifier: Apache-2.0 */
/* What else one op of a plan could have been: the whole plan's price with another choice there. */
#ifndef OPTIMIZER_CANDIDATES_H
#define OPTIMIZER_CANDIDATES_H

#include "optimizer/price_plan.h"

typedef struct candidate {
    choice choice;
    int number;       /* in the order of the choices, the plan's first */
    bool chosen;      /* it is the plan's */
    bool fits;        /* into the search's share of memory, or what the plan takes if that is more */
    i64 picoseconds;  /* of the whole plan */
    part_price part;  /* of the op */
    double resident;  /* bytes on the fullest device, as ein__plan_fullest */
} candidate;

typedef struct candidate_list { int n, room; candidate *items; } candidate_list;

/* All choices of the node, the cheapest first. The others' stay; a leaf that lies as its first reader needs it, does so
 * again. */
ein_status ein__candidates(pricer *k, arena *a, const plan *p, int node, candidate_list *out, error *e);
/* The cheapest that fits and is not the plan's; NULL: there is none. */
const candidate *ein__runner_up(const candidate_list *c);

#endif
