/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and rotary embeddings from end to end under chosen cuts: keys on two and three devices, heads, queries,
 * both; what hides keys on both sides of a cut; values that are not finite where they must not be seen. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/harness/trial_cut.h"

#define SHAPE(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}

static ein_graph *new_graph(void)
{
    ein_graph *g = NULL;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    return g;
}

static void result(ein_graph *g, const char *name, ein_tensor y)
{
    if (y.id == 0) fail_msg("%s: %s", name, ein_graph_error(g));
    ein_output(g, name, y);
}

/* ---- plans ---- */

/* Contexts on one, two and three devices, with one cache. */
typedef struct bench {
    char *cache;
    ein_context *c[4];
} bench;

static void open_bench(bench *b)
{
    b->cache = make_directory();
    for (int n = 1; n < 4; n++) {
        char machine[24];
        snprintf(machine, sizeof machine, "host:%d", n);
        b->c[n] = open_context(machine, b->cache);
    }
}

static void close_bench(bench *b)
{
    for (int n = 1; n < 4; n++) ein_context_free(b->c[n]);
    remove_directory(b->cache);
}

/* Under this cut every output is the reference's. The outputs, as trial_outputs gives them; free them. */
static void *check_cut(const bench *b, const trial *t, const char *name, int devices, const char *cuts)
{
    size_t n;
    char *plan = forced_plan(t->graph, name, cuts, 11, devices);
    ein_compile_options o = {.size = sizeof o, .counting = 1, .plan = plan};
    ein_program *p = compile_program(b->c[devices], t->graph, &o);
    trial_check(t, p, NULL);
    void *out = trial_outputs(t, p, NULL, &n);
    ein_program_free(p);
    free(plan);
    return out;
}

/* ---- attention ---- */

enum { B = 2, HKV = 2, G = 2, S = 12, T = 20, D = 8 };
static const char name[] = "scaled_dot_product_attention";

static const struct { int devices; const char *cuts; } cuttings[] = {
    {2, ""}, {2, "t 0 9 20"}, {3, "t 0 3 4 20"}, {3, "t 0 11 20 s 0 5 12"}, {2, "h 0 1 2 t 0 7 14 20"},
    {3, "b 0 1 2 g 0 1 2 s 0 7 12"}};

typedef struct problem {
    ein_dtype type, mask;
    ein_attention_options o;
    int rank;         /* of the mask */
    int64_t shape[4];
    bool partial, odd;
    i64 position, length; /* 0: no scalar */
} problem;

static ein_graph *build(const problem *p)
{
    ein_graph *g = new_graph();
    ein_attention_options o = p->o;
    ein_tensor q = ein_input(g, "q", p->type, SHAPE(B, HKV * G, S, D)), k = ein_input(g, "k", p->type, SHAPE(B, HKV, T, D)),
               v = ein_input(g, "v", p->type, SHAPE(B, HKV, T, D)), out[3];
    o.size = sizeof o;
    if (p->mask != 0) o.mask = ein_input(g, "mask", p->mask, p->rank, p->shape);
    if (p->position != 0) o.position = ein_scalar_input(g, "position");
    if (p->length != 0) o.length = ein_scalar_input(g, "length");
    if (p->partial) {
        ein_scaled_dot_product_attention_partial(g, q, k, v, &o, out);
        result(g, "m", out[0]);
        result(g, "l", out[1]);
        result(g, "o", out[2]);
    } else {
        result(g, "y", ein_scaled_dot_product_attention(g, q, k, v, &o));
    }
    return g;
}

static void put(const trial *t, const char *leaf, ein_dtype type, i64 at, double x)
{
    ein__dtype_write(type, x, (char *)trial_data(t, leaf) + at * ein__dtype_bytes(type));
}

static i64 numel(const ein_graph *g, const char *leaf)
{
    for (int i = 0; i < g->g.leaves.n; i++)
        if (strcmp(g->g.leaves.items[i].name, leaf) == 0) return ein__value_numel(&g->g, g->g.leaves.items[i].value);
    return 0;
}

/* A third of a float mask hides; one query of a bool mask, if it has queries, sees nothing. */
static void fill(const trial *t, const problem *p)
{
    i64 n = p->mask != 0 ? numel(t->graph, "mask") : 0;
    for (i64 i = 0; i < n && p->mask != EIN_BOOL; i += 3) put(t, "mask", p->mask, i, -INFINITY);
    for (i64 i = 0; i < n && i < T && p->mask == EIN_BOOL && n > T; i++) put(t, "mask", p->mask, i, 0);
    if (p->odd) {
        static const double kinds[] = {NAN, INFINITY, -INFINITY};
        for (i64 i = 0; i < B * HKV * T; i += 5) put(t, "v", p->type, i * D + i % D, kinds[i % 3]);
        put(t, "k", p->type, 6 * D + 1, NAN);
    }
    trial_set_scalar((trial *)t, "position", p->position);
    trial_set_scalar((trial *)t, "length", p->length);
}

static void check(const bench *b, const problem *p)
{
    ein_graph *g = build(p);
    trial t;
    trial_make(&t, g);
    fill(&t, p);
    for (size_t i = 0; i < sizeof cuttings / sizeof *cuttings; i++)
        free(check_cut(b, &t, name, cuttings[i].devices, cuttings[i].cuts));
    trial_free(&t);
    ein_graph_free(g);
}

#define OPTIONS(...) {.size = 0, __VA_ARGS__}

static void masks(void **state)
{
    bench b;
    (void)state;
    open_bench(&b);
    check(&b, &(problem){.type = EIN_F32, .mask = EIN_BOOL, .rank = 4, .shape = {B, 1, S, T}});
    check(&b, &(problem){.type = EIN_F32, .mask = EIN_BOOL, .rank = 2, .shape = {S, T}, .o = OPTIONS(.causal = 1)});
    check(&b, &(problem){.type = EIN_F32, .mask = EIN_F32, .rank = 4, .shape = {1, HKV * G, 1, T}});
    check(&b, &(problem){.type = EIN_BF16, .mask = EIN_F32, .rank = 4, .shape = {B, HKV * G, S, T}, .partial = true});
    check(&b, &(problem){.type = EIN_F16, .mask = EIN_F16, .rank = 3, .shape = {HKV * G, S, 1}});
    close_bench(&b);
}

static void windows(void **state)
{
    bench b;
    (void)state;
    open_bench(&b);
    check(&b, &(problem){.type = EIN_F32, .o = OPTIONS(.causal = 1, .window = 4)});
    check(&b, &(problem){.type = EIN_F32, .o = OPTIONS(.window = 6), .partial = true});
    check(&b, &(problem){.type = EIN_F64, .o = OPTIONS(.causal = 1, .window = 7, .softcap = 2), .position = 5, .length = 14});
    check(&b, &(problem){.type = EIN_BF16, .o = OPTIONS(.causal = 1, .window = 3), .position = 9, .length = 17});
    check(&b, &(problem){.type = EIN_F32, .o = OPTIONS(.causal = 1, .window = 2), .position = 300}); /* sees nothing */
    close_bench(&b);
}

static void softcaps(void **state)
{
    bench b;
    (void)state;
    open_bench(&b);
    check(&b, &(problem){.type = EIN_F32, .o = OPTIONS(.softcap = 0.7)});
    check(&b, &(problem){.type = EIN_F16, .o = OPTIONS(.softcap = 3, .scale = 4, .causal = 1), .partial = true});
    close_bench(&b);
}

/* What is not finite reaches the queries that see it, and no others, wherever keys are cut. */
static void odd_values(void **state)
{
    bench b;
    (void)state;
    open_bench(&b);
    check(&b, &(problem){.type = EIN_F32, .o = OPTIONS(.causal = 1), .odd = true});
    check(&b, &(problem){.type = EIN_F32, .o = OPTIONS(.causal = 1, .window = 3), .length = 15, .odd = true, .partial = true});
    check(&b, &(problem){.type = EIN_BF16, .mask = EIN_BOOL, .rank = 4, .shape = {B, 1, S, T}, .odd = true});
    check(&b, &(problem){.type = EIN_F64, .mask = EIN_F64, .rank = 2, .shape = {S, T}, .odd = true});
    close_bench(&b);
}

/* Keys of weights 1, 2, 3, 4, hidden, 1 and values 1, 2, 3, 4, NaN, 6: 36 / 11, the second query sees nothing. */
static void by_hand(void **state)
{
    static const double keys[] = {0, 0.6931471805599453, 1.0986122886681098, 1.3862943611198906, NAN, 0};
    static const double values[] = {1, 2, 3, 4, NAN, 6};
    static const char *const by[] = {"t 0 6", "t 0 2 6", "t 0 2 4 6", "t 0 4 5 6"};
    bench b;
    trial t;
    ein_graph *g = new_graph();
    ein_attention_options o = {.size = sizeof o, .scale = 1, .mask = ein_input(g, "mask", EIN_BOOL, SHAPE(2, 6))};
    (void)state;
    result(g, "y", ein_scaled_dot_product_attention(g, ein_input(g, "q", EIN_F32, SHAPE(1, 1, 2, 1)),
                                                    ein_input(g, "k", EIN_F32, SHAPE(1, 1, 6, 1)),
                                                    ein_input(g, "v", EIN_F32, SHAPE(1, 1, 6, 1)), &o));
    open_bench(&b);
    trial_make(&t, g);
    for (int i = 0; i < 6; i++) {
        put(&t, "k", EIN_F32, i, keys[i]);
        put(&t, "v", EIN_F32, i, values[i]);
        put(&t, "mask", EIN_BOOL, i, i != 4);
        put(&t, "mask", EIN_BOOL, 6 + i, 0);
    }
    put(&t, "q", EIN_F32, 0, 1);
    put(&t, "q", EIN_F32, 1, NAN);
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        float *y = check_cut(&b, &t, name, i < 2 ? 2 : 3, by[i]);
        assert_true(fabsf(y[0] - 36.0f / 11) < 1e-6f);
        assert_true(y[1] == 0);
        free(y);
    }
    trial_free(&t);
    ein_graph_free(g);
    close_bench(&b);
}

/* Heads that share one key head, and keys of their own number: neither causal nor as many as queries. */
static void one_key_head(void **state)
{
    static const char *const by[] = {"g 0 1 4 t 0 5 20", "t 0 6 13 20", "g 0 3 4 s 0 2 3"};
    static const ein_dtype all[] = {EIN_F32, EIN_BF16, EIN_F16, EIN_F64};
    bench b;
    (void)state;
    open_bench(&b);
    for (int i = 0; i < 4; i++) {
        ein_graph *g = new_graph();
        trial t;
        ein_tensor q = ein_input(g, "q", all[i], SHAPE(1, 4, 3, D)), k = ein_input(g, "k", all[i], SHAPE(1, 1, T, D)),
                   v = ein_input(g, "v", all[i], SHAPE(1, 1, T, 5));
        result(g, "y", ein_scaled_dot_product_attention(g, q, k, v, NULL));
        trial_make(&t, g);
        for (int c = 0; c < 3; c++) free(check_cut(&b, &t, name, 3, by[c]));
        trial_free(&t);
        ein_graph_free(g);
    }
    close_bench(&b);
}

/* ---- decoding ---- */

enum { ROOM = 24, STEPS = 20, WINDOW = 6 };

/* One step: rows of k and v are appended to a cache in bf16, of which the last WINDOW are seen. */
static ein_graph *step_graph(void)
{
    ein_graph *g = new_graph();
    ein_attention_options o = {.size = sizeof o, .causal = 1, .window = WINDOW, .position = ein_scalar_input(g, "position"),
                               .length = ein_scalar_input(g, "length")};
    ein_tensor x[3], cache[2];
    const char *const names[] = {"q", "k", "v"}, *const states[] = {"key cache", "value cache"};
    for (int i = 0; i < 3; i++) x[i] = ein_input(g, names[i], EIN_BF16, SHAPE(1, i == 0 ? HKV * G : HKV, 1, D));
    for (int i = 0; i < 2; i++)
        cache[i] = ein_state_append(g, ein_state_tensor(g, states[i], EIN_BF16, SHAPE(1, HKV, ROOM, D)), x[1 + i], 2,
                                    o.position);
    result(g, "y", ein_scaled_dot_product_attention(g, x[0], cache[0], cache[1], &o));
    return g;
}

/* A float that bf16 has. */
static double data(int which, int step, int h, int d)
{
    int x = (which * 31 + step * 17 + h * 7 + d * 5) % 23;
    return (x - 11) / 8.0;
}

static double expected(int step, int head, int d)
{
    double l = 0, o = 0, x[STEPS], m = -INFINITY;
    int first = step - WINDOW + 1 < 0 ? 0 : step - WINDOW + 1;
    for (int t = first; t <= step; t++) {
        x[t] = 0;
        for (int i = 0; i < D; i++) x[t] += data(0, step, head, i) * data(1, t, head / G, i) / sqrt(D);
        m = fmax(m, x[t]);
    }
    for (int t = first; t <= step; t++) {
        l += exp(x[t] - m);
        o += exp(x[t] - m) * data(2, t, head / G, d);
    }
    return o / l;
}

static void decode_steps(ein_program *p, ein_state *state)
{
    ein_run *r = NULL;
    uint16_t x[3][HKV * G * D], y[HKV * G * D];
    assert_int_equal(ein_run_create(&r, p), EIN_OK);
    assert_int_equal(ein_run_state(r, state), EIN_OK);
    for (int step = 0; step < STEPS; step++) {
        static const char *const names[] = {"q", "k", "v"};
        for (int i = 0; i < 3; i++) {
            int heads = i == 0 ? HKV * G : HKV;
            for (int h = 0; h < heads; h++)
                for (int d = 0; d < D; d++) ein__dtype_write(EIN_BF16, data(i, step, h, d), &x[i][h * D + d]);
            assert_int_equal(ein_run_input(r, names[i], x[i], (size_t)(heads * D) * 2), EIN_OK);
        }
        assert_int_equal(ein_run_output(r, "y", y, sizeof y), EIN_OK);
        assert_int_equal(ein_run_scalar(r, "position", step), EIN_OK);
        assert_int_equal(ein_run_scalar(r, "length", step + 1), EIN_OK);
        if (ein_run_once(r) != EIN_OK) fail_msg("%s", ein_run_error(r));
        for (int h = 0; h < HKV * G; h++)
            for (int d = 0; d < D; d++) {
                double want = expected(step, h, d), got = ein__dtype_read(EIN_BF16, &y[h * D + d]);
                if (fabs(got - want) > fabs(want) / 256 + 1e-6)
                    fail_msg("step %d, head %d, column %d: %g, not %g", step, h, d, got, want);
            }
    }
    ein_run_free(r);
}

static void decoding(void **state)
{
    static const char *const by[] = {"t 0 8 13 24", "t 0 11 24 h 0 1 2"};
    bench b;
    ein_graph *g = step_graph();
    (void)state;
    open_bench(&b);
    for (int i = 0; i < 3; i++) {
        ein_compile_options o = {.size = sizeof o};
        ein_state *cache = NULL;
        char *plan = i < 2 ? forced_plan(g, name, by[i], 3, 3) : NULL;
        o.plan = plan;
        ein_program *p = compile_program(b.c[3], g, &o);
        assert_int_equal(ein_state_create(&cache, p), EIN_OK);
        decode_steps(p, cache);
        ein_state_free(cache);
        ein_program_free(p);
        free(plan);
    }
    ein_graph_free(g);
    close_bench(&b);
}

/* ---- rotary embeddings ---- */

enum { POSITIONS = 9, HEADS = 3, ROWS = 5, SIZE = 10 };

static double rotated(const trial *t, ein_dtype type, ein_dtype table, bool interleaved, i64 b, i64 s, i64 h, i64 d, i64 at)
{
    const i64 half = SIZE / 2, pair = interleaved ? d / 2 : d % half;
    const char *x = trial_data(t, "x"), *c = trial_data(t, "cosine"), *w = trial_data(t, "sine");
    i64 row = ((b * ROWS + s) * HEADS + h) * SIZE, bytes = ein__dtype_bytes(type), k = (s + at) * half + pair;
    double first = ein__dtype_read(type, x + (row + (interleaved ? 2 * pair : pair)) * bytes),
           second = ein__dtype_read(type, x + (row + (interleaved ? 2 * pair + 1 : pair + half)) * bytes),
           cosine = ein__dtype_read(table, c + k * ein__dtype_bytes(table)),
           sine = ein__dtype_read(table, w + k * ein__dtype_bytes(table));
    return (interleaved ? d % 2 : d / half) == 0 ? first * cosine - second * sine : second * cosine + first * sine;
}

static void check_rope(const bench *b, ein_dtype type, ein_dtype table, bool interleaved, i64 position)
{
    static const char *const by[] = {"pair 0 2 5", "pair 0 1 4 5", "pair 0 3 5 s 0 1 5", "h 0 1 3 pair 0 0 2 5"};
    ein_graph *g = new_graph();
    ein_tensor x = ein_input(g, "x", type, SHAPE(2, ROWS, HEADS, SIZE)), c = ein_input(g, "cosine", table, SHAPE(POSITIONS, SIZE / 2)),
               s = ein_input(g, "sine", table, SHAPE(POSITIONS, SIZE / 2));
    ein_scalar at = ein_scalar_input(g, "position");
    trial t;
    result(g, "y", interleaved ? ein_rope_interleaved(g, x, c, s, at) : ein_rope(g, x, c, s, at));
    trial_make(&t, g);
    trial_set_scalar(&t, "position", position);
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        char *y = check_cut(b, &t, interleaved ? "rope_interleaved" : "rope", 2 + (int)i % 2, by[i]);
        double room = type == EIN_F64 ? 1e-15 : type == EIN_F32 ? 1e-6 : type == EIN_F16 ? 0x1p-11 : 0x1p-8;
        for (i64 k = 0; k < 2 * ROWS * HEADS * SIZE; k++) {
            double want = rotated(&t, type, table, interleaved, k / SIZE / HEADS / ROWS, k / SIZE / HEADS % ROWS,
                                  k / SIZE % HEADS, k % SIZE, position);
            double got = ein__dtype_read(type, y + k * ein__dtype_bytes(type));
            if (fabs(got - want) > room * (1 + fabs(want))) fail_msg("element %lld is %g, not %g", (long long)k, got, want);
        }
        free(y);
    }
    trial_free(&t);
    ein_graph_free(g);
}

static void ropes(void **state)
{
    bench b;
    (void)state;
    open_bench(&b);
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        check_rope(&b, EIN_F32, EIN_F32, interleaved, 3);
        check_rope(&b, EIN_BF16, EIN_F32, interleaved, 4);
        check_rope(&b, EIN_F64, interleaved ? EIN_F32 : EIN_F64, interleaved, 0);
        check_rope(&b, EIN_F16, EIN_F16, interleaved, 1);
    }
    close_bench(&b);
}

/* A quarter turn and none: (1, 2, 3, 4) becomes (-3, 2, 1, 4) by halves, (-2, 1, 3, 4) by neighbours. */
static void rope_by_hand(void **state)
{
    static const float want[2][4] = {{-3, 2, 1, 4}, {-2, 1, 3, 4}};
    bench b;
    (void)state;
    open_bench(&b);
    for (int i = 0; i < 2; i++) {
        ein_graph *g = new_graph();
        ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(1, 1, 1, 4)),
                   c = ein_constant(g, EIN_F32, SHAPE(1, 2), (float[]){0, 1}),
                   s = ein_constant(g, EIN_F32, SHAPE(1, 2), (float[]){1, 0});
        trial t;
        result(g, "y", i == 0 ? ein_rope(g, x, c, s, (ein_scalar){0}) : ein_rope_interleaved(g, x, c, s, (ein_scalar){0}));
        trial_make(&t, g);
        for (int k = 0; k < 4; k++) put(&t, "x", EIN_F32, k, k + 1);
        float *y = check_cut(&b, &t, i == 0 ? "rope" : "rope_interleaved", 2, "pair 0 1 2");
        for (int k = 0; k < 4; k++) assert_true(y[k] == want[i][k]);
        free(y);
        trial_free(&t);
        ein_graph_free(g);
    }
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(masks),      cmocka_unit_test(windows), cmocka_unit_test(softcaps),
                                       cmocka_unit_test(odd_values), cmocka_unit_test(by_hand), cmocka_unit_test(one_key_head),
                                       cmocka_unit_test(decoding),   cmocka_unit_test(ropes),   cmocka_unit_test(rope_by_hand)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
