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
    i64 window;
    double softcap;
    ein_dtype type;   /* 0: f32 */
    ein_dtype mask;   /* 0: none */
    const char *over; /* labels that the mask has */
    bool odd;         /* values and keys that are not finite, here and there */
} problem;

static ein_dtype type_of(const problem *p) { return p->type != 0 ? p->type : EIN_F32; }

static double get(const rig *r, const view *v, i64 i)
{
    return ein__dtype_read(v->dtype, (char *)r->buffers[v->place.index] + i * ein__dtype_bytes(v->dtype));
}

static void set(const rig *r, const view *v, i64 i, double x)
{
    ein__dtype_write(v->dtype, x, (char *)r->buffers[v->place.index] + i * ein__dtype_bytes(v->dtype));
}

static double at_point(const rig *r, const view *v, const i64 *at) { return get(r, v, rig_index(r, v, at)); }

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

static void operand(rig *r, ein_dtype type, const i64 *strides, i64 offset)
{
    view *v = &r->job.in[r->job.n_in];
    rig_map(r, strides, &r->node.spec.operands[r->job.n_in]);
    *v = rig_view(r, type, strides, offset);
    for (i64 i = 0; i < r->sizes[v->place.index]; i++) {
        double x = (double)rig_random();
        if (r->job.n_in == 3) x = type == EIN_BOOL ? x > 0 : x > 0.5 ? -INFINITY : 3 * x;
        set(r, v, i, x);
    }
    r->node.spec.n_operands = ++r->job.n_in;
}

static void result(rig *r, ein_dtype type, const i64 *strides, i64 offset)
{
    view *v = &r->job.out[r->job.n_out++];
    *v = rig_view(r, type, strides, offset);
    for (i64 i = 0; i < r->sizes[v->place.index]; i++) set(r, v, i, (double)CANARY);
}

/* Some values are no numbers, or infinite; so are a few keys. */
static void make_odd(const rig *r, const problem *p)
{
    static const double kinds[] = {NAN, INFINITY, -INFINITY};
    i64 at[MAX_LABELS] = {0};
    for (at[ATT_T] = 0; at[ATT_T] < p->t; at[ATT_T]++)
        for (at[ATT_B] = 0; at[ATT_B] < p->b; at[ATT_B]++)
            for (at[ATT_H] = 0; at[ATT_H] < p->h; at[ATT_H]++) {
                at[ATT_E] = (i64)(((double)rig_random() + 1) * (double)p->e / 2);
                at[ATT_D] = 0;
                int kind = (int)(at[ATT_T] % 3);
                if (rig_random() > 0.8f) set(r, &r->job.in[2], rig_index(r, &r->job.in[2], at), kinds[kind]);
                if (rig_random() > 0.97f) set(r, &r->job.in[1], rig_index(r, &r->job.in[1], at), kinds[kind]);
            }
}

static void begin(rig *r, const problem *p, const char *const orders[4])
{
    const i64 len[] = {p->b, p->h, p->g, p->s, p->t, p->d, p->e};
    const i64 lo[] = {0, 0, 0, p->first_s, p->first_t, 0, 0};
    ein_dtype type = type_of(p), state = ein__dtype_compute(type);
    i64 strides[MAX_LABELS] = {0};
    rig_begin(r, OP_ATTENTION, ATT_LABELS, len, lo);
    for (int i = 0; i < 3; i++) {
        dense(len, orders[i], strides);
        operand(r, type, strides, i);
    }
    if (p->mask != 0) {
        dense(len, p->over, strides);
        operand(r, p->mask, strides, 3);
    }
    for (int i = 0; i < p->n_out - 1; i++) {
        dense(len, "bhgs", strides);
        result(r, state, strides, 1);
    }
    dense(len, orders[3], strides);
    result(r, p->n_out == 1 ? type : state, strides, 2);
    r->node.spec.n_results = 1;
    rig_merge(r, p->n_out == 1 ? MERGE_SOFTMAX : MERGE_SOFTMAX_STATE, 1);
    r->node.attention = (attention_attrs){.causal = p->causal, .scale = 0.7, .window = p->window, .softcap = p->softcap};
    r->node.attention.position = p->position < 0 ? -1 : POSITION;
    r->node.attention.length = p->length < 0 ? -1 : LENGTH;
    r->scalars[POSITION] = p->position;
    r->scalars[LENGTH] = p->length;
    r->job.mode = p->n_out == 1 ? JOB_FINAL : JOB_STATES;
    if (p->odd) make_odd(r, p);
}

static double score(const rig *r, const problem *p, const i64 *at)
{
    i64 x[ATT_LABELS];
    double sum = 0;
    memcpy(x, at, sizeof x);
    for (x[ATT_D] = 0; x[ATT_D] < r->job.box.len[ATT_D]; x[ATT_D]++)
        sum += at_point(r, &r->job.in[0], x) * at_point(r, &r->job.in[1], x);
    sum *= r->node.attention.scale;
    if (p->softcap > 0) sum = p->softcap * tanh(sum / p->softcap);
    return p->mask != 0 && p->mask != EIN_BOOL ? sum + at_point(r, &r->job.in[3], at) : sum;
}

static bool sees(const rig *r, const problem *p, const i64 *at)
{
    i64 s = at[ATT_S] + p->first_s + (p->position < 0 ? 0 : p->position), t = at[ATT_T] + p->first_t;
    if (p->causal && t > s) return false;
    if (p->length >= 0 && t >= p->length) return false;
    if (p->window > 0 && t <= s - p->window) return false;
    if (p->mask == 0) return true;
    double mask = at_point(r, &r->job.in[3], at);
    return p->mask == EIN_BOOL ? mask != 0 : mask != -INFINITY;
}

/* One row: its scores, then the states, by definition: what is not seen takes no part, and all else does. */
static void expect_row(const rig *r, const problem *p, i64 *at, double *const want[3])
{
    int last = p->n_out - 1;
    double m = EIN__LOWEST, l = 0;
    double *x = ein__calloc((size_t)p->t + 1, sizeof *x);
    bool *seen = ein__calloc((size_t)p->t + 1, sizeof *seen);
    at[ATT_E] = 0;
    for (i64 t = at[ATT_T] = 0; t < p->t; at[ATT_T] = ++t) {
        seen[t] = sees(r, p, at);
        x[t] = seen[t] ? score(r, p, at) : 0;
        if (seen[t] && (x[t] > m || isnan(x[t]))) m = x[t];
    }
    for (i64 t = 0; t < p->t; t++)
        if (seen[t]) l += x[t] = exp(x[t] - m);
    for (at[ATT_E] = 0; at[ATT_E] < p->e; at[ATT_E]++) {
        double o = 0;
        for (at[ATT_T] = 0; at[ATT_T] < p->t; at[ATT_T]++)
            if (seen[at[ATT_T]]) o += x[at[ATT_T]] * at_point(r, &r->job.in[2], at);
        want[last][rig_index(r, &r->job.out[last], at)] = last > 0 ? o : l == 0 ? 0 : o / l;
    }
    if (last > 0) want[0][rig_index(r, &r->job.out[0], at)] = m;
    if (last > 0) want[1][rig_index(r, &r->job.out[1], at)] = l;
    ein__free(x);
    ein__free(seen);
}

/* Everything that was not written is still a canary. */
static void compare(const rig *r, const view *v, const double *want)
{
    static const double rounding[] = {[EIN_F32] = 1e-5, [EIN_F64] = 1e-13, [EIN_BF16] = 1.0 / 256, [EIN_F16] = 1.0 / 2048};
    double least = v->dtype == EIN_F64 ? 1e-13 : 1e-5;
    for (i64 i = 0; i < r->sizes[v->place.index]; i++) {
        double x = get(r, v, i), off = fabs(x - want[i]);
        if (isnan(want[i]) ? isnan(x) : x == want[i] || off <= rounding[v->dtype] * fabs(want[i]) + least) continue;
        fail_msg("element %lld: %.9g, expected %.9g\n%s", (long long)i, x, want[i], r->launch.kernel.body);
    }
}

static void check(const problem *p)
{
    static const char *const orders[][4] = {
        {"bhgsd", "bhtd", "bhte", "bhgse"},
        {"bshgd", "bthd", "bthe", "bshge"},
        {"dbhgs", "bhdt", "ehbt", "ebhgs"}};
    rig r;
    double *want[3];
    i64 at[MAX_LABELS] = {0};
    begin(&r, p, orders[p->order]);
    for (int i = 0; i < p->n_out; i++) {
        i64 n = r.sizes[r.job.out[i].place.index];
        want[i] = ein__calloc((size_t)n, sizeof(double));
        for (i64 k = 0; k < n; k++) want[i][k] = get(&r, &r.job.out[i], k);
    }
    for (at[ATT_B] = 0; at[ATT_B] < p->b; at[ATT_B]++)
        for (at[ATT_H] = 0; at[ATT_H] < p->h; at[ATT_H]++)
            for (at[ATT_G] = 0; at[ATT_G] < p->g; at[ATT_G]++)
                for (at[ATT_S] = 0; at[ATT_S] < p->s; at[ATT_S]++) expect_row(&r, p, at, want);
    rig_run(&r);
    for (int i = 0; i < p->n_out; i++) {
        compare(&r, &r.job.out[i], want[i]);
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

/* Windows that end inside a tile, before it, after it; that are wider than all; without causal; in one block of
 * many; at run-time positions past the keys. */
static void windows(void **state)
{
    static const i64 widths[] = {1, 5, 33, 64, 1000, INT64_MAX};
    (void)state;
    rig_every_architecture = false; /* until `types`: many texts that differ little */
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (int n_out = 1; n_out < 4; n_out += 2) {
            problem p = {.b = 1, .h = 2, .g = 2, .s = 90, .t = 150, .d = 16, .e = 16, .causal = i % 2 == 0,
                         .position = 40, .length = 120, .window = widths[i], .n_out = n_out};
            check(&p);
            p.position = 2000; /* past the window of all keys */
            check(&p);
            p.position = -1;
            p.first_s = 80;
            p.first_t = 60;
            check(&p);
            p.s = 1; /* a tile of several groups of one position */
            p.g = 5;
            check(&p);
        }
}

/* Masks of both kinds, every dimension the scores' or broadcast; with all else that hides keys. */
static void masks(void **state)
{
    static const char *const over[] = {"bhgst", "bst", "t", "hgt", "bhgs", "", "hgs", "st"};
    static const ein_dtype kinds[] = {EIN_BOOL, EIN_F32};
    (void)state;
    for (size_t i = 0; i < sizeof over / sizeof *over; i++)
        for (int k = 0; k < 2; k++) {
            problem p = {.b = 2, .h = 2, .g = 3, .s = 11, .t = 70, .d = 16, .e = 20, .position = -1, .length = -1,
                         .n_out = 1, .mask = kinds[k], .over = over[i]};
            check(&p);
            p.causal = true;
            p.position = 30;
            p.length = 50;
            p.n_out = 3;
            p.window = 25;
            p.order = 1;
            p.odd = true;
            check(&p);
        }
}

static void softcaps(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++)
        check(&(problem){.b = 1, .h = 2, .g = 1, .s = 30, .t = 70, .d = 80, .e = 16, .causal = order == 1,
                         .position = -1, .length = -1, .softcap = 0.5, .n_out = order == 0 ? 3 : 1, .order = order});
    check(&(problem){.b = 1, .h = 2, .g = 1, .s = 30, .t = 70, .d = 16, .e = 16, .position = -1, .length = -1,
                     .softcap = 2, .n_out = 1, .mask = EIN_F32, .over = "st"});
}

/* A NaN or an infinity reaches the rows that see its key and no other, on whatever edge of a tile it lies. */
static void odd_values(void **state)
{
    static const char *const over[] = {NULL, "st", "hgst"};
    (void)state;
    for (int i = 0; i < 16; i++) {
        problem p = {.b = 1, .h = 2, .g = 2, .s = i % 2 == 0 ? 40 : 4, .t = 150, .d = 32, .e = i % 2 == 0 ? 80 : 32,
                     .causal = i % 4 < 3, .position = i % 4 > 1 ? 60 : -1, .length = i % 8 > 3 ? 100 : -1,
                     .window = i > 8 ? 30 : 0, .n_out = i % 4 == 1 ? 3 : 1, .odd = true};
        check(&p);
        if (i % 5 != 0) continue;
        p.over = over[1 + i / 5 % 2];
        p.mask = i % 2 == 0 ? EIN_BOOL : EIN_F32;
        check(&p);
    }
}

/* Every element type: all tile shapes, states and results, masks of both float types, all that hides keys. */
static void types(void **state)
{
    static const ein_dtype all[] = {EIN_F64, EIN_BF16, EIN_F16};
    static const i64 shapes[][4] = {{5, 32, 32, 1}, {11, 24, 20, 1}, {40, 64, 64, 1}, {70, 128, 200, 1}, {2, 128, 64, 3}};
    (void)state;
    rig_every_architecture = true;
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 5; i++) {
            const i64 *x = shapes[i];
            problem p = {.b = 2, .h = 2, .g = x[3], .s = x[0], .t = 75, .d = x[1], .e = x[2], .causal = i % 2 == 1,
                         .position = i > 1 ? 30 : -1, .length = -1, .n_out = i % 2 == 1 ? 3 : 1, .type = all[k]};
            check(&p);
            if (i != k + 1) continue;
            p.n_out = 4 - p.n_out;
            p.window = 20;
            p.length = 60;
            p.softcap = 3;
            p.mask = i == 1 ? EIN_BOOL : i == 2 ? EIN_F32 : all[k];
            p.over = "st";
            p.odd = true;
            check(&p);
        }
}

/* By hand: one query, keys of scores NaN, ln 2, ln 3, NaN, a window of 2 at position 2: (2 + 3 x 10) / 5. */
/* Several tiles of every kind: few queries, resident ones or not, several chunks of both sizes, masks, states. None of
 * their barriers is too many. */
static void barriers(void **state)
{
    static const problem all[] = {
        {.b = 1, .h = 1, .g = 1, .s = 42, .t = 150, .d = 64, .e = 64, .position = -1, .length = -1, .n_out = 1},
        {.b = 1, .h = 1, .g = 1, .s = 40, .t = 75, .d = 300, .e = 72, .position = -1, .length = -1,
         .n_out = 3},
        {.b = 1, .h = 2, .g = 4, .s = 1, .t = 150, .d = 64, .e = 64, .position = -1, .length = -1, .n_out = 1},
        {.b = 1, .h = 1, .g = 3, .s = 11, .t = 150, .d = 16, .e = 100, .causal = true, .position = 120, .length = 140,
         .window = 100, .n_out = 1, .mask = EIN_F32, .over = "st"}};
    (void)state;
    rig_every_architecture = false;
    rig_start_barriers();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) check(&all[i]);
    assert_true(rig_barriers >= 4 * 7);
    rig_barriers = -1;
}

static void by_hand(void **state)
{
    static const char *const orders[4] = {"bhgsd", "bhtd", "bhte", "bhgse"};
    const double keys[] = {NAN, log(2) / 0.7, log(3) / 0.7, NAN}, values[] = {NAN, 1, 10, INFINITY};
    const problem p = {.b = 1, .h = 1, .g = 1, .s = 1, .t = 4, .d = 1, .e = 1, .causal = true, .position = 2,
                       .length = -1, .window = 2, .n_out = 1};
    rig r;
    (void)state;
    begin(&r, &p, orders);
    set(&r, &r.job.in[0], r.job.in[0].offset, 1);
    for (int t = 0; t < 4; t++) {
        set(&r, &r.job.in[1], r.job.in[1].offset + t * r.job.in[1].stride[ATT_T], keys[t]);
        set(&r, &r.job.in[2], r.job.in[2].offset + t * r.job.in[2].stride[ATT_T], values[t]);
    }
    rig_run(&r);
    assert_float_equal(get(&r, &r.job.out[0], r.job.out[0].offset), 32.0 / 5, 1e-5);
    rig_end(&r);
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
                                       cmocka_unit_test(positions),  cmocka_unit_test(windows),
                                       cmocka_unit_test(masks),      cmocka_unit_test(softcaps),
                                       cmocka_unit_test(odd_values), cmocka_unit_test(by_hand),
                                       cmocka_unit_test(types),      cmocka_unit_test(empty),
                                       cmocka_unit_test(special),    cmocka_unit_test(barriers),
                                       cmocka_unit_test(one_text)};
    rig_every_architecture = true;
    return cmocka_run_group_tests(tests, NULL, rig_unload);
}
