/* SPDX-License-Identifier: Apache-2.0 */
/* A graph with data for all its leaves, and its programs' results compared with the reference. Every word
 * here asserts by itself that it went well. */
#ifndef TESTS_HARNESS_TRIAL_H
#define TESTS_HARNESS_TRIAL_H

#include "core/reference/reference.h"
#include "ein.h"

/* Data follow from a leaf's name and shape: two graphs that share names share data. Parameters and inputs are
 * small around 0, vectors around 1, rounded to their type; integers are rows of the table that they look up; states
 * are 0. */
typedef struct trial {
    const ein_graph *graph; /* the caller's */
    void **leaves;          /* per leaf; NULL: a constant */
    i64 *scalars;           /* the caller may set them; 0 at first */
} trial;

void trial_make(trial *t, const ein_graph *g);
void trial_free(trial *t);
/* The leaf's data. */
void *trial_data(const trial *t, const char *leaf_name);
void trial_set_scalar(trial *t, const char *name, i64 x);

/* "host:3", or "cuda:3" where the environment says EIN_ON=cuda: most tests can run there, over the fake (tests/fake). */
const char *trial_machine(const char *machine, char room[16]);
/* A fresh context on that machine; `cache` NULL: without one. */
ein_context *open_context(const char *machine, const char *cache);
/* A new directory under that of temporary files; removed with its files by remove_directory. */
char *make_directory(void);
void remove_directory(char *path);

/* Add the parameters that the store has not got yet. */
void trial_add_weights(const trial *t, ein_weights *w);
/* Compile; fails the test with the context's error. */
ein_program *compile_program(ein_context *c, const ein_graph *g, const ein_compile_options *o);
/* The plan of `g` with its first parameter in two uneven pieces, [0, at) on device 1 and the rest on device 0,
 * as no search would lay it; free it. */
char *odd_plan(ein_context *c, const ein_graph *g, i64 at);
ein_program_stats program_stats(const ein_program *p);

/* Bind inputs and scalars (outputs and state are the caller's to bind). */
void trial_bind(const trial *t, ein_run *r);
/* One run into fresh memory: the outputs one after the other, each from a multiple of 16 bytes on, *n bytes in all;
 * free it. state may be NULL. */
void *trial_outputs(const trial *t, ein_program *p, ein_state *state, size_t *n);
/* One run, every output as good as the reference and its type allow; then the same run again, the same bits. */
void trial_check(const trial *t, ein_program *p, ein_state *state);
/* All devices together touched so many bytes elsewhere in the run. */
void trial_check_tally(const ein_run *r, int n_devices, i64 bytes);
/* Compile on `machine` with a store of its own, check, free: for the many graphs that need no more. `print`
 * (may be NULL) gets the program's steps; free it. */
void trial_once(const ein_graph *g, const char *machine, const char *cache, char **print);

#endif
