/* SPDX-License-Identifier: Apache-2.0 */
/* Windows along one dimension: of convolutions and pools. */
#ifndef CORE_GRAPH_WINDOW_H
#define CORE_GRAPH_WINDOW_H

#include "core/graph/builder.h"

typedef struct window {
    i64 in, kernel, stride, dilation;
    i64 before, after; /* padding; after: with what a last window that ends outside needs more */
    i64 excess;        /* that, of `after` */
    i64 out;           /* windows */
} window;

/* Fill in excess and out; `w` has the rest, but `after` is how much more padding that is than `before`. `ceil`: a last
 * window that starts inside, or in the padding before, counts. Refused if there is no window. */
ein_status ein__window_make(graph *g, const char *call, int dimension, bool ceil, window *w);
i64 ein__window_padded(const window *w);
/* x with the windows' padding of its last n dimensions. */
ein_status ein__windows_pad(graph *g, const char *call, value x, int n, const window *w, double number, value *out);
/* Windows that lie side by side and fill the dimension: it is (window, place). */
bool ein__window_tiles(const window *w);
/* The padded dimension's terms, for labels of the windows and the places in one (-1: it has one place). */
void ein__window_terms(const spec *s, index_map *m, const window *w, int windows, int places);

#endif
