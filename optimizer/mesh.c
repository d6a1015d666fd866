/* SPDX-License-Identifier: Apache-2.0 */
/* Every cut says which part of it a device has. On a mesh that is a number in the digits of some axes, in some order; so
 * an order of axes for a cut tells each device's places on them. Cuts are taken one by one, with all orders that agree
 * with what is known, until all do. */
#include "optimizer/mesh.h"

#include <string.h>

typedef struct numbering {
    int parts, part[MAX_DEVICES]; /* per device */
} numbering;

typedef struct fitting {
    int n_devices, n, n_axes, size[MAX_MESH];
    const numbering *items;
} fitting;

enum { MAX_NUMBERINGS = 64, UNKNOWN = -1 };

typedef struct places { signed char at[MAX_DEVICES][MAX_MESH]; } places;

/* ---- what a plan cuts ---------------------------------------------------------------------------------- */

static i64 gcd(i64 x, i64 y)
{
    while (y != 0) {
        i64 rest = x % y;
        x = y;
        y = rest;
    }
    return x;
}

/* The largest part is not more than that of a padded cut at the same multiples. */
static bool is_even(const cut *c)
{
    i64 unit = 0, most = 0;
    for (int i = 0; i <= c->n_parts; i++) unit = gcd(c->at[i], unit);
    for (int i = 0; i < c->n_parts; i++)
        if (c->at[i + 1] - c->at[i] > most) most = c->at[i + 1] - c->at[i];
    return unit == 0 || most <= (c->at[c->n_parts] / unit + c->n_parts - 1) / c->n_parts * unit;
}

static bool has(const numbering *all, int n, const numbering *x)
{
    for (int i = 0; i < n; i++)
        if (memcmp(&all[i], x, sizeof *x) == 0) return true;
    return false;
}

/* The tuple of each device; false if one has none or several. */
static bool tuples_of(const choice *c, int n_devices, int *tuple)
{
    for (int d = 0; d < n_devices; d++) tuple[d] = -1;
    for (int t = 0; t < c->n_tuples; t++)
        for (devset left = c->devices[t]; left != 0; left &= left - 1) {
            int d = __builtin_ctz(left);
            if (tuple[d] >= 0) return false;
            tuple[d] = t;
        }
    for (int d = 0; d < n_devices; d++)
        if (tuple[d] < 0) return false;
    return true;
}

/* Append the node's numberings that are new; false if no mesh has them. */
static bool add_node(const node *n, const choice *c, int n_devices, int *count, numbering *all)
{
    int tuple[MAX_DEVICES], below = 1;
    if (c->n_tuples > n_devices || !tuples_of(c, n_devices, tuple)) return false;
    for (int t = 0; t < c->n_tuples; t++)
        if (ein__tuple_boxes(&n->spec, c, t, 0, NULL) > 1) return false;
    for (int k = c->n_cuts - 1; k >= 0; k--) {
        numbering x = {.parts = c->cuts[k].n_parts};
        for (int d = 0; d < n_devices; d++) x.part[d] = tuple[d] / below % x.parts;
        below *= x.parts;
        if (!is_even(&c->cuts[k])) return false;
        if (x.parts < 2 || has(all, *count, &x)) continue;
        if (*count == MAX_NUMBERINGS) return false;
        all[(*count)++] = x;
    }
    return true;
}

/* ---- a mesh that fits ---------------------------------------------------------------------------------- */

/* As many devices at every place that is known of. */
static bool is_full(const fitting *f, const places *at)
{
    for (int d = 0; d < f->n_devices; d++) {
        int same = 0, all = f->n_devices;
        for (int e = 0; e < f->n_devices; e++) same += memcmp(at->at[d], at->at[e], sizeof at->at[d]) == 0;
        for (int i = 0; i < f->n_axes; i++)
            if (at->at[d][i] != UNKNOWN) all /= f->size[i];
        if (same != all) return false;
    }
    return true;
}

static bool fit(const fitting *f, int i, const places *at);

/* Numbering i in the digits of `axes`: what it says of the places, then all other numberings. */
static bool take(const fitting *f, int i, const int *axes, int n, const places *at)
{
    places more = *at;
    for (int d = 0; d < f->n_devices; d++) {
        int part = f->items[i].part[d];
        for (int k = n - 1; k >= 0; k--) {
            signed char digit = (signed char)(part % f->size[axes[k]]), *known = &more.at[d][axes[k]];
            part /= f->size[axes[k]];
            if (*known != UNKNOWN && *known != digit) return false;
            *known = digit;
        }
    }
    return is_full(f, &more) && fit(f, i + 1, &more);
}

/* All orders of axes, after the first `n`, whose sizes multiply to the parts. */
static bool each_order(const fitting *f, int i, int *axes, int n, int left, const places *at)
{
    if (left == 1) return take(f, i, axes, n, at);
    for (int a = 0; a < f->n_axes; a++) {
        bool used = false;
        for (int k = 0; k < n; k++) used = used || axes[k] == a;
        if (used || left % f->size[a] != 0) continue;
        axes[n] = a;
        if (each_order(f, i, axes, n + 1, left / f->size[a], at)) return true;
    }
    return false;
}

static bool fit(const fitting *f, int i, const places *at)
{
    int axes[MAX_MESH];
    return i == f->n || each_order(f, i, axes, 0, f->items[i].parts, at);
}

/* Grids of `n_axes` axes, the smaller ones first. */
static bool each_grid(fitting *f, int axis, int left)
{
    places at;
    memset(&at, UNKNOWN, sizeof at);
    if (axis == f->n_axes) return left == 1 && fit(f, 0, &at);
    for (int size = axis > 0 ? f->size[axis - 1] : 2; size <= left; size++) {
        f->size[axis] = size;
        if (left % size == 0 && each_grid(f, axis + 1, left / size)) return true;
    }
    return false;
}

int ein__plan_mesh(const graph *g, const plan *p)
{
    numbering all[MAX_NUMBERINGS];
    fitting f = {.n_devices = p->n_devices, .items = all};
    for (int i = 0; i < g->nodes.n; i++)
        if (!ein__node_is_view(&g->nodes.items[i]) &&
            !add_node(&g->nodes.items[i], &p->nodes[i], p->n_devices, &f.n, all))
            return NO_MESH;
    if (f.n == 0) return 0;
    for (f.n_axes = 1; f.n_axes <= MAX_MESH; f.n_axes++)
        if (each_grid(&f, 0, p->n_devices)) return f.n_axes;
    return NO_MESH;
}
