/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary embeddings. A head is two labels, half and pair: half major for pairs (i, i + d/2), half minor for pairs
 * (2 i, 2 i + 1). Half is whole, so that both elements of a pair are on one device, wherever pairs are cut. */
#include "core/graph/builder.h"

#include <inttypes.h>
#include <math.h>

enum { B, S, H, HALF, PAIR };

typedef struct rope_call {
    const char *name;
    bool interleaved;
} rope_call;

static const rope_call split = {"rope", false}, interleaved = {"rope_interleaved", true};

static ein_status check_types(graph *g, const char *name, const value *operands)
{
    ein_dtype t[3];
    TRY(ein__check_types(g, name, 3, operands, TYPE_FLOAT));
    for (int i = 0; i < 3; i++) t[i] = g->values.items[operands[i]].dtype;
    if (t[1] != t[2] || (t[1] != EIN_F32 && t[1] != t[0]))
        REFUSE(EIN_DTYPE, "%s: x, cosine, sine are %s, %s, %s; tables are f32 or as x", name,
               ein__dtype_name(t[0]), ein__dtype_name(t[1]), ein__dtype_name(t[2]));
    return EIN_OK;
}

static ein_status check_rope(graph *g, const char *name, const value *operands)
{
    dims x = ein__dims(g, operands[0]), c = ein__dims(g, operands[1]), s = ein__dims(g, operands[2]);
    TRY(check_types(g, name, operands));
    TRY(ein__check_rank(g, name, "x", operands[0], 4));
    TRY(ein__check_rank(g, name, "cosine", operands[1], 2));
    if (s.rank != 2 || s.at[0] != c.at[0] || s.at[1] != c.at[1])
        REFUSE(EIN_SHAPE, "%s: cosine %s and sine %s differ", name, ein__dims_text(c).s, ein__dims_text(s).s);
    if (x.at[3] % 2 != 0) REFUSE(EIN_SHAPE, "%s: head size %" PRId64 " is odd", name, x.at[3]);
    if (c.at[1] != x.at[3] / 2)
        REFUSE(EIN_SHAPE, "%s: cosine %s for head size %" PRId64, name, ein__dims_text(c).s, x.at[3]);
    if (x.at[1] > c.at[0])
        REFUSE(EIN_SHAPE, "%s: %" PRId64 " rows of x, tables of %" PRId64 " positions", name, x.at[1], c.at[0]);
    return EIN_OK;
}

static void set_labels(spec *s, const dims *d)
{
    ein__label_add(s, "b", d->at[0]);
    ein__label_add(s, "s", d->at[1]);
    ein__label_add(s, "h", d->at[2]);
    ein__label_add(s, "half", 2);
    ein__label_add(s, "pair", d->at[3] / 2);
    s->labels[HALF].whole = true;
}

/* Terms of x or the result: half is `side`, or the label if that is -1. */
static void set_head(const spec *s, index_map *m, bool half_minor, int side)
{
    ein__term_labels(s, m, B, 3);
    if (half_minor) ein__term_label(s, m, PAIR);
    if (side >= 0) ein__term_fixed(m, 2, side);
    else ein__term_label(s, m, HALF);
    if (!half_minor) ein__term_label(s, m, PAIR);
}

/* x stands twice among the operands, for the two elements of a pair; a constant (0, 1) tells the halves. */
static ein_status add_rope(graph *g, const rope_call *c, value x, value cosine, value sine, ein_scalar position,
                           value *out)
{
    static const float sides[2] = {0, 1};
    value operands[] = {x, x, cosine, sine, -1};
    int scalar;
    node op;
    TRY(ein__check_scalar(g, c->name, position, &scalar));
    TRY(check_rope(g, c->name, operands + 1));
    TRY(ein__constant_add(g, EIN_F32, &(dims){.rank = 1, .at = {2}}, sides, &operands[4]));
    dims d = ein__dims(g, x);
    i64 positions = ein__dims(g, cosine).at[0];
    TRY(ein__node_start(g, &op, OP_MAP, c->name, 5, operands));
    spec *s = &op.spec;
    set_labels(s, &d);
    for (int i = 0; i < 2; i++) set_head(s, &s->operands[i], c->interleaved, i);
    for (int i = 2; i < 4; i++) {
        if (scalar >= 0) ein__term_all(&s->operands[i], S, positions, scalar);
        else ein__term_range(s, &s->operands[i], S, positions, 0);
        ein__term_label(s, &s->operands[i], PAIR);
    }
    ein__term_label(s, &s->operands[4], HALF);
    set_head(s, &s->results[0], c->interleaved, -1);
    const char *body = "where(x4 == 0, x0 * x2 - x1 * x3, x1 * x2 + x0 * x3)";
    TRY(ein__expr_make(g, c->name, body, 5, 0, NULL, &op.body[0]));
    s->flops = 3;
    TRY(ein__bound_add(g, scalar, d.at[1], positions, c->name));
    return ein__node_add(g, &op, &d, NULL, out);
}

static ein_tensor call_rope(ein_graph *g, const rope_call *c, const ein_tensor *x, ein_scalar position)
{
    if (!ein__call_begin(g, c->name, 3, x)) return (ein_tensor){0};
    value out = -1;
    ein_status status =
        add_rope(&g->g, c, ein__value(x[0]), ein__value(x[1]), ein__value(x[2]), position, &out);
    return ein__call_end(g, c->name, status, &out);
}

ein_tensor ein__op_rope(ein_graph *g, ein_tensor x, ein_tensor cosine, ein_tensor sine, ein_scalar position)
{
    return call_rope(g, &split, (ein_tensor[]){x, cosine, sine}, position);
}

ein_tensor ein__op_rope_interleaved(ein_graph *g, ein_tensor x, ein_tensor cosine, ein_tensor sine,
                                ein_scalar position)
{
    return call_rope(g, &interleaved, (ein_tensor[]){x, cosine, sine}, position);
}

/* ---- tables ---- */

enum { LARGEST_TABLE = 1 << 28 };

static ein_status check_tables(graph *g, const dims *d, i64 size, double theta)
{
    if (size < 0 || size % 2 != 0) REFUSE(EIN_SHAPE, "rope_tables: head size %" PRId64, size);
    if (!isfinite(theta) || theta <= 0) REFUSE(EIN_INVALID, "rope_tables: theta is %g", theta);
    TRY(ein__check_dims(g, "rope_tables", d));
    if (d->at[0] > 0 && d->at[1] > LARGEST_TABLE / d->at[0])
        REFUSE(EIN_SHAPE, "rope_tables: %s has more than 2^28 elements", ein__dims_text(*d).s);
    return EIN_OK;
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

void ein__op_rope_tables(ein_graph *g, int64_t positions, int64_t d, double theta, ein_tensor *cosine,
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
