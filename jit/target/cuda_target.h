/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs of this computer as a target and as a machine. */
#ifndef JIT_TARGET_CUDA_TARGET_H
#define JIT_TARGET_CUDA_TARGET_H

#include "jit/cache/cache.h"
#include "jit/target/target.h"

/* "cuda": all GPUs; "cuda:N": N devices over the GPUs there are, several on one if need be. The machine is described from
 * what the driver says. `cache` (may be NULL, outlives the target) keeps what was measured. EIN_NO_DEVICE: there is no
 * driver, or it sees no GPU. */
ein_status ein__cuda_target_open(arena *a, const char *text, cache *cache, machine *m, target **out, error *e);

/* Whether kernels of device `reader` read memory of `owner` in place; else its bytes are brought. */
bool ein__cuda_target_reads(const target *t, int reader, int owner);

#endif
