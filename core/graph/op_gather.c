/* SPDX-License-Identifier: Apache-2.0 */
/* Elements by index: embedding, index_select, gather; and the other way: scatter_add, one_hot. The dimension that is
 * indexed is a label, v, of which an index names one value. Gathers aggregate it: a device that holds some of the
 * table contributes zero for the ids of others. Scatters have it in the result, beside all ids: where(v == id, ..). */
#include "core/graph/views.h"

#include <inttypes.h>

/* Ids of an input are checked when it is bound (node.id_operand); those of a constant are known now. */
static ein_status check_ids(graph *g, const char *name, value ids, i64 rows)
{
    ein_dtype dtype = g->values.items[ids].dtype;
    if (dtype != EIN_I32 && dtype != EIN_I64)
        REFUSE(EIN_DTYPE, "%s: ids are %s, not i32 or i64", name, ein__dtype_name(dtype));
    const value_info *v = &g->values.items[ein__value_source(g, ids)];
    if (v->kind != VALUE_LEAF || g->leaves.items[v->owner].kind != LEAF_CONSTANT) return EIN_OK;
    const void *data = g->leaves.items[v->owner].data;
    for (i64 k = 0; k < ein__value_numel(g, ids); k++) {
        i64 id = dtype == EIN_I32 ? ((const int32_t *)data)[k] : ((const i64 *)data)[k];
        if (id < 0 || id >= rows)
            REFUSE(EIN_INVALID, "%s: id %" PRId64 " at place %" PRId64 " of a constant is not in a table of %" PRId64
                   " rows", name, id, k, rows);
    }
    return EIN_OK;
}

/* ---- gathers ---- */

static ein_status start_gather(graph *g, node *op, const char *name, const value *operands, i64 rows, i64 v, i64 d)
{
    TRY(ein__node_start(g, op, OP_GATHER, name, 2, operands));
    ein__label_add(&op->spec, "rows", rows);
    ein__label_add(&op->spec, "v", v);
    ein__label_add(&op->spec, "d", d);
    op->id_operand = 0;
    op->id_label = GATHER_V;
    return EIN_OK;
}

static ein_status end_gather(graph *g, node *op, const dims *result, value *out)
{
    merge *m;
    spec *s = &op->spec;
    ein_dtype dtype = g->values.items[op->operands[1]].dtype;
    TRY(ein__merge_make(&g->arena, MERGE_SUM, 1, dtype, &m));
    s->merge = m;
    s->n_states = 1;
    s->states[0] = s->results[0];
    return ein__node_add(g, op, result, &dtype, out);
}

/* The ids' dimensions are one label. */
static ein_status add_embedding(graph *g, const value *operands, value *out)
{
    node op;
    dims result = ein__dims(g, operands[0]), table = ein__dims(g, operands[1]);
    TRY(ein__check_rank(g, "embedding", "table", operands[1], 2));
    TRY(check_ids(g, "embedding", operands[0], table.at[0]));
    if (result.rank == EIN_MAX_RANK) REFUSE(EIN_SHAPE, "embedding: ids have rank %d", result.rank);
    TRY(start_gather(g, &op, "embedding", operands, ein__value_numel(g, operands[0]), table.at[0], table.at[1]));
    spec *s = &op.spec;
    ein__term_label(s, &s->operands[0], GATHER_ROWS);
    ein__term_label(s, &s->operands[1], GATHER_V);
    ein__term_label(s, &s->operands[1], GATHER_D);
    ein__term_label(s, &s->results[0], GATHER_ROWS);
    ein__term_label(s, &s->results[0], GATHER_D);
    result.at[result.rank++] = table.at[1];
    return end_gather(g, &op, &result, out);
}

ein_tensor ein__op_embedding(ein_graph *g, ein_tensor ids, ein_tensor table)
{
    if (!ein__call_begin(g, "embedding", 2, (ein_tensor[]){ids, table})) return (ein_tensor){0};
    value out = -1;
    ein_status status = add_embedding(&g->g, (value[]){ein__value(ids), ein__value(table)}, &out);
    return ein__call_end(g, "embedding", status, &out);
}

/* A gather along `axis` of a table of any rank; the table's other dimensions are labels, and the last of them d, if it
 * is the table's last and `aligned` is not set: then ids have all of them. */
static ein_status add_gather(graph *g, const char *name, const value *operands, int axis, bool aligned, i64 rows,
                             value *out)
{
    node op;
    dims table = ein__dims(g, operands[1]), result = table;
    int last = table.rank - 1, d = !aligned && axis != last ? last : -1;
    TRY(start_gather(g, &op, name, operands, rows, table.at[axis], d >= 0 ? table.at[d] : 1));
    spec *s = &op.spec;
    result.at[axis] = rows;
    for (int i = 0; i <= last; i++) {
        char own[] = {'d', (char)('0' + i), 0};
        int l = i == d ? GATHER_D : i == axis ? GATHER_ROWS : ein__label_add(s, own, table.at[i]);
        if (aligned || i == axis) ein__term_label(s, &s->operands[0], l);
        ein__term_label(s, &s->operands[1], i == axis ? GATHER_V : l);
        ein__term_label(s, &s->results[0], l);
    }
    if (d < 0) {
        ein__term_label(s, &s->operands[1], GATHER_D);
        ein__term_label(s, &s->results[0], GATHER_D);
    }
    return end_gather(g, &op, &result, out);
}

static ein_status add_index_select(graph *g, value x, int axis, value ids, value *out)
{
    dims table = ein__dims(g, x);
    TRY(ein__check_axis(g, "index_select", table.rank, axis, &axis));
    TRY(ein__check_rank(g, "index_select", "ids", ids, 1));
    TRY(check_ids(g, "index_select", ids, table.at[axis]));
    return add_gather(g, "index_select", (value[]){ids, x}, axis, false, ein__value_numel(g, ids), out);
}

ein_tensor ein__op_index_select(ein_graph *g, ein_tensor x, int axis, ein_tensor ids)
{
    if (!ein__call_begin(g, "index_select", 2, (ein_tensor[]){x, ids})) return (ein_tensor){0};
    value out = -1;
    ein_status status = add_index_select(&g->g, ein__value(x), axis, ein__value(ids), &out);
    return ein__call_end(g, "index_select", status, &out);
}

/* The index has x's extents but for the axis. */
static ein_status check_index(graph *g, const char *name, value x, value index, int axis)
{
    dims table = ein__dims(g, x), d = ein__dims(g, index), other = d;
    if (d.rank == table.rank) other.at[axis] = table.at[axis];
    if (!ein__dims_equal(&table, &other))
        REFUSE(EIN_SHAPE, "%s: x %s and index %s differ in more than axis %d", name, ein__dims_text(table).s,
               ein__dims_text(d).s, axis);
    return check_ids(g, name, index, table.at[axis]);
}

static ein_status add_gather_along(graph *g, value x, int axis, value index, value *out)
{
    TRY(ein__check_axis(g, "gather", g->values.items[x].rank, axis, &axis));
    TRY(check_index(g, "gather", x, index, axis));
    return add_gather(g, "gather", (value[]){index, x}, axis, true, ein__dims(g, index).at[axis], out);
}

ein_tensor ein__op_gather(ein_graph *g, ein_tensor x, int axis, ein_tensor index)
{
    if (!ein__call_begin(g, "gather", 2, (ein_tensor[]){x, index})) return (ein_tensor){0};
    value out = -1;
    ein_status status = add_gather_along(&g->g, ein__value(x), axis, ein__value(index), &out);
    return ein__call_end(g, "gather", status, &out);
}

/* ---- scatters ---- */

/* operands: x, index, source. Over the places j of the index, x counts at the first. */
static ein_status add_scatter_add(graph *g, const value *operands, int axis, value *out)
{
    node op;
    merge *m;
    dims x = ein__dims(g, operands[0]), index = ein__dims(g, operands[1]), source = ein__dims(g, operands[2]);
    ein_dtype dtype = g->values.items[operands[0]].dtype;
    TRY(ein__check_types(g, "scatter_add", 1, operands, TYPE_FLOAT | TYPE_INT));
    TRY(ein__check_same_type(g, "scatter_add", 2, (value[]){operands[0], operands[2]}));
    TRY(ein__check_axis(g, "scatter_add", x.rank, axis, &axis));
    TRY(check_index(g, "scatter_add", operands[0], operands[1], axis));
    if (!ein__dims_equal(&index, &source))
        REFUSE(EIN_SHAPE, "scatter_add: index %s and source %s differ", ein__dims_text(index).s,
               ein__dims_text(source).s);
    *out = operands[0];
    if (index.at[axis] == 0) return EIN_OK;
    TRY(ein__node_start(g, &op, OP_MAP, "scatter_add", 3, operands));
    spec *s = &op.spec;
    ein__label_dims(s, 'd', &x);
    int j = ein__label_add(s, "j", index.at[axis]);
    ein__term_labels(s, &s->operands[0], 0, x.rank);
    ein__term_labels(s, &s->results[0], 0, x.rank);
    for (int i = 0; i < x.rank; i++) {
        ein__term_label(s, &s->operands[1], i == axis ? j : i);
        ein__term_label(s, &s->operands[2], i == axis ? j : i);
    }
    op.n_indices = 2;
    op.indices[0] = axis;
    op.indices[1] = j;
    op.id_operand = 1;
    op.id_label = axis;
    TRY(ein__expr_make(g, "scatter_add", "where(x4 == 0, x0, 0) + where(x1 == x3, x2, 0)", 5, 0, NULL, &op.body[0]));
    TRY(ein__merge_make(&g->arena, MERGE_SUM, 1, dtype, &m));
    s->merge = m;
    s->n_states = 1;
    s->states[0] = s->results[0];
    s->flops = ein__expr_work(&op.body[0]) + 1;
    return ein__node_add(g, &op, &x, &dtype, out);
}

ein_tensor ein__op_scatter_add(ein_graph *g, ein_tensor x, int axis, ein_tensor index, ein_tensor source)
{
    if (!ein__call_begin(g, "scatter_add", 3, (ein_tensor[]){x, index, source})) return (ein_tensor){0};
    value v[] = {ein__value(x), ein__value(index), ein__value(source)}, out = -1;
    return ein__call_end(g, "scatter_add", add_scatter_add(&g->g, v, axis, &out), &out);
}

static ein_status add_one_hot(graph *g, value ids, i64 classes, ein_dtype dtype, value *out)
{
    node op;
    dims d = ein__dims(g, ids);
    if (!ein__dtype_built(dtype)) REFUSE(EIN_DTYPE, "one_hot: of %s", ein__dtype_name(dtype));
    if (d.rank == EIN_MAX_RANK) REFUSE(EIN_SHAPE, "one_hot: ids have rank %d", d.rank);
    if (classes < 0) REFUSE(EIN_SHAPE, "one_hot: %" PRId64 " classes", classes);
    TRY(check_ids(g, "one_hot", ids, classes));
    TRY(ein__node_start(g, &op, OP_MAP, "one_hot", 1, &ids));
    spec *s = &op.spec;
    ein__label_dims(s, 'd', &d);
    ein__term_labels(s, &s->operands[0], 0, d.rank);
    d.at[d.rank++] = classes;
    op.n_indices = 1;
    op.id_operand = 0;
    op.id_label = op.indices[0] = ein__label_add(s, "v", classes);
    ein__term_labels(s, &s->results[0], 0, d.rank);
    TRY(ein__expr_make(g, "one_hot", "x0 == x1", 2, 0, NULL, &op.body[0]));
    s->flops = 1;
    return ein__node_add(g, &op, &d, &dtype, out);
}

ein_tensor ein__op_one_hot(ein_graph *g, ein_tensor ids, int64_t classes, ein_dtype dtype)
{
    if (!ein__call_begin(g, "one_hot", 1, &ids)) return (ein_tensor){0};
    value out = -1;
    ein_status status = add_one_hot(&g->g, ein__value(ids), classes, dtype, &out);
    return ein__call_end(g, "one_hot", status, &out);
}
