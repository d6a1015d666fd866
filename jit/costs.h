/* SPDX-License-Identifier: Apache-2.0 */
/* The cost model that the optimizer is handed: exchange's closed forms and rooflines of the families. */
#ifndef JIT_COSTS_H
#define JIT_COSTS_H

#include "optimizer/optimizer.h"

/* Borrows the machine. */
cost_model ein__cost_model(const machine *m);

#endif
