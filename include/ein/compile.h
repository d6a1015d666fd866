/* SPDX-License-Identifier: Apache-2.0 */
/* From a graph to a program: canonical form, search, exchange synthesis, kernels, cache. */
#ifndef EIN_COMPILE_H
#define EIN_COMPILE_H

#include "ein/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ein_compile_options {
    size_t size;          /* sizeof(ein_compile_options) */
    ein_weights *weights; /* where parameters are; NULL: plan only (a program that can be explained, not run) */
    ein_state *state;     /* take the layouts of these states; NULL: choose */
    const char *plan;     /* a forced plan, as ein_program_plan prints it; NULL: search */
    ein_dtype wire;       /* in which partial sums of bf16 and f16 travel: 0, as they are; EIN_F32, unrounded */
    int counting;         /* 1: kernels tally the bytes they touch in other devices' memory (slow; not on GPUs) */
} ein_compile_options;

/* Compile `graph` for the context's machine. Blocks: yes (search, compiler). The graph may be freed after.
 * Fails with the graph's first error, EIN_NO_PLAN, EIN_COMPILE_FAILED, EIN_NO_DEVICE, EIN_NO_DEVICE_MEMORY. */
EIN_API ein_status ein_compile(ein_program **out, ein_context *context, const ein_graph *graph,
                               const ein_compile_options *options);
EIN_API void ein_program_free(ein_program *program);

typedef struct ein_program_stats {
    size_t size;             /* sizeof(ein_program_stats) */
    int searches;            /* 1 if a plan was searched, 0 if it was cached or forced */
    int compiles;            /* kernels compiled now; 0 if cached */
    int kernels;             /* distinct kernel texts */
    int steps;               /* steps in the rolled program */
    int64_t predicted_bytes; /* bytes that one run moves between devices */
    int64_t weight_bytes;    /* bytes of parameters on all devices */
    int64_t buffer_bytes;    /* bytes of activations on the fullest device */
    double search_ms, synth_ms, compile_ms, place_ms;
    double predicted_us;     /* of the cost model */
} ein_program_stats;
EIN_API void ein_program_get_stats(const ein_program *program, ein_program_stats *stats);

/* Texts owned by the program. */
EIN_API const char *ein_program_plan(ein_program *program);    /* JSON; can be forced again */
EIN_API const char *ein_program_explain(ein_program *program); /* one line per op, in plain words */
EIN_API const char *ein_program_source(ein_program *program);  /* kernel texts */
EIN_API const char *ein_program_print(ein_program *program);   /* the steps */

#ifdef __cplusplus
}
#endif
#endif
