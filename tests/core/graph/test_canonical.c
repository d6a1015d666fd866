/* SPDX-License-Identifier: Apache-2.0 */
/* The canonical form: what does not change it, what does, and which layers become a loop. */
#include "tests/core/graph/fixture.h"

#include <stdio.h>

#include "core/graph/canonical.h"

#define P(g, name, ...) ein_parameter(g, name, EIN_F32, SHAPE(__VA_ARGS__))
#define NONE            ((ein_tensor){0})

/* ---- words -------------------------------------------------------------------------------------------- */

/* The canonical form of a graph without errors, which is freed. */
typedef struct canon {
    ein_graph *user;
    graph g;
    text key;
} canon;

static canon canonical(ein_graph *g)
{
    canon c = {.user = g};
    error e = {0};
    assert_string_equal(ein_graph_error(g), "");
    assert_int_equal(ein__canonicalize(&g->g, &c.g, &e), EIN_OK);
    if (ein__graph_check(&c.g, &e) != EIN_OK) fail_msg("%s", e.line);
    ein__graph_key(&c.g, &c.key);
    return c;
}

static void free_canon(canon *c)
{
    ein__text_free(&c->key);
    ein__arena_free(&c->g.arena);
    ein_graph_free(c->user);
}

static bool same_key(const canon *a, const canon *b)
{
    return a->key.n == b->key.n && memcmp(a->key.bytes, b->key.bytes, a->key.n) == 0;
}

static void assert_same(ein_graph *a, ein_graph *b)
{
    canon x = canonical(a), y = canonical(b);
    assert_true(same_key(&x, &y));
    free_canon(&x);
    free_canon(&y);
}

static void assert_different(ein_graph *a, ein_graph *b, const char *what)
{
    canon x = canonical(a), y = canonical(b);
    if (same_key(&x, &y)) fail_msg("%s does not count", what);
    free_canon(&x);
    free_canon(&y);
}

/* "2 nodes, loops 3x5 2x1": count x nodes of each loop. */
static void assert_form(ein_graph *g, const char *expected)
{
    canon c = canonical(g);
    text t = {0};
    ein__text_add(&t, "%d nodes, loops", c.g.nodes.n);
    for (int i = 0; i < c.g.loops.n; i++)
        ein__text_add(&t, " %dx%d", c.g.loops.items[i].count, c.g.loops.items[i].hi - c.g.loops.items[i].lo);
    assert_string_equal(ein__text_get(&t), expected);
    ein__text_free(&t);
    free_canon(&c);
}

/* ---- identity ----------------------------------------------------------------------------------------- */

typedef struct names {
    const char *x, *a, *b, *at, *out, *equation;
} names;
static const names PLAIN = {"x", "a", "b", "at", "out", "ik,nk->in"};

/* x a^T + rope-like use of a scalar, then b. */
static ein_graph *named(const names *n, bool other_order)
{
    ein_graph *g = new_graph();
    ein_tensor x, a, b, cosine, sine;
    ein_scalar at;
    if (other_order) {
        at = ein_scalar_input(g, n->at);
        b = P(g, n->b, 4, 6);
        a = P(g, n->a, 6, 8);
        x = IN(g, n->x, 6, 8);
        ein_silu(g, ein_add(g, x, a)); /* reaches no output */
    } else {
        x = IN(g, n->x, 6, 8);
        a = P(g, n->a, 6, 8);
        b = P(g, n->b, 4, 6);
        at = ein_scalar_input(g, n->at);
    }
    ein_rope_tables(g, 32, 6, 1e4, &cosine, &sine);
    ein_tensor left, right;
    if (other_order) {
        right = ein_relu(g, b);
        left = ein_einsum(g, n->equation, 2, (ein_tensor[]){x, a});
    } else {
        left = ein_einsum(g, n->equation, 2, (ein_tensor[]){x, a});
        right = ein_relu(g, b);
    }
    left = ein_reshape(g, left, SHAPE(1, 6, 1, 6));
    left = ein_reshape(g, ein_rope(g, left, cosine, sine, at), SHAPE(6, 6));
    ein_output(g, n->out, ein_matmul(g, right, left));
    return g;
}

static void names_and_order(void **state)
{
    (void)state;
    assert_same(named(&PLAIN, false), named(&PLAIN, false));
    assert_same(named(&PLAIN, false), named(&(names){"in", "w", "v", "pos", "y", "ik,nk->in"}, false));
    assert_same(named(&PLAIN, false), named(&PLAIN, true));
    assert_same(named(&PLAIN, false), named(&(names){"q", "r", "s", "t", "u", "Zc,dc->Zd"}, true));
}

/* One graph with everything that may change, and a knob for each. */
typedef struct knobs {
    int64_t rows;
    float constant;
    double factor, epsilon, scale;
    int causal, dtype, start, swap, same_scalar;
} knobs;
static const knobs USUAL = {.rows = 6, .constant = 1, .factor = 2, .epsilon = 1e-5, .dtype = EIN_I32};

static ein_graph *turned(const knobs *k)
{
    ein_graph *g = new_graph();
    float table[8] = {k->constant, 2, 3, 4, 5, 6, 7, 8};
    char expression[32];
    snprintf(expression, sizeof expression, "x0 * %g", k->factor);
    ein_tensor ids = ein_input(g, "ids", (ein_dtype)k->dtype, SHAPE(k->rows));
    ein_tensor x = ein_embedding(g, ids, P(g, "table", 9, 8));
    x = ein_add(g, ein_map(g, expression, 1, &x), ein_constant(g, EIN_F32, SHAPE(8), table));
    x = ein_reshape(g, ein_rms_norm(g, x, NONE, k->epsilon), SHAPE(1, 1, k->rows, 8));
    ein_scalar position = ein_scalar_input(g, "position"), length = ein_scalar_input(g, "length");
    ein_attention_options o = {.size = sizeof o,
                               .causal = k->causal,
                               .scale = k->scale,
                               .position = position,
                               .length = k->same_scalar ? position : length};
    ein_tensor y = ein_scaled_dot_product_attention(g, x, x, x, &o);
    ein_tensor z = ein_slice(g, y, 3, k->start, k->start + 4);
    ein_output(g, "first", k->swap ? z : y);
    ein_output(g, "second", k->swap ? y : z);
    return g;
}

#define KNOB(member, x)                                        \
    do {                                                       \
        knobs k = USUAL;                                       \
        k.member = (x);                                        \
        assert_different(turned(&USUAL), turned(&k), #member); \
    } while (0)

static void what_counts(void **state)
{
    (void)state;
    assert_same(turned(&USUAL), turned(&USUAL));
    KNOB(rows, 7);
    KNOB(constant, 1.5f);
    KNOB(factor, 3);
    KNOB(factor, -2);
    KNOB(epsilon, 1e-6);
    KNOB(scale, 0.5);
    KNOB(causal, 1);
    KNOB(dtype, EIN_I64);
    KNOB(start, 1);
    KNOB(swap, 1);
    KNOB(same_scalar, 1);
}

static ein_graph *kind_of(bool parameter)
{
    ein_graph *g = new_graph();
    ein_output(g, "y", ein_relu(g, parameter ? P(g, "x", 4) : IN(g, "x", 4)));
    return g;
}

static ein_graph *operands_of(bool both)
{
    ein_graph *g = new_graph();
    ein_tensor x = IN(g, "x", 4, 4), y = IN(g, "y", 4, 4);
    ein_output(g, "z", ein_matmul(g, x, both ? y : x));
    return g;
}

static void structure_counts(void **state)
{
    (void)state;
    assert_different(kind_of(true), kind_of(false), "kind of leaf");
    assert_different(operands_of(true), operands_of(false), "operands");
}

/* What reaches no output leaves no trace: nodes, leaves, scalars, bounds. */
static void dead_parts(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = IN(g, "x", 2, 3), cosine, sine;
    ein_scalar at = ein_scalar_input(g, "at"), unused = ein_scalar_input(g, "unused");
    ein_rope_tables(g, 9, 4, 1e4, &cosine, &sine);
    ein_rope(g, IN(g, "dead", 1, 5, 1, 4), cosine, sine, unused);
    ein_rope(g, IN(g, "dead too", 1, 8, 1, 4), cosine, sine, at);
    ein_output(g, "live", ein_rope(g, IN(g, "lives", 1, 2, 1, 4), cosine, sine, at));
    ein_output(g, "y", ein_silu(g, x));
    canon c = canonical(g);
    assert_int_equal(c.g.nodes.n, 2);
    assert_int_equal(c.g.leaves.n, 5); /* x, lives, the two tables, the halves' numbers */
    assert_int_equal(c.g.scalars.n, 1);
    assert_string_equal(c.g.scalars.items[0], "at");
    assert_int_equal(c.g.bounds.n, 1);
    assert_int_equal(c.g.bounds.items[0].rows, 2);
    assert_int_equal(c.g.bounds.items[0].extent, 9);
    free_canon(&c);
}

/* An update is an effect: it stays without a reader. */
static void effects_stay(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_scalar at = ein_scalar_input(g, "at");
    ein_tensor cache = ein_state_tensor(g, "cache", EIN_F32, SHAPE(8, 3)), x = IN(g, "x", 2, 3);
    ein_state_append(g, cache, x, 0, at);
    ein_output(g, "y", ein_relu(g, x));
    canon c = canonical(g);
    assert_int_equal(c.g.nodes.n, 2);
    assert_int_equal(c.g.bounds.n, 1);
    assert_int_equal(c.g.bounds.items[0].rows, 2);
    assert_int_equal(c.g.bounds.items[0].extent, 8);
    assert_string_equal(c.g.bounds.items[0].what, "cache");
    free_canon(&c);
}

/* ---- loops -------------------------------------------------------------------------------------------- */

static ein_tensor parameter_of(ein_graph *g, const char *part, int layer, int64_t n, int64_t k)
{
    char name[32];
    snprintf(name, sizeof name, "%s%d", part, layer);
    return P(g, name, n, k);
}

/* x + b silu(a x), with widths 6 and `ffn`: 4 nodes. */
static ein_tensor layer(ein_graph *g, ein_tensor x, int i, int64_t ffn)
{
    ein_tensor y = ein_linear(g, x, parameter_of(g, "a", i, ffn, 6), NONE);
    return ein_add(g, x, ein_linear(g, ein_silu(g, y), parameter_of(g, "b", i, 6, ffn), NONE));
}

static ein_graph *layers(int n)
{
    ein_graph *g = new_graph();
    ein_tensor x = IN(g, "x", 3, 6);
    for (int i = 0; i < n; i++) x = layer(g, x, i, 10);
    ein_output(g, "y", x);
    return g;
}

static void layers_roll(void **state)
{
    (void)state;
    assert_form(layers(1), "4 nodes, loops");
    assert_form(layers(2), "4 nodes, loops 2x4");
    assert_form(layers(3), "4 nodes, loops 3x4");
    assert_form(layers(40), "4 nodes, loops 40x4");
    canon c = canonical(layers(40));
    const loop *l = &c.g.loops.items[0];
    assert_int_equal(l->n_carries, 1);
    assert_int_equal(c.g.values.items[l->carries[0].init].kind, VALUE_LEAF);
    assert_int_equal(l->carries[0].next, c.g.outputs.items[0].value);
    assert_int_equal(c.g.leaves.n, 3);
    for (int i = 0; i < c.g.leaves.n; i++) {
        const leaf *x = &c.g.leaves.items[i];
        char name[32];
        assert_int_equal(x->n_members, x->kind == LEAF_INPUT ? 1 : 40);
        for (int m = 0; m < x->n_members && x->kind == LEAF_PARAMETER; m++) {
            snprintf(name, sizeof name, "%c%d", x->name[0], m);
            assert_string_equal(c.user->g.leaves.items[x->members[m]].name, name);
        }
    }
    free_canon(&c);
}

/* The key of 40 layers is not longer than that of 2. */
static void key_does_not_grow(void **state)
{
    (void)state;
    canon a = canonical(layers(2)), b = canonical(layers(40));
    assert_false(same_key(&a, &b));
    assert_int_equal(a.key.n, b.key.n);
    free_canon(&a);
    free_canon(&b);
}

/* A mask that ops make from an input, first met inside the first layer, is shared by all. */
static void shared_values_go_before(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = IN(g, "x", 3, 6), mask = ein_relu(g, ein_silu(g, IN(g, "m", 3, 6)));
    for (int i = 0; i < 5; i++) x = ein_mul(g, layer(g, x, i, 10), mask);
    ein_output(g, "y", x);
    assert_form(g, "7 nodes, loops 5x5");
}

/* Before, between and after loops. */
static void several_loops(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = ein_softmax(g, IN(g, "x", 3, 6), 1), y = IN(g, "y", 3, 6);
    for (int i = 0; i < 3; i++) x = layer(g, x, i, 10);
    x = ein_softmax(g, x, 1);
    for (int i = 0; i < 4; i++) y = ein_add(g, layer(g, y, 10 + i, 14), x);
    ein_output(g, "z", ein_softmax(g, y, 0));
    assert_form(g, "12 nodes, loops 3x4 4x5");
}

/* Two values carried at once, one of them the other's past. */
static void two_carries(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = IN(g, "x", 4), y = IN(g, "y", 4);
    for (int i = 0; i < 6; i++) {
        ein_tensor sum = ein_relu(g, ein_sub(g, x, y));
        y = ein_silu(g, ein_mul(g, sum, y));
        x = sum;
    }
    ein_output(g, "x", x);
    ein_output(g, "y", y);
    canon c = canonical(g);
    assert_int_equal(c.g.nodes.n, 4);
    assert_int_equal(c.g.loops.n, 1);
    assert_int_equal(c.g.loops.items[0].count, 6);
    assert_int_equal(c.g.loops.items[0].n_carries, 2);
    free_canon(&c);
}

/* Two carries that start as the same value and part at once. */
static void common_start(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = IN(g, "x", 4), y = x;
    for (int i = 0; i < 4; i++) {
        ein_tensor sum = ein_add(g, x, y);
        y = ein_silu(g, sum);
        x = ein_relu(g, sum);
    }
    ein_output(g, "x", x);
    ein_output(g, "y", y);
    canon c = canonical(g);
    assert_int_equal(c.g.nodes.n, 3);
    assert_int_equal(c.g.loops.n, 1);
    assert_int_equal(c.g.loops.items[0].count, 4);
    assert_int_equal(c.g.loops.items[0].n_carries, 2);
    free_canon(&c);
}

/* Two kinds of layers in turn are one layer of twice the length. */
static void layers_in_turn(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = IN(g, "x", 3, 6);
    for (int i = 0; i < 6; i++) x = layer(g, x, i, i % 2 == 0 ? 10 : 14);
    ein_output(g, "y", x);
    assert_form(g, "8 nodes, loops 3x8");
}

/* A value of an inner layer that is an output ends the loop there. */
static void tapped_layer(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = IN(g, "x", 3, 6);
    for (int i = 0; i < 7; i++) {
        x = layer(g, x, i, 10);
        if (i == 2) ein_output(g, "tap", x);
    }
    ein_output(g, "y", x);
    assert_form(g, "8 nodes, loops 3x4 4x4");
}

static void other_width(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = IN(g, "x", 3, 6);
    for (int i = 0; i < 3; i++) x = layer(g, x, i, 10 + 2 * i);
    ein_output(g, "y", x);
    assert_form(g, "12 nodes, loops");
}

/* One layer's weight used after the layers too; a weight of all layers used anywhere. */
static void tied_weights(void **state)
{
    (void)state;
    ein_graph *g = new_graph(), *h = new_graph();
    ein_tensor x = IN(g, "x", 3, 6), first = {0};
    for (int i = 0; i < 2; i++) {
        ein_tensor w = parameter_of(g, "w", i, 6, 6);
        if (i == 0) first = w;
        x = ein_silu(g, ein_linear(g, x, w, NONE));
    }
    ein_output(g, "y", ein_softmax(g, ein_linear(g, x, first, NONE), 1));
    assert_form(g, "6 nodes, loops");
    x = IN(h, "x", 3, 6);
    ein_tensor w = P(h, "w", 6, 6);
    for (int i = 0; i < 4; i++) x = ein_silu(h, ein_linear(h, x, w, NONE));
    ein_output(h, "y", ein_softmax(h, ein_linear(h, x, w, NONE), 1));
    assert_form(h, "4 nodes, loops 4x2");
}

/* Weights of two layers swapped between their places are no iteration's own. */
static void crossed_weights(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = IN(g, "x", 3, 6), a = P(g, "a", 6, 6), b = P(g, "b", 6, 6);
    x = ein_silu(g, ein_linear(g, ein_relu(g, ein_linear(g, x, a, NONE)), b, NONE));
    x = ein_silu(g, ein_linear(g, ein_relu(g, ein_linear(g, x, b, NONE)), a, NONE));
    ein_output(g, "y", x);
    assert_form(g, "8 nodes, loops");
}

/* Content that differs by layer: constants, numbers in expressions, inputs. */
static void layers_that_differ(void **state)
{
    (void)state;
    ein_graph *g[3] = {new_graph(), new_graph(), new_graph()};
    for (int k = 0; k < 3; k++) {
        ein_tensor x = IN(g[k], "x", 4);
        for (int i = 0; i < 3; i++) {
            char name[16];
            float table[4] = {(float)i, 1, 2, 3};
            snprintf(name, sizeof name, k == 1 ? "%d.5" : "in%d", i);
            char expression[32];
            snprintf(expression, sizeof expression, "x0 + %s", k == 1 ? name : "1");
            x = ein_map(g[k], expression, 1, &x);
            if (k == 0) x = ein_mul(g[k], x, ein_constant(g[k], EIN_F32, SHAPE(4), table));
            if (k == 2) x = ein_mul(g[k], x, IN(g[k], name, 4));
        }
        ein_output(g[k], "y", x);
    }
    assert_form(g[0], "6 nodes, loops");
    assert_form(g[1], "3 nodes, loops");
    assert_form(g[2], "6 nodes, loops");
}

/* Caches of layers roll with them; their bounds are one. */
/* Three layers that round x on the way: to one type, or to another in the middle one. */
static ein_tensor rounded(ein_graph *g, ein_dtype middle)
{
    ein_tensor x = IN(g, "x", 4);
    for (int i = 0; i < 3; i++) {
        ein_tensor half = ein_cast(g, ein_exp(g, x), i == 1 ? middle : EIN_F16);
        x = ein_cast(g, ein_relu(g, half), EIN_F32);
    }
    ein_output(g, "y", x);
    return x;
}

static void types_differ(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    rounded(g, EIN_F16);
    assert_form(g, "4 nodes, loops 3x4");
    g = new_graph();
    rounded(g, EIN_BF16);
    assert_form(g, "12 nodes, loops");
}

static void states_roll(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = IN(g, "x", 2, 6);
    ein_scalar at = ein_scalar_input(g, "at");
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%d", i);
        ein_tensor all = ein_state_append(g, ein_state_tensor(g, name, EIN_F32, SHAPE(9, 6)), x, 0, at);
        x = ein_silu(g, ein_add(g, x, ein_sum(g, all, 1, (int[]){0}, 1)));
    }
    ein_output(g, "y", x);
    canon c = canonical(g);
    assert_int_equal(c.g.loops.n, 1);
    assert_int_equal(c.g.loops.items[0].count, 4);
    assert_int_equal(c.g.bounds.n, 1);
    assert_string_equal(c.g.bounds.items[0].what, "s0");
    free_canon(&c);
}

/* Thousands of layers: no recursion, no cubic time. */
static void deep(void **state)
{
    (void)state;
    assert_form(layers(1500), "4 nodes, loops 1500x4");
}

/* Every failing allocation is reported and leaks nothing. */
static void out_of_memory(void **state)
{
    (void)state;
    ein_graph *g = layers(3);
    long live = ein__alloc_live();
    ein_status s = EIN_NO_MEMORY;
    for (int n = 1; s != EIN_OK; n++) {
        graph out = {0};
        error e = {0};
        assert_true(n < 10000);
        ein__alloc_fail_at(n);
        s = ein__canonicalize(&g->g, &out, &e);
        ein__alloc_fail_at(0);
        ein__arena_free(&out.arena);
        assert_true(s == EIN_OK || (s == EIN_NO_MEMORY && e.line[0] != 0));
        ein__error_reset(&e);
        assert_int_equal(ein__alloc_live(), live);
    }
    ein_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_order),   cmocka_unit_test(what_counts),
        cmocka_unit_test(structure_counts),  cmocka_unit_test(dead_parts),
        cmocka_unit_test(effects_stay),      cmocka_unit_test(layers_roll),
        cmocka_unit_test(key_does_not_grow), cmocka_unit_test(shared_values_go_before),
        cmocka_unit_test(several_loops),     cmocka_unit_test(two_carries),
        cmocka_unit_test(common_start),
        cmocka_unit_test(layers_in_turn),    cmocka_unit_test(tapped_layer),
        cmocka_unit_test(other_width),       cmocka_unit_test(tied_weights),
        cmocka_unit_test(crossed_weights),   cmocka_unit_test(layers_that_differ),
        cmocka_unit_test(types_differ),      cmocka_unit_test(states_roll),
        cmocka_unit_test(deep),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
