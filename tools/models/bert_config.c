/* SPDX-License-Identifier: Apache-2.0 */
/* Configs of BERT, and the files of Sentence Transformers beside them: "modules.json" lists what follows the encoder,
 * each with a folder of its own. */
#define _POSIX_C_SOURCE 200809L
#include <string.h>
#include <sys/stat.h>

#include "core/base/text.h"
#include "tools/config.h"
#include "tools/model.h"

static ein_status read_bert(const config *c, model *out)
{
    static const char *const architectures[] = {"BertModel", "BertForMaskedLM", "BertForPreTraining", NULL};
    static const char *const positions[] = {"absolute", NULL};
    bert *m = &out->bert;
    int unused;
    TRY(config_architecture(c, architectures, &unused));
    TRY(config_sizes(c, "hidden_size", "num_attention_heads", "num_hidden_layers", &out->sizes));
    TRY(config_int(c, "intermediate_size", -1, &out->sizes.ffn));
    TRY(config_int(c, "vocab_size", -1, &out->sizes.vocabulary));
    TRY(config_int(c, "max_position_embeddings", 512, &out->sizes.positions));
    TRY(config_int(c, "type_vocab_size", 2, &m->token_types));
    TRY(config_number(c, c->root, "layer_norm_eps", 1e-12, &out->sizes.eps));
    TRY(config_activation(c, "hidden_act", GELU, &m->activation));
    TRY(config_word(c, c->root, "position_embedding_type", positions, &unused));
    TRY(config_fixed(c, "is_decoder", 0));
    return config_fixed(c, "add_cross_attention", 0);
}

/* ---- Sentence Transformers --------------------------------------------------------------------------- */

static ein_status read_pooling(const config *c, model *out)
{
    static const char *const modes[] = {"pooling_mode_mean_tokens",   "pooling_mode_cls_token",
                                        "pooling_mode_max_tokens",    "pooling_mode_mean_sqrt_len_tokens",
                                        "pooling_mode_lasttoken",     "pooling_mode_weightedmean_tokens"};
    i64 size;
    if (out->bert.pooling != POOL_NONE) return config_refuse(c, "pooling_mode_mean_tokens", "follows another pooling");
    TRY(config_int(c, "word_embedding_dimension", out->sizes.hidden, &size));
    if (size != out->sizes.hidden) return config_refuse(c, "word_embedding_dimension", "is not the encoder's hidden size");
    for (int i = 0; i < 6; i++) {
        int on;
        TRY(config_flag(c, modes[i], 0, &on));
        if (!on) continue;
        if (out->bert.pooling != POOL_NONE) return config_refuse(c, modes[i], "is not the only mode");
        if (i > 1) return config_refuse(c, modes[i], "is not built");
        out->bert.pooling = i == 0 ? POOL_MEAN : POOL_FIRST;
    }
    return out->bert.pooling != POOL_NONE ? EIN_OK : config_refuse(c, modes[0], "and all other modes are off");
}

/* The last word of "sentence_transformers.models.Pooling". */
static const char *kind_of(const json_t *module)
{
    const char *type = json_string_value(config_get(module, "type"));
    const char *dot = type != NULL ? strrchr(type, '.') : NULL;
    return dot != NULL ? dot + 1 : type != NULL ? type : "";
}

static ein_status read_pooling_file(arena *a, const char *folder, const json_t *module, model *out, error *e)
{
    const char *place = json_string_value(config_get(module, "path"));
    json_t *root;
    if (place == NULL || place[0] == 0 || strchr(place, '/') != NULL || place[0] == '.')
        return ein__fail(e, EIN_INVALID, "%s/modules.json: \"path\" of Pooling must be the name of a folder", folder);
    const char *path = ein__arena_printf(a, "%s/%s/config.json", folder, place);
    if (path == NULL) return EIN_NO_MEMORY;
    TRY(config_load(path, &root, e));
    ein_status status = read_pooling(&(config){path, root, e}, out);
    json_decref(root);
    return status;
}

static ein_status read_module(arena *a, const char *folder, const json_t *module, model *out, error *e)
{
    const char *kind = kind_of(module);
    if (strcmp(kind, "Transformer") == 0) return EIN_OK;
    if (strcmp(kind, "Pooling") == 0) return read_pooling_file(a, folder, module, out, e);
    if (strcmp(kind, "Normalize") == 0 && out->bert.pooling != POOL_NONE) {
        out->bert.normalize = 1;
        return EIN_OK;
    }
    return ein__fail(e, EIN_UNSUPPORTED, "%s/modules.json: module \"%s\" is not built here (built are Transformer, Pooling, Normalize)",
                     ein__excerpt_last(folder, 80).s, ein__excerpt_first(kind, 40).s);
}

static ein_status read_modules(arena *a, const char *folder, const json_t *list, model *out, error *e)
{
    if (!json_is_array(list))
        return ein__fail(e, EIN_INVALID, "%s/modules.json: must be an array", ein__excerpt_last(folder, 120).s);
    for (size_t i = 0; i < json_array_size(list); i++) TRY(read_module(a, folder, json_array_get(list, i), out, e));
    return EIN_OK;
}

static ein_status read_folder(arena *a, const char *folder, model *out, error *e)
{
    struct stat file;
    json_t *root;
    const char *path = ein__arena_printf(a, "%s/modules.json", folder);
    if (path == NULL) return EIN_NO_MEMORY;
    if (stat(path, &file) != 0) return EIN_OK;
    TRY(config_load(path, &root, e));
    ein_status status = read_modules(a, folder, root, out, e);
    json_decref(root);
    return status;
}

static void build(ein_graph *g, const model *m, const naming *names)
{
    bert_build(g, &m->sizes, &m->bert, names, &m->use);
}

static const char *const PREFIXES[] = {"", "bert.", NULL};

const family family_bert = {
    .name = "bert",
    .types = "bert",
    .options = "layers batch seq hidden",
    .prefixes = PREFIXES,
    .probe = "embeddings.word_embeddings.weight",
    .head_step = 1,
    .reads_ids = true,
    .read = read_bert,
    .read_folder = read_folder,
    .build = build,
};
