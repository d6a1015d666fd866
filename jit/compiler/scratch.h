/* SPDX-License-Identifier: Apache-2.0 */
/* Private temporary folders, mode 0700. */
#ifndef JIT_COMPILER_SCRATCH_H
#define JIT_COMPILER_SCRATCH_H

#include "core/base/text.h"

enum { SCRATCH_ROOTS = 3 };

/* A new folder below the `root`-th of $XDG_RUNTIME_DIR, $TMPDIR, /tmp; its path is appended to `path`. */
ein_status ein__scratch_make(int root, text *path, error *e);
/* Below the first root that will have one. */
ein_status ein__scratch_make_any(text *path, error *e);
/* Removes the folder and the files in it. */
void ein__scratch_remove(const text *path);

#endif
