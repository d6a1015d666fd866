/* SPDX-License-Identifier: Apache-2.0 */
/* The suites of `ein-bench`. Each takes the words after its name and returns an exit code (tools/args.h). */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

int suite_jit(int argc, char **argv);
int suite_kernels(int argc, char **argv);
int suite_exchange(int argc, char **argv);
int suite_plans(int argc, char **argv);
int suite_gpu(int argc, char **argv);

#endif
