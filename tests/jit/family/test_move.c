/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/jit/family/rig.h"

#define N(...) (const i64[]){__VA_ARGS__}

static void check(rig *r)
{
    const view *out = &r->job.out[0];
    double *want = rig_expected(r, out);
    i64 at[MAX_LABELS] = {0};
    do
        for (int i = 0; i < r->job.n_in && rig_any(r); i++) {
            const view *in = &r->job.in[i];
            bool covered = true;
            for (int l = 0; l < r->node.spec.n_labels; l++)
                covered &= at[l] >= in->range_lo[l] && at[l] < in->range_hi[l];
            if (covered) want[rig_index(r, out, at)] = rig_get(r, in, rig_index(r, in, at));
        }
    while (rig_any(r) && rig_next(r, at));
    rig_run(r);
    rig_compare(r, out, want, 0);
    ein__free(want);
}

static void copies(void **state)
{
    (void)state;
    for (i64 n = 0; n < 3000; n = n * 7 + 1) {
        rig r;
        rig_begin(&r, OP_MOVE, 3, N(3, 2, n), NULL);
        rig_in(&r, N(2 * n + 4, n, 1), 4);
        rig_out(&r, N(2 * n, n, 1), 1);
        check(&r);
        rig_end(&r);
    }
}

static void permuted(void **state)
{
    (void)state;
    for (i64 n = 1; n < 200; n += 66) {
        rig r;
        rig_begin(&r, OP_MOVE, 3, N(4, n, 33), NULL);
        rig_in(&r, N(33 * n, 33, 1), 0);
        rig_out(&r, N(1, 4, 4 * n), 1);
        check(&r);
        rig_end(&r);
    }
}

/* Operands split the middle label; one has nothing of it. A view's first point is where label 0 would be,
 * which is before the operand's own first element. */
static void concatenated(void **state)
{
    static const struct { i64 lo, hi; } ranges[] = {{0, 3}, {3, 3}, {3, 10}, {10, 11}};
    (void)state;
    for (int inner = 0; inner < 2; inner++) {
        rig r;
        i64 d = inner ? 70 : 1;
        rig_begin(&r, OP_MOVE, 3, N(5, 11, d), NULL);
        for (int i = 0; i < 4; i++) {
            i64 n = ranges[i].hi - ranges[i].lo;
            view *v = rig_in(&r, N(n * d, d, 1), 2);
            ein__free(r.buffers[v->place.index]);
            r.sizes[v->place.index] = 2 + 5 * n * d;
            float *x = ein__calloc((size_t)r.sizes[v->place.index], sizeof *x);
            assert_non_null(x);
            r.buffers[v->place.index] = x;
            for (i64 k = 0; k < r.sizes[v->place.index]; k++) x[k] = rig_random();
            v->offset -= ranges[i].lo * d;
            v->range_lo[1] = ranges[i].lo;
            v->range_hi[1] = ranges[i].hi;
        }
        rig_out(&r, N(11 * d + 1, d, 1), 3);
        check(&r);
        for (int i = 0; i < r.launch.n_args; i++)
            if (r.launch.args[i].kind == ARG_POINTER) assert_true(r.launch.args[i].value >= 0);
        rig_end(&r);
    }
}

/* Bits are copied, of any type; backwards and by steps too. */
static void types(void **state)
{
    static const ein_dtype all[] = {EIN_F64, EIN_BF16, EIN_I8, EIN_I32, EIN_I64, EIN_BOOL};
    (void)state;
    for (int i = 0; i < 6; i++) {
        rig r;
        rig_begin(&r, OP_MOVE, 2, N(3, 50), NULL);
        rig_in_typed(&r, all[i], i % 2 == 0 ? N(100, -2) : N(-100, 2), i % 2 == 0 ? 98 : 200)->range_hi[1] = 30;
        view *x = rig_in_typed(&r, all[i], N(0, 1), 0);
        x->range_lo[1] = 30;
        if (all[i] == EIN_BF16) *(uint16_t *)rig_at(&r, x, 31) = 0x7f81;
        view *y = rig_out_typed(&r, all[i], N(50, 1), 1);
        check(&r);
        assert_memory_equal(rig_at(&r, x, 30), rig_at(&r, y, 31), 20 * (size_t)ein__dtype_bytes(all[i]));
        rig_end(&r);
    }
}

static void nothing_covered(void **state)
{
    rig r;
    (void)state;
    rig_begin(&r, OP_MOVE, 1, N(8), NULL);
    rig_in(&r, N(1), 0)->range_hi[0] = 0;
    rig_out(&r, N(1), 0);
    check(&r);
    assert_int_equal(r.launch.grid[0], 0);
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(copies), cmocka_unit_test(permuted),
                                       cmocka_unit_test(concatenated), cmocka_unit_test(types),
                                       cmocka_unit_test(nothing_covered)};
    return cmocka_run_group_tests(tests, NULL, rig_unload);
}
