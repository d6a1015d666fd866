/* SPDX-License-Identifier: Apache-2.0 */
/* The weight store: placed once, shared by programs, bound to the layouts of the first. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jit/context.h"
#include "tests/harness/small_llama.h"
#include "tests/harness/trial.h"

#define SHAPE(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
#define NONE ((ein_tensor){0})

static int directory_up(void **state) { return (*state = make_directory()) == NULL; }

static int directory_down(void **state)
{
    remove_directory(*state);
    return 0;
}

static ein_weights *new_store(ein_context *c)
{
    ein_weights *w = NULL;
    assert_int_equal(ein_weights_create(&w, c), EIN_OK);
    return w;
}

static i64 bytes_of_all(const ein_weights *w, const ein_context *c)
{
    i64 sum = 0;
    for (int d = 0; d < ein_context_device_count(c); d++) sum += ein_weights_device_bytes(w, d);
    return sum;
}

static i64 parameter_bytes(const ein_graph *g)
{
    i64 sum = 0;
    for (int i = 0; i < g->g.leaves.n; i++)
        if (g->g.leaves.items[i].kind == LEAF_PARAMETER)
            sum += 4 * ein__value_numel(&g->g, g->g.leaves.items[i].value);
    return sum;
}

/* y = silu(x w^T), w [n, k]. */
static ein_graph *one_product(int64_t rows, int64_t n, int64_t k)
{
    ein_graph *g = NULL;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(rows, k)),
               w = ein_parameter(g, "w", EIN_F32, SHAPE(n, k));
    ein_output(g, "y", ein_silu(g, ein_linear(g, x, w, NONE)));
    assert_string_equal(ein_graph_error(g), "");
    return g;
}

/* ---- sharing ------------------------------------------------------------------------------------------ */

static small_llama model(int seq)
{
    return (small_llama){.hidden = 32,
                         .heads = 4,
                         .kv_heads = 2,
                         .head_size = 8,
                         .ffn = 48,
                         .layers = 2,
                         .vocabulary = 40,
                         .batch = 1,
                         .seq = seq,
                         .cache = 12};
}

static void share_on(const char *machine, const char *cache)
{
    ein_context *c = open_context(machine, cache);
    ein_weights *w = new_store(c);
    ein_program *p[2];
    i64 placed[MAX_DEVICES];
    for (int i = 0; i < 2; i++) {
        small_llama m = model(i == 0 ? 5 : 1);
        ein_graph *g = small_llama_graph(&m);
        trial t;
        trial_make(&t, g);
        trial_add_weights(&t, w);
        p[i] =
            compile_program(c, g, &(ein_compile_options){.size = sizeof(ein_compile_options), .weights = w});
        for (int d = 0; d < ein_context_device_count(c); d++) {
            if (i == 0) placed[d] = ein_weights_device_bytes(w, d);
            assert_int_equal(ein_weights_device_bytes(w, d), placed[d]);
        }
        assert_int_equal(program_stats(p[i]).weight_bytes, bytes_of_all(w, c));
        assert_true(bytes_of_all(w, c) >= parameter_bytes(g));
        if (ein_context_device_count(c) == 1) assert_int_equal(bytes_of_all(w, c), parameter_bytes(g));
        ein_state *st = NULL;
        assert_int_equal(ein_state_create(&st, p[i]), EIN_OK);
        trial_set_scalar(&t, "length", i == 0 ? 5 : 1);
        trial_check(&t, p[i], st);
        ein_state_free(st);
        trial_free(&t);
        ein_graph_free(g);
    }
    for (int i = 0; i < 2; i++) ein_program_free(p[i]);
    assert_int_equal(ein_weights_device_bytes(w, 0), placed[0]); /* they outlive the programs */
    ein_weights_free(w);
    ein_context_free(c);
}

static void shared(void **state)
{
    share_on("host:1", *state);
    share_on("host:3", *state);
}

static void device_bytes_are_tolerant(void **state)
{
    ein_context *c = open_context("host:2", *state);
    ein_weights *w = new_store(c);
    assert_int_equal(ein_weights_device_bytes(NULL, 0), 0);
    assert_int_equal(ein_weights_device_bytes(w, 0), 0);
    assert_int_equal(ein_weights_device_bytes(w, -1), 0);
    assert_int_equal(ein_weights_device_bytes(w, 1000), 0);
    ein_weights_free(w);
    ein_weights_free(NULL);
    ein_context_free(c);
}

/* Copied data may change at once, borrowed data once they are placed. */
static void borrowed_and_copied(void **state)
{
    for (int keep = EIN_BORROW; keep <= EIN_COPY; keep++) {
        ein_graph *g = one_product(6, 8, 10);
        ein_context *c = open_context("host:2", *state);
        ein_weights *w = new_store(c);
        float data[80];
        trial t;
        trial_make(&t, g);
        memcpy(data, trial_data(&t, "w"), sizeof data);
        assert_int_equal(ein_weights_add(w, "w", EIN_F32, SHAPE(8, 10), data, (ein_keep)keep), EIN_OK);
        if (keep == EIN_COPY) memset(data, 0, sizeof data);
        ein_program *p =
            compile_program(c, g, &(ein_compile_options){.size = sizeof(ein_compile_options), .weights = w});
        memset(data, 0, sizeof data);
        trial_check(&t, p, NULL);
        ein_program_free(p);
        ein_weights_free(w);
        trial_free(&t);
        ein_context_free(c);
        ein_graph_free(g);
    }
}

/* ---- conversion --------------------------------------------------------------------------------------- */

/* A program that gives out its parameter, [20,30,1000], of which each device has rows and columns (or, plan NULL,
 * what the search gives it). */
static ein_graph *parameter_out(ein_dtype dtype)
{
    ein_graph *g = NULL;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_output(g, "y", ein_parameter(g, "w", dtype, SHAPE(20, 30, 1000)));
    assert_string_equal(ein_graph_error(g), "");
    return g;
}

static const char corners[] =
    "{\"ein_plan\":1,\"devices\":2,\"nodes\":[],\"leaves\":[{\"leaf\":0,\"kind\":\"parameter\",\"name\":\"w\",\"axes\":["
    "{\"extent\":20,\"lo\":[0,7],\"hi\":[7,20]},{\"extent\":30,\"lo\":[0],\"hi\":[30]},{\"extent\":1000,\"lo\":[0,333],\"hi\":[333,1000]}],"
    "\"devices\":[[0],[1],[1],[0,1]]}],\"carries\":[],\"predicted_us\":0,\"predicted_bytes\":0,\"states_searched\":0}";

static void convert(ein_context *c, ein_dtype store, ein_dtype graph, const char *plan)
{
    enum { N = 20 * 30 * 1000 };
    i64 from = ein__dtype_bytes(store), to = ein__dtype_bytes(graph);
    ein_weights *w = new_store(c);
    ein_graph *g = parameter_out(graph);
    char *data = malloc((size_t)(N * from)), *y = malloc((size_t)(N * to)), want[8];
    assert_true(data != NULL && y != NULL);
    for (int i = 0; i < N; i++) ein__dtype_write(store, (double)(i % 70001) * 0.37 - 9000, data + i * from);
    assert_int_equal(ein_weights_add(w, "w", store, SHAPE(20, 30, 1000), data, EIN_BORROW), EIN_OK);
    ein_program *p = compile_program(c, g, &(ein_compile_options){.size = sizeof(ein_compile_options), .weights = w, .plan = plan});
    i64 there = plan == NULL ? N : 7 * 30 * 1000 + 13 * 30 * 333 + 2 * 13 * 30 * 667; /* the last corner is on both */
    assert_int_equal(bytes_of_all(w, c), there * to);
    assert_int_equal(program_stats(p).weight_bytes, there * to);
    ein_run *r = NULL;
    assert_int_equal(ein_run_create(&r, p), EIN_OK);
    assert_int_equal(ein_run_output(r, "y", y, (size_t)(N * to)), EIN_OK);
    assert_int_equal(ein_run_once(r), EIN_OK);
    for (int i = 0; i < N; i++) {
        ein__dtype_write(graph, ein__dtype_read(store, data + i * from), want);
        assert_memory_equal(y + i * to, want, (size_t)to);
    }
    ein_run_free(r);
    ein_program_free(p);
    ein_weights_free(w);
    ein_graph_free(g);
    free(data);
    free(y);
}

/* Floats become the graph's while they are placed, in whatever pieces; integers stay. */
static void converted_while_placed(void **state)
{
    ein_context *c = open_context("host:2", *state);
    convert(c, EIN_BF16, EIN_F32, NULL);
    convert(c, EIN_BF16, EIN_F32, corners);
    convert(c, EIN_F32, EIN_BF16, NULL);
    convert(c, EIN_F32, EIN_BF16, corners);
    convert(c, EIN_F32, EIN_F16, corners);
    convert(c, EIN_F16, EIN_F64, corners);
    convert(c, EIN_F64, EIN_BF16, corners);
    convert(c, EIN_BF16, EIN_BF16, corners);
    convert(c, EIN_I8, EIN_I8, corners);
    convert(c, EIN_I64, EIN_I64, corners);
    convert(c, EIN_BOOL, EIN_BOOL, NULL);
    ein_context_free(c);
}

/* What is placed stays as it is placed: a program that wants it otherwise is refused. */
static void first_dtype_binds(void **state)
{
    static const float data[80];
    ein_context *c = open_context("host:2", *state);
    ein_weights *w = new_store(c);
    ein_graph *g[3] = {NULL};
    const ein_dtype types[] = {EIN_BF16, EIN_F32, EIN_BF16};
    ein_program *p[3] = {NULL};
    ein_compile_options o = {.size = sizeof o, .weights = w};
    assert_int_equal(ein_weights_add(w, "w", EIN_F32, SHAPE(8, 10), data, EIN_BORROW), EIN_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ein_graph_create(&g[i]), EIN_OK);
        ein_output(g[i], i < 2 ? "y" : "z", ein_parameter(g[i], "w", types[i], SHAPE(8, 10)));
        assert_int_equal(ein_compile(&p[i], c, g[i], &o), i == 1 ? EIN_DTYPE : EIN_OK);
        assert_int_equal(bytes_of_all(w, c), 2 * 80);
        if (i == 1)
            assert_string_equal(ein_context_error(c),
                                "parameter 'w' is placed as bf16, for a program before; it is f32 in the graph");
    }
    for (int i = 0; i < 3; i++) {
        ein_program_free(p[i]);
        ein_graph_free(g[i]);
    }
    ein_weights_free(w);
    ein_context_free(c);
}

/* ---- what does not fit -------------------------------------------------------------------------------- */

static void refused(ein_context *c, ein_weights *w, const ein_graph *g, ein_status status, const char *line)
{
    ein_program *p = NULL;
    ein_compile_options o = {.size = sizeof o, .weights = w};
    assert_int_equal(ein_compile(&p, c, g, &o), status);
    assert_null(p);
    if (strstr(ein_context_error(c), line) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", line, ein_context_error(c));
    assert_int_equal(bytes_of_all(w, c), 0); /* nothing is placed by a compilation that fails */
}

static void misfits_are_named(void **state)
{
    static const float data[96];
    ein_context *c = open_context("host:2", *state);
    ein_weights *w = new_store(c);
    ein_graph *g = one_product(6, 8, 10);
    refused(c, w, g, EIN_INVALID, "'w' is not in the weight store");
    assert_int_equal(ein_weights_add(w, "w", EIN_F32, SHAPE(12, 8), data, EIN_BORROW), EIN_OK);
    refused(c, w, g, EIN_SHAPE, "'w' is [12,8] in the store, [8,10] in the graph");
    ein_weights_free(w);
    w = new_store(c);
    assert_int_equal(ein_weights_add(w, "w", EIN_F32, SHAPE(10, 8), data, EIN_BORROW), EIN_OK);
    refused(c, w, g, EIN_SHAPE, "'w' is [10,8] in the store, [8,10] in the graph");
    ein_weights_free(w);
    w = new_store(c);
    assert_int_equal(ein_weights_add(w, "w", EIN_I32, SHAPE(8, 10), data, EIN_BORROW), EIN_OK);
    refused(c, w, g, EIN_DTYPE, "'w' is i32 in the store, f32 in the graph");
    ein_weights_free(w);
    ein_graph_free(g);
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_output(g, "y", ein_parameter(g, "w", EIN_I64, SHAPE(8, 10)));
    w = new_store(c);
    assert_int_equal(ein_weights_add(w, "w", EIN_F32, SHAPE(8, 10), data, EIN_BORROW), EIN_OK);
    refused(c, w, g, EIN_DTYPE, "'w' is f32 in the store, i64 in the graph");
    ein_weights_free(w);
    ein_graph_free(g);
    ein_context_free(c);
}

static void bad_tensors(void **state)
{
    static const float data[4];
    ein_context *c = open_context("host:1", *state);
    ein_weights *w = new_store(c);
    assert_int_equal(ein_weights_add(w, "a", EIN_F32, SHAPE(4), data, EIN_COPY), EIN_OK);
    assert_int_equal(ein_weights_add(w, "a", EIN_F32, SHAPE(4), data, EIN_COPY), EIN_INVALID);
    assert_string_equal(ein_context_error(c), "weights: 'a' is there already");
    assert_int_equal(ein_weights_add(w, "b", EIN_F32, SHAPE(4), NULL, EIN_COPY), EIN_INVALID);
    assert_string_equal(ein_context_error(c), "weights: 'b' has no data");
    assert_int_equal(ein_weights_add(w, "b", EIN_F8E4M3, SHAPE(4), data, EIN_COPY), EIN_DTYPE);
    assert_int_equal(ein_weights_add(w, "b", EIN_F32, SHAPE(2, -2), data, EIN_COPY), EIN_SHAPE);
    assert_int_equal(
        ein_weights_add(w, "b", EIN_F32, 9, (int64_t[9]){1, 1, 1, 1, 1, 1, 1, 1, 1}, data, EIN_COPY),
        EIN_SHAPE);
    assert_int_equal(ein_weights_add(w, "", EIN_F32, SHAPE(4), data, EIN_COPY), EIN_INVALID);
    assert_int_equal(ein_weights_add(NULL, "b", EIN_F32, SHAPE(4), data, EIN_COPY), EIN_INVALID);
    ein_weights_free(w);
    ein_context_free(c);
}

static void foreign_and_no_store(void **state)
{
    ein_context *c = open_context("host:1", *state), *d = open_context("host:1", *state);
    ein_weights *w = new_store(d);
    ein_graph *g = one_product(6, 8, 10);
    ein_program *p = NULL;
    ein_run *r = NULL;
    ein_compile_options o = {.size = sizeof o, .weights = w};
    assert_int_equal(ein_compile(&p, c, g, &o), EIN_INVALID);
    assert_string_equal(ein_context_error(c), "compile: weights or state belong to another context");
    p = compile_program(c, g, NULL); /* to look at */
    assert_true(strlen(ein_program_explain(p)) > 0);
    assert_int_equal(ein_run_create(&r, p), EIN_INVALID);
    assert_null(r);
    assert_string_equal(ein_context_error(c),
                        "the program was compiled without weights: it can only be explained");
    ein_program_free(p);
    ein_graph_free(g);
    ein_weights_free(w);
    ein_context_free(c);
    ein_context_free(d);
}

/* ---- the first layout binds --------------------------------------------------------------------------- */

static void first_layout_binds(void **state)
{
    ein_context *c = open_context("host:2", *state);
    ein_weights *w = new_store(c);
    ein_graph *g = one_product(6, 8, 10), *h = one_product(200, 8, 10);
    trial t, u;
    trial_make(&t, g);
    trial_make(&u, h);
    trial_add_weights(&t, w);
    char *plan = odd_plan(c, g, 30), *other = odd_plan(c, h, 40);
    ein_compile_options o = {.size = sizeof o, .weights = w, .plan = plan};
    ein_program *first = compile_program(c, g, &o), *second, *third = NULL;
    assert_int_equal(ein_weights_device_bytes(w, 1), 4 * 30);
    assert_int_equal(ein_weights_device_bytes(w, 0), 4 * 50);
    trial_check(&t, first, NULL);
    o.plan = NULL;
    second = compile_program(c, h, &o);
    assert_int_equal(ein_weights_device_bytes(w, 1), 4 * 30);
    trial_check(&u, second, NULL);
    assert_int_equal(program_stats(second).weight_bytes, 4 * 80);
    o.plan = other;
    assert_int_equal(ein_compile(&third, c, h, &o), EIN_NO_PLAN);
    assert_string_equal(ein_context_error(c), "the plan lays 'w' otherwise than it is placed");
    ein_program_free(first);
    ein_program_free(second);
    ein_weights_free(w);
    trial_free(&t);
    trial_free(&u);
    free(plan);
    free(other);
    ein_graph_free(g);
    ein_graph_free(h);
    ein_context_free(c);
}

static ein_graph *layers(int n, bool taps)
{
    ein_graph *g = NULL;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(4, 12));
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        x = ein_silu(g, ein_linear(g, x, ein_parameter(g, name, EIN_F32, SHAPE(12, 12)), NONE));
        snprintf(name, sizeof name, "y%d", i);
        if (taps || i == n - 1) ein_output(g, name, x);
    }
    assert_string_equal(ein_graph_error(g), "");
    return g;
}

/* Layers placed one by one, each its own way, then used by a program whose layers would be a loop. */
static void layers_that_lie_apart(void **state)
{
    ein_context *c = open_context("host:2", *state);
    ein_weights *w = new_store(c);
    ein_graph *one = layers(1, false), *all = layers(3, true), *rolled = layers(3, false);
    trial t, u;
    trial_make(&t, all);
    trial_make(&u, rolled);
    trial_add_weights(&t, w);
    char *plan = odd_plan(c, one, 60);
    ein_compile_options o = {.size = sizeof o, .weights = w, .plan = plan};
    ein_program *p[3];
    p[0] = compile_program(c, one, &o);
    o.plan = NULL;
    p[1] = compile_program(c, all, &o);
    trial_check(&t, p[1], NULL);
    p[2] = compile_program(c, rolled, &o);
    trial_check(&u, p[2], NULL);
    for (int i = 0; i < 3; i++) ein_program_free(p[i]);
    trial_free(&t);
    trial_free(&u);
    free(plan);
    ein_weights_free(w);
    ein_context_free(c);
    ein_graph_free(one);
    ein_graph_free(all);
    ein_graph_free(rolled);
}

#define IN_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, directory_up, directory_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(shared),
        IN_DIRECTORY(device_bytes_are_tolerant),
        IN_DIRECTORY(borrowed_and_copied),
        IN_DIRECTORY(converted_while_placed),
        IN_DIRECTORY(first_dtype_binds),
        IN_DIRECTORY(misfits_are_named),
        IN_DIRECTORY(bad_tensors),
        IN_DIRECTORY(foreign_and_no_store),
        IN_DIRECTORY(first_layout_binds),
        IN_DIRECTORY(layers_that_lie_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
