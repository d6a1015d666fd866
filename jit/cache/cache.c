/* SPDX-License-Identifier: Apache-2.0 */
/* Looking up and storing. An entry is one file, replaced by renaming, so no lock is needed; it is read, not
 * mapped, because a file that shrinks under a mapping kills the process. Nothing here can fail a compile. */
#define _POSIX_C_SOURCE 200809L
#include "jit/cache/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/file.h"
#include "jit/cache/entry.h"
#include "jit/cache/store.h"

enum { DAY = 24 * 60 * 60 };
#define DEFAULT_LIMIT ((i64)1 << 30)

/* ---- where ----------------------------------------------------------------------------------------- */

/* Empty counts as unset; the environment of a program that changed its user is not believed. */
static const char *environment(const char *name)
{
    const char *v = getuid() == geteuid() && getgid() == getegid() ? getenv(name) : NULL;
    return v != NULL && *v != 0 ? v : NULL;
}

static void default_dir(text *out)
{
    const char *xdg = environment("XDG_CACHE_HOME"), *home = environment("HOME");
    char buffer[4096];
    struct passwd entry, *found = NULL;
    if (xdg != NULL && *xdg == '/') {
        ein__text_add(out, "%s/ein", xdg);
    } else if (home != NULL && *home == '/') {
        ein__text_add(out, "%s/.cache/ein", home);
    } else if (getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found != NULL &&
               found->pw_dir != NULL && *found->pw_dir == '/') {
        ein__text_add(out, "%s/.cache/ein", found->pw_dir);
    }
}

ein_status ein__cache_init(cache *c, const char *dir)
{
    text path = {0};
    *c = (cache){0};
    if (dir == NULL || *dir == 0) dir = environment("EIN_CACHE_DIR");
    c->explicit_dir = dir != NULL;
    if (dir != NULL) ein__text_add(&path, "%s", dir);
    else default_dir(&path);
    ein_status status = ein__text_status(&path);
    if (status == EIN_OK && path.n > 0) {
        c->dir = ein__strdup(path.bytes);
        if (c->dir == NULL) status = EIN_NO_MEMORY;
    }
    ein__text_free(&path);
    return status;
}

void ein__cache_fini(cache *c)
{
    ein__free(c->dir);
    *c = (cache){0};
}

/* Ours or root's, and nobody else's to write. */
static bool trusted(const struct stat *s)
{
    return (s->st_uid == geteuid() || s->st_uid == 0) && (s->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

int ein__cache_open(const cache *c, error *e)
{
    char reason[96] = "";
    struct stat s;
    int fd = open(c->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        int why = errno;
        (void)strerror_r(why, reason, sizeof reason);
        ein__fail(e, EIN_IO, "cannot open cache directory \"%.120s\": %s", c->dir, reason);
        errno = why;
    } else if (!c->explicit_dir && (fstat(fd, &s) != 0 || !trusted(&s))) {
        ein__fail(e, EIN_IO, "cache directory \"%.120s\" can be written by others; not used", c->dir);
        close(fd);
        fd = -1;
        errno = EPERM;
    }
    return fd;
}

/* EIN_CACHE_SIZE: bytes, or with K, M, G; 0: no limit. Anything else is ignored. */
static i64 size_limit(void)
{
    const char *s = environment("EIN_CACHE_SIZE");
    i64 n = 0;
    if (s == NULL || *s < '0' || *s > '9') return DEFAULT_LIMIT;
    for (; *s >= '0' && *s <= '9'; s++) {
        if (n > (i64)1 << 40) return DEFAULT_LIMIT;
        n = n * 10 + (*s - '0');
    }
    int shift = *s == 'K' ? 10 : *s == 'M' ? 20 : *s == 'G' ? 30 : 0;
    if (s[shift != 0] != 0 || n > INT64_MAX >> shift) return DEFAULT_LIMIT;
    return n << shift;
}

/* ---- get ------------------------------------------------------------------------------------------- */

/* Remove what was just found corrupt, unless somebody has replaced it since. */
static void remove_corrupt(int dir, const char *name, const struct stat *seen)
{
    struct stat now;
    if (fstatat(dir, name, &now, AT_SYMLINK_NOFOLLOW) == 0 && now.st_dev == seen->st_dev &&
        now.st_ino == seen->st_ino && now.st_size == seen->st_size &&
        now.st_mtim.tv_sec == seen->st_mtim.tv_sec && now.st_mtim.tv_nsec == seen->st_mtim.tv_nsec)
        unlinkat(dir, name, 0);
}

/* Entries are removed by age since use; once a day is often enough to know it. */
static void mark_used(int fd, const struct stat *s)
{
    if (time(NULL) - s->st_mtim.tv_sec > DAY) futimens(fd, NULL);
}

static verdict read_open(const cache *c, int fd, const struct stat *s, arena *a, const text *key,
                         const section **sections, int *n)
{
    if (!S_ISREG(s->st_mode) || (!c->explicit_dir && !trusted(s))) return ENTRY_OTHER;
    if (s->st_size < ENTRY_HEAD || s->st_size > ENTRY_BYTES) return ENTRY_CORRUPT;
    unsigned char *bytes = ein__arena_get(a, (size_t)s->st_size, 1);
    if (bytes == NULL) return ENTRY_NO_MEMORY;
    if (!ein__file_read_exact(fd, bytes, (size_t)s->st_size)) return ENTRY_OTHER; /* may be well next time */
    return ein__entry_read(a, bytes, (size_t)s->st_size, key, sections, n);
}

bool ein__cache_get(cache *c, arena *a, const text *key, const section **sections, int *n)
{
    char name[ENTRY_NAME];
    struct stat s;
    verdict v = ENTRY_OTHER;
    int dir = c->dir != NULL ? ein__cache_open(c, NULL) : -1;
    if (dir < 0) return false;
    ein__entry_name(key, name);
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && fstat(fd, &s) == 0) {
        v = read_open(c, fd, &s, a, key, sections, n);
        if (v == ENTRY_GOOD) mark_used(fd, &s);
        if (v == ENTRY_CORRUPT) remove_corrupt(dir, name, &s);
    }
    if (fd >= 0) close(fd);
    close(dir);
    return v == ENTRY_GOOD;
}

/* ---- put ------------------------------------------------------------------------------------------- */

/* The directory, made if missing, then the file. */
static ein_status store(const cache *c, const text *key, const text *image, text *path)
{
    char name[ENTRY_NAME];
    TRY(ein__file_make_dirs(c->dir, NULL));
    int dir = ein__cache_open(c, NULL);
    if (dir < 0) return EIN_IO;
    close(dir);
    ein__entry_name(key, name);
    ein__text_add(path, "%s/%s", c->dir, name);
    TRY(ein__text_status(path));
    /* A directory that the user names may be shared. */
    return ein__file_publish(path->bytes, image->bytes, image->n, c->explicit_dir ? 0644 : 0600, NULL);
}

void ein__cache_put(cache *c, const text *key, const section *sections, int n)
{
    text image = {0}, path = {0};
    i64 limit = size_limit(), low = limit - limit / 5;
    if (c->dir == NULL || c->read_only) return;
    ein_status status = ein__entry_write(key, sections, n, &image);
    /* What the next sweep would remove again is not stored. */
    if (status == EIN_OK && limit != 0 && (i64)image.n > low) status = EIN_UNSUPPORTED;
    if (status == EIN_OK) {
        status = store(c, key, &image, &path);
        if (status == EIN_IO && (errno == EACCES || errno == EPERM || errno == EROFS)) c->read_only = true;
    }
    if (status == EIN_OK && limit != 0) (void)ein__cache_sweep(c, limit, low, NULL, NULL);
    ein__text_free(&image);
    ein__text_free(&path);
}
