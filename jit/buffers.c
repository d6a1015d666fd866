/* SPDX-License-Identifier: Apache-2.0 */
/* Static memory: an offset for every buffer, so that buffers that are live at the same time never overlap.
 * Largest first, each at the lowest offset that is free for its lifetime (first fit by decreasing size). */
#include <stdlib.h>

#include "jit/lower.h"

enum { ALIGNMENT = 256 };

/* One place to assign: buffer `b`, its place `which` (0, or 1 for the second of an alternating pair). */
typedef struct slot { int b, which, first, last; i64 bytes, offset; } slot;

static int by_size(const void *x, const void *y)
{
    const slot *a = x, *b = y;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return a->b != b->b ? (a->b < b->b ? -1 : 1) : a->which - b->which;
}

static int by_offset(const void *x, const void *y)
{
    const slot *const *a = x, *const *b = y;
    return (*a)->offset < (*b)->offset ? -1 : (*a)->offset > (*b)->offset;
}

/* Lowest offset at which `s` fits between the placed slots that are live with it. */
static void place_slot(slot *s, slot *const *placed, int n, const slot **live)
{
    int m = 0;
    i64 at = 0;
    for (int i = 0; i < n; i++)
        if (placed[i]->first <= s->last && s->first <= placed[i]->last) live[m++] = placed[i];
    qsort(live, (size_t)m, sizeof *live, by_offset);
    for (int i = 0; i < m; i++) {
        if (live[i]->offset >= at + s->bytes) break;
        i64 end = live[i]->offset + live[i]->bytes;
        if (end > at) at = end;
    }
    s->offset = at;
}

/* A pair's places are live as long as any of its buffers. */
static void join_lifetimes(buffer *buffers, int n)
{
    for (int i = 0; i < n; i++) {
        if (buffers[i].pair < 0 || buffers[i].first < 0) continue;
        buffer *p = &buffers[buffers[i].pair];
        if (buffers[i].first < p->first || p->first < 0) p->first = buffers[i].first;
        if (buffers[i].last > p->last) p->last = buffers[i].last;
    }
}

ein_status ein__assign_buffers(arena *scratch, buffer *buffers, int n, i64 bytes_of_memory[EIN__MEMORIES])
{
    slot *slots, **placed;
    const slot **live;
    int n_slots = 0, n_placed[EIN__MEMORIES] = {0};
    NEW(scratch, slots, 2 * n);
    NEW(scratch, placed, (size_t)EIN__MEMORIES * 2 * (size_t)n);
    NEW(scratch, live, 2 * n);
    join_lifetimes(buffers, n);
    for (int i = 0; i < n; i++) {
        if (buffers[i].pair >= 0 || buffers[i].first < 0) continue; /* shares, or is never touched */
        i64 bytes = (buffers[i].bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        for (int k = 0; k < (buffers[i].loop >= 0 ? 2 : 1); k++)
            slots[n_slots++] = (slot){i, k, buffers[i].first, buffers[i].last, bytes, 0};
    }
    qsort(slots, (size_t)n_slots, sizeof *slots, by_size);
    for (int i = 0; i < n_slots; i++) {
        int d = buffers[slots[i].b].device + (buffers[slots[i].b].host ? MAX_DEVICES : 0);
        slot **mine = placed + (size_t)d * 2 * (size_t)n;
        place_slot(&slots[i], mine, n_placed[d], live);
        mine[n_placed[d]++] = &slots[i];
        i64 end = slots[i].offset + slots[i].bytes;
        if (end > bytes_of_memory[d]) bytes_of_memory[d] = end;
        buffers[slots[i].b].offset[slots[i].which] = slots[i].offset;
    }
    for (int i = 0; i < n; i++)
        if (buffers[i].pair >= 0)
            for (int k = 0; k < 2; k++) buffers[i].offset[k] = buffers[buffers[i].pair].offset[k];
    return EIN_OK;
}
