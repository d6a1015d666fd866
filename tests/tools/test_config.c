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
    assert_ptr_equal(m.family, &family_llama);
    assert_true(m.sizes.hidden == 64 && m.sizes.heads == 8 && m.sizes.kv_heads == 8 && m.sizes.head_size == 8);
    assert_true(m.sizes.ffn == 96 && m.sizes.layers == 2 && m.sizes.vocabulary == 100 && m.sizes.positions == 2048);
    assert_true(m.llama.theta == 1e4 && m.sizes.eps == 1e-6 && m.llama.scaling == ROPE_PLAIN);
    assert_true(!m.llama.tied && !m.llama.qkv_bias && !m.llama.output_bias && !m.llama.mlp_bias);
    assert_true(m.use.batch == 1 && m.use.seq == 512 && m.use.head == 0 && m.use.dtype == EIN_F32);
    assert_true(m.stored_dtype == NULL && m.folder == NULL && m.n_ends == 0);
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
             "\"max_position_embeddings\":131072,\"torch_dtype\":\"bfloat16\",\"eos_token_id\":[7,9],"
             "\"use_cache\":true,\"transformers_version\":\"4.43.0\",\"quantization_config\":null"),
        ":layers=1,seq=1,cached=7,head=1");
    assert_true(m.sizes.kv_heads == 2 && m.sizes.head_size == 16 && m.sizes.eps == 1e-5 && m.llama.theta == 5e5);
    assert_true(m.llama.scaling == ROPE_LLAMA3 && m.llama.factor == 8 && m.llama.original_positions == 8192);
    assert_true(m.llama.low_frequency == 1 && m.llama.high_frequency == 4);
    assert_true(m.llama.tied && m.llama.qkv_bias && m.llama.output_bias && m.llama.mlp_bias);
    assert_true(m.sizes.layers == 1 && m.use.cached == 7 && m.use.capacity == 8 && m.use.head == 1);
    assert_string_equal(m.stored_dtype, "bfloat16");
    assert_true(m.n_ends == 2 && m.ends[0] == 7 && m.ends[1] == 9);
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
    assert_true(m.llama.theta == 12345.0 && m.llama.scaling == ROPE_PLAIN);
    assert_string_equal(m.stored_dtype, "float32");
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
    if (model_build(&m, &(naming){.prefix = m.family->prefixes[0]}, g) != EIN_OK) fail_msg("%s", ein_graph_error(g));
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
    refuse(f, WITH("\"max_position_embeddings\":256"), ":seq=257", EIN_INVALID, "max_position_embeddings, 256");
    refuse(f, WITH("\"max_position_embeddings\":256"), ":seq=1,cached=256", EIN_INVALID, "cached=256");
    arena a = {0};
    accept(f, &a, WITH("\"max_position_embeddings\":256"), ":seq=1,cached=255");
    assert_int_equal(accept(f, &a, WITH("\"max_position_embeddings\":256"), "").use.seq, 256);
    ein__arena_free(&a);
    refuse(f, WITH("\"vocab_size2\":1"), ":hidden=32", EIN_INVALID, "\"hidden\" is unknown");
}

static void test_not_built(void **state)
{
    const folder *f = *state;
    refuse(f, "{\"model_type\":\"mamba\"," SIZES REST "}", "", EIN_UNSUPPORTED, "\"mamba\", built are llama mistral");
    refuse(f,
           "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForSequenceClassification\"]," SIZES REST "}",
           "", EIN_UNSUPPORTED, "LlamaForSequenceClassification");
    refuse(f, "{\"model_type\":\"llama\",\"hidden_act\":\"mish\"," SIZES REST "}", "", EIN_UNSUPPORTED,
           "\"hidden_act\" is \"mish\"");
    refuse(f, WITH("\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}"), "", EIN_UNSUPPORTED, "dynamic");
    refuse(f, WITH("\"rope_scaling\":{\"type\":\"linear\"}"), "", EIN_INVALID, "\"factor\" is missing");
    refuse(f, WITH("\"partial_rotary_factor\":0.5"), "", EIN_INVALID, "\"partial_rotary_factor\"");
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

/* ---- files as they were published --------------------------------------------------------------------- */

static void test_llama2_and_3(void **state)
{
    arena a = {0};
    model m = accept(
        *state, &a,
        "{\"architectures\":[\"LlamaForCausalLM\"],\"bos_token_id\":1,\"eos_token_id\":2,\"hidden_act\":\"silu\","
        "\"hidden_size\":4096,\"initializer_range\":0.02,\"intermediate_size\":11008,\"max_position_embeddings\":4096,"
        "\"model_type\":\"llama\",\"num_attention_heads\":32,\"num_hidden_layers\":32,\"num_key_value_heads\":32,"
        "\"pretraining_tp\":1,\"rms_norm_eps\":1e-05,\"rope_scaling\":null,\"tie_word_embeddings\":false,"
        "\"torch_dtype\":\"float16\",\"transformers_version\":\"4.31.0.dev0\",\"use_cache\":true,\"vocab_size\":32000}",
        "");
    assert_true(m.sizes.head_size == 128 && m.sizes.positions == 4096 && m.llama.theta == 1e4 && m.ends[0] == 2);
    m = accept(
        *state, &a,
        "{\"architectures\":[\"LlamaForCausalLM\"],\"attention_bias\":false,\"attention_dropout\":0.0,"
        "\"bos_token_id\":128000,\"eos_token_id\":128001,\"hidden_act\":\"silu\",\"hidden_size\":4096,"
        "\"initializer_range\":0.02,\"intermediate_size\":14336,\"max_position_embeddings\":131072,\"mlp_bias\":false,"
        "\"model_type\":\"llama\",\"num_attention_heads\":32,\"num_hidden_layers\":32,\"num_key_value_heads\":8,"
        "\"pretraining_tp\":1,\"rms_norm_eps\":1e-05,\"rope_scaling\":{\"factor\":8.0,\"low_freq_factor\":1.0,"
        "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":8192,\"rope_type\":\"llama3\"},"
        "\"rope_theta\":500000.0,\"tie_word_embeddings\":false,\"torch_dtype\":\"bfloat16\",\"use_cache\":true,"
        "\"vocab_size\":128256}",
        "");
    assert_true(m.sizes.kv_heads == 8 && m.sizes.positions == 131072 && m.llama.scaling == ROPE_LLAMA3);
    ein__arena_free(&a);
}

static void test_mistral(void **state)
{
    const folder *f = *state;
    arena a = {0};
#define MISTRAL(more)                                                                                                  \
    "{\"architectures\":[\"MistralForCausalLM\"],\"bos_token_id\":1,\"eos_token_id\":2,\"hidden_act\":\"silu\","       \
    "\"hidden_size\":4096,\"initializer_range\":0.02,\"intermediate_size\":14336,\"max_position_embeddings\":32768,"   \
    "\"model_type\":\"mistral\",\"num_attention_heads\":32,\"num_hidden_layers\":32,\"num_key_value_heads\":8,"        \
    "\"rms_norm_eps\":1e-05,\"rope_theta\":10000.0," more                                                              \
    "\"tie_word_embeddings\":false,\"torch_dtype\":\"bfloat16\",\"use_cache\":true,\"vocab_size\":32000}"
    model m = accept(f, &a, MISTRAL("\"sliding_window\":4096,"), "");
    assert_true(m.llama.window == 4096 && llama_window(&m.llama, 0) == 4096 && llama_window(&m.llama, 31) == 4096);
    assert_true(m.sizes.head_size == 128 && !m.llama.qkv_bias && !m.llama.tied);
    m = accept(f, &a, MISTRAL("\"sliding_window\":null,\"head_dim\":160,"), "");
    assert_true(m.llama.window == 0 && m.sizes.head_size == 160);
    assert_int_equal(accept(f, &a, MISTRAL(""), "").llama.window, 4096);
    refuse(f, MISTRAL("\"sliding_window\":7.5,"), "", EIN_INVALID, "\"sliding_window\" must be");
    refuse(f, MISTRAL("\"sliding_window\":-1,"), "", EIN_INVALID, "\"sliding_window\" is -1");
    refuse(f, MISTRAL("\"attention_bias\":true,"), "", EIN_UNSUPPORTED, "\"attention_bias\" is true");
    refuse(f, "{\"model_type\":\"mistral\"," SIZES REST "}", "", EIN_INVALID, "\"num_key_value_heads\" is missing");
    refuse(f, "{\"model_type\":\"mistral\",\"architectures\":[\"LlamaForCausalLM\"]," SIZES REST "}", "", EIN_UNSUPPORTED,
           "built is MistralForCausalLM");
    ein__arena_free(&a);
}

static void test_qwen2(void **state)
{
    const folder *f = *state;
    arena a = {0};
#define QWEN2(window)                                                                                                  \
    "{\"architectures\":[\"Qwen2ForCausalLM\"],\"attention_dropout\":0.0,\"bos_token_id\":151643,"                     \
    "\"eos_token_id\":151643,\"hidden_act\":\"silu\",\"hidden_size\":3584,\"initializer_range\":0.02,"                 \
    "\"intermediate_size\":18944,\"max_position_embeddings\":131072,\"model_type\":\"qwen2\","                         \
    "\"num_attention_heads\":28,\"num_hidden_layers\":28,\"num_key_value_heads\":4,\"rms_norm_eps\":1e-06,"            \
    "\"rope_theta\":1000000.0," window                                                                                 \
    "\"tie_word_embeddings\":false,\"torch_dtype\":\"bfloat16\",\"use_cache\":true,\"vocab_size\":152064}"
    model m = accept(f, &a, QWEN2("\"sliding_window\":131072,\"max_window_layers\":28,\"use_sliding_window\":false,"), "");
    assert_true(m.sizes.head_size == 128 && m.sizes.kv_heads == 4 && m.llama.theta == 1e6);
    assert_true(m.llama.qkv_bias && !m.llama.output_bias && !m.llama.mlp_bias && m.llama.window == 0);
    m = accept(f, &a, QWEN2("\"sliding_window\":64,\"max_window_layers\":3,\"use_sliding_window\":true,"), "");
    assert_true(llama_window(&m.llama, 2) == 0 && llama_window(&m.llama, 3) == 64);
    m = accept(f, &a, QWEN2("\"sliding_window\":64,\"max_window_layers\":0,\"use_sliding_window\":true,"), "");
    assert_int_equal(llama_window(&m.llama, 0), 64);
    refuse(f, QWEN2("\"use_sliding_window\":1,"), "", EIN_INVALID, "\"use_sliding_window\" must be");
    refuse(f, QWEN2("\"attention_bias\":false,"), "", EIN_UNSUPPORTED, "\"attention_bias\" is false");
    refuse(f, QWEN2("\"layer_types\":[\"full_attention\"],"), "", EIN_INVALID, "\"layer_types\"");
    ein__arena_free(&a);
}

static void test_gemma(void **state)
{
    const folder *f = *state;
    arena a = {0};
#define GEMMA(act)                                                                                                     \
    "{\"architectures\":[\"GemmaForCausalLM\"],\"attention_bias\":false,\"attention_dropout\":0.0,\"bos_token_id\":2," \
    "\"eos_token_id\":1,\"head_dim\":256," act "\"hidden_size\":2048,\"initializer_range\":0.02,"                      \
    "\"intermediate_size\":16384,\"max_position_embeddings\":8192,\"model_type\":\"gemma\","                           \
    "\"num_attention_heads\":8,\"num_hidden_layers\":18,\"num_key_value_heads\":1,\"pad_token_id\":0,"                 \
    "\"rms_norm_eps\":1e-06,\"rope_scaling\":null,\"rope_theta\":10000.0,\"torch_dtype\":\"bfloat16\","                \
    "\"use_cache\":true,\"vocab_size\":256000}"
    model m = accept(f, &a, GEMMA("\"hidden_act\":\"gelu\","), "");
    assert_true(m.llama.gemma && m.llama.tied && m.llama.activation == GELU_TANH && !m.llama.post_norms);
    assert_true(m.sizes.head_size == 256 && m.sizes.kv_heads == 1 && m.llama.window == 0 && m.llama.scores_cap == 0);
    m = accept(f, &a, GEMMA("\"hidden_act\":\"gelu_pytorch_tanh\",\"hidden_activation\":\"gelu\","), "");
    assert_int_equal(m.llama.activation, GELU);
    refuse(f, GEMMA("\"hidden_act\":\"silu\","), "", EIN_UNSUPPORTED, "\"hidden_act\" is \"silu\"");
    refuse(f, GEMMA("\"mlp_bias\":true,"), "", EIN_UNSUPPORTED, "\"mlp_bias\" is true");
    ein__arena_free(&a);
}

static void test_gemma2(void **state)
{
    const folder *f = *state;
    arena a = {0};
#define GEMMA2(more)                                                                                                   \
    "{\"architectures\":[\"Gemma2ForCausalLM\"],\"head_dim\":256,\"hidden_act\":\"gelu_pytorch_tanh\","                \
    "\"hidden_activation\":\"gelu_pytorch_tanh\",\"hidden_size\":2304,\"intermediate_size\":9216,"                     \
    "\"max_position_embeddings\":8192,\"model_type\":\"gemma2\",\"num_attention_heads\":8,\"num_hidden_layers\":26,"   \
    "\"num_key_value_heads\":4," more "\"rms_norm_eps\":1e-06,\"sliding_window\":4096,\"vocab_size\":256000}"
    model m = accept(
        f, &a,
        GEMMA2("\"attn_logit_softcapping\":50.0,\"final_logit_softcapping\":30.0,\"query_pre_attn_scalar\":256,"), "");
    assert_true(m.llama.gemma && m.llama.post_norms && m.llama.tied && m.llama.scale == 1.0 / 16);
    assert_true(m.llama.scores_cap == 50 && m.llama.logits_cap == 30);
    assert_true(llama_window(&m.llama, 0) == 4096 && llama_window(&m.llama, 1) == 0);
    m = accept(f, &a, GEMMA2("\"attn_logit_softcapping\":null,\"final_logit_softcapping\":null,"), "");
    assert_true(m.llama.scores_cap == 0 && m.llama.logits_cap == 0);
    refuse(f, GEMMA2("\"query_pre_attn_scalar\":0,"), "", EIN_INVALID, "\"query_pre_attn_scalar\"");
    ein__arena_free(&a);
}

static void test_bert(void **state)
{
    const folder *f = *state;
    arena a = {0};
#define BERT(more)                                                                                                     \
    "{\"architectures\":[\"BertForMaskedLM\"],\"attention_probs_dropout_prob\":0.1,\"gradient_checkpointing\":false,"  \
    "\"hidden_act\":\"gelu\",\"hidden_dropout_prob\":0.1,\"hidden_size\":768,\"initializer_range\":0.02,"              \
    "\"intermediate_size\":3072,\"layer_norm_eps\":1e-12,\"max_position_embeddings\":512,\"model_type\":\"bert\","     \
    "\"num_attention_heads\":12,\"num_hidden_layers\":12,\"pad_token_id\":0," more                                     \
    "\"transformers_version\":\"4.6.0.dev0\",\"type_vocab_size\":2,\"use_cache\":true,\"vocab_size\":30522}"
    model m = accept(f, &a, BERT("\"position_embedding_type\":\"absolute\","), "");
    assert_ptr_equal(m.family, &family_bert);
    assert_true(m.sizes.hidden == 768 && m.sizes.heads == 12 && m.sizes.head_size == 64 && m.sizes.layers == 12);
    assert_true(m.sizes.ffn == 3072 && m.sizes.eps == 1e-12 && m.sizes.positions == 512 && m.sizes.vocabulary == 30522);
    assert_true(m.bert.token_types == 2 && m.bert.activation == GELU && m.bert.pooling == POOL_NONE);
    refuse(f, BERT("\"position_embedding_type\":\"relative_key\","), "", EIN_UNSUPPORTED, "\"relative_key\"");
    refuse(f, BERT("\"is_decoder\":true,"), "", EIN_UNSUPPORTED, "\"is_decoder\" is true");
    refuse(f, BERT("\"add_cross_attention\":true,"), "", EIN_UNSUPPORTED, "\"add_cross_attention\"");
    refuse(f, "{\"model_type\":\"bert\",\"architectures\":[\"BertForSequenceClassification\"]," SIZES REST "}", "",
           EIN_UNSUPPORTED, "BertForSequenceClassification");
    refuse(f, "{\"model_type\":\"bert\",\"hidden_size\":65,\"num_attention_heads\":8,\"intermediate_size\":96," REST "}", "",
           EIN_INVALID, "\"hidden_size\" 65 is no multiple of \"num_attention_heads\" 8");
    ein__arena_free(&a);
}

static void test_gpt2(void **state)
{
    const folder *f = *state;
    arena a = {0};
#define GPT2(more)                                                                                                     \
    "{\"activation_function\":\"gelu_new\",\"architectures\":[\"GPT2LMHeadModel\"],\"attn_pdrop\":0.1,"                \
    "\"bos_token_id\":50256,\"embd_pdrop\":0.1,\"eos_token_id\":50256,\"initializer_range\":0.02,"                     \
    "\"layer_norm_epsilon\":1e-05,\"model_type\":\"gpt2\",\"n_ctx\":1024,\"n_embd\":768,\"n_head\":12,"                \
    "\"n_layer\":12,\"n_positions\":1024,\"resid_pdrop\":0.1," more "\"summary_activation\":null,\"vocab_size\":50257}"
    model m = accept(f, &a, GPT2(""), "");
    assert_ptr_equal(m.family, &family_gpt2);
    assert_true(m.sizes.hidden == 768 && m.sizes.heads == 12 && m.sizes.head_size == 64 && m.sizes.layers == 12);
    assert_true(m.sizes.ffn == 3072 && m.sizes.positions == 1024 && m.sizes.eps == 1e-5 && m.ends[0] == 50256);
    assert_true(m.gpt2.activation == GELU_TANH && m.gpt2.scale_scores && !m.gpt2.scale_by_layer);
    m = accept(f, &a, GPT2("\"n_inner\":1000,\"scale_attn_weights\":false,\"scale_attn_by_inverse_layer_idx\":true,"), "");
    assert_true(m.sizes.ffn == 1000 && !m.gpt2.scale_scores && m.gpt2.scale_by_layer);
    refuse(f, GPT2("\"tie_word_embeddings\":false,"), "", EIN_UNSUPPORTED, "\"tie_word_embeddings\" is false");
    refuse(f, GPT2("\"add_cross_attention\":true,"), "", EIN_UNSUPPORTED, "\"add_cross_attention\"");
    refuse(f, "{\"model_type\":\"gpt2\",\"n_embd\":8,\"n_head\":2,\"n_layer\":1,\"vocab_size\":9,\"n_positions\":4,\"n_ctx\":5}",
           "", EIN_INVALID, "\"n_ctx\"");
    refuse(f, "{\"model_type\":\"gpt2\",\"n_embd\":8}", "", EIN_INVALID, "\"n_head\" is missing");
    ein__arena_free(&a);
}

static void test_vit(void **state)
{
    const folder *f = *state;
    arena a = {0};
#define VIT(architecture, more)                                                                                        \
    "{\"architectures\":[\"" architecture "\"],\"attention_probs_dropout_prob\":0.0,\"encoder_stride\":16,"            \
    "\"hidden_act\":\"gelu\",\"hidden_size\":768," more "\"intermediate_size\":3072,\"layer_norm_eps\":1e-12,"         \
    "\"model_type\":\"vit\",\"num_attention_heads\":12,\"num_channels\":3,\"num_hidden_layers\":12,"                   \
    "\"qkv_bias\":true}"
    model m = accept(f, &a,
                     VIT("ViTForImageClassification",
                         "\"id2label\":{\"0\":\"tench\",\"1\":\"shark\",\"2\":\"ray\"},\"image_size\":224,\"patch_size\":16,"),
                     "");
    assert_ptr_equal(m.family, &family_vit);
    assert_true(m.vit.image == 224 && m.vit.patch == 16 && m.vit.channels == 3 && m.vit.classes == 3 && m.vit.qkv_bias);
    assert_true(m.sizes.hidden == 768 && m.sizes.head_size == 64 && m.vit.activation == GELU);
    m = accept(f, &a, VIT("ViTForImageClassification", ""), "");
    assert_true(m.vit.classes == 2 && m.vit.image == 224 && m.vit.patch == 16);
    assert_int_equal(accept(f, &a, VIT("ViTModel", "\"image_size\":384,"), "").vit.classes, 0);
    refuse(f, VIT("ViTModel", "\"image_size\":[224,224],"), "", EIN_INVALID, "\"image_size\" must be an integer");
    refuse(f, VIT("ViTModel", "\"patch_size\":15,"), "", EIN_INVALID, "\"image_size\" 224 is no multiple");
    refuse(f, VIT("ViTForImageClassification", "\"id2label\":{\"0\":\"a\"},\"num_labels\":3,"), "", EIN_INVALID, "\"num_labels\"");
    refuse(f, VIT("ViTForMaskedImageModeling", ""), "", EIN_UNSUPPORTED, "ViTForMaskedImageModeling");
    ein__arena_free(&a);
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
        TEST(test_llama2_and_3),
        TEST(test_mistral),
        TEST(test_qwen2),
        TEST(test_gemma),
        TEST(test_gemma2),
        TEST(test_bert),
        TEST(test_gpt2),
        TEST(test_vit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
