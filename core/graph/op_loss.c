/* SPDX-License-Identifier: Apache-2.0 */
/* Cross entropy: the logarithm of the sum less the target's logit. The target is picked by comparing it with each
 * class' index, a sum of which at most one term is not 0; so the classes may be cut wherever they are. */
#include "core/graph/builder.h"

static ein_status check_targets(graph *g, const value *operands)
{
    dims logits = ein__dims(g, operands[0]), targets = ein__dims(g, operands[1]);
    ein_dtype dtype = g->values.items[operands[1]].dtype;
    TRY(ein__check_types(g, "cross_entropy", 1, operands, TYPE_FLOAT));
    if (dtype != EIN_I32 && dtype != EIN_I64)
        REFUSE(EIN_DTYPE, "cross_entropy: targets are %s, not i32 or i64", ein__dtype_name(dtype));
    bool same = logits.rank == targets.rank + 1;
    for (int i = 0; same && i < targets.rank; i++) same = logits.at[i] == targets.at[i];
    if (same) return EIN_OK;
    REFUSE(EIN_SHAPE, "cross_entropy: logits %s and targets %s differ in more than the classes",
           ein__dims_text(logits).s, ein__dims_text(targets).s);
}

/* A merge over the classes, of logits [.., k] and, if there are two operands, targets [..]. */
static ein_status add_fold(graph *g, const char *name, merge_kind kind, int n, const value *operands,
                           const char *const *bodies, value *out)
{
    node op;
    merge *m;
    dims d = ein__dims(g, operands[0]);
    ein_dtype dtype = ein__dtype_compute(g->values.items[operands[0]].dtype);
    TRY(ein__node_start(g, &op, OP_MAP, name, n, operands));
    spec *s = &op.spec;
    int classes = --d.rank;
    ein__label_dims(s, 'd', &d);
    op.indices[op.n_indices++] = ein__label_add(s, "k", d.at[classes]);
    ein__term_labels(s, &s->operands[0], 0, classes + 1);
    if (n > 1) ein__term_labels(s, &s->operands[1], 0, classes);
    ein__term_labels(s, &s->results[0], 0, classes);
    TRY(ein__merge_make(&g->arena, kind, 1, dtype, &m));
    s->merge = m;
    s->n_states = m->n_states;
    for (int k = 0; k < m->n_states; k++) {
        s->states[k] = s->results[0];
        TRY(ein__expr_make(g, name, bodies[k], n + 1, 0, NULL, &op.body[k]));
        s->flops += 1 + ein__expr_work(&op.body[k]);
    }
    return ein__node_add(g, &op, &d, &dtype, out);
}

static ein_status add_cross_entropy(graph *g, const value *operands, value *out)
{
    value parts[2];
    TRY(check_targets(g, operands));
    TRY(add_fold(g, "cross_entropy sum", MERGE_LOGSUMEXP, 1, operands, (const char *const[]){"x0", "1"}, &parts[0]));
    TRY(add_fold(g, "cross_entropy target", MERGE_SUM, 2, operands,
                 (const char *const[]){"where(x1 == x2, x0, 0)"}, &parts[1]));
    ein_dtype dtype = g->values.items[operands[0]].dtype;
    return ein__map_add(g, "cross_entropy", "x0 - x1", 2, parts, dtype, out);
}

ein_tensor ein__op_cross_entropy(ein_graph *g, ein_tensor logits, ein_tensor targets)
{
    if (!ein__call_begin(g, "cross_entropy", 2, (ein_tensor[]){logits, targets})) return (ein_tensor){0};
    value operands[] = {ein__value(logits), ein__value(targets)}, out = -1;
    return ein__call_end(g, "cross_entropy", add_cross_entropy(&g->g, operands, &out), &out);
}
