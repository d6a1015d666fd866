/* SPDX-License-Identifier: Apache-2.0 */
/* Scalar expressions: the join function of an elementwise op, the combine and finalizer of a merge. One tree
 * is read three ways: parsed from text, printed as kernel text, evaluated on the host. */
#ifndef CORE_TENSOR_EXPR_H
#define CORE_TENSOR_EXPR_H

#include "core/base/arena.h"
#include "core/base/text.h"
#include "core/tensor/dtype.h"

typedef enum expr_op {
    X_CONST, X_ARG, /* leaves: a number; argument i */
    X_ADD, X_SUB, X_MUL, X_DIV, X_MIN, X_MAX, X_POW, X_LT, X_LE, X_GT, X_GE, X_EQ, /* two operands */
    X_NE, X_AND, X_OR, X_FLOORDIV, X_MOD, /* two; floordiv and mod round down, as in Python */
    X_NEG, X_ABS, X_EXP, X_LOG, X_SQRT, X_RSQRT, X_SIN, X_COS, X_TANH, X_SIGMOID, X_ERF, X_RELU, /* one */
    X_NOT, X_FLOOR, X_CEIL, X_ROUND, X_TRUNC, X_SIGN, /* one; round: half to even */
    X_WHERE /* three: condition != 0 ? a : b */
} expr_op;

typedef struct expr_node {
    expr_op op;
    int a, b, c;  /* operands, earlier nodes; X_ARG: a is the argument's index */
    double value; /* X_CONST */
} expr_node;

typedef struct expr {
    int n; /* the last node is the root; n = 0: no expression */
    expr_node *nodes;
} expr;

/* Parse `source`; argument names are prefix + number ("x0", "x1" for prefix "x", count 2). Two prefixes may
 * be given ("a", "b"): b's indices follow a's. Numbers are as in C. Fails with EIN_INVALID, naming the
 * column. */
ein_status ein__expr_parse(arena *a, const char *source, const char *prefix_a, int count_a, const char *prefix_b,
                           int count_b, expr *out, error *e);
/* Types: every argument has a compute type (EIN_F32, EIN_F64, EIN_I64; ein__dtype_compute), and an expression's
 * type follows: f64 wins over f32, f32 over i64. Constants, comparisons (1 or 0) and what is made of them are weak:
 * whole ones take any type, others make an integer f32. Quotients ("/") and functions of integers are f32; floordiv,
 * mod, min, max, abs, relu, sign and roundings keep integers. Integers wrap. types NULL: all f32. 0 for a weak whole
 * expression; another weak one is f64 if an argument is, else f32. */
ein_dtype ein__expr_type(const expr *x, const ein_dtype *types);
/* Append C text of the expression as a value of compute type `want`; args[i] is the text for argument i: a name,
 * a call or in parentheses. Constants are printed so that they read back to the same bits. */
void ein__expr_print(const expr *x, const char *const *args, const ein_dtype *types, ein_dtype want, text *out);
/* One constant as the printer spells it: "0.5f", "(-1.0f)", "K_INF", "K_NAN"; f64 "0.5", "D_INF"; i64 "5ll"; an
 * infinity of i64 is its least or greatest number. */
void ein__expr_print_number(double value, ein_dtype type, text *out);
/* Evaluate in f64 / plain f32. */
double ein__expr_eval(const expr *x, const double *args);
float ein__expr_eval_f32(const expr *x, const float *args);
/* Evaluate as the printed text does: every node in its type, each f32 result rounded. */
typedef union expr_value { double f; i64 i; } expr_value; /* f: of f32 and f64 */
expr_value ein__expr_eval_typed(const expr *x, const expr_value *args, const ein_dtype *types, ein_dtype want);
/* Bit set of the arguments that occur, modulo n (a combine's arguments are two tuples of n states). */
uint32_t ein__expr_arguments(const expr *x, int n);
/* Number of arithmetic nodes, for the cost model. */
int ein__expr_work(const expr *x);
void ein__expr_key(const expr *x, text *key);

#endif
