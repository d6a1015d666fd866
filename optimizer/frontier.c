/* SPDX-License-Identifier: Apache-2.0 */
/* Lives of values, trials, and their selection. */
#include "optimizer/frontier.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- live values -------------------------------------------------------------------------------------- */

static void note_use(walk *w, value v, int at)
{
    v = ein__value_source(w->g, v);
    if (w->first[v] < -1) w->first[v] = at; /* a leaf: it is laid out where it is read first */
    w->last[v] = at;
}

static bool laid_out(const walk *w, const leaf *l, int i)
{
    const fixed_layouts *f = w->p->fixed;
    return l->kind == LEAF_INPUT || l->kind == LEAF_CONSTANT ||
           (f != NULL && f->leaves != NULL && f->leaves[i] != NULL);
}

/* Positions of definition and last use. Order matters: note_use wants rising positions. */
void ein__frontier_lives(walk *w)
{
    const graph *g = w->g;
    for (int v = 0; v < g->values.n; v++) w->first[v] = w->last[v] = -2;
    for (int i = 0; i < g->leaves.n; i++)
        if (laid_out(w, &g->leaves.items[i], i)) w->first[g->leaves.items[i].value] = -1;
    for (int i = 0, l = 0; i <= g->nodes.n; i++) {
        if (l > 0 && g->loops.items[l - 1].hi == i) {
            const loop *x = &g->loops.items[l - 1];
            for (int c = 0; c < x->n_carries; c++) note_use(w, x->carries[c].next, at_exit(x));
        }
        if (i == g->nodes.n) break;
        if (l < g->loops.n && g->loops.items[l].lo == i) {
            const loop *x = &g->loops.items[l++];
            for (int c = 0; c < x->n_carries; c++) note_use(w, x->carries[c].init, at_entry(x));
            for (int c = 0; c < x->n_carries; c++) w->first[x->carries[c].value] = at_entry(x);
        }
        const node *n = &g->nodes.items[i];
        if (ein__node_is_view(n)) continue;
        for (int o = 0; o < n->spec.n_operands; o++) note_use(w, n->operands[o], at_node(i));
        for (int r = 0; r < n->spec.n_results; r++) w->first[n->results[r]] = at_node(i);
    }
    for (int i = 0; i < g->outputs.n; i++) note_use(w, g->outputs.items[i].value, at_outputs(g));
}

ein_status ein__frontier_slots(walk *w, int position, slots *out)
{
    int n = 0;
    for (int v = 0; v < w->g->values.n; v++)
        n += w->first[v] >= -1 && w->first[v] <= position && position < w->last[v];
    NEW(w->p->a, out->values, n);
    out->n = 0;
    for (int v = 0; v < w->g->values.n; v++)
        if (w->first[v] >= -1 && w->first[v] <= position && position < w->last[v]) out->values[out->n++] = v;
    return EIN_OK;
}

void ein__frontier_use(walk *w, const slots *s)
{
    for (int v = 0; v < w->g->values.n; v++) w->slot_of[v] = -1;
    for (int i = 0; i < s->n; i++) w->slot_of[s->values[i]] = i;
}

/* ---- trials ------------------------------------------------------------------------------------------- */

ein_status ein__trial_make(walk *w, const state *from, int max_changes, trial_list *list, trial **out)
{
    trial *t;
    NEW(w->step, t, 1);
    NEW(w->step, t->changes, max_changes);
    NEW(w->step, t->laid, max_changes);
    t->next = *from;
    t->next.from = from;
    t->next.node = t->next.option = t->next.loop = -1;
    t->next.n_laid = 0;
    t->next.laid = NULL;
    t->next.carries = NULL;
    t->number = list->n;
    PUSH(w->step, list, t);
    *out = t;
    return EIN_OK;
}

int ein__trial_list(const walk *w, const trial *t, value v)
{
    for (int i = t->n_changes - 1; i >= 0; i--)
        if (t->changes[i].value == v) return t->changes[i].list;
    return w->slot_of[v] >= 0 ? t->next.from->lists[w->slot_of[v]] : -1;
}

void ein__trial_set(trial *t, value v, int list) { t->changes[t->n_changes++] = (change){v, list}; }

static ein_dtype dtype_of(const walk *w, value v) { return w->g->values.items[v].dtype; }

/* `v` comes to be as one placed value. */
ein_status ein__trial_place(walk *w, trial *t, value v, int id)
{
    int list;
    TRY(ein__pool_list(&w->p->prices.pool, -1, id, &list));
    ein__trial_set(t, v, list);
    return EIN_OK;
}

/* Bytes of leaf `l` on each device, if it lies as `r`. */
static void weigh(const walk *w, const leaf *l, const relation *r, double *out)
{
    double element = ein__leaf_weight(w->g, l);
    for (int b = 0; b < r->n_blocks && element > 0; b++)
        for (devset d = r->devices[b]; d != 0; d &= d - 1)
            out[__builtin_ctz(d)] += element * (double)ein__block_numel(r, b);
}

static double leaf_bytes(const walk *w, const leaf *l)
{
    return ein__leaf_weight(w->g, l) * (double)ein__value_numel(w->g, l->value);
}

/* Bytes over the capacity, if `l` lies as `r` and all that is still to come is cut evenly. */
static double excess(const walk *w, const trial *t, const leaf *l, const relation *r)
{
    double more[MAX_DEVICES] = {0}, most = 0;
    weigh(w, l, r, more);
    double others = (t->next.left - leaf_bytes(w, l)) / w->p->prices.n_devices; /* at best */
    for (int d = 0; d < w->p->prices.n_devices; d++)
        if (more[d] > 0) most = fmax(most, t->next.resident[d] + more[d] + others - w->p->capacity);
    return most;
}

/* A leaf's layout where `need` is wanted: that, if it is all of the leaf; else whole, or in even parts. */
static ein_status choose_layout(walk *w, const trial *t, const leaf *l, const relation *need, relation *out)
{
    int n_devices = w->p->prices.n_devices;
    i64 numel = ein__value_numel(w->g, l->value);
    devset all = 0;
    *out = *need;
    if (ein__relation_check(need, numel, n_devices, NULL) == EIN_OK) return EIN_OK;
    for (int b = 0; b < need->n_blocks; b++) all |= need->devices[b];
    TRY(ein__relation_whole(w->step, numel, all, out));
    return excess(w, t, l, out) > 0 ? ein__even_relation(w->step, numel, n_devices, out) : EIN_OK;
}

ein_status ein__trial_lay_out(walk *w, trial *t, value v, const relation *need)
{
    int index = w->g->values.items[v].owner, id, relation_id;
    const leaf *l = &w->g->leaves.items[index];
    relation r;
    TRY(choose_layout(w, t, l, need, &r));
    t->excess = fmax(t->excess, excess(w, t, l, &r));
    weigh(w, l, &r, t->next.resident);
    t->next.left -= leaf_bytes(w, l);
    TRY(ein__pool_relation(&w->p->prices.pool, &r, &relation_id));
    t->laid[t->next.n_laid++] = (laid){index, relation_id};
    TRY(ein__pool_finished(&w->p->prices.pool, &r, &id));
    return ein__trial_place(w, t, v, id);
}

/* Pay for moving `v` from where it is, `count` times. */
ein_status ein__trial_move(walk *w, trial *t, value v, int to, int count)
{
    prices *p = &w->p->prices;
    move way;
    TRY(ein__price_move(p, p->pool.lists.items[ein__trial_list(w, t, v)].source, dtype_of(w, v), to, &way));
    t->next.cost = ein__cost_add(t->next.cost, ein__cost_times(ein__picoseconds(way.seconds), count));
    t->next.bytes += way.bytes * count;
    return EIN_OK;
}

/* ---- from trials to the next frontier ----------------------------------------------------------------- */

static ein_status finish_cost(walk *w, value v, int list, i64 *out)
{
    double seconds;
    while (w->finish.n <= list) PUSH(w->p->a, &w->finish, -1);
    if (w->finish.items[list] < 0) {
        TRY(ein__price_finish(&w->p->prices, list, dtype_of(w, v), &seconds));
        w->finish.items[list] = ein__picoseconds(seconds);
    }
    *out = w->finish.items[list];
    return EIN_OK;
}

ein_status ein__trial_finish(walk *w, trial *t, const slots *after, int count)
{
    NEW(w->step, t->next.lists, after->n);
    for (int i = 0; i < after->n; i++) {
        i64 more;
        t->next.lists[i] = ein__trial_list(w, t, after->values[i]);
        TRY(finish_cost(w, after->values[i], t->next.lists[i], &more));
        t->ahead = ein__cost_add(t->ahead, ein__cost_times(more, count));
    }
    return EIN_OK;
}

static int by_cost(const void *x, const void *y)
{
    const trial *a = *(trial *const *)x, *b = *(trial *const *)y;
    if (a->excess != b->excess) return a->excess < b->excess ? -1 : 1;
    i64 ca = ein__cost_add(a->next.cost, a->ahead), cb = ein__cost_add(b->next.cost, b->ahead);
    if (ca != cb) return ca < cb ? -1 : 1;
    if (a->next.bytes != b->next.bytes) return a->next.bytes < b->next.bytes ? -1 : 1;
    return a->number < b->number ? -1 : 1;
}

static bool known(const frontier *f, const int *lists)
{
    size_t bytes = (size_t)f->slots.n * sizeof *lists;
    for (int i = 0; i < f->n; i++)
        if (bytes == 0 || memcmp(f->items[i]->lists, lists, bytes) == 0) return true;
    return false;
}

static ein_status keep(walk *w, const trial *t, frontier *out)
{
    state *s;
    int *lists;
    laid *leaves;
    NEW(w->p->a, s, 1);
    NEW(w->p->a, lists, out->slots.n);
    NEW(w->p->a, leaves, t->next.n_laid);
    if (out->slots.n > 0) memcpy(lists, t->next.lists, (size_t)out->slots.n * sizeof *lists);
    *s = t->next;
    s->lists = lists;
    if (s->n_laid > 0) memcpy(leaves, t->laid, (size_t)s->n_laid * sizeof *leaves);
    s->laid = leaves;
    out->items[out->n++] = s;
    return EIN_OK;
}

/* The cheapest trials with different lists; over the capacity only if all are, and then the least. */
ein_status ein__frontier_select(walk *w, trial_list *trials, frontier *out)
{
    NEW(w->p->a, out->items, WIDTH);
    out->n = 0;
    w->p->states_searched += trials->n;
    if (trials->n > 0) qsort(trials->items, (size_t)trials->n, sizeof *trials->items, by_cost);
    for (int i = 0; i < trials->n && out->n < WIDTH; i++) {
        const trial *t = trials->items[i];
        if (t->excess > trials->items[0]->excess || t->next.cost >= FAR) continue;
        if (!known(out, t->next.lists)) TRY(keep(w, t, out));
    }
    return EIN_OK;
}

/* ---- the first frontier -------------------------------------------------------------------------------- */

ein_status ein__frontier_start(walk *w, frontier *f)
{
    const graph *g = w->g;
    state *s;
    pool *p = &w->p->prices.pool;
    TRY(ein__frontier_slots(w, -1, &f->slots));
    ein__frontier_use(w, &f->slots);
    NEW(w->p->a, f->items, 1);
    NEW(w->p->a, s, 1);
    NEW(w->p->a, s->lists, f->slots.n);
    s->node = s->option = s->loop = -1;
    for (int i = 0; i < g->leaves.n; i++) s->left += leaf_bytes(w, &g->leaves.items[i]);
    for (int i = 0; i < f->slots.n; i++) {
        value v = f->slots.values[i];
        int index = g->values.items[v].owner, id;
        const leaf *l = &g->leaves.items[index];
        devset where = l->kind == LEAF_INPUT ? DEV(HOST) : ALL_DEVICES(w->p->prices.n_devices);
        relation r;
        TRY(ein__relation_whole(w->p->a, ein__value_numel(g, v), where, &r));
        bool fixed = l->kind != LEAF_INPUT && w->p->fixed != NULL && w->p->fixed->leaves != NULL &&
                     w->p->fixed->leaves[index] != NULL;
        if (fixed) r = *w->p->fixed->leaves[index];
        weigh(w, l, &r, s->resident);
        s->left -= leaf_bytes(w, l);
        TRY(ein__pool_finished(p, &r, &id));
        TRY(ein__pool_list(p, -1, id, &s->lists[i]));
    }
    f->items[0] = s;
    f->n = 1;
    return EIN_OK;
}
