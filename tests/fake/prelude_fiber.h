/* SPDX-License-Identifier: Apache-2.0 */
/* What stands around the shared preludes in a unit of the fiber reading, and the source that is linked to it. */
#ifndef TESTS_FAKE_PRELUDE_FIBER_H
#define TESTS_FAKE_PRELUDE_FIBER_H

/* Appends the prelude up to the mark; bodies follow it. */
#include "core/base/text.h"
void fiber_prelude(text *out);

/* Defines what the compiler's instrumentation and the prelude call, by the table that fiber_bind_ gets. */
extern const char fiber_hooks_source[];

/* The table; the source declares the same. */
typedef struct fiber_hooks {
    void (*access)(const void *p, unsigned long bytes, int flags, const void *pc);
    int (*step)(int line);
    void (*at)(int line);
    void (*sync)(void);
    void (*meet)(void);
    void *(*shared)(int key, unsigned long bytes);
    void (*shuffle)(void *value, int bytes, int from);
} fiber_hooks;
enum { HOOK_WRITE = 1, HOOK_ALIGNED = 2 };

#endif
