/* SPDX-License-Identifier: Apache-2.0 */
/* A wrong size needs no check here: the graph keeps the first error, and everything after it is quiet. */
#include "tools/models/block.h"

#include <stdio.h>
#include <string.h>

enum { WORD = 96, NAME = 256 };

block block_begin(ein_graph *g, const naming *names, const model_use *use)
{
    block b = {.g = g, .names = names, .use = use, .seq = use->seq};
    if (use->cached > 0) {
        b.position = ein_scalar_input(g, "position");
        b.length = ein_scalar_input(g, "length");
    }
    return b;
}

void block_enter(block *b, const char *layers, int64_t i)
{
    b->layer = i;
    snprintf(b->scope, sizeof b->scope, "%s.%lld.", layers, (long long)i);
}

void block_leave(block *b) { b->scope[0] = 0; }

ein_tensor block_parameter(block *b, const char *name, int rank, const int64_t *shape)
{
    char full[NAME];
    snprintf(full, sizeof full, "%s%s%s", b->names->prefix, b->scope, name);
    return ein_parameter(b->g, full, b->use->dtype, rank, shape);
}

/* "NAME.weight"; where a checkpoint has only "NAME.OLDER", that. */
static ein_tensor part(block *b, const char *name, const char *kind, const char *older, int rank, const int64_t *shape)
{
    char word[WORD], full[NAME];
    const naming *n = b->names;
    snprintf(word, sizeof word, "%s.%s", name, kind);
    snprintf(full, sizeof full, "%s%s%s", n->prefix, b->scope, word);
    if (older != NULL && n->stored != NULL && !n->stored(n->user, full)) {
        snprintf(full, sizeof full, "%s%s%s.%s", n->prefix, b->scope, name, older);
        if (n->stored(n->user, full)) snprintf(word, sizeof word, "%s.%s", name, older);
    }
    return block_parameter(b, word, rank, shape);
}

ein_tensor block_linear(block *b, ein_tensor x, const char *name, int64_t out, int64_t in, int bias)
{
    ein_tensor weight = part(b, name, "weight", NULL, 2, SHAPE(out, in)), none = {0};
    return ein_linear(b->g, x, weight, bias ? part(b, name, "bias", NULL, 1, SHAPE(out)) : none);
}

ein_tensor block_product(block *b, ein_tensor x, const char *name, int64_t in, int64_t out)
{
    ein_tensor y = ein_matmul(b->g, x, part(b, name, "weight", NULL, 2, SHAPE(in, out)));
    return ein_add(b->g, y, part(b, name, "bias", NULL, 1, SHAPE(out)));
}

ein_tensor block_layer_norm(block *b, ein_tensor x, const char *name, int64_t width, double eps)
{
    ein_tensor weight = part(b, name, "weight", "gamma", 1, SHAPE(width));
    return ein_layer_norm(b->g, x, weight, part(b, name, "bias", "beta", 1, SHAPE(width)), eps);
}

ein_tensor block_activate(block *b, ein_tensor x, activation how)
{
    switch (how) {
    case SILU: return ein_silu(b->g, x);
    case RELU: return ein_relu(b->g, x);
    case GELU: return ein_gelu(b->g, x, 0);
    case GELU_TANH: return ein_gelu(b->g, x, 1);
    }
    return (ein_tensor){0};
}

ein_tensor block_gate(block *b, ein_tensor gate, ein_tensor up, activation how)
{
    static const char *const expressions[] = {
        [SILU] = "x0 * sigmoid(x0) * x1",
        [RELU] = "relu(x0) * x1",
        [GELU] = "0.5 * x0 * (1 + erf(x0 * 0.70710678118654752)) * x1",
        [GELU_TANH] = "0.5 * x0 * (1 + tanh(0.79788456080286536 * (x0 + 0.044715 * x0 * x0 * x0))) * x1",
    };
    return ein_map(b->g, expressions[how], 2, (const ein_tensor[]){gate, up});
}

ein_tensor block_heads(block *b, ein_tensor x, int64_t n, int64_t d)
{
    return ein_reshape(b->g, x, 4, SHAPE(b->use->batch, b->seq, n, d));
}

static ein_tensor swap_heads(block *b, ein_tensor x) { return ein_permute(b->g, x, (const int[]){0, 2, 1, 3}); }

/* rows [b, heads, s, d]: append to the layer's state and give the whole of it. */
static ein_tensor with_cache(block *b, ein_tensor rows, const char *which)
{
    int64_t shape[EIN_MAX_RANK];
    char name[64];
    if (b->use->capacity == 0) return rows;
    ein_tensor_shape(b->g, rows, shape);
    snprintf(name, sizeof name, "cache.%lld.%s", (long long)b->layer, which);
    ein_tensor cache = ein_state_tensor(b->g, name, b->use->dtype, 4,
                                        SHAPE(b->use->batch, shape[1], b->use->capacity, shape[3]));
    return ein_state_append(b->g, cache, rows, 2, b->position);
}

ein_tensor block_attention(block *b, ein_tensor q, ein_tensor k, ein_tensor v, ein_attention_options options)
{
    options.size = sizeof options;
    options.position = b->position;
    options.length = b->length;
    k = with_cache(b, swap_heads(b, k), "k");
    v = with_cache(b, swap_heads(b, v), "v");
    ein_tensor y = swap_heads(b, ein_scaled_dot_product_attention(b->g, swap_heads(b, q), k, v, &options));
    return ein_reshape(b->g, y, 3, SHAPE(b->use->batch, b->seq, -1));
}

void block_predict(block *b, ein_tensor logits)
{
    if (b->use->wanted != NEXT) ein_output(b->g, "logits", logits);
    if (b->use->wanted == LOGITS) return;
    ein_tensor last = ein_slice(b->g, logits, 1, b->seq - 1, b->seq);
    ein_output(b->g, "next", ein_argmax(b->g, last, -1, 0));
}
