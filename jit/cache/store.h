/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of entries, for the files of this folder. */
#ifndef JIT_CACHE_STORE_H
#define JIT_CACHE_STORE_H

#include "jit/cache/cache.h"

/* The open directory; -1 if it is missing or, not given explicitly, not ours alone to write. */
int ein__cache_open(const cache *c, error *e);

/* If entries take more than `most` bytes, remove the oldest until at most `down_to` bytes are left; and
 * temporary files older than an hour. */
ein_status ein__cache_sweep(const cache *c, i64 most, i64 down_to, int *removed, error *e);

#endif
