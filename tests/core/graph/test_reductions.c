/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions, topk, cumsum and cross entropy: specs, types, expressions, what is refused. */
#include "tests/core/graph/fixture.h"

#include <math.h>

#define FAILS(status, line, call)                                              \
    do {                                                                       \
        ein_graph *g = new_graph();                                            \
        ein_tensor x = IN(g, "x", 2, 3), out[2] = {{1}, {1}};                   \
        (void)x, (void)out;                                                    \
        end_failed(g, call, status, line);                                     \
    } while (0)

#define AXES(...) (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (int[]){__VA_ARGS__}

static ein_tensor typed(ein_graph *g, const char *name, ein_dtype d) { return ein_input(g, name, d, SHAPE(2, 3)); }

/* ---- reductions ---- */

static void reduce(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 3, 4), s = ein_input(g, "s", EIN_F32, 0, NULL);
    assert_shape(g, ein_sum(g, x, AXES(-2), 0), "[2,4]");
    assert_spec(g, "x0[d0,d1,d2] -> y0[d0,d2]  d0=2 d1=3(sum) d2=4");
    assert_int_equal(NODE(g, 0).spec.merge->finalize[0].n, 0);
    assert_shape(g, ein_amax(g, x, AXES(2, 0), 1), "[1,3,1]");
    assert_spec(g, "x0[d0,d1,d2] -> y0[k0,d1,k2]  d0=2(max) d1=3 d2=4(max) k0=1 k2=1");
    assert_shape(g, ein_amin(g, x, 0, NULL, 0), "[]");
    assert_spec(g, "x0[d0,d1,d2] -> y0[]  d0=2(min) d1=3(min) d2=4(min)");
    assert_shape(g, ein_mean(g, x, AXES(0, 1), 0), "[4]");
    assert_float_equal(EVAL(NODE(g, 0).spec.merge->finalize[0], 12), 2, 0);
    assert_shape(g, ein_prod(g, x, AXES(0), 0), "[3,4]");
    assert_spec(g, "x0[d0,d1,d2] -> y0[d1,d2]  d0=2(prod) d1=3 d2=4");
    assert_shape(g, ein_sum(g, s, 0, NULL, 1), "[]");
    assert_null(NODE(g, 0).spec.merge);
    ein_tensor empty = IN(g, "empty", 0, 4);
    assert_shape(g, ein_sum(g, empty, AXES(0), 0), "[4]");
    assert_shape(g, ein_prod(g, empty, AXES(0), 0), "[4]");
    assert_float_equal(NODE(g, 0).spec.merge->identity[0], 1, 0);
    assert_shape(g, ein_mean(g, empty, AXES(0), 0), "[4]");
    assert_true(isnan(EVAL(NODE(g, 0).spec.merge->finalize[0], 0)));
    assert_shape(g, ein_amax(g, empty, AXES(1), 0), "[0]"); /* no row, so no empty maximum */
    end(g);
}

static void truth(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 3), s = ein_input(g, "s", EIN_I64, 0, NULL), y = ein_any(g, x, AXES(1), 0);
    assert_spec(g, "x0[d0,d1] -> y0[d0]  d0=2 d1=3(max)");
    assert_int_equal(ein_tensor_dtype(g, y), EIN_BOOL);
    assert_int_equal(NODE(g, 0).spec.merge->wire[0], EIN_BOOL);
    assert_float_equal(NODE(g, 0).spec.merge->identity[0], 0, 0); /* of nothing: false */
    assert_float_equal(EVAL(NODE(g, 0).body[0], 0.5), 1, 0);
    assert_float_equal(EVAL(NODE(g, 0).body[0], NAN), 1, 0);
    assert_float_equal(EVAL(NODE(g, 0).body[0], -0.0), 0, 0);
    ein_all(g, x, AXES(0), 1);
    assert_spec(g, "x0[d0,d1] -> y0[k0,d1]  d0=2(min) d1=3 k0=1");
    assert_float_equal(NODE(g, 0).spec.merge->identity[0], 1, 0); /* of nothing: true */
    assert_int_equal(ein_tensor_dtype(g, ein_all(g, s, 0, NULL, 0)), EIN_BOOL);
    assert_float_equal(EVAL(NODE(g, 0).body[0], 5), 1, 0);
    end(g);
}

static void indices(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = ein_input(g, "x", EIN_BF16, SHAPE(2, 3, 4)), y = ein_argmax(g, x, 1, 1);
    assert_shape(g, y, "[2,1,4]");
    assert_spec(g, "x0[d0,d1,d2] -> y0[d0,k1,d2] of a0[d0,k1,d2] a1[d0,k1,d2]  d0=2 d1=3(argmax) d2=4 k1=1");
    const node *n = &NODE(g, 0);
    assert_int_equal(ein_tensor_dtype(g, y), EIN_I64);
    assert_int_equal(n->n_indices, 1);
    assert_int_equal(n->indices[0], 1);
    assert_float_equal(EVAL(n->body[0], 7, 2), 7, 0);
    assert_float_equal(EVAL(n->body[1], 7, 2), 2, 0);
    assert_int_equal(n->spec.merge->compute[0], EIN_F32);
    assert_int_equal(n->spec.merge->compute[1], EIN_I64);
    ein_argmin(g, x, -1, 0);
    assert_spec(g, "x0[d0,d1,d2] -> y0[d0,d1] of a0[d0,d1] a1[d0,d1]  d0=2 d1=3 d2=4(argmin)");
    assert_int_equal(NODE(g, 0).indices[0], 2);
    end(g);
}

static void logsumexp(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 3, 4), s = ein_input(g, "s", EIN_F16, 0, NULL);
    assert_shape(g, ein_logsumexp(g, x, AXES(0, 2), 0), "[3]");
    assert_spec(g, "x0[d0,d1,d2] -> y0[d1] of a0[d1] a1[d1]  d0=2(logsumexp) d1=3 d2=4(logsumexp)");
    assert_float_equal(EVAL(NODE(g, 0).body[0], 7), 7, 0);
    assert_float_equal(EVAL(NODE(g, 0).body[1], 7), 1, 0);
    assert_shape(g, ein_logsumexp(g, IN(g, "e", 2, 0), AXES(1), 1), "[2,1]");
    assert_int_equal(ein_tensor_dtype(g, ein_logsumexp(g, s, 0, NULL, 0)), EIN_F16);
    assert_float_equal(EVAL(NODE(g, 0).body[0], 7), 7, 0);
    end(g);
}

/* Types of f(f16), f(i8), f(bool); 0: refused. */
static void types(void **state)
{
    static const struct {
        ein_tensor (*call)(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim);
        ein_dtype of_f16, of_i8, of_bool;
    } cases[] = {{ein_sum, EIN_F16, EIN_I64, EIN_I64}, {ein_prod, EIN_F16, EIN_I64, EIN_I64},
                 {ein_mean, EIN_F16, 0, 0}, {ein_logsumexp, EIN_F16, 0, 0}, {ein_amax, EIN_F16, EIN_I8, EIN_BOOL},
                 {ein_amin, EIN_F16, EIN_I8, EIN_BOOL}, {ein_any, EIN_BOOL, EIN_BOOL, EIN_BOOL},
                 {ein_all, EIN_BOOL, EIN_BOOL, EIN_BOOL}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ein_dtype of[] = {EIN_F16, EIN_I8, EIN_BOOL}, results[] = {cases[i].of_f16, cases[i].of_i8, cases[i].of_bool};
        for (int k = 0; k < 3; k++) {
            ein_graph *g = new_graph();
            ein_tensor y = cases[i].call(g, typed(g, "x", of[k]), AXES(1), 0);
            assert_int_equal(ein_tensor_dtype(g, y), results[k]);
            if (results[k] != 0) assert_int_equal(NODE(g, 0).spec.merge->compute[0], k == 0 && i < 6 ? EIN_F32 : EIN_I64);
            if (results[k] == 0) ein_graph_free(g);
            else end(g);
        }
    }
}

static void refused(void **state)
{
    (void)state;
    FAILS(EIN_SHAPE, "amax: no elements along the axes of [2,0]",
          ein_amax(g, IN(g, "y", 2, 0), AXES(1), 0));
    FAILS(EIN_SHAPE, "argmin: no elements along the axes of [2,0]", ein_argmin(g, IN(g, "y", 2, 0), 1, 0));
    FAILS(EIN_INVALID, "sum: axis 2 of a tensor of rank 2", ein_sum(g, x, AXES(2), 0));
    FAILS(EIN_INVALID, "sum: axis -3 of a tensor of rank 2", ein_sum(g, x, AXES(-3), 0));
    FAILS(EIN_INVALID, "mean: axis -2 is given twice", ein_mean(g, x, AXES(0, -2), 0));
    FAILS(EIN_INVALID, "mean: 3 axes of a tensor of rank 2", ein_mean(g, x, AXES(0, 1, 1), 0));
    FAILS(EIN_INVALID, "sum: axes is NULL", ein_sum(g, x, 1, NULL, 0));
    FAILS(EIN_DTYPE, "mean: operand 0 is i32, not a float", ein_mean(g, typed(g, "i", EIN_I32), AXES(0), 0));
    FAILS(EIN_INVALID, "argmax: axis 2 of a tensor of rank 2", ein_argmax(g, x, 2, 0));
    FAILS(EIN_SHAPE, "cross_entropy: logits [2,3] and targets [3] differ in more than the classes",
          ein_cross_entropy(g, x, ein_input(g, "i", EIN_I64, SHAPE(3))));
    FAILS(EIN_SHAPE, "cross_entropy: logits [2,3] and targets [2,3] differ in more than the classes",
          ein_cross_entropy(g, x, typed(g, "i", EIN_I64)));
    FAILS(EIN_DTYPE, "cross_entropy: targets are f32, not i32 or i64", ein_cross_entropy(g, x, x));
    FAILS(EIN_DTYPE, "cross_entropy: operand 0 is i32, not a float",
          ein_cross_entropy(g, typed(g, "i", EIN_I32), ein_input(g, "t", EIN_I64, SHAPE(2))));
    FAILS(EIN_DTYPE, "cumsum: operand 0 is bool, not a number", ein_cumsum(g, typed(g, "b", EIN_BOOL), 0));
    FAILS(EIN_INVALID, "cumsum: axis 2 of a tensor of rank 2", ein_cumsum(g, x, 2));
}

/* ---- cross entropy ---- */

static void cross_entropy(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = ein_input(g, "x", EIN_BF16, SHAPE(2, 3, 7)), t = ein_input(g, "t", EIN_I32, SHAPE(2, 3));
    ein_tensor y = ein_cross_entropy(g, x, t);
    assert_shape(g, y, "[2,3]");
    assert_int_equal(ein_tensor_dtype(g, y), EIN_BF16);
    assert_float_equal(EVAL(NODE(g, 0).body[0], 3, 5), -2, 0);
    const node *target = &NODE(g, 1), *sum = &NODE(g, 2);
    assert_int_equal(NODE(g, 0).operands[0], sum->results[0]);
    assert_int_equal(NODE(g, 0).operands[1], target->results[0]);
    assert_int_equal(g->g.values.items[sum->results[0]].dtype, EIN_F32); /* rounded only in the end */
    assert_int_equal(g->g.values.items[target->results[0]].dtype, EIN_F32);
    assert_string_equal(sum->spec.merge->name, "logsumexp");
    assert_string_equal(target->spec.merge->name, "sum");
    assert_int_equal(target->indices[0], 2);
    assert_float_equal(EVAL(target->body[0], NAN, 5, 4), 0, 0);
    assert_float_equal(EVAL(target->body[0], 0.5, 5, 5), 0.5, 0);
    ein_cross_entropy(g, IN(g, "one", 7), ein_input(g, "i", EIN_I64, 0, NULL));
    end(g);
}

/* ---- topk ---- */

static void topk(void **state)
{
    ein_graph *g = new_graph();
    ein_tensor out[2], x = ein_input(g, "x", EIN_F16, SHAPE(2, 300, 4));
    (void)state;
    ein_topk(g, x, 5, -2, 1, out);
    assert_shape(g, out[0], "[2,5,4]");
    assert_shape(g, out[1], "[2,5,4]");
    assert_int_equal(ein_tensor_dtype(g, out[0]), EIN_F16);
    assert_int_equal(ein_tensor_dtype(g, out[1]), EIN_I64);
    assert_spec(g, "x0[d0,n,d2] -> y0[d0,k,d2] y1[d0,k,d2]  d0=2 n=300(whole) d2=4 k=5(whole)");
    const node *n = &NODE(g, 0);
    assert_int_equal(n->kind, OP_SELECT);
    assert_true(n->select.smallest);
    assert_int_equal(n->select.n, 1);
    assert_int_equal(n->select.k, 3);
    ein_topk(g, x, 0, 1, 0, out);
    assert_shape(g, out[1], "[2,0,4]");
    assert_false(NODE(g, 0).select.smallest);
    ein_topk(g, IN(g, "none", 3, 0), 0, 1, 0, out);
    assert_shape(g, out[0], "[3,0]");
    end(g);
}

/* A long row is selected from in chunks that may be cut. */
static void topk_chunks(void **state)
{
    static const struct { i64 n; int k; i64 chunks; } cases[] = {
        {2047, 1, 1}, {2048, 32, 16}, {2048, 33, 1}, {2056, 2, 8}, {2053, 2, 1}, {4095, 8, 15}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ein_graph *g = new_graph();
        ein_tensor out[2];
        ein_topk(g, IN(g, "x", 3, cases[i].n), cases[i].k, 1, 0, out);
        assert_int_equal(g->g.nodes.n, cases[i].chunks > 1 ? 3 : 1);
        if (cases[i].chunks > 1) assert_int_equal(NODE(g, 2).spec.labels[2].extent, cases[i].chunks);
        end(g);
    }
    ein_graph *g = new_graph();
    ein_tensor out[2];
    ein_topk(g, IN(g, "x", 3, 4096, 2), 5, 1, 0, out);
    assert_shape(g, out[1], "[3,5,2]");
    assert_spec(g, "x0[d0,n,d2] x1[d0,n,d2] -> y0[d0,k,d2] y1[d0,k,d2]  d0=3 n=80(whole) d2=2 k=5(whole)");
    assert_int_equal(NODE(g, 0).operands[0], NODE(g, 2).results[0]);
    assert_int_equal(NODE(g, 0).operands[1], NODE(g, 1).results[0]);
    g->g.nodes.n--; /* the nodes before it */
    assert_spec(g, "x0[d0,c,k,d2] -> y0[d0,c,k,d2]  d0=3 k=5 d2=2 c=16");
    assert_int_equal(NODE(g, 0).indices[0], 3);
    assert_float_equal(EVAL(NODE(g, 0).body[0], 7, 3), 3 * 256 + 7, 0);
    g->g.nodes.n--;
    assert_spec(g, "x0[d0,c,n,d2] -> y0[d0,c,k,d2] y1[d0,c,k,d2]  d0=3 n=256(whole) d2=2 c=16 k=5(whole)");
    ein_graph_free(g);
}

static void topk_refused(void **state)
{
    (void)state;
    FAILS(EIN_SHAPE, "topk: 4 of 3 elements along axis 1", (ein_topk(g, x, 4, -1, 0, out), out[0]));
    FAILS(EIN_SHAPE, "topk: -1 of 3 elements along axis 1", (ein_topk(g, x, -1, 1, 0, out), out[1]));
    FAILS(EIN_INVALID, "topk: axis 2 of a tensor of rank 2", (ein_topk(g, x, 1, 2, 0, out), out[0]));
    FAILS(EIN_INVALID, "topk: out is NULL", (ein_topk(g, x, 1, 1, 0, NULL), (ein_tensor){0}));
}

/* ---- cumsum ---- */

static void cumsum(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = ein_input(g, "x", EIN_BF16, SHAPE(2, 5, 4)), y = ein_cumsum(g, x, 1);
    assert_shape(g, y, "[2,5,4]");
    assert_int_equal(g->g.nodes.n, 1);
    assert_spec(g, "x0[d0,d1,i,d2] -> y0[d0,d1,j,d2]  d0=2 d1=1 d2=4 j=5 i=5(sum)");
    const node *n = &NODE(g, 0);
    assert_int_equal(n->indices[0], 4);
    assert_int_equal(n->indices[1], 3);
    assert_float_equal(EVAL(n->body[0], 7, 2, 2), 7, 0);
    assert_float_equal(EVAL(n->body[0], NAN, 3, 2), 0, 0);
    assert_int_equal(ein_tensor_dtype(g, y), EIN_BF16);
    assert_shape(g, ein_cumsum(g, IN(g, "e", 0, 3), 0), "[0,3]");
    assert_int_equal(ein_tensor_dtype(g, ein_cumsum(g, typed(g, "i", EIN_I8), 0)), EIN_I8);
    end(g);
}

/* The names of all nodes, and the type of their first results. */
static void assert_nodes(const ein_graph *g, const char *expected)
{
    text t = {0};
    for (int i = 0; i < g->g.nodes.n; i++) {
        const node *n = &g->g.nodes.items[i];
        const value_info *v = &g->g.values.items[n->results[0]];
        ein__text_add(&t, "%s%s %s %s", i > 0 ? ", " : "", n->name, ein__dtype_name(v->dtype),
                      ein__dims_text(ein__dims(&g->g, n->results[0])).s);
    }
    assert_string_equal(ein__text_get(&t), expected);
    ein__text_free(&t);
}

static void cumsum_chunks(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_cumsum(g, ein_input(g, "x", EIN_BF16, SHAPE(100, 3)), 0); /* 2 chunks of 50 */
    assert_nodes(g, "cumsum f32 [100,3], cumsum total f32 [2,3], cumsum f32 [2,3], cumsum offset bf16 [100,3]");
    assert_spec(g, "x0[d0,j,d1] x1[d0,d1] -> y0[d0,j,d1]  d0=2 d1=3 j=50");
    assert_float_equal(EVAL(NODE(g, 1).body[0], 7, 1, 1), 0, 0); /* chunks before it only */
    assert_float_equal(EVAL(NODE(g, 1).body[0], 7, 0, 1), 7, 0);
    end(g);
    g = new_graph();
    ein_cumsum(g, ein_input(g, "x", EIN_I8, SHAPE(67)), -1); /* a prime */
    assert_nodes(g, "cumsum i8 [96], cumsum i8 [96], cumsum total i8 [3], cumsum i8 [3], cumsum offset i8 [96], "
                    "cumsum i8 [67]");
    assert_spec(g, "x0[d0<96] -> y0[d0]  d0=67");
    end(g);
    g = new_graph();
    ein_cumsum(g, IN(g, "x", 4096), 0); /* 128 chunks, in turn 4 chunks of 32 */
    assert_nodes(g, "cumsum f32 [4096], cumsum total f32 [128], cumsum f32 [128], cumsum total f32 [4], cumsum f32 [4], "
                    "cumsum offset f32 [128], cumsum offset f32 [4096]");
    end(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reduce), cmocka_unit_test(truth), cmocka_unit_test(indices), cmocka_unit_test(logsumexp),
        cmocka_unit_test(types), cmocka_unit_test(refused), cmocka_unit_test(cross_entropy),
        cmocka_unit_test(topk), cmocka_unit_test(topk_chunks), cmocka_unit_test(topk_refused),
        cmocka_unit_test(cumsum), cmocka_unit_test(cumsum_chunks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
