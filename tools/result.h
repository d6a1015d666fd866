/* SPDX-License-Identifier: Apache-2.0 */
/* What a run computed, for people and files: members of its row, and a safetensors file. */
#ifndef TOOLS_RESULT_H
#define TOOLS_RESULT_H

#include <jansson.h>

#include "tools/generate.h"

/* Add to the row of a run with a prompt or an image: its tokens, name and shape of the output, an embedding itself, and
 * the tokens that were generated (NULL: none). */
void result_add(json_t *row, const workload *w, void *const *outputs, const generation *tokens);
/* The outputs but "next" in f32 (f64 stays), those of a single text without the dimension of texts. */
ein_status result_write(workload *w, void *const *outputs, const char *path);

#endif
