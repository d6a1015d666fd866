/* SPDX-License-Identifier: Apache-2.0 */
/* What a step costs: all pairs' bytes laid on the links of their paths, the fullest link or memory
 * counts. A path goes over links and switches; through other devices only where nothing else leads there.
 * Among those it is the widest, then the one of the fewest links, then the first. */
#include "exchange/routes.h"

#include <math.h>

typedef struct search {
    const machine *m;
    bool through_devices;
    double *width; /* of the best path to each vertex */
    int *hops, *by; /* links from the start; the last of them, -1: not reached */
} search;

static bool may_leave(const search *s, int from, int vertex)
{
    return vertex == from || vertex >= s->m->n_devices || s->through_devices;
}

static double widest(search *s, int from, int to)
{
    for (int v = 0; v < s->m->n_vertices; v++) s->width[v] = 0;
    s->width[from] = INFINITY;
    for (bool wider = true; wider;) {
        wider = false;
        for (int i = 0; i < s->m->n_links; i++) {
            const machine_link *l = &s->m->links[i];
            double w = fmin(s->width[l->from], l->bandwidth);
            if (!may_leave(s, from, l->from) || w <= s->width[l->to]) continue;
            s->width[l->to] = w;
            wider = true;
        }
    }
    return s->width[to];
}

/* Fewest links of at least this bandwidth. */
static void shortest(search *s, int from, double bandwidth)
{
    for (int v = 0; v < s->m->n_vertices; v++) s->by[v] = -1;
    s->hops[from] = 0;
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < s->m->n_links; i++) {
            const machine_link *l = &s->m->links[i];
            bool reached = l->from == from || s->by[l->from] >= 0;
            if (!reached || l->to == from || l->bandwidth < bandwidth || !may_leave(s, from, l->from))
                continue;
            if (s->by[l->to] >= 0 && s->hops[l->to] <= s->hops[l->from] + 1) continue;
            s->by[l->to] = i;
            s->hops[l->to] = s->hops[l->from] + 1;
            more = true;
        }
    }
}

static ein_status find_route(arena *a, search *s, routes *r, int from, int to)
{
    s->through_devices = false;
    double width = widest(s, from, to);
    if (width > 0) r->adjacent[from] |= DEV(to);
    s->through_devices = width == 0;
    if (width == 0) width = widest(s, from, to);
    if (width == 0) return EIN_OK;
    shortest(s, from, width);
    bool peer = true;
    int n = s->hops[to], *path;
    NEW(a, path, n);
    for (int v = to, i = 0; v != from; v = s->m->links[path[i++]].from) {
        path[i] = s->by[v];
        r->latency[from][to] += s->m->links[path[i]].latency;
        peer = peer && s->m->links[path[i]].peer;
    }
    r->links[from][to] = path;
    r->n_links[from][to] = n;
    r->reach[from] |= DEV(to);
    if (peer) r->peers[from] |= DEV(to);
    return EIN_OK;
}

/* ---- cuts --------------------------------------------------------------------------------------------- */

/* Move vertex v to the other side of the cut; returns what that adds to the capacity out of `inside`. */
static double flip(const machine *m, uint64_t *inside, int v)
{
    double change = 0;
    bool in = *inside >> v & 1;
    for (int i = 0; i < m->n_links; i++) {
        const machine_link *l = &m->links[i];
        bool other_in = *inside >> (l->from == v ? l->to : l->from) & 1;
        if (l->from == v && !other_in) change += in ? -l->bandwidth : l->bandwidth;
        if (l->to == v && other_in) change += in ? l->bandwidth : -l->bandwidth;
    }
    *inside ^= (uint64_t)1 << v;
    return change;
}

/* For one choice of the switches' sides: all sets of devices, one device moved at a time. */
static void cut_all(routes *r, uint64_t switches)
{
    const machine *m = r->m;
    uint64_t inside = 0;
    double capacity = 0;
    for (int v = m->n_devices; v < m->n_vertices; v++)
        if ((switches >> (v - m->n_devices) & 1) != 0) capacity += flip(m, &inside, v);
    for (uint32_t i = 0;;) {
        devset devices = (devset)inside & ALL_DEVICES(m->n_devices);
        r->leaving[devices] = fmin(r->leaving[devices], fmax(capacity, 0));
        if (++i >> m->n_devices != 0) return;
        capacity += flip(m, &inside, __builtin_ctz(i));
    }
}

/* All of a few devices; of many, each one and all but one, and of each size the two narrowest. */
static ein_status note_cuts(arena *a, routes *r)
{
    enum { FEW = 4 };
    int n = r->m->n_devices;
    devset all = ALL_DEVICES(n);
    NEW(a, r->cuts, n <= FEW ? all : 4 * (devset)n);
    for (devset x = 1; x < all && n <= FEW; x++) r->cuts[r->n_cuts++] = x;
    for (int d = 0; d < n && n > FEW; d++) {
        r->cuts[r->n_cuts++] = DEV(d);
        r->cuts[r->n_cuts++] = all & ~DEV(d);
    }
    for (int size = 2; size < n - 1 && n > FEW; size++)
        for (int k = 0; k < 2; k++) {
            devset best = 0;
            for (devset x = 1; x < all; x++) {
                if (__builtin_popcount(x) != size || (k > 0 && x == r->cuts[r->n_cuts - 1])) continue;
                if (best == 0 || r->leaving[x] < r->leaving[best]) best = x;
            }
            r->cuts[r->n_cuts++] = best;
        }
    return EIN_OK;
}

/* Every way to put a few switches on a side; of many only two, which makes a capacity larger than it is, at worst. */
static ein_status find_cuts(arena *a, routes *r)
{
    enum { FEW = 6 };
    int n = r->m->n_vertices - r->m->n_devices;
    NEW(a, r->leaving, (size_t)1 << r->m->n_devices);
    for (devset x = 0; x <= ALL_DEVICES(r->m->n_devices); x++) r->leaving[x] = INFINITY;
    for (uint64_t s = 0; n <= FEW && s < (uint64_t)1 << n; s++) cut_all(r, s);
    for (int k = 0; n > FEW && k < 2; k++) cut_all(r, k == 0 ? 0 : ((uint64_t)1 << n) - 1);
    return note_cuts(a, r);
}

ein_status ein__routes_make(arena *a, const machine *m, const routes **out)
{
    routes *r;
    search s = {.m = m};
    NEW(a, r, 1);
    NEW(a, s.width, m->n_vertices);
    NEW(a, s.hops, m->n_vertices);
    NEW(a, s.by, m->n_vertices);
    r->m = m;
    for (int from = 0; from < m->n_devices; from++)
        for (int to = 0; to < m->n_devices; to++)
            if (from != to) TRY(find_route(a, &s, r, from, to));
    for (int d = 0; d < m->n_devices; d++) r->peers[d] |= DEV(d);
    *out = r;
    return find_cuts(a, r);
}

/* ---- one step ----------------------------------------------------------------------------------------- */

/* What a device reaches the process's memory with for staging: its widest link, since no machine says more. */
static double staging_bandwidth(const machine *m, int d)
{
    double most = 0;
    for (int i = 0; i < m->n_links; i++)
        if (m->links[i].from == d) most = fmax(most, m->links[i].bandwidth);
    return most;
}

double ein__traffic_seconds(const routes *r, const traffic *t)
{
    const machine *m = r->m;
    double load[MAX_LINKS], most = 0;
    for (int i = 0; i < m->n_links; i++) load[i] = 0;
    for (int from = 0; from < m->n_devices; from++) {
        double memory = t->local[from], host = ein__machine_bandwidth(m, HOST, from);
        for (int to = 0; to < m->n_devices; to++) {
            double bytes = t->pair[from][to];
            if (bytes == 0) continue;
            if ((r->reach[from] & DEV(to)) == 0) return INFINITY;
            for (int i = 0; i < r->n_links[from][to]; i++) load[r->links[from][to][i]] += bytes;
            memory += bytes;
        }
        most = fmax(most, memory / m->devices[from].memory_bandwidth);
        if (host > 0) most = fmax(most, t->host[from] / host);
        if (t->staged[from] > 0) most = fmax(most, t->staged[from] / staging_bandwidth(m, from));
    }
    for (int i = 0; i < m->n_links; i++) most = fmax(most, load[i] / m->links[i].bandwidth);
    return most;
}

double ein__traffic_latency(const routes *r, const traffic *t)
{
    double latency = -1;
    for (int from = 0; from < r->m->n_devices; from++)
        for (int to = 0; to < r->m->n_devices; to++)
            if (t->pair[from][to] > 0) latency = fmax(latency, fmax(r->latency[from][to], r->m->step_latency));
    return latency >= 0 ? latency : r->m->launch_floor;
}

double ein__routes_seconds(const routes *r, const exchange *x)
{
    double seconds = 0;
    for (int i = 0; i < x->n_steps; i++)
        seconds += ein__traffic_seconds(r, &x->traffic[i]) + ein__traffic_latency(r, &x->traffic[i]);
    return seconds;
}
