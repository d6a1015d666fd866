/* SPDX-License-Identifier: Apache-2.0 */
/* nvrtc_gate FOLDER [--jobs N]: compiles every *.body of a folder that EIN_DUMP filled, for every
 * architecture the library is meant for; no GPU needed. Fails on a compile error, a spill or a stack frame,
 * and if machine code differs the second time: each kernel is compiled again for one of the architectures. (Where there
 * is a driver, NVRTC may answer the second time from its own cache.)
 * Exit code: 0 all good; 1 something failed, or there was nothing to check; 3 no NVRTC. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "jit/compiler/compiler.h"

static const char *const architectures[] = {"sm_80", "sm_90", "sm_100"};
enum { N_ARCHITECTURES = 3, GROUP = 16, MAX_JOBS = 64, BODY_LIMIT = 1 << 24 };

typedef struct body { char *file; kernel_text kernel; } body;
typedef struct body_list { int n, room; body *items; } body_list;

/* One unit: up to GROUP kernels for one architecture. */
typedef struct unit {
    int first, n, architecture;
    nvrtc_result worst;
    double ms;
    int failed; /* kernels that do not pass */
    bool twice; /* compiled again, and the same bits */
} unit;

typedef struct gate {
    arena a;
    body_list bodies;
    int n_units;
    unit *units;
    atomic_int next;
} gate;

static bool ends_in(const char *s, const char *end)
{
    const size_t n = strlen(s), m = strlen(end);
    return n > m && strcmp(s + n - m, end) == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const body *)a)->file, ((const body *)b)->file);
}

static ein_status read_body(gate *g, const char *folder, const char *file)
{
    text path = {0}, content = {0};
    body b = {0};
    error e = {0};
    int threads = 0, used = 0;
    ein__text_add(&path, "%s/%s", folder, file);
    ein_status status = ein__file_read(ein__text_get(&path), BODY_LIMIT, true, &content, &e);
    if (status == EIN_OK && sscanf(ein__text_get(&content), "threads %d%n", &threads, &used) != 1)
        status = ein__fail(&e, EIN_INVALID, "its first line is not \"threads N\"");
    if (status == EIN_OK) status = ein__kernel_make(&g->a, content.bytes + used, threads, &b.kernel);
    if (status != EIN_OK) printf("%s: %s; %s\n", file, ein_status_name(status), e.line);
    b.file = ein__arena_strdup(&g->a, file);
    ein__text_free(&path);
    ein__text_free(&content);
    if (status == EIN_OK) PUSH(&g->a, &g->bodies, b);
    return status;
}

static ein_status read_folder(gate *g, const char *folder)
{
    DIR *dir = opendir(folder);
    ein_status status = dir != NULL ? EIN_OK : EIN_IO;
    for (struct dirent *d; dir != NULL && status == EIN_OK && (d = readdir(dir)) != NULL;)
        if (ends_in(d->d_name, ".body")) status = read_body(g, folder, d->d_name);
    if (dir != NULL) closedir(dir);
    if (g->bodies.n > 0) qsort(g->bodies.items, (size_t)g->bodies.n, sizeof(body), by_name);
    return status;
}

static ein_status make_units(gate *g)
{
    const int groups = (g->bodies.n + GROUP - 1) / GROUP;
    NEW(&g->a, g->units, groups * N_ARCHITECTURES);
    for (int i = 0; i < groups; i++)
        for (int k = 0; k < N_ARCHITECTURES; k++) {
            unit *u = &g->units[g->n_units++];
            u->first = i * GROUP;
            u->n = g->bodies.n - u->first < GROUP ? g->bodies.n - u->first : GROUP;
            u->architecture = k;
            u->twice = i % N_ARCHITECTURES == k;
        }
    return EIN_OK;
}

static bool good(const nvrtc_result *r)
{
    return r->registers > 0 && r->spill_bytes == 0 && r->stack_bytes == 0;
}

/* Kernels [first, first + n) of one unit; false and `why` if they do not pass. */
static bool compile(const gate *g, const unit *u, int first, int n, text *object, nvrtc_result *r, text *why)
{
    const kernel_text *list[GROUP];
    text source = {0};
    error e = {0};
    for (int i = 0; i < n; i++) list[i] = &g->bodies.items[first + i].kernel;
    ein_status status = ein__kernel_source(READ_CUDA, false, list, n, &source);
    if (status == EIN_OK)
        status = ein__nvrtc_compile(source.bytes, architectures[u->architecture], object, r, &e);
    if (status != EIN_OK)
        ein__text_add(why, "%s; %s\n%s\n", ein_status_name(status), e.line, e.detail != NULL ? e.detail : "");
    else if (!good(r))
        ein__text_add(why, "%d bytes spilled, %d bytes of stack, %d registers", r->spill_bytes,
                      r->stack_bytes, r->registers);
    ein__error_reset(&e);
    ein__text_free(&source);
    return status == EIN_OK && good(r);
}

static bool compile_twice(const gate *g, const unit *u, nvrtc_result *r, text *why)
{
    text once = {0}, again = {0};
    nvrtc_result second;
    bool passed = compile(g, u, u->first, u->n, &once, r, why) && compile(g, u, u->first, u->n, &again, &second, why);
    if (passed && (once.n == 0 || once.n != again.n || memcmp(once.bytes, again.bytes, once.n) != 0)) {
        ein__text_add(why, "compiled twice: %zu and %zu bytes that differ", once.n, again.n);
        passed = false;
    }
    ein__text_free(&once);
    ein__text_free(&again);
    return passed;
}

/* A group that fails is compiled again one by one, to name the kernel. */
static void check(const gate *g, unit *u)
{
    const char *target = architectures[u->architecture];
    text why = {0};
    const bool passed = u->twice ? compile_twice(g, u, &u->worst, &why)
                                 : compile(g, u, u->first, u->n, NULL, &u->worst, &why);
    u->ms = u->worst.compile_ms;
    for (int i = u->first; !passed && i < u->first + u->n; i++) {
        text one = {0};
        nvrtc_result r;
        if (!compile(g, u, i, 1, NULL, &r, &one)) {
            printf("%s %s: %s\n", target, g->bodies.items[i].file, ein__text_get(&one));
            u->failed++;
        }
        ein__text_free(&one);
    }
    if (!passed && u->failed == 0) { /* only together */
        u->failed = u->n;
        printf("%s %s and %d more: %s\n", target, g->bodies.items[u->first].file, u->n - 1,
               ein__text_get(&why));
    }
    ein__text_free(&why);
}

static void *work(void *context)
{
    gate *g = context;
    for (int i; (i = atomic_fetch_add(&g->next, 1)) < g->n_units;) check(g, &g->units[i]);
    return NULL;
}

static void run(gate *g, int jobs)
{
    pthread_t threads[MAX_JOBS];
    int started = 0;
    while (started < jobs - 1 && pthread_create(&threads[started], NULL, work, g) == 0) started++;
    work(g);
    while (started > 0) pthread_join(threads[--started], NULL);
}

static bool print_table(const gate *g)
{
    int all_failed = 0;
    printf("%-8s %8s %7s %10s %6s %6s %9s\n", "target", "kernels", "failed", "registers", "spill", "stack",
           "ms");
    for (int k = 0; k < N_ARCHITECTURES; k++) {
        nvrtc_result w = {0};
        double ms = 0.0;
        int failed = 0;
        for (int i = 0; i < g->n_units; i++) {
            const unit *u = &g->units[i];
            if (u->architecture != k) continue;
            if (u->worst.registers > w.registers) w.registers = u->worst.registers;
            if (u->worst.spill_bytes > w.spill_bytes) w.spill_bytes = u->worst.spill_bytes;
            if (u->worst.stack_bytes > w.stack_bytes) w.stack_bytes = u->worst.stack_bytes;
            ms += u->ms;
            failed += u->failed;
        }
        printf("%-8s %8d %7d %10d %6d %6d %9.0f\n", architectures[k], g->bodies.n, failed, w.registers,
               w.spill_bytes, w.stack_bytes, ms);
        all_failed += failed;
    }
    return all_failed == 0;
}

static int check_folder(gate *g, const char *folder, int jobs)
{
    nvrtc_result r;
    error e = {0};
    if (ein__nvrtc_compile("", architectures[0], NULL, &r, &e) == EIN_NO_DEVICE) {
        printf("%s\n", e.line);
        return 3;
    }
    ein__error_reset(&e);
    if (read_folder(g, folder) != EIN_OK || g->bodies.n == 0) {
        printf("nothing to check in %s\n", folder);
        return 1;
    }
    if (make_units(g) != EIN_OK) return 1;
    run(g, jobs);
    return print_table(g) ? 0 : 1;
}

int main(int argc, char **argv)
{
    gate g = {0};
    int jobs = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (argc == 4 && strcmp(argv[2], "--jobs") == 0) jobs = atoi(argv[3]);
    else if (argc != 2) {
        fprintf(stderr, "usage: nvrtc_gate FOLDER [--jobs N]\n");
        return 1;
    }
    if (jobs < 1) jobs = 1;
    if (jobs > MAX_JOBS) jobs = MAX_JOBS;
    const int code = check_folder(&g, argv[1], jobs);
    ein__arena_free(&g.a);
    return code;
}
