/* SPDX-License-Identifier: Apache-2.0 */
/* What things cost, each asked of the cost model once. */
#ifndef OPTIMIZER_PRICE_H
#define OPTIMIZER_PRICE_H

#include "optimizer/choices.h"
#include "optimizer/optimizer.h"
#include "optimizer/pool.h"

/* One way to run a node. */
typedef struct option {
    choice choice;
    double seconds; /* of the busiest device, exchanges of statistics included */
    i64 bytes;
    int *needs;     /* relation per operand */
    int results[MAX_RESULTS]; /* placed */
} option;

typedef struct option_list {
    int n;
    option *items;
    int n_simple, n_medium; /* the first ones: those of simple and of medium choices */
} option_list;

/* Moving a value: what it costs, and the relation that is there afterwards. */
typedef struct move { double seconds; i64 bytes; int to; } move;

/* Getting an operand to where an option needs it. */
typedef struct fetch { double seconds; i64 bytes; int list; } fetch;

/* Devices that see all that they need in a relation. */
typedef struct seen {
    devset devices;
    bool single; /* no device needs more than one box: what two relations show is what either does */
} seen;

typedef struct prices {
    arena *a;
    const graph *g;
    const cost_model *model;
    int n_devices;
    pool pool;
    const int *alike;     /* per node: the first node with the same spec, types and units; NULL: not known */
    const int *classes;   /* per device: the first that it may change places with; NULL: not known, all are priced */
    idmap moves_known, fetches_known, seen_known, lacks_known, exchanges_known;
    struct { int n, room; move *items; } moves, exchanges;
    struct { int n, room; fetch *items; } fetches;
    struct { int n, room; seen *items; } seen;
} prices;

/* All else of an option, of its choice; negative seconds: it cannot be lowered. */
ein_status ein__price_option(prices *p, const node *n, option *o);
/* All options of a node. `fixed`: where the state of an append lies already, or NULL. */
ein_status ein__price_options(prices *p, int node, const i64 *units, const relation *fixed, option_list *out,
                              error *e);
/* Devices that may change places on a machine, each by the first of them. */
void ein__device_classes(const machine *m, int of[MAX_DEVICES]);
/* Exchanges with the same key are the same but for which device of a class does what. */
hash128 ein__exchange_key(const prices *p, int placed, ein_dtype dtype, int to);
/* From a placed value to a relation; infinite seconds: there is no way. */
ein_status ein__price_move(prices *p, int placed, ein_dtype dtype, int to, move *out);
/* The operand's need `relation` out of what is in `list`: nothing, or one exchange more in the list. */
ein_status ein__price_fetch(prices *p, int node, int operand, const choice *c, int relation, int list,
                            fetch *out);
/* Which devices see all that they need, of those of the need, in one finished placed value; -1: in nothing. */
ein_status ein__price_seen(prices *p, int node, int operand, const choice *c, int need, int placed, seen *out);
/* Least cost of finishing the value: 0, or the cheaper of two ways (whole everywhere, even parts). */
ein_status ein__price_finish(prices *p, int list, ein_dtype dtype, double *seconds);
/* The tensor in equal runs of elements, one per device (fewer if it is small). */
ein_status ein__even_relation(arena *a, i64 numel, int n_devices, relation *out);

#endif
