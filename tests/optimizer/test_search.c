/* SPDX-License-Identifier: Apache-2.0 */
/* The search: legal plans for random graphs, priced as lowering carries them out; the optimum where all plans
 * can be tried; what comes out for a LLaMA block; layouts that are given; memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/graph/canonical.h"
#include "jit/lower.h"
#include "optimizer/search.h"
#include "tests/harness/random_graph.h"
#include "tests/harness/small_llama.h"
#include "tests/optimizer/costs.h"

#define SHAPE(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

/* A plan and all that it stands on. */
typedef struct searched {
    arena arena;
    graph g;
    test_costs costs;
    plan plan;
} searched;

static void search_graph(searched *s, const graph *built, const char *machine_name)
{
    error e = {0};
    memset(s, 0, sizeof *s);
    test_costs_make(&s->costs, machine_name);
    assert_int_equal(ein__canonicalize(built, &s->g, NULL), EIN_OK);
    ein_status status = ein__search(&s->arena, &s->g, &s->costs.machine, &s->costs.model, NULL, &s->plan, &e);
    if (status != EIN_OK) fail_msg("search: %s", e.line);
    if (ein__plan_check(&s->g, &s->plan, &e) != EIN_OK) fail_msg("plan: %s", e.line);
}

static void free_searched(searched *s)
{
    test_costs_free(&s->costs);
    ein__arena_free(&s->g.arena);
    ein__arena_free(&s->arena);
}

static const char *machine_of(int seed, char room[32])
{
    static const char *const wired[] = {"dgx-1:0,1,2,3", "4xpcie", "mixed", "2xpcie-no-p2p", "dgx-1"};
    snprintf(room, 32, "host:%d", seed % MAX_DEVICES + 1);
    return seed % 4 == 3 ? wired[seed / 4 % 5] : room;
}

/* ---- random graphs ------------------------------------------------------------------------------------ */

/* What the plan predicts is what its program will do. */
static void assert_bytes(const searched *s, int seed)
{
    arena a = {NULL};
    program p;
    error e = {0};
    if (ein__lower(&a, &s->g, &s->plan, &p, &e) != EIN_OK) fail_msg("seed %d: lowering: %s", seed, e.line);
    if (p.remote_bytes != s->plan.predicted_bytes)
        fail_msg("seed %d: %lld bytes predicted, %lld lowered", seed, (long long)s->plan.predicted_bytes,
                 (long long)p.remote_bytes);
    ein__arena_free(&a);
}

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

/* ---- a LLaMA block ------------------------------------------------------------------------------------ */

static const small_llama BLOCK = {.hidden = 4096,
                                  .heads = 32,
                                  .kv_heads = 32,
                                  .head_size = 128,
                                  .ffn = 11008,
                                  .layers = 1,
                                  .batch = 1,
                                  .seq = 128};

static double resident(const graph *g, const plan *p, int device)
{
    double bytes = 0;
    for (int i = 0; i < g->leaves.n; i++)
        for (int b = 0; b < p->leaves[i].n_blocks; b++)
            if ((p->leaves[i].devices[b] & DEV(device)) != 0)
                bytes +=
                    ein__leaf_weight(g, &g->leaves.items[i]) * (double)ein__block_numel(&p->leaves[i], b);
    return bytes;
}

static void assert_memory(const searched *s)
{
    double total = 0;
    for (int i = 0; i < s->g.leaves.n; i++)
        total += ein__leaf_weight(&s->g, &s->g.leaves.items[i]) *
                 (double)ein__value_numel(&s->g, s->g.leaves.items[i].value);
    assert_true(total > 0);
    for (int d = 0; d < s->plan.n_devices; d++)
        assert_true(resident(&s->g, &s->plan, d) <= MEMORY_SLACK * total / s->plan.n_devices + MEMORY_GRACE);
}

/* Ops that start an exchange between devices. */
static int count_exchanges(const searched *s)
{
    arena a = {NULL};
    program p;
    error e = {0};
    int n = 0;
    bool seen[256] = {false};
    if (ein__lower(&a, &s->g, &s->plan, &p, &e) != EIN_OK) fail_msg("lowering: %s", e.line);
    for (int d = 0; d < p.n_devices; d++)
        for (int i = 0; i < p.devices[d].n_steps; i++) {
            const step *x = &p.devices[d].steps[i];
            if (x->remote_bytes == 0 || x->node < 0 || seen[x->node]) continue;
            seen[x->node] = true;
            n++;
        }
    ein__arena_free(&a);
    return n;
}

/* Weights are cut, attention by heads, and there are two exchanges round attention and two round the MLP. */
static void assert_tensor_parallel(const searched *s)
{
    assert_memory(s);
    assert_true(count_exchanges(s) <= 4);
    for (int i = 0; i < s->g.nodes.n; i++) {
        const node *n = &s->g.nodes.items[i];
        const choice *c = &s->plan.nodes[i];
        if (n->product) assert_int_equal(c->n_tuples, 8);
        if (n->kind != OP_ATTENTION) continue;
        assert_int_equal(c->n_cuts, 1);
        assert_int_equal(c->cuts[0].labels[0], ATT_H);
        assert_int_equal(c->n_tuples, 8);
    }
}

static double one_device(const small_llama *m)
{
    searched s;
    ein_graph *g = small_llama_graph(m);
    search_graph(&s, &g->g, "dgx-a100:0");
    double us = s.plan.predicted_us;
    free_searched(&s);
    ein_graph_free(g);
    return us;
}

static void test_prefill_block(void **state)
{
    (void)state;
    searched s;
    ein_graph *g = small_llama_graph(&BLOCK);
    search_graph(&s, &g->g, "dgx-a100");
    assert_tensor_parallel(&s);
    assert_true(4 * s.plan.predicted_us < one_device(&BLOCK));
    free_searched(&s);
    ein_graph_free(g);
}

static void test_decode_block(void **state)
{
    (void)state;
    small_llama m = BLOCK;
    searched s;
    m.seq = 1;
    m.cache = 1024;
    ein_graph *g = small_llama_graph(&m);
    search_graph(&s, &g->g, "dgx-a100");
    assert_tensor_parallel(&s);
    for (int i = 0; i < s.g.leaves.n; i++) /* the caches lie by heads */
        if (s.g.leaves.items[i].kind == LEAF_STATE) assert_int_equal(s.plan.leaves[i].n_blocks, 8);
    assert_true(3 * s.plan.predicted_us < one_device(&m));
    free_searched(&s);
    ein_graph_free(g);
}

/* Layers are rolled into one body; it costs about as much as that many blocks. */
static void test_layers(void **state)
{
    (void)state;
    small_llama m = BLOCK;
    searched one, many;
    ein_graph *g = small_llama_graph(&m);
    search_graph(&one, &g->g, "dgx-a100");
    ein_graph_free(g);
    m.layers = 32;
    g = small_llama_graph(&m);
    search_graph(&many, &g->g, "dgx-a100");
    assert_int_equal(many.g.loops.n, 1);
    assert_int_equal(many.plan.n_carries, 1);
    assert_int_equal(many.plan.n_nodes, one.plan.n_nodes);
    assert_memory(&many);
    assert_true(many.plan.predicted_us < 33 * one.plan.predicted_us);
    assert_true(many.plan.predicted_us > 25 * one.plan.predicted_us);
    free_searched(&one);
    free_searched(&many);
    ein_graph_free(g);
}

/* Device counts that divide nothing, and more devices than kv heads. */
static void test_memory(void **state)
{
    (void)state;
    const char *const machines[] = {"dgx-a100:0,1,2", "host:5", "dgx-1", "4xpcie", "2xdgx-a100"};
    small_llama m = BLOCK;
    m.kv_heads = 8;
    m.batch = 3;
    m.layers = 2;
    for (int i = 0; i < 5; i++) {
        searched s;
        ein_graph *g = small_llama_graph(&m);
        search_graph(&s, &g->g, machines[i]);
        assert_memory(&s);
        free_searched(&s);
        ein_graph_free(g);
    }
}

/* ---- layouts that are given --------------------------------------------------------------------------- */

static ein_status search_fixed(searched *s, const relation *const *leaves, plan *out, error *e)
{
    fixed_layouts fixed = {leaves};
    return ein__search(&s->arena, &s->g, &s->costs.machine, &s->costs.model, &fixed, out, e);
}

static void test_fixed_layouts(void **state)
{
    (void)state;
    small_llama m = {.hidden = 64,
                     .heads = 4,
                     .kv_heads = 2,
                     .head_size = 16,
                     .ffn = 176,
                     .layers = 2,
                     .batch = 2,
                     .seq = 3,
                     .cache = 12};
    searched s;
    const relation *fixed[64] = {NULL};
    relation odd[64];
    plan p;
    error e = {0};
    const i64 heads[] = {0, 3, 4}; /* of 2 x 2 */
    const devset on[] = {DEV(2), DEV(0) | DEV(1)};
    ein_graph *g = small_llama_graph(&m);
    search_graph(&s, &g->g, "host:3");
    assert_in_range(s.g.leaves.n, 1, 64);
    for (int i = 0; i < s.g.leaves.n; i++)
        fixed[i] = s.plan.leaves[i].devices[0] != DEV(HOST) ? &s.plan.leaves[i] : NULL;
    if (search_fixed(&s, fixed, &p, &e) != EIN_OK) fail_msg("%s", e.line);
    for (int i = 0; i < p.n_leaves; i++) assert_true(ein__relation_equal(&p.leaves[i], &s.plan.leaves[i]));
    for (int i = 0; i < s.g.leaves.n; i++) {
        const leaf *l = &s.g.leaves.items[i];
        i64 numel = ein__value_numel(&s.g, l->value), *point = ein__arena_get(&s.arena, 3, sizeof *point);
        fixed[i] = NULL;
        if (l->kind != LEAF_STATE && l->kind != LEAF_PARAMETER) continue;
        assert_non_null(point);
        for (int k = 0; k < 3; k++)
            point[k] = l->kind == LEAF_STATE ? heads[k] * (numel / 4) : k * (numel / 2);
        odd[i] = (relation){.n_axes = 1, .n_blocks = 2, .n_partials = 1, .devices = on};
        odd[i].axes[0] = (axis){.extent = numel, .n_parts = 2, .lo = point, .hi = point + 1};
        assert_int_equal(ein__relation_canonical(&s.arena, &odd[i]), EIN_OK);
        assert_int_equal(ein__relation_check(&odd[i], numel, 3, NULL), EIN_OK);
        fixed[i] = &odd[i];
    }
    if (search_fixed(&s, fixed, &p, &e) != EIN_OK) fail_msg("%s", e.line);
    for (int i = 0; i < p.n_leaves; i++)
        if (fixed[i] != NULL) assert_true(ein__relation_equal(&p.leaves[i], fixed[i]));
    s.plan = p;
    assert_bytes(&s, -1);
    free_searched(&s);
    ein_graph_free(g);
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
        cmocka_unit_test(test_prefill_block), cmocka_unit_test(test_decode_block),
        cmocka_unit_test(test_layers),        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_fixed_layouts), cmocka_unit_test(test_incompatible),
        cmocka_unit_test(test_failing_model), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
