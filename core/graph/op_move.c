/* SPDX-License-Identifier: Apache-2.0 */
/* Moves of all elements: reshape and its special cases, permute, expand. A reshape factors both shapes into common
 * labels, so its two maps are the same and a cut of either side is a cut of the other. */
#include "core/graph/views.h"

#include <inttypes.h>
#include <string.h>

/* ---- reshape ---- */

/* Add a group's labels: `a` and `b` are the extents of neighbouring dimensions, major first, of equal
 * product. The suffix products of both are the places where one side's dimension ends; if each divides the
 * next, the steps between them are the labels, else the group is one label. */
static void add_group(spec *s, const i64 *a, int n_a, const i64 *b, int n_b)
{
    i64 at[2 * EIN_MAX_RANK + 1] = {1}, pa = 1, pb = 1;
    int n = 1, i = n_a, j = n_b;
    bool chain = true;
    while (i > 0 || j > 0) { /* merge the two rising lists */
        if (j == 0 || (i > 0 && pa * a[i - 1] <= pb * b[j - 1])) pa *= a[--i];
        else pb *= b[--j];
        i64 next = pa > pb ? pa : pb;
        if (next == at[n - 1]) continue;
        chain = chain && next % at[n - 1] == 0;
        at[n++] = next;
    }
    for (int k = n - 1; k > 0; k--) {
        char name[] = {'r', (char)('0' + s->n_labels / 10), (char)('0' + s->n_labels % 10), 0};
        ein__label_add(s, name, chain ? at[k] / at[k - 1] : at[n - 1]);
        if (!chain) return;
    }
}

/* Extents of 1 index nothing and get no label. */
static dims without_ones(const dims *d)
{
    dims r = {0};
    for (int i = 0; i < d->rank; i++)
        if (d->at[i] != 1) r.at[r.rank++] = d->at[i];
    return r;
}

/* Common labels of two shapes without zeros: the smallest groups of dimensions with equal products. */
static void add_common(spec *s, const dims *from, const dims *to)
{
    dims a = without_ones(from), b = without_ones(to);
    for (int i = 0, j = 0; i < a.rank && j < b.rank;) {
        int i0 = i, j0 = j;
        i64 pa = a.at[i++], pb = b.at[j++];
        while (pa != pb) {
            if (pa < pb) pa *= a.at[i++];
            else pb *= b.at[j++];
        }
        add_group(s, a.at + i0, i - i0, b.at + j0, j - j0);
    }
}

/* Fill in an extent of -1. */
static ein_status infer(graph *g, const char *name, i64 numel, dims *to)
{
    int unknown = -1;
    i64 rest = 1;
    dims given = *to;
    for (int i = 0; i < to->rank && i < EIN_MAX_RANK; i++) {
        if (to->at[i] != -1) continue;
        if (unknown >= 0) REFUSE(EIN_SHAPE, "%s: two extents are -1", name);
        unknown = i;
        to->at[i] = 1;
    }
    TRY(ein__check_dims(g, name, to));
    for (int i = 0; i < to->rank; i++) rest *= to->at[i];
    if (unknown >= 0 && rest == 0)
        REFUSE(EIN_SHAPE, "%s: %s: -1 can be anything", name, ein__dims_text(given).s);
    if (unknown >= 0 && numel % rest == 0) rest *= to->at[unknown] = numel / rest;
    if (rest != numel)
        REFUSE(EIN_SHAPE, "%s: %" PRId64 " elements do not make %s", name, numel, ein__dims_text(given).s);
    return EIN_OK;
}

bool ein__dims_equal(const dims *a, const dims *b)
{
    return a->rank == b->rank && memcmp(a->at, b->at, (size_t)a->rank * sizeof a->at[0]) == 0;
}

ein_status ein__reshape_add(graph *g, const char *name, value x, const dims *shape, value *out)
{
    node op;
    dims from = ein__dims(g, x), to = *shape;
    i64 numel = ein__value_numel(g, x);
    TRY(infer(g, name, numel, &to));
    *out = x;
    if (ein__dims_equal(&from, &to)) return EIN_OK;
    TRY(ein__node_start(g, &op, OP_MOVE, name, 1, &x));
    spec *s = &op.spec;
    if (numel == 0) ein__label_add(s, "r00", 0);
    else add_common(s, &from, &to);
    ein__term_labels(s, &s->operands[0], 0, s->n_labels);
    ein__term_labels(s, &s->results[0], 0, s->n_labels);
    return ein__node_add(g, &op, &to, NULL, out);
}

static ein_status get_shape(graph *g, const char *name, int rank, const int64_t *shape, dims *out)
{
    *out = (dims){.rank = rank};
    if (rank > 0 && shape == NULL) REFUSE(EIN_INVALID, "%s: shape is NULL", name);
    for (int i = 0; i < rank && i < EIN_MAX_RANK; i++) out->at[i] = shape[i];
    return EIN_OK;
}

static ein_status add_reshape(graph *g, value x, int rank, const int64_t *shape, value *out)
{
    dims to;
    TRY(get_shape(g, "reshape", rank, shape, &to));
    return ein__reshape_add(g, "reshape", x, &to, out);
}

ein_tensor ein__op_reshape(ein_graph *g, ein_tensor x, int rank, const int64_t *shape)
{
    if (!ein__call_begin(g, "reshape", 1, &x)) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "reshape", add_reshape(&g->g, ein__value(x), rank, shape, &out), &out);
}

static ein_status add_squeeze(graph *g, value x, int axis, value *out)
{
    dims d = ein__dims(g, x), to = {.rank = d.rank - 1};
    TRY(ein__check_axis(g, "squeeze", d.rank, axis, &axis));
    *out = x;
    if (d.at[axis] != 1) return EIN_OK;
    for (int i = 0; i < to.rank; i++) to.at[i] = d.at[i < axis ? i : i + 1];
    return ein__reshape_add(g, "squeeze", x, &to, out);
}

ein_tensor ein__op_squeeze(ein_graph *g, ein_tensor x, int axis)
{
    if (!ein__call_begin(g, "squeeze", 1, &x)) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "squeeze", add_squeeze(&g->g, ein__value(x), axis, &out), &out);
}

static ein_status add_unsqueeze(graph *g, value x, int axis, value *out)
{
    dims d = ein__dims(g, x), to = {.rank = d.rank + 1};
    TRY(ein__check_axis(g, "unsqueeze", to.rank, axis, &axis));
    if (to.rank > EIN_MAX_RANK) REFUSE(EIN_SHAPE, "unsqueeze: rank %d; 0 to %d are allowed", to.rank, EIN_MAX_RANK);
    for (int i = 0; i < to.rank; i++) to.at[i] = i == axis ? 1 : d.at[i < axis ? i : i - 1];
    return ein__reshape_add(g, "unsqueeze", x, &to, out);
}

ein_tensor ein__op_unsqueeze(ein_graph *g, ein_tensor x, int axis)
{
    if (!ein__call_begin(g, "unsqueeze", 1, &x)) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "unsqueeze", add_unsqueeze(&g->g, ein__value(x), axis, &out), &out);
}

/* A scalar becomes a vector of one element. */
static ein_status add_flatten(graph *g, value x, int first, int last, value *out)
{
    dims d = ein__dims(g, x), to = {.rank = 0};
    if (d.rank == 0) d = (dims){.rank = 1, .at = {1}};
    TRY(ein__check_axis(g, "flatten", d.rank, first, &first));
    TRY(ein__check_axis(g, "flatten", d.rank, last, &last));
    if (first > last) REFUSE(EIN_INVALID, "flatten: first axis %d is behind the last, %d", first, last);
    for (int i = 0; i < d.rank; i++) {
        if (i > first && i <= last) to.at[to.rank - 1] *= d.at[i];
        else to.at[to.rank++] = d.at[i];
    }
    return ein__reshape_add(g, "flatten", x, &to, out);
}

ein_tensor ein__op_flatten(ein_graph *g, ein_tensor x, int first, int last)
{
    if (!ein__call_begin(g, "flatten", 1, &x)) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "flatten", add_flatten(&g->g, ein__value(x), first, last, &out), &out);
}

/* ---- permute ---- */

ein_status ein__permute_add(graph *g, const char *name, value x, const int *order, value *out)
{
    node op;
    bool moved = false;
    dims d = ein__dims(g, x), result = {.rank = d.rank};
    for (int i = 0; i < d.rank; i++) {
        moved = moved || order[i] != i;
        result.at[i] = d.at[order[i]];
    }
    *out = x;
    if (!moved) return EIN_OK;
    TRY(ein__node_start(g, &op, OP_MOVE, name, 1, &x));
    spec *s = &op.spec;
    ein__label_dims(s, 'd', &d);
    ein__term_labels(s, &s->operands[0], 0, d.rank);
    for (int i = 0; i < d.rank; i++) ein__term_label(s, &s->results[0], order[i]);
    return ein__node_add(g, &op, &result, NULL, out);
}

static ein_status add_permute(graph *g, value x, const int *axes, value *out)
{
    int order[EIN_MAX_RANK], rank = ein__dims(g, x).rank;
    if (axes == NULL && rank > 0) REFUSE(EIN_INVALID, "permute: axes is NULL");
    for (int i = 0; i < rank; i++) {
        TRY(ein__check_axis(g, "permute", rank, axes[i], &order[i]));
        for (int k = 0; k < i; k++)
            if (order[k] == order[i]) REFUSE(EIN_INVALID, "permute: axis %d is given twice", axes[i]);
    }
    return ein__permute_add(g, "permute", x, order, out);
}

ein_tensor ein__op_permute(ein_graph *g, ein_tensor x, const int *axes)
{
    if (!ein__call_begin(g, "permute", 1, &x)) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "permute", add_permute(&g->g, ein__value(x), axes, &out), &out);
}

static ein_status add_transpose(graph *g, value x, int a, int b, value *out)
{
    int order[EIN_MAX_RANK], rank = ein__dims(g, x).rank;
    TRY(ein__check_axis(g, "transpose", rank, a, &a));
    TRY(ein__check_axis(g, "transpose", rank, b, &b));
    for (int i = 0; i < rank; i++) order[i] = i == a ? b : i == b ? a : i;
    return ein__permute_add(g, "transpose", x, order, out);
}

ein_tensor ein__op_transpose(ein_graph *g, ein_tensor x, int a, int b)
{
    if (!ein__call_begin(g, "transpose", 1, &x)) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "transpose", add_transpose(&g->g, ein__value(x), a, b, &out), &out);
}

/* ---- expand ---- */

ein_status ein__expand_add(graph *g, const char *name, value x, const dims *to, value *out)
{
    node op;
    dims from = ein__dims(g, x);
    *out = x;
    if (ein__dims_equal(&from, to)) return EIN_OK;
    TRY(ein__node_start(g, &op, OP_MOVE, name, 1, &x));
    spec *s = &op.spec;
    int first = ein__label_dims(s, 'd', to);
    ein__term_broadcast(s, &s->operands[0], &from, to, first);
    ein__term_labels(s, &s->results[0], first, to->rank);
    return ein__node_add(g, &op, to, NULL, out);
}

static ein_status add_expand(graph *g, value x, int rank, const int64_t *shape, value *out)
{
    dims from = ein__dims(g, x), to, given;
    TRY(get_shape(g, "expand", rank, shape, &to));
    given = to;
    int skip = rank - from.rank;
    for (int i = skip > 0 ? skip : 0; i < rank && i < EIN_MAX_RANK; i++)
        if (to.at[i] == -1) to.at[i] = from.at[i - skip];
    TRY(ein__check_dims(g, "expand", &to));
    bool fits = skip >= 0;
    for (int i = 0; i < from.rank && fits; i++)
        fits = from.at[i] == 1 || from.at[i] == to.at[skip + i];
    if (!fits)
        REFUSE(EIN_SHAPE, "expand: %s does not broadcast to %s", ein__dims_text(from).s, ein__dims_text(given).s);
    return ein__expand_add(g, "expand", x, &to, out);
}

ein_tensor ein__op_expand(ein_graph *g, ein_tensor x, int rank, const int64_t *shape)
{
    if (!ein__call_begin(g, "expand", 1, &x)) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "expand", add_expand(&g->g, ein__value(x), rank, shape, &out), &out);
}
