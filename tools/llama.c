/* SPDX-License-Identifier: Apache-2.0 */
/* One function per part of a block, as a model is written in PyTorch: whole tensors, no device, no cut. A
 * wrong size needs no check here: the graph keeps the first error, and everything after it is quiet. */
#include "tools/llama.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct builder {
    ein_graph *g;
    const llama *m;
    const llama_use *use;
    int64_t layer;
    ein_tensor cosine, sine;
    ein_scalar position, length; /* {0} without a cache */
} builder;

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

/* "model.layers.3.self_attn.q_proj.weight" */
static ein_tensor layer_parameter(builder *b, const char *part, const char *kind, int rank,
                                  const int64_t *shape)
{
    char name[128];
    snprintf(name, sizeof name, "model.layers.%lld.%s.%s", (long long)b->layer, part, kind);
    return ein_parameter(b->g, name, EIN_F32, rank, shape);
}

static ein_tensor project(builder *b, ein_tensor x, const char *part, int64_t out, int64_t in, int bias)
{
    ein_tensor weight = layer_parameter(b, part, "weight", 2, SHAPE(out, in));
    ein_tensor none = {0};
    return ein_linear(b->g, x, weight, bias ? layer_parameter(b, part, "bias", 1, SHAPE(out)) : none);
}

static ein_tensor norm(builder *b, ein_tensor x, const char *part)
{
    return ein_rms_norm(b->g, x, layer_parameter(b, part, "weight", 1, SHAPE(b->m->hidden)), b->m->eps);
}

/* [b, s, heads * d] -> [b, heads, s, d], turned by position if `turn`. */
static ein_tensor heads(builder *b, ein_tensor x, int64_t n, int turn)
{
    x = ein_reshape(b->g, x, 4, SHAPE(b->use->batch, b->use->seq, n, b->m->head_size));
    if (turn) x = ein_rope(b->g, x, b->cosine, b->sine, b->position);
    return ein_permute(b->g, x, (const int[]){0, 2, 1, 3});
}

/* Append to the layer's cache of keys or values and give the whole of it. */
static ein_tensor with_cache(builder *b, ein_tensor rows, const char *which)
{
    if (b->use->cached == 0) return rows;
    char name[64];
    snprintf(name, sizeof name, "cache.%lld.%s", (long long)b->layer, which);
    ein_tensor cache =
        ein_state_tensor(b->g, name, EIN_F32, 4,
                         SHAPE(b->use->batch, b->m->kv_heads, b->use->cached + b->use->seq, b->m->head_size));
    return ein_state_append(b->g, cache, rows, 2, b->position);
}

static ein_tensor attention(builder *b, ein_tensor x)
{
    const llama *m = b->m;
    int64_t q_size = m->heads * m->head_size, kv_size = m->kv_heads * m->head_size;
    int bias = m->attention_bias;
    ein_tensor q = heads(b, project(b, x, "self_attn.q_proj", q_size, m->hidden, bias), m->heads, 1);
    ein_tensor k = heads(b, project(b, x, "self_attn.k_proj", kv_size, m->hidden, bias), m->kv_heads, 1);
    ein_tensor v = heads(b, project(b, x, "self_attn.v_proj", kv_size, m->hidden, bias), m->kv_heads, 0);
    ein_attention_options options = {
        .size = sizeof options, .causal = 1, .position = b->position, .length = b->length};
    ein_tensor y =
        ein_scaled_dot_product_attention(b->g, q, with_cache(b, k, "k"), with_cache(b, v, "v"), &options);
    y = ein_permute(b->g, y, (const int[]){0, 2, 1, 3});
    y = ein_reshape(b->g, y, 3, SHAPE(b->use->batch, b->use->seq, q_size));
    return project(b, y, "self_attn.o_proj", m->hidden, q_size, bias);
}

static ein_tensor feed_forward(builder *b, ein_tensor x)
{
    const llama *m = b->m;
    ein_tensor gate = project(b, x, "mlp.gate_proj", m->ffn, m->hidden, m->mlp_bias);
    ein_tensor up = project(b, x, "mlp.up_proj", m->ffn, m->hidden, m->mlp_bias);
    ein_tensor y = ein_map(b->g, "x0 * sigmoid(x0) * x1", 2, (const ein_tensor[]){gate, up});
    return project(b, y, "mlp.down_proj", m->hidden, m->ffn, m->mlp_bias);
}

double llama_frequency(const llama *m, int64_t i)
{
    double f = pow(m->theta, -2.0 * (double)i / (double)m->head_size);
    const llama_scaling *s = &m->scaling;
    if (!s->on) return f;
    double turns = s->original_positions * f / (2 * 3.14159265358979323846);
    if (turns < s->low_frequency) return f / s->factor;
    if (turns > s->high_frequency) return f;
    double keep = (turns - s->low_frequency) / (s->high_frequency - s->low_frequency);
    return (1 - keep) * f / s->factor + keep * f;
}

static void scaled_tables(builder *b, int64_t positions)
{
    int64_t pairs = b->m->head_size / 2, shape[] = {positions, pairs};
    float *cosine = malloc((size_t)(positions * pairs) * sizeof *cosine);
    float *sine = malloc((size_t)(positions * pairs) * sizeof *sine);
    for (int64_t p = 0; cosine != NULL && sine != NULL && p < positions; p++) {
        for (int64_t i = 0; i < pairs; i++) {
            double angle = (double)p * llama_frequency(b->m, i);
            cosine[p * pairs + i] = (float)cos(angle);
            sine[p * pairs + i] = (float)sin(angle);
        }
    }
    b->cosine = ein_constant(b->g, EIN_F32, 2, shape, cosine);
    b->sine = ein_constant(b->g, EIN_F32, 2, shape, sine);
    free(cosine);
    free(sine);
}

static void rotary_tables(builder *b)
{
    int64_t positions = b->use->cached + b->use->seq;
    if (b->m->scaling.on) {
        scaled_tables(b, positions);
    } else {
        ein_rope_tables(b->g, positions, b->m->head_size, b->m->theta, &b->cosine, &b->sine);
    }
}

static void logits(builder *b, ein_tensor x, ein_tensor embedding)
{
    const llama *m = b->m;
    ein_tensor none = {0}, head = embedding;
    ein_tensor weight = ein_parameter(b->g, "model.norm.weight", EIN_F32, 1, SHAPE(m->hidden));
    x = ein_rms_norm(b->g, x, weight, m->eps);
    if (!m->tied) head = ein_parameter(b->g, "lm_head.weight", EIN_F32, 2, SHAPE(m->vocabulary, m->hidden));
    ein_output(b->g, "logits", ein_linear(b->g, x, head, none));
}

void llama_build(ein_graph *g, const llama *model, const llama_use *use)
{
    builder b = {.g = g, .m = model, .use = use};
    ein_tensor x, embedding = {0};
    rotary_tables(&b);
    if (use->cached > 0) {
        b.position = ein_scalar_input(g, "position");
        b.length = ein_scalar_input(g, "length");
    }
    if (use->head) {
        ein_tensor ids = ein_input(g, "ids", EIN_I32, 2, SHAPE(use->batch, use->seq));
        embedding = ein_parameter(g, "model.embed_tokens.weight", EIN_F32, 2,
                                  SHAPE(model->vocabulary, model->hidden));
        x = ein_embedding(g, ids, embedding);
    } else {
        x = ein_input(g, "x", EIN_F32, 3, SHAPE(use->batch, use->seq, model->hidden));
    }
    for (b.layer = 0; b.layer < model->layers; b.layer++) {
        x = ein_add(g, x, attention(&b, norm(&b, x, "input_layernorm")));
        x = ein_add(g, x, feed_forward(&b, norm(&b, x, "post_attention_layernorm")));
    }
    if (use->head) {
        logits(&b, x, embedding);
    } else {
        ein_output(g, "y", x);
    }
}
