/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol by which a workload is run, verified, and only then timed. */
#ifndef TOOLS_MEASURE_H
#define TOOLS_MEASURE_H

#include "tools/session.h"

typedef struct measure {
    double cold_ms; /* first compile and run */
    double
        warm_ms; /* compile again as a later process does, without placing the weights: read, verify, bind */
    double median_ms; /* of the runs after that */
    ein_program_stats cold, warm;
    bool counted, timed;   /* whether the counting run and the runs after the first were made */
    int64_t moved;         /* bytes that counting kernels tallied in one run */
    bool checked, repeats; /* repeats: all runs gave the same bits */
    verdict verdict;
    session session;  /* of the last step */
    prepared program; /* in it; what was timed, or the wrong one */
    arena arena;
} measure;

/* `cache_dir` NULL: the user's; `plan` NULL: search; `check`: compare with the reference. `repeat` runs are
 * timed; none where a result was wrong. With `repeat` 0 there is no run but the first and, if `check`, the counting
 * one, and the session stays that of the first. The status is about the machinery; whether the results were right,
 * measure_ok says. Close in any case. */
ein_status measure_workload(workload *w, const char *machine, const char *cache_dir, const char *plan,
                            bool check, int repeat, measure *out);
bool measure_ok(const measure *m);
/* Say to stderr what failed: `status` of the call above. Returns the exit code. */
int measure_complain(const measure *m, ein_status status);
void measure_close(measure *m);

#endif
