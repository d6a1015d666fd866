/* SPDX-License-Identifier: Apache-2.0 */
/* Ops from outside: specs in text, kernels in the dialect, forced plans that cut them. Public calls only; plans are
 * JSON, so a JSON library edits them. */
#define _POSIX_C_SOURCE 200809L /* unsetenv */
#include <jansson.h>

#include "tests/api/fixture.h"

enum { ROWS = 6, WIDTH = 23 };

static const char *const text_i[] = {"i"}, *const text_ij[] = {"i,j"}, *const texts_ii[] = {"i", "i"};
static const ein_label labels_ij[] = {{.name = "i"}, {.name = "j"}};

/* ---- log-sum-exp of rows ------------------------------------------------------------------------------ */

static void log_sum_exp_reference(const ein_array *x, ein_array *y, void *user)
{
    for (int64_t i = 0; i < x->shape[0]; i++) {
        double m = -3e38, l = 0;
        for (int64_t j = 0; j < x->shape[1]; j++) m = fmax(m, x->data[i * x->shape[1] + j]);
        for (int64_t j = 0; j < x->shape[1]; j++) l += exp(x->data[i * x->shape[1] + j] - m);
        y->data[i] = m + log(l);
    }
    *(int *)user += 1;
}

static const char log_sum_exp_kernel[] =
    "PRIV(float, m); PRIV(float, l);\n"
    "STEP { P(m) = -3e38f; P(l) = 0.0f; }\n"
    "for (i64 j = 0; j < n_j; j += THREADS)\n"
    "    STEP_N(n_j - j) { P(m) = k_max(P(m), LD(x0, bx * s_x0_i + (j + tid) * s_x0_j)); }\n"
    "BLOCK_MAX(most, m);\n"
    "for (i64 j = 0; j < n_j; j += THREADS)\n"
    "    STEP_N(n_j - j) { P(l) = P(l) + k_exp(LD(x0, bx * s_x0_i + (j + tid) * s_x0_j) - most); }\n"
    "BLOCK_SUM(total, l);\n"
    "STEP_N(1) { ST(y0, bx * s_y0_i, most); ST(y1, bx * s_y1_i, total); }\n";

static ein_op log_sum_exp(int *calls)
{
    static const double identity[] = {-3e38, 0};
    static const char *const combine[] = {"max(a0, b0)", "a1 * exp(a0 - max(a0, b0)) + b1 * exp(b0 - max(a0, b0))"};
    static const char *const finalize[] = {"a0 + log(a1)"};
    return (ein_op){.size = sizeof(ein_op), .name = "log_sum_exp", .version = "1", .n_labels = 2, .labels = labels_ij,
                    .n_operands = 1, .operands = text_ij, .n_results = 1, .results = text_i, .n_states = 2,
                    .states = texts_ii, .identity = identity, .combine = combine, .finalize = finalize,
                    .kernel = log_sum_exp_kernel, .grid = "n_i", .reference = log_sum_exp_reference, .user = calls,
                    .flops_per_point = 4};
}

/* ---- mean and variance of rows: two results of two states --------------------------------------------- */

static const char sums_kernel[] =
    "PRIV(float, sum); PRIV(float, squares);\n"
    "STEP { P(sum) = 0.0f; P(squares) = 0.0f; }\n"
    "for (i64 j = 0; j < n_j; j += THREADS)\n"
    "    STEP_N(n_j - j) {\n"
    "        float x = LD(x0, bx * s_x0_i + (j + tid) * s_x0_j);\n"
    "        P(sum) = P(sum) + x;\n"
    "        P(squares) = k_fma(x, x, P(squares));\n"
    "    }\n"
    "BLOCK_SUM(a, sum);\n"
    "SYNC;\n"
    "BLOCK_SUM(b, squares);\n"
    "STEP_N(1) { ST(y0, bx * s_y0_i, a); ST(y1, bx * s_y1_i, b); }\n";

static ein_op moments(void)
{
    static const double identity[] = {0, 0};
    static const char *const combine[] = {"a0 + b0", "a1 + b1"};
    static const char *const finalize[] = {"a0 / 23", "a1 / 23 - a0 / 23 * (a0 / 23)"};
    return (ein_op){.size = sizeof(ein_op), .name = "moments", .version = "1", .n_labels = 2, .labels = labels_ij,
                    .n_operands = 1, .operands = text_ij, .n_results = 2, .results = texts_ii, .n_states = 2,
                    .states = texts_ii, .identity = identity, .combine = combine, .finalize = finalize,
                    .kernel = sums_kernel, .grid = "n_i"};
}

/* ---- data --------------------------------------------------------------------------------------------- */

static void fill(float *x, int n)
{
    for (int i = 0; i < n; i++) x[i] = (float)((i * 37 + i * i % 11) % 29) / 7 - 2;
}

static void expected(const float *x, double *lse, double *mean, double *variance)
{
    double wide[ROWS * WIDTH];
    int calls = 0;
    for (int i = 0; i < ROWS * WIDTH; i++) wide[i] = x[i];
    ein_array in = {2, (int64_t[]){ROWS, WIDTH}, wide}, out = {1, (int64_t[]){ROWS}, lse};
    log_sum_exp_reference(&in, &out, &calls);
    for (int i = 0; i < ROWS; i++) {
        double s = 0, q = 0;
        for (int j = 0; j < WIDTH; j++) {
            s += wide[i * WIDTH + j];
            q += wide[i * WIDTH + j] * wide[i * WIDTH + j];
        }
        mean[i] = s / WIDTH;
        variance[i] = q / WIDTH - mean[i] * mean[i];
    }
}

/* ---- plans -------------------------------------------------------------------------------------------- */

/* The plan with `cuts` cuts of `label` (extent n, part k on device k) for every op called `op`. Free it. */
static char *cut_plan(const char *plan, const char *op, const char *label, int n, int cuts)
{
    json_t *root = json_loads(plan, 0, NULL), *nodes = json_object_get(root, "nodes");
    assert_non_null(root);
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        json_t *node = json_array_get(nodes, i), *at = json_array(), *devices = json_array();
        if (strcmp(json_string_value(json_object_get(node, "op")), op) != 0) {
            json_decref(at);
            json_decref(devices);
            continue;
        }
        for (int k = 0; k <= cuts; k++) json_array_append_new(at, json_integer(k < cuts ? k * (n / cuts) : n));
        for (int k = 0; k < cuts; k++) json_array_append_new(devices, json_pack("[i]", k));
        json_object_set_new(node, "cuts", json_pack("[{s:[s],s:o}]", "labels", label, "at", at));
        json_object_set_new(node, "devices", devices);
    }
    char *text = json_dumps(root, 0);
    assert_non_null(text);
    json_decref(root);
    return text;
}

/* ---- tests -------------------------------------------------------------------------------------------- */

/* y = exp(lse(x)) too: a reader that must see the finished value, not a state. */
static void build(session *s, const char *machine, int *calls)
{
    ein_op lse = log_sum_exp(calls), both = moments();
    ein_tensor y, z[2];
    session_open(s, machine);
    ein_tensor x = INPUT(s->g, "x", ROWS, WIDTH);
    ein_custom(s->g, &lse, &x, &y);
    ein_custom(s->g, &both, &x, z);
    ein_output(s->g, "lse", y);
    ein_output(s->g, "exp", ein_map(s->g, "exp(x0)", 1, &y));
    ein_output(s->g, "mean", z[0]);
    ein_output(s->g, "variance", z[1]);
}

static void run_and_compare(session *s)
{
    float x[ROWS * WIDTH], y[4][ROWS];
    double lse[ROWS], exps[ROWS], mean[ROWS], variance[ROWS];
    static const char *const names[] = {"lse", "exp", "mean", "variance"};
    fill(x, ROWS * WIDTH);
    expected(x, lse, mean, variance);
    for (int i = 0; i < ROWS; i++) exps[i] = exp(lse[i]);
    assert_int_equal(ein_run_create(&s->r, s->p), EIN_OK);
    assert_int_equal(ein_run_input(s->r, "x", x, sizeof x), EIN_OK);
    for (int i = 0; i < 4; i++) assert_int_equal(ein_run_output(s->r, names[i], y[i], sizeof y[i]), EIN_OK);
    session_once(s);
    const double *const want[] = {lse, exps, mean, variance};
    for (int i = 0; i < 4; i++) assert_near(y[i], want[i], ROWS);
    ein_run_free(s->r);
    s->r = NULL;
}

static void recompile(session *s, const char *label, int extent, int parts)
{
    char *first = cut_plan(ein_program_plan(s->p), "log_sum_exp", label, extent, parts);
    char *plan = cut_plan(first, "moments", label, extent, parts);
    ein_program_free(s->p);
    session_compile(s, plan);
    free(first);
    free(plan);
}

/* Searched, cut along rows, cut along the aggregated label, on one device and on several. */
static void everywhere(void **state)
{
    static const char *const machines[] = {"host:1", "host:2", "host:3", "host:4", "host:5"};
    (void)state;
    for (int m = 0; m < 5; m++) {
        session s;
        int calls = 0;
        char words[64];
        build(&s, machines[m], &calls);
        session_compile(&s, NULL);
        run_and_compare(&s);
        recompile(&s, "i", ROWS, m + 1);
        run_and_compare(&s);
        recompile(&s, "j", WIDTH, m + 1);
        run_and_compare(&s);
        snprintf(words, sizeof words, "cut j %d in %d parts", WIDTH, m + 1);
        assert_true(m == 0 || strstr(ein_program_explain(s.p), words) != NULL);
        assert_non_null(strstr(ein_program_source(s.p), "BLOCK_MAX(most, m)"));
        session_close(&s);
    }
}

#define FILL(value)                            \
    "STEP {\n"                                 \
    "    i64 k = bx * 256 + tid;\n"            \
    "    if (k < n_i * n_j) ST(y0, k / n_j * s_y0_i + k % n_j * s_y0_j, " value ");\n" \
    "}\n"
static const char *const fill_kernels[] = {FILL("1.0f"), FILL("(float)((o_i + k / n_j) * 10 + o_j + k % n_j)")};

/* The version is part of what a program is: another one does not get the first one's objects. */
static void versions(void **state)
{
    (void)state;
    for (int v = 0; v < 2; v++) {
        session s;
        ein_op op = {.size = sizeof op, .name = "fill", .version = v == 0 ? "1" : "2", .n_labels = 2,
                     .labels = labels_ij, .n_operands = 1, .operands = text_ij, .n_results = 1, .results = text_ij,
                     .grid = "cdiv(n_i * n_j, 256)", .kernel = fill_kernels[v]};
        float x[6] = {0}, y[6];
        ein_tensor out;
        session_open(&s, "host:2");
        ein_custom(s.g, &op, &(ein_tensor){INPUT(s.g, "x", 2, 3).id}, &out);
        ein_output(s.g, "y", out);
        session_start(&s);
        assert_int_equal(ein_run_input(s.r, "x", x, sizeof x), EIN_OK);
        assert_int_equal(ein_run_output(s.r, "y", y, sizeof y), EIN_OK);
        session_once(&s);
        assert_near(y, v == 0 ? (double[]){1, 1, 1, 1, 1, 1} : (double[]){0, 1, 2, 10, 11, 12}, 6);
        session_close(&s);
    }
}

static void refuse(ein_op op, ein_status status, const char *line)
{
    session s;
    ein_tensor y[4];
    session_open(&s, "host:2");
    ein_custom(s.g, &op, &(ein_tensor){INPUT(s.g, "x", 4, 6).id}, y);
    ein_output(s.g, "y", y[0]);
    assert_int_equal(ein_compile(&s.p, s.c, s.g, NULL), status);
    assert_string_equal(ein_context_error(s.c), line);
    session_close(&s);
}

#define TEXTS(...) ((const char *const[]){__VA_ARGS__})
#define REFUSE_WITH(change, status, line)  \
    do {                                   \
        ein_op op = log_sum_exp(NULL);     \
        change;                            \
        refuse(op, status, line);          \
    } while (0)

static void wrong_specs(void **state)
{
    (void)state;
    REFUSE_WITH(op.operands = TEXTS("i"), EIN_SHAPE,
                "custom 'log_sum_exp': operand 0 has shape [4,6], and labels 'i'");
    REFUSE_WITH(op.results = TEXTS("k"), EIN_INVALID, "custom 'log_sum_exp': 'k': no label 'k' at column 1");
    REFUSE_WITH(op.combine = TEXTS("max(a0, b0)", "a1 + b2"), EIN_INVALID,
                "custom 'log_sum_exp': expression \"a1 + b2\": column 6: unknown name at \"b2\"");
    REFUSE_WITH(op.finalize = TEXTS("a0 + log(b0)"), EIN_INVALID,
                "custom 'log_sum_exp': expression \"a0 + log(b0)\": column 10: unknown name at \"b0\"");
    REFUSE_WITH(op.states = TEXTS("i", "i,j"), EIN_INVALID,
                "custom 'log_sum_exp': label 'j' indexes only some of the states and results; mark it whole");
    REFUSE_WITH(op.grid = "n_q", EIN_INVALID, "log_sum_exp: grid \"n_q\": error at column 3");
    REFUSE_WITH(op.grid = "n_i / ", EIN_INVALID, "log_sum_exp: grid \"n_i / \": error at column 7");
    REFUSE_WITH(op.size = 7, EIN_INVALID, "custom: no size");
}

/* A kernel that does not compile: the log is the compiler's, with the line at fault. */
static void wrong_kernel(void **state)
{
    session s;
    ein_tensor y;
    ein_op op = log_sum_exp(NULL);
    (void)state;
    op.kernel = "STEP_N(1) { ST(y0, bx, no_such_name); }\n";
    unsetenv("EIN_DUMP"); /* the gate compiles what is dumped */
    session_open(&s, "host:2");
    ein_custom(s.g, &op, &(ein_tensor){INPUT(s.g, "x", 4, 6).id}, &y);
    ein_output(s.g, "y", y);
    assert_int_equal(ein_compile(&s.p, s.c, s.g, NULL), EIN_COMPILE_FAILED);
    assert_non_null(strstr(ein_context_error(s.c), "failed with exit code"));
    assert_non_null(strstr(ein_context_detail(s.c), "no_such_name"));
    assert_int_equal(ein_compile(&s.p, s.c, NULL, NULL), EIN_INVALID); /* the next failure has no log */
    assert_string_equal(ein_context_detail(s.c), "");
    session_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everywhere), cmocka_unit_test(versions), cmocka_unit_test(wrong_specs),
        cmocka_unit_test(wrong_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
