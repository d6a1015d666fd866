/* SPDX-License-Identifier: Apache-2.0 */
/* A workload's results against the reference evaluator, which reads whole tensors. */
#include <math.h>
#include <string.h>

#include "tools/workload.h"

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

/* Stored weights in the graph's types, on `a`; a program would have refused those that do not fit. */
static ein_status load_stored(workload *w, arena *a, const void **leaves)
{
    const graph *g = &w->graph->g;
    for (int i = 0; i < g->leaves.n; i++) {
        const leaf *l = &g->leaves.items[i];
        leaves[i] = w->leaves[i];
        if (l->kind != LEAF_PARAMETER || leaves[i] != NULL) continue;
        const stored_tensor *t = workload_stored(w, l->name);
        ein_dtype dtype = g->values.items[l->value].dtype;
        i64 n = ein__value_numel(g, l->value);
        if (t == NULL || t->bytes != n * ein__dtype_bytes(t->dtype))
            return ein__fail(&w->error, EIN_INVALID, "%s: no tensor '%s' of the right size", w->name, l->name);
        void *numbers = ein__arena_get(a, (size_t)n, (size_t)ein__dtype_bytes(dtype));
        if (numbers == NULL) return EIN_NO_MEMORY;
        ein__dtype_convert(dtype, numbers, t->dtype, t->data, n);
        leaves[i] = numbers;
    }
    return EIN_OK;
}

/* Once for a workload: what it should give does not depend on who runs it. `a` is for a while. */
static ein_status evaluate(workload *w, arena *a)
{
    const graph *g = &w->graph->g;
    const void **leaves;
    double **f64, **f32;
    if (w->f64 != NULL) return EIN_OK;
    NEW(&w->arena, f64, g->outputs.n);
    NEW(&w->arena, f32, g->outputs.n);
    NEW(a, leaves, g->leaves.n);
    TRY(load_stored(w, a, leaves));
    for (int i = 0; i < g->outputs.n; i++) {
        NEW(&w->arena, f64[i], ein__value_numel(g, g->outputs.items[i].value));
        NEW(&w->arena, f32[i], ein__value_numel(g, g->outputs.items[i].value));
    }
    reference_bindings b = {
        .leaves = leaves, .scalars = w->scalars, .progress = report_f64, .progress_user = w->progress};
    TRY(ein__reference_f64(g, &b, f64, &w->error));
    b.progress = report_f32;
    TRY(ein__reference_f32(g, &b, f32, &w->error));
    w->f64 = f64;
    w->f32 = f32;
    return EIN_OK;
}

/* "next" is the place of the largest of the last logits; which of two that are nearly equal that is, rounding says. */
static bool next_is_largest(const workload *w, void *const *outputs, int next)
{
    const graph *g = &w->graph->g;
    int from = workload_output(w, "logits");
    const value_info *v = &g->values.items[g->outputs.items[from].value];
    i64 n = v->shape[2], size = ein__dtype_bytes(v->dtype), best = 0;
    for (i64 b = 0; b < v->shape[0]; b++, best = 0) {
        const char *row = (const char *)outputs[from] + ((b + 1) * v->shape[1] - 1) * n * size;
        for (i64 i = 1; i < n; i++) {
            if (ein__dtype_read(v->dtype, row + i * size) > ein__dtype_read(v->dtype, row + best * size)) best = i;
        }
        if (((const i64 *)outputs[next])[b] != best) return false;
    }
    return true;
}

/* What rounding to bf16 or f16 does grows with every layer. A deep model may be off by more than the fixed bound, but by
 * little more than the plain evaluation. */
static double tolerance_of(const comparable *how, const double *f64, const double *f32)
{
    double fixed = ein__tolerance(how->precision), error = 0, norm = 0;
    if (how->precision != EIN_BF16 && how->precision != EIN_F16) return fixed;
    for (i64 i = 0; i < how->rows * how->width; i++) {
        error += (f32[i] - f64[i]) * (f32[i] - f64[i]);
        norm += f64[i] * f64[i];
    }
    return fmax(fixed, norm > 0 ? 2 * sqrt(error / norm) : 0); /* of NaN and a number, the number */
}

static ein_status check(workload *w, arena *a, void *const *outputs, verdict *out)
{
    const graph *g = &w->graph->g;
    int next = w->model.use.wanted == LOGITS_AND_NEXT ? workload_output(w, "next") : -1;
    TRY(evaluate(w, a));
    *out = (verdict){.ok = next < 0 || next_is_largest(w, outputs, next)};
    for (int i = 0; i < g->outputs.n; i++) {
        comparable how;
        if (i == next) continue;
        TRY(ein__comparable(g, g->outputs.items[i].value, &how));
        out->tolerance = tolerance_of(&how, w->f64[i], w->f32[i]);
        comparison c = ein__compare(&how, outputs[i], w->f64[i], w->f32[i], out->tolerance);
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
