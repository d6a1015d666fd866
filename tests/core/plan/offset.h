/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_CORE_PLAN_OFFSET_H
#define TESTS_CORE_PLAN_OFFSET_H

#include "core/plan/relation.h"

/* Where an element is stored in a block; -1: it is not. */
static inline i64 offset_in(const relation *r, int block, i64 element)
{
    i64 at[MAX_AXES], offset = 0;
    for (int i = r->n_axes - 1; i >= 0; i--) {
        at[i] = element % r->axes[i].extent;
        element /= r->axes[i].extent;
    }
    for (int i = 0; i < r->n_axes; i++) {
        const axis *x = &r->axes[i];
        int part = ein__block_part(r, block, i);
        if (at[i] < x->lo[part] || at[i] >= x->hi[part]) return -1;
        if (!x->broadcast) offset = offset * (x->hi[part] - x->lo[part]) + at[i] - x->lo[part];
    }
    return offset;
}

#endif
