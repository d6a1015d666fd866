/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks and the thread that runs them. A task is ready when those before it are done; which ready one comes next is
 * drawn, by one of four habits that the seed picks: any; those of a favoured strand first, favours drawn anew now and
 * then; the newest first; only what is waited for. Nothing runs before somebody waits or asks, so work is as late as it
 * may be. Strands are streams and chains of graph nodes; `seen` says how far each is ordered before a task. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/fake/fake.h"

enum { CLOCK_BITS = 22, STACK_BYTES = 64 << 20 };

uint64_t fake_random(void)
{
    fake.random ^= fake.random << 13;
    fake.random ^= fake.random >> 7;
    fake.random ^= fake.random << 17;
    return fake.random * 0x2545f4914f6cdd1du >> 16;
}

int fake_strand(void)
{
    if (fake.n_strands < MOST_STRANDS) fake.n_strands++; /* the last one is shared: its races are not seen */
    fake.priority[fake.n_strands - 1] = (uint32_t)fake_random();
    return fake.n_strands - 1;
}

/* ---- operations ---- */

void fake_operation_copy(operation *to, const operation *from)
{
    *to = *from;
    if (from->kind == DO_KERNEL) {
        to->kernel.values = calloc((size_t)from->kernel.n + 1, sizeof *to->kernel.values);
        if (to->kernel.values == NULL) abort();
        memcpy(to->kernel.values, from->kernel.values, (size_t)from->kernel.n * sizeof *to->kernel.values);
    }
}

void fake_operation_free(operation *what)
{
    if (what->kind == DO_KERNEL) free(what->kernel.values);
    if (what->kind == DO_COPY) free(what->copy.staged);
    what->kind = DO_NOTHING;
}

/* ---- tasks ---- */

task *fake_task_keep(task *t)
{
    if (t != NULL) t->refs++;
    return t;
}

void fake_task_drop(task *t)
{
    if (t == NULL || --t->refs > 0) return;
    fake_operation_free(&t->what);
    free(t->seen);
    free(t->after);
    free(t);
}

bool fake_task_done(const task *t) { return t == NULL || t->done; }

static void join(uint32_t *to, const uint32_t *from, int n)
{
    for (int i = 0; i < n; i++)
        if (from[i] > to[i]) to[i] = from[i];
}

uint32_t fake_epoch(const task *t) { return (uint32_t)t->strand << CLOCK_BITS | t->clock; }

bool fake_ordered(const task *t, uint32_t epoch)
{
    const int strand = (int)(epoch >> CLOCK_BITS);
    return epoch == 0 || (strand < t->n_seen && t->seen[strand] >= (epoch & ((1u << CLOCK_BITS) - 1)));
}

static void *work(void *unused);

static void start(void)
{
    static bool started;
    pthread_t thread;
    pthread_attr_t how;
    if (started) return;
    started = true;
    if (pthread_attr_init(&how) != 0 || pthread_attr_setstacksize(&how, STACK_BYTES) != 0 ||
        pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED) != 0 ||
        pthread_create(&thread, &how, work, NULL) != 0)
        abort();
    pthread_attr_destroy(&how);
}

static void make_ready(task *t)
{
    if (fake.n_ready == fake.room_ready) {
        fake.room_ready = fake.room_ready > 0 ? 2 * fake.room_ready : 256;
        fake.ready = realloc(fake.ready, (size_t)fake.room_ready * sizeof *fake.ready);
        if (fake.ready == NULL) abort();
    }
    fake.ready[fake.n_ready++] = t;
    start();
    pthread_cond_signal(&fake.work);
}

static void follow(task *t, task *before)
{
    if (before->n_after == before->room) {
        before->room = before->room > 0 ? 2 * before->room : 4;
        before->after = realloc(before->after, (size_t)before->room * sizeof *before->after);
        if (before->after == NULL) abort();
    }
    before->after[before->n_after++] = fake_task_keep(t);
    t->waits++;
}

task *fake_task(const operation *what, int strand, task *const *before, int n)
{
    task *t = calloc(1, sizeof *t);
    uint32_t *seen = calloc((size_t)fake.n_strands, sizeof *seen);
    if (t == NULL || seen == NULL) abort();
    *t = (task){.what = *what,
                .strand = strand,
                .refs = 2,
                .clock = ++fake.clocks[strand],
                .seen = seen,
                .n_seen = fake.n_strands};
    join(seen, fake.host_seen, fake.n_strands);
    for (int i = 0; i < n; i++) {
        if (before[i] == NULL) continue;
        join(seen, before[i]->seen, before[i]->n_seen);
        if (!before[i]->done) follow(t, before[i]);
    }
    seen[strand] = t->clock;
    fake.host_tasks += what->kind == DO_HOST;
    if (t->waits == 0) make_ready(t);
    if (what->kind == DO_HOST) pthread_cond_signal(&fake.work); /* nobody needs to wait for it */
    return t;
}

static void complete(task *t)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    t->seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    t->done = true;
    fake.host_tasks -= t->what.kind == DO_HOST;
    for (int i = 0; i < t->n_after; i++) {
        if (--t->after[i]->waits == 0) make_ready(t->after[i]);
        fake_task_drop(t->after[i]);
    }
    t->n_after = 0;
    fake_operation_free(&t->what);
    fake_task_drop(t);
}

/* ---- the thread ---- */

/* Who waits for what; on their stacks. */
typedef struct waiter {
    bool (*what)(const task *);
    const task *t;
    struct waiter *next;
} waiter;
static waiter *waiters;

/* Must it be done before what somebody waits for? */
static bool needed(const task *t)
{
    for (const waiter *w = waiters; w != NULL; w = w->next)
        if (w->t != NULL && fake_ordered(w->t, fake_epoch(t))) return true;
    return false;
}

static int choose(void)
{
    const int habit = (int)(fake.settings.seed % 4);
    int best = 0;
    if (habit == 0) return (int)(fake_random() % (uint64_t)fake.n_ready);
    if (habit == 2) return fake.n_ready - 1;
    for (int i = 0; habit == 3 && i < fake.n_ready; i++)
        if (needed(fake.ready[i])) return i;
    if (fake_random() % 16 == 0)
        fake.priority[fake.ready[fake_random() % (uint64_t)fake.n_ready]->strand] = (uint32_t)fake_random();
    for (int i = 1; i < fake.n_ready; i++)
        if (fake.priority[fake.ready[i]->strand] > fake.priority[fake.ready[best]->strand]) best = i;
    return best;
}

static bool wanted(void)
{
    for (const waiter *w = waiters; w != NULL; w = w->next)
        if (!w->what(w->t)) return true;
    return fake.host_tasks > 0;
}

static void *work(void *unused)
{
    pthread_mutex_lock(&fake.lock);
    for (;;) {
        if (!wanted() || fake.n_ready == 0) {
            fake_enter_device(-1);
            fake.polls = 0;
            fake.starved = fake.n_ready == 0;
            pthread_cond_broadcast(&fake.progress);
            pthread_cond_wait(&fake.work, &fake.lock);
            continue;
        }
        const int i = choose();
        task *t = fake.ready[i];
        fake.ready[i] = fake.ready[--fake.n_ready];
        fake.starved = false;
        fake_run(t);
        complete(t);
        if (fake.polls > 0) fake.polls--;
        pthread_cond_broadcast(&fake.progress);
    }
    return unused;
}

/* Waits for `what(t)`, while the thread works. False: it has nothing left to do. */
static bool wait_until(bool (*what)(const task *), const task *t)
{
    waiter w = {what, t, waiters}, **at = &waiters;
    waiters = &w;
    fake.starved = false;
    pthread_cond_signal(&fake.work);
    while (!what(t) && !fake.starved) pthread_cond_wait(&fake.progress, &fake.lock);
    while (*at != &w) at = &(*at)->next;
    *at = w.next;
    return what(t);
}

bool fake_task_wait(task *t)
{
    if (t == NULL) return true;
    fake_task_keep(t);
    const bool done = wait_until(fake_task_done, t);
    if (done) join(fake.host_seen, t->seen, t->n_seen);
    fake_task_drop(t);
    return done;
}

static bool no_polls(const task *t)
{
    (void)t;
    return fake.polls == 0;
}

/* Somebody asks: one task more, if any is ready. */
void fake_task_poll(void)
{
    if (fake.n_ready == 0) return;
    fake.polls = 1;
    wait_until(no_polls, NULL);
}

static bool idle(const task *t)
{
    (void)t;
    return fake.n_ready == 0;
}

bool fake_drain(void)
{
    if (fake.n_ready > 0) wait_until(idle, NULL);
    return fake.n_ready == 0;
}

static void drop_task(task **t)
{
    fake_task_drop(*t);
    *t = NULL;
}

void fake_work_reset(void)
{
    fake_drain();
    for (object *o = fake.objects; o != NULL; o = o->next) {
        if (o->kind == STREAM) drop_task(&((CUstream)o)->tail);
        if (o->kind == EVENT) drop_task(&((CUevent)o)->task);
    }
    memset(fake.clocks, 0, sizeof fake.clocks);
    memset(fake.host_seen, 0, sizeof fake.host_seen);
    fake.n_strands = 1; /* 0 is the process */
}
