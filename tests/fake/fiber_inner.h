/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the fiber reading know of each other. */
#ifndef TESTS_FAKE_FIBER_INNER_H
#define TESTS_FAKE_FIBER_INNER_H

#include <pthread.h>

#include "tests/fake/fiber.h"
#include "tests/fake/prelude_fiber.h"

/* ---- fiber_memory.c ---- */

/* Held by every public function that touches a space; the rest is called with it held. */
extern pthread_mutex_t fiber_lock;

/* Who accessed a byte: operation, block, thread, and how many barriers the block had behind it. An operation is a
 * launch or an access without a kernel; it has a line and a tick there. */
enum { OP_BITS = 24, BLOCK_BITS = 13, THREAD_BITS = 11, EPOCH_BITS = 16 };
enum { MANY_BLOCKS = (1 << BLOCK_BITS) - 1, MANY_THREADS = (1 << THREAD_BITS) - 1 };
typedef uint64_t actor;

static inline actor fiber_actor(uint32_t op, long long block, int thread, int epoch)
{
    return (uint64_t)op << (64 - OP_BITS) | (uint64_t)(block % MANY_BLOCKS) << (THREAD_BITS + EPOCH_BITS) |
           (uint64_t)thread << EPOCH_BITS | (uint64_t)(epoch & ((1 << EPOCH_BITS) - 1));
}

typedef struct cell { actor who; const void *pc; } cell;

/* Memory with its history: of each byte the last write and some reads. */
typedef struct region {
    char *base;
    size_t bytes;
    uint64_t readers, writers;
    bool written;
    int width;   /* cells of a byte */
    cell *cells; /* the write, then reads */
} region;

/* The region that holds all of [p, p + bytes), or NULL. */
region *fiber_region(fiber_space *s, const void *p, size_t bytes);

/* A new operation on the line; 0 when there are too many. */
uint32_t fiber_operation(fiber_space *s, int line);

typedef struct access_fault {
    fiber_fault fault;
    size_t at;              /* byte of the access */
    actor other;            /* of a race */
    const void *other_pc;
    bool other_write;
} access_fault;

/* Checks the access and records it. False: `out` has the fault. */
bool fiber_check(fiber_space *s, region *r, const void *p, size_t bytes, bool write, actor who, const void *pc,
                 access_fault *out);

/* ---- fiber_compile.c ---- */

/* Kernel and line of an instruction. */
typedef struct fiber_place { char kernel[48]; int line; } fiber_place;
fiber_place fiber_locate(const void *pc);

extern const fiber_hooks fiber_run_hooks; /* fiber_run.c */

/* ---- fiber_context.c ---- */

/* A stack that can be left and entered again. */
typedef struct fiber_context { void *sp; } fiber_context;
/* `enter` runs on the stack when it is first switched to, and never returns. */
void fiber_context_make(fiber_context *c, char *stack, size_t bytes, void (*enter)(void));
void fiber_context_switch(fiber_context *from, const fiber_context *to);

#endif
