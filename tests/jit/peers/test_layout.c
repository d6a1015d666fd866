/* SPDX-License-Identifier: Apache-2.0 */
/* Views, slices, concatenations, broadcasts and empty parts of tensors that lie in pieces. */
#include "tests/jit/peers/peers.h"

static ein_tensor plus_one(ein_graph *g, ein_tensor x) { return ein_map(g, "x0 + 1", 1, &x); }
static ein_tensor doubled(ein_graph *g, ein_tensor x) { return ein_map(g, "2 * x0", 1, &x); }

/* pytorch#179502: a view of columns was a view of each device's own: [0,1,8,9,16,17]. */
static void view_across_a_cut(void **state)
{
    (void)state;
    ein_graph *g = graph_new();
    ein_tensor view = ein_reshape(g, plus_one(g, PARAMETER(g, "x", 12, 8)), SHAPE(16, 6));
    double *x = ramp(96, -1, 1), *y = ramp(96, 0, 1);
    ein_output(g, "view", view);
    ein_output(g, "of a leaf", ein_reshape(g, PARAMETER(g, "z", 12, 8), SHAPE(16, 6)));
    ein_output(g, "sums", ein_sum(g, view, 1, (int[]){0}, 0));
    try_plans(g, (numbers[]){{"x", 96, x}, {"z", 96, y}, {0}},
              WANTED({"view", 96, y}, {"of a leaf", 96, y}, NUMBERS("sums", 720, 736, 752, 768, 784, 800)), 0,
              (int[]){4, 0});
    free(x);
    free(y);
}

/* pytorch#143372: 6 rows on 4 devices, 2 2 2 0, could not be flattened. */
static void flatten_with_an_empty_part(void **state)
{
    (void)state;
    ein_graph *g = graph_new();
    double *x = ramp(1536, -1, 1), *y = ramp(1536, 0, 1);
    ein_tensor flat = ein_flatten(g, plus_one(g, PARAMETER(g, "x", 6, 256)), 0, 1);
    ein_output(g, "flat", flat);
    ein_output(g, "sum", ein_sum(g, flat, 0, NULL, 0));
    assert_true(y[1000] == 1000);
    try_plans(g, (numbers[]){{"x", 1536, x}, {0}}, WANTED({"flat", 1536, y}, NUMBERS("sum", 1178880)), 0, (int[]){4, 0});
    free(x);
    free(y);
}

/* jax#21403, tinygrad#11107: each device's running sum began anew. */
static void running_sum(void **state)
{
    (void)state;
    ein_graph *g = graph_new();
    double *y = calloc(8 * 1024, sizeof *y);
    assert_non_null(y);
    for (int i = 0; i < 8 * 1024; i++) y[i] = i % 1024 + 1;
    ein_output(g, "y", ein_cumsum(g, PARAMETER(g, "x", 8, 1024), 1));
    try_plans(g, GIVEN(NUMBERS("x", 1)), (numbers[]){{"y", 8 * 1024, y}, {0}}, 0, DEVICES);
    free(y);
}

/* jax#24576, jax#19106: where pieces of one operand met copies of the other, ones became twos and fours. */
static void concatenation(void **state)
{
    (void)state;
    ein_graph *g = graph_new();
    ein_tensor a = plus_one(g, PARAMETER(g, "zeros 4", 4)), b = plus_one(g, PARAMETER(g, "zeros 12", 12)),
               c = PARAMETER(g, "ones 2", 2), d = plus_one(g, PARAMETER(g, "zeros 10", 10)),
               e = PARAMETER(g, "low", 3, 2), f = PARAMETER(g, "high", 3, 3);
    ein_output(g, "sixteen", ein_concat(g, 2, (ein_tensor[]){a, b}, 0));
    ein_output(g, "twelve", ein_concat(g, 2, (ein_tensor[]){c, d}, 0));
    ein_output(g, "columns", ein_concat(g, 2, (ein_tensor[]){e, f}, 1));
    try_plans(g,
              GIVEN(NUMBERS("zeros 4", 0), NUMBERS("zeros 12", 0), NUMBERS("ones 2", 1), NUMBERS("zeros 10", 0),
                    NUMBERS("low", 0, 1, 2, 3, 4, 5), NUMBERS("high", 10, 11, 12, 13, 14, 15, 16, 17, 18)),
              WANTED(NUMBERS("sixteen", 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
                     NUMBERS("twelve", 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
                     NUMBERS("columns", 0, 1, 10, 11, 12, 2, 3, 13, 14, 15, 4, 5, 16, 17, 18)),
              0, DEVICES);
}

/* tenstorrent/tt-mlir#9167, pytorch#139735: slices that do not end where the parts, 3 elements each, do. */
static void slices_across_parts(void **state)
{
    (void)state;
    ein_graph *g = graph_new();
    double *x = ramp(12, -1, 1);
    ein_tensor y = plus_one(g, PARAMETER(g, "x", 12)), z = PARAMETER(g, "z", 12);
    static const char *const sums[] = {"first", "second", "third"};
    for (int i = 0; i < 3; i++) ein_output(g, sums[i], ein_sum(g, ein_slice(g, y, 0, 4 * i, 4 * i + 4), 0, NULL, 0));
    ein_output(g, "middle", ein_slice(g, z, 0, 2, -3));
    ein_output(g, "nothing", ein_slice(g, z, 0, 5, 5));
    try_plans(g, (numbers[]){{"x", 12, x}, {"z", 12, x}, {0}},
              WANTED(NUMBERS("first", 6), NUMBERS("second", 22), NUMBERS("third", 38),
                     NUMBERS("middle", 1, 2, 3, 4, 5, 6, 7), NUMBERS("nothing", 0)),
              0, (int[]){4, 0});
    free(x);
}

/* pytorch#160968, pytorch#163320, pytorch#135054: of a dimension of 1 cut in four, one device has it all. */
static void expand_of_one_row(void **state)
{
    (void)state;
    ein_graph *g = graph_new();
    ein_tensor x = PARAMETER(g, "x", 1, 4), h = plus_one(g, PARAMETER(g, "h", 1, 4));
    const double rows[16] = {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4};
    ein_output(g, "of a leaf", ein_expand(g, x, SHAPE(4, 4)));
    ein_output(g, "of a result", ein_expand(g, h, SHAPE(4, 4)));
    ein_output(g, "doubled", doubled(g, ein_expand(g, PARAMETER(g, "z", 1, 4), SHAPE(4, 4))));
    try_plans(g, GIVEN(NUMBERS("x", 1, 2, 3, 4), NUMBERS("h", 0, 1, 2, 3), NUMBERS("z", .5, 1, 1.5, 2)),
              WANTED({"of a leaf", 16, rows}, {"of a result", 16, rows}, {"doubled", 16, rows}), 0, (int[]){4, 0});
}

/* pytorch#117728: a product over nothing is 0 everywhere, and the bias comes once. */
static void product_over_nothing(void **state)
{
    (void)state;
    ein_graph *g = graph_new();
    double rows[48];
    for (int i = 0; i < 48; i++) rows[i] = 3 + i % 4;
    ein_tensor bias = PARAMETER(g, "bias", 4);
    ein_output(g, "added", ein_add(g, bias, ein_matmul(g, INPUT(g, "a", 12, 0), PARAMETER(g, "b", 0, 4))));
    ein_output(g, "linear", ein_linear(g, PARAMETER(g, "x", 12, 0), PARAMETER(g, "w", 4, 0), bias));
    try_plans(g,
              GIVEN(NUMBERS("bias", 3, 4, 5, 6), NUMBERS("a", NAN), NUMBERS("b", NAN), NUMBERS("x", NAN), NUMBERS("w", NAN)),
              WANTED({"added", 48, rows}, {"linear", 48, rows}), 0, (int[]){4, 0});
}

/* pytorch#150862, tinygrad#5130, pytorch#103306, pytorch#115310: fewer elements than devices, padded and not cut
 * back, or refused. */
static void fewer_elements_than_devices(void **state)
{
    (void)state;
    enum { SIZES = 10 };
    double *x = ramp(15, 1, 1), *y = ramp(15, 2, 2);
    for (int devices = 1; devices <= 8; devices++) {
        ein_graph *g = graph_new();
        char names[SIZES][8], outs[SIZES][8], same[SIZES][8];
        numbers given[SIZES + 2] = {{0}}, wanted[2 * SIZES + 2] = {{0}};
        for (int n = 0; n < SIZES; n++) {
            snprintf(names[n], sizeof names[n], "x%d", n);
            snprintf(outs[n], sizeof outs[n], "y%d", n);
            snprintf(same[n], sizeof same[n], "z%d", n);
            ein_tensor leaf = PARAMETER(g, names[n], n);
            ein_output(g, outs[n], doubled(g, leaf));
            ein_output(g, same[n], leaf);
            given[n] = (numbers){names[n], n == 0 ? 1 : n, x};
            wanted[2 * n] = (numbers){outs[n], n == 0 ? 1 : n, y};
            wanted[2 * n + 1] = (numbers){same[n], n == 0 ? 1 : n, x};
        }
        ein_output(g, "five rows", doubled(g, PARAMETER(g, "rows", 5, 3)));
        given[SIZES] = (numbers){"rows", 15, x};
        wanted[2 * SIZES] = (numbers){"five rows", 15, y};
        each_plan(&(plan_case){.graph = g, .given = given, .wanted = wanted}, devices);
        ein_graph_free(g);
    }
    free(x);
    free(y);
}

/* pytorch#62283, pytorch#163483, pytorch#74809: what was sent was the storage, not the transpose. */
static void transposed_and_sent(void **state)
{
    (void)state;
    ein_graph *g = graph_new();
    double *x = ramp(16, 0, 1), *z = ramp(24, 0, 1), half[16], last[24];
    const double transpose[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    for (int i = 0; i < 16; i++) half[i] = x[i] / 2;
    for (int n = 0; n < 2; n++)
        for (int c = 0; c < 3; c++)
            for (int i = 0; i < 4; i++) last[(n * 4 + i) * 3 + c] = 1 + z[(n * 3 + c) * 4 + i];
    ein_output(g, "of a leaf", ein_transpose(g, PARAMETER(g, "x", 4, 4), 0, 1));
    ein_output(g, "doubled", doubled(g, ein_transpose(g, PARAMETER(g, "h", 4, 4), 0, 1)));
    ein_output(g, "of a result", ein_transpose(g, doubled(g, PARAMETER(g, "r", 4, 4)), 1, 0));
    ein_output(g, "channels last", plus_one(g, ein_permute(g, PARAMETER(g, "z", 2, 3, 2, 2), (int[]){0, 2, 3, 1})));
    try_plans(g, (numbers[]){{"x", 16, x}, {"h", 16, half}, {"r", 16, half}, {"z", 24, z}, {0}},
              WANTED({"of a leaf", 16, transpose}, {"doubled", 16, transpose}, {"of a result", 16, transpose},
                     {"channels last", 24, last}),
              0, DEVICES);
    free(x);
    free(z);
}

/* ndif-team/nnsight#719, vllm#36242, tt-metal#52818: two projections in one, halved on each device by itself:
 * [352,475,952,1147]. */
static void halves_of_a_fused_projection(void **state)
{
    (void)state;
    ein_graph *g = graph_new();
    ein_tensor y = ein_einsum(g, "k,kn->n", 2, (ein_tensor[]){INPUT(g, "x", 2), PARAMETER(g, "w", 2, 8)});
    ein_output(g, "y", ein_mul(g, ein_slice(g, y, 0, 0, 4), ein_slice(g, y, 0, 4, 8)));
    try_plans(g, GIVEN(NUMBERS("x", 1, 2), NUMBERS("w", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)),
              WANTED(NUMBERS("y", 448, 589, 748, 925)), 0, (int[]){2, 4, 0});
}

/* pytorch#138742, pytorch#139134, jax#39309: a grid of devices with an axis of 1. Numbered plans have some; here are
 * all of a product. */
static void grids_with_an_axis_of_one(void **state)
{
    (void)state;
    ein_graph *g = graph_new();
    const char *const labels = "mkn";
    double *x = ramp(16, 0, 1);
    plan_case k = {.graph = g,
                   .given = (numbers[]){{"a", 16, x}, {"b", 16, x}, {0}},
                   .wanted = WANTED(NUMBERS("y", 56, 62, 68, 74, 152, 174, 196, 218, 248, 286, 324, 362, 344, 398, 452, 506))};
    ein_output(g, "y", ein_einsum(g, "mk,kn->mn", 2, (ein_tensor[]){PARAMETER(g, "a", 4, 4), PARAMETER(g, "b", 4, 4)}));
    for (int devices = 1; devices <= 4; devices++) {
        char machine[32];
        snprintf(machine, sizeof machine, "host:%d", devices);
        ein_context *c = open_context(machine, NULL);
        for (int i = 0; i < 9; i++) {
            const char by[4] = {labels[i / 3], ',', labels[i % 3], 0};
            if (i / 3 == i % 3) continue;
            plan_draft d;
            draft_make(&d, g, devices);
            draft_cut(&d, "einsum", 0, by, i % 4 < 2 ? (int[]){1, devices} : (int[]){devices, 1}, NULL);
            draft_lay(&d, "a", i % 2, devices, NULL);
            char *plan = draft_text(&d);
            run_plan(c, &k, plan, by);
            free(plan);
        }
        ein_context_free(c);
    }
    free(x);
    ein_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(view_across_a_cut),           cmocka_unit_test(flatten_with_an_empty_part),
        cmocka_unit_test(running_sum),                 cmocka_unit_test(concatenation),
        cmocka_unit_test(slices_across_parts),         cmocka_unit_test(expand_of_one_row),
        cmocka_unit_test(product_over_nothing),        cmocka_unit_test(fewer_elements_than_devices),
        cmocka_unit_test(transposed_and_sent),         cmocka_unit_test(halves_of_a_fused_projection),
        cmocka_unit_test(grids_with_an_axis_of_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
