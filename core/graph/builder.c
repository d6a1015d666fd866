/* SPDX-License-Identifier: Apache-2.0 */
/* The builder's common part: graphs, leaves, outputs, the sticky first error, and the steps from a call to a
 * node. Nothing is built after the first error, so that an op never sees a half-made operand. */
#include "core/graph/builder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"

/* ---- graphs ---- */

ein_status ein_graph_create(ein_graph **out)
{
    if (out == NULL) return EIN_INVALID;
    *out = ein__calloc(1, sizeof **out);
    return *out != NULL ? EIN_OK : EIN_NO_MEMORY;
}

void ein_graph_free(ein_graph *g)
{
    if (g == NULL) return;
    ein__error_reset(&g->g.error);
    ein__arena_free(&g->g.arena);
    ein__free(g);
}

ein_status ein_graph_status(const ein_graph *g) { return g != NULL ? g->g.error.status : EIN_INVALID; }
const char *ein_graph_error(const ein_graph *g) { return g != NULL ? g->g.error.line : ""; }

i64 ein__value_numel(const graph *g, value v)
{
    i64 n = 1;
    for (int i = 0; i < g->values.items[v].rank; i++) n *= g->values.items[v].shape[i];
    return n;
}

dims ein__dims(const graph *g, value v)
{
    dims d = {.rank = g->values.items[v].rank};
    memcpy(d.at, g->values.items[v].shape, sizeof d.at);
    return d;
}

dims_text ein__dims_text(dims d)
{
    dims_text t = {"["};
    size_t n = 1;
    for (int i = 0; i < d.rank; i++)
        n += (size_t)snprintf(t.s + n, sizeof t.s - n, "%s%" PRId64, i > 0 ? "," : "", d.at[i]);
    snprintf(t.s + n, sizeof t.s - n, "]");
    return t;
}

/* ---- the frame of a call ---- */

bool ein__call_begin(ein_graph *g, const char *call, int n, const ein_tensor *operands)
{
    if (g == NULL || g->g.error.status != EIN_OK) return false;
    error *e = &g->g.error;
    if (n > MAX_CALL_OPERANDS) {
        ein__fail(e, EIN_UNSUPPORTED, "%s: %d operands; at most %d are built", call, n, MAX_CALL_OPERANDS);
        return false;
    }
    if (n < 1 || operands == NULL) {
        ein__fail(e, EIN_INVALID, "%s: %s", call, n < 1 ? "no operands" : "operands is NULL");
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (operands[i].id == 0) return false;
        if (operands[i].id <= (uint32_t)g->g.values.n) continue;
        ein__fail(e, EIN_INVALID, "%s: operand %d is not a tensor of this graph", call, i);
        return false;
    }
    return true;
}

ein_tensor ein__call_end(ein_graph *g, const char *call, ein_status status, const value *v)
{
    error *e = &g->g.error;
    if (status != EIN_OK && e->status == EIN_OK)
        ein__fail(e, status, "%s: %s", call, ein_status_name(status));
    return (ein_tensor){status == EIN_OK ? (uint32_t)(*v + 1) : 0};
}

ein_status ein__check_scalar(graph *g, const char *call, ein_scalar s, int *out)
{
    *out = (int)s.id - 1;
    if (s.id <= (uint32_t)g->scalars.n) return EIN_OK;
    REFUSE(EIN_INVALID, "%s: scalar %u is not a scalar of this graph", call, (unsigned)s.id);
}

static int type_class(ein_dtype d)
{
    if (d == EIN_F32) return TYPE_F32;
    if (ein__dtype_is_float(d)) return TYPE_FLOAT & ~TYPE_F32;
    return d == EIN_BOOL ? TYPE_BOOL : TYPE_INT;
}

static const char *class_name(int classes)
{
    if (classes == TYPE_F32) return "f32";
    if (classes == TYPE_FLOAT) return "a float";
    if (classes == (TYPE_FLOAT | TYPE_INT)) return "a number";
    return classes == TYPE_INT ? "an integer" : "of a type it takes";
}

ein_status ein__check_types(graph *g, const char *call, int n, const value *operands, int classes)
{
    for (int i = 0; i < n; i++) {
        ein_dtype d = g->values.items[operands[i]].dtype;
        if ((type_class(d) & classes) == 0)
            REFUSE(EIN_DTYPE, "%s: operand %d is %s, not %s", call, i, ein__dtype_name(d), class_name(classes));
    }
    return EIN_OK;
}

ein_status ein__check_same_type(graph *g, const char *call, int n, const value *operands)
{
    for (int i = 1; i < n; i++) {
        ein_dtype a = g->values.items[operands[0]].dtype, b = g->values.items[operands[i]].dtype;
        if (a != b)
            REFUSE(EIN_DTYPE, "%s: operands 0 and %d are %s and %s", call, i, ein__dtype_name(a), ein__dtype_name(b));
    }
    return EIN_OK;
}

ein_dtype ein__promote(const graph *g, int n, const value *operands)
{
    static const int rank[] = {[EIN_BOOL] = 0, [EIN_I8] = 1, [EIN_I32] = 2, [EIN_I64] = 3, [EIN_BF16] = 4,
                               [EIN_F16] = 4, [EIN_F32] = 5, [EIN_F64] = 6};
    ein_dtype best = g->values.items[operands[0]].dtype;
    for (int i = 1; i < n; i++) {
        ein_dtype d = g->values.items[operands[i]].dtype;
        if (rank[d] > rank[best]) best = d;
        else if (rank[d] == rank[best] && d != best) best = EIN_F32; /* bf16 and f16 */
    }
    return best;
}

ein_status ein__check_rank(graph *g, const char *call, const char *what, value v, int rank)
{
    dims d = ein__dims(g, v);
    if (d.rank == rank) return EIN_OK;
    REFUSE(EIN_SHAPE, "%s: %s %s has rank %d, not %d", call, what, ein__dims_text(d).s, d.rank, rank);
}

/* Zero extents do not hide an overflow: products of parts of a shape must fit too. */
ein_status ein__check_dims(graph *g, const char *call, const dims *d)
{
    const i64 most = (i64)1 << 40;
    if (d->rank < 0 || d->rank > EIN_MAX_RANK)
        REFUSE(EIN_SHAPE, "%s: rank %d; 0 to %d are allowed", call, d->rank, EIN_MAX_RANK);
    i64 n = 1;
    for (int i = 0; i < d->rank; i++) {
        if (d->at[i] < 0)
            REFUSE(EIN_SHAPE, "%s: extent %" PRId64 " of axis %d is negative", call, d->at[i], i);
        i64 extent = d->at[i] > 0 ? d->at[i] : 1;
        if (extent > most / n)
            REFUSE(EIN_SHAPE, "%s: %s has more than 2^40 elements", call, ein__dims_text(*d).s);
        n *= extent;
    }
    return EIN_OK;
}

ein_status ein__check_axis(graph *g, const char *call, int rank, int axis, int *out)
{
    if (axis < -rank || axis >= rank)
        REFUSE(EIN_INVALID, "%s: axis %d of a tensor of rank %d", call, axis, rank);
    *out = axis < 0 ? axis + rank : axis;
    return EIN_OK;
}

ein_status ein__broadcast(graph *g, const char *call, int n, const dims *shapes, dims *out)
{
    *out = shapes[0];
    for (int k = 1; k < n; k++) {
        dims a = *out, b = shapes[k];
        out->rank = a.rank > b.rank ? a.rank : b.rank;
        for (int i = 1; i <= out->rank; i++) { /* from the end */
            i64 x = i <= a.rank ? a.at[a.rank - i] : 1, y = i <= b.rank ? b.at[b.rank - i] : 1;
            if (x != y && x != 1 && y != 1)
                REFUSE(EIN_SHAPE, "%s: %s and %s do not broadcast: %" PRId64 " and %" PRId64 " on axis %d",
                       call, ein__dims_text(a).s, ein__dims_text(b).s, x, y, -i);
            out->at[out->rank - i] = x == 1 ? y : x;
        }
    }
    return EIN_OK;
}

ein_status ein__expr_make(graph *g, const char *call, const char *source, int n, int n_constants,
                          const double *constants, expr *out)
{
    error local = {0};
    ein_status status = ein__expr_parse(&g->arena, source, "x", n + n_constants, NULL, 0, out, &local);
    if (status != EIN_OK) {
        if (status != EIN_NO_MEMORY) ein__fail(&g->error, status, "%s: %s", call, local.line);
        ein__error_reset(&local);
        return status;
    }
    for (int i = 0; i < out->n; i++) {
        expr_node *x = &out->nodes[i];
        if (x->op != X_ARG || x->a < n) continue;
        *x = (expr_node){.op = X_CONST, .value = constants[x->a - n]};
    }
    return EIN_OK;
}

/* ---- steps of a node ---- */

ein_status ein__node_start(graph *g, node *n, op_kind kind, const char *name, int n_operands,
                           const value *operands)
{
    memset(n, 0, sizeof *n);
    n->kind = kind;
    n->name = name;
    n->attention.position = n->attention.length = n->scalar = n->append_t = n->append_s = -1;
    n->id_operand = n->id_label = -1;
    n->spec.n_operands = n_operands;
    n->spec.n_results = 1;
    NEW(&g->arena, n->operands, n_operands);
    NEW(&g->arena, n->spec.operands, n_operands);
    if (n_operands > 0) memcpy(n->operands, operands, (size_t)n_operands * sizeof *operands);
    return EIN_OK;
}

int ein__label_add(spec *s, const char *name, i64 extent)
{
    label *l = &s->labels[s->n_labels];
    snprintf(l->name, sizeof l->name, "%s", name);
    l->extent = extent;
    l->granule = 1;
    return s->n_labels++;
}

int ein__label_dims(spec *s, char stem, const dims *d)
{
    int first = s->n_labels;
    for (int i = 0; i < d->rank; i++) {
        char name[] = {stem, (char)('0' + i), 0};
        ein__label_add(s, name, d->at[i]);
    }
    return first;
}

static void add_term(index_map *m, term_kind kind, int l, i64 extent, i64 offset, int scalar)
{
    m->terms[m->n++] =
        (term){.kind = kind, .label = l, .extent = extent, .offset = offset, .scalar = scalar, .label2 = -1};
}

void ein__term_label(const spec *s, index_map *m, int l)
{
    add_term(m, TERM_LABEL, l, s->labels[l].extent, 0, -1);
}

void ein__term_labels(const spec *s, index_map *m, int first, int n)
{
    for (int i = 0; i < n; i++) ein__term_label(s, m, first + i);
}

void ein__term_range(const spec *s, index_map *m, int l, i64 extent, i64 offset)
{
    bool plain = offset == 0 && extent == s->labels[l].extent;
    add_term(m, plain ? TERM_LABEL : TERM_RANGE, l, extent, offset, -1);
}

void ein__term_fixed(index_map *m, i64 extent, i64 offset)
{
    add_term(m, TERM_FIXED, -1, extent, offset, -1);
}

void ein__term_all(index_map *m, int l, i64 extent, int scalar)
{
    add_term(m, TERM_ALL, l, extent, 0, scalar);
}

void ein__term_window(const spec *s, index_map *m, int l, i64 step, int l2, i64 step2, i64 extent, i64 offset)
{
    if (l2 >= 0 && s->labels[l].extent == 1) { /* one window: only the place in it matters */
        ein__term_window(s, m, l2, step2, -1, 0, extent, offset);
        return;
    }
    if (l2 >= 0 && s->labels[l2].extent == 1) l2 = -1;
    if (l2 < 0 && (step == 1 || s->labels[l].extent < 2)) {
        ein__term_range(s, m, l, extent, offset);
        return;
    }
    add_term(m, TERM_WINDOW, l, extent, offset, -1);
    term *t = &m->terms[m->n - 1];
    t->label2 = l2;
    t->step = step;
    t->step2 = l2 >= 0 ? step2 : 0;
}

void ein__term_broadcast(const spec *s, index_map *m, const dims *operand, const dims *result, int first)
{
    int skip = result->rank - operand->rank;
    for (int i = 0; i < operand->rank; i++) {
        if (operand->at[i] == result->at[skip + i]) ein__term_label(s, m, first + skip + i);
        else ein__term_fixed(m, 1, 0);
    }
}

static ein_status add_value(graph *g, value_kind kind, int owner, int result, ein_dtype dtype, const dims *d)
{
    value_info v = {.kind = kind, .owner = owner, .result = result, .dtype = dtype, .rank = d->rank};
    for (int i = 0; i < d->rank; i++) v.shape[i] = d->at[i];
    PUSH(&g->arena, &g->values, v);
    return EIN_OK;
}

ein_status ein__node_add(graph *g, node *n, const dims *results, const ein_dtype *types, value *out)
{
    spec *s = &n->spec;
    for (int r = 0; r < s->n_results; r++) TRY(ein__check_dims(g, n->name, &results[r]));
    if (s->merge == NULL) {
        s->n_states = s->n_results;
        memcpy(s->states, s->results, sizeof s->states);
    }
    TRY(ein__spec_check(s, &g->error));
    NEW(&g->arena, n->results, s->n_results);
    for (int r = 0; r < s->n_results; r++) {
        out[r] = n->results[r] = g->values.n;
        ein_dtype dtype = types != NULL ? types[r] : g->values.items[n->operands[0]].dtype;
        TRY(add_value(g, VALUE_RESULT, g->nodes.n, r, dtype, &results[r]));
    }
    PUSH(&g->arena, &g->nodes, *n);
    return EIN_OK;
}

ein_status ein__bound_add(graph *g, int scalar, i64 rows, i64 extent, const char *what)
{
    if (scalar < 0) return EIN_OK;
    scalar_bound b = {.scalar = scalar, .rows = rows, .extent = extent, .what = what};
    PUSH(&g->arena, &g->bounds, b);
    return EIN_OK;
}

/* ---- leaves and outputs ---- */

static const char *const kind_names[] = {"input", "parameter", "state", "constant"};

static ein_status check_dtype(graph *g, leaf_kind kind, const char *name, ein_dtype dtype)
{
    const char *what = kind_names[kind];
    if (!ein__dtype_built(dtype) && ein__dtype_name(dtype)[0] != '?')
        REFUSE(EIN_DTYPE, "%s '%.80s': %s is reserved, not built yet", what, name, ein__dtype_name(dtype));
    if (!ein__dtype_built(dtype))
        REFUSE(EIN_DTYPE, "%s '%.80s': %d is no dtype", what, name, (int)dtype);
    return EIN_OK;
}

static ein_status get_dims(graph *g, const char *what, int rank, const int64_t *shape, dims *out)
{
    *out = (dims){.rank = rank};
    if (rank > 0 && shape == NULL) REFUSE(EIN_INVALID, "%s: shape is NULL", what);
    for (int i = 0; i < rank && i < EIN_MAX_RANK; i++) out->at[i] = shape[i];
    return ein__check_dims(g, what, out);
}

static ein_status add_leaf(graph *g, leaf_kind kind, const char *name, const void *data, ein_dtype dtype,
                           const dims *d)
{
    leaf l = {.kind = kind, .value = g->values.n, .name = name, .data = data};
    TRY(add_value(g, VALUE_LEAF, g->leaves.n, 0, dtype, d));
    PUSH(&g->arena, &g->leaves, l);
    return EIN_OK;
}

static ein_status check_name(graph *g, const char *what, const char *name)
{
    if (name == NULL) REFUSE(EIN_INVALID, "%s: name is NULL", what);
    if (name[0] == 0) REFUSE(EIN_INVALID, "%s: name is empty", what);
    return EIN_OK;
}

static ein_status twice(graph *g, const char *what, const char *name)
{
    REFUSE(EIN_INVALID, "%s '%.80s' is declared twice", what, name);
}

static ein_status add_named(graph *g, leaf_kind kind, const char *name, ein_dtype dtype, int rank,
                            const int64_t *shape)
{
    TRY(check_name(g, kind_names[kind], name));
    for (int i = 0; i < g->leaves.n; i++)
        if (g->leaves.items[i].kind == kind && strcmp(g->leaves.items[i].name, name) == 0)
            return twice(g, kind_names[kind], name);
    TRY(check_dtype(g, kind, name, dtype));
    char what[112];
    snprintf(what, sizeof what, "%s '%.80s'", kind_names[kind], name);
    dims d;
    TRY(get_dims(g, what, rank, shape, &d));
    char *copy = ein__arena_strdup(&g->arena, name);
    if (copy == NULL) return EIN_NO_MEMORY;
    return add_leaf(g, kind, copy, NULL, dtype, &d);
}

static ein_tensor named(ein_graph *g, leaf_kind kind, const char *name, ein_dtype dtype, int rank,
                        const int64_t *shape)
{
    if (g == NULL || g->g.error.status != EIN_OK) return (ein_tensor){0};
    value v = g->g.values.n;
    return ein__call_end(g, kind_names[kind], add_named(&g->g, kind, name, dtype, rank, shape), &v);
}

ein_tensor ein__op_input(ein_graph *g, const char *name, ein_dtype dtype, int rank, const int64_t *shape)
{
    return named(g, LEAF_INPUT, name, dtype, rank, shape);
}

ein_tensor ein__op_parameter(ein_graph *g, const char *name, ein_dtype dtype, int rank, const int64_t *shape)
{
    return named(g, LEAF_PARAMETER, name, dtype, rank, shape);
}

ein_tensor ein__op_state_tensor(ein_graph *g, const char *name, ein_dtype dtype, int rank, const int64_t *shape)
{
    return named(g, LEAF_STATE, name, dtype, rank, shape);
}

static bool same_constant(const graph *g, const leaf *l, ein_dtype dtype, const dims *d, const void *data,
                          size_t bytes)
{
    const value_info *v = &g->values.items[l->value];
    if (l->kind != LEAF_CONSTANT || v->dtype != dtype || v->rank != d->rank) return false;
    for (int i = 0; i < d->rank; i++)
        if (v->shape[i] != d->at[i]) return false;
    return memcmp(l->data, data, bytes) == 0;
}

ein_status ein__constant_add(graph *g, ein_dtype dtype, const dims *d, const void *data, value *out)
{
    size_t bytes = (size_t)ein__dtype_bytes(dtype);
    for (int i = 0; i < d->rank; i++) bytes *= (size_t)d->at[i];
    for (int i = 0; i < g->leaves.n; i++) {
        if (bytes == 0 || !same_constant(g, &g->leaves.items[i], dtype, d, data, bytes)) continue;
        *out = g->leaves.items[i].value;
        return EIN_OK;
    }
    char *copy;
    NEW(&g->arena, copy, bytes);
    if (bytes > 0) memcpy(copy, data, bytes);
    *out = g->values.n;
    return add_leaf(g, LEAF_CONSTANT, "", copy, dtype, d);
}

ein_status ein__number_add(graph *g, ein_dtype dtype, double x, value *out)
{
    unsigned char bytes[8];
    dims scalar = {0};
    ein__dtype_write(dtype, x, bytes);
    return ein__constant_add(g, dtype, &scalar, bytes, out);
}

static ein_status add_constant(graph *g, ein_dtype dtype, int rank, const int64_t *shape, const void *data,
                               value *out)
{
    dims d;
    TRY(check_dtype(g, LEAF_CONSTANT, "", dtype));
    TRY(get_dims(g, "constant", rank, shape, &d));
    if (data == NULL) REFUSE(EIN_INVALID, "constant %s: data is NULL", ein__dims_text(d).s);
    return ein__constant_add(g, dtype, &d, data, out);
}

ein_tensor ein__op_constant(ein_graph *g, ein_dtype dtype, int rank, const int64_t *shape, const void *data)
{
    if (g == NULL || g->g.error.status != EIN_OK) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "constant", add_constant(&g->g, dtype, rank, shape, data, &out), &out);
}

static ein_status add_scalar(graph *g, const char *name)
{
    TRY(check_name(g, "scalar", name));
    for (int i = 0; i < g->scalars.n; i++)
        if (strcmp(g->scalars.items[i], name) == 0) return twice(g, "scalar", name);
    const char *copy = ein__arena_strdup(&g->arena, name);
    if (copy == NULL) return EIN_NO_MEMORY;
    PUSH(&g->arena, &g->scalars, copy);
    return EIN_OK;
}

ein_scalar ein__op_scalar_input(ein_graph *g, const char *name)
{
    if (g == NULL || g->g.error.status != EIN_OK) return (ein_scalar){0};
    value index = g->g.scalars.n;
    return (ein_scalar){ein__call_end(g, "scalar", add_scalar(&g->g, name), &index).id};
}

static ein_status add_output(graph *g, const char *name, ein_tensor x)
{
    TRY(check_name(g, "output", name));
    if (x.id == 0 || x.id > (uint32_t)g->values.n)
        REFUSE(EIN_INVALID, "output '%.80s' is not a tensor of this graph", name);
    for (int i = 0; i < g->outputs.n; i++)
        if (strcmp(g->outputs.items[i].name, name) == 0) return twice(g, "output", name);
    value v = ein__value(x);
    output o = {.name = ein__arena_strdup(&g->arena, name), .value = v};
    if (o.name == NULL) return EIN_NO_MEMORY;
    PUSH(&g->arena, &g->outputs, o);
    return EIN_OK;
}

void ein__op_output(ein_graph *g, const char *name, ein_tensor x)
{
    if (g == NULL || g->g.error.status != EIN_OK) return;
    ein__call_end(g, "output", add_output(&g->g, name, x), &(value){0});
}

int ein_tensor_shape(const ein_graph *g, ein_tensor x, int64_t *shape)
{
    if (g == NULL || x.id == 0 || x.id > (uint32_t)g->g.values.n) return 0;
    const value_info *v = &g->g.values.items[ein__value(x)];
    for (int i = 0; i < v->rank && shape != NULL; i++) shape[i] = v->shape[i];
    return v->rank;
}

ein_dtype ein_tensor_dtype(const ein_graph *g, ein_tensor x)
{
    bool known = g != NULL && x.id > 0 && (int)x.id <= g->g.values.n;
    return known ? g->g.values.items[ein__value(x)].dtype : 0;
}
