/* SPDX-License-Identifier: Apache-2.0 */
/* The cache: one file per plan key. Any trouble is a miss, never an error. */
#ifndef JIT_CACHE_CACHE_H
#define JIT_CACHE_CACHE_H

#include "core/base/arena.h"
#include "core/base/hash.h"
#include "core/base/text.h"
#include "core/tensor/dtype.h"

typedef enum section_kind {
    SECTION_KEY = 1,    /* the key material itself, compared on reading */
    SECTION_PLAN = 2,   /* plan JSON */
    SECTION_OBJECT = 3, /* a compiled object; any number */
    SECTION_INFO = 4    /* text for people */
} section_kind;

typedef struct section {
    section_kind kind;
    const void *bytes;
    size_t n;
} section;

typedef struct cache {
    char *dir;     /* NULL: no cache */
    bool explicit_dir;
    bool read_only; /* latched by EACCES, EROFS */
} cache;

/* `dir` NULL: EIN_CACHE_DIR, $XDG_CACHE_HOME/ein, $HOME/.cache/ein, the passwd entry's; none: off. */
ein_status ein__cache_init(cache *c, const char *dir);
void ein__cache_fini(cache *c);

/* Sections on `a`; false: a miss. Verifies size, checksum, owner, mode, and that SECTION_KEY equals `key`. */
bool ein__cache_get(cache *c, arena *a, const text *key, const section **sections, int *n);
/* Writes beside and renames. SECTION_KEY is added by it. Failures are swallowed. */
void ein__cache_put(cache *c, const text *key, const section *sections, int n);

/* For `ein cache`. */
typedef struct cache_entry { char name[96]; i64 bytes; i64 age_s; char info[128]; } cache_entry;
ein_status ein__cache_list(const cache *c, arena *a, const cache_entry **out, int *n, error *e);
/* Remove the oldest entries until at most `limit` bytes are left (0: all), and stale temporary files. */
ein_status ein__cache_trim(cache *c, i64 limit, int *removed, error *e);

#endif
