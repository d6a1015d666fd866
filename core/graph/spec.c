/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to a join-agg spec, its verifier, its text and its key. Where a label's cut makes partial states
 * is decided here once: a label that no result has, that may be cut, and that a merge joins. */
#include "core/graph/spec.h"

#include <inttypes.h>
#include <string.h>

enum { LARGEST = 40 }; /* log2 of the most elements a tensor may have */

#define WRONG(...) ein__fail(e, EIN_INTERNAL, "spec: " __VA_ARGS__)

static uint32_t labels_of(const index_map *m)
{
    uint32_t set = 0;
    for (int i = 0; i < m->n; i++) {
        const term *t = &m->terms[i];
        if (t->label >= 0) set |= 1u << t->label;
        if (t->kind == TERM_WINDOW && t->label2 >= 0) set |= 1u << t->label2;
    }
    return set;
}

bool ein__map_has(const index_map *m, int l) { return (labels_of(m) >> l & 1) != 0; }

i64 ein__map_numel(const index_map *m)
{
    i64 n = 1;
    for (int i = 0; i < m->n; i++) n *= m->terms[i].extent;
    return n;
}

uint32_t ein__spec_aggregated(const spec *s)
{
    if (s->merge == NULL) return 0;
    uint32_t set = 0;
    for (int l = 0; l < s->n_labels; l++)
        if (!s->labels[l].whole) set |= 1u << l;
    for (int r = 0; r < s->n_results; r++) set &= ~labels_of(&s->results[r]);
    return set;
}

role ein__spec_role(const spec *s, int l)
{
    if (s->labels[l].whole) return ROLE_WHOLE;
    if (s->two_step >> l & 1) return ROLE_TWO_STEP;
    return ein__spec_aggregated(s) >> l & 1 ? ROLE_AGGREGATED : ROLE_PARALLEL;
}

/* ---- verifier ---- */

static ein_status check_labels(const spec *s, error *e)
{
    if (s->n_labels < 0 || s->n_labels > MAX_LABELS)
        return WRONG("%d labels", s->n_labels);
    for (int l = 0; l < s->n_labels; l++) {
        const label *a = &s->labels[l];
        if (a->name[0] == 0 || memchr(a->name, 0, sizeof a->name) == NULL)
            return WRONG("label %d has no name", l);
        if (a->extent < 0 || a->granule < 1)
            return WRONG("label %s: extent %" PRId64 ", granule %" PRId64, a->name, a->extent, a->granule);
        for (int k = 0; k < l; k++)
            if (strcmp(s->labels[k].name, a->name) == 0)
                return WRONG("two labels are called %s", a->name);
    }
    return EIN_OK;
}

/* How far `step` goes from the first to the last of n values; nothing that fits in a tensor overflows. */
static bool reach(i64 step, i64 n, i64 *lo, i64 *hi)
{
    const i64 most = (i64)1 << LARGEST;
    if (n < 2) return true;
    if (n - 1 > most || step < -most / (n - 1) || step > most / (n - 1)) return false;
    *(step < 0 ? lo : hi) += step * (n - 1);
    return true;
}

static ein_status check_window(const spec *s, const term *t, error *e)
{
    const label *l = &s->labels[t->label];
    if (t->label2 < -1 || t->label2 >= s->n_labels || t->label2 == t->label)
        return WRONG("window of labels %d and %d", t->label, t->label2);
    i64 n2 = t->label2 >= 0 ? s->labels[t->label2].extent : 1, lo = t->offset, hi = t->offset;
    bool ok = reach(t->step, l->extent, &lo, &hi) && reach(t->step2, n2, &lo, &hi);
    if (l->extent == 0 || n2 == 0 || (ok && lo >= 0 && hi < t->extent)) return EIN_OK;
    return WRONG("window of label %s leaves %" PRId64 " elements", l->name, t->extent);
}

static ein_status check_term(const spec *s, const term *t, error *e)
{
    if (t->kind == TERM_FIXED) {
        if (t->label != -1 || t->offset < 0 || t->offset >= t->extent)
            return WRONG("fixed index %" PRId64 " of %" PRId64, t->offset, t->extent);
        return EIN_OK;
    }
    if (t->kind != TERM_LABEL && t->kind != TERM_RANGE && t->kind != TERM_ALL && t->kind != TERM_WINDOW)
        return WRONG("term of kind %d", (int)t->kind);
    if (t->label < 0 || t->label >= s->n_labels || t->extent < 0)
        return WRONG("term of label %d, extent %" PRId64, t->label, t->extent);
    const label *l = &s->labels[t->label];
    if (t->kind == TERM_LABEL && (t->extent != l->extent || t->offset != 0))
        return WRONG("label %s of extent %" PRId64 " indexes %" PRId64, l->name, l->extent, t->extent);
    return t->kind == TERM_WINDOW ? check_window(s, t, e) : EIN_OK;
}

static ein_status check_map(const spec *s, const index_map *m, const char *what, int index, error *e)
{
    if (m->n < 0 || m->n > MAX_TERMS)
        return WRONG("%s %d has %d terms", what, index, m->n);
    i64 numel = 1;
    for (int i = 0; i < m->n; i++) {
        TRY(check_term(s, &m->terms[i], e));
        i64 n = m->terms[i].extent > 0 ? m->terms[i].extent : 1;
        if (n > ((i64)1 << LARGEST) / numel)
            return WRONG("%s %d has more than 2^%d elements", what, index, LARGEST);
        numel *= n;
    }
    return EIN_OK;
}

static ein_status check_written(const spec *s, const index_map *m, const char *what, int index, error *e)
{
    TRY(check_map(s, m, what, index, e));
    uint32_t seen = 0;
    for (int i = 0; i < m->n; i++) {
        const term *t = &m->terms[i];
        if (t->kind != TERM_LABEL) return WRONG("%s %d has a term that is no label", what, index);
        if (seen >> t->label & 1)
            return WRONG("%s %d has label %s twice", what, index, s->labels[t->label].name);
        seen |= 1u << t->label;
    }
    return EIN_OK;
}

/* The labels of `part` are labels of `m`, in the same order: its blocks are m's without some axes. */
static bool is_part(const index_map *part, const index_map *m)
{
    int k = 0;
    for (int i = 0; i < m->n && k < part->n; i++) k += part->terms[k].label == m->terms[i].label;
    return k == part->n;
}

/* All states that an expression reads are parts of `m`; b's states follow a's. */
static bool reads_parts(const spec *s, const expr *x, const index_map *m)
{
    for (int i = 0; i < x->n; i++)
        if (x->nodes[i].op == X_ARG && !is_part(&s->states[x->nodes[i].a % s->n_states], m)) return false;
    return true;
}

static ein_status check_merge(const spec *s, error *e)
{
    const merge *m = s->merge;
    if (m == NULL) {
        if (s->n_states != s->n_results)
            return WRONG("%d states, %d results and no merge", s->n_states, s->n_results);
        return EIN_OK;
    }
    if (m->n_states != s->n_states || m->n_results != s->n_results)
        return WRONG("merge %s has %d states and %d results, the op %d and %d", m->name, m->n_states,
                     m->n_results, s->n_states, s->n_results);
    for (int k = 0; k < s->n_states; k++)
        if (!reads_parts(s, &m->combine[k], &s->states[k]))
            return WRONG("state %d is combined from one with other labels, or in another order", k);
    for (int r = 0; r < s->n_results; r++) {
        bool same = m->finalize[r].n == 0;
        if (same && r >= s->n_states) return WRONG("result %d has no state", r);
        if (same ? !is_part(&s->states[r], &s->results[r]) : !reads_parts(s, &m->finalize[r], &s->results[r]))
            return WRONG("result %d is made of a state with other labels, or in another order", r);
    }
    return EIN_OK;
}

/* A label that may be cut either indexes every state (disjoint blocks) or none (partial states). */
static ein_status check_roles(const spec *s, error *e)
{
    for (int l = 0; l < s->n_labels; l++) {
        if (s->labels[l].whole) continue;
        int have = 0, results = 0;
        for (int k = 0; k < s->n_states; k++) have += ein__map_has(&s->states[k], l);
        for (int r = 0; r < s->n_results; r++) results += ein__map_has(&s->results[r], l);
        bool all = have == s->n_states && results == s->n_results, none = have == 0 && results == 0;
        if (!all && !none)
            return WRONG("label %s indexes some results only", s->labels[l].name);
        if (none && s->merge == NULL)
            return WRONG("label %s is in no result and nothing merges it", s->labels[l].name);
        if (none && (s->two_step >> l & 1))
            return WRONG("two-step label %s is in no result", s->labels[l].name);
    }
    return EIN_OK;
}

ein_status ein__spec_check(const spec *s, error *e)
{
    TRY(check_labels(s, e));
    if (s->n_operands < 0 || s->n_states < 1 || s->n_states > MAX_STATES || s->n_results < 1 ||
        s->n_results > MAX_RESULTS)
        return WRONG("%d operands, %d states, %d results", s->n_operands, s->n_states, s->n_results);
    for (int i = 0; i < s->n_operands; i++) TRY(check_map(s, &s->operands[i], "operand", i, e));
    for (int k = 0; k < s->n_states; k++) TRY(check_written(s, &s->states[k], "state", k, e));
    for (int r = 0; r < s->n_results; r++) TRY(check_written(s, &s->results[r], "result", r, e));
    if (s->n_labels < 32 && s->two_step >> s->n_labels != 0)
        return WRONG("two-step labels %#x of %d", (unsigned)s->two_step, s->n_labels);
    TRY(check_merge(s, e));
    return check_roles(s, e);
}

/* ---- text ---- */

/* "oh", "oh*2", "-1*oh" */
static void print_step(const char *name, i64 step, text *out)
{
    if (step < 0) ein__text_add(out, "%" PRId64 "*%s", step, name);
    else if (step == 1) ein__text_add(out, "%s", name);
    else ein__text_add(out, "%s*%" PRId64, name, step);
}

static void print_term(const spec *s, const term *t, text *out)
{
    if (t->kind == TERM_FIXED) {
        ein__text_add(out, "=%" PRId64 "<%" PRId64, t->offset, t->extent);
        return;
    }
    print_step(s->labels[t->label].name, t->kind == TERM_WINDOW ? t->step : 1, out);
    if (t->kind == TERM_LABEL) return;
    if (t->kind == TERM_WINDOW && t->label2 >= 0) {
        if (t->step2 >= 0) ein__text_add(out, "+");
        print_step(s->labels[t->label2].name, t->step2, out);
    }
    if (t->offset != 0) ein__text_add(out, "%+" PRId64, t->offset);
    if (t->kind == TERM_ALL && t->scalar >= 0) ein__text_add(out, "+$%d", t->scalar);
    if (t->kind == TERM_ALL && t->scalar < 0) ein__text_add(out, "+?");
    ein__text_add(out, "<%" PRId64, t->extent);
}

static void print_map(const spec *s, const index_map *m, char kind, int index, text *out)
{
    ein__text_add(out, "%c%d[", kind, index);
    for (int i = 0; i < m->n; i++) {
        if (i > 0) ein__text_add(out, ",");
        print_term(s, &m->terms[i], out);
    }
    ein__text_add(out, "]");
}

static bool states_are_results(const spec *s)
{
    if (s->n_states != s->n_results) return false;
    for (int k = 0; k < s->n_states; k++)
        if (s->states[k].n != s->results[k].n || !is_part(&s->states[k], &s->results[k])) return false;
    return true;
}

static void print_label(const spec *s, int l, text *out)
{
    const label *a = &s->labels[l];
    ein__text_add(out, " %s=%" PRId64, a->name, a->extent);
    if (a->granule > 1) ein__text_add(out, "/%" PRId64, a->granule);
    role r = ein__spec_role(s, l);
    if (r == ROLE_WHOLE) ein__text_add(out, "(whole)");
    if (r == ROLE_TWO_STEP) ein__text_add(out, "(two-step)");
    if (r == ROLE_AGGREGATED) ein__text_add(out, "(%s)", s->merge->name);
}

void ein__spec_print(const spec *s, text *out)
{
    for (int i = 0; i < s->n_operands; i++) {
        print_map(s, &s->operands[i], 'x', i, out);
        ein__text_add(out, " ");
    }
    ein__text_add(out, "->");
    for (int r = 0; r < s->n_results; r++) {
        ein__text_add(out, " ");
        print_map(s, &s->results[r], 'y', r, out);
    }
    if (!states_are_results(s)) {
        ein__text_add(out, " of");
        for (int k = 0; k < s->n_states; k++) {
            ein__text_add(out, " ");
            print_map(s, &s->states[k], 'a', k, out);
        }
    }
    if (s->n_labels > 0) ein__text_add(out, " ");
    for (int l = 0; l < s->n_labels; l++) print_label(s, l, out);
}

/* ---- key ---- */

enum { KEY_LABELS = 0x100, KEY_EXTENT, KEY_GRANULE, KEY_WHOLE, KEY_TERMS, KEY_TERM, KEY_OPERANDS, KEY_STATES,
       KEY_RESULTS, KEY_TWO_STEP, KEY_MERGE };

static void key_map(const index_map *m, text *key)
{
    ein__key_int(key, KEY_TERMS, m->n);
    for (int i = 0; i < m->n; i++) {
        const term *t = &m->terms[i];
        ein__key_int(key, KEY_TERM, (int)t->kind);
        ein__key_int(key, KEY_TERM, t->label);
        ein__key_int(key, KEY_TERM, t->extent);
        ein__key_int(key, KEY_TERM, t->offset);
        ein__key_int(key, KEY_TERM, t->kind == TERM_ALL ? t->scalar : -1);
        if (t->kind != TERM_WINDOW) continue;
        ein__key_int(key, KEY_TERM, t->step);
        ein__key_int(key, KEY_TERM, t->label2);
        ein__key_int(key, KEY_TERM, t->step2);
    }
}

void ein__spec_key(const spec *s, text *key)
{
    ein__key_int(key, KEY_LABELS, s->n_labels);
    for (int l = 0; l < s->n_labels; l++) {
        ein__key_int(key, KEY_EXTENT, s->labels[l].extent);
        ein__key_int(key, KEY_GRANULE, s->labels[l].granule);
        ein__key_int(key, KEY_WHOLE, s->labels[l].whole);
    }
    ein__key_int(key, KEY_OPERANDS, s->n_operands);
    for (int i = 0; i < s->n_operands; i++) key_map(&s->operands[i], key);
    ein__key_int(key, KEY_STATES, s->n_states);
    for (int k = 0; k < s->n_states; k++) key_map(&s->states[k], key);
    ein__key_int(key, KEY_RESULTS, s->n_results);
    for (int r = 0; r < s->n_results; r++) key_map(&s->results[r], key);
    ein__key_int(key, KEY_TWO_STEP, s->two_step);
    ein__key_int(key, KEY_MERGE, s->merge != NULL);
    if (s->merge != NULL) ein__merge_key(s->merge, key);
}
