/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/trial_cut.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/graph/canonical.h"
#include "tests/harness/random_plan.h"

/* ---- forced cuts --------------------------------------------------------------------------------------- */

static int find_label(const spec *s, const char *name)
{
    for (int l = 0; l < s->n_labels; l++)
        if (strcmp(s->labels[l].name, name) == 0) return l;
    fail_msg("no label %s", name);
    return -1;
}

static void add_tuples(arena *a, int devices, choice *c)
{
    devset *where;
    c->n_tuples = 1;
    for (int i = 0; i < c->n_cuts; i++) c->n_tuples *= c->cuts[i].n_parts;
    where = ein__arena_get(a, c->n_tuples, sizeof *where);
    assert_non_null(where);
    for (int t = 0; t < c->n_tuples; t++) where[t] = DEV(t % devices);
    c->devices = where;
}

static void cut_node(arena *a, const spec *s, const char *cuts, int devices, choice *out)
{
    cut *made = ein__arena_get(a, MAX_LABELS, sizeof *made);
    char copy[128];
    int n = 0;
    snprintf(copy, sizeof copy, "%s", cuts);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " ")) {
        if (word[0] >= '0' && word[0] <= '9') {
            ((i64 *)made[n - 1].at)[++made[n - 1].n_parts] = atoll(word);
            continue;
        }
        made[n] = (cut){.n_labels = 1, .labels = {find_label(s, word)}, .n_parts = -1,
                        .at = ein__arena_get(a, 16, sizeof(i64))};
        assert_non_null(made[n++].at);
    }
    *out = (choice){.n_cuts = n, .cuts = made};
    add_tuples(a, devices, out);
}

char *forced_plan(const ein_graph *user, const char *name, const char *cuts, uint64_t seed, int devices)
{
    graph g = {.nodes = {0}};
    arena a = {NULL};
    error e = {0};
    text json = {0};
    plan p;
    if (ein__canonicalize(&user->g, &g, &e) != EIN_OK || random_plan_make(&a, &g, seed, devices, NULL, &p) != EIN_OK)
        fail_msg("%s", e.line);
    for (int i = 0; i < g.nodes.n; i++)
        if (strcmp(g.nodes.items[i].name, name) == 0)
            cut_node(&a, &g.nodes.items[i].spec, cuts, devices, &p.nodes[i]);
    if (ein__plan_check(&g, &p, &e) != EIN_OK || ein__plan_print(&g, &p, &json) != EIN_OK) fail_msg("%s", e.line);
    ein__arena_free(&a);
    ein__arena_free(&g.arena);
    return json.bytes;
}

/* ---- random cuts --------------------------------------------------------------------------------------- */

static char *random_plan(const ein_graph *user, uint64_t seed, int devices)
{
    error e = {0};
    text json = {0};
    if (random_plan_text(user, seed, devices, &json, &e) != EIN_OK)
        fail_msg("no plan of seed %llu: %s", (unsigned long long)seed, e.line);
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
        char *plan = random_plan(t->graph, seed + (uint64_t)i, devices);
        fprintf(stderr, "plan %d\n", i); /* so that a failure names it */
        check(t, c, plan, false);
        free(plan);
    }
    check(t, c, NULL, false);
    ein_context_free(c);
    remove_directory(cache);
    return out;
}
