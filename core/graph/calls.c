/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls. Each builds by ein__op_<name> (in the op files) and is then noted in the graph; all but the
 * last few, whose forms are special, come from calls.def. */
#include "core/graph/calls.h"

#include <string.h>

#include "core/graph/builder.h"

/* ---- options structs ------------------------------------------------------------------------------------ */

#define MEMBER(of, kind, name) {#name, OPTION_##kind, offsetof(ein_##of##_options, name)}

static const struct option_form conv_members[] = {
    MEMBER(conv, PAIR, stride), MEMBER(conv, PAIR, padding), MEMBER(conv, PAIR, dilation),
    MEMBER(conv, PAIR, padding_end), MEMBER(conv, LONG, groups)};
static const struct option_form pool_members[] = {
    MEMBER(pool, PAIR, kernel), MEMBER(pool, PAIR, stride), MEMBER(pool, PAIR, padding), MEMBER(pool, PAIR, dilation),
    MEMBER(pool, PAIR, padding_end), MEMBER(pool, FLAG, ceil_mode), MEMBER(pool, FLAG, exclude_padding)};
static const struct option_form attention_members[] = {
    MEMBER(attention, FLAG, causal), MEMBER(attention, LONG, window), MEMBER(attention, REAL, scale),
    MEMBER(attention, REAL, softcap), MEMBER(attention, SCALAR, position), MEMBER(attention, SCALAR, length),
    MEMBER(attention, TENSOR, mask)};

const options_form *ein__options_form(argument_kind kind)
{
#define OPTIONS(of) {sizeof(ein_##of##_options), sizeof of##_members / sizeof *of##_members, of##_members}
    static const options_form conv = OPTIONS(conv), pool = OPTIONS(pool), attention = OPTIONS(attention);
    switch (kind) {
    case ARGUMENT_CONV: return &conv;
    case ARGUMENT_POOL: return &pool;
    case ARGUMENT_ATTENTION: return &attention;
    default: return NULL;
    }
}

/* ---- notes --------------------------------------------------------------------------------------------- */

static ein_status keep(graph *g, const void *from, size_t n, size_t size, const void **out)
{
    char *to;
    NEW(&g->arena, to, n * size + 1);
    if (n > 0) memcpy(to, from, n * size);
    *out = to;
    return EIN_OK;
}

/* Lists of int are kept as int64_t. */
static ein_status keep_ints(graph *g, int n, const void **list)
{
    i64 *to;
    NEW(&g->arena, to, n + 1);
    for (int i = 0; i < n; i++) to[i] = ((const int *)*list)[i];
    *list = to;
    return EIN_OK;
}

/* A caller's options may be older and shorter than ours. */
static ein_status keep_options(graph *g, size_t size, argument *x)
{
    char *to;
    size_t given;
    if (x->list == NULL) return EIN_OK;
    memcpy(&given, x->list, sizeof given);
    NEW(&g->arena, to, size);
    memcpy(to, x->list, given < size ? given : size);
    x->list = to;
    x->n = 1;
    return EIN_OK;
}

static ein_status keep_argument(graph *g, argument_kind kind, argument *x)
{
    size_t n = x->list != NULL && x->n > 0 ? (size_t)x->n : 0;
    switch (kind) {
    case ARGUMENT_TEXT: x->n = (int)strlen(x->list); return keep(g, x->list, (size_t)x->n, 1, &x->list);
    case ARGUMENT_TENSORS: return keep(g, x->list, n, sizeof(ein_tensor), &x->list);
    case ARGUMENT_INTS:
    case ARGUMENT_EACH_INT: return keep_ints(g, x->n = (int)n, &x->list);
    case ARGUMENT_LONGS:
    case ARGUMENT_EACH_LONG: return keep(g, x->list, n, sizeof(i64), &x->list);
    case ARGUMENT_CONV:
    case ARGUMENT_POOL:
    case ARGUMENT_ATTENTION: return keep_options(g, ein__options_form(kind)->size, x);
    default: return EIN_OK;
    }
}

static ein_status note(graph *g, const call_form *form, const argument *arguments, int n, const uint32_t *results)
{
    argument *kept;
    uint32_t *ids;
    NEW(&g->arena, kept, form->n_arguments + 1);
    NEW(&g->arena, ids, n + 1);
    for (int i = 0; i < form->n_arguments; i++) {
        kept[i] = arguments[i];
        TRY(keep_argument(g, form->kinds[i], &kept[i]));
    }
    if (n > 0) memcpy(ids, results, (size_t)n * sizeof *ids);
    PUSH(&g->arena, &g->calls, ((call){form, kept, n, ids}));
    return EIN_OK;
}

/* Of a call that made all its results; a graph that cannot be written is not what its user asked for, so a failure
 * is the graph's. False: the results are to be taken back. */
static bool note_call(ein_graph *g, const call_form *form, const argument *arguments, int n, const uint32_t *results)
{
    if (g == NULL || g->g.error.status != EIN_OK) return true;
    for (int i = 0; i < n; i++)
        if (results[i] == 0) return true;
    ein_status s = note(&g->g, form, arguments, n, results);
    if (s == EIN_OK) return true;
    ein__fail(&g->g.error, s, "%s: out of memory", form->name);
    return false;
}

static int rank_of(const ein_graph *g, ein_tensor x) { return ein_tensor_shape(g, x, NULL); }

/* ---- what an argument is in a call, as a note, and to a reader ------------------------------------------ */

#define PASS_TENSOR(x) x
#define PASS_MAYBE(x) x
#define PASS_TENSORS(x) n_##x, x
#define PASS_SCALAR(x) x
#define PASS_INT(x) x
#define PASS_LONG(x) x
#define PASS_REAL(x) x
#define PASS_DTYPE(x) x
#define PASS_TEXT(x) x
#define PASS_INTS(x) n_##x, x
#define PASS_LONGS(x) n_##x, x
#define PASS_EACH_INT(x) x
#define PASS_EACH_LONG(x) x
#define PASS_CONV(x) x
#define PASS_POOL(x) x
#define PASS_ATTENTION(x) x

#define NOTE_TENSOR(x) {.number = x.id}
#define NOTE_MAYBE(x) {.number = x.id}
#define NOTE_TENSORS(x) {.n = n_##x, .list = x}
#define NOTE_SCALAR(x) {.number = x.id}
#define NOTE_INT(x) {.number = x}
#define NOTE_LONG(x) {.number = x}
#define NOTE_REAL(x) {.real = x}
#define NOTE_DTYPE(x) {.number = (i64)x}
#define NOTE_TEXT(x) {.list = x}
#define NOTE_INTS(x) {.n = n_##x, .list = x}
#define NOTE_LONGS(x) {.n = n_##x, .list = x}
#define NOTE_EACH_INT(y) {.n = rank_of(g, x), .list = y}
#define NOTE_EACH_LONG(y) {.n = rank_of(g, x), .list = y}
#define NOTE_CONV(x) {.list = x}
#define NOTE_POOL(x) {.list = x}
#define NOTE_ATTENTION(x) {.list = x}

#define READ_TENSOR(x) ein_tensor x = ein__read_tensor(r, #x, false)
#define READ_MAYBE(x) ein_tensor x = ein__read_tensor(r, #x, true)
#define READ_TENSORS(x) int n_##x; const ein_tensor *x = ein__read_tensors(r, #x, &n_##x)
#define READ_SCALAR(x) ein_scalar x = ein__read_scalar(r, #x)
#define READ_INT(x) int x = (int)ein__read_integer(r, #x, INT32_MIN, INT32_MAX)
#define READ_LONG(x) int64_t x = ein__read_integer(r, #x, INT64_MIN, INT64_MAX)
#define READ_REAL(x) double x = ein__read_real(r, #x)
#define READ_DTYPE(x) ein_dtype x = ein__read_dtype(r, #x)
#define READ_TEXT(x) const char *x = ein__read_text(r, #x)
#define READ_INTS(x) int n_##x; const int *x = ein__read_ints(r, #x, -1, &n_##x)
#define READ_LONGS(x) int n_##x; const int64_t *x = ein__read_longs(r, #x, -1, &n_##x)
#define READ_EACH_INT(y) const int *y = ein__read_ints(r, #y, rank_of(ein__read_graph(r), x), &(int){0})
#define READ_EACH_LONG(y) const int64_t *y = ein__read_longs(r, #y, rank_of(ein__read_graph(r), x), &(int){0})
#define READ_CONV(x) const ein_conv_options *x = ein__read_options(r, #x, ARGUMENT_CONV)
#define READ_POOL(x) const ein_pool_options *x = ein__read_options(r, #x, ARGUMENT_POOL)
#define READ_ATTENTION(x) const ein_attention_options *x = ein__read_options(r, #x, ARGUMENT_ATTENTION)

#define NAME_(kind, x) #x
#define KIND_(kind, x) ARGUMENT_##kind
#define PASS_(kind, x) PASS_##kind(x)
#define NOTE_(kind, x) NOTE_##kind(x)

#define READ1(k, x) READ_##k(x);
#define READ2(k, x, ...) READ_##k(x); READ1(__VA_ARGS__)
#define READ3(k, x, ...) READ_##k(x); READ2(__VA_ARGS__)
#define READ4(k, x, ...) READ_##k(x); READ3(__VA_ARGS__)
#define READ5(k, x, ...) READ_##k(x); READ4(__VA_ARGS__)
#define READ6(k, x, ...) READ_##k(x); READ5(__VA_ARGS__)

#define FORM(n, name, ...)                                                                                   \
    static void read_##name(call_reader *r);                                                                 \
    static const call_form form_##name = {#name, n, {EACH##n(NAME_, __VA_ARGS__)}, {EACH##n(KIND_, __VA_ARGS__)}, \
                                          read_##name};

#undef CALL
#undef CALLS
#define CALL(n, name, ...)                                                                                   \
    FORM(n, name, __VA_ARGS__)                                                                               \
    ein_tensor ein_##name(ein_graph *g, EACH##n(PARAM_, __VA_ARGS__))                                         \
    {                                                                                                        \
        ein_tensor out = ein__op_##name(g, EACH##n(PASS_, __VA_ARGS__));                                      \
        if (out.id == 0) return out;                                                                         \
        const argument arguments[] = {EACH##n(NOTE_, __VA_ARGS__)};                                           \
        return note_call(g, &form_##name, arguments, 1, &out.id) ? out : (ein_tensor){0};                    \
    }                                                                                                        \
    static void read_##name(call_reader *r)                                                                  \
    {                                                                                                        \
        READ##n(__VA_ARGS__)                                                                                 \
        ein_tensor *out = ein__read_results(r, 1);                                                           \
        if (out != NULL) *out = ein_##name(ein__read_graph(r), EACH##n(PASS_, __VA_ARGS__));                  \
    }

/* ein_tensor is its id. */
#define CALLS(n_results, n, name, ...)                                                                       \
    FORM(n, name, __VA_ARGS__)                                                                               \
    void ein_##name(ein_graph *g, EACH##n(PARAM_, __VA_ARGS__), ein_tensor *out)                              \
    {                                                                                                        \
        ein__op_##name(g, EACH##n(PASS_, __VA_ARGS__), out);                                                  \
        if (g == NULL || g->g.error.status != EIN_OK || out == NULL || (n_results) < 1 || out[0].id == 0) return; \
        const argument arguments[] = {EACH##n(NOTE_, __VA_ARGS__)};                                           \
        note_call(g, &form_##name, arguments, n_results, &out->id);                                          \
    }                                                                                                        \
    static void read_##name(call_reader *r)                                                                  \
    {                                                                                                        \
        READ##n(__VA_ARGS__)                                                                                 \
        ein_tensor *out = ein__read_results(r, n_results);                                                   \
        if (out != NULL) ein_##name(ein__read_graph(r), EACH##n(PASS_, __VA_ARGS__), out);                    \
    }

#include "core/graph/calls.def"

/* ---- leaves, outputs ----------------------------------------------------------------------------------- */

#define LEAF(op)                                                                                       \
    FORM(3, op, TEXT, name, DTYPE, dtype, LONGS, shape)                                                      \
    ein_tensor ein_##op(ein_graph *g, const char *label, ein_dtype dtype, int n_shape, const int64_t *shape)  \
    {                                                                                                        \
        ein_tensor out = ein__op_##op(g, label, dtype, n_shape, shape);                                      \
        if (out.id == 0) return out;                                                                         \
        const argument arguments[] = {NOTE_TEXT(label), NOTE_DTYPE(dtype), NOTE_LONGS(shape)};               \
        return note_call(g, &form_##op, arguments, 1, &out.id) ? out : (ein_tensor){0};                      \
    }                                                                                                        \
    static void read_##op(call_reader *r)                                                                    \
    {                                                                                                        \
        READ3(TEXT, name, DTYPE, dtype, LONGS, shape)                                                        \
        ein_tensor *out = ein__read_results(r, 1);                                                           \
        if (out != NULL) *out = ein_##op(ein__read_graph(r), name, dtype, n_shape, shape);                   \
    }

LEAF(input)
LEAF(parameter)
LEAF(state_tensor)

FORM(3, constant, DTYPE, dtype, LONGS, shape, DATA, data)

/* The elements are noted where the leaf keeps them. */
ein_tensor ein_constant(ein_graph *g, ein_dtype dtype, int rank, const int64_t *shape, const void *data)
{
    ein_tensor out = ein__op_constant(g, dtype, rank, shape, data);
    if (out.id == 0) return out;
    const leaf *l = &g->g.leaves.items[g->g.values.items[out.id - 1].owner];
    const argument arguments[] = {{.number = (i64)dtype}, {.n = rank, .list = shape}, {.list = l->data}};
    return note_call(g, &form_constant, arguments, 1, &out.id) ? out : (ein_tensor){0};
}

static void read_constant(call_reader *r)
{
    READ2(DTYPE, dtype, LONGS, shape)
    const void *data = ein__read_data(r, "data", dtype, n_shape, shape);
    ein_tensor *out = ein__read_results(r, 1);
    if (out != NULL) *out = ein_constant(ein__read_graph(r), dtype, n_shape, shape, data);
}

FORM(1, scalar_input, TEXT, name)

ein_scalar ein_scalar_input(ein_graph *g, const char *name)
{
    ein_scalar out = ein__op_scalar_input(g, name);
    if (out.id == 0) return out;
    const argument arguments[] = {NOTE_TEXT(name)};
    return note_call(g, &form_scalar_input, arguments, 1, &out.id) ? out : (ein_scalar){0};
}

static void read_scalar_input(call_reader *r)
{
    READ1(TEXT, name)
    if (!ein__read_failed(r)) ein__read_scalar_result(r, ein_scalar_input(ein__read_graph(r), name));
}

FORM(2, output, TEXT, name, TENSOR, x)

void ein_output(ein_graph *g, const char *name, ein_tensor x)
{
    ein__op_output(g, name, x);
    if (g == NULL || g->g.error.status != EIN_OK || x.id == 0) return;
    const argument arguments[] = {NOTE_TEXT(name), NOTE_TENSOR(x)};
    note_call(g, &form_output, arguments, 0, NULL);
}

static void read_output(call_reader *r)
{
    READ2(TEXT, name, TENSOR, x)
    if (ein__read_results(r, 0) != NULL) ein_output(ein__read_graph(r), name, x);
}

FORM(3, rope_tables, LONG, positions, LONG, d, REAL, theta)

void ein_rope_tables(ein_graph *g, int64_t positions, int64_t d, double theta, ein_tensor *cosine, ein_tensor *sine)
{
    ein__op_rope_tables(g, positions, d, theta, cosine, sine);
    if (cosine == NULL || sine == NULL || cosine->id == 0) return;
    const argument arguments[] = {NOTE_LONG(positions), NOTE_LONG(d), NOTE_REAL(theta)};
    note_call(g, &form_rope_tables, arguments, 2, (uint32_t[]){cosine->id, sine->id});
}

static void read_rope_tables(call_reader *r)
{
    READ3(LONG, positions, LONG, d, REAL, theta)
    ein_tensor *out = ein__read_results(r, 2);
    if (out != NULL) ein_rope_tables(ein__read_graph(r), positions, d, theta, &out[0], &out[1]);
}

/* A user's op is C: it is noted, so that the writer can refuse it by name, and cannot be read. */
static const call_form form_custom = {.name = "custom", .n_arguments = 1, .names = {"op"}, .kinds = {ARGUMENT_TEXT}};

void ein_custom(ein_graph *g, const ein_op *op, const ein_tensor *operands, ein_tensor *out)
{
    ein__op_custom(g, op, operands, out);
    if (g == NULL || g->g.error.status != EIN_OK || out == NULL || out[0].id == 0) return;
    const argument arguments[] = {NOTE_TEXT(op->name)};
    note_call(g, &form_custom, arguments, 1, &out[0].id);
}

/* ---- the table ------------------------------------------------------------------------------------------ */

#undef CALL
#undef CALLS
#define CALL(n, name, ...) &form_##name,
#define CALLS(n_results, n, name, ...) &form_##name,

static const call_form *const forms[] = {&form_input, &form_parameter, &form_state_tensor, &form_constant,
                                         &form_scalar_input, &form_output, &form_rope_tables,
#include "core/graph/calls.def"
};

const call_form *ein__call_find(const char *name)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i]->name, name) == 0) return forms[i];
    return NULL;
}
