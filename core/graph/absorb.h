/* SPDX-License-Identifier: Apache-2.0 */
/* Permutes that need no kernel: index maps may list labels in any order, and kernels take any strides, so the
 * reader of a permuted tensor can read the tensor before the permute through a permuted map. */
#ifndef CORE_GRAPH_ABSORB_H
#define CORE_GRAPH_ABSORB_H

#include "core/graph/graph.h"

/* `out` shares everything with `g` but its nodes, which are copies on `a` with operands taken from behind
 * permutes. A permute that nobody reads any more is left to the canonical form, which drops dead nodes. */
ein_status ein__absorb_permutes(arena *a, const graph *g, graph *out);

#endif
