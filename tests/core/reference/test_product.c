/* SPDX-License-Identifier: Apache-2.0 */
/* The fast paths of products and attention against plain loops and values worked out by hand. */
#include "tests/core/reference/fixture.h"

static uint32_t next(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

static float *random_floats(uint32_t *seed, i64 n)
{
    float *x = ein__calloc((size_t)n, sizeof *x);
    for (i64 i = 0; i < n; i++) x[i] = (float)next(seed) / (1 << 23) - 1;
    return x;
}

/* ---- products ---- */

/* Extents of labels a b m o n p k l; maps of operands and result name all classes twice. */
static void check_product(const int *e, const char *x_map, const char *y_map, const char *result,
                          uint32_t *seed)
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
    float *data[2] = {random_floats(seed, numel[0]), random_floats(seed, numel[1])};
    double *got[6];
    for (int i = 0; i < 6; i++) got[i] = ein__calloc((size_t)points, sizeof *got[i]);
    fixture f = {0};
    value x = leaf_of(&f, EIN_F32, numel[0], data[0]), y = leaf_of(&f, EIN_F32, numel[1], data[1]);
    out(&f, map_of(&f, labels, "x0 * x1", MERGE_SUM, 1, VALUES(x, y), MAPS(x_map, y_map), result));
    assert_true(f.g.nodes.items[0].product);
    for (int i = 0; i < 6; i++) {
        f.g.nodes.items[0].product = i < 4;
        f.threads = 1 + (i / 2) % 2;
        ok(evaluate(&f, i % 2 == 0 ? ein__reference_f64 : ein__reference_f32, &got[i]));
    }
    for (int i = 2; i < 6; i++) assert_memory_equal(got[i], got[i % 2], (size_t)points * sizeof *got[i]);
    for (int i = 0; i < 6; i++) ein__free(got[i]);
    ein__free(data[0]);
    ein__free(data[1]);
    done(&f);
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

/* ---- attention ---- */

static void test_attention_values(void **state)
{
    (void)state;
    /* Scores 0.5 * q k: 0 and 1; weights e^-1 and 1. */
    double w = exp(-1), l = 1 + w;
    attention_case c = {1, 1, 1, 2, 2, 1, 2, false, 0, -1};
    fixture f = {0};
    value q = FLOATS(&f, 2, 0), k = FLOATS(&f, 0, 1), v = FLOATS(&f, 1, 2, 3, 4);
    EXPECT(&f, add(&f, attention_node(&f, &c, VALUES(q, k, v), false)), (w + 3) / l, (2 * w + 4) / l, 2, 3);
    c.causal = true;
    f = (fixture){0};
    q = FLOATS(&f, 2, 0), k = FLOATS(&f, 0, 1), v = FLOATS(&f, 1, 2, 3, 4);
    EXPECT(&f, add(&f, attention_node(&f, &c, VALUES(q, k, v), false)), 1, 2, 2, 3);
    /* The first query sees nothing, the second one key. A NaN in a key that is not seen is not read. */
    c.position = -1;
    f = (fixture){0};
    q = FLOATS(&f, 2, 0), k = FLOATS(&f, 0, NAN), v = FLOATS(&f, 1, 2, NAN, NAN);
    EXPECT(&f, add(&f, attention_node(&f, &c, VALUES(q, k, v), false)), 0, 0, 1, 2);
    c = (attention_case){1, 1, 1, 2, 2, 1, 2, true, 0, 1};
    f = (fixture){0};
    q = FLOATS(&f, 2, 0), k = FLOATS(&f, 0, 1), v = FLOATS(&f, 1, 2, 3, 4);
    EXPECT(&f, add(&f, attention_node(&f, &c, VALUES(q, k, v), false)), 1, 2, 1, 2);
}

static void test_attention_partial(void **state)
{
    (void)state;
    double w = exp(-1), got[3][4];
    attention_case c = {1, 1, 2, 1, 2, 1, 2, true, 1, -1};
    fixture f = {0};
    value q = FLOATS(&f, 2, 0), k = FLOATS(&f, 0, 1), v = FLOATS(&f, 1, 2, 3, 4);
    value m = add(&f, attention_node(&f, &c, VALUES(q, k, v), true));
    for (int i = 0; i < 3; i++) out(&f, m + i);
    ok(evaluate(&f, ein__reference_f64, (double *[]){got[0], got[1], got[2]}));
    assert_true(got[0][0] == 1 && got[0][1] == 0);
    assert_true(got[1][0] == 1 + w && got[1][1] == 2);
    assert_true(got[2][0] == w + 3 && got[2][1] == 2 * w + 4 && got[2][2] == 4 && got[2][3] == 6);
    f.scalars[0] = -5;
    ok(evaluate(&f, ein__reference_f32, (double *[]){got[0], got[1], got[2]}));
    assert_true(got[0][0] == (double)-3e38f && got[1][0] == 0 && got[2][0] == 0 && got[2][3] == 0);
    done(&f);
}

/* The textbook loop, for one query. */
static void plain_attention(const attention_case *c, const float *q, const float *k, const float *v, int s,
                            double *o)
{
    double l = 0, top = -INFINITY;
    for (int pass = 0; pass < 2; pass++) {
        for (int t = 0; t < c->t; t++) {
            if ((c->causal && t > s + c->position) || (c->length >= 0 && t >= c->length)) continue;
            double score = 0;
            for (int d = 0; d < c->d; d++) score += (double)q[d] * (double)k[t * c->d + d];
            score *= 0.5;
            if (pass == 0) {
                top = score > top ? score : top;
                continue;
            }
            l += exp(score - top);
            for (int e = 0; e < c->e; e++) o[e] += exp(score - top) * (double)v[t * c->e + e];
        }
    }
    for (int e = 0; e < c->e; e++) o[e] = l == 0 ? 0 : o[e] / l;
}

static void check_attention(const attention_case *c, uint32_t *seed)
{
    i64 rows = c->b * c->h * c->g * c->s, heads = c->b * c->h, points = rows * c->e;
    float *q = random_floats(seed, rows * c->d), *k = random_floats(seed, heads * c->t * c->d);
    float *v = random_floats(seed, heads * c->t * c->e), *plain = ein__calloc((size_t)points, sizeof *plain);
    double *got[4], *want = ein__calloc((size_t)points, sizeof *want);
    for (int i = 0; i < 4; i++) got[i] = ein__calloc((size_t)points, sizeof *got[i]);
    for (i64 r = 0; r < rows; r++) {
        i64 head = r / (c->g * c->s);
        plain_attention(c, q + r * c->d, k + head * c->t * c->d, v + head * c->t * c->e, (int)(r % c->s),
                        want + r * c->e);
    }
    fixture f = {0};
    value x = leaf_of(&f, EIN_F32, rows * c->d, q), y = leaf_of(&f, EIN_F32, heads * c->t * c->d, k);
    value z = leaf_of(&f, EIN_F32, heads * c->t * c->e, v);
    out(&f, add(&f, attention_node(&f, c, VALUES(x, y, z), false)));
    for (int i = 0; i < 4; i++) {
        f.threads = 1 + i / 2;
        ok(evaluate(&f, i % 2 == 0 ? ein__reference_f64 : ein__reference_f32, &got[i]));
    }
    for (int i = 2; i < 4; i++) assert_memory_equal(got[i], got[i - 2], (size_t)points * sizeof *got[i]);
    for (i64 i = 0; i < points; i++) {
        assert_true(fabs(got[0][i] - want[i]) < 1e-13);
        assert_true(fabs(got[1][i] - want[i]) < 1e-5);
        plain[i] = (float)got[1][i];
    }
    const comparable how = {EIN_F32, EIN_F32, rows, c->e};
    assert_true(ein__compare(&how, plain, got[0], got[1], 1e-5).ok);
    for (int i = 0; i < 4; i++) ein__free(got[i]);
    void *all[] = {q, k, v, plain, want};
    for (int i = 0; i < 5; i++) ein__free(all[i]);
    done(&f);
}

static void test_attention_random(void **state)
{
    (void)state;
    uint32_t seed = 3;
    for (int i = 0; i < 60; i++) {
        static const int low[] = {1, 1, 1, 1, 0, 0, 1}, range[] = {2, 3, 3, 21, 140, 9, 11};
        int n[7];
        for (int l = 0; l < 7; l++) n[l] = low[l] + (int)(next(&seed) % (uint32_t)range[l]);
        attention_case c = {n[0], n[1], n[2], n[3], n[4], n[5], n[6], next(&seed) % 2 != 0, 0, -1};
        c.position = (i64)(next(&seed) % 80) - 20;
        if (next(&seed) % 3 != 0) c.length = next(&seed) % 60;
        check_attention(&c, &seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_product_paths), cmocka_unit_test(test_product_values),
        cmocka_unit_test(test_attention_values), cmocka_unit_test(test_attention_partial),
        cmocka_unit_test(test_attention_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
