/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a host object. dlopen knows libraries by path and by inode, and returns the old one when it meets
 * either again: so each load writes a file of its own, under a name new to this process. A root may be
 * mounted noexec: then the next one is tried. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/file.h"
#include "jit/compiler/compiler.h"
#include "jit/compiler/object.h"
#include "jit/compiler/scratch.h"

struct host_module { void *handle; };

static ein_status load_in(const char *folder, const void *object, size_t bytes, host_module *m, error *e)
{
    int fd;
    text path = {0};
    ein_status status = ein__file_temp(folder, ".so", 0700, &path, &fd, e);
    if (status == EIN_OK) {
        status = ein__file_write(fd, path.bytes, object, bytes, e);
        close(fd);
    }
    if (status == EIN_OK) {
        m->handle = dlopen(path.bytes, RTLD_NOW | RTLD_LOCAL);
        const char *why = m->handle == NULL ? dlerror() : NULL;
        if (m->handle == NULL)
            status = ein__fail(e, EIN_IO, "cannot load a compiled object: %s", why != NULL ? why : "?");
    }
    ein__text_free(&path);
    return status;
}

static ein_status load_below(int root, const void *object, size_t bytes, host_module *m, error *e)
{
    text folder = {0};
    ein_status status = ein__scratch_make(root, &folder, e);
    if (status == EIN_OK) {
        status = load_in(folder.bytes, object, bytes, m, e);
        ein__scratch_remove(&folder);
    }
    ein__text_free(&folder);
    return status;
}

ein_status ein__host_load(const void *object, size_t bytes, host_module **out, error *e)
{
    *out = NULL;
    const size_t n = ein__object_check(object, bytes);
    if (n == 0) return ein__fail(e, EIN_IO, "a compiled object of %zu bytes is damaged", bytes);
    host_module *m = ein__calloc(1, sizeof *m);
    if (m == NULL) return EIN_NO_MEMORY;
    error why = {0};
    ein_status status = EIN_IO;
    for (int i = 0; i < SCRATCH_ROOTS && status == EIN_IO; i++) status = load_below(i, object, n, m, &why);
    if (status == EIN_OK) {
        *out = m;
        return EIN_OK;
    }
    ein__free(m);
    return ein__fail(e, status, "%s", why.line);
}

host_entry ein__host_entry(const host_module *m, const char *name)
{
    host_entry entry = NULL;
    void *symbol = dlsym(m->handle, name);
    if (symbol != NULL) memcpy(&entry, &symbol, sizeof entry);
    return entry;
}

void ein__host_unload(host_module *m)
{
    if (m == NULL) return;
    dlclose(m->handle);
    ein__free(m);
}
