/* SPDX-License-Identifier: Apache-2.0 */
/* What the first call costs, and what is left of it afterwards: the same program compiled on an empty cache,
 * again in the same process, and again by a context of its own, as a later process would. */
#include <stdio.h>

#include "bench/bench.h"
#include "tools/args.h"
#include "tools/measure.h"
#include "tools/report.h"
#include "tools/temporary.h"

/* Compiled anew by somebody who finds the cache only: how many kernels had to be compiled. */
static ein_status second_run(workload *w, const char *machine, const char *cache_dir, int *compiles)
{
    session s;
    prepared p = {0};
    ein_program_stats stats = {.size = sizeof stats};
    ein_status status = session_open(&s, w, machine, cache_dir);
    if (status == EIN_OK) status = session_prepare(&s, NULL, false, &p);
    if (status == EIN_OK) {
        ein_program_get_stats(p.program, &stats);
        *compiles = stats.compiles;
    } else {
        complain(0, "%s", s.message);
    }
    session_release(&p);
    session_close(&s);
    return status;
}

static ein_status first_runs(workload *w, const char *machine, const char *cache_dir, measure *m, int *devices)
{
    session s;
    ein_status status = session_open(&s, w, machine, cache_dir);
    if (status == EIN_OK) status = measure_session(&s, NULL, false, 1, m);
    if (status == EIN_OK) *devices = ein_context_device_count(s.context);
    if (status != EIN_OK) complain(0, "%s", s.message[0] != 0 ? s.message : w->error.line);
    session_release(&m->program);
    session_close(&s);
    return status;
}

static int bench_model(const char *name, const char *machine, const char *cache_dir, report *r)
{
    progress p;
    progress_begin(&p, false);
    workload w;
    measure m;
    int compiles = -1, devices = 0;
    ein_status status = workload_open(&w, name, &p);
    if (status == EIN_OK) status = workload_fill(&w);
    if (status != EIN_OK) complain(0, "%s", w.error.line);
    if (status == EIN_OK) status = first_runs(&w, machine, cache_dir, &m, &devices);
    if (status == EIN_OK) status = second_run(&w, machine, cache_dir, &compiles);
    progress_end(&p);
    workload_close(&w);
    if (status != EIN_OK) return exit_of(status);
    report_row(r, json_pack("{s:s, s:i, s:s, s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:i}", "model", name, "devices",
                            devices, "target", "host", "arch", "host", "kernels", m.cold.kernels, "search_ms",
                            report_number(m.cold.search_ms), "synth_ms", report_number(m.cold.synth_ms),
                            "compile_ms", report_number(m.cold.compile_ms), "cold_ms", report_number(m.cold_ms),
                            "warm_ms", report_number(m.warm_ms), "second_run_compiles", compiles));
    if (measure_ok(&m)) return EXIT_DONE;
    return complain(EXIT_WRONG, "%s on %s: a wrong result", name, machine);
}

int suite_jit(int argc, char **argv)
{
    static const char *const quick[] = {"llama-7b:layers=1,seq=64,hidden=512", "llama-7b:layers=4,seq=64,hidden=512",
                                        "llama3-8b:layers=2,seq=1,cached=64,hidden=512", NULL};
    static const char *const full[] = {"llama-7b:layers=1,seq=128", "llama-7b:layers=32,seq=64,hidden=512",
                                       "llama3-8b:layers=1,seq=1,cached=512", "mlp:batch=256,hidden=2048", NULL};
    args a;
    char machine[256], cache_dir[256];
    int code = args_parse(argc, argv, "devices machine json quick", 0, 1, &a);
    if (code == EXIT_DONE && a.devices == 0 && a.machine == NULL) a.devices = 4;
    if (code == EXIT_DONE) code = args_machine(&a, machine, sizeof machine);
    if (code == EXIT_DONE && !temporary_make(cache_dir, sizeof cache_dir)) code = EXIT_USAGE;
    if (code != EXIT_DONE) return code;
    const char *one[] = {a.words[0], NULL};
    const char *const *names = a.n_words > 0 ? one : a.quick ? quick : full;
    report r;
    report_begin(&r, a.json);
    for (int i = 0; code == EXIT_DONE && names[i] != NULL; i++) code = bench_model(names[i], machine, cache_dir, &r);
    temporary_remove(cache_dir);
    if (!report_end(&r)) return EXIT_USAGE;
    return code;
}
