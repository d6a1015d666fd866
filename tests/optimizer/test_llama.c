/* SPDX-License-Identifier: Apache-2.0 */
/* Transformer blocks: what comes out, what it takes of memory, and layouts that are given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "optimizer/search.h"
#include "tests/harness/small_llama.h"
#include "tests/optimizer/fixture.h"

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
    if (ein__lower(&a, &s->g, &s->plan, &s->costs.machine, &p, &e) != EIN_OK) fail_msg("lowering: %s", e.line);
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
        for (int k = 0; k < 3; k++) point[k] = k * (numel / 2); /* a state: by batch */
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

/* The program of long inputs takes the caches where the program of single tokens put them, and the other way.
 */
static void test_shared_states(void **state)
{
    (void)state;
    const int64_t lengths[2] = {1, 5};
    for (int n = 2; n <= 8; n++) {
        small_llama m = {.hidden = 64, .heads = 8, .kv_heads = 4, .head_size = 8, .ffn = 96, .layers = 2};
        char host[32];
        m.batch = n % 4 + 1;
        m.cache = 10;
        snprintf(host, sizeof host, "host:%d", n);
        for (int first = 0; first < 2; first++) {
            searched s[2];
            ein_graph *g[2];
            plan p;
            error e = {0};
            const relation *fixed[64] = {NULL};
            int found = 0;
            for (int k = 0; k < 2; k++) {
                m.seq = lengths[k];
                g[k] = small_llama_graph(&m);
                search_graph(&s[k], &g[k]->g, host);
            }
            const searched *from = &s[first], *to = &s[1 - first];
            for (int i = 0; i < to->g.leaves.n; i++)
                for (int j = 0; j < from->g.leaves.n && to->g.leaves.items[i].kind == LEAF_STATE; j++)
                    if (strcmp(to->g.leaves.items[i].name, from->g.leaves.items[j].name) == 0) {
                        fixed[i] = &from->plan.leaves[j];
                        found++;
                    }
            assert_int_equal(found, 2);
            if (search_fixed(&s[1 - first], fixed, &p, &e) != EIN_OK) fail_msg("%s: %s", host, e.line);
            for (int i = 0; i < p.n_leaves; i++)
                if (fixed[i] != NULL) assert_true(ein__relation_equal(&p.leaves[i], fixed[i]));
            for (int k = 0; k < 2; k++) {
                free_searched(&s[k]);
                ein_graph_free(g[k]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefill_block), cmocka_unit_test(test_decode_block),
        cmocka_unit_test(test_layers),        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_fixed_layouts), cmocka_unit_test(test_shared_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
