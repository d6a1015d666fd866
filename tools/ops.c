/* SPDX-License-Identifier: Apache-2.0 */
/* ein ops: the table is what the builder really makes. Every op is built once per dtype; those that are not
 * refused are its dtypes, and the node's spec gives labels and merges. */
#include <stdio.h>
#include <string.h>

#include "core/graph/graph.h"
#include "ein.h"
#include "tools/args.h"
#include "tools/commands.h"
#include "tools/report.h"

#define SHAPE(...) ((const i64[]){__VA_ARGS__})
#define TENSORS(...) ((const ein_tensor[]){__VA_ARGS__})

static ein_tensor vector(ein_graph *g, ein_dtype d, const char *name)
{
    return ein_input(g, name, d, 1, SHAPE(8));
}

static ein_tensor matrix(ein_graph *g, ein_dtype d, const char *name)
{
    return ein_input(g, name, d, 2, SHAPE(8, 8));
}

/* [batch, heads, positions, size], or of a rotary operand [batch, positions, heads, size]. */
static ein_tensor heads(ein_graph *g, ein_dtype d, const char *name, i64 n)
{
    return ein_input(g, name, d, 4, SHAPE(2, n, 6, 8));
}

static ein_tensor make_einsum(ein_graph *g, ein_dtype d)
{
    return ein_einsum(
        g, "bik,bkj->bij", 2,
        TENSORS(ein_input(g, "a", d, 3, SHAPE(2, 4, 8)), ein_input(g, "b", d, 3, SHAPE(2, 8, 4))));
}
static ein_tensor make_matmul(ein_graph *g, ein_dtype d)
{
    return ein_matmul(g, matrix(g, d, "a"), matrix(g, d, "b"));
}
static ein_tensor make_linear(ein_graph *g, ein_dtype d)
{
    return ein_linear(g, matrix(g, d, "x"), matrix(g, d, "w"), (ein_tensor){0});
}
static ein_tensor make_map(ein_graph *g, ein_dtype d)
{
    return ein_map(g, "x0 * sigmoid(x0) * x1", 2, TENSORS(matrix(g, d, "a"), matrix(g, d, "b")));
}
static ein_tensor make_softmax(ein_graph *g, ein_dtype d) { return ein_softmax(g, matrix(g, d, "x"), 1); }
static ein_tensor make_rms_norm(ein_graph *g, ein_dtype d)
{
    return ein_rms_norm(g, matrix(g, d, "x"), vector(g, d, "w"), 1e-5);
}
static ein_tensor make_where(ein_graph *g, ein_dtype d)
{
    return ein_where(g, matrix(g, EIN_BOOL, "condition"), matrix(g, d, "a"), vector(g, d, "b"));
}
static ein_tensor make_clamp(ein_graph *g, ein_dtype d) { return ein_clamp(g, matrix(g, d, "x"), -1, 1); }
static ein_tensor make_gelu(ein_graph *g, ein_dtype d) { return ein_gelu(g, matrix(g, d, "x"), 0); }
static ein_tensor make_cast(ein_graph *g, ein_dtype d)
{
    return ein_cast(g, matrix(g, d, "x"), d == EIN_F32 ? EIN_BF16 : EIN_F32);
}
static ein_tensor make_argmax(ein_graph *g, ein_dtype d) { return ein_argmax(g, matrix(g, d, "x"), 1, 0); }
static ein_tensor make_argmin(ein_graph *g, ein_dtype d) { return ein_argmin(g, matrix(g, d, "x"), 1, 0); }
static ein_tensor make_topk(ein_graph *g, ein_dtype d)
{
    ein_tensor out[2];
    ein_topk(g, matrix(g, d, "x"), 2, 1, 0, out);
    return out[0];
}
static ein_tensor make_cumsum(ein_graph *g, ein_dtype d) { return ein_cumsum(g, matrix(g, d, "x"), 1); }
static ein_tensor make_log_softmax(ein_graph *g, ein_dtype d) { return ein_log_softmax(g, matrix(g, d, "x"), 1); }
static ein_tensor make_cross_entropy(ein_graph *g, ein_dtype d)
{
    return ein_cross_entropy(g, matrix(g, d, "logits"), vector(g, EIN_I64, "targets"));
}
static ein_tensor make_layer_norm(ein_graph *g, ein_dtype d)
{
    return ein_layer_norm(g, matrix(g, d, "x"), vector(g, d, "w"), vector(g, d, "b"), 1e-5);
}
static ein_tensor make_group_norm(ein_graph *g, ein_dtype d)
{
    ein_tensor x = ein_input(g, "x", d, 3, SHAPE(2, 8, 5));
    return ein_group_norm(g, x, 2, vector(g, d, "w"), vector(g, d, "b"), 1e-5);
}
static ein_tensor make_batch_norm(ein_graph *g, ein_dtype d)
{
    ein_tensor v = vector(g, d, "v");
    return ein_batch_norm(g, matrix(g, d, "x"), v, v, v, v, 1e-5);
}
static ein_tensor make_rope(ein_graph *g, ein_dtype d)
{
    ein_tensor cosine, sine;
    ein_rope_tables(g, 8, 8, 1e4, &cosine, &sine);
    return ein_rope(g, heads(g, d, "x", 4), cosine, sine, ein_scalar_input(g, "position"));
}
static ein_tensor make_rope_interleaved(ein_graph *g, ein_dtype d)
{
    ein_tensor cosine, sine;
    ein_rope_tables(g, 8, 8, 1e4, &cosine, &sine);
    return ein_rope_interleaved(g, heads(g, d, "x", 4), cosine, sine, ein_scalar_input(g, "position"));
}
static ein_tensor make_attention(ein_graph *g, ein_dtype d)
{
    return ein_scaled_dot_product_attention(g, heads(g, d, "q", 4), heads(g, d, "k", 2), heads(g, d, "v", 2),
                                            NULL);
}
static ein_tensor make_attention_partial(ein_graph *g, ein_dtype d)
{
    ein_tensor out[3];
    ein_scaled_dot_product_attention_partial(g, heads(g, d, "q", 4), heads(g, d, "k", 2), heads(g, d, "v", 2),
                                             NULL, out);
    return out[2];
}
static ein_tensor make_embedding(ein_graph *g, ein_dtype d)
{
    return ein_embedding(g, vector(g, d, "ids"), ein_parameter(g, "table", EIN_F32, 2, SHAPE(16, 8)));
}
static ein_tensor make_reshape(ein_graph *g, ein_dtype d)
{
    return ein_reshape(g, matrix(g, d, "x"), 3, SHAPE(8, 2, 4));
}
static ein_tensor make_permute(ein_graph *g, ein_dtype d)
{
    return ein_permute(g, matrix(g, d, "x"), (int[]){1, 0});
}
static ein_tensor make_slice(ein_graph *g, ein_dtype d) { return ein_slice(g, matrix(g, d, "x"), 0, 2, 6); }
static ein_tensor make_concat(ein_graph *g, ein_dtype d)
{
    return ein_concat(g, 2, TENSORS(matrix(g, d, "a"), matrix(g, d, "b")), 0);
}
static ein_tensor make_append(ein_graph *g, ein_dtype d)
{
    ein_tensor state = ein_state_tensor(g, "state", d, 3, SHAPE(2, 16, 8));
    return ein_state_append(g, state, ein_input(g, "rows", d, 3, SHAPE(2, 4, 8)), 1,
                            ein_scalar_input(g, "position"));
}

/* ---- views and parts ---- */

static ein_tensor make_transpose(ein_graph *g, ein_dtype d) { return ein_transpose(g, matrix(g, d, "x"), 0, 1); }
static ein_tensor make_squeeze(ein_graph *g, ein_dtype d)
{
    return ein_squeeze(g, ein_input(g, "x", d, 3, SHAPE(8, 1, 8)), 1);
}
static ein_tensor make_unsqueeze(ein_graph *g, ein_dtype d) { return ein_unsqueeze(g, matrix(g, d, "x"), 0); }
static ein_tensor make_flatten(ein_graph *g, ein_dtype d) { return ein_flatten(g, matrix(g, d, "x"), 0, 1); }
static ein_tensor make_expand(ein_graph *g, ein_dtype d)
{
    return ein_expand(g, vector(g, d, "x"), 2, SHAPE(4, -1));
}
static ein_tensor make_slice_step(ein_graph *g, ein_dtype d)
{
    return ein_slice_step(g, matrix(g, d, "x"), 1, 7, 0, -2);
}
static ein_tensor make_split(ein_graph *g, ein_dtype d)
{
    ein_tensor out[2];
    ein_split(g, matrix(g, d, "x"), 2, (int64_t[]){3, 5}, 1, out);
    return out[1];
}
static ein_tensor make_stack(ein_graph *g, ein_dtype d)
{
    return ein_stack(g, 2, TENSORS(matrix(g, d, "a"), matrix(g, d, "b")), 0);
}
static ein_tensor make_pad(ein_graph *g, ein_dtype d)
{
    return ein_pad(g, matrix(g, d, "x"), (int64_t[]){0, 1}, (int64_t[]){0, 1}, 0);
}
static ein_tensor make_roll(ein_graph *g, ein_dtype d) { return ein_roll(g, matrix(g, d, "x"), 3, 1); }
static ein_tensor make_flip(ein_graph *g, ein_dtype d) { return ein_flip(g, matrix(g, d, "x"), 1, (int[]){1}); }

/* ---- indices and new values ---- */

static ein_tensor ids_of(ein_graph *g, int rank) { return ein_input(g, "ids", EIN_I64, rank, SHAPE(8, 8)); }
static ein_tensor make_index_select(ein_graph *g, ein_dtype d)
{
    return ein_index_select(g, matrix(g, d, "x"), 0, ids_of(g, 1));
}
static ein_tensor make_gather(ein_graph *g, ein_dtype d)
{
    return ein_gather(g, matrix(g, d, "x"), 1, ids_of(g, 2));
}
static ein_tensor make_scatter_add(ein_graph *g, ein_dtype d)
{
    return ein_scatter_add(g, matrix(g, d, "x"), 1, ids_of(g, 2), matrix(g, d, "source"));
}
static ein_tensor make_one_hot(ein_graph *g, ein_dtype d) { return ein_one_hot(g, ids_of(g, 1), 8, d); }
static ein_tensor make_full(ein_graph *g, ein_dtype d) { return ein_full(g, d, 2, SHAPE(8, 8), 1); }
static ein_tensor make_arange(ein_graph *g, ein_dtype d) { return ein_arange(g, d, 8, 0, 1); }
static ein_tensor make_tril(ein_graph *g, ein_dtype d) { return ein_tril(g, matrix(g, d, "x"), 0); }
static ein_tensor make_triu(ein_graph *g, ein_dtype d) { return ein_triu(g, matrix(g, d, "x"), 0); }

static ein_tensor make_moe_routing(ein_graph *g, ein_dtype d)
{
    ein_tensor out[2];
    ein_moe_routing(g, matrix(g, d, "logits"), 2, 4, 1, out);
    return out[1];
}

/* ---- convolutions and pools ---- */

static ein_tensor make_conv1d(ein_graph *g, ein_dtype d)
{
    ein_tensor w = ein_parameter(g, "w", d, 3, SHAPE(8, 4, 3));
    return ein_conv1d(g, ein_input(g, "x", d, 3, SHAPE(2, 4, 8)), w, (ein_tensor){0}, NULL);
}
static ein_tensor make_conv2d(ein_graph *g, ein_dtype d)
{
    ein_tensor w = ein_parameter(g, "w", d, 4, SHAPE(8, 4, 3, 3));
    return ein_conv2d(g, ein_input(g, "x", d, 4, SHAPE(2, 4, 8, 8)), w, (ein_tensor){0}, NULL);
}
static ein_tensor make_max_pool(ein_graph *g, ein_dtype d)
{
    const ein_pool_options o = {.size = sizeof o, .kernel = {3, 3}, .stride = {2, 2}};
    return ein_max_pool(g, ein_input(g, "x", d, 4, SHAPE(2, 4, 9, 9)), &o);
}
static ein_tensor make_avg_pool(ein_graph *g, ein_dtype d)
{
    const ein_pool_options o = {.size = sizeof o, .kernel = {2, 2}};
    return ein_avg_pool(g, ein_input(g, "x", d, 4, SHAPE(2, 4, 8, 8)), &o);
}

static const struct op {
    const char *name;
    ein_tensor (*make)(ein_graph *g, ein_dtype d);
} OPS[] = {
    {"einsum", make_einsum},
    {"matmul", make_matmul},
    {"linear", make_linear},
    {"map", make_map},
    {"gelu", make_gelu},
    {"clamp", make_clamp},
    {"where", make_where},
    {"cast", make_cast},
    {"argmax", make_argmax},
    {"argmin", make_argmin},
    {"topk", make_topk},
    {"cumsum", make_cumsum},
    {"softmax", make_softmax},
    {"log_softmax", make_log_softmax},
    {"cross_entropy", make_cross_entropy},
    {"rms_norm", make_rms_norm},
    {"layer_norm", make_layer_norm},
    {"group_norm", make_group_norm},
    {"batch_norm", make_batch_norm},
    {"rope", make_rope},
    {"rope_interleaved", make_rope_interleaved},
    {"scaled_dot_product_attention", make_attention},
    {"scaled_dot_product_attention_partial", make_attention_partial},
    {"embedding", make_embedding},
    {"reshape", make_reshape},
    {"permute", make_permute},
    {"slice", make_slice},
    {"concat", make_concat},
    {"state_append", make_append},
    {"transpose", make_transpose},
    {"squeeze", make_squeeze},
    {"unsqueeze", make_unsqueeze},
    {"flatten", make_flatten},
    {"expand", make_expand},
    {"slice_step", make_slice_step},
    {"split", make_split},
    {"stack", make_stack},
    {"pad", make_pad},
    {"roll", make_roll},
    {"flip", make_flip},
    {"index_select", make_index_select},
    {"gather", make_gather},
    {"scatter_add", make_scatter_add},
    {"one_hot", make_one_hot},
    {"full", make_full},
    {"arange", make_arange},
    {"tril", make_tril},
    {"triu", make_triu},
    {"moe_routing", make_moe_routing},
    {"conv1d", make_conv1d},
    {"conv2d", make_conv2d},
    {"max_pool", make_max_pool},
    {"avg_pool", make_avg_pool},
};

/* Calls of one operand, of two, of axes: one of them; or of anything. */
typedef struct call {
    const char *name;
    ein_tensor (*one)(ein_graph *g, ein_tensor x);
    ein_tensor (*two)(ein_graph *g, ein_tensor a, ein_tensor b);
    ein_tensor (*reduce)(ein_graph *g, ein_tensor x, int n, const int *axes, int keepdim);
    ein_tensor (*make)(ein_graph *g, ein_dtype d);
} call;

static const call CALLS[] = {
    {"add", .two = ein_add},
    {"sub", .two = ein_sub},
    {"mul", .two = ein_mul},
    {"div", .two = ein_div},
    {"pow", .two = ein_pow},
    {"maximum", .two = ein_maximum},
    {"minimum", .two = ein_minimum},
    {"eq", .two = ein_eq},
    {"ne", .two = ein_ne},
    {"lt", .two = ein_lt},
    {"le", .two = ein_le},
    {"gt", .two = ein_gt},
    {"ge", .two = ein_ge},
    {"logical_and", .two = ein_logical_and},
    {"logical_or", .two = ein_logical_or},
    {"neg", .one = ein_neg},
    {"abs", .one = ein_abs},
    {"sign", .one = ein_sign},
    {"floor", .one = ein_floor},
    {"ceil", .one = ein_ceil},
    {"round", .one = ein_round},
    {"exp", .one = ein_exp},
    {"log", .one = ein_log},
    {"sqrt", .one = ein_sqrt},
    {"rsqrt", .one = ein_rsqrt},
    {"reciprocal", .one = ein_reciprocal},
    {"sin", .one = ein_sin},
    {"cos", .one = ein_cos},
    {"tanh", .one = ein_tanh},
    {"sigmoid", .one = ein_sigmoid},
    {"erf", .one = ein_erf},
    {"relu", .one = ein_relu},
    {"silu", .one = ein_silu},
    {"logical_not", .one = ein_logical_not},
    {"sum", .reduce = ein_sum},
    {"mean", .reduce = ein_mean},
    {"amax", .reduce = ein_amax},
    {"amin", .reduce = ein_amin},
    {"prod", .reduce = ein_prod},
    {"logsumexp", .reduce = ein_logsumexp},
    {"any", .reduce = ein_any},
    {"all", .reduce = ein_all},
};

static void print_merges(const node *n, text *out)
{
    for (int i = 0; i < n->n_stages; i++)
        ein__text_add(out, "%s%s", i > 0 ? ", " : "", n->stages[i].merge->name);
    if (n->n_stages == 0) ein__text_add(out, "%s", n->spec.merge != NULL ? n->spec.merge->name : "-");
}

static ein_tensor make(const call *o, ein_graph *g, ein_dtype d)
{
    if (o->make != NULL) return o->make(g, d);
    ein_tensor x = matrix(g, d, "x");
    if (o->one != NULL) return o->one(g, x);
    return o->two != NULL ? o->two(g, x, vector(g, d, "y")) : o->reduce(g, x, 1, (int[]){1}, 0);
}

/* Adds the op's dtype, and its spec if it is the first that is not refused. False: no memory. */
static bool try_dtype(const call *o, ein_dtype d, text *dtypes, text *labels, text *merges)
{
    ein_graph *g;
    if (ein_graph_create(&g) != EIN_OK) return false;
    ein_tensor y = make(o, g, d);
    if (y.id != 0) {
        const value_info *v = &g->g.values.items[y.id - 1];
        const node *n = v->kind == VALUE_RESULT ? &g->g.nodes.items[v->owner] : NULL; /* it may be the operand */
        ein__text_add(dtypes, "%s%s", dtypes->n > 0 ? " " : "", ein__dtype_name(d));
        if (labels->n == 0 && n != NULL) {
            ein__spec_print(&n->spec, labels);
            print_merges(n, merges);
        }
    }
    bool ok = ein_graph_status(g) != EIN_NO_MEMORY;
    ein_graph_free(g);
    return ok;
}

static json_t *row_of(const call *o)
{
    static const ein_dtype dtypes[] = {EIN_F32, EIN_F64, EIN_BF16, EIN_F16, EIN_I8, EIN_I32, EIN_I64, EIN_BOOL};
    text names = {0}, labels = {0}, merges = {0};
    bool ok = true;
    for (int i = 0; ok && i < 8; i++) ok = try_dtype(o, dtypes[i], &names, &labels, &merges);
    ok = ok && !names.failed && !labels.failed && !merges.failed;
    json_t *row = NULL;
    if (ok) {
        row =
            json_pack("{s:s, s:s, s:s, s:s, s:s}", "op", o->name, "dtypes", ein__text_get(&names), "targets",
                      "host", "merges", ein__text_get(&merges), "labels", ein__text_get(&labels));
    }
    ein__text_free(&names);
    ein__text_free(&labels);
    ein__text_free(&merges);
    return row;
}

int command_ops(int argc, char **argv)
{
    args a;
    int code = args_parse(argc, argv, "json", 0, 0, &a);
    if (code != EXIT_DONE) return code;
    report r;
    report_begin(&r, a.json);
    for (unsigned i = 0; i < sizeof OPS / sizeof *OPS; i++)
        report_row(&r, row_of(&(call){.name = OPS[i].name, .make = OPS[i].make}));
    for (unsigned i = 0; i < sizeof CALLS / sizeof *CALLS; i++) report_row(&r, row_of(&CALLS[i]));
    return report_end(&r) ? EXIT_DONE : EXIT_USAGE;
}
