/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/onnx/wire.h"

enum { MAX_FIELD = (1 << 29) - 1 };

static bool refuse(wire *w)
{
    w->bad = true;
    w->n = 0;
    return false;
}

/* Ten bytes of seven bits; of the tenth only the lowest bit fits. */
bool wire_varint(wire *w, uint64_t *out)
{
    uint64_t x = 0;
    if (w->n == 0) return false;
    for (size_t i = 0; i < w->n && i < 10; i++) {
        uint8_t b = w->at[i];
        if (i == 9 && b > 1) break;
        x |= (uint64_t)(b & 127) << (7 * i);
        if (b >= 128) continue;
        w->at += i + 1;
        w->n -= i + 1;
        *out = x;
        return true;
    }
    return refuse(w);
}

bool wire_fixed(wire *w, size_t bytes, uint64_t *out)
{
    uint64_t x = 0;
    if (w->n == 0) return false;
    if (w->n < bytes) return refuse(w);
    for (size_t i = 0; i < bytes; i++) x |= (uint64_t)w->at[i] << (8 * i);
    w->at += bytes;
    w->n -= bytes;
    *out = x;
    return true;
}

static bool read_bytes(wire *w, wire *out)
{
    uint64_t n;
    if (!wire_varint(w, &n) || n > w->n) return refuse(w);
    *out = (wire){.at = w->at, .n = (size_t)n};
    w->at += n;
    w->n -= (size_t)n;
    return true;
}

bool wire_next(wire *w, wire_field *f)
{
    uint64_t tag;
    *f = (wire_field){0};
    if (!wire_varint(w, &tag)) return false;
    if (tag >> 3 == 0 || tag >> 3 > MAX_FIELD) return refuse(w);
    f->number = (uint32_t)(tag >> 3);
    f->type = (wire_type)(tag & 7);
    switch (f->type) {
    case WIRE_VARINT: return wire_varint(w, &f->value) || refuse(w);
    case WIRE_FIXED64: return wire_fixed(w, 8, &f->value) || refuse(w);
    case WIRE_FIXED32: return wire_fixed(w, 4, &f->value) || refuse(w);
    case WIRE_BYTES: return read_bytes(w, &f->bytes);
    }
    return refuse(w);
}
