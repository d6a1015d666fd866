/* SPDX-License-Identifier: Apache-2.0 */
/* NVRTC: takes the text behind the prelude's mark and has the host's compiler judge it. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernel/dialect.h"
#include "tests/fake/fake.h"

struct _nvrtcProgram {
    object o;
    char *source;
    text log, cubin, ptx;
};

nvrtcResult nvrtcVersion(int *major, int *minor)
{
    ENTER(NEEDS_NOTHING);
    *major = fake.settings.nvrtc_major;
    *minor = fake.settings.nvrtc_minor;
    return NVRTC_SUCCESS;
}

const char *nvrtcGetErrorString(nvrtcResult result)
{
    static const char *const names[] = {"NVRTC_SUCCESS",
                                        "NVRTC_ERROR_OUT_OF_MEMORY",
                                        "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
                                        "NVRTC_ERROR_INVALID_INPUT",
                                        "NVRTC_ERROR_INVALID_PROGRAM",
                                        "NVRTC_ERROR_INVALID_OPTION",
                                        "NVRTC_ERROR_COMPILATION",
                                        "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE"};
    return result >= 0 && result < 8 ? names[result] : "NVRTC_ERROR unknown";
}

static void empty(void *self)
{
    nvrtcProgram p = self;
    free(p->source);
    p->source = NULL;
    ein__text_free(&p->log);
    ein__text_free(&p->cubin);
    ein__text_free(&p->ptx);
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *out, const char *source, const char *name, int n_headers,
                               const char *const *headers, const char *const *names)
{
    (void)name, (void)headers, (void)names;
    ENTER(NEEDS_NOTHING);
    if (source == NULL || out == NULL || n_headers != 0) return NVRTC_ERROR_INVALID_INPUT;
    nvrtcProgram p = fake_object(PROGRAM, sizeof *p);
    p->o.empty = empty;
    if ((p->source = strdup(source)) == NULL) abort();
    *out = p;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
    ENTER(NEEDS_NOTHING | HAS_EFFECT);
    if (program == NULL || !fake_valid(*program, PROGRAM)) return NVRTC_ERROR_INVALID_PROGRAM;
    empty(*program);
    (*program)->o.live = false;
    *program = NULL;
    LEAVE(NVRTC_SUCCESS);
}

/* "sm_90" or "compute_90": is it known? The number, with its suffix, in *number. */
static bool architecture(const char *name, const char **number, bool *virtual)
{
    char *end;
    *virtual = strncmp(name, "compute_", 8) == 0;
    if (!*virtual && strncmp(name, "sm_", 3) != 0) return false;
    *number = strchr(name, '_') + 1;
    const long x = strtol(*number, &end, 10);
    if (end == *number || (*end != 0 && (strchr("af", *end) == NULL || end[1] != 0))) return false;
    for (int i = 0; i < fake.settings.n_known; i++)
        if (fake.settings.known[i] == x) return true;
    return false;
}

static bool read_options(int n, const char *const *options, const char **number, bool *virtual)
{
    static const char *const flags[] = {"--std=c++",
                                        "--fmad=",
                                        "--ftz=",
                                        "--prec-div=",
                                        "--prec-sqrt=",
                                        "--ptxas-options=",
                                        "--minimal",
                                        "--no-source-include",
                                        "--modify-stack-limit=",
                                        "--no-cache",
                                        "--device-int128",
                                        "-default-device",
                                        "--use_fast_math",
                                        "-lineinfo",
                                        "--split-compile=",
                                        "--extra-device-vectorization",
                                        "-w"};
    *number = "75";
    *virtual = true;
    for (int i = 0; i < n; i++) {
        const char *o = options[i];
        bool known = false;
        for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
            known = known || strncmp(o, flags[k], strlen(flags[k])) == 0;
        if (strncmp(o, "-arch=", 6) == 0 || strncmp(o, "--gpu-architecture=", 19) == 0)
            known = architecture(strchr(o, '=') + 1, number, virtual);
        if (!known) return false;
    }
    return true;
}

/* As ptxas -v says it; the numbers are the same for all kernels. */
static void add_resources(text *log, const char *bodies, const char *number)
{
    for (const char *p = strstr(bodies, "#define NAME "); p != NULL; p = strstr(p + 1, "#define NAME ")) {
        const char *name = p + strlen("#define NAME ");
        ein__text_add(log, "ptxas info    : Compiling entry function '%.*s' for 'sm_%s'\n", (int)strcspn(name, "\n"),
                      name, number);
        ein__text_add(log, "ptxas info    : Function properties for %.*s\n", (int)strcspn(name, "\n"), name);
        ein__text_add(log, "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n");
        ein__text_add(log, "ptxas info    : Used 32 registers, used 1 barriers\n");
    }
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int n, const char *const *options)
{
    const char *number;
    bool virtual;
    {
        ENTER(NEEDS_NOTHING);
        if (!fake_valid(p, PROGRAM)) return NVRTC_ERROR_INVALID_PROGRAM;
        if (!read_options(n, options, &number, &virtual)) return NVRTC_ERROR_INVALID_OPTION;
    }
    /* Without the lock: several threads compile at once. */
    const int nvrtc = fake.settings.nvrtc_major * 1000 + fake.settings.nvrtc_minor * 10;
    const char *mark = strstr(p->source, EIN__KERNEL_MARK);
    fake_module *module;
    if (mark == NULL) {
        ein__text_add(&p->log, "unit(1): error: the mark between prelude and kernels is missing\n");
        return NVRTC_ERROR_COMPILATION;
    }
    mark += strlen(EIN__KERNEL_MARK);
    if (fake_module_load(mark, &module, &p->log) != EIN_OK) return NVRTC_ERROR_COMPILATION;
    add_resources(&p->log, mark, number);
    if (!virtual) fake_image_write(&p->cubin, mark, number, nvrtc, false);
    fake_image_write(&p->ptx, mark, number, nvrtc, true);
    return NVRTC_SUCCESS;
}

static nvrtcResult get_size(nvrtcProgram p, const text *t, size_t *bytes)
{
    if (!fake_valid(p, PROGRAM)) return NVRTC_ERROR_INVALID_PROGRAM;
    *bytes = t->n;
    return NVRTC_SUCCESS;
}

static nvrtcResult get(nvrtcProgram p, const text *t, char *out)
{
    if (!fake_valid(p, PROGRAM)) return NVRTC_ERROR_INVALID_PROGRAM;
    if (t->n > 0) memcpy(out, t->bytes, t->n);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram p, size_t *bytes)
{
    ENTER(NEEDS_NOTHING);
    return get_size(p, &p->cubin, bytes);
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram p, char *out)
{
    ENTER(NEEDS_NOTHING);
    return get(p, &p->cubin, out);
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram p, size_t *bytes)
{
    ENTER(NEEDS_NOTHING);
    return get_size(p, &p->ptx, bytes);
}

nvrtcResult nvrtcGetPTX(nvrtcProgram p, char *out)
{
    ENTER(NEEDS_NOTHING);
    return get(p, &p->ptx, out);
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, size_t *bytes)
{
    ENTER(NEEDS_NOTHING);
    nvrtcResult r = get_size(p, &p->log, bytes);
    if (r == NVRTC_SUCCESS) (*bytes)++; /* the NUL */
    return r;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char *out)
{
    ENTER(NEEDS_NOTHING);
    nvrtcResult r = get(p, &p->log, out);
    if (r == NVRTC_SUCCESS) out[p->log.n] = 0;
    return r;
}

nvrtcResult nvrtcGetNumSupportedArchs(int *n)
{
    ENTER(NEEDS_NOTHING);
    *n = fake.settings.n_known;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int *out)
{
    ENTER(NEEDS_NOTHING);
    memcpy(out, fake.settings.known, (size_t)fake.settings.n_known * sizeof *out);
    return NVRTC_SUCCESS;
}
