/* SPDX-License-Identifier: Apache-2.0 */
/* Relations, placed values and lists of them, each made once and known by number, so that costs can be
 * remembered and partial plans compared by comparing integers. */
#ifndef OPTIMIZER_POOL_H
#define OPTIMIZER_POOL_H

#include "core/base/hash.h"
#include "core/plan/relation.h"

/* Hash -> number; a key that is new gets -1. */
typedef struct idmap {
    int n, room; /* room: a power of two, or 0 */
    struct idmap_slot { hash128 key; int value; bool full; } *slots;
} idmap;

/* `*value` stays good until the next call. */
ein_status ein__idmap_at(arena *a, idmap *m, hash128 key, int **value);

/* A value as it lies on the devices: one finished relation, or the states of a pending merge. */
typedef struct placed {
    const merge *merge; /* NULL: finished */
    int result;
    int n_states;
    uint32_t used;
    int states[MAX_STATES]; /* relations */
    bool complete;          /* finished, and every element is somewhere */
    hash128 merge_key;      /* zero: no merge; the pool fills it in */
} placed;

/* All that there is of a value: where it was made, then what was fetched. */
typedef struct placed_list {
    int before; /* list, or -1 */
    int last;   /* placed */
    int source; /* placed that exchanges start from: the first that is complete, else the first */
} placed_list;

typedef struct pool {
    arena *a;
    idmap ids;
    struct { int n, room; relation **items; } relations;
    struct { int n, room; struct pool_known { devset devices; int finished; hash128 shape; } *items; } known; /* per relation: all
                          its devices; it as a finished placed value, -1: not asked; all of it but where it lies */
    struct { int n, room; placed *items; } placed;
    struct { int n, room; placed_list *items; } lists;
    text key; /* scratch; ein__pool_free frees it */
} pool;

ein_status ein__pool_relation(pool *p, const relation *r, int *id);
ein_status ein__pool_placed(pool *p, const placed *x, int *id);
/* A finished relation as a placed value. */
ein_status ein__pool_finished(pool *p, const relation *r, int *id);
ein_status ein__pool_known_finished(pool *p, int relation_id, int *id);
/* List `before` (-1: none) and then `last`. */
ein_status ein__pool_list(pool *p, int before, int last, int *id);
void ein__pool_free(pool *p);

#endif
