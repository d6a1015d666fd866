/* SPDX-License-Identifier: Apache-2.0 */
/* Graph files as a MODEL: weights from a file or seeded, inputs by name, ids that fit their tables, results as told. */
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/weights/checkpoint.h"
#include "core/weights/safetensors.h"
#include "tools/args.h"
#include "tools/commands.h"

#define SHAPE(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (const int64_t[]){__VA_ARGS__}

static char folder[64];

static char *path_of(const char *name)
{
    static char paths[6][128];
    static int next;
    char *path = paths[next++ % 6];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* The command's exit code; its row goes nowhere. */
static int run(int (*command)(int, char **), const char *const *words)
{
    char *argv[16], copies[16][128];
    int n = 0;
    for (; words[n] != NULL; n++) {
        snprintf(copies[n], sizeof copies[0], "%s", words[n]);
        argv[n] = copies[n];
    }
    fflush(stdout);
    int was = dup(STDOUT_FILENO);
    assert_non_null(freopen("/dev/null", "w", stdout));
    int code = command(n, argv);
    fflush(stdout);
    assert_true(dup2(was, STDOUT_FILENO) >= 0);
    close(was);
    return code;
}

#define RUN(command, ...) run(command, (const char *const[]){__VA_ARGS__, NULL})

/* y = table[ids] w^T, next = argmax(y). */
static void write_graph(const char *path, const char *weights)
{
    ein_graph *g;
    char message[256] = "";
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_tensor ids = ein_input(g, "ids", EIN_I64, SHAPE(3)), table = ein_parameter(g, "table", EIN_F32, SHAPE(5, 2));
    ein_tensor y = ein_linear(g, ein_embedding(g, ids, table), ein_parameter(g, "w", EIN_F32, SHAPE(2, 2)), (ein_tensor){0});
    ein_output(g, "y", y);
    ein_output(g, "next", ein_argmax(g, y, 1, 0));
    ein_graph_save(g, path, weights, message, sizeof message);
    assert_string_equal(message, "");
    ein_graph_free(g);
}

static void write_tensors(const char *path, int n, const stored_tensor *tensors)
{
    error e = {0};
    ein_status s = ein__safetensors_write(path, n, tensors, &e);
    assert_string_equal(e.line, "");
    assert_int_equal(s, EIN_OK);
}

static const int64_t ids[3] = {4, 0, 2};

static void write_input(const char *path, int64_t extent)
{
    write_tensors(path, 1, &(stored_tensor){.name = "ids", .dtype = EIN_I64, .rank = 1, .shape = {extent}, .data = ids});
}

static void test_named_weights_and_inputs(void **state)
{
    float table[10], w[4] = {1, 0, 1, 1};
    (void)state;
    for (int i = 0; i < 10; i++) table[i] = (float)(i % 5) - 2; /* rows (-2 -1) (0 1) (2 -2) (-1 0) (1 2) */
    write_tensors(path_of("weights.safetensors"), 2,
                  (const stored_tensor[]){{.name = "table", .dtype = EIN_F32, .rank = 2, .shape = {5, 2}, .data = table},
                                          {.name = "w", .dtype = EIN_F32, .rank = 2, .shape = {2, 2}, .data = w}});
    write_graph(path_of("graph.json"), "weights.safetensors");
    write_input(path_of("in.safetensors"), 3);
    for (int devices = 1; devices <= 3; devices += 2) {
        const char *count = devices == 1 ? "1" : "3";
        assert_int_equal(RUN(command_run, path_of("graph.json"), "--devices", count, "--check", "--input",
                             path_of("in.safetensors"), "--output", path_of("out.safetensors")), EXIT_DONE);
        arena a = {0};
        error e = {0};
        checkpoint c = {0};
        assert_int_equal(ein__checkpoint_open(&a, path_of("out.safetensors"), &c, &e), EIN_OK);
        assert_int_equal(c.tensors.n, 2);
        for (int i = 0; i < 2; i++) {
            const stored_tensor *t = &c.tensors.items[i];
            const float y[] = {1, 3, -2, -3, 2, 0};
            const int64_t next[] = {1, 0, 0};
            if (strcmp(t->name, "y") == 0) assert_memory_equal(t->data, y, sizeof y);
            else assert_memory_equal(t->data, next, sizeof next);
        }
        ein__checkpoint_close(&c);
        ein__arena_free(&a);
    }
}

static void test_seeded(void **state)
{
    (void)state;
    write_graph(path_of("seeded.json"), NULL);
    assert_int_equal(RUN(command_run, path_of("seeded.json"), "--devices", "2", "--check"), EXIT_DONE);
}

static void test_of_a_model(void **state)
{
    (void)state;
    assert_int_equal(RUN(command_explain, "llama-7b:layers=2,seq=4,hidden=256,head=1", "--devices", "2", "--json", "--graph",
                         path_of("llama.json")), EXIT_DONE);
    assert_int_equal(RUN(command_run, path_of("llama.json"), "--devices", "2", "--check", "--repeat", "1"), EXIT_DONE);
}

static void test_refusals(void **state)
{
    (void)state;
    write_graph(path_of("lost.json"), "nowhere.safetensors");
    assert_int_equal(RUN(command_run, path_of("lost.json"), "--devices", "1"), EXIT_USAGE);
    write_graph(path_of("seeded.json"), NULL);
    write_input(path_of("short.safetensors"), 2);
    assert_int_equal(RUN(command_run, path_of("seeded.json"), "--input", path_of("short.safetensors")), EXIT_USAGE);
    assert_int_equal(RUN(command_run, path_of("seeded.json"), "--dtype", "bf16"), EXIT_USAGE);
    assert_int_equal(RUN(command_run, path_of("seeded.json"), "--tokens", "1,2,3"), EXIT_USAGE);
    FILE *f = fopen(path_of("broken.json"), "w");
    assert_non_null(f);
    fputs("{\"ein_graph\":1,\"calls\":[{\"call\":\"relu\"}]}", f);
    fclose(f);
    assert_int_equal(RUN(command_run, path_of("broken.json")), EXIT_USAGE);
}

static int begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/ein-graphs-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int end(void **state)
{
    static const char *const names[] = {"weights.safetensors", "graph.json", "in.safetensors", "out.safetensors", "seeded.json",
                                        "llama.json", "lost.json", "short.safetensors", "broken.json"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(path_of(names[i]));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_named_weights_and_inputs), cmocka_unit_test(test_seeded), cmocka_unit_test(test_of_a_model),
        cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, begin, end);
}
