/* SPDX-License-Identifier: Apache-2.0 */
/* The emitted box-move kernel on real memory: results against the definition, and in counting mode the bytes
 * touched in other devices' memory against the exchange's own count. */
#include <stdlib.h>

#include "jit/compiler/compiler.h"
#include "jit/compiler/dump.h"
#include "tests/exchange/families.h"
#include "tests/fake/fiber_twin.h"

enum { SEEDS = 500, TYPED_SEEDS = 160, MAX_TEXTS = 200, MOST_BOXES = 512, MAX_SOURCES = 4096, KINDS = TRANSFER_COPY + 1 };

typedef struct library {
    arena a;
    const kernel_text *texts[MAX_TEXTS];
    int n, launches[MAX_TEXTS];
    fiber_module *twins;
} library;

static const kernel_text *add_text(library *l, const kernel_text *k)
{
    for (int i = 0; i < l->n; i++)
        if (ein__hash_equal(l->texts[i]->key, k->key)) return l->texts[i];
    kernel_text *copy = ein__arena_get(&l->a, 1, sizeof *copy);
    assert_non_null(copy);
    assert_int_equal(ein__kernel_make(&l->a, k->body, k->threads, copy), EIN_OK);
    assert_true(l->n < MAX_TEXTS);
    ein__kernel_dump(copy);
    l->texts[l->n++] = copy;
    return copy;
}

static host_module *compile(library *l, bool counting)
{
    text source = {0}, object = {0};
    error e = {0};
    host_module *m;
    assert_int_equal(ein__kernel_source(READ_HOST, counting, l->texts, l->n, &source), EIN_OK);
    ein_status status = ein__host_compile(ein__text_get(&source), &object, &e);
    if (status == EIN_NO_DEVICE) {
        print_message("skipped: %s\n", e.line);
        exit(77);
    }
    if (status != EIN_OK) fail_msg("%s\n%s", e.line, e.detail != NULL ? e.detail : "");
    assert_int_equal(ein__host_load(object.bytes, object.n, &m, &e), EIN_OK);
    ein__text_free(&source);
    ein__text_free(&object);
    ein__error_reset(&e);
    return m;
}

/* What may be read, the written one, and the tables. Copies read blocks that are finished. */
static int all_memory(const cluster *c, const kept *to, bool copies, long long *boxes, long long *sources, twin_memory *m)
{
    int n = 0;
    for (int i = 0; i < c->n; i++) {
        const kept *k = &c->blocks[i];
        const size_t bytes = (size_t)(k->numel * ein__dtype_bytes(k->dtype));
        if (k->side != 0 || k == to || copies) m[n++] = (twin_memory){k->at, bytes, k != to, k == to, k->dtype, NULL, NULL};
    }
    m[n++] = (twin_memory){boxes, sizeof(long long) * MOST_BOXES * EIN__BOX_WORDS, true, false, EIN_I64, NULL, NULL};
    m[n++] = (twin_memory){sources, sizeof(long long) * MAX_SOURCES, true, false, EIN_I64, NULL, NULL};
    return n;
}

/* Where a memory is, scratch as if its block were whole. */
static char *address_of(const exchange *x, const kept *k, int scratch)
{
    assert_non_null(k);
    return scratch < 0 ? k->at : (char *)(uintptr_t)((intptr_t)k->at - x->scratch[scratch].lo * ein__dtype_bytes(k->dtype));
}

static long long source_address(const exchange *x, const cluster *c, const transfer *t, const source *from, int s)
{
    const kept *k = from->scratch >= 0         ? find_kept(c, -1, from->scratch, 0, from->device)
                    : t->kind == TRANSFER_COPY ? find_kept(c, 0, t->dst_block, 0, from->device)
                                               : find_kept(c, 1 + s, t->src_block[s], from->partial, from->device);
    return (long long)(intptr_t)address_of(x, k, from->scratch);
}

/* One launch: transfers [first, end) write one memory. With a library, some run by fibers too. */
static void launch(const exchange_problem *p, const exchange *x, const cluster *c, int first, int end,
                   host_entry entry, struct tally *tally, library *l, int which)
{
    static twin_memory memory[MAX_KEPT + 2];
    static long long boxes[MOST_BOXES * EIN__BOX_WORDS], sources[MAX_SOURCES];
    int first_source[MOST_BOXES], n_sources = 0, n_states = x->transfers[first].kind == TRANSFER_COPY ? 1 : p->n_states;
    assert_true(end - first <= MOST_BOXES);
    memset(sources, 0, sizeof sources);
    for (int i = first; i < end; i++) {
        const transfer *t = &x->transfers[i];
        first_source[i - first] = n_sources;
        assert_true((n_sources + t->n_sources) * n_states <= MAX_SOURCES);
        for (int j = 0; j < t->n_sources; j++, n_sources++)
            for (int s = 0; s < n_states; s++)
                if (t->kind == TRANSFER_COPY || (p->used >> s & 1) != 0)
                    sources[n_sources * n_states + s] = source_address(x, c, t, &t->sources[j], s);
    }
    const transfer *t = &x->transfers[first];
    const kept *to = t->dst_scratch >= 0 ? find_kept(c, -1, t->dst_scratch, 0, t->dst_device)
                                         : find_kept(c, 0, t->dst_block, 0, t->dst_device);
    i64 rows = ein__exchange_boxes(x, first, end - first, first_source, (i64 *)boxes);
    void *dst = address_of(x, to, t->dst_scratch), *table = boxes, *addresses = sources;
    long long n_boxes = end - first;
    void *args[] = {&dst, &n_boxes, &table, &addresses};
    if (tally != NULL) tally->self = t->device;
    const bool twin = l != NULL && twin_wanted(l->launches[which], rows);
    const int n = twin ? all_memory(c, to, t->kind == TRANSFER_COPY, boxes, sources, memory) : 0;
    text why = {0};
    if (twin && !twin_run(l->twins, l->texts[which], (long long[]){rows, 1, 1}, args, memory, n, &why))
        fail_msg("%s\n%s", ein__text_get(&why), l->texts[which]->body);
    entry(args, rows, 1, 1, tally);
    if (twin && !twin_compare(memory, n, &why)) fail_msg("%s\n%s", ein__text_get(&why), l->texts[which]->body);
    if (twin) l->launches[which]++;
}

static int index_of(const library *l, const kernel_text *k)
{
    int i = 0;
    while (!ein__hash_equal(l->texts[i]->key, k->key)) i++;
    return i;
}

static void run(const exchange_problem *p, const exchange *x, const cluster *c, library *l, const kernel_text *k,
                const host_entry *entries, bool counting, uint64_t seed)
{
    long long bytes[MAX_DEVICES] = {0};
    for (int first = 0, end; first < x->n_transfers; first = end) {
        const transfer *t = &x->transfers[first];
        struct tally tally = {(const char *)c->memory[0], (long long)MEMORY, 0,
                              p->n_devices, 0};
        for (end = first + 1; end < x->n_transfers; end++) {
            const transfer *u = &x->transfers[end];
            if (u->step != t->step || u->device != t->device || u->kind != t->kind || u->dst_device != t->dst_device) break;
            if (u->dst_block != t->dst_block || u->dst_scratch != t->dst_scratch) break;
        }
        assert_non_null(entries[t->kind]);
        launch(p, x, c, first, end, entries[t->kind], counting ? &tally : NULL, counting ? NULL : l,
               index_of(l, &k[t->kind]));
        bytes[t->device] += tally.bytes;
    }
    for (int d = 0; d < MAX_DEVICES && counting; d++)
        if (bytes[d] != x->remote_bytes[d])
            fail_msg("seed %llu: device %d touched %lld bytes, planned %lld", (unsigned long long)seed, d,
                     bytes[d], (long long)x->remote_bytes[d]);
}

/* Direct, or (`any`) by a family after the other where it is applicable; a text for each kind of transfer. */
static void draw(uint64_t seed, bool typed, bool any, problem *q, exchange *x, kernel_text *k)
{
    draw_problem(q, seed, seed % 3 == 0, typed);
    const family *f = ein__families[seed % (uint64_t)n_families()];
    if (!any || !synthesize(q, odd_routes(q), f, x)) assert_int_equal(make_direct(q, x, NULL), EIN_OK);
    for (int kind = 0; kind < KINDS; kind++)
        assert_int_equal(ein__exchange_kernel(&q->a, &q->p, x, (transfer_kind)kind, &k[kind]), EIN_OK);
}

static bool has_kind(const exchange *x, int kind)
{
    for (int i = 0; i < x->n_transfers; i++)
        if (x->transfers[i].kind == (transfer_kind)kind) return true;
    return false;
}

/* Returns how many texts there are. */
static int run_all(uint64_t seeds, bool typed, bool any)
{
    static library l;
    text why = {0};
    cluster *c;
    problem q;
    memset(&l, 0, sizeof l);
    exchange x;
    kernel_text k[KINDS];
    make_cluster(&c);
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        draw(seed, typed, any, &q, &x, k);
        for (int kind = 0; kind < KINDS; kind++)
            if (has_kind(&x, kind)) add_text(&l, &k[kind]);
        ein__arena_free(&q.a);
    }
    if (twin_wanted(0, 1) && !twin_compile(l.texts, l.n, &l.twins, &why)) fail_msg("%s", ein__text_get(&why));
    for (int counting = 0; counting < 2; counting++) {
        host_module *m = compile(&l, counting);
        for (uint64_t seed = 1; seed <= seeds; seed++) {
            host_entry entries[KINDS];
            draw(seed, typed, any, &q, &x, k);
            for (int kind = 0; kind < KINDS; kind++) entries[kind] = ein__host_entry(m, k[kind].name);
            fill_cluster(c, &q.p);
            fill_scratch(c, &q.p, &x);
            run(&q.p, &x, c, &l, k, entries, counting, seed);
            check_results(c, &q.p, tolerance_of(&q.p), seed);
            ein__arena_free(&q.a);
        }
        ein__host_unload(m);
    }
    free_cluster(c);
    fiber_unload(l.twins);
    ein__arena_free(&l.a);
    return l.n;
}

static void test_random(void **unused)
{
    (void)unused;
    assert_in_range(run_all(SEEDS, false, false), 8, 40); /* few texts serve many exchanges */
}

static void test_random_families(void **unused)
{
    (void)unused;
    assert_in_range(run_all(SEEDS, false, true), 8, 48);
}

static void test_random_types(void **unused)
{
    (void)unused;
    assert_in_range(run_all(TYPED_SEEDS, true, false), 40, MAX_TEXTS);
}

/* Every type is copied bit by bit: three uneven parts of 2055 elements to one block. */
static void copy_type(ein_dtype dtype, size_t bytes)
{
    problem q = {.a = {NULL}};
    exchange x;
    kernel_text k;
    i64 at[] = {0, 1030, 1031, 2055};
    relation *from = &q.states[0];
    assert_int_equal(ein__relation_whole(&q.a, 2055, DEV(0), &q.to), EIN_OK);
    *from = q.to;
    from->axes[0] = (axis){.extent = 2055, .n_parts = 3, .lo = at, .hi = at + 1};
    from->n_blocks = 3;
    from->devices = (devset[]){DEV(0), DEV(1), DEV(2)};
    q.p = (exchange_problem){.n_states = 1, .states = {from}, .used = 1, .dtype = dtype, .n_devices = 3,
                             .to = &q.to};
    assert_int_equal(make_direct(&q, &x, NULL), EIN_OK);
    assert_int_equal(ein__exchange_check(&q.p, &x, NULL), EIN_OK);
    assert_int_equal(x.remote_bytes[0], 1025 * bytes);
    assert_int_equal(x.local_bytes[0], (1030 + 2055) * bytes);
    assert_int_equal(ein__exchange_kernel(&q.a, &q.p, &x, TRANSFER_FINISH, &k), EIN_OK);
    library l = {.n = 0};
    add_text(&l, &k);
    host_module *m = compile(&l, false);
    unsigned char *in = ein__aligned(64, 2055 * bytes), *out = ein__aligned(64, 2055 * bytes);
    assert_true(in != NULL && out != NULL);
    for (size_t i = 0; i < 2055 * bytes; i++) in[i] = (unsigned char)(i * 37 + i / 251);
    long long boxes[3 * EIN__BOX_WORDS], sources[3], n_boxes = 3;
    for (int i = 0; i < 3; i++) sources[i] = (long long)(intptr_t)(in + (size_t)at[i] * bytes);
    i64 rows = ein__exchange_boxes(&x, 0, 3, (int[]){0, 1, 2}, (i64 *)boxes);
    assert_int_equal(rows, 2 + 1 + 1);
    void *dst = out, *table = boxes, *addresses = sources, *args[] = {&dst, &n_boxes, &table, &addresses};
    ein__host_entry(m, k.name)(args, rows, 1, 1, NULL);
    assert_memory_equal(in, out, 2055 * bytes);
    ein__host_unload(m);
    ein__free(in);
    ein__free(out);
    ein__arena_free(&l.a);
    ein__arena_free(&q.a);
}

static void test_copies(void **unused)
{
    (void)unused;
    copy_type(EIN_F32, 4);
    copy_type(EIN_F64, 8);
    copy_type(EIN_BF16, 2);
    copy_type(EIN_F16, 2);
    copy_type(EIN_I8, 1);
    copy_type(EIN_I32, 4);
    copy_type(EIN_I64, 8);
    copy_type(EIN_BOOL, 1);
}

/* `n` partials on as many devices, one after the other in memory, merged on device 0 into `out`. */
static void merge_on_first(const merge *sum, ein_dtype dtype, int n, i64 numel, const void *partials, void *out)
{
    problem q = {.a = {NULL}};
    exchange x;
    kernel_text k;
    devset on[8];
    relation *from = &q.states[0];
    size_t bytes = (size_t)ein__dtype_bytes(sum->wire[0]);
    for (int i = 0; i < n; i++) on[i] = DEV(i);
    assert_int_equal(ein__relation_whole(&q.a, numel, DEV(0), &q.to), EIN_OK);
    *from = q.to;
    from->n_partials = n;
    from->devices = on;
    q.p = (exchange_problem){.n_states = 1, .states = {from}, .used = 1, .merge = sum, .dtype = dtype, .n_devices = n,
                             .to = &q.to};
    assert_int_equal(make_direct(&q, &x, NULL), EIN_OK);
    assert_int_equal(ein__exchange_check(&q.p, &x, NULL), EIN_OK);
    assert_int_equal(x.n_transfers, 1);
    assert_int_equal(x.total_bytes, (i64)bytes * (n - 1) * numel);
    assert_int_equal(x.local_bytes[0], (i64)bytes * numel + ein__dtype_bytes(dtype) * numel);
    assert_int_equal(ein__exchange_kernel(&q.a, &q.p, &x, TRANSFER_FINISH, &k), EIN_OK);
    library l = {.n = 0};
    add_text(&l, &k);
    host_module *m = compile(&l, false);
    long long box[EIN__BOX_WORDS], sources[8], n_boxes = 1;
    for (int i = 0; i < n; i++) sources[i] = (long long)((intptr_t)partials + (intptr_t)bytes * i * (intptr_t)numel);
    i64 rows = ein__exchange_boxes(&x, 0, 1, (int[]){0}, (i64 *)box);
    void *table = box, *addresses = sources, *args[] = {&out, &n_boxes, &table, &addresses};
    ein__host_entry(m, k.name)(args, rows, 1, 1, NULL);
    ein__host_unload(m);
    ein__arena_free(&l.a);
    ein__arena_free(&q.a);
}

/* Narrow partials are summed in f32 and rounded once: one by one in bf16, 256 + 1 + .. + 1 stays 256. Partials that
 * travel in f32 are not rounded at all: 256 and seven of 1 - 2^-9, which in bf16 is 1, make less than 263. */
static void test_one_rounding(void **unused)
{
    (void)unused;
    enum { N = 1025, PARTS = 8 }; /* a multiple of no vector: addresses of all alignments, a piece of one element */
    static uint16_t narrow[PARTS][N], out[N];
    static float wide[PARTS][N];
    arena a = {NULL};
    merge *sum;
    for (int j = 0; j < PARTS; j++)
        for (int i = 0; i < N; i++) {
            ein__dtype_write(EIN_BF16, j == i % PARTS ? 256 : 1, &narrow[j][i]);
            wide[j][i] = j == i % PARTS ? 256 : 1 - 0x1p-9f;
        }
    assert_int_equal(ein__merge_make(&a, MERGE_SUM, 1, EIN_BF16, &sum), EIN_OK);
    merge_on_first(sum, EIN_BF16, PARTS, N, narrow, out);
    for (int i = 0; i < N; i++) assert_true(ein__dtype_read(EIN_BF16, &out[i]) == 264);
    sum->wire[0] = EIN_F32;
    merge_on_first(sum, EIN_BF16, PARTS, N, wide, out);
    for (int i = 0; i < N; i++) assert_true(ein__dtype_read(EIN_BF16, &out[i]) == 262);
    ein__arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_random_families), cmocka_unit_test(test_random_types), cmocka_unit_test(test_copies), cmocka_unit_test(test_one_rounding)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
