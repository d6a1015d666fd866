/* SPDX-License-Identifier: Apache-2.0 */
/* A launch: its blocks one after the other in seeded order, each block's fibers in rounds. In a round all that can
 * run do so, in seeded order, until they wait or end; then those that wait are compared and let go. One launch runs
 * at a time. A fault is noted on the fiber's stack, which is left for good, and told from the caller's. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/fake/fiber_inner.h"

enum {
    MOST_THREADS = 1024, WARP = 32, STACK = 1 << 16, GUARD = 1 << 12,
    SHARED_LIMIT = 48 * 1024, MOST_ARRAYS = 256, SHARED_ROOM = SHARED_LIMIT + 64 * 2 * MOST_ARRAYS
};

typedef enum fiber_state { READY, AT_BARRIER, AT_MEETING, AT_SHUFFLE, ENDED } fiber_state;

typedef struct fiber {
    fiber_context context;
    char *stack;
    int tid;
    fiber_state state;
    int line;      /* of the last phase or barrier */
    uint64_t path; /* of all of them, hashed */
    int shuffles;
    uint64_t value[2]; /* what it gives in a shuffle; two, so that the next one may start early */
} fiber;

typedef struct shared_array { int key; region region; } shared_array;

static struct {
    fiber_context scheduler;
    fiber fibers[MOST_THREADS];
    char *stacks;
    const fiber_launch *launch;
    fiber_space *space;
    fiber *now;
    uint32_t operation;
    long long block, at[3];
    int epoch;
    uint64_t random;
    char *shared_memory;
    cell *shared_cells;
    shared_array arrays[MOST_ARRAYS];
    int n_arrays;
    size_t shared_used, shared_bytes;
    /* the fault */
    fiber_report *report;
    bool failed;
    const void *pc, *other_pc;
} run;

static uint64_t draw(void)
{
    uint64_t z = run.random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* ---- faults ---- */

const char *fiber_fault_name(fiber_fault f)
{
    static const char *const names[] = {"clean",      "race",      "barrier divergence", "out of bounds",
                                        "misaligned", "unwritten", "no memory"};
    return names[f];
}

static void note(fiber_fault fault, const void *pc, const void *other_pc, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    run.report->fault = fault;
    vsnprintf(run.report->message, sizeof run.report->message, format, args);
    va_end(args);
    run.pc = pc;
    run.other_pc = other_pc;
    run.failed = true;
}

/* "thread 3 of block 7" */
typedef struct actor_name { char s[80]; } actor_name;
static actor_name name_of(actor a)
{
    const int block = (int)(a >> (THREAD_BITS + EPOCH_BITS) & MANY_BLOCKS), thread = (int)(a >> EPOCH_BITS & MANY_THREADS);
    actor_name n;
    if ((uint32_t)(a >> (64 - OP_BITS)) != run.operation) snprintf(n.s, sizeof n.s, "another launch or copy");
    else if (block == MANY_BLOCKS) snprintf(n.s, sizeof n.s, "several blocks");
    else if (thread == MANY_THREADS) snprintf(n.s, sizeof n.s, "several threads of block %d", block);
    else snprintf(n.s, sizeof n.s, "thread %d of block %d", thread, block);
    return n;
}

static void leave(void) { fiber_context_switch(&run.now->context, &run.scheduler); }

/* ---- accesses ---- */

static region *shared_region(const char *p, size_t bytes)
{
    for (int i = 0; i < run.n_arrays; i++) {
        region *r = &run.arrays[i].region;
        if (p >= r->base && p + bytes <= r->base + r->bytes) return r;
    }
    return NULL;
}

static void note_access(const access_fault *f, size_t bytes, bool write, actor who, const void *p, const void *pc)
{
    const char *what = write ? "write" : "read";
    if (f->fault == FIBER_UNWRITTEN)
        note(f->fault, pc, NULL, "%s reads %zu bytes, of which byte %zu was never written", name_of(who).s, bytes, f->at);
    else
        note(f->fault, pc, f->other_pc, "%s of %zu bytes at %p by %s, and %s by %s that nothing orders before it", what,
             bytes, p, name_of(who).s, f->other_write ? "a write" : "a read", name_of(f->other).s);
}

static void hook_access(const void *p, unsigned long bytes, int flags, const void *pc)
{
    const fiber *f = run.now;
    const bool write = (flags & HOOK_WRITE) != 0;
    const char *what = write ? "write" : "read";
    if ((const char *)p >= f->stack && (const char *)p < f->stack + STACK) return;
    const actor who = fiber_actor(run.operation, run.block, f->tid, run.epoch);
    region *shared = shared_region(p, bytes), *r = shared != NULL ? shared : fiber_region(run.space, p, bytes);
    access_fault fault;
    run.report->at = p;
    if (r == NULL) {
        note(FIBER_BOUNDS, pc, NULL, "%s of %lu bytes at %p by %s: outside of all buffers and shared arrays", what, bytes,
             p, name_of(who).s);
    } else if (((write ? r->writers : r->readers) >> run.launch->device & 1) == 0) {
        note(FIBER_BOUNDS, pc, NULL, "%s of %lu bytes at %p by %s: device %d may not", what, bytes, p, name_of(who).s,
             run.launch->device);
    } else if ((flags & HOOK_ALIGNED) != 0 && (uintptr_t)p % bytes != 0) {
        note(FIBER_MISALIGNED, pc, NULL, "%s of %lu bytes at %p by %s", what, bytes, p, name_of(who).s);
    } else if (fiber_check(run.space, r, p, bytes, write, who, pc, &fault)) {
        if (run.launch->note != NULL && shared == NULL) run.launch->note(run.launch->user, p, bytes, write);
        return;
    } else {
        note_access(&fault, bytes, write, who, p, pc);
    }
    leave();
}

/* ---- what a thread does ---- */

static void hook_at(int line)
{
    run.now->line = line;
    run.now->path = (run.now->path ^ (uint64_t)line) * 0x100000001b3u;
}

static int hook_step(int line)
{
    if (line != 0) hook_at(line);
    return run.now->tid;
}

static void wait_at(fiber_state state)
{
    run.now->state = state;
    leave();
}

static void hook_sync(void) { wait_at(AT_BARRIER); }
static void hook_meet(void) { wait_at(AT_MEETING); }

static void hook_shuffle(void *value, int bytes, int from)
{
    fiber *f = run.now;
    const int turn = f->shuffles++ & 1;
    memcpy(&f->value[turn], value, (size_t)bytes);
    wait_at(AT_SHUFFLE);
    memcpy(value, &run.fibers[from].value[turn], (size_t)bytes);
}

/* The array of this place in the text: made, full of NaN, by the block's first thread that comes. */
static void *hook_shared(int key, unsigned long bytes)
{
    for (int i = 0; i < run.n_arrays; i++)
        if (run.arrays[i].key == key) return run.arrays[i].region.base;
    run.shared_bytes += (bytes + 15) / 16 * 16;
    if (run.shared_bytes > SHARED_LIMIT || run.n_arrays == MOST_ARRAYS) {
        note(FIBER_BOUNDS, NULL, NULL, "%zu bytes of shared memory, at most %d", run.shared_bytes, SHARED_LIMIT);
        run.report->line = run.now->line;
        leave();
    }
    region *r = &run.arrays[run.n_arrays].region;
    *r = (region){run.shared_memory + run.shared_used, bytes, ~0ull, ~0ull, false, 2,
                  run.shared_cells + 2 * run.shared_used};
    memset(r->base, 0xff, bytes);
    memset(r->cells, 0, 2 * bytes * sizeof(cell));
    run.arrays[run.n_arrays++].key = key;
    run.shared_used += (bytes + 63) / 64 * 64 + 64;
    return r->base;
}

const fiber_hooks fiber_run_hooks = {hook_access, hook_step, hook_at, hook_sync, hook_meet, hook_shared, hook_shuffle};

static void enter(void)
{
    const fiber_launch *l = run.launch;
    l->entry(l->args, run.at[0], run.at[1], run.at[2], run.now->tid);
    run.now->state = ENDED;
    leave();
}

/* ---- rounds ---- */

static void run_ready(void)
{
    int order[MOST_THREADS], n = 0;
    for (int i = 0; i < run.launch->threads; i++)
        if (run.fibers[i].state == READY) order[n++] = i;
    for (; n > 0 && !run.failed; n--) {
        const int k = (int)(draw() % (uint64_t)n), i = order[k];
        order[k] = order[n - 1];
        run.now = &run.fibers[i];
        fiber_context_switch(&run.scheduler, &run.now->context);
    }
}

static const char *state_name(fiber_state s)
{
    static const char *const names[] = {"runs", "waits at the barrier of", "is in the collective of",
                                        "is in the collective of", "has ended after"};
    return names[s];
}

/* All of n fibers are where the first one is, and came the same way. */
static bool together(const fiber *f, int n)
{
    for (int i = 1; i < n; i++)
        if (f[i].state != f[0].state || f[i].line != f[0].line || f[i].path != f[0].path) return false;
    return true;
}

static void note_divergence(void)
{
    const fiber *a = run.fibers, *b = a + 1;
    while (a->state == b->state && a->line == b->line && a->path == b->path) b++;
    note(FIBER_DIVERGENCE, NULL, NULL, "block %lld: thread %d %s line %d, thread %d %s line %d%s", run.block, a->tid,
         state_name(a->state), a->line, b->tid, state_name(b->state), b->line,
         a->line == b->line ? ", by another way" : "");
    run.report->line = a->state == ENDED ? b->line : a->line; /* where one waits in vain */
}

static bool release_warps(void)
{
    bool any = false;
    for (int w = 0; w < run.launch->threads; w += WARP) {
        fiber *f = run.fibers + w;
        if (f->state != AT_SHUFFLE || !together(f, WARP)) continue;
        for (int i = 0; i < WARP; i++) f[i].state = READY;
        any = true;
    }
    return any;
}

/* False when the block has ended or failed. */
static bool run_round(void)
{
    const int n = run.launch->threads;
    run_ready();
    if (run.failed) return false;
    if (release_warps()) return true;
    if (!together(run.fibers, n) || run.fibers[0].state == AT_SHUFFLE) {
        note_divergence();
        return false;
    }
    if (run.fibers[0].state == ENDED) return false;
    if (run.fibers[0].state == AT_BARRIER) run.epoch++;
    for (int i = 0; i < n; i++) run.fibers[i].state = READY;
    return true;
}

static void run_block(long long block)
{
    const fiber_launch *l = run.launch;
    run.block = block;
    run.at[0] = block % l->grid[0];
    run.at[1] = block / l->grid[0] % l->grid[1];
    run.at[2] = block / l->grid[0] / l->grid[1];
    run.epoch = run.n_arrays = 0;
    run.shared_used = run.shared_bytes = 0;
    for (int i = 0; i < l->threads; i++) {
        fiber *f = &run.fibers[i];
        f->state = READY;
        f->tid = i;
        f->line = f->shuffles = 0;
        f->path = 0;
        fiber_context_make(&f->context, f->stack, STACK, enter);
    }
    while (run_round()) {}
}

/* ---- launches ---- */

static bool make_room(void)
{
    if (run.stacks != NULL) return true;
    const size_t each = GUARD + STACK, all = each * MOST_THREADS;
    const size_t cells = 2 * SHARED_ROOM * sizeof(cell);
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *stacks = mmap(NULL, all, PROT_READ | PROT_WRITE, flags, -1, 0);
    char *memory = mmap(NULL, SHARED_ROOM, PROT_READ | PROT_WRITE, flags, -1, 0);
    char *history = mmap(NULL, cells, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (stacks == MAP_FAILED || memory == MAP_FAILED || history == MAP_FAILED) return false;
    for (int i = 0; i < MOST_THREADS; i++) {
        mprotect(stacks + (size_t)i * each, GUARD, PROT_NONE);
        run.fibers[i].stack = stacks + (size_t)i * each + GUARD;
    }
    run.shared_memory = memory;
    run.shared_cells = (cell *)(void *)history;
    run.stacks = stacks;
    return true;
}

/* Where the fault is, in words. */
static void tell(fiber_report *out)
{
    const fiber_place place = fiber_locate(run.pc), other = fiber_locate(run.other_pc);
    const size_t n = strlen(out->message);
    if (place.kernel[0] != 0) snprintf(out->kernel, sizeof out->kernel, "%s", place.kernel);
    if (place.line != 0) out->line = place.line;
    if (other.kernel[0] != 0)
        snprintf(out->message + n, sizeof out->message - n, " (%s, line %d)", other.kernel, other.line);
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static void run_blocks(void)
{
    const long long *g = run.launch->grid;
    const uint64_t n = (uint64_t)(g[0] * g[1] * g[2]);
    if (n == 0) return;
    const uint64_t first = draw() % n;
    uint64_t stride = 1 + draw() % n;
    while (common_divisor(stride, n) != 1) stride++;
    for (uint64_t i = 0; i < n && !run.failed; i++) run_block((long long)((first + i * stride) % n));
}

bool fiber_run(fiber_space *s, const fiber_launch *l, fiber_report *out)
{
    memset(out, 0, sizeof *out);
    pthread_mutex_lock(&fiber_lock);
    run.launch = l;
    run.space = s;
    run.report = out;
    run.failed = false;
    run.pc = run.other_pc = NULL;
    run.random = l->seed;
    run.operation = fiber_operation(s, l->line);
    if (run.operation == 0 || !make_room()) note(FIBER_NO_MEMORY, NULL, NULL, "no memory for fibers");
    else run_blocks();
    if (run.failed) {
        const fiber_place kernel = fiber_locate((const char *)(uintptr_t)l->entry + 1);
        snprintf(out->kernel, sizeof out->kernel, "%s", kernel.kernel);
        tell(out);
    }
    const bool clean = !run.failed;
    pthread_mutex_unlock(&fiber_lock);
    return clean;
}

bool fiber_access(fiber_space *s, int line, int device, const void *p, size_t bytes, bool write, fiber_report *out)
{
    memset(out, 0, sizeof *out);
    if (bytes == 0) return true;
    pthread_mutex_lock(&fiber_lock);
    access_fault fault;
    run.report = out;
    run.failed = false;
    run.pc = run.other_pc = NULL;
    run.operation = fiber_operation(s, line);
    const actor who = fiber_actor(run.operation, 0, 0, 0);
    region *r = fiber_region(s, p, bytes);
    if (run.operation == 0) note(FIBER_NO_MEMORY, NULL, NULL, "no memory for an operation");
    else if (r == NULL)
        note(FIBER_BOUNDS, NULL, NULL, "%s of %zu bytes at %p: not in one buffer", write ? "write" : "read", bytes, p);
    else if (((write ? r->writers : r->readers) >> device & 1) == 0)
        note(FIBER_BOUNDS, NULL, NULL, "%s of %zu bytes at %p: device %d may not", write ? "write" : "read", bytes, p,
             device);
    else if (!fiber_check(s, r, p, bytes, write, who, NULL, &fault)) note_access(&fault, bytes, write, who, p, NULL);
    if (run.failed) tell(out);
    const bool clean = !run.failed;
    pthread_mutex_unlock(&fiber_lock);
    return clean;
}
