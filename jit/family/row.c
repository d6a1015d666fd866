/* SPDX-License-Identifier: Apache-2.0 */
/* Rows: statistics along the two-step labels, then an expression of the operands and the statistics at every
 * point: softmax, RMSNorm, layer norm. Whole, a block keeps to one row and reads it once for each stage and once
 * more; rows are short enough to stay in the cache between. Cut along the row, it runs as one kernel for each
 * stage and one that applies the statistics. */
#include "jit/family/parts.h"

static bool applicable(const job *j)
{
    const node *x = j->node;
    if (x->kind != OP_ROW || j->mode == JOB_STATES || ein__node_statistics(x, x->n_stages) > MAX_STATISTICS) return false;
    return j->n_out == (j->mode == JOB_STAGE ? x->stages[j->stage].merge->n_states : 1);
}

static statistic make(const row_stage *s) { return (statistic){s->merge, s->body}; }

static ein_status emit(arena *a, const job *j, launch *out, error *e)
{
    const node *x = j->node;
    nest n = {.what = "row", .n_labels = x->spec.n_labels, .box = j->box, .aggregated = x->spec.two_step,
              .n_out = j->n_out, .out = j->out, .last = x->body, .everywhere = true};
    (void)e;
    TRY(ein__job_inputs(a, j, &n.in, &n.n_in));
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
