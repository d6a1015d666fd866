/* SPDX-License-Identifier: Apache-2.0 */
/* A MODEL string is a name and options. The name, or a config file, gives the family and its sizes; the family says
 * which options there are. An option is an integer with bounds, stored by offset. */
#define _POSIX_C_SOURCE 200809L
#include "tools/model.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/text.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

enum { SEQ = 512 };

#define LLAMA(name, hidden, heads, kv_heads, ffn, layers, vocabulary, theta_, eps)                                   \
    {                                                                                                                \
        name, {                                                                                                      \
            .family = &family_llama, .sizes = {hidden, heads, kv_heads, 128, ffn, layers, vocabulary, 0, eps},       \
            .llama = {.theta = theta_}, .use = {.batch = 1, .seq = SEQ}                                              \
        }                                                                                                            \
    }

static const struct named {
    const char *name;
    model model;
} NAMES[] = {
    LLAMA("llama-7b", 4096, 32, 32, 11008, 32, 32000, 1e4, 1e-6),
    LLAMA("llama-13b", 5120, 40, 40, 13824, 40, 32000, 1e4, 1e-6),
    LLAMA("llama-65b", 8192, 64, 64, 22016, 80, 32000, 1e4, 1e-5),
    LLAMA("llama2-70b", 8192, 64, 8, 28672, 80, 32000, 1e4, 1e-5),
    LLAMA("llama3-8b", 4096, 32, 8, 14336, 32, 128256, 5e5, 1e-5),
    LLAMA("llama3-70b", 8192, 64, 8, 28672, 80, 128256, 5e5, 1e-5),
    {"moe",
     {.family = &family_llama,
      .sizes = {4096, 32, 8, 128, 14336, 1, 128256, 0, 1e-5},
      .llama = {.theta = 5e5, .experts = 8, .chosen = 2, .slots = 1.25},
      .use = {.batch = 1, .seq = SEQ}}},
    {"minilm",
     {.family = &family_bert,
      .sizes = {384, 12, 12, 32, 1536, 6, 30522, 512, 1e-12},
      .bert = {.token_types = 2, .activation = GELU, .pooling = POOL_MEAN, .normalize = 1},
      .use = {.batch = 1, .seq = 128}}},
    {"gpt2",
     {.family = &family_gpt2,
      .sizes = {768, 12, 12, 64, 3072, 12, 50257, 1024, 1e-5},
      .gpt2 = {.activation = GELU_TANH, .scale_scores = 1},
      .use = {.batch = 1, .seq = SEQ}}},
    {"vit-b16",
     {.family = &family_vit,
      .sizes = {768, 12, 12, 64, 3072, 12, 0, 0, 1e-12},
      .vit = {.image = 224, .patch = 16, .channels = 3, .classes = 1000, .qkv_bias = 1, .activation = GELU},
      .use = {.batch = 1}}},
    {"mlp", {.family = &family_mlp, .sizes = {.hidden = 8192, .layers = 8}, .use = {.batch = 4096}}},
    {"matmul", {.family = &family_matmul}},
};

/* ---- options --------------------------------------------------------------------------------------- */

typedef struct parameters { /* what options write to; -1: not given */
    i64 layers, batch, seq, cached, head, hidden, m, n, k;
    ein_dtype dtype;
} parameters;

typedef struct option {
    const char *name;
    size_t offset;
    i64 least, most;
} option;

enum { MOST = 1 << 24 };

static const option OPTIONS[] = {
    {"layers", offsetof(parameters, layers), 1, 1024}, {"batch", offsetof(parameters, batch), 1, MOST},
    {"seq", offsetof(parameters, seq), 1, MOST},       {"cached", offsetof(parameters, cached), 0, MOST},
    {"head", offsetof(parameters, head), 0, 1},        {"hidden", offsetof(parameters, hidden), 1, MOST},
    {"m", offsetof(parameters, m), 1, MOST},           {"n", offsetof(parameters, n), 1, MOST},
    {"k", offsetof(parameters, k), 1, MOST},
};

/* What an option string may have: the family's words, of which a config file fixes "hidden". */
static const char *known_options(const model *m, bool config, char out[80])
{
    const char *words = m->family->options, *fixed = config ? strstr(words, " hidden") : NULL;
    snprintf(out, 80, "%.*s", fixed != NULL ? (int)(fixed - words) : (int)strlen(words), words);
    return out;
}

static const option *find_option(const char *known, const char *name, int length)
{
    for (const char *w = known; *w != 0; w += strcspn(w, " "), w += *w == ' ') {
        if (strcspn(w, " ") != (size_t)length || memcmp(w, name, (size_t)length) != 0) continue;
        for (int i = 0; i < COUNT(OPTIONS); i++) {
            if (strlen(OPTIONS[i].name) == (size_t)length && memcmp(OPTIONS[i].name, name, (size_t)length) == 0)
                return &OPTIONS[i];
        }
    }
    return NULL;
}

static ein_status unknown_option(const char *name, int length, const char *known, error *e)
{
    text list = {0};
    for (const char *w = known; *w != 0; w++) ein__text_add(&list, *w == ' ' ? ", " : "%c", *w);
    ein__fail(e, EIN_INVALID, "model option \"%.*s\" is unknown (known: %s, dtype)", length, name, ein__text_get(&list));
    ein__text_free(&list);
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

ein_dtype model_dtype(const char *name, size_t length)
{
    static const ein_dtype floats[] = {EIN_F32, EIN_BF16, EIN_F16, EIN_F64};
    for (int i = 0; i < COUNT(floats); i++) {
        const char *known = ein__dtype_name(floats[i]);
        if (strlen(known) == length && memcmp(known, name, length) == 0) return floats[i];
    }
    return 0;
}

static ein_status set_dtype(const char *value, int length, parameters *p, error *e)
{
    p->dtype = model_dtype(value, (size_t)length);
    if (p->dtype != 0) return EIN_OK;
    return ein__fail(e, EIN_INVALID, "model option dtype=%.*s is unknown (known: f32, bf16, f16, f64)", length, value);
}

/* "layers=1,seq=512"; NULL: no options. */
static ein_status read_options(const char *s, const char *known, parameters *p, error *e)
{
    uint32_t seen = 0;
    while (s != NULL) {
        int length = (int)strcspn(s, ","), key = (int)strcspn(s, "=,");
        const char *next = s[length] == ',' ? s + length + 1 : NULL, *value = s + key + 1;
        const option *o = find_option(known, s, key);
        bool dtype = key == 5 && memcmp(s, "dtype", 5) == 0;
        if (o == NULL && !dtype) return unknown_option(s, key, known, e);
        if (s[key] != '=') return ein__fail(e, EIN_INVALID, "model option \"%.*s\" has no value", key, s);
        int number = dtype ? COUNT(OPTIONS) : (int)(o - OPTIONS);
        if ((seen >> number & 1) != 0)
            return ein__fail(e, EIN_INVALID, "model option \"%.*s\" is given twice", key, s);
        seen |= (uint32_t)1 << number;
        TRY(dtype ? set_dtype(value, length - key - 1, p, e) : set_option(o, value, length - key - 1, p, e));
        s = next;
    }
    return EIN_OK;
}

/* ---- sizes ----------------------------------------------------------------------------------------- */

/* Smaller, with the model's own head counts; the feed-forward size shrinks in proportion. */
static ein_status scale(model *m, i64 hidden, error *e)
{
    sizes *s = &m->sizes;
    i64 step = m->family->head_step * s->heads;
    if (step > 0 && hidden % step != 0) {
        return ein__fail(e, EIN_INVALID, "model option hidden=%lld: wanted a multiple of %s%lld heads",
                         (long long)hidden, m->family->head_step == 2 ? "twice the " : "the ", (long long)s->heads);
    }
    s->ffn = ((s->ffn * hidden + s->hidden - 1) / s->hidden + 15) / 16 * 16;
    s->hidden = hidden;
    if (step > 0) s->head_size = hidden / s->heads;
    return EIN_OK;
}

ein_status model_check_length(const model *m, error *e)
{
    const model_use *u = &m->use;
    i64 limit = m->sizes.positions;
    if (limit == 0 || u->cached + u->seq <= limit) return EIN_OK;
    if (u->cached == 0)
        return ein__fail(e, EIN_INVALID, "%lld tokens exceed max_position_embeddings, %lld", (long long)u->seq, (long long)limit);
    return ein__fail(e, EIN_INVALID, "cached=%lld and seq=%lld exceed max_position_embeddings, %lld", (long long)u->cached,
                     (long long)u->seq, (long long)limit);
}

static ein_status check_matmul(const parameters *p, error *e)
{
    if (p->m > 0 && p->n > 0 && p->k > 0) return EIN_OK;
    return ein__fail(e, EIN_INVALID, "matmul: %s is missing (matmul:m=..,n=..,k=..)", p->m < 0 ? "m" : p->n < 0 ? "n" : "k");
}

static ein_status apply(const parameters *p, model *m, error *e)
{
    model_use *u = &m->use;
    if (m->family == &family_matmul) {
        TRY(check_matmul(p, e));
        m->matmul = (matmul){p->m, p->n, p->k};
    }
    if (p->layers > 0) m->sizes.layers = p->layers;
    if (p->batch > 0) u->batch = p->batch;
    if (p->seq > 0) u->seq = p->seq;
    if (p->cached > 0) u->cached = p->cached;
    if (u->cached > 0) u->capacity = u->cached + u->seq;
    u->head = p->head >= 0 ? (int)p->head : m->folder != NULL || !m->family->has_head;
    u->dtype = p->dtype != 0 ? p->dtype : EIN_F32;
    if (p->hidden > 0) TRY(scale(m, p->hidden, e));
    return model_check_length(m, e);
}

static ein_status read_and_apply(const char *options, bool config, model *m, error *e)
{
    char known[80];
    parameters p = {-1, -1, -1, -1, -1, -1, -1, -1, -1, 0};
    TRY(read_options(options, known_options(m, config, known), &p, e));
    return apply(&p, m, e);
}

/* ---- files ----------------------------------------------------------------------------------------- */

static bool has_file(arena *a, const char *folder, const char *name)
{
    struct stat file;
    const char *path = ein__arena_printf(a, "%s/%s", folder, name);
    return path != NULL && stat(path, &file) == 0;
}

static ein_status read_folder(arena *a, const char *folder, model *out, error *e)
{
    if (has_file(a, folder, "model.safetensors") || has_file(a, folder, "model.safetensors.index.json"))
        out->folder = ein__arena_strdup(a, folder);
    if (out->family->generates && has_file(a, folder, "generation_config.json")) {
        const char *path = ein__arena_printf(a, "%s/generation_config.json", folder);
        if (path == NULL) return EIN_NO_MEMORY;
        TRY(config_read_ends(path, out, e));
    }
    return out->family->read_folder != NULL ? out->family->read_folder(a, folder, out, e) : EIN_OK;
}

static ein_status parse_config(arena *a, const char *path, bool folder, const char *options, model *out, error *e)
{
    const char *file = folder ? ein__arena_printf(a, "%s/config.json", path) : path;
    if (file == NULL) return EIN_NO_MEMORY;
    if (!folder && options == NULL && graph_file_is(path)) return graph_file_parse(a, path, out, e);
    TRY(config_read(a, file, out, e));
    out->from_files = true;
    if (folder) TRY(read_folder(a, path, out, e));
    out->use.batch = 1;
    out->use.seq = out->sizes.positions > 0 && out->sizes.positions < SEQ ? out->sizes.positions : SEQ;
    return read_and_apply(options, true, out, e);
}

/* ---- names ----------------------------------------------------------------------------------------- */

static ein_status unknown_name(const char *name, error *e)
{
    text known = {0};
    for (int i = 0; i < COUNT(NAMES); i++) ein__text_add(&known, "%s%s", i > 0 ? ", " : "", NAMES[i].name);
    ein__fail(e, EIN_INVALID, "model \"%.60s\" is neither a file nor a name (known: %s)", name, ein__text_get(&known));
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
    for (int i = 0; i < COUNT(NAMES); i++) {
        if (strcmp(name, NAMES[i].name) != 0) continue;
        *out = NAMES[i].model;
        return read_and_apply(options, false, out, e);
    }
    if (stat(name, &file) == 0) return parse_config(a, name, S_ISDIR(file.st_mode), options, out, e);
    return unknown_name(name, e);
}

/* ---- graphs ---------------------------------------------------------------------------------------- */

ein_status model_build(const model *m, const naming *names, ein_graph *g)
{
    m->family->build(g, m, names);
    return ein_graph_status(g);
}

i64 model_scalar(const model *m, const char *name)
{
    return strcmp(name, "position") == 0 ? m->use.cached : m->use.cached + m->use.seq;
}
