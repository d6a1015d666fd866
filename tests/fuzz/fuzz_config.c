/* SPDX-License-Identifier: Apache-2.0 */
/* A config.json of Hugging Face. What is accepted has sizes that fit each other, and a small model of it can be built. */
#include <math.h>

#include "tests/fuzz/fuzz.h"
#include "tools/model.h"

enum { MOST = 1 << 24 };

static void check_sizes(const model *m)
{
    const sizes *s = &m->sizes;
    const i64 all[] = {s->hidden, s->heads, s->kv_heads, s->head_size, s->layers};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) PROMISE(all[i] >= 1 && all[i] <= MOST);
    PROMISE(s->ffn >= 1 && s->ffn <= 4ll * MOST && s->heads % s->kv_heads == 0 && s->eps > 0 && isfinite(s->eps));
    if (m->family->reads_ids) PROMISE(s->vocabulary >= 1 && s->vocabulary <= MOST && s->positions >= 1 && s->positions <= MOST);
}

static void check_llama(const sizes *s, const llama *m)
{
    PROMISE(s->head_size % 2 == 0 && m->theta > 0 && isfinite(m->theta) && m->scale >= 0);
    if (m->scaling != ROPE_PLAIN) PROMISE(m->factor > 0);
    if (m->scaling == ROPE_LLAMA3) PROMISE(m->high_frequency > m->low_frequency);
    PROMISE(m->window >= 0 && m->window <= MOST && m->window_first >= 0 && m->window_period >= 1);
}

static void check_vit(const vit *m)
{
    PROMISE(m->image >= m->patch && m->image % m->patch == 0 && m->channels >= 1 && m->classes >= 0);
}

static void build(model m)
{
    const sizes *s = &m.sizes;
    ein_graph *g = NULL;
    m.sizes.layers = 1;
    if (s->hidden > 512 || s->ffn > 512 || s->vocabulary > 512 || s->heads > 64 || s->head_size > 64) return;
    if (m.family == &family_vit && (m.vit.image > 64 || m.vit.channels > 8 || m.vit.classes > 512)) return;
    if (m.family->reads_ids && s->positions < 5) return;
    bool cached = m.family->generates;
    m.use = (model_use){
        .batch = 1, .seq = 2, .cached = cached ? 3 : 0, .capacity = cached ? 5 : 0, .head = 1, .dtype = EIN_F32};
    PROMISE(ein_graph_create(&g) == EIN_OK);
    ein_status status = model_build(&m, &(naming){.prefix = m.family->prefixes[0]}, g);
    if (status != EIN_OK) fprintf(stderr, "%s\n", ein_graph_error(g));
    PROMISE(status == EIN_OK);
    ein_graph_free(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *copy = exact_copy(bytes, n);
    arena a = {NULL};
    error e = {0};
    model m = {0};
    ein_status s = config_parse(&a, "file", copy, n, &m, &e);
    PROMISE(s == EIN_OK || s == EIN_INVALID || s == EIN_UNSUPPORTED);
    if (s != EIN_OK) promise_line(e.line);
    if (m.stored_dtype != NULL) promise_line(m.stored_dtype);
    if (s == EIN_OK) {
        check_sizes(&m);
        if (m.family == &family_llama) check_llama(&m.sizes, &m.llama);
        if (m.family == &family_vit) check_vit(&m.vit);
        build(m);
    }
    ein__arena_free(&a);
    free(copy);
    return 0;
}
