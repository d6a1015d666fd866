/* SPDX-License-Identifier: Apache-2.0 */
/* The list of families, and the two that are no transformers. */
#include <stdio.h>

#include "tools/model.h"

static void build_mlp(ein_graph *g, const model *m, const naming *names)
{
    i64 hidden = m->sizes.hidden;
    block b = block_begin(g, names, &m->use);
    ein_tensor x = ein_input(g, "x", m->use.dtype, 2, SHAPE(m->use.batch, hidden));
    for (i64 i = 0; i < m->sizes.layers; i++) {
        char name[32];
        snprintf(name, sizeof name, "layers.%lld", (long long)i);
        x = ein_relu(g, block_linear(&b, x, name, hidden, hidden, 0));
    }
    ein_output(g, "y", x);
}

static void build_matmul(ein_graph *g, const model *m, const naming *names)
{
    const matmul *s = &m->matmul;
    block b = block_begin(g, names, &m->use);
    ein_tensor x = ein_input(g, "a", m->use.dtype, 2, SHAPE(s->m, s->k));
    ein_output(g, "c", ein_matmul(g, x, block_parameter(&b, "b", 2, SHAPE(s->k, s->n))));
}

static const char *const NONE[] = {"", NULL};

const family family_mlp = {.name = "mlp", .options = "batch layers hidden", .prefixes = NONE, .build = build_mlp};
const family family_matmul = {.name = "matmul", .options = "m n k", .prefixes = NONE, .build = build_matmul};

const family *const FAMILIES[] = {&family_llama, &family_bert, &family_gpt2, &family_vit, NULL};
