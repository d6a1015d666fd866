/* SPDX-License-Identifier: Apache-2.0 */
/* Values out of nothing or out of their index: full, arange, tril, triu. */
#include "core/graph/views.h"

#include <inttypes.h>
#include <math.h>

static ein_status check_built(graph *g, const char *name, ein_dtype dtype)
{
    if (ein__dtype_built(dtype)) return EIN_OK;
    if (ein__dtype_name(dtype)[0] == '?') REFUSE(EIN_DTYPE, "%s: %d is no dtype", name, (int)dtype);
    REFUSE(EIN_DTYPE, "%s: %s is reserved, not built yet", name, ein__dtype_name(dtype));
}

/* ---- full ---- */

/* A constant of one element, under a map without labels. */
static ein_status add_full(graph *g, ein_dtype dtype, int rank, const int64_t *shape, double number, value *out)
{
    dims d = {.rank = rank};
    TRY(check_built(g, "full", dtype));
    if (rank > 0 && shape == NULL) REFUSE(EIN_INVALID, "full: shape is NULL");
    for (int i = 0; i < rank && i < EIN_MAX_RANK; i++) d.at[i] = shape[i];
    TRY(ein__check_dims(g, "full", &d));
    TRY(ein__number_add(g, dtype, number, out));
    return ein__expand_add(g, "full", *out, &d, out);
}

ein_tensor ein__op_full(ein_graph *g, ein_dtype dtype, int rank, const int64_t *shape, double number)
{
    if (g == NULL || g->g.error.status != EIN_OK) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "full", add_full(&g->g, dtype, rank, shape, number, &out), &out);
}

/* ---- arange ---- */

static bool whole(double x) { return isfinite(x) && floor(x) == x; }

/* start + step * i. Whole numbers are counted as integers, whatever they become; others in f32, or, as operands of
 * one element, in f64: a constant of an expression is never wider than f32 by itself. */
static ein_status add_arange(graph *g, ein_dtype dtype, i64 n, double start, double step, value *out)
{
    node op;
    dims d = {.rank = 1, .at = {n}};
    bool integers = whole(start) && whole(step), wide = dtype == EIN_F64 && !integers;
    TRY(check_built(g, "arange", dtype));
    TRY(ein__check_dims(g, "arange", &d));
    if (dtype == EIN_BOOL) REFUSE(EIN_DTYPE, "arange: of bool");
    if (!isfinite(start) || !isfinite(step) || (!integers && !ein__dtype_is_float(dtype)))
        REFUSE(EIN_INVALID, "arange: start %g and step %g of %s", start, step, ein__dtype_name(dtype));
    value numbers[2] = {-1, -1};
    if (wide) {
        TRY(ein__number_add(g, EIN_F64, start, &numbers[0]));
        TRY(ein__number_add(g, EIN_F64, step, &numbers[1]));
    }
    TRY(ein__node_start(g, &op, OP_MAP, "arange", wide ? 2 : 0, numbers));
    spec *s = &op.spec;
    op.n_indices = 1;
    op.indices[0] = ein__label_add(s, "d0", n);
    ein__term_label(s, &s->results[0], 0);
    if (wide) TRY(ein__expr_make(g, "arange", "x0 + x1 * x2", 3, 0, NULL, &op.body[0]));
    else TRY(ein__expr_make(g, "arange", "x1 + x2 * x0", 1, 2, (double[]){start, step}, &op.body[0]));
    s->flops = 2;
    return ein__node_add(g, &op, &d, &dtype, out);
}

ein_tensor ein__op_arange(ein_graph *g, ein_dtype dtype, int64_t n, double start, double step)
{
    if (g == NULL || g->g.error.status != EIN_OK) return (ein_tensor){0};
    value out = -1;
    return ein__call_end(g, "arange", add_arange(&g->g, dtype, n, start, step, &out), &out);
}

/* ---- triangles ---- */

static ein_status add_triangle(graph *g, const char *name, const char *expression, value x, i64 diagonal, value *out)
{
    const i64 most = (i64)1 << 41; /* farther than any corner, and exact as a double */
    int rank = g->values.items[x].rank;
    if (rank < 2) REFUSE(EIN_SHAPE, "%s: x has rank %d; at least 2", name, rank);
    double at = (double)(diagonal < -most ? -most : diagonal > most ? most : diagonal);
    map_call c = {.name = name, .expression = expression, .n = 1, .operands = &x, .n_indices = 2,
                  .indices = (int[]){rank - 2, rank - 1}, .n_constants = 1, .constants = &at,
                  .result = g->values.items[x].dtype};
    return ein__map_make(g, &c, out);
}

static ein_tensor triangle(ein_graph *g, const char *name, const char *expression, ein_tensor x, i64 diagonal)
{
    if (!ein__call_begin(g, name, 1, &x)) return (ein_tensor){0};
    value out = -1;
    ein_status status = add_triangle(&g->g, name, expression, ein__value(x), diagonal, &out);
    return ein__call_end(g, name, status, &out);
}

ein_tensor ein__op_tril(ein_graph *g, ein_tensor x, int64_t diagonal)
{
    return triangle(g, "tril", "where(x2 - x1 <= x3, x0, 0)", x, diagonal);
}

ein_tensor ein__op_triu(ein_graph *g, ein_tensor x, int64_t diagonal)
{
    return triangle(g, "triu", "where(x2 - x1 >= x3, x0, 0)", x, diagonal);
}
