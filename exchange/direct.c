/* SPDX-License-Identifier: Apache-2.0 */
/* The direct family. First the shapes: per needed block, every box that it shares with a source block, with
 * addresses but without devices. Then every destination gets a copy of its blocks' shapes with the copies
 * that it reads: its own, else the holder that has served the fewest bytes so far. */
#include <string.h>

#include "exchange/overlay.h"

/* Address of a point in a block: base + sum of coordinate * stride over the factors. */
typedef struct addresses {
    i64 *base, *stride; /* per block; per block and factor */
} addresses;

typedef struct direct {
    arena *a;
    const exchange_problem *p;
    overlay o;
    addresses sides[MAX_SIDES];
    struct { transfer *items; int n, room; } shapes;
    int *first; /* of each block of `to`, and one more: where its shapes begin */
    i64 served[MAX_DEVICES];
} direct;

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

/* Append a dimension, joined to the one before it where both are one walk on every side. */
static void add_dim(dims *m, int n_sides, i64 size, const i64 *stride)
{
    if (size == 1) return;
    bool joins = m->rank > 0;
    for (int s = 0; s < n_sides && joins; s++) joins = m->stride[s][m->rank - 1] == stride[s] * size;
    int at = joins ? m->rank - 1 : m->rank++;
    m->size[at] = joins ? m->size[at] * size : size;
    for (int s = 0; s < n_sides; s++) m->stride[s][at] = stride[s];
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
static ein_status push_shape(direct *d, const dims *m, const int *block, int skip)
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
    return EIN_OK;
}

/* Boxes of too high a rank are taken apart along their outer dimensions. */
static ein_status push_shapes(direct *d, dims *m, const int *block, int skip)
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
static ein_status make_shape(direct *d, int dst_block, const int *at)
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
    fill_rank(&m, o->n_sides);
    return push_shapes(d, &m, block, 0);
}

/* Hits of a block in group g are [*from, *end). */
static void block_hits(const direct *d, int dst_block, int g, int *from, int *end)
{
    const group *in = &d->o.groups[g];
    int part = dst_block / in->weight[0] % in->digits[0];
    *from = in->hits_at[part];
    *end = in->hits_at[part + 1];
}

/* All combinations of the groups' hits. */
static ein_status make_block_shapes(direct *d, int dst_block)
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
static ein_status reserve_shapes(direct *d)
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

static ein_status make_shapes(direct *d)
{
    const relation *to = d->p->to;
    for (int s = 0; s < d->o.n_sides; s++) TRY(make_addresses(d->a, &d->o, s, &d->sides[s]));
    TRY(reserve_shapes(d));
    NEW(d->a, d->first, to->n_blocks + 1);
    for (int b = 0; b < to->n_blocks; b++) {
        d->first[b] = d->shapes.n;
        if (to->devices[b] != 0) TRY(make_block_shapes(d, b));
    }
    d->first[to->n_blocks] = d->shapes.n;
    return EIN_OK;
}

/* ---- devices ------------------------------------------------------------------------------------------ */

static devset holders(const direct *d, const transfer *t, int partial)
{
    devset all = ~(devset)0;
    for (int s = 1; s < d->o.n_sides; s++) {
        const relation *r = d->o.side[s];
        all &= r->devices[t->src_block[d->o.state[s]] * r->n_partials + partial];
    }
    return all & (ALL_DEVICES(d->p->n_devices) | DEV(HOST));
}

static i64 volume(const transfer *t)
{
    i64 n = 1;
    for (int k = 0; k < t->rank; k++) n *= t->size[k];
    return n;
}

/* The k-th device of a set, counted round it; -1 if it is empty. */
static int pick(devset set, int k)
{
    int n = __builtin_popcount(set);
    if (n == 0) return -1;
    for (k %= n; k > 0; k--) set &= set - 1;
    return __builtin_ctz(set);
}

/* Who moves a box to HOST: a holder, the blocks dealt round. */
static int executor(const direct *d, const transfer *t)
{
    int deal = t->dst_block + t->src_block[d->o.state[1]];
    int device = pick(holders(d, t, 0) & ~DEV(HOST), deal);
    return device >= 0 ? device : deal % d->p->n_devices;
}

static int choose_source(direct *d, int device, devset set, i64 amount)
{
    if ((set & DEV(device)) != 0) return device;
    int n = d->p->n_devices, best = -1;
    for (int i = 1; i < n; i++) { /* those after the device first, so that equals are spread */
        int other = (device + i) % n;
        if ((set & DEV(other)) != 0 && (best < 0 || d->served[other] < d->served[best])) best = other;
    }
    if (best >= 0) d->served[best] += amount;
    return best >= 0 ? best : (set & DEV(HOST)) != 0 ? HOST : -1;
}

static ein_status add_transfer(direct *d, const transfer *shape, int device, int to, int *sources,
                               exchange *x, error *e)
{
    transfer *t = &x->transfers[x->n_transfers++];
    i64 amount = volume(shape);
    *t = *shape;
    t->device = device;
    t->dst_device = to;
    t->n_sources = d->o.side[1]->n_partials;
    t->src_device = sources;
    for (int j = 0; j < t->n_sources; j++) {
        sources[j] = choose_source(d, device, holders(d, t, j), amount);
        if (sources[j] < 0)
            return ein__fail(e, EIN_INTERNAL, "exchange: nobody holds partial %d of block %d", j,
                             t->src_block[d->o.state[1]]);
    }
    return EIN_OK;
}

static ein_status add_transfers(direct *d, exchange *x, error *e)
{
    const relation *to = d->p->to;
    int partials = d->o.side[1]->n_partials, *sources;
    i64 n = 0;
    for (int b = 0; b < to->n_blocks; b++) {
        if ((to->devices[b] & ~(ALL_DEVICES(d->p->n_devices) | DEV(HOST))) != 0)
            return ein__fail(e, EIN_INTERNAL, "exchange: block %d is needed on devices %#x of %d", b,
                             to->devices[b], d->p->n_devices);
        n += (i64)__builtin_popcount(to->devices[b]) * (d->first[b + 1] - d->first[b]);
    }
    NEW(d->a, x->transfers, n);
    NEW(d->a, sources, n * partials);
    for (int device = 0; device < d->p->n_devices; device++) {
        for (int i = 0; i < d->shapes.n; i++) {
            const transfer *t = &d->shapes.items[i];
            if ((to->devices[t->dst_block] & DEV(device)) == 0) continue;
            TRY(add_transfer(d, t, device, device, sources + (i64)x->n_transfers * partials, x, e));
        }
        for (int i = 0; i < d->shapes.n; i++) {
            const transfer *t = &d->shapes.items[i];
            if ((to->devices[t->dst_block] & DEV(HOST)) == 0 || executor(d, t) != device) continue;
            TRY(add_transfer(d, t, device, HOST, sources + (i64)x->n_transfers * partials, x, e));
        }
    }
    return EIN_OK;
}

/* ---- what the kernels will touch ---------------------------------------------------------------------- */

i64 ein__transfer_rows(const transfer *t)
{
    i64 inner = t->size[t->rank - 1];
    return volume(t) / inner * ((inner + EIN__ROW - 1) / EIN__ROW);
}

/* What all innermost dimensions have in common; a dimension of size 1 goes with either. A state that combines
 * with one that is walked is walked itself. */
static void find_form(const exchange_problem *p, exchange *x)
{
    uint32_t walked = 0;
    bool rows = false, several = p->merge != NULL && p->states[first_used(p)]->n_partials > 1;
    for (int i = 0; i < x->n_transfers; i++) {
        const transfer *t = &x->transfers[i];
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
    x->row_states = p->used & ~walked;
    x->unit_stride = true;
    for (int i = 0; i < x->n_transfers; i++) {
        const transfer *t = &x->transfers[i];
        if (t->size[t->rank - 1] == 1) continue;
        x->unit_stride = x->unit_stride && t->dst_stride[t->rank - 1] == 1;
        for (int s = 0; s < p->n_states; s++)
            if ((walked >> s & 1) != 0 && t->src_stride[s][t->rank - 1] != 1) x->unit_stride = false;
    }
}

/* Bytes of one element of each state of a set. */
static i64 states_bytes(const exchange_problem *p, uint32_t set)
{
    i64 bytes = 0;
    for (; set != 0; set &= set - 1) bytes += ein__dtype_bytes(ein__exchange_stored(p, __builtin_ctz(set)));
    return bytes;
}

static void tally(const exchange_problem *p, exchange *x)
{
    i64 once = states_bytes(p, x->row_states), each = states_bytes(p, p->used & ~x->row_states);
    for (int i = 0; i < x->n_transfers; i++) {
        const transfer *t = &x->transfers[i];
        i64 n = volume(t), read = n * each + ein__transfer_rows(t) * once, written = n * ein__dtype_bytes(p->dtype);
        *(t->dst_device == HOST ? &x->host_bytes[t->device] : &x->local_bytes[t->device]) += written;
        for (int j = 0; j < t->n_sources; j++) {
            int from = t->src_device[j];
            if (from == HOST) x->host_bytes[t->device] += read;
            else if (from == t->device) x->local_bytes[from] += read;
            else x->pair_bytes[from][t->device] += read;
        }
    }
    for (int from = 0; from < p->n_devices; from++)
        for (int to = 0; to < p->n_devices; to++) {
            x->remote_bytes[to] += x->pair_bytes[from][to];
            x->total_bytes += x->pair_bytes[from][to];
        }
}

ein_status ein__exchange_direct(arena *a, const exchange_problem *p, exchange *out, error *e)
{
    memset(out, 0, sizeof *out);
    TRY(check_problem(p, e));
    if (ein__relation_numel(p->to) == 0) return EIN_OK;
    direct *d;
    bool compatible;
    NEW(a, d, 1);
    d->a = a;
    d->p = p;
    TRY(ein__overlay_make(a, p, &d->o, &compatible));
    out->incompatible = !compatible;
    if (!compatible) return EIN_OK;
    TRY(make_shapes(d));
    TRY(add_transfers(d, out, e));
    find_form(p, out);
    tally(p, out);
    return EIN_OK;
}
