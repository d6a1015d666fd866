/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products by oneDNN's row-major sgemm. The library is opened at run time. Every virtual device has one
 * thread, so oneDNN's own threading (OpenMP) is set to one thread in each worker. */
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

static ein_status multiply(const host_product *p, const gemm *g, int depth, const float *a, const float *b, float *c)
{
    if (depth == g->n_batch) {
        int s = p->sgemm(g->ta ? 'T' : 'N', g->tb ? 'T' : 'N', g->m, g->n, g->k, 1.0f, a, g->lda, b, g->ldb, 0.0f, c,
                         g->ldc);
        return s == 0 ? EIN_OK : EIN_DEVICE_FAILED;
    }
    for (i64 i = 0; i < g->batch[depth]; i++)
        TRY(multiply(p, g, depth + 1, a + i * g->stride_a[depth], b + i * g->stride_b[depth], c + i * g->stride_c[depth]));
    return EIN_OK;
}

ein_status ein__host_product_run(const host_product *p, const gemm *g, const float *a, const float *b, float *c)
{
    return multiply(p, g, 0, a, b, c);
}
