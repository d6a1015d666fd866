/* SPDX-License-Identifier: Apache-2.0 */
/* Shared libraries that are opened at run time: where one may be, and a table of its functions. */
#ifndef JIT_LIBRARY_LIBRARY_H
#define JIT_LIBRARY_LIBRARY_H

#include "core/base/error.h"
#include "core/base/text.h"

typedef struct library_names {
    const char *what;           /* "NVRTC" */
    const char *variable;       /* of the environment; names the file, and nothing else is tried then */
    const char *sonames[3];     /* newest first; NULL behind the last */
    int majors[2];              /* CUDA's major version of each; 0: no matter */
    const char *wheel_folders[3]; /* below site-packages; NULL behind the last */
    bool driver;                /* comes with the driver, not with a toolkit */
} library_names;

/* One function: its name, where its address goes, whether it may be absent. */
typedef struct library_symbol { const char *name; void *slot; bool optional; } library_symbol;

/* Finds, opens and fills the slots. EIN_NO_DEVICE with a line that says what was looked for, or which function is
 * missing. `newest`: the greatest major version that will do, 0: any. `path` (may be NULL) gets the file's path. */
ein_status ein__library_open(const library_names *names, int newest, const library_symbol *symbols, size_t n,
                             text *path, error *e);

#endif
