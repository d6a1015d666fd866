/* SPDX-License-Identifier: Apache-2.0 */
/* The einsum expressions of numpy's own tests (numpy 1.24.2, BSD: numpy/core/tests/test_einsum.py), in f32 and in
 * another type, each on 1, 2, 3 and 8 devices, cut at random where there is more than one; against a sum over all
 * values of all letters. Shapes are those of the tests too, but that a few are smaller. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/random.h"
#include "tests/harness/random_plan.h"
#include "tests/harness/trial.h"

/* Extents of the operands, "-" for a scalar; NULL: each letter's size. */
typedef struct row { const char *equation, *shapes; } row;

static const row rows[] = {
    /* views */
    {"...", "2,3"},
    {"ij", "2,3"},
    {"ji", "2,3"},
    {"ii->i", "3,3"},
    {"...ii->...i", "3,3,3"},
    {"ii...->...i", "3,3,3"},
    {"...ii->i...", "3,3,3"},
    {"jii->ij", "3,3,3"},
    {"ii...->i...", "3,3,3"},
    {"i...i->i...", "3,3,3"},
    {"i...i->...i", "3,3,3"},
    {"iii->i", "3,3,3"},
    {"ijk->jik", "2,3,4"},
    /* sums */
    {"i->", "1"},
    {"i->", "16"},
    {"...i->...", "2,3,13"},
    {"i...->...", "2,15"},
    {"i...->...", "2,3,11"},
    {"ii", "7,7"},
    {"..., ...", "- -"},
    {"..., ...", "3,9 2,3,9"},
    {"...i, ...i", "2,3,5 5"},
    {"i..., i...", "7,3,2 7"},
    {"i,j", "3 16"},
    {"ij, j", "4,12 12"},
    {"ij,j", "4,16 16"},
    {"ji,j", "10,4 10"},
    {"ij,jk", "4,9 9,6"},
    {"ij,jk,kl", "3,4 4,5 5,6"},
    {"ijk, jil -> kl", "3,4,5 4,3,2"},
    {"ijk,jil->kl", "3,4,5 4,3,2"},
    {"i,i,i->i", "8 8 8"},
    {",i->", "- 9"},
    {"i,->", "9 -"},
    {"...,...", "24 24"},
    {"i,i", "23 23"},
    {"i,->i", "22 -"},
    {",i->i", "- 21"},
    {"z,mz,zm->", "2 2,2 2,2"},
    {"ij,ij->j", "10,2 1,2"},
    {"i, i", "2 1"},
    {"...ij,...jk->...ik", "1,5 1,5"},
    {"...ij,...jk->...ik", "1,5 5,5"},
    {"...ij,...jk->...ik", "2,1,1 2,1,1"},
    {"...ij,...jk->...ik", "3,3 3,3"},
    {"ji,i->", "2,2 2"},
    {"i,ij->", "2 2,2"},
    {"ij,i->", "2,2 2"},
    /* miscellaneous */
    {"ij...,j...->i...", "1,2 2,2,1"},
    {"...i,...i", "3 3"},
    {"ijklm,ijn,ijn->", "5,12,4,2,3 5,12,11 5,12,11"},
    {"ijklm,ijn->", "5,12,4,2,3 5,12,11"},
    {"x,yx,zx->xzy", "2 2,2 4,2"},
    {"i,j", "1 1"},
    {"AU,UC->AC", "2,3 3,4"},
    {"Ab,bC->AC", "2,3 3,4"},
    {"Az,zC->AC", "2,3 3,4"},
    /* broadcasting */
    {"ijk,j->ijk", "2,3,4 3"},
    {"ij...,j...->ij...", "2,3,4 3"},
    {"ij...,...j->ij...", "2,3,4 3"},
    {"ij...,j->ij...", "2,3,4 3"},
    {"ik,kj->ij", "4,3 3,2"},
    {"ik...,k...->i...", "4,3 3,2"},
    {"ik...,...kj->i...j", "4,3 3,2"},
    {"...k,kj", "4,3 3,2"},
    {"ik,k...->i...", "4,3 3,2"},
    {"ijkl,k->ijl", "2,3,4,5 4"},
    {"ijkl,k", "2,3,4,5 4"},
    {"...kl,k", "2,3,4,5 4"},
    {"...kl,k...", "2,3,4,5 4"},
    {"...lmn,...lmno->...o", "1,1,1,16,10,12 16,10,12,3"},
    {"...lmn,lmno->...o", "1,1,1,16,10,12 16,10,12,3"},
    {"cl, cpx->lpx", "2,3 2,3,2731"},
    {"cl, cpxy->lpxy", "3,3 3,3,16,16"},
    {"aabb->ab", "5,5,5,5"},
    {"ijij->", "10,10,10,10"},
    {"mi,mi,mi->m", "5,5 5,5 5,5"},
    {"im,im,im->m", "5,5 5,5 5,5"},
    {"ij,jk->ik", "2,2 2,2"},
    /* paths through its kernels */
    {"i->", "7"},
    {"i,i->i", "7 7"},
    {"i,i->", "7 7"},
    {"i,->i", "7 -"},
    {",i->i", "- 7"},
    {",i->", "- 7"},
    {"i,->", "7 -"},
    {"i,i,i->", "5 5 5"},
    {"i,i,i,i->", "5 5 5 5"},
    /* orders of contraction */
    {"a,ab,abc->abc", NULL},
    {"a,b,ab->ab", NULL},
    {"ea,fb,gc,hd,abcd->efgh", NULL},
    {"ea,fb,abcd,gc,hd->efgh", NULL},
    {"abcd,ea,fb,gc,hd->efgh", NULL},
    {"acdf,jbje,gihb,hfac,gfac,gifabc,hfac", NULL},
    {"cd,bdhe,aidb,hgca,gc,hgibcd,hgac", NULL},
    {"abhe,hidj,jgba,hiab,gab", NULL},
    {"bde,cdh,agdb,hica,ibd,hgicd,hiac", NULL},
    {"chd,bde,agbc,hiad,hgc,hgi,hiad", NULL},
    {"chd,bde,agbc,hiad,bdi,cgh,agdb", NULL},
    {"bdhe,acad,hiab,agac,hibd", NULL},
    {"ab,ab,c->", NULL},
    {"ab,ab,c->c", NULL},
    {"ab,ab,cd,cd->", NULL},
    {"ab,ab,cd,cd->ac", NULL},
    {"ab,ab,cd,cd->cd", NULL},
    {"ab,ab,cd,cd,ef,ef->", NULL},
    {"ab,cd,ef->abcdef", NULL},
    {"ab,cd,ef->acdf", NULL},
    {"ab,cd,de->abcde", NULL},
    {"ab,cd,de->be", NULL},
    {"ab,bcd,cd->abcd", NULL},
    {"ab,bcd,cd->abd", NULL},
    {"eb,cb,fb->cef", NULL},
    {"dd,fb,be,cdb->cef", NULL},
    {"bca,cdb,dbf,afc->", NULL},
    {"dcc,fce,ea,dbf->ab", NULL},
    {"fdf,cdd,ccd,afe->ae", NULL},
    {"abcd,ad", NULL},
    {"ed,fcd,ff,bcf->be", NULL},
    {"baa,dcf,af,cde->be", NULL},
    {"bd,db,eac->ace", NULL},
    {"fff,fae,bef,def->abd", NULL},
    {"efc,dbc,acf,fd->abe", NULL},
    {"ba,ac,da->bcd", NULL},
    {"ab,ab", NULL},
    {"ab,ba", NULL},
    {"abc,abc", NULL},
    {"abc,bac", NULL},
    {"abc,cba", NULL},
    {"aab,fa,df,ecc->bde", NULL},
    {"ecb,fef,bad,ed->ac", NULL},
    {"bcf,bbb,fbf,fc->", NULL},
    {"bb,ff,be->e", NULL},
    {"bcb,bb,fc,fff->", NULL},
    {"fbb,dfd,fc,fc->", NULL},
    {"afd,ba,cc,dc->bf", NULL},
    {"adb,bc,fa,cfc->d", NULL},
    {"bbd,bda,fc,db->acf", NULL},
    {"dba,ead,cad->bce", NULL},
    {"aef,fbc,dca->bde", NULL},
    {"bbcdc->d", "1,1,3,1,3"},
    {"ijk,kl,jl", "1,5,4 4,6 5,6"},
    {"ijk,kl,jl,i->i", "1,5,4 4,6 5,6 10"},
    {"abjk,kl,jl", "1,1,5,4 4,6 5,6"},
    {"abjk,kl,jl,ab->ab", "1,1,5,4 4,6 5,6 7,7"},
    {"obk,ijk->ioj", "2,4,8 2,4,8"},
    {"...ft,mf->...mt", "2,3,5 4,3"},
    {"a,b,c->abc", NULL},
    {"acdf,jbje,gihb,hfac", NULL},
    {"a,ac,ab,ad,cd,bd,bc->", "20 20,20 20,20 20,20 20,20 20,20 20,20"},
    {"cab,cdd->ab", NULL},
    {"ab,bc,cd,de->ae", NULL},
    {"a,a,a->a", NULL},
    /* spaces */
    {" ... a -> ... a ", "1,1"},
    {"... a->...a ", "2,3"},
};
enum { ROWS = sizeof rows / sizeof *rows, MAX_OPERANDS = 8, ELLIPSIS = 52, LETTERS = 64 };

/* ---- an expression, read and summed ------------------------------------------------------------------- */

/* Letters as numbers: A-Z, a-z, then dimensions of "...", of which the last is LETTERS - 1. */
typedef struct subscript { int rank, letters[EIN_MAX_RANK]; int64_t shape[EIN_MAX_RANK]; } subscript;

typedef struct sum {
    int n;
    subscript operands[MAX_OPERANDS], result;
    int64_t extent[LETTERS]; /* 0: no such letter */
} sum;

static int letter(char c) { return isupper((unsigned char)c) ? c - 'A' : 26 + c - 'a'; }

/* The letters of one operand, or of the result, up to a comma or the arrow. `ellipsis`: dimensions of "...". */
static const char *read_letters(const char *s, int ellipsis, subscript *t)
{
    t->rank = 0;
    for (; *s != 0 && *s != ',' && *s != '-'; s++) {
        if (*s == ' ') continue;
        if (*s != '.') {
            t->letters[t->rank++] = letter(*s);
            continue;
        }
        s += 2;
        for (int i = 0; i < ellipsis; i++) t->letters[t->rank++] = LETTERS - ellipsis + i;
    }
    return s;
}

static int count_letters(const char *s)
{
    int n = 0;
    for (; *s != 0 && *s != ',' && *s != '-'; s++) n += isalpha((unsigned char)*s) != 0;
    return n;
}

/* The next of "2,3 4 -". */
static const char *read_shape(const char *s, subscript *t)
{
    t->rank = 0;
    while (*s == ' ') s++;
    if (*s == '-') return s + 1;
    for (;; s++) {
        char *end;
        t->shape[t->rank++] = strtoll(s, &end, 10);
        s = end;
        if (*s != ',') return s;
    }
}

static void default_shape(const char *s, subscript *t)
{
    static const int sizes[] = {2, 3, 4, 5, 4, 3, 2, 6, 5, 4};
    t->rank = 0;
    for (; *s != 0 && *s != ',' && *s != '-'; s++) t->shape[t->rank++] = sizes[*s - 'a'];
}

static void add_extents(sum *x, const subscript *t)
{
    for (int i = 0; i < t->rank; i++) {
        int64_t *e = &x->extent[t->letters[i]];
        if (*e <= 1) *e = t->shape[i];
        assert_true(t->shape[i] == *e || t->shape[i] == 1);
    }
}

/* Without an arrow: the dimensions of "...", then the letters that stand once. */
static void implied_result(sum *x)
{
    subscript *r = &x->result;
    int count[LETTERS] = {0};
    r->rank = 0;
    for (int i = 0; i < x->n; i++)
        for (int k = 0; k < x->operands[i].rank; k++) count[x->operands[i].letters[k]]++;
    for (int i = ELLIPSIS; i < LETTERS; i++)
        if (count[i] > 0) r->letters[r->rank++] = i;
    for (int i = 0; i < ELLIPSIS; i++)
        if (count[i] == 1) r->letters[r->rank++] = i;
}

static sum read_row(const row *r)
{
    sum x = {0};
    const char *s = r->equation, *shapes = r->shapes;
    int most = 0;
    for (;;) {
        subscript *t = &x.operands[x.n++];
        if (shapes != NULL) shapes = read_shape(shapes, t);
        else default_shape(s, t);
        int ellipsis = t->rank - count_letters(s), rank = t->rank;
        if (ellipsis > most) most = ellipsis;
        s = read_letters(s, ellipsis, t);
        assert_int_equal(t->rank, rank);
        add_extents(&x, t);
        if (*s != ',') break;
        s++;
    }
    if (*s == '-') read_letters(s + 2, most, &x.result);
    else implied_result(&x);
    for (int i = 0; i < x.result.rank; i++) x.result.shape[i] = x.extent[x.result.letters[i]];
    return x;
}

static int64_t numel(const subscript *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->shape[i];
    return n;
}

/* Place in a tensor of the point; a dimension of 1 is read at 0. */
static int64_t place(const subscript *t, const int64_t *at)
{
    int64_t p = 0;
    for (int i = 0; i < t->rank; i++) p = p * t->shape[i] + (t->shape[i] == 1 ? 0 : at[t->letters[i]]);
    return p;
}

/* All values of all letters. `size`: sums of the terms' magnitudes. */
static void evaluate(const sum *x, double *const *data, double *out, double *size)
{
    int64_t at[LETTERS] = {0};
    memset(out, 0, (size_t)numel(&x->result) * sizeof *out);
    memset(size, 0, (size_t)numel(&x->result) * sizeof *size);
    for (int i = 0; i < LETTERS;) {
        double product = 1;
        for (int k = 0; k < x->n; k++) product *= data[k][place(&x->operands[k], at)];
        out[place(&x->result, at)] += product;
        size[place(&x->result, at)] += fabs(product);
        for (i = 0; i < LETTERS; i++) {
            if (++at[i] < x->extent[i]) break;
            at[i] = 0;
        }
    }
}

/* ---- all rows in one graph ---------------------------------------------------------------------------- */

typedef struct case_data {
    sum x;
    ein_dtype type;
    double *values[MAX_OPERANDS], *want, *size;
    void *operands[MAX_OPERANDS], *result;
} case_data;

static void *get(int64_t n, size_t size)
{
    void *p = calloc((size_t)n + 1, size);
    assert_non_null(p);
    return p;
}

/* Quarters from -1 to 1, whole numbers from -2 to 2: exact in all types. */
static void fill(case_data *c, int row_number)
{
    bool whole = !ein__dtype_is_float(c->type);
    for (int k = 0; k < c->x.n; k++) {
        int64_t n = numel(&c->x.operands[k]), bytes = ein__dtype_bytes(c->type);
        dice d = dice_make(77, (uint64_t)(row_number * MAX_OPERANDS + k));
        c->values[k] = get(n, sizeof *c->values[k]);
        c->operands[k] = get(n, (size_t)bytes);
        for (int64_t i = 0; i < n; i++) {
            c->values[k][i] = whole ? dice_range(&d, -2, 2) : dice_range(&d, -4, 4) / 4.0;
            ein__dtype_write(c->type, c->values[k][i], (char *)c->operands[k] + i * bytes);
        }
    }
    c->result = get(numel(&c->x.result), (size_t)ein__dtype_bytes(c->type));
    c->want = get(numel(&c->x.result), sizeof *c->want);
    c->size = get(numel(&c->x.result), sizeof *c->size);
    evaluate(&c->x, c->values, c->want, c->size);
}

static void operand_name(char name[32], int i, int k) { snprintf(name, 32, "%d.%d", i, k); }

static ein_graph *make_graph(case_data *cases, const ein_dtype *types, int n_types)
{
    ein_graph *g = NULL;
    assert_int_equal(ein_graph_create(&g), EIN_OK);
    for (int i = 0; i < ROWS; i++) {
        case_data *c = &cases[i];
        ein_tensor x[MAX_OPERANDS];
        char name[32];
        int64_t shape[EIN_MAX_RANK];
        *c = (case_data){.x = read_row(&rows[i]), .type = types[i % n_types]};
        fill(c, i);
        for (int k = 0; k < c->x.n; k++) {
            operand_name(name, i, k);
            x[k] = ein_input(g, name, c->type, c->x.operands[k].rank, c->x.operands[k].shape);
        }
        ein_tensor y = ein_einsum(g, rows[i].equation, c->x.n, x);
        if (y.id == 0) fail_msg("%s: %s", rows[i].equation, ein_graph_error(g));
        assert_int_equal(ein_tensor_shape(g, y, shape), c->x.result.rank);
        assert_memory_equal(shape, c->x.result.shape, (size_t)c->x.result.rank * sizeof *shape);
        assert_int_equal(ein_tensor_dtype(g, y), c->type);
        snprintf(name, sizeof name, "%d", i);
        ein_output(g, name, y);
    }
    return g;
}

/* What a sum of this type may be off, of the terms' magnitudes: partial sums travel in it. */
static double tolerance(ein_dtype d)
{
    return d == EIN_BF16 ? 0x1p-7 : d == EIN_F16 ? 0x1p-10 : d == EIN_F32 ? 1e-6 : 1e-14;
}

static double wrapped(ein_dtype d, double x)
{
    int64_t i = (int64_t)x;
    return d == EIN_I8 ? (int8_t)(uint8_t)(uint64_t)i : d == EIN_I32 ? (int32_t)(uint32_t)(uint64_t)i : (double)i;
}

static bool check_case(const case_data *c, int i, int devices)
{
    for (int64_t k = 0; k < numel(&c->x.result); k++) {
        double got = ein__dtype_read(c->type, (const char *)c->result + k * ein__dtype_bytes(c->type)),
               want = c->want[k];
        bool ok = ein__dtype_is_float(c->type) ? fabs(got - want) <= tolerance(c->type) * c->size[k]
                                               : got == wrapped(c->type, want);
        if (ok) continue;
        fprintf(stderr, "%s of %s, shapes %s, %d devices: element %lld is %.9g, not %.9g\n", rows[i].equation,
                ein__dtype_name(c->type), rows[i].shapes != NULL ? rows[i].shapes : "by letter", devices, (long long)k,
                got, want);
        return false;
    }
    return true;
}

static void bind(case_data *cases, ein_run *r)
{
    for (int i = 0; i < ROWS; i++) {
        case_data *c = &cases[i];
        char name[32];
        size_t bytes = (size_t)ein__dtype_bytes(c->type), n = (size_t)numel(&c->x.result) * bytes;
        for (int k = 0; k < c->x.n; k++) {
            operand_name(name, i, k);
            assert_int_equal(ein_run_input(r, name, c->operands[k], (size_t)numel(&c->x.operands[k]) * bytes), EIN_OK);
        }
        snprintf(name, sizeof name, "%d", i);
        memset(c->result, 0x7f, n); /* what nobody writes is seen */
        assert_int_equal(ein_run_output(r, name, c->result, n), EIN_OK);
    }
}

/* The rows that are wrong. */
static int run_on(const ein_graph *g, case_data *cases, int devices)
{
    char machine[32];
    text plan = {0};
    error e = {0};
    ein_run *r = NULL;
    int wrong = 0;
    snprintf(machine, sizeof machine, "host:%d", devices);
    ein_context *c = open_context(machine, NULL);
    if (devices > 1 && random_plan_text(g, (uint64_t)devices, devices, &plan, &e) != EIN_OK)
        fail_msg("no plan: %s", e.line);
    ein_compile_options o = {.size = sizeof o, .plan = devices > 1 ? ein__text_get(&plan) : NULL};
    ein_program *p = compile_program(c, g, &o);
    assert_int_equal(ein_run_create(&r, p), EIN_OK);
    bind(cases, r);
    if (ein_run_once(r) != EIN_OK) fail_msg("%s", ein_run_error(r));
    for (int i = 0; i < ROWS; i++) wrong += !check_case(&cases[i], i, devices);
    ein_run_free(r);
    ein_program_free(p);
    ein_context_free(c);
    ein__text_free(&plan);
    return wrong;
}

static void run_types(const ein_dtype *types, int n_types)
{
    static case_data cases[ROWS];
    int wrong = 0;
    ein_graph *g = make_graph(cases, types, n_types);
    wrong += run_on(g, cases, 1) + run_on(g, cases, 2) + run_on(g, cases, 3) + run_on(g, cases, 8);
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < cases[i].x.n; k++) {
            free(cases[i].values[k]);
            free(cases[i].operands[k]);
        }
        free(cases[i].result);
        free(cases[i].want);
        free(cases[i].size);
    }
    ein_graph_free(g);
    printf("%d expressions, each on 1 2 3 8 devices: %d wrong\n", ROWS, wrong);
    assert_int_equal(wrong, 0);
}

static void in_f32(void **state)
{
    (void)state;
    run_types((ein_dtype[]){EIN_F32}, 1);
}

static void in_other_types(void **state)
{
    (void)state;
    run_types((ein_dtype[]){EIN_I32, EIN_I64, EIN_F64, EIN_BF16, EIN_F16, EIN_I8}, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_f32), cmocka_unit_test(in_other_types)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
