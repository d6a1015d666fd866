/* SPDX-License-Identifier: Apache-2.0 */
/* The plan is walked as lowering does: what each node lacks is fetched from what there is of the value, and stays for
 * later readers; a loop's body counts as often as it runs; next values that are made elsewhere than they are carried
 * are moved; outputs go to the host. */
#include "optimizer/price_plan.h"

#include "optimizer/cost.h"

#include "optimizer/search.h"

typedef struct pricing {
    prices *p;
    const graph *g;
    const plan *plan;
    int *lists; /* per value: what there is of it, -1: nothing */
    plan_price *out;
    error *e;
} pricing;

static void pay(part_price *part, double seconds, i64 bytes, int count)
{
    part->exchange = ein__cost_add(part->exchange, ein__cost_times(ein__picoseconds(seconds), count));
    part->bytes += bytes * count;
}

static ein_status place(pricing *k, value v, const relation *r)
{
    int id;
    TRY(ein__pool_finished(&k->p->pool, r, &id));
    return ein__pool_list(&k->p->pool, -1, id, &k->lists[v]);
}

static ein_status price_node(pricing *k, int i, int count)
{
    const node *n = &k->g->nodes.items[i];
    part_price *part = &k->out->nodes[i];
    option x = {.choice = k->plan->nodes[i]};
    *part = (part_price){.times = count};
    if (ein__node_is_view(n)) return EIN_OK;
    TRY(ein__price_option(k->p, n, &x));
    if (x.seconds < 0) return ein__fail(k->e, EIN_NO_PLAN, "%s (node %d): a tuple of too many boxes", n->name, i);
    part->compute = ein__picoseconds(x.seconds);
    part->bytes = x.bytes;
    for (int o = 0; o < n->spec.n_operands; o++) {
        fetch got;
        int *list = &k->lists[ein__value_source(k->g, n->operands[o])];
        TRY(ein__price_fetch(k->p, i, o, &x.choice, x.needs[o], *list, &got));
        pay(part, got.seconds, got.bytes, 1);
        *list = got.list;
    }
    for (int r = 0; r < n->spec.n_results; r++)
        TRY(ein__pool_list(&k->p->pool, -1, x.results[r], &k->lists[n->results[r]]));
    return EIN_OK;
}

static ein_status price_move(pricing *k, value v, const relation *to, int count)
{
    move way;
    int id;
    v = ein__value_source(k->g, v);
    TRY(ein__pool_relation(&k->p->pool, to, &id));
    TRY(ein__price_move(k->p, k->p->pool.lists.items[k->lists[v]].source, k->g->values.items[v].dtype, id, &way));
    pay(&k->out->ends, way.seconds, way.bytes, count);
    return EIN_OK;
}

/* The op writes the next value into the carry's own memory, if it lies so; only the first carry of a value can have it. */
static bool made_in_place(const pricing *k, const loop *l, int c, const relation *to)
{
    const pool *p = &k->p->pool;
    value next = ein__value_source(k->g, l->carries[c].next);
    const value_info *v = &k->g->values.items[next];
    if (v->kind != VALUE_RESULT || v->owner < l->lo || v->owner >= l->hi) return false;
    if (k->g->nodes.items[v->owner].kind == OP_APPEND) return false;
    for (int i = 0; i < c; i++)
        if (ein__value_source(k->g, l->carries[i].next) == next) return false;
    int list = k->lists[next];
    while (p->lists.items[list].before >= 0) list = p->lists.items[list].before;
    const placed *x = &p->placed.items[p->lists.items[list].last];
    return x->merge == NULL && ein__relation_equal(p->relations.items[x->states[0]], to);
}

static ein_status price_loop(pricing *k, const loop *l, const relation *carries)
{
    for (int c = 0; c < l->n_carries; c++) {
        TRY(price_move(k, l->carries[c].init, &carries[c], 1));
        TRY(place(k, l->carries[c].value, &carries[c]));
    }
    for (int i = l->lo; i < l->hi; i++) TRY(price_node(k, i, l->count));
    for (int c = 0; c < l->n_carries; c++)
        if (!made_in_place(k, l, c, &carries[c]))
            TRY(price_move(k, l->carries[c].next, &carries[c], l->count));
    return EIN_OK;
}

static ein_status price_outputs(pricing *k)
{
    for (int i = 0; i < k->g->outputs.n; i++) {
        relation host;
        value v = k->g->outputs.items[i].value;
        TRY(ein__relation_whole(k->p->a, ein__value_numel(k->g, v), DEV(HOST), &host));
        TRY(price_move(k, v, &host, 1));
    }
    return EIN_OK;
}

static ein_status price(pricing *k)
{
    const graph *g = k->g;
    int at = 0, carries = 0;
    for (int i = 0; i < g->leaves.n; i++) TRY(place(k, g->leaves.items[i].value, &k->plan->leaves[i]));
    for (int l = 0; l < g->loops.n; l++) {
        const loop *x = &g->loops.items[l];
        for (; at < x->lo; at++) TRY(price_node(k, at, 1));
        TRY(price_loop(k, x, k->plan->carries + carries));
        at = x->hi;
        carries += x->n_carries;
    }
    for (; at < g->nodes.n; at++) TRY(price_node(k, at, 1));
    return price_outputs(k);
}

static void add_up(const graph *g, plan_price *out)
{
    out->picoseconds = out->ends.exchange;
    out->bytes = out->ends.bytes;
    for (int i = 0; i < g->nodes.n; i++) {
        const part_price *x = &out->nodes[i];
        out->picoseconds = ein__cost_add(out->picoseconds, ein__cost_times(ein__cost_add(x->compute, x->exchange), x->times));
        out->bytes += x->bytes * x->times;
    }
}

ein_status ein__price_plan(pricer *r, arena *a, const plan *p, plan_price *out, error *e)
{
    arena scratch = {NULL};
    pricing k = {.p = &r->prices, .g = r->prices.g, .plan = p, .out = out, .e = e};
    *out = (plan_price){.ends.times = 1};
    out->nodes = ein__arena_get(a, (size_t)p->n_nodes + 1, sizeof *out->nodes);
    k.lists = ein__arena_get(&scratch, (size_t)k.g->values.n + 1, sizeof *k.lists);
    ein_status s = out->nodes != NULL && k.lists != NULL ? price(&k) : EIN_NO_MEMORY;
    ein__arena_free(&scratch);
    if (s == EIN_OK) add_up(k.g, out);
    return s == EIN_NO_MEMORY ? ein__fail(e, s, "out of memory pricing a plan") : s;
}

/* Add the bytes of leaf `l`, `element` for each of its elements. */
static void weigh(const relation *r, double element, double bytes[MAX_DEVICES])
{
    for (int b = 0; b < r->n_blocks; b++)
        for (devset d = r->devices[b]; d != 0; d &= d - 1)
            bytes[__builtin_ctz(d)] += element * (double)ein__block_numel(r, b);
}

void ein__plan_resident(const graph *g, const plan *p, double bytes[MAX_DEVICES])
{
    for (int d = 0; d < MAX_DEVICES; d++) bytes[d] = 0;
    for (int i = 0; i < g->leaves.n; i++) {
        const leaf *l = &g->leaves.items[i];
        double element = (double)ein__dtype_bytes(g->values.items[l->value].dtype) * (l->n_members > 1 ? l->n_members : 1);
        if (l->kind == LEAF_PARAMETER || l->kind == LEAF_STATE) weigh(&p->leaves[i], element, bytes);
    }
}

double ein__plan_fullest(const graph *g, const plan *p)
{
    double bytes[MAX_DEVICES] = {0}, most = 0;
    for (int i = 0; i < g->leaves.n; i++)
        if (ein__leaf_weight(g, &g->leaves.items[i]) > 0)
            weigh(&p->leaves[i], ein__leaf_weight(g, &g->leaves.items[i]), bytes);
    for (int d = 0; d < p->n_devices; d++) most = fmax(most, bytes[d]);
    return most;
}

double ein__plan_shares(const graph *g, const plan *p)
{
    double share = ein__memory_room(g, p->n_devices, 1) - MEMORY_GRACE;
    return share > 0 ? ein__plan_fullest(g, p) / share : 0;
}

void ein__pricer_init(pricer *k, const graph *g, int n_devices, const cost_model *c)
{
    *k = (pricer){.arena = {NULL}};
    k->prices = (prices){.a = &k->arena, .g = g, .model = c, .n_devices = n_devices, .pool = {.a = &k->arena}};
}

void ein__pricer_fini(pricer *k)
{
    ein__pool_free(&k->prices.pool);
    ein__arena_free(&k->arena);
}
