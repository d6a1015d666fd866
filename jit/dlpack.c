/* SPDX-License-Identifier: Apache-2.0 */
/* DLPack at the border. The layout is dlpack.h's DLTensor, stable since version 0.6 and fixed by its ABI rules. */
#include <string.h>

#include "jit/context.h"

struct DLTensor {
    void *data;
    struct { int32_t type, id; } device;
    int32_t ndim;
    struct { uint8_t code, bits; uint16_t lanes; } dtype;
    int64_t *shape;
    int64_t *strides; /* elements; NULL: row-major */
    uint64_t byte_offset;
};

enum { DL_CPU = 1, DL_CUDA_HOST = 3, DL_INT = 0, DL_FLOAT = 2 };

static bool row_major(const struct DLTensor *t)
{
    int64_t step = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        if (t->strides != NULL && t->shape[i] != 1 && t->strides[i] != step) return false;
        step *= t->shape[i];
    }
    return true;
}

/* Bytes of the tensor, or -1 if it cannot be taken. Extents come from outside: the product is guarded. */
static int64_t tensor_bytes(const struct DLTensor *t)
{
    bool known = (t->dtype.code == DL_FLOAT && t->dtype.bits == 32) || (t->dtype.code == DL_INT && t->dtype.bits == 32) ||
                 (t->dtype.code == DL_INT && t->dtype.bits == 64);
    if (!known || t->dtype.lanes != 1 || t->ndim < 0 || t->ndim > EIN_MAX_RANK || (t->ndim > 0 && t->shape == NULL)) return -1;
    if (t->device.type != DL_CPU && t->device.type != DL_CUDA_HOST) return -1;
    int64_t bytes = t->dtype.bits / 8;
    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] < 0 || (t->shape[i] > 0 && bytes > INT64_MAX / 2 / t->shape[i])) return -1;
        bytes *= t->shape[i];
    }
    return row_major(t) ? bytes : -1;
}

ein_status ein_run_input_dlpack(ein_run *run, const char *name, const struct DLTensor *t)
{
    if (run == NULL || t == NULL) return EIN_INVALID;
    int64_t bytes = tensor_bytes(t);
    return bytes < 0 ? EIN_DTYPE : ein_run_input(run, name, (const char *)t->data + t->byte_offset, (size_t)bytes);
}

ein_status ein_run_output_dlpack(ein_run *run, const char *name, struct DLTensor *t)
{
    if (run == NULL || t == NULL) return EIN_INVALID;
    int64_t bytes = tensor_bytes(t);
    return bytes < 0 ? EIN_DTYPE : ein_run_output(run, name, (char *)t->data + t->byte_offset, (size_t)bytes);
}
