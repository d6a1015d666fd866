/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of the search: a cost model (exchanges as the exchange module prices them, blocks by a
 * roofline), and a graph with its plan. */
#ifndef TESTS_OPTIMIZER_FIXTURE_H
#define TESTS_OPTIMIZER_FIXTURE_H

#include <math.h>
#include <string.h>

#include "core/graph/canonical.h"
#include "jit/lower.h"
#include "optimizer/optimizer.h"

typedef struct test_costs {
    arena arena;
    machine machine;
    const routes *routes;
    cost_model model;
} test_costs;

static inline ein_status test_exchange(void *user, arena *a, int n_states, const relation *const *states,
                                       uint32_t used, const merge *m, int result, ein_dtype dtype,
                                       const relation *to, double *seconds, i64 *bytes)
{
    const test_costs *k = user;
    exchange_problem p = {.n_states = n_states,
                          .used = used,
                          .merge = m,
                          .result = result,
                          .dtype = dtype,
                          .n_devices = k->machine.n_devices,
                          .to = to};
    for (int i = 0; i < n_states; i++) p.states[i] = states[i];
    return ein__exchange_estimate(a, &p, k->routes, seconds, bytes);
}

static inline double test_elements(const index_map *m, const label_box *box)
{
    double n = 1;
    for (int i = 0; i < m->n; i++) {
        const term *t = &m->terms[i];
        n *= t->kind == TERM_FIXED ? 1 : t->kind == TERM_ALL ? (double)t->extent : (double)box->len[t->label];
    }
    return n;
}

static inline double test_compute(void *user, const graph *g, const node *n, const label_box *boxes, int n_boxes)
{
    (void)g;
    const machine *m = &((const test_costs *)user)->machine;
    double flops = 0, elements = 0;
    for (int b = 0; b < n_boxes; b++) {
        double points = 1;
        for (int l = 0; l < n->spec.n_labels; l++)
            if (n->kind != OP_APPEND || l != n->append_t) points *= (double)boxes[b].len[l];
        flops += points * n->spec.flops;
        elements += n->kind == OP_APPEND ? 2 * points : test_elements(&n->spec.results[0], &boxes[b]);
        for (int o = 0; o < n->spec.n_operands && n->kind != OP_APPEND; o++)
            elements += test_elements(&n->spec.operands[o], &boxes[b]);
    }
    return fmax(m->launch_floor, fmax(flops / (m->matrix_efficiency * m->devices[0].flops_f32),
                                      4 * elements / m->devices[0].memory_bandwidth));
}

static inline void test_costs_make(test_costs *k, const char *machine_name)
{
    error e = {0};
    *k = (test_costs){.model = {k, test_exchange, test_compute}};
    if (ein__machine_parse(&k->arena, machine_name, &k->machine, &e) != EIN_OK) fail_msg("%s", e.line);
    assert_int_equal(ein__routes_make(&k->arena, &k->machine, &k->routes), EIN_OK);
}

static inline void test_costs_free(test_costs *k) { ein__arena_free(&k->arena); }

/* A plan and all that it stands on. */
typedef struct searched {
    arena arena;
    graph g;
    test_costs costs;
    plan plan;
} searched;

static inline void search_graph(searched *s, const graph *built, const char *machine_name)
{
    error e = {0};
    memset(s, 0, sizeof *s);
    test_costs_make(&s->costs, machine_name);
    assert_int_equal(ein__canonicalize(built, &s->g, NULL), EIN_OK);
    ein_status status = ein__search(&s->arena, &s->g, &s->costs.machine, &s->costs.model, NULL, &s->plan, &e);
    if (status != EIN_OK) fail_msg("search: %s", e.line);
    if (ein__plan_check(&s->g, &s->plan, &e) != EIN_OK) fail_msg("plan: %s", e.line);
}

static inline void free_searched(searched *s)
{
    test_costs_free(&s->costs);
    ein__arena_free(&s->g.arena);
    ein__arena_free(&s->arena);
}

/* What the plan predicts is what its program will do, where no exchange goes along trees: of these the search has an
 * estimate. */
static inline void assert_bytes(const searched *s, int seed)
{
    arena a = {NULL};
    program p;
    error e = {0};
    if (ein__lower(&a, &s->g, &s->plan, &s->costs.machine, &p, &e) != EIN_OK) fail_msg("seed %d: lowering: %s", seed, e.line);
    const machine *m = &s->costs.machine;
    bool exact = m->step_latency > 1e-6 && m->host;
    if (exact && p.remote_bytes != s->plan.predicted_bytes)
        fail_msg("seed %d: %lld bytes predicted, %lld lowered", seed, (long long)s->plan.predicted_bytes,
                 (long long)p.remote_bytes);
    ein__arena_free(&a);
}

#endif
