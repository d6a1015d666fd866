/* SPDX-License-Identifier: Apache-2.0 */
/* Rows: statistics along the two-step labels, then an expression of the operands and the statistics at every
 * point: softmax, RMSNorm. Whole, a block keeps to one row and reads it once for each statistic and once
 * more; rows are short enough to stay in the cache between. Cut along the row, it runs as one kernel for each
 * statistic and one that applies them. */
#include "jit/family/parts.h"

static bool applicable(const job *j)
{
    return j->node->kind == OP_ROW && j->mode != JOB_STATES && j->n_out == 1;
}

static statistic make(const row_stage *s)
{
    return (statistic){&s->body[0], &s->merge->combine[0], s->merge->identity[0]};
}

static ein_status emit(arena *a, const job *j, launch *out, error *e)
{
    const node *x = j->node;
    int given = j->mode == JOB_STAGE ? j->stage : j->mode == JOB_APPLY ? x->n_stages : 0;
    nest n = {.what = "row", .n_labels = x->spec.n_labels, .box = j->box, .aggregated = x->spec.two_step,
              .n_in = x->spec.n_operands + given, .in = j->in, .out = &j->out[0], .last = &x->body[0],
              .everywhere = true};
    (void)e;
    if (j->mode == JOB_FINAL) {
        n.n_statistics = x->n_stages;
        for (int k = 0; k < x->n_stages; k++) n.statistics[k] = make(&x->stages[k]);
    } else if (j->mode == JOB_STAGE) {
        n.what = "row statistic";
        n.n_statistics = 1;
        n.statistics[0] = make(&x->stages[j->stage]);
        n.last = NULL;
        n.everywhere = false;
    } else {
        n.what = "row apply";
        n.aggregated = 0;
    }
    return ein__nest_emit(a, &n, 1, out);
}

const family ein__family_row = {"row", applicable, emit};
