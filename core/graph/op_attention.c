/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and what belongs to it. Query heads are kv head x group: a dimension of two labels, so a cut
 * along heads is an ordinary one. Keys are aggregated by the softmax merge. */
#include "core/graph/builder.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- attention ---- */

static const char attention_name[] = "scaled_dot_product_attention";

static ein_status read_options(graph *g, const ein_attention_options *given, i64 d, attention_attrs *out)
{
    ein_attention_options o = {0};
    if (given != NULL) {
        if (given->size < sizeof o)
            REFUSE(EIN_INVALID, "%s: options.size is %zu", attention_name, given->size);
        o = *given;
    }
    if (!isfinite(o.scale)) REFUSE(EIN_INVALID, "%s: scale is %g", attention_name, o.scale);
    out->causal = o.causal != 0;
    out->scale = o.scale != 0 ? o.scale : 1 / sqrt((double)d);
    TRY(ein__check_scalar(g, attention_name, o.position, &out->position));
    return ein__check_scalar(g, attention_name, o.length, &out->length);
}

static ein_status check_attention(graph *g, const value *operands, const dims *q, const dims *k,
                                  const dims *v)
{
    static const char *const names[] = {"q", "k", "v"};
    TRY(ein__check_types(g, attention_name, 3, operands, TYPE_F32));
    for (int i = 0; i < 3; i++) TRY(ein__check_rank(g, attention_name, names[i], operands[i], 4));
    if (q->at[0] != k->at[0] || k->at[0] != v->at[0])
        REFUSE(EIN_SHAPE, "%s: batches of q, k, v are %" PRId64 ", %" PRId64 ", %" PRId64, attention_name,
               q->at[0], k->at[0], v->at[0]);
    if (k->at[1] != v->at[1] || (k->at[1] == 0 ? q->at[1] != 0 : q->at[1] % k->at[1] != 0))
        REFUSE(EIN_SHAPE, "%s: heads of q, k, v are %" PRId64 ", %" PRId64 ", %" PRId64, attention_name,
               q->at[1], k->at[1], v->at[1]);
    if (k->at[2] != v->at[2])
        REFUSE(EIN_SHAPE, "%s: k has %" PRId64 " keys, v %" PRId64, attention_name, k->at[2], v->at[2]);
    if (q->at[3] != k->at[3])
        REFUSE(EIN_SHAPE, "%s: head sizes of q and k are %" PRId64 " and %" PRId64, attention_name, q->at[3],
               k->at[3]);
    if (q->at[3] == 0 || v->at[3] == 0)
        REFUSE(EIN_SHAPE, "%s: head sizes of q and v are %" PRId64 " and %" PRId64 "; at least 1", attention_name,
               q->at[3], v->at[3]);
    return EIN_OK;
}

static const char letters[] = "bhgstde"; /* ATT_B, ATT_H, ... */

static void set_terms(const spec *s, index_map *m, const char *labels)
{
    for (const char *p = labels; *p != 0; p++) ein__term_label(s, m, (int)(strchr(letters, *p) - letters));
}

static void set_attention(spec *s, const dims *q, const dims *k, const dims *v)
{
    i64 extents[ATT_LABELS] = {q->at[0], k->at[1], k->at[1] > 0 ? q->at[1] / k->at[1] : 1,
                               q->at[2], k->at[2], q->at[3], v->at[3]};
    for (int l = 0; l < ATT_LABELS; l++) ein__label_add(s, (char[]){letters[l], 0}, extents[l]);
    s->labels[ATT_D].whole = s->labels[ATT_E].whole = true;
    set_terms(s, &s->operands[0], "bhgsd");
    set_terms(s, &s->operands[1], "bhtd");
    set_terms(s, &s->operands[2], "bhte");
    set_terms(s, &s->states[0], "bhgs");
    set_terms(s, &s->states[1], "bhgs");
    set_terms(s, &s->states[2], "bhgse");
    s->n_states = 3;
    /* 2 (d + e) for each pair of query and key; a point of the label space also has d and e. */
    double de = (double)extents[ATT_D] * (double)extents[ATT_E];
    s->flops = de > 0 ? 2 * (double)(extents[ATT_D] + extents[ATT_E]) / de : 0;
}

static ein_status add_attention(graph *g, const value *operands, const ein_attention_options *options,
                                bool partial, value *out)
{
    node op;
    merge *m;
    dims q = ein__dims(g, operands[0]), k = ein__dims(g, operands[1]), v = ein__dims(g, operands[2]);
    TRY(check_attention(g, operands, &q, &k, &v));
    TRY(ein__node_start(g, &op, OP_ATTENTION, attention_name, 3, operands));
    TRY(read_options(g, options, q.at[3], &op.attention));
    spec *s = &op.spec;
    set_attention(s, &q, &k, &v);
    TRY(ein__merge_make(&g->arena, partial ? MERGE_SOFTMAX_STATE : MERGE_SOFTMAX, 1, &m));
    s->merge = m;
    dims rows = {.rank = 3, .at = {q.at[0], q.at[1], q.at[2]}}, result = rows;
    result.at[result.rank++] = v.at[3];
    if (!partial) {
        s->results[0] = s->states[2];
        return ein__node_add(g, &op, &result, NULL, out);
    }
    s->n_results = 3;
    memcpy(s->results, s->states, sizeof s->results);
    return ein__node_add(g, &op, (dims[]){rows, rows, result}, NULL, out);
}

ein_tensor ein_scaled_dot_product_attention(ein_graph *g, ein_tensor q, ein_tensor k, ein_tensor v,
                                            const ein_attention_options *options)
{
    if (!ein__call_begin(g, attention_name, 3, (ein_tensor[]){q, k, v})) return (ein_tensor){0};
    value operands[] = {ein__value(q), ein__value(k), ein__value(v)}, out = -1;
    return ein__call_end(g, attention_name, add_attention(&g->g, operands, options, false, &out), &out);
}

void ein_scaled_dot_product_attention_partial(ein_graph *g, ein_tensor q, ein_tensor k, ein_tensor v,
                                              const ein_attention_options *options, ein_tensor out[3])
{
    if (out == NULL) {
        if (g != NULL && g->g.error.status == EIN_OK)
            ein__fail(&g->g.error, EIN_INVALID, "%s: out is NULL", attention_name);
        return;
    }
    for (int i = 0; i < 3; i++) out[i] = (ein_tensor){0};
    if (!ein__call_begin(g, attention_name, 3, (ein_tensor[]){q, k, v})) return;
    value operands[] = {ein__value(q), ein__value(k), ein__value(v)}, r[3] = {-1, -1, -1};
    ein_status status = add_attention(&g->g, operands, options, true, r);
    for (int i = 0; i < 3; i++) out[i] = ein__call_end(g, attention_name, status, &r[i]);
}

/* ---- rotary embedding ---- */

static ein_status check_rope(graph *g, const value *operands)
{
    dims x = ein__dims(g, operands[0]), c = ein__dims(g, operands[1]), s = ein__dims(g, operands[2]);
    TRY(ein__check_types(g, "rope", 3, operands, TYPE_F32));
    TRY(ein__check_rank(g, "rope", "x", operands[0], 4));
    TRY(ein__check_rank(g, "rope", "cosine", operands[1], 2));
    if (s.rank != 2 || s.at[0] != c.at[0] || s.at[1] != c.at[1])
        REFUSE(EIN_SHAPE, "rope: cosine %s and sine %s differ", ein__dims_text(c).s, ein__dims_text(s).s);
    if (x.at[3] % 2 != 0) REFUSE(EIN_SHAPE, "rope: head size %" PRId64 " is odd", x.at[3]);
    if (c.at[1] != x.at[3] / 2)
        REFUSE(EIN_SHAPE, "rope: cosine %s for head size %" PRId64, ein__dims_text(c).s, x.at[3]);
    if (x.at[1] > c.at[0])
        REFUSE(EIN_SHAPE, "rope: %" PRId64 " rows of x, tables of %" PRId64 " positions", x.at[1], c.at[0]);
    return EIN_OK;
}

/* x stands twice among the operands, for the two elements of a pair; a constant (0, 1) tells the halves. */
static ein_status add_rope(graph *g, value x, value cosine, value sine, ein_scalar position, value *out)
{
    enum { B, S, H, HALF, PAIR };
    static const float sides[2] = {0, 1};
    value operands[] = {x, x, cosine, sine, -1};
    int scalar;
    node op;
    TRY(ein__check_scalar(g, "rope", position, &scalar));
    TRY(check_rope(g, operands + 1));
    TRY(ein__constant_add(g, EIN_F32, &(dims){.rank = 1, .at = {2}}, sides, &operands[4]));
    dims d = ein__dims(g, x);
    i64 positions = ein__dims(g, cosine).at[0];
    TRY(ein__node_start(g, &op, OP_MAP, "rope", 5, operands));
    spec *s = &op.spec;
    ein__label_add(s, "b", d.at[0]);
    ein__label_add(s, "s", d.at[1]);
    ein__label_add(s, "h", d.at[2]);
    ein__label_add(s, "half", 2);
    ein__label_add(s, "pair", d.at[3] / 2);
    s->labels[HALF].whole = true;
    for (int i = 0; i < 2; i++) {
        ein__term_labels(s, &s->operands[i], B, 3);
        ein__term_fixed(&s->operands[i], 2, i);
        ein__term_label(s, &s->operands[i], PAIR);
    }
    for (int i = 2; i < 4; i++) {
        if (scalar >= 0) ein__term_all(&s->operands[i], S, positions, scalar);
        else ein__term_range(s, &s->operands[i], S, positions, 0);
        ein__term_label(s, &s->operands[i], PAIR);
    }
    ein__term_label(s, &s->operands[4], HALF);
    ein__term_labels(s, &s->results[0], B, 5);
    const char *body = "where(x4 == 0, x0 * x2 - x1 * x3, x1 * x2 + x0 * x3)";
    TRY(ein__expr_make(g, "rope", body, 5, 0, NULL, &op.body[0]));
    s->flops = 3;
    TRY(ein__bound_add(g, scalar, d.at[1], positions, "rope"));
    return ein__node_add(g, &op, &d, NULL, out);
}

ein_tensor ein_rope(ein_graph *g, ein_tensor x, ein_tensor cosine, ein_tensor sine, ein_scalar position)
{
    if (!ein__call_begin(g, "rope", 3, (ein_tensor[]){x, cosine, sine})) return (ein_tensor){0};
    value out = -1;
    ein_status status =
        add_rope(&g->g, ein__value(x), ein__value(cosine), ein__value(sine), position, &out);
    return ein__call_end(g, "rope", status, &out);
}

static ein_status check_tables(graph *g, const dims *d, i64 size, double theta)
{
    if (size < 0 || size % 2 != 0) REFUSE(EIN_SHAPE, "rope_tables: head size %" PRId64, size);
    if (!isfinite(theta) || theta <= 0) REFUSE(EIN_INVALID, "rope_tables: theta is %g", theta);
    return ein__check_dims(g, "rope_tables", d);
}

static ein_status add_tables(graph *g, arena *a, i64 positions, i64 size, double theta, value *out)
{
    dims d = {.rank = 2, .at = {positions, size / 2}};
    float *cosine, *sine;
    TRY(check_tables(g, &d, size, theta));
    NEW(a, cosine, positions * d.at[1]);
    NEW(a, sine, positions * d.at[1]);
    for (i64 i = 0; i < d.at[1]; i++) {
        double speed = pow(theta, -2.0 * (double)i / (double)size);
        for (i64 p = 0; p < positions; p++) {
            cosine[p * d.at[1] + i] = (float)cos((double)p * speed);
            sine[p * d.at[1] + i] = (float)sin((double)p * speed);
        }
    }
    TRY(ein__constant_add(g, EIN_F32, &d, cosine, &out[0]));
    return ein__constant_add(g, EIN_F32, &d, sine, &out[1]);
}

void ein_rope_tables(ein_graph *g, int64_t positions, int64_t d, double theta, ein_tensor *cosine,
                     ein_tensor *sine)
{
    value out[2] = {-1, -1};
    if (cosine != NULL) *cosine = (ein_tensor){0};
    if (sine != NULL) *sine = (ein_tensor){0};
    if (g == NULL || g->g.error.status != EIN_OK) return;
    if (cosine == NULL || sine == NULL) {
        ein__fail(&g->g.error, EIN_INVALID, "rope_tables: %s is NULL", cosine == NULL ? "cosine" : "sine");
        return;
    }
    arena scratch = {0};
    ein_status status = add_tables(&g->g, &scratch, positions, d, theta, out);
    ein__arena_free(&scratch);
    *cosine = ein__call_end(g, "rope_tables", status, &out[0]);
    *sine = ein__call_end(g, "rope_tables", status, &out[1]);
}
