/* SPDX-License-Identifier: Apache-2.0 */
/* One graph under several plans: the search's on one device, random ones on more, and the search's there. */
#ifndef TESTS_HARNESS_TRIAL_CUT_H
#define TESTS_HARNESS_TRIAL_CUT_H

#include "tests/harness/trial.h"

/* Every run is as good as the reference, moves the bytes that were predicted, and repeats. Outputs of the run on one
 * device, as trial_outputs gives them; free it. */
void *trial_cut(const trial *t, int devices, int n_plans, uint64_t seed);

/* A plan for `g`: nodes of this name are cut as told, "t 0 9 20 s 0 5 12" is label t at 9 and s at 5, their tuples
 * going around the devices; all else is laid at random. Free it. */
char *forced_plan(const ein_graph *g, const char *name, const char *cuts, uint64_t seed, int devices);

#endif
