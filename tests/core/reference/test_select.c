/* SPDX-License-Identifier: Apache-2.0 */
/* Picking elements: the k best of rows, and elements of a table by index. */
#include "tests/core/reference/fixture.h"

static value select_node(fixture *f, const char *labels, const value *operands, const char *const *maps,
                         const char *result, bool smallest)
{
    node n = node_of(f, OP_SELECT, labels, operands, maps, MAPS(result, result));
    n.select = (select_attrs){smallest, 1, 2};
    return add(f, n);
}

/* Evaluate both results, in both precisions. */
static void expect_picks(fixture *f, value first, int n, const double *values, const double *indices)
{
    double got[2][64];
    out(f, first);
    out(f, first + 1);
    for (int p = 0; p < 2; p++) {
        ok(evaluate(f, p == 0 ? ein__reference_f64 : ein__reference_f32, (double *[]){got[0], got[1]}));
        for (int i = 0; i < n; i++) {
            bool same = got[0][i] == values[i] || (isnan(got[0][i]) && isnan(values[i]));
            if (!same || got[1][i] != indices[i])
                fail_msg("element %d is %g of index %g, not %g of %g", i, got[0][i], got[1][i], values[i], indices[i]);
        }
    }
    done(f);
}

#define PICKS(f, v, values, ...)                                                                        \
    expect_picks((f), (v), (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), values, (double[]){__VA_ARGS__})
#define D(...) ((double[]){__VA_ARGS__})

static void test_order(void **state)
{
    (void)state;
    for (int smallest = 0; smallest < 2; smallest++) {
        fixture f = {0};
        value x = FLOATS(&f, 3, 1, 4, 1, 5, -9, -2, -9, 6, 6);
        value v = select_node(&f, "r=2 n=5 k=3", VALUES(x), MAPS("r n"), "r k", smallest != 0);
        if (smallest) PICKS(&f, v, D(1, 1, 3, -9, -9, -2), 1, 3, 0, 0, 2, 1);
        else PICKS(&f, v, D(5, 4, 3, 6, 6, -2), 4, 2, 0, 3, 4, 1);
    }
}

/* NaN is the largest, infinities are numbers, zeros of both signs are equal. */
static void test_not_finite(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 1, NAN, INFINITY, NAN, -INFINITY);
    PICKS(&f, select_node(&f, "r=1 n=5 k=5", VALUES(x), MAPS("r n"), "r k", false),
          D(NAN, NAN, INFINITY, 1, -INFINITY), 1, 3, 2, 0, 4);
    f = (fixture){0};
    x = FLOATS(&f, 1, NAN, INFINITY, NAN, -INFINITY);
    PICKS(&f, select_node(&f, "r=1 n=5 k=4", VALUES(x), MAPS("r n"), "r k", true), D(-INFINITY, 1, INFINITY, NAN), 4,
          0, 2, 1);
    f = (fixture){0};
    x = FLOATS(&f, -0.0f, 0, -0.0f);
    PICKS(&f, select_node(&f, "r=1 n=3 k=2", VALUES(x), MAPS("r n"), "r k", false), D(0, 0), 0, 1);
}

static void test_select_types(void **state)
{
    (void)state;
    fixture f = {0};
    value x = leaf_of(&f, EIN_I64, 3, (i64[]){1ll << 52, (1ll << 52) + 1, -(1ll << 52)});
    PICKS(&f, select_node(&f, "r=1 n=3 k=3", VALUES(x), MAPS("r n"), "r k", false),
          D(0x1p52 + 1, 0x1p52, -0x1p52), 1, 0, 2);
    const ein_dtype types[] = {EIN_F64, EIN_BF16, EIN_F16, EIN_I8, EIN_I32};
    for (int t = 0; t < 5; t++) {
        f = (fixture){0};
        x = NUMBERS(&f, types[t], 3, -4, 7);
        PICKS(&f, select_node(&f, "r=1 n=3 k=2", VALUES(x), MAPS("r n"), "r k", true), D(-4, 3), 1, 0);
    }
    f = (fixture){0};
    x = NUMBERS(&f, EIN_BOOL, 0, 1, 1);
    PICKS(&f, select_node(&f, "r=1 n=3 k=3", VALUES(x), MAPS("r n"), "r k", false), D(1, 1, 0), 1, 2, 0);
}

/* Along the first axis; elements that stand for other indices, by which ties are settled. */
static void test_given_indices(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 1, 6, 5, 6, 5, 2);
    PICKS(&f, select_node(&f, "r=2 n=3 k=2", VALUES(x), MAPS("n r"), "k r", false), D(5, 6, 5, 6), 1, 0, 2, 1);
    f = (fixture){0};
    x = FLOATS(&f, 1, 5, 5, 5);
    value i = NUMBERS(&f, EIN_I64, 40, 30, 10, 20);
    PICKS(&f, select_node(&f, "r=1 n=4 k=4", VALUES(x, i), MAPS("r n", "r n"), "r k", false), D(5, 5, 5, 1), 10, 20,
          30, 40);
}

/* An element's place is the number of elements before it. */
static void test_select_random(void **state)
{
    (void)state;
    enum { ROWS = 300, N = 40, K = 11 };
    uint32_t seed = 1;
    float *x = calloc(ROWS * N, sizeof *x);
    double *got[2] = {calloc(ROWS * K, sizeof **got), calloc(ROWS * K, sizeof **got)};
    for (int i = 0; i < ROWS * N; i++) x[i] = (float)(next(&seed) % 30);
    fixture f = {.threads = 3};
    value v = leaf_of(&f, EIN_F32, ROWS * N, x);
    value y = select_node(&f, "r=300 n=40 k=11", VALUES(v), MAPS("r n"), "r k", false);
    out(&f, y);
    out(&f, y + 1);
    ok(evaluate(&f, ein__reference_f32, got));
    for (int i = 0; i < ROWS * N; i++) {
        const float *row = x + i / N * N;
        int place = 0;
        for (int j = 0; j < N; j++) place += row[j] > row[i % N] || (row[j] == row[i % N] && j < i % N);
        if (place >= K) continue;
        assert_true(got[0][i / N * K + place] == (double)row[i % N] && got[1][i / N * K + place] == i % N);
    }
    free(x);
    free(got[0]);
    free(got[1]);
    done(&f);
}

/* ---- gather ---- */

static value gather_node(fixture *f, const char *labels, const value *operands, const char *ids, const char *table,
                         const char *result)
{
    return add(f, node_of(f, OP_GATHER, labels, operands, MAPS(ids, table), MAPS(result)));
}

static void test_gather_types(void **state)
{
    (void)state;
    const ein_dtype types[] = {EIN_F32, EIN_F64, EIN_BF16, EIN_F16, EIN_I8, EIN_I32, EIN_I64, EIN_BOOL};
    for (int t = 0; t < 8; t++) {
        fixture f = {0};
        value ids = NUMBERS(&f, EIN_I32, 2, 0), table = NUMBERS(&f, types[t], 0, 1, 1, 1, 1, 0);
        EXPECT(&f, gather_node(&f, "r=2 v=3 d=2", VALUES(ids, table), "r", "v d", "r d"), 1, 0, 0, 1);
    }
    fixture f = {0};
    value ids = NUMBERS(&f, EIN_I64, 1), table = leaf_of(&f, EIN_I64, 2, (i64[]){1, 16777217});
    EXPECT(&f, gather_node(&f, "r=1 v=2 d=1", VALUES(ids, table), "r", "v d", "r d"), 16777217);
}

static void test_gather_batch(void **state)
{
    (void)state;
    /* y[b, j] = x[b, index[b, j]]; then along the first axis, the batch behind. */
    fixture f = {0};
    value ids = NUMBERS(&f, EIN_I64, 2, 0, 1, 1), x = FLOATS(&f, 1, 2, 3, 4, 5, 6);
    EXPECT(&f, gather_node(&f, "j=2 v=3 d=1 b=2", VALUES(ids, x), "b j", "b v d", "b j d"), 3, 1, 5, 5);
    f = (fixture){0};
    ids = NUMBERS(&f, EIN_I64, 2, 0, 1, 1), x = FLOATS(&f, 1, 2, 3, 4, 5, 6);
    EXPECT(&f, gather_node(&f, "j=2 v=3 d=1 b=2", VALUES(ids, x), "j b", "v b d", "j b d"), 5, 2, 3, 4);
    /* index_select: every batch by the same ids. */
    f = (fixture){0};
    ids = NUMBERS(&f, EIN_I32, 2, 0), x = FLOATS(&f, 1, 2, 3, 4, 5, 6);
    EXPECT(&f, gather_node(&f, "j=2 v=3 d=1 b=2", VALUES(ids, x), "j", "b v d", "b j d"), 3, 1, 6, 4);
}

/* Given ids must be inside, also through moves; computed ones that are not find nothing. */
static void test_gather_outside(void **state)
{
    (void)state;
    fixture f = {0};
    value ids = NUMBERS(&f, EIN_I64, 1, 0, 0, -1), table = FLOATS(&f, 1, 2);
    value moved = add(&f, node_of(&f, OP_MOVE, "i=2 j=2", VALUES(ids), MAPS("i j"), MAPS("j i")));
    expect_failure(&f, gather_node(&f, "r=4 v=2 d=1", VALUES(moved, table), "r", "v d", "r d"), EIN_INVALID,
                   "op: id -1 at 3 is not in a table of 2 rows");
    f = (fixture){0};
    ids = NUMBERS(&f, EIN_I64, 0, 1, 2, 3), table = FLOATS(&f, 1, 2);
    value computed = typed(&f, EIN_I64, map_of(&f, "i=4", "x0 - 1", -1, 1, VALUES(ids), MAPS("i"), "i"));
    EXPECT(&f, gather_node(&f, "r=4 v=2 d=1", VALUES(computed, table), "r", "v d", "r d"), 0, 1, 2, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order), cmocka_unit_test(test_not_finite), cmocka_unit_test(test_select_types),
        cmocka_unit_test(test_given_indices), cmocka_unit_test(test_select_random),
        cmocka_unit_test(test_gather_types), cmocka_unit_test(test_gather_batch),
        cmocka_unit_test(test_gather_outside)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
