/* SPDX-License-Identifier: Apache-2.0 */
/* Writing. The header is padded with spaces to whole words of 8 bytes, so that data start aligned. */
#include <string.h>

#include "core/base/file.h"
#include "core/weights/inner.h"

typedef struct entry {
    const stored_tensor *tensor;
    const stored_type *type;
    i64 begin, bytes;
} entry;

static ein_status check_one(const stored_tensor *t, entry *out, error *e)
{
    const excerpt name = ein__excerpt_first(t->name != NULL ? t->name : "", 80);
    if (name.s[0] == 0 || strcmp(t->name, "__metadata__") == 0)
        return ein__fail(e, EIN_INVALID, "safetensors: no tensor can be called '%s'", name.s);
    if (!ein__dtype_built(t->dtype))
        return ein__fail(e, EIN_DTYPE, "safetensors: tensor '%s' has element type %s, which is not built", name.s,
                         ein__dtype_name(t->dtype));
    if (t->rank < 0 || t->rank > EIN_MAX_RANK)
        return ein__fail(e, EIN_SHAPE, "safetensors: tensor '%s' has rank %d; 0 to %d", name.s, t->rank, EIN_MAX_RANK);
    *out = (entry){t, ein__stored_type_of(t->dtype), 0, ein__dtype_bytes(t->dtype)};
    for (int i = 0; i < t->rank; i++) {
        i64 extent = t->shape[i];
        if (extent < 0 || (extent > 0 && out->bytes > ((i64)1 << 50) / extent))
            return ein__fail(e, EIN_SHAPE, "safetensors: tensor '%s' has extent %lld in dimension %d", name.s,
                             (long long)extent, i);
        out->bytes *= extent;
    }
    if (t->data == NULL && out->bytes > 0) return ein__fail(e, EIN_INVALID, "safetensors: tensor '%s' has no data", name.s);
    return EIN_OK;
}

/* Large elements first; a multiple of a size is one of every smaller size. */
static ein_status lay_out(arena *a, int n, const stored_tensor *tensors, entry **out, error *e)
{
    i64 at = 0;
    int m = 0;
    entry *unsorted, *x;
    NEW(a, unsorted, n + 1);
    NEW(a, x, n + 1);
    for (int i = 0; i < n; i++) TRY(check_one(&tensors[i], &unsorted[i], e));
    for (int bits = 64; bits >= 8; bits /= 2)
        for (int i = 0; i < n; i++)
            if (unsorted[i].type->bits == bits) x[m++] = unsorted[i];
    for (int i = 0; i < n; i++) {
        x[i].begin = at;
        at += x[i].bytes;
    }
    *out = x;
    return EIN_OK;
}

static json_t *describe(const entry *x)
{
    json_t *shape = json_array();
    bool good = shape != NULL;
    for (int i = 0; i < x->tensor->rank && good; i++)
        good = json_array_append_new(shape, json_integer(x->tensor->shape[i])) == 0;
    if (!good) {
        json_decref(shape);
        return NULL;
    }
    return json_pack("{s:s,s:o,s:[I,I]}", "dtype", x->type->name, "shape", shape, "data_offsets", (json_int_t)x->begin,
                     (json_int_t)(x->begin + x->bytes));
}

static ein_status add_to_header(json_t *root, const entry *x, error *e)
{
    const char *name = x->tensor->name;
    json_t *v = describe(x);
    if (v == NULL) return EIN_NO_MEMORY;
    if (json_object_get(root, name) != NULL) {
        json_decref(v);
        return ein__fail(e, EIN_INVALID, "safetensors: two tensors are called '%s'", ein__excerpt_first(name, 80).s);
    }
    if (json_object_set_new(root, name, v) == 0) return EIN_OK;
    return ein__fail(e, EIN_INVALID, "safetensors: '%s' is not UTF-8", ein__excerpt_first(name, 80).s);
}

static int append(const char *bytes, size_t n, void *out)
{
    ein__text_bytes(out, bytes, n);
    return ein__text_status(out) == EIN_OK ? 0 : -1;
}

/* Length and header. */
static ein_status print_header(const entry *x, int n, text *out, error *e)
{
    json_t *root = json_object();
    ein_status status = root != NULL ? EIN_OK : EIN_NO_MEMORY;
    for (int i = 0; i < n && status == EIN_OK; i++) status = add_to_header(root, &x[i], e);
    ein__text_bytes(out, "\0\0\0\0\0\0\0\0", 8);
    if (status == EIN_OK && json_dump_callback(root, append, out, JSON_COMPACT) != 0) status = EIN_NO_MEMORY;
    json_decref(root);
    while (status == EIN_OK && out->n % 8 != 0 && !out->failed) ein__text_bytes(out, " ", 1);
    TRY(status);
    TRY(ein__text_status(out));
    for (int i = 0; i < 8; i++) out->bytes[i] = (char)((out->n - 8) >> (8 * i) & 0xff);
    return EIN_OK;
}

static ein_status write_file(arena *a, const char *path, int n, const stored_tensor *tensors, text *header, error *e)
{
    entry *x;
    file_piece *pieces;
    TRY(lay_out(a, n, tensors, &x, e));
    TRY(print_header(x, n, header, e));
    NEW(a, pieces, n + 1);
    pieces[0] = (file_piece){header->bytes, header->n};
    for (int i = 0; i < n; i++) pieces[i + 1] = (file_piece){x[i].tensor->data, (size_t)x[i].bytes};
    return ein__file_publish_pieces(path, pieces, n + 1, 0666, e);
}

ein_status ein__safetensors_write(const char *path, int n, const stored_tensor *tensors, error *e)
{
    arena a = {NULL};
    text header = {0};
    ein_status status = write_file(&a, path, n, tensors, &header, e);
    ein__arena_free(&a);
    ein__text_free(&header);
    return status;
}
