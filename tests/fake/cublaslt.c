/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLASLt: descriptors, a few algorithms, and products that run as tasks of the stream. A column-major product is the
 * row-major one of its transposes, so the host target's own product computes it, bit for bit as there; f64, a beta and
 * epilogues are loops. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jit/target/host.h"
#include "tests/fake/fake.h"

enum { ALGORITHMS = 4, MARK = 0x46414b45 };

struct cublasLtContext {
    object o;
};
struct cublaslt_matmul {
    object o;
    int compute, scale, transposed[2], epilogue, bias_type;
    const void *bias;
};
struct cublaslt_layout {
    object o;
    int type;
    uint64_t rows, columns;
    int64_t ld, stride;
    int32_t batch;
};
struct cublaslt_preference {
    object o;
    size_t workspace;
    uint32_t reduction, alignment[4];
};

static host_product *library;

size_t cublasLtGetVersion(void)
{
    return (size_t)(fake.settings.nvrtc_major == 0 ? 13 : fake.settings.nvrtc_major) * 10000 + 100;
}

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    static const struct {
        int code;
        const char *name;
    } names[] = {
#define VALUE(name, value) {value, #name},
#include "jit/library/cublaslt_values.def"
#undef VALUE
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == status && strncmp(names[i].name, "CUBLAS_STATUS_", 14) == 0) return names[i].name;
    return "CUBLAS_STATUS_UNKNOWN";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    ENTER(NEEDS_NOTHING);
    if (fake_current() == NULL) return CUBLAS_STATUS_NOT_INITIALIZED;
    *out = fake_object(LT_HANDLE, sizeof **out);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t end(void *p, object_kind kind)
{
    if (!fake_valid(p, kind)) return CUBLAS_STATUS_INVALID_VALUE;
    ((object *)p)->live = false;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    ENTER(NEEDS_NOTHING | HAS_EFFECT);
    cublasStatus_t status = end(handle, LT_HANDLE);
    LEAVE(status);
}

/* ---- descriptors ---- */

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute, cudaDataType_t scale)
{
    ENTER(NEEDS_NOTHING);
    cublasLtMatmulDesc_t d = fake_object(LT_MATMUL, sizeof *d);
    d->compute = compute;
    d->scale = scale;
    d->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    d->bias_type = -1;
    *out = d;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    ENTER(NEEDS_NOTHING | HAS_EFFECT);
    cublasStatus_t status = end(d, LT_MATMUL);
    LEAVE(status);
}

static cublasStatus_t put(void *to, size_t size, const void *value, size_t bytes)
{
    if (bytes != size) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    ENTER(NEEDS_NOTHING);
    if (!fake_valid(d, LT_MATMUL)) return CUBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return put(&d->transposed[0], sizeof(int), value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return put(&d->transposed[1], sizeof(int), value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return put(&d->epilogue, sizeof(int), value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return put(&d->bias, sizeof(void *), value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return put(&d->bias_type, sizeof(int), value, bytes);
    default: return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType_t type, uint64_t rows,
                                          uint64_t columns, int64_t ld)
{
    ENTER(NEEDS_NOTHING);
    if (rows == 0 || columns == 0 || ld < (int64_t)rows) return CUBLAS_STATUS_INVALID_VALUE;
    cublasLtMatrixLayout_t l = fake_object(LT_LAYOUT, sizeof *l);
    *l = (struct cublaslt_layout){l->o, type, rows, columns, ld, 0, 1};
    *out = l;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    ENTER(NEEDS_NOTHING | HAS_EFFECT);
    cublasStatus_t status = end(l, LT_LAYOUT);
    LEAVE(status);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t bytes)
{
    ENTER(NEEDS_NOTHING);
    if (!fake_valid(l, LT_LAYOUT)) return CUBLAS_STATUS_INVALID_VALUE;
    if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return put(&l->batch, sizeof l->batch, value, bytes);
    if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
        return put(&l->stride, sizeof l->stride, value, bytes);
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    ENTER(NEEDS_NOTHING);
    cublasLtMatmulPreference_t p = fake_object(LT_PREFERENCE, sizeof *p);
    p->reduction = UINT32_MAX;
    for (int i = 0; i < 4; i++) p->alignment[i] = 256;
    *out = p;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    ENTER(NEEDS_NOTHING | HAS_EFFECT);
    cublasStatus_t status = end(p, LT_PREFERENCE);
    LEAVE(status);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes)
{
    ENTER(NEEDS_NOTHING);
    if (!fake_valid(p, LT_PREFERENCE)) return CUBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return put(&p->workspace, sizeof p->workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return put(&p->reduction, sizeof p->reduction, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return put(&p->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], sizeof *p->alignment, value,
                   bytes);
    default: return CUBLAS_STATUS_INVALID_VALUE;
    }
}

/* ---- algorithms ---- */

typedef struct problem {
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t of[4];
} problem;

static bool type_is_right(const problem *p)
{
    const int a = p->of[0]->type, b = p->of[1]->type, c = p->of[3]->type;
    if (a == CUDA_R_64F)
        return b == a && c == a && p->what->compute == CUBLAS_COMPUTE_64F && p->what->scale == CUDA_R_64F;
    if (p->what->compute != CUBLAS_COMPUTE_32F && p->what->compute != CUBLAS_COMPUTE_32F_PEDANTIC &&
        p->what->compute != CUBLAS_COMPUTE_32F_FAST_TF32)
        return false;
    if (p->what->scale != CUDA_R_32F || a != b) return false;
    return a == CUDA_R_32F ? c == a : (a == CUDA_R_16BF || a == CUDA_R_16F) && (c == a || c == CUDA_R_32F);
}

/* Do the four matrices fit each other? */
static cublasStatus_t check(const problem *p)
{
    if (!fake_valid(p->what, LT_MATMUL)) return CUBLAS_STATUS_INVALID_VALUE;
    for (int i = 0; i < 4; i++)
        if (!fake_valid(p->of[i], LT_LAYOUT)) return CUBLAS_STATUS_INVALID_VALUE;
    const struct cublaslt_layout *a = p->of[0], *b = p->of[1], *c = p->of[2], *d = p->of[3];
    const uint64_t m = p->what->transposed[0] ? a->columns : a->rows, k = p->what->transposed[0] ? a->rows : a->columns;
    const uint64_t n = p->what->transposed[1] ? b->rows : b->columns,
                   k2 = p->what->transposed[1] ? b->columns : b->rows;
    if (k != k2 || d->rows != m || d->columns != n || c->rows != m || c->columns != n || c->type != d->type)
        return CUBLAS_STATUS_INVALID_VALUE;
    for (int i = 1; i < 4; i++)
        if (p->of[i]->batch != a->batch) return CUBLAS_STATUS_INVALID_VALUE;
    return type_is_right(p) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static uint64_t shape_of(const problem *p)
{
    const uint64_t words[] = {p->of[0]->rows,
                              p->of[0]->columns,
                              p->of[3]->columns,
                              (uint64_t)p->of[0]->type,
                              (uint64_t)p->what->transposed[0],
                              (uint64_t)p->what->transposed[1]};
    return ein__hash(words, sizeof words, 3).low;
}

/* Number, split and reduction, the shape it is for, and for which device. */
static void make_algorithm(const problem *p, int number, cublasLtMatmulAlgo_t *out)
{
    memset(out, 0, sizeof *out);
    out->data[0] = (uint64_t)MARK << 32 | (uint64_t)number;
    out->data[1] = number == 2 ? 2 : 1;
    out->data[2] = number == 2 ? CUBLASLT_REDUCTION_SCHEME_INPLACE : CUBLASLT_REDUCTION_SCHEME_NONE;
    out->data[3] = shape_of(p);
    out->data[4] = (uint64_t)fake.settings.architecture[fake_current() != NULL ? fake_current()->device : 0];
}

static size_t workspace_of(int number) { return number == 2 ? 1 << 16 : 0; }

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t what,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t *out, int *found)
{
    ENTER(NEEDS_NOTHING);
    const problem p = {what, {a, b, c, d}};
    *found = 0;
    if (!fake_valid(handle, LT_HANDLE) || !fake_valid(preference, LT_PREFERENCE) || wanted < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (fake.n_captures > 0 && fake.settings.driver >= 13030 && fake_capture_forbids())
        return CUBLAS_STATUS_NOT_SUPPORTED;
    cublasStatus_t status = check(&p);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    for (int i = 1; i <= ALGORITHMS && *found < wanted; i++) {
        if (workspace_of(i) > preference->workspace) continue;
        if (i == 2 && (preference->reduction & CUBLASLT_REDUCTION_SCHEME_INPLACE) == 0) continue;
        cublasLtMatmulHeuristicResult_t *r = &out[(*found)++];
        memset(r, 0, sizeof *r);
        make_algorithm(&p, i, &r->algo);
        r->workspaceSize = workspace_of(i);
        r->wavesCount = 1;
    }
    return *found > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static cublasStatus_t algorithm_fits(const problem *p, const cublasLtMatmulAlgo_t *algorithm)
{
    cublasLtMatmulAlgo_t right;
    const int number = (int)(algorithm->data[0] & 0xff);
    if (algorithm->data[0] >> 32 != MARK || number < 1 || number > ALGORITHMS) return CUBLAS_STATUS_INVALID_VALUE;
    make_algorithm(p, number, &right);
    if (right.data[4] != algorithm->data[4]) return CUBLAS_STATUS_ARCH_MISMATCH;
    return memcmp(&right, algorithm, sizeof right) == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t what, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algorithm, cublasLtMatmulHeuristicResult_t *out)
{
    ENTER(NEEDS_NOTHING);
    const problem p = {what, {a, b, c, d}};
    if (!fake_valid(handle, LT_HANDLE)) return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t status = check(&p);
    if (status == CUBLAS_STATUS_SUCCESS) status = algorithm_fits(&p, algorithm);
    memset(out, 0, sizeof *out);
    out->algo = *algorithm;
    out->state = status;
    out->workspaceSize = status == CUBLAS_STATUS_SUCCESS ? workspace_of((int)(algorithm->data[0] & 0xff)) : 0;
    return status;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, void *value,
                                                    size_t bytes, size_t *written)
{
    ENTER(NEEDS_NOTHING);
    const uint32_t number = (uint32_t)(algorithm->data[0] & 0xff);
    uint32_t x;
    switch (attribute) {
    case CUBLASLT_ALGO_CONFIG_ID: x = number; break;
    case CUBLASLT_ALGO_CONFIG_TILE_ID: x = 10 + number; break;
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM: x = (uint32_t)algorithm->data[1]; break;
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME: x = (uint32_t)algorithm->data[2]; break;
    default: return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (written != NULL) *written = sizeof x;
    return bytes >= sizeof x ? (memcpy(value, &x, sizeof x), CUBLAS_STATUS_SUCCESS) : CUBLAS_STATUS_INVALID_VALUE;
}

/* ---- products ---- */

static double scalar(const void *p, int type)
{
    return type == CUDA_R_64F ? *(const double *)p : (double)*(const float *)p;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t what, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t layout_a, const void *b, cublasLtMatrixLayout_t layout_b,
                              const void *beta, const void *c, cublasLtMatrixLayout_t layout_c, void *d,
                              cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_bytes, CUstream stream)
{
    CUresult code;
    ENTER(NEEDS_NOTHING);
    const problem p = {what, {layout_a, layout_b, layout_c, layout_d}};
    if (!fake_valid(handle, LT_HANDLE)) return CUBLAS_STATUS_NOT_INITIALIZED;
    cublasStatus_t status = check(&p);
    if (status == CUBLAS_STATUS_SUCCESS && algorithm != NULL) status = algorithm_fits(&p, algorithm);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    const int number = algorithm != NULL ? (int)(algorithm->data[0] & 0xff) : 1;
    if (workspace_of(number) > workspace_bytes || (workspace_of(number) > 0 && workspace == NULL))
        return CUBLAS_STATUS_INVALID_VALUE;
    CUstream s = fake_stream(stream, &code);
    if (s == NULL)
        return code == CUDA_ERROR_INVALID_HANDLE ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_EXECUTION_FAILED;
    operation o = {.kind = DO_PRODUCT, .context = s->context};
    product *g = &o.product;
    *g = (product){.m = (int64_t)layout_d->rows,
                   .n = (int64_t)layout_d->columns,
                   .batch = layout_a->batch,
                   .a = a,
                   .b = b,
                   .c = c,
                   .d = d,
                   .ta = what->transposed[0] != 0,
                   .tb = what->transposed[1] != 0,
                   .scale_type = what->scale,
                   .epilogue = what->epilogue,
                   .bias = what->bias,
                   .wrong = number == fake.settings.wrong_algorithm};
    g->bias_type = what->bias_type >= 0 ? what->bias_type : layout_d->type;
    g->k = (int64_t)(g->ta ? layout_a->rows : layout_a->columns);
    g->alpha = scalar(alpha, what->scale);
    g->beta = scalar(beta, what->scale);
    for (int i = 0; i < 4; i++) {
        g->type[i] = p.of[i]->type;
        g->ld[i] = p.of[i]->ld;
        g->stride[i] = p.of[i]->stride;
    }
    return fake_enqueue(s, &o) == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

static ein_dtype dtype_of(int type)
{
    return type == CUDA_R_64F ? EIN_F64 : type == CUDA_R_32F ? EIN_F32 : type == CUDA_R_16BF ? EIN_BF16 : EIN_F16;
}

static double get(const void *p, int type, int64_t i)
{
    double x;
    const ein_dtype t = dtype_of(type);
    ein__dtype_convert(EIN_F64, &x, t, (const char *)p + i * ein__dtype_bytes(t), 1);
    return x;
}

static double finish(const product *g, double x, int64_t row)
{
    if (g->epilogue & CUBLASLT_EPILOGUE_BIAS) x += get(g->bias, g->bias_type, row);
    if (g->epilogue & CUBLASLT_EPILOGUE_RELU) x = x > 0 ? x : 0;
    if (g->epilogue & CUBLASLT_EPILOGUE_GELU) x = 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    return x;
}

static void by_loops(const product *g, int64_t batch)
{
    const ein_dtype out = dtype_of(g->type[3]);
    const char *a = (const char *)g->a + batch * g->stride[0] * ein__dtype_bytes(dtype_of(g->type[0]));
    const char *b = (const char *)g->b + batch * g->stride[1] * ein__dtype_bytes(dtype_of(g->type[1]));
    const char *c = (const char *)g->c + batch * g->stride[2] * ein__dtype_bytes(out);
    char *d = (char *)g->d + batch * g->stride[3] * ein__dtype_bytes(out);
    for (int64_t j = 0; j < g->n; j++)
        for (int64_t i = 0; i < g->m; i++) {
            double sum = 0;
            for (int64_t k = 0; k < g->k - (g->wrong != 0); k++)
                sum += get(a, g->type[0], g->ta ? k + i * g->ld[0] : i + k * g->ld[0]) *
                       get(b, g->type[1], g->tb ? j + k * g->ld[1] : k + j * g->ld[1]);
            double x = g->alpha * sum + (g->beta != 0 ? g->beta * get(c, g->type[2], i + j * g->ld[2]) : 0);
            x = finish(g, x, i);
            ein__dtype_convert(out, d + (i + j * g->ld[3]) * ein__dtype_bytes(out), EIN_F64, &x, 1);
        }
}

void fake_product(const operation *what)
{
    const product *g = &what->product;
    const bool plain = g->alpha == 1 && g->beta == 0 && g->epilogue == CUBLASLT_EPILOGUE_DEFAULT &&
                       g->type[0] != CUDA_R_64F && !g->wrong;
    if (library == NULL && plain && ein__host_product_open(&library, NULL) != EIN_OK)
        fake_report("products need oneDNN");
    if (!plain || library == NULL) {
        for (int64_t i = 0; i < g->batch; i++) by_loops(g, i);
        return;
    }
    ein__host_product_thread(library);
    gemm row = {.m = g->n,
                .n = g->m,
                .k = g->k,
                .lda = g->ld[1],
                .ldb = g->ld[0],
                .ldc = g->ld[3],
                .ta = g->tb,
                .tb = g->ta,
                .type_a = dtype_of(g->type[1]),
                .type_b = dtype_of(g->type[0]),
                .type_c = dtype_of(g->type[3]),
                .n_batch = 1,
                .batch = {g->batch},
                .stride_a = {g->stride[1]},
                .stride_b = {g->stride[0]},
                .stride_c = {g->stride[3]}};
    float *scratch = calloc((size_t)ein__host_product_scratch(&row) + 1, sizeof *scratch);
    if (scratch == NULL) abort();
    if (ein__host_product_run(library, &row, scratch, g->b, g->a, g->d) != EIN_OK) fake_report("a product failed");
    free(scratch);
}
