/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel texts as files, for people and for the gate that compiles them all. */
#ifndef JIT_COMPILER_DUMP_H
#define JIT_COMPILER_DUMP_H

#include "core/kernel/dialect.h"

/* If $EIN_DUMP names a folder (made if need be): write <folder>/<name>.body, a first line "threads N", then
 * the body, unless it is there. Failures are ignored. */
void ein__kernel_dump(const kernel_text *k);
/* If $EIN_DUMP names a folder: write <folder>/<name>.<architecture>.txt for every kernel of a unit: the options, and
 * what the compiler's log says of the kernel, or the whole log where it says nothing of it. */
void ein__unit_dump(const kernel_text *const *kernels, int n, const char *architecture, const char *options,
                    const char *log);

#endif
