/* SPDX-License-Identifier: Apache-2.0 */
/* Forward search over frontiers. A partial plan has chosen for the nodes so far; all that the rest of the
 * plan can see of it is where the values lie that are still to be read. Partial plans that agree on that are
 * one: the cheaper stays. Of the others the WIDTH cheapest stay, a pending value counted with the least that
 * finishing it costs. With WIDTH 1 this is the greedy plan; where no more than WIDTH frontiers differ it is
 * exact.
 *
 * A parameter lies as its first reader needs it, within the capacity. A loop's body is searched once for each
 * of a few layouts of its carries, closed by the exchange of the next values into that layout. Costs are
 * integers (picoseconds), so that ties do not depend on the order of additions; equal ones are decided by
 * bytes, then by the order of options. */
#include "optimizer/frontier.h"

/* ---- a node ------------------------------------------------------------------------------------------- */

static ein_status try_operand(walk *w, trial *t, int node_index, int o, const option *x, int count)
{
    prices *p = &w->p->prices;
    value v = ein__value_source(w->g, w->g->nodes.items[node_index].operands[o]);
    fetch got;
    if (ein__trial_list(w, t, v) < 0) TRY(ein__trial_lay_out(w, t, v, p->pool.relations.items[x->needs[o]]));
    int list = ein__trial_list(w, t, v);
    TRY(ein__price_fetch(p, node_index, o, &x->choice, x->needs[o], list, &got));
    t->next.cost = ein__cost_add(t->next.cost, ein__cost_times(ein__picoseconds(got.seconds), count));
    t->next.bytes += got.bytes * count;
    if (got.list != list) ein__trial_set(t, v, got.list);
    return EIN_OK;
}

static ein_status try_option(walk *w, const state *from, int node_index, int option_index, int count,
                             trial_list *list)
{
    const node *n = &w->g->nodes.items[node_index];
    const option *x = &w->p->options[node_index].items[option_index];
    trial *t;
    TRY(ein__trial_make(w, from, 2 * n->spec.n_operands + n->spec.n_results, list, &t));
    t->next.node = node_index;
    t->next.option = option_index;
    t->next.cost = ein__cost_add(t->next.cost, ein__cost_times(ein__picoseconds(x->seconds), count));
    t->next.bytes += x->bytes * count;
    for (int o = 0; o < n->spec.n_operands; o++) TRY(try_operand(w, t, node_index, o, x, count));
    for (int r = 0; r < n->spec.n_results; r++) TRY(ein__trial_place(w, t, n->results[r], x->results[r]));
    return EIN_OK;
}

static ein_status step_node(walk *w, frontier *f, int i, int count)
{
    const node *n = &w->g->nodes.items[i];
    frontier next = {0};
    trial_list trials = {0};
    if (ein__node_is_view(n)) return EIN_OK;
    TRY(ein__frontier_slots(w, at_node(i), &next.slots));
    for (int s = 0; s < f->n; s++)
        for (int k = 0; k < w->p->options[i].n_simple; k++) TRY(try_option(w, f->items[s], i, k, count, &trials));
    for (int k = 0; k < trials.n; k++) TRY(ein__trial_finish(w, trials.items[k], &next.slots, count));
    TRY(ein__frontier_select(w, &trials, &next));
    ein__arena_free(w->step);
    if (next.n == 0)
        return ein__fail(w->p->e, EIN_NO_PLAN, "%s (node %d): no choice can be reached", n->name, i);
    *f = next;
    ein__frontier_use(w, &f->slots);
    return EIN_OK;
}

ein_status ein__frontier_nodes(walk *w, frontier *f, int lo, int hi, int count)
{
    for (int i = lo; i < hi; i++) TRY(step_node(w, f, i, count));
    return EIN_OK;
}

/* ---- the whole graph ---------------------------------------------------------------------------------- */

/* Outputs go to the host. The cheapest state is the answer. */
static ein_status end(walk *w, const frontier *f, frontier *out)
{
    const graph *g = w->g;
    trial_list trials = {0};
    for (int s = 0; s < f->n; s++) {
        trial *t;
        TRY(ein__trial_make(w, f->items[s], g->outputs.n, &trials, &t));
        for (int i = 0; i < g->outputs.n; i++) {
            value v = ein__value_source(g, g->outputs.items[i].value);
            relation r;
            int to;
            TRY(ein__even_relation(w->step, ein__value_numel(g, v), w->p->prices.n_devices, &r));
            if (ein__trial_list(w, t, v) < 0) TRY(ein__trial_lay_out(w, t, v, &r));
            TRY(ein__relation_whole(w->step, ein__value_numel(g, v), DEV(HOST), &r));
            TRY(ein__pool_relation(&w->p->prices.pool, &r, &to));
            TRY(ein__trial_move(w, t, v, to, 1));
        }
    }
    return ein__frontier_select(w, &trials, out);
}

static void trace(const walk *w, const state *s, answer *out)
{
    const graph *g = w->g;
    out->seconds = (double)s->cost / PICOSECONDS;
    out->bytes = s->bytes;
    for (; s != NULL; s = s->from) {
        if (s->node >= 0) out->options[s->node] = s->option;
        for (int i = 0; i < s->n_laid; i++) out->leaves[s->laid[i].leaf] = s->laid[i].relation;
        int first = 0;
        for (int l = 0; l < s->loop; l++) first += g->loops.items[l].n_carries;
        if (s->loop >= 0)
            for (int c = 0; c < g->loops.items[s->loop].n_carries; c++)
                out->carries[first + c] = s->carries[c];
    }
}

static ein_status walk_graph(walk *w, answer *out)
{
    const graph *g = w->g;
    frontier f = {0}, last = {0};
    int at = 0;
    NEW(w->p->a, w->first, g->values.n);
    NEW(w->p->a, w->last, g->values.n);
    NEW(w->p->a, w->slot_of, g->values.n);
    ein__frontier_lives(w);
    TRY(ein__frontier_start(w, &f));
    for (int l = 0; l < g->loops.n; l++) {
        TRY(ein__frontier_nodes(w, &f, at, g->loops.items[l].lo, 1));
        TRY(ein__frontier_loop(w, &f, l));
        at = g->loops.items[l].hi;
    }
    TRY(ein__frontier_nodes(w, &f, at, g->nodes.n, 1));
    TRY(end(w, &f, &last));
    if (last.n == 0) return ein__fail(w->p->e, EIN_NO_PLAN, "no output can be reached");
    trace(w, last.items[0], out);
    return EIN_OK;
}

/* ---- the strategy ------------------------------------------------------------------------------------- */

static bool applicable(const problem *p)
{
    (void)p;
    return true;
}

static ein_status search(problem *p, answer *out)
{
    arena step = {NULL};
    walk w = {.p = p, .g = p->g, .step = &step};
    ein_status s = walk_graph(&w, out);
    ein__arena_free(&step);
    return s;
}

const strategy ein__search_frontier = {"frontier", applicable, search};
