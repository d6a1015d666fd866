/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of doubling size in a list. Under AddressSanitizer every item is a block of its own, so that the
 * sanitizer sees each object. */
#include "core/base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"

struct arena_block {
    struct arena_block *next;
    size_t used, room;
    _Alignas(16) char bytes[];
};

#ifdef __SANITIZE_ADDRESS__
enum { FIRST_BLOCK = 1, LARGEST_BLOCK = 1 };
#else
enum { FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };
#endif

static struct arena_block *add_block(arena *a, size_t bytes)
{
    size_t room = a->last != NULL ? a->last->room * 2 : FIRST_BLOCK;
    if (room > LARGEST_BLOCK) room = LARGEST_BLOCK;
    if (room < bytes) room = bytes;
    struct arena_block *b = ein__calloc(1, sizeof *b + room);
    if (b == NULL) return NULL;
    b->room = room;
    b->next = a->last;
    a->last = b;
    return b;
}

void *ein__arena_get(arena *a, size_t count, size_t size)
{
    if (size != 0 && count > (SIZE_MAX / 4) / size) return NULL;
    size_t bytes = (count * size + 15) & ~(size_t)15;
    if (bytes == 0) bytes = 16;
    struct arena_block *b = a->last;
    if (b == NULL || b->room - b->used < bytes) b = add_block(a, bytes);
    if (b == NULL) return NULL;
    void *p = b->bytes + b->used;
    b->used += bytes;
    return p;
}

char *ein__arena_strdup(arena *a, const char *s)
{
    size_t n = strlen(s) + 1;
    char *p = ein__arena_get(a, n, 1);
    if (p != NULL) memcpy(p, s, n);
    return p;
}

char *ein__arena_printf(arena *a, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *p = n < 0 ? NULL : ein__arena_get(a, (size_t)n + 1, 1);
    if (p == NULL) return NULL;
    va_start(args, format);
    vsnprintf(p, (size_t)n + 1, format, args);
    va_end(args);
    return p;
}

void ein__arena_free(arena *a)
{
    for (struct arena_block *b = a->last, *next; b != NULL; b = next) {
        next = b->next;
        ein__free(b);
    }
    a->last = NULL;
}

ein_status ein__grow(arena *a, void **items, int n, int *room, size_t size)
{
    if (n < *room) return EIN_OK;
    int want = *room != 0 ? *room * 2 : 8;
    void *p = ein__arena_get(a, (size_t)want, size);
    if (p == NULL) return EIN_NO_MEMORY;
    if (n > 0) memcpy(p, *items, (size_t)n * size);
    *items = p;
    *room = want;
    return EIN_OK;
}
