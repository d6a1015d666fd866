/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from a node's spec. Pure views: a move whose operand and result list the same labels in the same
 * order. Since relations factor the index space and not the dimensions, such a node does nothing at all. */
#include "core/graph/graph.h"

static int next_label(const index_map *m, int *at)
{
    while (*at < m->n) {
        const term *t = &m->terms[(*at)++];
        if (t->kind != TERM_LABEL) return -2;
        if (t->extent != 1) return t->label;
    }
    return -1;
}

bool ein__node_is_view(const node *n)
{
    if (n->kind != OP_MOVE || n->spec.n_operands != 1) return false;
    int i = 0, j = 0;
    for (;;) {
        int x = next_label(&n->spec.operands[0], &i), y = next_label(&n->spec.results[0], &j);
        if (x != y || x == -2) return false;
        if (x == -1) return true;
    }
}

bool ein__node_leaves_states(const node *n)
{
    const merge *m = n->spec.merge;
    bool finishes = m != NULL && n->spec.n_states != n->spec.n_results;
    for (int r = 0; m != NULL && r < n->spec.n_results; r++) finishes = finishes || m->finalize[r].n > 0;
    return n->kind == OP_CUSTOM && finishes;
}

value ein__value_source(const graph *g, value v)
{
    while (g->values.items[v].kind == VALUE_RESULT) {
        const node *n = &g->nodes.items[g->values.items[v].owner];
        if (!ein__node_is_view(n)) break;
        v = n->operands[0];
    }
    return v;
}
