/* SPDX-License-Identifier: Apache-2.0 */
/* What a value costs: where it comes to be, and the exchanges of those that read it.
 *
 * If no fetch comes before another event, an event's cost depends on the origin and on what the event wants: a table.
 * Else the value gets a variable of its own (exact_script.c). */
#include "optimizer/exact_value.h"

#include <math.h>
#include <string.h>

/* ---- events ------------------------------------------------------------------------------------------- */

static ein_status add_event(exact *x, value v, event e)
{
    v = ein__value_source(x->g, v);
    PUSH(x->a, &x->values[v].events, e);
    return EIN_OK;
}

static ein_status node_events(exact *x, int i, int count)
{
    const node *n = &x->g->nodes.items[i];
    for (int o = 0; o < n->spec.n_operands && x->of_node[i] >= 0; o++) {
        value v = ein__value_source(x->g, n->operands[o]);
        event e = {.kind = EVENT_FETCH, .node = i, .count = count, .var = x->of_node[i]};
        bool first = true;
        NEW(x->a, e.operands, n->spec.n_operands);
        for (int k = 0; k < n->spec.n_operands; k++) {
            if (ein__value_source(x->g, n->operands[k]) != v) continue;
            first = first && k >= o;
            e.operands[e.n_operands++] = k;
        }
        if (first) TRY(add_event(x, v, e));
    }
    return EIN_OK;
}

static ein_status loop_events(exact *x, int l, int first)
{
    const loop *y = &x->g->loops.items[l];
    for (int c = 0; c < y->n_carries; c++)
        TRY(add_event(x, y->carries[c].init,
                      (event){.kind = EVENT_ENTER, .loop = l, .carry = c, .count = 1, .var = x->of_carry[first + c]}));
    for (int i = y->lo; i < y->hi; i++) TRY(node_events(x, i, y->count));
    for (int c = 0; c < y->n_carries; c++)
        TRY(add_event(x, y->carries[c].next,
                      (event){.kind = EVENT_NEXT, .loop = l, .carry = c, .count = y->count, .var = x->of_carry[first + c]}));
    return EIN_OK;
}

static ein_status find_events(exact *x)
{
    const graph *g = x->g;
    int at = 0, carries = 0;
    for (int l = 0; l < g->loops.n; l++) {
        for (; at < g->loops.items[l].lo; at++) TRY(node_events(x, at, 1));
        TRY(loop_events(x, l, carries));
        at = g->loops.items[l].hi;
        carries += g->loops.items[l].n_carries;
    }
    for (; at < g->nodes.n; at++) TRY(node_events(x, at, 1));
    for (int i = 0; i < g->outputs.n; i++)
        TRY(add_event(x, g->outputs.items[i].value, (event){.kind = EVENT_OUTPUT, .count = 1, .var = -1}));
    return EIN_OK;
}

const option *ein__exact_option(const exact *x, const event *e, int k)
{
    return &x->p->options[e->node].items[x->kept[e->node][k]];
}

static bool same_wants(const exact *x, const event *e, int k, int j)
{
    bool same = e->kind == EVENT_FETCH || k == j; /* carries' layouts differ */
    for (int i = 0; i < e->n_operands && same; i++)
        same = ein__exact_option(x, e, k)->needs[e->operands[i]] == ein__exact_option(x, e, j)->needs[e->operands[i]];
    return same;
}

static ein_status find_classes(exact *x, event *e)
{
    int n = e->var >= 0 ? x->sizes.items[e->var] : 1;
    NEW(x->a, e->class_of, n);
    NEW(x->a, e->first, n);
    for (int k = 0; k < n; k++) {
        int c = 0;
        while (c < e->n_classes && !same_wants(x, e, e->first[c], k)) c++;
        if (c == e->n_classes) e->first[e->n_classes++] = k;
        e->class_of[k] = c;
    }
    return EIN_OK;
}

/* ---- what an event costs ------------------------------------------------------------------------------ */

/* The op writes the next value where it is carried; only the first carry of a value can have that. */
static bool made_in_place(const exact *x, value v, const event *e, int list, int relation_id)
{
    const pool *p = &x->p->prices.pool;
    const value_info *y = &x->g->values.items[v];
    const loop *l = &x->g->loops.items[e->loop];
    if (y->kind != VALUE_RESULT || y->owner < l->lo || y->owner >= l->hi) return false;
    if (x->g->nodes.items[y->owner].kind == OP_APPEND) return false;
    for (int i = 0; i < e->carry; i++)
        if (ein__value_source(x->g, l->carries[i].next) == v) return false;
    while (p->lists.items[list].before >= 0) list = p->lists.items[list].before;
    const placed *made = &p->placed.items[p->lists.items[list].last];
    return made->merge == NULL && made->states[0] == relation_id;
}

static int carry_relation(const exact *x, const event *e, int k)
{
    int first = 0;
    for (int l = 0; l < e->loop; l++) first += x->g->loops.items[l].n_carries;
    return x->layouts[first + e->carry][k];
}

static ein_status event_target(exact *x, value v, const event *e, int k, int *out)
{
    relation host;
    if (e->kind != EVENT_OUTPUT) {
        *out = carry_relation(x, e, k);
        return EIN_OK;
    }
    TRY(ein__relation_whole(x->a, ein__value_numel(x->g, v), DEV(HOST), &host));
    return ein__pool_relation(&x->p->prices.pool, &host, out);
}

ein_status ein__exact_event(exact *x, value v, const event *e, int c, int list, i64 *cost, int *after)
{
    prices *p = &x->p->prices;
    int k = e->first[c], to;
    move way;
    *after = list;
    *cost = 0;
    for (int i = 0; i < e->n_operands; i++) {
        const option *o = ein__exact_option(x, e, k);
        fetch got;
        TRY(ein__price_fetch(p, e->node, e->operands[i], &o->choice, o->needs[e->operands[i]], *after, &got));
        *cost = ein__cost_add(*cost, ein__exact_cost(x, got.seconds, got.bytes, e->count));
        *after = got.list;
    }
    if (e->kind == EVENT_FETCH) return EIN_OK;
    TRY(event_target(x, v, e, k, &to));
    if (e->kind == EVENT_NEXT && made_in_place(x, v, e, list, to)) return EIN_OK;
    TRY(ein__price_move(p, p->pool.lists.items[list].source, x->g->values.items[v].dtype, to, &way));
    *cost = ein__exact_cost(x, way.seconds, way.bytes, e->count);
    return EIN_OK;
}

/* ---- origins ------------------------------------------------------------------------------------------ */

static ein_status one_origin(exact *x, const relation *r, origin *out)
{
    int id;
    *out = (origin){.var = -1, .n = 1};
    NEW(x->a, out->lists, 1);
    NEW(x->a, out->of, 1);
    TRY(ein__pool_finished(&x->p->prices.pool, r, &id));
    return ein__pool_list(&x->p->prices.pool, -1, id, &out->lists[0]);
}

static ein_status origin_of_var(exact *x, int var, origin *out)
{
    *out = (origin){.var = var};
    NEW(x->a, out->lists, x->sizes.items[var]);
    NEW(x->a, out->of, x->sizes.items[var]);
    return EIN_OK;
}

static void note_origin(origin *o, int k, int list)
{
    int i = 0;
    while (i < o->n && o->lists[i] != list) i++;
    if (i == o->n) o->lists[o->n++] = list;
    o->of[k] = i;
}

static ein_status result_origin(exact *x, const value_info *v, origin *out)
{
    TRY(origin_of_var(x, x->of_node[v->owner], out));
    for (int k = 0; k < x->sizes.items[out->var]; k++) {
        int list;
        const option *o = &x->p->options[v->owner].items[x->kept[v->owner][k]];
        TRY(ein__pool_list(&x->p->prices.pool, -1, o->results[v->result], &list));
        note_origin(out, k, list);
    }
    return EIN_OK;
}

static ein_status carry_origin(exact *x, const value_info *v, origin *out)
{
    int i = v->result;
    pool *p = &x->p->prices.pool;
    for (int l = 0; l < v->owner; l++) i += x->g->loops.items[l].n_carries;
    TRY(origin_of_var(x, x->of_carry[i], out));
    for (int k = 0; k < x->n_layouts[i]; k++) {
        int id, list;
        TRY(ein__pool_finished(p, p->relations.items[x->layouts[i][k]], &id));
        TRY(ein__pool_list(p, -1, id, &list));
        note_origin(out, k, list);
    }
    return EIN_OK;
}

/* ---- leaves that are free ------------------------------------------------------------------------------ */

static ein_status add_relation(exact *x, value_model *m, const relation *r)
{
    int id, list;
    pool *p = &x->p->prices.pool;
    TRY(ein__pool_relation(p, r, &id));
    for (int i = 0; i < m->n_relations; i++)
        if (m->relations[i] == id) return EIN_OK;
    m->relations[m->n_relations] = id;
    TRY(ein__pool_finished(p, r, &id));
    TRY(ein__pool_list(p, -1, id, &list));
    m->origin.lists[m->n_relations++] = list;
    m->origin.n = m->n_relations;
    return EIN_OK;
}

/* As a reader wants it; where that is not all of the leaf, whole copies or even parts. */
static ein_status layouts_for(exact *x, value v, value_model *m, int wanted)
{
    i64 numel = ein__value_numel(x->g, v);
    int n_devices = x->p->prices.n_devices;
    relation r;
    if (wanted >= 0) {
        const relation *need = x->p->prices.pool.relations.items[wanted];
        if (ein__relation_check(need, numel, n_devices, NULL) == EIN_OK) return add_relation(x, m, need);
        TRY(ein__relation_whole(x->a, numel, ALL_DEVICES(n_devices), &r));
        TRY(add_relation(x, m, &r));
    }
    TRY(ein__even_relation(x->a, numel, n_devices, &r));
    return add_relation(x, m, &r);
}

static ein_status layouts_of_event(exact *x, value v, value_model *m, const event *e)
{
    for (int c = 0; c < e->n_classes; c++) {
        if (e->kind == EVENT_OUTPUT) TRY(layouts_for(x, v, m, -1));
        else if (e->kind != EVENT_FETCH) TRY(layouts_for(x, v, m, carry_relation(x, e, e->first[c])));
        for (int i = 0; i < e->n_operands; i++)
            TRY(layouts_for(x, v, m, ein__exact_option(x, e, e->first[c])->needs[e->operands[i]]));
    }
    return EIN_OK;
}

/* A state lies as its first reader wants it, which updates it; a parameter as any reader does, or, if there are
 * several, whole. */
static ein_status leaf_origin(exact *x, value v, value_model *m)
{
    const leaf *l = &x->g->leaves.items[x->g->values.items[v].owner];
    int n = l->kind == LEAF_STATE ? 1 : m->events.n, room = 3;
    relation whole;
    for (int i = 0; i < n; i++) room += 2 * m->events.items[i].n_classes * (1 + m->events.items[i].n_operands);
    NEW(x->a, m->relations, room);
    NEW(x->a, m->origin.lists, room);
    m->origin.var = -1;
    for (int i = 0; i < n; i++) TRY(layouts_of_event(x, v, m, &m->events.items[i]));
    if (n == 1 && m->events.items[0].n_operands == 1) return EIN_OK;
    TRY(ein__relation_whole(x->a, ein__value_numel(x->g, v), ALL_DEVICES(x->p->prices.n_devices), &whole));
    return add_relation(x, m, &whole);
}

double ein__exact_fullest(const exact *x, const leaf *l, const relation *r)
{
    double of_device[MAX_DEVICES] = {0}, most = 0, element = ein__leaf_weight(x->g, l);
    for (int b = 0; b < r->n_blocks; b++)
        for (devset d = r->devices[b]; d != 0; d &= d - 1)
            of_device[__builtin_ctz(d)] += element * (double)ein__block_numel(r, b);
    for (int d = 0; d < x->p->prices.n_devices; d++) most = fmax(most, of_device[d]);
    return most;
}

static ein_status add_usage(exact *x, value v, const value_model *m)
{
    const leaf *l = &x->g->leaves.items[x->g->values.items[v].owner];
    const pool *p = &x->p->prices.pool;
    const event *e = &m->events.items[0];
    usage u = {.var = m->var >= 0 ? m->var : e->var};
    double *of_relation;
    if (ein__leaf_weight(x->g, l) == 0) return EIN_OK;
    NEW(x->a, of_relation, m->origin.n);
    for (int i = 0; i < m->origin.n; i++) {
        const placed *from = &p->placed.items[p->lists.items[m->origin.lists[i]].last];
        of_relation[i] = ein__exact_fullest(x, l, p->relations.items[from->states[0]]);
    }
    if (m->n_relations == 0 || u.var < 0) { /* nothing decides */
        x->taken += of_relation[0];
        return EIN_OK;
    }
    NEW(x->a, u.bytes, x->sizes.items[u.var]);
    for (int k = 0; k < x->sizes.items[u.var]; k++)
        u.bytes[k] = of_relation[m->var >= 0 ? m->scripts.items[k].origin : e->class_of[k]];
    PUSH(x->a, &x->usages, u);
    return EIN_OK;
}

/* ---- values ------------------------------------------------------------------------------------------- */

static ein_status direct_table(exact *x, value v, const value_model *m, const event *e)
{
    const origin *o = &m->origin;
    i64 *matrix;
    int after;
    NEW(x->a, matrix, (size_t)o->n * (size_t)e->n_classes);
    for (int i = 0; i < o->n; i++)
        for (int c = 0; c < e->n_classes; c++)
            TRY(ein__exact_event(x, v, e, c, o->lists[i], &matrix[(i64)i * e->n_classes + c], &after));
    return ein__exact_pair(x, o->var, o->of, e->var, e->class_of, matrix, o->n, e->n_classes);
}

/* One reader, and all that it may want can be laid out: then it is, for nothing. */
static bool laid_out_freely(const exact *x, const value_model *m)
{
    const event *e = &m->events.items[0];
    bool free = m->n_relations > 0 && m->events.n == 1 && e->n_operands == 1 && m->n_relations == e->n_classes;
    for (int c = 0; c < e->n_classes && free; c++) free = m->relations[c] == ein__exact_option(x, e, e->first[c])->needs[e->operands[0]];
    return free;
}

static ein_status tables(exact *x, value v, value_model *m)
{
    m->var = -1;
    if (laid_out_freely(x, m)) return EIN_OK;
    if (ein__exact_sharable(m) == 0 && (m->origin.var >= 0 || m->origin.n == 1)) {
        for (int j = 0; j < m->events.n; j++) TRY(direct_table(x, v, m, &m->events.items[j]));
        return EIN_OK;
    }
    return ein__exact_scripts(x, v, m);
}

static ein_status find_origin(exact *x, value v, value_model *m)
{
    const value_info *y = &x->g->values.items[v];
    const problem *p = x->p;
    relation r;
    if (y->kind == VALUE_RESULT) return result_origin(x, y, &m->origin);
    if (y->kind == VALUE_CARRY) return carry_origin(x, y, &m->origin);
    const leaf *l = &x->g->leaves.items[y->owner];
    const relation *fixed = p->fixed != NULL && p->fixed->leaves != NULL ? p->fixed->leaves[y->owner] : NULL;
    if (l->kind != LEAF_INPUT && fixed != NULL) return one_origin(x, fixed, &m->origin);
    if (l->kind == LEAF_PARAMETER || l->kind == LEAF_STATE) return leaf_origin(x, v, m);
    devset where = l->kind == LEAF_INPUT ? DEV(HOST) : ALL_DEVICES(p->prices.n_devices);
    TRY(ein__relation_whole(x->a, ein__value_numel(x->g, v), where, &r));
    return one_origin(x, &r, &m->origin);
}

ein_status ein__exact_values(exact *x)
{
    NEW(x->a, x->values, x->g->values.n);
    TRY(find_events(x));
    for (value v = 0; v < x->g->values.n; v++) {
        value_model *m = &x->values[v];
        const value_info *y = &x->g->values.items[v];
        if (m->events.n == 0) continue; /* a view, or not read */
        for (int j = 0; j < m->events.n; j++) TRY(find_classes(x, &m->events.items[j]));
        TRY(find_origin(x, v, m));
        TRY(tables(x, v, m));
        if (y->kind == VALUE_LEAF) TRY(add_usage(x, v, m));
    }
    return EIN_OK;
}
