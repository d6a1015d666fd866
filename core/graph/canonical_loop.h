/* SPDX-License-Identifier: Apache-2.0 */
/* Repetitions in a node sequence; shared by canonical.c and canonical_loop.c only. */
#ifndef CORE_GRAPH_CANONICAL_LOOP_H
#define CORE_GRAPH_CANONICAL_LOOP_H

#include "core/base/hash.h"
#include "core/graph/graph.h"

typedef struct walk {
    const graph *g;
    arena *a;           /* scratch */
    int n;              /* live nodes */
    int *seq;           /* their numbers, operands before users */
    int *pos;           /* node -> place in seq; -1: dead */
    hash128 *signature; /* per node, of ein__node_key */
} walk;

/* seq[lo .. lo + period * count) is `count` repetitions of `period` nodes. */
typedef struct found_loop { int lo, period, count; } found_loop;

/* What operand `o` of body node `k` refers to, over all iterations. */
typedef enum ref_kind {
    REF_BAD,
    REF_SHARED,  /* `init` in every iteration, defined before the loop */
    REF_MEMBERS, /* a leaf of its own in every iteration: members[0 .. count) */
    REF_INSIDE,  /* `init`, made in the same iteration */
    REF_CARRY    /* `init` first, then what the iteration before made: `next` is its value in iteration 0 */
} ref_kind;
typedef struct loop_ref {
    ref_kind kind;
    value init, next;
    value *members; /* the caller's, count long; NULL: not wanted */
} loop_ref;

void ein__loop_classify(const walk *w, const found_loop *f, int k, int o, loop_ref *out);
/* Loops in order, disjoint, on the scratch arena. */
ein_status ein__loops_find(walk *w, found_loop **out, int *n);

#endif
