/* SPDX-License-Identifier: Apache-2.0 */
#include "jit/compiler/object.h"

#include <string.h>

enum { HASH_DIGITS = 32, MARK_BYTES = 8, SEAL_BYTES = MARK_BYTES + HASH_DIGITS };
static const char mark[] = "ein-obj1";

static void make_seal(const void *bytes, size_t n, char seal[SEAL_BYTES + 1])
{
    memcpy(seal, mark, MARK_BYTES);
    ein__hash_print(ein__hash(bytes, n, 0), seal + MARK_BYTES);
}

void ein__object_seal(text *object)
{
    char seal[SEAL_BYTES + 1];
    if (object->failed) return;
    make_seal(object->bytes, object->n, seal);
    ein__text_bytes(object, seal, SEAL_BYTES);
}

size_t ein__object_check(const void *object, size_t bytes)
{
    char seal[SEAL_BYTES + 1];
    if (bytes <= SEAL_BYTES) return 0;
    const size_t n = bytes - SEAL_BYTES;
    make_seal(object, n, seal);
    return memcmp((const char *)object + n, seal, SEAL_BYTES) == 0 ? n : 0;
}
