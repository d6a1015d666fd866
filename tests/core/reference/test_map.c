/* SPDX-License-Identifier: Apache-2.0 */
/* OP_MAP and OP_ROW beyond one sum: indices, windows, merges of several states, several two-step labels. */
#include "tests/core/reference/fixture.h"

static node with_indices(node n, int count, const int *labels)
{
    n.n_indices = count;
    for (int i = 0; i < count; i++) n.indices[i] = labels[i];
    return n;
}

/* ---- indices ---- */

static void test_arange(void **state)
{
    (void)state;
    fixture f = {0};
    node n = with_indices(node_of(&f, OP_MAP, "i=5", NULL, MAPS(NULL), MAPS("i")), 1, (int[]){0});
    n.body[0] = parse(&f, "3 - 2 * x0");
    EXPECT(&f, typed(&f, EIN_I32, add(&f, n)), 3, 1, -1, -3, -5);
    f = (fixture){0};
    n = with_indices(node_of(&f, OP_MAP, "i=3", NULL, MAPS(NULL), MAPS("i")), 1, (int[]){0});
    n.body[0] = parse(&f, "0.5 + 0.25 * x0");
    EXPECT(&f, add(&f, n), 0.5, 0.75, 1);
    f = (fixture){0};
    n = node_of(&f, OP_MAP, "i=2 j=2", NULL, MAPS(NULL), MAPS("i j"));
    n.body[0] = parse(&f, "1e400"); /* full */
    EXPECT(&f, add(&f, n), INFINITY, INFINITY, INFINITY, INFINITY);
    f = (fixture){0};
    n = node_of(&f, OP_MAP, "i=2", NULL, MAPS(NULL), MAPS("i"));
    n.body[0] = parse(&f, "16777217");
    EXPECT(&f, typed(&f, EIN_I64, add(&f, n)), 16777217, 16777217);
}

static void test_indices(void **state)
{
    (void)state;
    /* triu, of the transpose. */
    fixture f = {0};
    value x = FLOATS(&f, 1, 2, 3, 4, 5, 6);
    node n = with_indices(node_of(&f, OP_MAP, "i=3 j=2", VALUES(x), MAPS("j i"), MAPS("i j")), 2, (int[]){0, 1});
    n.body[0] = parse(&f, "where(x2 >= x1, x0, 0)");
    EXPECT(&f, add(&f, n), 1, 4, 0, 5, 0, 0);
    /* A folded label's index: the sum of i * x[i], and of the rows' numbers. */
    f = (fixture){0};
    x = FLOATS(&f, 1, 2, 3, 4, 5, 6);
    n = with_indices(node_of(&f, OP_MAP, "r=2 i=3", VALUES(x), MAPS("r i"), MAPS("r")), 2, (int[]){1, 0});
    merge_by(&f, &n, MERGE_SUM, EIN_F32, (const char *[]){"x1 * x0 + 10 * x2"});
    EXPECT(&f, add(&f, n), 8, 47);
    /* An index counts in the whole, also where a range leaves a part of it. */
    f = (fixture){0};
    x = FLOATS(&f, 1, 2, 3);
    n = with_indices(node_of(&f, OP_MAP, "i=5", VALUES(x), MAPS("i-1<3"), MAPS("i")), 1, (int[]){0});
    n.body[0] = parse(&f, "x0 + 10 * x1");
    EXPECT(&f, add(&f, n), 0, 11, 22, 33, 0);
    f = (fixture){0};
    x = FLOATS(&f, 1, 2, 3);
    n = with_indices(node_of(&f, OP_MAP, "i=5", VALUES(x), MAPS("i-1<3"), MAPS("")), 1, (int[]){0});
    merge_by(&f, &n, MERGE_SUM, EIN_F32, (const char *[]){"x0 * x1"});
    EXPECT(&f, add(&f, n), 14);
}

/* Additions into rows, as a fold over the indices: ids 1, 0, 1. */
static void test_scatter(void **state)
{
    (void)state;
    fixture f = {0};
    value ids = NUMBERS(&f, EIN_I64, 1, 0, 1), x = FLOATS(&f, 1, 2, 3, 4, 5, 6);
    node n = with_indices(
        node_of(&f, OP_MAP, "v=3 d=2 j=3", VALUES(ids, x), MAPS("j", "j d"), MAPS("v d")), 1, (int[]){0});
    merge_by(&f, &n, MERGE_SUM, EIN_F32, (const char *[]){"where(x0 == x2, x1, 0)"});
    EXPECT(&f, add(&f, n), 3, 4, 6, 8, 0, 0);
}

/* ---- windows ---- */

static void test_windows(void **state)
{
    (void)state;
    /* A pool of 2 by 2 in steps of 2 and 1, and the mean of three dilated elements. */
    fixture f = {0};
    value x = FLOATS(&f, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, -1, -2);
    EXPECT(&f, map_of(&f, "i=2 j=2 k=2 l=2", "x0", MERGE_MAX, 1, VALUES(x), MAPS("2*i+1*k<4 1*j+1*l<3"), "i j"),
           5, 6, 8, 9);
    f = (fixture){0};
    x = FLOATS(&f, 1, 2, 4, 8, 16, 32);
    EXPECT(&f, map_of(&f, "i=2 k=3", "x0", MERGE_SUM, 1 / 3.0, VALUES(x), MAPS("1*i+2*k<6"), "i"), 7, 14);
    /* One label twice: a reversed copy beside the original. */
    f = (fixture){0};
    x = FLOATS(&f, 1, 2, 4);
    EXPECT(&f, map_of(&f, "i=3", "x0 * 10 + x1", -1, 1, VALUES(x, x), MAPS("i", "-1*i+2<3"), "i"), 14, 22, 41);
    /* A window over what a range leaves. */
    f = (fixture){0};
    x = FLOATS(&f, 1, 2, 4);
    value y = FLOATS(&f, 1, 1, 1, 10, 10, 10, 10);
    EXPECT(&f, map_of(&f, "i=4 k=2", "x0 * x1", MERGE_SUM, 1, VALUES(x, y), MAPS("i-1<3", "1*i+3*k<7"), "i"),
           0, 11, 22, 80);
}

/* ---- merges of several states ---- */

static value arg_extreme(fixture *f, merge_kind kind, ein_dtype d, value x, const char *labels, const char *map,
                         const char *result)
{
    node n = with_indices(node_of(f, OP_MAP, labels, VALUES(x), MAPS(map), MAPS(result)), 1, (int[]){1});
    merge_by(f, &n, kind, d, (const char *[]){"x0", "x1"});
    return typed(f, EIN_I64, add(f, n));
}

static void test_argmax(void **state)
{
    (void)state;
    const double rows[] = {1, 3, 3, 2, -1, -5, -5, -2, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    fixture f = {0};
    value x = numbers_of(&f, EIN_F32, 12, rows);
    EXPECT(&f, arg_extreme(&f, MERGE_ARGMAX, EIN_F32, x, "r=3 i=4", "r i", "r"), 1, 0, 0);
    f = (fixture){0};
    x = numbers_of(&f, EIN_BF16, 12, rows);
    EXPECT(&f, arg_extreme(&f, MERGE_ARGMIN, EIN_BF16, x, "r=3 i=4", "r i", "r"), 0, 1, 0);
    f = (fixture){0};
    x = FLOATS(&f, 1, NAN, 3, NAN, INFINITY, 0, 0, NAN);
    EXPECT(&f, arg_extreme(&f, MERGE_ARGMAX, EIN_F32, x, "r=2 i=4", "r i", "r"), 1, 3);
    f = (fixture){0};
    x = FLOATS(&f, 1, NAN, 3, NAN, INFINITY, 0, 0, NAN);
    EXPECT(&f, arg_extreme(&f, MERGE_ARGMIN, EIN_F32, x, "r=2 i=4", "r i", "r"), 1, 3);
    /* Integers that differ in what no f32 holds. */
    f = (fixture){0};
    x = leaf_of(&f, EIN_I64, 3, (i64[]){16777216, 16777217, 16777216});
    EXPECT(&f, arg_extreme(&f, MERGE_ARGMAX, EIN_I64, x, "r=1 i=3", "r i", "r"), 1);
    /* Along the first axis. */
    f = (fixture){0};
    x = FLOATS(&f, 1, 5, 2, 4);
    EXPECT(&f, arg_extreme(&f, MERGE_ARGMAX, EIN_F32, x, "r=2 i=2", "i r", "r"), 1, 0);
}

static value logsumexp(fixture *f, value x)
{
    node n = node_of(f, OP_MAP, "r=2 i=3", VALUES(x), MAPS("r i"), MAPS("r"));
    merge_by(f, &n, MERGE_LOGSUMEXP, EIN_F32, (const char *[]){"x0", "1"});
    return add(f, n);
}

static void test_logsumexp(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 0, 1, 2, 1000, 1000, -1000);
    EXPECT(&f, logsumexp(&f, x), log(1 + exp(1) + exp(2)), 1000 + log(2));
    f = (fixture){0};
    x = FLOATS(&f, INFINITY, 1, 2, NAN, 0, 0);
    EXPECT(&f, logsumexp(&f, x), INFINITY, NAN);
}

/* Three results of three states: count, mean, squared distances of 1, 2, 4, 5 and of -1, 3, 3, 3. */
static void test_welford(void **state)
{
    (void)state;
    double got[3][2];
    const double want[3][2] = {{4, 4}, {3, 2}, {10, 12}};
    fixture f = {0};
    value x = FLOATS(&f, 1, -1, 2, 3, 4, 3, 5, 3);
    node n = node_of(&f, OP_MAP, "i=4 r=2", VALUES(x), MAPS("i r"), MAPS("r", "r", "r"));
    merge_by(&f, &n, MERGE_WELFORD, EIN_F32, (const char *[]){"1", "x0", "0"});
    value first = add(&f, n);
    for (int i = 0; i < 3; i++) out(&f, first + i);
    for (int p = 0; p < 2; p++) {
        ok(evaluate(&f, p == 0 ? ein__reference_f64 : ein__reference_f32, (double *[]){got[0], got[1], got[2]}));
        for (int i = 0; i < 6; i++) assert_true(fabs(got[i / 2][i % 2] - want[i / 2][i % 2]) < 1e-5);
    }
    done(&f);
}

/* Results in orders of their own, and no merge. */
static void test_results(void **state)
{
    (void)state;
    double got[2][6];
    fixture f = {0};
    value x = FLOATS(&f, 1, 2, 3, 4, 5, 6);
    node n = node_of(&f, OP_MAP, "i=2 j=3", VALUES(x), MAPS("i j"), MAPS("i j", "j i"));
    n.body[0] = parse(&f, "x0 + 1");
    n.body[1] = parse(&f, "x0 * 10");
    value first = add(&f, n);
    typed(&f, EIN_I8, first + 1);
    out(&f, first);
    out(&f, first + 1);
    ok(evaluate(&f, ein__reference_f32, (double *[]){got[0], got[1]}));
    assert_memory_equal(got[0], ((double[]){2, 3, 4, 5, 6, 7}), sizeof got[0]);
    assert_memory_equal(got[1], ((double[]){10, 40, 20, 50, 30, 60}), sizeof got[1]);
    done(&f);
    f = (fixture){0};
    x = FLOATS(&f, 1, 2);
    n = node_of(&f, OP_MAP, "i=2", VALUES(x), MAPS("i"), MAPS("i", ""));
    n.body[0] = n.body[1] = parse(&f, "x0");
    expect_failure(&f, add(&f, n), EIN_INTERNAL, "reference: op: label i indexes some results only");
}

/* Nothing to fold: identities, finalized; in part of the points a range leaves nothing. */
static void test_empty(void **state)
{
    (void)state;
    fixture f = {0};
    value x = leaf_of(&f, EIN_F32, 0, "");
    node n = node_of(&f, OP_MAP, "r=2 i=0", VALUES(x), MAPS("r i"), MAPS("r"));
    merge_by(&f, &n, MERGE_LOGSUMEXP, EIN_F32, (const char *[]){"x0", "1"});
    EXPECT(&f, add(&f, n), -INFINITY, -INFINITY);
    /* An identity of f64 that is no f32. */
    f = (fixture){0};
    x = NUMBERS(&f, EIN_F64, 3, 3, 3, 3, 3, 3);
    n = node_of(&f, OP_MAP, "r=2 i=3", VALUES(x), MAPS("r i"), MAPS("r"));
    merge_by(&f, &n, MERGE_LOGSUMEXP, EIN_F64, (const char *[]){"x0", "1"});
    EXPECT(&f, typed(&f, EIN_F64, add(&f, n)), 3 + log(3), 3 + log(3));
    f = (fixture){0};
    x = NUMBERS(&f, EIN_I8, 4, -9);
    n = node_of(&f, OP_MAP, "i=4 k=1", VALUES(x), MAPS("i-1<2"), MAPS("i"));
    merge_by(&f, &n, MERGE_MAX, EIN_I8, (const char *[]){"x0"});
    value v = typed(&f, EIN_I64, add(&f, n));
    EXPECT(&f, v, -128, 4, -9, -128);
    f = (fixture){0};
    x = NUMBERS(&f, EIN_BOOL, 1, 0);
    n = node_of(&f, OP_MAP, "i=4 k=1", VALUES(x), MAPS("i-1<2"), MAPS("i"));
    merge_by(&f, &n, MERGE_PROD, EIN_BOOL, (const char *[]){"x0"});
    EXPECT(&f, typed(&f, EIN_BOOL, add(&f, n)), 1, 1, 0, 1);
}

/* ---- rows ---- */

static row_stage welford_stage(fixture *f, const char *x)
{
    merge *m;
    ok(ein__merge_make(&f->g.arena, MERGE_WELFORD, 1, EIN_F32, &m));
    return (row_stage){m, {parse(f, "1"), parse(f, x), parse(f, "0")}};
}

/* Of each group the mean goes, then x / deviation * weight + bias; statistics follow the three operands. */
static void test_row_welford(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 1, 2, 4, 5, 0, 0, 8, 8), w = FLOATS(&f, 1, 2), b = FLOATS(&f, 0, 100);
    /* Channels c and positions p of a group are one row. */
    node n = node_of(&f, OP_ROW, "g=2 c=2 p=2", VALUES(x, w, b), MAPS("g c p", "c", "c"), MAPS("g c p"));
    n.spec.two_step = 6;
    n.n_stages = 1;
    n.stages[0] = welford_stage(&f, "x0");
    n.body[0] = parse(&f, "(x0 - x4) / sqrt(x5 / x3) * x1 + x2");
    double r = sqrt(2.5);
    EXPECT(&f, add(&f, n), -2 / r, -1 / r, 100 + 2 / r, 100 + 4 / r, -1, -1, 102, 102);
}

/* Stages of one and of several states, an index, and rows along the first axis: a softmax of x - i, shifted by its
 * log-sum-exp, and the row's length. */
static void test_row_stages(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 1, 3, 2, 3, 4, 5);
    node n = with_indices(node_of(&f, OP_ROW, "i=3 r=2", VALUES(x), MAPS("i r"), MAPS("i r")), 1, (int[]){0});
    n.spec.two_step = 1;
    n.n_stages = 3;
    n.stages[0] = stage_of(&f, MERGE_MAX, parse(&f, "x0 - x1"));
    n.stages[1] = stage_of(&f, MERGE_LOGSUMEXP, parse(&f, "x0 - x1"));
    n.stages[1].body[1] = parse(&f, "1");
    merge *count;
    ok(ein__merge_make(&f.g.arena, MERGE_SUM, 1, EIN_I64, &count));
    n.stages[2] = (row_stage){count, {parse(&f, "1")}};
    /* x2: maximum; x3, x4: m and s; x5: count. */
    n.body[0] = parse(&f, "exp(x0 - x1 - x2) / x4 + (x3 - x2) + 10 * x5");
    /* Differences 1, 1, 2 and 3, 2, 3. */
    double p = 1 + 2 * exp(-1), q = 2 + exp(-1);
    EXPECT(&f, add(&f, n), 30 + exp(-1) / p, 30 + 1 / q, 30 + exp(-1) / p, 30 + exp(-1) / q, 30 + 1 / p, 30 + 1 / q);
}

/* Each row's integers are compared with its own maximum: more than one thread, exact in f32. */
static void test_row_integers(void **state)
{
    (void)state;
    fixture f = {.threads = 3};
    i64 numbers[40];
    double want[40];
    for (i64 i = 0; i < 40; i++) {
        numbers[i] = (1ll << 40) + (i * 7 % 4 == 3) + i / 4;
        want[i] = i * 7 % 4 == 3;
    }
    value x = leaf_of(&f, EIN_I64, 40, numbers);
    node n = node_of(&f, OP_ROW, "r=10 i=4", VALUES(x), MAPS("r i"), MAPS("r i"));
    merge *m;
    ok(ein__merge_make(&f.g.arena, MERGE_MAX, 1, EIN_I64, &m));
    n.spec.two_step = 2;
    n.n_stages = 1;
    n.stages[0] = (row_stage){m, {parse(&f, "x0")}};
    n.body[0] = parse(&f, "x0 == x1");
    out(&f, typed(&f, EIN_BOOL, add(&f, n)));
    expect_n(&f, 40, want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arange), cmocka_unit_test(test_indices), cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_windows), cmocka_unit_test(test_argmax), cmocka_unit_test(test_logsumexp),
        cmocka_unit_test(test_welford), cmocka_unit_test(test_results), cmocka_unit_test(test_empty),
        cmocka_unit_test(test_row_welford), cmocka_unit_test(test_row_stages),
        cmocka_unit_test(test_row_integers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
