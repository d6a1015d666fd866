/* SPDX-License-Identifier: Apache-2.0 */
/* Readers never see half a file, because a file is filled under a name of its own and renamed. No lock is
 * taken: the last writer wins. Nothing is synced to disk: after a crash of the machine a file may be short,
 * so formats that matter carry a checksum. */
#define _POSIX_C_SOURCE 200809L
#define _DEFAULT_SOURCE /* madvise */
#include "core/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/alloc.h"

enum { SHOWN = 137 }; /* of a path in a message: of a long one the end, where the file's name is */

static ein_status io_failure(error *e, const char *what, const char *path)
{
    int why = errno;
    char reason[96];
    if (strerror_r(why, reason, sizeof reason) != 0) snprintf(reason, sizeof reason, "error %d", why);
    ein__fail(e, EIN_IO, "cannot %s \"%s\": %s", what, ein__excerpt_last(path, SHOWN).s, reason);
    errno = why;
    return EIN_IO;
}

/* Close or unlink on the way out of a failure. */
static void close_quietly(int fd)
{
    int why = errno;
    close(fd);
    errno = why;
}

static void unlink_quietly(const char *path)
{
    int why = errno;
    unlink(path);
    errno = why;
}

/* read(2), again after a signal. */
static ssize_t read_some(int fd, void *bytes, size_t n)
{
    ssize_t got;
    do {
        got = read(fd, bytes, n);
    } while (got < 0 && errno == EINTR);
    return got;
}

/* O_NONBLOCK: a pipe must be refused, not waited for. */
static int open_to_read(const char *path, bool follow)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (follow ? 0 : O_NOFOLLOW));
}

static ein_status stat_regular(int fd, const char *path, struct stat *s, error *e)
{
    if (fstat(fd, s) != 0) return io_failure(e, "read", path);
    if (S_ISREG(s->st_mode)) return EIN_OK;
    errno = S_ISDIR(s->st_mode) ? EISDIR : EINVAL;
    return ein__fail(e, EIN_IO, "cannot read \"%s\": not a regular file", ein__excerpt_last(path, SHOWN).s);
}

static ein_status read_open(int fd, const char *path, size_t limit, text *out, error *e)
{
    char chunk[16384];
    struct stat s;
    size_t start = out->n;
    TRY(stat_regular(fd, path, &s, e));
    for (ssize_t n = 1; n > 0;) { /* to the end, not to st_size: it is 0 in /proc */
        if ((uintmax_t)s.st_size > limit || out->n - start > limit) {
            errno = EFBIG;
            return ein__fail(e, EIN_IO, "cannot read \"%s\": more than %zu bytes", ein__excerpt_last(path, SHOWN).s, limit);
        }
        n = read_some(fd, chunk, sizeof chunk);
        if (n < 0) return io_failure(e, "read", path);
        ein__text_bytes(out, chunk, (size_t)n);
    }
    return ein__text_status(out);
}

ein_status ein__file_read(const char *path, size_t limit, bool follow, text *out, error *e)
{
    size_t before = out->n;
    int fd = open_to_read(path, follow);
    if (fd < 0) return io_failure(e, "open", path);
    ein_status status = read_open(fd, path, limit, out, e);
    close_quietly(fd);
    if (status != EIN_OK && out->bytes != NULL) {
        out->n = before;
        out->bytes[before] = 0;
    }
    return status;
}

ein_status ein__file_map(const char *path, file_map *out, error *e)
{
    struct stat s;
    *out = (file_map){NULL, 0};
    int fd = open_to_read(path, true);
    if (fd < 0) return io_failure(e, "open", path);
    ein_status status = stat_regular(fd, path, &s, e);
    if (status == EIN_OK && s.st_size > 0) {
        void *p = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) status = io_failure(e, "map", path);
        else *out = (file_map){p, (size_t)s.st_size};
    }
    close_quietly(fd);
    return status;
}

void ein__file_unmap(file_map *m)
{
    if (m->bytes != NULL) munmap((void *)(uintptr_t)m->bytes, m->n);
    *m = (file_map){NULL, 0};
}

/* Whole pages only; their neighbours may be somebody else's. */
void ein__file_drop(const void *bytes, size_t n)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = ((uintptr_t)bytes + page - 1) / page * page,
              end = ((uintptr_t)bytes + n) / page * page;
    if (first < end) madvise((void *)first, end - first, MADV_DONTNEED);
}

bool ein__file_read_exact(int fd, void *bytes, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = read_some(fd, (char *)bytes + done, n - done);
        if (got <= 0) return false;
        done += (size_t)got;
    }
    return true;
}

ein_status ein__file_temp(const char *dir, const char *suffix, int mode, text *path, int *fd, error *e)
{
    /* Process-wide because names are; with the process and the clock, new on any sane file system. */
    static atomic_ulong used;
    size_t before = path->n;
    for (int attempt = 0; attempt < 100; attempt++) {
        struct timespec now = {0};
        clock_gettime(CLOCK_REALTIME, &now);
        path->n = before;
        ein__text_add(path, "%s/.ein-%ld-%lu-%lx%s", dir, (long)getpid(), atomic_fetch_add(&used, 1),
                      (unsigned long)now.tv_nsec, suffix);
        TRY(ein__text_status(path));
        *fd = open(path->bytes + before, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, (mode_t)mode);
        if (*fd >= 0) return EIN_OK;
        if (errno != EEXIST) break;
    }
    return io_failure(e, "create", path->bytes + before);
}

ein_status ein__file_write(int fd, const char *path, const void *bytes, size_t n, error *e)
{
    for (size_t done = 0; done < n;) {
        ssize_t put = write(fd, (const char *)bytes + done, n - done);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return io_failure(e, "write", path);
        done += (size_t)put;
    }
    return EIN_OK;
}

static ein_status fill_and_rename(const char *path, text *dir, text *temp, const file_piece *pieces, int n,
                                  int mode, error *e)
{
    ein_status status = EIN_OK;
    int fd;
    const char *slash = strrchr(path, '/');
    if (slash == NULL) ein__text_add(dir, ".");
    else ein__text_add(dir, "%.*s", (int)(slash - path) + (slash == path), path);
    TRY(ein__text_status(dir));
    TRY(ein__file_temp(dir->bytes, ".tmp", mode, temp, &fd, e));
    for (int i = 0; i < n && status == EIN_OK; i++)
        status = ein__file_write(fd, temp->bytes, pieces[i].bytes, pieces[i].n, e);
    if (status != EIN_OK) close_quietly(fd);
    else if (close(fd) != 0) status = io_failure(e, "write", temp->bytes);
    if (status == EIN_OK && rename(temp->bytes, path) != 0) status = io_failure(e, "write", path);
    if (status != EIN_OK) unlink_quietly(temp->bytes);
    return status;
}

ein_status ein__file_publish_pieces(const char *path, const file_piece *pieces, int n, int mode, error *e)
{
    text dir = {0}, temp = {0};
    ein_status status = fill_and_rename(path, &dir, &temp, pieces, n, mode, e);
    int why = errno;
    ein__text_free(&dir);
    ein__text_free(&temp);
    errno = why;
    return status;
}

ein_status ein__file_publish(const char *path, const void *bytes, size_t n, int mode, error *e)
{
    return ein__file_publish_pieces(path, &(file_piece){bytes, n}, 1, mode, e);
}

static bool is_dir(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

ein_status ein__file_make_dirs(const char *path, error *e)
{
    if (is_dir(path)) return EIN_OK;
    char *part = ein__strdup(path);
    ein_status status = EIN_OK;
    if (part == NULL) return EIN_NO_MEMORY;
    for (char *s = part + (*part == '/'); status == EIN_OK; s++) {
        char c = *s;
        if (c != '/' && c != 0) continue;
        *s = 0;
        /* An existing parent may answer with any error; what counts is that it is a directory. */
        if (mkdir(part, 0700) != 0) {
            int why = errno;
            bool there = is_dir(part);
            errno = why == EEXIST && !there ? ENOTDIR : why;
            if (!there) status = io_failure(e, "make directory", part);
        }
        *s = c;
        if (c == 0) break;
    }
    int why = errno;
    ein__free(part);
    errno = why;
    return status;
}
