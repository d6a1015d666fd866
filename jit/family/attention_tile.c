/* SPDX-License-Identifier: Apache-2.0 */
/* One tile of queries against one of keys:
 *
 *     scores      p[key][query] = k q       thread (y, x): keys y.., queries x, x + 16, ..
 *     softmax     p = cap tanh(p / cap) + mask, new maxima, p = exp(p - maximum), sums; queries side by side
 *     values      o = o shrink + p v        thread (y, x): queries y.., columns x, x + 16, ..; few queries
 *                                           are done group by group, and groups of no query left out
 *
 * In shared memory q and p have the query as minor index, k and v lie as they come: every inner loop then reads
 * one operand side by side and the other by broadcast, on both targets. Head sizes are cut into chunks of at most
 * 64 that go through one buffer.
 *
 * A key that a query does not see has score -inf, from where on it is told from one that is seen: a score of -inf
 * of these becomes a number below all maxima, whose weight is 0 as well. Maxima start finite, so no difference
 * is inf - inf. Keys past the last one that any query of the block sees are read as copies of that one.
 *
 * 0 times a value that is not finite would be NaN. So where some query of a tile does not see some key of it, the
 * tile's values are looked at first; if one is not finite, the products are taken by a loop that leaves out what
 * is not seen: weights of these are -0. */
#include "jit/family/attention.h"

/* A score below all maxima: its weight is 0. */
static const double least_seen = -3.4e38;

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
    int nx = ein__attention_load_width(columns);
    ADD("%sUNROLL_DEV(8)\n%sfor (int i = 0; i < %d; i += %d)\n", pad, pad, rows, THREADS / nx);
    ADD("%s    for (int c = 0; c < %d; c += %d)\n", pad, columns, nx);
    ADD("%s        STEP2(y, %d, x, %d) {\n%s            ", pad, THREADS / nx, nx, pad);
}

/* The barrier after the first keys is theirs, too. */
void ein__attention_load_queries(text *b, const job *j, const tiling *t)
{
    const char *pad = t->resident ? "    " : "            ";
    int columns = t->d_chunk * (t->resident ? t->d_chunks : 1);
    short_text d = ein__name("%d", t->d);
    load_begin(b, pad, t->queries, columns);
    column(b, t->resident ? "c" : "c0 + c", t->d % t->d_chunk != 0 ? d.s : NULL);
    ADD("%s            qq[(c + x) * %d + i + y] = %s(LD(q, q_at[i + y] + j%s)) * scale;\n%s        }\n", pad,
        t->row, ein__dtype_load(j->in[0].dtype), ein__attention_factor(&j->in[0], ATT_D, " * q_d"), pad);
}

static void load_keys(text *b, const job *j, const tiling *t)
{
    const char *pad = "            ";
    short_text d = ein__name("%d", t->d);
    load_begin(b, pad, t->keys, t->d_chunk);
    column(b, "c0 + c", t->d % t->d_chunk != 0 ? d.s : NULL);
    ADD("%s            const int n = t0 + i + y < n_seen ? t0 + i + y : n_seen - 1;\n", pad);
    ADD("%s            kv[(i + y) * %d + c + x] = %s(LD(k, k_at + n * k_t + j%s));\n", pad,
        t->d_chunk + 1, ein__dtype_load(j->in[1].dtype), ein__attention_factor(&j->in[1], ATT_D, " * k_d"));
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
    ADD("%s            kv[(i + y) * %d + c + x] = %s(LD(v, v_at + n * v_t + j%s));\n", pad, t->e_chunk,
        ein__dtype_load(j->in[2].dtype), ein__attention_factor(&j->in[2], ATT_E, " * v_e"));
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
static void multiply(text *b, const tiling *t, const char *pad, int n_a, int n_b, const char *z)
{
    for (int i = 0; i < n_a; i++) {
        ADD("%s", pad);
        for (int c = 0; c < n_b; c++)
            ADD("%sc%d%d%s = %sfma(a%d%s, b%d%s, c%d%d%s);", c > 0 ? " " : "", i, c, z, t->fn, i, z, c, z, i, c, z);
        ADD("\n");
    }
}

/* The sums of all parts but the first, from 0, and at the end added to it: "(c00 + c00u)". */
static void start_parts(text *b, const tiling *t, const char *pad, int i, int c, int parts)
{
    for (int z = 1; z < parts; z++) ADD("%s%s c%d%d%s = %s;\n", pad, t->real, i, c, suffix[z], t->zero);
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
            ADD("%s%s c%d%d = ", pad, t->real, i, c);
            if (t->d_chunks > 1) ADD("pp[(y * %d + %d) * %d + x + %d];\n", nb, c, t->row, i * t->p_side);
            else ADD("%s;\n", t->zero);
            start_parts(b, t, pad, i, c, parts);
        }
    short_text n = t->d % t->d_chunk != 0 ? ein__name("nd") : ein__name("%d", t->d_chunk / parts);
    ADD("%sUNROLL_DEV(%d)\n%sfor (int i = 0; i < %s; i++) {\n", pad, t->unroll, pad, n.s);
    for (int z = 0; z < parts; z++) {
        int first = z * t->d_chunk / parts;
        for (int i = 0; i < na; i++)
            ADD("%sconst %s a%d%s = qq[(%s%d + i) * %d + x + %d];\n", inner, t->real, i, suffix[z],
                t->resident ? "c0 + " : "", first, t->row, i * t->p_side);
        for (int c = 0; c < nb; c++)
            ADD("%sconst %s b%d%s = kv[(y * %d + %d) * %d + %d + i];\n", inner, t->real, c, suffix[z], nb, c,
                t->d_chunk + 1, first);
        multiply(b, t, inner, na, nb, suffix[z]);
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
                ADD("            pp[(y * %d + %d) * %d + x + %d] = %s;\n", nb, c, t->row, i * t->p_side, t->zero);
        ADD("        }\n");
    }
    ADD("        for (int c0 = 0; c0 < %d; c0 += %d) {\n", t->d_chunk * t->d_chunks, t->d_chunk);
    if (t->d % t->d_chunk != 0)
        ADD("            const int nd = %d - c0 < %d ? %d - c0 : %d;\n", t->d, t->d_chunk, t->d,
            t->d_chunk);
    load_keys(b, j, t);
    if (!t->resident) ein__attention_load_queries(b, j, t);
    ADD("            SYNC;\n");
    scores(b, t);
    ADD("        }\n");
}

/* ---- softmax ---- */

/* The mask's tile, transposed, where keys and values come through; keys side by side, as it lies. */
static void load_mask(text *b, const job *j, const tiling *t)
{
    const char *pad = "                ";
    const view *mask = &j->in[3];
    ADD("        for (int i = 0; i < %d; i += %d)\n", t->queries, THREADS / t->keys);
    ADD("            STEP2(y, %d, x, %d) {\n", THREADS / t->keys, t->keys);
    ADD("%sconst int n = t0 + x < n_seen ? t0 + x : n_seen - 1;\n%skv[x * %d + i + y] = ", pad, pad, t->row);
    if (mask->dtype == EIN_BOOL) ADD("LD(mask, mask_at[i + y] + n * mask_t) != 0 ? %s : -%s;\n", t->zero, t->inf);
    else ADD("%s(LD(mask, mask_at[i + y] + n * mask_t));\n", ein__dtype_load(mask->dtype));
    ADD("            }\n        SYNC;\n");
}

/* p<i>: the score of the thread's key i, capped and masked, as of a key that is seen unless the mask hides it. */
static void add_score(text *b, const tiling *t, int i, const char *at)
{
    const char *pad = "            ", *real = t->real;
    if (t->softcap) ADD("%sconst %s s%d = cap * %stanh(pp[%s] / cap)", pad, real, i, t->fn, at);
    else ADD("%sconst %s s%d = pp[%s]", pad, real, i, at);
    if (t->mask)
        ADD(", a%d = kv[%s], r%d = s%d + a%d,\n%s    p%d = a%d == -%s ? a%d : r%d == -%s ? ", i, at, i, i, i, pad, i, i,
            t->inf, i, i, t->inf);
    else ADD(", p%d = s%d == -%s ? ", i, i, t->inf);
    ein__expr_print_number(least_seen, t->compute, b);
    ADD(" : %c%d;\n", t->mask ? 'r' : 's', i);
}

/* f0 = the largest, or the sum, of f0 .. f<n-1>; n is a power of two. Where a result depends on the maximum by
 * its exponentials only, a NaN need not come through here, for its exponential is one; a state must be NaN. */
static void join(text *b, const tiling *t, bool largest, int n)
{
    for (int by = 1; by < n; by *= 2)
        for (int i = 0; i < n; i += 2 * by) {
            if (!largest) ADD("            f%d = f%d + f%d;\n", i, i, i + by);
            else if (t->states) ADD("            f%d = %smax(f%d, f%d);\n", i, t->fn, i, i + by);
            else ADD("            f%d = f%d > f%d ? f%d : f%d;\n", i, i, i + by, i, i + by);
        }
}

/* The parts of a row of partial results. */
static void load_parts(text *b, const tiling *t, int n)
{
    for (int i = 0; i < n; i++) ADD("            %s f%d = part[%d + tid];\n", t->real, i, i * t->queries);
}

/* p = -inf where hidden, and the maxima. Each thread takes some keys of one query. */
static void maxima(text *b, const tiling *t)
{
    int parts = THREADS / t->queries, keys = t->keys / parts;
    ADD("        PHASE2(y, %d, x, %d) {\n", parts, t->queries);
    ADD("            const int n = sees[x] - t0 - y * %d;\n", keys);
    if (t->window) ADD("            const int since = from[x] - t0 - y * %d;\n", keys);
    for (int i = 0; i < keys; i++) {
        add_score(b, t, i, ein__name("(y * %d + %d) * %d + x", keys, i, t->row).s);
        if (t->window) ADD("            %s f%d = (n > %d) & (since <= %d) ? p%d : -%s;\n", t->real, i, i, i, i, t->inf);
        else ADD("            %s f%d = n > %d ? p%d : -%s;\n", t->real, i, i, i, t->inf);
    }
    for (int i = 0; i < keys; i++)
        ADD("            pp[(y * %d + %d) * %d + x] = f%d;\n", keys, i, t->row, i);
    join(b, t, true, keys);
    ADD("            part[y * %d + x] = f0;\n        }\n", t->queries);
    ADD("        PHASE_N(%d) {\n", t->queries);
    load_parts(b, t, parts);
    join(b, t, true, parts);
    if (t->states) ADD("            const %s before = top[tid], now = %smax(before, f0);\n", t->real, t->fn);
    else ADD("            const %s before = top[tid], now = before > f0 ? before : f0;\n", t->real);
    ADD("            shrink[tid] = %sexp(before - now);\n            top[tid] = now;\n        }\n", t->fn);
}

/* p = exp(p - maximum), and the sums. */
static void exponentials(text *b, const tiling *t)
{
    int parts = THREADS / t->queries, keys = t->keys / parts;
    ADD("        PHASE2(y, %d, x, %d) {\n            const %s now = top[x];\n", parts, t->queries, t->real);
    for (int i = 0; i < keys; i++) {
        ADD("            const %s p%d = pp[(y * %d + %d) * %d + x];\n", t->real, i, keys, i, t->row);
        ADD("            %s f%d = ", t->real, i);
        ADD("p%d == -%s ? -%s : %sexp(p%d - now);\n", i, t->inf, t->zero, t->fn, i);
    }
    for (int i = 0; i < keys; i++)
        ADD("            pp[(y * %d + %d) * %d + x] = f%d;\n", keys, i, t->row, i);
    join(b, t, false, keys);
    ADD("            part[y * %d + x] = f0;\n        }\n", t->queries);
    ADD("        STEP_N(%d) {\n", t->queries);
    load_parts(b, t, parts);
    join(b, t, false, parts);
    ADD("            P(sum) = %sfma(P(sum), shrink[tid], f0);\n        }\n", t->fn);
}

/* ---- values ---- */

short_text ein__attention_query(const tiling *t, int i)
{
    return t->split ? ein__name("(y + %d)", i * (THREADS / t->o_side))
                    : ein__name("(y * %d + %d)", t->o_rows, i);
}

/* Rows [first, first + n) of every thread. */
typedef struct row_range { int h, first, n; } row_range;

static void start_rows(text *b, const tiling *t, const row_range *r, int parts)
{
    const char *pad = "            ";
    ADD("        STEP2(y, %d, x, %d) {\n", THREADS / t->o_side, t->o_side);
    for (int i = 0; i < r->n; i++) {
        ADD("%sconst %s w%d = shrink[%s];\n", pad, t->real, i, ein__attention_query(t, r->first + i).s);
        for (int c = 0; c < t->o_columns; c++) {
            ADD("%s%s c%d%d = P(o%d_%d%d) * w%d;\n", pad, t->real, i, c, r->h, r->first + i, c, i);
            start_parts(b, t, pad, i, c, parts);
        }
    }
}

/* Weights and values of key i + `key`, named by suffix z. */
static void load_factors(text *b, const tiling *t, const row_range *r, int key, const char *z)
{
    const char *inner = "                ";
    for (int i = 0; i < r->n; i++)
        ADD("%sconst %s a%d%s = pp[(i + %d) * %d + %s];\n", inner, t->real, i, z, key, t->row,
            ein__attention_query(t, r->first + i).s);
    for (int c = 0; c < t->o_columns; c++)
        ADD("%sconst %s b%d%s = kv[(i + %d) * %d + x + %d];\n", inner, t->real, c, z, key, t->e_chunk,
            c * t->o_side);
}

static void end_rows(text *b, const tiling *t, const row_range *r, int parts)
{
    const char *pad = "            ";
    ADD("%s}\n", pad);
    for (int i = 0; i < r->n; i++)
        for (int c = 0; c < t->o_columns; c++) {
            ADD("%sP(o%d_%d%d) = ", pad, r->h, r->first + i, c);
            add_parts(b, i, c, parts);
        }
    ADD("        }\n");
}

static void accumulate_rows(text *b, const tiling *t, const row_range *r)
{
    int parts = parts_of(r->n * t->o_columns, t->keys);
    start_rows(b, t, r, parts);
    ADD("            UNROLL_DEV(%d)\n            for (int i = 0; i < %d; i++) {\n", t->unroll, t->keys / parts);
    for (int z = 0; z < parts; z++) {
        load_factors(b, t, r, z * t->keys / parts, suffix[z]);
        multiply(b, t, "                ", r->n, t->o_columns, suffix[z]);
    }
    end_rows(b, t, r, parts);
}

/* The same, but that a weight of -0 takes no part. */
static void accumulate_seen(text *b, const tiling *t, const row_range *r)
{
    start_rows(b, t, r, 1);
    ADD("            UNROLL_DEV(1)\n            for (int i = 0; i < %d; i++) {\n", t->keys);
    load_factors(b, t, r, 0, "");
    for (int i = 0; i < r->n; i++)
        for (int c = 0; c < t->o_columns; c++)
            ADD("                c%d%d = %sfma(a%d, %s / a%d < %s ? %s : b%d, c%d%d);\n", i, c, t->fn, i, t->one, i,
                t->zero, t->zero, c, i, c);
    end_rows(b, t, r, 1);
}

static void accumulate(text *b, const tiling *t, int h, void (*rows)(text *, const tiling *, const row_range *))
{
    if (!t->split) rows(b, t, &(row_range){h, 0, t->o_rows});
    for (int i = 0; i < t->o_rows && t->split; i++) {
        if (i > 0) ADD("        if (live > %d)\n", i * (THREADS / t->o_side));
        rows(b, t, &(row_range){h, i, 1});
    }
}

/* bad = whether the tile has keys that not all queries see, and a value that is not finite. */
static void look(text *b, const tiling *t)
{
    ADD("        int bad = 0;\n        if (");
    if (t->window) ADD("t0 < low || ");
    if (t->mask) ADD("1");
    else ADD("t0 + %d > high", t->keys);
    ADD(") {\n            STEP { P(odd) = 0.0f; }\n");
    ADD("            for (int i = 0; i < %d; i += THREADS)\n", t->keys * t->e_chunk);
    ADD("                STEP {\n                    const %s a = kv[i + tid];\n", t->real);
    ADD("                    P(odd) = a - a == %s ? P(odd) : 1.0f;\n                }\n", t->zero);
    ADD("            BLOCK_MAX(most, odd);\n            bad = most > 0.0f;\n        }\n");
}

static void values(text *b, const tiling *t, int h)
{
    ADD("        {\n");
    look(b, t);
    ADD("        if (bad) {\n");
    accumulate(b, t, h, accumulate_seen);
    ADD("        } else {\n");
    accumulate(b, t, h, accumulate_rows);
    ADD("        }\n        }\n        SYNC;\n");
}

void ein__attention_tile(text *b, const job *j, const tiling *t)
{
    all_scores(b, j, t);
    if (t->mask) load_mask(b, j, t);
    else load_values(b, j, t, 0);
    maxima(b, t);
    if (t->mask) load_values(b, j, t, 0);
    exponentials(b, t);
    for (int h = 0; h < t->e_chunks; h++) {
        if (h > 0) load_values(b, j, t, h);
        if (h > 0) ADD("        SYNC;\n");
        values(b, t, h);
    }
}
