/* SPDX-License-Identifier: Apache-2.0 */
/* The search: legal plans for random graphs, priced as lowering carries them out; the optimum where all plans
 * can be tried; trouble. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/graph/canonical.h"
#include "optimizer/search.h"
#include "tests/harness/random_graph.h"
#include "tests/harness/small_llama.h"
#include "tests/optimizer/fixture.h"

#define SHAPE(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

static const char *machine_of(int seed, char room[32])
{
    static const char *const wired[] = {"dgx-1:0,1,2,3", "4xpcie", "mixed", "2xpcie-no-p2p", "dgx-1"};
    snprintf(room, 32, "host:%d", seed % MAX_DEVICES + 1);
    return seed % 4 == 3 ? wired[seed / 4 % 5] : room;
}

/* ---- random graphs ------------------------------------------------------------------------------------ */

static void assert_same_text(const searched *s, const searched *t)
{
    text x = {0}, y = {0};
    assert_int_equal(ein__plan_print(&s->g, &s->plan, &x), EIN_OK);
    assert_int_equal(ein__plan_print(&t->g, &t->plan, &y), EIN_OK);
    assert_string_equal(ein__text_get(&x), ein__text_get(&y));
    ein__text_free(&x);
    ein__text_free(&y);
}

static void test_random_graphs(void **state)
{
    (void)state;
    int loops = 0, cuts = 0;
    i64 bytes = 0;
    for (int seed = 0; seed < 160; seed++) {
        char room[32];
        random_graph r;
        searched s, again;
        assert_int_equal(random_graph_make((uint64_t)seed, seed % 10 == 0 ? 20 : 8, &r), EIN_OK);
        search_graph(&s, &r.graph->g, machine_of(seed, room));
        assert_bytes(&s, seed);
        if (seed % 8 == 0) {
            search_graph(&again, &r.graph->g, machine_of(seed, room));
            assert_same_text(&s, &again);
            free_searched(&again);
        }
        loops += s.g.loops.n;
        bytes += s.plan.predicted_bytes;
        for (int i = 0; i < s.plan.n_nodes; i++) cuts += s.plan.nodes[i].n_tuples > 1;
        free_searched(&s);
        random_graph_free(&r);
    }
    assert_true(loops > 10);
    assert_true(cuts > 0);
    assert_true(bytes > 0);
}

/* The same graphs where everything is worth a cut, so that plans are rich. */
static void test_random_graphs_on_slow_devices(void **state)
{
    (void)state;
    int cuts = 0, nodes = 0;
    for (int seed = 500; seed < 560; seed++) {
        char room[32];
        random_graph r;
        searched s = {.arena = {NULL}};
        error e = {0};
        assert_int_equal(random_graph_make((uint64_t)seed, 8, &r), EIN_OK);
        test_costs_make(&s.costs, machine_of(seed, room));
        s.costs.machine.launch_floor = 1e-9;
        s.costs.machine.step_latency = 1e-9;
        for (int d = 0; d < s.costs.machine.n_devices; d++) s.costs.machine.devices[d].memory_bandwidth = 1e6;
        assert_int_equal(ein__canonicalize(&r.graph->g, &s.g, NULL), EIN_OK);
        ein_status status = ein__search(&s.arena, &s.g, &s.costs.machine, &s.costs.model, NULL, &s.plan, &e);
        if (status != EIN_OK) fail_msg("seed %d: %s", seed, e.line);
        assert_bytes(&s, seed);
        for (int i = 0; i < s.plan.n_nodes; i++) {
            cuts += s.plan.nodes[i].n_cuts > 0;
            nodes += s.plan.nodes[i].n_tuples > 0 && s.plan.n_devices > 1;
        }
        free_searched(&s);
        random_graph_free(&r);
    }
    assert_true(2 * cuts > nodes);
}

static void test_one_device(void **state)
{
    (void)state;
    random_graph r;
    searched s;
    assert_int_equal(random_graph_make(4, 12, &r), EIN_OK);
    search_graph(&s, &r.graph->g, "host:1");
    for (int i = 0; i < s.plan.n_nodes; i++) {
        assert_int_equal(s.plan.nodes[i].n_cuts, 0);
        if (s.plan.nodes[i].n_tuples > 0) assert_int_equal(s.plan.nodes[i].devices[0], DEV(0));
    }
    assert_int_equal(s.plan.predicted_bytes, 0);
    assert_true(s.plan.predicted_us > 0);
    free_searched(&s);
    random_graph_free(&r);
}

/* ---- the optimum -------------------------------------------------------------------------------------- */

/* All plans of a graph without loops whose parameters do not count as memory. */
typedef struct oracle {
    const graph *g;
    prices prices;
    option_list options[8];
    double best;
    i64 tried;
} oracle;

static double price_outputs(oracle *k, const int *lists)
{
    double seconds = 0;
    for (int i = 0; i < k->g->outputs.n; i++) {
        value v = ein__value_source(k->g, k->g->outputs.items[i].value);
        relation host;
        move way;
        int to;
        assert_int_equal(ein__relation_whole(k->prices.a, ein__value_numel(k->g, v), DEV(HOST), &host),
                         EIN_OK);
        assert_int_equal(ein__pool_relation(&k->prices.pool, &host, &to), EIN_OK);
        assert_int_equal(
            ein__price_move(&k->prices, k->prices.pool.lists.items[lists[v]].source, EIN_F32, to, &way),
            EIN_OK);
        seconds += way.seconds;
    }
    return seconds;
}

static void put(oracle *k, const relation *r, int *list)
{
    int id;
    assert_int_equal(ein__pool_finished(&k->prices.pool, r, &id), EIN_OK);
    assert_int_equal(ein__pool_list(&k->prices.pool, -1, id, list), EIN_OK);
}

static void try_all(oracle *k, int i, const int *before, double seconds)
{
    if (i == k->g->nodes.n) {
        seconds += price_outputs(k, before);
        k->tried++;
        if (seconds < k->best) k->best = seconds;
        return;
    }
    const node *n = &k->g->nodes.items[i];
    for (int c = 0; c < k->options[i].n; c++) {
        const option *o = &k->options[i].items[c];
        int lists[32];
        double total = seconds + o->seconds;
        memcpy(lists, before, sizeof lists);
        for (int x = 0; x < n->spec.n_operands; x++) {
            value v = ein__value_source(k->g, n->operands[x]);
            fetch got;
            if (lists[v] < 0) put(k, k->prices.pool.relations.items[o->needs[x]], &lists[v]);
            assert_int_equal(ein__price_fetch(&k->prices, i, x, &o->choice, o->needs[x], lists[v], &got),
                             EIN_OK);
            lists[v] = got.list;
            total += got.seconds;
        }
        assert_int_equal(ein__pool_list(&k->prices.pool, -1, o->results[0], &lists[n->results[0]]), EIN_OK);
        try_all(k, i + 1, lists, total);
    }
}

static void assert_optimal(ein_graph *built, const char *machine_name)
{
    searched s;
    arena a = {NULL};
    label_units *units;
    int lists[32];
    assert_string_equal(ein_graph_error(built), "");
    search_graph(&s, &built->g, machine_name);
    assert_true(s.g.nodes.n <= 8 && s.g.values.n <= 32);
    oracle k = {.g = &s.g, .best = INFINITY};
    k.prices = (prices){.a = &a,
                        .g = &s.g,
                        .model = &s.costs.model,
                        .n_devices = s.costs.machine.n_devices,
                        .pool = {.a = &a}};
    assert_int_equal(ein__choice_units(&a, &s.g, k.prices.n_devices, &units), EIN_OK);
    for (int i = 0; i < s.g.nodes.n; i++)
        assert_int_equal(ein__price_options(&k.prices, i, units[i], NULL, &k.options[i], NULL), EIN_OK);
    for (int v = 0; v < s.g.values.n; v++) {
        relation host;
        lists[v] = -1;
        if (s.g.values.items[v].kind != VALUE_LEAF) continue;
        if (s.g.leaves.items[s.g.values.items[v].owner].kind != LEAF_INPUT) continue;
        assert_int_equal(ein__relation_whole(&a, ein__value_numel(&s.g, v), DEV(HOST), &host), EIN_OK);
        put(&k, &host, &lists[v]);
    }
    try_all(&k, 0, lists, 0);
    assert_true(k.tried > 100);
    if (fabs(s.plan.predicted_us - k.best * 1e6) > 1e-4)
        fail_msg("search: %.6f us, the best of %lld plans: %.6f us", s.plan.predicted_us, (long long)k.tried,
                 k.best * 1e6);
    ein__pool_free(&k.prices.pool);
    ein__arena_free(&a);
    free_searched(&s);
}

static void test_optimum(void **state)
{
    (void)state;
    const ein_tensor none = {0};
    const char *const machines[] = {"host:4", "host:3", "dgx-1:0,1,2,3", "4xpcie"};
    for (int m = 0; m < 4; m++) {
        ein_graph *g;
        assert_int_equal(ein_graph_create(&g), EIN_OK); /* two layers of a perceptron */
        ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(64, 128));
        ein_tensor y = ein_linear(g, x, ein_parameter(g, "w1", EIN_F32, SHAPE(96, 128)), none);
        ein_output(g, "y",
                   ein_linear(g, ein_silu(g, y), ein_parameter(g, "w2", EIN_F32, SHAPE(32, 96)), none));
        assert_optimal(g, machines[m]);
        ein_graph_free(g);
        assert_int_equal(ein_graph_create(&g), EIN_OK); /* a residual, a norm, a sum over rows */
        x = ein_input(g, "x", EIN_F32, SHAPE(48, 64));
        y = ein_add(g, x, ein_linear(g, x, ein_parameter(g, "w", EIN_F32, SHAPE(64, 64)), none));
        y = ein_rms_norm(g, y, none, 1e-5);
        ein_output(g, "y", ein_sum(g, y, 1, (const int[]){0}, 0));
        assert_optimal(g, machines[m]);
        ein_graph_free(g);
    }
}

/* ---- trouble ------------------------------------------------------------------------------------------ */

/* Nothing but whole copies can be made. */
static ein_status only_whole(void *user, arena *a, int n_states, const relation *const *states, uint32_t used,
                             const merge *m, int result, ein_dtype dtype, const relation *to, double *seconds,
                             i64 *bytes)
{
    TRY(test_exchange(user, a, n_states, states, used, m, result, dtype, to, seconds, bytes));
    if (to->n_blocks > 1) *seconds = INFINITY;
    return EIN_OK;
}

static void test_incompatible(void **state)
{
    (void)state;
    for (int seed = 0; seed < 40; seed++) {
        random_graph r;
        searched s = {.arena = {NULL}};
        error e = {0};
        char room[32];
        assert_int_equal(random_graph_make((uint64_t)seed, 8, &r), EIN_OK);
        test_costs_make(&s.costs, machine_of(seed, room));
        s.costs.model.exchange = only_whole;
        assert_int_equal(ein__canonicalize(&r.graph->g, &s.g, NULL), EIN_OK);
        ein_status status = ein__search(&s.arena, &s.g, &s.costs.machine, &s.costs.model, NULL, &s.plan, &e);
        if (status != EIN_OK) fail_msg("seed %d: %s", seed, e.line);
        assert_true(isfinite(s.plan.predicted_us) && s.plan.predicted_us < 1e9);
        free_searched(&s);
        random_graph_free(&r);
    }
}

static ein_status broken(void *user, arena *a, int n_states, const relation *const *states, uint32_t used,
                         const merge *m, int result, ein_dtype dtype, const relation *to, double *seconds,
                         i64 *bytes)
{
    (void)user, (void)a, (void)n_states, (void)states, (void)used, (void)m, (void)result, (void)dtype,
        (void)to;
    (void)seconds, (void)bytes;
    return EIN_INTERNAL;
}

static void test_failing_model(void **state)
{
    (void)state;
    searched s;
    plan p;
    ein_graph *g = small_llama_graph(&(small_llama){
        .hidden = 8, .heads = 2, .kv_heads = 2, .head_size = 4, .ffn = 8, .layers = 1, .batch = 1, .seq = 2});
    search_graph(&s, &g->g, "host:2");
    long live = ein__alloc_live();
    arena a = {NULL};
    s.costs.model.exchange = broken;
    assert_int_equal(ein__search(&a, &s.g, &s.costs.machine, &s.costs.model, NULL, &p, NULL), EIN_INTERNAL);
    ein__arena_free(&a);
    assert_int_equal(ein__alloc_live(), live);
    free_searched(&s);
    ein_graph_free(g);
}

/* Allocations fail, each in turn, with growing strides. */
static void test_no_memory(void **state)
{
    (void)state;
    searched s;
    ein_graph *g = small_llama_graph(&(small_llama){.hidden = 8,
                                                    .heads = 2,
                                                    .kv_heads = 2,
                                                    .head_size = 4,
                                                    .ffn = 8,
                                                    .layers = 2,
                                                    .batch = 1,
                                                    .seq = 2,
                                                    .cache = 4});
    search_graph(&s, &g->g, "host:2");
    long live = ein__alloc_live(), failures = 0;
    for (long n = 1, failed = 1; failed; n += 1 + n / 16) {
        arena a = {NULL};
        plan p;
        error e = {0};
        ein__alloc_fail_at(n);
        ein_status status = ein__search(&a, &s.g, &s.costs.machine, &s.costs.model, NULL, &p, &e);
        ein__alloc_fail_at(0);
        failed = status != EIN_OK;
        if (failed) {
            assert_int_equal(status, EIN_NO_MEMORY);
            assert_string_equal(e.line, "out of memory searching a plan");
        }
        failures += failed;
        ein__arena_free(&a);
        assert_int_equal(ein__alloc_live(), live);
    }
    assert_true(failures > 20);
    free_searched(&s);
    ein_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs), cmocka_unit_test(test_random_graphs_on_slow_devices),
        cmocka_unit_test(test_one_device),    cmocka_unit_test(test_optimum),
        cmocka_unit_test(test_incompatible),  cmocka_unit_test(test_failing_model),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
