/* SPDX-License-Identifier: Apache-2.0 */
/* Products, convolutions, pools. */
#include <math.h>
#include <string.h>

#include "tests/onnx/translate.h"

static void mat_mul(translation *t, const onnx_node *n, ein_tensor *out)
{
    out[0] = ein_matmul(t->g, onnx_input(t, n, 0), onnx_input(t, n, 1));
}

static void einsum(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x[EIN_MAX_RANK];
    for (int i = 0; i < n->inputs.n && i < EIN_MAX_RANK; i++) x[i] = onnx_input(t, n, i);
    out[0] = ein_einsum(t->g, onnx_attr_string(n, "equation", ""), n->inputs.n, x);
}

static ein_tensor scaled(translation *t, ein_tensor x, double by)
{
    return by == 1 ? x : ein_mul(t->g, x, onnx_scalar(t, x, by));
}

static void gemm(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor a = onnx_input(t, n, 0), b = onnx_input(t, n, 1), c = onnx_input(t, n, 2);
    if (onnx_attr_int(n, "transA", 0) != 0) a = ein_transpose(t->g, a, 0, 1);
    a = onnx_attr_int(n, "transB", 0) != 0 ? ein_linear(t->g, a, b, (ein_tensor){0}) : ein_matmul(t->g, a, b);
    a = scaled(t, a, onnx_attr_float(n, "alpha", 1));
    out[0] = c.id == 0 ? a : ein_add(t->g, a, scaled(t, c, onnx_attr_float(n, "beta", 1)));
}

/* ---- windows ------------------------------------------------------------------------------------------ */

/* Sizes along the spatial dimensions. */
typedef struct windows {
    int n;
    i64 kernel[EIN_MAX_RANK], stride[EIN_MAX_RANK], dilation[EIN_MAX_RANK], before[EIN_MAX_RANK], after[EIN_MAX_RANK];
} windows;

static i64 at(const onnx_attribute *a, int i, i64 otherwise)
{
    return a != NULL && i < a->ints.n ? a->ints.items[i] : otherwise;
}

/* auto_pad: as many windows as strides fit into the extent; the odd element behind (SAME_UPPER) or in front. */
static void same_padding(windows *w, const char *how, int i, i64 extent)
{
    i64 count = (extent + w->stride[i] - 1) / w->stride[i];
    i64 all = (count - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1 - extent;
    if (all < 0) all = 0;
    w->before[i] = strcmp(how, "SAME_LOWER") == 0 ? all - all / 2 : all / 2;
    w->after[i] = all - w->before[i];
}

/* `kernel`: of the weight, or NULL: the attribute says. */
static windows windows_of(translation *t, const onnx_node *n, ein_tensor x, const i64 *kernel)
{
    const onnx_attribute *shape = onnx_attr(n, "kernel_shape"), *stride = onnx_attr(n, "strides");
    const onnx_attribute *dilation = onnx_attr(n, "dilations"), *pads = onnx_attr(n, "pads");
    const char *how = onnx_attr_string(n, "auto_pad", "NOTSET");
    i64 s[EIN_MAX_RANK];
    windows w = {.n = onnx_shape(t, x, s) - 2};
    for (int i = 0; i < w.n; i++) {
        w.kernel[i] = kernel != NULL ? kernel[i] : at(shape, i, 1);
        w.stride[i] = at(stride, i, 1);
        w.dilation[i] = at(dilation, i, 1);
        w.before[i] = at(pads, i, 0);
        w.after[i] = at(pads, w.n + i, 0);
        if (strncmp(how, "SAME", 4) == 0) same_padding(&w, how, i, s[2 + i]);
    }
    return w;
}

static ein_tensor pad_space(translation *t, ein_tensor x, const windows *w, double value)
{
    i64 before[EIN_MAX_RANK] = {0}, after[EIN_MAX_RANK] = {0};
    for (int i = 0; i < w->n; i++) {
        before[2 + i] = w->before[i];
        after[2 + i] = w->after[i];
    }
    return ein_pad(t->g, x, before, after, value);
}

static void conv(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0), weight = onnx_input(t, n, 1);
    i64 s[EIN_MAX_RANK];
    int rank = onnx_shape(t, weight, s);
    windows w = windows_of(t, n, x, s + 2);
    ein_conv_options o = {.size = sizeof o, .groups = onnx_attr_int(n, "group", 1)};
    if (rank != 3 && rank != 4) {
        onnx_skip(t, "windows of %d dimensions", rank - 2);
        return;
    }
    for (int i = 0; i < w.n; i++) {
        o.stride[i] = w.stride[i];
        o.dilation[i] = w.dilation[i];
        o.padding[i] = w.before[i];
        o.padding_end[i] = w.after[i] - w.before[i];
    }
    out[0] = (rank == 3 ? ein_conv1d : ein_conv2d)(t->g, x, weight, onnx_input(t, n, 2), &o);
}

/* Zeros between elements: [.., h, w] to [.., h, 1, w, 1], padded to [.., h, r, w, s], less what is behind the last. */
static ein_tensor spread(translation *t, ein_tensor x, const windows *w)
{
    i64 s[EIN_MAX_RANK], none[EIN_MAX_RANK] = {0};
    onnx_shape(t, x, s);
    for (int i = 0; i < w->n; i++) {
        i64 apart[EIN_MAX_RANK], after[EIN_MAX_RANK] = {0};
        if (w->stride[i] == 1) continue;
        memcpy(apart, s, sizeof s);
        memmove(apart + 4 + i, apart + 3 + i, (size_t)(w->n - 1 - i) * sizeof *apart);
        apart[3 + i] = 1;
        after[3 + i] = w->stride[i] - 1;
        x = ein_pad(t->g, ein_reshape(t->g, x, w->n + 3, apart), none, after, 0);
        s[2 + i] *= w->stride[i];
        x = ein_slice(t->g, ein_reshape(t->g, x, w->n + 2, s), 2 + i, 0, s[2 + i] - (w->stride[i] - 1));
        s[2 + i] -= w->stride[i] - 1;
    }
    return x;
}

/* Of a transposed convolution: its pads are cut off the full result's ends, so they are less padding here. */
static void transposed_padding(const onnx_node *n, windows *w, const i64 *extent)
{
    const onnx_attribute *shape = onnx_attr(n, "output_shape"), *more = onnx_attr(n, "output_padding");
    const char *how = onnx_attr_string(n, "auto_pad", "NOTSET");
    for (int i = 0; i < w->n; i++) {
        i64 span = (w->kernel[i] - 1) * w->dilation[i],
            full = (extent[i] - 1) * w->stride[i] + at(more, i, 0) + span + 1;
        i64 pads[2] = {at(onnx_attr(n, "pads"), i, 0), at(onnx_attr(n, "pads"), w->n + i, 0)};
        if (shape != NULL || strncmp(how, "SAME", 4) == 0) {
            i64 all = full - (shape != NULL ? at(shape, i, 0) : extent[i] * w->stride[i]);
            pads[0] = all < 0 ? 0 : strcmp(how, "SAME_UPPER") == 0 ? all / 2 : all - all / 2;
            pads[1] = all - pads[0]; /* what lacks is behind */
        }
        w->before[i] = span - pads[0];
        w->after[i] = span - pads[1] + at(more, i, 0);
    }
}

/* A convolution of the spread input with the flipped kernel. */
static void conv_transpose(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0), weight = onnx_input(t, n, 1);
    i64 s[EIN_MAX_RANK], of_x[EIN_MAX_RANK];
    int rank = onnx_shape(t, weight, s), axes[2] = {2, 3};
    windows w = windows_of(t, n, x, s + 2);
    ein_conv_options o = {.size = sizeof o};
    if ((rank != 3 && rank != 4) || onnx_attr_int(n, "group", 1) != 1) {
        onnx_skip(t, "windows of %d dimensions", rank - 2);
        return;
    }
    onnx_shape(t, x, of_x);
    transposed_padding(n, &w, of_x + 2);
    x = pad_space(t, spread(t, x, &w), &w, 0);
    for (int i = 0; i < w.n; i++) o.dilation[i] = w.dilation[i];
    weight = ein_transpose(t->g, ein_flip(t->g, weight, w.n, axes), 0, 1);
    out[0] = (rank == 3 ? ein_conv1d : ein_conv2d)(t->g, x, weight, onnx_input(t, n, 2), &o);
}

/* ---- pools -------------------------------------------------------------------------------------------- */

typedef ein_tensor pool_call(ein_graph *, ein_tensor, const ein_pool_options *);

/* Three dimensions: the last two, then the first, moved behind them. */
static ein_tensor pool_3d(translation *t, ein_tensor x, const windows *w, pool_call *call)
{
    ein_pool_options o = {
        .size = sizeof o, .kernel = {w->kernel[1], w->kernel[2]}, .stride = {w->stride[1], w->stride[2]}};
    ein_pool_options first = {.size = sizeof o, .kernel = {w->kernel[0]}, .stride = {w->stride[0]}};
    for (int i = 0; i < 3; i++)
        if (w->before[i] != 0 || w->after[i] != 0 || w->dilation[i] != 1) onnx_skip(t, "windows of 3 dimensions");
    x = onnx_move_axis(t, call(t->g, x, &o), 2, 4);
    return onnx_move_axis(t, call(t->g, x, &first), 4, 2);
}

/* The calls refuse padding of more than half a window. */
static bool too_wide(const windows *w)
{
    bool wide = false;
    for (int i = 0; i < w->n; i++) {
        i64 half = ((w->kernel[i] - 1) * w->dilation[i] + 1) / 2;
        wide = wide || w->before[i] > half || w->after[i] > half;
    }
    return wide;
}

/* Padded by hand. A mean without the padding is that with it over that of ones. */
static ein_tensor pool_wide(translation *t, ein_tensor x, const windows *w, pool_call *call, ein_pool_options *o)
{
    i64 s[EIN_MAX_RANK];
    for (int i = 0; i < w->n; i++) o->padding[i] = o->padding_end[i] = 0;
    ein_tensor y = call(t->g, pad_space(t, x, w, call == ein_max_pool ? -INFINITY : 0), o);
    if (call == ein_max_pool || !o->exclude_padding) return y;
    ein_tensor ones = ein_expand(t->g, onnx_scalar(t, x, 1), onnx_shape(t, x, s), s);
    return ein_div(t->g, y, call(t->g, pad_space(t, ones, w, 0), o));
}

static void pool(translation *t, const onnx_node *n, ein_tensor *out, pool_call *call)
{
    ein_tensor x = onnx_input(t, n, 0);
    windows w = windows_of(t, n, x, NULL);
    ein_pool_options o = {.size = sizeof o,
                          .ceil_mode = onnx_attr_int(n, "ceil_mode", 0) != 0,
                          .exclude_padding = onnx_attr_int(n, "count_include_pad", 0) == 0};
    if (w.n == 3) {
        out[0] = pool_3d(t, x, &w, call);
        return;
    }
    for (int i = 0; i < w.n && i < 2; i++) {
        o.kernel[i] = w.kernel[i];
        o.stride[i] = w.stride[i];
        o.dilation[i] = w.dilation[i];
        o.padding[i] = w.before[i];
        o.padding_end[i] = w.after[i] - w.before[i];
    }
    out[0] = too_wide(&w) ? pool_wide(t, x, &w, call, &o) : call(t->g, x, &o);
}

static void max_pool(translation *t, const onnx_node *n, ein_tensor *out) { pool(t, n, out, ein_max_pool); }
static void average_pool(translation *t, const onnx_node *n, ein_tensor *out) { pool(t, n, out, ein_avg_pool); }

static ein_tensor over_space(translation *t, const onnx_node *n,
                             ein_tensor (*f)(ein_graph *, ein_tensor, int, const int *, int))
{
    ein_tensor x = onnx_input(t, n, 0);
    int axes[EIN_MAX_RANK], count = 0;
    for (int i = 2; i < onnx_rank(t, x); i++) axes[count++] = i;
    return f(t->g, x, count, axes, 1);
}

static void global_max(translation *t, const onnx_node *n, ein_tensor *out) { out[0] = over_space(t, n, ein_amax); }
static void global_average(translation *t, const onnx_node *n, ein_tensor *out) { out[0] = over_space(t, n, ein_mean); }

const onnx_op onnx_ops_nn[] = {
    {"AveragePool", .make = average_pool},
    {"Conv", .make = conv},
    {"ConvTranspose", .make = conv_transpose},
    {"Einsum", .make = einsum},
    {"Gemm", .make = gemm},
    {"GlobalAveragePool", .make = global_average},
    {"GlobalMaxPool", .make = global_max},
    {"MatMul", .make = mat_mul},
    {"MaxPool", .make = max_pool},
    {.name = NULL}};
