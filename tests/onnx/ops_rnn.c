/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent layers, a step of them after the other; and steps of optimizers. */
#include <math.h>
#include <string.h>

#include "tests/onnx/translate.h"

/* ---- recurrent layers --------------------------------------------------------------------------------- */

typedef struct layer {
    translation *t;
    ein_tensor x, w, r;        /* [sequence, batch, in], [gates * hidden, in], [gates * hidden, hidden] */
    ein_tensor bias, peephole; /* [2 * gates * hidden], [3 * hidden]; {0}: none */
    ein_tensor h, c;           /* [batch, hidden] */
    i64 sequence, hidden;
    int gates;
    bool batch_first;
} layer;

/* The first direction of an input, which must be the only one. */
static ein_tensor direction(translation *t, const onnx_node *n, int input)
{
    return onnx_has(n, input) ? ein_squeeze(t->g, onnx_input(t, n, input), 0) : (ein_tensor){0};
}

static ein_tensor initial(layer *k, const onnx_node *n, int input, i64 batch)
{
    ein_tensor x = onnx_input(k->t, n, input);
    if (x.id == 0) return ein_full(k->t->g, ein_tensor_dtype(k->t->g, k->x), 2, (i64[]){batch, k->hidden}, 0);
    return ein_squeeze(k->t->g, x, k->batch_first ? 1 : 0);
}

static layer make_layer(translation *t, const onnx_node *n, int gates)
{
    static const char *const refused[] = {"activations", "clip", "activation_alpha", "activation_beta"};
    i64 s[EIN_MAX_RANK];
    layer k = {.t = t, .gates = gates, .hidden = onnx_attr_int(n, "hidden_size", 0)};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (onnx_attr(n, refused[i]) != NULL) onnx_skip(t, "op %s with %s", n->op, refused[i]);
    if (strcmp(onnx_attr_string(n, "direction", "forward"), "forward") != 0 || onnx_has(n, 4))
        onnx_skip(t, "op %s of this kind", n->op);
    k.batch_first = onnx_attr_int(n, "layout", 0) != 0;
    k.x = onnx_input(t, n, 0);
    if (k.batch_first) k.x = ein_transpose(t->g, k.x, 0, 1);
    onnx_shape(t, k.x, s);
    k.sequence = s[0];
    k.w = direction(t, n, 1);
    k.r = direction(t, n, 2);
    k.bias = direction(t, n, 3);
    k.h = initial(&k, n, 5, s[1]);
    k.c = gates == 4 ? initial(&k, n, 6, s[1]) : (ein_tensor){0};
    k.peephole = gates == 4 ? direction(t, n, 7) : (ein_tensor){0};
    return k;
}

static ein_tensor rows(const layer *k, ein_tensor x, i64 part)
{
    return x.id == 0 ? x : ein_slice(k->t->g, x, 0, part * k->hidden, (part + 1) * k->hidden);
}

static ein_tensor from_x(const layer *k, ein_tensor x, int gate)
{
    return ein_linear(k->t->g, x, rows(k, k->w, gate), rows(k, k->bias, gate));
}

static ein_tensor from_h(const layer *k, ein_tensor h, int gate)
{
    return ein_linear(k->t->g, h, rows(k, k->r, gate), rows(k, k->bias, k->gates + gate));
}

static ein_tensor both(const layer *k, ein_tensor x, int gate)
{
    return ein_add(k->t->g, from_x(k, x, gate), from_h(k, k->h, gate));
}

static ein_tensor peek(const layer *k, ein_tensor x, ein_tensor c, int part)
{
    return k->peephole.id == 0 ? x : ein_add(k->t->g, x, ein_mul(k->t->g, rows(k, k->peephole, part), c));
}

typedef void step(layer *k, ein_tensor x);

static void step_rnn(layer *k, ein_tensor x) { k->h = ein_tanh(k->t->g, both(k, x, 0)); }

/* Gates: update, reset, hidden. */
static void step_gru(layer *k, ein_tensor x)
{
    ein_graph *g = k->t->g;
    ein_tensor z = ein_sigmoid(g, both(k, x, 0)), r = ein_sigmoid(g, both(k, x, 1));
    ein_tensor new = ein_tanh(g, ein_add(g, from_x(k, x, 2), from_h(k, ein_mul(g, r, k->h), 2)));
    k->h = ein_map(g, "(1 - x0) * x1 + x0 * x2", 3, (ein_tensor[]){z, new, k->h});
}

static void step_gru_linear(layer *k, ein_tensor x)
{
    ein_graph *g = k->t->g;
    ein_tensor z = ein_sigmoid(g, both(k, x, 0)), r = ein_sigmoid(g, both(k, x, 1));
    ein_tensor new = ein_tanh(g, ein_add(g, from_x(k, x, 2), ein_mul(g, r, from_h(k, k->h, 2))));
    k->h = ein_map(g, "(1 - x0) * x1 + x0 * x2", 3, (ein_tensor[]){z, new, k->h});
}

/* Gates: input, output, forget, cell. */
static void step_lstm(layer *k, ein_tensor x)
{
    ein_graph *g = k->t->g;
    ein_tensor i = ein_sigmoid(g, peek(k, both(k, x, 0), k->c, 0)), f = ein_sigmoid(g, peek(k, both(k, x, 2), k->c, 2));
    ein_tensor new = ein_tanh(g, both(k, x, 3)), out = both(k, x, 1);
    k->c = ein_map(g, "x0 * x1 + x2 * x3", 4, (ein_tensor[]){f, k->c, i, new});
    k->h = ein_mul(g, ein_sigmoid(g, peek(k, out, k->c, 1)), ein_tanh(g, k->c));
}

enum { MOST_STEPS = 32 };

/* Y [sequence, 1, batch, hidden], Y_h and Y_c [1, batch, hidden]; with the batch first, [batch, sequence, 1, hidden]
 * and [batch, 1, hidden]. */
static void run_layer(layer *k, step *f, const onnx_node *n, ein_tensor *out)
{
    ein_graph *g = k->t->g;
    ein_tensor all[MOST_STEPS];
    if (k->sequence > MOST_STEPS || k->sequence < 1)
        onnx_skip(k->t, "op %s of %lld steps", n->op, (long long)k->sequence);
    if (k->t->why[0] != 0) return;
    for (int i = 0; i < k->sequence; i++) {
        f(k, ein_squeeze(g, ein_slice(g, k->x, 0, i, i + 1), 0));
        all[i] = k->h;
    }
    ein_tensor y = ein_unsqueeze(g, ein_stack(g, (int)k->sequence, all, 0), 1);
    out[0] = k->batch_first ? onnx_move_axis(k->t, y, 2, 0) : y;
    out[1] = ein_unsqueeze(g, k->h, k->batch_first ? 1 : 0);
    if (k->gates == 4) out[2] = ein_unsqueeze(g, k->c, k->batch_first ? 1 : 0);
}

static void rnn(translation *t, const onnx_node *n, ein_tensor *out)
{
    layer k = make_layer(t, n, 1);
    run_layer(&k, step_rnn, n, out);
}

static void gru(translation *t, const onnx_node *n, ein_tensor *out)
{
    layer k = make_layer(t, n, 3);
    run_layer(&k, onnx_attr_int(n, "linear_before_reset", 0) != 0 ? step_gru_linear : step_gru, n, out);
}

static void lstm(translation *t, const onnx_node *n, ein_tensor *out)
{
    layer k = make_layer(t, n, 4);
    run_layer(&k, step_lstm, n, out);
}

/* ---- optimizers --------------------------------------------------------------------------------------- */

/* Inputs: R (rate), T (steps so far), then for all tensors X, for all G (gradients), for all V, perhaps for all H. */
typedef struct training {
    translation *t;
    ein_tensor rate;
    double steps;
    int n;
} training;

static training make_training(translation *t, const onnx_node *n, int per_tensor)
{
    return (training){t, onnx_input(t, n, 0), (double)onnx_known_int(t, n, 1, 0), (n->inputs.n - 2) / per_tensor};
}

static ein_tensor list(const training *k, const onnx_node *n, int which, int i)
{
    return onnx_input(k->t, n, 2 + which * k->n + i);
}

/* The gradient of the norm's penalty added. */
static ein_tensor gradient(const training *k, const onnx_node *n, int i)
{
    ein_tensor x = list(k, n, 0, i), by = onnx_scalar(k->t, x, onnx_attr_float(n, "norm_coefficient", 0));
    return ein_map(k->t->g, "x0 * x1 + x2", 3, (ein_tensor[]){by, x, list(k, n, 1, i)});
}

static ein_tensor blend(const training *k, double by, ein_tensor old, ein_tensor new)
{
    ein_tensor x[4] = {onnx_scalar(k->t, old, by), old, onnx_scalar(k->t, old, 1 - by), new};
    return ein_map(k->t->g, "x0 * x1 + x2 * x3", 4, x);
}

static void adagrad(translation *t, const onnx_node *n, ein_tensor *out)
{
    training k = make_training(t, n, 3);
    double slower = 1 + k.steps * onnx_attr_float(n, "decay_factor", 0);
    for (int i = 0; i < k.n; i++) {
        ein_tensor g = gradient(&k, n, i), h = ein_map(t->g, "x0 + x1 * x1", 2, (ein_tensor[]){list(&k, n, 2, i), g});
        ein_tensor x[6] = {list(&k, n, 0, i), k.rate, g, h, onnx_scalar(t, g, onnx_attr_float(n, "epsilon", 1e-6)),
                           onnx_scalar(t, g, slower)};
        out[i] = ein_map(t->g, "x0 - x1 / x5 * x2 / (sqrt(x3) + x4)", 6, x);
        out[k.n + i] = h;
    }
}

static void adam(translation *t, const onnx_node *n, ein_tensor *out)
{
    training k = make_training(t, n, 4);
    double alpha = onnx_attr_float(n, "alpha", 0.9), beta = onnx_attr_float(n, "beta", 0.999);
    double post = onnx_attr_float(n, "norm_coefficient_post", 0);
    double faster = k.steps > 0 ? sqrt(1 - pow(beta, k.steps)) / (1 - pow(alpha, k.steps)) : 1;
    for (int i = 0; i < k.n; i++) {
        ein_tensor g = gradient(&k, n, i), v = blend(&k, alpha, list(&k, n, 2, i), g);
        ein_tensor h = blend(&k, beta, list(&k, n, 3, i), ein_mul(t->g, g, g));
        ein_tensor x[7] = {list(&k, n, 0, i), k.rate, v, h, onnx_scalar(t, g, onnx_attr_float(n, "epsilon", 1e-6)),
                           onnx_scalar(t, g, faster), onnx_scalar(t, g, 1 - post)};
        out[i] = ein_map(t->g, "x6 * (x0 - x1 * x5 * x2 / (sqrt(x3) + x4))", 7, x);
        out[k.n + i] = v;
        out[2 * k.n + i] = h;
    }
}

static void momentum(translation *t, const onnx_node *n, ein_tensor *out)
{
    training k = make_training(t, n, 3);
    bool nesterov = strcmp(onnx_attr_string(n, "mode", "standard"), "nesterov") == 0;
    double alpha = onnx_attr_float(n, "alpha", 0), beta = k.steps > 0 ? onnx_attr_float(n, "beta", 1) : 1;
    for (int i = 0; i < k.n; i++) {
        ein_tensor g = gradient(&k, n, i), a = onnx_scalar(t, g, alpha), b = onnx_scalar(t, g, beta);
        ein_tensor v = ein_map(t->g, "x0 * x1 + x2 * x3", 4, (ein_tensor[]){a, list(&k, n, 2, i), b, g});
        ein_tensor x[5] = {list(&k, n, 0, i), k.rate, g, v, a};
        out[i] = ein_map(t->g, nesterov ? "x0 - x1 * (x2 + x4 * x3)" : "x0 - x1 * x3", nesterov ? 5 : 4, x);
        out[k.n + i] = v;
    }
}

const onnx_op onnx_ops_rnn[] = {
    {"Adagrad", .make = adagrad},
    {"Adam", .make = adam},
    {"GRU", .make = gru},
    {"LSTM", .make = lstm},
    {"Momentum", .make = momentum},
    {"RNN", .make = rnn},
    {.name = NULL}};
