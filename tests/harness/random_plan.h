/* SPDX-License-Identifier: Apache-2.0 */
/* Random legal plans: any cuts, anywhere. */
#ifndef TESTS_HARNESS_RANDOM_PLAN_H
#define TESTS_HARNESS_RANDOM_PLAN_H

#include "core/base/text.h"
#include "core/plan/plan.h"

/* Choices in a plan: one per node, leaf and carry, in this order. */
int plan_parts(const graph *g);

/* A plan for canonical graph `g`. Each part has a stream of its own, so that parts marked `plain` (per
 * plan_parts; NULL: none) become uncut copies on all devices and leave the others as they are. */
ein_status random_plan_make(arena *a, const graph *g, uint64_t seed, int n_devices, const bool *plain,
                            plan *out);
/* One for a user's graph, checked, as ein_compile takes it. */
ein_status random_plan_text(const ein_graph *user, uint64_t seed, int n_devices, text *json, error *e);

#endif
