/* SPDX-License-Identifier: Apache-2.0 */
/* What a fuzz target is: a function of bytes that returns, whatever they are. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/arena.h"
#include "core/base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* A promise of the code that is tried. */
#define PROMISE(condition)                                                            \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition);   \
            abort();                                                                  \
        }                                                                             \
    } while (0)

/* A line for people: there is one, and it is one. */
static inline void promise_line(const char *line)
{
    PROMISE(line[0] != 0);
    for (; *line != 0; line++) PROMISE((unsigned char)*line >= 32 && *line != 127);
}

/* A copy of exactly n bytes, so that a sanitizer sees their end; free it. */
static inline char *exact_copy(const void *bytes, size_t n)
{
    char *copy = calloc(n > 0 ? n : 1, 1);
    if (copy == NULL) abort();
    if (n > 0) memcpy(copy, bytes, n);
    return copy;
}

#endif
