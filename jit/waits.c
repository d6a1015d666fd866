/* SPDX-License-Identifier: Apache-2.0 */
/* Which waits make the program's dependences hold, without the ones that follow from others: every device keeps
 * what it knows to be finished on each other device (a vector clock); a dependence that is known needs no wait. */
#include <string.h>

#include "core/plan/order.h"
#include "jit/lower.h"

typedef struct clocks {
    int n_devices;
    int *now;       /* [device][other]: last event known to be finished, -1 */
    int *at_finish; /* [event][other] */
} clocks;

static void learn(clocks *c, int device, int from, int from_device)
{
    int *mine = c->now + device * c->n_devices;
    const int *theirs = c->at_finish + from * c->n_devices;
    for (int d = 0; d < c->n_devices; d++)
        if (theirs[d] > mine[d]) mine[d] = theirs[d];
    if (from > mine[from_device]) mine[from_device] = from;
}

static ein_status add_wait(arena *a, step *s, wait x)
{
    for (int i = 0; i < s->n_waits; i++)
        if (s->waits[i].device == x.device && s->waits[i].step == x.step && s->waits[i].lag == x.lag) return EIN_OK;
    wait *waits;
    NEW(a, waits, s->n_waits + 1);
    if (s->n_waits > 0) memcpy(waits, s->waits, (size_t)s->n_waits * sizeof *waits);
    waits[s->n_waits++] = x;
    s->waits = waits;
    return EIN_OK;
}

/* The latest source of event `to` among dependences [lo, hi) that its device does not know to be finished, or -1. */
static int latest_unknown(const clocks *c, const event_order *o, int lo, int hi)
{
    int latest = -1;
    for (int k = lo; k < hi; k++) {
        int from = o->dependences[k].from, device = o->events[o->dependences[k].to].device;
        if (from > latest && c->now[device * c->n_devices + o->events[from].device] < from) latest = from;
    }
    return latest;
}

ein_status ein__assign_waits(arena *a, arena *scratch, program *p, error *e)
{
    event_order o;
    clocks c = {.n_devices = p->n_devices};
    TRY(ein__program_order(scratch, p, &o, e));
    NEW(scratch, c.now, p->n_devices * p->n_devices);
    NEW(scratch, c.at_finish, o.n_events * p->n_devices);
    for (int i = 0; i < p->n_devices * p->n_devices; i++) c.now[i] = -1;
    for (int i = 0, lo = 0, hi = 0; i < o.n_events; i++, lo = hi) {
        const event *ev = &o.events[i];
        while (hi < o.n_dependences && o.dependences[hi].to == i) hi++;
        for (int from; (from = latest_unknown(&c, &o, lo, hi)) >= 0;) { /* the latest tells of earlier ones */
            const event *source = &o.events[from];
            bool same = source->step->region == ev->step->region;
            wait x = {source->device, source->index, same ? ev->iteration - source->iteration : 0};
            TRY(add_wait(a, &p->devices[ev->device].steps[ev->index], x));
            learn(&c, ev->device, from, source->device);
        }
        int *mine = c.now + ev->device * p->n_devices;
        mine[ev->device] = i;
        memcpy(c.at_finish + i * p->n_devices, mine, (size_t)p->n_devices * sizeof *mine);
    }
    return EIN_OK;
}
