/* SPDX-License-Identifier: Apache-2.0 */
/* The runs of each_plan.h. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/harness/each_plan.h"
#include "tests/harness/trial.h"

typedef struct running {
    const plan_case *k;
    const char *what, *plan;
    ein_program *p;
    ein_weights *w;
    ein_run *r;
    void **leaves, **outputs[2]; /* of the user's graph */
} running;

static void fails(const running *x, const char *line)
{
    fprintf(stderr, "%s\n", ein_program_plan(x->p));
    fail_msg("%s: %s", x->what, line);
}

static size_t bytes_of(const graph *g, value v)
{
    return (size_t)ein__value_numel(g, v) * (size_t)ein__dtype_bytes(g->values.items[v].dtype);
}

static const numbers *find(const numbers *n, const char *name)
{
    for (; n->name != NULL; n++)
        if (strcmp(n->name, name) == 0) return n;
    fail_msg("no numbers for %s", name);
    return NULL;
}

static double number(const numbers *n, i64 i) { return n->at[n->n == 1 ? 0 : i]; }

static void check_size(const numbers *n, i64 numel)
{
    if (n->n != 1 && n->n != numel) fail_msg("%s: %d numbers for %lld elements", n->name, n->n, (long long)numel);
}

/* ---- data --------------------------------------------------------------------------------------------- */

static void fill(running *x)
{
    const graph *g = &x->k->graph->g;
    x->leaves = calloc((size_t)g->leaves.n + 1, sizeof *x->leaves);
    assert_non_null(x->leaves);
    for (int i = 0; i < g->leaves.n; i++) {
        const leaf *l = &g->leaves.items[i];
        ein_dtype d = g->values.items[l->value].dtype;
        i64 numel = ein__value_numel(g, l->value);
        if (l->kind != LEAF_INPUT && l->kind != LEAF_PARAMETER) continue;
        const numbers *n = find(x->k->given, l->name);
        check_size(n, numel);
        x->leaves[i] = malloc(bytes_of(g, l->value) + 1);
        assert_non_null(x->leaves[i]);
        for (i64 j = 0; j < numel; j++) ein__dtype_write(d, number(n, j), (char *)x->leaves[i] + j * ein__dtype_bytes(d));
    }
}

static void make_outputs(running *x)
{
    const graph *g = &x->k->graph->g;
    for (int t = 0; t < 2; t++) {
        x->outputs[t] = calloc((size_t)g->outputs.n, sizeof *x->outputs[t]);
        assert_non_null(x->outputs[t]);
        for (int i = 0; i < g->outputs.n; i++) {
            size_t bytes = bytes_of(g, g->outputs.items[i].value);
            x->outputs[t][i] = malloc(bytes + 1);
            assert_non_null(x->outputs[t][i]);
            memset(x->outputs[t][i], 0x55, bytes + 1); /* what nobody writes is wrong */
        }
    }
}

static void free_all(running *x)
{
    const graph *g = &x->k->graph->g;
    ein_run_free(x->r);
    ein_program_free(x->p);
    ein_weights_free(x->w);
    for (int i = 0; i < g->leaves.n; i++) free(x->leaves[i]);
    free(x->leaves);
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < g->outputs.n; i++) free(x->outputs[t][i]);
        free(x->outputs[t]);
    }
}

/* ---- a run -------------------------------------------------------------------------------------------- */

static void compile(running *x, ein_context *c)
{
    const graph *g = &x->k->graph->g;
    assert_int_equal(ein_weights_create(&x->w, c), EIN_OK);
    for (int i = 0; i < g->leaves.n; i++) {
        const leaf *l = &g->leaves.items[i];
        const value_info *v = &g->values.items[l->value];
        if (l->kind == LEAF_PARAMETER)
            assert_int_equal(ein_weights_add(x->w, l->name, v->dtype, v->rank, v->shape, x->leaves[i], EIN_BORROW), EIN_OK);
    }
    x->p = compile_program(c, x->k->graph,
                           &(ein_compile_options){
                               .size = sizeof(ein_compile_options), .weights = x->w, .plan = x->plan, .wire = x->k->wire});
}

/* A status of EIN_OK, or the name of what is bound is that of something no output needs. */
static void bound(const running *x, ein_status s)
{
    if (s != EIN_OK) fails(x, ein_run_error(x->r));
}

static void run_into(running *x, void **outputs)
{
    const graph *g = &x->k->graph->g;
    for (int i = 0; i < g->leaves.n; i++) {
        const leaf *l = &g->leaves.items[i];
        if (l->kind == LEAF_INPUT) bound(x, ein_run_input(x->r, l->name, x->leaves[i], bytes_of(g, l->value)));
    }
    for (int i = 0; i < g->outputs.n; i++) {
        const output *o = &g->outputs.items[i];
        bound(x, ein_run_output(x->r, o->name, outputs[i], bytes_of(g, o->value)));
    }
    bound(x, ein_run_once(x->r));
}

static bool near(double got, double want, double tolerance)
{
    if (isnan(want)) return isnan(got);
    if (isinf(want) || tolerance == 0) return got == want;
    return fabs(got - want) <= tolerance * fmax(1, fabs(want));
}

static void compare(const running *x, int i)
{
    const graph *g = &x->k->graph->g;
    const output *o = &g->outputs.items[i];
    ein_dtype d = g->values.items[o->value].dtype;
    const numbers *n = find(x->k->wanted, o->name);
    i64 numel = ein__value_numel(g, o->value);
    char line[200];
    check_size(n, numel);
    for (i64 j = 0; j < numel; j++) {
        double got = ein__dtype_read(d, (const char *)x->outputs[0][i] + j * ein__dtype_bytes(d));
        snprintf(line, sizeof line, "%s[%lld] is %.9g, not %.9g", o->name, (long long)j, got, number(n, j));
        if (!near(got, number(n, j), x->k->tolerance)) fails(x, line);
    }
    if (memcmp(x->outputs[0][i], x->outputs[1][i], bytes_of(g, o->value)) != 0) {
        snprintf(line, sizeof line, "%s: the second run gives other bits", o->name);
        fails(x, line);
    }
}

void run_plan(ein_context *c, const plan_case *k, const char *plan, const char *what)
{
    running x = {.k = k, .plan = plan, .what = what};
    if (ein_graph_error(k->graph)[0] != 0) fail_msg("%s: %s", what, ein_graph_error(k->graph));
    fill(&x);
    make_outputs(&x);
    compile(&x, c);
    if (ein_run_create(&x.r, x.p) != EIN_OK) fail_msg("%s: %s", what, ein_context_error(c));
    for (int t = 0; t < 2; t++) run_into(&x, x.outputs[t]);
    for (int i = 0; i < k->graph->g.outputs.n; i++) compare(&x, i);
    free_all(&x);
}

void each_plan(const plan_case *k, int devices)
{
    char machine[32], what[64];
    snprintf(machine, sizeof machine, "host:%d", devices);
    ein_context *c = open_context(machine, NULL);
    int n = plan_count(k->graph, devices);
    for (int i = 0; i < n; i++) {
        char *plan = plan_text(k->graph, devices, i);
        snprintf(what, sizeof what, "%s, plan %d of %d", machine, i, n);
        run_plan(c, k, plan, what);
        free(plan);
    }
    snprintf(what, sizeof what, "%s, the search's plan", machine);
    if (!k->forced_only) run_plan(c, k, NULL, what);
    ein_context_free(c);
}

void each_device_count(const plan_case *k, const int *devices)
{
    each_plan(k, 1);
    for (; *devices != 0; devices++) each_plan(k, *devices);
}
