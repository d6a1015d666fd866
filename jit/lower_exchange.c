/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges become steps: one launch of the box-move kernel for what a step of a device writes into one block. */
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

/* An exchange on its way to steps. */
typedef struct emission {
    const exchange *x;
    const exchange_problem *p;
    const instance *from, *dst; /* dst NULL: the process's memory, output `output` */
    int output;
    kernel_text kernels[TRANSFER_COPY + 1]; /* made when first needed: body NULL before */
    uint64_t *writers; /* by memory: bit set of the steps that write it */
    int *buffers;      /* of scratch */
} emission;

/* Transfers of one step from one device into one memory. */
typedef struct group { int first, n; } group;

/* Memories are blocks of the destination on devices, then scratch. */
static int memory_of(const emission *m, int block, int device, int scratch)
{
    return scratch >= 0 ? m->p->to->n_blocks * (HOST + 1) + scratch : block * (HOST + 1) + device;
}

/* The piece of a memory that a step writes; the last writer's is all that there may be besides, 0: all. */
static uint64_t piece_of(uint64_t writers, int step)
{
    int rank = __builtin_popcountll(writers & (((uint64_t)1 << step) - 1)), n = __builtin_popcountll(writers);
    if (n == 1) return 0;
    return rank == n - 1 ? ~(uint64_t)0 << rank : (uint64_t)1 << rank;
}

static ein_status find_writers(lowering *w, emission *m)
{
    NEW(w->scratch, m->writers, m->p->to->n_blocks * (HOST + 1) + m->x->n_scratch);
    for (int i = 0; i < m->x->n_transfers; i++) {
        const transfer *t = &m->x->transfers[i];
        m->writers[memory_of(m, t->dst_block, t->dst_device, t->dst_scratch)] |= (uint64_t)1 << t->step;
    }
    return EIN_OK;
}

static ein_status make_scratch(lowering *w, emission *m)
{
    NEW(w->scratch, m->buffers, m->x->n_scratch);
    for (int i = 0; i < m->x->n_scratch; i++) {
        const scratch *s = &m->x->scratch[i];
        ein_dtype dtype = s->src_block < 0 ? m->p->dtype : ein__exchange_stored(m->p, m->x->state);
        TRY(ein__lower_buffer(w, s->owner, s->n * ein__dtype_bytes(dtype), &m->buffers[i]));
        w->buffers.items[m->buffers[i]].host = s->device == HOST;
    }
    return EIN_OK;
}

/* Scratch, as if the block that it is a part of were there. */
static arg scratch_arg(const emission *m, int i)
{
    const scratch *s = &m->x->scratch[i];
    ein_dtype dtype = s->src_block < 0 ? m->p->dtype : ein__exchange_stored(m->p, m->x->state);
    return (arg){.kind = ARG_POINTER, .place = {SPACE_BUFFER, m->buffers[i], s->device, 0}, .scalar = -1,
                 .value = -s->lo * ein__dtype_bytes(dtype)};
}

/* The memory that a step writes, or that it wrote, is one of so many pieces. */
static void note_piece(lowering *w, const emission *m, arg *a, int memory, int step)
{
    if (a->place.space != SPACE_BUFFER) return;
    int n = __builtin_popcountll(m->writers[memory]), *pieces = &w->buffers.items[a->place.index].pieces;
    a->pieces = piece_of(m->writers[memory], step);
    if (n > *pieces) *pieces = n;
}

static arg source_arg(lowering *w, const emission *m, const transfer *t, const source *s, int state)
{
    arg a = {.kind = ARG_POINTER, .scalar = -1};
    if (s->scratch >= 0) a = scratch_arg(m, s->scratch);
    else if (s->step >= 0) a.place = ein__instance_place(w, m->dst, 0, t->dst_block, 0, s->device);
    else a.place = ein__instance_place(w, m->from, state, t->src_block[state], s->partial, s->device);
    if (s->step >= 0) note_piece(w, m, &a, memory_of(m, t->dst_block, s->device, s->scratch), s->step);
    return a;
}

static arg destination_arg(lowering *w, const emission *m, const transfer *t)
{
    arg a = {.kind = ARG_POINTER, .scalar = -1, .place = {SPACE_OUTPUT, m->output, HOST, 0}};
    if (t->dst_scratch >= 0) a = scratch_arg(m, t->dst_scratch);
    else if (m->dst != NULL) a.place = ein__instance_place(w, m->dst, 0, t->dst_block, 0, t->dst_device);
    note_piece(w, m, &a, memory_of(m, t->dst_block, t->dst_device, t->dst_scratch), t->step);
    a.written = true;
    return a;
}

static bool same_sources(const transfer *a, const transfer *b)
{
    return memcmp(a->src_block, b->src_block, sizeof a->src_block) == 0 && a->n_sources == b->n_sources &&
           memcmp(a->sources, b->sources, (size_t)a->n_sources * sizeof *a->sources) == 0;
}

/* Address arguments for all sources of the group; first[i] is transfer i's first one. */
static ein_status add_sources(lowering *w, const emission *m, group g, int *first, arg **out, int *n_out)
{
    struct { int n, room; arg *items; } args = {0};
    int n_sources = 0, n_states = m->x->transfers[g.first].kind == TRANSFER_COPY ? 1 : m->p->n_states;
    for (int i = 0; i < g.n; i++) {
        const transfer *t = &m->x->transfers[g.first + i];
        int same = 0;
        while (same < i && !same_sources(&m->x->transfers[g.first + same], t)) same++;
        first[i] = same < i ? first[same] : n_sources;
        if (same < i) continue;
        n_sources += t->n_sources;
        for (int s = 0; s < t->n_sources; s++)
            for (int k = 0; k < n_states; k++) {
                int state = m->p->used >> k & 1 ? k : m->x->state;
                arg a = source_arg(w, m, t, &t->sources[s], state);
                PUSH(w->a, &args, a);
            }
    }
    *out = args.items;
    *n_out = args.n;
    return EIN_OK;
}

static ein_status add_table(lowering *w, const emission *m, group g, const int *first, int *at, i64 *rows)
{
    i64 *words;
    int n = g.n * EIN__BOX_WORDS;
    NEW(w->scratch, words, n);
    *rows = ein__exchange_boxes(m->x, g.first, g.n, first, words);
    *at = w->table.n;
    for (int i = 0; i < n; i++) PUSH(w->scratch, &w->table, words[i]);
    return EIN_OK;
}

static ein_status group_step(lowering *w, const item *x, emission *m, group g, i64 remote_bytes)
{
    const transfer *t = &m->x->transfers[g.first];
    int *first, at, n_sources;
    arg *sources, *args;
    kernel_text *kernel = &m->kernels[t->kind];
    if (kernel->body == NULL) TRY(ein__exchange_kernel(w->a, m->p, m->x, t->kind, kernel));
    launch l = {.kind = STEP_KERNEL, .kernel = *kernel, .grid = {0, 1, 1}};
    NEW(w->scratch, first, g.n);
    TRY(add_sources(w, m, g, first, &sources, &n_sources));
    TRY(add_table(w, m, g, first, &at, &l.grid[0]));
    NEW(w->a, args, 4 + n_sources);
    args[0] = destination_arg(w, m, t);
    args[1] = (arg){.kind = ARG_I64, .value = g.n};
    args[2] = (arg){.kind = ARG_POINTER, .place = {SPACE_TABLE, at, t->device, 0}, .scalar = -1};
    args[3] = (arg){.kind = ARG_SOURCES, .value = n_sources};
    memcpy(args + 4, sources, (size_t)n_sources * sizeof *args);
    l.args = args;
    l.n_args = 4 + n_sources;
    return ein__lower_step(w, t->device, x, &l, remote_bytes);
}

static bool same_group(const transfer *t, const transfer *u)
{
    return u->step == t->step && u->device == t->device && u->kind == t->kind && u->dst_device == t->dst_device &&
           u->dst_block == t->dst_block && u->dst_scratch == t->dst_scratch;
}

static ein_status exchange_steps(lowering *w, const item *x, const exchange_problem *p, const exchange *plan,
                                 const instance *from, const instance *dst, int output)
{
    emission m = {.x = plan, .p = p, .from = from, .dst = dst, .output = output};
    bool counted[MAX_DEVICES] = {false};
    TRY(find_writers(w, &m));
    TRY(make_scratch(w, &m));
    for (int i = 0, n; i < plan->n_transfers; i += n) {
        const transfer *t = &plan->transfers[i];
        for (n = 1; i + n < plan->n_transfers && same_group(t, &plan->transfers[i + n]);) n++;
        TRY(group_step(w, x, &m, (group){i, n}, counted[t->device] ? 0 : plan->remote_bytes[t->device]));
        counted[t->device] = true;
    }
    return EIN_OK;
}

/* Synthesize and prove; sets *incompatible instead if the factorizations have no common refinement. */
static ein_status synthesize(lowering *w, const exchange_problem *p, exchange *out)
{
    TRY(ein__exchange_make(w->scratch, p, w->routes, out, w->e));
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
