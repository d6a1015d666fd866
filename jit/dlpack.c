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

enum { DL_CPU = 1, DL_CUDA_HOST = 3 };

/* DLDataTypeCode and bits of every element type. */
static const struct { uint8_t code, bits; } types[] = {
    [EIN_F32] = {2, 32}, [EIN_F64] = {2, 64}, [EIN_F16] = {2, 16}, [EIN_BF16] = {4, 16},
    [EIN_I8] = {0, 8},   [EIN_I32] = {0, 32}, [EIN_I64] = {0, 64}, [EIN_BOOL] = {6, 8}};

static bool is_of_type(const struct DLTensor *t, ein_dtype d)
{
    return ein__dtype_built(d) && t->dtype.code == types[d].code && t->dtype.bits == types[d].bits && t->dtype.lanes == 1;
}

/* Of one element or none: the strides say nothing. */
static bool row_major(const struct DLTensor *t)
{
    int64_t step = 1;
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] == 0) return true;
    for (int i = t->ndim - 1; i >= 0; i--) {
        if (t->strides != NULL && t->shape[i] != 1 && t->strides[i] != step) return false;
        step *= t->shape[i];
    }
    return true;
}

/* The tensor is what the graph declares. Extents from outside are compared before they are multiplied. */
static ein_status check_tensor(ein_run *r, const char *name, const struct DLTensor *t, value v, size_t *bytes)
{
    const value_info *info = &r->p->graph.values.items[v];
    error *e = &r->error;
    if (t->device.type != DL_CPU && t->device.type != DL_CUDA_HOST)
        return ein__fail(e, EIN_INVALID, "'%s': the tensor lies on a device of type %d, not on the CPU", name,
                         (int)t->device.type);
    if (!is_of_type(t, info->dtype))
        return ein__fail(e, EIN_DTYPE, "'%s': the tensor's type has code %d, %d bits, %d lanes; %s is declared", name,
                         t->dtype.code, t->dtype.bits, t->dtype.lanes, ein__dtype_name(info->dtype));
    if (t->ndim > 0 && t->shape == NULL) return ein__fail(e, EIN_INVALID, "'%s': the tensor has no shape", name);
    if (t->ndim != info->rank)
        return ein__fail(e, EIN_SHAPE, "'%s': the tensor has rank %d, %d is declared", name, (int)t->ndim, info->rank);
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] != info->shape[i])
            return ein__fail(e, EIN_SHAPE, "'%s': the tensor has extent %lld in dimension %d, %lld is declared", name,
                             (long long)t->shape[i], i, (long long)info->shape[i]);
    if (!row_major(t)) return ein__fail(e, EIN_SHAPE, "'%s': the tensor's strides are not row-major", name);
    *bytes = (size_t)(ein__value_numel(&r->p->graph, v) * ein__dtype_bytes(info->dtype));
    return EIN_OK;
}

static void *tensor_data(const struct DLTensor *t) { return t->data != NULL ? (char *)t->data + t->byte_offset : NULL; }

ein_status ein_run_input_dlpack(ein_run *run, const char *name, const struct DLTensor *t)
{
    value v = 0;
    size_t bytes = 0;
    if (run == NULL) return EIN_INVALID;
    TRY(ein__run_input_value(run, name, &v));
    if (t == NULL) return ein__fail(&run->error, EIN_INVALID, "'%s': no tensor", name);
    TRY(check_tensor(run, name, t, v, &bytes));
    return ein_run_input(run, name, tensor_data(t), bytes);
}

ein_status ein_run_output_dlpack(ein_run *run, const char *name, struct DLTensor *t)
{
    value v = 0;
    size_t bytes = 0;
    if (run == NULL) return EIN_INVALID;
    TRY(ein__run_output_value(run, name, &v));
    if (t == NULL) return ein__fail(&run->error, EIN_INVALID, "'%s': no tensor", name);
    TRY(check_tensor(run, name, t, v, &bytes));
    return ein_run_output(run, name, tensor_data(t), bytes);
}
