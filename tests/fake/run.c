/* SPDX-License-Identifier: Apache-2.0 */
/* What a task does. A kernel is a function of this process: where it touches pages that its device may not, the
 * signal's handler comes back here, the access is reported, and the context has failed. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/text.h"
#include "tests/fake/fake.h"

/* Of the thread that works. */
static struct {
    bool in_kernel;
    sigjmp_buf back;
    const void *fault;
    task *task;
    block *block; /* of the last access */
    bool told_race, told_unwritten;
} now;
static struct sigaction before;
_Thread_local bool fake_in_work; /* this thread runs tasks */

static void on_fault(int signal, siginfo_t *info, void *context)
{
    if (fake_in_work && now.in_kernel) {
        now.fault = info->si_addr;
        siglongjmp(now.back, 1);
    }
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(signal, info, context);
    else
        sigaction(SIGSEGV, &before, NULL);
}

/* Around each kernel: others want the signal too. */
static void catch_faults(bool on)
{
    struct sigaction how = {.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    how.sa_sigaction = on_fault;
    sigemptyset(&how.sa_mask);
    if (on)
        sigaction(SIGSEGV, &how, &before);
    else
        sigaction(SIGSEGV, &before, NULL);
    now.in_kernel = on;
}

static void fail(const task *t, CUresult code)
{
    if (t->what.context->error == 0) t->what.context->error = code;
}

/* ---- order of accesses, with `check` ---- */

static void report_at(const char *what, const task *t, const void *p)
{
    text where = {0};
    fake_describe(&where, p);
    const char *name = t->what.kind == DO_KERNEL    ? t->what.kernel.function->name
                       : t->what.kind == DO_PRODUCT ? "a product"
                                                    : "a copy";
    fake_report("%s on device %d: %s %s", name, t->what.context->device, what, ein__text_get(&where));
    ein__text_free(&where);
}

static void race(const task *t, const char *what, const void *p)
{
    if (!now.told_race) report_at(what, t, p);
    now.told_race = true;
}

/* Noted beside readers without an order to it; where there are too many, instead of any of them. */
static void note_reader(const task *t, physical *m, size_t i, uint32_t mine)
{
    int slot = 0;
    while (slot < READERS && m->read[slot][i] != mine && !fake_ordered(t, m->read[slot][i])) slot++;
    m->read[slot < READERS ? slot : (int)(fake_random() % READERS)][i] = mine;
}

/* A reader that the task is not behind? */
static bool is_read(const task *t, const physical *m, size_t i, uint32_t mine)
{
    for (int slot = 0; slot < READERS && m->read[slot][i] != 0; slot++)
        if (m->read[slot][i] != mine && !fake_ordered(t, m->read[slot][i])) return true;
    return false;
}

void fake_note_range(const task *t, block *b, const char *p, size_t bytes, bool write, bool copy)
{
    physical *m = b->memory;
    if (m == NULL || m->written == NULL) return;
    const size_t at = (size_t)(p - b->at) + b->offset;
    const uint32_t mine = fake_epoch(t);
    for (size_t i = at; i < at + bytes; i++) {
        const char *where = b->at + (i - b->offset);
        if (m->written[i] != mine && !fake_ordered(t, m->written[i]))
            race(t,
                 write ? "race: writes what another may write at the same time,"
                       : "race: reads what another may write at the same time,",
                 where);
        if (write && is_read(t, m, i, mine)) race(t, "race: writes what another may read at the same time,", where);
        if (!write && !copy && m->device != HOST && m->written[i] == 0) {
            if (!now.told_unwritten) report_at("reads what nobody wrote,", t, where);
            now.told_unwritten = true;
        }
        if (write)
            m->written[i] = mine;
        else
            note_reader(t, m, i, mine);
    }
}

void *fake_access(const void *p, long long index, long long size, int write)
{
    const char *at = (const char *)p + index * size;
    block *b = now.block;
    if (b == NULL || at < b->pages || at >= b->pages + b->page_bytes) b = now.block = fake_block_at(at);
    const bool there = b != NULL && !b->freed && at >= b->at && at + size <= b->at + b->bytes;
    if (!there || !fake_may(now.task->what.context->device, b)) {
        now.fault = at;
        now.block = NULL;
        siglongjmp(now.back, 1);
    }
    fake_note_range(now.task, b, at, (size_t)size, write != 0, false);
    return (void *)(uintptr_t)at;
}

/* ---- links that lie ---- */

typedef struct saved {
    block *b;
    char *bytes;
    struct saved *next;
} saved;

static bool lies(int d, const block *b)
{
    return b->device != HOST && d != b->device && fake_may(d, b) && fake.settings.peer[d][b->device] > PEER_RIGHT;
}

/* What device d is about to see wrongly or to lose, kept. */
static saved *save(int d, saved *list, block *b)
{
    if (b == NULL || !lies(d, b)) return list;
    saved *s = calloc(1, sizeof *s);
    if (s == NULL || (s->bytes = malloc(b->bytes)) == NULL) abort();
    s->b = b;
    s->next = list;
    memcpy(s->bytes, b->at, b->bytes);
    if (fake.settings.peer[d][b->device] == PEER_READS_STALE) memset(b->at, 0x7f, b->bytes);
    return s;
}

static void restore(saved *s)
{
    while (s != NULL) {
        saved *next = s->next;
        memcpy(s->b->at, s->bytes, s->b->bytes);
        free(s->bytes);
        free(s);
        s = next;
    }
}

static saved *save_all(int d)
{
    saved *list = NULL;
    bool any = false;
    for (int j = 0; j < fake.settings.devices; j++) any = any || (j != d && fake.settings.peer[d][j] > PEER_RIGHT);
    if (any)
        for (int i = 0; i < fake_block_count(); i++) list = save(d, list, fake_block_number(i));
    return list;
}

/* ---- kernels ---- */

/* False: it came to an address that it may not touch. A function of its own: nothing of it is used after the jump. */
static __attribute__((noinline)) bool call_kernel(const task *t, void **args)
{
    if (sigsetjmp(now.back, 1) != 0) return false;
    t->what.kernel.function->entry(args, t->what.kernel.grid[0], t->what.kernel.grid[1], t->what.kernel.grid[2], NULL);
    return true;
}

static void note_access(void *user, const void *p, size_t bytes, bool write)
{
    block *b = now.block;
    if (b == NULL || (const char *)p < b->at || (const char *)p >= b->at + b->bytes) b = now.block = fake_block_at(p);
    fake_note_range(user, b, p, bytes, write, false);
}

/* Of a thread each a fiber; what the device may touch is their memory, where all counts as written: `check` knows. */
static void call_fibers(task *t, void **args)
{
    const int d = t->what.context->device;
    const CUfunction f = t->what.kernel.function;
    fiber_launch l = {.entry = f->fiber, .threads = f->threads, .device = d, .args = args, .seed = fake_random(),
                      .note = fake.settings.check ? note_access : NULL, .user = t};
    fiber_report report;
    fiber_space *s = fiber_space_create();
    if (s == NULL) abort();
    l.line = fiber_line_add(s);
    for (int i = 0; i < 3; i++) l.grid[i] = t->what.kernel.grid[i];
    for (int i = 0; i < fake_block_count(); i++) {
        block *b = fake_block_number(i);
        if (b->freed || !fake_may(d, b)) continue;
        if (!fiber_memory_add(s, b->at, b->bytes, 1ull << d, 1ull << d, true)) abort();
    }
    const bool well = fiber_run(s, &l, &report);
    fiber_space_free(s);
    if (well) return;
    fake_report("%s on device %d: %s in line %d: %s", f->name, d, fiber_fault_name(report.fault), report.line,
                report.message);
    if (report.fault == FIBER_BOUNDS) report_at("no access to", t, report.at);
    fail(t, CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void run_kernel(task *t)
{
    const int d = t->what.context->device;
    void *args[MOST_ARGUMENTS];
    for (int i = 0; i < t->what.kernel.n; i++) args[i] = &t->what.kernel.values[i];
    fake_enter_device(d);
    saved *kept = save_all(d);
    now.fault = NULL;
    if (t->what.kernel.function->fiber != NULL) {
        call_fibers(t, args);
    } else {
        catch_faults(true);
        const bool well = call_kernel(t, args);
        catch_faults(false);
        if (!well) {
            report_at("no access to", t, now.fault);
            fail(t, CUDA_ERROR_ILLEGAL_ADDRESS);
        }
    }
    restore(kept);
}

/* ---- copies ---- */

/* One side of a copy: a block, or memory of the process that is not pinned (then *b is NULL). */
static bool side(const task *t, const char *p, size_t width, size_t rows, size_t pitch, block **b)
{
    const size_t bytes = rows > 0 ? (rows - 1) * pitch + width : 0;
    if (!fake_of_device(p)) {
        *b = fake_block_at(p);
        if (*b != NULL && p + bytes > (*b)->at + (*b)->bytes) *b = NULL;
        return true;
    }
    if (!fake_range(t->what.context->device, p, bytes, "copy", b)) return false;
    fake_open_block(*b);
    return true;
}

static void copy_shadow(const task *t, block *from, const char *p, block *to, const char *q, size_t bytes)
{
    if (from != NULL) fake_note_range(t, from, p, bytes, false, to != NULL);
    if (to == NULL) return;
    fake_note_range(t, to, q, bytes, true, true);
    if (from == NULL || from->device == HOST || from->memory->written == NULL || to->memory->written == NULL) return;
    for (size_t i = 0; i < bytes; i++) /* what nobody wrote stays so */
        if (from->memory->written[(size_t)(p - from->at) + i] == 0) to->memory->written[(size_t)(q - to->at) + i] = 0;
}

static void run_copy(task *t)
{
    block *from, *to;
    const char *p = t->what.copy.staged != NULL ? t->what.copy.staged : t->what.copy.from;
    char *q = t->what.copy.to;
    const size_t p_pitch = t->what.copy.from_pitch, q_pitch = t->what.copy.to_pitch;
    if (!side(t, p, t->what.copy.width, t->what.copy.rows, p_pitch, &from) ||
        !side(t, q, t->what.copy.width, t->what.copy.rows, q_pitch, &to)) {
        fail(t, CUDA_ERROR_ILLEGAL_ADDRESS);
        return;
    }
    saved *kept = save(t->what.context->device, save(t->what.context->device, NULL, from), to);
    for (size_t r = 0; r < t->what.copy.rows; r++) {
        copy_shadow(t, from, p + r * p_pitch, to, q + r * q_pitch, t->what.copy.width);
        memmove(q + r * q_pitch, p + r * p_pitch, t->what.copy.width);
    }
    restore(kept);
}

/* Many zeros of a device are fresh pages. */
static void fill(const block *b, char *p, int value, size_t bytes)
{
    enum { PAGE = 4096, MANY = 1 << 20 };
    char *lo = (char *)(((uintptr_t)p + PAGE - 1) / PAGE * PAGE), *hi = (char *)((uintptr_t)(p + bytes) / PAGE * PAGE);
    if (value != 0 || bytes < MANY || b == NULL || b->device == HOST) {
        memset(p, value, bytes);
        return;
    }
    memset(p, 0, (size_t)(lo - p));
    memset(hi, 0, (size_t)(p + bytes - hi));
    if (mmap(lo, (size_t)(hi - lo), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        MAP_FAILED)
        abort();
}

static void run_set(task *t)
{
    block *b;
    char *p = t->what.set.to;
    const size_t bytes = t->what.set.width * (size_t)t->what.set.element;
    if (!side(t, p, bytes, t->what.set.rows, t->what.set.pitch, &b)) {
        fail(t, CUDA_ERROR_ILLEGAL_ADDRESS);
        return;
    }
    for (size_t r = 0; r < t->what.set.rows; r++, p += t->what.set.pitch) {
        if (b != NULL) fake_note_range(t, b, p, bytes, true, true);
        if (t->what.set.value == 0 || t->what.set.element == 1)
            fill(b, p, (int)(t->what.set.value & 0xff), bytes);
        else
            for (size_t i = 0; i < bytes; i += (size_t)t->what.set.element)
                memcpy(p + i, &t->what.set.value, (size_t)t->what.set.element); /* little-endian */
    }
}

/* ---- products ---- */

/* A matrix of `rows` by `columns`, column-major, `batch` times. */
static bool operand(task *t, const void *p, int64_t rows, int64_t columns, int which, bool write)
{
    const product *g = &t->what.product;
    const int64_t size = g->type[which] == CUDA_R_64F ? 8 : g->type[which] == CUDA_R_32F ? 4 : 2;
    for (int64_t i = 0; i < g->batch; i++) {
        const char *at = (const char *)p + i * g->stride[which] * size;
        block *b;
        if (!fake_range(t->what.context->device, at, (size_t)(((columns - 1) * g->ld[which] + rows) * size), "product",
                        &b))
            return false;
        if (!fake_may(t->what.context->device, b)) {
            report_at("no access to", t, at);
            return false;
        }
        fake_open_block(b);
        for (int64_t c = 0; c < columns; c++)
            fake_note_range(t, b, at + c * g->ld[which] * size, (size_t)(rows * size), write, false);
    }
    return true;
}

static void run_product(task *t)
{
    const product *g = &t->what.product;
    const bool there = operand(t, g->a, g->ta ? g->k : g->m, g->ta ? g->m : g->k, 0, false) &&
                       operand(t, g->b, g->tb ? g->n : g->k, g->tb ? g->k : g->n, 1, false) &&
                       (g->beta == 0 || operand(t, g->c, g->m, g->n, 2, false)) &&
                       operand(t, g->d, g->m, g->n, 3, true);
    if (!there)
        fail(t, CUDA_ERROR_ILLEGAL_ADDRESS);
    else
        fake_product(&t->what);
}

static void run_host(task *t)
{
    const CUhostFn function = t->what.host.function;
    void *user = t->what.host.user;
    fake_enter_device(-1);
    pthread_mutex_unlock(&fake.lock);
    function(user);
    pthread_mutex_lock(&fake.lock);
}

void fake_run(task *t)
{
    fake_in_work = true;
    now.task = t;
    now.block = NULL;
    now.told_race = now.told_unwritten = false;
    if (t->what.context != NULL && t->what.context->error != 0) return; /* nothing runs after a fault */
    switch (t->what.kind) {
    case DO_KERNEL: run_kernel(t); break;
    case DO_COPY: run_copy(t); break;
    case DO_SET: run_set(t); break;
    case DO_PRODUCT: run_product(t); break;
    case DO_HOST: run_host(t); break;
    default: break;
    }
}
