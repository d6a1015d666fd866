/* SPDX-License-Identifier: Apache-2.0 */
/* cumsum, without a kernel of its own: inside a chunk every element sums those before it, chosen by their indices;
 * the sums of whole chunks are summed the same way, and added. So n elements cost n * chunk additions, and chunks
 * may be cut. What is not before an element is left out, not multiplied by 0: a NaN reaches later elements only. */
#include "core/graph/views.h"

enum { CHUNK = 32, MOST = 64 };

/* x [.., chunks * size, ..]; a label per dimension, that of the axis standing for the chunks, and one for the
 * elements of a chunk. */
typedef struct scan {
    int axis, rank;
    i64 chunks, size;
    bool before;            /* sums of what is before an element, without it */
    ein_dtype sums, result; /* types of all intermediate sums; of the last node */
} scan;

/* Labels up to and including `inner`, the element of a chunk: -1 for maps of whole chunks. */
static void add_terms(const spec *s, index_map *m, const scan *q, int inner)
{
    ein__term_labels(s, m, 0, q->axis + 1);
    if (inner >= 0) ein__term_label(s, m, inner);
    ein__term_labels(s, m, q->axis + 1, q->rank - q->axis - 1);
}

static void add_labels(spec *s, const scan *q, dims d)
{
    d.at[q->axis] = q->chunks;
    ein__label_dims(s, 'd', &d);
}

static ein_status add_sum(graph *g, node *op, const scan *q, const char *body)
{
    merge *m;
    spec *s = &op->spec;
    TRY(ein__merge_make(&g->arena, MERGE_SUM, 1, q->sums, &m));
    s->merge = m;
    s->n_states = 1;
    s->states[0] = s->results[0];
    s->flops = 2;
    return ein__expr_make(g, op->name, body, 1 + op->n_indices, 0, NULL, &op->body[0]);
}

/* Of every element of a chunk the sum of those up to it, or of those before it. */
static ein_status add_inside(graph *g, const scan *q, value x, value *out)
{
    node op;
    dims d = ein__dims(g, x);
    TRY(ein__node_start(g, &op, OP_MAP, "cumsum", 1, &x));
    spec *s = &op.spec;
    add_labels(s, q, d);
    int j = ein__label_add(s, "j", q->size), i = ein__label_add(s, "i", q->size);
    add_terms(s, &s->operands[0], q, i);
    add_terms(s, &s->results[0], q, j);
    op.indices[op.n_indices++] = i;
    op.indices[op.n_indices++] = j;
    TRY(add_sum(g, &op, q, q->before ? "where(x1 < x2, x0, 0)" : "where(x1 <= x2, x0, 0)"));
    return ein__node_add(g, &op, &d, q->chunks > 1 ? &q->sums : &q->result, out);
}

static ein_status add_totals(graph *g, const scan *q, value x, value *out)
{
    node op;
    dims d = ein__dims(g, x);
    TRY(ein__node_start(g, &op, OP_MAP, "cumsum total", 1, &x));
    spec *s = &op.spec;
    add_labels(s, q, d);
    add_terms(s, &s->operands[0], q, ein__label_add(s, "i", q->size));
    add_terms(s, &s->results[0], q, -1);
    TRY(add_sum(g, &op, q, "x0"));
    d.at[q->axis] = q->chunks;
    return ein__node_add(g, &op, &d, &q->sums, out);
}

/* What is before a chunk, to each of its elements. */
static ein_status add_offsets(graph *g, const scan *q, const value *operands, value *out)
{
    node op;
    dims d = ein__dims(g, operands[0]);
    TRY(ein__node_start(g, &op, OP_MAP, "cumsum offset", 2, operands));
    spec *s = &op.spec;
    add_labels(s, q, d);
    int j = ein__label_add(s, "j", q->size);
    add_terms(s, &s->operands[0], q, j);
    add_terms(s, &s->operands[1], q, -1);
    add_terms(s, &s->results[0], q, j);
    s->flops = 1;
    TRY(ein__expr_make(g, op.name, "x0 + x1", 2, 0, NULL, &op.body[0]));
    return ein__node_add(g, &op, &d, &q->result, out);
}

/* A divisor of n near CHUNK that leaves few chunks' sums, or 0. */
static i64 size_of(i64 n)
{
    for (i64 size = CHUNK; size <= MOST; size++)
        if (n % size == 0) return size;
    for (i64 size = CHUNK; size >= CHUNK / 2; size--)
        if (n % size == 0) return size;
    return 0;
}

static ein_status add_scan(graph *g, scan q, value x, value *out);

static ein_status add_chunks(graph *g, const scan *q, value x, value *out)
{
    value parts[2], totals;
    scan outer = *q;
    outer.before = true;
    outer.result = q->sums;
    TRY(add_inside(g, q, x, &parts[0]));
    TRY(add_totals(g, q, x, &totals));
    TRY(add_scan(g, outer, totals, &parts[1]));
    return add_offsets(g, q, parts, out);
}

static ein_status add_scan(graph *g, scan q, value x, value *out)
{
    i64 n = ein__dims(g, x).at[q.axis], size = size_of(n);
    q.chunks = 1;
    q.size = n;
    if (n <= MOST) return add_inside(g, &q, x, out);
    q.size = size > 0 ? size : CHUNK;
    q.chunks = (n + q.size - 1) / q.size;
    if (size > 0) return add_chunks(g, &q, x, out);
    i64 before[EIN_MAX_RANK] = {0}, after[EIN_MAX_RANK] = {0};
    after[q.axis] = q.chunks * q.size - n;
    TRY(ein__pad_add(g, "cumsum", x, before, after, 0, &x));
    TRY(add_chunks(g, &q, x, &x));
    return ein__slice_add(g, "cumsum", x, q.axis, 0, n, out);
}

/* Sums are f32 for bf16 and f16, and rounded in the end. */
static ein_status add_cumsum(graph *g, value x, int axis, value *out)
{
    scan q = {.rank = ein__dims(g, x).rank, .result = g->values.items[x].dtype};
    TRY(ein__check_types(g, "cumsum", 1, &x, TYPE_FLOAT | TYPE_INT));
    TRY(ein__check_axis(g, "cumsum", q.rank, axis, &q.axis));
    q.sums = ein__dtype_is_float(q.result) ? ein__dtype_compute(q.result) : q.result;
    return add_scan(g, q, x, out);
}

ein_tensor ein__op_cumsum(ein_graph *g, ein_tensor x, int axis)
{
    if (!ein__call_begin(g, "cumsum", 1, &x)) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "cumsum", add_cumsum(&g->g, ein__value(x), axis, &out), &out);
}
