/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes. Every fallible call returns one; the text that goes with it names the value at fault. */
#ifndef EIN_STATUS_H
#define EIN_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define EIN_API __attribute__((visibility("default")))
#else
#define EIN_API
#endif

typedef enum ein_status {
    EIN_OK = 0,
    EIN_INVALID = 1,        /* an argument is wrong in itself: a name, an index, a null pointer */
    EIN_SHAPE = 2,          /* shapes, labels or extents do not fit together */
    EIN_DTYPE = 3,          /* element types do not fit the op */
    EIN_NO_MEMORY = 4,      /* host memory ran out */
    EIN_NO_DEVICE_MEMORY = 5, /* a device's memory ran out */
    EIN_NO_DEVICE = 6,      /* target, driver or compiler missing; the message says which */
    EIN_DEVICE_FAILED = 7,  /* a device or a kernel failed while running */
    EIN_COMPILE_FAILED = 8, /* a kernel text did not compile; the detail holds the log */
    EIN_NO_PLAN = 9,        /* no legal plan within the limits, or a forced plan that is not legal */
    EIN_IO = 10,            /* a file could not be read or written */
    EIN_CANCELLED = 11,     /* the run was cancelled */
    EIN_UNSUPPORTED = 12,   /* a name that is reserved but not built yet */
    EIN_INTERNAL = 13       /* a verifier found a contradiction: a bug of this library */
} ein_status;

/* "invalid argument", ...; never NULL. Thread: any. */
EIN_API const char *ein_status_name(ein_status status);

/* The library's version, "0.1.0". Thread: any. */
EIN_API const char *ein_version(void);

#ifdef __cplusplus
}
#endif
#endif
