/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers: a block copies one row of the table, or writes zeros if the row that its id names is not in this
 * block of the table (another device adds it). */
#include "jit/family/parts.h"

static bool applicable(const job *j)
{
    return j->node->kind == OP_GATHER && (j->mode == JOB_FINAL || j->mode == JOB_STATES) && j->n_in == 2 &&
           j->n_out == 1;
}

static ein_status emit(arena *a, const job *j, launch *out, error *e)
{
    writer w;
    const view *ids = &j->in[0], *table = &j->in[1], *y = &j->out[0];
    bool unit = table->stride[GATHER_D] == 1 && y->stride[GATHER_D] == 1;
    i64 n = j->box.len[GATHER_D];
    (void)e;
    ein__writer_begin(&w, a);
    ein__writer_in(&w, ids, 0, "x0");
    ein__writer_in(&w, table, 0, "x1");
    ein__writer_out(&w, y, 0, "y0");
    ein__writer_int(&w, "n", n);
    ein__writer_int(&w, "first", j->box.lo[GATHER_V]);
    ein__writer_int(&w, "rows", j->box.len[GATHER_V]);
    ein__writer_int(&w, "id_step", ids->stride[GATHER_ROWS]);
    ein__writer_int(&w, "x_row", table->stride[GATHER_V]);
    ein__writer_int(&w, "y_row", y->stride[GATHER_ROWS]);
    if (!unit) ein__writer_int(&w, "x_step", table->stride[GATHER_D]);
    if (!unit) ein__writer_int(&w, "y_step", y->stride[GATHER_D]);
    const char *x_at = unit ? "x + c + tid" : "x + (c + tid) * x_step";
    const char *y_at = unit ? "y + c + tid" : "y + (c + tid) * y_step";
    ein__text_add(&w.body, "    const i64 row = LD(x0, bx * id_step) - first;\n"
                           "    const i64 x = row * x_row, y = bx * y_row;\n"
                           "    const int here = row >= 0 && row < rows;\n"
                           "    UNROLL_DEV(4)\n"
                           "    for (i64 c = 0; c < n; c += THREADS) {\n"
                           "        if (here) {\n"
                           "            STEP_N(n - c) { ST(y0, %s, LD(x1, %s)); }\n"
                           "        } else {\n"
                           "            STEP_N(n - c) { ST(y0, %s, 0.0f); }\n"
                           "        }\n"
                           "    }\n", y_at, x_at, y_at);
    out->grid[0] = n > 0 ? j->box.len[GATHER_ROWS] : 0;
    out->grid[1] = out->grid[2] = 1;
    return ein__writer_end(&w, unit ? "gather" : "gather, strided", ein__threads_for(n), out);
}

const family ein__family_gather = {"gather", applicable, emit};
