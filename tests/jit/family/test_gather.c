/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/jit/family/rig.h"

#define N(...) (const i64[]){__VA_ARGS__}
enum { BATCH = GATHER_LABELS };

/* Ids all over a table of 3 * v rows, of which the block has rows [v, 2v); labels rows, v, d, and a batch. */
static void check(ein_dtype ids, ein_dtype dtype, const i64 *len, const i64 *id_strides, const i64 *table_strides,
                  const i64 *strides, job_mode mode)
{
    rig r;
    i64 at[4] = {0}, v = len[GATHER_V];
    rig_begin(&r, OP_GATHER, 4, len, N(0, v, 0, 0));
    view *x = rig_in_typed(&r, ids, id_strides, 1);
    for (i64 i = 0; i < r.sizes[0]; i++) rig_set(&r, x, i, (double)((i * 7 + 2) % (3 * v + 1)));
    view *table = rig_in_typed(&r, dtype, table_strides, 3);
    view *y = rig_out_typed(&r, dtype, strides, 2);
    rig_merge_typed(&r, MERGE_SUM, 1, dtype);
    r.job.mode = mode;
    double *want = rig_expected(&r, y);
    r.job.box.len[GATHER_V] = 1;
    do {
        if (!rig_any(&r)) break;
        i64 id = (i64)rig_get(&r, x, rig_index(&r, x, at)) - v;
        const i64 source[] = {at[GATHER_ROWS], id, at[GATHER_D], at[BATCH]};
        want[rig_index(&r, y, at)] = id >= 0 && id < v ? rig_get(&r, table, rig_index(&r, table, source)) : 0;
    } while (rig_next(&r, at));
    r.job.box.len[GATHER_V] = v;
    rig_run(&r);
    rig_compare(&r, y, want, 0);
    ein__free(want);
    rig_end(&r);
}

/* A table's rows, contiguous or columns; ids apart. */
static void embedding(ein_dtype ids, ein_dtype dtype, i64 rows, i64 v, i64 d, bool unit)
{
    check(ids, dtype, N(rows, v, d, 1), N(2, 0, 0, 0), unit ? N(0, d + 1, 1, 0) : N(0, 1, v, 0),
          unit ? N(d, 0, 1, 0) : N(1, 0, rows, 0), unit ? JOB_STATES : JOB_FINAL);
}

static void rows(void **state)
{
    (void)state;
    for (int wide = 0; wide < 2; wide++)
        for (int unit = 0; unit < 2; unit++) {
            embedding(wide ? EIN_I64 : EIN_I32, EIN_F32, 50, 5, 300, unit);
            embedding(wide ? EIN_I64 : EIN_I32, EIN_F32, 9, 4, 3, unit);
            embedding(wide ? EIN_I64 : EIN_I32, EIN_F32, 0, 4, 3, unit);
            embedding(wide ? EIN_I64 : EIN_I32, EIN_F32, 4, 3, 0, unit);
            embedding(wide ? EIN_I64 : EIN_I32, EIN_F32, 4, 0, 5, unit);
        }
    embedding(EIN_I64, EIN_F32, 3, 5, 2500, true);
}

static void types(void **state)
{
    static const ein_dtype tables[] = {EIN_BF16, EIN_F64, EIN_I8, EIN_I64, EIN_BOOL};
    (void)state;
    for (int i = 0; i < 5; i++) embedding(EIN_I32, tables[i], 20, 6, 70, true);
}

/* Every batch has ids and a table of its own: elements of a row, and whole rows. */
static void batches(void **state)
{
    (void)state;
    for (int lane = 0; lane < 2; lane++) {
        i64 d = lane ? 80 : 1, n = 40;
        check(EIN_I64, EIN_F32, N(n, 9, d, 5), N(1, 0, 0, n), N(0, d, 1, 9 * d), N(d, 0, 1, n * d), JOB_FINAL);
        check(EIN_I32, EIN_BF16, N(n, 9, d, 5), N(5, 0, 0, 1), N(0, 5 * d, 5, 1), N(5 * d, 0, 5, 1), JOB_FINAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows), cmocka_unit_test(types), cmocka_unit_test(batches)};
    return cmocka_run_group_tests(tests, NULL, rig_unload);
}
