/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges by a family that the test names, in any of its forms. */
#ifndef TESTS_EXCHANGE_FAMILIES_H
#define TESTS_EXCHANGE_FAMILIES_H

#include "exchange/routes.h"
#include "exchange/schedule.h"
#include "tests/exchange/problems.h"
#include "tests/harness/odd_machine.h"

enum { MOST_FAMILIES = 16 };

static inline int n_families(void)
{
    int n = 0;
    while (ein__families[n] != NULL) n++;
    return n;
}

/* What a schedule says of the bytes is what its transfers move, wherever it may be asked. */
static inline void expect_bytes(const problem *q, const demand *d, const routes *r, const schedule *s, const exchange *x)
{
    bool host = false;
    for (int b = 0; b < q->to.n_blocks; b++) host = host || (q->to.devices[b] & DEV(HOST)) != 0;
    if (host || d->row_states != 0 || ein__schedule_bytes(d, r, s) == x->total_bytes) return;
    fail_msg("%lld bytes by the schedule, %lld moved", (long long)ein__schedule_bytes(d, r, s), (long long)x->total_bytes);
}

/* Any of the family's schedules, in up to four chunks; false: it is not applicable. */
static inline bool synthesize(problem *q, const routes *r, const family *f, exchange *x)
{
    error e = {0};
    demand d;
    schedule made[MAX_SCHEDULES];
    int n = 0;
    memset(x, 0, sizeof *x);
    memset(made, 0, sizeof made);
    if (ein__demand_make(&q->a, &q->p, &d, &e) != EIN_OK) fail_msg("%s", e.line);
    assert_int_equal(f->plan(&q->a, &d, r, made, &n), EIN_OK);
    if (n == 0) return false;
    schedule *s = &made[pick_int(q, 0, n - 1)];
    s->n_chunks = pick_int(q, 1, 4);
    assert_int_equal(ein__schedule_expand(&q->a, &d, r, s, x), EIN_OK);
    expect_bytes(q, &d, r, s, x);
    return true;
}

static inline const routes *odd_routes(problem *q)
{
    machine *m = ein__arena_get(&q->a, 1, sizeof *m);
    const routes *r;
    assert_non_null(m);
    assert_int_equal(odd_machine(&q->a, (oddity)pick_int(q, 0, ODDITIES - 1), q->p.n_devices, false, m), EIN_OK);
    assert_int_equal(ein__routes_make(&q->a, m, &r), EIN_OK);
    return r;
}

#endif
