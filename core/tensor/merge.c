/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in merges, each a row of text: the expressions are the definition. */
#include "core/tensor/merge.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* exp of the distance to the joined maximum, by which each side's sums shrink. */
#define SHRINK(side) "exp(" side "0 - max(a0, b0))"
/* Index of the one that is no worse, the lower of two; a NaN is the best. Selects side by side, not one in another, so
 * that loops of it vectorize. */
#define CHOOSE(no_worse) \
    "min(where(or(a0 != a0, a0 " no_worse " b0), a1, b1), where(or(b0 != b0, b0 " no_worse " a0), b1, a1))"
#define JOIN(state) "a" state " * " SHRINK("a") " + b" state " * " SHRINK("b")

typedef struct recipe {
    const char *name;
    int n_states, n_results;
    double identity[MAX_STATES];
    const char *combine[MAX_STATES];
    const char *finalize; /* of the only result, or NULL */
} recipe;

static const recipe recipes[] = {
    [MERGE_SUM] = {"sum", 1, 1, {0}, {"a0 + b0"}, NULL},
    [MERGE_MAX] = {"max", 1, 1, {-INFINITY}, {"max(a0, b0)"}, NULL},
    [MERGE_MIN] = {"min", 1, 1, {INFINITY}, {"min(a0, b0)"}, NULL},
    [MERGE_SOFTMAX] = {"softmax", 3, 1, {EIN__LOWEST, 0, 0},
        {"max(a0, b0)", JOIN("1"), JOIN("2")}, "where(a1 == 0, 0, a2 / a1)"},
    [MERGE_SOFTMAX_STATE] = {"softmax-state", 3, 3, {EIN__LOWEST, 0, 0},
        {"max(a0, b0)", JOIN("1"), JOIN("2")}, NULL},
    [MERGE_PROD] = {"prod", 1, 1, {1}, {"a0 * b0"}, NULL},
    [MERGE_ARGMAX] = {"argmax", 2, 1, {-INFINITY, INFINITY}, {"max(a0, b0)", CHOOSE(">=")}, "a1"},
    [MERGE_ARGMIN] = {"argmin", 2, 1, {INFINITY, INFINITY}, {"min(a0, b0)", CHOOSE("<=")}, "a1"},
    [MERGE_LOGSUMEXP] = {"logsumexp", 2, 1, {-FLT_MAX, 0}, {"max(a0, b0)", JOIN("1")},
        "where(a0 == 1 / 0, a0, a0 + log(a1))"},
    [MERGE_WELFORD] = {"welford", 3, 3, {0, 0, 0},
        {"a0 + b0", "where(b0 == 0, a1, a1 + (b1 - a1) * b0 / (a0 + b0))",
         "where(b0 == 0, a2, a2 + b2 + (b1 - a1) * (b1 - a1) * a0 * b0 / (a0 + b0))"}, NULL}};

/* States that are not of the values' type: an index. */
static bool is_index(merge_kind kind, int state) { return state == 1 && (kind == MERGE_ARGMAX || kind == MERGE_ARGMIN); }

static bool travels_as_values(merge_kind kind)
{
    return kind == MERGE_SUM || kind == MERGE_PROD || kind == MERGE_MAX || kind == MERGE_MIN;
}

/* The identity as its wire type has it: an infinity of a narrow integer is its least or greatest number. */
static double identity_of(double identity, ein_dtype wire)
{
    unsigned char bytes[8];
    if (identity == -FLT_MAX && wire == EIN_F64) return -DBL_MAX;
    if (!isinf(identity) || ein__dtype_is_float(wire) || wire == EIN_I64) return identity;
    if (wire == EIN_BOOL) return identity > 0;
    ein__dtype_write(wire, identity, bytes);
    return ein__dtype_read(wire, bytes);
}

/* The expression state 0 * scale. */
static ein_status scale_state(arena *a, double scale, expr *out)
{
    NEW(a, out->nodes, 3);
    out->nodes[0] = (expr_node){.op = X_ARG};
    out->nodes[1] = (expr_node){.op = X_CONST, .value = scale};
    out->nodes[2] = (expr_node){.op = X_MUL, .a = 0, .b = 1};
    out->n = 3;
    return EIN_OK;
}

ein_status ein__merge_make(arena *a, merge_kind kind, double scale, ein_dtype dtype, merge **out)
{
    merge *m;
    const recipe *r = &recipes[kind];
    NEW(a, m, 1);
    m->name = r->name;
    m->n_states = r->n_states;
    m->n_results = r->n_results;
    for (int i = 0; i < r->n_states; i++) {
        m->compute[i] = is_index(kind, i) ? EIN_I64 : ein__dtype_compute(dtype);
        m->wire[i] = travels_as_values(kind) ? dtype : m->compute[i];
        m->identity[i] = identity_of(r->identity[i], m->wire[i]);
    }
    for (int i = 0; i < r->n_states; i++)
        TRY(ein__expr_parse(a, r->combine[i], "a", r->n_states, "b", r->n_states, &m->combine[i], NULL));
    if (r->finalize != NULL)
        TRY(ein__expr_parse(a, r->finalize, "a", r->n_states, NULL, 0, &m->finalize[0], NULL));
    if (kind == MERGE_SUM && scale != 1.0) TRY(scale_state(a, scale, &m->finalize[0]));
    *out = m;
    return EIN_OK;
}

void ein__merge_key(const merge *m, text *key)
{
    ein__key_bytes(key, 'm', m->name, strlen(m->name));
    ein__key_int(key, 's', m->n_states);
    for (int i = 0; i < m->n_states; i++) {
        int64_t bits;
        memcpy(&bits, &m->identity[i], sizeof bits);
        ein__key_int(key, 'i', bits);
        ein__key_int(key, 'c', m->compute[i]);
        ein__key_int(key, 'w', m->wire[i]);
        ein__expr_key(&m->combine[i], key);
    }
    ein__key_int(key, 'r', m->n_results);
    for (int i = 0; i < m->n_results; i++) ein__expr_key(&m->finalize[i], key);
}

uint32_t ein__merge_used(const merge *m, int result, bool partials)
{
    if (m == NULL) return 1;
    uint32_t used = m->finalize[result].n > 0 ? ein__expr_arguments(&m->finalize[result], m->n_states) : 1u << result;
    for (uint32_t before = 0; partials && before != used;) {
        before = used;
        for (int s = 0; s < m->n_states; s++)
            if ((before >> s & 1) != 0) used |= ein__expr_arguments(&m->combine[s], m->n_states);
    }
    return used;
}
