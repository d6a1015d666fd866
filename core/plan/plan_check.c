/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier of plans: each choice against its node's spec, each relation against its tensor, and the
 * places where two of them must agree. */
#include "core/plan/plan.h"

#include <math.h>

static ein_status check_sizes(const graph *g, const plan *p, error *e)
{
    int carries = 0;
    for (int i = 0; i < g->loops.n; i++) carries += g->loops.items[i].n_carries;
    if (p->n_devices < 1 || p->n_devices > MAX_DEVICES)
        return ein__fail(e, EIN_NO_PLAN, "plan: %d devices, must be 1 to %d", p->n_devices, MAX_DEVICES);
    if (p->n_nodes != g->nodes.n || p->n_leaves != g->leaves.n || p->n_carries != carries)
        return ein__fail(e, EIN_NO_PLAN, "plan: %d nodes, %d leaves, %d carries; the graph has %d, %d, %d",
                         p->n_nodes, p->n_leaves, p->n_carries, g->nodes.n, g->leaves.n, carries);
    if (!isfinite(p->predicted_us) || p->predicted_us < 0 || p->predicted_bytes < 0 || p->states_searched < 0)
        return ein__fail(e, EIN_NO_PLAN, "plan: predicted %g us and %lld bytes", p->predicted_us,
                         (long long)p->predicted_bytes);
    if (!isfinite(p->bound_us) || p->bound_us < 0)
        return ein__fail(e, EIN_NO_PLAN, "plan: bound of %g us", p->bound_us);
    return EIN_OK;
}

static ein_status check_node(const graph *g, const plan *p, int i, error *e)
{
    const node *n = &g->nodes.items[i];
    const choice *c = &p->nodes[i];
    error why = {0};
    if (ein__node_is_view(n)) {
        if (c->n_cuts == 0 && c->n_tuples == 0) return EIN_OK;
        return ein__fail(e, EIN_NO_PLAN, "%s (node %d) is a view and takes no choice", n->name, i);
    }
    if (ein__choice_check(&n->spec, c, p->n_devices, &why) == EIN_OK) return EIN_OK;
    return ein__fail(e, EIN_NO_PLAN, "%s (node %d): %s", n->name, i, why.line);
}

/* Finished, stored whole, every element somewhere. */
static ein_status check_relation(const graph *g, const plan *p, const relation *r, value v, const char *what,
                                 int i, error *e)
{
    error why = {0};
    bool broadcast = false;
    for (int k = 0; k < r->n_axes; k++) broadcast = broadcast || r->axes[k].broadcast;
    if (broadcast || r->n_partials != 1)
        return ein__fail(e, EIN_NO_PLAN, "%s %d: the relation is not finished", what, i);
    if (ein__relation_check(r, ein__value_numel(g, v), p->n_devices, &why) == EIN_OK) return EIN_OK;
    return ein__fail(e, EIN_NO_PLAN, "%s %d: %s", what, i, why.line);
}

static ein_status check_leaf(const graph *g, const plan *p, int i, error *e)
{
    const leaf *l = &g->leaves.items[i];
    const relation *r = &p->leaves[i];
    if (l->kind != LEAF_INPUT) return check_relation(g, p, r, l->value, "leaf", i, e);
    if (r->n_blocks == 1 && r->n_partials == 1 && r->devices[0] == DEV(HOST) &&
        ein__relation_numel(r) == ein__value_numel(g, l->value))
        return EIN_OK;
    return ein__fail(e, EIN_NO_PLAN, "leaf %d is an input and lies whole on the host", i);
}

/* The append is in place. */
static ein_status check_append(arena *a, const graph *g, const plan *p, int i, error *e)
{
    const node *n = &g->nodes.items[i];
    int state = g->values.items[n->operands[0]].owner;
    relation r;
    TRY(ein__relation_finished(a, &n->spec, 0, &p->nodes[i], &r));
    if (ein__relation_equal(&r, &p->leaves[state])) return EIN_OK;
    return ein__fail(e, EIN_NO_PLAN, "%s (node %d): the result does not lie as its state does (leaf %d)",
                     n->name, i, state);
}

static ein_status check_appends(const graph *g, const plan *p, error *e)
{
    arena scratch = {NULL};
    ein_status s = EIN_OK;
    for (int i = 0; i < g->nodes.n && s == EIN_OK; i++)
        if (g->nodes.items[i].kind == OP_APPEND) s = check_append(&scratch, g, p, i, e);
    ein__arena_free(&scratch);
    return s == EIN_NO_MEMORY ? ein__fail(e, s, "out of memory checking a plan") : s;
}

ein_status ein__plan_check(const graph *g, const plan *p, error *e)
{
    TRY(check_sizes(g, p, e));
    for (int i = 0; i < p->n_nodes; i++) TRY(check_node(g, p, i, e));
    for (int i = 0; i < p->n_leaves; i++) TRY(check_leaf(g, p, i, e));
    for (int l = 0, i = 0; l < g->loops.n; l++)
        for (int c = 0; c < g->loops.items[l].n_carries; c++, i++)
            TRY(check_relation(g, p, &p->carries[i], g->loops.items[l].carries[c].value, "carry", i, e));
    return check_appends(g, p, e);
}
