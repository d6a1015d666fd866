/* SPDX-License-Identifier: Apache-2.0 */
/* Source to machine code with NVRTC. Options: numbers as on the host (no contraction, exact division and
 * root, subnormals kept); hermetic (no include of the working folder, the process's stack limit left alone);
 * resources into the log, from where they are read. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/alloc.h"
#include "jit/compiler/compiler.h"
#include "jit/compiler/report.h"
#include "jit/library/nvrtc.h"

enum { FIXED_OPTIONS = 6, ALL_OPTIONS = 9 };
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

static ein_status refuse(const nvrtc_library *l, const char *architecture, error *e)
{
    enum { MOST = 64 };
    char known[160] = "";
    int n = 0, list[MOST] = {0};
    if (l->nvrtcGetNumSupportedArchs(&n) != NVRTC_SUCCESS || n > MOST) n = 0;
    if (l->nvrtcGetSupportedArchs(list) != NVRTC_SUCCESS) n = 0;
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

static ein_status get_binary(const nvrtc_library *l, nvrtcProgram p, text *binary, nvrtc_result *out,
                             error *e)
{
    int code = l->nvrtcGetCUBINSize(p, &out->binary_bytes);
    if (code != NVRTC_SUCCESS || out->binary_bytes == 0)
        return ein__fail(e, EIN_COMPILE_FAILED, "NVRTC made no machine code: %.80s", l->nvrtcGetErrorString(code));
    if (binary == NULL) return EIN_OK;
    char *bytes = ein__calloc(out->binary_bytes, 1);
    if (bytes == NULL) return EIN_NO_MEMORY;
    code = l->nvrtcGetCUBIN(p, bytes);
    if (code == NVRTC_SUCCESS) ein__text_bytes(binary, bytes, out->binary_bytes);
    ein__free(bytes);
    if (code != NVRTC_SUCCESS)
        return ein__fail(e, EIN_COMPILE_FAILED, "NVRTC keeps its machine code: %.80s", l->nvrtcGetErrorString(code));
    return ein__text_status(binary);
}

/* One program with the first n options; *code is NVRTC's answer. */
static ein_status compile(const nvrtc_library *l, const char *source, const char *architecture, int n,
                          int *code, text *binary, nvrtc_result *out, error *e)
{
    nvrtcProgram p = NULL;
    text log = {0};
    char target[64];
    const char *all[1 + ALL_OPTIONS] = {target};
    snprintf(target, sizeof target, "--gpu-architecture=%.40s", architecture);
    memcpy(all + 1, options, sizeof options);
    *code = l->nvrtcCreateProgram(&p, source, "unit.cu", 0, NULL, NULL);
    if (*code == NVRTC_SUCCESS) *code = l->nvrtcCompileProgram(p, 1 + n, all);
    if (p != NULL) get_log(l, p, &log);
    ein_status status = ein__text_status(&log);
    if (status == EIN_OK && *code == NVRTC_SUCCESS) {
        read_resources(ein__text_get(&log), out);
        status = get_binary(l, p, binary, out, e);
    } else if (status == EIN_OK) {
        status = explain(l, *code, architecture, &log, source, e);
    }
    ein__text_free(&log);
    if (p != NULL) l->nvrtcDestroyProgram(&p);
    return status;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

ein_status ein__nvrtc_compile(const char *source, const char *architecture, text *binary, nvrtc_result *out,
                              error *e)
{
    nvrtc_library l;
    int code = NVRTC_SUCCESS;
    memset(out, 0, sizeof *out);
    TRY(ein__nvrtc_open(&l, 0, NULL, e));
    const double start = now_ms();
    ein_status status = compile(&l, source, architecture, ALL_OPTIONS, &code, binary, out, e);
    if (status == EIN_COMPILE_FAILED && code == NVRTC_ERROR_INVALID_OPTION)
        status = compile(&l, source, architecture, FIXED_OPTIONS, &code, binary, out, e);
    out->compile_ms = now_ms() - start;
    return status;
}
