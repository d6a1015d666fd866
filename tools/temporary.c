/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "tools/temporary.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jit/cache/cache.h"
#include "tools/args.h"

bool temporary_make(char *path, int room)
{
    const char *folder = getenv("TMPDIR");
    if (folder == NULL || *folder == 0) folder = "/tmp";
    if (snprintf(path, (size_t)room, "%s/ein-cache-XXXXXX", folder) < room && mkdtemp(path) != NULL) return true;
    complain(0, "no temporary folder in %s: %s", folder, strerror(errno));
    return false;
}

void temporary_remove(const char *path)
{
    cache c;
    int removed;
    if (ein__cache_init(&c, path) != EIN_OK) return;
    ein__cache_trim(&c, 0, &removed, NULL);
    ein__cache_fini(&c);
    rmdir(path);
}
