/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions, rows, norms. */
#include <string.h>

#include "tests/onnx/translate.h"

typedef ein_tensor reduce(ein_graph *, ein_tensor, int, const int *, int);

/* The axes are an attribute, in later versions an input; none: all, or with noop_with_empty_axes no axis at all. */
static ein_tensor reduce_by(translation *t, const onnx_node *n, ein_tensor x, reduce *f)
{
    const onnx_attribute *a = onnx_attr(n, "axes");
    onnx_numbers k = onnx_known_input(t, n, 1);
    int axes[EIN_MAX_RANK], count = a != NULL ? a->ints.n : k.n;
    if (count == 0 && onnx_attr_int(n, "noop_with_empty_axes", 0) != 0) return x;
    for (int i = 0; i < count && i < EIN_MAX_RANK; i++) axes[i] = (int)(a != NULL ? a->ints.items[i] : k.whole[i]);
    return f(t->g, x, count, axes, (int)onnx_attr_int(n, "keepdims", 1));
}

static ein_tensor square(translation *t, ein_tensor x) { return ein_mul(t->g, x, x); }

#define REDUCE(name, f)                                                   \
    static void name(translation *t, const onnx_node *n, ein_tensor *out) \
    {                                                                     \
        out[0] = reduce_by(t, n, onnx_input(t, n, 0), f);                 \
    }
REDUCE(reduce_sum, ein_sum)
REDUCE(reduce_mean, ein_mean)
REDUCE(reduce_max, ein_amax)
REDUCE(reduce_min, ein_amin)
REDUCE(reduce_prod, ein_prod)
REDUCE(reduce_log_sum_exp, ein_logsumexp)

static void reduce_l1(translation *t, const onnx_node *n, ein_tensor *out)
{
    out[0] = reduce_by(t, n, ein_abs(t->g, onnx_input(t, n, 0)), ein_sum);
}

static void reduce_sum_square(translation *t, const onnx_node *n, ein_tensor *out)
{
    out[0] = reduce_by(t, n, square(t, onnx_input(t, n, 0)), ein_sum);
}

static void reduce_l2(translation *t, const onnx_node *n, ein_tensor *out)
{
    reduce_sum_square(t, n, out);
    out[0] = ein_sqrt(t->g, out[0]);
}

static void reduce_log_sum(translation *t, const onnx_node *n, ein_tensor *out)
{
    out[0] = ein_log(t->g, reduce_by(t, n, onnx_input(t, n, 0), ein_sum));
}

/* ---- indices of the largest --------------------------------------------------------------------------- */

/* The last of equal ones is the first of the flipped. */
static void arg(translation *t, const onnx_node *n, ein_tensor *out, ein_tensor (*f)(ein_graph *, ein_tensor, int, int))
{
    ein_tensor x = onnx_input(t, n, 0);
    i64 shape[EIN_MAX_RANK];
    int axis = onnx_axis(onnx_attr_int(n, "axis", 0), onnx_shape(t, x, shape)),
        keep = (int)onnx_attr_int(n, "keepdims", 1);
    if (onnx_attr_int(n, "select_last_index", 0) == 0) {
        out[0] = f(t->g, x, axis, keep);
        return;
    }
    ein_tensor i = f(t->g, ein_flip(t->g, x, 1, &axis), axis, keep);
    out[0] = ein_sub(t->g, onnx_scalar(t, i, (double)(shape[axis] - 1)), i);
}

static void arg_max(translation *t, const onnx_node *n, ein_tensor *out) { arg(t, n, out, ein_argmax); }
static void arg_min(translation *t, const onnx_node *n, ein_tensor *out) { arg(t, n, out, ein_argmin); }

static void hardmax(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    i64 shape[EIN_MAX_RANK];
    int rank = onnx_shape(t, x, shape), axis = onnx_axis(onnx_attr_int(n, "axis", -1), rank);
    ein_tensor hot = ein_one_hot(t->g, ein_argmax(t->g, x, axis, 0), shape[axis], ein_tensor_dtype(t->g, x));
    out[0] = onnx_move_axis(t, hot, rank - 1, axis);
}

static void top_k(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_topk(t->g, onnx_input(t, n, 0), (int)onnx_known_int(t, n, 1, 0), (int)onnx_attr_int(n, "axis", -1),
             onnx_attr_int(n, "largest", 1) == 0, out);
}

/* ---- rows --------------------------------------------------------------------------------------------- */

static void softmax(translation *t, const onnx_node *n, ein_tensor *out)
{
    out[0] = ein_softmax(t->g, onnx_input(t, n, 0), (int)onnx_attr_int(n, "axis", -1));
}

static void log_softmax(translation *t, const onnx_node *n, ein_tensor *out)
{
    out[0] = ein_log_softmax(t->g, onnx_input(t, n, 0), (int)onnx_attr_int(n, "axis", -1));
}

/* Exclusive: one zero in front, and the last sum gone. */
static void cum_sum(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    i64 before[EIN_MAX_RANK] = {0}, after[EIN_MAX_RANK] = {0};
    int axis = onnx_axis(onnx_known_int(t, n, 1, 0), onnx_rank(t, x));
    bool reverse = onnx_attr_int(n, "reverse", 0) != 0;
    if (reverse) x = ein_flip(t->g, x, 1, &axis);
    x = ein_cumsum(t->g, x, axis);
    before[axis] = 1;
    after[axis] = -1;
    if (onnx_attr_int(n, "exclusive", 0) != 0) x = ein_pad(t->g, x, before, after, 0);
    out[0] = reverse ? ein_flip(t->g, x, 1, &axis) : x;
}

/* ---- norms -------------------------------------------------------------------------------------------- */

static ein_tensor variance(translation *t, ein_tensor x, ein_tensor mean, int n, const int *axes, int keep)
{
    return ein_mean(t->g, square(t, ein_sub(t->g, x, mean)), n, axes, keep);
}

static ein_tensor inverse_deviation(translation *t, ein_tensor variance, double eps)
{
    return ein_rsqrt(t->g, ein_add(t->g, variance, onnx_scalar(t, variance, eps)));
}

/* The dimensions from `axis` on are one row. */
static void layer_normalization(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0), weight = onnx_input(t, n, 1), bias = onnx_input(t, n, 2);
    i64 shape[EIN_MAX_RANK], flat[EIN_MAX_RANK] = {0}, row = -1;
    int rank = onnx_shape(t, x, shape), axis = onnx_axis(onnx_attr_int(n, "axis", -1), rank), axes[EIN_MAX_RANK];
    double eps = onnx_attr_float(n, "epsilon", 1e-5);
    memcpy(flat, shape, sizeof flat);
    flat[axis] = -1;
    ein_tensor y = ein_reshape(t->g, x, axis + 1, flat);
    weight = ein_reshape(t->g, weight, 1, &row);
    if (bias.id != 0) bias = ein_reshape(t->g, bias, 1, &row);
    out[0] = ein_reshape(t->g, ein_layer_norm(t->g, y, weight, bias, eps), rank, shape);
    for (int i = axis; i < rank; i++) axes[i - axis] = i;
    if (n->outputs.n > 1) out[1] = ein_mean(t->g, x, rank - axis, axes, 1);
    if (n->outputs.n > 2) out[2] = inverse_deviation(t, variance(t, x, out[1], rank - axis, axes, 1), eps);
}

static ein_tensor mix(translation *t, ein_tensor old, ein_tensor new, double momentum)
{
    ein_tensor x[4] = {old, new, onnx_scalar(t, old, momentum), onnx_scalar(t, old, 1 - momentum)};
    return ein_map(t->g, "x0 * x2 + x1 * x3", 4, x);
}

/* In training the statistics are the batch's own, and the running ones move towards them. */
static void batch_normalization(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x[5];
    int axes[EIN_MAX_RANK], count = 0;
    double eps = onnx_attr_float(n, "epsilon", 1e-5), momentum = onnx_attr_float(n, "momentum", 0.9);
    for (int i = 0; i < 5; i++) x[i] = onnx_input(t, n, i);
    if (onnx_attr_int(n, "training_mode", 0) != 0) {
        for (int i = 0; i < onnx_rank(t, x[0]); i++)
            if (i != 1) axes[count++] = i;
        ein_tensor mean = ein_mean(t->g, x[0], count, axes, 1), now = ein_mean(t->g, x[0], count, axes, 0);
        ein_tensor spread = variance(t, x[0], mean, count, axes, 0);
        out[1] = mix(t, x[3], now, momentum);
        out[2] = mix(t, x[4], spread, momentum);
        x[3] = now;
        x[4] = spread;
    }
    out[0] = ein_batch_norm(t->g, x[0], x[3], x[4], x[1], x[2], eps);
}

static void instance_normalization(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0), weight = onnx_input(t, n, 1);
    i64 shape[EIN_MAX_RANK];
    onnx_shape(t, x, shape);
    out[0] = ein_group_norm(t->g, x, shape[1], weight, onnx_input(t, n, 2), onnx_attr_float(n, "epsilon", 1e-5));
}

static void mean_variance_normalization(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0), y[3];
    const onnx_attribute *a = onnx_attr(n, "axes");
    int axes[EIN_MAX_RANK] = {0, 2, 3}, count = a != NULL ? a->ints.n : 3;
    for (int i = 0; a != NULL && i < count && i < EIN_MAX_RANK; i++) axes[i] = (int)a->ints.items[i];
    y[0] = x;
    y[1] = ein_mean(t->g, x, count, axes, 1);
    y[2] = variance(t, x, y[1], count, axes, 1);
    out[0] = ein_map(t->g, "(x0 - x1) / (sqrt(x2) + 1e-9)", 3, y);
}

/* Sums over neighbouring channels: slices of the squares between zeros. */
static void lrn(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0), padded, sum = {0};
    i64 shape[EIN_MAX_RANK], size = onnx_attr_int(n, "size", 1), before[EIN_MAX_RANK] = {0}, after[EIN_MAX_RANK] = {0};
    double alpha = onnx_attr_float(n, "alpha", 1e-4), beta = onnx_attr_float(n, "beta", 0.75);
    onnx_shape(t, x, shape);
    before[1] = (size - 1) / 2;
    after[1] = size - 1 - before[1];
    padded = ein_pad(t->g, square(t, x), before, after, 0);
    for (i64 i = 0; i < size; i++) {
        ein_tensor part = ein_slice(t->g, padded, 1, i, i + shape[1]);
        sum = i == 0 ? part : ein_add(t->g, sum, part);
    }
    ein_tensor y[5] = {x, sum, onnx_scalar(t, x, onnx_attr_float(n, "bias", 1)),
                       onnx_scalar(t, x, alpha / (double)size), onnx_scalar(t, x, beta)};
    out[0] = ein_map(t->g, "x0 / pow(x2 + x3 * x1, x4)", 5, y);
}

const onnx_op onnx_ops_reduce[] = {
    {"ArgMax", .make = arg_max},
    {"ArgMin", .make = arg_min},
    {"BatchNormalization", .make = batch_normalization},
    {"CumSum", .make = cum_sum},
    {"Hardmax", .make = hardmax},
    {"InstanceNormalization", .make = instance_normalization},
    {"LayerNormalization", .make = layer_normalization},
    {"LogSoftmax", .make = log_softmax},
    {"LRN", .make = lrn},
    {"MeanVarianceNormalization", .make = mean_variance_normalization},
    {"ReduceL1", .make = reduce_l1},
    {"ReduceL2", .make = reduce_l2},
    {"ReduceLogSum", .make = reduce_log_sum},
    {"ReduceLogSumExp", .make = reduce_log_sum_exp},
    {"ReduceMax", .make = reduce_max},
    {"ReduceMean", .make = reduce_mean},
    {"ReduceMin", .make = reduce_min},
    {"ReduceProd", .make = reduce_prod},
    {"ReduceSum", .make = reduce_sum},
    {"ReduceSumSquare", .make = reduce_sum_square},
    {"Softmax", .make = softmax},
    {"TopK", .make = top_k},
    {.name = NULL}};
