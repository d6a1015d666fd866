/* SPDX-License-Identifier: Apache-2.0 */
/* What an exchange costs: all pairs' bytes laid on the links of their paths, the fullest link or memory
 * counts. A path goes over links and switches; through other devices only where nothing else leads there.
 * Among those it is the widest, then the one of the fewest links, then the first. */
#include <math.h>

#include "exchange/exchange.h"

struct routes {
    const machine *m;
    devset (*users)[MAX_DEVICES]; /* per link and sending device: the receivers whose path it is on */
    devset unreachable[MAX_DEVICES];
    double latency[MAX_DEVICES][MAX_DEVICES];
};

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

static void find_route(search *s, routes *r, int from, int to)
{
    s->through_devices = false;
    double width = widest(s, from, to);
    if (width == 0) {
        s->through_devices = true;
        width = widest(s, from, to);
    }
    if (width == 0) {
        r->unreachable[from] |= DEV(to);
        return;
    }
    shortest(s, from, width);
    for (int v = to; v != from; v = s->m->links[s->by[v]].from) {
        r->users[s->by[v]][from] |= DEV(to);
        r->latency[from][to] += s->m->links[s->by[v]].latency;
    }
}

ein_status ein__routes_make(arena *a, const machine *m, const routes **out)
{
    routes *r;
    search s = {.m = m};
    NEW(a, r, 1);
    NEW(a, r->users, m->n_links);
    NEW(a, s.width, m->n_vertices);
    NEW(a, s.hops, m->n_vertices);
    NEW(a, s.by, m->n_vertices);
    r->m = m;
    for (int from = 0; from < m->n_devices; from++)
        for (int to = 0; to < m->n_devices; to++)
            if (from != to) find_route(&s, r, from, to);
    *out = r;
    return EIN_OK;
}

static double fullest_link(const routes *r, const exchange *x)
{
    double most = 0;
    for (int i = 0; i < r->m->n_links; i++) {
        double bytes = 0;
        for (int from = 0; from < r->m->n_devices; from++)
            for (devset users = r->users[i][from]; users != 0; users &= users - 1)
                bytes += (double)x->pair_bytes[from][__builtin_ctz(users)];
        most = fmax(most, bytes / r->m->links[i].bandwidth);
    }
    return most;
}

static double fullest_memory(const machine *m, const exchange *x)
{
    double most = 0;
    for (int d = 0; d < m->n_devices; d++) {
        double bytes = (double)x->local_bytes[d], host = ein__machine_bandwidth(m, HOST, d);
        for (int to = 0; to < m->n_devices; to++) bytes += (double)x->pair_bytes[d][to];
        most = fmax(most, bytes / m->devices[d].memory_bandwidth);
        if (host > 0) most = fmax(most, (double)x->host_bytes[d] / host);
    }
    return most;
}

double ein__routes_seconds(const routes *r, const exchange *x)
{
    double latency = -1;
    if (x->n_transfers == 0) return 0;
    for (int from = 0; from < r->m->n_devices; from++)
        for (int to = 0; to < r->m->n_devices; to++) {
            if (x->pair_bytes[from][to] == 0) continue;
            if ((r->unreachable[from] & DEV(to)) != 0) return INFINITY;
            latency = fmax(latency, fmax(r->latency[from][to], r->m->step_latency));
        }
    return fmax(fullest_link(r, x), fullest_memory(r->m, x)) + (latency >= 0 ? latency : r->m->launch_floor);
}

double ein__exchange_seconds(const machine *m, const exchange *x)
{
    arena a = {NULL};
    const routes *r;
    ein_status status = ein__routes_make(&a, m, &r);
    double seconds = status == EIN_OK ? ein__routes_seconds(r, x) : -1;
    ein__arena_free(&a);
    return seconds;
}
