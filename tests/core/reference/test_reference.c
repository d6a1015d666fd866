/* SPDX-License-Identifier: Apache-2.0 */
/* The evaluator against values worked out by hand, and its fast paths against plain loops. Graphs are written
 * as text: labels "i=2 j=3", a map "i j", where a term is a label, "i-1<5" a range, "i$0<8" an index moved by
 * scalar 0, "=2<4" a fixed one. */
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

static void ok(ein_status s) { assert_int_equal(s, EIN_OK); }

static value value_add(graph *g, value_kind kind, int owner, int result, ein_dtype d, int rank, const i64 *shape)
{
    value_info info = {.kind = kind, .owner = owner, .result = result, .dtype = d, .rank = rank};
    for (int i = 0; i < rank; i++) info.shape[i] = shape[i];
    value_info *items;
    assert_int_equal(ein__grow(&g->arena, (void **)&g->values.items, g->values.n, &g->values.room, sizeof info), 0);
    items = g->values.items;
    items[g->values.n] = info;
    return g->values.n++;
}

static ein_status push_leaf(graph *g, leaf l)
{
    PUSH(&g->arena, &g->leaves, l);
    return EIN_OK;
}

static ein_status push_node(graph *g, node n)
{
    PUSH(&g->arena, &g->nodes, n);
    return EIN_OK;
}

static ein_status push_output(graph *g, output o)
{
    PUSH(&g->arena, &g->outputs, o);
    return EIN_OK;
}

static ein_status push_scalar(graph *g, const char *name)
{
    PUSH(&g->arena, &g->scalars, name);
    return EIN_OK;
}

/* A leaf bound to a copy of `data`, or not bound. */
static value leaf_of(fixture *f, ein_dtype d, i64 numel, const void *data)
{
    int i = f->g.leaves.n;
    size_t bytes = (size_t)(numel * ein__dtype_bytes(d));
    void *copy = data != NULL ? ein__arena_get(&f->g.arena, bytes, 1) : NULL;
    if (copy != NULL) memcpy(copy, data, bytes);
    assert_true(i < MAX_LEAVES);
    value v = value_add(&f->g, VALUE_LEAF, i, 0, d, 1, &numel);
    ok(push_leaf(&f->g, (leaf){.kind = LEAF_INPUT, .value = v, .name = "x"}));
    f->data[i] = copy;
    return v;
}

#define FLOATS(f, ...) leaf_of((f), EIN_F32, sizeof((float[]){__VA_ARGS__}) / sizeof(float), (float[]){__VA_ARGS__})

static void parse_labels(spec *s, const char *p)
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

static term parse_term(const spec *s, const char *p)
{
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

static index_map parse_map(const spec *s, const char *p)
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
static node node_of(fixture *f, op_kind kind, const char *labels, const value *operands, const char *const *maps,
                    const char *const *results)
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

static expr parse(fixture *f, const char *source)
{
    expr x;
    ok(ein__expr_parse(&f->g.arena, source, "x", 8, NULL, 0, &x, NULL));
    return x;
}

static value add(fixture *f, node n)
{
    ein_dtype d = n.kind == OP_MOVE ? f->g.values.items[n.operands[0]].dtype : EIN_F32;
    for (int i = 0; i < n.spec.n_results; i++) {
        i64 numel = ein__map_numel(&n.spec.results[i]);
        n.results[i] = value_add(&f->g, VALUE_RESULT, f->g.nodes.n, i, d, 1, &numel);
    }
    ok(push_node(&f->g, n));
    return n.results[0];
}

static void out(fixture *f, value v) { ok(push_output(&f->g, (output){"y", v})); }

/* `kind` -1: no merge. */
static value map_of(fixture *f, const char *labels, const char *body, int kind, double scale,
                    const value *operands, const char *const *maps, const char *result)
{
    node n = node_of(f, OP_MAP, labels, operands, maps, MAPS(result));
    merge *m = NULL;
    if (kind >= 0) ok(ein__merge_make(&f->g.arena, (merge_kind)kind, scale, &m));
    n.spec.merge = m;
    n.body = parse(f, body);
    n.product = kind == MERGE_SUM && scale == 1 && strcmp(body, "x0 * x1") == 0;
    return add(f, n);
}

typedef ein_status (*evaluator)(const graph *, const reference_bindings *, double *const *, error *);

static ein_status evaluate(fixture *f, evaluator e, double *const *outputs)
{
    reference_bindings b = {.leaves = f->data, .scalars = f->scalars, .threads = f->threads};
    return e(&f->g, &b, outputs, &f->error);
}

static void done(fixture *f)
{
    ein__error_reset(&f->error);
    ein__arena_free(&f->g.arena);
    assert_int_equal(ein__alloc_live(), 0);
}

/* Evaluate the only output in both precisions; compare within f32's rounding of small exact values. */
static void expect_n(fixture *f, int n, const double *want)
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
            if (!(fabs(got[i] - want[i]) <= room) && !(isnan(got[i]) && isnan(want[i])) && got[i] != want[i]) {
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

static void expect_failure(fixture *f, value v, ein_status status, const char *line)
{
    double got[64];
    double *outputs[1] = {got};
    out(f, v);
    assert_int_equal(evaluate(f, ein__reference_f64, outputs), status);
    assert_int_equal(f->error.status, status);
    assert_string_equal(f->error.line, line);
    done(f);
}

/* ---- map ---- */

static void test_map_broadcast(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 1, 2, 3, 4, 5, 6), y = FLOATS(&f, 10, 20, 30);
    EXPECT(&f, map_of(&f, "i=2 j=3", "x0 * 2 + x1", -1, 1, VALUES(x, y), MAPS("i j", "j"), "i j"),
           12, 24, 36, 18, 30, 42);
}

static void test_map_merges(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 1, 2, 3, 4, -5, 6);
    EXPECT(&f, map_of(&f, "i=2 j=3", "x0", MERGE_SUM, 1, VALUES(x), MAPS("i j"), "j"), 5, -3, 9);
    f = (fixture){0};
    x = FLOATS(&f, 1, 2, 3, 4, -5, 6);
    EXPECT(&f, map_of(&f, "i=2 j=3", "x0", MERGE_SUM, 0.25, VALUES(x), MAPS("i j"), "i"), 1.5, 1.25);
    f = (fixture){0};
    x = FLOATS(&f, 1, 2, 3, 4, -5, 6);
    EXPECT(&f, map_of(&f, "i=2 j=3", "x0", MERGE_MAX, 1, VALUES(x), MAPS("i j"), "i"), 3, 6);
    f = (fixture){0};
    x = FLOATS(&f, 1, 2, NAN, 4, -INFINITY, 6);
    EXPECT(&f, map_of(&f, "i=2 j=3", "x0", MERGE_MIN, 1, VALUES(x), MAPS("i j"), "i"), NAN, -INFINITY);
    f = (fixture){0};
    x = leaf_of(&f, EIN_F32, 0, "");
    EXPECT(&f, map_of(&f, "i=2 j=0", "x0", MERGE_SUM, INFINITY, VALUES(x), MAPS("i j"), "i"), NAN, NAN);
}

/* A label that may not be cut is folded all the same. */
static void test_map_whole_label(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 1, 2, 3, 4);
    value y = map_of(&f, "i=2 j=2", "x0", MERGE_SUM, 1, VALUES(x), MAPS("i j"), "i");
    f.g.nodes.items[0].spec.labels[1].whole = true;
    EXPECT(&f, y, 3, 7);
}

static void test_map_ranges(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 1, 2, 3, 4);
    /* The product of x and x moved by one: the join has no point where either is out of range. */
    EXPECT(&f, map_of(&f, "i=5", "x0 + x1", -1, 1, VALUES(x, x), MAPS("i<4", "i-1<4"), "i"), 0, 3, 5, 7, 0);
    f = (fixture){0};
    x = FLOATS(&f, 1, 2, 3, 4);
    EXPECT(&f, map_of(&f, "i=5", "x0", MERGE_MIN, 1, VALUES(x), MAPS("i-2<4"), ""), 1);
    /* Both halves of a row, as rotary embedding reads them. */
    f = (fixture){0};
    x = FLOATS(&f, 1, 2, 3, 4);
    EXPECT(&f, map_of(&f, "i=2", "x0 * 10 + x1", -1, 1, VALUES(x, x), MAPS("=0<2 i", "=1<2 i"), "i"), 13, 24);
    /* The diagonal. */
    f = (fixture){0};
    x = FLOATS(&f, 1, 2, 3, 4);
    EXPECT(&f, map_of(&f, "i=2", "x0", -1, 1, VALUES(x), MAPS("i i"), "i"), 1, 4);
}

static void test_map_scalar(void **state)
{
    (void)state;
    fixture f = {.scalars = {2}};
    ok(push_scalar(&f.g, "position"));
    value x = FLOATS(&f, 1, 2, 3, 4);
    EXPECT(&f, map_of(&f, "i=2", "x0", -1, 1, VALUES(x), MAPS("i$0<4"), "i"), 3, 4);
    f = (fixture){.scalars = {3}};
    ok(push_scalar(&f.g, "position"));
    x = FLOATS(&f, 1, 2, 3, 4);
    expect_failure(&f, map_of(&f, "i=2", "x0", -1, 1, VALUES(x), MAPS("i$0<4"), "i"), EIN_INVALID,
                   "op: scalar position is 3: rows 3 to 4 of 4");
}

/* Each precision adds in order, in its own type. */
static void test_sum_precision(void **state)
{
    (void)state;
    evaluator both[2] = {ein__reference_f64, ein__reference_f32};
    for (int path = 0; path < 2; path++) {
        fixture f = {0};
        value x = FLOATS(&f, 1e8f, 1, -1e8f, 1), y = FLOATS(&f, 1, 1, 1, 1, 1, 1, 1, 1);
        out(&f, map_of(&f, "i=2 k=4", "x0 * x1", MERGE_SUM, 1, VALUES(x, y), MAPS("k", "i k"), "i"));
        f.g.nodes.items[0].product = path == 0;
        double got[2];
        for (int p = 0; p < 2; p++) {
            ok(evaluate(&f, both[p], (double *[]){got}));
            assert_true(got[0] == (p == 0 ? 2 : 1) && got[1] == got[0]);
        }
        done(&f);
    }
}

/* ---- products ---- */

static uint32_t next(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

static float *random_floats(uint32_t *seed, i64 n)
{
    float *x = ein__calloc((size_t)n, sizeof *x);
    for (i64 i = 0; i < n; i++) x[i] = (float)next(seed) / (1 << 23) - 1;
    return x;
}

/* Extents of labels a b m o n p k l; maps of operands and result name all classes twice. */
static void check_product(const int *e, const char *x_map, const char *y_map, const char *result, uint32_t *seed)
{
    char labels[128];
    i64 numel[2] = {1, 1}, points = 1;
    for (int i = 0, at = 0; i < 8; i++) {
        at += snprintf(labels + at, sizeof labels - (size_t)at, "%s%c=%d", i > 0 ? " " : "", "abmonpkl"[i], e[i]);
        if (strchr(x_map, "abmonpkl"[i]) != NULL) numel[0] *= e[i];
        if (strchr(y_map, "abmonpkl"[i]) != NULL) numel[1] *= e[i];
        if (strchr(result, "abmonpkl"[i]) != NULL) points *= e[i];
    }
    float *data[2] = {random_floats(seed, numel[0]), random_floats(seed, numel[1])};
    double *got[6];
    for (int i = 0; i < 6; i++) got[i] = ein__calloc((size_t)points, sizeof *got[i]);
    fixture f = {0};
    value x = leaf_of(&f, EIN_F32, numel[0], data[0]), y = leaf_of(&f, EIN_F32, numel[1], data[1]);
    out(&f, map_of(&f, labels, "x0 * x1", MERGE_SUM, 1, VALUES(x, y), MAPS(x_map, y_map), result));
    assert_true(f.g.nodes.items[0].product);
    for (int i = 0; i < 6; i++) {
        f.g.nodes.items[0].product = i < 4;
        f.threads = 1 + (i / 2) % 2;
        ok(evaluate(&f, i % 2 == 0 ? ein__reference_f64 : ein__reference_f32, &got[i]));
    }
    for (int i = 2; i < 6; i++) assert_memory_equal(got[i], got[i % 2], (size_t)points * sizeof *got[i]);
    for (int i = 0; i < 6; i++) ein__free(got[i]);
    ein__free(data[0]);
    ein__free(data[1]);
    done(&f);
}

/* Blocked and plain have the same bits, for any number of threads. */
static void test_product_paths(void **state)
{
    (void)state;
    uint32_t seed = 7;
    static const int sizes[] = {0, 1, 2, 3, 5, 1, 2, 3};
    for (int i = 0; i < 200; i++) {
        int e[8];
        for (int l = 0; l < 8; l++) e[l] = sizes[next(&seed) % 40 == 0 ? 0 : next(&seed) % 7 + 1];
        check_product(e, "a m k b o l", "l p b k n a", "o b n a p m", &seed);
        check_product(e, "k m a", "a n p k", "a b p m n", &seed);
        check_product(e, "m o k l", "l n", "m o n", &seed);
        check_product(e, "k l", "k l p n", "n p", &seed);
    }
    check_product((const int[]){2, 1, 131, 2, 67, 1, 259, 2}, "a m o k l", "n l k a", "a m o n", &seed);
    check_product((const int[]){1, 1, 1, 1, 70, 1, 600, 1}, "m k", "k n", "m n", &seed);
    check_product((const int[]){1, 1, 129, 1, 65, 1, 3, 1}, "k m", "n k", "n m", &seed);
}

/* By hand, so that both paths cannot be wrong alike; one operand is made of integers. */
static void test_product_values(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 1, 2, 3, 4, 5, 6), y = leaf_of(&f, EIN_I32, 6, (int32_t[]){1, 0, -1, 2, 1, 0});
    EXPECT(&f, map_of(&f, "m=2 n=2 k=3", "x0 * x1", MERGE_SUM, 1, VALUES(x, y), MAPS("m k", "n k"), "m n"),
           -2, 4, -2, 13);
}

/* ---- rows ---- */

static void test_row_softmax(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 0, 1, 1000, 3, 3, 1000);
    node n = node_of(&f, OP_ROW, "i=3 j=2", VALUES(x), MAPS("j i"), MAPS("j i"));
    n.spec.two_step = 2;
    n.n_stages = 2;
    n.stages[0] = (row_stage){MERGE_MAX, parse(&f, "x0")};
    n.stages[1] = (row_stage){MERGE_SUM, parse(&f, "exp(x0 - x1)")};
    n.body = parse(&f, "exp(x0 - x1) / x2");
    double a = 1 / (1 + exp(3)), b = 1 / (1 + exp(2));
    EXPECT(&f, add(&f, n), a, b, 0.5, 1 - a, 1 - b, 0.5);
}

static void test_row_rms_norm(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 3, 4, 0, 0), w = FLOATS(&f, 1, 2);
    node n = node_of(&f, OP_ROW, "i=2 j=2", VALUES(x, w), MAPS("i j", "j"), MAPS("i j"));
    n.spec.two_step = 2;
    n.n_stages = 1;
    n.stages[0] = (row_stage){MERGE_SUM, parse(&f, "x0 * x0")};
    n.body = parse(&f, "x0 / sqrt(x2 / 2 + 0.5) * x1");
    double r = sqrt(13);
    EXPECT(&f, add(&f, n), 3 / r, 8 / r, 0, 0);
}

/* ---- attention ---- */

typedef struct attention_case {
    int b, h, g, s, t, d, e;
    bool causal;
    i64 position, length; /* length -1: all */
} attention_case;

static node attention_node(fixture *f, const attention_case *c, const value *qkv, bool partial)
{
    char labels[96];
    snprintf(labels, sizeof labels, "b=%d h=%d g=%d s=%d t=%d d=%d e=%d", c->b, c->h, c->g, c->s, c->t, c->d, c->e);
    node n = node_of(f, OP_ATTENTION, labels, qkv, MAPS("b h g s d", "b h t d", "b h t e"),
                     partial ? MAPS("b h g s", "b h g s", "b h g s e") : MAPS("b h g s e"));
    ok(push_scalar(&f->g, "position"));
    ok(push_scalar(&f->g, "length"));
    f->scalars[0] = c->position;
    f->scalars[1] = c->length;
    n.attention = (attention_attrs){c->causal, 0.5, 0, c->length < 0 ? -1 : 1};
    return n;
}

static void test_attention_values(void **state)
{
    (void)state;
    /* Scores 0.5 * q k: 0 and 1; weights e^-1 and 1. */
    double w = exp(-1), l = 1 + w;
    attention_case c = {1, 1, 1, 2, 2, 1, 2, false, 0, -1};
    fixture f = {0};
    value q = FLOATS(&f, 2, 0), k = FLOATS(&f, 0, 1), v = FLOATS(&f, 1, 2, 3, 4);
    EXPECT(&f, add(&f, attention_node(&f, &c, VALUES(q, k, v), false)), (w + 3) / l, (2 * w + 4) / l, 2, 3);
    c.causal = true;
    f = (fixture){0};
    q = FLOATS(&f, 2, 0), k = FLOATS(&f, 0, 1), v = FLOATS(&f, 1, 2, 3, 4);
    EXPECT(&f, add(&f, attention_node(&f, &c, VALUES(q, k, v), false)), 1, 2, 2, 3);
    /* Nothing seen by the first query; the second sees one key. A NaN in a key that is not seen is not read. */
    c.position = -1;
    f = (fixture){0};
    q = FLOATS(&f, 2, 0), k = FLOATS(&f, 0, NAN), v = FLOATS(&f, 1, 2, NAN, NAN);
    EXPECT(&f, add(&f, attention_node(&f, &c, VALUES(q, k, v), false)), 0, 0, 1, 2);
    c = (attention_case){1, 1, 1, 2, 2, 1, 2, true, 0, 1};
    f = (fixture){0};
    q = FLOATS(&f, 2, 0), k = FLOATS(&f, 0, 1), v = FLOATS(&f, 1, 2, 3, 4);
    EXPECT(&f, add(&f, attention_node(&f, &c, VALUES(q, k, v), false)), 1, 2, 1, 2);
}

static void test_attention_partial(void **state)
{
    (void)state;
    double w = exp(-1), got[3][4];
    attention_case c = {1, 1, 2, 1, 2, 1, 2, true, 1, -1};
    fixture f = {0};
    value q = FLOATS(&f, 2, 0), k = FLOATS(&f, 0, 1), v = FLOATS(&f, 1, 2, 3, 4);
    value m = add(&f, attention_node(&f, &c, VALUES(q, k, v), true));
    for (int i = 0; i < 3; i++) out(&f, m + i);
    ok(evaluate(&f, ein__reference_f64, (double *[]){got[0], got[1], got[2]}));
    assert_true(got[0][0] == 1 && got[0][1] == 0);
    assert_true(got[1][0] == 1 + w && got[1][1] == 2);
    assert_true(got[2][0] == w + 3 && got[2][1] == 2 * w + 4 && got[2][2] == 4 && got[2][3] == 6);
    f.scalars[0] = -5;
    ok(evaluate(&f, ein__reference_f32, (double *[]){got[0], got[1], got[2]}));
    assert_true(got[0][0] == (double)-3e38f && got[1][0] == 0 && got[2][0] == 0 && got[2][3] == 0);
    done(&f);
}

/* The textbook loop, for one query. */
static void plain_attention(const attention_case *c, const float *q, const float *k, const float *v, int s, double *o)
{
    double l = 0, top = -INFINITY;
    for (int pass = 0; pass < 2; pass++) {
        for (int t = 0; t < c->t; t++) {
            if ((c->causal && t > s + c->position) || (c->length >= 0 && t >= c->length)) continue;
            double score = 0;
            for (int d = 0; d < c->d; d++) score += (double)q[d] * (double)k[t * c->d + d];
            score *= 0.5;
            if (pass == 0) {
                top = score > top ? score : top;
                continue;
            }
            l += exp(score - top);
            for (int e = 0; e < c->e; e++) o[e] += exp(score - top) * (double)v[t * c->e + e];
        }
    }
    for (int e = 0; e < c->e; e++) o[e] = l == 0 ? 0 : o[e] / l;
}

static void check_attention(const attention_case *c, uint32_t *seed)
{
    i64 rows = c->b * c->h * c->g * c->s, heads = c->b * c->h, points = rows * c->e;
    float *q = random_floats(seed, rows * c->d), *k = random_floats(seed, heads * c->t * c->d);
    float *v = random_floats(seed, heads * c->t * c->e), *plain = ein__calloc((size_t)points, sizeof *plain);
    double *got[4], *want = ein__calloc((size_t)points, sizeof *want);
    for (int i = 0; i < 4; i++) got[i] = ein__calloc((size_t)points, sizeof *got[i]);
    for (i64 r = 0; r < rows; r++) {
        i64 head = r / (c->g * c->s);
        plain_attention(c, q + r * c->d, k + head * c->t * c->d, v + head * c->t * c->e, (int)(r % c->s),
                        want + r * c->e);
    }
    fixture f = {0};
    value x = leaf_of(&f, EIN_F32, rows * c->d, q), y = leaf_of(&f, EIN_F32, heads * c->t * c->d, k);
    value z = leaf_of(&f, EIN_F32, heads * c->t * c->e, v);
    out(&f, add(&f, attention_node(&f, c, VALUES(x, y, z), false)));
    for (int i = 0; i < 4; i++) {
        f.threads = 1 + i / 2;
        ok(evaluate(&f, i % 2 == 0 ? ein__reference_f64 : ein__reference_f32, &got[i]));
    }
    for (int i = 2; i < 4; i++) assert_memory_equal(got[i], got[i - 2], (size_t)points * sizeof *got[i]);
    for (i64 i = 0; i < points; i++) {
        assert_true(fabs(got[0][i] - want[i]) < 1e-13);
        assert_true(fabs(got[1][i] - want[i]) < 1e-5);
        plain[i] = (float)got[1][i];
    }
    assert_true(ein__compare(plain, got[0], got[1], rows, c->e, 1e-5).ok);
    for (int i = 0; i < 4; i++) ein__free(got[i]);
    void *all[] = {q, k, v, plain, want};
    for (int i = 0; i < 5; i++) ein__free(all[i]);
    done(&f);
}

static void test_attention_random(void **state)
{
    (void)state;
    uint32_t seed = 3;
    for (int i = 0; i < 60; i++) {
        attention_case c = {1 + (int)(next(&seed) % 2), 1 + (int)(next(&seed) % 3), 1 + (int)(next(&seed) % 3),
                            1 + (int)(next(&seed) % 21), (int)(next(&seed) % 140), (int)(next(&seed) % 9),
                            1 + (int)(next(&seed) % 11), next(&seed) % 2 != 0, (i64)(next(&seed) % 80) - 20,
                            (i64)(next(&seed) % 90) - 30};
        if (c.length < 0) c.length = -1;
        check_attention(&c, &seed);
    }
}

/* ---- gather, move, append, custom ---- */

static void test_gather(void **state)
{
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        fixture f = {0};
        value table = FLOATS(&f, 1, 2, 3, 4, 5, 6);
        value ids = wide ? leaf_of(&f, EIN_I64, 3, (i64[]){2, 0, 2}) : leaf_of(&f, EIN_I32, 3, (int32_t[]){2, 0, 2});
        node n = node_of(&f, OP_GATHER, "r=3 v=3 d=2", VALUES(ids, table), MAPS("r", "v d"), MAPS("r d"));
        EXPECT(&f, add(&f, n), 5, 6, 1, 2, 5, 6);
    }
    fixture f = {0};
    value table = FLOATS(&f, 1, 2, 3), ids = leaf_of(&f, EIN_I64, 2, (i64[]){1, 3});
    node n = node_of(&f, OP_GATHER, "r=2 v=3 d=1", VALUES(ids, table), MAPS("r", "v d"), MAPS("r d"));
    expect_failure(&f, add(&f, n), EIN_INVALID, "op: id 3 at 1 is not in a table of 3 rows");
    f = (fixture){0};
    table = FLOATS(&f, 1, 2, 3);
    n = node_of(&f, OP_GATHER, "r=3 v=3 d=1", VALUES(table, table), MAPS("r", "v d"), MAPS("r d"));
    expect_failure(&f, add(&f, n), EIN_DTYPE, "op: ids are not i32 or i64");
}

static void test_move(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 1, 2, 3, 4, 5, 6);
    EXPECT(&f, add(&f, node_of(&f, OP_MOVE, "i=2 j=3", VALUES(x), MAPS("i j"), MAPS("j i"))), 1, 4, 2, 5, 3, 6);
    f = (fixture){0};
    x = FLOATS(&f, 1, 2, 3, 4, 5, 6);
    EXPECT(&f, add(&f, node_of(&f, OP_MOVE, "i=2 j=1", VALUES(x), MAPS("i j+1<3"), MAPS("i j"))), 2, 5);
    f = (fixture){0};
    x = FLOATS(&f, 1, 2, 3, 4);
    value y = FLOATS(&f, 5, 6);
    EXPECT(&f, add(&f, node_of(&f, OP_MOVE, "i=2 j=3", VALUES(x, y), MAPS("i j<2", "i j-2<1"), MAPS("i j"))),
           1, 2, 5, 3, 4, 6);
    /* An operand that was computed beside one that was not: storages differ in f64. */
    f = (fixture){0};
    x = FLOATS(&f, 1, 2);
    y = map_of(&f, "i=2", "x0 / 3", -1, 1, VALUES(x), MAPS("i"), "i");
    EXPECT(&f, add(&f, node_of(&f, OP_MOVE, "j=4", VALUES(x, y), MAPS("j<2", "j-2<2"), MAPS("j"))),
           1, 2, 1 / 3.0, 2 / 3.0);
}

/* Integers that no float holds come through. */
static void test_move_integers(void **state)
{
    (void)state;
    fixture f = {0};
    double got[2];
    value x = leaf_of(&f, EIN_I64, 2, (i64[]){16777217, 5});
    out(&f, add(&f, node_of(&f, OP_MOVE, "i=2", VALUES(x), MAPS("i"), MAPS("i"))));
    ok(evaluate(&f, ein__reference_f32, (double *[]){got}));
    assert_true(got[0] == 16777217 && got[1] == 5);
    done(&f);
}

static node append_node(fixture *f, i64 position)
{
    value state = FLOATS(f, 1, 2, 3, 4, 5, 6, 7, 8), rows = FLOATS(f, 10, 20);
    node n = node_of(f, OP_APPEND, "h=2 t=4 s=1", VALUES(state, rows), MAPS("h t", "h s"), MAPS("h t"));
    ok(push_scalar(&f->g, "position"));
    f->scalars[0] = position;
    n.scalar = 0;
    n.append_t = 1;
    n.append_s = 2;
    return n;
}

static void test_append(void **state)
{
    (void)state;
    fixture f = {0};
    EXPECT(&f, add(&f, append_node(&f, 2)), 1, 2, 10, 4, 5, 6, 20, 8);
    f = (fixture){0};
    expect_failure(&f, add(&f, append_node(&f, 4)), EIN_INVALID, "op: 1 rows at position 4 of a state of 4");
    f = (fixture){0};
    expect_failure(&f, add(&f, append_node(&f, -1)), EIN_INVALID, "op: 1 rows at position -1 of a state of 4");
}

static void custom_reference(const ein_array *operands, ein_array *results, void *user)
{
    ++*(int *)user;
    for (i64 i = 0; i < operands[0].shape[0]; i++) {
        results[0].data[i] = operands[0].data[i] / 3;
        results[1].data[0] += operands[0].data[i];
    }
}

static node custom_node(fixture *f, value x, int *calls)
{
    node n = node_of(f, OP_CUSTOM, "i=2", VALUES(x), MAPS("i"), MAPS("i", ""));
    n.custom = (custom_attrs){.name = "third", .reference = custom_reference, .user = calls};
    return n;
}

static void test_custom(void **state)
{
    (void)state;
    int calls = 0;
    double got[2][2];
    fixture f = {0};
    value x = FLOATS(&f, 1, 2), y = add(&f, custom_node(&f, x, &calls));
    out(&f, y);
    out(&f, y + 1);
    ok(evaluate(&f, ein__reference_f64, (double *[]){got[0], got[1]}));
    assert_true(got[0][0] == 1 / 3.0 && got[0][1] == 2 / 3.0 && got[1][0] == 3);
    ok(evaluate(&f, ein__reference_f32, (double *[]){got[0], got[1]}));
    assert_true(got[0][0] == (double)(1 / 3.0f) && got[1][0] == 3 && calls == 2);
    f.g.nodes.items[0].custom.reference = NULL;
    assert_int_equal(evaluate(&f, ein__reference_f64, (double *[]){got[0], got[1]}), EIN_UNSUPPORTED);
    assert_string_equal(f.error.line, "third: the op has no reference function");
    done(&f);
}

/* ---- the whole graph ---- */

typedef struct stages { int n; char last[64]; double fraction; } stages;

static void count_stage(void *user, const char *stage, double fraction)
{
    stages *s = user;
    s->n++;
    snprintf(s->last, sizeof s->last, "%s", stage);
    s->fraction = fraction;
}

static void test_needed_nodes_only(void **state)
{
    (void)state;
    int calls = 0;
    double got[2];
    fixture f = {0};
    value x = FLOATS(&f, 1, 2);
    leaf_of(&f, EIN_F32, 2, NULL); /* not needed, so it need not be bound */
    value y = map_of(&f, "i=2", "x0 + 1", -1, 1, VALUES(x), MAPS("i"), "i");
    add(&f, custom_node(&f, y, &calls));
    out(&f, map_of(&f, "i=2", "x0 * x1", -1, 1, VALUES(y, y), MAPS("i", "i"), "i"));
    f.g.nodes.items[2].name = "square";
    stages s = {0};
    reference_bindings b = {.leaves = f.data, .progress = count_stage, .progress_user = &s};
    ok(ein__reference_f64(&f.g, &b, (double *[]){got}, &f.error));
    assert_true(got[0] == 4 && got[1] == 9);
    assert_int_equal(calls, 0);
    assert_int_equal(s.n, 2);
    assert_string_equal(s.last, "reference: square");
    assert_true(s.fraction == 0.5);
    done(&f);
}

/* Leaves as outputs, the same value twice, a constant that is not bound. */
static void test_outputs(void **state)
{
    (void)state;
    double got[3][2];
    fixture f = {0};
    value x = FLOATS(&f, 1, 2), c = leaf_of(&f, EIN_F32, 2, NULL);
    f.g.leaves.items[1].data = (float[]){3, 4};
    value y = map_of(&f, "i=2", "x0 + x1", -1, 1, VALUES(x, c), MAPS("i", "i"), "i");
    out(&f, y);
    out(&f, x);
    out(&f, y);
    ok(evaluate(&f, ein__reference_f32, (double *[]){got[0], got[1], got[2]}));
    assert_true(got[0][0] == 4 && got[0][1] == 6 && got[1][0] == 1 && got[1][1] == 2);
    assert_memory_equal(got[0], got[2], sizeof got[0]);
    done(&f);
}

static void test_refused(void **state)
{
    (void)state;
    fixture f = {0};
    value x = leaf_of(&f, EIN_F32, 2, NULL);
    expect_failure(&f, x, EIN_INVALID, "reference: x is not bound");
    f = (fixture){0};
    x = FLOATS(&f, 1);
    f.g.loops.n = 1;
    expect_failure(&f, x, EIN_INTERNAL, "reference: the graph is rolled");
    f = (fixture){0};
    x = FLOATS(&f, 1);
    ok(push_scalar(&f.g, "length"));
    out(&f, x);
    reference_bindings b = {.leaves = f.data};
    assert_int_equal(ein__reference_f64(&f.g, &b, (double *[]){(double[1]){0}}, &f.error), EIN_INVALID);
    assert_string_equal(f.error.line, "reference: scalar length is not bound");
    done(&f);
}

/* All kinds in one graph, so that every allocation fails once. */
static void build_all(fixture *f, int *calls)
{
    attention_case c = {1, 1, 1, 2, 2, 1, 2, true, 0, -1};
    value q = FLOATS(f, 2, 1), k = FLOATS(f, 0, 1), v = FLOATS(f, 1, 2, 3, 4);
    value o = add(f, attention_node(f, &c, VALUES(q, k, v), true));
    value p = map_of(f, "m=2 n=2 k=2", "x0 * x1", MERGE_SUM, 1, VALUES(o + 2, v), MAPS("m k", "n k"), "m n");
    value moved = add(f, node_of(f, OP_MOVE, "i=2 j=2", VALUES(p), MAPS("i j"), MAPS("j i")));
    value sum = map_of(f, "i=2 j=2", "x0", MERGE_SUM, 1, VALUES(moved), MAPS("i j"), "i");
    node row = node_of(f, OP_ROW, "i=2", VALUES(sum), MAPS("i"), MAPS("i"));
    row.spec.two_step = 1;
    row.n_stages = 1;
    row.stages[0] = (row_stage){MERGE_SUM, parse(f, "x0")};
    row.body = parse(f, "x0 / x1");
    value scaled = add(f, row);
    value ids = leaf_of(f, EIN_I64, 1, (i64[]){1});
    node gather = node_of(f, OP_GATHER, "r=1 v=2 d=1", VALUES(ids, scaled), MAPS("r", "v d"), MAPS("r d"));
    value row_value = add(f, gather);
    node append = node_of(f, OP_APPEND, "t=2 s=1", VALUES(q, row_value), MAPS("t", "s"), MAPS("t"));
    append.append_s = 1;
    append.scalar = -1;
    out(f, add(f, custom_node(f, add(f, append), calls)));
}

static void test_allocation_failures(void **state)
{
    (void)state;
    int calls = 0;
    double got[2], want[2];
    evaluator both[2] = {ein__reference_f64, ein__reference_f32};
    for (int p = 0; p < 2; p++) {
        fixture f = {.threads = 2};
        build_all(&f, &calls);
        ok(evaluate(&f, both[p], (double *[]){want}));
        long live = ein__alloc_live(), failures = 0;
        ein_status status = EIN_NO_MEMORY;
        for (; status != EIN_OK; failures++) {
            ein__alloc_fail_at(failures + 1);
            status = evaluate(&f, both[p], (double *[]){got});
            ein__alloc_fail_at(0);
            assert_true(status == EIN_OK || status == EIN_NO_MEMORY);
            assert_int_equal(ein__alloc_live(), live);
        }
        assert_true(failures > 30);
        assert_memory_equal(got, want, sizeof want);
        done(&f);
    }
}

/* ---- comparison ---- */

static void test_compare(void **state)
{
    (void)state;
    const double f64[4] = {1, 2, 3, 4}, f32[4] = {1.000001, 2, 3, 4};
    comparison c = ein__compare((float[]){1, 2, 3, 4}, f64, f32, 2, 2, 1e-5);
    assert_true(c.ok && c.norm_error == 0 && c.worst_row == 0);
    /* 0.5 off in a norm of sqrt(30); row 1's bound is 1e-6 of its norm, 5. */
    c = ein__compare((float[]){1, 2, 3, 4.5f}, f64, f32, 2, 2, 1);
    assert_true(!c.ok && fabs(c.norm_error - 0.5 / sqrt(30)) < 1e-12 && fabs(c.worst_row - 1e5) < 1e-3);
    /* Row 0's bound is 8 times 1e-6, and 1e-6 of its norm. */
    c = ein__compare((float[]){1.000008f, 2, 3, 4}, f64, f32, 2, 2, 1e-5);
    assert_true(c.ok && c.worst_row > 0.7 && c.worst_row < 1);
    c = ein__compare((float[]){1.000008f, 2, 3, 4}, f64, f32, 2, 2, 1e-6);
    assert_true(!c.ok && c.worst_row < 1);
    c = ein__compare((float[]){1, 2, NAN, 4}, f64, f32, 2, 2, 1);
    assert_false(c.ok);
    assert_true(ein__compare(NULL, NULL, NULL, 0, 5, 1e-5).ok);
}

static void test_compare_not_finite(void **state)
{
    (void)state;
    const double f64[3] = {INFINITY, 1, 1e39};
    assert_true(ein__compare((float[]){INFINITY, 1, INFINITY}, f64, f64, 1, 3, 1e-5).ok);
    assert_false(ein__compare((float[]){-INFINITY, 1, INFINITY}, f64, f64, 1, 3, 1e-5).ok);
    assert_false(ein__compare((float[]){INFINITY, INFINITY, INFINITY}, f64, f64, 1, 3, 1e-5).ok);
    assert_true(ein__compare((float[]){NAN, 1}, (double[]){NAN, 1}, (double[]){NAN, 1}, 1, 2, 1e-5).ok);
    assert_false(ein__compare((float[]){0, 1}, (double[]){NAN, 1}, (double[]){NAN, 1}, 1, 2, 1e-5).ok);
    /* A plain evaluation that overflowed excuses nothing. */
    assert_false(ein__compare((float[]){2, 1}, (double[]){1, 1}, (double[]){NAN, 1}, 1, 2, 10).ok);
    /* Against zeros the error is absolute. */
    assert_true(ein__compare((float[]){0, 0}, (double[]){0, 0}, (double[]){0, 0}, 1, 2, 1e-5).ok);
    assert_false(ein__compare((float[]){1e-7f, 0}, (double[]){0, 0}, (double[]){0, 0}, 1, 2, 1e-5).ok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_broadcast), cmocka_unit_test(test_map_merges),
        cmocka_unit_test(test_map_whole_label), cmocka_unit_test(test_map_ranges),
        cmocka_unit_test(test_map_scalar), cmocka_unit_test(test_sum_precision),
        cmocka_unit_test(test_product_values), cmocka_unit_test(test_product_paths),
        cmocka_unit_test(test_row_softmax), cmocka_unit_test(test_row_rms_norm),
        cmocka_unit_test(test_attention_values), cmocka_unit_test(test_attention_partial),
        cmocka_unit_test(test_attention_random), cmocka_unit_test(test_gather), cmocka_unit_test(test_move),
        cmocka_unit_test(test_move_integers), cmocka_unit_test(test_append), cmocka_unit_test(test_custom),
        cmocka_unit_test(test_needed_nodes_only), cmocka_unit_test(test_outputs), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_allocation_failures), cmocka_unit_test(test_compare),
        cmocka_unit_test(test_compare_not_finite)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
