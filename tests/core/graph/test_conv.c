/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions and pools by their printed specs; what they refuse. */
#include "tests/core/graph/fixture.h"

#include "core/graph/canonical.h"

static const ein_tensor none = {0};

#define OPTIONS(...) (&(ein_conv_options){.size = sizeof(ein_conv_options), __VA_ARGS__})
#define POOL(...) (&(ein_pool_options){.size = sizeof(ein_pool_options), __VA_ARGS__})

/* One failing call on a graph with x [2,4,6,7] and w [8,4,3,3]. */
#define FAILS(status, line, call)                                  \
    do {                                                           \
        ein_graph *g = new_graph();                                \
        ein_tensor x = IN(g, "x", 2, 4, 6, 7);                     \
        ein_tensor w = ein_parameter(g, "w", EIN_F32, SHAPE(8, 4, 3, 3)); \
        (void)x;                                                   \
        (void)w;                                                   \
        end_failed(g, call, status, line);                         \
    } while (0)

static void conv2d(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 4, 6, 7), w = ein_parameter(g, "w", EIN_F32, SHAPE(5, 4, 3, 3)),
               b = ein_parameter(g, "b", EIN_F32, SHAPE(5));
    assert_shape(g, ein_conv2d(g, x, w, none, NULL), "[2,5,4,5]");
    assert_spec(g, "x0[n,c,oh+r<6,ow+s<7] x1[o,c,r,s] -> y0[n,o,oh,ow]  n=2 o=5 oh=4 ow=5 c=4(sum) r=3(sum) s=3(sum)");
    assert_true(NODE(g, 0).product);
    int n = g->g.nodes.n;
    assert_shape(g, ein_conv2d(g, x, w, b, OPTIONS(.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2},
                                                   .padding_end = {0, 1})), "[2,5,3,4]");
    assert_int_equal(g->g.nodes.n, n + 4); /* padding, product, the bias as a column, bias */
    assert_string_equal(NODE(g, 0).name, "conv2d bias");
    assert_spec(g, "x0[d0,d1,d2,d3] x1[d1,=0<1,=0<1] -> y0[d0,d1,d2,d3]  d0=2 d1=5 d2=3 d3=4");
    assert_spec_of(g, 2, "x0[n,c,oh*2+r<8,ow+s*2<8] x1[o,c,r,s] -> y0[n,o,oh,ow]  n=2 o=5 oh=3 ow=4 c=4(sum) r=3(sum) "
                         "s=3(sum)");
    assert_spec_of(g, 3, "x0[d0,d1,d2-1<6,d3<7] x1[d2<1] x2[d2-7<1] x3[d2-1<6,d3-7<1] -> y0[d0,d1,d2,d3]  d0=2 d1=4 "
                         "d2=8 d3=8");
    end(g);
}

static void groups(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 4, 6, 7), w = ein_parameter(g, "w", EIN_F32, SHAPE(8, 1, 3, 1));
    assert_shape(g, ein_conv2d(g, x, w, none, OPTIONS(.groups = 4)), "[2,8,4,7]");
    assert_spec(g, "x0[n,g,c,oh+r<6,ow] x1[g,o,c,r] -> y0[n,g,o,oh,ow]  n=2 g=4 o=2 oh=4 ow=7 c=1(sum) r=3(sum)");
    w = ein_parameter(g, "v", EIN_F32, SHAPE(8, 2, 3, 1)); /* side by side, but in groups */
    assert_shape(g, ein_conv2d(g, x, w, none, OPTIONS(.groups = 2, .stride = {3, 1})), "[2,8,2,7]");
    assert_spec(g, "x0[n,g,c,oh,r,ow] x1[g,o,c,r] -> y0[n,g,o,oh,ow]  n=2 g=2 o=4 oh=2 ow=7 c=2(sum) r=3(sum)");
    end(g);
}

/* A 1x1 kernel is a matrix product; others are if the windows are moved into patches, where that pays. */
static void products(void **state)
{
    ein_graph *g = new_graph();
    graph canonical = {0};
    (void)state;
    ein_tensor x = IN(g, "x", 2, 3, 8, 12), w = ein_parameter(g, "w", EIN_F32, SHAPE(8, 3, 1, 1));
    assert_shape(g, ein_conv2d(g, x, w, none, NULL), "[2,8,8,12]");
    assert_spec(g, "x0[n,c,oh,ow] x1[o,c] -> y0[n,o,oh,ow]  n=2 o=8 oh=8 ow=12 c=3(sum)");
    assert_shape(g, ein_conv2d(g, x, w, none, OPTIONS(.stride = {2, 1})), "[2,8,4,12]");
    assert_spec(g, "x0[n,c,oh*2<8,ow] x1[o,c] -> y0[n,o,oh,ow]  n=2 o=8 oh=4 ow=12 c=3(sum)");
    ein_tensor patches = ein_parameter(g, "p", EIN_F32, SHAPE(8, 3, 4, 4));
    ein_conv2d(g, x, patches, none, OPTIONS(.stride = {2, 1}));
    assert_string_equal(NODE(g, 1).name, "conv2d patches");
    assert_spec_of(g, 1, "x0[n,c,oh*2+r<8,ow+s<12] -> y0[n,c,r,s,oh,ow]  n=2 c=3 r=4 s=4 oh=3 ow=9");
    assert_spec(g, "x0[n,c,r,s,oh,ow] x1[o,c,r,s] -> y0[n,o,oh,ow]  n=2 o=8 oh=3 ow=9 c=3(sum) r=4(sum) s=4(sum)");
    assert_true(NODE(g, 0).product);
    ein_tensor y = ein_conv2d(g, x, patches, none, OPTIONS(.stride = {4, 4}));
    assert_shape(g, y, "[2,8,2,3]");
    assert_spec_of(g, 1, "x0[n,c,oh,r,ow,s] -> y0[n,c,r,s,oh,ow]  n=2 c=3 r=4 s=4 oh=2 ow=3");
    ein_output(g, "y", y);
    error e = {0};
    assert_int_equal(ein__canonicalize(&g->g, &canonical, &e), EIN_OK);
    assert_int_equal(canonical.nodes.n, 2); /* a permute that is not absorbed, the product */
    ein__arena_free(&canonical.arena);
    end(g);
}

/* No patches: few channels, a type that no library takes, or too many of them. */
static void no_patches(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 1, 8, 12), large = IN(g, "large", 1, 512, 512, 512);
    ein_conv2d(g, x, ein_parameter(g, "a", EIN_F32, SHAPE(8, 1, 3, 3)), none, NULL);
    ein_conv2d(g, x, ein_parameter(g, "b", EIN_F32, SHAPE(7, 1, 4, 4)), none, NULL);
    ein_tensor wide = ein_input(g, "d", EIN_F64, SHAPE(2, 4, 8, 8));
    ein_conv2d(g, wide, ein_parameter(g, "c", EIN_F64, SHAPE(8, 4, 2, 2)), none, OPTIONS(.stride = {2, 2}));
    ein_conv2d(g, large, ein_parameter(g, "e", EIN_F32, SHAPE(512, 512, 3, 3)), none, NULL);
    assert_int_equal(g->g.nodes.n, 4);
    ein_conv2d(g, large, ein_parameter(g, "f", EIN_F32, SHAPE(8, 512, 2, 2)), none, OPTIONS(.stride = {2, 2}));
    assert_int_equal(g->g.nodes.n, 6); /* side by side they are no more than the image */
    end(g);
}

static void conv1d(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = ein_input(g, "x", EIN_BF16, SHAPE(2, 4, 9)), w = ein_parameter(g, "w", EIN_BF16, SHAPE(6, 4, 3));
    ein_tensor y = ein_conv1d(g, x, w, none, OPTIONS(.stride = {2}));
    assert_shape(g, y, "[2,6,4]");
    assert_int_equal(ein_tensor_dtype(g, y), EIN_BF16);
    assert_spec(g, "x0[n,c,ow*2+s<9] x1[o,c,s] -> y0[n,o,ow]  n=2 o=6 ow=4 c=4(sum) s=3(sum)");
    assert_shape(g, ein_conv1d(g, x, w, none, OPTIONS(.stride = {100})), "[2,6,1]"); /* one window: no stride */
    assert_spec(g, "x0[n,c,s<9] x1[o,c,s] -> y0[n,o,ow]  n=2 o=6 ow=1 c=4(sum) s=3(sum)");
    assert_shape(g, ein_conv1d(g, IN(g, "e", 0, 4, 9), ein_parameter(g, "v", EIN_F32, SHAPE(6, 4, 3)), none, NULL),
                 "[0,6,7]");
    end(g);
}

static void conv_refused(void **state)
{
    (void)state;
    const ein_conv_options unset = {.stride = {1, 1}};
    FAILS(EIN_SHAPE, "conv2d: windows of 7 on 6 elements of dimension 2, padding included",
          ein_conv2d(g, x, w, none, OPTIONS(.dilation = {3, 1})));
    FAILS(EIN_SHAPE, "conv1d: x [2,4,6,7] has rank 4, not 3",
          (w = ein_parameter(g, "v", EIN_F32, SHAPE(8, 4, 3)), ein_conv1d(g, x, w, none, NULL)));
    FAILS(EIN_SHAPE, "conv2d: x [2,4,6,7] and weight [8,2,3,3] disagree on channels of a group: 4 and 2",
          ein_conv2d(g, x, ein_parameter(g, "v", EIN_F32, SHAPE(8, 2, 3, 3)), none, NULL));
    FAILS(EIN_SHAPE, "conv2d: 3 groups of x [2,4,6,7] and weight [8,4,3,3]",
          ein_conv2d(g, x, w, none, OPTIONS(.groups = 3)));
    FAILS(EIN_SHAPE, "conv2d: bias [7] for 8 channels", ein_conv2d(g, x, w, IN(g, "b", 7), NULL));
    FAILS(EIN_DTYPE, "conv2d: operands 0 and 2 are f32 and f64",
          ein_conv2d(g, x, w, ein_input(g, "b", EIN_F64, SHAPE(8)), NULL));
    FAILS(EIN_DTYPE, "conv2d: operand 0 is i32, not a float",
          (x = ein_input(g, "i", EIN_I32, SHAPE(2, 4, 6, 7)), ein_conv2d(g, x, w, none, NULL)));
    FAILS(EIN_INVALID, "conv2d: options.size is 0", ein_conv2d(g, x, w, none, &unset));
    FAILS(EIN_INVALID, "conv2d: stride -1 and dilation 1 along dimension 3",
          ein_conv2d(g, x, w, none, OPTIONS(.stride = {1, -1})));
    FAILS(EIN_INVALID, "conv2d: padding of -1 and, behind, 0 more along dimension 2",
          ein_conv2d(g, x, w, none, OPTIONS(.padding = {-1, 0})));
    FAILS(EIN_INVALID, "conv2d: padding of 1 and, behind, -2 more along dimension 2",
          ein_conv2d(g, x, w, none, OPTIONS(.padding = {1, 0}, .padding_end = {-2, 0})));
    FAILS(EIN_SHAPE, "conv2d: kernel of 0 along dimension 3",
          ein_conv2d(g, x, ein_parameter(g, "v", EIN_F32, SHAPE(8, 4, 3, 0)), none, NULL));
}

/* ---- pools ---- */

static void max_pool(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = ein_input(g, "x", EIN_I8, SHAPE(3, 6, 8)), y = ein_max_pool(g, x, POOL(.kernel = {2, 2}));
    assert_shape(g, y, "[3,3,4]");
    assert_int_equal(ein_tensor_dtype(g, y), EIN_I8);
    assert_spec(g, "x0[d0,d1,r,d2,s] -> y0[d0,d1,d2]  d0=3 d1=3 d2=4 r=2(max) s=2(max)");
    assert_shape(g, ein_max_pool(g, x, POOL(.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1})), "[3,3,4]");
    assert_spec(g, "x0[d0,d1*2+r<8,d2*2+s<10] -> y0[d0,d1,d2]  d0=3 d1=3 d2=4 r=3(max) s=3(max)");
    const leaf *border = &g->g.leaves.items[g->g.values.items[NODE(g, 1).operands[1]].owner];
    assert_int_equal(*(const int8_t *)border->data, -128);
    assert_shape(g, ein_max_pool(g, x, POOL(.kernel = {3})), "[3,6,2]");
    assert_spec(g, "x0[d0,d1,d2*3+s<8] -> y0[d0,d1,d2]  d0=3 d1=6 d2=2 s=3(max)");
    assert_shape(g, ein_max_pool(g, x, POOL(.kernel = {3}, .ceil_mode = 1)), "[3,6,3]");
    assert_spec(g, "x0[d0,d1,d2,s] -> y0[d0,d1,d2]  d0=3 d1=6 d2=3 s=3(max)"); /* of x and one more */
    /* the last window may not start in the padding behind: 8 + 1 elements, 4 apart */
    assert_shape(g, ein_max_pool(g, x, POOL(.kernel = {2}, .stride = {4}, .padding = {0}, .padding_end = {1},
                                            .ceil_mode = 1)), "[3,6,2]");
    assert_shape(g, ein_max_pool(g, x, POOL(.kernel = {2}, .dilation = {3}, .stride = {1})), "[3,6,5]");
    assert_spec(g, "x0[d0,d1,d2+s*3<8] -> y0[d0,d1,d2]  d0=3 d1=6 d2=5 s=2(max)");
    end(g);
}

static void avg_pool(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 3, 6, 9), y = ein_avg_pool(g, x, POOL(.kernel = {2, 3}));
    assert_shape(g, y, "[3,3,3]");
    assert_float_equal(EVAL(NODE(g, 0).spec.merge->finalize[0], 12), 2, 1e-15);
    ein_avg_pool(g, x, POOL(.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1})); /* padding counts */
    assert_float_equal(EVAL(NODE(g, 0).spec.merge->finalize[0], 18), 2, 1e-15);
    ein_avg_pool(g, x, POOL(.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .exclude_padding = 1));
    assert_string_equal(NODE(g, 0).name, "avg_pool counts");
    assert_float_equal(EVAL(NODE(g, 0).body[0], 12, 0, 0), 12 / 4.0, 1e-15); /* rows 0 1, columns 0 1 */
    assert_float_equal(EVAL(NODE(g, 0).body[0], 12, 2, 1), 12 / 9.0, 1e-15); /* rows 3 4 5 */
    assert_float_equal(EVAL(NODE(g, 0).body[0], 12, 1, 4), 12 / 6.0, 1e-15); /* columns 7 8 */
    ein_avg_pool(g, x, POOL(.kernel = {4}, .padding = {1}, .ceil_mode = 1)); /* 11 places: 0-3, 4-7, 8-10 */
    assert_float_equal(EVAL(NODE(g, 0).body[0], 12, 0), 12 / 4.0, 1e-15);
    assert_float_equal(EVAL(NODE(g, 0).body[0], 12, 2), 12 / 3.0, 1e-15); /* padding counts, the end beyond it not */
    ein_avg_pool(g, x, POOL(.kernel = {4}, .padding = {1}, .ceil_mode = 1, .exclude_padding = 1));
    assert_float_equal(EVAL(NODE(g, 0).body[0], 12, 0), 12 / 3.0, 1e-15);
    assert_float_equal(EVAL(NODE(g, 0).body[0], 12, 2), 12 / 2.0, 1e-15);
    ein_avg_pool(g, x, POOL(.kernel = {3}, .stride = {1}, .dilation = {2}, .padding = {2}, .exclude_padding = 1));
    assert_float_equal(EVAL(NODE(g, 0).body[0], 12, 0), 12 / 2.0, 1e-15); /* places -2 0 2 */
    assert_float_equal(EVAL(NODE(g, 0).body[0], 12, 2), 12 / 3.0, 1e-15); /* 0 2 4 */
    assert_float_equal(EVAL(NODE(g, 0).body[0], 12, 7), 12 / 2.0, 1e-15); /* 5 7 9 */
    y = ein_avg_pool(g, ein_input(g, "h", EIN_F16, SHAPE(9)), POOL(.kernel = {4}, .ceil_mode = 1));
    assert_int_equal(ein_tensor_dtype(g, y), EIN_F16);
    assert_int_equal(g->g.values.items[NODE(g, 1).results[0]].dtype, EIN_F32); /* sums are rounded once */
    end(g);
}

static void pool_refused(void **state)
{
    (void)state;
    FAILS(EIN_INVALID, "max_pool: options is NULL", ein_max_pool(g, x, NULL));
    FAILS(EIN_INVALID, "max_pool: padding of 2 and 2 is more than half of windows of 3",
          ein_max_pool(g, x, POOL(.kernel = {3, 3}, .padding = {2, 0})));
    FAILS(EIN_SHAPE, "max_pool: kernel of 0 along dimension 3", ein_max_pool(g, x, POOL(.padding = {1})));
    FAILS(EIN_SHAPE, "avg_pool: windows of 8 on 7 elements of dimension 3, padding included",
          ein_avg_pool(g, x, POOL(.kernel = {1, 8})));
    FAILS(EIN_DTYPE, "avg_pool: operand 0 is i32, not a float",
          ein_avg_pool(g, ein_input(g, "i", EIN_I32, SHAPE(4)), POOL(.kernel = {1})));
    FAILS(EIN_SHAPE, "avg_pool: x [] has rank 0; at least 1",
          ein_avg_pool(g, ein_input(g, "s", EIN_F32, 0, NULL), POOL(.kernel = {1})));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv2d), cmocka_unit_test(groups), cmocka_unit_test(products), cmocka_unit_test(no_patches),
        cmocka_unit_test(conv1d), cmocka_unit_test(conv_refused), cmocka_unit_test(max_pool),
        cmocka_unit_test(avg_pool), cmocka_unit_test(pool_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
