/* SPDX-License-Identifier: Apache-2.0 */
/* One run of a program: bind, start, wait, cancel. Several threads may run one program, each with its own
 * ein_run. A run allocates nothing after ein_run_create. */
#ifndef EIN_RUN_H
#define EIN_RUN_H

#include "ein/compile.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ein_run ein_run;

EIN_API ein_status ein_run_create(ein_run **out, ein_program *program);
EIN_API void ein_run_free(ein_run *run); /* waits for it first */

/* Bind host memory, row-major, exactly `bytes` long; borrowed until ein_run_wait returns. What no output
 * needs may be bound or not. */
EIN_API ein_status ein_run_input(ein_run *run, const char *name, const void *data, size_t bytes);
EIN_API ein_status ein_run_output(ein_run *run, const char *name, void *data, size_t bytes);
EIN_API ein_status ein_run_scalar(ein_run *run, const char *name, int64_t value);
EIN_API ein_status ein_run_state(ein_run *run, ein_state *state);

/* DLPack tensors (DLTensor of dlpack.h, any version since 0.6) on the CPU, row-major, of the declared type and shape. */
struct DLTensor;
EIN_API ein_status ein_run_input_dlpack(ein_run *run, const char *name, const struct DLTensor *tensor);
EIN_API ein_status ein_run_output_dlpack(ein_run *run, const char *name, struct DLTensor *tensor);

/* Start; returns at once. Fails with EIN_INVALID if something is not bound, a scalar or id is out of range, or the
 * state is in use or undefined (the message names it). */
EIN_API ein_status ein_run_start(ein_run *run);
/* Wait for the end. EIN_CANCELLED after a cancel. Blocks. */
EIN_API ein_status ein_run_wait(ein_run *run);
/* Ask a started run to stop; ein_run_wait still must be called. Thread: any. */
EIN_API void ein_run_cancel(ein_run *run);
/* Start and wait. */
EIN_API ein_status ein_run_once(ein_run *run);

/* One line on this run's last failure, "" if none. */
EIN_API const char *ein_run_error(const ein_run *run);
/* Bytes that device touched in other devices' memory in the last run; counting programs only, else -1. */
EIN_API int64_t ein_run_tally(const ein_run *run, int device);

#ifdef __cplusplus
}
#endif
#endif
