/* SPDX-License-Identifier: Apache-2.0 */
/* What a complete plan costs, whoever made it: the search's own costs, by lowering's rules, walked through once. */
#ifndef OPTIMIZER_PRICE_PLAN_H
#define OPTIMIZER_PRICE_PLAN_H

#include "optimizer/price.h"

/* Prices of one graph's plans on one machine. Costs that were asked for are kept, so that the next plan is cheap. */
typedef struct pricer {
    arena arena;
    prices prices;
} pricer;

/* Once, in picoseconds and bytes; it happens `times` times. */
typedef struct part_price {
    i64 compute, exchange; /* of the busiest device, statistics included; of its operands' fetches */
    i64 bytes;
    int times;
} part_price;

typedef struct plan_price {
    i64 picoseconds, bytes; /* in all */
    part_price *nodes;
    part_price ends; /* into carries and out of them, outputs; all of it, once */
} plan_price;

/* In place; `g` and `c` must live as long. */
void ein__pricer_init(pricer *k, const graph *g, int n_devices, const cost_model *c);
void ein__pricer_fini(pricer *k);

/* A plan that the verifier passed. Fails with EIN_NO_PLAN, naming the op, if it cannot be lowered. */
ein_status ein__price_plan(pricer *k, arena *a, const plan *p, plan_price *out, error *e);
/* Bytes of parameters and states, all members of a loop's, on each device. */
void ein__plan_resident(const graph *g, const plan *p, double bytes[MAX_DEVICES]);
/* On the fullest device, of those that count (ein__memory_room); and that of an equal share. */
double ein__plan_fullest(const graph *g, const plan *p);
double ein__plan_shares(const graph *g, const plan *p);

#endif
