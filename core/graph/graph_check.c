/* SPDX-License-Identifier: Apache-2.0 */
/* The graph's verifier. It holds for the graph as built and for its canonical form, where nodes of a loop
 * stand for all iterations. */
#include "core/graph/graph.h"

#include <inttypes.h>

#define WRONG(...) return ein__fail(e, EIN_INTERNAL, "graph: " __VA_ARGS__)

/* The loop that node i is in, or -1. */
static int loop_of(const graph *g, int i)
{
    for (int l = 0; l < g->loops.n; l++)
        if (i >= g->loops.items[l].lo && i < g->loops.items[l].hi) return l;
    return -1;
}

static bool is_value(const graph *g, value v) { return v >= 0 && v < g->values.n; }

/* May node i (or, for i = nodes.n, an output) read v? */
static bool is_defined(const graph *g, value v, int i)
{
    if (!is_value(g, v)) return false;
    const value_info *x = &g->values.items[v];
    if (x->kind == VALUE_LEAF) return true;
    return x->kind == VALUE_RESULT ? x->owner < i : g->loops.items[x->owner].lo <= i;
}

/* ---- values ---- */

static ein_status check_value(const graph *g, value v, error *e)
{
    const value_info *x = &g->values.items[v];
    bool ok = x->rank >= 0 && x->rank <= EIN_MAX_RANK && ein__dtype_built(x->dtype);
    for (int i = 0; ok && i < x->rank; i++) ok = x->shape[i] >= 0;
    if (!ok) WRONG("value %d has a bad shape or dtype", v);
    if (x->kind == VALUE_LEAF) {
        ok = x->owner >= 0 && x->owner < g->leaves.n && g->leaves.items[x->owner].value == v;
    } else if (x->kind == VALUE_RESULT) {
        ok = x->owner >= 0 && x->owner < g->nodes.n && x->result >= 0 &&
             x->result < g->nodes.items[x->owner].spec.n_results &&
             g->nodes.items[x->owner].results[x->result] == v;
    } else {
        ok = x->owner >= 0 && x->owner < g->loops.n && x->result >= 0 &&
             x->result < g->loops.items[x->owner].n_carries &&
             g->loops.items[x->owner].carries[x->result].value == v;
    }
    if (!ok) WRONG("value %d is not its owner's", v);
    return EIN_OK;
}

static ein_status check_leaves(const graph *g, error *e)
{
    for (int i = 0; i < g->leaves.n; i++) {
        const leaf *l = &g->leaves.items[i];
        if (!is_value(g, l->value) || g->values.items[l->value].kind != VALUE_LEAF ||
            g->values.items[l->value].owner != i)
            WRONG("leaf %d has no value", i);
        if (l->name == NULL || (l->kind == LEAF_CONSTANT && l->data == NULL)) WRONG("leaf %d has no data", i);
        if (l->n_members < 0 || (l->n_members > 0 && l->members == NULL)) WRONG("leaf %d has no members", i);
    }
    return EIN_OK;
}

/* ---- nodes ---- */

static ein_status check_operand(const graph *g, int i, int k, error *e)
{
    const node *n = &g->nodes.items[i];
    value v = n->operands[k];
    if (!is_defined(g, v, i)) WRONG("node %d (%s) reads operand %d before it is defined", i, n->name, k);
    if (ein__map_numel(&n->spec.operands[k]) != ein__value_numel(g, v))
        WRONG("node %d (%s): operand %d has %" PRId64 " elements, its map %" PRId64, i, n->name, k,
              ein__value_numel(g, v), ein__map_numel(&n->spec.operands[k]));
    const value_info *x = &g->values.items[v];
    int members = x->kind == VALUE_LEAF ? g->leaves.items[x->owner].n_members : 1, l = loop_of(g, i);
    if (members > 1 && (l < 0 || g->loops.items[l].count != members))
        WRONG("node %d (%s): operand %d stands for %d tensors", i, n->name, k, members);
    for (int j = 0; j < n->spec.operands[k].n; j++) {
        const term *t = &n->spec.operands[k].terms[j];
        if (t->kind == TERM_ALL && t->scalar >= g->scalars.n)
            WRONG("node %d (%s): operand %d reads a scalar that does not exist", i, n->name, k);
    }
    return EIN_OK;
}

static ein_status check_indices(const node *n, int i, error *e)
{
    bool ok = n->n_indices >= 0 && n->n_indices <= MAX_INDICES;
    for (int k = 0; ok && k < n->n_indices; k++) ok = n->indices[k] >= 0 && n->indices[k] < n->spec.n_labels;
    if (!ok) WRONG("node %d (%s) reads the index of no label", i, n->name);
    if (n->id_operand < 0) return EIN_OK;
    if (n->id_operand >= n->spec.n_operands || n->id_label < 0 || n->id_label >= n->spec.n_labels)
        WRONG("node %d (%s): operand %d holds ids of label %d", i, n->name, n->id_operand, n->id_label);
    return EIN_OK;
}

static ein_status check_node(const graph *g, int i, error *e)
{
    const node *n = &g->nodes.items[i];
    TRY(ein__spec_check(&n->spec, e));
    if (n->spec.n_operands == 0 && n->kind != OP_MAP) WRONG("node %d (%s) has no operands", i, n->name);
    for (int k = 0; k < n->spec.n_operands; k++) TRY(check_operand(g, i, k, e));
    for (int r = 0; r < n->spec.n_results; r++) {
        value v = n->results[r];
        if (!is_value(g, v) || g->values.items[v].kind != VALUE_RESULT || g->values.items[v].owner != i)
            WRONG("node %d (%s): result %d is not its own", i, n->name, r);
        if (ein__map_numel(&n->spec.results[r]) != ein__value_numel(g, v))
            WRONG("node %d (%s): result %d has %" PRId64 " elements, its map %" PRId64, i, n->name, r,
                  ein__value_numel(g, v), ein__map_numel(&n->spec.results[r]));
    }
    if (n->n_stages < 0 || n->n_stages > MAX_STAGES)
        WRONG("node %d (%s) has %d stages", i, n->name, n->n_stages);
    if ((n->kind == OP_MAP || n->kind == OP_ROW) && n->body[0].n == 0)
        WRONG("node %d (%s) has no body", i, n->name);
    return check_indices(n, i, e);
}

/* ---- loops ---- */

static ein_status check_carry(const graph *g, int l, int c, error *e)
{
    const loop *p = &g->loops.items[l];
    const carry *k = &p->carries[c];
    if (!is_value(g, k->value) || g->values.items[k->value].kind != VALUE_CARRY ||
        g->values.items[k->value].owner != l || g->values.items[k->value].result != c)
        WRONG("loop %d: carry %d has no value", l, c);
    bool outside = is_value(g, k->init) &&
                   !(g->values.items[k->init].kind == VALUE_CARRY && g->values.items[k->init].owner == l);
    if (!outside || !is_defined(g, k->init, p->lo))
        WRONG("loop %d: carry %d starts before it is defined", l, c);
    if (!is_defined(g, k->next, p->hi)) WRONG("loop %d: carry %d has no next value", l, c);
    i64 n = ein__value_numel(g, k->value);
    if (ein__value_numel(g, k->init) != n || ein__value_numel(g, k->next) != n)
        WRONG("loop %d: carry %d changes its size", l, c);
    return EIN_OK;
}

static ein_status check_loops(const graph *g, error *e)
{
    for (int l = 0, before = 0; l < g->loops.n; l++) {
        const loop *p = &g->loops.items[l];
        if (p->lo < before || p->hi <= p->lo || p->hi > g->nodes.n || p->count < 2)
            WRONG("loop %d: nodes %d to %d, %d times", l, p->lo, p->hi, p->count);
        before = p->hi;
        for (int c = 0; c < p->n_carries; c++) TRY(check_carry(g, l, c, e));
    }
    return EIN_OK;
}

/* ---- states ---- */

static const char *state_name(const graph *g, value v)
{
    const value_info *x = &g->values.items[v];
    if (x->kind != VALUE_LEAF || g->leaves.items[x->owner].kind != LEAF_STATE) return NULL;
    return g->leaves.items[x->owner].name;
}

/* The append is in place: whoever else reads the state would read it before or after, as it happens. */
static ein_status check_append(const graph *g, int i, error *e)
{
    const node *n = &g->nodes.items[i];
    value state = n->operands[0];
    const char *name = state_name(g, state);
    int l = loop_of(g, i);
    if (name == NULL) WRONG("node %d (%s) writes to a tensor that is no state", i, n->name);
    if (n->scalar >= g->scalars.n) WRONG("node %d (%s) reads a scalar that does not exist", i, n->name);
    if (l >= 0 && g->leaves.items[g->values.items[state].owner].n_members != g->loops.items[l].count)
        WRONG("state '%.80s' is updated in every iteration", name);
    for (int j = 0; j < g->nodes.n; j++) {
        const node *other = &g->nodes.items[j];
        for (int k = 0; k < other->spec.n_operands; k++) {
            if (other->operands[k] != state || (j == i && k == 0)) continue;
            if (other->kind == OP_APPEND && k == 0) WRONG("state '%.80s' is updated twice", name);
            return ein__fail(e, EIN_INVALID, "state '%.80s' is read by %s beside its update; read its "
                             "update's result", name, other->name);
        }
    }
    for (int k = 0; k < g->outputs.n; k++)
        if (g->outputs.items[k].value == state)
            return ein__fail(e, EIN_INVALID, "state '%.80s' is read by output '%.80s' beside its "
                             "update; read its update's result", name, g->outputs.items[k].name);
    return EIN_OK;
}

ein_status ein__graph_check(const graph *g, error *e)
{
    for (int v = 0; v < g->values.n; v++) TRY(check_value(g, v, e));
    TRY(check_leaves(g, e));
    TRY(check_loops(g, e));
    for (int i = 0; i < g->nodes.n; i++) TRY(check_node(g, i, e));
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.items[i].kind == OP_APPEND) TRY(check_append(g, i, e));
    for (int i = 0; i < g->outputs.n; i++)
        if (!is_defined(g, g->outputs.items[i].value, g->nodes.n)) WRONG("output %d is not defined", i);
    for (int i = 0; i < g->bounds.n; i++)
        if (g->bounds.items[i].scalar < 0 || g->bounds.items[i].scalar >= g->scalars.n)
            WRONG("bound %d is of no scalar", i);
    return EIN_OK;
}
