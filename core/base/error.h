/* SPDX-License-Identifier: Apache-2.0 */
/* One record of what went wrong: a status, one line, and optionally a longer detail. */
#ifndef CORE_BASE_ERROR_H
#define CORE_BASE_ERROR_H

#include "ein/status.h"

typedef struct error {
    ein_status status;
    char line[256];
    char *detail; /* owned (ein__free), or NULL */
} error;

/* Record (the last one wins; a builder asks first) and return `status`. Control characters become '?'. `e` may be
 * NULL. */
ein_status ein__fail(error *e, ein_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
void ein__error_set_detail(error *e, const char *text);
void ein__error_reset(error *e);

/* Pass a failure on. */
#define TRY(call)                      \
    do {                               \
        ein_status try_ = (call);      \
        if (try_ != EIN_OK) return try_; \
    } while (0)

#endif
