/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/file.h"
#include "jit/cache/cache.h"
#include "jit/cache/entry.h"

enum { HOUR = 3600, DAY = 24 * HOUR };

/* A folder for each test; the cache is "base/ein", found there through XDG_CACHE_HOME or named. */
static char base[64], dir[72];

static const section stored[] = {
    {SECTION_PLAN, "{\"plan\": 1}", 11}, {SECTION_OBJECT, "\177ELF\0\1\2\3", 8}, {SECTION_OBJECT, "", 0},
    {SECTION_INFO, "two layers\nhost:2 \033[31m", 23}};
enum { STORED = sizeof stored / sizeof *stored };

static int set_up(void **state)
{
    (void)state;
    snprintf(base, sizeof base, "/tmp/ein-test-cache-XXXXXX");
    if (mkdtemp(base) == NULL) return 1;
    snprintf(dir, sizeof dir, "%s/ein", base);
    unsetenv("EIN_CACHE_DIR");
    unsetenv("EIN_CACHE_SIZE");
    return setenv("XDG_CACHE_HOME", base, 1);
}

static int tear_down(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", base);
    return system(command);
}

static cache made(const char *path)
{
    cache c;
    assert_int_equal(ein__cache_init(&c, path), EIN_OK);
    return c;
}

static text key_of(const char *s)
{
    text t = {0};
    ein__key_bytes(&t, 1, s, strlen(s));
    return t;
}

/* Path of a key's entry; lives until the next call. */
static const char *entry_path(const text *key)
{
    static char path[160];
    char name[ENTRY_NAME];
    ein__entry_name(key, name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static bool exists(const char *path)
{
    struct stat s;
    return lstat(path, &s) == 0;
}

static int count_files(void)
{
    int n = 0;
    DIR *d = opendir(dir);
    if (d == NULL) return 0;
    for (struct dirent *f; (f = readdir(d)) != NULL;) n += f->d_name[0] != '.' || f->d_name[1] == 'e';
    closedir(d);
    return n;
}

static void set_age(const char *path, time_t seconds)
{
    struct timespec t[2] = {{time(NULL) - seconds, 0}, {time(NULL) - seconds, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

/* Whether the entry is found, and then that it is what was stored. */
static bool hit(cache *c, const text *key)
{
    arena a = {NULL};
    const section *got = NULL;
    int n = 0;
    bool found = ein__cache_get(c, &a, key, &got, &n);
    if (found) {
        assert_int_equal(n, STORED);
        for (int i = 0; i < STORED; i++) {
            assert_int_equal(got[i].kind, stored[i].kind);
            assert_int_equal(got[i].n, stored[i].n);
            assert_int_equal((uintptr_t)got[i].bytes % 16, 0);
            if (got[i].n > 0) assert_memory_equal(got[i].bytes, stored[i].bytes, got[i].n);
        }
    }
    ein__arena_free(&a);
    return found;
}

static void round_trip(void **state)
{
    cache c = made(NULL);
    text key = key_of("graph one"), other = key_of("graph two");
    struct stat s;
    (void)state;
    assert_string_equal(c.dir, dir);
    assert_false(c.explicit_dir);
    assert_false(hit(&c, &key));
    ein__cache_put(&c, &key, stored, STORED);
    assert_true(hit(&c, &key));
    assert_true(hit(&c, &key));
    assert_false(hit(&c, &other));
    assert_int_equal(count_files(), 1);
    assert_int_equal(stat(entry_path(&key), &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    assert_int_equal(s.st_size, 80 + 5 * 24 + 8 + 32 + 16 + 16 + 0 + 32);
    assert_int_equal(stat(dir, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0700);
    text no_key = {0};
    ein__cache_put(&c, &no_key, NULL, 0);
    arena a = {NULL};
    const section *got;
    int n = -1;
    assert_true(ein__cache_get(&c, &a, &no_key, &got, &n));
    assert_int_equal(n, 0);
    ein__arena_free(&a);
    ein__text_free(&key);
    ein__text_free(&other);
    ein__cache_fini(&c);
}

static void where(void **state)
{
    (void)state;
    cache c = made("/tmp/ein-test-named");
    assert_string_equal(c.dir, "/tmp/ein-test-named");
    assert_true(c.explicit_dir);
    ein__cache_fini(&c);
    setenv("EIN_CACHE_DIR", "/tmp/ein-test-env", 1);
    c = made(NULL);
    assert_string_equal(c.dir, "/tmp/ein-test-env");
    assert_true(c.explicit_dir);
    ein__cache_fini(&c);
    setenv("EIN_CACHE_DIR", "", 1);
    setenv("XDG_CACHE_HOME", "relative", 1);
    char *home = getenv("HOME") != NULL ? strdup(getenv("HOME")) : NULL;
    setenv("HOME", "/tmp/ein-test-home", 1);
    c = made("");
    assert_string_equal(c.dir, "/tmp/ein-test-home/.cache/ein");
    assert_false(c.explicit_dir);
    ein__cache_fini(&c);
    if (home != NULL) setenv("HOME", home, 1);
    else unsetenv("HOME");
    free(home);
}

/* Without a directory everything is a quiet miss. */
static void off(void **state)
{
    cache c = {0};
    text key = key_of("k");
    arena a = {NULL};
    const cache_entry *list;
    int n = -1;
    (void)state;
    ein__cache_put(&c, &key, stored, STORED);
    assert_false(hit(&c, &key));
    assert_int_equal(ein__cache_list(&c, &a, &list, &n, NULL), EIN_OK);
    assert_int_equal(n, 0);
    assert_int_equal(ein__cache_trim(&c, 0, &n, NULL), EIN_OK);
    ein__text_free(&key);
}

static void truncation(void **state)
{
    cache c = made(NULL);
    text key = key_of("graph"), whole = {0};
    (void)state;
    ein__cache_put(&c, &key, stored, STORED);
    const char *path = entry_path(&key);
    assert_int_equal(ein__file_read(path, 1 << 20, false, &whole, NULL), EIN_OK);
    for (size_t n = 0; n < whole.n; n++) {
        assert_int_equal(ein__file_publish(path, whole.bytes, n, 0600, NULL), EIN_OK);
        assert_false(hit(&c, &key));
        assert_false(exists(path)); /* removed, so that the next put is not in its way */
    }
    ein__text_bytes(&whole, "", 1); /* one too many */
    assert_int_equal(ein__file_publish(path, whole.bytes, whole.n, 0600, NULL), EIN_OK);
    assert_false(hit(&c, &key));
    ein__cache_put(&c, &key, stored, STORED);
    assert_true(hit(&c, &key));
    ein__text_free(&whole);
    ein__text_free(&key);
    ein__cache_fini(&c);
}

static void corruption(void **state)
{
    cache c = made(NULL);
    text key = key_of("graph"), whole = {0};
    (void)state;
    ein__cache_put(&c, &key, stored, STORED);
    const char *path = entry_path(&key);
    assert_int_equal(ein__file_read(path, 1 << 20, false, &whole, NULL), EIN_OK);
    for (size_t at = 0; at < whole.n; at++) {
        for (int change = 1; change < 256; change *= 2) {
            whole.bytes[at] = (char)(whole.bytes[at] ^ change);
            assert_int_equal(ein__file_publish(path, whole.bytes, whole.n, 0600, NULL), EIN_OK);
            assert_false(hit(&c, &key));
            bool other_version = at >= 8 && at < 12;
            assert_int_equal(exists(path), other_version);
            whole.bytes[at] = (char)(whole.bytes[at] ^ change);
        }
    }
    assert_int_equal(ein__file_publish(path, whole.bytes, whole.n, 0600, NULL), EIN_OK);
    assert_true(hit(&c, &key));
    ein__text_free(&whole);
    ein__text_free(&key);
    ein__cache_fini(&c);
}

/* Read a copy of `image` with `n` bytes at `at` replaced by a number, and a checksum that holds. */
static verdict altered(const text *image, const text *key, size_t at, int n, uint64_t value, int *sections)
{
    arena a = {NULL};
    const section *got;
    unsigned char *copy = ein__arena_get(&a, image->n, 1);
    memcpy(copy, image->bytes, image->n);
    for (int i = 0; i < n; i++) copy[at + (size_t)i] = (unsigned char)(value >> (8 * i));
    ein__entry_seal(copy, image->n);
    verdict v = ein__entry_read(&a, copy, image->n, key, &got, sections);
    if (v == ENTRY_GOOD) {
        const unsigned char *end = copy + image->n;
        for (int i = 0; i < *sections; i++) {
            const unsigned char *p = got[i].bytes;
            assert_true(p >= copy && p <= end && got[i].n <= (size_t)(end - p));
        }
    }
    ein__arena_free(&a);
    return v;
}

/* An enemy can make the checksum hold. */
static void hostile_fields(void **state)
{
    enum { ROW = 80 + 24 }; /* row 0 is the key's */
    static const struct { size_t at; int n; uint64_t value; verdict want; } cases[] = {
        {0, 1, 0x7f, ENTRY_CORRUPT}, {8, 4, 2, ENTRY_OTHER}, {12, 4, 81, ENTRY_CORRUPT},
        {16, 1, 0, ENTRY_OTHER}, {32, 8, 1, ENTRY_CORRUPT}, {40, 8, 1, ENTRY_OTHER},
        {48, 4, 0, ENTRY_CORRUPT}, {48, 4, 1025, ENTRY_CORRUPT}, {48, 4, UINT32_MAX, ENTRY_CORRUPT},
        {48, 4, 8, ENTRY_CORRUPT},
        {52, 4, 1, ENTRY_CORRUPT}, {56, 8, 1, ENTRY_CORRUPT}, {80, 4, SECTION_PLAN, ENTRY_CORRUPT},
        {80 + 16, 8, 1, ENTRY_OTHER}, {ROW, 4, SECTION_KEY, ENTRY_CORRUPT}, {ROW + 4, 4, 1, ENTRY_CORRUPT},
        {ROW + 8, 8, 0, ENTRY_CORRUPT}, {ROW + 8, 8, UINT64_MAX - 15, ENTRY_CORRUPT},
        {ROW + 8, 8, 217, ENTRY_CORRUPT}, {ROW + 16, 8, UINT64_MAX, ENTRY_CORRUPT},
        {ROW + 16, 8, 1 << 20, ENTRY_CORRUPT}, {ROW, 4, 3, ENTRY_GOOD}, {52, 4, 0, ENTRY_GOOD}};
    text key = key_of("graph"), image = {0};
    int n = 0;
    (void)state;
    assert_int_equal(ein__entry_write(&key, stored, STORED, &image), EIN_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        verdict v = altered(&image, &key, cases[i].at, cases[i].n, cases[i].value, &n);
        if (v != cases[i].want) fail_msg("case %zu: verdict %d, want %d", i, (int)v, (int)cases[i].want);
    }
    /* Kinds of a later library are skipped. */
    assert_int_equal(altered(&image, &key, ROW, 4, 77, &n), ENTRY_GOOD);
    assert_int_equal(n, STORED - 1);
    assert_int_equal(altered(&image, &key, ROW, 4, 0, &n), ENTRY_GOOD);
    assert_int_equal(n, STORED - 1);
    uint64_t random = 1;
    int good = 0;
    for (int i = 0; i < 20000; i++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        size_t at = 8 + (random >> 40) % 192;
        good += altered(&image, &key, at, 1 + (int)((random >> 33) % 8), random >> 20, &n) == ENTRY_GOOD;
    }
    assert_true(good > 0 && good < 20000);
    ein__text_free(&image);
    ein__text_free(&key);
}

static void too_large(void **state)
{
    section many[ENTRY_SECTIONS] = {{SECTION_INFO, "", 0}};
    section huge = {SECTION_OBJECT, "", (size_t)ENTRY_BYTES + 1};
    text key = key_of("k"), image = {0};
    (void)state;
    assert_int_equal(ein__entry_write(&key, &huge, 1, &image), EIN_UNSUPPORTED);
    huge.n = SIZE_MAX;
    assert_int_equal(ein__entry_write(&key, &huge, 1, &image), EIN_UNSUPPORTED);
    assert_int_equal(ein__entry_write(&key, many, ENTRY_SECTIONS, &image), EIN_UNSUPPORTED);
    assert_int_equal(ein__entry_write(&key, many, ENTRY_SECTIONS - 1, &image), EIN_OK);
    ein__text_free(&image);
    ein__text_free(&key);
}

/* An entry under another key's name, as if hashes had collided. */
static void key_is_compared(void **state)
{
    cache c = made(NULL);
    text key = key_of("graph one"), other = key_of("graph two"), bytes = {0};
    (void)state;
    ein__cache_put(&c, &key, stored, STORED);
    assert_int_equal(ein__file_read(entry_path(&key), 1 << 20, false, &bytes, NULL), EIN_OK);
    assert_int_equal(ein__file_publish(entry_path(&other), bytes.bytes, bytes.n, 0600, NULL), EIN_OK);
    assert_false(hit(&c, &other));
    assert_true(exists(entry_path(&other))); /* it is sound: left alone */
    assert_true(hit(&c, &key));
    ein__text_free(&bytes);
    ein__text_free(&key);
    ein__text_free(&other);
    ein__cache_fini(&c);
}

/* A default directory and its entries must be ours alone to write; a named one is used as it is. */
static void who_may_write(void **state)
{
    cache c = made(NULL), named = made(dir);
    text key = key_of("graph"), second = key_of("second");
    (void)state;
    ein__cache_put(&c, &key, stored, STORED);
    for (int bits = 0; bits < 3; bits++) {
        bool open = bits > 0;
        assert_int_equal(chmod(entry_path(&key), bits == 1 ? 0620 : bits == 2 ? 0602 : 0600), 0);
        assert_int_equal(hit(&c, &key), !open);
        assert_true(hit(&named, &key));
    }
    assert_int_equal(chmod(entry_path(&key), 0600), 0);
    assert_int_equal(chmod(dir, 0770), 0);
    assert_false(hit(&c, &key));
    ein__cache_put(&c, &second, stored, STORED);
    assert_int_equal(count_files(), 1);
    ein__cache_put(&named, &second, stored, STORED);
    assert_int_equal(count_files(), 2);
    assert_true(hit(&named, &second));
    assert_int_equal(chmod(dir, 0700), 0);
    assert_true(hit(&c, &key));
    if (geteuid() == 0) { /* another owner can only be had by root */
        assert_int_equal(chown(entry_path(&key), 12345, 12345), 0);
        assert_false(hit(&c, &key));
        assert_true(hit(&named, &key));
        assert_int_equal(chown(dir, 12345, 12345), 0);
        assert_false(hit(&c, &second));
        assert_true(hit(&named, &second));
    }
    ein__text_free(&key);
    ein__text_free(&second);
    ein__cache_fini(&c);
    ein__cache_fini(&named);
}

static void symlink_is_refused(void **state)
{
    cache c = made(NULL);
    text key = key_of("graph");
    char aside[128];
    (void)state;
    snprintf(aside, sizeof aside, "%s/aside", base);
    ein__cache_put(&c, &key, stored, STORED);
    assert_int_equal(rename(entry_path(&key), aside), 0);
    assert_int_equal(symlink(aside, entry_path(&key)), 0);
    assert_false(hit(&c, &key));
    ein__cache_put(&c, &key, stored, 1); /* replaces the link, does not write through it */
    struct stat s;
    assert_int_equal(lstat(entry_path(&key), &s), 0);
    assert_true(S_ISREG(s.st_mode));
    assert_int_equal(stat(aside, &s), 0);
    assert_int_equal(s.st_size, 80 + 5 * 24 + 8 + 32 + 16 + 16 + 0 + 32);
    assert_int_equal(unlink(entry_path(&key)), 0);
    assert_int_equal(mkfifo(entry_path(&key), 0600), 0);
    assert_false(hit(&c, &key)); /* and does not wait */
    ein__text_free(&key);
    ein__cache_fini(&c);
}

static void no_place_to_write(void **state)
{
    char path[128];
    text key = key_of("graph");
    int status;
    (void)state;
    snprintf(path, sizeof path, "%s/plain/ein", base);
    cache c = made(path);
    path[strlen(path) - 4] = 0;
    assert_int_equal(ein__file_publish(path, "x", 1, 0600, NULL), EIN_OK);
    ein__cache_put(&c, &key, stored, STORED);
    assert_false(hit(&c, &key));
    ein__cache_fini(&c);
    /* Without permission the cache stops writing. Root has every permission: become somebody else. */
    assert_int_equal(mkdir(dir, 0500), 0);
    pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(77);
        c = made(dir);
        ein__cache_put(&c, &key, stored, STORED);
        _exit(c.read_only && !hit(&c, &key) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77);
    assert_int_equal(count_files(), 0);
    ein__text_free(&key);
}

static void use_is_marked(void **state)
{
    cache c = made(NULL);
    text key = key_of("graph");
    struct stat s;
    (void)state;
    ein__cache_put(&c, &key, stored, STORED);
    set_age(entry_path(&key), HOUR);
    assert_true(hit(&c, &key));
    assert_int_equal(stat(entry_path(&key), &s), 0);
    assert_true(time(NULL) - s.st_mtime >= HOUR);
    set_age(entry_path(&key), 2 * DAY);
    assert_true(hit(&c, &key));
    assert_int_equal(stat(entry_path(&key), &s), 0);
    assert_true(time(NULL) - s.st_mtime < HOUR);
    ein__text_free(&key);
    ein__cache_fini(&c);
}

/* Ten keys, each older than the next, of 1024 bytes each. */
static void put_ten(cache *c, text keys[10])
{
    static char filler[1024];
    for (int i = 0; i < 10; i++) {
        char name[2] = {(char)('a' + i), 0};
        keys[i] = key_of(name);
        const section s = {SECTION_OBJECT, filler, 1024 - 80 - 2 * 24 - 16};
        ein__cache_put(c, &keys[i], &s, 1);
        if (exists(entry_path(&keys[i]))) set_age(entry_path(&keys[i]), (10 - i) * HOUR);
    }
}

static void free_ten(text keys[10])
{
    for (int i = 0; i < 10; i++) ein__text_free(&keys[i]);
}

static void size_is_limited(void **state)
{
    cache c = made(NULL);
    text keys[10], big = key_of("big");
    static char filler[5000];
    (void)state;
    setenv("EIN_CACHE_SIZE", "5K", 1);
    put_ten(&c, keys);
    /* Five fit; the sixth leaves four, c to f; the eighth four, e to h; the tenth four, g to j. */
    for (int i = 0; i < 10; i++) assert_int_equal(exists(entry_path(&keys[i])), i >= 6);
    const section s = {SECTION_OBJECT, filler, 4096};
    ein__cache_put(&c, &big, &s, 1); /* more than four fifths of it all: not stored, nothing lost for it */
    assert_false(exists(entry_path(&big)));
    assert_int_equal(count_files(), 4);
    free_ten(keys);
    ein__text_free(&big);
    ein__cache_fini(&c);
}

static void size_is_spelled(void **state)
{
    static const struct { const char *limit; int kept; } cases[] = {
        {"0", 10}, {"1M", 10}, {"1G", 10}, {"2048", 2}, {"2K", 2}, {"-1", 10}, {"2X", 10},
        {"2KB", 10}, {"", 10}, {"99999999999999999999", 10}, {"9999999999G", 10}, {"1", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int removed;
        cache c = made(NULL);
        text keys[10];
        setenv("EIN_CACHE_SIZE", cases[i].limit, 1);
        put_ten(&c, keys);
        if (count_files() != cases[i].kept) fail_msg("%s kept %d", cases[i].limit, count_files());
        assert_int_equal(ein__cache_trim(&c, 0, &removed, NULL), EIN_OK);
        assert_int_equal(removed, cases[i].kept);
        free_ten(keys);
        ein__cache_fini(&c);
    }
}

static void trims(void **state)
{
    cache c = made(NULL);
    text keys[10];
    char old[128], new[128], foreign[128];
    int removed = -1;
    (void)state;
    assert_int_equal(ein__cache_trim(&c, 0, &removed, NULL), EIN_OK); /* no directory yet */
    assert_int_equal(removed, 0);
    put_ten(&c, keys);
    snprintf(old, sizeof old, "%s/.ein-1-2-3.tmp", dir);
    snprintf(new, sizeof new, "%s/.ein-1-2-4.tmp", dir);
    snprintf(foreign, sizeof foreign, "%s/notes.txt", dir);
    assert_int_equal(ein__file_publish(old, "x", 1, 0600, NULL), EIN_OK);
    assert_int_equal(ein__file_publish(new, "x", 1, 0600, NULL), EIN_OK);
    assert_int_equal(ein__file_publish(foreign, "x", 1, 0600, NULL), EIN_OK);
    set_age(old, 2 * HOUR);
    set_age(foreign, 400 * DAY);
    assert_int_equal(ein__cache_trim(&c, 10240, &removed, NULL), EIN_OK);
    assert_int_equal(removed, 0);
    assert_true(!exists(old) && exists(new) && exists(foreign));
    assert_int_equal(ein__cache_trim(&c, 3 * 1024 + 1, &removed, NULL), EIN_OK);
    assert_int_equal(removed, 7);
    for (int i = 0; i < 10; i++) assert_int_equal(exists(entry_path(&keys[i])), i >= 7);
    assert_int_equal(ein__cache_trim(&c, 0, &removed, NULL), EIN_OK);
    assert_int_equal(removed, 3);
    assert_true(exists(foreign));
    free_ten(keys);
    ein__cache_fini(&c);
}

static void lists(void **state)
{
    cache c = made(NULL);
    text first = key_of("first"), second = key_of("second"), damaged = key_of("damaged");
    arena a = {NULL};
    error e = {0};
    const cache_entry *list;
    int n = -1;
    (void)state;
    assert_int_equal(ein__cache_list(&c, &a, &list, &n, &e), EIN_OK);
    assert_int_equal(n, 0);
    ein__cache_put(&c, &first, stored, STORED);
    ein__cache_put(&c, &second, stored, 1);
    assert_int_equal(ein__file_publish(entry_path(&damaged), "x", 1, 0600, NULL), EIN_OK);
    set_age(entry_path(&first), 100);
    set_age(entry_path(&second), 200);
    set_age(entry_path(&damaged), 300);
    assert_int_equal(ein__cache_list(&c, &a, &list, &n, &e), EIN_OK);
    assert_int_equal(n, 3); /* the latest first */
    assert_non_null(strstr(entry_path(&first), list[0].name));
    assert_string_equal(list[0].info, "two layers host:2 ?[31m");
    assert_true(list[0].age_s >= 100 && list[0].age_s < 110);
    assert_int_equal(list[0].bytes, 304);
    assert_string_equal(list[1].info, "");
    assert_int_equal(list[2].bytes, 1);
    assert_string_equal(list[2].info, "");
    assert_int_equal(chmod(dir, 0777), 0);
    assert_int_equal(ein__cache_list(&c, &a, &list, &n, &e), EIN_IO);
    assert_non_null(strstr(e.line, dir));
    ein__arena_free(&a);
    ein__text_free(&first);
    ein__text_free(&second);
    ein__text_free(&damaged);
    ein__cache_fini(&c);
}

/* Two processes write one key; whoever reads sees a whole entry. */
static void two_writers(void **state)
{
    cache c = made(NULL);
    text key = key_of("graph");
    pid_t writers[2];
    (void)state;
    ein__cache_put(&c, &key, stored, STORED);
    for (int w = 0; w < 2; w++) {
        writers[w] = fork();
        if (writers[w] != 0) continue;
        for (int i = 0; i < 200; i++) ein__cache_put(&c, &key, stored, STORED);
        _exit(c.read_only);
    }
    for (int i = 0; i < 500; i++) assert_true(hit(&c, &key));
    for (int w = 0; w < 2; w++) {
        int status;
        assert_int_equal(waitpid(writers[w], &status, 0), writers[w]);
        assert_int_equal(status, 0);
    }
    assert_true(hit(&c, &key));
    assert_int_equal(count_files(), 1);
    ein__text_free(&key);
    ein__cache_fini(&c);
}

static ein_status use_all(const text *key)
{
    cache c;
    arena a = {NULL};
    const cache_entry *list;
    int n;
    TRY(ein__cache_init(&c, NULL));
    ein__cache_put(&c, key, stored, STORED);
    (void)hit(&c, key);
    ein_status status = ein__cache_list(&c, &a, &list, &n, NULL);
    if (status == EIN_OK) status = ein__cache_trim(&c, 1 << 20, &n, NULL);
    ein__arena_free(&a);
    ein__cache_fini(&c);
    return status;
}

static void out_of_memory(void **state)
{
    text key = key_of("graph");
    long before = ein__alloc_live(), used = 0, n = 0;
    (void)state;
    while (n <= used) {
        long start = ein__alloc_count();
        ein__alloc_fail_at(++n);
        ein_status s = use_all(&key);
        ein__alloc_fail_at(0);
        used = ein__alloc_count() - start;
        assert_true(s == EIN_OK || (s == EIN_NO_MEMORY && n <= used));
        assert_int_equal(ein__alloc_live(), before);
        assert_true(count_files() <= 1); /* no temporary file */
    }
    assert_true(n > 8);
    cache c = made(NULL);
    assert_true(hit(&c, &key));
    ein__cache_fini(&c);
    ein__text_free(&key);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(round_trip), TEST(where), TEST(off), TEST(truncation), TEST(corruption), TEST(hostile_fields),
        TEST(too_large), TEST(key_is_compared), TEST(who_may_write), TEST(symlink_is_refused),
        TEST(no_place_to_write), TEST(use_is_marked), TEST(size_is_limited), TEST(size_is_spelled),
        TEST(trims), TEST(lists), TEST(two_writers), TEST(out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
