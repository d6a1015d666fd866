/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products of a program on GPUs. */
#ifndef JIT_TARGET_CUDA_PRODUCT_H
#define JIT_TARGET_CUDA_PRODUCT_H

#include "jit/library/cublaslt.h"
#include "jit/target/cuda.h"

/* cuBLASLt as a target has it. */
typedef struct cuda_blas {
    cublaslt_library lt;
    cublasLtHandle_t handles[MAX_DEVICES]; /* per GPU */
    void *workspace[MAX_DEVICES];          /* per device */
    i64 workspace_bytes[MAX_DEVICES];
} cuda_blas;

/* Descriptions and algorithms for the steps that are products; *out stays NULL if there are none. */
ein_status ein__cuda_products_make(cuda_target *t, const program *p, int n_steps, cuda_products **out, error *e);
void ein__cuda_products_free(cuda_products *p);
/* Enqueues the step's product on its device's stream; the GPU's context is current. */
ein_status ein__cuda_product_run(const cuda_products *p, const step *s, i64 a, i64 b, i64 c, error *e);
void ein__cuda_blas_close(cuda_target *t);

#endif
