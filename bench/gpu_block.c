/* SPDX-License-Identifier: Apache-2.0 */
/* A block of LLaMA-7B as a user runs it: from inputs in the process's memory to outputs there. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/gpu.h"
#include "tools/args.h"
#include "tools/measure.h"

/* `graphs`: as CUDA graphs from the second run on, each of which must repeat the first one's bits. */
static int bench_block(gpu_bench *b, workload *w, int devices, bool graphs)
{
    measure m;
    char machine[16], what[64];
    const model_use *use = &w->model.use;
    int runs = b->quick ? 3 : 50;
    snprintf(machine, sizeof machine, "cuda:%d", devices);
    snprintf(what, sizeof what, "%s %lld%s", use->cached > 0 ? "decode at" : "prefill",
             (long long)(use->cached > 0 ? use->cached : use->seq), graphs ? ", CUDA graph" : "");
    setenv("EIN_GRAPHS", graphs ? "1" : "0", 1);
    ein_status s = measure_workload(w, machine, b->cache_dir, NULL, true, runs, &m);
    int code = s != EIN_OK ? measure_complain(&m, s) : measure_ok(&m) ? EXIT_DONE : EXIT_WRONG;
    if (s == EIN_OK && code == EXIT_WRONG)
        complain(0, "%s on %s: error %.3g of the norm%s", what, machine, m.verdict.error, m.repeats ? "" : ", and runs differ");
    if (code == EXIT_DONE) {
        gpu_row row = {.part = "block", .what = what, .devices = devices, .runs = runs, .first_ms = m.cold_ms,
                       .warm_ms = m.warm_ms, .run_us = m.median_ms * 1e3, .rate = NAN, .unit = ""};
        if (graphs) row.first_ms = row.warm_ms = NAN; /* the cache had it */
        gpu_bench_row(b, &row);
    }
    measure_close(&m);
    return code;
}

static int bench_model(gpu_bench *b, const char *model)
{
    workload w;
    progress p;
    progress_begin(&p, false);
    ein_status s = workload_open(&w, model, NULL, &p);
    if (s == EIN_OK) s = workload_fill(&w);
    int code = s == EIN_OK ? EXIT_DONE : complain(exit_of(s), "%s", w.error.line);
    for (int n = 1; s == EIN_OK && n <= (b->quick ? 2 : 8); n *= 2) {
        for (int graphs = 0; graphs < 2; graphs++) {
            int now = bench_block(b, &w, n, graphs != 0);
            if (now > code) code = now;
        }
    }
    progress_end(&p);
    workload_close(&w);
    return code;
}

int gpu_bench_blocks(gpu_bench *b)
{
    static const char *const full[] = {"llama-7b:layers=1,seq=1024,dtype=bf16", "llama-7b:layers=1,seq=1,cached=1024,dtype=bf16"},
                      *const quick[] = {"llama-7b:layers=1,seq=8,hidden=128,dtype=bf16",
                                        "llama-7b:layers=1,seq=1,cached=8,hidden=128,dtype=bf16"};
    int code = EXIT_DONE;
    for (int i = 0; i < 2; i++) {
        int now = bench_model(b, b->quick ? quick[i] : full[i]);
        if (now > code) code = now;
    }
    unsetenv("EIN_GRAPHS");
    return code;
}
