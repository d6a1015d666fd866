/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tensor/dtype.h"

#include <stddef.h>

typedef struct dtype_row {
    const char *name;
    i64 bytes; /* 0: a name kept free */
    const char *kernel, *load, *store;
    ein_dtype compute;
} dtype_row;

static const dtype_row table[] = {
    [EIN_F32] = {"f32", 4, "float", "", "", EIN_F32},
    [EIN_F64] = {"f64", 8, "double", "", "", EIN_F64},
    [EIN_BF16] = {"bf16", 2, "u16", "from_bf16", "to_bf16", EIN_F32},
    [EIN_F16] = {"f16", 2, "u16", "from_f16", "to_f16", EIN_F32},
    [EIN_I8] = {"i8", 1, "i8", "(i64)", "(i8)", EIN_I64},
    [EIN_I32] = {"i32", 4, "int", "(i64)", "(int)", EIN_I64},
    [EIN_I64] = {"i64", 8, "i64", "", "", EIN_I64},
    [EIN_BOOL] = {"bool", 1, "u8", "(i64)", "to_bool", EIN_I64},
    [EIN_F8E4M3] = {.name = "f8e4m3"},
    [EIN_F8E5M2] = {.name = "f8e5m2"}};

static bool known(ein_dtype d) { return (int)d >= 1 && (size_t)d < sizeof table / sizeof *table; }

bool ein__dtype_built(ein_dtype d) { return known(d) && table[d].bytes > 0; }
const char *ein__dtype_name(ein_dtype d) { return known(d) ? table[d].name : "?"; }
i64 ein__dtype_bytes(ein_dtype d) { return known(d) ? table[d].bytes : 0; }
const char *ein__dtype_kernel(ein_dtype d) { return known(d) ? table[d].kernel : NULL; }
ein_dtype ein__dtype_compute(ein_dtype d) { return known(d) ? table[d].compute : 0; }
const char *ein__dtype_load(ein_dtype d) { return known(d) ? table[d].load : NULL; }
const char *ein__dtype_store(ein_dtype d) { return known(d) ? table[d].store : NULL; }
bool ein__dtype_is_float(ein_dtype d) { return known(d) && table[d].compute != EIN_I64 && table[d].bytes > 0; }
