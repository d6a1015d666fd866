/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
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
#include <unistd.h>
#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/file.h"

static char root[64];

/* "root/name"; a few live at once. */
static const char *in_root(const char *name)
{
    static char paths[4][256];
    static int next;
    char *p = paths[next++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", root, name);
    return p;
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/ein-test-file-XXXXXX");
    return mkdtemp(root) == NULL;
}

static int remove_root(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

/* Files in the root folder, this name left out. */
static int files_but(const char *name)
{
    char command[256];
    int n = -1;
    snprintf(command, sizeof command, "ls -A '%s' | grep -vcxF '%s'", root, name);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &n), 1);
    pclose(f);
    return n;
}

static void publishes_and_reads(void **state)
{
    static const size_t sizes[] = {0, 1, 16383, 16384, 16385, 100000};
    static char bytes[100000];
    const char *path = in_root("file");
    struct stat s;
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i * 7 + i / 251);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        text t = {0};
        ein__text_add(&t, "ab");
        assert_int_equal(ein__file_publish(path, bytes, sizes[i], 0600, NULL), EIN_OK);
        assert_int_equal(ein__file_read(path, sizes[i], false, &t, NULL), EIN_OK);
        assert_int_equal(t.n, sizes[i] + 2);
        assert_memory_equal(t.bytes, "ab", 2);
        if (sizes[i] > 0) assert_memory_equal(t.bytes + 2, bytes, sizes[i]);
        ein__text_free(&t);
    }
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    assert_int_equal(files_but("file"), 0);
}

static void limits_size(void **state)
{
    text t = {0};
    error e = {0};
    (void)state;
    assert_int_equal(ein__file_publish(in_root("ten"), "0123456789", 10, 0600, NULL), EIN_OK);
    ein__text_add(&t, "kept");
    assert_int_equal(ein__file_read(in_root("ten"), 9, true, &t, &e), EIN_IO);
    assert_int_equal(errno, EFBIG);
    assert_non_null(strstr(e.line, "more than 9 bytes"));
    assert_string_equal(ein__text_get(&t), "kept");
    /* No size is known of a file in /proc. */
    assert_int_equal(ein__file_read("/proc/self/status", 4, true, &t, &e), EIN_IO);
    assert_string_equal(ein__text_get(&t), "kept");
    assert_int_equal(ein__file_read("/proc/self/status", 1 << 20, true, &t, &e), EIN_OK);
    assert_memory_equal(t.bytes, "keptName:", 9);
    ein__text_free(&t);
}

static void refuses_what_is_no_file(void **state)
{
    text t = {0};
    error e = {0};
    (void)state;
    assert_int_equal(ein__file_read(in_root("none"), 99, true, &t, &e), EIN_IO);
    assert_int_equal(errno, ENOENT);
    assert_non_null(strstr(e.line, "none\": No such file"));
    assert_int_equal(ein__file_read(root, 99, true, &t, &e), EIN_IO);
    assert_non_null(strstr(e.line, "not a regular file"));
    assert_int_equal(mkfifo(in_root("pipe"), 0600), 0);
    assert_int_equal(ein__file_read(in_root("pipe"), 99, true, &t, &e), EIN_IO); /* and does not wait */
    assert_int_equal(ein__file_publish(in_root("target"), "x", 1, 0600, NULL), EIN_OK);
    assert_int_equal(symlink(in_root("target"), in_root("link")), 0);
    assert_int_equal(ein__file_read(in_root("link"), 99, false, &t, &e), EIN_IO);
    assert_int_equal(errno, ELOOP);
    assert_int_equal(t.n, 0);
    assert_int_equal(ein__file_read(in_root("link"), 99, true, &t, &e), EIN_OK);
    assert_string_equal(ein__text_get(&t), "x");
    ein__text_free(&t);
}

static void leaves_nothing_behind(void **state)
{
    error e = {0};
    (void)state;
    assert_int_equal(mkdir(in_root("taken"), 0700), 0);
    assert_int_equal(mkdir(in_root("taken/full"), 0700), 0);
    int before = files_but("");
    /* A directory has the name. */
    assert_int_equal(ein__file_publish(in_root("taken"), "x", 1, 0600, &e), EIN_IO);
    assert_int_equal(errno, EISDIR);
    assert_non_null(strstr(e.line, "taken"));
    assert_int_equal(files_but(""), before);
    assert_int_equal(ein__file_publish(in_root("missing/file"), "x", 1, 0600, &e), EIN_IO);
    assert_int_equal(errno, ENOENT);
    /* A full disk. */
    int fd = open("/dev/full", O_WRONLY);
    if (fd >= 0) {
        assert_int_equal(ein__file_write(fd, "/dev/full", "x", 1, &e), EIN_IO);
        assert_int_equal(errno, ENOSPC);
        assert_non_null(strstr(e.line, "No space"));
        close(fd);
    }
}

static void makes_directories(void **state)
{
    error e = {0};
    struct stat s;
    (void)state;
    assert_int_equal(ein__file_make_dirs(in_root("a/b//c/"), &e), EIN_OK);
    assert_int_equal(ein__file_make_dirs(in_root("a/b/c"), &e), EIN_OK);
    assert_int_equal(stat(in_root("a/b"), &s), 0);
    assert_int_equal(s.st_mode & 0777, 0700);
    assert_int_equal(stat(in_root("a/b/c"), &s), 0);
    assert_true(S_ISDIR(s.st_mode));
    assert_int_equal(ein__file_publish(in_root("plain"), "x", 1, 0600, NULL), EIN_OK);
    assert_int_equal(ein__file_make_dirs(in_root("plain"), &e), EIN_IO);
    assert_int_equal(errno, ENOTDIR);
    assert_int_equal(ein__file_make_dirs(in_root("plain/d"), &e), EIN_IO);
    assert_non_null(strstr(e.line, "plain"));
    assert_int_equal(ein__file_make_dirs("", &e), EIN_IO);
}

static void temporary_names_differ(void **state)
{
    text paths[50] = {{0}};
    int fds[50];
    (void)state;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(ein__file_temp(root, ".so", 0600, &paths[i], &fds[i], NULL), EIN_OK);
        close(fds[i]);
        unlink(paths[i].bytes); /* a name is new even when the file is gone */
        assert_string_equal(paths[i].bytes + paths[i].n - 3, ".so");
        for (int j = 0; j < i; j++) assert_string_not_equal(paths[i].bytes, paths[j].bytes);
    }
    for (int i = 0; i < 50; i++) ein__text_free(&paths[i]);
}

static void maps(void **state)
{
    static char bytes[100000];
    file_map m = {bytes, 1};
    error e = {0};
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i * 7 + i / 251);
    assert_int_equal(ein__file_publish(in_root("mapped"), bytes, sizeof bytes, 0400, NULL), EIN_OK);
    assert_int_equal(ein__file_map(in_root("mapped"), &m, NULL), EIN_OK);
    assert_int_equal(m.n, sizeof bytes);
    assert_int_equal(unlink(in_root("mapped")), 0); /* the bytes stay */
    assert_memory_equal(m.bytes, bytes, sizeof bytes);
    ein__file_unmap(&m);
    assert_true(m.bytes == NULL && m.n == 0);
    ein__file_unmap(&m);
    assert_int_equal(ein__file_publish(in_root("mapped"), "", 0, 0600, NULL), EIN_OK);
    assert_int_equal(ein__file_map(in_root("mapped"), &m, NULL), EIN_OK);
    assert_true(m.bytes == NULL && m.n == 0);
    assert_int_equal(ein__file_map(in_root("none"), &m, &e), EIN_IO);
    assert_int_equal(errno, ENOENT);
    assert_non_null(strstr(e.line, "cannot open"));
    assert_int_equal(ein__file_map(root, &m, &e), EIN_IO);
    assert_int_equal(errno, EISDIR);
    assert_non_null(strstr(e.line, "not a regular file"));
    assert_int_equal(ein__file_map("/dev/null", &m, &e), EIN_IO);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ein__file_map(in_root("pipe"), &m, &e), EIN_IO); /* and does not wait */
    assert_true(m.bytes == NULL && m.n == 0);
}

/* Kilobytes of the map at `bytes` that are in memory, from the process's list of maps. */
static long resident(const void *bytes)
{
    char line[512];
    unsigned long first, end;
    long kb = -1;
    bool here = false;
    FILE *f = fopen("/proc/self/smaps", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL && kb < 0) {
        if (sscanf(line, "%lx-%lx ", &first, &end) == 2) here = first <= (uintptr_t)bytes && (uintptr_t)bytes < end;
        if (here) sscanf(line, "Rss: %ld", &kb);
    }
    fclose(f);
    return kb;
}

static void drops_pages(void **state)
{
    enum { N = 1 << 20 };
    char *bytes = malloc(N);
    file_map m;
    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < N; i++) bytes[i] = (char)(i * 7 + i / 251);
    assert_int_equal(ein__file_publish(in_root("dropped"), bytes, N, 0600, NULL), EIN_OK);
    assert_int_equal(ein__file_map(in_root("dropped"), &m, NULL), EIN_OK);
    assert_memory_equal(m.bytes, bytes, N);
    long before = resident(m.bytes);
    assert_true(before >= N / 1024);
    ein__file_drop(m.bytes + 1, 4096); /* no whole page */
    ein__file_drop(m.bytes + 5, 0);
    assert_int_equal(resident(m.bytes), before);
    ein__file_drop(m.bytes + 1, N - 1);
    assert_true(resident(m.bytes) <= 64);
    assert_memory_equal(m.bytes, bytes, N); /* they come back */
    ein__file_unmap(&m);
    free(bytes);
}

static void publishes_pieces(void **state)
{
    text t = {0};
    (void)state;
    assert_int_equal(ein__file_publish_pieces(in_root("pieces"), (file_piece[]){{"ab", 2}, {NULL, 0}, {"c", 1}}, 3, 0600, NULL),
                     EIN_OK);
    assert_int_equal(ein__file_read(in_root("pieces"), 9, true, &t, NULL), EIN_OK);
    assert_string_equal(ein__text_get(&t), "abc");
    ein__text_free(&t);
    assert_int_equal(ein__file_publish_pieces(in_root("pieces"), NULL, 0, 0600, NULL), EIN_OK);
    assert_int_equal(ein__file_read(in_root("pieces"), 9, true, &t, NULL), EIN_OK);
    assert_int_equal(t.n, 0);
    ein__text_free(&t);
}

/* Of a long path the end is said: the file's name. */
static void long_paths_are_cut_in_front(void **state)
{
    char path[400];
    error e = {0};
    text t = {0};
    (void)state;
    memset(path, '/', sizeof path);
    strcpy(path + 300, "not-there.x");
    assert_int_equal(ein__file_read(path, 9, true, &t, &e), EIN_IO);
    assert_memory_equal(e.line, "cannot open \"...///", 19);
    assert_non_null(strstr(e.line, "/not-there.x\": No such file"));
}

static void fill(char *bytes, char c) { memset(bytes, c, 50000); }

/* While two processes publish, a reader sees one or the other, whole. */
static void readers_see_whole_files(void **state)
{
    static char bytes[50000];
    const char *path = in_root("shared");
    pid_t writers[2];
    (void)state;
    fill(bytes, 'a');
    assert_int_equal(ein__file_publish(path, bytes, sizeof bytes, 0600, NULL), EIN_OK);
    for (int w = 0; w < 2; w++) {
        writers[w] = fork();
        if (writers[w] != 0) continue;
        int bad = 0;
        fill(bytes, (char)('a' + w));
        for (int i = 0; i < 200; i++)
            bad += ein__file_publish(path, bytes, sizeof bytes, 0600, NULL) != EIN_OK;
        _exit(bad != 0);
    }
    for (int i = 0; i < 200; i++) {
        text t = {0};
        assert_int_equal(ein__file_read(path, 1 << 20, false, &t, NULL), EIN_OK);
        assert_int_equal(t.n, sizeof bytes);
        fill(bytes, t.bytes[0]);
        assert_memory_equal(t.bytes, bytes, sizeof bytes);
        ein__text_free(&t);
    }
    for (int w = 0; w < 2; w++) {
        int status;
        assert_int_equal(waitpid(writers[w], &status, 0), writers[w]);
        assert_int_equal(status, 0);
    }
}

static void out_of_memory(void **state)
{
    long before = ein__alloc_live(), n = 0;
    ein_status s;
    (void)state;
    do {
        text t = {0};
        ein__alloc_fail_at(++n);
        s = ein__file_make_dirs(in_root("memory"), NULL);
        if (s == EIN_OK) s = ein__file_publish(in_root("memory/f"), "x", 1, 0600, NULL);
        if (s == EIN_OK) s = ein__file_read(in_root("memory/f"), 9, false, &t, NULL);
        ein__alloc_fail_at(0);
        ein__text_free(&t);
        assert_true(s == EIN_OK || s == EIN_NO_MEMORY);
        assert_int_equal(ein__alloc_live(), before);
    } while (s != EIN_OK);
    assert_true(n > 2);
    assert_int_equal(rmdir(in_root("memory")), -1);
    assert_int_equal(unlink(in_root("memory/f")), 0);
    assert_int_equal(rmdir(in_root("memory")), 0); /* no temporary file was left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(publishes_and_reads), cmocka_unit_test(limits_size),
        cmocka_unit_test(refuses_what_is_no_file), cmocka_unit_test(leaves_nothing_behind),
        cmocka_unit_test(maps), cmocka_unit_test(drops_pages), cmocka_unit_test(publishes_pieces), cmocka_unit_test(long_paths_are_cut_in_front),
        cmocka_unit_test(makes_directories), cmocka_unit_test(temporary_names_differ),
        cmocka_unit_test(readers_see_whole_files), cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
