/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of products: einsum, matmul, linear. The letters are the labels; those that the result lacks are
 * aggregated by a sum. */
#include "core/graph/builder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- the node ---- */

static int times_in(const index_map *m, int l)
{
    int n = 0;
    for (int i = 0; i < m->n; i++) n += m->terms[i].label == l;
    return n;
}

/* A matrix product can do it: two operands, one float type, no diagonal, and every aggregated label in both. */
static bool is_product(const graph *g, const node *n, ein_dtype dtype)
{
    const spec *s = &n->spec;
    if (s->n_operands != 2 || s->merge == NULL || !ein__dtype_is_float(dtype)) return false;
    for (int i = 0; i < 2; i++)
        if (g->values.items[n->operands[i]].dtype != dtype) return false;
    for (int l = 0; l < s->n_labels; l++) {
        int a = times_in(&s->operands[0], l), b = times_in(&s->operands[1], l);
        if (a > 1 || b > 1 || (!ein__map_has(&s->results[0], l) && a + b != 2)) return false;
    }
    return true;
}

/* Complete and add a node whose labels and maps are set. Integers wrap, sums of them too. */
static ein_status add_product(graph *g, node *n, const dims *result, value *out)
{
    char body[MAX_CALL_OPERANDS * 6 + 1];
    ein_dtype dtype = ein__promote(g, n->spec.n_operands, n->operands);
    size_t at = 0;
    spec *s = &n->spec;
    for (int i = 0; i < s->n_operands; i++)
        at += (size_t)snprintf(body + at, sizeof body - at, "%sx%d", i > 0 ? "*" : "", i);
    TRY(ein__expr_make(g, n->name, body, s->n_operands, 0, NULL, &n->body[0]));
    bool sum = s->results[0].n < s->n_labels;
    if (sum) {
        merge *m;
        TRY(ein__merge_make(&g->arena, MERGE_SUM, 1, dtype, &m));
        s->merge = m;
        s->n_states = 1;
        s->states[0] = s->results[0];
    }
    n->product = is_product(g, n, dtype);
    s->flops = s->n_operands - 1 + sum;
    return ein__node_add(g, n, result, &dtype, out);
}

/* Bools have no sum of their own type. */
static ein_status check_numbers(graph *g, const char *call, int n, const value *operands)
{
    if (ein__promote(g, n, operands) != EIN_BOOL) return EIN_OK;
    REFUSE(EIN_DTYPE, "%s: %s bool; cast one", call, n == 1 ? "the operand is" : "all operands are");
}

/* ---- einsum ---- */

/* The letters of a tensor; dots: "..." stands before this one, -1: nowhere. Once the ranks are known, the dimensions
 * that "..." stands for are letters too, 1 to 8, the last one the same for all operands. */
typedef struct letters { int n, dots; char at[EIN_MAX_RANK]; } letters;

typedef struct equation {
    const char *source;
    int n; /* operands */
    letters operands[MAX_CALL_OPERANDS], result;
    int dots; /* dimensions that "..." stands for at most */
    i64 extent[128]; /* by letter; -1: not used */
    int label[128];
} equation;

static ein_status add_letter(graph *g, const equation *q, letters *to, char c)
{
    if (to->n == EIN_MAX_RANK)
        REFUSE(EIN_SHAPE, "einsum '%.80s': more than %d letters in one tensor", q->source, EIN_MAX_RANK);
    to->at[to->n++] = c;
    return EIN_OK;
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static bool is_dots(const char *p) { return p[0] == '.' && p[1] == '.' && p[2] == '.'; }

/* Letters of the operands and, after "->", of the result. */
static ein_status read_letters(graph *g, equation *q, bool *arrow)
{
    letters *to = &q->operands[0];
    q->n = 1;
    to->dots = q->result.dots = -1;
    *arrow = false;
    for (const char *p = q->source; *p != 0; p++) {
        if (*p == ' ') continue;
        if (is_letter(*p)) {
            TRY(add_letter(g, q, to, *p));
        } else if (*p == ',' && !*arrow) {
            if (q->n == MAX_CALL_OPERANDS)
                REFUSE(EIN_UNSUPPORTED, "einsum: more than %d operands", MAX_CALL_OPERANDS);
            to = &q->operands[q->n++];
            to->dots = -1;
        } else if (p[0] == '-' && p[1] == '>' && !*arrow) {
            *arrow = true;
            to = &q->result;
            p++;
        } else if (is_dots(p) && to->dots < 0) {
            to->dots = to->n;
            p += 2;
        } else {
            REFUSE(EIN_INVALID, "einsum '%.80s': unexpected '%c' (0x%02x) at column %d", q->source,
                   *p >= ' ' && *p <= '~' ? *p : '?', (unsigned char)*p, (int)(p - q->source) + 1);
        }
    }
    return EIN_OK;
}

static int times_used(const equation *q, char c)
{
    int n = 0;
    for (int i = 0; i < q->n; i++)
        for (int k = 0; k < q->operands[i].n; k++) n += q->operands[i].at[k] == c;
    return n;
}

/* Put the last n dimensions of "..." into a tensor's letters. */
static ein_status expand_dots(graph *g, const equation *q, letters *l, int n)
{
    letters old = *l;
    l->n = 0;
    for (int i = 0; i <= old.n; i++) {
        for (int k = q->dots - n; i == old.dots && k < q->dots; k++) TRY(add_letter(g, q, l, (char)(k + 1)));
        if (i < old.n) TRY(add_letter(g, q, l, old.at[i]));
    }
    return EIN_OK;
}

static ein_status read_dots(graph *g, equation *q, const value *operands, bool arrow)
{
    int n[MAX_CALL_OPERANDS] = {0};
    for (int i = 0; i < q->n; i++) {
        if (q->operands[i].dots >= 0) n[i] = g->values.items[operands[i]].rank - q->operands[i].n;
        if (n[i] > q->dots) q->dots = n[i];
    }
    for (int i = 0; i < q->n; i++)
        if (n[i] > 0) TRY(expand_dots(g, q, &q->operands[i], n[i]));
    if (arrow && q->dots > 0 && q->result.dots < 0)
        REFUSE(EIN_INVALID, "einsum '%.80s': the result lacks '...'", q->source);
    if (!arrow) q->result.dots = 0;
    return expand_dots(g, q, &q->result, q->dots);
}

static ein_status default_result(graph *g, equation *q)
{
    for (char c = 'A'; c <= 'z'; c++)
        if (is_letter(c) && times_used(q, c) == 1) TRY(add_letter(g, q, &q->result, c));
    return EIN_OK;
}

static ein_status check_result(graph *g, const equation *q)
{
    for (int i = 0; i < q->result.n; i++) {
        char c = q->result.at[i];
        if (times_used(q, c) == 0)
            REFUSE(EIN_INVALID, "einsum '%.80s': letter %c of the result is in no operand", q->source, c);
        if (memchr(q->result.at, c, (size_t)i) != NULL)
            REFUSE(EIN_INVALID, "einsum '%.80s': letter %c is twice in the result", q->source, c);
    }
    return EIN_OK;
}

/* Extents of one operand's letters; 1 gives way to any other, but not on a diagonal. */
static ein_status read_extents(graph *g, equation *q, int operand, const dims *d)
{
    const letters *l = &q->operands[operand];
    if (l->n != d->rank)
        REFUSE(EIN_SHAPE, "einsum '%.80s': operand %d has shape %s, and %d letters", q->source, operand,
               ein__dims_text(*d).s, l->n);
    for (int i = 0; i < l->n; i++) {
        int c = l->at[i];
        const char *first = memchr(l->at, c, (size_t)i);
        i64 have = first != NULL ? d->at[first - l->at] : q->extent[c];
        if (have == d->at[i]) continue;
        if (first != NULL || (have != -1 && have != 1 && d->at[i] != 1))
            REFUSE(EIN_SHAPE, "einsum '%.80s': %s%c has extents %" PRId64 " and %" PRId64, q->source,
                   is_letter((char)c) ? "letter " : "'...' axis -", is_letter((char)c) ? c : '0' + q->dots - c + 1,
                   have, d->at[i]);
        if (have == -1 || have == 1) q->extent[c] = d->at[i];
    }
    return EIN_OK;
}

static ein_status add_labels(graph *g, equation *q, spec *s, const letters *l)
{
    for (int i = 0; i < l->n; i++) {
        int c = l->at[i];
        if (q->label[c] >= 0) continue;
        if (s->n_labels == MAX_LABELS)
            REFUSE(EIN_UNSUPPORTED, "einsum '%.80s': more than %d letters", q->source, MAX_LABELS);
        const char *name = is_letter((char)c) ? (char[]){(char)c, 0} : (char[]){'e', (char)('0' + c - 1), 0};
        q->label[c] = ein__label_add(s, name, q->extent[c]);
    }
    return EIN_OK;
}

static void add_terms(const equation *q, const spec *s, index_map *m, const letters *l, const dims *d)
{
    for (int i = 0; i < l->n; i++) {
        int a = q->label[(int)l->at[i]];
        if (d->at[i] == s->labels[a].extent) ein__term_label(s, m, a);
        else ein__term_fixed(m, 1, 0);
    }
}

static ein_status add_equation(graph *g, equation *q, const value *operands, value *out)
{
    node op;
    dims shapes[MAX_CALL_OPERANDS], result = {.rank = q->result.n};
    for (int i = 0; i < q->n; i++) {
        shapes[i] = ein__dims(g, operands[i]);
        TRY(read_extents(g, q, i, &shapes[i]));
    }
    TRY(ein__node_start(g, &op, OP_MAP, "einsum", q->n, operands));
    spec *s = &op.spec;
    TRY(add_labels(g, q, s, &q->result));
    for (int i = 0; i < q->n; i++) TRY(add_labels(g, q, s, &q->operands[i]));
    for (int i = 0; i < q->n; i++) add_terms(q, s, &s->operands[i], &q->operands[i], &shapes[i]);
    for (int i = 0; i < result.rank; i++) result.at[i] = q->extent[(int)q->result.at[i]];
    add_terms(q, s, &s->results[0], &q->result, &result);
    return add_product(g, &op, &result, out);
}

static ein_status add_einsum(graph *g, const char *source, int n, const value *operands, value *out)
{
    equation q = {.source = source};
    bool arrow;
    for (int c = 0; c < 128; c++) q.extent[c] = q.label[c] = -1;
    if (source == NULL) REFUSE(EIN_INVALID, "einsum: equation is NULL");
    TRY(check_numbers(g, "einsum", n, operands));
    TRY(read_letters(g, &q, &arrow));
    if (q.n != n) REFUSE(EIN_INVALID, "einsum '%.80s': names %d operands, given %d", source, q.n, n);
    if (!arrow) TRY(default_result(g, &q));
    TRY(read_dots(g, &q, operands, arrow));
    TRY(check_result(g, &q));
    return add_equation(g, &q, operands, out);
}

ein_tensor ein__op_einsum(ein_graph *g, const char *source, int n, const ein_tensor *operands)
{
    if (!ein__call_begin(g, "einsum", n, operands)) return (ein_tensor){0};
    value v[MAX_CALL_OPERANDS], out = -1;
    for (int i = 0; i < n; i++) v[i] = ein__value(operands[i]);
    return ein__call_end(g, "einsum", add_einsum(&g->g, source, n, v, &out), &out);
}

/* ---- matmul ---- */

static dims leading(dims d, int drop)
{
    d.rank = d.rank > drop ? d.rank - drop : 0;
    return d;
}

/* a [.., m, k] (m absent: a vector), b [.., k, n] (n absent). */
static ein_status add_matmul(graph *g, const value *operands, value *out)
{
    node op;
    dims a = ein__dims(g, operands[0]), b = ein__dims(g, operands[1]), result;
    TRY(check_numbers(g, "matmul", 2, operands));
    if (a.rank == 0 || b.rank == 0)
        REFUSE(EIN_SHAPE, "matmul: ranks %d and %d: a scalar is not a matrix", a.rank, b.rank);
    bool has_m = a.rank > 1, has_n = b.rank > 1;
    i64 k = a.at[a.rank - 1], other = b.at[b.rank - 1 - has_n];
    if (k != other)
        REFUSE(EIN_SHAPE, "matmul: %s and %s disagree on k: %" PRId64 " and %" PRId64, ein__dims_text(a).s,
               ein__dims_text(b).s, k, other);
    dims batch[2] = {leading(a, 2), leading(b, 2)};
    TRY(ein__broadcast(g, "matmul", 2, batch, &result));
    TRY(ein__node_start(g, &op, OP_MAP, "matmul", 2, operands));
    spec *s = &op.spec;
    index_map *x = &s->operands[0], *w = &s->operands[1], *y = &s->results[0];
    int first = ein__label_dims(s, 'b', &result);
    ein__term_broadcast(s, x, &batch[0], &result, first);
    ein__term_broadcast(s, w, &batch[1], &result, first);
    ein__term_labels(s, y, first, result.rank);
    if (has_m) {
        int m = ein__label_add(s, "m", result.at[result.rank++] = a.at[a.rank - 2]);
        ein__term_label(s, x, m);
        ein__term_label(s, y, m);
    }
    int n = has_n ? ein__label_add(s, "n", result.at[result.rank++] = b.at[b.rank - 1]) : -1;
    int sum = ein__label_add(s, "k", k);
    ein__term_label(s, x, sum);
    ein__term_label(s, w, sum);
    if (has_n) {
        ein__term_label(s, w, n);
        ein__term_label(s, y, n);
    }
    return add_product(g, &op, &result, out);
}

ein_tensor ein__op_matmul(ein_graph *g, ein_tensor a, ein_tensor b)
{
    if (!ein__call_begin(g, "matmul", 2, (ein_tensor[]){a, b})) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "matmul", add_matmul(&g->g, (value[]){ein__value(a), ein__value(b)}, &out), &out);
}

/* ---- linear ---- */

/* x, weight and bias are of one type. */
static ein_status check_linear_types(graph *g, int n, const value *operands)
{
    static const char *const what[] = {"x", "weight", "bias"};
    ein_dtype dtype = g->values.items[operands[0]].dtype;
    TRY(ein__check_types(g, "linear", n, operands, TYPE_FLOAT));
    for (int i = 1; i < n; i++)
        if (g->values.items[operands[i]].dtype != dtype)
            REFUSE(EIN_DTYPE, "linear: %s is %s, x %s", what[i],
                   ein__dtype_name(g->values.items[operands[i]].dtype), ein__dtype_name(dtype));
    return EIN_OK;
}

static ein_status check_linear(graph *g, const dims *x, const dims *w)
{
    if (x->rank == 0) REFUSE(EIN_SHAPE, "linear: x is a scalar");
    if (w->rank != 2)
        REFUSE(EIN_SHAPE, "linear: weight %s has rank %d, not 2", ein__dims_text(*w).s, w->rank);
    if (x->at[x->rank - 1] == w->at[1]) return EIN_OK;
    REFUSE(EIN_SHAPE, "linear: x %s and weight %s disagree on k: %" PRId64 " and %" PRId64,
           ein__dims_text(*x).s, ein__dims_text(*w).s, x->at[x->rank - 1], w->at[1]);
}

/* The bias is a node of its own: it is added once, after the sum, and never to a partial. */
static ein_status add_bias(graph *g, i64 n, value bias, value *out)
{
    dims d = ein__dims(g, bias);
    if (d.rank != 1 || d.at[0] != n)
        REFUSE(EIN_SHAPE, "linear: bias %s for %" PRId64 " outputs", ein__dims_text(d).s, n);
    return ein__map_add(g, "linear bias", "x0 + x1", 2, (value[]){*out, bias}, 0, out);
}

/* Operands x, weight, bias; bias -1: none. */
static ein_status add_linear(graph *g, const value *operands, value *out)
{
    node op;
    value bias = operands[2];
    dims x = ein__dims(g, operands[0]), w = ein__dims(g, operands[1]), result = leading(x, 1);
    TRY(check_linear_types(g, bias >= 0 ? 3 : 2, operands));
    TRY(check_linear(g, &x, &w));
    TRY(ein__node_start(g, &op, OP_MAP, "linear", 2, operands));
    spec *s = &op.spec;
    int rows = ein__label_dims(s, 'd', &result);
    int n = ein__label_add(s, "n", w.at[0]), k = ein__label_add(s, "k", w.at[1]);
    ein__term_labels(s, &s->operands[0], rows, result.rank);
    ein__term_label(s, &s->operands[0], k);
    ein__term_label(s, &s->operands[1], n);
    ein__term_label(s, &s->operands[1], k);
    ein__term_labels(s, &s->results[0], rows, result.rank);
    ein__term_label(s, &s->results[0], n);
    result.at[result.rank++] = w.at[0];
    TRY(add_product(g, &op, &result, out));
    return bias >= 0 ? add_bias(g, w.at[0], bias, out) : EIN_OK;
}

ein_tensor ein__op_linear(ein_graph *g, ein_tensor x, ein_tensor weight, ein_tensor bias)
{
    ein_tensor operands[] = {x, weight, bias};
    if (!ein__call_begin(g, "linear", bias.id != 0 ? 3 : 2, operands)) return (ein_tensor){0};
    value v[] = {ein__value(x), ein__value(weight), ein__value(bias)}, out = -1;
    return ein__call_end(g, "linear", add_linear(&g->g, v, &out), &out);
}
