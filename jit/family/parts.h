/* SPDX-License-Identifier: Apache-2.0 */
/* What the families share: the table's entries, the writer of a text and its arguments, and nests, which are
 * loops over a label box. Private to jit/family. */
#ifndef JIT_FAMILY_PARTS_H
#define JIT_FAMILY_PARTS_H

#include "jit/family/family.h"

extern const family ein__family_product, ein__family_map, ein__family_row, ein__family_attention,
    ein__family_gather, ein__family_move, ein__family_append, ein__family_select, ein__family_custom;

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
void ein__writer_double(writer *w, const char *id, double x);
/* Run-time scalar + x; scalar -1: x alone. */
void ein__writer_scalar(writer *w, const char *id, int scalar, i64 x);
/* `head` becomes the text's first comment; `out` gets kernel and arguments, its grid is the caller's. */
ein_status ein__writer_end(writer *w, const char *head, int threads, launch *out);

/* The argument for a view, moved by `elements`. */
arg ein__arg_pointer(const view *v, i64 elements, bool written);

/* printf into a short name. */
typedef struct short_text { char s[48]; } short_text;
short_text ein__name(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A power of two in [32, 256], not below n where that can be. */
int ein__threads_for(i64 n);
/* Blocks of `size` that cover n. */
i64 ein__blocks(i64 n, i64 size);
bool ein__box_empty(const label_box *box, int n_labels, uint32_t except);

/* ---- loops -------------------------------------------------------------------------------------------- */

enum {
    MAX_INPUTS = MAX_OPERANDS + MAX_INDICES + MAX_STATISTICS,
    MAX_VIEWS = MAX_INPUTS + MAX_STATES,
    MAX_ARGUMENTS = MAX_INPUTS + MAX_STATES /* of an expression */
};

/* One loop: extent, and the stride of every view, inputs first, then the outputs. */
typedef struct loop_dim { i64 n, stride[MAX_VIEWS]; } loop_dim;

/* A label box as loops. Parallel ones but the lane are decoded from the block's number, aggregated ones are
 * uniform loops, the threads of a block lie along the lane. */
typedef struct loop_set {
    int n_views;
    int n_outer, n_inner;
    loop_dim outer[MAX_LABELS], inner[MAX_LABELS]; /* major first */
    loop_dim lane;
    bool across; /* the lane is aggregated: a block makes one element of every output */
} loop_set;

/* The states of a merge: combine(so far, body) over the aggregated labels. */
typedef struct statistic {
    const merge *merge;
    const expr *body; /* one a state; of the inputs, then the states of earlier statistics */
} statistic;

/* Rows that move to places known in the run: row s of the input goes to place scalar + first + s of the
 * output, if that is one of its n_places. */
typedef struct shift {
    int scalar; /* -1: none */
    i64 first, n_rows, n_places, row_stride, place_stride;
} shift;

/* What is computed over a box: statistics over its aggregated labels, then `last`, which is stored either at
 * every point (one output; of the inputs, then all states) or once for each point of the parallel labels (of the
 * states alone; output i without one: state i). */
typedef struct nest {
    const char *what; /* for the text's head comment */
    int n_labels;
    label_box box;        /* only lengths count */
    uint32_t aggregated;  /* labels */
    bool across;          /* the lane has to be the aggregated label, of which there is one */
    int n_in, n_out;
    const view *in, *out;
    int n_statistics;
    statistic statistics[MAX_STAGES];
    const expr *last; /* one an output */
    bool everywhere;
    const shift *shift; /* or NULL; for a nest of one input */
} nest;

/* Loops of a nest: unit extents dropped, neighbours joined where every view allows, the lane chosen. */
void ein__loops_make(const nest *n, loop_set *out);

/* ---- outlines ----------------------------------------------------------------------------------------- */

/* The part of a text that follows from the loops: parameters, a block's place, loops around phases. */
typedef struct outline {
    writer *w;
    const nest *n;
    loop_set loops;
    short_text prefix;  /* of all names, where a text has several outlines */
    int threads, items; /* elements of the lane per thread, where it is parallel */
    int depth;          /* of indentation */
    uint64_t used, raw; /* inputs that are read; those whose values are as in memory, not in the compute type */
} outline;

#define LINE(f, ...) (ein__outline_indent(f), ein__text_add(&(f)->w->body, __VA_ARGS__))
void ein__outline_indent(const outline *f);

void ein__outline_begin(outline *f, writer *w, const nest *n, uint64_t used, const char *prefix);
void ein__outline_parameters(outline *f);
i64 ein__outline_blocks(const outline *f);
/* From the block's number to indices of the outer loops, and for every view the place x0_b. */
void ein__outline_decode(outline *f, const char *block);
/* Open the loops over the lane and, if `inner`, over the aggregated labels, up to the phase. There the uniform
 * ones of the inputs in `set` are values v0, v1, ... and the views' places are x0_at, those of outputs if `stored`. */
void ein__outline_points(outline *f, uint64_t set, bool inner, bool stored);
/* x0_at alone. */
void ein__outline_place(outline *f, int v, bool inner);
/* The phase, with the values of the set's other inputs. */
void ein__outline_phase(outline *f, uint64_t set);
void ein__outline_close(outline *f, int braces);
/* Element `at` ("tid") along the lane from the view's place "at" or "b": "x0_at + tid * x0_l". */
short_text ein__outline_element(const outline *f, int v, const char *place, const char *at);
/* "x0", "y1": views are numbered inputs first. */
short_text ein__outline_name(const outline *f, int v);

/* A job's operands, the indices that its node reads, and the statistics that it is given. */
ein_status ein__job_inputs(arena *a, const job *j, const view **in, int *n_in);
/* One kernel for one nest, or for several that have no statistics (their blocks one after the other). */
ein_status ein__nest_emit(arena *a, const nest *nests, int n, launch *out);

#endif
