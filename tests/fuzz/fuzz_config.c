/* SPDX-License-Identifier: Apache-2.0 */
/* A config.json of Hugging Face. What is accepted has sizes that fit each other, and a small model of it can be built. */
#include <math.h>

#include "tests/fuzz/fuzz.h"
#include "tools/model.h"

static void check_sizes(const llama *m, i64 positions)
{
    const i64 sizes[] = {m->hidden, m->heads, m->kv_heads, m->head_size, m->ffn, m->layers, m->vocabulary, positions};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) PROMISE(sizes[i] >= 1 && sizes[i] <= 1 << 24);
    PROMISE(m->heads % m->kv_heads == 0 && m->head_size % 2 == 0);
    PROMISE(m->theta > 0 && isfinite(m->theta) && m->eps > 0 && isfinite(m->eps));
    if (m->scaling.on) PROMISE(m->scaling.factor > 0 && m->scaling.high_frequency > m->scaling.low_frequency);
}

static void build(llama m)
{
    ein_graph *g = NULL;
    m.layers = 1;
    if (m.hidden > 512 || m.ffn > 512 || m.vocabulary > 512 || m.heads > 64 || m.head_size > 64) return;
    PROMISE(ein_graph_create(&g) == EIN_OK);
    llama_build(g, &m, &(llama_use){.batch = 1, .seq = 2, .cached = 3, .head = 1});
    if (ein_graph_status(g) != EIN_OK) fprintf(stderr, "%s\n", ein_graph_error(g));
    PROMISE(ein_graph_status(g) == EIN_OK);
    ein_graph_free(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *copy = exact_copy(bytes, n);
    arena a = {NULL};
    error e = {0};
    llama m;
    i64 positions = 0;
    const char *note = NULL;
    ein_status s = config_parse(&a, "file", copy, n, &m, &positions, &note, &e);
    PROMISE(s == EIN_OK || s == EIN_INVALID || s == EIN_UNSUPPORTED);
    if (s != EIN_OK) promise_line(e.line);
    else check_sizes(&m, positions);
    if (note != NULL) promise_line(note);
    if (s == EIN_OK) build(m);
    ein__arena_free(&a);
    free(copy);
    return 0;
}
