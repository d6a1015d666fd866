/* SPDX-License-Identifier: Apache-2.0 */
/* The variables: an option per node, a layout per carry. Costs of a value that is read once are a table over what
 * makes it and what reads it. A value that is read several times has a variable of its own (exact_value.c). */

#include <math.h>

#include "optimizer/exact_value.h"

enum { SMALL_PAIRS = 60000, PAIRS_PER_MICROSECOND = 2, BYTES_PER_PAIR = 10000 };

i64 ein__exact_cost(const exact *x, double seconds, i64 bytes, int count)
{
    i64 time = ein__cost_times(ein__picoseconds(seconds), count);
    return time > x->limit >> x->up ? FAR : (time << x->up) + ((bytes * count) >> x->down);
}

/* ---- variables ---------------------------------------------------------------------------------------- */

ein_status ein__exact_variable(exact *x, int size, int *out)
{
    *out = x->sizes.n;
    PUSH(x->a, &x->sizes, size);
    return EIN_OK;
}

ein_status ein__exact_unary(exact *x, int var, const i64 *costs)
{
    cost_table t = {.n_vars = var >= 0, .vars = {var}, .at = costs};
    PUSH(x->a, &x->tables, t);
    return EIN_OK;
}

/* A variable that has one value only decides nothing. */
static int deciding(const exact *x, int var) { return var >= 0 && x->sizes.items[var] > 1 ? var : -1; }

static bool all_free(const i64 *matrix, i64 n)
{
    i64 any = 0;
    for (i64 i = 0; i < n; i++) any |= matrix[i];
    return any == 0;
}

ein_status ein__exact_pair(exact *x, int u, const int *row_of, int w, const int *column_of, const i64 *matrix,
                           int n_rows, int n_columns)
{
    int vars[2] = {deciding(x, u), deciding(x, w)}, size[2] = {1, 1};
    bool turned = vars[0] > vars[1];
    cost_table t = {0};
    i64 *at;
    if (all_free(matrix, (i64)n_rows * n_columns)) return EIN_OK;
    if (vars[0] == vars[1]) vars[0] = -1;
    for (int k = 0; k < 2; k++) {
        int var = vars[turned ? 1 - k : k];
        if (var >= 0) t.vars[t.n_vars++] = var;
        if (vars[k] >= 0) size[k] = x->sizes.items[vars[k]];
    }
    NEW(x->a, at, (size_t)size[0] * (size_t)size[1]);
    for (int i = 0; i < size[0]; i++)
        for (int k = 0; k < size[1]; k++) {
            int row = u < 0 ? 0 : row_of[u == w ? k : i], column = w < 0 ? 0 : column_of[k];
            at[turned ? (i64)k * size[0] + i : (i64)i * size[1] + k] = matrix[(i64)row * n_columns + column];
        }
    t.at = at;
    PUSH(x->a, &x->tables, t);
    return EIN_OK;
}

/* ---- nodes -------------------------------------------------------------------------------------------- */

static int count_of(const graph *g, int i)
{
    for (int l = 0; l < g->loops.n; l++)
        if (g->loops.items[l].lo <= i && i < g->loops.items[l].hi) return g->loops.items[l].count;
    return 1;
}

static int n_options(const exact *x, int i)
{
    const option_list *o = &x->p->options[i];
    return x->tier == TIER_ALL ? o->n : x->tier == TIER_MEDIUM ? o->n_medium : o->n_simple;
}

static i64 least_cost(const exact *x, int i, int count)
{
    i64 least = FAR;
    for (int k = 0; k < n_options(x, i); k++) {
        const option *o = &x->p->options[i].items[k];
        i64 cost = ein__exact_cost(x, o->seconds, o->bytes, count);
        if (cost < least) least = cost;
    }
    return least;
}

/* Leaves of a node that it alone reads, in one operand: they lie as the option needs them. */
static bool own_leaf(const exact *x, int i, int operand)
{
    const graph *g = x->g;
    value v = ein__value_source(g, g->nodes.items[i].operands[operand]);
    if (g->values.items[v].kind != VALUE_LEAF || x->readers[v] != 1) return false;
    const leaf *l = &g->leaves.items[g->values.items[v].owner];
    const fixed_layouts *f = x->p->fixed;
    bool fixed = f != NULL && f->leaves != NULL && f->leaves[g->values.items[v].owner] != NULL;
    return !fixed && ein__leaf_weight(g, l) > 0;
}

/* Bytes of its own leaves on the fullest device, under an option: no less than this. */
static double own_bytes(const exact *x, int i, const option *o)
{
    double bytes = 0;
    for (int k = 0; k < x->g->nodes.items[i].spec.n_operands; k++) {
        if (!own_leaf(x, i, k)) continue;
        value v = ein__value_source(x->g, x->g->nodes.items[i].operands[k]);
        const leaf *l = &x->g->leaves.items[x->g->values.items[v].owner];
        double even = ein__leaf_weight(x->g, l) * (double)ein__value_numel(x->g, v) / x->p->prices.n_devices;
        bytes += fmax(even, ein__exact_fullest(x, l, x->p->prices.pool.relations.items[o->needs[k]]));
    }
    return bytes;
}

/* What is left for one node's leaves if all others take an even share of every device. */
static double memory_of(const exact *x, int i)
{
    const graph *g = x->g;
    double left = x->p->capacity;
    for (int l = 0; l < g->leaves.n; l++)
        left -= ein__leaf_weight(g, &g->leaves.items[l]) * (double)ein__value_numel(g, g->leaves.items[l].value) /
                x->p->prices.n_devices;
    for (int k = 0; k < g->nodes.items[i].spec.n_operands; k++) {
        value v = ein__value_source(g, g->nodes.items[i].operands[k]);
        if (own_leaf(x, i, k))
            left += ein__leaf_weight(g, &g->leaves.items[g->values.items[v].owner]) * (double)ein__value_numel(g, v) /
                    x->p->prices.n_devices;
    }
    return left;
}

static ein_status count_readers(exact *x)
{
    const graph *g = x->g;
    NEW(x->a, x->readers, g->values.n);
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.items[i].spec.n_operands && x->p->options[i].n > 0; k++)
            x->readers[ein__value_source(g, g->nodes.items[i].operands[k])]++;
    for (int i = 0; i < g->outputs.n; i++) x->readers[ein__value_source(g, g->outputs.items[i].value)]++;
    for (int l = 0; l < g->loops.n; l++)
        for (int c = 0; c < g->loops.items[l].n_carries; c++) {
            x->readers[ein__value_source(g, g->loops.items[l].carries[c].init)]++;
            x->readers[ein__value_source(g, g->loops.items[l].carries[c].next)]++;
        }
    return EIN_OK;
}

/* Options that alone cost more over the least than any good plan does, or leave no room for the others' leaves, are
 * left out. */
static ein_status add_node(exact *x, int i, i64 least)
{
    const option_list *all = &x->p->options[i];
    int count = count_of(x->g, i), n = 0;
    double memory = memory_of(x, i);
    i64 *costs;
    NEW(x->a, x->kept[i], all->n);
    NEW(x->a, costs, all->n);
    for (int k = 0; k < n_options(x, i); k++) {
        i64 cost = ein__exact_cost(x, all->items[k].seconds, all->items[k].bytes, count);
        if (cost >= FAR || cost - least > x->slack || own_bytes(x, i, &all->items[k]) > memory) continue;
        x->kept[i][n] = k;
        costs[n++] = cost;
    }
    if (n == 0) x->hopeless = true;
    TRY(ein__exact_variable(x, n, &x->of_node[i]));
    return ein__exact_unary(x, x->of_node[i], costs);
}

static ein_status add_nodes(exact *x)
{
    const graph *g = x->g;
    i64 *least, sum = 0;
    NEW(x->a, least, g->nodes.n);
    NEW(x->a, x->of_node, g->nodes.n);
    NEW(x->a, x->kept, g->nodes.n);
    for (int i = 0; i < g->nodes.n; i++) {
        x->of_node[i] = -1;
        if (x->p->options[i].n == 0) continue;
        least[i] = least_cost(x, i, count_of(g, i));
        sum = ein__cost_add(sum, least[i]);
    }
    x->slack = x->limit - sum;
    for (int i = 0; i < g->nodes.n; i++)
        if (x->p->options[i].n > 0) TRY(add_node(x, i, least[i]));
    return EIN_OK;
}

/* ---- carries ------------------------------------------------------------------------------------------ */

/* A carry may lie as some option makes its next value, or as some option wants it; whole; or as in the upper bound. */
typedef struct layout_list { int n, room, *items; } layout_list;

static ein_status add_layout(exact *x, int relation_id, i64 numel, layout_list *out)
{
    const relation *r = x->p->prices.pool.relations.items[relation_id];
    if (ein__relation_check(r, numel, x->p->prices.n_devices, NULL) != EIN_OK) return EIN_OK;
    for (int i = 0; i < out->n; i++)
        if (out->items[i] == relation_id) return EIN_OK;
    PUSH(x->a, out, relation_id);
    return EIN_OK;
}

static ein_status made_layouts(exact *x, value next, i64 numel, layout_list *out)
{
    const value_info *v = &x->g->values.items[next];
    if (v->kind != VALUE_RESULT) return EIN_OK;
    for (int k = 0; k < x->sizes.items[x->of_node[v->owner]]; k++) {
        const option *o = &x->p->options[v->owner].items[x->kept[v->owner][k]];
        const placed *made = &x->p->prices.pool.placed.items[o->results[v->result]];
        if (made->merge == NULL) TRY(add_layout(x, made->states[0], numel, out));
    }
    return EIN_OK;
}

static ein_status wanted_layouts(exact *x, const loop *l, value v, i64 numel, layout_list *out)
{
    for (int i = l->lo; i < l->hi; i++) {
        const node *n = &x->g->nodes.items[i];
        for (int o = 0; o < n->spec.n_operands && x->of_node[i] >= 0; o++) {
            if (ein__value_source(x->g, n->operands[o]) != v) continue;
            for (int k = 0; k < x->sizes.items[x->of_node[i]]; k++)
                TRY(add_layout(x, x->p->options[i].items[x->kept[i][k]].needs[o], numel, out));
        }
    }
    return EIN_OK;
}

static ein_status add_carries(exact *x, const answer *upper)
{
    const graph *g = x->g;
    int n = 0;
    for (int l = 0; l < g->loops.n; l++) n += g->loops.items[l].n_carries;
    NEW(x->a, x->of_carry, n);
    NEW(x->a, x->n_layouts, n);
    NEW(x->a, x->layouts, n);
    for (int l = 0, i = 0; l < g->loops.n; l++)
        for (int c = 0; c < g->loops.items[l].n_carries; c++, i++) {
            const carry *y = &g->loops.items[l].carries[c];
            i64 numel = ein__value_numel(g, y->value);
            relation whole;
            int id;
            layout_list found = {0};
            TRY(add_layout(x, upper->carries[i], numel, &found));
            TRY(ein__relation_whole(x->a, numel, ALL_DEVICES(x->p->prices.n_devices), &whole));
            TRY(ein__pool_relation(&x->p->prices.pool, &whole, &id));
            TRY(add_layout(x, id, numel, &found));
            TRY(made_layouts(x, ein__value_source(g, y->next), numel, &found));
            TRY(wanted_layouts(x, &g->loops.items[l], y->value, numel, &found));
            x->n_layouts[i] = found.n;
            x->layouts[i] = found.items;
            TRY(ein__exact_variable(x, found.n, &x->of_carry[i]));
        }
    return EIN_OK;
}

/* ---- all of it ---------------------------------------------------------------------------------------- */

/* Bits for bytes below the picosecond, as many as leave room for four times the upper bound. */
static void set_scale(exact *x, const answer *upper)
{
    i64 time = ein__picoseconds(upper->seconds) + 1;
    x->up = x->down = 0;
    while (x->up < 24 && time << (x->up + 1) < FAR / 8) x->up++;
    while (x->down < 62 && upper->bytes >> x->down >= (i64)1 << x->up) x->down++;
    x->limit = (time << x->up) + (upper->bytes >> x->down);
}

/* Pairs of options that meet at a value: about as many exchanges may have to be priced. */
static double count_pairs(const exact *x)
{
    const graph *g = x->g;
    double pairs = 0;
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.items[i].spec.n_operands && x->of_node[i] >= 0; k++) {
            const value_info *v = &g->values.items[ein__value_source(g, g->nodes.items[i].operands[k])];
            int from = v->kind == VALUE_RESULT ? x->of_node[v->owner] : v->kind == VALUE_CARRY ? x->of_node[i] : -1;
            if (from >= 0) pairs += (double)x->sizes.items[from] * x->sizes.items[x->of_node[i]];
        }
    return pairs;
}

/* All options where the search is worth it: what may be won is a part of what the plan takes; and it takes no longer
 * than reading the weights at some GB per second. Else the medium, or the simple ones. */
static ein_status choose_options(exact *x, const answer *upper)
{
    double weights = 0;
    for (int l = 0; l < x->g->leaves.n; l++) {
        const leaf *y = &x->g->leaves.items[l];
        weights += ein__leaf_weight(x->g, y) * (double)ein__value_numel(x->g, y->value);
    }
    TRY(add_nodes(x));
    x->floor = (x->limit - x->slack) >> x->up;
    double worth = SMALL_PAIRS + PAIRS_PER_MICROSECOND * upper->seconds * 1e6 + weights / BYTES_PER_PAIR;
    while (count_pairs(x) > worth && x->tier < TIER_SIMPLE) {
        x->tier++;
        x->complete = false;
        x->sizes.n = x->tables.n = 0;
        TRY(add_nodes(x));
    }
    return EIN_OK;
}

ein_status ein__exact_build(exact *x, const answer *upper)
{
    x->complete = true;
    set_scale(x, upper);
    TRY(count_readers(x));
    TRY(choose_options(x, upper));
    if (x->hopeless) return EIN_OK;
    TRY(add_carries(x, upper));
    return ein__exact_values(x);
}

void ein__exact_answer(const exact *x, const int *values, answer *out)
{
    const graph *g = x->g;
    for (int i = 0; i < g->nodes.n; i++)
        if (x->of_node[i] >= 0) out->options[i] = x->kept[i][values[x->of_node[i]]];
    for (int l = 0, i = 0; l < g->loops.n; l++)
        for (int c = 0; c < g->loops.items[l].n_carries; c++, i++)
            out->carries[i] = x->layouts[i][values[x->of_carry[i]]];
    for (int i = 0; i < g->leaves.n; i++) {
        const value_model *v = &x->values[g->leaves.items[i].value];
        out->leaves[i] = -1;
        if (v->n_relations == 0) continue;
        int at = 0; /* one reader: as it wants it */
        if (v->var >= 0) at = v->scripts.items[values[v->var]].origin;
        else if (v->events.n > 0 && v->events.items[0].var >= 0)
            at = v->events.items[0].class_of[values[v->events.items[0].var]];
        out->leaves[i] = v->relations[at];
    }
}
