/* SPDX-License-Identifier: Apache-2.0 */
/* What the public calls mean: values worked out by hand or by plain loops. */
#include "tests/core/reference/fixture.h"

enum { MOST = 4096 };

static ein_graph *new_graph(void)
{
    ein_graph *g;
    ok(ein_graph_create(&g));
    return g;
}

static void evaluate_public(ein_graph *g, ein_tensor y, const void *const *data, int n, double *got)
{
    const void *leaves[16] = {0};
    error e = {0};
    const i64 scalars[2] = {1};
    reference_bindings b = {.leaves = leaves, .scalars = scalars};
    ein_output(g, "y", y);
    assert_string_equal(ein_graph_error(g), "");
    assert_true(g->g.leaves.n <= 16 && n <= MOST);
    assert_int_equal(ein__value_numel(&g->g, g->g.outputs.items[0].value), n);
    for (int i = 0; i < g->g.leaves.n && data != NULL; i++)
        if (g->g.leaves.items[i].kind != LEAF_CONSTANT) leaves[i] = *data++;
    if (ein__reference_f64(&g->g, &b, (double *[]){got}, &e) != EIN_OK) fail_msg("%s", e.line);
    ein_graph_free(g);
    assert_int_equal(ein__alloc_live(), 0);
}

/* `data` per leaf that is no constant; the graph is freed. */
static void expect_public(ein_graph *g, ein_tensor y, const void *const *data, int n, const double *want)
{
    static double got[MOST];
    evaluate_public(g, y, data, n, got);
    for (int i = 0; i < n; i++) {
        bool same = got[i] == want[i] || (isnan(got[i]) && isnan(want[i]));
        if (!same && !(fabs(got[i] - want[i]) < 1e-6 * (1 + fabs(want[i]))))
            fail_msg("element %d is %.17g, not %.17g", i, got[i], want[i]);
    }
}

#define SHAPE(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}
#define INPUT(g, ...) ein_input((g), "x", EIN_F32, SHAPE(__VA_ARGS__))
#define DATA(...) ((const void *[]){__VA_ARGS__})
#define EXPECT_PUBLIC(g, y, data, ...) \
    expect_public((g), (y), (data), (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})

/* ---- products, rotations, states ---- */

static void test_public_linear(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = ein_input(g, "x", EIN_F32, 3, (int64_t[]){2, 1, 2});
    ein_tensor w = ein_parameter(g, "w", EIN_F32, 2, (int64_t[]){3, 2});
    ein_tensor y = ein_linear(g, x, w, ein_parameter(g, "b", EIN_F32, 1, (int64_t[]){3}));
    y = ein_permute(g, ein_reshape(g, y, 2, (int64_t[]){2, -1}), (int[]){1, 0});
    y = ein_concat(g, 2, (ein_tensor[]){y, ein_slice(g, y, 1, -1, 9)}, 1);
    const float a[] = {1, 2, 3, 4}, b[] = {1, 0, 0, 1, 1, 1}, c[] = {10, 20, 30};
    expect_public(g, y, (const void *[]){a, b, c}, 9, (double[]){11, 13, 13, 22, 24, 24, 33, 37, 37});
}

static void test_public_rope(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor cosine, sine;
    ein_tensor x = ein_input(g, "x", EIN_F32, 4, (int64_t[]){1, 2, 1, 4});
    ein_rope_tables(g, 8, 4, 100, &cosine, &sine);
    ein_tensor y = ein_rope(g, x, cosine, sine, ein_scalar_input(g, "position"));
    const float a[] = {1, 2, 3, 4, 1, 0, 0, 1};
    /* Row s at position s + 1 turns pairs (0, 2) by s + 1, (1, 3) by (s + 1) / 10. */
    const double want[] = {cos(1) - 3 * sin(1), 2 * cos(0.1) - 4 * sin(0.1), sin(1) + 3 * cos(1),
                           2 * sin(0.1) + 4 * cos(0.1), cos(2), -sin(0.2), sin(2), cos(0.2)};
    expect_public(g, y, (const void *[]){a}, 8, want);
}

/* A layer's attention over a state, and a mean of what comes out. */
static void test_public_state(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = ein_input(g, "x", EIN_F32, 4, (int64_t[]){1, 2, 1, 1});
    ein_tensor cache = ein_state_tensor(g, "cache", EIN_F32, 4, (int64_t[]){1, 1, 3, 1});
    ein_scalar position = ein_scalar_input(g, "position");
    ein_tensor rows = ein_sum(g, x, 1, (int[]){1}, 1);
    ein_tensor k = ein_state_append(g, cache, rows, 2, position);
    ein_attention_options o = {.size = sizeof o, .causal = 1, .position = position};
    ein_tensor y = ein_scaled_dot_product_attention(g, x, k, k, &o);
    const float a[] = {1, -1.5f}, old[] = {2, 7, 9};
    /* Keys 2 and -0.5 are seen by both heads. */
    double p = exp(2), q = exp(-0.5), r = exp(-3), s = exp(0.75);
    expect_public(g, ein_mean(g, y, 0, NULL, 0), (const void *[]){a, old}, 1,
                  (double[]){((2 * p - 0.5 * q) / (p + q) + (2 * r - 0.5 * s) / (r + s)) / 2});
}

/* ---- elements ---- */

static void test_types(void **state)
{
    (void)state;
    const int8_t a[] = {100, -7, 3};
    const float x[] = {2.5f, -3.75f, 300};
    ein_graph *g = new_graph();
    ein_tensor i = ein_input(g, "i", EIN_I8, SHAPE(3));
    EXPECT_PUBLIC(g, ein_add(g, i, i), DATA(a), -56, -14, 6);
    g = new_graph();
    i = ein_input(g, "i", EIN_I8, SHAPE(3));
    EXPECT_PUBLIC(g, ein_div(g, i, i), DATA(a), 1, 1, 1);
    g = new_graph();
    i = ein_input(g, "i", EIN_I8, SHAPE(3));
    EXPECT_PUBLIC(g, ein_mul(g, i, INPUT(g, 3)), DATA(a, x), 250, 26.25, 900);
    g = new_graph();
    EXPECT_PUBLIC(g, ein_cast(g, INPUT(g, 3), EIN_I8), DATA(x), 2, -3, 127);
    g = new_graph();
    EXPECT_PUBLIC(g, ein_round(g, INPUT(g, 3)), DATA(x), 2, -4, 300);
    g = new_graph();
    i = ein_input(g, "i", EIN_I8, SHAPE(3));
    ein_tensor zero = ein_full(g, EIN_I8, 0, NULL, 0), three = ein_full(g, EIN_I8, 0, NULL, 3);
    ein_tensor c = ein_logical_and(g, ein_gt(g, i, zero), ein_ne(g, i, three));
    EXPECT_PUBLIC(g, ein_where(g, c, INPUT(g, 3), ein_cast(g, i, EIN_F32)), DATA(a, x), 2.5, -7, 3);
}

static void test_new_values(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    EXPECT_PUBLIC(g, ein_arange(g, EIN_I32, 4, 5, -2), NULL, 5, 3, 1, -1);
    g = new_graph();
    EXPECT_PUBLIC(g, ein_arange(g, EIN_F32, 3, 0.5, 0.25), NULL, 0.5, 0.75, 1);
    g = new_graph();
    EXPECT_PUBLIC(g, ein_full(g, EIN_BF16, SHAPE(2), 1.5), NULL, 1.5, 1.5);
    const float x[] = {1, 2, 3, 4, 5, 6};
    g = new_graph();
    EXPECT_PUBLIC(g, ein_tril(g, INPUT(g, 2, 3), 0), DATA(x), 1, 0, 0, 4, 5, 0);
    g = new_graph();
    EXPECT_PUBLIC(g, ein_triu(g, INPUT(g, 2, 3), 1), DATA(x), 0, 2, 3, 0, 0, 6);
}

/* ---- reductions ---- */

static void test_reductions(void **state)
{
    (void)state;
    const float x[] = {3, 1, 4, 1, 5, -9};
    const int32_t i[] = {1, 2, 4, 1 << 30, 1 << 30, 1 << 30};
    ein_graph *g = new_graph();
    EXPECT_PUBLIC(g, ein_prod(g, INPUT(g, 2, 3), 1, (int[]){1}, 0), DATA(x), 12, -45);
    g = new_graph();
    EXPECT_PUBLIC(g, ein_argmax(g, INPUT(g, 2, 3), 1, 0), DATA(x), 2, 1);
    g = new_graph();
    EXPECT_PUBLIC(g, ein_argmin(g, INPUT(g, 2, 3), 0, 0), DATA(x), 1, 0, 1);
    g = new_graph();
    EXPECT_PUBLIC(g, ein_logsumexp(g, INPUT(g, 2, 3), 1, (int[]){-1}, 0), DATA(x), log(exp(3) + exp(1) + exp(4)),
                  log(exp(1) + exp(5) + exp(-9)));
    g = new_graph();
    EXPECT_PUBLIC(g, ein_cumsum(g, INPUT(g, 2, 3), 1), DATA(x), 3, 4, 8, 1, 6, -3);
    g = new_graph();
    ein_tensor integers = ein_input(g, "i", EIN_I32, SHAPE(2, 3));
    EXPECT_PUBLIC(g, ein_sum(g, integers, 1, (int[]){1}, 0), DATA(i), 7, 3.0 * (1 << 30));
    g = new_graph();
    ein_tensor t = ein_gt(g, INPUT(g, 2, 3), ein_full(g, EIN_F32, 0, NULL, 2));
    ein_tensor both[] = {ein_any(g, t, 1, (int[]){0}, 0), ein_all(g, t, 1, (int[]){0}, 0)};
    EXPECT_PUBLIC(g, ein_stack(g, 2, both, 0), DATA(x), 1, 1, 1, 0, 0, 0);
    ein_tensor top[2];
    g = new_graph();
    ein_topk(g, INPUT(g, 2, 3), 2, 1, 0, top);
    EXPECT_PUBLIC(g, top[0], DATA(x), 4, 3, 5, 1);
    g = new_graph();
    ein_topk(g, INPUT(g, 2, 3), 2, 1, 1, top);
    EXPECT_PUBLIC(g, top[1], DATA(x), 1, 0, 2, 0);
}

static void test_cross_entropy(void **state)
{
    (void)state;
    const float x[] = {1, 2, 3, 0, 0, 0, 5, 5, 5};
    const i64 targets[] = {2, 0, 7};
    ein_graph *g = new_graph();
    ein_tensor logits = INPUT(g, 3, 3), t = ein_input(g, "t", EIN_I64, SHAPE(3));
    EXPECT_PUBLIC(g, ein_cross_entropy(g, logits, t), DATA(x, targets), log(exp(1) + exp(2) + exp(3)) - 3, log(3),
                  5 + log(3));
}

#define PARAMETER(g, name, ...) ein_parameter((g), (name), EIN_F32, SHAPE(__VA_ARGS__))

static void test_norms(void **state)
{
    (void)state;
    const float x[] = {1, 3, 2, 6, -1, 1, 0, 4}, w[] = {1, 2}, b[] = {10, 20};
    ein_graph *g = new_graph();
    ein_tensor in = INPUT(g, 4, 2), weight = PARAMETER(g, "w", 2), bias = PARAMETER(g, "b", 2), none = {0};
    /* Rows of two: the deviation is half their difference. */
    EXPECT_PUBLIC(g, ein_layer_norm(g, in, weight, bias, 0), DATA(x, w, b), 9, 22, 9, 22, 9, 22, 9, 22);
    /* Two groups of a channel each, of four positions: means 3 and 1, variances 3.5, 3.5. */
    g = new_graph();
    double r = sqrt(3.5);
    in = INPUT(g, 1, 2, 4), weight = PARAMETER(g, "w", 2);
    EXPECT_PUBLIC(g, ein_group_norm(g, in, 2, weight, none, 0), DATA(x, w), -2 / r, 0, -1 / r, 3 / r, -4 / r, 0, -2 / r,
                  6 / r);
    g = new_graph();
    const float means[] = {1, 2}, variances[] = {3, 8};
    in = INPUT(g, 2, 2, 2);
    ein_tensor mean = PARAMETER(g, "m", 2), variance = PARAMETER(g, "v", 2);
    bias = PARAMETER(g, "b", 2);
    EXPECT_PUBLIC(g, ein_batch_norm(g, in, mean, variance, none, bias, 1), DATA(x, means, variances, b), 10, 11, 20,
                  20 + 4 / 3.0, 9, 10, 20 - 2 / 3.0, 20 + 2 / 3.0);
}

/* ---- convolutions and pools ---- */

static void fill(float *x, int n, uint32_t *seed)
{
    for (int i = 0; i < n; i++) x[i] = (float)(next(seed) % 64) / 8 - 4;
}

typedef struct conv { int n, c, h, w, o, groups, kh, kw, stride[2], padding[2], dilation[2], end[2]; } conv;

static int out_extent(int n, int k, int stride, int padding, int dilation)
{
    return (n + padding - dilation * (k - 1) - 1) / stride + 1;
}

static double conv_at(const conv *v, const float *x, const float *weight, int b, int o, int i, int j)
{
    int in = v->c / v->groups, first = o / (v->o / v->groups) * in;
    double sum = 0;
    for (int c = 0; c < in; c++)
        for (int k = 0; k < v->kh; k++)
            for (int l = 0; l < v->kw; l++) {
                int y = i * v->stride[0] + k * v->dilation[0] - v->padding[0];
                int z = j * v->stride[1] + l * v->dilation[1] - v->padding[1];
                if (y < 0 || y >= v->h || z < 0 || z >= v->w) continue;
                sum += (double)x[((b * v->c + first + c) * v->h + y) * v->w + z] *
                       (double)weight[((o * in + c) * v->kh + k) * v->kw + l];
            }
    return sum;
}

static void check_conv(const conv *v, uint32_t *seed)
{
    static float x[MOST], weight[MOST], bias[16];
    static double want[MOST];
    int oh = out_extent(v->h, v->kh, v->stride[0], 2 * v->padding[0] + v->end[0], v->dilation[0]);
    int ow = out_extent(v->w, v->kw, v->stride[1], 2 * v->padding[1] + v->end[1], v->dilation[1]), n = 0;
    fill(x, v->n * v->c * v->h * v->w, seed);
    fill(weight, v->o * v->c / v->groups * v->kh * v->kw, seed);
    fill(bias, v->o, seed);
    for (int b = 0; b < v->n; b++)
        for (int o = 0; o < v->o; o++)
            for (int i = 0; i < oh * ow; i++)
                want[n++] = conv_at(v, x, weight, b, o, i / ow, i % ow) + (double)bias[o];
    ein_graph *g = new_graph();
    ein_conv_options how = {.size = sizeof how, .groups = v->groups};
    for (int i = 0; i < 2; i++) {
        how.stride[i] = v->stride[i];
        how.padding[i] = v->padding[i];
        how.dilation[i] = v->dilation[i];
        how.padding_end[i] = v->end[i];
    }
    ein_tensor in = INPUT(g, v->n, v->c, v->h, v->w), b = PARAMETER(g, "b", v->o);
    ein_tensor w = PARAMETER(g, "w", v->o, v->c / v->groups, v->kh, v->kw);
    expect_public(g, ein_conv2d(g, in, w, b, &how), DATA(x, bias, weight), n, want);
}

static void test_conv2d(void **state)
{
    (void)state;
    uint32_t seed = 9;
    const conv cases[] = {
        {2, 3, 5, 6, 4, 1, 3, 2, {1, 1}, {0, 0}, {1, 1}, {0, 0}},
        {1, 4, 7, 5, 6, 2, 3, 3, {2, 1}, {1, 2}, {1, 1}, {0, 0}},
        {1, 2, 9, 8, 2, 2, 2, 3, {1, 2}, {2, 0}, {3, 2}, {0, 0}},
        {2, 1, 4, 4, 3, 1, 1, 1, {3, 2}, {0, 0}, {1, 1}, {0, 0}},
        {1, 2, 6, 5, 3, 1, 2, 4, {2, 2}, {0, 1}, {1, 1}, {1, 1}}};
    for (int i = 0; i < 5; i++) check_conv(&cases[i], &seed);
}

static void test_conv1d(void **state)
{
    (void)state;
    const float x[] = {1, 2, 3, 4, 5, 6}, w[] = {1, 10, 100, 1};
    ein_graph *g = new_graph();
    ein_conv_options how = {.size = sizeof how, .stride = {2}, .padding = {1}};
    ein_tensor in = INPUT(g, 1, 2, 3);
    /* Channel one by 1 and 10, channel two by 100 and 1. */
    EXPECT_PUBLIC(g, ein_conv1d(g, in, PARAMETER(g, "w", 1, 2, 2), (ein_tensor){0}, &how),
                  DATA(x, w), 14, 2 + 30 + 500 + 6);
}

static void test_pools(void **state)
{
    (void)state;
    const float x[] = {1, 2, 3, 4, 5, -6, -7, -8, -9};
    ein_pool_options how = {.size = sizeof how, .kernel = {2, 2}, .padding = {1, 1}};
    ein_graph *g = new_graph();
    /* Padding is never the maximum. */
    EXPECT_PUBLIC(g, ein_max_pool(g, INPUT(g, 1, 1, 3, 3), &how), DATA(x), 1, 3, 4, 5);
    g = new_graph();
    EXPECT_PUBLIC(g, ein_avg_pool(g, INPUT(g, 1, 1, 3, 3), &how), DATA(x), 0.25, 1.25, -0.75, -18 / 4.0);
    g = new_graph();
    how.exclude_padding = 1;
    EXPECT_PUBLIC(g, ein_avg_pool(g, INPUT(g, 1, 1, 3, 3), &how), DATA(x), 1, 2.5, -1.5, -18 / 4.0);
    how = (ein_pool_options){.size = sizeof how, .kernel = {2}, .ceil_mode = 1};
    g = new_graph();
    EXPECT_PUBLIC(g, ein_max_pool(g, INPUT(g, 3, 3), &how), DATA(x), 2, 3, 5, -6, -7, -9);
    g = new_graph();
    EXPECT_PUBLIC(g, ein_avg_pool(g, INPUT(g, 3, 3), &how), DATA(x), 1.5, 3, 4.5, -6, -7.5, -9);
    how = (ein_pool_options){.size = sizeof how, .kernel = {2}, .stride = {1}, .dilation = {2}};
    g = new_graph();
    EXPECT_PUBLIC(g, ein_max_pool(g, INPUT(g, 1, 9), &how), DATA(x), 3, 4, 5, 4, 5, -6, -7);
}

/* ---- moves, indices ---- */

static void test_moves(void **state)
{
    (void)state;
    const float x[] = {1, 2, 3, 4, 5, 6};
    ein_graph *g = new_graph();
    EXPECT_PUBLIC(g, ein_pad(g, INPUT(g, 2, 3), (int64_t[]){1, -1}, (int64_t[]){0, 1}, 9), DATA(x), 9, 9, 9, 2, 3, 9, 5,
                  6, 9);
    g = new_graph();
    EXPECT_PUBLIC(g, ein_roll(g, INPUT(g, 2, 3), 1, 1), DATA(x), 3, 1, 2, 6, 4, 5);
    g = new_graph();
    EXPECT_PUBLIC(g, ein_flip(g, INPUT(g, 2, 3), 2, (int[]){0, 1}), DATA(x), 6, 5, 4, 3, 2, 1);
    g = new_graph();
    EXPECT_PUBLIC(g, ein_slice_step(g, INPUT(g, 6), 0, 4, -7, -3), DATA(x), 5, 2);
    g = new_graph();
    EXPECT_PUBLIC(g, ein_expand(g, INPUT(g, 3, 1), SHAPE(2, -1, 2)), DATA(x), 1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3);
    ein_tensor parts[2];
    g = new_graph();
    ein_split(g, INPUT(g, 2, 3), 2, (int64_t[]){1, 2}, 1, parts);
    EXPECT_PUBLIC(g, ein_concat(g, 2, (ein_tensor[]){parts[1], parts[0]}, 1), DATA(x), 2, 3, 1, 5, 6, 4);
}

static void test_computed_ids(void **state)
{
    (void)state;
    const float x[] = {1, 2, 3, 4};
    const i64 ids[] = {1, 0, 3};
    ein_graph *g = new_graph();
    ein_tensor shifted = ein_sub(g, ein_input(g, "i", EIN_I64, SHAPE(3)), ein_full(g, EIN_I64, 0, NULL, 1));
    EXPECT_PUBLIC(g, ein_embedding(g, shifted, INPUT(g, 2, 2)), DATA(ids, x), 1, 2, 0, 0, 0, 0);
}

/* Expert 0 takes tokens 0 and 1 by their first choice, then has no room for token 2's second. */
static void test_moe_routing(void **state)
{
    (void)state;
    const float logits[] = {3, 1, 0, 2, 0, 1, 1, 0, 2};
    for (int which = 0; which < 2; which++) {
        ein_graph *g = new_graph();
        ein_tensor routing[2];
        ein_moe_routing(g, INPUT(g, 3, 3), 2, 2, which, routing);
        double want[18] = {0};
        double p[3][3];
        for (int t = 0; t < 3; t++) {
            double sum = 0;
            for (int e = 0; e < 3; e++) sum += p[t][e] = exp((double)logits[t * 3 + e]);
            for (int e = 0; e < 3; e++) p[t][e] /= sum;
        }
        /* token, expert, slot, and the token's other choice */
        const int slots[][4] = {{0, 0, 0, 1}, {1, 0, 1, 2}, {2, 2, 0, 0}, {0, 1, 0, 0}, {1, 2, 1, 0}};
        for (int i = 0; i < 5; i++) {
            const int *s = slots[i];
            double part = p[s[0]][s[1]];
            want[(s[0] * 3 + s[1]) * 2 + s[2]] = which ? part / (part + p[s[0]][s[3]]) : 1;
        }
        expect_public(g, routing[which], DATA(logits), 18, want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_public_linear), cmocka_unit_test(test_public_rope),
        cmocka_unit_test(test_public_state), cmocka_unit_test(test_types), cmocka_unit_test(test_new_values),
        cmocka_unit_test(test_reductions), cmocka_unit_test(test_cross_entropy), cmocka_unit_test(test_norms),
        cmocka_unit_test(test_conv2d), cmocka_unit_test(test_conv1d), cmocka_unit_test(test_pools),
        cmocka_unit_test(test_moves), cmocka_unit_test(test_computed_ids), cmocka_unit_test(test_moe_routing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
