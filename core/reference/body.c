/* SPDX-License-Identifier: Apache-2.0 */
/* Which parts of an expression are integer arithmetic: those that read integers only and do nothing with them
 * that makes a float. */
#include <math.h>

#include "core/reference/evaluate.h"

static bool keeps_integers(expr_op op)
{
    switch (op) {
    case X_ADD: case X_SUB: case X_MUL: case X_MIN: case X_MAX: case X_FLOORDIV: case X_MOD:
    case X_LT: case X_LE: case X_GT: case X_GE: case X_EQ: case X_NE: case X_AND: case X_OR: case X_NOT:
    case X_NEG: case X_ABS: case X_RELU: case X_SIGN: case X_FLOOR: case X_CEIL: case X_ROUND: case X_TRUNC:
    case X_WHERE: return true;
    default: return false;
    }
}

/* As an i64; a negative zero is none. */
static bool is_integer(double x)
{
    return isinf(x) || (trunc(x) == x && fabs(x) < 0x1p63 && !(x == 0 && signbit(x)));
}

static bool is_exact(const expr *x, int at, const ein_dtype *types, const bool *exact)
{
    const expr_node *n = &x->nodes[at];
    if (n->op == X_CONST) return is_integer(n->value);
    if (n->op == X_ARG) return types[n->a] == EIN_I64;
    bool two = n->op <= X_MOD, three = n->op == X_WHERE;
    return keeps_integers(n->op) && exact[n->a] && (!(two || three) || exact[n->b]) && (!three || exact[n->c]);
}

ein_status ein__body_make(arena *a, const expr *x, const ein_dtype *types, body *out)
{
    bool *exact;
    *out = (body){.x = x};
    if (x->n == 0) return EIN_OK;
    NEW(a, exact, x->n);
    for (int i = 0; i < x->n; i++) exact[i] = is_exact(x, i, types, exact);
    ein_dtype type = ein__expr_type(x, types);
    out->exact = exact;
    out->floats = true;
    for (int i = 0; i < x->n; i++) out->floats = out->floats && (x->nodes[i].op != X_ARG || !exact[i]);
    const expr_node *root = &x->nodes[x->n - 1];
    bool constant = root->op == X_CONST && !isinf(root->value);
    out->whole = type == EIN_I64 || (type == 0 && exact[x->n - 1] && (constant || !out->floats));
    return EIN_OK;
}
