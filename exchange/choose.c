/* SPDX-License-Identifier: Apache-2.0 */
/* From a problem to its exchange: demand, bound, the families' schedules, the least of them, transfers. */
#include <math.h>
#include <string.h>

#include "exchange/schedule.h"

const family *const ein__families[] = {&ein__family_direct, &ein__family_two_shot, &ein__family_spread,
                                       &ein__family_ring, &ein__family_trees, NULL};

static const double NEAR = 1.02, GAIN = 1.1; /* what trees have to promise */

typedef struct chosen { const family *family; schedule schedule; } chosen;

static ein_status try_family(arena *scratch, const demand *d, const routes *r, const family *f, chosen *best)
{
    schedule made[MAX_SCHEDULES];
    int n = 0;
    memset(made, 0, sizeof made);
    for (int i = 0; i < MAX_SCHEDULES; i++) made[i].n_chunks = 1;
    TRY(f->plan(scratch, d, r, made, &n));
    for (int i = 0; i < n; i++) {
        TRY(ein__schedule_chunk(scratch, d, r, &made[i]));
        if (best->family == NULL || made[i].seconds < best->schedule.seconds) *best = (chosen){f, made[i]};
    }
    return EIN_OK;
}

/* What trees should come to. */
static double tree_seconds(const routes *r, double bound) { return NEAR * bound + 3 * r->m->step_latency; }

/* All families but trees; those after the first are asked only where there is something to gain over the bound and a
 * few steps. *trees: they are worth the time that it takes to plan them. */
static ein_status choose(arena *scratch, const demand *d, const routes *r, double *bound, chosen *best, bool *trees)
{
    *trees = false;
    TRY(try_family(scratch, d, r, &ein__family_direct, best));
    if (best->schedule.depth < 2 && best->schedule.bandwidth < r->m->step_latency) return EIN_OK; /* others take a step more */
    TRY(ein__demand_bound(scratch, d, r, false, bound));
    for (int i = 1; ein__families[i] != NULL; i++) {
        if (!ein__families[i]->executed || ein__families[i] == &ein__family_trees) continue;
        if (best->schedule.seconds <= NEAR * *bound + 2 * r->m->step_latency) break;
        TRY(try_family(scratch, d, r, ein__families[i], best));
    }
    *trees = best->schedule.seconds > GAIN * tree_seconds(r, *bound);
    return EIN_OK;
}

static ein_status choose_named(arena *scratch, const demand *d, const routes *r, const char *name, chosen *best, error *e)
{
    for (int i = 0; ein__families[i] != NULL; i++)
        if (strcmp(ein__families[i]->name, name) == 0) TRY(try_family(scratch, d, r, ein__families[i], best));
    return best->family != NULL ? EIN_OK : ein__fail(e, EIN_UNSUPPORTED, "exchange: family %s is not applicable", name);
}

static ein_status make(arena *a, arena *scratch, const exchange_problem *p, const routes *r, const char *name,
                       exchange *out, error *e)
{
    demand d;
    chosen best = {0};
    bool trees = false;
    memset(out, 0, sizeof *out);
    TRY(ein__demand_make(scratch, p, &d, e));
    out->incompatible = d.incompatible;
    out->family = "none";
    if (d.n_boxes == 0) return EIN_OK;
    if (name != NULL) TRY(choose_named(scratch, &d, r, name, &best, e));
    else TRY(choose(scratch, &d, r, &out->bound, &best, &trees));
    if (trees) TRY(try_family(scratch, &d, r, &ein__family_trees, &best));
    TRY(ein__schedule_expand(a, &d, r, &best.schedule, out));
    TRY(ein__demand_bound(scratch, &d, r, true, &out->bound));
    out->family = best.family->name;
    out->bandwidth = best.schedule.bandwidth;
    out->seconds = ein__routes_seconds(r, out);
    return EIN_OK;
}

static ein_status make_with(arena *a, const exchange_problem *p, const routes *r, const char *name, exchange *out, error *e)
{
    arena scratch = {NULL};
    ein_status s = make(a, &scratch, p, r, name, out, e);
    ein__arena_free(&scratch);
    return s;
}

ein_status ein__exchange_make(arena *a, const exchange_problem *p, const routes *r, exchange *out, error *e)
{
    return make_with(a, p, r, NULL, out, e);
}

ein_status ein__exchange_family(arena *a, const exchange_problem *p, const routes *r, const char *family, exchange *out,
                                error *e)
{
    return make_with(a, p, r, family, out, e);
}

/* ---- estimates ---------------------------------------------------------------------------------------- */

/* Every destination gets one copy, every device that holds partials sends one on, but for one. */
static i64 least_bytes(const demand *d)
{
    double bytes = 0;
    for (int i = 0; i < d->n_classes; i++) {
        const demand_class *c = &d->classes[i];
        devset all = 0;
        for (int j = 0; j < c->n_partials; j++) all |= c->holders[j] & ~DEV(HOST);
        int senders = __builtin_popcount(all), receivers = __builtin_popcount(c->to);
        if (c->n_partials == 1) bytes += __builtin_popcount(c->to & ~all) * c->finished_bytes;
        else bytes += (senders - 1) * c->partial_bytes + (receivers - ((all & c->to) != 0)) * c->finished_bytes;
    }
    return (i64)bytes;
}

static bool host_needs(const demand *d)
{
    for (int b = 0; b < d->p->to->n_blocks; b++)
        if ((d->p->to->devices[b] & DEV(HOST)) != 0) return true;
    return false;
}

ein_status ein__exchange_estimate(arena *a, const exchange_problem *p, const routes *r, double *seconds, i64 *bytes)
{
    demand d;
    exchange x;
    chosen best = {0};
    double bound = 0;
    bool trees;
    *seconds = *bytes = 0;
    TRY(ein__demand_make(a, p, &d, NULL));
    if (d.incompatible) *seconds = INFINITY;
    if (d.n_boxes == 0) return EIN_OK;
    TRY(choose(a, &d, r, &bound, &best, &trees));
    *seconds = trees ? tree_seconds(r, bound) : best.schedule.seconds;
    *bytes = least_bytes(&d);
    if (trees) return EIN_OK;
    *bytes = ein__schedule_bytes(&d, r, &best.schedule);
    if (!host_needs(&d) && d.row_states == 0) return EIN_OK;
    memset(&x, 0, sizeof x); /* what HOST needs, and how many rows there are, only the transfers tell */
    TRY(ein__schedule_expand(a, &d, r, &best.schedule, &x));
    *seconds = ein__routes_seconds(r, &x);
    *bytes = x.total_bytes;
    return EIN_OK;
}
