/* SPDX-License-Identifier: Apache-2.0 */
/* Plans as text and back, for random plans of random graphs; and texts and plans that are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/graph/canonical.h"
#include "tests/harness/random.h"
#include "tests/harness/random_graph.h"
#include "tests/harness/random_plan.h"

/* ---- round trip --------------------------------------------------------------------------------------- */

static void assert_same(const graph *g, const plan *p, const plan *q)
{
    assert_int_equal(p->n_devices, q->n_devices);
    for (int i = 0; i < g->nodes.n; i++) {
        const choice *c = &p->nodes[i], *d = &q->nodes[i];
        assert_int_equal(c->n_cuts, d->n_cuts);
        assert_int_equal(c->n_tuples, d->n_tuples);
        for (int t = 0; t < c->n_tuples; t++) assert_int_equal(c->devices[t], d->devices[t]);
        for (int k = 0; k < c->n_cuts; k++) {
            assert_int_equal(c->cuts[k].n_labels, d->cuts[k].n_labels);
            for (int l = 0; l < c->cuts[k].n_labels; l++)
                assert_int_equal(c->cuts[k].labels[l], d->cuts[k].labels[l]);
            for (int x = 0; x <= c->cuts[k].n_parts; x++)
                assert_int_equal(c->cuts[k].at[x], d->cuts[k].at[x]);
        }
    }
    for (int i = 0; i < g->leaves.n; i++) assert_true(ein__relation_equal(&p->leaves[i], &q->leaves[i]));
    for (int i = 0; i < p->n_carries; i++) assert_true(ein__relation_equal(&p->carries[i], &q->carries[i]));
    assert_true(p->predicted_us == q->predicted_us && p->bound_us == q->bound_us);
    assert_int_equal(p->predicted_bytes, q->predicted_bytes);
    assert_int_equal(p->states_searched, q->states_searched);
}

static void round_trip(arena *a, const graph *g, const plan *p, bool names)
{
    text once = {0}, twice = {0};
    plan q;
    error e = {0};
    ein_status (*print)(const graph *, const plan *, text *) =
        names ? ein__plan_print : ein__plan_print_nameless;
    assert_int_equal(print(g, p, &once), EIN_OK);
    if (ein__plan_parse(a, g, ein__text_get(&once), &q, &e) != EIN_OK)
        fail_msg("%s in %s", e.line, once.bytes);
    assert_same(g, p, &q);
    assert_int_equal(print(g, &q, &twice), EIN_OK);
    assert_string_equal(once.bytes, twice.bytes);
    ein__text_free(&once);
    ein__text_free(&twice);
}

static void test_random_plans(void **state)
{
    (void)state;
    int carries = 0;
    for (int seed = 0; seed < 150; seed++) {
        random_graph r;
        graph g = {.arena = {NULL}};
        arena a = {NULL};
        plan p;
        error e = {0};
        assert_int_equal(random_graph_make((uint64_t)seed, 9, &r), EIN_OK);
        assert_int_equal(ein__canonicalize(&r.graph->g, &g, NULL), EIN_OK);
        assert_int_equal(random_plan_make(&a, &g, (uint64_t)seed, seed % MAX_DEVICES + 1, NULL, &p), EIN_OK);
        p.predicted_us = seed / 3.0;
        p.bound_us = seed % 2 * (seed / 7.0);
        p.predicted_bytes = (i64)seed << 33;
        p.states_searched = seed;
        carries += p.n_carries;
        if (ein__plan_check(&g, &p, &e) != EIN_OK) fail_msg("seed %d: %s", seed, e.line);
        round_trip(&a, &g, &p, true);
        round_trip(&a, &g, &p, false);
        ein__arena_free(&a);
        ein__arena_free(&g.arena);
        random_graph_free(&r);
    }
    assert_true(carries > 20);
}

/* ---- one small graph, one plan ------------------------------------------------------------------------ */

typedef struct fixture {
    graph g;
    ein_graph *built;
} fixture;

static void make_small(fixture *f)
{
    memset(f, 0, sizeof *f);
    assert_int_equal(ein_graph_create(&f->built), EIN_OK);
    ein_graph *g = f->built;
    ein_tensor x = ein_input(g, "x", EIN_F32, 2, (const int64_t[]){4, 6});
    ein_tensor w = ein_parameter(g, "w\"\x01", EIN_F32, 2, (const int64_t[]){8, 6});
    ein_tensor s = ein_state_tensor(g, "s", EIN_F32, 2, (const int64_t[]){16, 8});
    ein_tensor y = ein_linear(g, x, w, (ein_tensor){0});
    s = ein_state_append(g, s, y, 0, ein_scalar_input(g, "position"));
    ein_output(g, "flat", ein_reshape(g, s, 1, (const int64_t[]){128}));
    assert_string_equal(ein_graph_error(g), "");
    assert_int_equal(ein__canonicalize(&g->g, &f->g, NULL), EIN_OK);
    assert_int_equal(f->g.nodes.n, 3);
}

static void free_small(fixture *f)
{
    ein__arena_free(&f->g.arena);
    ein_graph_free(f->built);
}

#define LINEAR \
    "{\"node\":0,\"op\":\"linear\",\"cuts\":[{\"labels\":[\"n\"],\"at\":[0,4,8]}],\"devices\":[[0],[1]]}"
#define APPEND                                                                                               \
    "{\"node\":1,\"op\":\"state_append\",\"cuts\":[{\"labels\":[\"d1\"],\"at\":[0,4,8]}],\"devices\":[[0],[" \
    "1]]}"
#define VIEW "{\"node\":2,\"op\":\"reshape\",\"view\":true}"
#define STATE                                                                                         \
    "{\"leaf\":2,\"kind\":\"state\",\"name\":\"s\",\"axes\":[{\"extent\":16,\"lo\":[0],\"hi\":[16]}," \
    "{\"extent\":8,\"lo\":[0,4],\"hi\":[4,8]}],\"devices\":[[0],[1]]}"
#define INPUT "{\"leaf\":0,\"kind\":\"input\",\"name\":\"x\"}"
#define WEIGHT                                                                                               \
    "{\"leaf\":1,\"kind\":\"parameter\",\"name\":\"w??\",\"axes\":[{\"extent\":48,\"lo\":[0,24],\"hi\":[24," \
    "48]}],"                                                                                                 \
    "\"devices\":[[0],[1]]}"
#define TAIL "\"predicted_us\":1.5,\"predicted_bytes\":64,\"states_searched\":7}\n"
static const char SMALL[] =
    "{\"ein_plan\":1,\"devices\":2,\n\"nodes\":[\n" LINEAR ",\n" APPEND ",\n" VIEW
    "\n],\n\"leaves\":[\n" INPUT ",\n" WEIGHT ",\n" STATE "\n],\n\"carries\":[\n],\n" TAIL;

/* The text that people write and see. */
static void test_text(void **state)
{
    (void)state;
    fixture f;
    arena a = {NULL};
    plan p;
    error e = {0};
    text t = {0};
    make_small(&f);
    if (ein__plan_parse(&a, &f.g, SMALL, &p, &e) != EIN_OK) fail_msg("%s", e.line);
    assert_int_equal(p.nodes[0].cuts[0].at[1], 4);
    assert_int_equal(p.nodes[2].n_tuples, 0);
    assert_int_equal(p.leaves[0].devices[0], DEV(HOST));
    assert_int_equal(p.leaves[1].axes[0].hi[0], 24);
    assert_true(p.predicted_us == 1.5);
    assert_int_equal(ein__plan_print(&f.g, &p, &t), EIN_OK);
    assert_string_equal(ein__text_get(&t), SMALL);
    ein__text_free(&t);
    ein__arena_free(&a);
    free_small(&f);
}

/* Texts that are refused: what is replaced, by what, and what the message says. */
static const struct wrong {
    const char *from, *to, *says;
} WRONG[] = {
    {"{\"ein_plan\"", "[\"ein_plan\"", "plan:1:"},
    {"\"ein_plan\":1", "\"ein_plan\":2", "\"ein_plan\": 2 is not within 1 .. 1"},
    {"\"ein_plan\":1,", "", "plan: \"ein_plan\" is missing"},
    {"\"devices\":2,\n", "\"devices\":0,\n", "\"devices\": 0 is not within 1 .. 16"},
    {"\"devices\":2,\n", "\"devices\":17,\n", "\"devices\": 17 is not within"},
    {"\"devices\":2,\n", "\"devices\":1,\n", "node 0 (linear): \"devices\": 1 is not within 0 .. 0"},
    {"\"carries\"", "\"carried\"", "plan: unknown member \"carried\""},
    {"\"carries\":[", "\"carries\":[1", "\"carries\" has 1 entries, must have 0"},
    {"\"predicted_us\":1.5", "\"predicted_us\":\"fast\"", "\"predicted_us\" must be a number"},
    {"\"predicted_us\":1.5", "\"predicted_us\":-1", "predicted -1 us"},
    {"\"predicted_bytes\":64", "\"predicted_bytes\":6.5", "\"predicted_bytes\" must be an integer"},
    {"\"predicted_bytes\":64", "\"predicted_bytes\":99999999999999999999", "plan:1"},
    {"\"states_searched\":7", "\"states_searched\":7,\"states_searched\":7", "duplicate"},
    {",\n" VIEW, "", "\"nodes\" has 2 entries, must have 3"},
    {"\"node\":1", "\"node\":0", "node 1 (state_append): \"node\": 0 is not within 1 .. 1"},
    {"\"op\":\"linear\"", "\"op\":\"matmul\"", "node 0 (linear): \"op\" is not \"linear\""},
    {"\"op\":\"linear\"", "\"op\":7", "node 0 (linear): \"op\" is not \"linear\""},
    {"\"view\":true", "\"view\":false", "node 2 (reshape): \"view\" must be true"},
    {"\"view\":true", "\"cuts\":[],\"devices\":[[0]]", "node 2 (reshape): unknown member \"cuts\""},
    {VIEW, "3", "node 2 (reshape) must be an object"},
    {"\"cuts\":[{\"labels\":[\"n\"]", "\"cuts\":[{\"labels\":[\"z\"]", "the op has no label \"z\""},
    {"\"cuts\":[{\"labels\":[\"n\"]", "\"cuts\":[{\"labels\":[9]", "the op has no label"},
    {"\"cuts\":[{\"labels\":[\"n\"]", "\"cuts\":[{\"labels\":[]",
     "\"labels\" has 0 entries, must have 1 to 4"},
    {"\"cuts\":[{\"labels\":[\"n\"]", "\"cuts\":[{\"labels\":[\"n\",\"n\"]",
     "linear (node 0): label n is cut twice"},
    {"\"at\":[0,4,8]", "\"at\":[0]", "\"at\" needs two points at least"},
    {"\"at\":[0,4,8]", "\"at\":[0,4,7]", "linear (node 0): cut of n does not cover 0 .. 8"},
    {"\"at\":[0,4,8]", "\"at\":[0,-4,8]", "\"at\": -4 is not within"},
    {"\"at\":[0,4,8]", "\"at\":[0,4,6,8]", "\"devices\" has 2 entries, must have 3"},
    {"\"at\":[0,4,8]", "\"at\":{}", "\"at\" must be an array"},
    {"\"devices\":[[0],[1]]},\n{\"node\":1", "\"devices\":[[0],[]]},\n{\"node\":1",
     "tuple 1 lies on devices 0 of 2"},
    {"\"devices\":[[0],[1]]},\n{\"node\":1", "\"devices\":[[0],[1,0]]},\n{\"node\":1",
     "entry 1 is no rising list"},
    {"\"devices\":[[0],[1]]},\n{\"node\":1", "\"devices\":[[0],[2]]},\n{\"node\":1",
     "\"devices\": 2 is not within 0 .. 1"},
    {"\"devices\":[[0],[1]]},\n{\"node\":1", "\"devices\":[0,[1]]},\n{\"node\":1",
     "\"devices\" must be an array"},
    {"[\"d1\"],\"at\":[0,4,8]", "[\"d1\"],\"at\":[0,5,8]",
     "state_append (node 1): the result does not lie as its state"},
    {"\"kind\":\"state\"", "\"kind\":\"input\"", "leaf 2: \"kind\" is not \"state\""},
    {"\"kind\":\"input\",\"name\":\"x\"", "\"kind\":\"input\",\"name\":\"x\",\"axes\":[]",
     "leaf 0: unknown member \"axes\""},
    {"\"name\":\"s\"", "\"name\":1", "leaf 2: \"name\" must be a string"},
    {"\"extent\":48", "\"extent\":49", "leaf 1: \"extent\": 49 is not within 0 .. 48"},
    {"\"extent\":48", "\"extent\":24", "leaf 1: relation: part 1"},
    {"\"lo\":[0,24]", "\"lo\":[0,25]",
     "leaf 1: relation: part 1 [25, 48) of axis 0 leaves a gap or overlaps"},
    {"\"lo\":[0,24]", "\"lo\":[]", "leaf 1: \"lo\" is empty"},
    {"\"hi\":[24,48]", "\"hi\":[48]", "leaf 1: \"hi\" has 1 entries, must have 2"},
    {"\"axes\":[{\"extent\":48,", "\"axes\":[{\"length\":48,", "leaf 1: unknown member \"length\""},
};

static char *replaced(const char *from, const char *to)
{
    const char *at = strstr(SMALL, from);
    assert_non_null(at);
    size_t before = (size_t)(at - SMALL), n = sizeof SMALL + strlen(to) + 1;
    char *out = calloc(n, 1);
    assert_non_null(out);
    memcpy(out, SMALL, before);
    strcat(out, to);
    strcat(out, at + strlen(from));
    return out;
}

static void test_wrong_texts(void **state)
{
    (void)state;
    fixture f;
    make_small(&f);
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        arena a = {NULL};
        plan p;
        error e = {0};
        char *json = replaced(WRONG[i].from, WRONG[i].to);
        ein_status s = ein__plan_parse(&a, &f.g, json, &p, &e);
        if (s != EIN_NO_PLAN || strstr(e.line, WRONG[i].says) == NULL)
            fail_msg("case %zu: status %d, \"%s\" does not say \"%s\"", i, s, e.line, WRONG[i].says);
        free(json);
        ein__arena_free(&a);
    }
    free_small(&f);
}

/* Any prefix, and any change of some bytes, is read or refused; never more. */
static void test_hostile_texts(void **state)
{
    (void)state;
    static const char bytes[] = "0123456789[]{},:\"-truefalsn\\\x80";
    fixture f;
    dice d = dice_make(3, 0);
    int refused = 0;
    make_small(&f);
    for (size_t i = 0; i < 4000; i++) {
        char *json = replaced("linear", "linear");
        arena a = {NULL};
        plan p;
        if (i < strlen(SMALL)) json[i] = 0;
        for (int k = dice_range(&d, 1, 4); k > 0 && i >= strlen(SMALL); k--)
            json[dice_below(&d, (int)strlen(SMALL))] = bytes[dice_below(&d, (int)sizeof bytes - 1)];
        error e = {0};
        ein_status s = ein__plan_parse(&a, &f.g, json, &p, &e);
        assert_true(s == EIN_OK || (s == EIN_NO_PLAN && e.line[0] != 0));
        if (s == EIN_OK) assert_int_equal(ein__plan_check(&f.g, &p, NULL), EIN_OK);
        refused += s != EIN_OK;
        free(json);
        ein__arena_free(&a);
    }
    assert_in_range(refused, 3000, 3999);
    free_small(&f);
}

/* Plans made in memory, each wrong in one place. */
static void refuse_plan(const graph *g, plan p, const char *says)
{
    error e = {0};
    assert_int_equal(ein__plan_check(g, &p, &e), EIN_NO_PLAN);
    if (strstr(e.line, says) == NULL) fail_msg("\"%s\" does not say \"%s\"", e.line, says);
}

static void test_wrong_plans(void **state)
{
    (void)state;
    fixture f;
    arena a = {NULL};
    plan p, q;
    make_small(&f);
    assert_int_equal(ein__plan_parse(&a, &f.g, SMALL, &p, NULL), EIN_OK);
    q = p;
    q.n_leaves = 2;
    refuse_plan(&f.g, q, "plan: 3 nodes, 2 leaves, 0 carries; the graph has 3, 3, 0");
    q = p;
    q.n_devices = 17;
    refuse_plan(&f.g, q, "plan: 17 devices");
    q = p;
    choice nodes[3] = {p.nodes[0], p.nodes[1], p.nodes[0]};
    q.nodes = nodes;
    refuse_plan(&f.g, q, "reshape (node 2) is a view and takes no choice");
    q = p;
    relation leaves[3] = {p.leaves[1], p.leaves[1], p.leaves[2]};
    q.leaves = leaves;
    refuse_plan(&f.g, q, "leaf 0 is an input and lies whole on the host");
    leaves[0] = p.leaves[0];
    leaves[2].n_partials = 2;
    refuse_plan(&f.g, q, "leaf 2: the relation is not finished");
    leaves[2] = p.leaves[2];
    leaves[1].axes[0].broadcast = true;
    refuse_plan(&f.g, q, "leaf 1: the relation is not finished");
    ein__arena_free(&a);
    free_small(&f);
}

/* Each allocation fails once. (The reader's own are jansson's.) */
static void test_no_memory(void **state)
{
    (void)state;
    fixture f;
    make_small(&f);
    long live = ein__alloc_live();
    for (long n = 1, failed = 1; failed; n++) {
        arena a = {NULL};
        plan p;
        error e = {0};
        text t = {0};
        ein__alloc_fail_at(n);
        ein_status s = ein__plan_parse(&a, &f.g, SMALL, &p, &e);
        if (s == EIN_OK) s = ein__plan_print(&f.g, &p, &t);
        ein__alloc_fail_at(0);
        failed = s != EIN_OK;
        if (failed)
            assert_int_equal(s, EIN_NO_MEMORY);
        else
            assert_true(n > 2);
        ein__text_free(&t);
        ein__arena_free(&a);
        assert_int_equal(ein__alloc_live(), live);
    }
    free_small(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_plans), cmocka_unit_test(test_text),
        cmocka_unit_test(test_wrong_texts),  cmocka_unit_test(test_hostile_texts),
        cmocka_unit_test(test_wrong_plans),  cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
