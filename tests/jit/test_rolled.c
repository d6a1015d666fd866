/* SPDX-License-Identifier: Apache-2.0 */
/* Repeated layers stay rolled in graph, program, kernels and cache, and compute the same; what only resembles
 * repetition computes the same too. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "jit/context.h"
#include "tests/harness/small_llama.h"
#include "tests/harness/trial.h"

#define SHAPE(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
#define NONE ((ein_tensor){0})

static const char *const MACHINES[] = {"host:1", "host:3"};

static ein_graph *new_graph(void)
{
    ein_graph *g = NULL;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    return g;
}

static ein_tensor parameter(ein_graph *g, const char *part, int i, int64_t n, int64_t k)
{
    char name[32];
    snprintf(name, sizeof name, "%s%d", part, i);
    return ein_parameter(g, name, EIN_F32, SHAPE(n, k));
}

static ein_tensor layer(ein_graph *g, ein_tensor x, const char *part, int i, int64_t width, int64_t ffn)
{
    char in[16], out[16];
    snprintf(in, sizeof in, "%s.in", part);
    snprintf(out, sizeof out, "%s.out", part);
    ein_tensor y = ein_linear(g, ein_rms_norm(g, x, NONE, 1e-5), parameter(g, in, i, ffn, width), NONE);
    return ein_add(g, x, ein_linear(g, ein_silu(g, y), parameter(g, out, i, width, ffn), NONE));
}

/* Right on every machine, then free it. */
static void check(ein_graph *g)
{
    char *cache = make_directory();
    assert_string_equal(ein_graph_error(g), "");
    for (size_t i = 0; i < sizeof MACHINES / sizeof *MACHINES; i++) trial_once(g, MACHINES[i], cache, NULL);
    ein_graph_free(g);
    remove_directory(cache);
}

/* ---- 2 layers and 40 ---------------------------------------------------------------------------------- */

/* Layers that share a rotary table and a mask that ops make from an input. */
static ein_graph *masked_layers(int n)
{
    ein_graph *g = new_graph();
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(2, 5, 16)), cosine, sine;
    ein_tensor mask = ein_map(g, "where(x0 > 0, 1, 0.5)", 1,
                              (ein_tensor[]){ein_input(g, "mask", EIN_F32, SHAPE(2, 5, 16))});
    ein_rope_tables(g, 5, 4, 1e4, &cosine, &sine);
    for (int i = 0; i < n; i++) {
        ein_tensor y =
            ein_reshape(g, ein_linear(g, x, parameter(g, "q", i, 16, 16), NONE), SHAPE(2, 5, 4, 4));
        y = ein_reshape(g, ein_rope(g, y, cosine, sine, (ein_scalar){0}), SHAPE(2, 5, 16));
        x = layer(g, ein_add(g, x, ein_mul(g, y, mask)), "f", i, 16, 24);
        x = ein_rms_norm(g, x, NONE, 1e-5);
    }
    ein_output(g, "y", x);
    assert_string_equal(ein_graph_error(g), "");
    return g;
}

static long directory_bytes(const char *path)
{
    char file[1024];
    struct stat s;
    long sum = 0;
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *x; (x = readdir(d)) != NULL;) {
        snprintf(file, sizeof file, "%s/%s", path, x->d_name);
        if (stat(file, &s) == 0 && S_ISREG(s.st_mode)) sum += s.st_size;
    }
    closedir(d);
    return sum;
}

typedef struct shape {
    int nodes, loops, count, kernels, steps;
    long cache_bytes;
    char *print, *source;
} shape;

static shape compile_layers(int n, const char *machine)
{
    char *cache = make_directory();
    ein_context *c = open_context(machine, cache);
    ein_weights *w = NULL;
    ein_graph *g = masked_layers(n);
    trial t;
    trial_make(&t, g);
    assert_int_equal(ein_weights_create(&w, c), EIN_OK);
    trial_add_weights(&t, w);
    ein_program *p =
        compile_program(c, g, &(ein_compile_options){.size = sizeof(ein_compile_options), .weights = w});
    trial_check(&t, p, NULL);
    shape s = {.nodes = p->graph.nodes.n,
               .loops = p->graph.loops.n,
               .count = p->graph.loops.items[0].count,
               .kernels = p->program.n_kernels,
               .steps = p->program.n_steps,
               .cache_bytes = directory_bytes(cache),
               .print = strdup(ein_program_print(p)),
               .source = strdup(ein_program_source(p))};
    ein_program_free(p);
    ein_weights_free(w);
    trial_free(&t);
    ein_graph_free(g);
    ein_context_free(c);
    remove_directory(cache);
    return s;
}

static void forty_layers_are_two(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof MACHINES / sizeof *MACHINES; i++) {
        shape a = compile_layers(2, MACHINES[i]), b = compile_layers(40, MACHINES[i]);
        assert_int_equal(a.loops, 1);
        assert_int_equal(b.loops, 1);
        assert_int_equal(a.count, 2);
        assert_int_equal(b.count, 40);
        assert_int_equal(a.nodes, b.nodes);
        assert_int_equal(a.kernels, b.kernels);
        assert_int_equal(a.steps, b.steps);
        assert_string_equal(a.print, b.print);
        assert_string_equal(a.source, b.source);
        if (b.cache_bytes * 5 > a.cache_bytes * 6)
            fail_msg("cache: %ld and %ld bytes", a.cache_bytes, b.cache_bytes);
        for (shape *s = &a; s != NULL; s = s == &a ? &b : NULL) {
            free(s->print);
            free(s->source);
        }
    }
}

/* ---- models ------------------------------------------------------------------------------------------- */

/* Embedding, layers, head; the embedding is the head. */
static void tied_model(void **state)
{
    (void)state;
    check(small_llama_graph(&(small_llama){.hidden = 16,
                                           .heads = 4,
                                           .kv_heads = 2,
                                           .head_size = 4,
                                           .ffn = 20,
                                           .layers = 3,
                                           .vocabulary = 23,
                                           .batch = 1,
                                           .seq = 5,
                                           .tied = 1}));
}

static void encoder_and_decoder(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(5, 8)), y = ein_input(g, "y", EIN_F32, SHAPE(7, 8));
    x = ein_relu(g, x);
    for (int i = 0; i < 3; i++) x = layer(g, x, "encoder", i, 8, 12);
    ein_tensor memory = ein_softmax(g, x, 1);
    for (int i = 0; i < 4; i++) {
        ein_tensor scores = ein_softmax(g, ein_einsum(g, "sd,td->st", 2, (ein_tensor[]){y, memory}), 1);
        y = layer(g, ein_add(g, y, ein_matmul(g, scores, memory)), "decoder", i, 8, 10);
    }
    ein_output(g, "z", ein_linear(g, y, parameter(g, "head", 0, 9, 8), NONE));
    check(g);
}

/* The last layer's inner value, and a value carried beside another. */
static void two_carries(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(4, 8)), y = ein_input(g, "y", EIN_F32, SHAPE(4, 8));
    for (int i = 0; i < 5; i++) {
        ein_tensor sum = ein_map(g, "tanh(x0 - x1)", 2, (ein_tensor[]){x, y});
        y = ein_silu(g, ein_linear(g, ein_mul(g, sum, y), parameter(g, "w", i, 8, 8), NONE));
        x = sum;
    }
    ein_output(g, "x", x);
    ein_output(g, "y", y);
    check(g);
}

/* Two carries that start as the same value and part at once. */
static void common_start(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(4, 8)), y = x;
    for (int i = 0; i < 4; i++) {
        ein_tensor sum = ein_add(g, x, y);
        y = ein_silu(g, sum);
        x = ein_relu(g, sum);
    }
    ein_output(g, "x", x);
    ein_output(g, "y", y);
    check(g);
}

/* Two values that change places: each is the other's next. */
static void exchanged_carries(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(4, 8)), y = ein_input(g, "y", EIN_F32, SHAPE(4, 8));
    for (int i = 0; i < 5; i++) {
        ein_tensor a = ein_map(g, "x0 + 0.5 * x1", 2, (ein_tensor[]){x, y}),
                   b = ein_map(g, "tanh(x0)", 1, &x);
        x = b;
        y = a;
    }
    ein_output(g, "x", x);
    ein_output(g, "y", y);
    check(g);
}

/* A value that only views of it pass on. */
static void carried_view(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(4, 6));
    for (int i = 0; i < 4; i++) {
        x = ein_linear(g, ein_reshape(g, x, SHAPE(2, 2, 6)), parameter(g, "w", i, 6, 6), NONE);
        x = ein_reshape(g, x, SHAPE(4, 6));
    }
    ein_output(g, "y", x);
    check(g);
}

/* The same value as the loop's start and beside the loop. */
static void start_is_used_after(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor first = ein_relu(g, ein_input(g, "x", EIN_F32, SHAPE(4, 8))), x = first;
    for (int i = 0; i < 4; i++) x = layer(g, x, "f", i, 8, 12);
    ein_output(g, "y", ein_sub(g, x, first));
    check(g);
}

/* ---- what must not roll, or only in part -------------------------------------------------------------- */

static void tapped(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(4, 8));
    for (int i = 0; i < 5; i++) {
        x = layer(g, x, "f", i, 8, 12);
        if (i == 1) ein_output(g, "tap", x);
    }
    ein_output(g, "y", x);
    check(g);
}

/* An inner layer's value read again after all layers. */
static void read_later(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(4, 8)), kept = {0};
    for (int i = 0; i < 4; i++) {
        x = layer(g, x, "f", i, 8, 12);
        if (i == 1) kept = x;
    }
    ein_output(g, "y", ein_add(g, x, kept));
    check(g);
}

/* Every layer reads the two before it. */
static void two_layers_back(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(4, 8)), before = ein_input(g, "y", EIN_F32, SHAPE(4, 8));
    for (int i = 0; i < 5; i++) {
        ein_tensor next = ein_add(g, layer(g, x, "f", i, 8, 12), before);
        before = x;
        x = next;
    }
    ein_output(g, "y", x);
    check(g);
}

static void other_widths(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(4, 8));
    for (int i = 0; i < 3; i++) x = layer(g, x, "f", i, 8, 12 + 2 * i);
    ein_output(g, "y", x);
    check(g);
}

static void tied_layer(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(4, 8)), second = {0};
    for (int i = 0; i < 4; i++) {
        ein_tensor w = parameter(g, "w", i, 8, 8);
        if (i == 1) second = w;
        x = ein_silu(g, ein_linear(g, x, w, NONE));
    }
    ein_output(g, "y", ein_linear(g, x, second, NONE));
    check(g);
}

static void differing_constants(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(4, 8));
    for (int i = 0; i < 3; i++) {
        float table[8];
        for (int k = 0; k < 8; k++) table[k] = 0.1f * (float)(i * 8 + k) - 1;
        x = ein_mul(g, layer(g, x, "f", i, 8, 12), ein_constant(g, EIN_F32, SHAPE(8), table));
    }
    ein_output(g, "y", x);
    check(g);
}

static void inputs_of_layers(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(4, 8));
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "in%d", i);
        x = ein_add(g, layer(g, x, "f", i, 8, 12), ein_input(g, name, EIN_F32, SHAPE(4, 8)));
    }
    ein_output(g, "y", x);
    check(g);
}

/* Many small loops one after the other. */
static void many_loops(void **state)
{
    (void)state;
    ein_graph *g = new_graph();
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(4, 3));
    for (int i = 0; i < 70; i++) {
        float table[3] = {(float)i, 1, 2};
        x = ein_add(g, x, ein_constant(g, EIN_F32, SHAPE(3), table));
        x = ein_map(g, "sin(x0)", 1, (ein_tensor[]){ein_map(g, "sin(x0)", 1, &x)});
    }
    ein_output(g, "y", x);
    check(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forty_layers_are_two), cmocka_unit_test(tied_model),
        cmocka_unit_test(encoder_and_decoder),  cmocka_unit_test(two_carries),
        cmocka_unit_test(common_start),
        cmocka_unit_test(exchanged_carries),    cmocka_unit_test(carried_view),
        cmocka_unit_test(start_is_used_after),  cmocka_unit_test(tapped),
        cmocka_unit_test(read_later),           cmocka_unit_test(two_layers_back),
        cmocka_unit_test(other_widths),         cmocka_unit_test(tied_layer),
        cmocka_unit_test(differing_constants),  cmocka_unit_test(inputs_of_layers),
        cmocka_unit_test(many_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
