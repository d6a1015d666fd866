/* SPDX-License-Identifier: Apache-2.0 */
/* Plans as other systems make them, for the same graph and at the same prices. */
#ifndef OPTIMIZER_RIVALS_H
#define OPTIMIZER_RIVALS_H

#include "optimizer/optimizer.h"

enum { RIVALS = 10 };

typedef struct rival_plan {
    const char *name;    /* "tensor_parallel" */
    const char *why_not; /* not applicable, an ordinary answer: why; NULL: there is a plan */
    plan plan;           /* with its price; legal, whatever memory it takes */
} rival_plan;

const char *ein__rival_name(int which);
/* Rival `which` of RIVALS, on `a`. `slack`: memory of those that search, as in search_limits. */
ein_status ein__rival(arena *a, const graph *g, const machine *m, const cost_model *c, double slack, int which,
                      rival_plan *out, error *e);

#endif
