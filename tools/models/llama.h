/* SPDX-License-Identifier: Apache-2.0 */
/* Decoders of the LLaMA family: LLaMA, Mistral, Qwen2, Gemma, Gemma 2, and blocks with experts. */
#ifndef TOOLS_MODELS_LLAMA_H
#define TOOLS_MODELS_LLAMA_H

#include "tools/models/block.h"

/* How the rotary frequencies are stretched for contexts longer than those of the training. */
typedef enum rope_scaling { ROPE_PLAIN, ROPE_LLAMA3, ROPE_LINEAR } rope_scaling;

typedef struct llama {
    double theta;
    rope_scaling scaling;
    double factor, low_frequency, high_frequency, original_positions; /* the last three: ROPE_LLAMA3 */
    activation activation;
    int qkv_bias, output_bias, mlp_bias;
    int tied;        /* the embedding is the head's weight too */
    int gemma;       /* embeddings times sqrt(hidden); norms scale by 1 + weight */
    int post_norms;  /* norms after attention and feed-forward too */
    int64_t window;  /* layers first, first + period, ... see the last `window` positions; 0: all see everything */
    int64_t window_first, window_period;
    double scale;           /* of the scores; 0: 1/sqrt(head_size) */
    double scores_cap, logits_cap; /* x becomes cap * tanh(x / cap); 0: not */
    int64_t experts, chosen; /* feed-forward parts, of which a token has `chosen`; 0: one for all */
    double slots;            /* an expert's capacity: 1 holds all tokens if they are spread evenly */
} llama;

/* x [batch, seq, hidden] -> its experts' results, weighted. */
ein_tensor moe_feed_forward(block *b, const sizes *sizes, const llama *model, ein_tensor x);
/* Tokens of `tokens` that one expert takes at most. */
int64_t moe_capacity(const llama *model, int64_t tokens);

/* Input "ids" or "x", output "logits" or "y"; states "cache.<layer>.k" and ".v". Errors are the graph's. */
void llama_build(ein_graph *g, const sizes *sizes, const llama *model, const naming *names, const model_use *use);

/* How many of the last positions a layer sees; 0: all. */
int64_t llama_window(const llama *model, int64_t layer);
/* Rotary frequency of pair i, radians per position. */
double llama_frequency(const sizes *sizes, const llama *model, int64_t i);

#endif
