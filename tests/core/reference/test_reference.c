/* SPDX-License-Identifier: Apache-2.0 */
/* The evaluator against values worked out by hand, kind by kind, and the pass over a graph. */
#include "tests/core/reference/fixture.h"

/* ---- map ---- */

static void test_map_broadcast(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 1, 2, 3, 4, 5, 6), y = FLOATS(&f, 10, 20, 30);
    EXPECT(&f, map_of(&f, "i=2 j=3", "x0 * 2 + x1", -1, 1, VALUES(x, y), MAPS("i j", "j"), "i j"),
           12, 24, 36, 18, 30, 42);
}

static void test_map_merges(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 1, 2, 3, 4, -5, 6);
    EXPECT(&f, map_of(&f, "i=2 j=3", "x0", MERGE_SUM, 1, VALUES(x), MAPS("i j"), "j"), 5, -3, 9);
    f = (fixture){0};
    x = FLOATS(&f, 1, 2, 3, 4, -5, 6);
    EXPECT(&f, map_of(&f, "i=2 j=3", "x0", MERGE_SUM, 0.25, VALUES(x), MAPS("i j"), "i"), 1.5, 1.25);
    f = (fixture){0};
    x = FLOATS(&f, 1, 2, 3, 4, -5, 6);
    EXPECT(&f, map_of(&f, "i=2 j=3", "x0", MERGE_MAX, 1, VALUES(x), MAPS("i j"), "i"), 3, 6);
    f = (fixture){0};
    x = FLOATS(&f, 1, 2, NAN, 4, -INFINITY, 6);
    EXPECT(&f, map_of(&f, "i=2 j=3", "x0", MERGE_MIN, 1, VALUES(x), MAPS("i j"), "i"), NAN, -INFINITY);
    f = (fixture){0};
    x = leaf_of(&f, EIN_F32, 0, "");
    EXPECT(&f, map_of(&f, "i=2 j=0", "x0", MERGE_SUM, INFINITY, VALUES(x), MAPS("i j"), "i"), NAN, NAN);
}

/* A label that may not be cut is folded all the same. */
static void test_map_whole_label(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 1, 2, 3, 4);
    value y = map_of(&f, "i=2 j=2", "x0", MERGE_SUM, 1, VALUES(x), MAPS("i j"), "i");
    f.g.nodes.items[0].spec.labels[1].whole = true;
    EXPECT(&f, y, 3, 7);
}

static void test_map_ranges(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 1, 2, 3, 4);
    /* The product of x and x moved by one: the join has no point where either is out of range. */
    EXPECT(&f, map_of(&f, "i=5", "x0 + x1", -1, 1, VALUES(x, x), MAPS("i<4", "i-1<4"), "i"), 0, 3, 5, 7, 0);
    f = (fixture){0};
    x = FLOATS(&f, 1, 2, 3, 4);
    EXPECT(&f, map_of(&f, "i=5", "x0", MERGE_MIN, 1, VALUES(x), MAPS("i-2<4"), ""), 1);
    /* Both halves of a row, as rotary embedding reads them. */
    f = (fixture){0};
    x = FLOATS(&f, 1, 2, 3, 4);
    EXPECT(&f, map_of(&f, "i=2", "x0 * 10 + x1", -1, 1, VALUES(x, x), MAPS("=0<2 i", "=1<2 i"), "i"), 13, 24);
    /* The diagonal. */
    f = (fixture){0};
    x = FLOATS(&f, 1, 2, 3, 4);
    EXPECT(&f, map_of(&f, "i=2", "x0", -1, 1, VALUES(x), MAPS("i i"), "i"), 1, 4);
}

static void test_map_scalar(void **state)
{
    (void)state;
    fixture f = {.scalars = {2}};
    ok(push_scalar(&f.g, "position"));
    value x = FLOATS(&f, 1, 2, 3, 4);
    EXPECT(&f, map_of(&f, "i=2", "x0", -1, 1, VALUES(x), MAPS("i$0<4"), "i"), 3, 4);
    f = (fixture){.scalars = {3}};
    ok(push_scalar(&f.g, "position"));
    x = FLOATS(&f, 1, 2, 3, 4);
    expect_failure(&f, map_of(&f, "i=2", "x0", -1, 1, VALUES(x), MAPS("i$0<4"), "i"), EIN_INVALID,
                   "op: scalar position is 3: rows 3 to 4 of 4");
}

/* Each precision adds in order, in its own type. */
static void test_sum_precision(void **state)
{
    (void)state;
    evaluator both[2] = {ein__reference_f64, ein__reference_f32};
    for (int path = 0; path < 2; path++) {
        fixture f = {0};
        value x = FLOATS(&f, 1e8f, 1, -1e8f, 1), y = FLOATS(&f, 1, 1, 1, 1, 1, 1, 1, 1);
        out(&f, map_of(&f, "i=2 k=4", "x0 * x1", MERGE_SUM, 1, VALUES(x, y), MAPS("k", "i k"), "i"));
        f.g.nodes.items[0].product = path == 0;
        double got[2];
        for (int p = 0; p < 2; p++) {
            ok(evaluate(&f, both[p], (double *[]){got}));
            assert_true(got[0] == (p == 0 ? 2 : 1) && got[1] == got[0]);
        }
        done(&f);
    }
}

/* ---- rows ---- */

static void test_row_softmax(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 0, 1, 1000, 3, 3, 1000);
    node n = node_of(&f, OP_ROW, "i=3 j=2", VALUES(x), MAPS("j i"), MAPS("j i"));
    n.spec.two_step = 2;
    n.n_stages = 2;
    n.stages[0] = stage_of(&f, MERGE_MAX, parse(&f, "x0"));
    n.stages[1] = stage_of(&f, MERGE_SUM, parse(&f, "exp(x0 - x1)"));
    n.body[0] = parse(&f, "exp(x0 - x1) / x2");
    double a = 1 / (1 + exp(3)), b = 1 / (1 + exp(2));
    EXPECT(&f, add(&f, n), a, b, 0.5, 1 - a, 1 - b, 0.5);
}

static void test_row_rms_norm(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 3, 4, 0, 0), w = FLOATS(&f, 1, 2);
    node n = node_of(&f, OP_ROW, "i=2 j=2", VALUES(x, w), MAPS("i j", "j"), MAPS("i j"));
    n.spec.two_step = 2;
    n.n_stages = 1;
    n.stages[0] = stage_of(&f, MERGE_SUM, parse(&f, "x0 * x0"));
    n.body[0] = parse(&f, "x0 / sqrt(x2 / 2 + 0.5) * x1");
    double r = sqrt(13);
    EXPECT(&f, add(&f, n), 3 / r, 8 / r, 0, 0);
}

/* ---- gather, move, append, custom ---- */

static void test_gather(void **state)
{
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        fixture f = {0};
        value table = FLOATS(&f, 1, 2, 3, 4, 5, 6);
        const void *data = wide ? (void *)(i64[]){2, 0, 2} : (void *)(int32_t[]){2, 0, 2};
        value ids = leaf_of(&f, wide ? EIN_I64 : EIN_I32, 3, data);
        node n = node_of(&f, OP_GATHER, "r=3 v=3 d=2", VALUES(ids, table), MAPS("r", "v d"), MAPS("r d"));
        EXPECT(&f, add(&f, n), 5, 6, 1, 2, 5, 6);
    }
    fixture f = {0};
    value table = FLOATS(&f, 1, 2, 3), ids = leaf_of(&f, EIN_I64, 2, (i64[]){1, 3});
    node n = node_of(&f, OP_GATHER, "r=2 v=3 d=1", VALUES(ids, table), MAPS("r", "v d"), MAPS("r d"));
    expect_failure(&f, add(&f, n), EIN_INVALID, "op: id 3 at 1 is not in a table of 3 rows");
    f = (fixture){0};
    table = FLOATS(&f, 1, 2, 3);
    n = node_of(&f, OP_GATHER, "r=3 v=3 d=1", VALUES(table, table), MAPS("r", "v d"), MAPS("r d"));
    expect_failure(&f, add(&f, n), EIN_DTYPE, "op: ids are not i32 or i64");
}

static void test_move(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 1, 2, 3, 4, 5, 6);
    EXPECT(&f, add(&f, node_of(&f, OP_MOVE, "i=2 j=3", VALUES(x), MAPS("i j"), MAPS("j i"))),
           1, 4, 2, 5, 3, 6);
    f = (fixture){0};
    x = FLOATS(&f, 1, 2, 3, 4, 5, 6);
    EXPECT(&f, add(&f, node_of(&f, OP_MOVE, "i=2 j=1", VALUES(x), MAPS("i j+1<3"), MAPS("i j"))), 2, 5);
    f = (fixture){0};
    x = FLOATS(&f, 1, 2, 3, 4);
    value y = FLOATS(&f, 5, 6);
    EXPECT(&f, add(&f, node_of(&f, OP_MOVE, "i=2 j=3", VALUES(x, y), MAPS("i j<2", "i j-2<1"), MAPS("i j"))),
           1, 2, 5, 3, 4, 6);
    /* An operand that was computed beside one that was not: storages differ in f64. */
    f = (fixture){0};
    x = FLOATS(&f, 1, 2);
    y = map_of(&f, "i=2", "x0 / 3", -1, 1, VALUES(x), MAPS("i"), "i");
    EXPECT(&f, add(&f, node_of(&f, OP_MOVE, "j=4", VALUES(x, y), MAPS("j<2", "j-2<2"), MAPS("j"))),
           1, 2, 1 / 3.0, 2 / 3.0);
}

/* Integers that no float holds come through. */
static void test_move_integers(void **state)
{
    (void)state;
    fixture f = {0};
    double got[2];
    value x = leaf_of(&f, EIN_I64, 2, (i64[]){16777217, 5});
    out(&f, add(&f, node_of(&f, OP_MOVE, "i=2", VALUES(x), MAPS("i"), MAPS("i"))));
    ok(evaluate(&f, ein__reference_f32, (double *[]){got}));
    assert_true(got[0] == 16777217 && got[1] == 5);
    done(&f);
}

static node append_node(fixture *f, i64 position)
{
    value state = FLOATS(f, 1, 2, 3, 4, 5, 6, 7, 8), rows = FLOATS(f, 10, 20);
    node n = node_of(f, OP_APPEND, "h=2 t=4 s=1", VALUES(state, rows), MAPS("h t", "h s"), MAPS("h t"));
    ok(push_scalar(&f->g, "position"));
    f->scalars[0] = position;
    n.scalar = 0;
    n.append_t = 1;
    n.append_s = 2;
    return n;
}

static void test_append(void **state)
{
    (void)state;
    fixture f = {0};
    EXPECT(&f, add(&f, append_node(&f, 2)), 1, 2, 10, 4, 5, 6, 20, 8);
    f = (fixture){0};
    expect_failure(&f, add(&f, append_node(&f, 4)), EIN_INVALID, "op: 1 rows at position 4 of a state of 4");
    f = (fixture){0};
    expect_failure(&f, add(&f, append_node(&f, -1)), EIN_INVALID,
                   "op: 1 rows at position -1 of a state of 4");
}

static void custom_reference(const ein_array *operands, ein_array *results, void *user)
{
    ++*(int *)user;
    for (i64 i = 0; i < operands[0].shape[0]; i++) {
        results[0].data[i] = operands[0].data[i] / 3;
        results[1].data[0] += operands[0].data[i];
    }
}

static node custom_node(fixture *f, value x, int *calls)
{
    node n = node_of(f, OP_CUSTOM, "i=2", VALUES(x), MAPS("i"), MAPS("i", ""));
    n.custom = (custom_attrs){.name = "third", .reference = custom_reference, .user = calls};
    return n;
}

static void test_custom(void **state)
{
    (void)state;
    int calls = 0;
    double got[2][2];
    fixture f = {0};
    value x = FLOATS(&f, 1, 2), y = add(&f, custom_node(&f, x, &calls));
    out(&f, y);
    out(&f, y + 1);
    ok(evaluate(&f, ein__reference_f64, (double *[]){got[0], got[1]}));
    assert_true(got[0][0] == 1 / 3.0 && got[0][1] == 2 / 3.0 && got[1][0] == 3);
    ok(evaluate(&f, ein__reference_f32, (double *[]){got[0], got[1]}));
    assert_true(got[0][0] == (double)(1 / 3.0f) && got[1][0] == 3 && calls == 2);
    f.g.nodes.items[0].custom.reference = NULL;
    assert_int_equal(evaluate(&f, ein__reference_f64, (double *[]){got[0], got[1]}), EIN_UNSUPPORTED);
    assert_string_equal(f.error.line, "third: the op has no reference function");
    done(&f);
}

/* ---- the whole graph ---- */

typedef struct stages { int n; char last[64]; double fraction; } stages;

static void count_stage(void *user, const char *stage, double fraction)
{
    stages *s = user;
    s->n++;
    snprintf(s->last, sizeof s->last, "%s", stage);
    s->fraction = fraction;
}

static void test_needed_nodes_only(void **state)
{
    (void)state;
    int calls = 0;
    double got[2];
    fixture f = {0};
    value x = FLOATS(&f, 1, 2);
    leaf_of(&f, EIN_F32, 2, NULL); /* not needed, so it need not be bound */
    value y = map_of(&f, "i=2", "x0 + 1", -1, 1, VALUES(x), MAPS("i"), "i");
    add(&f, custom_node(&f, y, &calls));
    out(&f, map_of(&f, "i=2", "x0 * x1", -1, 1, VALUES(y, y), MAPS("i", "i"), "i"));
    f.g.nodes.items[2].name = "square";
    stages s = {0};
    reference_bindings b = {.leaves = f.data, .progress = count_stage, .progress_user = &s};
    ok(ein__reference_f64(&f.g, &b, (double *[]){got}, &f.error));
    assert_true(got[0] == 4 && got[1] == 9);
    assert_int_equal(calls, 0);
    assert_int_equal(s.n, 2);
    assert_string_equal(s.last, "reference: square");
    assert_true(s.fraction == 0.5);
    done(&f);
}

/* Leaves as outputs, the same value twice, a constant that is not bound. */
static void test_outputs(void **state)
{
    (void)state;
    double got[3][2];
    fixture f = {0};
    value x = FLOATS(&f, 1, 2), c = leaf_of(&f, EIN_F32, 2, NULL);
    f.g.leaves.items[1].data = (float[]){3, 4};
    value y = map_of(&f, "i=2", "x0 + x1", -1, 1, VALUES(x, c), MAPS("i", "i"), "i");
    out(&f, y);
    out(&f, x);
    out(&f, y);
    ok(evaluate(&f, ein__reference_f32, (double *[]){got[0], got[1], got[2]}));
    assert_true(got[0][0] == 4 && got[0][1] == 6 && got[1][0] == 1 && got[1][1] == 2);
    assert_memory_equal(got[0], got[2], sizeof got[0]);
    done(&f);
}

static void test_refused(void **state)
{
    (void)state;
    fixture f = {0};
    value x = leaf_of(&f, EIN_F32, 2, NULL);
    expect_failure(&f, x, EIN_INVALID, "reference: x is not bound");
    f = (fixture){0};
    x = FLOATS(&f, 1);
    f.g.loops.n = 1;
    expect_failure(&f, x, EIN_INTERNAL, "reference: the graph is rolled");
    f = (fixture){0};
    x = FLOATS(&f, 1);
    ok(push_scalar(&f.g, "length"));
    out(&f, x);
    reference_bindings b = {.leaves = f.data};
    assert_int_equal(ein__reference_f64(&f.g, &b, (double *[]){(double[1]){0}}, &f.error), EIN_INVALID);
    assert_string_equal(f.error.line, "reference: scalar length is not bound");
    done(&f);
}

/* All kinds in one graph, so that every allocation fails once. */
static void build_all(fixture *f, int *calls)
{
    attention_case c = {1, 1, 1, 2, 2, 1, 2, true, 0, -1, 0, 0, "t"};
    value q = FLOATS(f, 2, 1), k = FLOATS(f, 0, 1), v = FLOATS(f, 1, 2, 3, 4), mask = NUMBERS(f, EIN_BOOL, 1, 1);
    value o = add(f, attention_node(f, &c, VALUES(q, k, v, mask), true));
    value p = map_of(f, "m=2 n=2 k=2", "x0 * x1", MERGE_SUM, 1, VALUES(o + 2, v), MAPS("m k", "n k"), "m n");
    value moved = add(f, node_of(f, OP_MOVE, "i=2 j=2", VALUES(p), MAPS("i j"), MAPS("j i")));
    value sum = map_of(f, "i=2 j=2", "x0", MERGE_SUM, 1, VALUES(moved), MAPS("i j"), "i");
    node row = node_of(f, OP_ROW, "i=2", VALUES(sum), MAPS("i"), MAPS("i"));
    row.spec.two_step = 1;
    row.n_stages = 1;
    row.stages[0] = stage_of(f, MERGE_SUM, parse(f, "x0"));
    row.body[0] = parse(f, "x0 / x1");
    value scaled = add(f, row);
    value ids = leaf_of(f, EIN_I64, 1, (i64[]){1});
    node gather = node_of(f, OP_GATHER, "r=1 v=2 d=1", VALUES(ids, scaled), MAPS("r", "v d"), MAPS("r d"));
    value row_value = add(f, gather);
    node append = node_of(f, OP_APPEND, "t=2 s=1", VALUES(q, row_value), MAPS("t", "s"), MAPS("t"));
    append.append_s = 1;
    append.scalar = -1;
    node select = node_of(f, OP_SELECT, "n=2 k=1", VALUES(q), MAPS("n"), MAPS("k", "k"));
    select.select.k = 1;
    out(f, typed(f, EIN_BF16, map_of(f, "i=1", "x0", -1, 1, VALUES(add(f, select)), MAPS("i"), "i")));
    out(f, add(f, custom_node(f, add(f, append), calls)));
}

static void test_allocation_failures(void **state)
{
    (void)state;
    int calls = 0;
    double got[2][2], want[2][2];
    evaluator both[2] = {ein__reference_f64, ein__reference_f32};
    for (int p = 0; p < 2; p++) {
        fixture f = {.threads = 2};
        build_all(&f, &calls);
        ok(evaluate(&f, both[p], (double *[]){want[0], want[1]}));
        long live = ein__alloc_live(), failures = 0;
        ein_status status = EIN_NO_MEMORY;
        for (; status != EIN_OK; failures++) {
            ein__alloc_fail_at(failures + 1);
            status = evaluate(&f, both[p], (double *[]){got[0], got[1]});
            ein__alloc_fail_at(0);
            assert_true(status == EIN_OK || status == EIN_NO_MEMORY);
            assert_int_equal(ein__alloc_live(), live);
        }
        assert_true(failures > 30);
        assert_true(got[0][0] == 2 && want[0][0] == 2);
        assert_memory_equal(got[1], want[1], sizeof want[1]);
        done(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_broadcast), cmocka_unit_test(test_map_merges),
        cmocka_unit_test(test_map_whole_label), cmocka_unit_test(test_map_ranges),
        cmocka_unit_test(test_map_scalar), cmocka_unit_test(test_sum_precision),
        cmocka_unit_test(test_row_softmax), cmocka_unit_test(test_row_rms_norm),
        cmocka_unit_test(test_gather), cmocka_unit_test(test_move), cmocka_unit_test(test_move_integers),
        cmocka_unit_test(test_append), cmocka_unit_test(test_custom),
        cmocka_unit_test(test_needed_nodes_only), cmocka_unit_test(test_outputs),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_allocation_failures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
