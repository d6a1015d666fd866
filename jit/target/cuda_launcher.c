/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that executes: one execution after the other, in the order in which they were started. */
#include "jit/target/cuda.h"

static cuda_engine *next_engine(cuda_target *t)
{
    pthread_mutex_lock(&t->lock);
    while (t->first == NULL && !t->closing) pthread_cond_wait(&t->changed, &t->lock);
    cuda_engine *g = t->first;
    if (g != NULL) {
        t->first = g->next;
        if (t->first == NULL) t->last = NULL;
    }
    pthread_mutex_unlock(&t->lock);
    return g;
}

static void *launcher_main(void *argument)
{
    cuda_target *t = argument;
    for (cuda_engine *g; (g = next_engine(t)) != NULL;) {
        ein__cuda_execute(t, g);
        pthread_mutex_lock(&t->lock);
        g->done = true;
        pthread_cond_broadcast(&t->changed);
        pthread_mutex_unlock(&t->lock);
    }
    return NULL;
}

ein_status ein__cuda_launcher_start(cuda_target *t, error *e)
{
    t->launching = pthread_create(&t->launcher, NULL, launcher_main, t) == 0;
    return t->launching ? EIN_OK : ein__fail(e, EIN_NO_MEMORY, "cuda: the launching thread could not be started");
}

void ein__cuda_launcher_stop(cuda_target *t)
{
    if (!t->launching) return;
    pthread_mutex_lock(&t->lock);
    t->closing = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->launcher, NULL);
}

void ein__cuda_start(target *base, execution *x)
{
    cuda_target *t = (cuda_target *)base;
    cuda_engine *g = x->engine;
    pthread_mutex_lock(&t->lock);
    g->done = false;
    g->next = NULL;
    if (t->last != NULL) t->last->next = g;
    else t->first = g;
    t->last = g;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

void ein__cuda_wait(target *base, execution *x)
{
    cuda_target *t = (cuda_target *)base;
    cuda_engine *g = x->engine;
    pthread_mutex_lock(&t->lock);
    while (!g->done) pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
}
