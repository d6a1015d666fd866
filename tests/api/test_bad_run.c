/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that are bound, started or waited for in wrong ways: each says what is wrong, and works when it is put right. */
#include "tests/api/fixture.h"

/* out = table[ids]; cache' = cache with rows at `at`; seen = attention over the first `n` keys. */
static void stateful_session(session *s)
{
    static const float table[4 * 3] = {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32};
    session_open(s, "host:2");
    assert_int_equal(ein_weights_add(s->w, "table", EIN_F32, SHAPE(4, 3), table, EIN_COPY), EIN_OK);
    ein_graph *g = s->g;
    ein_tensor ids = ein_input(g, "ids", EIN_I64, SHAPE(2)), cache = ein_state_tensor(g, "cache", EIN_F32, SHAPE(5, 3));
    ein_tensor rows = ein_embedding(g, ids, ein_parameter(g, "table", EIN_F32, SHAPE(4, 3)));
    ein_scalar at = ein_scalar_input(g, "at"), n = ein_scalar_input(g, "n");
    ein_output(g, "rows", rows);
    ein_tensor t = ein_reshape(g, ein_state_append(g, cache, rows, 0, at), SHAPE(1, 1, 5, 3));
    ein_attention_options o = {.size = sizeof o, .length = n};
    ein_output(g, "seen", ein_scaled_dot_product_attention(g, INPUT(g, "q", 1, 1, 1, 3), t, t, &o));
    session_start(s);
}

static void refuse_run(ein_run *r, ein_status have, ein_status status, const char *line)
{
    assert_string_equal(ein_run_error(r), line);
    assert_int_equal(have, status);
}

static void bind_all(ein_run *r, const int64_t *ids, const float *q, float *rows, float *seen)
{
    assert_int_equal(ein_run_input(r, "ids", ids, 2 * sizeof *ids), EIN_OK);
    assert_int_equal(ein_run_input(r, "q", q, 3 * sizeof *q), EIN_OK);
    assert_int_equal(ein_run_output(r, "rows", rows, 6 * sizeof *rows), EIN_OK);
    assert_int_equal(ein_run_output(r, "seen", seen, 3 * sizeof *seen), EIN_OK);
    assert_int_equal(ein_run_scalar(r, "at", 0), EIN_OK);
    assert_int_equal(ein_run_scalar(r, "n", 2), EIN_OK);
}

static void refused_bindings(void **state)
{
    session s;
    float rows[6];
    int64_t ids[2] = {1, 2};
    (void)state;
    stateful_session(&s);
    ein_run *r = s.r;
    refuse_run(r, ein_run_input(r, "idz", ids, 16), EIN_INVALID, "the program has no input 'idz'");
    refuse_run(r, ein_run_input(r, "table", ids, 16), EIN_INVALID, "the program has no input 'table'");
    refuse_run(r, ein_run_input(r, NULL, ids, 16), EIN_INVALID, "the program has no input '(null)'");
    refuse_run(r, ein_run_input(r, "ids", ids, 8), EIN_SHAPE, "input 'ids': 8 bytes bound, 16 expected: 2 elements of i64, 8 each");
    refuse_run(r, ein_run_input(r, "ids", NULL, 16), EIN_INVALID, "input 'ids': no memory bound");
    refuse_run(r, ein_run_output(r, "ids", rows, 16), EIN_INVALID, "the program has no output 'ids'");
    refuse_run(r, ein_run_output(r, "rows", rows, 25), EIN_SHAPE, "output 'rows': 25 bytes bound, 24 expected: 6 elements of f32, 4 each");
    refuse_run(r, ein_run_output(r, "rows", NULL, 24), EIN_INVALID, "output 'rows': no memory bound");
    refuse_run(r, ein_run_output(r, NULL, rows, 24), EIN_INVALID, "the program has no output '(null)'");
    refuse_run(r, ein_run_scalar(r, "x", 1), EIN_INVALID, "the program has no scalar 'x'");
    refuse_run(r, ein_run_scalar(r, NULL, 1), EIN_INVALID, "the program has no scalar '(null)'");
    refuse_run(r, ein_run_wait(r), EIN_INVALID, "the run is not started");
    session_close(&s);
}

/* Everything but one thing is bound, for every thing. */
static void missing_bindings(void **state)
{
    session s;
    int64_t ids[2] = {1, 2};
    float q[3] = {0}, rows[6], seen[3];
    ein_state *cache;
    ein_run *r;
    (void)state;
    stateful_session(&s);
    assert_int_equal(ein_state_create(&cache, s.p), EIN_OK);
    refuse_run(s.r, ein_run_start(s.r), EIN_INVALID, "input 'ids' is not bound");
    assert_int_equal(ein_run_input(s.r, "ids", ids, sizeof ids), EIN_OK);
    refuse_run(s.r, ein_run_once(s.r), EIN_INVALID, "input 'q' is not bound");
    assert_int_equal(ein_run_input(s.r, "q", q, sizeof q), EIN_OK);
    refuse_run(s.r, ein_run_once(s.r), EIN_INVALID, "output 'rows' is not bound");
    assert_int_equal(ein_run_output(s.r, "rows", rows, sizeof rows), EIN_OK);
    refuse_run(s.r, ein_run_once(s.r), EIN_INVALID, "output 'seen' is not bound");
    assert_int_equal(ein_run_output(s.r, "seen", seen, sizeof seen), EIN_OK);
    refuse_run(s.r, ein_run_once(s.r), EIN_INVALID, "scalar 'at' is not bound");
    assert_int_equal(ein_run_scalar(s.r, "at", 0), EIN_OK);
    refuse_run(s.r, ein_run_once(s.r), EIN_INVALID, "scalar 'n' is not bound");
    assert_int_equal(ein_run_scalar(s.r, "n", 2), EIN_OK);
    refuse_run(s.r, ein_run_once(s.r), EIN_INVALID, "no state is bound");
    assert_int_equal(ein_run_state(s.r, cache), EIN_OK);
    session_once(&s);
    assert_float_equal(rows[3], 20, 0);
    assert_near(seen, (double[]){15, 16, 17}, 3); /* q = 0: the mean of both rows */
    assert_int_equal(ein_run_create(&r, s.p), EIN_OK); /* bindings are a run's own */
    refuse_run(r, ein_run_once(r), EIN_INVALID, "input 'ids' is not bound");
    ein_run_free(r);
    ein_state_free(cache);
    session_close(&s);
}

static void values_out_of_range(void **state)
{
    static const int64_t far[] = {4, -1, INT64_MAX, INT64_MIN};
    session s;
    int64_t ids[2] = {1, 2};
    float q[3] = {0}, rows[6], seen[3];
    ein_state *cache;
    char line[160];
    (void)state;
    stateful_session(&s);
    assert_int_equal(ein_state_create(&cache, s.p), EIN_OK);
    bind_all(s.r, ids, q, rows, seen);
    assert_int_equal(ein_run_state(s.r, cache), EIN_OK);
    for (int i = 0; i < 4; i++) {
        ids[1] = far[i];
        snprintf(line, sizeof line, "embedding: id %lld at place 1 of 'ids' is not in a table of 4 rows",
                 (long long)far[i]);
        refuse_run(s.r, ein_run_once(s.r), EIN_INVALID, line);
    }
    ids[1] = 3;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ein_run_scalar(s.r, "at", far[i]), EIN_OK);
        snprintf(line, sizeof line, "cache: 2 rows at scalar 'at' = %lld do not fit 5", (long long)far[i]);
        refuse_run(s.r, ein_run_once(s.r), EIN_INVALID, line);
    }
    assert_int_equal(ein_run_scalar(s.r, "at", 3), EIN_OK); /* the last place */
    assert_int_equal(ein_run_scalar(s.r, "n", INT64_MAX), EIN_OK); /* more keys than there are: all */
    session_once(&s);
    assert_float_equal(rows[3], 30, 0);
    assert_near(seen, (double[]){8, 8.4, 8.8}, 3);
    assert_int_equal(ein_run_scalar(s.r, "n", -7), EIN_OK); /* none */
    session_once(&s);
    assert_near(seen, (double[]){0, 0, 0}, 3);
    ein_state_free(cache);
    session_close(&s);
}

/* Every op that takes ids checks those of an input; through views too. */
static void ids_out_of_range(void **state)
{
    (void)state;
    session s;
    ein_graph *g;
    session_open(&s, "host:2");
    g = s.g;
    int32_t a[2] = {0, 2};
    int64_t b[4] = {0, 1, 2, 1}, c[1] = {3};
    float x[6] = {0, 1, 2, 3, 4, 5}, y[4], z[4], w[6];
    ein_tensor in = INPUT(g, "x", 2, 3), ids = ein_input(g, "b", EIN_I64, SHAPE(4));
    ein_output(g, "y", ein_index_select(g, ein_slice(g, in, 1, 0, 2), 0, ein_input(g, "a", EIN_I32, SHAPE(2))));
    ein_output(g, "z", ein_gather(g, in, 1, ein_reshape(g, ids, SHAPE(2, 2))));
    ein_output(g, "w", ein_scatter_add(g, in, 0, ein_one_hot(g, ein_input(g, "c", EIN_I64, SHAPE(1)), 3, EIN_I32),
                                       ein_full(g, EIN_F32, SHAPE(1, 3), 10)));
    session_start(&s);
    assert_int_equal(ein_run_input(s.r, "x", x, sizeof x), EIN_OK);
    assert_int_equal(ein_run_input(s.r, "a", a, sizeof a), EIN_OK);
    assert_int_equal(ein_run_input(s.r, "b", b, sizeof b), EIN_OK);
    assert_int_equal(ein_run_input(s.r, "c", c, sizeof c), EIN_OK);
    assert_int_equal(ein_run_output(s.r, "y", y, sizeof y), EIN_OK);
    assert_int_equal(ein_run_output(s.r, "z", z, sizeof z), EIN_OK);
    assert_int_equal(ein_run_output(s.r, "w", w, sizeof w), EIN_OK);
    refuse_run(s.r, ein_run_once(s.r), EIN_INVALID,
               "index_select: id 2 at place 1 of 'a' is not in a table of 2 rows");
    a[1] = 1;
    refuse_run(s.r, ein_run_once(s.r), EIN_INVALID, "one_hot: id 3 at place 0 of 'c' is not in a table of 3 rows");
    c[0] = 2;
    b[2] = -1;
    refuse_run(s.r, ein_run_once(s.r), EIN_INVALID, "gather: id -1 at place 2 of 'b' is not in a table of 3 rows");
    b[2] = 2;
    session_once(&s);
    assert_near(y, (double[]){0, 1, 3, 4}, 4);
    assert_near(z, (double[]){0, 1, 5, 4}, 4);
    assert_near(w, (double[]){10, 11, 2, 3, 4, 15}, 6); /* rows 0, 0 and 1 of the columns */
    session_close(&s);
}

/* A causal mask's position may be any number: it only says what is seen. */
static void far_positions(void **state)
{
    static const struct { int64_t position; double seen[2]; } cases[] = {
        {0, {1, 2}}, {1, {2, 3}}, {-1, {0, 1}}, {2, {3, 3}}, {INT64_MAX, {3, 3}}, {INT64_MIN, {0, 0}}};
    float q[2] = {0}, kv[3] = {1, 3, 5}, y[2];
    session s;
    (void)state;
    session_open(&s, "host:2");
    ein_tensor k = INPUT(s.g, "kv", 1, 1, 3, 1);
    ein_attention_options o = {.size = sizeof o, .causal = 1, .position = ein_scalar_input(s.g, "p")};
    ein_output(s.g, "y", ein_scaled_dot_product_attention(s.g, INPUT(s.g, "q", 1, 1, 2, 1), k, k, &o));
    session_start(&s);
    assert_int_equal(ein_run_input(s.r, "q", q, sizeof q), EIN_OK);
    assert_int_equal(ein_run_input(s.r, "kv", kv, sizeof kv), EIN_OK);
    assert_int_equal(ein_run_output(s.r, "y", y, sizeof y), EIN_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) { /* means of 1, 3, 5 */
        assert_int_equal(ein_run_scalar(s.r, "p", cases[i].position), EIN_OK);
        session_once(&s);
        assert_near(y, cases[i].seen, 2);
    }
    session_close(&s);
}

static void refused_states(void **state)
{
    session s, other;
    int64_t ids[2] = {1, 2};
    float q[3] = {0}, rows[6], seen[3];
    ein_state *cache, *foreign;
    ein_run *second;
    (void)state;
    stateful_session(&s);
    stateful_session(&other);
    assert_int_equal(ein_state_create(&cache, s.p), EIN_OK);
    assert_int_equal(ein_state_create(&foreign, other.p), EIN_OK);
    assert_int_equal(ein_run_create(&second, s.p), EIN_OK);
    bind_all(s.r, ids, q, rows, seen);
    bind_all(second, ids, q, rows, seen);
    refuse_run(s.r, ein_run_state(s.r, foreign), EIN_INVALID, "the state belongs to another context");
    assert_int_equal(ein_run_state(s.r, NULL), EIN_INVALID);
    assert_int_equal(ein_run_state(s.r, cache), EIN_OK);
    assert_int_equal(ein_run_state(second, cache), EIN_OK);
    assert_int_equal(ein_run_start(s.r), EIN_OK);
    refuse_run(second, ein_run_start(second), EIN_INVALID, "the state is in use by another run");
    assert_int_equal(ein_state_reset(cache), EIN_INVALID);
    assert_string_equal(ein_context_error(s.c), "a state in use by a run cannot be reset");
    refuse_run(s.r, ein_run_start(s.r), EIN_INVALID, "the run is started already");
    refuse_run(s.r, ein_run_input(s.r, "q", q, 12), EIN_INVALID, "a started run cannot be bound");
    refuse_run(s.r, ein_run_output(s.r, "seen", seen, 12), EIN_INVALID, "a started run cannot be bound");
    refuse_run(s.r, ein_run_scalar(s.r, "n", 1), EIN_INVALID, "a started run cannot be bound");
    refuse_run(s.r, ein_run_state(s.r, cache), EIN_INVALID, "a started run cannot be bound");
    assert_int_equal(ein_run_wait(s.r), EIN_OK);
    refuse_run(s.r, ein_run_wait(s.r), EIN_INVALID, "the run is not started");
    assert_int_equal(ein_run_once(second), EIN_OK);
    assert_int_equal(ein_state_reset(cache), EIN_OK);
    ein_run_free(second);
    ein_state_free(foreign);
    ein_state_free(cache);
    session_close(&other);
    session_close(&s);
}

static void null_runs(void **state)
{
    ein_run *r = (ein_run *)&r;
    ein_state *st;
    (void)state;
    assert_int_equal(ein_run_create(&r, NULL), EIN_INVALID);
    assert_int_equal(ein_run_create(NULL, NULL), EIN_INVALID);
    assert_int_equal(ein_run_input(NULL, "x", "", 0), EIN_INVALID);
    assert_int_equal(ein_run_output(NULL, "x", NULL, 0), EIN_INVALID);
    assert_int_equal(ein_run_scalar(NULL, "x", 0), EIN_INVALID);
    assert_int_equal(ein_run_state(NULL, NULL), EIN_INVALID);
    assert_int_equal(ein_run_start(NULL), EIN_INVALID);
    assert_int_equal(ein_run_wait(NULL), EIN_INVALID);
    assert_int_equal(ein_run_once(NULL), EIN_INVALID);
    ein_run_cancel(NULL);
    ein_run_free(NULL);
    assert_string_equal(ein_run_error(NULL), "");
    assert_int_equal(ein_run_tally(NULL, 0), -1);
    assert_int_equal(ein_state_create(&st, NULL), EIN_INVALID);
    assert_int_equal(ein_state_create(NULL, NULL), EIN_INVALID);
    assert_int_equal(ein_state_reset(NULL), EIN_INVALID);
    ein_state_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_bindings), cmocka_unit_test(missing_bindings), cmocka_unit_test(values_out_of_range),
        cmocka_unit_test(ids_out_of_range), cmocka_unit_test(far_positions),    cmocka_unit_test(refused_states),
        cmocka_unit_test(null_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
