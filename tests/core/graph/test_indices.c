/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers, scatters, masks and new values by their printed specs and bodies; what they refuse. */
#include "tests/core/graph/fixture.h"

#include <math.h>

/* One failing call on a graph with x [2,3] and i [2,3] of i64. */
#define FAILS(status, line, call)                                \
    do {                                                         \
        ein_graph *g = new_graph();                              \
        ein_tensor x = IN(g, "x", 2, 3);                         \
        ein_tensor i = ein_input(g, "i", EIN_I64, SHAPE(2, 3));  \
        (void)x;                                                 \
        (void)i;                                                 \
        end_failed(g, call, status, line);                       \
    } while (0)

static void assert_ids(const ein_graph *g, int operand, const char *label)
{
    const node *n = &NODE(g, 0);
    assert_int_equal(n->id_operand, operand);
    assert_string_equal(n->spec.labels[n->id_label].name, label);
}

static void embedding(void **state)
{
    static const ein_dtype types[] = {EIN_F32, EIN_I32, EIN_I64, EIN_F64, EIN_BF16, EIN_F16, EIN_I8, EIN_BOOL};
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor ids = ein_input(g, "ids", EIN_I32, SHAPE(5));
    for (int i = 0; i < 8; i++) {
        char name[] = {'t', (char)('0' + i), 0};
        ein_tensor y = ein_embedding(g, ids, ein_parameter(g, name, types[i], SHAPE(100, 16)));
        assert_shape(g, y, "[5,16]");
        assert_int_equal(ein_tensor_dtype(g, y), types[i]);
        assert_int_equal(NODE(g, 0).spec.merge->compute[0], ein__dtype_compute(types[i]));
        assert_int_equal(NODE(g, 0).spec.merge->wire[0], types[i]);
    }
    assert_ids(g, 0, "v");
    end(g);
}

static void index_select(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 3, 4, 5), ids = ein_input(g, "ids", EIN_I64, SHAPE(7));
    assert_shape(g, ein_index_select(g, x, 1, ids), "[2,7,4,5]");
    assert_spec(g, "x0[rows] x1[d0,v,d2,d] -> y0[d0,rows,d2,d]  rows=7 v=3(sum) d=5 d0=2 d2=4");
    assert_int_equal(NODE(g, 0).kind, OP_GATHER);
    assert_ids(g, 0, "v");
    assert_shape(g, ein_index_select(g, x, -1, ids), "[2,3,4,7]");
    assert_spec(g, "x0[rows] x1[d0,d1,d2,v,d] -> y0[d0,d1,d2,rows,d]  rows=7 v=5(sum) d=1 d0=2 d1=3 d2=4");
    assert_shape(g, ein_index_select(g, IN(g, "v", 9), 0, ids), "[7]");
    assert_spec(g, "x0[rows] x1[v,d] -> y0[rows,d]  rows=7 v=9(sum) d=1");
    end(g);
}

static void gather(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 3, 4), index = ein_input(g, "ids", EIN_I64, SHAPE(2, 7, 4));
    assert_shape(g, ein_gather(g, x, 1, index), "[2,7,4]");
    assert_spec(g, "x0[d0,rows,d2] x1[d0,v,d2,d] -> y0[d0,rows,d2,d]  rows=7 v=3(sum) d=1 d0=2 d2=4");
    assert_ids(g, 0, "v");
    end(g);
}

static void gathers_refused(void **state)
{
    (void)state;
    const int64_t outside[] = {1, 3}, inside[] = {1, 2};
    FAILS(EIN_DTYPE, "index_select: ids are f32, not i32 or i64", ein_index_select(g, x, 0, IN(g, "n", 4)));
    FAILS(EIN_SHAPE, "index_select: ids [2,3] has rank 2, not 1", ein_index_select(g, x, 0, i));
    FAILS(EIN_INVALID, "index_select: id 3 at place 1 of a constant is not in a table of 3 rows",
          ein_index_select(g, x, 1, ein_constant(g, EIN_I64, SHAPE(2), outside)));
    FAILS(EIN_INVALID, "index_select: id 2 at place 1 of a constant is not in a table of 2 rows",
          ein_index_select(g, x, 0, ein_constant(g, EIN_I64, SHAPE(2), inside)));
    FAILS(EIN_INVALID, "embedding: id 3 at place 1 of a constant is not in a table of 2 rows",
          ein_embedding(g, ein_unsqueeze(g, ein_constant(g, EIN_I64, SHAPE(2), outside), 0), x));
    FAILS(EIN_SHAPE, "gather: x [4,3] and index [2,3] differ in more than axis 1",
          ein_gather(g, IN(g, "y", 4, 3), 1, i));
    FAILS(EIN_SHAPE, "gather: x [2] and index [2,3] differ in more than axis 0", ein_gather(g, IN(g, "y", 2), 0, i));
    FAILS(EIN_INVALID, "gather: axis 0 of a tensor of rank 0",
          ein_gather(g, ein_input(g, "s", EIN_F32, 0, NULL), 0, i));
}

static void scatter_add(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 3, 4), index = ein_input(g, "ids", EIN_I64, SHAPE(2, 7, 4)),
               source = IN(g, "s", 2, 7, 4);
    assert_shape(g, ein_scatter_add(g, x, 1, index, source), "[2,3,4]");
    assert_spec(g, "x0[d0,d1,d2] x1[d0,j,d2] x2[d0,j,d2] -> y0[d0,d1,d2]  d0=2 d1=3 d2=4 j=7(sum)");
    assert_ids(g, 1, "d1");
    const expr *body = &NODE(g, 0).body[0]; /* x, id, source, place along the axis, place in the index */
    assert_float_equal(EVAL(*body, 5, 2, 7, 2, 0), 12, 0);
    assert_float_equal(EVAL(*body, 5, 2, 7, 2, 1), 7, 0);
    assert_float_equal(EVAL(*body, 5, 2, NAN, 1, 0), 5, 0);
    assert_float_equal(EVAL(*body, NAN, 2, 7, 1, 1), 0, 0);
    ein_tensor empty = ein_scatter_add(g, x, 0, ein_input(g, "no", EIN_I32, SHAPE(0, 3, 4)), IN(g, "e", 0, 3, 4));
    assert_int_equal(empty.id, x.id);
    end(g);
}

static void scatter_add_refused(void **state)
{
    (void)state;
    FAILS(EIN_DTYPE, "scatter_add: operands 0 and 1 are f32 and i64", ein_scatter_add(g, x, 0, i, i));
    FAILS(EIN_DTYPE, "scatter_add: ids are f32, not i32 or i64", ein_scatter_add(g, x, 0, x, x));
    FAILS(EIN_SHAPE, "scatter_add: index [2,3] and source [2,4] differ",
          ein_scatter_add(g, x, 1, i, IN(g, "s", 2, 4)));
    FAILS(EIN_DTYPE, "scatter_add: operand 0 is bool, not a number",
          (x = ein_input(g, "b", EIN_BOOL, SHAPE(2, 3)), ein_scatter_add(g, x, 1, i, x)));
}

static void one_hot(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor ids = ein_input(g, "ids", EIN_I32, SHAPE(2, 3)), y = ein_one_hot(g, ids, 10, EIN_BF16);
    assert_shape(g, y, "[2,3,10]");
    assert_int_equal(ein_tensor_dtype(g, y), EIN_BF16);
    assert_spec(g, "x0[d0,d1] -> y0[d0,d1,v]  d0=2 d1=3 v=10");
    assert_ids(g, 0, "v");
    assert_float_equal(EVAL(NODE(g, 0).body[0], 4, 4), 1, 0);
    assert_float_equal(EVAL(NODE(g, 0).body[0], 4, 5), 0, 0);
    assert_shape(g, ein_one_hot(g, ein_input(g, "no", EIN_I64, SHAPE(0)), 0, EIN_BOOL), "[0,0]");
    end(g);
}

static void one_hot_refused(void **state)
{
    (void)state;
    const int32_t five = 5;
    FAILS(EIN_INVALID, "one_hot: id 5 at place 0 of a constant is not in a table of 5 rows",
          ein_one_hot(g, ein_constant(g, EIN_I32, 0, NULL, &five), 5, EIN_F32));
    FAILS(EIN_SHAPE, "one_hot: -1 classes", ein_one_hot(g, i, -1, EIN_F32));
    FAILS(EIN_DTYPE, "one_hot: of f8e4m3", ein_one_hot(g, i, 4, EIN_F8E4M3));
    FAILS(EIN_DTYPE, "one_hot: ids are f32, not i32 or i64", ein_one_hot(g, x, 4, EIN_F32));
}

static void triangles(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = ein_input(g, "x", EIN_I8, SHAPE(2, 3, 4)), y = ein_tril(g, x, 1);
    assert_shape(g, y, "[2,3,4]");
    assert_int_equal(ein_tensor_dtype(g, y), EIN_I8);
    assert_spec(g, "x0[d0,d1,d2] -> y0[d0,d1,d2]  d0=2 d1=3 d2=4");
    assert_int_equal(NODE(g, 0).n_indices, 2);
    assert_int_equal(NODE(g, 0).indices[0], 1);
    assert_int_equal(NODE(g, 0).indices[1], 2);
    assert_float_equal(EVAL(NODE(g, 0).body[0], 9, 1, 2), 9, 0); /* x, row, column */
    assert_float_equal(EVAL(NODE(g, 0).body[0], 9, 1, 3), 0, 0);
    ein_triu(g, x, INT64_MIN);
    assert_float_equal(EVAL(NODE(g, 0).body[0], 9, 2, 0), 9, 0);
    ein_triu(g, x, -1);
    assert_float_equal(EVAL(NODE(g, 0).body[0], 9, 2, 1), 9, 0);
    assert_float_equal(EVAL(NODE(g, 0).body[0], 9, 2, 0), 0, 0);
    end(g);
}

static void triangles_refused(void **state)
{
    (void)state;
    FAILS(EIN_SHAPE, "triu: x has rank 1; at least 2", ein_triu(g, IN(g, "v", 3), 0));
}

static void new_values(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor y = ein_full(g, EIN_BF16, SHAPE(2, 3), 1.5);
    assert_shape(g, y, "[2,3]");
    assert_int_equal(ein_tensor_dtype(g, y), EIN_BF16);
    assert_spec(g, "x0[] -> y0[d0,d1]  d0=2 d1=3");
    assert_shape(g, ein_full(g, EIN_I64, 0, NULL, -3), "[]");
    assert_int_equal(*(const int64_t *)g->g.leaves.items[g->g.leaves.n - 1].data, -3);
    y = ein_arange(g, EIN_F32, 5, 10, -2);
    assert_shape(g, y, "[5]");
    assert_int_equal(ein_tensor_dtype(g, y), EIN_F32);
    assert_spec(g, "-> y0[d0]  d0=5");
    assert_float_equal(EVAL(NODE(g, 0).body[0], 4), 2, 0);
    ein_arange(g, EIN_F64, 5, 0.1, 0.1); /* the numbers are operands, since constants are f32 */
    assert_spec(g, "x0[] x1[] -> y0[d0]  d0=5");
    assert_float_equal(EVAL(NODE(g, 0).body[0], 0.1, 0.1, 4), 0.1 + 0.1 * 4, 0);
    assert_shape(g, ein_arange(g, EIN_I32, 0, 0, 1), "[0]");
    end(g);
}

static void new_values_refused(void **state)
{
    (void)state;
    FAILS(EIN_DTYPE, "full: f8e5m2 is reserved, not built yet", ein_full(g, EIN_F8E5M2, SHAPE(2), 0));
    FAILS(EIN_DTYPE, "arange: 77 is no dtype", ein_arange(g, (ein_dtype)77, 2, 0, 1));
    FAILS(EIN_SHAPE, "full: extent -1 of axis 0 is negative", ein_full(g, EIN_F32, SHAPE(-1), 0));
    FAILS(EIN_INVALID, "full: shape is NULL", ein_full(g, EIN_F32, 1, NULL, 0));
    FAILS(EIN_SHAPE, "arange: extent -2 of axis 0 is negative", ein_arange(g, EIN_F32, -2, 0, 1));
    FAILS(EIN_INVALID, "arange: start 0.5 and step 1 of i32", ein_arange(g, EIN_I32, 2, 0.5, 1));
    FAILS(EIN_INVALID, "arange: start inf and step 1 of f32", ein_arange(g, EIN_F32, 2, INFINITY, 1));
    FAILS(EIN_DTYPE, "arange: of bool", ein_arange(g, EIN_BOOL, 2, 0, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embedding), cmocka_unit_test(index_select), cmocka_unit_test(gather),
        cmocka_unit_test(gathers_refused), cmocka_unit_test(scatter_add),
        cmocka_unit_test(scatter_add_refused), cmocka_unit_test(one_hot), cmocka_unit_test(one_hot_refused),
        cmocka_unit_test(triangles), cmocka_unit_test(triangles_refused), cmocka_unit_test(new_values),
        cmocka_unit_test(new_values_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
