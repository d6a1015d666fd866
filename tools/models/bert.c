/* SPDX-License-Identifier: Apache-2.0 */
/* All tokens are of type 0, and none is padding: a batch has texts of one length. */
#include "tools/models/bert.h"

static ein_tensor embed(block *b, const sizes *s, const bert *m)
{
    ein_graph *g = b->g;
    ein_tensor ids = ein_input(g, "ids", EIN_I32, 2, SHAPE(b->use->batch, b->seq));
    ein_tensor words = block_parameter(b, "embeddings.word_embeddings.weight", 2, SHAPE(s->vocabulary, s->hidden));
    ein_tensor places = block_parameter(b, "embeddings.position_embeddings.weight", 2, SHAPE(s->positions, s->hidden));
    ein_tensor types = block_parameter(b, "embeddings.token_type_embeddings.weight", 2, SHAPE(m->token_types, s->hidden));
    ein_tensor terms[] = {ein_embedding(g, ids, words), ein_slice(g, places, 0, 0, b->seq), ein_slice(g, types, 0, 0, 1)};
    return block_layer_norm(b, ein_map(g, "x0 + x1 + x2", 3, terms), "embeddings.LayerNorm", s->hidden, s->eps);
}

static ein_tensor heads(block *b, const sizes *s, ein_tensor x, const char *name)
{
    return block_heads(b, block_linear(b, x, name, s->hidden, s->hidden, 1), s->heads, s->head_size);
}

static ein_tensor layer(block *b, const sizes *s, const bert *m, ein_tensor x)
{
    ein_tensor q = heads(b, s, x, "attention.self.query"), k = heads(b, s, x, "attention.self.key");
    ein_tensor y = block_attention(b, q, k, heads(b, s, x, "attention.self.value"), (ein_attention_options){0});
    y = block_linear(b, y, "attention.output.dense", s->hidden, s->hidden, 1);
    x = block_layer_norm(b, ein_add(b->g, x, y), "attention.output.LayerNorm", s->hidden, s->eps);
    y = block_linear(b, x, "intermediate.dense", s->ffn, s->hidden, 1);
    y = block_linear(b, block_activate(b, y, m->activation), "output.dense", s->hidden, s->ffn, 1);
    return block_layer_norm(b, ein_add(b->g, x, y), "output.LayerNorm", s->hidden, s->eps);
}

/* In f32 at least. */
static ein_tensor pool(block *b, const bert *m, ein_tensor x)
{
    ein_graph *g = b->g;
    ein_dtype wide = b->use->dtype == EIN_F64 ? EIN_F64 : EIN_F32;
    if (m->pooling == POOL_FIRST) {
        x = ein_cast(g, ein_squeeze(g, ein_slice(g, x, 1, 0, 1), 1), wide);
    } else {
        x = ein_mean(g, ein_cast(g, x, wide), 1, (const int[]){1}, 0);
    }
    if (!m->normalize) return x;
    ein_tensor squares = ein_sum(g, ein_map(g, "x0 * x0", 1, &x), 1, (const int[]){-1}, 1);
    return ein_map(g, "x0 * rsqrt(max(x1, 1e-24))", 2, (const ein_tensor[]){x, squares});
}

void bert_build(ein_graph *g, const sizes *s, const bert *m, const naming *names, const model_use *use)
{
    block b = block_begin(g, names, use);
    ein_tensor x = embed(&b, s, m);
    for (int64_t i = 0; i < s->layers; i++) {
        block_enter(&b, "encoder.layer", i);
        x = layer(&b, s, m, x);
    }
    if (m->pooling == POOL_NONE) {
        ein_output(g, "last_hidden_state", x);
    } else {
        ein_output(g, "embedding", pool(&b, m, x));
    }
}
