/* SPDX-License-Identifier: Apache-2.0 */
#include "core/weights/inner.h"

#include <string.h>

static const stored_type types[] = {
    {"F64", 64, EIN_F64},         {"F32", 32, EIN_F32},        {"F16", 16, EIN_F16}, {"BF16", 16, EIN_BF16},
    {"F8_E4M3", 8, EIN_F8E4M3},   {"F8_E5M2", 8, EIN_F8E5M2},  {"I64", 64, EIN_I64}, {"I32", 32, EIN_I32},
    {"I8", 8, EIN_I8},            {"BOOL", 8, EIN_BOOL},       {"I16", 16, 0},       {"U8", 8, 0},
    {"U16", 16, 0},               {"U32", 32, 0},              {"U64", 64, 0},       {"C64", 64, 0},
    {"F8_E8M0", 8, 0},            {"F6_E2M3", 6, 0},           {"F6_E3M2", 6, 0},    {"F4", 4, 0}};

enum { N_TYPES = sizeof types / sizeof *types };

const stored_type *ein__stored_type_find(const char *name)
{
    for (int i = 0; i < N_TYPES; i++)
        if (strcmp(types[i].name, name) == 0) return &types[i];
    return NULL;
}

const stored_type *ein__stored_type_of(ein_dtype dtype)
{
    for (int i = 0; i < N_TYPES; i++)
        if (types[i].dtype == dtype && dtype != 0) return &types[i];
    return NULL;
}
