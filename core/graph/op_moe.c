/* SPDX-License-Identifier: Apache-2.0 */
/* Routing of tokens to experts with static capacity, of public calls and two maps. A choice (token t, its j-th expert)
 * is numbered in the order of j, then t; its place in the expert is the number of choices of that expert up to it, a
 * cumsum over a one-hot. dispatch[t,e,c] sums over j whether choice (t, j) is e and has place c + 1; [t,e,c,j] is
 * never stored. t, e, c are parallel, so that experts may be cut. */
#include <inttypes.h>

#include "core/graph/builder.h"

typedef struct routing {
    i64 tokens, experts, capacity;
    int k;
    value expert, place, weight; /* [tokens, k] i64; [k, tokens, experts] i32, from 1; [tokens, k] */
    ein_dtype dtype;
} routing;

static ein_status check_call(graph *g, const value *logits, int k, i64 capacity, routing *r)
{
    dims d = ein__dims(g, *logits);
    TRY(ein__check_types(g, "moe_routing", 1, logits, TYPE_FLOAT));
    TRY(ein__check_rank(g, "moe_routing", "logits", *logits, 2));
    if (k < 1 || k > d.at[1]) REFUSE(EIN_INVALID, "moe_routing: k is %d of %" PRId64 " experts", k, d.at[1]);
    if (capacity < 0) REFUSE(EIN_SHAPE, "moe_routing: capacity %" PRId64, capacity);
    *r = (routing){.tokens = d.at[0], .experts = d.at[1], .capacity = capacity, .k = k,
                   .dtype = g->values.items[*logits].dtype};
    return EIN_OK;
}

/* Everything but the maps, in f32 at least. */
static void choose(ein_graph *g, routing *r, ein_tensor logits, bool normalize)
{
    ein_tensor best[2], p = ein__op_softmax(g, ein__op_cast(g, logits, r->dtype == EIN_F64 ? EIN_F64 : EIN_F32), 1);
    ein__op_topk(g, p, r->k, 1, 0, best);
    if (normalize) best[0] = ein__op_div(g, best[0], ein__op_sum(g, best[0], 1, (int[]){1}, 1));
    ein_tensor chosen = ein__op_one_hot(g, ein__op_transpose(g, best[1], 0, 1), r->experts, EIN_I32);
    chosen = ein__op_cumsum(g, ein__op_reshape(g, chosen, 2, (i64[]){r->k * r->tokens, r->experts}), 0);
    chosen = ein__op_reshape(g, chosen, 3, (i64[]){r->k, r->tokens, r->experts});
    r->weight = ein__value(best[0]);
    r->expert = ein__value(best[1]);
    r->place = ein__value(chosen);
}

/* [tokens, experts, capacity]: the body's sum over j. Arguments: operands, the expert, the place from 0. */
static ein_status add_slots(graph *g, const routing *r, const char *body, int n, const value *operands, value *out)
{
    node op;
    merge *m;
    dims result = {.rank = 3, .at = {r->tokens, r->experts, r->capacity}};
    TRY(ein__node_start(g, &op, OP_MAP, "moe_routing", n, operands));
    spec *s = &op.spec;
    int t = ein__label_add(s, "t", r->tokens), e = ein__label_add(s, "e", r->experts),
        c = ein__label_add(s, "c", r->capacity), j = ein__label_add(s, "j", r->k);
    for (int i = 0; i < n; i++) {
        bool place = operands[i] == r->place;
        ein__term_label(s, &s->operands[i], place ? j : t);
        ein__term_label(s, &s->operands[i], place ? t : j);
        if (place) ein__term_label(s, &s->operands[i], e);
    }
    ein__term_labels(s, &s->results[0], 0, 3);
    op.n_indices = 2;
    op.indices[0] = e;
    op.indices[1] = c;
    TRY(ein__expr_make(g, "moe_routing", body, n + 2, 0, NULL, &op.body[0]));
    TRY(ein__merge_make(&g->arena, MERGE_SUM, 1, r->dtype, &m));
    s->merge = m;
    s->n_states = 1;
    s->states[0] = s->results[0];
    s->flops = ein__expr_work(&op.body[0]) + 1;
    return ein__node_add(g, &op, &result, &r->dtype, out);
}

void ein__op_moe_routing(ein_graph *g, ein_tensor logits, int k, int64_t capacity, int normalize, ein_tensor *out)
{
    if (out != NULL) out[0] = out[1] = (ein_tensor){0};
    if (!ein__call_begin(g, "moe_routing", 1, &logits)) return;
    if (out == NULL) {
        ein__fail(&g->g.error, EIN_INVALID, "moe_routing: out is NULL");
        return;
    }
    routing r;
    value v = ein__value(logits), slots[2] = {-1, -1};
    ein_status status = check_call(&g->g, &v, k, capacity, &r);
    if (status == EIN_OK) choose(g, &r, logits, normalize != 0);
    if (status == EIN_OK) status = g->g.error.status;
    value operands[] = {r.expert, r.place, r.weight};
    if (status == EIN_OK) status = add_slots(&g->g, &r, "and(x0 == x2, x1 == x3 + 1)", 2, operands, &slots[0]);
    if (status == EIN_OK)
        status = add_slots(&g->g, &r, "where(and(x0 == x3, x1 == x4 + 1), x2, 0)", 3, operands, &slots[1]);
    for (int i = 0; i < 2; i++) out[i] = ein__call_end(g, "moe_routing", status, &slots[i]);
}
