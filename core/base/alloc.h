/* SPDX-License-Identifier: Apache-2.0 */
/* The only caller of malloc. Tests make the n-th call fail and count what is alive. */
#ifndef CORE_BASE_ALLOC_H
#define CORE_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed memory for count * size bytes; NULL when there is none or the product overflows. Size 0 gives a
 * pointer that may be freed. */
void *ein__calloc(size_t count, size_t size);
void *ein__realloc(void *p, size_t bytes);
/* Zeroed, aligned to `align` (a power of two). */
void *ein__aligned(size_t align, size_t bytes);
char *ein__strdup(const char *s);
void ein__free(void *p);

/* Fail the n-th allocation from now, counting from 1, once; 0: never. Tests only. */
void ein__alloc_fail_at(long n);
/* Allocations not freed. */
long ein__alloc_live(void);
/* Allocations made since the process started. */
long ein__alloc_count(void);

#endif
