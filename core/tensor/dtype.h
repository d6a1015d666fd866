/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_TENSOR_DTYPE_H
#define CORE_TENSOR_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "ein/graph.h"

typedef int64_t i64;

/* Built, not only reserved. */
bool ein__dtype_built(ein_dtype d);
/* "f32", "i64", ...; "?" for anything else. */
const char *ein__dtype_name(ein_dtype d);
/* Bytes of one element; 0 if not built. */
i64 ein__dtype_bytes(ein_dtype d);
/* Spelling in the kernel dialect: "float", "int", "i64". */
const char *ein__dtype_kernel(ein_dtype d);

#endif
