/* SPDX-License-Identifier: Apache-2.0 */
/* Order: first run, check, warm start, timed runs, counting run. The timed runs are those of the program that
 * came from the cache, and every run must repeat the first one's bits. */
#include "tools/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/parallel.h"

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static ein_status time_runs(session *s, const prepared *p, float *const *first, int repeat, measure *out)
{
    double *ms;
    NEW(&s->arena, ms, repeat);
    for (int i = 0; i < repeat; i++) {
        progress_report(s->work->progress, "run", (double)i / repeat);
        double began = clock_seconds();
        TRY(session_run(s, p));
        ms[i] = (clock_seconds() - began) * 1e3;
        out->repeats = out->repeats && session_same_outputs(s, first);
    }
    qsort(ms, (size_t)repeat, sizeof *ms, rising);
    out->median_ms = (ms[(repeat - 1) / 2] + ms[repeat / 2]) / 2;
    return EIN_OK;
}

static ein_status warm_start(session *s, const char *plan, float *const *first, int repeat, measure *out)
{
    prepared warm = {0};
    double began = clock_seconds();
    ein_status status = session_prepare(s, plan, false, &warm);
    out->warm_ms = (clock_seconds() - began) * 1e3;
    if (status == EIN_OK) {
        ein_program_get_stats(warm.program, &out->warm);
        status = time_runs(s, &warm, first, repeat, out);
    }
    session_release(&warm);
    return status;
}

static ein_status count_bytes(session *s, const char *plan, float *const *first, measure *out)
{
    prepared counting = {0};
    progress_report(s->work->progress, "counting run", 0);
    ein_status status = session_prepare(s, plan, true, &counting);
    if (status == EIN_OK) status = session_run(s, &counting);
    if (status == EIN_OK) out->repeats = out->repeats && session_same_outputs(s, first);
    out->moved = 0;
    for (int d = 0; status == EIN_OK && d < ein_context_device_count(s->context); d++) {
        out->moved += ein_run_tally(counting.run, d);
    }
    session_release(&counting);
    return status;
}

static ein_status first_run(session *s, const char *plan, measure *out)
{
    double began = clock_seconds();
    TRY(session_prepare(s, plan, false, &out->program));
    TRY(session_run(s, &out->program));
    out->cold_ms = (clock_seconds() - began - s->prime_seconds) * 1e3;
    ein_program_get_stats(out->program.program, &out->cold);
    return EIN_OK;
}

ein_status measure_session(session *s, const char *plan, bool check, int repeat, measure *out)
{
    *out = (measure){
        .cold.size = sizeof out->cold, .warm.size = sizeof out->warm, .checked = check, .repeats = true};
    TRY(first_run(s, plan, out));
    float **first = session_copy_outputs(s);
    if (first == NULL) return EIN_NO_MEMORY;
    if (check) TRY(workload_check(s->work, first, &out->verdict));
    if (check && !out->verdict.ok) return EIN_OK;
    TRY(warm_start(s, plan, first, repeat, out));
    return count_bytes(s, plan, first, out);
}

bool measure_ok(const measure *m)
{
    return m->repeats && m->moved == m->cold.predicted_bytes && (!m->checked || m->verdict.ok);
}
