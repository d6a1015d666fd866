/* SPDX-License-Identifier: Apache-2.0 */
/* Weights from safetensors files: programs that run from them, alone and together; stores that a failure leaves as
 * they were; memory that runs out. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/file.h"
#include "jit/context.h"
#include "tests/harness/small_llama.h"
#include "tests/harness/trial.h"

#define INDEX "model.safetensors.index.json"

static int directory_up(void **state) { return (*state = make_directory()) == NULL; }

static int directory_down(void **state)
{
    remove_directory(*state);
    return 0;
}

/* "folder/name"; a few live at once. */
static const char *in(const char *folder, const char *name)
{
    static char paths[4][600];
    static int next;
    char *p = paths[next++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", folder, name);
    return p;
}

static ein_weights *new_store(ein_context *c)
{
    ein_weights *w = NULL;
    assert_int_equal(ein_weights_create(&w, c), EIN_OK);
    return w;
}

static void open_good(ein_weights *w, const char *path)
{
    if (ein_weights_open(w, path) != EIN_OK) fail_msg("%s", ein_context_error(w->context));
}

static int count(const ein_weights *w)
{
    int n = 0;
    while (ein_weights_name(w, n, NULL, NULL, NULL) != NULL) n++;
    return n;
}

/* ---- files of a trial's parameters --------------------------------------------------------------------- */

static int parameters(const trial *t, stored_tensor *out, int most)
{
    const graph *g = &t->graph->g;
    int n = 0;
    for (int i = 0; i < g->leaves.n; i++) {
        const leaf *l = &g->leaves.items[i];
        const value_info *v = &g->values.items[l->value];
        if (l->kind != LEAF_PARAMETER) continue;
        assert_true(n < most);
        out[n] = (stored_tensor){.name = l->name, .dtype = v->dtype, .rank = v->rank, .data = t->leaves[i]};
        memcpy(out[n++].shape, v->shape, sizeof v->shape);
    }
    return n;
}

static void write_tensors(const char *path, int n, const stored_tensor *tensors)
{
    error e = {0};
    if (ein__safetensors_write(path, n, tensors, &e) != EIN_OK) fail_msg("%s", e.line);
}

static void write_text(const char *path, const char *t)
{
    assert_int_equal(ein__file_publish(path, t, strlen(t), 0600, NULL), EIN_OK);
}

/* Every third tensor to another file, and an index. */
static void write_shards(const char *folder, int n, const stored_tensor *tensors)
{
    text t = {0};
    ein__text_add(&t, "{\"weight_map\":{");
    for (int k = 0; k < 3; k++) {
        char name[32];
        stored_tensor part[64];
        int m = 0;
        snprintf(name, sizeof name, "part-%d.safetensors", k);
        for (int i = k; i < n; i += 3) {
            ein__text_add(&t, "%s\"%s\":\"%s\"", i > 0 ? "," : "", tensors[i].name, name);
            part[m++] = tensors[i];
        }
        write_tensors(in(folder, name), m, part);
    }
    ein__text_add(&t, "}}");
    write_text(in(folder, INDEX), ein__text_get(&t));
    ein__text_free(&t);
}

/* A file whose data begin at an odd address: one space more in front of them than the writer leaves. */
static void write_unaligned(const char *path, int n, const stored_tensor *tensors)
{
    text t = {0}, odd = {0};
    write_tensors(path, n, tensors);
    assert_int_equal(ein__file_read(path, 1 << 20, true, &t, NULL), EIN_OK);
    size_t header = (unsigned char)t.bytes[0] | (size_t)(unsigned char)t.bytes[1] << 8;
    assert_true(header < 65535 && t.n > header + 8);
    ein__text_bytes(&odd, t.bytes, header + 8);
    ein__text_add(&odd, " ");
    ein__text_bytes(&odd, t.bytes + header + 8, t.n - header - 8);
    odd.bytes[0] = (char)(header + 1);
    odd.bytes[1] = (char)((header + 1) >> 8);
    assert_int_equal(ein__file_publish(path, odd.bytes, odd.n, 0600, NULL), EIN_OK);
    ein__text_free(&t);
    ein__text_free(&odd);
}

/* ---- programs ----------------------------------------------------------------------------------------- */

static ein_graph *small(int seq)
{
    small_llama m = {.hidden = 32, .heads = 4, .kv_heads = 2, .head_size = 8, .ffn = 48, .layers = 2, .vocabulary = 40,
                     .batch = 1, .seq = seq, .cache = 12};
    return small_llama_graph(&m);
}

static void run_one(ein_context *c, ein_weights *w, int seq)
{
    ein_graph *g = small(seq);
    trial t;
    ein_state *st = NULL;
    trial_make(&t, g);
    ein_program *p = compile_program(c, g, &(ein_compile_options){.size = sizeof(ein_compile_options), .weights = w});
    assert_int_equal(ein_state_create(&st, p), EIN_OK);
    trial_set_scalar(&t, "length", seq);
    trial_check(&t, p, st);
    ein_state_free(st);
    ein_program_free(p);
    trial_free(&t);
    ein_graph_free(g);
}

/* Both programs from one store; the files may be gone by then, they are mapped. */
static void share_file(const char *machine, const char *folder, bool sharded)
{
    stored_tensor tensors[64];
    ein_graph *g = small(5);
    trial t;
    trial_make(&t, g);
    int n = parameters(&t, tensors, 64);
    if (sharded) write_shards(folder, n, tensors);
    else write_unaligned(in(folder, "model.safetensors"), n, tensors);
    ein_context *c = open_context(machine, NULL);
    ein_weights *w = new_store(c);
    open_good(w, folder);
    assert_int_equal(count(w), n);
    remove(in(folder, "model.safetensors"));
    remove(in(folder, INDEX));
    run_one(c, w, 5);
    i64 placed = ein_weights_device_bytes(w, 0);
    assert_true(placed > 0);
    run_one(c, w, 1);
    assert_int_equal(ein_weights_device_bytes(w, 0), placed);
    ein_weights_free(w);
    ein_context_free(c);
    trial_free(&t);
    ein_graph_free(g);
}

static void one_file(void **state)
{
    share_file("host:1", *state, false);
    share_file("host:3", *state, false);
}

static void several_files(void **state) { share_file("host:3", *state, true); }

/* ---- what a store holds ------------------------------------------------------------------------------- */

static void names(void **state)
{
    static const float data[6];
    static const char file[] = "\xa8\0\0\0\0\0\0\0"
                               "{\"u\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                               "\"half\":{\"dtype\":\"F16\",\"shape\":[3,1],\"data_offsets\":[2,8]},"
                               "\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[8,12]}}    "
                               "012345678901";
    ein_context *c = open_context("host:1", NULL);
    ein_weights *w = new_store(c);
    ein_dtype dtype = 0;
    int rank = -1;
    int64_t shape[EIN_MAX_RANK] = {0};
    assert_int_equal(sizeof file - 1, 8 + 0xa8 + 12);
    assert_int_equal(ein__file_publish(in(*state, "f"), file, sizeof file - 1, 0600, NULL), EIN_OK);
    assert_int_equal(ein_weights_add(w, "first", EIN_F32, 2, (int64_t[]){2, 3}, data, EIN_COPY), EIN_OK);
    open_good(w, in(*state, "f"));
    assert_string_equal(ein_weights_name(w, 0, &dtype, &rank, shape), "first");
    assert_true(dtype == EIN_F32 && rank == 2 && shape[0] == 2 && shape[1] == 3);
    assert_string_equal(ein_weights_name(w, 1, &dtype, &rank, shape), "half"); /* "u" is left out */
    assert_true(dtype == EIN_F16 && rank == 2 && shape[0] == 3 && shape[1] == 1);
    assert_string_equal(ein_weights_name(w, 2, &dtype, &rank, shape), "s");
    assert_true(dtype == EIN_F32 && rank == 0);
    assert_string_equal(ein_weights_name(w, 2, NULL, NULL, NULL), "s");
    assert_null(ein_weights_name(w, 3, &dtype, &rank, shape));
    assert_null(ein_weights_name(w, -1, NULL, NULL, NULL));
    assert_null(ein_weights_name(NULL, 0, NULL, NULL, NULL));
    ein_weights_free(w);
    ein_context_free(c);
}

static ein_graph *one_product(ein_dtype dtype, int64_t n)
{
    ein_graph *g = NULL;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_tensor x = ein_input(g, "x", dtype, 2, (int64_t[]){3, n}), w = ein_parameter(g, "w", dtype, 2, (int64_t[]){5, n});
    ein_output(g, "y", ein_linear(g, x, w, (ein_tensor){0}));
    assert_string_equal(ein_graph_error(g), "");
    return g;
}

/* What the file has but cannot be read is named as such. */
static void left_out_is_said(void **state)
{
    static const char file[] = "\x40\0\0\0\0\0\0\0"
                               "{\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[5,2],\"data_offsets\":[0,10]}}   "
                               "0123456789";
    ein_context *c = open_context("host:1", NULL);
    ein_weights *w = new_store(c);
    ein_graph *g = one_product(EIN_F32, 2);
    ein_program *p = NULL;
    ein_compile_options o = {.size = sizeof o, .weights = w};
    assert_int_equal(sizeof file - 1, 8 + 0x40 + 10);
    assert_int_equal(ein__file_publish(in(*state, "f"), file, sizeof file - 1, 0600, NULL), EIN_OK);
    open_good(w, in(*state, "f"));
    assert_int_equal(count(w), 0);
    assert_int_equal(ein_compile(&p, c, g, &o), EIN_DTYPE);
    assert_string_equal(ein_context_error(c), "parameter 'w' is F8_E4M3 of rank 2 in its file: not built, so left out");
    ein_graph_free(g);
    ein_weights_free(w);
    ein_context_free(c);
}

/* Stored as bf16 (at odd addresses), computed in f32: each number is the stored one. */
static void stored_as_bf16(void **state)
{
    enum { N = 300 };
    uint16_t stored[5 * N];
    float x[3 * N] = {0}, y[15];
    for (int i = 0; i < 5 * N; i++) ein__dtype_write(EIN_BF16, (i * 37 % 101 - 50) / 8.0 + i / 1e4, &stored[i]);
    stored_tensor t = {.name = "w", .dtype = EIN_BF16, .rank = 2, .shape = {5, N}, .data = stored};
    write_unaligned(in(*state, "f"), 1, &t);
    ein_graph *g = one_product(EIN_F32, N);
    ein_context *c = open_context("host:3", NULL);
    ein_weights *w = new_store(c);
    ein_run *r = NULL;
    open_good(w, in(*state, "f"));
    ein_program *p = compile_program(c, g, &(ein_compile_options){.size = sizeof(ein_compile_options), .weights = w});
    assert_int_equal(ein_run_create(&r, p), EIN_OK);
    for (int at = 0; at < N; at += 97) { /* one column at a time */
        memset(x, 0, sizeof x);
        for (int i = 0; i < 3; i++) x[i * N + at] = (float)(1 << i);
        assert_int_equal(ein_run_input(r, "x", x, sizeof x), EIN_OK);
        assert_int_equal(ein_run_output(r, "y", y, sizeof y), EIN_OK);
        if (ein_run_once(r) != EIN_OK) fail_msg("%s", ein_run_error(r));
        for (int i = 0; i < 15; i++)
            assert_true(y[i] == (1 << i / 5) * ein__dtype_read(EIN_BF16, &stored[i % 5 * N + at]));
    }
    assert_true(ein_weights_device_bytes(w, 0) % 4 == 0);
    ein_run_free(r);
    ein_program_free(p);
    ein_weights_free(w);
    ein_graph_free(g);
    ein_context_free(c);
}

/* Whatever is wrong, the store is as before: it can be opened again, and the programs of it run. */
static void failed_opens_change_nothing(void **state)
{
    stored_tensor tensors[64];
    ein_graph *g = small(5);
    trial t;
    char line[300];
    trial_make(&t, g);
    int n = parameters(&t, tensors, 64);
    write_tensors(in(*state, "model.safetensors"), n, tensors);
    write_tensors(in(*state, "most"), n - 1, tensors);
    write_tensors(in(*state, "last"), 1, tensors + n - 1);
    ein_context *c = open_context("host:2", NULL);
    ein_weights *w = new_store(c);
    open_good(w, in(*state, "last"));
    assert_int_equal(ein_weights_open(w, in(*state, "model.safetensors")), EIN_INVALID);
    snprintf(line, sizeof line, "/model.safetensors: tensor '%s' is in the store already", tensors[n - 1].name);
    assert_non_null(strstr(ein_context_error(c), line));
    assert_int_equal(ein_weights_open(w, in(*state, "none")), EIN_IO);
    assert_non_null(strstr(ein_context_error(c), "none\": No such file or directory"));
    write_text(in(*state, "bad"), "bad");
    assert_int_equal(ein_weights_open(w, in(*state, "bad")), EIN_INVALID);
    assert_non_null(strstr(ein_context_error(c), "bad: 3 bytes are no safetensors file"));
    snprintf(line, sizeof line, "{\"weight_map\":{\"%s\":\"most\",\"none\":\"most\"}}", tensors[0].name);
    write_text(in(*state, INDEX), line);
    assert_int_equal(ein_weights_open(w, in(*state, INDEX)), EIN_INVALID);
    assert_non_null(strstr(ein_context_error(c), INDEX ": tensor 'none' is not in 'most'"));
    assert_int_equal(ein_weights_open(w, NULL), EIN_INVALID);
    assert_int_equal(ein_weights_open(w, ""), EIN_INVALID);
    assert_string_equal(ein_context_error(c), "weights: a path is needed");
    assert_int_equal(ein_weights_open(NULL, in(*state, "most")), EIN_INVALID);
    assert_int_equal(count(w), 1);
    assert_int_equal(w->files.n, 1);
    open_good(w, in(*state, "most"));
    assert_int_equal(count(w), n);
    run_one(c, w, 5);
    ein_weights_free(w);
    ein_context_free(c);
    trial_free(&t);
    ein_graph_free(g);
}

static void memory_runs_out(void **state)
{
    stored_tensor tensors[64];
    ein_graph *g = small(5);
    trial t;
    trial_make(&t, g);
    int n = parameters(&t, tensors, 64);
    write_shards(*state, n, tensors);
    ein_context *c = open_context("host:1", NULL);
    long live = ein__alloc_live(), at = 0;
    ein_status s;
    do {
        ein_weights *w = new_store(c);
        long before = ein__alloc_live();
        ein__alloc_fail_at(++at);
        s = ein_weights_open(w, *state);
        ein__alloc_fail_at(0);
        assert_int_equal(count(w), s == EIN_OK ? n : 0);
        if (s != EIN_OK) {
            assert_int_equal(s, EIN_NO_MEMORY);
            assert_non_null(strstr(ein_context_error(c), "out of memory for the tensors of "));
            assert_true(ein__alloc_live() <= before + 1); /* room in the store's own lists */
            open_good(w, *state);
            assert_int_equal(count(w), n);
        }
        ein_weights_free(w);
        assert_int_equal(ein__alloc_live(), live);
    } while (s != EIN_OK);
    assert_true(at > 3);
    ein_context_free(c);
    trial_free(&t);
    ein_graph_free(g);
}

#define IN_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, directory_up, directory_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(one_file),  IN_DIRECTORY(several_files),   IN_DIRECTORY(names),
        IN_DIRECTORY(left_out_is_said), IN_DIRECTORY(stored_as_bf16),
        IN_DIRECTORY(failed_opens_change_nothing), IN_DIRECTORY(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
