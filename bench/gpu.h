/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the suite `gpu`. */
#ifndef BENCH_GPU_H
#define BENCH_GPU_H

#include "tools/report.h"

typedef struct gpu_bench {
    int gpus;              /* that the driver has */
    bool quick;
    const char *cache_dir; /* of this suite alone */
    report report;
} gpu_bench;

/* What was measured, once it is known to be right. NaN: does not apply. */
typedef struct gpu_row {
    const char *part, *what;
    int devices, runs;
    double first_ms, warm_ms, run_us, rate;
    const char *unit; /* of the rate */
} gpu_row;
void gpu_bench_row(gpu_bench *b, const gpu_row *row);

/* Each returns an exit code; a wrong result is said to stderr, and is no row. */
int gpu_bench_launches(gpu_bench *b); /* a step of a program, and a hop to another device */
int gpu_bench_copies(gpu_bench *b);   /* a box within a device, and to another one */
int gpu_bench_products(gpu_bench *b);
int gpu_bench_blocks(gpu_bench *b);   /* a block of a LLaMA, prefill and decoding */

#endif
