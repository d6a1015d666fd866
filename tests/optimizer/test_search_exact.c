/* SPDX-License-Identifier: Apache-2.0 */
/* The exact search against all plans of small graphs, each priced on its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "optimizer/price_plan.h"
#include "optimizer/search.h"
#include "tests/harness/random_graph.h"
#include "tests/harness/small_llama.h"
#include "tests/optimizer/fixture.h"

enum { MOST_LAYOUTS = 64, MOST_PLANS = 3000, CASES = 500 };

/* Layouts that a leaf or a carry may have. */
typedef struct layouts { int n; relation items[MOST_LAYOUTS]; } layouts;

/* What is chosen: an option per node, a layout per free leaf and carry. */
typedef struct all_plans {
    const searched *s;
    pricer pricer;
    option_list *options;
    layouts *leaves, *carries;
    int n_parts, *sizes, *chosen; /* nodes, leaves, carries */
    plan plan;
    i64 least;
    long tried;
} all_plans;

static void add_layout(const all_plans *k, layouts *l, const relation *r, value v)
{
    if (ein__relation_check(r, ein__value_numel(&k->s->g, v), k->plan.n_devices, NULL) != EIN_OK) return;
    for (int i = 0; i < l->n; i++)
        if (ein__relation_equal(&l->items[i], r)) return;
    assert_true(l->n < MOST_LAYOUTS);
    l->items[l->n++] = *r;
}

/* All that some option needs of value v; a state is laid out by its first reader alone. */
static void add_needs(all_plans *k, layouts *l, value v, bool first_only)
{
    const graph *g = &k->s->g;
    for (int i = 0; i < g->nodes.n; i++) {
        const node *n = &g->nodes.items[i];
        for (int o = 0; o < n->spec.n_operands && k->options[i].n > 0; o++) {
            if (ein__value_source(g, n->operands[o]) != v) continue;
            for (int c = 0; c < k->options[i].n; c++)
                add_layout(k, l, k->pricer.prices.pool.relations.items[k->options[i].items[c].needs[o]], v);
            if (first_only) return;
        }
    }
}

static void add_results(all_plans *k, layouts *l, value v)
{
    const value_info *x = &k->s->g.values.items[ein__value_source(&k->s->g, v)];
    for (int c = 0; x->kind == VALUE_RESULT && c < k->options[x->owner].n; c++) {
        const pool *p = &k->pricer.prices.pool;
        const placed *made = &p->placed.items[k->options[x->owner].items[c].results[x->result]];
        if (made->merge == NULL) add_layout(k, l, p->relations.items[made->states[0]], v);
    }
}

static void add_whole(all_plans *k, layouts *l, value v)
{
    relation r;
    assert_int_equal(ein__relation_whole(&k->pricer.arena, ein__value_numel(&k->s->g, v), ALL_DEVICES(k->plan.n_devices), &r),
                     EIN_OK);
    add_layout(k, l, &r, v);
}

static void leaf_layouts(all_plans *k, int i)
{
    const graph *g = &k->s->g;
    const leaf *l = &g->leaves.items[i];
    relation r;
    if (l->kind == LEAF_INPUT) {
        assert_int_equal(ein__relation_whole(&k->pricer.arena, ein__value_numel(g, l->value), DEV(HOST), &r), EIN_OK);
        k->leaves[i].items[k->leaves[i].n++] = r;
        return;
    }
    if (l->kind == LEAF_PARAMETER || l->kind == LEAF_STATE) add_needs(k, &k->leaves[i], l->value, l->kind == LEAF_STATE);
    add_whole(k, &k->leaves[i], l->value);
    if (l->kind == LEAF_CONSTANT) return;
    assert_int_equal(ein__even_relation(&k->pricer.arena, ein__value_numel(g, l->value), k->plan.n_devices, &r), EIN_OK);
    add_layout(k, &k->leaves[i], &r, l->value);
}

static void find_parts(all_plans *k)
{
    const graph *g = &k->s->g;
    arena *a = &k->pricer.arena;
    label_units *units;
    k->plan = k->s->plan;
    k->n_parts = g->nodes.n + g->leaves.n + k->plan.n_carries;
    k->options = ein__arena_get(a, (size_t)g->nodes.n, sizeof *k->options);
    k->leaves = ein__arena_get(a, (size_t)g->leaves.n, sizeof *k->leaves);
    k->carries = ein__arena_get(a, (size_t)k->plan.n_carries, sizeof *k->carries);
    k->sizes = ein__arena_get(a, (size_t)k->n_parts, sizeof *k->sizes);
    k->chosen = ein__arena_get(a, (size_t)k->n_parts, sizeof *k->chosen);
    k->plan.nodes = ein__arena_get(a, (size_t)g->nodes.n, sizeof *k->plan.nodes);
    k->plan.leaves = ein__arena_get(a, (size_t)g->leaves.n, sizeof *k->plan.leaves);
    k->plan.carries = ein__arena_get(a, (size_t)k->plan.n_carries, sizeof *k->plan.carries);
    assert_int_equal(ein__choice_units(a, g, k->plan.n_devices, &units), EIN_OK);
    for (int i = 0; i < g->nodes.n; i++)
        if (!ein__node_is_view(&g->nodes.items[i]))
            assert_int_equal(ein__price_options(&k->pricer.prices, i, units[i], NULL, &k->options[i], NULL), EIN_OK);
    for (int i = 0; i < g->leaves.n; i++) leaf_layouts(k, i);
    for (int l = 0, i = 0; l < g->loops.n; l++)
        for (int c = 0; c < g->loops.items[l].n_carries; c++, i++) {
            const carry *y = &g->loops.items[l].carries[c];
            add_whole(k, &k->carries[i], y->value);
            add_needs(k, &k->carries[i], y->value, false);
            add_results(k, &k->carries[i], y->next);
        }
    int *at = k->sizes;
    for (int i = 0; i < g->nodes.n; i++) *at++ = k->options[i].n > 0 ? k->options[i].n : 1;
    for (int i = 0; i < g->leaves.n; i++) *at++ = k->leaves[i].n;
    for (int i = 0; i < k->plan.n_carries; i++) *at++ = k->carries[i].n;
}

static void try_plan(all_plans *k)
{
    const graph *g = &k->s->g;
    const int *at = k->chosen;
    arena a = {NULL};
    plan_price got;
    for (int i = 0; i < g->nodes.n; i++, at++)
        if (k->options[i].n > 0) k->plan.nodes[i] = k->options[i].items[*at].choice;
    for (int i = 0; i < g->leaves.n; i++) k->plan.leaves[i] = k->leaves[i].items[*at++];
    for (int i = 0; i < k->plan.n_carries; i++) k->plan.carries[i] = k->carries[i].items[*at++];
    if (ein__plan_check(g, &k->plan, NULL) == EIN_OK) { /* a state's layout must be its append's */
        assert_int_equal(ein__price_plan(&k->pricer, &a, &k->plan, &got, NULL), EIN_OK);
        if (got.picoseconds < k->least) k->least = got.picoseconds;
        k->tried++;
    }
    ein__arena_free(&a);
}

static bool next_plan(all_plans *k)
{
    int i = 0;
    while (i < k->n_parts && ++k->chosen[i] == k->sizes[i]) k->chosen[i++] = 0;
    return i < k->n_parts;
}

/* False if there are too many plans. */
static bool compare(const searched *s, int seed, long *tried)
{
    all_plans k = {.s = s, .least = INT64_MAX};
    double plans = 1;
    ein__pricer_init(&k.pricer, &s->g, s->plan.n_devices, &s->costs.model);
    find_parts(&k);
    for (int i = 0; i < k.n_parts; i++) plans *= k.sizes[i];
    if (plans <= MOST_PLANS) {
        do try_plan(&k);
        while (next_plan(&k));
        i64 got = llround(s->plan.predicted_us * 1e6);
        if (got != k.least)
            fail_msg("seed %d: %lld ps, the best of %ld plans takes %lld", seed, (long long)got, k.tried, (long long)k.least);
    }
    *tried += k.tried;
    ein__pricer_fini(&k.pricer);
    return plans <= MOST_PLANS;
}

static void test_all_plans(void **state)
{
    (void)state;
    static const char *const machines[] = {"host:2", "host:3", "dgx-1:0,1,4", "host:4", "2xpcie-no-p2p"};
    const char *more = getenv("EIN_CASES"), *from = getenv("EIN_SEED");
    int cases = more != NULL ? atoi(more) : CASES, loops = 0, cut = 0;
    long tried = 0;
    for (int seed = from != NULL ? atoi(from) : 0, done = 0; done < cases; seed++) {
        random_graph r;
        searched s = {.arena = {NULL}};
        error e = {0};
        assert_int_equal(random_graph_make((uint64_t)seed, 1 + seed % 4, &r), EIN_OK);
        test_costs_make(&s.costs, machines[seed % 5]);
        if (seed % 3 > 0) { /* everything is worth a cut */
            s.costs.machine.launch_floor = s.costs.machine.step_latency = 1e-9;
            for (int d = 0; d < s.costs.machine.n_devices; d++) s.costs.machine.devices[d].memory_bandwidth = 1e6;
        }
        assert_int_equal(ein__canonicalize(&r.graph->g, &s.g, NULL), EIN_OK);
        if (ein__search(&s.arena, &s.g, &s.costs.machine, &s.costs.model, NULL, &s.plan, &e) != EIN_OK)
            fail_msg("seed %d: %s", seed, e.line);
        if (compare(&s, seed, &tried)) {
            done++;
            loops += s.g.loops.n;
            for (int i = 0; i < s.plan.n_nodes; i++) cut += s.plan.nodes[i].n_cuts > 0;
        }
        free_searched(&s);
        random_graph_free(&r);
    }
    if (cases < CASES) return;
    assert_true(tried > 100 * cases);
    assert_true(2 * cut > cases && loops > 0);
}

/* ---- large graphs --------------------------------------------------------------------------------------- */

typedef struct preset { small_llama model; const char *machine; } preset;

#define LLAMA_7B .hidden = 4096, .heads = 32, .kv_heads = 32, .head_size = 128, .ffn = 11008, .layers = 32
#define LLAMA_8B .hidden = 4096, .heads = 32, .kv_heads = 8, .head_size = 128, .ffn = 14336, .layers = 32
#define LLAMA_13B .hidden = 5120, .heads = 40, .kv_heads = 40, .head_size = 128, .ffn = 13824, .layers = 40
#define LLAMA_70B .hidden = 8192, .heads = 64, .kv_heads = 8, .head_size = 128, .ffn = 28672, .layers = 80

/* The first few always, the others with EIN_CASES. */
static const preset PRESETS[] = {
    {{LLAMA_7B, .batch = 1, .seq = 4096}, "dgx-a100:0,1,2,3"},
    {{LLAMA_70B, .batch = 1, .seq = 4096}, "4xpcie"},
    {{LLAMA_8B, .batch = 8, .seq = 1, .cache = 2048}, "dgx-a100"},
    {{LLAMA_8B, .batch = 3, .seq = 512}, "dgx-1:0,1,2"},
    {{LLAMA_7B, .batch = 1, .seq = 4096}, "dgx-a100"},
    {{LLAMA_8B, .batch = 1, .seq = 1024}, "dgx-a100"},
    {{LLAMA_13B, .batch = 1, .seq = 4096}, "dgx-a100"},
    {{LLAMA_70B, .batch = 1, .seq = 4096}, "dgx-a100"},
    {{LLAMA_70B, .batch = 8, .seq = 2048}, "dgx-a100"},
    {{LLAMA_7B, .batch = 1, .seq = 1024}, "dgx-1"},
    {{LLAMA_7B, .batch = 1, .seq = 4096}, "2xdgx-a100"},
    {{LLAMA_70B, .batch = 1, .seq = 1, .cache = 4096}, "dgx-h100"},
    {{LLAMA_13B, .batch = 5, .seq = 300}, "dgx-a100:0,1,2,3,4,5,6"},
};
enum { N_PRESETS = sizeof PRESETS / sizeof *PRESETS, FEW = 4 };

static void search_by(const char *strategy, double slack, const searched *s, plan *out)
{
    error e = {0};
    arena *a = (arena *)(uintptr_t)&s->arena;
    const search_limits limits = {.strategy = strategy, .slack = slack};
    if (ein__search_within(a, &s->g, &s->costs.machine, &s->costs.model, NULL, &limits, out, &e) != EIN_OK)
        fail_msg("%s: %s", strategy, e.line);
}

static double fullest(const searched *s, const plan *p)
{
    double bytes[MAX_DEVICES] = {0}, most = 0;
    for (int i = 0; i < s->g.leaves.n; i++)
        for (int b = 0; b < p->leaves[i].n_blocks; b++)
            for (devset d = p->leaves[i].devices[b]; d != 0 && p->leaves[i].devices[b] != DEV(HOST); d &= d - 1)
                bytes[__builtin_ctz(d)] += ein__leaf_weight(&s->g, &s->g.leaves.items[i]) *
                                           (double)ein__block_numel(&p->leaves[i], b);
    for (int d = 0; d < MAX_DEVICES; d++) most = fmax(most, bytes[d]);
    return most;
}

/* Never worse than the frontier's; proved where memory is free; within memory, and no better than what is proved. */
static void test_presets(void **state)
{
    (void)state;
    int better = 0, n = getenv("EIN_CASES") != NULL ? N_PRESETS : FEW;
    for (int i = 0; i < n; i++)
        for (int capped = 0; capped < 2; capped++) {
            searched s = {.arena = {NULL}};
            plan frontier, exact;
            double slack = capped ? 1.3 : INFINITY;
            ein_graph *g = small_llama_graph(&PRESETS[i].model);
            test_costs_make(&s.costs, PRESETS[i].machine);
            assert_int_equal(ein__canonicalize(&g->g, &s.g, NULL), EIN_OK);
            search_by("frontier", slack, &s, &frontier);
            search_by("exact", slack, &s, &exact);
            assert_true(exact.predicted_us <= frontier.predicted_us);
            if (!(exact.bound_us > 0 && exact.bound_us <= exact.predicted_us))
                fail_msg("%s, capped %d: bound %.3f, plan %.3f us", PRESETS[i].machine, capped, exact.bound_us, exact.predicted_us);
            if (!capped) assert_true(exact.predicted_us - exact.bound_us < 2e-6);
            assert_true(fullest(&s, &exact) <= ein__memory_room(&s.g, exact.n_devices, slack));
            better += exact.predicted_us < 0.999 * frontier.predicted_us;
            s.plan = exact;
            assert_bytes(&s, i);
            free_searched(&s);
            ein_graph_free(g);
        }
    assert_true(better > 0);
}

/* A search that is cancelled answers with what it has. */
static bool cancel(void *user)
{
    ++*(int *)user;
    return true;
}

static void test_cancelled(void **state)
{
    (void)state;
    int asked = 0;
    searched s = {.arena = {NULL}};
    plan frontier, stopped;
    error e = {0};
    ein_graph *g = small_llama_graph(&PRESETS[0].model);
    test_costs_make(&s.costs, PRESETS[0].machine);
    assert_int_equal(ein__canonicalize(&g->g, &s.g, NULL), EIN_OK);
    search_by("frontier", 0, &s, &frontier);
    const search_limits limits = {.cancelled = cancel, .user = &asked};
    assert_int_equal(ein__search_within(&s.arena, &s.g, &s.costs.machine, &s.costs.model, NULL, &limits, &stopped, &e), EIN_OK);
    assert_true(asked > 0);
    assert_true(stopped.predicted_us <= frontier.predicted_us);
    const search_limits unknown = {.strategy = "oracle"};
    assert_int_equal(ein__search_within(&s.arena, &s.g, &s.costs.machine, &s.costs.model, NULL, &unknown, &stopped, &e),
                     EIN_INVALID);
    assert_string_equal(e.line, "no search strategy 'oracle'");
    free_searched(&s);
    ein_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_plans),
        cmocka_unit_test(test_presets),
        cmocka_unit_test(test_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
