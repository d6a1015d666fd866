/* SPDX-License-Identifier: Apache-2.0 */
/* Ops of the user's: the published spec, read from text. What the library's own ops get right by construction
 * is checked here one by one, so that every mistake names the op and the text at fault. */
#include "core/graph/builder.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A call being read; `name` is for messages. */
typedef struct custom {
    ein_op op; /* missing members are zero */
    char name[96];
    node node;
    bool known[MAX_LABELS]; /* the label has its extent */
} custom;

static int find_label(const spec *s, const char *name, size_t n)
{
    for (int l = 0; l < s->n_labels; l++)
        if (strlen(s->labels[l].name) == n && memcmp(s->labels[l].name, name, n) == 0) return l;
    return -1;
}

static ein_status add_labels(graph *g, custom *c)
{
    spec *s = &c->node.spec;
    if (c->op.n_labels < 0 || c->op.n_labels > MAX_LABELS)
        REFUSE(EIN_INVALID, "%s: %d labels; at most %d", c->name, c->op.n_labels, MAX_LABELS);
    if (c->op.n_labels > 0 && c->op.labels == NULL) REFUSE(EIN_INVALID, "%s: labels is NULL", c->name);
    for (int i = 0; i < c->op.n_labels; i++) {
        const ein_label *l = &c->op.labels[i];
        if (l->name == NULL) REFUSE(EIN_INVALID, "%s: label %d has no name", c->name, i);
        size_t n = strlen(l->name), plain = strspn(l->name, "abcdefghijklmnopqrstuvwxyz0123456789");
        if (n == 0 || n > 7 || plain != n)
            REFUSE(EIN_INVALID, "%s: label '%.16s' is not 1 to 7 lower-case letters and digits", c->name,
                   l->name);
        if (find_label(s, l->name, n) >= 0)
            REFUSE(EIN_INVALID, "%s: label '%s' is given twice", c->name, l->name);
        if (l->granule < 0)
            REFUSE(EIN_INVALID, "%s: label '%s' has granule %" PRId64, c->name, l->name, l->granule);
        int at = ein__label_add(s, l->name, 0);
        s->labels[at].granule = l->granule > 0 ? l->granule : 1;
        s->labels[at].whole = l->whole != 0;
    }
    return EIN_OK;
}

/* Labels of one tensor, "h*d,i": per dimension, the number of its labels, and all labels in order. */
typedef struct pattern {
    int rank, n;
    int count[EIN_MAX_RANK];
    int labels[MAX_TERMS];
} pattern;

static const char *skip_space(const char *p)
{
    while (*p == ' ') p++;
    return p;
}

static ein_status read_pattern(graph *g, const custom *c, const char *source, pattern *out)
{
    const char *p;
    *out = (pattern){0};
    if (source == NULL) REFUSE(EIN_INVALID, "%s: the labels of a tensor are NULL", c->name);
    p = skip_space(source);
    if (*p == 0) return EIN_OK; /* a scalar */
    for (;;) {
        size_t n = 0;
        while (isalnum((unsigned char)p[n])) n++;
        int l = find_label(&c->node.spec, p, n);
        if (n == 0 || l < 0)
            REFUSE(EIN_INVALID, "%s: '%.60s': no label '%.*s' at column %d", c->name, source,
                   n > 0 && n < 16 ? (int)n : 1, p, (int)(p - source) + 1);
        if (out->rank == EIN_MAX_RANK || out->n == MAX_TERMS)
            REFUSE(EIN_INVALID, "%s: '%.60s': more than %d dimensions or %d labels", c->name, source,
                   EIN_MAX_RANK, MAX_TERMS);
        out->labels[out->n++] = l;
        out->count[out->rank]++;
        p = skip_space(p + n);
        if (*p == 0) break;
        if (*p != ',' && *p != '*')
            REFUSE(EIN_INVALID, "%s: '%.60s': unexpected '%c' at column %d", c->name, source, *p,
                   (int)(p - source) + 1);
        out->rank += *p == ',';
        p = skip_space(p + 1);
    }
    out->rank++;
    return EIN_OK;
}

/* ---- extents ---- */

/* The product, or something too large for any tensor. */
static i64 times(i64 a, i64 b)
{
    const i64 most = (i64)1 << 40;
    return b > 0 && a > most / b ? most + 1 : a * b;
}

/* One dimension of `extent`: find its one unknown label, or check the known ones. */
static ein_status read_extent(graph *g, custom *c, const char *source, int n, const int *labels, i64 extent,
                              bool *found)
{
    spec *s = &c->node.spec;
    int unknown = -1;
    i64 product = 1;
    for (int i = 0; i < n; i++) {
        if (c->known[labels[i]]) product = times(product, s->labels[labels[i]].extent);
        else if (unknown >= 0) return EIN_OK; /* two unknown, or one twice */
        else unknown = labels[i];
    }
    if (unknown < 0 && product == extent) return EIN_OK;
    if (unknown < 0)
        REFUSE(EIN_SHAPE, "%s: '%.60s': label '%s' gives an extent of %" PRId64 ", the operand has %" PRId64,
               c->name, source, s->labels[labels[0]].name, product, extent);
    if (product == 0 && extent == 0) return EIN_OK; /* says nothing */
    if (product == 0 || extent % product != 0)
        REFUSE(EIN_SHAPE, "%s: '%.60s': no extent for label '%s': %" PRId64 " is no multiple of %" PRId64,
               c->name, source, s->labels[unknown].name, extent, product);
    s->labels[unknown].extent = extent / product;
    c->known[unknown] = *found = true;
    return EIN_OK;
}

/* Pass over all dimensions until no new extent is found. */
static ein_status read_extents(graph *g, custom *c, const value *operands, const pattern *patterns)
{
    for (bool found = true; found;) {
        found = false;
        for (int k = 0; k < c->op.n_operands; k++) {
            dims d = ein__dims(g, operands[k]);
            const int *labels = patterns[k].labels;
            for (int i = 0; i < d.rank; labels += patterns[k].count[i++])
                TRY(read_extent(g, c, c->op.operands[k], patterns[k].count[i], labels, d.at[i], &found));
        }
    }
    for (int l = 0; l < c->node.spec.n_labels; l++)
        if (!c->known[l])
            REFUSE(EIN_SHAPE, "%s: the operands do not tell the extent of label '%s'", c->name,
                   c->node.spec.labels[l].name);
    return EIN_OK;
}

static void set_terms(const spec *s, index_map *m, const pattern *p)
{
    for (int i = 0; i < p->n; i++) ein__term_label(s, m, p->labels[i]);
}

static ein_status set_operands(graph *g, custom *c, const value *operands)
{
    pattern patterns[MAX_CALL_OPERANDS];
    if (c->op.operands == NULL) REFUSE(EIN_INVALID, "%s: operands' labels are NULL", c->name);
    for (int k = 0; k < c->op.n_operands; k++) {
        dims d = ein__dims(g, operands[k]);
        TRY(read_pattern(g, c, c->op.operands[k], &patterns[k]));
        if (patterns[k].rank != d.rank)
            REFUSE(EIN_SHAPE, "%s: operand %d has shape %s, and labels '%.60s'", c->name, k,
                   ein__dims_text(d).s, c->op.operands[k]);
    }
    TRY(read_extents(g, c, operands, patterns));
    spec *s = &c->node.spec;
    for (int k = 0; k < c->op.n_operands; k++) set_terms(s, &s->operands[k], &patterns[k]);
    return EIN_OK;
}

/* ---- results and states ---- */

static ein_status set_written(graph *g, custom *c, const char *source, index_map *m, dims *shape)
{
    pattern p;
    const spec *s = &c->node.spec;
    TRY(read_pattern(g, c, source, &p));
    for (int i = 0; i < p.n; i++)
        for (int k = 0; k < i; k++)
            if (p.labels[k] == p.labels[i])
                REFUSE(EIN_INVALID, "%s: '%.60s': label '%s' is twice in a result", c->name, source,
                       s->labels[p.labels[i]].name);
    set_terms(s, m, &p);
    *shape = (dims){.rank = p.rank};
    const int *labels = p.labels;
    for (int i = 0; i < p.rank; labels += p.count[i++]) {
        shape->at[i] = 1;
        for (int k = 0; k < p.count[i]; k++) shape->at[i] = times(shape->at[i], s->labels[labels[k]].extent);
    }
    return EIN_OK;
}

/* A label that may be cut indexes all states and results (disjoint pieces) or none (partial states). */
static ein_status check_roles(graph *g, const custom *c)
{
    const spec *s = &c->node.spec;
    for (int l = 0; l < s->n_labels; l++) {
        int have = 0, all = s->n_results + c->op.n_states;
        for (int r = 0; r < s->n_results; r++) have += ein__map_has(&s->results[r], l);
        for (int k = 0; k < c->op.n_states; k++) have += ein__map_has(&s->states[k], l);
        if (s->labels[l].whole || have == all) continue;
        if (have > 0)
            REFUSE(EIN_INVALID, "%s: label '%s' indexes only some of the states and results; mark it whole",
                   c->name, s->labels[l].name);
        if (c->op.n_states == 0)
            REFUSE(EIN_INVALID, "%s: label '%s' is in no result and there is no merge; mark it whole",
                   c->name, s->labels[l].name);
    }
    return EIN_OK;
}

static ein_status read_expr(graph *g, const custom *c, const char *source, int n_b, expr *out)
{
    error local = {0};
    int n = c->op.n_states;
    ein_status status = ein__expr_parse(&g->arena, source, "a", n, n_b > 0 ? "b" : NULL, n_b, out, &local);
    if (status != EIN_OK && status != EIN_NO_MEMORY)
        ein__fail(&g->error, status, "%.80s: %.160s", c->name, local.line);
    ein__error_reset(&local);
    return status;
}

static ein_status set_merge(graph *g, custom *c)
{
    merge *m;
    const ein_op *o = &c->op;
    if (o->identity == NULL || o->combine == NULL || o->states == NULL)
        REFUSE(EIN_INVALID, "%s: %d states without %s", c->name, o->n_states,
               o->states == NULL ? "labels" : o->identity == NULL ? "identities" : "combine expressions");
    if (o->finalize == NULL && o->n_results > o->n_states)
        REFUSE(EIN_INVALID, "%s: %d results of %d states without finalize expressions", c->name, o->n_results,
               o->n_states);
    NEW(&g->arena, m, 1);
    m->name = c->node.custom.name;
    m->n_states = o->n_states;
    for (int k = 0; k < o->n_states; k++) m->compute[k] = m->wire[k] = EIN_F32;
    m->n_results = o->n_results;
    for (int k = 0; k < o->n_states; k++) {
        dims shape;
        TRY(set_written(g, c, o->states[k], &c->node.spec.states[k], &shape));
        TRY(ein__check_dims(g, c->name, &shape));
        m->identity[k] = o->identity[k];
        TRY(read_expr(g, c, o->combine[k], o->n_states, &m->combine[k]));
    }
    for (int r = 0; o->finalize != NULL && r < o->n_results; r++)
        if (o->finalize[r] != NULL) TRY(read_expr(g, c, o->finalize[r], 0, &m->finalize[r]));
    c->node.spec.n_states = o->n_states;
    c->node.spec.merge = m;
    return EIN_OK;
}

/* ---- the op ---- */

static ein_status check_members(graph *g, const custom *c)
{
    const ein_op *o = &c->op;
    if (o->n_results < 1 || o->n_results > MAX_RESULTS || o->results == NULL)
        REFUSE(EIN_INVALID, "%s: %d results; 1 to %d", c->name, o->n_results, MAX_RESULTS);
    if (o->n_states < 0 || o->n_states > MAX_STATES)
        REFUSE(EIN_INVALID, "%s: %d states; at most %d", c->name, o->n_states, MAX_STATES);
    if (o->n_states == 0 && (o->states || o->identity || o->combine || o->finalize))
        REFUSE(EIN_INVALID, "%s: a merge without states", c->name);
    if (o->kernel == NULL || o->grid == NULL || o->kernel[0] == 0 || o->grid[0] == 0)
        REFUSE(EIN_INVALID, "%s: no %s", c->name, o->kernel == NULL || o->kernel[0] == 0 ? "kernel" : "grid");
    if (!(o->flops_per_point >= 0) || o->flops_per_point > 1e12)
        REFUSE(EIN_INVALID, "%s: flops_per_point is %g", c->name, o->flops_per_point);
    return EIN_OK;
}

static ein_status copy_texts(graph *g, custom *c)
{
    arena *a = &g->arena;
    const char *version = c->op.version != NULL ? c->op.version : "";
    c->node.custom = (custom_attrs){
        .name = ein__arena_strdup(a, c->op.name), .version = ein__arena_strdup(a, version),
        .kernel = ein__arena_strdup(a, c->op.kernel), .grid = ein__arena_strdup(a, c->op.grid),
        .reference = c->op.reference, .user = c->op.user};
    const custom_attrs *t = &c->node.custom;
    c->node.name = t->name;
    return t->name && t->version && t->kernel && t->grid ? EIN_OK : EIN_NO_MEMORY;
}

static ein_status add_custom(graph *g, custom *c, const value *operands, value *out)
{
    dims shapes[MAX_RESULTS];
    spec *s = &c->node.spec;
    TRY(check_members(g, c));
    TRY(ein__check_types(g, c->name, c->op.n_operands, operands, TYPE_F32));
    TRY(ein__node_start(g, &c->node, OP_CUSTOM, NULL, c->op.n_operands, operands));
    TRY(copy_texts(g, c));
    s->n_results = c->op.n_results;
    s->flops = c->op.flops_per_point > 0 ? c->op.flops_per_point : 1;
    TRY(add_labels(g, c));
    TRY(set_operands(g, c, operands));
    for (int r = 0; r < s->n_results; r++) {
        TRY(set_written(g, c, c->op.results[r], &s->results[r], &shapes[r]));
        TRY(ein__check_dims(g, c->name, &shapes[r]));
    }
    if (c->op.n_states > 0) TRY(set_merge(g, c));
    TRY(check_roles(g, c));
    const ein_dtype types[MAX_RESULTS] = {EIN_F32, EIN_F32, EIN_F32, EIN_F32};
    ein_status status = ein__node_add(g, &c->node, shapes, types, out);
    if (status != EIN_INTERNAL) return status;
    error found = g->error; /* the verifier's; here the contradiction is the user's */
    REFUSE(EIN_INVALID, "%s: %.150s", c->name, found.line);
}

void ein__op_custom(ein_graph *g, const ein_op *op, const ein_tensor *operands, ein_tensor *out)
{
    custom c;
    memset(&c, 0, sizeof c);
    if (g == NULL) return;
    if (op != NULL && op->size >= sizeof c.op) c.op = *op;
    for (int r = 0; out != NULL && r < c.op.n_results && r < MAX_RESULTS; r++) out[r] = (ein_tensor){0};
    if (g->g.error.status != EIN_OK) return;
    if (c.op.name == NULL || c.op.name[0] == 0 || out == NULL) {
        const char *what = op == NULL ? "op" : op->size < sizeof c.op ? "size" : out == NULL ? "out" : "name";
        ein__fail(&g->g.error, EIN_INVALID, "custom: no %s", what);
        return;
    }
    snprintf(c.name, sizeof c.name, "custom '%.80s'", c.op.name);
    if (!ein__call_begin(g, c.name, c.op.n_operands, operands)) return;
    value v[MAX_CALL_OPERANDS], r[MAX_RESULTS] = {-1, -1, -1, -1};
    for (int i = 0; i < c.op.n_operands; i++) v[i] = ein__value(operands[i]);
    ein_status status = add_custom(&g->g, &c, v, r);
    for (int i = 0; i < c.op.n_results && i < MAX_RESULTS; i++)
        out[i] = ein__call_end(g, c.name, status, &r[i]);
}
