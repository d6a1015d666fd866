/* SPDX-License-Identifier: Apache-2.0 */
/* Moves by their printed specs; what they refuse. */
#include "tests/core/graph/fixture.h"

static const ein_dtype all_types[] = {EIN_F32, EIN_I32, EIN_I64, EIN_F64, EIN_BF16, EIN_F16, EIN_I8, EIN_BOOL};

/* One failing call on a graph with x [2,3]. */
#define FAILS(status, line, call)           \
    do {                                    \
        ein_graph *g = new_graph();         \
        ein_tensor x = IN(g, "x", 2, 3);    \
        (void)x;                            \
        end_failed(g, call, status, line);  \
    } while (0)

#define AXES(...) (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (int[]){__VA_ARGS__}

/* Number of nodes so far. */
static int nodes(const ein_graph *g) { return g->g.nodes.n; }

static void every_type(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof all_types / sizeof *all_types; i++) {
        ein_graph *g = new_graph();
        ein_dtype d = all_types[i];
        ein_tensor x = ein_input(g, "x", d, SHAPE(4, 6)), s = ein_state_tensor(g, "s", d, SHAPE(4, 9)), out[2];
        const ein_scalar none = {0};
        ein_split(g, x, 2, (int64_t[]){2, 4}, 1, out);
        const ein_tensor made[] = {
            ein_reshape(g, x, SHAPE(24)), ein_permute(g, x, (int[]){1, 0}), ein_slice(g, x, 1, 1, 3),
            ein_concat(g, 2, (ein_tensor[]){x, x}, 0), ein_state_append(g, s, x, 1, none),
            ein_slice_step(g, x, 1, 0, 6, 2), ein_stack(g, 2, (ein_tensor[]){x, x}, 0), out[0], out[1],
            ein_transpose(g, x, 0, 1), ein_unsqueeze(g, x, 0), ein_flatten(g, x, 0, 1),
            ein_expand(g, x, SHAPE(3, 4, 6)), ein_pad(g, x, (int64_t[]){1, 0}, (int64_t[]){0, 1}, 1),
            ein_roll(g, x, 1, 0), ein_flip(g, x, AXES(0))};
        for (size_t k = 0; k < sizeof made / sizeof *made; k++) {
            assert_string_equal(ein_graph_error(g), "");
            assert_int_equal(ein_tensor_dtype(g, made[k]), d);
        }
        end(g);
    }
}

static void mixed_types(void **state)
{
    (void)state;
    FAILS(EIN_DTYPE, "concat: operands 0 and 1 are f32 and i32",
          ein_concat(g, 2, (ein_tensor[]){x, ein_input(g, "i", EIN_I32, SHAPE(2, 3))}, 0));
    FAILS(EIN_DTYPE, "stack: operands 0 and 1 are f32 and bf16",
          ein_stack(g, 2, (ein_tensor[]){x, ein_input(g, "i", EIN_BF16, SHAPE(2, 3))}, 0));
    FAILS(EIN_DTYPE, "state_append: operands 0 and 1 are f16 and f32",
          ein_state_append(g, ein_state_tensor(g, "s", EIN_F16, SHAPE(4, 3)), x, 0, (ein_scalar){0}));
}

/* ---- views ---- */

static void squeeze_and_flatten(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 1, 6), s = ein_input(g, "s", EIN_F32, 0, NULL);
    assert_shape(g, ein_squeeze(g, x, -2), "[2,6]");
    assert_true(ein__node_is_view(&NODE(g, 0)));
    assert_string_equal(NODE(g, 0).name, "squeeze");
    assert_int_equal(ein_squeeze(g, x, 0).id, x.id); /* 2 stays, as in PyTorch */
    assert_shape(g, ein_unsqueeze(g, x, -1), "[2,1,6,1]");
    assert_shape(g, ein_unsqueeze(g, x, 0), "[1,2,1,6]");
    assert_shape(g, ein_unsqueeze(g, s, 0), "[1]");
    assert_true(ein__node_is_view(&NODE(g, 0)));
    assert_shape(g, ein_flatten(g, x, 1, -1), "[2,6]");
    assert_shape(g, ein_flatten(g, x, 0, 2), "[12]");
    assert_true(ein__node_is_view(&NODE(g, 0)));
    assert_int_equal(ein_flatten(g, x, 1, 1).id, x.id);
    assert_shape(g, ein_flatten(g, s, 0, -1), "[1]");
    assert_shape(g, ein_flatten(g, IN(g, "e", 3, 0, 2), 1, 2), "[3,0]");
    end(g);
}

static void squeeze_refused(void **state)
{
    (void)state;
    FAILS(EIN_INVALID, "squeeze: axis 2 of a tensor of rank 2", ein_squeeze(g, x, 2));
    FAILS(EIN_INVALID, "unsqueeze: axis 3 of a tensor of rank 3", ein_unsqueeze(g, x, 3));
    FAILS(EIN_SHAPE, "unsqueeze: rank 9; 0 to 8 are allowed",
          ein_unsqueeze(g, IN(g, "y", 1, 1, 1, 1, 1, 1, 1, 1), 0));
    FAILS(EIN_INVALID, "flatten: first axis 1 is behind the last, 0", ein_flatten(g, x, 1, 0));
    FAILS(EIN_INVALID, "flatten: axis -3 of a tensor of rank 2", ein_flatten(g, x, -3, 1));
}

static void transpose(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 3, 4);
    assert_shape(g, ein_transpose(g, x, -1, 0), "[4,3,2]");
    assert_spec(g, "x0[d0,d1,d2] -> y0[d2,d1,d0]  d0=2 d1=3 d2=4");
    assert_int_equal(ein_transpose(g, x, 1, -2).id, x.id);
    end(g);
}

static void transpose_refused(void **state)
{
    (void)state;
    FAILS(EIN_INVALID, "transpose: axis 2 of a tensor of rank 2", ein_transpose(g, x, 0, 2));
}

static void expand(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 3, 1), s = ein_input(g, "s", EIN_F32, 0, NULL);
    assert_shape(g, ein_expand(g, x, SHAPE(2, -1, 4)), "[2,3,4]");
    assert_spec(g, "x0[d1,=0<1] -> y0[d0,d1,d2]  d0=2 d1=3 d2=4");
    assert_false(ein__node_is_view(&NODE(g, 0)));
    assert_shape(g, ein_expand(g, s, SHAPE(2, 0)), "[2,0]");
    assert_spec(g, "x0[] -> y0[d0,d1]  d0=2 d1=0");
    assert_shape(g, ein_expand(g, x, SHAPE(1, 3, 1)), "[1,3,1]");
    assert_true(ein__node_is_view(&NODE(g, 0)));
    assert_int_equal(ein_expand(g, x, SHAPE(-1, -1)).id, x.id);
    assert_int_equal(ein_expand(g, s, 0, NULL).id, s.id);
    end(g);
}

static void expand_refused(void **state)
{
    (void)state;
    FAILS(EIN_SHAPE, "expand: [2,3] does not broadcast to [2,6]", ein_expand(g, x, SHAPE(2, 6)));
    FAILS(EIN_SHAPE, "expand: [2,3] does not broadcast to [3]", ein_expand(g, x, SHAPE(3)));
    FAILS(EIN_SHAPE, "expand: extent -1 of axis 0 is negative", ein_expand(g, x, SHAPE(-1, 2, 3)));
    FAILS(EIN_SHAPE, "expand: rank 9; 0 to 8 are allowed",
          ein_expand(g, x, 9, (int64_t[9]){1, 1, 1, 1, 1, 1, 1, 2, 3}));
    FAILS(EIN_INVALID, "expand: shape is NULL", ein_expand(g, x, 2, NULL));
}

/* ---- parts ---- */

static void slice_step(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 10), e = IN(g, "e", 0), one = IN(g, "one", 1);
    assert_shape(g, ein_slice_step(g, x, 1, 1, 10, 3), "[2,3]"); /* 1 4 7 */
    assert_spec(g, "x0[d0,d1*3+1<10] -> y0[d0,d1]  d0=2 d1=3");
    assert_shape(g, ein_slice_step(g, x, -1, -1, INT64_MIN, -1), "[2,10]");
    assert_spec(g, "x0[d0,-1*d1+9<10] -> y0[d0,d1]  d0=2 d1=10");
    assert_shape(g, ein_slice_step(g, x, 1, 8, 2, -2), "[2,3]"); /* 8 6 4 */
    assert_spec(g, "x0[d0,-2*d1+8<10] -> y0[d0,d1]  d0=2 d1=3");
    assert_shape(g, ein_slice_step(g, x, 1, INT64_MAX, -11, -9), "[2,2]"); /* 9 0 */
    assert_shape(g, ein_slice_step(g, x, 1, 3, -1, -1), "[2,0]"); /* -1 is the last element */
    assert_shape(g, ein_slice_step(g, x, 1, 5, 5, 2), "[2,0]");
    assert_shape(g, ein_slice_step(g, x, 1, 3, 10, INT64_MAX), "[2,1]");
    assert_spec(g, "x0[d0,d1+3<10] -> y0[d0,d1]  d0=2 d1=1");
    assert_shape(g, ein_slice_step(g, x, 1, 3, INT64_MIN, INT64_MIN), "[2,1]");
    assert_shape(g, ein_slice_step(g, x, 1, -4, INT64_MAX, 1), "[2,4]");
    assert_spec(g, "x0[d0,d1+6<10] -> y0[d0,d1]  d0=2 d1=4");
    assert_int_equal(ein_slice_step(g, x, 1, 0, 10, 1).id, x.id);
    assert_int_equal(ein_slice_step(g, e, 0, 0, 0, -5).id, e.id);
    assert_int_equal(ein_slice_step(g, one, 0, -1, INT64_MIN, -5).id, one.id);
    end(g);
}

static void slice_step_refused(void **state)
{
    (void)state;
    FAILS(EIN_INVALID, "slice_step: the step is 0", ein_slice_step(g, x, 0, 0, 1, 0));
    FAILS(EIN_INVALID, "slice_step: axis 2 of a tensor of rank 2", ein_slice_step(g, x, 2, 0, 1, 1));
}

static void split(void **state)
{
    ein_graph *g = new_graph();
    ein_tensor x = IN(g, "x", 2, 7), out[3];
    (void)state;
    ein_split(g, x, 3, (int64_t[]){2, 0, 5}, -1, out);
    assert_shape(g, out[0], "[2,2]");
    assert_shape(g, out[1], "[2,0]");
    assert_shape(g, out[2], "[2,5]");
    assert_spec(g, "x0[d0,d1+2<7] -> y0[d0,d1]  d0=2 d1=5");
    ein_split(g, x, 1, (int64_t[]){7}, 1, out);
    assert_int_equal(out[0].id, x.id);
    end(g);
}

static void split_refused(void **state)
{
    (void)state;
    ein_tensor y[2];
    FAILS(EIN_SHAPE, "split: 2 pieces of 2 on axis 1, which has 3",
          (ein_split(g, x, 2, (int64_t[]){1, 1}, 1, y), y[0]));
    FAILS(EIN_SHAPE, "split: piece 1 has 3 of the 2 that are left on axis 1",
          (ein_split(g, x, 2, (int64_t[]){1, 3}, 1, y), y[1]));
    FAILS(EIN_INVALID, "split: sizes is NULL", (ein_split(g, x, 2, NULL, 1, y), y[1]));
    FAILS(EIN_INVALID, "split: no pieces", (ein_split(g, x, 0, NULL, 1, y), (ein_tensor){0}));
    FAILS(EIN_INVALID, "split: out is NULL",
          (ein_split(g, x, 2, (int64_t[]){1, 1}, 1, NULL), (ein_tensor){0}));
}

static void flip(void **state)
{
    ein_graph *g = new_graph();
    ein_tensor x = IN(g, "x", 2, 1, 4);
    (void)state;
    assert_shape(g, ein_flip(g, x, AXES(0, 1, -1)), "[2,1,4]");
    assert_spec(g, "x0[-1*d0+1<2,d1,-1*d2+3<4] -> y0[d0,d1,d2]  d0=2 d1=1 d2=4");
    assert_int_equal(ein_flip(g, x, AXES(1)).id, x.id);
    assert_int_equal(ein_flip(g, x, 0, NULL).id, x.id);
    end(g);
}

static void flip_refused(void **state)
{
    (void)state;
    FAILS(EIN_INVALID, "flip: axis -1 is given twice", ein_flip(g, x, AXES(1, -1)));
    FAILS(EIN_INVALID, "flip: axes is NULL", ein_flip(g, x, 1, NULL));
    FAILS(EIN_INVALID, "flip: axis 2 of a tensor of rank 2", ein_flip(g, x, AXES(2)));
}

static void stack(void **state)
{
    ein_graph *g = new_graph();
    ein_tensor a = IN(g, "a", 2, 3), b = IN(g, "b", 2, 3), s = ein_input(g, "s", EIN_F32, 0, NULL);
    (void)state;
    assert_shape(g, ein_stack(g, 3, (ein_tensor[]){a, b, a}, 1), "[2,3,3]");
    assert_spec(g, "x0[d0,d1<1,d2] x1[d0,d1-1<1,d2] x2[d0,d1-2<1,d2] -> y0[d0,d1,d2]  d0=2 d1=3 d2=3");
    assert_shape(g, ein_stack(g, 2, (ein_tensor[]){a, b}, -1), "[2,3,2]");
    assert_shape(g, ein_stack(g, 1, &s, 0), "[1]");
    assert_true(ein__node_is_view(&NODE(g, 0)));
    end(g);
}

static void stack_refused(void **state)
{
    (void)state;
    FAILS(EIN_SHAPE, "stack: operands 0 and 1 are [2,3] and [3,2]",
          ein_stack(g, 2, (ein_tensor[]){x, IN(g, "y", 3, 2)}, 0));
    FAILS(EIN_INVALID, "stack: axis 3 of a tensor of rank 3", ein_stack(g, 1, &x, 3));
}

static void roll(void **state)
{
    ein_graph *g = new_graph();
    ein_tensor x = IN(g, "x", 2, 7), e = IN(g, "e", 0);
    (void)state;
    assert_shape(g, ein_roll(g, x, 3, -1), "[2,7]");
    assert_spec(g, "x0[d0,d1-3<7] x1[d0,d1+4<7] -> y0[d0,d1]  d0=2 d1=7");
    ein_roll(g, x, -15, 1);
    assert_spec(g, "x0[d0,d1-6<7] x1[d0,d1+1<7] -> y0[d0,d1]  d0=2 d1=7");
    assert_int_equal(ein_roll(g, x, -14, 1).id, x.id);
    assert_int_equal(ein_roll(g, e, 5, 0).id, e.id);
    end(g);
}

static void roll_refused(void **state)
{
    (void)state;
    FAILS(EIN_INVALID, "roll: axis 2 of a tensor of rank 2", ein_roll(g, x, 1, 2));
}

/* ---- pad ---- */

static void pad(void **state)
{
    ein_graph *g = new_graph();
    ein_tensor x = IN(g, "x", 5, 4, 3);
    (void)state;
    assert_shape(g, ein_pad(g, x, (int64_t[]){0, 1, 0}, (int64_t[]){0, 2, 0}, 7), "[5,7,3]");
    assert_spec(g, "x0[d0,d1-1<4,d2] x1[d1<1] x2[d1-5<2] -> y0[d0,d1,d2]  d0=5 d1=7 d2=3");
    const leaf *table = &g->g.leaves.items[g->g.values.items[NODE(g, 0).operands[2]].owner];
    assert_float_equal(((const float *)table->data)[1], 7, 0);
    /* the second dimension's borders stand beside the operand's rows only */
    assert_shape(g, ein_pad(g, x, (int64_t[]){0, 1, 2}, (int64_t[]){0, 1, 0}, 0), "[5,6,5]");
    assert_spec(g, "x0[d0,d1-1<4,d2-2<3] x1[d1<1] x2[d1-5<1] x3[d1-1<4,d2<2] -> y0[d0,d1,d2]  d0=5 d1=6 d2=5");
    assert_int_equal(NODE(g, 0).operands[1], NODE(g, 0).operands[2]); /* one table */
    int n = nodes(g);
    assert_shape(g, ein_pad(g, x, (int64_t[]){-2, 0, 1}, (int64_t[]){-1, 0, 0}, 0), "[2,4,4]");
    assert_int_equal(nodes(g), n + 2);
    assert_spec(g, "x0[d0,d1,d2-1<3] x1[d2<1] -> y0[d0,d1,d2]  d0=2 d1=4 d2=4");
    assert_shape(g, ein_pad(g, x, (int64_t[]){-2, 0, -1}, (int64_t[]){0, -1, 0}, 0), "[3,3,2]");
    const int64_t zeros[3] = {0};
    assert_int_equal(ein_pad(g, x, zeros, zeros, 0).id, x.id);
    end(g);
}

static void pad_empty_and_large(void **state)
{
    ein_graph *g = new_graph();
    ein_tensor e = IN(g, "e", 0, 3), s = ein_input(g, "s", EIN_F32, 0, NULL);
    (void)state;
    assert_shape(g, ein_pad(g, e, (int64_t[]){2, 1}, (int64_t[]){0, 0}, 0), "[2,4]");
    assert_spec(g, "x0[d0-2<0,d1-1<3] x1[d0] -> y0[d0,d1]  d0=2 d1=4");
    assert_int_equal(ein_pad(g, s, NULL, NULL, 0).id, s.id);
    ein_tensor x = IN(g, "x", 400, 400, 8);
    int n = nodes(g);
    assert_shape(g, ein_pad(g, x, (int64_t[]){1, 1, 1}, (int64_t[]){1, 0, 0}, 0), "[402,401,9]");
    assert_int_equal(nodes(g), n + 3); /* else the last border would be a table of 160000 */
    assert_spec(g, "x0[d0,d1,d2-1<8] x1[d2<1] -> y0[d0,d1,d2]  d0=402 d1=401 d2=9");
    end(g);
}

static void pad_refused(void **state)
{
    (void)state;
    FAILS(EIN_SHAPE, "pad: axis 1 of [2,3] is cut by more than it has",
          ein_pad(g, x, (int64_t[]){0, -2}, (int64_t[]){0, -2}, 0));
    FAILS(EIN_SHAPE, "pad: 9223372036854775807 before and 0 after axis 0",
          ein_pad(g, x, (int64_t[]){INT64_MAX, 0}, (int64_t[]){0, 0}, 0));
    FAILS(EIN_SHAPE, "pad: [1099511627778,3] has more than 2^40 elements",
          ein_pad(g, x, (int64_t[]){(int64_t)1 << 40, 0}, (int64_t[]){0, 0}, 0));
    FAILS(EIN_INVALID, "pad: after is NULL", ein_pad(g, x, (int64_t[]){0, 0}, NULL, 0));
}

/* No table of a border's size is made when the graph is. */
static void pad_by_much(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor y = ein_pad(g, IN(g, "x", 1), (int64_t[]){0}, (int64_t[]){(int64_t)1 << 39}, 2);
    assert_shape(g, y, "[549755813889]");
    assert_int_equal(g->g.leaves.n, 2);
    assert_int_equal(ein__value_numel(&g->g, g->g.leaves.items[1].value), 1);
    end(g);
    g = new_graph();
    y = ein_pad(g, IN(g, "x", 4, 6), (int64_t[]){0, 0}, (int64_t[]){1099517760, -1}, 2);
    assert_shape(g, y, "[1099517764,5]");
    end(g);
    ein_tensor cosine, sine;
    g = new_graph();
    ein_rope_tables(g, (int64_t)1 << 30, 128, 10000, &cosine, &sine);
    end_failed(g, cosine, EIN_SHAPE, "rope_tables: [1073741824,64] has more than 2^28 elements");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pad_by_much),
        cmocka_unit_test(every_type), cmocka_unit_test(mixed_types), cmocka_unit_test(squeeze_and_flatten),
        cmocka_unit_test(squeeze_refused), cmocka_unit_test(transpose), cmocka_unit_test(transpose_refused),
        cmocka_unit_test(expand), cmocka_unit_test(expand_refused), cmocka_unit_test(slice_step),
        cmocka_unit_test(slice_step_refused), cmocka_unit_test(split), cmocka_unit_test(split_refused),
        cmocka_unit_test(flip), cmocka_unit_test(flip_refused), cmocka_unit_test(stack),
        cmocka_unit_test(stack_refused), cmocka_unit_test(roll), cmocka_unit_test(roll_refused),
        cmocka_unit_test(pad), cmocka_unit_test(pad_empty_and_large), cmocka_unit_test(pad_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
