/* SPDX-License-Identifier: Apache-2.0 */
/* What families plan: trees along which shares of the classes go. Boxes, steps and scratch follow from them. */
#ifndef EXCHANGE_SCHEDULE_H
#define EXCHANGE_SCHEDULE_H

#include "exchange/demand.h"
#include "exchange/routes.h"

/* How a share of a class goes: partials up to the device that finishes them, finished copies down from it. */
typedef struct tree {
    int class;
    int first, n, of;    /* shares [first, first + n) of `of` equal ones of every box of the class; `of` is one
                            number in all trees of a class that have a destination in common */
    int combiner;        /* finishes; -1: a replica */
    int n_partials;      /* of the class */
    bool star;           /* the combiner reads every partial where it is; else along `up` */
    const signed char *holder;     /* per partial: the device whose copy is read, or HOST */
    signed char up[MAX_DEVICES];   /* the device that pulls what this one has combined; -1: nobody */
    signed char from[MAX_DEVICES]; /* the device whose copy this one pulls: finished, or a holder's of a replica;
                                      -1: this one gets none, or is the combiner */
} tree;

typedef struct schedule {
    struct { int n, room; tree *items; } trees;
    int n_chunks; /* every share goes in as many pieces, one step behind the other */
    int depth;    /* steps of one piece */
    int room;     /* no piece takes more; 0: EIN__STEPS */
    double bandwidth, seconds;
} schedule;

/* Two steps, each of which may go by way of the process's memory. */
enum { SHALLOW = 4 };

tree ein__tree(const demand *d, int class);
/* May `reader` read partials, or what is finished, where `owner` has them? Else they go by way of the process's memory,
 * but for partials that cannot be stored there: those are planned as though they could be read. */
static inline bool ein__addresses(const demand *d, const routes *r, int owner, int reader, bool finished)
{
    return owner == HOST || (r->peers[owner] & DEV(reader)) != 0 || (!finished && !d->storable);
}
ein_status ein__tree_add(arena *a, schedule *s, const tree *t);
/* Class `c` as in the direct family; `served` counts bytes by device. */
ein_status ein__direct_class(arena *a, const demand *d, int c, double *served, schedule *s);
/* Each device of `by` finishes a share of the class, which all other destinations copy from it. */
ein_status ein__finish_in_shares(arena *a, const demand *d, int c, devset by, double *served, schedule *s);
/* The combiner reads every partial where it is, its own copies first. */
ein_status ein__star(arena *a, const demand *d, tree *t, double *served);

/* Chooses n_chunks; depth, bandwidth and seconds follow from the classes' bytes alone. */
ein_status ein__schedule_chunk(arena *scratch, const demand *d, const routes *r, schedule *s);

/* The remote bytes of the exchange that a schedule is, without making it. Not for states that are read once a row, nor
 * where HOST is a destination. */
i64 ein__schedule_bytes(const demand *d, const routes *r, const schedule *s);
/* Elements of a box that shares [first, end) of `of` are. */
i64 ein__share_volume(const demand *d, int box, i64 first, i64 end, i64 of);

/* The exchange that a schedule is. */
ein_status ein__schedule_expand(arena *a, const demand *d, const routes *r, const schedule *s, exchange *out);

/* A family. `plan` sets *applicable and fills schedules that differ in depth or otherwise; the least is taken. */
enum { MAX_SCHEDULES = 5 };
typedef struct family {
    const char *name;
    bool executed; /* by the kernels that there are; else only planned and priced */
    ein_status (*plan)(arena *a, const demand *d, const routes *r, schedule out[MAX_SCHEDULES], int *n);
} family;

extern const family ein__family_direct, ein__family_two_shot, ein__family_spread, ein__family_ring, ein__family_trees;
extern const family *const ein__families[]; /* direct first, then NULL last; of equals the first is taken */

/* Seconds below which no exchange of this demand can stay, latencies aside: for every set of devices, the bytes that
 * must leave it over what it can send; for partials that their own holders need finished, twice the time of gathering
 * them. Not `all`: the routes' few cuts only. */
ein_status ein__demand_bound(arena *scratch, const demand *d, const routes *r, bool all, double *out);

#endif
