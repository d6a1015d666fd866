/* SPDX-License-Identifier: Apache-2.0 */
/* The box-move kernel. A thread block finds its box by bisection over the first rows, decodes its row, and
 * walks the sources with the row in private accumulators: vectors where every stride is 1 and every address is
 * aligned, then single elements. A vector has as many lanes as elements of the widest type fill 16 bytes; those of
 * narrower types are shorter. Every state is loaded as it is stored, converted to the type that it is combined in,
 * and the finished value to the destination's. A state that is broadcast along the row is uniform: read once per
 * source and combined once. Where one source is only copied there are no accumulators, and the type is only a
 * size. */
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
    int widest, lanes; /* bytes of the widest type; lanes of a vector */
    const char *type;  /* of the destination */
    int bytes;
    const char *stored[MAX_STATES], *computed[MAX_STATES];
    int stored_bytes[MAX_STATES], computed_bytes[MAX_STATES];
    ein_dtype types[2 * MAX_STATES]; /* of a combine's arguments */
} writer;

/* `for (int s ...)` over the states of a set. */
#define EACH_STATE(s, set) \
    for (int s = 0; s < MAX_STATES; s++) \
        if (((set) >> s & 1) != 0)

typedef enum form { WIDE, NARROW } form;

/* A type of its size, for what is only copied. */
static const char *raw_type(ein_dtype d)
{
    i64 bytes = ein__dtype_bytes(d);
    return bytes == 1 ? "u8" : bytes == 2 ? "u16" : bytes == 4 ? "u32" : "u64";
}

static void find_types(writer *w)
{
    const exchange_problem *p = w->p;
    w->type = w->merge != NULL ? ein__dtype_kernel(p->dtype) : raw_type(p->dtype);
    w->widest = w->bytes = (int)ein__dtype_bytes(p->dtype);
    EACH_STATE(s, p->used) {
        ein_dtype stored = ein__exchange_stored(p, s), computed = ein__dtype_compute(stored);
        w->stored[s] = w->merge != NULL ? ein__dtype_kernel(stored) : w->type;
        w->computed[s] = w->merge != NULL ? ein__dtype_kernel(computed) : w->type;
        w->stored_bytes[s] = (int)ein__dtype_bytes(stored);
        w->computed_bytes[s] = (int)ein__dtype_bytes(computed);
        if ((w->walked >> s & 1) != 0 && w->stored_bytes[s] > w->widest) w->widest = w->stored_bytes[s];
    }
    w->lanes = 16 / w->widest;
    for (int s = 0; w->merge != NULL && s < w->merge->n_states; s++)
        w->types[s] = w->types[w->merge->n_states + s] = w->merge->compute[s];
}

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

static bool converts(const writer *w, int s)
{
    return w->merge != NULL && ein__dtype_load(ein__exchange_stored(w->p, s))[0] != 0;
}

/* Vector types: `vec` of the destination, vec0 .. of the states as stored, acc0 .. of those that are combined in
 * another type. */
static void vector_type(const writer *w, const char *type, int bytes, const char *name)
{
    int align = bytes * w->lanes > 16 ? 16 : bytes * w->lanes;
    ein__text_add(w->out, "    typedef struct { %s v[%d]; } __attribute__((aligned(%d))) %s;\n", type, w->lanes, align,
                  name);
}

static void vector_types(const writer *w)
{
    char name[16];
    vector_type(w, w->type, w->bytes, "vec");
    EACH_STATE(s, w->merge != NULL ? w->walked : 0) {
        snprintf(name, sizeof name, "vec%d", s);
        vector_type(w, w->stored[s], w->stored_bytes[s], name);
        if (!converts(w, s)) continue;
        snprintf(name, sizeof name, "acc%d", s);
        vector_type(w, w->computed[s], w->computed_bytes[s], name);
    }
}

/* "(address) * 2": a multiple of 16 if the address is one of a vector of a type half as wide as the widest. */
static void add_alignment(const writer *w, int bytes)
{
    if (bytes != w->widest) ein__text_add(w->out, " * %d", w->widest / bytes);
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
    vector_types(w);
    ein__text_add(w->out, "    to += skip;\n");
    EACH_STATE(s, w->walked) ein__text_add(w->out, "    from%d += skip;\n", s);
    ein__text_add(w->out, "    i64 bits = (i64)(dst + to)");
    add_alignment(w, w->bytes);
    ein__text_add(w->out, ";\n");
    if (w->walked != 0) {
        ein__text_add(w->out, "    for (i64 j = 0; j < box[2]; j++) bits |= ");
        const char *between = "";
        EACH_STATE(s, w->walked) {
            ein__text_add(w->out, "%s(sources[(box[3] + j) * %d + %d] + from%d * %d)", between, w->p->n_states, s, s,
                          w->stored_bytes[s]);
            add_alignment(w, w->stored_bytes[s]);
            between = " | ";
        }
        ein__text_add(w->out, ";\n");
    }
    ein__text_add(w->out, "    const i64 vecs = (bits & 15) == 0 ? n / %d : 0, first = vecs * %d;\n", w->lanes,
                  w->lanes);
}

/* Vectors that a thread has. */
static int vectors(const writer *w) { return w->lanes < EACH ? EACH / w->lanes : 1; }

/* The loops over the vectors or over the elements of the row, up to the body's brace. */
static void open_loop(const writer *w, form f, const char *indent)
{
    int passes = f == WIDE ? vectors(w) : EACH;
    ein__text_add(w->out, "%sUNROLL_DEV(%d) for (int e = 0; e < %d; e++)\n%s    STEP_N(%s - e * THREADS) {\n",
                  indent, passes, passes, indent, f == WIDE ? "vecs" : "n - first");
    if (f == NARROW) ein__text_add(w->out, "%s        const i64 i = first + e * THREADS + tid;\n", indent);
}

static void close_loop(const writer *w, const char *indent) { ein__text_add(w->out, "%s    }\n", indent); }

/* The element or vector as it is stored. */
static void load(const writer *w, form f, int s)
{
    if (f == WIDE) ein__text_add(w->out, "LD((const vec%d *)p%d, e * THREADS + tid)", s, s);
    else if (w->unit) ein__text_add(w->out, "LD(p%d, i)", s);
    else ein__text_add(w->out, "LD(p%d, i * step%d)", s, s);
}

/* The text that comes before and after a stored value to convert it, and a value to store it. */
static const char *load_open(const writer *w, int s)
{
    return converts(w, s) ? ein__dtype_load(ein__exchange_stored(w->p, s)) : "";
}

static const char *store_open(const writer *w) { return w->merge != NULL ? ein__dtype_store(w->p->dtype) : ""; }

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
                      indent, w->stored[s], s, w->stored[s], j, w->p->n_states, s, s);
    EACH_STATE(s, w->row)
        ein__text_add(w->out, "%sconst %s r%d = %s(LD((const %s *)sources[(box[3] + %s) * %d + %d], from%d));\n",
                      indent, w->computed[s], s, load_open(w, s), w->stored[s], j, w->p->n_states, s, s);
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
                              "            UNROLL(%d) for (int v = 0; v < %d; v++) x.v[v] = r%d;\n",
                              w->lanes, w->lanes, s);
        } else {
            ein__text_add(w->out, "            const %s x = ", f == WIDE ? "vec" : w->type);
            if (f == WIDE) ein__text_add(w->out, "LD((const vec *)p%d, e * THREADS + tid)", s);
            else load(w, f, s);
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

typedef char name[32];

/* How the states are called, as they are combined: first the accumulated ones, then those of the source at hand. */
static void names(const writer *w, form f, name store_[2 * MAX_STATES], const char **args)
{
    int n = w->merge->n_states;
    for (int s = 0; s < n; s++) {
        bool row = (w->row >> s & 1) != 0;
        const char *a = row ? "u%d" : f == WIDE ? "PA(w%d, e).v[v]" : "PA(a%d, e)";
        snprintf(store_[s], sizeof store_[s], a, s);
        if (row || f == NARROW) snprintf(store_[n + s], sizeof store_[n + s], row ? "r%d" : "x%d", s);
        else snprintf(store_[n + s], sizeof store_[n + s], "%s(x%d.v[v])", load_open(w, s), s);
        args[s] = store_[s];
        args[n + s] = store_[n + s];
    }
}

static void combine(const writer *w, uint32_t set, const char *const *args, const char *indent)
{
    EACH_STATE(s, set) {
        ein__text_add(w->out, "%sconst %s c%d = ", indent, w->computed[s], s);
        ein__expr_print(&w->merge->combine[s], args, w->types, w->types[s], w->out);
        ein__text_add(w->out, ";\n");
    }
    EACH_STATE(s, set) ein__text_add(w->out, "%s%s = c%d;\n", indent, args[s], s);
}

static void take_first(const writer *w, form f)
{
    open_loop(w, f, "            ");
    EACH_STATE(s, w->walked) {
        if (f == WIDE && converts(w, s)) {
            ein__text_add(w->out, "                    const vec%d x%d = ", s, s);
            load(w, f, s);
            ein__text_add(w->out, ";\n                    UNROLL(%d) for (int v = 0; v < %d; v++) "
                          "PA(w%d, e).v[v] = %s(x%d.v[v]);\n", w->lanes, w->lanes, s, load_open(w, s), s);
            continue;
        }
        ein__text_add(w->out, "                    PA(%c%d, e) = %s(", f == WIDE ? 'w' : 'a', s, load_open(w, s));
        load(w, f, s);
        ein__text_add(w->out, ");\n");
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
        if (f == WIDE) ein__text_add(w->out, "                const vec%d x%d = (", s, s);
        else ein__text_add(w->out, "                const %s x%d = %s(", w->computed[s], s, load_open(w, s));
        load(w, f, s);
        ein__text_add(w->out, ");\n");
    }
    if (f == WIDE)
        ein__text_add(w->out, "                UNROLL(%d) for (int v = 0; v < %d; v++) {\n", w->lanes, w->lanes);
    combine(w, w->walked, args, f == WIDE ? "                    " : "                ");
    if (f == WIDE) ein__text_add(w->out, "                }\n");
    close_loop(w, "        ");
}

/* The finished value as it is stored: an empty finalizer is the state itself. */
static void print_finished(const writer *w, const char *const *args)
{
    expr_node state = {.op = X_ARG, .a = w->p->result};
    const expr same = {1, &state}, *last = &w->merge->finalize[w->p->result];
    ein__text_add(w->out, "%s(", store_open(w));
    ein__expr_print(last->n > 0 ? last : &same, args, w->types, ein__dtype_compute(w->p->dtype), w->out);
    ein__text_add(w->out, ")");
}

static void finish(const writer *w, form f)
{
    name store_[2 * MAX_STATES];
    const char *args[2 * MAX_STATES];
    names(w, f, store_, args);
    open_loop(w, f, "    ");
    if (f == WIDE)
        ein__text_add(w->out, "            vec y;\n            UNROLL(%d) for (int v = 0; v < %d; v++) y.v[v] = ",
                      w->lanes, w->lanes);
    else ein__text_add(w->out, "            const %s y = ", w->type);
    print_finished(w, args);
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
        if (w->unit)
            ein__text_add(w->out, "    PRIVA(%s%d, w%d, %d);\n", converts(w, s) ? "acc" : "vec", s, s, vectors(w));
        ein__text_add(w->out, "    PRIVA(%s, a%d, %d);\n", w->computed[s], s, EACH);
    }
    EACH_STATE(s, w->row) ein__text_add(w->out, "    %s u%d = 0;\n", w->computed[s], s);
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
           p->states[p->result]->n_partials == 1 && p->merge->wire[p->result] == p->dtype;
}

/* What a kind of transfer makes of its sources, as a problem of its own; `stored` has room for its merge. */
static exchange_problem problem_of(const exchange_problem *p, transfer_kind kind, int state, merge *stored)
{
    exchange_problem q = *p;
    if (kind == TRANSFER_COPY)
        return (exchange_problem){.n_states = 1, .states = {p->to}, .used = 1, .dtype = p->dtype,
                                  .n_devices = p->n_devices, .to = p->to};
    if (kind == TRANSFER_COMBINE && p->merge != NULL) {
        *stored = *p->merge;
        stored->finalize[state].n = 0;
        q.merge = stored;
        q.result = state;
        q.dtype = stored->wire[state];
    }
    return q;
}

ein_status ein__exchange_kernel(arena *a, const exchange_problem *p, const exchange *x, transfer_kind kind,
                                kernel_text *out)
{
    text body = {0};
    merge stored;
    exchange_problem q = problem_of(p, kind, x->state, &stored);
    writer w = {.out = &body, .p = &q, .merge = only_copies(&q) ? NULL : q.merge};
    w.several = q.states[__builtin_ctz(q.used)]->n_partials > 1;
    w.row = kind == TRANSFER_FINISH ? x->row_states : 0;
    w.walked = q.used & ~w.row;
    w.unit = kind == TRANSFER_COPY ? x->unit_copy : x->unit_stride;
    find_types(&w);
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

static void put_walk(i64 *words, int rank, i64 offset, const i64 *stride)
{
    words[0] = offset;
    for (int k = 0; k < rank; k++) words[1 + k] = stride[k];
}

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
        for (int k = 0; k < t->rank; k++) words[AT_SIZE + k] = t->size[k];
        if (t->kind == TRANSFER_COMBINE) put_walk(words + AT_DST, t->rank, t->src_offset[x->state], t->src_stride[x->state]);
        else put_walk(words + AT_DST, t->rank, t->dst_offset, t->dst_stride);
        for (int s = 0; s < MAX_STATES; s++) {
            i64 *at = words + AT_SRC + STATE_WORDS * s;
            if (t->kind == TRANSFER_COPY) put_walk(at, t->rank, t->dst_offset, t->dst_stride);
            else put_walk(at, t->rank, t->src_offset[s], t->src_stride[s]);
        }
        rows += ein__transfer_rows(t);
    }
    return rows;
}
