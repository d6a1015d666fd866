/* SPDX-License-Identifier: Apache-2.0 */
/* Whole transformer blocks with the head counts of published models: as good as the reference on any number
 * of devices, the same bits twice, and not a byte between devices that was not predicted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/harness/small_llama.h"
#include "tests/harness/trial.h"

static int directory_up(void **state) { return (*state = make_directory()) == NULL; }

static int directory_down(void **state)
{
    remove_directory(*state);
    return 0;
}

static void check_block(const small_llama *m, int from, int to, int step, const char *cache)
{
    ein_graph *g = small_llama_graph(m);
    for (int devices = from; devices <= to; devices += step) {
        char machine[16];
        snprintf(machine, sizeof machine, "host:%d", devices);
        trial_once(g, machine, cache, NULL);
    }
    ein_graph_free(g);
}

/* 32 heads. */
static void llama_7b(void **state)
{
    check_block(&(small_llama){.hidden = 64,
                               .heads = 32,
                               .kv_heads = 32,
                               .head_size = 2,
                               .ffn = 172,
                               .layers = 1,
                               .batch = 2,
                               .seq = 5},
                1, 9, 4, *state);
}

/* 32 heads over 8 of keys and values: a cut of the query heads is a cut of kv head x group. */
static void llama3_8b(void **state)
{
    check_block(&(small_llama){.hidden = 128,
                               .heads = 32,
                               .kv_heads = 8,
                               .head_size = 4,
                               .ffn = 56,
                               .layers = 1,
                               .batch = 1,
                               .seq = 6},
                2, 8, 3, *state);
}

/* 64 heads over 8. */
static void llama2_70b(void **state)
{
    check_block(&(small_llama){.hidden = 128,
                               .heads = 64,
                               .kv_heads = 8,
                               .head_size = 2,
                               .ffn = 112,
                               .layers = 1,
                               .batch = 1,
                               .seq = 6},
                3, 7, 4, *state);
}

/* Three layers, rolled, behind an embedding and before a head; devices that divide nothing. */
static void whole_model(void **state)
{
    check_block(&(small_llama){.hidden = 32,
                               .heads = 8,
                               .kv_heads = 4,
                               .head_size = 4,
                               .ffn = 44,
                               .layers = 3,
                               .vocabulary = 29,
                               .batch = 2,
                               .seq = 7},
                4, 6, 2, *state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(llama_7b, directory_up, directory_down),
        cmocka_unit_test_setup_teardown(llama3_8b, directory_up, directory_down),
        cmocka_unit_test_setup_teardown(llama2_70b, directory_up, directory_down),
        cmocka_unit_test_setup_teardown(whole_model, directory_up, directory_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
