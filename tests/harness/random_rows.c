/* SPDX-License-Identifier: Apache-2.0 */
/* Random calls of norms, losses, choices and running sums. Where rounding could choose another result, the choice is
 * made among the numbers of a leaf. */
#include "tests/harness/random_ops.h"

/* ---- elementwise -------------------------------------------------------------------------------------- */

/* A choice that is exact: by the sign of a leaf's numbers. */
static ein_tensor random_choice(maker *m, shape s) { return ein_gt(m->g, make_leaf(m, s), make_leaf(m, (shape){0})); }

void function_call(maker *m)
{
    ein_graph *g = m->g;
    ein_tensor x = pick(m), y = pick_shaped(m, shape_of(m, x)), z;
    switch (dice_below(&m->d, 14)) {
    case 0: z = ein_gelu(g, x, dice_chance(&m->d, 50)); break;
    case 1: z = ein_abs(g, x); break;
    case 2: z = ein_clamp(g, x, -0.75, 1.5); break;
    case 3: z = ein_maximum(g, x, y); break;
    case 4: z = ein_minimum(g, x, y); break;
    case 5: z = ein_sigmoid(g, x); break;
    case 6: z = ein_tanh(g, ein_neg(g, x)); break;
    case 7: z = ein_exp(g, ein_clamp(g, x, -8, 1)); break;
    case 8: z = ein_rsqrt(g, ein_exp(g, ein_clamp(g, x, -1, 1))); break;
    case 9: z = ein_erf(g, ein_sin(g, x)); break;
    case 10: z = ein_where(g, random_choice(m, shape_of(m, x)), x, y); break;
    case 11: z = ein_cast(g, ein_mul(g, ein_cast(g, x, EIN_F64), y), EIN_F32); break;
    case 12: z = ein_mul(g, x, ein_cast(g, random_choice(m, shape_of(m, x)), EIN_I8)); break;
    default: z = ein_where(g, ein_logical_not(g, random_choice(m, shape_of(m, x))), ein_cos(g, x), y);
    }
    add_value(m, z);
}

/* ---- norms -------------------------------------------------------------------------------------------- */

static ein_tensor random_table(maker *m, i64 n)
{
    return dice_chance(&m->d, 60) ? pick_shaped(m, (shape){1, {n}}) : (ein_tensor){0};
}

static ein_tensor random_channels(maker *m, shape *s)
{
    ein_tensor x = pick(m);
    shape have = shape_of(m, x);
    *s = random_factors(m, shape_numel(&have), dice_range(&m->d, 2, 4));
    return ein_reshape(m->g, x, s->rank, s->at);
}

static ein_tensor random_group_norm(maker *m)
{
    shape s;
    ein_tensor x = random_channels(m, &s);
    i64 groups = dice_range(&m->d, 1, 4);
    while (s.at[1] % groups != 0) groups--;
    return ein_group_norm(m->g, x, groups, random_table(m, s.at[1]), random_table(m, s.at[1]), 0.125);
}

static ein_tensor random_batch_norm(maker *m)
{
    shape s;
    ein_tensor x = random_channels(m, &s), v = pick_shaped(m, (shape){1, {s.at[1]}});
    v = ein_map(m->g, "abs(x0) + 0.5", 1, &v);
    ein_tensor mean = pick_shaped(m, (shape){1, {s.at[1]}});
    return ein_batch_norm(m->g, x, mean, v, random_table(m, s.at[1]), random_table(m, s.at[1]), 0.125);
}

void norm_call(maker *m)
{
    ein_tensor x = pick_ranked(m), y;
    shape s = shape_of(m, x);
    i64 last = s.at[s.rank - 1];
    switch (dice_below(&m->d, 4)) {
    case 0: y = random_group_norm(m); break;
    case 1: y = random_batch_norm(m); break;
    case 2: y = ein_log_softmax(m->g, x, dice_below(&m->d, s.rank)); break;
    default: y = ein_layer_norm(m->g, x, random_table(m, last), random_table(m, last), dice_chance(&m->d, 50) ? 0.01 : 0.125);
    }
    add_value(m, y);
}

/* ---- reductions --------------------------------------------------------------------------------------- */

/* The logarithm of no sum is -inf. */
static ein_tensor random_loss(maker *m, ein_tensor x, shape s)
{
    i64 classes = s.at[s.rank - 1];
    int axis = dice_below(&m->d, s.rank);
    if (dice_chance(&m->d, 50)) {
        s.rank--;
        return classes > 0 ? ein_cross_entropy(m->g, x, make_ids(m, s, classes)) : x;
    }
    return s.at[axis] > 0 ? ein_logsumexp(m->g, x, 1, &axis, dice_chance(&m->d, 40)) : x;
}

static ein_tensor random_truth(maker *m, ein_tensor x, const shape *s)
{
    int axis = dice_below(&m->d, s->rank), keep = 1;
    ein_tensor b = random_choice(m, *s);
    b = dice_chance(&m->d, 50) ? ein_any(m->g, b, 1, &axis, keep) : ein_all(m->g, b, 1, &axis, keep);
    return ein_where(m->g, b, x, ein_neg(m->g, x));
}

/* Positions in a leaf, as numbers of at most 1. */
static ein_tensor random_position(maker *m, const shape *s)
{
    int axis = dice_below(&m->d, s->rank), keep = dice_chance(&m->d, 40);
    ein_tensor x = make_leaf(m, *s), y;
    if (s->at[axis] == 0) return x;
    y = dice_chance(&m->d, 50) ? ein_argmax(m->g, x, axis, keep) : ein_argmin(m->g, x, axis, keep);
    return ein_map(m->g, "x0 / 64", 1, &y);
}

static ein_tensor random_topk(maker *m, ein_tensor x, const shape *s)
{
    int axis = dice_below(&m->d, s->rank), n = (int)s->at[axis];
    int k = dice_range(&m->d, m->zeros || n == 0 ? 0 : 1, n < 5 ? n : 5);
    ein_tensor out[2];
    bool positions = dice_chance(&m->d, 40);
    ein_topk(m->g, positions ? make_leaf(m, *s) : x, k, axis, dice_chance(&m->d, 50), out);
    return positions ? ein_map(m->g, "x0 / 64", 1, &out[1]) : out[0];
}

static ein_tensor random_cumsum(maker *m, ein_tensor x, const shape *s)
{
    int axis = dice_below(&m->d, s->rank);
    return tame(m, ein_cumsum(m->g, x, axis), s->at[axis]);
}

void choice_call(maker *m)
{
    ein_tensor x = pick_ranked(m), y;
    shape s = shape_of(m, x);
    switch (dice_below(&m->d, 5)) {
    case 0: y = random_loss(m, x, s); break;
    case 1: y = random_truth(m, x, &s); break;
    case 2: y = random_position(m, &s); break;
    case 3: y = random_topk(m, x, &s); break;
    default: y = random_cumsum(m, x, &s);
    }
    add_value(m, y);
}
