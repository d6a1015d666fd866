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

/* The arguments' two-operand join of a statistic, and what it starts from. */
static statistic make(const row_stage *s, expr_node nodes[3], expr *combine)
{
    bool sum = s->kind == MERGE_SUM;
    nodes[0] = (expr_node){.op = X_ARG, .a = 0};
    nodes[1] = (expr_node){.op = X_ARG, .a = 1};
    nodes[2] = (expr_node){.op = sum ? X_ADD : X_MAX, .a = 0, .b = 1};
    *combine = (expr){3, nodes};
    return (statistic){&s->body, combine, sum ? 0.0 : -(double)__builtin_inff()};
}

static ein_status emit(arena *a, const job *j, launch *out, error *e)
{
    const node *x = j->node;
    expr_node nodes[MAX_STAGES][3];
    expr combine[MAX_STAGES];
    int given = j->mode == JOB_STAGE ? j->stage : j->mode == JOB_APPLY ? x->n_stages : 0;
    nest n = {.what = "row", .n_labels = x->spec.n_labels, .box = j->box, .aggregated = x->spec.two_step,
              .n_in = x->spec.n_operands + given, .in = j->in, .out = &j->out[0], .last = &x->body,
              .everywhere = true};
    (void)e;
    if (j->mode == JOB_FINAL) {
        n.n_statistics = x->n_stages;
        for (int k = 0; k < x->n_stages; k++) n.statistics[k] = make(&x->stages[k], nodes[k], &combine[k]);
    } else if (j->mode == JOB_STAGE) {
        n.what = "row statistic";
        n.n_statistics = 1;
        n.statistics[0] = make(&x->stages[j->stage], nodes[0], &combine[0]);
        n.last = NULL;
        n.everywhere = false;
    } else {
        n.what = "row apply";
        n.aggregated = 0;
    }
    return ein__nest_emit(a, &n, 1, out);
}

const family ein__family_row = {"row", applicable, emit};
