/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in files of the safetensors format: 8 bytes little-endian, the length of a header; the header, JSON; the
 * data of all tensors, one after the other. Nothing in a file is believed before it is checked. */
#ifndef CORE_WEIGHTS_SAFETENSORS_H
#define CORE_WEIGHTS_SAFETENSORS_H

#include "core/base/arena.h"
#include "core/tensor/dtype.h"

typedef struct stored_tensor {
    const char *name;
    const char *type;       /* the file's word for the element type: "BF16" */
    ein_dtype dtype;        /* 0: the format knows it, we have no name for it */
    int rank;               /* as in the file; above EIN_MAX_RANK only the first extents are in `shape` */
    i64 shape[EIN_MAX_RANK];
    const void *data;       /* among the file's bytes, at any address */
    i64 bytes;
} stored_tensor;

typedef struct stored_list { int n, room; stored_tensor *items; } stored_list;

/* Whether it can be a tensor here: its type is built and its rank at most EIN_MAX_RANK. */
bool ein__stored_readable(const stored_tensor *t);

/* The tensors of a file's bytes, in the order of their data. Names are made on `a`, data stay where they are; `where`
 * names the file in messages. Fails with EIN_INVALID, EIN_NO_MEMORY. */
ein_status ein__safetensors_read(arena *a, const char *where, const char *bytes, size_t n, stored_list *out, error *e);

/* Write a file of n tensors, whose dtypes must be built; `type` and `bytes` are not looked at. Data are in order of
 * falling element sizes, so that all are aligned. Fails with EIN_INVALID, EIN_DTYPE, EIN_SHAPE, EIN_IO, EIN_NO_MEMORY;
 * what had the name before is then still there. */
ein_status ein__safetensors_write(const char *path, int n, const stored_tensor *tensors, error *e);

#endif
