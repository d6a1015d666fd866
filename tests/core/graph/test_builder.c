/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/core/graph/fixture.h"

#include <limits.h>

static void leaves(void **state)
{
    ein_graph *g = new_graph();
    int64_t shape[EIN_MAX_RANK] = {0};
    (void)state;
    ein_tensor x = IN(g, "x", 2, 64, 4096), w = ein_parameter(g, "x", EIN_F32, SHAPE(8, 8));
    ein_tensor k = ein_state_tensor(g, "x", EIN_F32, 0, NULL); /* names are per kind */
    ein_tensor ids = ein_input(g, "ids", EIN_I64, SHAPE(3, 0, 5));
    assert_int_equal(ein_tensor_shape(g, x, shape), 3);
    assert_int_equal(shape[0], 2);
    assert_int_equal(shape[1], 64);
    assert_int_equal(shape[2], 4096);
    assert_int_equal(ein_tensor_shape(g, ids, NULL), 3);
    assert_int_equal(ein_tensor_shape(g, k, shape), 0);
    assert_int_equal(ein_tensor_shape(g, (ein_tensor){0}, shape), 0);
    assert_int_equal(ein_tensor_shape(g, (ein_tensor){99}, shape), 0);
    assert_int_equal(ein_tensor_shape(NULL, x, shape), 0);
    assert_int_equal(g->g.leaves.n, 4);
    assert_int_equal(g->g.leaves.items[1].kind, LEAF_PARAMETER);
    assert_int_equal(g->g.leaves.items[1].value, ein__value(w));
    assert_string_equal(g->g.leaves.items[3].name, "ids");
    assert_int_equal(ein__value_numel(&g->g, ein__value(x)), 2 * 64 * 4096);
    assert_int_equal(ein__value_numel(&g->g, ein__value(k)), 1);
    assert_int_equal(ein__value_numel(&g->g, ein__value(ids)), 0);
    ein_output(g, "y", w);
    ein_output(g, "z", w);
    assert_int_equal(g->g.outputs.n, 2);
    assert_string_equal(g->g.outputs.items[1].name, "z");
    end(g);
}

/* Names are copied; constants are copied, and equal ones are one leaf. */
static void copies(void **state)
{
    ein_graph *g = new_graph();
    char name[] = "x";
    float data[] = {1, 2, 3, 4, 5, 6};
    (void)state;
    ein_input(g, name, EIN_F32, SHAPE(2));
    ein_scalar p = ein_scalar_input(g, name);
    assert_int_equal(p.id, 1);
    ein_tensor a = ein_constant(g, EIN_F32, SHAPE(2, 3), data);
    ein_tensor b = ein_constant(g, EIN_F32, SHAPE(2, 3), data);
    assert_int_equal(a.id, b.id);
    assert_int_not_equal(a.id, ein_constant(g, EIN_F32, SHAPE(3, 2), data).id);
    assert_int_not_equal(a.id, ein_constant(g, EIN_I32, SHAPE(2, 3), data).id);
    name[0] = 'q';
    data[5] = 7;
    assert_int_not_equal(a.id, ein_constant(g, EIN_F32, SHAPE(2, 3), data).id);
    assert_string_equal(g->g.leaves.items[0].name, "x");
    assert_string_equal(g->g.scalars.items[0], "x");
    assert_float_equal(((const float *)g->g.leaves.items[1].data)[5], 6, 0);
    ein_tensor empty = ein_constant(g, EIN_F32, SHAPE(0, 3), data);
    assert_shape(g, empty, "[0,3]");
    end(g);
}

/* The first error stays, and everything after it is {0}. */
static void first_error(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    assert_string_equal(ein_graph_error(g), "");
    ein_tensor x = IN(g, "x", 2, 3), y = IN(g, "y", 4, 5);
    ein_tensor bad = ein_linear(g, x, y, (ein_tensor){0});
    assert_int_equal(bad.id, 0);
    int nodes = g->g.nodes.n;
    assert_int_equal(ein_add(g, x, x).id, 0);
    assert_int_equal(IN(g, "z", 1).id, 0);
    assert_int_equal(ein_constant(g, EIN_F32, 0, NULL, &(float){1}).id, 0);
    assert_int_equal(ein_scalar_input(g, "s").id, 0);
    ein_output(g, "out", bad);
    ein_output(g, "out", x);
    ein_tensor c = {7}, s = {7}, parts[3] = {{7}, {7}, {7}};
    ein_rope_tables(g, 4, 4, 1e4, &c, &s);
    ein_scaled_dot_product_attention_partial(g, x, x, x, NULL, parts);
    assert_int_equal(c.id + s.id + parts[0].id + parts[2].id, 0);
    assert_int_equal(g->g.nodes.n, nodes);
    assert_int_equal(g->g.outputs.n, 0);
    end_failed(g, bad, EIN_SHAPE, "linear: x [2,3] and weight [4,5] disagree on k: 3 and 5");
}

/* {0} is quiet where no error is on record; only an output of it is an error. */
static void no_tensor(void **state)
{
    ein_graph *g = new_graph();
    ein_tensor none = {0}, x = IN(g, "x", 2);
    (void)state;
    assert_int_equal(ein_add(g, none, x).id, 0);
    assert_int_equal(ein_relu(g, none).id, 0);
    assert_int_equal(ein_embedding(g, none, x).id, 0);
    assert_int_equal(ein_graph_status(g), EIN_OK);
    ein_output(g, "y", none);
    end_failed(g, none, EIN_INVALID, "output 'y' is not a tensor of this graph");
    assert_int_equal(ein_add(NULL, x, x).id, 0);
    assert_int_equal(ein_graph_status(NULL), EIN_INVALID);
    assert_string_equal(ein_graph_error(NULL), "");
    ein_output(NULL, "y", x);
    ein_graph_free(NULL);
    assert_int_equal(ein_graph_create(NULL), EIN_INVALID);
}

#define FAILS(status, line, call)                   \
    do {                                            \
        ein_graph *g = new_graph();                 \
        ein_tensor x = IN(g, "x", 2, 3);            \
        (void)x;                                    \
        ein_tensor y = call;                        \
        end_failed(g, y, status, line);             \
    } while (0)

static ein_tensor give(ein_graph *g, const char *name, ein_tensor x)
{
    ein_output(g, name, x);
    return (ein_tensor){0};
}

static ein_tensor scalar(ein_graph *g, const char *name)
{
    return (ein_tensor){ein_scalar_input(g, name).id};
}

static void refused_leaves(void **state)
{
    static const int64_t rank9[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    (void)state;
    FAILS(EIN_INVALID, "input 'x' is declared twice", IN(g, "x", 4));
    FAILS(EIN_INVALID, "input: name is NULL", IN(g, NULL, 4));
    FAILS(EIN_INVALID, "parameter: name is empty", ein_parameter(g, "", EIN_F32, SHAPE(4)));
    FAILS(EIN_SHAPE, "input 'y': extent -4 of axis 1 is negative", IN(g, "y", 2, -4));
    FAILS(EIN_SHAPE, "input 'y': rank 9; 0 to 8 are allowed", ein_input(g, "y", EIN_F32, 9, rank9));
    FAILS(EIN_SHAPE, "input 'y': rank -1; 0 to 8 are allowed", ein_input(g, "y", EIN_F32, -1, rank9));
    FAILS(EIN_INVALID, "input 'y': shape is NULL", ein_input(g, "y", EIN_F32, 2, NULL));
    FAILS(EIN_SHAPE, "input 'y': [1048576,1048577] has more than 2^40 elements",
          IN(g, "y", 1 << 20, (1 << 20) + 1));
    FAILS(EIN_SHAPE, "input 'y': [0,9223372036854775807,3] has more than 2^40 elements",
          IN(g, "y", 0, INT64_MAX, 3)); /* an empty tensor does not hide it */
    FAILS(EIN_DTYPE, "input 'y': f8e4m3 is reserved, not built yet", ein_input(g, "y", EIN_F8E4M3, SHAPE(2)));
    FAILS(EIN_DTYPE, "input 'y': 42 is no dtype", ein_input(g, "y", (ein_dtype)42, SHAPE(2)));
    FAILS(EIN_INVALID, "constant [2]: data is NULL", ein_constant(g, EIN_F32, SHAPE(2), NULL));
    FAILS(EIN_INVALID, "scalar: name is NULL", scalar(g, NULL));
    FAILS(EIN_INVALID, "scalar 'p' is declared twice", (scalar(g, "p"), scalar(g, "p")));
    FAILS(EIN_INVALID, "output: name is NULL", give(g, NULL, x));
    FAILS(EIN_INVALID, "output 'y' is declared twice", (give(g, "y", x), give(g, "y", x)));
    FAILS(EIN_INVALID, "output 'y' is not a tensor of this graph", give(g, "y", (ein_tensor){77}));
}

static void refused_operands(void **state)
{
    ein_tensor many[33];
    (void)state;
    for (int i = 0; i < 33; i++) many[i] = (ein_tensor){1};
    FAILS(EIN_INVALID, "add: operand 1 is not a tensor of this graph", ein_add(g, x, (ein_tensor){9}));
    FAILS(EIN_INVALID, "concat: no operands", ein_concat(g, 0, many, 0));
    FAILS(EIN_INVALID, "concat: no operands", ein_concat(g, -1, many, 0));
    FAILS(EIN_INVALID, "map: operands is NULL", ein_map(g, "x0", 1, NULL));
    FAILS(EIN_UNSUPPORTED, "concat: 33 operands; at most 32 are built", ein_concat(g, 33, many, 0));
    FAILS(EIN_DTYPE, "sub: operand 1 is bool, not a number",
          ein_sub(g, x, ein_input(g, "i", EIN_BOOL, SHAPE(2, 3))));
}

/* A graph that uses every op, for the test of failing allocations. */
static void build_all(ein_graph *g)
{
    ein_tensor x = IN(g, "x", 2, 4, 8), w = ein_parameter(g, "w", EIN_F32, SHAPE(8, 8));
    ein_tensor cosine, sine, parts[3], ids = ein_input(g, "ids", EIN_I32, SHAPE(2, 4));
    ein_tensor k = ein_state_tensor(g, "k", EIN_F32, SHAPE(2, 9, 8));
    ein_scalar p = ein_scalar_input(g, "p");
    ein_tensor y = ein_add(g, ein_linear(g, x, w, (ein_tensor){0}), ein_embedding(g, ids, w));
    y = ein_softmax(g, ein_rms_norm(g, y, (ein_tensor){0}, 1e-5), -1);
    ein_tensor q = ein_reshape(g, y, SHAPE(2, 4, 2, 4));
    ein_rope_tables(g, 16, 4, 1e4, &cosine, &sine);
    q = ein_permute(g, ein_rope(g, q, cosine, sine, p), (int[]){0, 2, 1, 3});
    ein_scaled_dot_product_attention_partial(g, q, q, q, NULL, parts);
    ein_tensor kept = ein_state_append(g, k, ein_slice(g, y, 1, 0, 2), 1, p);
    ein_output(g, "a", ein_mean(g, ein_concat(g, 2, (ein_tensor[]){kept, y}, 1), 0, NULL, 1));
    ein_output(g, "b", ein_scaled_dot_product_attention(g, q, q, q, NULL));
    ein_tensor turned = ein_permute(g, y, (int[]){0, 2, 1});
    ein_output(g, "c", ein_einsum(g, "bij,bjk->bk", 2, (ein_tensor[]){y, turned}));
    ein_output(g, "d", parts[1]);
    ein_tensor none = {0}, ids64 = ein_cast(g, ids, EIN_I64), long_row = IN(g, "long", 4096), v = IN(g, "v", 4), out[2];
    ein_output(g, "e", ein_layer_norm(g, ein_group_norm(g, x, 2, v, v, 1e-5), none, IN(g, "bias", 8), 1e-5));
    ein_output(g, "f", ein_batch_norm(g, ein_gelu(g, ein_clamp(g, x, 0, 1), 1), v, v, none, v, 1e-5));
    ein_output(g, "g", ein_where(g, ein_lt(g, x, y), ein_cast(g, x, EIN_I32), ein_argmax(g, x, 2, 1)));
    ein_output(g, "h", ein_cross_entropy(g, ein_log_softmax(g, x, 2), ids64));
    ein_output(g, "i", ein_logsumexp(g, ein_cumsum(g, IN(g, "prime", 67), 0), 0, NULL, 0));
    ein_topk(g, long_row, 3, 0, 0, out);
    ein_output(g, "j", out[0]);
    ein_output(g, "k", ein_any(g, out[1], 0, NULL, 0));
}

/* Each allocation in turn fails: the graph says so, nothing leaks, nothing crashes. */
static void no_memory(void **state)
{
    long live = ein__alloc_live();
    (void)state;
    for (long n = 1;; n++) {
        ein_graph *g = NULL;
        ein__alloc_fail_at(n);
        ein_status status = ein_graph_create(&g);
        if (status == EIN_OK) build_all(g);
        ein__alloc_fail_at(0);
        if (status == EIN_OK) status = ein_graph_status(g);
        if (status == EIN_OK) {
            assert_true(n > 5);
            assert_int_equal(g->g.outputs.n, 11);
            end(g);
            break;
        }
        assert_int_equal(status, EIN_NO_MEMORY);
        ein_graph_free(g);
        assert_int_equal(ein__alloc_live(), live);
    }
    assert_int_equal(ein__alloc_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves), cmocka_unit_test(copies), cmocka_unit_test(first_error),
        cmocka_unit_test(no_tensor), cmocka_unit_test(refused_leaves), cmocka_unit_test(refused_operands),
        cmocka_unit_test(no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
