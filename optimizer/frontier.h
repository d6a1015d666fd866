/* SPDX-License-Identifier: Apache-2.0 */
/* Partial plans of the forward search, and what may be done to them. Private to search_frontier.c and
 * frontier*.c. */
#ifndef OPTIMIZER_FRONTIER_H
#define OPTIMIZER_FRONTIER_H

#include "optimizer/cost.h"
#include "optimizer/search.h"

enum { WIDTH = 24 };

/* Values that are read after some position, in rising order; a state's lists are in the order of slots. */
typedef struct slots { int n; value *values; } slots;

/* A leaf that got its layout. */
typedef struct laid { int leaf, relation; } laid;

typedef struct state {
    const struct state *from;
    i64 cost, bytes;
    double resident[MAX_DEVICES]; /* bytes of parameters and states laid out on each device */
    double left;                  /* bytes of those that are not */
    int *lists;         /* per slot */
    int node, option;   /* what was chosen to get here, or -1 */
    int n_laid;
    const laid *laid;   /* here */
    int loop;           /* entered here, or -1 */
    const int *carries; /* relations */
} state;

typedef struct frontier { int n; state **items; slots slots; } frontier;

/* A list that a step makes: an operand's with what was fetched, or a result's. */
typedef struct change { value value; int list; } change;

/* A state in the making. */
typedef struct trial {
    state next;
    i64 ahead;     /* least cost of finishing what is pending */
    double excess; /* bytes over the capacity that this step adds to, on the fullest device */
    int n_changes;
    change *changes;
    laid *laid;
    int number;
} trial;

typedef struct trial_list { int n, room; trial **items; } trial_list;

typedef struct walk {
    problem *p;
    const graph *g;
    arena *step;            /* what lives for one step */
    int *first, *last;      /* per value: positions of its first definition or layout, and of its last use */
    int *slot_of;           /* per value, in the frontier at hand; -1: none */
    struct { int n, room; i64 *items; } finish; /* per list, -1: not asked */
} walk;

/* Positions: where a loop starts and ends, where a node runs, where outputs leave. */
static inline int at_exit(const loop *l) { return 4 * l->hi; }
static inline int at_entry(const loop *l) { return 4 * l->lo + 1; }
static inline int at_node(int i) { return 4 * i + 2; }
static inline int at_outputs(const graph *g) { return 4 * g->nodes.n + 3; }

/* ---- frontiers ---- */

/* Fill `first` and `last`. */
void ein__frontier_lives(walk *w);
ein_status ein__frontier_slots(walk *w, int position, slots *out);
void ein__frontier_use(walk *w, const slots *s);
/* The one state before the first node. */
ein_status ein__frontier_start(walk *w, frontier *f);
/* The cheapest trials that differ in their lists; over the capacity only if all are, and then the least. */
ein_status ein__frontier_select(walk *w, trial_list *trials, frontier *out);

/* ---- trials ---- */

/* A copy of `from`, with nothing chosen and room for changes (and leaves laid out), at the end of `list`. */
ein_status ein__trial_make(walk *w, const state *from, int max_changes, trial_list *list, trial **out);
/* What there is of a value; -1: a leaf that has no layout. */
int ein__trial_list(const walk *w, const trial *t, value v);
void ein__trial_set(trial *t, value v, int list);
/* `v` comes to be as one placed value. */
ein_status ein__trial_place(walk *w, trial *t, value v, int id);
/* Give the leaf `v` the layout `need`, if that is all of it; else whole copies, or even parts. */
ein_status ein__trial_lay_out(walk *w, trial *t, value v, const relation *need);
/* Pay for moving `v` from where it is, `count` times. */
ein_status ein__trial_move(walk *w, trial *t, value v, int to, int count);
/* Lists of the slots, and the least cost of finishing what is pending in them. */
ein_status ein__trial_finish(walk *w, trial *t, const slots *after, int count);

/* ---- loops (frontier_loop.c) ---- */

ein_status ein__frontier_loop(walk *w, frontier *f, int index);
/* Nodes [lo, hi), `count` times each (search_frontier.c). */
ein_status ein__frontier_nodes(walk *w, frontier *f, int lo, int hi, int count);

#endif
