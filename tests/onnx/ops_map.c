/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise ops. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/onnx/translate.h"

/* An expression of the first input with numbers in it. */
static void make_map(translation *t, const onnx_node *n, ein_tensor *out, const char *format, double a, double b)
{
    char expression[256];
    ein_tensor x = onnx_input(t, n, 0);
    snprintf(expression, sizeof expression, format, a, b);
    out[0] = ein_map(t->g, expression, 1, &x);
}

/* ---- activations -------------------------------------------------------------------------------------- */

static void elu(translation *t, const onnx_node *n, ein_tensor *out)
{
    make_map(t, n, out, "where(x0 < 0, %.9g * (exp(x0) - 1), x0)", onnx_attr_float(n, "alpha", 1), 0);
}

static void celu(translation *t, const onnx_node *n, ein_tensor *out)
{
    double alpha = onnx_attr_float(n, "alpha", 1);
    make_map(t, n, out, "max(x0, 0) + min(0, %.9g * (exp(x0 / %.9g) - 1))", alpha, alpha);
}

static void selu(translation *t, const onnx_node *n, ein_tensor *out)
{
    double alpha = onnx_attr_float(n, "alpha", 1.67326319217681884765625);
    double gamma = onnx_attr_float(n, "gamma", 1.05070102214813232421875);
    make_map(t, n, out, "where(x0 > 0, %.9g * x0, %.9g * (exp(x0) - 1))", gamma, gamma * alpha);
}

static void leaky_relu(translation *t, const onnx_node *n, ein_tensor *out)
{
    make_map(t, n, out, "where(x0 < 0, %.9g * x0, x0)", onnx_attr_float(n, "alpha", 0.01), 0);
}

static void thresholded_relu(translation *t, const onnx_node *n, ein_tensor *out)
{
    make_map(t, n, out, "where(x0 > %.9g, x0, 0)", onnx_attr_float(n, "alpha", 1), 0);
}

static void hard_sigmoid(translation *t, const onnx_node *n, ein_tensor *out)
{
    make_map(t, n, out, "max(0, min(1, %.9g * x0 + %.9g))", onnx_attr_float(n, "alpha", 0.2),
             onnx_attr_float(n, "beta", 0.5));
}

static void shrink(translation *t, const onnx_node *n, ein_tensor *out)
{
    char expression[160];
    double lambda = onnx_attr_float(n, "lambd", 0.5), bias = onnx_attr_float(n, "bias", 0);
    ein_tensor x = onnx_input(t, n, 0);
    snprintf(expression, sizeof expression, "where(x0 < %.9g, x0 + %.9g, where(x0 > %.9g, x0 - %.9g, 0))", -lambda,
             bias, lambda, bias);
    out[0] = ein_map(t->g, expression, 1, &x);
}

static void clip(translation *t, const onnx_node *n, ein_tensor *out)
{
    const onnx_attribute *lo = onnx_attr(n, "min"), *hi = onnx_attr(n, "max");
    out[0] = onnx_input(t, n, 0);
    if (lo != NULL || hi != NULL)
        out[0] = ein_clamp(t->g, out[0], lo != NULL ? lo->f : -INFINITY, hi != NULL ? hi->f : INFINITY);
    if (onnx_has(n, 1)) out[0] = ein_maximum(t->g, out[0], onnx_input(t, n, 1));
    if (onnx_has(n, 2)) out[0] = ein_minimum(t->g, out[0], onnx_input(t, n, 2));
}

/* ---- numbers ------------------------------------------------------------------------------------------ */

static ein_tensor in_f64(translation *t, ein_tensor x) { return ein_cast(t->g, x, EIN_F64); }

static bool is_float(const translation *t, ein_tensor x) { return ein__dtype_is_float(ein_tensor_dtype(t->g, x)); }

/* The result has the base's type. Integers go by way of f64. */
static void power(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0), y = onnx_input(t, n, 1);
    ein_dtype type = ein_tensor_dtype(t->g, x);
    if (is_float(t, x)) out[0] = ein_pow(t->g, x, ein_cast(t->g, y, type));
    else out[0] = ein_cast(t->g, ein_round(t->g, ein_pow(t->g, in_f64(t, x), in_f64(t, y))), type);
}

static void divide(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0), y = onnx_input(t, n, 1);
    if (is_float(t, x)) out[0] = ein_div(t->g, x, y);
    else out[0] = ein_cast(t->g, ein_div(t->g, in_f64(t, x), in_f64(t, y)), ein_tensor_dtype(t->g, x));
}

static void modulo(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x[2] = {onnx_input(t, n, 0), onnx_input(t, n, 1)};
    bool as_c = onnx_attr_int(n, "fmod", 0) != 0;
    const char *expression = !as_c            ? "mod(x0, x1)"
                             : is_float(t, x[0]) ? "x0 - x1 * trunc(x0 / x1)"
                                                 : "sign(x0) * mod(abs(x0), abs(x1))";
    out[0] = ein_map(t->g, expression, 2, x);
}

static void is_inf(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    bool negative = onnx_attr_int(n, "detect_negative", 1), positive = onnx_attr_int(n, "detect_positive", 1);
    ein_tensor below = ein_eq(t->g, x, onnx_scalar(t, x, -INFINITY)),
               above = ein_eq(t->g, x, onnx_scalar(t, x, INFINITY));
    out[0] = negative && positive ? ein_logical_or(t->g, below, above) : negative ? below : above;
}

static void is_nan(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    out[0] = ein_ne(t->g, x, x);
}

static void cast(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_dtype to = onnx_dtype((onnx_type)onnx_attr_int(n, "to", ONNX_UNDEFINED));
    if (to == 0) onnx_skip(t, "type %s", onnx_type_name((onnx_type)onnx_attr_int(n, "to", ONNX_UNDEFINED)));
    else out[0] = ein_cast(t->g, onnx_input(t, n, 0), to);
}

static void cast_like(translation *t, const onnx_node *n, ein_tensor *out)
{
    out[0] = ein_cast(t->g, onnx_input(t, n, 0), ein_tensor_dtype(t->g, onnx_input(t, n, 1)));
}

static void where(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x[3] = {onnx_input(t, n, 0), onnx_input(t, n, 1), onnx_input(t, n, 2)};
    out[0] = ein_where(t->g, x[0], x[1], x[2]);
}

/* ---- any number of inputs ----------------------------------------------------------------------------- */

static ein_tensor fold(translation *t, const onnx_node *n, ein_tensor (*two)(ein_graph *, ein_tensor, ein_tensor))
{
    ein_tensor x = onnx_input(t, n, 0);
    for (int i = 1; i < n->inputs.n; i++) x = two(t->g, x, onnx_input(t, n, i));
    return x;
}

static void maximum(translation *t, const onnx_node *n, ein_tensor *out) { out[0] = fold(t, n, ein_maximum); }
static void minimum(translation *t, const onnx_node *n, ein_tensor *out) { out[0] = fold(t, n, ein_minimum); }
static void sum(translation *t, const onnx_node *n, ein_tensor *out) { out[0] = fold(t, n, ein_add); }

static void mean(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = fold(t, n, ein_add);
    out[0] = ein_div(t->g, x, onnx_scalar(t, x, n->inputs.n));
}

/* ---- the table ---------------------------------------------------------------------------------------- */

/* Polynomial 4.4.49 of Abramowitz and Stegun (error 2e-8) up to 1, and pi/2 - atan(1/x) above. */
#define ATAN_1(z)                                                                                          \
    "(" z " * (0.9999999999 + " z " * " z " * (-0.3333314528 + " z " * " z " * (0.1999355085 + " z " * " z \
    " * (-0.1420889944 + " z " * " z " * (0.1065626393 + " z " * " z " * (-0.0752896400 + " z " * " z      \
    " * (0.0429096138 + " z " * " z " * (-0.0161657367 + " z " * " z " * 0.0028662257)))))))))"

/* atan of a tensor, in steps: an expression of all of it would be long. */
static ein_tensor atan_of(translation *t, ein_tensor x)
{
    ein_tensor small = ein_map(t->g, "where(abs(x0) > 1, 1 / abs(x0), abs(x0))", 1, &x);
    ein_tensor y[2] = {x, ein_map(t->g, ATAN_1("x0"), 1, &small)};
    return ein_map(t->g, "sign(x0) * where(abs(x0) > 1, 1.5707963267948966 - x1, x1)", 2, y);
}

static void arc_tangent(translation *t, const onnx_node *n, ein_tensor *out)
{
    out[0] = atan_of(t, onnx_input(t, n, 0));
}

static void arc_sine(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0);
    out[0] = atan_of(t, ein_map(t->g, "x0 / sqrt((1 - x0) * (1 + x0))", 1, &x));
}

static void arc_cosine(translation *t, const onnx_node *n, ein_tensor *out)
{
    ein_tensor x = onnx_input(t, n, 0), half = atan_of(t, ein_map(t->g, "sqrt((1 - x0) / (1 + x0))", 1, &x));
    out[0] = ein_add(t->g, half, half);
}

const onnx_op onnx_ops_map[] = {
    {"Abs", .one = ein_abs},
    {"Acos", .make = arc_cosine, .loose = true},
    {"Acosh", .expression = "log(x0 + sqrt((x0 - 1) * (x0 + 1)))", .loose = true},
    {"Add", .two = ein_add},
    {"And", .two = ein_logical_and},
    {"Asin", .make = arc_sine, .loose = true},
    {"Asinh", .expression = "sign(x0) * log(abs(x0) + sqrt(x0 * x0 + 1))", .loose = true},
    {"Atan", .make = arc_tangent, .loose = true},
    {"Atanh", .expression = "0.5 * log((1 + x0) / (1 - x0))", .loose = true},
    {"Cast", .make = cast},
    {"CastLike", .make = cast_like},
    {"Ceil", .one = ein_ceil},
    {"Celu", .make = celu},
    {"Clip", .make = clip},
    {"Cos", .one = ein_cos},
    {"Cosh", .expression = "0.5 * (exp(x0) + exp(-x0))"},
    {"Div", .make = divide},
    {"Elu", .make = elu},
    {"Equal", .two = ein_eq},
    {"Erf", .one = ein_erf},
    {"Exp", .one = ein_exp},
    {"Floor", .one = ein_floor},
    {"Greater", .two = ein_gt},
    {"GreaterOrEqual", .two = ein_ge},
    {"HardSigmoid", .make = hard_sigmoid},
    {"HardSwish", .expression = "x0 * max(0, min(1, x0 / 6 + 0.5))"},
    {"IsInf", .make = is_inf},
    {"IsNaN", .make = is_nan},
    {"LeakyRelu", .make = leaky_relu},
    {"Less", .two = ein_lt},
    {"LessOrEqual", .two = ein_le},
    {"Log", .one = ein_log},
    {"Max", .make = maximum},
    {"Mean", .make = mean},
    {"Min", .make = minimum},
    {"Mish", .expression = "x0 * tanh(max(x0, 0) + log(1 + exp(-abs(x0))))"},
    {"Mod", .make = modulo},
    {"Mul", .two = ein_mul},
    {"Neg", .one = ein_neg},
    {"Not", .one = ein_logical_not},
    {"Or", .two = ein_logical_or},
    {"Pow", .make = power},
    {"PRelu", .expression = "where(x0 < 0, x1 * x0, x0)"},
    {"Reciprocal", .one = ein_reciprocal},
    {"Relu", .one = ein_relu},
    {"Round", .one = ein_round},
    {"Selu", .make = selu},
    {"Shrink", .make = shrink},
    {"Sigmoid", .one = ein_sigmoid},
    {"Sign", .one = ein_sign},
    {"Sin", .one = ein_sin},
    {"Sinh", .expression = "0.5 * (exp(x0) - exp(-x0))"},
    {"Softplus", .expression = "max(x0, 0) + log(1 + exp(-abs(x0)))"},
    {"Softsign", .expression = "x0 / (1 + abs(x0))"},
    {"Sqrt", .one = ein_sqrt},
    {"Sub", .two = ein_sub},
    {"Sum", .make = sum},
    {"Tan", .expression = "sin(x0) / cos(x0)"},
    {"Tanh", .one = ein_tanh},
    {"ThresholdedRelu", .make = thresholded_relu},
    {"Where", .make = where},
    {"Xor", .two = ein_ne},
    {.name = NULL}};
