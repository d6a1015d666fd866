/* SPDX-License-Identifier: Apache-2.0 */
/* Where a library may be, in this order: the file that its variable names (then nothing else is tried); already in
 * the process; on the loader's path; below CUDA_HOME, CUDA_PATH, /usr/local/cuda and /usr/local/cuda-X; in the wheels of
 * a Python that is at hand. The driver has no toolkit and no wheel, but WSL keeps it in a folder of its own. A library
 * is never closed: threads and exit handlers of it may still be there. */
#define _GNU_SOURCE /* dlinfo */
#include "jit/library/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

static const char *setting(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != 0 ? value : NULL;
}

/* The files that match `pattern`, last first: of several versions the newest. */
static void *open_matching(const text *pattern)
{
    void *handle = NULL;
    glob_t found;
    if (pattern->failed || glob(pattern->bytes, 0, NULL, &found) != 0) return NULL;
    for (size_t k = found.gl_pathc; k-- > 0 && handle == NULL;) handle = dlopen(found.gl_pathv[k], RTLD_NOW | RTLD_LOCAL);
    globfree(&found);
    return handle;
}

static void *open_toolkit(const char *root, const char *soname)
{
    static const char *const folders[] = {"lib64", "lib"};
    void *handle = NULL;
    for (int i = 0; root != NULL && i < 2 && handle == NULL; i++) {
        text pattern = {0};
        ein__text_add(&pattern, "%s/%s/%s", root, folders[i], soname);
        handle = open_matching(&pattern);
        ein__text_free(&pattern);
    }
    return handle;
}

/* A virtual environment, a conda environment, the user's own packages, the system's. */
static void *open_wheel(const char *folder, const char *soname)
{
    const struct { const char *variable, *root, *below; } places[] = {
        {"VIRTUAL_ENV", NULL, "lib/python3*/site-packages"},   {"CONDA_PREFIX", NULL, "lib/python3*/site-packages"},
        {"HOME", NULL, ".local/lib/python3*/site-packages"},   {NULL, "/usr/local", "lib/python3*/site-packages"},
        {NULL, "/usr/local", "lib/python3*/dist-packages"}};
    void *handle = NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places && handle == NULL; i++) {
        const char *root = places[i].variable != NULL ? setting(places[i].variable) : places[i].root;
        text pattern = {0};
        if (root == NULL) continue;
        ein__text_add(&pattern, "%s/%s/%s/%s", root, places[i].below, folder, soname);
        handle = open_matching(&pattern);
        ein__text_free(&pattern);
    }
    return handle;
}

static void *open_soname(const library_names *l, const char *soname)
{
    void *handle = dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (handle == NULL) handle = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    if (l->driver) return handle != NULL ? handle : open_toolkit("/usr/lib/wsl", soname);
    if (handle == NULL) handle = open_toolkit(setting("CUDA_HOME"), soname);
    if (handle == NULL) handle = open_toolkit(setting("CUDA_PATH"), soname);
    if (handle == NULL) handle = open_toolkit("/usr/local/cuda", soname);
    if (handle == NULL) handle = open_toolkit("/usr/local/cuda-*", soname);
    for (int i = 0; l->wheel_folders[i] != NULL && handle == NULL; i++) handle = open_wheel(l->wheel_folders[i], soname);
    return handle;
}

static ein_status not_found(const library_names *l, int newest, error *e)
{
    text wanted = {0};
    for (int i = 0; l->sonames[i] != NULL; i++)
        if (newest == 0 || l->majors[i] <= newest) ein__text_add(&wanted, "%s%s", wanted.n > 0 ? " and " : "", l->sonames[i]);
    ein__fail(e, EIN_NO_DEVICE, "no %s: looked for %s on the loader's path%s; %s may name the file", l->what,
              ein__text_get(&wanted),
              l->driver ? "" : ", below CUDA_HOME, CUDA_PATH, /usr/local/cuda, and in Python's wheels", l->variable);
    ein__text_free(&wanted);
    return EIN_NO_DEVICE;
}

static ein_status find(const library_names *l, int newest, void **out, error *e)
{
    const char *named = setting(l->variable);
    if (named != NULL) {
        *out = dlopen(named, RTLD_NOW | RTLD_LOCAL);
        if (*out != NULL) return EIN_OK;
        return ein__fail(e, EIN_NO_DEVICE, "no %s: %s is \"%s\": %.100s", l->what, l->variable,
                         ein__excerpt_last(named, 100).s, dlerror());
    }
    for (int i = 0; l->sonames[i] != NULL; i++) {
        if (newest != 0 && l->majors[i] > newest) continue;
        *out = open_soname(l, l->sonames[i]);
        if (*out != NULL) return EIN_OK;
    }
    return not_found(l, newest, e);
}

static void add_path(void *handle, text *path)
{
    struct link_map *map = NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != NULL) ein__text_add(path, "%s", map->l_name);
}

ein_status ein__library_open(const library_names *names, int newest, const library_symbol *symbols, size_t n,
                             text *path, error *e)
{
    void *handle;
    TRY(find(names, newest, &handle, e));
    if (path != NULL) add_path(handle, path);
    for (size_t i = 0; i < n; i++) {
        void *symbol = dlsym(handle, symbols[i].name);
        if (symbol == NULL && !symbols[i].optional)
            return ein__fail(e, EIN_NO_DEVICE, "no %s: the library found lacks %s", names->what, symbols[i].name);
        memcpy(symbols[i].slot, &symbol, sizeof symbol);
    }
    return path != NULL ? ein__text_status(path) : EIN_OK;
}
