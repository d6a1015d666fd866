/* SPDX-License-Identifier: Apache-2.0 */
/* A walk through all steps of an execution in the program's total order, on the launcher's thread. */
#ifndef JIT_TARGET_CUDA_WALK_H
#define JIT_TARGET_CUDA_WALK_H

#include "jit/target/address.h"
#include "jit/target/cuda.h"

typedef struct walker {
    cuda_target *t;
    cuda_engine *g;
    execution *x;
    const program *p;
    places places[MAX_DEVICES];
    int gpu; /* whose context is current; -1: unknown */
    error *e;
} walker;

typedef ein_status (*step_act)(walker *w, const step *s, int iteration);

/* `act` on every step of every iteration, until the execution is stopped. */
ein_status ein__cuda_each_step(walker *w, step_act act);
ein_status ein__cuda_use_gpu(walker *w, int device);
cuda_step *ein__cuda_engine_step(const walker *w, const step *s);
/* The iteration that a step waits for; -1: none, it is before the loop. */
int ein__cuda_awaited(const walker *w, const step *s, const wait *x, int iteration);
/* The arrays of addresses of the whole run, on the devices. Then the lanes stand at their beginning. */
ein_status ein__cuda_send_sources(walker *w);
/* The step's arguments into its lane; returns how many. */
int ein__cuda_resolve(walker *w, const step *s);
bool ein__cuda_is_empty(const step *s);

/* cuda_graph.c: the execution as one graph, where that is wanted and can be; *done says whether it was. */
ein_status ein__cuda_graph_run(walker *w, bool *done);
void ein__cuda_graph_free(cuda_target *t, cuda_graph *g);

#endif
