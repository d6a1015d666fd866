/* SPDX-License-Identifier: Apache-2.0 */
/* Transformer blocks of the LLaMA family, built with the library's public words alone. */
#ifndef TOOLS_LLAMA_H
#define TOOLS_LLAMA_H

#include "ein.h"

/* Stretching of the rotary frequencies for contexts longer than those of the training (Llama 3.1). */
typedef struct llama_scaling {
    int on;
    double factor, low_frequency, high_frequency, original_positions;
} llama_scaling;

typedef struct llama {
    int64_t hidden, heads, kv_heads, head_size, ffn, layers, vocabulary;
    double theta, eps;
    llama_scaling scaling;
    int attention_bias, mlp_bias, tied; /* tied: the embedding is the head's weight too */
} llama;

/* What one program is built for. cached > 0: `seq` new positions after `cached` ones, whose keys and values
 * are in the states; head: token ids in, logits out; else hidden vectors in and out. */
typedef struct llama_use {
    int64_t batch, seq, cached;
    int head;
} llama_use;

/* Adds to `g`: input "ids" or "x", output "logits" or "y"; if cached > 0 the scalars "position" (= cached)
 * and "length" (= cached + seq) and the states "cache.<layer>.k" and ".v". Parameters have the names of the
 * published checkpoints. Errors are the graph's. */
void llama_build(ein_graph *g, const llama *model, const llama_use *use);

/* Rotary frequency of pair i, radians per position. */
double llama_frequency(const llama *model, int64_t i);

#endif
