/* SPDX-License-Identifier: Apache-2.0 */
#include "jit/library/cublaslt.h"

ein_status ein__cublaslt_open(cublaslt_library *out, int newest, text *path, error *e)
{
    static const library_names names = {"cuBLASLt", "EIN_CUBLASLT", {"libcublasLt.so.13", "libcublasLt.so.12"}, {13, 12},
                                        {"nvidia/cu13/lib", "nvidia/cublas/lib"}, false};
    cublaslt_library l = {0};
    const library_symbol symbols[] = {
#define CALL(result, name, parameters) {#name, &l.name, false},
#include "jit/library/cublaslt_calls.def"
#undef CALL
    };
    TRY(ein__library_open(&names, newest, symbols, sizeof symbols / sizeof *symbols, path, e));
    l.version = l.cublasLtGetVersion();
    *out = l;
    return EIN_OK;
}
