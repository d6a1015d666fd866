/* SPDX-License-Identifier: Apache-2.0 */
/* For every operand that a permute made: group the reader's terms by the permute's result labels, then list the
 * groups in the order of the permute's operand. It fits if no term spans two permuted labels. */
#include "core/graph/absorb.h"

#include <string.h>

#include "core/base/arena.h"

static bool plain(const index_map *m)
{
    for (int i = 0; i < m->n; i++)
        if (m->terms[i].kind != TERM_LABEL) return false;
    return true;
}

static const node *permute_of(const graph *g, value v)
{
    if (g->values.items[v].kind != VALUE_RESULT) return NULL;
    const node *n = &g->nodes.items[g->values.items[v].owner];
    bool permute = n->kind == OP_MOVE && n->spec.n_operands == 1 && !ein__node_is_view(n) &&
                   plain(&n->spec.operands[0]) && n->spec.operands[0].n == n->spec.results[0].n;
    return permute ? n : NULL;
}

/* Terms [first[i], first[i] + count[i]) of the reader's map make up term i of the permute's result. */
typedef struct grouping { int first[MAX_TERMS], count[MAX_TERMS]; } grouping;

static bool group_terms(const index_map *reader, const index_map *permuted, grouping *out)
{
    int at = 0;
    for (int i = 0; i < permuted->n; i++) {
        i64 have = 1, want = permuted->terms[i].extent;
        out->first[i] = at;
        while (at < reader->n && have < want) have *= reader->terms[at++].extent;
        bool last = i == permuted->n - 1;
        while (last && at < reader->n && reader->terms[at].extent == 1) at++;
        if (have != want) return false;
        out->count[i] = at - out->first[i];
    }
    return at == reader->n;
}

static bool permute_map(const index_map *reader, const node *permute, index_map *out)
{
    const index_map *from = &permute->spec.operands[0], *to = &permute->spec.results[0];
    grouping groups;
    if (!group_terms(reader, to, &groups)) return false;
    out->n = 0;
    for (int i = 0; i < from->n; i++) {
        int j = 0;
        while (j < to->n && to->terms[j].label != from->terms[i].label) j++;
        if (j == to->n) return false;
        for (int k = 0; k < groups.count[j]; k++) out->terms[out->n++] = reader->terms[groups.first[j] + k];
    }
    return true;
}

static bool summed(const node *n, const term *t)
{
    return t->label >= 0 && !ein__map_has(&n->spec.results[0], t->label);
}

/* Runs of neighbours that are summed. */
static int summed_runs(const node *n, const index_map *m)
{
    int runs = 0;
    for (int i = 0; i < m->n; i++) runs += summed(n, &m->terms[i]) && (i == 0 || !summed(n, &m->terms[i - 1]));
    return runs;
}

/* A matrix product needs unit stride along one of its own dimensions, not along a batch dimension, and what it sums as
 * one dimension. */
static bool suits_product(const node *n, int operand, const index_map *m)
{
    if (summed_runs(n, m) > summed_runs(n, &n->spec.operands[operand])) return false;
    int i = m->n - 1;
    while (i > 0 && m->terms[i].extent == 1) i--;
    if (i < 0 || m->terms[i].kind != TERM_LABEL) return false;
    int l = m->terms[i].label;
    return ein__map_has(&n->spec.operands[1 - operand], l) != ein__map_has(&n->spec.results[0], l);
}

static bool absorb(const graph *g, node *n, int operand, value *from, index_map *map)
{
    const node *permute = permute_of(g, n->operands[operand]);
    if (permute == NULL || n->kind == OP_MOVE || !permute_map(&n->spec.operands[operand], permute, map)) return false;
    if (n->product && !suits_product(n, operand, map)) return false;
    *from = permute->operands[0];
    return true;
}

static ein_status absorb_node(arena *a, const graph *g, node *n)
{
    for (int o = 0; o < n->spec.n_operands; o++) {
        index_map map, *maps;
        value from, *operands;
        while (absorb(g, n, o, &from, &map)) { /* a permute of a permute too */
            NEW(a, maps, n->spec.n_operands);
            NEW(a, operands, n->spec.n_operands);
            memcpy(maps, n->spec.operands, (size_t)n->spec.n_operands * sizeof *maps);
            memcpy(operands, n->operands, (size_t)n->spec.n_operands * sizeof *operands);
            maps[o] = map;
            operands[o] = from;
            n->spec.operands = maps;
            n->operands = operands;
        }
    }
    return EIN_OK;
}

ein_status ein__absorb_permutes(arena *a, const graph *g, graph *out)
{
    node *nodes;
    NEW(a, nodes, g->nodes.n);
    if (g->nodes.n > 0) memcpy(nodes, g->nodes.items, (size_t)g->nodes.n * sizeof *nodes);
    for (int i = 0; i < g->nodes.n; i++) TRY(absorb_node(a, g, &nodes[i]));
    *out = *g;
    out->nodes.items = nodes;
    return EIN_OK;
}
