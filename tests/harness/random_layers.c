/* SPDX-License-Identifier: Apache-2.0 */
/* A few layers that look alike, so that the canonical form rolls them: every layer throws the same dice, and
 * makes leaves of its own. */
#include <stdio.h>
#include <string.h>

#include "tests/harness/random_ops.h"

/* What goes from layer to layer, and what all share. */
typedef struct layered {
    ein_tensor x, y;   /* of one shape */
    ein_tensor shared; /* of that shape, made before the first layer */
    ein_scalar position;
} layered;

static ein_tensor map2(maker *m, const char *expression, ein_tensor a, ein_tensor b)
{
    return ein_map(m->g, expression, 2, (ein_tensor[]){a, b});
}

static ein_tensor project(maker *m, ein_tensor x, i64 to)
{
    shape s = shape_of(m, x);
    i64 k = s.at[s.rank - 1];
    ein_tensor bias = {0}, w = make_leaf(m, (shape){2, {to, k}});
    if (dice_chance(&m->d, 30)) bias = make_leaf(m, (shape){1, {to}});
    return ein_linear(m->g, x, w, bias);
}

static void residual_step(maker *m, layered *l)
{
    shape s = shape_of(m, l->x);
    i64 d = s.at[s.rank - 1];
    ein_tensor h = l->x;
    if (dice_chance(&m->d, 50)) h = ein_silu(m->g, project(m, h, dice_range(&m->d, 1, 6)));
    l->x = map2(m, "x0 + 0.25 * x1", l->x, project(m, h, d));
}

static void norm_step(maker *m, layered *l)
{
    shape s = shape_of(m, l->x);
    ein_tensor w = {0};
    if (dice_chance(&m->d, 60)) w = make_leaf(m, (shape){1, {s.at[s.rank - 1]}});
    l->x = ein_rms_norm(m->g, l->x, w, 0.01);
}

static void gate_step(maker *m, layered *l)
{
    shape s = shape_of(m, l->x);
    ein_tensor w = make_leaf(m, dice_chance(&m->d, 50) ? s : (shape){1, {s.at[s.rank - 1]}});
    l->x = map2(m, "x0 * sigmoid(x1) + 0.1", l->x, w);
}

static void softmax_step(maker *m, layered *l)
{
    int axis = dice_below(&m->d, shape_of(m, l->x).rank);
    l->x = map2(m, "0.5 * x0 + x1", l->x, ein_softmax(m->g, l->x, axis));
}

static void attention_step(maker *m, layered *l)
{
    shape s = shape_of(m, l->x), q = random_factors(m, shape_numel(&s), 4);
    ein_attention_options o = {.size = sizeof o, .causal = dice_chance(&m->d, 50), .position = l->position};
    ein_tensor x = ein_reshape(m->g, l->x, 4, q.at), k = x, v = x;
    if (dice_chance(&m->d, 50)) k = map2(m, "x0 * x1", k, make_leaf(m, (shape){1, {q.at[3]}}));
    if (dice_chance(&m->d, 50)) v = project(m, v, q.at[3]);
    x = ein_scaled_dot_product_attention(m->g, x, k, v, &o);
    l->x = map2(m, "x0 - 0.5 * x1", l->x, ein_reshape(m->g, x, s.rank, s.at));
}

static void mix_step(maker *m, layered *l)
{
    shape s = shape_of(m, l->x);
    char equation[48] = "zc,", rest[16] = "c";
    for (int i = 1; i < s.rank; i++) rest[i] = (char)('d' + i);
    snprintf(equation + 3, sizeof equation - 3, "%s->z%s", rest, rest + 1);
    ein_tensor w = make_leaf(m, (shape){2, {s.at[0], s.at[0]}});
    l->x =
        ein_map(m->g, "tanh(x0)", 1, (ein_tensor[]){ein_einsum(m->g, equation, 2, (ein_tensor[]){w, l->x})});
}

static void append_step(maker *m, layered *l)
{
    shape s = shape_of(m, l->x), whole = s;
    int axis = dice_below(&m->d, s.rank);
    whole.at[axis] += 3;
    ein_tensor t = ein_state_append(m->g, make_state(m, ein_tensor_dtype(m->g, l->x), whole), l->x, axis, l->position);
    l->x = map2(m, "x0 + x1", l->x, ein_mean(m->g, t, 1, &axis, 1));
}

static void shared_step(maker *m, layered *l) { l->x = map2(m, "x0 + 0.5 * x1", l->x, l->shared); }

static void swap_step(maker *m, layered *l)
{
    ein_tensor x = l->x;
    l->x = map2(m, "0.5 * x0 + x1", x, l->y);
    l->y = x;
}

static void other_step(maker *m, layered *l) { l->y = map2(m, "max(x0, x1) * 0.75", l->y, l->x); }

static void rotate_step(maker *m, layered *l)
{
    shape s = shape_of(m, l->x);
    int axis = dice_below(&m->d, s.rank);
    ein_tensor parts[2] = {ein_slice(m->g, l->x, axis, 1, s.at[axis]), ein_slice(m->g, l->x, axis, 0, 1)};
    l->x = ein_concat(m->g, 2, parts, axis);
}

static void rope_step(maker *m, layered *l)
{
    shape s = shape_of(m, l->x), d;
    i64 numel = shape_numel(&s);
    ein_tensor c, t, x;
    if (numel % 2 != 0) return;
    d = random_factors(m, numel / 2, 4);
    d.at[3] *= 2;
    x = ein_reshape(m->g, l->x, 4, d.at);
    ein_rope_tables(m->g, d.at[1] + 3, d.at[3], 100, &c, &t);
    l->x = ein_reshape(m->g, ein_rope(m->g, x, c, t, l->position), s.rank, s.at);
}

static void one_layer(maker *m, int steps, layered *l)
{
    static void (*const all[])(maker * m, layered * l) = {
        residual_step, norm_step,   gate_step, softmax_step, attention_step, mix_step,
        append_step,   shared_step, swap_step, other_step,   rotate_step,    rope_step};
    for (int i = 0; i < steps; i++) all[dice_below(&m->d, (int)(sizeof all / sizeof *all))](m, l);
}

static layered start_layers(maker *m)
{
    layered l = {0};
    shape s = random_shape(m, dice_range(&m->d, 1, 3));
    ein_tensor x = pick(m);
    shape have = shape_of(m, x);
    i64 numel = shape_numel(&have);
    if (have.rank > 0 && have.rank <= 5 && numel > 0 && numel <= 300)
        s = have;
    else
        x = (ein_tensor){0};
    for (int i = 0; i < s.rank; i++)
        if (s.at[i] == 0) s.at[i] = 2;
    l.x = x.id != 0 ? x : make_leaf(m, s);
    m->type = ein_tensor_dtype(m->g, l.x); /* of all that is in the layers */
    l.y = pick_typed(m, s, m->type);
    l.shared = pick_typed(m, s, m->type);
    l.position = make_scalar(m, 3);
    return l;
}

int layers_call(maker *m)
{
    layered l = start_layers(m);
    int count = dice_range(&m->d, 2, 4), steps = dice_range(&m->d, 1, 4);
    dice again = dice_make(dice_next(&m->d), 1);
    bool peek = dice_chance(&m->d, 10);
    m->in_layer = true;
    for (int i = 0; i < count; i++) {
        dice outside = m->d;
        m->d = again;
        one_layer(m, steps, &l);
        m->d = outside;
        if (peek && i == 0) add_value(m, l.x);
    }
    m->in_layer = false;
    m->type = 0;
    add_value(m, l.x);
    add_value(m, l.y);
    return steps;
}
