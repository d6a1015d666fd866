/* SPDX-License-Identifier: Apache-2.0 */
/* All ops by positions, all weights on all devices. Context parallelism keeps attention so: queries are cut, keys and
 * values gathered; under a causal mask in 2 p parts, device i with part i from each end, so that all see as many keys, or
 * in p parts where that is cheaper (an op on two parts reads its weights twice).
 * A cache of keys is cut by its positions instead, and the partial attentions are merged. Head/sequence parallelism goes
 * to heads for attention, and back, by two all-to-alls (Jacobs et al., "DeepSpeed Ulysses"); caches lie by heads. */
#include "optimizer/rival.h"

static const char NO_ATTENTION[] = "there is no attention";

/* Are attention's keys in a state? */
static bool has_cache(const draft *d, const node *n)
{
    const value_info *v = &d->g->values.items[ein__value_source(d->g, n->operands[1])];
    return v->kind == VALUE_LEAF || (v->kind == VALUE_RESULT && d->g->nodes.items[v->owner].kind == OP_APPEND);
}

static ein_status by_positions(draft *d, bool zigzag, plan *out)
{
    factor *positions;
    TRY(ein__draft_sequence(d, &positions));
    for (int i = 0; i < d->g->nodes.n; i++) {
        const node *n = &d->g->nodes.items[i];
        covering c;
        bool done;
        if (ein__node_is_view(n)) continue;
        ein__cover(d, i, &n->spec.results[0], positions[n->results[0]], ANY, &c);
        if (n->kind == OP_ATTENTION && has_cache(d, n)) ein__cover_label(d, i, ATT_T, ANY, &c);
        if (n->kind == OP_APPEND) ein__cover_label(d, i, n->append_t, ANY, &c);
        TRY(ein__draft_cut(d, i, &c, zigzag, &done));
    }
    return ein__draft_finish(d, out);
}

static ein_status make_context(draft *d, plan *out, const char **why_not)
{
    int first = ein__draft_attention(d);
    plan folded;
    draft other = *d;
    if (first < 0) *why_not = NO_ATTENTION;
    if (first < 0) return EIN_OK;
    TRY(by_positions(d, false, out));
    if (!d->g->nodes.items[first].attention.causal || has_cache(d, &d->g->nodes.items[first])) return EIN_OK;
    TRY(ein__draft_make(&other));
    TRY(by_positions(&other, true, &folded));
    TRY(ein__rival_price(d, 0, out));
    TRY(ein__rival_price(d, 0, &folded));
    if (folded.predicted_us < out->predicted_us) *out = folded;
    return EIN_OK;
}

static ein_status make_heads(draft *d, plan *out, const char **why_not)
{
    factor *positions, *heads;
    if (ein__draft_attention(d) < 0) *why_not = NO_ATTENTION;
    if (*why_not != NULL) return EIN_OK;
    TRY(ein__draft_sequence(d, &positions));
    TRY(ein__draft_heads(d, &heads));
    for (int i = 0; i < d->g->nodes.n; i++) {
        const node *n = &d->g->nodes.items[i];
        covering c, groups;
        bool done;
        if (ein__node_is_view(n)) continue;
        if (n->kind == OP_APPEND) ein__cover(d, i, &n->spec.results[0], heads[n->results[0]], LIKED, &c);
        else ein__cover(d, i, &n->spec.results[0], positions[n->results[0]], ANY, &c);
        if (n->kind == OP_ATTENTION) {
            ein__cover_label(d, i, ATT_H, LIKED, &c);
            ein__cover_label(d, i, ATT_G, LIKED, &groups);
            for (int k = 0; k < groups.n; k++) {
                c.labels[c.n] = groups.labels[k];
                c.units[c.n] = groups.units[k];
                c.under[c.n++] = groups.under[k];
            }
        }
        TRY(ein__draft_cut(d, i, &c, false, &done));
    }
    return ein__draft_finish(d, out);
}

const rival ein__rival_context = {"context_parallel", make_context, 0};
const rival ein__rival_heads = {"head_sequence", make_heads, 0};
