/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA target on the GPUs of this computer; skipped where there is none. What it is on, and who reads whose memory, is
 * printed. EIN_CASES random programs under random plans, by streams and as graphs. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/graph/canonical.h"
#include "jit/context.h"
#include "jit/target/cuda_target.h"
#include "tests/harness/check_program.h"
#include "tests/harness/random_plan.h"
#include "tests/harness/small_llama.h"
#include "tests/harness/trial.h"

enum { MOST_DEVICES = 5 };

/* A model on all GPUs, and on more devices than there are GPUs; the second run of each as a graph, if so. */
static void models(void **state)
{
    static const char *const machines[] = {"cuda", "cuda:1", "cuda:2", "cuda:5"};
    small_llama m = {.hidden = 256, .heads = 8, .kv_heads = 4, .head_size = 32, .ffn = 512, .layers = 4, .vocabulary = 101,
                     .batch = 2, .seq = 40, .cache = 64};
    (void)state;
    for (int i = 0; i < 8; i++) {
        ein_graph *g = small_llama_graph(&m);
        setenv("EIN_GRAPHS", i % 2 == 0 ? "0" : "1", 1);
        trial_once(g, machines[i / 2], NULL, NULL);
        ein_graph_free(g);
    }
}

static void check_seed(uint64_t seed)
{
    random_graph r;
    graph g = {.nodes = {0}};
    arena a = {NULL};
    plan p;
    text json = {0}, why = {0};
    char machine[16];
    int devices = 1 + (int)(seed % MOST_DEVICES);
    snprintf(machine, sizeof machine, "cuda:%d", devices);
    setenv("EIN_GRAPHS", seed % 2 == 0 ? "0" : "1", 1);
    assert_int_equal(random_graph_make(seed, 1 + (int)(seed % 9), &r), EIN_OK);
    assert_int_equal(ein__canonicalize(&r.graph->g, &g, NULL), EIN_OK);
    assert_int_equal(random_plan_make(&a, &g, seed, devices, NULL, &p), EIN_OK);
    assert_int_equal(ein__plan_print(&g, &p, &json), EIN_OK);
    program_case c = {.machine = machine, .graph = &r, .plan = json.bytes};
    if (!check_program(&c, &why)) fail_msg("EIN_SEED=%d on %s: %s\n%s", (int)seed, machine, why.bytes, json.bytes);
    ein__text_free(&json);
    ein__text_free(&why);
    ein__arena_free(&a);
    ein__arena_free(&g.arena);
    random_graph_free(&r);
}

static long from_environment(const char *name, long otherwise)
{
    const char *s = getenv(name);
    return s != NULL && s[0] != 0 ? strtol(s, NULL, 10) : otherwise;
}

static void random_programs(void **state)
{
    (void)state;
    long first = from_environment("EIN_SEED", 1), n = from_environment("EIN_CASES", getenv("EIN_SEED") != NULL ? 1 : 60);
    for (long i = 0; i < n; i++) check_seed((uint64_t)(first + i));
}

static void print_machine(const ein_context *c)
{
    const machine *m = &c->machine;
    for (int d = 0; d < m->n_devices; d++) {
        printf("GPU %d: %s, %.1f GB, reads", d, m->devices[d].architecture, m->devices[d].memory_bytes * 1e-9);
        for (int k = 0; k < m->n_devices; k++)
            if (ein__cuda_target_reads(c->target, d, k)) printf(" %d", k);
        printf("\n");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(models), cmocka_unit_test(random_programs)};
    char message[256] = "";
    ein_context *c = NULL;
    ein_context_options o = {.size = sizeof o, .machine = "cuda", .no_cache = 1, .message = message, .message_bytes = sizeof message};
    ein_status s = ein_context_create(&c, &o);
    if (s == EIN_NO_DEVICE) {
        printf("skipped: %s\n", message);
        return 77;
    }
    if (s != EIN_OK) {
        printf("%s\n", message);
        return 1;
    }
    print_machine(c);
    ein_context_free(c);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
