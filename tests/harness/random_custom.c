/* SPDX-License-Identifier: Apache-2.0 */
/* Ops of a user's own: a sum, one that sees its position, two results of a merge with finalizers, and
 * compound dimensions. */
#include <math.h>

#include "tests/harness/random_ops.h"

/* ---- y[i] = sum over j of x[i,j]^2 -------------------------------------------------------------------- */

static void squares_reference(const ein_array *x, ein_array *y, void *user)
{
    i64 n = x->shape[0], k = x->shape[1];
    (void)user;
    for (i64 i = 0; i < n; i++) {
        y->data[i] = 0;
        for (i64 j = 0; j < k; j++) y->data[i] += x->data[i * k + j] * x->data[i * k + j];
    }
}

static const char squares_kernel[] = "STEP_N(n_i - bx * THREADS) {\n"
                                     "    const i64 i = bx * THREADS + tid;\n"
                                     "    float sum = 0.0f;\n"
                                     "    for (i64 j = 0; j < n_j; j++) {\n"
                                     "        const float v = LD(x0, i * s_x0_i + j * s_x0_j);\n"
                                     "        sum = sum + v * v;\n"
                                     "    }\n"
                                     "    ST(y0, i * s_y0_i, sum);\n"
                                     "}\n";

static const ein_label ij[] = {{.name = "i"}, {.name = "j"}};
static const char *const of_ij[] = {"i,j"}, *const of_i[] = {"i", "i"}, *const sum[] = {"a0 + b0"};
static const double zero[] = {0};

static const ein_op squares = {.size = sizeof(ein_op),
                               .name = "squares",
                               .version = "1",
                               .n_labels = 2,
                               .labels = ij,
                               .n_operands = 1,
                               .operands = of_ij,
                               .n_results = 1,
                               .results = of_i,
                               .n_states = 1,
                               .states = of_i,
                               .identity = zero,
                               .combine = sum,
                               .kernel = squares_kernel,
                               .grid = "cdiv(n_i, 256)",
                               .reference = squares_reference};

/* ---- y[i,j] = x[i,j] w[j] + (i - 2 j) / 64; cut along j at even places -------------------------------- */

static void ramp_reference(const ein_array *x, ein_array *y, void *user)
{
    i64 n = x->shape[0], k = x->shape[1];
    (void)user;
    for (i64 i = 0; i < n; i++)
        for (i64 j = 0; j < k; j++)
            y->data[i * k + j] = x[0].data[i * k + j] * x[1].data[j] + (double)(i - 2 * j) / 64;
}

static const char ramp_kernel[] =
    "STEP_N(n_i * n_j - bx * THREADS) {\n"
    "    const i64 i = (bx * THREADS + tid) / n_j, j = (bx * THREADS + tid) % n_j;\n"
    "    const float ramp = (float)(o_i + i - 2 * (o_j + j)) * 0.015625f;\n"
    "    ST(y0, i * s_y0_i + j * s_y0_j, LD(x0, i * s_x0_i + j * s_x0_j) * LD(x1, j * s_x1_j) + ramp);\n"
    "}\n";

static const ein_label ij_even[] = {{.name = "i"}, {.name = "j", .granule = 2}};
static const char *const of_ij_j[] = {"i,j", "j"};

static const ein_op ramp = {.size = sizeof(ein_op),
                            .name = "ramp",
                            .version = "1",
                            .n_labels = 2,
                            .labels = ij_even,
                            .n_operands = 2,
                            .operands = of_ij_j,
                            .n_results = 1,
                            .results = of_ij,
                            .kernel = ramp_kernel,
                            .grid = "cdiv(n_i * n_j, 256)",
                            .reference = ramp_reference};

/* ---- log of the sum of exponentials, and the maximum -------------------------------------------------- */

static void logsum_reference(const ein_array *x, ein_array *y, void *user)
{
    i64 n = x->shape[0], k = x->shape[1];
    (void)user;
    for (i64 i = 0; i < n; i++) {
        double most = -3e38, l = 0;
        for (i64 j = 0; j < k; j++) most = fmax(most, x->data[i * k + j]);
        for (i64 j = 0; j < k; j++) l += exp(x->data[i * k + j] - most);
        y[0].data[i] = l > 0 ? most + log(l) : -9;
        y[1].data[i] = fmax(most, -9);
    }
}

static const char logsum_kernel[] =
    "STEP_N(n_i - bx * THREADS) {\n"
    "    const i64 i = bx * THREADS + tid;\n"
    "    float most = -3e38f, l = 0.0f;\n"
    "    for (i64 j = 0; j < n_j; j++) most = k_max(most, LD(x0, i * s_x0_i + j * s_x0_j));\n"
    "    for (i64 j = 0; j < n_j; j++) l = l + k_exp(LD(x0, i * s_x0_i + j * s_x0_j) - most);\n"
    "    ST(y0, i * s_y0_i, most);\n"
    "    ST(y1, i * s_y1_i, l);\n"
    "}\n";

static const char *const logsum_combine[] = {"max(a0, b0)",
                                             "a1 * exp(a0 - max(a0, b0)) + b1 * exp(b0 - max(a0, b0))"};
static const char *const logsum_finalize[] = {"where(a1 > 0, a0 + log(a1), -9)", "max(a0, -9)"};
static const double logsum_identity[] = {-3e38, 0};

static const ein_op logsum = {.size = sizeof(ein_op),
                              .name = "logsum",
                              .version = "1",
                              .n_labels = 2,
                              .labels = ij,
                              .n_operands = 1,
                              .operands = of_ij,
                              .n_results = 2,
                              .results = of_i,
                              .n_states = 2,
                              .states = of_i,
                              .identity = logsum_identity,
                              .combine = logsum_combine,
                              .finalize = logsum_finalize,
                              .kernel = logsum_kernel,
                              .grid = "cdiv(n_i, 256)",
                              .reference = logsum_reference};

/* ---- y[h, (b d)] = x[b, (h d)] w[h] ------------------------------------------------------------------- */

static void heads_reference(const ein_array *x, ein_array *y, void *user)
{
    i64 b = x[0].shape[0], h = x[1].shape[0], d = h > 0 ? x[0].shape[1] / h : 0;
    (void)user;
    for (i64 i = 0; i < b; i++)
        for (i64 j = 0; j < h; j++)
            for (i64 k = 0; k < d; k++)
                y->data[(j * b + i) * d + k] = x[0].data[(i * h + j) * d + k] * x[1].data[j];
}

static const char heads_kernel[] =
    "STEP_N(n_b * n_h * n_d - bx * THREADS) {\n"
    "    const i64 at = bx * THREADS + tid, i = at / (n_h * n_d), j = at / n_d % n_h, k = at % n_d;\n"
    "    ST(y0, j * s_y0_h + i * s_y0_b + k * s_y0_d,\n"
    "       LD(x0, i * s_x0_b + j * s_x0_h + k * s_x0_d) * LD(x1, j * s_x1_h));\n"
    "}\n";

static const ein_label bhd[] = {{.name = "b"}, {.name = "h"}, {.name = "d"}};
static const char *const of_bhd_h[] = {"b,h*d", "h"}, *const of_hbd[] = {"h,b*d"};

static const ein_op heads = {.size = sizeof(ein_op),
                             .name = "heads",
                             .version = "1",
                             .n_labels = 3,
                             .labels = bhd,
                             .n_operands = 2,
                             .operands = of_bhd_h,
                             .n_results = 1,
                             .results = of_hbd,
                             .kernel = heads_kernel,
                             .grid = "cdiv(n_b * n_h * n_d, 256)",
                             .reference = heads_reference};

/* ---- the call ----------------------------------------------------------------------------------------- */

void custom_call(maker *m)
{
    static const ein_op *const ops[] = {&squares, &ramp, &logsum, &heads};
    const ein_op *op = ops[dice_below(&m->d, 4)];
    ein_tensor x[2] = {pick(m)}, y[2];
    shape s = shape_of(m, x[0]);
    x[0] = as_type(m, x[0], EIN_F32); /* their kernels are written for it */
    shape two = random_factors(m, shape_numel(&s), 2);
    if (shape_numel(&two) > 0)
        x[0] = ein_reshape(m->g, x[0], 2, two.at);
    else
        x[0] = as_type(m, make_leaf(m, two = (shape){2, {3, 4}}), EIN_F32); /* the labels' extents must be told */
    if (op == &ramp) x[1] = pick_typed(m, (shape){1, {two.at[1]}}, EIN_F32);
    if (op == &heads) {
        i64 h = dice_range(&m->d, 1, 6);
        while (two.at[1] % h != 0) h--;
        x[1] = pick_typed(m, (shape){1, {h}}, EIN_F32);
    }
    ein_custom(m->g, op, x, y);
    add_value(m, y[0]);
    if (op->n_results > 1) add_value(m, y[1]);
}
