/* SPDX-License-Identifier: Apache-2.0 */
#include "optimizer/candidates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optimizer/rival_draft.h"

typedef struct trying {
    pricer *k;
    arena *a;
    const graph *g;
    const plan *p;
    int node;
    double room; /* bytes that a device may hold */
    candidate_list *out;
} trying;

static bool same_choice(const choice *x, const choice *y)
{
    if (x->n_cuts != y->n_cuts || x->n_tuples != y->n_tuples) return false;
    for (int i = 0; i < x->n_cuts; i++) {
        const cut *c = &x->cuts[i], *d = &y->cuts[i];
        if (c->n_labels != d->n_labels || c->n_parts != d->n_parts) return false;
        if (memcmp(c->labels, d->labels, (size_t)c->n_labels * sizeof *c->labels) != 0) return false;
        if (memcmp(c->at, d->at, ((size_t)c->n_parts + 1) * sizeof *c->at) != 0) return false;
    }
    return memcmp(x->devices, y->devices, (size_t)x->n_tuples * sizeof *x->devices) == 0;
}

/* The plan with another choice at the node. */
static ein_status replaced(const trying *t, const choice *c, plan *out)
{
    const graph *g = t->g;
    const node *n = &g->nodes.items[t->node];
    *out = *t->p;
    NEW(t->a, out->nodes, g->nodes.n);
    NEW(t->a, out->leaves, g->leaves.n);
    memcpy(out->nodes, t->p->nodes, (size_t)g->nodes.n * sizeof *out->nodes);
    if (g->leaves.n > 0) memcpy(out->leaves, t->p->leaves, (size_t)g->leaves.n * sizeof *out->leaves);
    out->nodes[t->node] = *c;
    const draft was = {.a = t->a, .g = g, .n_devices = out->n_devices, .nodes = t->p->nodes};
    draft is = was;
    is.nodes = out->nodes;
    for (int o = 0; o < n->spec.n_operands; o++) {
        const value_info *v = &g->values.items[ein__value_source(g, n->operands[o])];
        relation before;
        if (v->kind != VALUE_LEAF || g->leaves.items[v->owner].kind == LEAF_INPUT) continue;
        TRY(ein__draft_leaf(&was, v->owner, &before));
        if (ein__relation_equal(&before, &t->p->leaves[v->owner])) TRY(ein__draft_leaf(&is, v->owner, &out->leaves[v->owner]));
    }
    return EIN_OK;
}

static ein_status try_choice(const trying *t, const choice *c, bool chosen)
{
    plan p;
    plan_price x;
    TRY(replaced(t, c, &p));
    ein_status s = ein__price_plan(t->k, t->a, &p, &x, NULL);
    if (s == EIN_NO_PLAN) return EIN_OK;
    TRY(s);
    candidate made = {.choice = *c, .number = t->out->n, .chosen = chosen, .picoseconds = x.picoseconds, .part = x.nodes[t->node]};
    made.resident = ein__plan_fullest(t->g, &p);
    made.fits = made.resident <= t->room;
    PUSH(t->a, t->out, made);
    return EIN_OK;
}

static int by_price(const void *x, const void *y)
{
    const candidate *a = x, *b = y;
    if (a->picoseconds != b->picoseconds) return a->picoseconds < b->picoseconds ? -1 : 1;
    return a->number < b->number ? -1 : 1;
}

static ein_status try_all(const trying *t)
{
    label_units *units;
    choice_list choices = {0};
    const node *n = &t->g->nodes.items[t->node];
    const choice *own = &t->p->nodes[t->node];
    TRY(ein__choice_units(t->a, t->g, t->p->n_devices, &units));
    TRY(ein__choices(t->a, &n->spec, units[t->node], t->p->n_devices, &choices));
    TRY(try_choice(t, own, true));
    for (int i = 0; i < choices.n; i++) {
        bool groups = false; /* of which no state is cut */
        for (int k = 0; k < choices.items[i].n_cuts; k++) groups = groups || choices.items[i].cuts[k].n_labels > 1;
        if (same_choice(&choices.items[i], own) || (groups && n->kind == OP_APPEND)) continue;
        TRY(try_choice(t, &choices.items[i], false));
    }
    if (t->out->n > 0) qsort(t->out->items, (size_t)t->out->n, sizeof *t->out->items, by_price);
    return EIN_OK;
}

ein_status ein__candidates(pricer *k, arena *a, const plan *p, int node, candidate_list *out, error *e)
{
    trying t = {.k = k, .a = a, .g = k->prices.g, .p = p, .node = node, .out = out};
    *out = (candidate_list){0};
    if (ein__node_is_view(&t.g->nodes.items[node])) return EIN_OK;
    t.room = fmax(ein__memory_room(t.g, p->n_devices, 0), ein__plan_fullest(t.g, p));
    ein_status s = try_all(&t);
    return s == EIN_NO_MEMORY ? ein__fail(e, s, "out of memory for the candidates of an op") : s;
}

const candidate *ein__runner_up(const candidate_list *c)
{
    for (int i = 0; i < c->n; i++)
        if (!c->items[i].chosen && c->items[i].fits) return &c->items[i];
    return NULL;
}
