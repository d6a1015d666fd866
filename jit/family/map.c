/* SPDX-License-Identifier: Apache-2.0 */
/* Maps: any expression of broadcast operands, merged by a one-state merge over the labels that the result
 * lacks. Elementwise ops, rotary embeddings, sums, maxima, means, and the products that no matrix library
 * takes. */
#include "jit/family/parts.h"

static bool applicable(const job *j)
{
    const merge *m = j->node->spec.merge;
    return j->node->kind == OP_MAP && (j->mode == JOB_FINAL || j->mode == JOB_STATES) && j->n_out == 1 &&
           j->n_in < MAX_OPERANDS + MAX_STATISTICS && (m == NULL || m->n_states == 1);
}

static ein_status emit(arena *a, const job *j, launch *out, error *e)
{
    const spec *s = &j->node->spec;
    const merge *m = s->merge;
    nest n = {.what = "map", .n_labels = s->n_labels, .box = j->box, .n_in = j->n_in, .in = j->in,
              .out = &j->out[0], .last = &j->node->body[0], .everywhere = true};
    (void)e;
    if (m != NULL) {
        n.aggregated = ein__spec_aggregated(s);
        n.n_statistics = 1;
        n.statistics[0] = (statistic){&j->node->body[0], &m->combine[0], m->identity[0]};
        n.last = j->mode == JOB_FINAL && m->finalize[0].n > 0 ? &m->finalize[0] : NULL;
        n.everywhere = false;
    }
    return ein__nest_emit(a, &n, 1, out);
}

const family ein__family_map = {"map", applicable, emit};
