/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/jit/family/rig.h"

#define N(...) (const i64[]){__VA_ARGS__}
enum { A, ROW, B, K };

typedef struct problem {
    ein_dtype dtype;
    bool smallest, indexed;
    i64 n, k;
    int layout; /* 0: rows contiguous; 1: the row's label outermost */
} problem;

typedef struct entry { double x; i64 index, place; } entry;
static bool entry_smallest;

/* NaN is the largest. */
static int compare(const void *a, const void *b)
{
    const entry *p = a, *q = b;
    bool same = p->x == q->x || (isnan(p->x) && isnan(q->x));
    bool larger = p->x > q->x || (isnan(p->x) && !isnan(q->x));
    if (!same) return larger != entry_smallest ? -1 : 1;
    if (p->index != q->index) return p->index < q->index ? -1 : 1;
    return p->place < q->place ? -1 : 1;
}

static entry *sorted_row(const rig *r, const problem *p, i64 a, i64 b)
{
    entry *row = ein__calloc((size_t)p->n + 1, sizeof *row);
    assert_non_null(row);
    for (i64 i = 0; i < p->n; i++) {
        const i64 at[] = {a, i, b, 0};
        row[i] = (entry){rig_get(r, &r->job.in[0], rig_index(r, &r->job.in[0], at)), r->job.box.lo[ROW] + i, i};
        if (p->indexed) row[i].index = (i64)rig_get(r, &r->job.in[1], rig_index(r, &r->job.in[1], at));
    }
    entry_smallest = p->smallest;
    qsort(row, (size_t)p->n, sizeof *row, compare);
    return row;
}

static void begin(rig *r, const problem *p)
{
    i64 n = p->n, k = p->k;
    rig_begin(r, OP_SELECT, 4, N(3, n, 4, k), N(0, p->indexed ? 0 : 7, 0, 0));
    r->node.select = (select_attrs){.smallest = p->smallest, .n = ROW, .k = K};
    view *x = rig_in_typed(r, p->dtype, p->layout == 0 ? N(4 * n + 1, 1, n, 0) : N(4, 12, 1, 0), 2);
    for (i64 i = 0; i < r->sizes[0]; i += 3) rig_set(r, x, i, (double)(i % 4)); /* equal ones */
    if (p->indexed) {
        view *ids = rig_in_typed(r, EIN_I64, p->layout == 0 ? N(4 * n, 1, n, 0) : N(0, -1, 0, 0), p->layout == 0 ? 0 : n);
        for (i64 i = 0; i < r->sizes[1]; i++) rig_set(r, ids, i, (double)(i * 37 % 50));
    }
    rig_out_typed(r, p->dtype, p->layout == 0 ? N(4 * k, 0, k, 1) : N(4, 0, 1, 12), 1);
    rig_out_typed(r, EIN_I64, p->layout == 0 ? N(k, 0, 3 * k, 1) : N(4, 0, 1, 12), 2);
}

static void finish(rig *r, const problem *p)
{
    double *values = rig_expected(r, &r->job.out[0]), *indices = rig_expected(r, &r->job.out[1]);
    for (i64 a = 0; a < 3; a++)
        for (i64 b = 0; b < 4; b++) {
            entry *row = sorted_row(r, p, a, b);
            for (i64 k = 0; k < p->k; k++) {
                values[rig_index(r, &r->job.out[0], (i64[]){a, 0, b, k})] = row[k].x;
                indices[rig_index(r, &r->job.out[1], (i64[]){a, 0, b, k})] = (double)row[k].index;
            }
            ein__free(row);
        }
    rig_run(r);
    rig_compare(r, &r->job.out[0], values, 0);
    rig_compare(r, &r->job.out[1], indices, 0);
    ein__free(values);
    ein__free(indices);
    rig_end(r);
}

static void check(problem p)
{
    rig r;
    begin(&r, &p);
    finish(&r, &p);
}

static void shapes(void **state)
{
    static const struct { i64 n, k; } sizes[] = {{1, 1}, {8, 2}, {40, 40}, {300, 5}, {9, 0}, {0, 0}};
    (void)state;
    for (int i = 0; i < 6; i++)
        for (int kind = i % 5; kind < 8; kind += 5)
            check((problem){EIN_F32, kind & 1, kind >> 1 & 1, sizes[i].n, sizes[i].k, kind >> 2});
}

static void types(void **state)
{
    static const ein_dtype all[] = {EIN_F64, EIN_BF16, EIN_F16, EIN_I8, EIN_I64, EIN_BOOL};
    (void)state;
    for (int i = 0; i < 6; i++) check((problem){all[i], i % 2 == 0, false, 70, 6, 0});
}

/* Of the tree, and between rounds: none is too many. */
static void barriers(void **state)
{
    (void)state;
    rig_start_barriers();
    for (int indexed = 0; indexed < 2; indexed++) check((problem){EIN_F32, false, false, 300, 5, indexed});
    assert_int_equal(rig_barriers, 2 * 3);
    rig_barriers = -1;
}

static void special(void **state)
{
    (void)state;
    for (int smallest = 0; smallest < 2; smallest++) {
        rig r;
        problem p = {EIN_F32, smallest, false, 40, 40, 0};
        begin(&r, &p);
        float *x = rig_floats(&r, &r.job.in[0]) + 2;
        x[3] = x[17] = NAN;
        x[5] = x[30] = INFINITY;
        x[9] = x[39] = -INFINITY;
        x[12] = -0.0f;
        finish(&r, &p);
    }
}

static void too_few(void **state)
{
    rig r;
    problem p = {EIN_F32, false, false, 3, 4, 0};
    (void)state;
    begin(&r, &p);
    assert_null(ein__family_find(&r.job));
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shapes), cmocka_unit_test(types),
                                       cmocka_unit_test(barriers), cmocka_unit_test(special),
                                       cmocka_unit_test(too_few)};
    return cmocka_run_group_tests(tests, NULL, rig_unload);
}
