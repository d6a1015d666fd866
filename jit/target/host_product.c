/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products by oneDNN's row-major sgemm. The library is opened at run time. Every virtual device has one
 * thread, so oneDNN's own threading (OpenMP) is set to one thread in each worker.
 *
 * Operands of other types are converted to f32 block by block, and a result of another type from f32 once it is
 * complete: a block of C takes all blocks of k in turn. An operand that is f32 is read where it lies. */
#include <dlfcn.h>
#include <string.h>

#include "core/base/alloc.h"
#include "jit/target/host.h"

typedef int (*sgemm_fn)(char ta, char tb, i64 m, i64 n, i64 k, float alpha, const float *a, i64 lda, const float *b,
                        i64 ldb, float beta, float *c, i64 ldc);

struct host_product {
    void *library;
    sgemm_fn sgemm;
    void (*set_threads)(int n);
};

/* Functions come out of dlsym as object pointers; C offers no cast between the two kinds. */
static void find_function(void *library, const char *name, void *function)
{
    void *p = dlsym(library, name);
    memcpy(function, &p, sizeof p);
}

ein_status ein__host_product_open(host_product **out, error *e)
{
    static const char *const names[] = {"libdnnl.so.3", "libdnnl.so.2"};
    host_product *p = ein__calloc(1, sizeof *p);
    if (p == NULL) return ein__fail(e, EIN_NO_MEMORY, "out of memory for the products' library");
    for (size_t i = 0; i < sizeof names / sizeof *names && p->library == NULL; i++)
        p->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (p->library != NULL) find_function(p->library, "dnnl_sgemm", &p->sgemm);
    if (p->sgemm == NULL) {
        const char *why = p->library == NULL ? "libdnnl.so.3 and libdnnl.so.2 cannot be opened (Debian: libdnnl2)"
                                             : "libdnnl has no dnnl_sgemm";
        ein__host_product_close(p);
        return ein__fail(e, EIN_NO_DEVICE, "host products: %s", why);
    }
    find_function(p->library, "omp_set_num_threads", &p->set_threads);
    *out = p;
    return EIN_OK;
}

void ein__host_product_close(host_product *p)
{
    /* Never closed: OpenMP's runtime keeps threads and thread-local data that outlive it. */
    ein__free(p);
}

void ein__host_product_thread(const host_product *p)
{
    if (p->set_threads != NULL) p->set_threads(1);
}

/* Blocks of converted operands: 1 MiB each of A, B and C. */
enum { BLOCK_M = 512, BLOCK_N = 512, BLOCK_K = 512 };

static i64 least(i64 a, i64 b) { return a < b ? a : b; }

i64 ein__host_product_scratch(const gemm *g)
{
    i64 m = least(g->m, BLOCK_M), n = least(g->n, BLOCK_N), k = least(g->k, BLOCK_K);
    return (g->type_a != EIN_F32 ? m * k : 0) + (g->type_b != EIN_F32 ? k * n : 0) + (g->type_c != EIN_F32 ? m * n : 0);
}

/* One matrix of a product: its block as f32, in place or converted. */
typedef struct side {
    ein_dtype type;
    const char *data;
    i64 leading;
    bool exchanged;
    float *scratch;
} side;

/* Rows [row, row + rows) and columns [col, col + cols) of the matrix that is meant, as it is stored. */
static const float *block(const side *s, i64 row, i64 rows, i64 col, i64 cols, i64 *leading)
{
    i64 bytes = ein__dtype_bytes(s->type), r = s->exchanged ? col : row, c = s->exchanged ? row : col;
    i64 n = s->exchanged ? cols : rows, each = s->exchanged ? rows : cols;
    const char *from = s->data + (r * s->leading + c) * bytes;
    *leading = s->type == EIN_F32 ? s->leading : each;
    if (s->type == EIN_F32) return (const float *)from;
    for (i64 i = 0; i < n; i++) ein__dtype_convert(EIN_F32, s->scratch + i * each, s->type, from + i * s->leading * bytes, each);
    return s->scratch;
}

static bool multiply_block(const host_product *p, const gemm *g, const side *a, const side *b, float *c, i64 ldc, i64 m0,
                           i64 n0)
{
    i64 m = least(g->m - m0, BLOCK_M), n = least(g->n - n0, BLOCK_N), lda, ldb;
    for (i64 k0 = 0; k0 < g->k; k0 += BLOCK_K) {
        i64 k = least(g->k - k0, BLOCK_K);
        const float *x = block(a, m0, m, k0, k, &lda), *y = block(b, k0, k, n0, n, &ldb);
        if (p->sgemm(g->ta ? 'T' : 'N', g->tb ? 'T' : 'N', m, n, k, 1.0f, x, lda, y, ldb, k0 > 0 ? 1.0f : 0.0f, c, ldc) != 0)
            return false;
    }
    return true;
}

static ein_status multiply_converted(const host_product *p, const gemm *g, float *scratch, const char *a, const char *b,
                                     char *c)
{
    i64 bytes = ein__dtype_bytes(g->type_c), m_most = least(g->m, BLOCK_M), n_most = least(g->n, BLOCK_N);
    side x = {g->type_a, a, g->lda, g->ta, scratch}, y = {g->type_b, b, g->ldb, g->tb, scratch};
    y.scratch += g->type_a != EIN_F32 ? m_most * least(g->k, BLOCK_K) : 0;
    float *sum = y.scratch + (g->type_b != EIN_F32 ? n_most * least(g->k, BLOCK_K) : 0);
    for (i64 n0 = 0; n0 < g->n; n0 += BLOCK_N)
        for (i64 m0 = 0; m0 < g->m; m0 += BLOCK_M) {
            i64 m = least(g->m - m0, BLOCK_M), n = least(g->n - n0, BLOCK_N);
            char *to = c + (m0 * g->ldc + n0) * bytes;
            bool narrow = g->type_c != EIN_F32;
            if (!multiply_block(p, g, &x, &y, narrow ? sum : (float *)to, narrow ? n : g->ldc, m0, n0)) return EIN_DEVICE_FAILED;
            for (i64 i = 0; narrow && i < m; i++)
                ein__dtype_convert(g->type_c, to + i * g->ldc * bytes, EIN_F32, sum + i * n, n);
        }
    return EIN_OK;
}

static ein_status multiply(const host_product *p, const gemm *g, int depth, float *scratch, const char *a, const char *b,
                           char *c)
{
    if (depth == g->n_batch && ein__host_product_scratch(g) > 0) return multiply_converted(p, g, scratch, a, b, c);
    if (depth == g->n_batch) {
        int s = p->sgemm(g->ta ? 'T' : 'N', g->tb ? 'T' : 'N', g->m, g->n, g->k, 1.0f, (const float *)a, g->lda,
                         (const float *)b, g->ldb, 0.0f, (float *)c, g->ldc);
        return s == 0 ? EIN_OK : EIN_DEVICE_FAILED;
    }
    i64 step_a = g->stride_a[depth] * ein__dtype_bytes(g->type_a), step_b = g->stride_b[depth] * ein__dtype_bytes(g->type_b);
    i64 step_c = g->stride_c[depth] * ein__dtype_bytes(g->type_c);
    for (i64 i = 0; i < g->batch[depth]; i++)
        TRY(multiply(p, g, depth + 1, scratch, a + i * step_a, b + i * step_b, c + i * step_c));
    return EIN_OK;
}

ein_status ein__host_product_run(const host_product *p, const gemm *g, float *scratch, const void *a, const void *b, void *c)
{
    return multiply(p, g, 0, scratch, a, b, c);
}
