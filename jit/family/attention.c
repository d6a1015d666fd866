/* SPDX-License-Identifier: Apache-2.0 */
/* Attention with an online softmax (Milakov and Gimelshein 2018, Dao et al. 2022). A block of 16 x 16 threads
 * has a tile of queries of one kv head and walks over tiles of keys that some of them see (attention_tile.c).
 * Queries are rows (group, position), so that heads that share keys share their loads; value columns past 256
 * (f64: 128) are slices of their own in the grid. This file has the text's frame: tile sizes, parameters, the
 * block's place, what is stored at the end. */
#include "jit/family/attention.h"

#include <string.h>

enum { SHARED_BYTES = 48 * 1024 };

static int divide_up(int n, int by) { return (n + by - 1) / by; }
static int round_up(int n, int to) { return divide_up(n, to) * to; }

static i64 rows_of(const job *j) { return j->box.len[ATT_G] * j->box.len[ATT_S]; }

/* ---- tiles ---- */

static void set_numbers(const job *j, tiling *t)
{
    t->compute = ein__dtype_compute(j->in[0].dtype);
    bool wide = t->compute == EIN_F64;
    t->real = wide ? "double" : "float";
    t->zero = wide ? "0.0" : "0.0f";
    t->one = wide ? "1.0" : "1.0f";
    t->inf = wide ? "D_INF" : "K_INF";
    t->fn = wide ? "d_" : "k_";
}

static void set_chunks(const job *j, tiling *t)
{
    int widest = t->compute == EIN_F64 ? 128 : 256;
    t->d = (int)j->box.len[ATT_D];
    t->e = (int)j->box.len[ATT_E];
    t->d_chunks = divide_up(t->d, CHUNK);
    t->d_chunk = round_up(divide_up(t->d, t->d_chunks), SIDE);
    t->e_slices = divide_up(t->e, widest);
    t->e_width = divide_up(t->e, t->e_slices);
    t->e_chunks = divide_up(t->e_width, CHUNK);
    t->e_chunk = round_up(divide_up(t->e_width, t->e_chunks), SIDE);
}

/* Bytes of the arrays that `declare` declares, and of what a collective needs. */
static int shared_bytes(const tiling *t)
{
    int number = t->compute == EIN_F64 ? 8 : 4, collective = 32 * 4;
    int numbers = t->row * t->d_chunk * (t->resident ? t->d_chunks : 1) + t->kv + t->keys * t->row + THREADS +
                  2 * t->queries;
    int addresses = 2 + (t->states ? 2 : 0) + t->mask, ints = 1 + t->window;
    return numbers * number + t->queries * (8 * addresses + 4 * ints) + collective;
}

/* Tile sizes for `queries`. */
static void set_tile(tiling *t, int queries)
{
    t->queries = queries;
    t->row = queries + 1;
    for (int resident = t->d_chunk * t->d_chunks <= 256; resident >= 0; resident--) {
        t->resident = resident != 0;
        bool narrow = queries == 64 || (queries == 32 && t->resident && t->d_chunk * t->d_chunks > 128);
        t->keys = narrow || t->compute == EIN_F64 ? 32 : 64;
        int longest = t->d_chunk + 1 > t->e_chunk ? t->d_chunk + 1 : t->e_chunk;
        t->kv = t->keys * (t->mask && t->row > longest ? t->row : longest);
        if (shared_bytes(t) <= SHARED_BYTES) return;
    }
}

static void choose_tile(i64 rows, tiling *t)
{
    bool narrow = t->d_chunk * t->d_chunks > 64 || t->e_width > 128 || t->compute == EIN_F64;
    if (rows <= 8 && t->e_chunk % 32 == 0) {
        set_tile(t, 8);
        int columns = t->d_chunk * (t->resident ? t->d_chunks : 1);
        if (ein__attention_load_width(columns) >= THREADS / 8) return; /* a load's rows fit the tile */
    }
    set_tile(t, rows <= 16 ? 16 : rows <= 32 || narrow ? 32 : 64);
}

static void make_tiling(const job *j, tiling *t)
{
    const attention_attrs *x = &j->node->attention;
    *t = (tiling){.causal = x->causal, .window = x->window > 0, .mask = j->n_in == 4, .softcap = x->softcap > 0,
                  .states = j->n_out == 3};
    set_numbers(j, t);
    set_chunks(j, t);
    choose_tile(rows_of(j), t);
    /* Measured: what makes the device's assembler spill least. */
    t->unroll = t->queries == 8 ? 2 : t->queries == 16 ? 1 : t->queries == 32 && t->keys == 32 ? 8 : 4;
    t->p_side = t->queries < SIDE ? t->queries : SIDE;
    t->split = t->queries <= 16 && t->e_chunk % 32 == 0;
    t->o_side = t->split ? t->e_chunk : SIDE;
    t->o_rows = t->queries * t->o_side / THREADS;
    t->o_columns = t->e_chunk / t->o_side;
}

static bool fits_int(i64 n) { return n >= 1 && n <= INT32_MAX / 2; }

static bool applicable(const job *j)
{
    return j->node->kind == OP_ATTENTION && (j->mode == JOB_FINAL || j->mode == JOB_STATES) &&
           (j->n_in == 3 || j->n_in == 4) && (j->n_out == 1 || j->n_out == 3) && fits_int(j->box.len[ATT_D]) &&
           fits_int(j->box.len[ATT_E]) && j->box.len[ATT_T] <= INT32_MAX / 2;
}

/* ---- parameters ---- */

static void strides(writer *w, const view *v, const char *id, const char *labels)
{
    static const char names[] = "bhgstde";
    for (const char *p = labels; *p != 0; p++) {
        int l = (int)(strchr(names, *p) - names);
        if ((l != ATT_D && l != ATT_E) || v->stride[l] != 1)
            ein__writer_int(w, ein__name("%s_%c", id, *p).s, v->stride[l]);
    }
}

static void number(writer *w, const tiling *t, const char *id, double x)
{
    if (t->compute == EIN_F64) ein__writer_double(w, id, x);
    else ein__writer_float(w, id, x);
}

/* Which keys are seen. Of q at position s of the box, key t of the box is at s + first - t. */
static void parameters_seen(writer *w, const job *j, const tiling *t)
{
    const attention_attrs *x = &j->node->attention;
    if (t->causal || t->window)
        ein__writer_scalar(w, "first", x->position, j->box.lo[ATT_S] - j->box.lo[ATT_T]);
    if (x->length >= 0) ein__writer_scalar(w, "length", x->length, -j->box.lo[ATT_T]);
    else ein__writer_int(w, "length", j->box.len[ATT_T]);
    const i64 far = (i64)1 << 42; /* more than any two positions are apart */
    if (t->window) ein__writer_int(w, "window", x->window < far ? x->window : far);
    if (t->mask) strides(w, &j->in[3], "mask", "bhgst");
}

static void parameters(writer *w, const job *j, const tiling *t)
{
    const attention_attrs *x = &j->node->attention;
    const view *o = &j->out[j->n_out - 1];
    ein__writer_in(w, &j->in[0], 0, "q");
    ein__writer_in(w, &j->in[1], 0, "k");
    ein__writer_in(w, &j->in[2], 0, "v");
    if (t->mask) ein__writer_in(w, &j->in[3], 0, "mask");
    ein__writer_out(w, o, 0, "o");
    if (t->states) ein__writer_out(w, &j->out[0], 0, "m");
    if (t->states) ein__writer_out(w, &j->out[1], 0, "l");
    ein__writer_int(w, "n_h", j->box.len[ATT_H]);
    ein__writer_int(w, "n_s", j->box.len[ATT_S]);
    ein__writer_int(w, "n_t", j->box.len[ATT_T]);
    ein__writer_int(w, "rows", rows_of(j));
    number(w, t, "scale", x->scale);
    if (t->softcap) number(w, t, "cap", x->softcap);
    parameters_seen(w, j, t);
    strides(w, &j->in[0], "q", "bhgsd");
    strides(w, &j->in[1], "k", "bhtd");
    strides(w, &j->in[2], "v", "bhte");
    strides(w, o, "o", "bhgse");
    if (t->states) strides(w, &j->out[0], "m", "bhgs");
    if (t->states) strides(w, &j->out[1], "l", "bhgs");
}

/* ---- the block's place ---- */

/* "const int name = x between 0 and n_seen;" */
static void add_clipped(text *b, const char *name, const char *x)
{
    ADD("    const int %s = (int)(%s < 0 ? 0 : %s < n_seen ? %s : n_seen);\n", name, x, x, x);
}

/* Keys [start, n_seen) are seen by some query of the block, keys [low, high) by all. */
static void place_keys(text *b, const tiling *t)
{
    ADD("    const i64 end = length < n_t ? length : n_t;\n");
    if (t->causal || t->window)
        ADD("    const i64 last = (r0 + %d < rows ? r0 + %d : rows) - 1;\n"
            "    const i64 earliest = r0 / n_s == last / n_s ? r0 %% n_s : 0;\n"
            "    const i64 latest = r0 / n_s == last / n_s ? last %% n_s : n_s - 1;\n",
            t->queries, t->queries);
    if (t->causal)
        ADD("    const i64 seen = latest + first + 1 < end ? latest + first + 1 : end;\n"
            "    const i64 all = earliest + first + 1;\n");
    else
        ADD("    const i64 seen = end;\n");
    ADD("    const int n_seen = seen > 0 ? (int)seen : 0, live = (int)(rows - r0 < %d ? rows - r0 : %d);\n",
        t->queries, t->queries);
    if (t->causal) add_clipped(b, "high", "all");
    else ADD("    const int high = n_seen;\n");
    if (!t->window) return;
    ADD("    const i64 some = earliest + first + 1 - window, none = latest + first + 1 - window;\n");
    add_clipped(b, "start", "some");
    add_clipped(b, "low", "none");
}

static void place_block(text *b, const job *j, const tiling *t)
{
    ADD("    const i64 tiles = (rows + %d) / %d;\n", t->queries - 1, t->queries);
    if (t->e_slices > 1) {
        ADD("    const i64 slice = bx %% %d, rest = bx / %d, e0 = slice * %d;\n", t->e_slices,
            t->e_slices, t->e_width);
        ADD("    const int width = (int)(%d - e0 < %d ? %d - e0 : %d);\n", t->e, t->e_width, t->e,
            t->e_width);
    } else {
        ADD("    const i64 rest = bx;\n");
    }
    /* Under a causal mask the last tiles have the most keys: they start first. */
    ADD("    const i64 r0 = (tiles - 1 - rest %% tiles) * %d, bh = rest / tiles;\n"
        "    const i64 head = bh %% n_h, batch = bh / n_h;\n", t->queries);
    place_keys(b, t);
    const char *slice = t->e_slices == 1 ? "" : j->in[2].stride[ATT_E] == 1 ? " + e0" : " + e0 * v_e";
    ADD("    const i64 k_at = batch * k_b + head * k_h, v_at = batch * v_b + head * v_h%s;\n", slice);
}

static void declare(text *b, const tiling *t)
{
    int rt = t->o_rows, ct = t->o_columns;
    const char *real = t->real;
    ADD("    SHARED(%s, qq, %d);\n", real, t->row * t->d_chunk * (t->resident ? t->d_chunks : 1));
    ADD("    SHARED(%s, kv, %d);\n    SHARED(%s, pp, %d);\n", real, t->kv, real, t->keys * t->row);
    ADD("    SHARED(%s, part, %d);\n", real, THREADS);
    ADD("    SHARED(%s, top, %d);\n    SHARED(%s, shrink, %d);\n", real, t->queries, real, t->queries);
    ADD("    SHARED(int, sees, %d);\n    SHARED(i64, q_at, %d);\n", t->queries, t->queries);
    if (t->window) ADD("    SHARED(int, from, %d);\n", t->queries);
    if (t->mask) ADD("    SHARED(i64, mask_at, %d);\n", t->queries);
    ADD("    SHARED(i64, o_at, %d);\n", t->queries);
    if (t->states) ADD("    SHARED(i64, m_at, %d);\n    SHARED(i64, l_at, %d);\n", t->queries, t->queries);
    ADD("    PRIV(float, odd);\n");
    ADD("    PRIV(%s, sum);\n", real);
    for (int h = 0; h < t->e_chunks; h++)
        for (int i = 0; i < rt; i++)
            for (int c = 0; c < ct; c++) ADD("    PRIV(%s, o%d_%d%d);\n", real, h, i, c);
    ADD("    STEP {\n        P(sum) = %s;\n", t->zero);
    for (int h = 0; h < t->e_chunks; h++)
        for (int i = 0; i < rt; i++)
            for (int c = 0; c < ct; c++) ADD("        P(o%d_%d%d) = %s;\n", h, i, c, t->zero);
    ADD("    }\n");
}

static void add_place(text *b, const char *id, const char *slice)
{
    ADD("        %s_at[tid] = batch * %s_b + head * %s_h + g * %s_g + s * %s_s%s;\n", id, id, id, id, id, slice);
}

/* Where each query and its results are, and which keys it sees. Rows past the end repeat the last one and
 * are not stored. All of it is left in shared memory: the loops need few registers then. */
static void place_queries(text *b, const job *j, const tiling *t)
{
    const view *o = &j->out[j->n_out - 1];
    const char *slice = t->e_slices == 1 ? "" : o->stride[ATT_E] == 1 ? " + e0" : " + e0 * o_e";
    ADD("    PHASE_N(%d) {\n", t->queries);
    ADD("        const i64 row = r0 + (tid < live ? tid : live - 1), g = row / n_s, s = row %% n_s;\n");
    add_place(b, "q", "");
    add_place(b, "o", slice);
    if (t->mask) add_place(b, "mask", "");
    if (t->states) add_place(b, "m", "");
    if (t->states) add_place(b, "l", "");
    ADD("        const i64 n = %s;\n", t->causal ? "s + first + 1 < seen ? s + first + 1 : seen" : "seen");
    ADD("        sees[tid] = n > 0 ? (int)n : 0;\n");
    if (t->window)
        ADD("        const i64 a = s + first + 1 - window;\n"
            "        from[tid] = (int)(a < 0 ? 0 : a < n_seen ? a : n_seen);\n");
    ADD("        top[tid] = ");
    ein__expr_print_number(EIN__LOWEST, t->compute, b);
    ADD(";\n    }\n");
}

/* ---- the end ---- */

static void store_rows(text *b, const tiling *t)
{
    if (!t->states) {
        ADD("    PHASE_N(%d) { shrink[tid] = P(sum) == %s ? %s : %s / P(sum); }\n", t->queries, t->zero, t->zero,
            t->one);
        return;
    }
    if (t->e_slices > 1) ADD("    if (slice == 0)\n    ");
    ADD("    STEP_N(live) { ST(m, m_at[tid], top[tid]); ST(l, l_at[tid], P(sum)); }\n");
}

static void store(text *b, const job *j, const tiling *t)
{
    const view *o = &j->out[j->n_out - 1];
    bool exact = t->e_slices == 1 && t->e_chunk * t->e_chunks == t->e_width;
    short_text width = t->e_slices > 1 ? ein__name("width") : ein__name("%d", t->e_width);
    const char *scaled = ein__attention_factor(o, ATT_E, " * o_e");
    store_rows(b, t);
    ADD("    STEP2(y, %d, x, %d) {\n", THREADS / t->o_side, t->o_side);
    for (int i = 0; i < t->o_rows; i++) {
        short_text row = ein__attention_query(t, i);
        ADD("        if (%s < live) {\n", row.s);
        if (!t->states) ADD("            const %s w = shrink[%s];\n", t->real, row.s);
        ADD("            const i64 to = o_at[%s];\n", row.s);
        for (int h = 0; h < t->e_chunks; h++)
            for (int c = 0; c < t->o_columns; c++) {
                int first = h * t->e_chunk + c * t->o_side;
                ADD("            ");
                if (!exact) ADD("if (x + %d < %s) ", first, width.s);
                ADD("ST(o, to + (x + %d)%s, %s(P(o%d_%d%d)%s));\n", first, scaled, ein__dtype_store(o->dtype), h, i,
                    c, t->states ? "" : " * w");
            }
        ADD("        }\n");
    }
    ADD("    }\n");
}

static ein_status emit(arena *a, const job *j, launch *out, error *e)
{
    writer w;
    tiling t;
    text *b = &w.body;
    (void)e;
    make_tiling(j, &t);
    ein__writer_begin(&w, a);
    parameters(&w, j, &t);
    place_block(b, j, &t);
    declare(b, &t);
    place_queries(b, j, &t);
    if (t.resident) ein__attention_load_queries(b, j, &t);
    if (t.window) ADD("    for (int t0 = start / %d * %d; t0 < n_seen; t0 += %d) {\n", t.keys, t.keys, t.keys);
    else ADD("    for (int t0 = 0; t0 < n_seen; t0 += %d) {\n", t.keys);
    ein__attention_tile(b, j, &t);
    ADD("    }\n");
    store(b, j, &t);
    out->grid[0] = j->box.len[ATT_B] * j->box.len[ATT_H] * ein__blocks(rows_of(j), t.queries) * t.e_slices;
    out->grid[1] = out->grid[2] = 1;
    short_text head = ein__name("attention, %d x %d tiles", t.queries, t.keys);
    return ein__writer_end(&w, head.s, THREADS, out);
}

const family ein__family_attention = {"attention", applicable, emit};
