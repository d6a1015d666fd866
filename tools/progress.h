/* SPDX-License-Identifier: Apache-2.0 */
/* What a long command does, on stderr: on a terminal a line that is overwritten, else a line per stage. */
#ifndef TOOLS_PROGRESS_H
#define TOOLS_PROGRESS_H

#include <stdbool.h>

typedef struct progress {
    bool on, terminal;
    char stage[64];
    int percent;
    double began; /* the stage */
} progress;

/* On where stderr is a terminal, or if `asked`. */
void progress_begin(progress *p, bool asked);
/* An ein_progress_fn; `p` is a progress *. */
void progress_report(void *p, const char *stage, double fraction);
void progress_end(progress *p);

#endif
