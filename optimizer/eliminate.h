/* SPDX-License-Identifier: Apache-2.0 */
/* Min-sum elimination: the assignment of integer variables for which a sum of tables is least. */
#ifndef OPTIMIZER_ELIMINATE_H
#define OPTIMIZER_ELIMINATE_H

#include "core/base/arena.h"
#include "optimizer/cost.h"

enum { MAX_SCOPE = 8 }; /* variables of one table, those made on the way included */

/* A cost for every assignment of a few variables, in rising order; the last one's value changes fastest. Entries
 * are 0 .. FAR. */
typedef struct cost_table { int n_vars, vars[MAX_SCOPE]; const i64 *at; } cost_table;

typedef struct sum_problem {
    int n_vars;
    const int *sizes; /* values of each variable are 0 .. size - 1 */
    int n_tables;
    const cost_table *tables;
    i64 **least; /* NULL, or per variable NULL; gets for each value the least cost of an assignment that has it, or less:
                    of variables with more than 256 values, if there are such, else of all; none if a table was split */
} sum_problem;

typedef struct sum_answer {
    int *values;
    i64 cost;    /* of `values`; FAR: no assignment has a finite cost */
    i64 bound;   /* no assignment costs less; equal to `cost` if no table was too large */
    i64 entries; /* of the tables that were made */
} sum_answer;

/* A variable at a time, the one whose elimination compares the fewest sums (then the first). Ties go to the lowest
 * values, last variable first in the order of elimination. Tables that would have more than `room` entries, or too
 * many variables, are split: the bound is then a relaxation, and the assignment a local optimum reached from its
 * own and from `start` (may be NULL). */
ein_status ein__eliminate(arena *a, const sum_problem *p, i64 room, const int *start, sum_answer *out);
/* The sum of all tables at an assignment. */
i64 ein__sum_at(const sum_problem *p, const int *values);

#endif
