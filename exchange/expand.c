/* SPDX-License-Identifier: Apache-2.0 */
/* From trees to transfers. Every box of a class is cut as its trees say and as the chunks say; every piece goes its
 * tree's way: a transfer where something is combined, finished or copied, each in the step after those that it
 * reads. What no kernel can address is first copied to the process's memory by its owner. */
#include <stdlib.h>
#include <string.h>

#include "exchange/schedule.h"

enum { BUCKETS = 256 };

/* What was copied to the process's memory: of which piece, and the one before it of the same box. */
typedef struct mailbox { source what, where; i64 first, of; int before; } mailbox;

typedef struct expander {
    arena *a;
    const demand *d;
    const routes *r;
    exchange *x;
    int state;       /* the first used one */
    struct { int n, room; transfer *items; } transfers;
    struct { int n, room; scratch *items; } scratch;
    int bucket[BUCKETS];                    /* of scratch by device and block: last of its list, -1 */
    struct { int n, room; int *items; } before; /* and the one before it in its list */
    /* the piece at hand */
    const tree *t; /* NULL: what HOST needs */
    const demand_class *c;
    const transfer *box;
    transfer piece;
    i64 first, of;
    int first_step;
    struct { int n, room; mailbox *items; } mailboxes;
    int *last_mailbox; /* of a box, -1 */
} expander;

/* ---- pieces ------------------------------------------------------------------------------------------- */

/* How much larger than its share the largest of `of` pieces of so many is. */
static double unevenness(i64 n, i64 of) { return n > 0 ? (double)((n + of - 1) / of * of) / (double)n : (double)of; }

enum { ALIGNED = 16 };

/* Rows are cut where vectors begin, if they are long. */
static bool aligned(const transfer *box, int k, i64 of) { return k == box->rank - 1 && box->size[k] / of >= 4 * ALIGNED; }

/* The outermost dimension that can be cut nearly evenly, else the one that can be cut best. */
static int cut_dimension(const transfer *box, i64 of)
{
    int best = 0;
    double least = (double)of;
    for (int k = 0; k < box->rank; k++) {
        double uneven = unevenness(aligned(box, k, of) ? box->size[k] / ALIGNED : box->size[k], of);
        if (uneven < 1.005) return k;
        if (uneven < least) least = uneven, best = k;
    }
    return best;
}

static i64 boundary(const transfer *box, int k, i64 at, i64 of)
{
    i64 size = box->size[k], point = at == of ? size : size / of * at + size % of * at / of;
    return point != size && aligned(box, k, of) ? point / ALIGNED * ALIGNED : point;
}

i64 ein__share_volume(const demand *d, int box, i64 first, i64 end, i64 of)
{
    const transfer *t = &d->boxes[box];
    i64 all = ein__transfer_volume(t);
    if (of == 1) return all;
    if (d->joined[box]) return first == 0 ? all : 0;
    int k = cut_dimension(t, of);
    return all / t->size[k] * (boundary(t, k, end, of) - boundary(t, k, first, of));
}

/* Neighbours that are one walk on every side become one dimension; rows stay the last. */
static void join_dimensions(transfer *t)
{
    int n = 0;
    for (int k = 0; k < t->rank; k++) {
        if (t->size[k] == 1 && k < t->rank - 1) continue;
        bool joins = n > 0 && t->dst_stride[n - 1] == t->dst_stride[k] * t->size[k];
        for (int s = 0; s < MAX_STATES && joins; s++) joins = t->src_stride[s][n - 1] == t->src_stride[s][k] * t->size[k];
        int at = joins ? n - 1 : n++;
        t->size[at] = joins ? t->size[at] * t->size[k] : t->size[k];
        t->dst_stride[at] = t->dst_stride[k];
        for (int s = 0; s < MAX_STATES; s++) t->src_stride[s][at] = t->src_stride[s][k];
    }
    t->rank = n;
}

/* Pieces [first, end) of `of` of the box; false if that is nothing. */
static bool cut_box(const transfer *box, bool joined, i64 first, i64 end, i64 of, transfer *piece)
{
    *piece = *box;
    if (of > 1 && joined) return first == 0;
    if (of > 1) {
        int k = cut_dimension(box, of);
        i64 lo = boundary(box, k, first, of);
        piece->size[k] = boundary(box, k, end, of) - lo;
        piece->dst_offset += lo * box->dst_stride[k];
        for (int s = 0; s < MAX_STATES; s++) piece->src_offset[s] += lo * box->src_stride[s][k];
        if (piece->size[k] <= 0) return false;
    }
    join_dimensions(piece);
    return true;
}

/* ---- memory ------------------------------------------------------------------------------------------- */

static bool same_scratch(const scratch *a, const scratch *b)
{
    return a->device == b->device && a->owner == b->owner && a->dst_block == b->dst_block &&
           a->src_block == b->src_block && a->partial == b->partial && a->outgoing == b->outgoing;
}

static ein_status find_scratch(expander *x, scratch key, int *out)
{
    int *list = &x->bucket[(unsigned)(key.owner * 37 + key.dst_block * 11 + key.src_block * 5 + key.partial) % BUCKETS];
    for (int i = *list; i >= 0; i = x->before.items[i])
        if (same_scratch(&x->scratch.items[i], &key)) {
            *out = i;
            return EIN_OK;
        }
    *out = x->scratch.n;
    PUSH(x->a, &x->scratch, key);
    PUSH(x->a, &x->before, *list);
    *list = *out;
    return EIN_OK;
}

/* The piece's elements are kept in it. */
static void widen(expander *x, int at)
{
    scratch *s = &x->scratch.items[at];
    const transfer *p = &x->piece;
    bool finished = s->src_block < 0;
    i64 lo = finished ? p->dst_offset : p->src_offset[x->state], hi = lo + 1;
    for (int k = 0; k < p->rank; k++)
        hi += (p->size[k] - 1) * (finished ? p->dst_stride[k] : p->src_stride[x->state][k]);
    if (s->n > 0 && s->lo < lo) lo = s->lo;
    if (s->n > 0 && s->lo + s->n > hi) hi = s->lo + s->n;
    s->lo = lo;
    s->n = hi - lo;
}

static ein_status emit(expander *x, transfer_kind kind, int step, int device, scratch *memory, const source *sources,
                       int n, source *out)
{
    transfer t = x->piece;
    source *copy;
    NEW(x->a, copy, n);
    memcpy(copy, sources, (size_t)n * sizeof *copy);
    t.step = step;
    t.kind = kind;
    t.device = device;
    t.dst_device = memory != NULL ? memory->device : device;
    t.dst_scratch = -1;
    t.n_sources = n;
    t.sources = copy;
    if (memory != NULL) {
        TRY(find_scratch(x, *memory, &t.dst_scratch));
        widen(x, t.dst_scratch);
    }
    *out = (source){t.dst_device, t.dst_scratch, kind == TRANSFER_COMBINE ? copy[0].partial : -1, step};
    PUSH(x->a, &x->transfers, t);
    return EIN_OK;
}

static bool same_source(const source *a, const source *b)
{
    return a->device == b->device && a->scratch == b->scratch && a->partial == b->partial;
}

/* `s` as `reader` can read it. */
static ein_status reach(expander *x, int reader, source *s)
{
    bool finished = s->partial < 0;
    if (ein__addresses(x->d, x->r, s->device, reader, finished)) return EIN_OK;
    int *last = &x->last_mailbox[x->box - x->d->boxes];
    for (int i = *last; i >= 0; i = x->mailboxes.items[i].before) {
        const mailbox *known = &x->mailboxes.items[i];
        if (!same_source(&known->what, s) || known->first != x->first || known->of != x->of) continue;
        if (x->scratch.items[known->where.scratch].outgoing != (x->t == NULL)) continue;
        *s = known->where;
        return EIN_OK;
    }
    mailbox m = {.what = *s, .first = x->first, .of = x->of, .before = *last};
    scratch memory = {.device = HOST, .owner = s->device, .dst_block = x->box->dst_block, .src_block = -1, .partial = -1,
                      .outgoing = x->t == NULL};
    if (!finished) memory.src_block = x->box->src_block[x->state];
    if (!finished && s->scratch < 0) memory.partial = s->partial;
    int step = s->step < x->first_step ? x->first_step : s->step + 1;
    TRY(emit(x, finished ? TRANSFER_COPY : TRANSFER_COMBINE, step, s->device, &memory, s, 1, &m.where));
    *s = m.where;
    *last = x->mailboxes.n;
    PUSH(x->a, &x->mailboxes, m);
    return EIN_OK;
}

static ein_status reach_all(expander *x, int reader, source *sources, int n, int *step)
{
    *step = x->first_step;
    for (int i = 0; i < n; i++) {
        TRY(reach(x, reader, &sources[i]));
        if (sources[i].step >= *step) *step = sources[i].step + 1;
    }
    return EIN_OK;
}

/* ---- one piece ---------------------------------------------------------------------------------------- */

static source original(int device, int partial) { return (source){device, -1, partial, -1}; }

static int by_partial(const void *x, const void *y)
{
    const source *a = x, *b = y;
    return a->partial - b->partial;
}

/* At the device that finishes: into the block, or to be copied from scratch. */
static ein_status finish(expander *x, int device, source *sources, int n, transfer_kind kind, source *out)
{
    scratch memory = {.device = device, .owner = device, .dst_block = x->box->dst_block, .src_block = -1, .partial = -1};
    int step;
    TRY(reach_all(x, device, sources, n, &step));
    return emit(x, kind, step, device, (x->c->to & DEV(device)) != 0 ? NULL : &memory, sources, n, out);
}

/* All that comes to device v; the combiner finishes it. */
static ein_status combine_at(expander *x, int v, source *out)
{
    const tree *t = x->t;
    source *sources;
    int n = 0, step, children = 0;
    NEW(x->a, sources, x->c->n_partials + MAX_DEVICES);
    for (int j = 0; j < x->c->n_partials; j++)
        if (t->star ? v == t->combiner : t->holder[j] == v) sources[n++] = original(t->holder[j], j);
    for (int u = 0; u < x->d->p->n_devices && !t->star; u++)
        if (t->up[u] == v && u != t->combiner) {
            TRY(combine_at(x, u, &sources[n++]));
            children++;
        }
    qsort(sources, (size_t)n, sizeof *sources, by_partial);
    if (v == t->combiner) return finish(x, v, sources, n, TRANSFER_FINISH, out);
    if (n == 1 && children == 0) {
        *out = sources[0];
        return EIN_OK;
    }
    scratch memory = {.device = v, .owner = v, .dst_block = x->box->dst_block,
                      .src_block = x->box->src_block[x->state], .partial = -1};
    TRY(reach_all(x, v, sources, n, &step));
    return emit(x, TRANSFER_COMBINE, step, v, &memory, sources, n, out);
}

static ein_status finish_at(expander *x, int v, source *copies)
{
    int from = x->t->from[v];
    if (copies[v].device >= 0) return EIN_OK;
    bool whole = x->t->combiner < 0 && (from == HOST || (x->c->holders[0] & DEV(from)) != 0);
    source s = original(from, 0);
    if (!whole) {
        TRY(finish_at(x, from, copies));
        s = copies[from];
    }
    return finish(x, v, &s, 1, whole ? TRANSFER_FINISH : TRANSFER_COPY, &copies[v]);
}

static ein_status expand_piece(expander *x)
{
    source copies[MAX_DEVICES];
    for (int v = 0; v < MAX_DEVICES; v++) copies[v].device = -1;
    if (x->t->combiner >= 0) TRY(combine_at(x, x->t->combiner, &copies[x->t->combiner]));
    for (int v = 0; v < x->d->p->n_devices; v++)
        if (x->t->from[v] >= 0) TRY(finish_at(x, v, copies));
    return EIN_OK;
}

static ein_status expand_tree(expander *x, const tree *t, int n_chunks)
{
    x->t = t;
    x->c = &x->d->classes[t->class];
    for (int i = 0; i < x->c->n; i++) {
        x->box = &x->d->boxes[x->d->order[x->c->first + i]];
        for (int k = 0; k < n_chunks; k++) {
            x->first = (i64)t->first * n_chunks + (i64)t->n * k;
            x->of = (i64)t->of * n_chunks;
            x->first_step = k;
            bool joined = x->d->joined[x->box - x->d->boxes];
            if (cut_box(x->box, joined, x->first, x->first + t->n, x->of, &x->piece)) TRY(expand_piece(x));
        }
    }
    return EIN_OK;
}

/* ---- HOST as destination ------------------------------------------------------------------------------ */

/* The k-th device of a set, counted round it; -1 if it is empty. */
static int pick(devset set, int k)
{
    int n = __builtin_popcount(set);
    if (n == 0) return -1;
    for (k %= n; k > 0; k--) set &= set - 1;
    return __builtin_ctz(set);
}

/* A holder brings the box, blocks dealt round; it reads its own partials, and of others the first copy after it. */
static ein_status bring_to_host(expander *x, const transfer *box)
{
    const exchange_problem *p = x->d->p;
    source *sources, at;
    int n = p->states[x->state]->n_partials, step, deal = box->dst_block + box->src_block[x->state];
    int device = pick(ein__box_holders(p, box, 0) & ~DEV(HOST), deal);
    if (device < 0) device = deal % p->n_devices;
    x->box = box;
    x->t = NULL;
    cut_box(box, x->d->joined[box - x->d->boxes], 0, 1, 1, &x->piece);
    x->first = x->first_step = 0;
    x->of = 1;
    NEW(x->a, sources, n);
    for (int j = 0; j < n; j++) {
        devset held = ein__box_holders(p, box, j);
        int from = HOST;
        for (int i = p->n_devices - 1; i >= 0 && held != DEV(HOST); i--)
            if ((held & DEV((device + i) % p->n_devices)) != 0) from = (device + i) % p->n_devices;
        sources[j] = original(from, j);
    }
    TRY(reach_all(x, device, sources, n, &step));
    TRY(emit(x, TRANSFER_FINISH, step, device, NULL, sources, n, &at));
    x->transfers.items[x->transfers.n - 1].dst_device = HOST;
    return EIN_OK;
}

/* ---- all ---------------------------------------------------------------------------------------------- */

typedef struct ranked { i64 key; int index; } ranked;

static int by_rank(const void *x, const void *y)
{
    const ranked *a = x, *b = y;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return a->index - b->index;
}

/* By (step, device, kind, dst_device, dst_block, dst_scratch), else as they were made. */
static ein_status sort_transfers(expander *x)
{
    ranked *ranks;
    NEW(x->a, ranks, x->transfers.n);
    NEW(x->a, x->x->transfers, x->transfers.n);
    for (int i = 0; i < x->transfers.n; i++) {
        const transfer *t = &x->transfers.items[i];
        i64 key = (((i64)t->step * 32 + t->device) * 4 + t->kind) * 32 + t->dst_device;
        ranks[i] = (ranked){(key << 40) + ((i64)t->dst_block << 20) + t->dst_scratch + 1, i};
    }
    qsort(ranks, (size_t)x->transfers.n, sizeof *ranks, by_rank);
    for (int i = 0; i < x->transfers.n; i++) x->x->transfers[i] = x->transfers.items[ranks[i].index];
    x->x->n_transfers = x->transfers.n;
    x->x->scratch = x->scratch.items;
    x->x->n_scratch = x->scratch.n;
    if (x->transfers.n > 0) x->x->n_steps = x->x->transfers[x->transfers.n - 1].step + 1;
    return EIN_OK;
}

static void count_transfer(const demand *d, exchange *x, const transfer *t)
{
    const exchange_problem *p = d->p;
    traffic *now = &x->traffic[t->step];
    i64 copied = ein__transfer_volume(t) * ein__dtype_bytes(p->dtype);
    i64 read = t->kind == TRANSFER_COPY ? copied : ein__source_bytes(p, d->row_states, t);
    i64 written = t->kind == TRANSFER_COMBINE ? read : copied;
    if (t->dst_device != HOST) x->local_bytes[t->device] += written, now->local[t->device] += (double)written;
    else x->host_bytes[t->device] += written;
    if (t->dst_device == HOST) (t->dst_scratch >= 0 ? now->staged : now->host)[t->device] += (double)written;
    for (int j = 0; j < t->n_sources; j++) {
        const source *s = &t->sources[j];
        if (s->device == HOST && s->scratch >= 0) {
            now->staged[t->device] += (double)read;
            now->pair[x->scratch[s->scratch].owner][t->device] += (double)read;
        } else if (s->device == HOST) now->host[t->device] += (double)read;
        else if (s->device == t->device) now->local[t->device] += (double)read;
        else now->pair[s->device][t->device] += (double)read;
        if (s->device == HOST) x->host_bytes[t->device] += read;
        else if (s->device == t->device) x->local_bytes[t->device] += read;
        else x->pair_bytes[s->device][t->device] += read;
    }
}

static ein_status tally(arena *a, const demand *d, exchange *x)
{
    NEW(a, x->traffic, x->n_steps);
    for (int i = 0; i < x->n_transfers; i++) count_transfer(d, x, &x->transfers[i]);
    for (int from = 0; from < d->p->n_devices; from++)
        for (int to = 0; to < d->p->n_devices; to++) {
            x->remote_bytes[to] += x->pair_bytes[from][to];
            x->total_bytes += x->pair_bytes[from][to];
        }
    return EIN_OK;
}

ein_status ein__schedule_expand(arena *a, const demand *d, const routes *r, const schedule *s, exchange *out)
{
    expander *x;
    NEW(a, x, 1);
    *x = (expander){.a = a, .d = d, .r = r, .x = out};
    memset(x->bucket, -1, sizeof x->bucket);
    NEW(a, x->last_mailbox, d->n_boxes);
    memset(x->last_mailbox, -1, (size_t)d->n_boxes * sizeof *x->last_mailbox);
    while (x->state < d->p->n_states - 1 && (d->p->used >> x->state & 1) == 0) x->state++;
    out->incompatible = d->incompatible;
    out->state = x->state;
    out->row_states = d->row_states;
    out->unit_stride = d->unit_stride;
    out->unit_copy = d->unit_finished;
    for (int i = 0; i < s->trees.n; i++) TRY(expand_tree(x, &s->trees.items[i], s->n_chunks));
    for (int i = 0; i < d->n_boxes; i++)
        if ((d->p->to->devices[d->boxes[i].dst_block] & DEV(HOST)) != 0) TRY(bring_to_host(x, &d->boxes[i]));
    TRY(sort_transfers(x));
    return tally(a, d, out);
}
