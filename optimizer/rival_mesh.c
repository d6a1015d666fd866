/* SPDX-License-Identifier: Apache-2.0 */
/* The best plan on a mesh: the devices stand in a grid of up to k axes, the same for all ops, and each op gives every
 * axis to one of its labels or lets it do the same work again. A label takes its axes in their order; where it does not
 * divide, parts differ by one unit, whose largest is that of a padded one. All grids and orders of their axes are
 * searched, with the search's own costs and memory. */
#include <string.h>

#include "optimizer/mesh.h"
#include "optimizer/rival.h"

enum { SAME = -1 };

typedef struct grid {
    int n, size[MAX_MESH];
} grid;

/* ---- an op's choices on a grid ------------------------------------------------------------------------- */

typedef struct assignment { int label[MAX_MESH]; } assignment;

static int parts_of(const grid *g, const assignment *x, int label)
{
    int parts = 1;
    for (int i = 0; i < g->n; i++)
        if (x->label[i] == label) parts *= g->size[i];
    return parts;
}

/* Which part of the label device `d` has; the first axis of the grid is its major digit. */
static int part_on(const grid *g, const assignment *x, int label, int d)
{
    int part = 0, below = 1;
    for (int i = 0; i < g->n; i++) below *= g->size[i];
    for (int i = 0; i < g->n; i++) {
        below /= g->size[i];
        if (x->label[i] == label) part = part * g->size[i] + d / below % g->size[i];
    }
    return part;
}

static ein_status add_choice(draft *d, int node, const grid *g, const assignment *x, choice_list *out)
{
    const spec *s = &d->g->nodes.items[node].spec;
    choice c = {.n_tuples = 1};
    cut *cuts;
    devset *devices;
    NEW(d->a, cuts, s->n_labels);
    NEW(d->a, devices, d->n_devices);
    for (int l = 0; l < s->n_labels; l++) {
        int parts = parts_of(g, x, l);
        i64 *at, extent = s->labels[l].extent, unit = d->units[node][l];
        if (parts < 2) continue;
        if (extent % unit != 0 || extent / unit < parts) unit = s->labels[l].granule;
        if (extent / unit < parts) return EIN_OK;
        NEW(d->a, at, parts + 1);
        for (int i = 0; i < parts; i++) at[i] = i * (extent / unit) / parts * unit;
        at[parts] = extent;
        cuts[c.n_cuts++] = (cut){.n_labels = 1, .labels = {l}, .n_parts = parts, .at = at};
        c.n_tuples *= parts;
    }
    for (int p = 0; p < d->n_devices; p++) {
        int tuple = 0;
        for (int k = 0; k < c.n_cuts; k++) tuple = tuple * cuts[k].n_parts + part_on(g, x, cuts[k].labels[0], p);
        devices[tuple] |= DEV(p);
    }
    c.cuts = cuts;
    c.devices = devices;
    if (ein__choice_check(s, &c, d->n_devices, NULL) == EIN_OK) PUSH(d->a, out, c);
    return EIN_OK;
}

static int count_aggregated(const spec *s, const grid *g, const assignment *x)
{
    uint32_t cut = 0;
    for (int i = 0; i < g->n; i++)
        if (x->label[i] != SAME) cut |= 1u << x->label[i];
    return __builtin_popcount(cut & ein__spec_aggregated(s));
}

/* Axes of one size may change places in all ops at once: the first op takes them in the order of its labels. */
static bool in_order(const grid *g, const assignment *x)
{
    for (int i = 1; i < g->n; i++)
        if (g->size[i] == g->size[i - 1] && x->label[i] < x->label[i - 1]) return false;
    return true;
}

static ein_status mesh_choices(draft *d, int node, const grid *g, bool first, choice_list *out)
{
    const spec *s = &d->g->nodes.items[node].spec;
    assignment x;
    for (int i = 0; i < g->n; i++) x.label[i] = SAME;
    for (int i = 0; i < g->n;) {
        if (count_aggregated(s, g, &x) <= 1 && (!first || in_order(g, &x))) TRY(add_choice(d, node, g, &x, out));
        for (i = 0; i < g->n; i++) { /* the next assignment */
            do x.label[i]++;
            while (x.label[i] < s->n_labels && (s->labels[x.label[i]].whole || s->labels[x.label[i]].extent < 2));
            if (x.label[i] < s->n_labels) break;
            x.label[i] = SAME;
        }
    }
    return EIN_OK;
}

/* ---- grids --------------------------------------------------------------------------------------------- */

static ein_status search_grid(draft *d, const grid *g, plan *best)
{
    choice_list *choices;
    plan p;
    bool first = true;
    NEW(d->a, choices, d->g->nodes.n);
    for (int i = 0; i < d->g->nodes.n; i++) {
        if (ein__node_is_view(&d->g->nodes.items[i])) continue;
        TRY(mesh_choices(d, i, g, first, &choices[i]));
        first = false;
    }
    const search_limits limits = {.choices = choices, .slack = d->slack};
    TRY(ein__search_within(d->a, d->g, d->m, d->costs, NULL, &limits, &p, d->e));
    i64 searched = best->states_searched + p.states_searched;
    if (best->n_nodes == 0 || p.predicted_us < best->predicted_us) *best = p;
    best->states_searched = searched;
    return EIN_OK;
}

/* All ways to write `left` as a product of `more` factors. */
static ein_status each_grid(draft *d, grid *g, int left, int more, plan *best)
{
    if (more == 0) return left == 1 ? search_grid(d, g, best) : EIN_OK;
    for (int size = 2; size <= left; size++) {
        if (left % size != 0) continue;
        g->size[g->n++] = size;
        TRY(each_grid(d, g, left / size, more - 1, best));
        g->n--;
    }
    return EIN_OK;
}

static ein_status make(draft *d, int axes, plan *out, const char **why_not)
{
    static const char *const why[] = {"one device is no mesh", "the number of devices has no two factors",
                                      "the number of devices has no three factors"};
    *out = (plan){0};
    for (int k = 1; k <= axes; k++) {
        grid g = {0};
        i64 before = out->states_searched;
        TRY(each_grid(d, &g, d->n_devices, k, out));
        if (out->states_searched == before) *why_not = why[k - 1];
        if (*why_not != NULL) return EIN_OK;
    }
    return EIN_OK;
}

static ein_status make1(draft *d, plan *out, const char **why_not) { return make(d, 1, out, why_not); }
static ein_status make2(draft *d, plan *out, const char **why_not) { return make(d, 2, out, why_not); }
static ein_status make3(draft *d, plan *out, const char **why_not) { return make(d, 3, out, why_not); }

const rival ein__rival_mesh1 = {"mesh1", make1, 0};
const rival ein__rival_mesh2 = {"mesh2", make2, 0};
const rival ein__rival_mesh3 = {"mesh3", make3, 0};
