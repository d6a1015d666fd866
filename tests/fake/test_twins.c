/* SPDX-License-Identifier: Apache-2.0 */
/* Every construct of the dialect in the fiber reading: clean, and with the bits of the host reading. The collectives of
 * fibers are CUDA's own text, so the trees of the readings are one. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/core/kernel/unit.h"
#include "tests/fake/fiber_twin.h"

enum { ELEMENTS = 8192, BLOCKS = 3 };

/* Memory that the bodies read and write, as large as any of them needs. */
static twin_memory block_of(ein_dtype dtype, bool reads, bool writes)
{
    const size_t n = ELEMENTS * (size_t)N_FUNCTIONS;
    twin_memory m = {.bytes = n * (size_t)ein__dtype_bytes(dtype), .reads = reads, .writes = writes, .dtype = dtype};
    m.base = get(n, (size_t)ein__dtype_bytes(dtype));
    uint64_t seed = 9;
    for (size_t i = 0; i < n && reads; i++) {
        const double x = (double)draw(&seed) - 0x1p30;
        ein__dtype_write(dtype, dtype == EIN_I64 ? x : x * 0x1p-26, (char *)m.base + i * (size_t)ein__dtype_bytes(dtype));
    }
    return m;
}

static void both(const char *body, int threads, void **args, twin_memory *m, int n)
{
    unit u;
    kernel_text k;
    const kernel_text *list[] = {&k};
    fiber_module *fibers;
    text why = {0};
    const long long grid[] = {BLOCKS, 1, 1};
    build_one(&u, body, threads, false);
    assert_int_equal(ein__kernel_make(&u.a, body, threads, &k), EIN_OK);
    if (!twin_compile(list, 1, &fibers, &why) || !twin_run(fibers, &k, grid, args, m, n, &why))
        fail_msg("%d threads: %s\n%s", threads, ein__text_get(&why), body);
    u.entry[0](args, grid[0], grid[1], grid[2], NULL);
    if (!twin_compare(m, n, &why)) fail_msg("%d threads: %s\n%s", threads, ein__text_get(&why), body);
    fiber_unload(fibers);
    drop(&u);
    for (int i = 0; i < n; i++) ein__free(m[i].base);
}

static const int threads_of[] = {32, 64, 128, 256, 512, 1024};

static void test_collectives(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        int64_t n = 1500, rows = BLOCKS;
        twin_memory m[] = {block_of(EIN_F32, true, false), block_of(EIN_F32, false, true), block_of(EIN_F32, false, true)};
        both(body_rows, threads_of[i], (void *[]){&m[0].base, &m[1].base, &m[2].base, &n, &rows}, m, 3);
        twin_memory w[] = {block_of(EIN_F64, true, false), block_of(EIN_I64, true, false),
                           block_of(EIN_F64, false, true), block_of(EIN_I64, false, true)};
        both(body_wide_sums, threads_of[i], (void *[]){&w[0].base, &w[1].base, &w[2].base, &w[3].base}, w, 4);
    }
}

/* Tiles through shared memory; guards, `continue`, `else`. */
static void test_phases(void **state)
{
    (void)state;
    float scale = 3.0f;
    int64_t turns = 2, n = 60, width = 64;
    twin_memory m[] = {block_of(EIN_F32, true, false), block_of(EIN_F32, false, true)};
    both(body_tile, 256, (void *[]){&m[0].base, &m[1].base, &scale, &turns}, m, 2);
    twin_memory y[] = {block_of(EIN_I32, true, true)};
    both(body_guards, 96, (void *[]){&y[0].base, &n, &width}, y, 1);
}

static void test_functions(void **state)
{
    (void)state;
    int64_t n = 300;
    twin_memory m[] = {block_of(EIN_F32, true, false), block_of(EIN_F32, true, false), block_of(EIN_F32, false, true)};
    both(body_functions, 128, (void *[]){&m[0].base, &m[1].base, &m[2].base, &n}, m, 3);
    twin_memory d[] = {block_of(EIN_F64, true, false), block_of(EIN_F64, true, false), block_of(EIN_F64, false, true)};
    both(body_doubles, 128, (void *[]){&d[0].base, &d[1].base, &d[2].base, &n}, d, 3);
    twin_memory i[] = {block_of(EIN_I64, true, false), block_of(EIN_I64, true, false), block_of(EIN_I64, false, true),
                       block_of(EIN_F32, true, false), block_of(EIN_F32, true, false), block_of(EIN_F32, false, true)};
    both(body_integers, 128,
         (void *[]){&i[0].base, &i[1].base, &i[2].base, &i[3].base, &i[4].base, &i[5].base, &n}, i, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_collectives), cmocka_unit_test(test_phases),
                                       cmocka_unit_test(test_functions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
