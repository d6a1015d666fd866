/* SPDX-License-Identifier: Apache-2.0 */
/* A launch of the host reading, done by fibers first: it must be clean under several seeds, and its bits are the
 * host's. For tests that have a kernel, its arguments and their memory at hand. */
#ifndef TESTS_FAKE_FIBER_TWIN_H
#define TESTS_FAKE_FIBER_TWIN_H

#include "core/kernel/dialect.h"
#include "core/tensor/dtype.h"
#include "tests/fake/fiber.h"

/* Memory of a launch: what it may do there, and of which type results are (a NaN equals any other). */
typedef struct twin_memory {
    void *base;
    size_t bytes;
    bool reads, writes;
    ein_dtype dtype;
    char *before, *after; /* the twin's */
} twin_memory;

/* Compiles kernels for twins. False: `why` has what the compiler said. */
bool twin_compile(const kernel_text *const *kernels, int n, fiber_module **out, text *why);

/* Runs the launch under each seed, compares the results of all, and leaves the memory as it was. Memory that is only
 * written counts as never written before. False: `why` has the fault. */
bool twin_run(const fiber_module *u, const kernel_text *k, const long long grid[3], void **args, twin_memory *m, int n,
              text *why);
/* After the host's launch: whether the memory is what the fibers left. Frees what the twin took. */
bool twin_compare(twin_memory *m, int n, text *why);

/* Runs the launch without each barrier of the text in turn, and leaves the memory as it was. How many there
 * are; -1: `why` has the lines of those that nothing needed, or what else went wrong. */
int twin_barriers(const kernel_text *k, const long long grid[3], void **args, twin_memory *m, int n, text *why);

/* Whether a launch is for fibers, too: the text's first ones, of few blocks. Under sanitizers, RIG_HOST_ONLY=1 says
 * no: they see nothing of a kernel. */
bool twin_wanted(int launches_before, long long blocks);

#endif
