/* SPDX-License-Identifier: Apache-2.0 */
/* Values that are read several times. Their variable's values are scripts: an origin and up to MAX_ENTRIES fetches whose
 * copies later events may find. An event that is an entry must want just that; all others pay for themselves. Nothing
 * more can be shared if there are as many entries as fetches before the last event.
 *
 * Most values are simple: their origins are complete, so that all copies are made from these, and a device needs one
 * box, so that what two copies show it is what either does. Then sets of devices say what a fetch costs: nothing if all
 * that lack something see it in a copy, as much as a first fetch if none does. */

#include "optimizer/exact_value.h"

enum { MAX_SCRIPTS = 32768 };

/* ---- what fetches find -------------------------------------------------------------------------------- */

static ein_status seen_of(exact *x, value_model *m, const event *e, int c, int entry, devset *out)
{
    const option *o = ein__exact_option(x, e, e->first[c]);
    seen found;
    TRY(ein__price_seen(&x->p->prices, e->node, e->operands[0], &o->choice, o->needs[e->operands[0]], entry, &found));
    m->simple = m->simple && found.single;
    *out = found.devices;
    return EIN_OK;
}

static ein_status first_lack(exact *x, value_model *m, const event *e, int i, int c, devset *out)
{
    const pool *p = &x->p->prices.pool;
    const option *o = ein__exact_option(x, e, e->first[c]);
    int entry = p->lists.items[m->origin.lists[i]].last;
    devset of_nothing, of_origin;
    TRY(seen_of(x, m, e, c, -1, &of_nothing));
    TRY(seen_of(x, m, e, c, entry, &of_origin));
    m->simple = m->simple && e->n_operands == 1 && x->p->prices.pool.placed.items[entry].complete;
    *out = p->known.items[o->needs[e->operands[0]]].devices & ~of_nothing & ~of_origin;
    return EIN_OK;
}

/* What there is of the value before an event. */
static ein_status list_before(exact *x, const value_model *m, const script *s, int event, int *list)
{
    *list = m->origin.lists[s->origin];
    for (int i = 0; i < s->n && s->event[i] < event; i++)
        TRY(ein__pool_list(&x->p->prices.pool, *list, s->copy[i], list));
    return EIN_OK;
}

static ein_status event_under(exact *x, value v, const value_model *m, const script *s, int j, int c, i64 *cost, int *copy)
{
    int before, after;
    TRY(list_before(x, m, s, j, &before));
    TRY(ein__exact_event(x, v, &m->events.items[j], c, before, cost, &after));
    *copy = after != before ? x->p->prices.pool.lists.items[after].last : -1;
    return EIN_OK;
}

/* Events as if they came first: what they cost and who lacks something. */
static ein_status first_events(exact *x, value v, value_model *m)
{
    m->simple = true;
    for (int j = 0; j < m->events.n; j++) {
        event *e = &m->events.items[j];
        NEW(x->a, e->costs, m->origin.n * e->n_classes);
        NEW(x->a, e->copies, m->origin.n * e->n_classes);
        NEW(x->a, e->partials, m->origin.n * e->n_classes);
        NEW(x->a, e->lacks, m->origin.n * e->n_classes);
        for (int i = 0; i < m->origin.n; i++)
            for (int c = 0; c < e->n_classes; c++) {
                int at = i * e->n_classes + c;
                TRY(event_under(x, v, m, &(script){.origin = i}, j, c, &e->costs[at], &e->copies[at]));
                if (e->kind == EVENT_FETCH) TRY(first_lack(x, m, e, i, c, &e->lacks[at]));
            }
    }
    return EIN_OK;
}

/* By [class of e * classes of f + class of f]: devices that see in e's copy, if they got one, what f wants. */
static ein_status shown(exact *x, value_model *m, const event *e, const event *f, devset **out)
{
    NEW(x->a, *out, e->n_classes * f->n_classes);
    for (int c = 0; c < e->n_classes; c++) {
        int copy;
        const option *o = ein__exact_option(x, e, e->first[c]);
        TRY(ein__pool_known_finished(&x->p->prices.pool, o->needs[e->operands[0]], &copy));
        for (int k = 0; k < f->n_classes; k++) TRY(seen_of(x, m, f, k, copy, &(*out)[c * f->n_classes + k]));
    }
    return EIN_OK;
}

static ein_status find_shown(exact *x, value_model *m)
{
    int n = m->events.n;
    NEW(x->a, m->shows, n * n);
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++) {
            const event *e = &m->events.items[i], *f = &m->events.items[j];
            if (e->kind == EVENT_FETCH && f->kind == EVENT_FETCH) TRY(shown(x, m, e, f, &m->shows[i * n + j]));
        }
    return EIN_OK;
}

/* Devices that still lack something of class c of fetch j, after the script's entries before it. */
static devset lacking(const value_model *m, const script *s, int j, int c)
{
    const event *f = &m->events.items[j];
    devset lacks = f->lacks[s->origin * f->n_classes + c];
    for (int i = 0; i < s->n && s->event[i] < j; i++)
        lacks &= ~(s->got[i] & m->shows[s->event[i] * m->events.n + j][s->wanted[i] * f->n_classes + c]);
    return lacks;
}

/* A copy for some of the devices that lack something: the same whatever the others see it in. */
static ein_status partial_cost(exact *x, value v, const value_model *m, const script *s, int j, int c, devset lacks, i64 *cost,
                               int *copy)
{
    partial_list *known = &m->events.items[j].partials[s->origin * m->events.items[j].n_classes + c];
    for (int i = 0; i < known->n; i++)
        if (known->items[i].lacks == lacks) {
            *cost = known->items[i].cost;
            *copy = known->items[i].copy;
            return EIN_OK;
        }
    TRY(event_under(x, v, m, s, j, c, cost, copy));
    partial_copy p = {lacks, *copy, *cost};
    PUSH(x->a, known, p);
    return EIN_OK;
}

/* What fetch j of class c costs under the script, and the copy that it makes, -1: none. */
static ein_status fetch_cost(exact *x, value v, const value_model *m, const script *s, int j, int c, i64 *cost, int *copy)
{
    const event *f = &m->events.items[j];
    const int at = s->origin * f->n_classes + c;
    if (!m->simple) return event_under(x, v, m, s, j, c, cost, copy);
    devset lacks = lacking(m, s, j, c);
    if (lacks != f->lacks[at] && lacks != 0) return partial_cost(x, v, m, s, j, c, lacks, cost, copy);
    *cost = lacks != 0 ? f->costs[at] : 0;
    *copy = lacks != 0 ? f->copies[at] : -1;
    return EIN_OK;
}

/* ---- scripts ------------------------------------------------------------------------------------------ */

/* `s`, and what goes on from it with more entries that cost at most so much; a few too many scripts are enough. */
static ein_status extend(exact *x, value v, value_model *m, const script *s, int depth, i64 most)
{
    PUSH(x->a, &m->scripts, *s);
    if (s->n == depth) return EIN_OK;
    for (int j = s->n > 0 ? s->event[s->n - 1] + 1 : 0; j + 1 < m->events.n; j++) {
        const event *e = &m->events.items[j];
        for (int c = 0; c < e->n_classes && e->kind == EVENT_FETCH; c++) {
            script more = *s;
            i64 cost;
            TRY(fetch_cost(x, v, m, s, j, c, &cost, &more.copy[s->n]));
            if (more.copy[s->n] < 0 || cost > most) continue;
            more.event[s->n] = j;
            more.wanted[s->n] = c;
            if (m->simple) more.got[s->n] = lacking(m, s, j, c);
            more.n++;
            TRY(extend(x, v, m, &more, depth, most));
            if (m->scripts.n > MAX_SCRIPTS) return EIN_OK;
        }
    }
    return EIN_OK;
}

static ein_status all_scripts(exact *x, value v, value_model *m, int depth, i64 most)
{
    m->scripts.n = 0;
    for (int i = 0; i < m->origin.n; i++) TRY(extend(x, v, m, &(script){.origin = i}, depth, most));
    return EIN_OK;
}

int ein__exact_sharable(const value_model *m)
{
    int n = 0;
    for (int i = 0; i + 1 < m->events.n; i++) n += m->events.items[i].kind == EVENT_FETCH;
    return n;
}

/* With all entries that may be of use; else one, and that a cheap one; else none. */
static ein_status find_scripts(exact *x, value v, value_model *m)
{
    int shared = ein__exact_sharable(m), depth = shared < MAX_ENTRIES ? shared : MAX_ENTRIES;
    i64 most = x->slack;
    TRY(all_scripts(x, v, m, depth, most));
    while (m->scripts.n > MAX_SCRIPTS && depth > 0) {
        x->complete = false;
        if (depth > 1) depth = 1;
        else if (most > x->slack / 64) most /= 2;
        else depth = 0;
        TRY(all_scripts(x, v, m, depth, most));
    }
    x->complete = x->complete && depth >= shared;
    return EIN_OK;
}

/* ---- tables ------------------------------------------------------------------------------------------- */

static ein_status origin_table(exact *x, const value_model *m)
{
    const origin *o = &m->origin;
    i64 *matrix;
    int *of_script;
    if (o->var < 0) return EIN_OK;
    NEW(x->a, matrix, (size_t)o->n * (size_t)o->n);
    NEW(x->a, of_script, m->scripts.n);
    for (int i = 0; i < o->n; i++)
        for (int k = 0; k < o->n; k++) matrix[(i64)i * o->n + k] = i == k ? 0 : FAR;
    for (int k = 0; k < m->scripts.n; k++) of_script[k] = m->scripts.items[k].origin;
    return ein__exact_pair(x, o->var, o->of, m->var, of_script, matrix, o->n, o->n);
}

static ein_status script_row(exact *x, value v, const value_model *m, const script *s, int j, i64 *row)
{
    const event *e = &m->events.items[j];
    int entry = 0, copy;
    while (entry < s->n && s->event[entry] != j) entry++;
    for (int c = 0; c < e->n_classes; c++) {
        if (entry < s->n && s->wanted[entry] != c) row[c] = FAR;
        else if (e->kind == EVENT_FETCH) TRY(fetch_cost(x, v, m, s, j, c, &row[c], &copy));
        else if (m->simple || s->n == 0) row[c] = e->costs[s->origin * e->n_classes + c];
        else TRY(event_under(x, v, m, s, j, c, &row[c], &copy));
    }
    return EIN_OK;
}

static ein_status script_table(exact *x, value v, const value_model *m, int j)
{
    const event *e = &m->events.items[j];
    int n = m->scripts.n, *self;
    i64 *matrix;
    NEW(x->a, matrix, (size_t)n * (size_t)e->n_classes);
    NEW(x->a, self, n);
    for (int i = 0; i < n; i++) {
        self[i] = i;
        TRY(script_row(x, v, m, &m->scripts.items[i], j, &matrix[(i64)i * e->n_classes]));
    }
    return ein__exact_pair(x, m->var, self, e->var, e->class_of, matrix, n, e->n_classes);
}

ein_status ein__exact_scripts(exact *x, value v, value_model *m)
{
    TRY(first_events(x, v, m));
    if (m->simple) TRY(find_shown(x, m));
    TRY(find_scripts(x, v, m));
    TRY(ein__exact_variable(x, m->scripts.n, &m->var));
    TRY(origin_table(x, m));
    for (int j = 0; j < m->events.n; j++) TRY(script_table(x, v, m, j));
    return EIN_OK;
}
