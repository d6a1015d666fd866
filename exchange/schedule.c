/* SPDX-License-Identifier: Apache-2.0 */
/* Trees, and what they cost before there are boxes: bytes of whole classes, step by step. */
#include "exchange/schedule.h"

#include <math.h>
#include <string.h>

tree ein__tree(const demand *d, int class)
{
    tree t = {.class = class, .n = 1, .of = 1, .combiner = -1, .n_partials = d->classes[class].n_partials};
    memset(t.up, -1, sizeof t.up);
    memset(t.from, -1, sizeof t.from);
    return t;
}

ein_status ein__tree_add(arena *a, schedule *s, const tree *t)
{
    PUSH(a, &s->trees, *t);
    return EIN_OK;
}

/* ---- depths and bytes ----------------------------------------------------------------------------------- */

/* One tree on its way through the steps: where the bytes of each are counted. */
typedef struct counter {
    const demand *d;
    const routes *r;
    const tree *t;
    const demand_class *c;
    double share;
    traffic *steps;
    int depth;
} counter;

/* `reader` reads what `owner` has since step `ready`; returns the step in which it can: one later, or two by way of the
 * process's memory. */
static int read_from(counter *k, int owner, int reader, int ready, bool finished)
{
    return ready + 1 + !ein__addresses(k->d, k->r, owner, reader, finished);
}

static void count_read(counter *k, int owner, int reader, int step, bool finished)
{
    double bytes = finished ? k->c->finished_bytes : k->c->partial_bytes;
    traffic *t = &k->steps[step];
    bytes *= k->share;
    if (step >= k->depth) k->depth = step + 1;
    if (owner == HOST) t->host[reader] += bytes;
    else if (owner == reader) t->local[reader] += bytes;
    else if (ein__addresses(k->d, k->r, owner, reader, finished)) t->pair[owner][reader] += bytes;
    else {
        k->steps[step - 1].staged[owner] += bytes;
        t->staged[reader] += bytes;
        t->pair[owner][reader] += bytes;
    }
}

static void count_write(counter *k, int device, int step, double bytes)
{
    k->steps[step].local[device] += bytes * k->share;
    if (step >= k->depth) k->depth = step + 1;
}

/* Everything that device `v` must read to have combined what comes to it; returns the step in which it does, or -1
 * where it only holds one partial, which may be read where it is. */
static int combine_at(counter *k, int v)
{
    const tree *t = k->t;
    int ready[MAX_DEVICES], step = 0, own = 0, children = 0;
    for (int j = 0; j < k->c->n_partials; j++) own += t->holder[j] == v;
    for (int u = 0; u < k->r->m->n_devices; u++) {
        if (t->up[u] != v || u == t->combiner) continue;
        ready[u] = combine_at(k, u);
        int at = read_from(k, u, v, ready[u], false);
        if (at > step) step = at;
        children++;
    }
    if (v != t->combiner && own == 1 && children == 0) return -1;
    for (int u = 0; u < k->r->m->n_devices; u++)
        if (t->up[u] == v && u != t->combiner) count_read(k, u, v, step, false);
    for (int j = 0; j < own; j++) count_read(k, v, v, step, false);
    count_write(k, v, step, v == t->combiner ? k->c->finished_bytes : k->c->partial_bytes);
    return step;
}

static int combine_star(counter *k)
{
    const tree *t = k->t;
    int step = 0;
    for (int j = 0; j < k->c->n_partials; j++) {
        int at = read_from(k, t->holder[j], t->combiner, -1, false);
        if (at > step) step = at;
    }
    for (int j = 0; j < k->c->n_partials; j++) count_read(k, t->holder[j], t->combiner, step, false);
    count_write(k, t->combiner, step, k->c->finished_bytes);
    return step;
}

/* The step in which device v has its finished copy. */
static int finish_at(counter *k, int v, int combined, int *done)
{
    int from = k->t->from[v];
    if (v == k->t->combiner) return combined;
    if (done[v] >= 0) return done[v];
    bool original = k->t->combiner < 0 && (from == HOST || (k->c->holders[0] & DEV(from)) != 0);
    int ready = original ? -1 : finish_at(k, from, combined, done);
    done[v] = read_from(k, from, v, ready, !original);
    count_read(k, from, v, done[v], !original);
    count_write(k, v, done[v], k->c->finished_bytes);
    return done[v];
}

static void count_tree(counter *k)
{
    int done[MAX_DEVICES], combined = -1;
    memset(done, -1, sizeof done);
    k->c = &k->d->classes[k->t->class];
    k->share = (double)k->t->n / k->t->of;
    if (k->t->combiner >= 0) combined = k->t->star ? combine_star(k) : combine_at(k, k->t->combiner);
    for (int v = 0; v < k->r->m->n_devices; v++)
        if (k->t->from[v] >= 0) finish_at(k, v, combined, done);
}

/* ---- seconds ------------------------------------------------------------------------------------------ */

static void add_traffic(traffic *sum, const traffic *t, int n, double share)
{
    for (int d = 0; d < n; d++) {
        for (int e = 0; e < n; e++) sum->pair[d][e] += share * t->pair[d][e];
        sum->local[d] += share * t->local[d];
        sum->host[d] += share * t->host[d];
        sum->staged[d] += share * t->staged[d];
    }
}

/* Step t of n_chunks pieces one behind the other has piece k in its own step t - k. */
static double pipelined(const routes *r, const traffic *steps, int depth, int n_chunks)
{
    double seconds = 0;
    for (int t = 0; t < depth && n_chunks == 1; t++)
        seconds += ein__traffic_seconds(r, &steps[t]) + ein__traffic_latency(r, &steps[t]);
    for (int t = 0; t < depth + n_chunks - 1 && n_chunks > 1; t++) {
        traffic now;
        memset(&now, 0, sizeof now);
        for (int i = t < depth ? t : depth - 1; i >= 0 && t - i < n_chunks; i--)
            add_traffic(&now, &steps[i], r->m->n_devices, 1.0 / n_chunks);
        seconds += ein__traffic_seconds(r, &now) + ein__traffic_latency(r, &now);
    }
    return seconds;
}

static ein_status count_schedule(arena *a, const demand *d, const routes *r, schedule *s, traffic **steps)
{
    counter k = {.d = d, .r = r};
    traffic all;
    memset(&all, 0, sizeof all);
    NEW(a, *steps, s->room > 0 ? s->room : EIN__STEPS);
    k.steps = *steps;
    for (int i = 0; i < s->trees.n; i++) {
        k.t = &s->trees.items[i];
        count_tree(&k);
    }
    s->depth = k.depth;
    for (int i = 0; i < k.depth; i++) add_traffic(&all, &k.steps[i], r->m->n_devices, 1);
    s->bandwidth = ein__traffic_seconds(r, &all);
    return EIN_OK;
}

/* Bytes of the largest class: shares in pieces below MIN_CHUNK are not worth a step. */
static double largest_class(const demand *d)
{
    double most = 0;
    for (int c = 0; c < d->n_classes; c++) most = fmax(most, d->classes[c].finished_bytes);
    return most;
}

ein_status ein__schedule_chunk(arena *scratch, const demand *d, const routes *r, schedule *s)
{
    enum { MIN_CHUNK = 1 << 16, MOST = 16 };
    traffic *steps;
    TRY(count_schedule(scratch, d, r, s, &steps));
    s->seconds = pipelined(r, steps, s->depth, 1);
    /* n chunks take about (depth - 1) / n of the fullest link more, and as many latencies: the best n is where these
     * are equal. */
    double wanted = sqrt((s->depth - 1) * s->bandwidth / fmax(ein__traffic_latency(r, &steps[0]), 1e-9));
    int n = 1;
    while (2 * n <= MOST && n * 1.5 < wanted && s->depth + 2 * n <= EIN__STEPS && largest_class(d) / (2 * n) >= MIN_CHUNK) n *= 2;
    double seconds = n > 1 ? pipelined(r, steps, s->depth, n) : INFINITY;
    s->n_chunks = seconds < s->seconds ? n : 1;
    s->seconds = fmin(seconds, s->seconds);
    return EIN_OK;
}

/* ---- bytes of the exchange to be ---------------------------------------------------------------------- */

/* How often an element crosses between devices, as a partial and finished. */
static void count_crossings(const demand *d, const routes *r, const tree *t, i64 *partial, i64 *finished)
{
    const demand_class *c = &d->classes[t->class];
    *partial = *finished = 0;
    for (int j = 0; j < c->n_partials && t->star; j++)
        *partial += t->holder[j] != t->combiner && t->holder[j] != HOST && ein__addresses(d, r, t->holder[j], t->combiner, false);
    for (int v = 0; v < r->m->n_devices; v++) {
        int up = t->up[v], from = t->from[v];
        if (!t->star && up >= 0 && v != t->combiner) *partial += ein__addresses(d, r, v, up, false);
        if (from < 0 || from == v || from == HOST) continue;
        bool original = t->combiner < 0 && (c->holders[0] & DEV(from)) != 0;
        if (!ein__addresses(d, r, from, v, !original)) continue;
        if (original) ++*partial;
        else ++*finished;
    }
}

i64 ein__schedule_bytes(const demand *d, const routes *r, const schedule *s)
{
    i64 bytes = 0, stored = 0, one = ein__dtype_bytes(d->p->dtype);
    for (int k = 0; k < d->p->n_states; k++)
        if ((d->p->used >> k & 1) != 0) stored += ein__dtype_bytes(ein__exchange_stored(d->p, k));
    for (int i = 0; i < s->trees.n; i++) {
        const tree *t = &s->trees.items[i];
        const demand_class *c = &d->classes[t->class];
        i64 partial, finished, volume = 0, first = (i64)t->first * s->n_chunks, end = first + (i64)t->n * s->n_chunks;
        count_crossings(d, r, t, &partial, &finished);
        for (int b = 0; b < c->n; b++)
            volume += ein__share_volume(d, d->order[c->first + b], first, end, (i64)t->of * s->n_chunks);
        bytes += volume * (partial * stored + finished * one);
    }
    return bytes;
}
