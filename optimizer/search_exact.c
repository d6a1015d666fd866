/* SPDX-License-Identifier: Apache-2.0 */
/* The optimum over all options, by elimination. The frontier's plan is the upper bound that keeps the tables small,
 * and what is answered if nothing better fits into memory. */
#include <math.h>
#include <string.h>

#include "optimizer/exact.h"
#include "optimizer/price_plan.h"

enum {
    ROOM = 1 << 21, /* entries of a table */
    MAX_RATES = 12
};

static double bytes_of(const exact *x, const int *values)
{
    double bytes = x->taken;
    for (int i = 0; i < x->usages.n; i++) bytes += x->usages.items[i].bytes[values[x->usages.items[i].var]];
    return bytes;
}

/* The tables, and `rate` per byte of resident leaves. */
static ein_status solve(exact *x, double rate, sum_answer *out)
{
    sum_problem p = {.n_vars = x->sizes.n, .sizes = x->sizes.items, .n_tables = x->tables.n + x->usages.n};
    cost_table *tables;
    NEW(x->a, tables, p.n_tables);
    if (x->tables.n > 0) memcpy(tables, x->tables.items, (size_t)x->tables.n * sizeof *tables);
    for (int i = 0; i < x->usages.n; i++) {
        const usage *u = &x->usages.items[i];
        i64 *costs;
        NEW(x->a, costs, x->sizes.items[u->var]);
        for (int k = 0; k < x->sizes.items[u->var]; k++) {
            double cost = u->bytes[k] * rate;
            costs[k] = u->bytes[k] > x->p->capacity ? FAR : cost < (double)FAR ? (i64)cost : FAR;
        }
        tables[x->tables.n + i] = (cost_table){.n_vars = 1, .vars = {u->var}, .at = costs};
    }
    p.tables = tables;
    TRY(ein__eliminate(x->a, &p, ROOM, NULL, out));
    x->p->states_searched += out->entries;
    return EIN_OK;
}

/* What the plan really costs: by lowering's rules, and every exchange as it is. */
static ein_status reprice(problem *p, answer *x)
{
    pricer k;
    plan made;
    plan_price got = {0};
    ein__pricer_init(&k, p->g, p->prices.n_devices, p->prices.model);
    ein_status s = ein__answer_plan(&k.arena, p, x, &made);
    if (s == EIN_OK) s = ein__price_plan(&k, &k.arena, &made, &got, p->e);
    ein__pricer_fini(&k);
    x->seconds = (double)got.picoseconds / PICOSECONDS;
    x->bytes = got.bytes;
    return s;
}

static bool better(const answer *x, const answer *y)
{
    i64 a = ein__picoseconds(x->seconds), b = ein__picoseconds(y->seconds);
    return a < b || (a == b && x->bytes < y->bytes);
}

static void raise_bound(const exact *x, double cost, answer *best)
{
    double bound = floor(cost / (double)((i64)1 << x->up)) / PICOSECONDS;
    if (x->complete && bound > best->bound) best->bound = bound;
}

static ein_status consider(exact *x, const sum_answer *found, answer *best)
{
    answer other;
    if (found->cost >= FAR || bytes_of(x, found->values) > x->p->capacity) return EIN_OK;
    TRY(ein__answer_make(x->p, &other));
    ein__exact_answer(x, found->values, &other);
    TRY(reprice(x->p, &other));
    other.bound = best->bound;
    if (better(&other, best)) *best = other;
    return EIN_OK;
}

/* A solution as a point: what it costs, without what its bytes were charged, and its bytes. */
typedef struct point { double cost, bytes; } point;

static point point_of(const exact *x, const sum_answer *found, double rate)
{
    double bytes = bytes_of(x, found->values);
    return (point){(double)found->cost - rate * (bytes - x->taken), bytes};
}

/* The rate per byte for which the best plan over the capacity costs as much as the best below it: the bound is
 * highest there. Each new rate is the slope between the two that are known. */
static ein_status price_memory(exact *x, point over, answer *best)
{
    const double capacity = x->p->capacity;
    point below = {(double)ein__exact_cost(x, best->seconds, best->bytes, 1), capacity};
    double last = -1;
    for (int i = 0; i < MAX_RATES; i++) {
        sum_answer found;
        double rate = (below.cost - over.cost) / (over.bytes - below.bytes);
        if (!(rate > 0) || rate == last) return EIN_OK;
        TRY(solve(x, rate, &found));
        if (found.cost >= FAR) return EIN_OK;
        double bound = (double)found.bound - rate * (capacity - x->taken);
        raise_bound(x, bound, best);
        TRY(consider(x, &found, best));
        point now = point_of(x, &found, rate);
        if (now.bytes <= capacity) below = now;
        else over = now;
        last = rate;
    }
    return EIN_OK;
}

static ein_status solve_all(exact *x, answer *best)
{
    sum_answer found;
    TRY(solve(x, 0, &found));
    if (found.cost >= FAR) return EIN_OK;
    raise_bound(x, (double)found.bound, best);
    TRY(consider(x, &found, best));
    point first = point_of(x, &found, 0);
    return first.bytes <= x->p->capacity ? EIN_OK : price_memory(x, first, best);
}

static bool applicable(const problem *p)
{
    (void)p;
    return true;
}

static ein_status search(problem *p, answer *out)
{
    exact x = {.p = p, .g = p->g, .a = p->a};
    TRY(ein__search_frontier.search(p, out));
    TRY(reprice(p, out));
    TRY(ein__exact_build(&x, out));
    return x.hopeless ? EIN_OK : solve_all(&x, out);
}

const strategy ein__search_exact = {"exact", applicable, search};
