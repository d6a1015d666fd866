/* SPDX-License-Identifier: Apache-2.0 */
/* Compilers opened or started at run time: the system's C compiler for the host reading (posix_spawn, no
 * shell), NVRTC for the CUDA reading. */
#ifndef JIT_COMPILER_COMPILER_H
#define JIT_COMPILER_COMPILER_H

#include "core/base/text.h"
#include "core/kernel/dialect.h"
#include "jit/compiler/architecture.h"
#include "jit/library/nvrtc.h"

/* Compile a host translation unit to the bytes of a shared object (in `object`). `e`'s detail gets the
 * compiler's log on failure. EIN_NO_DEVICE if there is no compiler (cc, gcc, clang; or $EIN_CC). */
ein_status ein__host_compile(const char *source, text *object, error *e);
/* What host objects depend on besides their text: compiler path, version, options, CPU features. */
ein_status ein__host_identity(text *key, error *e);

/* A loaded object. Loaded under a file name never used before in the process. */
typedef struct host_module host_module;
ein_status ein__host_load(const void *object, size_t bytes, host_module **out, error *e);
host_entry ein__host_entry(const host_module *m, const char *name);
void ein__host_unload(host_module *m);

/* NVRTC: compile to machine code of "sm_80", "sm_90", "sm_100", ..., or to PTX of "compute_121", ... */
typedef struct nvrtc_result {
    int registers, spill_bytes, stack_bytes, shared_bytes; /* worst kernel of the unit; -1: the log does not say */
    size_t binary_bytes;
    double compile_ms;
} nvrtc_result;
/* EIN_NO_DEVICE if libnvrtc cannot be opened (the message says where it was looked for). `binary` may be NULL. */
ein_status ein__nvrtc_compile(const char *source, const char *architecture, text *binary, nvrtc_result *out,
                              error *e);
/* The same with an NVRTC that is open. `log` may be NULL. */
ein_status ein__nvrtc_unit(const nvrtc_library *l, const char *source, const char *architecture, text *binary, text *log,
                           nvrtc_result *out, error *e);
/* What a device of this compute capability (90: 9.0) gets from it. */
ein_status ein__nvrtc_architecture(const nvrtc_library *l, int device, architecture *out, error *e);
/* What code depends on besides text and architecture. `path`: the library's file. */
ein_status ein__nvrtc_identity(const nvrtc_library *l, const char *path, text *key, error *e);
/* The options, for people. */
void ein__nvrtc_options(const char *architecture, text *out);

#endif
