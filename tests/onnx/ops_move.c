/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes: what moves elements, and what makes new ones. */
#include <math.h>
#include <string.h>

#include "tests/onnx/translate.h"

/* ---- constants ---------------------------------------------------------------------------------------- */

static void constant(translation *t, const onnx_node *n, ein_tensor *out)
{
    const onnx_attribute *a;
    if ((a = onnx_attr(n, "value")) != NULL && a->t != NULL) out[0] = onnx_constant(t, a->t);
    else if ((a = onnx_attr(n, "value_int")) != NULL) out[0] = ein_constant(t->g, EIN_I64, 0, NULL, &a->i);
    else if ((a = onnx_attr(n, "value_float")) != NULL)
        out[0] = ein_constant(t->g, EIN_F32, 0, NULL, &(float){(float)a->f});
    else if ((a = onnx_attr(n, "value_ints")) != NULL)
        out[0] = ein_constant(t->g, EIN_I64, 1, (i64[]){a->ints.n}, a->ints.items);
    else onnx_skip(t, "op Constant of this kind");
}

static void constant_of_shape(translation *t, const onnx_node *n, ein_tensor *out)
{
    onnx_numbers shape = onnx_known_input(t, n, 0);
    const onnx_attribute *a = onnx_attr(n, "value");
    float zero = 0;
    ein_dtype type = a != NULL ? onnx_dtype(a->t->type) : EIN_F32;
    out[0] = ein_full(t->g, type, shape.n, shape.whole, ein__dtype_read(type, a != NULL ? a->t->data : &zero));
}

static i64 clip(i64 x, i64 lo, i64 hi) { return x < lo ? lo : x > hi ? hi : x; }

static void shape(translation *t, const onnx_node *n, ein_tensor *out)
{
    i64 extents[EIN_MAX_RANK];
    int rank = onnx_shape(t, onnx_input(t, n, 0), extents);
    i64 start = clip(onnx_axis(onnx_attr_int(n, "start", 0), rank), 0, rank);
    i64 end = clip(onnx_axis(onnx_attr_int(n, "end", rank), rank), start, rank);
    out[0] = ein_constant(t->g, EIN_I64, 1, (i64[]){end - start}, extents + start);
}

static void size(translation *t, const onnx_node *n, ein_tensor *out)
{
    i64 extents[EIN_MAX_RANK], numel = 1;
    int rank = onnx_shape(t, onnx_input(t, n, 0), extents);
    for (int i = 0; i < rank; i++) numel *= extents[i];
    out[0] = ein_constant(t->g, EIN_I64, 0, NULL, &numel);
}

static void range(translation *t, const onnx_node *n, ein_tensor *out)
{
    onnx_numbers start = onnx_known_input(t, n, 0), limit = onnx_known_input(t, n, 1), step = onnx_known_input(t, n, 2);
    if (start.n == 0 || limit.n == 0 || step.n == 0) return;
    double count = ceil((limit.real[0] - start.real[0]) / step.real[0]);
    out[0] = ein_arange(t->g, ein_tensor_dtype(t->g, onnx_input(t, n, 0)), count > 0 ? (i64)count : 0, start.real[0],
                        step.real[0]);
}

static void eye_like(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    const onnx_attribute *a = onnx_attr(n, "dtype");
    i64 extents[EIN_MAX_RANK], k = onnx_attr_int(n, "k", 0);
    int rank = onnx_shape(t, x, extents);
    ein_tensor ones =
        ein_full(t->g, a != NULL ? onnx_dtype((onnx_type)a->i) : ein_tensor_dtype(t->g, x), rank, extents, 1);
    out[0] = ein_triu(t->g, ein_tril(t->g, ones, k), k);
}

static void trilu(translation *t, const onnx_node *n, ein_tensor *out)
{
    bool upper = onnx_attr_int(n, "upper", 1) != 0;
    out[0] = (upper ? ein_triu : ein_tril)(t->g, onnx_input(t, n, 0), onnx_known_int(t, n, 1, 0));
}

/* Of signals: a sum of cosines. */
static void window(translation *t, const onnx_node *n, ein_tensor *out, double a0, double a1, double a2)
{
    i64 size = onnx_known_int(t, n, 0, 0);
    double angle = 2 * acos(-1) / (double)(onnx_attr_int(n, "periodic", 1) != 0 ? size : size - 1);
    ein_tensor at = ein_arange(t->g, EIN_F32, size, 0, 1);
    ein_tensor x[5] = {at, onnx_scalar(t, at, a0), onnx_scalar(t, at, a1), onnx_scalar(t, at, a2),
                       onnx_scalar(t, at, angle)};
    out[0] = ein_map(t->g, "x1 - x2 * cos(x0 * x4) + x3 * cos(2 * x0 * x4)", 5, x);
}

static void hann_window(translation *t, const onnx_node *n, ein_tensor *out) { window(t, n, out, 0.5, 0.5, 0); }
static void blackman_window(translation *t, const onnx_node *n, ein_tensor *out) { window(t, n, out, 0.42, 0.5, 0.08); }

static void hamming_window(translation *t, const onnx_node *n, ein_tensor *out)
{
    window(t, n, out, 25.0 / 46, 1 - 25.0 / 46, 0);
}

/* ---- the same elements in the same order -------------------------------------------------------------- */

static void identity(translation *t, const onnx_node *n, ein_tensor *out) { out[0] = onnx_input(t, n, 0); }

/* Without training, or at ratio 0, nothing is dropped. */
static void dropout(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    i64 extents[EIN_MAX_RANK];
    onnx_numbers ratio = onnx_known_input(t, n, 1);
    int rank = onnx_shape(t, x, extents);
    if (onnx_known_int(t, n, 2, 0) != 0 && (ratio.n == 0 || ratio.real[0] != 0)) onnx_skip(t, "random numbers");
    out[0] = x;
    if (n->outputs.n > 1) out[1] = ein_full(t->g, EIN_BOOL, rank, extents, 1);
}

static void reshape(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    onnx_numbers want = onnx_known_input(t, n, 1);
    i64 have[EIN_MAX_RANK], to[EIN_MAX_RANK];
    int rank = onnx_shape(t, x, have);
    bool zeros = onnx_attr_int(n, "allowzero", 0) != 0;
    if (want.n > EIN_MAX_RANK) onnx_skip(t, "rank above 8");
    for (int i = 0; i < want.n && i < EIN_MAX_RANK; i++)
        to[i] = want.whole[i] == 0 && !zeros && i < rank ? have[i] : want.whole[i];
    if (t->why[0] == 0) out[0] = ein_reshape(t->g, x, want.n, to);
}

static void flatten(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    i64 have[EIN_MAX_RANK], to[2] = {1, 1};
    int rank = onnx_shape(t, x, have), axis = onnx_axis(onnx_attr_int(n, "axis", 1), rank);
    for (int i = 0; i < rank; i++) to[i >= axis] *= have[i];
    out[0] = ein_reshape(t->g, x, 2, to);
}

/* The axes of Squeeze and Unsqueeze: an attribute, in later versions an input. As bits; `rank` is that of the tensor
 * that has them. */
static uint32_t axes_bits(translation *t, const onnx_node *n, int rank_less, bool add)
{
    const onnx_attribute *a = onnx_attr(n, "axes");
    onnx_numbers k = onnx_known_input(t, n, 1);
    int count = a != NULL ? a->ints.n : k.n, rank = rank_less + (add ? count : 0);
    uint32_t bits = 0;
    for (int i = 0; i < count; i++) bits |= 1u << (onnx_axis(a != NULL ? a->ints.items[i] : k.whole[i], rank) & 31);
    return bits;
}

static void squeeze(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    i64 have[EIN_MAX_RANK];
    int rank = onnx_shape(t, x, have);
    uint32_t bits = axes_bits(t, n, rank, false);
    for (int i = 0; i < rank && !onnx_has(n, 1) && onnx_attr(n, "axes") == NULL; i++)
        if (have[i] == 1) bits |= 1u << i;
    for (int i = rank - 1; i >= 0; i--)
        if (bits >> i & 1) x = ein_squeeze(t->g, x, i);
    out[0] = x;
}

static void unsqueeze(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    uint32_t bits = axes_bits(t, n, onnx_rank(t, x), true);
    for (int i = 0; i < 32; i++)
        if (bits >> i & 1) x = ein_unsqueeze(t->g, x, i);
    out[0] = x;
}

/* ---- moves -------------------------------------------------------------------------------------------- */

static void transpose(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    const onnx_attribute *a = onnx_attr(n, "perm");
    int axes[EIN_MAX_RANK], rank = onnx_rank(t, x);
    for (int i = 0; i < rank; i++) axes[i] = a != NULL && i < a->ints.n ? (int)a->ints.items[i] : rank - 1 - i;
    out[0] = ein_permute(t->g, x, axes);
}

static void concat(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x[ONNX_MAX_OUTPUTS];
    for (int i = 0; i < n->inputs.n && i < ONNX_MAX_OUTPUTS; i++) x[i] = onnx_input(t, n, i);
    out[0] = ein_concat(t->g, n->inputs.n, x, (int)onnx_attr_int(n, "axis", 0));
}

static void split(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    const onnx_attribute *a = onnx_attr(n, "split");
    onnx_numbers k = onnx_known_input(t, n, 1);
    i64 have[EIN_MAX_RANK], sizes[ONNX_MAX_OUTPUTS];
    int axis = onnx_axis(onnx_attr_int(n, "axis", 0), onnx_shape(t, x, have));
    for (int i = 0; i < n->outputs.n; i++)
        sizes[i] = a != NULL && i < a->ints.n ? a->ints.items[i] : i < k.n ? k.whole[i] : have[axis] / n->outputs.n;
    ein_split(t->g, x, n->outputs.n, sizes, axis, out);
}

/* Starts, ends, axes and steps: inputs, in earlier versions attributes. */
static const i64 *slice_numbers(translation *t, const onnx_node *n, int input, const char *name, int *count)
{
    const onnx_attribute *a = onnx_attr(n, name);
    onnx_numbers k = onnx_known_input(t, n, input);
    *count = a != NULL ? a->ints.n : k.n;
    return a != NULL ? a->ints.items : k.whole;
}

static void slice(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    int count, ends, axes, steps;
    const i64 *start = slice_numbers(t, n, 1, "starts", &count), *end = slice_numbers(t, n, 2, "ends", &ends);
    const i64 *axis = slice_numbers(t, n, 3, "axes", &axes), *step = slice_numbers(t, n, 4, "steps", &steps);
    for (int i = 0; i < count && i < ends; i++) {
        int at = i < axes ? (int)axis[i] : i;
        i64 by = i < steps ? step[i] : 1;
        x = by == 1 ? ein_slice(t->g, x, at, start[i], end[i]) : ein_slice_step(t->g, x, at, start[i], end[i], by);
    }
    out[0] = x;
}

/* Either shape broadcasts to the other. */
static void expand(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    onnx_numbers want = onnx_known_input(t, n, 1);
    i64 have[EIN_MAX_RANK], to[EIN_MAX_RANK];
    int rank = onnx_shape(t, x, have), most = rank > want.n ? rank : want.n;
    if (most > EIN_MAX_RANK) onnx_skip(t, "rank above 8");
    for (int i = 0; i < most && i < EIN_MAX_RANK; i++) {
        i64 a = i - (most - rank) >= 0 ? have[i - (most - rank)] : 1;
        i64 b = i - (most - want.n) >= 0 ? want.whole[i - (most - want.n)] : 1;
        to[i] = b == 1 ? a : b;
    }
    if (t->why[0] == 0) out[0] = ein_expand(t->g, x, most, to);
}

/* [a, b] by [r, s]: [1, a, 1, b] to [r, a, s, b] to [r a, s b]. */
static void tile(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    onnx_numbers times = onnx_known_input(t, n, 1);
    i64 have[EIN_MAX_RANK], apart[EIN_MAX_RANK], full[EIN_MAX_RANK], to[EIN_MAX_RANK];
    int rank = onnx_shape(t, x, have);
    if (2 * rank > EIN_MAX_RANK || times.n != rank) {
        onnx_skip(t, "op Tile of rank %d", rank);
        return;
    }
    for (int i = 0; i < rank; i++) {
        apart[2 * i] = 1;
        full[2 * i] = times.whole[i];
        apart[2 * i + 1] = full[2 * i + 1] = have[i];
        to[i] = have[i] * times.whole[i];
    }
    x = ein_expand(t->g, ein_reshape(t->g, x, 2 * rank, apart), 2 * rank, full);
    out[0] = ein_reshape(t->g, x, rank, to);
}

/* ---- padding ------------------------------------------------------------------------------------------ */

/* `n` elements beside one end of an axis: its outermost one repeated, or those next to it mirrored. */
static ein_tensor border(translation *t, ein_tensor x, int axis, i64 n, bool front, bool reflect)
{
    i64 have[EIN_MAX_RANK];
    int rank = onnx_shape(t, x, have);
    i64 last = have[axis] - 1;
    if (reflect) {
        x = front ? ein_slice(t->g, x, axis, 1, n + 1) : ein_slice(t->g, x, axis, last - n, last);
        return ein_flip(t->g, x, 1, &axis);
    }
    x = front ? ein_slice(t->g, x, axis, 0, 1) : ein_slice(t->g, x, axis, last, last + 1);
    have[axis] = n;
    return ein_expand(t->g, x, rank, have);
}

static void pad(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    const char *mode = onnx_attr_string(n, "mode", "constant");
    onnx_numbers pads = onnx_known_input(t, n, 1), value = onnx_known_input(t, n, 2);
    int rank = onnx_rank(t, x);
    if (pads.n != 2 * rank) {
        onnx_skip(t, "op Pad of this kind");
    } else if (strcmp(mode, "constant") == 0) {
        out[0] = ein_pad(t->g, x, pads.whole, pads.whole + rank, value.n > 0 ? value.real[0] : 0);
    } else {
        bool reflect = strcmp(mode, "reflect") == 0;
        for (int i = 0; i < rank; i++) {
            ein_tensor parts[3];
            int count = 0;
            if (pads.whole[i] > 0) parts[count++] = border(t, x, i, pads.whole[i], true, reflect);
            parts[count++] = x;
            if (pads.whole[rank + i] > 0) parts[count++] = border(t, x, i, pads.whole[rank + i], false, reflect);
            if (count > 1) x = ein_concat(t->g, count, parts, i);
        }
        out[0] = x;
    }
}

/* ---- blocks ------------------------------------------------------------------------------------------- */

static ein_tensor permute_blocks(translation *t, ein_tensor x, const i64 *apart, const int *axes, const i64 *to)
{
    return ein_reshape(t->g, ein_permute(t->g, ein_reshape(t->g, x, 6, apart), axes), 4, to);
}

static void depth_to_space(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    i64 s[EIN_MAX_RANK], b = onnx_attr_int(n, "blocksize", 1);
    bool column_row_depth = strcmp(onnx_attr_string(n, "mode", "DCR"), "CRD") == 0;
    onnx_shape(t, x, s);
    i64 c = s[1] / (b * b);
    if (column_row_depth)
        out[0] = permute_blocks(t, x, (i64[]){s[0], c, b, b, s[2], s[3]}, (int[]){0, 1, 4, 2, 5, 3},
                                (i64[]){s[0], c, s[2] * b, s[3] * b});
    else
        out[0] = permute_blocks(t, x, (i64[]){s[0], b, b, c, s[2], s[3]}, (int[]){0, 3, 4, 1, 5, 2},
                                (i64[]){s[0], c, s[2] * b, s[3] * b});
}

static void space_to_depth(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    i64 s[EIN_MAX_RANK], b = onnx_attr_int(n, "blocksize", 1);
    onnx_shape(t, x, s);
    out[0] = permute_blocks(t, x, (i64[]){s[0], s[1], s[2] / b, b, s[3] / b, b}, (int[]){0, 3, 5, 1, 2, 4},
                            (i64[]){s[0], s[1] * b * b, s[2] / b, s[3] / b});
}

const onnx_op onnx_ops_move[] = {
    {"BlackmanWindow", .make = blackman_window},
    {"Concat", .make = concat},
    {"Constant", .make = constant},
    {"ConstantOfShape", .make = constant_of_shape},
    {"DepthToSpace", .make = depth_to_space},
    {"Dropout", .make = dropout},
    {"Expand", .make = expand},
    {"EyeLike", .make = eye_like},
    {"Flatten", .make = flatten},
    {"HammingWindow", .make = hamming_window},
    {"HannWindow", .make = hann_window},
    {"Identity", .make = identity},
    {"Pad", .make = pad},
    {"Range", .make = range},
    {"Reshape", .make = reshape},
    {"Shape", .make = shape},
    {"Size", .make = size},
    {"Slice", .make = slice},
    {"SpaceToDepth", .make = space_to_depth},
    {"Split", .make = split},
    {"Squeeze", .make = squeeze},
    {"Tile", .make = tile},
    {"Transpose", .make = transpose},
    {"Trilu", .make = trilu},
    {"Unsqueeze", .make = unsqueeze},
    {.name = NULL}};
