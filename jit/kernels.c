/* SPDX-License-Identifier: Apache-2.0 */
/* Compile a program's distinct kernels: as many groups as there are cores, each one object, built at once. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "jit/context.h"

enum { MAX_GROUPS = 8 };

typedef struct group {
    const target_api *api;
    const kernel_text **kernels;
    int n;
    size_t weight;
    bool counting;
    text *object;
    error error;
    ein_status status;
    pthread_t thread;
    bool started;
} group;

static void *compile_group(void *argument)
{
    group *g = argument;
    g->status = g->api->compile(g->kernels, g->n, g->counting, g->object, &g->error);
    return NULL;
}

static int count_groups(int n_kernels)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int n = cores < 1 ? 1 : cores > MAX_GROUPS ? MAX_GROUPS : (int)cores;
    return n < n_kernels ? n : n_kernels;
}

/* Heaviest kernel first to the lightest group; text length stands for compile time. */
static ein_status fill_groups(ein_program *p, arena *a, group *groups, int n)
{
    int k = p->program.n_kernels;
    bool *taken;
    NEW(a, taken, k);
    for (int g = 0; g < n; g++) NEW(a, groups[g].kernels, k);
    for (int i = 0; i < k; i++) {
        int best = -1;
        for (int j = 0; j < k; j++)
            if (!taken[j] && (best < 0 || strlen(p->program.kernels[j].body) > strlen(p->program.kernels[best].body))) best = j;
        group *to = &groups[0];
        for (int g = 1; g < n; g++)
            if (groups[g].weight < to->weight) to = &groups[g];
        taken[best] = true;
        to->kernels[to->n++] = &p->program.kernels[best];
        to->weight += strlen(p->program.kernels[best].body);
    }
    return EIN_OK;
}

static ein_status run_groups(group *groups, int n, error *e)
{
    ein_status s = EIN_OK;
    for (int g = 1; g < n; g++) groups[g].started = pthread_create(&groups[g].thread, NULL, compile_group, &groups[g]) == 0;
    for (int g = 0; g < n; g++) {
        if (groups[g].started) pthread_join(groups[g].thread, NULL);
        else compile_group(&groups[g]);
    }
    for (int g = 0; g < n; g++) {
        if (s == EIN_OK && groups[g].status != EIN_OK) {
            s = ein__fail(e, groups[g].status, "%s", groups[g].error.line);
            ein__error_set_detail(e, groups[g].error.detail);
        }
        ein__error_reset(&groups[g].error);
    }
    return s;
}

ein_status ein__kernels_compile(ein_program *p, text *objects, int *n_objects, error *e)
{
    arena scratch = {NULL};
    group groups[MAX_GROUPS];
    memset(groups, 0, sizeof groups);
    *n_objects = count_groups(p->program.n_kernels);
    for (int g = 0; g < *n_objects; g++) {
        groups[g].api = p->context->target->api;
        groups[g].counting = p->counting;
        groups[g].object = &objects[g];
    }
    ein_status s = *n_objects > 0 ? fill_groups(p, &scratch, groups, *n_objects) : EIN_OK;
    if (s == EIN_OK) s = run_groups(groups, *n_objects, e);
    else ein__fail(e, s, "out of memory for the kernels' list");
    ein__arena_free(&scratch);
    return s;
}
