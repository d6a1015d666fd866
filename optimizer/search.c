/* SPDX-License-Identifier: Apache-2.0 */
/* The search's frame: options of all nodes, the first strategy that applies, the plan. */
#include "optimizer/search.h"

#include <math.h>
#include <string.h>

static const strategy *const STRATEGIES[] = {&ein__search_exact, &ein__search_frontier};
enum { N_STRATEGIES = sizeof STRATEGIES / sizeof *STRATEGIES };

/* ---- problem ------------------------------------------------------------------------------------------ */

double ein__leaf_weight(const graph *g, const leaf *l)
{
    double element = (double)ein__dtype_bytes(g->values.items[l->value].dtype);
    if (l->kind != LEAF_PARAMETER && l->kind != LEAF_STATE) return 0;
    if (element * (double)ein__value_numel(g, l->value) < SMALL) return 0;
    return element * (l->n_members > 1 ? l->n_members : 1);
}

static const relation *fixed_leaf(const problem *p, value v)
{
    const value_info *x = &p->g->values.items[v];
    return x->kind == VALUE_LEAF && p->fixed != NULL && p->fixed->leaves != NULL ? p->fixed->leaves[x->owner]
                                                                                 : NULL;
}

static ein_status price_choices(problem *p, const node *n, const choice_list *choices, option_list *out)
{
    NEW(p->a, out->items, choices->n);
    for (int i = 0; i < choices->n; i++) {
        option o = {.choice = choices->items[i]};
        TRY(ein__price_option(&p->prices, n, &o));
        if (o.seconds >= 0) out->items[out->n++] = o;
    }
    out->n_simple = out->n_medium = out->n;
    return EIN_OK;
}

static ein_status node_key(const problem *p, int i, const label_units *units, text *key)
{
    const node *n = &p->g->nodes.items[i];
    ein__node_key(n, key);
    for (int k = 0; k < n->spec.n_operands; k++) ein__key_int(key, 'o', p->g->values.items[n->operands[k]].dtype);
    for (int k = 0; k < n->spec.n_results; k++) ein__key_int(key, 'r', p->g->values.items[n->results[k]].dtype);
    for (int l = 0; l < n->spec.n_labels; l++) ein__key_int(key, 'u', units[i][l]);
    return ein__text_status(key);
}

/* Nodes that have the same options: the first one stands for all. */
static ein_status find_alike(problem *p, const label_units *units)
{
    idmap known = {0};
    int *alike, *at;
    text key = {0};
    ein_status s = EIN_OK;
    NEW(p->a, alike, p->g->nodes.n);
    for (int i = 0; i < p->g->nodes.n && s == EIN_OK; i++) {
        key.n = 0;
        s = node_key(p, i, units, &key);
        if (s == EIN_OK) s = ein__idmap_at(p->a, &known, ein__hash(key.bytes, key.n, 0), &at);
        if (s == EIN_OK) alike[i] = *at = *at < 0 || p->g->nodes.items[i].kind == OP_APPEND ? i : *at;
    }
    ein__text_free(&key);
    p->prices.alike = alike;
    return s;
}

static ein_status make_options(problem *p)
{
    label_units *units;
    TRY(ein__choice_units(p->a, p->g, p->prices.n_devices, &units));
    NEW(p->a, p->options, p->g->nodes.n);
    TRY(find_alike(p, units));
    for (int i = 0; i < p->g->nodes.n; i++) {
        const node *n = &p->g->nodes.items[i];
        if (ein__node_is_view(n)) continue;
        const relation *fixed = n->kind == OP_APPEND ? fixed_leaf(p, n->operands[0]) : NULL;
        if (fixed == NULL && p->prices.alike[i] != i && p->choices == NULL) {
            p->options[i] = p->options[p->prices.alike[i]];
            continue;
        }
        if (p->choices != NULL) TRY(price_choices(p, n, &p->choices[i], &p->options[i]));
        else TRY(ein__price_options(&p->prices, i, units[i], fixed, &p->options[i], p->e));
    }
    return EIN_OK;
}

double ein__memory_room(const graph *g, int n_devices, double slack)
{
    double total = 0;
    for (int i = 0; i < g->leaves.n; i++)
        total +=
            ein__leaf_weight(g, &g->leaves.items[i]) * (double)ein__value_numel(g, g->leaves.items[i].value);
    return (slack > 0 ? slack : MEMORY_SLACK) * total / n_devices + MEMORY_GRACE;
}

/* ---- plan --------------------------------------------------------------------------------------------- */

static ein_status copy_choice(arena *a, const choice *c, choice *out)
{
    cut *cuts;
    devset *devices;
    NEW(a, cuts, c->n_cuts);
    NEW(a, devices, c->n_tuples);
    for (int i = 0; i < c->n_cuts; i++) {
        i64 *at;
        NEW(a, at, c->cuts[i].n_parts + 1);
        memcpy(at, c->cuts[i].at, ((size_t)c->cuts[i].n_parts + 1) * sizeof *at);
        cuts[i] = c->cuts[i];
        cuts[i].at = at;
    }
    memcpy(devices, c->devices, (size_t)c->n_tuples * sizeof *devices);
    *out = (choice){c->n_cuts, cuts, c->n_tuples, devices};
    return EIN_OK;
}

static ein_status plan_leaf(arena *a, problem *p, int i, int relation_id, relation *out)
{
    const leaf *l = &p->g->leaves.items[i];
    i64 numel = ein__value_numel(p->g, l->value);
    const relation *fixed = fixed_leaf(p, l->value);
    if (l->kind == LEAF_INPUT) return ein__relation_whole(a, numel, DEV(HOST), out);
    if (fixed != NULL) return ein__relation_copy(a, fixed, out);
    if (l->kind == LEAF_CONSTANT) return ein__relation_whole(a, numel, ALL_DEVICES(p->prices.n_devices), out);
    if (relation_id < 0) return ein__even_relation(a, numel, p->prices.n_devices, out);
    return ein__relation_copy(a, p->prices.pool.relations.items[relation_id], out);
}

ein_status ein__answer_plan(arena *a, problem *p, const answer *x, plan *out)
{
    const graph *g = p->g;
    *out = (plan){.n_devices = p->prices.n_devices,
                  .n_nodes = g->nodes.n,
                  .n_leaves = g->leaves.n,
                  .predicted_us = x->seconds * 1e6,
                  .bound_us = fmin(x->bound, x->seconds) * 1e6, /* counted in picoseconds, it may be one too many */
                  .predicted_bytes = x->bytes,
                  .states_searched = p->states_searched};
    for (int i = 0; i < g->loops.n; i++) out->n_carries += g->loops.items[i].n_carries;
    NEW(a, out->nodes, out->n_nodes);
    NEW(a, out->leaves, out->n_leaves);
    NEW(a, out->carries, out->n_carries);
    for (int i = 0; i < out->n_nodes; i++)
        if (p->options[i].n > 0)
            TRY(copy_choice(a, &p->options[i].items[x->options[i]].choice, &out->nodes[i]));
    for (int i = 0; i < out->n_leaves; i++) TRY(plan_leaf(a, p, i, x->leaves[i], &out->leaves[i]));
    for (int i = 0; i < out->n_carries; i++)
        TRY(ein__relation_copy(a, p->prices.pool.relations.items[x->carries[i]], &out->carries[i]));
    return EIN_OK;
}

/* ---- search ------------------------------------------------------------------------------------------- */

ein_status ein__answer_make(problem *p, answer *out)
{
    int carries = 0;
    for (int l = 0; l < p->g->loops.n; l++) carries += p->g->loops.items[l].n_carries;
    *out = (answer){0};
    NEW(p->a, out->options, p->g->nodes.n);
    NEW(p->a, out->leaves, p->g->leaves.n);
    NEW(p->a, out->carries, carries);
    for (int k = 0; k < p->g->leaves.n; k++) out->leaves[k] = -1;
    return EIN_OK;
}

static ein_status search(arena *a, problem *p, plan *out)
{
    answer x;
    int i = 0;
    TRY(make_options(p));
    TRY(ein__answer_make(p, &x));
    const char *name = p->limits->strategy;
    while (i < N_STRATEGIES && (!STRATEGIES[i]->applicable(p) || (name != NULL && strcmp(name, STRATEGIES[i]->name) != 0))) i++;
    if (i == N_STRATEGIES) return ein__fail(p->e, EIN_INVALID, "no search strategy '%s'", name != NULL ? name : "");
    TRY(STRATEGIES[i]->search(p, &x));
    return ein__answer_plan(a, p, &x, out);
}

ein_status ein__search_within(arena *a, const graph *g, const machine *m, const cost_model *c,
                             const fixed_layouts *f, const search_limits *limits, plan *out, error *e)
{
    arena scratch = {NULL};
    problem p = {.a = &scratch, .g = g, .fixed = f, .choices = limits->choices, .limits = limits, .e = e};
    p.prices =
        (prices){.a = &scratch, .g = g, .model = c, .n_devices = m->n_devices, .pool = {.a = &scratch}};
    p.capacity = ein__memory_room(g, m->n_devices, limits->slack);
    ein__device_classes(m, p.classes);
    p.prices.classes = p.classes;
    ein_status s = search(a, &p, out);
    ein__pool_free(&p.prices.pool);
    ein__arena_free(&scratch);
    if (s == EIN_OK) s = ein__plan_check(g, out, e);
    return s == EIN_NO_MEMORY ? ein__fail(e, s, "out of memory searching a plan") : s;
}

ein_status ein__search(arena *a, const graph *g, const machine *m, const cost_model *c,
                       const fixed_layouts *f, plan *out, error *e)
{
    return ein__search_within(a, g, m, c, f, &(search_limits){0}, out, e);
}
