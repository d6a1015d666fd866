/* SPDX-License-Identifier: Apache-2.0 */
/* Every element type through the whole system: graphs of many ops under random plans, against the reference, with
 * the bytes that were predicted; and the type in which partial sums travel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/graph/canonical.h"
#include "tests/harness/check_program.h"
#include "tests/harness/random.h"
#include "tests/harness/random_plan.h"
#include "tests/harness/trial.h"

#define SHAPE(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
#define NONE ((ein_tensor){0})

enum { PLANS = 3, MOST_DEVICES = 4 };

/* ---- graphs ------------------------------------------------------------------------------------------- */

typedef struct maker { ein_graph *g; int n; } maker;

static void out(maker *m, ein_tensor x)
{
    char name[16];
    snprintf(name, sizeof name, "y%d", m->n++);
    ein_output(m->g, name, x);
    if (ein_graph_error(m->g)[0] != 0) fail_msg("%s: %s", name, ein_graph_error(m->g));
}

static void numbers(maker *m, ein_dtype d, ein_tensor x, ein_tensor y)
{
    ein_graph *g = m->g;
    ein_tensor top[2];
    out(m, ein_add(g, x, ein_mul(g, x, y)));
    out(m, ein_maximum(g, x, y));
    out(m, ein_sum(g, x, 1, (int[]){0}, 0));
    out(m, ein_sum(g, x, 2, (int[]){0, 1}, 0));
    out(m, ein_amax(g, y, 1, (int[]){1}, 1));
    out(m, ein_argmax(g, x, 1, 0));
    out(m, ein_argmin(g, y, 0, 0));
    out(m, ein_where(g, ein_lt(g, x, y), x, ein_neg(g, y)));
    out(m, ein_einsum(g, "ik,jk->ij", 2, (ein_tensor[]){x, y}));
    ein_topk(g, x, 3, 1, 0, top);
    out(m, top[0]);
    out(m, top[1]);
    out(m, ein_cast(g, x, d == EIN_I64 ? EIN_BF16 : EIN_I64));
    out(m, ein_cast(g, y, d == EIN_F64 ? EIN_I8 : EIN_F64));
}

static void moves(maker *m, ein_tensor x, ein_tensor y, ein_tensor ids)
{
    ein_graph *g = m->g;
    out(m, ein_concat(g, 2, (ein_tensor[]){x, y}, 0));
    out(m, ein_permute(g, x, (int[]){1, 0}));
    out(m, ein_slice_step(g, x, 1, 1, 12, 3));
    out(m, ein_flip(g, y, 1, (int[]){1}));
    out(m, ein_embedding(g, ids, x));
    out(m, ein_index_select(g, y, 1, ids));
}

static void floats(maker *m, ein_tensor x, ein_tensor y, ein_tensor w)
{
    ein_graph *g = m->g;
    out(m, ein_linear(g, x, w, NONE));
    out(m, ein_mean(g, x, 1, (int[]){1}, 0));
    out(m, ein_softmax(g, y, 1));
    out(m, ein_logsumexp(g, x, 1, (int[]){1}, 0));
    out(m, ein_layer_norm(g, y, NONE, NONE, 1e-5));
    out(m, ein_silu(g, x));
}

static void truths(maker *m, ein_tensor x, ein_tensor y)
{
    ein_graph *g = m->g;
    out(m, ein_any(g, x, 1, (int[]){0}, 0));
    out(m, ein_all(g, ein_logical_or(g, x, y), 1, (int[]){1}, 0));
    out(m, ein_logical_not(g, ein_logical_and(g, x, y)));
    out(m, ein_sum(g, x, 1, (int[]){1}, 0));
    out(m, ein_cast(g, y, EIN_F16));
}

static ein_graph *graph_of(ein_dtype d)
{
    maker m = {0};
    assert_int_equal(ein_graph_create(&m.g), EIN_OK);
    ein_tensor x = ein_input(m.g, "x", d, SHAPE(6, 12)), y = ein_parameter(m.g, "y", d, SHAPE(6, 12)),
               ids = ein_input(m.g, "ids", EIN_I32, SHAPE(5));
    moves(&m, x, y, ids);
    if (d == EIN_BOOL) truths(&m, x, y);
    else numbers(&m, d, x, y);
    if (d == EIN_F32 || d == EIN_F64 || d == EIN_BF16 || d == EIN_F16)
        floats(&m, x, y, ein_parameter(m.g, "w", d, SHAPE(10, 12)));
    return m.g;
}

/* Convolutions and pools: windows. */
static ein_graph *windows_of(ein_dtype d)
{
    maker m = {0};
    assert_int_equal(ein_graph_create(&m.g), EIN_OK);
    ein_graph *g = m.g;
    ein_tensor x = ein_input(g, "x", d, SHAPE(2, 3, 9, 10)), w = ein_parameter(g, "w", d, SHAPE(4, 3, 3, 2)),
               s = ein_input(g, "s", d, SHAPE(2, 3, 15)), v = ein_parameter(g, "v", d, SHAPE(5, 3, 4));
    out(&m, ein_conv2d(g, x, w, NONE, NULL));
    out(&m, ein_conv1d(g, s, v, NONE, NULL));
    out(&m, ein_conv1d(g, ein_permute(g, ein_input(g, "t", d, SHAPE(15, 2, 3)), (int[]){1, 2, 0}), v, NONE,
                       &(ein_conv_options){.size = sizeof(ein_conv_options), .stride = {2}})); /* reads it as it is */
    ein_pool_options pool = {.size = sizeof pool, .kernel = {3, 2}, .stride = {2, 2}};
    out(&m, ein_max_pool(g, x, &pool));
    out(&m, ein_avg_pool(g, x, &pool));
    out(&m, ein_slice_step(g, s, 2, 2, 15, 4));
    out(&m, ein_flip(g, x, 2, (int[]){2, 3}));
    return g;
}

/* ---- programs ----------------------------------------------------------------------------------------- */

static const void *random_data(arena *a, const graph *g, const leaf *l, dice *d)
{
    ein_dtype dtype = g->values.items[l->value].dtype;
    i64 n = ein__value_numel(g, l->value), bytes = ein__dtype_bytes(dtype);
    char *data = ein__arena_get(a, (size_t)n + 1, (size_t)bytes);
    assert_non_null(data);
    for (i64 i = 0; i < n; i++) {
        double x = (double)dice_below(d, 200) / 64 - 1.5;
        if (dtype == EIN_BOOL) x = dice_below(d, 4) == 0;
        else if (!ein__dtype_is_float(dtype)) x = (double)dice_below(d, 11) - (strcmp(l->name, "ids") == 0 ? 0 : 5);
        if (strcmp(l->name, "ids") == 0) x = (double)dice_below(d, 6);
        ein__dtype_write(dtype, x, data + i * bytes);
    }
    return data;
}

/* Under random plans; the first is the search's. */
static void check_graph(ein_graph *built, const char *what)
{
    for (int seed = 0; seed < PLANS; seed++) {
        random_graph r = {.graph = built};
        graph g = {.nodes = {0}};
        plan p;
        text json = {0}, why = {0};
        char machine[16];
        error e = {0};
        dice d = dice_make((uint64_t)seed, 7);
        int n_devices = 2 + seed % (MOST_DEVICES - 1);
        snprintf(machine, sizeof machine, "host:%d", n_devices);
        r.leaves = ein__arena_get(&r.arena, (size_t)built->g.leaves.n, sizeof *r.leaves);
        assert_non_null(r.leaves);
        for (int i = 0; i < built->g.leaves.n; i++) {
            const leaf *l = &built->g.leaves.items[i];
            if (l->kind != LEAF_CONSTANT) r.leaves[i] = random_data(&r.arena, &built->g, l, &d);
        }
        assert_int_equal(ein__canonicalize(&built->g, &g, NULL), EIN_OK);
        assert_int_equal(random_plan_make(&r.arena, &g, (uint64_t)seed, n_devices, NULL, &p), EIN_OK);
        if (ein__plan_check(&g, &p, &e) != EIN_OK) fail_msg("%s seed %d: %s", what, seed, e.line);
        assert_int_equal(ein__plan_print(&g, &p, &json), EIN_OK);
        program_case c = {.machine = machine, .graph = &r, .plan = seed > 0 ? ein__text_get(&json) : NULL, .counting = true};
        if (!check_program(&c, &why)) fail_msg("%s plan %d: %s", what, seed, ein__text_get(&why));
        ein__text_free(&json);
        ein__text_free(&why);
        ein__arena_free(&r.arena);
        ein__arena_free(&g.arena);
    }
    ein_graph_free(built);
}

static void test_every_type(void **state)
{
    (void)state;
    const ein_dtype types[] = {EIN_F64, EIN_BF16, EIN_F16, EIN_I8, EIN_I32, EIN_I64, EIN_BOOL};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) check_graph(graph_of(types[i]), ein__dtype_name(types[i]));
}

static void test_windows(void **state)
{
    (void)state;
    check_graph(windows_of(EIN_F32), "windows of f32");
    check_graph(windows_of(EIN_BF16), "windows of bf16");
}

/* ---- wire --------------------------------------------------------------------------------------------- */

/* y [4,8] = x [4,64] w^T with k in four parts, one a device; device 0 gives out the sum. */
static const char four_sums[] =
    "{\"ein_plan\":1,\"devices\":4,\"nodes\":[{\"node\":0,\"op\":\"linear\",\"cuts\":[{\"labels\":[\"k\"],\"at\":[0,16,32,48,64]}],"
    "\"devices\":[[0],[1],[2],[3]]}],\"leaves\":[{\"leaf\":0,\"kind\":\"input\",\"name\":\"x\"},{\"leaf\":1,\"kind\":\"parameter\","
    "\"name\":\"w\",\"axes\":[{\"extent\":512,\"lo\":[0],\"hi\":[512]}],\"devices\":[[0,1,2,3]]}],\"carries\":[],"
    "\"predicted_us\":0,\"predicted_bytes\":0,\"states_searched\":0}";

/* Partial sums are 256 and three of 1 - 2^-9. In bf16 these are 1: 259, which is a tie, goes up to 260. */
static void test_wire(void **state)
{
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        uint16_t x[4 * 64], w[8 * 64], y[4 * 8];
        ein_context *c = open_context("host:4", NULL);
        ein_graph *g = NULL;
        ein_weights *store = NULL;
        ein_run *r = NULL;
        assert_int_equal(ein_graph_create(&g), EIN_OK);
        ein_tensor in = ein_input(g, "x", EIN_BF16, SHAPE(4, 64));
        ein_output(g, "y", ein_linear(g, in, ein_parameter(g, "w", EIN_BF16, SHAPE(8, 64)), NONE));
        for (int i = 0; i < 4 * 64; i++) ein__dtype_write(EIN_BF16, 1, &x[i]);
        for (int i = 0; i < 8 * 64; i++) {
            int k = i % 64;
            ein__dtype_write(EIN_BF16, k == 0 ? 256 : k < 16 ? 0 : k % 16 == 3 ? 0.5 : k % 16 == 9 ? 0.5 - 0x1p-9 : 0, &w[i]);
        }
        assert_int_equal(ein_weights_create(&store, c), EIN_OK);
        assert_int_equal(ein_weights_add(store, "w", EIN_BF16, SHAPE(8, 64), w, EIN_BORROW), EIN_OK);
        ein_compile_options o = {.size = sizeof o, .weights = store, .plan = four_sums, .counting = 1,
                                 .wire = wide ? EIN_F32 : 0};
        ein_program *p = compile_program(c, g, &o);
        assert_int_equal(program_stats(p).predicted_bytes, 3 * 4 * 8 * (wide ? 4 : 2));
        assert_int_equal(ein_run_create(&r, p), EIN_OK);
        assert_int_equal(ein_run_input(r, "x", x, sizeof x), EIN_OK);
        assert_int_equal(ein_run_output(r, "y", y, sizeof y), EIN_OK);
        assert_int_equal(ein_run_once(r), EIN_OK);
        trial_check_tally(r, 4, 3 * 4 * 8 * (wide ? 4 : 2));
        for (int i = 0; i < 4 * 8; i++) assert_true(ein__dtype_read(EIN_BF16, &y[i]) == (wide ? 258 : 260));
        ein_run_free(r);
        ein_program_free(p);
        ein_weights_free(store);
        ein_graph_free(g);
        ein_context_free(c);
    }
}

/* y [3,4] = rows 5, 0, 3 of w [6,4], which is in three parts, one a device; device 0 gives out the sum. */
static const char three_parts[] =
    "{\"ein_plan\":1,\"devices\":3,\"nodes\":[{\"node\":0,\"op\":\"embedding\",\"cuts\":[{\"labels\":[\"v\"],\"at\":[0,2,4,6]}],"
    "\"devices\":[[0],[1],[2]]}],\"leaves\":[{\"leaf\":0,\"kind\":\"input\",\"name\":\"ids\"},{\"leaf\":1,\"kind\":\"parameter\","
    "\"name\":\"w\",\"axes\":[{\"extent\":24,\"lo\":[0],\"hi\":[24]}],\"devices\":[[0,1,2]]}],\"carries\":[],"
    "\"predicted_us\":0,\"predicted_bytes\":0,\"states_searched\":0}";

/* Rows that are looked up are not rounded, so they travel as they are whatever the option says. */
static void test_wire_of_rows(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const ein_dtype type = i < 2 ? EIN_BF16 : EIN_F16;
        const int32_t ids[3] = {5, 0, 3};
        uint16_t w[6 * 4], y[3 * 4];
        ein_context *c = open_context("host:3", NULL);
        ein_graph *g = NULL;
        ein_weights *store = NULL;
        ein_run *r = NULL;
        assert_int_equal(ein_graph_create(&g), EIN_OK);
        ein_tensor in = ein_input(g, "ids", EIN_I32, SHAPE(3));
        ein_output(g, "y", ein_embedding(g, in, ein_parameter(g, "w", type, SHAPE(6, 4))));
        for (int k = 0; k < 6 * 4; k++) ein__dtype_write(type, 0.25 * k - 2, &w[k]);
        assert_int_equal(ein_weights_create(&store, c), EIN_OK);
        assert_int_equal(ein_weights_add(store, "w", type, SHAPE(6, 4), w, EIN_BORROW), EIN_OK);
        ein_compile_options o = {.size = sizeof o, .weights = store, .plan = three_parts, .counting = 1,
                                 .wire = i % 2 != 0 ? EIN_F32 : 0};
        ein_program *p = compile_program(c, g, &o);
        assert_int_equal(ein_run_create(&r, p), EIN_OK);
        assert_int_equal(ein_run_input(r, "ids", ids, sizeof ids), EIN_OK);
        assert_int_equal(ein_run_output(r, "y", y, sizeof y), EIN_OK);
        assert_int_equal(ein_run_once(r), EIN_OK);
        trial_check_tally(r, 3, program_stats(p).predicted_bytes);
        for (int k = 0; k < 3 * 4; k++) {
            assert_true(ein__dtype_read(type, &y[k]) == 0.25 * (4 * ids[k / 4] + k % 4) - 2);
        }
        ein_run_free(r);
        ein_program_free(p);
        ein_weights_free(store);
        ein_graph_free(g);
        ein_context_free(c);
    }
}

/* The option is part of what a program is called in the cache; other types are refused. */
static void test_wire_and_cache(void **state)
{
    (void)state;
    char *cache = make_directory();
    assert_non_null(cache);
    const ein_dtype wires[] = {0, EIN_F32, 0, EIN_F32};
    ein_graph *g = NULL;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_tensor x = ein_input(g, "x", EIN_BF16, SHAPE(4, 64)), w = ein_input(g, "w", EIN_BF16, SHAPE(8, 64));
    ein_output(g, "y", ein_linear(g, x, w, NONE));
    for (int i = 0; i < 4; i++) {
        ein_context *c = open_context("host:2", cache);
        ein_compile_options o = {.size = sizeof o, .wire = wires[i]};
        ein_program *p = compile_program(c, g, &o);
        assert_int_equal(program_stats(p).searches, i < 2);
        ein_program_free(p);
        o.wire = EIN_F16;
        assert_int_equal(ein_compile(&p, c, g, &o), EIN_DTYPE);
        assert_string_equal(ein_context_error(c), "compile: wire is 6 (f16); 0 or EIN_F32");
        ein_context_free(c);
    }
    ein_graph_free(g);
    remove_directory(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_type), cmocka_unit_test(test_windows),
                                       cmocka_unit_test(test_wire), cmocka_unit_test(test_wire_of_rows),
                                       cmocka_unit_test(test_wire_and_cache)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
