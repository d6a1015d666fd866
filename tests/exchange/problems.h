/* SPDX-License-Identifier: Apache-2.0 */
/* Random exchange problems, and devices with memory in which their blocks lie. */
#ifndef TESTS_EXCHANGE_PROBLEMS_H
#define TESTS_EXCHANGE_PROBLEMS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "exchange/exchange.h"

/* MEMORY: bytes of a device; the last of the memories is HOST's. */
enum { MEMORY = 1 << 20, MEMORIES = MAX_DEVICES + 1, MAX_KEPT = 4096 };

typedef struct problem {
    arena a;
    exchange_problem p;
    relation states[MAX_STATES], to;
    uint64_t seed;
    bool typed; /* of any element types; else f32 */
} problem;

static inline uint64_t random_bits(problem *q)
{
    q->seed ^= q->seed << 13;
    q->seed ^= q->seed >> 7;
    q->seed ^= q->seed << 17;
    return q->seed;
}

/* lo .. hi inclusive */
static inline int pick_int(problem *q, int lo, int hi)
{
    return lo + (int)((random_bits(q) >> 20) % (uint64_t)(hi - lo + 1));
}

static inline axis cut_axis(problem *q, i64 extent, int n_parts)
{
    i64 *at = ein__arena_get(&q->a, (size_t)n_parts + 1, sizeof *at);
    assert_non_null(at);
    at[n_parts] = extent;
    for (int i = 1; i < n_parts; i++) at[i] = pick_int(q, 0, (int)extent);
    for (int i = 1; i < n_parts; i++)
        for (int k = i; k > 1 && at[k - 1] > at[k]; k--) {
            i64 t = at[k];
            at[k] = at[k - 1];
            at[k - 1] = t;
        }
    return (axis){.extent = extent, .n_parts = n_parts, .lo = at, .hi = at + 1};
}

/* Parts that may overlap and leave gaps. */
static inline axis free_axis(problem *q, i64 extent, int n_parts)
{
    i64 *at = ein__arena_get(&q->a, 2 * (size_t)n_parts, sizeof *at);
    assert_non_null(at);
    for (int i = 0; i < n_parts; i++) {
        at[i] = pick_int(q, 0, (int)extent);
        at[n_parts + i] = pick_int(q, (int)at[i], (int)extent);
    }
    return (axis){.extent = extent, .n_parts = n_parts, .lo = at, .hi = at + n_parts};
}

/* The factors as axes, some neighbours as one. */
static inline void group_axes(problem *q, const int *factors, int n, bool needs, relation *r)
{
    memset(r, 0, sizeof *r);
    r->n_blocks = r->n_partials = 1;
    for (int i = 0; i < n;) {
        i64 extent = factors[i++];
        while (i < n && pick_int(q, 0, 1) == 0) extent *= factors[i++];
        int parts = pick_int(q, 0, 1) == 0 || r->n_blocks > 8 ? 1 : pick_int(q, 2, 4);
        r->axes[r->n_axes++] = needs && pick_int(q, 0, 2) == 0 ? free_axis(q, extent, parts)
                                                               : cut_axis(q, extent, parts);
        r->n_blocks *= parts;
    }
}

static inline devset *place_blocks(problem *q, int n, int n_devices, int least, int most)
{
    devset *where = ein__arena_get(&q->a, (size_t)n, sizeof *where);
    assert_non_null(where);
    for (int i = 0; i < n; i++)
        for (int k = pick_int(q, least, most); k > 0; k--) where[i] |= DEV(pick_int(q, 0, n_devices - 1));
    return where;
}

/* State `lacking` of the axes of `whole` named by the bits: broadcast and uncut there, held by all who have
 * any of it. */
static inline void lacking_state(problem *q, const relation *whole, uint32_t lacks, relation *out)
{
    *out = *whole;
    out->n_blocks = 1;
    for (int i = 0; i < out->n_axes; i++) {
        if ((lacks >> i & 1) != 0) {
            out->axes[i] = cut_axis(q, whole->axes[i].extent, 1);
            out->axes[i].broadcast = true;
        }
        out->n_blocks *= out->axes[i].n_parts;
    }
    devset *where = ein__arena_get(&q->a, (size_t)(out->n_blocks * out->n_partials), sizeof *where);
    assert_non_null(where);
    for (int b = 0; b < whole->n_blocks; b++) {
        int mine = 0;
        for (int i = 0; i < out->n_axes; i++)
            mine = mine * out->axes[i].n_parts + (out->axes[i].broadcast ? 0 : ein__block_part(whole, b, i));
        for (int j = 0; j < out->n_partials; j++)
            where[mine * out->n_partials + j] |= whole->devices[b * out->n_partials + j];
    }
    out->devices = where;
}

/* ---- merges ------------------------------------------------------------------------------------------- */

static inline void take_merge(problem *q, merge_kind kind, double scale, ein_dtype dtype)
{
    merge *m;
    assert_int_equal(ein__merge_make(&q->a, kind, scale, dtype, &m), EIN_OK);
    q->p.merge = m;
    q->p.n_states = m->n_states;
    q->p.dtype = dtype;
}

/* A merge of values of any type that it is good for; sometimes its narrow partials travel in f32, and sometimes the
 * result is of another type. */
static inline void random_typed_merge(problem *q, int kind)
{
    static const merge_kind sums[] = {MERGE_SUM, MERGE_MAX, MERGE_MIN}, exps[] = {MERGE_SOFTMAX, MERGE_LOGSUMEXP, MERGE_WELFORD};
    static const ein_dtype floats[] = {EIN_F32, EIN_F64, EIN_BF16, EIN_F16}, all[] = {EIN_F32, EIN_F64, EIN_BF16, EIN_F16,
                                       EIN_I8, EIN_I32, EIN_I64, EIN_BOOL}, indices[] = {EIN_I32, EIN_I64};
    exchange_problem *p = &q->p;
    if (kind == 1) {
        take_merge(q, sums[pick_int(q, 0, 2)], 1, all[pick_int(q, 0, 6)]);
    } else if (kind == 2) {
        take_merge(q, MERGE_MAX, 1, EIN_BOOL);
    } else if (kind == 3) {
        take_merge(q, pick_int(q, 0, 1) == 0 ? MERGE_ARGMAX : MERGE_ARGMIN, 1, all[pick_int(q, 0, 7)]);
        p->dtype = indices[pick_int(q, 0, 1)];
    } else {
        take_merge(q, exps[pick_int(q, 0, 2)], 1, floats[pick_int(q, 0, 3)]);
        p->result = pick_int(q, 0, p->merge->n_results - 1);
    }
    merge *m = (merge *)(uintptr_t)p->merge; /* made just now */
    for (int s = 0; s < m->n_states && pick_int(q, 0, 2) == 0; s++)
        if (m->wire[s] == EIN_BF16 || m->wire[s] == EIN_F16) m->wire[s] = EIN_F32;
    if (ein__dtype_is_float(p->dtype) && pick_int(q, 0, 3) == 0) p->dtype = floats[pick_int(q, 0, 3)];
}

static inline void random_merge(problem *q, int kind)
{
    static const merge_kind kinds[] = {MERGE_SUM, MERGE_MAX, MERGE_SOFTMAX, MERGE_SOFTMAX};
    static const ein_dtype all[] = {EIN_F32, EIN_F64, EIN_BF16, EIN_F16, EIN_I8, EIN_I32, EIN_I64, EIN_BOOL};
    q->p.n_states = 1;
    q->p.dtype = q->typed && kind == 0 ? all[pick_int(q, 0, 7)] : EIN_F32;
    if (kind > 0 && q->typed) random_typed_merge(q, kind);
    else if (kind > 0) take_merge(q, kinds[kind - 1], kind == 1 ? 0.25 : 1, EIN_F32);
}

static inline void random_states(problem *q, const int *factors, int n, bool host)
{
    exchange_problem *p = &q->p;
    relation whole;
    int kind = host ? 0 : pick_int(q, 0, 4);
    group_axes(q, factors, n, false, &whole);
    whole.n_partials = kind == 0 ? 1 : pick_int(q, 1, 4);
    whole.devices = place_blocks(q, whole.n_blocks * whole.n_partials, p->n_devices, 1, 3);
    if (host) {
        devset *where = place_blocks(q, whole.n_blocks, 1, 0, 0);
        for (int b = 0; b < whole.n_blocks; b++) where[b] = DEV(HOST);
        whole.devices = where;
    }
    random_merge(q, kind);
    p->used = ein__merge_used(p->merge, p->result, whole.n_partials > 1);
    uint32_t lacks = (uint32_t)pick_int(q, 0, 1) << (whole.n_axes - 1) | (uint32_t)pick_int(q, 0, 1);
    for (int s = 0; s < p->n_states; s++) {
        lacking_state(q, &whole, s + 1 < p->n_states ? lacks : 0, &q->states[s]);
        assert_int_equal(ein__relation_canonical(&q->a, &q->states[s]), EIN_OK);
        p->states[s] = &q->states[s];
    }
}

static inline void draw_problem(problem *q, uint64_t seed, bool wide, bool typed)
{
    memset(q, 0, sizeof *q);
    q->typed = typed;
    q->seed = seed * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < 4; i++) random_bits(q);
    exchange_problem *p = &q->p;
    int n = pick_int(q, 1, wide ? 3 : 4), factors[4];
    for (int i = 0; i < n; i++) factors[i] = pick_int(q, 1, 6);
    if (wide) factors[n - 1] = pick_int(q, 3, 40) * (n == 1 ? 100 : 4);
    p->n_devices = pick_int(q, 1, 9);
    random_states(q, factors, n, pick_int(q, 0, 7) == 0);
    group_axes(q, factors, n, true, &q->to);
    devset *where = place_blocks(q, q->to.n_blocks, p->n_devices, 0, 4);
    for (int b = 0; b < q->to.n_blocks; b++)
        if (pick_int(q, 0, 5) == 0) where[b] |= DEV(HOST);
    q->to.devices = where;
    assert_int_equal(ein__relation_canonical(&q->a, &q->to), EIN_OK);
    p->to = &q->to;
}

/* Small enough for the naive definitions below. `wide`: rows of more than one piece, fewer cases of the
 * rest. */
static inline void random_problem(problem *q, uint64_t seed, bool wide) { draw_problem(q, seed, wide, false); }

/* Extents and even parts of each axis; blocks dealt to devices in turn. */
static inline void even_relation(arena *a, int n, const i64 *extents, const int *parts, int n_partials, relation *r)
{
    memset(r, 0, sizeof *r);
    r->n_axes = n;
    r->n_blocks = 1;
    r->n_partials = n_partials;
    for (int i = 0; i < n; i++) {
        i64 *at = ein__arena_get(a, (size_t)parts[i] + 1, sizeof *at);
        assert_non_null(at);
        for (int k = 0; k <= parts[i]; k++) at[k] = extents[i] * k / parts[i];
        r->axes[i] = (axis){.extent = extents[i], .n_parts = parts[i], .lo = at, .hi = at + 1};
        r->n_blocks *= parts[i];
    }
    devset *where = ein__arena_get(a, (size_t)(r->n_blocks * n_partials), sizeof *where);
    assert_non_null(where);
    for (int i = 0; i < r->n_blocks * n_partials; i++) where[i] = DEV(i);
    r->devices = where;
}

/* ---- exchanges ---------------------------------------------------------------------------------------- */

static inline const routes *routes_of(arena *a, const char *machine_name)
{
    machine *m = ein__arena_get(a, 1, sizeof *m);
    const routes *r;
    error e = {0};
    assert_non_null(m);
    if (ein__machine_parse(a, machine_name, m, &e) != EIN_OK) fail_msg("%s", e.line);
    assert_int_equal(ein__routes_make(a, m, &r), EIN_OK);
    return r;
}

/* On a machine where everybody reaches everybody. */
static inline const routes *flat_routes(problem *q)
{
    char name[16];
    snprintf(name, sizeof name, "host:%d", q->p.n_devices);
    return routes_of(&q->a, name);
}

static inline ein_status make_direct(problem *q, exchange *x, error *e)
{
    return ein__exchange_family(&q->a, &q->p, flat_routes(q), "direct", x, e);
}

/* ---- meaning ------------------------------------------------------------------------------------------ */

/* Element of the index space that element `i` of a block is (coordinate 0 of broadcast axes). */
static inline i64 global_index(const relation *r, int block, i64 i)
{
    i64 outer = 1, g = 0;
    for (int k = r->n_axes - 1; k >= 0; k--) {
        const axis *x = &r->axes[k];
        int part = ein__block_part(r, block, k);
        if (!x->broadcast) {
            i64 len = x->hi[part] - x->lo[part];
            g += (x->lo[part] + i % len) * outer;
            i /= len;
        }
        outer *= x->extent;
    }
    return g;
}

/* Element g without its coordinates along broadcast axes. */
static inline i64 project(const relation *r, i64 g)
{
    i64 outer = 1, kept = 0;
    for (int k = r->n_axes - 1; k >= 0; k--) {
        if (!r->axes[k].broadcast) kept += g / outer % r->axes[k].extent * outer;
        outer *= r->axes[k].extent;
    }
    return kept;
}

/* Integers are few, so that an argmax has ties; sums and products of all of them fit their types. Floats are exact in
 * every type. */
static inline double value_of(ein_dtype d, uint64_t h)
{
    if (d == EIN_BOOL) return (double)(h >> 33 & 1);
    return ein__dtype_is_float(d) ? (double)((h >> 33) % 64) / 8 - 3 : (double)((h >> 33) % 24) - 8;
}

/* What partial j of state s is at element g of the whole. */
static inline double value_at(const exchange_problem *p, int s, int j, i64 g)
{
    uint64_t h = (uint64_t)(project(p->states[s], g) * 8 + j) * 4 + (uint64_t)s;
    h = (h + 1) * 0x9e3779b97f4a7c15u;
    double v = value_of(ein__exchange_stored(p, s), h);
    bool positive = p->merge != NULL && p->n_states > 1 && ein__dtype_is_float(p->merge->wire[s]) &&
                    (s == 1 || strcmp(p->merge->name, "welford") == 0);
    return positive ? v + 3.5 : v;
}

/* In the type that it is computed in, each step rounded once. */
static inline double evaluate(const expr *x, const double *args, int n, ein_dtype type)
{
    float narrow[2 * MAX_STATES];
    if (type != EIN_F32) return ein__expr_eval(x, args);
    for (int i = 0; i < n; i++) narrow[i] = (float)args[i];
    return (double)ein__expr_eval_f32(x, narrow);
}

static inline double rounded(ein_dtype d, double x)
{
    char bytes[8];
    ein__dtype_write(d, x, bytes);
    return ein__dtype_read(d, bytes);
}

/* The value that partials give; partial(user, s, j) is partial j of state s. */
static inline double merge_partials(const exchange_problem *p, int n_partials, double (*partial)(void *user, int s, int j),
                                    void *user)
{
    double a[2 * MAX_STATES] = {0}, c[MAX_STATES] = {0};
    if (p->merge == NULL) return partial(user, 0, 0);
    for (int j = 0; j < n_partials; j++) {
        for (int s = 0; s < p->n_states; s++)
            if ((p->used >> s & 1) != 0) a[p->n_states + s] = c[s] = partial(user, s, j);
        for (int s = 0; s < p->n_states && j > 0; s++)
            if ((p->used >> s & 1) != 0)
                c[s] = evaluate(&p->merge->combine[s], a, 2 * p->n_states, p->merge->compute[s]);
        memcpy(a, c, sizeof c[0] * (size_t)p->n_states);
    }
    const expr *last = &p->merge->finalize[p->result];
    double v = last->n > 0 ? evaluate(last, a, p->n_states, ein__dtype_compute(p->dtype)) : a[p->result];
    return rounded(p->dtype, v);
}

typedef struct element { const exchange_problem *p; i64 at; } element;

static inline double partial_of_element(void *user, int s, int j)
{
    const element *e = user;
    return value_at(e->p, s, j, e->at);
}

static inline double expected(const exchange_problem *p, i64 g)
{
    element e = {p, g};
    return merge_partials(p, p->states[__builtin_ctz(p->used)]->n_partials, partial_of_element, &e);
}

/* How far from expected a result may be: nothing where all is exact, else what the functions of the type may be off,
 * and a step of the result's type. */
static inline double tolerance_of(const exchange_problem *p)
{
    static const char *const exact[] = {"sum", "max", "min", "argmax", "argmin"};
    for (size_t i = 0; p->merge != NULL && i < sizeof exact / sizeof *exact; i++)
        if (strcmp(p->merge->name, exact[i]) == 0) return 0;
    if (p->merge == NULL || !ein__dtype_is_float(p->dtype)) return 0;
    double step = p->dtype == EIN_BF16 ? 0x1p-7 : p->dtype == EIN_F16 ? 0x1p-10 : 0;
    return step + (p->merge->compute[0] == EIN_F64 && p->dtype == EIN_F64 ? 1e-13 : 1e-5);
}

/* ---- memory ------------------------------------------------------------------------------------------- */

/* A copy of a block in somebody's memory. side 0: the destination; 1 + s: state s; -1: scratch `block`. */
typedef struct kept { int side, block, partial, device; ein_dtype dtype; char *at; i64 numel; } kept;

typedef struct cluster {
    char *memory[MEMORIES];
    i64 used[MEMORIES];
    kept blocks[MAX_KEPT];
    int n;
} cluster;

static inline int memory_of(int device) { return device == HOST ? MAX_DEVICES : device; }

static inline double kept_get(const kept *k, i64 i)
{
    return ein__dtype_read(k->dtype, k->at + i * ein__dtype_bytes(k->dtype));
}

static inline void kept_set(const kept *k, i64 i, double x)
{
    ein__dtype_write(k->dtype, x, k->at + i * ein__dtype_bytes(k->dtype));
}

/* Blocks begin at multiples of 16 bytes, or of an element for the host's, as programs hand them in. */
static inline const kept *keep(cluster *c, kept k)
{
    int m = memory_of(k.device);
    i64 bytes = ein__dtype_bytes(k.dtype), align = k.device == HOST ? bytes : 16;
    i64 at = (c->used[m] + (k.device == HOST ? bytes : 0) + align - 1) / align * align;
    assert_true(c->n < MAX_KEPT && at + k.numel * bytes <= MEMORY);
    c->used[m] = at + k.numel * bytes;
    k.at = c->memory[m] + at;
    c->blocks[c->n++] = k;
    return &c->blocks[c->n - 1];
}

static inline const kept *find_kept(const cluster *c, int side, int block, int partial, int device)
{
    for (int i = 0; i < c->n; i++) {
        const kept *k = &c->blocks[i];
        if (k->side == side && k->block == block && k->partial == partial && k->device == device) return k;
    }
    return NULL;
}

/* Destinations hold what no result is. */
static inline double canary(ein_dtype d) { return d == EIN_BOOL ? 0 : -77; }

static inline void fill_cluster(cluster *c, const exchange_problem *p)
{
    c->n = 0;
    memset(c->used, 0, sizeof c->used);
    for (int side = 0; side <= p->n_states; side++) {
        const relation *r = side == 0 ? p->to : p->states[side - 1];
        if (side > 0 && (p->used >> (side - 1) & 1) == 0) continue;
        for (int b = 0; b < r->n_blocks * r->n_partials; b++)
            for (int d = 0; d <= HOST; d++) {
                if ((r->devices[b] & DEV(d)) == 0) continue;
                ein_dtype dtype = side == 0 ? p->dtype : ein__exchange_stored(p, side - 1);
                const kept *k = keep(c, (kept){side, b / r->n_partials, b % r->n_partials, d, dtype, NULL,
                                               ein__block_numel(r, b / r->n_partials)});
                for (i64 i = 0; i < k->numel; i++)
                    kept_set(k, i, side == 0 ? canary(dtype)
                                             : value_at(p, side - 1, k->partial, global_index(r, k->block, i)));
            }
    }
}

static inline void make_cluster(cluster **c)
{
    *c = ein__calloc(1, sizeof **c);
    char *all = ein__aligned(64, (size_t)MEMORY * MEMORIES);
    assert_true(*c != NULL && all != NULL);
    for (int i = 0; i < MEMORIES; i++) (*c)->memory[i] = all + (i64)i * MEMORY;
}

static inline void free_cluster(cluster *c)
{
    ein__free(c->memory[0]);
    ein__free(c);
}

/* ---- execution, element by element -------------------------------------------------------------------- */

static inline void fill_scratch(cluster *c, const exchange_problem *p, const exchange *x)
{
    for (int i = 0; i < x->n_scratch; i++) {
        const scratch *s = &x->scratch[i];
        ein_dtype dtype = s->src_block < 0 ? p->dtype : ein__exchange_stored(p, x->state);
        const kept *k = keep(c, (kept){-1, i, 0, s->device, dtype, NULL, s->n});
        for (i64 at = 0; at < s->n; at++) kept_set(k, at, canary(dtype));
    }
}

/* A point of a transfer's box. */
typedef struct point { const exchange_problem *p; const exchange *x; const cluster *c; const transfer *t; const i64 *at; } point;

static inline i64 address_at(const point *k, i64 offset, const i64 *stride)
{
    for (int d = 0; d < k->t->rank; d++) offset += k->at[d] * stride[d];
    return offset;
}

/* What source j has there, of state s. */
static inline double source_at(void *user, int s, int j)
{
    const point *k = user;
    const transfer *t = k->t;
    const source *from = &t->sources[j];
    i64 at = t->kind == TRANSFER_COPY ? address_at(k, t->dst_offset, t->dst_stride)
                                      : address_at(k, t->src_offset[s], t->src_stride[s]);
    const kept *b = from->scratch >= 0        ? find_kept(k->c, -1, from->scratch, 0, from->device)
                    : t->kind == TRANSFER_COPY ? find_kept(k->c, 0, t->dst_block, 0, from->device)
                                               : find_kept(k->c, 1 + s, t->src_block[s], from->partial, from->device);
    assert_non_null(b);
    if (from->scratch >= 0) at -= k->x->scratch[from->scratch].lo;
    assert_in_range(at, 0, b->numel - 1);
    return kept_get(b, at);
}

static inline double value_of_point(point *k)
{
    const exchange_problem *p = k->p;
    int s = k->x->state;
    if (k->t->kind == TRANSFER_COPY) return source_at(k, 0, 0);
    if (k->t->kind == TRANSFER_FINISH) return merge_partials(p, k->t->n_sources, source_at, k);
    double a[2 * MAX_STATES] = {0};
    a[s] = source_at(k, s, 0);
    for (int j = 1; j < k->t->n_sources; j++) {
        a[p->n_states + s] = source_at(k, s, j);
        a[s] = evaluate(&p->merge->combine[s], a, 2 * p->n_states, p->merge->compute[s]);
    }
    return rounded(ein__exchange_stored(p, s), a[s]);
}

static inline void run_transfer(const exchange_problem *p, const exchange *x, const cluster *c, const transfer *t)
{
    i64 at[MAX_BOX_RANK] = {0};
    point k = {p, x, c, t, at};
    const kept *to = t->dst_scratch >= 0 ? find_kept(c, -1, t->dst_scratch, 0, t->dst_device)
                                         : find_kept(c, 0, t->dst_block, 0, t->dst_device);
    assert_non_null(to);
    for (int d = 0; d >= 0;) {
        i64 i = t->kind == TRANSFER_COMBINE ? address_at(&k, t->src_offset[x->state], t->src_stride[x->state])
                                            : address_at(&k, t->dst_offset, t->dst_stride);
        if (t->dst_scratch >= 0) i -= x->scratch[t->dst_scratch].lo;
        assert_in_range(i, 0, to->numel - 1);
        assert_true(kept_get(to, i) == canary(to->dtype)); /* written once */
        kept_set(to, i, value_of_point(&k));
        for (d = t->rank - 1; d >= 0 && ++at[d] == t->size[d]; d--) at[d] = 0;
    }
}

/* Every needed element of every copy. */
static inline void check_results(const cluster *c, const exchange_problem *p, double tolerance, uint64_t seed)
{
    for (int i = 0; i < c->n; i++) {
        const kept *k = &c->blocks[i];
        for (i64 at = 0; k->side == 0 && at < k->numel; at++) {
            double want = expected(p, global_index(p->to, k->block, at)), got = kept_get(k, at);
            double off = got > want ? got - want : want - got;
            if (!(off <= tolerance * (1 + (want < 0 ? -want : want))))
                fail_msg("seed %llu: %s of %s: device %d block %d element %lld: %g, wanted %g", (unsigned long long)seed,
                         p->merge != NULL ? p->merge->name : "copy", ein__dtype_name(p->dtype), k->device, k->block,
                         (long long)at, got, want);
        }
    }
}

#endif
