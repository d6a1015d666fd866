/* SPDX-License-Identifier: Apache-2.0 */
/* Which code this is. The build generates the function's source. */
#ifndef CORE_BASE_IDENTITY_H
#define CORE_BASE_IDENTITY_H

/* 64 hexadecimal digits over all sources of the library; part of every cache key. */
const char *ein__code_identity(void);

#endif
