/* SPDX-License-Identifier: Apache-2.0 */
/* The wire format of protocol buffers, read strictly: what is no message is found out, whatever its lengths say. */
#ifndef TESTS_ONNX_WIRE_H
#define TESTS_ONNX_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that are left to read; they belong to the caller. */
typedef struct wire {
    const uint8_t *at;
    size_t n;
    bool bad; /* they are no message */
} wire;

/* Wire types 3 and 4 (groups) are refused: no message of ONNX has them. */
typedef enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 } wire_type;

typedef struct wire_field {
    uint32_t number;
    wire_type type;
    uint64_t value; /* all but WIRE_BYTES */
    wire bytes;     /* WIRE_BYTES */
} wire_field;

/* The next field; false at the end, and where `bad` becomes true. */
bool wire_next(wire *w, wire_field *f);
/* The next number of a packed list; false as above. Fixed ones are little-endian. */
bool wire_varint(wire *w, uint64_t *out);
bool wire_fixed(wire *w, size_t bytes, uint64_t *out);

#endif
