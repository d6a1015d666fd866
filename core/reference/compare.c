/* SPDX-License-Identifier: Apache-2.0 */
/* Is a result as good as a plain evaluation? The norm sees errors that are everywhere; the worst row sees one wrong
 * row among a million right ones. */
#include <math.h>

#include "core/base/alloc.h"
#include "core/reference/reference.h"

/* Per precision: how large a rounding error is to be expected at most, by norm, and beside the plain one, per row. */
typedef struct bound { double norm, row; } bound;

static bound bound_of(ein_dtype precision)
{
    switch (precision) {
    case EIN_F64: return (bound){1e-12, INFINITY};
    case EIN_F32: return (bound){1e-5, 1e-6};
    case EIN_F16: return (bound){1e-2, 0x1p-11};
    case EIN_BF16: return (bound){1e-2, 0x1p-8};
    default: return (bound){0, 0};
    }
}

double ein__tolerance(ein_dtype precision) { return bound_of(precision).norm; }

/* Coarser types are greater. */
static int coarseness(ein_dtype d)
{
    static const ein_dtype order[] = {EIN_F64, EIN_F32, EIN_F16, EIN_BF16};
    int i = 4;
    while (i > 0 && order[i - 1] != d) i--;
    return i;
}

/* Moves round nothing. */
static bool rounds(const node *n)
{
    return n->kind == OP_MAP || n->kind == OP_ROW || n->kind == OP_ATTENTION || n->kind == OP_CUSTOM;
}

/* In a body, what is made of narrower operands than f64 alone is made in f32, though the result may be f64. */
static bool has_narrow_part(const graph *g, const node *n)
{
    enum { MOST = 64 }; /* more than a call takes */
    ein_dtype types[MOST];
    if (n->kind != OP_MAP || n->spec.n_operands + n->n_indices > MOST) return false;
    for (int i = 0; i < n->spec.n_operands + n->n_indices; i++)
        types[i] = i < n->spec.n_operands ? ein__dtype_compute(g->values.items[n->operands[i]].dtype) : EIN_I64;
    for (int r = 0; r < MAX_STATES; r++)
        for (int i = 0; i < n->body[r].n; i++) {
            const expr part = {i + 1, n->body[r].nodes};
            expr_op op = part.nodes[i].op;
            if (op != X_ARG && op != X_CONST && ein__expr_type(&part, types) == EIN_F32) return true;
        }
    return false;
}

/* One pass backwards, as operands precede. `behind` per value. */
static ein_dtype coarsest_behind(const graph *g, value v, bool *behind)
{
    ein_dtype d = g->values.items[v].dtype;
    if (!ein__dtype_is_float(d)) d = EIN_I64;
    behind[v] = true;
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const node *n = &g->nodes.items[i];
        bool found = false;
        for (int r = 0; r < n->spec.n_results; r++) {
            if (!behind[n->results[r]]) continue;
            ein_dtype have = g->values.items[n->results[r]].dtype;
            found = true;
            if (have == EIN_F64 && has_narrow_part(g, n)) have = EIN_F32;
            if (rounds(n) && coarseness(have) > coarseness(d)) d = have;
        }
        for (int o = 0; found && o < n->spec.n_operands; o++) behind[n->operands[o]] = true;
    }
    return d;
}

ein_status ein__comparable(const graph *g, value v, comparable *out)
{
    const value_info *info = &g->values.items[v];
    bool *behind = ein__calloc((size_t)g->values.n, sizeof *behind);
    if (behind == NULL) return EIN_NO_MEMORY;
    i64 width = info->rank > 0 ? info->shape[info->rank - 1] : 1;
    *out = (comparable){info->dtype, coarsest_behind(g, v, behind), 0, width};
    out->rows = width > 0 ? ein__value_numel(g, v) / width : 0;
    ein__free(behind);
    return EIN_OK;
}

/* Equal infinities are equal, also where only rounding to the result's type makes the reference infinite. */
static double difference(ein_dtype d, double x, double reference)
{
    if (x == reference || (isnan(x) && isnan(reference))) return 0;
    if (isinf(x)) {
        i64 rounded;
        ein__dtype_write(d, reference, &rounded);
        if (x == ein__dtype_read(d, &rounded)) return 0;
    }
    if (isnan(x) || isnan(reference)) return INFINITY;
    return fabs(x - reference);
}

static double square_if_finite(double x) { return isfinite(x) ? x * x : 0; }

comparison ein__compare(const comparable *how, const void *result, const double *f64, const double *f32,
                        double tolerance)
{
    comparison c = {0, 0, false};
    bool exact = !ein__dtype_is_float(how->dtype);
    double sum = 0, norm = 0, room = bound_of(exact ? how->dtype : how->precision).row;
    i64 bytes = ein__dtype_bytes(how->dtype);
    for (i64 r = 0; r < how->rows; r++) {
        double row_error = 0, row_plain = 0, row_norm = 0;
        for (i64 i = r * how->width; i < (r + 1) * how->width; i++) {
            double x = ein__dtype_read(how->dtype, (const char *)result + i * bytes);
            double d = difference(how->dtype, x, f64[i]);
            row_error += d * d;
            row_plain += square_if_finite(difference(EIN_F64, f32[i], f64[i]));
            row_norm += square_if_finite(f64[i]);
        }
        double most = exact ? 0 : 8 * sqrt(row_plain) + room * sqrt(row_norm); /* no number: no bound */
        double worst = row_error > 0 ? sqrt(row_error) / most : 0;
        if (worst > c.worst_row) c.worst_row = worst;
        sum += row_error;
        norm += row_norm;
    }
    c.norm_error = norm > 0 ? sqrt(sum / norm) : sqrt(sum);
    c.ok = (exact || c.norm_error < tolerance) && c.worst_row <= 1;
    return c;
}
