/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/config.h"
#include "tools/model.h"

/* As many as there are names; 2 where the file does not say. */
static ein_status read_classes(const config *c, i64 *out)
{
    const json_t *names = config_get(c->root, "id2label");
    TRY(config_int(c, "num_labels", 2, out));
    if (names == NULL) return EIN_OK;
    if (!json_is_object(names) || json_object_size(names) == 0) return config_refuse(c, "id2label", "must be an object with labels");
    if (config_get(c->root, "num_labels") != NULL && *out != (i64)json_object_size(names))
        return config_refuse(c, "num_labels", "is not the number of labels in \"id2label\"");
    *out = (i64)json_object_size(names);
    return EIN_OK;
}

static ein_status read_vit(const config *c, model *out)
{
    static const char *const architectures[] = {"ViTModel", "ViTForImageClassification", NULL};
    vit *m = &out->vit;
    int architecture;
    TRY(config_architecture(c, architectures, &architecture));
    TRY(config_sizes(c, "hidden_size", "num_attention_heads", "num_hidden_layers", &out->sizes));
    TRY(config_int(c, "intermediate_size", -1, &out->sizes.ffn));
    TRY(config_int(c, "image_size", 224, &m->image));
    TRY(config_int(c, "patch_size", 16, &m->patch));
    TRY(config_int(c, "num_channels", 3, &m->channels));
    TRY(config_number(c, c->root, "layer_norm_eps", 1e-12, &out->sizes.eps));
    TRY(config_activation(c, "hidden_act", GELU, &m->activation));
    TRY(config_flag(c, "qkv_bias", 1, &m->qkv_bias));
    if (m->image % m->patch != 0) {
        return ein__fail(c->error, EIN_INVALID, "%s: \"image_size\" %lld is no multiple of \"patch_size\" %lld", c->path,
                         (long long)m->image, (long long)m->patch);
    }
    return architecture == 1 ? read_classes(c, &m->classes) : EIN_OK;
}

static void build(ein_graph *g, const model *m, const naming *names)
{
    vit_build(g, &m->sizes, &m->vit, names, &m->use);
}

static const char *const PREFIXES[] = {"vit.", "", NULL};

const family family_vit = {
    .name = "vit",
    .types = "vit",
    .options = "layers batch hidden",
    .prefixes = PREFIXES,
    .probe = "embeddings.cls_token",
    .head_step = 1,
    .read = read_vit,
    .build = build,
};
