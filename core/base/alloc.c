/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "core/base/alloc.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Process-wide because an allocator is; only tests set the first. */
static atomic_long fail_at, live, count;

static bool refused(void)
{
    long made = atomic_fetch_add(&count, 1) + 1;
    long at = atomic_load(&fail_at);
    return at != 0 && made == at;
}

static void *counted(void *p)
{
    if (p != NULL) atomic_fetch_add(&live, 1);
    return p;
}

void *ein__calloc(size_t n, size_t size)
{
    if (refused() || (size != 0 && n > PTRDIFF_MAX / size)) return NULL;
    return counted(calloc(n != 0 ? n : 1, size != 0 ? size : 1));
}

void *ein__realloc(void *p, size_t bytes)
{
    if (refused()) return NULL;
    void *q = realloc(p, bytes != 0 ? bytes : 1);
    return p == NULL ? counted(q) : q;
}

void *ein__aligned(size_t align, size_t bytes)
{
    void *p = NULL;
    if (refused() || posix_memalign(&p, align, bytes != 0 ? bytes : 1) != 0) return NULL;
    memset(p, 0, bytes);
    return counted(p);
}

char *ein__strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char *p = ein__calloc(n, 1);
    if (p != NULL) memcpy(p, s, n);
    return p;
}

void ein__free(void *p)
{
    if (p == NULL) return;
    atomic_fetch_sub(&live, 1);
    free(p);
}

void ein__alloc_fail_at(long n) { atomic_store(&fail_at, n == 0 ? 0 : atomic_load(&count) + n); }
long ein__alloc_live(void) { return atomic_load(&live); }
long ein__alloc_count(void) { return atomic_load(&count); }
