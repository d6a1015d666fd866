/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions and pools from end to end, against loops over the definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/trial_cut.h"

enum { N = 2, C = 4, H = 8, W = 9, MOST = 16 };

#define SHAPE(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}

/* Sizes and steps along h and w; a dimension that is not pooled or convolved has kernel and stride 1. */
typedef struct windows {
    int kernel[2], stride[2], dilation[2], padding[2], end[2]; /* zeros of stride and dilation: 1 */
    int out[2];                                                /* from the shape that the call gave */
} windows;

static int step(int x) { return x == 0 ? 1 : x; }

/* The element of x under place (r, s) of window (i, j), NULL in the padding. */
static const float *under(const float *image, const windows *w, int i, int j, int r, int s)
{
    int y = i * step(w->stride[0]) + r * step(w->dilation[0]) - w->padding[0];
    int x = j * step(w->stride[1]) + s * step(w->dilation[1]) - w->padding[1];
    return y >= 0 && y < H && x >= 0 && x < W ? image + y * W + x : NULL;
}

/* ---- convolutions ---- */

typedef struct conv_case {
    const char *name;
    windows w;
    int out, groups;
    bool bias;
} conv_case;

static const conv_case convs[] = {
    {"plain", {.kernel = {3, 2}}, 5, 1, true},
    {"strided", {.kernel = {3, 3}, .stride = {2, 3}, .padding = {1, 2}, .end = {0, 1}}, 9, 1, false},
    {"dilated", {.kernel = {2, 3}, .dilation = {3, 2}, .padding = {1, 1}}, 2, 1, true},
    {"pointwise", {.kernel = {1, 1}}, 6, 1, false},
    {"pointwise, strided", {.kernel = {1, 1}, .stride = {3, 2}}, 2, 1, false},
    {"patches", {.kernel = {4, 3}, .stride = {4, 3}}, 8, 1, true},
    {"groups", {.kernel = {3, 1}, .padding = {1, 0}}, 6, 2, true},
    {"groups of patches", {.kernel = {2, 3}, .stride = {2, 3}}, 18, 2, false},
    {"depthwise", {.kernel = {3, 3}, .padding = {1, 1}}, 4, 4, false},
    {"one window", {.kernel = {8, 9}}, 3, 1, false},
};
enum { CONVS = sizeof convs / sizeof *convs };

static ein_conv_options conv_options(const conv_case *c)
{
    ein_conv_options o = {.size = sizeof o, .groups = c->groups};
    for (int i = 0; i < 2; i++) {
        o.stride[i] = c->w.stride[i];
        o.dilation[i] = c->w.dilation[i];
        o.padding[i] = c->w.padding[i];
        o.padding_end[i] = c->w.end[i];
    }
    return o;
}

static void leaf_name(char *out, char stem, int i)
{
    out[0] = stem;
    out[1] = (char)('a' + i);
    out[2] = 0;
}

static ein_tensor add_conv(ein_graph *g, ein_tensor x, ein_dtype dtype, int i)
{
    const conv_case *c = &convs[i];
    char w[3], b[3];
    leaf_name(w, 'w', i);
    leaf_name(b, 'b', i);
    ein_conv_options o = conv_options(c);
    ein_tensor weight = ein_parameter(g, w, dtype, SHAPE(c->out, C / c->groups, c->w.kernel[0], c->w.kernel[1])), bias = {0};
    if (c->bias) bias = ein_parameter(g, b, dtype, SHAPE(c->out));
    ein_tensor y = ein_conv2d(g, x, weight, bias, &o);
    if (y.id == 0) fail_msg("%s: %s", c->name, ein_graph_error(g));
    ein_output(g, c->name, y);
    return y;
}

static double conv_at(const trial *t, int i, const float *x, int n, int o, int y, int z)
{
    const conv_case *c = &convs[i];
    char w[3], b[3];
    leaf_name(w, 'w', i);
    leaf_name(b, 'b', i);
    const float *weight = trial_data(t, w);
    int in = C / c->groups, first = o / (c->out / c->groups) * in;
    double sum = c->bias ? ((const float *)trial_data(t, b))[o] : 0;
    for (int k = 0; k < in; k++)
        for (int r = 0; r < c->w.kernel[0]; r++)
            for (int s = 0; s < c->w.kernel[1]; s++) {
                const float *at = under(x + (n * C + first + k) * H * W, &c->w, y, z, r, s);
                sum += at == NULL ? 0 : (double)*at * weight[((o * in + k) * c->w.kernel[0] + r) * c->w.kernel[1] + s];
            }
    return sum;
}

static const char *behind(const char *at, size_t bytes) { return at + (bytes + 15) / 16 * 16; }

static void convolutions(void **state)
{
    (void)state;
    ein_graph *g = NULL;
    int64_t shapes[CONVS][EIN_MAX_RANK];
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(N, C, H, W));
    for (int i = 0; i < CONVS; i++) ein_tensor_shape(g, add_conv(g, x, EIN_F32, i), shapes[i]);
    trial t;
    trial_make(&t, g);
    void *out = trial_cut(&t, 3, 2, 31);
    const char *at = out;
    for (int i = 0; i < CONVS; i++) {
        const int64_t *d = shapes[i];
        const float *y = (const float *)at;
        assert_true(d[0] == N && d[1] == convs[i].out);
        for (int j = 0; j < d[0] * d[1] * d[2] * d[3]; j++) {
            int z = (int)(j % d[3]), row = (int)(j / d[3] % d[2]), o = (int)(j / d[3] / d[2] % d[1]);
            double want = conv_at(&t, i, trial_data(&t, "x"), (int)(j / d[3] / d[2] / d[1]), o, row, z);
            if (!(fabs(y[j] - want) < 1e-5)) fail_msg("%s: element %d is %g, not %g", convs[i].name, j, (double)y[j], want);
        }
        at = behind(at, (size_t)(d[0] * d[1] * d[2] * d[3]) * sizeof *y);
    }
    free(out);
    trial_free(&t);
    ein_graph_free(g);
}

/* ---- pools ---- */

typedef struct pool_case {
    const char *name;
    windows w;
    bool ceil, exclude, mean;
} pool_case;

static const pool_case pools[] = {
    {"max", {.kernel = {2, 3}, .stride = {2, 3}}, false, false, false},
    {"max, padded", {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}, false, false, false},
    {"max, ceil", {.kernel = {3, 2}, .stride = {3, 2}}, true, false, false},
    {"max, dilated", {.kernel = {2, 3}, .stride = {1, 1}, .dilation = {3, 2}, .end = {1, 0}}, false, false, false},
    {"mean", {.kernel = {4, 3}, .stride = {4, 3}}, false, false, true},
    {"mean, padded", {.kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 1}}, false, false, true},
    {"mean, exclude", {.kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 1}}, false, true, true},
    {"mean, ceil", {.kernel = {3, 4}, .stride = {3, 4}, .padding = {1, 0}}, true, false, true},
    {"mean, ceil, exclude", {.kernel = {3, 4}, .stride = {3, 4}, .padding = {1, 1}}, true, true, true},
    {"mean of one dimension", {.kernel = {1, 4}, .stride = {1, 3}, .padding = {0, 2}}, false, true, true},
};
enum { POOLS = sizeof pools / sizeof *pools };

static ein_tensor add_pool(ein_graph *g, ein_tensor x, const pool_case *c)
{
    bool both = c->w.kernel[0] > 1;
    ein_pool_options o = {.size = sizeof o, .ceil_mode = c->ceil, .exclude_padding = c->exclude};
    for (int i = 0; i < (both ? 2 : 1); i++) {
        int from = both ? i : 1;
        o.kernel[i] = c->w.kernel[from];
        o.stride[i] = c->w.stride[from];
        o.dilation[i] = c->w.dilation[from];
        o.padding[i] = c->w.padding[from];
        o.padding_end[i] = c->w.end[from];
    }
    ein_tensor y = c->mean ? ein_avg_pool(g, x, &o) : ein_max_pool(g, x, &o);
    if (y.id == 0) fail_msg("%s: %s", c->name, ein_graph_error(g));
    ein_output(g, c->name, y);
    return y;
}

/* Places of the padded dimension that count for the mean: all to its end, which a last window may pass. */
static bool counts(const windows *w, int i, int j, int r, int s)
{
    int y = i * step(w->stride[0]) + r * step(w->dilation[0]), x = j * step(w->stride[1]) + s * step(w->dilation[1]);
    return y < H + 2 * w->padding[0] + w->end[0] && x < W + 2 * w->padding[1] + w->end[1];
}

static double pool_at(const float *image, const pool_case *c, int i, int j)
{
    double sum = 0, most = -INFINITY;
    int n = 0;
    for (int r = 0; r < c->w.kernel[0]; r++)
        for (int s = 0; s < c->w.kernel[1]; s++) {
            const float *at = under(image, &c->w, i, j, r, s);
            sum += at == NULL ? 0 : *at;
            most = at == NULL ? most : fmax(most, *at);
            n += at != NULL || (!c->exclude && counts(&c->w, i, j, r, s));
        }
    return c->mean ? sum / n : most;
}

static void pooling(void **state)
{
    (void)state;
    ein_graph *g = NULL;
    int64_t shapes[POOLS][EIN_MAX_RANK];
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(N, H, W));
    for (int i = 0; i < POOLS; i++) ein_tensor_shape(g, add_pool(g, x, &pools[i]), shapes[i]);
    trial t;
    trial_make(&t, g);
    void *out = trial_cut(&t, 3, 2, 41);
    const char *at = out;
    const float *images = trial_data(&t, "x");
    for (int i = 0; i < POOLS; i++) {
        const int64_t *d = shapes[i];
        const float *y = (const float *)at;
        for (int j = 0; j < d[0] * d[1] * d[2]; j++) {
            double want = pool_at(images + j / d[2] / d[1] * H * W, &pools[i], (int)(j / d[2] % d[1]), (int)(j % d[2]));
            if (!(fabs(y[j] - want) < 1e-6)) fail_msg("%s: element %d is %g, not %g", pools[i].name, j, (double)y[j], want);
        }
        at = behind(at, (size_t)(d[0] * d[1] * d[2]) * sizeof *y);
    }
    free(out);
    trial_free(&t);
    ein_graph_free(g);
}

/* ---- sizes and types ---- */

/* As PyTorch's. Of "mean, ceil" a fourth window along h would start behind the 1 + 8 elements that are not padding
 * behind. */
static void sizes(void **state)
{
    (void)state;
    static const struct { int pool; i64 h, w; } want[] = {{2, 3, 5}, {9, 8, 4}, {7, 3, 3}, {1, 4, 5}};
    ein_graph *g = NULL;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(N, H, W));
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        int64_t d[EIN_MAX_RANK];
        ein_tensor_shape(g, add_pool(g, x, &pools[want[i].pool]), d);
        assert_int_equal(d[1], want[i].h);
        assert_int_equal(d[2], want[i].w);
    }
    ein_graph_free(g);
}

/* Whatever the type, as the reference; an empty batch and integers too. */
static void types(void **state)
{
    (void)state;
    static const ein_dtype floats[] = {EIN_BF16, EIN_F64, EIN_F16};
    for (size_t i = 0; i < 3; i++) {
        ein_graph *g = NULL;
        assert_int_equal(ein_graph_create(&g), EIN_OK);
        ein_tensor x = ein_input(g, "x", floats[i], SHAPE(N, C, H, W)), none = {0};
        add_conv(g, x, floats[i], 1);
        add_conv(g, x, floats[i], 5);
        add_conv(g, x, floats[i], 6);
        add_pool(g, x, &pools[8]);
        add_pool(g, x, &pools[1]);
        add_pool(g, ein_input(g, "i", EIN_I8, SHAPE(2, H, W)), &(pool_case){.name = "i8", .w = pools[1].w});
        ein_output(g, "empty", ein_conv1d(g, ein_input(g, "e", floats[i], SHAPE(0, 3, 6)),
                                          ein_parameter(g, "k", floats[i], SHAPE(2, 3, 2)), none, NULL));
        trial t;
        trial_make(&t, g);
        free(trial_cut(&t, 3, 1, 51 + i));
        trial_free(&t);
        ein_graph_free(g);
    }
}

/* Channels last: the permute is read through, windows and all. */
static void channels_last(void **state)
{
    (void)state;
    ein_graph *g = NULL;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    const ein_conv_options o = {.size = sizeof o, .stride = {2, 1}};
    const ein_pool_options p = {.size = sizeof p, .kernel = {2, 3}};
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(N, H, W, C)), none = {0};
    ein_tensor image = ein_permute(g, x, (int[]){0, 3, 1, 2}), w = ein_parameter(g, "w", EIN_F32, SHAPE(5, C, 3, 2));
    ein_output(g, "conv", ein_conv2d(g, image, w, none, &o));
    ein_output(g, "pool", ein_max_pool(g, image, &p));
    trial t;
    char *print = NULL;
    trial_once(g, "host:1", NULL, &print);
    assert_null(strstr(print, "permute"));
    free(print);
    trial_make(&t, g);
    free(trial_cut(&t, 3, 2, 61));
    trial_free(&t);
    ein_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(convolutions), cmocka_unit_test(pooling), cmocka_unit_test(sizes),
                                       cmocka_unit_test(types), cmocka_unit_test(channels_last)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
