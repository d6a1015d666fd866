/* SPDX-License-Identifier: Apache-2.0 */
/* The ways in which an op may be decomposed. */
#ifndef OPTIMIZER_CHOICES_H
#define OPTIMIZER_CHOICES_H

#include "core/plan/plan.h"

typedef struct choice_list {
    int n, room;
    choice *items;
    int n_simple; /* the first ones: at most two cuts, and no copies but of all or of small labels */
    int n_medium; /* these, and one cut with copies */
} choice_list;

/* What each label of each node is best cut at multiples of, so that neighbours agree where to cut: a linear
 * layer's outputs at whole heads, query heads at whole groups. A multiple of the granule. */
typedef i64 label_units[MAX_LABELS];
ein_status ein__choice_units(arena *a, const graph *g, int n_devices, label_units **out);

/* Legal choices, in a fixed order, the simplest first; never none. */
ein_status ein__choices(arena *a, const spec *s, const i64 *units, int n_devices, choice_list *out);

/* The choice without aggregated cuts whose result 0 lies as `r`; *found false if there is none. */
ein_status ein__choice_of(arena *a, const spec *s, const relation *r, int n_devices, choice *out,
                          bool *found);

#endif
