/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds. A class must leave a set of devices if a destination lies outside and all copies of a replica, or of one
 * partial, lie inside; it leaves once at least, since it may be merged before and copied behind. And whatever way it
 * takes, every holder of partials but one sends, and every destination but one receives. */
#include <math.h>

#include "exchange/schedule.h"

/* Bytes of a class that must leave `inside`: those of what may be sent in the smaller of the two forms. */
static double crossing(const demand_class *c, devset inside)
{
    if ((c->to & ~inside) == 0) return 0;
    for (int j = 0; j < c->n_partials; j++)
        if ((c->holders[j] & ~inside) == 0) return fmin(c->partial_bytes, c->finished_bytes);
    return 0;
}

/* Devices that hold partials and need the result. */
static devset both_ways(const demand_class *c)
{
    devset both = 0;
    for (int j = 0; j < c->n_partials && c->n_partials > 1; j++) both |= c->holders[j];
    both &= c->to;
    return (both & (both - 1)) != 0 ? both : 0;
}

/* Of classes that go both ways: the gathering alone, each device having finished an equal share. The merging before is
 * its mirror image. */
static double gathering(const demand_class *c, devset both, devset inside)
{
    if ((both & ~inside) == 0) return 0;
    return fmin(c->partial_bytes, c->finished_bytes) * __builtin_popcount(both & inside) / __builtin_popcount(both);
}

/* Bytes that leave some device, at least. */
static double sent(const demand_class *c)
{
    devset lone = 0;
    double least = fmin(c->partial_bytes, c->finished_bytes);
    if (c->n_partials == 1) return c->holders[0] == DEV(HOST) ? 0 : least * __builtin_popcount(c->to & ~c->holders[0]);
    for (int j = 0; j < c->n_partials; j++) {
        if ((c->holders[j] & (c->holders[j] - 1)) != 0) return 0; /* of several copies any may be the one */
        lone |= c->holders[j] & ~DEV(HOST);
    }
    int senders = __builtin_popcount(lone), receivers = __builtin_popcount(c->to);
    return least * (senders + receivers - 1 - ((lone & c->to) != 0 || senders == 0));
}

static double seconds_sent(const demand *d, const routes *r)
{
    double bytes = 0, bandwidth = 0;
    for (int c = 0; c < d->n_classes; c++) bytes += sent(&d->classes[c]);
    for (int v = 0; v < r->m->n_devices; v++) bandwidth += r->leaving[DEV(v)];
    return bytes > 0 ? bytes / bandwidth : 0;
}

static double seconds_out(const demand *d, const routes *r, const devset *both, devset inside)
{
    double bytes = 0, gathered = 0;
    for (int c = 0; c < d->n_classes; c++) {
        bytes += crossing(&d->classes[c], inside);
        if (both[c] != 0) gathered += gathering(&d->classes[c], both[c], inside);
    }
    bytes = fmax(bytes, 2 * gathered);
    return bytes > 0 ? bytes / r->leaving[inside] : 0;
}

ein_status ein__demand_bound(arena *scratch, const demand *d, const routes *r, bool all, double *out)
{
    devset *both, n = ALL_DEVICES(r->m->n_devices);
    *out = seconds_sent(d, r);
    NEW(scratch, both, d->n_classes);
    for (int c = 0; c < d->n_classes; c++) both[c] = both_ways(&d->classes[c]);
    for (devset inside = 1; all && inside < n; inside++) *out = fmax(*out, seconds_out(d, r, both, inside));
    for (int i = 0; !all && i < r->n_cuts; i++) *out = fmax(*out, seconds_out(d, r, both, r->cuts[i]));
    return EIN_OK;
}
