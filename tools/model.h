/* SPDX-License-Identifier: Apache-2.0 */
/* MODEL strings of the command line: a name and options, "llama-7b:layers=1,seq=512", "mlp", "matmul:m=8,n=8,k=8"; or
 * a config.json of Hugging Face, or the folder that holds one and perhaps weights, with the same options; or a graph
 * file. */
#ifndef TOOLS_MODEL_H
#define TOOLS_MODEL_H

#include "core/base/arena.h"
#include "core/tensor/dtype.h"
#include "tools/models/bert.h"
#include "tools/models/gpt2.h"
#include "tools/models/llama.h"
#include "tools/models/vit.h"

enum { MOST_ENDS = 8 };

typedef struct matmul { i64 m, n, k; } matmul;

typedef struct family family;
typedef struct model {
    const family *family;
    sizes sizes;
    union {
        llama llama;
        bert bert;
        gpt2 gpt2;
        vit vit;
        matmul matmul;
    };
    model_use use;
    bool from_files;          /* has a config file */
    const char *folder;       /* has weights; NULL: weights are seeded */
    const char *graph;        /* a graph file; NULL: another family */
    const char *stored_dtype; /* the config's word for the type of the weights; NULL: none */
    int n_ends;               /* tokens that end a text, of a config or generation_config.json */
    i64 ends[MOST_ENDS];
} model;

struct config;
struct family {
    const char *name;
    const char *types;           /* model_types of config files, separated by blanks */
    const char *options;         /* that a MODEL string may have, besides dtype */
    const char *const *prefixes; /* of parameters in checkpoints, NULL at the end; the first is the usual one */
    const char *probe;           /* a parameter in each checkpoint; NULL: there are no other prefixes */
    int head_step;               /* "hidden" is a multiple of heads * head_step; 0: of anything */
    bool has_head, generates, reads_ids;
    ein_status (*read)(const struct config *c, model *out); /* there are config files of those in FAMILIES */
    /* What other files of the folder say of the graph; NULL: nothing. */
    ein_status (*read_folder)(arena *a, const char *folder, model *out, error *e);
    void (*build)(ein_graph *g, const model *m, const naming *names);
};

/* Fails with EIN_INVALID, EIN_UNSUPPORTED or EIN_IO; the message names what is wrong and what is known. */
ein_status model_parse(arena *a, const char *source, model *out, error *e);
/* Adds the model to an empty graph; the status is the graph's. */
ein_status model_build(const model *m, const naming *names, ein_graph *g);
/* The positions of m->use are not more than the model has. */
ein_status model_check_length(const model *m, error *e);
/* Value of the run-time scalar of that name. */
i64 model_scalar(const model *m, const char *name);
/* "f32", "bf16", "f16", "f64"; 0: none of them. */
ein_dtype model_dtype(const char *name, size_t length);

extern const family family_llama, family_bert, family_gpt2, family_vit, family_mlp, family_matmul, family_graph;
bool graph_file_is(const char *path);
ein_status graph_file_parse(arena *a, const char *path, model *out, error *e);
/* Those that config files can be of; NULL at the end. */
extern const family *const FAMILIES[];

/* The tokens that end a text, by a generation_config.json; there may be none. */
ein_status config_read_ends(const char *path, model *out, error *e);
/* A config file (Hugging Face): family and sizes. `out` must be zeros. */
ein_status config_read(arena *a, const char *path, model *out, error *e);
/* The same of its text; `path` is for messages. */
ein_status config_parse(arena *a, const char *path, const char *bytes, size_t n, model *out, error *e);

#endif
