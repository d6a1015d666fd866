/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a tree: its types, as kernel text, as key material. A node's operands are earlier nodes, so every walk
 * from the root ends. One table names the operators for the parser and the printer. */
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

/* ---- types -------------------------------------------------------------------------------------------- */

/* The wider of two; a weak number beside an integer that cannot be one makes a float of both. */
static expr_class wider(expr_class a, expr_class b)
{
    expr_class most = a > b ? a : b, least = a > b ? b : a;
    return most == CLASS_REAL && least == CLASS_I64 ? CLASS_F32 : most;
}

/* Quotients and functions have no integer results. */
static expr_class real(expr_class c) { return c == CLASS_WHOLE ? CLASS_REAL : c == CLASS_I64 ? CLASS_F32 : c; }

static expr_class class_of_argument(const ein_dtype *types, int i)
{
    ein_dtype type = types != NULL ? types[i] : EIN_F32;
    return type == EIN_F64 ? CLASS_F64 : type == EIN_I64 ? CLASS_I64 : CLASS_F32;
}

/* What the operands with the indices a and b have in common. */
static expr_class common(const expr *x, int a, int b, const ein_dtype *types)
{
    return wider(ein__expr_class(x, a, types), ein__expr_class(x, b, types));
}

expr_class ein__expr_operands(const expr *x, int at, const ein_dtype *types)
{
    const expr_node *node = &x->nodes[at];
    int n = words[node->op].operands;
    expr_class c = n == 3   ? common(x, node->b, node->c, types)
                   : n == 2 ? common(x, node->a, node->b, types)
                            : ein__expr_class(x, n == 1 ? node->a : at, types);
    switch (node->op) {
    case X_DIV: case X_POW: case X_EXP: case X_LOG: case X_SQRT: case X_RSQRT: case X_SIN: case X_COS: case X_TANH:
    case X_SIGMOID: case X_ERF: return real(c);
    default: return c;
    }
}

expr_class ein__expr_class(const expr *x, int at, const ein_dtype *types)
{
    const expr_node *node = &x->nodes[at];
    switch (node->op) {
    case X_CONST: return isfinite(node->value) && trunc(node->value) == node->value ? CLASS_WHOLE : CLASS_REAL;
    case X_ARG: return class_of_argument(types, node->a);
    case X_LT: case X_LE: case X_GT: case X_GE: case X_EQ: case X_NE: case X_AND: case X_OR: case X_NOT:
        return CLASS_WHOLE;
    default: return ein__expr_operands(x, at, types);
    }
}

ein_dtype ein__expr_take(expr_class c, ein_dtype want)
{
    switch (c) {
    case CLASS_WHOLE: return want;
    case CLASS_REAL: return want == EIN_I64 ? EIN_F32 : want;
    case CLASS_I64: return EIN_I64;
    case CLASS_F64: return EIN_F64;
    default: return EIN_F32;
    }
}

ein_dtype ein__expr_type(const expr *x, const ein_dtype *types)
{
    expr_class c = x->n > 0 ? ein__expr_class(x, x->n - 1, types) : CLASS_WHOLE;
    if (c == CLASS_WHOLE) return 0;
    for (int i = 0; c == CLASS_REAL && types != NULL && i < x->n; i++)
        if (x->nodes[i].op == X_ARG && types[x->nodes[i].a] == EIN_F64) c = CLASS_F64;
    return ein__expr_take(c, EIN_F32);
}

/* ---- kernel text -------------------------------------------------------------------------------------- */

static void print_integer(double value, text *out)
{
    i64 i;
    ein__dtype_write(EIN_I64, value, &i);
    if (i == INT64_MIN) ein__text_add(out, "(-%lldll - 1)", (long long)INT64_MAX);
    else ein__text_add(out, i < 0 ? "(%lldll)" : "%lldll", (long long)i);
}

void ein__expr_print_number(double value, ein_dtype type, text *out)
{
    bool wide = type == EIN_F64;
    const char *upper = wide ? "D" : "K", *end = wide ? "" : "f";
    if (type == EIN_I64) {
        print_integer(value, out);
        return;
    }
    double f = wide ? value : (double)(float)value;
    if (isnan(f)) {
        ein__text_add(out, "%s_NAN", upper);
    } else if (isinf(f)) {
        ein__text_add(out, f < 0 ? "(-%s_INF)" : "%s_INF", upper);
    } else {
        /* The process may have set a locale whose decimal point is not a point. */
        char raw[64], number[64];
        size_t n = 0;
        bool whole = true;
        snprintf(raw, sizeof raw, "%.*g", wide ? 17 : 9, f);
        for (const char *s = raw; *s != 0; s++) {
            bool plain = strchr("+-0123456789e", *s) != NULL;
            if (!plain || *s == 'e') whole = false;
            if (plain) number[n++] = *s;
            else if (n > 0 && number[n - 1] != '.') number[n++] = '.';
        }
        number[n] = 0;
        ein__text_add(out, signbit(f) ? "(%s%s%s)" : "%s%s%s", number, whole ? ".0" : "", end);
    }
}

typedef struct printer {
    const expr *x;
    const char *const *args;
    const ein_dtype *types;
    text *out;
} printer;

static void print(const printer *p, int at, ein_dtype want);

/* An operand that is compared with 0 in its own type: a condition. */
static void print_condition(const printer *p, int at, ein_dtype want)
{
    ein_dtype own = ein__expr_take(ein__expr_class(p->x, at, p->types), want);
    ein__text_add(p->out, "(");
    print(p, at, own);
    ein__text_add(p->out, ") != ");
    ein__expr_print_number(0, own, p->out);
}

/* Two numbers for true and false. */
static void print_choice(const printer *p, ein_dtype want)
{
    ein__text_add(p->out, " ? ");
    ein__expr_print_number(1, want, p->out);
    ein__text_add(p->out, " : ");
    ein__expr_print_number(0, want, p->out);
    ein__text_add(p->out, ")");
}

/* `type`: what the operands are computed in; `want`: the choice's type. */
static void print_comparison(const printer *p, const expr_node *node, ein_dtype type, ein_dtype want)
{
    ein__text_add(p->out, "((");
    print(p, node->a, type);
    ein__text_add(p->out, ") %s (", words[node->op].word);
    print(p, node->b, type);
    ein__text_add(p->out, ")");
    print_choice(p, want);
}

static void print_logic(const printer *p, const expr_node *node, ein_dtype want)
{
    if (node->op == X_NOT) {
        ein__text_add(p->out, "((");
        print_condition(p, node->a, want);
        ein__text_add(p->out, ") ? ");
        ein__expr_print_number(0, want, p->out);
        ein__text_add(p->out, " : ");
        ein__expr_print_number(1, want, p->out);
        ein__text_add(p->out, ")");
        return;
    }
    ein__text_add(p->out, "(((");
    print_condition(p, node->a, want);
    ein__text_add(p->out, node->op == X_AND ? ") & (" : ") | (");
    print_condition(p, node->b, want);
    ein__text_add(p->out, "))");
    print_choice(p, want);
}

static void print_call(const printer *p, const expr_node *node, const char *word, ein_dtype type)
{
    const int operands[3] = {node->a, node->b, node->c};
    ein__text_add(p->out, "%s_%s(", type == EIN_F64 ? "d" : type == EIN_I64 ? "i" : "k", word);
    for (int i = 0; i < words[node->op].operands; i++) {
        if (i > 0) ein__text_add(p->out, ", ");
        print(p, operands[i], type);
    }
    ein__text_add(p->out, ")");
}

/* Sums, products and signs, of integers by functions that wrap. */
static void print_arithmetic(const printer *p, const expr_node *node, ein_dtype type)
{
    static const char *const wrapping[] = {[X_ADD] = "add", [X_SUB] = "sub", [X_MUL] = "mul", [X_NEG] = "neg"};
    if (type == EIN_I64) {
        print_call(p, node, wrapping[node->op], type);
    } else if (node->op == X_NEG) {
        ein__text_add(p->out, "(-(");
        print(p, node->a, type);
        ein__text_add(p->out, "))");
    } else {
        ein__text_add(p->out, "(");
        print(p, node->a, type);
        ein__text_add(p->out, " %s ", words[node->op].word);
        print(p, node->b, type);
        ein__text_add(p->out, ")");
    }
}

/* A node whose value has the type `own`. */
static void print_node(const printer *p, int at, ein_dtype own)
{
    const expr_node *node = &p->x->nodes[at];
    ein_dtype type = ein__expr_take(ein__expr_operands(p->x, at, p->types), own);
    switch (node->op) {
    case X_CONST: ein__expr_print_number(node->value, own, p->out); break;
    case X_ARG: ein__text_add(p->out, "%s", p->args[node->a]); break;
    case X_WHERE:
        ein__text_add(p->out, "(");
        print_condition(p, node->a, own);
        ein__text_add(p->out, " ? (");
        print(p, node->b, own);
        ein__text_add(p->out, ") : (");
        print(p, node->c, own);
        ein__text_add(p->out, "))");
        break;
    case X_ADD: case X_SUB: case X_MUL: case X_DIV: case X_NEG: print_arithmetic(p, node, own); break;
    case X_LT: case X_LE: case X_GT: case X_GE: case X_EQ: case X_NE: print_comparison(p, node, type, own); break;
    case X_AND: case X_OR: case X_NOT: print_logic(p, node, own); break;
    case X_FLOOR: case X_CEIL: case X_ROUND: case X_TRUNC:
        if (own == EIN_I64) print(p, node->a, own);
        else print_call(p, node, words[node->op].word, own);
        break;
    default: print_call(p, node, words[node->op].word, own);
    }
}

static void print(const printer *p, int at, ein_dtype want)
{
    ein_dtype own = ein__expr_take(ein__expr_class(p->x, at, p->types), want);
    if (own != want)
        ein__text_add(p->out, want == EIN_F32   ? "(float)("
                              : want == EIN_F64 ? "(double)("
                              : own == EIN_F64  ? "d_to_i64("
                                                : "k_to_i64(");
    print_node(p, at, own);
    if (own != want) ein__text_add(p->out, ")");
}

void ein__expr_print(const expr *x, const char *const *args, const ein_dtype *types, ein_dtype want, text *out)
{
    printer p = {x, args, types, out};
    if (x->n > 0) print(&p, x->n - 1, want);
}

/* ---- key material ------------------------------------------------------------------------------------- */

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
