/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_PARALLEL_H
#define TOOLS_PARALLEL_H

#include <stdint.h>

int parallel_cores(void);
/* Calls work(user, lo, hi) for ranges that cover 0 .. n once, on as many threads as there are cores; runs on
 * the caller's thread what no thread could be started for. */
void parallel_ranges(int64_t n, void (*work)(void *user, int64_t lo, int64_t hi), void *user);
/* Seconds of a clock that never goes back. */
double clock_seconds(void);

#endif
