/* SPDX-License-Identifier: Apache-2.0 */
/* Moves from end to end, for every element type: which element of x every element of a result is, told here by
 * loops over dimensions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/trial_cut.h"

enum { ROWS = 5, COLUMNS = 7, MOST = 16, ROOM = 256 };

#define SHAPE(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}
#define AXES(...) (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (int[]){__VA_ARGS__}

/* A result, and where its elements come from: r * COLUMNS + c of x [ROWS, COLUMNS]; PADDING: the number. */
enum { PADDING = -1 };
typedef struct expected {
    const char *name;
    int n, from[ROOM];
} expected;

typedef struct case_of {
    ein_graph *g;
    int n;
    expected results[MOST];
} case_of;

static expected *add(case_of *c, const char *name, ein_tensor y)
{
    if (y.id == 0) fail_msg("%s: %s", name, ein_graph_error(c->g));
    ein_output(c->g, name, y);
    c->results[c->n] = (expected){.name = name};
    return &c->results[c->n++];
}

static void put(expected *e, int from)
{
    assert_true(e->n < ROOM);
    e->from[e->n++] = from;
}

#define AT(r, c) ((r) * COLUMNS + (c))

static void add_walks(case_of *k, ein_tensor x)
{
    expected *e = add(k, "flip", ein_flip(k->g, x, AXES(0, 1)));
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) put(e, AT(ROWS - 1 - r, COLUMNS - 1 - c));
    e = add(k, "slice_step", ein_slice_step(k->g, x, 1, 1, 7, 2));
    for (int r = 0; r < ROWS; r++)
        for (int c = 1; c < 7; c += 2) put(e, AT(r, c));
    e = add(k, "slice_step back", ein_slice_step(k->g, x, 0, -1, INT64_MIN, -3));
    for (int r = ROWS - 1; r >= 0; r -= 3)
        for (int c = 0; c < COLUMNS; c++) put(e, AT(r, c));
    e = add(k, "roll", ein_roll(k->g, x, -2, 1));
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) put(e, AT(r, (c + 2) % COLUMNS));
}

static void add_joins(case_of *k, ein_tensor x)
{
    ein_tensor parts[3], y;
    ein_split(k->g, x, 3, (int64_t[]){2, 1, 4}, 1, parts);
    expected *e = add(k, "split, concat", ein_concat(k->g, 3, (ein_tensor[]){parts[2], parts[0], parts[2]}, 1));
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < 10; c++) put(e, AT(r, c < 4 ? 3 + c : c < 6 ? c - 4 : c - 3));
    y = ein_slice(k->g, x, 0, 1, 3);
    e = add(k, "stack", ein_stack(k->g, 2, (ein_tensor[]){y, ein_slice(k->g, x, 0, 3, 5)}, 1));
    for (int r = 0; r < 2; r++)
        for (int s = 0; s < 2; s++)
            for (int c = 0; c < COLUMNS; c++) put(e, AT(1 + 2 * s + r, c));
    e = add(k, "pad", ein_pad(k->g, x, (int64_t[]){2, 0}, (int64_t[]){1, 3}, 1));
    for (int r = -2; r < ROWS + 1; r++)
        for (int c = 0; c < COLUMNS + 3; c++) put(e, r >= 0 && r < ROWS && c < COLUMNS ? AT(r, c) : PADDING);
    e = add(k, "pad and cut", ein_pad(k->g, x, (int64_t[]){-1, 1}, (int64_t[]){2, -4}, 1));
    for (int r = 1; r < ROWS + 2; r++)
        for (int c = -1; c < COLUMNS - 4; c++) put(e, r < ROWS && c >= 0 ? AT(r, c) : PADDING);
}

static void add_shapes(case_of *k, ein_tensor x)
{
    expected *e = add(k, "expand", ein_expand(k->g, ein_unsqueeze(k->g, x, 1), SHAPE(-1, 3, -1)));
    for (int r = 0; r < ROWS; r++)
        for (int s = 0; s < 3; s++)
            for (int c = 0; c < COLUMNS; c++) put(e, AT(r, c));
    e = add(k, "transpose, flatten", ein_flatten(k->g, ein_transpose(k->g, x, 0, 1), 0, 1));
    for (int c = 0; c < COLUMNS; c++)
        for (int r = 0; r < ROWS; r++) put(e, AT(r, c));
    e = add(k, "full", ein_full(k->g, ein_tensor_dtype(k->g, x), SHAPE(3, 2), 1));
    for (int i = 0; i < 6; i++) put(e, PADDING);
    e = add(k, "tril", ein_tril(k->g, ein_expand(k->g, ein_slice(k->g, x, 0, 2, 3), SHAPE(4, 7)), 1));
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < COLUMNS; c++) put(e, c - r <= 1 ? AT(2, c) : PADDING - 1);
    add(k, "empty", ein_slice_step(k->g, x, 1, 5, 5, -1));
}

static void check(const case_of *k, const trial *t, ein_dtype dtype, const unsigned char *at)
{
    size_t bytes = (size_t)ein__dtype_bytes(dtype);
    const unsigned char *x = trial_data(t, "x");
    for (int i = 0; i < k->n; i++) {
        const expected *e = &k->results[i];
        for (int j = 0; j < e->n; j++) {
            unsigned char number[8];
            ein__dtype_write(dtype, e->from[j] == PADDING ? 1 : 0, number);
            const unsigned char *want = e->from[j] < 0 ? number : x + (size_t)e->from[j] * bytes;
            if (memcmp(at + (size_t)j * bytes, want, bytes) != 0)
                fail_msg("%s of %s: element %d", e->name, ein__dtype_name(dtype), j);
        }
        at += ((size_t)e->n * bytes + 15) / 16 * 16;
    }
}

static void run(ein_dtype dtype, bool all)
{
    case_of k = {0};
    trial t;
    assert_int_equal(ein_graph_create(&k.g), EIN_OK);
    ein_tensor x = ein_input(k.g, "x", dtype, SHAPE(ROWS, COLUMNS));
    add_walks(&k, x);
    if (all) add_joins(&k, x);
    if (all) add_shapes(&k, x);
    trial_make(&t, k.g);
    void *out = trial_cut(&t, 3, all ? 3 : 1, 7);
    check(&k, &t, dtype, out);
    free(out);
    trial_free(&t);
    ein_graph_free(k.g);
}

static void words(void **state)
{
    (void)state;
    run(EIN_F32, true);
}

static void bytes(void **state)
{
    (void)state;
    run(EIN_I8, true);
}

static void other_types(void **state)
{
    (void)state;
    static const ein_dtype types[] = {EIN_F64, EIN_BF16, EIN_F16, EIN_I32, EIN_I64, EIN_BOOL};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) run(types[i], false);
}

/* Two rows from 1 on, as the run says, among zeros. */
static void appends(void **state)
{
    (void)state;
    static const ein_dtype types[] = {EIN_BF16, EIN_I64, EIN_BOOL};
    enum { BEFORE = 3, STATE = 6, NEW = 2 };
    ein_graph *g = NULL;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_scalar position = ein_scalar_input(g, "at");
    for (int i = 0; i < 3; i++) {
        const char *name = ein__dtype_name(types[i]);
        char rows[16];
        snprintf(rows, sizeof rows, "rows %s", name);
        ein_tensor x = ein_input(g, rows, types[i], SHAPE(BEFORE, NEW));
        ein_output(g, name, ein_state_append(g, ein_state_tensor(g, name, types[i], SHAPE(BEFORE, STATE)), x, 1, position));
    }
    trial t;
    trial_make(&t, g);
    trial_set_scalar(&t, "at", 1);
    unsigned char *out = trial_cut(&t, 3, 2, 71), *at = out;
    for (int i = 0; i < 3; i++) {
        size_t bytes = (size_t)ein__dtype_bytes(types[i]);
        char rows[16];
        snprintf(rows, sizeof rows, "rows %s", ein__dtype_name(types[i]));
        const unsigned char *x = trial_data(&t, rows);
        for (size_t r = 0; r < BEFORE; r++)
            for (size_t c = 0; c < STATE; c++) {
                const unsigned char zero[8] = {0}, *y = at + (r * STATE + c) * bytes;
                assert_memory_equal(y, c == 1 || c == 2 ? x + (r * NEW + c - 1) * bytes : zero, bytes);
            }
        at += (BEFORE * STATE * bytes + 15) / 16 * 16;
    }
    free(out);
    trial_free(&t);
    ein_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(words), cmocka_unit_test(bytes), cmocka_unit_test(other_types),
                                       cmocka_unit_test(appends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
