/* SPDX-License-Identifier: Apache-2.0 */
/* BERT encoders, and what turns their vectors into one embedding of the text. */
#ifndef TOOLS_MODELS_BERT_H
#define TOOLS_MODELS_BERT_H

#include "tools/models/block.h"

typedef enum pooling { POOL_NONE, POOL_MEAN, POOL_FIRST } pooling;

typedef struct bert {
    int64_t token_types;
    activation activation;
    pooling pooling;
    int normalize; /* the embedding's length is 1 */
} bert;

/* Input "ids"; output "embedding" [batch, hidden], f32, or, without pooling, "last_hidden_state". */
void bert_build(ein_graph *g, const sizes *sizes, const bert *model, const naming *names, const model_use *use);

#endif
