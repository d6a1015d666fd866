/* SPDX-License-Identifier: Apache-2.0 */
/* What a failed compile leaves behind: the compiler's log, then the source with line numbers. */
#ifndef JIT_COMPILER_REPORT_H
#define JIT_COMPILER_REPORT_H

#include "core/base/error.h"

/* Sets e's detail. The prelude is left out; line numbers are those of the whole unit. `e` may be NULL. */
void ein__compiler_report(error *e, const char *log, const char *source);

#endif
