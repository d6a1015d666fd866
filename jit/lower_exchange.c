/* SPDX-License-Identifier: Apache-2.0 */
/* Exchange programs become steps: one launch of the box-move kernel per destination block. */
#include <string.h>

#include "jit/lower.h"

/* The finished, complete instance if there is one, else the produced one. */
static const instance *best_source(const instance *list)
{
    for (const instance *x = list; x != NULL; x = x->next)
        if (!x->pending && x->complete) return x;
    return list;
}

static exchange_problem make_problem(const lowering *w, const instance *from, ein_dtype dtype, const relation *to)
{
    exchange_problem p = {.n_states = from->n_states, .used = from->used, .merge = from->pending ? from->merge : NULL,
                          .result = from->result, .dtype = dtype, .n_devices = w->n_devices, .to = to};
    for (int k = 0; k < from->n_states; k++) p.states[k] = &from->states[k];
    return p;
}

/* One group of transfers into one block of one device. */
typedef struct group { const exchange *x; const exchange_problem *p; const instance *from; int first, n; } group;

static bool same_sources(const transfer *a, const transfer *b)
{
    return memcmp(a->src_block, b->src_block, sizeof a->src_block) == 0 && a->n_sources == b->n_sources &&
           memcmp(a->src_device, b->src_device, (size_t)a->n_sources * sizeof *a->src_device) == 0;
}

/* Address arguments for all sources of the group; first[i] is transfer i's first one. */
static ein_status add_sources(lowering *w, const group *g, int *first, arg **out, int *n_out)
{
    struct { int n, room; arg *items; } args = {0};
    int n_sources = 0;
    for (int i = 0; i < g->n; i++) {
        const transfer *t = &g->x->transfers[g->first + i];
        int same = 0;
        while (same < i && !same_sources(&g->x->transfers[g->first + same], t)) same++;
        first[i] = same < i ? first[same] : n_sources;
        if (same < i) continue;
        n_sources += t->n_sources;
        for (int s = 0; s < t->n_sources; s++)
            for (int k = 0; k < g->p->n_states; k++) {
                arg a = {.kind = ARG_POINTER, .scalar = -1};
                int state = g->p->used >> k & 1 ? k : (int)__builtin_ctz(g->p->used);
                a.place = ein__instance_place(w, g->from, state, t->src_block[state], s, t->src_device[s]);
                PUSH(w->a, &args, a);
            }
    }
    *out = args.items;
    *n_out = args.n;
    return EIN_OK;
}

static ein_status add_table(lowering *w, const group *g, const int *first, int *at, i64 *rows)
{
    i64 *words;
    int n = g->n * EIN__BOX_WORDS;
    NEW(w->scratch, words, n);
    *rows = ein__exchange_boxes(g->x, g->first, g->n, first, words);
    *at = w->table.n;
    for (int i = 0; i < n; i++) PUSH(w->scratch, &w->table, words[i]);
    return EIN_OK;
}

static ein_status group_step(lowering *w, const item *x, const group *g, const kernel_text *kernel, place dst,
                             i64 remote_bytes)
{
    int *first, at, n_sources;
    arg *sources, *args;
    launch l = {.kind = STEP_KERNEL, .kernel = *kernel, .grid = {0, 1, 1}};
    NEW(w->scratch, first, g->n);
    TRY(add_sources(w, g, first, &sources, &n_sources));
    TRY(add_table(w, g, first, &at, &l.grid[0]));
    NEW(w->a, args, 4 + n_sources);
    int device = g->x->transfers[g->first].device;
    args[0] = (arg){.kind = ARG_POINTER, .place = dst, .scalar = -1, .written = true};
    args[1] = (arg){.kind = ARG_I64, .value = g->n};
    args[2] = (arg){.kind = ARG_POINTER, .place = {SPACE_TABLE, at, device, 0}, .scalar = -1};
    args[3] = (arg){.kind = ARG_SOURCES, .value = n_sources};
    memcpy(args + 4, sources, (size_t)n_sources * sizeof *args);
    l.args = args;
    l.n_args = 4 + n_sources;
    return ein__lower_step(w, device, x, &l, remote_bytes);
}

static ein_status exchange_steps(lowering *w, const item *x, const exchange_problem *p, const exchange *plan,
                                 const instance *from, const instance *dst, int output)
{
    kernel_text kernel;
    bool counted[MAX_DEVICES] = {false};
    if (plan->n_transfers == 0) return EIN_OK;
    TRY(ein__exchange_kernel(w->a, p, plan, &kernel));
    for (int i = 0, n; i < plan->n_transfers; i += n) {
        const transfer *t = &plan->transfers[i];
        for (n = 1; i + n < plan->n_transfers; n++) {
            const transfer *u = &plan->transfers[i + n];
            if (u->device != t->device || u->dst_device != t->dst_device || u->dst_block != t->dst_block) break;
        }
        group g = {plan, p, from, i, n};
        place to = dst != NULL ? ein__instance_place(w, dst, 0, t->dst_block, 0, t->dst_device)
                               : (place){SPACE_OUTPUT, output, HOST, 0};
        TRY(group_step(w, x, &g, &kernel, to, counted[t->device] ? 0 : plan->remote_bytes[t->device]));
        counted[t->device] = true;
    }
    return EIN_OK;
}

/* Synthesize and prove; sets *incompatible instead if the factorizations have no common refinement. */
static ein_status synthesize(lowering *w, const exchange_problem *p, exchange *out)
{
    memset(out, 0, sizeof *out);
    TRY(ein__exchange_direct(w->scratch, p, out, w->e));
    return out->incompatible ? EIN_OK : ein__exchange_check(p, out, w->e);
}

static devset union_devices(const relation *r)
{
    devset all = 0;
    for (int i = 0; i < r->n_blocks * r->n_partials; i++) all |= r->devices[i];
    return all;
}

ein_status ein__lower_exchange(lowering *w, const item *x, const relation *to)
{
    const instance *from = best_source(*x->list);
    relation target = *to;
    exchange_problem p = make_problem(w, from, x->dtype, &target);
    exchange plan;
    instance *dst;
    TRY(synthesize(w, &p, &plan));
    if (plan.incompatible) { /* a whole copy is compatible with everything, and any box can be viewed in it */
        TRY(ein__relation_whole(w->scratch, ein__relation_numel(to), union_devices(to), &target));
        TRY(synthesize(w, &p, &plan));
        if (plan.incompatible) return ein__fail(w->e, EIN_INTERNAL, "exchange %s: no factorization fits", x->what);
    }
    TRY(ein__instance_make(w, &target, x->dtype, NULL, &dst));
    TRY(exchange_steps(w, x, &p, &plan, from, dst, -1));
    ein__instance_append(x->list, dst);
    return EIN_OK;
}

static ein_status exchange_from(lowering *w, const item *x, const instance *from, const instance *dst, int output,
                                bool *incompatible)
{
    relation host;
    exchange plan;
    TRY(ein__relation_whole(w->scratch, ein__relation_numel(&from->states[0]), DEV(HOST), &host));
    exchange_problem p = make_problem(w, from, x->dtype, dst != NULL ? &dst->states[0] : &host);
    TRY(synthesize(w, &p, &plan));
    *incompatible = plan.incompatible != 0;
    return *incompatible ? EIN_OK : exchange_steps(w, x, &p, &plan, from, dst, output);
}

ein_status ein__lower_exchange_into(lowering *w, const item *x, const instance *dst, int output)
{
    bool incompatible;
    TRY(exchange_from(w, x, best_source(*x->list), dst, output, &incompatible));
    if (!incompatible) return EIN_OK;
    relation whole; /* by way of a whole copy, as above; outputs are whole themselves and never come here */
    TRY(ein__relation_whole(w->scratch, ein__relation_numel(&dst->states[0]), union_devices(&dst->states[0]), &whole));
    TRY(ein__lower_exchange(w, x, &whole));
    const instance *last = *x->list;
    while (last->next != NULL) last = last->next;
    return exchange_from(w, x, last, dst, output, &incompatible);
}
