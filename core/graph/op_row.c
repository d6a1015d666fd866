/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that need a statistic of a whole row before they can touch its elements: stages of statistics over the
 * row's labels, then an expression. The labels are two-step: cut, the pieces' statistics are exchanged, which is
 * little, and each piece is applied where it lies. Statistics are in x's compute type: f32 for bf16 and f16. */
#include "core/graph/builder.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Labels of x's dimensions on operand and result, the row's in two steps. */
static ein_status start_row(graph *g, node *op, const char *name, int n, const value *operands, int axis)
{
    dims d = ein__dims(g, operands[0]);
    TRY(ein__node_start(g, op, OP_ROW, name, n, operands));
    ein__label_dims(&op->spec, 'd', &d);
    ein__term_labels(&op->spec, &op->spec.operands[0], 0, d.rank);
    ein__term_labels(&op->spec, &op->spec.results[0], 0, d.rank);
    op->spec.two_step = 1u << axis;
    return EIN_OK;
}

/* A stage whose states are made of these expressions; NULL: no further state. */
static ein_status add_stage(graph *g, node *op, merge_kind kind, const char *const sources[MAX_STATES])
{
    row_stage *t = &op->stages[op->n_stages];
    merge *m;
    ein_dtype dtype = ein__dtype_compute(g->values.items[op->operands[0]].dtype);
    int n = op->spec.n_operands + ein__node_statistics(op, op->n_stages);
    TRY(ein__merge_make(&g->arena, kind, 1.0, dtype, &m));
    for (int k = 0; k < m->n_states; k++) {
        TRY(ein__expr_make(g, op->name, sources[k], n, 0, NULL, &t->body[k]));
        op->spec.flops += 1 + ein__expr_work(&t->body[k]);
    }
    t->merge = m;
    op->n_stages++;
    return EIN_OK;
}

#define STAGE(g, op, kind, ...) add_stage(g, op, kind, (const char *const[MAX_STATES]){__VA_ARGS__})

static ein_status finish_row(graph *g, node *op, const char *source, int n, const double *constants,
                             value *out)
{
    dims d = ein__dims(g, op->operands[0]);
    int statistics = ein__node_statistics(op, op->n_stages);
    TRY(ein__expr_make(g, op->name, source, op->spec.n_operands + statistics, n, constants, &op->body[0]));
    op->spec.flops += ein__expr_work(&op->body[0]);
    return ein__node_add(g, op, &d, NULL, out);
}

/* ---- softmax ---- */

/* A row of -inf alone gives NaN, as in PyTorch. */
static ein_status add_softmax(graph *g, const char *name, const char *source, value x, int axis, value *out)
{
    node op;
    TRY(ein__check_types(g, name, 1, &x, TYPE_FLOAT));
    TRY(ein__check_axis(g, name, g->values.items[x].rank, axis, &axis));
    TRY(start_row(g, &op, name, 1, &x, axis));
    TRY(STAGE(g, &op, MERGE_MAX, "x0"));
    TRY(STAGE(g, &op, MERGE_SUM, "exp(x0 - x1)"));
    return finish_row(g, &op, source, 0, NULL, out);
}

static ein_tensor softmax(ein_graph *g, const char *name, const char *source, ein_tensor x, int axis)
{
    if (!ein__call_begin(g, name, 1, &x)) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, name, add_softmax(&g->g, name, source, ein__value(x), axis, &out), &out);
}

ein_tensor ein__op_softmax(ein_graph *g, ein_tensor x, int axis)
{
    return softmax(g, "softmax", "exp(x0 - x1) / x2", x, axis);
}

ein_tensor ein__op_log_softmax(ein_graph *g, ein_tensor x, int axis)
{
    return softmax(g, "log_softmax", "x0 - x1 - log(x2)", x, axis);
}

/* ---- norms ---- */

/* x and its tables by name, those that are there: operands in this order. */
typedef struct norm {
    const char *name;
    int n;
    value operands[5];
    const char *what[5]; /* "weight" */
    int weight, bias;    /* which operand; -1: none */
} norm;

static int add_table(norm *m, const char *what, ein_tensor t)
{
    m->operands[m->n] = ein__value(t);
    m->what[m->n] = what;
    return m->n++;
}

static norm norm_make(const char *name, ein_tensor x, ein_tensor weight, ein_tensor bias)
{
    norm m = {.name = name, .weight = -1, .bias = -1};
    add_table(&m, "x", x);
    if (weight.id != 0) m.weight = add_table(&m, "weight", weight);
    if (bias.id != 0) m.bias = add_table(&m, "bias", bias);
    return m;
}

static bool norm_begin(ein_graph *g, const char *name, ein_tensor x, ein_tensor weight, ein_tensor bias)
{
    ein_tensor operands[3] = {x};
    int n = 1;
    if (weight.id != 0) operands[n++] = weight;
    if (bias.id != 0) operands[n++] = bias;
    return ein__call_begin(g, name, n, operands);
}

/* Tables are of x's type, or f32 for bf16 and f16; one number for each index of `axis`. */
static ein_status check_norm(graph *g, const norm *m, int axis, double eps)
{
    dims x = ein__dims(g, m->operands[0]);
    ein_dtype dtype = g->values.items[m->operands[0]].dtype;
    TRY(ein__check_types(g, m->name, m->n, m->operands, TYPE_FLOAT));
    if (x.rank == 0) REFUSE(EIN_SHAPE, "%s: x is a scalar", m->name);
    if (x.rank <= axis) REFUSE(EIN_SHAPE, "%s: x %s has no axis %d", m->name, ein__dims_text(x).s, axis);
    if (!isfinite(eps) || eps < 0) REFUSE(EIN_INVALID, "%s: eps is %g", m->name, eps);
    if (axis < 0) axis += x.rank;
    for (int i = 1; i < m->n; i++) {
        dims d = ein__dims(g, m->operands[i]);
        ein_dtype own = g->values.items[m->operands[i]].dtype;
        if (own != dtype && (own != EIN_F32 || ein__dtype_compute(dtype) != EIN_F32))
            REFUSE(EIN_DTYPE, "%s: %s is %s, x %s", m->name, m->what[i], ein__dtype_name(own),
                   ein__dtype_name(dtype));
        if (d.rank != 1 || d.at[0] != x.at[axis])
            REFUSE(EIN_SHAPE, "%s: x %s and %s %s disagree on %s", m->name, ein__dims_text(x).s, m->what[i],
                   ein__dims_text(d).s, axis == x.rank - 1 ? "the last axis" : "axis 1");
    }
    return EIN_OK;
}

/* "normal * weight + bias", of those that are there. */
static const char *scaled(const norm *m, const char *normal, char *out, size_t room)
{
    size_t n = (size_t)snprintf(out, room, "%s", normal);
    if (m->weight >= 0) n += (size_t)snprintf(out + n, room - n, " * x%d", m->weight);
    if (m->bias >= 0) snprintf(out + n, room - n, " + x%d", m->bias);
    return out;
}

static ein_status add_rms_norm(graph *g, const norm *m, double eps, value *out)
{
    node op;
    dims d = ein__dims(g, m->operands[0]);
    TRY(check_norm(g, m, -1, eps));
    double constants[] = {(double)d.at[d.rank - 1], eps};
    TRY(start_row(g, &op, m->name, m->n, m->operands, d.rank - 1));
    TRY(STAGE(g, &op, MERGE_SUM, "x0 * x0"));
    if (m->n == 1) return finish_row(g, &op, "x0 * rsqrt(x1 / x2 + x3)", 2, constants, out);
    ein__term_label(&op.spec, &op.spec.operands[1], d.rank - 1);
    return finish_row(g, &op, "x0 * rsqrt(x2 / x3 + x4) * x1", 2, constants, out);
}

ein_tensor ein__op_rms_norm(ein_graph *g, ein_tensor x, ein_tensor weight, double eps)
{
    if (!norm_begin(g, "rms_norm", x, weight, (ein_tensor){0})) return (ein_tensor){0};
    norm m = norm_make("rms_norm", x, weight, (ein_tensor){0});
    value out = -1;
    return ein__call_end(g, m.name, add_rms_norm(&g->g, &m, eps, &out), &out);
}

/* Count, mean and sum of squared distances from it in one pass; then normalize, scale, shift. */
static ein_status finish_moments(graph *g, node *op, const norm *m, double eps, value *out)
{
    char normal[64], source[128];
    int n = m->n; /* the statistics follow the operands, eps them */
    TRY(STAGE(g, op, MERGE_WELFORD, "1", "x0", "0"));
    snprintf(normal, sizeof normal, "(x0 - x%d) * rsqrt(x%d / x%d + x%d)", n + 1, n + 2, n, n + 3);
    return finish_row(g, op, scaled(m, normal, source, sizeof source), 1, &eps, out);
}

static ein_status add_layer_norm(graph *g, const norm *m, double eps, value *out)
{
    node op;
    TRY(check_norm(g, m, -1, eps));
    int last = g->values.items[m->operands[0]].rank - 1;
    TRY(start_row(g, &op, m->name, m->n, m->operands, last));
    for (int i = 1; i < m->n; i++) ein__term_label(&op.spec, &op.spec.operands[i], last);
    return finish_moments(g, &op, m, eps, out);
}

ein_tensor ein__op_layer_norm(ein_graph *g, ein_tensor x, ein_tensor weight, ein_tensor bias, double eps)
{
    if (!norm_begin(g, "layer_norm", x, weight, bias)) return (ein_tensor){0};
    norm m = norm_make("layer_norm", x, weight, bias);
    value out = -1;
    return ein__call_end(g, m.name, add_layer_norm(&g->g, &m, eps, &out), &out);
}

/* x [n, g * c, s..] as terms n, g, c, s: a row is c x s. */
static ein_status add_group_norm(graph *g, const norm *m, i64 groups, double eps, value *out)
{
    node op;
    dims d = ein__dims(g, m->operands[0]);
    TRY(check_norm(g, m, 1, eps));
    if (groups < 1 || d.at[1] % groups != 0)
        REFUSE(EIN_SHAPE, "group_norm: %" PRId64 " channels of %s in %" PRId64 " groups", d.at[1],
               ein__dims_text(d).s, groups);
    i64 positions = 1;
    for (int i = 2; i < d.rank; i++) positions *= d.at[i];
    TRY(ein__node_start(g, &op, OP_ROW, m->name, m->n, m->operands));
    spec *s = &op.spec;
    ein__label_add(s, "n", d.at[0]);
    int group = ein__label_add(s, "g", groups), channel = ein__label_add(s, "c", d.at[1] / groups);
    s->two_step = 1u << channel;
    if (d.rank > 2) s->two_step |= 1u << ein__label_add(s, "s", positions);
    ein__term_labels(s, &s->operands[0], 0, s->n_labels);
    ein__term_labels(s, &s->results[0], 0, s->n_labels);
    for (int i = 1; i < m->n; i++) ein__term_labels(s, &s->operands[i], group, 2);
    return finish_moments(g, &op, m, eps, out);
}

ein_tensor ein__op_group_norm(ein_graph *g, ein_tensor x, int64_t groups, ein_tensor weight, ein_tensor bias, double eps)
{
    if (!norm_begin(g, "group_norm", x, weight, bias)) return (ein_tensor){0};
    norm m = norm_make("group_norm", x, weight, bias);
    value out = -1;
    return ein__call_end(g, m.name, add_group_norm(&g->g, &m, groups, eps, &out), &out);
}

/* Nothing is computed across elements here: an elementwise node, whose tables lie along axis 1. */
static ein_status add_batch_norm(graph *g, const norm *m, double eps, value *out)
{
    node op;
    char normal[64], source[128];
    dims d = ein__dims(g, m->operands[0]);
    TRY(check_norm(g, m, 1, eps));
    TRY(ein__node_start(g, &op, OP_MAP, m->name, m->n, m->operands));
    spec *s = &op.spec;
    ein__label_dims(s, 'd', &d);
    ein__term_labels(s, &s->operands[0], 0, d.rank);
    ein__term_labels(s, &s->results[0], 0, d.rank);
    for (int i = 1; i < m->n; i++) ein__term_label(s, &s->operands[i], 1);
    snprintf(normal, sizeof normal, "(x0 - x%d) * rsqrt(x%d + x%d)", m->n - 2, m->n - 1, m->n);
    TRY(ein__expr_make(g, m->name, scaled(m, normal, source, sizeof source), m->n, 1, &eps, &op.body[0]));
    s->flops = ein__expr_work(&op.body[0]);
    return ein__node_add(g, &op, &d, NULL, out);
}

ein_tensor ein__op_batch_norm(ein_graph *g, ein_tensor x, ein_tensor mean, ein_tensor variance, ein_tensor weight,
                          ein_tensor bias, double eps)
{
    bool ready = norm_begin(g, "batch_norm", x, weight, bias);
    if (!ready || !ein__call_begin(g, "batch_norm", 2, (ein_tensor[]){mean, variance})) return (ein_tensor){0};
    norm m = norm_make("batch_norm", x, weight, bias);
    add_table(&m, "mean", mean);
    add_table(&m, "variance", variance);
    value out = -1;
    return ein__call_end(g, m.name, add_batch_norm(&g->g, &m, eps, &out), &out);
}
