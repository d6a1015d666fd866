/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/graph/canonical.h"
#include "optimizer/choices.h"
#include "tests/harness/random_graph.h"
#include "tests/harness/random_plan.h"
#include "tests/harness/small_llama.h"

#define SHAPE(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

/* "n:0,4,8 / k:0,3,6 on 1 2 4 8" */
static void print_choice(const spec *s, const choice *c, text *out)
{
    for (int i = 0; i < c->n_cuts; i++) {
        if (i > 0) ein__text_add(out, " / ");
        for (int l = 0; l < c->cuts[i].n_labels; l++)
            ein__text_add(out, "%s", s->labels[c->cuts[i].labels[l]].name);
        for (int p = 0; p <= c->cuts[i].n_parts; p++)
            ein__text_add(out, "%c%lld", p == 0 ? ':' : ',', (long long)c->cuts[i].at[p]);
    }
    ein__text_add(out, "%son", c->n_cuts > 0 ? " " : "");
    for (int t = 0; t < c->n_tuples; t++) ein__text_add(out, " %x", c->devices[t]);
    ein__text_add(out, "\n");
}

static void print_choices(const spec *s, int n_devices, text *out)
{
    arena a = {NULL};
    i64 units[MAX_LABELS];
    choice_list list = {0};
    for (int l = 0; l < s->n_labels; l++) units[l] = s->labels[l].granule;
    assert_int_equal(ein__choices(&a, s, units, n_devices, &list), EIN_OK);
    for (int i = 0; i < list.n; i++) print_choice(s, &list.items[i], out);
    ein__arena_free(&a);
}

static void test_linear(void **state)
{
    (void)state;
    ein_graph *g;
    text t = {0};
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(3, 1, 12)),
               w = ein_parameter(g, "w", EIN_F32, SHAPE(8, 12));
    assert_int_not_equal(ein_linear(g, x, w, (ein_tensor){0}).id, 0);
    spec s = g->g.nodes.items[0].spec;
    s.labels[2].granule = 2; /* n */
    print_choices(&s, 4, &t);
    assert_string_equal(ein__text_get(&t), "on f\n"
                                           "on 1\n"
                                           "d0:0,1,2,3 on 1 2 4\n"
                                           "d0:0,1,2,3 on 3 4 8\n"
                                           "n:0,2,4,6,8 on 1 2 4 8\n"
                                           "k:0,3,6,9,12 on 1 2 4 8\n"
                                           "d0:0,1,3 / n:0,4,8 on 1 2 4 8\n"
                                           "d0:0,1,3 / k:0,6,12 on 1 2 4 8\n"
                                           "n:0,4,8 / k:0,6,12 on 1 2 4 8\n"
                                           "d0:0,1,3 on 5 a\n" /* by the second digit, copies by the first */
                                           "n:0,4,8 on 5 a\n"
                                           "k:0,6,12 on 5 a\n"
                                           "d0:0,1,3 on 3 c\n"
                                           "n:0,4,8 on 3 c\n"
                                           "k:0,6,12 on 3 c\n"
                                           "d0:0,1,3 / n:0,4,8 on 1 4 2 8\n"
                                           "d0:0,1,3 / k:0,6,12 on 1 4 2 8\n"
                                           "n:0,4,8 / k:0,6,12 on 1 4 2 8\n");
    t.n = 0;
    print_choices(&s, 1, &t);
    assert_string_equal(ein__text_get(&t), "on 1\n");
    t.n = 0;
    s.labels[2].whole = true;
    s.labels[3].whole = true;
    print_choices(&s, 3, &t);
    assert_string_equal(ein__text_get(&t), "on 7\non 1\nd0:0,1,2,3 on 1 2 4\n");
    ein__text_free(&t);
    ein_graph_free(g);
}

/* Batch x position is cut as one where the batch alone cannot be cut evenly. */
static void test_groups(void **state)
{
    (void)state;
    ein_graph *g;
    text t = {0};
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_tensor x = ein_input(g, "x", EIN_F32, SHAPE(3, 5, 1));
    assert_int_not_equal(ein_relu(g, x).id, 0);
    print_choices(&g->g.nodes.items[0].spec, 2, &t);
    assert_string_equal(ein__text_get(&t),
                        "on 3\non 1\nd0:0,1,3 on 1 2\nd1:0,2,5 on 1 2\nd0d1:0,7,15 on 1 2\n");
    ein__text_free(&t);
    ein_graph_free(g);
}

/* All choices of all ops of random graphs are legal and differ, whatever the sizes. */
static void test_random_ops(void **state)
{
    (void)state;
    for (int seed = 0; seed < 200; seed++) {
        random_graph r;
        assert_int_equal(random_graph_make((uint64_t)seed, 6, &r), EIN_OK);
        int n_devices = seed % MAX_DEVICES + 1;
        for (int i = 0; i < r.graph->g.nodes.n; i++) {
            const spec *s = &r.graph->g.nodes.items[i].spec;
            arena a = {NULL};
            label_units *units;
            choice_list list = {0};
            assert_int_equal(ein__choice_units(&a, &r.graph->g, n_devices, &units), EIN_OK);
            assert_int_equal(ein__choices(&a, s, units[i], n_devices, &list), EIN_OK);
            assert_true(list.n >= 1);
            for (int k = 0; k < list.n; k++) {
                error e = {0};
                if (ein__choice_check(s, &list.items[k], n_devices, &e) != EIN_OK)
                    fail_msg("seed %d: %s", seed, e.line);
                text x = {0}, y = {0};
                print_choice(s, &list.items[k], &x);
                for (int j = 0; j < k; j++, y.n = 0) {
                    print_choice(s, &list.items[j], &y);
                    assert_string_not_equal(ein__text_get(&x), ein__text_get(&y));
                }
                ein__text_free(&x);
                ein__text_free(&y);
            }
            ein__arena_free(&a);
        }
        random_graph_free(&r);
    }
}

static int find_label(const spec *s, const char *name)
{
    int l = 0;
    while (l < s->n_labels && strcmp(s->labels[l].name, name) != 0) l++;
    assert_true(l < s->n_labels);
    return l;
}

/* Grouped-query heads on 3 devices: what only attention knows reaches the projections. */
static void test_units(void **state)
{
    (void)state;
    const small_llama m = {.hidden = 512,
                           .heads = 24,
                           .kv_heads = 6,
                           .head_size = 32,
                           .ffn = 1376,
                           .layers = 1,
                           .batch = 1,
                           .seq = 8};
    ein_graph *g = small_llama_graph(&m);
    graph c = {.arena = {NULL}};
    arena a = {NULL};
    label_units *units;
    int linears = 0, attentions = 0;
    assert_int_equal(ein__canonicalize(&g->g, &c, NULL), EIN_OK);
    assert_int_equal(ein__choice_units(&a, &c, 3, &units), EIN_OK);
    for (int i = 0; i < c.nodes.n; i++) {
        const node *n = &c.nodes.items[i];
        if (n->kind == OP_ATTENTION) {
            attentions++;
            assert_int_equal(units[i][ATT_H], 1);
        }
        if (strcmp(n->name, "linear") != 0) continue;
        int out = find_label(&n->spec, "n"), in = find_label(&n->spec, "k");
        i64 rows = n->spec.labels[out].extent, columns = n->spec.labels[in].extent;
        /* q and o: groups of 4 heads of 32; k and v: heads; gate, up, down: multiples of a vector */
        if (rows == 768) assert_int_equal(units[i][out], 128);
        if (rows == 192) assert_int_equal(units[i][out], 32);
        if (columns == 768) assert_int_equal(units[i][in], 128);
        if (rows == 1376) assert_int_equal(units[i][out], 16);
        if (columns == 1376) assert_int_equal(units[i][in], 16);
        linears++;
    }
    assert_int_equal(linears, 7);
    assert_int_equal(attentions, 1);
    ein__arena_free(&a);
    ein__arena_free(&c.arena);
    ein_graph_free(g);
}

/* The choice behind the relation that a choice gives gives that relation again. */
static void test_choice_of(void **state)
{
    (void)state;
    int found_some = 0;
    for (int seed = 0; seed < 200; seed++) {
        random_graph r;
        graph g = {.arena = {NULL}};
        arena a = {NULL};
        plan p;
        int n_devices = seed % 5 + 1;
        assert_int_equal(random_graph_make((uint64_t)seed, 6, &r), EIN_OK);
        assert_int_equal(ein__canonicalize(&r.graph->g, &g, NULL), EIN_OK);
        assert_int_equal(random_plan_make(&a, &g, (uint64_t)seed, n_devices, NULL, &p), EIN_OK);
        for (int i = 0; i < g.nodes.n; i++) {
            const spec *s = &g.nodes.items[i].spec;
            relation want, got;
            choice c;
            bool found;
            if (ein__node_is_view(&g.nodes.items[i])) continue;
            assert_int_equal(ein__relation_finished(&a, s, 0, &p.nodes[i], &want), EIN_OK);
            assert_int_equal(ein__choice_of(&a, s, &want, n_devices, &c, &found), EIN_OK);
            bool empty = ein__relation_numel(&want) == 0 && want.n_blocks > 1; /* may be told in many ways */
            if (g.nodes.items[i].kind == OP_APPEND && !empty) assert_true(found);
            if (!found) continue; /* a cut inside a label that the result cannot tell */
            assert_int_equal(ein__choice_check(s, &c, n_devices, NULL), EIN_OK);
            assert_int_equal(ein__relation_finished(&a, s, 0, &c, &got), EIN_OK);
            assert_true(ein__relation_equal(&want, &got));
            found_some += c.n_cuts > 0;
        }
        ein__arena_free(&a);
        ein__arena_free(&g.arena);
        random_graph_free(&r);
    }
    assert_true(found_some > 200);
}

/* A layout that no cut of the op gives. */
static void test_no_choice_of(void **state)
{
    (void)state;
    ein_graph *g;
    arena a = {NULL};
    const i64 lo[] = {0, 3}, hi[] = {3, 4}, zero = 0, six = 6;
    const devset on[] = {1, 2};
    relation r = {.n_axes = 2, .n_blocks = 2, .n_partials = 1, .devices = on};
    choice c;
    bool found;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    assert_int_not_equal(ein_relu(g, ein_input(g, "x", EIN_F32, SHAPE(4, 6))).id, 0);
    spec s = g->g.nodes.items[0].spec;
    r.axes[0] = (axis){.extent = 4, .n_parts = 2, .lo = lo, .hi = hi};
    r.axes[1] = (axis){.extent = 6, .n_parts = 1, .lo = &zero, .hi = &six};
    assert_int_equal(ein__relation_canonical(&a, &r), EIN_OK);
    assert_int_equal(ein__choice_of(&a, &s, &r, 2, &c, &found), EIN_OK);
    assert_true(found);
    assert_int_equal(c.n_cuts, 1);
    assert_int_equal(c.cuts[0].n_labels, 1);
    assert_int_equal(c.cuts[0].at[1], 3);
    s.labels[0].granule = 2;
    assert_int_equal(ein__choice_of(&a, &s, &r, 2, &c, &found), EIN_OK);
    assert_false(found);
    s.labels[0].granule = 1;
    r.axes[0].extent = 8; /* 8 x 3 */
    r.axes[0].hi = (const i64[]){3, 8};
    assert_int_equal(ein__choice_of(&a, &s, &r, 2, &c, &found), EIN_OK);
    assert_false(found);
    ein__arena_free(&a);
    ein_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear), cmocka_unit_test(test_groups),    cmocka_unit_test(test_random_ops),
        cmocka_unit_test(test_units),  cmocka_unit_test(test_choice_of), cmocka_unit_test(test_no_choice_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
