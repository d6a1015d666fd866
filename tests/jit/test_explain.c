/* SPDX-License-Identifier: Apache-2.0 */
/* What a program says of itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ein.h"

/* y[1,n] = x[1,k] w[n,k], on a machine that is only planned. */
static ein_program *plan(ein_context **c, const char *machine, int64_t n, int64_t k)
{
    ein_graph *g;
    ein_program *p;
    assert_int_equal(ein_context_create(c, &(ein_context_options){.size = sizeof(ein_context_options), .machine = machine}),
                     EIN_OK);
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_tensor x = ein_input(g, "x", EIN_F32, 2, (int64_t[]){1, k}), w = ein_parameter(g, "w", EIN_F32, 2, (int64_t[]){n, k});
    ein_output(g, "y", ein_linear(g, x, w, (ein_tensor){0}));
    if (ein_compile(&p, *c, g, NULL) != EIN_OK) fail_msg("%s", ein_context_error(*c));
    ein_graph_free(g);
    return p;
}

static void assert_says(const char *machine, int64_t n, int64_t k, const char *what, bool says)
{
    ein_context *c;
    ein_program *p = plan(&c, machine, n, k);
    if ((strstr(ein_program_explain(p), what) != NULL) != says) fail_msg("%s", ein_program_explain(p));
    ein_program_free(p);
    ein_context_free(c);
}

/* 2^19 x 2^17 x 4 bytes = 274.88 GB: 68.72 GB on each of four cards of 40; seven would do. */
static void test_memory(void **state)
{
    (void)state;
    assert_says("4xpcie", 1 << 19, 1 << 17, "device 0 is 28.72 GB short of memory: 68.72 GB of weights and states and 0.00 GB of "
                                            "buffers, of 40.00 GB; 7 devices like it would hold them\n", true);
    assert_says("4xpcie", 1 << 17, 1 << 17, "short of memory", false);
}

/* Where nothing is limited the plan is proved, and says so. */
static void test_bound(void **state)
{
    (void)state;
    assert_says("4xpcie", 1 << 12, 1 << 12, "; no plan that was searched takes less than ", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory), cmocka_unit_test(test_bound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
