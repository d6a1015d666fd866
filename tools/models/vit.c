/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks normalize first. */
#include "tools/models/vit.h"

static int64_t patches(const vit *m) { return (m->image / m->patch) * (m->image / m->patch); }

static ein_tensor embed(block *b, const sizes *s, const vit *m)
{
    ein_graph *g = b->g;
    int64_t batch = b->use->batch;
    ein_tensor pixels = ein_input(g, "pixel_values", b->use->dtype, 4, SHAPE(batch, m->channels, m->image, m->image));
    ein_tensor weight = block_parameter(b, "embeddings.patch_embeddings.projection.weight", 4,
                                        SHAPE(s->hidden, m->channels, m->patch, m->patch));
    ein_tensor bias = block_parameter(b, "embeddings.patch_embeddings.projection.bias", 1, SHAPE(s->hidden));
    ein_conv_options options = {.size = sizeof options, .stride = {m->patch, m->patch}};
    ein_tensor x = ein_conv2d(g, pixels, weight, bias, &options);
    x = ein_transpose(g, ein_flatten(g, x, 2, 3), 1, 2);
    ein_tensor first = block_parameter(b, "embeddings.cls_token", 3, SHAPE(1, 1, s->hidden));
    x = ein_concat(g, 2, (const ein_tensor[]){ein_expand(g, first, 3, SHAPE(batch, 1, s->hidden)), x}, 1);
    return ein_add(g, x, block_parameter(b, "embeddings.position_embeddings", 3, SHAPE(1, b->seq, s->hidden)));
}

static ein_tensor heads(block *b, const sizes *s, const vit *m, ein_tensor x, const char *name)
{
    return block_heads(b, block_linear(b, x, name, s->hidden, s->hidden, m->qkv_bias), s->heads, s->head_size);
}

static ein_tensor layer(block *b, const sizes *s, const vit *m, ein_tensor x)
{
    ein_tensor y = block_layer_norm(b, x, "layernorm_before", s->hidden, s->eps);
    ein_tensor q = heads(b, s, m, y, "attention.attention.query"), k = heads(b, s, m, y, "attention.attention.key");
    y = block_attention(b, q, k, heads(b, s, m, y, "attention.attention.value"), (ein_attention_options){0});
    x = ein_add(b->g, x, block_linear(b, y, "attention.output.dense", s->hidden, s->hidden, 1));
    y = block_layer_norm(b, x, "layernorm_after", s->hidden, s->eps);
    y = block_activate(b, block_linear(b, y, "intermediate.dense", s->ffn, s->hidden, 1), m->activation);
    return ein_add(b->g, x, block_linear(b, y, "output.dense", s->hidden, s->ffn, 1));
}

static void classify(block *b, const sizes *s, const vit *m, ein_tensor x)
{
    ein_dtype dtype = b->use->dtype;
    ein_tensor weight = ein_parameter(b->g, "classifier.weight", dtype, 2, SHAPE(m->classes, s->hidden));
    ein_tensor bias = ein_parameter(b->g, "classifier.bias", dtype, 1, SHAPE(m->classes));
    x = ein_squeeze(b->g, ein_slice(b->g, x, 1, 0, 1), 1);
    ein_output(b->g, "logits", ein_linear(b->g, x, weight, bias));
}

void vit_build(ein_graph *g, const sizes *s, const vit *m, const naming *names, const model_use *use)
{
    block b = block_begin(g, names, use);
    b.seq = patches(m) + 1;
    ein_tensor x = embed(&b, s, m);
    for (int64_t i = 0; i < s->layers; i++) {
        block_enter(&b, "encoder.layer", i);
        x = layer(&b, s, m, x);
    }
    block_leave(&b);
    x = block_layer_norm(&b, x, "layernorm", s->hidden, s->eps);
    if (m->classes > 0) {
        classify(&b, s, m, x);
    } else {
        ein_output(g, "last_hidden_state", x);
    }
}
