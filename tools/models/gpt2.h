/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_MODELS_GPT2_H
#define TOOLS_MODELS_GPT2_H

#include "tools/models/block.h"

typedef struct gpt2 {
    activation activation;
    int scale_scores;   /* by 1/sqrt(head_size) */
    int scale_by_layer; /* by 1/(layer + 1) too */
} gpt2;

/* Input "ids", output "logits"; with cached positions the input "positions" [seq], those of the ids; states as llama.h's. */
void gpt2_build(ein_graph *g, const sizes *sizes, const gpt2 *model, const naming *names, const model_use *use);

#endif
