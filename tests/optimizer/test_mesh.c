/* SPDX-License-Identifier: Apache-2.0 */
/* How many axes of a mesh a plan needs: plans by hand. Three elementwise ops on [rows,16] tensors; each cuts its rows
 * d0 and columns d1 as a test says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "optimizer/mesh.h"
#include "tests/harness/each_plan.h"

static void open_draft(plan_draft *d, ein_graph **g, int devices, i64 rows)
{
    assert_int_equal(ein_graph_create(g), EIN_OK);
    ein_tensor x = ein_input(*g, "x", EIN_F32, SHAPE(rows, 16)), w = ein_parameter(*g, "w", EIN_F32, SHAPE(rows, 16));
    ein_output(*g, "y", ein_mul(*g, ein_sub(*g, ein_add(*g, x, w), w), w));
    draft_make(d, *g, devices);
}

static int close_draft(plan_draft *d, ein_graph *g)
{
    int k = ein__plan_mesh(&d->graph, &d->plan);
    free(draft_text(d));
    ein_graph_free(g);
    return k;
}

static void cut2(plan_draft *d, int node, int rows, int columns, const int *order)
{
    static const char *const names[] = {"add", "sub", "mul"};
    draft_cut(d, names[node], 0, "d0,d1", (const int[]){rows, columns}, order);
}

static void test_few_axes(void **state)
{
    (void)state;
    plan_draft d;
    ein_graph *g;
    open_draft(&d, &g, 8, 16);
    assert_int_equal(close_draft(&d, g), 0);

    open_draft(&d, &g, 8, 16); /* one axis, of rows here and of columns there */
    draft_cut(&d, "add", 0, "d0", (const int[]){8}, NULL);
    draft_cut(&d, "sub", 0, "d1", (const int[]){8}, NULL);
    assert_int_equal(close_draft(&d, g), 1);

    open_draft(&d, &g, 8, 16); /* the same, whatever the devices are called */
    draft_cut(&d, "add", 0, "d0", (const int[]){8}, (const int[]){3, 1, 4, 0, 5, 2, 6, 7});
    draft_cut(&d, "mul", 0, "d0", (const int[]){8}, (const int[]){3, 1, 4, 0, 5, 2, 6, 7});
    assert_int_equal(close_draft(&d, g), 1);

    open_draft(&d, &g, 8, 16); /* a grid of 2 x 4 */
    cut2(&d, 0, 2, 4, NULL);
    draft_cut(&d, "sub", 0, "d0", (const int[]){8}, NULL);
    assert_int_equal(close_draft(&d, g), 2);
}

/* Device d has row d / 4 and column d % 4 in one op, row d / 2 and column d % 2 in the other: three binary axes. */
static void test_three_axes(void **state)
{
    (void)state;
    plan_draft d;
    ein_graph *g;
    open_draft(&d, &g, 8, 16);
    cut2(&d, 0, 2, 4, NULL);
    cut2(&d, 1, 4, 2, NULL);
    assert_int_equal(close_draft(&d, g), 3);

    open_draft(&d, &g, 6, 12); /* 6 is 2 x 3 alone, and d / 3 is not d % 2 */
    cut2(&d, 0, 2, 3, NULL);
    cut2(&d, 1, 3, 2, NULL);
    assert_int_equal(close_draft(&d, g), NO_MESH);

    open_draft(&d, &g, 6, 12); /* 3 rows of axis 3 and 2 columns of axis 2: the same grid, turned */
    cut2(&d, 0, 2, 3, NULL);
    cut2(&d, 1, 3, 2, (const int[]){0, 3, 1, 4, 2, 5});
    assert_int_equal(close_draft(&d, g), 2);
}

static void set_devices(plan_draft *d, int node, const devset *devices)
{
    for (int i = 0, seen = 0; i < d->graph.nodes.n; i++)
        if (!ein__node_is_view(&d->graph.nodes.items[i]) && seen++ == node) d->plan.nodes[i].devices = devices;
}

static void test_no_mesh(void **state)
{
    (void)state;
    static const devset pairs[] = {1 | 2, 4 | 8}, lonely[] = {1, 2 | 4 | 8}, idle[] = {1};
    static const i64 uneven[] = {0, 1, 2, 3, 16}, padded[] = {0, 3, 6, 9, 10};
    plan_draft d;
    ein_graph *g;
    open_draft(&d, &g, 8, 16); /* parts the other way round */
    draft_cut(&d, "add", 0, "d0", (const int[]){8}, NULL);
    draft_cut(&d, "sub", 0, "d0", (const int[]){8}, (const int[]){7, 6, 5, 4, 3, 2, 1, 0});
    assert_int_equal(close_draft(&d, g), NO_MESH);

    open_draft(&d, &g, 4, 16); /* replicas are an axis of their own: here of 2, there of 3 of 4 */
    draft_cut(&d, "add", 0, "d0", (const int[]){2}, NULL);
    set_devices(&d, 0, pairs);
    assert_int_equal(ein__plan_mesh(&d.graph, &d.plan), 2);
    set_devices(&d, 0, lonely);
    assert_int_equal(close_draft(&d, g), NO_MESH);

    open_draft(&d, &g, 4, 16); /* on one of 4 */
    set_devices(&d, 1, idle);
    assert_int_equal(close_draft(&d, g), NO_MESH);

    for (int even = 0; even < 2; even++) { /* 10 rows padded to 12; 16 rows as 1, 1, 1, 13 */
        cut c;
        open_draft(&d, &g, 4, even ? 10 : 16);
        draft_cut(&d, "add", 0, "d0", (const int[]){4}, NULL);
        c = d.plan.nodes[0].cuts[0];
        c.at = even ? padded : uneven;
        d.plan.nodes[0].cuts = &c;
        assert_int_equal(close_draft(&d, g), even ? 1 : NO_MESH);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_few_axes), cmocka_unit_test(test_three_axes),
                                       cmocka_unit_test(test_no_mesh)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
