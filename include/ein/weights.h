/* SPDX-License-Identifier: Apache-2.0 */
/* Stores of tensors that outlive a run: parameters (shared by programs) and states (kept between runs). */
#ifndef EIN_WEIGHTS_H
#define EIN_WEIGHTS_H

#include "ein/context.h"
#include "ein/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ein_weights ein_weights;
typedef struct ein_state ein_state;
typedef struct ein_program ein_program;

typedef enum ein_keep {
    EIN_BORROW = 0, /* `data` must stay readable until the tensor is placed (a mapped file) */
    EIN_COPY = 1    /* `data` is copied at once */
} ein_keep;

EIN_API ein_status ein_weights_create(ein_weights **out, ein_context *context);
EIN_API void ein_weights_free(ein_weights *weights);
/* Add a tensor, row-major. Each name once. Where a graph's parameter has another floating-point type, it is converted
 * (rounded to nearest even) while it is placed. Fails with EIN_INVALID, EIN_DTYPE, EIN_NO_MEMORY. */
EIN_API ein_status ein_weights_add(ein_weights *weights, const char *name, ein_dtype dtype, int rank,
                                   const int64_t *shape, const void *data, ein_keep keep);
/* Add all tensors of a safetensors file, of a sharded one (`path` is its .index.json), or of a folder that has
 * model.safetensors or model.safetensors.index.json. The files stay mapped, and each device's pieces are copied
 * straight from them. Tensors that are there already are an error. Fails with EIN_IO, EIN_INVALID (the message names
 * file, tensor and what is wrong), EIN_NO_MEMORY; the store is then as before. Tensors of types that are not built
 * are left out. */
EIN_API ein_status ein_weights_open(ein_weights *weights, const char *path);
/* Names, in the order in which they were added; NULL past the end. `rank`, `shape` (EIN_MAX_RANK) and `dtype` may be
 * NULL. */
EIN_API const char *ein_weights_name(const ein_weights *weights, int index, ein_dtype *dtype, int *rank, int64_t *shape);
/* Bytes that placed pieces take on one device. The first program that uses a tensor places it; its layout
 * binds later programs. */
EIN_API int64_t ein_weights_device_bytes(const ein_weights *weights, int device);

/* A state for the programs whose state tensors have these names, shapes and layouts; zeros. Compile the
 * second program with options.state set, so that it takes the layouts of the first. One run at a time;
 * undefined after a cancelled or failed run until reset. Blocks: no. */
EIN_API ein_status ein_state_create(ein_state **out, ein_program *program);
EIN_API ein_status ein_state_reset(ein_state *state);
EIN_API void ein_state_free(ein_state *state);

#ifdef __cplusplus
}
#endif
#endif
