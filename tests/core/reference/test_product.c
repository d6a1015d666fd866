/* SPDX-License-Identifier: Apache-2.0 */
/* The fast path of products against the plain one, and values worked out by hand. */
#include "tests/core/reference/fixture.h"

/* The only output, of a product, by both paths, in both precisions, with one and two threads: the same bits. */
static void check_paths(fixture *f, i64 points)
{
    double *got[8];
    assert_true(f->g.nodes.items[0].product);
    for (int i = 0; i < 8; i++) {
        got[i] = ein__calloc((size_t)points, sizeof *got[i]);
        f->g.nodes.items[0].product = i < 4;
        f->threads = 1 + (i / 2) % 2;
        ok(evaluate(f, i % 2 == 0 ? ein__reference_f64 : ein__reference_f32, &got[i]));
    }
    for (int i = 2; i < 8; i++) assert_memory_equal(got[i], got[i % 2], (size_t)points * sizeof *got[i]);
    for (int i = 0; i < 8; i++) ein__free(got[i]);
    done(f);
}

/* x has `numel[0]` elements, y `numel[1]`. */
static void check_random(const char *labels, const i64 *numel, const char *x_map, const char *y_map, i64 points,
                         const char *result, uint32_t *seed)
{
    float *data[2] = {random_floats(seed, numel[0]), random_floats(seed, numel[1])};
    fixture f = {0};
    value x = leaf_of(&f, EIN_F32, numel[0], data[0]), y = leaf_of(&f, EIN_F32, numel[1], data[1]);
    ein__free(data[0]);
    ein__free(data[1]);
    out(&f, map_of(&f, labels, "x0 * x1", MERGE_SUM, 1, VALUES(x, y), MAPS(x_map, y_map), result));
    check_paths(&f, points);
}

/* Extents of labels a b m o n p k l; maps of operands and result name all classes twice. */
static void check_product(const int *e, const char *x_map, const char *y_map, const char *result, uint32_t *seed)
{
    static const char names[] = "abmonpkl";
    char labels[128];
    i64 numel[2] = {1, 1}, points = 1;
    for (int i = 0, at = 0; i < 8; i++) {
        const char *gap = i > 0 ? " " : "";
        at += snprintf(labels + at, sizeof labels - (size_t)at, "%s%c=%d", gap, names[i], e[i]);
        if (strchr(x_map, names[i]) != NULL) numel[0] *= e[i];
        if (strchr(y_map, names[i]) != NULL) numel[1] *= e[i];
        if (strchr(result, names[i]) != NULL) points *= e[i];
    }
    check_random(labels, numel, x_map, y_map, points, result, seed);
}

/* Blocked and plain have the same bits, for any number of threads. */
static void test_product_paths(void **state)
{
    (void)state;
    uint32_t seed = 7;
    static const int sizes[] = {0, 1, 2, 3, 5, 1, 2, 3};
    for (int i = 0; i < 200; i++) {
        int e[8];
        for (int l = 0; l < 8; l++) e[l] = sizes[next(&seed) % 40 == 0 ? 0 : next(&seed) % 7 + 1];
        check_product(e, "a m k b o l", "l p b k n a", "o b n a p m", &seed);
        check_product(e, "k m a", "a n p k", "a b p m n", &seed);
        check_product(e, "m o k l", "l n", "m o n", &seed);
        check_product(e, "k l", "k l p n", "n p", &seed);
    }
    check_product((const int[]){2, 1, 131, 2, 67, 1, 259, 2}, "a m o k l", "n l k a", "a m o n", &seed);
    check_product((const int[]){1, 1, 1, 1, 70, 1, 600, 1}, "m k", "k n", "m n", &seed);
    check_product((const int[]){1, 1, 129, 1, 65, 1, 3, 1}, "k m", "n k", "n m", &seed);
}

/* By hand, so that both paths cannot be wrong alike; one operand is made of integers. */
static void test_product_values(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 1, 2, 3, 4, 5, 6), y = leaf_of(&f, EIN_I32, 6, (int32_t[]){1, 0, -1, 2, 1, 0});
    EXPECT(&f, map_of(&f, "m=2 n=2 k=3", "x0 * x1", MERGE_SUM, 1, VALUES(x, y), MAPS("m k", "n k"), "m n"),
           -2, 4, -2, 13);
}

/* Windows: strides, dilations, a reversed kernel, groups, two dimensions. */
static void test_convolution_paths(void **state)
{
    (void)state;
    uint32_t seed = 11;
    check_random("n=2 o=5 i=20 c=3 k=4", (i64[]){2 * 3 * 43, 60}, "n c 2*i+1*k+1<43", "o c k", 200, "n o i", &seed);
    check_random("o=9 i=7 c=4 k=3", (i64[]){4 * 13, 108}, "c 1*i+3*k<13", "o c k", 63, "o i", &seed);
    check_random("o=9 i=7 c=4 k=3", (i64[]){4 * 9, 108}, "c 1*i-1*k+2<9", "o c k", 63, "o i", &seed);
    check_random("g=3 o=2 i=5 j=6 c=2 k=3 l=2", (i64[]){6 * 11 * 7, 72}, "g c 2*i+1*k<11 1*j+1*l<7", "g o c k l",
                 180, "g o i j", &seed);
}

/* Leaves of narrow types are packed from their own. */
static void test_product_narrow(void **state)
{
    (void)state;
    uint32_t seed = 5;
    const ein_dtype types[] = {EIN_BF16, EIN_F16, EIN_F64, EIN_I8, EIN_BOOL};
    for (int t = 0; t < 5; t++) {
        double numbers[2][70];
        for (int i = 0; i < 140; i++) numbers[i / 70][i % 70] = (double)(int)(next(&seed) % 64) - 32;
        fixture f = {0};
        value x = numbers_of(&f, types[t], 70, numbers[0]), y = numbers_of(&f, EIN_BF16, 70, numbers[1]);
        out(&f, map_of(&f, "m=7 n=7 k=10", "x0 * x1", MERGE_SUM, 1, VALUES(x, y), MAPS("m k", "k n"), "m n"));
        double got[49];
        ok(evaluate(&f, ein__reference_f32, (double *[]){got}));
        for (int i = 0; i < 49; i++) {
            double sum = 0;
            for (int k = 0; k < 10; k++) {
                double a = numbers[0][i / 7 * 10 + k];
                sum += (types[t] == EIN_BOOL ? a != 0 : a) * numbers[1][k * 7 + i % 7];
            }
            assert_true(got[i] == sum);
        }
        check_paths(&f, 49);
    }
}

/* 2^31 - 1 and 2^20 + 1 are no f32, and the sum passes 2^32: i32 wraps. */
static void test_product_integers(void **state)
{
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        fixture f = {0};
        double got[2];
        value x = NUMBERS(&f, EIN_I32, 2147483647, 3, 1, -1), y = NUMBERS(&f, EIN_I8, 3, 2);
        node n = node_of(&f, OP_MAP, "m=2 k=2", VALUES(x, y), MAPS("m k", "k"), MAPS("m"));
        merge_by(&f, &n, MERGE_SUM, wide ? EIN_I64 : EIN_I32, (const char *[]){"x0 * x1"});
        n.product = true;
        out(&f, typed(&f, wide ? EIN_I64 : EIN_I32, add(&f, n)));
        ok(evaluate(&f, ein__reference_f32, (double *[]){got}));
        assert_true(got[0] == (wide ? 6442450947.0 : -2147483645.0));
        assert_true(got[1] == 1);
        check_paths(&f, 2);
    }
}

static void test_convolution_values(void **state)
{
    (void)state;
    fixture f = {0};
    value x = FLOATS(&f, 1, 2, 3, 4, 5, 6, 7), w = FLOATS(&f, 1, 10, 1, -1);
    /* Of x1.. in steps of 2: 2 and 3, 4 and 5, 6 and 7. */
    value y = map_of(&f, "o=2 i=3 k=2", "x0 * x1", MERGE_SUM, 1, VALUES(x, w), MAPS("2*i+1*k+1<7", "o k"), "o i");
    assert_true(f.g.nodes.items[0].product);
    EXPECT(&f, y, 32, 54, 76, -1, -1, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_product_paths), cmocka_unit_test(test_product_values),
        cmocka_unit_test(test_product_narrow), cmocka_unit_test(test_product_integers),
        cmocka_unit_test(test_convolution_paths), cmocka_unit_test(test_convolution_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
