/* SPDX-License-Identifier: Apache-2.0 */
/* Where neighbours would like each other to cut.
 *
 * Every map of a value marks places in its index space: the strides (products of later extents) at which a
 * term begins, and the units of its labels. A label whose term covers such a place takes it as its unit, the
 * largest that leaves a unit per device, and marks it in turn; so a grouping of heads that only attention
 * knows reaches the projections before it. Repeated until nothing moves. */
#include "optimizer/choices.h"

enum { MAX_MARKS = 32, MAX_ROUNDS = 8, VECTOR = 16 };

typedef struct marks {
    int n;
    i64 at[MAX_MARKS];
} marks; /* strides, each once */

static void add_mark(marks *m, i64 stride)
{
    if (stride <= 1 || m->n == MAX_MARKS) return;
    for (int i = 0; i < m->n; i++)
        if (m->at[i] == stride) return;
    m->at[m->n++] = stride;
}

static void mark_map(const index_map *m, const i64 *units, marks *out)
{
    i64 stride = 1;
    for (int i = m->n - 1; i >= 0; i--) {
        const term *t = &m->terms[i];
        if (t->kind == TERM_LABEL) add_mark(out, stride * units[t->label]);
        stride *= t->extent;
        add_mark(out, stride);
    }
}

/* Raise the units of the map's labels to the largest marks that fit; true if one moved. */
static bool raise_units(const spec *s, const index_map *m, const marks *at, int n_devices, i64 *units)
{
    i64 stride = 1;
    bool moved = false;
    for (int i = m->n - 1; i >= 0; i--) {
        const term *t = &m->terms[i];
        for (int k = 0; k < at->n && t->kind == TERM_LABEL && stride > 0; k++) {
            i64 unit = at->at[k] / stride;
            bool inside = at->at[k] % stride == 0 && unit > units[t->label] && unit < t->extent;
            if (!inside || t->extent % unit != 0 || unit % s->labels[t->label].granule != 0) continue;
            if (t->extent / unit < n_devices) continue;
            units[t->label] = unit;
            moved = true;
        }
        stride *= t->extent;
    }
    return moved;
}

static void first_units(const spec *s, int n_devices, i64 *units)
{
    for (int l = 0; l < s->n_labels; l++) {
        const label *x = &s->labels[l];
        units[l] = x->granule;
        if (x->extent % VECTOR == 0 && VECTOR % x->granule == 0 && x->extent >= 4 * VECTOR * n_devices)
            units[l] = VECTOR;
    }
}

static bool visit_nodes(const graph *g, int n_devices, label_units *units, marks *of_value, bool raise)
{
    bool moved = false;
    for (int i = 0; i < g->nodes.n; i++) {
        const node *n = &g->nodes.items[i];
        const spec *s = &n->spec;
        for (int k = 0; k < s->n_operands + s->n_results; k++) {
            bool operand = k < s->n_operands;
            const index_map *m = operand ? &s->operands[k] : &s->results[k - s->n_operands];
            value v = operand ? n->operands[k] : n->results[k - s->n_operands];
            marks *at = &of_value[ein__value_source(g, v)];
            if (!raise)
                mark_map(m, units[i], at);
            else if (raise_units(s, m, at, n_devices, units[i]))
                moved = true;
        }
    }
    return moved;
}

ein_status ein__choice_units(arena *a, const graph *g, int n_devices, label_units **out)
{
    marks *of_value;
    NEW(a, of_value, g->values.n);
    NEW(a, *out, g->nodes.n);
    for (int i = 0; i < g->nodes.n; i++) first_units(&g->nodes.items[i].spec, n_devices, (*out)[i]);
    for (int round = 0; round < MAX_ROUNDS; round++) {
        visit_nodes(g, n_devices, *out, of_value, false);
        if (!visit_nodes(g, n_devices, *out, of_value, true)) break;
    }
    return EIN_OK;
}
