/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol by which a workload is run, verified, and only then timed. */
#ifndef TOOLS_MEASURE_H
#define TOOLS_MEASURE_H

#include "tools/session.h"

typedef struct measure {
    double cold_ms;   /* first compile and run */
    double warm_ms;   /* compile again: read from the cache, verify, bind */
    double median_ms; /* of the runs after that */
    ein_program_stats cold, warm;
    int64_t moved;         /* bytes that counting kernels tallied in one run */
    bool checked, repeats; /* repeats: all runs gave the same bits */
    verdict verdict;
    prepared program; /* the first; to be released */
} measure;

/* `check`: compare with the reference. `repeat` runs are timed; none where a result was wrong. The status is
 * about the machinery; whether the results were right, measure_ok says. `s->message` or `s->work->error`
 * say what failed. */
ein_status measure_session(session *s, const char *plan, bool check, int repeat, measure *out);
bool measure_ok(const measure *m);

#endif
