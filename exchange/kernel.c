/* SPDX-License-Identifier: Apache-2.0 */
/* The box-move kernel. A thread block finds its box by bisection over the first rows, decodes its row, and
 * walks the sources with the row in private accumulators: vectors of 16 bytes where every stride is 1 and
 * every address is aligned, then single elements. A state that is broadcast along the row is uniform: read
 * once per source and combined once. Where one source is only copied there are no accumulators. */
#include <stdio.h>

#include "exchange/exchange.h"

enum { THREADS = 256, EACH = EIN__ROW / THREADS, AT_SIZE = 4, AT_DST = 12, AT_SRC = 21, STATE_WORDS = 9 };

typedef struct writer {
    text *out;
    const exchange_problem *p;
    const merge *merge; /* NULL: plain copy of the only used state */
    bool several;   /* partials to combine */
    uint32_t row, walked; /* used states: uniform in a row; walked along it */
    bool unit;
    const char *type;
    int lanes; /* of a vector */
} writer;

/* `for (int s ...)` over the states of a set. */
#define EACH_STATE(s, set) \
    for (int s = 0; s < MAX_STATES; s++) \
        if (((set) >> s & 1) != 0)

typedef enum form { WIDE, NARROW } form;

static void head(const writer *w)
{
    ein__text_add(w->out,
        "#define PARAMS(IN, OUT, VAL, SEP) OUT(%s, dst) SEP VAL(i64, n_boxes) SEP IN(i64, boxes) "
        "SEP IN(i64, sources)\n"
        "KERNEL(PARAMS)\n{\n"
        "    i64 found = 0;\n"
        "    for (i64 end = n_boxes; end - found > 1;) {\n"
        "        const i64 mid = (found + end) / 2;\n"
        "        if (boxes[mid * %d] <= bx) found = mid;\n"
        "        else end = mid;\n"
        "    }\n"
        "    const i64 *const box = boxes + found * %d;\n"
        "    const i64 last = box[1] - 1, inner = box[%d + last], pieces = (inner + %d) / %d;\n"
        "    i64 row = bx - box[0], to = box[%d]",
        w->type, EIN__BOX_WORDS, EIN__BOX_WORDS, AT_SIZE, EIN__ROW - 1, EIN__ROW, AT_DST);
    EACH_STATE(s, w->row | w->walked)
        ein__text_add(w->out, ", from%d = box[%d]", s, AT_SRC + STATE_WORDS * s);
    ein__text_add(w->out, ";\n"
        "    const i64 skip = row %% pieces * %d, n = inner - skip < %d ? inner - skip : %d;\n"
        "    row /= pieces;\n"
        "    for (i64 k = last - 1; k >= 0; k--) {\n"
        "        const i64 at = row %% box[%d + k];\n"
        "        row /= box[%d + k];\n"
        "        to += at * box[%d + k];\n",
        EIN__ROW, EIN__ROW, EIN__ROW, AT_SIZE, AT_SIZE, AT_DST + 1);
    EACH_STATE(s, w->row | w->walked)
        ein__text_add(w->out, "        from%d += at * box[%d + k];\n", s, AT_SRC + STATE_WORDS * s + 1);
    ein__text_add(w->out, "    }\n");
}

/* Strides of the row, and how many vectors it has: 0 where an address is not aligned. */
static void geometry(const writer *w)
{
    if (!w->unit) {
        ein__text_add(w->out, "    const i64 step = box[%d + last], first = 0", AT_DST + 1);
        EACH_STATE(s, w->walked)
            ein__text_add(w->out, ", step%d = box[%d + last]", s, AT_SRC + STATE_WORDS * s + 1);
        ein__text_add(w->out, ";\n    to += skip * step;\n");
        EACH_STATE(s, w->walked) ein__text_add(w->out, "    from%d += skip * step%d;\n", s, s);
        return;
    }
    i64 bytes = ein__dtype_bytes(w->p->dtype);
    ein__text_add(w->out, "    typedef struct { %s v[%d]; } __attribute__((aligned(16))) vec;\n    to += skip;\n",
                  w->type, w->lanes);
    EACH_STATE(s, w->walked) ein__text_add(w->out, "    from%d += skip;\n", s);
    ein__text_add(w->out, "    i64 bits = (i64)(dst + to);\n");
    if (w->walked != 0) {
        ein__text_add(w->out, "    for (i64 j = 0; j < box[2]; j++) bits |= ");
        const char *between = "";
        EACH_STATE(s, w->walked) {
            ein__text_add(w->out, "%ssources[(box[3] + j) * %d + %d] + from%d * %d", between, w->p->n_states, s,
                          s, (int)bytes);
            between = " | ";
        }
        ein__text_add(w->out, ";\n");
    }
    ein__text_add(w->out, "    const i64 vecs = (bits & 15) == 0 ? n / %d : 0, first = vecs * %d;\n", w->lanes,
                  w->lanes);
}

/* The loops over the vectors or over the elements of the row, up to the body's brace. */
static void open_loop(const writer *w, form f, const char *indent)
{
    int passes = f == WIDE ? EACH / w->lanes : EACH;
    ein__text_add(w->out, "%sUNROLL_DEV(%d) for (int e = 0; e < %d; e++)\n%s    STEP_N(%s - e * THREADS) {\n",
                  indent, passes, passes, indent, f == WIDE ? "vecs" : "n - first");
    if (f == NARROW) ein__text_add(w->out, "%s        const i64 i = first + e * THREADS + tid;\n", indent);
}

static void close_loop(const writer *w, const char *indent) { ein__text_add(w->out, "%s    }\n", indent); }

static void load(const writer *w, form f, int s)
{
    if (f == WIDE) ein__text_add(w->out, "LD((const vec *)p%d, e * THREADS + tid)", s);
    else if (w->unit) ein__text_add(w->out, "LD(p%d, i)", s);
    else ein__text_add(w->out, "LD(p%d, i * step%d)", s, s);
}

static void store(const writer *w, form f, const char *value)
{
    if (f == WIDE) ein__text_add(w->out, "ST((vec *)(dst + to), e * THREADS + tid, %s);", value);
    else if (w->unit) ein__text_add(w->out, "ST(dst, to + i, %s);", value);
    else ein__text_add(w->out, "ST(dst, to + i * step, %s);", value);
}

static void sources(const writer *w, const char *indent, const char *j)
{
    EACH_STATE(s, w->walked)
        ein__text_add(w->out, "%sconst %s *const p%d = (const %s *)sources[(box[3] + %s) * %d + %d] + from%d;\n",
                      indent, w->type, s, w->type, j, w->p->n_states, s, s);
    EACH_STATE(s, w->row)
        ein__text_add(w->out, "%sconst %s r%d = LD((const %s *)sources[(box[3] + %s) * %d + %d], from%d);\n",
                      indent, w->type, s, w->type, j, w->p->n_states, s, s);
}

/* ---- one source, copied ------------------------------------------------------------------------------- */

static void copy(const writer *w)
{
    int s = __builtin_ctz(w->p->used);
    char value[16];
    sources(w, "    ", "0");
    for (form f = w->unit ? WIDE : NARROW; f <= NARROW; f++) {
        open_loop(w, f, "    ");
        if (w->row != 0) {
            snprintf(value, sizeof value, f == WIDE ? "x" : "r%d", s);
            if (f == WIDE)
                ein__text_add(w->out,
                              "            vec x;\n"
                              "            UNROLL(4) for (int v = 0; v < %d; v++) x.v[v] = r%d;\n",
                              w->lanes, s);
        } else {
            ein__text_add(w->out, "            const %s x = ", f == WIDE ? "vec" : w->type);
            load(w, f, s);
            ein__text_add(w->out, ";\n");
            snprintf(value, sizeof value, "x");
        }
        ein__text_add(w->out, "            ");
        store(w, f, value);
        ein__text_add(w->out, "\n");
        close_loop(w, "    ");
    }
}

/* ---- several sources, combined ------------------------------------------------------------------------ */

typedef char name[24];

/* How the states are called: first the accumulated ones, then those of the source at hand. */
static void names(const writer *w, form f, name store_[2 * MAX_STATES], const char **args)
{
    int n = w->merge->n_states;
    for (int s = 0; s < n; s++) {
        bool row = (w->row >> s & 1) != 0;
        const char *a = row ? "u%d" : f == WIDE ? "PA(w%d, e).v[v]" : "PA(a%d, e)";
        const char *b = row ? "r%d" : f == WIDE ? "x%d.v[v]" : "x%d";
        snprintf(store_[s], sizeof store_[s], a, s);
        snprintf(store_[n + s], sizeof store_[n + s], b, s);
        args[s] = store_[s];
        args[n + s] = store_[n + s];
    }
}

static void combine(const writer *w, uint32_t set, const char *const *args, const char *indent)
{
    EACH_STATE(s, set) {
        ein__text_add(w->out, "%sconst float c%d = ", indent, s);
        ein__expr_print(&w->merge->combine[s], args, NULL, EIN_F32, w->out);
        ein__text_add(w->out, ";\n");
    }
    EACH_STATE(s, set) ein__text_add(w->out, "%s%s = c%d;\n", indent, args[s], s);
}

static void take_first(const writer *w, form f)
{
    open_loop(w, f, "            ");
    EACH_STATE(s, w->walked) {
        ein__text_add(w->out, "                    PA(%c%d, e) = ", f == WIDE ? 'w' : 'a', s);
        load(w, f, s);
        ein__text_add(w->out, ";\n");
    }
    close_loop(w, "            ");
}

static void take_next(const writer *w, form f)
{
    name store_[2 * MAX_STATES];
    const char *args[2 * MAX_STATES];
    names(w, f, store_, args);
    open_loop(w, f, "        ");
    EACH_STATE(s, w->walked) {
        ein__text_add(w->out, "                const %s x%d = ", f == WIDE ? "vec" : "float", s);
        load(w, f, s);
        ein__text_add(w->out, ";\n");
    }
    if (f == WIDE)
        ein__text_add(w->out, "                UNROLL(4) for (int v = 0; v < %d; v++) {\n", w->lanes);
    combine(w, w->walked, args, f == WIDE ? "                    " : "                ");
    if (f == WIDE) ein__text_add(w->out, "                }\n");
    close_loop(w, "        ");
}

static void finish(const writer *w, form f)
{
    name store_[2 * MAX_STATES];
    const char *args[2 * MAX_STATES];
    const expr *last = &w->merge->finalize[w->p->result];
    names(w, f, store_, args);
    open_loop(w, f, "    ");
    if (f == WIDE)
        ein__text_add(w->out, "            vec y;\n            UNROLL(4) for (int v = 0; v < %d; v++) y.v[v] = ",
                      w->lanes);
    else ein__text_add(w->out, "            const float y = ");
    if (last->n > 0) ein__expr_print(last, args, NULL, EIN_F32, w->out);
    else ein__text_add(w->out, "%s", args[w->p->result]);
    ein__text_add(w->out, ";\n            ");
    store(w, f, "y");
    ein__text_add(w->out, "\n");
    close_loop(w, "    ");
}

static void merge_sources(const writer *w)
{
    form least = w->unit ? WIDE : NARROW;
    name store_[2 * MAX_STATES];
    const char *args[2 * MAX_STATES];
    EACH_STATE(s, w->walked) {
        if (w->unit) ein__text_add(w->out, "    PRIVA(vec, w%d, %d);\n", s, EACH / w->lanes);
        ein__text_add(w->out, "    PRIVA(float, a%d, %d);\n", s, EACH);
    }
    EACH_STATE(s, w->row) ein__text_add(w->out, "    float u%d = 0.0f;\n", s);
    ein__text_add(w->out, "    for (i64 j = 0; j < box[2]; j++) {\n");
    sources(w, "        ", "j");
    ein__text_add(w->out, "        if (j == 0) {\n");
    for (form f = least; f <= NARROW && w->walked != 0; f++) take_first(w, f);
    EACH_STATE(s, w->row) ein__text_add(w->out, "            u%d = r%d;\n", s, s);
    ein__text_add(w->out, "            continue;\n        }\n");
    for (form f = least; f <= NARROW && w->walked != 0 && w->several; f++) take_next(w, f);
    names(w, NARROW, store_, args);
    if (w->several) combine(w, w->row, args, "        ");
    ein__text_add(w->out, "    }\n");
    for (form f = least; f <= NARROW; f++) finish(w, f);
}

static bool only_copies(const exchange_problem *p)
{
    if (p->merge == NULL) return true;
    return p->used == 1u << p->result && p->merge->finalize[p->result].n == 0 &&
           p->states[p->result]->n_partials == 1;
}

ein_status ein__exchange_kernel(arena *a, const exchange_problem *p, const exchange *x, kernel_text *out)
{
    text body = {0};
    writer w = {&body, p, only_copies(p) ? NULL : p->merge, p->states[__builtin_ctz(p->used)]->n_partials > 1,
                x->row_states, p->used & ~x->row_states, x->unit_stride, ein__dtype_kernel(p->dtype),
                (int)(16 / ein__dtype_bytes(p->dtype))};
    head(&w);
    geometry(&w);
    if (w.merge == NULL) copy(&w);
    else merge_sources(&w);
    ein__text_add(&body, "}\n");
    ein_status status = ein__text_status(&body);
    if (status == EIN_OK) status = ein__kernel_make(a, ein__text_get(&body), THREADS, out);
    ein__text_free(&body);
    return status;
}

/* ---- the table ---------------------------------------------------------------------------------------- */

i64 ein__exchange_boxes(const exchange *x, int first, int n, const int *first_source, i64 *words)
{
    i64 rows = 0;
    for (int i = 0; i < n; i++, words += EIN__BOX_WORDS) {
        const transfer *t = &x->transfers[first + i];
        for (int k = 0; k < EIN__BOX_WORDS; k++) words[k] = 0;
        words[0] = rows;
        words[1] = t->rank;
        words[2] = t->n_sources;
        words[3] = first_source[i];
        words[AT_DST] = t->dst_offset;
        for (int s = 0; s < MAX_STATES; s++) words[AT_SRC + STATE_WORDS * s] = t->src_offset[s];
        for (int k = 0; k < t->rank; k++) {
            words[AT_SIZE + k] = t->size[k];
            words[AT_DST + 1 + k] = t->dst_stride[k];
            for (int s = 0; s < MAX_STATES; s++)
                words[AT_SRC + STATE_WORDS * s + 1 + k] = t->src_stride[s][k];
        }
        rows += ein__transfer_rows(t);
    }
    return rows;
}
