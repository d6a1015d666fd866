/* SPDX-License-Identifier: Apache-2.0 */
/* A graph file. What is accepted is a graph that its verifier accepts, in its canonical form too, and is written as a
 * file that gives the same file again. */
#include "core/graph/canonical.h"
#include "core/graph/file.h"
#include "tests/fuzz/fuzz.h"

static void canonical(const graph *g)
{
    graph c = {0};
    error e = {0};
    ein_status s = ein__canonicalize(g, &c, &e);
    if (s == EIN_OK) s = ein__graph_check(&c, &e);
    if (s != EIN_OK) fprintf(stderr, "%s\n", e.line);
    PROMISE(s == EIN_OK || s == EIN_INVALID || s == EIN_NO_MEMORY);
    ein__arena_free(&c.arena);
    ein__error_reset(&e);
}

static void write_again(const ein_graph *g)
{
    text one = {0}, two = {0};
    error e = {0};
    ein_graph *h = NULL;
    PROMISE(ein__graph_write(&g->g, ein_graph_weights(g), &one, &e) == EIN_OK);
    PROMISE(ein_graph_create(&h) == EIN_OK);
    PROMISE(ein_graph_read(h, ein__text_get(&one), one.n) == EIN_OK);
    PROMISE(ein__graph_write(&h->g, ein_graph_weights(h), &two, &e) == EIN_OK);
    PROMISE(one.n == two.n && memcmp(one.bytes, two.bytes, one.n) == 0);
    ein_graph_free(h);
    ein__text_free(&one);
    ein__text_free(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *copy = exact_copy(bytes, n);
    ein_graph *g = NULL;
    PROMISE(ein_graph_create(&g) == EIN_OK);
    ein_status s = ein_graph_read(g, copy, n);
    if (s != EIN_OK) {
        promise_line(ein_graph_error(g));
    } else {
        error e = {0};
        s = ein__graph_check(&g->g, &e); /* that a state is read beside its update is the user's fault */
        if (s != EIN_OK) fprintf(stderr, "%s\n", e.line);
        PROMISE(s == EIN_OK || s == EIN_INVALID);
        if (s == EIN_OK) canonical(&g->g);
        write_again(g);
    }
    ein_graph_free(g);
    free(copy);
    return 0;
}
