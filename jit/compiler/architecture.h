/* SPDX-License-Identifier: Apache-2.0 */
/* Which code a device gets from an NVRTC: machine code where NVRTC knows the device, else PTX for the driver. */
#ifndef JIT_COMPILER_ARCHITECTURE_H
#define JIT_COMPILER_ARCHITECTURE_H

#include "core/base/error.h"

/* "sm_90": machine code; "compute_121": PTX. */
typedef struct architecture { char s[24]; } architecture;

/* `known`: what NVRTC says it compiles for; `device`: ten times the major and the minor number of its compute
 * capability. EIN_NO_DEVICE if nothing it makes runs there. */
ein_status ein__architecture_choose(const int *known, int n, int device, architecture *out, error *e);

#endif
