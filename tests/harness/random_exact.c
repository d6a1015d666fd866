/* SPDX-License-Identifier: Apache-2.0 */
/* Random calls of exact values: what decides (comparisons, indices, roundings, casts to integers) would decide
 * otherwise for other roundings of its operands, so these have none. */
#include <math.h>
#include <stdio.h>

#include "tests/harness/random_ops.h"

static const ein_dtype all_types[] = {EIN_F64, EIN_F32, EIN_BF16, EIN_F16, EIN_I64, EIN_I32, EIN_I8, EIN_BOOL};

/* ---- values ------------------------------------------------------------------------------------------- */

/* The largest magnitude of which all multiples of 1/4 (of 1: integers) are numbers of the type. */
static double most_of(ein_dtype d)
{
    switch (d) {
    case EIN_F64: return 0x1p51;
    case EIN_F32: return 0x1p22;
    case EIN_F16: return 0x1p9;
    case EIN_BF16: return 0x1p6;
    case EIN_I64: return 0x1p50; /* outputs are compared as doubles */
    case EIN_I32: return 0x1p31;
    case EIN_I8: return 0x1p7;
    default: return 1;
    }
}

static exact exact_of(maker *m, ein_tensor t, double most)
{
    double limit = most_of(ein_tensor_dtype(m->g, t));
    return (exact){t, most < limit ? most : limit};
}

void add_exact(maker *m, ein_tensor t, double most)
{
    ein_dtype d = ein_tensor_dtype(m->g, t);
    if (most > most_of(d) && ein__dtype_is_float(d)) {
        add_value(m, ein_tanh(m->g, t));
        return;
    }
    if (most > most_of(d) && d == EIN_I64) { /* it may have wrapped */
        t = ein_map(m->g, "mod(x0, 97)", 1, &t);
        most = 97;
    }
    add_value(m, t);
    pooled *p = &m->pool[m->n_pool - 1];
    if (p->t.id != t.id) return; /* full */
    p->exact = true;
    p->most = exact_of(m, t, most).most; /* i8 and i32 wrap */
}

exact exact_leaf(maker *m, ein_dtype dtype, shape s)
{
    i64 n = shape_numel(&s), bytes = ein__dtype_bytes(dtype);
    int most = dice_chance(&m->values, 20) ? 60 : 4;
    char *data = ein__arena_get(m->a, (size_t)n + 1, (size_t)bytes);
    if (dtype == EIN_BOOL) most = 1;
    for (i64 i = 0; data != NULL && i < n; i++) {
        double x = dice_range(&m->values, dtype == EIN_BOOL ? 0 : -most, most);
        if (ein__dtype_is_float(dtype)) x *= 0.25;
        ein__dtype_write(dtype, x, data + i * bytes);
    }
    ein_tensor t = leaf_of(m, dtype, s, data);
    if (t.id != 0) {
        int leaf = m->g->g.values.items[t.id - 1].owner;
        if (leaf < MAX_RANDOM_LEAVES) m->exact_leaf[leaf] = true;
    }
    return (exact){t, ein__dtype_is_float(dtype) ? most * 0.25 : most};
}

static ein_dtype random_type(maker *m)
{
    int i = dice_below(&m->d, 8);
    return m->mixed || i >= 4 ? all_types[i] : EIN_F32;
}

static exact use(maker *m, int i)
{
    m->pool[i].used = true;
    return (exact){m->pool[i].t, m->pool[i].most};
}

exact pick_exact(maker *m, int least)
{
    int from = m->n_pool > 0 ? dice_below(&m->d, m->n_pool) : 0;
    for (int k = 0; k < m->n_pool && dice_chance(&m->d, 97); k++) {
        int i = (from + k) % m->n_pool;
        shape s = shape_of(m, m->pool[i].t);
        if (m->pool[i].exact && s.rank >= least && shape_numel(&s) <= 2 * MOST_ELEMENTS && dice_chance(&m->d, 75))
            return use(m, i);
    }
    ein_dtype d = random_type(m);
    return exact_leaf(m, d, random_shape(m, dice_range(&m->d, least, 3)));
}

exact pick_exact_shaped(maker *m, shape s)
{
    for (int i = m->n_pool - 1; i >= 0 && dice_chance(&m->d, 90); i--) {
        shape have = shape_of(m, m->pool[i].t);
        bool same = m->pool[i].exact && have.rank == s.rank;
        for (int k = 0; same && k < s.rank; k++) same = have.at[k] == s.at[k];
        if (same) return use(m, i);
    }
    return exact_leaf(m, random_type(m), s);
}

/* ---- elementwise -------------------------------------------------------------------------------------- */

static void compare_call(maker *m)
{
    static ein_tensor (*const calls[])(ein_graph *g, ein_tensor a, ein_tensor b) = {
        ein_eq, ein_ne, ein_lt, ein_le, ein_gt, ein_ge, ein_logical_and, ein_logical_or};
    exact a = pick_exact(m, 0);
    exact b = pick_exact_shaped(m, narrower(m, shape_of(m, a.t)));
    bool swap = dice_chance(&m->d, 50);
    if (dice_chance(&m->d, 10)) add_exact(m, ein_logical_not(m->g, a.t), 1);
    else add_exact(m, calls[dice_below(&m->d, 8)](m->g, swap ? b.t : a.t, swap ? a.t : b.t), 1);
}

/* Of exact values, or of any by an exact condition. */
static void where_call(maker *m)
{
    exact c = pick_exact(m, 0);
    shape s = shape_of(m, c.t);
    if (dice_chance(&m->d, 50)) {
        exact a = pick_exact_shaped(m, narrower(m, s)), b = pick_exact_shaped(m, narrower(m, s));
        add_exact(m, ein_where(m->g, c.t, a.t, b.t), fmax(a.most, b.most));
        return;
    }
    ein_tensor a = pick_shaped(m, narrower(m, s)), b = pick_shaped(m, narrower(m, s));
    add_value(m, ein_where(m->g, c.t, a, b));
}

static void exact_map_call(maker *m)
{
    exact a = pick_exact(m, 0), b = pick_exact_shaped(m, narrower(m, shape_of(m, a.t)));
    ein_tensor x[] = {a.t, b.t};
    double sum = a.most + b.most;
    switch (dice_below(&m->d, 13)) {
    case 0: add_exact(m, ein_map(m->g, "x0 + x1", 2, x), sum); break;
    case 1: add_exact(m, ein_map(m->g, "x1 - x0", 2, x), sum); break;
    case 2: add_exact(m, ein_map(m->g, "max(x0, x1)", 2, x), sum); break;
    case 3: add_exact(m, ein_map(m->g, "x0 * floor(x1)", 2, x), a.most * (b.most + 1)); break;
    case 4: add_exact(m, ein_map(m->g, "mod(x0, 3)", 1, x), 3); break;
    case 5: add_exact(m, ein_map(m->g, "floordiv(x0, 3)", 1, x), a.most + 1); break;
    case 6: add_exact(m, ein_map(m->g, "where(x0 > x1, x0, -x1)", 2, x), sum); break;
    case 7: add_exact(m, ein_map(m->g, "sign(x0) - 2 * abs(x1)", 2, x), 1 + 2 * b.most); break;
    case 8: add_exact(m, ein_map(m->g, "and(x0, not(x1))", 2, x), 1); break;
    case 9: add_exact(m, ein_minimum(m->g, a.t, b.t), sum); break;
    case 10: add_exact(m, ein_add(m->g, a.t, b.t), sum); break;
    case 11: add_exact(m, ein_abs(m->g, a.t), a.most); break;
    default: add_exact(m, ein_sign(m->g, a.t), 1); break;
    }
}

static void rounding_call(maker *m)
{
    exact a = pick_exact(m, 0);
    if (ein_tensor_dtype(m->g, a.t) == EIN_BOOL) a.t = ein_cast(m->g, a.t, EIN_F32);
    switch (dice_below(&m->d, 5)) {
    case 0: add_exact(m, ein_floor(m->g, a.t), a.most + 1); break;
    case 1: add_exact(m, ein_ceil(m->g, a.t), a.most + 1); break;
    case 2: add_exact(m, ein_round(m->g, a.t), a.most + 1); break;
    case 3: add_exact(m, ein_map(m->g, "trunc(x0 * 1.5)", 1, &a.t), 1.5 * a.most + 1); break;
    default: add_exact(m, ein_map(m->g, "round(x0 * 0.5)", 1, &a.t), a.most + 1); break;
    }
}

static void cast_call(maker *m)
{
    exact a = pick_exact(m, 0);
    ein_dtype from = ein_tensor_dtype(m->g, a.t), to = random_type(m);
    if (ein__dtype_is_float(to) && a.most > most_of(to)) to = EIN_F64;
    if (ein__dtype_is_float(from) && to == EIN_I8 && dice_chance(&m->d, 30)) { /* beyond its ends, both ways */
        a.t = ein_map(m->g, "x0 * 64", 1, &a.t);
        if (64 * a.most > most_of(ein_tensor_dtype(m->g, a.t)) * 64) return;
    }
    a.t = ein_cast(m->g, a.t, to);
    add_exact(m, a.t, a.most);
    if (to == EIN_I8 || to == EIN_BOOL) m->pool[m->n_pool - 1].most = most_of(to);
}

/* ---- reductions --------------------------------------------------------------------------------------- */

static void exact_reduce_call(maker *m)
{
    exact a = pick_exact(m, 1);
    shape s = shape_of(m, a.t);
    int n = 0, axes[EIN_MAX_RANK], keep = dice_chance(&m->d, 40);
    i64 count = 1;
    for (int i = 0; i < s.rank; i++) {
        if (dice_chance(&m->d, 50)) continue;
        axes[n++] = i;
        count *= s.at[i];
    }
    if (n == 0) count = shape_numel(&s);
    switch (dice_below(&m->d, count > 0 ? 6 : 4)) {
    case 0: add_exact(m, ein_any(m->g, a.t, n, axes, keep), 1); break;
    case 1: add_exact(m, ein_all(m->g, a.t, n, axes, keep), 1); break;
    case 2:
        a.t = count > 16 ? ein_sign(m->g, a.t) : ein_map(m->g, "max(min(floor(x0), 2), -1)", 1, &a.t);
        add_exact(m, ein_prod(m->g, a.t, n, axes, keep), count > 16 ? 1 : pow(2, (double)count));
        break;
    case 3: add_exact(m, ein_sum(m->g, a.t, n, axes, keep), a.most * (double)count); break;
    case 4: add_exact(m, ein_amax(m->g, a.t, n, axes, keep), a.most); break;
    default: add_exact(m, ein_amin(m->g, a.t, n, axes, keep), a.most); break;
    }
}

static void exact_rows_call(maker *m)
{
    exact a = pick_exact(m, 1);
    shape s = shape_of(m, a.t);
    int axis = random_axis(m, s.rank), k;
    i64 extent = s.at[axis < 0 ? axis + s.rank : axis];
    ein_tensor both[2];
    switch (extent > 0 ? dice_below(&m->d, 4) : 3) {
    case 0: add_exact(m, ein_argmax(m->g, a.t, axis, dice_chance(&m->d, 50)), (double)extent); break;
    case 1: add_exact(m, ein_argmin(m->g, a.t, axis, dice_chance(&m->d, 50)), (double)extent); break;
    case 2:
        k = dice_range(&m->d, 0, (int)(extent < 6 ? extent : 6));
        ein_topk(m->g, a.t, k, axis, dice_chance(&m->d, 50), both);
        if (dice_chance(&m->d, 80)) add_exact(m, both[0], a.most);
        if (dice_chance(&m->d, 80)) add_exact(m, both[1], (double)extent);
        break;
    default:
        if (ein_tensor_dtype(m->g, a.t) == EIN_BOOL) a.t = ein_cast(m->g, a.t, EIN_I32);
        add_exact(m, ein_cumsum(m->g, a.t, axis), a.most * (double)extent);
        break;
    }
}

/* ---- products, moves, new values ---------------------------------------------------------------------- */

static void exact_product_call(maker *m)
{
    exact a = pick_exact(m, 1);
    shape s = shape_of(m, a.t), two = random_factors(m, shape_numel(&s), 2);
    exact b = exact_leaf(m, random_type(m), (shape){2, {two.at[1], dice_range(&m->d, 1, 6)}});
    a.t = ein_reshape(m->g, a.t, 2, two.at);
    if (ein_tensor_dtype(m->g, a.t) == EIN_BOOL) a.t = ein_cast(m->g, a.t, EIN_I8);
    b.t = ein_map(m->g, "floor(x0)", 1, &b.t);
    if (ein_tensor_dtype(m->g, b.t) == EIN_BOOL) b.t = ein_cast(m->g, b.t, EIN_I8);
    add_exact(m, ein_matmul(m->g, a.t, b.t), a.most * (b.most + 1) * (double)(two.at[1] + 1));
}

static void exact_part_call(maker *m)
{
    exact a = pick_exact(m, 1);
    ein_tensor y = random_part(m, a.t, true);
    if (dice_chance(&m->d, 10)) y = ein_concat(m->g, 2, (ein_tensor[]){a.t, a.t}, 0);
    if (y.id != a.t.id) add_exact(m, y, a.most);
}

static void new_call(maker *m)
{
    ein_dtype d = random_type(m);
    shape s = random_shape(m, dice_range(&m->d, 0, 3));
    if (d == EIN_BOOL || dice_chance(&m->d, 50)) {
        add_exact(m, ein_full(m->g, d, s.rank, s.at, d == EIN_BOOL ? 1 : -3), 3);
        return;
    }
    i64 n = dice_range(&m->d, m->zeros ? 0 : 1, 30);
    bool quarters = ein__dtype_is_float(d) && dice_chance(&m->d, 50);
    add_exact(m, ein_arange(m->g, d, n, -2, quarters ? 0.25 : 2), 60);
}

/* Rows of integers and bools into a state of their type. */
static void exact_append_call(maker *m)
{
    exact a = pick_exact(m, 1);
    shape whole = shape_of(m, a.t);
    int axis = dice_below(&m->d, whole.rank), more = dice_below(&m->d, 4);
    whole.at[axis] += more;
    ein_tensor state = make_state(m, ein_tensor_dtype(m->g, a.t), whole);
    state = ein_state_append(m->g, state, a.t, axis, make_scalar(m, more));
    add_exact(m, state, a.most);
    if (dice_chance(&m->d, 70)) make_output(m, state);
}

void exact_call(maker *m)
{
    static void (*const calls[])(maker * m) = {
        compare_call,      where_call,      exact_map_call,     exact_map_call,  rounding_call, cast_call, cast_call,
        exact_reduce_call, exact_rows_call, exact_product_call, exact_part_call, new_call,      exact_append_call};
    calls[dice_below(&m->d, (int)(sizeof calls / sizeof *calls))](m);
}

/* ---- computed indices --------------------------------------------------------------------------------- */

/* Indices 0 .. rows of this shape: the last one is outside, and gives zeros. */
static ein_tensor computed_ids(maker *m, shape s, i64 rows)
{
    char expression[32];
    exact a = pick_exact_shaped(m, s);
    ein_tensor ids = ein_cast(m->g, a.t, dice_chance(&m->d, 50) ? EIN_I32 : EIN_I64);
    snprintf(expression, sizeof expression, "mod(x0, %lld)", (long long)rows + 1);
    return ein_map(m->g, expression, 1, &ids);
}

void ids_call(maker *m)
{
    ein_tensor x = pick_ranked(m);
    shape s = shape_of(m, x), ids = s;
    int axis = dice_below(&m->d, s.rank);
    i64 rows = s.at[axis], others = rows > 0 ? shape_numel(&s) / rows : 0;
    if (rows == 0 || dice_chance(&m->d, 20)) {
        exact a = pick_exact(m, 0);
        shape have = shape_of(m, a.t);
        if (shape_numel(&have) > MOST_ELEMENTS / 6 || have.rank == EIN_MAX_RANK) return;
        i64 classes = dice_range(&m->d, 1, 6);
        add_exact(m, ein_one_hot(m->g, computed_ids(m, have, classes), classes, random_type(m)), 1);
        return;
    }
    ids.at[axis] = dice_range(&m->d, 1, others > MOST_ELEMENTS / 9 ? 1 : 9);
    ein_tensor y;
    switch (dice_below(&m->d, 4)) {
    case 0: y = ein_index_select(m->g, x, axis, computed_ids(m, (shape){1, {ids.at[axis]}}, rows)); break;
    case 1: y = ein_gather(m->g, x, axis, computed_ids(m, ids, rows)); break;
    case 2:
        y = ein_scatter_add(m->g, x, axis, computed_ids(m, ids, rows), pick_typed(m, ids, ein_tensor_dtype(m->g, x)));
        y = tame(m, y, ids.at[axis]);
        break;
    default:
        if (s.rank != 2) return;
        y = ein_embedding(m->g, computed_ids(m, random_shape(m, dice_range(&m->d, 0, 2)), s.at[0]), x);
    }
    add_value(m, y);
}

/* ---- routing ------------------------------------------------------------------------------------------ */

/* Logits of which no two in a row are equal: who is chosen does not hang on how exp is rounded. */
static ein_tensor distinct_rows(maker *m, shape s)
{
    ein_dtype d = random_float_type(m);
    i64 bytes = ein__dtype_bytes(d);
    char *data = ein__arena_get(m->a, (size_t)shape_numel(&s) + 1, (size_t)bytes);
    for (i64 r = 0; data != NULL && r < s.at[0]; r++) {
        int order[16];
        for (int i = 0; i < s.at[1]; i++) {
            int k = dice_range(&m->values, 0, i);
            order[i] = order[k];
            order[k] = i;
        }
        for (int i = 0; i < s.at[1]; i++) ein__dtype_write(d, order[i] * 0.25, data + (r * s.at[1] + i) * bytes);
    }
    ein_tensor t = leaf_of(m, d, s, data);
    if (t.id != 0 && m->g->g.values.items[t.id - 1].owner < MAX_RANDOM_LEAVES)
        m->exact_leaf[m->g->g.values.items[t.id - 1].owner] = true;
    return t;
}

void routing_call(maker *m)
{
    shape s = {2, {dice_range(&m->d, m->zeros ? 0 : 1, 12), dice_range(&m->d, 1, 8)}};
    int k = dice_range(&m->d, 1, (int)s.at[1] < 3 ? (int)s.at[1] : 3);
    ein_tensor out[2];
    ein_moe_routing(m->g, distinct_rows(m, s), k, dice_range(&m->d, 1, 5), dice_chance(&m->d, 50), out);
    add_exact(m, out[0], 1);
    add_value(m, out[1]);
}
