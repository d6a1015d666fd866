/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/graph/graph.h"
#include "tools/model.h"

static model parse(arena *a, const char *source)
{
    model m;
    error e = {0};
    if (model_parse(a, source, &m, &e) != EIN_OK) fail_msg("%s: %s", source, e.line);
    return m;
}

static void refuse(const char *source, ein_status want, const char *named)
{
    arena a = {0};
    model m;
    error e = {0};
    assert_int_equal(model_parse(&a, source, &m, &e), want);
    if (strstr(e.line, named) == NULL) fail_msg("%s: \"%s\" does not name \"%s\"", source, e.line, named);
    ein__arena_free(&a);
}

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        i64 hidden, heads, kv_heads, ffn, layers, vocabulary;
        double theta;
        i64 billions_times_ten; /* parameters with embedding and head */
    } known[] = {
        {"llama-7b", 4096, 32, 32, 11008, 32, 32000, 1e4, 67},
        {"llama-13b", 5120, 40, 40, 13824, 40, 32000, 1e4, 130},
        {"llama-65b", 8192, 64, 64, 22016, 80, 32000, 1e4, 653},
        {"llama2-70b", 8192, 64, 8, 28672, 80, 32000, 1e4, 690},
        {"llama3-8b", 4096, 32, 8, 14336, 32, 128256, 5e5, 80},
        {"llama3-70b", 8192, 64, 8, 28672, 80, 128256, 5e5, 706},
    };
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++) {
        arena a = {0};
        model m = parse(&a, known[i].name);
        const sizes *l = &m.sizes;
        assert_ptr_equal(m.family, &family_llama);
        assert_int_equal(l->hidden, known[i].hidden);
        assert_int_equal(l->heads, known[i].heads);
        assert_int_equal(l->kv_heads, known[i].kv_heads);
        assert_int_equal(l->ffn, known[i].ffn);
        assert_int_equal(l->layers, known[i].layers);
        assert_int_equal(l->vocabulary, known[i].vocabulary);
        assert_true(m.llama.theta == known[i].theta && m.llama.experts == 0);
        i64 layer =
            2 * l->hidden * l->head_size * (l->heads + l->kv_heads) + 3 * l->hidden * l->ffn + 2 * l->hidden;
        i64 all = layer * l->layers + 2 * l->vocabulary * l->hidden + l->hidden;
        assert_int_equal((all + 50000000) / 100000000, known[i].billions_times_ten);
        ein__arena_free(&a);
    }
}

static void test_options(void **state)
{
    (void)state;
    arena a = {0};
    model m = parse(&a, "llama-7b:layers=2,batch=3,seq=1,dtype=f32,cached=2048,head=1");
    assert_int_equal(m.sizes.layers, 2);
    assert_int_equal(m.use.batch, 3);
    assert_int_equal(m.use.seq, 1);
    assert_int_equal(m.use.cached, 2048);
    assert_int_equal(m.use.capacity, 2049);
    assert_int_equal(m.use.head, 1);
    assert_int_equal(model_scalar(&m, "position"), 2048);
    assert_int_equal(model_scalar(&m, "length"), 2049);
    m = parse(&a, "llama-7b");
    assert_true(m.use.batch == 1 && m.use.seq == 512 && m.use.cached == 0 && m.use.capacity == 0);
    assert_true(m.use.head == 0 && m.use.dtype == EIN_F32 && m.use.wanted == LOGITS);
    assert_int_equal(parse(&a, "llama-7b:dtype=bf16").use.dtype, EIN_BF16);
    assert_int_equal(parse(&a, "mlp:dtype=f64").use.dtype, EIN_F64);
    m = parse(&a, "llama-7b:hidden=512");
    assert_true(m.sizes.hidden == 512 && m.sizes.heads == 32 && m.sizes.head_size == 16 &&
                m.sizes.ffn == 1376);
    m = parse(&a, "llama2-70b:hidden=128");
    assert_true(m.sizes.head_size == 2 && m.sizes.kv_heads == 8 && m.sizes.ffn == 448);
    m = parse(&a, "llama-13b:hidden=80"); /* 13824 * 80 / 5120 = 216, to a multiple of 16 */
    assert_int_equal(m.sizes.ffn, 224);
    m = parse(&a, "mlp");
    assert_true(m.family == &family_mlp && m.use.batch == 4096 && m.sizes.layers == 8 && m.sizes.hidden == 8192);
    m = parse(&a, "mlp:layers=2,hidden=64");
    assert_true(m.sizes.layers == 2 && m.sizes.hidden == 64 && m.use.batch == 4096);
    m = parse(&a, "matmul:m=2,n=3,k=4");
    assert_true(m.family == &family_matmul && m.matmul.m == 2 && m.matmul.n == 3 && m.matmul.k == 4);
    ein__arena_free(&a);
}

static void test_refusals(void **state)
{
    (void)state;
    refuse("llama-8b", EIN_INVALID, "llama-8b");
    refuse("llama-8b", EIN_INVALID, "llama3-70b, moe, minilm, gpt2, vit-b16, mlp, matmul");
    refuse("", EIN_INVALID, "\"\"");
    refuse("gpt2:head=1", EIN_INVALID, "known: layers, batch, seq, cached, hidden, dtype");
    refuse("gpt2:seq=1024,cached=1", EIN_INVALID, "max_position_embeddings, 1024");
    refuse("minilm:seq=513", EIN_INVALID, "513 tokens exceed max_position_embeddings, 512");
    refuse("vit-b16:seq=1", EIN_INVALID, "\"seq\" is unknown (known: layers, batch, hidden, dtype)");
    refuse("vit-b16:hidden=100", EIN_INVALID, "multiple of the 12 heads");
    refuse("llama-7b:", EIN_INVALID, "\"\"");
    refuse("llama-7b:depth=1", EIN_INVALID, "\"depth\" is unknown (known: layers, batch, seq");
    refuse("llama-7b:layer=1", EIN_INVALID, "\"layer\"");
    refuse("llama-7b:layers", EIN_INVALID, "\"layers\" has no value");
    refuse("llama-7b:layers=", EIN_INVALID, "layers=");
    refuse("llama-7b:layers=0", EIN_INVALID, "layers=0");
    refuse("llama-7b:layers=1x", EIN_INVALID, "layers=1x");
    refuse("llama-7b:layers=-1", EIN_INVALID, "layers=-1");
    refuse("llama-7b:layers= 1", EIN_INVALID, "layers= 1");
    refuse("llama-7b:seq=99999999999999999999", EIN_INVALID, "seq=99999999999999999999");
    refuse("llama-7b:seq=1,seq=2", EIN_INVALID, "\"seq\" is given twice");
    refuse("llama-7b:dtype=f32,dtype=f32", EIN_INVALID, "\"dtype\" is given twice");
    refuse("llama-7b:head=2", EIN_INVALID, "head=2");
    refuse("llama-7b:dtype=f8", EIN_INVALID, "dtype=f8");
    refuse("llama-7b:hidden=100", EIN_INVALID, "hidden=100");
    refuse("llama-7b:hidden=32", EIN_INVALID, "hidden=32"); /* one element a head cannot turn */
    refuse("mlp:seq=1", EIN_INVALID, "\"seq\" is unknown (known: batch, layers, hidden");
    refuse("matmul", EIN_INVALID, "m is missing");
    refuse("matmul:m=1,n=1", EIN_INVALID, "k is missing");
}

static i64 dimension(const graph *g, const char *name, int d)
{
    for (int i = 0; i < g->leaves.n; i++) {
        if (strcmp(g->leaves.items[i].name, name) == 0)
            return g->values.items[g->leaves.items[i].value].shape[d];
    }
    fail_msg("no leaf %s", name);
    return 0;
}

static int count(const graph *g, leaf_kind kind)
{
    int n = 0;
    for (int i = 0; i < g->leaves.n; i++) n += g->leaves.items[i].kind == kind;
    return n;
}

static ein_graph *build(const char *source)
{
    arena a = {0};
    ein_graph *g;
    model m = parse(&a, source);
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    if (model_build(&m, &(naming){.prefix = m.family->prefixes[0]}, g) != EIN_OK) fail_msg("%s: %s", source, ein_graph_error(g));
    ein__arena_free(&a);
    return g;
}

static void expect_output(const ein_graph *g, const char *name, int rank, const i64 *shape)
{
    assert_int_equal(g->g.outputs.n, 1);
    assert_string_equal(g->g.outputs.items[0].name, name);
    const value_info *v = &g->g.values.items[g->g.outputs.items[0].value];
    assert_int_equal(v->rank, rank);
    for (int i = 0; i < rank; i++) assert_int_equal(v->shape[i], shape[i]);
}

static void test_block(void **state)
{
    (void)state;
    ein_graph *g = build("llama2-70b:layers=2,batch=2,seq=6,hidden=256");
    assert_int_equal(count(&g->g, LEAF_PARAMETER), 2 * 9);
    assert_int_equal(count(&g->g, LEAF_INPUT), 1);
    assert_int_equal(count(&g->g, LEAF_STATE), 0);
    assert_int_equal(dimension(&g->g, "model.layers.1.self_attn.k_proj.weight", 0), 8 * 4);
    assert_int_equal(dimension(&g->g, "model.layers.1.mlp.down_proj.weight", 1), 896);
    expect_output(g, "y", 3, (const i64[]){2, 6, 256});
    ein_graph_free(g);
}

static void test_decode(void **state)
{
    (void)state;
    ein_graph *g = build("llama3-8b:layers=3,batch=2,seq=1,cached=20,hidden=256");
    assert_int_equal(count(&g->g, LEAF_STATE), 2 * 3);
    assert_int_equal(g->g.scalars.n, 2);
    assert_string_equal(g->g.scalars.items[0], "position");
    assert_int_equal(dimension(&g->g, "cache.2.v", 0), 2);
    assert_int_equal(dimension(&g->g, "cache.2.v", 1), 8);
    assert_int_equal(dimension(&g->g, "cache.2.v", 2), 21);
    assert_int_equal(dimension(&g->g, "cache.2.v", 3), 8);
    expect_output(g, "y", 3, (const i64[]){2, 1, 256});
    ein_graph_free(g);
}

static void test_head(void **state)
{
    (void)state;
    ein_graph *g = build("llama-7b:layers=1,seq=5,hidden=64,head=1");
    assert_int_equal(count(&g->g, LEAF_PARAMETER), 9 + 3);
    assert_int_equal(g->g.values.items[g->g.leaves.items[0].value].dtype, EIN_F32); /* the rotary table */
    assert_int_equal(dimension(&g->g, "lm_head.weight", 0), 32000);
    expect_output(g, "logits", 3, (const i64[]){1, 5, 32000});
    ein_graph_free(g);
}

static void test_others(void **state)
{
    (void)state;
    ein_graph *g = build("mlp:batch=4,layers=3,hidden=8");
    assert_int_equal(count(&g->g, LEAF_PARAMETER), 3);
    expect_output(g, "y", 2, (const i64[]){4, 8});
    ein_graph_free(g);
    g = build("matmul:m=2,n=3,k=4");
    expect_output(g, "c", 2, (const i64[]){2, 3});
    ein_graph_free(g);
}

/* Llama 3.1: 8 times slower where a turn takes longer than the original context, unchanged where it is
 * short. */
static void test_scaled_frequencies(void **state)
{
    (void)state;
    sizes s = {.head_size = 128};
    llama m = {.theta = 5e5};
    assert_true(llama_frequency(&s, &m, 0) == 1);
    assert_float_equal(llama_frequency(&s, &m, 32), sqrt(1 / 5e5), 1e-12);
    double last = llama_frequency(&s, &m, 63), middle = llama_frequency(&s, &m, 32);
    m = (llama){.theta = 5e5, .scaling = ROPE_LLAMA3, .factor = 8, .low_frequency = 1, .high_frequency = 4,
                .original_positions = 8192};
    assert_true(llama_frequency(&s, &m, 0) == 1);
    assert_float_equal(llama_frequency(&s, &m, 63), last / 8, 1e-15);
    double turns = 8192 * middle / (2 * acos(-1.0)), keep = (turns - 1) / 3; /* 1.84 turns: in between */
    assert_true(turns > 1 && turns < 4);
    assert_float_equal(llama_frequency(&s, &m, 32), middle * (keep + (1 - keep) / 8), 1e-12);
    m.scaling = ROPE_LINEAR;
    assert_float_equal(llama_frequency(&s, &m, 32), middle / 8, 1e-12);
}

/* Counted by hand: parameters of the published models. */
static void test_sizes_of_others(void **state)
{
    (void)state;
    static const struct { const char *name; i64 parameters; } known[] = {
        {"gpt2", 124439808}, {"minilm", 22565376}, {"vit-b16", 86567656}};
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++) {
        ein_graph *g = build(known[i].name);
        i64 n = 0;
        for (int k = 0; k < g->g.leaves.n; k++) {
            if (g->g.leaves.items[k].kind == LEAF_PARAMETER) n += ein__value_numel(&g->g, g->g.leaves.items[k].value);
        }
        assert_int_equal(n, known[i].parameters);
        ein_graph_free(g);
    }
}

/* 40 tokens, two choices each, a quarter more room: 12.5, so 13 slots for each of 8. */
static void test_experts(void **state)
{
    (void)state;
    llama m = {.experts = 8, .chosen = 2, .slots = 1.25};
    assert_int_equal(moe_capacity(&m, 40), 13);
    assert_int_equal(moe_capacity(&m, 1), 1);
    ein_graph *g = build("moe:hidden=128,seq=40");
    assert_int_equal(count(&g->g, LEAF_PARAMETER), 2 + 4 + 4);
    assert_int_equal(dimension(&g->g, "model.layers.0.block_sparse_moe.w1", 0), 8);
    assert_int_equal(dimension(&g->g, "model.layers.0.block_sparse_moe.w2", 2), 448);
    assert_int_equal(dimension(&g->g, "model.layers.0.block_sparse_moe.gate.weight", 0), 8);
    expect_output(g, "y", 3, (const i64[]){1, 40, 128});
    ein_graph_free(g);
}

/* Layers of Gemma 2 take turns, those of Qwen2 change once. */
static void test_windows(void **state)
{
    (void)state;
    llama m = {.window = 7, .window_first = 0, .window_period = 2};
    assert_true(llama_window(&m, 0) == 7 && llama_window(&m, 1) == 0 && llama_window(&m, 2) == 7);
    m = (llama){.window = 7, .window_first = 2, .window_period = 1};
    assert_true(llama_window(&m, 1) == 0 && llama_window(&m, 2) == 7 && llama_window(&m, 3) == 7);
    m.window = 0;
    assert_int_equal(llama_window(&m, 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),    cmocka_unit_test(test_options),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_block),
        cmocka_unit_test(test_decode),   cmocka_unit_test(test_head),
        cmocka_unit_test(test_others),   cmocka_unit_test(test_scaled_frequencies),
        cmocka_unit_test(test_sizes_of_others), cmocka_unit_test(test_experts),
        cmocka_unit_test(test_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
