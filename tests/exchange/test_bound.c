/* SPDX-License-Identifier: Apache-2.0 */
/* Classes and bounds of patterns whose answer is known. */
#include <math.h>

#include "exchange/routes.h"
#include "exchange/schedule.h"
#include "tests/exchange/problems.h"

static const i64 GIGA = 250000000; /* floats: 1e9 bytes */

static void open_problem(problem *q, int n, int from_parts, int n_partials, int to_parts)
{
    merge *m;
    memset(q, 0, sizeof *q);
    assert_int_equal(ein__merge_make(&q->a, MERGE_SUM, 1, EIN_F32, &m), EIN_OK);
    even_relation(&q->a, 1, (i64[]){GIGA}, (int[]){from_parts}, n_partials, &q->states[0]);
    even_relation(&q->a, 1, (i64[]){GIGA}, (int[]){to_parts}, 1, &q->to);
    if (to_parts == 1) q->to.devices = (devset[]){0};
    q->p = (exchange_problem){.n_states = 1, .states = {&q->states[0]}, .used = 1, .dtype = EIN_F32, .n_devices = n,
                              .merge = n_partials > 1 ? m : NULL, .to = &q->to};
}

static void classes(problem *q, demand *d)
{
    error e = {0};
    if (ein__demand_make(&q->a, &q->p, d, &e) != EIN_OK) fail_msg("%s", e.line);
}

static void expect_bound(problem *q, const char *machine_name, double want)
{
    demand d;
    double all, few;
    const routes *r = routes_of(&q->a, machine_name);
    classes(q, &d);
    assert_int_equal(ein__demand_bound(&q->a, &d, r, true, &all), EIN_OK);
    assert_int_equal(ein__demand_bound(&q->a, &d, r, false, &few), EIN_OK);
    if (isinf(want) ? !isinf(all) : fabs(all - want) > 0.002 * want) fail_msg("%s: %g, not %g", machine_name, all, want);
    assert_true(few <= all * (1 + 1e-12));
}

/* In milliseconds, for 1 GB: with 22 GB/s a link of a DGX-1 a device has 132 GB/s, four have 88 to the others. */
static void test_gather(void **unused)
{
    problem q;
    (void)unused;
    open_problem(&q, 8, 8, 1, 1);
    devset all = ALL_DEVICES(8);
    q.to.devices = &all;
    expect_bound(&q, "nvswitch8", 7.0 / 8 / 376);
    expect_bound(&q, "dgx-1", 7.0 / 8 / 132);
    demand d;
    classes(&q, &d);
    assert_int_equal(d.n_classes, 8);
    for (int c = 0; c < 8; c++) {
        assert_int_equal(d.classes[c].holders[0], DEV(c));
        assert_int_equal(d.classes[c].to, all);
        assert_int_equal(d.classes[c].elements, GIGA / 8);
        assert_true(d.classes[c].finished_bytes == 1e9 / 8);
    }
    ein__arena_free(&q.a);
}

static void test_reduce(void **unused)
{
    problem q;
    (void)unused;
    open_problem(&q, 8, 1, 8, 8);
    expect_bound(&q, "nvswitch8", 7.0 / 8 / 376); /* scattered */
    expect_bound(&q, "dgx-1", 7.0 / 8 / 132);
    ein__arena_free(&q.a);
    devset all = ALL_DEVICES(8), one = DEV(0);
    open_problem(&q, 8, 1, 8, 1);
    q.to.devices = &all;
    expect_bound(&q, "nvswitch8", 2 * 7.0 / 8 / 376); /* to all: twice the gathering */
    expect_bound(&q, "dgx-1", 2 * 7.0 / 8 / 132);
    q.to.devices = &one;
    expect_bound(&q, "nvswitch8", 1.0 / 376); /* to one */
    demand d;
    classes(&q, &d);
    assert_int_equal(d.n_classes, 1);
    assert_int_equal(d.classes[0].n_partials, 8);
    assert_true(d.combines && d.storable);
    ein__arena_free(&q.a);
}

/* The link between two roots: half of everything crosses it. */
static void test_roots(void **unused)
{
    problem q;
    devset all = ALL_DEVICES(4), two = DEV(0) | DEV(3);
    (void)unused;
    open_problem(&q, 4, 4, 1, 1);
    q.to.devices = &all;
    expect_bound(&q, "4xpcie", 0.75 / 24); /* a port brings three quarters, the link only half */
    expect_bound(&q, "bridge-pairs", 0.5 / 30);
    q.to.devices = &two;
    expect_bound(&q, "4xpcie", 0.75 / 24);
    ein__arena_free(&q.a);
}

/* A partial held twice need not be sent to where its other copy is; two devices without a link cannot meet. */
static void test_copies(void **unused)
{
    problem q;
    devset held[] = {DEV(0) | DEV(1), DEV(1)}, one = DEV(0);
    (void)unused;
    open_problem(&q, 2, 1, 2, 1);
    q.to.devices = &one;
    q.states[0].devices = held;
    expect_bound(&q, "nvswitch8:0,1", 1.0 / 376);
    held[1] = DEV(0);
    expect_bound(&q, "nvswitch8:0,1", 0);
    held[1] = DEV(1);
    expect_bound(&q, "dgx-1:0,5", INFINITY);
    ein__arena_free(&q.a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gather), cmocka_unit_test(test_reduce),
                                       cmocka_unit_test(test_roots), cmocka_unit_test(test_copies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
