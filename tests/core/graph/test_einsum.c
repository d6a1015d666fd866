/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/core/graph/fixture.h"

static ein_tensor einsum2(ein_graph *g, const char *equation, ein_tensor a, ein_tensor b)
{
    return ein_einsum(g, equation, 2, (ein_tensor[]){a, b});
}

static void product(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor y = einsum2(g, "bik, bkj -> bij", IN(g, "a", 2, 3, 4), IN(g, "b", 2, 4, 5));
    assert_shape(g, y, "[2,3,5]");
    assert_spec(g, "x0[b,i,k] x1[b,k,j] -> y0[b,i,j]  b=2 i=3 j=5 k=4(sum)");
    const node *n = &NODE(g, 0);
    assert_int_equal(n->kind, OP_MAP);
    assert_true(n->product);
    assert_float_equal(EVAL(n->body[0], 3, 5), 15, 0);
    assert_float_equal(n->spec.flops, 2, 0);
    assert_int_equal(ein__spec_aggregated(&n->spec), 1u << 3);
    assert_int_equal(ein__spec_role(&n->spec, 3), ROLE_AGGREGATED);
    assert_int_equal(ein__spec_role(&n->spec, 0), ROLE_PARALLEL);
    assert_string_equal(n->spec.merge->name, "sum");
    end(g);
}

static void notation(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor a = IN(g, "a", 3, 4), b = IN(g, "b", 4, 5), s = IN(g, "s", 3, 3);
    ein_tensor c = ein_input(g, "c", EIN_F32, 0, NULL);
    assert_shape(g, einsum2(g, "Zb,ba", a, IN(g, "e", 4, 2)), "[3,2]"); /* no arrow: sorted, capitals first */
    assert_shape(g, einsum2(g, "zb,ba", a, IN(g, "f", 4, 2)), "[2,3]");
    assert_shape(g, ein_einsum(g, "ij->ji", 1, &a), "[4,3]");
    assert_spec(g, "x0[i,j] -> y0[j,i]  j=4 i=3");
    assert_null(NODE(g, 0).spec.merge);
    assert_shape(g, ein_einsum(g, "ij->", 1, &a), "[]");
    assert_spec(g, "x0[i,j] -> y0[]  i=3(sum) j=4(sum)");
    assert_false(NODE(g, 0).product);
    ein_tensor operands[] = {a, b, c};
    assert_shape(g, ein_einsum(g, "ij,jk,->ik", 3, operands), "[3,5]");
    assert_false(NODE(g, 0).product);
    assert_float_equal(EVAL(NODE(g, 0).body[0], 2, 3, 7), 42, 0);
    assert_float_equal(NODE(g, 0).spec.flops, 3, 0);
    assert_shape(g, ein_einsum(g, "ii->i", 1, &s), "[3]"); /* the diagonal */
    assert_spec(g, "x0[i,i] -> y0[i]  i=3");
    assert_shape(g, ein_einsum(g, "ii", 1, &s), "[]");
    assert_spec(g, "x0[i,i] -> y0[]  i=3(sum)");
    end(g);
}

/* `product` promises that a matrix product can do it. */
static void product_or_not(void **state)
{
    static const struct { const char *equation; bool product; } cases[] = {
        {"ij,ij->i", true}, {"ij,ji->", true}, {"ij,jk->ik", true}, {"ij,ij->ij", false}, {"ij,kj->ik", true},
        {"ij,kl->ik", false}, {"ii,ij->j", false}, {"ij,kl->ijkl", false}, {"ij,jk->i", false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ein_graph *g = new_graph();
        einsum2(g, cases[i].equation, IN(g, "a", 3, 3), IN(g, "b", 3, 3));
        assert_int_equal(NODE(g, 0).product, cases[i].product);
        end(g);
    }
}

static void extents(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor y = einsum2(g, "ik,kj->ij", IN(g, "a", 3, 1), IN(g, "b", 4, 5)); /* 1 broadcasts */
    assert_shape(g, y, "[3,5]");
    assert_spec(g, "x0[i,=0<1] x1[k,j] -> y0[i,j]  i=3 j=5 k=4(sum)");
    assert_false(NODE(g, 0).product);
    y = einsum2(g, "ik,kj->ij", IN(g, "c", 3, 0), IN(g, "d", 0, 5)); /* a sum over nothing */
    assert_shape(g, y, "[3,5]");
    assert_spec(g, "x0[i,k] x1[k,j] -> y0[i,j]  i=3 j=5 k=0(sum)");
    y = einsum2(g, "ik,kj->ij", IN(g, "e", 0, 2), IN(g, "f", 1, 5));
    assert_shape(g, y, "[0,5]");
    assert_spec(g, "x0[i,k] x1[=0<1,j] -> y0[i,j]  i=0 j=5 k=2(sum)");
    end(g);
}

static void refused(void **state)
{
    static const struct { const char *equation; int n; ein_status status; const char *line; } cases[] = {
        {NULL, 2, EIN_INVALID, "einsum: equation is NULL"},
        {"ik,kj->ij", 2, EIN_SHAPE, "einsum 'ik,kj->ij': letter k has extents 4 and 3"},
        {"...k,kj->j", 2, EIN_INVALID, "einsum '...k,kj->j': the result lacks '...'"},
        {"..k,kj->j", 2, EIN_INVALID, "einsum '..k,kj->j': unexpected '.' (0x2e) at column 1"},
        {"...k...,kj->j", 2, EIN_INVALID, "einsum '...k...,kj->j': unexpected '.' (0x2e) at column 5"},
        {"...,...", 2, EIN_SHAPE, "einsum '...,...': '...' axis -1 has extents 4 and 5"},
        {"...ijk,kj->...ij", 2, EIN_SHAPE, "einsum '...ijk,kj->...ij': operand 0 has shape [3,4], and 3 letters"},
        {"i?,kj->ij", 2, EIN_INVALID, "einsum 'i?,kj->ij': unexpected '?' (0x3f) at column 2"},
        {"ij,kl-ij", 2, EIN_INVALID, "einsum 'ij,kl-ij': unexpected '-' (0x2d) at column 6"},
        {"ij,kl->i,j", 2, EIN_INVALID, "einsum 'ij,kl->i,j': unexpected ',' (0x2c) at column 9"},
        {"ij,kl->i->j", 2, EIN_INVALID, "einsum 'ij,kl->i->j': unexpected '-' (0x2d) at column 9"},
        {"i\xc3\xa4,kj->ij", 2, EIN_INVALID, "einsum 'i\xc3\xa4,kj->ij': unexpected '?' (0xc3) at column 2"},
        {"ij,kl->iq", 2, EIN_INVALID, "einsum 'ij,kl->iq': letter q of the result is in no operand"},
        {"ij,kl->ii", 2, EIN_INVALID, "einsum 'ij,kl->ii': letter i is twice in the result"},
        {"ij->ij", 2, EIN_INVALID, "einsum 'ij->ij': names 1 operands, given 2"},
        {"ij,kl,mn->ij", 2, EIN_INVALID, "einsum 'ij,kl,mn->ij': names 3 operands, given 2"},
        {"ijk,kj->ij", 2, EIN_SHAPE, "einsum 'ijk,kj->ij': operand 0 has shape [3,4], and 3 letters"},
        {"ii,kl->i", 2, EIN_SHAPE, "einsum 'ii,kl->i': letter i has extents 3 and 4"},
        {"abcdefghi,kl->i", 2, EIN_SHAPE, "einsum 'abcdefghi,kl->i': more than 8 letters in one tensor"},
        {"", 1, EIN_SHAPE, "einsum '': operand 0 has shape [3,4], and 0 letters"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ein_graph *g = new_graph();
        ein_tensor operands[] = {IN(g, "a", 3, 4), IN(g, "b", 3, 5)};
        ein_tensor y = ein_einsum(g, cases[i].equation, cases[i].n, operands);
        end_failed(g, y, cases[i].status, cases[i].line);
    }
}

static void too_many_letters(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor a = IN(g, "a", 1, 1, 1, 1, 1, 1), operands[] = {a, a, a};
    ein_tensor y = ein_einsum(g, "abcdef,ghijkl,mnopqr->a", 3, operands);
    end_failed(g, y, EIN_UNSUPPORTED, "einsum 'abcdef,ghijkl,mnopqr->a': more than 16 letters");
    g = new_graph();
    a = IN(g, "a", 2, 2, 2);
    y = ein_einsum(g, "abc,def,ghi", 3, (ein_tensor[]){a, a, a});
    end_failed(g, y, EIN_SHAPE, "einsum 'abc,def,ghi': more than 8 letters in one tensor");
    g = new_graph();
    a = IN(g, "a", 1 << 20, 2);
    y = ein_einsum(g, "ab,cd", 2, (ein_tensor[]){a, a});
    end_failed(g, y, EIN_SHAPE, "einsum: [1048576,2,1048576,2] has more than 2^40 elements");
}

static void matmul(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor v = IN(g, "v", 4), m = IN(g, "m", 3, 4), n = IN(g, "n", 4, 5);
    ein_tensor batch = IN(g, "batch", 7, 1, 3, 4);
    assert_shape(g, ein_matmul(g, m, n), "[3,5]");
    assert_spec(g, "x0[m,k] x1[k,n] -> y0[m,n]  m=3 n=5 k=4(sum)");
    assert_true(NODE(g, 0).product);
    assert_shape(g, ein_matmul(g, v, v), "[]");
    assert_spec(g, "x0[k] x1[k] -> y0[]  k=4(sum)");
    assert_shape(g, ein_matmul(g, m, v), "[3]");
    assert_spec(g, "x0[m,k] x1[k] -> y0[m]  m=3 k=4(sum)");
    assert_shape(g, ein_matmul(g, v, n), "[5]");
    assert_spec(g, "x0[k] x1[k,n] -> y0[n]  n=5 k=4(sum)");
    assert_shape(g, ein_matmul(g, batch, IN(g, "w", 6, 4, 5)), "[7,6,3,5]");
    assert_spec(g, "x0[b0,=0<1,m,k] x1[b1,k,n] -> y0[b0,b1,m,n]  b0=7 b1=6 m=3 n=5 k=4(sum)");
    assert_true(NODE(g, 0).product);
    assert_shape(g, ein_matmul(g, v, IN(g, "u", 6, 4, 5)), "[6,5]");
    assert_shape(g, ein_matmul(g, IN(g, "e", 0, 4), n), "[0,5]");
    end(g);
    g = new_graph();
    ein_tensor y = ein_matmul(g, IN(g, "a", 2, 3, 4), IN(g, "b", 5, 3));
    end_failed(g, y, EIN_SHAPE, "matmul: [2,3,4] and [5,3] disagree on k: 4 and 5");
    g = new_graph();
    y = ein_matmul(g, IN(g, "a", 2, 3, 4), IN(g, "b", 3, 4, 5));
    end_failed(g, y, EIN_SHAPE, "matmul: [2] and [3] do not broadcast: 2 and 3 on axis -1");
    g = new_graph();
    y = ein_matmul(g, IN(g, "a", 4), ein_input(g, "b", EIN_F32, 0, NULL));
    end_failed(g, y, EIN_SHAPE, "matmul: ranks 1 and 0: a scalar is not a matrix");
}

static void linear(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor x = IN(g, "x", 2, 64, 4096), w = ein_parameter(g, "w", EIN_F32, SHAPE(1024, 4096));
    ein_tensor b = ein_parameter(g, "b", EIN_F32, SHAPE(1024));
    assert_shape(g, ein_linear(g, x, w, (ein_tensor){0}), "[2,64,1024]");
    assert_spec(g, "x0[d0,d1,k] x1[n,k] -> y0[d0,d1,n]  d0=2 d1=64 n=1024 k=4096(sum)");
    assert_string_equal(NODE(g, 0).name, "linear");
    assert_true(NODE(g, 0).product);
    ein_tensor y = ein_linear(g, x, w, b); /* the bias comes after the sum */
    assert_shape(g, y, "[2,64,1024]");
    assert_int_equal(g->g.nodes.n, 3);
    assert_string_equal(NODE(g, 0).name, "linear bias");
    assert_spec(g, "x0[d0,d1,d2] x1[d2] -> y0[d0,d1,d2]  d0=2 d1=64 d2=1024");
    assert_int_equal(NODE(g, 0).operands[0], NODE(g, 1).results[0]);
    assert_int_equal(NODE(g, 0).results[0], ein__value(y));
    assert_float_equal(EVAL(NODE(g, 0).body[0], 3, 5), 8, 0);
    assert_shape(g, ein_linear(g, IN(g, "one", 4096), w, b), "[1024]");
    end(g);
    g = new_graph();
    y = ein_linear(g, IN(g, "x", 2, 3), IN(g, "w", 4, 3), IN(g, "b", 3));
    end_failed(g, y, EIN_SHAPE, "linear: bias [3] for 4 outputs");
    g = new_graph();
    y = ein_linear(g, IN(g, "x", 2, 3), IN(g, "w", 4, 3, 1), (ein_tensor){0});
    end_failed(g, y, EIN_SHAPE, "linear: weight [4,3,1] has rank 3, not 2");
    g = new_graph();
    y = ein_linear(g, ein_input(g, "x", EIN_I32, SHAPE(2, 3)), IN(g, "w", 4, 3), (ein_tensor){0});
    end_failed(g, y, EIN_DTYPE, "linear: operand 0 is i32, not a float");
    g = new_graph();
    y = ein_linear(g, IN(g, "x", 2, 3), ein_input(g, "w", EIN_BF16, SHAPE(4, 3)), (ein_tensor){0});
    end_failed(g, y, EIN_DTYPE, "linear: weight is bf16, x f32");
    g = new_graph();
    y = ein_linear(g, IN(g, "x", 2, 3), IN(g, "w", 4, 3), ein_input(g, "b", EIN_F64, SHAPE(4)));
    end_failed(g, y, EIN_DTYPE, "linear: bias is f64, x f32");
}

/* "..." stands for dimensions that broadcast from the end. */
static void dots(void **state)
{
    ein_graph *g = new_graph();
    (void)state;
    ein_tensor a = IN(g, "a", 2, 1, 3, 4), b = IN(g, "b", 7, 4, 5), m = IN(g, "m", 3, 4), v = IN(g, "v", 4);
    assert_shape(g, einsum2(g, "...ik, ...kj -> ...ij", a, b), "[2,7,3,5]");
    assert_spec(g, "x0[e0,=0<1,i,k] x1[e1,k,j] -> y0[e0,e1,i,j]  e0=2 e1=7 i=3 j=5 k=4(sum)");
    assert_true(NODE(g, 0).product);
    assert_shape(g, einsum2(g, "i...,...->i...", a, v), "[2,1,3,4]");
    assert_spec(g, "x0[i,e0,e1,e2] x1[e2] -> y0[i,e0,e1,e2]  i=2 e0=1 e1=3 e2=4");
    assert_shape(g, ein_einsum(g, "...ji", 1, &a), "[2,1,4,3]"); /* no arrow: "..." first, then sorted */
    assert_spec(g, "x0[e0,e1,j,i] -> y0[e0,e1,i,j]  e0=2 e1=1 i=4 j=3");
    assert_shape(g, einsum2(g, "i...,i", m, IN(g, "w", 3)), "[4]");
    assert_spec(g, "x0[i,e0] x1[i] -> y0[e0]  e0=4 i=3(sum)");
    assert_shape(g, ein_einsum(g, "...ij->ji...", 1, &m), "[4,3]"); /* it may stand for nothing */
    assert_shape(g, ein_einsum(g, "...ij->ji", 1, &m), "[4,3]");
    assert_shape(g, ein_einsum(g, "i...i->i...", 1, (ein_tensor[]){IN(g, "d", 3, 5, 3)}), "[3,5]");
    assert_spec(g, "x0[i,e0,i] -> y0[i,e0]  i=3 e0=5");
    assert_shape(g, ein_einsum(g, "...->...", 1, &a), "[2,1,3,4]");
    end(g);
    g = new_graph();
    ein_tensor wide = IN(g, "wide", 1, 1, 1, 1, 1, 1, 1), y = einsum2(g, "...,ab->...ab", wide, IN(g, "n", 2, 2));
    end_failed(g, y, EIN_SHAPE, "einsum '...,ab->...ab': more than 8 letters in one tensor");
}

static void types(void **state)
{
    static const struct { ein_dtype a, b, result; bool product; } cases[] = {
        {EIN_F32, EIN_F32, EIN_F32, true}, {EIN_F64, EIN_F64, EIN_F64, true}, {EIN_BF16, EIN_BF16, EIN_BF16, true},
        {EIN_F16, EIN_F16, EIN_F16, true}, {EIN_F16, EIN_BF16, EIN_F32, false}, {EIN_F32, EIN_BF16, EIN_F32, false},
        {EIN_I32, EIN_BF16, EIN_BF16, false}, {EIN_I8, EIN_I8, EIN_I8, false}, {EIN_I8, EIN_I64, EIN_I64, false},
        {EIN_BOOL, EIN_I32, EIN_I32, false}, {EIN_BOOL, EIN_F32, EIN_F32, false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ein_graph *g = new_graph();
        ein_tensor a = ein_input(g, "a", cases[i].a, SHAPE(3, 3)), b = ein_input(g, "b", cases[i].b, SHAPE(3, 3));
        assert_int_equal(ein_tensor_dtype(g, einsum2(g, "ij,jk", a, b)), cases[i].result);
        assert_int_equal(NODE(g, 0).product, cases[i].product);
        assert_int_equal(NODE(g, 0).spec.merge->wire[0], cases[i].result);
        assert_int_equal(ein_tensor_dtype(g, ein_matmul(g, a, b)), cases[i].result);
        assert_int_equal(NODE(g, 0).product, cases[i].product);
        end(g);
    }
    ein_graph *g = new_graph();
    ein_tensor x = ein_input(g, "x", EIN_BOOL, SHAPE(3, 3)), y = einsum2(g, "ij,jk", x, x);
    end_failed(g, y, EIN_DTYPE, "einsum: all operands are bool; cast one");
    g = new_graph();
    x = ein_input(g, "x", EIN_BOOL, SHAPE(3, 3));
    end_failed(g, ein_matmul(g, x, x), EIN_DTYPE, "matmul: all operands are bool; cast one");
    g = new_graph();
    x = ein_input(g, "x", EIN_BF16, SHAPE(3, 3));
    y = ein_linear(g, x, x, ein_input(g, "b", EIN_BF16, SHAPE(3)));
    assert_int_equal(ein_tensor_dtype(g, y), EIN_BF16);
    end(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(product), cmocka_unit_test(notation), cmocka_unit_test(product_or_not),
        cmocka_unit_test(extents), cmocka_unit_test(refused), cmocka_unit_test(too_many_letters),
        cmocka_unit_test(matmul), cmocka_unit_test(linear), cmocka_unit_test(dots), cmocka_unit_test(types)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
