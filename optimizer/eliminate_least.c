/* SPDX-License-Identifier: Apache-2.0 */
/* The least cost with every value. Messages have gone from each bucket to the one that holds what is left; now they go
 * back: what a bucket knows without a child's own message, over the variables that it shares with the child. Such
 * knowledge stays a list of tables until something must be eliminated from it. */
#include "optimizer/eliminate_work.h"

enum { LARGE = 256 }; /* values of a variable */

typedef struct table_list { int n, room, *items; } table_list;

/* Take a variable away from the list. */
static ein_status take_away(work *w, int v, table_list *l)
{
    table_list with = {0}, without = {0};
    int made;
    for (int i = 0; i < l->n; i++) {
        table_list *to = ein__table_has(&w->tables.items[l->items[i]], v) ? &with : &without;
        PUSH(w->a, to, l->items[i]);
    }
    if (with.n == 0) return EIN_OK;
    TRY(ein__message_add(w, v, with.items, with.n, &made));
    for (int t = w->tables.n - made; t < w->tables.n; t++) PUSH(w->a, &without, t);
    *l = without;
    return EIN_OK;
}

/* All variables of the list but those of `scope` and y (-1: none); the largest first, as it is in the way of most. */
static ein_status reduce(work *w, const cost_table *scope, int y, table_list *l)
{
    for (;;) {
        int next = -1;
        for (int i = 0; i < l->n; i++) {
            const cost_table *t = &w->tables.items[l->items[i]];
            for (int k = 0; k < t->n_vars; k++) {
                int v = t->vars[k];
                if (v == y || (scope != NULL && ein__table_has(scope, v))) continue;
                if (next < 0 || w->p->sizes[v] > w->p->sizes[next]) next = v;
            }
        }
        if (next < 0) return EIN_OK;
        TRY(take_away(w, next, l));
    }
}

/* The bucket's tables but one (-1: none), and what came from above. */
static ein_status known_to(work *w, int y, int but, const table_list *above, table_list *out)
{
    *out = (table_list){0};
    for (int i = 0; i < w->in_bucket[y]; i++)
        if (w->buckets[y][i] != but) PUSH(w->a, out, w->buckets[y][i]);
    for (int i = 0; i < above->n; i++) PUSH(w->a, out, above->items[i]);
    return EIN_OK;
}

static ein_status least_of(work *w, arena *a, int y, const table_list *above, i64 base, i64 **out)
{
    table_list l;
    i64 *least;
    TRY(known_to(w, y, -1, above, &l));
    TRY(reduce(w, NULL, y, &l));
    NEW(a, least, w->p->sizes[y]);
    for (int v = 0; v < w->p->sizes[y]; v++) {
        least[v] = base;
        for (int i = 0; i < l.n; i++) {
            const cost_table *t = &w->tables.items[l.items[i]];
            least[v] = ein__cost_add(least[v], t->at[t->n_vars > 0 ? v : 0]);
        }
    }
    *out = least;
    return EIN_OK;
}

/* What eliminations beside y's, which no table joins with it, cost at least. */
static i64 elsewhere(const work *w, int y, int n_before)
{
    i64 own = 0, all = w->bound;
    int root = y;
    for (bool up = true; up;) {
        up = false;
        for (int t = 0; t < n_before && !up; t++) {
            if (w->makers.items[t] != root) continue;
            if (w->tables.items[t].n_vars == 0) {
                own = w->tables.items[t].at[0];
                continue;
            }
            for (int v = 0; v < w->p->n_vars && !up; v++)
                for (int i = 0; i < w->in_bucket[v] && !up; i++)
                    if (w->buckets[v][i] == t) {
                        root = v;
                        up = true;
                    }
        }
    }
    return own < FAR ? all - own : FAR;
}

/* Who is asked about: if there are large variables, these; else all. And the buckets on the way to them. */
static void mark_wanted(const work *w, bool *wanted, bool *on_the_way)
{
    bool large = false;
    for (int v = 0; v < w->p->n_vars; v++) large = large || w->p->sizes[v] > LARGE;
    for (int v = 0; v < w->p->n_vars; v++) wanted[v] = on_the_way[v] = !large || w->p->sizes[v] > LARGE;
    for (int i = w->p->n_vars - 1; i >= 0; i--) /* a parent is eliminated after its children */
        for (int k = 0, y = w->order[w->p->n_vars - 1 - i]; k < w->p->n_vars && on_the_way[y]; k++)
            for (int t = 0; t < w->in_bucket[k]; t++)
                if (w->makers.items[w->buckets[k][t]] == y) on_the_way[k] = true;
}

ein_status ein__least_costs(work *w, arena *a, i64 **out)
{
    table_list *above;
    bool *wanted, *on_the_way;
    int n_before = w->tables.n;
    NEW(w->a, above, w->p->n_vars);
    NEW(w->a, wanted, w->p->n_vars);
    NEW(w->a, on_the_way, w->p->n_vars);
    mark_wanted(w, wanted, on_the_way);
    for (int i = w->p->n_vars - 1; i >= 0; i--) {
        int y = w->order[i];
        if (wanted[y]) TRY(least_of(w, a, y, &above[y], elsewhere(w, y, n_before), &out[y]));
        for (int k = 0; k < w->in_bucket[y]; k++) {
            int t = w->buckets[y][k], child = w->makers.items[t];
            if (child < 0 || !on_the_way[child]) continue;
            cost_table scope = w->tables.items[t];
            TRY(known_to(w, y, t, &above[y], &above[child]));
            TRY(reduce(w, &scope, -1, &above[child]));
        }
    }
    return EIN_OK;
}
