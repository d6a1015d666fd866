/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/config.h"
#include "tools/model.h"

static ein_status read_gpt2(const config *c, model *out)
{
    static const char *const architectures[] = {"GPT2LMHeadModel", "GPT2Model", NULL};
    gpt2 *m = &out->gpt2;
    sizes *s = &out->sizes;
    i64 context;
    int unused;
    TRY(config_architecture(c, architectures, &unused));
    TRY(config_sizes(c, "n_embd", "n_head", "n_layer", s));
    TRY(config_int(c, "n_inner", 4 * s->hidden, &s->ffn));
    TRY(config_int(c, "vocab_size", -1, &s->vocabulary));
    TRY(config_int(c, "n_positions", 1024, &s->positions));
    TRY(config_int(c, "n_ctx", s->positions, &context));
    if (context != s->positions) return config_refuse(c, "n_ctx", "and \"n_positions\" differ");
    TRY(config_number(c, c->root, "layer_norm_epsilon", 1e-5, &s->eps));
    TRY(config_activation(c, "activation_function", GELU_TANH, &m->activation));
    TRY(config_flag(c, "scale_attn_weights", 1, &m->scale_scores));
    TRY(config_flag(c, "scale_attn_by_inverse_layer_idx", 0, &m->scale_by_layer));
    TRY(config_fixed(c, "tie_word_embeddings", 1));
    return config_fixed(c, "add_cross_attention", 0);
}

static void build(ein_graph *g, const model *m, const naming *names)
{
    gpt2_build(g, &m->sizes, &m->gpt2, names, &m->use);
}

static const char *const PREFIXES[] = {"", "transformer.", NULL};

const family family_gpt2 = {
    .name = "gpt2",
    .types = "gpt2",
    .options = "layers batch seq cached hidden",
    .prefixes = PREFIXES,
    .probe = "wte.weight",
    .head_step = 1,
    .generates = true,
    .reads_ids = true,
    .read = read_gpt2,
    .build = build,
};
