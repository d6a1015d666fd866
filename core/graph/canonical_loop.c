/* SPDX-License-Identifier: Apache-2.0 */
/* Find repeated layers: for every period p, runs of places i where nodes i and i + p look alike; of all runs
 * that prove to be loops take the one that saves most nodes (then the shortest period), and search again
 * before and after it. Quadratic in the number of nodes, with a small constant. */
#include "core/graph/canonical_loop.h"

#include <string.h>

static bool is_leaf(const walk *w, value v) { return w->g->values.items[v].kind == VALUE_LEAF; }
static int place_of(const walk *w, value v) { return is_leaf(w, v) ? -1 : w->pos[w->g->values.items[v].owner]; }

static value operand_at(const walk *w, const found_loop *f, int iteration, int k, int o)
{
    return w->g->nodes.items[w->seq[f->lo + iteration * f->period + k]].operands[o];
}

static bool leaves_alike(const walk *w, value a, value b)
{
    const value_info *x = &w->g->values.items[a], *y = &w->g->values.items[b];
    const leaf *l = &w->g->leaves.items[x->owner], *m = &w->g->leaves.items[y->owner];
    return l->kind == m->kind && l->kind != LEAF_CONSTANT && l->kind != LEAF_INPUT && x->dtype == y->dtype &&
           x->rank == y->rank && memcmp(x->shape, y->shape, (size_t)x->rank * sizeof *x->shape) == 0;
}

static ref_kind classify_leaves(const walk *w, const found_loop *f, int k, int o, value first, loop_ref *out)
{
    for (int j = 0; j < f->count; j++) {
        value v = operand_at(w, f, j, k, o);
        if (!is_leaf(w, v) || !leaves_alike(w, first, v)) return REF_BAD;
        for (int i = 0; i < j; i++)
            if (operand_at(w, f, i, k, o) == v) return REF_BAD;
        if (out->members != NULL) out->members[j] = v;
    }
    return REF_MEMBERS;
}

/* Offset in the body of the value made in iteration j, or -1. */
static int body_offset(const walk *w, const found_loop *f, value v, int j)
{
    int at = place_of(w, v) - (f->lo + j * f->period);
    return !is_leaf(w, v) && at >= 0 && at < f->period ? at : -1;
}

static bool same_source(const walk *w, value a, value b) { return w->g->values.items[a].result == w->g->values.items[b].result; }

void ein__loop_classify(const walk *w, const found_loop *f, int k, int o, loop_ref *out)
{
    value v0 = operand_at(w, f, 0, k, o), v1 = operand_at(w, f, 1, k, o);
    bool same = true;
    out->init = v0;
    out->kind = REF_BAD;
    for (int j = 1; j < f->count; j++) same = same && operand_at(w, f, j, k, o) == v0;
    if (same && place_of(w, v0) < f->lo) {
        out->kind = REF_SHARED;
        return;
    }
    if (is_leaf(w, v0) && is_leaf(w, v1)) {
        out->kind = classify_leaves(w, f, k, o, v0, out);
        return;
    }
    int inside = body_offset(w, f, v0, 0), lag = inside >= 0 ? 0 : 1;
    int offset = lag == 0 ? inside : body_offset(w, f, v1, 0);
    if (offset < 0 || (lag == 1 && place_of(w, v0) >= f->lo)) return;
    for (int j = lag; j < f->count; j++) {
        value v = operand_at(w, f, j, k, o);
        if (body_offset(w, f, v, j - lag) != offset || !same_source(w, v, lag == 0 ? v0 : v1)) return;
    }
    if (lag == 1) {
        const value_info *a = &w->g->values.items[v0], *b = &w->g->values.items[v1];
        if (a->dtype != b->dtype || ein__value_numel(w->g, v0) != ein__value_numel(w->g, v1)) return;
    }
    out->next = v1;
    out->kind = lag == 0 ? REF_INSIDE : REF_CARRY;
}

/* A leaf that stands for an iteration may be used in no other role. */
typedef struct leaf_role { int group, iteration; } leaf_role;

static bool take_members(const walk *w, const found_loop *f, const loop_ref *r, leaf_role *roles)
{
    int group = w->g->values.items[r->members[0]].owner + 1;
    for (int j = 0; j < f->count; j++) {
        leaf_role *own = &roles[w->g->values.items[r->members[j]].owner];
        if (own->group != 0 && (own->group != group || own->iteration != j)) return false;
        *own = (leaf_role){group, j};
    }
    return true;
}

static bool uses_role(const walk *w, value v, const leaf_role *roles)
{
    return is_leaf(w, v) && roles[w->g->values.items[v].owner].group != 0;
}

/* Outside the loop only the last iteration's values may be used, and no iteration's own leaf. */
static bool outside_fits(const walk *w, const found_loop *f, const leaf_role *roles)
{
    int hi = f->lo + f->period * f->count;
    for (int i = 0; i < w->n; i++) {
        if (i >= f->lo && i < hi) continue;
        const node *n = &w->g->nodes.items[w->seq[i]];
        for (int o = 0; o < n->spec.n_operands; o++) {
            int p = place_of(w, n->operands[o]);
            if (uses_role(w, n->operands[o], roles) || (p >= f->lo && p < hi - f->period)) return false;
        }
    }
    for (int i = 0; i < w->g->outputs.n; i++) {
        value v = w->g->outputs.items[i].value;
        int p = place_of(w, v);
        if (uses_role(w, v, roles) || (p >= f->lo && p < hi - f->period)) return false;
    }
    return true;
}

static bool is_loop(const walk *w, const found_loop *f, leaf_role *roles, value *members)
{
    memset(roles, 0, (size_t)w->g->leaves.n * sizeof *roles);
    for (int pass = 0; pass < 2; pass++) /* members first, so that shared uses of them are seen */
        for (int k = 0; k < f->period; k++) {
            const node *n = &w->g->nodes.items[w->seq[f->lo + k]];
            for (int o = 0; o < n->spec.n_operands; o++) {
                loop_ref r = {.members = members};
                ein__loop_classify(w, f, k, o, &r);
                if (r.kind == REF_BAD) return false;
                if (pass == 0 && r.kind == REF_MEMBERS && !take_members(w, f, &r, roles)) return false;
                if (pass == 1 && (r.kind == REF_SHARED || r.kind == REF_CARRY) && uses_role(w, r.init, roles))
                    return false;
            }
        }
    return outside_fits(w, f, roles);
}

static bool alike(const walk *w, int i, int p)
{
    return ein__hash_equal(w->signature[w->seq[i]], w->signature[w->seq[i + p]]);
}

/* Where the search works: `tap` gives the first place from each on whose value is an output of the graph. */
typedef struct finder { const walk *w; const int *tap; leaf_role *roles; value *members; } finder;

static ein_status find_taps(walk *w, const int **out)
{
    int *tap;
    NEW(w->a, tap, w->n + 1);
    for (int i = 0; i <= w->n; i++) tap[i] = w->n;
    for (int i = 0; i < w->g->outputs.n; i++) {
        int at = place_of(w, w->g->outputs.items[i].value);
        if (at >= 0) tap[at] = at;
    }
    for (int i = w->n - 1; i >= 0; i--)
        if (tap[i + 1] < tap[i]) tap[i] = tap[i + 1];
    *out = tap;
    return EIN_OK;
}

/* Repetitions of seq[at, at + p) before `end`; the first that makes an output is the last. */
static int count_from(const finder *f, int at, int p, int end)
{
    int count = (end - at) / p, until_tap = (f->tap[at] - at) / p + 1;
    return count < until_tap ? count : until_tap;
}

/* Best loop inside seq[lo, hi); count 0: none. */
static found_loop best_loop(const finder *x, int lo, int hi)
{
    const walk *w = x->w;
    found_loop best = {0, 0, 0};
    int saved = 0;
    for (int p = 1; 2 * p <= hi - lo; p++) {
        for (int a = lo, b; a + p < hi; a = b + 1) {
            for (b = a; b + p < hi && alike(w, b, p); b++) {}
            for (int at = a; b - at >= p && at < a + p; at++) {
                found_loop f = {at, p, count_from(x, at, p, b + p)};
                if ((f.count - 1) * p <= saved || !is_loop(w, &f, x->roles, x->members)) continue;
                best = f;
                saved = (f.count - 1) * p;
            }
        }
    }
    return best;
}

static void find_in(const finder *x, int lo, int hi, found_loop *out, int *n)
{
    found_loop f = best_loop(x, lo, hi);
    if (f.count == 0) return;
    find_in(x, lo, f.lo, out, n);
    out[(*n)++] = f;
    find_in(x, f.lo + f.period * f.count, hi, out, n);
}

ein_status ein__loops_find(walk *w, found_loop **out, int *n)
{
    finder x = {.w = w};
    NEW(w->a, *out, w->n / 2 + 1);
    NEW(w->a, x.roles, w->g->leaves.n);
    NEW(w->a, x.members, w->n + 1);
    TRY(find_taps(w, &x.tap));
    find_in(&x, 0, w->n, *out, n);
    return EIN_OK;
}
