/* SPDX-License-Identifier: Apache-2.0 */
/* Every rival's plan computes what the graph says: a small block, and its decoding step, on 2, 3, 4 and 8 devices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/graph/canonical.h"
#include "jit/context.h"
#include "jit/costs.h"
#include "optimizer/rivals.h"
#include "tests/harness/small_llama.h"
#include "tests/harness/trial.h"

/* The plan's text; false: the rival does not apply. */
static bool rival_text(const ein_graph *user, const machine *m, int which, text *out)
{
    arena a = {NULL};
    graph g = {0};
    cost_model costs;
    rival_plan r;
    error e = {0};
    assert_int_equal(ein__canonicalize(&user->g, &g, NULL), EIN_OK);
    assert_int_equal(ein__cost_model(&a, m, &costs), EIN_OK);
    if (ein__rival(&a, &g, m, &costs, 0, which, &r, &e) != EIN_OK) fail_msg("%s: %s", r.name, e.line);
    r.plan.predicted_us = 0; /* it says nothing of what the plan does */
    r.plan.states_searched = 0;
    if (r.why_not == NULL) assert_int_equal(ein__plan_print(&g, &r.plan, out), EIN_OK);
    ein__arena_free(&g.arena);
    ein__arena_free(&a);
    return r.why_not == NULL;
}

/* All, or one; at least `least` of different plans. */
static void check_rivals(const small_llama *m, const char *machine_name, const char *only, int least)
{
    ein_graph *g = small_llama_graph(m);
    ein_context *c = open_context(machine_name, NULL);
    text seen[RIVALS] = {{0}};
    int ran = 0;
    trial t;
    trial_make(&t, g);
    for (int which = 0; which < RIVALS; which++) {
        if (only != NULL && strcmp(ein__rival_name(which), only) != 0) continue;
        /* One that makes the plan of an earlier one is not run again. */
        bool fresh = rival_text(g, &c->machine, which, &seen[which]);
        for (int i = 0; i < which && fresh; i++) fresh = strcmp(ein__text_get(&seen[i]), ein__text_get(&seen[which])) != 0;
        if (!fresh) continue;
        ein_weights *w;
        ein_state *state = NULL;
        assert_int_equal(ein_weights_create(&w, c), EIN_OK);
        trial_add_weights(&t, w);
        ein_program *p = compile_program(c, g, &(ein_compile_options){.size = sizeof(ein_compile_options), .weights = w,
                                                                      .plan = ein__text_get(&seen[which])});
        if (m->cache > 0) assert_int_equal(ein_state_create(&state, p), EIN_OK);
        trial_check(&t, p, state);
        ein_state_free(state);
        ein_program_free(p);
        ein_weights_free(w);
        ran++;
    }
    assert_true(ran >= least);
    for (int i = 0; i < RIVALS; i++) ein__text_free(&seen[i]);
    trial_free(&t);
    ein_context_free(c);
    ein_graph_free(g);
}

static void test_block(void **state)
{
    (void)state;
    static const char *const machines[] = {"host:2", "host:3", "host:4", "host:8"};
    const small_llama m = {.hidden = 64, .heads = 4, .kv_heads = 2, .head_size = 16, .ffn = 96, .layers = 1, .batch = 2, .seq = 16};
    for (int i = 0; i < 4; i++) check_rivals(&m, machines[i], NULL, 5);
}

static void test_decoding(void **state)
{
    (void)state;
    const small_llama m = {.hidden = 64, .heads = 4, .kv_heads = 2, .head_size = 16, .ffn = 96, .layers = 2, .batch = 1, .seq = 1, .cache = 24};
    check_rivals(&m, "host:3", NULL, 5);
}

/* Positions enough that context parallelism gives each device a part from both ends. */
static void test_folded(void **state)
{
    (void)state;
    const small_llama m = {.hidden = 16, .heads = 2, .kv_heads = 2, .head_size = 8, .ffn = 16, .layers = 1, .batch = 1, .seq = 600};
    machine host;
    arena a = {NULL};
    text plan = {0};
    ein_graph *g = small_llama_graph(&m);
    assert_int_equal(ein__machine_parse(&a, "host:3", &host, NULL), EIN_OK);
    for (int i = 0; i < RIVALS; i++)
        if (strcmp(ein__rival_name(i), "context_parallel") == 0) assert_true(rival_text(g, &host, i, &plan));
    assert_non_null(strstr(ein__text_get(&plan), "\"at\":[0,100,200,300,400,500,600]}],\"devices\":[[0],[1],[2],[2],[1],[0]]"));
    ein__text_free(&plan);
    ein__arena_free(&a);
    ein_graph_free(g);
    check_rivals(&m, "host:3", "context_parallel", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_block), cmocka_unit_test(test_decoding), cmocka_unit_test(test_folded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
