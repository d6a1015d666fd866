/* SPDX-License-Identifier: Apache-2.0 */
/* Which plans a mesh of devices can express. */
#ifndef OPTIMIZER_MESH_H
#define OPTIMIZER_MESH_H

#include "core/plan/plan.h"

enum { MAX_MESH = 4, NO_MESH = -1 };

/* The least number of axes of a mesh that expresses all ops of the plan: one grid for all, each axis given to one label
 * of an op or to none, every device at work, parts as even as padding makes them. 0: nothing is cut. NO_MESH: none
 * does. Layouts of leaves and carries are not looked at. */
int ein__plan_mesh(const graph *g, const plan *p);

#endif
