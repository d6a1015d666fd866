/* SPDX-License-Identifier: Apache-2.0 */
/* Configs of the LLaMA family. The types differ in what is absent and means something, and in what is fixed. */
#include <math.h>
#include <string.h>

#include "core/base/text.h"
#include "tools/config.h"
#include "tools/model.h"

typedef enum type { LLAMA, MISTRAL, QWEN2, GEMMA, GEMMA2 } type;

static const struct known {
    const char *name, *architecture;
    i64 positions;
    int tied; /* where the file does not say */
} TYPES[] = {
    [LLAMA] = {"llama", "LlamaForCausalLM", 2048, 0},
    [MISTRAL] = {"mistral", "MistralForCausalLM", 131072, 0},
    [QWEN2] = {"qwen2", "Qwen2ForCausalLM", 32768, 0},
    [GEMMA] = {"gemma", "GemmaForCausalLM", 8192, 1},
    [GEMMA2] = {"gemma2", "Gemma2ForCausalLM", 8192, 1},
};

static ein_status fail_pair(const config *c, const char *a, i64 x, const char *b, i64 y)
{
    return ein__fail(c->error, EIN_INVALID, "%s: \"%s\" %lld is no multiple of \"%s\" %lld", c->path, a, (long long)x, b,
                     (long long)y);
}

static ein_status read_sizes(const config *c, type t, sizes *out)
{
    bool gemma = t == GEMMA || t == GEMMA2;
    TRY(config_int(c, "hidden_size", -1, &out->hidden));
    TRY(config_int(c, "num_attention_heads", -1, &out->heads));
    TRY(config_int(c, "num_key_value_heads", t == LLAMA ? out->heads : -1, &out->kv_heads));
    TRY(config_int(c, "intermediate_size", -1, &out->ffn));
    TRY(config_int(c, "num_hidden_layers", -1, &out->layers));
    TRY(config_int(c, "vocab_size", -1, &out->vocabulary));
    TRY(config_int(c, "max_position_embeddings", TYPES[t].positions, &out->positions));
    TRY(config_number(c, c->root, "rms_norm_eps", 1e-6, &out->eps));
    if (out->heads % out->kv_heads != 0)
        return fail_pair(c, "num_attention_heads", out->heads, "num_key_value_heads", out->kv_heads);
    if (!gemma && config_get(c->root, "head_dim") == NULL && out->hidden % out->heads != 0)
        return fail_pair(c, "hidden_size", out->hidden, "num_attention_heads", out->heads);
    TRY(config_int(c, "head_dim", gemma ? 256 : out->hidden / out->heads, &out->head_size));
    if (out->head_size >= 2 && out->head_size % 2 == 0) return EIN_OK;
    return ein__fail(c->error, EIN_INVALID, "%s: \"head_dim\" is %lld, must be even", c->path, (long long)out->head_size);
}

static ein_status read_llama3(const config *c, const json_t *scaling, llama *out)
{
    TRY(config_number(c, scaling, "low_freq_factor", 0, &out->low_frequency));
    TRY(config_number(c, scaling, "high_freq_factor", 0, &out->high_frequency));
    TRY(config_number(c, scaling, "original_max_position_embeddings", 0, &out->original_positions));
    if (out->high_frequency > out->low_frequency) return EIN_OK;
    return config_refuse(c, "high_freq_factor", "must be above \"low_freq_factor\"");
}

/* "rope_scaling" beside "rope_theta", or, in newer files, both in "rope_parameters". */
static ein_status read_rope(const config *c, llama *out)
{
    static const char *const types[] = {
        [ROPE_PLAIN] = "default", [ROPE_LLAMA3] = "llama3", [ROPE_LINEAR] = "linear", NULL};
    const json_t *scaling = config_get(c->root, "rope_scaling"), *both = config_get(c->root, "rope_parameters");
    double turned;
    int word;
    TRY(config_number(c, c->root, "rope_theta", 1e4, &out->theta));
    TRY(config_number(c, c->root, "partial_rotary_factor", 1, &turned));
    if (turned != 1) return config_refuse(c, "partial_rotary_factor", "must be 1");
    const char *name = scaling != NULL ? "rope_scaling" : "rope_parameters";
    if (scaling != NULL && both != NULL) return config_refuse(c, name, "and \"rope_parameters\" are both there");
    if (scaling == NULL) scaling = both;
    if (scaling == NULL) return EIN_OK;
    if (!json_is_object(scaling)) return config_refuse(c, name, "must be an object or null");
    TRY(config_number(c, scaling, "rope_theta", out->theta, &out->theta));
    bool old = config_get(scaling, "rope_type") == NULL;
    if (old && config_get(scaling, "type") == NULL) return config_refuse(c, name, "has no \"rope_type\"");
    TRY(config_word(c, scaling, old ? "type" : "rope_type", types, &word));
    out->scaling = (rope_scaling)word;
    if (out->scaling == ROPE_PLAIN) return EIN_OK;
    TRY(config_number(c, scaling, "factor", 0, &out->factor));
    return out->scaling == ROPE_LLAMA3 ? read_llama3(c, scaling, out) : EIN_OK;
}

/* Which layers see the last positions only. */
static ein_status read_window(const config *c, type t, llama *out)
{
    double window;
    int used = t != LLAMA && t != GEMMA;
    out->window_period = t == GEMMA2 ? 2 : 1;
    if (t == QWEN2) {
        TRY(config_flag(c, "use_sliding_window", 0, &used));
        TRY(config_count(c, "max_window_layers", 28, &out->window_first));
    }
    TRY(config_optional(c, "sliding_window", 4096, &window));
    if (window != floor(window) || window > CONFIG_MOST) return config_refuse(c, "sliding_window", "must be an integer");
    if (used) out->window = (i64)window;
    return EIN_OK;
}

/* Newer files say for each layer what follows from the members above; it must be the same. */
static ein_status check_layer_types(const config *c, const model *m)
{
    const json_t *list = config_get(c->root, "layer_types");
    if (list == NULL) return EIN_OK;
    if (!json_is_array(list) || json_array_size(list) != (size_t)m->sizes.layers)
        return config_refuse(c, "layer_types", "must have an entry for each layer");
    for (i64 i = 0; i < m->sizes.layers; i++) {
        const char *is = json_string_value(json_array_get(list, (size_t)i));
        const char *want = llama_window(&m->llama, i) > 0 ? "sliding_attention" : "full_attention";
        if (is == NULL || strcmp(is, want) != 0)
            return ein__fail(c->error, EIN_UNSUPPORTED, "%s: \"layer_types\" of layer %lld is not %s, which the other members say",
                             ein__excerpt_last(c->path, 60).s, (long long)i, want);
    }
    return EIN_OK;
}

static ein_status read_biases(const config *c, type t, llama *out)
{
    int attention = 0;
    if (t == MISTRAL || t == QWEN2) {
        TRY(config_fixed(c, "attention_bias", t == QWEN2));
    } else {
        TRY(config_flag(c, "attention_bias", 0, &attention));
    }
    out->qkv_bias = attention || t == QWEN2;
    out->output_bias = attention;
    return t == LLAMA ? config_flag(c, "mlp_bias", 0, &out->mlp_bias) : config_fixed(c, "mlp_bias", 0);
}

/* Gemma's first files say "gelu" and mean its approximation; "hidden_activation" came to say what is meant. */
static ein_status read_activation(const config *c, type t, llama *out)
{
    static const char *const words[] = {"gelu_pytorch_tanh", "gelu", NULL};
    int word;
    if (t != GEMMA && t != GEMMA2) return config_activation(c, "hidden_act", SILU, &out->activation);
    TRY(config_word(c, c->root, "hidden_act", words, &word));
    TRY(config_word(c, c->root, "hidden_activation", words, &word));
    out->activation = word == 0 ? GELU_TANH : GELU;
    return EIN_OK;
}

static ein_status read_gemma2(const config *c, llama *out)
{
    double scalar;
    out->post_norms = 1;
    TRY(config_number(c, c->root, "query_pre_attn_scalar", 256, &scalar));
    out->scale = 1 / sqrt(scalar);
    TRY(config_optional(c, "attn_logit_softcapping", 50, &out->scores_cap));
    TRY(config_optional(c, "final_logit_softcapping", 30, &out->logits_cap));
    return config_fixed(c, "use_bidirectional_attention", 0);
}

static ein_status read_llama(const config *c, model *out)
{
    int t = LLAMA, unused;
    const char *word = json_string_value(config_get(c->root, "model_type"));
    while (strcmp(TYPES[t].name, word) != 0) t++;
    llama *m = &out->llama;
    const char *const architectures[] = {TYPES[t].architecture, NULL};
    TRY(config_architecture(c, architectures, &unused));
    TRY(read_sizes(c, (type)t, &out->sizes));
    TRY(read_activation(c, (type)t, m));
    TRY(read_rope(c, m));
    TRY(read_biases(c, (type)t, m));
    TRY(read_window(c, (type)t, m));
    TRY(config_flag(c, "tie_word_embeddings", TYPES[t].tied, &m->tied));
    m->gemma = t == GEMMA || t == GEMMA2;
    if (t == GEMMA2) TRY(read_gemma2(c, m));
    return check_layer_types(c, out);
}

static void build(ein_graph *g, const model *m, const naming *names)
{
    llama_build(g, &m->sizes, &m->llama, names, &m->use);
}

static const char *const PREFIXES[] = {"model.", NULL};

const family family_llama = {
    .name = "llama",
    .types = "llama mistral qwen2 gemma gemma2",
    .options = "layers batch seq cached head hidden",
    .prefixes = PREFIXES,
    .head_step = 2,
    .has_head = true,
    .generates = true,
    .reads_ids = true,
    .read = read_llama,
    .build = build,
};
