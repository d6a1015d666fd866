/* SPDX-License-Identifier: Apache-2.0 */
/* The overlay of a destination and its sources: which boxes of their common index space each pair of blocks
 * shares. */
#ifndef EXCHANGE_OVERLAY_H
#define EXCHANGE_OVERLAY_H

#include "exchange/exchange.h"

/* Side 0 is the destination, the others are the used states. */
enum { MAX_SIDES = 1 + MAX_STATES, MAX_FACTORS = MAX_SIDES * MAX_AXES + 1 };

/* One box that a destination's part of a group shares with a part of each state. */
typedef struct hit {
    int block[MAX_SIDES]; /* what the group's digits add to each side's block number */
    int box;              /* in `boxes`: the group's lower corner, then its lengths, by factor */
} hit;

/* A run of factors between two boundaries that all sides have: groups combine freely. */
typedef struct group {
    int first, last;                              /* factors [first, last) */
    int axis[MAX_SIDES], axis_end[MAX_SIDES];     /* axes of each side */
    int digits[MAX_SIDES], weight[MAX_SIDES];     /* parts of those axes; parts of all later axes */
    int *hits_at;                                 /* per part of side 0, and one more: where its hits begin */
    struct { hit *items; int n, room; } hits;
} group;

typedef struct overlay {
    int n_sides;
    const relation *side[MAX_SIDES];
    int state[MAX_SIDES];               /* number of the state that a side is */
    int n_factors;
    i64 unit[MAX_FACTORS + 1];          /* factor f counts units of unit[f + 1], and unit[f] is all of it */
    int first[MAX_SIDES][MAX_AXES], last[MAX_SIDES][MAX_AXES]; /* factors of each axis */
    int n_groups;
    group groups[MAX_FACTORS + 1];
    struct { i64 *items; int n, room; } boxes;
} overlay;

/* false in `compatible`: no common refinement, and nothing else was made. */
ein_status ein__overlay_make(arena *a, const exchange_problem *p, overlay *out, bool *compatible);

#endif
