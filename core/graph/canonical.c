/* SPDX-License-Identifier: Apache-2.0 */
/* Canonical form.
 *
 * 0. Permutes are absorbed into their readers' index maps (absorb.c).
 * 1. Depth-first from the ordered outputs: `seq` lists the live nodes, operands before users.
 * 2. Hoist: a value that two layers share (a mask) would sit inside the first layer and break its likeness to
 *    the others. A node is shared when two users of it look alike, take it in the same place, and one depends
 *    on the other; it and its ancestors move to the front.
 * 3. Find loops (canonical_loop.c): repetitions of a run of nodes.
 * 4. Emit: every node once, loop bodies once; leaves and scalars numbered in the order of first use. */
#include "core/graph/canonical.h"

#include <string.h>

#include "core/base/hash.h"
#include "core/graph/absorb.h"
#include "core/graph/canonical_loop.h"

/* ---- order -------------------------------------------------------------------------------------------- */

static int producer(const graph *g, value v) { return g->values.items[v].kind == VALUE_RESULT ? g->values.items[v].owner : -1; }

/* Post-order from one node, without recursion: graphs are thousands of nodes deep. */
static void visit(walk *w, int root, int *stack, int *next)
{
    int depth = 0;
    if (w->pos[root] != -1) return;
    stack[depth++] = root;
    w->pos[root] = -2; /* on the stack */
    next[root] = 0;
    while (depth > 0) {
        int top = stack[depth - 1];
        const node *n = &w->g->nodes.items[top];
        if (next[top] == n->spec.n_operands) {
            w->pos[top] = w->n;
            w->seq[w->n++] = top;
            depth--;
            continue;
        }
        int p = producer(w->g, n->operands[next[top]++]);
        if (p >= 0 && w->pos[p] == -1) {
            w->pos[p] = -2;
            next[p] = 0;
            stack[depth++] = p;
        }
    }
}

enum { KEY_DTYPE = 0x300 };

/* What looks alike has one signature: the same spec, body and attributes, and results of the same types. */
static ein_status order_nodes(walk *w)
{
    const graph *g = w->g;
    int *stack, *next, n = g->nodes.n;
    NEW(w->a, stack, n);
    NEW(w->a, next, n);
    NEW(w->a, w->seq, n);
    NEW(w->a, w->pos, n);
    NEW(w->a, w->signature, n);
    for (int i = 0; i < n; i++) w->pos[i] = -1;
    for (int i = 0; i < g->outputs.n; i++) {
        int p = producer(g, g->outputs.items[i].value);
        if (p >= 0) visit(w, p, stack, next);
    }
    for (int i = 0; i < n; i++) /* a state's update is an effect: it is live without a user */
        if (g->nodes.items[i].kind == OP_APPEND) visit(w, i, stack, next);
    for (int i = 0; i < w->n; i++) {
        text key = {0};
        const node *x = &g->nodes.items[w->seq[i]];
        ein__node_key(x, &key);
        for (int r = 0; r < x->spec.n_results; r++) ein__key_int(&key, KEY_DTYPE, g->values.items[x->results[r]].dtype);
        w->signature[w->seq[i]] = ein__hash(key.bytes, key.n, 0);
        ein_status s = ein__text_status(&key);
        ein__text_free(&key);
        TRY(s);
    }
    return EIN_OK;
}

/* ---- hoisting ----------------------------------------------------------------------------------------- */

/* Does `user` depend on `node`? `mark` is scratch, stamped with a fresh number. */
static bool depends(const walk *w, int user, int on, int *mark, int stamp, int *stack)
{
    int depth = 0;
    stack[depth++] = user;
    mark[user] = stamp;
    while (depth > 0) {
        const node *n = &w->g->nodes.items[stack[--depth]];
        for (int o = 0; o < n->spec.n_operands; o++) {
            int p = producer(w->g, n->operands[o]);
            if (p == on) return true;
            if (p < 0 || mark[p] == stamp || w->pos[p] < w->pos[on]) continue;
            mark[p] = stamp;
            stack[depth++] = p;
        }
    }
    return false;
}

/* The first user of each (value, operand place), to compare later users with. */
typedef struct first_user { int node, next; int place; } first_user;

static ein_status find_shared(walk *w, bool *shared)
{
    const graph *g = w->g;
    int *mark, *stack, *head, n_users = 0, total = 0, stamp = 0;
    for (int i = 0; i < w->n; i++) total += g->nodes.items[w->seq[i]].spec.n_operands;
    first_user *users;
    NEW(w->a, mark, g->nodes.n);
    NEW(w->a, stack, g->nodes.n);
    NEW(w->a, head, g->values.n);
    NEW(w->a, users, total);
    for (int i = 0; i < w->n; i++) {
        int user = w->seq[i];
        const node *n = &g->nodes.items[user];
        for (int o = 0; o < n->spec.n_operands; o++) {
            value v = n->operands[o];
            int p = producer(g, v);
            if (p < 0 || shared[p]) continue;
            for (int u = head[v]; u != 0 && !shared[p]; u = users[u - 1].next) {
                const first_user *f = &users[u - 1];
                if (f->place == o && f->node != user && ein__hash_equal(w->signature[f->node], w->signature[user]) &&
                    depends(w, user, f->node, mark, ++stamp, stack))
                    shared[p] = true;
            }
            users[n_users++] = (first_user){user, head[v], o};
            head[v] = n_users;
        }
    }
    return EIN_OK;
}

static ein_status hoist(walk *w)
{
    bool *shared;
    int *seq, n = 0;
    NEW(w->a, shared, w->g->nodes.n);
    NEW(w->a, seq, w->n);
    TRY(find_shared(w, shared));
    for (int i = w->n - 1; i >= 0; i--) { /* users before operands: sharing spreads to all ancestors */
        const node *x = &w->g->nodes.items[w->seq[i]];
        for (int o = 0; o < x->spec.n_operands && shared[w->seq[i]]; o++) {
            int p = producer(w->g, x->operands[o]);
            if (p >= 0) shared[p] = true;
        }
    }
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < w->n; i++)
            if (shared[w->seq[i]] == (pass == 0)) seq[n++] = w->seq[i];
    w->seq = seq;
    for (int i = 0; i < n; i++) w->pos[seq[i]] = i;
    return EIN_OK;
}

/* ---- emission ----------------------------------------------------------------------------------------- */

typedef struct emitter {
    walk *w;
    graph *out;
    value *value_of; /* user's value -> canonical value, -1 */
    int *scalar_of;  /* user's scalar -> canonical scalar, -1 */
} emitter;

static ein_status add_value(graph *g, value_info info, value *out)
{
    *out = g->values.n;
    PUSH(&g->arena, &g->values, info);
    return EIN_OK;
}

/* The canonical leaf for a tuple of the user's leaf values (one, or one per iteration). */
static ein_status map_leaf(emitter *m, const value *members, int n, value *out)
{
    const graph *g = m->w->g;
    if (m->value_of[members[0]] >= 0) {
        *out = m->value_of[members[0]];
        return EIN_OK;
    }
    value_info info = g->values.items[members[0]];
    leaf l = g->leaves.items[info.owner];
    int *ids;
    NEW(&m->out->arena, ids, n);
    for (int i = 0; i < n; i++) ids[i] = g->values.items[members[i]].owner;
    info.owner = m->out->leaves.n;
    TRY(add_value(m->out, info, out));
    l.value = *out;
    l.n_members = n;
    l.members = ids;
    PUSH(&m->out->arena, &m->out->leaves, l);
    for (int i = 0; i < n; i++) m->value_of[members[i]] = *out;
    return EIN_OK;
}

static ein_status map_value(emitter *m, value v, value *out)
{
    if (m->w->g->values.items[v].kind == VALUE_LEAF) return map_leaf(m, &v, 1, out);
    *out = m->value_of[v];
    return EIN_OK;
}

static ein_status map_scalar(emitter *m, int *scalar)
{
    if (*scalar < 0) return EIN_OK;
    if (m->scalar_of[*scalar] < 0) {
        m->scalar_of[*scalar] = m->out->scalars.n;
        PUSH(&m->out->arena, &m->out->scalars, m->w->g->scalars.items[*scalar]);
    }
    *scalar = m->scalar_of[*scalar];
    return EIN_OK;
}

/* Layers repeat their bounds; one of each is enough. */
static ein_status add_bound(emitter *m, int scalar, i64 rows, i64 extent, const char *what)
{
    graph *out = m->out;
    for (int i = 0; i < out->bounds.n; i++) {
        const scalar_bound *b = &out->bounds.items[i];
        if (b->scalar == scalar && b->rows == rows && b->extent == extent) return EIN_OK;
    }
    scalar_bound b = {scalar, rows, extent, what};
    PUSH(&out->arena, &out->bounds, b);
    return EIN_OK;
}

/* The bounds that a node (mapped) sets to its scalars; those of dropped nodes are dropped. */
static ein_status add_bounds(emitter *m, const node *n)
{
    const label *labels = n->spec.labels;
    for (int o = 0; o < n->spec.n_operands; o++)
        for (int i = 0; i < n->spec.operands[o].n; i++) {
            const term *t = &n->spec.operands[o].terms[i];
            if (t->kind != TERM_ALL || t->scalar < 0) continue;
            i64 rows = t->label >= 0 ? labels[t->label].extent : 1;
            TRY(add_bound(m, t->scalar, rows, t->extent - t->offset, n->name));
        }
    if (n->kind != OP_APPEND || n->scalar < 0) return EIN_OK;
    const leaf *state = &m->out->leaves.items[m->out->values.items[n->operands[0]].owner];
    return add_bound(m, n->scalar, labels[n->append_s].extent, labels[n->append_t].extent, state->name);
}

/* Copy node `id` with operands already mapped; its results become new values. */
static ein_status emit_node(emitter *m, int id, value *operands)
{
    const graph *g = m->w->g;
    arena *a = &m->out->arena;
    node n = g->nodes.items[id];
    index_map *maps;
    NEW(a, maps, n.spec.n_operands);
    for (int o = 0; o < n.spec.n_operands; o++) {
        maps[o] = n.spec.operands[o];
        for (int t = 0; t < maps[o].n; t++)
            if (maps[o].terms[t].kind == TERM_ALL) TRY(map_scalar(m, &maps[o].terms[t].scalar));
    }
    if (n.kind == OP_ATTENTION) {
        TRY(map_scalar(m, &n.attention.position));
        TRY(map_scalar(m, &n.attention.length));
    }
    if (n.kind == OP_APPEND) TRY(map_scalar(m, &n.scalar));
    n.spec.operands = maps;
    n.operands = operands;
    value *results;
    NEW(a, results, n.spec.n_results);
    for (int r = 0; r < n.spec.n_results; r++) {
        value_info info = g->values.items[n.results[r]];
        info.owner = m->out->nodes.n;
        TRY(add_value(m->out, info, &results[r]));
        m->value_of[n.results[r]] = results[r];
    }
    n.results = results;
    PUSH(a, &m->out->nodes, n);
    return add_bounds(m, &n);
}

static ein_status emit_straight(emitter *m, int lo, int hi)
{
    for (int i = lo; i < hi; i++) {
        const node *n = &m->w->g->nodes.items[m->w->seq[i]];
        value *operands;
        NEW(&m->out->arena, operands, n->spec.n_operands);
        for (int o = 0; o < n->spec.n_operands; o++) TRY(map_value(m, n->operands[o], &operands[o]));
        TRY(emit_node(m, m->w->seq[i], operands));
    }
    return EIN_OK;
}

/* The carry for this reference: the same init and the same source share one. */
static ein_status map_carry(emitter *m, loop *l, int *room, value *nexts, const loop_ref *r, value *out)
{
    arena *a = &m->out->arena;
    value init;
    TRY(map_value(m, r->init, &init));
    for (int c = 0; c < l->n_carries; c++)
        if (l->carries[c].init == init && nexts[c] == r->next) {
            *out = l->carries[c].value;
            return EIN_OK;
        }
    value_info info = m->w->g->values.items[r->next];
    info.kind = VALUE_CARRY;
    info.owner = m->out->loops.n;
    info.result = l->n_carries;
    TRY(add_value(m->out, info, out));
    TRY(ein__grow(a, (void **)&l->carries, l->n_carries, room, sizeof *l->carries));
    nexts[l->n_carries] = r->next;
    l->carries[l->n_carries++] = (carry){*out, init, -1};
    return EIN_OK;
}

static ein_status map_reference(emitter *m, loop *l, int *room, value *nexts, const loop_ref *r, value *out)
{
    switch (r->kind) {
    case REF_SHARED: return map_value(m, r->init, out);
    case REF_MEMBERS: return map_leaf(m, r->members, l->count, out);
    case REF_CARRY: return map_carry(m, l, room, nexts, r, out);
    default: *out = m->value_of[r->init]; return EIN_OK; /* REF_INSIDE */
    }
}

static ein_status emit_loop(emitter *m, const found_loop *f)
{
    const walk *w = m->w;
    loop l = {.lo = m->out->nodes.n, .hi = m->out->nodes.n + f->period, .count = f->count};
    int room = 0, places = 0;
    for (int k = 0; k < f->period; k++) places += w->g->nodes.items[w->seq[f->lo + k]].spec.n_operands;
    value *nexts, *members;
    NEW(w->a, nexts, places);
    NEW(w->a, members, f->count);
    for (int k = 0; k < f->period; k++) {
        const node *n = &w->g->nodes.items[w->seq[f->lo + k]];
        value *operands;
        NEW(&m->out->arena, operands, n->spec.n_operands);
        for (int o = 0; o < n->spec.n_operands; o++) {
            loop_ref r = {.members = members};
            ein__loop_classify(w, f, k, o, &r);
            TRY(map_reference(m, &l, &room, nexts, &r, &operands[o]));
        }
        TRY(emit_node(m, w->seq[f->lo + k], operands));
        for (int j = 1; j < f->count; j++) { /* later iterations' results are the body's */
            const node *t = &w->g->nodes.items[w->seq[f->lo + j * f->period + k]];
            for (int r = 0; r < t->spec.n_results; r++) m->value_of[t->results[r]] = m->value_of[n->results[r]];
        }
    }
    for (int c = 0; c < l.n_carries; c++) l.carries[c].next = m->value_of[nexts[c]];
    PUSH(&m->out->arena, &m->out->loops, l);
    return EIN_OK;
}

static ein_status emit_outputs(emitter *m)
{
    const graph *g = m->w->g;
    graph *out = m->out;
    for (int i = 0; i < g->outputs.n; i++) {
        output o = g->outputs.items[i];
        TRY(map_value(m, o.value, &o.value));
        PUSH(&out->arena, &out->outputs, o);
    }
    return EIN_OK;
}

static ein_status emit(walk *w, const found_loop *loops, int n_loops, graph *out)
{
    emitter m = {w, out, NULL, NULL};
    NEW(w->a, m.value_of, w->g->values.n);
    NEW(w->a, m.scalar_of, w->g->scalars.n);
    for (int i = 0; i < w->g->values.n; i++) m.value_of[i] = -1;
    for (int i = 0; i < w->g->scalars.n; i++) m.scalar_of[i] = -1;
    int at = 0;
    for (int i = 0; i < n_loops; i++) {
        TRY(emit_straight(&m, at, loops[i].lo));
        TRY(emit_loop(&m, &loops[i]));
        at = loops[i].lo + loops[i].period * loops[i].count;
    }
    TRY(emit_straight(&m, at, w->n));
    return emit_outputs(&m);
}

static ein_status canonicalize(walk *w, bool roll, graph *out)
{
    found_loop *loops = NULL;
    int n_loops = 0;
    TRY(order_nodes(w));
    TRY(hoist(w));
    if (roll) TRY(ein__loops_find(w, &loops, &n_loops));
    return emit(w, loops, n_loops, out);
}

static ein_status with_scratch(const graph *g, bool roll, graph *out, error *e)
{
    arena scratch = {NULL};
    graph absorbed;
    walk w = {.g = &absorbed, .a = &scratch};
    ein_status s = ein__absorb_permutes(&scratch, g, &absorbed);
    if (s == EIN_OK) s = canonicalize(&w, roll, out);
    ein__arena_free(&scratch);
    if (s == EIN_NO_MEMORY) ein__fail(e, s, "out of memory while ordering the graph");
    return s;
}

ein_status ein__canonicalize(const graph *g, graph *out, error *e) { return with_scratch(g, true, out, e); }

ein_status ein__canonicalize_flat(const graph *g, graph *out, error *e)
{
    return with_scratch(g, false, out, e);
}
