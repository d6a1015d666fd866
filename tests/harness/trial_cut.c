/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/trial_cut.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/graph/canonical.h"
#include "tests/harness/random_plan.h"

static char *random_plan_text(const ein_graph *user, uint64_t seed, int devices)
{
    graph g = {.nodes = {0}};
    arena a = {NULL};
    error e = {0};
    text json = {0};
    plan p;
    if (ein__canonicalize(&user->g, &g, &e) != EIN_OK || random_plan_make(&a, &g, seed, devices, NULL, &p) != EIN_OK ||
        ein__plan_check(&g, &p, &e) != EIN_OK || ein__plan_print(&g, &p, &json) != EIN_OK)
        fail_msg("no plan of seed %llu: %s", (unsigned long long)seed, e.line);
    ein__arena_free(&a);
    ein__arena_free(&g.arena);
    return json.bytes;
}

/* Compile and check once, under `plan` or, NULL, the search's; the outputs if they are asked for. */
static void *check(const trial *t, ein_context *c, const char *plan, bool outputs)
{
    ein_weights *w = NULL;
    ein_state *state = NULL;
    size_t n;
    assert_int_equal(ein_weights_create(&w, c), EIN_OK);
    trial_add_weights(t, w);
    ein_program *p = compile_program(
        c, t->graph,
        &(ein_compile_options){.size = sizeof(ein_compile_options), .weights = w, .counting = 1, .plan = plan});
    for (int i = 0; i < t->graph->g.leaves.n && state == NULL; i++)
        if (t->graph->g.leaves.items[i].kind == LEAF_STATE) assert_int_equal(ein_state_create(&state, p), EIN_OK);
    trial_check(t, p, state);
    void *out = outputs ? trial_outputs(t, p, state, &n) : NULL;
    ein_state_free(state);
    ein_program_free(p);
    ein_weights_free(w);
    return out;
}

void *trial_cut(const trial *t, int devices, int n_plans, uint64_t seed)
{
    char machine[32], *cache = make_directory();
    ein_context *c = open_context("host:1", cache);
    void *out = check(t, c, NULL, true);
    ein_context_free(c);
    snprintf(machine, sizeof machine, "host:%d", devices);
    c = open_context(machine, cache);
    for (int i = 0; i < n_plans; i++) {
        char *plan = random_plan_text(t->graph, seed + (uint64_t)i, devices);
        fprintf(stderr, "plan %d\n", i); /* so that a failure names it */
        check(t, c, plan, false);
        free(plan);
    }
    check(t, c, NULL, false);
    ein_context_free(c);
    remove_directory(cache);
    return out;
}
