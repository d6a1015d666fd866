/* SPDX-License-Identifier: Apache-2.0 */
/* The graph's text, key and verifier. */
#include "tests/core/graph/fixture.h"

static void assert_text(const ein_graph *g, const char *expected)
{
    text t = {0};
    assert_string_equal(ein_graph_error(g), "");
    ein__graph_print(&g->g, &t);
    assert_string_equal(ein__text_get(&t), expected);
    ein__text_free(&t);
}

static void prints(void **state)
{
    ein_graph *g = new_graph();
    float data[] = {1, 2, 3};
    (void)state;
    ein_tensor x = IN(g, "x", 2, 3), w = ein_parameter(g, "w", EIN_F32, SHAPE(4, 3));
    ein_scalar p = ein_scalar_input(g, "p");
    ein_tensor k = ein_state_tensor(g, "k", EIN_F32, SHAPE(9, 4));
    ein_tensor y = ein_linear(g, ein_mul(g, x, ein_constant(g, EIN_F32, SHAPE(3), data)), w, (ein_tensor){0});
    ein_output(g, "out", ein_state_append(g, k, y, 0, p));
    assert_text(g,
                "%0 = input x f32[2,3]\n"
                "%1 = parameter w f32[4,3]\n"
                "%2 = state k f32[9,4]\n"
                "%3 = constant f32[3]\n"
                "$0 = scalar p\n"
                "$0 + 2 <= 9 for k\n"
                "%4 = mul(%0, %3) f32[2,3]: x0[d0,d1] x1[d1] -> y0[d0,d1]  d0=2 d1=3  = (x0 * x1)\n"
                "%5 = linear(%4, %1) f32[2,4]: x0[d0,k] x1[n,k] -> y0[d0,n]  d0=2 n=4 k=3(sum)  product\n"
                "%6 = state_append(%2, %5) f32[9,4]: x0[t,d1] x1[s,d1] -> y0[t,d1]  t=9 d1=4 s=2(whole)"
                "  at=$0\n"
                "output out = %6\n");
    end(g);
}

/* ---- keys ---- */

typedef struct variant {
    const char *x, *out, *equation, *expression;
    int64_t k;
    float constant;
    int parameter, swapped;
    double scale;
} variant;

static const variant plain = {"x", "y", "ij,jk->ik", "x0 * x1", 4, 1, 0, 0, 0};

static void build(const variant *v, text *key)
{
    ein_graph *g = new_graph();
    ein_tensor x = IN(g, v->x, 2, v->k);
    ein_tensor w = v->parameter ? ein_parameter(g, "w", EIN_F32, SHAPE(v->k, 2)) : IN(g, "w", v->k, 2);
    ein_tensor y = ein_einsum(g, v->equation, 2, (ein_tensor[]){x, w});
    ein_tensor c = ein_constant(g, EIN_F32, SHAPE(1), &v->constant);
    y = ein_map(g, v->expression, 2, v->swapped ? (ein_tensor[]){c, y} : (ein_tensor[]){y, c});
    y = ein_reshape(g, y, SHAPE(1, 1, 2, 2));
    ein_attention_options o = {.size = sizeof o, .scale = v->scale};
    ein_output(g, v->out, ein_scaled_dot_product_attention(g, y, y, y, &o));
    assert_string_equal(ein_graph_error(g), "");
    ein__graph_key(&g->g, key);
    assert_int_equal(ein__text_status(key), EIN_OK);
    end(g);
}

static bool same_key(const variant *a, const variant *b)
{
    text k = {0}, l = {0};
    build(a, &k);
    build(b, &l);
    bool same = k.n == l.n && memcmp(k.bytes, l.bytes, k.n) == 0;
    ein__text_free(&k);
    ein__text_free(&l);
    return same;
}

/* Names are not in the key; all that decides the values is. */
static void keys(void **state)
{
    variant v = plain;
    (void)state;
    assert_true(same_key(&plain, &plain));
    v.x = "tokens", v.out = "result";
    assert_true(same_key(&plain, &v));
    v = plain, v.equation = "ab,bc->ac";
    assert_true(same_key(&plain, &v));
    v = plain, v.equation = "ij,jk->ki";
    assert_false(same_key(&plain, &v));
    v = plain, v.k = 5;
    assert_false(same_key(&plain, &v));
    v = plain, v.constant = 2;
    assert_false(same_key(&plain, &v));
    v = plain, v.expression = "x0 + x1";
    assert_false(same_key(&plain, &v));
    v = plain, v.parameter = 1;
    assert_false(same_key(&plain, &v));
    v = plain, v.swapped = 1;
    assert_false(same_key(&plain, &v));
    v = plain, v.scale = 3;
    assert_false(same_key(&plain, &v));
}

/* ---- verifier ---- */

static void assert_wrong(ein_graph *g, ein_status status, const char *line)
{
    error e = {0};
    assert_string_equal(ein_graph_error(g), "");
    assert_int_equal(ein__graph_check(&g->g, &e), status);
    assert_string_equal(e.line, line);
    ein__error_reset(&e);
    ein_graph_free(g);
}

static ein_graph *with_state(ein_tensor *k, ein_tensor *after)
{
    ein_graph *g = new_graph();
    *k = ein_state_tensor(g, "k", EIN_F32, SHAPE(9, 4));
    *after = ein_state_append(g, *k, IN(g, "rows", 2, 4), 0, (ein_scalar){0});
    return g;
}

/* The order of building does not matter: a read of the old state is wrong before the update too. */
static void state_and_update(void **state)
{
    ein_tensor k, after;
    (void)state;
    ein_graph *g = with_state(&k, &after);
    ein_output(g, "y", ein_relu(g, after));
    ein_output(g, "z", after);
    end(g);
    g = with_state(&k, &after);
    ein_relu(g, k);
    assert_wrong(g, EIN_INVALID, "state 'k' is read by relu beside its update; read its update's result");
    g = with_state(&k, &after);
    ein_output(g, "old", k);
    assert_wrong(g, EIN_INVALID,
                 "state 'k' is read by output 'old' beside its update; read its update's result");
    g = new_graph();
    k = ein_state_tensor(g, "k", EIN_F32, SHAPE(9, 4));
    ein_tensor rows = ein_slice(g, k, 0, 0, 2);
    ein_state_append(g, k, rows, 0, (ein_scalar){0});
    assert_wrong(g, EIN_INVALID, "state 'k' is read by slice beside its update; read its update's result");
    g = new_graph();
    ein_output(g, "only read", ein_relu(g, ein_state_tensor(g, "k", EIN_F32, SHAPE(9, 4))));
    end(g);
}

/* A graph of two nodes to break. */
static ein_graph *sound(void)
{
    ein_graph *g = new_graph();
    ein_tensor x = IN(g, "x", 2, 3);
    ein_output(g, "y", ein_relu(g, ein_add(g, x, x)));
    return g;
}

static void contradictions(void **state)
{
    (void)state;
    ein_graph *g = sound();
    end(g);
    g = sound();
    g->g.nodes.items[0].operands[1] = 2;
    assert_wrong(g, EIN_INTERNAL, "graph: node 0 (add) reads operand 1 before it is defined");
    g = sound();
    g->g.nodes.items[1].operands[0] = 77;
    assert_wrong(g, EIN_INTERNAL, "graph: node 1 (relu) reads operand 0 before it is defined");
    g = sound();
    g->g.values.items[0].shape[1] = 4;
    assert_wrong(g, EIN_INTERNAL, "graph: node 0 (add): operand 0 has 8 elements, its map 6");
    g = sound();
    g->g.values.items[1].owner = 1;
    assert_wrong(g, EIN_INTERNAL, "graph: value 1 is not its owner's");
    g = sound();
    g->g.outputs.items[0].value = -1;
    assert_wrong(g, EIN_INTERNAL, "graph: output 0 is not defined");
    g = sound();
    g->g.nodes.items[1].body[0].n = 0;
    assert_wrong(g, EIN_INTERNAL, "graph: node 1 (relu) has no body");
    g = sound();
    g->g.nodes.items[1].spec.labels[0].extent = 3;
    assert_wrong(g, EIN_INTERNAL, "spec: label d0 of extent 3 indexes 2");
    g = sound();
    g->g.nodes.items[1].spec.n_operands = 0;
    g->g.nodes.items[1].kind = OP_MOVE;
    assert_wrong(g, EIN_INTERNAL, "graph: node 1 (relu) has no operands");
    g = sound();
    g->g.nodes.items[0].n_indices = 1;
    g->g.nodes.items[0].indices[0] = 2;
    assert_wrong(g, EIN_INTERNAL, "graph: node 0 (add) reads the index of no label");
    g = sound();
    g->g.nodes.items[1].id_operand = 1;
    assert_wrong(g, EIN_INTERNAL, "graph: node 1 (relu): operand 1 holds ids of label -1");
}

/* The rolled form by hand: y = relu(relu(relu(x + x))) with the relu in a loop. */
static ein_graph *rolled(carry *c, loop *l)
{
    ein_graph *g = sound();
    value_info v = g->g.values.items[1];
    v.kind = VALUE_CARRY;
    v.owner = v.result = 0;
    value at = g->g.values.n;
    g->g.values.items[g->g.values.n++] = v; /* there is room: arrays grow by doubling from 8 */
    *c = (carry){.value = at, .init = 1, .next = 2};
    *l = (loop){.lo = 1, .hi = 2, .count = 3, .n_carries = 1, .carries = c};
    g->g.nodes.items[1].operands[0] = at;
    g->g.loops.items = l;
    g->g.loops.n = 1;
    return g;
}

static void loops(void **state)
{
    carry c;
    loop l;
    (void)state;
    ein_graph *g = rolled(&c, &l);
    assert_text(g, "%0 = input x f32[2,3]\n"
                   "%1 = add(%0, %0) f32[2,3]: x0[d0,d1] x1[d0,d1] -> y0[d0,d1]  d0=2 d1=3  = (x0 + x1)\n"
                   "3 times: %3 = %1 then %2\n"
                   "  %2 = relu(%3) f32[2,3]: x0[d0,d1] -> y0[d0,d1]  d0=2 d1=3  = k_relu(x0)\n"
                   "output y = %2\n");
    end(g);
    g = rolled(&c, &l);
    c.init = 2;
    assert_wrong(g, EIN_INTERNAL, "graph: loop 0: carry 0 starts before it is defined");
    g = rolled(&c, &l);
    l.hi = 3;
    assert_wrong(g, EIN_INTERNAL, "graph: loop 0: nodes 1 to 3, 3 times");
    g = rolled(&c, &l);
    g->g.nodes.items[0].operands[0] = 3;
    assert_wrong(g, EIN_INTERNAL, "graph: node 0 (add) reads operand 0 before it is defined");
    g = rolled(&c, &l);
    g->g.leaves.items[0].n_members = 3;
    g->g.leaves.items[0].members = (int[]){0, 0, 0};
    assert_wrong(g, EIN_INTERNAL, "graph: node 0 (add): operand 0 stands for 3 tensors");
    g = rolled(&c, &l);
    text before = {0}, after = {0};
    ein__graph_key(&g->g, &before);
    l.count = 4;
    ein__graph_key(&g->g, &after);
    assert_int_equal(before.n, after.n);
    assert_memory_not_equal(before.bytes, after.bytes, before.n);
    ein__text_free(&before);
    ein__text_free(&after);
    end(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prints), cmocka_unit_test(keys), cmocka_unit_test(state_and_update),
        cmocka_unit_test(contradictions), cmocka_unit_test(loops)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
