/* SPDX-License-Identifier: Apache-2.0 */
/* Embedding: rows of a table by index. The table's rows are aggregated by a sum: a device that holds some of
 * them contributes zero for the ids of others. The ids' dimensions are one label. */
#include "core/graph/builder.h"

#include <inttypes.h>

/* Ids of an input are checked when it is bound; those of a constant are known now. */
static ein_status check_ids(graph *g, value ids, i64 rows)
{
    const value_info *v = &g->values.items[ids];
    if (v->kind != VALUE_LEAF || g->leaves.items[v->owner].kind != LEAF_CONSTANT) return EIN_OK;
    const void *data = g->leaves.items[v->owner].data;
    for (i64 k = 0; k < ein__value_numel(g, ids); k++) {
        i64 id = v->dtype == EIN_I32 ? ((const int32_t *)data)[k] : ((const i64 *)data)[k];
        if (id < 0 || id >= rows)
            REFUSE(EIN_INVALID, "embedding: id %" PRId64 " at place %" PRId64 " of a constant is not in a table of %" PRId64
                   " rows", id, k, rows);
    }
    return EIN_OK;
}

static ein_status add_embedding(graph *g, const value *operands, value *out)
{
    node op;
    merge *m;
    dims result = ein__dims(g, operands[0]), table = ein__dims(g, operands[1]);
    ein_dtype dtype = g->values.items[operands[0]].dtype;
    if (dtype != EIN_I32 && dtype != EIN_I64)
        REFUSE(EIN_DTYPE, "embedding: ids are %s, not i32 or i64", ein__dtype_name(dtype));
    dtype = g->values.items[operands[1]].dtype;
    if (dtype != EIN_F32) REFUSE(EIN_DTYPE, "embedding: table is %s, not f32", ein__dtype_name(dtype));
    TRY(ein__check_rank(g, "embedding", "table", operands[1], 2));
    TRY(check_ids(g, operands[0], table.at[0]));
    if (result.rank == EIN_MAX_RANK) REFUSE(EIN_SHAPE, "embedding: ids have rank %d", result.rank);
    TRY(ein__node_start(g, &op, OP_GATHER, "embedding", 2, operands));
    spec *s = &op.spec;
    ein__label_add(s, "rows", ein__value_numel(g, operands[0]));
    ein__label_add(s, "v", table.at[0]);
    ein__label_add(s, "d", table.at[1]);
    ein__term_label(s, &s->operands[0], GATHER_ROWS);
    ein__term_label(s, &s->operands[1], GATHER_V);
    ein__term_label(s, &s->operands[1], GATHER_D);
    ein__term_label(s, &s->results[0], GATHER_ROWS);
    ein__term_label(s, &s->results[0], GATHER_D);
    TRY(ein__merge_make(&g->arena, MERGE_SUM, 1, &m));
    s->merge = m;
    s->n_states = 1;
    s->states[0] = s->results[0];
    result.at[result.rank++] = table.at[1];
    return ein__node_add(g, &op, &result, &dtype, out);
}

ein_tensor ein_embedding(ein_graph *g, ein_tensor ids, ein_tensor table)
{
    if (!ein__call_begin(g, "embedding", 2, (ein_tensor[]){ids, table})) return (ein_tensor){0};
    value out = -1;
    ein_status status = add_embedding(&g->g, (value[]){ein__value(ids), ein__value(table)}, &out);
    return ein__call_end(g, "embedding", status, &out);
}
