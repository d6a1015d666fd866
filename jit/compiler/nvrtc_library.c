/* SPDX-License-Identifier: Apache-2.0 */
/* Where NVRTC may be: $EIN_NVRTC (a file; nothing else is tried then), already in the process, on the
 * loader's path, below CUDA_HOME, CUDA_PATH, /usr/local/cuda, any /usr/local/cuda-X. It looks for its
 * builtins library by bare name and has no path of its own, so that library is opened first by full path. */
#define _GNU_SOURCE /* dladdr */
#include "jit/compiler/nvrtc_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

static const char *const sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
enum { N_SONAMES = sizeof sonames / sizeof *sonames };

static void *open_named(int flags)
{
    void *handle = NULL;
    for (int i = 0; i < N_SONAMES && handle == NULL; i++)
        handle = dlopen(sonames[i], RTLD_NOW | RTLD_LOCAL | flags);
    return handle;
}

/* In lib64 and lib of the toolkit folders that match `pattern`. */
static void *open_below(const char *pattern)
{
    static const char *const folders[] = {"lib64", "lib"};
    void *handle = NULL;
    for (int i = 0; i < 2 * N_SONAMES && handle == NULL; i++) {
        text path = {0};
        glob_t found;
        ein__text_add(&path, "%s/%s/%s", pattern, folders[i % 2], sonames[i / 2]);
        if (!path.failed && glob(path.bytes, 0, NULL, &found) == 0) {
            for (size_t k = found.gl_pathc; k-- > 0 && handle == NULL;)
                handle = dlopen(found.gl_pathv[k], RTLD_NOW | RTLD_LOCAL);
            globfree(&found);
        }
        ein__text_free(&path);
    }
    return handle;
}

static ein_status find(void **out, error *e)
{
    const char *named = getenv("EIN_NVRTC"), *home = getenv("CUDA_HOME"), *path = getenv("CUDA_PATH");
    if (named != NULL && named[0] != 0) {
        *out = dlopen(named, RTLD_NOW | RTLD_LOCAL);
        if (*out != NULL) return EIN_OK;
        return ein__fail(e, EIN_NO_DEVICE, "no NVRTC: EIN_NVRTC is \"%.100s\": %.120s", named, dlerror());
    }
    *out = open_named(RTLD_NOLOAD);
    if (*out == NULL) *out = open_named(0);
    if (*out == NULL && home != NULL) *out = open_below(home);
    if (*out == NULL && path != NULL) *out = open_below(path);
    if (*out == NULL) *out = open_below("/usr/local/cuda");
    if (*out == NULL) *out = open_below("/usr/local/cuda-*");
    if (*out != NULL) return EIN_OK;
    return ein__fail(e, EIN_NO_DEVICE,
                     "no NVRTC: looked for libnvrtc.so.13 and .12 on the loader's path and below "
                     "CUDA_HOME, CUDA_PATH, /usr/local/cuda; EIN_NVRTC may name the file");
}

static void open_builtins(const nvrtc_library *l)
{
    Dl_info where;
    void *symbol;
    memcpy(&symbol, &l->version, sizeof symbol);
    if (dladdr(symbol, &where) == 0 || where.dli_fname == NULL) return;
    const char *slash = strrchr(where.dli_fname, '/');
    if (slash == NULL) return;
    text path = {0};
    ein__text_add(&path, "%.*s/libnvrtc-builtins.so.%d.%d", (int)(slash - where.dli_fname), where.dli_fname,
                  l->major, l->minor);
    if (!path.failed) dlopen(path.bytes, RTLD_NOW | RTLD_LOCAL);
    ein__text_free(&path);
}

ein_status ein__nvrtc_open(nvrtc_library *out, error *e)
{
    void *handle;
    nvrtc_library l = {0};
    struct { const char *name; void *slot; } symbols[] = {
        {"nvrtcVersion", &l.version}, {"nvrtcGetErrorString", &l.error_string},
        {"nvrtcCreateProgram", &l.create}, {"nvrtcDestroyProgram", &l.destroy},
        {"nvrtcCompileProgram", &l.compile}, {"nvrtcGetCUBINSize", &l.binary_size},
        {"nvrtcGetCUBIN", &l.binary}, {"nvrtcGetProgramLogSize", &l.log_size},
        {"nvrtcGetProgramLog", &l.log}, {"nvrtcGetNumSupportedArchs", &l.count_architectures},
        {"nvrtcGetSupportedArchs", &l.architectures}};
    TRY(find(&handle, e));
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(handle, symbols[i].name);
        if (symbol == NULL)
            return ein__fail(e, EIN_NO_DEVICE, "no NVRTC: the library found lacks %s", symbols[i].name);
        memcpy(symbols[i].slot, &symbol, sizeof symbol);
    }
    if (l.version(&l.major, &l.minor) != NVRTC_SUCCESS)
        return ein__fail(e, EIN_NO_DEVICE, "no NVRTC: the library found does not tell its version");
    open_builtins(&l);
    *out = l;
    return EIN_OK;
}
