/* SPDX-License-Identifier: Apache-2.0 */
/* What else an op could be: prices by hand, and that the plan's own choice costs what the plan does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "optimizer/candidates.h"
#include "tests/harness/each_plan.h"
#include "tests/harness/small_llama.h"
#include "tests/optimizer/fixture.h"

static void candidates(searched *s, int node, candidate_list *out)
{
    pricer k;
    error e = {0};
    ein__pricer_init(&k, &s->g, s->plan.n_devices, &s->costs.model);
    if (ein__candidates(&k, &s->arena, &s->plan, node, out, &e) != EIN_OK) fail_msg("%s", e.line);
    ein__pricer_fini(&k);
}

/* A sum of x and w, 16 MiB each, on two devices. */
static void test_by_hand(void **state)
{
    (void)state;
    searched s;
    candidate_list c;
    ein_graph *g;
    const double bytes = 4096.0 * 1024 * 4, memory = 2.04e12;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(4096, 1024));
    ein_output(g, "y", ein_add(g, x, ein_parameter(g, "w", EIN_F32, SHAPE(4096, 1024))));
    search_graph(&s, &g->g, "dgx-a100:0,1");
    candidates(&s, 0, &c);
    int halves = 0, copies = 0, alone = 0, chosen = 0;
    for (int i = 0; i < c.n; i++) {
        const candidate *k = &c.items[i];
        bool half = k->choice.n_tuples == 2, copy = k->choice.devices[0] == 3;
        chosen += k->chosen;
        halves += half;
        copies += copy;
        alone += !half && !copy;
        assert_int_equal(k->part.compute, llround(3 * bytes / memory * 1e12 / (half ? 2 : 1)));
        assert_true(k->resident == bytes / (half ? 2 : 1));
        assert_int_equal(k->fits, half); /* 1.3 halves and a MiB are less than all of it */
        assert_true(i == 0 || c.items[i - 1].picoseconds <= k->picoseconds);
        if (k->chosen) assert_int_equal(k->picoseconds, llround(s.plan.predicted_us * 1e6));
    }
    assert_int_equal(chosen, 1);
    assert_true(halves >= 2 && copies == 1 && alone == 1); /* by rows, by columns; on both; on one */
    const candidate *second = ein__runner_up(&c);
    assert_true(second != NULL && second->fits && !second->chosen && second->choice.n_tuples == 2);
    free_searched(&s);
    ein_graph_free(g);
}

/* In loops and with caches too. */
static void test_blocks(void **state)
{
    (void)state;
    small_llama m = {.hidden = 512, .heads = 8, .kv_heads = 4, .head_size = 64, .ffn = 1536, .layers = 4, .batch = 1, .seq = 1, .cache = 256};
    searched s;
    ein_graph *g = small_llama_graph(&m);
    search_graph(&s, &g->g, "4xpcie");
    for (int i = 0; i < s.g.nodes.n; i++) {
        candidate_list c;
        candidates(&s, i, &c);
        assert_int_equal(c.n == 0, ein__node_is_view(&s.g.nodes.items[i]));
        int chosen = 0;
        for (int k = 0; k < c.n; k++) {
            if (!c.items[k].chosen) continue;
            chosen++;
            assert_int_equal(c.items[k].picoseconds, llround(s.plan.predicted_us * 1e6));
            assert_int_equal(c.items[k].part.times, 4);
        }
        assert_int_equal(chosen, c.n > 0);
    }
    free_searched(&s);
    ein_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_hand), cmocka_unit_test(test_blocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
