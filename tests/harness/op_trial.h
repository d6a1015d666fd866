/* SPDX-License-Identifier: Apache-2.0 */
/* Many small calls in one graph, with given numbers and expected ones: run as the search likes it on one device, and
 * on three under a random plan, whose cuts no search would make. Every result is compared with the expected numbers
 * and, as in trial.h, with the reference. */
#ifndef TESTS_HARNESS_OP_TRIAL_H
#define TESTS_HARNESS_OP_TRIAL_H

#include "tests/harness/trial.h"

enum { MAX_GIVEN = 128, MAX_EXPECTED = 512 };

typedef struct expected_numbers {
    const char *what; /* for messages */
    i64 n;
    double *numbers; /* NULL: the reference's only */
    ein_dtype dtype;
} expected_numbers;

typedef struct op_trial {
    ein_graph *g;
    int n_given, n_expected;
    struct { char name[12]; void *data; } given[MAX_GIVEN];
    expected_numbers expected[MAX_EXPECTED];
} op_trial;

#define NUMBERS(...) (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (const double[]){__VA_ARGS__}
#define DIMS(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__}

void op_trial_open(op_trial *t);
/* An input of these elements, rounded to its type. */
ein_tensor op_given(op_trial *t, ein_dtype dtype, int rank, const int64_t *shape, int n, const double *numbers);
/* An input of `n` elements that follow from `seed`: -4 .. 4 in steps of 1/4 (whole ones for integers). */
ein_tensor op_seeded(op_trial *t, ein_dtype dtype, int rank, const int64_t *shape, uint64_t seed);
/* The call succeeded, and its result has this type and these elements: to a few units in the last place for floats,
 * exactly for others; NaN is NaN. */
void op_expect(op_trial *t, const char *what, ein_tensor y, ein_dtype dtype, int n, const double *numbers);
/* The reference is enough. */
void op_output(op_trial *t, const char *what, ein_tensor y);
/* Runs under the search's plan and the random one of this seed, compares, and frees the graph. */
void op_trial_close(op_trial *t, uint64_t seed);

#endif
