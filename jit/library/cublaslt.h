/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLASLt, opened at run time: its types, constants and calls by hand. Types of enumerations are ints here. */
#ifndef JIT_LIBRARY_CUBLASLT_H
#define JIT_LIBRARY_CUBLASLT_H

#include "jit/library/cuda.h"

typedef int cublasStatus_t, cublasComputeType_t, cublasLtMatmulDescAttributes_t, cublasLtMatrixLayoutAttribute_t,
    cublasLtMatmulPreferenceAttributes_t, cublasLtMatmulAlgoConfigAttributes_t, cudaDataType_t;
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublaslt_matmul *cublasLtMatmulDesc_t;
typedef struct cublaslt_layout *cublasLtMatrixLayout_t;
typedef struct cublaslt_preference *cublasLtMatmulPreference_t;
typedef struct cublasLtMatmulAlgo_t { uint64_t data[8]; } cublasLtMatmulAlgo_t;
typedef struct cublasLtMatmulHeuristicResult_t {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;

enum {
#define VALUE(name, value) name = (value),
#include "jit/library/cublaslt_values.def"
#undef VALUE
};

typedef struct cublaslt_library {
#define CALL(result, name, parameters) result (*name) parameters;
#include "jit/library/cublaslt_calls.def"
#undef CALL
    size_t version; /* 130100: 13.1.0 */
} cublaslt_library;

/* Half a gigabyte: opened when a program has a product, never closed. `newest` and `path` as of NVRTC. */
ein_status ein__cublaslt_open(cublaslt_library *out, int newest, text *path, error *e);

#endif
