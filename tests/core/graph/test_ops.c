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

/* ---- gather ---- */

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
        cmocka_unit_test(embedding), cmocka_unit_test(embedding_refused),
        cmocka_unit_test(reshape), cmocka_unit_test(reshape_refused), cmocka_unit_test(reshape_any),
        cmocka_unit_test(permute), cmocka_unit_test(permute_refused), cmocka_unit_test(slice),
        cmocka_unit_test(slice_refused), cmocka_unit_test(concat), cmocka_unit_test(concat_refused),
        cmocka_unit_test(append), cmocka_unit_test(append_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
