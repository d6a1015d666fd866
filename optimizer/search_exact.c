/* SPDX-License-Identifier: Apache-2.0 */
/* The optimum over all options, by elimination. The frontier's plan is the upper bound that keeps the tables small,
 * and what is answered if nothing better fits into memory. */
#include "optimizer/exact.h"
#include "optimizer/price_plan.h"

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

ein_status ein__exact_consider(exact *x, const int *values, answer *best)
{
    answer other;
    TRY(ein__answer_make(x->p, &other));
    ein__exact_answer(x, values, &other);
    TRY(reprice(x->p, &other));
    other.bound = best->bound;
    if (better(&other, best)) *best = other;
    return EIN_OK;
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
    if (p->limits->cancelled != NULL && p->limits->cancelled(p->limits->user)) return EIN_OK;
    TRY(ein__exact_build(&x, out));
    out->bound = (double)(x.floor < ein__picoseconds(out->seconds) ? x.floor : ein__picoseconds(out->seconds)) / PICOSECONDS;
    return x.hopeless ? EIN_OK : ein__exact_solve(&x, out);
}

const strategy ein__search_exact = {"exact", applicable, search};
