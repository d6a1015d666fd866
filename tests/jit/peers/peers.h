/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of this folder share. */
#ifndef TESTS_JIT_PEERS_PEERS_H
#define TESTS_JIT_PEERS_PEERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/each_plan.h"
#include "tests/harness/random.h"
#include "tests/harness/trial.h"

/* Where a report names no number of devices. */
#define DEVICES ((int[]){2, 3, 4, 8, 0})
#define PARAMETER(g, name, ...) ein_parameter(g, name, EIN_F32, SHAPE(__VA_ARGS__))
#define INPUT(g, name, ...) ein_input(g, name, EIN_F32, SHAPE(__VA_ARGS__))
#define GIVEN(...) (numbers[]){__VA_ARGS__, {0}}
#define WANTED(...) (numbers[]){__VA_ARGS__, {0}}

static inline ein_graph *graph_new(void)
{
    ein_graph *g = NULL;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    return g;
}

/* On one device and on each number of devices; the graph is freed. */
static inline void try_plans(ein_graph *g, const numbers *given, const numbers *wanted, double tolerance, const int *devices)
{
    each_device_count(&(plan_case){.graph = g, .given = given, .wanted = wanted, .tolerance = tolerance}, devices);
    ein_graph_free(g);
}

/* from, from + step, ..: n of them; free them. */
static inline double *ramp(int n, double from, double step)
{
    double *x = calloc((size_t)n + 1, sizeof *x);
    assert_non_null(x);
    for (int i = 0; i < n; i++) x[i] = from + step * i;
    return x;
}

#endif
