/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/jit/family/rig.h"

#define N(...) (const i64[]){__VA_ARGS__}

/* Ids all over a table of 3 * v rows, of which the block has rows [v, 2v). */
static void check(ein_dtype ids, i64 rows, i64 v, i64 d, bool unit)
{
    rig r;
    i64 at[GATHER_LABELS] = {0};
    rig_begin(&r, OP_GATHER, GATHER_LABELS, N(rows, v, d), N(0, v, 0));
    view *x = &r.job.in[r.job.n_in++];
    *x = rig_view(&r, ids, N(2, 0, 0), 1);
    for (i64 i = 0; i < rows; i++) {
        i64 id = (i * 7 + 2) % (3 * v + 1);
        if (ids == EIN_I32) ((int32_t *)r.buffers[x->place.index])[1 + 2 * i] = (int32_t)id;
        else ((i64 *)r.buffers[x->place.index])[1 + 2 * i] = id;
    }
    view *table = rig_in(&r, unit ? N(0, d + 1, 1) : N(0, 1, v), 3);
    rig_out(&r, unit ? N(d, 0, 1) : N(1, 0, rows), 2);
    rig_merge(&r, MERGE_SUM, 1);
    r.job.mode = unit ? JOB_STATES : JOB_FINAL;
    double *want = rig_expected(&r, &r.job.out[0]);
    for (at[GATHER_ROWS] = 0; at[GATHER_ROWS] < rows; at[GATHER_ROWS]++)
        for (at[GATHER_D] = 0; at[GATHER_D] < d; at[GATHER_D]++) {
            i64 id = (at[GATHER_ROWS] * 7 + 2) % (3 * v + 1) - v;
            const i64 source[] = {at[GATHER_ROWS], id, at[GATHER_D]};
            want[rig_index(&r, &r.job.out[0], at)] =
                id >= 0 && id < v ? (double)rig_floats(&r, table)[rig_index(&r, table, source)] : 0;
        }
    rig_run(&r);
    rig_compare(&r, &r.job.out[0], want, 0);
    ein__free(want);
    rig_end(&r);
}

static void rows(void **state)
{
    (void)state;
    for (int wide = 0; wide < 2; wide++)
        for (int unit = 0; unit < 2; unit++) {
            check(wide ? EIN_I64 : EIN_I32, 50, 5, 300, unit);
            check(wide ? EIN_I64 : EIN_I32, 9, 4, 3, unit);
            check(wide ? EIN_I64 : EIN_I32, 0, 4, 3, unit);
            check(wide ? EIN_I64 : EIN_I32, 4, 3, 0, unit);
            check(wide ? EIN_I64 : EIN_I32, 4, 0, 5, unit);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows)};
    return cmocka_run_group_tests(tests, NULL, rig_unload);
}
