/* SPDX-License-Identifier: Apache-2.0 */
/* A pool of values grows call by call; what nobody used becomes an output, or stays dead code. */
#include "tests/harness/random_graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/random_ops.h"

/* ---- shapes ------------------------------------------------------------------------------------------- */

shape shape_of(const maker *m, ein_tensor t)
{
    shape s = {0};
    s.rank = ein_tensor_shape(m->g, t, s.at);
    return s;
}

i64 shape_numel(const shape *s)
{
    i64 n = 1;
    for (int i = 0; i < s->rank; i++) n *= s->at[i];
    return n;
}

int random_extent(maker *m)
{
    if (m->zeros && dice_chance(&m->d, 8)) return 0;
    if (m->large && dice_chance(&m->d, 20)) return dice_range(&m->d, 10, 40);
    return dice_chance(&m->d, 15) ? 1 : dice_range(&m->d, 1, 9);
}

shape random_shape(maker *m, int rank)
{
    shape s = {.rank = rank};
    i64 numel = 1;
    for (int i = 0; i < rank; i++) {
        s.at[i] = random_extent(m);
        if (numel * s.at[i] > MOST_ELEMENTS) s.at[i] = 1;
        numel *= s.at[i];
    }
    return s;
}

shape random_factors(maker *m, i64 numel, int rank)
{
    shape s = {.rank = rank};
    for (int i = 0; i < rank; i++) s.at[i] = 1;
    if (rank == 0) return s;
    if (numel == 0) {
        s = random_shape(m, rank);
        s.at[dice_below(&m->d, rank)] = 0;
    }
    for (i64 p = 2; numel > 1; p++)
        for (; numel % p == 0; numel /= p) s.at[dice_below(&m->d, rank)] *= p;
    return s;
}

/* ---- leaves ------------------------------------------------------------------------------------------- */

static const char *new_name(maker *m, const char *stem)
{
    return ein__arena_printf(m->a, "%s%d", stem, m->n_names++);
}

ein_dtype random_float_type(maker *m)
{
    static const ein_dtype types[] = {EIN_F64, EIN_F32, EIN_F32, EIN_BF16, EIN_BF16, EIN_F16};
    if (m->type != 0) return m->type;
    return m->mixed ? types[dice_below(&m->d, 6)] : EIN_F32;
}

static void *make_floats(maker *m, ein_dtype dtype, i64 n)
{
    bool coarse = dice_chance(&m->values, 25); /* ties, exact sums, zeros */
    i64 bytes = ein__dtype_bytes(dtype);
    char *x = ein__arena_get(m->a, (size_t)n + 1, (size_t)bytes);
    for (i64 i = 0; x != NULL && i < n; i++) {
        double number = coarse ? dice_range(&m->values, -4, 4) * 0.25 : dice_real(&m->values);
        ein__dtype_write(dtype, number, x + i * bytes);
    }
    return x;
}

static ein_tensor remember(maker *m, ein_tensor t, const void *data)
{
    if (t.id != 0) {
        int i = m->g->g.values.items[t.id - 1].owner;
        if (i < MAX_RANDOM_LEAVES) m->data[i] = data;
    }
    return t;
}

ein_tensor leaf_of(maker *m, ein_dtype dtype, shape s, const void *data)
{
    int kind = dice_below(&m->d, 100);
    if (kind < 45 || m->in_layer)
        return remember(m, ein_parameter(m->g, new_name(m, "p"), dtype, s.rank, s.at), data);
    if (kind < 80) return remember(m, ein_input(m->g, new_name(m, "x"), dtype, s.rank, s.at), data);
    return ein_constant(m->g, dtype, s.rank, s.at, data);
}

ein_tensor make_state(maker *m, ein_dtype dtype, shape s)
{
    return ein_state_tensor(m->g, new_name(m, "s"), dtype, s.rank, s.at);
}

ein_tensor make_leaf(maker *m, shape s)
{
    ein_dtype dtype = random_float_type(m);
    if (!m->in_layer && dice_chance(&m->d, 2)) return make_state(m, dtype, s); /* only read: zeros */
    return leaf_of(m, dtype, s, make_floats(m, dtype, shape_numel(&s)));
}

ein_tensor make_ids(maker *m, shape s, i64 rows)
{
    i64 n = shape_numel(&s);
    int32_t *narrow = ein__arena_get(m->a, (size_t)n + 1, sizeof *narrow);
    i64 *wide = ein__arena_get(m->a, (size_t)n + 1, sizeof *wide);
    for (i64 i = 0; narrow != NULL && wide != NULL && i < n; i++)
        narrow[i] = (int32_t)(wide[i] = dice_below(&m->d, (int)rows));
    return dice_chance(&m->d, 50) ? leaf_of(m, EIN_I32, s, narrow) : leaf_of(m, EIN_I64, s, wide);
}

ein_scalar make_scalar(maker *m, i64 most)
{
    if (m->n_scalars == MAX_SCALARS || dice_chance(&m->d, 40)) return (ein_scalar){0};
    int i = m->n_scalars;
    if (i > 0 && dice_chance(&m->d, 40)) i = dice_below(&m->d, i);
    if (i == m->n_scalars) {
        m->scalars[m->n_scalars++].most = most;
        m->scalars[i].s = ein_scalar_input(m->g, new_name(m, "n"));
    }
    if (most < m->scalars[i].most) m->scalars[i].most = most;
    return m->scalars[i].s;
}

/* ---- the pool ----------------------------------------------------------------------------------------- */

void add_value(maker *m, ein_tensor t)
{
    if (m->n_pool < MAX_POOL) m->pool[m->n_pool++] = (pooled){.t = t};
}

void mark_used(maker *m, ein_tensor t)
{
    for (int i = 0; i < m->n_pool; i++)
        if (m->pool[i].t.id == t.id) m->pool[i].used = true;
}

bool is_float(const maker *m, ein_tensor t) { return ein__dtype_is_float(ein_tensor_dtype(m->g, t)); }

ein_tensor as_type(maker *m, ein_tensor t, ein_dtype dtype)
{
    return ein_tensor_dtype(m->g, t) == dtype ? t : ein_cast(m->g, t, dtype);
}

ein_tensor pick(maker *m)
{
    if (m->n_pool == 0 || dice_chance(&m->d, 20))
        return make_leaf(m, random_shape(m, dice_range(&m->d, 0, 4)));
    int i = dice_chance(&m->d, 50) ? m->n_pool - 1 - dice_below(&m->d, 4) : -1;
    if (i < 0) i = dice_below(&m->d, m->n_pool);
    for (int k = 0; k < m->n_pool && !is_float(m, m->pool[i].t); k++) i = (i + 1) % m->n_pool;
    shape s = shape_of(m, m->pool[i].t);
    if (shape_numel(&s) > 2 * MOST_ELEMENTS || !is_float(m, m->pool[i].t))
        return make_leaf(m, random_shape(m, dice_range(&m->d, 0, 4)));
    mark_used(m, m->pool[i].t);
    return m->pool[i].t;
}

ein_tensor pick_ranked(maker *m)
{
    ein_tensor t = pick(m);
    return shape_of(m, t).rank > 0 ? t : make_leaf(m, random_shape(m, dice_range(&m->d, 1, 4)));
}

ein_tensor pick_shaped(maker *m, shape s)
{
    int from = m->n_pool > 0 ? dice_below(&m->d, m->n_pool) : 0;
    bool fresh = dice_chance(&m->d, 50);
    for (int k = 0; k < m->n_pool && !m->in_layer && !fresh; k++) {
        ein_tensor t = m->pool[(from + k) % m->n_pool].t;
        shape have = shape_of(m, t);
        bool same = have.rank == s.rank;
        for (int i = 0; same && i < s.rank; i++) same = have.at[i] == s.at[i];
        if (!is_float(m, t) || (!same && (shape_numel(&have) != shape_numel(&s) || !dice_chance(&m->d, 50))))
            continue;
        mark_used(m, t);
        return same ? t : ein_reshape(m->g, t, s.rank, s.at);
    }
    return make_leaf(m, s);
}

ein_tensor pick_typed(maker *m, shape s, ein_dtype dtype)
{
    ein_dtype was = m->type;
    m->type = dtype;
    ein_tensor t = pick_shaped(m, s);
    m->type = was;
    return as_type(m, t, dtype);
}

ein_tensor tame(maker *m, ein_tensor x, i64 terms)
{
    char expression[48];
    if (ein_tensor_dtype(m->g, x) == EIN_F16) { /* ends at 65504 */
        snprintf(expression, sizeof expression, "4 * tanh(x0 * %.6f)", terms > 1 ? 0.25 / sqrt((double)terms) : 0.25);
        return ein_map(m->g, expression, 1, &x);
    }
    if (terms <= 1 || dice_chance(&m->d, terms <= 4 ? 60 : 10)) return x;
    snprintf(expression, sizeof expression, "x0 * %.6f", 1 / sqrt((double)terms));
    return ein_map(m->g, expression, 1, &x);
}

/* ---- the graph ---------------------------------------------------------------------------------------- */

void make_output(maker *m, ein_tensor t) { ein_output(m->g, new_name(m, "y"), t); }

static void make_outputs(maker *m)
{
    int n = m->g->g.outputs.n;
    for (int i = m->n_pool - 1; i >= 0; i--) {
        bool want = m->pool[i].used ? dice_chance(&m->d, 10) : n < 6 && !dice_chance(&m->d, 8);
        if (!want && (i > 0 || n > 0)) continue;
        make_output(m, m->pool[i].t);
        if (dice_chance(&m->d, 3)) make_output(m, m->pool[i].t);
        n++;
    }
}

static ein_status grow(maker *m, int ops)
{
    m->zeros = dice_chance(&m->d, 12);
    m->large = dice_chance(&m->d, 20);
    m->mixed = dice_chance(&m->d, 60);
    if (dice_chance(&m->d, 10)) wild_call(m);
    int at = ops > 3 && dice_chance(&m->d, 35) ? dice_below(&m->d, ops) : -1;
    for (int i = 0; i < ops; i++) {
        if (i == at)
            i += layers_call(m);
        else
            random_call(m);
    }
    if (m->n_pool == 0) add_value(m, make_leaf(m, random_shape(m, 2)));
    make_outputs(m);
    return ein_graph_status(m->g);
}

static ein_status fill(maker *m, random_graph *out)
{
    int n = m->g->g.leaves.n;
    if (n > MAX_RANDOM_LEAVES) return EIN_INVALID;
    NEW(m->a, out->leaves, n);
    memcpy(out->leaves, m->data, (size_t)n * sizeof *out->leaves);
    NEW(m->a, out->exact, m->g->g.values.n);
    for (int i = 0; i < n; i++) out->exact[m->g->g.leaves.items[i].value] = m->exact_leaf[i];
    for (int i = 0; i < m->n_pool; i++)
        if (m->pool[i].exact) out->exact[m->pool[i].t.id - 1] = true;
    for (int k = 0; k < GRAPH_RUNS; k++) {
        NEW(m->a, out->scalars[k], m->n_scalars);
        for (int i = 0; i < m->n_scalars; i++)
            out->scalars[k][i] = dice_below(&m->d, (int)m->scalars[i].most + 1);
    }
    return EIN_OK;
}

ein_status random_graph_make(uint64_t seed, int ops, random_graph *out)
{
    maker m = {.d = dice_make(seed, 0), .values = dice_make(seed, 1), .a = &out->arena};
    memset(out, 0, sizeof *out);
    TRY(ein_graph_create(&out->graph));
    m.g = out->graph;
    TRY(grow(&m, ops));
    return fill(&m, out);
}

void random_graph_free(random_graph *g)
{
    ein_graph_free(g->graph);
    ein__arena_free(&g->arena);
}
