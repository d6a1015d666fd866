/* SPDX-License-Identifier: Apache-2.0 */
/* Small graphs written as text: labels "i=2 j=3", a map "i j", where a term is a label, "i-1<5" a range,
 * "i$0<8" an index moved by scalar 0, "=2<4" a fixed one, "2*i+3*k-1<9" or "-1*i+3<4" a window. */
#ifndef TESTS_CORE_REFERENCE_FIXTURE_H
#define TESTS_CORE_REFERENCE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/reference/reference.h"

enum { MAX_LEAVES = 16 };

typedef struct fixture {
    graph g;
    const void *data[MAX_LEAVES];
    i64 scalars[4];
    int threads;
    error error;
} fixture;

static inline void ok(ein_status s) { assert_int_equal(s, EIN_OK); }

static inline ein_status push_value(graph *g, value_info v)
{
    PUSH(&g->arena, &g->values, v);
    return EIN_OK;
}

/* All values are flat. */
static inline value value_add(graph *g, value_kind kind, int owner, int result, ein_dtype d, i64 numel)
{
    value_info info = {kind, owner, result, d, 1, {numel}};
    ok(push_value(g, info));
    return g->values.n - 1;
}

static inline ein_status push_leaf(graph *g, leaf l)
{
    PUSH(&g->arena, &g->leaves, l);
    return EIN_OK;
}

static inline ein_status push_node(graph *g, node n)
{
    PUSH(&g->arena, &g->nodes, n);
    return EIN_OK;
}

static inline ein_status push_output(graph *g, output o)
{
    PUSH(&g->arena, &g->outputs, o);
    return EIN_OK;
}

static inline ein_status push_scalar(graph *g, const char *name)
{
    PUSH(&g->arena, &g->scalars, name);
    return EIN_OK;
}

/* A leaf bound to a copy of `data`, or not bound. */
static inline value leaf_of(fixture *f, ein_dtype d, i64 numel, const void *data)
{
    int i = f->g.leaves.n;
    size_t bytes = (size_t)(numel * ein__dtype_bytes(d));
    void *copy = data != NULL ? ein__arena_get(&f->g.arena, bytes, 1) : NULL;
    if (copy != NULL) memcpy(copy, data, bytes);
    assert_true(i < MAX_LEAVES);
    value v = value_add(&f->g, VALUE_LEAF, i, 0, d, numel);
    ok(push_leaf(&f->g, (leaf){.kind = LEAF_INPUT, .value = v, .name = "x"}));
    f->data[i] = copy;
    return v;
}

/* A leaf of these numbers, rounded to the type. */
static inline value numbers_of(fixture *f, ein_dtype d, i64 numel, const double *numbers)
{
    char bytes[1024];
    assert_true(numel * ein__dtype_bytes(d) <= (i64)sizeof bytes);
    ein__dtype_convert(d, bytes, EIN_F64, numbers, numel);
    return leaf_of(f, d, numel, bytes);
}

#define NUMBERS(f, d, ...) \
    numbers_of((f), (d), sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})

#define FLOATS(f, ...) \
    leaf_of((f), EIN_F32, sizeof((float[]){__VA_ARGS__}) / sizeof(float), (float[]){__VA_ARGS__})

static inline void parse_labels(spec *s, const char *p)
{
    while (*p != 0) {
        char *end;
        label *l = &s->labels[s->n_labels++];
        l->name[0] = *p;
        l->granule = 1;
        l->extent = strtoll(p + 2, &end, 10);
        p = *end == ' ' ? end + 1 : end;
    }
}

static inline int find_label(const spec *s, char name)
{
    int l = 0;
    while (l < s->n_labels && s->labels[l].name[0] != name) l++;
    assert_true(l < s->n_labels);
    return l;
}

static inline term parse_window(const spec *s, const char *p)
{
    char *end;
    term t = {.kind = TERM_WINDOW, .label2 = -1, .scalar = -1, .step = strtoll(p, &end, 10)};
    t.label = find_label(s, end[1]);
    end += 2;
    while (*end != '<') {
        i64 n = strtoll(end, &end, 10);
        if (*end != '*') {
            t.offset = n;
            continue;
        }
        t.step2 = n;
        t.label2 = find_label(s, end[1]);
        end += 2;
    }
    t.extent = strtoll(end + 1, &end, 10);
    return t;
}

static inline term parse_term(const spec *s, const char *p)
{
    if (*p == '-' || (*p >= '0' && *p <= '9')) return parse_window(s, p);
    term t = {.kind = TERM_LABEL, .label = -1, .scalar = -1};
    char *end = (char *)(uintptr_t)p + 1;
    for (int l = 0; l < s->n_labels; l++) {
        if (s->labels[l].name[0] == *p) t.label = l;
    }
    assert_true(*p == '=' || t.label >= 0);
    t.extent = t.label >= 0 ? s->labels[t.label].extent : 0;
    if (*p == '=') t.kind = TERM_FIXED;
    if (*end != '$' && *end != '<' && *end != ' ' && *end != 0) {
        if (t.kind == TERM_LABEL) t.kind = TERM_RANGE;
        t.offset = strtoll(end, &end, 10);
    }
    if (*end == '$') {
        t.kind = TERM_ALL;
        t.scalar = (int)strtol(end + 1, &end, 10);
    }
    if (*end == '<') t.extent = strtoll(end + 1, &end, 10);
    assert_true(*end == ' ' || *end == 0);
    return t;
}

static inline index_map parse_map(const spec *s, const char *p)
{
    index_map m = {0};
    while (*p != 0) {
        m.terms[m.n++] = parse_term(s, p);
        p += strcspn(p, " ");
        if (*p == ' ') p++;
    }
    return m;
}

/* A node of operands x0, x1, ... with maps, and results; both lists of maps end with NULL. */
static inline node node_of(fixture *f, op_kind kind, const char *labels, const value *operands,
                           const char *const *maps, const char *const *results)
{
    node n = {.kind = kind, .name = "op", .scalar = -1};
    n.attention.position = n.attention.length = -1;
    spec *s = &n.spec;
    parse_labels(s, labels);
    while (maps[s->n_operands] != NULL) s->n_operands++;
    while (results[s->n_results] != NULL) s->n_results++;
    s->n_states = s->n_results;
    s->operands = ein__arena_get(&f->g.arena, (size_t)s->n_operands, sizeof *s->operands);
    n.operands = ein__arena_get(&f->g.arena, (size_t)s->n_operands, sizeof *n.operands);
    n.results = ein__arena_get(&f->g.arena, (size_t)s->n_results, sizeof *n.results);
    for (int i = 0; i < s->n_operands; i++) {
        s->operands[i] = parse_map(s, maps[i]);
        n.operands[i] = operands[i];
        assert_int_equal(ein__map_numel(&s->operands[i]), ein__value_numel(&f->g, operands[i]));
    }
    for (int i = 0; i < s->n_results; i++) s->results[i] = s->states[i] = parse_map(s, results[i]);
    return n;
}

#define MAPS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define VALUES(...) ((const value[]){__VA_ARGS__})

static inline expr parse(fixture *f, const char *source)
{
    expr x;
    ok(ein__expr_parse(&f->g.arena, source, "x", 8, NULL, 0, &x, NULL));
    return x;
}

/* Operand that gives a kind's first result its type; -1: it is f32, as is any other result, but topk's indices. */
static inline int typed_by(op_kind kind)
{
    return kind == OP_MOVE || kind == OP_APPEND || kind == OP_SELECT ? 0 : kind == OP_GATHER ? 1 : -1;
}

static inline value add(fixture *f, node n)
{
    for (int i = 0; i < n.spec.n_results; i++) {
        i64 numel = ein__map_numel(&n.spec.results[i]);
        int by = typed_by(n.kind);
        ein_dtype d = by < 0 ? EIN_F32 : i > 0 ? EIN_I64 : f->g.values.items[n.operands[by]].dtype;
        n.results[i] = value_add(&f->g, VALUE_RESULT, f->g.nodes.n, i, d, numel);
    }
    ok(push_node(&f->g, n));
    return n.results[0];
}

/* The result has type `d`. */
static inline value typed(fixture *f, ein_dtype d, value v)
{
    f->g.values.items[v].dtype = d;
    return v;
}

static inline row_stage stage_of(fixture *f, merge_kind kind, expr body)
{
    merge *m;
    ok(ein__merge_make(&f->g.arena, kind, 1, EIN_F32, &m));
    return (row_stage){m, {body}};
}

static inline void out(fixture *f, value v) { ok(push_output(&f->g, (output){"y", v})); }

/* `kind` -1: no merge. */
static inline value map_of(fixture *f, const char *labels, const char *body, int kind, double scale,
                    const value *operands, const char *const *maps, const char *result)
{
    node n = node_of(f, OP_MAP, labels, operands, maps, MAPS(result));
    merge *m = NULL;
    if (kind >= 0) ok(ein__merge_make(&f->g.arena, (merge_kind)kind, scale, EIN_F32, &m));
    n.spec.merge = m;
    n.body[0] = parse(f, body);
    n.product = kind == MERGE_SUM && scale == 1 && strcmp(body, "x0 * x1") == 0;
    return add(f, n);
}

/* Give a node a merge of states of type `d`, and what a point gives to each. */
static inline void merge_by(fixture *f, node *n, merge_kind kind, ein_dtype d, const char *const *bodies)
{
    merge *m;
    ok(ein__merge_make(&f->g.arena, kind, 1, d, &m));
    n->spec.merge = m;
    for (int k = 0; k < m->n_states; k++) n->body[k] = parse(f, bodies[k]);
}

typedef ein_status (*evaluator)(const graph *, const reference_bindings *, double *const *, error *);

static inline ein_status evaluate(fixture *f, evaluator e, double *const *outputs)
{
    reference_bindings b = {.leaves = f->data, .scalars = f->scalars, .threads = f->threads};
    return e(&f->g, &b, outputs, &f->error);
}

static inline void done(fixture *f)
{
    ein__error_reset(&f->error);
    ein__arena_free(&f->g.arena);
    assert_int_equal(ein__alloc_live(), 0);
}

/* Evaluate the only output in both precisions; compare within f32's rounding of small exact values. */
static inline void expect_n(fixture *f, int n, const double *want)
{
    double got[64];
    double *outputs[1] = {got};
    evaluator both[2] = {ein__reference_f64, ein__reference_f32};
    assert_int_equal(ein__value_numel(&f->g, f->g.outputs.items[0].value), n);
    for (int p = 0; p < 2; p++) {
        memset(got, 0x55, sizeof got);
        ok(evaluate(f, both[p], outputs));
        for (int i = 0; i < n; i++) {
            double room = (p == 0 ? 1e-14 : 2e-7) * (fabs(want[i]) + 1);
            bool same = got[i] == want[i] || (isnan(got[i]) && isnan(want[i]));
            if (!same && !(fabs(got[i] - want[i]) <= room)) {
                fail_msg("precision %d, element %d is %.17g, not %.17g", p, i, got[i], want[i]);
            }
        }
    }
    done(f);
}

#define EXPECT(f, v, ...)                                                                             \
    do {                                                                                              \
        out((f), (v));                                                                                \
        expect_n((f), (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__}); \
    } while (0)

static inline void expect_failure(fixture *f, value v, ein_status status, const char *line)
{
    double got[64];
    double *outputs[1] = {got};
    out(f, v);
    assert_int_equal(evaluate(f, ein__reference_f64, outputs), status);
    assert_int_equal(f->error.status, status);
    assert_string_equal(f->error.line, line);
    done(f);
}

static inline uint32_t next(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

static inline float *random_floats(uint32_t *seed, i64 n)
{
    float *x = ein__calloc((size_t)n, sizeof *x);
    for (i64 i = 0; i < n; i++) x[i] = (float)next(seed) / (1 << 23) - 1;
    return x;
}

typedef struct attention_case {
    int b, h, g, s, t, d, e;
    bool causal;
    i64 position, length; /* length -1: all */
    i64 window;
    double softcap;
    const char *mask; /* the fourth operand's map, or NULL */
} attention_case;

/* `operands`: q, k, v, and the mask if the case has one. */
static inline node attention_node(fixture *f, const attention_case *c, const value *operands, bool partial)
{
    char labels[96];
    snprintf(labels, sizeof labels, "b=%d h=%d g=%d s=%d t=%d d=%d e=%d", c->b, c->h, c->g, c->s, c->t, c->d,
             c->e);
    node n = node_of(f, OP_ATTENTION, labels, operands, MAPS("b h g s d", "b h t d", "b h t e", c->mask),
                     partial ? MAPS("b h g s", "b h g s", "b h g s e") : MAPS("b h g s e"));
    ok(push_scalar(&f->g, "position"));
    ok(push_scalar(&f->g, "length"));
    f->scalars[0] = c->position;
    f->scalars[1] = c->length;
    n.attention = (attention_attrs){.causal = c->causal,
                                    .scale = 0.5,
                                    .length = c->length < 0 ? -1 : 1,
                                    .window = c->window,
                                    .softcap = c->softcap};
    return n;
}

#endif
