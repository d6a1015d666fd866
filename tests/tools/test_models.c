/* SPDX-License-Identifier: Apache-2.0 */
/* Small models of all families in folders as they are published, under the names of the published checkpoints, through
 * the session of the `ein` command: against forward passes written by hand, and with a cache against without. */
#define _XOPEN_SOURCE 700
#include "tests/tools/forward.h"

#include "core/base/alloc.h"
#include "tools/generate.h"
#include "tools/temporary.h"

enum { HIDDEN = 32, FFN = 48, VOCABULARY = 61, LAYERS = 2, POSITIONS = 24 };
static const int PROMPT[] = {5, 60, 0, 17, 17, 33, 8};
enum { N_PROMPT = sizeof PROMPT / sizeof *PROMPT };

#define AS(...) ((const i64[4]){__VA_ARGS__})

static char cache_dir[128];

/* ---- running ---------------------------------------------------------------------------------------- */

typedef struct outcome {
    ein_status status;
    char line[256];
    double *values; /* of the first output */
    i64 n;
    int n_generated;
    i64 generated[16];
} outcome;

typedef struct asked {
    const int *tokens;
    int n_tokens, generate;
    ein_dtype dtype;
    const char *input;
    bool stop;
} asked;

static ein_status run_session(session *s, workload *w, const char *machine, prepared *p, generation *tokens)
{
    TRY(session_open(s, w, machine, cache_dir));
    TRY(session_prepare(s, NULL, false, p));
    TRY(session_run(s, p));
    return w->request.generate > 0 ? generate(s, &w->arena, tokens) : EIN_OK;
}

static void take(outcome *o, const session *s, const generation *tokens)
{
    const graph *g = &s->work->graph->g;
    const value_info *v = &g->values.items[g->outputs.items[0].value];
    o->n = ein__value_numel(g, g->outputs.items[0].value);
    o->values = calloc((size_t)o->n + 1, sizeof *o->values);
    assert_non_null(o->values);
    for (i64 i = 0; i < o->n; i++)
        o->values[i] = ein__dtype_read(v->dtype, (const char *)s->outputs[0] + i * ein__dtype_bytes(v->dtype));
    o->n_generated = tokens->tokens.n;
    for (int i = 0; i < o->n_generated; i++) o->generated[i] = tokens->tokens.items[i];
}

static outcome run(const char *source, const char *machine, const asked *a)
{
    workload w;
    session s = {0};
    prepared p = {0};
    generation tokens = {0};
    progress quiet = {.on = false};
    outcome o = {0};
    request r = {.generate = a->generate, .dtype = a->dtype, .input = a->input, .stop_at_end = a->stop};
    r.tokens.items = (int32_t *)(uintptr_t)a->tokens;
    r.tokens.n = a->n_tokens;
    o.status = workload_open(&w, source, &r, &quiet);
    if (o.status == EIN_OK) o.status = workload_fill(&w);
    if (o.status == EIN_OK) o.status = run_session(&s, &w, machine, &p, &tokens);
    if (o.status == EIN_OK) take(&o, &s, &tokens);
    snprintf(o.line, sizeof o.line, "%s", s.message[0] != 0 ? s.message : w.error.line);
    session_release(&p);
    session_close(&s);
    workload_close(&w);
    return o;
}

static outcome run_right(const char *source, const char *machine, const asked *a)
{
    outcome o = run(source, machine, a);
    if (o.status != EIN_OK) fail_msg("%s on %s: %s", source, machine, o.line);
    return o;
}

static void refuse(const char *source, const asked *a, ein_status want, const char *named)
{
    outcome o = run(source, "host:2", a);
    if (o.status != want || strstr(o.line, named) == NULL)
        fail_msg("status %d, \"%s\" does not name %s", (int)o.status, o.line, named);
    free(o.values);
}

static double distance(const double *got, const double *want, i64 n)
{
    double d = 0, norm = 0;
    for (i64 i = 0; i < n; i++) {
        d += (got[i] - want[i]) * (got[i] - want[i]);
        norm += want[i] * want[i];
    }
    return sqrt(d / norm);
}

/* On one device and on three. */
static void expect(const char *source, const asked *a, const double *want, i64 n)
{
    static const char *const machines[] = {"host:1", "host:3"};
    for (int i = 0; i < 2; i++) {
        outcome o = run_right(source, machines[i], a);
        assert_int_equal(o.n, n);
        double error = distance(o.values, want, n);
        if (!(error < 2e-6)) fail_msg("%s on %s is off by %.3g", source, machines[i], error);
        free(o.values);
    }
}

/* The tokens that were chosen with a cache are the largest logits of a run over all of them without one. */
static void expect_greedy(const char *source, int n)
{
    asked a = {.tokens = PROMPT, .n_tokens = N_PROMPT, .generate = n};
    int all[32];
    outcome with = run_right(source, "host:2", &a);
    assert_int_equal(with.n_generated, n);
    for (int i = 0; i < N_PROMPT + n - 1; i++) all[i] = i < N_PROMPT ? PROMPT[i] : (int)with.generated[i - N_PROMPT];
    outcome without = run_right(source, "host:3", &(asked){.tokens = all, .n_tokens = N_PROMPT + n - 1});
    for (int i = 0; i < n; i++) {
        const double *row = without.values + (N_PROMPT - 1 + i) * VOCABULARY;
        int best = 0;
        for (int k = 1; k < VOCABULARY; k++) best = row[k] > row[best] ? k : best;
        assert_int_equal(with.generated[i], best);
    }
    free(with.values);
    free(without.values);
}

/* An end of the text is the last token, if a generation_config.json says so and stopping was asked for. */
static void expect_stop(const folder *f)
{
    char text[64];
    asked a = {.tokens = PROMPT, .n_tokens = N_PROMPT, .generate = 8};
    outcome all = run_right(f->path, "host:2", &a);
    int last = 0;
    while (all.generated[last] != all.generated[5]) last++;
    snprintf(text, sizeof text, "{\"eos_token_id\":[61,%d]}", (int)all.generated[5]);
    folder_file(f, "generation_config.json", text);
    outcome free_run = run_right(f->path, "host:2", &a);
    assert_int_equal(free_run.n_generated, 8);
    a.stop = true;
    outcome stopped = run_right(f->path, "host:2", &a);
    assert_int_equal(stopped.n_generated, last + 1);
    assert_memory_equal(stopped.generated, all.generated, (size_t)(last + 1) * sizeof(i64));
    free(all.values);
    free(free_run.values);
    free(stopped.values);
}

static const asked prompt = {.tokens = PROMPT, .n_tokens = N_PROMPT};

/* ---- folders ---------------------------------------------------------------------------------------- */

static void add_pair(folder *f, const char *name, i64 out, i64 in)
{
    folder_add(f, 0, 0.3, AS(out, in), "%s.weight", name);
    folder_add(f, 0, 0.3, AS(out), "%s.bias", name);
}

static void add_norm(folder *f, const char *name, const char *weight_word, const char *bias_word)
{
    folder_add(f, 1, 0.3, AS(HIDDEN), "%s.%s", name, weight_word);
    folder_add(f, 0, 0.3, AS(HIDDEN), "%s.%s", name, bias_word);
}

static folder *bert_folder(const char *p, bool old)
{
    char name[128];
    const char *w = old ? "gamma" : "weight", *b = old ? "beta" : "bias";
    folder *f = folder_new(
        "{\"model_type\":\"bert\",\"architectures\":[\"BertModel\"],\"hidden_act\":\"gelu\",\"hidden_size\":32,"
        "\"num_attention_heads\":4,\"num_hidden_layers\":2,\"intermediate_size\":48,\"vocab_size\":61,"
        "\"max_position_embeddings\":24,\"type_vocab_size\":2}");
    folder_add(f, 0, 1, AS(1, POSITIONS), "%sembeddings.position_ids", p); /* not a weight */
    folder_add(f, 0, 1, AS(VOCABULARY, HIDDEN), "%sembeddings.word_embeddings.weight", p);
    folder_add(f, 0, 1, AS(POSITIONS, HIDDEN), "%sembeddings.position_embeddings.weight", p);
    folder_add(f, 0, 1, AS(2, HIDDEN), "%sembeddings.token_type_embeddings.weight", p);
#undef NAMED
#define NAMED(part) (snprintf(name, sizeof name, "%sencoder.layer.%d.%s", p, l, part), name)
    snprintf(name, sizeof name, "%sembeddings.LayerNorm", p);
    add_norm(f, name, w, b);
    for (int l = 0; l < LAYERS; l++) {
        add_pair(f, NAMED("attention.self.query"), HIDDEN, HIDDEN);
        add_pair(f, NAMED("attention.self.key"), HIDDEN, HIDDEN);
        add_pair(f, NAMED("attention.self.value"), HIDDEN, HIDDEN);
        add_pair(f, NAMED("attention.output.dense"), HIDDEN, HIDDEN);
        add_norm(f, NAMED("attention.output.LayerNorm"), w, b);
        add_pair(f, NAMED("intermediate.dense"), FFN, HIDDEN);
        add_pair(f, NAMED("output.dense"), HIDDEN, FFN);
        add_norm(f, NAMED("output.LayerNorm"), w, b);
    }
    folder_write(f);
    return f;
}

static void add_conv1d(folder *f, const char *name, i64 in, i64 out)
{
    folder_add(f, 0, 0.3, AS(in, out), "%s.weight", name);
    folder_add(f, 0, 0.3, AS(out), "%s.bias", name);
}

static folder *gpt2_folder(const char *p)
{
    char name[128];
    folder *f = folder_new("{\"model_type\":\"gpt2\",\"architectures\":[\"GPT2LMHeadModel\"],\"n_embd\":32,\"n_head\":4,"
                           "\"n_layer\":2,\"n_inner\":48,\"vocab_size\":61,\"n_positions\":24,\"eos_token_id\":60}");
    folder_add(f, 0, 0.5, AS(VOCABULARY, HIDDEN), "%swte.weight", p);
    folder_add(f, 0, 0.5, AS(POSITIONS, HIDDEN), "%swpe.weight", p);
#undef NAMED
#define NAMED(part) (snprintf(name, sizeof name, "%sh.%d.%s", p, l, part), name)
    for (int l = 0; l < LAYERS; l++) {
        add_norm(f, NAMED("ln_1"), "weight", "bias");
        folder_add(f, 0, 1, AS(1, 1, POSITIONS, POSITIONS), "%sh.%d.attn.bias", p, l); /* a buffer */
        folder_add(f, 0, 1, AS(1), "%sh.%d.attn.masked_bias", p, l);
        add_conv1d(f, NAMED("attn.c_attn"), HIDDEN, 3 * HIDDEN);
        add_conv1d(f, NAMED("attn.c_proj"), HIDDEN, HIDDEN);
        add_norm(f, NAMED("ln_2"), "weight", "bias");
        add_conv1d(f, NAMED("mlp.c_fc"), HIDDEN, FFN);
        add_conv1d(f, NAMED("mlp.c_proj"), FFN, HIDDEN);
    }
    snprintf(name, sizeof name, "%sln_f", p);
    add_norm(f, name, "weight", "bias");
    folder_write(f);
    return f;
}

static void add_llama_linear(folder *f, int l, const char *part, i64 out, i64 in, bool bias)
{
    folder_add(f, 0, 0.3, AS(out, in), "model.layers.%d.%s.weight", l, part);
    if (bias) folder_add(f, 0, 0.3, AS(out), "model.layers.%d.%s.bias", l, part);
}

/* Not written yet. `members` go into the config. */
static folder *llama_folder(const tiny *m, const kind *how, const char *members)
{
    static const char *const norms[] = {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                                        "post_feedforward_layernorm"};
    char config[1024];
    double mean = how->gemma ? 0 : 1;
    i64 wide = m->heads * m->d, narrow = m->kv_heads * m->d;
    snprintf(config, sizeof config,
             "{\"hidden_size\":%d,\"num_attention_heads\":%d,\"num_key_value_heads\":%d,\"head_dim\":%d,"
             "\"intermediate_size\":%d,\"num_hidden_layers\":%d,\"vocab_size\":%d,\"max_position_embeddings\":24,%s}",
             m->hidden, m->heads, m->kv_heads, m->d, m->ffn, m->layers, m->vocabulary, members);
    folder *f = folder_new(config);
    folder_add(f, 0, 0.5, AS(m->vocabulary, m->hidden), "model.embed_tokens.weight");
    for (int l = 0; l < m->layers; l++) {
        for (int i = 0; i < (how->post_norms ? 4 : 2); i++)
            folder_add(f, mean, 0.3, AS(m->hidden), "model.layers.%d.%s.weight", l, norms[i]);
        add_llama_linear(f, l, "self_attn.q_proj", wide, m->hidden, how->qkv_bias);
        add_llama_linear(f, l, "self_attn.k_proj", narrow, m->hidden, how->qkv_bias);
        add_llama_linear(f, l, "self_attn.v_proj", narrow, m->hidden, how->qkv_bias);
        add_llama_linear(f, l, "self_attn.o_proj", m->hidden, wide, false);
        add_llama_linear(f, l, "mlp.gate_proj", m->ffn, m->hidden, false);
        add_llama_linear(f, l, "mlp.up_proj", m->ffn, m->hidden, false);
        add_llama_linear(f, l, "mlp.down_proj", m->hidden, m->ffn, false);
    }
    folder_add(f, mean, 0.3, AS(m->hidden), "model.norm.weight");
    if (!how->tied) folder_add(f, 0, 0.3, AS(m->vocabulary, m->hidden), "lm_head.weight");
    return f;
}

static const tiny WIDE = {HIDDEN, 4, 2, 8, FFN, LAYERS, VOCABULARY}, TINY = {HIDDEN, 4, 4, 8, FFN, LAYERS, VOCABULARY};

/* ---- tests ------------------------------------------------------------------------------------------- */

static void test_bert(void **state)
{
    (void)state;
    folder *f = bert_folder("", false);
    rows want = bert_forward(f, &TINY, "", false, PROMPT, N_PROMPT);
    expect(f->path, &prompt, want, N_PROMPT * HIDDEN);
    folder_free(f);
    f = bert_folder("bert.", true);
    want = bert_forward(f, &TINY, "bert.", true, PROMPT, N_PROMPT);
    expect(f->path, &prompt, want, N_PROMPT * HIDDEN);
    folder_free(f);
}

static void put_modules(const folder *f, const char *modes, const char *last)
{
    char path[128], text[512];
    folder_file(f, "modules.json", last);
    snprintf(path, sizeof path, "%s/1_Pooling", f->path);
    if (access(path, F_OK) != 0) assert_int_equal(mkdir(path, 0777), 0);
    snprintf(text, sizeof text, "{\"word_embedding_dimension\":32,%s}", modes);
    folder_file(f, "1_Pooling/config.json", text);
}

#define MODULE(path, type) "{\"idx\":0,\"name\":\"0\",\"path\":\"" path "\",\"type\":\"sentence_transformers.models." type "\"}"

static void test_sentence(void **state)
{
    (void)state;
    folder *f = bert_folder("", false);
    rows x = bert_forward(f, &TINY, "", false, PROMPT, N_PROMPT);
    double mean[HIDDEN] = {0}, length = 0;
    for (int i = 0; i < N_PROMPT * HIDDEN; i++) mean[i % HIDDEN] += x[i] / N_PROMPT;
    put_modules(f, "\"pooling_mode_mean_tokens\":true", "[" MODULE("", "Transformer") "," MODULE("1_Pooling", "Pooling") "]");
    expect(f->path, &prompt, mean, HIDDEN);
    for (int i = 0; i < HIDDEN; i++) length += mean[i] * mean[i];
    for (int i = 0; i < HIDDEN; i++) mean[i] /= sqrt(length);
    const char *all = "[" MODULE("", "Transformer") "," MODULE("1_Pooling", "Pooling") "," MODULE("2_Normalize", "Normalize") "]";
    put_modules(f, "\"pooling_mode_mean_tokens\":true,\"pooling_mode_cls_token\":false", all);
    expect(f->path, &prompt, mean, HIDDEN);
    put_modules(f, "\"pooling_mode_cls_token\":true", "[" MODULE("", "Transformer") "," MODULE("1_Pooling", "Pooling") "]");
    expect(f->path, &prompt, x, HIDDEN);
    put_modules(f, "\"pooling_mode_max_tokens\":true", all);
    refuse(f->path, &prompt, EIN_INVALID, "\"pooling_mode_max_tokens\" is not built");
    put_modules(f, "\"pooling_mode_max_tokens\":true,\"pooling_mode_cls_token\":true", all);
    refuse(f->path, &prompt, EIN_INVALID, "\"pooling_mode_max_tokens\" is not the only mode");
    put_modules(f, "\"pooling_mode_mean_tokens\":false", all);
    refuse(f->path, &prompt, EIN_INVALID, "all other modes are off");
    put_modules(f, "\"pooling_mode_mean_tokens\":true", "[" MODULE("", "Transformer") "," MODULE("2_Dense", "Dense") "]");
    refuse(f->path, &prompt, EIN_UNSUPPORTED, "\"Dense\"");
    put_modules(f, "\"pooling_mode_mean_tokens\":true", "[" MODULE("../x", "Pooling") "]");
    refuse(f->path, &prompt, EIN_INVALID, "name of a folder");
    folder_free(f);
}

static void test_gpt2(void **state)
{
    (void)state;
    folder *f = gpt2_folder("");
    expect(f->path, &prompt, gpt2_forward(f, &TINY, "", PROMPT, N_PROMPT), N_PROMPT * VOCABULARY);
    expect_greedy(f->path, 8);
    expect_stop(f);
    folder_free(f);
    f = gpt2_folder("transformer.");
    expect(f->path, &prompt, gpt2_forward(f, &TINY, "transformer.", PROMPT, N_PROMPT), N_PROMPT * VOCABULARY);
    folder_free(f);
}

static void expect_llama(const kind *how, const char *members, bool shards)
{
    folder *f = llama_folder(&WIDE, how, members);
    if (shards) folder_write_shards(f);
    else folder_write(f);
    expect(f->path, &prompt, llama_forward(f, &WIDE, how, PROMPT, N_PROMPT), N_PROMPT * VOCABULARY);
    expect_greedy(f->path, 8);
    folder_free(f);
}

static void test_llama(void **state)
{
    (void)state;
    expect_llama(&(kind){.stretch = 4}, "\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"linear\",\"factor\":4.0}", true);
}

static void test_mistral(void **state)
{
    (void)state;
    expect_llama(&(kind){.window = 3, .window_period = 1}, "\"model_type\":\"mistral\",\"sliding_window\":3", false);
}

static void test_qwen2(void **state)
{
    (void)state;
    expect_llama(&(kind){.qkv_bias = true, .tied = true, .window = 4, .window_first = 1, .window_period = 1},
                 "\"model_type\":\"qwen2\",\"tie_word_embeddings\":true,\"use_sliding_window\":true,"
                 "\"sliding_window\":4,\"max_window_layers\":1",
                 false);
}

static void test_gemma(void **state)
{
    (void)state;
    expect_llama(&(kind){.gemma = true, .tied = true}, "\"model_type\":\"gemma\",\"hidden_act\":\"gelu\"", false);
}

static void test_gemma2(void **state)
{
    (void)state;
    expect_llama(&(kind){.gemma = true, .tied = true, .post_norms = true, .window = 3, .window_period = 2, .scale = 0.25,
                         .scores_cap = 2, .logits_cap = 3},
                 "\"model_type\":\"gemma2\",\"hidden_act\":\"gelu_pytorch_tanh\",\"sliding_window\":3,"
                 "\"query_pre_attn_scalar\":16,\"attn_logit_softcapping\":2.0,\"final_logit_softcapping\":3.0",
                 false);
}

static void test_vit(void **state)
{
    (void)state;
    enum { SIDE = 12, PATCH = 4, CLASSES = 5, IMAGES = 2, IMAGE = 3 * SIDE * SIDE };
    char name[128], file[160];
    float pixels[IMAGES * IMAGE];
    double want[IMAGES * CLASSES];
    error e = {0};
    folder *f = folder_new(
        "{\"model_type\":\"vit\",\"architectures\":[\"ViTForImageClassification\"],\"hidden_size\":32,"
        "\"num_attention_heads\":4,\"num_hidden_layers\":2,\"intermediate_size\":48,\"image_size\":12,\"patch_size\":4,"
        "\"id2label\":{\"0\":\"a\",\"1\":\"b\",\"2\":\"c\",\"3\":\"d\",\"4\":\"e\"}}");
    folder_add(f, 0, 1, AS(1, 1, HIDDEN), "vit.embeddings.cls_token");
    folder_add(f, 0, 1, AS(1, 10, HIDDEN), "vit.embeddings.position_embeddings");
    folder_add(f, 0, 0.3, AS(HIDDEN, 3, PATCH, PATCH), "vit.embeddings.patch_embeddings.projection.weight");
    folder_add(f, 0, 0.3, AS(HIDDEN), "vit.embeddings.patch_embeddings.projection.bias");
#undef NAMED
#define NAMED(part) (snprintf(name, sizeof name, "vit.encoder.layer.%d.%s", l, part), name)
    for (int l = 0; l < LAYERS; l++) {
        add_norm(f, NAMED("layernorm_before"), "weight", "bias");
        add_pair(f, NAMED("attention.attention.query"), HIDDEN, HIDDEN);
        add_pair(f, NAMED("attention.attention.key"), HIDDEN, HIDDEN);
        add_pair(f, NAMED("attention.attention.value"), HIDDEN, HIDDEN);
        add_pair(f, NAMED("attention.output.dense"), HIDDEN, HIDDEN);
        add_norm(f, NAMED("layernorm_after"), "weight", "bias");
        add_pair(f, NAMED("intermediate.dense"), FFN, HIDDEN);
        add_pair(f, NAMED("output.dense"), HIDDEN, FFN);
    }
    add_norm(f, "vit.layernorm", "weight", "bias");
    add_pair(f, "classifier", CLASSES, HIDDEN);
    folder_write(f);
    seeded_normal("pixels", 0, 1, IMAGES * IMAGE, pixels);
    stored_tensor t = {.name = "pixel_values", .dtype = EIN_F32, .rank = 4, .shape = {IMAGES, 3, SIDE, SIDE}, .data = pixels};
    snprintf(file, sizeof file, "%s/images.safetensors", f->path);
    assert_int_equal(ein__safetensors_write(file, 1, &t, &e), EIN_OK);
    for (int i = 0; i < IMAGES; i++)
        memcpy(want + i * CLASSES, vit_forward(f, &TINY, "vit.", pixels + i * IMAGE, SIDE, PATCH, CLASSES),
               CLASSES * sizeof *want);
    expect(f->path, &(asked){.input = file}, want, IMAGES * CLASSES);
    refuse(f->path, &prompt, EIN_INVALID, "reads no tokens");
    t.shape[3] = SIDE / 2;
    t.shape[0] = 2 * IMAGES;
    assert_int_equal(ein__safetensors_write(file, 1, &t, &e), EIN_OK);
    refuse(f->path, &(asked){.input = file}, EIN_SHAPE, "wanted [n,3,12,12]");
    t.name = "pixels";
    assert_int_equal(ein__safetensors_write(file, 1, &t, &e), EIN_OK);
    refuse(f->path, &(asked){.input = file}, EIN_INVALID, "no tensor 'pixel_values'");
    folder_free(f);
}

static void test_refusals(void **state)
{
    (void)state;
    static const int far[] = {3, 61};
    static const int many[POSITIONS + 1] = {0};
    folder *f = gpt2_folder("");
    refuse(f->path, &(asked){.tokens = far, .n_tokens = 2}, EIN_INVALID, "token 61, number 2 of the prompt, is not in the vocabulary of 61");
    refuse(f->path, &(asked){.tokens = many, .n_tokens = POSITIONS + 1}, EIN_INVALID, "max_position_embeddings, 24");
    refuse(f->path, &(asked){.tokens = many, .n_tokens = 20, .generate = 5}, EIN_INVALID, "--generate 5 after 20 tokens");
    refuse(f->path, &(asked){.tokens = PROMPT, .n_tokens = 2, .input = "x"}, EIN_INVALID, "--input");
    entry *e = &f->entries[f->n - 1];
    assert_string_equal(e->name, "ln_f.bias");
    e->shape[0]--;
    folder_write(f);
    refuse(f->path, &prompt, EIN_SHAPE, "'ln_f.bias' is [31] in the store, [32] in the graph");
    free(e->f32);
    free(e->f64);
    f->n--;
    folder_write(f);
    refuse(f->path, &prompt, EIN_INVALID, "'ln_f.bias' is not in");
    folder_free(f);
    f = bert_folder("", false);
    refuse(f->path, &(asked){.tokens = PROMPT, .n_tokens = 2, .generate = 1}, EIN_INVALID, "predicts no tokens");
    folder_free(f);
}

static int begin(void **state)
{
    (void)state;
    return temporary_make(cache_dir, sizeof cache_dir) ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    temporary_remove(cache_dir);
    rows_free();
    return ein__alloc_live() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bert),    cmocka_unit_test(test_sentence), cmocka_unit_test(test_gpt2),
        cmocka_unit_test(test_llama),   cmocka_unit_test(test_mistral),  cmocka_unit_test(test_qwen2),
        cmocka_unit_test(test_gemma),   cmocka_unit_test(test_gemma2),   cmocka_unit_test(test_vit),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
