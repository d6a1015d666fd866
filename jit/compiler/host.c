/* SPDX-License-Identifier: Apache-2.0 */
/* The system's C compiler. The source goes by file into a private folder, the object comes back as bytes, the
 * folder is removed. The options: vectorize every loop over threads; form no FMA but the spelled ones; no
 * errno and no traps, so that selects need no branch; what is an error in CUDA C++ is one here. */
#define _XOPEN_SOURCE 700
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "jit/compiler/compiler.h"
#include "jit/compiler/object.h"
#include "jit/compiler/process.h"
#include "jit/compiler/report.h"
#include "jit/compiler/scratch.h"

#define GCC_ONLY "-fvect-cost-model=dynamic" /* clang, which needs it not, refuses it */
static const char *const options[] = {
    "-std=c11", "-O2", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-march=native", "-fPIC",
    "-shared", "-Wl,-z,defs", "-Werror=implicit-function-declaration", "-Werror=int-conversion",
    "-Werror=incompatible-pointer-types", GCC_ONLY};
enum { N_OPTIONS = sizeof options / sizeof *options, LOG_LIMIT = 1 << 20, OBJECT_LIMIT = 1 << 28 };

static ein_status find_compiler(text *path, error *e)
{
    static const char *const names[] = {"cc", "gcc", "clang"};
    const char *named = getenv("EIN_CC");
    if (named != NULL && named[0] != 0) {
        if (ein__process_find(named, path)) return EIN_OK;
        TRY(ein__text_status(path));
        return ein__fail(e, EIN_NO_DEVICE, "no C compiler: EIN_CC is \"%.160s\", which is no program", named);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (ein__process_find(names[i], path)) return EIN_OK;
        TRY(ein__text_status(path));
    }
    return ein__fail(e, EIN_NO_DEVICE,
                     "no C compiler: looked for cc, gcc and clang on PATH; EIN_CC may name one");
}

/* What the compiler said, when it did not give an object. */
static ein_status explain(const char *compiler, int code, const text *log, const char *source, error *e)
{
    ein__compiler_report(e, ein__text_get(log), source);
    if (strstr(ein__text_get(log), "No space left on device") != NULL)
        return ein__fail(e, EIN_IO, "%.160s: no space left for temporary files", compiler);
    if (code < 0)
        return ein__fail(e, EIN_COMPILE_FAILED, "%.160s was killed by signal %d", compiler, -code);
    if (code != 0)
        return ein__fail(e, EIN_COMPILE_FAILED, "%.160s failed with exit code %d", compiler, code);
    return ein__fail(e, EIN_COMPILE_FAILED, "%.160s made no object", compiler);
}

typedef struct job_files { text compiler, folder, source, object, log; } job_files;

static void free_files(job_files *f)
{
    ein__scratch_remove(&f->folder);
    ein__text_free(&f->compiler);
    ein__text_free(&f->folder);
    ein__text_free(&f->source);
    ein__text_free(&f->object);
    ein__text_free(&f->log);
}

static ein_status make_files(job_files *f, error *e)
{
    TRY(find_compiler(&f->compiler, e));
    TRY(ein__scratch_make_any(&f->folder, e));
    ein__text_add(&f->source, "%s/unit.c", f->folder.bytes);
    ein__text_add(&f->object, "%s/unit.so", f->folder.bytes);
    ein__text_add(&f->log, "%s/log", f->folder.bytes);
    if (f->source.failed || f->object.failed || f->log.failed) return EIN_NO_MEMORY;
    return EIN_OK;
}

/* With the first `n_options` options; what it said in `log`. */
static ein_status start(const job_files *f, int n_options, text *log, int *code, error *e)
{
    const char *argv[N_OPTIONS + 6] = {f->compiler.bytes, "-o", f->object.bytes, f->source.bytes, "-lm"};
    for (int i = 0; i < n_options; i++) argv[5 + i] = options[i];
    TRY(ein__process_run(argv, f->folder.bytes, f->log.bytes, code, e));
    ein__text_free(log);
    return ein__file_read(f->log.bytes, LOG_LIMIT, false, log, e);
}

static ein_status compile(const job_files *f, const char *source, text *object, text *log, error *e)
{
    int code;
    TRY(ein__file_publish(f->source.bytes, source, strlen(source), 0600, e));
    TRY(start(f, N_OPTIONS, log, &code, e));
    if (code != 0 && strstr(ein__text_get(log), GCC_ONLY) != NULL)
        TRY(start(f, N_OPTIONS - 1, log, &code, e));
    if (code != 0 || access(f->object.bytes, F_OK) != 0)
        return explain(f->compiler.bytes, code, log, source, e);
    TRY(ein__file_read(f->object.bytes, OBJECT_LIMIT, false, object, e));
    if (object->n == 0) return explain(f->compiler.bytes, code, log, source, e);
    ein__object_seal(object);
    return ein__text_status(object);
}

ein_status ein__host_compile(const char *source, text *object, error *e)
{
    job_files f = {0};
    text log = {0}, bytes = {0};
    ein_status status = make_files(&f, e);
    if (status == EIN_OK) status = compile(&f, source, &bytes, &log, e);
    if (status == EIN_OK) {
        ein__text_bytes(object, bytes.bytes, bytes.n);
        status = ein__text_status(object);
    }
    ein__text_free(&bytes);
    ein__text_free(&log);
    free_files(&f);
    return status;
}

/* -march=native reads the CPU: the lines of its first core that name it and its instruction sets. */
static ein_status add_cpu(text *key)
{
    static const char *const names[] = {"vendor_id", "cpu family", "model", "flags", "Features", "isa",
                                        "CPU implementer", "CPU architecture", "CPU variant", "CPU part"};
    text info = {0};
    ein_status status = ein__file_read("/proc/cpuinfo", 1 << 24, true, &info, NULL);
    for (const char *p = ein__text_get(&info); status == EIN_OK && *p != 0 && *p != '\n';) {
        const size_t n = strcspn(p, "\n");
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strncmp(p, names[i], strlen(names[i])) == 0) ein__key_bytes(key, 5, p, n);
        p += n + (p[n] == '\n');
    }
    ein__text_free(&info);
    if (status != EIN_IO) return status;
    char host[256] = ""; /* no such file: objects of this machine are good on this machine only */
    gethostname(host, sizeof host - 1);
    ein__key_bytes(key, 6, host, strlen(host));
    return EIN_OK;
}

static ein_status add_version(const job_files *f, text *key, error *e)
{
    const char *argv[] = {f->compiler.bytes, "--version", NULL};
    text log = {0};
    int code;
    TRY(ein__process_run(argv, f->folder.bytes, f->log.bytes, &code, e));
    ein_status status = ein__file_read(f->log.bytes, LOG_LIMIT, false, &log, e);
    const char *line = ein__text_get(&log);
    if (status == EIN_OK && (code != 0 || line[0] == 0))
        status = ein__fail(e, EIN_NO_DEVICE, "%.160s does not answer --version", f->compiler.bytes);
    ein__key_bytes(key, 3, line, strcspn(line, "\n"));
    ein__text_free(&log);
    return status;
}

static ein_status add_identity(const job_files *f, text *key, error *e)
{
    struct stat s;
    char path[PATH_MAX];
    if (realpath(f->compiler.bytes, path) == NULL || stat(path, &s) != 0)
        return ein__fail(e, EIN_NO_DEVICE, "no C compiler: %.160s is gone", f->compiler.bytes);
    ein__key_bytes(key, 1, path, strlen(path));
    ein__key_int(key, 2, s.st_size);
    ein__key_int(key, 2, s.st_mtim.tv_sec);
    ein__key_int(key, 2, s.st_mtim.tv_nsec);
    TRY(add_version(f, key, e));
    for (int i = 0; i < N_OPTIONS; i++) ein__key_bytes(key, 4, options[i], strlen(options[i]));
    return add_cpu(key);
}

ein_status ein__host_identity(text *key, error *e)
{
    job_files f = {0};
    text own = {0};
    ein_status status = make_files(&f, e);
    if (status == EIN_OK) status = add_identity(&f, &own, e);
    if (status == EIN_OK) status = ein__text_status(&own);
    if (status == EIN_OK) {
        ein__text_bytes(key, own.bytes, own.n);
        status = ein__text_status(key);
    }
    ein__text_free(&own);
    free_files(&f);
    return status;
}
