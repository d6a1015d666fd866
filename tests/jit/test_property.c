/* SPDX-License-Identifier: Apache-2.0 */
/* The whole system at once: random graphs under random plans (and, every sixth, under the search's).
 * Whatever the cuts and the devices, the results are the reference's, the bytes moved are the bytes
 * predicted, and a second run repeats the first one's bits.
 *
 * Every case is a process of its own, so that a crash or a deadlock is a failure like others. A failing case
 * is made smaller (fewer calls, fewer devices, fewer cuts) while it fails, and printed. tests/README.md tells
 * how to run one again. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/graph/canonical.h"
#include "tests/harness/check_program.h"
#include "tests/harness/odd_machine.h"
#include "tests/harness/random.h"
#include "tests/harness/random_plan.h"
#include "tests/harness/trial.h"

enum {
    CASES = 300,
    MOST_OPS = 12,
    MOST_DEVICES = 9,
    MAX_PARTS = 512,
    SECONDS = 300,
    MOST_SHRUNK = 5,
    MAX_JOBS = 16
};

typedef struct property_case {
    uint64_t seed;
    int ops, devices;
    int n_plain;           /* parts of the plan that are marked plain */
    bool plain[MAX_PARTS]; /* parts of the plan that are not cut */
} property_case;

static long from_environment(const char *name, long otherwise)
{
    const char *s = getenv(name);
    return s != NULL && s[0] != 0 ? strtol(s, NULL, 10) : otherwise;
}

static property_case make_case(uint64_t seed)
{
    dice d = dice_make(seed, 1000000);
    property_case c = {.seed = seed};
    int ops = dice_range(&d, 1, MOST_OPS);
    if (dice_chance(&d, 50)) ops = dice_range(&d, 1, ops);
    c.ops = (int)from_environment("EIN_OPS", ops);
    c.devices = (int)from_environment("EIN_DEVICES", dice_range(&d, 1, MOST_DEVICES));
    return c;
}

/* ---- one case, in a child process --------------------------------------------------------------------- */

static void print_case(const property_case *c, const graph *g, const char *plan)
{
    text t = {0};
    ein__graph_print(g, &t);
    fprintf(stderr, "EIN_SEED=%llu EIN_OPS=%d EIN_DEVICES=%d, %d of %d parts of the plan uncut\n%s%s",
            (unsigned long long)c->seed, c->ops, c->devices, c->n_plain, plan_parts(g), ein__text_get(&t),
            plan);
    ein__text_free(&t);
}

/* host:N, where small exchanges are direct, or one of those where they are anything. */
static bool print_machine(const property_case *c, text *out)
{
    arena a = {NULL};
    machine m;
    bool ok = true;
    if (c->seed % 2 == 0) ein__text_add(out, "host:%d", c->devices);
    else ok = odd_machine(&a, (oddity)(c->seed / 2 % ODDITIES), c->devices, true, &m) == EIN_OK && ein__machine_print(&m, out) == EIN_OK;
    ein__arena_free(&a);
    return ok;
}

static bool check_on(const property_case *c, const char *machine, const random_graph *r, const char *plan,
                     const char *cache, text *why)
{
    program_case p = {.machine = machine, .graph = r, .plan = plan, .counting = true};
    if (c->seed % 2 == 0) p.wire = EIN_F32;
    if (c->seed % 10 == 3) p.cache_dir = cache;
    if (!check_program(&p, why)) return false;
    if (p.cache_dir != NULL) {
        p.cached = true;
        if (!check_program(&p, why)) return false;
    }
    p.cached = false;
    if (c->seed % 6 == 1) { /* the search's plan for the same graph */
        p.plan = NULL;
        if (!check_program(&p, why)) return false;
        p.plan = plan;
    }
    p.counting = false;
    return c->seed % 10 != 0 || check_program(&p, why);
}

static bool check_all(const property_case *c, const random_graph *r, const char *plan, const char *cache,
                      text *why)
{
    text machine = {0};
    bool ok = print_machine(c, &machine);
    if (!ok) ein__text_add(why, "no machine");
    ok = ok && check_on(c, ein__text_get(&machine), r, plan, cache, why);
    ein__text_free(&machine);
    return ok;
}

static bool check_graph(const property_case *c, const random_graph *r, bool loud, const char *cache,
                        text *why)
{
    graph g = {.nodes = {0}};
    arena a = {NULL};
    error e = {0};
    text json = {0};
    plan p;
    bool ok = ein__canonicalize(&r->graph->g, &g, &e) == EIN_OK && plan_parts(&g) <= MAX_PARTS &&
              random_plan_make(&a, &g, c->seed, c->devices, c->plain, &p) == EIN_OK &&
              ein__plan_check(&g, &p, &e) == EIN_OK && ein__plan_print(&g, &p, &json) == EIN_OK;
    if (!ok) ein__text_add(why, "no plan could be made: %s", e.line);
    if (ok && loud) print_case(c, &g, ein__text_get(&json));
    ok = ok && check_all(c, r, ein__text_get(&json), cache, why);
    ein__error_reset(&e);
    ein__text_free(&json);
    ein__arena_free(&a);
    ein__arena_free(&g.arena);
    return ok;
}

static bool run_case(const property_case *c, bool loud, const char *cache)
{
    random_graph r;
    text why = {0};
    bool ok = random_graph_make(c->seed, c->ops, &r) == EIN_OK;
    if (!ok) ein__text_add(&why, "the generator made a wrong call: %s", ein_graph_error(r.graph));
    ok = ok && check_graph(c, &r, loud, cache, &why);
    random_graph_free(&r);
    if (!ok && loud) fprintf(stderr, "FAILED: %s\n", ein__text_get(&why));
    ein__text_free(&why);
    if (ok && ein__alloc_live() != 0) {
        if (loud) fprintf(stderr, "FAILED: %ld allocations were not freed\n", ein__alloc_live());
        ok = false;
    }
    return ok;
}

static pid_t start_case(const property_case *c, bool loud, const char *cache)
{
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL,
                                SIGABRT}; /* cmocka would go on with the tests */
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) return child;
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) signal(fatal[i], SIG_DFL);
    alarm(SECONDS);
    _exit(run_case(c, loud, cache) ? 0 : 1);
}

static bool passes(const property_case *c, bool loud, const char *cache)
{
    int status;
    if (from_environment("EIN_FORK", 1) == 0) return run_case(c, loud, cache); /* for a debugger */
    pid_t child = start_case(c, loud, cache);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (loud && WIFSIGNALED(status)) fprintf(stderr, "FAILED: signal %d\n", WTERMSIG(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- a smaller case ----------------------------------------------------------------------------------- */

static int count_parts(const property_case *c)
{
    random_graph r;
    graph g = {.nodes = {0}};
    int n = 0;
    if (random_graph_make(c->seed, c->ops, &r) == EIN_OK &&
        ein__canonicalize(&r.graph->g, &g, NULL) == EIN_OK)
        n = plan_parts(&g);
    ein__arena_free(&g.arena);
    random_graph_free(&r);
    return n < MAX_PARTS ? n : MAX_PARTS;
}

static void shrink(property_case *c, const char *cache)
{
    property_case s = *c;
    for (s.ops = 1; s.ops < c->ops && passes(&s, false, cache);) s.ops++;
    for (s.devices = 1; s.devices < c->devices && passes(&s, false, cache);) s.devices++;
    int n = count_parts(&s);
    for (int i = 0; i < n; i++) {
        s.plain[i] = true;
        if (passes(&s, false, cache))
            s.plain[i] = false;
        else
            s.n_plain++;
    }
    *c = s;
}

/* Shrink and print. */
static void report(uint64_t seed, const char *cache)
{
    property_case c = make_case(seed);
    passes(&c, true, cache);
    shrink(&c, cache);
    fprintf(stderr, "\nsmaller:\n");
    passes(&c, true, cache);
}

/* Cases first, first + 1, ..., as many at a time as there are cores; returns how many failed, the first ones
 * in `seeds`. */
static long run_all(uint64_t first, long n, const char *cache, uint64_t seeds[MOST_SHRUNK])
{
    struct {
        pid_t child;
        uint64_t seed;
    } now[MAX_JOBS];
    long cores = sysconf(_SC_NPROCESSORS_ONLN),
         jobs = cores < 1          ? 1
                : cores > MAX_JOBS ? MAX_JOBS
                                   : cores,
         failed = 0;
    long running = 0, started = 0;
    while (started < n || running > 0) {
        int status, i = 0;
        if (started < n && running < jobs) {
            property_case c = make_case(first + (uint64_t)started++);
            now[running].child = start_case(&c, false, cache);
            now[running++].seed = c.seed;
            continue;
        }
        pid_t child = waitpid(-1, &status, 0);
        while (i < running && now[i].child != child) i++;
        assert_true(i < running);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            fprintf(stderr, "seed %llu fails\n", (unsigned long long)now[i].seed);
            if (failed < MOST_SHRUNK) seeds[failed] = now[i].seed;
            failed++;
        }
        now[i] = now[--running];
    }
    return failed;
}

static void random_programs(void **state)
{
    bool one = getenv("EIN_SEED") != NULL && from_environment("EIN_CASES", 1) == 1;
    uint64_t first = (uint64_t)from_environment("EIN_SEED", 1), seeds[MOST_SHRUNK] = {first};
    long n = one ? 1 : from_environment("EIN_CASES", CASES), failed;
    char *cache = make_directory();
    (void)state;
    if (one) {
        property_case c = make_case(first);
        failed = !passes(&c, true, cache);
    } else {
        failed = run_all(first, n, cache, seeds);
    }
    for (int i = 0; i < failed && i < MOST_SHRUNK && from_environment("EIN_SHRINK", 1) != 0; i++)
        report(seeds[i], cache);
    remove_directory(cache);
    if (failed > 0) fail_msg("%ld of %ld random programs failed", failed, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_programs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
