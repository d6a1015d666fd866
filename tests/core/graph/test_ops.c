/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/core/graph/fixture.h"

#include <math.h>

static const ein_scalar no_scalar = {0};

/* One failing call on a graph with x [2,3] and a scalar p. */
#define FAILS(status, line, call)                   \
    do {                                            \
        ein_graph *g = new_graph();                 \
        ein_tensor x = IN(g, "x", 2, 3), y = {0};   \
        ein_scalar p = ein_scalar_input(g, "p");    \
        (void)x;                                    \
        (void)p;                                    \
        y = call;                                   \
        end_failed(g, y, status, line);             \
    } while (0)

/* ---- attention ---- */

static ein_tensor attend(ein_graph *g, dims q, dims k, dims v)
{
    ein_tensor operands[] = {ein_input(g, "q", EIN_F32, q.rank, q.at),
                             ein_input(g, "k", EIN_F32, k.rank, k.at),
                             ein_input(g, "v", EIN_F32, v.rank, v.at)};
    return ein_scaled_dot_product_attention(g, operands[0], operands[1], operands[2], NULL);
}

#define D4(...) (dims){.rank = 4, .at = {__VA_ARGS__}}

static void attention(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor y = attend(g, D4(2, 8, 5, 16), D4(2, 2, 7, 16), D4(2, 2, 7, 12)), parts[3];
    assert_shape(g, y, "[2,8,5,12]");
    assert_spec(g, "x0[b,h,g,s,d] x1[b,h,t,d] x2[b,h,t,e] -> y0[b,h,g,s,e] of a0[b,h,g,s] a1[b,h,g,s] "
                   "a2[b,h,g,s,e]  b=2 h=2 g=4 s=5 t=7(softmax) d=16(whole) e=12(whole)");
    const node *n = &NODE(g, 0);
    assert_int_equal(n->kind, OP_ATTENTION);
    assert_false(n->attention.causal);
    assert_float_equal(n->attention.scale, 0.25, 0);
    assert_int_equal(n->attention.position, -1);
    assert_int_equal(n->attention.length, -1);
    assert_int_equal(ein__spec_aggregated(&n->spec), 1u << ATT_T);
    double points = 1;
    for (int l = 0; l < n->spec.n_labels; l++) points *= (double)n->spec.labels[l].extent;
    assert_float_equal(points * n->spec.flops, 2 * (16 + 12) * 2 * 8 * 5 * 7, 1e-6);
    ein_tensor q = {1}, k = {2}, v = {3};
    ein_attention_options o = {.size = sizeof o, .causal = 1, .scale = 2};
    o.length = ein_scalar_input(g, "n");
    o.position = ein_scalar_input(g, "p");
    ein_scaled_dot_product_attention_partial(g, q, k, v, &o, parts);
    assert_shape(g, parts[0], "[2,8,5]");
    assert_shape(g, parts[1], "[2,8,5]");
    assert_shape(g, parts[2], "[2,8,5,12]");
    assert_spec(g, "x0[b,h,g,s,d] x1[b,h,t,d] x2[b,h,t,e] -> y0[b,h,g,s] y1[b,h,g,s] y2[b,h,g,s,e]  "
                   "b=2 h=2 g=4 s=5 t=7(softmax-state) d=16(whole) e=12(whole)");
    n = &NODE(g, 0);
    assert_true(n->attention.causal);
    assert_float_equal(n->attention.scale, 2, 0);
    assert_int_equal(n->attention.position, 1);
    assert_int_equal(n->attention.length, 0);
    end(g);
}

static void attention_refused(void **state)
{
    (void)state;
    FAILS(EIN_SHAPE, "scaled_dot_product_attention: heads of q, k, v are 8, 3, 3",
          attend(g, D4(2, 8, 5, 16), D4(2, 3, 7, 16), D4(2, 3, 7, 16)));
    FAILS(EIN_SHAPE, "scaled_dot_product_attention: heads of q, k, v are 8, 0, 0",
          attend(g, D4(2, 8, 5, 16), D4(2, 0, 7, 16), D4(2, 0, 7, 16)));
    FAILS(EIN_SHAPE, "scaled_dot_product_attention: batches of q, k, v are 2, 1, 1",
          attend(g, D4(2, 8, 5, 16), D4(1, 8, 7, 16), D4(1, 8, 7, 16)));
    FAILS(EIN_SHAPE, "scaled_dot_product_attention: k has 7 keys, v 6",
          attend(g, D4(2, 8, 5, 16), D4(2, 8, 7, 16), D4(2, 8, 6, 16)));
    FAILS(EIN_SHAPE, "scaled_dot_product_attention: head sizes of q and k are 16 and 8",
          attend(g, D4(2, 8, 5, 16), D4(2, 8, 7, 8), D4(2, 8, 7, 16)));
    FAILS(EIN_SHAPE, "scaled_dot_product_attention: head sizes of q and v are 0 and 16; at least 1",
          attend(g, D4(2, 8, 5, 0), D4(2, 8, 7, 0), D4(2, 8, 7, 16)));
    FAILS(EIN_SHAPE, "scaled_dot_product_attention: head sizes of q and v are 16 and 0; at least 1",
          attend(g, D4(2, 8, 5, 16), D4(2, 8, 7, 16), D4(2, 8, 7, 0)));
    FAILS(EIN_SHAPE, "scaled_dot_product_attention: q [2,3] has rank 2, not 4",
          ein_scaled_dot_product_attention(g, x, x, x, NULL));
    ein_attention_options unset = {.causal = 1}, bad = {.size = sizeof bad, .position = {9}};
    FAILS(EIN_INVALID, "scaled_dot_product_attention: options.size is 0",
          (x = IN(g, "q", 1, 1, 1, 1), ein_scaled_dot_product_attention(g, x, x, x, &unset)));
    FAILS(EIN_INVALID, "scaled_dot_product_attention: scalar 9 is not a scalar of this graph",
          (x = IN(g, "q", 1, 1, 1, 1), ein_scaled_dot_product_attention(g, x, x, x, &bad)));
    FAILS(EIN_INVALID, "scaled_dot_product_attention: out is NULL",
          (ein_scaled_dot_product_attention_partial(g, x, x, x, NULL, NULL), y));
}

static void rope(void **state)
{
    ein_graph *g = new_graph();
    ein_tensor cosine, sine, x = IN(g, "x", 2, 5, 3, 8);
    ein_scalar p = ein_scalar_input(g, "p");
    (void)state;
    ein_rope_tables(g, 16, 8, 10000, &cosine, &sine);
    assert_shape(g, cosine, "[16,4]");
    const float *c = g->g.leaves.items[1].data, *s = g->g.leaves.items[2].data;
    assert_float_equal(c[5 * 4 + 1], (float)cos(5 / 10.0), 0);
    assert_float_equal(s[15 * 4 + 3], (float)sin(15 / 1000.0), 1e-9);
    assert_shape(g, ein_rope(g, x, cosine, sine, p), "[2,5,3,8]");
    assert_spec(g, "x0[b,s,h,=0<2,pair] x1[b,s,h,=1<2,pair] x2[s+$0<16,pair] x3[s+$0<16,pair] x4[half] -> "
                   "y0[b,s,h,half,pair]  b=2 s=5 h=3 half=2(whole) pair=4");
    const expr *body = &NODE(g, 0).body[0]; /* (a + ib)(cos + i sin) */
    assert_float_equal(EVAL(*body, 2, 3, 5, 7, 0), 2 * 5 - 3 * 7, 0);
    assert_float_equal(EVAL(*body, 2, 3, 5, 7, 1), 3 * 5 + 2 * 7, 0);
    assert_int_equal(g->g.bounds.n, 1);
    assert_int_equal(g->g.bounds.items[0].rows, 5);
    assert_int_equal(g->g.bounds.items[0].extent, 16);
    ein_rope(g, x, cosine, sine, no_scalar); /* rows 0 to 5 of the tables */
    assert_spec(g, "x0[b,s,h,=0<2,pair] x1[b,s,h,=1<2,pair] x2[s<16,pair] x3[s<16,pair] x4[half] -> "
                   "y0[b,s,h,half,pair]  b=2 s=5 h=3 half=2(whole) pair=4");
    assert_int_equal(g->g.bounds.n, 1);
    assert_int_equal(NODE(g, 0).operands[4], NODE(g, 1).operands[4]); /* one selector */
    ein_rope_tables(g, 5, 8, 10000, &cosine, &sine);
    ein_rope(g, x, cosine, sine, no_scalar);
    assert_int_equal(NODE(g, 0).spec.operands[2].terms[0].kind, TERM_LABEL);
    end(g);
}

static void rope_refused(void **state)
{
    (void)state;
    FAILS(EIN_SHAPE, "rope: head size 3 is odd", ein_rope(g, IN(g, "y", 1, 1, 1, 3), x, x, no_scalar));
    FAILS(EIN_SHAPE, "rope: cosine [2,3] for head size 4",
          ein_rope(g, IN(g, "y", 1, 1, 1, 4), x, x, no_scalar));
    FAILS(EIN_SHAPE, "rope: 5 rows of x, tables of 2 positions",
          ein_rope(g, IN(g, "y", 1, 5, 1, 6), x, x, p));
    FAILS(EIN_SHAPE, "rope: cosine [2,3] and sine [3,3] differ",
          ein_rope(g, IN(g, "y", 1, 1, 1, 6), x, IN(g, "z", 3, 3), p));
    FAILS(EIN_SHAPE, "rope_tables: head size 7", (ein_rope_tables(g, 4, 7, 1e4, &y, &x), y));
    FAILS(EIN_INVALID, "rope_tables: theta is 0", (ein_rope_tables(g, 4, 8, 0, &y, &x), y));
    FAILS(EIN_SHAPE, "rope_tables: extent -4 of axis 0 is negative",
          (ein_rope_tables(g, -4, 8, 1e4, &y, &x), y));
    FAILS(EIN_INVALID, "rope_tables: sine is NULL", (ein_rope_tables(g, 4, 8, 1e4, &y, NULL), y));
}

static void embedding(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor table = ein_parameter(g, "e", EIN_F32, SHAPE(100, 16));
    assert_shape(g, ein_embedding(g, ein_input(g, "ids", EIN_I64, SHAPE(2, 3)), table), "[2,3,16]");
    assert_spec(g, "x0[rows] x1[v,d] -> y0[rows,d]  rows=6 v=100(sum) d=16");
    assert_int_equal(NODE(g, 0).kind, OP_GATHER);
    assert_shape(g, ein_embedding(g, ein_input(g, "id", EIN_I32, 0, NULL), table), "[16]");
    end(g);
}

static void embedding_refused(void **state)
{
    (void)state;
    FAILS(EIN_DTYPE, "embedding: ids are f32, not i32 or i64", ein_embedding(g, x, x));
    FAILS(EIN_SHAPE, "embedding: table [4] has rank 1, not 2",
          ein_embedding(g, ein_input(g, "i", EIN_I32, SHAPE(4)), IN(g, "t", 4)));
}

/* ---- moves ---- */

static void reshape(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 64, 4096), y = ein_reshape(g, x, SHAPE(2, 64, 32, 128));
    assert_shape(g, y, "[2,64,32,128]");
    assert_spec(g, "x0[r00,r01,r02,r03] -> y0[r00,r01,r02,r03]  r00=2 r01=64 r02=32 r03=128");
    assert_int_equal(NODE(g, 0).kind, OP_MOVE);
    assert_shape(g, ein_reshape(g, y, SHAPE(-1, 4096)), "[128,4096]");
    assert_spec(g, "x0[r00,r01,r02,r03] -> y0[r00,r01,r02,r03]  r00=2 r01=64 r02=32 r03=128");
    assert_int_equal(ein_reshape(g, x, SHAPE(2, 64, 4096)).id, x.id);
    assert_int_equal(ein_reshape(g, x, SHAPE(2, -1, 4096)).id, x.id);
    ein_reshape(g, IN(g, "a", 2, 3), SHAPE(3, 2)); /* no common factors: one label */
    assert_spec(g, "x0[r00] -> y0[r00]  r00=6");
    ein_reshape(g, IN(g, "b", 4, 1, 6, 5), SHAPE(1, 2, 12, 5)); /* one group of 4 x 6, one of 5 */
    assert_spec(g, "x0[r00,r01,r02,r03] -> y0[r00,r01,r02,r03]  r00=2 r01=2 r02=6 r03=5");
    ein_reshape(g, IN(g, "c", 4, 6, 7), SHAPE(6, 28)); /* 168 = 4*6*7: 42 and 28 do not divide */
    assert_spec(g, "x0[r00] -> y0[r00]  r00=168");
    assert_shape(g, ein_reshape(g, IN(g, "d", 1, 1), 0, NULL), "[]");
    assert_spec(g, "x0[] -> y0[]");
    assert_shape(g, ein_reshape(g, IN(g, "e", 3, 0, 2), SHAPE(0, 7)), "[0,7]");
    assert_spec(g, "x0[r00] -> y0[r00]  r00=0");
    assert_shape(g, ein_reshape(g, IN(g, "f", 3, 0), SHAPE(5, -1)), "[5,0]");
    end(g);
}

static void reshape_refused(void **state)
{
    (void)state;
    FAILS(EIN_SHAPE, "reshape: 6 elements do not make [4,2]", ein_reshape(g, x, SHAPE(4, 2)));
    FAILS(EIN_SHAPE, "reshape: 6 elements do not make [4,-1]", ein_reshape(g, x, SHAPE(4, -1)));
    FAILS(EIN_SHAPE, "reshape: two extents are -1", ein_reshape(g, x, SHAPE(-1, 6, -1)));
    FAILS(EIN_SHAPE, "reshape: extent -2 of axis 0 is negative", ein_reshape(g, x, SHAPE(-2, -3)));
    FAILS(EIN_SHAPE, "reshape: [0,-1]: -1 can be anything", ein_reshape(g, IN(g, "z", 0), SHAPE(0, -1)));
    FAILS(EIN_INVALID, "reshape: shape is NULL", ein_reshape(g, x, 2, NULL));
    FAILS(EIN_SHAPE, "reshape: rank 9; 0 to 8 are allowed",
          ein_reshape(g, x, 9, (int64_t[9]){6, 1, 1, 1, 1, 1, 1, 1, 1}));
}

/* Whatever the shapes, the labels' product is the number of elements and every dimension is a run of them. */
static void reshape_any(void **state)
{
    static const struct { dims from, to; } cases[] = {
        {{3, {2, 3, 4}}, {2, {6, 4}}}, {{3, {2, 3, 4}}, {3, {4, 3, 2}}}, {{2, {12, 18}}, {4, {6, 2, 9, 2}}},
        {{8, {2, 2, 2, 2, 2, 2, 2, 2}}, {1, {256}}},
        {{8, {3, 2, 3, 2, 3, 2, 3, 2}}, {8, {2, 3, 2, 3, 2, 3, 2, 3}}},
        {{5, {1, 30, 1, 7, 1}}, {4, {5, 6, 7, 1}}}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ein_graph *g = new_graph();
        ein_tensor x = ein_input(g, "x", EIN_F32, cases[i].from.rank, cases[i].from.at);
        assert_int_not_equal(ein_reshape(g, x, cases[i].to.rank, cases[i].to.at).id, 0);
        const spec *s = &NODE(g, 0).spec;
        assert_int_equal(ein__map_numel(&s->operands[0]), ein__value_numel(&g->g, 0));
        assert_memory_equal(&s->operands[0], &s->results[0], sizeof s->results[0]);
        assert_true(s->n_labels >= 1 && s->n_labels <= MAX_LABELS);
        end(g);
    }
}

static void permute(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 3, 4);
    assert_shape(g, ein_permute(g, x, (int[]){2, 0, -2}), "[4,2,3]");
    assert_spec(g, "x0[d0,d1,d2] -> y0[d2,d0,d1]  d0=2 d1=3 d2=4");
    assert_int_equal(ein_permute(g, x, (int[]){0, 1, -1}).id, x.id);
    ein_tensor s = ein_input(g, "s", EIN_F32, 0, NULL);
    assert_int_equal(ein_permute(g, s, NULL).id, s.id);
    end(g);
}

static void permute_refused(void **state)
{
    (void)state;
    FAILS(EIN_INVALID, "permute: axis -1 is given twice", ein_permute(g, x, (int[]){1, -1}));
    FAILS(EIN_INVALID, "permute: axis 2 of a tensor of rank 2", ein_permute(g, x, (int[]){1, 2}));
    FAILS(EIN_INVALID, "permute: axes is NULL", ein_permute(g, x, NULL));
}

static void slice(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 10);
    assert_shape(g, ein_slice(g, x, 1, 3, 7), "[2,4]");
    assert_spec(g, "x0[d0,d1+3<10] -> y0[d0,d1]  d0=2 d1=4");
    assert_shape(g, ein_slice(g, x, -1, 0, -4), "[2,6]");
    assert_spec(g, "x0[d0,d1<10] -> y0[d0,d1]  d0=2 d1=6");
    assert_shape(g, ein_slice(g, x, 1, -3, INT64_MAX), "[2,3]");
    assert_spec(g, "x0[d0,d1+7<10] -> y0[d0,d1]  d0=2 d1=3");
    assert_int_equal(ein_slice(g, x, 1, INT64_MIN, 10).id, x.id);
    assert_shape(g, ein_slice(g, x, 1, 7, 3), "[2,0]");
    assert_shape(g, ein_slice(g, x, 1, 30, 40), "[2,0]");
    end(g);
}

static void slice_refused(void **state)
{
    (void)state;
    FAILS(EIN_INVALID, "slice: axis 2 of a tensor of rank 2", ein_slice(g, x, 2, 0, 1));
}

static void concat(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor a = IN(g, "a", 2, 3), b = IN(g, "b", 2, 0), c = IN(g, "c", 2, 4), operands[] = {a, b, c, a};
    assert_shape(g, ein_concat(g, 4, operands, -1), "[2,10]");
    assert_spec(g, "x0[d0,d1<3] x1[d0,d1-3<0] x2[d0,d1-3<4] x3[d0,d1-7<3] -> y0[d0,d1]  d0=2 d1=10");
    assert_int_equal(ein_concat(g, 1, operands, 0).id, a.id);
    end(g);
}

static void concat_refused(void **state)
{
    (void)state;
    FAILS(EIN_SHAPE, "concat: operands 0 and 1, [2,3] and [3,3], differ in more than axis 1",
          ein_concat(g, 2, (ein_tensor[]){x, IN(g, "y", 3, 3)}, 1));
    FAILS(EIN_SHAPE, "concat: operands 0 and 1, [2,3] and [2], differ in more than axis 1",
          ein_concat(g, 2, (ein_tensor[]){x, IN(g, "y", 2)}, 1));
}

static void append(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor k = ein_state_tensor(g, "k", EIN_F32, SHAPE(2, 4, 16, 8)), rows = IN(g, "r", 2, 4, 3, 8);
    ein_scalar p = ein_scalar_input(g, "p");
    ein_tensor y = ein_state_append(g, k, rows, 2, p);
    assert_shape(g, y, "[2,4,16,8]");
    assert_spec(g, "x0[d0,d1,t,d3] x1[d0,d1,s,d3] -> y0[d0,d1,t,d3]  d0=2 d1=4 t=16 d3=8 s=3(whole)");
    const node *n = &NODE(g, 0);
    assert_int_equal(n->kind, OP_APPEND);
    assert_int_equal(n->scalar, 0);
    assert_int_equal(n->append_t, 2);
    assert_int_equal(n->append_s, 4);
    assert_int_equal(g->g.bounds.n, 1);
    assert_int_equal(g->g.bounds.items[0].rows, 3);
    assert_int_equal(g->g.bounds.items[0].extent, 16);
    assert_string_equal(g->g.bounds.items[0].what, "k");
    ein_state_append(g, ein_state_tensor(g, "v", EIN_F32, SHAPE(4)), IN(g, "q", 4), 0, no_scalar);
    assert_int_equal(NODE(g, 0).scalar, -1);
    assert_int_equal(g->g.bounds.n, 1);
    ein_relu(g, y);
    end(g);
}

static void append_refused(void **state)
{
    (void)state;
    FAILS(EIN_INVALID, "state_append: operand 0 is not a state tensor", ein_state_append(g, x, x, 0, p));
    FAILS(EIN_INVALID, "state_append: operand 0 is not a state tensor",
          ein_state_append(g, ein_relu(g, x), x, 0, p));
    FAILS(EIN_SHAPE, "state_append: 2 rows for state 'k' of 1",
          ein_state_append(g, ein_state_tensor(g, "k", EIN_F32, SHAPE(1, 3)), x, 0, p));
    FAILS(EIN_SHAPE, "state_append: state 'k' [5,4] and rows [2,3] differ in more than axis 0",
          ein_state_append(g, ein_state_tensor(g, "k", EIN_F32, SHAPE(5, 4)), x, 0, p));
    FAILS(EIN_INVALID, "state_append: state 'k' is updated twice",
          (y = ein_state_append(g, ein_state_tensor(g, "k", EIN_F32, SHAPE(5, 3)), x, 0, p),
           ein_state_append(g, y, x, 0, p)));
    FAILS(EIN_INVALID, "state_append: state 'k' is updated twice",
          (y = ein_state_tensor(g, "k", EIN_F32, SHAPE(5, 3)), ein_state_append(g, y, x, 0, p),
           ein_state_append(g, y, x, 0, p)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention), cmocka_unit_test(attention_refused), cmocka_unit_test(rope),
        cmocka_unit_test(rope_refused), cmocka_unit_test(embedding), cmocka_unit_test(embedding_refused),
        cmocka_unit_test(reshape), cmocka_unit_test(reshape_refused), cmocka_unit_test(reshape_any),
        cmocka_unit_test(permute), cmocka_unit_test(permute_refused), cmocka_unit_test(slice),
        cmocka_unit_test(slice_refused), cmocka_unit_test(concat), cmocka_unit_test(concat_refused),
        cmocka_unit_test(append), cmocka_unit_test(append_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
