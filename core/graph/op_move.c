/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that compute nothing: the same elements under another index map, and the write into a state. A reshape
 * factors both shapes into common labels, so its two maps are the same and a cut of either side is a cut of
 * the other. */
#include "core/graph/builder.h"

#include <inttypes.h>
#include <stdio.h>
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
static ein_status infer(graph *g, i64 numel, dims *to)
{
    int unknown = -1;
    i64 rest = 1;
    dims given = *to;
    for (int i = 0; i < to->rank && i < EIN_MAX_RANK; i++) {
        if (to->at[i] != -1) continue;
        if (unknown >= 0) REFUSE(EIN_SHAPE, "reshape: two extents are -1");
        unknown = i;
        to->at[i] = 1;
    }
    TRY(ein__check_dims(g, "reshape", to));
    for (int i = 0; i < to->rank; i++) rest *= to->at[i];
    if (unknown >= 0 && rest == 0)
        REFUSE(EIN_SHAPE, "reshape: %s: -1 can be anything", ein__dims_text(given).s);
    if (unknown >= 0 && numel % rest == 0) rest *= to->at[unknown] = numel / rest;
    if (rest != numel)
        REFUSE(EIN_SHAPE, "reshape: %" PRId64 " elements do not make %s", numel, ein__dims_text(given).s);
    return EIN_OK;
}

static bool same_dims(const dims *a, const dims *b)
{
    return a->rank == b->rank && memcmp(a->at, b->at, (size_t)a->rank * sizeof a->at[0]) == 0;
}

static ein_status add_reshape(graph *g, value x, int rank, const int64_t *shape, value *out)
{
    node op;
    dims from = ein__dims(g, x), to = {.rank = rank};
    i64 numel = ein__value_numel(g, x);
    TRY(ein__check_types(g, "reshape", 1, &x, TYPE_F32));
    if (rank > 0 && shape == NULL) REFUSE(EIN_INVALID, "reshape: shape is NULL");
    for (int i = 0; i < rank && i < EIN_MAX_RANK; i++) to.at[i] = shape[i];
    TRY(infer(g, numel, &to));
    *out = x;
    if (same_dims(&from, &to)) return EIN_OK;
    TRY(ein__node_start(g, &op, OP_MOVE, "reshape", 1, &x));
    spec *s = &op.spec;
    if (numel == 0) ein__label_add(s, "r00", 0);
    else add_common(s, &from, &to);
    ein__term_labels(s, &s->operands[0], 0, s->n_labels);
    ein__term_labels(s, &s->results[0], 0, s->n_labels);
    return ein__node_add(g, &op, &to, NULL, out);
}

ein_tensor ein_reshape(ein_graph *g, ein_tensor x, int rank, const int64_t *shape)
{
    if (!ein__call_begin(g, "reshape", 1, &x)) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "reshape", add_reshape(&g->g, ein__value(x), rank, shape, &out), &out);
}

/* ---- permute ---- */

static ein_status add_permute(graph *g, value x, const int *axes, value *out)
{
    node op;
    int order[EIN_MAX_RANK];
    bool moved = false;
    dims d = ein__dims(g, x), result = {.rank = d.rank};
    TRY(ein__check_types(g, "permute", 1, &x, TYPE_F32));
    if (axes == NULL && d.rank > 0) REFUSE(EIN_INVALID, "permute: axes is NULL");
    for (int i = 0; i < d.rank; i++) {
        TRY(ein__check_axis(g, "permute", d.rank, axes[i], &order[i]));
        for (int k = 0; k < i; k++)
            if (order[k] == order[i]) REFUSE(EIN_INVALID, "permute: axis %d is given twice", axes[i]);
        moved = moved || order[i] != i;
        result.at[i] = d.at[order[i]];
    }
    *out = x;
    if (!moved) return EIN_OK;
    TRY(ein__node_start(g, &op, OP_MOVE, "permute", 1, &x));
    spec *s = &op.spec;
    ein__label_dims(s, 'd', &d);
    ein__term_labels(s, &s->operands[0], 0, d.rank);
    for (int i = 0; i < d.rank; i++) ein__term_label(s, &s->results[0], order[i]);
    return ein__node_add(g, &op, &result, NULL, out);
}

ein_tensor ein_permute(ein_graph *g, ein_tensor x, const int *axes)
{
    if (!ein__call_begin(g, "permute", 1, &x)) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "permute", add_permute(&g->g, ein__value(x), axes, &out), &out);
}

/* ---- slice and concat ---- */

/* Labels of the result; every operand has its own part of `axis`: index = label - at. */
static ein_status add_parts(graph *g, const char *name, int n, const value *operands, int axis, const i64 *at,
                            const dims *result, value *out)
{
    node op;
    TRY(ein__node_start(g, &op, OP_MOVE, name, n, operands));
    spec *s = &op.spec;
    ein__label_dims(s, 'd', result);
    for (int i = 0; i < n; i++) {
        index_map *m = &s->operands[i];
        ein__term_labels(s, m, 0, axis);
        ein__term_range(s, m, axis, ein__dims(g, operands[i]).at[axis], -at[i]);
        ein__term_labels(s, m, axis + 1, result->rank - axis - 1);
    }
    ein__term_labels(s, &s->results[0], 0, result->rank);
    return ein__node_add(g, &op, result, NULL, out);
}

static i64 clamp(i64 at, i64 extent)
{
    if (at < 0) at += extent;
    return at < 0 ? 0 : at > extent ? extent : at;
}

static ein_status add_slice(graph *g, value x, int axis, i64 start, i64 end, value *out)
{
    dims d = ein__dims(g, x), result = d;
    TRY(ein__check_types(g, "slice", 1, &x, TYPE_F32));
    TRY(ein__check_axis(g, "slice", d.rank, axis, &axis));
    start = clamp(start, d.at[axis]);
    end = clamp(end, d.at[axis]);
    result.at[axis] = end > start ? end - start : 0;
    *out = x;
    if (result.at[axis] == d.at[axis]) return EIN_OK;
    return add_parts(g, "slice", 1, &x, axis, (i64[]){-start}, &result, out);
}

ein_tensor ein_slice(ein_graph *g, ein_tensor x, int axis, int64_t start, int64_t end)
{
    if (!ein__call_begin(g, "slice", 1, &x)) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "slice", add_slice(&g->g, ein__value(x), axis, start, end, &out), &out);
}

static ein_status add_concat(graph *g, int n, const value *operands, int axis, value *out)
{
    i64 at[MAX_CALL_OPERANDS] = {0};
    dims result = ein__dims(g, operands[0]);
    TRY(ein__check_types(g, "concat", n, operands, TYPE_F32));
    TRY(ein__check_axis(g, "concat", result.rank, axis, &axis));
    for (int i = 1; i < n; i++) {
        dims first = ein__dims(g, operands[0]), d = ein__dims(g, operands[i]), other = d;
        if (d.rank == first.rank) other.at[axis] = first.at[axis];
        if (!same_dims(&first, &other))
            REFUSE(EIN_SHAPE, "concat: operands 0 and %d, %s and %s, differ in more than axis %d", i,
                   ein__dims_text(first).s, ein__dims_text(d).s, axis);
        at[i] = result.at[axis];
        result.at[axis] += d.at[axis];
    }
    *out = operands[0];
    return n == 1 ? EIN_OK : add_parts(g, "concat", n, operands, axis, at, &result, out);
}

ein_tensor ein_concat(ein_graph *g, int n, const ein_tensor *operands, int axis)
{
    if (!ein__call_begin(g, "concat", n, operands)) return (ein_tensor){0};
    value v[MAX_CALL_OPERANDS], out = -1;
    for (int i = 0; i < n; i++) v[i] = ein__value(operands[i]);
    return ein__call_end(g, "concat", add_concat(&g->g, n, v, axis, &out), &out);
}

/* ---- append ---- */

/* The state as it was before the run, not updated so far. */
static ein_status check_state(graph *g, value state, const char **name)
{
    const value_info *v = &g->values.items[state];
    bool again = v->kind == VALUE_RESULT && g->nodes.items[v->owner].kind == OP_APPEND;
    if (again) { /* the result of an append: name the state it belongs to */
        state = g->nodes.items[v->owner].operands[0];
        v = &g->values.items[state];
    }
    if (v->kind != VALUE_LEAF || g->leaves.items[v->owner].kind != LEAF_STATE)
        REFUSE(EIN_INVALID, "state_append: operand 0 is not a state tensor");
    *name = g->leaves.items[v->owner].name;
    for (int i = 0; i < g->nodes.n; i++)
        again = again || (g->nodes.items[i].kind == OP_APPEND && g->nodes.items[i].operands[0] == state);
    if (again) REFUSE(EIN_INVALID, "state_append: state '%.80s' is updated twice", *name);
    return EIN_OK;
}

static ein_status check_rows(graph *g, const char *name, const dims *state, const dims *rows, int axis)
{
    dims other = *rows;
    if (rows->rank == state->rank) other.at[axis] = state->at[axis];
    if (!same_dims(state, &other))
        REFUSE(EIN_SHAPE, "state_append: state '%.80s' %s and rows %s differ in more than axis %d", name,
               ein__dims_text(*state).s, ein__dims_text(*rows).s, axis);
    if (rows->at[axis] > state->at[axis])
        REFUSE(EIN_SHAPE, "state_append: %" PRId64 " rows for state '%.80s' of %" PRId64, rows->at[axis],
               name, state->at[axis]);
    return EIN_OK;
}

static ein_status add_append(graph *g, const value *operands, int axis, ein_scalar position, value *out)
{
    node op;
    const char *name = "";
    dims state = ein__dims(g, operands[0]), rows = ein__dims(g, operands[1]);
    TRY(ein__check_types(g, "state_append", 2, operands, TYPE_F32));
    TRY(check_state(g, operands[0], &name));
    TRY(ein__check_axis(g, "state_append", state.rank, axis, &axis));
    TRY(check_rows(g, name, &state, &rows, axis));
    TRY(ein__node_start(g, &op, OP_APPEND, "state_append", 2, operands));
    TRY(ein__check_scalar(g, "state_append", position, &op.scalar));
    spec *s = &op.spec;
    ein__label_dims(s, 'd', &state);
    snprintf(s->labels[axis].name, sizeof s->labels[axis].name, "t");
    op.append_t = axis;
    op.append_s = ein__label_add(s, "s", rows.at[axis]);
    s->labels[op.append_s].whole = true;
    for (int i = 0; i < state.rank; i++) ein__term_label(s, &s->operands[1], i == axis ? op.append_s : i);
    ein__term_labels(s, &s->operands[0], 0, state.rank);
    ein__term_labels(s, &s->results[0], 0, state.rank);
    TRY(ein__bound_add(g, op.scalar, rows.at[axis], state.at[axis], name));
    return ein__node_add(g, &op, &state, NULL, out);
}

ein_tensor ein_state_append(ein_graph *g, ein_tensor state, ein_tensor rows, int axis, ein_scalar position)
{
    if (!ein__call_begin(g, "state_append", 2, (ein_tensor[]){state, rows})) return (ein_tensor){0};
    value operands[] = {ein__value(state), ein__value(rows)}, out = -1;
    return ein__call_end(g, "state_append", add_append(&g->g, operands, axis, position, &out), &out);
}
