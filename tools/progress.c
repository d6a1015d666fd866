/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "tools/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/parallel.h"

void progress_begin(progress *p, bool asked)
{
    memset(p, 0, sizeof *p);
    p->terminal = isatty(STDERR_FILENO) != 0;
    p->on = asked || p->terminal;
}

static void finish_stage(progress *p)
{
    if (p->stage[0] == 0) return;
    if (p->terminal) {
        fputs("\r\033[K", stderr);
    } else {
        fprintf(stderr, "  %s: %.1f s\n", p->stage, clock_seconds() - p->began);
    }
    p->stage[0] = 0;
}

void progress_report(void *user, const char *stage, double fraction)
{
    progress *p = user;
    if (!p->on) return;
    int percent = (int)(fraction * 100);
    if (strncmp(stage, p->stage, sizeof p->stage - 1) != 0) {
        finish_stage(p);
        snprintf(p->stage, sizeof p->stage, "%s", stage);
        p->began = clock_seconds();
        p->percent = -1;
    }
    if (!p->terminal || percent == p->percent) return;
    p->percent = percent;
    fprintf(stderr, "\r\033[K  %s %d %%", p->stage, percent);
}

void progress_end(progress *p)
{
    if (p->on) finish_stage(p);
}
