/* SPDX-License-Identifier: Apache-2.0 */
/* Pools: the largest or the mean of every window. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/graph/window.h"

typedef struct pool {
    const char *name;
    int n; /* pooled dimensions, the last ones */
    window w[2];
    bool exclude; /* padding is not counted */
} pool;

static ein_status check_padding(graph *g, const char *name, const window *w)
{
    i64 span = w->dilation * (w->kernel - 1) + 1, after = w->after - w->excess;
    if (w->before <= span / 2 && after <= span / 2) return EIN_OK;
    REFUSE(EIN_INVALID, "%s: padding of %" PRId64 " and %" PRId64 " is more than half of windows of %" PRId64, name,
           w->before, after, span);
}

static ein_status make_pool(graph *g, pool *p, const dims *x, const ein_pool_options *o)
{
    if (o == NULL) REFUSE(EIN_INVALID, "%s: options is NULL", p->name);
    if (o->size < sizeof *o) REFUSE(EIN_INVALID, "%s: options.size is %zu", p->name, o->size);
    p->n = o->kernel[1] == 0 ? 1 : 2;
    p->exclude = o->exclude_padding != 0;
    if (x->rank < p->n)
        REFUSE(EIN_SHAPE, "%s: x %s has rank %d; at least %d", p->name, ein__dims_text(*x).s, x->rank, p->n);
    for (int i = 0; i < p->n; i++) {
        window *w = &p->w[i];
        int dimension = x->rank - p->n + i;
        *w = (window){.in = x->at[dimension], .kernel = o->kernel[i], .stride = o->stride[i],
                      .dilation = o->dilation[i], .before = o->padding[i], .after = o->padding_end[i]};
        if (w->stride == 0) w->stride = w->kernel;
        if (w->dilation == 0) w->dilation = 1;
        TRY(ein__window_make(g, p->name, dimension, o->ceil_mode != 0, w));
        TRY(check_padding(g, p->name, w));
    }
    return EIN_OK;
}

/* The node: labels of the result, then the places in a window, which `kind` merges. */
static ein_status add_pool(graph *g, const pool *p, value x, merge_kind kind, double scale, ein_dtype dtype,
                           value *out)
{
    static const char *const places[] = {"r", "s"};
    node op;
    merge *m;
    dims result = ein__dims(g, x);
    int first = result.rank - p->n;
    for (int i = 0; i < p->n; i++) result.at[first + i] = p->w[i].out;
    TRY(ein__node_start(g, &op, OP_MAP, p->name, 1, &x));
    spec *s = &op.spec;
    ein__label_dims(s, 'd', &result);
    ein__term_labels(s, &s->operands[0], 0, first);
    for (int i = 0; i < p->n; i++) {
        int place = ein__label_add(s, places[2 - p->n + i], p->w[i].kernel);
        ein__window_terms(s, &s->operands[0], &p->w[i], first + i, place);
    }
    ein__term_labels(s, &s->results[0], 0, result.rank);
    TRY(ein__expr_make(g, p->name, "x0", 1, 0, NULL, &op.body[0]));
    TRY(ein__merge_make(&g->arena, kind, scale, dtype, &m));
    s->merge = m;
    s->n_states = 1;
    s->states[0] = s->results[0];
    s->flops = 1;
    return ein__node_add(g, &op, &result, &dtype, out);
}

/* ---- max ---- */

static ein_status add_max_pool(graph *g, value x, const ein_pool_options *options, value *out)
{
    pool p = {.name = "max_pool"};
    dims d = ein__dims(g, x);
    ein_dtype dtype = g->values.items[x].dtype;
    TRY(ein__check_types(g, p.name, 1, &x, TYPE_FLOAT | TYPE_INT));
    TRY(make_pool(g, &p, &d, options));
    TRY(ein__windows_pad(g, p.name, x, p.n, p.w, -INFINITY, &x)); /* an integer's least */
    return add_pool(g, &p, x, MERGE_MAX, 1, dtype, out);
}

ein_tensor ein__op_max_pool(ein_graph *g, ein_tensor x, const ein_pool_options *options)
{
    if (!ein__call_begin(g, "max_pool", 1, &x)) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "max_pool", add_max_pool(&g->g, ein__value(x), options, &out), &out);
}

/* ---- mean ---- */

/* Every window has the same count. */
static bool uniform(const pool *p)
{
    bool same = true;
    for (int i = 0; i < p->n; i++)
        same = same && p->w[i].excess == 0 && (!p->exclude || (p->w[i].before == 0 && p->w[i].after == 0));
    return same;
}

/* Elements of window x<i + 1> between the places lo and hi of the dimension that count: of its places start + r *
 * dilation, those before hi less those before lo. */
static int print_count(const pool *p, int i, char *out, size_t room)
{
    const window *w = &p->w[i];
    i64 lo = p->exclude ? 0 : -w->before, hi = w->in + (p->exclude ? 0 : w->after - w->excess);
    i64 up = w->before + w->dilation - 1, step = w->stride, apart = w->dilation;
    return snprintf(out, room,
                    "%s(min(%" PRId64 ", floordiv(%" PRId64 " - x%d * %" PRId64 ", %" PRId64 "))"
                    " - max(0, floordiv(%" PRId64 " - x%d * %" PRId64 ", %" PRId64 ")))",
                    i == 0 ? "x0 / (" : " * ", w->kernel, hi + up, i + 1, step, apart, lo + up, i + 1, step, apart);
}

/* Sums, in f32 if x is narrower, divided by every window's own count. */
static ein_status add_counted(graph *g, const pool *p, value x, ein_dtype dtype, value *out)
{
    char expression[512];
    size_t at = 0;
    int indices[2], rank = g->values.items[x].rank;
    TRY(add_pool(g, p, x, MERGE_SUM, 1, ein__dtype_compute(dtype), out));
    for (int i = 0; i < p->n; i++) {
        indices[i] = rank - p->n + i;
        at += (size_t)print_count(p, i, expression + at, sizeof expression - at);
    }
    snprintf(expression + at, sizeof expression - at, ")");
    map_call c = {.name = "avg_pool counts", .expression = expression, .n = 1, .operands = out, .n_indices = p->n,
                  .indices = indices, .result = dtype};
    return ein__map_make(g, &c, out);
}

static ein_status add_avg_pool(graph *g, value x, const ein_pool_options *options, value *out)
{
    pool p = {.name = "avg_pool"};
    dims d = ein__dims(g, x);
    double places = 1;
    ein_dtype dtype = g->values.items[x].dtype;
    TRY(ein__check_types(g, p.name, 1, &x, TYPE_FLOAT));
    TRY(make_pool(g, &p, &d, options));
    for (int i = 0; i < p.n; i++) places *= (double)p.w[i].kernel;
    TRY(ein__windows_pad(g, p.name, x, p.n, p.w, 0, &x));
    if (uniform(&p)) return add_pool(g, &p, x, MERGE_SUM, 1 / places, dtype, out);
    return add_counted(g, &p, x, dtype, out);
}

ein_tensor ein__op_avg_pool(ein_graph *g, ein_tensor x, const ein_pool_options *options)
{
    if (!ein__call_begin(g, "avg_pool", 1, &x)) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "avg_pool", add_avg_pool(&g->g, ein__value(x), options, &out), &out);
}
