/* SPDX-License-Identifier: Apache-2.0 */
/* Units of the fiber reading: compiled with the instrumentation of ThreadSanitizer, linked without its library to
 * the hooks of prelude_fiber.c. Debug information gives an instruction its line; #line makes that the body's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/file.h"
#include "jit/compiler/compiler.h"
#include "jit/compiler/object.h"
#include "jit/compiler/process.h"
#include "jit/compiler/scratch.h"
#include "tests/fake/fiber_inner.h"

#define GCC_ONLY "-fno-tree-sink" /* clang refuses it */
/* -O1 and no sinking: an access stays where the text has it. Locals start with a pattern, so that a private that was
 * never set differs from the host reading's. */
static const char *const options[] = {
    "-std=gnu11", "-O1", "-fno-strict-aliasing", "-ffp-contract=off", "-fno-math-errno",
    "-march=native", "-ftrivial-auto-var-init=pattern", "-g1", "-gdwarf-4", "-fPIC", "-w",
    "-Werror=implicit-function-declaration", "-fsanitize=thread", GCC_ONLY};
enum { N_OPTIONS = sizeof options / sizeof *options, LIMIT = 1 << 28 };

/* ---- compiling ---- */

/* The bodies behind the prelude, each with lines of its own. */
static ein_status unit_text(const char *source, text *out, error *e)
{
    const char *p = strstr(source, EIN__KERNEL_MARK), *at;
    if (p == NULL) return ein__fail(e, EIN_INVALID, "no mark of kernels in the source");
    fiber_prelude(out);
    p += strlen(EIN__KERNEL_MARK);
    while ((at = strstr(p, "#define NAME ")) != NULL) {
        char name[48];
        int threads, used = 0;
        if (sscanf(at, "#define NAME %47s\n#define THREADS %d%n", name, &threads, &used) != 2 || at[used] != '\n')
            return ein__fail(e, EIN_INVALID, "a kernel without name or threads");
        ein__text_bytes(out, p, (size_t)(at - p) + (size_t)used + 1);
        ein__text_add(out, "#line 1 \"%s\"\n", name);
        p = at + used + 1;
    }
    ein__text_add(out, "%s", p);
    return ein__text_status(out);
}

typedef struct files { text folder, compiler, unit, hooks, object, result, log; } files;

static void free_files(files *f)
{
    text *all[] = {&f->compiler, &f->unit, &f->hooks, &f->object, &f->result, &f->log, &f->folder};
    ein__scratch_remove(&f->folder);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) ein__text_free(all[i]);
}

static ein_status make_files(files *f, error *e)
{
    const char *named = getenv("EIN_CC");
    if (!ein__process_find(named != NULL && named[0] != 0 ? named : "cc", &f->compiler))
        return ein__fail(e, EIN_NO_DEVICE, "no C compiler");
    TRY(ein__scratch_make_any(&f->folder, e));
    ein__text_add(&f->unit, "%s/unit.c", f->folder.bytes);
    ein__text_add(&f->hooks, "%s/hooks.c", f->folder.bytes);
    ein__text_add(&f->object, "%s/unit.o", f->folder.bytes);
    ein__text_add(&f->result, "%s/unit.so", f->folder.bytes);
    ein__text_add(&f->log, "%s/log", f->folder.bytes);
    return ein__text_status(&f->log);
}

static ein_status start(const files *f, const char *const *argv, error *e)
{
    int code;
    text log = {0};
    TRY(ein__process_run(argv, f->folder.bytes, f->log.bytes, &code, e));
    if (code == 0) return EIN_OK;
    ein__file_read(f->log.bytes, LIMIT, false, &log, NULL);
    ein__fail(e, EIN_COMPILE_FAILED, "the fiber reading does not compile");
    ein__error_set_detail(e, ein__text_get(&log));
    ein__text_free(&log);
    return EIN_COMPILE_FAILED;
}

static ein_status compile(const files *f, const text *unit, text *object, error *e)
{
    const char *first[N_OPTIONS + 6] = {f->compiler.bytes, "-c", f->unit.bytes, "-o", f->object.bytes};
    const char *const second[] = {f->compiler.bytes, "-O1", "-fPIC", "-shared", "-Wl,-z,defs", "-w", f->hooks.bytes,
                                  f->object.bytes, "-o", f->result.bytes, "-lm", NULL};
    for (int i = 0; i < N_OPTIONS; i++) first[5 + i] = options[i];
    TRY(ein__file_publish(f->unit.bytes, unit->bytes, unit->n, 0600, e));
    TRY(ein__file_publish(f->hooks.bytes, fiber_hooks_source, strlen(fiber_hooks_source), 0600, e));
    ein_status status = start(f, first, e);
    if (status != EIN_OK && e->detail != NULL && strstr(e->detail, GCC_ONLY) != NULL) {
        first[5 + N_OPTIONS - 1] = NULL;
        status = start(f, first, e);
    }
    TRY(status);
    TRY(start(f, second, e));
    return ein__file_read(f->result.bytes, LIMIT, false, object, e);
}

ein_status fiber_compile(const char *source, text *object, error *e)
{
    files f = {0};
    text unit = {0};
    ein_status status = unit_text(source, &unit, e);
    if (status == EIN_OK) status = make_files(&f, e);
    if (status == EIN_OK) status = compile(&f, &unit, object, e);
    if (status == EIN_OK) ein__object_seal(object);
    ein__text_free(&unit);
    free_files(&f);
    return status == EIN_OK ? ein__text_status(object) : status;
}

/* ---- loading ---- */

struct fiber_module {
    host_module *host;
    const char *base; /* where it is mapped */
    text object;
    struct { const void *pc; fiber_place place; } found[64]; /* lines asked for before */
    fiber_module *next;
};

static fiber_module *modules;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const char *base_of(const void *address)
{
    Dl_info info;
    return dladdr(address, &info) != 0 ? info.dli_fbase : NULL;
}

ein_status fiber_load(const void *object, size_t bytes, fiber_module **out, error *e)
{
    fiber_module *m = ein__calloc(1, sizeof *m);
    if (m == NULL) return EIN_NO_MEMORY;
    ein__text_bytes(&m->object, object, bytes);
    ein_status status = ein__text_status(&m->object);
    if (status == EIN_OK) status = ein__host_load(object, bytes, &m->host, e);
    void (*bind)(const fiber_hooks *) = NULL;
    if (status == EIN_OK) bind = (void (*)(const fiber_hooks *))(void (*)(void))ein__host_entry(m->host, "fiber_bind_");
    if (status == EIN_OK && bind == NULL) status = ein__fail(e, EIN_INVALID, "no object of the fiber reading");
    if (status != EIN_OK) {
        fiber_unload(m);
        return status;
    }
    bind(&fiber_run_hooks);
    m->base = base_of((const void *)(uintptr_t)bind);
    pthread_mutex_lock(&lock);
    m->next = modules;
    modules = m;
    pthread_mutex_unlock(&lock);
    *out = m;
    return EIN_OK;
}

void fiber_unload(fiber_module *m)
{
    if (m == NULL) return;
    pthread_mutex_lock(&lock);
    for (fiber_module **p = &modules; *p != NULL; p = &(*p)->next)
        if (*p == m) {
            *p = m->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    ein__host_unload(m->host);
    ein__text_free(&m->object);
    ein__free(m);
}

fiber_entry fiber_find(const fiber_module *m, const char *name, int *threads)
{
    char count[64];
    snprintf(count, sizeof count, "%s_threads", name);
    const int *n = (const int *)(uintptr_t)ein__host_entry(m->host, count);
    if (n == NULL) return NULL;
    *threads = *n;
    return (fiber_entry)(void (*)(void))ein__host_entry(m->host, name);
}

/* ---- lines ---- */

static void locate(const text *object, const char *address, fiber_place *out)
{
    text tool = {0}, folder = {0}, file = {0}, log = {0}, said = {0};
    int code;
    if (ein__process_find("addr2line", &tool) && ein__scratch_make_any(&folder, NULL) == EIN_OK) {
        ein__text_add(&file, "%s/unit.so", folder.bytes);
        ein__text_add(&log, "%s/log", folder.bytes);
        const char *argv[] = {tool.bytes, "-s", "-e", file.bytes, address, NULL};
        if (ein__file_publish(file.bytes, object->bytes, object->n, 0600, NULL) == EIN_OK &&
            ein__process_run(argv, folder.bytes, log.bytes, &code, NULL) == EIN_OK && code == 0 &&
            ein__file_read(log.bytes, LIMIT, false, &said, NULL) == EIN_OK)
            sscanf(ein__text_get(&said), "%47[^:?]:%d", out->kernel, &out->line);
    }
    ein__scratch_remove(&folder);
    text *all[] = {&tool, &folder, &file, &log, &said};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) ein__text_free(all[i]);
}

fiber_place fiber_locate(const void *pc)
{
    fiber_place place = {"", 0};
    char address[32];
    const char *base = pc != NULL ? base_of(pc) : NULL;
    pthread_mutex_lock(&lock);
    fiber_module *m = base != NULL ? modules : NULL;
    while (m != NULL && m->base != base) m = m->next;
    if (m != NULL) {
        const size_t at = (size_t)((const char *)pc - base), slot = at % 64;
        if (m->found[slot].pc != pc) {
            snprintf(address, sizeof address, "0x%zx", at - 1);
            locate(&m->object, address, &place);
            m->found[slot].pc = pc;
            m->found[slot].place = place;
        }
        place = m->found[slot].place;
    }
    pthread_mutex_unlock(&lock);
    return place;
}
