/* SPDX-License-Identifier: Apache-2.0 */
/* A JSON file of Hugging Face, member by member. Members that do not change the graph are never asked for; those that
 * would change it in a way that is not built are refused by name. Absent and null are the same. */
#ifndef TOOLS_CONFIG_H
#define TOOLS_CONFIG_H

#include <jansson.h>

#include "core/base/arena.h"
#include "core/tensor/dtype.h"
#include "tools/models/block.h"

typedef struct config {
    const char *path;
    const json_t *root;
    error *error;
} config;

enum { CONFIG_MOST = 1 << 24 };

/* Parse a file, an object; drop *root (json_decref). */
ein_status config_load(const char *path, json_t **root, error *e);
ein_status config_load_text(const char *path, const char *bytes, size_t n, json_t **root, error *e);

ein_status config_refuse(const config *c, const char *member, const char *why);
const json_t *config_get(const json_t *object, const char *member);
/* 1 to CONFIG_MOST; `fallback` < 0: the member must be there. */
ein_status config_int(const config *c, const char *member, i64 fallback, i64 *out);
/* 0 to CONFIG_MOST. */
ein_status config_count(const config *c, const char *member, i64 fallback, i64 *out);
/* Above 0; `fallback` <= 0: the member must be there. */
ein_status config_number(const config *c, const json_t *object, const char *member, double fallback, double *out);
/* Here absent is `fallback`, and null none: 0. */
ein_status config_optional(const config *c, const char *member, double fallback, double *out);
ein_status config_flag(const config *c, const char *member, int fallback, int *out);
/* The flag must have the value, which is also what its absence means. */
ein_status config_fixed(const config *c, const char *member, int value);
/* One of `words`, NULL at the end; absent: the first. */
ein_status config_word(const config *c, const json_t *object, const char *member, const char *const *words, int *out);
ein_status config_activation(const config *c, const char *member, activation fallback, activation *out);
/* The first of "architectures", if given, must be one of these; not given: the first. */
ein_status config_architecture(const config *c, const char *const *known, int *out);
/* Hidden size, heads and layers under these names, which must be there; heads of equal size, one for one. */
ein_status config_sizes(const config *c, const char *hidden, const char *heads, const char *layers, sizes *out);

#endif
