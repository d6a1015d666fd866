/* SPDX-License-Identifier: Apache-2.0 */
/* Forward passes of small models, written by hand from the papers: loops over f64, no graph, no cache. */
#ifndef TESTS_TOOLS_FORWARD_H
#define TESTS_TOOLS_FORWARD_H

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tools/folder.h"

typedef double *rows; /* n x width; lives until rows_free */

static struct { int n; rows items[4096]; } all_rows;

static rows rows_new(int n, int width)
{
    rows x = calloc((size_t)n * (size_t)width + 1, sizeof *x);
    assert_true(x != NULL && all_rows.n < 4096);
    return all_rows.items[all_rows.n++] = x;
}

/* All that there are. */
static void rows_free(void)
{
    while (all_rows.n > 0) free(all_rows.items[--all_rows.n]);
}

/* The weight of that name, which must be there. */
static const double *weight(const folder *f, const char *format, ...)
{
    char name[160];
    va_list list;
    va_start(list, format);
    vsnprintf(name, sizeof name, format, list);
    va_end(list);
    for (int i = 0; i < f->n; i++) {
        if (strcmp(f->entries[i].name, name) == 0) return f->entries[i].f64;
    }
    fail_msg("the test has no weight %s", name);
    return NULL;
}

/* w [o, k], or [k, o] if `in_out`; b may be NULL. */
static rows linear(const double *x, int n, int k, int o, const double *w, const double *b, bool in_out)
{
    rows y = rows_new(n, o);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < o; j++) {
            double sum = b != NULL ? b[j] : 0;
            for (int c = 0; c < k; c++) sum += x[i * k + c] * (in_out ? w[c * o + j] : w[j * k + c]);
            y[i * o + j] = sum;
        }
    }
    return y;
}

static rows sum_of(const double *x, const double *y, int n)
{
    rows z = rows_new(n, 1);
    for (int i = 0; i < n; i++) z[i] = x[i] + y[i];
    return z;
}

static rows layer_norm(const double *x, int n, int d, const double *w, const double *b, double eps)
{
    rows y = rows_new(n, d);
    for (int i = 0; i < n; i++) {
        double mean = 0, square = 0;
        for (int j = 0; j < d; j++) mean += x[i * d + j] / d;
        for (int j = 0; j < d; j++) square += (x[i * d + j] - mean) * (x[i * d + j] - mean) / d;
        for (int j = 0; j < d; j++) y[i * d + j] = (x[i * d + j] - mean) / sqrt(square + eps) * w[j] + b[j];
    }
    return y;
}

/* Scaled by more + weight. */
static rows rms_norm(const double *x, int n, int d, const double *w, double more, double eps)
{
    rows y = rows_new(n, d);
    for (int i = 0; i < n; i++) {
        double square = 0;
        for (int j = 0; j < d; j++) square += x[i * d + j] * x[i * d + j] / d;
        for (int j = 0; j < d; j++) y[i * d + j] = x[i * d + j] / sqrt(square + eps) * (more + w[j]);
    }
    return y;
}

static double gelu(double x) { return 0.5 * x * (1 + erf(x / sqrt(2))); }
static double gelu_tanh(double x) { return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x))); }
static double silu(double x) { return x / (1 + exp(-x)); }

static void apply(double *x, int n, double (*f)(double))
{
    for (int i = 0; i < n; i++) x[i] = f(x[i]);
}

/* Pairs (i, i + d/2) of each head turn by place * frequency[i]. */
static void turn(double *x, int n, int heads, int d, const double *frequency)
{
    for (int p = 0; p < n; p++) {
        for (int h = 0; h < heads; h++) {
            double *a = x + (p * heads + h) * d;
            for (int i = 0; i < d / 2; i++) {
                double c = cos(p * frequency[i]), s = sin(p * frequency[i]), u = a[i], v = a[i + d / 2];
                a[i] = u * c - v * s;
                a[i + d / 2] = v * c + u * s;
            }
        }
    }
}

typedef struct look {
    int heads, kv_heads, d;
    double scale, cap; /* cap 0: none */
    bool causal;
    int window; /* 0: none */
} look;

static double score(const look *l, const double *q, const double *k)
{
    double s = 0;
    for (int i = 0; i < l->d; i++) s += q[i] * k[i];
    s *= l->scale;
    return l->cap > 0 ? l->cap * tanh(s / l->cap) : s;
}

/* q [n, heads * d], k and v [n, kv_heads * d] -> [n, heads * d] */
static rows attend(const look *l, const double *q, const double *k, const double *v, int n)
{
    rows y = rows_new(n, l->heads * l->d), e = rows_new(n, 1);
    for (int i = 0; i < n; i++) {
        for (int h = 0; h < l->heads; h++) {
            int g = h / (l->heads / l->kv_heads);
            double all = 0;
            for (int t = 0; t < n; t++) {
                bool seen = (!l->causal || t <= i) && (l->window == 0 || t > i - l->window);
                e[t] = seen ? exp(score(l, q + (i * l->heads + h) * l->d, k + (t * l->kv_heads + g) * l->d)) : 0;
                all += e[t];
            }
            for (int t = 0; t < n; t++) {
                for (int j = 0; j < l->d; j++)
                    y[(i * l->heads + h) * l->d + j] += e[t] / all * v[(t * l->kv_heads + g) * l->d + j];
            }
        }
    }
    return y;
}

static rows embed(const double *table, const int *ids, int n, int d, double scale)
{
    rows x = rows_new(n, d);
    for (int i = 0; i < n * d; i++) x[i] = table[ids[i / d] * d + i % d] * scale;
    return x;
}

/* ---- BERT ------------------------------------------------------------------------------------------- */

typedef struct tiny { int hidden, heads, kv_heads, d, ffn, layers, vocabulary; } tiny;

/* `p` is the prefix of names; norms are `gamma` and `beta` if `old`. */
static rows bert_norm(const folder *f, const double *x, int n, int d, bool old, const char *name)
{
    const double *w = weight(f, "%s.%s", name, old ? "gamma" : "weight");
    return layer_norm(x, n, d, w, weight(f, "%s.%s", name, old ? "beta" : "bias"), 1e-12);
}

static rows bert_linear(const folder *f, const double *x, int n, int k, int o, const char *name)
{
    return linear(x, n, k, o, weight(f, "%s.weight", name), weight(f, "%s.bias", name), false);
}

/* NAMED writes to `name`: once in an expression. */
static rows bert_forward(const folder *f, const tiny *m, const char *p, bool old, const int *ids, int n)
{
    int d = m->hidden;
    char name[128];
    const look all = {m->heads, m->heads, d / m->heads, 1 / sqrt(d / m->heads), 0, false, 0};
    rows x = embed(weight(f, "%sembeddings.word_embeddings.weight", p), ids, n, d, 1);
    const double *places = weight(f, "%sembeddings.position_embeddings.weight", p);
    const double *types = weight(f, "%sembeddings.token_type_embeddings.weight", p);
    for (int i = 0; i < n * d; i++) x[i] += places[i] + types[i % d];
#define NAMED(part) (snprintf(name, sizeof name, "%sencoder.layer.%d.%s", p, l, part), name)
    snprintf(name, sizeof name, "%sembeddings.LayerNorm", p);
    x = bert_norm(f, x, n, d, old, name);
    for (int l = 0; l < m->layers; l++) {
        rows q = bert_linear(f, x, n, d, d, NAMED("attention.self.query"));
        rows k = bert_linear(f, x, n, d, d, NAMED("attention.self.key"));
        rows v = bert_linear(f, x, n, d, d, NAMED("attention.self.value"));
        rows y = bert_linear(f, attend(&all, q, k, v, n), n, d, d, NAMED("attention.output.dense"));
        x = bert_norm(f, sum_of(x, y, n * d), n, d, old, NAMED("attention.output.LayerNorm"));
        y = bert_linear(f, x, n, d, m->ffn, NAMED("intermediate.dense"));
        apply(y, n * m->ffn, gelu);
        y = bert_linear(f, y, n, m->ffn, d, NAMED("output.dense"));
        x = bert_norm(f, sum_of(x, y, n * d), n, d, old, NAMED("output.LayerNorm"));
    }
    return x;
}

/* ---- GPT-2 ------------------------------------------------------------------------------------------ */

static rows gpt2_linear(const folder *f, const double *x, int n, int k, int o, const char *name)
{
    return linear(x, n, k, o, weight(f, "%s.weight", name), weight(f, "%s.bias", name), true);
}

static rows gpt2_norm(const folder *f, const double *x, int n, int d, const char *name)
{
    return layer_norm(x, n, d, weight(f, "%s.weight", name), weight(f, "%s.bias", name), 1e-5);
}

static rows gpt2_forward(const folder *f, const tiny *m, const char *p, const int *ids, int n)
{
    int d = m->hidden;
    char name[128];
    const look seen = {m->heads, m->heads, d / m->heads, 1 / sqrt(d / m->heads), 0, true, 0};
    const double *table = weight(f, "%swte.weight", p);
    rows x = sum_of(embed(table, ids, n, d, 1), weight(f, "%swpe.weight", p), n * d);
#undef NAMED
#define NAMED(part) (snprintf(name, sizeof name, "%sh.%d.%s", p, l, part), name)
    for (int l = 0; l < m->layers; l++) {
        rows y = gpt2_norm(f, x, n, d, NAMED("ln_1")), all = gpt2_linear(f, y, n, d, 3 * d, NAMED("attn.c_attn")), part[3];
        for (int i = 0; i < 3; i++) {
            part[i] = rows_new(n, d);
            for (int r = 0; r < n; r++) memcpy(part[i] + r * d, all + (r * 3 + i) * d, (size_t)d * sizeof(double));
        }
        y = attend(&seen, part[0], part[1], part[2], n);
        x = sum_of(x, gpt2_linear(f, y, n, d, d, NAMED("attn.c_proj")), n * d);
        y = gpt2_norm(f, x, n, d, NAMED("ln_2"));
        y = gpt2_linear(f, y, n, d, m->ffn, NAMED("mlp.c_fc"));
        apply(y, n * m->ffn, gelu_tanh);
        x = sum_of(x, gpt2_linear(f, y, n, m->ffn, d, NAMED("mlp.c_proj")), n * d);
    }
    snprintf(name, sizeof name, "%sln_f", p);
    return linear(gpt2_norm(f, x, n, d, name), n, d, m->vocabulary, table, NULL, false);
}

/* ---- LLaMA and its relatives -------------------------------------------------------------------------- */

typedef struct kind {
    bool qkv_bias, tied, gemma, post_norms;
    int window, window_first, window_period; /* 0: none */
    double scale, scores_cap, logits_cap;    /* 0: the usual one, none */
    double stretch;                          /* of the rotary angles; 0: 1 */
} kind;

static rows llama_linear(const folder *f, const double *x, int n, int k, int o, bool bias, int l, const char *name)
{
    const double *w = weight(f, "model.layers.%d.%s.weight", l, name);
    return linear(x, n, k, o, w, bias ? weight(f, "model.layers.%d.%s.bias", l, name) : NULL, false);
}

static rows llama_norm(const folder *f, const kind *how, const double *x, int n, int d, int l, const char *name)
{
    return rms_norm(x, n, d, weight(f, "model.layers.%d.%s.weight", l, name), how->gemma, 1e-6);
}

static rows llama_attention(const folder *f, const tiny *m, const kind *how, const double *x, int n, int l)
{
    double frequency[64];
    bool windowed = how->window > 0 && l >= how->window_first && (l - how->window_first) % how->window_period == 0;
    look seen = {m->heads, m->kv_heads, m->d, how->scale > 0 ? how->scale : 1 / sqrt(m->d), how->scores_cap, true,
                 windowed ? how->window : 0};
    int wide = m->heads * m->d, narrow = m->kv_heads * m->d;
    for (int i = 0; i < m->d / 2; i++)
        frequency[i] = pow(10000, -2.0 * i / m->d) / (how->stretch > 0 ? how->stretch : 1);
    rows q = llama_linear(f, x, n, m->hidden, wide, how->qkv_bias, l, "self_attn.q_proj");
    rows k = llama_linear(f, x, n, m->hidden, narrow, how->qkv_bias, l, "self_attn.k_proj");
    rows v = llama_linear(f, x, n, m->hidden, narrow, how->qkv_bias, l, "self_attn.v_proj");
    turn(q, n, m->heads, m->d, frequency);
    turn(k, n, m->kv_heads, m->d, frequency);
    return llama_linear(f, attend(&seen, q, k, v, n), n, wide, m->hidden, false, l, "self_attn.o_proj");
}

static rows llama_feed_forward(const folder *f, const tiny *m, const kind *how, const double *x, int n, int l)
{
    rows gate = llama_linear(f, x, n, m->hidden, m->ffn, false, l, "mlp.gate_proj");
    rows up = llama_linear(f, x, n, m->hidden, m->ffn, false, l, "mlp.up_proj");
    apply(gate, n * m->ffn, how->gemma ? gelu_tanh : silu);
    for (int i = 0; i < n * m->ffn; i++) gate[i] *= up[i];
    return llama_linear(f, gate, n, m->ffn, m->hidden, false, l, "mlp.down_proj");
}

static rows llama_forward(const folder *f, const tiny *m, const kind *how, const int *ids, int n)
{
    int d = m->hidden;
    const double *table = weight(f, "model.embed_tokens.weight");
    rows x = embed(table, ids, n, d, how->gemma ? sqrt(d) : 1);
    for (int l = 0; l < m->layers; l++) {
        rows y = llama_attention(f, m, how, llama_norm(f, how, x, n, d, l, "input_layernorm"), n, l);
        if (how->post_norms) y = llama_norm(f, how, y, n, d, l, "post_attention_layernorm");
        x = sum_of(x, y, n * d);
        const char *before = how->post_norms ? "pre_feedforward_layernorm" : "post_attention_layernorm";
        y = llama_feed_forward(f, m, how, llama_norm(f, how, x, n, d, l, before), n, l);
        if (how->post_norms) y = llama_norm(f, how, y, n, d, l, "post_feedforward_layernorm");
        x = sum_of(x, y, n * d);
    }
    x = rms_norm(x, n, d, weight(f, "model.norm.weight"), how->gemma, 1e-6);
    x = linear(x, n, d, m->vocabulary, how->tied ? table : weight(f, "lm_head.weight"), NULL, false);
    for (int i = 0; how->logits_cap > 0 && i < n * m->vocabulary; i++) x[i] = how->logits_cap * tanh(x[i] / how->logits_cap);
    return x;
}

/* ---- ViT -------------------------------------------------------------------------------------------- */

/* Pixels [3, side, side] -> the class token and a row for each patch. */
static rows vit_patches(const folder *f, const tiny *m, const char *p, const float *pixels, int side, int patch)
{
    int across = side / patch, d = m->hidden;
    rows x = rows_new(across * across + 1, d);
    const double *w = weight(f, "%sembeddings.patch_embeddings.projection.weight", p);
    const double *b = weight(f, "%sembeddings.patch_embeddings.projection.bias", p);
    const double *places = weight(f, "%sembeddings.position_embeddings", p), *first = weight(f, "%sembeddings.cls_token", p);
    for (int j = 0; j < d; j++) x[j] = first[j] + places[j];
    for (int i = 0; i < across * across; i++) {
        for (int j = 0; j < d; j++) {
            double sum = b[j] + places[(i + 1) * d + j];
            for (int k = 0; k < 3 * patch * patch; k++) {
                int c = k / (patch * patch), r = k / patch % patch + i / across * patch, s = k % patch + i % across * patch;
                sum += w[j * 3 * patch * patch + k] * (double)pixels[(c * side + r) * side + s];
            }
            x[(i + 1) * d + j] = sum;
        }
    }
    return x;
}

static rows vit_forward(const folder *f, const tiny *m, const char *p, const float *pixels, int side, int patch, int classes)
{
    int d = m->hidden, n = side / patch * (side / patch) + 1;
    char name[128];
    const look all = {m->heads, m->heads, d / m->heads, 1 / sqrt(d / m->heads), 0, false, 0};
    rows x = vit_patches(f, m, p, pixels, side, patch);
#undef NAMED
#define NAMED(part) (snprintf(name, sizeof name, "%sencoder.layer.%d.%s", p, l, part), name)
    for (int l = 0; l < m->layers; l++) {
        rows y = bert_norm(f, x, n, d, false, NAMED("layernorm_before"));
        rows q = bert_linear(f, y, n, d, d, NAMED("attention.attention.query"));
        rows k = bert_linear(f, y, n, d, d, NAMED("attention.attention.key"));
        rows v = bert_linear(f, y, n, d, d, NAMED("attention.attention.value"));
        x = sum_of(x, bert_linear(f, attend(&all, q, k, v, n), n, d, d, NAMED("attention.output.dense")), n * d);
        y = bert_norm(f, x, n, d, false, NAMED("layernorm_after"));
        y = bert_linear(f, y, n, d, m->ffn, NAMED("intermediate.dense"));
        apply(y, n * m->ffn, gelu);
        x = sum_of(x, bert_linear(f, y, n, m->ffn, d, NAMED("output.dense")), n * d);
    }
    snprintf(name, sizeof name, "%slayernorm", p);
    x = bert_norm(f, x, n, d, false, name);
    return bert_linear(f, x, 1, d, classes, "classifier");
}

#endif
