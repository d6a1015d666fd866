/* SPDX-License-Identifier: Apache-2.0 */
/* Text for nests: maps, reductions, rows, copies. Statistics first, then what is stored:
 *
 *     lane parallel:  the states of a statistic are private
 *     lane across:    a tree over the block makes each statistic uniform
 *
 * States are numbered through all statistics: s0, s1, ... A statistic of several states is joined as a whole:
 * all new values, then the assignments. */
#include "jit/family/parts.h"

static uint64_t arguments(const expr *x)
{
    uint64_t set = 0;
    for (int i = 0; i < x->n; i++)
        if (x->nodes[i].op == X_ARG) set |= (uint64_t)1 << x->nodes[i].a;
    return set;
}

static uint64_t body_arguments(const statistic *t)
{
    uint64_t set = 0;
    for (int i = 0; i < t->merge->n_states; i++) set |= arguments(&t->body[i]);
    return set;
}

/* ---- expressions ---- */

/* Texts and types of an expression's arguments. */
typedef struct spelling {
    int n;
    short_text names[MAX_ARGUMENTS];
    const char *args[MAX_ARGUMENTS];
    ein_dtype types[MAX_ARGUMENTS];
} spelling;

static void argument(spelling *s, ein_dtype type, short_text name)
{
    s->names[s->n] = name;
    s->types[s->n++] = type;
    for (int i = 0; i < s->n; i++) s->args[i] = s->names[i].s;
}

/* A statistic's states so far, if they are not uniform yet: "P(s0)", "P(p1)". */
static short_text private_state(const outline *f, int state)
{
    return ein__name(f->loops.across ? "P(p%d)" : "P(s%d)", state);
}

static int first_state(const nest *n, int k)
{
    int first = 0;
    for (int i = 0; i < k; i++) first += n->statistics[i].merge->n_states;
    return first;
}

/* Arguments of a body: the inputs, if it has any, then the states of all statistics. */
static void spell(const outline *f, bool inputs, spelling *s)
{
    s->n = 0;
    for (int v = 0; v < f->n->n_in && inputs; v++)
        argument(s, ein__dtype_compute(f->n->in[v].dtype), ein__name("v%d", v));
    for (int k = 0, state = 0; k < f->n->n_statistics; k++)
        for (int i = 0; i < f->n->statistics[k].merge->n_states; i++, state++)
            argument(s, f->n->statistics[k].merge->compute[i],
                     f->loops.across ? ein__name("s%d", state) : private_state(f, state));
}

/* Arguments of a combination: two tuples of states, by the patterns of their names. */
static void spell_pair(const merge *m, int first, const char *a, const char *a_end, const char *b, const char *b_end,
                       spelling *s)
{
    s->n = 0;
    for (int i = 0; i < m->n_states; i++)
        argument(s, m->compute[i], ein__name("%s%d%s", a, first + i, a_end));
    for (int i = 0; i < m->n_states; i++)
        argument(s, m->compute[i], ein__name("%s%d%s", b, first + i, b_end));
}

static void print(outline *f, const expr *x, const spelling *s, ein_dtype want)
{
    ein__expr_print(x, s->args, s->types, want, &f->w->body);
}

static const char *type_of(const merge *m, int state) { return ein__dtype_kernel(m->compute[state]); }

static expr part(const expr *x, int root) { return (expr){root + 1, x->nodes}; }

/* The operator, if the expression is one operator of arguments 0 and 1. */
static expr_op join_of(const expr *x)
{
    const expr_node *root = &x->nodes[x->n - 1];
    bool plain = x->n == 3 && root->op != X_WHERE && x->nodes[0].op == X_ARG && x->nodes[1].op == X_ARG;
    return plain && x->nodes[root->a].a + x->nodes[root->b].a == 1 ? root->op : X_CONST;
}

/* ---- statistics ---- */

/* A product that is added, in f32: one FMA. */
static bool join_fused(outline *f, int k, const spelling *s)
{
    const statistic *t = &f->n->statistics[k];
    const expr_node *root = &t->body->nodes[t->body->n - 1];
    if (t->merge->n_states != 1 || join_of(&t->merge->combine[0]) != X_ADD || root->op != X_MUL) return false;
    if (t->merge->compute[0] != EIN_F32 || ein__expr_type(t->body, s->types) != EIN_F32) return false;
    expr a = part(t->body, root->a), b = part(t->body, root->b);
    short_text to = private_state(f, first_state(f->n, k));
    LINE(f, "%s = k_fma(", to.s);
    print(f, &a, s, EIN_F32);
    ein__text_add(&f->w->body, ", ");
    print(f, &b, s, EIN_F32);
    ein__text_add(&f->w->body, ", %s);\n", to.s);
    return true;
}

/* Make `to` (a pattern) the combination of the pair; several states by way of g0, g1, ... */
static void combine(outline *f, int k, const spelling *pair, const char *to, const char *to_end)
{
    const merge *m = f->n->statistics[k].merge;
    int first = first_state(f->n, k), n = m->n_states;
    for (int i = 0; i < n; i++) {
        if (n == 1) LINE(f, "%s%d%s = ", to, first, to_end);
        else LINE(f, "const %s g%d = ", type_of(m, i), first + i);
        print(f, &m->combine[i], pair, m->compute[i]);
        ein__text_add(&f->w->body, ";\n");
    }
    for (int i = first; i < first + n && n > 1; i++) LINE(f, "%s%d%s = g%d;\n", to, i, to_end, i);
}

/* Join the bodies' values into the privates. */
static void join(outline *f, int k, const spelling *s)
{
    const statistic *t = &f->n->statistics[k];
    const char *to = f->loops.across ? "P(p" : "P(s";
    int first = first_state(f->n, k);
    spelling pair;
    if (join_fused(f, k, s)) return;
    for (int i = 0; i < t->merge->n_states; i++) {
        LINE(f, "const %s f%d = ", type_of(t->merge, i), first + i);
        print(f, &t->body[i], s, t->merge->compute[i]);
        ein__text_add(&f->w->body, ";\n");
    }
    spell_pair(t->merge, first, to, ")", "f", "", &pair);
    combine(f, k, &pair, to, ")");
}

/* A block collective, if there is one for the merge. */
static bool tree_collective(outline *f, int k)
{
    const merge *m = f->n->statistics[k].merge;
    expr_op op = m->n_states == 1 ? join_of(&m->combine[0]) : X_CONST;
    const char *suffix = m->compute[0] == EIN_F64 ? "_D" : m->compute[0] == EIN_I64 ? "_I" : "";
    int s = first_state(f->n, k);
    if (op != X_ADD && op != X_MAX) return false;
    LINE(f, "BLOCK_%s%s(s%d, p%d);\n", op == X_ADD ? "SUM" : "MAX", suffix, s, s);
    return true;
}

/* Make a statistic uniform: by a collective, or a pairwise tree in shared memory. */
static void tree(outline *f, int k)
{
    const merge *m = f->n->statistics[k].merge;
    int first = first_state(f->n, k);
    spelling pair;
    if (tree_collective(f, k)) return;
    for (int i = 0; i < m->n_states; i++) LINE(f, "SHARED(%s, t%d, THREADS);\n", type_of(m, i), first + i);
    LINE(f, "PHASE {");
    for (int i = first; i < first + m->n_states; i++) ein__text_add(&f->w->body, " t%d[tid] = P(p%d);", i, i);
    ein__text_add(&f->w->body, " }\n");
    LINE(f, "for (int h = THREADS / 2; h > 0; h /= 2)\n");
    f->depth++;
    LINE(f, "PHASE_N(h) {\n");
    f->depth++;
    spell_pair(m, first, "t", "[tid]", "t", "[tid + h]", &pair);
    combine(f, k, &pair, "t", "[tid]");
    ein__outline_close(f, 1);
    f->depth--;
    for (int i = 0; i < m->n_states; i++) LINE(f, "const %s s%d = t%d[0];\n", type_of(m, i), first + i, first + i);
}

static void make_statistic(outline *f, int k)
{
    const statistic *t = &f->n->statistics[k];
    uint64_t set = body_arguments(t) & f->used;
    int first = first_state(f->n, k);
    spelling s;
    spell(f, true, &s);
    for (int i = 0; i < t->merge->n_states; i++)
        LINE(f, "PRIV(%s, %c%d);\n", type_of(t->merge, i), f->loops.across ? 'p' : 's', first + i);
    LINE(f, "STEP {");
    for (int i = 0; i < t->merge->n_states; i++) {
        ein__text_add(&f->w->body, " %s = ", private_state(f, first + i).s);
        ein__expr_print_number(t->merge->identity[i], t->merge->compute[i], &f->w->body);
        ein__text_add(&f->w->body, ";");
    }
    ein__text_add(&f->w->body, " }\n");
    ein__outline_points(f, set, true, false);
    ein__outline_phase(f, set);
    join(f, k, &s);
    ein__outline_close(f, 2);
    if (f->loops.across) tree(f, k);
}

/* ---- results ---- */

/* Output r: the expression, or state r. */
static void store(outline *f, int r, const spelling *s)
{
    const nest *n = f->n;
    ein_dtype dtype = n->out[r].dtype;
    expr_node state = {.op = X_ARG, .a = r};
    const expr alone = {1, &state}, *x = n->last != NULL && n->last[r].n > 0 ? &n->last[r] : &alone;
    const char *convert = f->raw != 0 ? "" : ein__dtype_store(dtype);
    LINE(f, "ST(%s, ", ein__outline_name(f, n->n_in + r).s);
    if (f->loops.across && !n->everywhere) ein__text_add(&f->w->body, "%s_b", ein__outline_name(f, n->n_in + r).s);
    else ein__text_add(&f->w->body, "%s", ein__outline_element(f, n->n_in + r, "at", "tid").s);
    ein__text_add(&f->w->body, ", %s%s", convert, *convert != 0 ? "(" : "");
    if (f->raw != 0) ein__text_add(&f->w->body, "%s", s->args[x->nodes[0].a]);
    else print(f, x, s, ein__dtype_compute(dtype));
    ein__text_add(&f->w->body, *convert != 0 ? "));\n" : ");\n");
}

static void finish(outline *f)
{
    const nest *n = f->n;
    uint64_t set = n->everywhere ? arguments(n->last) & f->used : 0;
    bool single = f->loops.across && !n->everywhere;
    spelling s;
    spell(f, n->everywhere, &s);
    if (single) {
        LINE(f, "STEP_N(1) {\n");
        f->depth++;
    } else {
        ein__outline_points(f, set, n->everywhere, true);
        ein__outline_phase(f, set);
    }
    for (int r = 0; r < n->n_out; r++) store(f, r, &s);
    ein__outline_close(f, single ? 1 : 2);
}

/* ---- kernels ---- */

/* A copy, which needs no types. */
static uint64_t copied(const nest *n)
{
    if (n->n_statistics > 0 || n->last->n != 1 || n->last->nodes[0].op != X_ARG) return 0;
    int v = n->last->nodes[0].a;
    return n->in[v].dtype == n->out->dtype ? (uint64_t)1 << v : 0;
}

static void start(outline *f, writer *w, const nest *n, const char *prefix)
{
    uint64_t used = n->everywhere ? arguments(n->last) : 0;
    for (int k = 0; k < n->n_statistics; k++) used |= body_arguments(&n->statistics[k]);
    ein__outline_begin(f, w, n, used, prefix);
    f->raw = copied(n);
}

/* Blocks are rows times blocks of a row; those of rows that have no place leave. */
static void shifted(outline *f, i64 *blocks)
{
    const shift *s = f->n->shift;
    ein__writer_int(f->w, "row_blocks", *blocks);
    ein__writer_int(f->w, "x0_s", s->row_stride);
    ein__writer_int(f->w, "y0_t", s->place_stride);
    ein__writer_int(f->w, "n_t", s->n_places);
    ein__writer_scalar(f->w, "first", s->scalar, s->first);
    LINE(f, "const i64 s = bx / row_blocks, at = bx %% row_blocks, t = first + s;\n");
    LINE(f, "if (t < 0 || t >= n_t) return;\n");
    *blocks *= s->n_rows;
}

static void kernel(outline *f, const char *block)
{
    ein__outline_decode(f, block);
    for (int k = 0; k < f->n->n_statistics; k++) make_statistic(f, k);
    finish(f);
}

static ein_status emit_one(arena *a, const nest *n, launch *out)
{
    writer w;
    outline f;
    ein__writer_begin(&w, a);
    start(&f, &w, n, "");
    ein__outline_parameters(&f);
    out->grid[0] = ein__outline_blocks(&f);
    if (n->shift != NULL) shifted(&f, &out->grid[0]);
    kernel(&f, n->shift != NULL ? "at" : "bx");
    short_text head = ein__name("%s, lane %s", n->what, f.loops.across ? "across" : "parallel");
    return ein__writer_end(&w, head.s, f.threads, out);
}

/* Nest i takes the blocks that follow those of nest i - 1. */
static ein_status emit_many(arena *a, const nest *nests, int n, launch *out)
{
    writer w;
    outline f;
    int threads = 32;
    ein__writer_begin(&w, a);
    for (int i = 0; i < n; i++) {
        start(&f, &w, &nests[i], "");
        if (f.threads > threads) threads = f.threads;
    }
    for (int i = 0; i < n; i++) {
        short_text p = ein__name("p%d_", i);
        start(&f, &w, &nests[i], p.s);
        f.threads = threads;
        ein__outline_parameters(&f);
        ein__writer_int(&w, ein__name("%sfirst", p.s).s, out->grid[0]);
        out->grid[0] += ein__outline_blocks(&f);
        ein__writer_int(&w, ein__name("%send", p.s).s, out->grid[0]);
        LINE(&f, "if (bx >= %sfirst && bx < %send) {\n", p.s, p.s);
        f.depth++;
        LINE(&f, "const i64 at = bx - %sfirst;\n", p.s);
        kernel(&f, "at");
        ein__outline_close(&f, 1);
    }
    return ein__writer_end(&w, ein__name("%s of %d parts", nests[0].what, n).s, threads, out);
}

ein_status ein__nest_emit(arena *a, const nest *nests, int n, launch *out)
{
    *out = (launch){.kind = STEP_KERNEL, .grid = {0, 1, 1}};
    return n == 1 ? emit_one(a, nests, out) : emit_many(a, nests, n, out);
}
