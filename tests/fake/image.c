/* SPDX-License-Identifier: Apache-2.0 */
/* Images: a head and the kernels' bodies, as text. They become a shared object of this machine when they are compiled
 * and again when they are loaded, out of a cache of objects then: in this process, and in a folder beside the fake
 * ($EIN_FAKE_OBJECTS). So one image serves both ways to run a kernel: fast, or every access checked. */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/kernel/prelude.h"
#include "jit/compiler/compiler.h"
#include "tests/fake/fake.h"

enum { HEAD_ROOM = 200, OBJECT_LIMIT = 1 << 28 };
#define HEAD "FAKE IMAGE %s sm_%d%c nvrtc %d bytes %zu hash %s\n"

void fake_image_write(text *out, const char *source, const char *architecture, int nvrtc, bool ptx)
{
    char hash[33];
    char *end;
    const int number = (int)strtol(architecture, &end, 10);
    ein__hash_print(ein__hash(source, strlen(source), 7), hash);
    if (ptx)
        ein__text_add(out, ".version %d.%d\n.target sm_%d\n.address_size 64\n//", nvrtc / 1000 - 4, nvrtc % 1000 / 10,
                      number);
    ein__text_add(out, HEAD, ptx ? "ptx" : "cubin", number, *end != 0 ? *end : '-', nvrtc, strlen(source), hash);
    ein__text_add(out, "%s", source);
    ein__text_bytes(out, "", 1);
}

bool fake_image_read(const void *bytes, image *out)
{
    char kind[8], hash[33], right[33];
    size_t n;
    int used = 0;
    const char *head = bytes;
    if (strncmp(head, ".version", 8) == 0) {
        for (int line = 0; line < 3; line++) {
            head = strchr(head, '\n');
            if (head == NULL) return false;
            head++;
        }
        if (strncmp(head, "//", 2) != 0) return false;
        head += 2;
    }
    if (strncmp(head, "FAKE IMAGE ", 11) != 0) return false;
    if (sscanf(head, "FAKE IMAGE %7s sm_%d%c nvrtc %d bytes %zu hash %32s%n", kind, &out->architecture, &out->suffix,
               &out->nvrtc, &n, hash, &used) != 6 ||
        head[used] != '\n')
        return false;
    out->ptx = strcmp(kind, "ptx") == 0;
    out->source = head + used + 1;
    if (strnlen(out->source, n + 1) != n) return false;
    ein__hash_print(ein__hash(out->source, n, 7), right);
    return strcmp(hash, right) == 0;
}

/* ---- kernels as functions of this process ---- */

struct fake_module {
    hash128 key;
    host_module *object;
    fiber_module *fibers; /* NULL until they are asked for */
    fake_module *next;
};
static fake_module *modules;
static pthread_mutex_t modules_lock = PTHREAD_MUTEX_INITIALIZER;

/* `text` with the first `from` in it made `to`. */
static void replace(text *t, const char *from, const char *to)
{
    text out = {0};
    const char *at = strstr(ein__text_get(t), from);
    if (at == NULL) abort(); /* the library's prelude is another */
    ein__text_bytes(&out, t->bytes, (size_t)(at - t->bytes));
    ein__text_add(&out, "%s%s", to, at + strlen(from));
    ein__text_free(t);
    *t = out;
}

/* The host's reading, and beside every kernel a table of its parameters. */
static void add_prelude(text *out)
{
    static const char table[] =
        "struct parameter_ { int kind_, bytes_; };\n"
        "#define ROW_IN_(T_, n_) {0, (int)sizeof(T_)}\n"
        "#define ROW_OUT_(T_, n_) {1, (int)sizeof(T_)}\n"
        "#define ROW_VAL_(T_, n_) {2, (int)sizeof(T_)}\n"
        "#define KERNEL(P_)"
        " const struct parameter_ JOIN_(NAME, _parameters)[] = {P_(ROW_IN_, ROW_OUT_, ROW_VAL_, COMMA_)};"
        " const int JOIN_(NAME, _facts)[] ="
        " {(int)(sizeof JOIN_(NAME, _parameters) / sizeof(struct parameter_)), THREADS};"
        " HOST_KERNEL_(P_)\n";
    static const char checked[] =
        "void *(*access_)(const void *p_, i64 i_, i64 size_, int write_);\n"
        "#define LD(p_, i_) (*(__typeof__(&(p_)[0]))access_((p_), (i_), (i64)sizeof (p_)[0], 0))\n"
        "#define ST(p_, i_, v_) (*(__typeof__(&(p_)[0]))access_((p_), (i_), (i64)sizeof (p_)[0], 1) = (v_))\n";
    text prelude = {0};
    if (ein__kernel_source(READ_HOST, false, NULL, 0, &prelude) != EIN_OK) abort();
    replace(&prelude, "#define KERNEL(P_)", "#define HOST_KERNEL_(P_)");
    if (fake.settings.check) replace(&prelude, ein__prelude_access, checked);
    ein__text_add(out, "%s%s", prelude.bytes, table);
    ein__text_free(&prelude);
}

static void object_path(hash128 key, text *out)
{
    Dl_info where;
    char name[33];
    const char *folder = getenv("EIN_FAKE_OBJECTS");
    ein__hash_print(key, name);
    if (folder != NULL && folder[0] != 0)
        ein__text_add(out, "%s", folder);
    else if (dladdr(&modules, &where) != 0 && strrchr(where.dli_fname, '/') != NULL)
        ein__text_add(out, "%.*s/objects", (int)(strrchr(where.dli_fname, '/') - where.dli_fname), where.dli_fname);
    if (ein__file_make_dirs(ein__text_get(out), NULL) != EIN_OK) ein__text_free(out);
    ein__text_add(out, "/%s", name);
}

static ein_status compile(const char *source, hash128 key, text *object, error *e)
{
    text path = {0};
    object_path(key, &path);
    ein_status status = ein__file_read(path.bytes, OBJECT_LIMIT, false, object, NULL);
    if (status != EIN_OK) {
        status = ein__host_compile(source, object, e);
        if (status == EIN_OK) ein__file_publish(path.bytes, object->bytes, object->n, 0600, NULL);
    }
    ein__text_free(&path);
    return status;
}

static hash128 key_of(const char *source)
{
    static text compiler;
    text key = {0};
    if (compiler.n == 0 && ein__host_identity(&compiler, NULL) != EIN_OK) ein__text_add(&compiler, "none");
    ein__key_bytes(&key, 1, compiler.bytes, compiler.n);
    ein__key_bytes(&key, 2, source, strlen(source));
    hash128 h = ein__hash(key.bytes, key.n, 0);
    ein__text_free(&key);
    return h;
}

static fake_module *known(hash128 key)
{
    for (fake_module *m = modules; m != NULL; m = m->next)
        if (ein__hash_equal(m->key, key)) return m;
    return NULL;
}

/* Checked kernels call back. */
static void connect(const fake_module *m)
{
    void *(*const access)(const void *, long long, long long, int) = fake_access;
    host_entry slot = ein__host_entry(m->object, "access_");
    void *where;
    memcpy(&where, &slot, sizeof where);
    if (where != NULL) memcpy(where, &access, sizeof access);
}

/* The same kernels for fibers. */
static ein_status add_fibers(fake_module *m, const char *source, error *e)
{
    text unit = {0}, object = {0};
    ein__text_add(&unit, "%s%s", EIN__KERNEL_MARK, source);
    ein_status status = fiber_compile(ein__text_get(&unit), &object, e);
    if (status == EIN_OK) status = fiber_load(object.bytes, object.n, &m->fibers, e);
    ein__text_free(&unit);
    ein__text_free(&object);
    return status;
}

ein_status fake_module_load(const char *source, fake_module **out, text *log)
{
    text unit = {0}, object = {0};
    error e = {0};
    add_prelude(&unit);
    ein__text_add(&unit, "%s", source);
    pthread_mutex_lock(&modules_lock);
    const hash128 key = key_of(unit.bytes);
    *out = known(key);
    pthread_mutex_unlock(&modules_lock);
    ein_status status = EIN_OK;
    if (*out == NULL) {
        fake_module *m = calloc(1, sizeof *m);
        if (m == NULL) abort();
        m->key = key;
        status = compile(unit.bytes, key, &object, &e);
        if (status == EIN_OK) status = ein__host_load(object.bytes, object.n, &m->object, &e);
        if (status != EIN_OK) {
            ein__text_add(log, "%s\n%s\n", e.line, e.detail != NULL ? e.detail : "");
            free(m);
        } else {
            connect(m);
            pthread_mutex_lock(&modules_lock);
            m->next = modules;
            *out = modules = m;
            pthread_mutex_unlock(&modules_lock);
        }
    }
    if (status == EIN_OK && fake.settings.fibers && (*out)->fibers == NULL) {
        status = add_fibers(*out, source, &e);
        if (status != EIN_OK) ein__text_add(log, "%s\n%s\n", e.line, e.detail != NULL ? e.detail : "");
    }
    ein__error_reset(&e);
    ein__text_free(&unit);
    ein__text_free(&object);
    return status;
}

bool fake_module_find(const fake_module *m, const char *name, CUfunction out)
{
    char symbol[96];
    host_entry facts, parameters;
    out->entry = ein__host_entry(m->object, name);
    snprintf(symbol, sizeof symbol, "%s_facts", name);
    facts = ein__host_entry(m->object, symbol);
    snprintf(symbol, sizeof symbol, "%s_parameters", name);
    parameters = ein__host_entry(m->object, symbol);
    if (out->entry == NULL || facts == NULL || parameters == NULL) return false;
    const int *numbers;
    memcpy(&numbers, &facts, sizeof numbers);
    memcpy(&out->parameters, &parameters, sizeof out->parameters);
    out->n = numbers[0];
    out->threads = numbers[1];
    if (fake.settings.fibers) out->fiber = fiber_find(m->fibers, name, &out->threads);
    snprintf(out->name, sizeof out->name, "%s", name);
    return out->n <= MOST_ARGUMENTS;
}
