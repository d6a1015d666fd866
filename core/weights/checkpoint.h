/* SPDX-License-Identifier: Apache-2.0 */
/* A model's tensors on disk: one safetensors file, or several and an index. The files are mapped, not read. */
#ifndef CORE_WEIGHTS_CHECKPOINT_H
#define CORE_WEIGHTS_CHECKPOINT_H

#include "core/base/file.h"
#include "core/weights/safetensors.h"

typedef struct checkpoint {
    struct { int n, room; file_map *items; } maps;
    stored_list tensors; /* those that cannot be read too; their data are in the maps */
} checkpoint;

/* `path` is a safetensors file, an index (a name in .json), or a folder that has model.safetensors or, failing that,
 * model.safetensors.index.json. Lists and names are made on `a`. Fails with EIN_IO, EIN_INVALID, EIN_NO_MEMORY; nothing
 * is mapped then. */
ein_status ein__checkpoint_open(arena *a, const char *path, checkpoint *out, error *e);
void ein__checkpoint_close(checkpoint *c);

/* A line of an index: where a tensor is. */
typedef struct shard_entry { const char *tensor, *file; } shard_entry;
typedef struct shard_list { int n, room; shard_entry *items; } shard_list;

/* The "weight_map" of an index, by file, then tensor. Files are plain names: a shard lies beside its index. */
ein_status ein__shard_index_read(arena *a, const char *where, const char *bytes, size_t n, shard_list *out, error *e);

#endif
