/* SPDX-License-Identifier: Apache-2.0 */
/* Data parallelism: every op by the first dimension of the inputs, the batch, all weights on all devices. A batch of
 * fewer than the devices is cut in as many parts as it has; neighbours then do the same.
 * With gathered weights a device keeps an equal run of every weight, and gathers the rest where it is used: before the
 * op, not behind an earlier one. */
#include "optimizer/price.h"
#include "optimizer/rival.h"

enum { SMALLEST = 64 << 10 }; /* bytes of a weight that is worth gathering */

/* Inputs' and states' first dimension, and what follows from it. */
static ein_status trace_batch(const draft *d, factor **of)
{
    const graph *g = d->g;
    NEW(d->a, *of, g->values.n);
    for (int i = 0; i < g->leaves.n; i++) {
        const leaf *l = &g->leaves.items[i];
        const value_info *v = &g->values.items[l->value];
        if ((l->kind != LEAF_INPUT && l->kind != LEAF_STATE) || v->rank == 0 || v->shape[0] < 2) continue;
        (*of)[l->value] = (factor){ein__value_numel(g, l->value) / v->shape[0], v->shape[0]};
    }
    return ein__draft_trace(d, *of);
}

static ein_status make(draft *d, plan *out, const char **why_not)
{
    factor *of;
    (void)why_not;
    TRY(trace_batch(d, &of));
    for (int i = 0; i < d->g->nodes.n; i++) {
        const node *n = &d->g->nodes.items[i];
        covering c;
        bool done;
        if (ein__node_is_view(n)) continue;
        ein__cover(d, i, &n->spec.results[0], of[n->results[0]], ANY, &c);
        TRY(ein__draft_cut(d, i, &c, false, &done));
    }
    return ein__draft_finish(d, out);
}

static ein_status make_gathered(draft *d, plan *out, const char **why_not)
{
    TRY(make(d, out, why_not));
    for (int i = 0; i < d->g->leaves.n; i++) {
        const leaf *l = &d->g->leaves.items[i];
        i64 numel = ein__value_numel(d->g, l->value);
        if (l->kind == LEAF_PARAMETER && numel * ein__dtype_bytes(d->g->values.items[l->value].dtype) >= SMALLEST)
            TRY(ein__even_relation(d->a, numel, d->n_devices, &out->leaves[i]));
    }
    return EIN_OK;
}

const rival ein__rival_data = {"data_parallel", make, 0};
const rival ein__rival_data_gathered = {"data_parallel_gathered", make_gathered, 0};
