/* SPDX-License-Identifier: Apache-2.0 */
/* Routing to experts: its last two nodes by their specs and bodies; what it refuses. */
#include "tests/core/graph/fixture.h"

#define FAILS(status, line, call)                           \
    do {                                                    \
        ein_graph *g = new_graph();                         \
        ein_tensor x = IN(g, "x", 6, 4), out[2] = {{9}, {9}}; \
        (void)x;                                            \
        call;                                               \
        assert_int_equal(out[1].id, 0);                     \
        end_failed(g, out[0], status, line);                \
    } while (0)

static void routing(void **state)
{
    ein_graph *g = new_graph();
    ein_tensor out[2];
    (void)state;
    ein_moe_routing(g, ein_input(g, "x", EIN_BF16, SHAPE(6, 4)), 2, 3, 1, out);
    assert_shape(g, out[0], "[6,4,3]");
    assert_shape(g, out[1], "[6,4,3]");
    assert_int_equal(ein_tensor_dtype(g, out[0]), EIN_BF16);
    assert_int_equal(ein_tensor_dtype(g, out[1]), EIN_BF16);
    assert_spec_of(g, 1, "x0[t,j] x1[j,t,e] -> y0[t,e,c]  t=6 e=4 c=3 j=2(sum)");
    assert_spec(g, "x0[t,j] x1[j,t,e] x2[t,j] -> y0[t,e,c]  t=6 e=4 c=3 j=2(sum)");
    assert_int_equal(g->g.values.items[NODE(g, 0).operands[2]].dtype, EIN_F32); /* weights are not rounded before */
    const expr *dispatch = &NODE(g, 1).body[0], *combine = &NODE(g, 0).body[0];
    assert_float_equal(EVAL(*dispatch, 2, 1, 2, 0), 1, 0); /* the expert is chosen, first in place 0 */
    assert_float_equal(EVAL(*dispatch, 2, 1, 2, 1), 0, 0);
    assert_float_equal(EVAL(*dispatch, 2, 1, 3, 0), 0, 0);
    assert_float_equal(EVAL(*combine, 2, 3, 0.25, 2, 2), 0.25, 0);
    assert_float_equal(EVAL(*combine, 2, 4, 0.25, 2, 2), 0, 0);
    end(g);
}

static void routing_refused(void **state)
{
    (void)state;
    FAILS(EIN_INVALID, "moe_routing: k is 5 of 4 experts", ein_moe_routing(g, x, 5, 3, 0, out));
    FAILS(EIN_INVALID, "moe_routing: k is 0 of 4 experts", ein_moe_routing(g, x, 0, 3, 0, out));
    FAILS(EIN_SHAPE, "moe_routing: capacity -1", ein_moe_routing(g, x, 2, -1, 0, out));
    FAILS(EIN_SHAPE, "moe_routing: logits [4] has rank 1, not 2", ein_moe_routing(g, IN(g, "y", 4), 1, 1, 0, out));
    FAILS(EIN_DTYPE, "moe_routing: operand 0 is i64, not a float",
          ein_moe_routing(g, ein_input(g, "y", EIN_I64, SHAPE(6, 4)), 1, 1, 0, out));
    FAILS(EIN_INVALID, "moe_routing: out is NULL",
          (out[0] = out[1] = (ein_tensor){0}, ein_moe_routing(g, x, 1, 1, 0, NULL)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(routing), cmocka_unit_test(routing_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
