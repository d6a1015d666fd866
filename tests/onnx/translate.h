/* SPDX-License-Identifier: Apache-2.0 */
/* From a model to the library's public calls. Values go by name; a table (onnx_find_op) has a function per op. */
#ifndef TESTS_ONNX_TRANSLATE_H
#define TESTS_ONNX_TRANSLATE_H

#include "core/base/text.h"
#include "ein.h"
#include "tests/onnx/model.h"

/* Numbers of a value that a call needs while the graph is built: axes, shapes, k. */
typedef struct onnx_numbers {
    int n;
    const double *real;
    const i64 *whole; /* truncated, saturated */
} onnx_numbers;

typedef struct onnx_case {
    arena a;
    const char *name; /* the folder's: "test_abs" */
    onnx_model model;
    onnx_tensor *inputs, *outputs; /* the data set's, per input and output of the model */
    struct { int n, room; struct onnx_known *items; } known;
    bool loose; /* some op of it is a formula of several roundings */
} onnx_case;

enum { ONNX_MAX_OUTPUTS = 32 };

typedef struct translation {
    onnx_case *c;
    ein_graph *g;
    struct { int n, room; struct onnx_named *items; } values;
    char why[160]; /* why the case cannot be translated; "": it can */
} translation;

/* Add the case's nodes to `g`; its inputs there are called "case.input". outputs[i] is the model's output i. False if
 * the case is beyond the library, with the reason in `why`; a call that the library refused is in the graph's error. */
bool onnx_translate(onnx_case *c, ein_graph *g, ein_tensor *outputs, char why[160]);

/* ---- for ops ------------------------------------------------------------------------------------------ */

typedef void onnx_make(translation *t, const onnx_node *n, ein_tensor *out);

/* One of: a function of its own; a public call of one or two tensors; an expression of all inputs. */
typedef struct onnx_op {
    const char *name;
    onnx_make *make;
    ein_tensor (*one)(ein_graph *, ein_tensor);
    ein_tensor (*two)(ein_graph *, ein_tensor, ein_tensor);
    const char *expression;
    bool loose;
} onnx_op;

/* Each up to a NULL name. */
extern const onnx_op onnx_ops_map[], onnx_ops_reduce[], onnx_ops_move[], onnx_ops_index[], onnx_ops_nn[],
    onnx_ops_rnn[];

/* It cannot be done. */
void onnx_skip(translation *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

bool onnx_has(const onnx_node *n, int input);
ein_tensor onnx_input(translation *t, const onnx_node *n, int input); /* {0}: left out */
/* The numbers of an input, as the data set has them or as the nodes before make of it; n = 0 if it is left out. */
onnx_numbers onnx_known_input(translation *t, const onnx_node *n, int input);
i64 onnx_known_int(translation *t, const onnx_node *n, int input, i64 otherwise);

const onnx_attribute *onnx_attr(const onnx_node *n, const char *name); /* NULL: not given */
i64 onnx_attr_int(const onnx_node *n, const char *name, i64 otherwise);
double onnx_attr_float(const onnx_node *n, const char *name, double otherwise);
const char *onnx_attr_string(const onnx_node *n, const char *name, const char *otherwise);

/* A tensor's shape; its rank. */
int onnx_shape(const translation *t, ein_tensor x, i64 shape[EIN_MAX_RANK]);
int onnx_rank(const translation *t, ein_tensor x);
/* `axis` counted from the front; one that is out of range stays, for the library to refuse. */
int onnx_axis(i64 axis, int rank);
/* x with dimension `from` moved to place `to`. */
ein_tensor onnx_move_axis(translation *t, ein_tensor x, int from, int to);
/* A number of x's type, rank 0. */
ein_tensor onnx_scalar(translation *t, ein_tensor like, double value);
/* ids with `extent` added to negative ones. */
ein_tensor onnx_positive_ids(translation *t, ein_tensor ids, i64 extent);
ein_tensor onnx_constant(translation *t, const onnx_tensor *x);

#endif
