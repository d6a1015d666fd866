/* SPDX-License-Identifier: Apache-2.0 */
/* What jit/library declares by hand is what a toolkit's headers declare: every constant, every prototype, the size of
 * every structure and the place of its members. Skipped where there is no toolkit. */
#define _XOPEN_SOURCE 700
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "jit/compiler/process.h"
#include "jit/compiler/scratch.h"
#include "jit/library/cublaslt.h"
#include "jit/library/nvrtc.h"

static bool find_include(text *out)
{
    const char *roots[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda", "/usr/local/cuda-*"};
    for (int i = 0; i < 4; i++) {
        text pattern = {0};
        glob_t found;
        if (roots[i] == NULL) continue;
        ein__text_add(&pattern, "%s/include/cublasLt.h", roots[i]);
        if (glob(pattern.bytes, 0, NULL, &found) == 0) {
            const char *last = found.gl_pathv[found.gl_pathc - 1];
            ein__text_add(out, "%.*s", (int)(strrchr(last, '/') - last), last);
            globfree(&found);
        }
        ein__text_free(&pattern);
        if (out->n > 0) return true;
    }
    return false;
}

/* Sizes and places as this library's headers have them, to be asserted of the toolkit's. */
static void add_layouts(text *c)
{
#define SIZE(type) ein__text_add(c, "_Static_assert(sizeof(" #type ") == %zu, \"" #type "\");\n", sizeof(type));
#define AT(type, member)                                                                                 \
    ein__text_add(c, "_Static_assert(offsetof(" #type ", " #member ") == %zu, \"" #type "." #member "\");\n", \
                  offsetof(type, member));
    SIZE(CUdeviceptr) SIZE(CUmemGenericAllocationHandle) SIZE(CUdevice) SIZE(CUresult) SIZE(CUuuid)
    SIZE(CUmemLocation) AT(CUmemLocation, type) AT(CUmemLocation, id)
    SIZE(CUmemAccessDesc) AT(CUmemAccessDesc, location) AT(CUmemAccessDesc, flags)
    SIZE(CUmemAllocationProp) AT(CUmemAllocationProp, type) AT(CUmemAllocationProp, requestedHandleTypes)
    AT(CUmemAllocationProp, location) AT(CUmemAllocationProp, win32HandleMetaData) AT(CUmemAllocationProp, allocFlags.usage)
    SIZE(CUDA_MEMCPY2D) AT(CUDA_MEMCPY2D, srcY) AT(CUDA_MEMCPY2D, srcMemoryType) AT(CUDA_MEMCPY2D, srcHost)
    AT(CUDA_MEMCPY2D, srcDevice) AT(CUDA_MEMCPY2D, srcPitch) AT(CUDA_MEMCPY2D, dstXInBytes)
    AT(CUDA_MEMCPY2D, dstMemoryType) AT(CUDA_MEMCPY2D, dstHost) AT(CUDA_MEMCPY2D, dstDevice) AT(CUDA_MEMCPY2D, dstPitch)
    AT(CUDA_MEMCPY2D, WidthInBytes) AT(CUDA_MEMCPY2D, Height)
    SIZE(CUDA_MEMCPY3D) AT(CUDA_MEMCPY3D, srcLOD) AT(CUDA_MEMCPY3D, srcMemoryType) AT(CUDA_MEMCPY3D, srcHost)
    AT(CUDA_MEMCPY3D, srcDevice) AT(CUDA_MEMCPY3D, srcPitch) AT(CUDA_MEMCPY3D, srcHeight) AT(CUDA_MEMCPY3D, dstXInBytes)
    AT(CUDA_MEMCPY3D, dstMemoryType) AT(CUDA_MEMCPY3D, dstHost) AT(CUDA_MEMCPY3D, dstDevice) AT(CUDA_MEMCPY3D, dstPitch)
    AT(CUDA_MEMCPY3D, WidthInBytes) AT(CUDA_MEMCPY3D, Height) AT(CUDA_MEMCPY3D, Depth)
    SIZE(CUDA_MEMSET_NODE_PARAMS) AT(CUDA_MEMSET_NODE_PARAMS, pitch) AT(CUDA_MEMSET_NODE_PARAMS, value)
    AT(CUDA_MEMSET_NODE_PARAMS, elementSize) AT(CUDA_MEMSET_NODE_PARAMS, width) AT(CUDA_MEMSET_NODE_PARAMS, height)
    SIZE(CUDA_KERNEL_NODE_PARAMS) AT(CUDA_KERNEL_NODE_PARAMS, gridDimX) AT(CUDA_KERNEL_NODE_PARAMS, blockDimX)
    AT(CUDA_KERNEL_NODE_PARAMS, sharedMemBytes) AT(CUDA_KERNEL_NODE_PARAMS, kernelParams)
    AT(CUDA_KERNEL_NODE_PARAMS, extra) AT(CUDA_KERNEL_NODE_PARAMS, kern) AT(CUDA_KERNEL_NODE_PARAMS, ctx)
    SIZE(CUgraphExecUpdateResultInfo) AT(CUgraphExecUpdateResultInfo, result) AT(CUgraphExecUpdateResultInfo, errorNode)
    SIZE(cublasLtMatmulAlgo_t) SIZE(cublasLtMatmulHeuristicResult_t) AT(cublasLtMatmulHeuristicResult_t, workspaceSize)
    AT(cublasLtMatmulHeuristicResult_t, state) AT(cublasLtMatmulHeuristicResult_t, wavesCount)
}

static const char HEAD[] =
    "#define __CUDA_API_VERSION_INTERNAL /* old versions of calls too */\n"
    "#include <stddef.h>\n#include <cuda.h>\n#include <nvrtc.h>\n#include <cublasLt.h>\n"
    "#define VALUE(name, value) _Static_assert((long long)(name) == (value), #name);\n"
    "#include \"jit/library/cuda_values.def\"\n#include \"jit/library/nvrtc_values.def\"\n"
    "#include \"jit/library/cublaslt_values.def\"\n"
    "#define CALL(result, name, parameters) \\\n"
    "    _Static_assert(__builtin_types_compatible_p(__typeof__(name), result parameters), #name);\n"
    "#define OPTIONAL CALL\n"
    "#include \"jit/library/cuda_calls.def\"\n#include \"jit/library/nvrtc_calls.def\"\n"
    "#include \"jit/library/cublaslt_calls.def\"\n";

static bool compiles(const text *folder, const text *include, const text *c)
{
    text path = {0}, log = {0}, said = {0}, cc = {0};
    char root[4096];
    int code = -1;
    ein__text_add(&path, "%s/unit.c", folder->bytes);
    ein__text_add(&log, "%s/log", folder->bytes);
    if (getcwd(root, sizeof root) != NULL && ein__process_find("cc", &cc) &&
        ein__file_publish(path.bytes, c->bytes, c->n, 0600, NULL) == EIN_OK) {
        const char *argv[] = {cc.bytes, "-std=gnu11", "-fsyntax-only", "-I", root, "-isystem", include->bytes, path.bytes, NULL};
        ein__process_run(argv, folder->bytes, log.bytes, &code, NULL);
        ein__file_read(log.bytes, 1 << 20, false, &said, NULL);
    }
    if (code != 0) printf("%s\n", ein__text_get(&said));
    text *all[] = {&path, &log, &said, &cc};
    for (int i = 0; i < 4; i++) ein__text_free(all[i]);
    return code == 0;
}

int main(void)
{
    text include = {0}, folder = {0}, c = {0};
    if (!find_include(&include)) {
        printf("skipped: no cublasLt.h below CUDA_HOME, CUDA_PATH, /usr/local/cuda\n");
        return 77;
    }
    printf("headers in %s\n", include.bytes);
    ein__text_add(&c, "%s", HEAD);
    add_layouts(&c);
    bool ok = ein__scratch_make_any(&folder, NULL) == EIN_OK && compiles(&folder, &include, &c);
    /* The comparison can fail. */
    if (ok) {
        ein__text_add(&c, "VALUE(CUDA_ERROR_UNKNOWN, 998)\n");
        ok = !compiles(&folder, &include, &c);
    }
    ein__scratch_remove(&folder);
    ein__text_free(&include);
    ein__text_free(&folder);
    ein__text_free(&c);
    return ok ? 0 : 1;
}
