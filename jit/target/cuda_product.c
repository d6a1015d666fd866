/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products by cuBLASLt, opened when a program first has one. A row-major C = A B is the column-major C' = B' A' of
 * the same memory, so operands change places and keep their transpositions. Sums are f32 and rounded once: of the ways to
 * split k only those whose partial sums stay in f32 are allowed. An algorithm is the heuristic's first that multiplies ones
 * to k, in every element; the choices of a program are kept in the cache under library, devices and products. */
#include "jit/target/cuda_product.h"

#include <string.h>

#include "core/base/alloc.h"

enum { CANDIDATES = 8, PIECE = 4 << 20 };

/* One product of the program on one model of GPU; steps that are alike share it. */
typedef struct product {
    gemm g;
    int align[3], device; /* bytes, of A, B, C; the first logical device that has it */
    int strided;          /* the batch dimension that the library walks, or -1 */
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t a, b, c; /* the library's: its A is our B */
    cublasLtMatmulHeuristicResult_t choice;
} product;

struct cuda_products {
    cuda_target *t;
    cuda_blas *blas;
    int n;
    product *items;
    int *of_step; /* by the step's order: which, or -1 */
};

#define LT(p, call) ((p)->blas->lt.call)

static ein_status lt_failed(const cuda_products *p, cublasStatus_t status, const char *doing, error *e)
{
    ein_status s = status == CUBLAS_STATUS_ALLOC_FAILED ? EIN_NO_MEMORY : EIN_DEVICE_FAILED;
    return ein__fail(e, s, "%s: cuBLASLt %zu says %s", doing, p->blas->lt.version, LT(p, cublasLtGetStatusName(status)));
}

/* ---- the library, once for a target ------------------------------------------------------------------- */

static ein_status open_handles(cuda_target *t, cuda_blas *b, error *e)
{
    for (int g = 0; g < t->n_gpus; g++) {
        if (b->handles[g] != NULL) continue;
        TRY(ein__cuda_enter(t, g, e));
        cublasStatus_t status = b->lt.cublasLtCreate(&b->handles[g]);
        ein__cuda_leave(t);
        if (status != CUBLAS_STATUS_SUCCESS)
            return ein__fail(e, EIN_DEVICE_FAILED, "cuBLASLt does not start on GPU %d: %s", g, b->lt.cublasLtGetStatusName(status));
    }
    return EIN_OK;
}

/* 32 MiB is what Hopper's algorithms want, 4 MiB the older ones'. One for each device: two products at once would race. */
static ein_status open_workspaces(cuda_target *t, cuda_blas *b, error *e)
{
    for (int d = 0; d < t->n_devices; d++) {
        i64 bytes = t->gpus[t->devices[d].gpu].capability >= 90 ? (i64)32 << 20 : (i64)4 << 20;
        if (bytes > t->devices[d].capacity / 16) bytes = t->devices[d].capacity / 16 / 256 * 256;
        b->workspace_bytes[d] = bytes;
        if (b->workspace[d] == NULL) TRY(ein__cuda_alloc(&t->base, d, bytes, &b->workspace[d], e));
    }
    return EIN_OK;
}

static ein_status open_blas_locked(cuda_target *t, error *e)
{
    if (t->blas == NULL) {
        cuda_blas *b = ein__calloc(1, sizeof *b);
        if (b == NULL) return EIN_NO_MEMORY;
        ein_status s = ein__cublaslt_open(&b->lt, t->cu.version / 1000, NULL, e);
        if (s != EIN_OK) {
            ein__free(b);
            return s;
        }
        t->blas = b;
    }
    TRY(open_handles(t, t->blas, e));
    return open_workspaces(t, t->blas, e);
}

static ein_status open_blas(cuda_target *t, error *e)
{
    pthread_mutex_lock(&t->compile_lock);
    ein_status s = open_blas_locked(t, e);
    pthread_mutex_unlock(&t->compile_lock);
    return s;
}

void ein__cuda_blas_close(cuda_target *t)
{
    if (t->blas == NULL) return;
    for (int g = 0; g < t->n_gpus; g++) {
        if (t->blas->handles[g] == NULL) continue;
        bool entered = ein__cuda_enter(t, g, NULL) == EIN_OK;
        t->blas->lt.cublasLtDestroy(t->blas->handles[g]);
        if (entered) ein__cuda_leave(t);
    }
    ein__free(t->blas); /* the workspaces go with all memory */
}

/* ---- one product's description ------------------------------------------------------------------------ */

static cudaDataType_t data_type(ein_dtype d)
{
    return d == EIN_F32 ? CUDA_R_32F : d == EIN_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

static int low_bit(i64 n, int most)
{
    while (most > 1 && n % most != 0) most /= 2;
    return most;
}

/* Every address of the argument is a multiple of this: memory is aligned to 256. */
static int alignment(const arg *a, const gemm *g, const i64 *strides, ein_dtype type)
{
    int most = low_bit(a->value, 256);
    if (a->scalar >= 0) most = low_bit(a->scalar_bytes, most);
    for (int i = 0; i < g->n_batch; i++) most = low_bit(strides[i] * ein__dtype_bytes(type), most);
    return most;
}

static cublasStatus_t make_layout(const cuda_products *p, const product *x, ein_dtype type, i64 rows, i64 columns, i64 ld,
                                  const i64 *strides, cublasLtMatrixLayout_t *out)
{
    cublasStatus_t s = LT(p, cublasLtMatrixLayoutCreate(out, data_type(type), (uint64_t)rows, (uint64_t)columns, ld));
    if (s != CUBLAS_STATUS_SUCCESS || x->strided < 0) return s;
    int32_t count = (int32_t)x->g.batch[x->strided];
    int64_t stride = strides[x->strided];
    s = LT(p, cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    if (s != CUBLAS_STATUS_SUCCESS) return s;
    return LT(p, cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
}

static cublasStatus_t describe(const cuda_products *p, product *x)
{
    const gemm *g = &x->g;
    int32_t ta = g->tb ? CUBLAS_OP_T : CUBLAS_OP_N, tb = g->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasStatus_t s = LT(p, cublasLtMatmulDescCreate(&x->what, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    if (s == CUBLAS_STATUS_SUCCESS)
        s = LT(p, cublasLtMatmulDescSetAttribute(x->what, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta));
    if (s == CUBLAS_STATUS_SUCCESS)
        s = LT(p, cublasLtMatmulDescSetAttribute(x->what, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb));
    if (s == CUBLAS_STATUS_SUCCESS)
        s = make_layout(p, x, g->type_b, g->tb ? g->k : g->n, g->tb ? g->n : g->k, g->ldb, g->stride_b, &x->a);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = make_layout(p, x, g->type_a, g->ta ? g->m : g->k, g->ta ? g->k : g->m, g->lda, g->stride_a, &x->b);
    if (s == CUBLAS_STATUS_SUCCESS) s = make_layout(p, x, g->type_c, g->n, g->m, g->ldc, g->stride_c, &x->c);
    return s;
}

/* ---- running one -------------------------------------------------------------------------------------- */

static cublasStatus_t multiply(const cuda_products *p, const product *x, int device, CUstream stream, int depth, i64 a, i64 b,
                               i64 c)
{
    static const float one = 1, zero = 0;
    const gemm *g = &x->g;
    const cuda_blas *l = p->blas;
    void *to = (void *)(uintptr_t)c;
    if (depth == x->strided) return multiply(p, x, device, stream, depth + 1, a, b, c);
    if (depth == g->n_batch)
        return l->lt.cublasLtMatmul(l->handles[p->t->devices[device].gpu], x->what, &one, (const void *)(uintptr_t)b, x->a,
                                    (const void *)(uintptr_t)a, x->b, &zero, to, x->c, to, x->c, &x->choice.algo,
                                    l->workspace[device], (size_t)l->workspace_bytes[device], stream);
    i64 step_a = g->stride_a[depth] * ein__dtype_bytes(g->type_a), step_b = g->stride_b[depth] * ein__dtype_bytes(g->type_b);
    i64 step_c = g->stride_c[depth] * ein__dtype_bytes(g->type_c);
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
    for (i64 i = 0; i < g->batch[depth] && s == CUBLAS_STATUS_SUCCESS; i++)
        s = multiply(p, x, device, stream, depth + 1, a + i * step_a, b + i * step_b, c + i * step_c);
    return s;
}

ein_status ein__cuda_product_run(const cuda_products *p, const step *s, i64 a, i64 b, i64 c, error *e)
{
    const product *x = &p->items[p->of_step[s->order]];
    cublasStatus_t status = multiply(p, x, s->device, p->t->devices[s->device].steps, 0, a, b, c);
    return status == CUBLAS_STATUS_SUCCESS ? EIN_OK : lt_failed(p, status, s->what, e);
}

/* ---- the check by ones -------------------------------------------------------------------------------- */

static i64 span(i64 rows, i64 columns, i64 ld, const gemm *g, const i64 *strides, ein_dtype type)
{
    i64 last = (rows - 1) * ld + columns;
    for (int i = 0; i < g->n_batch; i++) last += (g->batch[i] - 1) * strides[i];
    return last * ein__dtype_bytes(type);
}

static unsigned int ones(ein_dtype d)
{
    return d == EIN_F32 ? 0x3f800000u : d == EIN_BF16 ? 0x3f803f80u : 0x3c003c00u;
}

typedef struct check {
    const cuda_products *p;
    const product *x;
    CUstream stream;
    CUdeviceptr memory[3];
    char *piece;
    char want[4]; /* k in C's type */
} check;

/* Rows of C from `offset` on (bytes) all hold k. */
static CUresult check_matrix(check *k, i64 offset, bool *right)
{
    const gemm *g = &k->x->g;
    const cuda_target *t = k->p->t;
    i64 size = ein__dtype_bytes(g->type_c), each = PIECE / size;
    for (i64 i = 0; i < g->m; i++)
        for (i64 j = 0; j < g->n; j += each) {
            i64 n = g->n - j < each ? g->n - j : each;
            CUdeviceptr from = k->memory[2] + (CUdeviceptr)(offset + (i * g->ldc + j) * size);
            CUresult code = t->cu.cuMemcpyDtoHAsync_v2(k->piece, from, (size_t)(n * size), k->stream);
            if (code == CUDA_SUCCESS) code = t->cu.cuStreamSynchronize(k->stream);
            if (code != CUDA_SUCCESS) return code;
            for (i64 v = 0; v < n; v++) *right = *right && memcmp(k->piece + v * size, k->want, (size_t)size) == 0;
        }
    return CUDA_SUCCESS;
}

static CUresult check_batches(check *k, int depth, i64 offset, bool *right)
{
    const gemm *g = &k->x->g;
    if (depth == g->n_batch) return check_matrix(k, offset, right);
    CUresult code = CUDA_SUCCESS;
    for (i64 i = 0; i < g->batch[depth] && code == CUDA_SUCCESS && *right; i++)
        code = check_batches(k, depth + 1, offset + i * g->stride_c[depth] * ein__dtype_bytes(g->type_c), right);
    return code;
}

static CUresult check_values(check *k, const i64 bytes[3], bool *right)
{
    const product *x = k->x;
    const cuda_target *t = k->p->t;
    const ein_dtype types[] = {x->g.type_a, x->g.type_b};
    CUresult code = CUDA_SUCCESS;
    for (int i = 0; i < 2 && code == CUDA_SUCCESS; i++)
        code = t->cu.cuMemsetD32Async(k->memory[i], ones(types[i]), (size_t)(bytes[i] + 3) / 4, k->stream);
    if (code == CUDA_SUCCESS) code = t->cu.cuMemsetD8Async(k->memory[2], 0xff, (size_t)bytes[2], k->stream);
    if (code != CUDA_SUCCESS) return code;
    float sum = (float)x->g.k;
    ein__dtype_convert(x->g.type_c, k->want, EIN_F32, &sum, 1);
    *right = multiply(k->p, x, x->device, k->stream, 0, (i64)k->memory[0], (i64)k->memory[1], (i64)k->memory[2]) ==
             CUBLAS_STATUS_SUCCESS;
    return *right ? check_batches(k, 0, 0, right) : t->cu.cuStreamSynchronize(k->stream);
}

/* Where there is no room for operands of this size the choice is trusted. */
static ein_status check_choice(const cuda_products *p, const product *x, bool *right, error *e)
{
    cuda_target *t = p->t;
    const gemm *g = &x->g;
    const i64 bytes[3] = {span(g->ta ? g->k : g->m, g->ta ? g->m : g->k, g->lda, g, g->stride_a, g->type_a),
                          span(g->tb ? g->n : g->k, g->tb ? g->k : g->n, g->ldb, g, g->stride_b, g->type_b),
                          span(g->m, g->n, g->ldc, g, g->stride_c, g->type_c)};
    check k = {.p = p, .x = x, .stream = t->devices[x->device].copies, .piece = ein__calloc(PIECE, 1)};
    void *memory[3] = {NULL};
    ein_status s = k.piece != NULL ? EIN_OK : EIN_NO_MEMORY;
    *right = true;
    for (int i = 0; i < 3 && s == EIN_OK; i++) {
        s = ein__cuda_alloc(&t->base, x->device, bytes[i] + 4, &memory[i], e);
        k.memory[i] = (CUdeviceptr)(uintptr_t)memory[i];
    }
    if (s == EIN_OK) s = ein__cuda_enter(t, t->devices[x->device].gpu, e);
    if (s == EIN_OK) {
        CUresult code = check_values(&k, bytes, right);
        if (code != CUDA_SUCCESS) t->cu.cuStreamSynchronize(k.stream); /* what was enqueued still uses the operands */
        ein__cuda_leave(t);
        if (code != CUDA_SUCCESS) s = ein__cuda_failed(t, code, "check of a product", x->device, e);
    }
    for (int i = 0; i < 3; i++) ein__cuda_release(&t->base, x->device, memory[i]);
    ein__free(k.piece);
    return s == EIN_NO_DEVICE_MEMORY ? EIN_OK : s;
}

/* ---- choosing ----------------------------------------------------------------------------------------- */

static cublasStatus_t make_preference(const cuda_products *p, const product *x, cublasLtMatmulPreference_t *out)
{
    const uint64_t workspace = (uint64_t)p->blas->workspace_bytes[x->device];
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const struct { int which; uint32_t bytes; } align[] = {
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, (uint32_t)x->align[1]},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, (uint32_t)x->align[0]},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, (uint32_t)x->align[2]},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, (uint32_t)x->align[2]}};
    cublasStatus_t s = LT(p, cublasLtMatmulPreferenceCreate(out));
    if (s == CUBLAS_STATUS_SUCCESS)
        s = LT(p, cublasLtMatmulPreferenceSetAttribute(*out, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace));
    if (s == CUBLAS_STATUS_SUCCESS)
        s = LT(p, cublasLtMatmulPreferenceSetAttribute(*out, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions));
    for (int i = 0; i < 4 && s == CUBLAS_STATUS_SUCCESS; i++)
        s = LT(p, cublasLtMatmulPreferenceSetAttribute(*out, align[i].which, &align[i].bytes, sizeof align[i].bytes));
    return s;
}

static ein_status choose(const cuda_products *p, product *x, error *e)
{
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    cublasLtMatmulPreference_t preference = NULL;
    const gemm *g = &x->g;
    int n = 0;
    bool right = false;
    TRY(ein__cuda_enter(p->t, p->t->devices[x->device].gpu, e));
    cublasStatus_t status = make_preference(p, x, &preference);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = LT(p, cublasLtMatmulAlgoGetHeuristic(p->blas->handles[p->t->devices[x->device].gpu], x->what, x->a, x->b, x->c,
                                                      x->c, preference, CANDIDATES, found, &n));
    if (preference != NULL) LT(p, cublasLtMatmulPreferenceDestroy(preference));
    ein__cuda_leave(p->t);
    if (status != CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_NOT_SUPPORTED) return lt_failed(p, status, "choosing a product", e);
    for (int i = 0; i < n && !right; i++) {
        if (found[i].state != CUBLAS_STATUS_SUCCESS) continue;
        x->choice = found[i];
        TRY(check_choice(p, x, &right, e));
    }
    if (right) return EIN_OK;
    return ein__fail(e, EIN_DEVICE_FAILED, "cuBLASLt %zu has no right algorithm among %d for %s[%lld,%lld] = %s[%lld] %s",
                     p->blas->lt.version, n, ein__dtype_name(g->type_c), (long long)g->m, (long long)g->n,
                     ein__dtype_name(g->type_a), (long long)g->k, ein__dtype_name(g->type_b));
}

/* ---- what was chosen before --------------------------------------------------------------------------- */

static void product_key(const cuda_products *p, const product *x, text *key)
{
    const gemm *g = &x->g;
    const i64 numbers[] = {g->m, g->n, g->k, g->lda, g->ldb, g->ldc, g->ta, g->tb, g->type_a, g->type_b, g->type_c, g->n_batch,
                           x->strided, x->align[0], x->align[1], x->align[2], p->blas->workspace_bytes[x->device]};
    const cuda_gpu *gpu = &p->t->gpus[p->t->devices[x->device].gpu];
    int units = 0;
    p->t->cu.cuDeviceGetAttribute(&units, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, gpu->device);
    ein__key_int(key, 1, gpu->capability);
    ein__key_int(key, 1, units);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) ein__key_int(key, 2, numbers[i]);
    for (int i = 0; i < g->n_batch; i++) {
        const i64 batch[] = {g->batch[i], g->stride_a[i], g->stride_b[i], g->stride_c[i]};
        for (int k = 0; k < 4; k++) ein__key_int(key, 3, batch[k]);
    }
}

/* Whether the library still takes a choice, for this product and in this workspace. */
static bool accepts(const cuda_products *p, product *x, const cublasLtMatmulAlgo_t *algorithm)
{
    const int gpu = p->t->devices[x->device].gpu;
    if (ein__cuda_enter(p->t, gpu, NULL) != EIN_OK) return false;
    cublasStatus_t status = LT(p, cublasLtMatmulAlgoCheck(p->blas->handles[gpu], x->what, x->a, x->b, x->c, x->c, algorithm,
                                                          &x->choice));
    ein__cuda_leave(p->t);
    x->choice.algo = *algorithm;
    return status == CUBLAS_STATUS_SUCCESS && (i64)x->choice.workspaceSize <= p->blas->workspace_bytes[x->device];
}

/* All of them, or none. */
static bool recall(cuda_products *p, const text *key)
{
    arena scratch = {NULL};
    const section *sections;
    int n;
    bool known = false;
    if (ein__cache_get(p->t->cache, &scratch, key, &sections, &n))
        for (int i = 0; i < n; i++) {
            if (sections[i].kind != SECTION_PLAN || sections[i].n != (size_t)p->n * sizeof(cublasLtMatmulAlgo_t)) continue;
            known = true;
            for (int k = 0; k < p->n && known; k++) {
                cublasLtMatmulAlgo_t algorithm;
                memcpy(&algorithm, (const char *)sections[i].bytes + (size_t)k * sizeof algorithm, sizeof algorithm);
                known = accepts(p, &p->items[k], &algorithm);
            }
        }
    ein__arena_free(&scratch);
    return known;
}

static void remember(const cuda_products *p, const text *key)
{
    static const char info[] = "algorithms of products";
    text algorithms = {0};
    for (int i = 0; i < p->n; i++) ein__text_bytes(&algorithms, &p->items[i].choice.algo, sizeof p->items[i].choice.algo);
    const section sections[] = {{SECTION_PLAN, algorithms.bytes, algorithms.n}, {SECTION_INFO, info, sizeof info - 1}};
    if (!algorithms.failed) ein__cache_put(p->t->cache, key, sections, 2);
    ein__text_free(&algorithms);
}

static ein_status choose_all(cuda_products *p, error *e)
{
    text key = {0};
    ein_status s = EIN_OK;
    ein__key_bytes(&key, 4, "products", 8);
    ein__key_int(&key, 5, (i64)p->blas->lt.version);
    for (int i = 0; i < p->n; i++) product_key(p, &p->items[i], &key);
    bool caching = p->t->cache != NULL && ein__text_status(&key) == EIN_OK;
    if (!caching || !recall(p, &key)) {
        for (int i = 0; i < p->n && s == EIN_OK; i++) s = choose(p, &p->items[i], e);
        if (s == EIN_OK && caching) remember(p, &key);
    }
    ein__text_free(&key);
    return s;
}

/* ---- a program's products ----------------------------------------------------------------------------- */

static bool same_product(const cuda_products *p, const product *x, const product *y)
{
    const cuda_target *t = p->t;
    return memcmp(&x->g, &y->g, sizeof x->g) == 0 && memcmp(x->align, y->align, sizeof x->align) == 0 &&
           t->gpus[t->devices[x->device].gpu].capability == t->gpus[t->devices[y->device].gpu].capability &&
           p->blas->workspace_bytes[x->device] == p->blas->workspace_bytes[y->device];
}

static ein_status check_types(const gemm *g, const char *what, error *e)
{
    if (g->type_a == g->type_b && (g->type_c == g->type_a || g->type_c == EIN_F32)) return EIN_OK;
    return ein__fail(e, EIN_INTERNAL, "%s: cuBLASLt has no product %s = %s x %s", what, ein__dtype_name(g->type_c),
                     ein__dtype_name(g->type_a), ein__dtype_name(g->type_b));
}

static ein_status add_step(cuda_products *p, const step *s, error *e)
{
    product x;
    memset(&x, 0, sizeof x);
    x.g = s->gemm;
    x.device = s->device;
    x.strided = -1;
    TRY(check_types(&x.g, s->what, e));
    for (int i = 0; i < x.g.n_batch; i++)
        if (x.strided < 0 || x.g.batch[i] > x.g.batch[x.strided]) x.strided = i;
    x.align[0] = alignment(&s->args[0], &x.g, x.g.stride_a, x.g.type_a);
    x.align[1] = alignment(&s->args[1], &x.g, x.g.stride_b, x.g.type_b);
    x.align[2] = alignment(&s->args[2], &x.g, x.g.stride_c, x.g.type_c);
    int i = 0;
    while (i < p->n && !same_product(p, &p->items[i], &x)) i++;
    p->of_step[s->order] = i;
    if (i < p->n) return EIN_OK;
    p->items[p->n++] = x;
    cublasStatus_t status = describe(p, &p->items[i]);
    return status == CUBLAS_STATUS_SUCCESS ? EIN_OK : lt_failed(p, status, s->what, e);
}

static ein_status fill(cuda_products *p, const program *program, int n_steps, int n, error *e)
{
    TRY(open_blas(p->t, e));
    p->blas = p->t->blas;
    p->items = ein__calloc((size_t)n, sizeof *p->items);
    p->of_step = ein__calloc((size_t)n_steps, sizeof *p->of_step);
    if (p->items == NULL || p->of_step == NULL) return EIN_NO_MEMORY;
    for (int d = 0; d < program->n_devices; d++)
        for (int i = 0; i < program->devices[d].n_steps; i++)
            if (program->devices[d].steps[i].kind == STEP_GEMM) TRY(add_step(p, &program->devices[d].steps[i], e));
    return choose_all(p, e);
}

ein_status ein__cuda_products_make(cuda_target *t, const program *program, int n_steps, cuda_products **out, error *e)
{
    int n = 0;
    for (int d = 0; d < program->n_devices; d++)
        for (int i = 0; i < program->devices[d].n_steps; i++) n += program->devices[d].steps[i].kind == STEP_GEMM;
    if (n == 0) return EIN_OK;
    cuda_products *p = ein__calloc(1, sizeof *p);
    if (p == NULL) return EIN_NO_MEMORY;
    p->t = t;
    ein_status s = fill(p, program, n_steps, n, e);
    if (s == EIN_OK) *out = p;
    else ein__cuda_products_free(p);
    return s;
}

void ein__cuda_products_free(cuda_products *p)
{
    if (p == NULL) return;
    for (int i = 0; i < p->n; i++) {
        const product *x = &p->items[i];
        if (x->what != NULL) LT(p, cublasLtMatmulDescDestroy(x->what));
        if (x->a != NULL) LT(p, cublasLtMatrixLayoutDestroy(x->a));
        if (x->b != NULL) LT(p, cublasLtMatrixLayoutDestroy(x->b));
        if (x->c != NULL) LT(p, cublasLtMatrixLayoutDestroy(x->c));
    }
    ein__free(p->items);
    ein__free(p->of_step);
    ein__free(p);
}
