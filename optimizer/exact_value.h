/* SPDX-License-Identifier: Apache-2.0 */
/* Values as tables. Private to exact_*.c. */
#ifndef OPTIMIZER_EXACT_VALUE_H
#define OPTIMIZER_EXACT_VALUE_H

#include "optimizer/exact.h"

/* Models and tables of all values; nodes and carries have their variables. */
ein_status ein__exact_values(exact *x);

/* Bytes of a leaf on the device that has the most of it. */
double ein__exact_fullest(const exact *x, const leaf *l, const relation *r);

/* The option that value k of the variable of a fetch stands for. */
const option *ein__exact_option(const exact *x, const event *e, int k);
/* An event with the first value of class c: its cost, and the list afterwards. */
ein_status ein__exact_event(exact *x, value v, const event *e, int c, int list, i64 *cost, int *after);

/* ---- scripts (exact_script.c) ---- */

/* The variable and the tables of a value with scripts. */
ein_status ein__exact_scripts(exact *x, value v, value_model *m);
/* Fetches before the last event. */
int ein__exact_sharable(const value_model *m);

/* ---- tables (exact_build.c) ---- */

ein_status ein__exact_variable(exact *x, int size, int *out);
/* var -1: one entry. */
ein_status ein__exact_unary(exact *x, int var, const i64 *costs);
/* A table over u and w (-1: none; they may be the same) whose entry is matrix[row_of[u], column_of[w]]. */
ein_status ein__exact_pair(exact *x, int u, const int *row_of, int w, const int *column_of, const i64 *matrix,
                           int n_rows, int n_columns);

#endif
