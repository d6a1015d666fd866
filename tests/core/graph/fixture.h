/* SPDX-License-Identifier: Apache-2.0 */
/* Short words for the tests of this folder: a graph per test, and specs compared as text. */
#ifndef TESTS_CORE_GRAPH_FIXTURE_H
#define TESTS_CORE_GRAPH_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/graph/builder.h"

#define RANK_OF(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define IN(g, name, ...) ein_input(g, name, EIN_F32, RANK_OF(__VA_ARGS__), (int64_t[]){__VA_ARGS__})
#define SHAPE(...) RANK_OF(__VA_ARGS__), (int64_t[]){__VA_ARGS__}
#define NODE(g, back) ((g)->g.nodes.items[(g)->g.nodes.n - 1 - (back)])

static inline ein_graph *new_graph(void)
{
    ein_graph *g = NULL;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    return g;
}

/* The graph is right as far as its verifier knows; then free it. */
static inline void end(ein_graph *g)
{
    error e = {0};
    assert_string_equal(ein_graph_error(g), "");
    assert_int_equal(ein_graph_status(g), EIN_OK);
    ein_status status = ein__graph_check(&g->g, &e);
    assert_string_equal(e.line, "");
    assert_int_equal(status, EIN_OK);
    ein_graph_free(g);
}

/* The spec of the last node but `back`, as printed. */
static inline void assert_spec_of(const ein_graph *g, int back, const char *expected)
{
    text t = {0};
    assert_string_equal(ein_graph_error(g), "");
    ein__spec_print(&NODE(g, back).spec, &t);
    assert_string_equal(ein__text_get(&t), expected);
    ein__text_free(&t);
}

static inline void assert_spec(const ein_graph *g, const char *expected) { assert_spec_of(g, 0, expected); }

static inline void assert_shape(const ein_graph *g, ein_tensor x, const char *expected)
{
    assert_string_equal(ein_graph_error(g), "");
    assert_int_not_equal(x.id, 0);
    assert_string_equal(ein__dims_text(ein__dims(&g->g, ein__value(x))).s, expected);
}

/* The call failed with this status and line; then free the graph. */
static inline void end_failed(ein_graph *g, ein_tensor x, ein_status status, const char *line)
{
    assert_int_equal(x.id, 0);
    assert_string_equal(ein_graph_error(g), line);
    assert_int_equal(ein_graph_status(g), status);
    ein_graph_free(g);
}

/* Evaluate an expression in f64. */
#define EVAL(x, ...) ein__expr_eval(&(x), (double[]){__VA_ARGS__})

#endif
