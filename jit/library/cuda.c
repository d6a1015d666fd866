/* SPDX-License-Identifier: Apache-2.0 */
#include "jit/library/cuda.h"

#include <stdio.h>

enum { OLDEST = 12000 };

cuda_name ein__cuda_name(const cuda_library *l, CUresult code)
{
    cuda_name out;
    const char *name = NULL;
    if (l->cuGetErrorName(code, &name) != CUDA_SUCCESS || name == NULL) snprintf(out.s, sizeof out.s, "error %d", code);
    else snprintf(out.s, sizeof out.s, "%s", name);
    return out;
}

/* What a driver that cannot be used says for itself. */
static ein_status refuse(const cuda_library *l, const char *call, CUresult code, error *e)
{
    if (code == CUDA_ERROR_STUB_LIBRARY)
        return ein__fail(e, EIN_NO_DEVICE, "no CUDA driver: the libcuda.so.1 found is a toolkit's stub, for linking only; "
                                           "a stubs folder is on the loader's path");
    if (code == CUDA_ERROR_NO_DEVICE) return ein__fail(e, EIN_NO_DEVICE, "the CUDA driver sees no GPU");
    if (code == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)
        return ein__fail(e, EIN_NO_DEVICE, "no CUDA driver: its library and its kernel module are of different versions");
    return ein__fail(e, EIN_NO_DEVICE, "no CUDA driver: %s says %s", call, ein__cuda_name(l, code).s);
}

ein_status ein__cuda_open(cuda_library *out, text *path, error *e)
{
    static const library_names names = {"CUDA driver", "EIN_CUDA", {"libcuda.so.1"}, {0}, {NULL}, true};
    cuda_library l = {0};
    const library_symbol symbols[] = {
#define CALL(result, name, parameters) {#name, &l.name, false},
#define OPTIONAL(result, name, parameters) {#name, &l.name, true},
#include "jit/library/cuda_calls.def"
#undef OPTIONAL
#undef CALL
    };
    TRY(ein__library_open(&names, 0, symbols, sizeof symbols / sizeof *symbols, path, e));
    CUresult code = l.cuInit(0);
    if (code != CUDA_SUCCESS) return refuse(&l, "cuInit", code, e);
    code = l.cuDriverGetVersion(&l.version);
    if (code != CUDA_SUCCESS) return refuse(&l, "cuDriverGetVersion", code, e);
    if (l.version < OLDEST)
        return ein__fail(e, EIN_NO_DEVICE, "the CUDA driver supports CUDA %d.%d; 12.0 is needed", l.version / 1000,
                         l.version % 1000 / 10);
    *out = l;
    return EIN_OK;
}
