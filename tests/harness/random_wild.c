/* SPDX-License-Identifier: Apache-2.0 */
/* NaN and infinities in a leaf, through a few calls that say what becomes of them, to an output. Nobody else takes
 * the values: what arithmetic makes of an infinity hangs on the order of sums. */
#include <math.h>

#include "tests/harness/random_ops.h"

static ein_tensor wild_leaf(maker *m, shape s)
{
    ein_dtype d = random_float_type(m);
    i64 n = shape_numel(&s), bytes = ein__dtype_bytes(d);
    char *data = ein__arena_get(m->a, (size_t)n + 1, (size_t)bytes);
    int percent = dice_chance(&m->values, 50) ? 4 : 25;
    for (i64 i = 0; data != NULL && i < n; i++) {
        double x = dice_range(&m->values, -8, 8) * 0.25;
        if (dice_chance(&m->values, percent)) x = (double[]){NAN, INFINITY, -INFINITY}[dice_below(&m->values, 3)];
        ein__dtype_write(d, x, data + i * bytes);
    }
    ein_tensor t = leaf_of(m, d, s, data);
    if (t.id != 0 && m->g->g.values.items[t.id - 1].owner < MAX_RANDOM_LEAVES)
        m->exact_leaf[m->g->g.values.items[t.id - 1].owner] = true;
    return t;
}

/* Floats again. */
static ein_tensor wild_map(maker *m, ein_tensor x)
{
    ein_tensor y[2] = {x, wild_leaf(m, narrower(m, shape_of(m, x)))};
    switch (dice_below(&m->d, 13)) {
    case 0: return ein_maximum(m->g, y[0], y[1]);
    case 1: return ein_minimum(m->g, y[1], y[0]);
    case 2: return ein_add(m->g, y[0], y[1]);
    case 3: return ein_mul(m->g, y[0], y[1]);
    case 4: return ein_relu(m->g, x);
    case 5: return ein_clamp(m->g, x, -1, 1);
    case 6: return ein_where(m->g, ein_lt(m->g, y[0], y[1]), y[0], y[1]);
    case 7: return ein_abs(m->g, x);
    case 8: return ein_sign(m->g, x);
    case 9: return ein_tanh(m->g, x);
    case 10: return ein_exp(m->g, x);
    case 11: return ein_sigmoid(m->g, x);
    default: return random_part(m, x, true);
    }
}

/* Anything. */
static ein_tensor wild_end(maker *m, ein_tensor x)
{
    shape s = shape_of(m, x);
    int axis = random_axis(m, s.rank);
    bool some = s.at[axis < 0 ? axis + s.rank : axis] > 0;
    ein_tensor both[2], y = wild_leaf(m, narrower(m, s));
    switch (dice_below(&m->d, some ? 13 : 8)) {
    case 0: return ein_cast(m->g, x, EIN_I32);
    case 1: return ein_cast(m->g, x, EIN_I8);
    case 2: return ein_cast(m->g, x, EIN_BOOL);
    case 3: return ein_eq(m->g, x, y);
    case 4: return ein_ne(m->g, x, y);
    case 5: return ein_ge(m->g, x, y);
    case 6: return ein_any(m->g, x, 1, &axis, 0);
    case 7: return ein_softmax(m->g, x, axis);
    case 8: return ein_amax(m->g, x, 1, &axis, 0);
    case 9: return ein_amin(m->g, x, 1, &axis, 1);
    case 10: return ein_argmax(m->g, x, axis, 0);
    case 11: return ein_argmin(m->g, x, axis, 1);
    default: ein_topk(m->g, x, 1, axis, dice_chance(&m->d, 50), both); return both[dice_below(&m->d, 2)];
    }
}

void wild_call(maker *m)
{
    ein_tensor x = wild_leaf(m, random_shape(m, dice_range(&m->d, 1, 3)));
    for (int i = dice_below(&m->d, 3); i > 0; i--) x = wild_map(m, x);
    make_output(m, dice_chance(&m->d, 60) && shape_of(m, x).rank > 0 ? wild_end(m, x) : x);
}
