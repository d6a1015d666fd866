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
    assert_int_equal(ein__merge_make(a, kind, scale, EIN_F32, &m), EIN_OK);
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
    join(made(&a, MERGE_PROD, 1.0), &three, &four, &r);
    assert_true(r == 12.0);
    ein__arena_free(&a);
}

/* Joining with nothing changes nothing, at the ends of the range too. */
static void identities(void **state)
{
    static const double values[] = {0.0, -1.5, 3.4e38, -3.4e38, INFINITY, -INFINITY, NAN};
    arena a = {NULL};
    (void)state;
    for (int k = 0; k < 4; k++) {
        const merge_kind kind = (merge_kind[]){MERGE_SUM, MERGE_MAX, MERGE_MIN, MERGE_PROD}[k];
        merge *m = made(&a, kind, 1.0);
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

/* ---- states of several types -------------------------------------------------------------------------- */

/* out = a joined with b as a kernel would, each state in its type; out may be a. */
static void join_typed(const merge *m, const expr_value *a, const expr_value *b, expr_value *out)
{
    expr_value both[2 * MAX_STATES], result[MAX_STATES];
    ein_dtype types[2 * MAX_STATES];
    for (int i = 0; i < m->n_states; i++) {
        both[i] = a[i];
        both[m->n_states + i] = b[i];
        types[i] = types[m->n_states + i] = m->compute[i];
    }
    for (int i = 0; i < m->n_states; i++) result[i] = ein__expr_eval_typed(&m->combine[i], both, types, m->compute[i]);
    memcpy(out, result, (size_t)m->n_states * sizeof *out);
}

static void start_typed(const merge *m, expr_value *out)
{
    for (int i = 0; i < m->n_states; i++) {
        if (m->compute[i] == EIN_I64) ein__dtype_write(EIN_I64, m->identity[i], &out[i].i);
        else out[i].f = m->compute[i] == EIN_F32 ? (double)(float)m->identity[i] : m->identity[i];
    }
}

/* By scanning: NaN first, then the best, then the lowest index. */
static i64 best_index(const double *values, int n, bool largest)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (!isnan(values[best]) && (isnan(values[i]) || (largest ? values[i] > values[best] : values[i] < values[best])))
            best = i;
    return best;
}

/* Parts [0, i), [i, j), [j, n), empty ones too, in both orders of joining; a part is folded from its end, so that
 * an order of indices does not help. */
static void check_arg(const merge *m, const double *values, int n, i64 want)
{
    for (int i = 0; i <= n; i++)
        for (int j = i; j <= n; j++) {
            const int from[] = {0, i, j, n};
            expr_value part[3][MAX_STATES], left[MAX_STATES], right[MAX_STATES];
            for (int k = 0; k < 3; k++) {
                start_typed(m, part[k]);
                for (int at = from[k + 1] - 1; at >= from[k]; at--) {
                    expr_value point[MAX_STATES] = {{.f = values[at]}, {.i = at}};
                    if (m->compute[0] == EIN_I64) point[0].i = (i64)values[at];
                    join_typed(m, part[k], point, part[k]);
                }
            }
            join_typed(m, part[2], part[0], left);
            join_typed(m, left, part[1], left);
            join_typed(m, part[1], part[2], right);
            join_typed(m, part[0], right, right);
            assert_int_equal(left[1].i, want);
            assert_int_equal(right[1].i, want);
            ein_dtype types[2] = {m->compute[0], m->compute[1]};
            assert_int_equal(ein__expr_eval_typed(&m->finalize[0], left, types, EIN_I64).i, want);
        }
}

static void indices_of_extremes(void **state)
{
    static const double rows[][6] = {{1, 3, 2, 3, -1, -1}, {5, 5, 5, 5, 5, 5}, {1, NAN, 9, NAN, -9, 0},
        {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY},
        {INFINITY, 2, INFINITY, -INFINITY, 0, -INFINITY}, {-0.0, 0.0, -0.0, 0.0, -0.0, 0.0},
        {INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY}, {2, 1, 2, 0.5, 0.25, NAN}};
    static const double whole[] = {-3, -0x1p63, 7, -0x1p63, 7, 0};
    arena a = {NULL};
    (void)state;
    for (int largest = 0; largest < 2; largest++) {
        const merge_kind kind = largest ? MERGE_ARGMAX : MERGE_ARGMIN;
        merge *f32 = NULL, *f64 = NULL, *i64s = NULL;
        assert_int_equal(ein__merge_make(&a, kind, 1, EIN_F32, &f32), EIN_OK);
        assert_int_equal(ein__merge_make(&a, kind, 1, EIN_F64, &f64), EIN_OK);
        assert_int_equal(ein__merge_make(&a, kind, 1, EIN_I32, &i64s), EIN_OK);
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            check_arg(f32, rows[r], 6, best_index(rows[r], 6, largest));
            check_arg(f64, rows[r], 6, best_index(rows[r], 6, largest));
        }
        check_arg(i64s, whole, 6, largest ? 2 : 1);
    }
    ein__arena_free(&a);
}

/* The state of n points, joined one by one in float. */
static void fold(const merge *m, const float *x, int n, bool moments, float *out)
{
    for (int k = 0; k < m->n_states; k++) out[k] = (float)m->identity[k];
    for (int i = 0; i < n; i++) {
        float both[2 * MAX_STATES] = {0}, *point = both + m->n_states, next[MAX_STATES];
        memcpy(both, out, (size_t)m->n_states * sizeof *out);
        point[0] = moments ? 1.0f : x[i];
        point[1] = moments ? x[i] : 1.0f;
        for (int k = 0; k < m->n_states; k++) next[k] = ein__expr_eval_f32(&m->combine[k], both);
        memcpy(out, next, (size_t)m->n_states * sizeof *out);
    }
}

static void join_floats(const merge *m, const float *a, const float *b, float *out)
{
    float both[2 * MAX_STATES], next[MAX_STATES];
    memcpy(both, a, (size_t)m->n_states * sizeof *a);
    memcpy(both + m->n_states, b, (size_t)m->n_states * sizeof *b);
    for (int k = 0; k < m->n_states; k++) next[k] = ein__expr_eval_f32(&m->combine[k], both);
    memcpy(out, next, (size_t)m->n_states * sizeof *out);
}

static void logs_of_sums(void **state)
{
    static const float low[] = {-INFINITY, -INFINITY, -INFINITY}, high[] = {1.0f, INFINITY, -INFINITY},
                       wrong[] = {1.0f, NAN, INFINITY}, far[] = {1000.0f, 1001.0f, -1000.0f},
                       least[] = {-3e38f, -3e38f, -INFINITY}, some[] = {0.5f, -INFINITY, 2.0f};
    static const struct { const float *x; double want; } cases[] = {
        {low, -INFINITY}, {high, INFINITY}, {wrong, NAN}, {far, 1001.3132616875182}, {least, -3e38},
        {some, 2.2014132779827524}};
    arena a = {NULL};
    (void)state;
    merge *m = made(&a, MERGE_LOGSUMEXP, 1.0);
    assert_true(m->n_states == 2 && m->n_results == 1);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int cut = 0; cut <= 3; cut++) {
            float left[2], right[2];
            fold(m, cases[c].x, cut, false, left);
            fold(m, cases[c].x + cut, 3 - cut, false, right);
            join_floats(m, left, right, left);
            const double got = (double)ein__expr_eval_f32(&m->finalize[0], left), want = cases[c].want;
            if (!isfinite(want)) assert_true(isnan(want) ? isnan(got) != 0 : got == want);
            else assert_true(fabs(got - want) < 1e-6 * fabs(want));
        }
    float none[2] = {(float)m->identity[0], (float)m->identity[1]};
    join_floats(m, none, none, none);
    assert_true(ein__expr_eval_f32(&m->finalize[0], none) == -INFINITY);
    ein__arena_free(&a);
}

/* Mean and squared distances of any two parts, against two passes in f64; values far from 0, where sums of squares
 * would cancel. */
static void welford(void **state)
{
    enum { N = 40 };
    arena a = {NULL};
    float x[N];
    double mean = 0, squares = 0;
    (void)state;
    merge *m = made(&a, MERGE_WELFORD, 1.0);
    assert_true(m->n_states == 3 && m->n_results == 3 && m->finalize[0].n == 0);
    for (int i = 0; i < N; i++) x[i] = 4096.0f + (float)(i * 37 % 64) / 16.0f;
    for (int i = 0; i < N; i++) mean += (double)x[i] / N;
    for (int i = 0; i < N; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    for (int cut = 0; cut <= N; cut++) {
        float left[3], right[3];
        fold(m, x, cut, true, left);
        fold(m, x + cut, N - cut, true, right);
        join_floats(m, left, right, left);
        assert_true(left[0] == (float)N);
        assert_true(fabs((double)left[1] - mean) < 1e-6 * mean);
        assert_true(fabs((double)left[2] - squares) < 2e-3 * squares);
    }
    float none[3] = {0};
    join_floats(m, none, none, none);
    assert_true(none[0] == 0 && none[1] == 0 && none[2] == 0);
    ein__arena_free(&a);
}

static void types_of_states(void **state)
{
    static const ein_dtype every[] = {EIN_F32, EIN_F64, EIN_BF16, EIN_F16, EIN_I8, EIN_I32, EIN_I64, EIN_BOOL};
    static const ein_dtype computed[] = {EIN_F32, EIN_F64, EIN_F32, EIN_F32, EIN_I64, EIN_I64, EIN_I64, EIN_I64};
    arena a = {NULL};
    (void)state;
    for (int kind = MERGE_SUM; kind <= MERGE_WELFORD; kind++)
        for (int t = 0; t < 8; t++) {
            const bool plain = kind == MERGE_SUM || kind == MERGE_MAX || kind == MERGE_MIN || kind == MERGE_PROD;
            const bool index = kind == MERGE_ARGMAX || kind == MERGE_ARGMIN;
            merge *m = NULL;
            assert_int_equal(ein__merge_make(&a, (merge_kind)kind, 1.0, every[t], &m), EIN_OK);
            for (int i = 0; i < m->n_states; i++) {
                const ein_dtype want = index && i == 1 ? EIN_I64 : computed[t];
                assert_int_equal(m->compute[i], want);
                assert_int_equal(m->wire[i], plain ? every[t] : want);
                assert_int_equal(ein__dtype_compute(m->wire[i]), want);
            }
        }
    ein__arena_free(&a);
}

static i64 combined(const merge *m, i64 a, i64 b)
{
    const ein_dtype types[] = {EIN_I64, EIN_I64};
    return ein__expr_eval_typed(&m->combine[0], (expr_value[]){{.i = a}, {.i = b}}, types, EIN_I64).i;
}

/* Sums and extremes of integers are exact and wrap; a mean of them is a float. */
static void integers(void **state)
{
    arena a = {NULL};
    merge *sum = NULL, *max = NULL, *mean = NULL;
    (void)state;
    assert_int_equal(ein__merge_make(&a, MERGE_SUM, 1.0, EIN_I64, &sum), EIN_OK);
    assert_int_equal(ein__merge_make(&a, MERGE_MAX, 1.0, EIN_I64, &max), EIN_OK);
    assert_int_equal(ein__merge_make(&a, MERGE_SUM, 0.25, EIN_I64, &mean), EIN_OK);
    assert_int_equal(combined(sum, INT64_MAX, 2), INT64_MIN + 1);
    expr_value least[1];
    start_typed(max, least);
    assert_int_equal(least[0].i, INT64_MIN);
    assert_int_equal(combined(max, INT64_MAX - 1, INT64_MAX), INT64_MAX);
    assert_int_equal(ein__expr_type(&mean->finalize[0], mean->compute), EIN_F32);
    const expr_value ten[1] = {{.i = 10}};
    assert_true(ein__expr_eval_typed(&mean->finalize[0], ten, mean->compute, EIN_F32).f == 2.5);
    ein__arena_free(&a);
}

static void keys_tell_apart(void **state)
{
    static const struct { merge_kind kind; double scale; ein_dtype dtype; } cases[] = {
        {MERGE_SUM, 1.0, EIN_F32}, {MERGE_SUM, 0.5, EIN_F32}, {MERGE_SUM, 0.25, EIN_F32}, {MERGE_MAX, 1.0, EIN_F32},
        {MERGE_MIN, 1.0, EIN_F32}, {MERGE_SOFTMAX, 1.0, EIN_F32}, {MERGE_SOFTMAX_STATE, 1.0, EIN_F32},
        {MERGE_PROD, 1.0, EIN_F32}, {MERGE_ARGMAX, 1.0, EIN_F32}, {MERGE_ARGMIN, 1.0, EIN_F32},
        {MERGE_LOGSUMEXP, 1.0, EIN_F32}, {MERGE_WELFORD, 1.0, EIN_F32}, {MERGE_SUM, 1.0, EIN_F64},
        {MERGE_SUM, 1.0, EIN_BF16}, {MERGE_SUM, 1.0, EIN_I64}, {MERGE_SUM, 1.0, EIN_I8}, {MERGE_ARGMAX, 1.0, EIN_F64}};
    enum { N = sizeof cases / sizeof *cases };
    arena a = {NULL};
    text keys[N] = {{0}};
    (void)state;
    for (int i = 0; i < N; i++) {
        merge *m = NULL;
        assert_int_equal(ein__merge_make(&a, cases[i].kind, cases[i].scale, cases[i].dtype, &m), EIN_OK);
        ein__merge_key(m, &keys[i]);
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
        assert_int_equal(ein__merge_make(&a, cases[i].kind, 1, cases[i].dtype, &m), EIN_OK);
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
            s = ein__merge_make(&a, (merge_kind)kind, 0.5, EIN_F32, &m);
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
        cmocka_unit_test(softmax_in_float), cmocka_unit_test(indices_of_extremes),
        cmocka_unit_test(logs_of_sums), cmocka_unit_test(welford), cmocka_unit_test(types_of_states),
        cmocka_unit_test(integers), cmocka_unit_test(keys_tell_apart),
        cmocka_unit_test(typed_identities), cmocka_unit_test(logsumexp_by_hand),
        cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
