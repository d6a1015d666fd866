/* SPDX-License-Identifier: Apache-2.0 */
/* Random calls of views and parts, of indices, of convolutions and pools. */
#include "tests/harness/random_ops.h"

/* ---- views and parts ---------------------------------------------------------------------------------- */

static ein_tensor random_walk(maker *m, ein_tensor x, const shape *s, int axis)
{
    i64 n = s->at[axis];
    int step = dice_range(&m->d, 1, 3), at = n > 0 ? dice_below(&m->d, (int)n) : 0;
    if (dice_chance(&m->d, 50)) return ein_slice_step(m->g, x, axis, at, n, step);
    return ein_slice_step(m->g, x, axis - s->rank, at, dice_chance(&m->d, 50) ? INT64_MIN : at / 2, -step);
}

static ein_tensor random_pad(maker *m, ein_tensor x, const shape *s, bool alone)
{
    i64 before[EIN_MAX_RANK] = {0}, after[EIN_MAX_RANK] = {0};
    shape all = *s;
    for (int i = 0; i < s->rank; i++) {
        if (dice_chance(&m->d, 40)) continue;
        before[i] = dice_range(&m->d, s->at[i] > 2 ? -1 : 0, 2);
        after[i] = dice_range(&m->d, s->at[i] > 2 ? -1 : 0, 2);
        all.at[i] += before[i] + after[i];
        if (shape_numel(&all) <= 2 * MOST_ELEMENTS) continue;
        before[i] = after[i] = 0;
        all.at[i] = s->at[i];
    }
    return ein_pad(m->g, x, before, after, alone || dice_chance(&m->d, 50) ? 0 : -0.5);
}

static ein_tensor random_stack(maker *m, ein_tensor x, const shape *s, bool alone)
{
    ein_tensor y[3] = {x, alone ? x : pick_typed(m, *s, ein_tensor_dtype(m->g, x)), x};
    int n = s->rank < EIN_MAX_RANK && shape_numel(s) < MOST_ELEMENTS ? dice_range(&m->d, 1, 3) : 0;
    return n > 0 ? ein_stack(m->g, n, y, dice_range(&m->d, 0, s->rank)) : x;
}

static ein_tensor random_expand(maker *m, ein_tensor x, const shape *s)
{
    shape to = *s;
    i64 n = shape_numel(s);
    for (int i = 0; i < s->rank; i++)
        if (s->at[i] == 1 && n < MOST_ELEMENTS / 4) n *= to.at[i] = dice_range(&m->d, 1, 4);
    if (s->rank < 4 && n < MOST_ELEMENTS / 4) {
        for (int i = to.rank++; i > 0; i--) to.at[i] = to.at[i - 1];
        to.at[0] = dice_range(&m->d, 1, 3);
    }
    return ein_expand(m->g, x, to.rank, to.at);
}

/* One of several pieces. */
static ein_tensor random_split(maker *m, ein_tensor x, const shape *s, int axis)
{
    int n = (int)s->at[axis], at = dice_range(&m->d, 0, n);
    ein_tensor pieces[3];
    i64 sizes[3] = {at, (n - at) / 2, n - at - (n - at) / 2};
    ein_split(m->g, x, 3, sizes, axis, pieces);
    return pieces[m->zeros ? dice_below(&m->d, 3) : sizes[0] > 0 ? 0 : 2];
}

/* One row of an axis, without it or with one more. */
static ein_tensor random_thin(maker *m, ein_tensor x, const shape *s, int axis)
{
    ein_tensor row = ein_slice(m->g, x, axis, -1, INT64_MAX);
    if (s->at[axis] > 0 && dice_chance(&m->d, 50)) return ein_squeeze(m->g, row, axis);
    return s->rank == EIN_MAX_RANK ? row : ein_unsqueeze(m->g, row, dice_range(&m->d, 0, s->rank));
}

ein_tensor random_part(maker *m, ein_tensor x, bool alone)
{
    ein_tensor y;
    shape s = shape_of(m, x);
    int a = dice_below(&m->d, s.rank), b = dice_below(&m->d, s.rank);
    switch (dice_below(&m->d, 12)) {
    case 0: y = ein_flip(m->g, x, a != b ? 2 : 1, (int[]){a, b}); break;
    case 1: y = ein_roll(m->g, x, dice_range(&m->d, -12, 12), a); break;
    case 2: y = random_walk(m, x, &s, a); break;
    case 3: y = random_pad(m, x, &s, alone); break;
    case 4: y = random_stack(m, x, &s, alone); break;
    case 5: y = random_expand(m, x, &s); break;
    case 6: y = ein_transpose(m->g, x, a, b - s.rank); break;
    case 7: y = ein_flatten(m->g, x, a < b ? a : b, a < b ? b : a); break;
    case 8: y = random_split(m, x, &s, a); break;
    case 9: y = random_thin(m, x, &s, a); break;
    case 10: y = s.rank < 2 ? x : ein_triu(m->g, x, dice_range(&m->d, -3, 3)); break;
    default: y = s.rank < 2 ? x : ein_tril(m->g, x, dice_range(&m->d, -3, 3)); break;
    }
    return y;
}

void parts_call(maker *m)
{
    ein_tensor x = pick_ranked(m), y = random_part(m, x, false);
    if (y.id != x.id) add_value(m, y);
}

/* ---- indices ------------------------------------------------------------------------------------------ */

void index_call(maker *m)
{
    ein_tensor x = pick_ranked(m), y;
    shape s = shape_of(m, x), ids = s;
    int axis = dice_below(&m->d, s.rank), rows = (int)s.at[axis];
    i64 others = rows > 0 ? shape_numel(&s) / rows : 0;
    if (rows == 0) return;
    ids.at[axis] = dice_range(&m->d, others > MOST_ELEMENTS / 9 ? 1 : 0, others > MOST_ELEMENTS / 9 ? 1 : 9);
    switch (dice_below(&m->d, 3)) {
    case 0: y = ein_index_select(m->g, x, axis, make_ids(m, (shape){1, {ids.at[axis]}}, rows)); break;
    case 1: y = ein_gather(m->g, x, axis, make_ids(m, ids, rows)); break;
    default:
        y = ein_scatter_add(m->g, x, axis - s.rank, make_ids(m, ids, rows),
                            pick_typed(m, ids, ein_tensor_dtype(m->g, x)));
        y = tame(m, y, ids.at[axis]);
    }
    if (y.id != x.id) add_value(m, y);
}

/* ---- windows ------------------------------------------------------------------------------------------ */

/* Something of this rank without empty dimensions. */
static ein_tensor pick_image(maker *m, int rank, shape *out)
{
    ein_tensor x = pick(m);
    shape s = shape_of(m, x);
    i64 numel = shape_numel(&s);
    if (numel > 0) {
        *out = random_factors(m, numel, rank);
        return ein_reshape(m->g, x, rank, out->at);
    }
    *out = (shape){.rank = rank};
    for (int i = 0; i < rank; i++) out->at[i] = dice_range(&m->d, 1, 5);
    return make_leaf(m, *out);
}

void conv_call(maker *m)
{
    int n = dice_range(&m->d, 1, 2);
    shape x, w = {.rank = n + 2};
    ein_tensor image = pick_image(m, n + 2, &x), bias = {0};
    ein_conv_options o = {.size = sizeof o};
    i64 points = shape_numel(&x);
    for (int i = 0; i < n; i++) {
        i64 most = x.at[2 + i] < 4 ? x.at[2 + i] : 4;
        w.at[2 + i] = dice_range(&m->d, 1, (int)most);
        o.stride[i] = dice_chance(&m->d, 30) ? w.at[2 + i] : dice_range(&m->d, 1, 3);
        if (w.at[2 + i] > 1 && (w.at[2 + i] - 1) * 2 < x.at[2 + i]) o.dilation[i] = dice_range(&m->d, 1, 2);
        if (dice_chance(&m->d, 40)) o.padding[i] = dice_range(&m->d, 0, 2);
        if (dice_chance(&m->d, 20)) o.padding_end[i] = dice_range(&m->d, o.padding[i] > 0 ? -1 : 0, 1);
        points *= w.at[2 + i];
    }
    i64 groups = dice_range(&m->d, 1, 4), out = dice_chance(&m->d, 30) ? 8 : dice_range(&m->d, 1, 3);
    while (x.at[1] % groups != 0) groups--;
    if (points * out > MOST_POINTS) out = 1;
    o.groups = groups;
    w.at[0] = groups * out;
    w.at[1] = x.at[1] / groups;
    ein_dtype type = ein_tensor_dtype(m->g, image);
    ein_tensor weight = pick_typed(m, w, type);
    if (dice_chance(&m->d, 40)) bias = pick_typed(m, (shape){1, {w.at[0]}}, type);
    ein_tensor y = n == 1 ? ein_conv1d(m->g, image, weight, bias, &o) : ein_conv2d(m->g, image, weight, bias, &o);
    add_value(m, tame(m, y, shape_numel(&w) / w.at[0]));
}

void pool_call(maker *m)
{
    int n = dice_range(&m->d, 1, 2);
    shape x;
    ein_tensor image = pick_image(m, dice_range(&m->d, n, n + 2), &x);
    ein_pool_options o = {.size = sizeof o, .ceil_mode = dice_chance(&m->d, 40)};
    o.exclude_padding = dice_chance(&m->d, 50);
    for (int i = 0; i < n; i++) {
        i64 extent = x.at[x.rank - n + i];
        o.kernel[i] = dice_range(&m->d, 1, (int)(extent < 4 ? extent : 4));
        if (dice_chance(&m->d, 60)) o.stride[i] = dice_range(&m->d, 1, 3);
        if (dice_chance(&m->d, 40)) o.padding[i] = dice_range(&m->d, 0, (int)o.kernel[i] / 2);
        if (o.kernel[i] / 2 > o.padding[i] && dice_chance(&m->d, 30)) o.padding_end[i] = 1;
        if (o.padding[i] == 0 && o.padding_end[i] == 0 && (o.kernel[i] - 1) * 2 < extent)
            o.dilation[i] = dice_range(&m->d, 1, 2);
    }
    add_value(m, dice_chance(&m->d, 50) ? ein_max_pool(m->g, image, &o) : ein_avg_pool(m->g, image, &o));
}
