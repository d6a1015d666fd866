/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise calls: specs, the types of results, the expressions at points, what is refused. */
#include "tests/core/graph/fixture.h"

#include <math.h>

#define FAILS(status, line, call)                                                  \
    do {                                                                           \
        ein_graph *g = new_graph();                                                \
        ein_tensor x = IN(g, "x", 2, 3), b = ein_input(g, "b", EIN_BOOL, SHAPE(2, 3)); \
        (void)x, (void)b;                                                          \
        end_failed(g, call, status, line);                                         \
    } while (0)

static ein_tensor typed(ein_graph *g, const char *name, ein_dtype d) { return ein_input(g, name, d, SHAPE(2, 3)); }

/* ---- specs ---- */

static void map(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 1, 4), y = IN(g, "y", 3, 1), s = ein_input(g, "s", EIN_F32, 0, NULL);
    ein_tensor operands[] = {x, y, s};
    assert_shape(g, ein_map(g, "x0 * x1 + where(x2 > 0, x2, 0.5)", 3, operands), "[2,3,4]");
    assert_spec(g, "x0[d0,=0<1,d2] x1[d1,=0<1] x2[] -> y0[d0,d1,d2]  d0=2 d1=3 d2=4");
    assert_float_equal(EVAL(NODE(g, 0).body[0], 3, 5, -1), 15.5, 0);
    assert_null(NODE(g, 0).spec.merge);
    assert_false(NODE(g, 0).product);
    assert_shape(g, ein_map(g, "7", 1, &s), "[]");
    assert_shape(g, ein_sub(g, x, x), "[2,1,4]");
    assert_spec(g, "x0[d0,d1,d2] x1[d0,d1,d2] -> y0[d0,d1,d2]  d0=2 d1=1 d2=4"); /* 1 with 1: a label */
    assert_shape(g, ein_mul(g, x, IN(g, "empty", 0, 4)), "[2,0,4]");
    assert_shape(g, ein_where(g, y, x, s), "[2,3,4]");
    assert_spec(g, "x0[d1,=0<1] x1[d0,=0<1,d2] x2[] -> y0[d0,d1,d2]  d0=2 d1=3 d2=4");
    assert_string_equal(NODE(g, 0).name, "where");
    end(g);
}

/* With indices and constants, as other calls use it. */
static void map_with_indices(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    value x = ein__value(IN(g, "x", 2, 3)), y = -1;
    map_call c = {.name = "m", .expression = "x0 + x1 * x3 + x2", .n = 1, .operands = &x, .n_indices = 2,
                  .indices = (int[]){1, 0}, .n_constants = 1, .constants = (double[]){10}, .result = EIN_F64};
    assert_int_equal(ein__map_make(&g->g, &c, &y), EIN_OK);
    assert_int_equal(g->g.values.items[y].dtype, EIN_F64);
    assert_int_equal(NODE(g, 0).n_indices, 2);
    assert_int_equal(NODE(g, 0).indices[0], 1);
    assert_int_equal(NODE(g, 0).indices[1], 0);
    assert_float_equal(EVAL(NODE(g, 0).body[0], 0.5, 2, 1), 21.5, 0);
    end(g);
}

/* ---- types ---- */

static void map_types(void **state)
{
    static const struct { const char *expression; ein_dtype a, b, result; } cases[] = {
        {"x0 + x1", EIN_F32, EIN_F32, EIN_F32}, {"x0 + x1", EIN_BF16, EIN_BF16, EIN_BF16},
        {"x0 + x1", EIN_BF16, EIN_F16, EIN_F32}, {"x0 + x1", EIN_BF16, EIN_F64, EIN_F64},
        {"x0 + x1", EIN_I64, EIN_F16, EIN_F16}, {"x0 + x1", EIN_I8, EIN_I32, EIN_I32},
        {"x0 + x1", EIN_I8, EIN_BOOL, EIN_I8}, {"x0 + x1", EIN_BOOL, EIN_BOOL, EIN_I64},
        {"x0 < x1", EIN_BOOL, EIN_BOOL, EIN_I64}, {"x0 < x1", EIN_I32, EIN_I8, EIN_I32},
        {"x0 / x1", EIN_I32, EIN_I32, EIN_F32}, {"x0 / x1", EIN_BOOL, EIN_BOOL, EIN_F32},
        {"exp(x0)", EIN_I64, EIN_I64, EIN_F32}, {"exp(x0)", EIN_F64, EIN_I64, EIN_F64},
        {"x0 * 2 + 1", EIN_I8, EIN_I8, EIN_I8}, {"x0 * 0.5", EIN_I8, EIN_I8, EIN_F32},
        {"0.5", EIN_I32, EIN_I32, EIN_F32}, {"7", EIN_I32, EIN_I32, EIN_I32}, {"0.5", EIN_F64, EIN_I32, EIN_F64},
        {"floordiv(x0, x1) + mod(x0, x1)", EIN_I32, EIN_I64, EIN_I64},
        {"where(x0 > 0.5, x1, 0)", EIN_F32, EIN_I32, EIN_F32}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ein_graph *g = new_graph();
        ein_tensor y = ein_map(g, cases[i].expression, 2, (ein_tensor[]){typed(g, "a", cases[i].a), typed(g, "b", cases[i].b)});
        assert_string_equal(ein_graph_error(g), "");
        if (ein_tensor_dtype(g, y) != cases[i].result)
            fail_msg("%s of %s, %s is %s", cases[i].expression, ein__dtype_name(cases[i].a),
                     ein__dtype_name(cases[i].b), ein__dtype_name(ein_tensor_dtype(g, y)));
        end(g);
    }
}

typedef ein_tensor unary(ein_graph *g, ein_tensor x);
typedef ein_tensor binary(ein_graph *g, ein_tensor a, ein_tensor b);

/* Types of f(f16), f(i8), f(bool); 0: refused. */
static void call_types(void **state)
{
    static const struct { unary *one; binary *two; ein_dtype of_f16, of_i8, of_bool; } cases[] = {
        {NULL, ein_add, EIN_F16, EIN_I8, EIN_BOOL}, {NULL, ein_sub, EIN_F16, EIN_I8, 0},
        {NULL, ein_mul, EIN_F16, EIN_I8, EIN_BOOL}, {NULL, ein_div, EIN_F16, EIN_F32, EIN_F32},
        {NULL, ein_pow, EIN_F16, EIN_F32, 0}, {NULL, ein_maximum, EIN_F16, EIN_I8, EIN_BOOL},
        {NULL, ein_minimum, EIN_F16, EIN_I8, EIN_BOOL}, {ein_neg, NULL, EIN_F16, EIN_I8, 0},
        {ein_abs, NULL, EIN_F16, EIN_I8, EIN_BOOL}, {ein_sign, NULL, EIN_F16, EIN_I8, EIN_BOOL},
        {ein_floor, NULL, EIN_F16, EIN_I8, 0}, {ein_ceil, NULL, EIN_F16, EIN_I8, 0},
        {ein_round, NULL, EIN_F16, EIN_I8, 0}, {ein_relu, NULL, EIN_F16, EIN_I8, 0},
        {ein_exp, NULL, EIN_F16, EIN_F32, EIN_F32}, {ein_log, NULL, EIN_F16, EIN_F32, EIN_F32},
        {ein_sqrt, NULL, EIN_F16, EIN_F32, EIN_F32}, {ein_rsqrt, NULL, EIN_F16, EIN_F32, EIN_F32},
        {ein_reciprocal, NULL, EIN_F16, EIN_F32, EIN_F32}, {ein_sin, NULL, EIN_F16, EIN_F32, EIN_F32},
        {ein_cos, NULL, EIN_F16, EIN_F32, EIN_F32}, {ein_tanh, NULL, EIN_F16, EIN_F32, EIN_F32},
        {ein_sigmoid, NULL, EIN_F16, EIN_F32, EIN_F32}, {ein_erf, NULL, EIN_F16, EIN_F32, EIN_F32},
        {ein_silu, NULL, EIN_F16, EIN_F32, EIN_F32}, {NULL, ein_eq, EIN_BOOL, EIN_BOOL, EIN_BOOL},
        {NULL, ein_ne, EIN_BOOL, EIN_BOOL, EIN_BOOL}, {NULL, ein_lt, EIN_BOOL, EIN_BOOL, EIN_BOOL},
        {NULL, ein_le, EIN_BOOL, EIN_BOOL, EIN_BOOL}, {NULL, ein_gt, EIN_BOOL, EIN_BOOL, EIN_BOOL},
        {NULL, ein_ge, EIN_BOOL, EIN_BOOL, EIN_BOOL}, {NULL, ein_logical_and, EIN_BOOL, EIN_BOOL, EIN_BOOL},
        {NULL, ein_logical_or, EIN_BOOL, EIN_BOOL, EIN_BOOL},
        {ein_logical_not, NULL, EIN_BOOL, EIN_BOOL, EIN_BOOL}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ein_dtype of[] = {EIN_F16, EIN_I8, EIN_BOOL}, results[] = {cases[i].of_f16, cases[i].of_i8, cases[i].of_bool};
        for (int k = 0; k < 3; k++) {
            ein_graph *g = new_graph();
            ein_tensor x = typed(g, "x", of[k]);
            ein_tensor y = cases[i].one != NULL ? cases[i].one(g, x) : cases[i].two(g, x, x);
            if (ein_tensor_dtype(g, y) != results[k])
                fail_msg("call %zu of %s is %s: %s", i, ein__dtype_name(of[k]), ein__dtype_name(ein_tensor_dtype(g, y)),
                         ein_graph_error(g));
            if (results[k] == 0) ein_graph_free(g);
            else end(g);
        }
    }
}

static void promotion(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor f = typed(g, "f", EIN_F32), h = typed(g, "h", EIN_BF16), i = typed(g, "i", EIN_I64), b = typed(g, "b", EIN_BOOL);
    assert_int_equal(ein_tensor_dtype(g, ein_add(g, h, i)), EIN_BF16);
    assert_int_equal(ein_tensor_dtype(g, ein_maximum(g, b, i)), EIN_I64);
    assert_int_equal(ein_tensor_dtype(g, ein_where(g, f, b, h)), EIN_BF16); /* the condition's does not count */
    assert_int_equal(ein_tensor_dtype(g, ein_where(g, f, b, b)), EIN_BOOL);
    assert_int_equal(ein_tensor_dtype(g, ein_where(g, b, i, i)), EIN_I64);
    assert_int_equal(ein_tensor_dtype(g, ein_clamp(g, i, 0, 1)), EIN_I64);
    assert_int_equal(ein_tensor_dtype(g, ein_gelu(g, h, 0)), EIN_BF16);
    assert_int_equal(ein_tensor_dtype(g, ein_gelu(g, i, 1)), EIN_F32);
    end(g);
}

/* ---- expressions ---- */

#define AT(call, expected, ...)                                                              \
    do {                                                                                     \
        ein_tensor y_ = call;                                                                \
        assert_string_equal(ein_graph_error(g), "");                                         \
        assert_int_not_equal(y_.id, 0);                                                      \
        double got_ = EVAL(NODE(g, 0).body[0], __VA_ARGS__), want_ = expected;               \
        assert_true(got_ == want_ || fabs(got_ - want_) < 1e-15 || (isnan(got_) && isnan(want_))); \
    } while (0)

static void expressions(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 3);
    AT(ein_add(g, x, x), 8, 3, 5);
    AT(ein_sub(g, x, x), -2, 3, 5);
    AT(ein_mul(g, x, x), 15, 3, 5);
    AT(ein_div(g, x, x), 0.75, 3, 4);
    AT(ein_pow(g, x, x), 8, 2, 3);
    AT(ein_maximum(g, x, x), 5, 3, 5);
    AT(ein_maximum(g, x, x), NAN, NAN, 5);
    AT(ein_minimum(g, x, x), 3, 3, 5);
    AT(ein_minimum(g, x, x), NAN, 5, NAN);
    AT(ein_neg(g, x), -3, 3);
    AT(ein_abs(g, x), 3, -3);
    AT(ein_sign(g, x), -1, -3);
    AT(ein_floor(g, x), -3, -2.5);
    AT(ein_ceil(g, x), -2, -2.5);
    AT(ein_round(g, x), -2, -2.5);
    AT(ein_exp(g, x), exp(2), 2);
    AT(ein_log(g, x), log(2), 2);
    AT(ein_sqrt(g, x), 3, 9);
    AT(ein_rsqrt(g, x), 0.5, 4);
    AT(ein_reciprocal(g, x), 0.25, 4);
    AT(ein_sin(g, x), sin(2), 2);
    AT(ein_cos(g, x), cos(2), 2);
    AT(ein_tanh(g, x), tanh(2), 2);
    AT(ein_sigmoid(g, x), 1 / (1 + exp(-2)), 2);
    AT(ein_erf(g, x), erf(0.5), 0.5);
    AT(ein_relu(g, x), 0, -3);
    AT(ein_silu(g, x), 2 / (1 + exp(-2)), 2);
    AT(ein_gelu(g, x, 0), -0.15865525393145705, -1); /* -Phi(-1) */
    AT(ein_gelu(g, x, 1), -0.15880800939172324, -1);
    AT(ein_where(g, x, x, x), 7, NAN, 7, 8);
    AT(ein_where(g, x, x, x), 8, 0, 7, 8);
    end(g);
}

static void truths(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 3);
    AT(ein_eq(g, x, x), 1, 3, 3);
    AT(ein_eq(g, x, x), 0, NAN, NAN);
    AT(ein_ne(g, x, x), 1, NAN, NAN);
    AT(ein_lt(g, x, x), 1, 2, 3);
    AT(ein_lt(g, x, x), 0, 2, NAN);
    AT(ein_le(g, x, x), 1, 3, 3);
    AT(ein_gt(g, x, x), 0, 2, 3);
    AT(ein_ge(g, x, x), 1, 3, 3);
    AT(ein_logical_and(g, x, x), 1, 2, NAN);
    AT(ein_logical_and(g, x, x), 0, 2, 0);
    AT(ein_logical_or(g, x, x), 1, 0, 0.5);
    AT(ein_logical_or(g, x, x), 0, 0, -0.0);
    AT(ein_logical_not(g, x), 1, 0);
    AT(ein_logical_not(g, x), 0, 0.5);
    end(g);
}

static void clamp(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 3), i = typed(g, "i", EIN_I32);
    AT(ein_clamp(g, x, -1, 2.5), 2.5, 7);
    AT(ein_clamp(g, x, -1, 2.5), -1, -7);
    AT(ein_clamp(g, x, -1, 2.5), NAN, NAN);
    AT(ein_clamp(g, x, 2, 1), 1, 0); /* the upper bound wins */
    AT(ein_clamp(g, x, -INFINITY, 2), -9, -9);
    AT(ein_clamp(g, x, 2, INFINITY), 9, 9);
    AT(ein_clamp(g, i, 0.5, 7.5), 1, 0); /* integers inside */
    AT(ein_clamp(g, i, 0.5, 7.5), 7, 9);
    int nodes = g->g.nodes.n;
    assert_int_equal(ein_clamp(g, x, -INFINITY, INFINITY).id, x.id);
    assert_int_equal(ein_floor(g, i).id, i.id);
    assert_int_equal(ein_ceil(g, i).id, i.id);
    assert_int_equal(ein_round(g, i).id, i.id);
    assert_int_equal(g->g.nodes.n, nodes);
    end(g);
}

/* What the nodes from `from` on make of one number, stored as each node's type in between. */
static double stored(const ein_graph *g, int from, ein_dtype dtype, double x)
{
    unsigned char bytes[8];
    ein__dtype_write(dtype, x, bytes);
    for (int i = from; i < g->g.nodes.n; i++) {
        const node *n = &g->g.nodes.items[i];
        ein_dtype type = ein__dtype_compute(dtype), to = g->g.values.items[n->results[0]].dtype;
        ein_dtype want = ein__dtype_compute(to);
        expr_value a, y;
        if (type == EIN_I64) ein__dtype_convert(EIN_I64, &a.i, dtype, bytes, 1);
        else a.f = ein__dtype_read(dtype, bytes);
        y = ein__expr_eval_typed(&n->body[0], &a, &type, want);
        if (want == EIN_I64) ein__dtype_convert(to, bytes, EIN_I64, &y.i, 1);
        else ein__dtype_write(to, y.f, bytes);
        dtype = to;
    }
    return ein__dtype_read(dtype, bytes);
}

static void cast(void **state)
{
    static const struct { ein_dtype from, to; double x, y; } cases[] = {
        {EIN_F32, EIN_I32, -2.9, -2}, {EIN_F32, EIN_I32, 3e9, 2147483647}, {EIN_F32, EIN_I32, -INFINITY, -2147483648.0},
        {EIN_F32, EIN_I32, 2147483520, 2147483520}, {EIN_F32, EIN_I32, NAN, 0}, {EIN_F32, EIN_I8, 1000, 127},
        {EIN_F32, EIN_I8, -1000, -128}, {EIN_F32, EIN_I8, NAN, 0}, {EIN_F64, EIN_I32, 1e300, 2147483647},
        {EIN_F64, EIN_I32, 2147483646.5, 2147483646}, {EIN_F64, EIN_I64, -1e300, -0x1p63}, {EIN_F16, EIN_I32, INFINITY, 2147483647},
        {EIN_BF16, EIN_I8, -0.9, 0}, {EIN_I64, EIN_I8, 300, 44}, {EIN_I64, EIN_I32, 4294967297, 1}, {EIN_I64, EIN_F32, 16777217, 16777216},
        {EIN_I64, EIN_F64, 16777217, 16777217}, {EIN_F32, EIN_BOOL, 0.25, 1}, {EIN_F32, EIN_BOOL, NAN, 1},
        {EIN_F32, EIN_BOOL, -0.0, 0}, {EIN_I32, EIN_BOOL, 256, 1}, {EIN_BOOL, EIN_F16, 1, 1}, {EIN_BOOL, EIN_I8, 1, 1},
        {EIN_F64, EIN_F32, 1e300, INFINITY}, {EIN_F32, EIN_BF16, 1.00390625, 1}, {EIN_F32, EIN_F16, 1e6, INFINITY}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ein_graph *g = new_graph();
        ein_tensor y = ein_cast(g, typed(g, "x", cases[i].from), cases[i].to);
        assert_int_equal(ein_tensor_dtype(g, y), cases[i].to);
        double got = stored(g, 0, cases[i].from, cases[i].x);
        if (got != cases[i].y)
            fail_msg("%g from %s to %s is %g", cases[i].x, ein__dtype_name(cases[i].from), ein__dtype_name(cases[i].to), got);
        end(g);
    }
    ein_graph *g = new_graph();
    ein_tensor x = typed(g, "x", EIN_I8);
    assert_int_equal(ein_cast(g, x, EIN_I8).id, x.id);
    end(g);
}

/* ---- refused ---- */

static void refused(void **state)
{
    (void)state;
    FAILS(EIN_SHAPE, "add: [2,3] and [2,4] do not broadcast: 3 and 4 on axis -1",
          ein_add(g, x, IN(g, "y", 2, 4)));
    FAILS(EIN_SHAPE, "where: [2,3] and [4] do not broadcast: 3 and 4 on axis -1",
          ein_where(g, x, IN(g, "y", 4), x));
    FAILS(EIN_INVALID, "map: expression \"x0 + x1\": column 6: unknown name at \"x1\"",
          ein_map(g, "x0 + x1", 1, &x));
    FAILS(EIN_INVALID, "map: expression is NULL", ein_map(g, NULL, 1, &x));
    FAILS(EIN_DTYPE, "sub: operand 1 is bool, not a number", ein_sub(g, x, b));
    FAILS(EIN_DTYPE, "neg: operand 0 is bool, not a number", ein_neg(g, b));
    FAILS(EIN_DTYPE, "relu: operand 0 is bool, not a number", ein_relu(g, b));
    FAILS(EIN_DTYPE, "clamp: operand 0 is bool, not a number", ein_clamp(g, b, 0, 1));
    FAILS(EIN_DTYPE, "floor: operand 0 is bool, not a number", ein_floor(g, b));
    FAILS(EIN_INVALID, "clamp: bounds 0 and nan", ein_clamp(g, x, 0, (double)NAN));
    FAILS(EIN_DTYPE, "cast: f8e4m3 is reserved, not built yet", ein_cast(g, x, EIN_F8E4M3));
    FAILS(EIN_DTYPE, "cast: 99 is no dtype", ein_cast(g, x, (ein_dtype)99));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map), cmocka_unit_test(map_with_indices), cmocka_unit_test(map_types),
        cmocka_unit_test(call_types), cmocka_unit_test(promotion), cmocka_unit_test(expressions),
        cmocka_unit_test(truths), cmocka_unit_test(clamp), cmocka_unit_test(cast), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
