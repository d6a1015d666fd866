/* SPDX-License-Identifier: Apache-2.0 */
/* The commands as a user calls them, in this process: what they print as JSON, and their exit codes. */
#define _POSIX_C_SOURCE 200809L
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "tools/args.h"
#include "tools/commands.h"
#include "tools/temporary.h"
#include "tools/workload.h"

typedef int (*command)(int argc, char **argv);

static const char TINY[] = "llama3-8b:layers=3,batch=2,seq=6,hidden=256";
static char cache_dir[128], plan_file[160], output_file[160];

/* Runs a command on the words of `line`; its lines of standard output as an array of JSON values. */
static json_t *run(command c, const char *line, int want)
{
    char words[512], *argv[24];
    int n = 0;
    snprintf(words, sizeof words, "%s", line);
    for (char *w = strtok(words, " "); w != NULL; w = strtok(NULL, " ")) argv[n++] = w;
    FILE *f = tmpfile();
    assert_non_null(f);
    fflush(stdout);
    int was = dup(STDOUT_FILENO);
    assert_true(was >= 0 && dup2(fileno(f), STDOUT_FILENO) >= 0);
    int code = c(n, argv);
    fflush(stdout);
    assert_true(dup2(was, STDOUT_FILENO) >= 0);
    close(was);
    rewind(f);
    json_t *rows = json_array(), *row;
    while ((row = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL)) != NULL) json_array_append_new(rows, row);
    fclose(f);
    if (code != want) fail_msg("%s: exit code %d, not %d", line, code, want);
    return rows;
}

static void expect_code(command c, const char *line, int want) { json_decref(run(c, line, want)); }

static long long integer(const json_t *row, const char *key)
{
    const json_t *v = json_object_get(row, key);
    if (!json_is_integer(v)) fail_msg("%s is no integer", key);
    return json_integer_value(v);
}

static double number(const json_t *row, const char *key)
{
    const json_t *v = json_object_get(row, key);
    if (!json_is_number(v)) fail_msg("%s is no number", key);
    return json_number_value(v);
}

static const char *string(const json_t *row, const char *key)
{
    const char *s = json_string_value(json_object_get(row, key));
    if (s == NULL) fail_msg("%s is no string", key);
    return s;
}

/* A verified row of `ein run`. */
static void expect_right(const json_t *row, const char *model_name, int devices)
{
    assert_string_equal(string(row, "model"), model_name);
    assert_string_equal(string(row, "target"), "host");
    assert_int_equal(integer(row, "devices"), devices);
    assert_true(json_is_true(json_object_get(row, "ok")));
    assert_true(json_is_true(json_object_get(row, "repeats")));
    assert_int_equal(integer(row, "bytes_moved"), integer(row, "predicted_bytes"));
    assert_true(number(row, "max_rel_error") > 0 && number(row, "max_rel_error") < 1e-5);
    assert_true(number(row, "worst_row") > 0 && number(row, "worst_row") <= 1);
    assert_true(number(row, "cold_ms") > 0 && number(row, "warm_ms") > 0 && number(row, "median_ms") > 0);
    assert_int_equal(integer(row, "warm_compiles"), 0);
    assert_true(integer(row, "kernels") > 0);
}

static void test_run_cold_and_cached(void **state)
{
    (void)state;
    char line[160];
    snprintf(line, sizeof line, "%s --devices 3 --check --json --repeat 2", TINY);
    json_t *cold = run(command_run, line, EXIT_DONE), *warm = run(command_run, line, EXIT_DONE);
    const json_t *first = json_array_get(cold, 0), *second = json_array_get(warm, 0);
    expect_right(first, TINY, 3);
    expect_right(second, TINY, 3);
    assert_string_equal(string(first, "cache"), "miss");
    assert_int_equal(integer(first, "searches"), 1);
    assert_int_equal(integer(first, "compiles"), integer(first, "kernels"));
    assert_string_equal(string(second, "cache"), "hit");
    assert_int_equal(integer(second, "searches"), 0);
    assert_int_equal(integer(second, "compiles"), 0);
    assert_true(number(first, "max_rel_error") == number(second, "max_rel_error"));
    json_decref(cold);
    json_decref(warm);
}

static void test_run_models(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        int devices;
    } cases[] = {
        {"llama3-8b:layers=2,batch=2,seq=1,cached=20,hidden=256", 4}, /* decode */
        {"llama3-8b:layers=2,seq=3,cached=5,hidden=256", 2},          /* a few positions at once */
        {"llama-7b:layers=1,seq=5,hidden=64,head=1", 2},
        {"mlp:batch=24,layers=4,hidden=48", 5},
        {"matmul:m=17,n=19,k=23", 2},
        {"moe:hidden=128,seq=12", 3},
        {"minilm:layers=1,hidden=48,seq=9,batch=2", 3},
        {"vit-b16:layers=1,hidden=24", 2},
        {"gpt2:layers=1,hidden=24,seq=2,cached=5", 2},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[160];
        snprintf(line, sizeof line, "%s --devices %d --check --json --repeat 2", cases[i].model,
                 cases[i].devices);
        json_t *rows = run(command_run, line, EXIT_DONE);
        assert_int_equal(json_array_size(rows), 1);
        expect_right(json_array_get(rows, 0), cases[i].model, cases[i].devices);
        json_decref(rows);
    }
}

static stored_tensor find_output(arena *a, checkpoint *c, const char *name)
{
    error e = {0};
    if (ein__checkpoint_open(a, output_file, c, &e) != EIN_OK) fail_msg("%s", e.line);
    assert_int_equal(c->tensors.n, 1);
    assert_string_equal(c->tensors.items[0].name, name);
    return c->tensors.items[0];
}

/* The file has the logits in f32, whatever they were computed in, and they say the first token. */
static void test_prompt(void **state)
{
    (void)state;
    char line[512];
    arena a = {0};
    checkpoint c = {0};
    snprintf(line, sizeof line,
             "gpt2:layers=1,hidden=24 --devices 2 --json --check --repeat 1 --dtype bf16 --tokens 5,50256,7 --generate 3 "
             "--output %s",
             output_file);
    json_t *rows = run(command_run, line, EXIT_DONE);
    const json_t *row = json_array_get(rows, 0), *made = json_object_get(row, "generated");
    assert_int_equal(integer(row, "searches"), 2);
    assert_int_equal(json_array_size(made), 3);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(row, "tokens"), 1)), 50256);
    assert_string_equal(string(row, "output"), "logits");
    assert_string_equal(string(row, "dtype"), "bf16");
    assert_true(number(row, "max_rel_error") > 1e-5 && number(row, "token_ms") > 0);
    stored_tensor t = find_output(&a, &c, "logits");
    assert_true(t.rank == 2 && t.shape[0] == 3 && t.shape[1] == 50257 && t.dtype == EIN_F32);
    i64 best = 0;
    for (i64 i = 1; i < t.shape[1]; i++) {
        const char *last = (const char *)t.data + 2 * t.shape[1] * 4;
        if (ein__dtype_read(EIN_F32, last + 4 * i) > ein__dtype_read(EIN_F32, last + 4 * best)) best = i;
    }
    assert_int_equal(json_integer_value(json_array_get(made, 0)), best);
    ein__checkpoint_close(&c);
    ein__arena_free(&a);
    json_decref(rows);
}

static void test_embedding(void **state)
{
    (void)state;
    char line[512];
    arena a = {0};
    checkpoint c = {0};
    FILE *f = fopen(plan_file, "w");
    assert_non_null(f);
    assert_true(fputs("101, 7592\n102\n", f) >= 0);
    assert_int_equal(fclose(f), 0);
    snprintf(line, sizeof line, "minilm:layers=1,hidden=24 --devices 2 --json --repeat 1 --tokens-file %s --output %s", plan_file,
             output_file);
    json_t *rows = run(command_run, line, EXIT_DONE);
    const json_t *list = json_object_get(json_array_get(rows, 0), "embedding");
    stored_tensor t = find_output(&a, &c, "embedding");
    double square = 0;
    assert_int_equal(json_array_size(list), 24);
    assert_true(t.rank == 1 && t.shape[0] == 24);
    for (size_t i = 0; i < 24; i++) {
        double x = json_number_value(json_array_get(list, i)), stored = ein__dtype_read(EIN_F32, (const char *)t.data + 4 * i);
        assert_float_equal(x, stored, 1e-6);
        square += x * x;
    }
    assert_float_equal(square, 1, 1e-5);
    ein__checkpoint_close(&c);
    ein__arena_free(&a);
    json_decref(rows);
}

static void test_prompt_refusals(void **state)
{
    (void)state;
    expect_code(command_run, "gpt2:hidden=24 --tokens 1,x", EXIT_USAGE);
    expect_code(command_run, "gpt2:hidden=24 --tokens ,", EXIT_USAGE);
    expect_code(command_run, "gpt2:hidden=24 --tokens -1", EXIT_USAGE);
    expect_code(command_run, "gpt2:hidden=24 --tokens 1 --tokens-file x", EXIT_USAGE);
    expect_code(command_run, "gpt2:hidden=24 --tokens-file /no/such/file", EXIT_USAGE);
    expect_code(command_run, "gpt2:hidden=24 --tokens 50257", EXIT_USAGE);
    expect_code(command_run, "gpt2:hidden=24,batch=2 --tokens 1", EXIT_USAGE);
    expect_code(command_run, "gpt2:hidden=24 --tokens 1 --stop-at-eos", EXIT_USAGE);
    expect_code(command_run, "gpt2:hidden=24 --tokens 1 --generate 1024", EXIT_USAGE);
    expect_code(command_run, "gpt2:hidden=24 --tokens 1 --generate 2 --stop-at-eos", EXIT_USAGE); /* it has no files */
    expect_code(command_run, "minilm:hidden=24 --tokens 1 --generate 1", EXIT_USAGE);
    expect_code(command_run, "mlp:hidden=8 --tokens 1", EXIT_USAGE);
    expect_code(command_run, "mlp:hidden=8 --dtype f8", EXIT_USAGE);
    expect_code(command_run, "mlp:hidden=8 --input x", EXIT_USAGE);
}

static void test_explain_and_forced_plan(void **state)
{
    (void)state;
    char line[320];
    snprintf(line, sizeof line, "%s --devices 2 --json --save %s", TINY, plan_file);
    json_t *rows = run(command_explain, line, EXIT_DONE);
    size_t n = json_array_size(rows);
    assert_true(n > 10);
    const json_t *total = json_array_get(rows, n - 1);
    assert_string_equal(string(total, "op"), "total");
    long long bytes = 0;
    double us = 0;
    int attention = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        const json_t *row = json_array_get(rows, i);
        bytes += integer(row, "bytes");
        us += number(row, "predicted_us");
        if (i + 2 < n) assert_true(number(row, "runner_up_us") > 0 && string(row, "runner_up")[0] != 0);
        attention +=
            strcmp(string(row, "op"), "scaled_dot_product_attention") == 0 && integer(row, "times") == 3;
    }
    assert_int_equal(attention, 1);
    assert_int_equal(bytes, integer(total, "bytes"));
    assert_float_equal(us, number(total, "predicted_us"), 1e-6 * us);
    assert_int_equal(json_array_size(json_object_get(total, "memory_bytes")), 2);
    assert_int_equal(json_array_size(json_object_get(total, "rivals")), 10);
    assert_true(number(total, "best_rival_ratio") > 0);
    json_decref(rows);

    snprintf(line, sizeof line, "%s --devices 2 --check --json --repeat 1 --plan %s", TINY, plan_file);
    rows = run(command_run, line, EXIT_DONE);
    expect_right(json_array_get(rows, 0), TINY, 2);
    assert_int_equal(integer(json_array_get(rows, 0), "searches"), 0);
    assert_int_equal(integer(json_array_get(rows, 0), "predicted_bytes"), bytes);
    json_decref(rows);

    snprintf(line, sizeof line, "%s --devices 3 --json --plan %s", TINY, plan_file); /* it is for two */
    expect_code(command_run, line, EXIT_USAGE);
    FILE *f = fopen(plan_file, "w");
    assert_non_null(f);
    assert_true(fputs("{}", f) >= 0);
    assert_int_equal(fclose(f), 0);
    snprintf(line, sizeof line, "%s --devices 2 --json --plan %s", TINY, plan_file);
    expect_code(command_run, line, EXIT_USAGE);
}

/* All choices of an op: the plan's own costs nothing more, and whole copies take all of the weights. */
static void test_explain_why(void **state)
{
    (void)state;
    json_t *rows = run(command_explain, "mlp:batch=512,layers=2,hidden=512 --machine dgx-a100 --json --why linear", EXIT_DONE);
    size_t i;
    json_t *row;
    int chosen = 0, whole = 0;
    double before = -INFINITY;
    json_array_foreach(rows, i, row)
    {
        assert_true(number(row, "plan_us") >= before);
        before = number(row, "plan_us");
        if (strcmp(string(row, "note"), "chosen") == 0) {
            chosen++;
            assert_float_equal(number(row, "more_us"), 0, 0);
        }
        if (strcmp(string(row, "cut"), "whole on 8 devices, the same on each") == 0) {
            whole++;
            assert_float_equal(number(row, "resident_mb"), 2 * 512 * 512 * 4e-6, 1e-6);
            assert_string_equal(string(row, "note"), "does not fit");
        }
    }
    assert_int_equal(chosen, 1);
    assert_int_equal(whole, 1);
    json_decref(rows);
    rows = run(command_explain, "llama-7b:layers=2,seq=16 --machine dgx-a100 --json --why q_proj", EXIT_DONE);
    assert_string_equal(string(json_array_get(rows, 0), "op"), "linear");
    json_decref(rows);
    expect_code(command_explain, "llama-7b:layers=2,seq=16 --machine dgx-a100 --why _proj", EXIT_USAGE);
    expect_code(command_explain, "mlp --machine dgx-a100 --why nothing", EXIT_USAGE);
    expect_code(command_explain, "mlp --machine dgx-a100 --why 99", EXIT_USAGE);
    expect_code(command_explain, "llama-7b:layers=1,seq=16 --machine dgx-a100 --why linear", EXIT_USAGE);
}

static void test_explain_preset(void **state)
{
    (void)state;
    json_t *rows = run(command_explain, "llama-7b:seq=64 --machine dgx-h100 --json", EXIT_DONE);
    const json_t *first = json_array_get(rows, 0);
    assert_string_equal(string(first, "op"), "rms_norm");
    assert_int_equal(integer(first, "times"), 32);
    json_decref(rows);
}

static void test_ops(void **state)
{
    (void)state;
    json_t *rows = run(command_ops, "--json", EXIT_DONE);
    size_t i;
    json_t *row;
    int found = 0;
    json_array_foreach(rows, i, row)
    {
        const char *op = string(row, "op");
        if (string(row, "dtypes")[0] == 0) fail_msg("%s takes no dtype", op);
        if (strcmp(op, "linear") == 0) found += strcmp(string(row, "merges"), "sum") == 0;
        if (strcmp(op, "amax") == 0) found += strcmp(string(row, "merges"), "max") == 0;
        if (strcmp(op, "softmax") == 0) found += strcmp(string(row, "merges"), "max, sum") == 0;
        if (strcmp(op, "layer_norm") == 0) found += strcmp(string(row, "dtypes"), "f32 f64 bf16 f16") == 0;
        if (strcmp(op, "neg") == 0) found += strcmp(string(row, "dtypes"), "f32 f64 bf16 f16 i8 i32 i64") == 0;
        if (strcmp(op, "embedding") == 0) found += strcmp(string(row, "dtypes"), "i32 i64") == 0;
    }
    assert_int_equal(i, 95);
    assert_int_equal(found, 6);
    json_decref(rows);
}

static void test_exit_codes(void **state)
{
    (void)state;
    expect_code(command_run, "llama-8b", EXIT_USAGE);
    expect_code(command_run, "", EXIT_USAGE);
    expect_code(command_run, "mlp:batch=4,layers=1,hidden=8 --target cuda", EXIT_MISSING);
    expect_code(command_run, "mlp:batch=4,layers=1,hidden=8 --machine dgx-1", EXIT_MISSING);
    expect_code(command_run, "mlp:batch=4,layers=1,hidden=8 --machine no-such-machine", EXIT_USAGE);
    expect_code(command_run, "mlp:batch=4,layers=1,hidden=8 --plan /no/such/file", EXIT_USAGE);
    expect_code(command_explain, "mlp --machine host:17", EXIT_USAGE);
    expect_code(command_explain, "mlp --check", EXIT_USAGE);
    expect_code(command_cache, "empty", EXIT_USAGE);
}

/* After the runs above there are entries; then there are none. */
static void test_cache(void **state)
{
    (void)state;
    expect_code(command_run, "matmul:m=8,n=8,k=8 --json --repeat 1", EXIT_DONE);
    json_t *rows = run(command_cache, "list --json", EXIT_DONE);
    assert_true(json_array_size(rows) > 0);
    assert_true(integer(json_array_get(rows, 0), "bytes") > 0 &&
                integer(json_array_get(rows, 0), "age_s") >= 0);
    json_decref(rows);
    expect_code(command_cache, "trim --bytes 1000000000", EXIT_DONE);
    rows = run(command_cache, "list --json", EXIT_DONE);
    assert_true(json_array_size(rows) > 0);
    json_decref(rows);
    expect_code(command_cache, "clear", EXIT_DONE);
    rows = run(command_cache, "list --json", EXIT_DONE);
    assert_int_equal(json_array_size(rows), 0);
    json_decref(rows);
}

/* The check can fail: one wrong number in a right result is seen. */
static void test_check_sees_errors(void **state)
{
    (void)state;
    workload w;
    progress p = {.on = false};
    assert_int_equal(workload_open(&w, "matmul:m=8,n=8,k=8", NULL, &p), EIN_OK);
    assert_int_equal(workload_fill(&w), EIN_OK);
    const float *a = NULL, *b = NULL;
    for (int i = 0; i < w.graph->g.leaves.n; i++) {
        if (w.graph->g.leaves.items[i].kind == LEAF_INPUT) a = w.leaves[i];
        if (w.graph->g.leaves.items[i].kind == LEAF_PARAMETER) b = w.leaves[i];
    }
    float c[64];
    void *outputs[] = {c};
    for (int i = 0; i < 64; i++) {
        double sum = 0;
        for (int k = 0; k < 8; k++) sum += (double)a[i / 8 * 8 + k] * b[k * 8 + i % 8];
        c[i] = (float)sum;
    }
    verdict v;
    assert_int_equal(workload_check(&w, outputs, &v), EIN_OK);
    assert_true(v.ok && v.error < 1e-6);
    c[37] *= 1.001f;
    assert_int_equal(workload_check(&w, outputs, &v), EIN_OK);
    assert_false(v.ok);
    c[37] = NAN;
    assert_int_equal(workload_check(&w, outputs, &v), EIN_OK);
    assert_false(v.ok);
    workload_close(&w);
}

static int begin(void **state)
{
    (void)state;
    if (!temporary_make(cache_dir, sizeof cache_dir)) return -1;
    snprintf(plan_file, sizeof plan_file, "%s.plan", cache_dir);
    snprintf(output_file, sizeof output_file, "%s.safetensors", cache_dir);
    return setenv("EIN_CACHE_DIR", cache_dir, 1);
}

static int end(void **state)
{
    (void)state;
    unlink(plan_file);
    unlink(output_file);
    temporary_remove(cache_dir);
    return ein__alloc_live() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_cold_and_cached),
        cmocka_unit_test(test_run_models),
        cmocka_unit_test(test_prompt),
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_prompt_refusals),
        cmocka_unit_test(test_explain_and_forced_plan),
        cmocka_unit_test(test_explain_why),
        cmocka_unit_test(test_explain_preset),
        cmocka_unit_test(test_ops),
        cmocka_unit_test(test_exit_codes),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_check_sees_errors),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
