/* SPDX-License-Identifier: Apache-2.0 */
/* A small LLaMA, written with the public words, whose parts can be asked for one by one. */
#ifndef TESTS_HARNESS_SMALL_LLAMA_H
#define TESTS_HARNESS_SMALL_LLAMA_H

#include "ein.h"

typedef struct small_llama {
    int64_t hidden, heads, kv_heads, head_size, ffn, layers;
    int64_t vocabulary; /* 0: no embedding and head: input "x", output "y"; else "ids" and "logits" */
    int64_t batch, seq;
    int64_t cache; /* rows of the KV cache (states "l<layer>.k", ".v"), scalars "position" and "length"; 0:
                      none */
    int64_t positions; /* rows of the rotary tables; 0: as many as needed */
    int tied;          /* the embedding is the head */
} small_llama;

/* Fails the test if the graph has an error. */
ein_graph *small_llama_graph(const small_llama *m);

#endif
