/* SPDX-License-Identifier: Apache-2.0 */
/* Index maps as affine functions. A map is linear in its labels, so a label has one stride in each tensor
 * however many terms name it, windows too. The only thing that is not linear is the edge of a TERM_RANGE; as
 * each edge bounds a single label, the points at which all operands exist are a box, and no point is tested. */
#include "core/base/alloc.h"
#include "core/reference/evaluate.h"

#include <string.h>

static ein_status check_scalar(const evaluation *v, const node *n, const term *t, i64 at)
{
    i64 last = t->label < 0 ? 0 : n->spec.labels[t->label].extent - 1;
    i64 low = t->offset + at;
    if (last < 0 || (low >= 0 && low + last < t->extent)) return EIN_OK;
    const char *name = t->scalar >= 0 ? v->g->scalars.items[t->scalar] : "offset";
    return ein__fail(v->e, EIN_INVALID, "%s: scalar %s is %lld: rows %lld to %lld of %lld", n->name, name,
                     (long long)at, (long long)low, (long long)(low + last), (long long)t->extent);
}

/* A label that runs through its term one by one; the term's edges bound it. */
static void add_label(const term *t, i64 shift, i64 stride, affine *a, i64 *lo, i64 *hi)
{
    a->stride[t->label] += stride;
    if (lo[t->label] < -shift) lo[t->label] = -shift;
    if (hi[t->label] > t->extent - shift) hi[t->label] = t->extent - shift;
}

/* A window is inside its term at all points. */
static void add_window(const term *t, i64 stride, affine *a)
{
    a->stride[t->label] += t->step * stride;
    if (t->label2 >= 0) a->stride[t->label2] += t->step2 * stride;
}

/* Adds the map's strides and base, and cuts the box [lo, hi) of label values where a range ends. */
static ein_status add_map(const evaluation *v, const node *n, const index_map *m, affine *a, i64 *lo, i64 *hi)
{
    i64 stride = 1;
    for (int i = m->n - 1; i >= 0; i--) {
        const term *t = &m->terms[i];
        i64 shift = t->kind == TERM_LABEL ? 0 : t->offset;
        if (t->kind == TERM_ALL) {
            i64 at = ein__evaluation_scalar(v, t->scalar);
            TRY(check_scalar(v, n, t, at));
            shift += at;
        }
        a->base += shift * stride;
        if (t->kind == TERM_WINDOW) add_window(t, stride, a);
        else if (t->kind != TERM_FIXED && t->label >= 0) add_label(t, shift, stride, a, lo, hi);
        stride *= t->extent;
    }
    return EIN_OK;
}

ein_status ein__frame_make(frame *f, const evaluation *v, const node *n, int first, int count)
{
    const spec *s = &n->spec;
    i64 lo[MAX_LABELS] = {0}, hi[MAX_LABELS] = {0};
    memset(f, 0, sizeof *f);
    f->n_labels = s->n_labels;
    f->n_maps = count + s->n_results + n->n_indices;
    f->maps = ein__calloc((size_t)f->n_maps, sizeof *f->maps);
    if (f->maps == NULL) return EIN_NO_MEMORY;
    for (int l = 0; l < s->n_labels; l++) hi[l] = s->labels[l].extent;
    for (int i = 0; i < count + s->n_results; i++) {
        const index_map *m = i < count ? &s->operands[first + i] : &s->results[i - count];
        TRY(add_map(v, n, m, &f->maps[i], lo, hi));
    }
    for (int i = 0; i < n->n_indices; i++) f->maps[count + s->n_results + i].stride[n->indices[i]] = 1;
    for (int l = 0; l < s->n_labels; l++) {
        f->extent[l] = hi[l] > lo[l] ? hi[l] - lo[l] : 0;
        f->partial |= f->extent[l] != s->labels[l].extent;
        for (int i = 0; i < f->n_maps; i++) f->maps[i].base += f->maps[i].stride[l] * lo[l];
    }
    return EIN_OK;
}

void ein__frame_free(frame *f)
{
    ein__free(f->maps);
    f->maps = NULL;
}

i64 ein__frame_points(const frame *f, uint32_t labels)
{
    i64 n = 1;
    for (int l = 0; l < f->n_labels; l++) {
        if (labels >> l & 1) n *= f->extent[l];
    }
    return n;
}

void ein__frame_offsets(const frame *f, int m, uint32_t labels, i64 *out)
{
    i64 n = 1;
    out[0] = 0;
    for (int l = 0; l < f->n_labels; l++) {
        if (!(labels >> l & 1)) continue;
        /* From the back, so that each old offset is read before it is overwritten. */
        for (i64 i = n - 1; i >= 0; i--) {
            for (i64 j = f->extent[l] - 1; j >= 0; j--) {
                out[i * f->extent[l] + j] = out[i] + j * f->maps[m].stride[l];
            }
        }
        n *= f->extent[l];
    }
}

void ein__walk_make(walk *w, const frame *f, uint32_t labels, i64 *offset)
{
    w->f = f;
    w->n = 0;
    w->offset = offset;
    for (int l = 0; l < f->n_labels; l++) {
        if (labels >> l & 1) w->labels[w->n++] = l;
    }
}

void ein__walk_seek(walk *w, const i64 *from, i64 index)
{
    const frame *f = w->f;
    for (int m = 0; m < f->n_maps; m++) w->offset[m] = from != NULL ? from[m] : f->maps[m].base;
    for (int i = w->n - 1; i >= 0; i--) {
        int l = w->labels[i];
        w->at[i] = index % f->extent[l];
        index /= f->extent[l];
        for (int m = 0; m < f->n_maps; m++) w->offset[m] += w->at[i] * f->maps[m].stride[l];
    }
}

void ein__walk_next(walk *w)
{
    const frame *f = w->f;
    for (int i = w->n - 1; i >= 0; i--) {
        int l = w->labels[i];
        i64 step = ++w->at[i] < f->extent[l] ? 1 : 1 - f->extent[l];
        for (int m = 0; m < f->n_maps; m++) w->offset[m] += step * f->maps[m].stride[l];
        if (step == 1) return;
        w->at[i] = 0;
    }
}
