/* SPDX-License-Identifier: Apache-2.0 */
/* Random exchanges by every family in turn, on machines of every kind: proved by the checker, run element by
 * element, and compared with the definition. EIN_CASES and EIN_SEED for more. */
#include <stdlib.h>

#include "tests/exchange/families.h"

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *v = getenv(name);
    return v != NULL ? strtoull(v, NULL, 10) : otherwise;
}

typedef struct seen { int applicable, steps, scratch, staged, combined; } seen;

static void note(seen *s, const exchange *x)
{
    s->applicable++;
    s->steps += x->n_steps > 2;
    s->scratch += x->n_scratch > 0;
    for (int i = 0; i < x->n_scratch; i++) {
        s->staged += x->scratch[i].device == HOST;
        s->combined += x->scratch[i].device != HOST && x->scratch[i].src_block >= 0;
    }
}

/* States of several parts, or that lack a label, are not stored on the way. */
static bool storable(const exchange_problem *p)
{
    const relation *r = p->states[__builtin_ctz(p->used)];
    bool lacks = false;
    for (int i = 0; i < r->n_axes; i++) lacks = lacks || r->axes[i].broadcast;
    return __builtin_popcount(p->used) == 1 && !lacks;
}

/* Nothing is read from where it cannot be addressed. */
static void expect_peers(const exchange_problem *p, const routes *r, const exchange *x, uint64_t seed)
{
    for (int i = 0; i < x->n_transfers; i++)
        for (int j = 0; j < x->transfers[i].n_sources; j++) {
            int from = x->transfers[i].sources[j].device, to = x->transfers[i].device;
            if (from != HOST && (r->peers[from] & DEV(to)) == 0 && storable(p))
                fail_msg("seed %llu: device %d reads device %d", (unsigned long long)seed, to, from);
        }
}

static void run_case(cluster *c, uint64_t seed, seen *all)
{
    problem q;
    exchange x;
    error e = {0};
    int which = (int)(seed % (uint64_t)(n_families() + 1));
    draw_problem(&q, seed, seed % 5 == 0, seed % 2 == 0);
    const routes *r = odd_routes(&q);
    const family *f = ein__families[which]; /* NULL: the least of them all */
    bool made = f != NULL ? synthesize(&q, r, f, &x) : ein__exchange_make(&q.a, &q.p, r, &x, &e) == EIN_OK;
    if (f == NULL && !made) fail_msg("seed %llu: %s", (unsigned long long)seed, e.line);
    if (made) {
        if (ein__exchange_check(&q.p, &x, &e) != EIN_OK) fail_msg("seed %llu: %s", (unsigned long long)seed, e.line);
        fill_cluster(c, &q.p);
        fill_scratch(c, &q.p, &x);
        for (int i = 0; i < x.n_transfers; i++) run_transfer(&q.p, &x, c, &x.transfers[i]);
        check_results(c, &q.p, 0, seed);
        expect_peers(&q.p, r, &x, seed);
        note(&all[which], &x);
    }
    ein__arena_free(&q.a);
}

static void test_random(void **unused)
{
    uint64_t first = setting("EIN_SEED", 1), n = setting("EIN_CASES", 3000);
    seen all[MOST_FAMILIES];
    cluster *c;
    (void)unused;
    memset(all, 0, sizeof all);
    make_cluster(&c);
    for (uint64_t seed = first; seed < first + n; seed++) run_case(c, seed, all);
    free_cluster(c);
    if (getenv("EIN_CASES") != NULL || getenv("EIN_SEED") != NULL) return;
    /* The draw reaches what it is meant to reach. */
    for (int i = 0; i < n_families(); i++) assert_true(all[i].applicable > 100);
    for (int i = 1; i < n_families(); i++) assert_true(all[i].steps > 50 && all[i].scratch > 20 && all[i].staged > 20);
    assert_true(all[3].combined > 50 && all[4].combined > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
