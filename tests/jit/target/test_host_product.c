/* SPDX-License-Identifier: Apache-2.0 */
/* Products of all element types. Operands are small whole numbers, so sums are exact in f32, and every element of
 * the result is the exact sum rounded once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "jit/target/host.h"

static host_product *product;

static int open_product(void **state)
{
    error e = {0};
    (void)state;
    if (ein__host_product_open(&product, &e) != EIN_OK) {
        print_message("skipped: %s\n", e.line);
        exit(77);
    }
    ein__host_product_thread(product);
    return 0;
}

static int close_product(void **state)
{
    (void)state;
    ein__host_product_close(product);
    return 0;
}

/* A matrix of `batch` times rows x cols, stored as it is or exchanged, with a gap after each stored row. */
typedef struct matrix {
    ein_dtype type;
    i64 rows, cols, leading, batch_step;
    bool exchanged;
    char *data;
} matrix;

static void make_matrix(matrix *x, ein_dtype type, i64 batch, i64 rows, i64 cols, bool exchanged, uint32_t seed)
{
    *x = (matrix){.type = type, .rows = rows, .cols = cols, .exchanged = exchanged};
    x->leading = (exchanged ? rows : cols) + 3;
    x->batch_step = x->leading * (exchanged ? cols : rows) + 5;
    x->data = ein__calloc((size_t)(batch * x->batch_step), (size_t)ein__dtype_bytes(type));
    assert_non_null(x->data);
    for (i64 i = 0; i < batch * x->batch_step; i++) {
        seed = seed * 1664525u + 1013904223u;
        ein__dtype_write(type, (double)(seed >> 24) / 256 * 9 - 4 > 0 ? (seed >> 24) % 5 : -(double)((seed >> 24) % 4),
                         x->data + i * ein__dtype_bytes(type));
    }
}

static double get(const matrix *x, i64 batch, i64 row, i64 col)
{
    i64 at = batch * x->batch_step + (x->exchanged ? col * x->leading + row : row * x->leading + col);
    return ein__dtype_read(x->type, x->data + at * ein__dtype_bytes(x->type));
}

static void check(i64 batch, i64 m, i64 n, i64 k, bool ta, bool tb, const ein_dtype types[3])
{
    matrix a, b, c;
    make_matrix(&a, types[0], batch, m, k, ta, 1);
    make_matrix(&b, types[1], batch, k, n, tb, 2);
    make_matrix(&c, types[2], batch, m, n, false, 3);
    gemm g = {.m = m, .n = n, .k = k, .lda = a.leading, .ldb = b.leading, .ldc = c.leading, .ta = ta, .tb = tb,
              .type_a = types[0], .type_b = types[1], .type_c = types[2]};
    if (batch > 1) {
        g.n_batch = 1;
        g.batch[0] = batch;
        g.stride_a[0] = a.batch_step;
        g.stride_b[0] = b.batch_step;
        g.stride_c[0] = c.batch_step;
    }
    i64 floats = ein__host_product_scratch(&g), gap = m > 0 ? n : 0;
    double kept = get(&c, 0, 0, gap);
    float *scratch = floats > 0 ? ein__aligned(64, (size_t)floats * sizeof *scratch) : NULL;
    assert_true(floats == 0 || scratch != NULL);
    assert_int_equal(floats == 0, types[0] == EIN_F32 && types[1] == EIN_F32 && types[2] == EIN_F32);
    assert_true(floats * 4 <= 4 << 20);
    assert_int_equal(ein__host_product_run(product, &g, scratch, a.data, b.data, c.data), EIN_OK);
    for (i64 x = 0; x < batch; x++)
        for (i64 i = 0; i < m; i += m > 50 ? 37 : 1)
            for (i64 j = 0; j < n; j += n > 50 ? 23 : 1) {
                double sum = 0;
                char rounded[8];
                for (i64 t = 0; t < k; t++) sum += get(&a, x, i, t) * get(&b, x, t, j);
                ein__dtype_write(types[2], sum, rounded);
                assert_true(get(&c, x, i, j) == ein__dtype_read(types[2], rounded));
            }
    assert_true(get(&c, 0, 0, gap) == kept); /* between the rows */
    ein__free(a.data);
    ein__free(b.data);
    ein__free(c.data);
    ein__free(scratch);
}

static const ein_dtype all_types[] = {EIN_F32, EIN_BF16, EIN_F16};

static void test_types_and_orders(void **state)
{
    (void)state;
    for (int t = 0; t < 27; t++)
        for (int order = 0; order < 4; order++) {
            const ein_dtype types[3] = {all_types[t % 3], all_types[t / 3 % 3], all_types[t / 9]};
            check(1 + t % 2, 5, 7, 11, order & 1, order & 2, types);
            check(1, 1, 9, 4, order & 1, order & 2, types);
        }
}

/* More than one block each way, and ends of blocks. */
static void test_blocks(void **state)
{
    (void)state;
    for (int t = 0; t < 27; t += 5)
        for (int order = 0; order < 4; order++) {
            const ein_dtype types[3] = {all_types[t % 3], all_types[t / 3 % 3], all_types[t / 9]};
            check(1, 515, 530, 1030, order & 1, order & 2, types);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_types_and_orders), cmocka_unit_test(test_blocks)};
    return cmocka_run_group_tests(tests, open_product, close_product);
}
