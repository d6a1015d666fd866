/* SPDX-License-Identifier: Apache-2.0 */
/* Appends: rows go into a state, in place, at a position known in the run. Each block of the state takes the
 * rows whose position lies in it. */
#include "jit/family/parts.h"

static bool applicable(const job *j)
{
    return j->node->kind == OP_APPEND && j->mode == JOB_FINAL && j->n_in == 2 && j->n_out == 1;
}

static ein_status emit(arena *a, const job *j, launch *out, error *e)
{
    const node *x = j->node;
    int t = x->append_t, s = x->append_s;
    expr_node x0 = {.op = X_ARG};
    const expr body = {1, &x0};
    const shift rows = {.scalar = x->scalar, .first = j->box.lo[s] - j->box.lo[t], .n_rows = j->box.len[s],
                        .n_places = j->box.len[t], .row_stride = j->in[1].stride[s],
                        .place_stride = j->out[0].stride[t]};
    nest n = {.what = "append", .n_labels = x->spec.n_labels, .box = j->box, .n_in = 1, .in = &j->in[1],
              .n_out = 1, .out = &j->out[0], .last = &body, .everywhere = true, .shift = &rows};
    (void)e;
    n.box.len[s] = n.box.len[t] = 1;
    return ein__nest_emit(a, &n, 1, out);
}

const family ein__family_append = {"append", applicable, emit};
