/* SPDX-License-Identifier: Apache-2.0 */
/* A workload on a machine: context, weights, state, and programs ready to run. */
#ifndef TOOLS_SESSION_H
#define TOOLS_SESSION_H

#include "ein.h"
#include "tools/workload.h"

typedef struct session {
    arena arena;
    workload *work;
    ein_context *context;
    ein_weights *weights;
    ein_state *state;     /* made with the first program, if the graph has states */
    void **outputs;       /* per output of the graph: what the last run wrote */
    size_t *bytes;        /* of each */
    double prime_seconds; /* spent on filling new states */
    char message[256];    /* of the last failure */
} session;

typedef struct prepared {
    ein_program *program;
    ein_run *run;
} prepared;

/* `cache_dir` NULL: the user's. The workload must be filled. On failure `s->message` says why, here and
 * below. Close in any case. */
ein_status session_failed(session *s, ein_status status, const char *line); /* keeps the line */
ein_status session_open(session *s, workload *w, const char *machine, const char *cache_dir);
void session_close(session *s);

/* Compile, bind, and fill the states if these are new. `plan` NULL: search. */
ein_status session_prepare(session *s, const char *plan, bool counting, prepared *out);
/* Another graph over the same weights and states; nothing is bound. */
ein_status session_compile(session *s, const ein_graph *g, const char *plan, bool counting, prepared *out);
ein_status session_run(session *s, const prepared *p);
void session_release(prepared *p);

/* A plan without weights, for any machine, without the cache. Free `*context` and `*program` in any case; on
 * failure `message` says why. */
ein_status session_plan(const workload *w, const char *machine, ein_context **context, ein_program **program,
                        char message[256]);

#endif
