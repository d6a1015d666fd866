/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels into objects, objects onto GPUs. An object holds the unit once for every architecture of the machine; each part
 * is a head line "sm_90 <bytes>", then the bytes; a seal ends it. Everything is loaded on every GPU before the first
 * launch: with cuLibrary once for all, else as a module per GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "jit/compiler/dump.h"
#include "jit/compiler/object.h"
#include "jit/target/cuda_product.h"

/* ---- compile ------------------------------------------------------------------------------------------ */

static ein_status open_nvrtc_locked(cuda_target *t, error *e)
{
    if (t->nvrtc_open) return EIN_OK;
    t->nvrtc_path.n = 0;
    TRY(ein__nvrtc_open(&t->nvrtc, t->cu.version / 1000, &t->nvrtc_path, e));
    for (int g = 0; g < t->n_gpus; g++)
        TRY(ein__nvrtc_architecture(&t->nvrtc, t->gpus[g].capability, &t->gpus[g].architecture, e));
    t->nvrtc_open = true;
    return EIN_OK;
}

static ein_status open_nvrtc(cuda_target *t, error *e)
{
    pthread_mutex_lock(&t->compile_lock);
    ein_status s = open_nvrtc_locked(t, e);
    pthread_mutex_unlock(&t->compile_lock);
    return s;
}

/* The first GPU of its architecture. */
static bool leads(const cuda_target *t, int gpu)
{
    for (int g = 0; g < gpu; g++)
        if (strcmp(t->gpus[g].architecture.s, t->gpus[gpu].architecture.s) == 0) return false;
    return true;
}

ein_status ein__cuda_identity(target *base, text *key, error *e)
{
    cuda_target *t = (cuda_target *)base;
    TRY(open_nvrtc(t, e));
    TRY(ein__nvrtc_identity(&t->nvrtc, t->nvrtc_path.bytes, key, e));
    for (int g = 0; g < t->n_gpus; g++)
        if (leads(t, g)) ein__key_bytes(key, 4, t->gpus[g].architecture.s, strlen(t->gpus[g].architecture.s));
    return ein__text_status(key);
}

static ein_status compile_for(cuda_target *t, const char *architecture, const kernel_text *const *kernels, int n,
                              const char *source, text *object, error *e)
{
    text code = {0}, log = {0}, options = {0};
    nvrtc_result r;
    ein_status s = ein__nvrtc_unit(&t->nvrtc, source, architecture, &code, &log, &r, e);
    ein__nvrtc_options(architecture, &options);
    ein__unit_dump(kernels, n, architecture, ein__text_get(&options), ein__text_get(&log));
    if (s == EIN_OK) {
        ein__text_add(object, "%s %zu\n", architecture, code.n);
        ein__text_bytes(object, code.bytes, code.n);
        s = ein__text_status(object);
    }
    ein__text_free(&code);
    ein__text_free(&log);
    ein__text_free(&options);
    return s;
}

ein_status ein__cuda_compile(target *base, const kernel_text *const *kernels, int n, bool counting, text *object, error *e)
{
    cuda_target *t = (cuda_target *)base;
    text source = {0};
    if (counting) return ein__fail(e, EIN_UNSUPPORTED, "counting programs run on host machines only");
    TRY(open_nvrtc(t, e));
    ein_status s = ein__kernel_source(READ_CUDA, false, kernels, n, &source);
    for (int g = 0; g < t->n_gpus && s == EIN_OK; g++)
        if (leads(t, g)) s = compile_for(t, t->gpus[g].architecture.s, kernels, n, source.bytes, object, e);
    ein__text_free(&source);
    if (s == EIN_OK) ein__object_seal(object);
    return s == EIN_OK ? ein__text_status(object) : s;
}

/* ---- objects ------------------------------------------------------------------------------------------ */

typedef struct part { const char *bytes; size_t n; } part;

/* The part for an architecture; false if the object is damaged or has none. */
static bool find_part(const text *object, const char *architecture, part *out)
{
    size_t n = ein__object_check(object->bytes, object->n);
    for (size_t at = 0; at < n;) {
        char name[24];
        const char *line = object->bytes + at, *end = memchr(line, '\n', n - at);
        size_t bytes = 0;
        if (end == NULL || end - line > 60 || sscanf(line, "%23s %zu", name, &bytes) != 2) return false;
        at = (size_t)(end + 1 - object->bytes);
        if (bytes > n - at) return false;
        *out = (part){object->bytes + at, bytes};
        if (strcmp(name, architecture) == 0) return true;
        at += bytes;
    }
    return false;
}

/* Loaders want it aligned. */
static char *aligned_copy(const part *p)
{
    char *copy = ein__aligned(64, p->n);
    if (copy != NULL) memcpy(copy, p->bytes, p->n);
    return copy;
}

/* A driver that refuses an image: from the cache this is a miss. */
static ein_status refused(cuda_target *t, CUresult code, const char *architecture, const char *log, error *e)
{
    ein_status s = ein__cuda_failed(t, code, "loading kernels", 0, NULL);
    if (s == EIN_NO_DEVICE_MEMORY) return ein__fail(e, s, "the GPUs have no memory for kernels");
    ein__error_set_detail(e, log);
    return ein__fail(e, EIN_COMPILE_FAILED, "the driver refuses code for %s: %s", architecture, ein__cuda_name(&t->cu, code).s);
}

/* With options that take the messages of the driver's own compiler, which works on PTX. */
static CUresult load_image(cuda_target *t, const char *image, char *log, unsigned int log_bytes, CUlibrary *library,
                           CUmodule *module)
{
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)log_bytes};
    log[0] = 0;
    if (library != NULL) return t->cu.cuLibraryLoadData(library, image, options, values, 2, NULL, NULL, 0);
    return t->cu.cuModuleLoadDataEx(module, image, 2, options, values);
}

static bool has_libraries(const cuda_target *t)
{
    return t->cu.cuLibraryLoadData != NULL && t->cu.cuLibraryUnload != NULL && t->cu.cuLibraryGetKernel != NULL &&
           t->cu.cuKernelGetFunction != NULL;
}

static ein_status load_part(cuda_target *t, code *c, int gpu, const char *image, error *e)
{
    char log[1024];
    bool library = has_libraries(t);
    TRY(ein__cuda_enter(t, gpu, e));
    CUresult r = load_image(t, image, log, sizeof log, library ? &c->libraries[c->n_libraries] : NULL, &c->modules[c->n_modules]);
    ein__cuda_leave(t);
    if (r != CUDA_SUCCESS) return refused(t, r, t->gpus[gpu].architecture.s, log, e);
    if (library) c->library_gpus[c->n_libraries++] = gpu;
    else c->module_gpus[c->n_modules++] = gpu;
    return EIN_OK;
}

static ein_status load_object(cuda_target *t, code *c, const text *object, error *e)
{
    for (int g = 0; g < t->n_gpus; g++) {
        part p;
        if (has_libraries(t) && !leads(t, g)) continue;
        if (!find_part(object, t->gpus[g].architecture.s, &p))
            return ein__fail(e, EIN_COMPILE_FAILED, "an object has no code for %s", t->gpus[g].architecture.s);
        char *image = aligned_copy(&p);
        if (image == NULL) return EIN_NO_MEMORY;
        ein_status s = load_part(t, c, g, image, e);
        ein__free(image);
        TRY(s);
    }
    return EIN_OK;
}

/* ---- functions ---------------------------------------------------------------------------------------- */

static bool same_code(const cuda_target *t, int a, int b)
{
    return strcmp(t->gpus[a].architecture.s, t->gpus[b].architecture.s) == 0;
}

/* CUDA_ERROR_NOT_FOUND if no object has it. The GPU's context is current. */
static CUresult find_function(cuda_target *t, const code *c, int gpu, const char *name, CUfunction *out)
{
    CUresult code = CUDA_ERROR_NOT_FOUND;
    CUkernel k;
    for (int i = 0; i < c->n_libraries && code == CUDA_ERROR_NOT_FOUND; i++) {
        if (!same_code(t, gpu, c->library_gpus[i])) continue;
        code = t->cu.cuLibraryGetKernel(&k, c->libraries[i], name);
        if (code == CUDA_SUCCESS) code = t->cu.cuKernelGetFunction(out, k);
    }
    for (int i = 0; i < c->n_modules && code == CUDA_ERROR_NOT_FOUND; i++)
        if (c->module_gpus[i] == gpu) code = t->cu.cuModuleGetFunction(out, c->modules[i], name);
    return code;
}

/* Now, not at the first launch: a lazy driver would load inside of a capture, or between timed steps. */
static CUresult force_load(cuda_target *t, CUfunction f)
{
    int registers;
    if (t->cu.cuFuncLoad != NULL) return t->cu.cuFuncLoad(f);
    return t->cu.cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, f);
}

static ein_status find_functions(cuda_target *t, code *c, const program *p, int gpu, error *e)
{
    for (int k = 0; k < p->n_kernels; k++) {
        CUfunction f = NULL;
        CUresult code = find_function(t, c, gpu, p->kernels[k].name, &f);
        if (code == CUDA_ERROR_NOT_FOUND)
            return ein__fail(e, EIN_COMPILE_FAILED, "kernel %s is in none of the objects", p->kernels[k].name);
        if (code == CUDA_SUCCESS) code = force_load(t, f);
        if (code != CUDA_SUCCESS) return refused(t, code, t->gpus[gpu].architecture.s, p->kernels[k].name, e);
        c->functions[gpu * p->n_kernels + k] = f;
    }
    return EIN_OK;
}

/* ---- the program -------------------------------------------------------------------------------------- */

static ein_status check_grids(const program *p, error *e)
{
    for (int d = 0; d < p->n_devices; d++)
        for (int i = 0; i < p->devices[d].n_steps; i++) {
            const step *s = &p->devices[d].steps[i];
            if (s->kind != STEP_KERNEL || (s->grid[0] <= INT32_MAX && s->grid[1] <= UINT16_MAX && s->grid[2] <= UINT16_MAX)) continue;
            return ein__fail(e, EIN_UNSUPPORTED, "%s: a grid of %lld x %lld x %lld blocks is more than GPUs have", s->what,
                             (long long)s->grid[0], (long long)s->grid[1], (long long)s->grid[2]);
        }
    return EIN_OK;
}

static ein_status put_table(cuda_target *t, code *c, const program *p, error *e)
{
    const i64 bytes = p->n_table * (i64)sizeof *p->table;
    for (int d = 0; d < t->n_devices && bytes > 0; d++) {
        TRY(ein__cuda_alloc(&t->base, d, bytes, &c->table[d], e));
        TRY(ein__cuda_upload(&t->base, d, c->table[d], p->table, 1, bytes, bytes, e));
    }
    return EIN_OK;
}

static ein_status note_order(code *c, const program *p, error *e)
{
    for (int d = 0; d < p->n_devices; d++) c->n_steps += p->devices[d].n_steps;
    c->order = ein__calloc((size_t)c->n_steps, sizeof *c->order);
    if (c->order == NULL) return EIN_NO_MEMORY;
    for (int d = 0; d < p->n_devices; d++)
        for (int i = 0; i < p->devices[d].n_steps; i++) {
            const step *s = &p->devices[d].steps[i];
            if (s->order < 0 || s->order >= c->n_steps || c->order[s->order] != NULL)
                return ein__fail(e, EIN_INTERNAL, "program: step %d (%s) has no place in the order", s->order, s->what);
            c->order[s->order] = s;
        }
    return EIN_OK;
}

static ein_status make_lists(code *c, const program *p, int n)
{
    size_t most = (size_t)n * (size_t)c->t->n_gpus;
    c->n_kernels = p->n_kernels;
    c->libraries = ein__calloc(most, sizeof *c->libraries);
    c->library_gpus = ein__calloc(most, sizeof *c->library_gpus);
    c->modules = ein__calloc(most, sizeof *c->modules);
    c->module_gpus = ein__calloc(most, sizeof *c->module_gpus);
    c->functions = ein__calloc((size_t)(c->t->n_gpus * p->n_kernels), sizeof *c->functions);
    return c->libraries != NULL && c->library_gpus != NULL && c->modules != NULL && c->module_gpus != NULL && c->functions != NULL
               ? EIN_OK : EIN_NO_MEMORY;
}

static ein_status fill_code(cuda_target *t, const program *p, const text *objects, int n, code *c, error *e)
{
    TRY(ein__cuda_alive(t, e));
    TRY(check_grids(p, e));
    TRY(open_nvrtc(t, e)); /* says the architectures */
    TRY(make_lists(c, p, n));
    TRY(note_order(c, p, e));
    for (int i = 0; i < n; i++) TRY(load_object(t, c, &objects[i], e));
    for (int g = 0; g < t->n_gpus; g++) {
        TRY(ein__cuda_enter(t, g, e));
        ein_status s = find_functions(t, c, p, g, e);
        ein__cuda_leave(t);
        TRY(s);
    }
    TRY(put_table(t, c, p, e));
    return ein__cuda_products_make(t, p, c->n_steps, &c->products, e);
}

ein_status ein__cuda_load(target *base, const program *p, const text *objects, int n, code **out, error *e)
{
    code *c = ein__calloc(1, sizeof *c);
    if (c == NULL) return ein__fail(e, EIN_NO_MEMORY, "out of memory for a program's code");
    c->t = (cuda_target *)base;
    ein_status s = fill_code(c->t, p, objects, n, c, e);
    if (s == EIN_OK) *out = c;
    else ein__cuda_unload(c);
    return s == EIN_NO_MEMORY ? ein__fail(e, s, "out of memory for a program's code") : s;
}

void ein__cuda_unload(code *c)
{
    if (c == NULL) return;
    cuda_target *t = c->t;
    ein__cuda_products_free(c->products);
    for (int d = 0; d < t->n_devices; d++) ein__cuda_release(&t->base, d, c->table[d]);
    for (int i = 0; i < c->n_libraries; i++) t->cu.cuLibraryUnload(c->libraries[i]);
    for (int i = 0; i < c->n_modules; i++)
        if (ein__cuda_enter(t, c->module_gpus[i], NULL) == EIN_OK) {
            t->cu.cuModuleUnload(c->modules[i]);
            ein__cuda_leave(t);
        }
    ein__free(c->libraries);
    ein__free(c->library_gpus);
    ein__free(c->modules);
    ein__free(c->module_gpus);
    ein__free(c->functions);
    ein__free(c->order);
    ein__free(c);
}
