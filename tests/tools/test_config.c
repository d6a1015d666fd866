/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/model.h"

typedef struct folder {
    char path[64], file[96];
} folder;

static int make_folder(void **state)
{
    folder *f = calloc(1, sizeof *f);
    if (f == NULL) return -1;
    strcpy(f->path, "/tmp/ein-config-XXXXXX");
    *state = f;
    if (mkdtemp(f->path) == NULL) return -1;
    snprintf(f->file, sizeof f->file, "%s/config.json", f->path);
    return 0;
}

static int remove_folder(void **state)
{
    folder *f = *state;
    unlink(f->file);
    int failed = rmdir(f->path);
    free(f);
    return failed;
}

static void put(const folder *f, const char *text)
{
    FILE *out = fopen(f->file, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

/* Members every config here has, but for those that a case changes. */
#define KIND "\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_act\":\"silu\","
#define SIZES "\"hidden_size\":64,\"num_attention_heads\":8,\"intermediate_size\":96,"
#define REST "\"num_hidden_layers\":2,\"vocab_size\":100"
#define WITH(more) "{" KIND SIZES REST "," more "}"

static model accept(const folder *f, arena *a, const char *text, const char *options)
{
    char source[160];
    model m;
    error e = {0};
    put(f, text);
    snprintf(source, sizeof source, "%s%s", f->file, options);
    if (model_parse(a, source, &m, &e) != EIN_OK) fail_msg("%s: %s", text, e.line);
    return m;
}

static void refuse(const folder *f, const char *text, const char *options, ein_status want, const char *named)
{
    arena a = {0};
    char source[160];
    model m;
    error e = {0};
    put(f, text);
    snprintf(source, sizeof source, "%s%s", f->file, options);
    ein_status status = model_parse(&a, source, &m, &e);
    if (status != want || strstr(e.line, named) == NULL) {
        fail_msg("%s: status %d, \"%s\" does not name %s", text, (int)status, e.line, named);
    }
    ein__arena_free(&a);
}

static void test_defaults(void **state)
{
    arena a = {0};
    model m = accept(*state, &a, "{" KIND SIZES REST "}", "");
    assert_int_equal(m.kind, MODEL_LLAMA);
    assert_true(m.llama.hidden == 64 && m.llama.heads == 8 && m.llama.kv_heads == 8 &&
                m.llama.head_size == 8);
    assert_true(m.llama.ffn == 96 && m.llama.layers == 2 && m.llama.vocabulary == 100);
    assert_true(m.llama.theta == 1e4 && m.llama.eps == 1e-6 && !m.llama.scaling.on);
    assert_true(!m.llama.tied && !m.llama.attention_bias && !m.llama.mlp_bias);
    assert_true(m.use.batch == 1 && m.use.seq == 512 && m.use.head == 0);
    assert_null(m.note);
    ein__arena_free(&a);
}

static void test_all_members(void **state)
{
    arena a = {0};
    model m = accept(
        *state, &a,
        WITH("\"num_key_value_heads\":2,\"head_dim\":16,\"rms_norm_eps\":1e-05,\"rope_theta\":500000.0,"
             "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,"
             "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":8192},"
             "\"tie_word_embeddings\":true,\"attention_bias\":true,\"mlp_bias\":true,"
             "\"max_position_embeddings\":131072,\"torch_dtype\":\"bfloat16\",\"bos_token_id\":1,"
             "\"use_cache\":true,\"transformers_version\":\"4.43.0\",\"quantization_config\":null"),
        ":layers=1,seq=1,cached=7,head=1");
    assert_true(m.llama.kv_heads == 2 && m.llama.head_size == 16 && m.llama.eps == 1e-5 &&
                m.llama.theta == 5e5);
    assert_true(m.llama.scaling.on && m.llama.scaling.factor == 8 &&
                m.llama.scaling.original_positions == 8192);
    assert_true(m.llama.scaling.low_frequency == 1 && m.llama.scaling.high_frequency == 4);
    assert_true(m.llama.tied && m.llama.attention_bias && m.llama.mlp_bias);
    assert_true(m.llama.layers == 1 && m.use.cached == 7 && m.use.head == 1);
    assert_non_null(m.note);
    assert_non_null(strstr(m.note, "bfloat16"));
    ein__arena_free(&a);
}

static void test_folder_and_new_form(void **state)
{
    const folder *f = *state;
    arena a = {0};
    model m;
    error e = {0};
    put(f,
        WITH("\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":12345.0},\"dtype\":\"float32\""));
    assert_int_equal(model_parse(&a, f->path, &m, &e), EIN_OK);
    assert_true(m.llama.theta == 12345.0 && !m.llama.scaling.on);
    assert_null(m.note);
    char source[128];
    snprintf(source, sizeof source, "%s:seq=3", f->path);
    assert_int_equal(model_parse(&a, source, &m, &e), EIN_OK);
    assert_int_equal(m.use.seq, 3);
    ein__arena_free(&a);
}

static void test_biases_and_tie_build(void **state)
{
    arena a = {0};
    model m =
        accept(*state, &a,
               WITH("\"tie_word_embeddings\":true,\"attention_bias\":true,\"mlp_bias\":true,\"rope_scaling\":"
                    "{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,"
                    "\"original_max_position_embeddings\":8}"),
               ":seq=4,head=1,layers=1");
    ein_graph *g;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    if (model_build(&m, g) != EIN_OK) fail_msg("%s", ein_graph_error(g));
    ein_graph_free(g);
    ein__arena_free(&a);
}

static void test_broken_text(void **state)
{
    const folder *f = *state;
    char where[128];
    snprintf(where, sizeof where, "%s:3:", f->file);
    refuse(f, "{\n\"model_type\": \"llama\",\n\"hidden_size\": }", "", EIN_INVALID, where);
    refuse(f, "", "", EIN_INVALID, ":1:");
    refuse(f, "[]", "", EIN_INVALID, "must be an object");
    refuse(f, WITH("\"hidden_size\":64"), "", EIN_INVALID, "duplicate");
    refuse(f, WITH("\"rms_norm_eps\":1e999"), "", EIN_INVALID, "overflow");
    refuse(f, "{" KIND SIZES REST "} x", "", EIN_INVALID, ":1:");
}

static void test_missing_and_mistyped(void **state)
{
    const folder *f = *state;
    refuse(f, "{" SIZES REST "}", "", EIN_INVALID, "\"model_type\" is missing");
    refuse(f, "{" KIND REST "}", "", EIN_INVALID, "\"hidden_size\" is missing");
    refuse(f, "{" KIND SIZES "\"vocab_size\":100}", "", EIN_INVALID, "\"num_hidden_layers\" is missing");
    refuse(f, "{" KIND SIZES "\"vocab_size\":100,\"num_hidden_layers\":null}", "", EIN_INVALID,
           "\"num_hidden_layers\"");
    refuse(f, "{" KIND SIZES "\"vocab_size\":100.5,\"num_hidden_layers\":1}", "", EIN_INVALID,
           "\"vocab_size\" must be");
    refuse(f, "{" KIND SIZES "\"vocab_size\":\"100\",\"num_hidden_layers\":1}", "", EIN_INVALID,
           "\"vocab_size\" must");
    refuse(f, "{" KIND SIZES "\"vocab_size\":0,\"num_hidden_layers\":1}", "", EIN_INVALID,
           "\"vocab_size\" is 0");
    refuse(f, "{" KIND SIZES "\"vocab_size\":-5,\"num_hidden_layers\":1}", "", EIN_INVALID,
           "\"vocab_size\" is -5");
    refuse(f, "{" KIND SIZES "\"vocab_size\":9,\"num_hidden_layers\":9007199254740993}", "", EIN_INVALID,
           "9007199");
    refuse(f, WITH("\"rms_norm_eps\":0"), "", EIN_INVALID, "\"rms_norm_eps\" is 0");
    refuse(f, WITH("\"rms_norm_eps\":\"small\""), "", EIN_INVALID, "\"rms_norm_eps\"");
    refuse(f, WITH("\"rope_theta\":-1"), "", EIN_INVALID, "\"rope_theta\" is -1");
    refuse(f, WITH("\"attention_bias\":0"), "", EIN_INVALID, "\"attention_bias\"");
    refuse(f, WITH("\"tie_word_embeddings\":\"no\""), "", EIN_INVALID, "\"tie_word_embeddings\"");
    refuse(f, "{\"model_type\":7," SIZES REST "}", "", EIN_INVALID, "\"model_type\"");
    refuse(f, "{\"model_type\":\"llama\",\"architectures\":\"x\"," SIZES REST "}", "", EIN_INVALID,
           "\"architectures\"");
}

static void test_contradictions(void **state)
{
    const folder *f = *state;
    refuse(f, WITH("\"num_key_value_heads\":3"), "", EIN_INVALID, "\"num_key_value_heads\" 3");
    refuse(f, WITH("\"head_dim\":7"), "", EIN_INVALID, "\"head_dim\" is 7");
    refuse(f, "{" KIND "\"hidden_size\":60,\"num_attention_heads\":8,\"intermediate_size\":96," REST "}", "",
           EIN_INVALID, "\"hidden_size\" 60");
    refuse(f, WITH("\"max_position_embeddings\":256"), "", EIN_INVALID, "max_position_embeddings, 256");
    refuse(f, WITH("\"max_position_embeddings\":256"), ":seq=1,cached=256", EIN_INVALID, "cached=256");
    arena a = {0};
    accept(f, &a, WITH("\"max_position_embeddings\":256"), ":seq=1,cached=255");
    ein__arena_free(&a);
    refuse(f, WITH("\"vocab_size2\":1"), ":hidden=32", EIN_INVALID, "\"hidden\" is unknown");
}

static void test_not_built(void **state)
{
    const folder *f = *state;
    refuse(f, "{\"model_type\":\"mistral\"," SIZES REST "}", "", EIN_UNSUPPORTED, "mistral");
    refuse(f,
           "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForSequenceClassification\"]," SIZES REST "}",
           "", EIN_UNSUPPORTED, "LlamaForSequenceClassification");
    refuse(f, "{\"model_type\":\"llama\",\"hidden_act\":\"gelu\"," SIZES REST "}", "", EIN_UNSUPPORTED,
           "gelu");
    refuse(f, WITH("\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}"), "", EIN_UNSUPPORTED, "linear");
    refuse(f, WITH("\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2}"), "", EIN_UNSUPPORTED, "yarn");
    refuse(f, WITH("\"rope_scaling\":{\"factor\":2}"), "", EIN_INVALID,
           "\"rope_scaling\" has no \"rope_type\"");
    refuse(f, WITH("\"rope_scaling\":2"), "", EIN_INVALID, "\"rope_scaling\" must be an object");
    refuse(f, WITH("\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8}"), "", EIN_INVALID,
           "\"low_freq_factor\" is missing");
    refuse(f,
           WITH("\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,"
                "\"high_freq_factor\":1,\"original_max_position_embeddings\":8192}"),
           "", EIN_INVALID, "\"high_freq_factor\"");
    refuse(f, WITH("\"quantization_config\":{\"bits\":4}"), "", EIN_INVALID, "\"quantization_config\"");
}

static void test_no_file(void **state)
{
    const folder *f = *state;
    arena a = {0};
    model m;
    error e = {0};
    unlink(f->file);
    assert_int_equal(model_parse(&a, f->path, &m, &e), EIN_IO);
    assert_non_null(strstr(e.line, f->file));
    put(f, "{}");
    ein__arena_free(&a);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_defaults),
        TEST(test_all_members),
        TEST(test_folder_and_new_form),
        TEST(test_broken_text),
        TEST(test_missing_and_mistyped),
        TEST(test_contradictions),
        TEST(test_not_built),
        TEST(test_no_file),
        TEST(test_biases_and_tie_build),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
