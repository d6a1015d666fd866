/* SPDX-License-Identifier: Apache-2.0 */
/* Source to code with NVRTC. Options: numbers as on the host (no contraction, exact division and
 * root, subnormals kept); hermetic (no include of the working folder, the process's stack limit left alone);
 * resources into the log, from where they are read. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "core/base/alloc.h"
#include "jit/compiler/compiler.h"
#include "jit/compiler/report.h"

enum { FIXED_OPTIONS = 6, ALL_OPTIONS = 9, MOST_ARCHITECTURES = 64 };
static const char *const options[ALL_OPTIONS] = {
    "--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--ptxas-options=-v",
    /* Unknown to some NVRTC 12, and not needed for right code: */
    "--minimal", "--no-source-include", "--modify-stack-limit=false"};

/* The whole log; empty if there is none. */
static void get_log(const nvrtc_library *l, nvrtcProgram p, text *log)
{
    size_t n = 0;
    if (l->nvrtcGetProgramLogSize(p, &n) != NVRTC_SUCCESS || n == 0) return;
    char *bytes = ein__calloc(n + 1, 1);
    if (bytes == NULL) log->failed = true;
    else if (l->nvrtcGetProgramLog(p, bytes) == NVRTC_SUCCESS) ein__text_add(log, "%s", bytes);
    ein__free(bytes);
}

/* Largest number before `unit` ("12 bytes smem"); `absent` if there is none. */
static int worst(const char *log, const char *unit, int absent)
{
    int most = absent;
    for (const char *p = strstr(log, unit); p != NULL; p = strstr(p + 1, unit)) {
        const char *digits = p;
        while (digits > log && digits[-1] >= '0' && digits[-1] <= '9') digits--;
        const int n = atoi(digits);
        if (n > most) most = n;
    }
    return most;
}

/* A log without these lines is no proof of anything: -1. */
static void read_resources(const char *log, nvrtc_result *out)
{
    const int stores = worst(log, " bytes spill stores", -1), loads = worst(log, " bytes spill loads", -1);
    out->registers = worst(log, " registers", -1);
    out->stack_bytes = worst(log, " bytes stack frame", -1);
    out->spill_bytes = stores > loads ? stores : loads;
    out->shared_bytes = worst(log, " bytes smem", 0);
}

static void list_architectures(const nvrtc_library *l, int list[MOST_ARCHITECTURES], int *n)
{
    if (l->nvrtcGetNumSupportedArchs(n) != NVRTC_SUCCESS || *n > MOST_ARCHITECTURES) *n = 0;
    if (l->nvrtcGetSupportedArchs(list) != NVRTC_SUCCESS) *n = 0;
}

static ein_status refuse(const nvrtc_library *l, const char *architecture, error *e)
{
    char known[160] = "";
    int n = 0, list[MOST_ARCHITECTURES] = {0};
    list_architectures(l, list, &n);
    for (int i = 0; i < n; i++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, " %d", list[i]);
    }
    return ein__fail(e, EIN_COMPILE_FAILED, "NVRTC %d.%d refuses architecture \"%.20s\"; it knows%s",
                     l->major, l->minor, architecture, known);
}

static ein_status explain(const nvrtc_library *l, int code, const char *architecture, const text *log,
                          const char *source, error *e)
{
    if (code == NVRTC_ERROR_OUT_OF_MEMORY) return EIN_NO_MEMORY;
    if (code == NVRTC_ERROR_INVALID_OPTION) return refuse(l, architecture, e);
    ein__compiler_report(e, ein__text_get(log), source);
    return ein__fail(e, EIN_COMPILE_FAILED, "NVRTC %d.%d for %.20s: %.80s", l->major, l->minor, architecture,
                     l->nvrtcGetErrorString(code));
}

/* Machine code; of a virtual architecture PTX, with the zero at its end, which its loader asks for. */
static ein_status get_binary(const nvrtc_library *l, const char *architecture, nvrtcProgram p, text *binary, nvrtc_result *out,
                             error *e)
{
    const bool ptx = strncmp(architecture, "compute_", 8) == 0;
    int code = ptx ? l->nvrtcGetPTXSize(p, &out->binary_bytes) : l->nvrtcGetCUBINSize(p, &out->binary_bytes);
    if (code != NVRTC_SUCCESS || out->binary_bytes == 0)
        return ein__fail(e, EIN_COMPILE_FAILED, "NVRTC made no code for %.20s: %.80s", architecture, l->nvrtcGetErrorString(code));
    if (binary == NULL) return EIN_OK;
    char *bytes = ein__calloc(out->binary_bytes, 1);
    if (bytes == NULL) return EIN_NO_MEMORY;
    code = ptx ? l->nvrtcGetPTX(p, bytes) : l->nvrtcGetCUBIN(p, bytes);
    if (code == NVRTC_SUCCESS) ein__text_bytes(binary, bytes, out->binary_bytes);
    ein__free(bytes);
    if (code != NVRTC_SUCCESS)
        return ein__fail(e, EIN_COMPILE_FAILED, "NVRTC keeps its code: %.80s", l->nvrtcGetErrorString(code));
    return ein__text_status(binary);
}

/* One program with the first n options; *code is NVRTC's answer. */
static ein_status compile(const nvrtc_library *l, const char *source, const char *architecture, int n, int *code,
                          text *binary, text *log, nvrtc_result *out, error *e)
{
    nvrtcProgram p = NULL;
    char target[64];
    const char *all[1 + ALL_OPTIONS] = {target};
    snprintf(target, sizeof target, "--gpu-architecture=%.40s", architecture);
    memcpy(all + 1, options, sizeof options);
    *code = l->nvrtcCreateProgram(&p, source, "unit.cu", 0, NULL, NULL);
    if (*code == NVRTC_SUCCESS) *code = l->nvrtcCompileProgram(p, 1 + n, all);
    if (p != NULL) get_log(l, p, log);
    ein_status status = ein__text_status(log);
    if (status == EIN_OK && *code == NVRTC_SUCCESS) {
        read_resources(ein__text_get(log), out);
        status = get_binary(l, architecture, p, binary, out, e);
    } else if (status == EIN_OK) {
        status = explain(l, *code, architecture, log, source, e);
    }
    if (p != NULL) l->nvrtcDestroyProgram(&p);
    return status;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

ein_status ein__nvrtc_unit(const nvrtc_library *l, const char *source, const char *architecture, text *binary, text *log,
                           nvrtc_result *out, error *e)
{
    int code = NVRTC_SUCCESS;
    text own = {0};
    memset(out, 0, sizeof *out);
    const double start = now_ms();
    ein_status status = compile(l, source, architecture, ALL_OPTIONS, &code, binary, &own, out, e);
    if (status == EIN_COMPILE_FAILED && code == NVRTC_ERROR_INVALID_OPTION) {
        ein__text_free(&own);
        status = compile(l, source, architecture, FIXED_OPTIONS, &code, binary, &own, out, e);
    }
    out->compile_ms = now_ms() - start;
    if (log != NULL) ein__text_add(log, "%s", ein__text_get(&own));
    ein__text_free(&own);
    return status;
}

ein_status ein__nvrtc_compile(const char *source, const char *architecture, text *binary, nvrtc_result *out, error *e)
{
    nvrtc_library l;
    memset(out, 0, sizeof *out);
    TRY(ein__nvrtc_open(&l, 0, NULL, e));
    return ein__nvrtc_unit(&l, source, architecture, binary, NULL, out, e);
}

ein_status ein__nvrtc_architecture(const nvrtc_library *l, int device, architecture *out, error *e)
{
    int n = 0, known[MOST_ARCHITECTURES] = {0};
    list_architectures(l, known, &n);
    return ein__architecture_choose(known, n, device, out, e);
}

/* NVRTC's version numbers do not change with a patch: its file's do. */
static ein_status add_file(text *key, const char *path, error *e)
{
    struct stat s;
    if (stat(path, &s) != 0) return ein__fail(e, EIN_NO_DEVICE, "no NVRTC: %.160s is gone", path);
    ein__key_int(key, 2, s.st_size);
    ein__key_int(key, 2, s.st_mtim.tv_sec);
    ein__key_int(key, 2, s.st_mtim.tv_nsec);
    return EIN_OK;
}

ein_status ein__nvrtc_identity(const nvrtc_library *l, const char *path, text *key, error *e)
{
    ein__key_int(key, 1, l->major);
    ein__key_int(key, 1, l->minor);
    TRY(add_file(key, path, e));
    for (int i = 0; i < ALL_OPTIONS; i++) ein__key_bytes(key, 3, options[i], strlen(options[i]));
    return ein__text_status(key);
}

void ein__nvrtc_options(const char *architecture, text *out)
{
    ein__text_add(out, "--gpu-architecture=%s", architecture);
    for (int i = 0; i < ALL_OPTIONS; i++) ein__text_add(out, " %s", options[i]);
}
