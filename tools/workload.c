/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers come from the request, from a folder, or from seeded.c by the leaf's name. A program for decoding gets its
 * caches filled through the public API: a second graph over the same states, whose only work is to append the cached
 * rows. */
#include "tools/workload.h"

#include <math.h>
#include <string.h>

#include "tools/seeded.h"

enum { CACHE_AXIS = 2 };

size_t workload_bytes(const graph *g, value v)
{
    return (size_t)(ein__value_numel(g, v) * ein__dtype_bytes(g->values.items[v].dtype));
}

const char *workload_rows_name(arena *a, const char *state) { return ein__arena_printf(a, "rows.%s", state); }

int workload_output(const workload *w, const char *name)
{
    const graph *g = &w->graph->g;
    for (int i = 0; i < g->outputs.n; i++) {
        if (strcmp(g->outputs.items[i].name, name) == 0) return i;
    }
    return -1;
}

/* ---- names and types of stored weights ------------------------------------------------------------- */

static const stored_tensor *find_stored(const checkpoint *c, const char *name)
{
    for (int i = 0; i < c->tensors.n; i++) {
        if (strcmp(c->tensors.items[i].name, name) == 0) return &c->tensors.items[i];
    }
    return NULL;
}

static int is_stored(const void *user, const char *name) { return find_stored(user, name) != NULL; }

static ein_status find_names(workload *w)
{
    const family *f = w->model.family;
    w->names.prefix = f->prefixes[0];
    if (w->model.folder == NULL) return EIN_OK;
    TRY(ein__checkpoint_open(&w->arena, w->model.folder, &w->stored, &w->error));
    w->names.stored = is_stored;
    w->names.user = &w->stored;
    for (int i = 0; f->probe != NULL && f->prefixes[i] != NULL; i++) {
        const char *name = ein__arena_printf(&w->arena, "%s%s", f->prefixes[i], f->probe);
        if (name == NULL) return EIN_NO_MEMORY;
        if (!is_stored(&w->stored, name)) continue;
        w->names.prefix = f->prefixes[i];
        break;
    }
    return EIN_OK;
}

const stored_tensor *workload_stored(const workload *w, const char *name) { return find_stored(&w->stored, name); }

/* Of the config's word, or of the first weight that is stored. */
static ein_dtype trained_dtype(const workload *w)
{
    static const struct { const char *word; ein_dtype dtype; } words[] = {
        {"float32", EIN_F32}, {"bfloat16", EIN_BF16}, {"float16", EIN_F16}, {"float64", EIN_F64}};
    const graph *g = &w->graph->g;
    for (int i = 0; i < g->leaves.n; i++) {
        const stored_tensor *t = workload_stored(w, g->leaves.items[i].name);
        if (g->leaves.items[i].kind == LEAF_PARAMETER && t != NULL) return t->dtype;
    }
    for (int i = 0; i < 4 && w->model.stored_dtype != NULL; i++) {
        if (strcmp(words[i].word, w->model.stored_dtype) == 0) return words[i].dtype;
    }
    return 0;
}

/* Whose weights these are, if not the folder's in their own type. */
static ein_status make_note(workload *w)
{
    if (w->model.family == &family_graph) return EIN_OK; /* has its own types */
    ein_dtype trained = trained_dtype(w), used = w->model.use.dtype;
    const char *word = trained != 0 ? ein__dtype_name(trained) : w->model.stored_dtype;
    bool differs = word != NULL && trained != used, seeded = w->model.from_files && w->model.folder == NULL;
    if (!differs && !seeded) return EIN_OK;
    w->note = differs ? ein__arena_printf(&w->arena, "%s: its weights are %s: computed in %s%s", w->name, word,
                                          ein__dtype_name(used), seeded ? " with seeded weights" : "")
                      : ein__arena_printf(&w->arena, "%s: computed with seeded weights", w->name);
    return w->note != NULL ? EIN_OK : EIN_NO_MEMORY;
}

/* ---- given inputs ---------------------------------------------------------------------------------------- */

static const char PIXELS[] = "pixel_values";

/* How many images there are, the file says. */
static ein_status open_given(workload *w)
{
    const char *path = w->request.input;
    const vit *m = &w->model.vit;
    if (path == NULL) return EIN_OK;
    TRY(ein__checkpoint_open(&w->arena, path, &w->given, &w->error));
    if (w->model.family != &family_vit) return EIN_OK;
    const stored_tensor *t = find_stored(&w->given, PIXELS);
    const char *file = ein__arena_strdup(&w->arena, ein__excerpt_last(path, 80).s);
    if (file == NULL) return EIN_NO_MEMORY;
    if (t == NULL) return ein__fail(&w->error, EIN_INVALID, "%s: no tensor '%s'", file, PIXELS);
    if (!ein__stored_readable(t) || !ein__dtype_is_float(t->dtype))
        return ein__fail(&w->error, EIN_DTYPE, "%s: '%s' is %s, wanted numbers of a floating-point type", file, PIXELS, t->type);
    if (t->rank != 4 || t->shape[0] < 1 || t->shape[1] != m->channels || t->shape[2] != m->image || t->shape[3] != m->image)
        return ein__fail(&w->error, EIN_SHAPE, "%s: '%s' has %d dimensions or the wrong ones, wanted [n,%lld,%lld,%lld]", file,
                         PIXELS, t->rank, (long long)m->channels, (long long)m->image, (long long)m->image);
    w->model.use.batch = t->shape[0];
    return EIN_OK;
}

/* An input from the file: of the leaf's shape, a float for a float. */
static ein_status fill_given(workload *w, int i, const stored_tensor *t)
{
    const leaf *l = &w->graph->g.leaves.items[i];
    const value_info *v = &w->graph->g.values.items[l->value];
    i64 n = ein__value_numel(&w->graph->g, l->value);
    bool same = t->rank == v->rank && memcmp(t->shape, v->shape, (size_t)v->rank * sizeof *t->shape) == 0;
    if (!ein__stored_readable(t) || ein__dtype_is_float(t->dtype) != ein__dtype_is_float(v->dtype))
        return ein__fail(&w->error, EIN_DTYPE, "%s: '%s' is %s, wanted %s", ein__excerpt_last(w->request.input, 60).s,
                         ein__excerpt_first(l->name, 40).s, t->type, ein__dtype_name(v->dtype));
    if (!same)
        return ein__fail(&w->error, EIN_SHAPE, "%s: '%s' has another shape than the model's input",
                         ein__excerpt_last(w->request.input, 60).s, ein__excerpt_first(l->name, 40).s);
    w->leaves[i] = ein__arena_get(&w->arena, (size_t)n, (size_t)ein__dtype_bytes(v->dtype));
    if (w->leaves[i] == NULL) return EIN_NO_MEMORY;
    ein__dtype_convert(v->dtype, w->leaves[i], t->dtype, t->data, n);
    return EIN_OK;
}

/* ---- graphs ---------------------------------------------------------------------------------------- */

static ein_status build(workload *w)
{
    if (ein_graph_create(&w->graph) != EIN_OK) return EIN_NO_MEMORY;
    ein_status status = model_build(&w->model, &w->names, w->graph);
    if (status == EIN_OK) return status;
    return ein__fail(&w->error, status, "%s: %s", w->name, ein_graph_error(w->graph));
}

static ein_status prime_state(workload *w, const leaf *l)
{
    const value_info *v = &w->graph->g.values.items[l->value];
    i64 shape[EIN_MAX_RANK];
    memcpy(shape, v->shape, sizeof shape);
    shape[CACHE_AXIS] = w->model.use.cached;
    const char *rows_name = workload_rows_name(&w->arena, l->name);
    const char *out_name = ein__arena_printf(&w->arena, "first.%s", l->name);
    if (rows_name == NULL || out_name == NULL) return EIN_NO_MEMORY;
    if (w->prime == NULL && ein_graph_create(&w->prime) != EIN_OK) return EIN_NO_MEMORY;
    ein_graph *g = w->prime;
    ein_scalar start = {0};
    ein_tensor state = ein_state_tensor(g, l->name, v->dtype, v->rank, v->shape);
    ein_tensor rows = ein_input(g, rows_name, v->dtype, v->rank, shape);
    ein_output(g, out_name,
               ein_slice(g, ein_state_append(g, state, rows, CACHE_AXIS, start), CACHE_AXIS, 0, 1));
    ein_status status = ein_graph_status(g);
    return status == EIN_OK ? status
                            : ein__fail(&w->error, status, "filling %s: %s", l->name, ein_graph_error(g));
}

static ein_status open_workload(workload *w, const char *source)
{
    TRY(model_parse(&w->arena, source, &w->model, &w->error));
    TRY(request_apply(&w->request, &w->model, &w->error));
    TRY(find_names(w));
    TRY(open_given(w));
    TRY(build(w));
    const graph *g = &w->graph->g;
    for (int i = 0; w->model.use.cached > 0 && i < g->leaves.n; i++) {
        if (g->leaves.items[i].kind == LEAF_STATE) TRY(prime_state(w, &g->leaves.items[i]));
    }
    return make_note(w);
}

ein_status workload_open(workload *w, const char *source, const request *r, progress *p)
{
    memset(w, 0, sizeof *w);
    w->name = source;
    w->progress = p;
    if (r != NULL) w->request = *r;
    ein_status status = open_workload(w, source);
    if (status != EIN_NO_MEMORY || w->error.line[0] != 0) return status;
    return ein__fail(&w->error, status, "out of memory");
}

/* ---- data ------------------------------------------------------------------------------------------ */

/* Normal numbers in the leaf's type. */
static ein_status seeded(workload *w, const char *name, ein_dtype dtype, float mean, float deviation, i64 n, void **out)
{
    arena scratch = {0};
    *out = ein__arena_get(&w->arena, (size_t)n, (size_t)ein__dtype_bytes(dtype));
    if (*out == NULL) return EIN_NO_MEMORY;
    float *numbers = dtype == EIN_F32 ? *out : ein__arena_get(&scratch, (size_t)n, sizeof *numbers);
    if (numbers != NULL) seeded_normal(name, mean, deviation, n, numbers);
    if (numbers != NULL && numbers != *out) ein__dtype_convert(dtype, *out, EIN_F32, numbers, n);
    ein__arena_free(&scratch);
    return numbers != NULL ? EIN_OK : EIN_NO_MEMORY;
}

/* The cached rows, and the whole state with those in front and zeros behind. */
static ein_status fill_state(workload *w, int i)
{
    const leaf *l = &w->graph->g.leaves.items[i];
    const value_info *v = &w->graph->g.values.items[l->value];
    char *rows, *state;
    NEW(&w->arena, state, (i64)workload_bytes(&w->graph->g, l->value));
    w->leaves[i] = state;
    if (w->model.use.cached == 0) return EIN_OK;
    i64 bytes = ein__dtype_bytes(v->dtype), blocks = v->shape[0] * v->shape[1];
    i64 cached = w->model.use.cached * v->shape[3], whole = v->shape[2] * v->shape[3];
    TRY(seeded(w, l->name, v->dtype, 0, 1, blocks * cached, &w->rows[i]));
    rows = w->rows[i];
    for (i64 b = 0; b < blocks; b++)
        memcpy(state + b * whole * bytes, rows + b * cached * bytes, (size_t)(cached * bytes));
    return EIN_OK;
}

/* Integers of an input below this are ids that every op which reads it knows. */
static i64 least_limit(const workload *w, value v)
{
    const graph *g = &w->graph->g;
    i64 limit = w->model.sizes.vocabulary > 0 ? w->model.sizes.vocabulary : 2;
    for (int i = 0, first = w->model.family == &family_graph; i < g->nodes.n; i++) {
        const node *n = &g->nodes.items[i];
        if (n->id_operand < 0 || ein__value_source(g, n->operands[n->id_operand]) != v) continue;
        i64 extent = n->spec.labels[n->id_label].extent;
        if (first || extent < limit) limit = extent;
        first = 0;
    }
    return limit < 1 ? 1 : limit > INT32_MAX ? INT32_MAX : limit;
}

static ein_status fill_integers(workload *w, int i, i64 n)
{
    const leaf *l = &w->graph->g.leaves.items[i];
    ein_dtype dtype = w->graph->g.values.items[l->value].dtype;
    int32_t *numbers;
    NEW(&w->arena, numbers, n);
    if (strcmp(l->name, "positions") == 0 && w->model.family != &family_graph) {
        for (i64 k = 0; k < n; k++) numbers[k] = (int32_t)(w->model.use.cached + k);
    } else if (w->request.tokens.n > 0) {
        memcpy(numbers, w->request.tokens.items, (size_t)n * sizeof *numbers);
    } else {
        i64 limit = dtype == EIN_I8 || dtype == EIN_BOOL ? 2 : least_limit(w, l->value);
        seeded_integers(l->name, (int32_t)limit, n, numbers);
    }
    w->leaves[i] = ein__arena_get(&w->arena, (size_t)n, (size_t)ein__dtype_bytes(dtype));
    if (w->leaves[i] == NULL) return EIN_NO_MEMORY;
    ein__dtype_convert(dtype, w->leaves[i], EIN_I32, numbers, n);
    return EIN_OK;
}

/* Weights of norms are about 1: those that scale by 1 + weight, about 0. */
static float mean_of(const workload *w, const leaf *l, const value_info *v)
{
    size_t n = strlen(l->name);
    bool scales = l->kind == LEAF_PARAMETER && v->rank == 1 && n > 7 && strcmp(l->name + n - 7, ".weight") == 0;
    return scales && !(w->model.family == &family_llama && w->model.llama.gemma) ? 1 : 0;
}

static ein_status fill_leaf(workload *w, int i)
{
    const graph *g = &w->graph->g;
    const leaf *l = &g->leaves.items[i];
    const value_info *v = &g->values.items[l->value];
    i64 n = ein__value_numel(g, l->value);
    if (l->kind == LEAF_CONSTANT || (l->kind == LEAF_PARAMETER && w->model.folder != NULL)) return EIN_OK;
    if (l->kind == LEAF_STATE) return fill_state(w, i);
    const stored_tensor *given = l->kind == LEAF_INPUT ? find_stored(&w->given, l->name) : NULL;
    if (given != NULL) return fill_given(w, i, given);
    if (!ein__dtype_is_float(v->dtype)) return fill_integers(w, i, n);
    float deviation = l->kind == LEAF_PARAMETER ? 0.02f : 1.0f;
    return seeded(w, l->name, v->dtype, mean_of(w, l, v), deviation, n, &w->leaves[i]);
}

static ein_status fill(workload *w)
{
    const graph *g = &w->graph->g;
    NEW(&w->arena, w->leaves, g->leaves.n);
    NEW(&w->arena, w->rows, g->leaves.n);
    NEW(&w->arena, w->scalars, g->scalars.n);
    for (int i = 0; i < g->scalars.n; i++) w->scalars[i] = model_scalar(&w->model, g->scalars.items[i]);
    for (int i = 0; i < g->leaves.n; i++) {
        progress_report(w->progress, "weights", (double)i / g->leaves.n);
        TRY(fill_leaf(w, i));
    }
    return EIN_OK;
}

ein_status workload_fill(workload *w)
{
    ein_status status = fill(w);
    if (status != EIN_NO_MEMORY) return status;
    return ein__fail(&w->error, status, "%s: its weights and inputs do not fit into memory", w->name);
}

void workload_close(workload *w)
{
    ein_graph_free(w->graph);
    ein_graph_free(w->prime);
    ein__checkpoint_close(&w->stored);
    ein__checkpoint_close(&w->given);
    ein__arena_free(&w->arena);
    ein__error_reset(&w->error);
}
