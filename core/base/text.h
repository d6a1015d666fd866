/* SPDX-License-Identifier: Apache-2.0 */
/* Growing text (or bytes). A failed append sticks; ask once, at the end. */
#ifndef CORE_BASE_TEXT_H
#define CORE_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

typedef struct text {
    char *bytes; /* NUL-terminated; NULL while empty */
    size_t n, room;
    bool failed;
} text; /* {0} is an empty text */

void ein__text_add(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ein__text_bytes(text *t, const void *bytes, size_t n);
void ein__text_free(text *t);
/* The bytes, never NULL. */
const char *ein__text_get(const text *t);
/* EIN_NO_MEMORY if an append failed. */
ein_status ein__text_status(const text *t);

/* A word of a file or a user as a message can hold it: on one line, control characters as '?', of a long one the first
 * or last `most` (up to 140) bytes beside "...". */
typedef struct excerpt { char s[148]; } excerpt;
excerpt ein__excerpt_first(const char *word, size_t most);
excerpt ein__excerpt_last(const char *word, size_t most);

/* Key material: every field is tag, length, bytes, so that no two field lists read alike. */
void ein__key_bytes(text *t, uint32_t tag, const void *bytes, size_t n);
void ein__key_int(text *t, uint32_t tag, int64_t value);

#endif
