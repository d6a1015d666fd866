/* SPDX-License-Identifier: Apache-2.0 */
/* What is the same for the configs of all families, and the choice of the family. */
#include "tools/config.h"

#include <math.h>
#include <string.h>

#include "core/base/file.h"
#include "tools/model.h"

/* ---- members --------------------------------------------------------------------------------------- */

ein_status config_refuse(const config *c, const char *member, const char *why)
{
    return ein__fail(c->error, EIN_INVALID, "%s: \"%s\" %s", c->path, member, why);
}

const json_t *config_get(const json_t *object, const char *member)
{
    const json_t *v = json_object_get(object, member);
    return json_is_null(v) ? NULL : v;
}

static ein_status read_integer(const config *c, const char *member, i64 least, i64 fallback, i64 *out)
{
    const json_t *v = config_get(c->root, member);
    *out = fallback;
    if (v == NULL) return fallback >= 0 ? EIN_OK : config_refuse(c, member, "is missing");
    if (!json_is_integer(v)) return config_refuse(c, member, "must be an integer");
    *out = json_integer_value(v);
    if (*out >= least && *out <= CONFIG_MOST) return EIN_OK;
    return ein__fail(c->error, EIN_INVALID, "%s: \"%s\" is %lld, must be %lld to %d", c->path, member, (long long)*out,
                     (long long)least, CONFIG_MOST);
}

ein_status config_int(const config *c, const char *member, i64 fallback, i64 *out)
{
    return read_integer(c, member, 1, fallback, out);
}

ein_status config_count(const config *c, const char *member, i64 fallback, i64 *out)
{
    return read_integer(c, member, 0, fallback, out);
}

ein_status config_number(const config *c, const json_t *object, const char *member, double fallback, double *out)
{
    const json_t *v = config_get(object, member);
    *out = fallback;
    if (v == NULL) return fallback > 0 ? EIN_OK : config_refuse(c, member, "is missing");
    if (!json_is_number(v)) return config_refuse(c, member, "must be a number");
    *out = json_number_value(v);
    if (*out > 0 && isfinite(*out)) return EIN_OK;
    return ein__fail(c->error, EIN_INVALID, "%s: \"%s\" is %g, must be above 0", c->path, member, *out);
}

ein_status config_optional(const config *c, const char *member, double fallback, double *out)
{
    *out = 0;
    if (json_is_null(json_object_get(c->root, member))) return EIN_OK;
    return config_number(c, c->root, member, fallback, out);
}

ein_status config_flag(const config *c, const char *member, int fallback, int *out)
{
    const json_t *v = config_get(c->root, member);
    *out = v == NULL ? fallback : json_is_true(v);
    return v == NULL || json_is_boolean(v) ? EIN_OK : config_refuse(c, member, "must be true or false");
}

ein_status config_fixed(const config *c, const char *member, int value)
{
    int is;
    TRY(config_flag(c, member, value, &is));
    if (is == value) return EIN_OK;
    return ein__fail(c->error, EIN_UNSUPPORTED, "%s: \"%s\" is %s, built is %s", c->path, member,
                     is ? "true" : "false", value ? "true" : "false");
}

ein_status config_word(const config *c, const json_t *object, const char *member, const char *const *words, int *out)
{
    const json_t *v = config_get(object, member);
    text known = {0};
    *out = 0;
    if (v == NULL) return EIN_OK;
    if (!json_is_string(v)) return config_refuse(c, member, "must be a string");
    for (; words[*out] != NULL; ++*out) {
        if (strcmp(words[*out], json_string_value(v)) == 0) return EIN_OK;
    }
    for (int i = 0; words[i] != NULL; i++) ein__text_add(&known, "%s\"%s\"", i > 0 ? ", " : "", words[i]);
    ein__fail(c->error, EIN_UNSUPPORTED, "%s: \"%s\" is \"%s\", built is %s", ein__excerpt_last(c->path, 60).s, member,
              ein__excerpt_first(json_string_value(v), 40).s, ein__text_get(&known));
    ein__text_free(&known);
    return EIN_UNSUPPORTED;
}

ein_status config_architecture(const config *c, const char *const *known, int *out)
{
    const json_t *list = config_get(c->root, "architectures");
    *out = 0;
    if (list == NULL) return EIN_OK;
    const char *name = json_string_value(json_array_get(list, 0));
    if (name == NULL) return config_refuse(c, "architectures", "must be an array of strings");
    for (; known[*out] != NULL; ++*out) {
        if (strcmp(name, known[*out]) == 0) return EIN_OK;
    }
    return ein__fail(c->error, EIN_UNSUPPORTED, "%s: \"architectures\" is \"%s\", built is %s", c->path,
                     ein__excerpt_first(name, 60).s, known[0]);
}

ein_status config_activation(const config *c, const char *member, activation fallback, activation *out)
{
    static const char *const words[] = {"silu", "swish", "gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "relu", NULL};
    static const activation meant[] = {SILU, SILU, GELU, GELU_TANH, GELU_TANH, GELU_TANH, RELU};
    int word;
    *out = fallback;
    if (config_get(c->root, member) == NULL) return EIN_OK;
    TRY(config_word(c, c->root, member, words, &word));
    *out = meant[word];
    return EIN_OK;
}

ein_status config_sizes(const config *c, const char *hidden, const char *heads, const char *layers, sizes *out)
{
    TRY(config_int(c, hidden, -1, &out->hidden));
    TRY(config_int(c, heads, -1, &out->heads));
    TRY(config_int(c, layers, -1, &out->layers));
    out->kv_heads = out->heads;
    out->head_size = out->hidden / out->heads;
    if (out->hidden % out->heads == 0) return EIN_OK;
    return ein__fail(c->error, EIN_INVALID, "%s: \"%s\" %lld is no multiple of \"%s\" %lld", c->path, hidden,
                     (long long)out->hidden, heads, (long long)out->heads);
}

/* ---- files ----------------------------------------------------------------------------------------- */

ein_status config_load_text(const char *path, const char *bytes, size_t n, json_t **root, error *e)
{
    json_error_t bad;
    *root = json_loadb(bytes, n, JSON_REJECT_DUPLICATES, &bad);
    if (*root == NULL)
        return ein__fail(e, EIN_INVALID, "%s:%d:%d: %s", path, bad.line, bad.column, ein__excerpt_first(bad.text, 100).s);
    return EIN_OK;
}

ein_status config_load(const char *path, json_t **root, error *e)
{
    text t = {0};
    *root = NULL;
    ein_status status = ein__file_read(path, CONFIG_MOST, true, &t, e);
    if (status == EIN_OK) status = config_load_text(path, ein__text_get(&t), t.n, root, e);
    ein__text_free(&t);
    return status;
}

static bool listed(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *s = words; n > 0 && (s = strstr(s, word)) != NULL; s += n) {
        if ((s == words || s[-1] == ' ') && (s[n] == ' ' || s[n] == 0)) return true;
    }
    return false;
}

static ein_status find_family(const config *c, const family **out)
{
    const json_t *type = config_get(c->root, "model_type");
    text known = {0};
    if (type == NULL) return config_refuse(c, "model_type", "is missing");
    if (!json_is_string(type)) return config_refuse(c, "model_type", "must be a string");
    const char *word = json_string_value(type);
    for (const family *const *f = FAMILIES; *f != NULL; f++) {
        *out = *f;
        if (listed((*f)->types, word)) return EIN_OK;
    }
    for (const family *const *f = FAMILIES; *f != NULL; f++) ein__text_add(&known, " %s", (*f)->types);
    ein__fail(c->error, EIN_UNSUPPORTED, "%s: \"model_type\" is \"%s\", built are%s", ein__excerpt_last(c->path, 60).s,
              ein__excerpt_first(word, 40).s, ein__text_get(&known));
    ein__text_free(&known);
    return EIN_UNSUPPORTED;
}

/* One token or several, instead of those before. What is none is no reason to refuse a model. */
static void read_ends(const json_t *root, model *out)
{
    const json_t *v = config_get(root, "eos_token_id");
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    if (v != NULL) out->n_ends = 0;
    for (size_t i = 0; i < n && out->n_ends < MOST_ENDS; i++) {
        const json_t *id = json_is_array(v) ? json_array_get(v, i) : v;
        if (json_is_integer(id)) out->ends[out->n_ends++] = json_integer_value(id);
    }
}

ein_status config_read_ends(const char *path, model *out, error *e)
{
    json_t *root;
    TRY(config_load(path, &root, e));
    read_ends(root, out);
    json_decref(root);
    return EIN_OK;
}

static ein_status read_all(arena *a, const config *c, model *out)
{
    if (!json_is_object(c->root)) return ein__fail(c->error, EIN_INVALID, "%s: must be an object", c->path);
    TRY(find_family(c, &out->family));
    if (config_get(c->root, "quantization_config") != NULL)
        return config_refuse(c, "quantization_config", "is not built");
    TRY(out->family->read(c, out));
    read_ends(c->root, out);
    const char *dtype = json_string_value(config_get(c->root, "torch_dtype"));
    if (dtype == NULL) dtype = json_string_value(config_get(c->root, "dtype"));
    if (dtype == NULL || dtype[0] == 0) return EIN_OK;
    out->stored_dtype = ein__arena_strdup(a, ein__excerpt_first(dtype, 60).s);
    return out->stored_dtype != NULL ? EIN_OK : EIN_NO_MEMORY;
}

ein_status config_parse(arena *a, const char *path, const char *bytes, size_t n, model *out, error *e)
{
    json_t *root;
    TRY(config_load_text(path, bytes, n, &root, e));
    ein_status status = read_all(a, &(config){path, root, e}, out);
    json_decref(root);
    return status;
}

ein_status config_read(arena *a, const char *path, model *out, error *e)
{
    json_t *root;
    TRY(config_load(path, &root, e));
    ein_status status = read_all(a, &(config){path, root, e}, out);
    json_decref(root);
    return status;
}
