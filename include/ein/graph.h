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

/* Element types. bf16 and f16 are stored so and computed in f32; i8, i32, i64 wrap; a bool is a byte, 0 or 1. The
 * last two are names kept free, refused with EIN_DTYPE.
 * An op of several types gives the wider one, as in PyTorch: bool < i8 < i32 < i64 < bf16, f16 < f32 < f64 (bf16 with
 * f16: f32). Sums and products accumulate in f32 (f64 for f64, i64 for integers); where a plan
 * cuts a sum of bf16 or f16, its parts are rounded to that type to travel (ein_compile_options.wire: f32 instead), added
 * in f32 and rounded once more. Tensors of rank 0 count as all others. */
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
/* Name a result. Outputs are ordered; each name once. */
EIN_API void ein_output(ein_graph *g, const char *name, ein_tensor x);

/* Shape of a tensor; returns its rank (0 for {0}) and writes at most EIN_MAX_RANK extents. */
EIN_API int ein_tensor_shape(const ein_graph *g, ein_tensor x, int64_t *shape);
EIN_API ein_dtype ein_tensor_dtype(const ein_graph *g, ein_tensor x); /* 0 for {0} */

/* ---- products -------------------------------------------------------------------------------------- */

/* Sum of products in einsum notation, one or more operands: "bik,bkj->bij". Letters a-z, A-Z; a letter
 * repeated inside one operand takes the diagonal; without "->", the letters that occur once, sorted. "..." stands
 * for any number of dimensions that broadcast; without "->" they come first in the result, as in NumPy. */
EIN_API ein_tensor ein_einsum(ein_graph *g, const char *equation, int n, const ein_tensor *operands);
/* [..., m, k] x [..., k, n] -> [..., m, n]; leading dimensions broadcast; vectors as in torch.matmul. */
EIN_API ein_tensor ein_matmul(ein_graph *g, ein_tensor a, ein_tensor b);
/* x [..., k], weight [n, k], bias [n] or {0} -> x weight^T + bias, [..., n]; all of one float type. */
EIN_API ein_tensor ein_linear(ein_graph *g, ein_tensor x, ein_tensor weight, ein_tensor bias);

/* ---- elementwise ----------------------------------------------------------------------------------- */

/* Any scalar expression of x0, x1, ... with broadcasting: "x0 * sigmoid(x0) * x1 + 0.5".
 * Operators + - * / and comparisons < <= > >= == != (1 or 0); functions neg abs exp log sqrt rsqrt sin cos
 * tanh sigmoid erf relu floor ceil round trunc sign not, min(a,b) max(a,b) pow(a,b) floordiv(a,b) mod(a,b) and(a,b)
 * or(a,b) where(c,a,b). The result has the operands' common type; f32 if that is an integer and the expression is
 * not ("/" and functions of integers are f32; whole constants keep integers); i64 if all operands are bool. */
EIN_API ein_tensor ein_map(ein_graph *g, const char *expression, int n, const ein_tensor *operands);
/* Of bools, add, maximum are "or", mul, minimum are "and"; sub, pow, neg, relu, clamp and roundings take none. */
EIN_API ein_tensor ein_add(ein_graph *g, ein_tensor a, ein_tensor b);
EIN_API ein_tensor ein_sub(ein_graph *g, ein_tensor a, ein_tensor b);
EIN_API ein_tensor ein_mul(ein_graph *g, ein_tensor a, ein_tensor b);
EIN_API ein_tensor ein_div(ein_graph *g, ein_tensor a, ein_tensor b); /* of integers: f32 */
EIN_API ein_tensor ein_pow(ein_graph *g, ein_tensor a, ein_tensor b); /* of integers: f32 */
EIN_API ein_tensor ein_maximum(ein_graph *g, ein_tensor a, ein_tensor b); /* NaN if either is */
EIN_API ein_tensor ein_minimum(ein_graph *g, ein_tensor a, ein_tensor b);
EIN_API ein_tensor ein_neg(ein_graph *g, ein_tensor x);
EIN_API ein_tensor ein_abs(ein_graph *g, ein_tensor x);
EIN_API ein_tensor ein_sign(ein_graph *g, ein_tensor x);
EIN_API ein_tensor ein_floor(ein_graph *g, ein_tensor x);
EIN_API ein_tensor ein_ceil(ein_graph *g, ein_tensor x);
EIN_API ein_tensor ein_round(ein_graph *g, ein_tensor x); /* half to even */
EIN_API ein_tensor ein_exp(ein_graph *g, ein_tensor x);
EIN_API ein_tensor ein_log(ein_graph *g, ein_tensor x);
EIN_API ein_tensor ein_sqrt(ein_graph *g, ein_tensor x);
EIN_API ein_tensor ein_rsqrt(ein_graph *g, ein_tensor x);
EIN_API ein_tensor ein_reciprocal(ein_graph *g, ein_tensor x);
EIN_API ein_tensor ein_sin(ein_graph *g, ein_tensor x);
EIN_API ein_tensor ein_cos(ein_graph *g, ein_tensor x);
EIN_API ein_tensor ein_tanh(ein_graph *g, ein_tensor x);
EIN_API ein_tensor ein_sigmoid(ein_graph *g, ein_tensor x);
EIN_API ein_tensor ein_erf(ein_graph *g, ein_tensor x);
EIN_API ein_tensor ein_relu(ein_graph *g, ein_tensor x);
EIN_API ein_tensor ein_silu(ein_graph *g, ein_tensor x);
/* x * Phi(x); with `tanh` its approximation 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). */
EIN_API ein_tensor ein_gelu(ein_graph *g, ein_tensor x, int tanh);
/* min(max(x, lo), hi); lo -inf and hi +inf are no bounds, NaN is refused; of integers: the integers inside. */
EIN_API ein_tensor ein_clamp(ein_graph *g, ein_tensor x, double lo, double hi);
/* Results are bool. NaN compares as in IEEE 754. */
EIN_API ein_tensor ein_eq(ein_graph *g, ein_tensor a, ein_tensor b);
EIN_API ein_tensor ein_ne(ein_graph *g, ein_tensor a, ein_tensor b);
EIN_API ein_tensor ein_lt(ein_graph *g, ein_tensor a, ein_tensor b);
EIN_API ein_tensor ein_le(ein_graph *g, ein_tensor a, ein_tensor b);
EIN_API ein_tensor ein_gt(ein_graph *g, ein_tensor a, ein_tensor b);
EIN_API ein_tensor ein_ge(ein_graph *g, ein_tensor a, ein_tensor b);
EIN_API ein_tensor ein_logical_and(ein_graph *g, ein_tensor a, ein_tensor b);
EIN_API ein_tensor ein_logical_or(ein_graph *g, ein_tensor a, ein_tensor b);
EIN_API ein_tensor ein_logical_not(ein_graph *g, ein_tensor x);
/* condition (any type, 0 is false) ? a : b. */
EIN_API ein_tensor ein_where(ein_graph *g, ein_tensor condition, ein_tensor a, ein_tensor b);
/* To another type: floats to integers by truncation (saturating; NaN to 0), to bool by x != 0. */
EIN_API ein_tensor ein_cast(ein_graph *g, ein_tensor x, ein_dtype dtype);

/* ---- reductions and row ops ------------------------------------------------------------------------ */

/* Over `n` axes (negative counts from the end; n = 0: all axes). An empty sum is 0, an empty mean is NaN,
 * an empty maximum is refused, as in PyTorch. Sums and products of integers and bools are i64; mean and logsumexp take
 * floats. */
EIN_API ein_tensor ein_sum(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim);
EIN_API ein_tensor ein_mean(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim);
EIN_API ein_tensor ein_amax(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim);
EIN_API ein_tensor ein_amin(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim);
EIN_API ein_tensor ein_prod(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim);
EIN_API ein_tensor ein_logsumexp(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim);
EIN_API ein_tensor ein_any(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim); /* bool */
EIN_API ein_tensor ein_all(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim); /* bool */
/* Index (i64) of the largest or smallest element along one axis: the lowest of equal ones; a NaN is both. */
EIN_API ein_tensor ein_argmax(ein_graph *g, ein_tensor x, int axis, int keepdim);
EIN_API ein_tensor ein_argmin(ein_graph *g, ein_tensor x, int axis, int keepdim);
/* The k largest (smallest) along an axis, sorted, equal ones by index; out[0] values, out[1] indices (i64), both with
 * k in the axis' place. NaN is the largest. */
EIN_API void ein_topk(ein_graph *g, ein_tensor x, int k, int axis, int smallest, ein_tensor *out);
/* Running sum along an axis, x's type (integers wrap; PyTorch widens them), not bool. */
EIN_API ein_tensor ein_cumsum(ein_graph *g, ein_tensor x, int axis);
/* exp(x - max) / sum over one axis. */
EIN_API ein_tensor ein_softmax(ein_graph *g, ein_tensor x, int axis);
EIN_API ein_tensor ein_log_softmax(ein_graph *g, ein_tensor x, int axis);
/* logits [..., classes], targets i32 or i64 [...] -> logsumexp(logits) - logits[target], [...]: a loss
 * for each target, no mean over them. Targets are not checked: one outside gives logsumexp alone. */
EIN_API ein_tensor ein_cross_entropy(ein_graph *g, ein_tensor logits, ein_tensor targets);
/* x [..., d], weight [d] or {0}: x / sqrt(mean(x^2 over the last axis) + eps) * weight. */
EIN_API ein_tensor ein_rms_norm(ein_graph *g, ein_tensor x, ein_tensor weight, double eps);
/* x [..., d], weight [d] or {0}, bias [d] or {0}: (x - mean) / sqrt(variance + eps) * weight + bias over the last
 * axis. The statistic is one pass of Welford's. Weight and bias of all norms are of x's type, or f32 for bf16, f16. */
EIN_API ein_tensor ein_layer_norm(ein_graph *g, ein_tensor x, ein_tensor weight, ein_tensor bias, double eps);
/* x [n, c, ...]: the same over c / groups channels and all positions; weight, bias [c] or {0}. */
EIN_API ein_tensor ein_group_norm(ein_graph *g, ein_tensor x, int64_t groups, ein_tensor weight, ein_tensor bias,
                                  double eps);
/* x [n, c, ...] with given statistics [c] (inference): (x - mean) / sqrt(variance + eps) * weight + bias. */
EIN_API ein_tensor ein_batch_norm(ein_graph *g, ein_tensor x, ein_tensor mean, ein_tensor variance,
                                  ein_tensor weight, ein_tensor bias, double eps);

/* ---- convolution and pooling ------------------------------------------------------------------------- */

/* Per spatial dimension; all zeros: stride and dilation 1, no padding, one group. */
typedef struct ein_conv_options {
    size_t size; /* sizeof(ein_conv_options) */
    int64_t stride[2], padding[2], dilation[2]; /* padding: zeros on both sides */
    int64_t padding_end[2];                     /* more zeros after the end than before the start: the difference */
    int64_t groups;
} ein_conv_options;

/* x [n, c, l], weight [o, c / groups, k], bias [o] or {0} -> [n, o, l']. Options may be NULL. */
EIN_API ein_tensor ein_conv1d(ein_graph *g, ein_tensor x, ein_tensor weight, ein_tensor bias,
                              const ein_conv_options *options);
/* x [n, c, h, w], weight [o, c / groups, kh, kw], bias [o] or {0} -> [n, o, h', w']. */
EIN_API ein_tensor ein_conv2d(ein_graph *g, ein_tensor x, ein_tensor weight, ein_tensor bias,
                              const ein_conv_options *options);

/* Over the last one (kernel[1] = 0) or two dimensions of x. */
typedef struct ein_pool_options {
    size_t size; /* sizeof(ein_pool_options) */
    int64_t kernel[2], stride[2], padding[2], dilation[2]; /* stride 0: the kernel; dilation 0: 1 */
    int64_t padding_end[2];                                /* as in ein_conv_options */
    int ceil_mode;         /* a last window that starts inside counts, even if it ends outside */
    int exclude_padding;   /* avg_pool: padding is not counted in the divisor */
} ein_pool_options;

EIN_API ein_tensor ein_max_pool(ein_graph *g, ein_tensor x, const ein_pool_options *options);
EIN_API ein_tensor ein_avg_pool(ein_graph *g, ein_tensor x, const ein_pool_options *options);

/* ---- attention ------------------------------------------------------------------------------------- */

/* Rotary embedding, half-split pairs (i, i + d/2). x [b, s, h, d]; cosine, sine [positions, d/2]; row
 * s + position of the tables is used (position {0}: 0). */
EIN_API ein_tensor ein_rope(ein_graph *g, ein_tensor x, ein_tensor cosine, ein_tensor sine, ein_scalar position);
/* The same for interleaved pairs (2 i, 2 i + 1). */
EIN_API ein_tensor ein_rope_interleaved(ein_graph *g, ein_tensor x, ein_tensor cosine, ein_tensor sine,
                                        ein_scalar position);
/* The two tables of ein_rope as constants, computed in f64: angle = p * theta^(-2i/d). */
EIN_API void ein_rope_tables(ein_graph *g, int64_t positions, int64_t d, double theta, ein_tensor *cosine,
                             ein_tensor *sine);

typedef struct ein_attention_options {
    size_t size;         /* sizeof(ein_attention_options) */
    int causal;          /* key t is seen by query s when t <= s + position */
    double scale;        /* 0: 1/sqrt(d) */
    ein_scalar position; /* global index of query 0; {0}: 0 */
    ein_scalar length;   /* keys at or past it are not seen; {0}: all */
    ein_tensor mask;     /* broadcasts to [b, hq, s, t]: bool, 1 is seen, or float, added to the
                            scores (-inf: not seen); {0}: none */
    int64_t window;      /* key t is seen by query s only if t > s + position - window; 0: no limit. A lower bound
                            alone: with causal, the last `window` keys */
    double softcap;      /* scores become softcap * tanh(score / softcap), before masks; 0: none */
} ein_attention_options;

/* q [b, hq, s, d], k [b, hkv, t, d], v [b, hkv, t, e], hq a multiple of hkv -> [b, hq, s, e]. A row that
 * sees no key is 0. */
EIN_API ein_tensor ein_scaled_dot_product_attention(ein_graph *g, ein_tensor q, ein_tensor k, ein_tensor v,
                                                    const ein_attention_options *options);
/* The same, unfinished: out[0] = m, row maxima [b, hq, s]; out[1] = l, row sums of exp(score - m); out[2] =
 * o, sum of exp(score - m) v, [b, hq, s, e]. A row that sees no key has m = -3e38, l = 0, o = 0. */
EIN_API void ein_scaled_dot_product_attention_partial(ein_graph *g, ein_tensor q, ein_tensor k, ein_tensor v,
                                                      const ein_attention_options *options, ein_tensor *out);

/* ---- indices ----------------------------------------------------------------------------------------- */

/* ids i32 or i64 [...], table [rows, d] -> [..., d]. An id outside the table fails the run if it is an input's, the
 * call if it is a constant's; one that was computed finds nothing: zeros here, and
 * nothing added by scatter_add. So with all ops here. */
EIN_API ein_tensor ein_embedding(ein_graph *g, ein_tensor ids, ein_tensor table);
/* x[.., ids[j], ..] along an axis; ids [n]. */
EIN_API ein_tensor ein_index_select(ein_graph *g, ein_tensor x, int axis, ein_tensor ids);
/* y[.., j, ..] = x[.., index[.., j, ..], ..] along an axis; index has x's other extents. */
EIN_API ein_tensor ein_gather(ein_graph *g, ein_tensor x, int axis, ein_tensor index);
/* x with source[.., j, ..] added at index[.., j, ..] along an axis; source has the index's shape, and x's type;
 * the index has x's other extents. Not bool. Costs x's elements times the index's extent along the axis. */
EIN_API ein_tensor ein_scatter_add(ein_graph *g, ein_tensor x, int axis, ein_tensor index, ein_tensor source);
/* ids [...] -> [..., classes], 1 where the class is the id, else 0. */
EIN_API ein_tensor ein_one_hot(ein_graph *g, ein_tensor ids, int64_t classes, ein_dtype dtype);

/* Mixture of experts with static capacity: every token goes to its k best experts; an expert takes its first
 * `capacity` tokens (first choices before second ones, then by token), the others are dropped. logits [tokens,
 * experts]. out[0] dispatch [tokens, experts, capacity], 1 where a token has a slot; out[1] combine, the same times
 * the token's softmax weight for the expert (if `normalize`, the k weights of a token sum to 1); both of
 * the logits' type, from a softmax in f32 (f64 for f64). Then
 *     h = einsum("tec,td->ecd", dispatch, x);  ... experts on h ...;  y = einsum("tec,ecd->td", combine, h). */
EIN_API void ein_moe_routing(ein_graph *g, ein_tensor logits, int k, int64_t capacity, int normalize,
                             ein_tensor *out);

/* ---- new values --------------------------------------------------------------------------------------- */

EIN_API ein_tensor ein_full(ein_graph *g, ein_dtype dtype, int rank, const int64_t *shape, double value);
/* start, start + step, ...: n values; whole numbers exactly. */
EIN_API ein_tensor ein_arange(ein_graph *g, ein_dtype dtype, int64_t n, double start, double step);

/* ---- views ----------------------------------------------------------------------------------------- */

/* Same elements, new shape; one extent may be -1. */
EIN_API ein_tensor ein_reshape(ein_graph *g, ein_tensor x, int rank, const int64_t *shape);
EIN_API ein_tensor ein_permute(ein_graph *g, ein_tensor x, const int *axes);
/* x[start : end] along one axis; negative counts from the end; clamped as in Python. */
EIN_API ein_tensor ein_slice(ein_graph *g, ein_tensor x, int axis, int64_t start, int64_t end);
/* Every step-th element; a negative step walks from `start` down to above `end`. */
EIN_API ein_tensor ein_slice_step(ein_graph *g, ein_tensor x, int axis, int64_t start, int64_t end, int64_t step);
/* Operands of one type, of shapes that differ along the axis only. */
EIN_API ein_tensor ein_concat(ein_graph *g, int n, const ein_tensor *operands, int axis);
EIN_API ein_tensor ein_stack(ein_graph *g, int n, const ein_tensor *operands, int axis); /* along a new axis */
/* n pieces of these sizes along an axis. */
EIN_API void ein_split(ein_graph *g, ein_tensor x, int n, const int64_t *sizes, int axis, ein_tensor *out);
EIN_API ein_tensor ein_transpose(ein_graph *g, ein_tensor x, int a, int b);
EIN_API ein_tensor ein_squeeze(ein_graph *g, ein_tensor x, int axis); /* an extent of 1 goes, another stays */
EIN_API ein_tensor ein_unsqueeze(ein_graph *g, ein_tensor x, int axis);
EIN_API ein_tensor ein_flatten(ein_graph *g, ein_tensor x, int first, int last);
/* Broadcast to a shape; -1 keeps an extent. */
EIN_API ein_tensor ein_expand(ein_graph *g, ein_tensor x, int rank, const int64_t *shape);
/* before[i] values in front of dimension i and after[i] behind; negative ones cut. */
EIN_API ein_tensor ein_pad(ein_graph *g, ein_tensor x, const int64_t *before, const int64_t *after, double value);
EIN_API ein_tensor ein_roll(ein_graph *g, ein_tensor x, int64_t shift, int axis);
EIN_API ein_tensor ein_flip(ein_graph *g, ein_tensor x, int n, const int *axes);
/* Of the last two dimensions: elements above (below) the diagonal-th diagonal become 0. */
EIN_API ein_tensor ein_tril(ein_graph *g, ein_tensor x, int64_t diagonal);
EIN_API ein_tensor ein_triu(ein_graph *g, ein_tensor x, int64_t diagonal);

/* state [.., T, ..], rows [.., s, ..]: write rows at position .. position + s of the axis, in place; rows
 * past T fail the run. Returns the state after the write; the state before it may not be used any more. */
EIN_API ein_tensor ein_state_append(ein_graph *g, ein_tensor state, ein_tensor rows, int axis, ein_scalar position);

/* ---- graph files --------------------------------------------------------------------------------------- */

/* A graph's calls as JSON, in one file, for bug reports and front ends; core/graph/README.md describes the form.
 * `weights` (may be NULL) is noted in it: the safetensors file or folder, seen from the graph file, that has the
 * parameters. Fails with EIN_UNSUPPORTED for a graph with an ein_custom op, EIN_INVALID, EIN_IO, EIN_NO_MEMORY and one
 * line in `message` (may be NULL). */
EIN_API ein_status ein_graph_save(const ein_graph *g, const char *path, const char *weights, char *message,
                                  size_t message_bytes);
/* Into an empty graph. What is wrong is the graph's error, and names the call. The file is not trusted. */
EIN_API ein_status ein_graph_load(ein_graph *g, const char *path);
EIN_API ein_status ein_graph_read(ein_graph *g, const char *json, size_t bytes);
/* What the file notes as its weights; NULL if nothing. */
EIN_API const char *ein_graph_weights(const ein_graph *g);

#ifdef __cplusplus
}
#endif
#endif
