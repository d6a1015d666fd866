/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/jit/family/rig.h"

#define N(...) (const i64[]){__VA_ARGS__}

/* y[i] = sum over j of x[i, j] * (j + 1), j global. */
static const char weighted[] =
    "PRIV(float, sum);\n"
    "STEP { P(sum) = 0.0f; }\n"
    "for (i64 j = 0; j < n_j; j += THREADS)\n"
    "    STEP_N(n_j - j) {\n"
    "        P(sum) = k_fma(LD(x0, bx * s_x0_i + (j + tid) * s_x0_j), (float)(o_j + j + tid + 1), P(sum));\n"
    "    }\n"
    "BLOCK_SUM(total, sum);\n"
    "STEP_N(1) { ST(y0, bx * s_y0_i, total); }\n";

static void begin(rig *r, i64 rows, i64 cols, const char *grid)
{
    rig_begin(r, OP_CUSTOM, 2, N(rows, cols), N(0, 10));
    strcpy(r->node.spec.labels[0].name, "i");
    strcpy(r->node.spec.labels[1].name, "j");
    r->node.custom.name = "weighted";
    r->node.custom.kernel = weighted;
    r->node.custom.grid = grid;
    rig_in(r, N(cols + 1, 1), 2);
    rig_out(r, N(3, 0), 1);
    rig_merge(r, MERGE_SUM, 1);
    r->job.mode = JOB_STATES;
}

static void runs(void **state)
{
    (void)state;
    for (i64 cols = 0; cols < 700; cols = cols * 40 + 15) {
        rig r;
        begin(&r, 5, cols, "n_i");
        double *want = rig_expected(&r, &r.job.out[0]);
        for (i64 i = 0; i < 5; i++) {
            want[1 + 3 * i] = 0;
            for (i64 j = 0; j < cols; j++)
                want[1 + 3 * i] +=
                    (double)rig_floats(&r, &r.job.in[0])[2 + i * (cols + 1) + j] * (double)(j + 11);
        }
        rig_run(&r);
        rig_compare(&r, &r.job.out[0], want, 1e-4);
        ein__free(want);
        rig_end(&r);
    }
}

static void grids(void **state)
{
    static const struct { const char *source; i64 want; } good[] = {
        {"n_i", 7}, {" 3 + n_i*2 ", 17}, {"(n_i + 1) * n_j / 4 - 1", 5}, {"cdiv(n_i * n_j, 4)", 6},
        {"cdiv(n_i,(n_j))", 3}, {"20 - 3 - 2", 15}, {"0", 0}};
    static const struct { const char *source; const char *what; } bad[] = {
        {"", "column 1"}, {"n_k", "column 3"}, {"n_i +", "column 6"}, {"n_i / 0", "column"},
        {"(n_i", "column 5"}, {"cdiv(n_i, 0)", "column"}, {"n_i x", "column 5"}, {"n_j - n_i", "-4"},
        {"99999999999999999999", "column"},
        {"4000000000 * 4000000000", "column"}};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        rig r;
        error e = {0};
        begin(&r, 7, 3, good[i].source);
        assert_int_equal(ein__family_emit(&r.arena, &r.job, &r.launch, &e), EIN_OK);
        assert_int_equal(r.launch.grid[0], good[i].want);
        rig_end(&r);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rig r;
        error e = {0};
        begin(&r, 7, 3, bad[i].source);
        assert_int_equal(ein__family_emit(&r.arena, &r.job, &r.launch, &e), EIN_INVALID);
        assert_non_null(strstr(e.line, "weighted"));
        assert_non_null(strstr(e.line, bad[i].what));
        rig_end(&r);
    }
}

/* A merge that has still to be finished cannot be a user's kernel's business. */
static void not_finished(void **state)
{
    rig r;
    error e = {0};
    (void)state;
    begin(&r, 2, 3, "n_i");
    rig_merge(&r, MERGE_SUM, 0.5);
    r.job.mode = JOB_FINAL;
    assert_int_equal(ein__family_emit(&r.arena, &r.job, &r.launch, &e), EIN_INTERNAL);
    rig_merge(&r, MERGE_SUM, 1);
    assert_int_equal(ein__family_emit(&r.arena, &r.job, &r.launch, &e), EIN_OK);
    rig_end(&r);
}

/* Every failing allocation is reported and leaks nothing. */
static void no_memory(void **state)
{
    (void)state;
    for (long n = 1;; n++) {
        rig r;
        error e = {0};
        begin(&r, 2, 3, "n_i");
        long before = ein__alloc_live();
        arena a = {0};
        ein__alloc_fail_at(n);
        ein_status status = ein__family_emit(&a, &r.job, &r.launch, &e);
        ein__alloc_fail_at(0);
        ein__arena_free(&a);
        assert_int_equal(ein__alloc_live(), before);
        rig_end(&r);
        if (status == EIN_OK) break;
        assert_int_equal(status, EIN_NO_MEMORY);
        assert_true(n < 200);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs), cmocka_unit_test(grids),
                                       cmocka_unit_test(not_finished), cmocka_unit_test(no_memory)};
    return cmocka_run_group_tests(tests, NULL, rig_unload);
}
