/* SPDX-License-Identifier: Apache-2.0 */
/* A host object: the bytes of a shared library, then a seal. The dynamic loader trusts what it maps; the seal
 * makes a damaged object an error instead of a crash. */
#ifndef JIT_COMPILER_OBJECT_H
#define JIT_COMPILER_OBJECT_H

#include "core/base/hash.h"
#include "core/base/text.h"

/* Appends the seal. */
void ein__object_seal(text *object);
/* Bytes before the seal; 0 if there is no seal or it does not fit. */
size_t ein__object_check(const void *object, size_t bytes);

#endif
