/* SPDX-License-Identifier: Apache-2.0 */
/* What the GPUs here are, and how fast the library is on them. */
#include "bench/gpu.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "jit/library/cublaslt.h"
#include "jit/library/nvrtc.h"
#include "tools/args.h"
#include "tools/temporary.h"

void gpu_bench_row(gpu_bench *b, const gpu_row *r)
{
    report_row(&b->report,
               json_pack("{s:s, s:s, s:i, s:i, s:o, s:o, s:o, s:o, s:s, s:i}", "part", r->part, "what", r->what, "devices",
                         r->devices, "gpus", r->devices < b->gpus ? r->devices : b->gpus, "first_ms",
                         report_number(r->first_ms), "warm_ms", report_number(r->warm_ms), "run_us", report_number(r->run_us),
                         "rate", report_number(r->rate), "unit", r->unit, "runs", r->runs));
}

/* ---- about -------------------------------------------------------------------------------------------- */

static void about_row(report *r, const char *what, const char *value)
{
    report_row(r, json_pack("{s:s, s:s}", "what", what, "value", value));
}

/* The driver's own version, which its calls do not tell. */
static void about_driver(report *r, int cuda)
{
    char line[200] = "", value[240];
    FILE *f = fopen("/proc/driver/nvidia/version", "r");
    if (f != NULL && fgets(line, sizeof line, f) == NULL) line[0] = 0;
    if (f != NULL) fclose(f);
    line[strcspn(line, "\n")] = 0;
    snprintf(value, sizeof value, "CUDA %d.%d%s%s", cuda / 1000, cuda % 1000 / 10, line[0] != 0 ? "; " : "", line);
    about_row(r, "driver", value);
}

static void about_libraries(report *r, int newest)
{
    nvrtc_library nvrtc;
    cublaslt_library blas;
    error e = {0};
    char value[256];
    if (ein__nvrtc_open(&nvrtc, newest, NULL, &e) == EIN_OK) snprintf(value, sizeof value, "%d.%d", nvrtc.major, nvrtc.minor);
    else snprintf(value, sizeof value, "%s", e.line);
    about_row(r, "NVRTC", value);
    if (ein__cublaslt_open(&blas, newest, NULL, &e) == EIN_OK) snprintf(value, sizeof value, "%zu", blas.version);
    else snprintf(value, sizeof value, "%s", e.line);
    about_row(r, "cuBLASLt", value);
    ein__error_reset(&e);
}

static int about(gpu_bench *b)
{
    cuda_library cu;
    error e = {0};
    report r;
    char what[16], name[100], value[160];
    if (ein__cuda_open(&cu, NULL, &e) != EIN_OK) return complain(EXIT_MISSING, "%s", e.line);
    if (cu.cuDeviceGetCount(&b->gpus) != CUDA_SUCCESS || b->gpus < 1) return complain(EXIT_MISSING, "the driver has no GPU");
    report_begin(&r, b->report.json);
    for (int i = 0; i < b->gpus; i++) {
        CUdevice d;
        if (cu.cuDeviceGet(&d, i) != CUDA_SUCCESS || cu.cuDeviceGetName(name, sizeof name, d) != CUDA_SUCCESS)
            return complain(EXIT_MISSING, "the driver does not name GPU %d", i);
        snprintf(what, sizeof what, "GPU %d", i);
        about_row(&r, what, name);
    }
    about_driver(&r, cu.version);
    about_libraries(&r, cu.version / 1000);
    about_row(&r, "ein", ein_version());
    if (b->gpus == 1) snprintf(value, sizeof value, "all on one GPU, which they share: more of them cannot be faster");
    else snprintf(value, sizeof value, "device d is on GPU d mod %d: those beyond %d share GPUs", b->gpus, b->gpus);
    about_row(&r, "devices", value);
    if (!report_end(&r)) return EXIT_USAGE;
    if (!b->report.json) putchar('\n');
    fflush(stdout);
    return EXIT_DONE;
}

/* ---- the suite ---------------------------------------------------------------------------------------- */

static const struct { const char *name; int (*run)(gpu_bench *b); } PARTS[] = {
    {"launches", gpu_bench_launches},
    {"copies", gpu_bench_copies},
    {"products", gpu_bench_products},
    {"blocks", gpu_bench_blocks},
};
enum { N_PARTS = sizeof PARTS / sizeof *PARTS };

static int run_parts(gpu_bench *b, const char *one)
{
    int code = EXIT_DONE;
    for (int i = 0; i < N_PARTS; i++) {
        if (one != NULL && strcmp(one, PARTS[i].name) != 0) continue;
        int now = PARTS[i].run(b);
        if (now > code) code = now;
    }
    return code;
}

int suite_gpu(int argc, char **argv)
{
    args a;
    char cache_dir[256];
    gpu_bench b = {0};
    int code = args_parse(argc, argv, "json quick", 0, 1, &a), known = a.n_words == 0;
    if (code != EXIT_DONE) return code;
    const char *one = a.n_words > 0 ? a.words[0] : NULL;
    bool only_about = one != NULL && strcmp(one, "about") == 0;
    for (int i = 0; i < N_PARTS && !known; i++) known = strcmp(one, PARTS[i].name) == 0;
    if (!known && !only_about)
        return complain(EXIT_USAGE, "%s: known are about, launches, copies, products, blocks", one);
    b.quick = a.quick;
    b.report.json = a.json;
    code = about(&b);
    if (code != EXIT_DONE || only_about) return code;
    if (!temporary_make(cache_dir, sizeof cache_dir)) return EXIT_USAGE;
    b.cache_dir = cache_dir;
    report_begin(&b.report, a.json);
    code = run_parts(&b, one);
    temporary_remove(cache_dir);
    return report_end(&b.report) ? code : EXIT_USAGE;
}
