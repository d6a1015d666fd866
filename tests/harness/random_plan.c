/* SPDX-License-Identifier: Apache-2.0 */
/* Every choice that a plan makes is made by dice; ein__choice_check says which cuts are legal. */
#include "tests/harness/random_plan.h"

#include <stdlib.h>

#include "core/graph/canonical.h"
#include "tests/harness/random.h"

enum { MOST_TUPLES = 24, MOST_CUTS = 3 };

typedef struct planner {
    dice d;
    arena *a;
    const graph *g;
    plan *p;
    bool plain; /* the part in the making is */
} planner;

/* ---- points and devices ------------------------------------------------------------------------------- */

static int rising(const void *a, const void *b)
{
    i64 x = *(const i64 *)a, y = *(const i64 *)b;
    return (x > y) - (x < y);
}

/* n + 1 points from 0 to `extent`, at multiples of `granule` but for the last. */
static ein_status random_points(planner *k, i64 extent, i64 granule, int n, const i64 **out)
{
    i64 *at, units = extent / granule;
    NEW(k->a, at, n + 1);
    bool even = dice_chance(&k->d, 40);
    for (int i = 1; i < n; i++) at[i] = (even ? units * i / n : dice_range(&k->d, 0, (int)units)) * granule;
    at[n] = extent;
    qsort(at, (size_t)n, sizeof *at, rising);
    *out = at;
    return EIN_OK;
}

/* A set of devices for each of n tuples or blocks. */
static ein_status random_devices(planner *k, int n, const devset **out)
{
    devset *sets, some = 0, all = ALL_DEVICES(k->p->n_devices);
    int style = dice_below(&k->d, 6), first = dice_below(&k->d, k->p->n_devices);
    NEW(k->a, sets, n);
    while (some == 0) some = (devset)dice_next(&k->d) & all; /* the others are idle */
    for (int i = 0; i < n; i++) {
        int at = dice_below(&k->d, k->p->n_devices);
        switch (style) {
        case 0: sets[i] = DEV((first + i) % k->p->n_devices); break;
        case 1: sets[i] = DEV(first); break;
        case 2: sets[i] = dice_chance(&k->d, 50) ? some : all; break;
        case 3:
            while (!(some >> at & 1)) at = (at + 1) % k->p->n_devices;
            sets[i] = DEV(at);
            break;
        case 4: sets[i] = DEV(at); break;
        default:
            while (sets[i] == 0) sets[i] = (devset)dice_next(&k->d) & (devset)dice_next(&k->d) & all;
        }
        if (k->plain) sets[i] = all;
    }
    *out = sets;
    return EIN_OK;
}

/* ---- choices ------------------------------------------------------------------------------------------ */

/* A label, or a run of labels of one of the node's maps. */
static int random_labels(planner *k, const spec *s, int *out)
{
    out[0] = dice_below(&k->d, s->n_labels);
    if (dice_chance(&k->d, 60)) return 1;
    int o = dice_below(&k->d, s->n_operands + 1);
    const index_map *m = o < s->n_operands ? &s->operands[o] : &s->results[0];
    if (m->n < 2) return 1;
    int lo = dice_below(&k->d, m->n - 1), n = 0;
    int most = dice_range(&k->d, 2, MAX_GROUP);
    for (int i = lo; i < m->n && n < most && m->terms[i].label >= 0; i++) out[n++] = m->terms[i].label;
    return n > 0 ? n : 1;
}

/* One more cut, if the dice find a legal one. */
static ein_status add_cut(planner *k, const spec *s, cut *cuts, choice *c)
{
    cut *x = &cuts[c->n_cuts];
    i64 extent = 1;
    *x = (cut){0};
    x->n_labels = random_labels(k, s, x->labels);
    for (int i = 0; i < x->n_labels; i++) extent *= s->labels[x->labels[i]].extent;
    i64 granule = s->labels[x->labels[x->n_labels - 1]].granule;
    x->n_parts = dice_chance(&k->d, 50) ? dice_range(&k->d, 2, 3) : dice_range(&k->d, 1, k->p->n_devices + 1);
    while (x->n_parts > 1 && c->n_tuples * x->n_parts > MOST_TUPLES) x->n_parts--;
    TRY(random_points(k, extent, granule, x->n_parts, &x->at));
    choice all = *c;
    devset *anywhere;
    all.n_cuts++;
    all.n_tuples *= x->n_parts;
    NEW(k->a, anywhere, all.n_tuples);
    for (int i = 0; i < all.n_tuples; i++) anywhere[i] = 1;
    all.devices = anywhere;
    label_box box[64];
    if (ein__choice_check(s, &all, k->p->n_devices, NULL) != EIN_OK) return EIN_OK;
    for (int t = 0; t < all.n_tuples; t++)
        if (ein__tuple_boxes(s, &all, t, 64, box) > 64) return EIN_OK;
    *c = all;
    return EIN_OK;
}

static ein_status random_choice(planner *k, const node *n, choice *c)
{
    cut *cuts;
    int want = dice_range(&k->d, 0, MOST_CUTS);
    *c = (choice){.n_tuples = 1};
    if (ein__node_is_view(n)) {
        c->n_tuples = 0;
        return EIN_OK;
    }
    NEW(k->a, cuts, MOST_CUTS + 1);
    c->cuts = cuts;
    for (int i = 0; i < 5 * want && c->n_cuts < want && !k->plain && n->spec.n_labels > 0; i++)
        TRY(add_cut(k, &n->spec, cuts, c));
    return random_devices(k, c->n_tuples, &c->devices);
}

/* ---- relations ---------------------------------------------------------------------------------------- */

/* The dimensions, or some of them joined, or any factors of the number of elements. */
static int random_axes(planner *k, const value_info *v, i64 *extent)
{
    int n = 0;
    i64 numel = 1;
    for (int i = 0; i < v->rank; i++) numel *= v->shape[i];
    if (numel > 1 && dice_chance(&k->d, 8)) {
        extent[0] = extent[1] = 1;
        for (i64 p = 2, left = numel; left > 1; p++)
            for (; left % p == 0; left /= p) extent[dice_below(&k->d, 2)] *= p;
        return 2;
    }
    for (int i = 0; i < v->rank; i++) {
        if (n > 0 && dice_chance(&k->d, 25))
            extent[n - 1] *= v->shape[i];
        else
            extent[n++] = v->shape[i];
    }
    return n;
}

static ein_status random_relation(planner *k, value v, relation *r)
{
    i64 extent[EIN_MAX_RANK];
    *r = (relation){.n_blocks = 1, .n_partials = 1};
    r->n_axes = random_axes(k, &k->g->values.items[v], extent);
    for (int i = 0; i < r->n_axes; i++) {
        int parts = k->plain || dice_chance(&k->d, 50) ? 1 : dice_range(&k->d, 2, 4);
        const i64 *at;
        while (parts > 1 && r->n_blocks * parts > MOST_TUPLES) parts--;
        TRY(random_points(k, extent[i], 1, parts, &at));
        r->axes[i] = (axis){.extent = extent[i], .n_parts = parts, .lo = at, .hi = at + 1};
        r->n_blocks *= parts;
    }
    TRY(random_devices(k, r->n_blocks, &r->devices));
    return ein__relation_canonical(k->a, r);
}

/* The layout of a state that node i updates is the result's; true if there is such a node. */
static ein_status updated_state(planner *k, value v, bool *found, relation *r)
{
    for (int i = 0; i < k->g->nodes.n && !*found; i++) {
        const node *n = &k->g->nodes.items[i];
        if (n->kind != OP_APPEND || n->operands[0] != v) continue;
        *found = true;
        TRY(ein__relation_finished(k->a, &n->spec, 0, &k->p->nodes[i], r));
    }
    return EIN_OK;
}

static ein_status random_leaf(planner *k, const leaf *l, relation *r)
{
    bool updated = false;
    if (l->kind == LEAF_INPUT)
        return ein__relation_whole(k->a, ein__value_numel(k->g, l->value), DEV(HOST), r);
    if (l->kind == LEAF_STATE) TRY(updated_state(k, l->value, &updated, r));
    return updated ? EIN_OK : random_relation(k, l->value, r);
}

/* Any layout, or that in which the next value is made. */
static ein_status random_carry(planner *k, const carry *c, relation *r)
{
    value next = ein__value_source(k->g, c->next);
    const value_info *v = &k->g->values.items[next];
    if (v->kind != VALUE_RESULT || k->plain || dice_chance(&k->d, 50)) return random_relation(k, c->value, r);
    return ein__relation_finished(k->a, &k->g->nodes.items[v->owner].spec, v->result, &k->p->nodes[v->owner],
                                  r);
}

/* ---- the plan ----------------------------------------------------------------------------------------- */

int plan_parts(const graph *g)
{
    int n = g->nodes.n + g->leaves.n;
    for (int i = 0; i < g->loops.n; i++) n += g->loops.items[i].n_carries;
    return n;
}

static void start_part(planner *k, uint64_t seed, const bool *plain, int part)
{
    k->d = dice_make(seed, (uint64_t)part + 2);
    k->plain = plain != NULL && plain[part];
}

ein_status random_plan_make(arena *a, const graph *g, uint64_t seed, int n_devices, const bool *plain,
                            plan *p)
{
    planner k = {.a = a, .g = g, .p = p};
    int part = 0;
    *p = (plan){.n_devices = n_devices, .n_nodes = g->nodes.n, .n_leaves = g->leaves.n};
    p->n_carries = plan_parts(g) - g->nodes.n - g->leaves.n;
    NEW(a, p->nodes, p->n_nodes);
    NEW(a, p->leaves, p->n_leaves);
    NEW(a, p->carries, p->n_carries);
    for (int i = 0; i < p->n_nodes; i++) {
        start_part(&k, seed, plain, part++);
        TRY(random_choice(&k, &g->nodes.items[i], &p->nodes[i]));
    }
    for (int i = 0; i < p->n_leaves; i++) {
        start_part(&k, seed, plain, part++);
        TRY(random_leaf(&k, &g->leaves.items[i], &p->leaves[i]));
    }
    for (int l = 0, i = 0; l < g->loops.n; l++)
        for (int c = 0; c < g->loops.items[l].n_carries; c++, i++) {
            start_part(&k, seed, plain, part++);
            TRY(random_carry(&k, &g->loops.items[l].carries[c], &p->carries[i]));
        }
    return EIN_OK;
}

ein_status random_plan_text(const ein_graph *user, uint64_t seed, int n_devices, text *json, error *e)
{
    graph g = {.nodes = {0}};
    arena a = {NULL};
    plan p;
    ein_status s = ein__canonicalize(&user->g, &g, e);
    if (s == EIN_OK) s = random_plan_make(&a, &g, seed, n_devices, NULL, &p);
    if (s == EIN_OK) s = ein__plan_check(&g, &p, e);
    if (s == EIN_OK) s = ein__plan_print(&g, &p, json);
    ein__arena_free(&a);
    ein__arena_free(&g.arena);
    return s;
}
