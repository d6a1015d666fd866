/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that may change places. An exchange costs the same whichever of them plays which part, so that it is priced
 * once for all ways to deal the parts out. */
#include <stdlib.h>
#include <string.h>

#include "optimizer/price.h"

static int swapped(int v, int i, int j) { return v == i ? j : v == j ? i : v; }

static bool has_link(const machine *m, int from, int to, const machine_link *like)
{
    for (int k = 0; k < m->n_links; k++) {
        const machine_link *l = &m->links[k];
        if (l->from == from && l->to == to && l->bandwidth == like->bandwidth && l->latency == like->latency &&
            l->peer == like->peer)
            return true;
    }
    return false;
}

static bool interchangeable(const machine *m, int i, int j)
{
    const machine_device *x = &m->devices[i], *y = &m->devices[j];
    if (strcmp(x->architecture, y->architecture) != 0 || x->flops_f32 != y->flops_f32 || x->flops_f16 != y->flops_f16 ||
        x->memory_bandwidth != y->memory_bandwidth || x->memory_bytes != y->memory_bytes)
        return false;
    for (int k = 0; k < m->n_links; k++)
        if (!has_link(m, swapped(m->links[k].from, i, j), swapped(m->links[k].to, i, j), &m->links[k])) return false;
    return true;
}

void ein__device_classes(const machine *m, int of[MAX_DEVICES])
{
    for (int i = 0; i < m->n_devices; i++) {
        of[i] = i;
        for (int j = i - 1; j >= 0; j--)
            if (of[j] == j && interchangeable(m, i, j)) of[i] = j;
    }
}

/* ---- parts of an exchange ----------------------------------------------------------------------------- */

typedef struct part { int class; uint64_t role; } part;

static int by_class_and_role(const void *x, const void *y)
{
    const part *a = x, *b = y;
    if (a->class != b->class) return a->class - b->class;
    return a->role < b->role ? -1 : a->role > b->role;
}

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static void add_roles(const relation *r, uint64_t salt, uint64_t role[32])
{
    for (int i = 0; i < r->n_blocks * r->n_partials; i++)
        for (devset d = r->devices[i]; d != 0; d &= d - 1) {
            uint64_t *at = &role[__builtin_ctz(d)];
            *at = mix(*at, salt + (uint64_t)i);
        }
}

hash128 ein__exchange_key(const prices *p, int placed_id, ein_dtype dtype, int to)
{
    const placed *x = &p->pool.placed.items[placed_id];
    uint64_t role[32] = {0};
    struct { hash128 shapes[MAX_STATES + 1]; uint64_t host; int dtype, result, n_states; uint32_t used; hash128 merge;
             part parts[MAX_DEVICES]; } key;
    memset(&key, 0, sizeof key);
    for (int s = 0; s < x->n_states; s++) {
        key.shapes[s] = p->pool.known.items[x->states[s]].shape;
        add_roles(p->pool.relations.items[x->states[s]], (uint64_t)(s + 1) << 32, role);
    }
    key.shapes[x->n_states] = p->pool.known.items[to].shape;
    add_roles(p->pool.relations.items[to], (uint64_t)99 << 32, role);
    key.host = role[HOST];
    key.dtype = (int)dtype;
    key.result = x->result;
    key.n_states = x->n_states;
    key.used = x->used;
    key.merge = x->merge_key;
    for (int d = 0; d < p->n_devices; d++) key.parts[d] = (part){p->classes[d], role[d]};
    qsort(key.parts, (size_t)p->n_devices, sizeof *key.parts, by_class_and_role);
    return ein__hash(&key, sizeof key, 0);
}
