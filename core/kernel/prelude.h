/* SPDX-License-Identifier: Apache-2.0 */
/* The prelude of a unit: types and macros of one reading, memory accesses, then the functions that both
 * readings share. */
#ifndef CORE_KERNEL_PRELUDE_H
#define CORE_KERNEL_PRELUDE_H

extern const char ein__prelude_cuda[];    /* types, parameters */
extern const char ein__prelude_threads[]; /* phases and collectives, where each thread runs on its own (CUDA) */
extern const char ein__prelude_cuda_functions[];
extern const char ein__prelude_host[]; /* types, parameters, phases as loops, collectives */
extern const char ein__prelude_c_functions[];
extern const char ein__prelude_access[];   /* LD, ST */
extern const char ein__prelude_counting[]; /* LD, ST that tally (host) */
extern const char ein__prelude_common[];
extern const char ein__prelude_wide[]; /* other element types; after common */

#endif
