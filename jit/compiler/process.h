/* SPDX-License-Identifier: Apache-2.0 */
/* Other programs: found on PATH, started without a shell, waited for. */
#ifndef JIT_COMPILER_PROCESS_H
#define JIT_COMPILER_PROCESS_H

#include "core/base/text.h"

/* Appends the path of an executable file: `name` itself if it holds a slash, else the first on PATH. False if
 * there is none (or no memory: see `path`). */
bool ein__process_find(const char *name, text *path);

/* Runs argv[0], with output and errors in the file `log`, temporary files in `folder`, messages in
 * English. EIN_OK once it has ended: *code is its exit code, or minus the signal that killed it. */
ein_status ein__process_run(const char *const *argv, const char *folder, const char *log, int *code,
                            error *e);

#endif
