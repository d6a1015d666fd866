/* SPDX-License-Identifier: Apache-2.0 */
/* What builds for each public call: ein__op_add for ein_add, and so on, defined in the op files. Library code that
 * composes ops calls these; the public functions (calls.c) note the call besides. */
#ifndef CORE_GRAPH_OPS_H
#define CORE_GRAPH_OPS_H

#include "ein/graph.h"
#include "ein/op.h"

/* Kinds of arguments as parameters. */
#define PARAM_TENSOR(x) ein_tensor x
#define PARAM_MAYBE(x) ein_tensor x
#define PARAM_TENSORS(x) int n_##x, const ein_tensor *x
#define PARAM_SCALAR(x) ein_scalar x
#define PARAM_INT(x) int x
#define PARAM_LONG(x) int64_t x
#define PARAM_REAL(x) double x
#define PARAM_DTYPE(x) ein_dtype x
#define PARAM_TEXT(x) const char *x
#define PARAM_INTS(x) int n_##x, const int *x
#define PARAM_LONGS(x) int n_##x, const int64_t *x
#define PARAM_EACH_INT(x) const int *x
#define PARAM_EACH_LONG(x) const int64_t *x
#define PARAM_CONV(x) const ein_conv_options *x
#define PARAM_POOL(x) const ein_pool_options *x
#define PARAM_ATTENTION(x) const ein_attention_options *x
#define PARAM_(kind, x) PARAM_##kind(x)

/* F applied to pairs of kind and name, with commas between. */
#define EACH1(F, k, x) F(k, x)
#define EACH2(F, k, x, ...) F(k, x), EACH1(F, __VA_ARGS__)
#define EACH3(F, k, x, ...) F(k, x), EACH2(F, __VA_ARGS__)
#define EACH4(F, k, x, ...) F(k, x), EACH3(F, __VA_ARGS__)
#define EACH5(F, k, x, ...) F(k, x), EACH4(F, __VA_ARGS__)
#define EACH6(F, k, x, ...) F(k, x), EACH5(F, __VA_ARGS__)

#define CALL(n, name, ...) ein_tensor ein__op_##name(ein_graph *g, EACH##n(PARAM_, __VA_ARGS__));
#define CALLS(n_results, n, name, ...) void ein__op_##name(ein_graph *g, EACH##n(PARAM_, __VA_ARGS__), ein_tensor *out);
#include "core/graph/calls.def"

ein_tensor ein__op_input(ein_graph *g, const char *name, ein_dtype dtype, int rank, const int64_t *shape);
ein_tensor ein__op_parameter(ein_graph *g, const char *name, ein_dtype dtype, int rank, const int64_t *shape);
ein_tensor ein__op_state_tensor(ein_graph *g, const char *name, ein_dtype dtype, int rank, const int64_t *shape);
ein_tensor ein__op_constant(ein_graph *g, ein_dtype dtype, int rank, const int64_t *shape, const void *data);
ein_scalar ein__op_scalar_input(ein_graph *g, const char *name);
void ein__op_output(ein_graph *g, const char *name, ein_tensor x);
void ein__op_rope_tables(ein_graph *g, int64_t positions, int64_t d, double theta, ein_tensor *cosine,
                         ein_tensor *sine);
void ein__op_custom(ein_graph *g, const ein_op *op, const ein_tensor *operands, ein_tensor *out);

#endif
