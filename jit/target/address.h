/* SPDX-License-Identifier: Apache-2.0 */
/* Where a step's arguments are, in one execution and iteration. */
#ifndef JIT_TARGET_ADDRESS_H
#define JIT_TARGET_ADDRESS_H

#include "jit/target/target.h"

/* What places stand for on one device. */
typedef struct places {
    const program *program;
    char *const *buffers;      /* per device */
    char *const *staging;      /* of HOST, per device that writes it */
    const leaf_pieces *leaves;
    const void *const *inputs; /* per canonical leaf, as the device may read them */
    void *const *outputs;
    const i64 *table;
    const i64 *scalars;
} places;

/* `iteration`: per loop. As an integer: a view may start before its block and only be used inside it. */
i64 ein__place_address(const places *p, const int *iteration, const place *at);
i64 ein__arg_address(const places *p, const int *iteration, const arg *a);
/* The argument's value, 8 bytes as kernels take them; not of ARG_SOURCES. */
i64 ein__arg_value(const places *p, const int *iteration, const arg *a);

#endif
