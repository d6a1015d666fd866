/* SPDX-License-Identifier: Apache-2.0 */
/* Moves as steps of other calls. `name` is the public call's, for errors and kernels; arguments are checked by the
 * caller. A move that changes nothing gives x itself. */
#ifndef CORE_GRAPH_VIEWS_H
#define CORE_GRAPH_VIEWS_H

#include "core/graph/builder.h"

bool ein__dims_equal(const dims *a, const dims *b);
/* One extent may be -1. */
ein_status ein__reshape_add(graph *g, const char *name, value x, const dims *shape, value *out);
/* order[i]: the axis that becomes axis i. */
ein_status ein__permute_add(graph *g, const char *name, value x, const int *order, value *out);
/* To a shape that x broadcasts to. */
ein_status ein__expand_add(graph *g, const char *name, value x, const dims *to, value *out);
/* x[start : start + n] of an axis, inside it. */
ein_status ein__slice_add(graph *g, const char *name, value x, int axis, i64 start, i64 n, value *out);
/* before[i] elements of `number` in front of dimension i and after[i] behind; negative ones cut. */
ein_status ein__pad_add(graph *g, const char *name, value x, const i64 *before, const i64 *after, double number,
                        value *out);

#endif
