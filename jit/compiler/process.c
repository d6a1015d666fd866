/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "jit/compiler/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/arena.h"

extern char **environ;

static bool is_program(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode) && access(path, X_OK) == 0;
}

bool ein__process_find(const char *name, text *path)
{
    const size_t before = path->n;
    const char *list = getenv("PATH");
    if (strchr(name, '/') != NULL) {
        ein__text_add(path, "%s", name);
        return !path->failed && is_program(name);
    }
    if (list == NULL) list = "/usr/local/bin:/usr/bin:/bin";
    for (;; list++) {
        const int n = (int)strcspn(list, ":");
        path->n = before;
        ein__text_add(path, "%.*s/%s", n, list, name);
        if (path->failed) return false;
        if (n != 0 && is_program(path->bytes + before)) return true;
        list += n;
        if (*list == 0) break;
    }
    path->n = before;
    return false;
}

static bool named(const char *setting, const char *name)
{
    const size_t n = strlen(name);
    return strncmp(setting, name, n) == 0 && setting[n] == '=';
}

/* This process's environment but for the three settings that are made here. */
static char **make_environment(arena *a, const char *folder)
{
    int n = 0, used = 0;
    while (environ != NULL && environ[n] != NULL) n++;
    char **out = ein__arena_get(a, (size_t)n + 3, sizeof *out);
    char *temporary = ein__arena_printf(a, "TMPDIR=%s", folder);
    char *language = ein__arena_strdup(a, "LC_ALL=C");
    if (out == NULL || temporary == NULL || language == NULL) return NULL;
    for (int i = 0; i < n; i++)
        if (!named(environ[i], "TMPDIR") && !named(environ[i], "LC_ALL") && !named(environ[i], "LANGUAGE"))
            out[used++] = environ[i];
    out[used++] = temporary;
    out[used++] = language;
    return out;
}

/* The caller may block signals or ignore SIGPIPE; the program starts as from a terminal. */
static int start(const char *const *argv, char **environment, const char *log, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int problem = posix_spawn_file_actions_init(&files);
    if (problem != 0) return problem;
    problem = posix_spawnattr_init(&how);
    if (problem == 0) {
        posix_spawnattr_setsigmask(&how, &none);
        posix_spawnattr_setsigdefault(&how, &all);
        posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        problem = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
        if (problem == 0)
            problem = posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (problem == 0) problem = posix_spawn_file_actions_adddup2(&files, 1, 2);
        if (problem == 0)
            problem = posix_spawn(pid, argv[0], &files, &how, (char *const *)(uintptr_t)argv, environment);
        posix_spawnattr_destroy(&how);
    }
    posix_spawn_file_actions_destroy(&files);
    return problem;
}

ein_status ein__process_run(const char *const *argv, const char *folder, const char *log, int *code,
                            error *e)
{
    arena a = {NULL};
    pid_t pid = 0, ended;
    int status = 0;
    char **environment = make_environment(&a, folder);
    int problem = environment != NULL ? start(argv, environment, log, &pid) : ENOMEM;
    ein__arena_free(&a);
    if (problem == ENOMEM) return EIN_NO_MEMORY;
    if (problem != 0) return ein__fail(e, EIN_IO, "cannot start %.160s: error %d", argv[0], problem);
    do {
        ended = waitpid(pid, &status, 0);
    } while (ended < 0 && errno == EINTR);
    /* A process that ignores SIGCHLD learns no exit code: then what the program made must speak for it. */
    if (ended < 0) status = 0;
    *code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    return EIN_OK;
}
