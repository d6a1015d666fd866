/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that stay on the devices: the weight store and states. */
#include <string.h>

#include "core/base/alloc.h"
#include "jit/context.h"

placed_tensor *ein__tensor_find(const tensor_list *l, const char *name)
{
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->items[i]->name, name) == 0) return l->items[i];
    return NULL;
}

static void forget_data(placed_tensor *t)
{
    i64 bytes = ein__dtype_bytes(t->dtype);
    for (int i = 0; i < t->rank && t->mapped; i++) bytes *= t->shape[i];
    if (t->mapped && t->placed) ein__file_drop(t->data, (size_t)bytes); /* nobody reads them again */
    if (t->owned) ein__free((void *)(uintptr_t)t->data);
    t->owned = false;
    t->data = NULL;
}

static void release_blocks(ein_context *c, placed_tensor *t)
{
    int n = t->address != NULL ? t->layout.n_blocks * c->machine.n_devices : 0;
    for (int i = 0; i < n; i++) c->target->api->release(c->target, i % c->machine.n_devices, t->address[i]);
    t->address = NULL;
    t->placed = false;
}

void ein__tensor_release(ein_context *c, placed_tensor *t)
{
    release_blocks(c, t);
    forget_data(t);
}

/* A block on its way to its device: `at` walks the dense memory there. Elements of another type are converted
 * piece by piece, in `staging` (else NULL). */
typedef struct uploader {
    ein_context *c;
    const placed_tensor *t;
    int device;
    char *at, *staging;
    i64 filled; /* elements */
    error *e;
} uploader;

enum { STAGING = 1 << 20 };

static ein_status flush(uploader *u)
{
    i64 bytes = u->filled * ein__dtype_bytes(u->t->placed_dtype);
    if (bytes > 0) TRY(u->c->target->api->upload(u->c->target, u->device, u->at, u->staging, 1, bytes, bytes, u->e));
    u->at += bytes;
    u->filled = 0;
    return EIN_OK;
}

/* Runs of elements, `step` elements apart. */
static ein_status upload_runs(uploader *u, const char *src, i64 runs, i64 elements, i64 step)
{
    i64 size = ein__dtype_bytes(u->t->dtype), placed = ein__dtype_bytes(u->t->placed_dtype), room = STAGING / placed;
    if (u->staging == NULL) {
        TRY(u->c->target->api->upload(u->c->target, u->device, u->at, src, runs, elements * size, step * size, u->e));
        u->at += runs * elements * size;
        return EIN_OK;
    }
    for (i64 i = 0; i < runs; i++)
        for (i64 k = 0, n; k < elements; k += n) {
            n = elements - k < room - u->filled ? elements - k : room - u->filled;
            ein__dtype_convert(u->t->placed_dtype, u->staging + u->filled * placed, u->t->dtype, src + (i * step + k) * size, n);
            u->filled += n;
            if (u->filled == room) TRY(flush(u));
        }
    return EIN_OK;
}

/* Axes [i, n) of the block. */
static ein_status upload_axes(uploader *u, int block, int i, const char *src)
{
    const relation *r = &u->t->layout;
    i64 size = ein__dtype_bytes(u->t->dtype), suffix = 1;
    if (r->n_axes == 0) return upload_runs(u, src, 1, 1, 1);
    for (int k = i + 1; k < r->n_axes; k++) suffix *= r->axes[k].extent;
    int part = ein__block_part(r, block, i);
    i64 lo = r->axes[i].lo[part], n = r->axes[i].hi[part] - lo;
    src += lo * suffix * size;
    if (i == r->n_axes - 1) return upload_runs(u, src, 1, n, n);
    if (i == r->n_axes - 2) {
        int last = ein__block_part(r, block, i + 1);
        i64 first = r->axes[i + 1].lo[last];
        return upload_runs(u, src + first * size, n, r->axes[i + 1].hi[last] - first, suffix);
    }
    for (i64 k = 0; k < n; k++) TRY(upload_axes(u, block, i + 1, src + k * suffix * size));
    return EIN_OK;
}

static ein_status place_blocks(ein_context *c, placed_tensor *t, char *staging, error *e)
{
    int devices = c->machine.n_devices;
    for (int b = 0; b < t->layout.n_blocks; b++) {
        i64 bytes = ein__block_numel(&t->layout, b) * ein__dtype_bytes(t->placed_dtype);
        for (int d = 0; d < devices; d++) {
            if (!(t->layout.devices[b] & DEV(d))) continue;
            void **address = &t->address[b * devices + d];
            TRY(c->target->api->alloc(c->target, d, bytes, address, e));
            if (t->data == NULL || bytes == 0) continue;
            uploader u = {.c = c, .t = t, .device = d, .at = *address, .staging = staging, .e = e};
            TRY(upload_axes(&u, b, 0, t->data));
            TRY(flush(&u));
        }
    }
    return EIN_OK;
}

/* All or nothing: a tensor that does not fit can be placed again, by another program. */
ein_status ein__tensor_place(ein_context *c, arena *a, placed_tensor *t, ein_dtype dtype, const relation *layout, error *e)
{
    char *staging = NULL;
    TRY(ein__relation_copy(a, layout, &t->layout));
    NEW(a, t->address, layout->n_blocks * c->machine.n_devices);
    t->placed_dtype = dtype;
    if (t->data != NULL && dtype != t->dtype) {
        staging = ein__calloc(STAGING, 1);
        if (staging == NULL) return EIN_NO_MEMORY;
    }
    ein_status s = place_blocks(c, t, staging, e);
    ein__free(staging);
    if (s != EIN_OK) {
        release_blocks(c, t);
        return s;
    }
    t->placed = true;
    forget_data(t);
    return EIN_OK;
}

/* ---- weight store ------------------------------------------------------------------------------------- */

ein_status ein_weights_create(ein_weights **out, ein_context *context)
{
    if (out == NULL || context == NULL) return EIN_INVALID;
    ein_weights *w = *out = ein__calloc(1, sizeof *w);
    if (w == NULL) return ein__fail(&context->error, EIN_NO_MEMORY, "out of memory for a weight store");
    w->context = context;
    return EIN_OK;
}

void ein_weights_free(ein_weights *w)
{
    if (w == NULL) return;
    for (int i = 0; i < w->tensors.n; i++) ein__tensor_release(w->context, w->tensors.items[i]);
    for (int i = 0; i < w->files.n; i++) ein__weight_files_close(&w->files.items[i]);
    ein__arena_free(&w->arena);
    ein__free(w);
}

static ein_status check_tensor(ein_weights *w, const char *name, ein_dtype dtype, int rank, const int64_t *shape,
                               const void *data, ein_keep keep, i64 *bytes)
{
    error *e = &w->context->error;
    if (name == NULL || name[0] == 0) return ein__fail(e, EIN_INVALID, "weights: a tensor needs a name");
    if (ein__tensor_find(&w->tensors, name) != NULL) return ein__fail(e, EIN_INVALID, "weights: '%s' is there already", name);
    if (!ein__dtype_built(dtype))
        return ein__fail(e, EIN_DTYPE, "weights: '%s' has element type %s, which is not built", name, ein__dtype_name(dtype));
    if (rank < 0 || rank > EIN_MAX_RANK || (rank > 0 && shape == NULL))
        return ein__fail(e, EIN_SHAPE, "weights: '%s' has rank %d; 0 to %d", name, rank, EIN_MAX_RANK);
    *bytes = ein__dtype_bytes(dtype);
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 0 || (shape[i] > 0 && *bytes > ((i64)1 << 44) / shape[i]))
            return ein__fail(e, EIN_SHAPE, "weights: '%s' has extent %lld in dimension %d", name, (long long)shape[i], i);
        *bytes *= shape[i];
    }
    if (data == NULL && *bytes > 0) return ein__fail(e, EIN_INVALID, "weights: '%s' has no data", name);
    if (keep != EIN_BORROW && keep != EIN_COPY)
        return ein__fail(e, EIN_INVALID, "weights: '%s' is kept in way %d; EIN_BORROW or EIN_COPY", name, (int)keep);
    return EIN_OK;
}

static ein_status add_tensor(ein_weights *w, const char *name, ein_dtype dtype, int rank, const int64_t *shape,
                             const void *data, i64 bytes, ein_keep keep)
{
    placed_tensor *t;
    NEW(&w->arena, t, 1);
    t->name = ein__arena_strdup(&w->arena, name);
    if (t->name == NULL) return EIN_NO_MEMORY;
    t->dtype = dtype;
    t->rank = rank;
    if (rank > 0) memcpy(t->shape, shape, (size_t)rank * sizeof *shape);
    t->data = data;
    if (keep == EIN_COPY) {
        void *copy = ein__calloc((size_t)bytes, 1);
        if (copy == NULL) return EIN_NO_MEMORY;
        if (bytes > 0) memcpy(copy, data, (size_t)bytes);
        t->data = copy;
        t->owned = true;
    }
    ein_status s = ein__grow(&w->arena, (void **)&w->tensors.items, w->tensors.n, &w->tensors.room, sizeof(void *));
    if (s != EIN_OK) {
        forget_data(t);
        return s;
    }
    w->tensors.items[w->tensors.n++] = t;
    return EIN_OK;
}

ein_status ein_weights_add(ein_weights *w, const char *name, ein_dtype dtype, int rank, const int64_t *shape,
                           const void *data, ein_keep keep)
{
    i64 bytes = 0;
    if (w == NULL) return EIN_INVALID;
    TRY(check_tensor(w, name, dtype, rank, shape, data, keep, &bytes));
    ein_status s = add_tensor(w, name, dtype, rank, shape, data, bytes, keep);
    return s == EIN_NO_MEMORY ? ein__fail(&w->context->error, s, "out of memory for '%s', %lld bytes", name, (long long)bytes) : s;
}

static i64 device_bytes(const placed_tensor *t, int device)
{
    i64 sum = 0;
    for (int b = 0; t->placed && b < t->layout.n_blocks; b++)
        if (t->layout.devices[b] & DEV(device)) sum += ein__block_numel(&t->layout, b) * ein__dtype_bytes(t->placed_dtype);
    return sum;
}

int64_t ein_weights_device_bytes(const ein_weights *w, int device)
{
    i64 sum = 0;
    for (int i = 0; w != NULL && device >= 0 && device < MAX_DEVICES && i < w->tensors.n; i++)
        sum += device_bytes(w->tensors.items[i], device);
    return sum;
}

/* ---- states ------------------------------------------------------------------------------------------- */

static ein_status add_state_tensors(ein_state *st, const ein_program *p, int index, error *e)
{
    const leaf *l = &p->graph.leaves.items[index];
    const value_info *v = &p->graph.values.items[l->value];
    for (int m = 0; m < l->n_members; m++) {
        placed_tensor *t;
        NEW(&st->arena, t, 1);
        t->name = ein__arena_strdup(&st->arena, ein__leaf_name(p, l, m));
        if (t->name == NULL) return EIN_NO_MEMORY;
        t->dtype = v->dtype;
        t->rank = v->rank;
        memcpy(t->shape, v->shape, sizeof t->shape);
        PUSH(&st->arena, &st->tensors, t);
        TRY(ein__tensor_place(st->context, &st->arena, t, v->dtype, &p->plan.leaves[index], e));
    }
    return EIN_OK;
}

ein_status ein_state_create(ein_state **out, ein_program *p)
{
    if (out == NULL || p == NULL) return EIN_INVALID;
    error *e = &p->context->error;
    *out = NULL;
    if (p->context->target == NULL) return ein__fail(e, EIN_NO_DEVICE, "machine %s can only be planned", p->context->machine.name);
    ein_state *st = ein__calloc(1, sizeof *st);
    if (st == NULL) return ein__fail(e, EIN_NO_MEMORY, "out of memory for a state");
    st->context = p->context;
    ein_status s = EIN_OK;
    for (int i = 0; i < p->graph.leaves.n && s == EIN_OK; i++)
        if (p->graph.leaves.items[i].kind == LEAF_STATE) s = add_state_tensors(st, p, i, e);
    if (s != EIN_OK) {
        if (s == EIN_NO_MEMORY) ein__fail(e, s, "out of memory for a state");
        ein_state_free(st);
        return s;
    }
    *out = st;
    return EIN_OK;
}

static ein_status zero_tensor(ein_context *c, placed_tensor *t)
{
    for (int i = 0; i < t->layout.n_blocks * c->machine.n_devices; i++) {
        if (t->address[i] == NULL) continue;
        i64 bytes = ein__block_numel(&t->layout, i / c->machine.n_devices) * ein__dtype_bytes(t->placed_dtype);
        TRY(c->target->api->zero(c->target, i % c->machine.n_devices, t->address[i], bytes, &c->error));
    }
    return EIN_OK;
}

ein_status ein_state_reset(ein_state *st)
{
    if (st == NULL) return EIN_INVALID;
    if (atomic_load(&st->busy)) return ein__fail(&st->context->error, EIN_INVALID, "a state in use by a run cannot be reset");
    for (int i = 0; i < st->tensors.n; i++) TRY(zero_tensor(st->context, st->tensors.items[i]));
    st->undefined = false;
    return EIN_OK;
}

void ein_state_free(ein_state *st)
{
    if (st == NULL) return;
    for (int i = 0; i < st->tensors.n; i++) ein__tensor_release(st->context, st->tensors.items[i]);
    ein__arena_free(&st->arena);
    ein__free(st);
}
