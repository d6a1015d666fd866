/* SPDX-License-Identifier: Apache-2.0 */
/* The common refinement: the suffix products of all sides' extents, sorted, must be a chain of divisors; the
 * quotients of neighbours are the factors. Every axis is a run of factors. A part [lo, hi) of an axis is an
 * interval; intervals over the same run intersect as intervals, and only what is left is split into boxes of
 * factors: at most 2k - 1 for k factors. Boundaries that all sides share cut the factors into groups that
 * intersect independently, so that pairs of blocks that share nothing are never looked at. */
#include "exchange/overlay.h"

#include <string.h>

/* ---- refinement --------------------------------------------------------------------------------------- */

/* Put v into the falling list; the list has no doubles. */
static int insert(i64 *list, int n, i64 v)
{
    int at = n;
    while (at > 0 && list[at - 1] < v) at--;
    if (at > 0 && list[at - 1] == v) return n;
    memmove(&list[at + 1], &list[at], (size_t)(n - at) * sizeof *list);
    list[at] = v;
    return n + 1;
}

static int find(const overlay *o, i64 v)
{
    int i = 0;
    while (o->unit[i] != v) i++;
    return i;
}

static bool refine(overlay *o)
{
    int n = insert(o->unit, 0, 1);
    for (int s = 0; s < o->n_sides; s++) {
        i64 suffix = 1;
        for (int i = o->side[s]->n_axes - 1; i >= 0; i--)
            n = insert(o->unit, n, suffix *= o->side[s]->axes[i].extent);
    }
    for (int i = 0; i + 1 < n; i++)
        if (o->unit[i] % o->unit[i + 1] != 0) return false;
    o->n_factors = n - 1;
    for (int s = 0; s < o->n_sides; s++) {
        i64 suffix = 1;
        for (int i = o->side[s]->n_axes - 1; i >= 0; i--) {
            o->last[s][i] = find(o, suffix);
            o->first[s][i] = find(o, suffix *= o->side[s]->axes[i].extent);
        }
    }
    return true;
}

/* Does an axis of every side end where factor f begins? */
static bool boundary(const overlay *o, int f)
{
    for (int s = 0; s < o->n_sides; s++) {
        bool here = f == o->n_factors;
        for (int i = 0; i < o->side[s]->n_axes && !here; i++) here = o->last[s][i] == f;
        if (!here) return false;
    }
    return true;
}

static void make_groups(overlay *o)
{
    int taken[MAX_SIDES] = {0}, first = 0;
    for (int f = o->n_factors > 0 ? 1 : 0; f <= o->n_factors; f++) {
        if (!boundary(o, f)) continue;
        group *g = &o->groups[o->n_groups++];
        g->first = first;
        g->last = first = f;
        for (int s = 0; s < o->n_sides; s++) {
            const relation *r = o->side[s];
            g->axis[s] = taken[s];
            g->digits[s] = g->weight[s] = 1;
            /* Axes of extent 1 at the boundary go with the axis before them. */
            while (taken[s] < r->n_axes && o->last[s][taken[s]] <= f)
                g->digits[s] *= r->axes[taken[s]++].n_parts;
            g->axis_end[s] = taken[s];
            for (int i = taken[s]; i < r->n_axes; i++) g->weight[s] *= r->axes[i].n_parts;
        }
    }
}

/* ---- hits --------------------------------------------------------------------------------------------- */

/* The interval [lo, hi) of the product of factors [first, last). */
typedef struct span { int first, last; i64 lo, hi; } span;

typedef struct walk {
    arena *a;
    overlay *o;
    group *g;
    int n_spans;
    span spans[MAX_FACTORS];
    hit hit;
} walk;

typedef struct box { i64 lo[MAX_FACTORS], len[MAX_FACTORS]; } box;

static ein_status add_hit(walk *w, const box *b)
{
    w->hit.box = w->o->boxes.n;
    for (int f = w->g->first; f < w->g->last; f++) PUSH(w->a, &w->o->boxes, b->lo[f]);
    for (int f = w->g->first; f < w->g->last; f++) PUSH(w->a, &w->o->boxes, b->len[f]);
    PUSH(w->a, &w->g->hits, w->hit);
    return EIN_OK;
}

/* End of the largest box that begins at `at` and stays below `hi`: the most major factor one of whose units
 * fits counts, the factors after it are whole, those before it fixed. */
static i64 box_end(const i64 *unit, const span *s, i64 at, i64 hi, int *level)
{
    i64 one = unit[s->last];
    int k = s->first;
    while (at % (unit[k + 1] / one) != 0 || at + unit[k + 1] / one > hi) k++;
    i64 all = unit[k] / one, end = hi - hi % (unit[k + 1] / one), carry = at - at % all + all;
    *level = k;
    return end < carry ? end : carry;
}

/* Restrict b to the piece [at, end) of a span; false if nothing is left. */
static bool restrict_box(const i64 *unit, const span *s, i64 at, i64 end, int level, box *b)
{
    i64 one = unit[s->last];
    for (int f = s->first; f <= level; f++) {
        i64 lo = at % (unit[f] / one) / (unit[f + 1] / one);
        i64 hi = f < level ? lo + 1 : lo + (end - at) / (unit[f + 1] / one);
        if (lo < b->lo[f]) lo = b->lo[f];
        if (hi > b->lo[f] + b->len[f]) hi = b->lo[f] + b->len[f];
        if (lo >= hi) return false;
        b->lo[f] = lo;
        b->len[f] = hi - lo;
    }
    return true;
}

/* Only the group's factors: a box has room for many more. */
static void copy_box(const group *g, const box *b, box *out)
{
    for (int f = g->first; f < g->last; f++) {
        out->lo[f] = b->lo[f];
        out->len[f] = b->len[f];
    }
}

/* All boxes of the product of spans [k, n_spans) inside b. */
static ein_status split_spans(walk *w, int k, const box *b)
{
    if (k == w->n_spans) return add_hit(w, b);
    const span *s = &w->spans[k];
    if (s->first == s->last) return split_spans(w, k + 1, b); /* extent 1, not empty */
    for (i64 at = s->lo, end; at < s->hi; at = end) {
        int level;
        box part;
        copy_box(w->g, b, &part);
        end = box_end(w->o->unit, s, at, s->hi, &level);
        if (restrict_box(w->o->unit, s, at, end, level, &part)) TRY(split_spans(w, k + 1, &part));
    }
    return EIN_OK;
}

static ein_status split(walk *w)
{
    box all;
    for (int f = w->g->first; f < w->g->last; f++) {
        all.lo[f] = 0;
        all.len[f] = w->o->unit[f] / w->o->unit[f + 1];
    }
    return split_spans(w, 0, &all);
}

/* Intersect with [lo, hi) of an axis: `kept` is what must be put back. False if it is empty. */
static bool push_span(walk *w, int side, int number, i64 lo, i64 hi, int *index, span *kept)
{
    int first = w->o->first[side][number], last = w->o->last[side][number], i = 0;
    while (i < w->n_spans && (w->spans[i].first != first || w->spans[i].last != last)) i++;
    *index = i;
    if (i == w->n_spans) {
        *kept = (span){first, last, 0, 0};
        w->spans[w->n_spans++] = (span){first, last, lo, hi};
        return lo < hi;
    }
    *kept = w->spans[i];
    if (lo > kept->lo) w->spans[i].lo = lo;
    if (hi < kept->hi) w->spans[i].hi = hi;
    return w->spans[i].lo < w->spans[i].hi;
}

static void pop_span(walk *w, int n_spans, int index, span kept)
{
    w->spans[index] = kept;
    w->n_spans = n_spans;
}

/* Every part of this axis, then of the axes and sides after it. */
static ein_status walk_axes(walk *w, int side, int at)
{
    while (side < w->o->n_sides && at == w->g->axis_end[side])
        at = ++side < w->o->n_sides ? w->g->axis[side] : 0;
    if (side == w->o->n_sides) return split(w);
    const struct axis *x = &w->o->side[side]->axes[at];
    int before = w->hit.block[side], n_spans = w->n_spans;
    for (int p = 0; p < x->n_parts; p++) {
        int index;
        span kept;
        if (push_span(w, side, at, x->lo[p], x->hi[p], &index, &kept)) {
            w->hit.block[side] = before * x->n_parts + p;
            TRY(walk_axes(w, side, at + 1));
        }
        pop_span(w, n_spans, index, kept);
    }
    w->hit.block[side] = before;
    return EIN_OK;
}

static ein_status find_hits(arena *a, overlay *o, group *g)
{
    NEW(a, g->hits_at, g->digits[0] + 1);
    for (int t = 0; t < g->digits[0]; t++) {
        walk w;
        bool some = true;
        w.a = a;
        w.o = o;
        w.g = g;
        w.n_spans = 0;
        memset(&w.hit, 0, sizeof w.hit);
        g->hits_at[t] = g->hits.n;
        for (int i = g->axis_end[0] - 1, digits = t; i >= g->axis[0]; i--) {
            const struct axis *x = &o->side[0]->axes[i];
            int index, p = digits % x->n_parts;
            span kept;
            digits /= x->n_parts;
            some = push_span(&w, 0, i, x->lo[p], x->hi[p], &index, &kept) && some;
        }
        if (some) TRY(walk_axes(&w, 1, g->axis[1]));
    }
    g->hits_at[g->digits[0]] = g->hits.n;
    for (int i = 0; i < g->hits.n; i++)
        for (int s = 1; s < o->n_sides; s++) g->hits.items[i].block[s] *= g->weight[s];
    return EIN_OK;
}

ein_status ein__overlay_make(arena *a, const exchange_problem *p, overlay *out, bool *compatible)
{
    memset(out, 0, sizeof *out);
    out->side[out->n_sides++] = p->to;
    for (int s = 0; s < p->n_states; s++)
        if ((p->used >> s & 1) != 0) {
            out->state[out->n_sides] = s;
            out->side[out->n_sides++] = p->states[s];
        }
    *compatible = refine(out);
    if (!*compatible) return EIN_OK;
    make_groups(out);
    for (int i = 0; i < out->n_groups; i++) TRY(find_hits(a, out, &out->groups[i]));
    return EIN_OK;
}
