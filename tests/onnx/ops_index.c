/* SPDX-License-Identifier: Apache-2.0 */
/* What looks elements up, and the losses that do. */
#include <string.h>

#include "tests/onnx/translate.h"

/* ---- gather, scatter ---------------------------------------------------------------------------------- */

/* Negative indices count from the end, which the library's do not. Where the data set has none the ids are the input
 * itself, so that the run checks them. */
static ein_tensor ids_of(translation *t, const onnx_node *n, int input, i64 extent)
{
    ein_tensor ids = onnx_input(t, n, input);
    for (int i = 0; i < t->c->model.inputs.n; i++) {
        const onnx_tensor *x = &t->c->inputs[i];
        i64 least = 0, at;
        if (strcmp(t->c->model.inputs.items[i].name, n->inputs.items[input]) != 0) continue;
        for (i64 k = 0; k < x->numel; k++) {
            ein_dtype d = onnx_dtype(x->type);
            ein__dtype_convert(EIN_I64, &at, d, (const char *)x->data + k * ein__dtype_bytes(d), 1);
            least = at < least ? at : least;
        }
        if (least == 0) return ids;
    }
    return onnx_positive_ids(t, ids, extent);
}

/* x[.., ids[a, b], ..] along an axis: its place is taken by the dimensions of ids. */
static ein_tensor gather_along(translation *t, ein_tensor x, int axis, ein_tensor ids)
{
    i64 s[EIN_MAX_RANK], of_ids[EIN_MAX_RANK], to[2 * EIN_MAX_RANK], row = -1;
    int rank = onnx_shape(t, x, s), ids_rank = onnx_shape(t, ids, of_ids), n = 0;
    if (axis == 0 && rank == 2) return ein_embedding(t->g, ids, x);
    ein_tensor y = ein_index_select(t->g, x, axis, ein_reshape(t->g, ids, 1, &row));
    for (int i = 0; i < axis; i++) to[n++] = s[i];
    for (int i = 0; i < ids_rank; i++) to[n++] = of_ids[i];
    for (int i = axis + 1; i < rank; i++) to[n++] = s[i];
    return ein_reshape(t->g, y, n, to);
}

static void gather(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    i64 s[EIN_MAX_RANK];
    int axis = onnx_axis(onnx_attr_int(n, "axis", 0), onnx_shape(t, x, s));
    out[0] = gather_along(t, x, axis, ids_of(t, n, 1, s[axis]));
}

/* The first elements of x along all axes but one, as many as `like` has. */
static ein_tensor crop(translation *t, ein_tensor x, int axis, ein_tensor like)
{
    i64 s[EIN_MAX_RANK], to[EIN_MAX_RANK];
    int rank = onnx_shape(t, x, s);
    onnx_shape(t, like, to);
    for (int i = 0; i < rank; i++)
        if (i != axis && to[i] < s[i]) x = ein_slice(t->g, x, i, 0, to[i]);
    return x;
}

static void gather_elements(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    i64 s[EIN_MAX_RANK];
    int axis = onnx_axis(onnx_attr_int(n, "axis", 0), onnx_shape(t, x, s));
    ein_tensor ids = ids_of(t, n, 1, s[axis]);
    out[0] = ein_gather(t->g, crop(t, x, axis, ids), axis, ids);
}

/* Zeros behind x along all axes but one, up to the extents of `like`. */
static ein_tensor grow(translation *t, ein_tensor x, int axis, ein_tensor like)
{
    i64 s[EIN_MAX_RANK], to[EIN_MAX_RANK], before[EIN_MAX_RANK] = {0}, after[EIN_MAX_RANK] = {0};
    int rank = onnx_shape(t, x, s);
    onnx_shape(t, like, to);
    for (int i = 0; i < rank; i++) after[i] = i == axis ? 0 : to[i] - s[i];
    return ein_pad(t->g, x, before, after, 0);
}

/* To add is a call. To replace is to add to zeros, and to take the sum where something was added. */
static void scatter_elements(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    const char *reduction = onnx_attr_string(n, "reduction", "none");
    i64 s[EIN_MAX_RANK];
    int rank = onnx_shape(t, x, s), axis = onnx_axis(onnx_attr_int(n, "axis", 0), rank);
    ein_tensor source = onnx_input(t, n, 2), ids = ids_of(t, n, 1, s[axis]), hits;
    ein_tensor one = ein_expand(t->g, onnx_scalar(t, x, 1), onnx_shape(t, source, s), s);
    ids = grow(t, ids, axis, x);
    source = grow(t, source, axis, x);
    if (strcmp(reduction, "add") == 0) {
        out[0] = ein_scatter_add(t->g, x, axis, ids, source);
    } else if (strcmp(reduction, "none") == 0) {
        ein_tensor zero = ein_sub(t->g, x, x);
        hits = ein_scatter_add(t->g, zero, axis, ids, grow(t, one, axis, x));
        out[0] = ein_where(t->g, hits, ein_scatter_add(t->g, zero, axis, ids, source), x);
    } else {
        onnx_skip(t, "op ScatterElements that multiplies");
    }
}

/* Rows of indices: one number each, of an element of the flattened leading dimensions. */
static void gather_nd(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0), ids = onnx_input(t, n, 1), sum = {0};
    i64 s[EIN_MAX_RANK], of_ids[EIN_MAX_RANK], to[2 * EIN_MAX_RANK], flat[EIN_MAX_RANK], rows = 1;
    int rank = onnx_shape(t, x, s), ids_rank = onnx_shape(t, ids, of_ids), count = 0;
    if (onnx_attr_int(n, "batch_dims", 0) != 0) {
        onnx_skip(t, "op GatherND with batches");
        return;
    }
    int depth = (int)of_ids[ids_rank - 1];
    for (int i = 0; i < depth; i++) {
        ein_tensor one = ein_squeeze(t->g, ein_slice(t->g, ids, ids_rank - 1, i, i + 1), ids_rank - 1);
        one = onnx_positive_ids(t, one, s[i]);
        sum = i == 0 ? one : ein_add(t->g, ein_mul(t->g, sum, onnx_scalar(t, sum, (double)s[i])), one);
        rows *= s[i];
    }
    flat[count++] = rows;
    for (int i = depth; i < rank; i++) flat[count++] = s[i];
    memcpy(to, of_ids, sizeof of_ids);
    for (int i = depth; i < rank; i++) to[ids_rank - 1 + i - depth] = s[i];
    ein_tensor y = gather_along(t, ein_reshape(t->g, x, count, flat), 0, sum);
    out[0] = ein_reshape(t->g, y, ids_rank - 1 + rank - depth, to);
}

static void compress(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    onnx_numbers keep = onnx_known_input(t, n, 1);
    const onnx_attribute *a = onnx_attr(n, "axis");
    i64 ids[64], row = -1, count = 0;
    if (a == NULL) x = ein_reshape(t->g, x, 1, &row);
    for (int i = 0; i < keep.n && count < 64; i++)
        if (keep.whole[i] != 0) ids[count++] = i;
    out[0] = ein_index_select(t->g, x, a != NULL ? onnx_axis(a->i, onnx_rank(t, x)) : 0,
                              ein_constant(t->g, EIN_I64, 1, &count, ids));
}

static void one_hot(translation *t, const onnx_node *n, ein_tensor *out)
{
    i64 depth = onnx_known_int(t, n, 1, 0);
    ein_tensor ids = ein_cast(t->g, onnx_input(t, n, 0), EIN_I64), values = onnx_input(t, n, 2);
    int rank = onnx_rank(t, ids) + 1, axis = onnx_axis(onnx_attr_int(n, "axis", -1), rank);
    ein_tensor hot = ein_one_hot(t->g, onnx_positive_ids(t, ids, depth), depth, EIN_BOOL);
    ein_tensor off = ein_squeeze(t->g, ein_slice(t->g, values, 0, 0, 1), 0);
    ein_tensor on = ein_squeeze(t->g, ein_slice(t->g, values, 0, 1, 2), 0);
    out[0] = onnx_move_axis(t, ein_where(t->g, hot, on, off), rank - 1, axis);
}

/* ---- losses ------------------------------------------------------------------------------------------- */

typedef struct loss {
    ein_tensor target; /* what is ignored is class 0 */
    ein_tensor weight; /* of each target; {0}: 1 */
} loss;

static loss make_loss(translation *t, const onnx_node *n, ein_tensor target)
{
    const onnx_attribute *ignore = onnx_attr(n, "ignore_index");
    loss k = {target, {0}};
    ein_tensor ignored = {0};
    if (ignore != NULL) {
        ignored = ein_eq(t->g, target, onnx_scalar(t, target, (double)ignore->i));
        k.target = ein_where(t->g, ignored, onnx_scalar(t, target, 0), target);
    }
    if (onnx_has(n, 2)) {
        k.weight = gather_along(t, onnx_input(t, n, 2), 0, k.target);
        if (ignore != NULL) k.weight = ein_where(t->g, ignored, onnx_scalar(t, k.weight, 0), k.weight);
    } else if (ignore != NULL) {
        k.weight = ein_cast(t->g, ein_logical_not(t->g, ignored), ein_tensor_dtype(t->g, onnx_input(t, n, 0)));
    }
    return k;
}

static ein_tensor finish_loss(translation *t, const onnx_node *n, const loss *k, ein_tensor each)
{
    const char *reduction = onnx_attr_string(n, "reduction", "mean");
    if (k->weight.id != 0) each = ein_mul(t->g, each, k->weight);
    if (strcmp(reduction, "none") == 0) return each;
    if (strcmp(reduction, "mean") == 0 && k->weight.id == 0) return ein_mean(t->g, each, 0, NULL, 0);
    each = ein_sum(t->g, each, 0, NULL, 0);
    return strcmp(reduction, "sum") == 0 ? each : ein_div(t->g, each, ein_sum(t->g, k->weight, 0, NULL, 0));
}

static void negative_log_likelihood(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    loss k = make_loss(t, n, onnx_input(t, n, 1));
    ein_tensor each = ein_gather(t->g, x, 1, ein_unsqueeze(t->g, k.target, 1));
    out[0] = finish_loss(t, n, &k, ein_neg(t->g, ein_squeeze(t->g, each, 1)));
}

static void softmax_cross_entropy(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    loss k = make_loss(t, n, onnx_input(t, n, 1));
    ein_tensor each = ein_cross_entropy(t->g, onnx_move_axis(t, x, 1, onnx_rank(t, x) - 1), k.target);
    out[0] = finish_loss(t, n, &k, each);
    if (n->outputs.n > 1) out[1] = ein_log_softmax(t->g, x, 1);
}

const onnx_op onnx_ops_index[] = {
    {"Compress", .make = compress},
    {"Gather", .make = gather},
    {"GatherElements", .make = gather_elements},
    {"GatherND", .make = gather_nd},
    {"NegativeLogLikelihoodLoss", .make = negative_log_likelihood},
    {"OneHot", .make = one_hot},
    {"Scatter", .make = scatter_elements},
    {"ScatterElements", .make = scatter_elements},
    {"SoftmaxCrossEntropyLoss", .make = softmax_cross_entropy},
    {.name = NULL}};
