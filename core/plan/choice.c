/* SPDX-License-Identifier: Apache-2.0 */
/* What a choice (cuts and devices) implies for an op's operands, states and results.
 *
 * Every term of an index map becomes an axis; a term whose label is cut gets the cut's parts. A group of
 * labels that is cut as one becomes one axis. A window's parts are the intervals that its labels' parts touch; they
 * overlap, or leave gaps. A tuple's block in a map is read off its digits: one per cut (or two, in a window). */
#include <string.h>

#include "core/plan/relation.h"

static int find_cut(const choice *c, int l, int *place)
{
    for (int i = 0; i < c->n_cuts; i++)
        for (int k = 0; k < c->cuts[i].n_labels; k++)
            if (c->cuts[i].labels[k] == l) {
                *place = k;
                return i;
            }
    *place = 0;
    return -1;
}

static int tuple_digit(const choice *c, int tuple, int which)
{
    for (int i = c->n_cuts - 1; i > which; i--) tuple /= c->cuts[i].n_parts;
    return tuple % c->cuts[which].n_parts;
}

/* Axis i of the map comes from cuts cut_of[i][0] (-1: uncut) and, for a window of two cut labels, cut_of[i][1]; its
 * parts are then those of the first for each of the second's. Groups take several terms. */
typedef struct mapped { int n; int cut_of[MAX_AXES][2], term_of[MAX_AXES]; } mapped;

static mapped map_axes(const index_map *m, const choice *c)
{
    mapped out = {0};
    for (int i = 0; i < m->n; i++) {
        const term *t = &m->terms[i];
        int place = 0, second = 0, k = -1, k2 = -1;
        if (t->kind == TERM_LABEL || t->kind == TERM_RANGE || t->kind == TERM_WINDOW) k = find_cut(c, t->label, &place);
        if (t->kind == TERM_WINDOW && t->label2 >= 0) k2 = find_cut(c, t->label2, &second);
        if (k >= 0 && place > 0) continue; /* inside a group: the group's first term made the axis */
        out.cut_of[out.n][0] = k;
        out.cut_of[out.n][1] = k2;
        out.term_of[out.n++] = i;
    }
    return out;
}

static i64 clip(i64 v, i64 hi) { return v < 0 ? 0 : v > hi ? hi : v; }

/* Indices [lo, hi) of a window while its labels take the values of a part of their cuts (NULL: all values). */
static void window_part(const spec *s, const term *t, const cut *c, int p, const cut *c2, int p2, i64 *lo, i64 *hi)
{
    const int labels[2] = {t->label, t->label2};
    const i64 steps[2] = {t->step, t->step2}, from[2] = {c != NULL ? c->at[p] : 0, c2 != NULL ? c2->at[p2] : 0};
    const i64 to[2] = {c != NULL ? c->at[p + 1] : s->labels[t->label].extent,
                       c2 != NULL ? c2->at[p2 + 1] : t->label2 >= 0 ? s->labels[t->label2].extent : 0};
    *lo = *hi = 0;
    i64 least = t->offset, most = t->offset;
    for (int k = 0; k < 2 && labels[k] >= 0; k++) {
        if (from[k] >= to[k]) return;
        least += steps[k] * (steps[k] < 0 ? to[k] - 1 : from[k]);
        most += steps[k] * (steps[k] < 0 ? from[k] : to[k] - 1);
    }
    *lo = least;
    *hi = most + 1;
}

/* `absent`: the axis stands for labels that the tensor lacks; it has one part whatever the cut. */
static ein_status make_axis(arena *a, const spec *s, const term *t, const cut *c, const cut *c2, bool absent, axis *out)
{
    int n2 = c2 != NULL ? c2->n_parts : 1, n = absent ? 1 : (c != NULL ? c->n_parts : 1) * n2;
    i64 *lo, *hi, extent = t->extent;
    NEW(a, lo, n);
    NEW(a, hi, n);
    for (int k = 1; c != NULL && k < c->n_labels; k++) extent *= s->labels[c->labels[k]].extent;
    if (absent) {
        hi[0] = extent;
        *out = (axis){.extent = extent, .n_parts = 1, .lo = lo, .hi = hi, .broadcast = true};
        return EIN_OK;
    }
    for (int p = 0; p < n; p++) {
        if (t->kind == TERM_LABEL || t->kind == TERM_RANGE) {
            i64 off = t->kind == TERM_RANGE ? t->offset : 0;
            lo[p] = clip((c != NULL ? c->at[p] : 0) + off, extent);
            hi[p] = clip((c != NULL ? c->at[p + 1] : s->labels[t->label].extent) + off, extent);
        } else if (t->kind == TERM_FIXED) {
            lo[p] = t->offset;
            hi[p] = t->offset + 1;
        } else if (t->kind == TERM_WINDOW) {
            window_part(s, t, c, p / n2, c2, p % n2, &lo[p], &hi[p]);
        } else {
            hi[p] = extent;
        }
    }
    *out = (axis){.extent = extent, .n_parts = n, .lo = lo, .hi = hi};
    return EIN_OK;
}

static int block_of(const mapped *m, const choice *c, const bool *skip, int tuple)
{
    int block = 0;
    for (int i = 0; i < m->n; i++)
        for (int k = 0; k < 2; k++) {
            int of = m->cut_of[i][k];
            if (of < 0 || (skip != NULL && skip[i])) continue;
            block = block * c->cuts[of].n_parts + tuple_digit(c, tuple, of);
        }
    return block;
}

int ein__tuple_block(const index_map *m, const choice *c, int tuple)
{
    mapped axes = map_axes(m, c);
    return block_of(&axes, c, NULL, tuple);
}

static bool cut_aggregated(const spec *s, const cut *c)
{
    return (ein__spec_aggregated(s) >> c->labels[0] & 1) != 0;
}

int ein__tuple_partial(const spec *s, const choice *c, int tuple)
{
    int partial = 0;
    for (int i = 0; i < c->n_cuts; i++)
        if (cut_aggregated(s, &c->cuts[i])) partial = partial * c->cuts[i].n_parts + tuple_digit(c, tuple, i);
    return partial;
}

static int count_partials(const spec *s, const choice *c)
{
    int n = 1;
    for (int i = 0; i < c->n_cuts; i++)
        if (cut_aggregated(s, &c->cuts[i])) n *= c->cuts[i].n_parts;
    return n;
}

/* The relation of map `m` where axes whose first label `of` lacks are broadcast (of: NULL: none). */
static ein_status relation_of(arena *a, const spec *s, const index_map *m, const index_map *of, bool partials,
                              const choice *c, relation *out)
{
    memset(out, 0, sizeof *out);
    mapped axes = map_axes(m, c);
    bool skip[MAX_AXES] = {false};
    out->n_axes = axes.n;
    out->n_blocks = 1;
    out->n_partials = partials ? count_partials(s, c) : 1;
    for (int i = 0; i < axes.n; i++) {
        const term *t = &m->terms[axes.term_of[i]];
        skip[i] = of != NULL && !ein__map_has(of, t->label);
        const cut *k = axes.cut_of[i][0] >= 0 ? &c->cuts[axes.cut_of[i][0]] : NULL;
        const cut *k2 = axes.cut_of[i][1] >= 0 ? &c->cuts[axes.cut_of[i][1]] : NULL;
        TRY(make_axis(a, s, t, k, k2, skip[i], &out->axes[i]));
        out->n_blocks *= out->axes[i].n_parts;
    }
    devset *where;
    NEW(a, where, (size_t)out->n_blocks * (size_t)out->n_partials);
    for (int t = 0; t < c->n_tuples; t++) {
        int partial = partials ? ein__tuple_partial(s, c, t) : 0;
        where[block_of(&axes, c, skip, t) * out->n_partials + partial] |= c->devices[t];
    }
    out->devices = where;
    return ein__relation_canonical(a, out);
}

ein_status ein__relation_need(arena *a, const spec *s, int operand, const choice *c, relation *out)
{
    return relation_of(a, s, &s->operands[operand], NULL, false, c, out);
}

ein_status ein__relation_state(arena *a, const spec *s, int state, int result, const choice *c, relation *out)
{
    return relation_of(a, s, &s->results[result], &s->states[state], true, c, out);
}

ein_status ein__relation_finished(arena *a, const spec *s, int result, const choice *c, relation *out)
{
    return relation_of(a, s, &s->results[result], NULL, false, c, out);
}

/* ---- boxes of a tuple --------------------------------------------------------------------------------- */

/* Split the range [lo, hi) of the product of labels l[0..n) into boxes, appended to `out` as copies of `base`. */
static int split_range(const spec *s, const int *l, int n, i64 lo, i64 hi, const label_box *base, int room,
                       int count, label_box *out)
{
    i64 inner = 1;
    for (int k = 1; k < n; k++) inner *= s->labels[l[k]].extent;
    label_box box = *base;
    if (n == 1 || lo >= hi) {
        box.lo[l[0]] = lo;
        box.len[l[0]] = hi > lo ? hi - lo : 0;
        if (count < room) out[count] = box;
        return count + 1;
    }
    i64 first = lo / inner, last = hi / inner, head = lo % inner, tail = hi % inner;
    if (first == last || head != 0) {
        box.lo[l[0]] = first;
        box.len[l[0]] = 1;
        count = split_range(s, l + 1, n - 1, head, first == last ? tail : inner, &box, room, count, out);
        if (first == last) return count;
        first++;
    }
    if (first < last) {
        box = *base;
        box.lo[l[0]] = first;
        box.len[l[0]] = last - first;
        if (count < room) out[count] = box;
        count++;
    }
    if (tail != 0) {
        box = *base;
        box.lo[l[0]] = last;
        box.len[l[0]] = 1;
        count = split_range(s, l + 1, n - 1, 0, tail, &box, room, count, out);
    }
    return count;
}

int ein__tuple_boxes(const spec *s, const choice *c, int tuple, int room, label_box *out)
{
    enum { ROOM = 64 };
    label_box boxes[2][ROOM];
    int n = 1, now = 0;
    memset(&boxes[0][0], 0, sizeof boxes[0][0]);
    for (int l = 0; l < s->n_labels; l++) boxes[0][0].len[l] = s->labels[l].extent;
    for (int i = 0; i < c->n_cuts; i++) {
        const cut *k = &c->cuts[i];
        int digit = tuple_digit(c, tuple, i), more = 0;
        for (int b = 0; b < n && b < ROOM; b++)
            more = split_range(s, k->labels, k->n_labels, k->at[digit], k->at[digit + 1], &boxes[now][b], ROOM, more,
                               boxes[1 - now]);
        n = more;
        now = 1 - now;
    }
    for (int b = 0; b < n && b < room && b < ROOM; b++) out[b] = boxes[now][b];
    return n;
}

bool ein__choice_cuts(const choice *c, uint32_t labels)
{
    for (int i = 0; i < c->n_cuts; i++)
        if (c->cuts[i].n_parts > 1 && (labels >> c->cuts[i].labels[0] & 1) != 0) return true;
    return false;
}

/* ---- verifier ----------------------------------------------------------------------------------------- */

static ein_status check_points(const spec *s, const cut *c, error *e)
{
    i64 extent = 1, granule = s->labels[c->labels[c->n_labels - 1]].granule;
    const char *name = s->labels[c->labels[0]].name;
    for (int k = 0; k < c->n_labels; k++) extent *= s->labels[c->labels[k]].extent;
    if (granule < 1) granule = 1;
    if (c->n_parts < 1 || c->at[0] != 0 || c->at[c->n_parts] != extent)
        return ein__fail(e, EIN_NO_PLAN, "cut of %s does not cover 0 .. %lld", name, (long long)extent);
    for (int p = 0; p < c->n_parts; p++) {
        if (c->at[p + 1] < c->at[p])
            return ein__fail(e, EIN_NO_PLAN, "cut of %s: points %lld, %lld fall", name, (long long)c->at[p],
                             (long long)c->at[p + 1]);
        if (c->at[p] % granule != 0)
            return ein__fail(e, EIN_NO_PLAN, "cut of %s at %lld is no multiple of its granule %lld", name,
                             (long long)c->at[p], (long long)granule);
    }
    return EIN_OK;
}

/* A group must be neighbours, in order, in every map that has one of its labels; none of them may be in a window. */
static bool map_takes_group(const index_map *m, const cut *c)
{
    for (int i = 0; i < m->n; i++) {
        const term *t = &m->terms[i];
        bool inside = false;
        for (int k = 0; k < c->n_labels; k++)
            inside = inside || t->label == c->labels[k] || (t->kind == TERM_WINDOW && t->label2 == c->labels[k]);
        if (!inside || t->kind == TERM_ALL) continue;
        if (i + c->n_labels > m->n) return false;
        for (int k = 0; k < c->n_labels; k++) {
            const term *u = &m->terms[i + k];
            if (u->kind != TERM_LABEL || u->label != c->labels[k]) return false;
        }
        i += c->n_labels - 1;
    }
    return true;
}

static bool group_fits(const spec *s, const cut *c)
{
    bool ok = true;
    for (int i = 0; i < s->n_operands; i++) ok = ok && map_takes_group(&s->operands[i], c);
    for (int i = 0; i < s->n_states; i++) ok = ok && map_takes_group(&s->states[i], c);
    for (int i = 0; i < s->n_results; i++) ok = ok && map_takes_group(&s->results[i], c);
    for (int k = 1; k < c->n_labels; k++)
        ok = ok && ein__spec_role(s, c->labels[k]) == ein__spec_role(s, c->labels[0]);
    return ok && ein__spec_role(s, c->labels[0]) != ROLE_TWO_STEP;
}

/* Boxes of one tuple would each write the whole partial state: an aggregated part must be a single box. */
static bool parts_are_boxes(const spec *s, const cut *k)
{
    const label_box base = {{0}, {0}};
    for (int p = 0; p < k->n_parts; p++)
        if (split_range(s, k->labels, k->n_labels, k->at[p], k->at[p + 1], &base, 0, 0, NULL) > 1) return false;
    return true;
}

static ein_status check_cut(const spec *s, const choice *c, int i, error *e)
{
    const cut *k = &c->cuts[i];
    if (k->n_labels < 1 || k->n_labels > MAX_GROUP)
        return ein__fail(e, EIN_NO_PLAN, "cut %d names %d labels; 1 to %d can be cut as one", i, k->n_labels, MAX_GROUP);
    for (int j = 0; j < k->n_labels; j++) {
        int place, l = k->labels[j];
        if (l < 0 || l >= s->n_labels) return ein__fail(e, EIN_NO_PLAN, "cut %d names label %d of %d", i, l, s->n_labels);
        if (s->labels[l].whole || ein__spec_role(s, l) == ROLE_WHOLE)
            return ein__fail(e, EIN_NO_PLAN, "label %s cannot be cut", s->labels[l].name);
        if (find_cut(c, l, &place) != i || place != j)
            return ein__fail(e, EIN_NO_PLAN, "label %s is cut twice", s->labels[l].name);
    }
    if (k->n_labels > 1 && !group_fits(s, k))
        return ein__fail(e, EIN_NO_PLAN, "labels %s.. are not neighbours in every operand and result",
                         s->labels[k->labels[0]].name);
    TRY(check_points(s, k, e));
    if (ein__spec_role(s, k->labels[0]) == ROLE_AGGREGATED && !parts_are_boxes(s, k))
        return ein__fail(e, EIN_NO_PLAN, "aggregated labels %s.. are cut into parts of several boxes",
                         s->labels[k->labels[0]].name);
    return EIN_OK;
}

ein_status ein__choice_check(const spec *s, const choice *c, int n_devices, error *e)
{
    i64 tuples = 1;
    for (int i = 0; i < c->n_cuts; i++) {
        TRY(check_cut(s, c, i, e));
        tuples *= c->cuts[i].n_parts;
        if (tuples > 65536) return ein__fail(e, EIN_NO_PLAN, "more than 65536 tuples");
    }
    if (tuples != c->n_tuples)
        return ein__fail(e, EIN_NO_PLAN, "%d tuples placed, the cuts make %lld", c->n_tuples, (long long)tuples);
    for (int t = 0; t < c->n_tuples; t++)
        if (c->devices[t] == 0 || (c->devices[t] & ~ALL_DEVICES(n_devices)) != 0)
            return ein__fail(e, EIN_NO_PLAN, "tuple %d lies on devices %#x of %d", t, c->devices[t], n_devices);
    return EIN_OK;
}
