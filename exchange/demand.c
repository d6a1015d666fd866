/* SPDX-License-Identifier: Apache-2.0 */
/* The demand: per needed block, every box that it shares with a source block, with addresses but without devices.
 * Boxes that the same devices hold and the same devices need are a class: a few, however many boxes there are. */
#include "exchange/demand.h"

#include <stdlib.h>
#include <string.h>

#include "exchange/overlay.h"

/* Address of a point in a block: base + sum of coordinate * stride over the factors. */
typedef struct addresses {
    i64 *base, *stride; /* per block; per block and factor */
} addresses;

typedef struct maker {
    arena *a;
    const exchange_problem *p;
    overlay o;
    addresses sides[MAX_SIDES];
    struct { transfer *items; int n, room; } shapes;
    struct { bool *items; int n, room; } joined;
    bool joining; /* the box at hand has more dimensions than a transfer: they are joined, and it cannot be cut */
} maker;

/* A box on its way to a transfer: any rank. */
typedef struct dims {
    int rank;
    i64 size[MAX_FACTORS];
    i64 offset[MAX_SIDES], stride[MAX_SIDES][MAX_FACTORS];
} dims;

/* ---- problem ------------------------------------------------------------------------------------------- */

static int first_used(const exchange_problem *p)
{
    int s = 0;
    while (s < p->n_states && (p->used >> s & 1) == 0) s++;
    return s;
}

static ein_status check_states(const exchange_problem *p, error *e)
{
    const relation *of = p->states[first_used(p)];
    for (int s = 0; s < p->n_states; s++) {
        const relation *r = p->states[s];
        if ((p->used >> s & 1) == 0) continue;
        if (ein__relation_numel(r) != ein__relation_numel(p->to))
            return ein__fail(e, EIN_INTERNAL, "exchange: state %d has %lld elements, the need %lld", s,
                             (long long)ein__relation_numel(r), (long long)ein__relation_numel(p->to));
        if (r->n_partials != of->n_partials)
            return ein__fail(e, EIN_INTERNAL, "exchange: state %d has %d partials, another %d", s,
                             r->n_partials, of->n_partials);
    }
    return EIN_OK;
}

/* States are combined in what they are stored in, or in what that is computed in. */
static ein_status check_types(const exchange_problem *p, error *e)
{
    if (!ein__dtype_built(p->dtype)) return ein__fail(e, EIN_UNSUPPORTED, "exchange: %s", ein__dtype_name(p->dtype));
    for (int s = 0; s < p->n_states && p->merge != NULL; s++) {
        ein_dtype wire = p->merge->wire[s], compute = p->merge->compute[s];
        if (!ein__dtype_built(wire) || ein__dtype_compute(wire) != compute)
            return ein__fail(e, EIN_UNSUPPORTED, "exchange: state %d of %s is stored in %s and combined in %s", s,
                             p->merge->name, ein__dtype_name(wire), ein__dtype_name(compute));
    }
    return EIN_OK;
}

static ein_status check_problem(const exchange_problem *p, error *e)
{
    int s = first_used(p);
    if (p->n_states > MAX_STATES || s == p->n_states)
        return ein__fail(e, EIN_INTERNAL, "exchange: states %#x of %d are used", p->used, p->n_states);
    TRY(check_types(p, e));
    if (p->to->n_partials != 1 || (p->merge == NULL && p->states[s]->n_partials != 1))
        return ein__fail(e, EIN_INTERNAL, "exchange: %d partials without a merge",
                         p->to->n_partials * p->states[s]->n_partials);
    uint32_t needed = ein__merge_used(p->merge, p->result, p->states[s]->n_partials > 1);
    if ((needed & ~p->used) != 0)
        return ein__fail(e, EIN_INTERNAL, "exchange: states %#x are used, result %d needs %#x", p->used,
                         p->result, needed);
    return check_states(p, e);
}

/* ---- shapes ------------------------------------------------------------------------------------------- */

static ein_status make_addresses(arena *a, const overlay *o, int side, addresses *out)
{
    const relation *r = o->side[side];
    NEW(a, out->base, r->n_blocks);
    NEW(a, out->stride, (size_t)r->n_blocks * (size_t)o->n_factors);
    for (int b = 0; b < r->n_blocks; b++) {
        i64 *stride = out->stride + (i64)b * o->n_factors, step = 1;
        for (int i = r->n_axes - 1, digits = b; i >= 0; i--) {
            const axis *x = &r->axes[i];
            int part = digits % x->n_parts, last = o->last[side][i];
            digits /= x->n_parts;
            if (x->broadcast) continue;
            for (int f = o->first[side][i]; f < last; f++) stride[f] = o->unit[f + 1] / o->unit[last] * step;
            out->base[b] -= x->lo[part] * step;
            step *= x->hi[part] - x->lo[part];
        }
    }
    return EIN_OK;
}

static void add_dim(dims *m, int n_sides, i64 size, const i64 *stride)
{
    if (size == 1) return;
    m->size[m->rank] = size;
    for (int s = 0; s < n_sides; s++) m->stride[s][m->rank] = stride[s];
    m->rank++;
}

/* Neighbours that are one walk on every side become one dimension. */
static void join_dims(dims *m, int n_sides)
{
    int n = 0;
    for (int k = 0; k < m->rank; k++) {
        bool joins = n > 0;
        for (int s = 0; s < n_sides && joins; s++) joins = m->stride[s][n - 1] == m->stride[s][k] * m->size[k];
        int at = joins ? n - 1 : n++;
        m->size[at] = joins ? m->size[at] * m->size[k] : m->size[k];
        for (int s = 0; s < n_sides; s++) m->stride[s][at] = m->stride[s][k];
    }
    m->rank = n;
}

/* A box of one element still has a row. */
static void fill_rank(dims *m, int n_sides)
{
    if (m->rank > 0) return;
    m->rank = 1;
    m->size[0] = 1;
    for (int s = 0; s < n_sides; s++) m->stride[s][0] = 1;
}

/* `skip` outer dimensions are at fixed points. */
static ein_status push_shape(maker *d, const dims *m, const int *block, int skip)
{
    transfer t = {.dst_block = block[0], .rank = m->rank - skip, .dst_offset = m->offset[0]};
    for (int s = 1; s < d->o.n_sides; s++) {
        t.src_block[d->o.state[s]] = block[s];
        t.src_offset[d->o.state[s]] = m->offset[s];
    }
    for (int k = 0; k < t.rank; k++) {
        t.size[k] = m->size[skip + k];
        t.dst_stride[k] = m->stride[0][skip + k];
        for (int s = 1; s < d->o.n_sides; s++) t.src_stride[d->o.state[s]][k] = m->stride[s][skip + k];
    }
    PUSH(d->a, &d->shapes, t);
    PUSH(d->a, &d->joined, d->joining);
    return EIN_OK;
}

/* Boxes of too high a rank are taken apart along their outer dimensions. */
static ein_status push_shapes(maker *d, dims *m, const int *block, int skip)
{
    if (m->rank - skip <= MAX_BOX_RANK) return push_shape(d, m, block, skip);
    for (i64 i = 0; i < m->size[skip]; i++) {
        TRY(push_shapes(d, m, block, skip + 1));
        for (int s = 0; s < d->o.n_sides; s++) m->offset[s] += m->stride[s][skip];
    }
    for (int s = 0; s < d->o.n_sides; s++) m->offset[s] -= m->stride[s][skip] * m->size[skip];
    return EIN_OK;
}

/* One hit of each group: a box of the whole index space. */
static ein_status make_shape(maker *d, int dst_block, const int *at)
{
    const overlay *o = &d->o;
    int block[MAX_SIDES] = {dst_block};
    const i64 *stride[MAX_SIDES];
    dims m;
    for (int g = 0; g < o->n_groups; g++)
        for (int s = 1; s < o->n_sides; s++) block[s] += o->groups[g].hits.items[at[g]].block[s];
    m.rank = 0;
    for (int s = 0; s < o->n_sides; s++) {
        m.offset[s] = d->sides[s].base[block[s]];
        stride[s] = d->sides[s].stride + (i64)block[s] * o->n_factors;
    }
    for (int g = 0; g < o->n_groups; g++) {
        const group *in = &o->groups[g];
        const i64 *lo = o->boxes.items + in->hits.items[at[g]].box - in->first;
        for (int f = in->first; f < in->last; f++) {
            i64 step[MAX_SIDES];
            for (int s = 0; s < o->n_sides; s++) m.offset[s] += lo[f] * (step[s] = stride[s][f]);
            add_dim(&m, o->n_sides, lo[f + in->last - in->first], step);
        }
    }
    d->joining = m.rank > MAX_BOX_RANK;
    if (d->joining) join_dims(&m, o->n_sides);
    fill_rank(&m, o->n_sides);
    return push_shapes(d, &m, block, 0);
}

/* Hits of a block in group g are [*from, *end). */
static void block_hits(const maker *d, int dst_block, int g, int *from, int *end)
{
    const group *in = &d->o.groups[g];
    int part = dst_block / in->weight[0] % in->digits[0];
    *from = in->hits_at[part];
    *end = in->hits_at[part + 1];
}

/* All combinations of the groups' hits. */
static ein_status make_block_shapes(maker *d, int dst_block)
{
    int from[MAX_FACTORS + 1], end[MAX_FACTORS + 1], at[MAX_FACTORS + 1], g, n = d->o.n_groups;
    for (g = 0; g < n; g++) {
        block_hits(d, dst_block, g, &from[g], &end[g]);
        if (from[g] == end[g]) return EIN_OK;
        at[g] = from[g];
    }
    do {
        TRY(make_shape(d, dst_block, at));
        for (g = n - 1; g >= 0 && ++at[g] == end[g]; g--) at[g] = from[g];
    } while (g >= 0);
    return EIN_OK;
}

/* Room for all but the boxes of too high a rank. */
static ein_status reserve_shapes(maker *d)
{
    i64 all = 0;
    for (int b = 0; b < d->p->to->n_blocks; b++) {
        i64 n = d->p->to->devices[b] != 0;
        for (int g = 0, from, end; g < d->o.n_groups; g++) {
            block_hits(d, b, g, &from, &end);
            n *= end - from;
        }
        all += n;
    }
    NEW(d->a, d->shapes.items, all);
    d->shapes.room = (int)all;
    return EIN_OK;
}

static ein_status make_shapes(maker *d)
{
    const relation *to = d->p->to;
    for (int s = 0; s < d->o.n_sides; s++) TRY(make_addresses(d->a, &d->o, s, &d->sides[s]));
    TRY(reserve_shapes(d));
    for (int b = 0; b < to->n_blocks; b++)
        if (to->devices[b] != 0) TRY(make_block_shapes(d, b));
    return EIN_OK;
}

/* ---- classes ------------------------------------------------------------------------------------------ */

i64 ein__transfer_volume(const transfer *t)
{
    i64 n = 1;
    for (int k = 0; k < t->rank; k++) n *= t->size[k];
    return n;
}

i64 ein__transfer_rows(const transfer *t)
{
    i64 inner = t->size[t->rank - 1];
    return ein__transfer_volume(t) / inner * ((inner + EIN__ROW - 1) / EIN__ROW);
}

devset ein__box_holders(const exchange_problem *p, const transfer *box, int partial)
{
    devset all = ~(devset)0, devices;
    for (int s = 0; s < p->n_states; s++) {
        const relation *r = p->states[s];
        if ((p->used >> s & 1) != 0) all &= r->devices[box->src_block[s] * r->n_partials + partial];
    }
    devices = all & ALL_DEVICES(p->n_devices);
    return devices != 0 ? devices : all & DEV(HOST);
}

/* Bytes of one element of each state of a set. */
static i64 states_bytes(const exchange_problem *p, uint32_t set)
{
    i64 bytes = 0;
    for (; set != 0; set &= set - 1) bytes += ein__dtype_bytes(ein__exchange_stored(p, __builtin_ctz(set)));
    return bytes;
}

i64 ein__source_bytes(const exchange_problem *p, uint32_t row_states, const transfer *box)
{
    return ein__transfer_volume(box) * states_bytes(p, p->used & ~row_states) +
           (row_states != 0 ? ein__transfer_rows(box) * states_bytes(p, row_states) : 0);
}

/* What all innermost dimensions have in common; a dimension of size 1 goes with either. A state that combines
 * with one that is walked is walked itself. */
static void find_form(demand *d)
{
    const exchange_problem *p = d->p;
    uint32_t walked = 0;
    bool rows = false, several = p->merge != NULL && p->states[first_used(p)]->n_partials > 1;
    for (int i = 0; i < d->n_boxes; i++) {
        const transfer *t = &d->boxes[i];
        rows = rows || t->size[t->rank - 1] > 1;
        for (int s = 0; s < p->n_states; s++)
            if (t->size[t->rank - 1] > 1 && t->src_stride[s][t->rank - 1] != 0) walked |= 1u << s;
    }
    walked = rows ? walked & p->used : p->used;
    for (uint32_t before = 0; several && before != walked;) {
        before = walked;
        for (int s = 0; s < p->n_states; s++)
            if ((p->used >> s & 1) != 0 && (ein__expr_arguments(&p->merge->combine[s], p->n_states) & before) != 0)
                walked |= 1u << s;
    }
    d->row_states = p->used & ~walked;
    d->unit_stride = d->unit_finished = true;
    for (int i = 0; i < d->n_boxes; i++) {
        const transfer *t = &d->boxes[i];
        if (t->size[t->rank - 1] == 1) continue;
        d->unit_finished = d->unit_finished && t->dst_stride[t->rank - 1] == 1;
        for (int s = 0; s < p->n_states; s++)
            if ((walked >> s & 1) != 0 && t->src_stride[s][t->rank - 1] != 1) d->unit_stride = false;
    }
    d->unit_stride = d->unit_stride && d->unit_finished;
}

/* Merges whose partials may be combined in any order. */
static bool any_order(const merge *m)
{
    static const char *const names[] = {"sum", "prod", "max", "min"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(m->name, names[i]) == 0) return true;
    return false;
}

/* A launch writes one state: partials of several are combined where they are finished, or not at all. */
static bool is_storable(const exchange_problem *p)
{
    const relation *r = p->states[first_used(p)];
    if (__builtin_popcount(p->used) != 1) return false;
    for (int i = 0; i < r->n_axes; i++)
        if (r->axes[i].broadcast) return false;
    return true;
}

typedef struct keyed { devset to; const devset *holders; int n_partials, box; } keyed;

static int by_class(const void *x, const void *y)
{
    const keyed *a = x, *b = y;
    if (a->to != b->to) return a->to < b->to ? -1 : 1;
    for (int j = 0; j < a->n_partials; j++)
        if (a->holders[j] != b->holders[j]) return a->holders[j] < b->holders[j] ? -1 : 1;
    return a->box - b->box;
}

static bool same_class(const keyed *a, const keyed *b)
{
    return a->to == b->to && memcmp(a->holders, b->holders, (size_t)a->n_partials * sizeof *a->holders) == 0;
}

static ein_status make_keys(arena *a, const demand *d, keyed *keys, int *n_keys, error *e)
{
    const exchange_problem *p = d->p;
    int n_partials = p->states[first_used(p)]->n_partials;
    devset *holders;
    NEW(a, holders, (size_t)d->n_boxes * (size_t)n_partials);
    *n_keys = 0;
    for (int i = 0; i < d->n_boxes; i++, holders += n_partials) {
        const transfer *t = &d->boxes[i];
        devset to = p->to->devices[t->dst_block];
        if ((to & ~(ALL_DEVICES(p->n_devices) | DEV(HOST))) != 0)
            return ein__fail(e, EIN_INTERNAL, "exchange: block %d is needed on devices %#x of %d", t->dst_block, to,
                             p->n_devices);
        for (int j = 0; j < n_partials; j++) {
            holders[j] = ein__box_holders(p, t, j);
            if (holders[j] == 0)
                return ein__fail(e, EIN_INTERNAL, "exchange: nobody holds partial %d of block %d", j,
                                 t->src_block[first_used(p)]);
        }
        to &= ALL_DEVICES(p->n_devices);
        if (to != 0) keys[(*n_keys)++] = (keyed){to, holders, n_partials, i};
    }
    qsort(keys, (size_t)*n_keys, sizeof *keys, by_class);
    return EIN_OK;
}

static ein_status make_classes(arena *a, demand *d, error *e)
{
    keyed *keys;
    int n;
    NEW(a, keys, d->n_boxes);
    TRY(make_keys(a, d, keys, &n, e));
    for (int i = 0; i < n; i++) d->n_classes += i == 0 || !same_class(&keys[i - 1], &keys[i]);
    NEW(a, d->classes, d->n_classes);
    NEW(a, d->order, d->n_boxes);
    demand_class *c = d->classes - 1;
    for (int i = 0; i < n; i++) {
        const transfer *t = &d->boxes[keys[i].box];
        if (i == 0 || !same_class(&keys[i - 1], &keys[i]))
            *++c = (demand_class){.n_partials = keys[i].n_partials, .holders = keys[i].holders, .to = keys[i].to,
                                  .first = i};
        d->order[i] = keys[i].box;
        c->n++;
        c->elements += ein__transfer_volume(t);
        c->partial_bytes += (double)ein__source_bytes(d->p, d->row_states, t);
        c->finished_bytes += (double)(ein__transfer_volume(t) * ein__dtype_bytes(d->p->dtype));
    }
    return EIN_OK;
}

ein_status ein__demand_make(arena *a, const exchange_problem *p, demand *out, error *e)
{
    maker *m;
    bool compatible;
    *out = (demand){.p = p};
    TRY(check_problem(p, e));
    if (ein__relation_numel(p->to) == 0) return EIN_OK;
    NEW(a, m, 1);
    m->a = a;
    m->p = p;
    TRY(ein__overlay_make(a, p, &m->o, &compatible));
    out->incompatible = !compatible;
    if (!compatible) return EIN_OK;
    TRY(make_shapes(m));
    out->n_boxes = m->shapes.n;
    out->boxes = m->shapes.items;
    out->joined = m->joined.items;
    out->storable = is_storable(p);
    out->combines = out->storable && p->merge != NULL && any_order(p->merge);
    find_form(out);
    return make_classes(a, out, e);
}
