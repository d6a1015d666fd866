/* SPDX-License-Identifier: Apache-2.0 */
/* Give a program its parameters and constants: place what is not placed yet, note every address. */
#include <string.h>

#include "core/graph/builder.h"
#include "jit/context.h"

const char *ein__leaf_name(const ein_program *p, const leaf *l, int m) { return p->leaf_names[l->members[m]]; }

/* "[6,5]" of a tensor or value. */
static dims_text shape_text(int rank, const i64 *shape)
{
    dims d = {.rank = rank};
    if (rank > 0) memcpy(d.at, shape, (size_t)rank * sizeof *shape);
    return ein__dims_text(d);
}

/* Floats of other types are converted while they are placed, once. */
static ein_status check_dtype(ein_dtype want, const placed_tensor *t, const char *name, error *e)
{
    if (t->placed && t->placed_dtype != want)
        return ein__fail(e, EIN_DTYPE, "parameter '%s' is placed as %s, for a program before; it is %s in the graph", name,
                         ein__dtype_name(t->placed_dtype), ein__dtype_name(want));
    if (t->placed || t->dtype == want || (ein__dtype_is_float(t->dtype) && ein__dtype_is_float(want))) return EIN_OK;
    return ein__fail(e, EIN_DTYPE, "parameter '%s' is %s in the store, %s in the graph", name, ein__dtype_name(t->dtype),
                     ein__dtype_name(want));
}

static ein_status check_parameter(const value_info *v, const placed_tensor *t, const char *name, error *e)
{
    TRY(check_dtype(v->dtype, t, name, e));
    bool same = t->rank == v->rank;
    for (int i = 0; same && i < t->rank; i++) same = t->shape[i] == v->shape[i];
    if (!same)
        return ein__fail(e, EIN_SHAPE, "parameter '%.80s' is %s in the store, %s in the graph", name,
                         shape_text(t->rank, t->shape).s, shape_text(v->rank, v->shape).s);
    return EIN_OK;
}

static ein_status missing(const ein_weights *w, const char *name, error *e)
{
    const stored_tensor *t = ein__weights_left_out(w, name);
    if (t == NULL) return ein__fail(e, EIN_INVALID, "parameter '%s' is not in the weight store", name);
    return ein__fail(e, EIN_DTYPE, "parameter '%s' is %s of rank %d in its file: not built, so left out", name, t->type, t->rank);
}

ein_status ein__weights_check(const ein_program *p, const ein_weights *w, error *e)
{
    for (int i = 0; i < p->graph.leaves.n; i++) {
        const leaf *l = &p->graph.leaves.items[i];
        for (int m = 0; l->kind == LEAF_PARAMETER && m < l->n_members; m++) {
            const char *name = ein__leaf_name(p, l, m);
            const placed_tensor *t = ein__tensor_find(&w->tensors, name);
            TRY(t != NULL ? check_parameter(&p->graph.values.items[l->value], t, name, e) : missing(w, name, e));
        }
    }
    return EIN_OK;
}

static void note_addresses(ein_program *p, int leaf_index, int member, const placed_tensor *t)
{
    leaf_pieces *x = &p->pieces[leaf_index];
    size_t n = (size_t)x->n_blocks * (size_t)p->program.n_devices;
    memcpy(x->address + (size_t)member * n, t->address, n * sizeof *t->address);
}

static ein_status bind_parameter(ein_program *p, int index, ein_weights *w, error *e)
{
    const leaf *l = &p->graph.leaves.items[index];
    for (int m = 0; m < l->n_members; m++) {
        placed_tensor *t = ein__tensor_find(&w->tensors, ein__leaf_name(p, l, m));
        ein_dtype dtype = p->graph.values.items[l->value].dtype;
        if (!t->placed) TRY(ein__tensor_place(p->context, &w->arena, t, dtype, &p->plan.leaves[index], e));
        note_addresses(p, index, m, t);
    }
    return EIN_OK;
}

static ein_status bind_constant(ein_program *p, int index, error *e)
{
    const leaf *l = &p->graph.leaves.items[index];
    const value_info *v = &p->graph.values.items[l->value];
    placed_tensor *t;
    NEW(&p->arena, t, 1);
    t->name = "";
    t->dtype = v->dtype;
    t->rank = v->rank;
    memcpy(t->shape, v->shape, sizeof t->shape);
    t->data = l->data;
    PUSH(&p->arena, &p->constants, t);
    TRY(ein__tensor_place(p->context, &p->arena, t, v->dtype, &p->plan.leaves[index], e));
    note_addresses(p, index, 0, t);
    return EIN_OK;
}

static ein_status note_blocks(ein_program *p, int index)
{
    const relation *r = &p->plan.leaves[index];
    i64 *bytes, size = ein__dtype_bytes(p->graph.values.items[p->graph.leaves.items[index].value].dtype);
    NEW(&p->arena, bytes, r->n_blocks);
    for (int b = 0; b < r->n_blocks; b++) bytes[b] = ein__block_numel(r, b) * size;
    p->pieces[index].n_blocks = r->n_blocks;
    p->pieces[index].block_bytes = bytes;
    return EIN_OK;
}

ein_status ein__program_bind(ein_program *p, ein_weights *weights, error *e)
{
    const graph *g = &p->graph;
    NEW(&p->arena, p->pieces, g->leaves.n);
    p->weights_bound = true;
    for (int i = 0; i < g->leaves.n; i++) {
        const leaf *l = &g->leaves.items[i];
        if (l->kind == LEAF_INPUT) continue;
        TRY(note_blocks(p, i));
        NEW(&p->arena, p->pieces[i].address, l->n_members * p->plan.leaves[i].n_blocks * p->program.n_devices);
        if (l->kind == LEAF_CONSTANT) TRY(bind_constant(p, i, e));
        if (l->kind == LEAF_PARAMETER && weights == NULL) p->weights_bound = false;
        if (l->kind == LEAF_PARAMETER && weights != NULL) TRY(bind_parameter(p, i, weights, e));
        ein__progress(p->context, "place", (double)(i + 1) / g->leaves.n);
    }
    return EIN_OK;
}
