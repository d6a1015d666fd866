/* SPDX-License-Identifier: Apache-2.0 */
/* The comparison knows how far rounding may carry a result: besides the plain f32 evaluation, the f64
 * evaluator is run on leaves that are moved by one unit in their last place. Where a sum cancels, both say
 * so. */
#include "tests/harness/check_program.h"

#include <math.h>
#include <string.h>

#include "core/reference/reference.h"
#include "tests/harness/random.h"

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
    float **states;           /* per leaf; NULL for others */
    float **outputs, **first; /* of this run; of the run before */
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

/* ---- the program -------------------------------------------------------------------------------------- */

static ein_status make_arrays(checker *k)
{
    const graph *g = k->g;
    NEW(&k->a, k->leaves, g->leaves.n);
    NEW(&k->a, k->states, g->leaves.n);
    NEW(&k->a, k->outputs, g->outputs.n);
    NEW(&k->a, k->first, g->outputs.n);
    NEW(&k->a, k->want, g->outputs.n);
    NEW(&k->a, k->plain, g->outputs.n);
    for (int i = 0; i < g->leaves.n; i++) {
        k->leaves[i] = k->c->graph->leaves[i];
        if (g->leaves.items[i].kind != LEAF_STATE) continue;
        NEW(&k->a, k->states[i], ein__value_numel(g, g->leaves.items[i].value) + 1);
        k->leaves[i] = k->states[i];
    }
    for (int i = 0; i < g->outputs.n; i++) {
        i64 n = ein__value_numel(g, g->outputs.items[i].value) + 1;
        NEW(&k->a, k->outputs[i], n);
        NEW(&k->a, k->first[i], n);
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
    char message[256] = "";
    ein_context_options o = {.size = sizeof o,
                             .machine = c->machine,
                             .cache_dir = c->cache_dir,
                             .no_cache = c->cache_dir == NULL,
                             .message = message,
                             .message_bytes = sizeof message};
    if (ein_context_create(&k->context, &o) != EIN_OK) return fails(k, "context", message);
    if (!add_weights(k)) return false;
    ein_compile_options how = {
        .size = sizeof how, .weights = k->weights, .plan = c->plan, .counting = c->counting};
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

static size_t bytes_of(const graph *g, value v)
{
    return (size_t)(ein__value_numel(g, v) * ein__dtype_bytes(g->values.items[v].dtype));
}

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
    if (!k->c->counting) return true;
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

/* The leaves, each number moved by at most one unit in its last place; zeros stay. */
static ein_status nudge_leaves(checker *k, dice *d, const void **out)
{
    for (int i = 0; i < k->g->leaves.n; i++) {
        const leaf *l = &k->g->leaves.items[i];
        const float *from = k->leaves[i] != NULL ? k->leaves[i] : l->data;
        i64 n = ein__value_numel(k->g, l->value);
        float *x;
        out[i] = k->leaves[i];
        if (k->g->values.items[l->value].dtype != EIN_F32 || from == NULL) continue;
        NEW(&k->a, x, n + 1);
        for (i64 j = 0; j < n; j++) {
            int way = from[j] != 0 ? dice_below(d, 3) : 0;
            x[j] = way == 0 ? from[j] : nextafterf(from[j], way == 1 ? INFINITY : -INFINITY);
        }
        out[i] = x;
    }
    return EIN_OK;
}

/* plain = want + the largest distance that any of the other evaluations has. */
static ein_status evaluate(checker *k, const i64 *scalars, error *e)
{
    const graph *g = k->g;
    reference_bindings b = {.leaves = k->leaves, .scalars = scalars, .threads = 1};
    double **other;
    dice d = dice_make(99, 0);
    TRY(ein__reference_f64(g, &b, k->want, e));
    TRY(ein__reference_f32(g, &b, k->plain, e));
    NEW(&k->a, other, g->outputs.n);
    for (int i = 0; i < g->outputs.n; i++)
        NEW(&k->a, other[i], ein__value_numel(g, g->outputs.items[i].value) + 1);
    for (int n = 0; n < NUDGES; n++) {
        const void **leaves;
        NEW(&k->a, leaves, g->leaves.n);
        TRY(nudge_leaves(k, &d, leaves));
        b.leaves = leaves;
        TRY(ein__reference_f64(g, &b, other, e));
        for (int i = 0; i < g->outputs.n; i++)
            for (i64 j = 0; j < ein__value_numel(g, g->outputs.items[i].value); j++)
                if (fabs(other[i][j] - k->want[i][j]) > fabs(k->plain[i][j] - k->want[i][j]))
                    k->plain[i][j] = other[i][j];
    }
    return EIN_OK;
}

/* 1e-5 of the norm, or what rounding of the leaves alone does to it. */
static double tolerance(const double *want, const double *plain, i64 n)
{
    double off = 0, norm = 0;
    for (i64 i = 0; i < n; i++) {
        double e = plain[i] - want[i];
        if (!isfinite(e)) continue;
        off += e * e;
        norm += want[i] * want[i];
    }
    double noise = norm > 0 ? 8 * sqrt(off / norm) : 8 * sqrt(off);
    return noise > 1e-5 ? noise : 1e-5;
}

static bool compare_output(checker *k, int i)
{
    const output *o = &k->g->outputs.items[i];
    const value_info *v = &k->g->values.items[o->value];
    i64 n = ein__value_numel(k->g, o->value), width = v->rank > 0 ? v->shape[v->rank - 1] : 1;
    if (n == 0) return true;
    double most = tolerance(k->want[i], k->plain[i], n);
    comparison c = ein__compare(k->outputs[i], k->want[i], k->plain[i], n / width, width, most);
    if (c.ok) return true;
    ein__text_add(k->why, "output '%s': error %.3g of the norm (%.3g is right), worst row %.3g", o->name,
                  c.norm_error, most, c.worst_row);
    i64 worst = 0;
    for (i64 j = 0; j < n; j++)
        if (!(fabs((double)k->outputs[i][j] - k->want[i][j]) <=
              fabs((double)k->outputs[i][worst] - k->want[i][worst])))
            worst = j;
    ein__text_add(k->why, "; element %lld is %.9g, should be %.9g", (long long)worst,
                  (double)k->outputs[i][worst], k->want[i][worst]);
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
