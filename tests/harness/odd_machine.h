/* SPDX-License-Identifier: Apache-2.0 */
/* Machines that no preset has. */
#ifndef TESTS_HARNESS_ODD_MACHINE_H
#define TESTS_HARNESS_ODD_MACHINE_H

#include "core/plan/machine.h"

typedef enum oddity {
    FLAT,      /* everybody one step from everybody, through a switch */
    ONE_WAY,   /* kernels of device 1 cannot address device 0; the other way they can */
    NO_PEERS,  /* nobody can address anybody */
    ISLANDS,   /* two halves, each with its switch, joined by a slow link that kernels can use */
    BOXES,     /* the same, and they cannot */
    RING_ONLY, /* links between neighbours */
    UNEQUAL,   /* a mesh of links of very different bandwidth */
    ODDITIES
} oddity;

/* `quick`: a machine of this process's threads on which a step takes no time, so that even small exchanges are
 * worth several; else one of GPUs, for planning. */
ein_status odd_machine(arena *a, oddity kind, int n, bool quick, machine *out);

#endif
