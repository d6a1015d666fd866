/* SPDX-License-Identifier: Apache-2.0 */
/* NaN, infinities and rows that see nothing: wherever the cuts lie, what one device gives, which is what PyTorch gives
 * but for attention that sees no key. A partial result that has met none of them must not spread one, nor hide one. */
#include "tests/jit/peers/peers.h"

#define N NAN
#define I INFINITY
#define LN2 0.69314718055994531
#define LN4 1.3862943611198906

enum { ROWS = 8, WIDTH = 4 };
static const double rows[ROWS * WIDTH] = {
    N,  0,  1,  2,  /* */
    0,  0,  N,  0,  /* */
    I,  0,  0,  0,  /* */
    -I, 0,  0,  -I, /* */
    -I, -I, -I, -I, /* */
    I,  -I, 0,  0,  /* */
    0,  0,  0,  0,  /* */
    I,  I,  0,  0,
};
#define PER_ROW(...) ((double[ROWS]){__VA_ARGS__})
#define PER_ELEMENT(...) ((double[ROWS * WIDTH]){__VA_ARGS__})

static const int devices[] = {2, 3, 8, 0};

/* Each op reads a parameter of its own, so that plans of one do not bind those of another. */
static ein_tensor fresh(ein_graph *g, numbers *given)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"};
    int i = 0;
    while (given[i].name != NULL) i++;
    assert_true(i < (int)(sizeof names / sizeof *names));
    given[i] = (numbers){names[i], ROWS * WIDTH, rows};
    return PARAMETER(g, names[i], ROWS, WIDTH);
}

static void reductions(void **state)
{
    (void)state;
    const int axis[] = {1};
    numbers given[13] = {{0}};
    ein_graph *g = graph_new();
    ein_tensor top[2];
    ein_output(g, "sum", ein_sum(g, fresh(g, given), 1, axis, 0));
    ein_output(g, "mean", ein_mean(g, fresh(g, given), 1, axis, 0));
    ein_output(g, "prod", ein_prod(g, fresh(g, given), 1, axis, 0));
    ein_output(g, "amax", ein_amax(g, fresh(g, given), 1, axis, 0));
    ein_output(g, "amin", ein_amin(g, fresh(g, given), 1, axis, 0));
    ein_output(g, "argmax", ein_argmax(g, fresh(g, given), 1, 0));
    ein_output(g, "argmin", ein_argmin(g, fresh(g, given), 1, 0));
    ein_output(g, "logsumexp", ein_logsumexp(g, fresh(g, given), 1, axis, 0));
    ein_output(g, "any", ein_any(g, fresh(g, given), 1, axis, 0));
    ein_output(g, "all", ein_all(g, fresh(g, given), 1, axis, 0));
    ein_output(g, "columns", ein_sum(g, fresh(g, given), 1, (int[]){0}, 0));
    ein_topk(g, fresh(g, given), 1, 1, 0, top);
    ein_output(g, "top", top[0]);
    try_plans(g, given,
              WANTED({"sum", ROWS, PER_ROW(N, N, I, -I, -I, N, 0, I)}, {"mean", ROWS, PER_ROW(N, N, I, -I, -I, N, 0, I)},
                     {"prod", ROWS, PER_ROW(N, N, N, N, I, N, 0, N)}, {"amax", ROWS, PER_ROW(N, N, I, 0, -I, I, 0, I)},
                     {"amin", ROWS, PER_ROW(N, N, 0, -I, -I, -I, 0, 0)}, {"argmax", ROWS, PER_ROW(0, 2, 0, 1, 0, 0, 0, 0)},
                     {"argmin", ROWS, PER_ROW(0, 2, 1, 0, 0, 1, 0, 2)},
                     {"logsumexp", ROWS, PER_ROW(N, N, I, LN2, -I, I, LN4, I)}, {"any", ROWS, PER_ROW(1, 1, 1, 1, 1, 1, 0, 1)},
                     {"all", ROWS, PER_ROW(0, 0, 0, 0, 1, 0, 0, 0)}, NUMBERS("columns", N, N, N, -I),
                     {"top", ROWS, PER_ROW(N, N, I, 0, -I, I, 0, I)}),
              1e-6, devices);
}

static void row_ops(void **state)
{
    (void)state;
    numbers given[16] = {{0}};
    ein_graph *g = graph_new();
    ein_tensor x = fresh(g, given), w = PARAMETER(g, "w", 1, WIDTH);
    ein_output(g, "softmax", ein_softmax(g, x, 1));
    ein_output(g, "log_softmax", ein_log_softmax(g, fresh(g, given), 1));
    ein_output(g, "layer_norm", ein_layer_norm(g, fresh(g, given), NONE, NONE, 1e-5));
    ein_output(g, "rms_norm", ein_rms_norm(g, fresh(g, given), NONE, 1e-5));
    ein_output(g, "cumsum", ein_cumsum(g, fresh(g, given), 1));
    ein_output(g, "cross_entropy", ein_cross_entropy(g, fresh(g, given), ein_input(g, "targets", EIN_I64, SHAPE(ROWS))));
    ein_output(g, "relu", ein_relu(g, fresh(g, given)));
    ein_output(g, "product", ein_linear(g, fresh(g, given), w, NONE));
    int n = 0;
    while (given[n].name != NULL) n++;
    given[n++] = (numbers)NUMBERS("w", 1, 0, 1, 1);
    given[n] = (numbers)NUMBERS("targets", 0, 0, 1, 1, 0, 2, 3, 3);
    try_plans(
        g, given,
        WANTED({"softmax", 32, PER_ELEMENT(N, N, N, N, N, N, N, N, N, N, N, N, 0, .5, .5, 0, N, N, N, N, N, N, N, N, .25, .25, .25, .25, N, N, N, N)},
               {"log_softmax", 32, PER_ELEMENT(N, N, N, N, N, N, N, N, N, N, N, N, -I, -LN2, -LN2, -I, N, N, N, N, N, N, N, N, -LN4, -LN4, -LN4, -LN4, N, N, N, N)},
               {"layer_norm", 32, PER_ELEMENT(N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, 0, 0, 0, 0, N, N, N, N)},
               {"rms_norm", 32, PER_ELEMENT(N, N, N, N, N, N, N, N, N, 0, 0, 0, N, 0, 0, N, N, N, N, N, N, N, 0, 0, 0, 0, 0, 0, N, N, 0, 0)},
               {"cumsum", 32, PER_ELEMENT(N, N, N, N, 0, 0, N, N, I, I, I, I, -I, -I, -I, -I, -I, -I, -I, -I, I, N, N, N, 0, 0, 0, 0, I, I, I, I)},
               {"cross_entropy", ROWS, PER_ROW(N, N, I, LN2, N, I, LN4, I)},
               {"relu", 32, PER_ELEMENT(N, 0, 1, 2, 0, 0, N, 0, I, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, I, 0, 0, 0, 0, 0, 0, 0, I, I, 0, 0)},
               {"product", ROWS, PER_ROW(N, N, I, -I, N, N, 0, N)}),
        1e-6, devices);
}

/* Queries of zeros: each key that is seen weighs the same. Keys 2 and 3 are NaN in the keys, values or both. */
static void attention(void **state)
{
    (void)state;
    const ein_attention_options causal = {.size = sizeof causal, .causal = 1};
    ein_attention_options hidden = {.size = sizeof hidden}, added = hidden, shown = hidden;
    ein_graph *g = graph_new();
    ein_tensor q = PARAMETER(g, "q", 1, 1, 3, 2), k = PARAMETER(g, "k", 1, 1, 4, 2), zeros = PARAMETER(g, "zeros", 1, 1, 4, 2),
               v = PARAMETER(g, "v", 1, 1, 4, 2), parts[3];
    hidden.mask = ein_parameter(g, "hidden", EIN_BOOL, SHAPE(3, 4));
    added.mask = PARAMETER(g, "added", 3, 4);
    shown.mask = ein_parameter(g, "shown", EIN_BOOL, SHAPE(3, 4));
    ein_output(g, "hidden", ein_scaled_dot_product_attention(g, q, k, v, &hidden));
    ein_output(g, "added", ein_scaled_dot_product_attention(g, q, k, v, &added));
    ein_output(g, "shown", ein_scaled_dot_product_attention(g, q, zeros, v, &shown));
    ein_output(g, "keys", ein_scaled_dot_product_attention(g, q, k, zeros, &shown));
    ein_output(g, "causal", ein_scaled_dot_product_attention(g, q, k, v, &causal));
    ein_scaled_dot_product_attention_partial(g, q, k, v, &hidden, parts);
    ein_output(g, "sums", parts[1]);
    ein_output(g, "sums of values", parts[2]);
    try_plans(g,
              GIVEN(NUMBERS("q", 0), NUMBERS("k", 1, 0, 0, 1, N, 0, 0, N), NUMBERS("zeros", 0), NUMBERS("v", 1, 2, 3, 4, N, 5, 6, I),
                    NUMBERS("hidden", 0, 0, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0), NUMBERS("shown", 1, 0, 1, 0, 1, 0, 0, 1, 1, 1, 1, 1),
                    NUMBERS("added", -I, -I, -I, -I, 2, 2, -I, -I, 0, -I, -I, -I)),
              WANTED(NUMBERS("hidden", 0, 0, 2, 3, 1, 2), NUMBERS("added", 0, 0, 2, 3, 1, 2),
                     NUMBERS("shown", N, 3.5, 3.5, I, N, I), NUMBERS("keys", N, N, N, N, N, N), NUMBERS("causal", 1, 2, 2, 3, N, N),
                     NUMBERS("sums", 0, 2, 1), NUMBERS("sums of values", 0, 0, 4, 6, 1, 2)),
              1e-6, devices);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions),
        cmocka_unit_test(row_ops),
        cmocka_unit_test(attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
