/* SPDX-License-Identifier: Apache-2.0 */
/* Run a program under a forced plan and compare it with the reference evaluator, its bytes with the
 * prediction, its runs with each other, and its plan with the text it came from. */
#ifndef TESTS_HARNESS_CHECK_PROGRAM_H
#define TESTS_HARNESS_CHECK_PROGRAM_H

#include "ein.h"
#include "tests/harness/random_graph.h"

typedef struct program_case {
    const char *machine;   /* "host:3" */
    const char *cache_dir; /* NULL: no cache */
    bool cached;           /* the program must come out of the cache */
    const random_graph *graph;
    const char *plan; /* as ein__plan_print prints it; NULL: the search's */
    ein_dtype wire;   /* as in ein_compile_options */
    bool counting;    /* check the byte tally too */
    text *bits;       /* NULL, or gets the outputs of every run */
} program_case;

/* False with a line in `why` (and perhaps a compiler's log after it) if anything is wrong. */
bool check_program(const program_case *c, text *why);

#endif
