/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fake/fiber_twin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"

enum { BLOCKS = 64 };

static int number_of(const char *name, int otherwise)
{
    const char *s = getenv(name);
    return s != NULL && s[0] != 0 ? atoi(s) : otherwise;
}

bool twin_wanted(int launches_before, long long blocks)
{
    return getenv("RIG_HOST_ONLY") == NULL && launches_before < number_of("EIN_TWINS", 2) && blocks > 0 &&
           blocks <= BLOCKS;
}

bool twin_compile(const kernel_text *const *kernels, int n, fiber_module **out, text *why)
{
    text source = {0}, object = {0};
    error e = {0};
    ein_status status = ein__kernel_source(READ_CUDA, false, kernels, n, &source);
    if (status == EIN_OK) status = fiber_compile(source.bytes, &object, &e);
    if (status == EIN_OK) status = fiber_load(object.bytes, object.n, out, &e);
    if (status != EIN_OK) ein__text_add(why, "%s\n%s", e.line, e.detail != NULL ? e.detail : "");
    ein__text_free(&source);
    ein__text_free(&object);
    ein__error_reset(&e);
    return status == EIN_OK;
}

static bool same(const twin_memory *m, const char *a, const char *b, size_t *at)
{
    const size_t size = (size_t)ein__dtype_bytes(m->dtype);
    for (*at = 0; *at < m->bytes; *at += size) {
        if (memcmp(a + *at, b + *at, size) == 0) continue;
        if (!isnan(ein__dtype_read(m->dtype, a + *at)) || !isnan(ein__dtype_read(m->dtype, b + *at))) return false;
    }
    return true;
}

static void drop(twin_memory *m, int n)
{
    for (int i = 0; i < n; i++) {
        ein__free(m[i].before);
        ein__free(m[i].after);
    }
}

static bool keep(twin_memory *m, int n)
{
    for (int i = 0; i < n; i++) m[i].before = m[i].after = NULL;
    for (int i = 0; i < n; i++) {
        m[i].before = ein__calloc(1, m[i].bytes + 1);
        m[i].after = ein__calloc(1, m[i].bytes + 1);
        if (m[i].before == NULL || m[i].after == NULL) return false;
        memcpy(m[i].before, m[i].base, m[i].bytes);
    }
    return true;
}

static fiber_space *make_space(const twin_memory *m, int n)
{
    fiber_space *s = fiber_space_create();
    bool good = s != NULL && fiber_line_add(s) == 0;
    for (int i = 0; i < n && good; i++)
        good = fiber_memory_add(s, m[i].base, m[i].bytes, 1, m[i].writes, m[i].reads);
    if (good) return s;
    fiber_space_free(s);
    return NULL;
}

static bool run_once(const fiber_launch *l, const twin_memory *m, int n, text *why)
{
    fiber_report report = {.fault = FIBER_NO_MEMORY};
    fiber_space *s = make_space(m, n);
    const bool clean = s != NULL && fiber_run(s, l, &report);
    fiber_space_free(s);
    if (!clean)
        ein__text_add(why, "fibers, seed %d: %s, line %d: %s", (int)l->seed, fiber_fault_name(report.fault), report.line,
                      report.message);
    return clean;
}

/* Keeps the results of the first seed, or compares those of another; and puts the memory back. */
static bool take_results(twin_memory *m, int n, uint64_t seed, text *why)
{
    size_t at;
    for (int i = 0; i < n; i++) {
        if (seed == 1) memcpy(m[i].after, m[i].base, m[i].bytes);
        else if (!same(&m[i], m[i].base, m[i].after, &at)) {
            ein__text_add(why, "fibers: seeds 1 and %d differ at byte %zu of memory %d", (int)seed, at, i);
            return false;
        }
        if (m[i].writes) memcpy(m[i].base, m[i].before, m[i].bytes);
    }
    return true;
}

bool twin_run(const fiber_module *u, const kernel_text *k, const long long grid[3], void **args, twin_memory *m, int n,
              text *why)
{
    const int seeds = getenv("RIG_HOST_ONLY") == NULL ? number_of("EIN_CASES", 1) : 1;
    fiber_launch l = {.grid = {grid[0], grid[1], grid[2]}, .args = args};
    l.entry = fiber_find(u, k->name, &l.threads);
    if (l.entry == NULL || l.threads != k->threads || !keep(m, n)) {
        ein__text_add(why, "no memory, or no such kernel");
        return false;
    }
    for (l.seed = 1; l.seed <= (uint64_t)seeds; l.seed++)
        if (!run_once(&l, m, n, why) || !take_results(m, n, l.seed, why)) return false;
    return true;
}

bool twin_compare(twin_memory *m, int n, text *why)
{
    bool equal = true;
    size_t at;
    for (int i = 0; i < n; i++) {
        if (equal && !same(&m[i], m[i].base, m[i].after, &at)) {
            ein__text_add(why, "host %.17g, fibers %.17g at byte %zu of memory %d",
                          ein__dtype_read(m[i].dtype, (char *)m[i].base + at), ein__dtype_read(m[i].dtype, m[i].after + at),
                          at, i);
            equal = false;
        }
    }
    drop(m, n);
    return equal;
}

/* ---- without a barrier ---- */

enum { MOST_BARRIERS = 64 };

/* The next barrier of a body: SYNC, or the name of a phase. */
static const char *next_barrier(const char *p)
{
    const char *sync = strstr(p, "SYNC;"), *phase = strstr(p, "PHASE");
    return sync == NULL || (phase != NULL && phase < sync) ? phase : sync;
}

/* The body without the barrier at `at`: nothing for a SYNC, a STEP for a PHASE. */
static ein_status remove_barrier(arena *a, const kernel_text *k, const char *at, kernel_text *out)
{
    const char *body = ein__arena_printf(a, "%.*s%s%s", (int)(at - k->body), k->body, *at == 'S' ? ";" : "STEP", at + 5);
    return body != NULL ? ein__kernel_make(a, body, k->threads, out) : EIN_NO_MEMORY;
}

static void add_line(text *why, const char *body, const char *at)
{
    int line = 1;
    for (const char *p = body; p < at; p++) line += *p == '\n';
    while (at > body && at[-1] != '\n') at--;
    ein__text_add(why, "nothing needs the barrier of line %d: %.*s\n", line, (int)strcspn(at, "\n"), at);
}

/* Each barrier's place in the text, and the text without it. */
typedef struct barriers { arena a; int n; const char *at[MOST_BARRIERS]; const kernel_text *list[MOST_BARRIERS]; } barriers;

static bool make_barriers(const kernel_text *k, barriers *b)
{
    for (const char *p = next_barrier(k->body); p != NULL; p = next_barrier(p + 5)) {
        kernel_text *without = ein__arena_get(&b->a, 1, sizeof *without);
        if (without == NULL || b->n == MOST_BARRIERS || remove_barrier(&b->a, k, p, without) != EIN_OK) return false;
        b->at[b->n] = p;
        b->list[b->n++] = without;
    }
    return true;
}

int twin_barriers(const kernel_text *k, const long long grid[3], void **args, twin_memory *m, int n, text *why)
{
    barriers b = {.n = 0};
    fiber_module *u = NULL;
    bool good = keep(m, n) && make_barriers(k, &b) && (b.n == 0 || twin_compile(b.list, b.n, &u, why));
    for (int i = 0; i < b.n && u != NULL; i++) {
        text fault = {0};
        fiber_launch l = {.grid = {grid[0], grid[1], grid[2]}, .args = args, .threads = k->threads};
        l.entry = fiber_find(u, b.list[i]->name, &l.threads);
        if (l.entry == NULL || run_once(&l, m, n, &fault)) {
            add_line(why, k->body, b.at[i]);
            good = false;
        }
        ein__text_free(&fault);
        for (int q = 0; q < n; q++)
            if (m[q].writes) memcpy(m[q].base, m[q].before, m[q].bytes);
    }
    fiber_unload(u);
    ein__arena_free(&b.a);
    drop(m, n);
    return good ? b.n : -1;
}
