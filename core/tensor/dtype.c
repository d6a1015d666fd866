/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tensor/dtype.h"

#include <stddef.h>

static const struct { const char *name, *kernel; i64 bytes; bool built; } table[] = {
    [EIN_F32] = {"f32", "float", 4, true}, [EIN_I32] = {"i32", "int", 4, true},
    [EIN_I64] = {"i64", "i64", 8, true},   [EIN_F64] = {"f64", NULL, 0, false},
    [EIN_BF16] = {"bf16", NULL, 0, false}, [EIN_F16] = {"f16", NULL, 0, false},
    [EIN_I8] = {"i8", NULL, 0, false},     [EIN_BOOL] = {"bool", NULL, 0, false},
    [EIN_F8E4M3] = {"f8e4m3", NULL, 0, false}, [EIN_F8E5M2] = {"f8e5m2", NULL, 0, false}};

static bool known(ein_dtype d) { return (int)d >= 1 && (size_t)d < sizeof table / sizeof *table; }

bool ein__dtype_built(ein_dtype d) { return known(d) && table[d].built; }
const char *ein__dtype_name(ein_dtype d) { return known(d) ? table[d].name : "?"; }
i64 ein__dtype_bytes(ein_dtype d) { return known(d) ? table[d].bytes : 0; }
const char *ein__dtype_kernel(ein_dtype d) { return known(d) ? table[d].kernel : NULL; }
