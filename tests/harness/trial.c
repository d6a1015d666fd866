/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "tests/harness/trial.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/hash.h"
#include "jit/context.h"
#include "tests/harness/random.h"

/* ---- data --------------------------------------------------------------------------------------------- */

/* Rows of the smallest table that the integers look up. */
static int table_rows(const graph *g, value ids)
{
    i64 rows = 4;
    for (int i = 0; i < g->nodes.n; i++) {
        const node *n = &g->nodes.items[i];
        if (n->kind == OP_GATHER && ein__value_source(g, n->operands[0]) == ids)
            rows = n->spec.labels[GATHER_V].extent;
    }
    return (int)rows;
}

static void fill_floats(const value_info *v, leaf_kind kind, dice *d, char *out, i64 n)
{
    double fan_in = v->rank > 1 ? (double)v->shape[v->rank - 1] : 1;
    for (i64 i = 0; i < n; i++) {
        double x = dice_real(d);
        if (kind == LEAF_PARAMETER) x = v->rank == 1 ? 1 + 0.2 * x : 1.7 * x / sqrt(fan_in);
        ein__dtype_write(v->dtype, x, out + i * ein__dtype_bytes(v->dtype));
    }
}

static void fill_integers(ein_dtype type, int below, dice *d, char *out, i64 n)
{
    if (type == EIN_BOOL) below = 2;
    if (type == EIN_I8 && below > 127) below = 127;
    for (i64 i = 0; i < n; i++) ein__dtype_write(type, dice_below(d, below), out + i * ein__dtype_bytes(type));
}

static void *leaf_data(const graph *g, const leaf *l)
{
    const value_info *v = &g->values.items[l->value];
    i64 n = ein__value_numel(g, l->value);
    dice d = {ein__hash(l->name, strlen(l->name), 7).low};
    void *out = calloc((size_t)n + 1, (size_t)ein__dtype_bytes(v->dtype));
    assert_non_null(out);
    if (l->kind == LEAF_STATE) return out;
    if (ein__dtype_is_float(v->dtype)) fill_floats(v, l->kind, &d, out, n);
    else fill_integers(v->dtype, table_rows(g, l->value), &d, out, n);
    return out;
}

void trial_make(trial *t, const ein_graph *x)
{
    const graph *g = &x->g;
    t->graph = x;
    t->leaves = calloc((size_t)g->leaves.n + 1, sizeof *t->leaves);
    t->scalars = calloc((size_t)g->scalars.n + 1, sizeof *t->scalars);
    assert_true(t->leaves != NULL && t->scalars != NULL);
    for (int i = 0; i < g->leaves.n; i++)
        if (g->leaves.items[i].kind != LEAF_CONSTANT) t->leaves[i] = leaf_data(g, &g->leaves.items[i]);
}

void trial_free(trial *t)
{
    for (int i = 0; i < t->graph->g.leaves.n; i++) free(t->leaves[i]);
    free(t->leaves);
    free(t->scalars);
}

void *trial_data(const trial *t, const char *name)
{
    const graph *g = &t->graph->g;
    for (int i = 0; i < g->leaves.n; i++)
        if (strcmp(g->leaves.items[i].name, name) == 0) return t->leaves[i];
    fail_msg("no leaf %s", name);
    return NULL;
}

void trial_set_scalar(trial *t, const char *name, i64 x)
{
    const graph *g = &t->graph->g;
    for (int i = 0; i < g->scalars.n; i++)
        if (strcmp(g->scalars.items[i], name) == 0) t->scalars[i] = x;
}

/* ---- contexts, directories, programs ------------------------------------------------------------------ */

const char *trial_machine(const char *machine, char room[16])
{
    const char *on = getenv("EIN_ON");
    if (on == NULL || on[0] == 0 || strncmp(machine, "host:", 5) != 0) return machine;
    snprintf(room, 16, "%.8s:%.4s", on, machine + 5);
    return room;
}

ein_context *open_context(const char *machine, const char *cache)
{
    char message[256] = "", room[16];
    ein_context *c = NULL;
    ein_context_options o = {.size = sizeof o,
                             .machine = trial_machine(machine, room),
                             .cache_dir = cache,
                             .no_cache = cache == NULL,
                             .message = message,
                             .message_bytes = sizeof message};
    ein_context_create(&c, &o);
    assert_string_equal(message, "");
    assert_non_null(c);
    return c;
}

char *make_directory(void)
{
    const char *root = getenv("TMPDIR");
    char path[512];
    snprintf(path, sizeof path, "%s/ein-test-XXXXXX", root != NULL ? root : "/tmp");
    assert_non_null(mkdtemp(path));
    return strdup(path);
}

void remove_directory(char *path)
{
    DIR *d = opendir(path);
    for (struct dirent *x; d != NULL && (x = readdir(d)) != NULL;)
        if (strcmp(x->d_name, ".") != 0 && strcmp(x->d_name, "..") != 0) unlinkat(dirfd(d), x->d_name, 0);
    if (d != NULL) closedir(d);
    assert_int_equal(rmdir(path), 0);
    free(path);
}

void trial_add_weights(const trial *t, ein_weights *w)
{
    const graph *g = &t->graph->g;
    for (int i = 0; i < g->leaves.n; i++) {
        const leaf *l = &g->leaves.items[i];
        const value_info *v = &g->values.items[l->value];
        if (l->kind != LEAF_PARAMETER || ein__tensor_find(&w->tensors, l->name) != NULL) continue;
        assert_int_equal(ein_weights_add(w, l->name, v->dtype, v->rank, v->shape, t->leaves[i], EIN_COPY),
                         EIN_OK);
    }
}

ein_program *compile_program(ein_context *c, const ein_graph *g, const ein_compile_options *o)
{
    ein_program *p = NULL;
    ein_compile_options own = {.size = sizeof own};
    if (o != NULL) own = *o;
    if (!c->machine.host) own.counting = 0;
    ein_status s = ein_compile(&p, c, g, &own);
    if (s != EIN_OK) fail_msg("%s: %s\n%s", ein_status_name(s), ein_context_error(c), ein_context_detail(c));
    return p;
}

ein_program_stats program_stats(const ein_program *p)
{
    ein_program_stats s = {.size = sizeof s};
    ein_program_get_stats(p, &s);
    return s;
}

char *odd_plan(ein_context *c, const ein_graph *g, i64 at)
{
    ein_program *p = compile_program(c, g, NULL);
    text t = {0};
    int index = 0;
    while (p->graph.leaves.items[index].kind != LEAF_PARAMETER) index++;
    i64 numel = ein__value_numel(&p->graph, p->graph.leaves.items[index].value);
    const i64 lo[2] = {0, at}, hi[2] = {at, numel};
    const devset devices[2] = {DEV(1), DEV(0)};
    relation *r = &p->plan.leaves[index];
    memset(r, 0, sizeof *r);
    r->n_axes = 1;
    r->axes[0] = (axis){.extent = numel, .n_parts = 2, .lo = lo, .hi = hi};
    r->n_blocks = 2;
    r->n_partials = 1;
    r->devices = devices;
    assert_int_equal(ein__plan_print(&p->graph, &p->plan, &t), EIN_OK);
    char *out = strdup(ein__text_get(&t));
    ein__text_free(&t);
    ein_program_free(p);
    return out;
}

/* ---- runs --------------------------------------------------------------------------------------------- */

#define GOOD(run, call)                                       \
    do {                                                      \
        ein_status s_ = (call);                               \
        if (s_ != EIN_OK) fail_msg("%s", ein_run_error(run)); \
    } while (0)

/* Whether the program still knows the name: what reaches no output is dropped. */
static bool has_input(const ein_run *r, ein_status s)
{
    return s == EIN_OK || strstr(ein_run_error(r), "has no") == NULL;
}

void trial_bind(const trial *t, ein_run *r)
{
    const graph *g = &t->graph->g;
    for (int i = 0; i < g->leaves.n; i++) {
        const leaf *l = &g->leaves.items[i];
        size_t bytes =
            (size_t)ein__value_numel(g, l->value) * (size_t)ein__dtype_bytes(g->values.items[l->value].dtype);
        if (l->kind != LEAF_INPUT) continue;
        ein_status s = ein_run_input(r, l->name, t->leaves[i], bytes);
        if (has_input(r, s)) GOOD(r, s);
    }
    for (int i = 0; i < g->scalars.n; i++) {
        ein_status s = ein_run_scalar(r, g->scalars.items[i], t->scalars[i]);
        if (has_input(r, s)) GOOD(r, s);
    }
}

static i64 output_numel(const graph *g, int i) { return ein__value_numel(g, g->outputs.items[i].value); }

/* Bytes of an output, rounded up so that the next one is aligned for its type. */
static size_t output_room(const graph *g, int i)
{
    ein_dtype d = g->values.items[g->outputs.items[i].value].dtype;
    return (size_t)(output_numel(g, i) * ein__dtype_bytes(d) + 15) / 16 * 16;
}

static void bind_outputs(const graph *g, ein_run *r, char *at)
{
    for (int i = 0; i < g->outputs.n; i++) {
        ein_dtype d = g->values.items[g->outputs.items[i].value].dtype;
        GOOD(r, ein_run_output(r, g->outputs.items[i].name, at, (size_t)(output_numel(g, i) * ein__dtype_bytes(d))));
        at += output_room(g, i);
    }
}

static ein_run *start_run(const trial *t, ein_program *p, ein_state *state, void *outputs)
{
    ein_run *r = NULL;
    if (ein_run_create(&r, p) != EIN_OK) fail_msg("%s", ein_context_error(p->context));
    trial_bind(t, r);
    bind_outputs(&t->graph->g, r, outputs);
    if (state != NULL) GOOD(r, ein_run_state(r, state));
    return r;
}

static size_t outputs_room(const graph *g)
{
    size_t n = 0;
    for (int i = 0; i < g->outputs.n; i++) n += output_room(g, i);
    return n;
}

void *trial_outputs(const trial *t, ein_program *p, ein_state *state, size_t *n)
{
    *n = outputs_room(&t->graph->g);
    void *out = calloc(*n + 1, 1);
    assert_non_null(out);
    ein_run *r = start_run(t, p, state, out);
    GOOD(r, ein_run_once(r));
    ein_run_free(r);
    return out;
}

void trial_check_tally(const ein_run *r, int n_devices, i64 bytes)
{
    char room[16];
    i64 sum = 0;
    if (trial_machine("host:1", room) == room) return; /* another target, which does not count */
    for (int d = 0; d < n_devices; d++) sum += ein_run_tally(r, d);
    assert_int_equal(sum, bytes);
}

typedef struct references {
    double **f64, **f32;
} references;

static references evaluate(const trial *t)
{
    const graph *g = &t->graph->g;
    reference_bindings b = {.leaves = (const void *const *)t->leaves, .scalars = t->scalars, .threads = 2};
    references x = {calloc((size_t)g->outputs.n, sizeof *x.f64), calloc((size_t)g->outputs.n, sizeof *x.f32)};
    error e = {0};
    for (int i = 0; i < g->outputs.n; i++) {
        x.f64[i] = calloc((size_t)output_numel(g, i) + 1, sizeof **x.f64);
        x.f32[i] = calloc((size_t)output_numel(g, i) + 1, sizeof **x.f32);
    }
    if (ein__reference_f64(g, &b, x.f64, &e) != EIN_OK || ein__reference_f32(g, &b, x.f32, &e) != EIN_OK)
        fail_msg("reference: %s", e.line);
    return x;
}

static void compare(const graph *g, const char *result, const references *x)
{
    for (int i = 0; i < g->outputs.n; i++) {
        comparable how;
        assert_int_equal(ein__comparable(g, g->outputs.items[i].value, &how), EIN_OK);
        comparison c = ein__compare(&how, result, x->f64[i], x->f32[i], ein__tolerance(how.precision));
        if (!c.ok)
            fail_msg("output %s: error %g by norm, worst row %g", g->outputs.items[i].name, c.norm_error,
                     c.worst_row);
        result += output_room(g, i);
    }
}

static void free_references(const graph *g, references *x)
{
    for (int i = 0; i < g->outputs.n; i++) {
        free(x->f64[i]);
        free(x->f32[i]);
    }
    free(x->f64);
    free(x->f32);
}

static void check_tally(const ein_run *r, const ein_program *p)
{
    if (!p->counting) return;
    trial_check_tally(r, p->program.n_devices, p->stats.predicted_bytes);
}

void trial_check(const trial *t, ein_program *p, ein_state *state)
{
    const graph *g = &t->graph->g;
    size_t n = outputs_room(g);
    char *first = calloc(n + 1, 1), *second = calloc(n + 1, 1);
    assert_true(first != NULL && second != NULL);
    ein_run *r = start_run(t, p, state, first);
    GOOD(r, ein_run_once(r));
    check_tally(r, p);
    references x = evaluate(t);
    compare(g, first, &x);
    bind_outputs(g, r, second);
    GOOD(r, ein_run_once(r));
    check_tally(r, p);
    assert_memory_equal(first, second, n);
    ein_run_free(r);
    free_references(g, &x);
    free(first);
    free(second);
}

void trial_once(const ein_graph *g, const char *machine, const char *cache, char **print)
{
    ein_context *c = open_context(machine, cache);
    ein_weights *w = NULL;
    trial t;
    trial_make(&t, g);
    assert_int_equal(ein_weights_create(&w, c), EIN_OK);
    trial_add_weights(&t, w);
    ein_program *p = compile_program(
        c, g, &(ein_compile_options){.size = sizeof(ein_compile_options), .weights = w, .counting = 1});
    if (print != NULL) *print = strdup(ein_program_print(p));
    ein_state *state = NULL;
    for (int i = 0; i < g->g.leaves.n && state == NULL; i++)
        if (g->g.leaves.items[i].kind == LEAF_STATE) assert_int_equal(ein_state_create(&state, p), EIN_OK);
    trial_check(&t, p, state);
    ein_state_free(state);
    ein_program_free(p);
    ein_weights_free(w);
    trial_free(&t);
    ein_context_free(c);
}
