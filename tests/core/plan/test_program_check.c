/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier of programs against mutations of real ones. What it says of waits is compared with an oracle of
 * another kind: all pairs of events that touch the same bytes, and reachability in the graph of what is ordered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/graph/canonical.h"
#include "core/plan/order.h"
#include "jit/lower.h"
#include "tests/harness/random_plan.h"
#include "tests/harness/small_llama.h"

enum { SEEDS = 6, DEVICES = 3 };

typedef struct sample {
    arena a;
    ein_graph *user;
    graph g;
    plan plan;
    program p;
} sample;

/* A LLaMA of three layers, rolled, with a KV cache, cut at random. */
static void open_sample(sample *x, int seed)
{
    small_llama shape = {.hidden = 16, .heads = 4, .kv_heads = 2, .head_size = 4, .ffn = 24, .layers = 3, .vocabulary = 11,
                     .batch = 2, .seq = 3, .cache = 8};
    error e = {0};
    memset(x, 0, sizeof *x);
    x->user = small_llama_graph(&shape);
    if (ein__canonicalize(&x->user->g, &x->g, &e) != EIN_OK) fail_msg("%s", e.line);
    assert_int_equal(x->g.loops.n, 1);
    assert_int_equal(random_plan_make(&x->a, &x->g, (uint64_t)seed, DEVICES, NULL, &x->plan), EIN_OK);
    machine m;
    if (ein__machine_parse(&x->a, "host:3", &m, &e) != EIN_OK) fail_msg("%s", e.line);
    if (ein__lower(&x->a, &x->g, &x->plan, &m, &x->p, &e) != EIN_OK) fail_msg("seed %d: %s", seed, e.line);
}

static void close_sample(sample *x)
{
    ein__arena_free(&x->a);
    ein__arena_free(&x->g.arena);
    ein_graph_free(x->user);
}

static bool accepted(const sample *x) { return ein__program_check(&x->p, NULL) == EIN_OK; }

static void expect_refusal(const sample *x, const char *part)
{
    error e = {0};
    if (ein__program_check(&x->p, &e) == EIN_OK) fail_msg("accepted; wanted \"%s\"", part);
    assert_int_equal(e.status, EIN_INTERNAL);
    if (strstr(e.line, part) == NULL) fail_msg("\"%s\" does not have \"%s\"", e.line, part);
}

/* ---- the oracle --------------------------------------------------------------------------------------- */

/* Bytes of a device, or a block of a state: those are numbered from the end. */
typedef struct access { int device; i64 lo, hi; bool written; uint64_t pieces; } access;

typedef struct oracle {
    arena a;
    const program *p;
    event_order o;
    int iteration; /* of the only loop, at the event in hand */
    access **accesses;
    int *n_accesses;
    bool *before; /* [i * n + j]: i is finished when j starts */
} oracle;

static access access_of(const oracle *k, const arg *x)
{
    const place *at = &x->place;
    access none = {.device = -1};
    if (x->kind != ARG_POINTER) return none;
    if (at->space == SPACE_LEAF) { /* the loop's iterations have members of their own */
        i64 member = k->p->leaf_loop[at->index] >= 0 ? k->iteration : 0;
        i64 unit = -1 - ((i64)at->index * 4096 + at->block * 64 + member);
        return (access){at->device, unit, unit + 1, x->written, 0};
    }
    if (at->space != SPACE_BUFFER) return none;
    const buffer *b = &k->p->buffers[at->index];
    i64 offset = b->offset[b->loop >= 0 ? (k->iteration + b->phase) % 2 : 0];
    return (access){b->device, offset, offset + b->bytes, x->written, x->pieces};
}

static void note_accesses(oracle *k, int event)
{
    const step *s = k->o.events[event].step;
    k->accesses[event] = ein__arena_get(&k->a, (size_t)s->n_args + 1, sizeof(access));
    for (int i = 0; i < s->n_args; i++) {
        access x = access_of(k, &s->args[i]);
        if (x.device >= 0) k->accesses[event][k->n_accesses[event]++] = x;
    }
}

static int find_event(const oracle *k, int device, int index, int iteration)
{
    for (int i = 0; i < k->o.n_events; i++)
        if (k->o.events[i].device == device && k->o.events[i].index == index && k->o.events[i].iteration == iteration)
            return i;
    return -1;
}

/* Everything that is finished when `from` is finished is finished when `to` starts. */
static void order_events(oracle *k, int from, int to)
{
    int n = k->o.n_events;
    if (from < 0) return;
    for (int i = 0; i < n; i++)
        if (i == from || k->before[i * n + from]) k->before[i * n + to] = true;
}

static void close_order(oracle *k)
{
    int last[MAX_DEVICES];
    for (int d = 0; d < MAX_DEVICES; d++) last[d] = -1;
    for (int i = 0; i < k->o.n_events; i++) {
        const event *ev = &k->o.events[i];
        order_events(k, last[ev->device], i);
        last[ev->device] = i;
        for (int w = 0; w < ev->step->n_waits; w++) {
            const wait *x = &ev->step->waits[w];
            int region = k->p->devices[x->device].steps[x->step].region;
            int at = region == ev->step->region ? ev->iteration - x->lag
                                                : ein__region_unrolled(&k->p->devices[x->device].regions[region]) - 1;
            order_events(k, find_event(k, x->device, x->step, at), i);
        }
    }
}

static bool conflict(const oracle *k, int i, int j)
{
    for (int x = 0; x < k->n_accesses[i]; x++)
        for (int y = 0; y < k->n_accesses[j]; y++) {
            const access *p = &k->accesses[i][x], *q = &k->accesses[j][y];
            bool apart = p->lo == q->lo && p->hi == q->hi && p->pieces != 0 && q->pieces != 0 && (p->pieces & q->pieces) == 0;
            if (p->device == q->device && (p->written || q->written) && p->lo < q->hi && q->lo < p->hi && !apart) return true;
        }
    return false;
}

static bool race_free(const program *p)
{
    oracle k = {.p = p};
    bool free_of_races = true;
    assert_int_equal(ein__program_order(&k.a, p, &k.o, NULL), EIN_OK);
    int n = k.o.n_events;
    k.accesses = ein__arena_get(&k.a, (size_t)n, sizeof *k.accesses);
    k.n_accesses = ein__arena_get(&k.a, (size_t)n, sizeof *k.n_accesses);
    k.before = ein__arena_get(&k.a, (size_t)n * (size_t)n, 1);
    for (int i = 0; i < n; i++) {
        const region *r = &p->devices[0].regions[k.o.events[i].step->region];
        /* Before the loop the iteration is 0; after it, the last. */
        k.iteration = r->loop >= 0 ? k.o.events[i].iteration
                                   : k.o.events[i].step->region > 1 ? ein__region_unrolled(&p->devices[0].regions[1]) - 1 : 0;
        note_accesses(&k, i);
    }
    close_order(&k);
    for (int j = 0; j < n && free_of_races; j++)
        for (int i = 0; i < j && free_of_races; i++)
            if (k.o.events[i].device != k.o.events[j].device && !k.before[i * n + j] && conflict(&k, i, j))
                free_of_races = false;
    ein__arena_free(&k.a);
    return free_of_races;
}

/* ---- waits -------------------------------------------------------------------------------------------- */

static int count_waits(const program *p)
{
    int n = 0;
    for (int d = 0; d < p->n_devices; d++)
        for (int i = 0; i < p->devices[d].n_steps; i++) n += p->devices[d].steps[i].n_waits;
    return n;
}

/* Every wait dropped, alone: refused exactly if two devices may then meet in some bytes. */
static void dropped_waits(void **state)
{
    int dropped = 0, refused = 0;
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        sample x;
        open_sample(&x, seed);
        assert_true(accepted(&x));
        assert_true(race_free(&x.p));
        assert_true(count_waits(&x.p) > 10);
        for (int d = 0; d < DEVICES; d++)
            for (int i = 0; i < x.p.devices[d].n_steps; i++) {
                step *s = &x.p.devices[d].steps[i];
                for (int k = 0; k < s->n_waits; k++, dropped++) {
                    wait was = s->waits[k];
                    s->waits[k] = s->waits[--s->n_waits];
                    bool ok = accepted(&x);
                    if (ok != race_free(&x.p))
                        fail_msg("seed %d: without the wait of step %d for step %d of device %d, the verifier says %s", seed,
                                 s->order, was.step, was.device, ok ? "yes" : "no");
                    refused += !ok;
                    s->waits[s->n_waits++] = s->waits[k];
                    s->waits[k] = was;
                }
            }
        assert_true(accepted(&x));
        close_sample(&x);
    }
    print_message("%d waits dropped, %d refused\n", dropped, refused);
    assert_true(refused * 10 > dropped * 9); /* few are implied by others */
}

/* Every wait for the step before, or for an iteration earlier. */
static void weaker_waits(void **state)
{
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        sample x;
        open_sample(&x, seed);
        for (int d = 0; d < DEVICES; d++)
            for (int i = 0; i < x.p.devices[d].n_steps; i++)
                for (int k = 0; k < x.p.devices[d].steps[i].n_waits; k++)
                    for (int how = 0; how < 2; how++) {
                        wait *w = &x.p.devices[d].steps[i].waits[k], was = *w;
                        if (how == 0) w->step--;
                        else w->lag++;
                        if (w->step >= 0) assert_int_equal(accepted(&x), race_free(&x.p));
                        *w = was;
                    }
        close_sample(&x);
    }
}

static step *waiting_step(sample *x)
{
    for (int i = 0; i < x->p.devices[0].n_steps; i++)
        if (x->p.devices[0].steps[i].n_waits > 0) return &x->p.devices[0].steps[i];
    fail_msg("no step waits");
    return NULL;
}

static void impossible_waits(void **state)
{
    sample x;
    (void)state;
    open_sample(&x, 1);
    step *s = waiting_step(&x);
    wait was = s->waits[0];
    s->waits[0].device = DEVICES;
    expect_refusal(&x, "waits for step");
    s->waits[0] = (wait){1, -1, 0};
    expect_refusal(&x, "waits for step -1 of device 1");
    s->waits[0] = (wait){1, x.p.devices[1].n_steps, 0};
    expect_refusal(&x, "waits for step");
    s->waits[0] = (wait){1, x.p.devices[1].n_steps - 1, 0};
    expect_refusal(&x, "waits for a later step");
    s->waits[0].lag = 1; /* another iteration of a later part is later all the same */
    expect_refusal(&x, "waits for a later step");
    s->waits[0] = was;
    s->waits[0].lag = -1;
    expect_refusal(&x, "waits for a later step");
    s->waits[0] = was;
    assert_true(accepted(&x));
    close_sample(&x);
}

/* ---- memory ------------------------------------------------------------------------------------------- */

static bool live_together(const buffer *x, const buffer *y)
{
    return x->device == y->device && x->first >= 0 && y->first >= 0 && x->first <= y->last && y->first <= x->last;
}

static void overlapping_buffers(void **state)
{
    int tried = 0;
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        sample x;
        open_sample(&x, seed);
        for (int i = 0; i < x.p.n_buffers; i++)
            for (int j = 0; j < i; j++) {
                buffer *p = &x.p.buffers[i], *q = &x.p.buffers[j], was = *p;
                if (p->pair >= 0 || q->pair >= 0 || !live_together(p, q) || p->bytes == 0 || q->bytes == 0) continue;
                p->offset[0] = q->offset[q->loop >= 0];
                expect_refusal(&x, q->bytes > p->bytes ? "overlap" : "program: "); /* or it ends outside */
                *p = was;
                tried++;
            }
        assert_true(accepted(&x));
        close_sample(&x);
    }
    assert_true(tried > 100);
}

static int order_of_write(const program *p, int buffer_index, int after)
{
    for (int d = 0; d < p->n_devices; d++)
        for (int i = 0; i < p->devices[d].n_steps; i++)
            for (int k = 0; k < p->devices[d].steps[i].n_args; k++) {
                const step *s = &p->devices[d].steps[i];
                const arg *a = &s->args[k];
                if (s->order > after && a->kind == ARG_POINTER && a->place.space == SPACE_BUFFER &&
                    a->place.index == buffer_index && a->written)
                    return s->order;
            }
    return -1;
}

/* Lifetimes that lie, all of them: the order of accesses tells. A buffer is put where one lies that is read after
 * its write. */
static void lying_lifetimes(void **state)
{
    int tried = 0;
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        sample x;
        open_sample(&x, seed);
        size_t bytes = (size_t)x.p.n_buffers * sizeof(buffer);
        buffer *honest = malloc(bytes);
        assert_non_null(honest);
        memcpy(honest, x.p.buffers, bytes);
        for (int i = 0; i < x.p.n_buffers; i++)
            if (honest[i].first >= 0) x.p.buffers[i].first = x.p.buffers[i].last = i;
        assert_true(accepted(&x));
        for (int i = 0; i < x.p.n_buffers; i++)
            for (int j = 0; j < x.p.n_buffers; j++) {
                const buffer *p = &honest[i], *q = &honest[j];
                if (i == j || p->loop >= 0 || q->loop >= 0 || !live_together(p, q) || p->bytes == 0 || q->bytes == 0) continue;
                int order = order_of_write(&x.p, i, q->first);
                if (order < 0 || order >= q->last || order_of_write(&x.p, j, order) >= 0) continue;
                if (q->offset[0] + p->bytes > x.p.devices[p->device].buffer_bytes) continue;
                x.p.buffers[i].offset[0] = q->offset[0];
                expect_refusal(&x, "reads what nothing wrote");
                x.p.buffers[i].offset[0] = p->offset[0];
                tried++;
            }
        free(honest);
        close_sample(&x);
    }
    assert_true(tried > 20);
}

static void misplaced_buffers(void **state)
{
    static const i64 wrong[] = {-256, 128, (i64)1 << 40};
    sample x;
    (void)state;
    open_sample(&x, 2);
    buffer *b = x.p.buffers;
    while (b->first < 0 || b->pair >= 0) b++;
    for (int i = 0; i < 3; i++) {
        i64 was = b->offset[0];
        b->offset[0] = wrong[i];
        expect_refusal(&x, "is misaligned or outside");
        b->offset[0] = was;
    }
    close_sample(&x);
}

/* ---- steps -------------------------------------------------------------------------------------------- */

typedef struct uses { int writers, readers; } uses;

static uses uses_of(const program *p, int buffer_index)
{
    uses n = {0, 0};
    for (int d = 0; d < p->n_devices; d++)
        for (int i = 0; i < p->devices[d].n_steps; i++)
            for (int k = 0; k < p->devices[d].steps[i].n_args; k++) {
                const arg *a = &p->devices[d].steps[i].args[k];
                if (a->kind != ARG_POINTER || a->place.space != SPACE_BUFFER || a->place.index != buffer_index) continue;
                if (a->written) n.writers++;
                else n.readers++;
            }
    return n;
}

/* A step that does nothing any more, where it was the only one to write something that is read. Places of carried
 * values have two writers, before the loop and in it, and are left out. */
static void dropped_writes(void **state)
{
    int tried = 0;
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        sample x;
        open_sample(&x, seed);
        for (int d = 0; d < DEVICES; d++)
            for (int i = 0; i < x.p.devices[d].n_steps; i++) {
                step *s = &x.p.devices[d].steps[i];
                bool needed = false;
                for (int k = 0; k < s->n_args; k++) {
                    const arg *a = &s->args[k];
                    if (a->kind != ARG_POINTER || a->place.space != SPACE_BUFFER || !a->written) continue;
                    uses n = uses_of(&x.p, a->place.index);
                    needed = needed || (n.writers == 1 && n.readers > 0 && x.p.buffers[a->place.index].loop < 0);
                }
                int was = s->n_args;
                s->n_args = 0;
                if (needed) expect_refusal(&x, "reads what nothing wrote");
                tried += needed;
                s->n_args = was;
            }
        assert_true(accepted(&x));
        close_sample(&x);
    }
    assert_true(tried > 60);
}

static bool feeds(const step *s, const step *t)
{
    for (int i = 0; i < s->n_args; i++)
        for (int k = 0; k < t->n_args; k++)
            if (s->args[i].kind == ARG_POINTER && s->args[i].written && t->args[k].kind == ARG_POINTER &&
                !t->args[k].written && s->args[i].place.space == SPACE_BUFFER && t->args[k].place.space == SPACE_BUFFER &&
                s->args[i].place.index == t->args[k].place.index)
                return true;
    return false;
}

/* Neighbours of a list in the other order: with their numbers, or without. */
static void swapped_steps(void **state)
{
    int fed = 0;
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        sample x;
        open_sample(&x, seed);
        for (int d = 0; d < DEVICES; d++)
            for (int i = 0; i + 1 < x.p.devices[d].n_steps; i++) {
                step *s = &x.p.devices[d].steps[i], a = s[0], b = s[1];
                s[0] = b;
                s[1] = a;
                expect_refusal(&x, "program: step"); /* stands before it, or waits for it */
                if (a.region == b.region && feeds(&a, &b)) {
                    s[0].order = a.order;
                    s[1].order = b.order;
                    expect_refusal(&x, "program: step");
                    fed++;
                }
                s[0] = a;
                s[1] = b;
            }
        assert_true(accepted(&x));
        close_sample(&x);
    }
    assert_true(fed > 20);
}

/* Only a device itself writes its memory. */
static void remote_write(void **state)
{
    sample x;
    (void)state;
    open_sample(&x, 0);
    for (int i = 0; i < x.p.devices[0].n_steps; i++) {
        step *s = &x.p.devices[0].steps[i];
        for (int k = 0; k < s->n_args; k++) {
            arg *a = &s->args[k];
            if (a->kind != ARG_POINTER || a->place.space != SPACE_BUFFER || a->written) continue;
            if (x.p.buffers[a->place.index].device == 0) continue;
            a->written = true;
            expect_refusal(&x, "on device 0 writes memory of device");
            close_sample(&x);
            return;
        }
    }
    fail_msg("device 0 reads no other device's memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dropped_waits),       cmocka_unit_test(weaker_waits),    cmocka_unit_test(impossible_waits),
        cmocka_unit_test(overlapping_buffers), cmocka_unit_test(lying_lifetimes), cmocka_unit_test(misplaced_buffers),
        cmocka_unit_test(dropped_writes),      cmocka_unit_test(swapped_steps),   cmocka_unit_test(remote_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
