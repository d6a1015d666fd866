/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that need a statistic of a whole row before they can touch its elements: stages of statistics over the
 * row's label, then an expression. The label is two-step: cut, the pieces' statistics are exchanged, which is
 * little, and each piece is applied where it lies. */
#include "core/graph/builder.h"

#include <math.h>

/* Labels of x's dimensions on operand and result, the row's in two steps. */
static ein_status start_row(graph *g, node *op, const char *name, int n, const value *operands, int axis)
{
    dims d = ein__dims(g, operands[0]);
    TRY(ein__node_start(g, op, OP_ROW, name, n, operands));
    ein__label_dims(&op->spec, 'd', &d);
    ein__term_labels(&op->spec, &op->spec.operands[0], 0, d.rank);
    ein__term_labels(&op->spec, &op->spec.results[0], 0, d.rank);
    op->spec.two_step = 1u << axis;
    return EIN_OK;
}

static ein_status add_stage(graph *g, node *op, merge_kind kind, const char *source)
{
    row_stage *t = &op->stages[op->n_stages];
    merge *m;
    int n = op->spec.n_operands + ein__node_statistics(op, op->n_stages);
    TRY(ein__expr_make(g, op->name, source, n, 0, NULL, &t->body[0]));
    TRY(ein__merge_make(&g->arena, kind, 1.0, &m));
    t->merge = m;
    op->n_stages++;
    op->spec.flops += 1 + ein__expr_work(&t->body[0]);
    return EIN_OK;
}

static ein_status finish_row(graph *g, node *op, const char *source, int n, const double *constants,
                             value *out)
{
    dims d = ein__dims(g, op->operands[0]);
    int statistics = ein__node_statistics(op, op->n_stages);
    TRY(ein__expr_make(g, op->name, source, op->spec.n_operands + statistics, n, constants, &op->body[0]));
    op->spec.flops += ein__expr_work(&op->body[0]);
    return ein__node_add(g, op, &d, NULL, out);
}

/* A row of -inf alone gives NaN, as in PyTorch. */
static ein_status add_softmax(graph *g, value x, int axis, value *out)
{
    node op;
    int rank = g->values.items[x].rank;
    TRY(ein__check_types(g, "softmax", 1, &x, TYPE_F32));
    TRY(ein__check_axis(g, "softmax", rank, axis, &axis));
    TRY(start_row(g, &op, "softmax", 1, &x, axis));
    TRY(add_stage(g, &op, MERGE_MAX, "x0"));
    TRY(add_stage(g, &op, MERGE_SUM, "exp(x0 - x1)"));
    return finish_row(g, &op, "exp(x0 - x1) / x2", 0, NULL, out);
}

ein_tensor ein_softmax(ein_graph *g, ein_tensor x, int axis)
{
    if (!ein__call_begin(g, "softmax", 1, &x)) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "softmax", add_softmax(&g->g, ein__value(x), axis, &out), &out);
}

static ein_status check_norm(graph *g, int n, const value *operands, double eps)
{
    dims x = ein__dims(g, operands[0]), w = ein__dims(g, operands[n - 1]);
    TRY(ein__check_types(g, "rms_norm", n, operands, TYPE_F32));
    if (x.rank == 0) REFUSE(EIN_SHAPE, "rms_norm: x is a scalar");
    if (!isfinite(eps) || eps < 0) REFUSE(EIN_INVALID, "rms_norm: eps is %g", eps);
    if (n == 2 && (w.rank != 1 || w.at[0] != x.at[x.rank - 1]))
        REFUSE(EIN_SHAPE, "rms_norm: x %s and weight %s disagree on the last axis", ein__dims_text(x).s,
               ein__dims_text(w).s);
    return EIN_OK;
}

static ein_status add_rms_norm(graph *g, int n, const value *operands, double eps, value *out)
{
    node op;
    dims d = ein__dims(g, operands[0]);
    TRY(check_norm(g, n, operands, eps));
    double constants[] = {(double)d.at[d.rank - 1], eps};
    TRY(start_row(g, &op, "rms_norm", n, operands, d.rank - 1));
    TRY(add_stage(g, &op, MERGE_SUM, "x0 * x0"));
    if (n == 1) return finish_row(g, &op, "x0 * rsqrt(x1 / x2 + x3)", 2, constants, out);
    ein__term_label(&op.spec, &op.spec.operands[1], d.rank - 1);
    return finish_row(g, &op, "x0 * rsqrt(x2 / x3 + x4) * x1", 2, constants, out);
}

ein_tensor ein_rms_norm(ein_graph *g, ein_tensor x, ein_tensor weight, double eps)
{
    ein_tensor operands[] = {x, weight};
    int n = weight.id != 0 ? 2 : 1;
    if (!ein__call_begin(g, "rms_norm", n, operands)) return (ein_tensor){0};
    value v[] = {ein__value(x), ein__value(weight)}, out = -1;
    return ein__call_end(g, "rms_norm", add_rms_norm(&g->g, n, v, eps, &out), &out);
}
