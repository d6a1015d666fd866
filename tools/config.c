/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a config.json of the LLaMA family. Members that do not change the graph (token ids, dropout, cache
 * settings) are passed over; members that would change it in a way not built here are refused by name, as are
 * values that contradict each other. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "core/base/file.h"
#include "tools/model.h"

typedef struct reader {
    const char *path;
    const json_t *root;
    error *error;
} reader;

enum { MOST = 1 << 24 };

static ein_status refuse(const reader *r, const char *member, const char *why)
{
    return ein__fail(r->error, EIN_INVALID, "%s: \"%s\" %s", r->path, member, why);
}

/* Absent and null are the same in these files. */
static const json_t *get(const json_t *object, const char *member)
{
    const json_t *v = json_object_get(object, member);
    return json_is_null(v) ? NULL : v;
}

/* `fallback` < 0: the member must be there. */
static ein_status read_int(const reader *r, const char *member, i64 fallback, i64 *out)
{
    const json_t *v = get(r->root, member);
    *out = fallback;
    if (v == NULL) return fallback >= 0 ? EIN_OK : refuse(r, member, "is missing");
    if (!json_is_integer(v)) return refuse(r, member, "must be an integer");
    *out = json_integer_value(v);
    if (*out >= 1 && *out <= MOST) return EIN_OK;
    return ein__fail(r->error, EIN_INVALID, "%s: \"%s\" is %lld, must be 1 to %d", r->path, member,
                     (long long)*out, MOST);
}

static ein_status read_number(const reader *r, const json_t *object, const char *member, double fallback,
                              double *out)
{
    const json_t *v = get(object, member);
    *out = fallback;
    if (v == NULL) return fallback > 0 ? EIN_OK : refuse(r, member, "is missing");
    if (!json_is_number(v)) return refuse(r, member, "must be a number");
    *out = json_number_value(v);
    if (*out > 0 && isfinite(*out)) return EIN_OK;
    return ein__fail(r->error, EIN_INVALID, "%s: \"%s\" is %g, must be above 0", r->path, member, *out);
}

static ein_status read_flag(const reader *r, const char *member, int *out)
{
    const json_t *v = get(r->root, member);
    *out = json_is_true(v);
    return v == NULL || json_is_boolean(v) ? EIN_OK : refuse(r, member, "must be true or false");
}

/* The member must be one of the words that are built; `words` ends with NULL. Absent: the first. */
static ein_status read_word(const reader *r, const json_t *object, const char *member,
                            const char *const *words, int *out)
{
    const json_t *v = get(object, member);
    *out = 0;
    if (v == NULL) return EIN_OK;
    if (!json_is_string(v)) return refuse(r, member, "must be a string");
    for (; words[*out] != NULL; ++*out) {
        if (strcmp(words[*out], json_string_value(v)) == 0) return EIN_OK;
    }
    return ein__fail(r->error, EIN_UNSUPPORTED, "%s: \"%s\" is \"%s\", built is \"%s\"", r->path, member,
                     ein__excerpt_first(json_string_value(v), 60).s, words[0]);
}

static ein_status read_kind(const reader *r)
{
    static const char *const types[] = {"llama", NULL}, *const activations[] = {"silu", "swish", NULL};
    int word;
    if (get(r->root, "model_type") == NULL) return refuse(r, "model_type", "is missing");
    TRY(read_word(r, r->root, "model_type", types, &word));
    TRY(read_word(r, r->root, "hidden_act", activations, &word));
    const json_t *list = get(r->root, "architectures");
    if (list == NULL) return EIN_OK;
    const char *name = json_string_value(json_array_get(list, 0));
    if (name == NULL) return refuse(r, "architectures", "must be an array of strings");
    if (strcmp(name, "LlamaForCausalLM") == 0) return EIN_OK;
    return ein__fail(r->error, EIN_UNSUPPORTED,
                     "%s: \"architectures\" is \"%s\", built is LlamaForCausalLM", r->path,
                     ein__excerpt_first(name, 60).s);
}

static ein_status read_sizes(const reader *r, llama *out, i64 *positions)
{
    TRY(read_int(r, "hidden_size", -1, &out->hidden));
    TRY(read_int(r, "num_attention_heads", -1, &out->heads));
    TRY(read_int(r, "num_key_value_heads", out->heads, &out->kv_heads));
    TRY(read_int(r, "intermediate_size", -1, &out->ffn));
    TRY(read_int(r, "num_hidden_layers", -1, &out->layers));
    TRY(read_int(r, "vocab_size", -1, &out->vocabulary));
    TRY(read_int(r, "max_position_embeddings", 2048, positions));
    TRY(read_number(r, r->root, "rms_norm_eps", 1e-6, &out->eps));
    if (out->heads % out->kv_heads != 0) {
        return ein__fail(r->error, EIN_INVALID,
                         "%s: \"num_attention_heads\" %lld is no multiple of \"num_key_value_heads\" %lld",
                         r->path, (long long)out->heads, (long long)out->kv_heads);
    }
    if (get(r->root, "head_dim") == NULL && out->hidden % out->heads != 0) {
        return ein__fail(r->error, EIN_INVALID,
                         "%s: \"hidden_size\" %lld is no multiple of \"num_attention_heads\" %lld", r->path,
                         (long long)out->hidden, (long long)out->heads);
    }
    TRY(read_int(r, "head_dim", out->hidden / out->heads, &out->head_size));
    if (out->head_size >= 2 && out->head_size % 2 == 0) return EIN_OK;
    return ein__fail(r->error, EIN_INVALID, "%s: \"head_dim\" is %lld, must be even", r->path,
                     (long long)out->head_size);
}

/* "rope_scaling" beside "rope_theta", or, in newer files, both in "rope_parameters". */
static ein_status read_rope(const reader *r, llama *out)
{
    static const char *const types[] = {"default", "llama3", NULL};
    const json_t *scaling = get(r->root, "rope_scaling"), *both = get(r->root, "rope_parameters");
    TRY(read_number(r, r->root, "rope_theta", 1e4, &out->theta));
    const char *name = scaling != NULL ? "rope_scaling" : "rope_parameters";
    if (scaling != NULL && both != NULL) return refuse(r, name, "and \"rope_parameters\" are both there");
    if (scaling == NULL) scaling = both;
    if (scaling == NULL) return EIN_OK;
    if (!json_is_object(scaling)) return refuse(r, name, "must be an object or null");
    TRY(read_number(r, scaling, "rope_theta", out->theta, &out->theta));
    bool old = get(scaling, "rope_type") == NULL;
    if (old && get(scaling, "type") == NULL) return refuse(r, name, "has no \"rope_type\"");
    TRY(read_word(r, scaling, old ? "type" : "rope_type", types, &out->scaling.on));
    if (!out->scaling.on) return EIN_OK;
    TRY(read_number(r, scaling, "factor", 0, &out->scaling.factor));
    TRY(read_number(r, scaling, "low_freq_factor", 0, &out->scaling.low_frequency));
    TRY(read_number(r, scaling, "high_freq_factor", 0, &out->scaling.high_frequency));
    TRY(read_number(r, scaling, "original_max_position_embeddings", 0, &out->scaling.original_positions));
    if (out->scaling.high_frequency > out->scaling.low_frequency) return EIN_OK;
    return refuse(r, "high_freq_factor", "must be above \"low_freq_factor\"");
}

static ein_status read_rest(arena *a, const reader *r, llama *out, const char **note)
{
    TRY(read_flag(r, "attention_bias", &out->attention_bias));
    TRY(read_flag(r, "mlp_bias", &out->mlp_bias));
    TRY(read_flag(r, "tie_word_embeddings", &out->tied));
    if (get(r->root, "quantization_config") != NULL) return refuse(r, "quantization_config", "is not built");
    const char *dtype = json_string_value(get(r->root, "torch_dtype"));
    if (dtype == NULL) dtype = json_string_value(get(r->root, "dtype"));
    if (dtype == NULL || strcmp(dtype, "float32") == 0) return EIN_OK;
    *note = ein__arena_printf(a, "%s: torch_dtype \"%s\": computed in f32", r->path,
                             ein__excerpt_first(dtype, 60).s);
    return *note != NULL ? EIN_OK : EIN_NO_MEMORY;
}

static ein_status read_all(arena *a, const reader *r, llama *out, i64 *positions, const char **note)
{
    if (!json_is_object(r->root)) return ein__fail(r->error, EIN_INVALID, "%s: must be an object", r->path);
    TRY(read_kind(r));
    TRY(read_sizes(r, out, positions));
    TRY(read_rope(r, out));
    return read_rest(a, r, out, note);
}

ein_status config_parse(arena *a, const char *path, const char *bytes, size_t n, llama *out, i64 *positions,
                        const char **note, error *e)
{
    memset(out, 0, sizeof *out);
    *note = NULL;
    json_error_t bad;
    json_t *root = json_loadb(bytes, n, JSON_REJECT_DUPLICATES, &bad);
    if (root == NULL)
        return ein__fail(e, EIN_INVALID, "%s:%d:%d: %s", path, bad.line, bad.column, ein__excerpt_first(bad.text, 100).s);
    ein_status status = read_all(a, &(reader){path, root, e}, out, positions, note);
    json_decref(root);
    return status;
}

ein_status config_read(arena *a, const char *path, llama *out, i64 *positions, const char **note, error *e)
{
    text t = {0};
    ein_status status = ein__file_read(path, MOST, true, &t, e);
    if (status == EIN_OK) status = config_parse(a, path, ein__text_get(&t), t.n, out, positions, note, e);
    ein__text_free(&t);
    return status;
}
