/* SPDX-License-Identifier: Apache-2.0 */
/* Selections: a block per row picks the k first of its elements, one a round: the first of those that come after
 * the pick before. The order is total: by value, NaN as the largest; by index; and by place in the row, so that
 * elements with equal values and indices are picked too. */
#include "jit/family/parts.h"

/* BEFORE: the element at place q with value f (and index i) comes before that at p with v (and j). FIRST, ABOVE or
 * its reverse, comes with the direction. */
static const char float_order[] =
    "#define ABOVE(a, b) (((a) > (b)) | (((a) != (a)) & ((b) == (b))))\n"
    "#define SAME(a, b) (((a) == (b)) | (((a) != (a)) & ((b) != (b))))\n";
static const char integer_order[] =
    "#define ABOVE(a, b) ((a) > (b))\n"
    "#define SAME(a, b) ((a) == (b))\n";
static const char pairs[] =
    "#define BEFORE(f, q, v, p) (FIRST(f, v) | (SAME(f, v) & ((q) < (p))))\n";
static const char triples[] =
    "#define BEFORE(f, i, q, v, j, p) \\\n"
    "    (FIRST(f, v) | (SAME(f, v) & (((i) < (j)) | (((i) == (j)) & ((q) < (p))))))\n";

static bool applicable(const job *j)
{
    const select_attrs *s = &j->node->select;
    return j->node->kind == OP_SELECT && j->mode == JOB_FINAL && j->n_out == 2 && (j->n_in == 1 || j->n_in == 2) &&
           j->box.len[s->k] <= j->box.len[s->n] && j->in[0].dtype == j->out[0].dtype;
}

/* "a, i, q" or "a, q": one side of an order's arguments. */
static short_text element(bool indexed, const char *value, const char *index, const char *place)
{
    return indexed ? ein__name("%s, %s, %s", value, index, place) : ein__name("%s, %s", value, place);
}

/* Each thread's first element of those after the last pick. */
static void scan(outline *f, bool indexed, const char *type)
{
    const char *load = ein__dtype_load(f->n->in[0].dtype);
    short_text x = ein__outline_element(f, 0, "b", "q"), ids = ein__outline_element(f, 1, "b", "q");
    short_text this = element(indexed, "a", "i", "q"), last = element(indexed, "v0", "j0", "p0");
    short_text best = element(indexed, "P(v)", "P(j)", "P(p)");
    LINE(f, "STEP { P(p) = -1; P(v) = 0;%s }\n", indexed ? " P(j) = 0;" : "");
    LINE(f, "UNROLL_DEV(4)\n");
    LINE(f, "for (i64 c = 0; c < n_l; c += THREADS)\n");
    f->depth++;
    LINE(f, "STEP_N(n_l - c) {\n");
    f->depth++;
    LINE(f, "const i64 q = c + tid;\n");
    LINE(f, "const %s a = %s(LD(x0, %s));\n", type, load, x.s);
    if (indexed) LINE(f, "const i64 i = LD(x1, %s);\n", ids.s);
    LINE(f, "const int take = ((p0 < 0) | BEFORE(%s, %s)) & ((P(p) < 0) | BEFORE(%s, %s));\n", last.s, this.s, this.s,
         best.s);
    LINE(f, "P(v) = take ? a : P(v);\n");
    if (indexed) LINE(f, "P(j) = take ? i : P(j);\n");
    LINE(f, "P(p) = take ? q : P(p);\n");
    ein__outline_close(f, 1);
    f->depth--;
}

/* The block's first of the threads' ones. */
static void tree(outline *f, bool indexed)
{
    const char *a = indexed ? "tv[tid + h], tj[tid + h], tp[tid + h]" : "tv[tid + h], tp[tid + h]";
    const char *b = indexed ? "tv[tid], tj[tid], tp[tid]" : "tv[tid], tp[tid]";
    LINE(f, "PHASE { tv[tid] = P(v); tp[tid] = P(p);%s }\n", indexed ? " tj[tid] = P(j);" : "");
    LINE(f, "for (int h = THREADS / 2; h > 0; h /= 2)\n");
    f->depth++;
    LINE(f, "PHASE_N(h) {\n");
    f->depth++;
    LINE(f, "const int take = (tp[tid + h] >= 0) & ((tp[tid] < 0) | BEFORE(%s, %s));\n", a, b);
    LINE(f, "tv[tid] = take ? tv[tid + h] : tv[tid];\n");
    if (indexed) LINE(f, "tj[tid] = take ? tj[tid + h] : tj[tid];\n");
    LINE(f, "tp[tid] = take ? tp[tid + h] : tp[tid];\n");
    ein__outline_close(f, 1);
    f->depth--;
    LINE(f, "v0 = tv[0];\n");
    if (indexed) LINE(f, "j0 = tj[0];\n");
    LINE(f, "p0 = tp[0];\n");
}

static void rounds(outline *f, bool indexed)
{
    const char *type = ein__dtype_kernel(ein__dtype_compute(f->n->in[0].dtype));
    short_text picked = ein__outline_element(f, 0, "b", "p0");
    LINE(f, "PRIV(%s, v);\n", type);
    LINE(f, "PRIV(i64, p);\n");
    LINE(f, "SHARED(%s, tv, THREADS);\n", type);
    LINE(f, "SHARED(i64, tp, THREADS);\n");
    if (indexed) LINE(f, "PRIV(i64, j);\n");
    if (indexed) LINE(f, "SHARED(i64, tj, THREADS);\n");
    LINE(f, "%s v0 = 0;\n", type);
    LINE(f, "i64 p0 = -1%s;\n", indexed ? ", j0 = 0" : "");
    LINE(f, "for (i64 r = 0; r < n_k; r++) {\n");
    f->depth++;
    scan(f, indexed, type);
    tree(f, indexed);
    LINE(f, "STEP_N(1) {\n");
    f->depth++;
    LINE(f, "ST(y0, y0_b + r * y0_k, LD(x0, %s));\n", picked.s);
    LINE(f, "ST(y1, y1_b + r * y1_k, %s);\n", indexed ? "j0" : "first + p0");
    ein__outline_close(f, 1);
    LINE(f, "SYNC;\n");
    ein__outline_close(f, 1);
}

static void orders(outline *f, bool indexed)
{
    bool floats = ein__dtype_is_float(f->n->in[0].dtype);
    text *out = &f->w->body;
    ein__text_add(out, "%s%s", floats ? float_order : integer_order, indexed ? triples : pairs);
}

static ein_status emit(arena *a, const job *j, launch *out, error *e)
{
    const select_attrs *s = &j->node->select;
    bool indexed = j->n_in == 2;
    writer w;
    outline f;
    nest n = {.what = "select", .n_labels = j->node->spec.n_labels, .box = j->box, .aggregated = 1u << s->n,
              .across = true, .n_in = j->n_in, .in = j->in, .n_out = 2, .out = j->out};
    (void)e;
    n.box.len[s->k] = 1;
    ein__writer_begin(&w, a);
    ein__outline_begin(&f, &w, &n, 3, "");
    ein__outline_parameters(&f);
    ein__writer_int(&w, "n_k", j->box.len[s->k]);
    ein__writer_int(&w, "y0_k", j->out[0].stride[s->k]);
    ein__writer_int(&w, "y1_k", j->out[1].stride[s->k]);
    if (!indexed) ein__writer_int(&w, "first", j->box.lo[s->n]);
    orders(&f, indexed);
    ein__text_add(&w.body, s->smallest ? "#define FIRST(a, b) ABOVE(b, a)\n" : "#define FIRST(a, b) ABOVE(a, b)\n");
    ein__outline_decode(&f, "bx");
    rounds(&f, indexed);
    ein__text_add(&w.body, "#undef BEFORE\n#undef FIRST\n#undef SAME\n#undef ABOVE\n");
    out->grid[0] = j->box.len[s->k] > 0 ? ein__outline_blocks(&f) : 0;
    out->grid[1] = out->grid[2] = 1;
    return ein__writer_end(&w, "select", f.threads, out);
}

const family ein__family_select = {"select", applicable, emit};
