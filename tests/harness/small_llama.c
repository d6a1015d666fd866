/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/small_llama.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include <cmocka.h>

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

typedef struct builder {
    ein_graph *g;
    const small_llama *m;
    int64_t layer;
    ein_tensor cosine, sine;
    ein_scalar position, length;
} builder;

static const char *layer_name(const builder *b, const char *part, char *room, size_t n)
{
    snprintf(room, n, "l%lld.%s", (long long)b->layer, part);
    return room;
}

static ein_tensor linear(builder *b, ein_tensor x, const char *part, int64_t out, int64_t in)
{
    char name[32];
    ein_tensor w = ein_parameter(b->g, layer_name(b, part, name, sizeof name), EIN_F32, 2, SHAPE(out, in));
    return ein_linear(b->g, x, w, (ein_tensor){0});
}

static ein_tensor norm(builder *b, ein_tensor x, const char *part)
{
    char name[32];
    ein_tensor w =
        ein_parameter(b->g, layer_name(b, part, name, sizeof name), EIN_F32, 1, SHAPE(b->m->hidden));
    return ein_rms_norm(b->g, x, w, 1e-5);
}

static ein_tensor heads(builder *b, ein_tensor x, int64_t n, bool turn)
{
    x = ein_reshape(b->g, x, 4, SHAPE(b->m->batch, b->m->seq, n, b->m->head_size));
    if (turn) x = ein_rope(b->g, x, b->cosine, b->sine, b->position);
    return ein_permute(b->g, x, (const int[]){0, 2, 1, 3});
}

static ein_tensor cached(builder *b, ein_tensor rows, const char *part)
{
    const small_llama *m = b->m;
    char name[32];
    if (m->cache == 0) return rows;
    ein_tensor state = ein_state_tensor(b->g, layer_name(b, part, name, sizeof name), EIN_F32, 4,
                                        SHAPE(m->batch, m->kv_heads, m->cache, m->head_size));
    return ein_state_append(b->g, state, rows, 2, b->position);
}

static ein_tensor attention(builder *b, ein_tensor x)
{
    const small_llama *m = b->m;
    ein_tensor q = heads(b, linear(b, x, "wq", m->heads * m->head_size, m->hidden), m->heads, true);
    ein_tensor k = heads(b, linear(b, x, "wk", m->kv_heads * m->head_size, m->hidden), m->kv_heads, true);
    ein_tensor v = heads(b, linear(b, x, "wv", m->kv_heads * m->head_size, m->hidden), m->kv_heads, false);
    ein_attention_options o = {.size = sizeof o, .causal = 1, .position = b->position, .length = b->length};
    ein_tensor y = ein_scaled_dot_product_attention(b->g, q, cached(b, k, "k"), cached(b, v, "v"), &o);
    y = ein_permute(b->g, y, (const int[]){0, 2, 1, 3});
    y = ein_reshape(b->g, y, 3, SHAPE(m->batch, m->seq, m->heads * m->head_size));
    return linear(b, y, "wo", m->hidden, m->heads * m->head_size);
}

static ein_tensor feed_forward(builder *b, ein_tensor x)
{
    ein_tensor gate = linear(b, x, "w1", b->m->ffn, b->m->hidden),
               up = linear(b, x, "w3", b->m->ffn, b->m->hidden);
    ein_tensor y = ein_map(b->g, "x0 * sigmoid(x0) * x1", 2, (const ein_tensor[]){gate, up});
    return linear(b, y, "w2", b->m->hidden, b->m->ffn);
}

static ein_tensor start(builder *b, ein_tensor *embedding)
{
    const small_llama *m = b->m;
    int64_t rows = m->positions > 0 ? m->positions : m->cache > 0 ? m->cache : m->seq;
    ein_rope_tables(b->g, rows, m->head_size, 1e4, &b->cosine, &b->sine);
    if (m->cache > 0) {
        b->position = ein_scalar_input(b->g, "position");
        b->length = ein_scalar_input(b->g, "length");
    }
    if (m->vocabulary == 0) return ein_input(b->g, "x", EIN_F32, 3, SHAPE(m->batch, m->seq, m->hidden));
    *embedding = ein_parameter(b->g, "embedding", EIN_F32, 2, SHAPE(m->vocabulary, m->hidden));
    return ein_embedding(b->g, ein_input(b->g, "ids", EIN_I32, 2, SHAPE(m->batch, m->seq)), *embedding);
}

static void finish(builder *b, ein_tensor x, ein_tensor head)
{
    const small_llama *m = b->m;
    if (m->vocabulary == 0) {
        ein_output(b->g, "y", x);
        return;
    }
    ein_tensor w = ein_parameter(b->g, "norm", EIN_F32, 1, SHAPE(m->hidden));
    if (!m->tied) head = ein_parameter(b->g, "head", EIN_F32, 2, SHAPE(m->vocabulary, m->hidden));
    ein_output(b->g, "logits", ein_linear(b->g, ein_rms_norm(b->g, x, w, 1e-5), head, (ein_tensor){0}));
}

ein_graph *small_llama_graph(const small_llama *m)
{
    builder b = {.m = m};
    ein_tensor embedding = {0};
    assert_int_equal(ein_graph_create(&b.g), EIN_OK);
    ein_tensor x = start(&b, &embedding);
    for (b.layer = 0; b.layer < m->layers; b.layer++) {
        x = ein_add(b.g, x, attention(&b, norm(&b, x, "n1")));
        x = ein_add(b.g, x, feed_forward(&b, norm(&b, x, "n2")));
    }
    finish(&b, x, embedding);
    assert_string_equal(ein_graph_error(b.g), "");
    return b.g;
}
