/* SPDX-License-Identifier: Apache-2.0 */
/* The program's order, unrolled far enough to see every dependence between iterations: which accesses of one
 * device's memory by another must be ordered. Used to find the waits and, on its own, to check them. */
#ifndef CORE_PLAN_ORDER_H
#define CORE_PLAN_ORDER_H

#include "core/plan/program.h"

/* Iterations of a region that are looked at: carried places repeat after two, so three show every dependence; a
 * fourth where the parity of the true last iteration asks for it. It does not depend on the count otherwise. */
enum { MAX_UNROLLED = 4 };
static inline int ein__region_unrolled(const region *r) { return r->loop < 0 ? 1 : 3 + (r->count % 2 == 0); }

/* One execution of a step. */
typedef struct event { const step *step; int device, index, iteration; } event;

/* `from` must be finished before `to` starts; they are on different devices. */
typedef struct dependence { int from, to; } dependence;

typedef struct event_order {
    int n_events;
    event *events;   /* in the program's total order */
    int n_dependences;
    dependence *dependences; /* rising `to` */
} event_order;

/* Also finds reads of places that nothing wrote: EIN_INTERNAL. */
ein_status ein__program_order(arena *a, const program *p, event_order *out, error *e);
/* Completed steps of a device's list when (its step, iteration) has finished, counted from the run's start;
 * `unrolled`: of the unrolled order, not of a run. */
i64 ein__program_count(const program *p, int device, int step, int iteration, bool unrolled);

#endif
