/* SPDX-License-Identifier: Apache-2.0 */
/* Reading: a file is taken as written by somebody who wishes us ill. Lengths are compared before they are added,
 * every extent and offset before it is used, and the data of all tensors must tile the file's data. */
#include "core/weights/safetensors.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/weights/inner.h"

enum { LENGTH = 8, MOST_HEADER = 100000000, MOST_NESTING = 16 };
static const i64 MOST_ELEMENTS = (i64)1 << 56; /* times 64 bits is still an i64 */

typedef struct reader {
    arena *arena;
    const char *where, *data;
    i64 n_data;
    error *error;
} reader;

bool ein__stored_readable(const stored_tensor *t) { return ein__dtype_built(t->dtype) && t->rank <= EIN_MAX_RANK; }

__attribute__((format(printf, 3, 4))) static ein_status refuse(const reader *r, const char *name, const char *format, ...)
{
    char why[160];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return ein__fail(r->error, EIN_INVALID, "%s: tensor '%s': %s", r->where, ein__excerpt_first(name, 50).s, why);
}

/* ---- JSON --------------------------------------------------------------------------------------------- */

/* How deep arrays and objects nest, or would if the text were JSON. */
static int nesting(const char *s, size_t n)
{
    int depth = 0, most = 0;
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        if (quoted && s[i] == '\\') i++;
        else if (s[i] == '"') quoted = !quoted;
        else if (!quoted && (s[i] == '{' || s[i] == '[') && ++depth > most) most = depth;
        else if (!quoted && (s[i] == '}' || s[i] == ']')) depth--;
    }
    return most;
}

json_t *ein__weights_json(const char *where, const char *bytes, size_t n, ein_status *status, error *e)
{
    json_error_t bad;
    *status = EIN_INVALID;
    if (nesting(bytes, n) > MOST_NESTING) {
        ein__fail(e, EIN_INVALID, "%s: the JSON text nests deeper than %d", where, MOST_NESTING);
        return NULL;
    }
    json_t *root = json_loadb(n > 0 ? bytes : "", n, JSON_REJECT_DUPLICATES, &bad);
    if (root == NULL && json_error_code(&bad) == json_error_out_of_memory) {
        *status = EIN_NO_MEMORY;
    } else if (root == NULL) {
        ein__fail(e, EIN_INVALID, "%s: the JSON text is wrong at byte %d: %s", where, bad.position,
                  ein__excerpt_first(bad.text, 80).s);
    } else if (!json_is_object(root)) {
        ein__fail(e, EIN_INVALID, "%s: the JSON text must be an object", where);
        json_decref(root);
        root = NULL;
    }
    return root;
}

/* ---- one tensor --------------------------------------------------------------------------------------- */

static ein_status read_type(const reader *r, json_t *v, stored_tensor *t, i64 *bits)
{
    const char *name = json_string_value(v);
    if (name == NULL) return refuse(r, t->name, "\"dtype\" must be a string");
    const stored_type *type = ein__stored_type_find(name);
    if (type == NULL) return refuse(r, t->name, "unknown dtype '%s'", ein__excerpt_first(name, 30).s);
    t->type = type->name;
    t->dtype = type->dtype;
    *bits = type->bits;
    return EIN_OK;
}

static ein_status read_shape(const reader *r, json_t *v, stored_tensor *t, i64 *numel)
{
    size_t rank = json_array_size(v);
    if (!json_is_array(v)) return refuse(r, t->name, "\"shape\" must be an array");
    *numel = 1;
    for (size_t i = 0; i < rank; i++) {
        const json_t *x = json_array_get(v, i);
        i64 extent = json_integer_value(x);
        if (!json_is_integer(x)) return refuse(r, t->name, "extent %zu of \"shape\" must be an integer", i);
        if (extent < 0) return refuse(r, t->name, "extent %zu of \"shape\" is %lld", i, (long long)extent);
        if (extent > 0 && *numel > MOST_ELEMENTS / extent)
            return refuse(r, t->name, "extent %zu of \"shape\", %lld, makes more than 2^56 elements", i, (long long)extent);
        *numel *= extent;
        if (i < EIN_MAX_RANK) t->shape[i] = extent;
    }
    t->rank = (int)rank;
    return EIN_OK;
}

static ein_status read_offsets(const reader *r, json_t *v, stored_tensor *t)
{
    i64 at[2];
    if (json_array_size(v) != 2) return refuse(r, t->name, "\"data_offsets\" must be an array of two integers");
    for (size_t i = 0; i < 2; i++) {
        const json_t *x = json_array_get(v, i);
        at[i] = json_integer_value(x);
        if (!json_is_integer(x)) return refuse(r, t->name, "\"data_offsets\" must be an array of two integers");
    }
    if (at[0] < 0 || at[0] > at[1] || at[1] > r->n_data)
        return refuse(r, t->name, "\"data_offsets\" are [%lld, %lld] in %lld bytes of data", (long long)at[0],
                      (long long)at[1], (long long)r->n_data);
    t->data = r->data + at[0];
    t->bytes = at[1] - at[0];
    return EIN_OK;
}

static ein_status read_tensor(const reader *r, const char *name, json_t *v, stored_tensor *t)
{
    static const char *const members[] = {"dtype", "shape", "data_offsets"};
    i64 numel = 0, bits = 0;
    if (name[0] == 0) return ein__fail(r->error, EIN_INVALID, "%s: a tensor has no name", r->where);
    if (!json_is_object(v)) return refuse(r, name, "must be an object");
    for (int i = 0; i < 3; i++)
        if (json_object_get(v, members[i]) == NULL) return refuse(r, name, "\"%s\" is missing", members[i]);
    t->name = ein__arena_strdup(r->arena, name);
    if (t->name == NULL) return EIN_NO_MEMORY;
    TRY(read_type(r, json_object_get(v, "dtype"), t, &bits));
    TRY(read_shape(r, json_object_get(v, "shape"), t, &numel));
    TRY(read_offsets(r, json_object_get(v, "data_offsets"), t));
    if (numel * bits % 8 != 0)
        return refuse(r, name, "%lld elements of %s are no whole number of bytes", (long long)numel, t->type);
    if (numel * bits / 8 != t->bytes)
        return refuse(r, name, "%lld elements of %s take %lld bytes, \"data_offsets\" hold %lld", (long long)numel, t->type,
                      (long long)(numel * bits / 8), (long long)t->bytes);
    return EIN_OK;
}

/* ---- the file ----------------------------------------------------------------------------------------- */

static ein_status check_metadata(const reader *r, json_t *v)
{
    const char *key;
    json_t *x;
    bool good = json_is_object(v);
    json_object_foreach(v, key, x) good = good && json_is_string(x);
    return good ? EIN_OK : ein__fail(r->error, EIN_INVALID, "%s: \"__metadata__\" must be an object of strings", r->where);
}

static ein_status read_tensors(const reader *r, json_t *root, stored_list *out)
{
    const char *name;
    json_t *v;
    json_object_foreach(root, name, v) {
        if (strcmp(name, "__metadata__") == 0) {
            TRY(check_metadata(r, v));
            continue;
        }
        stored_tensor t = {0};
        TRY(read_tensor(r, name, v, &t));
        PUSH(r->arena, out, t);
    }
    return EIN_OK;
}

static int by_place(const void *p, const void *q)
{
    const stored_tensor *a = p, *b = q;
    const char *x = a->data, *y = b->data;
    if (x != y) return x < y ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* No two overlap, and no byte of the data belongs to none. */
static ein_status check_tiling(const reader *r, const stored_list *l)
{
    i64 at = 0;
    for (int i = 0; i <= l->n; i++) {
        i64 begin = i < l->n ? (const char *)l->items[i].data - r->data : r->n_data;
        if (begin < at)
            return refuse(r, l->items[i].name, "its data begin at byte %lld, those of '%s' end at %lld", (long long)begin,
                          ein__excerpt_first(l->items[i - 1].name, 30).s, (long long)at);
        if (begin > at)
            return ein__fail(r->error, EIN_INVALID, "%s: bytes %lld to %lld of the data belong to no tensor", r->where,
                             (long long)at, (long long)begin);
        if (i < l->n) at = begin + l->items[i].bytes;
    }
    return EIN_OK;
}

static ein_status read_header(const reader *r, const char *header, size_t n, stored_list *out)
{
    ein_status status;
    json_t *root = ein__weights_json(r->where, header, n, &status, r->error);
    if (root == NULL) return status;
    status = read_tensors(r, root, out);
    json_decref(root);
    TRY(status);
    if (out->n > 0) qsort(out->items, (size_t)out->n, sizeof *out->items, by_place);
    return check_tiling(r, out);
}

ein_status ein__safetensors_read(arena *a, const char *where, const char *bytes, size_t n, stored_list *out, error *e)
{
    const excerpt shown = ein__excerpt_last(where, 90);
    uint64_t header = 0;
    stored_list found = {0};
    if (n < LENGTH) return ein__fail(e, EIN_INVALID, "%s: %zu bytes are no safetensors file", shown.s, n);
    for (int i = LENGTH - 1; i >= 0; i--) header = header << 8 | (unsigned char)bytes[i];
    if (header > MOST_HEADER || header > n - LENGTH)
        return ein__fail(e, EIN_INVALID, "%s: a header of %llu bytes; at most %d, and %zu are in the file", shown.s,
                         (unsigned long long)header, MOST_HEADER, n - LENGTH);
    if (header == 0 || bytes[LENGTH] != '{')
        return ein__fail(e, EIN_INVALID, "%s: the header does not begin with '{'", shown.s);
    const char *data = bytes + LENGTH + header;
    reader r = {a, shown.s, data, (i64)(n - LENGTH - (size_t)header), e};
    TRY(read_header(&r, bytes + LENGTH, (size_t)header, &found));
    *out = found;
    return EIN_OK;
}
