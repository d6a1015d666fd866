/* SPDX-License-Identifier: Apache-2.0 */
/* Canonical form: nodes that reach no output are dropped; nodes and leaves are numbered by a depth-first
 * traversal from the ordered outputs; values that several layers share are hoisted before them; the period
 * of the node list is found and its repetitions become one loop body. */
#ifndef CORE_GRAPH_CANONICAL_H
#define CORE_GRAPH_CANONICAL_H

#include "core/graph/graph.h"

/* `out` is {0} before; owns its arena after (free it even on failure); borrows names and constants of `g`. */
ein_status ein__canonicalize(const graph *g, graph *out, error *e);
/* The same without loops: for layers whose weights do not lie alike. */
ein_status ein__canonicalize_flat(const graph *g, graph *out, error *e);

#endif
