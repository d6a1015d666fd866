/* SPDX-License-Identifier: Apache-2.0 */
/* Choices and what follows from them, against brute force: ops of random graphs, cut at random; every point of their label space is
 * asked which tuple it belongs to, and every element that it touches must lie where the relations say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/graph/canonical.h"
#include "tests/core/plan/offset.h"
#include "tests/harness/random.h"
#include "tests/harness/random_graph.h"
#include "tests/harness/random_plan.h"

enum { GRAPHS = 120, MOST_POINTS = 30000, MOST_BOXES = 64 };

/* ---- by definition ------------------------------------------------------------------------------------ */

typedef struct point {
    i64 at[MAX_LABELS];
} point;

static i64 count_points(const spec *s)
{
    i64 n = 1;
    for (int l = 0; l < s->n_labels; l++) n *= s->labels[l].extent;
    return n;
}

static point nth_point(const spec *s, i64 n)
{
    point p = {{0}};
    for (int l = s->n_labels - 1; l >= 0; l--) {
        p.at[l] = n % s->labels[l].extent;
        n /= s->labels[l].extent;
    }
    return p;
}

/* The part that holds a number; empty parts hold none. */
static int part_of(const i64 *lo, const i64 *hi, int n, i64 x)
{
    for (int i = 0; i < n; i++)
        if (lo[i] <= x && x < hi[i]) return i;
    return -1;
}

static int tuple_of(const spec *s, const choice *c, const point *p, bool aggregated, int *partial)
{
    int tuple = 0;
    *partial = 0;
    for (int i = 0; i < c->n_cuts; i++) {
        const cut *k = &c->cuts[i];
        i64 x = 0;
        for (int j = 0; j < k->n_labels; j++) x = x * s->labels[k->labels[j]].extent + p->at[k->labels[j]];
        int part = part_of(k->at, k->at + 1, k->n_parts, x);
        tuple = tuple * k->n_parts + part;
        if (aggregated && ein__spec_role(s, k->labels[0]) == ROLE_AGGREGATED)
            *partial = *partial * k->n_parts + part;
    }
    return tuple;
}

/* Elements [*lo, *hi) of the term that the point reads. */
static void term_reads(const term *t, const point *p, i64 *lo, i64 *hi)
{
    *lo = t->kind == TERM_ALL ? 0 : t->kind == TERM_FIXED ? t->offset : p->at[t->label] + t->offset;
    if (t->kind == TERM_WINDOW)
        *lo = t->step * p->at[t->label] + (t->label2 >= 0 ? t->step2 * p->at[t->label2] : 0) + t->offset;
    *hi = t->kind == TERM_ALL ? t->extent : *lo + 1;
    if (*lo < 0 || *hi > t->extent) *lo = *hi = 0;
}

/* The element that the point reads; -1: none, or more than one. */
static i64 element_of(const index_map *m, const point *p)
{
    i64 element = 0;
    for (int i = 0; i < m->n; i++) {
        i64 lo, hi;
        term_reads(&m->terms[i], p, &lo, &hi);
        if (hi != lo + 1) return -1;
        element = element * m->terms[i].extent + lo;
    }
    return element;
}

/* ---- one op under one choice -------------------------------------------------------------------------- */

static bool in_box(const spec *s, const label_box *b, const point *p)
{
    bool inside = true;
    for (int l = 0; l < s->n_labels; l++)
        inside = inside && p->at[l] >= b->lo[l] && p->at[l] < b->lo[l] + b->len[l];
    return inside;
}

/* Boxes of the tuples are disjoint and make up the label space, each point in its own tuple's. */
static void check_boxes(const spec *s, const choice *c)
{
    i64 volume = 0, points = count_points(s);
    label_box boxes[MOST_BOXES];
    for (int t = 0; t < c->n_tuples; t++) {
        int n = ein__tuple_boxes(s, c, t, MOST_BOXES, boxes);
        assert_in_range(n, 1, MOST_BOXES);
        for (int b = 0; b < n; b++) {
            i64 v = 1;
            for (int l = 0; l < s->n_labels; l++) v *= boxes[b].len[l];
            volume += v;
        }
    }
    assert_int_equal(volume, points);
    for (i64 i = 0; i < points; i++) {
        point p = nth_point(s, i);
        int partial, in = 0, t = tuple_of(s, c, &p, false, &partial);
        int n = ein__tuple_boxes(s, c, t, MOST_BOXES, boxes);
        for (int b = 0; b < n; b++) in += in_box(s, &boxes[b], &p);
        assert_int_equal(in, 1);
    }
}

/* A box's point is where the view says. */
static void check_view(const relation *r, int block, const index_map *m, const label_box *box, const point *p,
                       i64 expected)
{
    i64 offset, stride[MAX_LABELS];
    assert_true(ein__block_view(r, block, m, box, &offset, stride));
    for (int l = 0; l < MAX_LABELS; l++) offset += (p->at[l] - box->lo[l]) * stride[l];
    assert_int_equal(offset, expected);
}

static void check_point_view(const spec *s, const choice *c, int tuple, const relation *r, int block,
                             const index_map *m, const point *p, i64 expected)
{
    label_box boxes[MOST_BOXES];
    int n = ein__tuple_boxes(s, c, tuple, MOST_BOXES, boxes);
    for (int b = 0; b < n; b++)
        if (in_box(s, &boxes[b], p)) check_view(r, block, m, &boxes[b], p, expected);
}

static void check_need(arena *a, const spec *s, const choice *c, int o)
{
    const index_map *m = &s->operands[o];
    relation r;
    assert_int_equal(ein__relation_need(a, s, o, c, &r), EIN_OK);
    assert_int_equal(ein__relation_numel(&r), ein__map_numel(m));
    for (i64 i = 0; i < count_points(s); i++) {
        point p = nth_point(s, i);
        int partial, t = tuple_of(s, c, &p, false, &partial), block = ein__tuple_block(m, c, t);
        i64 element = element_of(m, &p);
        assert_in_range(block, 0, r.n_blocks - 1);
        assert_int_equal(c->devices[t] & ~r.devices[block], 0);
        if (element < 0) continue;
        i64 offset = offset_in(&r, block, element);
        assert_in_range(offset, 0, ein__block_numel(&r, block) - 1);
        check_point_view(s, c, t, &r, block, m, &p, offset);
    }
}

/* Nothing is needed that no tuple reads: plain maps' blocks hold exactly the elements that are touched. */
static void check_need_is_least(arena *a, const spec *s, const choice *c, int o)
{
    const index_map *m = &s->operands[o];
    relation r;
    uint32_t seen = 0;
    for (int i = 0; i < m->n; i++) {
        if (m->terms[i].kind == TERM_ALL || m->terms[i].kind == TERM_WINDOW || (m->terms[i].label >= 0 && (seen >> m->terms[i].label & 1) != 0))
            return;
        if (m->terms[i].label >= 0) seen |= 1u << m->terms[i].label;
    }
    assert_int_equal(ein__relation_need(a, s, o, c, &r), EIN_OK);
    i64 numel = ein__map_numel(m), stored = 0, touched = 0;
    bool *mark = ein__arena_get(a, (size_t)numel * (size_t)r.n_blocks, 1);
    assert_non_null(mark);
    for (i64 i = 0; i < count_points(s); i++) {
        point p = nth_point(s, i);
        int partial, t = tuple_of(s, c, &p, false, &partial);
        i64 element = element_of(m, &p), at = ein__tuple_block(m, c, t) * numel + element;
        if (element < 0 || mark[at]) continue;
        mark[at] = true;
        touched++;
    }
    for (int b = 0; b < r.n_blocks; b++) stored += ein__block_numel(&r, b);
    if (count_points(s) > 0) assert_int_equal(stored, touched);
}

static bool fits(const index_map *m, const index_map *outer)
{
    bool in = true;
    for (int i = 0; i < m->n; i++) in = in && ein__map_has(outer, m->terms[i].label);
    return in;
}

static void check_state(arena *a, const spec *s, const choice *c, int k, int result)
{
    const index_map *m = &s->states[k];
    relation r;
    if (!fits(m, &s->results[result])) return;
    assert_int_equal(ein__relation_state(a, s, k, result, c, &r), EIN_OK);
    for (i64 i = 0; i < count_points(s); i++) {
        point p = nth_point(s, i);
        int partial, t = tuple_of(s, c, &p, true, &partial), block = ein__tuple_block(m, c, t);
        assert_int_equal(ein__tuple_partial(s, c, t), partial);
        assert_in_range(partial, 0, r.n_partials - 1);
        assert_in_range(block, 0, r.n_blocks - 1);
        assert_int_equal(c->devices[t] & ~r.devices[block * r.n_partials + partial], 0);
        i64 offset = offset_in(&r, block, element_of(&s->results[result], &p));
        assert_in_range(offset, 0, ein__block_numel(&r, block) - 1);
        check_point_view(s, c, t, &r, block, &s->results[result], &p, offset);
    }
}

static void check_finished(arena *a, const spec *s, const choice *c, int result, int n_devices)
{
    const index_map *m = &s->results[result];
    relation r;
    error e = {0};
    assert_int_equal(ein__relation_finished(a, s, result, c, &r), EIN_OK);
    if (ein__relation_check(&r, ein__map_numel(m), n_devices, &e) != EIN_OK) fail_msg("%s", e.line);
    for (i64 i = 0; i < count_points(s); i++) {
        point p = nth_point(s, i);
        int partial, t = tuple_of(s, c, &p, false, &partial), block = ein__tuple_block(m, c, t);
        i64 offset = offset_in(&r, block, element_of(m, &p));
        assert_int_equal(c->devices[t] & ~r.devices[block], 0);
        assert_in_range(offset, 0, ein__block_numel(&r, block) - 1);
        check_point_view(s, c, t, &r, block, m, &p, offset);
    }
}

static void check_op(arena *a, const spec *s, const choice *c, int n_devices)
{
    if (count_points(s) > MOST_POINTS) return;
    check_boxes(s, c);
    for (int o = 0; o < s->n_operands; o++) {
        check_need(a, s, c, o);
        check_need_is_least(a, s, c, o);
    }
    for (int r = 0; r < s->n_results; r++) {
        for (int k = 0; k < s->n_states; k++) check_state(a, s, c, k, r);
        check_finished(a, s, c, r, n_devices);
    }
}

static void test_random_ops(void **state)
{
    (void)state;
    int checked = 0;
    for (int seed = 0; seed < GRAPHS; seed++) {
        random_graph r;
        graph g = {.arena = {NULL}};
        arena a = {NULL};
        plan p;
        int n_devices = seed % 6 + 1;
        assert_int_equal(random_graph_make((uint64_t)seed, 6, &r), EIN_OK);
        assert_int_equal(ein__canonicalize(&r.graph->g, &g, NULL), EIN_OK);
        assert_int_equal(random_plan_make(&a, &g, (uint64_t)seed, n_devices, NULL, &p), EIN_OK);
        for (int i = 0; i < g.nodes.n; i++) {
            if (ein__node_is_view(&g.nodes.items[i])) continue;
            check_op(&a, &g.nodes.items[i].spec, &p.nodes[i], n_devices);
            checked += p.nodes[i].n_cuts > 0;
        }
        ein__arena_free(&a);
        ein__arena_free(&g.arena);
        random_graph_free(&r);
    }
    assert_true(checked > GRAPHS);
}

/* ---- windows ------------------------------------------------------------------------------------------ */

enum { WIN_C, WIN_O, WIN_R, WIN_LABELS };

/* y[c,o] = sum over r of x[c, step * o + step2 * r + offset] w[r]; x just as long as it must be. r of extent 0: no
 * second label, and nothing is aggregated. */
typedef struct window { spec s; index_map operands[2]; i64 length; } window;

static void make_window(arena *a, window *w, i64 channels, i64 n, i64 step, i64 taps, i64 step2)
{
    const i64 extents[] = {channels, n, taps > 0 ? taps : 1};
    static const char *const names[] = {"c", "o", "r"};
    i64 least = 0, most = 0;
    merge *sum;
    memset(w, 0, sizeof *w);
    w->s.n_labels = WIN_LABELS;
    for (int l = 0; l < WIN_LABELS; l++) {
        w->s.labels[l] = (label){.extent = extents[l], .granule = 1};
        strcpy(w->s.labels[l].name, names[l]);
    }
    *(step < 0 ? &least : &most) += step * (n - 1);
    *(step2 < 0 ? &least : &most) += taps > 0 ? step2 * (taps - 1) : 0;
    w->length = most - least + 1;
    index_map *x = &w->operands[0], *y = &w->s.results[0];
    x->n = y->n = 2;
    x->terms[0] = y->terms[0] = (term){.kind = TERM_LABEL, .label = WIN_C, .extent = channels};
    y->terms[1] = (term){.kind = TERM_LABEL, .label = WIN_O, .extent = n};
    x->terms[1] = (term){.kind = TERM_WINDOW, .label = WIN_O, .label2 = taps > 0 ? WIN_R : -1, .extent = w->length,
                         .offset = -least, .step = step, .step2 = taps > 0 ? step2 : 0};
    w->operands[1] = (index_map){1, {{.kind = TERM_LABEL, .label = WIN_R, .extent = extents[WIN_R]}}};
    assert_int_equal(ein__merge_make(a, MERGE_SUM, 1, EIN_F32, &sum), EIN_OK);
    w->s.merge = sum;
    w->s.n_operands = 2;
    w->s.operands = w->operands;
    w->s.n_states = w->s.n_results = 1;
    w->s.states[0] = w->s.results[0];
    error e = {0};
    if (ein__spec_check(&w->s, &e) != EIN_OK) fail_msg("%s", e.line);
}

static void random_cut(arena *a, dice *d, int l, i64 extent, cut *out)
{
    int n = dice_range(d, 1, 4);
    i64 *at = ein__arena_get(a, (size_t)n + 1, sizeof *at);
    assert_non_null(at);
    at[n] = extent;
    for (int i = 1; i < n; i++) at[i] = dice_range(d, (int)at[i - 1], (int)extent);
    *out = (cut){.n_labels = 1, .labels = {l}, .n_parts = n, .at = at};
}

/* All steps and cuts of all three labels, in any order, empty parts too, by definition. */
static void test_random_windows(void **state)
{
    (void)state;
    dice d = dice_make(11, 0);
    for (int round = 0; round < 400; round++) {
        arena a = {NULL};
        window w;
        cut cuts[WIN_LABELS];
        int first = dice_range(&d, 0, 2), taps = dice_range(&d, 0, 3), step = dice_range(&d, 1, 3), step2 = dice_range(&d, 1, 2);
        make_window(&a, &w, dice_range(&d, 1, 2), dice_range(&d, 1, 7), dice_chance(&d, 30) ? -step : step, taps,
                    dice_chance(&d, 30) ? -step2 : step2);
        choice c = {.n_cuts = dice_range(&d, 0, 3), .n_tuples = 1, .cuts = cuts};
        for (int i = 0; i < c.n_cuts; i++) {
            int l = (first + i) % WIN_LABELS;
            random_cut(&a, &d, l, w.s.labels[l].extent, &cuts[i]);
            c.n_tuples *= cuts[i].n_parts;
        }
        devset *where = ein__arena_get(&a, (size_t)c.n_tuples, sizeof *where);
        assert_non_null(where);
        for (int t = 0; t < c.n_tuples; t++) where[t] = (devset)dice_range(&d, 1, 15);
        c.devices = where;
        assert_int_equal(ein__choice_check(&w.s, &c, 4, NULL), EIN_OK);
        check_op(&a, &w.s, &c, 4);
        ein__arena_free(&a);
    }
}

/* The need of x, printed, when o is cut at `at` and, unless taps_at is NULL, r at taps_at; one device a tuple. */
static void expect_need(const window *w, int n, const i64 *at, int n_taps, const i64 *taps_at, const char *expected)
{
    arena a = {NULL};
    text t = {0};
    relation r;
    devset on[16];
    const cut cuts[] = {{1, {WIN_O}, n, at}, {1, {WIN_R}, n_taps, taps_at}};
    choice c = {.n_cuts = taps_at != NULL ? 2 : 1, .cuts = cuts, .n_tuples = n * (taps_at != NULL ? n_taps : 1), .devices = on};
    for (int i = 0; i < c.n_tuples; i++) on[i] = DEV(i);
    assert_int_equal(ein__choice_check(&w->s, &c, 16, NULL), EIN_OK);
    assert_int_equal(ein__relation_need(&a, &w->s, 0, &c, &r), EIN_OK);
    ein__relation_print(&r, &t);
    assert_string_equal(ein__text_get(&t), expected);
    ein__text_free(&t);
    ein__arena_free(&a);
}

/* Halos: what a part of the windows needs of a row goes past its own share by the taps. */
static void test_halos(void **state)
{
    (void)state;
    arena a = {NULL};
    window w;
    make_window(&a, &w, 1, 12, 1, 3, 1); /* 12 windows of 3, x of 14 */
    expect_need(&w, 2, (i64[]){0, 6, 12}, 0, NULL, "[14: 0-8 6-14] on 0 1");
    expect_need(&w, 3, (i64[]){0, 4, 8, 12}, 0, NULL, "[14: 0-6 4-10 8-14] on 0 1 2");
    expect_need(&w, 4, (i64[]){0, 3, 6, 9, 12}, 0, NULL, "[14: 0-5 3-8 6-11 9-14] on 0 1 2 3");
    expect_need(&w, 2, (i64[]){0, 0, 12}, 0, NULL, "[14: 0-0 0-14] on 0 1"); /* an empty part needs nothing */
    expect_need(&w, 2, (i64[]){0, 6, 12}, 3, (i64[]){0, 1, 2, 3}, "[14: 0-6 1-7 2-8 6-12 7-13 8-14] on 0 1 2 3 4 5");
    make_window(&a, &w, 1, 12, 2, 3, 1); /* at every second place, x of 25 */
    expect_need(&w, 2, (i64[]){0, 6, 12}, 0, NULL, "[25: 0-13 12-25] on 0 1");
    make_window(&a, &w, 1, 6, 2, 2, 3); /* taps 3 apart, x of 14 */
    expect_need(&w, 3, (i64[]){0, 2, 4, 6}, 0, NULL, "[14: 0-6 4-10 8-14] on 0 1 2");
    make_window(&a, &w, 3, 6, 2, 2, 3); /* rows of 14 that are whole: an axis of its own all the same */
    expect_need(&w, 3, (i64[]){0, 2, 4, 6}, 0, NULL, "[3 | 14: 0-6 4-10 8-14] on 0 1 2");
    ein__arena_free(&a);
}

/* Slices: strided ones leave gaps, reversed ones run down. */
static void test_slices(void **state)
{
    (void)state;
    arena a = {NULL};
    window w;
    label_box box = {.lo = {0, 3, 0}, .len = {1, 5, 1}};
    i64 offset, stride[MAX_LABELS];
    relation r;
    make_window(&a, &w, 1, 5, 3, 0, 0); /* 0 3 6 9 12 of 13 */
    expect_need(&w, 2, (i64[]){0, 2, 5}, 0, NULL, "[13: 0-4 6-13] on 0 1");
    make_window(&a, &w, 1, 5, -2, 0, 0); /* 8 6 4 2 0 of 9 */
    expect_need(&w, 2, (i64[]){0, 2, 5}, 0, NULL, "[9: 6-9 0-5] on 0 1");
    make_window(&a, &w, 1, 8, -1, 0, 0); /* 7 6 .. 0 of 8: a part of 5 from place 3 begins at 4 and runs down */
    expect_need(&w, 2, (i64[]){0, 3, 8}, 0, NULL, "[8: 5-8 0-5] on 0 1");
    const cut k = {1, {WIN_O}, 2, (i64[]){0, 3, 8}};
    assert_int_equal(ein__relation_need(&a, &w.s, 0, &(choice){1, &k, 2, (devset[]){1, 2}}, &r), EIN_OK);
    assert_true(ein__block_view(&r, 1, &w.operands[0], &box, &offset, stride));
    assert_int_equal(offset, 4);
    assert_int_equal(stride[WIN_O], -1);
    assert_false(ein__block_view(&r, 0, &w.operands[0], &box, &offset, stride));
    ein__arena_free(&a);
}

/* Labels of a window cannot be cut as one with their neighbours. */
static void test_no_groups_in_windows(void **state)
{
    (void)state;
    arena a = {NULL};
    window w;
    error e = {0};
    const cut k = {2, {WIN_C, WIN_O}, 2, (i64[]){0, 5, 8}};
    make_window(&a, &w, 2, 4, 1, 3, 1);
    assert_int_equal(ein__choice_check(&w.s, &(choice){1, &k, 2, (devset[]){1, 2}}, 2, &e), EIN_NO_PLAN);
    assert_string_equal(e.line, "labels c.. are not neighbours in every operand and result");
    ein__arena_free(&a);
}
/* ---- choices that are not legal ----------------------------------------------------------------------- */

static void refuse_choice(const spec *s, choice c, const char *line)
{
    error e = {0};
    assert_int_equal(ein__choice_check(s, &c, 2, &e), EIN_NO_PLAN);
    if (strstr(e.line, line) == NULL) fail_msg("\"%s\" does not say \"%s\"", e.line, line);
}

static choice one_cut(const cut *k, const devset *devices)
{
    return (choice){.n_cuts = 1, .cuts = k, .n_tuples = k->n_parts, .devices = devices};
}

static void test_wrong_choices(void **state)
{
    (void)state;
    ein_graph *g;
    const devset on[] = {1, 2, 1, 2}, beyond[] = {1, 4};
    const i64 half[] = {0, 4, 8}, falls[] = {0, 9, 8}, odd[] = {0, 3, 8}, less[] = {0, 4, 7},
              group[] = {0, 20, 48};
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    ein_tensor x = ein_parameter(g, "x", EIN_F32, 3, (const int64_t[]){6, 8, 4});
    ein_tensor w = ein_parameter(g, "w", EIN_F32, 2, (const int64_t[]){8, 4});
    assert_int_not_equal(ein_linear(g, x, w, (ein_tensor){0}).id, 0);
    spec s = g->g.nodes.items[0].spec; /* labels d0=6, d1=8, n=8, k=4 */
    cut n = {1, {2}, 2, half}, k = {1, {2}, 2, falls};
    assert_int_equal(ein__choice_check(&s, &(choice){1, &n, 2, on}, 2, NULL), EIN_OK);
    refuse_choice(&s, one_cut(&k, on), "cut of n: points 9, 8 fall");
    k.at = less;
    refuse_choice(&s, one_cut(&k, on), "cut of n does not cover 0 .. 8");
    refuse_choice(&s, one_cut(&n, beyond), "tuple 1 lies on devices 0x4 of 2");
    refuse_choice(&s, (choice){1, &n, 3, on}, "3 tuples placed, the cuts make 2");
    refuse_choice(&s, (choice){2, (cut[]){n, n}, 4, on}, "label n is cut twice");
    refuse_choice(&s, one_cut(&(cut){1, {9}, 2, half}, on), "cut 0 names label 9 of 4");
    refuse_choice(&s, one_cut(&(cut){0, {0}, 2, half}, on), "cut 0 names 0 labels");
    refuse_choice(&s, one_cut(&(cut){2, {0, 2}, 2, group}, on), "labels d0.. are not neighbours");
    assert_int_equal(ein__choice_check(&s, &(choice){1, &(cut){2, {0, 1}, 2, group}, 2, on}, 2, NULL),
                     EIN_OK);
    s.labels[2].granule = 4;
    k.at = odd;
    refuse_choice(&s, one_cut(&k, on), "cut of n at 3 is no multiple of its granule 4");
    s.labels[2].whole = true;
    refuse_choice(&s, one_cut(&n, on), "label n cannot be cut");
    ein_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_ops), cmocka_unit_test(test_random_windows),     cmocka_unit_test(test_halos),
        cmocka_unit_test(test_slices),     cmocka_unit_test(test_no_groups_in_windows), cmocka_unit_test(test_wrong_choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
