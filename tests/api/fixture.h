/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of the public calls share: a session of context, graph, weights, program and run, opened and closed
 * together, and short words for the calls. */
#ifndef TESTS_API_FIXTURE_H
#define TESTS_API_FIXTURE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ein.h"

#define SHAPE(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}
#define INPUT(g, name, ...) ein_input(g, name, EIN_F32, SHAPE(__VA_ARGS__))
#define NONE ((ein_tensor){0})

typedef struct session {
    ein_context *c;
    ein_graph *g;
    ein_weights *w;
    ein_program *p;
    ein_run *r;
} session;

static inline ein_context *new_context(const char *machine)
{
    char message[256] = "";
    ein_context *c;
    ein_context_options o = {.size = sizeof o, .machine = machine, .message = message, .message_bytes = sizeof message};
    if (ein_context_create(&c, &o) != EIN_OK) fail_msg("%s: %s", machine, message);
    return c;
}

static inline void session_open(session *s, const char *machine)
{
    memset(s, 0, sizeof *s);
    s->c = new_context(machine);
    assert_int_equal(ein_graph_create(&s->g), EIN_OK);
    assert_int_equal(ein_weights_create(&s->w, s->c), EIN_OK);
}

static inline void session_compile(session *s, const char *plan)
{
    ein_compile_options o = {.size = sizeof o, .weights = s->w, .plan = plan};
    if (ein_compile(&s->p, s->c, s->g, &o) != EIN_OK)
        fail_msg("compile: %s\n%s", ein_context_error(s->c), ein_context_detail(s->c));
}

static inline void session_start(session *s)
{
    session_compile(s, NULL);
    assert_int_equal(ein_run_create(&s->r, s->p), EIN_OK);
}

static inline void session_once(session *s)
{
    if (ein_run_once(s->r) != EIN_OK) fail_msg("run: %s", ein_run_error(s->r));
}

static inline void session_close(session *s)
{
    ein_run_free(s->r);
    ein_program_free(s->p);
    ein_weights_free(s->w);
    ein_graph_free(s->g);
    ein_context_free(s->c);
}

static inline void assert_near(const float *have, const double *want, int n)
{
    for (int i = 0; i < n; i++)
        if (!(fabs(have[i] - want[i]) <= 1e-5 * (1 + fabs(want[i]))))
            fail_msg("element %d is %.9g, not %.9g", i, have[i], want[i]);
}

#endif
