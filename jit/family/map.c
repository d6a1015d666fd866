/* SPDX-License-Identifier: Apache-2.0 */
/* Maps: any expression of broadcast operands and indices, merged over the labels that the results lack.
 * Elementwise ops, rotary embeddings, sums, maxima, means, the index of a maximum, and the products that no matrix
 * library takes. */
#include "jit/family/parts.h"

static bool applicable(const job *j)
{
    const merge *m = j->node->spec.merge;
    int n = j->mode == JOB_STATES && m != NULL ? m->n_states : m != NULL ? m->n_results : 1;
    return j->node->kind == OP_MAP && (j->mode == JOB_FINAL || j->mode == JOB_STATES) && j->n_out == n &&
           j->n_in + j->node->n_indices <= MAX_INPUTS;
}

static ein_status emit(arena *a, const job *j, launch *out, error *e)
{
    const spec *s = &j->node->spec;
    const merge *m = s->merge;
    nest n = {.what = "map", .n_labels = s->n_labels, .box = j->box, .n_out = j->n_out, .out = j->out,
              .last = j->node->body, .everywhere = true};
    (void)e;
    TRY(ein__job_inputs(a, j, &n.in, &n.n_in));
    if (m != NULL) {
        n.aggregated = ein__spec_aggregated(s);
        n.n_statistics = 1;
        n.statistics[0] = (statistic){m, j->node->body};
        n.last = j->mode == JOB_FINAL ? m->finalize : NULL;
        n.everywhere = false;
    }
    return ein__nest_emit(a, &n, 1, out);
}

const family ein__family_map = {"map", applicable, emit};
