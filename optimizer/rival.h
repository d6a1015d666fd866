/* SPDX-License-Identifier: Apache-2.0 */
/* One rival. Private to rival*.c. */
#ifndef OPTIMIZER_RIVAL_H
#define OPTIMIZER_RIVAL_H

#include "optimizer/rival_draft.h"

typedef struct rival {
    const char *name;
    /* The plan, without its price; or only `*why_not`. */
    ein_status (*make)(draft *d, plan *out, const char **why_not);
    double step; /* seconds of a step between devices, where the rival's are slower than the machine's; 0: they are not */
} rival;

/* The plan's price, into it; `more` seconds for a step between devices. */
ein_status ein__rival_price(const draft *d, double more, plan *p);

extern const rival ein__rival_data, ein__rival_data_gathered;              /* rival_data.c */
extern const rival ein__rival_tensor, ein__rival_tensor_sp, ein__rival_tensor_library; /* rival_tensor.c */
extern const rival ein__rival_context, ein__rival_heads;                   /* rival_context.c */
extern const rival ein__rival_mesh1, ein__rival_mesh2, ein__rival_mesh3;   /* rival_mesh.c */

#endif
