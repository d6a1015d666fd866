/* SPDX-License-Identifier: Apache-2.0 */
/* Loops: the body is searched once for each of a few layouts of the carries. */
#include <string.h>

#include "optimizer/frontier.h"

enum { MAX_LAYOUTS = 5 };

/* Ways to lay out a loop's carries: relations[way * n_carries + carry]. */
typedef struct layouts {
    int n;
    int *relations;
} layouts;

static ein_status enter_loop(walk *w, frontier *f, int index, const int *carries)
{
    const loop *l = &w->g->loops.items[index];
    pool *all = &w->p->prices.pool;
    frontier next = {0};
    trial_list trials = {0};
    TRY(ein__frontier_slots(w, at_entry(l), &next.slots));
    for (int s = 0; s < f->n; s++) {
        trial *t;
        TRY(ein__trial_make(w, f->items[s], 2 * l->n_carries, &trials, &t));
        t->next.loop = index;
        t->next.carries = carries;
        for (int c = 0; c < l->n_carries; c++) {
            value init = ein__value_source(w->g, l->carries[c].init);
            int id;
            const relation *r = all->relations.items[carries[c]];
            if (ein__trial_list(w, t, init) < 0) TRY(ein__trial_lay_out(w, t, init, r));
            TRY(ein__trial_move(w, t, init, carries[c], 1));
            TRY(ein__pool_finished(all, r, &id));
            TRY(ein__trial_place(w, t, l->carries[c].value, id));
        }
        TRY(ein__trial_finish(w, t, &next.slots, l->count));
    }
    TRY(ein__frontier_select(w, &trials, &next));
    ein__arena_free(w->step);
    *f = next;
    ein__frontier_use(w, &f->slots);
    return EIN_OK;
}

/* Is the next value made where the carry wants it, without a copy? Only the first carry of a value can be. */
static bool made_in_place(const walk *w, const trial *t, const loop *l, int c, int relation_id)
{
    const pool *p = &w->p->prices.pool;
    value next = ein__value_source(w->g, l->carries[c].next);
    const value_info *v = &w->g->values.items[next];
    if (v->kind != VALUE_RESULT || v->owner < l->lo || v->owner >= l->hi) return false;
    if (w->g->nodes.items[v->owner].kind == OP_APPEND) return false;
    for (int i = 0; i < c; i++)
        if (ein__value_source(w->g, l->carries[i].next) == next) return false;
    int list = ein__trial_list(w, t, next);
    while (p->lists.items[list].before >= 0) list = p->lists.items[list].before;
    const placed *x = &p->placed.items[p->lists.items[list].last];
    return x->merge == NULL && x->states[0] == relation_id;
}

/* Append to `trials` the states of `f` after the loop's last iteration. */
static ein_status leave_loop(walk *w, const frontier *f, int index, const int *carries, const slots *after,
                             trial_list *trials)
{
    const loop *l = &w->g->loops.items[index];
    for (int s = 0; s < f->n; s++) {
        trial *t;
        TRY(ein__trial_make(w, f->items[s], l->n_carries, trials, &t));
        for (int c = 0; c < l->n_carries; c++) {
            value next = ein__value_source(w->g, l->carries[c].next);
            const relation *r = w->p->prices.pool.relations.items[carries[c]];
            if (ein__trial_list(w, t, next) < 0)
                TRY(ein__trial_lay_out(w, t, next, r)); /* a view of a leaf */
            if (!made_in_place(w, t, l, c, carries[c]))
                TRY(ein__trial_move(w, t, next, carries[c], l->count));
        }
        TRY(ein__trial_finish(w, t, after, 1));
    }
    return EIN_OK;
}

static ein_status add_layout(walk *w, const relation *r, int room, int *n, int *relations)
{
    int id;
    if (*n == room) return EIN_OK;
    TRY(ein__pool_relation(&w->p->prices.pool, r, &id));
    for (int i = 0; i < *n; i++)
        if (relations[i] == id) return EIN_OK;
    relations[(*n)++] = id;
    return EIN_OK;
}

/* Whole everywhere, and what options with one cut need of it at its first reader. */
static ein_status carry_layouts(walk *w, const loop *l, int c, int *n, int relations[MAX_LAYOUTS])
{
    const prices *p = &w->p->prices;
    value v = l->carries[c].value;
    i64 numel = ein__value_numel(w->g, v);
    relation whole;
    TRY(ein__relation_whole(w->p->a, numel, ALL_DEVICES(p->n_devices), &whole));
    TRY(add_layout(w, &whole, MAX_LAYOUTS, n, relations));
    for (int i = l->lo; i < l->hi; i++) {
        const node *x = &w->g->nodes.items[i];
        for (int o = 0; o < x->spec.n_operands && w->p->options[i].n > 0; o++) {
            if (ein__value_source(w->g, x->operands[o]) != v) continue;
            for (int k = 0; k < w->p->options[i].n_simple; k++) {
                const option *y = &w->p->options[i].items[k];
                const relation *r = p->pool.relations.items[y->needs[o]];
                if (y->choice.n_cuts != 1 || ein__relation_check(r, numel, p->n_devices, NULL) != EIN_OK)
                    continue;
                TRY(add_layout(w, r, MAX_LAYOUTS, n, relations));
            }
            return EIN_OK;
        }
    }
    return EIN_OK;
}

/* The k-th way gives every carry its k-th layout. */
static ein_status loop_layouts(walk *w, const loop *l, layouts *out)
{
    int(*of_carry)[MAX_LAYOUTS], *n;
    NEW(w->p->a, of_carry, l->n_carries);
    NEW(w->p->a, n, l->n_carries);
    out->n = 1;
    for (int c = 0; c < l->n_carries; c++) {
        TRY(carry_layouts(w, l, c, &n[c], of_carry[c]));
        if (n[c] > out->n) out->n = n[c];
    }
    NEW(w->p->a, out->relations, (MAX_LAYOUTS + 1) * l->n_carries);
    for (int k = 0; k < out->n; k++)
        for (int c = 0; c < l->n_carries; c++)
            out->relations[k * l->n_carries + c] = of_carry[c][k < n[c] ? k : n[c] - 1];
    return EIN_OK;
}

/* One more way: as the best body so far leaves the next values; not if one is pending, or it is known. */
static void add_natural(walk *w, const loop *l, const state *best, layouts *out)
{
    const pool *p = &w->p->prices.pool;
    int *way = out->relations + out->n * l->n_carries;
    for (int c = 0; c < l->n_carries; c++) {
        value next = ein__value_source(w->g, l->carries[c].next);
        if (w->slot_of[next] < 0) return;
        const placed *x = &p->placed.items[p->lists.items[best->lists[w->slot_of[next]]].source];
        if (!x->complete || p->relations.items[x->states[0]]->devices[0] == DEV(HOST)) return;
        way[c] = x->states[0];
    }
    for (int k = 0; k < out->n; k++)
        if (memcmp(out->relations + k * l->n_carries, way, (size_t)l->n_carries * sizeof *way) == 0) return;
    out->n++;
}

ein_status ein__frontier_loop(walk *w, frontier *f, int index)
{
    const loop *l = &w->g->loops.items[index];
    frontier next = {0};
    trial_list ends = {0};
    layouts ways = {0};
    arena ended = {NULL}, *step = w->step;
    i64 best = FAR;
    ein_status s = loop_layouts(w, l, &ways);
    if (s == EIN_OK) s = ein__frontier_slots(w, at_exit(l), &next.slots);
    for (int k = 0, tried = ways.n; k < ways.n && s == EIN_OK; k++) {
        const int *carries = ways.relations + k * l->n_carries;
        frontier body = *f;
        ein__frontier_use(w, &f->slots);
        s = enter_loop(w, &body, index, carries);
        if (s == EIN_OK && body.n == 0) continue;
        if (s == EIN_OK) s = ein__frontier_nodes(w, &body, l->lo, l->hi, l->count);
        w->step = &ended; /* the ends of all ways live until they are compared */
        if (s == EIN_OK) s = leave_loop(w, &body, index, carries, &next.slots, &ends);
        w->step = step;
        if (s == EIN_OK && k < tried && body.items[0]->cost < best && l->n_carries > 0) {
            best = body.items[0]->cost;
            ways.n = tried; /* the natural way of the best body replaces an earlier one */
            add_natural(w, l, body.items[0], &ways);
        }
    }
    for (int i = 0; i < ends.n; i++) ends.items[i]->number = i;
    if (s == EIN_OK) s = ein__frontier_select(w, &ends, &next);
    ein__arena_free(&ended);
    if (s == EIN_OK && next.n == 0)
        s = ein__fail(w->p->e, EIN_NO_PLAN, "loop %d: no layout of its carries fits", index);
    *f = next;
    ein__frontier_use(w, &f->slots);
    return s;
}
