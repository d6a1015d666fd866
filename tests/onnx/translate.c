/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/onnx/translate.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/reference/reference.h"

typedef struct onnx_named { const char *name; ein_tensor x; } onnx_named;
typedef struct onnx_known { const char *name; onnx_numbers x; } onnx_known;

void onnx_skip(translation *t, const char *format, ...)
{
    va_list list;
    if (t->why[0] != 0) return;
    va_start(list, format);
    vsnprintf(t->why, sizeof t->why, format, list);
    va_end(list);
}

/* Memory of the case; tests have enough. */
static void *get(onnx_case *c, i64 n, size_t size)
{
    void *p = ein__arena_get(&c->a, (size_t)n + 1, size);
    if (p == NULL) abort();
    return p;
}

/* ---- values ------------------------------------------------------------------------------------------- */

static void set_value(translation *t, const char *name, ein_tensor x)
{
    if (ein__grow(&t->c->a, (void **)&t->values.items, t->values.n, &t->values.room, sizeof *t->values.items) != EIN_OK)
        abort();
    t->values.items[t->values.n++] = (onnx_named){name, x};
}

static int find_input(const onnx_case *c, const char *name)
{
    int i = 0;
    while (i < c->model.inputs.n && strcmp(c->model.inputs.items[i].name, name) != 0) i++;
    return i < c->model.inputs.n ? i : -1;
}

static const onnx_tensor *find_initializer(const onnx_case *c, const char *name)
{
    for (int i = 0; i < c->model.initializers.n; i++)
        if (strcmp(c->model.initializers.items[i].name, name) == 0) return &c->model.initializers.items[i];
    return NULL;
}

ein_tensor onnx_constant(translation *t, const onnx_tensor *x)
{
    if (onnx_dtype(x->type) == 0 || x->data == NULL) {
        onnx_skip(t, "type %s", onnx_type_name(x->type));
        return (ein_tensor){0};
    }
    return ein_constant(t->g, onnx_dtype(x->type), x->rank, x->shape, x->data);
}

static ein_tensor find_value(translation *t, const char *name)
{
    ein_tensor x = {0};
    for (int i = 0; i < t->values.n; i++)
        if (strcmp(t->values.items[i].name, name) == 0) return t->values.items[i].x;
    int input = find_input(t->c, name);
    const onnx_tensor *initializer = find_initializer(t->c, name);
    if (input >= 0) {
        const onnx_tensor *d = &t->c->inputs[input];
        char full[256];
        snprintf(full, sizeof full, "%s.%s", t->c->name, name);
        x = ein_input(t->g, full, onnx_dtype(d->type), d->rank, d->shape);
    } else if (initializer != NULL) {
        x = onnx_constant(t, initializer);
    } else {
        onnx_skip(t, "a value that no node makes");
    }
    set_value(t, name, x);
    return x;
}

bool onnx_has(const onnx_node *n, int input) { return input < n->inputs.n && n->inputs.items[input][0] != 0; }

ein_tensor onnx_input(translation *t, const onnx_node *n, int input)
{
    return onnx_has(n, input) ? find_value(t, n->inputs.items[input]) : (ein_tensor){0};
}

/* ---- numbers that are known while the graph is built -------------------------------------------------- */

static i64 truncate_double(double x)
{
    i64 out;
    ein__dtype_convert(EIN_I64, &out, EIN_F64, &x, 1);
    return out;
}

static onnx_numbers numbers_of_tensor(translation *t, const onnx_tensor *x)
{
    ein_dtype d = onnx_dtype(x->type);
    if (d == 0 || x->data == NULL) {
        onnx_skip(t, "type %s", onnx_type_name(x->type));
        return (onnx_numbers){0};
    }
    double *real = get(t->c, x->numel, sizeof *real);
    i64 *whole = get(t->c, x->numel, sizeof *whole);
    ein__dtype_convert(EIN_F64, real, d, x->data, x->numel);
    ein__dtype_convert(EIN_I64, whole, d, x->data, x->numel);
    return (onnx_numbers){(int)x->numel, real, whole};
}

static void run_nodes(translation *t, const char *until);

/* A graph of its own, with the nodes up to the one that makes the value, evaluated by the reference. */
static onnx_numbers evaluate(translation *t, const char *name)
{
    translation k = {.c = t->c};
    onnx_numbers out = {0};
    error e = {0};
    if (ein_graph_create(&k.g) != EIN_OK) abort();
    run_nodes(&k, name);
    ein_output(k.g, "value", find_value(&k, name));
    if (k.why[0] != 0) onnx_skip(t, "%s", k.why);
    const graph *g = &k.g->g;
    if (k.why[0] == 0 && g->error.status == EIN_OK) {
        const void **leaves = get(t->c, g->leaves.n, sizeof *leaves);
        for (int i = 0; i < g->leaves.n; i++) {
            const char *dot = strchr(g->leaves.items[i].name, '.');
            if (g->leaves.items[i].kind == LEAF_INPUT) leaves[i] = t->c->inputs[find_input(t->c, dot + 1)].data;
        }
        i64 n = ein__value_numel(g, g->outputs.items[0].value);
        double *real = get(t->c, n, sizeof *real);
        i64 *whole = get(t->c, n, sizeof *whole);
        reference_bindings b = {.leaves = leaves, .threads = 1};
        if (ein__reference_f64(g, &b, &real, &e) != EIN_OK) onnx_skip(t, "%s", e.line);
        for (i64 i = 0; i < n; i++) whole[i] = truncate_double(real[i]);
        out = (onnx_numbers){(int)n, real, whole};
    }
    ein__error_reset(&e);
    ein_graph_free(k.g);
    return out;
}

onnx_numbers onnx_known_input(translation *t, const onnx_node *n, int i)
{
    onnx_case *c = t->c;
    if (!onnx_has(n, i)) return (onnx_numbers){0};
    const char *name = n->inputs.items[i];
    for (int k = 0; k < c->known.n; k++)
        if (strcmp(c->known.items[k].name, name) == 0) return c->known.items[k].x;
    int input = find_input(c, name);
    onnx_numbers x = input >= 0 ? numbers_of_tensor(t, &c->inputs[input]) : evaluate(t, name);
    if (ein__grow(&c->a, (void **)&c->known.items, c->known.n, &c->known.room, sizeof *c->known.items) != EIN_OK)
        abort();
    c->known.items[c->known.n++] = (onnx_known){name, x};
    return x;
}

i64 onnx_known_int(translation *t, const onnx_node *n, int i, i64 otherwise)
{
    onnx_numbers x = onnx_known_input(t, n, i);
    return x.n > 0 ? x.whole[0] : otherwise;
}

/* ---- attributes --------------------------------------------------------------------------------------- */

const onnx_attribute *onnx_attr(const onnx_node *n, const char *name)
{
    for (int i = 0; i < n->attributes.n; i++)
        if (strcmp(n->attributes.items[i].name, name) == 0) return &n->attributes.items[i];
    return NULL;
}

i64 onnx_attr_int(const onnx_node *n, const char *name, i64 otherwise)
{
    const onnx_attribute *a = onnx_attr(n, name);
    return a != NULL ? a->i : otherwise;
}

double onnx_attr_float(const onnx_node *n, const char *name, double otherwise)
{
    const onnx_attribute *a = onnx_attr(n, name);
    return a != NULL ? a->f : otherwise;
}

const char *onnx_attr_string(const onnx_node *n, const char *name, const char *otherwise)
{
    const onnx_attribute *a = onnx_attr(n, name);
    return a != NULL && a->s != NULL ? a->s : otherwise;
}

/* ---- small steps -------------------------------------------------------------------------------------- */

int onnx_shape(const translation *t, ein_tensor x, i64 shape[EIN_MAX_RANK]) { return ein_tensor_shape(t->g, x, shape); }

int onnx_rank(const translation *t, ein_tensor x)
{
    i64 shape[EIN_MAX_RANK];
    return ein_tensor_shape(t->g, x, shape);
}

int onnx_axis(i64 axis, int rank) { return (int)(axis < 0 ? axis + rank : axis); }

ein_tensor onnx_move_axis(translation *t, ein_tensor x, int from, int to)
{
    int axes[EIN_MAX_RANK], rank = onnx_rank(t, x), n = 0;
    for (int i = 0; i < rank; i++) {
        if (n == to) axes[n++] = from;
        if (i != from) axes[n++] = i;
    }
    if (n == to) axes[n] = from;
    return from == to ? x : ein_permute(t->g, x, axes);
}

ein_tensor onnx_scalar(translation *t, ein_tensor like, double value)
{
    return ein_full(t->g, ein_tensor_dtype(t->g, like), 0, NULL, value);
}

ein_tensor onnx_positive_ids(translation *t, ein_tensor ids, i64 extent)
{
    ein_tensor n = onnx_scalar(t, ids, (double)extent);
    return ein_map(t->g, "where(x0 < 0, x0 + x1, x0)", 2, (ein_tensor[]){ids, n});
}

/* ---- the walk ----------------------------------------------------------------------------------------- */

static const onnx_op *find_op(const char *name)
{
    static const onnx_op *const tables[] = {onnx_ops_map,   onnx_ops_reduce, onnx_ops_move,
                                            onnx_ops_index, onnx_ops_nn,     onnx_ops_rnn};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const onnx_op *op = tables[i]; op->name != NULL; op++)
            if (strcmp(op->name, name) == 0) return op;
    return NULL;
}

static void make_node(translation *t, const onnx_node *n, const onnx_op *op, ein_tensor *out)
{
    ein_tensor x[EIN_MAX_RANK];
    if (op->make != NULL) {
        op->make(t, n, out);
    } else if (op->one != NULL) {
        out[0] = op->one(t->g, onnx_input(t, n, 0));
    } else if (op->two != NULL) {
        x[0] = onnx_input(t, n, 0);
        out[0] = op->two(t->g, x[0], onnx_input(t, n, 1));
    } else {
        for (int i = 0; i < n->inputs.n; i++) x[i] = onnx_input(t, n, i);
        out[0] = ein_map(t->g, op->expression, n->inputs.n, x);
    }
}

static void run_node(translation *t, const onnx_node *n)
{
    ein_tensor out[ONNX_MAX_OUTPUTS] = {{0}};
    const onnx_op *op = find_op(n->op);
    bool known = n->domain[0] == 0 || strcmp(n->domain, "ai.onnx.preview.training") == 0;
    if (op == NULL || !known) onnx_skip(t, "op %s", n->op);
    for (int i = 0; i < n->attributes.n; i++)
        if (n->attributes.items[i].subgraph) onnx_skip(t, "op %s", n->op);
    if (n->outputs.n > ONNX_MAX_OUTPUTS) onnx_skip(t, "%d outputs", n->outputs.n);
    if (t->why[0] != 0) return;
    make_node(t, n, op, out);
    t->c->loose = t->c->loose || op->loose;
    for (int i = 0; i < n->outputs.n; i++) {
        if (n->outputs.items[i][0] == 0) continue;
        if (out[i].id == 0 && ein_graph_status(t->g) == EIN_OK) onnx_skip(t, "output %d of %s", i, n->op);
        set_value(t, n->outputs.items[i], out[i]);
    }
}

/* All nodes, or those up to the one that makes the value `until`. */
static void run_nodes(translation *t, const char *until)
{
    for (int i = 0; i < t->c->model.nodes.n && t->why[0] == 0; i++) {
        const onnx_node *n = &t->c->model.nodes.items[i];
        run_node(t, n);
        for (int k = 0; until != NULL && k < n->outputs.n; k++)
            if (strcmp(n->outputs.items[k], until) == 0) return;
    }
}

bool onnx_translate(onnx_case *c, ein_graph *g, ein_tensor *outputs, char why[160])
{
    translation t = {.c = c, .g = g};
    run_nodes(&t, NULL);
    for (int i = 0; i < c->model.outputs.n && t.why[0] == 0; i++)
        outputs[i] = find_value(&t, c->model.outputs.items[i].name);
    memcpy(why, t.why, sizeof t.why);
    return t.why[0] == 0;
}
