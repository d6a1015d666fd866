/* SPDX-License-Identifier: Apache-2.0 */
/* Ring: everything goes from neighbour to neighbour, so that every device reads from one and is read by one: what
 * boxes with a PCIe root want, where many readers at once get less than their share. A class walks round from its
 * holders; partials that several devices need are split among them, merged on the way round to each, and copied on
 * the way round again. */
#include "exchange/schedule.h"

/* The device before v, counted round, that is in the set and is not v. */
static int before(devset set, int v, int n)
{
    int u = v;
    do u = (u + n - 1) % n;
    while ((set & DEV(u)) == 0);
    return u;
}

static ein_status replica(arena *a, const demand *d, int c, schedule *s)
{
    const demand_class *x = &d->classes[c];
    tree t = ein__tree(d, c);
    for (devset left = x->to; left != 0; left &= left - 1) {
        int v = __builtin_ctz(left);
        bool own = (x->holders[0] & DEV(v)) != 0;
        t.from[v] = (signed char)(x->holders[0] == DEV(HOST) ? HOST
                                  : own                      ? v
                                                             : before(x->to | x->holders[0], v, d->p->n_devices));
    }
    return ein__tree_add(a, s, &t);
}

static ein_status partials(arena *a, const demand *d, int c, double *served, schedule *s)
{
    const demand_class *x = &d->classes[c];
    int n = d->p->n_devices, shares = __builtin_popcount(x->to), i = 0;
    for (devset left = x->to; left != 0; left &= left - 1, i++) {
        tree t = ein__tree(d, c);
        devset holding = 0;
        t.first = i;
        t.of = shares;
        t.combiner = __builtin_ctz(left);
        TRY(ein__star(a, d, &t, served));
        t.star = !d->combines;
        for (int j = 0; j < x->n_partials; j++) holding |= DEV(t.holder[j]);
        t.star = t.star || (holding & DEV(HOST)) != 0;
        for (int v = 0; v < n && !t.star; v++) {
            if (v == t.combiner || (holding & DEV(v)) == 0) continue;
            int u = (v + 1) % n; /* towards the combiner, over those who hold something */
            while (u != t.combiner && (holding & DEV(u)) == 0) u = (u + 1) % n;
            t.up[v] = (signed char)u;
        }
        for (devset others = x->to & ~DEV(t.combiner); others != 0; others &= others - 1) {
            int v = __builtin_ctz(others);
            t.from[v] = (signed char)before(x->to, v, n);
        }
        TRY(ein__tree_add(a, s, &t));
    }
    return EIN_OK;
}

static ein_status plan(arena *a, const demand *d, const routes *r, schedule *out, int *n)
{
    double served[MAX_DEVICES] = {0};
    *n = r->m->n_devices > 2;
    out->room = 4 * r->m->n_devices; /* round and round again, each step by way of the process's memory */
    for (int c = 0; c < d->n_classes && *n > 0; c++) {
        if (d->classes[c].n_partials == 1) TRY(replica(a, d, c, out));
        else TRY(partials(a, d, c, served, out));
    }
    return EIN_OK;
}

const family ein__family_ring = {"ring", true, plan};
