/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor parallelism after Megatron: a product with a weight is cut by the weight's own outputs; what follows stays cut
 * as long as it can be (heads through rotation, caches and attention; hidden features through the activation), up to the
 * product that sums over it, whose partials are then joined. A table that is looked up is cut by its rows. All else is
 * done by every device.
 * With sequence parallelism all else is cut by positions (Korthikanti et al., "Reducing Activation Recomputation in
 * Large Transformer Models"). With a library's latency a step takes 12 us. */
#include "optimizer/rival.h"

#define LIBRARY_STEP 12e-6

/* Labels of one role, the first one's; none if it cannot be cut without more ado. */
static void keep_one_role(const spec *s, covering *c)
{
    role first = c->n > 0 ? ein__spec_role(s, c->labels[0]) : ROLE_WHOLE;
    int n = 0;
    while (n < c->n && ein__spec_role(s, c->labels[n]) == first && (first == ROLE_PARALLEL || first == ROLE_AGGREGATED)) n++;
    c->n = n;
}

/* Cut as an operand is cut. */
static ein_status follow(draft *d, int i, factor *cut, bool *done)
{
    const node *n = &d->g->nodes.items[i];
    const spec *s = &n->spec;
    *done = false;
    for (int o = 0; o < s->n_operands && !*done; o++) {
        covering c;
        factor f = cut[ein__value_source(d->g, n->operands[o])];
        if (f.extent == 0) continue;
        ein__cover(d, i, &s->operands[o], f, LIKED, &c);
        keep_one_role(s, &c);
        TRY(ein__draft_cut(d, i, &c, false, done));
        for (int r = 0; r < s->n_results && *done; r++) cut[n->results[r]] = ein__factor_of(&s->results[r], &c);
    }
    return EIN_OK;
}

static bool of_activations(const draft *d, const node *n, int label)
{
    for (int o = 0; o < n->spec.n_operands; o++)
        if (d->activation[n->operands[o]] && ein__map_has(&n->spec.operands[o], label)) return true;
    return false;
}

/* Does the op read a weight and an activation? The weight's own label with the most values, or -1. */
static int own_label(const draft *d, const node *n)
{
    const spec *s = &n->spec;
    int best = -1;
    for (int o = 0; o < s->n_operands; o++) {
        if (d->activation[n->operands[o]]) continue;
        for (int l = 0; l < s->n_labels; l++) {
            bool cuts = ein__map_has(&s->operands[o], l) && !s->labels[l].whole && s->labels[l].extent > 1;
            if (cuts && !of_activations(d, n, l) && (best < 0 || s->labels[l].extent > s->labels[best].extent)) best = l;
        }
    }
    return d->activation[n->results[0]] ? best : -1;
}

/* `heads`: what becomes heads is cut at them; with fewer heads than devices, neighbours have the same. */
static ein_status cut_weight(draft *d, int i, const factor *heads, factor *cut, bool *done)
{
    const node *n = &d->g->nodes.items[i];
    covering c;
    int l = own_label(d, n);
    *done = false;
    if (l < 0) return EIN_OK;
    ein__cover(d, i, &n->spec.results[0], heads[n->results[0]], LIKED, &c);
    if (c.n != 1 || c.labels[0] != l) ein__cover_label(d, i, l, LIKED, &c);
    TRY(ein__draft_cut(d, i, &c, false, done));
    for (int r = 0; r < n->spec.n_results && *done; r++) cut[n->results[r]] = ein__factor_of_label(&n->spec.results[r], l);
    return EIN_OK;
}

static ein_status draft_plan(draft *d, bool sequence, plan *out, const char **why_not)
{
    factor *cut, *heads, *positions = NULL;
    bool any = false;
    NEW(d->a, cut, d->g->values.n);
    TRY(ein__draft_heads(d, &heads));
    if (sequence) TRY(ein__draft_sequence(d, &positions));
    for (int i = 0; i < d->g->nodes.n; i++) {
        const node *n = &d->g->nodes.items[i];
        covering c;
        bool done;
        if (ein__node_is_view(n)) continue;
        TRY(follow(d, i, cut, &done));
        if (!done) {
            TRY(cut_weight(d, i, heads, cut, &done));
            any = any || done;
        }
        if (done || !sequence) continue;
        ein__cover(d, i, &n->spec.results[0], positions[n->results[0]], ANY, &c);
        TRY(ein__draft_cut(d, i, &c, false, &done));
    }
    if (!any) *why_not = "there is no weight to cut";
    return any ? ein__draft_finish(d, out) : EIN_OK;
}

static ein_status make(draft *d, plan *out, const char **why_not) { return draft_plan(d, false, out, why_not); }

static ein_status make_sp(draft *d, plan *out, const char **why_not) { return draft_plan(d, true, out, why_not); }

const rival ein__rival_tensor = {"tensor_parallel", make, 0};
const rival ein__rival_tensor_sp = {"tensor_parallel_sp", make_sp, 0};
const rival ein__rival_tensor_library = {"tensor_parallel_library", make, LIBRARY_STEP};
