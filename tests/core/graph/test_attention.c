/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and rotary embeddings: specs, attributes, refusals. */
#include "tests/core/graph/fixture.h"

#include <math.h>
#include <stdio.h>

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

static ein_tensor typed(ein_graph *g, const char *name, ein_dtype t, dims d)
{
    return ein_input(g, name, t, d.rank, d.at);
}

/* q [2,8,5,16], k and v with two heads of 7 keys, all of `type`; a mask of `mask` and dimensions `d`. */
static ein_tensor masked(ein_graph *g, ein_dtype type, ein_dtype mask, dims d)
{
    ein_attention_options o = {.size = sizeof o, .mask = typed(g, "mask", mask, d)};
    ein_tensor q = typed(g, "q", type, D4(2, 8, 5, 16)), k = typed(g, "k", type, D4(2, 2, 7, 16));
    return ein_scaled_dot_product_attention(g, q, k, k, &o);
}

static void assert_mask(dims d, const char *map)
{
    ein_graph *g = new_graph();
    char line[256];
    assert_shape(g, masked(g, EIN_F32, EIN_BOOL, d), "[2,8,5,16]");
    snprintf(line, sizeof line,
             "x0[b,h,g,s,d] x1[b,h,t,d] x2[b,h,t,e] x3[%s] -> y0[b,h,g,s,e] of a0[b,h,g,s] a1[b,h,g,s] "
             "a2[b,h,g,s,e]  b=2 h=2 g=4 s=5 t=7(softmax) d=16(whole) e=16(whole)", map);
    assert_spec(g, line);
    end(g);
}

/* Every dimension of the mask may be the scores' or 1, or be absent at the front. */
static void masks(void **state)
{
    (void)state;
    assert_mask(D4(2, 8, 5, 7), "b,h,g,s,t");
    assert_mask(D4(1, 8, 5, 7), "=0<1,h,g,s,t");
    assert_mask(D4(2, 1, 5, 7), "b,=0<1,s,t");
    assert_mask(D4(2, 8, 1, 7), "b,h,g,=0<1,t");
    assert_mask(D4(2, 8, 5, 1), "b,h,g,s,=0<1");
    assert_mask((dims){.rank = 2, .at = {5, 7}}, "s,t");
    assert_mask((dims){.rank = 1, .at = {7}}, "t");
    assert_mask((dims){0}, "");
}

/* States are f32, of f64 operands f64; the result is as the operands. */
static void types(void **state)
{
    static const ein_dtype all[][2] = {{EIN_F32, EIN_F32}, {EIN_BF16, EIN_F32}, {EIN_F16, EIN_F32}, {EIN_F64, EIN_F64}};
    (void)state;
    for (int i = 0; i < 4; i++) {
        ein_graph *g = new_graph();
        ein_dtype t = all[i][0];
        ein_tensor parts[3];
        assert_int_equal(ein_tensor_dtype(g, masked(g, t, t, (dims){0})), t);
        const merge *m = NODE(g, 0).spec.merge;
        ein_tensor q = typed(g, "x", t, D4(1, 1, 1, 4));
        ein_scaled_dot_product_attention_partial(g, q, q, q, NULL, parts);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(m->compute[k], all[i][1]);
            assert_int_equal(m->wire[k], all[i][1]);
            assert_int_equal(ein_tensor_dtype(g, parts[k]), all[i][1]);
        }
        end(g);
    }
}

/* An older caller's structure ends before the mask; what it lacks is zero. */
static void options(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_attention_options o = {.causal = 1, .window = 4096, .softcap = 50, .mask = {77}};
    ein_tensor q = typed(g, "q", EIN_F32, D4(1, 1, 3, 4));
    o.size = offsetof(ein_attention_options, mask);
    ein_scaled_dot_product_attention(g, q, q, q, &o);
    assert_true(NODE(g, 0).attention.causal);
    assert_int_equal(NODE(g, 0).attention.window, 0);
    assert_float_equal(NODE(g, 0).attention.softcap, 0, 0);
    assert_int_equal(NODE(g, 0).spec.n_operands, 3);
    o.size = sizeof o;
    o.mask = (ein_tensor){0};
    ein_scaled_dot_product_attention(g, q, q, q, &o);
    assert_int_equal(NODE(g, 0).attention.window, 4096);
    assert_float_equal(NODE(g, 0).attention.softcap, 50, 0);
    text t = {0};
    ein__graph_print(&g->g, &t);
    assert_non_null(strstr(ein__text_get(&t), "  causal  window=4096  softcap=50\n"));
    ein__text_free(&t);
    end(g);
}

static ein_tensor with(ein_graph *g, ein_attention_options o)
{
    ein_tensor q = typed(g, "q", EIN_BF16, D4(1, 1, 3, 4));
    return ein_scaled_dot_product_attention(g, q, q, q, &o);
}

#define OPTIONS(...) (ein_attention_options){.size = sizeof(ein_attention_options), __VA_ARGS__}

static void options_refused(void **state)
{
    (void)state;
    FAILS(EIN_INVALID, "scaled_dot_product_attention: window is -1", with(g, OPTIONS(.window = -1)));
    FAILS(EIN_INVALID, "scaled_dot_product_attention: softcap is -2", with(g, OPTIONS(.softcap = -2)));
    FAILS(EIN_INVALID, "scaled_dot_product_attention: softcap is inf", with(g, OPTIONS(.softcap = INFINITY)));
    FAILS(EIN_INVALID, "scaled_dot_product_attention: scale is inf", with(g, OPTIONS(.scale = INFINITY)));
    FAILS(EIN_INVALID, "scaled_dot_product_attention: options.size is 1000",
          with(g, (ein_attention_options){.size = 1000}));
    FAILS(EIN_INVALID, "scaled_dot_product_attention: operand 3 is not a tensor of this graph",
          with(g, OPTIONS(.mask = {9})));
    FAILS(EIN_DTYPE, "scaled_dot_product_attention: mask is i32, not bool, f32 or bf16",
          with(g, OPTIONS(.mask = typed(g, "mask", EIN_I32, D4(1, 1, 3, 3)))));
    FAILS(EIN_DTYPE, "scaled_dot_product_attention: mask is f16, not bool, f32 or bf16",
          with(g, OPTIONS(.mask = typed(g, "mask", EIN_F16, D4(1, 1, 3, 3)))));
    FAILS(EIN_DTYPE, "scaled_dot_product_attention: mask is bf16, not bool, f32",
          masked(g, EIN_F32, EIN_BF16, D4(1, 1, 5, 7)));
    FAILS(EIN_SHAPE, "scaled_dot_product_attention: mask [2,3] does not broadcast to [1,1,3,3]",
          with(g, OPTIONS(.mask = x)));
    FAILS(EIN_SHAPE, "scaled_dot_product_attention: mask [2,2,5,7] does not broadcast to [2,8,5,7]",
          masked(g, EIN_F32, EIN_BOOL, D4(2, 2, 5, 7)));
    FAILS(EIN_SHAPE, "scaled_dot_product_attention: mask [1,1,1,5,7] does not broadcast to [2,8,5,7]",
          masked(g, EIN_F32, EIN_BOOL, (dims){.rank = 5, .at = {1, 1, 1, 5, 7}}));
    FAILS(EIN_DTYPE, "scaled_dot_product_attention: q, k, v are bf16, f32, f32",
          (x = typed(g, "k", EIN_F32, D4(1, 1, 3, 4)),
           ein_scaled_dot_product_attention(g, typed(g, "q", EIN_BF16, D4(1, 1, 3, 4)), x, x, NULL)));
    FAILS(EIN_DTYPE, "scaled_dot_product_attention: operand 0 is i64, not a float",
          (x = typed(g, "q", EIN_I64, D4(1, 1, 3, 4)), ein_scaled_dot_product_attention(g, x, x, x, NULL)));
}

/* ---- rotary embeddings ---- */

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

/* Pairs (2 i, 2 i + 1): half is the minor label of a head. */
static void rope_interleaved(void **state)
{
    ein_graph *g = new_graph();
    ein_tensor cosine, sine, x = typed(g, "x", EIN_BF16, D4(2, 5, 3, 8));
    (void)state;
    ein_rope_tables(g, 16, 8, 10000, &cosine, &sine);
    ein_tensor y = ein_rope_interleaved(g, x, cosine, sine, ein_scalar_input(g, "p"));
    assert_shape(g, y, "[2,5,3,8]");
    assert_int_equal(ein_tensor_dtype(g, y), EIN_BF16);
    assert_spec(g, "x0[b,s,h,pair,=0<2] x1[b,s,h,pair,=1<2] x2[s+$0<16,pair] x3[s+$0<16,pair] x4[half] -> "
                   "y0[b,s,h,pair,half]  b=2 s=5 h=3 half=2(whole) pair=4");
    assert_string_equal(NODE(g, 0).name, "rope_interleaved");
    const expr *body = &NODE(g, 0).body[0];
    assert_float_equal(EVAL(*body, 2, 3, 5, 7, 0), 2 * 5 - 3 * 7, 0);
    assert_float_equal(EVAL(*body, 2, 3, 5, 7, 1), 3 * 5 + 2 * 7, 0);
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
    FAILS(EIN_DTYPE, "rope: x, cosine, sine are f32, f64, f64; tables are f32 or as x",
          (y = typed(g, "c", EIN_F64, (dims){.rank = 2, .at = {2, 3}}),
           ein_rope(g, IN(g, "y", 1, 1, 1, 6), y, y, p)));
    FAILS(EIN_DTYPE, "rope: x, cosine, sine are bf16, bf16, f32; tables are f32 or as x",
          (y = typed(g, "c", EIN_BF16, (dims){.rank = 2, .at = {2, 3}}),
           ein_rope(g, typed(g, "y", EIN_BF16, D4(1, 1, 1, 6)), y, x, p)));
    FAILS(EIN_SHAPE, "rope_interleaved: head size 3 is odd",
          ein_rope_interleaved(g, IN(g, "y", 1, 1, 1, 3), x, x, no_scalar));
    FAILS(EIN_SHAPE, "rope_tables: head size 7", (ein_rope_tables(g, 4, 7, 1e4, &y, &x), y));
    FAILS(EIN_INVALID, "rope_tables: theta is 0", (ein_rope_tables(g, 4, 8, 0, &y, &x), y));
    FAILS(EIN_SHAPE, "rope_tables: extent -4 of axis 0 is negative",
          (ein_rope_tables(g, -4, 8, 1e4, &y, &x), y));
    FAILS(EIN_INVALID, "rope_tables: sine is NULL", (ein_rope_tables(g, 4, 8, 1e4, &y, NULL), y));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention), cmocka_unit_test(attention_refused), cmocka_unit_test(masks),
        cmocka_unit_test(types), cmocka_unit_test(options), cmocka_unit_test(options_refused),
        cmocka_unit_test(rope), cmocka_unit_test(rope_interleaved), cmocka_unit_test(rope_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
