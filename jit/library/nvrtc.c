/* SPDX-License-Identifier: Apache-2.0 */
/* NVRTC looks for its builtins library by bare name and has no path of its own, so that library is opened first, by
 * full path. */
#define _GNU_SOURCE
#include "jit/library/nvrtc.h"

#include <dlfcn.h>
#include <string.h>

static void open_builtins(const nvrtc_library *l, const char *file)
{
    const char *slash = strrchr(file, '/');
    text path = {0};
    if (slash == NULL) return;
    ein__text_add(&path, "%.*s/libnvrtc-builtins.so.%d.%d", (int)(slash - file), file, l->major, l->minor);
    if (!path.failed) dlopen(path.bytes, RTLD_NOW | RTLD_LOCAL);
    ein__text_free(&path);
}

ein_status ein__nvrtc_open(nvrtc_library *out, int newest, text *path, error *e)
{
    static const library_names names = {"NVRTC", "EIN_NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12"}, {13, 12},
                                        {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"}, false};
    nvrtc_library l = {0};
    text own = {0};
    const library_symbol symbols[] = {
#define CALL(result, name, parameters) {#name, &l.name, false},
#include "jit/library/nvrtc_calls.def"
#undef CALL
    };
    ein_status s = ein__library_open(&names, newest, symbols, sizeof symbols / sizeof *symbols, &own, e);
    if (s == EIN_OK && l.nvrtcVersion(&l.major, &l.minor) != NVRTC_SUCCESS)
        s = ein__fail(e, EIN_NO_DEVICE, "no NVRTC: the library found does not tell its version");
    if (s == EIN_OK) open_builtins(&l, ein__text_get(&own));
    if (s == EIN_OK && path != NULL) {
        ein__text_add(path, "%s", own.bytes);
        s = ein__text_status(path);
    }
    ein__text_free(&own);
    if (s == EIN_OK) *out = l;
    return s;
}
