/* SPDX-License-Identifier: Apache-2.0 */
/* Direct: every destination reads all that it needs where it is, in one step. Least for what is small, and where
 * links lead from everywhere to everywhere and nothing is wanted twice. Loses where many want the same, or the same
 * sum. */
#include "exchange/schedule.h"

/* The device's own copy, else that of the holder that has served the fewest bytes, counted round from the device. */
static int choose_holder(const demand *d, int device, devset holders, double bytes, double *served)
{
    int n = d->p->n_devices, best = -1;
    if ((holders & DEV(device)) != 0) return device;
    if (holders == DEV(HOST)) return HOST;
    for (int i = 1; i < n; i++) { /* those after the device first, so that equals are spread */
        int other = (device + i) % n;
        if ((holders & DEV(other)) != 0 && (best < 0 || served[other] < served[best])) best = other;
    }
    served[best] += bytes;
    return best;
}

ein_status ein__direct_class(arena *a, const demand *d, int c, double *served, schedule *s)
{
    const demand_class *x = &d->classes[c];
    tree replica = ein__tree(d, c);
    for (devset left = x->to; left != 0; left &= left - 1) {
        int device = __builtin_ctz(left);
        tree t = ein__tree(d, c);
        if (x->n_partials == 1) {
            replica.from[device] = (signed char)choose_holder(d, device, x->holders[0], x->partial_bytes, served);
            continue;
        }
        t.combiner = device;
        TRY(ein__star(a, d, &t, served));
        TRY(ein__tree_add(a, s, &t));
    }
    return x->n_partials == 1 ? ein__tree_add(a, s, &replica) : EIN_OK;
}

ein_status ein__star(arena *a, const demand *d, tree *t, double *served)
{
    const demand_class *x = &d->classes[t->class];
    signed char *holder;
    NEW(a, holder, x->n_partials);
    for (int j = 0; j < x->n_partials; j++)
        holder[j] = (signed char)choose_holder(d, t->combiner, x->holders[j], x->partial_bytes * t->n / t->of, served);
    t->holder = holder;
    t->star = true;
    return EIN_OK;
}

ein_status ein__finish_in_shares(arena *a, const demand *d, int c, devset by, double *served, schedule *s)
{
    int n = __builtin_popcount(by), i = 0;
    for (devset left = by; left != 0; left &= left - 1, i++) {
        tree t = ein__tree(d, c);
        t.first = i;
        t.of = n;
        t.combiner = __builtin_ctz(left);
        TRY(ein__star(a, d, &t, served));
        for (devset others = d->classes[c].to & ~DEV(t.combiner); others != 0; others &= others - 1)
            t.from[__builtin_ctz(others)] = (signed char)t.combiner;
        TRY(ein__tree_add(a, s, &t));
    }
    return EIN_OK;
}

static ein_status plan(arena *a, const demand *d, const routes *r, schedule *out, int *n)
{
    double served[MAX_DEVICES] = {0};
    (void)r;
    *n = 1;
    out->room = SHALLOW;
    for (int c = 0; c < d->n_classes; c++) TRY(ein__direct_class(a, d, c, served, out));
    return EIN_OK;
}

const family ein__family_direct = {"direct", true, plan};
