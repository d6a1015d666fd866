/* SPDX-License-Identifier: Apache-2.0 */
/* Products for the target's matrix library: two operands of f32, bf16 or f16, multiplied and summed in f32. Every label is of one of
 * four classes by which of A, B and C have it: batch, m, n, k. Neighbours whose strides multiply become one
 * dimension; k must become a single one, and of the m and n dimensions one each is the matrix's, the others
 * count as batch, with stride 0 in the operand that lacks them. */
#include "jit/family/parts.h"

enum { CLASS_BATCH, CLASS_M, CLASS_N, CLASS_K, CLASSES };
enum { OF_A, OF_B, OF_C };

typedef struct dimension { i64 n, stride[3]; } dimension;
typedef struct class_dims { int n; dimension at[MAX_LABELS]; } class_dims;

static int class_of(const dimension *d)
{
    bool a = d->stride[OF_A] != 0, b = d->stride[OF_B] != 0;
    if (d->stride[OF_C] == 0) return a && b ? CLASS_K : -1;
    return a && b ? CLASS_BATCH : a ? CLASS_M : b ? CLASS_N : -1;
}

/* Insert by falling strides, in the operand that leads the class. */
static void insert(class_dims *c, int lead, dimension d)
{
    int at = c->n++;
    for (; at > 0 && c->at[at - 1].stride[lead] < d.stride[lead]; at--) c->at[at] = c->at[at - 1];
    c->at[at] = d;
}

static void collapse(class_dims *c)
{
    int kept = 0;
    for (int i = 0; i < c->n; i++) {
        bool joins = kept > 0;
        for (int v = 0; v < 3 && joins; v++)
            joins = c->at[kept - 1].stride[v] == c->at[i].n * c->at[i].stride[v];
        if (joins) c->at[i].n *= c->at[--kept].n;
        c->at[kept++] = c->at[i];
    }
    c->n = kept;
}

static bool classify(const job *j, class_dims classes[CLASSES])
{
    const view *views[3] = {&j->in[0], &j->in[1], &j->out[0]};
    for (int l = 0; l < j->node->spec.n_labels; l++) {
        dimension d = {.n = j->box.len[l]};
        for (int v = 0; v < 3; v++) d.stride[v] = views[v]->stride[l];
        if (d.n == 1) continue;
        int c = class_of(&d);
        if (d.n == 0 || c < 0) return false;
        insert(&classes[c], c == CLASS_K ? OF_A : OF_C, d);
    }
    for (int c = 0; c < CLASSES; c++) collapse(&classes[c]);
    return classes[CLASS_K].n == 1;
}

/* A stored matrix of which one dimension has unit stride: its leading dimension, and whether it is stored
 * with rows and columns exchanged. */
static bool matrix(i64 rows, i64 row_stride, i64 cols, i64 col_stride, bool *exchanged, i64 *leading)
{
    if (cols == 1 || col_stride == 1) {
        *exchanged = false;
        *leading = rows > 1 ? row_stride : cols;
        return *leading >= cols;
    }
    *exchanged = true;
    *leading = col_stride;
    return (rows == 1 || row_stride == 1) && *leading >= rows;
}

/* The product with dimension im of the row class and in of the column class (-1: none) as the matrix's;
 * `a` and `b` say which operand is A and which is B. */
static bool shape(const class_dims *classes, int row_class, int im, int in, int a, int b, gemm *g)
{
    const class_dims *rows = &classes[row_class], *cols = &classes[row_class == CLASS_M ? CLASS_N : CLASS_M];
    const dimension none = {.n = 1}, *k = &classes[CLASS_K].at[0];
    const dimension *m = im < 0 ? &none : &rows->at[im], *n = in < 0 ? &none : &cols->at[in];
    bool exchanged;
    *g = (gemm){.m = m->n, .n = n->n, .k = k->n};
    if (!matrix(m->n, m->stride[a], k->n, k->stride[a], &g->ta, &g->lda)) return false;
    if (!matrix(k->n, k->stride[b], n->n, n->stride[b], &g->tb, &g->ldb)) return false;
    if (!matrix(m->n, m->stride[OF_C], n->n, n->stride[OF_C], &exchanged, &g->ldc) || exchanged) return false;
    for (int c = 0; c < CLASS_K; c++)
        for (int i = 0; i < classes[c].n; i++) {
            const dimension *d = &classes[c].at[i];
            if (d == m || d == n) continue;
            if (g->n_batch == 3) return false;
            g->batch[g->n_batch] = d->n;
            g->stride_a[g->n_batch] = d->stride[a];
            g->stride_b[g->n_batch] = d->stride[b];
            g->stride_c[g->n_batch++] = d->stride[OF_C];
        }
    return true;
}

/* The choice with the largest matrix; `swapped`: the job's second operand is A. */
static bool choose(const job *j, gemm *best, bool *swapped)
{
    class_dims classes[CLASSES] = {0};
    bool found = false;
    if (!classify(j, classes)) return false;
    for (int swap = 0; swap < 2; swap++) {
        int row_class = swap ? CLASS_N : CLASS_M, col_class = swap ? CLASS_M : CLASS_N;
        for (int im = classes[row_class].n > 0 ? 0 : -1; im < classes[row_class].n; im++)
            for (int in = classes[col_class].n > 0 ? 0 : -1; in < classes[col_class].n; in++) {
                gemm g;
                if (shape(classes, row_class, im, in, swap ? OF_B : OF_A, swap ? OF_A : OF_B, &g) &&
                    (!found || g.m * g.n > best->m * best->n)) {
                    *best = g;
                    *swapped = swap == 1;
                    found = true;
                }
            }
    }
    return found;
}

/* A matrix library's own: operands alike, the result of their type or f32. */
static bool alike(ein_dtype a, ein_dtype b, ein_dtype c) { return a == b && (c == a || c == EIN_F32); }

static bool takes(ein_dtype d) { return d == EIN_F32 || d == EIN_BF16 || d == EIN_F16; }

static bool applicable(const job *j)
{
    gemm g;
    bool swapped;
    const merge *m = j->node->spec.merge;
    if (j->node->kind != OP_MAP || !j->node->product || j->n_in != 2 || j->n_out != 1) return false;
    if (j->mode != JOB_FINAL && j->mode != JOB_STATES) return false;
    if (m == NULL || (j->mode == JOB_FINAL && m->finalize[0].n > 0)) return false;
    if (!takes(j->in[0].dtype) || !takes(j->in[1].dtype) || !takes(j->out[0].dtype)) return false;
    if (j->alike_products && !alike(j->in[0].dtype, j->in[1].dtype, j->out[0].dtype)) return false;
    return choose(j, &g, &swapped);
}

static ein_status emit(arena *a, const job *j, launch *out, error *e)
{
    bool swapped = false;
    *out = (launch){.kind = STEP_GEMM, .n_args = 3};
    if (!choose(j, &out->gemm, &swapped))
        return ein__fail(e, EIN_INTERNAL, "%s: not a matrix product", j->node->name);
    out->gemm.type_a = j->in[swapped ? 1 : 0].dtype;
    out->gemm.type_b = j->in[swapped ? 0 : 1].dtype;
    out->gemm.type_c = j->out[0].dtype;
    NEW(a, out->args, 3);
    out->args[0] = ein__arg_pointer(&j->in[swapped ? 1 : 0], 0, false);
    out->args[1] = ein__arg_pointer(&j->in[swapped ? 0 : 1], 0, false);
    out->args[2] = ein__arg_pointer(&j->out[0], 0, true);
    return EIN_OK;
}

const family ein__family_product = {"product", applicable, emit};
