/* SPDX-License-Identifier: Apache-2.0 */
/* NVRTC, opened at run time: prototypes by hand, nothing of CUDA's is needed to build. */
#ifndef JIT_COMPILER_NVRTC_LIBRARY_H
#define JIT_COMPILER_NVRTC_LIBRARY_H

#include <stddef.h>

#include "core/base/error.h"

typedef struct nvrtc_program_opaque *nvrtc_program;
enum { NVRTC_SUCCESS = 0, NVRTC_OUT_OF_MEMORY = 1, NVRTC_INVALID_OPTION = 5, NVRTC_COMPILATION = 6 };

typedef struct nvrtc_library {
    int major, minor;
    int (*version)(int *major, int *minor);
    const char *(*error_string)(int code);
    int (*create)(nvrtc_program *out, const char *source, const char *name, int n_headers,
                  const char *const *headers, const char *const *header_names);
    int (*destroy)(nvrtc_program *program);
    int (*compile)(nvrtc_program program, int n_options, const char *const *options);
    int (*binary_size)(nvrtc_program program, size_t *bytes);
    int (*binary)(nvrtc_program program, char *out);
    int (*log_size)(nvrtc_program program, size_t *bytes);
    int (*log)(nvrtc_program program, char *out);
    int (*count_architectures)(int *n);
    int (*architectures)(int *out);
} nvrtc_library;

/* Opening it again is cheap: the loader knows it. It is never closed. */
ein_status ein__nvrtc_open(nvrtc_library *out, error *e);

#endif
