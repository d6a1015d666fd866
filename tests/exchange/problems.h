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

/* MEMORY: floats of a device; the last of the memories is HOST's. */
enum { MEMORY = 1 << 17, MEMORIES = MAX_DEVICES + 1, MAX_KEPT = 4096 };

typedef struct problem {
    arena a;
    exchange_problem p;
    relation states[MAX_STATES], to;
    uint64_t seed;
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
    p->n_states = 1;
    if (kind > 0) {
        merge *m;
        merge_kind kinds[] = {MERGE_SUM, MERGE_MAX, MERGE_SOFTMAX, MERGE_SOFTMAX};
        assert_int_equal(ein__merge_make(&q->a, kinds[kind - 1], kind == 1 ? 0.25 : 1, &m), EIN_OK);
        p->merge = m;
        p->n_states = m->n_states;
    }
    p->used = ein__merge_used(p->merge, 0, whole.n_partials > 1);
    uint32_t lacks = (uint32_t)pick_int(q, 0, 1) << (whole.n_axes - 1) | (uint32_t)pick_int(q, 0, 1);
    for (int s = 0; s < p->n_states; s++) {
        lacking_state(q, &whole, s + 1 < p->n_states ? lacks : 0, &q->states[s]);
        assert_int_equal(ein__relation_canonical(&q->a, &q->states[s]), EIN_OK);
        p->states[s] = &q->states[s];
    }
}

/* Small enough for the naive definitions below. `wide`: rows of more than one piece, fewer cases of the
 * rest. */
static inline void random_problem(problem *q, uint64_t seed, bool wide)
{
    memset(q, 0, sizeof *q);
    q->seed = seed * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < 4; i++) random_bits(q);
    exchange_problem *p = &q->p;
    int n = pick_int(q, 1, wide ? 3 : 4), factors[4];
    for (int i = 0; i < n; i++) factors[i] = pick_int(q, 1, 6);
    if (wide) factors[n - 1] = pick_int(q, 3, 40) * (n == 1 ? 100 : 4);
    p->n_devices = pick_int(q, 1, 9);
    p->dtype = EIN_F32;
    random_states(q, factors, n, pick_int(q, 0, 7) == 0);
    group_axes(q, factors, n, true, &q->to);
    devset *where = place_blocks(q, q->to.n_blocks, p->n_devices, 0, 4);
    for (int b = 0; b < q->to.n_blocks; b++)
        if (pick_int(q, 0, 5) == 0) where[b] |= DEV(HOST);
    q->to.devices = where;
    assert_int_equal(ein__relation_canonical(&q->a, &q->to), EIN_OK);
    p->to = &q->to;
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

/* What partial j of state s is at element g of the whole. */
static inline float value_at(const exchange_problem *p, int s, int j, i64 g)
{
    uint64_t h = (uint64_t)(project(p->states[s], g) * 8 + j) * 4 + (uint64_t)s;
    h = (h + 1) * 0x9e3779b97f4a7c15u;
    float v = (float)((h >> 33) % 64) / 8.0f - 3.0f;
    return p->n_states == 3 && s == 1 ? v + 3.5f : v;
}

static inline float expected(const exchange_problem *p, i64 g)
{
    float a[2 * MAX_STATES] = {0}, c[MAX_STATES] = {0};
    int first = __builtin_ctz(p->used);
    if (p->merge == NULL) return value_at(p, 0, 0, g);
    for (int j = 0; j < p->states[first]->n_partials; j++) {
        for (int s = 0; s < p->n_states; s++)
            if ((p->used >> s & 1) != 0) a[p->n_states + s] = c[s] = value_at(p, s, j, g);
        for (int s = 0; s < p->n_states && j > 0; s++)
            if ((p->used >> s & 1) != 0) c[s] = ein__expr_eval_f32(&p->merge->combine[s], a);
        memcpy(a, c, sizeof c[0] * (size_t)p->n_states);
    }
    const expr *last = &p->merge->finalize[p->result];
    return last->n > 0 ? ein__expr_eval_f32(last, a) : a[p->result];
}

/* ---- memory ------------------------------------------------------------------------------------------- */

/* A copy of a block in somebody's memory. side 0: the destination; 1 + s: state s. */
typedef struct kept { int side, block, partial, device; float *at; i64 numel; } kept;

typedef struct cluster {
    float *memory[MEMORIES];
    i64 used[MEMORIES];
    kept blocks[MAX_KEPT];
    int n;
} cluster;

static inline int memory_of(int device) { return device == HOST ? MAX_DEVICES : device; }

/* Blocks begin at multiples of 16 bytes, or of 4 for the host's, as programs hand them in. */
static inline float *keep(cluster *c, int side, int block, int partial, int device, i64 numel)
{
    int m = memory_of(device);
    i64 at = device == HOST ? c->used[m] + 1 : (c->used[m] + 3) / 4 * 4;
    assert_true(c->n < MAX_KEPT && at + numel <= MEMORY);
    c->used[m] = at + numel;
    c->blocks[c->n++] = (kept){side, block, partial, device, c->memory[m] + at, numel};
    return c->memory[m] + at;
}

static inline const kept *find_kept(const cluster *c, int side, int block, int partial, int device)
{
    for (int i = 0; i < c->n; i++) {
        const kept *k = &c->blocks[i];
        if (k->side == side && k->block == block && k->partial == partial && k->device == device) return k;
    }
    return NULL;
}

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
                i64 n = ein__block_numel(r, b / r->n_partials);
                float *at = keep(c, side, b / r->n_partials, b % r->n_partials, d, n);
                for (i64 i = 0; i < n; i++)
                    at[i] = side == 0 ? -77.0f
                                      : value_at(p, side - 1, b % r->n_partials,
                                                 global_index(r, b / r->n_partials, i));
            }
    }
}

static inline void make_cluster(cluster **c)
{
    *c = ein__calloc(1, sizeof **c);
    float *all = ein__aligned(64, sizeof(float) * MEMORY * MEMORIES);
    assert_true(*c != NULL && all != NULL);
    for (int i = 0; i < MEMORIES; i++) (*c)->memory[i] = all + (i64)i * MEMORY;
}

static inline void free_cluster(cluster *c)
{
    ein__free(c->memory[0]);
    ein__free(c);
}

/* Every needed element of every copy. */
static inline void check_results(const cluster *c, const exchange_problem *p, double tolerance, uint64_t seed)
{
    for (int i = 0; i < c->n; i++) {
        const kept *k = &c->blocks[i];
        for (i64 at = 0; k->side == 0 && at < k->numel; at++) {
            double want = (double)expected(p, global_index(p->to, k->block, at)), got = (double)k->at[at];
            double off = got > want ? got - want : want - got;
            if (!(off <= tolerance * (1 + (want < 0 ? -want : want))))
                fail_msg("seed %llu: device %d block %d element %lld: %g, wanted %g",
                         (unsigned long long)seed, k->device, k->block, (long long)at, got, want);
        }
    }
}

#endif
