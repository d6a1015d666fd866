/* SPDX-License-Identifier: Apache-2.0 */
/* The fake's compiler, loader, launches and matrix products: what they take and what they refuse. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fake/rig.h"

/* ---- NVRTC ---- */

static nvrtcResult compile(rig *r, const char *body, const char *option, char **out, bool ptx, char *log,
                           size_t log_bytes)
{
    kernel_text k;
    const kernel_text *list[] = {&k};
    text source = {0};
    nvrtcProgram p;
    size_t n;
    OK(ein__kernel_make(&r->a, body, RIG_THREADS, &k));
    OK(ein__kernel_source(READ_CUDA, false, list, 1, &source));
    OK(r->nv.nvrtcCreateProgram(&p, source.bytes, "unit.cu", 0, NULL, NULL));
    ein__text_free(&source);
    nvrtcResult result = r->nv.nvrtcCompileProgram(p, 2, (const char *[]){option, "--ptxas-options=-v"});
    OK(r->nv.nvrtcGetProgramLogSize(p, &n));
    char *all = calloc(n + 1, 1);
    assert_non_null(all);
    OK(r->nv.nvrtcGetProgramLog(p, all));
    assert_int_equal(strlen(all) + 1, n);
    snprintf(log, log_bytes, "%s", all);
    free(all);
    if (out != NULL && result == NVRTC_SUCCESS) {
        OK((ptx ? r->nv.nvrtcGetPTXSize : r->nv.nvrtcGetCUBINSize)(p, &n));
        *out = n > 0 ? calloc(n, 1) : NULL;
        if (n > 0) OK((ptx ? r->nv.nvrtcGetPTX : r->nv.nvrtcGetCUBIN)(p, *out));
    }
    OK(r->nv.nvrtcDestroyProgram(&p));
    return result;
}

static void test_nvrtc__compiles_and_refuses(void **state)
{
    rig r;
    char log[4000], *first, *again, *none;
    int n, known[32];
    (void)state;
    rig_open(&r, "devices=1 known=80,90");
    OK(r.nv.nvrtcGetNumSupportedArchs(&n));
    OK(r.nv.nvrtcGetSupportedArchs(known));
    assert_true(n == 2 && known[0] == 80 && known[1] == 90);
    OK(compile(&r, rig_bodies[ADD], "-arch=sm_80", &first, false, log, sizeof log));
    assert_non_null(strstr(log, "Used 32 registers"));
    assert_non_null(strstr(log, "0 bytes spill stores"));
    OK(compile(&r, rig_bodies[ADD], "--gpu-architecture=sm_80", &again, false, log, sizeof log));
    assert_string_equal(first, again);
    OK(compile(&r, rig_bodies[ADD], "-arch=compute_80", &none, false, log, sizeof log));
    assert_null(none); /* of a virtual architecture there is no machine code */
    assert_int_equal(compile(&r, rig_bodies[ADD], "-arch=sm_70", NULL, false, log, sizeof log),
                     NVRTC_ERROR_INVALID_OPTION);
    assert_int_equal(compile(&r, rig_bodies[ADD], "--fast", NULL, false, log, sizeof log), NVRTC_ERROR_INVALID_OPTION);
    const char *wrong =
        "#define PARAMS(IN, OUT, VAL, SEP) OUT(float, y)\nKERNEL(PARAMS)\n{\n    STEP { ST(y, tid, nothing(1)); }\n}\n";
    assert_int_equal(compile(&r, wrong, "-arch=sm_80", NULL, false, log, sizeof log), NVRTC_ERROR_COMPILATION);
    assert_non_null(strstr(log, "nothing"));
    free(first);
    free(again);
    rig_close(&r);
}

/* ---- loading ---- */

static CUresult load(rig *r, const char *image)
{
    CUlibrary l;
    CUresult code = r->cu.cuLibraryLoadData(&l, image, NULL, NULL, 0, NULL, NULL, 0);
    if (code == CUDA_SUCCESS) OK(r->cu.cuLibraryUnload(l));
    return code;
}

static CUresult load_module(rig *r, const char *image)
{
    CUmodule m;
    OK(r->cu.cuCtxSetCurrent(r->context[0]));
    CUresult code = r->cu.cuModuleLoadDataEx(&m, image, 0, NULL, NULL);
    if (code == CUDA_SUCCESS) OK(r->cu.cuModuleUnload(m));
    return code;
}

static void test_load__takes_what_runs_there(void **state)
{
    static const struct {
        const char *option;
        int ptx, device;
        CUresult code;
    } cases[] = {{"-arch=sm_80", 0, 86, 0},
                 {"-arch=sm_86", 0, 80, CUDA_ERROR_NO_BINARY_FOR_GPU},
                 {"-arch=sm_90", 0, 100, CUDA_ERROR_NO_BINARY_FOR_GPU},
                 {"-arch=sm_90a", 0, 90, 0},
                 {"-arch=sm_100a", 0, 103, CUDA_ERROR_NO_BINARY_FOR_GPU},
                 {"-arch=compute_90", 1, 100, 0},
                 {"-arch=compute_90", 1, 80, CUDA_ERROR_NO_BINARY_FOR_GPU}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig r;
        char log[4000], settings[64], *image;
        rig_open(&r, "devices=1");
        OK(compile(&r, rig_bodies[ADD], cases[i].option, &image, cases[i].ptx, log, sizeof log));
        rig_close(&r);
        snprintf(settings, sizeof settings, "devices=1 arch=%d", cases[i].device);
        fake_configure(settings);
        OK(r.cu.cuInit(0));
        OK(r.cu.cuDevicePrimaryCtxRetain(&r.context[0], 0));
        assert_int_equal(load(&r, image), cases[i].code);
        assert_int_equal(load_module(&r, image), cases[i].code);
        assert_string_equal(fake_reports(), "");
        free(image);
    }
}

static void test_load__refuses_what_is_damaged_or_too_new(void **state)
{
    rig r;
    char log[4000], *image;
    (void)state;
    rig_open(&r, "devices=1");
    OK(compile(&r, rig_bodies[ADD], "-arch=compute_90", &image, true, log, sizeof log));
    text newer = r.image;
    r.image = (text){0};
    rig_close(&r);
    rig_open(&r, "devices=1 driver=12080 nvrtc=12.8");
    assert_int_equal(load(&r, newer.bytes), CUDA_ERROR_INVALID_IMAGE); /* of another major version */
    ein__text_free(&newer);
    assert_int_equal(strncmp(image, ".version 9.0\n", 13), 0);
    assert_int_equal(load(&r, image), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    image[strlen(image) - 3] ^= 1;
    assert_int_equal(load(&r, image), CUDA_ERROR_INVALID_IMAGE);
    assert_int_equal(load(&r, "nothing"), CUDA_ERROR_INVALID_IMAGE);
    free(image);
    CUkernel k;
    assert_int_equal(r.cu.cuLibraryGetKernel(&k, r.library, "k_0"), CUDA_ERROR_NOT_FOUND);
    rig_close(&r);
}

/* ---- launches ---- */

static void test_launch__has_limits(void **state)
{
    rig r;
    long long at = 0;
    float v = 1;
    int blocks;
    (void)state;
    rig_open(&r, "devices=2");
    CUdeviceptr p = rig_alloc(&r, 0, 4);
    CUfunction f = rig_function(&r, 0, PUT);
    const struct {
        unsigned grid[3], threads, shared;
        CUresult code;
    } cases[] = {{{1, 1, 1}, 64, 0, 0},
                 {{0, 1, 1}, 64, 0, CUDA_ERROR_INVALID_VALUE},
                 {{1, 65536, 1}, 64, 0, CUDA_ERROR_INVALID_VALUE},
                 {{1, 1, 65536}, 64, 0, CUDA_ERROR_INVALID_VALUE},
                 {{1, 1, 1}, 0, 0, CUDA_ERROR_INVALID_VALUE},
                 {{1, 1, 1}, 2048, 0, CUDA_ERROR_INVALID_VALUE},
                 {{1, 1, 1}, 128, 0, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES},
                 {{1, 1, 1}, 64, (48 << 10) + 1, CUDA_ERROR_INVALID_VALUE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(r.cu.cuLaunchKernel(f, cases[i].grid[0], cases[i].grid[1], cases[i].grid[2], cases[i].threads,
                                             1, 1, cases[i].shared, r.stream[0], (void *[]){&p, &at, &v}, NULL),
                         cases[i].code);
    OK(r.cu.cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 << 10));
    OK(r.cu.cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 64 << 10, r.stream[0], (void *[]){&p, &at, &v}, NULL));
    assert_int_equal(r.cu.cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 228 << 10),
                     CUDA_ERROR_INVALID_VALUE);
    OK(r.cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 64, 0));
    assert_int_equal(blocks, 32);
    /* Half as many threads as the text is for. */
    OK(r.cu.cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, r.stream[0], (void *[]){&p, &at, &v}, NULL));
    rig_reported("is a kernel of 64 threads, launched with 32");
    /* Another device's stream. */
    assert_int_equal(r.cu.cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, r.stream[1], (void *[]){&p, &at, &v}, NULL),
                     CUDA_ERROR_INVALID_HANDLE);
    /* Arguments are those of the launch. */
    at = 2;
    v = 7;
    OK(r.cu.cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, r.stream[0], (void *[]){&p, &at, &v}, NULL));
    at = 1 << 20;
    v = 8;
    assert_true(rig_get(&r, 0, p, 2) == 7.0f);
    rig_free(&r, 0, p);
    rig_close(&r);
}

/* ---- products ---- */

enum { M = 5, COLUMNS = 4, K = 7, BATCH = 2 };

typedef struct matmul {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found[8];
    int n;
} matmul;

static cublasLtMatrixLayout_t layout(rig *r, int type, int rows, int columns)
{
    cublasLtMatrixLayout_t l;
    const int64_t stride = (int64_t)rows * columns;
    const int32_t batch = BATCH;
    OK(r->lt.cublasLtMatrixLayoutCreate(&l, type, (uint64_t)rows, (uint64_t)columns, rows));
    OK(r->lt.cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch));
    OK(r->lt.cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
    return l;
}

static void open_matmul(rig *r, matmul *m, int type, bool ta, bool tb)
{
    const int a = ta ? CUBLAS_OP_T : CUBLAS_OP_N, b = tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    const bool f64 = type == CUDA_R_64F;
    const size_t workspace = 0;
    OK(r->cu.cuCtxSetCurrent(r->context[0]));
    OK(r->lt.cublasLtCreate(&m->handle));
    OK(r->lt.cublasLtMatmulDescCreate(&m->what, f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                      f64 ? CUDA_R_64F : CUDA_R_32F));
    OK(r->lt.cublasLtMatmulDescSetAttribute(m->what, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a));
    OK(r->lt.cublasLtMatmulDescSetAttribute(m->what, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b));
    m->a = ta ? layout(r, type, K, M) : layout(r, type, M, K);
    m->b = tb ? layout(r, type, COLUMNS, K) : layout(r, type, K, COLUMNS);
    m->c = layout(r, type, M, COLUMNS);
    OK(r->lt.cublasLtMatmulPreferenceCreate(&m->preference));
    OK(r->lt.cublasLtMatmulPreferenceSetAttribute(m->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                                  sizeof workspace));
    OK(r->lt.cublasLtMatmulAlgoGetHeuristic(m->handle, m->what, m->a, m->b, m->c, m->c, m->preference, 8, m->found,
                                            &m->n));
    assert_int_equal(m->n, 3); /* the fourth wants a workspace */
}

static void close_matmul(rig *r, matmul *m)
{
    OK(r->lt.cublasLtMatmulPreferenceDestroy(m->preference));
    OK(r->lt.cublasLtMatrixLayoutDestroy(m->a));
    OK(r->lt.cublasLtMatrixLayoutDestroy(m->b));
    OK(r->lt.cublasLtMatrixLayoutDestroy(m->c));
    OK(r->lt.cublasLtMatmulDescDestroy(m->what));
    OK(r->lt.cublasLtDestroy(m->handle));
}

/* Small integers, so that all sums are exact in every type. */
static double number(int which, int i) { return (i * 7 + which * 3) % 5 - 2; }

static void put_numbers(rig *r, CUdeviceptr p, ein_dtype type, int which, int n)
{
    double x[BATCH * M * K * COLUMNS];
    char bytes[sizeof x];
    for (int i = 0; i < n; i++) x[i] = number(which, i);
    ein__dtype_convert(type, bytes, EIN_F64, x, n);
    OK(r->cu.cuMemcpyHtoDAsync_v2(p, bytes, (size_t)(n * ein__dtype_bytes(type)), r->stream[0]));
}

static double wanted(bool ta, bool tb, double beta, int e, int i, int j)
{
    double sum = 0;
    for (int k = 0; k < K; k++)
        sum += number(0, e * M * K + (ta ? k + i * K : i + k * M)) *
               number(1, e * K * COLUMNS + (tb ? j + k * COLUMNS : k + j * K));
    return sum + beta * number(2, e * M * COLUMNS + i + j * M);
}

static void test_product__is_right(void **state)
{
    static const struct {
        int type;
        ein_dtype dtype;
    } types[] = {{CUDA_R_32F, EIN_F32}, {CUDA_R_64F, EIN_F64}, {CUDA_R_16BF, EIN_BF16}, {CUDA_R_16F, EIN_F16}};
    (void)state;
    for (int trial = 0; trial < 32; trial++) {
        rig r;
        matmul m;
        const bool ta = trial & 1, tb = trial & 2;
        const float beta = trial & 4 ? 1.0f : 0.0f, one = 1.0f;
        const double beta_d = beta, one_d = 1.0;
        const int type = types[trial / 8].type;
        const ein_dtype dtype = types[trial / 8].dtype;
        const bool f64 = type == CUDA_R_64F;
        rig_open(&r, "devices=1 check=1");
        open_matmul(&r, &m, type, ta, tb);
        CUdeviceptr a = rig_alloc(&r, 0, 2 * BATCH * M * K), b = rig_alloc(&r, 0, 2 * BATCH * K * COLUMNS),
                    c = rig_alloc(&r, 0, 2 * BATCH * M * COLUMNS);
        put_numbers(&r, a, dtype, 0, BATCH * M * K);
        put_numbers(&r, b, dtype, 1, BATCH * K * COLUMNS);
        put_numbers(&r, c, dtype, 2, BATCH * M * COLUMNS);
        OK(r.lt.cublasLtMatmul(m.handle, m.what, f64 ? (const void *)&one_d : &one, (void *)(uintptr_t)a, m.a,
                               (void *)(uintptr_t)b, m.b, f64 ? (const void *)&beta_d : &beta, (void *)(uintptr_t)c,
                               m.c, (void *)(uintptr_t)c, m.c, &m.found[0].algo, NULL, 0, r.stream[0]));
        char bytes[8 * BATCH * M * COLUMNS];
        double x[BATCH * M * COLUMNS];
        OK(r.cu.cuMemcpyDtoHAsync_v2(bytes, c, (size_t)(BATCH * M * COLUMNS * ein__dtype_bytes(dtype)), r.stream[0]));
        ein__dtype_convert(EIN_F64, x, dtype, bytes, BATCH * M * COLUMNS);
        for (int e = 0; e < BATCH; e++)
            for (int i = 0; i < M; i++)
                for (int j = 0; j < COLUMNS; j++)
                    assert_true(x[e * M * COLUMNS + i + j * M] == wanted(ta, tb, beta, e, i, j));
        close_matmul(&r, &m);
        rig_free(&r, 0, a);
        rig_free(&r, 0, b);
        rig_free(&r, 0, c);
        rig_close(&r);
    }
}

static void test_product__epilogues(void **state)
{
    (void)state;
    for (int trial = 0; trial < 3; trial++) {
        static const int epilogues[] = {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU | CUBLASLT_EPILOGUE_BIAS,
                                        CUBLASLT_EPILOGUE_GELU};
        rig r;
        matmul m;
        float x[BATCH * M * COLUMNS];
        const float zero = 0.0f, one = 1.0f;
        rig_open(&r, "devices=1");
        open_matmul(&r, &m, CUDA_R_32F, false, false);
        CUdeviceptr a = rig_alloc(&r, 0, BATCH * M * K), b = rig_alloc(&r, 0, BATCH * K * COLUMNS),
                    c = rig_alloc(&r, 0, BATCH * M * COLUMNS), bias = rig_alloc(&r, 0, M);
        put_numbers(&r, a, EIN_F32, 0, BATCH * M * K);
        put_numbers(&r, b, EIN_F32, 1, BATCH * K * COLUMNS);
        put_numbers(&r, bias, EIN_F32, 3, M);
        const void *where = (void *)(uintptr_t)bias;
        OK(r.lt.cublasLtMatmulDescSetAttribute(m.what, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogues[trial],
                                               sizeof epilogues[trial]));
        OK(r.lt.cublasLtMatmulDescSetAttribute(m.what, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &where, sizeof where));
        OK(r.lt.cublasLtMatmul(m.handle, m.what, &one, (void *)(uintptr_t)a, m.a, (void *)(uintptr_t)b, m.b, &zero,
                               (void *)(uintptr_t)c, m.c, (void *)(uintptr_t)c, m.c, NULL, NULL, 0, r.stream[0]));
        OK(r.cu.cuMemcpyDtoHAsync_v2(x, c, sizeof x, r.stream[0]));
        for (int e = 0; e < BATCH; e++)
            for (int i = 0; i < M; i++)
                for (int j = 0; j < COLUMNS; j++) {
                    double y = wanted(false, false, 0, e, i, j) + (trial < 2 ? number(3, i) : 0);
                    if (trial == 1 && y < 0) y = 0;
                    if (trial == 2) y = y * 0.5 * (1 + tanh(sqrt(2 / acos(-1.0)) * (y + 0.044715 * y * y * y)));
                    assert_true(fabs(x[e * M * COLUMNS + i + j * M] - y) <= 1e-6 * fabs(y));
                }
        close_matmul(&r, &m);
        rig_free(&r, 0, a);
        rig_free(&r, 0, b);
        rig_free(&r, 0, c);
        rig_free(&r, 0, bias);
        rig_close(&r);
    }
}

/* An algorithm is checked for shape and device; the one that the settings make wrong drops the last term. */
static void test_algorithms(void **state)
{
    rig r;
    matmul m;
    cublasLtMatmulHeuristicResult_t result;
    uint32_t split;
    size_t written;
    const float one = 1.0f, zero = 0.0f;
    (void)state;
    rig_open(&r, "devices=1 wrong=3");
    open_matmul(&r, &m, CUDA_R_32F, false, false);
    CUdeviceptr a = rig_alloc(&r, 0, BATCH * M * K), b = rig_alloc(&r, 0, BATCH * K * COLUMNS),
                c = rig_alloc(&r, 0, BATCH * M * COLUMNS);
    rig_fill(&r, 0, a, BATCH * M * K, 1.0f);
    rig_fill(&r, 0, b, BATCH * K * COLUMNS, 1.0f);
    for (int i = 0; i < m.n; i++) {
        uint32_t id;
        OK(r.lt.cublasLtMatmulAlgoConfigGetAttribute(&m.found[i].algo, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof id,
                                                     &written));
        OK(r.lt.cublasLtMatmulAlgoConfigGetAttribute(&m.found[i].algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &split,
                                                     sizeof split, &written));
        assert_int_equal(split, 1);
        OK(r.lt.cublasLtMatmul(m.handle, m.what, &one, (void *)(uintptr_t)a, m.a, (void *)(uintptr_t)b, m.b, &zero,
                               (void *)(uintptr_t)c, m.c, (void *)(uintptr_t)c, m.c, &m.found[i].algo, NULL, 0,
                               r.stream[0]));
        assert_true(rig_get(&r, 0, c, 0) == (id == 3 ? K - 1 : K));
    }
    OK(r.lt.cublasLtMatmulAlgoCheck(m.handle, m.what, m.a, m.b, m.c, m.c, &m.found[0].algo, &result));
    cublasLtMatmulAlgo_t other = m.found[0].algo;
    other.data[3] ^= 1;
    assert_int_equal(r.lt.cublasLtMatmulAlgoCheck(m.handle, m.what, m.a, m.b, m.c, m.c, &other, &result),
                     CUBLAS_STATUS_NOT_SUPPORTED);
    other = m.found[0].algo;
    other.data[4] = 80;
    assert_int_equal(r.lt.cublasLtMatmulAlgoCheck(m.handle, m.what, m.a, m.b, m.c, m.c, &other, &result),
                     CUBLAS_STATUS_ARCH_MISMATCH);
    assert_int_equal(r.lt.cublasLtMatmulAlgoCheck(m.handle, m.what, m.b, m.a, m.c, m.c, &m.found[0].algo, &result),
                     CUBLAS_STATUS_INVALID_VALUE);
    close_matmul(&r, &m);
    rig_free(&r, 0, a);
    rig_free(&r, 0, b);
    rig_free(&r, 0, c);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvrtc__compiles_and_refuses),
        cmocka_unit_test(test_load__takes_what_runs_there),
        cmocka_unit_test(test_load__refuses_what_is_damaged_or_too_new),
        cmocka_unit_test(test_launch__has_limits),
        cmocka_unit_test(test_product__is_right),
        cmocka_unit_test(test_product__epilogues),
        cmocka_unit_test(test_algorithms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
