/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/tensor/merge.h"

static merge *made(arena *a, merge_kind kind, double scale)
{
    merge *m = NULL;
    assert_int_equal(ein__merge_make(a, kind, scale, &m), EIN_OK);
    return m;
}

/* out = a joined with b; out may be a. */
static void join(const merge *m, const double *a, const double *b, double *out)
{
    double both[2 * MAX_STATES], result[MAX_STATES];
    memcpy(both, a, (size_t)m->n_states * sizeof *a);
    memcpy(both + m->n_states, b, (size_t)m->n_states * sizeof *b);
    for (int i = 0; i < m->n_states; i++) result[i] = ein__expr_eval(&m->combine[i], both);
    memcpy(out, result, (size_t)m->n_states * sizeof *out);
}

static double finished(const merge *m, const double *states)
{
    return m->finalize[0].n > 0 ? ein__expr_eval(&m->finalize[0], states) : states[0];
}

static void plain_merges(void **state)
{
    arena a = {NULL};
    (void)state;
    merge *sum = made(&a, MERGE_SUM, 1.0), *mean = made(&a, MERGE_SUM, 0.25);
    merge *max = made(&a, MERGE_MAX, 1.0), *min = made(&a, MERGE_MIN, 1.0);
    double three = 3.0, four = 4.0, r;
    join(sum, &three, &four, &r);
    assert_true(r == 7.0 && finished(sum, &r) == 7.0 && finished(mean, &r) == 1.75);
    assert_true(sum->n_states == 1 && sum->n_results == 1 && sum->finalize[0].n == 0);
    join(max, &three, &four, &r);
    assert_true(r == 4.0);
    join(min, &three, &four, &r);
    assert_true(r == 3.0);
    ein__arena_free(&a);
}

/* Joining with nothing changes nothing, at the ends of the range too. */
static void identities(void **state)
{
    static const double values[] = {0.0, -1.5, 3.4e38, -3.4e38, INFINITY, -INFINITY, NAN};
    arena a = {NULL};
    (void)state;
    for (int kind = MERGE_SUM; kind <= MERGE_MIN; kind++) {
        merge *m = made(&a, (merge_kind)kind, 1.0);
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            double left, right;
            join(m, &values[i], m->identity, &left);
            join(m, m->identity, &values[i], &right);
            assert_true(isnan(values[i]) ? isnan(left) && isnan(right)
                                         : left == values[i] && right == values[i]);
        }
    }
    ein__arena_free(&a);
}

/* The state of n scores and values, as a kernel would leave it. */
static void softmax_state(int n, const double *scores, const double *values, double *out)
{
    out[0] = EIN__LOWEST;
    out[1] = out[2] = 0.0;
    for (int i = 0; i < n; i++) out[0] = isnan(scores[i]) || out[0] < scores[i] ? scores[i] : out[0];
    for (int i = 0; i < n; i++) {
        double p = exp(scores[i] - out[0]);
        out[1] += p;
        out[2] += p * values[i];
    }
}

static void softmax_by_hand(void **state)
{
    static const double left[] = {0.0, 1.0, 10.0}, right[] = {1.0, 1.0, 20.0};
    arena a = {NULL};
    double r[3];
    (void)state;
    merge *m = made(&a, MERGE_SOFTMAX, 1.0);
    assert_true(m->n_states == 3 && m->n_results == 1);
    join(m, left, right, r);
    assert_true(r[0] == 1.0);
    assert_true(fabs(r[1] - 1.3678794411714423) < 1e-15);
    assert_true(fabs(r[2] - 23.678794411714424) < 1e-14);
    assert_true(fabs(finished(m, r) - 17.310585786300049) < 1e-13);
    ein__arena_free(&a);
}

static void softmax_any_split(void **state)
{
    static const double scores[] = {3.0, -700.0, 12.5, 12.5, -INFINITY, 690.0, 689.0, 0.0};
    static const double values[] = {1.0, 2.0, -3.0, 4.0, 5.0, -6.0, 7.0, 8.0};
    arena a = {NULL};
    double whole[3], x[3], y[3], z[3], left[3], right[3];
    (void)state;
    merge *m = made(&a, MERGE_SOFTMAX, 1.0);
    softmax_state(8, scores, values, whole);
    for (int i = 0; i <= 8; i++) {
        for (int j = i; j <= 8; j++) { /* empty parts among them */
            softmax_state(i, scores, values, x);
            softmax_state(j - i, scores + i, values + i, y);
            softmax_state(8 - j, scores + j, values + j, z);
            join(m, x, y, left);
            join(m, left, z, left);
            join(m, y, z, right);
            join(m, x, right, right);
            assert_true(left[0] == whole[0] && right[0] == whole[0]);
            assert_true(fabs(finished(m, left) - finished(m, whole)) < 1e-12);
            assert_true(fabs(finished(m, right) - finished(m, whole)) < 1e-12);
        }
    }
    ein__arena_free(&a);
}

static void softmax_of_nothing(void **state)
{
    static const double unseen[] = {-INFINITY, -INFINITY}, ones[] = {1.0, 1.0};
    arena a = {NULL};
    double r[3], s[3], poisoned[3];
    (void)state;
    merge *m = made(&a, MERGE_SOFTMAX, 1.0);
    join(m, m->identity, m->identity, r);
    assert_true(r[0] == EIN__LOWEST && r[1] == 0.0 && r[2] == 0.0 && finished(m, r) == 0.0);
    softmax_state(2, unseen, ones, s);
    join(m, s, r, r);
    assert_true(r[0] == EIN__LOWEST && r[1] == 0.0 && finished(m, r) == 0.0);
    softmax_state(1, (double[]){NAN}, ones, poisoned);
    join(m, r, poisoned, s);
    assert_true(isnan(s[0]) && isnan(finished(m, s)));
    softmax_state(1, (double[]){INFINITY}, ones, poisoned); /* inf - inf, as everywhere */
    join(m, r, poisoned, s);
    assert_true(s[0] == INFINITY && isnan(finished(m, s)));
    ein__arena_free(&a);
}

/* In float the finite lowest score is representable, and its distance to any score is not NaN. */
static void softmax_in_float(void **state)
{
    static const float args[] = {(float)EIN__LOWEST, 0.0f, 0.0f, 3e38f, 1.0f, 2.0f};
    static const float far[] = {-3e38f, 1.0f, 5.0f, 3e38f, 1.0f, 2.0f};
    arena a = {NULL};
    (void)state;
    merge *m = made(&a, MERGE_SOFTMAX_STATE, 1.0);
    assert_int_equal(m->n_results, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(m->finalize[i].n, 0);
        assert_true(ein__expr_eval_f32(&m->combine[i], args) == args[3 + i]);
        assert_true(ein__expr_eval_f32(&m->combine[i], far) == far[3 + i]);
    }
    ein__arena_free(&a);
}

static void keys_tell_apart(void **state)
{
    static const struct { merge_kind kind; double scale; } cases[] = {
        {MERGE_SUM, 1.0}, {MERGE_SUM, 0.5}, {MERGE_SUM, 0.25}, {MERGE_MAX, 1.0}, {MERGE_MIN, 1.0},
        {MERGE_SOFTMAX, 1.0}, {MERGE_SOFTMAX_STATE, 1.0}};
    enum { N = sizeof cases / sizeof *cases };
    arena a = {NULL};
    text keys[N] = {{0}};
    (void)state;
    for (int i = 0; i < N; i++) {
        ein__merge_key(made(&a, cases[i].kind, cases[i].scale), &keys[i]);
        assert_true(keys[i].n > 0);
        for (int j = 0; j < i; j++)
            assert_false(keys[i].n == keys[j].n && memcmp(keys[i].bytes, keys[j].bytes, keys[i].n) == 0);
    }
    for (int i = 0; i < N; i++) ein__text_free(&keys[i]);
    ein__arena_free(&a);
}

/* What partials hold before anything is joined to them fits the type that they are stored in. */
static void typed_identities(void **state)
{
    static const struct { merge_kind kind; ein_dtype dtype; double identity; } cases[] = {
        {MERGE_MAX, EIN_I8, -128}, {MERGE_MIN, EIN_I8, 127}, {MERGE_MAX, EIN_I32, -2147483648.0},
        {MERGE_MIN, EIN_I32, 2147483647}, {MERGE_MAX, EIN_I64, -INFINITY}, {MERGE_MIN, EIN_I64, INFINITY},
        {MERGE_MAX, EIN_BOOL, 0}, {MERGE_MIN, EIN_BOOL, 1}, {MERGE_MAX, EIN_BF16, -INFINITY},
        {MERGE_SUM, EIN_I8, 0}, {MERGE_PROD, EIN_BOOL, 1}, {MERGE_ARGMAX, EIN_I8, -INFINITY},
        {MERGE_LOGSUMEXP, EIN_F16, -(double)FLT_MAX}, {MERGE_LOGSUMEXP, EIN_F64, -DBL_MAX}};
    arena a = {NULL};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        merge *m = NULL;
        assert_int_equal(ein__merge_make_typed(&a, cases[i].kind, 1, cases[i].dtype, &m), EIN_OK);
        assert_true(m->identity[0] == cases[i].identity);
    }
    ein__arena_free(&a);
}

/* The smallest float there is, a mask of many models, is not lost below the identity. */
static void logsumexp_by_hand(void **state)
{
    static const double rows[][3] = {{0, 1, 2}, {-FLT_MAX, -FLT_MAX, -INFINITY}, {-INFINITY, -INFINITY, -INFINITY},
                                     {1, INFINITY, 2}, {1000, 1000, 1000}};
    const double expected[] = {2 + log(1 + exp(-1) + exp(-2)), -FLT_MAX, -INFINITY, INFINITY, 1000 + log(3)};
    arena a = {NULL};
    (void)state;
    merge *m = made(&a, MERGE_LOGSUMEXP, 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double states[MAX_STATES] = {m->identity[0], m->identity[1]};
        for (int k = 0; k < 3; k++) join(m, states, (double[MAX_STATES]){rows[i][k], 1}, states);
        double y = finished(m, states);
        assert_true(y == expected[i] || fabs(y - expected[i]) < 1e-12 * fabs(expected[i]));
    }
    ein__arena_free(&a);
}

static void out_of_memory(void **state)
{
    (void)state;
    for (int kind = MERGE_SUM; kind <= MERGE_WELFORD; kind++) {
        long before = ein__alloc_live(), n = 0;
        ein_status s;
        do {
            arena a = {NULL};
            merge *m = NULL;
            ein__alloc_fail_at(++n);
            s = ein__merge_make(&a, (merge_kind)kind, 0.5, &m);
            ein__alloc_fail_at(0);
            ein__arena_free(&a);
            assert_true(s == EIN_OK || s == EIN_NO_MEMORY);
            assert_int_equal(ein__alloc_live(), before);
        } while (s != EIN_OK);
        assert_true(n > 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_merges), cmocka_unit_test(identities), cmocka_unit_test(softmax_by_hand),
        cmocka_unit_test(softmax_any_split), cmocka_unit_test(softmax_of_nothing),
        cmocka_unit_test(softmax_in_float), cmocka_unit_test(keys_tell_apart),
        cmocka_unit_test(typed_identities), cmocka_unit_test(logsumexp_by_hand),
        cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
