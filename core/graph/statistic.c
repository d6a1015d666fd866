/* SPDX-License-Identifier: Apache-2.0 */
/* The two-step form of row ops: each statistic as an aggregation of its own. */
#include "core/graph/graph.h"

ein_status ein__statistic_spec(arena *a, const node *n, int stage, spec *out)
{
    const index_map *whole = &n->spec.results[0];
    merge *m;
    *out = n->spec;
    out->results[0].n = 0;
    for (int i = 0; i < whole->n; i++)
        if ((n->spec.two_step >> whole->terms[i].label & 1) == 0)
            out->results[0].terms[out->results[0].n++] = whole->terms[i];
    out->states[0] = out->results[0];
    out->n_states = out->n_results = 1;
    out->two_step = 0;
    TRY(ein__merge_make(a, n->stages[stage].kind, 1.0, &m));
    out->merge = m;
    return EIN_OK;
}
