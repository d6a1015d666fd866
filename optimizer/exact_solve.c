/* SPDX-License-Identifier: Apache-2.0 */
/* The least sum of the tables within the capacity. If the cheapest assignment is too large, every byte gets a price:
 * whatever the price, what comes out less what the capacity is worth is a lower bound. At one price the least cost
 * with each value of each variable is asked for; values that cannot be in an assignment better than the known ones
 * are dropped, and the small problem that is left is searched by branch and bound over the bytes of each leaf. */
#include <math.h>
#include <string.h>

#include "optimizer/exact.h"

enum {
    ROOM = 1 << 21, /* entries of a table */
    MAX_RATES = 12,
    PATIENCE = 32 << 20
};

/* A sum problem with bytes, of the same variables as the exact one but with fewer values. */
typedef struct core {
    exact *x;
    int *sizes;
    int n_tables;
    cost_table *tables;
    int n_usages;
    usage *usages;
    int **kept;       /* per variable: the values, as the exact problem numbers them */
    double *low, *high; /* per usage: bytes that a branch allows */
    i64 known;          /* cost of the best assignment that fits */
} core;

static i64 entries(const int *sizes, const cost_table *t)
{
    i64 n = 1;
    for (int i = 0; i < t->n_vars; i++) n *= sizes[t->vars[i]];
    return n;
}

static double bytes_of(const core *k, const int *values)
{
    double bytes = k->x->taken;
    for (int i = 0; i < k->n_usages; i++) bytes += k->usages[i].bytes[values[k->usages[i].var]];
    return bytes;
}

/* ---- one elimination ---------------------------------------------------------------------------------- */

/* With `rate` per byte, inside of the branch. */
static ein_status solve(core *k, arena *a, double rate, i64 **least, sum_answer *out)
{
    sum_problem p = {.n_vars = k->x->sizes.n, .sizes = k->sizes, .n_tables = k->n_tables + k->n_usages, .least = least};
    cost_table *tables;
    NEW(a, tables, p.n_tables);
    if (k->n_tables > 0) memcpy(tables, k->tables, (size_t)k->n_tables * sizeof *tables);
    for (int i = 0; i < k->n_usages; i++) {
        const usage *u = &k->usages[i];
        i64 *costs;
        NEW(a, costs, k->sizes[u->var]);
        for (int v = 0; v < k->sizes[u->var]; v++) {
            double cost = u->bytes[v] * rate;
            costs[v] = u->bytes[v] < k->low[i] || u->bytes[v] > k->high[i] || cost >= (double)FAR ? FAR : (i64)cost;
        }
        tables[k->n_tables + i] = (cost_table){.n_vars = 1, .vars = {u->var}, .at = costs};
    }
    p.tables = tables;
    TRY(ein__eliminate(a, &p, ROOM, NULL, out));
    k->x->p->states_searched += out->entries;
    return EIN_OK;
}

/* A solution as a point: what it costs, without what its bytes were charged, and its bytes. */
typedef struct point { double cost, bytes; } point;

static point point_of(const core *k, const sum_answer *found, double rate)
{
    double charged = 0;
    for (int i = 0; i < k->n_usages; i++) charged += floor(k->usages[i].bytes[found->values[k->usages[i].var]] * rate);
    return (point){(double)found->cost - charged, bytes_of(k, found->values)};
}

static void raise_bound(const exact *x, double cost, answer *best)
{
    double bound = fmin(floor(cost / (double)((i64)1 << x->up)) / PICOSECONDS, best->seconds);
    if (x->complete && bound > best->bound) best->bound = bound;
}

/* An assignment that fits may be the best so far. */
static ein_status consider(core *k, const sum_answer *found, point at, answer *best)
{
    int *values;
    if (at.bytes > k->x->p->capacity || at.cost >= (double)k->known) return EIN_OK;
    k->known = (i64)at.cost;
    NEW(k->x->a, values, k->x->sizes.n);
    for (int v = 0; v < k->x->sizes.n; v++) values[v] = k->kept[v][found->values[v]];
    return ein__exact_consider(k->x, values, best);
}

/* ---- the core ----------------------------------------------------------------------------------------- */

static ein_status whole_core(exact *x, core *k)
{
    *k = (core){.x = x, .sizes = x->sizes.items, .n_tables = x->tables.n, .tables = x->tables.items,
                .n_usages = x->usages.n, .usages = x->usages.items, .known = x->limit + 1};
    NEW(x->a, k->kept, x->sizes.n);
    NEW(x->a, k->low, x->usages.n);
    NEW(x->a, k->high, x->usages.n);
    for (int i = 0; i < x->usages.n; i++) k->high[i] = x->p->capacity;
    for (int v = 0; v < x->sizes.n; v++) {
        NEW(x->a, k->kept[v], x->sizes.items[v]);
        for (int i = 0; i < x->sizes.items[v]; i++) k->kept[v][i] = i;
    }
    return EIN_OK;
}

/* The table's entries with kept values only. */
static ein_status restrict_table(const core *k, const int *old_sizes, int *const *which, const cost_table *t, cost_table *out)
{
    int at[MAX_SCOPE] = {0};
    i64 n = entries(k->sizes, t), *costs;
    NEW(k->x->a, costs, n);
    for (i64 e = 0; e < n; e++) {
        i64 from = 0;
        for (int i = 0; i < t->n_vars; i++) from = from * old_sizes[t->vars[i]] + which[t->vars[i]][at[i]];
        costs[e] = t->at[from];
        for (int i = t->n_vars - 1; i >= 0 && ++at[i] == k->sizes[t->vars[i]]; i--) at[i] = 0;
    }
    *out = *t;
    out->at = costs;
    return EIN_OK;
}

/* Drop the values with which nothing better than what is known can cost less than `most`. False: nothing is left. */
static ein_status shrink(core *k, i64 *const *least, double most, bool *some)
{
    const core old = *k;
    int **which;
    arena *a = k->x->a;
    *some = true;
    NEW(a, which, k->x->sizes.n);
    NEW(a, k->sizes, k->x->sizes.n);
    NEW(a, k->kept, k->x->sizes.n);
    NEW(a, k->tables, k->n_tables);
    NEW(a, k->usages, k->n_usages);
    for (int v = 0; v < k->x->sizes.n; v++) {
        NEW(a, which[v], old.sizes[v]);
        NEW(a, k->kept[v], old.sizes[v]);
        for (int i = 0; i < old.sizes[v]; i++) {
            if (least[v] != NULL && (double)least[v][i] > most) continue;
            which[v][k->sizes[v]] = i;
            k->kept[v][k->sizes[v]++] = old.kept[v][i];
        }
        *some = *some && k->sizes[v] > 0;
    }
    if (!*some) return EIN_OK;
    for (int t = 0; t < k->n_tables; t++) TRY(restrict_table(k, old.sizes, which, &old.tables[t], &k->tables[t]));
    for (int i = 0; i < k->n_usages; i++) {
        int v = k->usages[i].var = old.usages[i].var;
        NEW(a, k->usages[i].bytes, k->sizes[v]);
        for (int n = 0; n < k->sizes[v]; n++) k->usages[i].bytes[n] = old.usages[i].bytes[which[v][n]];
    }
    return EIN_OK;
}

/* ---- branch and bound --------------------------------------------------------------------------------- */

/* Among the bytes that the branch allows for usage i: the nearest below and above `at`; negative: none. */
static void levels_near(const core *k, int i, double at, double *below, double *above)
{
    const usage *u = &k->usages[i];
    *below = *above = -1;
    for (int v = 0; v < k->sizes[u->var]; v++) {
        double b = u->bytes[v];
        if (b < k->low[i] || b > k->high[i]) continue;
        if (b < at && b > *below) *below = b;
        if (b > at && (*above < 0 || b < *above)) *above = b;
    }
}

/* Where to part the branch: the usage whose bytes have the most to lose (if too many) or to gain. */
static int choose_split(const core *k, const int *values, bool too_many, double *low_part, double *high_part)
{
    int chosen = -1;
    double most = 0;
    for (int i = 0; i < k->n_usages; i++) {
        double at = k->usages[i].bytes[values[k->usages[i].var]], below, above;
        levels_near(k, i, at, &below, &above);
        double step = too_many ? (below >= 0 ? at - below : 0) : (above >= 0 ? above - at : 0);
        if (step <= most) continue;
        most = step;
        chosen = i;
        *low_part = too_many ? below : at;
        *high_part = too_many ? at : above;
    }
    return chosen;
}

static bool may_fit(const core *k)
{
    double bytes = k->x->taken;
    for (int i = 0; i < k->n_usages; i++) {
        double below, least;
        levels_near(k, i, k->low[i] - 1, &below, &least);
        if (least < 0) return false;
        bytes += least;
    }
    return bytes <= k->x->p->capacity;
}

/* The plan that is known is good already. */
static bool out_of_patience(const problem *p)
{
    const search_limits *l = p->limits;
    return p->states_searched > (l->patience > 0 ? l->patience : PATIENCE) || (l->cancelled != NULL && l->cancelled(l->user));
}

/* Bytes that a branch allows for each usage, and a bound. */
typedef struct open_branch { double bound, *low, *high; } open_branch;
typedef struct branch_list { int n, room; open_branch *items; } branch_list;

/* The branch that the core is in, as it is but for one usage. */
static ein_status add_branch(core *k, double bound, int usage, double low, double high, branch_list *to)
{
    size_t bytes = (size_t)k->n_usages * sizeof(double);
    open_branch b = {.bound = bound};
    NEW(k->x->a, b.low, k->n_usages);
    NEW(k->x->a, b.high, k->n_usages);
    if (bytes > 0) memcpy(b.low, k->low, bytes);
    if (bytes > 0) memcpy(b.high, k->high, bytes);
    if (usage >= 0) b.low[usage] = low;
    if (usage >= 0) b.high[usage] = high;
    PUSH(k->x->a, to, b);
    return EIN_OK;
}

/* Solve the branch that the core is in, and part it if something better may be in it. */
static ein_status try_branch(core *k, arena *scratch, double rate, branch_list *to, answer *best)
{
    const double capacity = k->x->p->capacity;
    sum_answer found;
    double low, high;
    if (!may_fit(k)) return EIN_OK;
    TRY(solve(k, scratch, rate, NULL, &found));
    if (found.cost >= FAR) return EIN_OK;
    double bound = (double)found.bound - rate * (capacity - k->x->taken);
    point at = point_of(k, &found, rate);
    TRY(consider(k, &found, at, best));
    if (bound >= (double)k->known) return EIN_OK;
    int split = choose_split(k, found.values, at.bytes > capacity, &low, &high);
    if (split < 0) split = choose_split(k, found.values, at.bytes <= capacity, &low, &high);
    if (split < 0) return EIN_OK;
    TRY(add_branch(k, bound, split, k->low[split], low, to));
    return add_branch(k, bound, split, high, k->high[split], to);
}

/* The branch with the lowest bound first. Returns the bound that is left: that of what was not looked into, or what is
 * known. */
static ein_status branch_and_bound(core *k, double bound, double rate, answer *best, double *left)
{
    branch_list open = {0};
    ein_status s = add_branch(k, bound, -1, 0, 0, &open);
    *left = bound;
    while (s == EIN_OK) {
        int next = -1;
        for (int i = 0; i < open.n; i++)
            if (next < 0 || open.items[i].bound < open.items[next].bound) next = i;
        *left = next < 0 ? (double)k->known : fmin(open.items[next].bound, (double)k->known);
        if (next < 0 || open.items[next].bound >= (double)k->known || out_of_patience(k->x->p)) return EIN_OK;
        arena scratch = {NULL};
        k->low = open.items[next].low;
        k->high = open.items[next].high;
        open.items[next] = open.items[--open.n];
        s = try_branch(k, &scratch, rate, &open, best);
        ein__arena_free(&scratch);
    }
    return s;
}

/* ---- the price of memory ------------------------------------------------------------------------------ */

/* The rate per byte for which the best plan over the capacity costs as much as the best below it: the bound is
 * highest there. Each new rate is the slope between the two that are known; with the first one the core shrinks. */
static ein_status price_memory(core *k, point over, answer *best)
{
    const double capacity = k->x->p->capacity, room = capacity - k->x->taken;
    point below = {(double)k->known, capacity};
    double rate = 0, last = -1, highest = 0, best_rate = 0;
    bool some = true;
    sum_answer found;
    i64 **least;
    NEW(k->x->a, least, k->x->sizes.n);
    for (int i = 0; i < MAX_RATES; i++) {
        rate = (below.cost - over.cost) / (over.bytes - below.bytes);
        if (!(rate > 0) || rate == last) break;
        if (i > 1 && out_of_patience(k->x->p)) return EIN_OK;
        TRY(solve(k, k->x->a, rate, i == 0 ? least : NULL, &found));
        if (found.cost >= FAR) return EIN_OK;
        double bound = (double)found.bound - rate * room;
        raise_bound(k->x, bound, best);
        if (bound > highest) best_rate = rate;
        highest = fmax(highest, bound);
        point now = point_of(k, &found, rate);
        TRY(consider(k, &found, now, best));
        if (now.bytes <= capacity) below = now;
        else over = now;
        last = rate;
        if (i == 0) TRY(shrink(k, least, (double)k->known + rate * room, &some));
        if (!some) return EIN_OK;
    }
    if (highest >= (double)k->known || out_of_patience(k->x->p)) return EIN_OK;
    NEW(k->x->a, least, k->x->sizes.n);
    TRY(solve(k, k->x->a, best_rate, least, &found));
    TRY(shrink(k, least, (double)k->known + best_rate * room, &some));
    if (!some) { /* nothing is better than what is known */
        raise_bound(k->x, (double)k->known, best);
        return EIN_OK;
    }
    TRY(branch_and_bound(k, highest, best_rate, best, &highest));
    raise_bound(k->x, highest, best);
    return EIN_OK;
}

ein_status ein__exact_solve(exact *x, answer *best)
{
    core k;
    sum_answer found;
    TRY(whole_core(x, &k));
    TRY(solve(&k, x->a, 0, NULL, &found));
    if (found.cost >= FAR) return EIN_OK;
    raise_bound(x, (double)found.bound, best);
    point first = point_of(&k, &found, 0);
    TRY(consider(&k, &found, first, best));
    return first.bytes <= x->p->capacity ? EIN_OK : price_memory(&k, first, best);
}
