/* SPDX-License-Identifier: Apache-2.0 */
/* Memory by lifetime: everything made on an arena dies with it, and nothing singly. */
#ifndef CORE_BASE_ARENA_H
#define CORE_BASE_ARENA_H

#include <stddef.h>

#include "core/base/error.h"

typedef struct arena { struct arena_block *last; } arena; /* {NULL} is a ready, empty arena */

/* Zeroed memory, aligned to 16; NULL when there is none or count * size overflows. */
void *ein__arena_get(arena *a, size_t count, size_t size);
char *ein__arena_strdup(arena *a, const char *s);
char *ein__arena_printf(arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ein__arena_free(arena *a);

/* `pointer = n zeroed elements on a`, or return EIN_NO_MEMORY from the function. */
#define NEW(a, pointer, n)                                          \
    do {                                                            \
        (pointer) = ein__arena_get((a), (size_t)(n), sizeof *(pointer)); \
        if ((pointer) == NULL) return EIN_NO_MEMORY;                \
    } while (0)

/* Append to a growing array on an arena: fields `items`, `n`, `room` of `v`. */
ein_status ein__grow(arena *a, void **items, int n, int *room, size_t size);
#define PUSH(a, v, value)                                                                       \
    do {                                                                                        \
        TRY(ein__grow((a), (void **)&(v)->items, (v)->n, &(v)->room, sizeof *(v)->items));      \
        (v)->items[(v)->n++] = (value);                                                         \
    } while (0)

#endif
