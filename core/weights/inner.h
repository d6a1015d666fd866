/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share. */
#ifndef CORE_WEIGHTS_INNER_H
#define CORE_WEIGHTS_INNER_H

#include <jansson.h>

#include "core/weights/safetensors.h"

/* An element type of the format. */
typedef struct stored_type {
    const char *name;
    int bits;
    ein_dtype dtype; /* 0: none of ours */
} stored_type;

/* NULL: there is none. */
const stored_type *ein__stored_type_find(const char *name);
const stored_type *ein__stored_type_of(ein_dtype dtype);

/* An object from JSON text of unknown origin: no member twice, nothing nested deeper than 16. NULL: *status says why.
 * The caller drops it (json_decref). */
json_t *ein__weights_json(const char *where, const char *bytes, size_t n, ein_status *status, error *e);

#endif
