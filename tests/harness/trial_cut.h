/* SPDX-License-Identifier: Apache-2.0 */
/* One graph under several plans: the search's on one device, random ones on more, and the search's there. */
#ifndef TESTS_HARNESS_TRIAL_CUT_H
#define TESTS_HARNESS_TRIAL_CUT_H

#include "tests/harness/trial.h"

/* Every run is as good as the reference, moves the bytes that were predicted, and repeats. Outputs of the run on one
 * device, as trial_outputs gives them; free it. */
void *trial_cut(const trial *t, int devices, int n_plans, uint64_t seed);

#endif
