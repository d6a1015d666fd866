/* SPDX-License-Identifier: Apache-2.0 */
/* Attention against values worked out by hand and against the textbook loop. */
#include "tests/core/reference/fixture.h"

/* One head, two keys, head size 1, value size 2, as in most cases here; q is 2, 0. */
static attention_case small(int queries)
{
    return (attention_case){.b = 1, .h = 1, .g = 1, .s = queries, .t = 2, .d = 1, .e = 2, .length = -1};
}

static void test_values(void **state)
{
    (void)state;
    /* Scores 0.5 * q k: 0 and 1; weights e^-1 and 1. */
    double w = exp(-1), l = 1 + w;
    attention_case c = small(2);
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
    c.position = 0;
    c.length = 1;
    f = (fixture){0};
    q = FLOATS(&f, 2, 0), k = FLOATS(&f, 0, 1), v = FLOATS(&f, 1, 2, 3, 4);
    EXPECT(&f, add(&f, attention_node(&f, &c, VALUES(q, k, v), false)), 1, 2, 1, 2);
}

/* A key that is seen takes part, even if its score is -infinity. */
static void test_least_score(void **state)
{
    (void)state;
    attention_case c = small(1);
    fixture f = {0};
    value q = FLOATS(&f, 2), k = FLOATS(&f, -INFINITY, 1), v = FLOATS(&f, NAN, 2, 3, 4);
    EXPECT(&f, add(&f, attention_node(&f, &c, VALUES(q, k, v), false)), NAN, 4);
    f = (fixture){0};
    c.mask = "t";
    q = FLOATS(&f, 2), k = FLOATS(&f, -INFINITY, 1), v = FLOATS(&f, NAN, 2, 3, 4);
    value mask = NUMBERS(&f, EIN_BOOL, 0, 1);
    EXPECT(&f, add(&f, attention_node(&f, &c, VALUES(q, k, v, mask), false)), 3, 4);
}

static void test_partial(void **state)
{
    (void)state;
    double w = exp(-1), got[3][4];
    attention_case c = {1, 1, 2, 1, 2, 1, 2, true, 1, -1, 0, 0, NULL};
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

/* A bool mask, and what is masked must not be read: its keys and values are NaN. */
static void test_bool_mask(void **state)
{
    (void)state;
    attention_case c = small(3);
    fixture f = {0};
    c.mask = "s t";
    value q = FLOATS(&f, 2, 0, 1), k = FLOATS(&f, 0, 1), v = FLOATS(&f, 1, 2, 3, 4);
    value mask = NUMBERS(&f, EIN_BOOL, 0, 1, 1, 1, 0, 0);
    EXPECT(&f, add(&f, attention_node(&f, &c, VALUES(q, k, v, mask), false)), 3, 4, 2, 3, 0, 0);
    /* One row for all queries. */
    f = (fixture){0};
    c.mask = "t";
    q = FLOATS(&f, 2, 0, 1), k = FLOATS(&f, NAN, 1), v = FLOATS(&f, NAN, INFINITY, 3, 4);
    mask = NUMBERS(&f, EIN_BOOL, 0, 1);
    EXPECT(&f, add(&f, attention_node(&f, &c, VALUES(q, k, v, mask), false)), 3, 4, 3, 4, 3, 4);
    /* One number for all keys of a query, of a larger mask's second row. */
    f = (fixture){0};
    c.mask = "=1<2 s =0<1";
    q = FLOATS(&f, 2, 0, 1), k = FLOATS(&f, 0, 1), v = FLOATS(&f, 1, 2, 3, 4);
    mask = NUMBERS(&f, EIN_BOOL, 1, 1, 1, 0, 1, 0);
    EXPECT(&f, add(&f, attention_node(&f, &c, VALUES(q, k, v, mask), false)), 0, 0, 2, 3, 0, 0);
    /* The mask and causality both hold; a mask that was computed. */
    f = (fixture){0};
    c.mask = "s t";
    c.causal = true;
    q = FLOATS(&f, 2, 0, 1), k = FLOATS(&f, 0, 1), v = FLOATS(&f, 1, 2, 3, 4);
    value x = FLOATS(&f, 5, 5, 1, 7, -1, -1);
    mask = typed(&f, EIN_BOOL, map_of(&f, "i=6", "x0 > 2", -1, 1, VALUES(x), MAPS("i"), "i"));
    EXPECT(&f, add(&f, attention_node(&f, &c, VALUES(q, k, v, mask), false)), 1, 2, 3, 4, 0, 0);
}

static void test_float_mask(void **state)
{
    (void)state;
    /* Scores 0 and 1, to which 2 and -1 are added: 2 and 0. */
    double w = exp(-2), l = 1 + w;
    attention_case c = small(1);
    fixture f = {0};
    c.mask = "t";
    value q = FLOATS(&f, 2), k = FLOATS(&f, 0, 1), v = FLOATS(&f, 1, 2, 3, 4), mask = NUMBERS(&f, EIN_BF16, 2, -1);
    EXPECT(&f, add(&f, attention_node(&f, &c, VALUES(q, k, v, mask), false)), (1 + 3 * w) / l, (2 + 4 * w) / l);
    f = (fixture){0};
    q = FLOATS(&f, 2), k = FLOATS(&f, 0, NAN), v = FLOATS(&f, 1, 2, NAN, NAN);
    mask = FLOATS(&f, 5, -INFINITY);
    EXPECT(&f, add(&f, attention_node(&f, &c, VALUES(q, k, v, mask), false)), 1, 2);
    f = (fixture){0};
    q = FLOATS(&f, 2), k = FLOATS(&f, 0, 1), v = FLOATS(&f, 1, 2, 3, 4);
    mask = FLOATS(&f, -INFINITY, -INFINITY);
    EXPECT(&f, add(&f, attention_node(&f, &c, VALUES(q, k, v, mask), false)), 0, 0);
}

static void test_softcap(void **state)
{
    (void)state;
    /* Scores 0 and 1, of which 3 tanh(score / 3) is left; the mask comes after. */
    double w = exp(3 * tanh(1 / 3.0) - 2), l = 1 + w;
    attention_case c = small(1);
    fixture f = {0};
    c.mask = "t";
    c.softcap = 3;
    value q = FLOATS(&f, 2), k = FLOATS(&f, 0, 1), v = FLOATS(&f, 1, 2, 3, 4), mask = FLOATS(&f, 2, 0);
    EXPECT(&f, add(&f, attention_node(&f, &c, VALUES(q, k, v, mask), false)), (1 + 3 * w) / l, (2 + 4 * w) / l);
}

/* Each query sees itself and the key before; a key is its own value. */
static void test_window(void **state)
{
    (void)state;
    attention_case c = {1, 1, 1, 4, 4, 1, 1, true, 0, -1, 2, 0, NULL};
    fixture f = {0};
    value q = FLOATS(&f, 0, 0, 0, 0), k = FLOATS(&f, 1, 3, 7, 15);
    EXPECT(&f, add(&f, attention_node(&f, &c, VALUES(q, k, k), false)), 1, 2, 5, 11);
    /* Not causal: the window has no end. */
    c.causal = false;
    f = (fixture){0};
    q = FLOATS(&f, 0, 0, 0, 0), k = FLOATS(&f, NAN, 3, 7, 15);
    c.position = 2;
    EXPECT(&f, add(&f, attention_node(&f, &c, VALUES(q, k, k), false)), 25 / 3.0, 11, 15, 0);
    /* Positions at the ends of their type. */
    for (int side = 0; side < 2; side++) {
        f = (fixture){0};
        q = FLOATS(&f, 0, 0, 0, 0), k = FLOATS(&f, 1, 2, 3, 4);
        c.position = side == 0 ? INT64_MAX : INT64_MIN;
        c.window = side == 0 ? 2 : INT64_MAX;
        double all = side == 0 ? 0 : 2.5;
        EXPECT(&f, add(&f, attention_node(&f, &c, VALUES(q, k, k), false)), all, all, all, all);
    }
}

/* ---- random cases ---- */

typedef struct random_case {
    attention_case c;
    float *q, *k, *v, *mask; /* the mask: [b, h, g, s, t], [s, t] or [b, t], or NULL */
    ein_dtype mask_type;
} random_case;

static double mask_at(const random_case *r, int b, int h, int g, int s, int t)
{
    const attention_case *c = &r->c;
    if (strcmp(c->mask, "b t") == 0) return r->mask[b * c->t + t];
    if (strcmp(c->mask, "s t") == 0) return r->mask[s * c->t + t];
    return r->mask[(((b * c->h + h) * c->g + g) * c->s + s) * c->t + t];
}

static bool is_seen(const random_case *r, int s, int t, double mask)
{
    const attention_case *c = &r->c;
    i64 at = s + c->position;
    bool after = (c->causal && t > at) || (c->length >= 0 && t >= c->length);
    if (after || (c->window > 0 && t <= at - c->window)) return false;
    return c->mask == NULL || (r->mask_type == EIN_BOOL ? mask != 0 : mask != -INFINITY);
}

/* The textbook loop, for one query. */
static void plain_attention(const random_case *r, int b, int h, int g, int s, double *o)
{
    const attention_case *c = &r->c;
    double l = 0, top = -INFINITY;
    const float *q = r->q + (((b * c->h + h) * c->g + g) * c->s + s) * c->d;
    const float *k = r->k + (b * c->h + h) * c->t * c->d, *v = r->v + (b * c->h + h) * c->t * c->e;
    for (int pass = 0; pass < 2; pass++) {
        for (int t = 0; t < c->t; t++) {
            double mask = c->mask != NULL ? mask_at(r, b, h, g, s, t) : 0, score = 0;
            if (!is_seen(r, s, t, mask)) continue;
            for (int d = 0; d < c->d; d++) score += (double)q[d] * (double)k[t * c->d + d];
            score *= 0.5;
            if (c->softcap != 0) score = c->softcap * tanh(score / c->softcap);
            if (r->mask_type == EIN_F32) score += mask;
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

static i64 mask_numel(const attention_case *c)
{
    if (strcmp(c->mask, "b t") == 0) return c->b * c->t;
    return strcmp(c->mask, "s t") == 0 ? c->s * c->t : c->b * c->h * c->g * c->s * c->t;
}

static value mask_leaf(fixture *f, const random_case *r)
{
    i64 n = mask_numel(&r->c);
    char *stored = ein__calloc((size_t)n, 4);
    ein__dtype_convert(r->mask_type, stored, EIN_F32, r->mask, n);
    value v = leaf_of(f, r->mask_type, n, stored);
    ein__free(stored);
    return v;
}

static void compare_all(fixture *f, const random_case *r, i64 rows, const double *want)
{
    i64 points = rows * r->c.e;
    double *got[4];
    float *plain = ein__calloc((size_t)points, sizeof *plain);
    for (int i = 0; i < 4; i++) {
        got[i] = ein__calloc((size_t)points, sizeof *got[i]);
        f->threads = 1 + i / 2;
        ok(evaluate(f, i % 2 == 0 ? ein__reference_f64 : ein__reference_f32, &got[i]));
    }
    for (int i = 2; i < 4; i++) assert_memory_equal(got[i], got[i - 2], (size_t)points * sizeof *got[i]);
    for (i64 i = 0; i < points; i++) {
        assert_true(fabs(got[0][i] - want[i]) < 1e-13);
        assert_true(fabs(got[1][i] - want[i]) < 1e-5);
        plain[i] = (float)got[1][i];
    }
    const comparable how = {EIN_F32, EIN_F32, rows, r->c.e};
    assert_true(ein__compare(&how, plain, got[0], got[1], 1e-5).ok);
    for (int i = 0; i < 4; i++) ein__free(got[i]);
    ein__free(plain);
}

static void check_case(random_case *r, uint32_t *seed)
{
    const attention_case *c = &r->c;
    i64 rows = c->b * c->h * c->g * c->s, heads = c->b * c->h;
    r->q = random_floats(seed, rows * c->d);
    r->k = random_floats(seed, heads * c->t * c->d);
    r->v = random_floats(seed, heads * c->t * c->e);
    if (c->mask != NULL) {
        i64 n = mask_numel(c);
        r->mask = random_floats(seed, n);
        for (i64 i = 0; i < n; i++)
            if (next(seed) % 4 == 0) r->mask[i] = r->mask_type == EIN_BOOL ? 0 : -INFINITY;
    }
    double *want = ein__calloc((size_t)(rows * c->e), sizeof *want);
    for (int i = 0; i < rows; i++) {
        int s = i % c->s, g = i / c->s % c->g, h = i / c->s / c->g % c->h;
        plain_attention(r, i / c->s / c->g / c->h, h, g, s, want + i * c->e);
    }
    fixture f = {0};
    value operands[4] = {leaf_of(&f, EIN_F32, rows * c->d, r->q), leaf_of(&f, EIN_F32, heads * c->t * c->d, r->k),
                         leaf_of(&f, EIN_F32, heads * c->t * c->e, r->v)};
    if (c->mask != NULL) operands[3] = mask_leaf(&f, r);
    out(&f, add(&f, attention_node(&f, c, operands, false)));
    compare_all(&f, r, rows, want);
    void *all[] = {r->q, r->k, r->v, r->mask, want};
    for (int i = 0; i < 5; i++) ein__free(all[i]);
    done(&f);
}

static void test_random(void **state)
{
    (void)state;
    uint32_t seed = 3;
    for (int i = 0; i < 150; i++) {
        static const int low[] = {1, 1, 1, 1, 0, 0, 1}, range[] = {2, 3, 3, 21, 140, 9, 11};
        static const char *const masks[] = {NULL, NULL, "b h g s t", "s t", "b t"};
        int n[7];
        for (int l = 0; l < 7; l++) n[l] = low[l] + (int)(next(&seed) % (uint32_t)range[l]);
        random_case r = {.c = {n[0], n[1], n[2], n[3], n[4], n[5], n[6], next(&seed) % 2 != 0, 0, -1, 0, 0, NULL}};
        r.c.position = (i64)(next(&seed) % 80) - 20;
        if (next(&seed) % 3 != 0) r.c.length = next(&seed) % 60;
        if (next(&seed) % 3 == 0) r.c.window = 1 + next(&seed) % 40;
        if (next(&seed) % 3 == 0) r.c.softcap = 0.5 + next(&seed) % 3;
        r.c.mask = masks[next(&seed) % 5];
        r.mask_type = next(&seed) % 2 != 0 ? EIN_BOOL : EIN_F32;
        check_case(&r, &seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_least_score), cmocka_unit_test(test_partial),
        cmocka_unit_test(test_bool_mask),
        cmocka_unit_test(test_float_mask), cmocka_unit_test(test_softcap), cmocka_unit_test(test_window),
        cmocka_unit_test(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
