/* SPDX-License-Identifier: Apache-2.0 */
/* Dimensions are followed as factors of index spaces: through an op by the labels that run over them, through views
 * unchanged. */
#include "optimizer/rival_draft.h"

#include <string.h>

/* ---- dimensions --------------------------------------------------------------------------------------- */

static bool plain(const term *t) { return t->kind == TERM_LABEL || t->kind == TERM_RANGE; }

factor ein__factor_of_label(const index_map *m, int label)
{
    i64 stride = 1;
    for (int i = m->n - 1; i >= 0; i--) {
        if (plain(&m->terms[i]) && m->terms[i].label == label) return (factor){stride, m->terms[i].extent};
        stride *= m->terms[i].extent;
    }
    return (factor){0, 0};
}

static void add_label(const draft *d, int node, int l, i64 under, points at, covering *out)
{
    const label *x = &d->g->nodes.items[node].spec.labels[l];
    i64 unit = at == LIKED ? d->units[node][l] : 1;
    if (x->whole || x->extent < 2) return;
    if (unit % under != 0) unit = under;
    if (x->extent % unit != 0 || x->extent / unit < 2 || unit % x->granule != 0) unit = under > x->granule ? under : x->granule;
    out->labels[out->n] = l;
    out->units[out->n] = unit;
    out->under[out->n++] = under;
}

static void reverse(covering *c)
{
    for (int i = 0, k = c->n - 1; i < k; i++, k--) {
        int l = c->labels[i];
        i64 unit = c->units[i], under = c->under[i];
        c->labels[i] = c->labels[k];
        c->units[i] = c->units[k];
        c->under[i] = c->under[k];
        c->labels[k] = l;
        c->units[k] = unit;
        c->under[k] = under;
    }
}

void ein__cover(const draft *d, int node, const index_map *m, factor f, points at, covering *out)
{
    i64 stride = 1, top = f.stride * f.extent;
    out->n = 0;
    for (int i = m->n - 1; i >= 0; i--) {
        const term *t = &m->terms[i];
        i64 next = stride * t->extent;
        bool inside = stride >= f.stride && next <= top;
        bool major = stride > 0 && stride < f.stride && next == top && f.stride % stride == 0;
        if (plain(t) && t->extent > 1 && (inside || major)) add_label(d, node, t->label, inside ? 1 : f.stride / stride, at, out);
        stride = next;
    }
    reverse(out);
}

void ein__cover_label(const draft *d, int node, int label, points at, covering *out)
{
    out->n = 0;
    add_label(d, node, label, 1, at, out);
}

factor ein__factor_of(const index_map *m, const covering *c)
{
    factor f = {0, 0};
    i64 stride = 1, strides[MAX_TERMS];
    int at = 0, k = 0;
    for (int i = m->n - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= m->terms[i].extent;
    }
    while (at < m->n && (c->n == 0 || !plain(&m->terms[at]) || m->terms[at].label != c->labels[0])) at++;
    for (; at < m->n && k < c->n; at++) {
        const term *t = &m->terms[at];
        if (t->extent == 1) continue;
        if (!plain(t) || t->label != c->labels[k]) break;
        f.stride = strides[at] * c->under[k];
        f.extent = (f.extent > 0 ? f.extent : 1) * (t->extent / c->under[k]);
        k++;
    }
    return f;
}

static bool note(factor *of, value v, factor f)
{
    if (f.extent < 2 || of[v].extent > 0) return false;
    of[v] = f;
    return true;
}

/* Keep the labels that the results have. */
static void keep_parallel(const spec *s, covering *c)
{
    int n = 0;
    for (int i = 0; i < c->n; i++) {
        if (ein__spec_role(s, c->labels[i]) == ROLE_AGGREGATED) continue;
        c->labels[n] = c->labels[i];
        c->units[n] = c->units[i];
        c->under[n++] = c->under[i];
    }
    c->n = n;
}

static bool trace_node(const draft *d, int i, factor *of)
{
    const node *n = &d->g->nodes.items[i];
    const spec *s = &n->spec;
    covering c;
    bool more = false;
    for (int o = 0; o < s->n_operands; o++) {
        value v = ein__value_source(d->g, n->operands[o]);
        if (of[v].extent == 0) continue;
        ein__cover(d, i, &s->operands[o], of[v], ANY, &c);
        keep_parallel(s, &c);
        for (int r = 0; r < s->n_results; r++)
            more = note(of, n->results[r], ein__factor_of(&s->results[r], &c)) || more;
    }
    for (int r = 0; r < s->n_results; r++) {
        if (of[n->results[r]].extent == 0) continue;
        ein__cover(d, i, &s->results[r], of[n->results[r]], ANY, &c);
        for (int o = 0; o < s->n_operands; o++) {
            value v = ein__value_source(d->g, n->operands[o]);
            if (d->activation[v]) more = note(of, v, ein__factor_of(&s->operands[o], &c)) || more;
        }
    }
    return more;
}

/* What a carry is, its first and next values are. */
static bool trace_carry(const draft *d, const carry *c, factor *of)
{
    value all[3] = {c->value, ein__value_source(d->g, c->init), ein__value_source(d->g, c->next)};
    factor f = {0, 0};
    bool more = false;
    for (int i = 2; i >= 0; i--)
        if (of[all[i]].extent > 0) f = of[all[i]];
    for (int i = 0; i < 3; i++) more = note(of, all[i], f) || more;
    return more;
}

ein_status ein__draft_trace(const draft *d, factor *of)
{
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < d->g->nodes.n; i++)
            if (!ein__node_is_view(&d->g->nodes.items[i])) more = trace_node(d, i, of) || more;
        for (int l = 0; l < d->g->loops.n; l++)
            for (int c = 0; c < d->g->loops.items[l].n_carries; c++)
                more = trace_carry(d, &d->g->loops.items[l].carries[c], of) || more;
    }
    return EIN_OK;
}

int ein__draft_attention(const draft *d)
{
    for (int i = 0; i < d->g->nodes.n; i++)
        if (d->g->nodes.items[i].kind == OP_ATTENTION) return i;
    return -1;
}

ein_status ein__draft_sequence(const draft *d, factor **of)
{
    const graph *g = d->g;
    bool attention = ein__draft_attention(d) >= 0;
    NEW(d->a, *of, g->values.n);
    for (int i = 0; i < g->nodes.n && attention; i++) {
        const node *n = &g->nodes.items[i];
        if (n->kind == OP_ATTENTION)
            note(*of, ein__value_source(g, n->operands[0]), ein__factor_of_label(&n->spec.operands[0], ATT_S));
    }
    for (int i = 0; i < g->leaves.n && !attention; i++) {
        value v = g->leaves.items[i].value;
        const value_info *x = &g->values.items[v];
        if (g->leaves.items[i].kind == LEAF_INPUT && x->rank > 0 && x->shape[0] > 0)
            note(*of, v, (factor){ein__value_numel(g, v) / x->shape[0], x->shape[0]});
    }
    return ein__draft_trace(d, *of);
}

ein_status ein__draft_heads(const draft *d, factor **of)
{
    NEW(d->a, *of, d->g->values.n);
    for (int i = 0; i < d->g->nodes.n; i++) {
        const node *n = &d->g->nodes.items[i];
        for (int o = 0; o < 3 && n->kind == OP_ATTENTION; o++) {
            const covering all = {2, {ATT_H, ATT_G}, {1, 1}, {1, 1}};
            note(*of, ein__value_source(d->g, n->operands[o]), ein__factor_of(&n->spec.operands[o], &all));
        }
    }
    return ein__draft_trace(d, *of);
}

/* ---- ops ---------------------------------------------------------------------------------------------- */

static ein_status add_cut(const draft *d, const spec *s, const covering *c, int k, int parts, cut *out)
{
    i64 *at, extent = s->labels[c->labels[k]].extent, units = extent / c->units[k];
    NEW(d->a, at, parts + 1);
    for (int i = 1; i < parts; i++) at[i] = i * units / parts * c->units[k];
    at[parts] = extent;
    *out = (cut){.n_labels = 1, .labels = {c->labels[k]}, .n_parts = parts, .at = at};
    return EIN_OK;
}

static i64 units_of(const spec *s, const covering *c, int k) { return s->labels[c->labels[k]].extent / c->units[k]; }

/* In how many parts label k is cut, if `left` devices are left for it and those after it. */
static int parts_of(const spec *s, const covering *c, int k, int left)
{
    i64 units = units_of(s, c, k);
    int parts = left;
    if (units >= left) return left;
    if (k == c->n - 1) return (int)units;
    while (parts > units || left % parts != 0) parts--;
    return parts;
}

static ein_status keep_choice(draft *d, int node, choice made, bool zigzag, bool *done)
{
    devset *devices;
    int n = made.n_tuples, p = d->n_devices;
    NEW(d->a, devices, n);
    for (int i = 0; i < n && zigzag; i++) devices[i] = DEV(i < p ? i : 2 * p - 1 - i);
    for (int i = 0; i < p && !zigzag; i++) devices[i * n / p] |= DEV(i);
    made.devices = devices;
    *done = ein__choice_check(&d->g->nodes.items[node].spec, &made, p, NULL) == EIN_OK;
    if (*done) d->nodes[node] = made;
    return EIN_OK;
}

ein_status ein__draft_cut(draft *d, int node, const covering *c, bool zigzag, bool *done)
{
    const spec *s = &d->g->nodes.items[node].spec;
    choice made = {.n_tuples = 1};
    cut *cuts;
    int left = d->n_devices;
    *done = false;
    NEW(d->a, cuts, c->n);
    made.cuts = cuts;
    zigzag = zigzag && c->n == 1 && units_of(s, c, 0) >= 2 * d->n_devices;
    if (zigzag) left *= 2;
    for (int k = 0; k < c->n && left > 1; k++) {
        int parts = parts_of(s, c, k, left);
        if (parts < 2) continue;
        TRY(add_cut(d, s, c, k, parts, &cuts[made.n_cuts++]));
        made.n_tuples *= parts;
        left /= parts;
    }
    return made.n_cuts > 0 ? keep_choice(d, node, made, zigzag, done) : EIN_OK;
}

/* ---- a draft ------------------------------------------------------------------------------------------ */

static void find_activations(draft *d)
{
    const graph *g = d->g;
    for (int v = 0; v < g->values.n; v++) {
        const value_info *x = &g->values.items[v];
        leaf_kind kind = x->kind == VALUE_LEAF ? g->leaves.items[x->owner].kind : LEAF_INPUT;
        d->activation[v] = x->kind == VALUE_CARRY || (x->kind == VALUE_LEAF && (kind == LEAF_INPUT || kind == LEAF_STATE));
    }
    for (int i = 0; i < g->nodes.n; i++) {
        const node *n = &g->nodes.items[i];
        for (int o = 0; o < n->spec.n_operands; o++)
            for (int r = 0; r < n->spec.n_results; r++)
                d->activation[n->results[r]] = d->activation[n->results[r]] || d->activation[n->operands[o]];
    }
}

ein_status ein__draft_make(draft *d)
{
    devset *all;
    NEW(d->a, d->activation, d->g->values.n);
    NEW(d->a, d->nodes, d->g->nodes.n);
    NEW(d->a, all, 1);
    *all = ALL_DEVICES(d->n_devices);
    find_activations(d);
    for (int i = 0; i < d->g->nodes.n; i++)
        if (!ein__node_is_view(&d->g->nodes.items[i])) d->nodes[i] = (choice){.n_tuples = 1, .devices = all};
    return ein__choice_units(d->a, d->g, d->n_devices, &d->units);
}

/* ---- the plan ----------------------------------------------------------------------------------------- */

/* The need of node i's operand o, if it is all of the value; else whole copies where it is needed. */
static ein_status lay_out(const draft *d, int i, int o, relation *out)
{
    const node *n = &d->g->nodes.items[i];
    i64 numel = ein__value_numel(d->g, n->operands[o]);
    devset all = 0;
    TRY(ein__relation_need(d->a, &n->spec, o, &d->nodes[i], out));
    if (ein__relation_check(out, numel, d->n_devices, NULL) == EIN_OK) return EIN_OK;
    for (int b = 0; b < out->n_blocks; b++) all |= out->devices[b];
    return ein__relation_whole(d->a, numel, all != 0 ? all : ALL_DEVICES(d->n_devices), out);
}

/* Where `v` is read first, in nodes [lo, hi); *found false: nowhere. */
static ein_status first_need(const draft *d, value v, int lo, int hi, relation *out, bool *found)
{
    *found = false;
    for (int i = lo; i < hi && !*found; i++) {
        const node *n = &d->g->nodes.items[i];
        for (int o = 0; o < n->spec.n_operands && !*found && !ein__node_is_view(n); o++) {
            if (ein__value_source(d->g, n->operands[o]) != v) continue;
            *found = true;
            TRY(n->kind == OP_APPEND && o == 0 ? ein__relation_finished(d->a, &n->spec, 0, &d->nodes[i], out)
                                               : lay_out(d, i, o, out));
        }
    }
    return EIN_OK;
}

/* The append that updates the state decides; -1: there is none. */
static int append_of(const graph *g, value state)
{
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.items[i].kind == OP_APPEND && g->nodes.items[i].operands[0] == state) return i;
    return -1;
}

ein_status ein__draft_leaf(const draft *d, int index, relation *out)
{
    const leaf *l = &d->g->leaves.items[index];
    i64 numel = ein__value_numel(d->g, l->value);
    int append = append_of(d->g, l->value);
    bool found = false;
    if (l->kind == LEAF_INPUT) return ein__relation_whole(d->a, numel, DEV(HOST), out);
    if (append >= 0) return first_need(d, l->value, append, append + 1, out, &found);
    if (l->kind != LEAF_CONSTANT) TRY(first_need(d, l->value, 0, d->g->nodes.n, out, &found));
    return found ? EIN_OK : ein__relation_whole(d->a, numel, ALL_DEVICES(d->n_devices), out);
}

ein_status ein__draft_finish(const draft *d, plan *out)
{
    const graph *g = d->g;
    relation *carry;
    *out = (plan){.n_devices = d->n_devices, .n_nodes = g->nodes.n, .n_leaves = g->leaves.n, .nodes = d->nodes};
    for (int l = 0; l < g->loops.n; l++) out->n_carries += g->loops.items[l].n_carries;
    NEW(d->a, out->leaves, out->n_leaves);
    NEW(d->a, out->carries, out->n_carries);
    for (int i = 0; i < g->leaves.n; i++) TRY(ein__draft_leaf(d, i, &out->leaves[i]));
    carry = out->carries;
    for (int l = 0; l < g->loops.n; l++)
        for (int c = 0; c < g->loops.items[l].n_carries; c++, carry++) {
            const loop *x = &g->loops.items[l];
            bool found;
            TRY(first_need(d, x->carries[c].value, x->lo, x->hi, carry, &found));
            if (!found)
                TRY(ein__relation_whole(d->a, ein__value_numel(g, x->carries[c].value), ALL_DEVICES(d->n_devices), carry));
        }
    return EIN_OK;
}
