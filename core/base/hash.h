/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3-128 in its canonical byte order. */
#ifndef CORE_BASE_HASH_H
#define CORE_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hash128 { uint64_t high, low; } hash128;

hash128 ein__hash(const void *bytes, size_t n, uint64_t seed);
/* 32 hexadecimal digits and a NUL. */
void ein__hash_print(hash128 h, char out[33]);
static inline bool ein__hash_equal(hash128 a, hash128 b) { return a.high == b.high && a.low == b.low; }

#endif
