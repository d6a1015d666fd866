/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers, scatters, indices and routing from end to end, with results told here by loops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/trial_cut.h"

enum { B = 3, V = 5, C = 4, J = 6 };

#define SHAPE(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}

static ein_graph *new_graph(void)
{
    ein_graph *g = NULL;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    return g;
}

static ein_tensor result(ein_graph *g, const char *name, ein_tensor y)
{
    if (y.id == 0) fail_msg("%s: %s", name, ein_graph_error(g));
    ein_output(g, name, y);
    return y;
}

/* Steps through outputs, as they lie one after the other. */
static const void *next(const char **at, size_t n, size_t bytes)
{
    const void *here = *at;
    *at += (n * bytes + 15) / 16 * 16;
    return here;
}

static void expect_floats(const char *what, const char **at, int n, const float *want)
{
    const float *y = next(at, (size_t)n, sizeof *y);
    for (int i = 0; i < n; i++)
        if (fabsf(y[i] - want[i]) > 1e-6f * (1 + fabsf(want[i])))
            fail_msg("%s: element %d is %g, not %g", what, i, (double)y[i], (double)want[i]);
}

/* ---- gathers and scatters ---- */

static void check_gathers(const trial *t, const char *at)
{
    const float *x = trial_data(t, "x"), *source = trial_data(t, "source");
    const i64 *ids = trial_data(t, "ids"), *index = trial_data(t, "index");
    float want[B * J * C * V] = {0};
    for (int b = 0; b < B; b++)
        for (int j = 0; j < J; j++)
            for (int c = 0; c < C; c++) want[(b * J + j) * C + c] = x[(b * V + ids[j]) * C + c];
    expect_floats("index_select", &at, B * J * C, want);
    for (int b = 0; b < B; b++)
        for (int v = 0; v < V; v++)
            for (int j = 0; j < J; j++) want[(b * V + v) * J + j] = x[(b * V + v) * C + (ids[j] + 1) % C];
    expect_floats("index_select of the last axis", &at, B * V * J, want);
    for (int b = 0; b < B; b++)
        for (int j = 0; j < J; j++)
            for (int c = 0; c < C; c++)
                want[(b * J + j) * C + c] = x[(b * V + index[(b * J + j) * C + c]) * C + c];
    expect_floats("gather", &at, B * J * C, want);
    memcpy(want, x, B * V * C * sizeof *x);
    for (int b = 0; b < B; b++)
        for (int j = 0; j < J; j++)
            for (int c = 0; c < C; c++)
                want[(b * V + index[(b * J + j) * C + c]) * C + c] += source[(b * J + j) * C + c];
    expect_floats("scatter_add", &at, B * V * C, want);
    memset(want, 0, sizeof want);
    for (int j = 0; j < J; j++) want[j * V + ids[j]] = 1;
    expect_floats("one_hot", &at, J * V, want);
    const uint16_t *half = next(&at, J * C, 2), *table = trial_data(t, "half");
    for (int j = 0; j < J; j++) assert_memory_equal(half + j * C, table + ids[j] * C, C * 2);
    const int8_t *sums = next(&at, V, 1);
    for (int v = 0; v < V; v++) {
        int n = 10 * v;
        for (int j = 0; j < J; j++) n += ids[j] == v ? 100 : 0;
        assert_int_equal(sums[v], (int8_t)n); /* i8 wraps */
    }
}

static void gathers(void **state)
{
    (void)state;
    static const int8_t tens[V] = {0, 10, 20, 30, 40}, hundreds[J] = {100, 100, 100, 100, 100, 100};
    ein_graph *g = new_graph();
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(B, V, C)), ids = ein_input(g, "ids", EIN_I64, SHAPE(J)),
               index = ein_input(g, "index", EIN_I64, SHAPE(B, J, C));
    ein_tensor last = ein_map(g, "mod(x0 + 1, 4)", 1, &ids); /* computed ids, of the last axis */
    result(g, "select", ein_index_select(g, x, 1, ids));
    result(g, "select last", ein_index_select(g, x, -1, last));
    result(g, "gather", ein_gather(g, x, 1, index));
    result(g, "scatter", ein_scatter_add(g, x, 1, index, ein_input(g, "source", EIN_F32, SHAPE(B, J, C))));
    result(g, "one_hot", ein_one_hot(g, ids, V, EIN_F32));
    result(g, "half", ein_embedding(g, ids, ein_input(g, "half", EIN_BF16, SHAPE(V, C))));
    result(g, "i8", ein_scatter_add(g, ein_constant(g, EIN_I8, SHAPE(V), tens), 0, ids,
                                    ein_constant(g, EIN_I8, SHAPE(J), hundreds)));
    trial t;
    trial_make(&t, g);
    void *out = trial_cut(&t, 3, 3, 11);
    check_gathers(&t, out);
    free(out);
    trial_free(&t);
    ein_graph_free(g);
}

/* Ids that are computed and outside: zeros, and nothing is added. */
static void outside(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(V, C)), ids = ein_input(g, "ids", EIN_I64, SHAPE(J));
    ein_tensor far = ein_map(g, "where(x0 == x0, 0 - 1000000 * x0 - 1, 0)", 1, &ids);
    result(g, "select", ein_index_select(g, x, 0, far));
    result(g, "one_hot", ein_one_hot(g, far, V, EIN_F32));
    trial t;
    trial_make(&t, g);
    char *out = trial_cut(&t, 2, 1, 5);
    for (int i = 0; i < J * (C + V); i++) assert_true(((const float *)out)[i] == 0);
    free(out);
    trial_free(&t);
    ein_graph_free(g);
}

/* ---- indices alone ---- */

static void numbers(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    result(g, "i64", ein_arange(g, EIN_I64, 40, -3, 7));
    result(g, "f64", ein_arange(g, EIN_F64, 40, 0.1, 0.1));
    result(g, "f32", ein_arange(g, EIN_F32, 40, 0.5, -2));
    ein_tensor one = ein_full(g, EIN_I32, SHAPE(4, 5), 9);
    result(g, "tril", ein_tril(g, one, -1));
    result(g, "triu", ein_triu(g, one, 2));
    trial t;
    trial_make(&t, g);
    void *out = trial_cut(&t, 3, 3, 3);
    const char *at = out;
    const i64 *whole = next(&at, 40, 8);
    const double *wide = next(&at, 40, 8);
    const float *narrow = next(&at, 40, 4);
    for (int i = 0; i < 40; i++) {
        assert_true(whole[i] == -3 + 7 * i);
        assert_true(fabs(wide[i] - (0.1 + 0.1 * i)) < 1e-15);
        assert_true(narrow[i] == 0.5f - 2 * (float)i);
    }
    const int32_t *low = next(&at, 20, 4), *high = next(&at, 20, 4);
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 5; c++) {
            assert_int_equal(low[r * 5 + c], c - r <= -1 ? 9 : 0);
            assert_int_equal(high[r * 5 + c], c - r >= 2 ? 9 : 0);
        }
    free(out);
    trial_free(&t);
    ein_graph_free(g);
}

/* ---- routing ---- */

enum { TOKENS = 11, EXPERTS = 4, CAPACITY = 3, CHOICES = 2 };

/* Choices in order, experts by their weight; full experts drop. */
static void route(const float *logits, bool normalize, float *dispatch, float *combine)
{
    int chosen[TOKENS][CHOICES], used[EXPERTS] = {0};
    double weight[TOKENS][CHOICES];
    for (int t = 0; t < TOKENS; t++) {
        double sum = 0, total = 0;
        bool taken[EXPERTS] = {false};
        for (int e = 0; e < EXPERTS; e++) sum += exp(logits[t * EXPERTS + e]);
        for (int j = 0; j < CHOICES; j++) {
            int best = -1;
            for (int e = 0; e < EXPERTS; e++)
                if (!taken[e] && (best < 0 || logits[t * EXPERTS + e] > logits[t * EXPERTS + best])) best = e;
            taken[best] = true;
            chosen[t][j] = best;
            total += weight[t][j] = exp(logits[t * EXPERTS + best]) / sum;
        }
        for (int j = 0; j < CHOICES && normalize; j++) weight[t][j] /= total;
    }
    for (int j = 0; j < CHOICES; j++)
        for (int t = 0; t < TOKENS; t++) {
            int e = chosen[t][j], c = used[e]++;
            if (c >= CAPACITY) continue;
            dispatch[(t * EXPERTS + e) * CAPACITY + c] = 1;
            combine[(t * EXPERTS + e) * CAPACITY + c] = (float)weight[t][j];
        }
}

static void routing(void **state)
{
    (void)state;
    enum { N = TOKENS * EXPERTS * CAPACITY };
    ein_graph *g = new_graph();
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(TOKENS, EXPERTS)), plain[2], scaled[2];
    ein_moe_routing(g, x, CHOICES, CAPACITY, 0, plain);
    ein_moe_routing(g, x, CHOICES, CAPACITY, 1, scaled);
    result(g, "dispatch", plain[0]);
    result(g, "combine", plain[1]);
    result(g, "normalized", scaled[1]);
    ein_tensor tokens = ein_input(g, "tokens", EIN_F32, SHAPE(TOKENS, 6));
    ein_tensor up = ein_parameter(g, "up", EIN_F32, SHAPE(EXPERTS, 6, 8)),
               down = ein_parameter(g, "down", EIN_F32, SHAPE(EXPERTS, 8, 6));
    ein_tensor h = ein_einsum(g, "tec,td->ecd", 2, (ein_tensor[]){plain[0], tokens});
    h = ein_silu(g, ein_einsum(g, "ecd,edf->ecf", 2, (ein_tensor[]){h, up}));
    h = ein_einsum(g, "ecf,efd->ecd", 2, (ein_tensor[]){h, down});
    result(g, "layer", ein_einsum(g, "tec,ecd->td", 2, (ein_tensor[]){scaled[1], h}));
    trial t;
    trial_make(&t, g);
    void *out = trial_cut(&t, 3, 3, 21);
    const char *at = out;
    float dispatch[N] = {0}, combine[N] = {0}, normalized[N] = {0};
    route(trial_data(&t, "x"), true, dispatch, normalized);
    route(trial_data(&t, "x"), false, dispatch, combine);
    float slots = 0;
    for (int i = 0; i < N; i++) slots += dispatch[i];
    assert_true(slots >= 6 && slots <= EXPERTS * CAPACITY); /* 22 choices: some are dropped */
    expect_floats("dispatch", &at, N, dispatch);
    expect_floats("combine", &at, N, combine);
    expect_floats("normalized", &at, N, normalized);
    free(out);
    trial_free(&t);
    ein_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gathers), cmocka_unit_test(outside), cmocka_unit_test(numbers),
                                       cmocka_unit_test(routing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
