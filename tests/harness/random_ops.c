/* SPDX-License-Identifier: Apache-2.0 */
/* One random call of each op. What would make tensors too large is replaced by a call that does not. */
#include "tests/harness/random_ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- elementwise -------------------------------------------------------------------------------------- */

/* Continuous, so that rounding cannot choose another branch. */
static const char *const bodies[3][10] = {
    {"x0 * sigmoid(x0)", "tanh(x0) * 0.5", "exp(-abs(x0))", "sqrt(abs(x0) + 0.25)", "rsqrt(x0 * x0 + 0.5)",
     "log(abs(x0) + 1)", "sin(x0) - cos(2 * x0)", "erf(x0) + relu(x0)", "pow(abs(x0) + 0.5, 0.75)",
     "where(x0 > 0, x0, 0.1 * x0)"},
    {"x0 + x1", "x0 - x1", "x0 * x1 / (1 + abs(x0))", "x0 / (1 + abs(x1))", "max(x0, x1)", "min(x0, x1)",
     "0.5 * x0 + x1", "x0 * sigmoid(x1)", "x1 - 0.25 * x0", "max(x0, x1) - min(x0, x1)"},
    {"x0 * tanh(x1) + x2", "x0 + x1 * sigmoid(x2)", "where(x0 > x1, x0 - x1, 0) * tanh(x2)",
     "max(x0, max(x1, x2))", "x0 - x1 + x2", "(x0 + x1 + x2) * 0.5", "min(x0, x1) + x2",
     "x2 + x0 * 0.125 + x1", "x0 + x2", "-x0 + x1 / (1 + x2 * x2)"}};

shape narrower(maker *m, shape s)
{
    shape r = s;
    int drop = s.rank > 0 && dice_chance(&m->d, 25) ? dice_range(&m->d, 1, s.rank) : 0;
    r.rank = s.rank - drop;
    for (int i = 0; i < r.rank; i++) r.at[i] = dice_chance(&m->d, 20) ? 1 : s.at[i + drop];
    return r;
}

static void map_call(maker *m)
{
    int n = dice_range(&m->d, 1, 3);
    ein_tensor x[3] = {pick(m)};
    shape s = shape_of(m, x[0]);
    for (int i = 1; i < n; i++)
        x[i] = dice_chance(&m->d, 10) ? x[0] : pick_shaped(m, dice_chance(&m->d, 50) ? s : narrower(m, s));
    if (n > 1 && dice_chance(&m->d, 50)) {
        ein_tensor t = x[0];
        x[0] = x[n - 1];
        x[n - 1] = t;
    }
    add_value(m, ein_map(m->g, bodies[n - 1][dice_below(&m->d, 10)], n, x));
}

static void named_call(maker *m)
{
    ein_tensor x = pick(m), y = pick_shaped(m, shape_of(m, x));
    switch (dice_below(&m->d, 8)) {
    case 0: add_value(m, ein_add(m->g, x, y)); break;
    case 1: add_value(m, ein_sub(m->g, y, x)); break;
    case 2: add_value(m, ein_mul(m->g, x, ein_map(m->g, "tanh(x0)", 1, &y))); break;
    case 3: add_value(m, ein_div(m->g, x, ein_map(m->g, "1 + abs(x0)", 1, &y))); break;
    case 4: add_value(m, ein_relu(m->g, x)); break;
    case 5: add_value(m, ein_maximum(m->g, x, y)); break;
    case 6: add_value(m, ein_minimum(m->g, y, x)); break;
    default: add_value(m, ein_silu(m->g, x)); break;
    }
}

/* ---- products ----------------------------------------------------------------------------------------- */

typedef struct letters {
    int n;
    i64 extent[12];
} letters;

/* Letters for one operand's dimensions; x's are those of its shape, others are free. Writes them to `out`. */
static shape spell(maker *m, letters *l, const shape *x, char *out)
{
    shape s = {.rank = x != NULL ? x->rank : dice_range(&m->d, 0, 3)};
    int at[EIN_MAX_RANK];
    for (int i = 0; i < s.rank; i++) {
        bool fresh = l->n == 0 || (l->n < 12 && dice_chance(&m->d, x != NULL ? 80 : 35));
        at[i] = fresh ? l->n : dice_below(&m->d, l->n);
        if (x != NULL && !fresh && l->extent[at[i]] != x->at[i]) fresh = true, at[i] = l->n;
        if (fresh) l->extent[l->n++] = x != NULL ? x->at[i] : random_extent(m);
        s.at[i] = l->extent[at[i]];
        out[i] = (char)('a' + at[i]);
    }
    for (int i = 0; i < s.rank && x == NULL; i++) { /* an extent of 1 gives way, but not on a diagonal */
        bool once = strchr(out, out[i]) == &out[i] && strchr(&out[i] + 1, out[i]) == NULL;
        if (once && dice_chance(&m->d, 6)) s.at[i] = 1;
    }
    return s;
}

/* The letters of the result, in any order, while it is not too large; k: the product of the others. */
static void spell_result(maker *m, const letters *l, uint32_t used, char *out, i64 *k)
{
    int n = 0;
    i64 numel = 1;
    *k = 1;
    for (int i = 0; i < l->n; i++) {
        if (!(used >> i & 1)) continue;
        if (n == EIN_MAX_RANK || numel * l->extent[i] > MOST_ELEMENTS || dice_chance(&m->d, 35)) {
            *k *= l->extent[i];
            continue;
        }
        int to = dice_range(&m->d, 0, n);
        memmove(out + to + 1, out + to, (size_t)(n - to));
        out[to] = (char)('a' + i);
        numel *= l->extent[i];
        n++;
    }
}

static void einsum_call(maker *m)
{
    char equation[64] = "", result[EIN_MAX_RANK + 1] = "";
    letters l = {0};
    ein_tensor x[3];
    int n = dice_chance(&m->d, 60) ? 2 : dice_range(&m->d, 1, 3);
    i64 points = 1, k;
    uint32_t used = 0;
    x[0] = pick(m);
    for (int i = 0; i < n; i++) {
        shape first = shape_of(m, x[0]);
        char word[EIN_MAX_RANK + 1] = "";
        shape s = spell(m, &l, i == 0 ? &first : NULL, word);
        for (int c = 0; word[c] != 0; c++) used |= 1u << (word[c] - 'a');
        snprintf(equation + strlen(equation), sizeof equation - strlen(equation), "%s%s", i > 0 ? "," : "",
                 word);
        if (i > 0) x[i] = pick_shaped(m, s);
    }
    for (int i = 0; i < l.n; i++)
        if (l.extent[i] > 0) points *= l.extent[i];
    if (points > MOST_POINTS) {
        map_call(m);
        return;
    }
    spell_result(m, &l, used, result, &k);
    snprintf(equation + strlen(equation), sizeof equation - strlen(equation), "->%s", result);
    add_value(m, tame(m, ein_einsum(m->g, equation, n, x), k));
}

static void matmul_call(maker *m)
{
    ein_tensor x = pick_ranked(m), y;
    shape a = shape_of(m, x), b = {0};
    i64 k;
    if (a.rank >= 2 && dice_chance(&m->d, 30)) { /* x on the right */
        k = a.at[a.rank - 2];
        if (dice_chance(&m->d, 25))
            b = (shape){1, {k}};
        else {
            b = narrower(
                m, (shape){.rank = a.rank - 2, .at = {a.at[0], a.at[1], a.at[2], a.at[3], a.at[4], a.at[5]}});
            b.at[b.rank++] = random_extent(m);
            b.at[b.rank++] = k;
        }
        y = ein_matmul(m->g, pick_shaped(m, b), x);
    } else {
        k = a.at[a.rank - 1];
        shape batch = {.rank = a.rank > 2 ? a.rank - 2 : 0};
        memcpy(batch.at, a.at, (size_t)batch.rank * sizeof batch.at[0]);
        b = narrower(m, batch);
        if (a.rank <= 2 && dice_chance(&m->d, 20))
            b = (shape){1, {dice_range(&m->d, 1, 3)}}; /* b brings a batch */
        if (dice_chance(&m->d, 20))
            b = (shape){1, {k}};
        else {
            b.at[b.rank++] = k;
            b.at[b.rank++] = random_extent(m);
        }
        ein_tensor z = pick_shaped(m, b);
        if (a.rank >= 2 && b.rank >= 2 && dice_chance(&m->d, 40))
            y = ein_einsum(m->g, dice_chance(&m->d, 70) ? "...ij,...jk->...ik" : "...ij,...jk", 2,
                           (ein_tensor[]){x, z});
        else
            y = ein_matmul(m->g, x, z);
    }
    add_value(m, tame(m, y, k));
}

static void linear_call(maker *m)
{
    ein_tensor x = pick_ranked(m), bias = {0};
    shape s = shape_of(m, x);
    i64 k = s.at[s.rank - 1], n = random_extent(m);
    ein_dtype type = ein_tensor_dtype(m->g, x);
    ein_tensor w = pick_typed(m, (shape){2, {n, k}}, type);
    if (dice_chance(&m->d, 50)) bias = pick_typed(m, (shape){1, {n}}, type);
    add_value(m, tame(m, ein_linear(m->g, x, w, bias), k));
}

/* ---- reductions and row ops --------------------------------------------------------------------------- */

int random_axis(maker *m, int rank)
{
    int axis = dice_below(&m->d, rank);
    return dice_chance(&m->d, 25) ? axis - rank : axis;
}

static void reduce_call(maker *m)
{
    ein_tensor x = pick(m), y;
    shape s = shape_of(m, x);
    int n = 0, axes[EIN_MAX_RANK], keep = dice_chance(&m->d, 40);
    i64 count = 1;
    for (int i = 0; i < s.rank; i++) {
        if (dice_chance(&m->d, 50)) continue;
        axes[n++] = dice_chance(&m->d, 25) ? i - s.rank : i;
        count *= s.at[i];
    }
    if (n == 0) count = shape_numel(&s);
    switch (count > 0 ? dice_below(&m->d, 4) : 0) { /* the mean of nothing is NaN, its maximum an error */
    case 1: y = ein_mean(m->g, x, n, axes, keep); break;
    case 2: y = ein_amax(m->g, x, n, axes, keep); break;
    case 3: y = ein_amin(m->g, x, n, axes, keep); break;
    default: y = tame(m, ein_sum(m->g, x, n, axes, keep), count);
    }
    add_value(m, y);
}

static void softmax_call(maker *m)
{
    ein_tensor x = pick_ranked(m);
    add_value(m, ein_softmax(m->g, x, random_axis(m, shape_of(m, x).rank)));
}

static void rms_norm_call(maker *m)
{
    ein_tensor x = pick_ranked(m), w = {0};
    shape s = shape_of(m, x);
    if (dice_chance(&m->d, 60)) w = pick_typed(m, (shape){1, {s.at[s.rank - 1]}}, ein_tensor_dtype(m->g, x));
    add_value(m, ein_rms_norm(m->g, x, w, dice_chance(&m->d, 50) ? 0.01 : 0.125));
}

/* ---- attention ---------------------------------------------------------------------------------------- */

static void rope_call(maker *m)
{
    ein_tensor x = pick(m), c, s;
    shape have = shape_of(m, x), d;
    i64 numel = shape_numel(&have);
    if (numel % 2 == 0 && numel > 0) {
        d = random_factors(m, numel / 2, 4);
        d.at[3] *= 2;
        x = ein_reshape(m->g, x, 4, d.at);
    } else {
        d = random_shape(m, 4);
        d.at[3] = 2 * dice_range(&m->d, 1, 4);
        x = make_leaf(m, d);
    }
    i64 positions = d.at[1] + dice_below(&m->d, 5);
    if (dice_chance(&m->d, 50)) {
        ein_rope_tables(m->g, positions, d.at[3], 100, &c, &s);
    } else {
        ein_dtype type = dice_chance(&m->d, 50) ? EIN_F32 : ein_tensor_dtype(m->g, x);
        c = pick_typed(m, (shape){2, {positions, d.at[3] / 2}}, type);
        s = pick_typed(m, (shape){2, {positions, d.at[3] / 2}}, type);
    }
    ein_scalar at = make_scalar(m, positions - d.at[1]);
    add_value(m, dice_chance(&m->d, 50) ? ein_rope(m->g, x, c, s, at) : ein_rope_interleaved(m->g, x, c, s, at));
}

/* A query, and the head size of the values: some as in practice, most of whatever size a value has. */
static ein_tensor random_query(maker *m, shape *q, i64 *e)
{
    static const i64 sizes[] = {8, 16, 24, 32, 48, 64, 80};
    if (dice_chance(&m->d, 20)) {
        *e = sizes[dice_below(&m->d, 5)];
        *q = (shape){4, {1, dice_range(&m->d, 1, 4), dice_range(&m->d, 1, 8), sizes[dice_below(&m->d, 7)]}};
        return make_leaf(m, *q);
    }
    ein_tensor x = pick(m);
    shape have = shape_of(m, x);
    *q = random_factors(m, shape_numel(&have), 4);
    if (q->at[3] == 0) q->at[3] = 1, q->at[dice_below(&m->d, 3)] = 0;
    *e = random_extent(m);
    if (*e == 0) *e = 1;
    return ein_reshape(m->g, x, 4, q->at);
}

/* Shapes of keys and values; false if they would be too large. */
static bool random_keys(maker *m, const shape *q, i64 e, shape *k, shape *v)
{
    i64 heads = q->at[1] > 0 ? q->at[1] : 1, groups = dice_range(&m->d, 1, 4), t = random_extent(m);
    while (heads % groups != 0) groups--;
    if (q->at[1] == 0) groups = 1;
    if (q->at[0] * q->at[1] * q->at[2] * t * (q->at[3] + e) > MOST_POINTS) t = 2;
    *k = *v = (shape){4, {q->at[0], q->at[1] / groups, t, q->at[3]}};
    v->at[3] = q->at[0] * q->at[1] * q->at[2] * e > MOST_ELEMENTS ? 1 : e;
    return shape_numel(k) <= 4 * MOST_ELEMENTS && shape_numel(v) <= 4 * MOST_ELEMENTS;
}

/* Bools, or floats of which some are -infinity. */
static ein_tensor mask_leaf(maker *m, shape s, ein_dtype type)
{
    if (dice_chance(&m->d, 50)) return exact_leaf(m, EIN_BOOL, s).t;
    i64 n = shape_numel(&s), bytes = ein__dtype_bytes(type);
    char *data = ein__arena_get(m->a, (size_t)n + 1, (size_t)bytes);
    for (i64 i = 0; data != NULL && i < n; i++)
        ein__dtype_write(type, dice_chance(&m->values, 30) ? -INFINITY : dice_real(&m->values), data + i * bytes);
    return leaf_of(m, type, s, data);
}

/* Scores are of q's type, `type`. */
static void hide_keys(maker *m, shape scores, ein_dtype type, ein_attention_options *o)
{
    i64 t = scores.at[3];
    if (dice_chance(&m->d, 40)) o->position = make_scalar(m, t);
    if (dice_chance(&m->d, 40)) o->length = make_scalar(m, t + 1);
    if (dice_chance(&m->d, 30)) o->window = dice_range(&m->d, 1, (int)t + 2);
    if (dice_chance(&m->d, 30)) o->softcap = 2;
    if (dice_chance(&m->d, 60)) return;
    shape s = narrower(m, scores);
    if (dice_chance(&m->d, 50)) type = EIN_F32;
    o->mask = dice_chance(&m->d, 40) ? pick_typed(m, s, type) : mask_leaf(m, s, type);
}

static void attention_call(maker *m)
{
    shape q, k, v;
    i64 e, t;
    ein_tensor x = random_query(m, &q, &e), out[3];
    if (!random_keys(m, &q, e, &k, &v)) {
        map_call(m);
        return;
    }
    t = k.at[2];
    ein_attention_options o = {
        .size = sizeof o, .causal = dice_chance(&m->d, 50), .scale = dice_chance(&m->d, 70) ? 0 : 0.75};
    ein_dtype type = ein_tensor_dtype(m->g, x);
    hide_keys(m, (shape){4, {q.at[0], q.at[1], q.at[2], t}}, type, &o);
    ein_tensor key = pick_typed(m, k, type),
               val = dice_chance(&m->d, 10) && v.at[3] == k.at[3] ? key : pick_typed(m, v, type);
    if (dice_chance(&m->d, 60)) {
        add_value(m, ein_scaled_dot_product_attention(m->g, x, key, val, &o));
        return;
    }
    ein_scaled_dot_product_attention_partial(m->g, x, key, val, &o, out);
    if (dice_chance(&m->d, 30)) make_output(m, out[0]);
    add_value(m, ein_map(m->g, "max(x0, -8)", 1, &out[0])); /* of a row without keys it is -3e38 */
    add_value(m, dice_chance(&m->d, 50) ? out[1] : ein_map(m->g, "x0 / (1 + x0)", 1, &out[1]));
    add_value(m, tame(m, out[2], t));
}

static void embedding_call(maker *m)
{
    shape t = {2, {dice_range(&m->d, 1, 12), random_extent(m)}};
    ein_tensor table = {0};
    for (int i = m->n_pool - 1; i >= 0 && table.id == 0 && dice_chance(&m->d, 80); i--) {
        shape s = shape_of(m, m->pool[i].t);
        if (s.rank != 2 || s.at[0] == 0 || !is_float(m, m->pool[i].t)) continue;
        table = m->pool[i].t;
        t = s;
        mark_used(m, table);
    }
    if (table.id == 0) table = make_leaf(m, t);
    ein_tensor ids = make_ids(m, random_shape(m, dice_range(&m->d, 0, 2)), t.at[0]);
    add_value(m, ein_embedding(m->g, ids, table));
}

/* ---- moves -------------------------------------------------------------------------------------------- */

static void reshape_call(maker *m)
{
    ein_tensor x = pick(m);
    shape s = shape_of(m, x);
    i64 numel = shape_numel(&s);
    s = random_factors(m, numel, dice_range(&m->d, numel == 1 ? 0 : 1, 5));
    if (numel > 0 && s.rank > 0 && dice_chance(&m->d, 25)) s.at[dice_below(&m->d, s.rank)] = -1;
    add_value(m, ein_reshape(m->g, x, s.rank, s.at));
}

static void permute_call(maker *m)
{
    ein_tensor x = pick_ranked(m);
    int rank = shape_of(m, x).rank, axes[EIN_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        int k = dice_range(&m->d, 0, i);
        axes[i] = axes[k];
        axes[k] = i;
    }
    if (dice_chance(&m->d, 20)) axes[0] -= rank;
    add_value(m, ein_permute(m->g, x, axes));
}

static void slice_call(maker *m)
{
    ein_tensor x = pick_ranked(m);
    shape s = shape_of(m, x);
    int axis = dice_below(&m->d, s.rank), n = (int)s.at[axis];
    int lo = n > 0 ? dice_below(&m->d, n) : 0, hi = n > 0 ? dice_range(&m->d, lo + 1, n) : 0;
    if (m->zeros && dice_chance(&m->d, 10)) hi = lo;
    i64 start = lo > 0 && dice_chance(&m->d, 30) ? lo - n : lo,
        end = hi < n && hi > 0 && dice_chance(&m->d, 30) ? hi - n : hi;
    add_value(m, ein_slice(m->g, x, dice_chance(&m->d, 30) ? axis - s.rank : axis, start, end));
}

static void concat_call(maker *m)
{
    ein_tensor x[4] = {pick_ranked(m)};
    shape s = shape_of(m, x[0]), all = s;
    int axis = dice_below(&m->d, s.rank), n = dice_range(&m->d, 2, 4), k = 1;
    for (int i = 1; i < n; i++) {
        shape t = s;
        if (dice_chance(&m->d, 60)) t.at[axis] = random_extent(m);
        all.at[axis] += t.at[axis];
        if (shape_numel(&all) > 2 * MOST_ELEMENTS) break;
        bool same = dice_chance(&m->d, 15) && t.at[axis] == s.at[axis];
        x[k++] = same ? x[0] : pick_typed(m, t, ein_tensor_dtype(m->g, x[0]));
    }
    if (dice_chance(&m->d, 40)) {
        ein_tensor first = x[0];
        x[0] = x[k - 1];
        x[k - 1] = first;
    }
    add_value(m, ein_concat(m->g, k, x, axis));
}

static void append_call(maker *m)
{
    ein_tensor rows = pick_ranked(m), state;
    shape s = shape_of(m, rows), whole = s;
    int axis = dice_below(&m->d, s.rank);
    whole.at[axis] += dice_below(&m->d, 5);
    ein_scalar position = make_scalar(m, whole.at[axis] - s.at[axis]);
    state = ein_state_append(m->g, make_state(m, ein_tensor_dtype(m->g, rows), whole), rows, axis, position);
    add_value(m, state);
    if (dice_chance(&m->d, 70)) make_output(m, state);
}

/* ---- the choice --------------------------------------------------------------------------------------- */

void random_call(maker *m)
{
    static const struct {
        int weight;
        void (*call)(maker *m);
    } calls[] = {{16, einsum_call}, {8, matmul_call},     {8, linear_call},    {12, map_call},
                 {4, named_call},   {10, reduce_call},    {7, softmax_call},   {7, rms_norm_call},
                 {6, rope_call},    {10, attention_call}, {6, embedding_call}, {7, reshape_call},
                 {6, permute_call}, {7, slice_call},      {7, concat_call},    {6, custom_call},
                 {5, append_call},  {14, parts_call},     {8, index_call},     {8, conv_call},
                 {5, pool_call},    {12, rows_call},      {7, unary_call},     {4, loss_call},
                 {45, exact_call},  {8, ids_call},        {4, routing_call}};
    enum { N_CALLS = sizeof calls / sizeof *calls };
    int sum = 0, k = 0;
    for (int i = 0; i < N_CALLS; i++) sum += calls[i].weight;
    int at = dice_below(&m->d, sum);
    while (at >= calls[k].weight) at -= calls[k++].weight;
    calls[k].call(m);
}
