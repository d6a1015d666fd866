/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <xxhash.h>

hash128 ein__hash(const void *bytes, size_t n, uint64_t seed)
{
    XXH128_hash_t h = XXH3_128bits_withSeed(bytes, n, seed);
    return (hash128){h.high64, h.low64};
}

void ein__hash_print(hash128 h, char out[33])
{
    snprintf(out, 33, "%016" PRIx64 "%016" PRIx64, h.high, h.low);
}
