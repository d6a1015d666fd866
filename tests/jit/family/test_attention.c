/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/jit/family/rig.h"

enum { POSITION, LENGTH };

typedef struct problem {
    i64 b, h, g, s, t, d, e;
    bool causal;
    i64 position, length; /* -1: none */
    i64 first_s, first_t; /* global offsets of the block */
    int order;            /* 0: as a dense block [b,h,g,s,d]; 1: [b,s,h,g,d]; 2: the head size outermost */
    int n_out;
} problem;

/* Strides of a dense block whose dimensions are `order`'s labels, major first; a little padding per row. */
static void dense(const i64 *len, const char *order, i64 *strides)
{
    i64 n = 1, pad = 1;
    size_t count = strlen(order);
    for (int l = 0; l < ATT_LABELS; l++) strides[l] = 0;
    for (size_t i = count; i-- > 0;) {
        int l = (int)(strchr("bhgstde", order[i]) - "bhgstde");
        strides[l] = n;
        n *= len[l];
        n += pad;
        pad = 0;
    }
}

static void begin(rig *r, const problem *p, const char *const orders[4])
{
    const i64 len[] = {p->b, p->h, p->g, p->s, p->t, p->d, p->e};
    const i64 lo[] = {0, 0, 0, p->first_s, p->first_t, 0, 0};
    i64 strides[MAX_LABELS] = {0};
    rig_begin(r, OP_ATTENTION, ATT_LABELS, len, lo);
    for (int i = 0; i < 3; i++) {
        dense(len, orders[i], strides);
        rig_in(r, strides, i);
    }
    for (int i = 0; i < p->n_out - 1; i++) {
        dense(len, "bhgs", strides);
        rig_out(r, strides, 1);
    }
    dense(len, orders[3], strides);
    rig_out(r, strides, 2);
    rig_merge(r, p->n_out == 1 ? MERGE_SOFTMAX : MERGE_SOFTMAX_STATE, 1);
    r->node.attention = (attention_attrs){.causal = p->causal, .scale = 0.7};
    r->node.attention.position = p->position < 0 ? -1 : POSITION;
    r->node.attention.length = p->length < 0 ? -1 : LENGTH;
    r->scalars[POSITION] = p->position;
    r->scalars[LENGTH] = p->length;
    r->job.mode = p->n_out == 1 ? JOB_FINAL : JOB_STATES;
}

static double score(const rig *r, const i64 *at)
{
    i64 p[ATT_LABELS];
    double sum = 0;
    memcpy(p, at, sizeof p);
    for (p[ATT_D] = 0; p[ATT_D] < r->job.box.len[ATT_D]; p[ATT_D]++)
        sum += (double)rig_floats(r, &r->job.in[0])[rig_index(r, &r->job.in[0], p)] *
               (double)rig_floats(r, &r->job.in[1])[rig_index(r, &r->job.in[1], p)];
    return sum * r->node.attention.scale;
}

static bool sees(const rig *r, const problem *p, i64 s, i64 t)
{
    s += p->first_s + (p->position < 0 ? 0 : p->position);
    t += p->first_t;
    (void)r;
    return (!p->causal || t <= s) && (p->length < 0 || t < p->length);
}

/* One row: its scores, then the states, by definition. */
static void expect_row(const rig *r, const problem *p, i64 *at, double *const want[3])
{
    int last = p->n_out - 1;
    double m = EIN__LOWEST, l = 0;
    double *x = ein__calloc((size_t)p->t + 1, sizeof *x);
    for (at[ATT_T] = 0; at[ATT_T] < p->t; at[ATT_T]++) {
        x[at[ATT_T]] = sees(r, p, at[ATT_S], at[ATT_T]) ? score(r, at) : -INFINITY;
        if (x[at[ATT_T]] > m) m = x[at[ATT_T]];
    }
    for (i64 t = 0; t < p->t; t++) l += x[t] = exp(x[t] - m);
    for (at[ATT_E] = 0; at[ATT_E] < p->e; at[ATT_E]++) {
        double o = 0;
        for (at[ATT_T] = 0; at[ATT_T] < p->t; at[ATT_T]++)
            if (x[at[ATT_T]] != 0)
                o += x[at[ATT_T]] * (double)rig_floats(r, &r->job.in[2])[rig_index(r, &r->job.in[2], at)];
        want[last][rig_index(r, &r->job.out[last], at)] = last > 0 ? o : l == 0 ? 0 : o / l;
    }
    if (last > 0) want[0][rig_index(r, &r->job.out[0], at)] = m;
    if (last > 0) want[1][rig_index(r, &r->job.out[1], at)] = l;
    ein__free(x);
}

static void check(const problem *p)
{
    static const char *const orders[][4] = {
        {"bhgsd", "bhtd", "bhte", "bhgse"},
        {"bshgd", "bthd", "bthe", "bshge"},
        {"dbhgs", "bhdt", "ehbt", "ebhgs"}};
    rig r;
    double *want[3];
    i64 at[ATT_LABELS] = {0};
    begin(&r, p, orders[p->order]);
    for (int i = 0; i < p->n_out; i++) want[i] = rig_expected(&r, &r.job.out[i]);
    for (at[ATT_B] = 0; at[ATT_B] < p->b; at[ATT_B]++)
        for (at[ATT_H] = 0; at[ATT_H] < p->h; at[ATT_H]++)
            for (at[ATT_G] = 0; at[ATT_G] < p->g; at[ATT_G]++)
                for (at[ATT_S] = 0; at[ATT_S] < p->s; at[ATT_S]++) expect_row(&r, p, at, want);
    rig_run(&r);
    for (int i = 0; i < p->n_out; i++) {
        rig_compare(&r, &r.job.out[i], want[i], 1e-5);
        ein__free(want[i]);
    }
    rig_end(&r);
}

/* Every tile shape and both ends of every chunk: head sizes around multiples of 16 and 64, and long ones. */
static void head_sizes(void **state)
{
    static const i64 sizes[][2] = {{1, 1},     {3, 5},     {16, 16},   {64, 64},  {80, 72},
                                   {128, 128}, {200, 100}, {256, 256}, {300, 600}, {3, 27}, {48, 96}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (i64 s = 7; s < 100; s += 35)
            check(&(problem){.b = 1, .h = 2, .g = 1, .s = s, .t = 75, .d = sizes[i][0], .e = sizes[i][1],
                             .causal = s > 10, .position = -1, .length = -1, .n_out = s == 42 ? 3 : 1});
}

/* Grouped heads; rows of a tile belong to several groups. */
static void groups(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++)
        for (int order = 0; order < 3; order++)
            check(&(problem){.b = 2, .h = 3, .g = 4, .s = 9, .t = 70, .d = 24, .e = 20, .causal = causal,
                             .position = 50, .length = -1, .order = order, .n_out = order == 1 ? 3 : 1});
}

/* One query at a run-time position, a valid length, blocks anywhere in the sequence. */
static void positions(void **state)
{
    (void)state;
    for (int n_out = 1; n_out < 4; n_out += 2) {
        for (i64 position = 0; position < 200; position += 63)
            check(&(problem){.b = 2, .h = 2, .g = 4, .s = 1, .t = 150, .d = 64, .e = 64, .causal = true,
                             .position = position, .length = -1, .n_out = n_out});
        for (i64 length = 0; length < 160; length += 50)
            check(&(problem){.b = 1, .h = 2, .g = 1, .s = 20, .t = 80, .d = 16, .e = 16, .position = -1,
                             .length = length, .first_t = 40, .n_out = n_out});
        for (i64 first = 0; first < 200; first += 65)
            check(&(problem){.b = 1, .h = 1, .g = 2, .s = 50, .t = 64, .d = 16, .e = 16, .causal = true,
                             .position = 3, .length = 110, .first_s = 70, .first_t = first, .n_out = n_out});
    }
}

/* Empty keys give 0, or the identity of the states; no queries, no blocks. */
static void empty(void **state)
{
    (void)state;
    problem p = {.b = 1, .h = 1, .g = 1, .s = 3, .t = 0, .d = 8, .e = 8, .position = -1, .length = -1};
    p.n_out = 1;
    check(&p);
    p.n_out = 3;
    check(&p);
    p.s = 0;
    p.t = 5;
    check(&p);
}

/* A NaN in a query reaches its row and no other; scores of -inf hide a key, one of 1e38 takes all. */
static void special(void **state)
{
    static const char *const orders[4] = {"bhgsd", "bhtd", "bhte", "bhgse"};
    const problem p = {.b = 1, .h = 1, .g = 1, .s = 4, .t = 40, .d = 2, .e = 2, .position = -1, .length = -1,
                       .n_out = 1};
    rig r;
    (void)state;
    begin(&r, &p, orders);
    float *q = rig_floats(&r, &r.job.in[0]), *k = rig_floats(&r, &r.job.in[1]) + 1;
    const float *v = rig_floats(&r, &r.job.in[2]) + 2;
    for (int s = 0; s < 4; s++)
        for (int i = 0; i < 2; i++) q[s * r.job.in[0].stride[ATT_S] + i] = i == 0;
    q[r.job.in[0].stride[ATT_S] + 1] = NAN;
    for (int t = 0; t < 40; t++)
        k[t * r.job.in[1].stride[ATT_T]] = t == 33 ? 1e38f : t == 5 ? -INFINITY : -2e38f;
    rig_run(&r);
    const float *o = rig_floats(&r, &r.job.out[0]) + 2;
    for (int s = 0; s < 4; s++)
        for (int i = 0; i < 2; i++) {
            float y = o[s * r.job.out[0].stride[ATT_S] + i];
            if (s == 1) assert_true(isnan(y));
            else assert_true(y == v[33 * r.job.in[2].stride[ATT_T] + i]);
        }
    rig_end(&r);
}

/* Lengths, positions and strides are arguments. */
static void one_text(void **state)
{
    static const char *const orders[4] = {"bhgsd", "bhtd", "bhte", "bhgse"};
    hash128 keys[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        const problem p = {.b = 1 + i, .h = 2, .g = 1 + i, .s = 100 + i, .t = 30 * i, .d = 64, .e = 64,
                           .causal = true, .position = i == 2 ? 4 : -1, .length = i == 1 ? 9 : -1,
                           .first_t = i, .n_out = 1};
        rig r;
        begin(&r, &p, orders);
        rig_run(&r);
        keys[i] = r.launch.kernel.key;
        rig_end(&r);
    }
    assert_true(ein__hash_equal(keys[0], keys[1]) && ein__hash_equal(keys[0], keys[2]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(head_sizes), cmocka_unit_test(groups),
                                       cmocka_unit_test(positions),  cmocka_unit_test(empty),
                                       cmocka_unit_test(special),    cmocka_unit_test(one_text)};
    rig_every_architecture = true;
    return cmocka_run_group_tests(tests, NULL, rig_unload);
}
