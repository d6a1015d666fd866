/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a cache entry; knows no files. Reading takes them as hostile. */
#ifndef JIT_CACHE_ENTRY_H
#define JIT_CACHE_ENTRY_H

#include "jit/cache/cache.h"

enum {
    ENTRY_VERSION = 1,
    ENTRY_HEAD = 80, ENTRY_ROW = 24, /* bytes of the header, of a row of the section table */
    ENTRY_SECTIONS = 1024,           /* most rows */
    ENTRY_BYTES = 256 << 20,         /* most bytes of an entry */
    ENTRY_NAME = 48
};

typedef enum verdict {
    ENTRY_GOOD,
    ENTRY_OTHER,   /* sound, but of another key or format version */
    ENTRY_CORRUPT, /* worth removing */
    ENTRY_NO_MEMORY
} verdict;

/* File name of the entry for `key`: its hash, the format version, ".ein". */
void ein__entry_name(const text *key, char out[ENTRY_NAME]);
/* Whether a name looks like one, of any version. */
bool ein__entry_named(const char *name);

/* The entry's bytes, to an empty `out`. EIN_UNSUPPORTED if it is larger than an entry may be. */
ein_status ein__entry_write(const text *key, const section *sections, int n, text *out);

/* Write the checksum of an entry's n bytes into them. */
void ein__entry_seal(unsigned char *bytes, size_t n);

/* `bytes`, aligned to 16, are all of the file (the checksum is written anew). The sections point into
 * them; SECTION_KEY is left out. */
verdict ein__entry_read(arena *a, unsigned char *bytes, size_t n, const text *key, const section **sections,
                        int *count);

/* Where the first SECTION_INFO is, from the first `have` bytes of a file of `total`; no checksum is read. */
bool ein__entry_find_info(const unsigned char *bytes, size_t have, uint64_t total, uint64_t *offset,
                          uint64_t *n);

#endif
