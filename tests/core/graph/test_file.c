/* SPDX-License-Identifier: Apache-2.0 */
/* Graph files: what is written and read back builds the same graph, for every call there is; and everything that can be
 * wrong with a file is refused by a line that names it. */
#define _XOPEN_SOURCE 700
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/graph/calls.h"
#include "core/graph/file.h"
#include "ein.h"

#define SHAPE(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (const int64_t[]){__VA_ARGS__}
#define TENSORS(...) (int)(sizeof((ein_tensor[]){__VA_ARGS__}) / sizeof(ein_tensor)), (const ein_tensor[]){__VA_ARGS__}
#define NONE ((ein_tensor){0})

/* ---- every call ---- */

static void add_elementwise(ein_graph *g, ein_tensor a, ein_tensor b)
{
    ein_tensor (*const ones[])(ein_graph *, ein_tensor) = {
        ein_neg, ein_abs, ein_sign, ein_floor, ein_ceil, ein_round, ein_exp, ein_log, ein_sqrt, ein_rsqrt, ein_reciprocal,
        ein_sin, ein_cos, ein_tanh, ein_sigmoid, ein_erf, ein_relu, ein_silu, ein_logical_not};
    ein_tensor (*const twos[])(ein_graph *, ein_tensor, ein_tensor) = {
        ein_add, ein_sub, ein_mul, ein_div, ein_pow, ein_maximum, ein_minimum, ein_eq, ein_ne, ein_lt, ein_le, ein_gt,
        ein_ge, ein_logical_and, ein_logical_or, ein_matmul};
    for (size_t i = 0; i < sizeof ones / sizeof *ones; i++) assert_int_not_equal(ones[i](g, a).id, 0);
    for (size_t i = 0; i < sizeof twos / sizeof *twos; i++) assert_int_not_equal(twos[i](g, a, b).id, 0);
    ein_gelu(g, a, 1);
    ein_clamp(g, a, -INFINITY, 0.1);
    ein_where(g, ein_lt(g, a, b), a, b);
    ein_cast(g, a, EIN_BF16);
    ein_map(g, "where(x0 < 0.25, x1, x0 * 0.1)", TENSORS(a, b));
    ein_einsum(g, "ij,jk->ik", TENSORS(a, b));
    ein_linear(g, a, b, NONE);
}

static void add_rows(ein_graph *g, ein_tensor a, ein_tensor ids)
{
    ein_tensor two[2], w = ein_parameter(g, "w \"é\"", EIN_F32, SHAPE(4));
    ein_tensor (*const reductions[])(ein_graph *, ein_tensor, int, const int *, int) = {
        ein_sum, ein_mean, ein_amax, ein_amin, ein_prod, ein_logsumexp, ein_any, ein_all};
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++) {
        assert_int_not_equal(reductions[i](g, a, 1, (int[]){-1}, 1).id, 0);
        assert_int_not_equal(reductions[i](g, a, 0, NULL, 0).id, 0);
    }
    ein_argmax(g, a, 0, 1);
    ein_argmin(g, a, 1, 0);
    ein_topk(g, a, 2, 1, 1, two);
    ein_cumsum(g, a, 0);
    ein_softmax(g, a, 1);
    ein_log_softmax(g, a, 0);
    ein_cross_entropy(g, a, ids);
    ein_rms_norm(g, a, NONE, 1e-6);
    ein_layer_norm(g, a, w, w, 1e-5);
    ein_batch_norm(g, a, w, w, NONE, w, 1e-3);
    ein_group_norm(g, ein_input(g, "x", EIN_F32, SHAPE(2, 4, 3)), 2, w, w, 1e-3);
    ein_moe_routing(g, a, 2, 3, 1, two);
}

static void add_windows(ein_graph *g)
{
    ein_tensor x = ein_input(g, "image", EIN_F32, SHAPE(1, 2, 6, 6)), w = ein_parameter(g, "k", EIN_F32, SHAPE(4, 1, 3, 3));
    ein_conv_options conv = {.size = sizeof conv, .stride = {2, 1}, .padding = {1, 1}, .padding_end = {1, 0}, .groups = 2};
    ein_pool_options pool = {.size = sizeof pool, .kernel = {2, 2}, .ceil_mode = 1, .exclude_padding = 1, .padding = {1, 1}};
    assert_int_not_equal(ein_conv2d(g, x, w, NONE, &conv).id, 0);
    ein_conv1d(g, ein_input(g, "line", EIN_F32, SHAPE(1, 2, 6)), ein_parameter(g, "k1", EIN_F32, SHAPE(4, 2, 3)),
               ein_parameter(g, "b1", EIN_F32, SHAPE(4)), NULL);
    ein_max_pool(g, x, &pool);
    ein_avg_pool(g, x, &pool);
}

static void add_attention(ein_graph *g)
{
    ein_tensor cosine, sine, parts[3];
    ein_scalar position = ein_scalar_input(g, "position"), length = ein_scalar_input(g, "length");
    ein_tensor x = ein_input(g, "heads", EIN_F32, SHAPE(1, 2, 2, 4)), state = ein_state_tensor(g, "cache", EIN_F32, SHAPE(1, 2, 8, 4));
    ein_rope_tables(g, 8, 4, 10000, &cosine, &sine);
    ein_rope(g, x, cosine, sine, position);
    ein_rope_interleaved(g, x, cosine, sine, (ein_scalar){0});
    ein_tensor k = ein_state_append(g, state, x, 2, position);
    ein_tensor mask = ein_input(g, "mask", EIN_BOOL, SHAPE(2, 8));
    ein_attention_options o = {.size = sizeof o, .causal = 2, .position = position, .length = length, .mask = mask,
                               .window = 3, .softcap = 20, .scale = 0.3};
    assert_int_not_equal(ein_scaled_dot_product_attention(g, x, k, k, &o).id, 0);
    ein_scaled_dot_product_attention(g, x, k, k, NULL);
    ein_scaled_dot_product_attention_partial(g, x, k, k, &o, parts);
}

static void add_views(ein_graph *g, ein_tensor a, ein_tensor ids)
{
    ein_tensor parts[2];
    ein_embedding(g, ids, a);
    ein_index_select(g, a, 1, ids);
    ein_gather(g, a, 1, ein_reshape(g, ids, SHAPE(4, 1)));
    ein_scatter_add(g, a, 1, ein_reshape(g, ids, SHAPE(4, 1)), ein_slice(g, a, 1, 0, 1));
    ein_one_hot(g, ids, 5, EIN_I8);
    ein_full(g, EIN_F64, SHAPE(2, 2), NAN);
    ein_full(g, EIN_F32, 0, NULL, -INFINITY);
    ein_arange(g, EIN_I64, 5, 1, 2);
    ein_reshape(g, a, SHAPE(4, 4)); /* nothing new */
    ein_reshape(g, a, SHAPE(2, -1));
    ein_permute(g, a, (int[]){1, 0});
    ein_slice_step(g, a, 0, 3, -5, -2);
    ein_concat(g, TENSORS(a, a), 1);
    ein_stack(g, TENSORS(a, a), 0);
    ein_split(g, a, SHAPE(1, 3), 0, parts);
    ein_transpose(g, parts[1], 0, 1);
    ein_squeeze(g, parts[0], 0);
    ein_unsqueeze(g, a, 1);
    ein_flatten(g, a, 0, 1);
    ein_expand(g, parts[0], SHAPE(3, -1));
    ein_pad(g, a, (int64_t[]){1, 0}, (int64_t[]){0, -1}, 0.5);
    ein_roll(g, a, -1, 0);
    ein_flip(g, a, 1, (int[]){0});
    ein_tril(g, a, -1);
    ein_triu(g, a, 1);
    ein_constant(g, EIN_BF16, SHAPE(2), (uint16_t[]){0x3f80, 0x7fc0});
    ein_constant(g, EIN_BOOL, SHAPE(2), (uint8_t[]){0, 1});
    ein_constant(g, EIN_I64, SHAPE(1), (int64_t[]){INT64_MIN});
}

static ein_graph *everything(void)
{
    ein_graph *g;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_tensor a = ein_input(g, "a", EIN_F32, SHAPE(4, 4)), b = ein_input(g, "b", EIN_F32, SHAPE(4, 4));
    ein_tensor ids = ein_input(g, "ids", EIN_I64, SHAPE(4));
    add_elementwise(g, a, b);
    add_rows(g, a, ids);
    add_windows(g);
    add_attention(g);
    add_views(g, a, ids);
    ein_output(g, "y", ein_add(g, a, b));
    assert_string_equal(ein_graph_error(g), "");
    return g;
}

static void put(const ein_graph *g, const char *weights, text *out)
{
    error e = {0};
    ein_status s = ein__graph_write(&g->g, weights, out, &e);
    assert_string_equal(e.line, "");
    assert_int_equal(s, EIN_OK);
}

static void test_every_call_comes_back(void **state)
{
    ein_graph *g = everything(), *h;
    text one = {0}, two = {0}, before = {0}, after = {0};
    (void)state;
    put(g, "model.safetensors", &one);
    assert_int_equal(ein_graph_create(&h), EIN_OK);
    ein_graph_read(h, one.bytes, one.n);
    assert_string_equal(ein_graph_error(h), "");
    assert_string_equal(ein_graph_weights(h), "model.safetensors");
    ein__graph_print(&g->g, &before);
    ein__graph_print(&h->g, &after);
    assert_string_equal(before.bytes, after.bytes);
    text key_before = {0}, key_after = {0};
    ein__graph_key(&g->g, &key_before);
    ein__graph_key(&h->g, &key_after);
    assert_int_equal(key_before.n, key_after.n);
    assert_memory_equal(key_before.bytes, key_after.bytes, key_before.n);
    put(h, "model.safetensors", &two);
    assert_string_equal(one.bytes, two.bytes);
    text *const texts[] = {&one, &two, &before, &after, &key_before, &key_after};
    for (int i = 0; i < 6; i++) ein__text_free(texts[i]);
    ein_graph_free(g);
    ein_graph_free(h);
}

/* A call that is not in everything() would not be tested. */
static void test_everything_has_every_call(void **state)
{
    static const char *const names[] = {
#undef CALL
#undef CALLS
#define CALL(n, name, ...) #name,
#define CALLS(n_results, n, name, ...) #name,
#include "core/graph/calls.def"
        "input", "parameter", "state_tensor", "constant", "scalar_input", "output", "rope_tables"};
    ein_graph *g = everything();
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool found = false;
        assert_non_null(ein__call_find(names[i]));
        for (int k = 0; k < g->g.calls.n; k++) found = found || strcmp(g->g.calls.items[k].form->name, names[i]) == 0;
        if (!found) fail_msg("everything() lacks %s", names[i]);
    }
    ein_graph_free(g);
}

static void test_form(void **state)
{
    ein_graph *g;
    text out = {0};
    (void)state;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_tensor x = ein_input(g, "x", EIN_BF16, SHAPE(2, 8)), w = ein_parameter(g, "w", EIN_BF16, SHAPE(4, 8));
    ein_output(g, "y", ein_softmax(g, ein_linear(g, x, w, NONE), -1));
    put(g, NULL, &out);
    assert_string_equal(out.bytes,
                        "{\"ein_graph\":1,\n\"calls\":[\n"
                        "{\"call\":\"input\",\"name\":\"x\",\"dtype\":\"bf16\",\"shape\":[2,8],\"out\":[\"t1\"]},\n"
                        "{\"call\":\"parameter\",\"name\":\"w\",\"dtype\":\"bf16\",\"shape\":[4,8],\"out\":[\"t2\"]},\n"
                        "{\"call\":\"linear\",\"x\":\"t1\",\"weight\":\"t2\",\"out\":[\"t3\"]},\n"
                        "{\"call\":\"softmax\",\"x\":\"t3\",\"axis\":-1,\"out\":[\"t4\"]},\n"
                        "{\"call\":\"output\",\"name\":\"y\",\"x\":\"t4\"}\n]}\n");
    ein__text_free(&out);
    ein_graph_free(g);
}

/* ---- refusals ---- */

#define HEAD "{\"ein_graph\":1,\"calls\":["
#define X "{\"call\":\"input\",\"name\":\"x\",\"dtype\":\"f32\",\"shape\":[2,3],\"out\":[\"t1\"]},"

static const struct { const char *source; ein_status status; const char *line; } bad[] = {
    {"", EIN_INVALID, "graph file: line 1, column 0: '[' or '{' expected near end of file"},
    {"[]", EIN_INVALID, "graph file: it has no \"ein_graph\", the version of its form"},
    {"{\"ein_graph\":2,\"calls\":[]}", EIN_UNSUPPORTED, "graph file: its form has version 2; 1 is known"},
    {"{\"ein_graph\":1}", EIN_INVALID,
     "graph file: it must have \"calls\", an array, may have \"weights\", a string, and nothing else"},
    {"{\"ein_graph\":1,\"calls\":[],\"more\":0}", EIN_INVALID,
     "graph file: it must have \"calls\", an array, may have \"weights\", a string, and nothing else"},
    {HEAD "5]}", EIN_INVALID, "graph file: call 0, ?: it must be an object with a \"call\""},
    {HEAD "{\"call\":\"sing\"}]}", EIN_INVALID, "graph file: call 0, sing: no such call"},
    {HEAD "{\"call\":\"custom\",\"op\":\"x\"}]}", EIN_INVALID, "graph file: call 0, custom: no such call"},
    {HEAD X "{\"call\":\"relu\",\"out\":[\"t2\"]}]}", EIN_INVALID, "graph file: call 1, relu: \"x\" is missing"},
    {HEAD X "{\"call\":\"relu\",\"x\":\"t9\",\"out\":[\"t2\"]}]}", EIN_INVALID,
     "graph file: call 1, relu: \"x\" is 't9', which no call before made"},
    {HEAD X "{\"call\":\"relu\",\"x\":1,\"out\":[\"t2\"]}]}", EIN_INVALID,
     "graph file: call 1, relu: \"x\" must name a tensor"},
    {HEAD X "{\"call\":\"relu\",\"x\":\"t1\",\"y\":1,\"out\":[\"t2\"]}]}", EIN_INVALID,
     "graph file: call 1, relu: \"y\" is no member of it"},
    {HEAD X "{\"call\":\"relu\",\"x\":\"t1\",\"x\":\"t1\",\"out\":[\"t2\"]}]}", EIN_INVALID,
     "graph file: line 1, column 120: duplicate object key near '\"x\"'"},
    {HEAD X "{\"call\":\"relu\",\"x\":\"t1\"}]}", EIN_INVALID, "graph file: call 1, relu: \"out\" is missing"},
    {HEAD X "{\"call\":\"relu\",\"x\":\"t1\",\"out\":[]}]}", EIN_INVALID,
     "graph file: call 1, relu: \"out\" must name 1 result"},
    {HEAD X "{\"call\":\"relu\",\"x\":\"t1\",\"out\":[\"t1\"]}]}", EIN_INVALID,
     "graph file: call 1, relu: \"out\" has 't1', which is made already"},
    {HEAD X "{\"call\":\"softmax\",\"x\":\"t1\",\"axis\":1.0,\"out\":[\"t2\"]}]}", EIN_INVALID,
     "graph file: call 1, softmax: \"axis\" must be an integer"},
    {HEAD X "{\"call\":\"softmax\",\"x\":\"t1\",\"axis\":4294967297,\"out\":[\"t2\"]}]}", EIN_INVALID,
     "graph file: call 1, softmax: \"axis\" is 4294967297; -2147483648 to 2147483647"},
    {HEAD X "{\"call\":\"permute\",\"x\":\"t1\",\"axes\":[0],\"out\":[\"t2\"]}]}", EIN_INVALID,
     "graph file: call 1, permute: \"axes\" has 1 entries for 2 dimensions"},
    {HEAD X "{\"call\":\"cast\",\"x\":\"t1\",\"dtype\":\"f31\",\"out\":[\"t2\"]}]}", EIN_INVALID,
     "graph file: call 1, cast: \"dtype\" is 'f31', which is no element type"},
    {HEAD X "{\"call\":\"clamp\",\"x\":\"t1\",\"lo\":\"low\",\"hi\":1,\"out\":[\"t2\"]}]}", EIN_INVALID,
     "graph file: call 1, clamp: \"lo\" must be a number, \"nan\", \"inf\" or \"-inf\""},
    {HEAD "{\"call\":\"constant\",\"dtype\":\"i8\",\"shape\":[2],\"data\":[1,300],\"out\":[\"t1\"]}]}", EIN_INVALID,
     "graph file: call 0, constant: \"data\" has 300, which is no i8"},
    {HEAD "{\"call\":\"constant\",\"dtype\":\"f32\",\"shape\":[2],\"data\":[1],\"out\":[\"t1\"]}]}", EIN_INVALID,
     "graph file: call 0, constant: \"data\" must be an array of 2 numbers"},
    {HEAD "{\"call\":\"constant\",\"dtype\":\"f32\",\"shape\":[1099511627776],\"data\":[1],\"out\":[\"t1\"]}]}", EIN_INVALID,
     "graph file: call 0, constant: \"shape\" has extent 1099511627776"},
    {HEAD "{\"call\":\"constant\",\"dtype\":\"f8e4m3\",\"shape\":[1],\"data\":[1],\"out\":[\"t1\"]}]}", EIN_DTYPE,
     "graph file: call 0: constant '': f8e4m3 is reserved, not built yet"},
    /* The builder's own lines. */
    {HEAD X "{\"call\":\"softmax\",\"x\":\"t1\",\"axis\":5,\"out\":[\"t2\"]}]}", EIN_INVALID,
     "graph file: call 1: softmax: axis 5 of a tensor of rank 2"},
    {HEAD X "{\"call\":\"max_pool\",\"x\":\"t1\",\"options\":{\"kernel\":[2]},\"out\":[\"t2\"]}]}", EIN_INVALID,
     "graph file: call 1, max_pool: \"kernel\" has 1 entries for 2 dimensions"},
    {HEAD X "{\"call\":\"max_pool\",\"x\":\"t1\",\"options\":{\"kernal\":[2,2]},\"out\":[\"t2\"]}]}", EIN_INVALID,
     "graph file: call 1, max_pool: \"options\" has 1 members, 0 are known"},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ein_graph *g;
        assert_int_equal(ein_graph_create(&g), EIN_OK);
        ein_status s = ein_graph_read(g, bad[i].source, strlen(bad[i].source));
        assert_string_equal(ein_graph_error(g), bad[i].line);
        assert_int_equal(s, bad[i].status);
        assert_int_equal(ein_graph_status(g), bad[i].status);
        ein_graph_free(g);
    }
}

static void kernel_reference(const ein_array *operands, ein_array *results, void *user) { (void)operands, (void)results, (void)user; }

static void test_a_program_s_own_op_is_not_written(void **state)
{
    ein_graph *g;
    ein_tensor y;
    char message[256];
    (void)state;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(4));
    ein_op op = {.size = sizeof op, .name = "mine", .version = "1", .n_labels = 1, .labels = &(ein_label){.name = "i"},
                 .n_operands = 1, .operands = (const char *[]){"i"}, .n_results = 1, .results = (const char *[]){"i"},
                 .kernel = "STEP_N(n_i) { ST(y0, tid, LD(x0, tid)); }", .grid = "1", .reference = kernel_reference};
    ein_custom(g, &op, &x, &y);
    ein_output(g, "y", y);
    assert_string_equal(ein_graph_error(g), "");
    assert_int_equal(ein_graph_save(g, "nowhere.json", NULL, message, sizeof message), EIN_UNSUPPORTED);
    assert_string_equal(message, "graph file: the op 'mine' is a program's own; a file cannot carry it");
    ein_graph_free(g);
}

static void test_files(void **state)
{
    ein_graph *g = everything(), *h;
    char message[256], path[] = "/tmp/ein-graph-XXXXXX";
    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(ein_graph_save(g, path, NULL, message, sizeof message), EIN_OK);
    assert_int_equal(ein_graph_create(&h), EIN_OK);
    assert_int_equal(ein_graph_load(h, path), EIN_OK);
    assert_null(ein_graph_weights(h));
    assert_int_equal(h->g.nodes.n, g->g.nodes.n);
    ein_graph_load(h, path);
    assert_string_equal(ein_graph_error(h), "graph file: the graph is not empty");
    ein_graph_free(h);
    unlink(path);
    assert_int_equal(ein_graph_create(&h), EIN_OK);
    assert_int_equal(ein_graph_load(h, path), EIN_IO);
    assert_int_equal(ein_graph_save(g, "/no/such/folder/g.json", NULL, message, sizeof message), EIN_IO);
    assert_non_null(strstr(message, "/no/such/folder"));
    ein_graph_free(g);
    ein_graph_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_comes_back), cmocka_unit_test(test_everything_has_every_call),
        cmocka_unit_test(test_form), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_a_program_s_own_op_is_not_written), cmocka_unit_test(test_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
