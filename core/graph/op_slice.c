/* SPDX-License-Identifier: Apache-2.0 */
/* Moves of parts: slice, split, flip, concat, stack, roll, pad. The labels are the result's dimensions; an operand
 * covers a box of them, by ranges, or is walked with a step, by a window. The boxes of a concatenation's operands
 * split the result between them. */
#include "core/graph/views.h"

#include <inttypes.h>

/* ---- slice ---- */

/* Labels of the result; operand i has its own part of `axis`: index = label - at[i]. */
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

static i64 clamp(i64 at, i64 lo, i64 hi) { return at < lo ? lo : at > hi ? hi : at; }

ein_status ein__slice_add(graph *g, const char *name, value x, int axis, i64 start, i64 n, value *out)
{
    dims result = ein__dims(g, x);
    *out = x;
    if (result.at[axis] == n) return EIN_OK;
    result.at[axis] = n;
    return add_parts(g, name, 1, &x, axis, (i64[]){-start}, &result, out);
}

static ein_status add_slice(graph *g, value x, int axis, i64 start, i64 end, value *out)
{
    dims d = ein__dims(g, x);
    TRY(ein__check_axis(g, "slice", d.rank, axis, &axis));
    i64 n = d.at[axis];
    start = clamp(start < 0 ? start + n : start, 0, n);
    end = clamp(end < 0 ? end + n : end, 0, n);
    return ein__slice_add(g, "slice", x, axis, start, end > start ? end - start : 0, out);
}

ein_tensor ein__op_slice(ein_graph *g, ein_tensor x, int axis, int64_t start, int64_t end)
{
    if (!ein__call_begin(g, "slice", 1, &x)) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "slice", add_slice(&g->g, ein__value(x), axis, start, end, &out), &out);
}

/* Elements from `start` on, to before `end` or to above it, as Python's slice(start, end, step).indices(n). */
static void walk_of(i64 n, i64 *start, i64 *end, i64 step, i64 *count)
{
    bool down = step < 0;
    *start = clamp(*start < 0 ? *start + n : *start, down ? -1 : 0, down ? n - 1 : n);
    *end = clamp(*end < 0 ? *end + n : *end, down ? -1 : 0, down ? n - 1 : n);
    i64 far = down ? *start - *end : *end - *start;
    *count = far <= 0 ? 0 : (far - 1) / (down ? -(step + 1) + (i64)1 : step) + 1;
}

static ein_status add_slice_step(graph *g, value x, int axis, i64 start, i64 end, i64 step, value *out)
{
    node op;
    dims result = ein__dims(g, x);
    TRY(ein__check_axis(g, "slice_step", result.rank, axis, &axis));
    if (step == 0) REFUSE(EIN_INVALID, "slice_step: the step is 0");
    if (step < -INT64_MAX) step = -INT64_MAX;
    i64 n = result.at[axis], *count = &result.at[axis];
    walk_of(n, &start, &end, step, count);
    if (step == 1 || (*count == n && n < 2)) return ein__slice_add(g, "slice_step", x, axis, start, *count, out);
    TRY(ein__node_start(g, &op, OP_MOVE, "slice_step", 1, &x));
    spec *s = &op.spec;
    ein__label_dims(s, 'd', &result);
    ein__term_labels(s, &s->operands[0], 0, axis);
    ein__term_window(s, &s->operands[0], axis, step, -1, 0, n, start);
    ein__term_labels(s, &s->operands[0], axis + 1, result.rank - axis - 1);
    ein__term_labels(s, &s->results[0], 0, result.rank);
    return ein__node_add(g, &op, &result, NULL, out);
}

ein_tensor ein__op_slice_step(ein_graph *g, ein_tensor x, int axis, int64_t start, int64_t end, int64_t step)
{
    if (!ein__call_begin(g, "slice_step", 1, &x)) return (ein_tensor){0};
    value out = -1;
    ein_status status = add_slice_step(&g->g, ein__value(x), axis, start, end, step, &out);
    return ein__call_end(g, "slice_step", status, &out);
}

static ein_status check_split(graph *g, value x, int n, const int64_t *sizes, int *axis)
{
    dims d = ein__dims(g, x);
    i64 sum = 0;
    TRY(ein__check_axis(g, "split", d.rank, *axis, axis));
    if (n < 1 || sizes == NULL) REFUSE(EIN_INVALID, "split: %s", n < 1 ? "no pieces" : "sizes is NULL");
    for (int i = 0; i < n; i++) {
        if (sizes[i] < 0 || sizes[i] > d.at[*axis] - sum)
            REFUSE(EIN_SHAPE, "split: piece %d has %" PRId64 " of the %" PRId64 " that are left on axis %d", i,
                   sizes[i], d.at[*axis] - sum, *axis);
        sum += sizes[i];
    }
    if (sum == d.at[*axis]) return EIN_OK;
    REFUSE(EIN_SHAPE, "split: %d pieces of %" PRId64 " on axis %d, which has %" PRId64, n, sum, *axis, d.at[*axis]);
}

void ein__op_split(ein_graph *g, ein_tensor x, int n, const int64_t *sizes, int axis, ein_tensor *out)
{
    for (int i = 0; i < n && out != NULL; i++) out[i] = (ein_tensor){0};
    if (!ein__call_begin(g, "split", 1, &x)) return;
    if (out == NULL) {
        ein__fail(&g->g.error, EIN_INVALID, "split: out is NULL");
        return;
    }
    i64 start = 0;
    ein_status status = check_split(&g->g, ein__value(x), n, sizes, &axis);
    for (int i = 0; i < n && (i == 0 || status == EIN_OK); i++) {
        value v = -1;
        if (status == EIN_OK) status = ein__slice_add(&g->g, "split", ein__value(x), axis, start, sizes[i], &v);
        out[i] = ein__call_end(g, "split", status, &v);
        if (status == EIN_OK) start += sizes[i];
    }
}

/* ---- flip ---- */

static ein_status add_flip(graph *g, value x, int n, const int *axes, value *out)
{
    node op;
    uint32_t set = 0;
    dims d = ein__dims(g, x);
    if (n < 0) REFUSE(EIN_INVALID, "flip: %d axes", n);
    if (n > 0 && axes == NULL) REFUSE(EIN_INVALID, "flip: axes is NULL");
    for (int i = 0; i < n; i++) {
        int axis;
        TRY(ein__check_axis(g, "flip", d.rank, axes[i], &axis));
        if (set >> axis & 1) REFUSE(EIN_INVALID, "flip: axis %d is given twice", axes[i]);
        set |= 1u << axis;
    }
    for (int i = 0; i < d.rank; i++)
        if (d.at[i] < 2) set &= ~(1u << i); /* nothing to turn */
    *out = x;
    if (set == 0) return EIN_OK;
    TRY(ein__node_start(g, &op, OP_MOVE, "flip", 1, &x));
    spec *s = &op.spec;
    ein__label_dims(s, 'd', &d);
    for (int i = 0; i < d.rank; i++) {
        if (set >> i & 1) ein__term_window(s, &s->operands[0], i, -1, -1, 0, d.at[i], d.at[i] - 1);
        else ein__term_label(s, &s->operands[0], i);
    }
    ein__term_labels(s, &s->results[0], 0, d.rank);
    return ein__node_add(g, &op, &d, NULL, out);
}

ein_tensor ein__op_flip(ein_graph *g, ein_tensor x, int n, const int *axes)
{
    if (!ein__call_begin(g, "flip", 1, &x)) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "flip", add_flip(&g->g, ein__value(x), n, axes, &out), &out);
}

/* ---- concat, stack, roll ---- */

static ein_status add_concat(graph *g, int n, const value *operands, int axis, value *out)
{
    i64 at[MAX_CALL_OPERANDS] = {0};
    dims result = ein__dims(g, operands[0]);
    TRY(ein__check_same_type(g, "concat", n, operands));
    TRY(ein__check_axis(g, "concat", result.rank, axis, &axis));
    for (int i = 1; i < n; i++) {
        dims first = ein__dims(g, operands[0]), d = ein__dims(g, operands[i]), other = d;
        if (d.rank == first.rank) other.at[axis] = first.at[axis];
        if (!ein__dims_equal(&first, &other))
            REFUSE(EIN_SHAPE, "concat: operands 0 and %d, %s and %s, differ in more than axis %d", i,
                   ein__dims_text(first).s, ein__dims_text(d).s, axis);
        at[i] = result.at[axis];
        result.at[axis] += d.at[axis];
    }
    *out = operands[0];
    return n == 1 ? EIN_OK : add_parts(g, "concat", n, operands, axis, at, &result, out);
}

ein_tensor ein__op_concat(ein_graph *g, int n, const ein_tensor *operands, int axis)
{
    if (!ein__call_begin(g, "concat", n, operands)) return (ein_tensor){0};
    value v[MAX_CALL_OPERANDS], out = -1;
    for (int i = 0; i < n; i++) v[i] = ein__value(operands[i]);
    return ein__call_end(g, "concat", add_concat(&g->g, n, v, axis, &out), &out);
}

/* Operand i covers place i of the new axis. */
static ein_status add_stack(graph *g, int n, const value *operands, int axis, value *out)
{
    node op;
    dims d = ein__dims(g, operands[0]), result = {.rank = d.rank + 1};
    TRY(ein__check_same_type(g, "stack", n, operands));
    TRY(ein__check_axis(g, "stack", result.rank, axis, &axis));
    if (d.rank == EIN_MAX_RANK) REFUSE(EIN_SHAPE, "stack: operands have rank %d", d.rank);
    for (int i = 1; i < n; i++) {
        dims other = ein__dims(g, operands[i]);
        if (!ein__dims_equal(&d, &other))
            REFUSE(EIN_SHAPE, "stack: operands 0 and %d are %s and %s", i, ein__dims_text(d).s,
                   ein__dims_text(other).s);
    }
    for (int i = 0; i < result.rank; i++) result.at[i] = i == axis ? n : d.at[i < axis ? i : i - 1];
    TRY(ein__node_start(g, &op, OP_MOVE, "stack", n, operands));
    spec *s = &op.spec;
    ein__label_dims(s, 'd', &result);
    for (int i = 0; i < n; i++) {
        index_map *m = &s->operands[i];
        ein__term_labels(s, m, 0, axis);
        ein__term_range(s, m, axis, 1, -i);
        ein__term_labels(s, m, axis + 1, result.rank - axis - 1);
    }
    ein__term_labels(s, &s->results[0], 0, result.rank);
    return ein__node_add(g, &op, &result, NULL, out);
}

ein_tensor ein__op_stack(ein_graph *g, int n, const ein_tensor *operands, int axis)
{
    if (!ein__call_begin(g, "stack", n, operands)) return (ein_tensor){0};
    value v[MAX_CALL_OPERANDS], out = -1;
    for (int i = 0; i < n; i++) v[i] = ein__value(operands[i]);
    return ein__call_end(g, "stack", add_stack(&g->g, n, v, axis, &out), &out);
}

/* y[i] = x[(i - shift) mod n]: x twice, each as far as it reaches. */
static ein_status add_roll(graph *g, value x, i64 shift, int axis, value *out)
{
    dims d = ein__dims(g, x);
    TRY(ein__check_axis(g, "roll", d.rank, axis, &axis));
    i64 n = d.at[axis];
    *out = x;
    if (n == 0 || shift % n == 0) return EIN_OK;
    shift = shift % n + (shift % n < 0 ? n : 0);
    return add_parts(g, "roll", 2, (value[]){x, x}, axis, (i64[]){shift, shift - n}, &d, out);
}

ein_tensor ein__op_roll(ein_graph *g, ein_tensor x, int64_t shift, int axis)
{
    if (!ein__call_begin(g, "roll", 1, &x)) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "roll", add_roll(&g->g, ein__value(x), shift, axis, &out), &out);
}
