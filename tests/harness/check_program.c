/* SPDX-License-Identifier: Apache-2.0 */
/* The comparison knows how far rounding may carry a result: besides the plain evaluation, the f64 evaluator is run
 * on leaves that are moved by one unit in their last place. Where a sum cancels, both say so. Outputs may be of
 * several precisions, and a unit of bf16 says nothing of a result in f32: each precision has its own evaluations. */
#include "tests/harness/check_program.h"

#include <math.h>
#include <string.h>

#include "core/reference/reference.h"
#include "jit/context.h"
#include "tests/harness/random.h"
#include "tests/harness/trial.h"

enum { NUDGES = 3 };

typedef struct checker {
    const program_case *c;
    const graph *g;
    text *why;
    arena a;
    ein_context *context;
    ein_weights *weights;
    ein_program *program;
    ein_state *state;
    ein_run *run;
    const void **leaves;      /* with the states' contents before the run */
    void **states;            /* per leaf; NULL for others */
    void **outputs, **first;  /* of this run; of the run before */
    comparable *how;          /* per output */
    double **want, **plain;   /* the reference, and it moved as far as rounding may */
} checker;

static bool fails(checker *k, const char *what, const char *line)
{
    ein__text_add(k->why, "%s: %s", what, line);
    return false;
}

static bool compile_fails(checker *k, const char *what)
{
    ein__text_add(k->why, "%s: %s\n%s", what, ein_context_error(k->context), ein_context_detail(k->context));
    return false;
}

static bool is_exact(const checker *k, value v) { return k->c->graph->exact != NULL && k->c->graph->exact[v]; }

/* ---- the program -------------------------------------------------------------------------------------- */

static size_t bytes_of(const graph *g, value v)
{
    return (size_t)(ein__value_numel(g, v) * ein__dtype_bytes(g->values.items[v].dtype));
}

static ein_status make_bytes(checker *k, value v, void **out)
{
    *out = ein__arena_get(&k->a, bytes_of(k->g, v), 1);
    return *out != NULL ? EIN_OK : EIN_NO_MEMORY;
}

static ein_status make_arrays(checker *k)
{
    const graph *g = k->g;
    NEW(&k->a, k->leaves, g->leaves.n);
    NEW(&k->a, k->states, g->leaves.n);
    NEW(&k->a, k->outputs, g->outputs.n);
    NEW(&k->a, k->first, g->outputs.n);
    NEW(&k->a, k->how, g->outputs.n);
    NEW(&k->a, k->want, g->outputs.n);
    NEW(&k->a, k->plain, g->outputs.n);
    for (int i = 0; i < g->leaves.n; i++) {
        k->leaves[i] = k->c->graph->leaves[i];
        if (g->leaves.items[i].kind != LEAF_STATE) continue;
        TRY(make_bytes(k, g->leaves.items[i].value, &k->states[i]));
        k->leaves[i] = k->states[i];
    }
    for (int i = 0; i < g->outputs.n; i++) {
        value v = g->outputs.items[i].value;
        i64 n = ein__value_numel(g, v) + 1;
        TRY(make_bytes(k, v, &k->outputs[i]));
        TRY(make_bytes(k, v, &k->first[i]));
        TRY(ein__comparable(g, v, &k->how[i]));
        NEW(&k->a, k->want[i], n);
        NEW(&k->a, k->plain[i], n);
    }
    return EIN_OK;
}

static bool add_weights(checker *k)
{
    if (ein_weights_create(&k->weights, k->context) != EIN_OK) return compile_fails(k, "weights");
    for (int i = 0; i < k->g->leaves.n; i++) {
        const leaf *l = &k->g->leaves.items[i];
        const value_info *v = &k->g->values.items[l->value];
        if (l->kind == LEAF_PARAMETER && ein_weights_add(k->weights, l->name, v->dtype, v->rank, v->shape,
                                                         k->leaves[i], EIN_BORROW) != EIN_OK)
            return compile_fails(k, "weights");
    }
    return true;
}

static bool has_states(const graph *g)
{
    for (int i = 0; i < g->leaves.n; i++)
        if (g->leaves.items[i].kind == LEAF_STATE) return true;
    return false;
}

static bool compile(checker *k)
{
    const program_case *c = k->c;
    char message[256] = "", room[16];
    ein_context_options o = {.size = sizeof o,
                             .machine = trial_machine(c->machine, room),
                             .cache_dir = c->cache_dir,
                             .no_cache = c->cache_dir == NULL,
                             .message = message,
                             .message_bytes = sizeof message};
    if (ein_context_create(&k->context, &o) != EIN_OK) return fails(k, "context", message);
    if (!add_weights(k)) return false;
    ein_compile_options how = {
        .size = sizeof how, .weights = k->weights, .plan = c->plan, .wire = c->wire,
        .counting = c->counting && k->context->machine.host};
    if (ein_compile(&k->program, k->context, c->graph->graph, &how) != EIN_OK)
        return compile_fails(k, "compile");
    if (c->plan != NULL && strcmp(ein_program_plan(k->program), c->plan) != 0)
        return fails(k, "the plan read back is not the plan", ein_program_plan(k->program));
    ein_program_stats stats = {.size = sizeof stats};
    ein_program_get_stats(k->program, &stats);
    if (c->cached && stats.compiles != 0) return fails(k, "cache", "the program was compiled again");
    if (ein_run_create(&k->run, k->program) != EIN_OK) return compile_fails(k, "run");
    if (has_states(&k->c->graph->graph->g) && ein_state_create(&k->state, k->program) != EIN_OK)
        return compile_fails(k, "state");
    return true;
}

/* ---- a run -------------------------------------------------------------------------------------------- */

/* Leaves and scalars that no output needs are not in the program. */
static bool bind(checker *k, const i64 *scalars)
{
    const graph *g = k->g;
    ein_status s = EIN_OK;
    for (int i = 0; i < g->leaves.n; i++) {
        const leaf *l = &g->leaves.items[i];
        if (l->kind == LEAF_INPUT) ein_run_input(k->run, l->name, k->leaves[i], bytes_of(g, l->value));
    }
    for (int i = 0; i < g->scalars.n; i++) ein_run_scalar(k->run, g->scalars.items[i], scalars[i]);
    for (int i = 0; i < g->outputs.n && s == EIN_OK; i++) {
        size_t bytes = bytes_of(g, g->outputs.items[i].value);
        memset(k->outputs[i], 0x7f, bytes); /* large numbers: what nobody writes is seen */
        s = ein_run_output(k->run, g->outputs.items[i].name, k->outputs[i], bytes);
    }
    if (s == EIN_OK && k->state != NULL) s = ein_run_state(k->run, k->state);
    return s == EIN_OK || fails(k, "bind", ein_run_error(k->run));
}

static bool check_tally(checker *k)
{
    ein_program_stats stats = {.size = sizeof stats};
    i64 sum = 0;
    if (!k->c->counting || !k->context->machine.host) return true;
    ein_program_get_stats(k->program, &stats);
    for (int d = 0; d < ein_context_device_count(k->context); d++) sum += ein_run_tally(k->run, d);
    if (sum == stats.predicted_bytes) return true;
    ein__text_add(k->why, "%lld bytes moved, %lld predicted", (long long)sum,
                  (long long)stats.predicted_bytes);
    return false;
}

static bool run_once(checker *k, const i64 *scalars)
{
    if (!bind(k, scalars)) return false;
    if (ein_run_once(k->run) != EIN_OK) return fails(k, "run", ein_run_error(k->run));
    for (int i = 0; k->c->bits != NULL && i < k->g->outputs.n; i++)
        ein__text_bytes(k->c->bits, k->outputs[i], bytes_of(k->g, k->g->outputs.items[i].value));
    return check_tally(k);
}

/* The same again, from the same states, must give the same bits. */
static bool run_again(checker *k, const i64 *scalars)
{
    const graph *g = k->g;
    for (int i = 0; i < g->outputs.n; i++)
        memcpy(k->first[i], k->outputs[i], bytes_of(g, g->outputs.items[i].value));
    if (k->state != NULL && ein_state_reset(k->state) != EIN_OK) return compile_fails(k, "reset");
    if (!run_once(k, scalars)) return false;
    for (int i = 0; i < g->outputs.n; i++)
        if (memcmp(k->first[i], k->outputs[i], bytes_of(g, g->outputs.items[i].value)) != 0)
            return fails(k, "two runs differ in output", g->outputs.items[i].name);
    return true;
}

/* ---- comparison --------------------------------------------------------------------------------------- */

/* By one unit in the last place of `precision`, if that is coarser than the number's own type. A float's bits count
 * its magnitude up. */
static void nudge(ein_dtype d, ein_dtype precision, char *x, int way)
{
    i64 bytes = ein__dtype_bytes(d), bits = 0;
    memcpy(&bits, x, (size_t)bytes); /* little-endian */
    double was = ein__dtype_read(d, x);
    if (was == 0 || !isfinite(was)) return;
    if (bytes > ein__dtype_bytes(precision) && ein__dtype_bytes(precision) == 2) {
        ein__dtype_write(d, was * (1 + way * (precision == EIN_BF16 ? 0x1p-8 : 0x1p-11)), x);
        return;
    }
    bits += (was > 0) == (way > 0) ? 1 : -1;
    memcpy(x, &bits, (size_t)bytes);
}

/* The leaves, each number moved by at most one unit in its last place; zeros stay, and so do types whose unit is
 * larger than that of `precision`. */
static ein_status nudge_leaves(checker *k, ein_dtype precision, dice *d, const void **out)
{
    for (int i = 0; i < k->g->leaves.n; i++) {
        const leaf *l = &k->g->leaves.items[i];
        const void *from = k->leaves[i] != NULL ? k->leaves[i] : l->data;
        ein_dtype dtype = k->g->values.items[l->value].dtype;
        i64 n = ein__value_numel(k->g, l->value), bytes = ein__dtype_bytes(dtype);
        void *x;
        out[i] = k->leaves[i];
        if (!ein__dtype_is_float(dtype) || bytes < ein__dtype_bytes(precision) || from == NULL) continue;
        if (is_exact(k, l->value)) continue;
        TRY(make_bytes(k, l->value, &x));
        memcpy(x, from, (size_t)(n * bytes));
        for (i64 j = 0; j < n; j++) {
            int way = ein__dtype_read(dtype, (char *)x + j * bytes) != 0 ? dice_below(d, 3) : 0;
            if (way != 0) nudge(dtype, precision, (char *)x + j * bytes, way == 1 ? 1 : -1);
        }
        out[i] = x;
    }
    return EIN_OK;
}

/* plain = want + the largest distance that any evaluation of that precision has. */
static ein_status evaluate_nudged(checker *k, ein_dtype precision, const i64 *scalars, double **other, error *e)
{
    const graph *g = k->g;
    dice d = dice_make(99, 0);
    for (int n = 0; n < NUDGES; n++) {
        const void **leaves;
        NEW(&k->a, leaves, g->leaves.n);
        TRY(nudge_leaves(k, precision, &d, leaves));
        reference_bindings b = {.leaves = leaves, .scalars = scalars, .threads = 1};
        /* The plain evaluation rounds to bf16 and f16 where the graph does. */
        bool coarse = ein__dtype_bytes(precision) == 2;
        TRY(coarse ? ein__reference_f32(g, &b, other, e) : ein__reference_f64(g, &b, other, e));
        for (int i = 0; i < g->outputs.n; i++)
            for (i64 j = 0; k->how[i].precision == precision && j < ein__value_numel(g, g->outputs.items[i].value); j++)
                if (fabs(other[i][j] - k->want[i][j]) > fabs(k->plain[i][j] - k->want[i][j]))
                    k->plain[i][j] = other[i][j];
    }
    return EIN_OK;
}

static ein_status evaluate(checker *k, const i64 *scalars, error *e)
{
    static const ein_dtype precisions[] = {EIN_F64, EIN_F32, EIN_F16, EIN_BF16};
    const graph *g = k->g;
    reference_bindings b = {.leaves = k->leaves, .scalars = scalars, .threads = 1};
    double **other;
    TRY(ein__reference_f64(g, &b, k->want, e));
    TRY(ein__reference_f32(g, &b, k->plain, e));
    NEW(&k->a, other, g->outputs.n);
    for (int i = 0; i < g->outputs.n; i++) {
        i64 n = ein__value_numel(g, g->outputs.items[i].value);
        NEW(&k->a, other[i], n + 1);
        /* Plain is f32 at best. */
        if (k->how[i].precision == EIN_F64) memcpy(k->plain[i], k->want[i], (size_t)n * sizeof **k->plain);
    }
    for (int p = 0; p < 4; p++) {
        bool any = false;
        for (int i = 0; i < g->outputs.n; i++) any |= k->how[i].precision == precisions[p];
        if (any) TRY(evaluate_nudged(k, precisions[p], scalars, other, e));
    }
    return EIN_OK;
}

/* What the precision allows by norm, or what rounding of the leaves alone does to it. */
static double tolerance(const double *want, const double *plain, i64 n, ein_dtype precision)
{
    double off = 0, norm = 0, least = ein__tolerance(precision);
    for (i64 i = 0; i < n; i++) {
        double e = plain[i] - want[i];
        if (!isfinite(e)) continue;
        off += e * e;
        norm += want[i] * want[i];
    }
    double noise = norm > 0 ? 8 * sqrt(off / norm) : 8 * sqrt(off);
    return noise > least ? noise : least;
}

/* Integers are equal, but where rounding of the floats behind them decides. */
static void settle_integers(const void *result, double *want, const double *plain, i64 n, ein_dtype d)
{
    for (i64 j = 0; j < n; j++)
        if (plain[j] != want[j]) want[j] = ein__dtype_read(d, (const char *)result + j * ein__dtype_bytes(d));
}

static bool compare_output(checker *k, int i)
{
    const output *o = &k->g->outputs.items[i];
    ein_dtype d = k->how[i].dtype;
    i64 n = ein__value_numel(k->g, o->value), bytes = ein__dtype_bytes(d);
    const char *result = k->outputs[i];
    if (n == 0) return true;
    if (is_exact(k, o->value)) { /* no plan and no order of a sum rounds it */
        for (i64 j = 0; j < n; j++) {
            double x = ein__dtype_read(d, result + j * bytes);
            if (x == k->want[i][j] || (isnan(x) && isnan(k->want[i][j]))) continue;
            ein__text_add(k->why, "output '%s': element %lld is %.17g, should be exactly %.17g", o->name, (long long)j,
                          x, k->want[i][j]);
            return false;
        }
        return true;
    }
    if (!ein__dtype_is_float(d)) settle_integers(result, k->want[i], k->plain[i], n, d);
    double most = tolerance(k->want[i], k->plain[i], n, k->how[i].precision);
    comparison c = ein__compare(&k->how[i], result, k->want[i], k->plain[i], most);
    if (c.ok) return true;
    ein__text_add(k->why, "output '%s': error %.3g of the norm (%.3g is right), worst row %.3g", o->name,
                  c.norm_error, most, c.worst_row);
    i64 worst = 0;
    double far = 0;
    for (i64 j = 0; j < n; j++) {
        double off = fabs(ein__dtype_read(d, result + j * bytes) - k->want[i][j]);
        if (off <= far || isnan(far)) continue;
        worst = j;
        far = off;
    }
    ein__text_add(k->why, "; element %lld is %.9g, should be %.9g", (long long)worst,
                  ein__dtype_read(d, result + worst * bytes), k->want[i][worst]);
    return false;
}

static bool compare(checker *k, const i64 *scalars)
{
    error e = {0};
    if (evaluate(k, scalars, &e) != EIN_OK) return fails(k, "reference", e.line);
    for (int i = 0; i < k->g->outputs.n; i++)
        if (!compare_output(k, i)) return false;
    return true;
}

/* What the run left in the states, if the outputs tell. */
static bool take_states(checker *k)
{
    const graph *g = k->g;
    for (int i = 0; i < g->nodes.n; i++) {
        const node *n = &g->nodes.items[i];
        if (n->kind != OP_APPEND) continue;
        int o = 0;
        while (o < g->outputs.n && g->outputs.items[o].value != n->results[0]) o++;
        if (o == g->outputs.n) return false;
        memcpy(k->states[g->values.items[n->operands[0]].owner], k->outputs[o], bytes_of(g, n->results[0]));
    }
    return true;
}

static bool check(checker *k)
{
    if (make_arrays(k) != EIN_OK) return fails(k, "test", "out of memory");
    if (!compile(k)) return false;
    for (int r = 0; r < GRAPH_RUNS; r++) {
        const i64 *scalars = k->c->graph->scalars[r];
        if (!run_once(k, scalars) || !compare(k, scalars)) return false;
        if (r == 0 && !run_again(k, scalars)) return false;
        if (!take_states(k)) break;
    }
    return true;
}

bool check_program(const program_case *c, text *why)
{
    checker k = {.c = c, .g = &c->graph->graph->g, .why = why};
    bool ok = check(&k);
    ein_run_free(k.run);
    ein_state_free(k.state);
    ein_program_free(k.program);
    ein_weights_free(k.weights);
    ein_context_free(k.context);
    ein__arena_free(&k.a);
    return ok;
}
