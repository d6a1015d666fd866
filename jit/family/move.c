/* SPDX-License-Identifier: Apache-2.0 */
/* Moves: the same elements under another index map. Every operand covers a part of the box (a concatenation's
 * operands split it between them); a copy of each part, all in one kernel. */
#include "jit/family/parts.h"

static bool applicable(const job *j)
{
    return j->node->kind == OP_MOVE && j->mode == JOB_FINAL && j->n_in >= 1 && j->n_in <= MAX_OPERANDS &&
           j->n_out == 1;
}

/* Restrict box and views to what operand i covers; false if that is nothing. */
static bool restrict_to(const job *j, int i, nest *n, view *in, view *out)
{
    *in = j->in[i];
    *out = j->out[0];
    for (int l = 0; l < j->node->spec.n_labels; l++) {
        i64 lo = in->range_lo[l], hi = in->range_hi[l];
        n->box.len[l] = hi > lo ? hi - lo : 0;
        in->offset += lo * in->stride[l];
        out->offset += lo * out->stride[l];
    }
    return !ein__box_empty(&n->box, j->node->spec.n_labels, 0);
}

static ein_status emit(arena *a, const job *j, launch *out, error *e)
{
    nest *nests;
    view *views;
    int n = 0;
    expr_node x0 = {.op = X_ARG};
    const expr body = {1, &x0};
    (void)e;
    NEW(a, nests, j->n_in);
    NEW(a, views, 2 * j->n_in);
    for (int i = 0; i < j->n_in; i++) {
        nests[n] = (nest){.what = "move", .n_labels = j->node->spec.n_labels, .n_in = 1, .in = &views[2 * n],
                          .n_out = 1, .out = &views[2 * n + 1], .last = &body, .everywhere = true};
        if (restrict_to(j, i, &nests[n], &views[2 * n], &views[2 * n + 1])) n++;
    }
    return ein__nest_emit(a, nests, n > 0 ? n : 1, out); /* none: the last, of no blocks */
}

const family ein__family_move = {"move", applicable, emit};
