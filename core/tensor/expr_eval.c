/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluating a tree on the host. In one float type throughout, or with every node in the type that its printed
 * text computes it in. */
#include "core/tensor/expr.h"

#include <math.h>

#include "core/tensor/expr_words.h"

/* ---- floats ------------------------------------------------------------------------------------------- */

/* NaN if either is, as PyTorch's maximum and minimum. */
static double extreme(double a, double b, bool larger)
{
    if (isnan(a) || isnan(b)) return NAN;
    return (a > b) == larger ? a : b;
}

/* Rounded down, from the exact remainder. A quotient by 0 as it is. */
static double floor_quotient(double a, double b)
{
    double rest = fmod(a, b), q = (a - rest) / b;
    if (b == 0.0) return a / b;
    if (rest != 0.0 && (rest < 0.0) != (b < 0.0)) q -= 1.0;
    return rint(q);
}

/* Of the divisor's sign. */
static double floor_rest(double a, double b)
{
    double rest = fmod(a, b);
    return rest != 0.0 && (rest < 0.0) != (b < 0.0) ? rest + b : rest;
}

static double apply_two(expr_op op, double a, double b)
{
    switch (op) {
    case X_ADD: return a + b;
    case X_SUB: return a - b;
    case X_MUL: return a * b;
    case X_DIV: return a / b;
    case X_MIN: return extreme(a, b, false);
    case X_MAX: return extreme(a, b, true);
    case X_POW: return pow(a, b);
    case X_FLOORDIV: return floor_quotient(a, b);
    case X_MOD: return floor_rest(a, b);
    case X_LT: return a < b;
    case X_LE: return a <= b;
    case X_GT: return a > b;
    case X_GE: return a >= b;
    case X_EQ: return a == b;
    case X_NE: return a != b;
    case X_AND: return a != 0.0 && b != 0.0;
    case X_OR: return a != 0.0 || b != 0.0;
    default: return NAN; /* not an operator of two operands */
    }
}

static double apply_one(expr_op op, double a)
{
    switch (op) {
    case X_NEG: return -a;
    case X_ABS: return fabs(a);
    case X_EXP: return exp(a);
    case X_LOG: return log(a);
    case X_SQRT: return sqrt(a);
    case X_RSQRT: return 1.0 / sqrt(a);
    case X_SIN: return sin(a);
    case X_COS: return cos(a);
    case X_TANH: return tanh(a);
    case X_SIGMOID: return 1.0 / (1.0 + exp(-a));
    case X_ERF: return erf(a);
    case X_RELU: return a < 0.0 ? 0.0 : a;
    case X_NOT: return a == 0.0;
    case X_FLOOR: return floor(a);
    case X_CEIL: return ceil(a);
    case X_ROUND: return rint(a);
    case X_TRUNC: return trunc(a);
    case X_SIGN: return a > 0.0 ? 1.0 : a < 0.0 ? -1.0 : a;
    default: return NAN; /* not an operator of one operand */
    }
}

static int operands_of(expr_op op)
{
    int n;
    return ein__expr_words(&n)[op].operands;
}

/* Arguments are in one of the two arrays. For f32 each result is rounded once more; sums, products, quotients
 * and roots of floats done in double and then rounded are what float arithmetic gives. */
static double eval(const expr *x, int at, const double *args, const float *args32)
{
    const expr_node *node = &x->nodes[at];
    double r;
    if (node->op == X_CONST) {
        r = node->value;
    } else if (node->op == X_ARG) {
        r = args32 != NULL ? (double)args32[node->a] : args[node->a];
    } else if (node->op == X_WHERE) {
        r = eval(x, eval(x, node->a, args, args32) != 0.0 ? node->b : node->c, args, args32);
    } else if (operands_of(node->op) == 2) {
        double a = eval(x, node->a, args, args32);
        r = apply_two(node->op, a, eval(x, node->b, args, args32));
    } else {
        r = apply_one(node->op, eval(x, node->a, args, args32));
    }
    return args32 != NULL ? (double)(float)r : r;
}

double ein__expr_eval(const expr *x, const double *args)
{
    return x->n > 0 ? eval(x, x->n - 1, args, NULL) : NAN;
}

float ein__expr_eval_f32(const expr *x, const float *args)
{
    static const float none[1] = {0};
    return x->n > 0 ? (float)eval(x, x->n - 1, NULL, args != NULL ? args : none) : NAN;
}

/* ---- all types ---------------------------------------------------------------------------------------- */

/* The quotient of the least number by -1 wraps too. */
static i64 floor_quotient_i64(i64 a, i64 b)
{
    if (b == 0) return 0;
    if (b == -1) return (i64)(0 - (uint64_t)a);
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

static i64 floor_rest_i64(i64 a, i64 b)
{
    if (b == 0 || b == -1) return 0;
    return a % b != 0 && (a % b < 0) != (b < 0) ? a % b + b : a % b;
}

static i64 apply_i64(expr_op op, i64 a, i64 b)
{
    uint64_t u = (uint64_t)a, v = (uint64_t)b;
    switch (op) {
    case X_ADD: return (i64)(u + v);
    case X_SUB: return (i64)(u - v);
    case X_MUL: return (i64)(u * v);
    case X_NEG: return (i64)(0 - u);
    case X_ABS: return (i64)(a < 0 ? 0 - u : u);
    case X_RELU: return a < 0 ? 0 : a;
    case X_SIGN: return (a > 0) - (a < 0);
    case X_MIN: return a < b ? a : b;
    case X_MAX: return a > b ? a : b;
    case X_FLOORDIV: return floor_quotient_i64(a, b);
    case X_MOD: return floor_rest_i64(a, b);
    case X_LT: return a < b;
    case X_LE: return a <= b;
    case X_GT: return a > b;
    case X_GE: return a >= b;
    case X_EQ: return a == b;
    case X_NE: return a != b;
    default: return a; /* roundings */
    }
}

typedef struct evaluation {
    const expr *x;
    const expr_value *args;
    const ein_dtype *types;
} evaluation;

static expr_value value_as(const evaluation *v, int at, ein_dtype want);

static bool is_true(const evaluation *v, int at, ein_dtype want)
{
    ein_dtype own = ein__expr_take(ein__expr_class(v->x, at, v->types), want);
    expr_value r = value_as(v, at, own);
    return own == EIN_I64 ? r.i != 0 : r.f != 0.0;
}

static expr_value from_bool(bool b, ein_dtype type)
{
    return type == EIN_I64 ? (expr_value){.i = b} : (expr_value){.f = b};
}

/* An operator that computes in `type`. */
static expr_value apply(const evaluation *v, const expr_node *node, ein_dtype type)
{
    bool two = operands_of(node->op) == 2;
    expr_value a = value_as(v, node->a, type), b = two ? value_as(v, node->b, type) : (expr_value){0}, r;
    if (type == EIN_I64) {
        r.i = apply_i64(node->op, a.i, b.i);
    } else {
        r.f = two ? apply_two(node->op, a.f, b.f) : apply_one(node->op, a.f);
        if (type == EIN_F32) r.f = (double)(float)r.f;
    }
    return r;
}

/* The value of a node, whose type is `own`. */
static expr_value value_of(const evaluation *v, int at, ein_dtype own)
{
    const expr_node *node = &v->x->nodes[at];
    ein_dtype type = ein__expr_take(ein__expr_operands(v->x, at, v->types), own);
    expr_value r = {0};
    switch (node->op) {
    case X_CONST:
        if (own == EIN_I64) ein__dtype_write(EIN_I64, node->value, &r.i);
        else r.f = own == EIN_F32 ? (double)(float)node->value : node->value;
        return r;
    case X_ARG: return v->args[node->a];
    case X_WHERE: return value_as(v, is_true(v, node->a, own) ? node->b : node->c, own);
    case X_AND: return from_bool(is_true(v, node->a, own) && is_true(v, node->b, own), own);
    case X_OR: return from_bool(is_true(v, node->a, own) || is_true(v, node->b, own), own);
    case X_NOT: return from_bool(!is_true(v, node->a, own), own);
    case X_LT: case X_LE: case X_GT: case X_GE: case X_EQ: case X_NE:
        r = apply(v, node, type);
        return from_bool(type == EIN_I64 ? r.i != 0 : r.f != 0.0, own);
    default: return apply(v, node, type);
    }
}

static expr_value value_as(const evaluation *v, int at, ein_dtype want)
{
    ein_dtype own = ein__expr_take(ein__expr_class(v->x, at, v->types), want);
    expr_value r = value_of(v, at, own);
    if (own == want) return r;
    if (want == EIN_I64) {
        ein__dtype_write(EIN_I64, r.f, &r.i);
    } else if (own == EIN_I64) {
        r.f = want == EIN_F32 ? (double)(float)r.i : (double)r.i;
    } else if (want == EIN_F32) {
        r.f = (double)(float)r.f;
    }
    return r;
}

expr_value ein__expr_eval_typed(const expr *x, const expr_value *args, const ein_dtype *types, ein_dtype want)
{
    evaluation v = {x, args, types};
    return x->n > 0 ? value_as(&v, x->n - 1, want) : (expr_value){0};
}
