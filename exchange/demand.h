/* SPDX-License-Identifier: Apache-2.0 */
/* What has to move: boxes without devices, grouped into classes that families plan as one. */
#ifndef EXCHANGE_DEMAND_H
#define EXCHANGE_DEMAND_H

#include "exchange/exchange.h"

/* All boxes with the same holders of every partial and the same destinations. */
typedef struct demand_class {
    int n_partials;        /* 1: a replica; any holder has all of it */
    const devset *holders; /* per partial: devices, or HOST alone where no device has it */
    devset to;             /* devices that need it finished */
    i64 elements;
    double partial_bytes;  /* that reading one partial touches, and one finished copy */
    double finished_bytes;
    int first, n;          /* its boxes in `order` */
} demand_class;

typedef struct demand {
    const exchange_problem *p;
    int n_boxes;
    transfer *boxes;       /* by destination block; without devices and sources. A dimension is a factor, so that
                              a box may be cut anywhere and stay one; but for: */
    bool *joined;          /* by box: it may not be cut */
    int *order;            /* the boxes by class */
    int n_classes;
    demand_class *classes;
    bool storable;         /* a partial may be stored by one launch: it has one state, all of its block */
    bool combines;         /* and partials may be combined in any order */
    uint32_t row_states;   /* as in exchange */
    bool unit_stride, unit_finished; /* innermost strides 1 when partials, when finished copies are read */
    bool incompatible;     /* the factorizations have no common refinement: nothing was made */
} demand;

/* Fails with EIN_INTERNAL if the problem contradicts itself, or a box has no holder. */
ein_status ein__demand_make(arena *a, const exchange_problem *p, demand *out, error *e);

/* Devices that hold a partial of this box; HOST if no device does. */
devset ein__box_holders(const exchange_problem *p, const transfer *box, int partial);
i64 ein__transfer_volume(const transfer *t);
/* Bytes that reading one source of the box touches. */
i64 ein__source_bytes(const exchange_problem *p, uint32_t row_states, const transfer *box);

#endif
