/* SPDX-License-Identifier: Apache-2.0 */
/* What the models of all families are made of, in the library's public words alone. */
#ifndef TOOLS_MODELS_BLOCK_H
#define TOOLS_MODELS_BLOCK_H

#include "ein.h"

/* Sizes that mean the same in every transformer. */
typedef struct sizes {
    int64_t hidden, heads, kv_heads, head_size, ffn, layers, vocabulary;
    int64_t positions; /* the longest sequence; 0: no limit */
    double eps;        /* of the norms */
} sizes;

typedef enum activation { SILU, GELU, GELU_TANH, RELU } activation;

/* Of a decoder with a head: "logits" [batch, seq, vocabulary]; "next" [batch, 1], the id of the largest of the last
 * position's. */
typedef enum wanted { LOGITS, LOGITS_AND_NEXT, NEXT } wanted;

/* What one program is built for: `seq` new positions after `cached` ones, whose keys and values are in states of
 * `capacity` positions (0: there are no states). */
typedef struct model_use {
    int64_t batch, seq, cached, capacity;
    int head;   /* token ids in and logits out, where the model could also take and give hidden vectors */
    wanted wanted;
    ein_dtype dtype;
} model_use;

/* Names of parameters: those of the published checkpoints, some of which have a prefix or older words. */
typedef struct naming {
    const char *prefix;
    int (*stored)(const void *user, const char *name); /* the checkpoint has it; NULL: there is no checkpoint */
    const void *user;
} naming;

/* A graph while its layers are built. */
typedef struct block {
    ein_graph *g;
    const naming *names;
    const model_use *use;
    int64_t seq;                 /* positions that are computed */
    int64_t layer;
    char scope[64];              /* in front of a layer's names: "encoder.layer.3." */
    ein_scalar position, length; /* {0}, unless there are cached positions */
} block;

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

/* With the scalars "position" (= cached) and "length" (= cached + seq) if there are cached positions. */
block block_begin(ein_graph *g, const naming *names, const model_use *use);
/* From here on names are those of layer i: `layers` is "encoder.layer". */
void block_enter(block *b, const char *layers, int64_t i);
void block_leave(block *b);

/* Prefix, scope and name: "model.layers.3.mlp.up_proj.weight". */
ein_tensor block_parameter(block *b, const char *name, int rank, const int64_t *shape);
/* x weight^T + bias, weight [out, in]. */
ein_tensor block_linear(block *b, ein_tensor x, const char *name, int64_t out, int64_t in, int bias);
/* x weight + bias, weight [in, out]. */
ein_tensor block_product(block *b, ein_tensor x, const char *name, int64_t in, int64_t out);
ein_tensor block_layer_norm(block *b, ein_tensor x, const char *name, int64_t width, double eps);
ein_tensor block_activate(block *b, ein_tensor x, activation how);
/* activation(gate) * up */
ein_tensor block_gate(block *b, ein_tensor gate, ein_tensor up, activation how);

/* [b, s, n * d] -> [b, s, n, d] */
ein_tensor block_heads(block *b, ein_tensor x, int64_t n, int64_t d);
/* q, k, v [b, s, heads, d] -> [b, s, heads * d]. Keys and values go by way of the states, if there are. */
ein_tensor block_attention(block *b, ein_tensor q, ein_tensor k, ein_tensor v, ein_attention_options options);

/* The outputs that are wanted. */
void block_predict(block *b, ein_tensor logits);

#endif
