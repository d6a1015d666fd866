/* SPDX-License-Identifier: Apache-2.0 */
/* Driver: libraries, modules, functions, launches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake/fake.h"

enum { PLAIN_SHARED = 48 << 10, MOST_SHARED = 227 << 10, MOST_THREADS = 1024 };

struct CUkern_st {
    object o;
    CUlibrary library;
    char name[64];
    CUfunction of[MAX_DEVICES];
};
struct CUlib_st {
    object o;
    fake_module *module;
    image head;
};
struct CUmod_st {
    object o;
    fake_module *module;
};

/* Machine code runs on its own major version, from its minor version on; with a suffix on that device alone. */
static bool runs_on(const image *i, int architecture)
{
    if (i->ptx) return i->architecture <= architecture;
    if (i->suffix == 'a') return i->architecture == architecture;
    return i->architecture / 10 == architecture / 10 && i->architecture % 10 <= architecture % 10;
}

static CUresult load(const void *bytes, image *head, fake_module **out)
{
    text log = {0};
    if (!fake_image_read(bytes, head)) return CUDA_ERROR_INVALID_IMAGE;
    if (head->ptx && head->nvrtc > fake.settings.driver) return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    if (!head->ptx && head->nvrtc / 1000 > fake.settings.driver / 1000) return CUDA_ERROR_INVALID_IMAGE;
    ein_status status = fake_module_load(head->source, out, &log);
    if (status != EIN_OK) fake_report("%s: %s", fake_call(fake.calls), ein__text_get(&log));
    ein__text_free(&log);
    return status == EIN_OK ? 0 : CUDA_ERROR_INVALID_IMAGE;
}

/* Drivers before 12.3 do not load while anything is captured. */
static bool forbidden(void) { return fake.settings.driver < 12030 && fake_capture_forbids(); }

CUresult cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *jit_options, void **jit_values,
                           unsigned int n_jit, CUlibraryOption *options, void **values, unsigned int n)
{
    (void)jit_options, (void)jit_values, (void)n_jit, (void)options, (void)values, (void)n;
    ENTER(NEEDS_INIT);
    if (forbidden()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    image head;
    fake_module *module;
    CUresult result = load(code, &head, &module);
    if (result != 0) return result;
    bool any = false;
    for (int d = 0; d < fake.settings.devices; d++) any = any || runs_on(&head, fake.settings.architecture[d]);
    if (!any) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    CUlibrary l = fake_object(LIBRARY, sizeof *l);
    l->module = module;
    l->head = head;
    *out = l;
    return 0;
}

CUresult cuLibraryUnload(CUlibrary l)
{
    ENTER(NEEDS_INIT | HAS_EFFECT);
    if (!fake_valid(l, LIBRARY)) return CUDA_ERROR_INVALID_HANDLE;
    fake_drain();
    l->o.live = false;
    for (object *o = fake.objects; o != NULL; o = o->next) {
        CUkernel k = (CUkernel)o;
        if (o->kind != KERNEL_OF_LIBRARY || k->library != l) continue;
        o->live = false;
        for (int d = 0; d < MAX_DEVICES; d++)
            if (k->of[d] != NULL) k->of[d]->o.live = false;
    }
    LEAVE(0);
}

CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary l, const char *name)
{
    ENTER(NEEDS_INIT);
    struct CUfunc_st probe = {.n = 0};
    if (!fake_valid(l, LIBRARY)) return CUDA_ERROR_INVALID_HANDLE;
    if (!fake_module_find(l->module, name, &probe)) return CUDA_ERROR_NOT_FOUND;
    CUkernel k = fake_object(KERNEL_OF_LIBRARY, sizeof *k);
    k->o.owned = true;
    k->library = l;
    snprintf(k->name, sizeof k->name, "%s", name);
    *out = k;
    return 0;
}

static CUfunction make_function(const fake_module *m, const char *name, CUcontext c)
{
    CUfunction f = fake_object(FUNCTION, sizeof *f);
    f->o.owned = true;
    f->context = c;
    f->shared_limit = PLAIN_SHARED;
    if (!fake_module_find(m, name, f)) {
        f->o.live = false;
        return NULL;
    }
    return f;
}

CUresult cuKernelGetFunction(CUfunction *out, CUkernel k)
{
    ENTER(NEEDS_CONTEXT);
    const int d = fake_current()->device;
    if (!fake_valid(k, KERNEL_OF_LIBRARY)) return CUDA_ERROR_INVALID_HANDLE;
    if (!runs_on(&k->library->head, fake.settings.architecture[d])) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (k->of[d] == NULL) k->of[d] = make_function(k->library->module, k->name, fake_current());
    *out = k->of[d];
    return *out != NULL ? 0 : CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleLoadDataEx(CUmodule *out, const void *bytes, unsigned int n, CUjit_option *options, void **values)
{
    (void)n, (void)options, (void)values;
    ENTER(NEEDS_CONTEXT);
    if (forbidden()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    image head;
    fake_module *module;
    CUresult result = load(bytes, &head, &module);
    if (result != 0) return result;
    if (!runs_on(&head, fake.settings.architecture[fake_current()->device])) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    CUmodule m = fake_object(MODULE, sizeof *m);
    m->module = module;
    *out = m;
    return 0;
}

CUresult cuModuleUnload(CUmodule m)
{
    ENTER(NEEDS_CONTEXT | HAS_EFFECT);
    if (!fake_valid(m, MODULE)) return CUDA_ERROR_INVALID_HANDLE;
    fake_drain();
    m->o.live = false;
    LEAVE(0);
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name)
{
    ENTER(NEEDS_CONTEXT);
    if (!fake_valid(m, MODULE)) return CUDA_ERROR_INVALID_HANDLE;
    *out = make_function(m->module, name, fake_current());
    return *out != NULL ? 0 : CUDA_ERROR_NOT_FOUND;
}

/* ---- functions ---- */

CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value)
{
    ENTER(NEEDS_CONTEXT);
    if (!fake_valid(f, FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
    if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
        return value >= -1 && value <= 100 ? 0 : CUDA_ERROR_INVALID_VALUE;
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > MOST_SHARED)
        return CUDA_ERROR_INVALID_VALUE;
    f->shared_limit = value;
    return 0;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction f)
{
    ENTER(NEEDS_CONTEXT);
    if (!fake_valid(f, FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = f->threads; return 0;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = 0; return 0;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 32; return 0;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = fake.settings.architecture[f->context->device]; return 0;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = f->shared_limit; return 0;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuFuncLoad(CUfunction f)
{
    ENTER(NEEDS_CONTEXT);
    return fake_valid(f, FUNCTION) ? 0 : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f, int threads, size_t shared_bytes)
{
    ENTER(NEEDS_CONTEXT);
    if (!fake_valid(f, FUNCTION) || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
    *blocks = threads > f->threads || shared_bytes > (size_t)f->shared_limit ? 0 : 2048 / threads;
    return 0;
}

/* ---- launches ---- */

CUresult fake_launch_check(const launch *l, CUfunction *out, CUcontext *context)
{
    CUfunction f = l->function;
    if (f == NULL && l->kernel != NULL) {
        if (!fake_valid(l->kernel, KERNEL_OF_LIBRARY) || l->context == NULL) return CUDA_ERROR_INVALID_HANDLE;
        const int d = l->context->device;
        if (l->kernel->of[d] == NULL)
            l->kernel->of[d] = make_function(l->kernel->library->module, l->kernel->name, l->context);
        f = l->kernel->of[d];
    }
    if (!fake_valid(f, FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
    *out = f;
    *context = f->context;
    const unsigned *g = l->grid, *b = l->block;
    if (g[0] == 0 || g[1] == 0 || g[2] == 0 || g[0] > INT32_MAX || g[1] > 65535 || g[2] > 65535)
        return CUDA_ERROR_INVALID_VALUE;
    if (b[0] == 0 || b[1] != 1 || b[2] != 1 || b[0] > MOST_THREADS || l->shared > (unsigned)f->shared_limit)
        return CUDA_ERROR_INVALID_VALUE;
    if ((int)b[0] > f->threads) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if ((int)b[0] != f->threads)
        fake_report("%s: %s is a kernel of %d threads, launched with %u", fake_call(fake.calls), f->name, f->threads,
                    b[0]);
    return f->n == 0 || l->arguments != NULL ? 0 : CUDA_ERROR_INVALID_VALUE;
}

void fake_launch_operation(const launch *l, CUfunction f, CUcontext c, operation *out)
{
    *out = (operation){.kind = DO_KERNEL, .context = c};
    out->kernel.function = f;
    out->kernel.n = f->n;
    for (int i = 0; i < 3; i++) out->kernel.grid[i] = l->grid[i];
    out->kernel.values = calloc((size_t)f->n + 1, sizeof *out->kernel.values);
    if (out->kernel.values == NULL) abort();
    const long long shift = fake_next_shift();
    for (int i = 0; i < f->n; i++) {
        const parameter *p = &f->parameters[i];
        memcpy(&out->kernel.values[i], l->arguments[i], p->kind == 2 ? (size_t)p->bytes : sizeof(void *));
        if (p->kind == 1) out->kernel.values[i] += (uint64_t)shift;
    }
}

CUresult cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                        unsigned int by, unsigned int bz, unsigned int shared_bytes, CUstream stream, void **arguments,
                        void **extra)
{
    CUresult code;
    ENTER(NEEDS_CONTEXT);
    CUstream s = fake_stream(stream, &code);
    CUfunction f;
    CUcontext c;
    if (s == NULL) return code;
    if (extra != NULL) return CUDA_ERROR_NOT_SUPPORTED;
    launch l = {function, NULL, s->context, {gx, gy, gz}, {bx, by, bz}, shared_bytes, arguments};
    code = fake_launch_check(&l, &f, &c);
    if (code != 0) return code;
    if (c != s->context) return CUDA_ERROR_INVALID_HANDLE;
    operation what;
    fake_launch_operation(&l, f, c, &what);
    return fake_enqueue(s, &what);
}
