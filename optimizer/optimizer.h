/* SPDX-License-Identifier: Apache-2.0 */
/* The search for a plan. It knows ops by their specs, hardware as machine data, and time only through the
 * cost model that it is handed. */
#ifndef OPTIMIZER_OPTIMIZER_H
#define OPTIMIZER_OPTIMIZER_H

#include "optimizer/choices.h"

typedef struct cost_model {
    void *user;
    /* Seconds and remote bytes of moving a value of type `dtype`. `states` lie in the index space of result
     * `result`, in the merge's wire types; merge NULL: one finished state. `used`: the states that the result
     * needs (the others may be anything). Infinite seconds: the two factorizations have no common refinement; the
     * search then goes by way of whole copies, as lowering does. `a` is scratch. */
    ein_status (*exchange)(void *user, arena *a, int n_states, const relation *const *states, uint32_t used,
                           const merge *m, int result, ein_dtype dtype, const relation *to, double *seconds,
                           i64 *bytes);
    /* Seconds that one device takes for its boxes of an op, launch floor included. */
    double (*compute)(void *user, const graph *g, const node *n, const label_box *boxes, int n_boxes);
} cost_model;

/* Layouts that are already placed, per canonical leaf; NULL (the entry or the list): free. */
typedef struct fixed_layouts { const relation *const *leaves; } fixed_layouts;

/* A legal plan for every graph, on `a`. Deterministic: the same graph, machine and costs give the same plan.
 * Fails with EIN_NO_PLAN if a fixed state layout cannot be kept, EIN_NO_MEMORY. */
ein_status ein__search(arena *a, const graph *g, const machine *m, const cost_model *c,
                       const fixed_layouts *f, plan *out, error *e);

/* What a search is allowed; zeros: all that ein__search is. */
typedef struct search_limits {
    const choice_list *choices; /* per node; views have none. NULL: all that there are */
    const char *strategy; /* by name, "exact" or "frontier"; NULL: the best */
    i64 patience; /* table entries (states_searched) after which a plan that is good already is not improved; 0: some
                     millions, a second or two */
    bool (*cancelled)(void *user); /* asked now and then: true ends the search with the best plan so far. May be NULL */
    void *user;
    double slack; /* of weights and states a device may hold so many times an equal share; 0: MEMORY_SLACK; infinite: any */
} search_limits;

/* Bytes of weights and states that a device may hold with that slack; tensors smaller than 64 KiB do not count. */
double ein__memory_room(const graph *g, int n_devices, double slack);

ein_status ein__search_within(arena *a, const graph *g, const machine *m, const cost_model *c,
                              const fixed_layouts *f, const search_limits *limits, plan *out, error *e);

#endif
