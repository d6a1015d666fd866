/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/jit/family/rig.h"

#define N(...) (const i64[]){__VA_ARGS__}
enum { B, T, D, S };

/* A state block with places [lo, lo + 6) of the axis; `rows` rows at `position`. */
static void check(ein_dtype dtype, i64 lo, i64 rows, i64 position, i64 d, int layout)
{
    rig r;
    i64 at[4] = {0};
    rig_begin(&r, OP_APPEND, 4, N(3, 6, d, rows), N(0, lo, 0, 0));
    const i64 *places = layout == 0 ? N(6 * d + 2, d, 1, 0) : N(1, 3, 18, 0);
    rig_in_typed(&r, dtype, places, 4);
    view *x = rig_in_typed(&r, dtype, layout == 0 ? N(rows * d, 0, 1, d) : N(1, 0, 3, 3 * d), 1);
    rig_out_typed(&r, dtype, places, 4);
    r.node.append_t = T;
    r.node.append_s = S;
    r.node.scalar = layout == 0 ? 2 : -1;
    r.scalars[2] = position;
    if (layout == 1) position = 0;
    double *want = rig_expected(&r, &r.job.out[0]);
    for (at[B] = 0; at[B] < 3; at[B]++)
        for (at[D] = 0; at[D] < d; at[D]++)
            for (at[S] = 0; at[S] < rows; at[S]++) {
                at[T] = position + at[S] - lo;
                if (at[T] >= 0 && at[T] < 6)
                    want[rig_index(&r, &r.job.out[0], at)] = rig_get(&r, x, rig_index(&r, x, at));
            }
    rig_run(&r);
    rig_compare(&r, &r.job.out[0], want, 0);
    for (int i = 0; i < r.launch.n_args; i++)
        assert_int_not_equal(r.launch.args[i].kind == ARG_POINTER ? r.launch.args[i].place.index : -1, 0);
    ein__free(want);
    rig_end(&r);
}

static void rows(void **state)
{
    (void)state;
    for (int layout = 0; layout < 2; layout++)
        for (i64 lo = 0; lo < 13; lo += 6)
            for (i64 position = 0; position < 20; position += 5) {
                check(EIN_F32, lo, 4, position, 40, layout);
                check(EIN_F32, lo, 1, position, 7, layout);
                check(EIN_F32, lo, 9, position, 1, layout);
                check(EIN_F32, lo, 0, position, 5, layout);
                check(EIN_F32, lo, 3, position, 0, layout);
            }
    for (int layout = 0; layout < 2; layout++) {
        check(EIN_BF16, 6, 4, 5, 40, layout);
        check(EIN_I64, 6, 4, 9, 7, layout);
        check(EIN_I8, 0, 9, 2, 40, layout);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows)};
    return cmocka_run_group_tests(tests, NULL, rig_unload);
}
