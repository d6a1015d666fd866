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
/* Type of an element in memory, in the kernel dialect: "float", "double", "u16" (bf16, f16), "i8", "int", "i64",
 * "u8" (bool). */
const char *ein__dtype_kernel(ein_dtype d);
/* What an element is computed in: EIN_F32 (f32, bf16, f16), EIN_F64 or EIN_I64 (integers, bool). */
ein_dtype ein__dtype_compute(ein_dtype d);
/* Function or cast of the dialect that makes the computed value of a stored one, and back: "from_bf16",
 * "to_bf16", "(i64)", "(i8)"; "" where they are the same. */
const char *ein__dtype_load(ein_dtype d);
const char *ein__dtype_store(ein_dtype d);
bool ein__dtype_is_float(ein_dtype d);
/* One element to and from a double: rounded to nearest even (floats), truncated and saturated (integers, NaN to 0),
 * x != 0 (bool). */
void ein__dtype_write(ein_dtype d, double x, void *out);
double ein__dtype_read(ein_dtype d, const void *at);
/* n elements of one type to another, each as by read and write, but that integers stay exact. */
void ein__dtype_convert(ein_dtype to, void *out, ein_dtype from, const void *in, i64 n);

#endif
