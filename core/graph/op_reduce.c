/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions: the body is the element, the axes' labels are aggregated. An axis that is kept with extent 1 is
 * a label of its own, of the result only. */
#include "core/graph/builder.h"

#include <math.h>

typedef struct reduction {
    const char *name;
    merge_kind kind;
    bool mean;
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

static ein_status add_reduction(graph *g, const reduction *r, value x, int n, const int *axes, bool keep,
                                value *out)
{
    node op;
    merge *m;
    uint32_t set;
    dims d = ein__dims(g, x), result;
    TRY(ein__check_types(g, r->name, 1, &x, TYPE_F32));
    TRY(read_axes(g, r->name, d.rank, n, axes, &set));
    i64 count = elements(&d, set);
    if (count == 0 && r->kind != MERGE_SUM)
        REFUSE(EIN_SHAPE, "%s: no elements along the axes of %s", r->name, ein__dims_text(d).s);
    TRY(ein__node_start(g, &op, OP_MAP, r->name, 1, &x));
    spec *s = &op.spec;
    ein__label_dims(s, 'd', &d);
    ein__term_labels(s, &s->operands[0], 0, d.rank);
    add_result(s, &d, set, keep, &result);
    TRY(ein__expr_make(g, r->name, "x0", 1, 0, NULL, &op.body[0]));
    s->flops = 1;
    if (set != 0) { /* else a scalar: nothing to merge */
        double scale = !r->mean ? 1 : count > 0 ? 1.0 / (double)count : (double)NAN;
        TRY(ein__merge_make(&g->arena, r->kind, scale, &m));
        s->merge = m;
        s->n_states = 1;
        s->states[0] = s->results[0];
    }
    return ein__node_add(g, &op, &result, NULL, out);
}

static ein_tensor reduce(ein_graph *g, reduction r, ein_tensor x, int n, const int *axes, int keepdim)
{
    if (!ein__call_begin(g, r.name, 1, &x)) return (ein_tensor){0};
    value out = -1;
    ein_status status = add_reduction(&g->g, &r, ein__value(x), n, axes, keepdim != 0, &out);
    return ein__call_end(g, r.name, status, &out);
}

ein_tensor ein_sum(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim)
{
    return reduce(g, (reduction){"sum", MERGE_SUM, false}, x, n, axes, keepdim);
}

ein_tensor ein_mean(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim)
{
    return reduce(g, (reduction){"mean", MERGE_SUM, true}, x, n, axes, keepdim);
}

ein_tensor ein_amax(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim)
{
    return reduce(g, (reduction){"amax", MERGE_MAX, false}, x, n, axes, keepdim);
}

ein_tensor ein_amin(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim)
{
    return reduce(g, (reduction){"amin", MERGE_MIN, false}, x, n, axes, keepdim);
}
