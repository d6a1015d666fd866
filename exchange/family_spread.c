/* SPDX-License-Identifier: Apache-2.0 */
/* Spread: what one device has and several need goes to them in shares, which they then copy from each other
 * (scatter and all-gather); what one device needs merged is finished in shares by those who hold partials, then
 * gathered. The root's link carries everything once, where direct carries it once for each of the others. */
#include "exchange/schedule.h"

static devset all_holders(const demand_class *x)
{
    devset all = 0;
    for (int j = 0; j < x->n_partials; j++) all |= x->holders[j];
    return all & ~DEV(HOST);
}

/* A replica: the share's first receiver has it from a holder, everybody else from that one. */
static ein_status scatter(arena *a, const demand *d, int c, schedule *s)
{
    const demand_class *x = &d->classes[c];
    devset lacking = x->to & ~x->holders[0];
    int n = __builtin_popcount(lacking), n_holders = __builtin_popcount(x->holders[0]), i = 0;
    for (devset left = lacking; left != 0; left &= left - 1, i++) {
        tree t = ein__tree(d, c);
        int first = __builtin_ctz(left);
        devset holder = x->holders[0];
        for (int k = i % n_holders; k > 0; k--) holder &= holder - 1;
        t.first = i;
        t.of = n;
        for (devset others = x->to; others != 0; others &= others - 1) {
            int device = __builtin_ctz(others);
            t.from[device] = (signed char)((x->holders[0] & DEV(device)) != 0 ? device : first);
        }
        t.from[first] = (signed char)__builtin_ctz(holder);
        TRY(ein__tree_add(a, s, &t));
    }
    return EIN_OK;
}

static ein_status plan(arena *a, const demand *d, const routes *r, schedule *out, int *n)
{
    double served[MAX_DEVICES] = {0};
    bool any = false;
    (void)r;
    out->room = SHALLOW;
    for (int c = 0; c < d->n_classes; c++) {
        const demand_class *x = &d->classes[c];
        devset lacking = x->to & ~x->holders[0];
        bool replica = x->n_partials == 1 && x->holders[0] != DEV(HOST) && (lacking & (lacking - 1)) != 0;
        bool partial = x->n_partials > 1 && __builtin_popcount(all_holders(x)) > 1;
        any = any || replica || partial;
        if (replica) TRY(scatter(a, d, c, out));
        else if (partial) TRY(ein__finish_in_shares(a, d, c, all_holders(x), served, out));
        else TRY(ein__direct_class(a, d, c, served, out));
    }
    *n = any;
    return EIN_OK;
}

const family ein__family_spread = {"spread", true, plan};
