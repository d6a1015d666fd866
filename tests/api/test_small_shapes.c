/* SPDX-License-Identifier: Apache-2.0 */
/* Extents of zero and one are legal and give what PyTorch gives: an empty sum is 0, an empty result stays empty. */
#include "tests/api/fixture.h"

enum { MAX_RESULTS_HERE = 16, ROOM = 64 };

/* A session whose inputs are ramps 1, 2, 3, ...; results are read by number. */
typedef struct trial {
    session s;
    int n_inputs, n_results;
    char inputs[MAX_RESULTS_HERE][16];
    int64_t input_numel[MAX_RESULTS_HERE], numel[MAX_RESULTS_HERE];
    float results[MAX_RESULTS_HERE][ROOM];
} trial;

static int64_t product(int rank, const int64_t *shape)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= shape[i];
    return n;
}

static ein_tensor ramp(trial *t, int rank, const int64_t *shape)
{
    int i = t->n_inputs++;
    snprintf(t->inputs[i], sizeof t->inputs[i], "x%d", i);
    t->input_numel[i] = product(rank, shape);
    assert_true(i < MAX_RESULTS_HERE && t->input_numel[i] <= ROOM);
    return ein_input(t->s.g, t->inputs[i], EIN_F32, rank, shape);
}

static void result(trial *t, ein_tensor y)
{
    char name[16];
    int64_t shape[EIN_MAX_RANK];
    int i = t->n_results++;
    if (y.id == 0) fail_msg("result %d: %s", i, ein_graph_error(t->s.g));
    t->numel[i] = product(ein_tensor_shape(t->s.g, y, shape), shape);
    assert_true(i < MAX_RESULTS_HERE && t->numel[i] <= ROOM);
    snprintf(name, sizeof name, "y%d", i);
    ein_output(t->s.g, name, y);
}

static void run(trial *t)
{
    float x[ROOM];
    char name[16];
    for (int i = 0; i < ROOM; i++) x[i] = (float)(i + 1);
    session_start(&t->s);
    for (int i = 0; i < t->n_inputs; i++)
        assert_int_equal(ein_run_input(t->s.r, t->inputs[i], x, (size_t)t->input_numel[i] * sizeof *x), EIN_OK);
    for (int i = 0; i < t->n_results; i++) {
        for (int k = 0; k < ROOM; k++) t->results[i][k] = -77;
        snprintf(name, sizeof name, "y%d", i);
        void *data = t->numel[i] > 0 ? t->results[i] : NULL; /* an empty tensor needs no memory */
        assert_int_equal(ein_run_output(t->s.r, name, data, (size_t)t->numel[i] * sizeof *x), EIN_OK);
    }
    session_once(&t->s);
    for (int i = 0; i < t->n_results; i++)
        for (int64_t k = t->numel[i]; k < ROOM; k++) assert_float_equal(t->results[i][k], -77, 0);
}

#define EXPECT(t, i, ...)                                                                      \
    do {                                                                                       \
        assert_int_equal((t)->numel[i], sizeof((double[]){__VA_ARGS__}) / sizeof(double));     \
        assert_near((t)->results[i], (double[]){__VA_ARGS__}, (int)(t)->numel[i]);             \
    } while (0)

/* On one device and on more devices than there are elements to cut. */
static void on_machines(void (*build)(trial *t), void (*check)(const trial *t))
{
    static const char *const machines[] = {"host:1", "host:3"};
    for (int m = 0; m < 2; m++) {
        trial *t = calloc(1, sizeof *t);
        assert_non_null(t);
        session_open(&t->s, machines[m]);
        build(t);
        run(t);
        check(t);
        session_close(&t->s);
        free(t);
    }
}

/* ---- products over nothing ---------------------------------------------------------------------------- */

static void build_products(trial *t)
{
    ein_graph *g = t->s.g;
    result(t, ein_linear(g, ramp(t, SHAPE(2, 0)), ramp(t, SHAPE(3, 0)), NONE));                  /* k = 0 */
    result(t, ein_linear(g, ramp(t, SHAPE(2, 0)), ramp(t, SHAPE(3, 0)), ramp(t, SHAPE(3))));
    result(t, ein_matmul(g, ramp(t, SHAPE(0, 4)), ramp(t, SHAPE(4, 3))));                        /* m = 0 */
    result(t, ein_matmul(g, ramp(t, SHAPE(0, 2, 2)), ramp(t, SHAPE(2, 2))));                     /* no batch */
    result(t, ein_einsum(g, "ik,kj->", 2, (ein_tensor[]){ramp(t, SHAPE(2, 0)), ramp(t, SHAPE(0, 2))}));
    result(t, ein_matmul(g, ramp(t, SHAPE(1)), ramp(t, SHAPE(1))));                              /* 1 element */
    result(t, ein_einsum(g, "ij,jk->ik", 2, (ein_tensor[]){ramp(t, SHAPE(1, 1)), ramp(t, SHAPE(3, 2))}));
}

static void check_products(const trial *t)
{
    EXPECT(t, 0, 0, 0, 0, 0, 0, 0);
    EXPECT(t, 1, 1, 2, 3, 1, 2, 3);
    assert_int_equal(t->numel[2], 0);
    assert_int_equal(t->numel[3], 0);
    EXPECT(t, 4, 0);
    EXPECT(t, 5, 1);
    EXPECT(t, 6, 9, 12); /* the 1 gives way to 3 */
}

static void products(void **state)
{
    (void)state;
    on_machines(build_products, check_products);
}

/* ---- reductions and rows ------------------------------------------------------------------------------ */

static void build_rows(trial *t)
{
    ein_graph *g = t->s.g;
    result(t, ein_sum(g, ramp(t, SHAPE(2, 0)), 1, (int[]){1}, 0));
    result(t, ein_sum(g, ramp(t, SHAPE(0, 3)), 1, (int[]){1}, 1));
    result(t, ein_mean(g, ramp(t, SHAPE(2, 0)), 1, (int[]){-1}, 0));
    result(t, ein_amax(g, ramp(t, SHAPE(0, 3)), 1, (int[]){1}, 0));
    result(t, ein_softmax(g, ramp(t, SHAPE(2, 0)), 1));
    result(t, ein_softmax(g, ramp(t, SHAPE(2, 1)), 1));
    result(t, ein_rms_norm(g, ramp(t, SHAPE(0, 3)), NONE, 0));
    result(t, ein_rms_norm(g, ramp(t, SHAPE(2, 1)), ramp(t, SHAPE(1)), 0));
    result(t, ein_sum(g, ramp(t, 0, NULL), 0, NULL, 0)); /* of a scalar */
    result(t, ein_map(g, "x0 + 0.5", 1, (ein_tensor[]){ramp(t, 0, NULL)}));
    result(t, ein_add(g, ramp(t, SHAPE(1, 3)), ramp(t, SHAPE(2, 1))));
    result(t, ein_mul(g, ramp(t, SHAPE(0, 3)), ramp(t, SHAPE(1, 1))));
}

static void check_rows(const trial *t)
{
    EXPECT(t, 0, 0, 0);
    assert_int_equal(t->numel[1], 0);
    assert_int_equal(t->numel[2], 2);
    assert_true(isnan(t->results[2][0]) && isnan(t->results[2][1]));
    assert_int_equal(t->numel[3] + t->numel[4] + t->numel[6] + t->numel[11], 0);
    EXPECT(t, 5, 1, 1);
    EXPECT(t, 7, 1, 1);
    EXPECT(t, 8, 1);
    EXPECT(t, 9, 1.5);
    EXPECT(t, 10, 2, 3, 4, 3, 4, 5);
}

static void rows(void **state)
{
    (void)state;
    on_machines(build_rows, check_rows);
}

/* ---- attention and views ------------------------------------------------------------------------------ */

static void build_others(trial *t)
{
    ein_graph *g = t->s.g;
    ein_tensor out[3], cosine, sine;
    ein_tensor none = ramp(t, SHAPE(1, 1, 0, 2)), two = ramp(t, SHAPE(1, 2, 2, 2)), one = ramp(t, SHAPE(1, 1, 1, 1));
    result(t, ein_scaled_dot_product_attention(g, two, none, none, NULL)); /* no key: 0 */
    result(t, ein_scaled_dot_product_attention(g, none, none, none, NULL));
    result(t, ein_scaled_dot_product_attention(g, one, one, one, NULL));
    ein_scaled_dot_product_attention_partial(g, one, ramp(t, SHAPE(1, 1, 0, 1)), ramp(t, SHAPE(1, 1, 0, 1)), NULL, out);
    for (int i = 0; i < 3; i++) result(t, out[i]);
    result(t, ein_concat(g, 3, (ein_tensor[]){ramp(t, SHAPE(0, 2)), ramp(t, SHAPE(1, 2)), ramp(t, SHAPE(0, 2))}, 0));
    result(t, ein_slice(g, ramp(t, SHAPE(3, 2)), 0, 2, 1));
    result(t, ein_reshape(g, ramp(t, SHAPE(0, 4)), SHAPE(2, 0)));
    result(t, ein_permute(g, ramp(t, SHAPE(1, 3, 1)), (int[]){2, 0, 1}));
    ein_rope_tables(g, 1, 2, 10000, &cosine, &sine);
    result(t, ein_rope(g, ramp(t, SHAPE(1, 1, 1, 2)), cosine, sine, (ein_scalar){0}));
    result(t, ein_rope(g, ramp(t, SHAPE(0, 1, 1, 2)), cosine, sine, (ein_scalar){0}));
}

static void check_others(const trial *t)
{
    EXPECT(t, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_int_equal(t->numel[1] + t->numel[7] + t->numel[8] + t->numel[11], 0);
    EXPECT(t, 2, 1);
    EXPECT(t, 3, (float)-3e38);
    EXPECT(t, 4, 0);
    EXPECT(t, 5, 0);
    EXPECT(t, 6, 1, 2);
    EXPECT(t, 9, 1, 2, 3);
    EXPECT(t, 10, 1, 2);
}

static void others(void **state)
{
    (void)state;
    on_machines(build_others, check_others);
}

static void build_masks(trial *t)
{
    ein_graph *g = t->s.g;
    ein_tensor none = ramp(t, SHAPE(1, 1, 0, 2)), two = ramp(t, SHAPE(1, 2, 2, 2)), one = ramp(t, SHAPE(1, 1, 1, 1)), c, s;
    ein_attention_options o = {.size = sizeof o, .causal = 1, .window = 1, .softcap = 1, .mask = ramp(t, SHAPE(2, 0))};
    result(t, ein_scaled_dot_product_attention(g, two, none, none, &o)); /* no key, an empty mask */
    o.mask = ramp(t, SHAPE(0, 1));
    result(t, ein_scaled_dot_product_attention(g, ramp(t, SHAPE(1, 2, 0, 2)), two, two, &o)); /* no query */
    o.mask = ramp(t, 0, NULL);
    result(t, ein_scaled_dot_product_attention(g, one, one, one, &o));
    ein_rope_tables(g, 1, 2, 10000, &c, &s);
    result(t, ein_rope_interleaved(g, ramp(t, SHAPE(1, 1, 1, 2)), c, s, (ein_scalar){0}));
}

static void check_masks(const trial *t)
{
    EXPECT(t, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_int_equal(t->numel[1], 0);
    EXPECT(t, 2, 1);
    EXPECT(t, 3, 1, 2);
}

static void masks(void **state)
{
    (void)state;
    on_machines(build_masks, check_masks);
}

/* ---- parts, windows, indices -------------------------------------------------------------------------- */

static void build_parts(trial *t)
{
    ein_graph *g = t->s.g;
    const int64_t front[] = {0, 1}, behind[] = {2, 0};
    const ein_pool_options pool = {.size = sizeof pool, .kernel = {1}};
    ein_tensor none = ramp(t, SHAPE(0, 3)), one = ramp(t, SHAPE(1, 1)), x = ramp(t, SHAPE(2, 2));
    result(t, ein_pad(g, none, front, behind, 7));
    result(t, ein_flip(g, none, 2, (int[]){0, 1}));
    result(t, ein_roll(g, none, 1, 0));
    result(t, ein_stack(g, 2, (ein_tensor[]){none, none}, 0));
    result(t, ein_expand(g, one, SHAPE(0, 2, 1)));
    result(t, ein_slice_step(g, one, 1, -1, INT64_MIN, -3));
    result(t, ein_conv1d(g, ramp(t, SHAPE(0, 1, 2)), ramp(t, SHAPE(2, 1, 2)), NONE, NULL));
    result(t, ein_conv1d(g, ramp(t, SHAPE(1, 0, 2)), ramp(t, SHAPE(2, 0, 2)), ramp(t, SHAPE(2)), NULL)); /* no channel */
    result(t, ein_avg_pool(g, one, &pool));
    result(t, ein_index_select(g, x, 0, ein_constant(g, EIN_I32, SHAPE(0), front)));
    result(t, ein_index_select(g, none, 1, ein_constant(g, EIN_I32, SHAPE(1), (int32_t[]){2})));
    result(t, ein_gather(g, one, 0, ein_constant(g, EIN_I64, SHAPE(1, 1), (int64_t[]){0})));
    result(t, ein_full(g, EIN_F32, SHAPE(0, 3), 1));
    result(t, ein_arange(g, EIN_F32, 1, 5, 9));
    result(t, ein_tril(g, none, 0));
}

static void check_parts(const trial *t)
{
    EXPECT(t, 0, 7, 7, 7, 7, 7, 7, 7, 7);
    assert_int_equal(t->numel[1] + t->numel[2] + t->numel[3] + t->numel[4] + t->numel[6], 0);
    EXPECT(t, 5, 1);
    EXPECT(t, 7, 1, 2);
    EXPECT(t, 8, 1);
    assert_int_equal(t->numel[9] + t->numel[10] + t->numel[12] + t->numel[14], 0);
    EXPECT(t, 11, 1);
    EXPECT(t, 13, 5);
}

static void parts(void **state)
{
    (void)state;
    on_machines(build_parts, check_parts);
}

/* ---- ids and states: no ids, an empty table row, no rows to append ------------------------------------ */

static void ids_and_states(void **state)
{
    static const char *const machines[] = {"host:1", "host:3"};
    float kept[6], found[4], none[1];
    int32_t id = 1;
    ein_state *cache;
    (void)state;
    for (int m = 0; m < 2; m++) {
        session s;
        session_open(&s, machines[m]);
        ein_graph *g = s.g;
        ein_tensor table = ein_constant(g, EIN_F32, SHAPE(2, 2), (float[]){1, 2, 3, 4});
        ein_output(g, "none", ein_embedding(g, ein_input(g, "no", EIN_I32, SHAPE(0, 3)), table));
        ein_output(g, "found", ein_embedding(g, ein_input(g, "id", EIN_I32, 0, NULL), table));
        ein_tensor kept_before = ein_state_tensor(g, "cache", EIN_F32, SHAPE(3, 2));
        ein_output(g, "kept", ein_state_append(g, kept_before, INPUT(g, "rows", 0, 2), 0, ein_scalar_input(g, "at")));
        session_start(&s);
        assert_int_equal(ein_state_create(&cache, s.p), EIN_OK);
        assert_int_equal(ein_run_input(s.r, "no", NULL, 0), EIN_OK);
        assert_int_equal(ein_run_input(s.r, "id", &id, sizeof id), EIN_OK);
        assert_int_equal(ein_run_input(s.r, "rows", NULL, 0), EIN_OK);
        assert_int_equal(ein_run_output(s.r, "none", none, 0), EIN_OK);
        assert_int_equal(ein_run_output(s.r, "found", found, 2 * sizeof *found), EIN_OK);
        assert_int_equal(ein_run_output(s.r, "kept", kept, sizeof kept), EIN_OK);
        assert_int_equal(ein_run_scalar(s.r, "at", 3), EIN_OK); /* the end, for nothing */
        assert_int_equal(ein_run_state(s.r, cache), EIN_OK);
        session_once(&s);
        assert_near(found, (double[]){3, 4}, 2);
        assert_near(kept, (double[6]){0}, 6);
        ein_state_free(cache);
        session_close(&s);
    }
}

/* What no output needs is not part of the program: it need not be there. */
static void unused_leaves(void **state)
{
    session s;
    float x[2] = {1, 2}, y[2], z[2];
    (void)state;
    session_open(&s, "host:2");
    ein_tensor used = INPUT(s.g, "used", 2);
    INPUT(s.g, "unused", 3);
    ein_parameter(s.g, "unused", EIN_F32, SHAPE(3));
    ein_state_tensor(s.g, "unused", EIN_F32, SHAPE(3));
    ein_scalar_input(s.g, "unused");
    ein_output(s.g, "y", ein_relu(s.g, used));
    ein_output(s.g, "z", used);
    session_start(&s);
    assert_int_equal(ein_run_input(s.r, "used", x, sizeof x), EIN_OK);
    assert_int_equal(ein_run_output(s.r, "y", y, sizeof y), EIN_OK);
    assert_int_equal(ein_run_output(s.r, "z", z, sizeof z), EIN_OK);
    assert_int_equal(ein_run_input(s.r, "unused", x, 12), EIN_OK); /* needed by nothing: may be bound or not */
    assert_int_equal(ein_run_scalar(s.r, "unused", 7), EIN_OK);
    assert_int_equal(ein_run_input(s.r, "unknown", x, 12), EIN_INVALID);
    assert_string_equal(ein_run_error(s.r), "the program has no input 'unknown'");
    session_once(&s);
    assert_near(y, (double[]){1, 2}, 2);
    assert_near(z, (double[]){1, 2}, 2);
    session_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products), cmocka_unit_test(rows),          cmocka_unit_test(others), cmocka_unit_test(masks),
        cmocka_unit_test(parts),    cmocka_unit_test(ids_and_states), cmocka_unit_test(unused_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
