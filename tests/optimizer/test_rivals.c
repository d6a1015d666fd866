/* SPDX-License-Identifier: Apache-2.0 */
/* Rivals: what each cuts of a LLaMA block, where they do not apply, and that any graph gets legal plans of them whose
 * prices are lowering's. That they compute what they should: tests/jit/test_rivals.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "jit/costs.h"
#include "optimizer/mesh.h"
#include "optimizer/price_plan.h"
#include "optimizer/rivals.h"
#include "tests/harness/each_plan.h"
#include "tests/harness/random_graph.h"
#include "tests/harness/small_llama.h"
#include "tests/optimizer/fixture.h"

enum { DATA, GATHERED, TENSOR, TENSOR_SP, LIBRARY, CONTEXT, HEADS, MESH1, MESH2, MESH3 };

/* A graph on a machine, and one of its rivals, in s->plan. */
static const char *open_rival(searched *s, const ein_graph *g, const char *machine, int which)
{
    error e = {0};
    rival_plan r;
    memset(s, 0, sizeof *s);
    test_costs_make(&s->costs, machine);
    assert_int_equal(ein__canonicalize(&g->g, &s->g, NULL), EIN_OK);
    if (ein__rival(&s->arena, &s->g, &s->costs.machine, &s->costs.model, 0, which, &r, &e) != EIN_OK) fail_msg("%s: %s", r.name, e.line);
    s->plan = r.plan;
    return r.why_not;
}

/* The same by the library's own costs, which know that masked pairs are not computed. */
static const char *open_rival_as_priced(searched *s, const ein_graph *g, const char *machine, int which)
{
    memset(s, 0, sizeof *s);
    test_costs_make(&s->costs, machine);
    assert_int_equal(ein__canonicalize(&g->g, &s->g, NULL), EIN_OK);
    assert_int_equal(ein__cost_model(&s->costs.arena, &s->costs.machine, &s->costs.model), EIN_OK);
    rival_plan r;
    assert_int_equal(ein__rival(&s->arena, &s->g, &s->costs.machine, &s->costs.model, 0, which, &r, NULL), EIN_OK);
    s->plan = r.plan;
    return r.why_not;
}

static const small_llama BLOCK = {.hidden = 512, .heads = 16, .kv_heads = 8, .head_size = 32, .ffn = 1536, .layers = 3,
                                  .batch = 1, .seq = 64};

/* The choice of the n-th node of that name, and its label that is cut first ("" for none). */
static const choice *choice_of(const searched *s, const char *name, int n, char label[8])
{
    for (int i = 0; i < s->g.nodes.n; i++) {
        const node *x = &s->g.nodes.items[i];
        if (ein__node_is_view(x) || strcmp(x->name, name) != 0 || n-- > 0) continue;
        const choice *c = &s->plan.nodes[i];
        strcpy(label, c->n_cuts > 0 ? x->spec.labels[c->cuts[0].labels[0]].name : "");
        return c;
    }
    fail_msg("no %s", name);
    return NULL;
}

static void assert_cut(const searched *s, const char *name, int n, const char *label, int parts)
{
    char got[8];
    const choice *c = choice_of(s, name, n, got);
    if (strcmp(got, label) != 0 || c->n_tuples != parts) fail_msg("%s %d: %s in %d, not %s in %d", name, n, got, c->n_tuples, label, parts);
}

static double fullest(const searched *s)
{
    double bytes[MAX_DEVICES], most = 0;
    ein__plan_resident(&s->g, &s->plan, bytes);
    for (int d = 0; d < s->plan.n_devices; d++) most = fmax(most, bytes[d]);
    return most;
}

static double all_weights(const graph *g)
{
    double bytes = 0;
    for (int i = 0; i < g->leaves.n; i++)
        if (g->leaves.items[i].kind == LEAF_PARAMETER)
            bytes += 4.0 * g->leaves.items[i].n_members * (double)ein__value_numel(g, g->leaves.items[i].value);
    return bytes;
}

/* Linears in canonical order: q, k, v, o, gate, up, down. */
static void assert_megatron(const searched *s, int p)
{
    for (int i = 0; i < 7; i++) assert_cut(s, "linear", i, i == 3 || i == 6 ? "k" : "n", p);
    assert_cut(s, "scaled_dot_product_attention", 0, "h", p);
    assert_cut(s, "rope", 0, "h", p);
    assert_cut(s, "map", 0, "d2", p);
    assert_true(fullest(s) < 1.01 * all_weights(&s->g) / p + 3 * 2 * 512 * 4);
}

static void test_tensor_parallel(void **state)
{
    (void)state;
    searched s, library;
    ein_graph *g = small_llama_graph(&BLOCK);
    assert_null(open_rival(&s, g, "dgx-a100", TENSOR));
    assert_megatron(&s, 8);
    assert_cut(&s, "rms_norm", 0, "", 1);
    assert_cut(&s, "add", 0, "", 1);
    assert_int_equal(ein__plan_mesh(&s.g, &s.plan), 1);
    assert_null(open_rival(&library, g, "dgx-a100", LIBRARY));
    /* Of two joins a layer, each 9 us longer; the output leaves from one device. */
    assert_float_equal(library.plan.predicted_us - s.plan.predicted_us, 3 * 2 * 9, 1e-6);
    free_searched(&s);
    free_searched(&library);
    assert_null(open_rival(&s, g, "dgx-a100", TENSOR_SP));
    assert_megatron(&s, 8);
    assert_cut(&s, "rms_norm", 0, "d1", 8);
    assert_cut(&s, "add", 0, "d1", 8);
    assert_int_equal(s.plan.carries[0].n_blocks, 8);
    free_searched(&s);
    ein_graph_free(g);
}

/* More devices than kv heads: neighbours share them, and queries are cut by groups too. */
static void test_few_heads(void **state)
{
    (void)state;
    searched s;
    small_llama m = BLOCK;
    m.kv_heads = 2;
    m.cache = 128;
    m.seq = 1;
    ein_graph *g = small_llama_graph(&m);
    assert_null(open_rival(&s, g, "dgx-a100", TENSOR));
    assert_cut(&s, "linear", 0, "n", 8);
    assert_cut(&s, "linear", 1, "n", 2);
    char label[8];
    const choice *c = choice_of(&s, "scaled_dot_product_attention", 0, label);
    assert_string_equal(label, "h");
    assert_int_equal(c->n_cuts, 2);
    assert_int_equal(c->cuts[0].n_parts, 2);
    assert_int_equal(c->cuts[1].labels[0], ATT_G);
    assert_int_equal(c->n_tuples, 8);
    c = choice_of(&s, "state_append", 0, label);
    assert_int_equal(c->n_tuples, 2);
    assert_int_equal(c->devices[1], 0xf0);
    free_searched(&s);
    ein_graph_free(g);
}

static void test_data_parallel(void **state)
{
    (void)state;
    searched s;
    small_llama m = BLOCK;
    m.batch = 8;
    ein_graph *g = small_llama_graph(&m);
    assert_null(open_rival(&s, g, "dgx-a100", DATA));
    for (int i = 0; i < 7; i++) assert_cut(&s, "linear", i, "d0", 8);
    assert_cut(&s, "scaled_dot_product_attention", 0, "b", 8);
    assert_int_equal(s.plan.predicted_bytes, 0);
    assert_true(fullest(&s) == all_weights(&s.g));
    free_searched(&s);
    assert_null(open_rival(&s, g, "dgx-a100", GATHERED));
    assert_cut(&s, "linear", 0, "d0", 8);
    double norms = 3 * 2 * 512 * 4, matrices = all_weights(&s.g) - norms;
    assert_true(fullest(&s) == matrices / 8 + norms);
    assert_int_equal(s.plan.predicted_bytes, (i64)(7 * matrices)); /* each device gets what it lacks */
    free_searched(&s);
    ein_graph_free(g);
}

static void test_by_positions(void **state)
{
    (void)state;
    searched s;
    char label[8];
    small_llama many = BLOCK; /* positions enough for attention to weigh more than weights read twice */
    many.seq = 8192;
    ein_graph *g = small_llama_graph(&many);
    assert_null(open_rival_as_priced(&s, g, "dgx-a100", CONTEXT));
    assert_cut(&s, "linear", 6, "d1", 16);
    const choice *c = choice_of(&s, "scaled_dot_product_attention", 0, label);
    assert_int_equal(c->cuts[0].labels[0], ATT_S);
    assert_int_equal(c->n_tuples, 16);
    for (int i = 0; i < 16; i++) assert_int_equal(c->devices[i], DEV(i < 8 ? i : 15 - i));
    /* Keys and values of 7 of 8 positions go to each device. */
    assert_int_equal(s.plan.predicted_bytes, 3 * 2 * 7 * (i64)8192 * 8 * 32 * 4);
    free_searched(&s);
    ein_graph_free(g);
    g = small_llama_graph(&BLOCK);
    assert_null(open_rival(&s, g, "dgx-a100", CONTEXT));
    assert_cut(&s, "linear", 6, "d1", 8);
    assert_int_equal(s.plan.predicted_bytes, 3 * 2 * 7 * 64 * 8 * 32 * 4);
    free_searched(&s);
    assert_null(open_rival(&s, g, "dgx-a100", HEADS));
    assert_cut(&s, "linear", 3, "d1", 8);
    assert_cut(&s, "scaled_dot_product_attention", 0, "h", 8);
    /* Of queries, keys, values and results, a device lacks 7 of 8 positions of its heads, or heads of its positions. */
    assert_int_equal(s.plan.predicted_bytes, 3 * 7 * 64 * (16 + 8 + 8 + 16) * 32 * 4 / 8);
    free_searched(&s);
    ein_graph_free(g);
    small_llama m = BLOCK;
    m.cache = 128;
    m.seq = 1;
    g = small_llama_graph(&m);
    assert_null(open_rival(&s, g, "dgx-a100", CONTEXT));
    assert_cut(&s, "state_append", 0, "t", 8);
    assert_cut(&s, "scaled_dot_product_attention", 0, "t", 8);
    assert_cut(&s, "linear", 0, "", 1);
    free_searched(&s);
    ein_graph_free(g);
}

/* More axes are no worse; a mesh's plan is one of so many axes; memory is kept. */
static void test_meshes(void **state)
{
    (void)state;
    static const char *const machines[] = {"dgx-a100", "dgx-a100:0,1,2,3,4,5", "4xpcie"};
    ein_graph *g = small_llama_graph(&BLOCK);
    for (int i = 0; i < 3; i++) {
        double before = INFINITY;
        for (int k = 1; k <= 3; k++) {
            searched s;
            const char *why_not = open_rival(&s, g, machines[i], MESH1 + k - 1);
            assert_int_equal(why_not != NULL, i > 0 && k == 3);
            if (why_not == NULL) {
                int axes = ein__plan_mesh(&s.g, &s.plan);
                assert_true(s.plan.predicted_us <= before);
                assert_true(axes >= 0 && axes <= k);
                /* On 6 devices no cut of 8 heads is small enough: the least there is. */
                assert_true(i == 1 || fullest(&s) <= 1.3 * all_weights(&s.g) / s.plan.n_devices + (1 << 20));
                before = s.plan.predicted_us;
            }
            free_searched(&s);
        }
    }
    ein_graph_free(g);
}

static void test_not_applicable(void **state)
{
    (void)state;
    searched s;
    ein_graph *g;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_output(g, "y", ein_silu(g, ein_input(g, "x", EIN_F32, SHAPE(64, 64))));
    static const struct { int which; const char *why; } cases[] = {{TENSOR, "there is no weight to cut"},
                                                                   {CONTEXT, "there is no attention"},
                                                                   {HEADS, "there is no attention"},
                                                                   {MESH2, "the number of devices has no two factors"}};
    for (int i = 0; i < 4; i++) {
        assert_string_equal(open_rival(&s, g, "host:3", cases[i].which), cases[i].why);
        free_searched(&s);
    }
    assert_string_equal(open_rival(&s, g, "host:1", MESH1), "one device is no mesh");
    free_searched(&s);
    ein_graph_free(g);
}

static void test_random_graphs(void **state)
{
    (void)state;
    int plans[RIVALS] = {0};
    for (int seed = 0; seed < 40; seed++) {
        random_graph r;
        char host[16];
        snprintf(host, sizeof host, "host:%d", seed % 8 + 1);
        assert_int_equal(random_graph_make((uint64_t)seed, 8, &r), EIN_OK);
        for (int which = 0; which < RIVALS; which++) {
            searched s;
            if (open_rival(&s, r.graph, host, which) == NULL) {
                assert_bytes(&s, seed);
                plans[which]++;
            }
            free_searched(&s);
        }
        random_graph_free(&r);
    }
    assert_int_equal(plans[DATA], 40);
    for (int which = 0; which < RIVALS; which++) assert_true(plans[which] > 0 || which == CONTEXT || which == HEADS);
}

static void test_no_memory(void **state)
{
    (void)state;
    small_llama m = {.hidden = 32, .heads = 2, .kv_heads = 2, .head_size = 16, .ffn = 32, .layers = 1, .batch = 2, .seq = 4};
    ein_graph *g = small_llama_graph(&m);
    searched s;
    search_graph(&s, &g->g, "host:2");
    for (int which = 0; which < MESH1; which++) {
        bool done = false;
        for (long n = 1; !done; n++) {
            arena a = {NULL};
            rival_plan r;
            error e = {0};
            long live = ein__alloc_live();
            ein__alloc_fail_at(n);
            ein_status status = ein__rival(&a, &s.g, &s.costs.machine, &s.costs.model, 0, which, &r, &e);
            ein__alloc_fail_at(0);
            ein__arena_free(&a);
            ein__error_reset(&e);
            assert_int_equal(ein__alloc_live(), live);
            done = status == EIN_OK;
            if (!done) assert_int_equal(status, EIN_NO_MEMORY);
        }
    }
    free_searched(&s);
    ein_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensor_parallel), cmocka_unit_test(test_few_heads),  cmocka_unit_test(test_data_parallel),
        cmocka_unit_test(test_by_positions),    cmocka_unit_test(test_meshes),     cmocka_unit_test(test_not_applicable),
        cmocka_unit_test(test_random_graphs),   cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
