/* SPDX-License-Identifier: Apache-2.0 */
/* The spec's verifier: a sound spec, broken in one place at a time. */
#include "tests/core/graph/fixture.h"

static ein_graph *sound(spec **s)
{
    ein_graph *g = new_graph();
    ein_tensor x = IN(g, "x", 2, 3), w = IN(g, "w", 4, 3);
    ein_linear(g, x, w, (ein_tensor){0}); /* x0[d0,k] x1[n,k] -> y0[d0,n] */
    *s = &NODE(g, 0).spec;
    assert_int_equal(ein__spec_check(*s, NULL), EIN_OK);
    return g;
}

#define BROKEN(expected, change)                                       \
    do {                                                               \
        spec *s;                                                       \
        error e = {0};                                                 \
        ein_graph *g = sound(&s);                                      \
        change;                                                        \
        assert_int_equal(ein__spec_check(s, &e), EIN_INTERNAL);        \
        assert_string_equal(e.line, "spec: " expected);                \
        ein_graph_free(g);                                             \
    } while (0)

static void labels_and_terms(void **state)
{
    (void)state;
    BROKEN("label d0: extent -1, granule 1", s->labels[0].extent = -1);
    BROKEN("label n: extent 4, granule 0", s->labels[1].granule = 0);
    BROKEN("two labels are called d0", memcpy(s->labels[1].name, "d0", 3));
    BROKEN("label 2 has no name", s->labels[2].name[0] = 0);
    BROKEN("17 labels", s->n_labels = 17);
    BROKEN("label n of extent 5 indexes 4", s->labels[1].extent = 5);
    BROKEN("term of label 3, extent 2", s->operands[0].terms[0].label = 3);
    BROKEN("term of kind 9", s->operands[0].terms[0].kind = (term_kind)9);
    BROKEN("fixed index 3 of 3", (s->operands[0].terms[1].kind = TERM_FIXED, s->operands[0].terms[1].label = -1,
                                  s->operands[0].terms[1].offset = 3));
    BROKEN("operand 1 has 17 terms", s->operands[1].n = 17);
    BROKEN("operand 0 has more than 2^40 elements",
           (s->labels[0].extent = s->operands[0].terms[0].extent = (i64)1 << 40));
    BROKEN("result 0 has a term that is no label", s->results[0].terms[1].kind = TERM_RANGE);
    BROKEN("result 0 has label d0 twice", s->results[0].terms[1] = s->results[0].terms[0]);
    BROKEN("two-step labels 0x8 of 3", s->two_step = 8);
}

static void roles(void **state)
{
    (void)state;
    BROKEN("label k is in no result and nothing merges it", s->merge = NULL);
    BROKEN("label n indexes some results only", s->states[0].n = 1);
    BROKEN("result 0 is made of a state with other labels, or in another order",
           (s->states[0].terms[1] = s->operands[0].terms[1]));
    BROKEN("result 0 is made of a state with other labels, or in another order",
           (s->states[0].terms[0] = s->results[0].terms[1], s->states[0].terms[1] = s->results[0].terms[0]));
    BROKEN("merge sum has 1 states and 1 results, the op 2 and 1", s->n_states = 2);
    BROKEN("two-step label k is in no result", s->two_step = 4);
    BROKEN("2 operands, 0 states, 1 results", s->n_states = 0);
}

/* Ranges are clipped, so anything may lie outside; only sizes are checked. */
static void ranges(void **state)
{
    spec *s;
    ein_graph *g = sound(&s);
    (void)state;
    s->operands[0].terms[1] = (term){.kind = TERM_RANGE, .label = 2, .extent = 7, .offset = -100, .scalar = -1};
    assert_int_equal(ein__spec_check(s, NULL), EIN_OK);
    assert_int_equal(ein__map_numel(&s->operands[0]), 14);
    assert_true(ein__map_has(&s->operands[0], 2));
    assert_false(ein__map_has(&s->operands[0], 1));
    s->labels[1].whole = true;
    assert_int_equal(ein__spec_role(s, 1), ROLE_WHOLE);
    s->two_step = 1;
    assert_int_equal(ein__spec_role(s, 0), ROLE_TWO_STEP);
    assert_int_equal(ein__spec_role(s, 2), ROLE_AGGREGATED);
    ein_graph_free(g);
}

/* x [2,9] seen by windows of 3, two apart, of which the last starts at 4. */
static ein_graph *windows(spec **s)
{
    ein_graph *g = sound(s);
    index_map m = {0};
    spec *p = *s;
    p->labels[1].extent = p->operands[1].terms[0].extent = p->results[0].terms[1].extent = 3;
    p->states[0].terms[1].extent = 3;
    ein__term_label(p, &m, 0);
    ein__term_window(p, &m, 1, 2, 2, 1, 9, 0);
    p->operands[0] = m;
    return g;
}

#define BROKEN_WINDOW(expected, change)                                \
    do {                                                               \
        spec *s;                                                       \
        error e = {0};                                                 \
        ein_graph *g = windows(&s);                                    \
        term *t = &s->operands[0].terms[1];                            \
        change;                                                        \
        assert_int_equal(ein__spec_check(s, &e), EIN_INTERNAL);        \
        assert_string_equal(e.line, "spec: " expected);                \
        ein_graph_free(g);                                             \
    } while (0)

static void window(void **state)
{
    spec *s;
    text t = {0};
    ein_graph *g = windows(&s);
    term *w = &s->operands[0].terms[1];
    (void)state;
    assert_int_equal(ein__spec_check(s, NULL), EIN_OK);
    w->offset = 2; /* the last element that the windows reach is 2 * 2 + 2 + 2 */
    assert_int_equal(ein__spec_check(s, NULL), EIN_OK);
    assert_true(ein__map_has(&s->operands[0], 1) && ein__map_has(&s->operands[0], 2));
    ein__spec_print(s, &t);
    assert_string_equal(ein__text_get(&t), "x0[d0,n*2+k+2<9] x1[n,k] -> y0[d0,n]  d0=2 n=3 k=3(sum)");
    ein__text_free(&t);
    t = (text){0};
    w->label2 = -1;
    w->step = -1;
    ein__spec_print(s, &t);
    assert_string_equal(ein__text_get(&t), "x0[d0,-1*n+2<9] x1[n,k] -> y0[d0,n]  d0=2 n=3 k=3(sum)");
    assert_int_equal(ein__spec_check(s, NULL), EIN_OK);
    assert_false(ein__map_has(&s->operands[0], 2));
    ein__text_free(&t);
    ein_graph_free(g);
}

static void window_broken(void **state)
{
    (void)state;
    BROKEN_WINDOW("window of label n leaves 9 elements", t->offset = 3);
    BROKEN_WINDOW("window of label n leaves 9 elements", t->offset = -1);
    BROKEN_WINDOW("window of label n leaves 9 elements", t->step = -1);
    BROKEN_WINDOW("window of label n leaves 9 elements", t->step = INT64_MAX / 2);
    BROKEN_WINDOW("window of label n leaves 9 elements", t->step2 = INT64_MIN);
    BROKEN_WINDOW("window of labels 1 and 1", t->label2 = 1);
    BROKEN_WINDOW("window of labels 1 and 3", t->label2 = 3);
    BROKEN_WINDOW("window of labels 1 and -2", t->label2 = -2);
}

/* A window that is a plain label or a range is written as one. */
static void window_terms(void **state)
{
    spec s = {0};
    index_map m = {0};
    (void)state;
    int a = ein__label_add(&s, "a", 4), b = ein__label_add(&s, "b", 3), one = ein__label_add(&s, "c", 1);
    ein__term_window(&s, &m, a, 1, -1, 0, 4, 0);
    ein__term_window(&s, &m, a, 1, one, 5, 6, 2);
    ein__term_window(&s, &m, one, 3, b, 1, 3, 0);
    ein__term_window(&s, &m, one, 3, b, 2, 7, 1);
    assert_int_equal(m.terms[0].kind, TERM_LABEL);
    assert_int_equal(m.terms[1].kind, TERM_RANGE);
    assert_int_equal(m.terms[1].offset, 2);
    assert_int_equal(m.terms[2].kind, TERM_LABEL);
    assert_int_equal(m.terms[2].label, b);
    assert_int_equal(m.terms[3].kind, TERM_WINDOW);
    assert_int_equal(m.terms[3].label, b);
    assert_int_equal(m.terms[3].label2, -1);
    assert_int_equal(m.terms[3].step, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_and_terms), cmocka_unit_test(roles), cmocka_unit_test(ranges),
        cmocka_unit_test(window), cmocka_unit_test(window_broken), cmocka_unit_test(window_terms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
