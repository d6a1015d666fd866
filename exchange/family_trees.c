/* SPDX-License-Identifier: Apache-2.0 */
/* Priced trees: every class in equal shares, every share along the tree that is cheapest at prices that rise with
 * the load of a link (multiplicative weights); then shares are taken up and laid again, a few times round. A
 * replica's tree grows from its holders to the nearest destination, over devices between if that is cheaper. A
 * partial's has a device where all meets, the cheapest of those tried: a tree of the contributors towards it, one of
 * the destinations from it. At most `hops` steps each way: the fewer, the less a small exchange waits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exchange/schedule.h"

enum { MAX_HOPS = 5, LEAST_SHARES = 4, EVEN_SHARES = 12, MOST_SHARES = 96, ALL_SHARES = 512, ROUNDS = 6, TRIED = 3, FEW = 8 };
static const double STEEP = 20, GOOD = 1.03, WORTH = 0.99; /* a round is, that takes a hundredth off */

typedef struct packer {
    arena *a;
    const demand *d;
    const routes *r;
    double bound, steep;
    int n, hops, n_shares;
    double load[MAX_LINKS];               /* seconds */
    double of_link[MAX_LINKS];            /* prices, per byte */
    bool changed[MAX_LINKS];
    double price[MAX_DEVICES][MAX_DEVICES], price_to[MAX_DEVICES][MAX_DEVICES]; /* per byte, [from][to] and [to][from];
                                                                                infinite: no edge */
    tree *trees;                          /* [class * n_shares + share] */
    signed char *holders;                 /* per class, partial and combiner */
    int *first_holder;                    /* of a class */
    signed char (*tried)[TRIED];          /* combiners of a class */
} packer;

/* ---- loads and prices --------------------------------------------------------------------------------- */

static void add_edge(packer *k, int from, int to, double bytes)
{
    if (from == to || from == HOST) return;
    for (int i = 0; i < k->r->n_links[from][to]; i++) {
        int l = k->r->links[from][to][i];
        k->load[l] += bytes / k->r->m->links[l].bandwidth;
        k->changed[l] = true;
    }
}

/* `sign` -1: taken up. */
static void add_tree(packer *k, const tree *t, double sign)
{
    const demand_class *c = &k->d->classes[t->class];
    double partial = sign * c->partial_bytes / k->n_shares, finished = sign * c->finished_bytes / k->n_shares;
    for (int j = 0; j < c->n_partials && t->star; j++) add_edge(k, t->holder[j], t->combiner, partial);
    for (int v = 0; v < k->n; v++) {
        if (t->up[v] >= 0) add_edge(k, v, t->up[v], partial);
        if (t->from[v] < 0) continue;
        bool original = t->combiner < 0 && (c->holders[0] & DEV(t->from[v])) != 0;
        add_edge(k, t->from[v], v, original ? partial : finished);
    }
}

static double fullest(const packer *k)
{
    double most = 0;
    for (int i = 0; i < k->r->m->n_links; i++) most = fmax(most, k->load[i]);
    return most;
}

/* Of the links whose load has changed, then of the pairs that they are between. */
static void set_prices(packer *k)
{
    const routes *r = k->r;
    for (int i = 0; i < r->m->n_links; i++) {
        if (!k->changed[i]) continue;
        k->changed[i] = false;
        k->of_link[i] = exp(k->steep * fmin(k->load[i] / k->bound, 4)) / r->m->links[i].bandwidth;
    }
    for (int u = 0; u < k->n; u++)
        for (devset left = r->adjacent[u]; left != 0; left &= left - 1) {
            int v = __builtin_ctz(left);
            double price = 0;
            for (int i = 0; i < r->n_links[u][v]; i++) price += k->of_link[r->links[u][v][i]];
            if ((r->peers[u] & DEV(v)) == 0) price *= 2; /* goes twice */
            k->price[u][v] = k->price_to[v][u] = price;
        }
}

/* All links have to be priced anew. */
static void forget_prices(packer *k)
{
    for (int i = 0; i < k->r->m->n_links; i++) k->changed[i] = true;
}

/* ---- growing a tree ----------------------------------------------------------------------------------- */

/* From a tree's devices outwards, or (`back`) towards them: best[h][v] is the least price to have v at depth h. */
typedef struct growth {
    const packer *k;
    bool back;
    int depth[MAX_DEVICES]; /* -1: not in the tree */
    double best[MAX_HOPS + 1][MAX_DEVICES];
    signed char by[MAX_HOPS + 1][MAX_DEVICES];
    devset fresh[MAX_HOPS + 1]; /* whose neighbours are to be looked at */
} growth;

static void spread(growth *g)
{
    const packer *k = g->k;
    for (int h = 0; h < k->hops; h++) {
        for (; g->fresh[h] != 0; g->fresh[h] &= g->fresh[h] - 1) {
            int u = __builtin_ctz(g->fresh[h]);
            const double *prices = g->back ? k->price_to[u] : k->price[u];
            for (int v = 0; v < k->n; v++) {
                double price = g->best[h][u] + prices[v];
                if (price >= g->best[h + 1][v] || g->depth[v] >= 0) continue;
                g->best[h + 1][v] = price;
                g->by[h + 1][v] = (signed char)u;
                g->fresh[h + 1] |= DEV(v);
            }
        }
    }
    g->fresh[k->hops] = 0;
}

/* The path by which v is cheapest at depth h joins the tree. */
static int attach(growth *g, int v, int h, signed char *next)
{
    int u = g->by[h][v], above = g->depth[u] >= 0 ? g->depth[u] : attach(g, u, h - 1, next);
    next[v] = (signed char)u;
    g->depth[v] = above + 1;
    if (above + 1 <= g->k->hops) {
        g->best[above + 1][v] = 0;
        g->fresh[above + 1] |= DEV(v);
    }
    return above + 1;
}

/* Attach the targets, nearest first; `next` gets everybody's neighbour towards the tree. Returns the price. */
static double grow(growth *g, devset targets, signed char *next)
{
    double price = 0;
    while (targets != 0) {
        int at = -1, height = 0;
        double least = INFINITY;
        spread(g);
        for (devset left = targets; left != 0; left &= left - 1)
            for (int h = 1, v = __builtin_ctz(left); h <= g->k->hops; h++)
                if (g->best[h][v] < least) least = g->best[h][v], at = v, height = h;
        if (at < 0) return INFINITY;
        price += least;
        attach(g, at, height, next);
        for (devset left = targets; left != 0; left &= left - 1)
            if (g->depth[__builtin_ctz(left)] >= 0) targets &= ~DEV(__builtin_ctz(left));
    }
    return price;
}

static void plant(const packer *k, growth *g, bool back, devset roots)
{
    g->k = k;
    g->back = back;
    memset(g->fresh, 0, sizeof g->fresh);
    g->fresh[0] = roots;
    for (int v = 0; v < k->n; v++) {
        g->depth[v] = (roots & DEV(v)) != 0 ? 0 : -1;
        for (int h = 0; h <= k->hops; h++) g->best[h][v] = g->depth[v] == h ? 0 : INFINITY;
    }
}

/* ---- one share ---------------------------------------------------------------------------------------- */

static double replica_tree(const packer *k, const demand_class *c, tree *t)
{
    growth g;
    plant(k, &g, false, c->holders[0]);
    for (devset left = c->to; left != 0; left &= left - 1) {
        int v = __builtin_ctz(left);
        if (c->holders[0] == DEV(HOST)) t->from[v] = HOST;
        else if ((c->holders[0] & DEV(v)) != 0) t->from[v] = (signed char)v;
    }
    if (c->holders[0] == DEV(HOST)) return 0;
    return grow(&g, c->to & ~c->holders[0], t->from) * c->finished_bytes;
}

/* With this device as the one where all meets. */
static double partial_tree(const packer *k, const demand_class *c, int combiner, const signed char *holder, tree *t)
{
    growth g;
    double price = 0;
    devset holding = 0;
    t->combiner = combiner;
    t->holder = holder;
    for (int j = 0; j < c->n_partials; j++) holding |= DEV(holder[j]);
    t->star = !k->d->combines || (holding & DEV(HOST)) != 0;
    for (int j = 0; j < c->n_partials && t->star; j++)
        if (holder[j] != HOST && holder[j] != combiner) price += k->price[holder[j]][combiner];
    plant(k, &g, true, DEV(combiner));
    if (!t->star) price = grow(&g, holding & ~DEV(combiner), t->up);
    plant(k, &g, false, DEV(combiner));
    return price * c->partial_bytes + grow(&g, c->to & ~DEV(combiner), t->from) * c->finished_bytes;
}

static const signed char *holders_of(const packer *k, int class, int combiner)
{
    return k->holders + k->first_holder[class] + combiner * k->d->classes[class].n_partials;
}

/* The cheapest tree of a class; `all`: every device is tried as combiner, and the best are noted. */
static double cheapest(packer *k, int class, bool all, tree *out)
{
    const demand_class *c = &k->d->classes[class];
    double least = INFINITY, prices[TRIED] = {INFINITY, INFINITY, INFINITY};
    *out = ein__tree(k->d, class);
    if (c->n_partials == 1) return replica_tree(k, c, out);
    for (int i = 0; i < (all ? k->n : TRIED); i++) {
        int v = all ? i : k->tried[class][i];
        tree t = ein__tree(k->d, class);
        if (v < 0) continue;
        double price = partial_tree(k, c, v, holders_of(k, class, v), &t);
        if (price < least) least = price, *out = t;
        for (int j = 0; j < TRIED && all; j++)
            if (price < prices[j]) {
                memmove(&prices[j + 1], &prices[j], (size_t)(TRIED - 1 - j) * sizeof *prices);
                memmove(&k->tried[class][j + 1], &k->tried[class][j], (size_t)(TRIED - 1 - j));
                prices[j] = price;
                k->tried[class][j] = (signed char)v;
                break;
            }
    }
    return least;
}

/* ---- all shares --------------------------------------------------------------------------------------- */

/* Which copy of each partial a combiner wants: its own, else one with a link to it. */
static ein_status assign_holders(packer *k)
{
    int n = 0;
    NEW(k->a, k->first_holder, k->d->n_classes);
    for (int c = 0; c < k->d->n_classes; c++) {
        k->first_holder[c] = n;
        n += k->d->classes[c].n_partials * k->n;
    }
    NEW(k->a, k->holders, n);
    for (int c = 0; c < k->d->n_classes; c++)
        for (int v = 0; v < k->n; v++)
            for (int j = 0; j < k->d->classes[c].n_partials; j++) {
                devset held = k->d->classes[c].holders[j];
                int best = held == DEV(HOST) ? HOST : __builtin_ctz(held);
                for (int i = k->n - 1; i >= 0; i--) {
                    int u = (v + i) % k->n;
                    bool closer = u == v || (k->r->adjacent[u] & DEV(v)) != 0 || (k->r->adjacent[best] & DEV(v)) == 0;
                    if (held != DEV(HOST) && (held & DEV(u)) != 0 && closer) best = u;
                }
                k->holders[k->first_holder[c] + v * k->d->classes[c].n_partials + j] = (signed char)best;
            }
    return EIN_OK;
}

/* Lay every share once more; false if one cannot be laid in so few hops. */
static bool lay_all(packer *k, int round)
{
    for (int s = 0; s < k->n_shares; s++)
        for (int c = 0; c < k->d->n_classes; c++) {
            tree *t = &k->trees[c * k->n_shares + s], laid;
            if (round > 0) add_tree(k, t, -1);
            set_prices(k);
            if (isinf(cheapest(k, c, s == 0 || round > 1, &laid))) return false;
            *t = laid;
            add_tree(k, t, 1);
        }
    return true;
}

static int by_shape(const void *x, const void *y)
{
    const tree *a = x, *b = y;
    int order = a->combiner - b->combiner;
    if (order == 0) order = memcmp(a->up, b->up, sizeof a->up);
    return order != 0 ? order : memcmp(a->from, b->from, sizeof a->from);
}

/* Equal trees of a class become one. */
static ein_status note(packer *k, schedule *out)
{
    for (int c = 0; c < k->d->n_classes; c++) {
        tree *t = &k->trees[c * k->n_shares];
        qsort(t, (size_t)k->n_shares, sizeof *t, by_shape);
        for (int s = 0, n; s < k->n_shares; s += n) {
            for (n = 1; s + n < k->n_shares && by_shape(&t[s], &t[s + n]) == 0;) n++;
            tree merged = t[s];
            merged.first = s;
            merged.n = n;
            merged.of = k->n_shares;
            TRY(ein__tree_add(k->a, out, &merged));
        }
    }
    return EIN_OK;
}

static ein_status pack(packer *k, schedule *out, double *reached)
{
    tree *best;
    size_t n = (size_t)k->d->n_classes * (size_t)k->n_shares;
    NEW(k->a, k->trees, n);
    NEW(k->a, best, n);
    *reached = INFINITY;
    memset(k->load, 0, sizeof k->load);
    bool idle = false;
    for (int round = 0; round < (k->n > FEW ? 2 : ROUNDS) && !idle && *reached > GOOD * k->bound; round++) {
        double before = *reached;
        k->steep = STEEP + 6 * round;
        forget_prices(k);
        if (!lay_all(k, round)) break;
        if (fullest(k) < *reached) {
            *reached = fullest(k);
            memcpy(best, k->trees, n * sizeof *best);
        }
        idle = round > 0 && *reached > before * WORTH;
    }
    if (isinf(*reached)) return EIN_OK;
    k->trees = best;
    return note(k, out);
}

/* One schedule for each number of hops, up to the first that is as good as there can be. */
static ein_status pack_hops(packer *k, schedule *out, int *n)
{
    double reached, last = INFINITY;
    for (int u = 0; u < k->n; u++)
        for (int v = 0; v < k->n; v++) k->price[u][v] = k->price_to[v][u] = INFINITY;
    for (k->hops = 1; k->hops <= MAX_HOPS && last > GOOD * k->bound; k->hops++) {
        schedule *s = &out[*n];
        memset(k->tried, -1, (size_t)k->d->n_classes * sizeof *k->tried);
        TRY(pack(k, s, &reached));
        if (reached >= last * WORTH) {
            s->trees.n = 0;
            continue;
        }
        last = reached;
        ++*n;
    }
    return EIN_OK;
}

static ein_status plan(arena *a, const demand *d, const routes *r, schedule *out, int *n)
{
    packer *k;
    if (d->n_classes == 0) return EIN_OK;
    NEW(a, k, 1);
    *k = (packer){.a = a, .d = d, .r = r, .n = r->m->n_devices};
    TRY(ein__demand_bound(a, d, r, false, &k->bound));
    if (!(k->bound > 0) || isinf(k->bound)) return EIN_OK;
    int shares = ALL_SHARES * 64 / (k->n * k->n * d->n_classes); /* a tree takes time as the devices squared */
    k->n_shares = shares < LEAST_SHARES ? LEAST_SHARES : shares > MOST_SHARES ? MOST_SHARES : shares;
    if (k->n <= FEW) k->n_shares = (k->n_shares + EVEN_SHARES / 2) / EVEN_SHARES * EVEN_SHARES; /* thirds and quarters */
    if (k->n_shares == 0) k->n_shares = EVEN_SHARES;
    NEW(a, k->tried, d->n_classes);
    TRY(assign_holders(k));
    return pack_hops(k, out, n);
}

const family ein__family_trees = {"trees", true, plan};
