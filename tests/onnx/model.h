/* SPDX-License-Identifier: Apache-2.0 */
/* What ONNX's files say, as far as tests need it: a model of one graph without subgraphs, and tensors. The message
 * and field names are those of onnx.proto; what is made lives on the arena. */
#ifndef TESTS_ONNX_MODEL_H
#define TESTS_ONNX_MODEL_H

#include "core/base/arena.h"
#include "core/tensor/dtype.h"

/* TensorProto.DataType */
typedef enum onnx_type {
    ONNX_UNDEFINED, ONNX_FLOAT, ONNX_UINT8, ONNX_INT8, ONNX_UINT16, ONNX_INT16, ONNX_INT32, ONNX_INT64, ONNX_STRING,
    ONNX_BOOL, ONNX_FLOAT16, ONNX_DOUBLE, ONNX_UINT32, ONNX_UINT64, ONNX_COMPLEX64, ONNX_COMPLEX128, ONNX_BFLOAT16,
    ONNX_TYPES
} onnx_type;

const char *onnx_type_name(onnx_type t); /* "float", "uint8", ... */
ein_dtype onnx_dtype(onnx_type t);       /* 0: the library has none such */

typedef struct onnx_tensor {
    const char *name;
    onnx_type type;
    int rank;
    i64 shape[EIN_MAX_RANK];
    i64 numel;
    void *data; /* dense; NULL for strings and complex numbers */
} onnx_tensor;

typedef struct onnx_attribute {
    const char *name;
    double f;
    i64 i;
    const char *s;             /* NULL: none */
    const onnx_tensor *t;      /* NULL: none */
    bool subgraph;             /* it has one, which is not read */
    struct { int n, room; double *items; } floats;
    struct { int n, room; i64 *items; } ints;
} onnx_attribute;

typedef struct onnx_node {
    const char *op, *domain;
    struct { int n, room; const char **items; } inputs, outputs; /* "": left out */
    struct { int n, room; onnx_attribute *items; } attributes;
} onnx_node;

typedef struct onnx_value {
    const char *name;
    const char *kind; /* "tensor", "sequence", ... */
    onnx_type type;   /* of a tensor */
} onnx_value;

typedef struct onnx_model {
    i64 opset; /* of the default domain */
    struct { int n, room; onnx_node *items; } nodes;
    struct { int n, room; onnx_value *items; } inputs, outputs;
    struct { int n, room; onnx_tensor *items; } initializers;
} onnx_model;

/* Fail with EIN_INVALID for what is no such message, EIN_DTYPE or EIN_SHAPE for what could be one but is beyond this
 * reader. */
ein_status onnx_read_model(arena *a, const void *bytes, size_t n, onnx_model *out, error *e);
ein_status onnx_read_tensor(arena *a, const void *bytes, size_t n, onnx_tensor *out, error *e);

#endif
