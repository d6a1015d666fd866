/* SPDX-License-Identifier: Apache-2.0 */
/* Recursive descent over a text that may be hostile: nesting and length are limited, so that every later walk
 * of the tree is too. */
#include "core/tensor/expr.h"

#include <ctype.h>
#include <locale.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor/expr_words.h"

enum { DEEPEST = 64, MOST_NODES = 1024, LONGEST_NUMBER = 48, MOST_ARGUMENTS = 1 << 20 };

typedef struct parser {
    arena *a;
    error *e;
    const char *source, *at;
    const char *prefix[2];
    int count[2];
    int depth;
    struct { expr_node *items; int n, room; } nodes;
} parser;

static ein_status parse(parser *p, int level, int *out);

/* The word at the cursor, for messages: a name or number, or one symbol. */
static int word_length(const char *s)
{
    int n = 0;
    while (isalnum((unsigned char)s[n]) || s[n] == '_' || (s[n] == '.' && n < 40)) n++;
    if (n == 0 && *s != 0) {
        n = 1;
        while (((unsigned char)s[n] & 0xc0) == 0x80 && n < 4) n++; /* the rest of a UTF-8 letter */
    }
    return n < 40 ? n : 40;
}

static ein_status fail_at(parser *p, const char *at, const char *what)
{
    int column = (int)(at - p->source) + 1;
    if (*at == 0)
        return ein__fail(p->e, EIN_INVALID, "expression \"%.120s\": column %d: %s at the end", p->source,
                         column, what);
    return ein__fail(p->e, EIN_INVALID, "expression \"%.120s\": column %d: %s at \"%.*s\"", p->source,
                     column, what, word_length(at), at);
}

static void skip_space(parser *p)
{
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r') p->at++;
}

static ein_status add_node(parser *p, expr_node node, int *out)
{
    if (p->nodes.n >= MOST_NODES) return fail_at(p, p->at, "more than 1024 terms");
    PUSH(p->a, &p->nodes, node);
    *out = p->nodes.n - 1;
    return EIN_OK;
}

static ein_status expect(parser *p, char c, const char *what)
{
    skip_space(p);
    if (*p->at != c) return fail_at(p, p->at, what);
    p->at++;
    return EIN_OK;
}

static size_t digits(const char **s)
{
    size_t n = 0;
    for (; isdigit((unsigned char)**s); (*s)++) n++;
    return n;
}

/* Decimal numbers as in C, an "f" after them allowed. The text is copied because strtod wants the decimal
 * point of the process's locale. */
static ein_status parse_number(parser *p, int *out)
{
    const char *start = p->at, *s = start;
    char copy[LONGEST_NUMBER + 16] = {0};
    size_t n = digits(&s), point = (size_t)(s - start);
    bool pointed = *s == '.';
    if (pointed) {
        s++;
        n += digits(&s);
    }
    if (n == 0) return fail_at(p, start, "expected a number");
    if (*s == 'e' || *s == 'E') {
        s++;
        if (*s == '+' || *s == '-') s++;
        if (digits(&s) == 0) return fail_at(p, start, "number without digits in its exponent");
    }
    size_t length = (size_t)(s - start);
    if (length > LONGEST_NUMBER) return fail_at(p, start, "number of more than 48 characters");
    if (*s == 'f' || *s == 'F') s++;
    if (isalnum((unsigned char)*s) || *s == '_' || *s == '.') return fail_at(p, start, "malformed number");
    if (pointed) {
        const char *radix = localeconv()->decimal_point;
        size_t m = strlen(radix) < 15 ? strlen(radix) : 15;
        memcpy(copy, start, point);
        memcpy(copy + point, radix, m);
        memcpy(copy + point + m, start + point + 1, length - point - 1);
    } else {
        memcpy(copy, start, length);
    }
    p->at = s;
    return add_node(p, (expr_node){.op = X_CONST, .value = strtod(copy, NULL)}, out);
}

static ein_status parse_call(parser *p, const char *name, size_t n, int *out)
{
    int n_words, operand[3] = {0};
    const expr_word *words = ein__expr_words(&n_words);
    int op = 0;
    while (op < n_words && (words[op].kind != WORD_CALL || strlen(words[op].word) != n ||
                            memcmp(words[op].word, name, n) != 0))
        op++;
    if (op == n_words) return fail_at(p, name, "unknown function");
    for (int i = 0; i < words[op].operands; i++) {
        TRY(expect(p, i == 0 ? '(' : ',', i == 0 ? "expected \"(\"" : "too few operands"));
        TRY(parse(p, 0, &operand[i]));
    }
    skip_space(p);
    if (*p->at == ',') return fail_at(p, name, "too many operands");
    TRY(expect(p, ')', "expected \")\""));
    expr_node node = {.op = (expr_op)op, .a = operand[0], .b = operand[1], .c = operand[2]};
    return add_node(p, node, out);
}

/* Index of an argument's name, or -1. Leading zeros are another name. */
static int argument(const parser *p, const char *name, size_t n)
{
    int first = 0;
    for (int k = 0; k < 2; first += p->count[k++]) {
        size_t m = p->prefix[k] != NULL ? strlen(p->prefix[k]) : n;
        if (m >= n || memcmp(p->prefix[k], name, m) != 0 || (name[m] == '0' && n > m + 1)) continue;
        long index = 0;
        size_t i = m;
        for (; i < n && isdigit((unsigned char)name[i]) && index < MOST_ARGUMENTS; i++)
            index = index * 10 + (name[i] - '0');
        if (i == n && index < p->count[k]) return first + (int)index;
    }
    return -1;
}

static ein_status parse_name(parser *p, int *out)
{
    const char *name = p->at;
    while (isalnum((unsigned char)*p->at) || *p->at == '_') p->at++;
    size_t n = (size_t)(p->at - name);
    int index = argument(p, name, n);
    if (index >= 0) return add_node(p, (expr_node){.op = X_ARG, .a = index}, out);
    skip_space(p);
    if (*p->at != '(') return fail_at(p, name, "unknown name");
    return parse_call(p, name, n, out);
}

/* A minus before a number belongs to the number. */
static ein_status parse_minus(parser *p, int *out)
{
    p->at++;
    TRY(parse(p, TIGHTEST_LEVEL, out));
    expr_node *operand = &p->nodes.items[*out];
    if (operand->op != X_CONST) return add_node(p, (expr_node){.op = X_NEG, .a = *out}, out);
    operand->value = -operand->value;
    return EIN_OK;
}

static ein_status parse_operand(parser *p, int *out)
{
    skip_space(p);
    unsigned char c = (unsigned char)*p->at;
    if (p->depth >= DEEPEST) return fail_at(p, p->at, "nested more than 64 deep");
    p->depth++;
    if (c == '-') {
        TRY(parse_minus(p, out));
    } else if (c == '(') {
        p->at++;
        TRY(parse(p, 0, out));
        TRY(expect(p, ')', "expected \")\""));
    } else if (isdigit(c) || c == '.') {
        TRY(parse_number(p, out));
    } else if (isalpha(c) || c == '_') {
        TRY(parse_name(p, out));
    } else {
        return fail_at(p, p->at, "expected a number, a name or \"(\"");
    }
    p->depth--;
    return EIN_OK;
}

/* The longest operator of this level at the cursor, or -1; moves past it. */
static int take_operator(parser *p, int level)
{
    int n_words, best = -1;
    const expr_word *words = ein__expr_words(&n_words);
    size_t length = 0;
    skip_space(p);
    for (int op = 0; op < n_words; op++) {
        if (words[op].kind != WORD_INFIX || words[op].level != level) continue;
        size_t n = strlen(words[op].word);
        if (n <= length || strncmp(p->at, words[op].word, n) != 0) continue;
        best = op;
        length = n;
    }
    p->at += length;
    return best;
}

static ein_status parse(parser *p, int level, int *out)
{
    if (level == TIGHTEST_LEVEL) return parse_operand(p, out);
    TRY(parse(p, level + 1, out));
    for (int op; (op = take_operator(p, level)) >= 0;) {
        int right;
        TRY(parse(p, level + 1, &right));
        TRY(add_node(p, (expr_node){.op = (expr_op)op, .a = *out, .b = right}, out));
    }
    return EIN_OK;
}

ein_status ein__expr_parse(arena *a, const char *source, const char *prefix_a, int count_a,
                           const char *prefix_b, int count_b, expr *out, error *e)
{
    int root;
    if (source == NULL) return ein__fail(e, EIN_INVALID, "expression is NULL");
    parser p = {.a = a, .e = e, .source = source, .at = source, .prefix = {prefix_a, prefix_b},
                .count = {count_a, prefix_b != NULL ? count_b : 0}};
    TRY(parse(&p, 0, &root));
    skip_space(&p);
    if (*p.at != 0) return fail_at(&p, p.at, "unexpected text");
    *out = (expr){p.nodes.n, p.nodes.items}; /* operands precede, so the root is the last node */
    return EIN_OK;
}
