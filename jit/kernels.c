/* SPDX-License-Identifier: Apache-2.0 */
/* Compile a program's distinct kernels. They are dealt out to units, each one object: large kernels get units of their
 * own, small ones share. As many threads as there are cores take units, the heaviest first. How many units a thread
 * should find is the target's word: a C compiler takes longer to start than for most kernels, NVRTC does not. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "jit/context.h"

enum { MAX_THREADS = 16 };

typedef struct unit {
    const kernel_text **kernels;
    int n;
    size_t weight;
    text *object;
    error error;
    ein_status status;
} unit;

typedef struct units {
    target *target;
    bool counting;
    int n;
    unit items[MAX_OBJECTS];
    atomic_int next;
} units;

static void *take_units(void *argument)
{
    units *w = argument;
    for (int i; (i = atomic_fetch_add(&w->next, 1)) < w->n;) {
        unit *u = &w->items[i];
        u->status = w->target->api->compile(w->target, u->kernels, u->n, w->counting, u->object, &u->error);
    }
    return NULL;
}

static int count_threads(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : cores > MAX_THREADS ? MAX_THREADS : (int)cores;
}

static int least(int a, int b) { return a < b ? a : b; }

static int by_weight(const void *a, const void *b)
{
    const unit *x = a, *y = b;
    return x->weight < y->weight ? 1 : x->weight > y->weight ? -1 : 0;
}

/* Heaviest kernel first to the lightest unit; text length stands for compile time. */
static ein_status fill_units(ein_program *p, arena *a, units *w)
{
    int k = p->program.n_kernels;
    bool *taken;
    NEW(a, taken, k);
    for (int g = 0; g < w->n; g++) NEW(a, w->items[g].kernels, k);
    for (int i = 0; i < k; i++) {
        int best = -1;
        for (int j = 0; j < k; j++)
            if (!taken[j] && (best < 0 || strlen(p->program.kernels[j].body) > strlen(p->program.kernels[best].body))) best = j;
        unit *to = &w->items[0];
        for (int g = 1; g < w->n; g++)
            if (w->items[g].weight < to->weight) to = &w->items[g];
        taken[best] = true;
        to->kernels[to->n++] = &p->program.kernels[best];
        to->weight += strlen(p->program.kernels[best].body);
    }
    qsort(w->items, (size_t)w->n, sizeof(unit), by_weight);
    return EIN_OK;
}

static ein_status run_units(units *w, text *objects, error *e)
{
    pthread_t threads[MAX_THREADS];
    int started = 0;
    for (int i = 0; i < w->n; i++) w->items[i].object = &objects[i];
    while (started < least(count_threads(), w->n) - 1 && pthread_create(&threads[started], NULL, take_units, w) == 0) started++;
    take_units(w);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    ein_status s = EIN_OK;
    for (int i = 0; i < w->n; i++) {
        unit *u = &w->items[i];
        if (s == EIN_OK && u->status != EIN_OK) {
            s = ein__fail(e, u->status, "%s", u->error.line);
            ein__error_set_detail(e, u->error.detail);
        }
        ein__error_reset(&u->error);
    }
    return s;
}

/* For tests and deployments where nothing may be compiled any more. */
static bool forbidden(void)
{
    const char *word = getenv("EIN_NO_COMPILE");
    return word != NULL && word[0] != 0 && strcmp(word, "0") != 0;
}

ein_status ein__kernels_compile(ein_program *p, text *objects, int *n_objects, error *e)
{
    arena scratch = {NULL};
    target *t = p->context->target;
    units w = {.target = t, .counting = p->counting};
    w.n = least(least(p->program.n_kernels, count_threads() * t->api->units_per_thread), MAX_OBJECTS);
    *n_objects = w.n;
    if (w.n > 0 && forbidden())
        return ein__fail(e, EIN_COMPILE_FAILED, "EIN_NO_COMPILE is set, and the cache does not have this program: %d kernels, "
                         "the first is %s", p->program.n_kernels, p->program.kernels[0].name);
    ein_status s = w.n > 0 ? fill_units(p, &scratch, &w) : EIN_OK;
    if (s == EIN_OK) s = run_units(&w, objects, e);
    else ein__fail(e, s, "out of memory for the kernels' list");
    ein__arena_free(&scratch);
    return s;
}
