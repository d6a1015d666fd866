/* SPDX-License-Identifier: Apache-2.0 */
/* What a program's identity is free of (names, letters, build order, the process) and what it is made of:
 * whatever could change the plan or the code. A hit neither searches nor compiles and gives the same bits. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/hash.h"
#include "core/base/identity.h"
#include "tests/harness/small_llama.h"
#include "tests/harness/trial.h"

#define SHAPE(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
#define NONE ((ein_tensor){0})
#define FRESH_OPTIONS                       \
    {                                       \
        .size = sizeof(ein_compile_options) \
    }

/* Stands for that of the build, so that a test can be another build. */
static const char *code_identity = "one build";
const char *ein__code_identity(void) { return code_identity; }

/* ---- a graph with knobs ------------------------------------------------------------------------------- */

typedef struct knobs {
    const char *prefix; /* of all names */
    const char *equation;
    bool other_order, as_matmul;
    int64_t rows;
    float constant;
    double factor, epsilon;
} knobs;

static const knobs USUAL = {
    .prefix = "", .equation = "ik,kn->in", .rows = 5, .constant = 1, .factor = 2, .epsilon = 1e-5};

static const char *named(const knobs *k, const char *name, char room[32])
{
    snprintf(room, 32, "%s%s", k->prefix, name);
    return room;
}

static ein_tensor product(ein_graph *g, const knobs *k, ein_tensor a, ein_tensor b)
{
    return k->as_matmul ? ein_matmul(g, a, b) : ein_einsum(g, k->equation, 2, (ein_tensor[]){a, b});
}

/* y = rms_norm(factor * (x a) + table) b, rotated at `at`, and a cache of it. */
static ein_graph *build(const knobs *k)
{
    ein_graph *g = NULL;
    char name[32], expression[48];
    float table[12] = {k->constant, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    ein_tensor x = NONE, a = NONE, b, cache, cosine, sine;
    ein_scalar at;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    if (!k->other_order) x = ein_input(g, named(k, "x", name), EIN_F32, SHAPE(k->rows, 8));
    at = ein_scalar_input(g, named(k, "at", name));
    cache = ein_state_tensor(g, named(k, "cache", name), EIN_F32, SHAPE(16, 12));
    if (!k->other_order) a = ein_parameter(g, named(k, "a", name), EIN_F32, SHAPE(8, 12));
    b = ein_parameter(g, named(k, "b", name), EIN_F32, SHAPE(12, 12));
    if (k->other_order) {
        a = ein_parameter(g, named(k, "a", name), EIN_F32, SHAPE(8, 12));
        x = ein_input(g, named(k, "x", name), EIN_F32, SHAPE(k->rows, 8));
        ein_softmax(g, product(g, k, x, a), 1); /* reaches no output */
    }
    ein_tensor turned = k->other_order ? ein_silu(g, b) : NONE;
    ein_tensor y = product(g, k, x, a);
    snprintf(expression, sizeof expression, "%.17g * x0 + x1", k->factor);
    y = ein_map(g, expression, 2, (ein_tensor[]){y, ein_constant(g, EIN_F32, SHAPE(12), table)});
    y = ein_rms_norm(g, y, NONE, k->epsilon);
    if (!k->other_order) turned = ein_silu(g, b);
    ein_rope_tables(g, 32, 6, 1e4, &cosine, &sine);
    y = ein_reshape(g, product(g, k, y, turned), SHAPE(1, k->rows, 2, 6));
    y = ein_reshape(g, ein_rope(g, y, cosine, sine, at), SHAPE(k->rows, 12));
    ein_output(g, named(k, "y", name), y);
    ein_output(g, named(k, "sum", name), ein_sum(g, ein_state_append(g, cache, y, 0, at), 1, (int[]){0}, 0));
    assert_string_equal(ein_graph_error(g), "");
    return g;
}

/* ---- hits and misses ---------------------------------------------------------------------------------- */

/* Compile in a context of its own, check the results; true: neither searched nor compiled. */
static bool is_hit(const char *machine, const char *cache, const knobs *k, const ein_compile_options *given)
{
    ein_graph *g = build(k);
    ein_context *c = open_context(machine, cache);
    ein_weights *w = NULL;
    ein_state *st = NULL;
    trial t;
    trial_make(&t, g);
    assert_int_equal(ein_weights_create(&w, c), EIN_OK);
    trial_add_weights(&t, w);
    ein_compile_options o = *given;
    o.weights = w;
    ein_program *p = compile_program(c, g, &o);
    ein_program_stats s = program_stats(p);
    assert_int_equal(ein_state_create(&st, p), EIN_OK);
    trial_check(&t, p, st);
    ein_state_free(st);
    ein_program_free(p);
    ein_weights_free(w);
    trial_free(&t);
    ein_context_free(c);
    ein_graph_free(g);
    if (s.compiles != 0) assert_int_equal(s.compiles, s.kernels);
    if (given->plan == NULL) assert_int_equal(s.searches, s.compiles != 0);
    return s.searches == 0 && s.compiles == 0;
}

static const ein_compile_options DEFAULTS = FRESH_OPTIONS;

static bool is_hit_knobs(const char *cache, const knobs *k) { return is_hit("host:2", cache, k, &DEFAULTS); }

static int directory_up(void **state)
{
    *state = make_directory();
    code_identity = "one build";
    return is_hit_knobs(*state, &USUAL); /* 0: a miss, as it must be */
}

static int directory_down(void **state)
{
    remove_directory(*state);
    return 0;
}

static void names_hit(void **state)
{
    knobs k = USUAL;
    assert_true(is_hit_knobs(*state, &k));
    k.prefix = "renamed.";
    assert_true(is_hit_knobs(*state, &k));
    k.equation = "Zq,qa->Za";
    assert_true(is_hit_knobs(*state, &k));
    k.other_order = true;
    assert_true(is_hit_knobs(*state, &k));
}

/* A product that is worth cutting, with its labels named by `letters`: which one is cut; -1: none. */
static int wide(const char *cache, const char *letters, ein_program_stats *stats)
{
    ein_graph *g = NULL;
    ein_context *c = open_context("host:2", cache);
    char equation[16];
    int cut = -1;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_tensor operands[2] = {ein_input(g, "x", EIN_F32, SHAPE(256, 512)),
                              ein_input(g, "w", EIN_F32, SHAPE(512, 256))};
    snprintf(equation, sizeof equation, "%.2s,%.2s->%c%c", letters, letters + 1, letters[0], letters[2]);
    ein_output(g, "y", ein_einsum(g, equation, 2, operands));
    ein_program *p = compile_program(c, g, NULL);
    *stats = program_stats(p);
    for (int i = 0; i < 3; i++) {
        char entry[32];
        snprintf(entry, sizeof entry, "{\"labels\":[\"%c\"]", letters[i]);
        if (strstr(ein_program_plan(p), entry) != NULL) cut = i;
    }
    ein_program_free(p);
    ein_graph_free(g);
    ein_context_free(c);
    return cut;
}

/* A plan that cuts a label, found under one name of the label and used under another. */
static void letters_of_cuts_hit(void **state)
{
    ein_program_stats first, second;
    int cut = wide(*state, "ikn", &first);
    assert_true(cut >= 0);
    assert_int_equal(wide(*state, "abc", &second), cut);
    assert_int_equal(first.searches, 1);
    assert_int_equal(second.searches + second.compiles, 0);
}

#define KNOB(member, x)                                                         \
    do {                                                                        \
        knobs k = USUAL;                                                        \
        k.member = (x);                                                         \
        if (is_hit_knobs(*state, &k)) fail_msg("a change of %s hits", #member); \
        if (!is_hit_knobs(*state, &k)) fail_msg("the same %s misses", #member); \
    } while (0)

static void changes_miss(void **state)
{
    KNOB(rows, 6);
    KNOB(constant, 1.5f);
    KNOB(factor, 3);
    KNOB(factor, 2.0000000000000004);
    KNOB(factor, -2);
    KNOB(epsilon, 1e-6);
    assert_true(is_hit_knobs(*state, &USUAL));
}

/* Another spelling may miss, but then has an entry of its own: the two do not push each other out. */
static void spellings_stay_apart(void **state)
{
    knobs k = USUAL;
    k.as_matmul = true;
    is_hit_knobs(*state, &k);
    assert_true(is_hit_knobs(*state, &k));
    assert_true(is_hit_knobs(*state, &USUAL));
    assert_true(is_hit_knobs(*state, &k));
}

static void machines_miss(void **state)
{
    assert_false(is_hit("host:1", *state, &USUAL, &DEFAULTS));
    assert_false(is_hit("host:3", *state, &USUAL, &DEFAULTS));
    assert_true(is_hit("host:3", *state, &USUAL, &DEFAULTS));
    assert_true(is_hit("host:2", *state, &USUAL, &DEFAULTS));
}

static void options_miss(void **state)
{
    ein_compile_options o = FRESH_OPTIONS;
    o.counting = 1;
    assert_false(is_hit("host:2", *state, &USUAL, &o));
    assert_true(is_hit("host:2", *state, &USUAL, &o));
    assert_true(is_hit("host:2", *state, &USUAL, &DEFAULTS));
}

static void builds_miss(void **state)
{
    code_identity = "another build";
    assert_false(is_hit_knobs(*state, &USUAL));
    assert_true(is_hit_knobs(*state, &USUAL));
    code_identity = "one build";
    assert_true(is_hit_knobs(*state, &USUAL));
}

/* A program's own plan, forced, is another program: its plan did not come from a search. */
static void forced_plans_miss(void **state)
{
    ein_context *c = open_context("host:2", *state);
    ein_graph *g = build(&USUAL);
    ein_program *p = compile_program(c, g, &DEFAULTS);
    char *plan = strdup(ein_program_plan(p));
    ein_program_free(p);
    ein_graph_free(g);
    ein_context_free(c);
    ein_compile_options o = FRESH_OPTIONS;
    o.plan = plan;
    assert_false(is_hit("host:2", *state, &USUAL, &o));
    assert_true(is_hit("host:2", *state, &USUAL, &o));
    assert_true(is_hit("host:2", *state, &USUAL, &DEFAULTS));
    free(plan);
}

/* Compile with `w` in context c. */
static ein_program_stats compile_with(ein_context *c, const ein_graph *g, ein_weights *w, const char *plan)
{
    ein_compile_options o = FRESH_OPTIONS;
    o.weights = w;
    o.plan = plan;
    ein_program *p = compile_program(c, g, &o);
    ein_program_stats s = program_stats(p);
    ein_program_free(p);
    return s;
}

/* Layouts that are placed already are part of the identity, unless they are those that are free to choose. */
static void placed_weights_count(void **state)
{
    ein_context *c = open_context("host:2", *state);
    ein_graph *g = build(&USUAL);
    char *plans[3] = {NULL, odd_plan(c, g, 30), odd_plan(c, g, 40)};
    trial t;
    trial_make(&t, g);
    for (int i = 0; i < 3; i++) {
        ein_weights *w = NULL;
        assert_int_equal(ein_weights_create(&w, c), EIN_OK);
        trial_add_weights(&t, w);
        compile_with(c, g, w, plans[i]);
        ein_program_stats first = compile_with(c, g, w, NULL), again = compile_with(c, g, w, NULL);
        assert_int_equal(first.searches, i > 0);
        assert_int_equal(first.compiles, i > 0 ? first.kernels : 0);
        assert_int_equal(again.searches + again.compiles, 0);
        ein_weights_free(w);
        free(plans[i]);
    }
    trial_free(&t);
    ein_graph_free(g);
    ein_context_free(c);
}

/* ---- two kernels that differ in a constant, in one process -------------------------------------------- */

static void scaled_product(ein_context *c, const char *expression, const float *expected)
{
    static const float a[4] = {3, -2, -5, -18}, b[2] = {1, 1};
    float y[2] = {0};
    ein_graph *g = NULL;
    ein_run *r = NULL;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_tensor operands[2] = {ein_input(g, "a", EIN_F32, SHAPE(2, 2)),
                              ein_input(g, "b", EIN_F32, SHAPE(2, 1))};
    ein_tensor x = ein_einsum(g, "ik,kj->ij", 2, operands);
    ein_output(g, "y", ein_map(g, expression, 1, &x));
    ein_program *p = compile_program(c, g, NULL);
    assert_int_equal(ein_run_create(&r, p), EIN_OK);
    assert_int_equal(ein_run_input(r, "a", a, sizeof a), EIN_OK);
    assert_int_equal(ein_run_input(r, "b", b, sizeof b), EIN_OK);
    assert_int_equal(ein_run_output(r, "y", y, sizeof y), EIN_OK);
    assert_int_equal(ein_run_once(r), EIN_OK);
    assert_memory_equal(y, expected, sizeof y);
    ein_run_free(r);
    ein_program_free(p);
    ein_graph_free(g);
}

static void constants_do_not_collide(void **state)
{
    ein_context *c = open_context("host:2", *state);
    for (int i = 0; i < 2; i++) { /* compiled, then from the cache */
        scaled_product(c, "-5 * x0", (float[]){-5, 115});
        scaled_product(c, "2 * x0", (float[]){2, -46});
    }
    ein_context_free(c);
}

/* ---- processes ---------------------------------------------------------------------------------------- */

/* The other process: compile, run, say what it took and which bits came out. */
static int child(const char *cache)
{
    ein_graph *g = small_llama_graph(&(small_llama){.hidden = 16,
                                                    .heads = 4,
                                                    .kv_heads = 2,
                                                    .head_size = 4,
                                                    .ffn = 24,
                                                    .layers = 3,
                                                    .vocabulary = 19,
                                                    .batch = 2,
                                                    .seq = 5});
    ein_context *c = open_context("host:3", cache);
    ein_weights *w = NULL;
    trial t;
    size_t n;
    char digits[33];
    trial_make(&t, g);
    ein_weights_create(&w, c);
    trial_add_weights(&t, w);
    ein_program *p =
        compile_program(c, g, &(ein_compile_options){.size = sizeof(ein_compile_options), .weights = w});
    void *y = trial_outputs(&t, p, NULL, &n);
    ein__hash_print(ein__hash(y, n, 0), digits);
    ein_program_stats s = program_stats(p);
    printf("%d searches, %d kernels compiled, %s\n", s.searches, s.compiles != 0 ? s.kernels : 0, digits);
    free(y);
    ein_program_free(p);
    ein_weights_free(w);
    trial_free(&t);
    ein_graph_free(g);
    ein_context_free(c);
    return 0;
}

static void run_child(const char *cache, char *said, size_t n)
{
    int ends[2], status = -1;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execl("/proc/self/exe", "test_identity", "--child", cache, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    size_t at = 0;
    for (ssize_t got; at + 1 < n && (got = read(ends[0], said + at, n - 1 - at)) > 0;) at += (size_t)got;
    said[at] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void processes(void **state)
{
    char first[256], second[256];
    int searches = -1, compiles = -1;
    char bits[2][64] = {"", "-"};
    run_child(*state, first, sizeof first);
    run_child(*state, second, sizeof second);
    assert_int_equal(sscanf(first, "%d searches, %d kernels compiled, %40s", &searches, &compiles, bits[0]),
                     3);
    assert_int_equal(searches, 1);
    assert_true(compiles > 0);
    assert_int_equal(sscanf(second, "%d searches, %d kernels compiled, %40s", &searches, &compiles, bits[1]),
                     3);
    assert_int_equal(searches, 0);
    assert_int_equal(compiles, 0);
    assert_string_equal(bits[0], bits[1]);
}

/* With EIN_NO_COMPILE what the cache has still runs, and what it has not is refused by the kernel's name. */
static void no_compile(void **state)
{
    knobs other = USUAL;
    other.factor = 3;
    setenv("EIN_NO_COMPILE", "1", 1);
    assert_true(is_hit_knobs(*state, &USUAL));
    ein_graph *g = build(&other);
    ein_context *c = open_context("host:2", *state);
    ein_program *p = NULL;
    assert_int_equal(ein_compile(&p, c, g, NULL), EIN_COMPILE_FAILED);
    assert_null(p);
    assert_non_null(strstr(ein_context_error(c), "EIN_NO_COMPILE"));
    assert_non_null(strstr(ein_context_error(c), " k_"));
    setenv("EIN_NO_COMPILE", "0", 1);
    assert_int_equal(ein_compile(&p, c, g, NULL), EIN_OK);
    unsetenv("EIN_NO_COMPILE");
    ein_program_free(p);
    ein_context_free(c);
    ein_graph_free(g);
}

#define IN_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, directory_up, directory_down)

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--child") == 0) return child(argv[2]);
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(names_hit),
        IN_DIRECTORY(letters_of_cuts_hit),
        IN_DIRECTORY(changes_miss),
        IN_DIRECTORY(spellings_stay_apart),
        IN_DIRECTORY(machines_miss),
        IN_DIRECTORY(options_miss),
        IN_DIRECTORY(builds_miss),
        IN_DIRECTORY(forced_plans_miss),
        IN_DIRECTORY(placed_weights_count),
        IN_DIRECTORY(constants_do_not_collide),
        IN_DIRECTORY(no_compile),
        IN_DIRECTORY(processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
