/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/op_trial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/graph/canonical.h"
#include "tests/harness/random.h"
#include "tests/harness/random_plan.h"

enum { DEVICES = 3 };

void op_trial_open(op_trial *t)
{
    memset(t, 0, sizeof *t);
    assert_int_equal(ein_graph_create(&t->g), EIN_OK);
}

ein_tensor op_given(op_trial *t, ein_dtype dtype, int rank, const int64_t *shape, int n, const double *numbers)
{
    assert_true(t->n_given < MAX_GIVEN);
    int i = t->n_given++;
    snprintf(t->given[i].name, sizeof t->given[i].name, "x%d", i);
    ein_tensor x = ein_input(t->g, t->given[i].name, dtype, rank, shape);
    assert_string_equal(ein_graph_error(t->g), "");
    assert_int_equal(ein__value_numel(&t->g->g, (value)x.id - 1), n);
    size_t bytes = (size_t)ein__dtype_bytes(dtype);
    char *data = calloc((size_t)n + 1, bytes);
    assert_non_null(data);
    for (int k = 0; k < n; k++) ein__dtype_write(dtype, numbers[k], data + (size_t)k * bytes);
    t->given[i].data = data;
    return x;
}

ein_tensor op_seeded(op_trial *t, ein_dtype dtype, int rank, const int64_t *shape, uint64_t seed)
{
    i64 n = 1;
    for (int i = 0; i < rank; i++) n *= shape[i];
    double *numbers = calloc((size_t)n + 1, sizeof *numbers);
    dice d = dice_make(seed, 0);
    assert_non_null(numbers);
    for (i64 i = 0; i < n; i++)
        numbers[i] = ein__dtype_is_float(dtype) ? dice_range(&d, -16, 16) / 4.0 : dice_range(&d, -4, 4);
    ein_tensor x = op_given(t, dtype, rank, shape, (int)n, numbers);
    free(numbers);
    return x;
}

static expected_numbers *add_output(op_trial *t, const char *what, ein_tensor y)
{
    char name[16];
    if (y.id == 0) fail_msg("%s: %s", what, ein_graph_error(t->g));
    assert_true(t->n_expected < MAX_EXPECTED);
    snprintf(name, sizeof name, "y%d", t->n_expected);
    ein_output(t->g, name, y);
    expected_numbers *e = &t->expected[t->n_expected++];
    *e = (expected_numbers){.what = what, .n = ein__value_numel(&t->g->g, (value)y.id - 1)};
    e->dtype = ein_tensor_dtype(t->g, y);
    return e;
}

void op_output(op_trial *t, const char *what, ein_tensor y) { add_output(t, what, y); }

void op_expect(op_trial *t, const char *what, ein_tensor y, ein_dtype dtype, int n, const double *numbers)
{
    expected_numbers *e = add_output(t, what, y);
    if (e->dtype != dtype || e->n != n)
        fail_msg("%s gives %d elements %s, expected are %d %s", what, (int)e->n, ein__dtype_name(e->dtype), n,
                 ein__dtype_name(dtype));
    e->numbers = calloc((size_t)n + 1, sizeof *e->numbers);
    assert_non_null(e->numbers);
    if (n > 0) memcpy(e->numbers, numbers, (size_t)n * sizeof *numbers);
}

/* ---- runs --------------------------------------------------------------------------------------------- */

static double tolerance_of(ein_dtype d)
{
    switch (d) {
    case EIN_F64: return 1e-12;
    case EIN_F32: return 1e-5;
    case EIN_BF16: return 0x1p-7;
    case EIN_F16: return 0x1p-9;
    default: return 0;
    }
}

static void check_numbers(const op_trial *t, const char *how, const char *at)
{
    for (int i = 0; i < t->n_expected; i++) {
        const expected_numbers *e = &t->expected[i];
        i64 bytes = ein__dtype_bytes(e->dtype);
        for (i64 k = 0; e->numbers != NULL && k < e->n; k++) {
            double x = ein__dtype_read(e->dtype, at + k * bytes), want = e->numbers[k];
            double most = tolerance_of(e->dtype) * (fabs(want) < 1 ? 1 : fabs(want));
            bool same = x == want || (isnan(x) && isnan(want)) || (isfinite(want) && fabs(x - want) <= most);
            if (!same) fail_msg("%s of %s, output y%d: element %d is %.17g, not %.17g", e->what, how, i, (int)k, x, want);
        }
        at += (e->n * bytes + 15) / 16 * 16; /* as trial_outputs lays them */
    }
}

static void run_plan(const op_trial *t, const trial *data, const char *machine, const char *plan, const char *how)
{
    size_t n;
    ein_context *c = open_context(machine, NULL);
    ein_program *p = compile_program(c, t->g, &(ein_compile_options){.size = sizeof(ein_compile_options), .plan = plan});
    void *outputs = trial_outputs(data, p, NULL, &n);
    check_numbers(t, how, outputs);
    free(outputs);
    trial_check(data, p, NULL);
    ein_program_free(p);
    ein_context_free(c);
}

static void run_random(const op_trial *t, const trial *data, uint64_t seed)
{
    graph g = {.nodes = {0}};
    arena a = {NULL};
    error e = {0};
    text json = {0};
    plan p;
    char machine[16], how[48];
    snprintf(machine, sizeof machine, "host:%d", DEVICES);
    snprintf(how, sizeof how, "random plan %d", (int)seed);
    assert_int_equal(ein__canonicalize(&t->g->g, &g, &e), EIN_OK);
    assert_int_equal(random_plan_make(&a, &g, seed, DEVICES, NULL, &p), EIN_OK);
    assert_int_equal(ein__plan_print(&g, &p, &json), EIN_OK);
    run_plan(t, data, machine, ein__text_get(&json), how);
    ein__text_free(&json);
    ein__arena_free(&a);
    ein__arena_free(&g.arena);
}

void op_trial_close(op_trial *t, uint64_t seed)
{
    trial data;
    trial_make(&data, t->g);
    for (int i = 0; i < t->n_given; i++) {
        int leaf = 0;
        while (strcmp(t->g->g.leaves.items[leaf].name, t->given[i].name) != 0) leaf++;
        free(data.leaves[leaf]);
        data.leaves[leaf] = t->given[i].data;
    }
    run_plan(t, &data, "host:1", NULL, "host:1");
    run_random(t, &data, seed);
    trial_free(&data);
    for (int i = 0; i < t->n_expected; i++) free(t->expected[i].numbers);
    ein_graph_free(t->g);
}
