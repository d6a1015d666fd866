/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong calls get the documented status and a line that names what is wrong; unusual but legal ones work. */
#include "tests/api/fixture.h"

/* ---- graphs ------------------------------------------------------------------------------------------- */

/* The calls fail with this status and line, the graph stays quiet afterwards, and compile reports the same. */
#define REFUSED(status, line, calls)                                                  \
    do {                                                                              \
        ein_graph *g;                                                                 \
        assert_int_equal(ein_graph_create(&g), EIN_OK);                               \
        ein_tensor x = INPUT(g, "x", 2, 3), w = INPUT(g, "w", 4, 5), y = NONE;        \
        ein_tensor ids = ein_input(g, "ids", EIN_I32, SHAPE(6));                      \
        calls;                                                                        \
        (void)x, (void)w, (void)ids;                                                  \
        expect_refusal(g, y, status, line);                                           \
    } while (0)

static void expect_refusal(ein_graph *g, ein_tensor y, ein_status status, const char *line)
{
    assert_int_equal(y.id, 0);
    assert_string_equal(ein_graph_error(g), line);
    assert_int_equal(ein_graph_status(g), status);
    assert_int_equal(INPUT(g, "late", 1).id, 0);
    ein_output(g, "y", y);
    assert_string_equal(ein_graph_error(g), line);
    ein_context *c = new_context("host:2");
    ein_program *p = (ein_program *)&p;
    assert_int_equal(ein_compile(&p, c, g, NULL), status);
    assert_null(p);
    assert_string_equal(ein_context_error(c), line);
    ein_context_free(c);
    ein_graph_free(g);
}

static void refused_shapes(void **state)
{
    (void)state;
    REFUSED(EIN_SHAPE, "linear: x [2,3] and weight [4,5] disagree on k: 3 and 5", y = ein_linear(g, x, w, NONE));
    REFUSED(EIN_SHAPE, "matmul: [2,3] and [4,5] disagree on k: 3 and 4", y = ein_matmul(g, x, w));
    REFUSED(EIN_SHAPE, "add: [2,3] and [4,5] do not broadcast: 3 and 5 on axis -1", y = ein_add(g, x, w));
    REFUSED(EIN_SHAPE, "linear: bias [7] for 2 outputs",
            y = ein_linear(g, x, x, INPUT(g, "bias", 7)));
    REFUSED(EIN_SHAPE, "rms_norm: x [2,3] and weight [2] disagree on the last axis",
            y = ein_rms_norm(g, x, INPUT(g, "gain", 2), 1e-5));
    REFUSED(EIN_SHAPE, "scaled_dot_product_attention: q [2,3] has rank 2, not 4",
            y = ein_scaled_dot_product_attention(g, x, x, x, NULL));
    REFUSED(EIN_SHAPE, "amax: no elements along the axes of [2,0]",
            y = ein_amax(g, INPUT(g, "e", 2, 0), 1, (int[]){1}, 0));
    REFUSED(EIN_SHAPE, "reshape: 6 elements do not make [4,-1]", y = ein_reshape(g, x, SHAPE(4, -1)));
    REFUSED(EIN_SHAPE, "concat: operands 0 and 1, [2,3] and [4,5], differ in more than axis 0",
            y = ein_concat(g, 2, (ein_tensor[]){x, w}, 0));
    REFUSED(EIN_SHAPE, "input 'big': [1048576,1048577] has more than 2^40 elements",
            y = INPUT(g, "big", 1 << 20, (1 << 20) + 1));
    REFUSED(EIN_SHAPE, "input 'n': extent -2 of axis 1 is negative", y = INPUT(g, "n", 1, -2));
    REFUSED(EIN_SHAPE, "input 'r': rank 9; 0 to 8 are allowed", y = INPUT(g, "r", 1, 1, 1, 1, 1, 1, 1, 1, 1));
    REFUSED(EIN_SHAPE, "input 'r': rank -1; 0 to 8 are allowed", y = ein_input(g, "r", EIN_F32, -1, NULL));
    REFUSED(EIN_INVALID, "softmax: axis 2 of a tensor of rank 2", y = ein_softmax(g, x, 2));
    REFUSED(EIN_INVALID, "sum: axis -3 of a tensor of rank 2", y = ein_sum(g, x, 1, (int[]){-3}, 0));
    REFUSED(EIN_INVALID, "permute: axis 0 is given twice", y = ein_permute(g, x, (int[]){0, 0}));
    REFUSED(EIN_SHAPE, "state_append: 3 rows for state 's' of 2",
            y = ein_state_append(g, ein_state_tensor(g, "s", EIN_F32, SHAPE(2, 3)), INPUT(g, "rows", 3, 3), 0,
                                 (ein_scalar){0}));
    REFUSED(EIN_INVALID, "embedding: id 2 at place 1 of a constant is not in a table of 2 rows",
            y = ein_embedding(g, ein_constant(g, EIN_I32, SHAPE(3), (int32_t[]){1, 2, 0}), x));
    REFUSED(EIN_INVALID, "state_append: operand 0 is not a state tensor",
            y = ein_state_append(g, x, x, 0, (ein_scalar){0}));
}

static void refused_dtypes(void **state)
{
    static const char *const reserved[] = {"f8e4m3", "f8e5m2"};
    char line[96];
    (void)state;
    for (int d = EIN_F8E4M3; d <= EIN_F8E5M2; d++) {
        snprintf(line, sizeof line, "input 'h': %s is reserved, not built yet", reserved[d - EIN_F8E4M3]);
        REFUSED(EIN_DTYPE, line, y = ein_input(g, "h", (ein_dtype)d, SHAPE(2)));
    }
    REFUSED(EIN_DTYPE, "input 'h': 0 is no dtype", y = ein_input(g, "h", (ein_dtype)0, SHAPE(2)));
    REFUSED(EIN_DTYPE, "input 'h': 11 is no dtype", y = ein_input(g, "h", (ein_dtype)11, SHAPE(2)));
    REFUSED(EIN_DTYPE, "sub: operand 1 is bool, not a number",
            y = ein_sub(g, x, ein_input(g, "b", EIN_BOOL, SHAPE(2, 3))));
    REFUSED(EIN_DTYPE, "embedding: ids are f32, not i32 or i64", y = ein_embedding(g, x, w));
    REFUSED(EIN_SHAPE, "embedding: table [6] has rank 1, not 2", y = ein_embedding(g, ids, ids));
}

static void refused_texts(void **state)
{
    const ein_tensor *none = NULL;
    (void)state;
#define EINSUM(status, line, equation) REFUSED(status, line, y = ein_einsum(g, equation, 1, &x))
    EINSUM(EIN_INVALID, "einsum: equation is NULL", NULL);
    EINSUM(EIN_INVALID, "einsum 'ij->ik': letter k of the result is in no operand", "ij->ik");
    EINSUM(EIN_INVALID, "einsum 'ij->ii': letter i is twice in the result", "ij->ii");
    EINSUM(EIN_INVALID, "einsum 'ij,jk': names 2 operands, given 1", "ij,jk");
    EINSUM(EIN_INVALID, "einsum 'i1': unexpected '1' (0x31) at column 2", "i1");
    EINSUM(EIN_INVALID, "einsum '...i->i': the result lacks '...'", "...i->i");
    EINSUM(EIN_SHAPE, "einsum 'ii': letter i has extents 2 and 3", "ii");
    EINSUM(EIN_SHAPE, "einsum 'ijk': operand 0 has shape [2,3], and 3 letters", "ijk");
    EINSUM(EIN_SHAPE, "einsum '': operand 0 has shape [2,3], and 0 letters", "");
    REFUSED(EIN_INVALID, "map: expression \"x0 +\": column 5: expected a number, a name or \"(\" at the end",
            y = ein_map(g, "x0 +", 1, &x));
    REFUSED(EIN_INVALID, "map: expression \"x1\": column 1: unknown name at \"x1\"", y = ein_map(g, "x1", 1, &x));
    REFUSED(EIN_INVALID, "map: operands is NULL", y = ein_map(g, "x0", 1, none));
    REFUSED(EIN_INVALID, "concat: no operands", y = ein_concat(g, 0, &x, 0));
    REFUSED(EIN_INVALID, "sum: axes is NULL", y = ein_sum(g, x, 1, NULL, 0));
    REFUSED(EIN_INVALID, "permute: axes is NULL", y = ein_permute(g, x, NULL));
    REFUSED(EIN_INVALID, "reshape: shape is NULL", y = ein_reshape(g, x, 1, NULL));
    REFUSED(EIN_INVALID, "input 'a': shape is NULL", y = ein_input(g, "a", EIN_F32, 1, NULL));
    REFUSED(EIN_INVALID, "constant [2]: data is NULL", y = ein_constant(g, EIN_F32, SHAPE(2), NULL));
    REFUSED(EIN_INVALID, "custom: no op", ein_custom(g, NULL, &x, &y));
    REFUSED(EIN_INVALID, "scaled_dot_product_attention: out is NULL",
            ein_scaled_dot_product_attention_partial(g, x, x, x, NULL, NULL));
    REFUSED(EIN_INVALID, "rope_tables: sine is NULL", ein_rope_tables(g, 4, 4, 1e4, &y, NULL));
    REFUSED(EIN_INVALID, "add: operand 1 is not a tensor of this graph", y = ein_add(g, x, (ein_tensor){99}));
}

static void refused_names(void **state)
{
    (void)state;
    REFUSED(EIN_INVALID, "input 'x' is declared twice", y = INPUT(g, "x", 2));
    REFUSED(EIN_INVALID, "output 'o' is declared twice", (ein_output(g, "o", x), ein_output(g, "o", w)));
    REFUSED(EIN_INVALID, "scalar 'n' is declared twice", (ein_scalar_input(g, "n"), ein_scalar_input(g, "n")));
    REFUSED(EIN_INVALID, "input: name is NULL", y = INPUT(g, NULL, 2));
    REFUSED(EIN_INVALID, "parameter: name is empty", y = ein_parameter(g, "", EIN_F32, SHAPE(2)));
    REFUSED(EIN_INVALID, "output: name is NULL", ein_output(g, NULL, x));
    REFUSED(EIN_INVALID, "output 'o' is not a tensor of this graph", ein_output(g, "o", NONE));
}

/* Calls that have nothing to record their error in. */
static void null_graph(void **state)
{
    int64_t shape[EIN_MAX_RANK];
    ein_tensor out[3] = {{1}, {1}, {1}};
    (void)state;
    assert_int_equal(ein_graph_create(NULL), EIN_INVALID);
    assert_int_equal(ein_graph_status(NULL), EIN_INVALID);
    assert_string_equal(ein_graph_error(NULL), "");
    ein_graph_free(NULL);
    assert_int_equal(INPUT(NULL, "x", 1).id, 0);
    assert_int_equal(ein_scalar_input(NULL, "n").id, 0);
    assert_int_equal(ein_constant(NULL, EIN_F32, SHAPE(1), &(float){1}).id, 0);
    assert_int_equal(ein_add(NULL, (ein_tensor){1}, (ein_tensor){1}).id, 0);
    assert_int_equal(ein_tensor_shape(NULL, (ein_tensor){1}, shape), 0);
    ein_output(NULL, "y", (ein_tensor){1});
    ein_scaled_dot_product_attention_partial(NULL, out[0], out[0], out[0], NULL, out);
    assert_int_equal(out[2].id, 0);
    ein_custom(NULL, NULL, NULL, NULL);
}

/* ---- contexts and stores ------------------------------------------------------------------------------ */

static void refuse_context(const char *machine, ein_status status, const char *part)
{
    char line[256] = "";
    ein_context *c = (ein_context *)&c;
    ein_context_options o = {.size = sizeof o, .machine = machine, .message = line, .message_bytes = sizeof line};
    assert_int_equal(ein_context_create(&c, &o), status);
    assert_null(c);
    if (strstr(line, part) == NULL) fail_msg("\"%s\" does not have \"%s\"", line, part);
}

static void refused_contexts(void **state)
{
    char line[256] = "", cut[8];
    ein_context *c;
    ein_context_options o = {.size = sizeof o - 8, .message = line, .message_bytes = sizeof line};
    (void)state;
    refuse_context("host:0", EIN_INVALID, "machine \"host:0\": wanted host:1 to host:16");
    refuse_context("host:17", EIN_INVALID, "host:17");
    refuse_context("host:-1", EIN_INVALID, "host:-1");
    refuse_context("host:2x", EIN_INVALID, "host:2x");
    refuse_context("", EIN_IO, "no such file");
    refuse_context("dgx-9", EIN_IO, "machine \"dgx-9\": no such file, and no preset (host:N, nvswitch8");
    refuse_context("dgx-1:0,0", EIN_INVALID, "device 0 twice");
    refuse_context("dgx-1:8", EIN_INVALID, "device 8, it has 8");
    refuse_context("/", EIN_IO, "machine file \"/\"");
    refuse_context("{", EIN_INVALID, "machine");
    refuse_context("{}", EIN_INVALID, "machine: \"name\" is missing");
    assert_int_equal(ein_context_create(NULL, NULL), EIN_INVALID);
    assert_int_equal(ein_context_create(&c, &o), EIN_INVALID); /* too small to hold a message */
    assert_string_equal(line, "");
    o.size = sizeof o + 8;
    assert_int_equal(ein_context_create(&c, &o), EIN_INVALID);
    assert_string_equal(line, "context options: size is not sizeof(ein_context_options)");
    o = (ein_context_options){.size = sizeof o, .machine = "host:99", .message = cut, .message_bytes = sizeof cut};
    assert_int_equal(ein_context_create(&c, &o), EIN_INVALID);
    assert_string_equal(cut, "machine");
    ein_context_free(NULL);
    assert_int_equal(ein_context_device_count(NULL), 0);
    assert_string_equal(ein_context_error(NULL), "");
    assert_string_equal(ein_context_detail(NULL), "");
}

static void refused_weights(void **state)
{
    session s;
    float data[6] = {0};
    (void)state;
    session_open(&s, "host:1");
#define ADD(status, line, ...)                                       \
    do {                                                             \
        assert_int_equal(ein_weights_add(s.w, __VA_ARGS__), status); \
        assert_string_equal(ein_context_error(s.c), line);           \
    } while (0)
    ADD(EIN_INVALID, "weights: a tensor needs a name", NULL, EIN_F32, SHAPE(6), data, EIN_COPY);
    ADD(EIN_INVALID, "weights: 'w' has no data", "w", EIN_F32, SHAPE(6), NULL, EIN_COPY);
    ADD(EIN_DTYPE, "weights: 'w' has element type f8e4m3, which is not built", "w", EIN_F8E4M3, SHAPE(6), data, EIN_COPY);
    ADD(EIN_SHAPE, "weights: 'w' has rank 9; 0 to 8", "w", EIN_F32, 9, (int64_t[9]){0}, data, EIN_COPY);
    ADD(EIN_SHAPE, "weights: 'w' has extent -6 in dimension 0", "w", EIN_F32, SHAPE(-6), data, EIN_COPY);
    ADD(EIN_INVALID, "weights: 'w' is kept in way 2; EIN_BORROW or EIN_COPY", "w", EIN_F32, SHAPE(6), data, (ein_keep)2);
    assert_int_equal(ein_weights_add(s.w, "w", EIN_F32, SHAPE(6), data, EIN_COPY), EIN_OK);
    ADD(EIN_INVALID, "weights: 'w' is there already", "w", EIN_F32, SHAPE(6), data, EIN_COPY);
    assert_int_equal(ein_weights_add(NULL, "w", EIN_F32, SHAPE(6), data, EIN_COPY), EIN_INVALID);
    assert_int_equal(ein_weights_create(NULL, s.c), EIN_INVALID);
    assert_int_equal(ein_weights_create(&(ein_weights *){NULL}, NULL), EIN_INVALID);
    assert_int_equal(ein_weights_device_bytes(NULL, 0), 0);
    assert_int_equal(ein_weights_device_bytes(s.w, -1), 0);
    assert_int_equal(ein_weights_device_bytes(s.w, 99), 0);
    ein_weights_free(NULL);
    session_close(&s);
}

/* ---- compile ------------------------------------------------------------------------------------------ */

/* y [4,6] = x [4,5] w [6,5]^T, with `shape` for the store's w. */
static void linear_session(session *s, const char *machine, const char *name, ein_dtype dtype, int rank,
                           const int64_t *shape)
{
    static const float data[64] = {1};
    session_open(s, machine);
    if (name != NULL) assert_int_equal(ein_weights_add(s->w, name, dtype, rank, shape, data, EIN_BORROW), EIN_OK);
    ein_tensor w = ein_parameter(s->g, "w", EIN_F32, SHAPE(6, 5));
    ein_output(s->g, "y", ein_linear(s->g, INPUT(s->g, "x", 4, 5), w, NONE));
}

static void refuse_compile(session *s, const char *plan, ein_status status, const char *line)
{
    ein_compile_options o = {.size = sizeof o, .weights = s->w, .plan = plan};
    ein_status have = ein_compile(&s->p, s->c, s->g, &o);
    assert_string_equal(ein_context_error(s->c), line);
    assert_int_equal(have, status);
    assert_null(s->p);
}

static void refused_parameters(void **state)
{
    session s;
    (void)state;
    linear_session(&s, "host:2", NULL, 0, 0, NULL);
    refuse_compile(&s, NULL, EIN_INVALID, "parameter 'w' is not in the weight store");
    session_close(&s);
    linear_session(&s, "host:2", "w", EIN_I32, SHAPE(6, 5));
    refuse_compile(&s, NULL, EIN_DTYPE, "parameter 'w' is i32 in the store, f32 in the graph");
    session_close(&s);
    linear_session(&s, "host:2", "w", EIN_F32, SHAPE(5, 6));
    refuse_compile(&s, NULL, EIN_SHAPE, "parameter 'w' is [5,6] in the store, [6,5] in the graph");
    session_close(&s);
}

static void refused_compiles(void **state)
{
    session s, other;
    (void)state;
    linear_session(&s, "host:2", "w", EIN_F32, SHAPE(6, 5));
    session_open(&other, "host:2");
    ein_compile_options o = {.size = sizeof o, .weights = other.w};
    assert_int_equal(ein_compile(&s.p, s.c, s.g, &o), EIN_INVALID);
    assert_string_equal(ein_context_error(s.c), "compile: weights or state belong to another context");
    o.size = 3;
    assert_int_equal(ein_compile(&s.p, s.c, s.g, &o), EIN_INVALID);
    assert_string_equal(ein_context_error(s.c), "compile options: size is not sizeof(ein_compile_options)");
    assert_int_equal(ein_compile(NULL, s.c, s.g, NULL), EIN_INVALID);
    assert_int_equal(ein_compile(&s.p, NULL, s.g, NULL), EIN_INVALID);
    assert_int_equal(ein_compile(&s.p, s.c, NULL, NULL), EIN_INVALID);
    assert_string_equal(ein_context_error(s.c), "compile: no graph");
    assert_int_equal(ein_compile(&other.p, other.c, other.g, NULL), EIN_INVALID);
    assert_string_equal(ein_context_error(other.c), "the graph has no output");
    ein_program_free(NULL);
    ein_program_get_stats(NULL, &(ein_program_stats){.size = sizeof(ein_program_stats)});
    assert_string_equal(ein_program_plan(NULL), "");
    assert_string_equal(ein_program_explain(NULL), "");
    assert_string_equal(ein_program_source(NULL), "");
    assert_string_equal(ein_program_print(NULL), "");
    session_close(&other);
    session_close(&s);
}

/* A plan of the linear op; `node` is what stands after its name. */
static const char *linear_plan(int devices, const char *op, const char *node, char *out)
{
    snprintf(out, 1024, "{\"ein_plan\":1,\"devices\":%d,\"nodes\":[{\"node\":0,\"op\":\"%s\",%s}],"
             "\"leaves\":[{\"leaf\":0,\"kind\":\"input\",\"name\":\"x\"},{\"leaf\":1,\"kind\":\"parameter\",\"name\":\"w\","
             "\"axes\":[{\"extent\":30,\"lo\":[0],\"hi\":[30]}],\"devices\":[[0,1]]}],\"carries\":[],"
             "\"predicted_us\":1,\"predicted_bytes\":0,\"states_searched\":0}", devices, op, node);
    return out;
}

static void refused_plans(void **state)
{
    session s;
    char plan[1024];
#define CUT(label, at, devices) \
    "\"cuts\":[{\"labels\":[\"" label "\"],\"at\":[" at "]}],\"devices\":[" devices "]"
#define HALVES CUT("n", "0,3,6", "[0],[1]")
#define PLAN(line, devices, op, node) refuse_compile(&s, linear_plan(devices, op, node, plan), EIN_NO_PLAN, line)
    (void)state;
    linear_session(&s, "host:2", "w", EIN_F32, SHAPE(6, 5));
    refuse_compile(&s, "", EIN_NO_PLAN, "plan:1:0: '[' or '{' expected near end of file");
    refuse_compile(&s, "no JSON", EIN_NO_PLAN, "plan:1:2: '[' or '{' expected near 'no'");
    refuse_compile(&s, "{}", EIN_NO_PLAN, "plan: plan: \"ein_plan\" is missing");
    PLAN("the plan is for 3 devices, the machine has 2", 3, "linear", HALVES);
    PLAN("plan: node 0 (linear): \"op\" is not \"linear\"", 2, "conv", HALVES);
    PLAN("plan: node 0 (linear): \"labels\": the op has no label \"z\"", 2, "linear", CUT("z", "0,3,6", "[0],[1]"));
    PLAN("linear (node 0): cut of n does not cover 0 .. 6", 2, "linear", CUT("n", "0,3,7", "[0],[1]"));
    PLAN("linear (node 0): cut of n: points 4, 3 fall", 2, "linear", CUT("n", "0,4,3,6", "[0],[1],[0]"));
    PLAN("plan: node 0 (linear): \"devices\" has 1 entries, must have 2", 2, "linear", CUT("n", "0,3,6", "[0]"));
    PLAN("plan: node 0 (linear): \"devices\": 2 is not within 0 .. 1", 2, "linear", CUT("n", "0,3,6", "[0],[2]"));
    PLAN("linear (node 0): tuple 1 lies on devices 0 of 2", 2, "linear", CUT("n", "0,3,6", "[0],[]"));
    PLAN("plan: node 0 (linear): unknown member \"more\"", 2, "linear", HALVES ",\"more\":1");
    linear_plan(2, "linear", HALVES, plan); /* and the right one is taken */
    session_compile(&s, plan);
    session_close(&s);
}

/* Of labels that may not be cut, or only in places; by a user's op: y [i,j] = x [i,j]. */
static void refused_cuts(void **state)
{
    static const ein_label labels[] = {{.name = "i", .granule = 2}, {.name = "j", .whole = 1}};
    static const char *const ij[] = {"i,j"};
    ein_op op = {.size = sizeof op, .name = "copy", .version = "1", .n_labels = 2, .labels = labels, .n_operands = 1,
                 .operands = ij, .n_results = 1, .results = ij, .kernel = ";", .grid = "n_i"};
    session s;
    char plan[1024];
    ein_tensor y;
    (void)state;
    session_open(&s, "host:2");
    ein_custom(s.g, &op, &(ein_tensor){INPUT(s.g, "x", 4, 6).id}, &y);
    ein_output(s.g, "y", y);
#define COPY(line, cut)                                                                                           \
    snprintf(plan, sizeof plan, "{\"ein_plan\":1,\"devices\":2,\"nodes\":[{\"node\":0,\"op\":\"copy\",%s}],\"leaves\":[" \
             "{\"leaf\":0,\"kind\":\"input\",\"name\":\"x\"}],\"carries\":[],\"predicted_us\":1,\"predicted_bytes\":0,"  \
             "\"states_searched\":0}", cut);                                                                      \
    refuse_compile(&s, plan, EIN_NO_PLAN, line)
    COPY("copy (node 0): cut of i at 3 is no multiple of its granule 2", CUT("i", "0,3,4", "[0],[1]"));
    COPY("copy (node 0): label j cannot be cut", CUT("j", "0,3,6", "[0],[1]"));
    COPY("copy (node 0): label j cannot be cut", CUT("i\",\"j", "0,12,24", "[0],[1]"));
    session_close(&s);
}

/* A preset's machine is planned and explained, and says why it does not run. */
static void planned_only(void **state)
{
    session s;
    ein_run *r;
    ein_state *st;
    ein_program_stats stats = {.size = sizeof stats};
    (void)state;
    linear_session(&s, "dgx-a100", NULL, 0, 0, NULL);
    assert_int_equal(ein_context_device_count(s.c), 8);
    assert_int_equal(ein_compile(&s.p, s.c, s.g, NULL), EIN_OK);
    assert_non_null(strstr(ein_program_plan(s.p), "\"op\":\"linear\""));
    assert_non_null(strstr(ein_program_explain(s.p), "linear"));
    assert_non_null(strstr(ein_program_print(s.p), "device 7:"));
    ein_program_get_stats(s.p, &stats);
    assert_int_equal(stats.searches, 1);
    assert_true(stats.predicted_us > 0);
    assert_int_equal(ein_run_create(&r, s.p), EIN_NO_DEVICE);
    assert_null(r);
    assert_string_equal(ein_context_error(s.c), "machine dgx-a100 can only be planned, not run");
    assert_int_equal(ein_state_create(&st, s.p), EIN_NO_DEVICE);
    assert_string_equal(ein_context_error(s.c), "machine dgx-a100 can only be planned");
    session_close(&s);
    linear_session(&s, "host:2", NULL, 0, 0, NULL); /* no weights: the same */
    assert_int_equal(ein_compile(&s.p, s.c, s.g, NULL), EIN_OK);
    assert_int_equal(ein_run_create(&r, s.p), EIN_INVALID);
    assert_string_equal(ein_context_error(s.c), "the program was compiled without weights: it can only be explained");
    session_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_shapes),    cmocka_unit_test(refused_dtypes),   cmocka_unit_test(refused_texts),
        cmocka_unit_test(refused_names),     cmocka_unit_test(null_graph),       cmocka_unit_test(refused_contexts),
        cmocka_unit_test(refused_weights),   cmocka_unit_test(refused_parameters), cmocka_unit_test(refused_compiles),
        cmocka_unit_test(refused_plans),     cmocka_unit_test(refused_cuts),     cmocka_unit_test(planned_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
