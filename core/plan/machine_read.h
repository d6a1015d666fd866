/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of machine.c: the places that a machine may come from. */
#ifndef CORE_PLAN_MACHINE_READ_H
#define CORE_PLAN_MACHINE_READ_H

#include "core/plan/machine.h"

/* The preset called by the first `n` bytes of `name`; false: there is none. */
bool ein__machine_preset_known(const char *name, size_t n);
ein_status ein__machine_preset(arena *a, const char *name, size_t n, machine *out);
/* "nvswitch8, dgx-1, ..." */
void ein__machine_preset_names(text *out);
/* `count` shares of this computer. */
ein_status ein__machine_host(arena *a, int count, machine *out);
/* `where` names the text in messages: a file, or "machine". Checks members and types, not the machine. */
ein_status ein__machine_json(arena *a, const char *where, const char *json, size_t n, machine *out, error *e);

#endif
