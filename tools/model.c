/* SPDX-License-Identifier: Apache-2.0 */
/* A MODEL string is a name and options. The name picks a table of options; an option is an integer with
 * bounds, stored by offset. */
#define _POSIX_C_SOURCE 200809L
#include "tools/model.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/text.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static const struct family {
    const char *name;
    llama llama;
} LLAMAS[] = {
    {"llama-7b", {4096, 32, 32, 128, 11008, 32, 32000, 1e4, 1e-6, {0}, 0, 0, 0}},
    {"llama-13b", {5120, 40, 40, 128, 13824, 40, 32000, 1e4, 1e-6, {0}, 0, 0, 0}},
    {"llama-65b", {8192, 64, 64, 128, 22016, 80, 32000, 1e4, 1e-5, {0}, 0, 0, 0}},
    {"llama2-70b", {8192, 64, 8, 128, 28672, 80, 32000, 1e4, 1e-5, {0}, 0, 0, 0}},
    {"llama3-8b", {4096, 32, 8, 128, 14336, 32, 128256, 5e5, 1e-5, {0}, 0, 0, 0}},
    {"llama3-70b", {8192, 64, 8, 128, 28672, 80, 128256, 5e5, 1e-5, {0}, 0, 0, 0}},
};

typedef struct parameters { /* what options write to */
    i64 layers, batch, seq, cached, head, hidden, m, n, k;
} parameters;

typedef struct option {
    const char *name;
    size_t offset;
    i64 least, most;
} option;

#define OPTION(field, least, most)                                                                           \
    {                                                                                                        \
#field, offsetof(parameters, field), least, most                                                     \
    }

enum { MOST = 1 << 24 };

static const option LLAMA_OPTIONS[] = {
    OPTION(layers, 1, 1024), OPTION(batch, 1, MOST), OPTION(seq, 1, MOST),
    OPTION(cached, 0, MOST), OPTION(head, 0, 1),     OPTION(hidden, 1, MOST),
};
enum { N_LLAMA = COUNT(LLAMA_OPTIONS), N_CONFIG = N_LLAMA - 1 }; /* a config file fixes its hidden size */
static const option MLP_OPTIONS[] = {OPTION(batch, 1, MOST), OPTION(layers, 1, 1024),
                                     OPTION(hidden, 1, MOST)};
static const option MATMUL_OPTIONS[] = {OPTION(m, 1, MOST), OPTION(n, 1, MOST), OPTION(k, 1, MOST)};

/* ---- options --------------------------------------------------------------------------------------- */

static ein_status unknown_option(const char *name, int length, const option *options, int n, error *e)
{
    text known = {0};
    for (int i = 0; i < n; i++) ein__text_add(&known, "%s, ", options[i].name);
    ein__fail(e, EIN_INVALID, "model option \"%.*s\" is unknown (known: %sdtype)", length, name,
              ein__text_get(&known));
    ein__text_free(&known);
    return EIN_INVALID;
}

static ein_status set_option(const option *o, const char *value, int length, parameters *p, error *e)
{
    char *end = NULL;
    long long v = value[0] >= '0' && value[0] <= '9' ? strtoll(value, &end, 10) : -1;
    if (v < o->least || v > o->most || end != value + length) {
        return ein__fail(e, EIN_INVALID, "model option %s=%.*s: wanted an integer from %lld to %lld", o->name,
                         length, value, (long long)o->least, (long long)o->most);
    }
    memcpy((char *)p + o->offset, &(i64){v}, sizeof(i64));
    return EIN_OK;
}

static ein_status set_dtype(const char *value, int length, error *e)
{
    if (length == 3 && memcmp(value, "f32", 3) == 0) return EIN_OK;
    return ein__fail(e, EIN_UNSUPPORTED, "model option dtype=%.*s is not built (known: f32)", length, value);
}

/* "layers=1,seq=512"; `text` NULL: no options. */
static ein_status read_options(const char *s, const option *options, int n, parameters *p, error *e)
{
    uint32_t seen = 0;
    while (s != NULL) {
        int length = (int)strcspn(s, ","), key = (int)strcspn(s, "=,"), i = 0;
        const char *next = s[length] == ',' ? s + length + 1 : NULL;
        while (i < n &&
               (strlen(options[i].name) != (size_t)key || memcmp(options[i].name, s, (size_t)key) != 0)) {
            i++;
        }
        bool dtype = i == n && key == 5 && memcmp(s, "dtype", 5) == 0;
        if (i == n && !dtype) return unknown_option(s, key, options, n, e);
        if (s[key] != '=') return ein__fail(e, EIN_INVALID, "model option \"%.*s\" has no value", key, s);
        if ((seen >> i & 1) != 0)
            return ein__fail(e, EIN_INVALID, "model option \"%.*s\" is given twice", key, s);
        seen |= (uint32_t)1 << i;
        const char *value = s + key + 1;
        TRY(dtype ? set_dtype(value, length - key - 1, e)
                  : set_option(&options[i], value, length - key - 1, p, e));
        s = next;
    }
    return EIN_OK;
}

/* ---- names ----------------------------------------------------------------------------------------- */

/* Smaller, with the model's own head counts; the feed-forward size shrinks in proportion. */
static ein_status scale(llama *m, i64 hidden, error *e)
{
    if (hidden % m->heads != 0 || hidden / m->heads % 2 != 0) {
        return ein__fail(e, EIN_INVALID,
                         "model option hidden=%lld: wanted a multiple of twice the %lld heads",
                         (long long)hidden, (long long)m->heads);
    }
    m->ffn = ((m->ffn * hidden + m->hidden - 1) / m->hidden + 15) / 16 * 16;
    m->hidden = hidden;
    m->head_size = hidden / m->heads;
    return EIN_OK;
}

static ein_status use_llama(const parameters *p, i64 positions, model *out, error *e)
{
    out->kind = MODEL_LLAMA;
    if (p->layers > 0) out->llama.layers = p->layers;
    out->use = (llama_use){p->batch, p->seq, p->cached, (int)p->head};
    if (positions > 0 && p->cached + p->seq > positions) {
        return ein__fail(e, EIN_INVALID, "cached=%lld and seq=%lld exceed max_position_embeddings, %lld",
                         (long long)p->cached, (long long)p->seq, (long long)positions);
    }
    return EIN_OK;
}

static ein_status parse_llama(const llama *m, const char *options, model *out, error *e)
{
    parameters p = {.batch = 1, .seq = 512};
    TRY(read_options(options, LLAMA_OPTIONS, N_LLAMA, &p, e));
    out->llama = *m;
    if (p.hidden > 0) TRY(scale(&out->llama, p.hidden, e));
    return use_llama(&p, 0, out, e);
}

static ein_status parse_mlp(const char *options, model *out, error *e)
{
    parameters p = {.batch = 4096, .layers = 8, .hidden = 8192};
    TRY(read_options(options, MLP_OPTIONS, COUNT(MLP_OPTIONS), &p, e));
    out->kind = MODEL_MLP;
    out->batch = p.batch;
    out->layers = p.layers;
    out->hidden = p.hidden;
    return EIN_OK;
}

static ein_status parse_matmul(const char *options, model *out, error *e)
{
    parameters p = {.m = 0};
    TRY(read_options(options, MATMUL_OPTIONS, COUNT(MATMUL_OPTIONS), &p, e));
    if (p.m == 0 || p.n == 0 || p.k == 0) {
        return ein__fail(e, EIN_INVALID, "matmul: %s is missing (matmul:m=..,n=..,k=..)",
                         p.m == 0   ? "m"
                         : p.n == 0 ? "n"
                                    : "k");
    }
    out->kind = MODEL_MATMUL;
    out->m = p.m;
    out->n = p.n;
    out->k = p.k;
    return EIN_OK;
}

static ein_status parse_config(arena *a, const char *path, bool folder, const char *options, model *out,
                               error *e)
{
    parameters p = {.batch = 1, .seq = 512};
    i64 positions;
    TRY(read_options(options, LLAMA_OPTIONS, N_CONFIG, &p, e));
    const char *file = folder ? ein__arena_printf(a, "%s/config.json", path) : path;
    if (file == NULL) return EIN_NO_MEMORY;
    TRY(config_read(a, file, &out->llama, &positions, &out->note, e));
    return use_llama(&p, positions, out, e);
}

static ein_status unknown_name(const char *name, error *e)
{
    static const char *const reserved[] = {"minilm", "gpt2", "vit-b16", "moe"};
    for (int i = 0; i < COUNT(reserved); i++) {
        if (strcmp(name, reserved[i]) == 0) {
            return ein__fail(e, EIN_UNSUPPORTED, "model \"%s\" is not built in this version", name);
        }
    }
    text known = {0};
    for (int i = 0; i < COUNT(LLAMAS); i++) ein__text_add(&known, "%s, ", LLAMAS[i].name);
    ein__fail(e, EIN_INVALID, "model \"%.80s\" is neither a file nor a name (known: %smlp, matmul)", name,
              ein__text_get(&known));
    ein__text_free(&known);
    return EIN_INVALID;
}

ein_status model_parse(arena *a, const char *source, model *out, error *e)
{
    struct stat file;
    memset(out, 0, sizeof *out);
    if (stat(source, &file) == 0) return parse_config(a, source, S_ISDIR(file.st_mode), NULL, out, e);
    char *name = ein__arena_strdup(a, source);
    if (name == NULL) return ein__fail(e, EIN_NO_MEMORY, "out of memory");
    char *options = strrchr(name, ':');
    if (options != NULL) *options++ = 0;
    for (int i = 0; i < COUNT(LLAMAS); i++) {
        if (strcmp(name, LLAMAS[i].name) == 0) return parse_llama(&LLAMAS[i].llama, options, out, e);
    }
    if (strcmp(name, "mlp") == 0) return parse_mlp(options, out, e);
    if (strcmp(name, "matmul") == 0) return parse_matmul(options, out, e);
    if (stat(name, &file) == 0) return parse_config(a, name, S_ISDIR(file.st_mode), options, out, e);
    return unknown_name(name, e);
}

/* ---- graphs ---------------------------------------------------------------------------------------- */

static void build_mlp(const model *m, ein_graph *g)
{
    ein_tensor none = {0}, x = ein_input(g, "x", EIN_F32, 2, (const i64[]){m->batch, m->hidden});
    for (i64 i = 0; i < m->layers; i++) {
        char name[64];
        snprintf(name, sizeof name, "layers.%lld.weight", (long long)i);
        ein_tensor weight = ein_parameter(g, name, EIN_F32, 2, (const i64[]){m->hidden, m->hidden});
        x = ein_relu(g, ein_linear(g, x, weight, none));
    }
    ein_output(g, "y", x);
}

static void build_matmul(const model *m, ein_graph *g)
{
    ein_tensor a = ein_input(g, "a", EIN_F32, 2, (const i64[]){m->m, m->k});
    ein_tensor b = ein_parameter(g, "b", EIN_F32, 2, (const i64[]){m->k, m->n});
    ein_output(g, "c", ein_matmul(g, a, b));
}

ein_status model_build(const model *m, ein_graph *g)
{
    switch (m->kind) {
    case MODEL_LLAMA: llama_build(g, &m->llama, &m->use); break;
    case MODEL_MLP: build_mlp(m, g); break;
    case MODEL_MATMUL: build_matmul(m, g); break;
    }
    return ein_graph_status(g);
}

i64 model_scalar(const model *m, const char *name)
{
    return strcmp(name, "position") == 0 ? m->use.cached : m->use.cached + m->use.seq;
}
