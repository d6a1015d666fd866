/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a tree: as kernel text, as numbers, as key material. A node's operands are earlier nodes, so every
 * walk from the root ends. One table names the operators for the parser and the printer. */
#include "core/tensor/expr.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/tensor/expr_words.h"

static const expr_word words[] = {
    [X_CONST] = {"number", WORD_LEAF, 0, 0},  [X_ARG] = {"argument", WORD_LEAF, 0, 0},
    [X_ADD] = {"+", WORD_INFIX, 2, 1},        [X_SUB] = {"-", WORD_INFIX, 2, 1},
    [X_MUL] = {"*", WORD_INFIX, 2, 2},        [X_DIV] = {"/", WORD_INFIX, 2, 2},
    [X_MIN] = {"min", WORD_CALL, 2, 0},       [X_MAX] = {"max", WORD_CALL, 2, 0},
    [X_POW] = {"pow", WORD_CALL, 2, 0},       [X_LT] = {"<", WORD_INFIX, 2, 0},
    [X_LE] = {"<=", WORD_INFIX, 2, 0},        [X_GT] = {">", WORD_INFIX, 2, 0},
    [X_GE] = {">=", WORD_INFIX, 2, 0},        [X_EQ] = {"==", WORD_INFIX, 2, 0},
    [X_NE] = {"!=", WORD_INFIX, 2, 0},        [X_AND] = {"and", WORD_CALL, 2, 0},
    [X_OR] = {"or", WORD_CALL, 2, 0},         [X_FLOORDIV] = {"floordiv", WORD_CALL, 2, 0},
    [X_MOD] = {"mod", WORD_CALL, 2, 0},       [X_NOT] = {"not", WORD_CALL, 1, 0},
    [X_FLOOR] = {"floor", WORD_CALL, 1, 0},   [X_CEIL] = {"ceil", WORD_CALL, 1, 0},
    [X_ROUND] = {"round", WORD_CALL, 1, 0},   [X_TRUNC] = {"trunc", WORD_CALL, 1, 0},
    [X_SIGN] = {"sign", WORD_CALL, 1, 0},
    [X_NEG] = {"neg", WORD_CALL, 1, 0},       [X_ABS] = {"abs", WORD_CALL, 1, 0},
    [X_EXP] = {"exp", WORD_CALL, 1, 0},       [X_LOG] = {"log", WORD_CALL, 1, 0},
    [X_SQRT] = {"sqrt", WORD_CALL, 1, 0},     [X_RSQRT] = {"rsqrt", WORD_CALL, 1, 0},
    [X_SIN] = {"sin", WORD_CALL, 1, 0},       [X_COS] = {"cos", WORD_CALL, 1, 0},
    [X_TANH] = {"tanh", WORD_CALL, 1, 0},     [X_SIGMOID] = {"sigmoid", WORD_CALL, 1, 0},
    [X_ERF] = {"erf", WORD_CALL, 1, 0},       [X_RELU] = {"relu", WORD_CALL, 1, 0},
    [X_WHERE] = {"where", WORD_CALL, 3, 0}};

const expr_word *ein__expr_words(int *n)
{
    *n = (int)(sizeof words / sizeof *words);
    return words;
}

void ein__expr_print_number(double value, ein_dtype type, text *out)
{
    (void)type;
    float f = (float)value;
    if (isnan(f)) {
        ein__text_add(out, "K_NAN");
    } else if (isinf(f)) {
        ein__text_add(out, f < 0 ? "(-K_INF)" : "K_INF");
    } else {
        /* The process may have set a locale whose decimal point is not a point. */
        char raw[64], number[64];
        size_t n = 0;
        bool whole = true;
        snprintf(raw, sizeof raw, "%.9g", (double)f);
        for (const char *s = raw; *s != 0; s++) {
            bool plain = strchr("+-0123456789e", *s) != NULL;
            if (!plain || *s == 'e') whole = false;
            if (plain) number[n++] = *s;
            else if (n > 0 && number[n - 1] != '.') number[n++] = '.';
        }
        number[n] = 0;
        ein__text_add(out, signbit(f) ? "(%s%sf)" : "%s%sf", number, whole ? ".0" : "");
    }
}

static void print(const expr *x, int at, const char *const *args, text *out)
{
    const expr_node *node = &x->nodes[at];
    const expr_word *w = &words[node->op];
    const int operands[3] = {node->a, node->b, node->c};
    if (node->op == X_CONST) {
        ein__expr_print_number(node->value, EIN_F32, out);
    } else if (node->op == X_ARG) {
        ein__text_add(out, "%s", args[node->a]);
    } else if (node->op == X_WHERE) {
        ein__text_add(out, "((");
        print(x, node->a, args, out);
        ein__text_add(out, ") != 0.0f ? (");
        print(x, node->b, args, out);
        ein__text_add(out, ") : (");
        print(x, node->c, args, out);
        ein__text_add(out, "))");
    } else if (node->op == X_NEG) {
        ein__text_add(out, "(-(");
        print(x, node->a, args, out);
        ein__text_add(out, "))");
    } else if (w->kind == WORD_INFIX) {
        bool compare = w->level == 0;
        ein__text_add(out, compare ? "((" : "(");
        print(x, node->a, args, out);
        ein__text_add(out, compare ? ") %s (" : " %s ", w->word);
        print(x, node->b, args, out);
        ein__text_add(out, compare ? ") ? 1.0f : 0.0f)" : ")");
    } else {
        ein__text_add(out, "k_%s(", w->word);
        for (int i = 0; i < w->operands; i++) {
            if (i > 0) ein__text_add(out, ", ");
            print(x, operands[i], args, out);
        }
        ein__text_add(out, ")");
    }
}

void ein__expr_print(const expr *x, const char *const *args, const ein_dtype *types, ein_dtype want, text *out)
{
    (void)types, (void)want;
    if (x->n > 0) print(x, x->n - 1, args, out);
}

/* NaN if either is, as PyTorch's maximum and minimum. */
static double extreme(double a, double b, bool larger)
{
    if (isnan(a) || isnan(b)) return NAN;
    return (a > b) == larger ? a : b;
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
    case X_LT: return a < b;
    case X_LE: return a <= b;
    case X_GT: return a > b;
    case X_GE: return a >= b;
    case X_EQ: return a == b;
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
    default: return NAN; /* not an operator of one operand */
    }
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
    } else if (words[node->op].operands == 2) {
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

ein_dtype ein__expr_type(const expr *x, const ein_dtype *types)
{
    (void)x, (void)types;
    return EIN_F32;
}

i64 ein__expr_eval_i64(const expr *x, const i64 *args)
{
    double a[64] = {0};
    for (int i = 0; i < 64 && (ein__expr_arguments(x, 64) >> i & 1) != 0; i++) a[i] = (double)args[i];
    return (i64)ein__expr_eval(x, a);
}

int ein__expr_work(const expr *x)
{
    int work = 0;
    for (int i = 0; i < x->n; i++) work += words[x->nodes[i].op].kind != WORD_LEAF;
    return work;
}

void ein__expr_key(const expr *x, text *key)
{
    ein__key_int(key, 'n', x->n);
    for (int i = 0; i < x->n; i++) {
        const expr_node *node = &x->nodes[i];
        int64_t bits;
        memcpy(&bits, &node->value, sizeof bits);
        ein__key_int(key, 'o', node->op);
        if (node->op == X_CONST) {
            ein__key_int(key, 'v', bits);
            continue;
        }
        int operands = node->op == X_ARG ? 1 : words[node->op].operands;
        ein__key_int(key, 'a', node->a);
        if (operands > 1) ein__key_int(key, 'b', node->b);
        if (operands > 2) ein__key_int(key, 'c', node->c);
    }
}

uint32_t ein__expr_arguments(const expr *x, int n)
{
    uint32_t found = 0;
    for (int i = 0; i < x->n; i++)
        if (x->nodes[i].op == X_ARG) found |= 1u << (x->nodes[i].a % n);
    return found;
}
