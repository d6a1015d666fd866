/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of models that do not divide, tables that are used twice, work that all falls to one device. */
#include "tests/jit/peers/peers.h"

/* ---- attention ---------------------------------------------------------------------------------------- */

/* Numbers between -1.25 and 1.25 with no pattern that a wrong layout would keep. */
static double *scattered(int n, int seed)
{
    double *x = ramp(n, 0, 0);
    for (int i = 0; i < n; i++) x[i] = ((i * 7 + i / 11 * 3 + seed * 5) % 11 - 5) / 4.0;
    return x;
}

/* x [rows, k] w [n, k] -> [rows, n] */
static double *project(const double *x, const double *w, int rows, int k, int n)
{
    double *y = ramp(rows * n, 0, 0);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < n; j++)
            for (int l = 0; l < k; l++) y[i * n + j] += x[i * k + l] * w[j * k + l];
    return y;
}

typedef struct attention {
    int heads, kv_heads, queries, keys, size;
    bool causal;
} attention;

/* One query of one head: q [size], k, v [keys, size] -> out [size]. */
static void attend_row(const attention *a, const double *q, const double *k, const double *v, int query, double *out)
{
    double sum = 0;
    for (int e = 0; e < a->size; e++) out[e] = 0;
    for (int t = 0; t < a->keys && (!a->causal || t <= query); t++) {
        double score = 0;
        for (int e = 0; e < a->size; e++) score += q[e] * k[t * a->size + e];
        double p = exp(score / sqrt(a->size));
        sum += p;
        for (int e = 0; e < a->size; e++) out[e] += p * v[t * a->size + e];
    }
    for (int e = 0; e < a->size; e++) out[e] /= sum;
}

/* q [heads, queries, size], k, v [kv_heads, keys, size] -> [heads, queries, size] */
static double *attend(const attention *a, const double *q, const double *k, const double *v)
{
    double *out = ramp(a->heads * a->queries * a->size, 0, 0);
    int group = a->heads / a->kv_heads;
    for (int h = 0; h < a->heads; h++)
        for (int s = 0; s < a->queries; s++) {
            int at = (h * a->queries + s) * a->size, from = h / group * a->keys * a->size;
            attend_row(a, q + at, k + from, v + from, s, out + at);
        }
    return out;
}

/* [a, b, size] -> [b, a, size] */
static double *swapped(const double *x, int a, int b, int size)
{
    double *y = ramp(a * b * size, 0, 0);
    for (int i = 0; i < a; i++)
        for (int j = 0; j < b; j++) memcpy(y + (j * a + i) * size, x + (i * b + j) * size, (size_t)size * sizeof *x);
    return y;
}

enum { HEADS = 5, SIZE = 4, SEQ = 3, WIDTH = HEADS * SIZE };

static ein_tensor heads_of(ein_graph *g, ein_tensor x, const char *weight)
{
    ein_tensor y = ein_linear(g, x, PARAMETER(g, weight, WIDTH, WIDTH), NONE);
    return ein_permute(g, ein_reshape(g, y, SHAPE(1, SEQ, HEADS, SIZE)), (int[]){0, 2, 1, 3});
}

/* vllm#596, vllm#5003, DeepSpeed#3634, lmdeploy#2114: heads that the devices do not divide. A whole block of 5 heads. */
static void five_heads(void **state)
{
    (void)state;
    const attention a = {HEADS, HEADS, SEQ, SEQ, SIZE, true};
    ein_graph *g = graph_new();
    ein_tensor x = INPUT(g, "x", SEQ, WIDTH);
    ein_tensor q = heads_of(g, x, "wq"), k = heads_of(g, x, "wk"), v = heads_of(g, x, "wv");
    ein_tensor o = ein_scaled_dot_product_attention(
        g, q, k, v, &(ein_attention_options){.size = sizeof(ein_attention_options), .causal = 1});
    o = ein_reshape(g, ein_permute(g, o, (int[]){0, 2, 1, 3}), SHAPE(SEQ, WIDTH));
    ein_output(g, "y", ein_linear(g, o, PARAMETER(g, "wo", WIDTH, WIDTH), NONE));

    double *data[5], *parts[3], *heads[3];
    data[0] = scattered(SEQ * WIDTH, 0);
    for (int i = 1; i < 5; i++) data[i] = scattered(WIDTH * WIDTH, i);
    for (int i = 0; i < 3; i++) parts[i] = project(data[0], data[i + 1], SEQ, WIDTH, WIDTH);
    for (int i = 0; i < 3; i++) heads[i] = swapped(parts[i], SEQ, HEADS, SIZE);
    double *seen = attend(&a, heads[0], heads[1], heads[2]), *rows = swapped(seen, HEADS, SEQ, SIZE);
    double *y = project(rows, data[4], SEQ, WIDTH, WIDTH);
    try_plans(g,
              (numbers[]){{"x", SEQ * WIDTH, data[0]}, {"wq", WIDTH * WIDTH, data[1]}, {"wk", WIDTH * WIDTH, data[2]},
                          {"wv", WIDTH * WIDTH, data[3]}, {"wo", WIDTH * WIDTH, data[4]}, {0}},
              (numbers[]){{"y", SEQ * WIDTH, y}, {0}}, 1e-5, (int[]){2, 3, 0});
    for (int i = 0; i < 5; i++) free(data[i]);
    for (int i = 0; i < 3; i++) free(parts[i]);
    for (int i = 0; i < 3; i++) free(heads[i]);
    free(seen);
    free(rows);
    free(y);
}

/* Queries, keys and values as parameters; q, k, v and the result are for the caller to free. */
static ein_graph *bare_attention(const attention *a, double *data[4])
{
    ein_graph *g = graph_new();
    ein_tensor q = PARAMETER(g, "q", 1, a->heads, a->queries, a->size);
    ein_tensor k = PARAMETER(g, "k", 1, a->kv_heads, a->keys, a->size), v = PARAMETER(g, "v", 1, a->kv_heads, a->keys, a->size);
    ein_output(g, "y", ein_scaled_dot_product_attention(g, q, k, v, NULL));
    data[0] = scattered(a->heads * a->queries * a->size, 1);
    for (int i = 1; i < 3; i++) data[i] = scattered(a->kv_heads * a->keys * a->size, i + 1);
    data[3] = attend(a, data[0], data[1], data[2]);
    return g;
}

/* The same: 40 heads on 3 devices. */
static void forty_heads(void **state)
{
    (void)state;
    const attention a = {40, 40, SEQ, SEQ, SIZE, false};
    double *data[4];
    ein_graph *g = bare_attention(&a, data);
    const int n = 40 * SEQ * SIZE;
    plan_case k = {.graph = g,
                   .given = (numbers[]){{"q", n, data[0]}, {"k", n, data[1]}, {"v", n, data[2]}, {0}},
                   .wanted = (numbers[]){{"y", n, data[3]}, {0}},
                   .tolerance = 1e-5};
    plan_draft d;
    draft_make(&d, g, 3);
    draft_cut(&d, "scaled_dot_product_attention", 0, "h", (int[]){3}, NULL);
    char *plan = draft_text(&d);
    assert_non_null(strstr(plan, "\"at\":[0,14,27,40]"));
    ein_context *c = open_context("host:3", NULL);
    run_plan(c, &k, plan, "14, 13 and 13 heads");
    ein_context_free(c);
    free(plan);
    each_device_count(&k, (int[]){3, 0});
    for (int i = 0; i < 4; i++) free(data[i]);
    ein_graph_free(g);
}

/* All on device 0, a query head to each of eight devices: each of the seven others fetches its own head's queries,
 * and the keys and values of one head of two, in bytes. */
static void check_traffic(const ein_graph *g, const attention *a, double *const data[4])
{
    plan_draft d;
    ein_weights *w = NULL;
    ein_run *r = NULL;
    ein_context *c = open_context("host:8", NULL);
    draft_make(&d, g, 8);
    for (int i = 0; i < 3; i++) draft_lay(&d, (const char *[]){"q", "k", "v"}[i], 0, 1, (int[]){0});
    draft_cut(&d, "scaled_dot_product_attention", 0, "h,g", (int[]){2, 4}, NULL);
    char *plan = draft_text(&d);
    float x[3][256] = {{0}}, y[256];
    assert_int_equal(ein_weights_create(&w, c), EIN_OK);
    for (int i = 0; i < 3; i++) {
        int heads = i == 0 ? a->heads : a->kv_heads, rows = i == 0 ? a->queries : a->keys;
        for (int j = 0; j < heads * rows * a->size; j++) x[i][j] = (float)data[i][j];
        assert_int_equal(ein_weights_add(w, (const char *[]){"q", "k", "v"}[i], EIN_F32, SHAPE(1, heads, rows, a->size), x[i], EIN_BORROW), EIN_OK);
    }
    ein_program *p = compile_program(
        c, g, &(ein_compile_options){.size = sizeof(ein_compile_options), .weights = w, .plan = plan, .counting = 1});
    int64_t bytes = 7 * (a->queries + 2 * a->keys) * a->size * (int64_t)sizeof(float);
    assert_int_equal(program_stats(p).predicted_bytes, bytes);
    assert_int_equal(ein_run_create(&r, p), EIN_OK);
    assert_int_equal(ein_run_output(r, "y", y, (size_t)(a->heads * a->queries * a->size) * sizeof *y), EIN_OK);
    assert_int_equal(ein_run_once(r), EIN_OK);
    trial_check_tally(r, 8, bytes);
    ein_run_free(r);
    ein_program_free(p);
    ein_weights_free(w);
    ein_context_free(c);
    free(plan);
}

/* vllm#1122, vllm-project/tpu-inference#1429: fewer heads of keys and values than devices. */
static void grouped_queries(void **state)
{
    (void)state;
    const attention a = {8, 2, 2, 5, SIZE, false};
    double *data[4];
    ein_graph *g = bare_attention(&a, data);
    each_device_count(&(plan_case){.graph = g,
                                   .given = (numbers[]){{"q", 64, data[0]}, {"k", 40, data[1]}, {"v", 40, data[2]}, {0}},
                                   .wanted = (numbers[]){{"y", 64, data[3]}, {0}},
                                   .tolerance = 1e-5},
                      (int[]){4, 8, 0});
    check_traffic(g, &a, data);
    for (int i = 0; i < 4; i++) free(data[i]);
    ein_graph_free(g);
}

/* facebookresearch/xformers#572, transformers#32597, transformers#34789: the halves of a head that is cut itself were
 * those of each part: [-3,-4,1,2,-7,-8,5,6]. The op, and the same spelled out. */
static void rotated_halves(void **state)
{
    (void)state;
    ein_graph *g = graph_new();
    ein_tensor x = PARAMETER(g, "x", 1, 1, 1, 8), h = PARAMETER(g, "h", 8);
    ein_tensor half = ein_neg(g, ein_slice(g, h, 0, 4, 8));
    ein_output(g, "rope", ein_rope(g, x, PARAMETER(g, "cos", 1, 4), PARAMETER(g, "sin", 1, 4), (ein_scalar){0}));
    ein_output(g, "spelled", ein_map(g, "x0 * 0 + x1", 2, (ein_tensor[]){h, ein_concat(g, 2, (ein_tensor[]){half, ein_slice(g, h, 0, 0, 4)}, 0)}));
    try_plans(g,
              GIVEN(NUMBERS("x", 1, 2, 3, 4, 5, 6, 7, 8), NUMBERS("h", 1, 2, 3, 4, 5, 6, 7, 8), NUMBERS("cos", 0),
                    NUMBERS("sin", 1)),
              WANTED(NUMBERS("rope", -5, -6, -7, -8, 1, 2, 3, 4), NUMBERS("spelled", -5, -6, -7, -8, 1, 2, 3, 4)), 0,
              (int[]){2, 4, 8, 0});
}

/* ---- tables ------------------------------------------------------------------------------------------- */

/* Bytes of all pieces of the table, where its rows are cut: one copy, for both uses. */
static void check_one_copy(const ein_graph *g, int devices)
{
    char machine[32];
    plan_draft d;
    ein_weights *w = NULL;
    const float e[12] = {0};
    snprintf(machine, sizeof machine, "host:%d", devices);
    ein_context *c = open_context(machine, NULL);
    draft_make(&d, g, devices);
    draft_lay(&d, "e", 0, devices, NULL);
    draft_cut(&d, "embedding", 0, "v", &devices, NULL);
    draft_cut(&d, "linear", 0, "n", &devices, NULL);
    char *plan = draft_text(&d);
    assert_int_equal(ein_weights_create(&w, c), EIN_OK);
    assert_int_equal(ein_weights_add(w, "e", EIN_F32, SHAPE(6, 2), e, EIN_BORROW), EIN_OK);
    ein_program *p =
        compile_program(c, g, &(ein_compile_options){.size = sizeof(ein_compile_options), .weights = w, .plan = plan});
    int64_t placed = 0;
    for (int i = 0; i < devices; i++) placed += ein_weights_device_bytes(w, i);
    assert_int_equal(program_stats(p).weight_bytes, sizeof e);
    assert_int_equal(placed, sizeof e);
    ein_program_free(p);
    ein_weights_free(w);
    ein_context_free(c);
    free(plan);
}

/* Megatron-LM#844, slapo#12, foundation-model-stack#331: one table, looked up and used as the output's weight. */
static void tied_table(void **state)
{
    (void)state;
    ein_graph *g = graph_new();
    ein_tensor e = PARAMETER(g, "e", 6, 2), h = ein_embedding(g, ein_input(g, "ids", EIN_I64, SHAPE(2)), e);
    ein_output(g, "logits", ein_linear(g, h, e, NONE));
    check_one_copy(g, 2);
    check_one_copy(g, 3);
    try_plans(g, GIVEN(NUMBERS("e", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), NUMBERS("ids", 1, 5)),
              WANTED(NUMBERS("logits", 3, 13, 23, 33, 43, 53, 11, 53, 95, 137, 179, 221)), 0, (int[]){2, 3, 0});
}

/* pytorch#130725, pytorch#131264: the first table's mask of rows was used for the second. */
static void two_tables(void **state)
{
    (void)state;
    ein_graph *g = graph_new();
    ein_tensor ids = ein_input(g, "ids", EIN_I64, SHAPE(3));
    double *a = ramp(2300, 0, 1), *b = ramp(2929, 5, 1);
    ein_output(g, "first", ein_embedding(g, ids, PARAMETER(g, "a", 100, 23)));
    ein_output(g, "second", ein_embedding(g, ids, PARAMETER(g, "b", 101, 29)));
    try_plans(g, WANTED({"a", 2300, a}, {"b", 2929, b}, NUMBERS("ids", 1, 2, 3)),
              WANTED({"first", 69, a + 23}, {"second", 87, b + 29}), 0, (int[]){8, 0});
    free(a);
    free(b);
}

/* ---- layouts that meet -------------------------------------------------------------------------------- */

/* tenstorrent/tt-xla#5099: one value read in two layouts, whose readers meet again. Below, h [4,2] by h's identity
 * and by the swap of its columns. */
static void two_layouts_meet(void **state)
{
    (void)state;
    static const char *const by[2] = {"m", "n"};
    ein_graph *g = graph_new();
    ein_tensor h = ein_map(g, "x0 - 1", 1, (ein_tensor[]){PARAMETER(g, "h", 4, 2)});
    ein_tensor q = ein_matmul(g, h, PARAMETER(g, "identity", 2, 2)), v = ein_matmul(g, h, PARAMETER(g, "swap", 2, 2));
    ein_output(g, "y", ein_map(g, "x0 * x1 + 1", 2, (ein_tensor[]){q, v}));
    plan_case k = {.graph = g,
                   .given = GIVEN(NUMBERS("h", 1, 2, 3, 4, 5, 6, 7, 8), NUMBERS("identity", 1, 0, 0, 1), NUMBERS("swap", 0, 1, 1, 0)),
                   .wanted = WANTED(NUMBERS("y", 1, 1, 7, 7, 21, 21, 43, 43))};
    for (int devices = 2; devices <= 4; devices += 2) {
        char machine[32];
        snprintf(machine, sizeof machine, "host:%d", devices);
        ein_context *c = open_context(machine, NULL);
        for (int way = 0; way < 4; way++) {
            plan_draft d;
            draft_make(&d, g, devices);
            draft_cut(&d, "matmul", 0, by[way % 2], &devices, NULL);
            draft_cut(&d, "matmul", 1, by[1 - way % 2], &devices, NULL);
            if (way > 1) draft_cut(&d, "map", 0, "d0", &devices, NULL);
            char *plan = draft_text(&d);
            run_plan(c, &k, plan, way % 2 == 0 ? "rows for q, columns for v" : "columns for q, rows for v");
            free(plan);
        }
        ein_context_free(c);
    }
    each_device_count(&k, (int[]){2, 4, 0});
    ein_graph_free(g);
}

/* microsoft/DeepSpeed#6392: from a cut along 8 to a cut along 7, over 4 devices, and back. */
static void there_and_back(void **state)
{
    (void)state;
    static const char *const by[3] = {"d0", "d1", "d0"}, *const ops[3] = {"abs", "neg", "round"};
    ein_graph *g = graph_new();
    double *x = ramp(56, 0, 1), *y = ramp(56, 0, -1);
    ein_output(g, "y", ein_round(g, ein_neg(g, ein_abs(g, PARAMETER(g, "x", 8, 7)))));
    plan_case k = {.graph = g, .given = (numbers[]){{"x", 56, x}, {0}}, .wanted = (numbers[]){{"y", 56, y}, {0}}};
    ein_context *c = open_context("host:4", NULL);
    plan_draft d;
    draft_make(&d, g, 4);
    for (int i = 0; i < 3; i++) draft_cut(&d, ops[i], 0, by[i], (int[]){4}, NULL);
    char *plan = draft_text(&d);
    run_plan(c, &k, plan, "rows, columns, rows");
    free(plan);
    ein_context_free(c);
    each_device_count(&k, (int[]){4, 0});
    free(x);
    free(y);
    ein_graph_free(g);
}

/* ---- convolutions ------------------------------------------------------------------------------------- */

/* pytorch#176446, tensorflow#58161: parts of a convolution read beyond their edge. And a window of 7 in steps of 2 was
 * refused even where only the batch is cut. */
static void convolution_in_parts(void **state)
{
    (void)state;
    ein_graph *g = graph_new();
    const ein_conv_options pad = {.size = sizeof pad, .padding = {1}}, wide = {.size = sizeof wide, .stride = {2}};
    double x[36];
    for (int i = 0; i < 36; i++) x[i] = 10 * (i / 9) + i % 9;
    ein_output(g, "y", ein_conv1d(g, PARAMETER(g, "x", 1, 1, 8), PARAMETER(g, "kernel", 1, 1, 3), NONE, &pad));
    ein_output(g, "batch", ein_conv1d(g, PARAMETER(g, "images", 4, 1, 9), PARAMETER(g, "ones", 1, 1, 7), NONE, &wide));
    plan_case k = {.graph = g,
                   .given = GIVEN(NUMBERS("x", 1, 2, 3, 4, 5, 6, 7, 8), NUMBERS("kernel", 1, 10, 100), {"images", 36, x},
                                  NUMBERS("ones", 1)),
                   .wanted = WANTED(NUMBERS("y", 210, 321, 432, 543, 654, 765, 876, 87),
                                    NUMBERS("batch", 21, 35, 91, 105, 161, 175, 231, 245))};
    for (int devices = 2; devices <= 4; devices++) {
        char machine[32];
        plan_draft d;
        snprintf(machine, sizeof machine, "host:%d", devices);
        ein_context *c = open_context(machine, NULL);
        draft_make(&d, g, devices);
        draft_cut(&d, "conv1d", 0, "ow", &devices, NULL);
        draft_cut(&d, "conv1d", 1, "n", &devices, NULL);
        char *plan = draft_text(&d);
        run_plan(c, &k, plan, "along the image, along the batch");
        free(plan);
        ein_context_free(c);
    }
    each_device_count(&k, (int[]){2, 4, 3, 0});
    ein_graph_free(g);
}

/* ---- uneven work -------------------------------------------------------------------------------------- */

static ein_tensor experts(ein_graph *g, ein_tensor logits, ein_tensor x, ein_tensor w, int64_t capacity)
{
    ein_tensor route[2];
    ein_moe_routing(g, logits, 1, capacity, 1, route);
    ein_tensor h = ein_einsum(g, "tec,td->ecd", 2, (ein_tensor[]){route[0], x});
    h = ein_einsum(g, "ecd,edf->ecf", 2, (ein_tensor[]){h, w});
    return ein_einsum(g, "tec,ecf->tf", 2, (ein_tensor[]){route[1], h});
}

/* NVIDIA-NeMo/Automodel#935, DeepSeek-671B-SFT-Guide#7: devices to which no token went left an exchange, and the
 * others waited. Expert e multiplies by e + 3. */
static void all_tokens_to_one_expert(void **state)
{
    (void)state;
    ein_graph *g = graph_new();
    ein_tensor logits = PARAMETER(g, "logits", 4, 4), x = INPUT(g, "x", 4, 2), w = PARAMETER(g, "w", 4, 2, 2);
    ein_output(g, "all", experts(g, logits, x, w, 4));
    ein_output(g, "room for two", experts(g, logits, x, w, 2));
    try_plans(g,
              GIVEN(NUMBERS("logits", 9, 0, 1, 2, 9, 3, 0, 1, 9, 2, 1, 0, 9, 1, 2, 3), NUMBERS("x", 1, 2, 3, 4, 5, 6, 7, 8),
                    NUMBERS("w", 3, 0, 0, 3, 4, 0, 0, 4, 5, 0, 0, 5, 6, 0, 0, 6)),
              WANTED(NUMBERS("all", 3, 6, 9, 12, 15, 18, 21, 24), NUMBERS("room for two", 3, 6, 9, 12, 0, 0, 0, 0)), 1e-6,
              (int[]){2, 4, 0});
}

/* LargeWorldModel/LWM#39: a batch of one on eight devices. */
static void batch_of_one(void **state)
{
    (void)state;
    ein_graph *g = graph_new();
    double *x = ramp(16, 1, 1), w[128];
    for (int i = 0; i < 128; i++) w[i] = i / 16;
    ein_output(g, "y", ein_relu(g, ein_linear(g, INPUT(g, "x", 1, 16), PARAMETER(g, "w", 8, 16), NONE)));
    try_plans(g, (numbers[]){{"x", 16, x}, {"w", 128, w}, {0}}, WANTED(NUMBERS("y", 0, 136, 272, 408, 544, 680, 816, 952)), 0,
              (int[]){8, 0});
    free(x);
}

/* ---- sessions ----------------------------------------------------------------------------------------- */

static ein_graph *session_graph(int batch)
{
    ein_graph *g = graph_new();
    ein_output(g, "y", ein_relu(g, ein_linear(g, INPUT(g, "x", batch, 3), PARAMETER(g, "w", 2, 3), PARAMETER(g, "b", 2))));
    return g;
}

/* Rows first, first + 1, ..: row r of x is [r + 1, r, 2r]; with w and b below y is [max(0, 2 - r), 5r + 1]. */
static void session_run(ein_program *p, int batch, int first)
{
    float x[15], y[10] = {0};
    ein_run *r = NULL;
    for (int i = 0; i < batch; i++)
        for (int k = 0, at = first + i; k < 3; k++) x[3 * i + k] = (float[]){(float)at + 1, (float)at, 2 * (float)at}[k];
    assert_int_equal(ein_run_create(&r, p), EIN_OK);
    assert_int_equal(ein_run_input(r, "x", x, (size_t)batch * 3 * sizeof *x), EIN_OK);
    assert_int_equal(ein_run_output(r, "y", y, (size_t)batch * 2 * sizeof *y), EIN_OK);
    assert_int_equal(ein_run_once(r), EIN_OK);
    for (int i = 0; i < batch; i++) {
        const float want[5][2] = {{2, 1}, {1, 6}, {0, 11}, {0, 16}, {0, 21}};
        assert_true(y[2 * i] == want[first + i][0] && y[2 * i + 1] == want[first + i][1]);
    }
    ein_run_free(r);
}

/* Batches of 1, 5 and 1 with one store; plan i of both graphs lays the weights alike. */
static void session(ein_context *c, ein_graph *one, ein_graph *five, int devices, int i)
{
    static const float w[6] = {1, 0, -1, 2, 1, 1}, b[2] = {1, -1};
    ein_weights *store = NULL;
    char *plans[2] = {plan_text(one, devices, i), plan_text(five, devices, i)};
    ein_program *p[4];
    assert_int_equal(ein_weights_create(&store, c), EIN_OK);
    assert_int_equal(ein_weights_add(store, "w", EIN_F32, SHAPE(2, 3), w, EIN_BORROW), EIN_OK);
    assert_int_equal(ein_weights_add(store, "b", EIN_F32, SHAPE(2), b, EIN_BORROW), EIN_OK);
    ein_compile_options o = {.size = sizeof o, .weights = store, .plan = plans[0]};
    p[0] = compile_program(c, one, &o);
    session_run(p[0], 1, 0);
    o.plan = plans[1];
    p[1] = compile_program(c, five, &o);
    session_run(p[1], 5, 0);
    session_run(p[0], 1, 3); /* the first program again */
    o.plan = NULL;           /* what the search makes of weights that lie there */
    p[2] = compile_program(c, five, &o);
    p[3] = compile_program(c, one, &o);
    session_run(p[3], 1, 1);
    session_run(p[2], 5, 0);
    session_run(p[1], 5, 0);
    session_run(p[0], 1, 4);
    for (int k = 0; k < 4; k++) ein_program_free(p[k]);
    ein_weights_free(store);
    for (int k = 0; k < 2; k++) free(plans[k]);
}

/* llama.cpp#21876, llama.cpp#25829: a batch of another size failed, or what the one before had left was used. */
static void batches_of_one_five_one(void **state)
{
    (void)state;
    ein_graph *one = session_graph(1), *five = session_graph(5);
    for (int devices = 1; devices <= 3; devices++) {
        char machine[32], *cache = make_directory();
        snprintf(machine, sizeof machine, "host:%d", devices);
        ein_context *c = open_context(machine, cache);
        for (int i = 0, n = plan_count(one, devices); i < n; i++) session(c, one, five, devices, i);
        ein_context_free(c);
        remove_directory(cache);
    }
    ein_graph_free(one);
    ein_graph_free(five);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_heads),           cmocka_unit_test(forty_heads),
        cmocka_unit_test(grouped_queries),      cmocka_unit_test(rotated_halves),
        cmocka_unit_test(tied_table),           cmocka_unit_test(two_tables),
        cmocka_unit_test(two_layouts_meet),     cmocka_unit_test(there_and_back),
        cmocka_unit_test(convolution_in_parts), cmocka_unit_test(all_tokens_to_one_expert),
        cmocka_unit_test(batch_of_one),         cmocka_unit_test(batches_of_one_five_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
