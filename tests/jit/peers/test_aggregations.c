/* SPDX-License-Identifier: Apache-2.0 */
/* Sums, means, maxima and norms of which every device has a part. */
#include "tests/jit/peers/peers.h"

/* pytorch#165962, pytorch#149768, pytorch#163193: a step that is not linear was applied to each partial sum. Cut
 * along k, they are [6,-3] and [-5,-20]. */
static void nonlinear_step_before_the_sum(void **state)
{
    (void)state;
    ein_graph *g = graph_new();
    ein_tensor p = ein_matmul(g, PARAMETER(g, "a", 1, 2), PARAMETER(g, "b", 2, 2));
    ein_output(g, "product", p);
    ein_output(g, "relu", ein_relu(g, p));
    ein_output(g, "max", ein_amax(g, p, 1, (int[]){1}, 0));
    ein_output(g, "plus", ein_map(g, "x0 + 1", 1, &p));
    try_plans(g, GIVEN(NUMBERS("a", 3, -5), NUMBERS("b", 2, -1, 1, 4)),
              WANTED(NUMBERS("product", 1, -23), NUMBERS("relu", 1, 0), NUMBERS("max", 1), NUMBERS("plus", 2, -22)), 0,
              (int[]){2, 0});
}

static ein_graph *scaled(const char *expression)
{
    ein_graph *g = graph_new();
    ein_tensor p = ein_matmul(g, PARAMETER(g, "a", 1, 2), PARAMETER(g, "b", 2, 2));
    ein_output(g, "y", ein_map(g, expression, 1, &p));
    return g;
}

/* pytorch#147180: two kernels that differed in a constant were one in a cache. Here they share a process, a cache and
 * the plan; the third and fourth program come out of the cache. */
static void constants_in_one_cache(void **state)
{
    (void)state;
    const numbers *given = GIVEN(NUMBERS("a", 3, -5), NUMBERS("b", 2, -1, 1, 4));
    ein_graph *first = scaled("-5 * x0"), *second = scaled("2 * x0");
    plan_case cases[2] = {{.graph = first, .given = given, .wanted = WANTED(NUMBERS("y", -5, 115))},
                          {.graph = second, .given = given, .wanted = WANTED(NUMBERS("y", 2, -46))}};
    for (int devices = 1; devices <= 3; devices++) {
        char machine[32], what[64], *cache = make_directory();
        snprintf(machine, sizeof machine, "host:%d", devices);
        ein_context *c = open_context(machine, cache);
        for (int i = 0, n = plan_count(first, devices); i < n; i++) {
            char *plan = plan_text(first, devices, i), *same = plan_text(second, devices, i);
            assert_string_equal(plan, same);
            for (int k = 0; k < 4; k++) {
                snprintf(what, sizeof what, "%s, plan %d, program %d", machine, i, k);
                run_plan(c, &cases[k % 2], k < 2 || i < 2 ? plan : NULL, what); /* NULL: what the search finds */
            }
            free(plan);
            free(same);
        }
        ein_context_free(c);
        remove_directory(cache);
    }
    ein_graph_free(first);
    ein_graph_free(second);
}

/* pytorch#162692: a mean of means of uneven parts (6.5), and of parts some of which are empty (NaN). */
static void mean_of_uneven_parts(void **state)
{
    (void)state;
    ein_graph *g = graph_new();
    ein_output(g, "all", ein_mean(g, PARAMETER(g, "x", 3, 4), 0, NULL, 0));
    ein_output(g, "rows", ein_mean(g, PARAMETER(g, "x1", 3, 4), 1, (int[]){0}, 0));
    ein_output(g, "flat", ein_mean(g, PARAMETER(g, "z", 1, 4), 0, NULL, 0));
    try_plans(g,
              GIVEN(NUMBERS("x", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), NUMBERS("x1", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
                    NUMBERS("z", 0, 1, 2, 3)),
              WANTED(NUMBERS("all", 5.5), NUMBERS("rows", 4, 5, 6, 7), NUMBERS("flat", 1.5)), 0, (int[]){2, 0});
}

/* pytorch#172288, pytorch#159856: the norms were summed before they were complete (17.888). */
static void norm_then_sum(void **state)
{
    (void)state;
    ein_graph *g = graph_new();
    ein_tensor x = PARAMETER(g, "x", 2, 2);
    ein_tensor norms = ein_sqrt(g, ein_sum(g, ein_mul(g, x, x), 1, (int[]){0}, 0));
    ein_output(g, "norms", norms);
    ein_output(g, "sum", ein_sum(g, norms, 0, NULL, 0));
    try_plans(g, GIVEN(NUMBERS("x", 3, 5, 4, 12)), WANTED(NUMBERS("norms", 5, 13), NUMBERS("sum", 18)), 0, (int[]){2, 0});
}

/* pytorch#173936, pytorch#168940: indices of the parts were merged as if they were those of the whole. */
static void argmax_is_global(void **state)
{
    (void)state;
    ein_graph *g = graph_new();
    ein_tensor m = PARAMETER(g, "m", 4, 4), n = PARAMETER(g, "n", 4, 4), top[2];
    ein_output(g, "first", ein_argmax(g, PARAMETER(g, "x", 4), 0, 0));
    ein_output(g, "tied", ein_argmax(g, PARAMETER(g, "t", 4), 0, 0));
    ein_output(g, "tied below", ein_argmin(g, PARAMETER(g, "u", 4), 0, 0));
    ein_output(g, "max", ein_amax(g, m, 1, (int[]){1}, 0));
    ein_output(g, "column", ein_argmax(g, m, 1, 0));
    ein_topk(g, n, 2, 1, 0, top);
    ein_output(g, "top values", top[0]);
    ein_output(g, "top columns", top[1]);
    try_plans(g,
              GIVEN(NUMBERS("x", 10, 5, 3, 8), NUMBERS("t", 7), NUMBERS("u", 7),
                    NUMBERS("m", 1, 9, 2, 3, 4, 4, 8, 4, 0, 0, 0, 5, 6, 1, 6, 2),
                    NUMBERS("n", 1, 9, 2, 3, 4, 4, 8, 4, 0, 0, 0, 5, 6, 1, 6, 2)),
              WANTED(NUMBERS("first", 0), NUMBERS("tied", 0), NUMBERS("tied below", 0), NUMBERS("max", 9, 8, 5, 6),
                     NUMBERS("column", 1, 2, 3, 0), NUMBERS("top values", 9, 3, 8, 4, 5, 0, 6, 6),
                     NUMBERS("top columns", 1, 3, 2, 0, 3, 0, 0, 2)),
              0, DEVICES);
}

/* huggingface/text-generation-inference#1036, awslabs/slapo#10, Wenyueh/MinivLLM#80: the bias was added once per
 * partial sum. */
static void bias_once(void **state)
{
    (void)state;
    ein_graph *g = graph_new();
    ein_output(g, "y", ein_linear(g, PARAMETER(g, "x", 2, 4), PARAMETER(g, "w", 3, 4),
                                  PARAMETER(g, "b", 3)));
    try_plans(g,
              GIVEN(NUMBERS("x", 1, 2, 3, 4, 5, 6, 7, 8), NUMBERS("w", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12),
                    NUMBERS("b", 100, 200, 300)),
              WANTED(NUMBERS("y", 130, 270, 410, 170, 374, 578)), 0, (int[]){2, 4, 0});
}

/* ---- narrow partial sums ---- */

static ein_graph *narrow_sum(void)
{
    ein_graph *g = graph_new();
    ein_output(g, "y", ein_sum(g, ein_parameter(g, "x", EIN_BF16, SHAPE(8)), 0, NULL, 0));
    return g;
}

/* One element per device, `at` of the eight the large one, the devices in the order of a permutation. */
static void narrow_order(ein_context *c, const ein_graph *g, int at, dice *d, ein_dtype wire)
{
    double x[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    int order[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    char what[64];
    plan_draft draft;
    x[at] = 256;
    for (int i = 7; i > 0; i--) {
        int j = dice_below(d, i + 1), other = order[j];
        order[j] = order[i];
        order[i] = other;
    }
    draft_make(&draft, g, 8);
    draft_cut(&draft, "sum", 0, "d0", (int[]){8}, order);
    if (at % 2 == 1) draft_lay(&draft, "x", 0, 8, order);
    char *plan = draft_text(&draft);
    snprintf(what, sizeof what, "256 at %d, wire %d", at, (int)wire);
    run_plan(c, &(plan_case){.graph = g, .given = (numbers[]){{"x", 8, x}, {0}}, .wanted = WANTED(NUMBERS("y", 264)), .wire = wire},
             plan, what);
    free(plan);
}

/* NVIDIA/TensorRT-LLM#16753, NVIDIA/Megatron-LM#6199, NVIDIA/TransformerEngine#1761, pytorch#144359: partial sums of
 * bf16 were added in bf16, which gives 256, 260, 262 or 264, by their order. 263 rounded once is 264. */
static void narrow_partials_are_added_wide(void **state)
{
    (void)state;
    dice d = dice_make(7, 0);
    ein_graph *g = narrow_sum();
    ein_context *c = open_context("host:8", NULL);
    for (int at = 0; at < 8; at++)
        for (int wide = 0; wide < 2; wide++)
            for (int i = 0; i < 2; i++) narrow_order(c, g, at, &d, wide ? EIN_F32 : 0);
    ein_context_free(c);
    plan_case k = {.graph = g, .wire = EIN_F32, .wanted = WANTED(NUMBERS("y", 264))};
    k.given = GIVEN(NUMBERS("x", 256, 1, 1, 1, 1, 1, 1, 1));
    each_device_count(&k, (int[]){3, 8, 0}); /* any number of partials, if they travel unrounded */
    k.given = GIVEN(NUMBERS("x", 1, 1, 1, 1, 1, 1, 1, 256));
    each_plan(&k, 8);
    ein_graph_free(g);
}

/* ---- */

/* NVIDIA/Megatron-LM#1754: a vocabulary that does not divide was padded, and the padding counted (ln 8). */
static void vocabulary_of_seven(void **state)
{
    (void)state;
    ein_graph *g = graph_new();
    ein_output(g, "y", ein_cross_entropy(g, PARAMETER(g, "logits", 7, 7), ein_input(g, "t", EIN_I64, SHAPE(7))));
    try_plans(g, GIVEN(NUMBERS("logits", 0), NUMBERS("t", 0, 1, 2, 3, 4, 5, 6)), WANTED(NUMBERS("y", 1.945910149)), 1e-6,
              (int[]){2, 3, 4, 0});
}

/* pytorch#166598: the index of the sum over both axes of a 2x2 grid, nested one way for one operand and the other way
 * for the other. */
static void nesting_of_two_axes(void **state)
{
    (void)state;
    static const int orders[2][4] = {{0, 1, 2, 3}, {0, 2, 1, 3}};
    static const char *const by[] = {"k", "k,n", "n,k", "m,k", "k,m"};
    ein_graph *g = graph_new();
    ein_output(g, "y", ein_einsum(g, "mk,kn->mn", 2, (ein_tensor[]){PARAMETER(g, "a", 4, 4),
                                                                    PARAMETER(g, "b", 4, 4)}));
    double *x = ramp(16, 0, 1);
    plan_case k = {.graph = g,
                   .given = (numbers[]){{"a", 16, x}, {"b", 16, x}, {0}},
                   .wanted = WANTED(NUMBERS("y", 56, 62, 68, 74, 152, 174, 196, 218, 248, 286, 324, 362, 344, 398, 452, 506))};
    ein_context *c = open_context("host:4", NULL);
    for (int i = 0; i < 5; i++)
        for (int a = 0; a < 2; a++)
            for (int b = 0; b < 2; b++) {
                char what[64];
                plan_draft d;
                draft_make(&d, g, 4);
                draft_lay(&d, "a", 1, 4, orders[a]);
                draft_lay(&d, "b", 0, 4, orders[b]);
                draft_cut(&d, "einsum", 0, by[i], i == 0 ? (int[]){4} : (int[]){2, 2}, orders[(a + b + i) % 2]);
                char *plan = draft_text(&d);
                snprintf(what, sizeof what, "cut along %s, layouts %d and %d", by[i], a, b);
                run_plan(c, &k, plan, what);
                free(plan);
            }
    ein_context_free(c);
    each_device_count(&k, (int[]){4, 0});
    free(x);
    ein_graph_free(g);
}

/* Of a sum of [6,4] over its columns on 4 devices: uncut; rows in 2 1 2 1 and in 2 2 2 0; columns; 2 by 2, either way. */
static void plans_are_enumerated(void **state)
{
    (void)state;
    enum { PLANS = 6 };
    char *plans[PLANS];
    ein_graph *g = graph_new();
    ein_output(g, "y", ein_sum(g, PARAMETER(g, "x", 6, 4), 1, (int[]){1}, 0));
    if (getenv("EIN_PLANS") == NULL) assert_int_equal(plan_count(g, 4), PLANS);
    assert_int_equal(plan_count(g, 1), 1);
    for (int i = 0; i < PLANS; i++) {
        plans[i] = plan_text(g, 4, i);
        char *again = plan_text(g, 4, i);
        assert_string_equal(plans[i], again);
        free(again);
        for (int k = 0; k < i; k++) assert_string_not_equal(plans[i], plans[k]);
    }
    assert_non_null(strstr(plans[0], "\"cuts\":[]"));
    assert_non_null(strstr(plans[1], "\"at\":[0,2,3,5,6]"));
    assert_non_null(strstr(plans[2], "\"at\":[0,2,4,6,6]"));
    assert_non_null(strstr(plans[3], "\"at\":[0,1,2,3,4]"));
    assert_non_null(strstr(plans[4], "\"labels\":[\"d0\"],\"at\":[0,3,6]"));
    for (int i = 0; i < PLANS; i++) free(plans[i]);
    ein_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_are_enumerated),
        cmocka_unit_test(nonlinear_step_before_the_sum), cmocka_unit_test(constants_in_one_cache),
        cmocka_unit_test(mean_of_uneven_parts),          cmocka_unit_test(norm_then_sum),
        cmocka_unit_test(argmax_is_global),              cmocka_unit_test(bias_once),
        cmocka_unit_test(narrow_partials_are_added_wide), cmocka_unit_test(vocabulary_of_seven),
        cmocka_unit_test(nesting_of_two_axes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
