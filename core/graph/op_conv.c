/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions: sums of products whose first operand is read by windows. x [n, g, c, oh * stride + r * dilation, ..],
 * weight [g, o, c, r, ..], result [n, g, o, oh, ..], summed over c, r, ..; padding is a concatenation before. */
#include <inttypes.h>

#include "core/graph/views.h"
#include "core/graph/window.h"

typedef struct conv {
    const char *name, *bias_name, *patches_name;
    int n; /* spatial dimensions */
    window w[2];
    i64 groups, batch, in, out; /* channels of a group */
} conv;

static ein_status read_options(graph *g, const conv *c, const ein_conv_options *given, ein_conv_options *o)
{
    *o = (ein_conv_options){.size = sizeof *o};
    if (given != NULL && given->size < sizeof *o) REFUSE(EIN_INVALID, "%s: options.size is %zu", c->name, given->size);
    if (given != NULL) *o = *given;
    for (int i = 0; i < c->n; i++) {
        if (o->stride[i] == 0) o->stride[i] = 1;
        if (o->dilation[i] == 0) o->dilation[i] = 1;
    }
    if (o->groups == 0) o->groups = 1;
    return EIN_OK;
}

static ein_status check_channels(graph *g, conv *c, const dims *x, const dims *w, i64 groups)
{
    if (groups < 1 || x->at[1] % groups != 0 || w->at[0] % groups != 0)
        REFUSE(EIN_SHAPE, "%s: %" PRId64 " groups of x %s and weight %s", c->name, groups, ein__dims_text(*x).s,
               ein__dims_text(*w).s);
    if (w->at[1] != x->at[1] / groups)
        REFUSE(EIN_SHAPE, "%s: x %s and weight %s disagree on channels of a group: %" PRId64 " and %" PRId64, c->name,
               ein__dims_text(*x).s, ein__dims_text(*w).s, x->at[1] / groups, w->at[1]);
    c->groups = groups;
    c->batch = x->at[0];
    c->in = w->at[1];
    c->out = w->at[0] / groups;
    return EIN_OK;
}

static ein_status make_conv(graph *g, conv *c, const value *operands, int n_operands, const ein_conv_options *given)
{
    ein_conv_options o;
    dims x = ein__dims(g, operands[0]), w = ein__dims(g, operands[1]);
    TRY(read_options(g, c, given, &o));
    TRY(ein__check_types(g, c->name, n_operands, operands, TYPE_FLOAT));
    TRY(ein__check_same_type(g, c->name, n_operands, operands));
    TRY(ein__check_rank(g, c->name, "x", operands[0], c->n + 2));
    TRY(ein__check_rank(g, c->name, "weight", operands[1], c->n + 2));
    TRY(check_channels(g, c, &x, &w, o.groups));
    for (int i = 0; i < c->n; i++) {
        c->w[i] = (window){.in = x.at[2 + i], .kernel = w.at[2 + i], .stride = o.stride[i], .dilation = o.dilation[i],
                           .before = o.padding[i], .after = o.padding_end[i]};
        TRY(ein__window_make(g, c->name, 2 + i, false, &c->w[i]));
    }
    return EIN_OK;
}

typedef struct conv_labels { int batch, group, out, windows[2], in, places[2]; } conv_labels;

static void add_windows(const conv *c, spec *s, conv_labels *l)
{
    static const char *const names[] = {"oh", "ow"};
    for (int i = 0; i < c->n; i++) l->windows[i] = ein__label_add(s, names[2 - c->n + i], c->w[i].out);
}

/* A dimension with one place in a window has no label for it. */
static void add_places(const conv *c, spec *s, conv_labels *l)
{
    static const char *const names[] = {"r", "s"};
    for (int i = 0; i < c->n; i++)
        l->places[i] = c->w[i].kernel == 1 ? -1 : ein__label_add(s, names[2 - c->n + i], c->w[i].kernel);
}

static conv_labels add_labels(const conv *c, spec *s)
{
    conv_labels l = {.batch = ein__label_add(s, "n", c->batch), .group = -1};
    if (c->groups > 1) l.group = ein__label_add(s, "g", c->groups);
    l.out = ein__label_add(s, "o", c->out);
    add_windows(c, s, &l);
    l.in = ein__label_add(s, "c", c->in);
    add_places(c, s, &l);
    return l;
}

static void add_label(const spec *s, index_map *m, int l)
{
    if (l >= 0) ein__term_label(s, m, l);
}

/* x by its windows, or moved into patches. */
static void add_image(const conv *c, const spec *s, index_map *x, const conv_labels *l, bool patches)
{
    add_label(s, x, l->batch);
    add_label(s, x, l->group);
    add_label(s, x, l->in);
    for (int i = 0; i < c->n; i++) {
        if (patches) add_label(s, x, l->places[i]);
        else ein__window_terms(s, x, &c->w[i], l->windows[i], l->places[i]);
    }
    if (patches) ein__term_labels(s, x, l->windows[0], c->n);
}

/* Patches, [n, g, c, r, s, oh, ow], put what is summed into one dimension, so that a matrix product can do it. That
 * pays for the move unless products are small, or no library does them, or windows that overlap make the patches
 * large. */
static bool makes_patches(const conv *c, ein_dtype dtype)
{
    const i64 most = (i64)1 << 25; /* elements */
    i64 places = 1, windows = 1;
    bool tiles = true;
    for (int i = 0; i < c->n; i++) {
        places *= c->w[i].kernel;
        windows *= c->w[i].out;
        tiles = tiles && ein__window_tiles(&c->w[i]);
    }
    i64 depth = c->in * places, all = c->batch * c->groups * windows;
    if (places == 1 || depth < 16 || c->out < 8 || dtype == EIN_F64) return false;
    return tiles || (all <= most && all * depth <= most);
}

static ein_status add_patches(graph *g, const conv *c, value *x)
{
    node op;
    dims result = {0};
    TRY(ein__node_start(g, &op, OP_MOVE, c->patches_name, 1, x));
    spec *s = &op.spec;
    conv_labels l = {.batch = ein__label_add(s, "n", c->batch), .group = -1, .places = {-1, -1}};
    if (c->groups > 1) l.group = ein__label_add(s, "g", c->groups);
    l.in = ein__label_add(s, "c", c->in);
    add_places(c, s, &l);
    add_windows(c, s, &l);
    add_image(c, s, &s->operands[0], &l, false);
    for (int i = 0; i < s->n_labels; i++) {
        result.at[result.rank++] = s->labels[i].extent;
        ein__term_label(s, &s->results[0], i);
    }
    return ein__node_add(g, &op, &result, NULL, x);
}

static void add_terms(const conv *c, spec *s, const conv_labels *l, bool patches)
{
    index_map *w = &s->operands[1], *y = &s->results[0];
    add_image(c, s, &s->operands[0], l, patches);
    add_label(s, w, l->group);
    add_label(s, w, l->out);
    add_label(s, w, l->in);
    for (int i = 0; i < c->n; i++) add_label(s, w, l->places[i]);
    add_label(s, y, l->batch);
    add_label(s, y, l->group);
    add_label(s, y, l->out);
    ein__term_labels(s, y, l->windows[0], c->n);
}

static ein_status add_product(graph *g, const conv *c, const value *operands, bool patches, value *out)
{
    node op;
    merge *m;
    dims result = {.rank = 2, .at = {c->batch, c->groups * c->out}};
    ein_dtype dtype = g->values.items[operands[0]].dtype;
    for (int i = 0; i < c->n; i++) result.at[result.rank++] = c->w[i].out;
    TRY(ein__node_start(g, &op, OP_MAP, c->name, 2, operands));
    spec *s = &op.spec;
    conv_labels l = add_labels(c, s);
    add_terms(c, s, &l, patches);
    TRY(ein__expr_make(g, c->name, "x0 * x1", 2, 0, NULL, &op.body[0]));
    TRY(ein__merge_make(&g->arena, MERGE_SUM, 1, dtype, &m));
    s->merge = m;
    s->n_states = 1;
    s->states[0] = s->results[0];
    s->flops = 2;
    op.product = true;
    return ein__node_add(g, &op, &result, &dtype, out);
}

/* Added once, after the sum, and never to a partial. */
static ein_status add_bias(graph *g, const conv *c, value bias, value *out)
{
    dims d = ein__dims(g, bias), column = {.rank = c->n + 1, .at = {c->groups * c->out}};
    if (d.rank != 1 || d.at[0] != column.at[0])
        REFUSE(EIN_SHAPE, "%s: bias %s for %" PRId64 " channels", c->name, ein__dims_text(d).s, column.at[0]);
    for (int i = 1; i < column.rank; i++) column.at[i] = 1;
    TRY(ein__reshape_add(g, c->bias_name, bias, &column, &bias));
    return ein__map_add(g, c->bias_name, "x0 + x1", 2, (value[]){*out, bias}, 0, out);
}

static ein_status add_conv(graph *g, conv *c, const value *operands, int n_operands, const ein_conv_options *options,
                           value *out)
{
    value x = operands[0];
    TRY(make_conv(g, c, operands, n_operands, options));
    TRY(ein__windows_pad(g, c->name, x, c->n, c->w, 0, &x));
    bool patches = makes_patches(c, g->values.items[x].dtype);
    if (patches) TRY(add_patches(g, c, &x));
    TRY(add_product(g, c, (value[]){x, operands[1]}, patches, out));
    return n_operands > 2 ? add_bias(g, c, operands[2], out) : EIN_OK;
}

static ein_tensor call_conv(ein_graph *g, conv c, ein_tensor x, ein_tensor weight, ein_tensor bias,
                            const ein_conv_options *options)
{
    ein_tensor operands[] = {x, weight, bias};
    int n = bias.id != 0 ? 3 : 2;
    if (!ein__call_begin(g, c.name, n, operands)) return (ein_tensor){0};
    value v[] = {ein__value(x), ein__value(weight), ein__value(bias)}, out = -1;
    return ein__call_end(g, c.name, add_conv(&g->g, &c, v, n, options, &out), &out);
}

ein_tensor ein__op_conv1d(ein_graph *g, ein_tensor x, ein_tensor weight, ein_tensor bias, const ein_conv_options *options)
{
    conv c = {.name = "conv1d", .bias_name = "conv1d bias", .patches_name = "conv1d patches", .n = 1};
    return call_conv(g, c, x, weight, bias, options);
}

ein_tensor ein__op_conv2d(ein_graph *g, ein_tensor x, ein_tensor weight, ein_tensor bias, const ein_conv_options *options)
{
    conv c = {.name = "conv2d", .bias_name = "conv2d bias", .patches_name = "conv2d patches", .n = 2};
    return call_conv(g, c, x, weight, bias, options);
}
