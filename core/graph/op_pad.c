/* SPDX-License-Identifier: Apache-2.0 */
/* Padding: a concatenation along several dimensions at once. In front of and behind every padded dimension lies a
 * box of one number; it spans the padded dimensions before it where the operand is, and the dimensions after it
 * whole. Its table has the labels that bound it, and no others: the zeros around an image are a few rows. */
#include "core/graph/views.h"

#include <inttypes.h>

enum { LARGEST_TABLE = 1 << 16 };

/* The operand's place in the result. */
typedef struct frame {
    const char *name;
    dims inner, result;
    i64 before[EIN_MAX_RANK], after[EIN_MAX_RANK];
    double number;
} frame;

static bool padded(const frame *f, int i) { return f->before[i] + f->after[i] > 0; }

/* Shape of the table for a border of `width` along an axis: the padded dimensions before the axis, then it. */
static dims table_dims(const frame *f, int axis, i64 width)
{
    dims d = {0};
    for (int i = 0; i < axis; i++)
        if (padded(f, i)) d.at[d.rank++] = f->inner.at[i];
    d.at[d.rank++] = width;
    return d;
}

static i64 numel_of(const dims *d)
{
    i64 n = 1;
    for (int i = 0; i < d->rank; i++) n *= d->at[i];
    return n;
}

/* A large one is made in the run, of one element. */
static ein_status add_table(graph *g, const frame *f, ein_dtype dtype, const dims *d, value *out)
{
    size_t n = (size_t)numel_of(d), bytes = (size_t)ein__dtype_bytes(dtype);
    char *data;
    if (numel_of(d) > LARGEST_TABLE) {
        TRY(ein__number_add(g, dtype, f->number, out));
        return ein__expand_add(g, f->name, *out, d, out);
    }
    NEW(&g->arena, data, n * bytes);
    for (size_t i = 0; i < n; i++) ein__dtype_write(dtype, f->number, data + i * bytes);
    return ein__constant_add(g, dtype, d, data, out);
}

/* Where operand of the box along `axis` (-1: x itself) stands: index = label - at in the box's own extents. */
static void add_box(const frame *f, const spec *s, index_map *m, int axis, i64 width, i64 at)
{
    for (int i = 0; i < f->result.rank; i++) {
        if (i == axis) ein__term_range(s, m, i, width, -at);
        else if (axis < 0 || (i < axis && padded(f, i))) ein__term_range(s, m, i, f->inner.at[i], -f->before[i]);
    }
}

static ein_status add_frame(graph *g, const frame *f, value x, value *out)
{
    node op;
    ein_dtype dtype = g->values.items[x].dtype;
    struct { int axis; i64 width, at; } boxes[2 * EIN_MAX_RANK + 1] = {{.axis = -1}};
    value operands[2 * EIN_MAX_RANK + 1] = {x};
    int n = 1;
    for (int i = 0; i < f->result.rank; i++)
        for (int side = 0; side < 2; side++) {
            i64 width = side == 0 ? f->before[i] : f->after[i];
            dims d = table_dims(f, i, width);
            if (numel_of(&d) == 0) continue;
            boxes[n].axis = i;
            boxes[n].width = width;
            boxes[n].at = side == 0 ? 0 : f->before[i] + f->inner.at[i];
            TRY(add_table(g, f, dtype, &d, &operands[n++]));
        }
    TRY(ein__node_start(g, &op, OP_MOVE, f->name, n, operands));
    spec *s = &op.spec;
    ein__label_dims(s, 'd', &f->result);
    for (int k = 0; k < n; k++) add_box(f, s, &s->operands[k], boxes[k].axis, boxes[k].width, boxes[k].at);
    ein__term_labels(s, &s->results[0], 0, f->result.rank);
    return ein__node_add(g, &op, &f->result, &dtype, out);
}

/* One dimension after the other, where a table for several would be large. */
static ein_status add_frames(graph *g, const frame *f, value x, value *out)
{
    i64 largest = 0;
    for (int i = 0; i < f->inner.rank; i++) {
        dims d = table_dims(f, i, f->before[i] > f->after[i] ? f->before[i] : f->after[i]);
        if (numel_of(&d) > largest) largest = numel_of(&d);
    }
    if (largest <= LARGEST_TABLE) return add_frame(g, f, x, out);
    *out = x;
    for (int i = 0; i < f->inner.rank; i++) {
        frame one = {.name = f->name, .inner = ein__dims(g, *out), .number = f->number};
        if (!padded(f, i)) continue;
        one.result = one.inner;
        one.result.at[i] = f->result.at[i];
        one.before[i] = f->before[i];
        one.after[i] = f->after[i];
        TRY(add_frame(g, &one, *out, out));
    }
    return EIN_OK;
}

ein_status ein__pad_add(graph *g, const char *name, value x, const i64 *before, const i64 *after, double number,
                        value *out)
{
    const i64 most = (i64)1 << 40;
    frame f = {.name = name, .inner = ein__dims(g, x), .number = number};
    bool any = false;
    f.result = f.inner;
    for (int i = 0; i < f.inner.rank; i++) {
        if (before[i] > most || before[i] < -most || after[i] > most || after[i] < -most)
            REFUSE(EIN_SHAPE, "%s: %" PRId64 " before and %" PRId64 " after axis %d", name, before[i], after[i], i);
        i64 cut = before[i] < 0 ? -before[i] : 0, rest = f.inner.at[i] - cut + (after[i] < 0 ? after[i] : 0);
        if (rest < 0)
            REFUSE(EIN_SHAPE, "%s: axis %d of %s is cut by more than it has", name, i,
                   ein__dims_text(ein__dims(g, x)).s);
        TRY(ein__slice_add(g, name, x, i, cut, rest, &x));
        f.before[i] = before[i] > 0 ? before[i] : 0;
        f.after[i] = after[i] > 0 ? after[i] : 0;
        f.inner.at[i] = rest;
        f.result.at[i] = f.before[i] + rest + f.after[i];
        any = any || padded(&f, i);
    }
    TRY(ein__check_dims(g, name, &f.result));
    *out = x;
    return any ? add_frames(g, &f, x, out) : EIN_OK;
}

static ein_status add_pad(graph *g, value x, const int64_t *before, const int64_t *after, double number, value *out)
{
    if (g->values.items[x].rank > 0 && (before == NULL || after == NULL))
        REFUSE(EIN_INVALID, "pad: %s is NULL", before == NULL ? "before" : "after");
    return ein__pad_add(g, "pad", x, before, after, number, out);
}

ein_tensor ein__op_pad(ein_graph *g, ein_tensor x, const int64_t *before, const int64_t *after, double number)
{
    if (!ein__call_begin(g, "pad", 1, &x)) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "pad", add_pad(&g->g, ein__value(x), before, after, number, &out), &out);
}
