/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "core/weights/checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/weights/inner.h"

enum { MOST_SHARDS = 4096 }; /* a process may have some 65000 maps */

/* ---- the index ---------------------------------------------------------------------------------------- */

static bool plain_name(const char *s)
{
    if (s[0] == 0 || strcmp(s, ".") == 0 || strcmp(s, "..") == 0) return false;
    for (; *s != 0; s++)
        if (*s == '/' || (unsigned char)*s < 32 || *s == 127) return false;
    return true;
}

static int by_file(const void *p, const void *q)
{
    const shard_entry *a = p, *b = q;
    int order = strcmp(a->file, b->file);
    return order != 0 ? order : strcmp(a->tensor, b->tensor);
}

static ein_status read_map(arena *a, const char *where, json_t *map, shard_list *out, error *e)
{
    const char *name;
    json_t *v;
    if (!json_is_object(map)) return ein__fail(e, EIN_INVALID, "%s: \"weight_map\" must be an object", where);
    json_object_foreach(map, name, v) {
        const char *file = json_string_value(v);
        const excerpt shown = ein__excerpt_first(name, 50);
        if (file == NULL) return ein__fail(e, EIN_INVALID, "%s: the file of tensor '%s' must be a string", where, shown.s);
        if (!plain_name(file))
            return ein__fail(e, EIN_INVALID, "%s: the file of tensor '%s', '%s', is no plain name", where, shown.s,
                             ein__excerpt_first(file, 50).s);
        shard_entry x = {ein__arena_strdup(a, name), ein__arena_strdup(a, file)};
        if (x.tensor == NULL || x.file == NULL) return EIN_NO_MEMORY;
        PUSH(a, out, x);
    }
    if (out->n > 0) qsort(out->items, (size_t)out->n, sizeof *out->items, by_file);
    return EIN_OK;
}

ein_status ein__shard_index_read(arena *a, const char *where, const char *bytes, size_t n, shard_list *out, error *e)
{
    const excerpt shown = ein__excerpt_last(where, 90);
    ein_status status;
    shard_list found = {0};
    json_t *root = ein__weights_json(shown.s, bytes, n, &status, e);
    if (root == NULL) return status;
    status = read_map(a, shown.s, json_object_get(root, "weight_map"), &found, e);
    json_decref(root);
    if (status == EIN_OK) *out = found;
    return status;
}

/* ---- files -------------------------------------------------------------------------------------------- */

static ein_status map_tensors(arena *a, const char *path, checkpoint *c, stored_list *out, error *e)
{
    file_map m;
    TRY(ein__grow(a, (void **)&c->maps.items, c->maps.n, &c->maps.room, sizeof *c->maps.items));
    TRY(ein__file_map(path, &m, e));
    c->maps.items[c->maps.n++] = m;
    return ein__safetensors_read(a, path, m.bytes, m.n, out, e);
}

static int by_name(const void *p, const void *q)
{
    const stored_tensor *const *a = p, *const *b = q;
    return strcmp((*a)->name, (*b)->name);
}

/* Of a shard's tensors those that the index says are there. Both lists are walked in the order of names. */
static ein_status take_listed(arena *a, const char *index, const shard_entry *listed, int n, const stored_list *shard,
                              stored_list *out, error *e)
{
    const stored_tensor **sorted;
    int at = 0;
    NEW(a, sorted, shard->n + 1);
    for (int i = 0; i < shard->n; i++) sorted[i] = &shard->items[i];
    qsort(sorted, (size_t)shard->n, sizeof *sorted, by_name);
    for (int i = 0; i < n; i++) {
        while (at < shard->n && strcmp(sorted[at]->name, listed[i].tensor) < 0) at++;
        if (at == shard->n || strcmp(sorted[at]->name, listed[i].tensor) != 0)
            return ein__fail(e, EIN_INVALID, "%s: tensor '%s' is not in '%s'", ein__excerpt_last(index, 90).s,
                             ein__excerpt_first(listed[i].tensor, 50).s, ein__excerpt_first(listed[i].file, 60).s);
        PUSH(a, out, *sorted[at]);
    }
    return EIN_OK;
}

static ein_status open_shards(arena *a, const char *index, const shard_list *l, checkpoint *c, error *e)
{
    const char *slash = strrchr(index, '/');
    int folder = slash == NULL ? 0 : (int)(slash - index) + 1, files = l->n > 0;
    for (int i = 1; i < l->n; i++) files += strcmp(l->items[i].file, l->items[i - 1].file) != 0;
    if (files > MOST_SHARDS)
        return ein__fail(e, EIN_INVALID, "%s: %d files; at most %d", ein__excerpt_last(index, 90).s, files, MOST_SHARDS);
    for (int i = 0, end; i < l->n; i = end) {
        stored_list shard = {0};
        for (end = i + 1; end < l->n && strcmp(l->items[end].file, l->items[i].file) == 0;) end++;
        const char *path = ein__arena_printf(a, "%.*s%s", folder, index, l->items[i].file);
        if (path == NULL) return EIN_NO_MEMORY;
        TRY(map_tensors(a, path, c, &shard, e));
        TRY(take_listed(a, index, &l->items[i], end - i, &shard, &c->tensors, e));
    }
    return EIN_OK;
}

static ein_status open_index(arena *a, const char *path, checkpoint *c, error *e)
{
    file_map m;
    shard_list l = {0};
    TRY(ein__file_map(path, &m, e));
    ein_status status = ein__shard_index_read(a, path, m.bytes, m.n, &l, e);
    ein__file_unmap(&m);
    TRY(status);
    return open_shards(a, path, &l, c, e);
}

/* ---- paths -------------------------------------------------------------------------------------------- */

static bool is_there(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0;
}

static bool is_folder(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* The file that stands for a folder; NULL: out of memory. */
static const char *file_of_folder(arena *a, const char *folder)
{
    const char *one = ein__arena_printf(a, "%s/model.safetensors", folder);
    if (one == NULL) return NULL;
    const char *index = ein__arena_printf(a, "%s.index.json", one);
    return index == NULL || (!is_there(one) && is_there(index)) ? index : one;
}

static bool ends_in(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static ein_status open_path(arena *a, const char *path, checkpoint *out, error *e)
{
    if (is_folder(path)) path = file_of_folder(a, path);
    if (path == NULL) return EIN_NO_MEMORY;
    if (ends_in(path, ".json")) return open_index(a, path, out, e);
    return map_tensors(a, path, out, &out->tensors, e);
}

ein_status ein__checkpoint_open(arena *a, const char *path, checkpoint *out, error *e)
{
    memset(out, 0, sizeof *out);
    ein_status status = open_path(a, path, out, e);
    if (status != EIN_OK) ein__checkpoint_close(out);
    return status;
}

void ein__checkpoint_close(checkpoint *c)
{
    for (int i = 0; i < c->maps.n; i++) ein__file_unmap(&c->maps.items[i]);
    memset(c, 0, sizeof *c);
}
