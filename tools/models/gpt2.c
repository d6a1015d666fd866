/* SPDX-License-Identifier: Apache-2.0 */
/* Weights are stored [in, out], and those of queries, keys and values side by side in one. */
#include "tools/models/gpt2.h"

#include <math.h>

static ein_tensor embed(block *b, const sizes *s, ein_tensor embedding)
{
    ein_graph *g = b->g;
    ein_tensor ids = ein_input(g, "ids", EIN_I32, 2, SHAPE(b->use->batch, b->seq));
    ein_tensor places = block_parameter(b, "wpe.weight", 2, SHAPE(s->positions, s->hidden));
    if (b->use->cached > 0) {
        places = ein_embedding(g, ein_input(g, "positions", EIN_I32, 1, SHAPE(b->seq)), places);
    } else {
        places = ein_slice(g, places, 0, 0, b->seq);
    }
    return ein_add(g, ein_embedding(g, ids, embedding), places);
}

static ein_tensor attention(block *b, const sizes *s, const gpt2 *m, ein_tensor x)
{
    ein_tensor all = block_product(b, x, "attn.c_attn", s->hidden, 3 * s->hidden), qkv[3];
    for (int i = 0; i < 3; i++) {
        ein_tensor part = ein_slice(b->g, all, 2, i * s->hidden, (i + 1) * s->hidden);
        qkv[i] = block_heads(b, part, s->heads, s->head_size);
    }
    double scale = m->scale_scores ? 1 / sqrt((double)s->head_size) : 1;
    if (m->scale_by_layer) scale /= (double)(b->layer + 1);
    ein_attention_options options = {.causal = 1, .scale = scale};
    return block_product(b, block_attention(b, qkv[0], qkv[1], qkv[2], options), "attn.c_proj", s->hidden, s->hidden);
}

static ein_tensor layer(block *b, const sizes *s, const gpt2 *m, ein_tensor x)
{
    x = ein_add(b->g, x, attention(b, s, m, block_layer_norm(b, x, "ln_1", s->hidden, s->eps)));
    ein_tensor y = block_product(b, block_layer_norm(b, x, "ln_2", s->hidden, s->eps), "mlp.c_fc", s->hidden, s->ffn);
    return ein_add(b->g, x, block_product(b, block_activate(b, y, m->activation), "mlp.c_proj", s->ffn, s->hidden));
}

void gpt2_build(ein_graph *g, const sizes *s, const gpt2 *m, const naming *names, const model_use *use)
{
    block b = block_begin(g, names, use);
    ein_tensor embedding = block_parameter(&b, "wte.weight", 2, SHAPE(s->vocabulary, s->hidden)), none = {0};
    ein_tensor x = embed(&b, s, embedding);
    for (int64_t i = 0; i < s->layers; i++) {
        block_enter(&b, "h", i);
        x = layer(&b, s, m, x);
    }
    block_leave(&b);
    x = block_layer_norm(&b, x, "ln_f", s->hidden, s->eps);
    block_predict(&b, ein_linear(g, x, embedding, none));
}
