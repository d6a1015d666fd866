/* SPDX-License-Identifier: Apache-2.0 */
/* The door of every call: counts, logs, fails on request, checks what each call must have. And what the test asks:
 * reports, leaks. */
#define _POSIX_C_SOURCE 200809L
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/fake/fake.h"

enum { MOST_REPORTS_BYTES = 1 << 16 };
fake_state fake = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .progress = PTHREAD_COND_INITIALIZER};

/* The names of all calls, and what is to fail. */
static struct {
    const char **items;
    long room;
} journal;
static struct {
    char name[48];
    long left;
    int code, happened;
    bool drop;
} failing;
static struct {
    long left;
    long long bytes;
} shifting;
static text answer; /* of fake_leaks */
static bool alone;  /* the settings are the environment's: no test of this process asks */

void fake_report(const char *format, ...)
{
    char line[512];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (fake.reports.n < MOST_REPORTS_BYTES) ein__text_add(&fake.reports, "%s\n", line);
}

/* ---- objects ---- */

static const char *const kind_names[] = {"?",
                                         "context",
                                         "stream",
                                         "event",
                                         "library",
                                         "module",
                                         "kernel",
                                         "function",
                                         "graph",
                                         "node",
                                         "graph_exec",
                                         "memory",
                                         "address",
                                         "program",
                                         "capture",
                                         "handle",
                                         "matmul descriptor",
                                         "matrix layout",
                                         "matmul preference"};

void *fake_object(object_kind kind, size_t bytes)
{
    object *o = calloc(1, bytes);
    if (o == NULL) abort();
    *o = (object){.kind = kind, .live = true, .made = fake.calls, .next = fake.objects};
    fake.objects = o;
    return o;
}

bool fake_valid(const void *p, object_kind kind)
{
    const object *o = p;
    if (o == NULL) return false;
    if (o->kind == kind && !o->live)
        fake_report("%s: a %s of call %ld is used after its end", fake_call(fake.calls), kind_names[kind], o->made);
    return o->kind == kind && o->live;
}

const char *fake_leaks(void)
{
    pthread_mutex_lock(&fake.lock);
    ein__text_free(&answer);
    for (const object *o = fake.objects; o != NULL; o = o->next)
        if (o->live && !o->owned && (o->kind != CONTEXT || ((const struct CUctx_st *)o)->retained > 0))
            ein__text_add(&answer, "%s of call %ld, %s\n", kind_names[o->kind], o->made, fake_call(o->made));
    fake_memory_leaks(&answer);
    pthread_mutex_unlock(&fake.lock);
    return ein__text_get(&answer);
}

/* ---- settings ---- */

static void forget_objects(void)
{
    while (fake.objects != NULL) {
        object *o = fake.objects;
        fake.objects = o->next;
        if (o->empty != NULL) o->empty(o);
        free(o);
    }
    fake.n_captures = 0;
}

static void configure(const char *text)
{
    fake_work_reset();
    fake_memory_reset();
    forget_objects();
    ein__text_free(&fake.reports);
    memset(fake.contexts, 0, sizeof fake.contexts);
    memset(fake.own_streams, 0, sizeof fake.own_streams);
    memset(&failing, 0, sizeof failing);
    memset(&shifting, 0, sizeof shifting);
    fake_settings_parse(&fake.settings, text);
    fake.random = fake.settings.seed * 0x9e3779b97f4a7c15u + 1;
    fake.initialized = false;
    fake.calls = 0;
    fake.configured = true;
}

void fake_configure(const char *text)
{
    pthread_mutex_lock(&fake.lock);
    alone = false;
    configure(text);
    pthread_mutex_unlock(&fake.lock);
}

/* ---- calls ---- */

/* "cuMemAlloc_v2" is meant by "cuMemAlloc". */
static bool named(const char *call, const char *name)
{
    const size_t n = strlen(name);
    return strncmp(call, name, n) == 0 && (call[n] == 0 || (call[n] == '_' && call[n + 1] == 'v'));
}

static void note(const char *name)
{
    if (fake.calls == journal.room) {
        journal.room = journal.room > 0 ? 2 * journal.room : 1024;
        journal.items = realloc(journal.items, (size_t)journal.room * sizeof *journal.items);
        if (journal.items == NULL) abort();
    }
    journal.items[fake.calls++] = name;
}

const char *fake_call(long k) { return k >= 1 && k <= fake.calls ? journal.items[k - 1] : NULL; }

long fake_calls(const char *name)
{
    long n = 0;
    pthread_mutex_lock(&fake.lock);
    for (long i = 0; i < fake.calls; i++) n += name == NULL || named(journal.items[i], name);
    pthread_mutex_unlock(&fake.lock);
    return n;
}

static void arm(const char *name, long k, int code, bool drop)
{
    pthread_mutex_lock(&fake.lock);
    snprintf(failing.name, sizeof failing.name, "%s", name != NULL ? name : "");
    failing.left = k;
    failing.code = code;
    failing.happened = 0;
    failing.drop = drop;
    pthread_mutex_unlock(&fake.lock);
}

void fake_fail(const char *name, long k, int code) { arm(name, k, code, false); }

void fake_drop(const char *name, long k) { arm(name, k, 0, true); }

void fake_shift(long k, long long bytes)
{
    pthread_mutex_lock(&fake.lock);
    shifting.left = k;
    shifting.bytes = bytes;
    failing.happened = 0;
    pthread_mutex_unlock(&fake.lock);
}

long long fake_next_shift(void)
{
    if (shifting.left <= 0 || --shifting.left > 0) return 0;
    failing.happened = 1;
    return shifting.bytes;
}

int fake_failed(void) { return failing.happened; }

void fake_lose(int device, int code)
{
    pthread_mutex_lock(&fake.lock);
    if (fake.contexts[device] != NULL) fake.contexts[device]->error = code;
    pthread_mutex_unlock(&fake.lock);
}

const char *fake_reports(void)
{
    pthread_mutex_lock(&fake.lock);
    fake_red_zones();
    pthread_mutex_unlock(&fake.lock);
    return ein__text_get(&fake.reports);
}

void fake_reset_reports(void)
{
    pthread_mutex_lock(&fake.lock);
    ein__text_free(&fake.reports);
    pthread_mutex_unlock(&fake.lock);
}

long long fake_used(int device)
{
    long long n = 0;
    pthread_mutex_lock(&fake.lock);
    for (const object *o = fake.objects; o != NULL; o = o->next)
        if (o->kind == PHYSICAL && o->live && ((const physical *)o)->device == device)
            n += (long long)((const physical *)o)->bytes;
    pthread_mutex_unlock(&fake.lock);
    return n;
}

/* Is this the call? */
static bool fails(const char *name)
{
    if (failing.left <= 0 || (failing.name[0] != 0 && !named(name, failing.name))) return false;
    if (--failing.left > 0) return false;
    failing.happened = 1;
    return true;
}

static int refused(const char *name, unsigned needs)
{
    CUcontext c = fake_current();
    if (needs != NEEDS_NOTHING && !fake.initialized) return CUDA_ERROR_NOT_INITIALIZED;
    if ((needs & NEEDS_CONTEXT) && c == NULL) return CUDA_ERROR_INVALID_CONTEXT;
    if ((needs & NEEDS_CONTEXT) && c->error != 0) return c->error;
    if ((needs & UNSAFE) && fake_capture_forbids()) {
        fake_report("%s while a stream is captured", name);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return 0;
}

call fake_call_enter(const char *name, unsigned needs)
{
    call c = {0, 0, false};
    pthread_mutex_lock(&fake.lock);
    if (fake_in_work) {
        fake_report("%s is called in a function of a stream", name);
        c.code = CUDA_ERROR_NOT_PERMITTED;
        return c;
    }
    pthread_mutex_unlock(&fake.lock);
    if (fake.settings.slow_ms > 0 && named(name, fake.settings.slow))
        nanosleep(&(struct timespec){fake.settings.slow_ms / 1000, fake.settings.slow_ms % 1000 * 1000000}, NULL);
    pthread_mutex_lock(&fake.lock);
    if (!fake.configured) {
        configure(getenv("EIN_FAKE") != NULL ? getenv("EIN_FAKE") : "");
        alone = true;
    }
    note(name);
    const bool now = fails(name);
    const int code = now ? failing.code : 0;
    c.dropped = now && failing.drop;
    /* A fault of what is under way, which such a call is the first to tell. */
    if (now && (needs & HAS_EFFECT) && code >= CUDA_ERROR_ILLEGAL_ADDRESS && code <= CUDA_ERROR_LAUNCH_FAILED &&
        fake_current() != NULL && strncmp(name, "cu", 2) == 0 && strncmp(name, "cublas", 6) != 0)
        fake_current()->error = code;
    if (needs & HAS_EFFECT)
        c.late = code;
    else
        c.code = code;
    if (c.code == 0) c.code = refused(name, needs & ~(unsigned)HAS_EFFECT);
    if (c.code != 0 && (needs & HAS_EFFECT) && (needs & NEEDS_CONTEXT) && fake_current() != NULL) {
        c.late = c.code; /* of a context that has failed all the same, what is freed is freed */
        c.code = 0;
    }
    return c;
}

void fake_call_leave(call *c)
{
    (void)c;
    pthread_mutex_unlock(&fake.lock);
}

/* Then what was wrong is the end of the process. */
static __attribute__((destructor)) void tell(void)
{
    if (!alone || (fake_reports()[0] == 0 && fake_leaks()[0] == 0)) return;
    fprintf(stderr, "fake: %s\n%sleft:\n%s", getenv("EIN_FAKE") != NULL ? getenv("EIN_FAKE") : "", fake_reports(), fake_leaks());
    fflush(NULL);
    _exit(86);
}
