/* SPDX-License-Identifier: Apache-2.0 */
/* The symbolic checker. It knows nothing of how transfers are made: it reads addresses back.
 *
 * A transfer's dimensions are taken apart (a walk that carries from one axis of the destination block into
 * the next becomes two dimensions) until its destination addresses say which elements of the whole index
 * space they are; then again by the finest factors of all relations, so that it is a box of coordinates.
 * From the box and the relations follow the addresses that every side must have. Boxes of one block that
 * lie inside it, do not meet, and add up to its size tile it.
 *
 * Transfers come in the order of their steps. Each leaves something in a memory, a block or scratch: which partials
 * of its box, or the finished box. What is read must have been left there by the step that is named, an earlier one. */
#include <string.h>

#include "core/base/arena.h"
#include "exchange/exchange.h"

enum { ROOM = (1 + MAX_STATES) * MAX_AXES + 2, SIDES = 1 + MAX_STATES };

/* Dimensions with the walk on every side: side 0 is the destination, side 1 + s state s. */
typedef struct pieces {
    int n;
    i64 size[ROOM], step[SIDES][ROOM];
    i64 whole[ROOM]; /* step in the index space */
} pieces;

typedef struct cuboid { i64 *lo, *len; } cuboid;

/* What a transfer leaves: n_partials flags; `before`: the last one that wrote the same memory, -1. */
typedef struct content { bool finished, *partials; int before; } content;

typedef struct checker {
    arena a;
    const exchange_problem *p;
    const exchange *x;
    error *e;
    int n_factors;
    i64 suffix[ROOM], extent[ROOM]; /* of each factor, major first */
    cuboid *boxes; /* of the transfers */
    pieces *m;     /* of the transfer at hand */
    int n_partials, state; /* of the first used state */
    content *left; /* by the transfers */
    int *last;     /* transfer that wrote a memory last, -1: [block * (HOST + 1) + device], then scratch */
} checker;

static ein_status wrong(checker *c, int i, const char *what)
{
    const transfer *t = &c->x->transfers[i];
    return ein__fail(c->e, EIN_INTERNAL, "exchange: transfer %d (block %d to device %d): %s", i, t->dst_block,
                     t->dst_device, what);
}

static const relation *side_of(const exchange_problem *p, int side)
{
    if (side == 0) return p->to;
    return (p->used >> (side - 1) & 1) != 0 ? p->states[side - 1] : NULL;
}

static int block_on(const transfer *t, int side) { return side == 0 ? t->dst_block : t->src_block[side - 1]; }

/* ---- factors ------------------------------------------------------------------------------------------ */

/* Repeatedly the largest boundary below the last one; it must divide it. */
static bool find_factors(checker *c)
{
    i64 above = ein__relation_numel(c->p->to);
    c->n_factors = 0;
    while (above > 1) {
        i64 next = 1;
        for (int side = 0; side < SIDES; side++) {
            const relation *r = side_of(c->p, side);
            i64 suffix = 1;
            for (int i = r != NULL ? r->n_axes - 1 : -1; i >= 0; i--) {
                suffix *= r->axes[i].extent;
                if (suffix < above && suffix > next) next = suffix;
            }
        }
        if (above % next != 0) return false;
        c->suffix[c->n_factors] = next;
        c->extent[c->n_factors++] = above / next;
        above = next;
    }
    return true;
}

/* ---- reading addresses back --------------------------------------------------------------------------- */

/* Dimension k of `m` walks `step` units in a mixed radix where it starts at digit `start` of `extent`; it
 * has to stay below the extent, or to carry cleanly: then its inner part becomes dimension k, its outer
 * part k + 1. */
static bool take_apart(pieces *m, int k, i64 start, i64 step, i64 extent)
{
    if (start + step * (m->size[k] - 1) < extent) return true;
    i64 inner = extent / step;
    if (extent % step != 0 || start >= step || m->size[k] % inner != 0 || m->n == ROOM) return false;
    for (int i = m->n; i > k + 1; i--) {
        m->size[i] = m->size[i - 1];
        m->whole[i] = m->whole[i - 1];
        for (int s = 0; s < SIDES; s++) m->step[s][i] = m->step[s][i - 1];
    }
    m->n++;
    m->size[k + 1] = m->size[k] / inner;
    m->whole[k + 1] = m->whole[k] * inner;
    for (int s = 0; s < SIDES; s++) m->step[s][k + 1] = m->step[s][k] * inner;
    m->size[k] = inner;
    return true;
}

/* Give every dimension the walk in the index space that its destination addresses mean; `origin` is the
 * element of the first one. */
static bool read_destination(const transfer *t, const relation *to, pieces *m, i64 *origin)
{
    i64 width[MAX_AXES], length[MAX_AXES], suffix[MAX_AXES], rest = t->dst_block, inner = 1, outer = 1;
    *origin = 0;
    for (int i = to->n_axes - 1; i >= 0; i--) {
        i64 part = rest % to->axes[i].n_parts;
        rest /= to->axes[i].n_parts;
        width[i] = inner;
        suffix[i] = outer;
        length[i] = to->axes[i].hi[part] - to->axes[i].lo[part];
        if (length[i] <= 0) return false;
        *origin += (to->axes[i].lo[part] + t->dst_offset / inner % length[i]) * outer;
        inner *= length[i];
        outer *= to->axes[i].extent;
    }
    if (t->dst_offset < 0 || t->dst_offset >= inner) return false;
    for (int k = 0; k < m->n; k++) {
        i64 step = m->step[0][k];
        int i = to->n_axes - 1;
        if (step <= 0) return false;
        while (i > 0 && width[i - 1] <= step) i--;
        if (i < 0 || step % width[i] != 0) return false;
        step /= width[i];
        m->whole[k] = step * suffix[i];
        if (!take_apart(m, k, t->dst_offset / width[i] % length[i], step, length[i])) return false;
    }
    return true;
}

/* The box of factors that the walks from `origin` are. */
static bool read_box(const checker *c, i64 origin, pieces *m, cuboid *out, int factor[ROOM])
{
    for (int f = 0; f < c->n_factors; f++) {
        out->lo[f] = origin / c->suffix[f] % c->extent[f];
        out->len[f] = 1;
    }
    for (int k = 0; k < m->n; k++) {
        int f = 0;
        while (f < c->n_factors && c->suffix[f] > m->whole[k]) f++;
        if (f == c->n_factors || m->whole[k] != c->suffix[f] || out->len[f] != 1) return false;
        if (!take_apart(m, k, out->lo[f], 1, c->extent[f])) return false;
        out->len[f] = m->size[k];
        factor[k] = f;
    }
    return true;
}

/* Does the side's block hold the box, and do the transfer's addresses mean it? */
static bool addresses_mean(const checker *c, const transfer *t, int side, const cuboid *b, const pieces *m,
                           const int *factor)
{
    const relation *r = side_of(c->p, side);
    i64 expect[ROOM] = {0}, offset = 0, outer = 1, width = 1, rest = block_on(t, side);
    for (int i = r->n_axes - 1; i >= 0; i--) {
        const axis *x = &r->axes[i];
        i64 part = rest % x->n_parts, least = 0, most = 0;
        rest /= x->n_parts;
        for (int f = 0; f < c->n_factors; f++) {
            if (c->suffix[f] < outer || c->suffix[f] >= outer * x->extent) continue;
            i64 step = c->suffix[f] / outer;
            least += b->lo[f] * step;
            most += (b->lo[f] + b->len[f] - 1) * step;
            if (!x->broadcast) expect[f] = step * width;
        }
        if (least < x->lo[part] || most >= x->hi[part]) return false;
        outer *= x->extent;
        if (x->broadcast) continue;
        offset += (least - x->lo[part]) * width;
        width *= x->hi[part] - x->lo[part];
    }
    if (rest != 0 || offset != (side == 0 ? t->dst_offset : t->src_offset[side - 1])) return false;
    for (int k = 0; k < m->n; k++)
        if (m->step[side][k] != expect[factor[k]]) return false;
    return true;
}

/* ---- one transfer ------------------------------------------------------------------------------------- */

static ein_status check_destination(checker *c, int i)
{
    const transfer *t = &c->x->transfers[i];
    if (t->dst_scratch < -1 || t->dst_scratch >= c->x->n_scratch) return wrong(c, i, "no such scratch");
    if (t->dst_scratch < 0) {
        if (t->dst_device != t->device && t->dst_device != HOST) return wrong(c, i, "written to another device");
        if ((c->p->to->devices[t->dst_block] & DEV(t->dst_device)) == 0) return wrong(c, i, "nobody needs it there");
        return t->kind != TRANSFER_COMBINE ? EIN_OK : wrong(c, i, "a block gets what is not finished");
    }
    const scratch *s = &c->x->scratch[t->dst_scratch];
    bool combined = t->kind == TRANSFER_COMBINE;
    i64 numel = combined ? ein__block_numel(c->p->states[c->state], t->src_block[c->state])
                         : ein__block_numel(c->p->to, t->dst_block);
    if (s->owner != t->device || (s->device != t->device && s->device != HOST)) return wrong(c, i, "another device's scratch");
    if (s->device != t->dst_device || s->dst_block != t->dst_block || s->src_block != (combined ? t->src_block[c->state] : -1))
        return wrong(c, i, "scratch of another block");
    if (s->lo < 0 || s->n < 1 || s->lo + s->n > numel) return wrong(c, i, "scratch outside the block");
    if (combined && __builtin_popcount(c->p->used) != 1) return wrong(c, i, "states are stored singly");
    i64 lo = combined ? t->src_offset[c->state] : t->dst_offset, hi = lo;
    for (int k = 0; k < t->rank; k++)
        hi += (t->size[k] - 1) * (combined ? t->src_stride[c->state][k] : t->dst_stride[k]);
    return lo >= s->lo && hi < s->lo + s->n ? EIN_OK : wrong(c, i, "it writes outside the scratch");
}

static ein_status check_numbers(checker *c, int i)
{
    const exchange_problem *p = c->p;
    const transfer *t = &c->x->transfers[i];
    if (t->step < 0 || t->step >= c->x->n_steps || t->step >= EIN__STEPS) return wrong(c, i, "no such step");
    if (t->kind < TRANSFER_FINISH || t->kind > TRANSFER_COPY) return wrong(c, i, "no such kind");
    if (t->dst_block < 0 || t->dst_block >= p->to->n_blocks) return wrong(c, i, "no such block");
    if (t->device < 0 || t->device >= p->n_devices) return wrong(c, i, "no such device");
    if (t->rank < 1 || t->rank > MAX_BOX_RANK) return wrong(c, i, "rank out of range");
    for (int k = 0; k < t->rank; k++)
        if (t->size[k] < 1) return wrong(c, i, "empty box");
    for (int side = 1; side < SIDES; side++) {
        const relation *r = side_of(p, side);
        if (r != NULL && (block_on(t, side) < 0 || block_on(t, side) >= r->n_blocks))
            return wrong(c, i, "no such source block");
    }
    return check_destination(c, i);
}

static ein_status read_addresses(checker *c, int i)
{
    const transfer *t = &c->x->transfers[i];
    pieces *m = c->m;
    int factor[ROOM];
    i64 origin;
    NEW(&c->a, c->boxes[i].lo, 2 * c->n_factors);
    c->boxes[i].len = c->boxes[i].lo + c->n_factors;
    m->n = 0;
    for (int k = 0; k < t->rank; k++) {
        if (t->size[k] == 1) continue; /* goes nowhere, whatever its strides */
        m->size[m->n] = t->size[k];
        for (int side = 0; side < SIDES; side++)
            m->step[side][m->n] = side == 0 ? t->dst_stride[k] : t->src_stride[side - 1][k];
        m->n++;
    }
    if (!read_destination(t, c->p->to, m, &origin) || !read_box(c, origin, m, &c->boxes[i], factor))
        return wrong(c, i, "its destination is no box of the block");
    for (int side = 0; side < SIDES; side++)
        if (side_of(c->p, side) != NULL && !addresses_mean(c, t, side, &c->boxes[i], m, factor))
            return wrong(c, i, side == 0 ? "it writes outside the block" : "source and destination differ");
    return EIN_OK;
}

/* ---- contents ----------------------------------------------------------------------------------------- */

static bool boxes_meet(const checker *c, const cuboid *a, const cuboid *b)
{
    for (int f = 0; f < c->n_factors; f++)
        if (a->lo[f] + a->len[f] <= b->lo[f] || b->lo[f] + b->len[f] <= a->lo[f]) return false;
    return true;
}

static i64 box_volume(const checker *c, const cuboid *b)
{
    i64 n = 1;
    for (int f = 0; f < c->n_factors; f++) n *= b->len[f];
    return n;
}

static i64 common_volume(const checker *c, const cuboid *a, const cuboid *b)
{
    i64 n = 1;
    for (int f = 0; f < c->n_factors; f++) {
        i64 lo = a->lo[f] > b->lo[f] ? a->lo[f] : b->lo[f];
        i64 end_a = a->lo[f] + a->len[f], end_b = b->lo[f] + b->len[f], end = end_a < end_b ? end_a : end_b;
        n *= end > lo ? end - lo : 0;
    }
    return n;
}

static int *memory_of(const checker *c, int block, int device, int scratch)
{
    return &c->last[scratch >= 0 ? c->p->to->n_blocks * (HOST + 1) + scratch : block * (HOST + 1) + device];
}

/* The writers of what source `s` of transfer i reads cover it, and left the same; *out is one of them. */
static ein_status find_writer(checker *c, int i, const source *s, const content **out)
{
    const transfer *t = &c->x->transfers[i];
    i64 covered = 0;
    if (s->scratch >= c->x->n_scratch || (s->scratch >= 0 && c->x->scratch[s->scratch].device != s->device))
        return wrong(c, i, "a source is no scratch");
    if (s->step >= t->step) return wrong(c, i, "it reads what is not written yet");
    *out = NULL;
    for (int w = *memory_of(c, t->dst_block, s->device, s->scratch); w >= 0; w = c->left[w].before) {
        i64 n = common_volume(c, &c->boxes[i], &c->boxes[w]);
        const content *x = &c->left[w];
        if (n == 0) continue;
        if (c->x->transfers[w].step != s->step) return wrong(c, i, "another step wrote a source");
        if (*out != NULL && (x->finished != (*out)->finished ||
                             memcmp(x->partials, (*out)->partials, (size_t)c->n_partials * sizeof *x->partials) != 0))
            return wrong(c, i, "the pieces of a source differ");
        *out = x;
        covered += n;
    }
    if (*out == NULL || covered != box_volume(c, &c->boxes[i])) return wrong(c, i, "it reads what nothing wrote");
    if (s->scratch >= 0 && t->kind != TRANSFER_COPY && c->x->scratch[s->scratch].src_block != t->src_block[c->state])
        return wrong(c, i, "a source is laid out as another block");
    return EIN_OK;
}

static bool commutes(const merge *m)
{
    return m != NULL && (strcmp(m->name, "sum") == 0 || strcmp(m->name, "prod") == 0 || strcmp(m->name, "max") == 0 ||
                         strcmp(m->name, "min") == 0);
}

/* Add partials of a source: none twice, the lowest as named, above those before unless any order will do. */
static ein_status add_partials(checker *c, int i, const source *s, const bool *partials, int *highest)
{
    bool *all = c->left[i].partials;
    int low = -1, high = -1;
    for (int j = 0; j < c->n_partials; j++) {
        if (!partials[j]) continue;
        if (all[j]) return wrong(c, i, "a partial is missing or counted twice");
        all[j] = true;
        low = low < 0 ? j : low;
        high = j;
    }
    bool gaps = high >= 0 && !commutes(c->p->merge) && low <= *highest;
    for (int j = low; j >= 0 && j < high && !commutes(c->p->merge); j++) gaps = gaps || !partials[j];
    if (gaps || low != s->partial || low < 0) return wrong(c, i, "partials out of order");
    if (high > *highest) *highest = high;
    return EIN_OK;
}

static ein_status check_original(checker *c, int i, const source *s)
{
    const transfer *t = &c->x->transfers[i];
    if (s->partial < 0 || s->partial >= c->n_partials) return wrong(c, i, "no such partial");
    if (s->step != -1) return wrong(c, i, "a partial is there from the start");
    for (int side = 1; side < SIDES; side++) {
        const relation *r = side_of(c->p, side);
        if (r == NULL) continue;
        if (r->n_partials != c->n_partials) return wrong(c, i, "a partial is missing or counted twice");
        if ((r->devices[block_on(t, side) * r->n_partials + s->partial] & DEV(s->device)) == 0)
            return wrong(c, i, "a source does not hold the partial");
    }
    return EIN_OK;
}

/* What is read, and what is left of it. */
static ein_status check_sources(checker *c, int i)
{
    const transfer *t = &c->x->transfers[i];
    bool *one;
    int highest = -1, lowest = -1, n = 0;
    if (t->n_sources < 1 || (t->kind == TRANSFER_COPY && t->n_sources != 1)) return wrong(c, i, "no sources, or too many");
    NEW(&c->a, one, c->n_partials);
    for (int j = 0; j < t->n_sources; j++) {
        const source *s = &t->sources[j];
        const content *from = NULL;
        if (s->device != HOST && (s->device < 0 || s->device >= c->p->n_devices)) return wrong(c, i, "no such source");
        bool original = s->scratch < 0 && t->kind != TRANSFER_COPY;
        TRY(original ? check_original(c, i, s) : find_writer(c, i, s, &from));
        if (t->kind == TRANSFER_COPY) {
            if (!from->finished || s->partial != -1) return wrong(c, i, "it copies what is not finished");
            continue;
        }
        if (!original && from->finished) return wrong(c, i, "it combines what is finished");
        if (original) one[s->partial] = true;
        TRY(add_partials(c, i, s, original ? one : from->partials, &highest));
        if (s->partial <= lowest) return wrong(c, i, "partials out of order");
        lowest = s->partial;
        if (original) one[s->partial] = false;
    }
    for (int j = 0; j < c->n_partials; j++) n += c->left[i].partials[j];
    c->left[i].finished = t->kind != TRANSFER_COMBINE;
    if (t->kind == TRANSFER_FINISH && n != c->n_partials) return wrong(c, i, "a partial is missing or counted twice");
    return EIN_OK;
}

/* Into its memory, apart from what is there. */
static ein_status leave(checker *c, int i)
{
    const transfer *t = &c->x->transfers[i];
    int *last = memory_of(c, t->dst_block, t->dst_device, t->dst_scratch);
    for (int w = *last; w >= 0; w = c->left[w].before)
        if (boxes_meet(c, &c->boxes[i], &c->boxes[w])) return wrong(c, i, "it overlaps another one");
    c->left[i].before = *last;
    *last = i;
    return EIN_OK;
}

/* A step's transfers read nothing that it writes: all are checked, then all are left. */
static ein_status check_step(checker *c, int first, int end)
{
    for (int i = first; i < end; i++) {
        TRY(check_numbers(c, i));
        TRY(read_addresses(c, i));
        NEW(&c->a, c->left[i].partials, c->n_partials);
        TRY(check_sources(c, i));
    }
    for (int i = first; i < end; i++) TRY(leave(c, i));
    return EIN_OK;
}

/* ---- all transfers ------------------------------------------------------------------------------------ */

/* The boxes of one block on one device, which are apart, are as large as the block. */
static ein_status check_tiling(checker *c, int block, int device)
{
    i64 covered = 0, size = ein__block_numel(c->p->to, block);
    for (int w = *memory_of(c, block, device, -1); w >= 0; w = c->left[w].before) covered += box_volume(c, &c->boxes[w]);
    if (covered == size) return EIN_OK;
    return ein__fail(c->e, EIN_INTERNAL, "exchange: %lld of %lld elements of block %d reach device %d",
                     (long long)covered, (long long)size, block, device);
}

/* Bytes read by one source of a transfer: states that are uniform in a row once per row of the grid. */
static i64 source_bytes(const checker *c, const transfer *t)
{
    i64 bytes = 0, outer = 1, inner = t->size[t->rank - 1];
    for (int k = 0; k + 1 < t->rank; k++) outer *= t->size[k];
    if (t->kind == TRANSFER_COPY) return outer * inner * ein__dtype_bytes(c->p->dtype);
    for (int s = 0; s < c->p->n_states; s++) {
        if ((c->p->used >> s & 1) == 0) continue;
        i64 elements = outer * ((c->x->row_states >> s & 1) != 0 ? (inner + EIN__ROW - 1) / EIN__ROW : inner);
        bytes += elements * ein__dtype_bytes(c->p->merge != NULL ? c->p->merge->wire[s] : c->p->dtype);
    }
    return bytes;
}

static bool in_order(const transfer *a, const transfer *b)
{
    const int x[] = {a->step, a->device, (int)a->kind, a->dst_device, a->dst_block, a->dst_scratch};
    const int y[] = {b->step, b->device, (int)b->kind, b->dst_device, b->dst_block, b->dst_scratch};
    for (int k = 0; k < 6; k++)
        if (x[k] != y[k]) return x[k] < y[k];
    return true;
}

static ein_status check_counts(checker *c)
{
    i64 remote[MAX_DEVICES] = {0}, total = 0;
    for (int i = 0; i < c->x->n_transfers; i++) {
        const transfer *t = &c->x->transfers[i];
        for (int j = 0; j < t->n_sources; j++)
            if (t->sources[j].device != t->device && t->sources[j].device != HOST)
                remote[t->device] += source_bytes(c, t);
    }
    for (int d = 0; d < MAX_DEVICES; d++) {
        total += remote[d];
        if (remote[d] != c->x->remote_bytes[d])
            return ein__fail(c->e, EIN_INTERNAL, "exchange: device %d reads %lld bytes from others, said %lld",
                             d, (long long)remote[d], (long long)c->x->remote_bytes[d]);
    }
    if (total == c->x->total_bytes) return EIN_OK;
    return ein__fail(c->e, EIN_INTERNAL, "exchange: %lld bytes in all, said %lld", (long long)total,
                     (long long)c->x->total_bytes);
}

static ein_status check_all(checker *c)
{
    const relation *to = c->p->to;
    int n_memories = to->n_blocks * (HOST + 1) + c->x->n_scratch, n = c->x->n_transfers;
    if (c->x->incompatible || !find_factors(c))
        return ein__fail(c->e, EIN_INTERNAL, "exchange: the factorizations have no common refinement");
    while ((c->p->used >> c->state & 1) == 0) c->state++;
    c->n_partials = c->p->states[c->state]->n_partials;
    NEW(&c->a, c->boxes, n);
    NEW(&c->a, c->m, 1);
    NEW(&c->a, c->left, n);
    NEW(&c->a, c->last, n_memories);
    memset(c->last, -1, (size_t)n_memories * sizeof *c->last);
    for (int i = 1; i < n; i++)
        if (!in_order(&c->x->transfers[i - 1], &c->x->transfers[i])) return wrong(c, i, "out of order");
    for (int first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && c->x->transfers[end].step == c->x->transfers[first].step;) end++;
        TRY(check_step(c, first, end));
    }
    for (int b = 0; b < to->n_blocks; b++)
        for (int d = 0; d <= HOST; d++)
            if ((to->devices[b] & DEV(d)) != 0) TRY(check_tiling(c, b, d));
    return check_counts(c);
}

ein_status ein__exchange_check(const exchange_problem *p, const exchange *x, error *e)
{
    checker c = {.p = p, .x = x, .e = e};
    ein_status status = check_all(&c);
    ein__arena_free(&c.a);
    return status;
}
