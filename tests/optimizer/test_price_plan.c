/* SPDX-License-Identifier: Apache-2.0 */
/* Prices of whole plans: the search's own of its plan, lowering's bytes of any plan, a plan by hand, trouble. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "optimizer/price_plan.h"
#include "tests/harness/each_plan.h"
#include "tests/harness/random_graph.h"
#include "tests/harness/random_plan.h"
#include "tests/harness/small_llama.h"
#include "tests/optimizer/fixture.h"

static void price(const searched *s, arena *a, const plan *p, plan_price *out)
{
    pricer k;
    error e = {0};
    ein__pricer_init(&k, &s->g, p->n_devices, &s->costs.model);
    if (ein__price_plan(&k, a, p, out, &e) != EIN_OK) fail_msg("%s", e.line);
    ein__pricer_fini(&k);
}

/* To the picosecond, and the nodes and ends sum up to it. */
static void assert_own_price(const searched *s)
{
    arena a = {NULL};
    plan_price got;
    price(s, &a, &s->plan, &got);
    i64 picoseconds = got.ends.exchange, bytes = got.ends.bytes;
    for (int i = 0; i < s->plan.n_nodes; i++) {
        picoseconds += (got.nodes[i].compute + got.nodes[i].exchange) * got.nodes[i].times;
        bytes += got.nodes[i].bytes * got.nodes[i].times;
    }
    assert_int_equal(got.picoseconds, llround(s->plan.predicted_us * 1e6));
    assert_int_equal(got.picoseconds, picoseconds);
    assert_int_equal(got.bytes, s->plan.predicted_bytes);
    assert_int_equal(got.bytes, bytes);
    ein__arena_free(&a);
}

static void test_price_of_the_search(void **state)
{
    (void)state;
    static const char *const machines[] = {"host:3", "dgx-1:0,1,2,3", "4xpcie", "host:8", "2xpcie-no-p2p"};
    int loops = 0;
    for (int seed = 0; seed < 50; seed++) {
        random_graph r;
        searched s;
        assert_int_equal(random_graph_make((uint64_t)seed, 8, &r), EIN_OK);
        search_graph(&s, &r.graph->g, machines[seed % 5]);
        assert_own_price(&s);
        loops += s.g.loops.n;
        free_searched(&s);
        random_graph_free(&r);
    }
    assert_true(loops > 2);
}

static void test_price_of_blocks(void **state)
{
    (void)state;
    small_llama m = {.hidden = 512, .heads = 8, .kv_heads = 4, .head_size = 64, .ffn = 1376, .layers = 4, .batch = 2};
    for (int cached = 0; cached < 2; cached++) {
        searched s;
        m.seq = cached ? 1 : 64;
        m.cache = cached ? 256 : 0;
        ein_graph *g = small_llama_graph(&m);
        search_graph(&s, &g->g, "dgx-a100");
        assert_int_equal(s.g.loops.n, 1);
        assert_own_price(&s);
        free_searched(&s);
        ein_graph_free(g);
    }
}

/* Whatever the plan, its bytes are those of the lowered program. */
static void test_bytes_of_any_plan(void **state)
{
    (void)state;
    i64 all = 0;
    for (int seed = 0; seed < 80; seed++) {
        random_graph r;
        searched s = {.arena = {NULL}};
        plan_price got;
        program lowered;
        error e = {0};
        char host[16];
        snprintf(host, sizeof host, "host:%d", seed % 8 + 1);
        assert_int_equal(random_graph_make((uint64_t)seed, 8, &r), EIN_OK);
        test_costs_make(&s.costs, host);
        assert_int_equal(ein__canonicalize(&r.graph->g, &s.g, NULL), EIN_OK);
        assert_int_equal(random_plan_make(&s.arena, &s.g, (uint64_t)seed, seed % 8 + 1, NULL, &s.plan), EIN_OK);
        if (ein__lower(&s.arena, &s.g, &s.plan, &s.costs.machine, &lowered, &e) != EIN_OK) fail_msg("seed %d: %s", seed, e.line);
        price(&s, &s.arena, &s.plan, &got);
        if (got.bytes != lowered.remote_bytes)
            fail_msg("seed %d: %lld bytes priced, %lld lowered", seed, (long long)got.bytes,
                     (long long)lowered.remote_bytes);
        all += got.bytes;
        free_searched(&s);
        random_graph_free(&r);
    }
    assert_true(all > 1000);
}

/* silu of a linear layer whose inputs k are cut in two, its rows cut again: by the numbers of the machine. */
static void test_a_plan_by_hand(void **state)
{
    (void)state;
    plan_draft d;
    plan_price got;
    searched s = {.arena = {NULL}};
    ein_graph *g;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(256, 512)), w = ein_parameter(g, "w", EIN_F32, SHAPE(128, 512));
    ein_output(g, "y", ein_silu(g, ein_linear(g, x, w, NONE)));
    draft_make(&d, g, 2);
    draft_cut(&d, "linear", 0, "k", (const int[]){2}, NULL);
    draft_cut(&d, "silu", 0, "d0", (const int[]){2}, NULL);
    draft_lay(&d, "w", 1, 2, (const int[]){0, 1});
    test_costs_make(&s.costs, "dgx-a100:0,1");
    s.g = d.graph;
    price(&s, &s.arena, &d.plan, &got);
    /* Each device pulls its half of the other's partials over the port, and adds two halves out of its memory. */
    i64 half = 256 * 128 * 4 / 2;
    double port = half / 235e9 + 3e-6, products = 256.0 * 128 * 256 * 2 / (0.8 * 19.5e12);
    assert_int_equal(got.bytes, 2 * half);
    assert_int_equal(got.nodes[0].compute, llround(fmax(products, 5e-6) * 1e12));
    assert_int_equal(got.nodes[1].exchange, llround(port * 1e12));
    assert_int_equal(got.nodes[1].bytes, 2 * half);
    double resident[MAX_DEVICES];
    ein__plan_resident(&s.g, &d.plan, resident);
    assert_true(resident[0] == 128 * 256 * 4 && resident[1] == 128 * 256 * 4 && resident[2] == 0);
    test_costs_free(&s.costs);
    ein__arena_free(&s.arena);
    free(draft_text(&d));
    ein_graph_free(g);
}

static void test_no_memory(void **state)
{
    (void)state;
    small_llama m = {.hidden = 64, .heads = 4, .kv_heads = 4, .head_size = 16, .ffn = 96, .layers = 2, .batch = 1, .seq = 8};
    searched s;
    ein_graph *g = small_llama_graph(&m);
    search_graph(&s, &g->g, "host:2");
    bool done = false;
    for (long nth = 1; !done; nth++) {
        pricer k;
        plan_price got;
        arena a = {NULL};
        error e = {0};
        long live = ein__alloc_live();
        ein__pricer_init(&k, &s.g, 2, &s.costs.model);
        ein__alloc_fail_at(nth);
        ein_status status = ein__price_plan(&k, &a, &s.plan, &got, &e);
        ein__alloc_fail_at(0);
        ein__pricer_fini(&k);
        ein__arena_free(&a);
        assert_int_equal(ein__alloc_live(), live);
        done = status == EIN_OK;
        if (!done) assert_int_equal(status, EIN_NO_MEMORY);
        ein__error_reset(&e);
    }
    free_searched(&s);
    ein_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_price_of_the_search), cmocka_unit_test(test_price_of_blocks),
        cmocka_unit_test(test_bytes_of_any_plan),   cmocka_unit_test(test_a_plan_by_hand),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
