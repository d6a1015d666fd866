/* SPDX-License-Identifier: Apache-2.0 */
/* The checker sees every kind of fault: good exchanges are spoilt in one place each. */
#include "tests/exchange/families.h"

typedef struct spoilt {
    problem q;
    exchange x;
    transfer *t; /* the one to spoil, of a copy */
    int index;
} spoilt;

/* Each returns false where this transfer offers no such fault. */
typedef bool (*fault)(spoilt *s);

static bool drop_box(spoilt *s)
{
    memmove(s->t, s->t + 1, (size_t)(s->x.n_transfers - s->index - 1) * sizeof *s->t);
    s->x.n_transfers--;
    return true;
}

static bool repeat_box(spoilt *s)
{
    memmove(s->t + 1, s->t, (size_t)(s->x.n_transfers - s->index) * sizeof *s->t);
    s->x.n_transfers++;
    return true;
}

static bool grow_box(spoilt *s)
{
    s->t->size[pick_int(&s->q, 0, s->t->rank - 1)]++;
    return true;
}

static bool shrink_box(spoilt *s)
{
    int k = pick_int(&s->q, 0, s->t->rank - 1);
    return --s->t->size[k] > 0;
}

static bool shift_destination(spoilt *s)
{
    s->t->dst_offset += pick_int(&s->q, 0, 1) == 0 ? 1 : -1;
    return true;
}

/* Both sides alike: the elements agree, but lie elsewhere. */
static bool shift_both(spoilt *s)
{
    s->t->dst_offset += s->t->dst_stride[s->t->rank - 1];
    for (int k = 0; k < MAX_STATES; k++) s->t->src_offset[k] += s->t->src_stride[k][s->t->rank - 1];
    return true;
}

static int used_state(spoilt *s)
{
    int k;
    do k = pick_int(&s->q, 0, s->q.p.n_states - 1);
    while ((s->q.p.used >> k & 1) == 0);
    return k;
}

static bool shift_source(spoilt *s)
{
    s->t->src_offset[used_state(s)] += pick_int(&s->q, 0, 1) == 0 ? 1 : -1;
    return true;
}

static bool bend_destination(spoilt *s)
{
    int k = pick_int(&s->q, 0, s->t->rank - 1);
    s->t->dst_stride[k] += pick_int(&s->q, 0, 1) == 0 ? 1 : -1;
    return s->t->size[k] > 1;
}

static bool bend_source(spoilt *s)
{
    int k = pick_int(&s->q, 0, s->t->rank - 1);
    s->t->src_stride[used_state(s)][k] += pick_int(&s->q, 0, 1) == 0 ? 1 : -1;
    return s->t->size[k] > 1;
}

static bool swap_strides(spoilt *s)
{
    if (s->t->rank < 2 || (s->t->size[0] == 1 && s->t->size[1] == 1)) return false;
    i64 stride = s->t->dst_stride[0];
    s->t->dst_stride[0] = s->t->dst_stride[1];
    s->t->dst_stride[1] = stride;
    return true;
}

static bool drop_partial(spoilt *s)
{
    s->t->n_sources--;
    return true;
}

static source *own_sources(spoilt *s, int n)
{
    source *copy = ein__arena_get(&s->q.a, (size_t)n, sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, s->t->sources, (size_t)(n < s->t->n_sources ? n : s->t->n_sources) * sizeof *copy);
    s->t->sources = copy;
    return copy;
}

static bool repeat_partial(spoilt *s)
{
    int n = s->t->n_sources;
    source *copy = own_sources(s, n + 1);
    copy[n] = copy[n - 1];
    s->t->n_sources = n + 1;
    return true;
}

static bool holds(const spoilt *s, int partial, int device)
{
    for (int k = 0; k < s->q.p.n_states; k++) {
        const relation *r = s->q.p.states[k];
        if ((s->q.p.used >> k & 1) == 0) continue;
        if ((r->devices[s->t->src_block[k] * r->n_partials + partial] & DEV(device)) == 0) return false;
    }
    return true;
}

static bool swap_partials(spoilt *s)
{
    if (s->t->n_sources < 2) return false;
    source *copy = own_sources(s, s->t->n_sources), first = copy[0];
    copy[0] = copy[1];
    copy[1] = first;
    return true;
}

static bool wrong_holder(spoilt *s)
{
    int j = pick_int(&s->q, 0, s->t->n_sources - 1), d = pick_int(&s->q, -1, s->q.p.n_devices);
    source *from = &own_sources(s, s->t->n_sources)[j];
    if (from->step >= 0) return false;
    from->device = d;
    return d < 0 || !holds(s, from->partial, d);
}

static bool wrong_block(spoilt *s)
{
    int k = used_state(s);
    s->t->src_block[k] += pick_int(&s->q, 0, 1) == 0 ? 1 : -1;
    return true;
}

static bool wrong_destination(spoilt *s)
{
    s->t->dst_block += pick_int(&s->q, 0, 1) == 0 ? 1 : -1;
    return true;
}

static bool wrong_device(spoilt *s)
{
    s->t->device = s->t->device + 1;
    return s->t->dst_device != HOST;
}

static bool wrong_rank(spoilt *s)
{
    s->t->rank = pick_int(&s->q, 0, 1) == 0 ? 0 : MAX_BOX_RANK + 1;
    return true;
}

static bool out_of_order(spoilt *s)
{
    if (s->index + 1 == s->x.n_transfers || s->t[0].dst_block == s->t[1].dst_block) return false;
    transfer first = s->t[0];
    s->t[0] = s->t[1];
    s->t[1] = first;
    return true;
}

static bool wrong_bytes(spoilt *s)
{
    s->x.remote_bytes[pick_int(&s->q, 0, MAX_DEVICES - 1)]++;
    return true;
}

static bool wrong_total(spoilt *s)
{
    s->x.total_bytes--;
    return true;
}

/* ---- steps and scratch -------------------------------------------------------------------------------- */

/* A source that a step wrote, or NULL. */
static source *written_source(spoilt *s)
{
    source *copy = own_sources(s, s->t->n_sources);
    for (int j = 0; j < s->t->n_sources; j++)
        if (copy[j].step >= 0) return &copy[j];
    return NULL;
}

static bool too_early(spoilt *s)
{
    source *from = written_source(s);
    if (from != NULL) from->step = s->t->step;
    return from != NULL;
}

static bool wrong_step(spoilt *s)
{
    source *from = written_source(s);
    if (from != NULL) from->step--;
    return from != NULL;
}

static bool never_written(spoilt *s)
{
    source *from = &own_sources(s, s->t->n_sources)[0];
    from->step = from->step < 0 ? 0 : -1;
    return true;
}

static bool other_scratch(spoilt *s)
{
    source *from = written_source(s);
    if (from == NULL) return false;
    from->scratch = from->scratch < 0 ? s->x.n_scratch : from->scratch + 1;
    return true;
}

static bool other_source_device(spoilt *s)
{
    source *from = written_source(s);
    if (from == NULL || from->scratch < 0) return false; /* a finished copy may be in several places */
    from->device = from->device == 0 ? 1 : 0;
    return true;
}

static bool other_partial(spoilt *s)
{
    own_sources(s, s->t->n_sources)[0].partial--;
    return true;
}

static scratch *own_scratch(spoilt *s)
{
    int n = s->x.n_scratch;
    if (n == 0) return NULL;
    scratch *copy = ein__arena_get(&s->q.a, (size_t)n, sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, s->x.scratch, (size_t)n * sizeof *copy);
    s->x.scratch = copy;
    return &copy[pick_int(&s->q, 0, n - 1)];
}

static bool short_scratch(spoilt *s)
{
    scratch *x = own_scratch(s);
    if (x != NULL) x->n--;
    return x != NULL;
}

static bool late_scratch(spoilt *s)
{
    scratch *x = own_scratch(s);
    if (x != NULL) x->lo++;
    return x != NULL;
}

static bool scratch_elsewhere(spoilt *s)
{
    scratch *x = own_scratch(s);
    if (x != NULL) x->device = x->device == HOST ? x->owner : HOST;
    return x != NULL;
}

static bool scratch_of_another(spoilt *s)
{
    scratch *x = own_scratch(s);
    if (x != NULL) x->owner++;
    return x != NULL;
}

static bool scratch_of_another_block(spoilt *s)
{
    scratch *x = own_scratch(s);
    if (x != NULL) x->src_block++;
    return x != NULL;
}

static bool into_scratch(spoilt *s)
{
    s->t->dst_scratch = s->t->dst_scratch < 0 ? 0 : -1;
    return true;
}

static bool other_kind(spoilt *s)
{
    s->t->kind = (transfer_kind)((s->t->kind + 1) % 3);
    return true;
}

static bool too_late(spoilt *s)
{
    s->t->step = s->x.n_steps;
    return true;
}

static bool too_few_steps(spoilt *s)
{
    s->x.n_steps--;
    return true;
}

static const struct { const char *name; fault spoil; } faults[] = {
    {"too_early", too_early},               {"wrong_step", wrong_step},
    {"never_written", never_written},       {"other_scratch", other_scratch},
    {"other_source_device", other_source_device}, {"other_partial", other_partial},
    {"short_scratch", short_scratch},       {"late_scratch", late_scratch},
    {"scratch_elsewhere", scratch_elsewhere}, {"scratch_of_another", scratch_of_another},
    {"scratch_of_another_block", scratch_of_another_block}, {"into_scratch", into_scratch},
    {"other_kind", other_kind},             {"too_late", too_late},
    {"too_few_steps", too_few_steps},
    {"drop_box", drop_box},                 {"repeat_box", repeat_box},
    {"grow_box", grow_box},                 {"shrink_box", shrink_box},
    {"shift_destination", shift_destination}, {"shift_both", shift_both},
    {"shift_source", shift_source},         {"bend_destination", bend_destination},
    {"bend_source", bend_source},           {"swap_strides", swap_strides},
    {"drop_partial", drop_partial},         {"repeat_partial", repeat_partial},
    {"swap_partials", swap_partials},       {"wrong_holder", wrong_holder},
    {"wrong_block", wrong_block},           {"wrong_destination", wrong_destination},
    {"wrong_device", wrong_device},         {"wrong_rank", wrong_rank},
    {"out_of_order", out_of_order},         {"wrong_bytes", wrong_bytes},
    {"wrong_total", wrong_total}};

enum { N_FAULTS = sizeof faults / sizeof *faults };

static void test_faults(void **unused)
{
    int tried[N_FAULTS] = {0};
    (void)unused;
    for (uint64_t seed = 1; seed <= 8000; seed++) {
        spoilt s;
        error e = {0};
        random_problem(&s.q, seed, seed % 7 == 0);
        const family *f = ein__families[seed / N_FAULTS % (uint64_t)n_families()];
        if (synthesize(&s.q, odd_routes(&s.q), f, &s.x) && s.x.n_transfers > 0) {
            int which = (int)(seed % N_FAULTS), n = s.x.n_transfers;
            transfer *copy = ein__arena_get(&s.q.a, (size_t)n + 1, sizeof *copy);
            assert_non_null(copy);
            memcpy(copy, s.x.transfers, (size_t)n * sizeof *copy);
            s.x.transfers = copy;
            assert_int_equal(ein__exchange_check(&s.q.p, &s.x, &e), EIN_OK);
            s.index = pick_int(&s.q, 0, n - 1);
            s.t = copy + s.index;
            if (faults[which].spoil(&s)) {
                tried[which]++;
                if (ein__exchange_check(&s.q.p, &s.x, &e) != EIN_INTERNAL || e.line[0] == 0)
                    fail_msg("seed %llu: %s is not seen", (unsigned long long)seed, faults[which].name);
            }
        }
        ein__arena_free(&s.q.a);
    }
    for (int i = 0; i < N_FAULTS; i++)
        if (tried[i] < 3) fail_msg("%s was tried only %d times", faults[i].name, tried[i]);
}

static void test_messages(void **unused)
{
    spoilt s = {.q = {.a = {NULL}}};
    error e = {0};
    (void)unused;
    relation *from = &s.q.states[0];
    assert_int_equal(ein__relation_whole(&s.q.a, 10, DEV(0), from), EIN_OK);
    assert_int_equal(ein__relation_whole(&s.q.a, 10, DEV(0) | DEV(1), &s.q.to), EIN_OK);
    s.q.p = (exchange_problem){.n_states = 1, .states = {from}, .used = 1, .dtype = EIN_F32, .n_devices = 2,
                               .to = &s.q.to};
    assert_int_equal(make_direct(&s.q, &s.x, &e), EIN_OK);
    s.x.transfers[1].src_offset[0] = 1;
    assert_int_equal(ein__exchange_check(&s.q.p, &s.x, &e), EIN_INTERNAL);
    assert_string_equal(e.line, "exchange: transfer 1 (block 0 to device 1): source and destination differ");
    s.x.transfers[1].src_offset[0] = 0;
    s.x.n_transfers = 1;
    assert_int_equal(ein__exchange_check(&s.q.p, &s.x, &e), EIN_INTERNAL);
    assert_string_equal(e.line, "exchange: 0 of 10 elements of block 0 reach device 1");
    ein__arena_free(&s.q.a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_faults), cmocka_unit_test(test_messages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
