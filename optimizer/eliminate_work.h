/* SPDX-License-Identifier: Apache-2.0 */
/* An elimination under way. Private to eliminate*.c. */
#ifndef OPTIMIZER_ELIMINATE_WORK_H
#define OPTIMIZER_ELIMINATE_WORK_H

#include "optimizer/eliminate.h"

typedef struct work {
    arena *a;
    arena step; /* what one message needs */
    const sum_problem *p;
    i64 room;
    bool *done;                                        /* per variable */
    struct { cost_table *items; int n, room; } tables; /* the problem's, then messages */
    struct { bool *items; int n, room; } used;         /* per table: in a bucket that was eliminated */
    int *order;                                        /* variables as they were eliminated */
    int **buckets, *in_bucket;                         /* per variable: tables that had it */
    struct { int *items; int n, room; } makers;        /* per table: the variable whose message it is, -1 */
    i64 bound, entries;
    bool split;
} work;

bool ein__table_has(const cost_table *t, int var);
/* Eliminate y from some tables: messages are put at the end of the tables. Returns how many in `made`. */
ein_status ein__message_add(work *w, int y, const int *tables, int n, int *made);
/* The least cost of any assignment with each value of each variable, or less; nothing was split. */
ein_status ein__least_costs(work *w, arena *a, i64 **out);

#endif
