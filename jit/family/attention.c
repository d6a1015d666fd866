/* SPDX-License-Identifier: Apache-2.0 */
/* Attention with an online softmax (Milakov and Gimelshein 2018, Dao et al. 2022). A block of 16 x 16 threads
 * has a tile of queries of one kv head and walks over tiles of keys that some of them see:
 *
 *     scores      p[key][query] = k q       thread (y, x): keys y.., queries x, x + 16, ..
 *     softmax     new maxima, p = exp(p - maximum), sums; queries side by side
 *     values      o = o shrink + p v        thread (y, x): queries y.., columns x, x + 16, ..; few queries
 *                                           are done group by group, and groups of no query left out
 *
 * Queries are rows (group, position), so that heads that share keys share their loads. In shared memory q and
 * p have the query as minor index, k and v lie as they come: every inner loop then reads one operand side by
 * side and the other by broadcast, on both targets. Head sizes are cut into chunks of at most 64 that go
 * through one buffer; value columns past 256 are slices of their own in the grid.
 *
 * Hidden scores are -inf and maxima start finite, so no difference is inf - inf. Keys past the last one seen
 * are read as copies of that one and hidden. */
#include "jit/family/parts.h"

#define ADD(...) ein__text_add(b, __VA_ARGS__)

enum { THREADS = 256, SIDE = 16, CHUNK = 64, WIDTH = 256 };

typedef struct tiling {
    int d, e;
    int d_chunk, d_chunks;         /* of q and k; a multiple of 16 */
    int e_slices, e_width;         /* value columns of one block */
    int e_chunk, e_chunks;
    int queries, keys;             /* of a tile */
    int row;                       /* row length of q and p in shared memory: queries + 1 */
    bool resident;                 /* all chunks of q stay in shared memory */
    int unroll;                    /* of the hot loops, on the device */
    int p_side;                    /* threads along the queries of p; the others along keys */
    int o_side;                    /* threads along the columns of o; the others along queries */
    int o_rows, o_columns;         /* of o per thread */
    bool split;                    /* a thread's queries are one of each group */
    bool causal, states;
} tiling;

static int divide_up(int n, int by) { return (n + by - 1) / by; }
static int round_up(int n, int to) { return divide_up(n, to) * to; }

/* Threads side by side that load a chunk of n columns. */
static int load_width(int n) { return n % 64 == 0 ? 64 : n % 32 == 0 ? 32 : 16; }

static i64 rows_of(const job *j) { return j->box.len[ATT_G] * j->box.len[ATT_S]; }

static void tile(const job *j, tiling *t)
{
    *t = (tiling){.d = (int)j->box.len[ATT_D], .e = (int)j->box.len[ATT_E],
                  .causal = j->node->attention.causal, .states = j->n_out == 3};
    t->d_chunks = divide_up(t->d, CHUNK);
    t->d_chunk = round_up(divide_up(t->d, t->d_chunks), SIDE);
    t->e_slices = divide_up(t->e, WIDTH);
    t->e_width = divide_up(t->e, t->e_slices);
    t->e_chunks = divide_up(t->e_width, CHUNK);
    t->e_chunk = round_up(divide_up(t->e_width, t->e_chunks), SIDE);
    int size = t->d_chunk * t->d_chunks;
    t->resident = size <= 256;
    t->queries = rows_of(j) <= 16 ? 16 : rows_of(j) <= 32 || size > 64 || t->e_width > 128 ? 32 : 64;
    bool eight = load_width(t->resident ? size : t->d_chunk) >= THREADS / 8; /* a load's rows fit the tile */
    if (rows_of(j) <= 8 && t->e_chunk % 32 == 0 && eight) t->queries = 8;
    t->keys = t->queries == 64 || (t->queries == 32 && t->resident && size > 128) ? 32 : 64;
    t->row = t->queries + 1;
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
    return j->node->kind == OP_ATTENTION && (j->mode == JOB_FINAL || j->mode == JOB_STATES) && j->n_in == 3 &&
           (j->n_out == 1 || j->n_out == 3) && fits_int(j->box.len[ATT_D]) && fits_int(j->box.len[ATT_E]) &&
           j->box.len[ATT_T] <= INT32_MAX / 2;
}

/* ---- parameters ---- */

static void strides(writer *w, const view *v, char id, const char *labels)
{
    static const char names[] = "bhgstde";
    for (const char *p = labels; *p != 0; p++) {
        int l = 0;
        while (names[l] != *p) l++;
        if ((l != ATT_D && l != ATT_E) || v->stride[l] != 1)
            ein__writer_int(w, ein__name("%c_%c", id, *p).s, v->stride[l]);
    }
}

static void parameters(writer *w, const job *j, const tiling *t)
{
    const attention_attrs *x = &j->node->attention;
    const view *o = &j->out[j->n_out - 1];
    ein__writer_in(w, &j->in[0], 0, "q");
    ein__writer_in(w, &j->in[1], 0, "k");
    ein__writer_in(w, &j->in[2], 0, "v");
    ein__writer_out(w, o, 0, "o");
    if (t->states) ein__writer_out(w, &j->out[0], 0, "m");
    if (t->states) ein__writer_out(w, &j->out[1], 0, "l");
    ein__writer_int(w, "n_h", j->box.len[ATT_H]);
    ein__writer_int(w, "n_s", j->box.len[ATT_S]);
    ein__writer_int(w, "n_t", j->box.len[ATT_T]);
    ein__writer_int(w, "rows", rows_of(j));
    ein__writer_float(w, "scale", x->scale);
    if (t->causal) ein__writer_scalar(w, "first", x->position, j->box.lo[ATT_S] - j->box.lo[ATT_T]);
    if (x->length >= 0) ein__writer_scalar(w, "length", x->length, -j->box.lo[ATT_T]);
    else ein__writer_int(w, "length", j->box.len[ATT_T]);
    strides(w, &j->in[0], 'q', "bhgsd");
    strides(w, &j->in[1], 'k', "bhtd");
    strides(w, &j->in[2], 'v', "bhte");
    strides(w, o, 'o', "bhgse");
    if (t->states) strides(w, &j->out[0], 'm', "bhgs");
    if (t->states) strides(w, &j->out[1], 'l', "bhgs");
}

/* " * q_d" where a view does not lie side by side along its last label. */
static const char *factor(const view *v, int l, const char *source)
{
    return v->stride[l] == 1 ? "" : source;
}

/* ---- the block's place ---- */

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
        "    const i64 head = bh %% n_h, batch = bh / n_h;\n"
        "    const i64 end = length < n_t ? length : n_t;\n", t->queries);
    if (t->causal)
        ADD("    const i64 last = (r0 + %d < rows ? r0 + %d : rows) - 1;\n"
            "    const i64 latest = r0 / n_s == last / n_s ? last %% n_s : n_s - 1;\n"
            "    const i64 seen = latest + first + 1 < end ? latest + first + 1 : end;\n",
            t->queries, t->queries);
    else
        ADD("    const i64 seen = end;\n");
    const char *slice = t->e_slices == 1 ? "" : j->in[2].stride[ATT_E] == 1 ? " + e0" : " + e0 * v_e";
    ADD("    const i64 k_at = batch * k_b + head * k_h, v_at = batch * v_b + head * v_h%s;\n", slice);
    ADD("    const int n_seen = seen > 0 ? (int)seen : 0, live = (int)(rows - r0 < %d ? rows - r0 : %d);\n",
        t->queries, t->queries);
}

static void declare(text *b, const tiling *t)
{
    int rt = t->o_rows, ct = t->o_columns;
    int kv = t->d_chunk + 1 > t->e_chunk ? t->d_chunk + 1 : t->e_chunk;
    ADD("    SHARED(float, qq, %d);\n", t->row * t->d_chunk * (t->resident ? t->d_chunks : 1));
    ADD("    SHARED(float, kv, %d);\n    SHARED(float, pp, %d);\n", t->keys * kv, t->keys * t->row);
    ADD("    SHARED(float, part, %d);\n", THREADS);
    ADD("    SHARED(float, top, %d);\n    SHARED(float, shrink, %d);\n", t->queries, t->queries);
    ADD("    SHARED(int, sees, %d);\n    SHARED(i64, q_at, %d);\n", t->queries, t->queries);
    ADD("    SHARED(i64, o_at, %d);\n", t->queries);
    if (t->states) ADD("    SHARED(i64, m_at, %d);\n    SHARED(i64, l_at, %d);\n", t->queries, t->queries);
    ADD("    PRIV(float, sum);\n");
    for (int h = 0; h < t->e_chunks; h++)
        for (int i = 0; i < rt; i++)
            for (int c = 0; c < ct; c++) ADD("    PRIV(float, o%d_%d%d);\n", h, i, c);
    ADD("    STEP {\n        P(sum) = 0.0f;\n");
    for (int h = 0; h < t->e_chunks; h++)
        for (int i = 0; i < rt; i++)
            for (int c = 0; c < ct; c++) ADD("        P(o%d_%d%d) = 0.0f;\n", h, i, c);
    ADD("    }\n");
}

/* Where each query and its results are, and how many keys it sees. Rows past the end repeat the last one and
 * are not stored. All of it is left in shared memory: the loops need few registers then. */
static void place_queries(text *b, const job *j, const tiling *t)
{
    const view *o = &j->out[j->n_out - 1];
    const char *slice = t->e_slices == 1 ? "" : o->stride[ATT_E] == 1 ? " + e0" : " + e0 * o_e";
    ADD("    PHASE_N(%d) {\n", t->queries);
    ADD("        const i64 row = r0 + (tid < live ? tid : live - 1), g = row / n_s, s = row %% n_s;\n");
    ADD("        q_at[tid] = batch * q_b + head * q_h + g * q_g + s * q_s;\n");
    ADD("        o_at[tid] = batch * o_b + head * o_h + g * o_g + s * o_s%s;\n", slice);
    for (const char *p = "ml"; *p != 0 && t->states; p++)
        ADD("        %c_at[tid] = batch * %c_b + head * %c_h + g * %c_g + s * %c_s;\n", *p, *p, *p, *p, *p);
    ADD("        const i64 n = %s;\n", t->causal ? "s + first + 1 < seen ? s + first + 1 : seen" : "seen");
    ADD("        sees[tid] = n > 0 ? (int)n : 0;\n        top[tid] = ");
    ein__expr_print_number(EIN__LOWEST, EIN_F32, b);
    ADD(";\n    }\n");
}

/* ---- loads ---- */

/* Column of a load: `first` + x, or the last one of `n` past it. */
static void column(text *b, const char *first, const char *n)
{
    ADD("const int j = %s + x", first);
    if (n != NULL) ADD(" < %s ? %s + x : %s - 1", n, first, n);
    ADD(";\n");
}

static void load_begin(text *b, const char *pad, int rows, int columns)
{
    int nx = load_width(columns);
    ADD("%sUNROLL_DEV(8)\n%sfor (int i = 0; i < %d; i += %d)\n", pad, pad, rows, THREADS / nx);
    ADD("%s    for (int c = 0; c < %d; c += %d)\n", pad, columns, nx);
    ADD("%s        STEP2(y, %d, x, %d) {\n%s            ", pad, THREADS / nx, nx, pad);
}

static void load_queries(text *b, const job *j, const tiling *t)
{
    const char *pad = t->resident ? "    " : "            ";
    int columns = t->d_chunk * (t->resident ? t->d_chunks : 1);
    short_text d = ein__name("%d", t->d);
    load_begin(b, pad, t->queries, columns);
    column(b, t->resident ? "c" : "c0 + c", t->d % t->d_chunk != 0 ? d.s : NULL);
    ADD("%s            qq[(c + x) * %d + i + y] = LD(q, q_at[i + y] + j%s) * scale;\n%s        }\n", pad,
        t->row, factor(&j->in[0], ATT_D, " * q_d"), pad);
    if (t->resident) ADD("    SYNC;\n");
}

static void load_keys(text *b, const job *j, const tiling *t)
{
    const char *pad = "            ";
    short_text d = ein__name("%d", t->d);
    load_begin(b, pad, t->keys, t->d_chunk);
    column(b, "c0 + c", t->d % t->d_chunk != 0 ? d.s : NULL);
    ADD("%s            const int n = t0 + i + y < n_seen ? t0 + i + y : n_seen - 1;\n", pad);
    ADD("%s            kv[(i + y) * %d + c + x] = LD(k, k_at + n * k_t + j%s);\n",
        pad, t->d_chunk + 1, factor(&j->in[1], ATT_D, " * k_d"));
    ADD("%s        }\n", pad);
}

static void load_values(text *b, const job *j, const tiling *t, int h)
{
    const char *pad = "        ";
    short_text first = ein__name("%d + c", h * t->e_chunk), n = ein__name("%d", t->e_width);
    bool exact = t->e_slices == 1 && t->e_chunk * t->e_chunks == t->e_width;
    load_begin(b, pad, t->keys, t->e_chunk);
    column(b, first.s, exact ? NULL : t->e_slices > 1 ? "width" : n.s);
    ADD("%s            const int n = t0 + i + y < n_seen ? t0 + i + y : n_seen - 1;\n", pad);
    ADD("%s            kv[(i + y) * %d + c + x] =\n", pad, t->e_chunk);
    ADD("%s                LD(v, v_at + n * v_t + j%s);\n", pad, factor(&j->in[2], ATT_E, " * v_e"));
    ADD("%s        }\n", pad);
}

/* ---- products ---- */

/* A hot loop of n turns with few sums would wait for each before the next: it is cut into parts that are done
 * side by side, each with sums of its own. The names of part z end in suffix z. */
static int parts_of(int sums, int n)
{
    int parts = sums >= 8 ? 1 : sums >= 4 ? 2 : 4;
    return n % parts == 0 ? parts : 1;
}

static const char *const suffix[4] = {"", "u", "v", "w"};

/* "c00 = k_fma(a0, b0, c00);" for all pairs: straight-line, which is what keeps them in vector registers. */
static void multiply(text *b, const char *pad, int n_a, int n_b, const char *z)
{
    for (int i = 0; i < n_a; i++) {
        ADD("%s", pad);
        for (int c = 0; c < n_b; c++)
            ADD("%sc%d%d%s = k_fma(a%d%s, b%d%s, c%d%d%s);", c > 0 ? " " : "", i, c, z, i, z, c, z, i, c, z);
        ADD("\n");
    }
}

/* The sums of all parts but the first, from 0, and at the end added to it: "(c00 + c00u)". */
static void start_parts(text *b, const char *pad, int i, int c, int parts)
{
    for (int z = 1; z < parts; z++) ADD("%sfloat c%d%d%s = 0.0f;\n", pad, i, c, suffix[z]);
}

static void add_parts(text *b, int i, int c, int parts)
{
    for (int z = 0; z < parts; z++) ADD("%sc%d%d%s", z > 0 ? " + " : "", i, c, suffix[z]);
    ADD(";\n");
}

static void scores(text *b, const tiling *t)
{
    int na = t->queries / t->p_side, nb = t->keys * t->p_side / THREADS;
    int parts = t->d % t->d_chunk != 0 ? 1 : parts_of(na * nb, t->d_chunk);
    const char *pad = "                ", *inner = "                    ";
    ADD("            PHASE2(y, %d, x, %d) {\n", THREADS / t->p_side, t->p_side);
    for (int i = 0; i < na; i++)
        for (int c = 0; c < nb; c++) {
            ADD("%sfloat c%d%d = ", pad, i, c);
            if (t->d_chunks > 1) ADD("pp[(y * %d + %d) * %d + x + %d];\n", nb, c, t->row, i * t->p_side);
            else ADD("0.0f;\n");
            start_parts(b, pad, i, c, parts);
        }
    short_text n = t->d % t->d_chunk != 0 ? ein__name("nd") : ein__name("%d", t->d_chunk / parts);
    ADD("%sUNROLL_DEV(%d)\n%sfor (int i = 0; i < %s; i++) {\n", pad, t->unroll, pad, n.s);
    for (int z = 0; z < parts; z++) {
        int first = z * t->d_chunk / parts;
        for (int i = 0; i < na; i++)
            ADD("%sconst float a%d%s = qq[(%s%d + i) * %d + x + %d];\n", inner, i, suffix[z],
                t->resident ? "c0 + " : "", first, t->row, i * t->p_side);
        for (int c = 0; c < nb; c++)
            ADD("%sconst float b%d%s = kv[(y * %d + %d) * %d + %d + i];\n", inner, c, suffix[z], nb, c,
                t->d_chunk + 1, first);
        multiply(b, inner, na, nb, suffix[z]);
    }
    ADD("%s}\n", pad);
    for (int i = 0; i < na; i++)
        for (int c = 0; c < nb; c++) {
            ADD("%spp[(y * %d + %d) * %d + x + %d] = ", pad, nb, c, t->row, i * t->p_side);
            add_parts(b, i, c, parts);
        }
    ADD("            }\n");
}

/* All chunks of the head size. */
static void all_scores(text *b, const job *j, const tiling *t)
{
    int nb = t->keys * t->p_side / THREADS;
    if (t->d_chunks > 1) {
        ADD("        STEP2(y, %d, x, %d) {\n", THREADS / t->p_side, t->p_side);
        for (int i = 0; i < t->queries / t->p_side; i++)
            for (int c = 0; c < nb; c++)
                ADD("            pp[(y * %d + %d) * %d + x + %d] = 0.0f;\n", nb, c, t->row, i * t->p_side);
        ADD("        }\n");
    }
    ADD("        for (int c0 = 0; c0 < %d; c0 += %d) {\n", t->d_chunk * t->d_chunks, t->d_chunk);
    if (t->d % t->d_chunk != 0)
        ADD("            const int nd = %d - c0 < %d ? %d - c0 : %d;\n", t->d, t->d_chunk, t->d,
            t->d_chunk);
    load_keys(b, j, t);
    if (!t->resident) load_queries(b, j, t);
    ADD("            SYNC;\n");
    scores(b, t);
    ADD("        }\n");
}

/* The query of a thread's row i. */
static short_text query_of(const tiling *t, int i)
{
    return t->split ? ein__name("(y + %d)", i * (THREADS / t->o_side))
                    : ein__name("(y * %d + %d)", t->o_rows, i);
}

/* Rows [first, first + n) of every thread; the body's a0 is the first of them. */
static void accumulate_rows(text *b, const tiling *t, int h, int first, int n)
{
    int parts = parts_of(n * t->o_columns, t->keys);
    const char *pad = "            ", *inner = "                ";
    ADD("        STEP2(y, %d, x, %d) {\n", THREADS / t->o_side, t->o_side);
    for (int i = 0; i < n; i++) {
        ADD("%sconst float w%d = shrink[%s];\n", pad, i, query_of(t, first + i).s);
        for (int c = 0; c < t->o_columns; c++) {
            ADD("%sfloat c%d%d = P(o%d_%d%d) * w%d;\n", pad, i, c, h, first + i, c, i);
            start_parts(b, pad, i, c, parts);
        }
    }
    ADD("%sUNROLL_DEV(%d)\n%sfor (int i = 0; i < %d; i++) {\n", pad, t->unroll, pad, t->keys / parts);
    for (int z = 0; z < parts; z++) {
        int key = z * t->keys / parts;
        for (int i = 0; i < n; i++)
            ADD("%sconst float a%d%s = pp[(i + %d) * %d + %s];\n", inner, i, suffix[z], key, t->row,
                query_of(t, first + i).s);
        for (int c = 0; c < t->o_columns; c++)
            ADD("%sconst float b%d%s = kv[(i + %d) * %d + x + %d];\n", inner, c, suffix[z], key, t->e_chunk,
                c * t->o_side);
        multiply(b, inner, n, t->o_columns, suffix[z]);
    }
    ADD("%s}\n", pad);
    for (int i = 0; i < n; i++)
        for (int c = 0; c < t->o_columns; c++) {
            ADD("%sP(o%d_%d%d) = ", pad, h, first + i, c);
            add_parts(b, i, c, parts);
        }
    ADD("        }\n");
}

static void accumulate(text *b, const tiling *t, int h)
{
    if (!t->split) accumulate_rows(b, t, h, 0, t->o_rows);
    for (int i = 0; i < t->o_rows && t->split; i++) {
        if (i > 0) ADD("        if (live > %d)\n", i * (THREADS / t->o_side));
        accumulate_rows(b, t, h, i, 1);
    }
    ADD("        SYNC;\n");
}

/* ---- softmax ---- */

/* f0 = the largest, or the sum, of f0 .. f<n-1>; n is a power of two. A plain select, not k_max: a NaN need
 * not come through here, for its exponential is one. */
static void join(text *b, bool largest, int n)
{
    for (int by = 1; by < n; by *= 2)
        for (int i = 0; i < n; i += 2 * by) {
            if (largest) ADD("            f%d = f%d > f%d ? f%d : f%d;\n", i, i, i + by, i, i + by);
            else ADD("            f%d = f%d + f%d;\n", i, i, i + by);
        }
}

/* The parts of a row of partial results. */
static void load_parts(text *b, const tiling *t, int n)
{
    for (int i = 0; i < n; i++) ADD("            float f%d = part[%d + tid];\n", i, i * t->queries);
}

/* p = -inf where hidden, and the maxima; then p = exp(p - maximum), and the sums. Each thread takes some keys
 * of one query. */
static void softmax(text *b, const tiling *t)
{
    int parts = THREADS / t->queries, keys = t->keys / parts;
    for (int exponential = 0; exponential < 2; exponential++) {
        ADD("        PHASE2(y, %d, x, %d) {\n", parts, t->queries);
        if (exponential) ADD("            const float now = top[x];\n");
        else ADD("            const int n = sees[x] - t0 - y * %d;\n", keys);
        for (int i = 0; i < keys; i++) {
            ADD("            const float p%d = pp[(y * %d + %d) * %d + x];\n", i, keys, i, t->row);
            if (exponential) ADD("            float f%d = k_exp(p%d - now);\n", i, i);
            else ADD("            float f%d = n > %d ? p%d : -K_INF;\n", i, i, i);
        }
        for (int i = 0; i < keys; i++)
            ADD("            pp[(y * %d + %d) * %d + x] = f%d;\n", keys, i, t->row, i);
        join(b, !exponential, keys);
        ADD("            part[y * %d + x] = f0;\n        }\n", t->queries);
        ADD("        %s_N(%d) {\n", exponential ? "STEP" : "PHASE", t->queries);
        load_parts(b, t, parts);
        join(b, !exponential, parts);
        if (exponential)
            ADD("            P(sum) = k_fma(P(sum), shrink[tid], f0);\n        }\n");
        else
            ADD("            const float before = top[tid], now = before > f0 ? before : f0;\n"
                "            shrink[tid] = k_exp(before - now);\n"
                "            top[tid] = now;\n        }\n");
    }
}

/* ---- the end ---- */

static void store_rows(text *b, const tiling *t)
{
    if (!t->states) {
        ADD("    PHASE_N(%d) { shrink[tid] = P(sum) == 0.0f ? 0.0f : 1.0f / P(sum); }\n", t->queries);
        return;
    }
    if (t->e_slices > 1) ADD("    if (slice == 0)\n    ");
    ADD("    STEP_N(live) { ST(m, m_at[tid], top[tid]); ST(l, l_at[tid], P(sum)); }\n");
}

static void store(text *b, const job *j, const tiling *t)
{
    bool exact = t->e_slices == 1 && t->e_chunk * t->e_chunks == t->e_width;
    short_text width = t->e_slices > 1 ? ein__name("width") : ein__name("%d", t->e_width);
    const char *scaled = factor(&j->out[j->n_out - 1], ATT_E, " * o_e");
    store_rows(b, t);
    ADD("    STEP2(y, %d, x, %d) {\n", THREADS / t->o_side, t->o_side);
    for (int i = 0; i < t->o_rows; i++) {
        short_text row = query_of(t, i);
        ADD("        if (%s < live) {\n", row.s);
        if (!t->states) ADD("            const float w = shrink[%s];\n", row.s);
        ADD("            const i64 to = o_at[%s];\n", row.s);
        for (int h = 0; h < t->e_chunks; h++)
            for (int c = 0; c < t->o_columns; c++) {
                int first = h * t->e_chunk + c * t->o_side;
                ADD("            ");
                if (!exact) ADD("if (x + %d < %s) ", first, width.s);
                ADD("ST(o, to + (x + %d)%s, P(o%d_%d%d)%s);\n", first, scaled, h, i, c,
                    t->states ? "" : " * w");
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
    tile(j, &t);
    ein__writer_begin(&w, a);
    parameters(&w, j, &t);
    place_block(b, j, &t);
    declare(b, &t);
    place_queries(b, j, &t);
    if (t.resident) load_queries(b, j, &t);
    ADD("    for (int t0 = 0; t0 < n_seen; t0 += %d) {\n", t.keys);
    all_scores(b, j, &t);
    load_values(b, j, &t, 0);
    softmax(b, &t);
    for (int h = 0; h < t.e_chunks; h++) {
        if (h > 0) load_values(b, j, &t, h);
        if (h > 0) ADD("        SYNC;\n");
        accumulate(b, &t, h);
    }
    ADD("    }\n");
    store(b, j, &t);
    out->grid[0] = j->box.len[ATT_B] * j->box.len[ATT_H] * ein__blocks(rows_of(j), t.queries) * t.e_slices;
    out->grid[1] = out->grid[2] = 1;
    short_text head = ein__name("attention, %d x %d tiles", t.queries, t.keys);
    return ein__writer_end(&w, head.s, THREADS, out);
}

const family ein__family_attention = {"attention", applicable, emit};
