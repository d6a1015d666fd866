/* SPDX-License-Identifier: Apache-2.0 */
/* What a run is asked beside its MODEL: a prompt, how many tokens to add to it, the type to compute in, an image. */
#ifndef TOOLS_REQUEST_H
#define TOOLS_REQUEST_H

#include "tools/args.h"
#include "tools/model.h"

typedef struct request {
    struct { int n, room; int32_t *items; } tokens; /* n = 0: none were given */
    i64 generate;
    ein_dtype dtype;    /* 0: the MODEL's */
    const char *input;  /* a safetensors file with a tensor "pixel_values", or inputs of a graph file by their names;
                           NULL, or not in it: seeded numbers */
    const char *output; /* where the outputs go, as safetensors; NULL: nowhere */
    bool stop_at_end;   /* generate no more after a token that ends a text */
} request;

/* Lists are made on `a`. Fails with EIN_INVALID, EIN_IO. */
ein_status request_read(arena *a, const args *from, request *out, error *e);
/* Integers between commas, blanks and line ends. `where` is for messages. */
ein_status request_read_tokens(arena *a, const char *where, const char *words, request *out, error *e);
/* Make the model's use of it; what the model cannot do, or what is too long for it, is refused. */
ein_status request_apply(const request *r, model *m, error *e);

#endif
