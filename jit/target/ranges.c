/* SPDX-License-Identifier: Apache-2.0 */
#include "jit/target/ranges.h"

#include <string.h>

#include "core/base/alloc.h"

static ein_status insert(ranges *r, int at, range x)
{
    if (r->n == r->room) {
        int room = r->room != 0 ? 2 * r->room : 64;
        range *items = ein__realloc(r->items, (size_t)room * sizeof *items);
        if (items == NULL) return EIN_NO_MEMORY;
        r->items = items;
        r->room = room;
    }
    memmove(r->items + at + 1, r->items + at, (size_t)(r->n - at) * sizeof x);
    r->items[at] = x;
    r->n++;
    r->used += x.bytes;
    return EIN_OK;
}

ein_status ein__ranges_take(ranges *r, i64 bytes, i64 *offset)
{
    i64 at = 0;
    int i = 0;
    for (; i < r->n && r->items[i].offset - at < bytes; i++) at = r->items[i].offset + r->items[i].bytes;
    if (bytes > r->capacity - at) return EIN_NO_DEVICE_MEMORY;
    TRY(insert(r, i, (range){at, bytes}));
    *offset = at;
    return EIN_OK;
}

i64 ein__ranges_give(ranges *r, i64 offset)
{
    for (int i = 0; i < r->n; i++) {
        if (r->items[i].offset != offset) continue;
        i64 bytes = r->items[i].bytes;
        r->used -= bytes;
        r->n--;
        memmove(r->items + i, r->items + i + 1, (size_t)(r->n - i) * sizeof(range));
        return bytes;
    }
    return 0;
}

void ein__ranges_fini(ranges *r)
{
    ein__free(r->items);
    r->items = NULL;
}
