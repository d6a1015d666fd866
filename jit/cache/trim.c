/* SPDX-License-Identifier: Apache-2.0 */
/* Listing and removing. Another process may remove the same files at the same time; a file that is gone is no
 * failure. Only files with an entry's name are counted or touched: a directory that was given may hold
 * others. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "jit/cache/entry.h"
#include "jit/cache/store.h"

enum { HOUR = 60 * 60 };

typedef struct found {
    char name[ENTRY_NAME];
    i64 bytes;
    struct timespec used;
} found;

typedef struct found_list { found *items; int n, room; } found_list;

static int older_first(const void *a, const void *b)
{
    const found *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec) return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

static bool temporary(const char *name)
{
    size_t n = strlen(name);
    return n > 9 && strncmp(name, ".ein-", 5) == 0 && strcmp(name + n - 4, ".tmp") == 0;
}

/* All entries, the oldest first. With `clean`, temporary files that a killed process left are removed. */
static ein_status scan(DIR *d, bool clean, arena *a, found_list *out)
{
    time_t now = time(NULL);
    for (struct dirent *file; (file = readdir(d)) != NULL;) {
        struct stat s;
        bool entry = ein__entry_named(file->d_name);
        if (!entry && !(clean && temporary(file->d_name))) continue;
        if (fstatat(dirfd(d), file->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(s.st_mode)) continue;
        if (entry) {
            found f = {.bytes = s.st_size, .used = s.st_mtim};
            memcpy(f.name, file->d_name, strlen(file->d_name) + 1); /* its form bounds its length */
            PUSH(a, out, f);
        } else if (now - s.st_mtim.tv_sec > HOUR) {
            unlinkat(dirfd(d), file->d_name, 0);
        }
    }
    if (out->n > 0) qsort(out->items, (size_t)out->n, sizeof *out->items, older_first);
    return EIN_OK;
}

/* NULL with EIN_OK: there is no cache, or nothing was ever stored. */
static ein_status open_entries(const cache *c, DIR **out, error *e)
{
    *out = NULL;
    if (c->dir == NULL) return EIN_OK;
    int fd = ein__cache_open(c, e);
    if (fd < 0) return errno == ENOENT ? EIN_OK : EIN_IO;
    *out = fdopendir(fd);
    if (*out != NULL) return EIN_OK;
    close(fd);
    return ein__fail(e, EIN_IO, "cannot list cache directory \"%.120s\"", c->dir);
}

static ein_status remove_oldest(DIR *d, i64 most, i64 down_to, arena *a, int *removed)
{
    found_list list = {0};
    i64 total = 0;
    TRY(scan(d, true, a, &list));
    for (int i = 0; i < list.n; i++) total += list.items[i].bytes;
    if (most > 0 && total <= most) return EIN_OK;
    for (int i = 0; i < list.n && (down_to <= 0 || total > down_to); i++) {
        if (unlinkat(dirfd(d), list.items[i].name, 0) == 0) ++*removed;
        else if (errno != ENOENT) continue;
        total -= list.items[i].bytes;
    }
    return EIN_OK;
}

ein_status ein__cache_sweep(const cache *c, i64 most, i64 down_to, int *removed, error *e)
{
    arena a = {NULL};
    DIR *d;
    int none, *count = removed != NULL ? removed : &none;
    *count = 0;
    TRY(open_entries(c, &d, e));
    if (d == NULL) return EIN_OK;
    ein_status status = remove_oldest(d, most, down_to, &a, count);
    ein__arena_free(&a);
    closedir(d);
    return status;
}

ein_status ein__cache_trim(cache *c, i64 limit, int *removed, error *e)
{
    return ein__cache_sweep(c, limit, limit, removed, e);
}

enum { MOST_HEAD = ENTRY_HEAD + ENTRY_ROW * ENTRY_SECTIONS };

/* The start of the text for people, made safe to print; "" if it cannot be had. `head` has MOST_HEAD
 * bytes. */
static void read_info(int dir, const found *f, unsigned char *head, char *out, size_t room)
{
    uint64_t offset, n;
    int fd = openat(dir, f->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return;
    ssize_t have = pread(fd, head, MOST_HEAD, 0), got = 0;
    if (have > 0 && ein__entry_find_info(head, (size_t)have, (uint64_t)f->bytes, &offset, &n))
        got = pread(fd, out, n < room ? (size_t)n : room - 1, (off_t)offset);
    close(fd);
    out[got > 0 ? got : 0] = 0;
    for (char *s = out; *s != 0; s++)
        if (*s < 32 || *s > 126) *s = *s == '\n' ? ' ' : '?';
}

static ein_status describe(DIR *d, arena *a, const cache_entry **out, int *n)
{
    found_list list = {0};
    cache_entry *entries;
    unsigned char *head;
    time_t now = time(NULL);
    TRY(scan(d, false, a, &list));
    NEW(a, entries, list.n);
    NEW(a, head, MOST_HEAD);
    for (int i = 0; i < list.n; i++) {
        const found *f = &list.items[list.n - 1 - i];
        cache_entry *entry = &entries[i];
        snprintf(entry->name, sizeof entry->name, "%s", f->name);
        entry->bytes = f->bytes;
        entry->age_s = now > f->used.tv_sec ? now - f->used.tv_sec : 0;
        read_info(dirfd(d), f, head, entry->info, sizeof entry->info);
    }
    *out = entries;
    *n = list.n;
    return EIN_OK;
}

ein_status ein__cache_list(const cache *c, arena *a, const cache_entry **out, int *n, error *e)
{
    DIR *d;
    *out = NULL;
    *n = 0;
    TRY(open_entries(c, &d, e));
    if (d == NULL) return EIN_OK;
    ein_status status = describe(d, a, out, n);
    closedir(d);
    return status;
}
