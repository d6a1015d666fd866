/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that stand in for trained weights and real inputs: a function of seed, name and index alone, so the
 * same on any number of threads and devices. */
#ifndef TOOLS_SEEDED_H
#define TOOLS_SEEDED_H

#include <stdint.h>

enum { SEED = 1 };

/* out[i] = mean + deviation * (normal i of the stream `name`). */
void seeded_normal(const char *name, float mean, float deviation, int64_t n, float *out);
/* out[i] = integer i of the stream, 0 .. below - 1. */
void seeded_integers(const char *name, int32_t below, int64_t n, int32_t *out);

#endif
