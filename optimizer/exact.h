/* SPDX-License-Identifier: Apache-2.0 */
/* A search problem as tables over integer variables. Private to search_exact.c and exact_*.c. */
#ifndef OPTIMIZER_EXACT_H
#define OPTIMIZER_EXACT_H

#include "optimizer/eliminate.h"
#include "optimizer/search.h"

/* What is done with a value, in the order in which it is done: an op reads it, it goes into a carry before a loop or
 * at the end of its body, or to the host. */
typedef enum event_kind { EVENT_FETCH, EVENT_ENTER, EVENT_NEXT, EVENT_OUTPUT } event_kind;

typedef struct partial_copy { devset lacks; int copy; i64 cost; } partial_copy;
typedef struct partial_list { int n, room; partial_copy *items; } partial_list;

typedef struct event {
    event_kind kind;
    int node, n_operands, *operands; /* FETCH: all operands that are this value */
    int loop, carry;      /* ENTER, NEXT: number of the carry in its loop */
    int count;            /* how often it happens */
    int var;              /* its node's or carry's, or -1 */
    int n_classes;        /* relations that it may want: needs of an op, or layouts of a carry */
    int *class_of;        /* per value of the variable */
    int *first;           /* per class: a value of the variable that is in it */
    /* By [origin * n_classes + class], if nothing was fetched before: cost, copy made (placed, -1: none), devices that lack
     * something; and the same if others have seen to some of them. */
    i64 *costs;
    int *copies;
    devset *lacks;
    partial_list *partials;
} event;

/* Where a value may come to be, as lists of one placed value. */
typedef struct origin {
    int var;              /* -1: none decides; with several lists that is the search's choice (a leaf) */
    int n, *lists;
    int *of;              /* per value of `var` */
} origin;

/* A way in which a value comes to be and is fetched: events after an entry find its copy too. */
enum { MAX_ENTRIES = 2 };
typedef struct script {
    int origin, n;
    int event[MAX_ENTRIES], wanted[MAX_ENTRIES], copy[MAX_ENTRIES]; /* which; its class; what it makes: placed */
    devset got[MAX_ENTRIES]; /* devices that then have a copy */
} script;

typedef struct value_model {
    struct { int n, room; event *items; } events;
    origin origin;
    int var;              /* whose values are scripts; -1: events depend on the origin alone */
    struct { int n, room; script *items; } scripts;
    int n_relations, *relations; /* of a leaf that is free: what the origins are */
    bool simple;          /* origins are complete, and no device ever needs more than one box (exact_script.c) */
    devset **shows;       /* by [event * events + later event] */
} value_model;

/* Bytes of resident leaves on the fullest device, by a variable's values. */
typedef struct usage { int var; double *bytes; } usage;

/* Which options are searched. */
typedef enum option_tier { TIER_ALL, TIER_MEDIUM, TIER_SIMPLE } option_tier;

typedef struct exact {
    problem *p;
    const graph *g;
    arena *a;
    int up, down;         /* a cost is picoseconds << up, plus bytes >> down */
    i64 limit;            /* above it nothing matters */
    i64 slack;            /* what a plan may cost more than the least of all ops */
    struct { int n, room; int *items; } sizes; /* of the variables */
    struct { int n, room; cost_table *items; } tables;
    struct { int n, room; usage *items; } usages;
    int *readers;         /* per value: operands, carries and outputs that are it */
    int *of_node, **kept; /* variable and, by its values, options; -1: a view */
    int *of_carry, *n_layouts, **layouts; /* variable and, by its values, relations; all loops' carries in order */
    value_model *values;
    double taken;         /* bytes that fixed leaves take of the fullest device */
    i64 floor;            /* picoseconds of all ops at their least */
    option_tier tier;     /* if it is not ALL, no more than the floor is proved */
    bool hopeless;        /* some node has no option that fits into memory; nothing else was made */
    bool complete;        /* every way to fetch is in some script */
} exact;

/* Variables and tables for a plan that costs no more than `upper`. */
ein_status ein__exact_build(exact *x, const answer *upper);
/* A cost of some picoseconds and bytes that happen `count` times. */
i64 ein__exact_cost(const exact *x, double seconds, i64 bytes, int count);
/* The best assignment that fits into memory, if it is better than the answer, and the bound. */
ein_status ein__exact_solve(exact *x, answer *best);
/* Price an assignment as a plan, and keep it if it is better. */
ein_status ein__exact_consider(exact *x, const int *values, answer *best);
/* An assignment as an answer. */
void ein__exact_answer(const exact *x, const int *values, answer *out);

#endif
