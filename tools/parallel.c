/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "tools/parallel.h"

#include <pthread.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

enum { MOST_THREADS = 64 };

typedef struct range {
    void (*work)(void *user, int64_t lo, int64_t hi);
    void *user;
    int64_t lo, hi;
} range;

static void *run_range(void *p)
{
    range *r = p;
    r->work(r->user, r->lo, r->hi);
    return NULL;
}

int parallel_cores(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > MOST_THREADS ? MOST_THREADS : (int)n;
}

void parallel_ranges(int64_t n, void (*work)(void *user, int64_t lo, int64_t hi), void *user)
{
    range ranges[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    bool started[MOST_THREADS] = {false};
    int cores = n < 4096 ? 1 : parallel_cores();
    for (int i = 0; i < cores; i++) {
        ranges[i] = (range){work, user, n / cores * i, i + 1 < cores ? n / cores * (i + 1) : n};
        if (i + 1 < cores) started[i] = pthread_create(&threads[i], NULL, run_range, &ranges[i]) == 0;
    }
    for (int i = 0; i < cores; i++) {
        if (!started[i]) run_range(&ranges[i]);
    }
    for (int i = 0; i < cores; i++) {
        if (started[i]) pthread_join(threads[i], NULL);
    }
}

double clock_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
