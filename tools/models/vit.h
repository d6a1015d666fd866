/* SPDX-License-Identifier: Apache-2.0 */
/* Vision transformers: patches of an image as tokens, and one more that stands for the image. */
#ifndef TOOLS_MODELS_VIT_H
#define TOOLS_MODELS_VIT_H

#include "tools/models/block.h"

typedef struct vit {
    int64_t image, patch, channels; /* images are square */
    int64_t classes;                /* 0: no classifier */
    int qkv_bias;
    activation activation;
} vit;

/* Input "pixel_values" [batch, channels, image, image]; output "logits" [batch, classes] or "last_hidden_state". */
void vit_build(ein_graph *g, const sizes *sizes, const vit *model, const naming *names, const model_use *use);

#endif
