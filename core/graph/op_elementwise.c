/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise calls of one or two operands that are one expression. */
#include "core/graph/builder.h"

/* The type of a result: as ein_map's, the operands' common type, or bool. */
typedef enum result_rule { BY_EXPRESSION, COMMON, TRUTH } result_rule;

enum { NUMBER = TYPE_FLOAT | TYPE_INT };

static ein_status add_call(graph *g, const char *name, int classes, result_rule rule, const char *expression,
                           int n, const value *operands, value *out)
{
    TRY(ein__check_types(g, name, n, operands, classes));
    ein_dtype dtype = rule == TRUTH ? EIN_BOOL : rule == COMMON ? ein__promote(g, n, operands) : 0;
    return ein__map_add(g, name, expression, n, operands, dtype, out);
}

static ein_tensor one(ein_graph *g, const char *name, int classes, result_rule rule, const char *expression,
                      ein_tensor x)
{
    if (!ein__call_begin(g, name, 1, &x)) return (ein_tensor){0};
    value v = ein__value(x), out = -1;
    return ein__call_end(g, name, add_call(&g->g, name, classes, rule, expression, 1, &v, &out), &out);
}

static ein_tensor two(ein_graph *g, const char *name, int classes, result_rule rule, const char *expression,
                      ein_tensor a, ein_tensor b)
{
    if (!ein__call_begin(g, name, 2, (ein_tensor[]){a, b})) return (ein_tensor){0};
    value v[] = {ein__value(a), ein__value(b)}, out = -1;
    return ein__call_end(g, name, add_call(&g->g, name, classes, rule, expression, 2, v, &out), &out);
}

/* ---- arithmetic: of bools "or" and "and" ---- */

ein_tensor ein__op_add(ein_graph *g, ein_tensor a, ein_tensor b)
{
    return two(g, "add", TYPE_ANY, COMMON, "x0 + x1", a, b);
}

ein_tensor ein__op_sub(ein_graph *g, ein_tensor a, ein_tensor b)
{
    return two(g, "sub", NUMBER, COMMON, "x0 - x1", a, b);
}

ein_tensor ein__op_mul(ein_graph *g, ein_tensor a, ein_tensor b)
{
    return two(g, "mul", TYPE_ANY, COMMON, "x0 * x1", a, b);
}

ein_tensor ein__op_div(ein_graph *g, ein_tensor a, ein_tensor b)
{
    return two(g, "div", TYPE_ANY, BY_EXPRESSION, "x0 / x1", a, b);
}

ein_tensor ein__op_pow(ein_graph *g, ein_tensor a, ein_tensor b)
{
    return two(g, "pow", NUMBER, BY_EXPRESSION, "pow(x0, x1)", a, b);
}

ein_tensor ein__op_maximum(ein_graph *g, ein_tensor a, ein_tensor b)
{
    return two(g, "maximum", TYPE_ANY, COMMON, "max(x0, x1)", a, b);
}

ein_tensor ein__op_minimum(ein_graph *g, ein_tensor a, ein_tensor b)
{
    return two(g, "minimum", TYPE_ANY, COMMON, "min(x0, x1)", a, b);
}

ein_tensor ein__op_neg(ein_graph *g, ein_tensor x) { return one(g, "neg", NUMBER, COMMON, "-x0", x); }
ein_tensor ein__op_abs(ein_graph *g, ein_tensor x) { return one(g, "abs", TYPE_ANY, COMMON, "abs(x0)", x); }
ein_tensor ein__op_sign(ein_graph *g, ein_tensor x) { return one(g, "sign", TYPE_ANY, COMMON, "sign(x0)", x); }
ein_tensor ein__op_relu(ein_graph *g, ein_tensor x) { return one(g, "relu", NUMBER, COMMON, "relu(x0)", x); }

/* ---- roundings: an integer is round already ---- */

static ein_status add_rounding(graph *g, const char *name, const char *expression, value x, value *out)
{
    *out = x;
    TRY(ein__check_types(g, name, 1, &x, NUMBER));
    if (!ein__dtype_is_float(g->values.items[x].dtype)) return EIN_OK;
    return ein__map_add(g, name, expression, 1, &x, 0, out);
}

static ein_tensor rounding(ein_graph *g, const char *name, const char *expression, ein_tensor x)
{
    if (!ein__call_begin(g, name, 1, &x)) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, name, add_rounding(&g->g, name, expression, ein__value(x), &out), &out);
}

ein_tensor ein__op_floor(ein_graph *g, ein_tensor x) { return rounding(g, "floor", "floor(x0)", x); }
ein_tensor ein__op_ceil(ein_graph *g, ein_tensor x) { return rounding(g, "ceil", "ceil(x0)", x); }
ein_tensor ein__op_round(ein_graph *g, ein_tensor x) { return rounding(g, "round", "round(x0)", x); }

/* ---- functions: of integers f32 ---- */

static ein_tensor function(ein_graph *g, const char *name, const char *expression, ein_tensor x)
{
    return one(g, name, TYPE_ANY, BY_EXPRESSION, expression, x);
}

ein_tensor ein__op_exp(ein_graph *g, ein_tensor x) { return function(g, "exp", "exp(x0)", x); }
ein_tensor ein__op_log(ein_graph *g, ein_tensor x) { return function(g, "log", "log(x0)", x); }
ein_tensor ein__op_sqrt(ein_graph *g, ein_tensor x) { return function(g, "sqrt", "sqrt(x0)", x); }
ein_tensor ein__op_rsqrt(ein_graph *g, ein_tensor x) { return function(g, "rsqrt", "rsqrt(x0)", x); }
ein_tensor ein__op_reciprocal(ein_graph *g, ein_tensor x) { return function(g, "reciprocal", "1 / x0", x); }
ein_tensor ein__op_sin(ein_graph *g, ein_tensor x) { return function(g, "sin", "sin(x0)", x); }
ein_tensor ein__op_cos(ein_graph *g, ein_tensor x) { return function(g, "cos", "cos(x0)", x); }
ein_tensor ein__op_tanh(ein_graph *g, ein_tensor x) { return function(g, "tanh", "tanh(x0)", x); }
ein_tensor ein__op_sigmoid(ein_graph *g, ein_tensor x) { return function(g, "sigmoid", "sigmoid(x0)", x); }
ein_tensor ein__op_erf(ein_graph *g, ein_tensor x) { return function(g, "erf", "erf(x0)", x); }
ein_tensor ein__op_silu(ein_graph *g, ein_tensor x) { return function(g, "silu", "x0 * sigmoid(x0)", x); }

/* sqrt(1/2), sqrt(2/pi) */
ein_tensor ein__op_gelu(ein_graph *g, ein_tensor x, int tanh)
{
    const char *near = "0.5 * x0 * (1 + tanh(0.79788456080286536 * (x0 + 0.044715 * x0 * x0 * x0)))";
    return function(g, "gelu", tanh != 0 ? near : "0.5 * x0 * (1 + erf(x0 * 0.70710678118654752))", x);
}

/* ---- truth ---- */

static ein_tensor truth(ein_graph *g, const char *name, const char *expression, ein_tensor a, ein_tensor b)
{
    return two(g, name, TYPE_ANY, TRUTH, expression, a, b);
}

ein_tensor ein__op_eq(ein_graph *g, ein_tensor a, ein_tensor b) { return truth(g, "eq", "x0 == x1", a, b); }
ein_tensor ein__op_ne(ein_graph *g, ein_tensor a, ein_tensor b) { return truth(g, "ne", "x0 != x1", a, b); }
ein_tensor ein__op_lt(ein_graph *g, ein_tensor a, ein_tensor b) { return truth(g, "lt", "x0 < x1", a, b); }
ein_tensor ein__op_le(ein_graph *g, ein_tensor a, ein_tensor b) { return truth(g, "le", "x0 <= x1", a, b); }
ein_tensor ein__op_gt(ein_graph *g, ein_tensor a, ein_tensor b) { return truth(g, "gt", "x0 > x1", a, b); }
ein_tensor ein__op_ge(ein_graph *g, ein_tensor a, ein_tensor b) { return truth(g, "ge", "x0 >= x1", a, b); }

ein_tensor ein__op_logical_and(ein_graph *g, ein_tensor a, ein_tensor b)
{
    return truth(g, "logical_and", "and(x0, x1)", a, b);
}

ein_tensor ein__op_logical_or(ein_graph *g, ein_tensor a, ein_tensor b)
{
    return truth(g, "logical_or", "or(x0, x1)", a, b);
}

ein_tensor ein__op_logical_not(ein_graph *g, ein_tensor x)
{
    return one(g, "logical_not", TYPE_ANY, TRUTH, "not(x0)", x);
}
