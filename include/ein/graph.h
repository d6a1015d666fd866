/* SPDX-License-Identifier: Apache-2.0 */
/* The graph builder: an AI computation on whole tensors.
 *
 * Ops carry PyTorch's names and argument order. A tensor is a small value; {0} is "no tensor" and is
 * accepted everywhere: a wrong call records the graph's FIRST error, returns {0}, and everything built on
 * it is quietly {0} too; ein_compile reports that first error. All tensors are row-major.
 * Thread: one at a time per graph. Nothing here blocks. */
#ifndef EIN_GRAPH_H
#define EIN_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "ein/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ein_graph ein_graph;
typedef struct ein_tensor { uint32_t id; } ein_tensor; /* 0: none */
typedef struct ein_scalar { uint32_t id; } ein_scalar; /* 0: none */

/* Element types. The first three are built; the others are names kept free, refused with EIN_DTYPE. */
typedef enum ein_dtype {
    EIN_F32 = 1, EIN_I32 = 2, EIN_I64 = 3,
    EIN_F64 = 4, EIN_BF16 = 5, EIN_F16 = 6, EIN_I8 = 7, EIN_BOOL = 8, EIN_F8E4M3 = 9, EIN_F8E5M2 = 10
} ein_dtype;

enum { EIN_MAX_RANK = 8 };

EIN_API ein_status ein_graph_create(ein_graph **out);
EIN_API void ein_graph_free(ein_graph *graph);

/* The first error's status and line ("" if none). */
EIN_API ein_status ein_graph_status(const ein_graph *graph);
EIN_API const char *ein_graph_error(const ein_graph *graph);

/* ---- leaves ---------------------------------------------------------------------------------------- */

/* Given anew for each run. */
EIN_API ein_tensor ein_input(ein_graph *g, const char *name, ein_dtype dtype, int rank, const int64_t *shape);
/* Lives in an ein_weights store under this name; placed once, shared by programs. */
EIN_API ein_tensor ein_parameter(ein_graph *g, const char *name, ein_dtype dtype, int rank, const int64_t *shape);
/* Lives on the devices between runs in an ein_state; starts as zeros; changed by ein_state_append. */
EIN_API ein_tensor ein_state_tensor(ein_graph *g, const char *name, ein_dtype dtype, int rank, const int64_t *shape);
/* A table that is part of the graph; `data` (row-major, shape's elements) is copied, and its content is
 * part of the graph's identity. */
EIN_API ein_tensor ein_constant(ein_graph *g, ein_dtype dtype, int rank, const int64_t *shape, const void *data);
/* An integer given per run (a position, a valid length); changing it never recompiles. */
EIN_API ein_scalar ein_scalar_input(ein_graph *g, const char *name);
/* Name a result. Outputs are ordered; each name once. f32 [shape of x]. */
EIN_API void ein_output(ein_graph *g, const char *name, ein_tensor x);

/* Shape of a tensor; returns its rank (0 for {0}) and writes at most EIN_MAX_RANK extents. */
EIN_API int ein_tensor_shape(const ein_graph *g, ein_tensor x, int64_t *shape);

/* ---- products -------------------------------------------------------------------------------------- */

/* Sum of products in einsum notation, one or more operands: "bik,bkj->bij". Letters a-z, A-Z; a letter
 * repeated inside one operand takes the diagonal; without "->", the letters that occur once, sorted. */
EIN_API ein_tensor ein_einsum(ein_graph *g, const char *equation, int n, const ein_tensor *operands);
/* [..., m, k] x [..., k, n] -> [..., m, n]; leading dimensions broadcast; vectors as in torch.matmul. */
EIN_API ein_tensor ein_matmul(ein_graph *g, ein_tensor a, ein_tensor b);
/* x [..., k], weight [n, k], bias [n] or {0} -> x weight^T + bias, [..., n]. */
EIN_API ein_tensor ein_linear(ein_graph *g, ein_tensor x, ein_tensor weight, ein_tensor bias);

/* ---- elementwise ----------------------------------------------------------------------------------- */

/* Any scalar expression of x0, x1, ... with broadcasting: "x0 * sigmoid(x0) * x1 + 0.5".
 * Operators + - * / and comparisons < <= > >= == (1 or 0); functions neg abs exp log sqrt rsqrt sin cos
 * tanh sigmoid erf relu, min(a,b) max(a,b) pow(a,b) where(c,a,b). f32 operands; result f32. */
EIN_API ein_tensor ein_map(ein_graph *g, const char *expression, int n, const ein_tensor *operands);
EIN_API ein_tensor ein_add(ein_graph *g, ein_tensor a, ein_tensor b);
EIN_API ein_tensor ein_sub(ein_graph *g, ein_tensor a, ein_tensor b);
EIN_API ein_tensor ein_mul(ein_graph *g, ein_tensor a, ein_tensor b);
EIN_API ein_tensor ein_div(ein_graph *g, ein_tensor a, ein_tensor b);
EIN_API ein_tensor ein_relu(ein_graph *g, ein_tensor x);
EIN_API ein_tensor ein_silu(ein_graph *g, ein_tensor x);

/* ---- reductions and row ops ------------------------------------------------------------------------ */

/* Over `n` axes (negative counts from the end; n = 0: all axes). An empty sum is 0, an empty mean is NaN,
 * an empty maximum is refused, as in PyTorch. */
EIN_API ein_tensor ein_sum(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim);
EIN_API ein_tensor ein_mean(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim);
EIN_API ein_tensor ein_amax(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim);
EIN_API ein_tensor ein_amin(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim);
/* exp(x - max) / sum over one axis. */
EIN_API ein_tensor ein_softmax(ein_graph *g, ein_tensor x, int axis);
/* x [..., d], weight [d] or {0}: x / sqrt(mean(x^2 over the last axis) + eps) * weight. */
EIN_API ein_tensor ein_rms_norm(ein_graph *g, ein_tensor x, ein_tensor weight, double eps);

/* ---- attention ------------------------------------------------------------------------------------- */

/* Rotary embedding, half-split pairs (i, i + d/2). x [b, s, h, d]; cosine, sine [positions, d/2]; row
 * s + position of the tables is used (position {0}: 0). */
EIN_API ein_tensor ein_rope(ein_graph *g, ein_tensor x, ein_tensor cosine, ein_tensor sine, ein_scalar position);
/* The two tables of ein_rope as constants, computed in f64: angle = p * theta^(-2i/d). */
EIN_API void ein_rope_tables(ein_graph *g, int64_t positions, int64_t d, double theta, ein_tensor *cosine,
                             ein_tensor *sine);

typedef struct ein_attention_options {
    size_t size;         /* sizeof(ein_attention_options) */
    int causal;          /* key t is seen by query s when t <= s + position */
    double scale;        /* 0: 1/sqrt(d) */
    ein_scalar position; /* global index of query 0; {0}: 0 */
    ein_scalar length;   /* keys at or past it are not seen; {0}: all */
} ein_attention_options;

/* q [b, hq, s, d], k [b, hkv, t, d], v [b, hkv, t, e], hq a multiple of hkv -> [b, hq, s, e]. A row that
 * sees no key is 0. */
EIN_API ein_tensor ein_scaled_dot_product_attention(ein_graph *g, ein_tensor q, ein_tensor k, ein_tensor v,
                                                    const ein_attention_options *options);
/* The same, unfinished: out[0] = m, row maxima [b, hq, s]; out[1] = l, row sums of exp(score - m); out[2] =
 * o, sum of exp(score - m) v, [b, hq, s, e]. A row that sees no key has m = -3e38, l = 0, o = 0. */
EIN_API void ein_scaled_dot_product_attention_partial(ein_graph *g, ein_tensor q, ein_tensor k, ein_tensor v,
                                                      const ein_attention_options *options, ein_tensor out[3]);

/* ids i32 or i64 [...], table [rows, d] -> [..., d]. An id outside the table fails the run, in a
 * constant the call. */
EIN_API ein_tensor ein_embedding(ein_graph *g, ein_tensor ids, ein_tensor table);

/* ---- views ----------------------------------------------------------------------------------------- */

/* Same elements, new shape; one extent may be -1. */
EIN_API ein_tensor ein_reshape(ein_graph *g, ein_tensor x, int rank, const int64_t *shape);
EIN_API ein_tensor ein_permute(ein_graph *g, ein_tensor x, const int *axes);
/* x[start : end] along one axis; negative counts from the end; clamped as in Python. */
EIN_API ein_tensor ein_slice(ein_graph *g, ein_tensor x, int axis, int64_t start, int64_t end);
EIN_API ein_tensor ein_concat(ein_graph *g, int n, const ein_tensor *operands, int axis);

/* state [.., T, ..], rows [.., s, ..]: write rows at position .. position + s of the axis, in place; rows
 * past T fail the run. Returns the state after the write; the state before it may not be used any more. */
EIN_API ein_tensor ein_state_append(ein_graph *g, ein_tensor state, ein_tensor rows, int axis, ein_scalar position);

#ifdef __cplusplus
}
#endif
#endif
