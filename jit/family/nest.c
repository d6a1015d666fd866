/* SPDX-License-Identifier: Apache-2.0 */
/* Text for nests: maps, reductions, rows, copies. A block decodes its number into the outer loops, then
 *
 *     lane parallel:  every thread has an element of the lane; aggregated loops are uniform, around the
 *                     phases; statistics are private
 *     lane across:    the threads stride over the aggregated lane, and a tree over the block makes each
 *                     statistic uniform
 *
 * Only the structure is in the text: how many loops there are, whether a view steps by 0, 1 or more along the
 * lane, and the expressions. */
#include "jit/family/parts.h"

enum { ITEMS = 4, LONG = 1024 };

typedef struct emitter {
    writer *w;
    const nest *n;
    loop_set loops;
    short_text prefix;
    int threads, items; /* elements of the lane per thread, where it is parallel */
    int depth;
    uint64_t used; /* inputs that some expression reads */
} emitter;

#define LINE(e, ...) (indent(e), ein__text_add(&(e)->w->body, __VA_ARGS__))

static void indent(const emitter *e) { ein__text_add(&e->w->body, "%*s", 4 * e->depth, ""); }

static uint64_t arguments(const expr *x)
{
    uint64_t set = 0;
    for (int i = 0; x != NULL && i < x->n; i++)
        if (x->nodes[i].op == X_ARG) set |= (uint64_t)1 << x->nodes[i].a;
    return set;
}

static bool is_output(const emitter *e, int v) { return v == e->n->n_in; }
static bool is_used(const emitter *e, int v) { return is_output(e, v) || (e->used >> v & 1); }

static short_text view_name(const emitter *e, int v)
{
    return is_output(e, v) ? ein__name("%sy0", e->prefix.s) : ein__name("%sx%d", e->prefix.s, v);
}

/* ---- parameters ---- */

static void strides(emitter *e, int v)
{
    const loop_set *l = &e->loops;
    short_text n = view_name(e, v);
    for (int i = 0; i < l->n_outer; i++)
        ein__writer_int(e->w, ein__name("%s_o%d", n.s, i).s, l->outer[i].stride[v]);
    for (int i = 0; i < l->n_inner && (!is_output(e, v) || e->n->everywhere); i++)
        ein__writer_int(e->w, ein__name("%s_r%d", n.s, i).s, l->inner[i].stride[v]);
    if (l->lane.stride[v] != 0 && l->lane.stride[v] != 1)
        ein__writer_int(e->w, ein__name("%s_l", n.s).s, l->lane.stride[v]);
}

static void parameters(emitter *e)
{
    const loop_set *l = &e->loops;
    const char *p = e->prefix.s;
    for (int v = 0; v < e->n->n_in; v++)
        if (is_used(e, v)) ein__writer_in(e->w, &e->n->in[v], 0, view_name(e, v).s);
    ein__writer_out(e->w, e->n->out, 0, view_name(e, e->n->n_in).s);
    for (int i = 0; i < l->n_outer; i++) ein__writer_int(e->w, ein__name("%sn_o%d", p, i).s, l->outer[i].n);
    for (int i = 0; i < l->n_inner; i++) ein__writer_int(e->w, ein__name("%sn_r%d", p, i).s, l->inner[i].n);
    ein__writer_int(e->w, ein__name("%sn_l", p).s, l->lane.n);
    for (int v = 0; v < l->n_views; v++)
        if (is_used(e, v)) strides(e, v);
}

/* ---- positions ---- */

/* Outer indices i0.. and, where the lane is parallel, the chunk's first element c; `block` names the block's
 * number. */
static void decode(emitter *e, const char *block)
{
    const char *p = e->prefix.s;
    int chunk = e->threads * e->items;
    short_text q = ein__name("%s", block);
    if (!e->loops.across) {
        const char *c = e->items > 1 ? "c0" : "c";
        if (e->loops.n_outer == 0) {
            LINE(e, "const i64 %s = %s * %d;\n", c, block, chunk);
        } else {
            LINE(e, "const i64 chunks = (%sn_l + %d) / %d;\n", p, chunk - 1, chunk);
            LINE(e, "const i64 %s = %s %% chunks * %d, q = %s / chunks;\n", c, block, chunk, block);
            q = ein__name("q");
        }
    }
    for (int i = e->loops.n_outer - 1; i > 0; i--) {
        LINE(e, "const i64 i%d = %s %% %sn_o%d, q%d = %s / %sn_o%d;\n", i, q.s, p, i, i, q.s, p, i);
        q = ein__name("q%d", i);
    }
    if (e->loops.n_outer > 0) LINE(e, "const i64 i0 = %s;\n", q.s);
}

/* Where the views are for these outer indices. */
static void bases(emitter *e)
{
    for (int v = 0; v < e->loops.n_views; v++) {
        if (!is_used(e, v)) continue;
        short_text n = view_name(e, v);
        LINE(e, "const i64 %s_b = ", n.s);
        for (int i = 0; i < e->loops.n_outer; i++)
            ein__text_add(&e->w->body, "%si%d * %s_o%d", i > 0 ? " + " : "", i, n.s, i);
        if (e->loops.n_outer == 0) ein__text_add(&e->w->body, "0");
        if (e->n->shift != NULL) ein__text_add(&e->w->body, is_output(e, v) ? " + t * y0_t" : " + s * x0_s");
        ein__text_add(&e->w->body, ";\n");
    }
}

/* Blocks are rows times blocks of a row; those of rows that have no place leave. */
static void shifted(emitter *e, i64 *blocks)
{
    const shift *s = e->n->shift;
    ein__writer_int(e->w, "row_blocks", *blocks);
    ein__writer_int(e->w, "x0_s", s->row_stride);
    ein__writer_int(e->w, "y0_t", s->place_stride);
    ein__writer_int(e->w, "n_t", s->n_places);
    ein__writer_scalar(e->w, "first", s->scalar, s->first);
    LINE(e, "const i64 s = bx / row_blocks, at = bx %% row_blocks, t = first + s;\n");
    LINE(e, "if (t < 0 || t >= n_t) return;\n");
    *blocks *= s->n_rows;
}

/* ---- points ---- */

/* Index of this thread's element of a view. */
static void element(emitter *e, int v)
{
    i64 s = e->loops.lane.stride[v];
    short_text n = view_name(e, v);
    ein__text_add(&e->w->body, "%s_at", n.s);
    if (s == 1) ein__text_add(&e->w->body, " + tid");
    else if (s != 0) ein__text_add(&e->w->body, " + tid * %s_l", n.s);
}

static void position(emitter *e, int v, bool inner)
{
    i64 s = e->loops.lane.stride[v];
    short_text n = view_name(e, v);
    LINE(e, "const i64 %s_at = %s_b", n.s, n.s);
    for (int i = 0; i < e->loops.n_inner && inner; i++)
        ein__text_add(&e->w->body, " + r%d * %s_r%d", i, n.s, i);
    if (s == 1) ein__text_add(&e->w->body, " + c");
    else if (s != 0) ein__text_add(&e->w->body, " + c * %s_l", n.s);
    ein__text_add(&e->w->body, ";\n");
}

/* Uniform values are loaded in front of the phase, the others in it. */
static void load(emitter *e, int v, bool uniform)
{
    if ((e->loops.lane.stride[v] == 0) != uniform) return;
    LINE(e, "const float v%d = LD(%s, ", v, view_name(e, v).s);
    element(e, v);
    ein__text_add(&e->w->body, ");\n");
}

/* Open the loops over the lane and, if `inner`, over the aggregated labels; inside, the inputs of `set` are
 * v0, v1, ... Ends within a phase. */
static void points_begin(emitter *e, uint64_t set, bool inner, bool stored)
{
    const char *p = e->prefix.s;
    const loop_set *l = &e->loops;
    bool strided = l->across && inner, items = !l->across && e->items > 1;
    for (int i = 0; i < l->n_inner && inner; i++) {
        if (i + 1 == l->n_inner && !strided) LINE(e, "UNROLL_DEV(4)\n");
        LINE(e, "for (i64 r%d = 0; r%d < %sn_r%d; r%d++)\n", i, i, p, i, i);
    }
    if (strided) {
        LINE(e, "UNROLL_DEV(4)\n");
        LINE(e, "for (i64 c = 0; c < %sn_l; c += THREADS)\n", p);
    }
    if (items) {
        LINE(e, "UNROLL_DEV(%d)\n", e->items);
        LINE(e, "for (int u = 0; u < %d; u++)\n", e->items);
    }
    LINE(e, "{\n");
    e->depth++;
    if (items) LINE(e, "const i64 c = c0 + u * THREADS;\n");
    for (int v = 0; v < l->n_views; v++)
        if (is_output(e, v) ? stored : (set >> v & 1)) position(e, v, inner);
    for (int v = 0; v < e->n->n_in; v++)
        if (set >> v & 1) load(e, v, true);
    LINE(e, "STEP_N(%sn_l - c) {\n", p);
    e->depth++;
    for (int v = 0; v < e->n->n_in; v++)
        if (set >> v & 1) load(e, v, false);
}

static void points_end(emitter *e)
{
    e->depth--;
    LINE(e, "}\n");
    e->depth--;
    LINE(e, "}\n");
}

/* ---- expressions ---- */

typedef struct spelling {
    short_text names[MAX_OPERANDS + MAX_STATISTICS];
    const char *args[MAX_OPERANDS + MAX_STATISTICS];
} spelling;

/* Arguments of an expression: the inputs, if it has any, then the statistics. */
static void spell(const emitter *e, bool inputs, spelling *s)
{
    int n = 0;
    for (int v = 0; v < e->n->n_in && inputs; v++) s->names[n++] = ein__name("v%d", v);
    for (int k = 0; k < e->n->n_statistics; k++)
        s->names[n++] = ein__name(e->loops.across ? "s%d" : "P(s%d)", k);
    for (int i = 0; i < n; i++) s->args[i] = s->names[i].s;
}

static expr part(const expr *x, int root) { return (expr){root + 1, x->nodes}; }

/* The operator, if the expression is one operator of arguments 0 and 1. */
static expr_op join_of(const expr *x)
{
    const expr_node *root = &x->nodes[x->n - 1];
    bool plain = x->n == 3 && root->op != X_WHERE && x->nodes[0].op == X_ARG && x->nodes[1].op == X_ARG;
    return plain && x->nodes[root->a].a + x->nodes[root->b].a == 1 ? root->op : X_CONST;
}

/* Join the body's value into the private: by an FMA if it is a product that is added. */
static void join(emitter *e, int k, const spelling *s)
{
    const statistic *t = &e->n->statistics[k];
    const expr_node *root = &t->body->nodes[t->body->n - 1];
    short_text to = ein__name(e->loops.across ? "P(p%d)" : "P(s%d)", k);
    text *out = &e->w->body;
    if (join_of(t->combine) == X_ADD && root->op == X_MUL) {
        expr a = part(t->body, root->a), b = part(t->body, root->b);
        LINE(e, "%s = k_fma(", to.s);
        ein__expr_print(&a, s->args, NULL, EIN_F32, out);
        ein__text_add(out, ", ");
        ein__expr_print(&b, s->args, NULL, EIN_F32, out);
        ein__text_add(out, ", %s);\n", to.s);
        return;
    }
    const char *args[2] = {to.s, "f"};
    LINE(e, "const float f = ");
    ein__expr_print(t->body, s->args, NULL, EIN_F32, out);
    ein__text_add(out, ";\n");
    LINE(e, "%s = ", to.s);
    ein__expr_print(t->combine, args, NULL, EIN_F32, out);
    ein__text_add(out, ";\n");
}

/* Make a statistic uniform: a collective, or a pairwise tree in shared memory. */
static void tree(emitter *e, int k)
{
    expr_op op = join_of(e->n->statistics[k].combine);
    if (op == X_ADD || op == X_MAX) {
        LINE(e, "BLOCK_%s(s%d, p%d);\n", op == X_ADD ? "SUM" : "MAX", k, k);
        return;
    }
    short_text a = ein__name("t%d[tid]", k), b = ein__name("t%d[tid + h]", k);
    const char *args[2] = {a.s, b.s};
    LINE(e, "SHARED(float, t%d, THREADS);\n", k);
    LINE(e, "PHASE { t%d[tid] = P(p%d); }\n", k, k);
    LINE(e, "for (int h = THREADS / 2; h > 0; h /= 2)\n");
    LINE(e, "    PHASE_N(h) { t%d[tid] = ", k);
    ein__expr_print(e->n->statistics[k].combine, args, NULL, EIN_F32, &e->w->body);
    ein__text_add(&e->w->body, "; }\n");
    LINE(e, "const float s%d = t%d[0];\n", k, k);
}

static void make_statistic(emitter *e, int k)
{
    const statistic *t = &e->n->statistics[k];
    char kind = e->loops.across ? 'p' : 's';
    spelling s;
    spell(e, true, &s);
    LINE(e, "PRIV(float, %c%d);\n", kind, k);
    LINE(e, "STEP { P(%c%d) = ", kind, k);
    ein__expr_print_number(t->identity, EIN_F32, &e->w->body);
    ein__text_add(&e->w->body, "; }\n");
    points_begin(e, arguments(t->body) & e->used, true, false);
    join(e, k, &s);
    points_end(e);
    if (e->loops.across) tree(e, k);
}

static void store(emitter *e)
{
    const nest *n = e->n;
    spelling s;
    spell(e, n->everywhere, &s);
    uint64_t set = n->everywhere ? arguments(n->last) & e->used : 0;
    bool single = e->loops.across && !n->everywhere;
    if (single) {
        LINE(e, "STEP_N(1) {\n");
        e->depth++;
        LINE(e, "ST(%s, %s_b, ", view_name(e, n->n_in).s, view_name(e, n->n_in).s);
    } else {
        points_begin(e, set, n->everywhere, true);
        LINE(e, "ST(%s, ", view_name(e, n->n_in).s);
        element(e, n->n_in);
        ein__text_add(&e->w->body, ", ");
    }
    if (n->last != NULL) ein__expr_print(n->last, s.args, NULL, EIN_F32, &e->w->body);
    else ein__text_add(&e->w->body, "%s", s.args[0]);
    ein__text_add(&e->w->body, ");\n");
    if (!single) {
        points_end(e);
        return;
    }
    e->depth--;
    LINE(e, "}\n");
}

/* ---- kernels ---- */

static i64 blocks_of(const emitter *e)
{
    i64 blocks = e->loops.across ? 1 : ein__blocks(e->loops.lane.n, (i64)e->threads * e->items);
    for (int i = 0; i < e->loops.n_outer; i++) blocks *= e->loops.outer[i].n;
    return blocks;
}

static void start(emitter *e, writer *w, const nest *n, const char *prefix)
{
    *e = (emitter){.w = w, .n = n, .prefix = ein__name("%s", prefix), .depth = 1, .items = 1};
    ein__loops_make(n, &e->loops);
    for (int k = 0; k < n->n_statistics; k++) e->used |= arguments(n->statistics[k].body);
    if (n->everywhere) e->used |= arguments(n->last);
    e->used &= ((uint64_t)1 << n->n_in) - 1;
    e->threads = ein__threads_for(e->loops.lane.n);
    if (n->n_statistics == 0 && e->loops.lane.n >= LONG) e->items = ITEMS;
}

static void kernel(emitter *e, const char *block)
{
    decode(e, block);
    bases(e);
    for (int k = 0; k < e->n->n_statistics; k++) make_statistic(e, k);
    store(e);
}

static ein_status emit_one(arena *a, const nest *n, launch *out)
{
    writer w;
    emitter e;
    ein__writer_begin(&w, a);
    start(&e, &w, n, "");
    parameters(&e);
    out->grid[0] = blocks_of(&e);
    if (n->shift != NULL) shifted(&e, &out->grid[0]);
    kernel(&e, n->shift != NULL ? "at" : "bx");
    short_text head = ein__name("%s, lane %s", n->what, e.loops.across ? "across" : "parallel");
    return ein__writer_end(&w, head.s, e.threads, out);
}

/* Nest i takes the blocks that follow those of nest i - 1. */
static ein_status emit_many(arena *a, const nest *nests, int n, launch *out)
{
    writer w;
    emitter e;
    int threads = 32;
    ein__writer_begin(&w, a);
    for (int i = 0; i < n; i++) {
        start(&e, &w, &nests[i], "");
        if (e.threads > threads) threads = e.threads;
    }
    for (int i = 0; i < n; i++) {
        short_text p = ein__name("p%d_", i);
        start(&e, &w, &nests[i], p.s);
        e.threads = threads;
        parameters(&e);
        ein__writer_int(&w, ein__name("%sfirst", p.s).s, out->grid[0]);
        out->grid[0] += blocks_of(&e);
        ein__writer_int(&w, ein__name("%send", p.s).s, out->grid[0]);
        LINE(&e, "if (bx >= %sfirst && bx < %send) {\n", p.s, p.s);
        e.depth++;
        LINE(&e, "const i64 at = bx - %sfirst;\n", p.s);
        kernel(&e, "at");
        e.depth--;
        LINE(&e, "}\n");
    }
    return ein__writer_end(&w, ein__name("%s of %d parts", nests[0].what, n).s, threads, out);
}

ein_status ein__nest_emit(arena *a, const nest *nests, int n, launch *out)
{
    *out = (launch){.kind = STEP_KERNEL, .grid = {0, 1, 1}};
    return n == 1 ? emit_one(a, nests, out) : emit_many(a, nests, n, out);
}
