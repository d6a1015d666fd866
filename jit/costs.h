/* SPDX-License-Identifier: Apache-2.0 */
/* The cost model that the optimizer is handed: exchange's closed forms and rooflines of the families. */
#ifndef JIT_COSTS_H
#define JIT_COSTS_H

#include "optimizer/optimizer.h"

/* On `a`; borrows the machine. */
ein_status ein__cost_model(arena *a, const machine *m, cost_model *out);

#endif
