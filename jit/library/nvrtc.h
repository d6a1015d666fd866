/* SPDX-License-Identifier: Apache-2.0 */
/* NVRTC, opened at run time: its types, constants and calls by hand. Types of enumerations are ints here. */
#ifndef JIT_LIBRARY_NVRTC_H
#define JIT_LIBRARY_NVRTC_H

#include <stddef.h>

#include "jit/library/library.h"

typedef int nvrtcResult;
typedef struct _nvrtcProgram *nvrtcProgram;

enum {
#define VALUE(name, value) name = (value),
#include "jit/library/nvrtc_values.def"
#undef VALUE
};

typedef struct nvrtc_library {
#define CALL(result, name, parameters) result (*name) parameters;
#include "jit/library/nvrtc_calls.def"
#undef CALL
    int major, minor;
} nvrtc_library;

/* Opening it again is cheap: the loader knows it. Never closed. `newest`: the greatest major version that will do (a
 * driver loads code of its own and older ones), 0: any. `path` (may be NULL) gets the file's path. */
ein_status ein__nvrtc_open(nvrtc_library *out, int newest, text *path, error *e);

#endif
