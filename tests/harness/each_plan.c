/* SPDX-License-Identifier: Apache-2.0 */
/* The choices of a node are listed first; a plan's number then says which one each node takes. */
#include "tests/harness/each_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/graph/canonical.h"
#include "tests/harness/random.h"
#include "tests/harness/random_plan.h"

enum { MOST_OPTIONS = 256, SEED = 1000 };

typedef struct options {
    int n;
    choice at[MOST_OPTIONS];
} options;

typedef struct planner {
    arena arena;
    graph g;
    int devices;
    options *nodes; /* per node */
    int *component; /* per node: the first node of those that share values with it */
    int *plans;     /* per node that is a component's first: how many, at most MOST_PLANS + 1; else 1 */
    bool append;    /* layouts hang on each other: random plans only */
} planner;

static void *take(arena *a, int n, size_t size)
{
    void *x = ein__arena_get(a, (size_t)n + 1, size);
    assert_non_null(x);
    return x;
}

/* ---- options of a node -------------------------------------------------------------------------------- */

/* As even as they can be, larger ones first; or in chunks, the last ones smaller. */
static const i64 *points(arena *a, i64 extent, i64 granule, int parts, bool chunks)
{
    i64 *at = take(a, parts + 1, sizeof *at), units = extent / granule, chunk = (units + parts - 1) / parts;
    for (int i = 0; i < parts; i++) {
        i64 unit = chunks ? i * chunk : (i * units + parts - 1) / parts;
        at[i] = (unit < units ? unit : units) * granule;
        if (at[i] > extent || unit >= units) at[i] = extent;
    }
    at[0] = 0;
    at[parts] = extent;
    return at;
}

static const devset *in_turn(arena *a, int n, int devices, const int *order)
{
    devset *x = take(a, n, sizeof *x);
    for (int i = 0; i < n; i++) x[i] = DEV(order != NULL ? order[i] : i % devices);
    return x;
}

static const devset *everywhere(arena *a, int devices)
{
    devset *x = take(a, 1, sizeof *x);
    *x = ALL_DEVICES(devices);
    return x;
}

static cut cut_of(arena *a, const spec *s, int index, int parts, bool chunks)
{
    const label *l = &s->labels[index];
    return (cut){.n_labels = 1, .labels = {index}, .n_parts = parts, .at = points(a, l->extent, l->granule, parts, chunks)};
}

static choice choice_of(arena *a, int n, const cut *cuts, int devices, const int *order)
{
    cut *x = take(a, n, sizeof *x);
    choice c = {.n_cuts = n, .cuts = x, .n_tuples = 1};
    for (int i = 0; i < n; i++) {
        x[i] = cuts[i];
        c.n_tuples *= x[i].n_parts;
    }
    c.devices = n == 0 ? everywhere(a, devices) : in_turn(a, c.n_tuples, devices, order);
    return c;
}

static void add_option(planner *p, const spec *s, options *o, int n, const cut *cuts)
{
    choice c = choice_of(&p->arena, n, cuts, p->devices, NULL);
    if (ein__choice_check(s, &c, p->devices, NULL) != EIN_OK) return;
    assert_true(o->n < MOST_OPTIONS);
    o->at[o->n++] = c;
}

static void add_singles(planner *p, const spec *s, options *o)
{
    for (int l = 0; l < s->n_labels; l++) {
        if (s->labels[l].whole) continue;
        cut even = cut_of(&p->arena, s, l, p->devices, false), chunks = cut_of(&p->arena, s, l, p->devices, true);
        add_option(p, s, o, 1, &even);
        if (memcmp(even.at, chunks.at, (size_t)(p->devices + 1) * sizeof *even.at) != 0) add_option(p, s, o, 1, &chunks);
    }
}

static void add_pairs(planner *p, const spec *s, options *o)
{
    for (int l = 0; l < s->n_labels; l++)
        for (int m = 0; m < s->n_labels; m++)
            for (int parts = 2; parts < p->devices; parts++) {
                if (m == l || p->devices % parts != 0 || s->labels[l].whole || s->labels[m].whole) continue;
                if (s->labels[l].extent < 2 || s->labels[m].extent < 2) continue; /* a single cut, as good as */
                cut both[2] = {cut_of(&p->arena, s, l, parts, false), cut_of(&p->arena, s, m, p->devices / parts, false)};
                add_option(p, s, o, 2, both);
            }
}

static void list_options(planner *p, int i)
{
    const node *n = &p->g.nodes.items[i];
    options *o = &p->nodes[i];
    if (ein__node_is_view(n)) {
        o->n = 1; /* a choice of no tuples */
        return;
    }
    o->at[o->n++] = choice_of(&p->arena, 0, NULL, p->devices, NULL);
    if (p->devices == 1) return;
    add_singles(p, &n->spec, o);
    add_pairs(p, &n->spec, o);
}

/* ---- components --------------------------------------------------------------------------------------- */

static int first_of(const planner *p, int i)
{
    while (p->component[i] != i) i = p->component[i];
    return i;
}

static void join(planner *p, int i, int j)
{
    int a = first_of(p, i), b = first_of(p, j);
    p->component[a > b ? a : b] = a > b ? b : a;
}

static void find_components(planner *p)
{
    const graph *g = &p->g;
    for (int i = 0; i < g->nodes.n; i++) p->component[i] = i;
    for (int i = 0; i < g->nodes.n; i++) {
        const node *n = &g->nodes.items[i];
        if (n->kind == OP_APPEND) p->append = true;
        for (int o = 0; o < n->spec.n_operands; o++) {
            const value_info *v = &g->values.items[n->operands[o]];
            if (v->kind == VALUE_RESULT) join(p, i, v->owner);
        }
    }
    for (int l = 0; l < g->loops.n; l++)
        for (int i = 1; i < g->nodes.n; i++) join(p, 0, i);
    for (int i = 0; i < g->nodes.n; i++) {
        int f = p->component[i] = first_of(p, i);
        p->plans[i] = 1;
        p->plans[f] *= p->nodes[i].n;
        if (p->plans[f] > MOST_PLANS) p->plans[f] = MOST_PLANS + 1;
    }
}

static void planner_make(planner *p, const ein_graph *user, int devices)
{
    error e = {0};
    *p = (planner){.devices = devices};
    if (ein__canonicalize(&user->g, &p->g, &e) != EIN_OK) fail_msg("%s", e.line);
    p->nodes = take(&p->arena, p->g.nodes.n, sizeof *p->nodes);
    p->component = take(&p->arena, p->g.nodes.n, sizeof *p->component);
    p->plans = take(&p->arena, p->g.nodes.n, sizeof *p->plans);
    for (int i = 0; i < p->g.nodes.n; i++) list_options(p, i);
    find_components(p);
}

static void planner_free(planner *p)
{
    ein__arena_free(&p->g.arena);
    ein__arena_free(&p->arena);
}

/* $EIN_PLANS, where time is short. */
static int allowed(int n)
{
    const char *most = getenv("EIN_PLANS");
    return most != NULL && atoi(most) > 0 && atoi(most) < n ? atoi(most) : n;
}

static int count(const planner *p)
{
    int most = p->append && p->devices > 1 ? MOST_PLANS : 1;
    for (int i = 0; i < p->g.nodes.n; i++)
        if (p->plans[i] > most) most = p->plans[i] < MOST_PLANS ? p->plans[i] : MOST_PLANS;
    return most;
}

int plan_count(const ein_graph *g, int devices)
{
    planner p;
    planner_make(&p, g, devices);
    int n = allowed(count(&p));
    planner_free(&p);
    return n;
}

/* ---- a plan by its number ----------------------------------------------------------------------------- */

/* The choice as a grid whose other axis, before or after it, is one device wide. */
static choice as_grid(planner *p, const spec *s, const choice *c, dice *d)
{
    int other = dice_below(d, s->n_labels);
    if (c->n_cuts != 1 || dice_chance(d, 50) || other == c->cuts[0].labels[0] || s->labels[other].whole) return *c;
    cut both[2] = {c->cuts[0], cut_of(&p->arena, s, other, 1, false)};
    if (dice_chance(d, 50)) {
        both[0] = both[1];
        both[1] = c->cuts[0];
    }
    choice grid = choice_of(&p->arena, 2, both, p->devices, NULL);
    return ein__choice_check(s, &grid, p->devices, NULL) == EIN_OK ? grid : *c;
}

/* Plans of a component that are few: each, then random ones; of one that has many: listed choices and any others in
 * turn. */
static void choose(planner *p, int i, const plan *random, plan *out)
{
    dice pick = dice_make(SEED + (uint64_t)i, 0);
    int digits[MOST_OPTIONS] = {0};
    for (int k = 0; k < p->g.nodes.n; k++) {
        const options *o = &p->nodes[k];
        int f = p->component[k], drawn = dice_below(&pick, o->n), digit = 0;
        dice shape = dice_make(SEED + (uint64_t)i, 1 + (uint64_t)k);
        bool few = p->plans[f] <= MOST_PLANS;
        out->nodes[k] = random->nodes[k];
        if (o->n == 1 && o->at[0].n_tuples == 0) continue;
        if (p->append || (few ? i >= p->plans[f] : i % 2 == 1)) continue;
        if (few) {
            if (k == f) digits[f] = i;
            digit = digits[f] % o->n;
            digits[f] /= o->n;
        }
        out->nodes[k] = as_grid(p, &p->g.nodes.items[k].spec, &o->at[few ? digit : drawn], &shape);
    }
}

static relation laid(arena *a, const value_info *v, int dimension, int parts, const int *order, int devices)
{
    relation r = {.n_axes = v->rank, .n_blocks = parts, .n_partials = 1, .devices = in_turn(a, parts, devices, order)};
    for (int i = 0; i < v->rank; i++) {
        const i64 *at = points(a, v->shape[i], 1, i == dimension ? parts : 1, true);
        r.axes[i] = (axis){.extent = v->shape[i], .n_parts = i == dimension ? parts : 1, .lo = at, .hi = at + 1};
    }
    assert_int_equal(ein__relation_canonical(a, &r), EIN_OK);
    return r;
}

static relation on_all(arena *a, const graph *g, value v, int devices)
{
    relation r;
    assert_int_equal(ein__relation_whole(a, ein__value_numel(g, v), ALL_DEVICES(devices), &r), EIN_OK);
    return r;
}

/* Leaf k of plan i: on all devices, or along one of its dimensions; in every other plan, as the dice have it. */
static void lay(planner *p, int i, const plan *random, plan *out)
{
    for (int k = 0; k < p->g.leaves.n; k++) {
        const leaf *l = &p->g.leaves.items[k];
        const value_info *v = &p->g.values.items[l->value];
        int way = (i / 2 + k) % (v->rank + 1) - 1;
        out->leaves[k] = random->leaves[k];
        if (i % 2 == 1 || p->append || l->kind == LEAF_INPUT) continue;
        out->leaves[k] = way < 0 ? on_all(&p->arena, &p->g, l->value, p->devices)
                                 : laid(&p->arena, v, way, p->devices, NULL, p->devices);
    }
}

static char *plan_print(const graph *g, const plan *p)
{
    error e = {0};
    text json = {0};
    if (ein__plan_check(g, p, &e) != EIN_OK || ein__plan_print(g, p, &json) != EIN_OK) fail_msg("%s", e.line);
    return json.bytes;
}

static char *numbered(planner *p, int i)
{
    plan random, out;
    assert_true(p->g.nodes.n <= MOST_OPTIONS);
    assert_int_equal(random_plan_make(&p->arena, &p->g, SEED + (uint64_t)i, p->devices, NULL, &random), EIN_OK);
    out = random;
    out.nodes = take(&p->arena, p->g.nodes.n, sizeof *out.nodes);
    out.leaves = take(&p->arena, p->g.leaves.n, sizeof *out.leaves);
    choose(p, i, &random, &out);
    lay(p, i, &random, &out);
    return plan_print(&p->g, &out);
}

char *plan_text(const ein_graph *g, int devices, int i)
{
    planner p;
    planner_make(&p, g, devices);
    char *json = numbered(&p, i);
    planner_free(&p);
    return json;
}

/* ---- drafts ------------------------------------------------------------------------------------------- */

void draft_make(plan_draft *d, const ein_graph *user, int devices)
{
    error e = {0};
    *d = (plan_draft){.plan = {.n_devices = devices}};
    if (ein__canonicalize(&user->g, &d->graph, &e) != EIN_OK) fail_msg("%s", e.line);
    const graph *g = &d->graph;
    plan *p = &d->plan;
    assert_int_equal(g->loops.n, 0);
    p->n_nodes = g->nodes.n;
    p->n_leaves = g->leaves.n;
    p->nodes = take(&d->arena, g->nodes.n, sizeof *p->nodes);
    p->leaves = take(&d->arena, g->leaves.n, sizeof *p->leaves);
    for (int i = 0; i < g->nodes.n; i++)
        if (!ein__node_is_view(&g->nodes.items[i])) p->nodes[i] = choice_of(&d->arena, 0, NULL, devices, NULL);
    for (int i = 0; i < g->leaves.n; i++) {
        const leaf *l = &g->leaves.items[i];
        p->leaves[i] = on_all(&d->arena, g, l->value, devices);
        if (l->kind == LEAF_INPUT)
            assert_int_equal(ein__relation_whole(&d->arena, ein__value_numel(g, l->value), DEV(HOST), &p->leaves[i]), EIN_OK);
    }
}

static int label_named(const spec *s, const char *name)
{
    size_t n = strcspn(name, ",");
    for (int l = 0; l < s->n_labels; l++)
        if (strlen(s->labels[l].name) == n && strncmp(s->labels[l].name, name, n) == 0) return l;
    return -1;
}

static const char *behind(const char *name)
{
    name += strcspn(name, ",");
    return name + (*name == ',');
}

static bool has_labels(const spec *s, const char *by)
{
    for (; *by != 0; by = behind(by))
        if (label_named(s, by) < 0) return false;
    return true;
}

static int node_named(const graph *g, const char *name, int number, const char *by)
{
    for (int i = 0; i < g->nodes.n; i++) {
        const node *n = &g->nodes.items[i];
        bool found = strcmp(n->name, name) == 0 && !ein__node_is_view(n) && has_labels(&n->spec, by);
        if (found && number-- == 0) return i;
    }
    fail_msg("no node %s with %s", name, by);
    return -1;
}

void draft_cut(plan_draft *d, const char *name, int number, const char *by, const int *parts, const int *order)
{
    int i = node_named(&d->graph, name, number, by), n = 0;
    const spec *s = &d->graph.nodes.items[i].spec;
    cut cuts[MAX_LABELS];
    for (; *by != 0; by = behind(by), n++) cuts[n] = cut_of(&d->arena, s, label_named(s, by), parts[n], false);
    d->plan.nodes[i] = choice_of(&d->arena, n, cuts, d->plan.n_devices, order);
}

void draft_lay(plan_draft *d, const char *parameter, int dimension, int parts, const int *order)
{
    for (int i = 0; i < d->graph.leaves.n; i++) {
        const leaf *l = &d->graph.leaves.items[i];
        if (l->kind != LEAF_PARAMETER || strcmp(l->name, parameter) != 0) continue;
        d->plan.leaves[i] = laid(&d->arena, &d->graph.values.items[l->value], dimension, parts, order, d->plan.n_devices);
        return;
    }
    fail_msg("no parameter %s", parameter);
}

char *draft_text(plan_draft *d)
{
    char *json = plan_print(&d->graph, &d->plan);
    ein__arena_free(&d->graph.arena);
    ein__arena_free(&d->arena);
    return json;
}
