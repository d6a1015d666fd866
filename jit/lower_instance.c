/* SPDX-License-Identifier: Apache-2.0 */
/* Instances: where the blocks of a value are, and views of boxes inside them. */
#include "jit/lower.h"

ein_status ein__lower_buffer(lowering *w, int device, i64 bytes, int *out)
{
    *out = w->buffers.n;
    buffer b = {.device = device, .bytes = bytes, .loop = -1, .pair = -1, .first = -1, .last = -1};
    PUSH(w->scratch, &w->buffers, b);
    return EIN_OK;
}

/* A buffer that shares the two places of `mate`, one iteration ahead. */
static ein_status paired_buffer(lowering *w, int mate, int *out)
{
    buffer b = w->buffers.items[mate];
    b.pair = mate;
    b.phase = 1;
    b.first = b.last = -1;
    *out = w->buffers.n;
    PUSH(w->scratch, &w->buffers, b);
    return EIN_OK;
}

ein_status ein__state_buffers(lowering *w, const relation *r, ein_dtype dtype, const instance *alike, int **out)
{
    int n = r->n_blocks * r->n_partials * w->n_devices;
    NEW(w->scratch, *out, n);
    for (int i = 0; i < n; i++) {
        int unit = i / w->n_devices, device = i % w->n_devices;
        (*out)[i] = -1;
        if (!(r->devices[unit] & DEV(device))) continue;
        if (alike != NULL) TRY(paired_buffer(w, alike->buffers[0][i], &(*out)[i]));
        else TRY(ein__lower_buffer(w, device, ein__block_numel(r, unit / r->n_partials) * ein__dtype_bytes(dtype),
                                   &(*out)[i]));
    }
    return EIN_OK;
}

ein_status ein__instance_make(lowering *w, const relation *r, ein_dtype dtype, const instance *alike, instance **out)
{
    instance *x;
    NEW(w->scratch, x, 1);
    x->n_states = 1;
    x->used = 1;
    x->space = SPACE_BUFFER;
    x->states[0] = *r;
    x->complete = ein__relation_check(r, ein__relation_numel(r), w->n_devices, NULL) == EIN_OK;
    TRY(ein__state_buffers(w, r, dtype, alike, &x->buffers[0]));
    *out = x;
    return EIN_OK;
}

place ein__instance_place(const lowering *w, const instance *x, int state, int block, int partial, int device)
{
    place p = {x->space, x->index, device, block};
    if (x->space == SPACE_BUFFER) {
        int unit = block * x->states[state].n_partials + partial;
        p.index = x->buffers[state][unit * w->n_devices + device];
        p.block = 0;
    }
    return p;
}

void ein__instance_append(instance **list, instance *x)
{
    while (*list != NULL) list = &(*list)->next;
    *list = x;
}

/* The part of the box that a range term covers, and the run-time shift of a TERM_ALL. */
static void finish_view(const index_map *m, const label_box *box, view *v)
{
    v->scalar = -1;
    for (int l = 0; l < MAX_LABELS; l++) {
        v->range_lo[l] = 0;
        v->range_hi[l] = box->len[l];
    }
    for (int i = 0; i < m->n; i++) {
        const term *t = &m->terms[i];
        if (t->kind == TERM_RANGE) {
            i64 lo = -t->offset - box->lo[t->label], hi = lo + t->extent;
            if (lo > v->range_lo[t->label]) v->range_lo[t->label] = lo;
            if (hi < v->range_hi[t->label]) v->range_hi[t->label] = hi < 0 ? 0 : hi;
        } else if (t->kind == TERM_ALL && t->scalar >= 0 && t->label >= 0) {
            v->scalar = t->scalar;
            v->scalar_stride = v->stride[t->label];
        }
    }
}

static bool view_empty(const view *v, const label_box *box, const index_map *m)
{
    if (ein__box_reads_nothing(m, box)) return true;
    for (int i = 0; i < m->n; i++) {
        int l = m->terms[i].label;
        if (l >= 0 && v->range_lo[l] >= v->range_hi[l]) return true;
    }
    return false;
}

bool ein__instance_view(const lowering *w, const instance *list, int device, const index_map *m,
                        const label_box *box, ein_dtype dtype, view *out)
{
    *out = (view){.dtype = dtype, .place = {SPACE_TABLE, 0, device, 0}};
    finish_view(m, box, out);
    if (view_empty(out, box, m)) return true; /* never read */
    for (const instance *x = list; x != NULL; x = x->next) {
        if (x->pending) continue;
        const relation *r = &x->states[0];
        for (int b = 0; b < r->n_blocks; b++) {
            if (!(r->devices[b] & DEV(device)) || !ein__block_view(r, b, m, box, &out->offset, out->stride)) continue;
            out->place = ein__instance_place(w, x, 0, b, 0, device);
            finish_view(m, box, out);
            return true;
        }
    }
    return false;
}
