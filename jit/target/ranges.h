/* SPDX-License-Identifier: Apache-2.0 */
/* Taken ranges of some memory: first fit in a list sorted by offset. */
#ifndef JIT_TARGET_RANGES_H
#define JIT_TARGET_RANGES_H

#include "core/base/error.h"
#include "core/tensor/dtype.h"

typedef struct range { i64 offset, bytes; } range;
typedef struct ranges {
    i64 capacity, used;
    int n, room;
    range *items;
} ranges; /* capacity set, else {0}: nothing is taken */

/* EIN_NO_DEVICE_MEMORY if no gap is large enough, EIN_NO_MEMORY if the list cannot grow. */
ein_status ein__ranges_take(ranges *r, i64 bytes, i64 *offset);
/* Gives back what was taken at `offset`: its bytes, 0 if nothing was. */
i64 ein__ranges_give(ranges *r, i64 offset);
void ein__ranges_fini(ranges *r);

#endif
