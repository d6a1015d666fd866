/* SPDX-License-Identifier: Apache-2.0 */
/* MODEL strings of the command line: "llama-7b:layers=1,seq=512", "mlp", "matmul:m=8,n=8,k=8", or a
 * config.json (or the folder that holds one) with the same options as the LLaMA names. */
#ifndef TOOLS_MODEL_H
#define TOOLS_MODEL_H

#include "core/base/arena.h"
#include "core/tensor/dtype.h"
#include "tools/llama.h"

typedef enum model_kind { MODEL_LLAMA, MODEL_MLP, MODEL_MATMUL } model_kind;

typedef struct model {
    model_kind kind;
    llama llama;
    llama_use use;
    i64 batch, layers, hidden; /* MODEL_MLP */
    i64 m, n, k;               /* MODEL_MATMUL */
    const char *note;          /* what was changed of a config file's wishes; NULL: nothing */
} model;

/* Fails with EIN_INVALID, EIN_UNSUPPORTED or EIN_IO; the message names what is wrong and what is known. */
ein_status model_parse(arena *a, const char *source, model *out, error *e);
/* Adds the model to an empty graph; the status is the graph's. */
ein_status model_build(const model *m, ein_graph *g);
/* Value of the run-time scalar of that name. */
i64 model_scalar(const model *m, const char *name);

/* A LLaMA config file (Hugging Face). `positions` is its max_position_embeddings. */
ein_status config_read(arena *a, const char *path, llama *out, i64 *positions, const char **note, error *e);
/* The same of its text; `path` is for messages. */
ein_status config_parse(arena *a, const char *path, const char *bytes, size_t n, llama *out, i64 *positions,
                        const char **note, error *e);

#endif
