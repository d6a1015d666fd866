/* SPDX-License-Identifier: Apache-2.0 */
/* Costs are integers, so that ties do not depend on the order of additions. */
#ifndef OPTIMIZER_COST_H
#define OPTIMIZER_COST_H

#include <math.h>

#include "core/tensor/dtype.h"

#define PICOSECONDS 1e12
#define FAR ((i64)1 << 58) /* there is no way; sums of up to 31 of them are still numbers */

static inline i64 ein__picoseconds(double seconds)
{
    double x = seconds * PICOSECONDS;
    return x < (double)FAR ? (i64)llround(x) : FAR;
}

/* Sums and products that stop at FAR. */
static inline i64 ein__cost_add(i64 x, i64 y) { return x + y < FAR ? x + y : FAR; }
static inline i64 ein__cost_times(i64 x, int n) { return x >= FAR / n ? FAR : x * n; }

#endif
