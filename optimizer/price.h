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

typedef struct option_list { int n; option *items; } option_list;

/* Moving a value: what it costs, and the relation that is there afterwards. */
typedef struct move { double seconds; i64 bytes; int to; } move;

/* Getting an operand to where an option needs it. */
typedef struct fetch { double seconds; i64 bytes; int list; } fetch;

typedef struct prices {
    arena *a;
    const graph *g;
    const cost_model *model;
    int n_devices;
    pool pool;
    idmap moves_known, fetches_known;
    struct { int n, room; move *items; } moves;
    struct { int n, room; fetch *items; } fetches;
} prices;

/* All else of an option, of its choice; negative seconds: it cannot be lowered. */
ein_status ein__price_option(prices *p, const node *n, option *o);
/* All options of a node. `fixed`: where the state of an append lies already, or NULL. */
ein_status ein__price_options(prices *p, int node, const i64 *units, const relation *fixed, option_list *out,
                              error *e);
/* From a placed value to a relation; infinite seconds: there is no way. */
ein_status ein__price_move(prices *p, int placed, ein_dtype dtype, int to, move *out);
/* The operand's need `relation` out of what is in `list`: nothing, or one exchange more in the list. */
ein_status ein__price_fetch(prices *p, int node, int operand, const choice *c, int relation, int list,
                            fetch *out);
/* Least cost of finishing the value: 0, or the cheaper of two ways (whole everywhere, even parts). */
ein_status ein__price_finish(prices *p, int list, ein_dtype dtype, double *seconds);
/* The tensor in equal runs of elements, one per device (fewer if it is small). */
ein_status ein__even_relation(arena *a, i64 numel, int n_devices, relation *out);

#endif
