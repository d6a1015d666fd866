/* SPDX-License-Identifier: Apache-2.0 */
/* Attention. Query heads are kv head x group: a dimension of two labels, so a cut along heads is an ordinary
 * one. Keys are aggregated by the softmax merge. */
#include "core/graph/builder.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

static const char attention_name[] = "scaled_dot_product_attention";

/* What a call was given. */
typedef struct attention_call {
    int n; /* operands: q, k, v, and the mask if there is one */
    value operands[4];
    ein_attention_options options;
} attention_call;

/* ---- options ---- */

/* Callers built against an earlier header give fewer members; the others are zero. */
static ein_status copy_options(graph *g, const ein_attention_options *given, ein_attention_options *out)
{
    const size_t first = offsetof(ein_attention_options, mask);
    *out = (ein_attention_options){.size = sizeof *out};
    if (given == NULL) return EIN_OK;
    if (given->size < first || given->size > sizeof *out)
        REFUSE(EIN_INVALID, "%s: options.size is %zu", attention_name, given->size);
    memcpy(out, given, given->size);
    return EIN_OK;
}

static ein_status read_options(graph *g, const ein_attention_options *o, i64 d, attention_attrs *out)
{
    if (!isfinite(o->scale)) REFUSE(EIN_INVALID, "%s: scale is %g", attention_name, o->scale);
    if (o->window < 0) REFUSE(EIN_INVALID, "%s: window is %" PRId64, attention_name, o->window);
    if (!isfinite(o->softcap) || o->softcap < 0)
        REFUSE(EIN_INVALID, "%s: softcap is %g", attention_name, o->softcap);
    out->causal = o->causal != 0;
    out->scale = o->scale != 0 ? o->scale : 1 / sqrt((double)d);
    out->window = o->window;
    out->softcap = o->softcap;
    TRY(ein__check_scalar(g, attention_name, o->position, &out->position));
    return ein__check_scalar(g, attention_name, o->length, &out->length);
}

/* ---- checks ---- */

static ein_status check_types(graph *g, const value *operands)
{
    TRY(ein__check_types(g, attention_name, 3, operands, TYPE_FLOAT));
    ein_dtype types[3];
    for (int i = 0; i < 3; i++) types[i] = g->values.items[operands[i]].dtype;
    if (types[1] != types[0] || types[2] != types[0])
        REFUSE(EIN_DTYPE, "%s: q, k, v are %s, %s, %s", attention_name, ein__dtype_name(types[0]),
               ein__dtype_name(types[1]), ein__dtype_name(types[2]));
    return EIN_OK;
}

static ein_status check_attention(graph *g, const value *operands, const dims *q, const dims *k,
                                  const dims *v)
{
    static const char *const names[] = {"q", "k", "v"};
    TRY(check_types(g, operands));
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

static ein_status check_mask(graph *g, value mask, ein_dtype type, const dims *scores)
{
    dims d = ein__dims(g, mask);
    ein_dtype given = g->values.items[mask].dtype;
    if (given != EIN_BOOL && given != EIN_F32 && given != type)
        REFUSE(EIN_DTYPE, "%s: mask is %s, not bool, f32%s%s", attention_name, ein__dtype_name(given),
               type != EIN_F32 ? " or " : "", type != EIN_F32 ? ein__dtype_name(type) : "");
    bool fits = d.rank <= scores->rank;
    for (int i = 1; fits && i <= d.rank; i++)
        fits = d.at[d.rank - i] == 1 || d.at[d.rank - i] == scores->at[scores->rank - i];
    if (!fits)
        REFUSE(EIN_SHAPE, "%s: mask %s does not broadcast to %s", attention_name, ein__dims_text(d).s,
               ein__dims_text(*scores).s);
    return EIN_OK;
}

/* ---- spec ---- */

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

/* Labels of the dimensions b, hq, s, t; those of extent 1 that the scores have more of are the same for all. */
static void set_mask(const spec *s, index_map *m, const dims *d, const dims *scores)
{
    static const char *const labels[] = {"b", "hg", "s", "t"};
    int skip = scores->rank - d->rank;
    for (int i = 0; i < d->rank; i++) {
        if (d->at[i] == scores->at[skip + i]) set_terms(s, m, labels[skip + i]);
        else ein__term_fixed(m, 1, 0);
    }
}

static ein_status add_attention(graph *g, const attention_call *c, bool partial, value *out)
{
    node op;
    merge *m;
    dims q = ein__dims(g, c->operands[0]), k = ein__dims(g, c->operands[1]), v = ein__dims(g, c->operands[2]);
    ein_dtype type = g->values.items[c->operands[0]].dtype, state = ein__dtype_compute(type);
    TRY(check_attention(g, c->operands, &q, &k, &v));
    dims scores = {.rank = 4, .at = {q.at[0], q.at[1], q.at[2], k.at[2]}};
    if (c->n == 4) TRY(check_mask(g, c->operands[3], type, &scores));
    TRY(ein__node_start(g, &op, OP_ATTENTION, attention_name, c->n, c->operands));
    TRY(read_options(g, &c->options, q.at[3], &op.attention));
    spec *s = &op.spec;
    set_attention(s, &q, &k, &v);
    if (c->n == 4) {
        dims mask = ein__dims(g, c->operands[3]);
        set_mask(s, &s->operands[3], &mask, &scores);
    }
    TRY(ein__merge_make(&g->arena, partial ? MERGE_SOFTMAX_STATE : MERGE_SOFTMAX, 1, type, &m));
    s->merge = m;
    dims rows = {.rank = 3, .at = {q.at[0], q.at[1], q.at[2]}}, result = rows;
    result.at[result.rank++] = v.at[3];
    if (!partial) {
        s->results[0] = s->states[2];
        return ein__node_add(g, &op, &result, NULL, out);
    }
    s->n_results = 3;
    memcpy(s->results, s->states, sizeof s->results);
    return ein__node_add(g, &op, (dims[]){rows, rows, result}, (ein_dtype[]){state, state, state}, out);
}

/* ---- calls ---- */

static bool begin_attention(ein_graph *g, const ein_tensor *qkv, const ein_attention_options *options,
                            attention_call *c)
{
    if (!ein__call_begin(g, attention_name, 3, qkv)) return false;
    if (copy_options(&g->g, options, &c->options) != EIN_OK) return false;
    ein_tensor operands[] = {qkv[0], qkv[1], qkv[2], c->options.mask};
    c->n = c->options.mask.id != 0 ? 4 : 3;
    if (!ein__call_begin(g, attention_name, c->n, operands)) return false;
    for (int i = 0; i < c->n; i++) c->operands[i] = ein__value(operands[i]);
    return true;
}

ein_tensor ein__op_scaled_dot_product_attention(ein_graph *g, ein_tensor q, ein_tensor k, ein_tensor v,
                                            const ein_attention_options *options)
{
    attention_call c;
    value out = -1;
    if (!begin_attention(g, (ein_tensor[]){q, k, v}, options, &c)) return (ein_tensor){0};
    return ein__call_end(g, attention_name, add_attention(&g->g, &c, false, &out), &out);
}

void ein__op_scaled_dot_product_attention_partial(ein_graph *g, ein_tensor q, ein_tensor k, ein_tensor v,
                                              const ein_attention_options *options, ein_tensor *out)
{
    attention_call c;
    value r[3] = {-1, -1, -1};
    if (out == NULL) {
        if (g != NULL && g->g.error.status == EIN_OK)
            ein__fail(&g->g.error, EIN_INVALID, "%s: out is NULL", attention_name);
        return;
    }
    for (int i = 0; i < 3; i++) out[i] = (ein_tensor){0};
    if (!begin_attention(g, (ein_tensor[]){q, k, v}, options, &c)) return;
    ein_status status = add_attention(&g->g, &c, true, r);
    for (int i = 0; i < 3; i++) out[i] = ein__call_end(g, attention_name, status, &r[i]);
}
