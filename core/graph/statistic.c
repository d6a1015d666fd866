/* SPDX-License-Identifier: Apache-2.0 */
/* The two-step form of row ops: the statistics of each stage as an aggregation of its own. */
#include "core/graph/graph.h"

#include <string.h>

int ein__node_statistics(const node *n, int stage)
{
    int count = 0;
    for (int i = 0; i < stage; i++) count += n->stages[i].merge->n_states;
    return count;
}

/* The stage's merge without finalizers: its results are its states. */
static ein_status states_merge(arena *a, const merge *from, const merge **out)
{
    merge *m;
    NEW(a, m, 1);
    *m = *from;
    m->n_results = m->n_states;
    memset(m->finalize, 0, sizeof m->finalize);
    *out = m;
    return EIN_OK;
}

ein_status ein__statistic_spec(arena *a, const node *n, int stage, spec *out)
{
    const index_map *whole = &n->spec.results[0];
    index_map row = {0};
    *out = n->spec;
    for (int i = 0; i < whole->n; i++)
        if ((n->spec.two_step >> whole->terms[i].label & 1) == 0) row.terms[row.n++] = whole->terms[i];
    out->n_states = out->n_results = n->stages[stage].merge->n_states;
    for (int k = 0; k < out->n_states; k++) out->results[k] = out->states[k] = row;
    out->two_step = 0;
    return states_merge(a, n->stages[stage].merge, &out->merge);
}
