/* SPDX-License-Identifier: Apache-2.0 */
/* Random calls of row ops and reductions besides those of random_ops.c, of one operand, and of cross entropy. */
#include <math.h>

#include "tests/harness/random_ops.h"

/* ---- reductions and row ops --------------------------------------------------------------------------- */

/* The product of a few elements, near 1 each. */
static ein_tensor random_prod(maker *m, ein_tensor x, const shape *s, int axis)
{
    x = ein_map(m->g, "1 + 0.5 * tanh(x0)", 1, &x);
    if (s->at[axis] > 8) x = ein_slice(m->g, x, axis, 0, 8);
    return ein_prod(m->g, x, 1, &axis, dice_chance(&m->d, 50));
}

/* Statistics that differ from 0 and 1. */
static ein_tensor random_batch_norm(maker *m, ein_tensor x, const shape *s, ein_dtype type)
{
    shape c = {1, {s->at[1]}};
    ein_tensor mean = pick_typed(m, c, type), variance = pick_typed(m, c, type), w = {0}, b = {0};
    variance = ein_map(m->g, "0.5 + x0 * x0", 1, &variance);
    if (dice_chance(&m->d, 60)) w = pick_typed(m, c, type);
    if (dice_chance(&m->d, 60)) b = pick_typed(m, c, type);
    return ein_batch_norm(m->g, x, mean, variance, w, b, 0.01);
}

/* Group norm over channels, if there are any, or layer norm. */
static ein_tensor random_norm(maker *m, ein_tensor x, const shape *s, ein_dtype type)
{
    bool group = s->rank >= 2 && s->at[1] > 0 && dice_chance(&m->d, 50);
    i64 channels = s->at[group ? 1 : s->rank - 1], groups = dice_range(&m->d, 1, 4);
    ein_dtype own = type != EIN_F64 && dice_chance(&m->d, 50) ? EIN_F32 : type; /* of weights */
    ein_tensor w = {0}, b = {0};
    if (dice_chance(&m->d, 60)) w = pick_typed(m, (shape){1, {channels}}, own);
    if (dice_chance(&m->d, 60)) b = pick_typed(m, (shape){1, {channels}}, own);
    if (!group) return ein_layer_norm(m->g, x, w, b, 0.01);
    while (channels % groups != 0) groups--;
    return ein_group_norm(m->g, x, groups, w, b, 0.01);
}

void rows_call(maker *m)
{
    ein_tensor x = pick_ranked(m), y, both[2];
    shape s = shape_of(m, x);
    int axis = random_axis(m, s.rank), at = axis < 0 ? axis + s.rank : axis;
    ein_dtype type = ein_tensor_dtype(m->g, x);
    bool keep = dice_chance(&m->d, 40);
    switch (dice_below(&m->d, 8)) {
    case 0: y = random_prod(m, x, &s, at); break;
    case 1: y = s.at[at] > 0 ? ein_logsumexp(m->g, x, 1, &axis, keep) : x; break;
    case 2: y = ein_log_softmax(m->g, x, axis); break;
    case 3: y = tame(m, ein_cumsum(m->g, x, axis), s.at[at]); break;
    case 4: /* which of nearly equal ones come out is no matter to their values */
        ein_topk(m->g, x, dice_range(&m->d, 0, (int)(s.at[at] < 5 ? s.at[at] : 5)), axis, dice_chance(&m->d, 50), both);
        y = both[0];
        break;
    case 5: y = s.rank >= 2 ? random_batch_norm(m, x, &s, type) : x; break;
    default: y = random_norm(m, x, &s, type); break;
    }
    if (y.id != x.id) add_value(m, y);
}

/* ---- one operand -------------------------------------------------------------------------------------- */

void unary_call(maker *m)
{
    static ein_tensor (*const calls[])(ein_graph *g, ein_tensor x) = {ein_neg, ein_abs, ein_sin, ein_cos, ein_tanh,
                                                                      ein_sigmoid, ein_erf, ein_relu, ein_silu};
    ein_tensor x = pick(m), y;
    switch (dice_below(&m->d, 6)) {
    case 0: y = ein_cast(m->g, x, m->mixed ? random_float_type(m) : EIN_F32); break;
    case 1: y = ein_clamp(m->g, x, -0.5, dice_chance(&m->d, 50) ? 0.75 : INFINITY); break;
    case 2: y = ein_gelu(m->g, x, dice_chance(&m->d, 50)); break;
    case 3: /* of numbers away from 0 */
        y = ein_map(m->g, "0.5 + abs(x0)", 1, &x);
        switch (dice_below(&m->d, 5)) {
        case 0: y = ein_log(m->g, y); break;
        case 1: y = ein_sqrt(m->g, y); break;
        case 2: y = ein_rsqrt(m->g, y); break;
        case 3: y = ein_reciprocal(m->g, y); break;
        default: y = ein_pow(m->g, y, ein_full(m->g, ein_tensor_dtype(m->g, y), 0, NULL, 0.5)); break;
        }
        break;
    case 4: y = ein_exp(m->g, ein_clamp(m->g, x, -INFINITY, 1)); break;
    default: y = calls[dice_below(&m->d, (int)(sizeof calls / sizeof *calls))](m->g, x); break;
    }
    if (y.id != x.id) add_value(m, y);
}

/* ---- loss --------------------------------------------------------------------------------------------- */

void loss_call(maker *m)
{
    ein_tensor x = pick_ranked(m), ids;
    shape s = shape_of(m, x), targets = s;
    i64 classes = s.at[--targets.rank];
    if (classes == 0) return;
    ids = make_ids(m, targets, classes);
    if (dice_chance(&m->d, 30)) /* computed, some outside */
        ids = ein_map(m->g, "x0 + 1", 1, &ids);
    add_value(m, ein_cross_entropy(m->g, x, ids));
}
