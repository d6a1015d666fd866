/* SPDX-License-Identifier: Apache-2.0 */
/* What the families share: the table's entries, the writer of a text and its arguments, and nests, which are
 * loops over a label box. Private to jit/family. */
#ifndef JIT_FAMILY_PARTS_H
#define JIT_FAMILY_PARTS_H

#include "jit/family/family.h"

extern const family ein__family_product, ein__family_map, ein__family_row, ein__family_attention,
    ein__family_gather, ein__family_move, ein__family_append, ein__family_custom;

/* ---- writer ------------------------------------------------------------------------------------------- */

/* A kernel text in the making and, in the order of its parameters, the arguments. Failures stick and are
 * returned by ein__writer_end, which also frees the texts. */
typedef struct writer {
    arena *arena;
    text params; /* "IN(float, x0) SEP ..." */
    text body;   /* what stands between the kernel's braces */
    struct { int n, room; arg *items; } args;
    ein_status status;
} writer;

void ein__writer_begin(writer *w, arena *a);
/* Pointers: to the view's first point, moved by `elements`. */
void ein__writer_in(writer *w, const view *v, i64 elements, const char *id);
void ein__writer_out(writer *w, const view *v, i64 elements, const char *id);
void ein__writer_int(writer *w, const char *id, i64 x);
void ein__writer_float(writer *w, const char *id, double x);
/* Run-time scalar + x; scalar -1: x alone. */
void ein__writer_scalar(writer *w, const char *id, int scalar, i64 x);
/* `head` becomes the text's first comment; `out` gets kernel and arguments, its grid is the caller's. */
ein_status ein__writer_end(writer *w, const char *head, int threads, launch *out);

/* The argument for a view, moved by `elements`. */
arg ein__arg_pointer(const view *v, i64 elements, bool written);

/* printf into a short name. */
typedef struct short_text { char s[32]; } short_text;
short_text ein__name(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A power of two in [32, 256], not below n where that can be. */
int ein__threads_for(i64 n);
/* Blocks of `size` that cover n. */
i64 ein__blocks(i64 n, i64 size);
bool ein__box_empty(const label_box *box, int n_labels, uint32_t except);

/* ---- nests -------------------------------------------------------------------------------------------- */

enum { MAX_VIEWS = MAX_OPERANDS + MAX_STATISTICS + 1 };

/* One loop: extent, and the stride of every view, inputs first, then the output. */
typedef struct loop_dim { i64 n, stride[MAX_VIEWS]; } loop_dim;

/* A label box as loops. Parallel ones but the lane are decoded from the block's number, aggregated ones are
 * uniform loops, the threads of a block lie along the lane. */
typedef struct loop_set {
    int n_views;
    int n_outer, n_inner;
    loop_dim outer[MAX_LABELS], inner[MAX_LABELS]; /* major first */
    loop_dim lane;
    bool across; /* the lane is aggregated: a block makes one element */
} loop_set;

/* A statistic: combine(so far, body) over the aggregated labels. */
typedef struct statistic {
    const expr *body;    /* of the inputs, then the earlier statistics */
    const expr *combine; /* of two states */
    double identity;
} statistic;

/* Rows that move to places known in the run: row s of the input goes to place scalar + first + s of the
 * output, if that is one of its n_places. */
typedef struct shift {
    int scalar; /* -1: none */
    i64 first, n_rows, n_places, row_stride, place_stride;
} shift;

/* What is computed over a box: statistics over its aggregated labels, then `last`, which is stored either at
 * every point (of the inputs, then the statistics) or once for each point of the parallel labels (of the
 * statistics alone; NULL: the only statistic itself). */
typedef struct nest {
    const char *what; /* for the text's head comment */
    int n_labels;
    label_box box;        /* only lengths count */
    uint32_t aggregated;  /* labels */
    int n_in;
    const view *in;
    const view *out;
    int n_statistics;
    statistic statistics[MAX_STATISTICS];
    const expr *last;
    bool everywhere;
    const shift *shift; /* or NULL; for a nest of one input */
} nest;

/* Loops of a nest: unit extents dropped, neighbours joined where every view allows, the lane chosen. */
void ein__loops_make(const nest *n, loop_set *out);
/* One kernel for one nest, or for several that have no statistics (their blocks one after the other). */
ein_status ein__nest_emit(arena *a, const nest *nests, int n, launch *out);

#endif
