/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers: every point copies the element of the row that its id names, or writes zero if that row is not in this
 * block of the table (another device adds it). Where ids are the same along the lane, the row is uniform. */
#include "jit/family/parts.h"

enum { IDS, TABLE, RESULT };

static bool applicable(const job *j)
{
    return j->node->kind == OP_GATHER && (j->mode == JOB_FINAL || j->mode == JOB_STATES) && j->n_in == 2 &&
           j->n_out == 1 && j->in[TABLE].dtype == j->out[0].dtype;
}

/* row, and whether it is here: for the block, or for a thread. */
static void find_row(outline *f)
{
    LINE(f, "const i64 row = v0 - first;\n");
    LINE(f, "const int here = row >= 0 && row < n_rows;\n");
}

static void copy(outline *f, const char *condition, bool row, const char *otherwise)
{
    short_text to = ein__outline_element(f, RESULT, "at", "tid"), from = ein__outline_element(f, TABLE, "at", "tid");
    LINE(f, "ST(y0, %s, ", to.s);
    if (row) ein__text_add(&f->w->body, "%sLD(x1, %s + row * x1_v)", condition, from.s);
    ein__text_add(&f->w->body, "%s);\n", otherwise);
}

/* The row is uniform: two phases, of which one runs. */
static void rows(outline *f)
{
    find_row(f);
    for (int here = 1; here >= 0; here--) {
        LINE(f, here ? "if (here) {\n" : "} else {\n");
        f->depth++;
        ein__outline_phase(f, 0);
        copy(f, "", here == 1, here ? "" : "0");
        ein__outline_close(f, 1);
        f->depth--;
    }
    LINE(f, "}\n");
}

static void elements(outline *f)
{
    ein__outline_phase(f, 1 << IDS);
    find_row(f);
    copy(f, "here ? ", true, " : 0");
    ein__outline_close(f, 1);
}

static ein_status emit(arena *a, const job *j, launch *out, error *e)
{
    writer w;
    outline f;
    nest n = {.what = "gather", .n_labels = j->node->spec.n_labels, .box = j->box, .n_in = 2, .in = j->in,
              .n_out = 1, .out = j->out};
    (void)e;
    n.box.len[GATHER_V] = 1;
    ein__writer_begin(&w, a);
    ein__outline_begin(&f, &w, &n, 1 << IDS | 1 << TABLE, "");
    ein__outline_parameters(&f);
    ein__writer_int(&w, "first", j->box.lo[GATHER_V]);
    ein__writer_int(&w, "n_rows", j->box.len[GATHER_V]);
    ein__writer_int(&w, "x1_v", j->in[TABLE].stride[GATHER_V]);
    ein__outline_decode(&f, "bx");
    ein__outline_points(&f, 1 << IDS, false, true);
    ein__outline_place(&f, TABLE, false);
    if (f.loops.lane.stride[IDS] == 0) rows(&f);
    else elements(&f);
    ein__outline_close(&f, 1);
    out->grid[0] = ein__outline_blocks(&f);
    out->grid[1] = out->grid[2] = 1;
    return ein__writer_end(&w, "gather", f.threads, out);
}

const family ein__family_gather = {"gather", applicable, emit};
