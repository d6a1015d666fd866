/* SPDX-License-Identifier: Apache-2.0 */
/* A user's op: his body between our parameters. The grid is an integer expression of the block's extents:
 *
 *     sum = term {("+" | "-") term}      term = unit {("*" | "/") unit}
 *     unit = number | n_<label> | "(" sum ")" | "cdiv(" sum "," sum ")" */
#include <ctype.h>
#include <string.h>

#include "jit/family/parts.h"

enum { THREADS = 256, MAX_DEPTH = 32 };

static bool applicable(const job *j)
{
    return j->node->kind == OP_CUSTOM && (j->mode == JOB_FINAL || j->mode == JOB_STATES);
}

/* ---- the grid ---- */

typedef struct reader {
    const job *job;
    const char *at, *wrong; /* where an error was found */
    int depth;
} reader;

static i64 read_sum(reader *r);

static bool accept(reader *r, const char *token)
{
    while (*r->at == ' ') r->at++;
    if (strncmp(r->at, token, strlen(token)) != 0) return false;
    r->at += strlen(token);
    return true;
}

static i64 refuse(reader *r)
{
    if (r->wrong == NULL) r->wrong = r->at;
    return 0;
}

static i64 read_label(reader *r)
{
    const spec *s = &r->job->node->spec;
    size_t n = 0;
    while (isalnum((unsigned char)r->at[n])) n++;
    for (int l = 0; l < s->n_labels; l++)
        if (strlen(s->labels[l].name) == n && memcmp(s->labels[l].name, r->at, n) == 0) {
            r->at += n;
            return r->job->box.len[l];
        }
    return refuse(r);
}

static i64 read_number(reader *r)
{
    i64 x = 0;
    for (; isdigit((unsigned char)*r->at); r->at++)
        if (__builtin_mul_overflow(x, 10, &x) || __builtin_add_overflow(x, *r->at - '0', &x))
            return refuse(r);
    return x;
}

static i64 read_call(reader *r)
{
    i64 a = read_sum(r);
    if (!accept(r, ",")) return refuse(r);
    i64 b = read_sum(r);
    if (b <= 0 || a < 0 || !accept(r, ")")) return refuse(r);
    return a / b + (a % b != 0);
}

static i64 read_unit(reader *r)
{
    if (r->wrong != NULL || r->depth >= MAX_DEPTH) return refuse(r);
    if (accept(r, "cdiv(")) return read_call(r);
    if (accept(r, "n_")) return read_label(r);
    if (accept(r, "(")) {
        i64 x = read_sum(r);
        return accept(r, ")") ? x : refuse(r);
    }
    return isdigit((unsigned char)*r->at) ? read_number(r) : refuse(r);
}

static i64 read_term(reader *r)
{
    i64 x = read_unit(r);
    while (r->wrong == NULL) {
        if (accept(r, "*")) {
            if (__builtin_mul_overflow(x, read_unit(r), &x)) refuse(r);
        } else if (accept(r, "/")) {
            i64 y = read_unit(r);
            x = y > 0 ? x / y : refuse(r);
        } else {
            break;
        }
    }
    return x;
}

static i64 read_sum(reader *r)
{
    r->depth++;
    i64 x = read_term(r);
    while (r->wrong == NULL) {
        if (accept(r, "+")) {
            if (__builtin_add_overflow(x, read_term(r), &x)) refuse(r);
        } else if (accept(r, "-")) {
            if (__builtin_sub_overflow(x, read_term(r), &x)) refuse(r);
        } else {
            break;
        }
    }
    r->depth--;
    return x;
}

static ein_status read_grid(const job *j, i64 *blocks, error *e)
{
    const char *source = j->node->custom.grid;
    reader r = {.job = j, .at = source};
    *blocks = read_sum(&r);
    accept(&r, "");
    if (*r.at != 0) refuse(&r);
    if (r.wrong != NULL)
        return ein__fail(e, EIN_INVALID, "%s: grid \"%s\": error at column %d", j->node->custom.name, source,
                         (int)(r.wrong - source) + 1);
    if (*blocks < 0)
        return ein__fail(e, EIN_INVALID, "%s: grid \"%s\" is %lld", j->node->custom.name, source,
                         (long long)*blocks);
    return EIN_OK;
}

/* ---- the kernel ---- */

static void strides(writer *w, const spec *s, const index_map *m, const view *v, const char *id)
{
    for (int l = 0; l < s->n_labels; l++)
        if (ein__map_has(m, l))
            ein__writer_int(w, ein__name("s_%s_%s", id, s->labels[l].name).s, v->stride[l]);
}

static void parameters(writer *w, const job *j)
{
    const spec *s = &j->node->spec;
    for (int i = 0; i < j->n_in; i++) ein__writer_in(w, &j->in[i], 0, ein__name("x%d", i).s);
    for (int i = 0; i < j->n_out; i++) ein__writer_out(w, &j->out[i], 0, ein__name("y%d", i).s);
    for (int l = 0; l < s->n_labels; l++) {
        ein__writer_int(w, ein__name("n_%s", s->labels[l].name).s, j->box.len[l]);
        ein__writer_int(w, ein__name("o_%s", s->labels[l].name).s, j->box.lo[l]);
    }
    for (int i = 0; i < j->n_in; i++) strides(w, s, &s->operands[i], &j->in[i], ein__name("x%d", i).s);
    for (int i = 0; i < j->n_out; i++) strides(w, s, &s->states[i], &j->out[i], ein__name("y%d", i).s);
}

static ein_status emit(arena *a, const job *j, launch *out, error *e)
{
    const spec *s = &j->node->spec;
    writer w;
    for (int r = 0; r < s->n_results && j->mode == JOB_FINAL && s->merge != NULL; r++)
        if (s->merge->finalize[r].n > 0 || s->n_states != s->n_results)
            return ein__fail(e, EIN_INTERNAL, "%s: a user's kernel writes states and finishes no merge",
                             j->node->custom.name);
    TRY(read_grid(j, &out->grid[0], e));
    if (ein__box_empty(&j->box, s->n_labels, ein__spec_aggregated(s))) out->grid[0] = 0;
    out->grid[1] = out->grid[2] = 1;
    ein__writer_begin(&w, a);
    parameters(&w, j);
    ein__text_add(&w.body, "%s\n", j->node->custom.kernel);
    return ein__writer_end(&w, "custom", THREADS, out);
}

const family ein__family_custom = {"custom", applicable, emit};
