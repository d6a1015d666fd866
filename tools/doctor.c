/* SPDX-License-Identifier: Apache-2.0 */
/* ein doctor: what the library would find on this computer, tried rather than looked up, and how fast the
 * computer is. Only what the host target needs must be there. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "jit/cache/cache.h"
#include "jit/compiler/compiler.h"
#include "jit/context.h"
#include "jit/library/cublaslt.h"
#include "jit/target/cuda_target.h"
#include "tools/args.h"
#include "tools/commands.h"
#include "tools/parallel.h"
#include "tools/report.h"
#include "tools/seeded.h"

typedef struct finding {
    bool ok;
    char detail[256];
} finding;

#define SAY(f, ...) snprintf((f)->detail, sizeof(f)->detail, __VA_ARGS__)

/* y0[i] = 2 x0[i], in the kernel dialect. */
static const char DOUBLE[] =
    "#define PARAMS(IN, OUT, VAL, SEP) IN(float, x0) SEP OUT(float, y0) SEP VAL(i64, n_i)\n"
    "KERNEL(PARAMS)\n"
    "{\n"
    "    STEP_N(n_i - bx * THREADS) { ST(y0, bx * THREADS + tid, LD(x0, bx * THREADS + tid) * 2.0f); }\n"
    "}\n"
    "#undef PARAMS\n";

static ein_status doubling_source(arena *a, reading r, kernel_text *kernel, text *source)
{
    TRY(ein__kernel_make(a, DOUBLE, 32, kernel));
    const kernel_text *kernels[] = {kernel};
    return ein__kernel_source(r, false, kernels, 1, source);
}

static ein_status run_double(const text *object, const kernel_text *kernel, bool *right, error *e)
{
    host_module *module;
    TRY(ein__host_load(object->bytes, object->n, &module, e));
    host_entry entry = ein__host_entry(module, kernel->name);
    float x[40], y[40] = {0};
    for (int i = 0; i < 40; i++) x[i] = (float)i;
    float *px = x, *py = y;
    i64 n = 40;
    void *arguments[] = {&px, &py, &n};
    if (entry != NULL) entry(arguments, 2, 1, 1, &(struct tally){.base = NULL});
    *right = entry != NULL;
    for (int i = 0; i < 40; i++) *right = *right && y[i] == 2.0f * (float)i;
    ein__host_unload(module);
    return EIN_OK;
}

static void check_compiler(finding *f)
{
    arena a = {0};
    error e = {0};
    text source = {0}, object = {0};
    kernel_text kernel;
    double began = clock_seconds();
    ein_status status = doubling_source(&a, READ_HOST, &kernel, &source);
    if (status == EIN_OK) status = ein__host_compile(source.bytes, &object, &e);
    double ms = (clock_seconds() - began) * 1e3;
    if (status == EIN_OK) status = run_double(&object, &kernel, &f->ok, &e);
    if (status != EIN_OK) {
        SAY(f, "%s", e.line[0] != 0 ? e.line : ein_status_name(status));
    } else {
        SAY(f, "a kernel compiled in %.0f ms %s", ms, f->ok ? "and ran" : "but gave a wrong result");
    }
    ein__error_reset(&e);
    ein__text_free(&source);
    ein__text_free(&object);
    ein__arena_free(&a);
}

static void check_nvrtc(finding *f)
{
    arena a = {0};
    error e = {0};
    text source = {0}, path = {0};
    kernel_text kernel;
    nvrtc_result result;
    nvrtc_library l;
    ein_status status = doubling_source(&a, READ_CUDA, &kernel, &source);
    if (status == EIN_OK) status = ein__nvrtc_open(&l, 0, &path, &e);
    if (status == EIN_OK) status = ein__nvrtc_unit(&l, source.bytes, "sm_80", NULL, NULL, &result, &e);
    f->ok = status == EIN_OK;
    if (f->ok) {
        SAY(f, "%d.%d, %s; a kernel compiled for sm_80 in %.0f ms", l.major, l.minor, ein__excerpt_last(path.bytes, 120).s,
            result.compile_ms);
    } else {
        SAY(f, "%s", e.line[0] != 0 ? e.line : ein_status_name(status));
    }
    ein__error_reset(&e);
    ein__text_free(&source);
    ein__text_free(&path);
    ein__arena_free(&a);
}

static void check_cuda(finding *f)
{
    cuda_library l;
    text path = {0};
    error e = {0};
    int n = 0;
    f->ok = ein__cuda_open(&l, &path, &e) == EIN_OK && l.cuDeviceGetCount(&n) == CUDA_SUCCESS;
    if (f->ok) {
        SAY(f, "CUDA %d.%d, %s; %d GPUs", l.version / 1000, l.version % 1000 / 10, ein__excerpt_last(path.bytes, 120).s, n);
    } else {
        SAY(f, "%s", e.line);
    }
    ein__text_free(&path);
}

static void check_cublaslt(finding *f)
{
    cublaslt_library l;
    text path = {0};
    error e = {0};
    f->ok = ein__cublaslt_open(&l, 0, &path, &e) == EIN_OK;
    if (f->ok) {
        SAY(f, "%zu, %s", l.version, ein__excerpt_last(path.bytes, 120).s);
    } else {
        SAY(f, "%s", e.line);
    }
    ein__text_free(&path);
}

/* Each GPU as the library plans with it, and whose memory its kernels read. */
static void report_gpus(report *r)
{
    ein_context *c = NULL;
    ein_context_options o = {.size = sizeof o, .machine = "cuda"};
    if (ein_context_create(&c, &o) != EIN_OK) return;
    for (int d = 0; d < c->machine.n_devices; d++) {
        const machine_device *x = &c->machine.devices[d];
        char name[16], detail[256];
        int used = snprintf(detail, sizeof detail, "%s, %.0f GB at %.0f GB/s, %.0f TFLOP/s in f32, %.0f in 16 bits; reads",
                            x->architecture, x->memory_bytes * 1e-9, x->memory_bandwidth * 1e-9, x->flops_f32 * 1e-12,
                            x->flops_f16 * 1e-12), any = 0;
        for (int k = 0; k < c->machine.n_devices && used < (int)sizeof detail - 20; k++) {
            if (k == d || !ein__cuda_target_reads(c->target, d, k)) continue;
            used += snprintf(detail + used, sizeof detail - (size_t)used, "%s %d", any++ > 0 ? "," : " GPU", k);
        }
        if (any == 0) snprintf(detail + used, sizeof detail - (size_t)used, " no other");
        snprintf(name, sizeof name, "GPU %d", d);
        report_row(r, json_pack("{s:s, s:b, s:s}", "check", name, "ok", 1, "detail", detail));
    }
    ein_context_free(c);
}

static void check_cache(finding *f)
{
    cache c;
    struct stat s;
    if (ein__cache_init(&c, NULL) != EIN_OK || c.dir == NULL) {
        SAY(f, "no folder: neither EIN_CACHE_DIR nor HOME is set; every first run compiles");
        return;
    }
    /* It is made when first used: what counts is the nearest folder that is there. */
    text path = {0};
    ein__text_add(&path, "%s", c.dir);
    bool there = stat(c.dir, &s) == 0;
    while (!path.failed && stat(path.bytes, &s) != 0) {
        char *slash = strrchr(path.bytes, '/');
        if (slash == NULL || slash == path.bytes) break;
        *slash = 0;
    }
    f->ok = !path.failed && access(path.bytes, W_OK | X_OK) == 0;
    SAY(f, "%s%s%s", c.dir, there ? "" : " (to be made)", f->ok ? "" : " cannot be written");
    ein__text_free(&path);
    ein__cache_fini(&c);
}

/* ---- rates ----------------------------------------------------------------------------------------- */

typedef int (*sgemm_function)(char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha,
                              const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                              int64_t ldc);

enum { GEMM = 1024 };

/* The second of two products, so that threads and code are there. */
static double gemm_rate(sgemm_function sgemm)
{
    size_t n = (size_t)GEMM * GEMM;
    float *a = ein__calloc(n, sizeof *a), *b = ein__calloc(n, sizeof *b), *c = ein__calloc(n, sizeof *c);
    double rate = 0;
    if (a != NULL && b != NULL && c != NULL) {
        seeded_normal("a", 0, 1, (int64_t)n, a);
        seeded_normal("b", 0, 1, (int64_t)n, b);
        for (int i = 0; i < 3; i++) {
            double began = clock_seconds();
            if (sgemm('N', 'N', GEMM, GEMM, GEMM, 1, a, GEMM, b, GEMM, 0, c, GEMM) != 0) break;
            double now = 2.0 * GEMM * GEMM * GEMM / (clock_seconds() - began) * 1e-9;
            if (now > rate) rate = now;
        }
    }
    ein__free(a);
    ein__free(b);
    ein__free(c);
    return rate;
}

static void check_onednn(finding *library, finding *rate)
{
    static const char *const names[] = {"libdnnl.so.3", "libdnnl.so.2"};
    void *opened = NULL;
    int i = 0;
    while (i < 2 && (opened = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL)) == NULL) i++;
    library->ok = opened != NULL;
    SAY(library, "%s", opened != NULL ? names[i] : "neither libdnnl.so.3 nor libdnnl.so.2 can be opened");
    void *symbol = opened != NULL ? dlsym(opened, "dnnl_sgemm") : NULL;
    if (symbol == NULL) {
        SAY(rate, "not measured: no matrix product to call");
        return;
    }
    sgemm_function sgemm;
    memcpy(&sgemm, &symbol, sizeof sgemm);
    double measured = gemm_rate(sgemm);
    rate->ok = measured > 0;
    SAY(rate, "%.1f GFLOP/s in f32, all cores", measured);
    /* Not closed: its threads may still be there. */
}

typedef struct copy {
    char *to;
    const char *from;
} copy;

static void copy_range(void *user, int64_t lo, int64_t hi)
{
    const copy *c = user;
    memcpy(c->to + lo, c->from + lo, (size_t)(hi - lo));
}

static void check_bandwidth(finding *f)
{
    int64_t n = 256 << 20;
    char *memory = ein__calloc((size_t)n, 2);
    double best = 0;
    if (memory == NULL) {
        SAY(f, "not measured: no memory");
        return;
    }
    memset(memory, 1, (size_t)n * 2);
    copy c = {memory, memory + n};
    for (int i = 0; i < 3; i++) {
        double began = clock_seconds();
        parallel_ranges(n, copy_range, &c);
        double now = 2.0 * (double)n / (clock_seconds() - began) * 1e-9;
        if (now > best) best = now;
    }
    f->ok = memory[n - 1] == 1;
    SAY(f, "%.1f GB/s read and written by a copy, all cores", best);
    ein__free(memory);
}

int command_doctor(int argc, char **argv)
{
    enum { COMPILER, ONEDNN, NVRTC, DRIVER, CUBLASLT, CACHE, CORES, MEMORY, FLOPS, BANDWIDTH, FINDINGS };
    static const char *const names[FINDINGS] = {"C compiler",  "oneDNN",       "NVRTC",
                                                "CUDA driver", "cuBLASLt",     "cache",
                                                "cores",       "memory",       "product rate",
                                                "memory bandwidth"};
    args a;
    finding f[FINDINGS] = {{false, ""}};
    int code = args_parse(argc, argv, "json", 0, 0, &a);
    if (code != EXIT_DONE) return code;
    check_compiler(&f[COMPILER]);
    check_onednn(&f[ONEDNN], &f[FLOPS]);
    check_nvrtc(&f[NVRTC]);
    check_cuda(&f[DRIVER]);
    check_cublaslt(&f[CUBLASLT]);
    check_cache(&f[CACHE]);
    f[CORES].ok = f[MEMORY].ok = true;
    SAY(&f[CORES], "%d", parallel_cores());
    SAY(&f[MEMORY], "%.1f GB", (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) * 1e-9);
    check_bandwidth(&f[BANDWIDTH]);
    report r;
    report_begin(&r, a.json);
    for (int i = 0; i < FINDINGS; i++) {
        report_row(
            &r, json_pack("{s:s, s:b, s:s}", "check", names[i], "ok", (int)f[i].ok, "detail", f[i].detail));
    }
    report_gpus(&r);
    if (!report_end(&r)) return EXIT_USAGE;
    if (f[COMPILER].ok) return EXIT_DONE;
    return complain(EXIT_MISSING, "nothing can run here without a C compiler (cc, gcc, clang, or EIN_CC)");
}
