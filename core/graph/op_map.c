/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise ops: a label per dimension of the result; an operand's extent of 1 that broadcasts is a fixed
 * index, so a cut never reaches it. */
#include "core/graph/builder.h"

ein_status ein__map_add(graph *g, const char *name, const char *expression, int n, const value *operands,
                        value *out)
{
    node op;
    dims shapes[MAX_CALL_OPERANDS], result;
    TRY(ein__check_types(g, name, n, operands, TYPE_F32));
    for (int i = 0; i < n; i++) shapes[i] = ein__dims(g, operands[i]);
    TRY(ein__broadcast(g, name, n, shapes, &result));
    TRY(ein__node_start(g, &op, OP_MAP, name, n, operands));
    spec *s = &op.spec;
    int first = ein__label_dims(s, 'd', &result);
    for (int i = 0; i < n; i++) ein__term_broadcast(s, &s->operands[i], &shapes[i], &result, first);
    ein__term_labels(s, &s->results[0], first, result.rank);
    TRY(ein__expr_make(g, name, expression, n, 0, NULL, &op.body[0]));
    s->flops = ein__expr_work(&op.body[0]);
    return ein__node_add(g, &op, &result, NULL, out);
}

static ein_tensor map(ein_graph *g, const char *name, const char *expression, int n,
                      const ein_tensor *operands)
{
    if (!ein__call_begin(g, name, n, operands)) return (ein_tensor){0};
    value v[MAX_CALL_OPERANDS], out = -1;
    for (int i = 0; i < n; i++) v[i] = ein__value(operands[i]);
    return ein__call_end(g, name, ein__map_add(&g->g, name, expression, n, v, &out), &out);
}

ein_tensor ein_map(ein_graph *g, const char *expression, int n, const ein_tensor *operands)
{
    return map(g, "map", expression, n, operands);
}

ein_tensor ein_add(ein_graph *g, ein_tensor a, ein_tensor b)
{
    return map(g, "add", "x0 + x1", 2, (ein_tensor[]){a, b});
}

ein_tensor ein_sub(ein_graph *g, ein_tensor a, ein_tensor b)
{
    return map(g, "sub", "x0 - x1", 2, (ein_tensor[]){a, b});
}

ein_tensor ein_mul(ein_graph *g, ein_tensor a, ein_tensor b)
{
    return map(g, "mul", "x0 * x1", 2, (ein_tensor[]){a, b});
}

ein_tensor ein_div(ein_graph *g, ein_tensor a, ein_tensor b)
{
    return map(g, "div", "x0 / x1", 2, (ein_tensor[]){a, b});
}

ein_tensor ein_relu(ein_graph *g, ein_tensor x) { return map(g, "relu", "relu(x0)", 1, &x); }
ein_tensor ein_silu(ein_graph *g, ein_tensor x) { return map(g, "silu", "x0 * sigmoid(x0)", 1, &x); }
