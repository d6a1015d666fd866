/* SPDX-License-Identifier: Apache-2.0 */
/* Bucket elimination. To eliminate y, the tables that have y are replaced by one over their other variables: the
 * least over y of their sum. Its values are found by bounded scans: for every row of the smallest of those tables,
 * the values of y are tried in rising order of cost there, until that cost and the least of the other tables' rows
 * are no better than what was found. The order is a heap that is only sorted as far as some scan looked.
 *
 * An assignment is read off backwards: every variable takes the least value given those eliminated after it.
 *
 * Where a bucket is too large it is split, and each part eliminated on its own (mini-buckets): what comes out is a
 * lower bound, and the assignment that is read off is improved one and two variables at a time. (Dechter, Bucket
 * elimination: a unifying framework for reasoning; Dechter and Rish, Mini-buckets.) */
#include "optimizer/eliminate_work.h"

#include <stdlib.h>
#include <string.h>

/* ---- scopes ------------------------------------------------------------------------------------------- */

bool ein__table_has(const cost_table *t, int v)
{
    for (int i = 0; i < t->n_vars; i++)
        if (t->vars[i] == v) return true;
    return false;
}

/* Variables of the union of two scopes but `out`; they may be more than a table can have. */
static int unite(const int *x, int n, const cost_table *t, int out, int *into)
{
    int i = 0, k = 0, m = 0;
    while (i < n || k < t->n_vars) {
        int next = k == t->n_vars || (i < n && x[i] <= t->vars[k]) ? x[i] : t->vars[k];
        i += i < n && x[i] == next;
        k += k < t->n_vars && t->vars[k] == next;
        if (next != out) into[m++] = next;
        if (m > MAX_SCOPE) return m;
    }
    return m;
}

static i64 entries_of(const work *w, const int *vars, int n)
{
    i64 size = 1;
    for (int i = 0; i < n; i++) size = size >= FAR / w->p->sizes[vars[i]] ? FAR : size * w->p->sizes[vars[i]];
    return size;
}

/* Sums that eliminating y compares: all values of y for every entry of the table that it makes; FAR if that has too
 * many variables. */
static i64 message_work(const work *w, int y)
{
    int scope[2][MAX_SCOPE + 2], n = 0, now = 0;
    for (int t = 0; t < w->tables.n; t++) {
        if (w->used.items[t] || !ein__table_has(&w->tables.items[t], y)) continue;
        n = unite(scope[now], n, &w->tables.items[t], y, scope[1 - now]);
        now = 1 - now;
        if (n > MAX_SCOPE) return FAR;
    }
    i64 entries = entries_of(w, scope[now], n);
    return entries >= FAR / w->p->sizes[y] ? FAR : entries * w->p->sizes[y];
}

/* ---- a message ---------------------------------------------------------------------------------------- */

/* A row told by a few of its entries: all others are FAR, or are those of an earlier row, which has none lower. */
typedef struct short_row { int like, n, first; } short_row; /* like: a row, or -1: FAR; n < 0: it is not short */

/* A table as a message sees it: rows over its variables but y, y contiguous. */
typedef struct slice {
    const i64 *at;
    i64 *least;             /* per row */
    i64 n_rows;
    i64 stride[MAX_SCOPE];  /* rows per step of each variable of the message; 0: it lacks the variable */
    short_row *shorts;      /* of the second slice, if the message has them */
    int *entries;           /* values of y */
} slice;

typedef struct ranked { i64 cost; int value; } ranked;

typedef struct message {
    int y, size, n_vars, vars[MAX_SCOPE], sizes[MAX_SCOPE];
    i64 stride[MAX_SCOPE];
    int n_others, others[MAX_SCOPE]; /* of `vars`: that the leading slice lacks */
    int n_slices;
    slice *slices; /* the first one leads */
    bool shorts;   /* there are two, which share y alone: then the second's short rows are not scanned */
    i64 *unary;    /* over y: the sum of the tables that have nothing else */
    i64 *costs, *found; /* over y: with the leading row; per row of the second slice: what was found */
    ranked *heap, *order; /* values of y by their cost in the leading row: those not yet in order, those in order */
    int sorted;
    i64 *out;
} message;

static ein_status make_slice(work *w, const message *m, const cost_table *t, slice *out)
{
    i64 rows = 1, inner = 1, *at;
    int place = 0;
    while (t->vars[place] != m->y) place++;
    for (int i = t->n_vars - 1; i > place; i--) inner *= w->p->sizes[t->vars[i]];
    for (int i = t->n_vars - 1; i >= 0; i--) {
        if (i == place) continue;
        for (int k = 0; k < m->n_vars; k++)
            if (m->vars[k] == t->vars[i]) out->stride[k] = rows;
        rows *= w->p->sizes[t->vars[i]];
    }
    NEW(&w->step, at, rows * m->size);
    NEW(&w->step, out->least, rows);
    for (i64 r = 0; r < rows; r++) {
        const i64 *from = t->at + (r / inner * m->size) * inner + r % inner;
        i64 *to = at + r * m->size, least = FAR;
        for (int y = 0; y < m->size; y++) {
            to[y] = from[y * inner];
            if (to[y] < least) least = to[y];
        }
        out->least[r] = least;
    }
    out->at = at;
    out->n_rows = rows;
    return EIN_OK;
}

enum { TOO_MANY = -1, HIGHER = -2 };

/* Entries of `row` that are not FAR (like NULL), or lower than those of `like`; at most half of them. */
static int few_entries(const i64 *row, const i64 *like, int size, int *out)
{
    int n = 0;
    for (int y = 0; y < size; y++) {
        i64 other = like != NULL ? like[y] : FAR;
        if (row[y] >= FAR && other >= FAR) continue;
        if (row[y] > other) return HIGHER;
        if (row[y] < other && n == size / 2) return TOO_MANY;
        if (row[y] < other) out[n++] = y;
    }
    return n;
}

static ein_status find_shorts(work *w, const message *m, slice *x)
{
    i64 like = -1;
    int used = 0;
    NEW(&w->step, x->shorts, x->n_rows);
    NEW(&w->step, x->entries, x->n_rows * (m->size / 2));
    for (i64 r = 0; r < x->n_rows; r++) {
        short_row *s = &x->shorts[r];
        const i64 *row = x->at + r * m->size;
        *s = (short_row){-1, few_entries(row, NULL, m->size, x->entries + used), used};
        if (s->n < 0 && like >= 0)
            *s = (short_row){(int)like, few_entries(row, x->at + like * m->size, m->size, x->entries + used), used};
        if (s->n >= 0) used += s->n;
        else if (like < 0 || s->n == HIGHER) like = r;
    }
    return EIN_OK;
}

static bool before(const ranked *x, const ranked *y)
{
    return x->cost < y->cost || (x->cost == y->cost && x->value < y->value);
}

static void sink(ranked *h, int n, int i)
{
    for (int k; (k = 2 * i + 1) < n; i = k) {
        if (k + 1 < n && before(&h[k + 1], &h[k])) k++;
        if (!before(&h[k], &h[i])) return;
        ranked x = h[i];
        h[i] = h[k];
        h[k] = x;
    }
}

/* The values of y by their cost in a row of the leading slice (NULL: there is none): a heap. */
static void rank(message *m, const i64 *row)
{
    for (int y = 0; y < m->size; y++) {
        m->costs[y] = m->unary[y] + (row != NULL ? row[y] : 0);
        m->heap[y] = (ranked){m->costs[y], y};
    }
    for (int i = m->size / 2 - 1; i >= 0; i--) sink(m->heap, m->size, i);
    m->sorted = 0;
}

/* The i-th in rising order, taken off the heap if no scan has come so far. */
static const ranked *nth(message *m, int i)
{
    while (m->sorted <= i) {
        int left = m->size - m->sorted;
        m->order[m->sorted++] = m->heap[0];
        m->heap[0] = m->heap[left - 1];
        sink(m->heap, left - 1, 0);
    }
    return &m->order[i];
}

static i64 scan_short(const message *m, i64 row)
{
    const slice *x = &m->slices[1];
    const short_row *s = &x->shorts[row];
    i64 best = s->like >= 0 ? m->found[s->like] : FAR;
    for (int i = 0; i < s->n; i++) {
        int y = x->entries[s->first + i];
        i64 sum = m->costs[y] + x->at[row * m->size + y];
        if (sum < best) best = sum;
    }
    return best;
}

static i64 scan(message *m, const i64 *rows)
{
    i64 best = FAR, others = 0;
    if (m->shorts && m->slices[1].shorts[rows[1]].n >= 0) return scan_short(m, rows[1]);
    for (int s = 1; s < m->n_slices; s++) others += m->slices[s].least[rows[s]];
    for (int i = 0; i < m->size; i++) {
        const ranked *x = nth(m, i);
        if (x->cost + others >= best) break;
        i64 sum = x->cost;
        for (int s = 1; s < m->n_slices; s++) sum += m->slices[s].at[rows[s] * m->size + x->value];
        if (sum < best) best = sum;
    }
    return best;
}

static void put(message *m, const i64 *rows, i64 at)
{
    m->out[at] = scan(m, rows);
    if (m->shorts) m->found[rows[1]] = m->out[at];
}

/* One step of the k-th variable. */
static void step(const message *m, int k, i64 *rows, i64 n)
{
    for (int s = 0; s < m->n_slices; s++) rows[s] += m->slices[s].stride[k] * n;
}

/* All values of the variables that the leading slice lacks, from the i-th of them on. */
static void walk_others(message *m, int i, i64 *rows, i64 at)
{
    if (i == m->n_others) {
        put(m, rows, at);
        return;
    }
    int k = m->others[i];
    for (int v = 0; v < m->sizes[k]; v++, at += m->stride[k]) {
        if (i + 1 == m->n_others) put(m, rows, at);
        else walk_others(m, i + 1, rows, at);
        step(m, k, rows, 1);
    }
    step(m, k, rows, -m->sizes[k]);
}

/* All values of the variables that it has, from the k-th of all on. */
static void walk(message *m, int k, i64 *rows, i64 at)
{
    while (k < m->n_vars && m->slices[0].stride[k] == 0) k++;
    if (k == m->n_vars) {
        rank(m, m->n_slices > 0 ? m->slices[0].at + rows[0] * m->size : NULL);
        walk_others(m, 0, rows, at);
        return;
    }
    for (int v = 0; v < m->sizes[k]; v++, at += m->stride[k]) {
        walk(m, k + 1, rows, at);
        step(m, k, rows, 1);
    }
    step(m, k, rows, -m->sizes[k]);
}

static i64 slice_rows(const work *w, const cost_table *t, int y) { return entries_of(w, t->vars, t->n_vars) / w->p->sizes[y]; }

/* Slices of the tables with more than y, the one with the fewest rows first; the others into `unary`. */
static ein_status take_tables(work *w, message *m, const int *tables, int n)
{
    NEW(&w->step, m->slices, n + 1); /* one that lacks all variables, if there is no other */
    NEW(&w->step, m->unary, m->size);
    int lead = -1;
    for (int i = 0; i < n; i++) {
        const cost_table *t = &w->tables.items[tables[i]];
        if (t->n_vars == 1) {
            for (int y = 0; y < m->size; y++) m->unary[y] = ein__cost_add(m->unary[y], t->at[y]);
        } else if (lead < 0 || slice_rows(w, t, m->y) < slice_rows(w, &w->tables.items[lead], m->y)) {
            lead = tables[i];
        }
    }
    if (lead >= 0) TRY(make_slice(w, m, &w->tables.items[lead], &m->slices[m->n_slices++]));
    for (int i = 0; i < n; i++) {
        const cost_table *t = &w->tables.items[tables[i]];
        if (t->n_vars > 1 && tables[i] != lead) TRY(make_slice(w, m, t, &m->slices[m->n_slices++]));
    }
    return EIN_OK;
}

/* The least over y of the sum of some tables, as a new table. */
static ein_status add_message(work *w, int y, const int *tables, int n)
{
    message m = {.y = y, .size = w->p->sizes[y]};
    int scope[2][MAX_SCOPE + 2], now = 0;
    i64 *rows, size = 1;
    for (int i = 0; i < n; i++, now = 1 - now)
        m.n_vars = unite(scope[now], m.n_vars, &w->tables.items[tables[i]], y, scope[1 - now]);
    memcpy(m.vars, scope[now], (size_t)m.n_vars * sizeof *m.vars);
    for (int k = m.n_vars - 1; k >= 0; k--) {
        m.sizes[k] = w->p->sizes[m.vars[k]];
        m.stride[k] = size;
        size *= m.sizes[k];
    }
    TRY(take_tables(w, &m, tables, n));
    NEW(&w->step, m.heap, m.size);
    NEW(&w->step, m.order, m.size);
    NEW(&w->step, m.costs, m.size);
    m.shorts = m.n_slices == 2;
    for (int k = 0; k < m.n_vars && m.shorts; k++)
        m.shorts = m.slices[0].stride[k] == 0 || m.slices[1].stride[k] == 0;
    if (m.shorts) {
        TRY(find_shorts(w, &m, &m.slices[1]));
        NEW(&w->step, m.found, m.slices[1].n_rows);
    }
    NEW(&w->step, rows, m.n_slices + 1);
    NEW(w->a, m.out, size);
    for (int k = 0; k < m.n_vars; k++)
        if (m.slices[0].stride[k] == 0) m.others[m.n_others++] = k;
    walk(&m, 0, rows, 0);
    cost_table made = {.n_vars = m.n_vars, .at = m.out};
    memcpy(made.vars, m.vars, sizeof made.vars);
    w->entries += size;
    ein__arena_free(&w->step);
    PUSH(w->a, &w->tables, made);
    PUSH(w->a, &w->used, m.n_vars == 0);
    PUSH(w->a, &w->makers, y);
    return EIN_OK;
}

/* ---- elimination -------------------------------------------------------------------------------------- */

/* As many of the bucket's tables, from the first that is left, as make a message that fits. */
static int next_part(const work *w, int y, const int *bucket, int n, bool *taken, int *part)
{
    int scope[2][MAX_SCOPE + 2], n_vars = 0, now = 0, m = 0;
    for (int i = 0; i < n; i++) {
        if (taken[i]) continue;
        int vars = unite(scope[now], n_vars, &w->tables.items[bucket[i]], y, scope[1 - now]);
        if (m > 0 && (vars > MAX_SCOPE || entries_of(w, scope[1 - now], vars) > w->room)) continue;
        n_vars = vars;
        now = 1 - now;
        taken[i] = true;
        part[m++] = bucket[i];
    }
    return m;
}

ein_status ein__message_add(work *w, int y, const int *tables, int n, int *made)
{
    int *part;
    bool *taken;
    *made = 0;
    NEW(w->a, part, n);
    NEW(w->a, taken, n);
    for (int m; (m = next_part(w, y, tables, n, taken, part)) > 0; ++*made) TRY(add_message(w, y, part, m));
    return EIN_OK;
}

static ein_status eliminate_variable(work *w, int y)
{
    int n = 0, *bucket, parts;
    for (int t = 0; t < w->tables.n; t++) n += !w->used.items[t] && ein__table_has(&w->tables.items[t], y);
    NEW(w->a, bucket, n);
    w->buckets[y] = bucket;
    w->in_bucket[y] = n;
    for (int t = 0, i = 0; t < w->tables.n; t++)
        if (!w->used.items[t] && ein__table_has(&w->tables.items[t], y)) {
            bucket[i++] = t;
            w->used.items[t] = true;
        }
    TRY(ein__message_add(w, y, bucket, n, &parts));
    w->split = w->split || parts > 1;
    for (int t = w->tables.n - parts; t < w->tables.n; t++)
        if (w->tables.items[t].n_vars == 0) w->bound = ein__cost_add(w->bound, w->tables.items[t].at[0]);
    return EIN_OK;
}

static ein_status eliminate_all(work *w)
{
    for (int i = 0; i < w->p->n_vars; i++) {
        int next = -1;
        i64 least = 0;
        for (int v = 0; v < w->p->n_vars; v++) {
            i64 sums = w->done[v] ? 0 : message_work(w, v);
            if (w->done[v] || (next >= 0 && sums >= least)) continue;
            next = v;
            least = sums;
        }
        TRY(eliminate_variable(w, next));
        w->done[next] = true;
        w->order[i] = next;
    }
    return EIN_OK;
}

/* ---- assignments -------------------------------------------------------------------------------------- */

static i64 table_at(const sum_problem *p, const cost_table *t, const int *values)
{
    i64 at = 0;
    for (int i = 0; i < t->n_vars; i++) at = at * p->sizes[t->vars[i]] + values[t->vars[i]];
    return t->at[at];
}

i64 ein__sum_at(const sum_problem *p, const int *values)
{
    i64 sum = 0;
    for (int t = 0; t < p->n_tables; t++) sum = ein__cost_add(sum, table_at(p, &p->tables[t], values));
    return sum;
}

/* Give y the value for which the sum of some tables is least, its own if that is as good. */
static void settle(const work *w, int y, const int *tables, int n, int *values)
{
    i64 best = FAR + 1;
    int own = values[y], to = own;
    for (int k = -1; k < w->p->sizes[y]; k++) {
        i64 sum = 0;
        values[y] = k < 0 ? own : k;
        for (int i = 0; i < n; i++) sum = ein__cost_add(sum, table_at(w->p, &w->tables.items[tables[i]], values));
        if (sum >= best) continue;
        best = sum;
        to = values[y];
    }
    values[y] = to;
}

static void read_off(const work *w, int *values)
{
    for (int i = w->p->n_vars - 1; i >= 0; i--) {
        int y = w->order[i];
        values[y] = 0;
        settle(w, y, w->buckets[y], w->in_bucket[y], values);
    }
}

typedef struct neighbours { int n, *tables; } neighbours; /* of a variable: the problem's tables that have it */

static ein_status find_neighbours(work *w, neighbours *of)
{
    const sum_problem *p = w->p;
    for (int v = 0; v < p->n_vars; v++) {
        NEW(w->a, of[v].tables, p->n_tables);
        for (int t = 0; t < p->n_tables; t++)
            if (ein__table_has(&p->tables[t], v)) of[v].tables[of[v].n++] = t;
    }
    return EIN_OK;
}

/* Try all values of x, each with the best of y. True if that is better. */
static bool move_two(work *w, const neighbours *of, int x, int y, int *values, i64 *cost)
{
    int own[2] = {values[x], values[y]}, to[2] = {values[x], values[y]};
    i64 best = *cost;
    for (int k = 0; k < w->p->sizes[x]; k++) {
        values[x] = k;
        values[y] = own[1];
        settle(w, y, of[y].tables, of[y].n, values);
        i64 sum = ein__sum_at(w->p, values);
        if (sum >= best) continue;
        best = sum;
        to[0] = values[x];
        to[1] = values[y];
    }
    values[x] = to[0];
    values[y] = to[1];
    bool better = best < *cost;
    *cost = best;
    return better;
}

/* To a local optimum under changes of one variable and of two that share a table. */
static ein_status improve(work *w, int *values)
{
    neighbours *of;
    i64 cost = ein__sum_at(w->p, values);
    NEW(w->a, of, w->p->n_vars);
    TRY(find_neighbours(w, of));
    for (bool better = true; better;) {
        better = false;
        for (int v = 0; v < w->p->n_vars; v++) {
            settle(w, v, of[v].tables, of[v].n, values);
            i64 now = ein__sum_at(w->p, values);
            better = better || now < cost;
            cost = now;
        }
        for (int t = 0; t < w->p->n_tables && !better; t++)
            for (int i = 1; i < w->p->tables[t].n_vars; i++)
                better = move_two(w, of, w->p->tables[t].vars[i - 1], w->p->tables[t].vars[i], values, &cost) || better;
    }
    return EIN_OK;
}

static ein_status choose(work *w, const int *start, sum_answer *out)
{
    size_t bytes = (size_t)w->p->n_vars * sizeof(int);
    read_off(w, out->values);
    if (w->split) {
        int *other;
        TRY(improve(w, out->values));
        NEW(w->a, other, w->p->n_vars);
        if (start != NULL && bytes > 0) {
            memcpy(other, start, bytes);
            TRY(improve(w, other));
            if (ein__sum_at(w->p, other) < ein__sum_at(w->p, out->values)) memcpy(out->values, other, bytes);
        }
    }
    out->cost = ein__sum_at(w->p, out->values);
    return EIN_OK;
}

ein_status ein__eliminate(arena *a, const sum_problem *p, i64 room, const int *start, sum_answer *out)
{
    arena scratch = {NULL};
    work w = {.a = &scratch, .p = p, .room = room};
    ein_status s = EIN_NO_MEMORY;
    *out = (sum_answer){.values = ein__arena_get(a, (size_t)p->n_vars, sizeof(int))};
    w.done = ein__arena_get(&scratch, (size_t)p->n_vars, sizeof *w.done);
    w.order = ein__arena_get(&scratch, (size_t)p->n_vars, sizeof *w.order);
    w.buckets = ein__arena_get(&scratch, (size_t)p->n_vars, sizeof *w.buckets);
    w.in_bucket = ein__arena_get(&scratch, (size_t)p->n_vars, sizeof *w.in_bucket);
    if (out->values != NULL && w.done != NULL && w.order != NULL && w.buckets != NULL && w.in_bucket != NULL) s = EIN_OK;
    for (int t = 0; t < p->n_tables && s == EIN_OK; t++) {
        s = ein__grow(&scratch, (void **)&w.tables.items, t, &w.tables.room, sizeof *w.tables.items);
        if (s == EIN_OK) s = ein__grow(&scratch, (void **)&w.used.items, t, &w.used.room, sizeof *w.used.items);
        if (s != EIN_OK) break;
        w.tables.items[w.tables.n++] = p->tables[t];
        w.used.items[w.used.n++] = false;
        s = ein__grow(&scratch, (void **)&w.makers.items, t, &w.makers.room, sizeof *w.makers.items);
        if (s != EIN_OK) break;
        w.makers.items[w.makers.n++] = -1;
        if (p->tables[t].n_vars == 0) w.bound = ein__cost_add(w.bound, p->tables[t].at[0]);
    }
    if (s == EIN_OK) s = eliminate_all(&w);
    if (s == EIN_OK) s = choose(&w, start, out);
    if (s == EIN_OK && p->least != NULL && !w.split) s = ein__least_costs(&w, a, p->least);
    out->bound = w.bound;
    out->entries = w.entries;
    ein__arena_free(&w.step);
    ein__arena_free(&scratch);
    return s;
}
