/* SPDX-License-Identifier: Apache-2.0 */
/* Direct exchanges, run element by element against their definition; their shapes and bytes in known cases. */
#include "tests/exchange/problems.h"

static void test_random(void **unused)
{
    cluster *c;
    long long transfers = 0, ranks = 0, merged = 0, rows = 0, remote = 0;
    (void)unused;
    make_cluster(&c);
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        problem q;
        exchange x;
        error e = {0};
        draw_problem(&q, seed, seed % 5 == 0, seed % 3 == 0);
        if (make_direct(&q, &x, &e) != EIN_OK || ein__exchange_check(&q.p, &x, &e) != EIN_OK)
            fail_msg("seed %llu: %s", (unsigned long long)seed, e.line);
        assert_int_equal(x.incompatible, 0);
        fill_cluster(c, &q.p);
        for (int i = 0; i < x.n_transfers; i++) run_transfer(&q.p, &x, c, &x.transfers[i]);
        check_results(c, &q.p, 0, seed);
        for (int i = 0; i < x.n_transfers; i++) ranks += x.transfers[i].rank > 2;
        transfers += x.n_transfers;
        merged += x.n_transfers > 0 && x.transfers[0].n_sources > 1;
        rows += x.row_states != 0;
        remote += x.total_bytes > 0;
        ein__arena_free(&q.a);
    }
    free_cluster(c);
    /* The draw reaches what it is meant to reach. */
    assert_true(transfers > 8000 && ranks > 300 && merged > 400 && rows > 100 && remote > 700);
}

/* ---- known cases -------------------------------------------------------------------------------------- */

static void make(problem *q, int n_devices, exchange *x)
{
    error e = {0};
    q->p.n_devices = n_devices;
    q->p.dtype = EIN_F32;
    q->p.n_states = q->p.n_states > 0 ? q->p.n_states : 1;
    q->p.used = ein__merge_used(q->p.merge, q->p.result, q->states[0].n_partials > 1);
    for (int s = 0; s < q->p.n_states; s++) q->p.states[s] = &q->states[s];
    q->p.to = &q->to;
    if (make_direct(q, x, &e) != EIN_OK) fail_msg("%s", e.line);
    if (!x->incompatible && ein__exchange_check(&q->p, x, &e) != EIN_OK) fail_msg("%s", e.line);
}

static void test_gather(void **unused)
{
    problem q = {.a = {NULL}};
    exchange x;
    (void)unused;
    even_relation(&q.a, 1, (i64[]){4096 * 4096}, (int[]){4}, 1, &q.states[0]);
    assert_int_equal(ein__relation_whole(&q.a, 4096 * 4096, ALL_DEVICES(4), &q.to), EIN_OK);
    make(&q, 4, &x);
    assert_int_equal(x.n_transfers, 16);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(x.transfers[i].rank, 1);
        assert_int_equal(x.transfers[i].size[0], 4096 * 1024);
        assert_int_equal(x.transfers[i].dst_offset, i % 4 * 4096 * 1024);
        assert_int_equal(x.transfers[i].sources[0].device, i % 4);
        assert_int_equal(x.transfers[i].device, i / 4);
    }
    for (int d = 0; d < 4; d++) assert_int_equal(x.remote_bytes[d], 3 * 4096 * 4096);
    assert_int_equal(x.total_bytes, 12ll * 4096 * 4096);
    assert_true(x.unit_stride);
    ein__arena_free(&q.a);
}

/* Rows to columns, seen as different factorizations: [12 | 8] by rows, [12 | 2 | 4] by column pairs. */
static void test_rows_to_columns(void **unused)
{
    problem q = {.a = {NULL}};
    exchange x;
    (void)unused;
    even_relation(&q.a, 1, (i64[]){96}, (int[]){4}, 1, &q.states[0]);
    even_relation(&q.a, 2, (i64[]){12, 8}, (int[]){1, 4}, 1, &q.to);
    make(&q, 4, &x);
    assert_int_equal(x.n_transfers, 16);
    const transfer *t = &x.transfers[7]; /* device 1 from device 3 */
    assert_int_equal(t->sources[0].device, 3);
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->size[0], 3);
    assert_int_equal(t->size[1], 2);
    assert_int_equal(t->dst_offset, 18);
    assert_int_equal(t->dst_stride[0], 2);
    assert_int_equal(t->src_offset[0], 2);
    assert_int_equal(t->src_stride[0][0], 8);
    assert_int_equal(x.total_bytes, 12 * 6 * 4);
    ein__arena_free(&q.a);
}

static void test_scatter_of_sums(void **unused)
{
    problem q = {.a = {NULL}};
    exchange x;
    merge *m;
    (void)unused;
    assert_int_equal(ein__merge_make(&q.a, MERGE_SUM, 1, EIN_F32, &m), EIN_OK);
    q.p.merge = m;
    even_relation(&q.a, 1, (i64[]){1000}, (int[]){1}, 4, &q.states[0]);
    even_relation(&q.a, 1, (i64[]){1000}, (int[]){4}, 1, &q.to);
    make(&q, 4, &x);
    assert_int_equal(x.n_transfers, 4);
    for (int d = 0; d < 4; d++) {
        assert_int_equal(x.transfers[d].n_sources, 4);
        for (int j = 0; j < 4; j++) assert_int_equal(x.transfers[d].sources[j].device, j);
        assert_int_equal(x.remote_bytes[d], 3 * 250 * 4);
        assert_int_equal(x.pair_bytes[(d + 1) % 4][d], 250 * 4);
        assert_int_equal(x.local_bytes[d], 2 * 250 * 4);
    }
    ein__arena_free(&q.a);
}

/* Two partials of softmax states on [6 | 2500]: m and l lack the second axis, so they are read once per
 * row. */
static void test_row_states(void **unused)
{
    problem q = {.a = {NULL}};
    exchange x;
    merge *m;
    (void)unused;
    assert_int_equal(ein__merge_make(&q.a, MERGE_SOFTMAX, 1, EIN_F32, &m), EIN_OK);
    q.p.merge = m;
    q.p.n_states = 3;
    for (int s = 0; s < 3; s++) {
        even_relation(&q.a, 2, (i64[]){6, 2500}, (int[]){1, 1}, 2, &q.states[s]);
        q.states[s].axes[1].broadcast = s < 2;
    }
    assert_int_equal(ein__relation_whole(&q.a, 6 * 2500, DEV(0), &q.to), EIN_OK);
    make(&q, 2, &x);
    assert_int_equal(q.p.used, 7);
    assert_int_equal(x.row_states, 3);
    assert_int_equal(x.n_transfers, 1);
    assert_int_equal(x.transfers[0].rank, 2);
    /* A row of 2500 is three pieces. */
    assert_int_equal(ein__transfer_rows(&x.transfers[0]), 18);
    assert_int_equal(x.remote_bytes[0], 4 * (6 * 2500 + 2 * 18));
    ein__arena_free(&q.a);
}

/* Ranges of a compound axis, [0, 5), [5, 17), [17, 24) of 4 * 6, are boxes of the product; where the other
 * side tells rows from columns they fall into heads, middles and tails. */
static void test_compound_range(void **unused)
{
    problem q = {.a = {NULL}};
    exchange x;
    (void)unused;
    i64 at[] = {0, 5, 17, 24};
    even_relation(&q.a, 2, (i64[]){24, 7}, (int[]){3, 1}, 1, &q.states[0]);
    q.states[0].axes[0].lo = at;
    q.states[0].axes[0].hi = at + 1;
    even_relation(&q.a, 1, (i64[]){24 * 7}, (int[]){1}, 1, &q.to);
    make(&q, 3, &x);
    assert_int_equal(x.n_transfers, 3);
    even_relation(&q.a, 3, (i64[]){4, 6, 7}, (int[]){1, 2, 1}, 1, &q.to);
    make(&q, 3, &x);
    /* Columns 0 to 2: [0, 3); [6, 9) and [12, 15); [18, 21). Columns 3 to 5: [3, 5); 5, [9, 12) and [15,
     * 17); 17 and [21, 24). */
    const i64 sizes[] = {3, 3, 3, 3, 2, 1, 3, 2, 1, 3}, blocks[] = {0, 1, 1, 2, 0, 1, 1, 1, 2, 2};
    assert_int_equal(x.n_transfers, 10);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(x.transfers[i].rank, 1);
        assert_int_equal(x.transfers[i].size[0], 7 * sizes[i]);
        assert_int_equal(x.transfers[i].src_block[0], blocks[i]);
    }
    ein__arena_free(&q.a);
}

static void test_incompatible(void **unused)
{
    problem q = {.a = {NULL}};
    exchange x;
    error e = {0};
    (void)unused;
    even_relation(&q.a, 2, (i64[]){6, 4}, (int[]){1, 2}, 1, &q.states[0]);
    even_relation(&q.a, 2, (i64[]){4, 6}, (int[]){1, 2}, 1, &q.to);
    make(&q, 2, &x);
    assert_int_equal(x.incompatible, 1);
    assert_int_equal(x.n_transfers, 0);
    assert_int_equal(ein__exchange_check(&q.p, &x, &e), EIN_INTERNAL);
    ein__arena_free(&q.a);
}

/* Replicas share the work: two holders of one block, four others that need it. */
static void test_spread(void **unused)
{
    problem q = {.a = {NULL}};
    exchange x;
    (void)unused;
    assert_int_equal(ein__relation_whole(&q.a, 100, DEV(1) | DEV(4), &q.states[0]), EIN_OK);
    assert_int_equal(ein__relation_whole(&q.a, 100, ALL_DEVICES(6), &q.to), EIN_OK);
    make(&q, 6, &x);
    assert_int_equal(x.n_transfers, 6);
    int served[6] = {0};
    for (int i = 0; i < 6; i++) served[x.transfers[i].sources[0].device]++;
    assert_int_equal(served[1], 3); /* itself and two more */
    assert_int_equal(served[4], 3);
    ein__arena_free(&q.a);
}

static void test_host(void **unused)
{
    problem q = {.a = {NULL}};
    exchange x;
    (void)unused;
    assert_int_equal(ein__relation_whole(&q.a, 64, DEV(HOST), &q.states[0]), EIN_OK);
    even_relation(&q.a, 1, (i64[]){64}, (int[]){4}, 1, &q.to);
    make(&q, 4, &x);
    for (int d = 0; d < 4; d++) {
        assert_int_equal(x.transfers[d].sources[0].device, HOST);
        assert_int_equal(x.remote_bytes[d], 0);
        assert_int_equal(x.host_bytes[d], 64);
    }
    q.states[0] = q.to;
    assert_int_equal(ein__relation_whole(&q.a, 64, DEV(HOST), &q.to), EIN_OK);
    make(&q, 4, &x);
    assert_int_equal(x.n_transfers, 4);
    for (int d = 0; d < 4; d++) { /* each holder brings its own block */
        assert_int_equal(x.transfers[d].device, d);
        assert_int_equal(x.transfers[d].dst_device, HOST);
        assert_int_equal(x.transfers[d].dst_offset, 16 * d);
    }
    assert_int_equal(x.total_bytes, 0);
    ein__arena_free(&q.a);
}

/* Nine factors cut so that none joins its neighbour: more dimensions than a transfer has. */
static void test_high_rank(void **unused)
{
    problem q = {.a = {NULL}};
    exchange x;
    (void)unused;
    i64 extents[10], lo[] = {1}, hi[] = {3};
    int parts[10];
    for (int i = 0; i < 10; i++) extents[i] = 3, parts[i] = 1;
    even_relation(&q.a, 10, extents, parts, 1, &q.to);
    for (int i = 0; i < 10; i++) q.to.axes[i].lo = lo, q.to.axes[i].hi = hi;
    assert_int_equal(ein__relation_whole(&q.a, 59049, DEV(0), &q.states[0]), EIN_OK);
    make(&q, 1, &x);
    assert_int_equal(x.n_transfers, 4);
    assert_int_equal(x.transfers[3].rank, 8);
    ein__arena_free(&q.a);
}

static term plain(int l, i64 extent)
{
    return (term){.kind = TERM_LABEL, .label = l, .extent = extent, .scalar = -1};
}

/* Attention's states as an op's choice leaves them: q, d and the merged k all cut in two, on eight devices.
 * The states m and l lack d, so they have half the blocks, each on two devices. */
static void test_states_of_a_choice(void **unused)
{
    problem q = {.a = {NULL}};
    exchange x;
    merge *m;
    spec s = {.n_labels = 3, .labels = {{"q", 6, 1, false}, {"k", 10, 1, false}, {"d", 8, 1, false}},
              .n_states = 3, .n_results = 1};
    const i64 at_q[] = {0, 2, 6}, at_k[] = {0, 5, 10}, at_d[] = {0, 4, 8};
    const cut cuts[] = {{1, {0}, 2, at_q}, {1, {1}, 2, at_k}, {1, {2}, 2, at_d}};
    const devset where[] = {DEV(0), DEV(1), DEV(2), DEV(3), DEV(4), DEV(5), DEV(6), DEV(7)};
    const choice c = {.n_cuts = 3, .cuts = cuts, .n_tuples = 8, .devices = where};
    (void)unused;
    assert_int_equal(ein__merge_make(&q.a, MERGE_SOFTMAX, 1, EIN_F32, &m), EIN_OK);
    s.merge = q.p.merge = m;
    q.p.n_states = 3;
    for (int k = 0; k < 3; k++) s.states[k] = (index_map){k < 2 ? 1 : 2, {plain(0, 6), plain(2, 8)}};
    s.results[0] = s.states[2];
    for (int k = 0; k < 3; k++)
        assert_int_equal(ein__relation_state(&q.a, &s, k, 0, &c, &q.states[k]), EIN_OK);
    assert_int_equal(q.states[0].n_blocks, 2);
    assert_int_equal(q.states[2].n_blocks, 4);
    assert_int_equal(ein__relation_finished(&q.a, &s, 0, &c, &q.to), EIN_OK);
    make(&q, 8, &x);
    /* Every block on both devices that hold a partial of it. */
    assert_int_equal(x.n_transfers, 8);
    assert_int_equal(x.row_states, 3);
    for (int i = 0; i < 8; i++) {
        const transfer *t = &x.transfers[i];
        assert_int_equal(t->device, i);
        assert_int_equal(t->n_sources, 2);
        assert_int_equal(t->src_block[0], i / 4);
        assert_int_equal(t->src_block[2], i / 4 * 2 + i % 2);
        assert_int_equal(t->sources[0].device, i / 4 * 4 + i % 2);
        assert_int_equal(t->sources[1].device, i / 4 * 4 + i % 2 + 2);
        assert_int_equal(x.remote_bytes[i], 4 * (i / 4 == 0 ? 2 : 4) * (4 + 2));
    }
    ein__arena_free(&q.a);
}

static void test_failures(void **unused)
{
    problem q = {.a = {NULL}};
    exchange x;
    error e = {0};
    (void)unused;
    even_relation(&q.a, 1, (i64[]){10}, (int[]){2}, 1, &q.states[0]);
    assert_int_equal(ein__relation_whole(&q.a, 10, DEV(0), &q.to), EIN_OK);
    make(&q, 2, &x);
    q.states[0].devices = (devset[]){1, 0};
    assert_int_equal(make_direct(&q, &x, &e), EIN_INTERNAL);
    assert_string_equal(e.line, "exchange: nobody holds partial 0 of block 1");
    q.states[0].devices = (devset[]){1, 2};
    q.p.used = 2;
    assert_int_equal(make_direct(&q, &x, &e), EIN_INTERNAL);
    q.p.used = 1;
    q.states[0].n_partials = 2;
    assert_int_equal(make_direct(&q, &x, &e), EIN_INTERNAL);
    assert_string_equal(e.line, "exchange: 2 partials without a merge");
    q.states[0].n_partials = 1;
    assert_int_equal(ein__relation_whole(&q.a, 11, DEV(0), &q.to), EIN_OK);
    assert_int_equal(make_direct(&q, &x, &e), EIN_INTERNAL);
    assert_string_equal(e.line, "exchange: state 0 has 10 elements, the need 11");
    assert_int_equal(ein__relation_whole(&q.a, 10, DEV(5), &q.to), EIN_OK);
    assert_int_equal(make_direct(&q, &x, &e), EIN_INTERNAL);
    ein__arena_free(&q.a);
}

static void test_empty(void **unused)
{
    problem q = {.a = {NULL}};
    exchange x;
    (void)unused;
    assert_int_equal(ein__relation_whole(&q.a, 0, DEV(0), &q.states[0]), EIN_OK);
    assert_int_equal(ein__relation_whole(&q.a, 0, DEV(1), &q.to), EIN_OK);
    make(&q, 2, &x);
    assert_int_equal(x.n_transfers, 0);
    assert_int_equal(ein__relation_whole(&q.a, 1, DEV(0), &q.states[0]), EIN_OK);
    assert_int_equal(ein__relation_whole(&q.a, 1, DEV(1), &q.to), EIN_OK);
    make(&q, 2, &x);
    assert_int_equal(x.n_transfers, 1);
    assert_int_equal(x.remote_bytes[1], 4);
    ein__arena_free(&q.a);
}

static void test_no_memory(void **unused)
{
    problem q;
    (void)unused;
    random_problem(&q, 7, true);
    machine m;
    assert_int_equal(ein__machine_parse(&q.a, "host:9", &m, NULL), EIN_OK);
    long failures = 0;
    for (long n = 1;; n++) {
        arena a = {NULL};
        exchange x;
        const routes *r = NULL;
        long live = ein__alloc_live();
        ein__alloc_fail_at(n);
        ein_status status = ein__routes_make(&a, &m, &r);
        if (status == EIN_OK) status = ein__exchange_family(&a, &q.p, r, "direct", &x, NULL);
        if (status == EIN_OK) status = ein__exchange_check(&q.p, &x, NULL);
        kernel_text k;
        if (status == EIN_OK) status = ein__exchange_kernel(&a, &q.p, &x, TRANSFER_FINISH, &k);
        ein__alloc_fail_at(0);
        ein__arena_free(&a);
        assert_int_equal(ein__alloc_live(), live);
        if (status == EIN_OK) break;
        assert_int_equal(status, EIN_NO_MEMORY);
        failures++;
    }
    assert_true(failures > 3);
    ein__arena_free(&q.a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),          cmocka_unit_test(test_gather),
        cmocka_unit_test(test_rows_to_columns), cmocka_unit_test(test_scatter_of_sums),
        cmocka_unit_test(test_row_states),      cmocka_unit_test(test_compound_range),
        cmocka_unit_test(test_incompatible),    cmocka_unit_test(test_spread),
        cmocka_unit_test(test_host),            cmocka_unit_test(test_high_rank),
        cmocka_unit_test(test_failures),        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_no_memory),       cmocka_unit_test(test_states_of_a_choice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
