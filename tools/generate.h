/* SPDX-License-Identifier: Apache-2.0 */
/* Greedy decoding: each next token is the likeliest, and found on the devices. */
#ifndef TOOLS_GENERATE_H
#define TOOLS_GENERATE_H

#include "tools/session.h"

typedef struct generation {
    struct { int n, room; i64 *items; } tokens;
    double first_ms; /* compile the program for one token, and run it once */
    double token_ms; /* median of its other runs; NaN: there are none */
    ein_program_stats stats;
} generation;

/* After a run of the workload on the prompt, whose keys and values are then in the session's states: as many tokens as
 * were requested. Lists are made on `a`; on failure `s->message` or the workload's error says why. */
ein_status generate(session *s, arena *a, generation *out);

#endif
