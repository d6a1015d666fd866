/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/core/graph/fixture.h"

static const ein_label ij[] = {{.name = "i"}, {.name = "j"}};
static const char *const label_i = "i", *const label_ij = "i,j", *const sum = "a0 + b0";
static const double zero = 0;

/* The header's example: row-wise sum of squares. */
static ein_op example(void)
{
    return (ein_op){.size = sizeof(ein_op), .name = "sumsq", .version = "1", .n_labels = 2, .labels = ij,
                    .n_operands = 1, .operands = &label_ij, .n_results = 1, .results = &label_i,
                    .n_states = 1, .states = &label_i, .identity = &zero, .combine = &sum,
                    .kernel = "ST(y0, 0, 0);", .grid = "n_i"};
}

static void sum_of_squares(void **state)
{
    ein_graph *g = new_graph();
    ein_op op = example();
    ein_tensor x = IN(g, "x", 3, 4), y = {0};
    (void)state;
    ein_custom(g, &op, &x, &y);
    assert_shape(g, y, "[3]");
    assert_spec(g, "x0[i,j] -> y0[i]  i=3 j=4(sumsq)");
    const node *n = &NODE(g, 0);
    assert_int_equal(n->kind, OP_CUSTOM);
    assert_string_equal(n->name, "sumsq");
    assert_string_equal(n->custom.kernel, "ST(y0, 0, 0);");
    assert_float_equal(n->spec.flops, 1, 0);
    assert_float_equal(EVAL(n->spec.merge->combine[0], 3, 4), 7, 0);
    assert_int_equal(n->spec.merge->finalize[0].n, 0);
    end(g);
}

/* h * d is resolved by g; two results of two states, a granule, a finalizer. */
static void compound(void **state)
{
    ein_graph *g = new_graph();
    static const ein_label labels[] = {
        {.name = "h"}, {.name = "d", .granule = 4, .whole = 1}, {.name = "t"}, {.name = "r0"}};
    static const char *const operands[] = {"t , h*d", "d,r0", ""}, *const results[] = {"h", "h,r0*d"};
    static const char *const states[] = {"h", "h,r0,d"}, *const combine[] = {"max(a0,b0)", "a1+b1*a0"};
    static const char *const finalize[] = {NULL, "a1 / a0"};
    static const double identity[] = {-3e38, 0};
    ein_op op = {.size = sizeof op, .name = "pair", .n_labels = 4, .labels = labels, .n_operands = 3,
                 .operands = operands, .n_results = 2, .results = results, .n_states = 2, .states = states,
                 .identity = identity, .combine = combine, .finalize = finalize, .kernel = "k", .grid = "1",
                 .flops_per_point = 5};
    ein_tensor y[2], x[] = {IN(g, "x", 7, 24), IN(g, "w", 8, 2), ein_input(g, "s", EIN_F32, 0, NULL)};
    (void)state;
    ein_label marked[4];
    memcpy(marked, labels, sizeof marked);
    marked[3].whole = 1; /* r0 indexes one result only */
    op.labels = marked;
    ein_custom(g, &op, x, y);
    assert_shape(g, y[0], "[3]");
    assert_shape(g, y[1], "[3,16]");
    assert_spec(g, "x0[t,h,d] x1[d,r0] x2[] -> y0[h] y1[h,r0,d]  h=3 d=8/4(whole) t=7(pair) r0=2(whole)");
    assert_int_equal(NODE(g, 0).spec.merge->finalize[0].n, 0);
    assert_float_equal(EVAL(NODE(g, 0).spec.merge->finalize[1], 4, 8), 2, 0);
    assert_float_equal(NODE(g, 0).spec.flops, 5, 0);
    end(g);
}

static void no_merge(void **state)
{
    ein_graph *g = new_graph();
    ein_label labels[] = {{.name = "i"}, {.name = "j", .whole = 1}};
    ein_op op = {.size = sizeof op, .name = "first", .n_labels = 2, .labels = labels, .n_operands = 1,
                 .operands = &label_ij, .n_results = 1, .results = &label_i, .kernel = "k", .grid = "n_i"};
    ein_tensor x = IN(g, "x", 3, 4), y;
    (void)state;
    ein_custom(g, &op, &x, &y);
    assert_shape(g, y, "[3]");
    assert_spec(g, "x0[i,j] -> y0[i]  i=3 j=4(whole)");
    assert_string_equal(NODE(g, 0).custom.version, "");
    end(g);
}

static void keys(void **state)
{
    ein_graph *g = new_graph();
    ein_tensor x = IN(g, "x", 3, 4), y;
    text keys[5] = {{0}};
    (void)state;
    for (int i = 0; i < 5; i++) {
        ein_op op = example();
        if (i == 1) op.version = "2";
        if (i == 2) op.kernel = "ST(y0, 0, 1);";
        if (i == 3) op.name = "squares";
        if (i == 4) op.user = &op; /* not part of what it computes */
        ein_custom(g, &op, &x, &y);
        ein__node_key(&NODE(g, 0), &keys[i]);
    }
    for (int i = 1; i < 5; i++) {
        bool same = keys[i].n == keys[0].n && memcmp(keys[i].bytes, keys[0].bytes, keys[0].n) == 0;
        assert_int_equal(same, i == 4);
    }
    for (int i = 0; i < 5; i++) ein__text_free(&keys[i]);
    end(g);
}

/* ---- refusals ---- */

/* Change the example, apply it to x [3,4] (and w [5,4]), and expect this line after "custom 'sumsq': ". */
#define FAILS(expected, change)                                                   \
    do {                                                                          \
        ein_graph *g = new_graph();                                               \
        ein_op op = example();                                                    \
        ein_tensor y[4] = {{7}, {7}, {7}, {7}}, x[] = {IN(g, "x", 3, 4), IN(g, "w", 5, 4)}; \
        change;                                                                   \
        ein_custom(g, &op, x, y);                                                 \
        end_failed(g, y[0], ein_graph_status(g), "custom 'sumsq': " expected);    \
    } while (0)

#define TEXTS(...) ((const char *const[]){__VA_ARGS__})
#define LABELS(...) ((const ein_label[]){__VA_ARGS__})

static void refused_labels(void **state)
{
    (void)state;
    FAILS("label 'J' is not 1 to 7 lower-case letters and digits",
          op.labels = LABELS({.name = "i"}, {.name = "J"}));
    FAILS("label 'abcdefgh' is not 1 to 7 lower-case letters and digits",
          op.labels = LABELS({.name = "i"}, {.name = "abcdefgh"}));
    FAILS("label 'i' is given twice", op.labels = LABELS({.name = "i"}, {.name = "i"}));
    FAILS("label 1 has no name", op.labels = LABELS({.name = "i"}, {0}));
    FAILS("label 'j' has granule -2", op.labels = LABELS({.name = "i"}, {.name = "j", .granule = -2}));
    FAILS("17 labels; at most 16", op.n_labels = 17);
    FAILS("'i,k': no label 'k' at column 3", op.operands = TEXTS("i,k"));
    FAILS("'i,': no label '' at column 3", op.operands = TEXTS("i,"));
    FAILS("'i;j': unexpected ';' at column 2", op.operands = TEXTS("i;j"));
    FAILS("operand 0 has shape [3,4], and labels 'i*j'", op.operands = TEXTS("i*j"));
    FAILS("the labels of a tensor are NULL", op.operands = TEXTS(NULL));
    FAILS("'i,i': label 'i' is twice in a result", op.results = TEXTS("i,i"));
}

static void refused_extents(void **state)
{
    (void)state;
    FAILS("'i,j': label 'i' gives an extent of 3, the operand has 5",
          (op.n_operands = 2, op.operands = TEXTS("i,j", "i,j")));
    FAILS("the operands do not tell the extent of label 'k'",
          (op.n_labels = 3, op.labels = LABELS({.name = "i"}, {.name = "j"}, {.name = "k"})));
    FAILS("'i,i*k': no extent for label 'k': 4 is no multiple of 3",
          (op.n_labels = 3, op.labels = LABELS({.name = "i"}, {.name = "j"}, {.name = "k"}),
           op.n_operands = 2, op.operands = TEXTS("i,i*k", "j,i*k")));
    FAILS("[3,1099511627777] has more than 2^40 elements",
          (op.n_labels = 3, op.labels = LABELS({.name = "i"}, {.name = "j"}, {.name = "k"}),
           op.n_operands = 2, op.operands = TEXTS("i,j", "k,i"), x[0] = IN(g, "a", 3, 1 << 20),
           x[1] = IN(g, "b", 1 << 22, 3), op.results = TEXTS("i,j*k")));
}

static void refused_merges(void **state)
{
    static const ein_label whole_j[] = {{.name = "i"}, {.name = "j", .whole = 1}};
    (void)state;
    FAILS("label 'j' is in no result and there is no merge; mark it whole",
          (op.n_states = 0, op.states = NULL, op.identity = NULL, op.combine = NULL));
    FAILS("a merge without states", op.n_states = 0);
    FAILS("5 states; at most 4", op.n_states = 5);
    FAILS("1 states without identities", op.identity = NULL);
    FAILS("1 states without combine expressions", op.combine = NULL);
    FAILS("2 results of 1 states without finalize expressions",
          (op.n_results = 2, op.results = TEXTS("i", "i")));
    FAILS("expression \"a0 + c0\": column 6: unknown name at \"c0\"", op.combine = TEXTS("a0 + c0"));
    FAILS("expression \"b0\": column 1: unknown name at \"b0\"", op.finalize = TEXTS("b0"));
    FAILS("label 'j' indexes only some of the states and results; mark it whole", op.results = TEXTS("i,j"));
    FAILS("spec: result 0 is made of a state with other labels, or in another order",
          (op.labels = LABELS({.name = "i", .whole = 1}, {.name = "j", .whole = 1}), op.states = TEXTS("j,i"),
           op.results = TEXTS("i,j")));
    FAILS("spec: result 0 is made of a state with other labels, or in another order",
          (op.labels = whole_j, op.states = TEXTS("i,j")));
    FAILS("no kernel", op.kernel = "");
    FAILS("no grid", op.grid = NULL);
    FAILS("0 results; 1 to 4", (op.n_results = 0, y[0].id = 0));
    FAILS("flops_per_point is -1", op.flops_per_point = -1);
    FAILS("no operands", op.n_operands = 0);
}

static void refused_calls(void **state)
{
    ein_graph *g = new_graph();
    ein_op op = example();
    ein_tensor x = IN(g, "x", 3, 4), y = {7};
    (void)state;
    ein_custom(NULL, &op, &x, &y);
    ein_custom(g, NULL, &x, NULL);
    end_failed(g, (ein_tensor){0}, EIN_INVALID, "custom: no op");
    g = new_graph();
    op.size = 8;
    ein_custom(g, &op, &x, &y);
    end_failed(g, (ein_tensor){0}, EIN_INVALID, "custom: no size");
    g = new_graph();
    op = example();
    op.name = "";
    ein_custom(g, &op, &x, &y);
    end_failed(g, y, EIN_INVALID, "custom: no name");
    g = new_graph();
    op = example();
    x = ein_input(g, "x", EIN_I32, SHAPE(3, 4));
    ein_custom(g, &op, &x, &y);
    end_failed(g, y, EIN_DTYPE, "custom 'sumsq': operand 0 is i32, not f32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sum_of_squares), cmocka_unit_test(compound), cmocka_unit_test(no_merge),
        cmocka_unit_test(keys), cmocka_unit_test(refused_labels), cmocka_unit_test(refused_extents),
        cmocka_unit_test(refused_merges), cmocka_unit_test(refused_calls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
