/* SPDX-License-Identifier: Apache-2.0 */
/* Values as tables. Private to exact_*.c. */
#ifndef OPTIMIZER_EXACT_VALUE_H
#define OPTIMIZER_EXACT_VALUE_H

#include "optimizer/exact.h"

/* Models and tables of all values; nodes and carries have their variables. */
ein_status ein__exact_values(exact *x);

/* Bytes of a leaf on the device that has the most of it. */
double ein__exact_fullest(const exact *x, const leaf *l, const relation *r);

/* ---- tables (exact_build.c) ---- */

ein_status ein__exact_variable(exact *x, int size, int *out);
/* var -1: one entry. */
ein_status ein__exact_unary(exact *x, int var, const i64 *costs);
/* A table over u and w (-1: none; they may be the same) whose entry is matrix[row_of[u], column_of[w]]. */
ein_status ein__exact_pair(exact *x, int u, const int *row_of, int w, const int *column_of, const i64 *matrix,
                           int n_rows, int n_columns);

#endif
