/* SPDX-License-Identifier: Apache-2.0 */
/* What the first call costs, and what is left of it for a later process, which finds the cache only. */
#include <stdio.h>

#include "bench/bench.h"
#include "tools/args.h"
#include "tools/measure.h"
#include "tools/report.h"
#include "tools/temporary.h"

static json_t *row_of(const char *name, const measure *m)
{
    return json_pack("{s:s, s:i, s:s, s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:i}", "model", name, "devices",
                     ein_context_device_count(m->session.context), "target", "host", "arch", "host",
                     "kernels", m->cold.kernels, "search_ms", report_number(m->cold.search_ms), "synth_ms",
                     report_number(m->cold.synth_ms), "compile_ms", report_number(m->cold.compile_ms),
                     "cold_ms", report_number(m->cold_ms), "warm_ms", report_number(m->warm_ms), "median_ms",
                     report_number(m->median_ms), "second_run_compiles", m->warm.compiles);
}

static int bench_model(const char *name, const char *machine, const char *cache_dir, report *r)
{
    progress p;
    progress_begin(&p, false);
    workload w;
    measure m;
    ein_status status = workload_open(&w, name, NULL, &p);
    if (status == EIN_OK) status = workload_fill(&w);
    int code = exit_of(status);
    if (status != EIN_OK) {
        complain(0, "%s", w.error.line);
    } else {
        status = measure_workload(&w, machine, cache_dir, NULL, false, 3, &m);
        progress_end(&p);
        code = status != EIN_OK ? measure_complain(&m, status) : measure_ok(&m) ? EXIT_DONE : EXIT_WRONG;
        if (code == EXIT_DONE) report_row(r, row_of(name, &m));
        if (code == EXIT_WRONG && status == EIN_OK) complain(0, "%s on %s: a wrong result", name, machine);
        measure_close(&m);
    }
    workload_close(&w);
    return code;
}

int suite_jit(int argc, char **argv)
{
    static const char *const quick[] = {"llama-7b:layers=1,seq=64,hidden=512",
                                        "llama-7b:layers=4,seq=64,hidden=512",
                                        "llama3-8b:layers=2,seq=1,cached=64,hidden=512", NULL};
    static const char *const full[] = {"llama-7b:layers=1,seq=128", "llama-7b:layers=32,seq=64,hidden=512",
                                       "llama3-8b:layers=1,seq=1,cached=512", "mlp:batch=256,hidden=2048",
                                       NULL};
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
    for (int i = 0; code == EXIT_DONE && names[i] != NULL; i++)
        code = bench_model(names[i], machine, cache_dir, &r);
    temporary_remove(cache_dir);
    if (!report_end(&r)) return EXIT_USAGE;
    return code;
}
