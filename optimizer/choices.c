/* SPDX-License-Identifier: Apache-2.0 */
/* Choices of an op on p devices:
 *
 *   - all of it on every device; all of it on device 0;
 *   - one label, or one group of neighbouring labels, cut in p parts; with fewer than p units in as many
 * parts as there are units, the other devices idle, or doing the same as a neighbour;
 *   - two of these in a * b = p parts;
 *   - p is a product of digits, and every digit is given to a label or to copies: a label is cut by all of its
 * digits, the others' devices do the same.
 *
 * Device i is the number that its digits make, the first one major; the parts of a label are numbered by its digits
 * likewise. Part i lies on device i, the digits of two cuts taken in the order of the op's labels: equal cuts of
 * neighbouring ops meet on equal devices. Points are floor(i * units / parts), so that a cut in 8 refines one
 * in 2. What a label's role makes of its cut (blocks, partial states, two steps) is the plan's business. */
#include "optimizer/choices.h"

#include <string.h>

/* Something to cut: a label, or a group of labels that are neighbours. */
typedef struct target {
    int n_labels, labels[MAX_GROUP];
    i64 extent, unit, units;
    bool aggregated;
} target;

typedef struct maker {
    arena *a;
    const spec *s;
    int n_devices;
    choice_list *out;
    int n_targets;
    target targets[2 * MAX_LABELS];
} maker;

/* ---- choices ------------------------------------------------------------------------------------------ */

static ein_status make_cut(maker *m, const target *t, int parts, cut *out)
{
    i64 *at;
    NEW(m->a, at, parts + 1);
    for (int i = 1; i < parts; i++) at[i] = i * t->units / parts * t->unit;
    at[parts] = t->extent;
    *out = (cut){.n_labels = t->n_labels, .n_parts = parts, .at = at};
    memcpy(out->labels, t->labels, sizeof out->labels);
    return EIN_OK;
}

/* Keep the choice if it is legal. */
static ein_status add_choice(maker *m, int n_cuts, const cut *cuts, int n_tuples, const devset *devices)
{
    cut *c;
    devset *d;
    choice made = {.n_cuts = n_cuts, .n_tuples = n_tuples, .cuts = cuts, .devices = devices};
    if (ein__choice_check(m->s, &made, m->n_devices, NULL) != EIN_OK) return EIN_OK;
    NEW(m->a, c, n_cuts);
    NEW(m->a, d, n_tuples);
    if (n_cuts > 0) memcpy(c, cuts, (size_t)n_cuts * sizeof *c);
    memcpy(d, devices, (size_t)n_tuples * sizeof *d);
    made.cuts = c;
    made.devices = d;
    PUSH(m->a, m->out, made);
    return EIN_OK;
}

static ein_status add_single(maker *m, const target *t)
{
    devset alone[MAX_DEVICES] = {0}, shared[MAX_DEVICES] = {0};
    int parts = t->units < m->n_devices ? (int)t->units : m->n_devices;
    cut c;
    if (parts < 2) return EIN_OK;
    for (int i = 0; i < parts; i++) alone[i] = DEV(i);
    for (int d = 0; d < m->n_devices; d++) shared[d * parts / m->n_devices] |= DEV(d);
    TRY(make_cut(m, t, parts, &c));
    TRY(add_choice(m, 1, &c, parts, alone));
    return parts < m->n_devices ? add_choice(m, 1, &c, parts, shared) : EIN_OK;
}

static bool share_label(const target *x, const target *y)
{
    for (int i = 0; i < x->n_labels; i++)
        for (int j = 0; j < y->n_labels; j++)
            if (x->labels[i] == y->labels[j]) return true;
    return false;
}

static bool same_choice(const choice *x, const choice *y)
{
    if (x->n_cuts != y->n_cuts || x->n_tuples != y->n_tuples) return false;
    for (int i = 0; i < x->n_cuts; i++) {
        const cut *c = &x->cuts[i], *d = &y->cuts[i];
        if (c->n_labels != d->n_labels || c->n_parts != d->n_parts ||
            memcmp(c->labels, d->labels, (size_t)c->n_labels * sizeof *c->labels) != 0)
            return false;
    }
    return memcmp(x->devices, y->devices, (size_t)x->n_tuples * sizeof *x->devices) == 0;
}

/* Keep the choice if it is legal and new. */
static ein_status add_new(maker *m, int n_cuts, const cut *cuts, int n_tuples, const devset *devices)
{
    const choice made = {.n_cuts = n_cuts, .n_tuples = n_tuples, .cuts = cuts, .devices = devices};
    for (int i = 0; i < m->out->n; i++)
        if (same_choice(&m->out->items[i], &made)) return EIN_OK;
    return add_choice(m, n_cuts, cuts, n_tuples, devices);
}

static ein_status add_pair(maker *m, const target *x, const target *y)
{
    devset devices[MAX_DEVICES] = {0};
    for (int i = 0; i < m->n_devices; i++) devices[i] = DEV(i);
    if (share_label(x, y) || (x->aggregated && y->aggregated)) return EIN_OK;
    if (x->labels[0] > y->labels[0]) {
        const target *t = x;
        x = y;
        y = t;
    }
    for (int a = 2; a < m->n_devices; a++) {
        int b = m->n_devices / a;
        cut cuts[2];
        if (a * b != m->n_devices || x->units < a || y->units < b) continue;
        TRY(make_cut(m, x, a, &cuts[0]));
        TRY(make_cut(m, y, b, &cuts[1]));
        TRY(add_choice(m, 2, cuts, m->n_devices, devices));
    }
    return EIN_OK;
}

/* ---- digits -------------------------------------------------------------------------------------------- */

enum { MAX_DIGITS = 3 };

/* The prime factors of p, rising; the last two are joined while there are more than MAX_DIGITS. */
static int find_digits(int p, int digits[MAX_DEVICES])
{
    int n = 0;
    for (int f = 2; p > 1; f++)
        for (; p % f == 0; p /= f) digits[n++] = f;
    for (; n > MAX_DIGITS; n--) digits[n - 2] *= digits[n - 1];
    return n;
}

/* The number that the digits of device d given to `to` make. */
static int digits_of(int n, const int *digits, const int *given, int to, int d)
{
    int number = 0, step = 1;
    for (int i = n - 1; i >= 0; d /= digits[i--]) {
        if (given[i] != to) continue;
        number += d % digits[i] * step;
        step *= digits[i];
    }
    return number;
}

/* Digit i goes to target given[i], or (-1) to copies; if that makes up to one cut, or (`several`) more. */
static ein_status add_digits(maker *m, int n, const int *digits, const int *given, bool several)
{
    devset devices[MAX_DEVICES] = {0};
    cut cuts[MAX_DIGITS];
    int of_cut[MAX_DIGITS], n_cuts = 0, tuples = 1, aggregated = 0;
    for (int t = 0; t < m->n_targets; t++) {
        int parts = 1;
        for (int i = 0; i < n; i++) parts *= given[i] == t ? digits[i] : 1;
        if (parts == 1) continue;
        if (m->targets[t].units < parts || (aggregated += m->targets[t].aggregated) > 1) return EIN_OK;
        TRY(make_cut(m, &m->targets[t], parts, &cuts[n_cuts]));
        of_cut[n_cuts++] = t;
        tuples *= parts;
    }
    if ((n_cuts > 1) != several) return EIN_OK;
    for (int d = 0; d < m->n_devices; d++) {
        int tuple = 0;
        for (int c = 0; c < n_cuts; c++)
            tuple = tuple * cuts[c].n_parts + digits_of(n, digits, given, of_cut[c], d);
        devices[tuple] |= DEV(d);
    }
    return add_new(m, n_cuts, cuts, tuples, devices);
}

/* All ways to give the digits away that make up to one cut, or more; single labels only. */
static ein_status add_all_digits(maker *m, int n_single, bool several)
{
    int digits[MAX_DEVICES], given[MAX_DIGITS], n = find_digits(m->n_devices, digits), i;
    for (i = 0; i < n; i++) given[i] = -1;
    do {
        TRY(add_digits(m, n, digits, given, several));
        for (i = n - 1; i >= 0 && ++given[i] == n_single; i--) given[i] = -1;
    } while (i >= 0);
    return EIN_OK;
}

/* ---- targets ------------------------------------------------------------------------------------------ */

static bool cuttable(const spec *s, int l) { return !s->labels[l].whole && s->labels[l].extent > 1; }

static void add_target(maker *m, int n, const int *labels, const i64 *units)
{
    const label *last = &m->s->labels[labels[n - 1]];
    target t = {.n_labels = n, .extent = 1, .unit = units[labels[n - 1]]};
    for (int i = 0; i < n; i++) {
        t.labels[i] = labels[i];
        t.extent *= m->s->labels[labels[i]].extent;
    }
    if (last->extent / t.unit < 2 || last->extent % t.unit != 0) t.unit = last->granule;
    if (n > 1 && last->extent % t.unit != 0) return;
    t.units = t.extent / t.unit;
    t.aggregated = ein__spec_role(m->s, labels[0]) == ROLE_AGGREGATED;
    m->targets[m->n_targets++] = t;
}

/* Two labels as one range, where the first alone cannot be cut evenly. */
static void add_group(maker *m, int first, int second, const i64 *units)
{
    const label *x = &m->s->labels[first];
    if (m->n_targets == 2 * MAX_LABELS || x->granule > 1 || x->extent % m->n_devices == 0) return;
    if (cuttable(m->s, first) && cuttable(m->s, second)) add_target(m, 2, (int[]){first, second}, units);
}

/* Returns how many are single labels: the first ones. */
static int find_targets(maker *m, const i64 *units)
{
    const index_map *r = &m->s->results[0];
    for (int l = 0; l < m->s->n_labels; l++)
        if (cuttable(m->s, l)) add_target(m, 1, &l, units);
    int n_single = m->n_targets;
    for (int i = 0; i + 1 < r->n; i++) add_group(m, r->terms[i].label, r->terms[i + 1].label, units);
    return n_single;
}

ein_status ein__choices(arena *a, const spec *s, const i64 *units, int n_devices, choice_list *out)
{
    maker m = {.a = a, .s = s, .n_devices = n_devices, .out = out};
    TRY(add_choice(&m, 0, NULL, 1, &(devset){ALL_DEVICES(n_devices)}));
    out->n_simple = out->n_medium = 1;
    if (n_devices == 1) return EIN_OK;
    TRY(add_choice(&m, 0, NULL, 1, &(devset){DEV(0)}));
    int n_single = find_targets(&m, units);
    for (int i = 0; i < m.n_targets; i++) TRY(add_single(&m, &m.targets[i]));
    for (int i = 0; i < m.n_targets; i++)
        for (int k = i + 1; k < m.n_targets; k++) TRY(add_pair(&m, &m.targets[i], &m.targets[k]));
    out->n_simple = out->n;
    TRY(add_all_digits(&m, n_single, false));
    out->n_medium = out->n;
    return add_all_digits(&m, n_single, true);
}

/* ---- the choice behind a relation --------------------------------------------------------------------- */

/* Where the labels end that points of the axis lie inside of, and how many elements each of them holds. */
static int inner_labels(const index_map *m, int i, int end, const axis *x, i64 *inner)
{
    *inner = 1;
    for (; end - 1 > i; end--) {
        i64 more = *inner * m->terms[end - 1].extent;
        bool whole = true;
        for (int p = 0; p < x->n_parts; p++) whole = whole && (more == 0 || x->lo[p] % more == 0);
        if (!whole) break;
        *inner = more;
    }
    return end;
}

/* The cut whose parts are those of axis `x`, given that the labels of terms [i, end) make up its extent. */
static ein_status cut_of_axis(arena *a, const index_map *m, int i, int end, const axis *x, cut *out,
                              bool *found)
{
    i64 inner, *at;
    int last = inner_labels(m, i, end, x, &inner);
    NEW(a, at, x->n_parts + 1);
    *out = (cut){.n_parts = x->n_parts, .at = at, .labels = {m->terms[i].label}};
    at[x->n_parts] = 1;
    for (int k = i; k < last; k++) {
        at[x->n_parts] *= m->terms[k].extent;
        if (m->terms[k].extent == 1) continue;
        *found = *found && out->n_labels < MAX_GROUP;
        if (*found) out->labels[out->n_labels++] = m->terms[k].label;
    }
    if (out->n_labels == 0) out->n_labels = 1; /* of extent 1: all parts but one are empty */
    for (int p = 0; p < x->n_parts && inner > 0; p++) at[p] = x->lo[p] / inner;
    return EIN_OK;
}

ein_status ein__choice_of(arena *a, const spec *s, const relation *r, int n_devices, choice *out, bool *found)
{
    const index_map *m = &s->results[0];
    cut *cuts;
    relation again;
    int i = 0;
    *found = true;
    *out = (choice){.n_tuples = r->n_blocks, .devices = r->devices};
    NEW(a, cuts, r->n_axes);
    for (int k = 0; k < r->n_axes && *found && r->n_blocks > 1; k++) {
        i64 extent = 1;
        int first = i;
        bool one_next = k + 1 < r->n_axes && r->axes[k + 1].extent == 1; /* which takes the next label of extent 1 */
        while (i < m->n && (i == first || extent < r->axes[k].extent || (m->terms[i].extent == 1 && !one_next)))
            extent *= m->terms[i++].extent;
        *found = extent == r->axes[k].extent;
        if (*found && r->axes[k].n_parts > 1)
            TRY(cut_of_axis(a, m, first, i, &r->axes[k], &cuts[out->n_cuts++], found));
    }
    out->cuts = cuts;
    if (!*found || ein__choice_check(s, out, n_devices, NULL) != EIN_OK) {
        *found = false;
        return EIN_OK;
    }
    TRY(ein__relation_finished(a, s, 0, out, &again));
    *found = ein__relation_equal(&again, r);
    return EIN_OK;
}
