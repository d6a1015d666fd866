/* SPDX-License-Identifier: Apache-2.0 */
/* The context: one machine, its devices, its cache. Everything else is made from it.
 *
 * Ownership, for the whole library: only `_create` and ein_compile give; only `_free` takes, and takes
 * NULL too. Everything else borrows. Strings and shapes are copied. A context must outlive what was made
 * from it. Options are structs whose first member is their size; zero means default. */
#ifndef EIN_CONTEXT_H
#define EIN_CONTEXT_H

#include <stddef.h>

#include "ein/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ein_context ein_context;

/* Called between stages of long work (fraction in 0..1). Must not call the library. */
typedef void (*ein_progress_fn)(void *user, const char *stage, double fraction);

typedef struct ein_context_options {
    size_t size;             /* sizeof(ein_context_options) */
    const char *machine;     /* "cuda" (all GPUs), "cuda:8" (8 devices over the GPUs there are), "host:4" (4 shares
                                of this machine), a preset's name, a machine file, or JSON text; NULL: all GPUs, or
                                "host:1" where there are none. Presets can be planned, not run; of files and texts
                                those that say "host": true can. */
    const char *cache_dir;   /* NULL: EIN_CACHE_DIR, else $XDG_CACHE_HOME/ein, else ~/.cache/ein */
    int no_cache;            /* 1: neither read nor write the cache */
    ein_progress_fn progress; /* NULL: none */
    void *progress_user;
    char *message;           /* where a failing ein_context_create writes its one line; may be NULL */
    size_t message_bytes;
} ein_context_options;

/* Make a context. Blocks: no. Fails with EIN_INVALID (machine text), EIN_IO (machine file), EIN_NO_DEVICE (no
 * driver, no GPU), EIN_DEVICE_FAILED, EIN_NO_MEMORY.
 * Thread: any; a context is used by one thread at a time, but for runs. */
EIN_API ein_status ein_context_create(ein_context **out, const ein_context_options *options);
EIN_API void ein_context_free(ein_context *context);

EIN_API int ein_context_device_count(const ein_context *context);

/* One line on the last failure, "" if none; lives until the next call on the context. */
EIN_API const char *ein_context_error(const ein_context *context);
/* More on it (a compiler's log), "" if none. */
EIN_API const char *ein_context_detail(const ein_context *context);

#ifdef __cplusplus
}
#endif
#endif
