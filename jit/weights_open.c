/* SPDX-License-Identifier: Apache-2.0 */
/* Weights from files. Nothing is copied: the store borrows from the maps, which live as long as it does. */
#include <stdlib.h>
#include <string.h>

#include "jit/context.h"

void ein__weight_files_close(weight_files *f)
{
    ein__checkpoint_close(&f->checkpoint);
    ein__arena_free(&f->arena);
}

static int by_name(const void *p, const void *q)
{
    const char *const *a = p, *const *b = q;
    return strcmp(*a, *b);
}

/* None of the file's names may be in the store; both may have many thousands. */
static ein_status check_new(const ein_weights *w, weight_files *f, const char *path)
{
    const stored_list *l = &f->checkpoint.tensors;
    const char **names;
    NEW(&f->arena, names, w->tensors.n + 1);
    for (int i = 0; i < w->tensors.n; i++) names[i] = w->tensors.items[i]->name;
    qsort(names, (size_t)w->tensors.n, sizeof *names, by_name);
    for (int i = 0; i < l->n; i++)
        if (ein__stored_readable(&l->items[i]) &&
            bsearch(&l->items[i].name, names, (size_t)w->tensors.n, sizeof *names, by_name) != NULL)
            return ein__fail(&w->context->error, EIN_INVALID, "%s: tensor '%s' is in the store already",
                             ein__excerpt_last(path, 90).s, ein__excerpt_first(l->items[i].name, 80).s);
    return EIN_OK;
}

/* Room for n more, then the caller cannot fail. */
static ein_status reserve(ein_weights *w, int n)
{
    int room = w->tensors.n + n;
    placed_tensor **items;
    if (room > w->tensors.room) {
        NEW(&w->arena, items, room);
        if (w->tensors.n > 0) memcpy(items, w->tensors.items, (size_t)w->tensors.n * sizeof(void *));
        w->tensors.items = items;
        w->tensors.room = room;
    }
    return ein__grow(&w->arena, (void **)&w->files.items, w->files.n, &w->files.room, sizeof *w->files.items);
}

static ein_status add_files(ein_weights *w, weight_files *f, const char *path)
{
    const stored_list *l = &f->checkpoint.tensors;
    placed_tensor *all;
    TRY(check_new(w, f, path));
    NEW(&f->arena, all, l->n + 1);
    TRY(reserve(w, l->n));
    for (int i = 0; i < l->n; i++) {
        const stored_tensor *from = &l->items[i];
        if (!ein__stored_readable(from)) continue;
        all[i].name = from->name;
        all[i].dtype = from->dtype;
        all[i].rank = from->rank;
        memcpy(all[i].shape, from->shape, sizeof all[i].shape);
        all[i].data = from->data;
        all[i].mapped = true;
        w->tensors.items[w->tensors.n++] = &all[i];
    }
    w->files.items[w->files.n++] = *f;
    return EIN_OK;
}

const stored_tensor *ein__weights_left_out(const ein_weights *w, const char *name)
{
    for (int i = 0; i < w->files.n; i++) {
        const stored_list *l = &w->files.items[i].checkpoint.tensors;
        for (int k = 0; k < l->n; k++)
            if (!ein__stored_readable(&l->items[k]) && strcmp(l->items[k].name, name) == 0) return &l->items[k];
    }
    return NULL;
}

ein_status ein_weights_open(ein_weights *w, const char *path)
{
    if (w == NULL) return EIN_INVALID;
    error *e = &w->context->error;
    if (path == NULL || path[0] == 0) return ein__fail(e, EIN_INVALID, "weights: a path is needed");
    weight_files f = {0};
    ein_status status = ein__checkpoint_open(&f.arena, path, &f.checkpoint, e);
    if (status == EIN_OK) status = add_files(w, &f, path);
    if (status == EIN_OK) return EIN_OK;
    ein__weight_files_close(&f);
    if (status == EIN_NO_MEMORY) ein__fail(e, status, "out of memory for the tensors of %s", ein__excerpt_last(path, 140).s);
    return status;
}

const char *ein_weights_name(const ein_weights *w, int index, ein_dtype *dtype, int *rank, int64_t *shape)
{
    if (w == NULL || index < 0 || index >= w->tensors.n) return NULL;
    const placed_tensor *t = w->tensors.items[index];
    if (dtype != NULL) *dtype = t->dtype;
    if (rank != NULL) *rank = t->rank;
    if (shape != NULL && t->rank > 0) memcpy(shape, t->shape, (size_t)t->rank * sizeof *shape);
    return t->name;
}
