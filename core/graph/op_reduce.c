/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions: the body is made of the element, the axes' labels are aggregated. An axis that is kept with extent 1
 * is a label of its own, of the result only. */
#include "core/graph/builder.h"

#include <math.h>

/* The result's type: x's; x's, but i64 for integers and bool; bool; i64. */
typedef enum result_type { AS_X, WIDE, TRUTH, INDEX } result_type;

typedef struct reduction {
    const char *name;
    merge_kind kind;
    int classes; /* of x */
    result_type type;
    bool mean;
    bool empty;     /* of no elements too */
    bool index;     /* bodies read the index along the axis, as x1 */
    const char *body[MAX_STATES], *alone; /* alone: where no axis is reduced, of a scalar */
} reduction;

static ein_status read_axes(graph *g, const char *call, int rank, int n, const int *axes, uint32_t *out)
{
    *out = n == 0 ? (1u << rank) - 1 : 0;
    if (n < 0 || n > rank) REFUSE(EIN_INVALID, "%s: %d axes of a tensor of rank %d", call, n, rank);
    if (n > 0 && axes == NULL) REFUSE(EIN_INVALID, "%s: axes is NULL", call);
    for (int i = 0; i < n; i++) {
        int axis;
        TRY(ein__check_axis(g, call, rank, axes[i], &axis));
        if (*out >> axis & 1) REFUSE(EIN_INVALID, "%s: axis %d is given twice", call, axes[i]);
        *out |= 1u << axis;
    }
    return EIN_OK;
}

/* Elements that go into one of the result. */
static i64 elements(const dims *d, uint32_t axes)
{
    i64 n = 1;
    for (int i = 0; i < d->rank; i++)
        if (axes >> i & 1) n *= d->at[i];
    return n;
}

static void add_result(spec *s, const dims *x, uint32_t axes, bool keep, dims *result)
{
    result->rank = 0;
    for (int i = 0; i < x->rank; i++) {
        bool gone = axes >> i & 1;
        if (gone && !keep) continue;
        result->at[result->rank++] = gone ? 1 : x->at[i];
        int l = gone ? ein__label_add(s, (char[]){'k', (char)('0' + i), 0}, 1) : i;
        ein__term_label(s, &s->results[0], l);
    }
}

static ein_dtype type_of(const reduction *r, ein_dtype x)
{
    switch (r->type) {
    case WIDE: return ein__dtype_is_float(x) ? x : EIN_I64;
    case TRUTH: return EIN_BOOL;
    case INDEX: return EIN_I64;
    default: return x;
    }
}

/* The merge is of the result's type; where that is an index, of x's. */
static ein_status add_merge(graph *g, node *op, const reduction *r, i64 count, ein_dtype dtype)
{
    merge *m;
    spec *s = &op->spec;
    double scale = !r->mean ? 1 : count > 0 ? 1.0 / (double)count : (double)NAN;
    TRY(ein__merge_make(&g->arena, r->kind, scale, dtype, &m));
    s->merge = m;
    s->n_states = m->n_states;
    for (int k = 0; k < s->n_states; k++) {
        s->states[k] = s->results[0];
        TRY(ein__expr_make(g, r->name, r->body[k], 1 + op->n_indices, 0, NULL, &op->body[k]));
        s->flops += 1 + ein__expr_work(&op->body[k]);
    }
    return EIN_OK;
}

static ein_status add_reduction(graph *g, const reduction *r, value x, int n, const int *axes, bool keep,
                                value *out)
{
    node op;
    uint32_t set;
    dims d = ein__dims(g, x), result;
    ein_dtype from = g->values.items[x].dtype, to = type_of(r, from);
    TRY(ein__check_types(g, r->name, 1, &x, r->classes));
    TRY(read_axes(g, r->name, d.rank, n, axes, &set));
    i64 count = elements(&d, set);
    if (count == 0 && !r->empty)
        REFUSE(EIN_SHAPE, "%s: no elements along the axes of %s", r->name, ein__dims_text(d).s);
    TRY(ein__node_start(g, &op, OP_MAP, r->name, 1, &x));
    spec *s = &op.spec;
    ein__label_dims(s, 'd', &d);
    ein__term_labels(s, &s->operands[0], 0, d.rank);
    add_result(s, &d, set, keep, &result);
    for (int i = 0; r->index && i < d.rank; i++)
        if (set >> i & 1) op.indices[op.n_indices++] = i;
    if (set != 0) TRY(add_merge(g, &op, r, count, r->type == INDEX ? from : to));
    else TRY(ein__expr_make(g, r->name, r->alone, 1, 0, NULL, &op.body[0]));
    return ein__node_add(g, &op, &result, &to, out);
}

static ein_tensor reduce(ein_graph *g, const reduction *r, ein_tensor x, int n, const int *axes, int keepdim)
{
    if (!ein__call_begin(g, r->name, 1, &x)) return (ein_tensor){0};
    value out = -1;
    ein_status status = add_reduction(&g->g, r, ein__value(x), n, axes, keepdim != 0, &out);
    return ein__call_end(g, r->name, status, &out);
}

static const reduction sum = {.name = "sum", .kind = MERGE_SUM, .classes = TYPE_ANY, .type = WIDE, .empty = true,
                              .body = {"x0"}, .alone = "x0"};
static const reduction mean = {.name = "mean", .kind = MERGE_SUM, .classes = TYPE_FLOAT, .mean = true,
                               .empty = true, .body = {"x0"}, .alone = "x0"};
static const reduction amax = {.name = "amax", .kind = MERGE_MAX, .classes = TYPE_ANY, .body = {"x0"},
                               .alone = "x0"};
static const reduction amin = {.name = "amin", .kind = MERGE_MIN, .classes = TYPE_ANY, .body = {"x0"},
                               .alone = "x0"};
static const reduction prod = {.name = "prod", .kind = MERGE_PROD, .classes = TYPE_ANY, .type = WIDE,
                               .empty = true, .body = {"x0"}, .alone = "x0"};
/* The largest and the smallest truth: of none false and true. */
static const reduction any = {.name = "any", .kind = MERGE_MAX, .classes = TYPE_ANY, .type = TRUTH, .empty = true,
                              .body = {"x0 != 0"}, .alone = "x0 != 0"};
static const reduction all = {.name = "all", .kind = MERGE_MIN, .classes = TYPE_ANY, .type = TRUTH, .empty = true,
                              .body = {"x0 != 0"}, .alone = "x0 != 0"};
static const reduction logsumexp = {.name = "logsumexp", .kind = MERGE_LOGSUMEXP, .classes = TYPE_FLOAT,
                                    .empty = true, .body = {"x0", "1"}, .alone = "x0"};
static const reduction argmax = {.name = "argmax", .kind = MERGE_ARGMAX, .classes = TYPE_ANY, .type = INDEX,
                                 .index = true, .body = {"x0", "x1"}};
static const reduction argmin = {.name = "argmin", .kind = MERGE_ARGMIN, .classes = TYPE_ANY, .type = INDEX,
                                 .index = true, .body = {"x0", "x1"}};

ein_tensor ein__op_sum(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim)
{
    return reduce(g, &sum, x, n, axes, keepdim);
}

ein_tensor ein__op_mean(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim)
{
    return reduce(g, &mean, x, n, axes, keepdim);
}

ein_tensor ein__op_amax(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim)
{
    return reduce(g, &amax, x, n, axes, keepdim);
}

ein_tensor ein__op_amin(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim)
{
    return reduce(g, &amin, x, n, axes, keepdim);
}

ein_tensor ein__op_prod(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim)
{
    return reduce(g, &prod, x, n, axes, keepdim);
}

ein_tensor ein__op_any(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim)
{
    return reduce(g, &any, x, n, axes, keepdim);
}

ein_tensor ein__op_all(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim)
{
    return reduce(g, &all, x, n, axes, keepdim);
}

ein_tensor ein__op_logsumexp(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim)
{
    return reduce(g, &logsumexp, x, n, axes, keepdim);
}

ein_tensor ein__op_argmax(ein_graph *g, ein_tensor x, int axis, int keepdim)
{
    return reduce(g, &argmax, x, 1, &axis, keepdim);
}

ein_tensor ein__op_argmin(ein_graph *g, ein_tensor x, int axis, int keepdim)
{
    return reduce(g, &argmin, x, 1, &axis, keepdim);
}
