/* SPDX-License-Identifier: Apache-2.0 */
/* What the cost model takes a block's work to be, counted here point by point. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/graph/graph.h"
#include "ein.h"
#include "jit/costs.h"

enum { S = 40, T = 60, D = 512 };

typedef struct costs {
    arena arena;
    machine machine;
    cost_model model;
} costs;

static void open_costs(costs *c)
{
    error e = {0};
    *c = (costs){0};
    assert_int_equal(ein__machine_parse(&c->arena, "dgx-a100", &c->machine, &e), EIN_OK);
    c->machine.launch_floor = 0;
    for (int d = 0; d < c->machine.n_devices; d++) c->machine.devices[d].memory_bandwidth = 1e30; /* arithmetic only */
    assert_int_equal(ein__cost_model(&c->arena, &c->machine, &c->model), EIN_OK);
}

static ein_graph *attention(i64 window, int causal, bool position)
{
    ein_graph *g = NULL;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_attention_options o = {.size = sizeof o, .window = window, .causal = causal};
    if (position) o.position = ein_scalar_input(g, "p");
    ein_tensor q = ein_input(g, "q", EIN_F32, 4, (int64_t[]){1, 1, S, D}),
               k = ein_input(g, "k", EIN_F32, 4, (int64_t[]){1, 1, T, D});
    ein_scaled_dot_product_attention(g, q, k, k, &o);
    assert_string_equal(ein_graph_error(g), "");
    return g;
}

static label_box box(i64 s0, i64 s1, i64 t0, i64 t1)
{
    label_box b = {{0}, {0}};
    b.len[ATT_B] = b.len[ATT_H] = b.len[ATT_G] = 1;
    b.len[ATT_D] = b.len[ATT_E] = D;
    b.lo[ATT_S] = s0;
    b.len[ATT_S] = s1 - s0;
    b.lo[ATT_T] = t0;
    b.len[ATT_T] = t1 - t0;
    return b;
}

static double price(const costs *c, const ein_graph *g, label_box b)
{
    return c->model.compute(c->model.user, &g->g, &g->g.nodes.items[0], &b, 1);
}

/* Of a box's pairs of query and key, those within the window (0: there is none). */
static double count(i64 window, int causal, label_box b, i64 position)
{
    double n = 0;
    for (i64 s = b.lo[ATT_S]; s < b.lo[ATT_S] + b.len[ATT_S]; s++)
        for (i64 t = b.lo[ATT_T]; t < b.lo[ATT_T] + b.len[ATT_T]; t++)
            n += (window == 0 || t > s + position - window) && (!causal || t <= s + position);
    return n;
}

static void windows(void **state)
{
    static const i64 widths[] = {1, 7, 30, 100, 0};
    costs c;
    (void)state;
    open_costs(&c);
    ein_graph *full = attention(0, 0, false);
    double pair = price(&c, full, box(0, S, 0, T)) / (S * T);
    assert_true(pair > 0);
    for (int i = 0; i < 10; i++) {
        i64 window = widths[i / 2];
        ein_graph *g = attention(window, i % 2, false);
        for (i64 s0 = 0; s0 < S; s0 += 13)
            for (i64 t0 = 0; t0 < T; t0 += 19) {
                label_box b = box(s0, s0 + 11, t0, t0 + 17);
                assert_float_equal(price(&c, g, b) / pair, count(window, i % 2, b, 0), 1e-6);
            }
        ein_graph_free(g);
    }
    ein_graph *g = attention(INT64_MAX, 1, false), *wide = attention(INT64_MAX, 0, true);
    label_box b = box(0, S, 0, T);
    assert_float_equal(price(&c, g, b) / pair, count(1000, 1, b, 0), 1e-6);
    assert_float_equal(price(&c, wide, b) / pair, S * T, 1e-6);
    ein_graph_free(g);
    ein_graph_free(wide);
    ein_graph_free(full);
    ein__arena_free(&c.arena);
}

/* A position of the run: as many pairs as there can be. */
static void positions(void **state)
{
    static const i64 widths[] = {1, 7, 30, 100};
    costs c;
    (void)state;
    open_costs(&c);
    ein_graph *full = attention(0, 0, false), *causal = attention(0, 1, true);
    double pair = price(&c, full, box(0, S, 0, T)) / (S * T);
    assert_float_equal(price(&c, causal, box(0, S, 0, T)) / pair, S * T, 1e-6);
    ein_graph_free(causal);
    for (int i = 0; i < 4; i++) {
        ein_graph *g = attention(widths[i], 1, true);
        for (i64 t = 1; t < T; t += 13) {
            label_box b = box(3, 25, 20, 20 + t);
            double most = 0;
            for (i64 p = -200; p < 200; p++) most = fmax(most, count(widths[i], 1, b, p));
            assert_float_equal(price(&c, g, b) / pair, most, 1e-6);
        }
        ein_graph_free(g);
    }
    ein_graph_free(full);
    ein__arena_free(&c.arena);
}

/* Products and attention of 16-bit numbers run at the rate of the matrix units, all else at that of f32. */
static void narrow_rates(void **state)
{
    costs c;
    (void)state;
    open_costs(&c);
    const double f32 = 0.8 * 19.5e12, narrow = 0.8 * 312e12;
    const ein_dtype types[] = {EIN_F32, EIN_BF16, EIN_F16};
    for (int i = 0; i < 3; i++) {
        ein_graph *g = NULL;
        assert_int_equal(ein_graph_create(&g), EIN_OK);
        ein_tensor x = ein_input(g, "x", types[i], 4, (int64_t[]){1, 1, T, D});
        ein_linear(g, x, ein_parameter(g, "w", types[i], 2, (int64_t[]){S, D}), (ein_tensor){0});
        ein_scaled_dot_product_attention(g, x, x, x, NULL);
        ein_silu(g, x);
        assert_string_equal(ein_graph_error(g), "");
        label_box product = {{0}, {1, 1, T, S, D}}, attention = box(0, T, 0, T), rows = {{0}, {1, 1, T, D}};
        double seconds[3];
        for (int n = 0; n < 3; n++)
            seconds[n] = c.model.compute(c.model.user, &g->g, &g->g.nodes.items[n],
                                         n == 0 ? &product : n == 1 ? &attention : &rows, 1);
        double rate = i == 0 ? f32 : narrow;
        assert_float_equal(seconds[0] * rate / (2.0 * T * S * D), 1, 1e-9);
        assert_float_equal(seconds[1] * (i == 0 ? f32 : 0.75 * narrow) / (4.0 * T * T * D), 1, 1e-9);
        assert_float_equal(seconds[2] * f32 / ((double)T * D * g->g.nodes.items[2].spec.flops), 1, 1e-9);
        ein_graph_free(g);
    }
    ein__arena_free(&c.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(windows), cmocka_unit_test(positions),
                                       cmocka_unit_test(narrow_rates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
