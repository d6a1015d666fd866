/* SPDX-License-Identifier: Apache-2.0 */
/* The third reading of kernel texts, for tests: a fiber per CUDA thread, every access to memory checked. A launch
 * stops at the first fault, which has a kind, a kernel and a line. What must be known of memory and of the order
 * of launches, the caller says: buffers, and lines with clocks between them. README.md has the rules. */
#ifndef TESTS_FAKE_FIBER_H
#define TESTS_FAKE_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/text.h"

/* ---- memory and order ---- */

enum { FIBER_LINES = 64 };

typedef struct fiber_space fiber_space;
fiber_space *fiber_space_create(void); /* NULL: no memory */
void fiber_space_free(fiber_space *s);

/* A buffer that kernels of the devices in `readers` may read and those in `writers` write (bits). Unless `written`,
 * reading a byte before it was written is a fault. Buffers do not overlap. False: no memory. */
bool fiber_memory_add(fiber_space *s, void *base, size_t bytes, uint64_t readers, uint64_t writers, bool written);
void fiber_memory_remove(fiber_space *s, void *base);

/* A line is what happens one after the other: a stream, or a thread of the host. Its number, or -1 when there are
 * FIBER_LINES. Lines have no order among them but by clocks. */
int fiber_line_add(fiber_space *s);

/* What had happened when it was last released to: an event. {0} is a clock of nothing. */
typedef struct fiber_clock { uint32_t ticks[FIBER_LINES]; } fiber_clock;
/* All that happened on the line so far joins the clock. */
void fiber_release(fiber_space *s, int line, fiber_clock *clock);
/* What the clock has happened before all that follows on the line. */
void fiber_acquire(fiber_space *s, int line, const fiber_clock *clock);

/* ---- kernels ---- */

/* Compiles the bodies of a unit of any reading (core/kernel/source.c): what stands before its mark is replaced. */
ein_status fiber_compile(const char *source, text *object, error *e);

typedef struct fiber_module fiber_module;
ein_status fiber_load(const void *object, size_t bytes, fiber_module **out, error *e);
void fiber_unload(fiber_module *m);

typedef void (*fiber_entry)(void **args, long long bx, long long by, long long bz, int tid);
/* NULL: no such kernel. `threads` gets those of a block. */
fiber_entry fiber_find(const fiber_module *m, const char *name, int *threads);

/* ---- launches ---- */

typedef enum fiber_fault {
    FIBER_CLEAN,
    FIBER_RACE,       /* two accesses without an order, one of them a write */
    FIBER_DIVERGENCE, /* not all threads came to the same barrier, or not the same way */
    FIBER_BOUNDS,     /* outside of every buffer and shared array, or not for this device */
    FIBER_MISALIGNED, /* an address that is no multiple of the access's size */
    FIBER_UNWRITTEN,  /* read before it was written */
    FIBER_NO_MEMORY
} fiber_fault;

typedef struct fiber_report {
    fiber_fault fault;
    char kernel[48]; /* "" where no kernel accessed */
    int line;        /* of its body, from 1; 0: not known */
    const void *at;  /* what was accessed */
    char message[512];
} fiber_report;

typedef struct fiber_launch {
    fiber_entry entry;
    int threads, device, line;
    long long grid[3];
    void **args;
    uint64_t seed; /* of the order of blocks and threads */
    void (*note)(void *user, const void *p, size_t bytes, bool write); /* of each good access to a buffer; or NULL */
    void *user;
} fiber_launch;

/* True: clean. */
bool fiber_run(fiber_space *s, const fiber_launch *l, fiber_report *out);

/* Reading or writing on a line without a kernel: a copy, a memset, the host. */
bool fiber_access(fiber_space *s, int line, int device, const void *p, size_t bytes, bool write, fiber_report *out);

const char *fiber_fault_name(fiber_fault f);

#endif
