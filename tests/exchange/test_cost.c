/* SPDX-License-Identifier: Apache-2.0 */
/* Costs on machines whose answer can be worked out by hand. */
#include <math.h>

#include "tests/exchange/problems.h"

static void load(arena *a, const char *name, machine *m)
{
    error e = {0};
    if (ein__machine_parse(a, name, m, &e) != EIN_OK) fail_msg("%s", e.line);
}

/* An exchange that only has bytes. */
static exchange traffic(int from, int to, i64 bytes)
{
    exchange x = {.n_transfers = 1};
    x.pair_bytes[from][to] = bytes;
    return x;
}

static void about(double got, double want) { assert_true(fabs(got - want) <= 1e-9 * want); }

static void test_nothing(void **unused)
{
    arena a = {NULL};
    machine m;
    exchange x = {.n_transfers = 0};
    (void)unused;
    load(&a, "nvswitch8", &m);
    assert_true(ein__exchange_seconds(&m, &x) == 0);
    x.n_transfers = 1; /* at home */
    x.local_bytes[3] = 3350000;
    about(ein__exchange_seconds(&m, &x), 1e-6 + m.launch_floor);
    ein__arena_free(&a);
}

/* 8 devices gather 8 parts of 47 MB: 7 parts come through each port of 376 GB/s. */
static void test_ports(void **unused)
{
    arena a = {NULL};
    machine m;
    exchange x = {.n_transfers = 64};
    (void)unused;
    load(&a, "nvswitch8", &m);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) x.pair_bytes[i][j] = i != j ? 47000000 : 0;
    about(ein__exchange_seconds(&m, &x), 7 * 47e6 / 376e9 + 3e-6);
    /* Everybody reads from device 2: its way out is the port that counts. */
    x = traffic(2, 0, 47000000);
    about(ein__exchange_seconds(&m, &x), 47e6 / 376e9 + 3e-6);
    x.pair_bytes[2][1] = 47000000;
    about(ein__exchange_seconds(&m, &x), 2 * 47e6 / 376e9 + 3e-6);
    /* Opposite directions do not meet. */
    x = traffic(2, 0, 47000000);
    x.pair_bytes[0][2] = 47000000;
    about(ein__exchange_seconds(&m, &x), 47e6 / 376e9 + 3e-6);
    ein__arena_free(&a);
}

static void test_paths(void **unused)
{
    arena a = {NULL};
    machine m;
    exchange x;
    (void)unused;
    load(&a, "dgx-1", &m);
    x = traffic(0, 1, 22000000); /* its own link, although longer ways are wider */
    about(ein__exchange_seconds(&m, &x), 1e-3 + 3e-6);
    x = traffic(0, 4, 22000000);
    about(ein__exchange_seconds(&m, &x), 0.5e-3 + 3e-6);
    x = traffic(0, 5, 44000000); /* no link: over device 4, 7, 6 or 3, 2, 1 all the way at 44 GB/s */
    double far = ein__exchange_seconds(&m, &x);
    assert_true(far >= 1e-3 + 6e-6 && far < 1e-3 + 20e-6);
    load(&a, "bridge-pairs", &m);
    x = traffic(0, 1, 50000000);
    about(ein__exchange_seconds(&m, &x), 1e-3 + 5e-6);
    x = traffic(0, 2, 24000000); /* through both switches */
    x.pair_bytes[1][3] = 24000000; /* they share the middle link of 30 GB/s */
    about(ein__exchange_seconds(&m, &x), 48e6 / 30e9 + 5e-6);
    ein__arena_free(&a);
}

static void test_no_path(void **unused)
{
    arena a = {NULL};
    machine m;
    exchange x;
    (void)unused;
    load(&a, "nvswitch8", &m);
    m.n_links = 2; /* device 0 and the switch */
    x = traffic(1, 0, 4);
    assert_true(isinf(ein__exchange_seconds(&m, &x)));
    x = traffic(0, 1, 0);
    about(ein__exchange_seconds(&m, &x), m.launch_floor);
    ein__arena_free(&a);
}

static void test_host(void **unused)
{
    arena a = {NULL};
    machine m;
    const routes *r;
    exchange x;
    (void)unused;
    load(&a, "host:4", &m);
    x = traffic(3, 1, 2500000);
    about(ein__exchange_seconds(&m, &x), 1e-3 + 5e-6);
    x.host_bytes[2] = 5000000;
    about(ein__exchange_seconds(&m, &x), 2e-3 + 5e-6);
    assert_int_equal(ein__routes_make(&a, &m, &r), EIN_OK);
    assert_true(ein__routes_seconds(r, &x) == ein__exchange_seconds(&m, &x));
    ein__alloc_fail_at(1);
    assert_true(ein__exchange_seconds(&m, &x) < 0);
    ein__alloc_fail_at(0);
    ein__arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing), cmocka_unit_test(test_ports),
                                       cmocka_unit_test(test_paths), cmocka_unit_test(test_no_path),
                                       cmocka_unit_test(test_host)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
