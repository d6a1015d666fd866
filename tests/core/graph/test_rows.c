/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and norms: specs, stages, expressions, what is refused. */
#include "tests/core/graph/fixture.h"

#include <math.h>

static const ein_tensor none = {0};

#define FAILS(status, line, call)           \
    do {                                    \
        ein_graph *g = new_graph();         \
        ein_tensor x = IN(g, "x", 2, 3);    \
        (void)x;                            \
        end_failed(g, call, status, line);  \
    } while (0)

/* The number of a stage's state in a point. */
#define STATE(n, stage, state, ...) EVAL((n)->stages[stage].body[state], __VA_ARGS__)

static void softmax(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 3, 8);
    assert_shape(g, ein_softmax(g, x, -2), "[2,3,8]");
    assert_spec(g, "x0[d0,d1,d2] -> y0[d0,d1,d2]  d0=2 d1=3(two-step) d2=8");
    const node *n = &NODE(g, 0);
    assert_int_equal(n->kind, OP_ROW);
    assert_int_equal(n->n_stages, 2);
    assert_string_equal(n->stages[0].merge->name, "max");
    assert_string_equal(n->stages[1].merge->name, "sum");
    assert_float_equal(STATE(n, 1, 0, 3, 2), exp(1), 1e-15);
    assert_float_equal(EVAL(n->body[0], 3, 2, 4), exp(1) / 4, 1e-15);
    assert_int_equal(ein__spec_aggregated(&n->spec), 0);
    ein_log_softmax(g, x, 0);
    n = &NODE(g, 0);
    assert_string_equal(n->name, "log_softmax");
    assert_float_equal(STATE(n, 1, 0, 3, 2), exp(1), 1e-15);
    assert_float_equal(EVAL(n->body[0], 3, 2, 4), 1 - log(4), 1e-15);
    assert_true(EVAL(n->body[0], -1e30, 2, 4) < -9e29); /* no log of 0 */
    end(g);
}

/* Statistics are not rounded to bf16. */
static void types(void **state)
{
    static const ein_dtype all[] = {EIN_F32, EIN_F64, EIN_BF16, EIN_F16};
    (void)state;
    for (int i = 0; i < 4; i++) {
        ein_graph *g = new_graph();
        ein_tensor x = ein_input(g, "x", all[i], SHAPE(2, 6, 5)), w = ein_input(g, "w", all[i], SHAPE(5));
        ein_tensor c = ein_input(g, "c", all[i], SHAPE(6));
        const ein_tensor made[] = {ein_softmax(g, x, 1), ein_log_softmax(g, x, 1), ein_rms_norm(g, x, w, 0),
                                   ein_layer_norm(g, x, w, w, 0), ein_group_norm(g, x, 2, c, c, 0),
                                   ein_batch_norm(g, x, c, c, c, c, 0)};
        for (int k = 0; k < 6; k++) {
            assert_int_equal(ein_tensor_dtype(g, made[k]), all[i]);
            const node *n = &g->g.nodes.items[k];
            for (int s = 0; s < n->n_stages; s++)
                for (int q = 0; q < n->stages[s].merge->n_states; q++)
                    assert_int_equal(n->stages[s].merge->wire[q], ein__dtype_compute(all[i]));
        }
        if (i >= 2) {
            ein_tensor f = IN(g, "f", 5);
            assert_int_equal(ein_tensor_dtype(g, ein_layer_norm(g, x, f, f, 0)), all[i]);
        }
        end(g);
    }
}

static void rms_norm(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 3, 8), w = ein_parameter(g, "w", EIN_F32, SHAPE(8));
    assert_shape(g, ein_rms_norm(g, x, w, 0.25), "[2,3,8]");
    assert_spec(g, "x0[d0,d1,d2] x1[d2] -> y0[d0,d1,d2]  d0=2 d1=3 d2=8(two-step)");
    const node *n = &NODE(g, 0);
    assert_int_equal(n->n_stages, 1);
    assert_float_equal(STATE(n, 0, 0, 3, 7), 9, 0);
    assert_float_equal(EVAL(n->body[0], 3, 7, 16), 3 / sqrt(16 / 8.0 + 0.25) * 7, 1e-15);
    ein_rms_norm(g, x, none, 0);
    assert_float_equal(EVAL(NODE(g, 0).body[0], 3, 16), 3 / sqrt(16 / 8.0), 1e-15);
    end(g);
}

static void layer_norm(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 3, 8), w = ein_parameter(g, "w", EIN_F32, SHAPE(8)), b = IN(g, "b", 8);
    assert_shape(g, ein_layer_norm(g, x, w, b, 0.25), "[2,3,8]");
    assert_spec(g, "x0[d0,d1,d2] x1[d2] x2[d2] -> y0[d0,d1,d2]  d0=2 d1=3 d2=8(two-step)");
    const node *n = &NODE(g, 0);
    assert_int_equal(n->n_stages, 1);
    assert_string_equal(n->stages[0].merge->name, "welford");
    assert_float_equal(STATE(n, 0, 0, 3, 5, 7), 1, 0);
    assert_float_equal(STATE(n, 0, 1, 3, 5, 7), 3, 0);
    assert_float_equal(STATE(n, 0, 2, 3, 5, 7), 0, 0);
    /* x, weight, bias; count, mean, squared distances */
    assert_float_equal(EVAL(n->body[0], 3, 5, 7, 8, 1, 16), 2 / sqrt(2.25) * 5 + 7, 1e-14);
    ein_layer_norm(g, x, none, b, 0.25);
    assert_float_equal(EVAL(NODE(g, 0).body[0], 3, 7, 8, 1, 16), 2 / sqrt(2.25) + 7, 1e-14);
    ein_layer_norm(g, x, w, none, 0.25);
    assert_float_equal(EVAL(NODE(g, 0).body[0], 3, 5, 8, 1, 16), 2 / sqrt(2.25) * 5, 1e-14);
    ein_layer_norm(g, x, none, none, 0.25);
    assert_float_equal(EVAL(NODE(g, 0).body[0], 3, 8, 1, 16), 2 / sqrt(2.25), 1e-14);
    assert_shape(g, ein_layer_norm(g, IN(g, "e", 2, 0), none, none, 0), "[2,0]");
    end(g);
}

static void group_norm(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 6, 4, 5), w = IN(g, "w", 6), b = IN(g, "b", 6);
    assert_shape(g, ein_group_norm(g, x, 3, w, b, 0.25), "[2,6,4,5]");
    assert_spec(g, "x0[n,g,c,s] x1[g,c] x2[g,c] -> y0[n,g,c,s]  n=2 g=3 c=2(two-step) s=20(two-step)");
    assert_float_equal(EVAL(NODE(g, 0).body[0], 3, 5, 7, 8, 1, 16), 2 / sqrt(2.25) * 5 + 7, 1e-14);
    assert_shape(g, ein_group_norm(g, IN(g, "y", 2, 6), 6, none, b, 0), "[2,6]");
    assert_spec(g, "x0[n,g,c] x1[g,c] -> y0[n,g,c]  n=2 g=6 c=1(two-step)");
    end(g);
}

static void batch_norm(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 6, 5), c = IN(g, "c", 6);
    assert_shape(g, ein_batch_norm(g, x, c, c, c, c, 0.25), "[2,6,5]");
    assert_spec(g, "x0[d0,d1,d2] x1[d1] x2[d1] x3[d1] x4[d1] -> y0[d0,d1,d2]  d0=2 d1=6 d2=5");
    assert_int_equal(NODE(g, 0).kind, OP_MAP);
    /* x, weight, bias, mean, variance */
    assert_float_equal(EVAL(NODE(g, 0).body[0], 3, 5, 7, 1, 2), 2 / sqrt(2.25) * 5 + 7, 1e-14);
    ein_batch_norm(g, x, c, c, none, none, 0.25);
    assert_float_equal(EVAL(NODE(g, 0).body[0], 3, 1, 2), 2 / sqrt(2.25), 1e-14);
    end(g);
}

static void refused(void **state)
{
    (void)state;
    FAILS(EIN_INVALID, "softmax: axis 2 of a tensor of rank 2", ein_softmax(g, x, 2));
    FAILS(EIN_DTYPE, "log_softmax: operand 0 is i32, not a float",
          ein_log_softmax(g, ein_input(g, "i", EIN_I32, SHAPE(2)), 0));
    FAILS(EIN_SHAPE, "rms_norm: x [2,3] and weight [2] disagree on the last axis",
          ein_rms_norm(g, x, IN(g, "w", 2), 0));
    FAILS(EIN_INVALID, "rms_norm: eps is -1", ein_rms_norm(g, x, none, -1));
    FAILS(EIN_SHAPE, "rms_norm: x is a scalar",
          ein_rms_norm(g, ein_input(g, "s", EIN_F32, 0, NULL), none, 0));
    FAILS(EIN_SHAPE, "layer_norm: x [2,3] and bias [3,1] disagree on the last axis",
          ein_layer_norm(g, x, none, IN(g, "b", 3, 1), 0));
    FAILS(EIN_DTYPE, "layer_norm: weight is f64, x f32",
          ein_layer_norm(g, x, ein_input(g, "w", EIN_F64, SHAPE(3)), none, 0));
    FAILS(EIN_DTYPE, "layer_norm: weight is f32, x f64",
          ein_layer_norm(g, ein_input(g, "d", EIN_F64, SHAPE(3)), IN(g, "w", 3), none, 0));
    FAILS(EIN_DTYPE, "rms_norm: weight is bf16, x f32", ein_rms_norm(g, x, ein_input(g, "w", EIN_BF16, SHAPE(3)), 0));
    FAILS(EIN_SHAPE, "group_norm: 3 channels of [2,3] in 2 groups", ein_group_norm(g, x, 2, none, none, 0));
    FAILS(EIN_SHAPE, "group_norm: 3 channels of [2,3] in 0 groups", ein_group_norm(g, x, 0, none, none, 0));
    FAILS(EIN_SHAPE, "group_norm: x [4] has no axis 1", ein_group_norm(g, IN(g, "y", 4), 1, none, none, 0));
    FAILS(EIN_SHAPE, "group_norm: x [2,3,4] and bias [4] disagree on axis 1",
          ein_group_norm(g, IN(g, "y", 2, 3, 4), 1, none, IN(g, "b", 4), 0));
    FAILS(EIN_SHAPE, "batch_norm: x [2,3,4] and variance [4] disagree on axis 1",
          ein_batch_norm(g, IN(g, "y", 2, 3, 4), IN(g, "m", 3), IN(g, "v", 4), none, none, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax), cmocka_unit_test(types), cmocka_unit_test(rms_norm), cmocka_unit_test(layer_norm),
        cmocka_unit_test(group_norm), cmocka_unit_test(batch_norm), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
