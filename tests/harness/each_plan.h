/* SPDX-License-Identifier: Apache-2.0 */
/* A small graph under all plans that cut each op along one label or two, or 20 seeded plans where those are more, and
 * the search's: what a test says by hand must come out of each. */
#ifndef TESTS_HARNESS_EACH_PLAN_H
#define TESTS_HARNESS_EACH_PLAN_H

#include "core/plan/plan.h"
#include "ein.h"

/* A leaf's data or an output's values, row-major. One value may stand for all of them. */
typedef struct numbers {
    const char *name;
    int n;
    const double *at;
} numbers;
#define NUMBERS(name, ...) \
    {(name), (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__}}
#define SHAPE(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}
#define NONE ((ein_tensor){0})

enum { MOST_PLANS = 20 };

typedef struct plan_case {
    const ein_graph *graph;
    const numbers *given, *wanted; /* each up to one without a name; all inputs, parameters and outputs are there */
    double tolerance;              /* times the wanted value, at least 1; 0: equal. NaN equals NaN */
    ein_dtype wire;
    bool forced_only; /* without the search's plan */
} plan_case;

/* Two axes of a device grid are two cuts; every other plan that cuts an op along one label cuts another label in one
 * part, so that the grid is (1, n) or (n, 1). Parts are as even as they can be, larger ones first, or those of chunks
 * of equal size, the last ones smaller or empty. Part i is on device i. Parameters lie on all devices or in parts
 * along a dimension, in every other plan anyhow. Graphs of several parts that share no value enumerate each by itself. */
/* How many: at most MOST_PLANS, or $EIN_PLANS. */
int plan_count(const ein_graph *g, int devices);
/* Plan `i`, as JSON; free it. */
char *plan_text(const ein_graph *g, int devices, int i);

/* Compile with `plan` (NULL: the search's), run twice, compare bits and values. Fails the test, naming `what`. */
void run_plan(ein_context *c, const plan_case *k, const char *plan, const char *what);
/* All of them. */
void each_plan(const plan_case *k, int devices);
/* For one device and for each number of devices of the list, which ends in 0. */
void each_device_count(const plan_case *k, const int *devices);

/* A plan that a test writes: uncut copies of everything on all devices at first. A node is found by
 * the name of its call and its number, in canonical order, among those that have the labels and are no views. */
typedef struct plan_draft {
    arena arena;
    graph graph;
    plan plan;
} plan_draft;
void draft_make(plan_draft *d, const ein_graph *g, int devices);
/* Cut the node along labels `by` ("k" or "h,g"), the last one fastest, in `parts` each; `order` (NULL: 0, 1, ...) is
 * the device of each tuple. */
void draft_cut(plan_draft *d, const char *node, int number, const char *by, const int *parts, const int *order);
/* The parameter in parts along a dimension, part i on device order[i]. */
void draft_lay(plan_draft *d, const char *parameter, int dimension, int parts, const int *order);
/* The plan's text, once; the draft is gone. Free it. */
char *draft_text(plan_draft *d);

#endif
