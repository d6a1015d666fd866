/* SPDX-License-Identifier: Apache-2.0 */
/* Between the two files of the attention family: what decides a text. Private to them. */
#ifndef JIT_FAMILY_ATTENTION_H
#define JIT_FAMILY_ATTENTION_H

#include "jit/family/parts.h"

#define ADD(...) ein__text_add(b, __VA_ARGS__)

enum { THREADS = 256, SIDE = 16, CHUNK = 64 };

typedef struct tiling {
    /* What scores, weights and sums are computed in. */
    ein_dtype compute;
    const char *real, *zero, *one, *inf, *fn; /* "float", "0.0f", "1.0f", "K_INF", "k_" */
    int d, e;
    int d_chunk, d_chunks;         /* of q and k; a multiple of 16 */
    int e_slices, e_width;         /* value columns of one block */
    int e_chunk, e_chunks;
    int queries, keys;             /* of a tile */
    int row;                       /* row length of q and p in shared memory: queries + 1 */
    int kv;                        /* elements for a tile of k, v or the mask */
    bool resident;                 /* all chunks of q stay in shared memory */
    int unroll;                    /* of the hot loops, on the device */
    int p_side;                    /* threads along the queries of p; the others along keys */
    int o_side;                    /* threads along the columns of o; the others along queries */
    int o_rows, o_columns;         /* of o per thread */
    bool split;                    /* a thread's queries are one of each group */
    bool causal, window, mask, softcap, states;
} tiling;

/* " * q_d" where a view does not lie side by side along its last label. */
static inline const char *ein__attention_factor(const view *v, int l, const char *source)
{
    return v->stride[l] == 1 ? "" : source;
}

/* Threads side by side that load a chunk of n columns. */
static inline int ein__attention_load_width(int n) { return n % 64 == 0 ? 64 : n % 32 == 0 ? 32 : 16; }
/* The query of a thread's row i. */
short_text ein__attention_query(const tiling *t, int i);
/* Load the queries' chunks: all, before the loop over keys, if they are resident. */
void ein__attention_load_queries(text *b, const job *j, const tiling *t);
/* The body of the loop over tiles of keys, the tile's first key being t0. */
void ein__attention_tile(text *b, const job *j, const tiling *t);

#endif
