/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "jit/compiler/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ein_status ein__scratch_make(int root, text *path, error *e)
{
    static const char *const names[SCRATCH_ROOTS] = {"XDG_RUNTIME_DIR", "TMPDIR", NULL};
    const char *folder = names[root] != NULL ? getenv(names[root]) : "/tmp";
    const size_t before = path->n;
    if (folder == NULL || folder[0] != '/') return ein__fail(e, EIN_IO, "%s names no folder", names[root]);
    ein__text_add(path, "%s/ein-XXXXXX", folder);
    TRY(ein__text_status(path));
    if (mkdtemp(path->bytes + before) != NULL) return EIN_OK;
    path->n = before;
    return ein__fail(e, EIN_IO, "cannot make a temporary folder in \"%.140s\": error %d", folder, errno);
}

ein_status ein__scratch_make_any(text *path, error *e)
{
    ein_status status = EIN_IO;
    for (int i = 0; i < SCRATCH_ROOTS && status == EIN_IO; i++) status = ein__scratch_make(i, path, e);
    return status;
}

void ein__scratch_remove(const text *path)
{
    DIR *folder = path->n != 0 ? opendir(path->bytes) : NULL;
    if (folder == NULL) return;
    for (struct dirent *d; (d = readdir(folder)) != NULL;)
        if (d->d_name[0] != '.' || strlen(d->d_name) > 2) unlinkat(dirfd(folder), d->d_name, 0);
    closedir(folder);
    rmdir(path->bytes);
}
