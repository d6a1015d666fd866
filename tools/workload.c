/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers come from seeded.c by the leaf's name. A program for decoding gets its caches filled through the
 * public API: a second graph over the same states, whose only work is to append the cached rows. */
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

static ein_status build(workload *w)
{
    if (ein_graph_create(&w->graph) != EIN_OK) return EIN_NO_MEMORY;
    ein_status status = model_build(&w->model, w->graph);
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

ein_status workload_open(workload *w, const char *source, progress *p)
{
    memset(w, 0, sizeof *w);
    w->name = source;
    w->progress = p;
    TRY(model_parse(&w->arena, source, &w->model, &w->error));
    TRY(build(w));
    const graph *g = &w->graph->g;
    for (int i = 0; i < g->leaves.n; i++) {
        if (g->leaves.items[i].kind == LEAF_STATE) TRY(prime_state(w, &g->leaves.items[i]));
    }
    return EIN_OK;
}

/* The cached rows, and the whole cache with those in front and zeros behind. */
static ein_status fill_state(workload *w, int i)
{
    const leaf *l = &w->graph->g.leaves.items[i];
    const value_info *v = &w->graph->g.values.items[l->value];
    i64 blocks = v->shape[0] * v->shape[1], cached = w->model.use.cached * v->shape[3];
    i64 whole = v->shape[2] * v->shape[3];
    float *rows, *state;
    NEW(&w->arena, rows, blocks * cached);
    NEW(&w->arena, state, blocks * whole);
    seeded_normal(l->name, 0, 1, blocks * cached, rows);
    for (i64 b = 0; b < blocks; b++)
        memcpy(state + b * whole, rows + b * cached, (size_t)cached * sizeof *rows);
    w->rows[i] = rows;
    w->leaves[i] = state;
    return EIN_OK;
}

static ein_status fill_leaf(workload *w, int i)
{
    const graph *g = &w->graph->g;
    const leaf *l = &g->leaves.items[i];
    i64 n = ein__value_numel(g, l->value);
    if (l->kind == LEAF_CONSTANT) return EIN_OK;
    if (l->kind == LEAF_STATE) return fill_state(w, i);
    if (g->values.items[l->value].dtype == EIN_I32) {
        int32_t *ids;
        NEW(&w->arena, ids, n);
        seeded_integers(l->name, (int32_t)w->model.llama.vocabulary, n, ids);
        w->leaves[i] = ids;
        return EIN_OK;
    }
    float *numbers;
    NEW(&w->arena, numbers, n);
    bool weight = l->kind == LEAF_PARAMETER, norm = weight && strstr(l->name, "norm") != NULL;
    seeded_normal(l->name, norm ? 1.0f : 0.0f, weight ? 0.02f : 1.0f, n, numbers);
    w->leaves[i] = numbers;
    return EIN_OK;
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
    ein__arena_free(&w->arena);
    ein__error_reset(&w->error);
}

/* ---- check ----------------------------------------------------------------------------------------- */

/* One stage each; that the evaluator names its ops is too much for a terminal. */
static void report_f64(void *user, const char *stage, double fraction)
{
    (void)stage;
    progress_report(user, "reference in f64", fraction);
}

static void report_f32(void *user, const char *stage, double fraction)
{
    (void)stage;
    progress_report(user, "reference in f32", fraction);
}

static ein_status evaluate(workload *w, arena *a, double **f64, double **f32)
{
    const graph *g = &w->graph->g;
    for (int i = 0; i < g->outputs.n; i++) {
        NEW(a, f64[i], ein__value_numel(g, g->outputs.items[i].value));
        NEW(a, f32[i], ein__value_numel(g, g->outputs.items[i].value));
    }
    reference_bindings b = {.leaves = (const void *const *)w->leaves,
                            .scalars = w->scalars,
                            .progress = report_f64,
                            .progress_user = w->progress};
    TRY(ein__reference_f64(g, &b, f64, &w->error));
    b.progress = report_f32;
    return ein__reference_f32(g, &b, f32, &w->error);
}

static ein_status check(workload *w, arena *a, void *const *outputs, verdict *out)
{
    const graph *g = &w->graph->g;
    double **f64, **f32;
    NEW(a, f64, g->outputs.n);
    NEW(a, f32, g->outputs.n);
    TRY(evaluate(w, a, f64, f32));
    *out = (verdict){.ok = true};
    for (int i = 0; i < g->outputs.n; i++) {
        comparable how;
        TRY(ein__comparable(g, g->outputs.items[i].value, &how));
        comparison c = ein__compare(&how, outputs[i], f64[i], f32[i], ein__tolerance(how.precision));
        /* A NaN must survive the maximum. */
        if (!(c.norm_error <= out->error)) out->error = c.norm_error;
        if (!(c.worst_row <= out->worst_row)) out->worst_row = c.worst_row;
        out->ok = out->ok && c.ok;
    }
    return EIN_OK;
}

ein_status workload_check(workload *w, void *const *outputs, verdict *out)
{
    arena a = {0};
    ein_status status = check(w, &a, outputs, out);
    ein__arena_free(&a);
    if (status == EIN_NO_MEMORY) ein__fail(&w->error, status, "%s: no memory to check the result", w->name);
    return status;
}
