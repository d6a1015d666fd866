/* SPDX-License-Identifier: Apache-2.0 */
/* topk. A row is whole where it is selected from; so a long one is first cut in chunks, which are a label of their
 * own, and the k of the row are those of all chunks' k, which are few. */
#include "core/graph/builder.h"

#include <inttypes.h>
#include <math.h>

enum { LONG_ROW = 2048, FEW = 64, MOST_CHUNKS = 16 };

typedef struct selection {
    int axis;
    bool smallest;
    i64 k, chunks; /* chunks 1: the row as it is */
} selection;

/* Terms of x and of its indices: dimensions before the axis, chunks, `l`, dimensions after it. */
static void add_terms(const spec *s, index_map *m, const selection *q, int rank, int l)
{
    ein__term_labels(s, m, 0, q->axis);
    if (q->chunks > 1) ein__term_label(s, m, rank);
    ein__term_label(s, m, l);
    ein__term_labels(s, m, q->axis + 1, rank - q->axis - 1);
}

/* Labels of x's dimensions, that of the axis standing for `extent` elements of it, then the chunks. */
static void add_labels(spec *s, const selection *q, const dims *d, const char *name, i64 extent)
{
    for (int i = 0; i < d->rank; i++) {
        char own[] = {'d', (char)('0' + i), 0};
        ein__label_add(s, i == q->axis ? name : own, i == q->axis ? extent : d->at[i]);
    }
    if (q->chunks > 1) ein__label_add(s, "c", q->chunks);
}

/* Operands x and, if there are two, indices; results the same. */
static ein_status add_select(graph *g, const selection *q, int n, const value *operands, value *out)
{
    node op;
    dims d = ein__dims(g, operands[0]), results[2];
    TRY(ein__node_start(g, &op, OP_SELECT, "topk", n, operands));
    spec *s = &op.spec;
    add_labels(s, q, &d, "n", d.at[q->axis] / q->chunks);
    op.select = (select_attrs){.smallest = q->smallest, .n = q->axis, .k = ein__label_add(s, "k", q->k)};
    s->labels[op.select.n].whole = s->labels[op.select.k].whole = true;
    for (int i = 0; i < n; i++) add_terms(s, &s->operands[i], q, d.rank, op.select.n);
    s->n_results = 2;
    for (int r = 0; r < 2; r++) {
        add_terms(s, &s->results[r], q, d.rank, op.select.k);
        results[r] = d;
        results[r].at[q->axis] = q->chunks * q->k;
    }
    s->flops = q->k > 0 ? (1 + log2((double)q->k + 1)) / (double)q->k : 1; /* of n * k points */
    ein_dtype types[2] = {g->values.items[operands[0]].dtype, EIN_I64};
    return ein__node_add(g, &op, results, types, out);
}

/* Indices in a chunk as indices in the row. */
static ein_status add_offsets(graph *g, const selection *q, i64 chunk, value *ids)
{
    node op;
    dims d = ein__dims(g, *ids);
    double size = (double)chunk;
    TRY(ein__node_start(g, &op, OP_MAP, "topk indices", 1, ids));
    spec *s = &op.spec;
    add_labels(s, q, &d, "k", q->k);
    add_terms(s, &s->operands[0], q, d.rank, q->axis);
    add_terms(s, &s->results[0], q, d.rank, q->axis);
    op.indices[op.n_indices++] = d.rank;
    TRY(ein__expr_make(g, "topk", "x0 + x1 * x2", 2, 1, &size, &op.body[0]));
    s->flops = 2;
    return ein__node_add(g, &op, &d, NULL, ids);
}

/* 1: not worth it. */
static i64 chunks_of(i64 n, i64 k)
{
    i64 c = n >= LONG_ROW && k > 0 && k <= n / FEW ? MOST_CHUNKS : 1;
    while (n % c != 0) c--;
    return c;
}

static ein_status add_topk(graph *g, value x, int k, int axis, bool smallest, value out[2])
{
    dims d = ein__dims(g, x);
    TRY(ein__check_axis(g, "topk", d.rank, axis, &axis));
    if (k < 0 || k > d.at[axis])
        REFUSE(EIN_SHAPE, "topk: %d of %" PRId64 " elements along axis %d", k, d.at[axis], axis);
    selection q = {.axis = axis, .smallest = smallest, .k = k, .chunks = chunks_of(d.at[axis], k)};
    TRY(add_select(g, &q, 1, &x, out));
    if (q.chunks == 1) return EIN_OK;
    TRY(add_offsets(g, &q, d.at[axis] / q.chunks, &out[1]));
    q.chunks = 1;
    return add_select(g, &q, 2, (value[]){out[0], out[1]}, out);
}

void ein__op_topk(ein_graph *g, ein_tensor x, int k, int axis, int smallest, ein_tensor *out)
{
    if (out != NULL) out[0] = out[1] = (ein_tensor){0};
    if (!ein__call_begin(g, "topk", 1, &x)) return;
    if (out == NULL) {
        ein__fail(&g->g.error, EIN_INVALID, "topk: out is NULL");
        return;
    }
    value v[2] = {-1, -1};
    ein_status status = add_topk(&g->g, ein__value(x), k, axis, smallest != 0, v);
    for (int r = 0; r < 2; r++) out[r] = ein__call_end(g, "topk", status, &v[r]);
}
