/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the CUDA target that whole programs seldom reach: memory at its ends, products of all shapes, what a graph
 * sets anew. */
#define _DEFAULT_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/graph/canonical.h"
#include "jit/context.h"
#include "jit/library/cublaslt.h"
#include "jit/target/cuda.h"
#include "tests/fake/control.h"
#include "tests/harness/random_plan.h"
#include "tests/harness/trial.h"

#define SHAPE(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__}

static void nothing_left(void)
{
    assert_string_equal(fake_reports(), "");
    assert_string_equal(fake_leaks(), "");
    assert_int_equal(ein__alloc_live(), 0);
}

/* ---- memory ------------------------------------------------------------------------------------------- */

static void look(cuda_target *t, const void *there, void *here, size_t n)
{
    assert_int_equal(ein__cuda_enter(t, 0, NULL), EIN_OK);
    assert_int_equal(t->cu.cuMemcpyDtoHAsync_v2(here, (CUdeviceptr)(uintptr_t)there, n, t->devices[0].copies), 0);
    assert_int_equal(t->cu.cuStreamSynchronize(t->devices[0].copies), 0);
    ein__cuda_leave(t);
}

/* Requests are aligned, zero, apart, bounded by the capacity, and given back; by mappings and by cuMemAlloc. */
static void memory(void **state)
{
    enum { MANY = 200 };
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        fake_configure("devices=1 memory=64m");
        if (plain != 0) fake_fail("cuMemGetAllocationGranularity", 1, CUDA_ERROR_NOT_SUPPORTED);
        ein_context *c = open_context("cuda", NULL);
        target *t = c->target;
        void *at[MANY], *large[8];
        unsigned char back[64];
        error e = {0};
        int n = 0;
        assert_int_equal(t->api->alloc(t, 0, (i64)1 << 40, &at[0], &e), EIN_NO_DEVICE_MEMORY);
        assert_string_equal(e.line, "device 0: 1099511627776 bytes wanted, 0 of 58720256 are taken");
        for (int i = 0; i < MANY; i++) {
            assert_int_equal(t->api->alloc(t, 0, 1 + 37 * i, &at[i], &e), EIN_OK);
            assert_int_equal((uintptr_t)at[i] % 256, 0);
            for (int k = 0; k < i; k++)
                assert_true((char *)at[i] >= (char *)at[k] + 1 + 37 * k || (char *)at[k] >= (char *)at[i] + 1 + 37 * i);
            memset(back, 1, sizeof back);
            look((cuda_target *)t, at[i], back, 1);
            assert_int_equal(back[0], 0);
            assert_int_equal(t->api->upload(t, 0, at[i], "\377", 1, 1, 1, &e), EIN_OK);
        }
        t->api->release(t, 0, at[7]);
        assert_int_equal(t->api->alloc(t, 0, 200, &at[7], &e), EIN_OK); /* where one was, zero again */
        look((cuda_target *)t, at[7], back, 1);
        assert_int_equal(back[0], 0);
        while (n < 8 && t->api->alloc(t, 0, 10 << 20, &large[n], &e) == EIN_OK) n++;
        assert_in_range(n, 4, 5);
        assert_non_null(strstr(e.line, "device 0: 10485760 bytes wanted, "));
        while (n > 0) t->api->release(t, 0, large[--n]);
        for (int i = 0; i < MANY; i++) t->api->release(t, 0, at[i]);
        assert_int_equal(((cuda_target *)t)->devices[0].used, 0);
        assert_int_equal(fake_used(0), 0);
        ein_context_free(c);
        nothing_left();
    }
}

/* Rows of host memory: next to each other, apart, and further apart than a driver copies in one call. */
static void uploads(void **state)
{
    static const i64 strides[] = {6, 10, ((i64)1 << 30) + 8};
    const size_t most = 2 * (size_t)strides[2] + 16;
    (void)state;
    char *host = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(host != MAP_FAILED);
    for (int i = 0; i < 3; i++) {
        char want[18], got[18];
        void *there = NULL;
        error e = {0};
        fake_configure("devices=1 memory=64m");
        ein_context *c = open_context("cuda", NULL);
        for (int r = 0; r < 3; r++)
            for (int k = 0; k < 6; k++) want[6 * r + k] = host[r * strides[i] + k] = (char)(10 * r + k + i);
        assert_int_equal(c->target->api->alloc(c->target, 0, sizeof want, &there, &e), EIN_OK);
        assert_int_equal(c->target->api->upload(c->target, 0, there, host, 3, 6, strides[i], &e), EIN_OK);
        look((cuda_target *)c->target, there, got, sizeof got);
        assert_memory_equal(want, got, sizeof want);
        c->target->api->release(c->target, 0, there);
        ein_context_free(c);
        nothing_left();
    }
    munmap(host, most);
}

/* ---- products ----------------------------------------------------------------------------------------- */

static ein_tensor input(ein_graph *g, const char *prefix, int i, ein_dtype d, int rank, const int64_t *shape)
{
    char name[16];
    snprintf(name, sizeof name, "%s%d", prefix, i);
    return ein_input(g, name, d, rank, shape);
}

/* Every way in which two operands' labels meet: transposed, batched, batched in an order that does not join, without a
 * label in one of them, a single row, a single column; in all types, and in two at once, which is no library's product. */
static void products(void **state)
{
    static const struct { const char *equation; int64_t a[4], b[4]; int rank_a, rank_b; } cases[] = {
        {"ik,kj->ij", {5, 7}, {7, 6}, 2, 2},           {"ki,kj->ij", {7, 5}, {7, 6}, 2, 2},
        {"ik,jk->ij", {5, 7}, {6, 7}, 2, 2},           {"ki,jk->ij", {7, 5}, {6, 7}, 2, 2},
        {"bik,bkj->bij", {3, 5, 7}, {3, 7, 6}, 3, 3},  {"bik,kj->bij", {3, 5, 7}, {7, 6}, 3, 2},
        {"bik,akj->baij", {3, 5, 7}, {2, 7, 6}, 3, 3}, {"abik,bakj->abij", {2, 3, 5, 7}, {3, 2, 7, 6}, 4, 4},
        {"bik,ajk->biaj", {3, 5, 7}, {2, 6, 7}, 3, 3}, {"ik,kj->ij", {1, 7}, {7, 6}, 2, 2},
        {"ik,kj->ij", {5, 7}, {7, 1}, 2, 2},           {"k,kj->j", {7}, {7, 6}, 1, 2},
    };
    static const struct { ein_dtype a, b; } types[] = {
        {EIN_F32, EIN_F32}, {EIN_BF16, EIN_BF16}, {EIN_F16, EIN_F16}, {EIN_BF16, EIN_F32}};
    enum { CASES = sizeof cases / sizeof *cases };
    (void)state;
    for (int t = 0; t < 4; t++) {
        ein_graph *g = NULL;
        assert_int_equal(ein_graph_create(&g), EIN_OK);
        for (int i = 0; i < CASES; i++) {
            char name[16];
            ein_tensor x[2] = {input(g, "a", i, types[t].a, cases[i].rank_a, cases[i].a),
                               input(g, "b", i, types[t].b, cases[i].rank_b, cases[i].b)};
            snprintf(name, sizeof name, "y%d", i);
            ein_output(g, name, ein_einsum(g, cases[i].equation, 2, x));
        }
        assert_string_equal(ein_graph_error(g), "");
        fake_configure("devices=2 memory=64m check=1");
        trial_once(g, "cuda:2", NULL, NULL);
        assert_int_equal(fake_calls("cublasLtMatmul") > CASES, t < 3);
        assert_int_equal(fake_calls("cublasLtMatrixLayoutSetAttribute") > 0, t < 3);
        ein_graph_free(g);
        nothing_left();
    }
}

/* Where no algorithm multiplies rightly the program is refused, and says which product. */
static void no_right_product(void **state)
{
    ein_graph *g = NULL;
    ein_program *p = NULL;
    (void)state;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_tensor x[2] = {ein_input(g, "x", EIN_F32, SHAPE(3, 8)), ein_input(g, "w", EIN_F32, SHAPE(8, 5))};
    ein_output(g, "y", ein_einsum(g, "ik,kj->ij", 2, x));
    fake_configure("devices=1 memory=64m");
    ein_context *c = open_context("cuda", NULL);
    fake_fail("cublasLtMatmulAlgoGetHeuristic", 1, CUBLAS_STATUS_NOT_SUPPORTED);
    assert_int_equal(ein_compile(&p, c, g, NULL), EIN_DEVICE_FAILED);
    assert_non_null(strstr(ein_context_error(c), "has no right algorithm among 0 for f32[3,5] = f32[8] f32"));
    ein_context_free(c);
    ein_graph_free(g);
    nothing_left();
}

/* ---- what a graph sets anew --------------------------------------------------------------------------- */

/* x times a state that it is appended to: the product's operand, and bytes that must be brought, are elsewhere when the
 * run gets another state. */
static ein_graph *growing(void)
{
    ein_graph *g = NULL;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_tensor rows = ein_input(g, "rows", EIN_F32, SHAPE(2, 12)), x = ein_input(g, "x", EIN_F32, SHAPE(3, 12));
    ein_tensor all = ein_state_append(g, ein_state_tensor(g, "cache", EIN_F32, SHAPE(8, 12)), rows, 0, ein_scalar_input(g, "at"));
    ein_output(g, "y", ein_einsum(g, "ik,tk->it", 2, (ein_tensor[]){x, all}));
    ein_output(g, "z", ein_sum(g, ein_relu(g, all), 1, (int[]){0}, 0));
    assert_string_equal(ein_graph_error(g), "");
    return g;
}

static void other_states(void **state)
{
    enum { Y = 3 * 8, Z = 12 };
    ein_graph *user = growing();
    graph g = {.nodes = {0}};
    trial t;
    (void)state;
    trial_make(&t, user);
    assert_int_equal(ein__canonicalize(&user->g, &g, NULL), EIN_OK);
    setenv("EIN_GRAPHS", "1", 1);
    fake_configure("devices=2 peers=none memory=64m check=1");
    for (uint64_t seed = 1; seed < 7; seed++) {
        arena a = {NULL};
        plan p;
        text json = {0};
        ein_state *st[2] = {NULL};
        ein_run *r = NULL;
        ein_weights *w = NULL;
        assert_int_equal(random_plan_make(&a, &g, seed, 2, NULL, &p), EIN_OK);
        assert_int_equal(ein__plan_print(&g, &p, &json), EIN_OK);
        ein_context *c = open_context("cuda:2", NULL);
        assert_int_equal(ein_weights_create(&w, c), EIN_OK);
        ein_program *q = compile_program(c, user, &(ein_compile_options){.size = sizeof(ein_compile_options), .weights = w,
                                                                        .plan = json.bytes});
        for (int i = 0; i < 2; i++) assert_int_equal(ein_state_create(&st[i], q), EIN_OK);
        assert_int_equal(ein_run_create(&r, q), EIN_OK);
        for (int i = 0; i < 5; i++) {
            float y[Y], z[Z];
            size_t n;
            ein_state *now = st[i / 2 % 2];
            trial_set_scalar(&t, "at", i);
            assert_int_equal(ein_state_reset(now), EIN_OK);
            trial_bind(&t, r);
            assert_int_equal(ein_run_output(r, "y", y, sizeof y), EIN_OK);
            assert_int_equal(ein_run_output(r, "z", z, sizeof z), EIN_OK);
            assert_int_equal(ein_run_state(r, now), EIN_OK);
            if (ein_run_once(r) != EIN_OK) fail_msg("seed %d: %s", (int)seed, ein_run_error(r));
            assert_int_equal(ein_state_reset(now), EIN_OK);
            char *want = trial_outputs(&t, q, now, &n); /* a fresh run: by streams */
            assert_memory_equal(want, y, sizeof y);
            assert_memory_equal(want + sizeof y, z, sizeof z);
            free(want);
        }
        ein_run_free(r);
        for (int i = 0; i < 2; i++) ein_state_free(st[i]);
        ein_program_free(q);
        ein_weights_free(w);
        ein_context_free(c);
        ein__text_free(&json);
        ein__arena_free(&a);
    }
    assert_true(fake_calls("cuGraphLaunch") >= 6 * 4);
    assert_true(fake_calls("cuGraphExecChildGraphNodeSetParams") > 0);
    unsetenv("EIN_GRAPHS");
    ein__arena_free(&g.arena);
    trial_free(&t);
    ein_graph_free(user);
    nothing_left();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory), cmocka_unit_test(uploads), cmocka_unit_test(products),
                                       cmocka_unit_test(no_right_product), cmocka_unit_test(other_states)};
    unsetenv("EIN_CUDA"); /* the fakes are in this process */
    unsetenv("EIN_NVRTC");
    unsetenv("EIN_CUBLASLT");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
