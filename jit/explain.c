/* SPDX-License-Identifier: Apache-2.0 */
/* The plan in plain words: one line per op. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jit/context.h"
#include "optimizer/price_plan.h"

static i64 node_bytes(const program *p, int index)
{
    i64 sum = 0;
    for (int d = 0; d < p->n_devices; d++)
        for (int i = 0; i < p->devices[d].n_steps; i++)
            if (p->devices[d].steps[i].node == index) sum += p->devices[d].steps[i].remote_bytes;
    return sum;
}

static i64 product(const spec *s, const cut *c)
{
    i64 n = 1;
    for (int k = 0; k < c->n_labels; k++) n *= s->labels[c->labels[k]].extent;
    return n;
}

static void print_cut(const node *n, const cut *c, text *out)
{
    const spec *s = &n->spec;
    role r = ein__spec_role(s, c->labels[0]);
    for (int k = 0; k < c->n_labels; k++) ein__text_add(out, "%s%s", k > 0 ? "*" : "", s->labels[c->labels[k]].name);
    i64 first = c->at[1] - c->at[0], last = c->at[c->n_parts] - c->at[c->n_parts - 1];
    ein__text_add(out, " %lld in %d parts of %lld", (long long)product(s, c), c->n_parts, (long long)first);
    if (last != first) ein__text_add(out, " to %lld", (long long)last);
    if (r == ROLE_AGGREGATED) ein__text_add(out, " (partial %ss)", s->merge->name);
    if (r == ROLE_TWO_STEP) ein__text_add(out, " (statistic, exchange, apply)");
}

static void print_devices(const choice *c, text *out)
{
    devset all = 0;
    int most = 0;
    for (int t = 0; t < c->n_tuples; t++) {
        all |= c->devices[t];
        int copies = __builtin_popcount(c->devices[t]);
        if (copies > most) most = copies;
    }
    ein__text_add(out, " on %d device%s", __builtin_popcount(all), all & (all - 1) ? "s" : "");
    if (most > 1) ein__text_add(out, ", %s", c->n_tuples == 1 ? "the same on each" : "in copies");
}

void ein__explain_choice(const node *n, const choice *c, text *out)
{
    int cuts = 0;
    for (int k = 0; k < c->n_cuts; k++) {
        if (c->cuts[k].n_parts < 2) continue;
        ein__text_add(out, "%s", cuts++ > 0 ? " and " : "cut ");
        print_cut(n, &c->cuts[k], out);
    }
    if (cuts == 0) ein__text_add(out, "whole");
    print_devices(c, out);
}

static void explain_node(const ein_program *p, int i, text *out)
{
    const node *n = &p->graph.nodes.items[i];
    ein__text_add(out, "%-3d %-30s ", i, n->name);
    if (ein__node_is_view(n)) {
        ein__text_add(out, "a view: nothing to do\n");
        return;
    }
    ein__explain_choice(n, &p->plan.nodes[i], out);
    i64 bytes = node_bytes(&p->program, i);
    if (bytes > 0) ein__text_add(out, "; fetches %.3f MB from other devices", (double)bytes * 1e-6);
    else if (p->program.n_devices > 1) ein__text_add(out, "; everything it needs is there");
    ein__text_add(out, "\n");
}

/* Weights and states, once. */
static double tensor_bytes(const graph *g)
{
    double bytes = 0;
    for (int i = 0; i < g->leaves.n; i++) {
        const leaf *l = &g->leaves.items[i];
        if (l->kind != LEAF_PARAMETER && l->kind != LEAF_STATE) continue;
        bytes += (double)ein__value_numel(g, l->value) * (double)ein__dtype_bytes(g->values.items[l->value].dtype) *
                 (l->n_members > 1 ? l->n_members : 1);
    }
    return bytes;
}

/* The device that is shortest of memory: by how much, and what would do. */
static void explain_memory(const ein_program *p, text *out)
{
    const machine *m = &p->context->machine;
    double resident[MAX_DEVICES], most = 0;
    int short_of = -1;
    ein__plan_resident(&p->graph, &p->plan, resident);
    for (int d = 0; d < m->n_devices; d++) {
        double over = resident[d] + (double)p->program.devices[d].buffer_bytes - m->devices[d].memory_bytes;
        if (over <= most) continue;
        most = over;
        short_of = d;
    }
    if (short_of < 0) return;
    double buffers = (double)p->program.devices[short_of].buffer_bytes, memory = m->devices[short_of].memory_bytes;
    ein__text_add(out, "device %d is %.2f GB short of memory: %.2f GB of weights and states and %.2f GB of buffers, of %.2f GB; ",
                  short_of, most * 1e-9, resident[short_of] * 1e-9, buffers * 1e-9, memory * 1e-9);
    if (memory > buffers)
        ein__text_add(out, "%.0f devices like it would hold them\n", ceil(tensor_bytes(&p->graph) / (memory - buffers)));
    else
        ein__text_add(out, "the buffers alone are too large\n");
}

void ein__explain(const ein_program *p, text *out)
{
    const graph *g = &p->graph;
    for (int i = 0, l = 0; i < g->nodes.n; i++) {
        if (l < g->loops.n && i == g->loops.items[l].lo) ein__text_add(out, "repeat %d times:\n", g->loops.items[l].count);
        explain_node(p, i, out);
        if (l < g->loops.n && i == g->loops.items[l].hi - 1) {
            ein__text_add(out, "end of repeat\n");
            l++;
        }
    }
    i64 rest = node_bytes(&p->program, -1);
    if (rest > 0) ein__text_add(out, "between iterations and for outputs: %.3f MB\n", (double)rest * 1e-6);
    ein__text_add(out, "in all: %.3f MB between devices in a run, predicted %.0f us", (double)p->program.remote_bytes * 1e-6,
                  p->plan.predicted_us);
    if (p->plan.bound_us > 0) ein__text_add(out, "; no plan that was searched takes less than %.0f us", p->plan.bound_us);
    ein__text_add(out, "\n");
    explain_memory(p, out);
}
