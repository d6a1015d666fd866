/* SPDX-License-Identifier: Apache-2.0 */
/* Costs on machines whose answer can be worked out by hand. */
#include <math.h>

#include "exchange/routes.h"
#include "tests/exchange/problems.h"

static void load(arena *a, const char *name, machine *m)
{
    error e = {0};
    if (ein__machine_parse(a, name, m, &e) != EIN_OK) fail_msg("%s", e.line);
}

/* A step that only has bytes. */
static traffic moved(int from, int to, double bytes)
{
    traffic x;
    memset(&x, 0, sizeof x);
    x.pair[from][to] = bytes;
    return x;
}

static double price(const machine *m, const traffic *x)
{
    arena a = {NULL};
    const routes *r;
    assert_int_equal(ein__routes_make(&a, m, &r), EIN_OK);
    double seconds = ein__traffic_seconds(r, x) + ein__traffic_latency(r, x);
    ein__arena_free(&a);
    return seconds;
}

static void about(double got, double want) { assert_true(fabs(got - want) <= 1e-9 * want); }

static void test_at_home(void **unused)
{
    arena a = {NULL};
    machine m;
    traffic x = moved(0, 0, 0);
    (void)unused;
    load(&a, "nvswitch8", &m);
    x.local[3] = 3350000;
    about(price(&m, &x), 1e-6 + m.launch_floor);
    ein__arena_free(&a);
}

/* 8 devices gather 8 parts of 47 MB: 7 parts come through each port of 376 GB/s. */
static void test_ports(void **unused)
{
    arena a = {NULL};
    machine m;
    traffic x = moved(0, 0, 0);
    (void)unused;
    load(&a, "nvswitch8", &m);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) x.pair[i][j] = i != j ? 47000000 : 0;
    about(price(&m, &x), 7 * 47e6 / 376e9 + 3e-6);
    /* Everybody reads from device 2: its way out is the port that counts. */
    x = moved(2, 0, 47000000);
    about(price(&m, &x), 47e6 / 376e9 + 3e-6);
    x.pair[2][1] = 47000000;
    about(price(&m, &x), 2 * 47e6 / 376e9 + 3e-6);
    /* Opposite directions do not meet. */
    x = moved(2, 0, 47000000);
    x.pair[0][2] = 47000000;
    about(price(&m, &x), 47e6 / 376e9 + 3e-6);
    ein__arena_free(&a);
}

static void test_paths(void **unused)
{
    arena a = {NULL};
    machine m;
    traffic x;
    (void)unused;
    load(&a, "dgx-1", &m);
    x = moved(0, 1, 22000000); /* its own link, although longer ways are wider */
    about(price(&m, &x), 1e-3 + 3e-6);
    x = moved(0, 4, 22000000);
    about(price(&m, &x), 0.5e-3 + 3e-6);
    x = moved(0, 5, 44000000); /* no link: over device 4, 7, 6 or 3, 2, 1 all the way at 44 GB/s */
    double far = price(&m, &x);
    assert_true(far >= 1e-3 + 6e-6 && far < 1e-3 + 20e-6);
    load(&a, "bridge-pairs", &m);
    x = moved(0, 1, 50000000);
    about(price(&m, &x), 1e-3 + 5e-6);
    x = moved(0, 2, 24000000); /* through both switches */
    x.pair[1][3] = 24000000; /* they share the middle link of 30 GB/s */
    about(price(&m, &x), 48e6 / 30e9 + 5e-6);
    ein__arena_free(&a);
}

static void test_no_path(void **unused)
{
    arena a = {NULL};
    machine m;
    traffic x;
    (void)unused;
    load(&a, "nvswitch8", &m);
    m.n_links = 2; /* device 0 and the switch */
    x = moved(1, 0, 4);
    assert_true(isinf(price(&m, &x)));
    x = moved(0, 1, 0);
    about(price(&m, &x), m.launch_floor);
    ein__arena_free(&a);
}

static void test_host(void **unused)
{
    arena a = {NULL};
    machine m;
    traffic x;
    (void)unused;
    load(&a, "host:4", &m);
    x = moved(3, 1, 2500000);
    about(price(&m, &x), 1e-3 + 5e-6);
    x.host[2] = 5000000;
    about(price(&m, &x), 2e-3 + 5e-6);
    ein__arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_at_home), cmocka_unit_test(test_ports),
                                       cmocka_unit_test(test_paths), cmocka_unit_test(test_no_path),
                                       cmocka_unit_test(test_host)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
