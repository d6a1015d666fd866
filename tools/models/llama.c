/* SPDX-License-Identifier: Apache-2.0 */
/* One function per part of a block, as a model is written in PyTorch: whole tensors, no device, no cut. */
#include "tools/models/llama.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct decoder {
    block b;
    const sizes *s;
    const llama *m;
    ein_tensor cosine, sine;
} decoder;

static ein_tensor norm(decoder *d, ein_tensor x, const char *name)
{
    ein_tensor weight = block_parameter(&d->b, name, 1, SHAPE(d->s->hidden));
    if (d->m->gemma) { /* in f32: 1 + weight is not rounded to bf16 */
        weight = ein_cast(d->b.g, weight, d->b.use->dtype == EIN_F64 ? EIN_F64 : EIN_F32);
        weight = ein_map(d->b.g, "1 + x0", 1, &weight);
    }
    return ein_rms_norm(d->b.g, x, weight, d->s->eps);
}

static ein_tensor turned(decoder *d, ein_tensor x)
{
    return ein_rope(d->b.g, x, d->cosine, d->sine, d->b.position);
}

int64_t llama_window(const llama *m, int64_t layer)
{
    if (m->window == 0 || layer < m->window_first || (layer - m->window_first) % m->window_period != 0) return 0;
    return m->window;
}

/* A window that all positions fit into is none. */
static int64_t window_of(const decoder *d)
{
    int64_t window = llama_window(d->m, d->b.layer);
    int64_t positions = d->b.use->capacity > 0 ? d->b.use->capacity : d->b.use->seq;
    return window < positions ? window : 0;
}

static ein_tensor attention(decoder *d, ein_tensor x)
{
    const sizes *s = d->s;
    const llama *m = d->m;
    int64_t q_size = s->heads * s->head_size, kv_size = s->kv_heads * s->head_size;
    ein_tensor q = block_linear(&d->b, x, "self_attn.q_proj", q_size, s->hidden, m->qkv_bias);
    ein_tensor k = block_linear(&d->b, x, "self_attn.k_proj", kv_size, s->hidden, m->qkv_bias);
    ein_tensor v = block_linear(&d->b, x, "self_attn.v_proj", kv_size, s->hidden, m->qkv_bias);
    q = turned(d, block_heads(&d->b, q, s->heads, s->head_size));
    k = turned(d, block_heads(&d->b, k, s->kv_heads, s->head_size));
    v = block_heads(&d->b, v, s->kv_heads, s->head_size);
    ein_attention_options options = {
        .causal = 1, .scale = m->scale, .softcap = m->scores_cap, .window = window_of(d)};
    ein_tensor y = block_attention(&d->b, q, k, v, options);
    return block_linear(&d->b, y, "self_attn.o_proj", s->hidden, q_size, m->output_bias);
}

static ein_tensor feed_forward(decoder *d, ein_tensor x)
{
    const sizes *s = d->s;
    int bias = d->m->mlp_bias;
    if (d->m->experts > 0) return moe_feed_forward(&d->b, s, d->m, x);
    ein_tensor gate = block_linear(&d->b, x, "mlp.gate_proj", s->ffn, s->hidden, bias);
    ein_tensor up = block_linear(&d->b, x, "mlp.up_proj", s->ffn, s->hidden, bias);
    return block_linear(&d->b, block_gate(&d->b, gate, up, d->m->activation), "mlp.down_proj", s->hidden, s->ffn, bias);
}

static ein_tensor layer(decoder *d, ein_tensor x)
{
    ein_tensor y = attention(d, norm(d, x, "input_layernorm.weight"));
    if (d->m->post_norms) y = norm(d, y, "post_attention_layernorm.weight");
    x = ein_add(d->b.g, x, y);
    y = norm(d, x, d->m->post_norms ? "pre_feedforward_layernorm.weight" : "post_attention_layernorm.weight");
    y = feed_forward(d, y);
    if (d->m->post_norms) y = norm(d, y, "post_feedforward_layernorm.weight");
    return ein_add(d->b.g, x, y);
}

double llama_frequency(const sizes *s, const llama *m, int64_t i)
{
    double f = pow(m->theta, -2.0 * (double)i / (double)s->head_size);
    if (m->scaling == ROPE_PLAIN) return f;
    if (m->scaling == ROPE_LINEAR) return f / m->factor;
    double turns = m->original_positions * f / (2 * 3.14159265358979323846);
    if (turns < m->low_frequency) return f / m->factor;
    if (turns > m->high_frequency) return f;
    double keep = (turns - m->low_frequency) / (m->high_frequency - m->low_frequency);
    return (1 - keep) * f / m->factor + keep * f;
}

static void scaled_tables(decoder *d, int64_t positions)
{
    int64_t pairs = d->s->head_size / 2, shape[] = {positions, pairs};
    float *cosine = malloc((size_t)(positions * pairs) * sizeof *cosine);
    float *sine = malloc((size_t)(positions * pairs) * sizeof *sine);
    for (int64_t p = 0; cosine != NULL && sine != NULL && p < positions; p++) {
        for (int64_t i = 0; i < pairs; i++) {
            double angle = (double)p * llama_frequency(d->s, d->m, i);
            cosine[p * pairs + i] = (float)cos(angle);
            sine[p * pairs + i] = (float)sin(angle);
        }
    }
    d->cosine = ein_constant(d->b.g, EIN_F32, 2, shape, cosine);
    d->sine = ein_constant(d->b.g, EIN_F32, 2, shape, sine);
    free(cosine);
    free(sine);
}

static void rotary_tables(decoder *d)
{
    const model_use *use = d->b.use;
    int64_t positions = use->capacity > 0 ? use->capacity : use->seq;
    if (d->m->scaling != ROPE_PLAIN) {
        scaled_tables(d, positions);
    } else {
        ein_rope_tables(d->b.g, positions, d->s->head_size, d->m->theta, &d->cosine, &d->sine);
    }
}

static void logits(decoder *d, ein_tensor x, ein_tensor embedding)
{
    const sizes *s = d->s;
    ein_graph *g = d->b.g;
    ein_tensor head = embedding, none = {0};
    x = norm(d, x, "norm.weight");
    if (!d->m->tied) head = ein_parameter(g, "lm_head.weight", d->b.use->dtype, 2, SHAPE(s->vocabulary, s->hidden));
    x = ein_linear(g, x, head, none);
    if (d->m->logits_cap > 0) {
        char capped[80];
        snprintf(capped, sizeof capped, "%.17g * tanh(x0 / %.17g)", d->m->logits_cap, d->m->logits_cap);
        x = ein_map(g, capped, 1, &x);
    }
    block_predict(&d->b, x);
}

static ein_tensor embed(decoder *d, ein_tensor embedding)
{
    ein_graph *g = d->b.g;
    char scaled[48];
    snprintf(scaled, sizeof scaled, "x0 * %.17g", sqrt((double)d->s->hidden));
    ein_tensor ids = ein_input(g, "ids", EIN_I32, 2, SHAPE(d->b.use->batch, d->b.use->seq));
    ein_tensor x = ein_embedding(g, ids, embedding);
    return d->m->gemma ? ein_map(g, scaled, 1, &x) : x;
}

void llama_build(ein_graph *g, const sizes *s, const llama *m, const naming *names, const model_use *use)
{
    decoder d = {.b = block_begin(g, names, use), .s = s, .m = m};
    ein_tensor x, embedding = {0};
    rotary_tables(&d);
    if (use->head) {
        embedding = block_parameter(&d.b, "embed_tokens.weight", 2, SHAPE(s->vocabulary, s->hidden));
        x = embed(&d, embedding);
    } else {
        x = ein_input(g, "x", use->dtype, 3, SHAPE(use->batch, use->seq, s->hidden));
    }
    for (int64_t i = 0; i < s->layers; i++) {
        block_enter(&d.b, "layers", i);
        x = layer(&d, x);
    }
    block_leave(&d.b);
    if (use->head) {
        logits(&d, x, embedding);
    } else {
        ein_output(g, "y", x);
    }
}
