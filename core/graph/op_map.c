/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise nodes: a label per dimension of the result; an operand's extent of 1 that broadcasts is a fixed
 * index, so a cut never reaches it. The calls that are an expression and no more are in op_elementwise.c. */
#include "core/graph/builder.h"

#include <math.h>

/* What ein_map gives: the operands' common type; f32 where that is an integer and the expression is not. Bools are
 * numbers 0 and 1 here, so what is made of bools alone is an integer. */
static ein_dtype type_of(const graph *g, const map_call *c, const expr *body)
{
    ein_dtype types[MAX_CALL_OPERANDS + MAX_INDICES];
    for (int i = 0; i < c->n; i++) types[i] = ein__dtype_compute(g->values.items[c->operands[i]].dtype);
    for (int i = 0; i < c->n_indices; i++) types[c->n + i] = EIN_I64;
    ein_dtype common = ein__promote(g, c->n, c->operands), type = ein__expr_type(body, types);
    if (ein__dtype_is_float(common)) return common;
    if (type == EIN_F32) return EIN_F32;
    return common == EIN_BOOL ? EIN_I64 : common;
}

ein_status ein__map_make(graph *g, const map_call *c, value *out)
{
    node op;
    dims shapes[MAX_CALL_OPERANDS], result;
    for (int i = 0; i < c->n; i++) shapes[i] = ein__dims(g, c->operands[i]);
    TRY(ein__broadcast(g, c->name, c->n, shapes, &result));
    TRY(ein__node_start(g, &op, OP_MAP, c->name, c->n, c->operands));
    spec *s = &op.spec;
    int first = ein__label_dims(s, 'd', &result);
    for (int i = 0; i < c->n; i++) ein__term_broadcast(s, &s->operands[i], &shapes[i], &result, first);
    ein__term_labels(s, &s->results[0], first, result.rank);
    op.n_indices = c->n_indices;
    for (int i = 0; i < c->n_indices; i++) op.indices[i] = first + c->indices[i];
    TRY(ein__expr_make(g, c->name, c->expression, c->n + c->n_indices, c->n_constants, c->constants, &op.body[0]));
    s->flops = ein__expr_work(&op.body[0]);
    ein_dtype dtype = c->result != 0 ? c->result : type_of(g, c, &op.body[0]);
    return ein__node_add(g, &op, &result, &dtype, out);
}

ein_status ein__map_add(graph *g, const char *name, const char *expression, int n, const value *operands,
                        ein_dtype result, value *out)
{
    map_call c = {.name = name, .expression = expression, .n = n, .operands = operands, .result = result};
    return ein__map_make(g, &c, out);
}

ein_tensor ein__op_map(ein_graph *g, const char *expression, int n, const ein_tensor *operands)
{
    if (!ein__call_begin(g, "map", n, operands)) return (ein_tensor){0};
    value v[MAX_CALL_OPERANDS], out = -1;
    for (int i = 0; i < n; i++) v[i] = ein__value(operands[i]);
    return ein__call_end(g, "map", ein__map_add(&g->g, "map", expression, n, v, 0, &out), &out);
}

/* ---- where ---- */

ein_tensor ein__op_where(ein_graph *g, ein_tensor condition, ein_tensor a, ein_tensor b)
{
    if (!ein__call_begin(g, "where", 3, (ein_tensor[]){condition, a, b})) return (ein_tensor){0};
    value v[] = {ein__value(condition), ein__value(a), ein__value(b)}, out = -1;
    ein_dtype dtype = ein__promote(&g->g, 2, v + 1);
    return ein__call_end(g, "where", ein__map_add(&g->g, "where", "where(x0, x1, x2)", 3, v, dtype, &out), &out);
}

/* ---- clamp ---- */

/* As PyTorch, the upper bound comes last. An integer stays one: its bounds are the integers inside. */
static ein_status add_clamp(graph *g, value x, double lo, double hi, value *out)
{
    ein_dtype dtype = g->values.items[x].dtype;
    TRY(ein__check_types(g, "clamp", 1, &x, TYPE_FLOAT | TYPE_INT));
    if (isnan(lo) || isnan(hi)) REFUSE(EIN_INVALID, "clamp: bounds %g and %g", lo, hi);
    if (!ein__dtype_is_float(dtype)) {
        lo = ceil(lo);
        hi = floor(hi);
    }
    bool below = lo > -INFINITY, above = hi < INFINITY;
    const char *expression = below && above ? "min(max(x0, x1), x2)" : below ? "max(x0, x1)" : "min(x0, x2)";
    map_call c = {.name = "clamp", .expression = expression, .n = 1, .operands = &x, .n_constants = 2,
                  .constants = (double[]){lo, hi}, .result = dtype};
    *out = x;
    return below || above ? ein__map_make(g, &c, out) : EIN_OK;
}

ein_tensor ein__op_clamp(ein_graph *g, ein_tensor x, double lo, double hi)
{
    if (!ein__call_begin(g, "clamp", 1, &x)) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "clamp", add_clamp(&g->g, ein__value(x), lo, hi, &out), &out);
}

/* ---- cast ---- */

/* x to an integer type that does not hold all of its numbers, by its bounds. */
static ein_status add_saturated(graph *g, value x, ein_dtype dtype, value *out)
{
    double most = dtype == EIN_I8 ? INT8_MAX : INT32_MAX;
    map_call c = {.name = "cast", .expression = "min(max(x0, x1), x2)", .n = 1, .operands = &x, .n_constants = 2,
                  .constants = (double[]){-most - 1, most}, .result = dtype};
    return ein__map_make(g, &c, out);
}

ein_status ein__cast_add(graph *g, value x, ein_dtype dtype, value *out)
{
    ein_dtype from = g->values.items[x].dtype;
    bool to_integer = ein__dtype_is_float(from) && ein__dtype_compute(dtype) == EIN_I64;
    *out = x;
    if (from == dtype) return EIN_OK;
    if (dtype == EIN_BOOL) return ein__map_add(g, "cast", "x0 != 0", 1, &x, dtype, out);
    if (!to_integer || dtype == EIN_I64) return ein__map_add(g, "cast", "x0", 1, &x, dtype, out);
    /* 2^31 - 1 is no f32: such a bound is kept among i64. */
    if (dtype == EIN_I32 && ein__dtype_compute(from) == EIN_F32)
        TRY(ein__map_add(g, "cast", "x0", 1, &x, EIN_I64, &x));
    return add_saturated(g, x, dtype, out);
}

static ein_status add_cast(graph *g, value x, ein_dtype dtype, value *out)
{
    if (ein__dtype_built(dtype)) return ein__cast_add(g, x, dtype, out);
    if (ein__dtype_name(dtype)[0] == '?') REFUSE(EIN_DTYPE, "cast: %d is no dtype", (int)dtype);
    REFUSE(EIN_DTYPE, "cast: %s is reserved, not built yet", ein__dtype_name(dtype));
}

ein_tensor ein__op_cast(ein_graph *g, ein_tensor x, ein_dtype dtype)
{
    if (!ein__call_begin(g, "cast", 1, &x)) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "cast", add_cast(&g->g, ein__value(x), dtype, &out), &out);
}
