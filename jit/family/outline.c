/* SPDX-License-Identifier: Apache-2.0 */
/* Outlines: what the texts over loops have in common. A block decodes its number into the outer loops, then
 *
 *     lane parallel:  every thread has an element of the lane; aggregated loops are uniform, around the phases
 *     lane across:    the threads stride over the aggregated lane
 *
 * Only the structure is in the text: how many loops there are, whether a view steps by 0, 1 or more along the
 * lane, the views' types. */
#include <string.h>

#include "jit/family/parts.h"

enum { ITEMS = 4, LONG = 1024 };

void ein__outline_indent(const outline *f) { ein__text_add(&f->w->body, "%*s", 4 * f->depth, ""); }

static bool is_output(const outline *f, int v) { return v >= f->n->n_in; }
static bool is_used(const outline *f, int v) { return is_output(f, v) || (f->used >> v & 1) != 0; }
static const view *view_of(const outline *f, int v)
{
    return is_output(f, v) ? &f->n->out[v - f->n->n_in] : &f->n->in[v];
}

short_text ein__outline_name(const outline *f, int v)
{
    return is_output(f, v) ? ein__name("%sy%d", f->prefix.s, v - f->n->n_in) : ein__name("%sx%d", f->prefix.s, v);
}

void ein__outline_begin(outline *f, writer *w, const nest *n, uint64_t used, const char *prefix)
{
    *f = (outline){.w = w, .n = n, .prefix = ein__name("%s", prefix), .depth = 1, .items = 1};
    ein__loops_make(n, &f->loops);
    f->used = used & (((uint64_t)1 << n->n_in) - 1);
    f->threads = ein__threads_for(f->loops.lane.n);
    if (n->n_statistics == 0 && f->loops.lane.n >= LONG) f->items = ITEMS;
}

/* ---- parameters ---- */

static void strides(outline *f, int v)
{
    const loop_set *l = &f->loops;
    short_text n = ein__outline_name(f, v);
    for (int i = 0; i < l->n_outer; i++)
        ein__writer_int(f->w, ein__name("%s_o%d", n.s, i).s, l->outer[i].stride[v]);
    for (int i = 0; i < l->n_inner && (!is_output(f, v) || f->n->everywhere); i++)
        ein__writer_int(f->w, ein__name("%s_r%d", n.s, i).s, l->inner[i].stride[v]);
    if (l->lane.stride[v] != 0 && l->lane.stride[v] != 1)
        ein__writer_int(f->w, ein__name("%s_l", n.s).s, l->lane.stride[v]);
}

void ein__outline_parameters(outline *f)
{
    const loop_set *l = &f->loops;
    const char *p = f->prefix.s;
    for (int v = 0; v < l->n_views; v++) {
        if (!is_used(f, v)) continue;
        const view *x = view_of(f, v);
        short_text n = ein__outline_name(f, v);
        if (is_output(f, v)) ein__writer_out(f->w, x, 0, n.s);
        else if (x->index) ein__writer_int(f->w, n.s, x->offset);
        else ein__writer_in(f->w, x, 0, n.s);
    }
    for (int i = 0; i < l->n_outer; i++) ein__writer_int(f->w, ein__name("%sn_o%d", p, i).s, l->outer[i].n);
    for (int i = 0; i < l->n_inner; i++) ein__writer_int(f->w, ein__name("%sn_r%d", p, i).s, l->inner[i].n);
    ein__writer_int(f->w, ein__name("%sn_l", p).s, l->lane.n);
    for (int v = 0; v < l->n_views; v++)
        if (is_used(f, v)) strides(f, v);
}

i64 ein__outline_blocks(const outline *f)
{
    i64 blocks = f->loops.across ? 1 : ein__blocks(f->loops.lane.n, (i64)f->threads * f->items);
    for (int i = 0; i < f->loops.n_outer; i++) blocks *= f->loops.outer[i].n;
    return blocks;
}

/* ---- places ---- */

/* Where the views are for these outer indices. */
static void bases(outline *f)
{
    for (int v = 0; v < f->loops.n_views; v++) {
        if (!is_used(f, v)) continue;
        short_text n = ein__outline_name(f, v);
        bool index = view_of(f, v)->index;
        LINE(f, "const i64 %s_b = %s", n.s, index ? n.s : f->loops.n_outer == 0 ? "0" : "");
        for (int i = 0; i < f->loops.n_outer; i++)
            ein__text_add(&f->w->body, "%si%d * %s_o%d", i > 0 || index ? " + " : "", i, n.s, i);
        if (f->n->shift != NULL) ein__text_add(&f->w->body, is_output(f, v) ? " + t * y0_t" : " + s * x0_s");
        ein__text_add(&f->w->body, ";\n");
    }
}

/* Outer indices i0.. and, where the lane is parallel, the chunk's first element c. */
void ein__outline_decode(outline *f, const char *block)
{
    const char *p = f->prefix.s;
    int chunk = f->threads * f->items;
    short_text q = ein__name("%s", block);
    if (!f->loops.across) {
        const char *c = f->items > 1 ? "c0" : "c";
        if (f->loops.n_outer == 0) {
            LINE(f, "const i64 %s = %s * %d;\n", c, block, chunk);
        } else {
            LINE(f, "const i64 chunks = (%sn_l + %d) / %d;\n", p, chunk - 1, chunk);
            LINE(f, "const i64 %s = %s %% chunks * %d, q = %s / chunks;\n", c, block, chunk, block);
            q = ein__name("q");
        }
    }
    for (int i = f->loops.n_outer - 1; i > 0; i--) {
        LINE(f, "const i64 i%d = %s %% %sn_o%d, q%d = %s / %sn_o%d;\n", i, q.s, p, i, i, q.s, p, i);
        q = ein__name("q%d", i);
    }
    if (f->loops.n_outer > 0) LINE(f, "const i64 i0 = %s;\n", q.s);
    bases(f);
}

/* ---- points ---- */

short_text ein__outline_element(const outline *f, int v, const char *place, const char *at)
{
    i64 s = f->loops.lane.stride[v];
    short_text n = ein__outline_name(f, v);
    if (s == 0) return ein__name("%s_%s", n.s, place);
    return s == 1 ? ein__name("%s_%s + %s", n.s, place, at) : ein__name("%s_%s + %s * %s_l", n.s, place, at, n.s);
}

void ein__outline_place(outline *f, int v, bool inner)
{
    i64 s = f->loops.lane.stride[v];
    short_text n = ein__outline_name(f, v);
    LINE(f, "const i64 %s_at = %s_b", n.s, n.s);
    for (int i = 0; i < f->loops.n_inner && inner; i++)
        ein__text_add(&f->w->body, " + r%d * %s_r%d", i, n.s, i);
    if (s == 1) ein__text_add(&f->w->body, " + c");
    else if (s != 0) ein__text_add(&f->w->body, " + c * %s_l", n.s);
    ein__text_add(&f->w->body, ";\n");
}

/* Uniform values are loaded in front of the phase, the others in it. */
static void load(outline *f, int v, bool uniform)
{
    const view *x = view_of(f, v);
    bool raw = x->index || (f->raw >> v & 1) != 0;
    const char *convert = raw ? "" : ein__dtype_load(x->dtype);
    short_text at = ein__outline_element(f, v, "at", "tid");
    if ((f->loops.lane.stride[v] == 0) != uniform) return;
    LINE(f, "const %s v%d = ", ein__dtype_kernel(raw ? x->dtype : ein__dtype_compute(x->dtype)), v);
    if (x->index) ein__text_add(&f->w->body, "%s;\n", at.s);
    else if (*convert == 0) ein__text_add(&f->w->body, "LD(%s, %s);\n", ein__outline_name(f, v).s, at.s);
    else ein__text_add(&f->w->body, "%s(LD(%s, %s));\n", convert, ein__outline_name(f, v).s, at.s);
}

static void open(outline *f)
{
    LINE(f, "{\n");
    f->depth++;
}

/* GPU compilers keep an address and a step per view and loop in registers, and those of every copy of an unrolled
 * loop: with many of both they spill. So from some number of steps on loops are not unrolled (on sm_100, 48 spilled
 * where 40 did not), and then done as one whose index is taken apart (there 80 spilled without unrolling, 56 did not). */
enum { MOST_STEPS_UNROLLED = 24, MOST_STEPS = 40 };

static int steps(const outline *f, uint64_t set, bool stored)
{
    int n = 0;
    for (int v = 0; v < f->loops.n_views; v++) n += is_output(f, v) ? stored : (set >> v & 1) != 0;
    return n * f->loops.n_inner;
}

static void inner_loops(outline *f, uint64_t set, bool stored, bool strided)
{
    const char *p = f->prefix.s;
    int n = f->loops.n_inner;
    bool unrolled = !strided && steps(f, set, stored) <= MOST_STEPS_UNROLLED;
    if (steps(f, set, stored) <= MOST_STEPS) {
        for (int i = 0; i < n; i++) {
            if (i + 1 == n && unrolled) LINE(f, "UNROLL_DEV(4)\n");
            LINE(f, "for (i64 r%d = 0; r%d < %sn_r%d; r%d++)\n", i, i, p, i, i);
        }
        return;
    }
    LINE(f, "for (i64 r = 0; r < %sn_r0", p);
    for (int i = 1; i < n; i++) ein__text_add(&f->w->body, " * %sn_r%d", p, i);
    ein__text_add(&f->w->body, "; r++)\n");
}

static void flat_indices(outline *f, uint64_t set, bool stored)
{
    const char *p = f->prefix.s;
    short_text q = ein__name("r");
    if (steps(f, set, stored) <= MOST_STEPS) return;
    for (int i = f->loops.n_inner - 1; i > 0; i--) {
        LINE(f, "const i64 r%d = %s %% %sn_r%d, p%d = %s / %sn_r%d;\n", i, q.s, p, i, i, q.s, p, i);
        q = ein__name("p%d", i);
    }
    LINE(f, "const i64 r0 = %s;\n", q.s);
}

void ein__outline_points(outline *f, uint64_t set, bool inner, bool stored)
{
    const char *p = f->prefix.s;
    const loop_set *l = &f->loops;
    bool strided = l->across && inner, items = !l->across && f->items > 1;
    if (inner) inner_loops(f, set, stored, strided);
    if (strided) {
        LINE(f, "UNROLL_DEV(4)\n");
        LINE(f, "for (i64 c = 0; c < %sn_l; c += THREADS)\n", p);
    }
    if (items) {
        LINE(f, "UNROLL_DEV(%d)\n", f->items);
        LINE(f, "for (int u = 0; u < %d; u++)\n", f->items);
    }
    open(f);
    if (inner) flat_indices(f, set, stored);
    if (items) LINE(f, "const i64 c = c0 + u * THREADS;\n");
    for (int v = 0; v < l->n_views; v++)
        if (is_output(f, v) ? stored : (set >> v & 1) != 0) ein__outline_place(f, v, inner);
    for (int v = 0; v < f->n->n_in; v++)
        if (set >> v & 1) load(f, v, true);
}

void ein__outline_phase(outline *f, uint64_t set)
{
    LINE(f, "STEP_N(%sn_l - c) {\n", f->prefix.s);
    f->depth++;
    for (int v = 0; v < f->n->n_in; v++)
        if (set >> v & 1) load(f, v, false);
}

void ein__outline_close(outline *f, int braces)
{
    for (; braces > 0; braces--) {
        f->depth--;
        LINE(f, "}\n");
    }
}

/* ---- inputs of a job ---- */

ein_status ein__job_inputs(arena *a, const job *j, const view **in, int *n_in)
{
    const node *x = j->node;
    int n = x->spec.n_operands, given = j->n_in - n;
    view *views;
    *in = j->in;
    *n_in = j->n_in + x->n_indices;
    if (x->n_indices == 0) return EIN_OK;
    NEW(a, views, *n_in);
    memcpy(views, j->in, (size_t)n * sizeof *views);
    for (int i = 0; i < x->n_indices; i++) {
        int l = x->indices[i];
        views[n + i] = (view){.dtype = EIN_I64, .offset = j->box.lo[l], .scalar = -1, .index = true};
        views[n + i].stride[l] = 1;
    }
    if (given > 0) memcpy(views + n + x->n_indices, j->in + n, (size_t)given * sizeof *views);
    *in = views;
    return EIN_OK;
}
