/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs on GPUs that are not there, under configurations in which all pairs occur of: how many GPUs, first or
 * warm call, by streams or as a graph, how the GPUs reach each other. The results are right by the reference, and they
 * are the host target's, bit for bit (every second case is compared; all, where EIN_CASES or EIN_SEED say which). */
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
#include "core/graph/canonical.h"
#include "tests/fake/control.h"
#include "tests/harness/check_program.h"
#include "tests/harness/random_plan.h"
#include "tests/harness/trial.h"

static const char *const reach[] = {"peers=all",
                                    "peers=none",
                                    "peers=one-way",
                                    "peers=lose-writes",
                                    "peers=read-stale",
                                    "limit=1",
                                    "peers=0>1,1>0w,1>2,2>1r,2>3,3>2"};
enum { GRAPHS = 20, GPUS = 9, REACHES = sizeof reach / sizeof *reach, CASES = GPUS * REACHES };

typedef struct configuration {
    int gpus, reach, graphs, warm;
} configuration;

static configuration configuration_of(int i)
{
    const int g = i % GPUS, r = i / GPUS;
    return (configuration){g + 1, r, (g + r) % 2, (g + r) / 2 % 2};
}

static void all_pairs_occur(void **state)
{
    bool seen[4][4][GPUS + 1][GPUS + 1] = {0};
    const int levels[4] = {GPUS, REACHES, 2, 2};
    (void)state;
    for (int i = 0; i < CASES; i++) {
        const configuration c = configuration_of(i);
        const int at[4] = {c.gpus - 1, c.reach, c.graphs, c.warm};
        for (int a = 0; a < 4; a++)
            for (int b = 0; b < 4; b++) seen[a][b][at[a]][at[b]] = true;
    }
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++)
            for (int x = 0; x < levels[a]; x++)
                for (int y = 0; y < levels[b]; y++) assert_true(a == b || seen[a][b][x][y]);
}

typedef struct random_program {
    random_graph graph;
    text plan;
} random_program;

/* Few graphs, so that most kernels are compiled once; the plans are all different. */
static void make(random_program *p, int seed, int devices)
{
    graph g = {.nodes = {0}};
    arena a = {NULL};
    plan plan;
    memset(p, 0, sizeof *p);
    assert_int_equal(random_graph_make((uint64_t)(1 + seed % GRAPHS), 1 + seed % 3, &p->graph), EIN_OK);
    assert_int_equal(ein__canonicalize(&p->graph.graph->g, &g, NULL), EIN_OK);
    assert_int_equal(random_plan_make(&a, &g, (uint64_t)seed, devices, NULL, &plan), EIN_OK);
    assert_int_equal(ein__plan_print(&g, &plan, &p->plan), EIN_OK);
    ein__arena_free(&a);
    ein__arena_free(&g.arena);
}

static void drop(random_program *p)
{
    ein__text_free(&p->plan);
    random_graph_free(&p->graph);
}

/* The outputs of all runs. */
static void check_on(const random_program *p, const char *machine, const char *cache, bool cached, text *bits,
                     const char *what)
{
    text why = {0};
    bits->n = 0;
    const program_case c = {.machine = machine,
                            .cache_dir = cache,
                            .cached = cached,
                            .graph = &p->graph,
                            .plan = p->plan.bytes,
                            .bits = bits};
    if (!check_program(&c, &why)) fail_msg("%s: %s\n%s", what, ein__text_get(&why), fake_reports());
    ein__text_free(&why);
}

static void check_case(int i, bool compare)
{
    const configuration c = configuration_of(i % CASES);
    const int seed = i + 1;
    random_program p;
    text host = {0}, cuda = {0};
    char settings[160], what[256], on_host[16], on_cuda[16], *cache = make_directory();
    snprintf(settings, sizeof settings, "devices=%d %s seed=%d memory=64m check=%d", c.gpus, reach[c.reach], seed,
             seed % 3 != 0);
    snprintf(what, sizeof what, "EIN_SEED=%d %s%s%s", seed, settings, c.graphs ? ", graphs" : "",
             c.warm ? ", warm" : "");
    snprintf(on_host, sizeof on_host, "host:%d", c.gpus);
    snprintf(on_cuda, sizeof on_cuda, "cuda:%d", c.gpus);
    setenv("EIN_GRAPHS", c.graphs ? "1" : "0", 1);
    fake_configure(settings);
    make(&p, seed, c.gpus);
    check_on(&p, on_cuda, cache, false, &cuda, what);
    if (c.warm) check_on(&p, on_cuda, cache, true, &cuda, what);
    if (compare) {
        check_on(&p, on_host, NULL, false, &host, what);
        if (host.n != cuda.n || (host.n > 0 && memcmp(host.bytes, cuda.bytes, host.n) != 0))
            fail_msg("%s: other bits than the host's\n%s", what, p.plan.bytes);
    }
    if (fake_reports()[0] != 0) fail_msg("%s:\n%s", what, fake_reports());
    if (fake_leaks()[0] != 0) fail_msg("%s: left\n%s", what, fake_leaks());
    drop(&p);
    ein__text_free(&host);
    ein__text_free(&cuda);
    remove_directory(cache);
    assert_int_equal(ein__alloc_live(), 0);
}

static void programs(void **state)
{
    const char *seed = getenv("EIN_SEED"), *cases = getenv("EIN_CASES");
    const int first = seed != NULL ? atoi(seed) - 1 : 0, n = cases != NULL ? atoi(cases) : seed != NULL ? 1 : CASES;
    (void)state;
    for (int i = 0; i < n; i++) check_case(first + i, i % 2 == 0 || seed != NULL || cases != NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_pairs_occur), cmocka_unit_test(programs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
